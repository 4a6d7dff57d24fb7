"""What is picked of an exposure and a history, and the chart of each question about it. Shows nothing."""

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
MOVED_DAYS = 30  # over which `changes` tells what moved


@dataclass(frozen=True, slots=True)
class Scope:
    """What is picked, and of what.

    Attributes:
        exposure: What is so now, or None.
        history: What was so, or None.
        all: The records of everyone on that day.
        day: The day; None: now.
        sites: Those that are picked; none: all.
        statuses: Those that are picked; none: all.
        users: The people who are picked, by id; none: everyone.
    """

    exposure: Exposure | None
    history: History | None
    all: pd.DataFrame = field(repr=False)
    day: date | None = None
    sites: tuple[str, ...] = ()
    statuses: tuple[str, ...] = ()
    users: tuple[int, ...] = ()

    @property
    def records(self) -> pd.DataFrame:
        """Those that are picked."""
        return self.of(self.all)

    def of(self, table: pd.DataFrame) -> pd.DataFrame:
        """The rows of a table that are picked, by those of the columns person, site and status that it has."""
        for picked, column in ((self.users, "user_id"), (self.sites, "site"), (self.statuses, "status")):
            if picked and column in table:
                table = table[table[column].isin(picked)]
        return table

    @property
    def provenance(self) -> str:
        """Where the figures come from, as of when, and what is picked."""
        return " · ".join(filter(None, [self.source, *self.filters]))

    @property
    def source(self) -> str:
        """Where the figures come from, as of when."""
        if self.day is None and self.exposure is not None:
            return self.exposure.provenance
        if self.history is None:
            return ""
        last = self.history.last_run()
        as_of = f"{self.day} (its end, UTC)" if self.day else f"{last.finished_at:%Y-%m-%d %H:%M} UTC"
        return f"history of {last.seq:,} runs · as of {as_of}"

    @property
    def filters(self) -> list[str]:
        """What is picked, in words; people are told by number."""
        return [words for words, _ in self._picked()]

    def told_of(self, table: Iterable[str]) -> str:
        """The provenance of a table: only what could be picked of its columns was."""
        told = [words for words, column in self._picked() if column in table]
        unheeded = len(told) < len(self._picked())
        return " · ".join(filter(None, [self.source, *told, "else everyone, everywhere" if unheeded else ""]))

    def over_time(self, whole: pd.DataFrame) -> pd.DataFrame:
        """Counts over time until the day, of the person and the sites that are picked.

        Args:
            whole: Those of everyone on all sites.
        """
        assert self.history is not None  # noqa: S101  asked for where there is one
        table, users = whole, self.users or None
        if self.sites:
            table = _together(self.of(self.history.status_over_time(by="site", user=users)))
        elif users is not None:
            table = self.history.status_over_time(user=users)
        return table if self.day is None else table[table["period"] <= pd.Timestamp(self.day, tz="UTC")]

    def _picked(self) -> list[tuple[str, str]]:
        """What is picked, in words, and the column of a table that it is about."""
        ids = ", ".join(map(str, self.users))
        of = [(f"user{'s' if len(self.users) > 1 else ''} {ids}", "user_id")] if ids else []
        for name, picked, column in (("sites", self.sites, "site"), ("statuses", self.statuses, "status")):
            if picked:
                of.append((f"{name}: {', '.join(plain(one) for one in picked)}", column))
        return of


Draw: TypeAlias = Callable[[Scope], charts.Chart]


def available(exposure: Exposure | None, history: History | None) -> dict[str, Draw]:
    """The questions that can be answered, by name: a memory answers more."""
    asked = _OF_RECORDS | _OF_LINKS
    if exposure is not None:
        asked |= _OF_EXPOSURE
    if history is not None:
        asked |= _OF_HISTORY
    return asked


def _of_records(question: str) -> Draw:
    count, draw = getattr(analysis, question), getattr(charts, question)
    return lambda scope: draw(count(scope.records), provenance=scope.provenance)


def _of_on_file(question: str) -> Draw:
    """Of what the people have on file now, whatever the day of the records."""

    def drawn(scope: Scope) -> charts.Chart:
        assert scope.exposure is not None  # noqa: S101  offered with one only
        table = getattr(analysis, question)(scope.records, scope.exposure.on_file())
        figure: charts.Chart = getattr(charts, question)(
            table, provenance=f"{scope.provenance} · on file now"
        )
        return figure

    return drawn


def _of_history(question: str) -> Draw:
    """Of the history, as of the day; of the people and the sites that are picked where its table tells them."""

    def drawn(scope: Scope) -> charts.Chart:
        table = getattr(scope.history, question)(as_of=scope.day)
        figure: charts.Chart = getattr(charts, question)(scope.of(table), provenance=scope.told_of(table))
        return figure

    return drawn


def _by_kind(scope: Scope) -> charts.Chart:
    return charts.by_kind(analysis.by_kind(scope.of(_links(scope))), provenance=scope.told_of(_LINKS))


def _links(scope: Scope) -> pd.DataFrame:
    if scope.day is None and scope.exposure is not None:
        return scope.exposure.links()
    assert scope.history is not None  # noqa: S101  a day is asked of one
    links = scope.history.links(as_of=scope.day)
    return links[links["presence"] == analysis.LISTED]


def _changes(scope: Scope) -> charts.Chart:
    """What moved in the month before the day, or since the first look; of everyone."""
    history = scope.history
    assert history is not None  # noqa: S101  offered with one only
    looked = history.runs()["finished_at"]
    last = scope.day or looked.max().date()
    first = max(looked.min().date(), last - timedelta(days=MOVED_DAYS))
    return charts.changes(
        history.diff(first, last).why, provenance=f"{scope.source} · since {first}, everyone"
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


def _together(of_sites: pd.DataFrame) -> pd.DataFrame:
    """Some sites' counts as one: each has a row in every period from its first change on."""
    return of_sites.drop(columns="site").groupby(["period", "at"], as_index=False).sum()
