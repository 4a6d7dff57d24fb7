"""Findings and steps joined with the analyst's annotations, and the questions that need both."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pandas as pd

from exposurekit import analysis, frames
from exposurekit.analysis import tasks
from exposurekit.analysis.work_queue import stalled_sites
from exposurekit.errors import InvalidArgument, NotFound
from exposurekit.history.annotations import LABEL, NOTE, STEP, TICK, Annotations, key_columns, rows_of
from exposurekit.history.reader import HistoryReader
from exposurekit.text.times import When

_TICK_COLUMNS = {"value": "tick", "note": "tick_note", "marked_at": "ticked_at"}
_ITEM_COLUMNS = ("site", "record_id", "reference_id")  # of what is annotated, as far as it has them
_LABEL_COLUMNS = {"value": "label", "note": "label_reason", "marked_at": "labelled_at"}


class PersonalData(Protocol):
    """Adds what people have on file to alerts; an `Exposure` does."""

    def with_people(self, table: pd.DataFrame, /) -> pd.DataFrame:
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

    def labels(self) -> pd.DataFrame:
        """List the newest label of each item: ``user_id``, ``site``, ``record_id``, ``reference_id``, ``value``, ``note``, ...

        >>> history.labels().columns.tolist()[:5]
        ['user_id', 'site', 'record_id', 'reference_id', 'value']
        """
        return self._described(self.annotations.newest(LABEL), "value")

    def ticks(self, *, exposure: PersonalData | None = None) -> pd.DataFrame:
        """List the newest tick of each step.

        Args:
            exposure: An `Exposure`, for ``person``, which a history does not store.

        Returns:
            One row per ticked step: ``user_id``, ``person`` (with ``exposure``), ``site``, ``record_id`` (Int64),
            ``reference_id``, ``label`` (of the listing), ``step_number`` and ``step`` (its text), ``value`` (``done``,
            ``unable`` or ``open``), ``note``, ``marked_at`` (UTC), ``kind``, ``key``.

        >>> history.ticks().columns.tolist()[4:7]
        ['label', 'step_number', 'step']
        """
        ticks = self._described(self.annotations.newest(TICK), "step_number", "step", "value")
        ticks.insert(4, "label", self._listing_labels(ticks))
        return ticks if exposure is None else exposure.with_people(ticks)

    def notes(self) -> pd.DataFrame:
        """List all notes, oldest first: ``user_id``, ``site``, ``record_id``, ``reference_id``, ``note``, ``marked_at``, ...

        >>> history.notes().columns.tolist()[4:6]
        ['step_number', 'note']
        """
        return self._described(self.annotations.every(NOTE), "step_number")

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
        ticked = self._join(steps, self.annotations.newest(TICK), STEP, _TICK_COLUMNS)
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
        return self._join(rows, self.annotations.newest(LABEL), "record", _LABEL_COLUMNS)

    def work_queue(self, as_of: When = None, *, exposure: PersonalData | None = None) -> pd.DataFrame:
        """Order the manual removals that are left by what clears most for the time: `analysis.work_queue`.

        Listings labelled ``not mine`` are left out. `stalled_sites` come later.

        Args:
            as_of: As in `steps`: what was listed then, with the newest ticks.
            exposure: An `Exposure`, for ``person`` and ``form_values``, which are missing without it.

        >>> "items_per_minute" in history.work_queue().columns
        True
        """
        return analysis.work_queue(self.steps(as_of, exposure=exposure), stalled=self.stalled_sites(as_of))

    def stalled_sites(self, as_of: When = None) -> dict[str, str]:
        """Return the sites that remove nothing, with the reason: see `exposurekit.analysis.work_queue`.

        >>> history.stalled_sites()
        {...}
        """
        latest = self.reader.latest()
        if latest.first_at is None:
            return {}
        until = self.reader.instant(as_of, latest)
        moves = self.reader.transitions("record", ("site",), "day", latest.upto, until=until)
        return stalled_sites(moves, until)

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

    def _described(self, annotations: pd.DataFrame, *columns: str) -> pd.DataFrame:
        """Add the columns that identify each annotated item to people; missing where it was never observed."""
        added, keys = [*_ITEM_COLUMNS, "step"], ["user_id", "kind", "key"]
        items = [self._items_of(str(kind), rows, added) for kind, rows in annotations.groupby("kind")]
        details = pd.concat([annotations[keys].head(0), *items]).reindex(columns=[*keys, *added])
        types = annotations[keys].dtypes.to_dict() | dict.fromkeys(added, "str") | {"record_id": "Int64"}
        table = annotations.merge(details.drop_duplicates(keys).astype(types), on=keys, how="left")
        return table[["user_id", *_ITEM_COLUMNS, *columns, "note", "marked_at", "kind", "key"]]

    def _items_of(self, kind: str, annotations: pd.DataFrame, columns: list[str]) -> pd.DataFrame:
        try:
            table = self.reader.alerts() if kind == STEP else getattr(self.reader, f"{kind}s")()
        except NotFound:  # the first annotation may begin the history
            return pd.DataFrame()
        rows = table[table["user_id"].isin(annotations["user_id"])]
        rows = frames.steps_from_alerts(rows) if kind == STEP else rows
        keys = pd.DataFrame(self._keys(rows, kind), columns=["user_id", "kind", "key"])
        return keys.assign(**{name: rows[name].astype("object").array for name in columns if name in rows})

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
