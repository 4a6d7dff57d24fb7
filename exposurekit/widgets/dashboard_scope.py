"""Scope: the day, people, sites and statuses that a dashboard displays, and the chart of each question."""

import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from functools import cached_property

import numpy as np
import pandas as pd

from exposurekit import analysis, charts
from exposurekit.analysis.selection import NoMatch
from exposurekit.analysis.statuses import is_open
from exposurekit.exposure import Exposure
from exposurekit.history import History
from exposurekit.questions import ONLY_NOW, QUESTIONS
from exposurekit.text.sanitize import plain

NOW = "now"
ALWAYS = ("by_site", "status_over_time")
CHANGES_DAYS = 14  # `changes` counts from this many days before the day, unless another start is picked


@dataclass(frozen=True)
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

    @cached_property
    def records(self) -> pd.DataFrame:
        """The picked records; not to be changed."""
        return self.select(self.all_records)

    @cached_property
    def everywhere(self) -> "Scope":
        """The same on all sites."""
        return replace(self, sites=()) if self.sites else self

    @cached_property
    def everyone(self) -> "Scope":
        """The same of everyone."""
        return replace(self, users=()) if self.users else self

    @cached_property
    def any_status(self) -> "Scope":
        """The same with all statuses."""
        return replace(self, statuses=()) if self.statuses else self

    @cached_property
    def by_site(self) -> pd.DataFrame:
        """The picked records per site, of all sites."""
        return analysis.by_site(self.everywhere.records)

    @cached_property
    def by_user(self) -> pd.DataFrame:
        """The picked records per person, of everyone."""
        return analysis.by_user(self.everyone.records)

    @property
    def links(self) -> pd.DataFrame:
        """The pages of the picked people that are still there."""
        links = self.select(self.table("links"))
        return links[is_open(links["presence"])] if "presence" in links else links

    def select(self, table: pd.DataFrame) -> pd.DataFrame:
        """The picked rows of a table, by its columns ``user_id``, ``site`` and ``status``, as far as it has them."""
        masks = [
            table[column].isin(picked).to_numpy("bool")
            for picked, column in ((self.users, "user_id"), (self.sites, "site"), (self.statuses, "status"))
            if picked and column in table
        ]
        return table[np.logical_and.reduce(masks)] if masks else table

    @property
    def provenance(self) -> str:
        """The source of the figures, and what is picked."""
        return " · ".join(filter(None, [self.source, *self.filters]))

    @property
    def stopped(self) -> str:
        """How many people were loaded, if the load was stopped; else, or with a day or people picked, empty."""
        if self.exposure is None or self.day or self.users or not self.exposure.is_stopped:
            return ""
        return f"{len(self.exposure.users()):,} of {self.exposure.listed:,} people: the load was stopped"

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

    def provenance_for(self, columns: Iterable[object]) -> str:
        """The provenance of a table with these columns; it says which filters the table cannot apply."""
        selection, own = self._selection(), {*columns}
        applied = [words for words, column in selection if column in own]
        ignored = [words for words, column in selection if column not in own]
        note = f"not filtered by {', '.join(ignored)}" if ignored else ""
        return " · ".join(filter(None, [self.source, *applied, note]))

    def table(self, name: str) -> pd.DataFrame:
        """The input of a question on that day, of everyone; what people have on file is always as of now."""
        if name == "records":
            return self.all_records
        source: Exposure | History | None = self.exposure
        if name not in ONLY_NOW and (source is None or self.day is not None or name == "steps"):
            source = self.history or self.exposure  # steps of a history have ticks
        if isinstance(source, Exposure):
            return source[name]
        assert source is not None  # noqa: S101  a dashboard has one of the two
        table: pd.DataFrame = getattr(source, name)(as_of=self.day)
        return table

    @property
    def first_day(self) -> date:
        """The day of the first run."""
        assert self.history is not None  # noqa: S101  offered with a history only
        first: date = self.history.runs()["finished_at"].min().date()
        return first

    @property
    def displayed_day(self) -> date:
        """The day, or that of the newest run."""
        assert self.history is not None  # noqa: S101  offered with a history only
        newest: date = self.history.runs()["finished_at"].max().date()
        return self.day or newest

    @property
    def changes_since(self) -> date:
        """The day from which `changes` counts: `since`, or `CHANGES_DAYS` before the day, or the first run."""
        start = self.since or self.displayed_day - timedelta(days=CHANGES_DAYS)
        return min(max(self.first_day, start), self.displayed_day)

    def over_time(self, counts: pd.DataFrame) -> pd.DataFrame:
        """Counts over time until the day, for the picked people and sites.

        Args:
            counts: The counts of everyone on all sites.
        """
        assert self.history is not None  # noqa: S101  offered with a history only
        table = counts
        if self.sites or self.users:
            with warnings.catch_warnings():  # picked people may have no listing on a picked site
                warnings.simplefilter("ignore", NoMatch)
                table = self.history.status_over_time(user=self.users or None, site=self.sites or None)
        return table if self.day is None else table[table["period"] <= pd.Timestamp(self.day, tz="UTC")]

    def _selection(self) -> list[tuple[str, str]]:
        """What is picked, in words, each with the column that it filters."""
        ids = ", ".join(map(str, self.users))
        selection = [(f"user{'s' if len(self.users) > 1 else ''} {ids}", "user_id")] if ids else []
        for name, picked, column in (("sites", self.sites, "site"), ("statuses", self.statuses, "status")):
            if picked:
                selection.append((f"{name}: {', '.join(plain(one) for one in picked)}", column))
        return selection


def available(exposure: Exposure | None, history: History | None) -> list[str]:
    """The names of the questions that can be asked of a day and drawn, beyond the two charts that are always displayed."""
    return [
        name
        for name, question in QUESTIONS.items()
        if question.has_chart
        and name not in ALWAYS
        and (exposure is not None or not question.needs_exposure)
        and (question.inputs or (history is not None and {"as_of", "since"} & {*question.options}))
    ]


def needed_for(name: str, exposure: Exposure | None, history: History | None) -> str:
    """What a dashboard lacks to answer a question that has a chart; empty if nothing, or if there is no such question."""
    question = QUESTIONS.get(name)
    if question is None or not question.has_chart:
        return ""
    if history is None and not question.inputs:
        return "a history"
    return "an exposure" if exposure is None and question.needs_exposure else ""


def draw(name: str, scope: Scope) -> charts.Chart:
    """The chart of an available question."""
    question = QUESTIONS[name]
    if name == "by_user":
        columns = scope.everyone.records.columns
        return question.draw(scope.by_user, provenance=scope.everyone.provenance_for(columns))
    if question.inputs:
        tables = {one: scope.table(one) for one in question.inputs}
        provenance = scope.provenance_for(tables[question.inputs[0]])
        now = " · on file now" if question.needs_exposure else ""
        context = question.context(scope.history, scope.day) if scope.history and question.context else {}
        answer = question.answer(lambda one: scope.select(tables[one]), **context)
        return question.draw(answer, provenance=f"{provenance}{now}")
    assert scope.history is not None  # noqa: S101  available with a history only
    if "since" in question.options:
        since, until = scope.changes_since, scope.displayed_day
        provenance = f"{scope.source} · since {since}{', everyone' if scope.filters else ''}"
        return question.draw(question.ask(scope.history, since=since, until=until), provenance=provenance)
    answer = question.ask(scope.history, as_of=scope.day)
    return question.draw(scope.select(answer), provenance=scope.provenance_for(answer))
