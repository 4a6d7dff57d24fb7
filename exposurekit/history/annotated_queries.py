"""Findings and steps joined with the analyst's annotations, and the questions that need both."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pandas as pd

from exposurekit import analysis, frames
from exposurekit.analysis import tasks
from exposurekit.errors import InvalidArgument
from exposurekit.history.annotations import STEP, Annotations, key_columns, rows_of
from exposurekit.history.reader import HistoryReader
from exposurekit.history.times import When

_TICK_COLUMNS = {"value": "tick", "note": "tick_note", "marked_at": "ticked_at"}
_LABEL_COLUMNS = {"value": "label", "note": "label_reason", "marked_at": "labelled_at"}


class PersonalData(Protocol):
    """Adds what people have on file to alerts; an `Exposure` does."""

    def with_people(self, alerts: pd.DataFrame) -> pd.DataFrame:
        """Return the alerts with ``person`` and ``form_values``."""


@dataclass(frozen=True, slots=True)
class AnnotatedQueries:
    """The questions of `analysis` that take labels or ticks, asked of one history."""

    reader: HistoryReader
    annotations: Annotations

    def steps(self, as_of: When = None, *, exposure: PersonalData | None = None) -> pd.DataFrame:
        """List the manual opt-out steps and their ticks: one row per step of each alert that is listed.

        Args:
            as_of: An instant, or a day (until its end, UTC); None: now. Ticks are always the newest.
            exposure: An `Exposure`, for who each listing is about and what to enter, which a history does not store.

        Returns:
            The columns of `Exposure.steps` (``person`` and ``form_values`` are missing without ``exposure``),
            ``first_seen_at`` (of the alert) and those of `with_ticks`.

        Raises:
            NotFound: Nothing was observed by then.

        Source: specification, "Alert".

        >>> history.steps().columns.tolist()[-4:]
        ['tick', 'tick_note', 'ticked_at', 'label']
        """
        alerts = self.reader.alerts(as_of)
        listed = alerts[alerts["presence"] == analysis.LISTED].reset_index(drop=True)
        listed = tasks.without_people(listed) if exposure is None else exposure.with_people(listed)
        return self.with_ticks(frames.steps_from_alerts(listed, beside=("first_seen_at",)))

    def with_ticks(self, steps: pd.DataFrame) -> pd.DataFrame:
        """Join the newest tick of each step, and the newest label of its listing, to steps.

        Args:
            steps: A table as returned by `Exposure.steps`.

        Returns:
            The same rows, and ``tick`` (``done``, ``unable`` or ``open``; missing: no tick), ``tick_note`` (text),
            ``ticked_at`` (UTC), ``label`` (``mine``, ``not mine`` or ``unsure``; missing: no label, or a page).

        Raises:
            InvalidArgument: The rows are not steps.

        >>> len(history.with_ticks(exposure.steps())) == len(exposure.steps())
        True
        """
        ticked = self._join(steps, self.annotations.ticks(), STEP, _TICK_COLUMNS)
        return ticked.assign(label=self._listing_labels(ticked))

    def with_labels(self, records: pd.DataFrame | None = None) -> pd.DataFrame:
        """Join the newest label to records: are they about the person?

        Args:
            records: A table as returned by `Exposure.records` or `records`; None: `records` now.

        Returns:
            The same rows, and ``label`` (``mine``, ``not mine`` or ``unsure``; missing: no label), ``label_reason``
            (text), ``labelled_at`` (UTC).

        Raises:
            InvalidArgument: The rows are not records.

        >>> "label" in history.with_labels().columns
        True
        """
        rows = self.reader.records() if records is None else records
        return self._join(rows, self.annotations.labels(), "record", _LABEL_COLUMNS)

    def work_queue(self, as_of: When = None, *, exposure: PersonalData | None = None) -> pd.DataFrame:
        """Order the manual removals that are left by what clears most for the time: `analysis.work_queue`.

        Listings labelled ``not mine`` are left out.

        Args:
            as_of: As in `steps`: what was listed then, with the newest ticks.
            exposure: An `Exposure`, for ``person`` and ``form_values``, which are missing without it.

        >>> "items_per_minute" in history.work_queue().columns
        True
        """
        return analysis.work_queue(self.steps(as_of, exposure=exposure))

    def _listing_labels(self, steps: pd.DataFrame) -> "pd.Series[str]":
        """The newest label of each step's record; missing for a page."""
        columns = [name for name in ("user_id", "record_id", "site", "reference_id") if name in steps]
        records = steps.loc[steps["record_id"].notna(), columns]
        labels = self.with_labels(records)["label"].to_numpy("object")
        return pd.Series(labels, records.index, dtype="str").reindex(steps.index)

    def precision(self, as_of: When = None) -> pd.DataFrame:
        """Estimate the share of each site's findings that are about the person, from labels: `analysis.precision`.

        Args:
            as_of: An instant, or a day (until its end, UTC), by which they were found; None: now. Labels are the newest.

        >>> history.precision().columns.tolist()[:2]
        ['site', 'mine']
        """
        return analysis.precision(self.with_labels(self.reader.records(as_of)))

    def _join(
        self, rows: pd.DataFrame, annotations: pd.DataFrame, kind: str, names: Mapping[str, str]
    ) -> pd.DataFrame:
        columns = [*names.values()]
        of_kind = annotations[annotations["kind"] == kind].rename(columns=names)
        of_kind = of_kind[["user_id", "key", *columns]]
        self._keys(rows.head(1), kind)  # one row is enough to check the kind
        # Keys are computed only for rows of users with annotations.
        positions = np.flatnonzero(rows["user_id"].isin(of_kind["user_id"]))
        keys = pd.DataFrame(self._keys(rows.iloc[positions], kind), columns=["user_id", "key"]).astype(
            "int64"
        )
        joined = keys.merge(of_kind, on=["user_id", "key"], how="left").set_axis(positions)
        joined = joined.reindex(range(len(rows)))
        return rows.assign(**{name: joined[name].array for name in columns})

    def _keys(self, rows: pd.DataFrame, kind: str) -> list[dict[str, Any]]:
        keys = [key_columns(row, self.reader.records_by) for row in rows_of(rows)]
        if any(key["kind"] != kind for key in keys):
            raise InvalidArgument(f"These rows are not {kind}s: pass rows of {kind}s()")
        return keys
