"""Scope: the day, people, sites and statuses that a dashboard displays, and the chart of each question."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import TypeAlias

import pandas as pd

from exposurekit import analysis, charts
from exposurekit.exposure import Exposure
from exposurekit.history import History
from exposurekit.text.sanitize import plain

NOW = "now"
CHANGES_DAYS = 14  # `changes` counts from so many days before the day, unless another start is picked


@dataclass(frozen=True, slots=True)
class Scope:
    """What a dashboard displays, and where it comes from.

    Attributes:
        exposure: The current tables, or None.
        history: The history, or None.
        all_records: The records of everyone on that day.
        day: The day; None: now.
        sites: The picked sites; empty: all.
        statuses: The picked statuses; empty: all.
        users: The ids of the picked people; empty: everyone.
        since: The day from which `changes` counts; None: `CHANGES_DAYS` before the day.
    """

    exposure: Exposure | None
    history: History | None
    all_records: pd.DataFrame = field(repr=False)
    day: date | None = None
    sites: tuple[str, ...] = ()
    statuses: tuple[str, ...] = ()
    users: tuple[int, ...] = ()
    since: date | None = None

    @property
    def records(self) -> pd.DataFrame:
        """The picked records."""
        return self.select(self.all_records)

    def select(self, table: pd.DataFrame) -> pd.DataFrame:
        """The picked rows of a table, by its columns ``user_id``, ``site`` and ``status``, as far as it has them."""
        for picked, column in ((self.users, "user_id"), (self.sites, "site"), (self.statuses, "status")):
            if picked and column in table:
                table = table[table[column].isin(picked)]
        return table

    @property
    def provenance(self) -> str:
        """The source of the figures, and what is picked."""
        return " · ".join(filter(None, [self.source, *self.filters]))

    @property
    def source(self) -> str:
        """The source of the figures, and as of when."""
        if self.day is None and self.exposure is not None:
            return self.exposure.provenance
        if self.history is None:
            return ""
        last = self.history.last_run()
        as_of = f"{self.day} (its end, UTC)" if self.day else f"{last.finished_at:%Y-%m-%d %H:%M} UTC"
        return f"history of {last.seq:,} runs · as of {as_of}"

    @property
    def filters(self) -> list[str]:
        """What is picked, in words; people by id."""
        return [words for words, _ in self._selection()]

    def provenance_for(self, columns: Iterable[str]) -> str:
        """The provenance of a table with these columns; it says which filters the table cannot apply."""
        selection = self._selection()
        applied = [words for words, column in selection if column in columns]
        note = "else everyone, everywhere" if len(applied) < len(selection) else ""
        return " · ".join(filter(None, [self.source, *applied, note]))

    @property
    def changes_since(self) -> date:
        """The day from which `changes` counts: `since`, or `CHANGES_DAYS` before the day, or the first run."""
        assert self.history is not None  # noqa: S101  offered with a history only
        first_run, last = self._run_days()
        start = self.since or last - timedelta(days=CHANGES_DAYS)
        return min(max(first_run, start), last)

    def _run_days(self) -> tuple[date, date]:
        """The days of the first run and of the displayed one."""
        assert self.history is not None  # noqa: S101  offered with a history only
        finished = self.history.runs()["finished_at"]
        return finished.min().date(), self.day or finished.max().date()

    def over_time(self, counts: pd.DataFrame) -> pd.DataFrame:
        """Counts over time until the day, for the picked people and sites.

        Args:
            counts: The counts of everyone on all sites.
        """
        assert self.history is not None  # noqa: S101  offered with a history only
        table, users = counts, self.users or None
        if self.sites:
            table = _sum_sites(self.select(self.history.status_over_time(by="site", user=users)))
        elif users is not None:
            table = self.history.status_over_time(user=users)
        return table if self.day is None else table[table["period"] <= pd.Timestamp(self.day, tz="UTC")]

    def _selection(self) -> list[tuple[str, str]]:
        """What is picked, in words, each with the column that it filters."""
        ids = ", ".join(map(str, self.users))
        selection = [(f"user{'s' if len(self.users) > 1 else ''} {ids}", "user_id")] if ids else []
        for name, picked, column in (("sites", self.sites, "site"), ("statuses", self.statuses, "status")):
            if picked:
                selection.append((f"{name}: {', '.join(plain(one) for one in picked)}", column))
        return selection


Draw: TypeAlias = Callable[[Scope], charts.Chart]


def available(exposure: Exposure | None, history: History | None) -> dict[str, Draw]:
    """The questions that can be answered, by name, each with the function that draws its chart."""
    draws = _OF_RECORDS | _OF_LINKS
    if exposure is not None:
        draws |= _OF_EXPOSURE
    if history is not None:
        draws |= _OF_HISTORY
    return draws


def _of_records(question: str) -> Draw:
    count, draw = getattr(analysis, question), getattr(charts, question)
    return lambda scope: draw(count(scope.records), provenance=scope.provenance)


def _of_on_file(question: str) -> Draw:
    """A chart of what people have on file now, on whatever day the records are."""

    def draw(scope: Scope) -> charts.Chart:
        assert scope.exposure is not None  # noqa: S101  offered with an exposure only
        table = getattr(analysis, question)(scope.records, scope.exposure.on_file())
        figure: charts.Chart = getattr(charts, question)(
            table, provenance=f"{scope.provenance} · on file now"
        )
        return figure

    return draw


def _of_history(question: str) -> Draw:
    """A chart of the history as of the day, for the picked people and sites as far as its table has them."""

    def draw(scope: Scope) -> charts.Chart:
        table = getattr(scope.history, question)(as_of=scope.day)
        figure: charts.Chart = getattr(charts, question)(
            scope.select(table), provenance=scope.provenance_for(table)
        )
        return figure

    return draw


def _by_kind(scope: Scope) -> charts.Chart:
    return charts.by_kind(
        analysis.by_kind(scope.select(_links(scope))), provenance=scope.provenance_for(_LINKS)
    )


def _links(scope: Scope) -> pd.DataFrame:
    if scope.day is None and scope.exposure is not None:
        return scope.exposure.links()
    assert scope.history is not None  # noqa: S101  a day needs a history
    links = scope.history.links(as_of=scope.day)
    return links[links["presence"] == analysis.LISTED]


def _changes(scope: Scope) -> charts.Chart:
    """What changed since a day, for everyone."""
    assert scope.history is not None  # noqa: S101  offered with a history only
    first = scope.changes_since
    last = scope.day or scope.history.runs()["finished_at"].max().date()
    note = ", everyone" if scope.filters else ""
    return charts.changes(
        scope.history.diff(first, last).why, provenance=f"{scope.source} · since {first}{note}"
    )


_LINKS = ("user_id",)
_OF_RECORDS = {question: _of_records(question) for question in ("by_user", "user_by_site", "by_state")}
_OF_LINKS = {"by_kind": _by_kind}
_OF_EXPOSURE = {question: _of_on_file(question) for question in ("blockers", "best_next_fields")}
_OF_HISTORY = {"changes": _changes} | {
    question: _of_history(question)
    for question in (
        "time_to_removal",
        "survival",
        "relistings",
        "work_queue",
        "precision",
        "site_health",
        "forecast",
    )
}


def _sum_sites(counts: pd.DataFrame) -> pd.DataFrame:
    """Add up the counts of several sites; each has a row in every period from its first change on."""
    return counts.drop(columns="site").groupby(["period", "at"], as_index=False).sum()
