"""The kinds of report: what each contains, and how a report is built of it."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pandas as pd

from exposurekit.analysis.diff import AGAIN
from exposurekit.analysis.statuses import OPEN
from exposurekit.charts.status_over_time import AGO_DAYS
from exposurekit.contract.types import REMOVED
from exposurekit.errors import warn
from exposurekit.reports import actions, headline, statements
from exposurekit.reports.data import ReportData
from exposurekit.reports.model import (
    Action,
    Fact,
    Report,
    Section,
)
from exposurekit.reports.sections import WORK_NEEDS, own_section, section_names, section_type
from exposurekit.text.formatting import enumerate_words

_TREND_COLUMNS = {"open listings": OPEN, "removed": REMOVED}  # of `status_over_time`, by the name of a figure
_TREND_POINTS = 60
_OF_ACTIONS = (
    "work_queue",
    "blockers",
)  # what to do next needs their tables, also if the page has other sections


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of report.

    Attributes:
        sections: The names of its sections, in order.
        title: Its heading.
        finding: Its main result.
        facts: Its main figures.
        needs: The tables of its finding and figures.
    """

    sections: tuple[str, ...]
    title: Callable[[ReportData], str]
    finding: Callable[[ReportData], str]
    facts: Callable[[ReportData], Iterable[Fact]]
    needs: tuple[str, ...]


def needed_tables(kind: str, sections: Sequence[str | Section] = ()) -> list[str]:
    """Return the names of the tables that a report needs."""
    names = [one for one in sections or KINDS[kind].sections if not isinstance(one, Section)]
    names += [one for one in _OF_ACTIONS if one in KINDS[kind].sections]
    return [
        *dict.fromkeys((*KINDS[kind].needs, *(need for name in names for need in section_type(name).needs)))
    ]


def build_report(
    kind: str, data: ReportData, sections: Sequence[str | Section] = (), title: str = ""
) -> Report:
    """Build a report from its data.

    Args:
        kind: A name in `KINDS`.
        data: The tables in `needed_tables`.
        sections: The names of other sections than those of its kind, and sections of the caller's own.
        title: Another title; empty: that of its kind.
    """
    form = KINDS[kind]
    keys = {*section_names()}
    built, left_out = [], []
    for one in sections or form.sections:
        section = own_section(one, keys) if isinstance(one, Section) else section_type(one).make(data)
        if section is not None and (sections or not _is_idle(section)):
            keys.add(section.key)
            built.append(section)
        elif sections and isinstance(one, str):
            left_out.append(one)
    if left_out:
        lacks = (
            "this report has no such data" if data.sharing is None else "a share-safe report has no such data"
        )
        more = "; most need a history" if data.runs is None and data.sharing is None else ""
        warn(f"Sections are left out ({enumerate_words(left_out)}): {lacks}{more}")
    since = {} if data.since is None else {"since": statements.since_day(data)}
    names, on_page = {*form.sections}, {section.key for section in built}
    to_do = actions.next_actions(data, names | on_page, on_page)
    facts = tuple(_with_trends(form.facts(data), data))
    totals = actions.totals(data, to_do)
    return Report(
        kind,
        title or form.title(data),
        " ".join(filter(None, (data.stopped, form.finding(data)))),
        facts,
        tuple(built),
        data.provenance() | since,
        actions=to_do,
        totals=totals,
        outlook=headline.outlook(data, _expected((*to_do, *totals))) if to_do else "",
        parts=() if data.since is not None else tuple(headline.parts(data)),
        half_hour=actions.half_hour(data) if "work_queue" in names | on_page else "",
        caveat=" ".join(filter(None, (data.stopped, headline.caveat(data)))),
        code=headline.analyst_code(data),
    )


def _expected(rows: Sequence[Action]) -> float | None:
    """The expected removals of the last row that takes time: the sum, or the only manual work."""
    return next((row.expected for row in reversed(rows) if row.minutes is not None), None)


def _is_idle(section: Section) -> bool:
    """Whether a section has nothing but a reason why it is empty."""
    has_content = section.figure is not None or section.table is not None or bool(section.removals)
    has_result = bool(section.finding) or section.key in ("coverage", "failures")
    return not has_content and (not has_result or section.key == "relistings")


def _with_trends(facts: Iterable[Fact], data: ReportData) -> Iterator[Fact]:
    """Figures with their change in the last week, as its section has it, and their course, where the history has them."""
    course = data.tables["status_over_time"]
    for fact in facts:
        column = None if data.since is not None and fact.name == REMOVED else _TREND_COLUMNS.get(fact.name)
        if course is None or column is None or column not in course or len(course) < 2:  # noqa: PLR2004  one run is no course
            yield fact
            continue
        n = course[column].astype("float64")
        trend = tuple(n.iloc[:: -math.ceil(len(n) / _TREND_POINTS)].iloc[::-1].tolist())
        # A report on changes compares with its own start.
        start = data.week_start if data.since is None else None
        day: pd.Series[Any] = course["period"].dt.date
        before = n.iloc[:0] if start is None else n[day <= start]
        if start is None or before.empty:
            yield replace(fact, trend=trend)
            continue
        change = headline.signed_change(int(n.iloc[-1] - before.iloc[-1]), data)
        month = statements.change_in(data, column, data.as_of.date() - timedelta(days=AGO_DAYS))
        if fact.name == REMOVED and (both := _removals_and_relistings(data)):
            yield replace(fact, trend=trend, change=both)
            continue
        if fact.name != REMOVED and data.is_whole_week and month is not None:
            change += f", {statements.signed(month)} in {AGO_DAYS}"
        yield replace(fact, trend=trend, change=change)


def _removals_and_relistings(data: ReportData) -> str:
    """The removals since the start of the week, and the relistings that undid some; empty without both."""
    by_site = data.tables.get("week_by_site")
    if by_site is None:
        return ""
    removed, again = (int(by_site[what].sum()) for what in (REMOVED, AGAIN))
    return f"{removed:,} {REMOVED}, {again:,} {AGAIN} {headline.span(data)}" if removed and again else ""


_FACT_NEEDS = (
    "records",
    "links",
    "score",
    "status_over_time",
    "missed",
    "site_outcomes",
    *WORK_NEEDS,
)
_FLEET_NEEDS = (
    *_FACT_NEEDS,
    "week_score",
    "week_by_site",
    "removal_of_all",
    "removal_requests",
    "relistings",
    "next_forecast",
)
KINDS = {
    "fleet": Kind(
        (
            *("by_site", "week", "score", "status_over_time", "time_to_removal", "declared_vs_observed"),
            *("relistings", "blockers", "work_queue", "missed", "coverage"),
        ),
        headline.fleet_title,
        headline.finding,
        headline.fleet_facts,
        _FLEET_NEEDS,
    ),
    "person": Kind(
        ("records", "status_over_time", "links", "blockers", "work_queue"),
        headline.person_title,
        headline.finding,
        headline.facts,
        _FACT_NEEDS,
    ),
    "changes": Kind(
        ("changes", "counts", "diff_by_site", "score_changes", "diff", "work_queue"),
        lambda data: f"What changed since {statements.since_day(data)}",
        headline.change_finding,
        headline.change_facts,
        (
            *("records", "links", "changes", "score_changes", "status_over_time", "site_outcomes"),
            *("best_next_fields", *WORK_NEEDS),
        ),
    ),
    "sites": Kind(
        (
            *("by_site", "time_to_removal", "declared_vs_observed", "relistings"),
            *("site_health", "precision"),
        ),
        headline.sites_title,
        headline.finding,
        headline.site_facts,
        _FLEET_NEEDS,
    ),
}
