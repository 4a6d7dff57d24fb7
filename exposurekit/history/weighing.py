"""Questions on what was seen together with what an analyst said of it, and on what may come. Writes nothing."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import pandas as pd

from exposurekit import analysis, frames
from exposurekit.analysis import tasks
from exposurekit.analysis.forecast import ARRIVALS_DAYS, HORIZONS
from exposurekit.errors import InvalidArgument
from exposurekit.history import annotations, queries
from exposurekit.history.conversion import frame
from exposurekit.history.marking import Marking
from exposurekit.history.times import When

_FORECAST_OF = ("user_id", "status", "first_seen_at", "changed_at")


class People(Protocol):
    """Who knows what people have on file; an `Exposure` does."""

    def with_people(self, alerts: pd.DataFrame) -> pd.DataFrame:
        """Alerts, ``person`` and ``form_values``."""


class Weighing(Marking):
    """A history that an analyst works with."""

    def steps(self, as_of: When = None, *, exposure: People | None = None) -> pd.DataFrame:
        """What a human must do, and how far it is: one row for each step of each alert that is listed.

        Args:
            as_of: An instant, or a day (until its end, UTC); None: now. Ticks are always the newest.
            exposure: An `Exposure`, for whose each listing is and what to enter, which no history keeps.

        Returns:
            The columns of `Exposure.steps` (``person`` and ``form_values`` are missing without ``exposure``),
            ``first_seen_at`` (of the alert) and those of `with_ticks`.

        Raises:
            NotFound: Nothing was seen by then.

        Source: specification, "Alert".

        >>> history.steps().columns.tolist()[-3:]
        ['tick', 'tick_note', 'ticked_at']
        """
        alerts = self.alerts(as_of)
        listed = alerts[alerts["standing"] == analysis.LISTED].reset_index(drop=True)
        listed = tasks.without_people(listed) if exposure is None else exposure.with_people(listed)
        return self.with_ticks(frames.steps_from_alerts(listed, beside=("first_seen_at",)))

    def with_ticks(self, steps: pd.DataFrame) -> pd.DataFrame:
        """Join the newest tick of each step to steps.

        Args:
            steps: As `Exposure.steps` gives them.

        Returns:
            The same rows, and ``tick`` (``done``, ``unable`` or ``open``; missing: nobody said), ``tick_note`` (text),
            ``ticked_at`` (UTC).

        Raises:
            InvalidArgument: The rows are no steps.

        >>> len(history.with_ticks(exposure.steps())) == len(exposure.steps())
        True
        """
        ticks = self.ticks().rename(columns={"value": "tick", "note": "tick_note", "marked_at": "ticked_at"})
        return self._beside(steps, ticks, annotations.STEP, ["tick", "tick_note", "ticked_at"])

    def with_labels(self, records: pd.DataFrame | None = None) -> pd.DataFrame:
        """Join the newest label to records: are they about the person?

        Args:
            records: As `Exposure.records` or `records` give them; None: those that are known now.

        Returns:
            The same rows, and ``label`` (``mine``, ``not mine`` or ``unsure``; missing: nobody said), ``label_reason``
            (text), ``labelled_at`` (UTC).

        Raises:
            InvalidArgument: The rows are no records.

        >>> "label" in history.with_labels().columns
        True
        """
        given = self.records() if records is None else records
        named = {"value": "label", "note": "label_reason", "marked_at": "labelled_at"}
        labels = self.labels().rename(columns=named)
        return self._beside(given, labels, "record", [*named.values()])

    def work_queue(self, as_of: When = None, *, exposure: People | None = None) -> pd.DataFrame:
        """The manual removals that are left, in the order that clears most for the time: `analysis.work_queue`.

        Args:
            as_of: As of `steps`: what was listed then, with the newest ticks.
            exposure: An `Exposure`, for ``person`` and ``form_values``, which are missing without it.

        >>> history.work_queue().columns.tolist()[:3]
        ['place', 'group', 'site']
        """
        return analysis.work_queue(self.steps(as_of, exposure=exposure))

    def score(self, as_of: When = None, *, weights: Mapping[str, float] | None = None) -> pd.DataFrame:
        """How exposed each person is, in points, at an instant: `analysis.score`.

        Args:
            as_of: An instant, or a day (until its end, UTC); None: now.
            weights: Other points than `analysis.WEIGHTS`, for some.

        Raises:
            NotFound: Nothing was seen by then.
            InvalidArgument: A weight is none.

        >>> history.score().columns.tolist()
        ['user_id', 'listings', 'pages', 'of_listings', 'of_pages', 'score']
        """
        return analysis.score(self.records(as_of), self.links(as_of), weights=weights)

    def score_changes(
        self, a: When, b: When = None, *, weights: Mapping[str, float] | None = None
    ) -> pd.DataFrame:
        """Why everybody's score moved from one instant to another: `analysis.score_changes`.

        Args:
            a: From: an instant, or a day (from its end).
            b: Until, as of `diff`.
            weights: As of `score`.

        Raises:
            NotFound: As of `diff`.
            InvalidArgument: ``b`` lies before ``a``, or a weight is none.

        >>> history.score_changes(history.runs()["finished_at"].iloc[0]).columns.tolist()
        ['cause', 'n', 'score']
        """
        moved = {kind: self.diff(a, b, kind=kind).things for kind in ("record", "link")}
        before = float(self.score(a, weights=weights)["score"].sum())
        return analysis.score_changes(moved["record"], moved["link"], score_before=before, weights=weights)

    def precision(self, as_of: When = None) -> pd.DataFrame:
        """What share of each site's findings are about the person, as far as labelled: `analysis.precision`.

        Args:
            as_of: An instant, or a day (until its end, UTC), by which they were found; None: now. Labels are the newest.

        >>> history.precision().columns.tolist()[:2]
        ['site', 'mine']
        """
        return analysis.precision(self.with_labels(self.records(as_of)))

    def coverage(self) -> pd.DataFrame:
        """How long ago everybody was last seen well: `analysis.coverage`.

        >>> int(history.coverage()["people"].sum()) == len(exposure.users())
        True
        """
        return analysis.coverage(self.people(), at=self._clock())

    def site_health(self, as_of: When = None) -> pd.DataFrame:
        """Which sites look as if they could not be read: `analysis.site_health`.

        Args:
            as_of: An instant, or a day (until its end, UTC); None: now.

        >>> history.site_health().columns.tolist()[0]
        'site'
        """
        at = self._clock() if as_of is None else self._until(as_of)
        return analysis.site_health(self.records(as_of), at=at)

    def life_table(self, by: str | None = None, *, as_of: When = None) -> pd.DataFrame:
        """Return the life table: open episodes by their age, as `analysis.time_to_removal`, `survival` and `forecast` take it.

        Args:
            by: ``site``, or None for all together.
            as_of: A day, and no instant in it. None: the last look's day.

        Returns:
            One row for each number of episodes that came or went at one age: ``days``, ``flow``, ``left_censored``,
            ``n`` and the group.

        Raises:
            NotFound: Nothing was seen by then.
            InvalidArgument: ``by`` or ``as_of`` makes no sense.

        >>> sorted(history.life_table().columns)
        ['days', 'flow', 'left_censored', 'n']
        """
        if by not in (None, "site"):
            raise InvalidArgument("by is one of: None, site")
        return self._life_table(by, as_of)

    def forecast(
        self,
        days: Sequence[int] = HORIZONS,
        *,
        as_of: When = None,
        arrivals_days: int = ARRIVALS_DAYS,
        level: float = 0.95,
    ) -> pd.DataFrame:
        """Forecast how many records will be open, those of people who will register included: `analysis.forecast`.

        Args:
            days: Horizons in days, from that day on.
            as_of: A day, and no instant in it: the forecast as of then. None: the last run's day.
            arrivals_days: How many days before it new records are counted over.
            level: Of the interval.

        Raises:
            NotFound: Nothing was seen by then.
            InvalidArgument: ``as_of`` is an instant, or ``days`` or ``level`` makes no sense.

        >>> history.forecast(days=[30]).columns.tolist()[:2]
        ['days', 'open_now']
        """
        moment = self._moment()
        at = self._until(as_of, moment)
        given = {"as_of": at, "upto": moment.upto}
        return analysis.forecast(
            self._stood("record", at, moment, _FORECAST_OF),
            self.life_table("site", as_of=as_of),
            self.relistings(as_of),
            people=frame(self._ask(queries.WATCHED, ("exceptions", "runs"), given)),
            at=at,
            days=days,
            arrivals_days=arrivals_days,
            level=level,
        )

    def _beside(self, rows: pd.DataFrame, said: pd.DataFrame, kind: str, columns: list[str]) -> pd.DataFrame:
        """Rows, and what was said of each."""
        of_kind = said.loc[said["kind"] == kind, ["user_id", "key", *columns]]
        self._places(rows.head(1), kind)  # one tells whether they are of this kind at all
        # Whose things nobody said anything of need no looking up.
        about = np.flatnonzero(rows["user_id"].isin(of_kind["user_id"]))
        keyed = pd.DataFrame(self._places(rows.iloc[about], kind), columns=["user_id", "key"]).astype("int64")
        found = keyed.merge(of_kind, on=["user_id", "key"], how="left").set_axis(about)
        found = found.reindex(range(len(rows)))
        return rows.assign(**{name: found[name].array for name in columns})

    def _places(self, rows: pd.DataFrame, kind: str) -> list[dict[str, Any]]:
        places = [annotations.key_columns(row, self._records_by) for row in annotations.rows(rows)]
        if any(place["kind"] != kind for place in places):
            raise InvalidArgument(f"These rows are no {kind}s: take them from {kind}s()")
        return places
