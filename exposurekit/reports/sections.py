"""Report kinds and their sections: each section declares its tables and is a pure function of them."""

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from datetime import date, timedelta
from itertools import chain, count
from typing import Any

import numpy as np
import pandas as pd

from exposurekit import analysis, charts
from exposurekit.analysis.data_quality import OUTCOMES
from exposurekit.analysis.declared_vs_observed import request_life_table
from exposurekit.analysis.definitions import definition
from exposurekit.analysis.diff import AGAIN, CHANGED, ENDED, FAILED, NEW, OPENED, STILL_OPEN, WHAT
from exposurekit.analysis.failed_removals import IGNORED, REFUSED
from exposurekit.analysis.failed_removals import outcomes as request_outcomes
from exposurekit.analysis.manual_tasks import field_label, missing_values, tasks, with_listings
from exposurekit.analysis.plan import PLAN_MINUTES
from exposurekit.analysis.score import PAGE
from exposurekit.analysis.site_outcomes import in_vain, is_refusing
from exposurekit.analysis.statuses import OPEN, OTHER, UNKNOWN, VANISHED
from exposurekit.analysis.step_minutes import STEP_MINUTES
from exposurekit.analysis.step_requirements import NAME_DIFFERS, document_request, requests_to_people
from exposurekit.analysis.survival import MIN_N, is_unrequested
from exposurekit.analysis.work_queue import CHECK_MINUTES, DONE, TO_DO, UNABLE, UNKNOWN_RATE, VISIT_MINUTES
from exposurekit.charts.theme import (
    MINUS,
    adopt_figure,
    format_duration,
    format_interval,
    label_text,
    short,
)
from exposurekit.charts.time_to_removal import format_days, without_estimates
from exposurekit.charts.work_queue import LATER, NOT_STARTED
from exposurekit.contract.types import DISCOVERED, PENDING_REMOVAL, REMOVED
from exposurekit.errors import InvalidArgument
from exposurekit.evidence import with_evidence
from exposurekit.frames.arrow import texts
from exposurekit.questions import QUESTIONS
from exposurekit.reports.data import LISTED_NAMES, WEEK_DAYS, ReportData
from exposurekit.reports.manual_steps import open_items, removals, whole_minutes
from exposurekit.reports.model import (
    OPERATOR,
    OPERATOR_AND_PERSON,
    PER_PAGE,
    ROWS_MAX,
    TASKS_MAX,
    Action,
    Fact,
    Removal,
    Report,
    Section,
)
from exposurekit.reports.share_safe import FEW
from exposurekit.text.formatting import enumerate_words, is_missing, percent, pluralize
from exposurekit.text.times import format_time

_BY_COUNT = "Points go by count, not by how sensitive the data is."
ASKS = 2  # rows of `best_next_fields`
_ASSUMED = (
    f"estimated at {VISIT_MINUTES:g} minutes per site or host, {STEP_MINUTES:g} per step, and {CHECK_MINUTES:g} to check a "
    "listing or page without a label"
)
_WAITING = "steps that only wait take none"
_UNKNOWN_TITLE = "What is not known"
_UNSEARCHED = (
    "The service does not say which sites it searched: a site without a listing is not named here, and may not have "
    "been searched."
)
_TO_CONFIRM = (
    "So far we have only the service's word that these are the right people. To check a listing, follow its link and compare "
    "name, age (it may be a year off) and places with the person's"
)
_RECORD_LABEL = (
    "Send your analyst the references of those that are the person's and of those that are not: the code to record them stands "
    "under For analysts (on screen only)"
)
MANY_SITES = 5  # more are counted, not named
_WORST_NAMED = 3  # sites
_HALF_MIN = 5  # of so many listings, it is said what holds for half
_ONE_REMOVAL = 0.75  # with less expected, it is said how many requests make one
_CENSORING_NOTE = "A listing found recently has been followed for only a few days, so the estimated share still listed may be 0% while some are open."
_FROM_FIRST = "Days count from the first observation of a listing"
_LISTED_KINDS = {"age": "age", "locations": "places", "aliases": "other names", "relations": "relatives"}
_RELISTING_SITES = 2  # named in the finding
_SITES_NAMED = 5  # of each kind of change; others are counted
_KINDS_NAMED = 3  # kinds of data
_REFERENCE = "reference_id"
_CAME_BACK = "came back"  # of a listing, however often; each time is a relisting
_BACK_LATER = "listed again later"  # instead of the status of a listing that has a later row
_IN_ORDER = (*OPENED, *ENDED, FAILED, CHANGED)  # what adds up to the open listings first
_ADDRESSES = {"email": "email address"}
_ALWAYS_COUNTED = (NEW, AGAIN, REMOVED)  # kinds of change, also if there was none
_NO_SINGLE_BAR = {"blockers", "best_next_fields"}  # a sentence says it
_TREND_COLUMNS = {"open listings": OPEN, "removed": REMOVED}  # of `status_over_time`, by the name of a figure
_TREND_POINTS = 60
MONTH_DAYS = 28  # whole weeks: what a service finds once a week is found on one weekday
_PLAN_NAMED = 10  # listings of the half hour whose people are named, if they are no more
_ACTIONS = 3  # to do now, and as many that have to wait
_MEDIAN = ("median_days", "median_low", "median_high")
_REQUEST_MEDIAN = ("request_median", "request_low", "request_high")
_NO_SUMS = {"people", "sites", "user_id", "declared_days"}
_NOT_DECLARED = "Nobody has entered how fast sites promise to remove listings, so promises cannot be judged."
_RECORD_DAYS = "Send the days that sites state to your analyst: how to enter them stands under For analysts."
_DECLARED = "The declared days are in the table of sites; which sites take longer has its own section: {}."
_HOW_SURE = (
    "The 95% interval beside an estimate assumes that sites behave as before and the matches are correct."
)
_CODE = {  # what analysts can do, and how
    "Begin with": ("import exposurekit as ek; {begin}",),
    "Make a report that may be passed on": (
        'ek.report({source}, "shared.html", share_safe=True)',
        "exposurekit report --share-safe --out shared.html",
    ),
    "Record what was done by hand": ("history.tick(history.work_queue().iloc[0])",),
    "Label listings as right or wrong: one after another, or one of them; or a web page": (
        "ek.widgets.RecordLabels(history.records(), history)",
        'history.label(history.records().iloc[0], "not mine")',
        'history.label(history.links().iloc[0], "not mine")',
    ),
    "Add names and values on file": (
        'ek.report(history, "fleet.html", exposure=ek.connect())',
        "exposurekit report --live --out fleet.html",
    ),
    "Record within how many days sites promise to remove; days.csv has the headings site and declared_days": (
        'history.declare_days({{site}: 10}, source="its terms")',
        "exposurekit history declare days.csv",
    ),
}
# Of the outcomes of sites: the verdict and the cards say it.
_NOT_DISPLAYED = ("waiting", "never_back", "overdue_days")
_WITH_PENDING = ("by_site", "records", "changes")  # sections that tell of pending removals
_PER_PERSON = "as a page counts once for each person on it"
_ORDER = "the work with the most expected removals per minute comes first"
_ORDER_BY_MINUTES = "the work with the fewest minutes per item comes first"
_NEED_HISTORY = "success rates need a history"
_CHECK_FIRST = (
    "A check removes nothing by itself, but spares a namesake: it comes right before each removal or message."
)
_EXCEPT = ", except what should wait: it is marked (later), with the reason"
_UNCHECKED = "whether required values, such as an email address, are on file was not checked"
_TO_CHECK = "check that the required values are on file"
_OTHERS_OPEN = (  # of a share-safe report, which does not say how many of each
    "Open listings that are pending removal, wait for the service, or were ticked as done or unable are not among them."
)
_LEFT_OUT = "whether required values are on file is not shown"  # of a share-safe report
_NOT_IN_KEY = re.compile(r"[^a-z0-9]+")
_FINISHED = {DONE: "done", UNABLE: "marked unable"}
_USER = re.compile(r"\buser (\d+)\b")
_ROWS_NOTE = "The list has one row per listing or person, so it is left out: this report shows totals only."
_NO_PROFILES = (
    "this report was made from a history, which does not store what people have on file. A report that is made while "
    "connected to the service has it."
)
_POINTS_NOTE = "Each listing counts once, by its first and its last status: one that was found and removed in between has no points."
_RECORD_COLUMNS = (
    *("site", "status", "first_seen_at", "changed_at", "evidence_before", "evidence_after"),
    *("age", "states", "href"),
)
_OVERDUE_NOTE = (
    "A request is overdue if its listing was still pending after the declared days and the days that verifying a removal "
    "may take. A site takes longer if significantly more than half of its due requests are overdue (sign test, corrected "
    "for the number of sites; false discovery rate of 5%). Requests too recent to judge are not due."
)
_TABLES = {  # that are no questions: the heading, and the columns to display
    "records": ("Listings", _RECORD_COLUMNS),
    "links": ("Web pages", ("title", "url", "contains")),
    "failures": ("What is not known", ("user_id", "operation", "error", "status")),
    "failed_removals": ("Removals that failed or were undone", ()),
    "counts": ("Changes by kind", ()),
    "diff_by_site": ("Changes by site", ()),
    "week": (f"The last {WEEK_DAYS} days", ()),
}
SECTION_NAMES = (*dict.fromkeys((*QUESTIONS, *_TABLES)),)
_OF_ACTIONS = (
    "work_queue",
    "blockers",
)  # sections with the actions of a kind, also if they are not on the page
_HIDDEN = {  # rows that a share-safe section leaves out, and what is counted in them
    "by_state": ("states", "people per state"),
    "by_kind": ("kinds", "people per kind"),
    "coverage": ("times", "people"),
    "survival": ("ages", "listings per age"),
    "time_to_removal": ("sites", "listings per site"),
    "declared_vs_observed": ("sites", "requests per site"),
    "precision": ("sites", "people per site"),
    "site_health": ("sites", "people per site"),
}
_QUEUE_COLUMNS = (  # that the chart of the work queue and its small cells need
    *("rank", "group", "kind", "site", "user_id", "alert_number", "record_id", "state", "steps", "done"),
    *("unable", "minutes", "first_seen_at", "items", "people", "items_per_minute", "reason"),
)
_SINCE = ("changes", "score_changes", "diff")  # sections whose charts cover the time since


@dataclass(frozen=True, slots=True)
class SectionType:
    """A section type.

    Attributes:
        title: Its heading.
        needs: The tables it is made of.
        make: Makes it from the data; None: the report has no such section.
    """

    title: str
    needs: tuple[str, ...]
    make: Callable[[ReportData], Section | None]


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


def section_type(name: str) -> SectionType:
    """Return a section type by name: a special one, or the chart and table of a question.

    Raises:
        InvalidArgument: There is none of that name.

    >>> from exposurekit.reports.sections import section_type
    >>> section_type("by_state").needs
    ('by_state',)
    """
    InvalidArgument.check("a section", name, SECTION_NAMES)
    title = _TABLES[name][0] if name in _TABLES else QUESTIONS[name].title
    make, *needs = _SPECIAL.get(name, (lambda data: _section(data, name),))
    return SectionType(title, (name, *needs), make)


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
    keys = {*SECTION_NAMES}
    built = []
    for one in sections or form.sections:
        section = own_section(one, keys) if isinstance(one, Section) else section_type(one).make(data)
        if section is not None and (sections or not _is_idle(section)):
            keys.add(section.key)
            built.append(section)
    since = {} if data.since is None else {"since": _since(data)}
    parts = tuple(built)
    on_page = {section.key for section in parts}
    off_page = [Section("", key=one) for one in _OF_ACTIONS if one in form.sections and one not in on_page]
    off_page = [
        replace(one, removals=_removals(data)) if one.key == "work_queue" else one for one in off_page
    ]
    actions = _actions(data, (*parts, *off_page), kind)
    return Report(
        kind,
        title or form.title(data),
        " ".join(filter(None, (data.stopped, form.finding(data)))),
        tuple(_with_trends(form.facts(data), data)),
        parts,
        data.provenance() | since,
        actions=tuple(
            one if one.section.partition("-")[0] in on_page else replace(one, section="") for one in actions
        ),
        half_hour=_half_hour(data) if "work_queue" in on_page | {one.key for one in off_page} else "",
        caveat=" ".join(filter(None, (data.stopped, _caveat(data)))),
        code=_code(data),
    )


def _caveat(data: ReportData) -> str:
    """What nobody has checked about the matches; empty if all were, or the tables do not tell."""
    unlabelled = _unlabelled(data)
    if not unlabelled:
        return ""
    is_all = unlabelled == len(data["records"])
    checked = "Nobody has checked the matches yet" if is_all else _unconfirmed(data)
    each = "each listing and page" if _checks(data)[1] else "each one"
    return f"{checked}. Some listings may be of a namesake, so check {each} first.{_check_time(data)}"


def _check_time(data: ReportData) -> str:
    """How long it takes to check the manual work that has no label; empty if there is none."""
    n = sum(_checks(data))
    if not n:
        return ""
    total = n * CHECK_MINUTES
    in_all = f"{total:g}" if total < 60 else format_duration(total)  # noqa: PLR2004  minutes of an hour
    times = f" each, {in_all} in all" if n > 1 else ""
    return f" The times below include this: {format_duration(CHECK_MINUTES)}{times}."


def _checks(data: ReportData) -> tuple[int, int]:
    """How many listings and how many web pages of the manual work take a check first."""
    queue = data["work_queue"]
    unchecked = queue[queue["label"].isna() & (queue["state"] == TO_DO)]
    pages = int(unchecked["site"].isna().sum())
    return len(unchecked) - pages, pages


def _checked_items(data: ReportData) -> str:
    """What has to be checked first, in words."""
    counts = zip(_checks(data), ("listing", "web page"), strict=True)
    return enumerate_words([pluralize(n, one) for n, one in counts if n])


def _check_part(data: ReportData) -> str:
    """The part of the manual work that is checks; empty if there is none."""
    n = sum(_checks(data))
    return f", including {format_duration(n * CHECK_MINUTES)} to check {_checked_items(data)}" if n else ""


def _code(data: ReportData) -> dict[str, tuple[str, ...]]:
    """What analysts can do to improve the report, and the code for it."""
    if data.sharing is not None:
        return {}
    outcomes = data.tables["site_outcomes"]
    is_undeclared = outcomes is not None and bool(outcomes["declared_days"].isna().all())
    has_history = data.runs is not None
    is_waiting = has_history and data.manual_work[0] > 0
    applies = (
        True,
        True,
        is_waiting,
        has_history and _unlabelled(data) > 0,
        not data.has_profiles,
        is_undeclared,
    )
    history = json.dumps(data.history_name, ensure_ascii=False)
    source, begin = ("history", f"ek.History({history})") if has_history else ("exposure", "ek.connect()")
    site = json.dumps(next(iter(data["records"]["site"].astype("str")), "a site"), ensure_ascii=False)
    values = {"{begin}": f"{source} = {begin}", "{source}": source, "{site}": site}

    def filled(code: str) -> str:
        for name, value in values.items():
            code = code.replace(name, value)
        return code

    return {
        what: tuple(map(filled, code))
        for (what, code), is_useful in zip(_CODE.items(), applies, strict=True)
        if is_useful
    }


def _is_idle(section: Section) -> bool:
    """Whether a section has nothing but a reason why it is empty."""
    has_content = section.figure is not None or section.table is not None or bool(section.removals)
    has_result = bool(section.finding) or section.key in ("coverage", "failures")
    return not has_content and (not has_result or section.key == "relistings")


def own_section(section: Section, keys: AbstractSet[str] = frozenset()) -> Section:
    """A section of the caller's own, with its figure in the design of the report and its table in the page's bounds.

    Args:
        section: What the caller wants to show.
        keys: The keys that it may not have: those of other sections.

    Raises:
        InvalidArgument: It has no title, no content, or a kind of trace that a report cannot draw.
    """
    if not isinstance(section.title, str) or not section.title.strip():
        raise InvalidArgument("A section needs a title: ek.Section('Our targets', text='...')")
    _check_content(section)
    if section.figure is None and section.table is None and not (section.text or section.points):
        raise InvalidArgument(
            "A section needs a figure, a table, a text or points: ek.Section('Our targets', text='...')"
        )
    name = _NOT_IN_KEY.sub("_", (section.key or section.title).lower()).strip("_") or "section"
    numbered = (f"{name}_{number}" for number in count(2))
    key = next(candidate for candidate in chain([name], numbered) if candidate not in keys)
    figure = None if section.figure is None else adopt_figure(section.figure, section.title)
    if section.table is None:
        return replace(section, key=key, figure=figure)
    table = section.table.head(ROWS_MAX).reset_index(drop=isinstance(section.table.index, pd.RangeIndex))
    return replace(section, key=key, figure=figure, table=table, rows=len(section.table))


def _check_content(section: Section) -> None:
    """Refuse what the parts of a section cannot be: the caller's own section is not checked by types."""
    wanted = {
        "table": (pd.DataFrame, "a pandas DataFrame"),
        "text": (str, "one text"),
        "points": (list | tuple, "a list of sentences"),
        "finding": (str, "one sentence"),
    }
    for name, (kind, words) in wanted.items():
        value = getattr(section, name)
        if value is not None and not isinstance(value, kind):
            raise InvalidArgument(f"The {name} of a section must be {words}, not {type(value).__name__}")


# --- headings and figures ---------------------------------------------------------------------------------


def _fleet_title(data: ReportData) -> str:
    return f"Exposure of {data.loaded_people}{_dates(data)}"


def _dates(data: ReportData) -> str:
    last = f"{data.as_of:%Y-%m-%d}"
    first = last if data.first_run_at is None else f"{data.first_run_at:%Y-%m-%d}"
    return f", {last}" if first == last else f", {first} to {last}"


def _sites_title(data: ReportData) -> str:
    sites = data["records"]["site"].nunique()
    return f"Exposure on {pluralize(sites, 'site')}{_dates(data)}"


def _since(data: ReportData) -> str:
    assert data.since is not None  # noqa: S101  the callers check
    return format_time(data.since) if data.sharing is None else f"{data.since:%Y-%m-%d}"


def _finding(data: ReportData) -> str:
    open_now = data.open_records
    total = len(data["records"])
    are = "is" if len(open_now) == 1 else "are"
    if open_now.empty:
        return f"No listing is open, of {len(data['records']):,} that were found."
    by_hand, waits, being_removed, no_effect = data.open_parts
    since = _waiting_since(data)
    parts = [
        f"{n:,} {one if n == 1 else many}"
        for n, one, many in (
            (by_hand, f"needs manual work{since}", f"need manual work{since}"),
            (waits, "waits for the service", "wait for the service"),
            (being_removed, "removal is under way", "removals are under way"),
            (no_effect, "request has had no effect", "requests have had no effect"),
        )
        if n
    ]
    counts = f"{len(open_now):,} of {pluralize(total, 'listing')} found {are} still open"
    separator = "; " if since.startswith(";") else ", "
    return f"{counts}: {separator.join(parts)}.{_worst_sites(data)}"


def _worst_sites(data: ReportData) -> str:
    """The site with the most open listings, as a sentence; empty if there is none, or there are too many to name."""
    worst = _most_open(data)
    if not worst or len(worst) > _WORST_NAMED:
        return ""
    each = " each" if len(worst) > 1 else ""
    return f" Most open listings{_of_named(data)}: {enumerate_words([*map(short, worst)])} ({max(worst.values()):,}{each})."


def _most_open(data: ReportData) -> dict[str, int]:
    """The sites with the most open listings of those that may be named, several if they have as many.

    Empty for a person, and if all listings are on one site.
    """
    if data.user is not None or pd.Index(data.record_sites).nunique() < 2:  # noqa: PLR2004  the only one is no worse
        return {}
    named = {site: n for site, n in sorted(data.open_by_site.items()) if data.can_name(site)}
    return {site: n for site, n in named.items() if n == max(named.values())}


def _of_named(data: ReportData) -> str:
    """What a ranking of sites has to add in a share-safe report that names not all of them."""
    return "" if all(map(data.can_name, data.record_sites)) else " of the named sites"


def _waiting_since(data: ReportData) -> str:
    """For how long half of the manual work has waited, or the oldest of little in brackets; empty if that is not known."""
    days = data.waiting_days
    if days.empty or (data.sharing is not None and data.user is None and len(days) < FEW):
        return ""
    if len(days) >= _HALF_MIN:
        half = math.floor(days.median())
        first = data.first_run_at
        if (
            half and first is not None and (data.as_of.date() - first.date()).days == half
        ):  # no wait can be longer
            return f"; most of them have waited since monitoring began, {pluralize(half, 'day')} ago"
        return f"; half of them have waited {pluralize(half, 'day')} or more" if half else ""
    longest = int(days.max())
    return f" ({'the oldest ' if len(days) > 1 else ''}for {pluralize(longest, 'day')})" if longest else ""


def _facts(data: ReportData) -> Iterator[Fact]:
    open_now, records = data.open_records, data["records"]
    of_all = f"of {len(records):,} found{_missed_text(data)}"
    complete = f"all {data.people:,} people were" if data.people != 1 else "the person was"
    missed = f"{data.incomplete_text} of {data.people:,} people {_missing_from(data)}"
    observed = "" if data.incomplete else f"{complete} observed in the last run"
    yield Fact("open listings", f"{len(open_now):,}", missed if data.incomplete else of_all, detail=observed)
    removed = int((records["status"] == REMOVED).sum())
    share = removed / len(records) if len(records) else float("nan")
    absent = int(records["status"].isin(analysis.NOT_LISTED).sum())
    besides = f"; {absent:,} vanished or are unknown" if absent else ""
    outcomes = _outcomes(data)
    never_back = 0 if outcomes is None else int(outcomes["never_back"].sum())
    for_good = (
        f"; {never_back:,} {'has' if never_back == 1 else 'have'} not come back so far{_gone_for(data)}"
        if never_back
        else ""
    )
    yield Fact("removed", f"{removed:,}", f"{percent(share)} of {len(records):,} found{besides}{for_good}")
    yield _manual_fact(data)
    yield Fact("web pages", f"{len(data['links']):,}", _pages_text(data))
    score = data["score"]["score"].sum()
    yield Fact("score", f"{score:,.0f}", "points for what is open", detail=_score_sum(data))
    if data.incomplete and data.user is None and _names_unobserved(data):
        yield Fact("not known", f"{data.unchecked:,}", _unobserved(data))


def _gone_for(data: ReportData) -> str:
    """For how many days at most listings have been gone, in brackets; empty if that is not known."""
    days = data.longest_gone
    return f" (gone for up to {pluralize(days, 'day')})" if days else ""


def _pages_text(data: ReportData) -> str:
    """Where the web pages are, and how many different links they have: each counts once for each person on it."""
    distinct, hosts = data.distinct_pages
    is_shared = distinct < int(data["links"]["url"].notna().sum())
    links = f"{pluralize(distinct, 'different link')}, {_PER_PERSON}" if is_shared else ""
    on_hosts = f"on {pluralize(hosts, 'host')}" if hosts else "" if is_shared else "with personal data"
    return "; ".join(filter(None, (on_hosts, links)))


def _outcomes(data: ReportData) -> pd.DataFrame | None:
    """What came of the requests to each site; None without a history, and in a report on one person."""
    outcomes = data.tables["site_outcomes"]
    return outcomes if data.user is None else None


def _refuses(data: ReportData, site: str | None) -> bool:
    """Whether a site refused or ignored requests, and has removed nothing."""
    outcomes = data.tables["site_outcomes"]
    return outcomes is not None and bool((is_refusing(outcomes) & (outcomes["site"] == site)).any())


def _chances(data: ReportData, site: str | None) -> str:
    """Why it is not known whether a site will remove what it is asked to; empty if it did so before."""
    outcomes = data.tables["site_outcomes"]
    rows = [] if outcomes is None else outcomes[outcomes["site"] == site].to_dict("records")
    if not rows or data.runs is None:
        return ""
    if not rows[0]["requested"]:
        return "no request was seen there yet, so half of the removals are assumed to succeed"
    return f"it {in_vain(rows[0])} so far, and may do so again" if _refuses(data, site) else ""


def _missed_text(data: ReportData) -> str:
    """How many listings were missed, if that can be estimated."""
    table = data.tables["missed"]
    if table is None or pd.isna(table["listings"].iloc[-1]):
        return ""
    last = table.iloc[-1]
    band = format_interval(last["low"], last["high"], "{:,.0f}".format, "95% interval")
    return f"; an estimated {last['listings']:,.0f}{band} missed"


def _fleet_facts(data: ReportData) -> Iterator[Fact]:
    points = data.tables["week_score"]
    for fact in _facts(data):
        if fact.name == "score" and points is not None:
            more = int(points["score"].iloc[-1] - points["score"].iloc[0])
            yield replace(fact, change=_change(more, data))
        else:
            yield fact
    if data.runs is not None:
        yield from _history_facts(data)


def _site_facts(data: ReportData) -> Iterator[Fact]:
    """The figures of everyone that say something about sites, and how many sites list anybody."""
    sites = data["records"]["site"].nunique()
    for fact in _fleet_facts(data):
        if fact.name not in ("score", "web pages") and not fact.name.startswith("open in "):
            yield fact
        if fact.name == "open listings":
            n_open = len(data.open_by_site)
            yield Fact("sites with open listings", f"{n_open:,}", f"of {sites:,} with listings")


def _change_facts(data: ReportData) -> Iterator[Fact]:
    """The causes of the change in open listings as figures, as in the chart of changes."""
    why, points, since_text = data["changes"], data["score_changes"], _since(data)
    n = dict(zip(why["cause"], why["n"], strict=True))
    before, now = int(why["open"].iloc[0]), int(why["open"].iloc[-1])
    yield Fact("open listings", f"{now:,}", f"{before:,} on {since_text}")
    for cause in (*OPENED, *ENDED):
        if n[cause] or cause in (NEW, AGAIN, REMOVED):
            yield Fact(cause, f"{-n[cause] if cause in ENDED else n[cause]:,}", f"since {since_text}")
    first, last = float(points["score"].iloc[0]), float(points["score"].iloc[-1])
    yield Fact("score", f"{last:,.0f}", f"{first:,.0f} on {since_text}", detail=f"now {_score_sum(data)}")
    yield _manual_fact(data)


def _score_sum(data: ReportData) -> str:
    status = data.open_records["status"]
    n = {name: int((status == name).sum()) for name in (DISCOVERED, PENDING_REMOVAL)}
    n |= {OTHER: len(status) - sum(n.values()), PAGE: len(data["links"])}
    words = {OTHER: "in other statuses", PAGE: "web page" if n[PAGE] == 1 else "web pages"}
    parts = [
        f"{n[name]:,} {words.get(name, name)} \u00d7 {analysis.WEIGHTS[name]:g}" for name in n if n[name]
    ]
    return " + ".join(parts) or "nothing is open"


def _manual_fact(data: ReportData) -> Fact:
    """The number of pending manual removals, for listings and web pages."""
    waiting, pages, blocked, duration = data.manual_work
    reason = f"; {blocked:,} of them cannot start: a required value is not on file" if blocked else ""
    checks = _check_part(data)
    if data.unchecked_sites:
        reason = f"; {_UNCHECKED if data.sharing is None else _LEFT_OUT}"
    items = f"{pluralize(waiting - pages, 'listing')}, {pluralize(pages, 'web page')}"
    later = data.later_work
    when = f"; {waiting - later:,} to do now, {later:,} later" if later and data.sharing is None else ""
    return Fact(
        "to do by hand",
        f"{waiting:,}",
        f"{items}, about {duration}{'; ' if checks else ''}{checks.removeprefix(', ')}{when}{reason}",
        detail=_minutes_basis(data),
    )


def _minutes_basis(data: ReportData) -> str:
    """Where the minutes come from: assumed, or learned from ticks."""
    learned = data.tables["step_minutes"]
    if learned is None or learned.empty:
        return f"{_ASSUMED}, {_WAITING}"
    ticks = pluralize(int(learned["ticks"].sum()), "timed tick")
    sites = pluralize(len(learned), "site")
    return f"{_ASSUMED}, except on {sites}, where minutes per step are learned from {ticks}; {_WAITING}"


def _minutes_spent(data: ReportData) -> str:
    """The minutes that were spent so far, and those that are left, for each listing; empty if nothing was timed."""
    timed = data.tables["timed_steps"]
    if timed is None or timed.empty or data.sharing is not None:
        return ""
    spent, listings = analysis.minutes_spent(timed)
    if not listings:
        return ""
    waiting, *_ = data.manual_work
    left = open_items(data["work_queue"])["minutes"].sum()
    each = f", {left / waiting:,.1f} minutes each" if waiting else ""
    return (
        f" Timed so far: {format_duration(spent)} on {pluralize(listings, 'listing or page', 'listings and pages')}, "
        f"{spent / listings:,.1f} minutes each; left: {format_duration(left)}{each}."
    )


def _history_facts(data: ReportData) -> Iterator[Fact]:
    removal, requests = data["removal_of_all"].to_dict("records")[0], data["removal_requests"]
    if removal["n"] >= MIN_N:
        yield _median_fact(data, removal, requests)
    relistings = data["relistings"]
    listings = relistings.drop_duplicates(["user_id", "key"], keep="last")
    again = _relisted(data).replace(f" {_CAME_BACK}", "") if len(relistings) else ""
    if where := _all_relisted(data):
        again = f"{where}; {again}"
    else:
        again = again.partition(" ")[2] or "no removed listing was listed again"
    yield Fact(_CAME_BACK, f"{len(listings):,}", again, detail=_gone(data))
    yield _forecast_fact(data)


def _median_fact(data: ReportData, removal: Mapping[Hashable, Any], requests: pd.DataFrame) -> Fact:
    """The median days to removal: from the request, or from the first observation if too few requests were seen."""
    followed = _followed(data, int(removal["n"]))
    days, band = _median_words(removal)
    still_listed = _still_listed(removal) or "nothing was requested or removed yet"
    detail = (
        f"estimated from {followed}, recent ones included "
        f"({removal['n'] - removal['first_removed']:,} seen open, {removal['first_removed']:,} first seen removed); "
        f"{still_listed}"
    )
    request = _request_times(requests)
    stay = _still_listed(removal, band=False)
    if pd.isna(request["median_days"]):
        start = f"from the first observation{f' ({band})' if band else ''}"
        words = "; ".join(filter(None, (start, stay, f"based on {followed}")))
        return Fact("half removed within", days, words, detail=detail)
    days_from_request, band_from_request = _median_words(request)
    of_all = f"of all listings, requested or not, {stay}" if stay else ""
    clocks = f"from the request{f' ({band_from_request})' if band_from_request else ''}; {days} from first observation"
    return Fact(
        "half removed within",
        days_from_request,
        f"{clocks}. {_sentences([_request_counts(data, requests), of_all])}".removesuffix("."),
        detail=f"from the first observation of a listing: {', '.join(filter(None, (days, band)))}, {detail}",
    )


def _still_listed(removal: Mapping[Hashable, Any], *, band: bool = True) -> str:
    """The estimated share of listings that stay, and after how many days; empty without an estimate."""
    if pd.isna(removal["never"]):
        return ""
    ends = (
        format_interval(removal["never_low"], removal["never_high"], percent, "95% interval") if band else ""
    )
    after = pluralize(int(removal["followed_days"]), "day")
    return f"an estimated {percent(removal['never'])}{ends} are still listed after {after}"


def _request_counts(data: ReportData, requests: pd.DataFrame) -> str:
    """How many requests succeeded, were refused or ignored, or are pending; a relisted listing has one each time."""
    n, n_removed = len(requests), int((requests["end"].astype("str") == REMOVED).sum())
    outcome = request_outcomes(requests, at=data.as_of)
    parts = {did: int((outcome == did).sum()) for did in (REFUSED, IGNORED)}
    others = [f"{count:,} {'was' if count == 1 else 'were'} {did}" for did, count in parts.items() if count]
    pending = int((outcome.isna() & requests["end"].isna()).sum())
    others += [f"{pending:,} {'is' if pending == 1 else 'are'} pending"] if pending else []
    return ", ".join([f"of {pluralize(n, 'request')} {n_removed:,} succeeded", *others])


def _request_times(requests: pd.DataFrame) -> dict[Hashable, Any]:
    """The times to removal from the request, of all sites together."""
    return analysis.time_to_removal(request_life_table(requests), by=None).to_dict("records")[0]


def _median_words(row: Mapping[Hashable, Any]) -> tuple[str, str]:
    """A median in days, and its interval; empty if there is none."""
    if pd.isna(row["median_days"]):
        return "not reached", ""
    band = format_interval(row["median_low"], row["median_high"], "{:,g}".format, "95% interval")
    return format_days(row["median_days"]), band.strip(" ()")


def _gone(data: ReportData) -> str:
    """How many of the listings that were gone at some time are so now; empty if none came back, or that is not known."""
    if _outcomes(data) is None or not len(data["relistings"]):
        return ""
    now = int(data["records"]["status"].isin(analysis.CLOSED).sum())
    return f"{now:,} {'is' if now == 1 else 'are'} gone now"


def _were_gone(n: int) -> str:
    """How many listings were gone at some time."""
    return f"{pluralize(n, 'listing')} that {'was' if n == 1 else 'were'} gone at some time"


def _forecast_fact(data: ReportData) -> Fact:
    """The expected number of open listings; without a forecast, those that stay open until somebody acts."""
    forecast = data["next_forecast"].to_dict("records")[0]
    name = f"open in {forecast['days']:,} days"
    reason = "" if pd.isna(forecast["reason"]) else f"; {forecast['reason']}"
    by_hand, _, _, no_effect = data.open_parts
    stay = f"{pluralize(by_hand, 'listing stays', 'listings stay')} open until done by hand"
    if not pd.isna(forecast["open"]):
        interval = f"(95% interval: {forecast['low']:,.0f}\N{EN DASH}{forecast['high']:,.0f})"
        change = round(forecast["open"]) - len(data.open_records)
        than_now = f"{_more(change)} than now" if change else "as many as now"
        staying, back, new = _forecast_parts(forecast)
        parts = f"{staying:,} of the {len(data.open_records):,} open now, {back:,} listed again by then and {new:,} new"
        if_done = _if_done(data, forecast)
        done = f", about {_open_if_done(data, forecast)[0]:,} if all is" if if_done else ""
        expected = f"if nothing is done by hand {interval}{done}; {than_now}: {parts}"
        caution = "" if pd.isna(forecast["reason"]) else str(forecast["reason"])
        notes = _sentences([if_done, caution]).removesuffix(".")
        words = f"{expected}. {notes}" if notes else expected
        return Fact(name, f"{forecast['open']:,.0f}", words, detail=_forecast_basis(data, forecast))
    old = f"; not counted: {pluralize(no_effect, 'request')} without effect so far" if no_effect else ""
    if not by_hand:
        return Fact(name, "\N{EM DASH}", f"no forecast yet{reason}{old}")
    return Fact(name, f"at least {by_hand:,}", f"{stay}{old}; no forecast yet{reason}")


def _manual_removals(data: ReportData, stay: int) -> int:
    """How many of the open listings that stay are removed if all manual work is done, as `_expected_removals` expects."""
    by_hand, *_ = data.open_parts
    return round(data.manual_listings["success_rate"].mean() * min(by_hand, stay)) if by_hand else 0


def _open_if_done(data: ReportData, forecast: Mapping[Hashable, Any]) -> tuple[int, int]:
    """How many open listings to expect if all manual work is done, and how many if all of it succeeds."""
    by_hand, *_ = data.open_parts
    parts = _forecast_parts(forecast)
    return sum(parts) - _manual_removals(data, parts[0]), sum(parts) - min(by_hand, parts[0])


def _if_done(data: ReportData, forecast: Mapping[Hashable, Any]) -> str:
    """The same in words; empty if there is no manual work."""
    expected, least = _open_if_done(data, forecast)
    if least == sum(_forecast_parts(forecast)):
        return ""
    return f"about {expected:,} if all manual work is done, {least:,} if all of it succeeds"


def _forecast_parts(forecast: Mapping[Hashable, Any]) -> list[int]:
    """How many of the listings open then are open now, gone now, and not found yet; they add up to the forecast."""
    until = np.round(np.cumsum([forecast[part] for part in ("of_open", "of_gone", "of_new")]))
    parts: list[int] = np.diff(until, prepend=0.0).astype("int64").tolist()
    return parts


def _forecast_basis(data: ReportData, forecast: Mapping[Hashable, Any]) -> str:
    """How a forecast compares with the past, and why it may exceed it."""
    days, total = int(forecast["days"]), round(forecast["open"])
    by_hand, *_ = data.open_parts
    stay, *_ = _forecast_parts(forecast)
    words = ["it assumes that nothing is done by hand, and that each site continues at its past rates"]
    if by_hand and stay:
        done = pluralize(min(by_hand, stay), "listing")
        words.append(
            f"if all manual work is done, {_manual_removals(data, stay):,} of {done} are taken to be removed by then (the "
            "expected removals of all sites together), and not to come back"
        )
    if stay < by_hand:
        words.append("so some that wait go without a request")
    start, change = data.as_of.date() - timedelta(days=days), total - len(data.open_records)
    if _change_in(data, OPEN, start) is None:
        return "; ".join(words)
    course = data["status_over_time"]
    peak = int(course.loc[course["period"].dt.date >= start, OPEN].max())
    if total > peak:
        words.append(f"more than on any of the last {days:,} days ({peak:,} at most)")
    past = max(days // WEEK_DAYS, 1) * WEEK_DAYS  # the same weekday, as in the comparisons with a month ago
    before = _change_in(data, OPEN, data.as_of.date() - timedelta(days=past))
    if before is not None and before != change:
        words.append(f"the last {past:,} days brought {_more(before) if before else 'no change'}")
    return "; ".join(words)


def _change_in(data: ReportData, column: str, day: date) -> int | None:
    """How much a column of the status over time has changed since the end of a day; None if that was not observed."""
    course = data.tables["status_over_time"]
    if course is None:
        return None
    before = course.loc[course["period"].dt.date <= day, column]
    return None if before.empty else int(course[column].iloc[-1] - before.iloc[-1])


def _followed(data: ReportData, n: int) -> str:
    """What the number of listings that were followed is made of: the ones found, and relistings.

    Listings that were open at the first load are not followed, but their relistings are.
    """
    total, relisted = len(data["records"]), len(data["relistings"])
    relistings = f" and {pluralize(relisted, 'relisting')}" if relisted else ""
    first = n - relisted
    share = (
        pluralize(total, "listing") if first == total else f"{first:,} of {pluralize(total, 'listing')} found"
    )
    return f"{share}{relistings}"


def _base(data: ReportData, n: int) -> str:
    """A sentence on the listings that were followed."""
    followed = _followed(data, n)
    subject = f"{followed[:1].upper()}{followed[1:]}"
    return f"{subject} {'is' if n == 1 else 'are'} followed (n = {n:,})."


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
        change = _change(int(n.iloc[-1] - before.iloc[-1]), data)
        month = _change_in(data, column, data.as_of.date() - timedelta(days=MONTH_DAYS))
        if fact.name == REMOVED and (both := _removals_and_relistings(data)):
            yield replace(fact, trend=trend, change=change, qualifier=f"{fact.qualifier}; {change}{both}")
            continue
        if fact.name != REMOVED and data.is_whole_week and month is not None:
            change += f", {_signed(month)} in {MONTH_DAYS}"
        yield replace(fact, trend=trend, change=change)


def _removals_and_relistings(data: ReportData) -> str:
    """The removals since the start of the week, and the relistings that undid some; empty without both."""
    by_site = data.tables.get("week_by_site")
    if by_site is None:
        return ""
    removed, again = (int(by_site[what].sum()) for what in (REMOVED, AGAIN))
    return f": {removed:,} {REMOVED}, {again:,} {AGAIN}" if removed and again else ""


def _change(more: int, data: ReportData) -> str:
    """How much a figure has changed since the start of the week."""
    return f"{_signed(more) if more else 'unchanged'} {_span(data)}"


def _span(data: ReportData) -> str:
    return f"in {WEEK_DAYS} days" if data.is_whole_week else f"since {data.week_start}"


def _more(n: int) -> str:
    return f"{abs(n):,} {'fewer' if n < 0 else 'more'}"


def _signed(n: int) -> str:
    return f"{'+' if n > 0 else MINUS}{abs(n):,}" if n else "0"


def _actions(data: ReportData, sections: Sequence[Section], kind: str) -> list[Action]:
    """The first things to do: manual work that can start, and the request for data that unlocks most; and what has to wait."""
    by_key = {section.key: section for section in sections}
    pending = _pending_action(data, by_key.keys())
    if kind == "sites" and "work_queue" not in by_key and "by_site" in by_key:
        work = [(0, one) for one in _removals(data)]
        begin, wait = _to_begin(data, work), _to_wait(work)
        by_hand = _removal_actions(data, [*begin, *wait], {}, is_ranked=False)
        return _first([replace(action, section="by_site") for action in by_hand], pending)
    work = [*enumerate(by_key["work_queue"].removals if "work_queue" in by_key else (), 1)]
    request = _request(data) if "blockers" in by_key else None
    others = [action for action in (_pages_action(data, work), request) if action is not None]
    begin = _to_begin(data, work)[: max(_ACTIONS - len(others), 2)]
    steps = {str(one.site): (step, one) for step, (_, one) in reversed([*enumerate(begin, 1)])}
    actions = [*_removal_actions(data, begin, steps), *others][:_ACTIONS]
    asks = request if request not in actions else None
    return _first([*actions, *_removal_actions(data, _to_wait(work), steps, asks)], pending)


def _is_counted(removal: Removal) -> bool:
    """Whether a group is of listings, and the report says how many and how long they take."""
    return removal.site is not None and removal.listings is not None and removal.minutes is not None


def _can_begin(removal: Removal) -> bool:
    """Whether something can be done about a group now: the work itself, or asking for a document."""
    return removal.reason is None or removal.waits_for_document


def _to_begin(data: ReportData, work: Sequence[tuple[int, Removal]]) -> list[tuple[int, Removal]]:
    """The groups that can begin, most expected removals per minute first; without a history, those without a document."""
    groups = [(at, one) for at, one in work if _is_counted(one) and _can_begin(one)]
    if data.runs is None:
        return sorted(groups, key=lambda group: bool(group[1].reason))
    return sorted(groups, key=lambda group: -_expected(data, group[1]) / max(group[1].minutes or 0, 1))


def _to_wait(work: Sequence[tuple[int, Removal]]) -> list[tuple[int, Removal]]:
    """The groups that have to wait."""
    return [(at, one) for at, one in work if _is_counted(one) and not _can_begin(one)]


def _expected(data: ReportData, removal: Removal) -> float:
    """How many removals to expect of a group of manual work."""
    queue = open_items(data["work_queue"])
    rate = queue.loc[queue["site"] == removal.site, "success_rate"].mean()
    return float(rate) * (removal.listings or 0)


def _removal_actions(
    data: ReportData,
    groups: Sequence[tuple[int, Removal]],
    steps: Mapping[str, tuple[int, Removal]],
    request: Action | None = None,
    *,
    is_ranked: bool = True,
) -> list[Action]:
    """The actions that clear groups of manual work; `request` is for data that no other action asks for."""
    tops = _first_of_site([one for _, one in groups])
    can_begin = sum(_can_begin(one) for _, one in groups)
    return [
        _removal_action(
            one,
            data,
            at,
            is_first=is_ranked and number == 0 and can_begin > 1,
            is_top=is_top and (str(one.site) not in steps or steps[str(one.site)][1] is one),
            steps=steps,
            request=request,
        )
        for number, ((at, one), is_top) in enumerate(zip(groups, tops, strict=True))
    ]


def _first_of_site(work: Sequence[Removal]) -> list[bool]:
    """Which groups of manual work are the first of their site."""
    return (~pd.Series([one.site for one in work], dtype="str").duplicated()).tolist()


def _pages_action(data: ReportData, work: Sequence[tuple[int, Removal]]) -> Action | None:
    """The messages to the owners of web pages: one for each host."""
    pages = {at: one for at, one in work if one.site is None and one.listings}
    if not pages:
        return None
    n = sum(one.listings or 0 for one in pages.values())
    distinct = n if data.sharing is not None else data.manual_pages["url"].nunique()
    links = (
        f"{pluralize(distinct, 'different link')} (a page counts for each person on it)"
        if distinct < n
        else ""
    )
    duration = format_duration(sum(one.minutes or 0 for one in pages.values()))
    hosts = data.distinct_pages[1]
    where = f" on {pluralize(hosts, 'host')}" if data.sharing is None and hosts else ""
    one_each = f", {PER_PAGE}" if n > 1 else ""
    about = f"; check first that {'each' if n > 1 else 'it'} is about the person"
    check = about if _checks(data)[1] else ""
    effect = f"about {duration}{one_each}{check}"
    return Action(
        f"Write to the owners of {pluralize(n, 'web page')}{where}",
        _sentences([links, effect, "there is no opt-out form, and owners may refuse"]),
        f"work_queue-{min(pages)}",
        OPERATOR,
    )


def _half_hour(data: ReportData) -> str:
    """What can be expected to remove most in half an hour; empty if nothing does, and in a share-safe report."""
    plan = data.tables["plan"]
    if plan is None or plan.empty or data.sharing is not None:
        return ""
    remove = "check and remove" if any(_checks(data)) else "remove"
    order = f" In order of minutes only: {_NEED_HISTORY}." if data.runs is None else ""
    return f"If {OPERATOR} have {PLAN_MINUTES:g} minutes, {remove} {_plan_words(data, plan)}.{order}"


def _plan_words(data: ReportData, plan: pd.DataFrame) -> str:
    """Whose listings on which sites, and data on how many web pages; how many removals that may be, and the time."""
    listings = plan[plan["site"].notna()]
    parts = [
        f"{pluralize(len(of_site), 'listing')} on {short(str(site))}{_whose(data, of_site, len(listings))}"
        for site, of_site in listings.groupby("site", sort=False)
    ]
    pages = len(plan) - len(listings)
    parts += [f"the data on {pluralize(pages, 'web page')}"] if pages else []
    expected = _expected_removals(data, listings)
    time = f"about {format_duration(plan['minutes'].sum())}{_minutes_of_parts(plan)}"
    return f"{enumerate_words(parts)}: {', in '.join(filter(None, (expected, time)))}"


def _minutes_of_parts(plan: pd.DataFrame) -> str:
    """The minutes of each row without its visit, and those of the visits, in brackets; only the latter if they are many."""
    groups = plan.groupby(["kind", "group"], dropna=False)["minutes"]
    visits = len(groups)
    own = (plan["minutes"] - VISIT_MINUTES / groups.transform("size")).round()
    each = "on each site" if plan["site"].notna().all() else "on each site or host"
    where = each if visits > 1 else "there"
    begin = f"{VISIT_MINUTES:g} to start {where}"
    is_sum = round(own.sum() + visits * VISIT_MINUTES) == round(plan["minutes"].sum())
    if len(own) > _PLAN_NAMED or not is_sum:
        return f" ({begin} included)"
    return f" ({' + '.join(f'{minutes:g}' for minutes in own)} minutes, and {begin})"


def _whose(data: ReportData, listings: pd.DataFrame, total: int) -> str:
    """The people of some listings, in brackets; empty if the report is about one, or there are many in all."""
    if data.user is not None or total > _PLAN_NAMED:
        return ""
    of_person = listings["user_id"].value_counts(sort=False)
    n_named = Counter(data.names.values())
    people = []
    for user, n in zip(of_person.index.tolist(), of_person.tolist(), strict=True):
        name = data.names.get(user, "")
        who = f"{short(name)} (user {user})" if n_named[name] > 1 else short(name) or f"user {user}"
        people.append(f"{who} ({pluralize(n, 'listing')})" if n > 1 else who)
    return f" ({', '.join(people)})"


def _expected_removals(data: ReportData, listings: pd.DataFrame) -> str:
    """How many removals to expect of some rows of the work queue; empty without a history, which has the success rates."""
    if data.runs is None or listings.empty:
        return ""
    return _expected_words(data, float(listings["success_rate"].sum()), len(listings))


def _expected_words(data: ReportData, n: float, requests: int) -> str:
    """How many removals to expect of some requests; empty without a history, which has the success rates."""
    if data.runs is None or not requests:
        return ""
    if requests == 1:
        return f"{'an even' if n == UNKNOWN_RATE else f'a {percent(n)}'} chance of success"
    if n < _ONE_REMOVAL:
        return f"about one removal for {requests / n:,.0f} requests expected"
    whole = max(round(n), 1)
    return f"{'' if n == whole else 'about '}{pluralize(whole, 'removal')} expected"


def _first(actions: Sequence[Action], pending: Action | None) -> list[Action]:
    """The first actions of those that can be done now, and of those that have to wait."""
    later = [action for action in (pending, *actions) if action is not None and action.is_later]
    return [*[action for action in actions if not action.is_later][:_ACTIONS], *later[:_ACTIONS]]


def _pending_action(data: ReportData, keys: AbstractSet[str]) -> Action | None:
    """From when on pending removals have to be checked: the day after which the first request counts as ignored."""
    key = next((one for one in _WITH_PENDING if one in keys), None)
    n, records = data.open_parts[2], data["records"]
    if not n or key is None or "changed_at" not in records:
        return None
    is_pending = (records["status"] == PENDING_REMOVAL).to_numpy("bool")
    requests = records[is_pending]
    due = requests["changed_at"].dt.floor("D") + pd.to_timedelta(
        data.overdue_days(requests["site"]), unit="D"
    )
    due = due[due > pd.Timestamp(data.as_of).floor("D")]
    first = due.groupby(texts(requests["site"])).agg(["min", "size"]).sort_values("min", kind="stable")
    is_named = all(map(data.can_name, first.index))
    when = f"{first['min'].min():%Y-%m-%d}"
    if is_named and len(first) == 1:
        when += f" ({short(first.index[0])})"
    elif is_named and len(first) <= _WORST_NAMED:
        rows = first.itertuples(name=None)
        when = enumerate_words(
            [f"{due:%Y-%m-%d} ({short(site)}, {of_site:,})" for site, due, of_site in rows]
        )
    return Action(
        "1 removal is pending" if n == 1 else f"{n:,} removals are pending",
        f"Nothing to do before {when}.",
        key,
        OPERATOR,
        is_later=True,
    )


def _removal_action(
    removal: Removal,
    data: ReportData,
    at: int,
    *,
    is_first: bool = False,
    is_top: bool,
    steps: Mapping[str, tuple[int, Removal]],
    request: Action | None = None,
) -> Action:
    """The action that clears a group of manual work, which has this number in the work queue.

    Args:
        removal: The group.
        data: The data of the report.
        at: The number of the group in the work queue.
        is_first: Whether it is the first work of all.
        is_top: Whether it is the first of its site.
        steps: The numbers of the actions that can begin, and their groups, by site.
        request: A request for data that is part of this action if the group waits for it.
    """
    n, minutes = removal.listings or 0, removal.minutes or 0
    share = percent(n / max(len(data.open_records), 1))
    # The others may lack a value, which a shared report does not mention.
    of_site = n if data.sharing is not None else data.open_by_site.get(removal.site or "", 0)
    listings = f"{n:,} of {of_site:,} open listings" if of_site > n else pluralize(n, "listing")
    is_unchecked = removal.site in data.unchecked_sites
    people = pluralize(removal.people or 0, "person", "people") if data.user is None else "the person"
    is_ready = removal.reason is None
    before = [_TO_CHECK] if is_unchecked and data.sharing is None else []
    document = document_request(people)
    before += [
        one
        for one in (
            requests_to_people(removal.steps, people) if is_ready or removal.waits_for_document else ()
        )
        if is_ready or one != document
    ]
    notes = [chances] if (chances := _chances(data, removal.site)) else []
    notes += [f"before you begin, {enumerate_words(before)}"] if before else []
    is_blocked = bool(removal.tasks) and all(task.missing_values for task in removal.tasks)
    notes += [] if _can_begin(removal) or is_blocked else [f"reason to wait: {removal.reason}"]
    notes += [_LEFT_OUT] if is_unchecked and data.sharing is not None else []
    notes += _not_counted(data, removal, of_site - n, steps) if of_site > n else []
    expected = _expected_words(data, _expected(data, removal), n)
    most = f"{share} of what is open{' if all succeed' if n > 1 else ''}"
    effect = ", ".join(filter(None, (most, expected, f"in about {format_duration(minutes)}")))
    is_worst = [*_most_open(data)] == [removal.site]
    first = "fewest minutes per listing" if data.runs is None else "most expected removals per minute"
    ranks = [first] if is_first else []
    ranks += [f"most open listings{_of_named(data)}"] if is_worst and is_top else []
    effect = f"{enumerate_words(ranks)}: {effect}" if ranks else effect
    what, who = f"emove {listings} on {short(removal.site)} by hand", removal.who
    if removal.waits_for_document:
        what = f"{document[:1].upper()}{document[1:]} now; then r{what}"
    elif is_ready:
        what = f"R{what}"
    elif (
        is_blocked
        and request is not None
        and {task.user_id for task in removal.tasks} == {_requested_user(data)}
    ):
        what, who = f"{request.text}; then r{what}", request.who
    else:
        what = f"R{what} (later: {_once_on_file(removal) if is_blocked else 'after the others'})"
        notes += [request.text] if is_blocked and request is not None else []
    return Action(
        what,
        _sentences([effect, *notes]),
        f"work_queue-{at}",
        who,
        is_later=not _can_begin(removal),
    )


def _once_on_file(removal: Removal) -> str:
    """When removals that lack a value can start."""
    labels = [*dict.fromkeys(label for task in removal.tasks for label in task.missing_values)]
    return f"once {_value_words(labels)} {'is' if len(labels) == 1 else 'are'} on file"


def _not_counted(
    data: ReportData, removal: Removal, others: int, steps: Mapping[str, tuple[int, Removal]]
) -> list[str]:
    """Why so many other open listings of a site are not among those of its manual work."""
    queue, records = data["work_queue"], data.open_records
    of_site = queue[queue["site"] == removal.site]
    states, left = of_site["state"].value_counts(), open_items(of_site)
    apart = len(left) - (removal.listings or 0)
    lacking = [
        one for one in missing_values(left[left["reason"].fillna("") != (removal.reason or "")]) if one
    ]
    blocked = len(lacking)
    is_pending = (records["site"] == removal.site) & (records["status"] == PENDING_REMOVAL)
    pending = int(is_pending.sum())
    parts = {
        "pending removal" if pending == 1 else "pending removals": pending,
        "marked unable": int(states.get(UNABLE, 0)),
        "done and not verified yet": int(states.get(DONE, 0)),
        "with other steps or reasons": apart - blocked,
    }
    parts["waiting for the service"] = others - blocked - sum(parts.values())
    words = [f"{n:,} {why}" for why, n in parts.items() if n > 0]
    are = "is" if others - blocked == 1 else "are"
    step, first = steps.get(removal.site or "", (0, removal))
    if first is not removal and first.listings == others:
        return [f"the other {'one is' if others == 1 else f'{others:,} are'} in step {step}"]
    notes = [f"the {enumerate_words(words)} {are} not counted"] if words else []
    more = "one more has" if blocked == 1 else f"{blocked:,} more have"
    return [*notes, f"{more} to wait (below)"] if blocked else notes


def _sentences(parts: Iterable[str]) -> str:
    """Some statements as sentences; empty ones are left out."""
    return " ".join(f"{part[:1].upper()}{part[1:]}." for part in parts if part)


def _value_words(labels: Sequence[str]) -> str:
    """Values to ask a person for, such as ``the birth date and the email address``."""
    return enumerate_words([f"the {_ADDRESSES.get(label, label)}" for label in labels])


def _person_title(data: ReportData) -> str:
    name = data.names.get(data.user or 0)
    if name is None:
        return f"Exposure of {data.user_label}"
    if not data.has_profiles:  # the name may be somebody else's, or an alias
        return f"Exposure of {data.user_label}, listed as {short(name)}"
    return f"Exposure of {short(name)} ({data.user_label})"


def _request(data: ReportData) -> Action | None:
    """The request for data that unlocks most removals."""
    requests = data.tables["best_next_fields"]
    if requests is None or requests.empty or data.sharing is not None:
        return None
    request = requests.iloc[0]
    person = data.names.get(int(request["user_id"]), f"user {request['user_id']}")
    labels = [*map(field_label, str(request["fields"]).split(", "))]
    effect = _sentences([f"this unlocks {pluralize(int(request['removals']), 'removal')}"])
    return Action(f"Ask {short(person)} for {_value_words(labels)}", effect, "blockers", OPERATOR_AND_PERSON)


def _requested_user(data: ReportData) -> int:
    """The id of the person whom `_request` is to."""
    return int(data["best_next_fields"]["user_id"].iloc[0])


def _change_finding(data: ReportData) -> str:
    n_open = data["changes"]["open"]
    before, after = int(n_open.iloc[0]), int(n_open.iloc[-1])
    more = after - before
    words = (
        "as many as before" if more == 0 else f"{abs(more):,} {'more' if more > 0 else 'fewer'} than before"
    )
    return f"{pluralize(after, 'listing')} {'is' if after == 1 else 'are'} open, {words}."


# --- sections ---------------------------------------------------------------------------------------------


def _over_time(data: ReportData) -> Section | None:
    course = data.tables["status_over_time"]
    if (
        course is not None and data.user is not None
    ):  # how many people a run loaded is no figure of one person
        course = course.drop(columns="unseen", errors="ignore")
    section = _section(data, "status_over_time", course)
    if section is not None and section.table is not None:
        # The day is that of the period; how many people a run loaded is no figure of one person.
        idle = ["at"] if data.user is None else ["at", "people"]
        section = replace(section, table=section.table.drop(columns=idle, errors="ignore"))
    return section


def _week(data: ReportData) -> Section | None:
    """What changed in the last days: the causes, and on which sites."""
    why, by_site = data.tables["week"], data.tables["week_by_site"]
    if why is None or by_site is None or data.user is not None:
        return None
    safe = by_site if data.sharing is None else data.sharing.with_other_sites(by_site)
    is_changed = safe[[*WHAT]].any(axis=1)
    changed, idle = safe[is_changed], safe[~is_changed]
    counts = list(safe.select_dtypes("number"))
    table = changed
    if len(changed) and len(idle):
        rest = pd.DataFrame([{"site": f"unchanged: {pluralize(len(idle), 'site')}", **idle[counts].sum()}])
        table = pd.concat([changed, rest.astype(changed.dtypes[rest.columns])])
    assert data.week_start is not None  # noqa: S101  there would be no changes since then
    start = f"since {data.week_start}"
    drawn = charts.changes(why, provenance=f"{data.source_line} · {start}")
    words, points = "", [_period(data, (data.week_start, data.as_of.date()), by_site)]
    if (earlier := data.tables["week_before"]) is not None:
        now, then = (int((one["open_after"] - one["open_before"]).sum()) for one in (by_site, earlier))
        words = (
            f"Change in open listings: {_signed(now)}, after {_signed(then)} in the {WEEK_DAYS} days before."
        )
        dates = data.week_start - timedelta(days=WEEK_DAYS), data.week_start
        points.append(f"The {WEEK_DAYS} days before, {_period(data, dates, earlier)}")
    return Section(
        section_type("week").title if data.is_whole_week else start.capitalize(),
        key="week",
        finding=f"{drawn.layout.meta['finding']}.{_without_request(data)}",
        text=" ".join(filter(None, (words, _removed_again(data, by_site)))),
        points=tuple(points),
        figure=drawn,
        table=table.reset_index(drop=True) if len(table) else None,
        rows=len(table),
        totals=_sums(table),
    )


def _without_request(data: ReportData) -> str:
    """How many open listings have no pending removal, and how many more they are than at the start of the week.

    If fewer removals are pending, the open listings may become fewer while those that somebody has to act on become more.
    Empty if as many are pending as before.
    """
    start = data.week_start
    changes = [_change_in(data, column, start) for column in (OPEN, PENDING_REMOVAL) if start is not None]
    if len(changes) < 2 or None in changes or not changes[1]:  # noqa: PLR2004  one for each column
        return ""
    more = (changes[0] or 0) - (changes[1] or 0)
    n = int((data.open_records["status"] != PENDING_REMOVAL).sum())
    return f" Without a pending removal: {n:,}, {_more(more) if more else 'as many as before'}."


def _removed_again(data: ReportData, by_site: pd.DataFrame) -> str:
    """How many of the listings removed since the start of the week had come back before; empty if none had, or it is not known."""
    records, start = data.tables.get("records"), data.week_start
    if records is None or "episode" not in records or start is None:
        return ""
    is_recent = (records["status"] == REMOVED) & (records["changed_at"].dt.date > start)
    again, removed = int((is_recent & (records["episode"] > 1)).sum()), int(by_site[REMOVED].sum())
    if not again or int(is_recent.sum()) != removed:  # some came back within the week
        return ""
    of = "All" if again == removed else f"{again:,} of the"
    return f"{of} {pluralize(removed, 'removed listing')} had come back before."


def _period(data: ReportData, dates: tuple[date, date], by_site: pd.DataFrame) -> str:
    """What changed from one day to another, with the sites: of `Diff.by_site`, so that the numbers add up."""
    safe = by_site if data.sharing is None else data.sharing.with_other_sites(by_site)
    before, after = int(safe["open_before"].sum()), int(safe["open_after"].sum())
    kinds = [_change_words(safe, what) for what in _IN_ORDER if safe[what].any() or what in _ALWAYS_COUNTED]
    return f"{dates[0]} to {dates[1]}: from {before:,} to {after:,} open; {'; '.join(kinds)}."


def _change_words(by_site: pd.DataFrame, what: str) -> str:
    """How often a kind of change occurred, and on which sites most."""
    n = by_site.set_index("site")[what].sort_values(ascending=False, kind="stable")
    named = [f"{short(str(site))} {count:,}" for site, count in n[n > 0].head(_SITES_NAMED).items()]
    rest = int((n > 0).sum()) - len(named)
    others = f" and {n.iloc[len(named) :].sum():,} on {pluralize(rest, 'other site')}" if rest else ""
    sites = f" ({', '.join(named)}{others})" if named else ""
    why = ": refused or ignored" if what == FAILED else ""
    return f"{n.sum():,} {what}{why}{sites}"


def _sums(table: pd.DataFrame) -> dict[str, int]:
    """The sum of each count of a table with one row per site or person; people may be on several sites: they have none."""
    counts = [str(name) for name in table.select_dtypes("number") if name not in _NO_SUMS]
    return {name: int(table[name].sum()) for name in counts} if len(table) > 1 else {}


def _with_totals(section: Section | None) -> Section | None:
    """Add the sums of the rows, unless some rows are left out."""
    if section is None or section.table is None or len(section.table) < section.rows:
        return section
    return replace(section, totals=_sums(section.table))


def _by_site(data: ReportData) -> Section | None:
    """The listings of each site; from a history, with what came of the requests to it."""
    section, outcomes = _section(data, "by_site"), _outcomes(data)
    if section is None or section.table is None or outcomes is None:
        return _with_totals(section)
    is_undeclared = bool(outcomes["declared_days"].isna().all())
    if data.sharing is None:
        table = outcomes.drop(
            columns=[*_NOT_DISPLAYED, *_MEDIAN, *(["declared_days"] if is_undeclared else [])]
        )
    else:  # how long a removal takes is in its own section
        counts = outcomes[["site", *outcomes.select_dtypes("int64")]].drop(columns=[*_NOT_DISPLAYED])
        table = data.sharing.with_other_sites(counts)
        table.insert(1, "verdict", table["site"].map(outcomes.set_index("site")["verdict"]).astype("str"))
    rest = section.table.columns.intersection([*analysis.NOT_LISTED])
    table = table.merge(section.table[["site", *rest]], on="site", how="left")
    table.attrs |= outcomes.attrs
    named = outcomes[[data.can_name(str(site)) for site in outcomes["site"]]]
    worst = named[named["open"] > 0].head(_WORST_NAMED)
    others = "; ".join(_other_measures(named, worst))
    words = [
        _verdicts(worst),
        f"By other measures: {others}." if others else "",
        _without_relisting(named),
        _promises(data, outcomes),
    ]
    section = replace(
        section,
        title="Sites, most open listings first",
        table=table.head(ROWS_MAX),
        rows=len(table),
        finding=_worst_first(data, worst) or section.finding,
    )
    return _add_words(_with_totals(section), " ".join(filter(None, words)))


def _worst_first(data: ReportData, worst: pd.DataFrame) -> str:
    """The sites with the most open listings, each with the verdict on it; empty if there are none."""
    if worst.empty:
        return ""
    n_open = len(data.open_records)
    are = "listing is" if n_open == 1 else "listings are"
    rows = zip(worst["site"].astype("str"), worst["open"], strict=True)
    sites = enumerate_words([f"{short(site)} {n:,}" for site, n in rows])
    return f"{n_open:,} {are} open. Most open listings{_of_named(data)}: {sites}."


def _verdicts(worst: pd.DataFrame) -> str:
    """What came of the requests to some sites, as a sentence; empty if there are none."""
    rows = zip(worst["site"].astype("str"), worst["verdict"], strict=True)
    words = "; ".join(f"{short(site)}: {verdict}" for site, verdict in rows)
    return f"{words}." if words else ""


def _other_measures(table: pd.DataFrame, worst: pd.DataFrame) -> Iterator[str]:
    """The first site by other measures: one that refuses requests, and where the largest share came back."""
    refusing = table[is_refusing(table) & ~table["site"].isin(worst["site"])]
    for row in refusing.head(1).to_dict("records"):
        yield f"{short(row['site'])} {in_vain(row)}"
    gone = table["came_back"] + table["never_back"]
    share = (table["came_back"] / gone.where(gone > 0)).fillna(0).to_numpy("float64")
    if (share > 0).any():
        at = int(share.argmax())
        site, back, n = str(table["site"].iloc[at]), table["came_back"].iloc[at], gone.iloc[at]
        yield f"{short(site)} has the highest share of listings that came back, {back:,} of {n:,}"


def _without_relisting(outcomes: pd.DataFrame) -> str:
    """On how many sites no listing that is gone came back."""
    n = int(((outcomes["never_back"] > 0) & (outcomes["came_back"] == 0)).sum())
    return (
        f"On {n:,} of {pluralize(len(outcomes), 'site')}, listings were removed and none came back so far."
        if n
        else ""
    )


def _promises(data: ReportData, outcomes: pd.DataFrame) -> str:
    """Whether sites take longer than they declare, as far as that may be said; or that no declared days are recorded."""
    if outcomes["declared_days"].isna().all():
        return _NOT_DECLARED if data.sharing is not None else f"{_NOT_DECLARED} {_RECORD_DAYS}"
    times = data.tables.get("declared_vs_observed")
    if times is None or data.sharing is not None:
        return ""
    slow = times.loc[times["takes_longer"].fillna(False).astype("bool"), "site"].astype("str")
    if slow.empty:
        return "No site takes significantly longer than it declares."
    if len(slow) > MANY_SITES:
        return f"{len(slow):,} sites take longer than they declare."
    takes = "takes longer than it declares" if len(slow) == 1 else "take longer than they declare"
    return f"{enumerate_words([*map(short, slow)])} {takes}."


def _without_idle_causes(why: pd.DataFrame) -> pd.DataFrame:
    """The causes of a change without those that did not occur; the usual ones remain."""
    usual = why["cause"].isin([NEW, AGAIN, REMOVED]) | why.index.isin([why.index[0], why.index[-1]])
    return why[usual | (why["n"] != 0)].reset_index(drop=True)


def _score(data: ReportData) -> Section | None:
    """Who is most exposed, what a point is, and where the names are from."""
    names = "" if data.has_profiles or not data.names else f" Names are {LISTED_NAMES}."
    section, points = _section(data, "score"), definition("score").partition("; ")[0]
    if data.open_records["status"].isin([DISCOVERED, PENDING_REMOVAL]).all():
        points = ", ".join(part for part in points.split(", ") if "another open status" not in part)
    if section is not None and data.omits_rows(data["score"]):
        return _add_words(_total_score(section, data), f"{points.capitalize()}. {_BY_COUNT}")
    if section is None or section.figure is None:
        return section
    safe = data.person_rows if data.sharing is None else data.sharing.table(data.person_rows)
    total, _, most = section.finding.partition("; ")
    section = replace(section, finding=f"{most[:1].upper()}{most[1:]}", table=_with_people(safe, data.names))
    points = f"{total}. {points.capitalize()}. {_BY_COUNT}"
    words = f"{points}{_most_exposed(data)}{names}{_other_namesakes(data)}"
    return _add_words(_with_totals(section), words)


def _most_exposed(data: ReportData) -> str:
    """What the person with the most points has, as a sentence; empty in a share-safe report, and of a tie."""
    table = data["score"]
    if data.sharing is not None or len(table) < 2 or table["score"].iloc[0] == table["score"].iloc[1]:  # noqa: PLR2004
        return ""
    first = table.iloc[0]
    records = data.open_records
    n = records.loc[records["user_id"] == first["user_id"], "site"].value_counts()
    sites = n[n > 0].index[:_SITES_NAMED]
    on = f" on {enumerate_words([short(str(site)) for site in sites])}" if len(sites) else ""
    cells = data["links"].loc[data["links"]["user_id"] == first["user_id"], "contains"].dropna()
    kinds = [
        label_text(kind)
        for kind, _ in Counter(kind for cell in cells for kind in cell).most_common(_KINDS_NAMED)
    ]
    shows = f" with {enumerate_words(kinds)}" if kinds else ""
    of_person = data["records"][data["records"]["user_id"] == first["user_id"]]
    on_listings = _listing_kinds(of_person[analysis.is_open(of_person["status"])])
    on += f", which show {enumerate_words(['a name', *on_listings])}" if on_listings else ""
    doubtful = _namesakes(data)[int(first["user_id"])]
    on += f"; {doubtful:,} of them may be of a namesake" if doubtful else ""
    name = short(data.names.get(int(first["user_id"]), f"user {first['user_id']}"))
    pages = f"{pluralize(int(first['pages']), 'web page')}{shows}"
    has = f"{pluralize(int(first['listings']), 'open listing')}{on}"
    return f" {name[:1].upper()}{name[1:]} has {has}; {pages}."


def _without_namesakes(data: ReportData) -> str:
    """Who would be first in the score without the listings that may be of a namesake; empty if nobody else."""
    table, doubtful = data["score"], _namesakes(data)
    # None of them has a pending removal.
    less = table["user_id"].map(doubtful).fillna(0) * analysis.WEIGHTS[DISCOVERED]
    score = table["score"] - less
    first = table.loc[score == score.max(), "user_id"].tolist()
    if first[0] == table["user_id"].iloc[0]:
        return ""
    names = [short(data.names.get(user, f"user {user}")) for user in first]
    who = enumerate_words(names) if len(names) <= _WORST_NAMED else pluralize(len(names), "person", "people")
    return f" Without {'it' if doubtful.total() == 1 else 'them'}, {who} would have the most points."


def _namesakes(data: ReportData) -> Counter[int]:
    """How many listings of the manual work have another name than those on file, by user."""
    queue = open_items(data["work_queue"]).dropna(subset="site").head(TASKS_MAX)
    return Counter(
        user
        for user, task in zip(queue["user_id"].tolist(), tasks(queue), strict=True)
        if any(caution.startswith(NAME_DIFFERS) for caution in task.cautions)
    )


def _other_namesakes(data: ReportData) -> str:
    """Whose listings have another name than those on file, as a sentence; empty if there are none."""
    doubtful = Counter() if data.sharing is not None else _namesakes(data)
    if not doubtful:
        return ""
    listings = f"{pluralize(doubtful.total(), 'listing has', 'listings have')} another name than on file"
    people = [short(data.names.get(user, f"user {user}")) for user in sorted(doubtful)]
    of = f" ({', '.join(people)})" if len(people) <= _SITES_NAMED else ""
    return f" {listings} and may be of a namesake{of}.{_without_namesakes(data)}"


def _listing_kinds(listings: pd.DataFrame) -> list[str]:
    """The kinds of data on some listings."""
    return [
        words
        for column, words in _LISTED_KINDS.items()
        if column in listings and any(map(_is_stated, listings[column]))
    ]


def _is_stated(cell: Any) -> bool:
    return len(cell) > 0 if hasattr(cell, "__len__") else not is_missing(cell)


def _total_score(section: Section, data: ReportData) -> Section:
    """The points of everyone together, which stand for a table with one row per person."""
    sums = {str(name): int(points.sum()) for name, points in data["score"].items() if name != "user_id"}
    totals = {name: sums[name] for name in ("listings", "pages", "score")}
    totals[PENDING_REMOVAL] = int((data.open_records["status"] == PENDING_REMOVAL).sum())
    listings, pages = (
        f"{sums[f'of_{part}']:,} for {pluralize(sums[part], noun)}"
        for part, noun in (("listings", "open listing"), ("pages", "web page"))
    )
    finding = f"{pluralize(sums['score'], 'point')} in total: {listings}, {pages}."
    return replace(section, finding=finding, table=pd.DataFrame([totals]), rows=1)


def _changes(data: ReportData) -> Section | None:
    return _section(data, "changes", _without_idle_causes(data["changes"]))


def _precision(data: ReportData) -> Section | None:
    """The precision of matches; only its finding if nobody has labelled a listing."""
    section, table = _section(data, "precision"), data.tables["precision"]
    if section is None or table is None or table["precision"].notna().any():
        return section
    return replace(section, figure=None, table=None)


def _site_health(data: ReportData) -> Section | None:
    """The quality of scans; without a chart if nothing vanished: it would show the open listings once more."""
    section, table = _section(data, "site_health"), data.tables["site_health"]
    if section is None or table is None or table[VANISHED].any() or table["is_doubtful"].any():
        return section
    return replace(section, figure=None)


def _missed(data: ReportData) -> Section | None:
    """How many listings were missed; only the reason if that cannot be estimated."""
    table = data.tables["missed"]
    if table is None or pd.isna(table["listings"].iloc[-1]):
        reason = "" if table is None else f": {table['reason'].iloc[-1]}"
        return Section(
            QUESTIONS["missed"].title,
            key="missed",
            text=f"The number of missed listings cannot be estimated{reason}.",
        )
    section = _section(data, "missed")
    words = section.figure.layout.meta["summary"] if section and section.figure else ""
    return _add_words(section, words)


def _forecast(data: ReportData) -> Section | None:
    """The forecast, and what to expect if all manual work is done; the work queue of a person is not everyone's."""
    table = data.tables["forecast"]
    if table is None or data.user is not None or not data.open_parts[0]:
        return _section(data, "forecast")
    rows = table.to_dict("records")
    done = [math.nan if pd.isna(row["open"]) else float(_open_if_done(data, row)[0]) for row in rows]
    section = _section(data, "forecast", table.assign(if_done=done))
    words = [
        f"in {pluralize(row['days'], 'day')}: {_if_done(data, row)}"
        for row in rows
        if not pd.isna(row["open"])
    ]
    return _add_words(section, _sentences(words))


def _failed_removals(data: ReportData) -> Section | None:
    """Removals that failed, had no effect or were undone, by site; and the sites that remove nothing."""
    table, stalled = data.tables["failed_removals"], data.tables["stalled"]
    if table is None or stalled is None or data.user is not None:
        return None
    section = _by_named_site(data, "failed_removals", table)
    rows = zip(stalled["site"], stalled["reason"], strict=True)
    sites = [f"{short(site)} ({reason})" for site, reason in rows if data.can_name(site)]
    words = f"No removal so far: {'; '.join(sites)}." if sites else ""
    if data.week_start is None:  # nothing can change within one run
        return replace(
            section, finding="", text="Not known yet: people were observed on one day only.", table=None
        )
    if (
        not table[["failed", "without_effect", "relistings"]].to_numpy().any()
    ):  # then the table has requests alone
        section = replace(section, table=None, totals={}, rows=0)
    return replace(section, finding=_failures(data, table), text=words)


def _failures(data: ReportData, table: pd.DataFrame) -> str:
    """The bad news in one sentence."""
    parts = []
    for column, nouns, did in (
        ("failed", ("removal", "removals"), "failed"),
        ("without_effect", ("request", "requests"), "had no effect in the usual time"),
    ):
        if n := int(table[column].sum()):
            parts.append(f"{pluralize(n, *nouns)} {did}{_where(data, table, column)}")
    if len(data["relistings"]):
        parts.append(_relisted(data))
    return f"{'; '.join(parts)}." if parts else "No removal failed or was undone, as far as observed."


def _where(data: ReportData, table: pd.DataFrame, column: str) -> str:
    """On which site all of them are, or most; empty if it may not be named, or several have as many."""
    n = table.set_index("site")[column].sort_values(ascending=False, kind="stable")
    n = n[n > 0]
    if n.empty or not data.can_name(str(n.index[0])) or (len(n) > 1 and n.iloc[0] == n.iloc[1]):
        return ""
    first = short(str(n.index[0]))
    return f" on {first}" if len(n) == 1 else f", most on {first} ({n.iloc[0]:,})"


def _relisted(data: ReportData, *, counts_times: bool = True) -> str:
    """How many listings came back, of how many that were ever gone, how often, and how many of them are open."""
    table, outcomes = data["relistings"], _outcomes(data)
    listings = table.drop_duplicates(["user_id", "key"], keep="last")
    n, n_open = len(listings), int(analysis.is_open(listings["status"]).sum())
    came_back = f"{pluralize(n, 'listing')} {_CAME_BACK}"
    if outcomes is not None:
        ever = int((outcomes["came_back"] + outcomes["never_back"]).sum())
        came_back = f"{n:,} of {_were_gone(ever)} {_CAME_BACK} ({percent(n / ever)})"
    often = f", {len(table):,} times in all" if counts_times and len(table) > n else ""
    return f"{came_back}{often}; {n_open:,} of them {'is' if n_open == 1 else 'are'} open now"


def _relistings(data: ReportData) -> Section | None:
    """Each relisting; the status now stands in the last row of a listing."""
    table = data.tables["relistings"]
    if table is None:
        return None
    is_last = ~table.duplicated(["user_id", "key"], keep="last")
    rows = table.assign(status=table["status"].astype("str").where(is_last, _BACK_LATER))
    if data.sharing is None:
        rows = with_listings(rows, data["records"], columns=[_REFERENCE])
        rows = rows.sort_values(["listed_again_at", "user_id", "site", _REFERENCE, "key"], ignore_index=True)
    site, *times = (one for one in QUESTIONS["relistings"].columns if one != "user_id")
    section = _section(data, "relistings", rows, columns=("user_id", site, _REFERENCE, *times))
    if section is None or table.empty:
        return section
    days = data.longest_gone
    limit = (
        f" No listing has been gone for more than {pluralize(days, 'day')} yet, so more may come back later."
        if days
        else ""
    )
    words = f"{pluralize(len(table), 'relisting')}{_where_relisted(data)}.{limit}"
    return _add_words(replace(section, finding=f"{_relisted(data, counts_times=False)}."), words)


def _where_relisted(data: ReportData) -> str:
    """On which sites most listings came back, of how many that were gone, and after how many days; empty without names."""
    outcomes = _outcomes(data)
    if outcomes is None:
        return ""
    back = outcomes[outcomes["came_back"] > 0].sort_values("came_back", ascending=False, kind="stable")
    named = back.head(_RELISTING_SITES)
    if named.empty or not all(map(data.can_name, named["site"].astype("str"))):
        return ""
    rows = zip(named["site"].astype("str"), named["came_back"], named["never_back"], strict=True)
    sites = enumerate_words([f"{short(site)} ({n:,} of {n + never:,})" for site, n, never in rows])
    most = "most on" if len(back) > len(named) else "on"
    days = data["relistings"]["gone_days"].dropna().round().astype("int64")
    if days.empty or data.sharing is not None:
        return f", {most} {sites}"
    low, high = int(days.min()), int(days.max())
    after = pluralize(high, "day") if low == high else f"{low:,}\N{EN DASH}{high:,} days"
    return f", {most} {sites}, after {after}"


def _all_relisted(data: ReportData) -> str:
    """The share of listings that came back, and their sites; empty if these are many, or may not be named."""
    outcomes = _outcomes(data)
    if outcomes is None:
        return ""
    back = outcomes.loc[outcomes["came_back"] > 0, "site"].astype("str")
    if not 0 < len(back) <= _RELISTING_SITES or not all(map(data.can_name, back)):
        return ""
    share = outcomes["came_back"].sum() / (outcomes["came_back"] + outcomes["never_back"]).sum()
    return f"{percent(share)}: all on {enumerate_words([*map(short, back)])}"


def _time_to_removal(data: ReportData) -> Section | None:
    section = _section(data, "time_to_removal")
    if section is None or section.figure is None:
        return section
    n = int(data["time_to_removal"]["n"].sum())
    # The estimate is for everyone; the other tables of a report on a person are not.
    base = _base(data, n) if data.user is None else ""
    speeds = _speeds(data)
    in_all = _time_finding(data)
    section = replace(section, finding=in_all or speeds or section.finding)
    speeds = speeds if section.finding != speeds else ""
    how_sure = _time_intervals(data) if in_all else ""
    clocks = _both_clocks(data)
    if section.table is not None:
        table = without_estimates(section.table).sort_values("unrequested", kind="stable", ignore_index=True)
        table = table.drop(columns="unrequested")
        with_requests = _with_request_medians(data, table)
        clocks += ". Each site's median is the same either way" if with_requests is table else ""
        section = replace(section, table=table if with_requests is None else with_requests)
    notes = (f"{_FROM_FIRST}{clocks}.", f"{how_sure} {base}".strip(), _CENSORING_NOTE, _resolution(data))
    return replace(
        section,
        text=" ".join(filter(None, (section.text, speeds, _without_removals(data)))),
        points=tuple(note for note in notes if note),
    )


def _time_finding(data: ReportData) -> str:
    """The estimated median time to removal of all listings, and the share that stays; empty without an estimate."""
    times = data.tables["removal_of_all"]
    if (
        data.user is not None
        or times is None
        or not (stay := _still_listed(row := times.to_dict("records")[0], band=False))
    ):
        return ""
    if pd.isna(row["median_days"]):
        return f"The median time to removal is not reached yet; {stay}."
    days, _ = _median_words(row)
    return f"Estimated median time to removal: {days} from the first observation; {stay}."


def _time_intervals(data: ReportData) -> str:
    """How sure the median time to removal and the share that stays are, as a sentence; empty without a median."""
    row = data["removal_of_all"].to_dict("records")[0]
    _, band = _median_words(row)
    share = format_interval(row["never_low"], row["never_high"], percent, "").strip(" (:)")
    return f"{band} days, and {share} of listings." if band else ""


def _with_request_medians(data: ReportData, times: pd.DataFrame) -> pd.DataFrame | None:
    """The times with the median days from the request; the same table if they are equal, None if they are not known.

    A share-safe report does not have them: it leaves out other sites than those of the table.
    """
    outcomes = _outcomes(data)
    if outcomes is None or data.sharing is not None or outcomes["median_days"].isna().all():
        return None
    medians = outcomes[["site", *_MEDIAN]].rename(columns=dict(zip(_MEDIAN, _REQUEST_MEDIAN, strict=True)))
    both = times.merge(medians, on="site", how="left")
    has_median = both["request_median"].notna() | both["median_days"].notna()
    if not has_median.any():
        return None
    is_same = (both["request_median"] == both["median_days"]).fillna(False)
    if is_same[has_median].all():
        return times
    after = [*times].index("median_days") + len(_MEDIAN)
    return both[[*times.columns[:after], *_REQUEST_MEDIAN, *times.columns[after:]]]


def _both_clocks(data: ReportData) -> str:
    """The median days to removal from the first observation and from the request; empty without both."""
    if data.user is not None or not {"removal_of_all", "removal_requests"} <= {*data.tables}:
        return ""
    removal, requests = data["removal_of_all"], data["removal_requests"]
    medians = removal["median_days"].iloc[0], _request_times(requests)["median_days"]
    if any(map(pd.isna, medians)):
        return ""
    first, request = map(format_days, medians)
    also = (
        "; the time from the first observation also counts listings without a request"
        if first != request
        else ""
    )
    return f": the median is {first}, and {request} from the request{also}; refused and ignored requests count as not removed"


def _declared_vs_observed(data: ReportData) -> Section | None:
    """The days that sites declare and take; those that declare nothing are counted only."""
    table = data.tables["declared_vs_observed"]
    if table is None:
        title = QUESTIONS["declared_vs_observed"].title
        words = f"{_NOT_DECLARED} An analyst can enter them."
        return Section(title, key="declared_vs_observed", text=words)
    declared = table[table["declared_days"].notna()].reset_index(drop=True)
    section = _section(data, "declared_vs_observed", declared)
    rest = len(table) - len(declared)
    others = f" {pluralize(rest, 'site has', 'sites have')} no recorded days." if rest else ""
    return _add_words(section, f"{_OVERDUE_NOTE}{others}")


def _speeds(data: ReportData) -> str:
    """The fastest and the slowest site, and how many have no removal, or no request; empty without medians or names."""
    table = data["time_to_removal"]
    if "site" not in table:
        return ""
    medians = table.dropna(subset="median_days").sort_values(["median_days", "site"])
    names = [short(str(site)) for site in medians["site"] if data.can_name(str(site))]
    if len(names) < len(medians) or len(medians) < 2:  # noqa: PLR2004  one site is neither
        return ""
    idle, unrequested = (int(sites.sum()) for sites in _without_removal(table))
    nothing = f"; {pluralize(idle, 'site has', 'sites have')} removed nothing" if idle else ""
    nothing += (
        f"; {pluralize(unrequested, 'site has', 'sites have')} had no request yet" if unrequested else ""
    )
    days = medians["median_days"].map(format_days).tolist()
    if days[0] == days[-1]:
        return f"The median time to removal is {days[0]} on all {len(days):,} sites with removals{nothing}."
    tied = [[at for at, one in enumerate(days) if one == days[end]] for end in (0, -1)]
    (fast, fastest), (slow, slowest) = (
        (
            _tied_names([names[at] for at in rows]),
            _speed(medians.iloc[rows[0]]) if len(rows) == 1 else days[rows[0]],
        )
        for rows in tied
    )
    are = "is" if len(tied[0]) == 1 else "are"
    return f"By median time to removal, {fast} {are} fastest ({fastest}) and {slow} slowest ({slowest}){nothing}."


def _tied_names(names: Sequence[str]) -> str:
    """The sites of a tie, or how many they are."""
    return enumerate_words(names) if len(names) <= _WORST_NAMED else f"{len(names):,} sites"


def _speed(row: "pd.Series[Any]") -> str:
    """A median with its interval, if it has one."""
    band = format_interval(row["median_low"], row["median_high"], "{:,g}".format, "")
    ends = band.removeprefix(" (: ").removesuffix(")") if ": " in band else ""
    return ", ".join(filter(None, (format_days(row["median_days"]), ends)))


def _resolution(data: ReportData) -> str:
    """How exact the times are."""
    if data.run_gap is None:
        return ""
    gap = "a day" if data.run_gap == 1 else pluralize(data.run_gap, "day")
    return (
        f"Runs are {gap} apart. A listing may be older than its first observation: the service does not say how often it "
        "searches a site."
    )


def _without_removal(table: pd.DataFrame) -> tuple["pd.Series[bool]", "pd.Series[bool]"]:
    """Which sites removed nothing, and on which of those without a removal no request was seen: they cannot be compared."""
    unrequested = is_unrequested(table)
    return (table["removed"] == 0) & table["never"].notna() & ~unrequested, unrequested


def _without_removals(data: ReportData) -> str:
    """The sites that removed nothing, and those on which no request was seen, a sentence each."""
    table = data["time_to_removal"]
    if "site" not in table:
        return ""
    is_idle, is_unasked = _without_removal(table)
    idle, unrequested = _sites(data, table[is_idle]), _sites(data, table[is_unasked])
    n_requests = int(table.loc[is_idle, "requested"].sum()) if "requested" in table else 0
    others = int(table.loc[is_idle, "n"].sum()) - n_requests
    never_requested = (
        f"; {pluralize(others, 'other listing')} there had no request, and the share still listed counts them, too"
        if others > 0
        else ""
    )
    although = (
        f"although {n_requests:,} {'was' if n_requests == 1 else 'were'} requested{never_requested}"
        if n_requests
        else "and requests were not counted"
    )
    sentences = [f"No removals were observed on {idle}, {although}."] if idle else []
    unasked = "so it is not known whether, or how fast, listings are removed there"
    n_unasked = int(table.loc[is_unasked, "n"].sum())
    unasked += f"; the share of all listings counts the {n_unasked:,} there as still listed"
    sentences += [f"No requests have been seen on {unrequested} yet, {unasked}."] if unrequested else []
    return " ".join(sentences)


def _sites(data: ReportData, table: pd.DataFrame) -> str:
    """The names of the sites of a table, or how many there are; empty if there are none, or some may not be named."""
    names = [short(site) for site in table["site"].astype("str") if data.can_name(site)]
    if not names or len(names) < len(table):
        return ""
    return enumerate_words(names, "or") if len(names) <= MANY_SITES else f"{len(names):,} sites"


def _score_changes(data: ReportData) -> Section | None:
    return _add_words(_section(data, "score_changes"), _POINTS_NOTE)


def _counts(data: ReportData) -> Section | None:
    """Changes by kind, which the heading names."""
    return _with_finding(_section(data, "counts"), f"{_what(data['counts'])}.")


def _what(counts: pd.DataFrame) -> str:
    """How many changes of each kind there were: those that occurred, or that there were none."""
    n = dict(zip(counts["what"], counts["n"], strict=True))
    still = n.pop(STILL_OPEN)
    parts = [f"{number:,} {what}" for what, number in n.items() if number]
    return f"{', '.join(parts) or 'Nothing changed'}; {still:,} still open"


def _diff(data: ReportData) -> Section | None:
    """Each change, new listings first, then the newest change first."""
    table = data.tables["diff"]
    if table is None:
        return None
    order = table["what"].map({what: at for at, what in enumerate(WHAT)})
    newest_first = table.assign(order=order).sort_values(
        ["order", "changed_at"], ascending=[True, False], kind="stable", ignore_index=True
    )
    n = newest_first["what"].value_counts(sort=False)
    kinds = ", ".join(f"{count:,} {what}" for what, count in n.items())
    finding = f"{pluralize(len(table), 'change')}: {kinds}." if len(table) else "No listing changed."
    return _with_finding(_section(data, "diff", newest_first.drop(columns="order")), finding)


def _records(data: ReportData) -> Section | None:
    """The listings, open ones first."""
    table = data["records"]
    is_open = pd.Series(analysis.is_open(table["status"]), table.index)
    ordered = table.loc[(~is_open).sort_values(kind="stable").index].reset_index(drop=True)
    n = int(is_open.sum())
    finding = f"{n:,} of {pluralize(len(table), 'listing')} {'is' if n == 1 else 'are'} open."
    if (evidence := data.tables["evidence"]) is None:
        return _with_finding(_section(data, "records", ordered), finding)
    proven = with_evidence(ordered, evidence)
    section = _with_finding(_section(data, "records", proven), finding)
    return _add_words(section, _evidence_words(proven, evidence))


def _evidence_words(records: pd.DataFrame, evidence: pd.DataFrame) -> str:
    """How many removed listings have evidence, and whether its key was checked."""
    removed = records[records["status"] == REMOVED]
    pairs = int(removed[["evidence_before", "evidence_after"]].notna().all(axis="columns").sum())
    is_verified = bool(evidence["verified"].all()) if "verified" in evidence else False
    checked = (
        "It was verified with the service's key" if is_verified else "The key that signed it was not checked"
    )
    return (
        f"{pairs:,} of {pluralize(len(removed), 'removed listing')} {'has' if pairs == 1 else 'have'} evidence: when the "
        f"service saw the listing, and when the results no longer showed it. {checked}."
    )


def _links(data: ReportData) -> Section | None:
    """The web pages, and the kinds of data on most of them."""
    table = data["links"]
    kinds = Counter(kind for cell in table["contains"].dropna() for kind in cell).most_common(_KINDS_NAMED)
    named = ", ".join(f"{label_text(kind)} on {n:,}" for kind, n in kinds)
    shows = f" with personal data: {named}" if named else " without a stated kind of data"
    return _with_finding(_section(data, "links"), f"{pluralize(len(table), 'web page')}{shows}.")


def _with_finding(section: Section | None, finding: str) -> Section | None:
    """Put the main result into the heading, if there is a table."""
    return section and (section if section.table is None else replace(section, finding=finding))


def _diff_by_site(data: ReportData) -> Section | None:
    """Changes by site; kinds of change that did not occur are dropped."""
    table = data["diff_by_site"]
    idle = [what for what in WHAT if not table[what].any() and what not in (NEW, REMOVED)]
    section = _by_named_site(data, "diff_by_site", table.drop(columns=idle))
    n = int(table[[*WHAT]].any(axis=1).sum())
    where = _where(data, table, REMOVED).removeprefix(", most")
    most = f"; most removed{where}" if where else ""
    changed = f"Listings changed on {n:,} of {pluralize(len(table), 'site')}{most}."
    return _with_finding(section, changed)


def _by_named_site(data: ReportData, name: str, table: pd.DataFrame) -> Section:
    """A table with one row per site, and its sums; in a share-safe report, small sites are one row."""
    safe = table if data.sharing is None else data.sharing.with_other_sites(table)
    section = Section(section_type(name).title, key=name, text="None.")
    return (
        section
        if safe.empty
        else replace(
            section,
            text="",
            table=safe.head(ROWS_MAX).reset_index(drop=True),
            rows=len(safe),
            totals=_sums(safe) if len(safe) <= ROWS_MAX else {},
        )
    )


def _blockers(data: ReportData) -> Section | None:
    table = data.tables["blockers"]
    if data.sharing is not None and data.user is not None:
        return None  # no other person may lack the field
    if table is None:
        words = f"Which fields are missing is not known: {_NO_PROFILES}"
        return Section(QUESTIONS["blockers"].title, key="blockers", text=words)
    if _is_hidden(data):
        words = f"Not shown: fewer than {FEW} people lack the same field."
        return Section(QUESTIONS["blockers"].title, key="blockers", text=words)
    section = _section(data, "blockers", _of_many(data, table))
    request = _request(data)
    return section if request is None else _add_words(section, f"{request.text} first. {request.effect}")


def _best_next_fields(data: ReportData) -> Section | None:
    table = data.tables["best_next_fields"]
    if table is None or (data.sharing is not None and data.user is not None) or _is_hidden(data):
        return None
    return _section(data, "best_next_fields", _of_many(data, table.head(ASKS)))


def _is_hidden(data: ReportData) -> bool:
    """Whether a share-safe report may name no missing field."""
    return data.sharing is not None and _of_many(data, data["blockers"]).empty


def _of_many(data: ReportData, table: pd.DataFrame) -> pd.DataFrame:
    """In a share-safe report on everyone, keep the rows about fields that at least `FEW` people lack."""
    if data.sharing is None:
        return table
    name = "field" if "field" in table else "fields"
    field = table[name].map(lambda cell: cell if isinstance(cell, str) else tuple(cell))
    people = table.groupby(field)["user_id"].transform("nunique") if len(table) else pd.Series(dtype="int64")
    return table[people.to_numpy() >= FEW].reset_index(drop=True)


def _work_queue(data: ReportData) -> Section | None:
    queue = data["work_queue"]
    section = _section(data, "work_queue")
    assert section is not None  # noqa: S101  every source has steps
    work = _removals(data)
    words = section.text
    if section.figure is not None or (data.omits_rows(queue) and len(queue)):
        words += f" {_amount(data)}"
    if section.table is not None:
        words += _finished_rows(queue)
        if (
            data.sharing is None and _REFERENCE in queue
        ):  # listings have a reference in the rest of the page, and no number
            references = queue[_REFERENCE].head(len(section.table)).reset_index(drop=True)
            table = section.table.rename(columns={"record_id": _REFERENCE}).assign(**{_REFERENCE: references})
            section = replace(section, table=table)
    if data.sharing is None and any(task.note for one in work for task in one.tasks):
        words += (
            " Names on file and the values to enter are missing, so first check that the person has what a form requires, "
            "such as an email address."
        )
    return replace(section, text=words.strip(), removals=work)


def _removals(data: ReportData) -> tuple[Removal, ...]:
    """The manual work by steps; in a share-safe report, what may be shared of it."""
    work = removals(data["work_queue"], limit=TASKS_MAX, as_of=data.as_of.date())
    return work if data.sharing is None else data.sharing.removals(work, data.user)


def _finished_rows(queue: pd.DataFrame) -> str:
    """What the table has besides the open items."""
    states = queue["state"].astype("str").value_counts()
    finished = [f"{states[state]:,} {words}" for state, words in _FINISHED.items() if states.get(state)]
    return f" The table below also has {enumerate_words(finished)}." if finished else ""


def _amount(data: ReportData) -> str:
    waiting, pages, blocked, duration = data.manual_work
    words = (
        f"{pluralize(waiting, 'item')} in all: {pluralize(waiting - pages, 'listing')} on people-search "
        f"sites and {pluralize(pages, 'web page')}; about {duration}{_check_part(data)}. Listings come before web pages, "
        f"since sites have an opt-out procedure and page owners need not comply; in each group, "
        f"{_order(data)}{_EXCEPT if data.later_work else ''}."
    )
    words += f" {_CHECK_FIRST}" if any(_checks(data)) else ""
    words += _minutes_spent(data)
    if blocked:
        waits = "waits" if blocked == 1 else "wait"
        words += f" {blocked:,} {waits} for a value that is not on file: see the end of the list."
    if data.unchecked_sites and data.sharing is not None:
        words += " Whether the values that sites require are on file is left out."
    if data.sharing is not None:
        words += f" {_OTHERS_OPEN}"
    return words


def _order(data: ReportData) -> str:
    """What comes first in the work queue."""
    return f"{_ORDER_BY_MINUTES} ({_NEED_HISTORY})" if data.runs is None else _ORDER


def _coverage(data: ReportData) -> Section | None:
    table = data.tables["coverage"]
    if table is not None:
        section = _section(data, "coverage")
        is_one_bar = np.count_nonzero(table[[*OUTCOMES]]) == 1
        section = replace(section, figure=None) if section and is_one_bar else section
        if section is None:
            return None
        unconfirmed, observed = _unconfirmed(data), section.finding
        finding = f"{unconfirmed}; {observed[:1].lower()}{observed[1:]}" if unconfirmed else observed
        return replace(section, title=_UNKNOWN_TITLE, finding=finding, points=tuple(_unknowns(data)))
    issues = data["failures"]
    section = _section(data, "failures", issues)
    missing = f"{pluralize(len(issues), 'request')} failed; these people are missing or incomplete above."
    words = data.stopped or ("All people were loaded." if issues.empty else missing)
    return section and replace(section, text=words, points=tuple(_unknowns(data)))


def _unlabelled(data: ReportData) -> int:
    """How many listings nobody has labelled as the person's or not."""
    return int(data["labels"]["label"].isna().sum())


def _unconfirmed(data: ReportData) -> str:
    """How many listings nobody has labelled, in words; empty if there are none."""
    n, unlabelled = len(data["records"]), _unlabelled(data)
    if not unlabelled:
        return ""
    if unlabelled == n > 1:
        return f"None of the {n:,} listings has been checked"
    have = "has" if unlabelled == 1 else "have"
    return f"{unlabelled:,} of {pluralize(n, 'listing')} {have} not been checked"


def _unknowns(data: ReportData) -> Iterator[str]:
    """What nobody can tell from the data, a sentence each."""
    if data.sharing is None and _unconfirmed(data):
        yield f"{_TO_CONFIRM}."
        yield from () if data.runs is None else [f"{_RECORD_LABEL}."]
        unlabelled = int(data.manual_pages["label"].isna().sum())
        if unlabelled:
            yield (
                f"{pluralize(unlabelled, 'web page has', 'web pages have')} not been checked either: check each before you "
                "write."
            )
    if data.incomplete and _names_unobserved(data):
        yield f"{_unobserved(data)}."
    yield _UNSEARCHED
    records, missed = data["records"], data.tables["missed"]
    if missed is not None and isinstance(reason := missed["reason"].iloc[-1], str):
        yield f"The number of missed listings cannot be estimated: {reason}."
    outcomes = _outcomes(data)
    if outcomes is not None:
        yield from _where_declared(data, outcomes)
        yield _HOW_SURE
    gone = int((records["status"] == UNKNOWN).sum())
    if gone:
        are = "listing is" if gone == 1 else "listings are"
        yield f"{gone:,} {are} of people whom the service no longer lists."
    if not data.has_profiles:
        yield f"Whether required values are on file is not known: {_NO_PROFILES}"


def _where_declared(data: ReportData, outcomes: pd.DataFrame) -> Iterator[str]:
    """Where the declared days stand, or that there are none, unless the section on sites says it."""
    sections = {"by_site", "declared_vs_observed"} & {
        *data.tables
    }  # in the report: no other needs their tables
    if outcomes["declared_days"].isna().all():
        yield from () if "by_site" in sections else [_NOT_DECLARED]
    elif data.sharing is None and len(sections) > 1:
        yield _DECLARED.format(QUESTIONS["declared_vs_observed"].title)


def _names_unobserved(data: ReportData) -> bool:
    """Whether the report may count the listings of the people that the newest run did not observe completely."""
    return data.sharing is None or data.incomplete >= FEW


def _unobserved(data: ReportData) -> str:
    listings = f"{pluralize(data.unchecked, 'open listing keeps its', 'open listings keep their')} last observed status"
    people = pluralize(data.incomplete, "person", "people")
    consequence = "what is listed of them is not known" if data.runs is None else listings
    return f"{people} {_missing_from(data)}: {consequence}"


def _missing_from(data: ReportData) -> str:
    """What the newest run, or the load of an exposure, lacks of `ReportData.incomplete` people."""
    were = "was" if data.incomplete == 1 else "were"
    return f"{were} not {'loaded' if data.runs is None else 'observed completely in the last run'}"


def _section(
    data: ReportData, name: str, table: pd.DataFrame | None = None, *, columns: Sequence[str] = ()
) -> Section | None:
    """Build a section from a table: its chart and the columns to show; redacted in a share-safe report.

    Args:
        data: The data of the report.
        name: The name of the section.
        table: Its table; None: the declared one of that name, without which there is no section.
        columns: The columns to show, if the table has them; empty: those of the question.
    """
    full = data.tables[name] if table is None else table
    if full is None:
        return None
    question = QUESTIONS.get(name)
    columns = columns or (question.columns if question else _TABLES[name][1])
    visible = full[[one for one in _QUEUE_COLUMNS if one in full]] if name == "work_queue" else full
    safe = visible if data.sharing is None else data.sharing.table(visible, is_alone=data.user is not None)
    since = f" · since {_since(data)}" if name in _SINCE and data.since is not None else ""
    drawn = (
        question.draw(safe, provenance=data.source_line + since) if question and question.has_chart else None
    )
    title = section_type(name).title
    if data.omits_rows(full):
        return Section(title, key=name, text=_ROWS_NOTE)
    hidden = _hidden_note(name, safe, full)
    if safe.empty:
        if hidden:
            return Section(title, key=name, text=hidden)
        if drawn is None:
            return Section(title, key=name, text="None.")
        return Section(title, key=name, finding=f"{drawn.layout.meta['finding']}.")
    finding = text = ""
    if drawn is not None:
        drawn = _with_names(drawn, data.names)
        finding = f"{drawn.layout.meta['finding']}."
        text = drawn.layout.meta["summary"] if name == "status_over_time" else ""
    text = f"{text} {hidden}".strip()
    selected = safe[[one for one in columns if one in safe]] if columns else safe
    if name == "work_queue":
        selected = _with_plain_states(selected).assign(minutes=whole_minutes(selected).astype("int64"))
    if data.user is None:
        selected = _with_people(selected, data.names)
    is_single = name in _NO_SINGLE_BAR and len(safe) == 1
    return Section(
        title,
        key=name,
        finding=finding,
        text=text,
        figure=None if is_single else drawn,
        table=selected.head(ROWS_MAX).reset_index(drop=True),
        rows=len(selected),
    )


def _with_plain_states(queue: pd.DataFrame) -> pd.DataFrame:
    """A work queue in the words of its chart: what is to do now or later."""
    state = queue["state"].astype("str").replace(TO_DO, NOT_STARTED)
    if "reason" in queue:
        state = state.mask((state == NOT_STARTED) & queue["reason"].notna(), LATER)
    return queue.assign(state=state)


def _hidden_note(name: str, safe: pd.DataFrame, full: pd.DataFrame) -> str:
    """What a share-safe section leaves out; empty: nothing."""
    if name not in _HIDDEN or len(safe) == len(full):
        return ""
    groups, counted = _HIDDEN[name]
    if safe.empty:
        return f"Not shown: fewer than {FEW} {counted}."
    if name == "coverage":  # its rows are combined
        return ""
    words = f"Not shown: {groups} with fewer than {FEW} {counted.partition(' ')[0]}, and any that would reveal them."
    if name == "time_to_removal":
        total, remaining = (int(table["n"].sum()) for table in (full, safe))
        words += f" They have {total - remaining:,} of {total:,} listings followed."
    return words


def _with_people(table: pd.DataFrame, names: Mapping[int, str]) -> pd.DataFrame:
    """Add the name of each person before the id, so that it heads a row that is shown as a card."""
    if not names or "user_id" not in table:
        return table
    person = table["user_id"].map(names).astype("str")
    named = table.drop(columns="person", errors="ignore")
    named.insert([*named.columns].index("user_id"), "person", person)
    return named


def _add_words(section: Section | None, words: str) -> Section | None:
    return section and replace(section, text=f"{section.text} {words}".strip())


def _with_names(chart: charts.Chart, names: Mapping[int, str]) -> charts.Chart:
    """Replace ids by the names of people in the labels of a chart; of people with the same name the id stays, too."""
    shared = {name for name, n in Counter(names.values()).items() if n > 1}

    def label(match: re.Match[str]) -> str:
        name = names.get(int(match[1]))
        if name is None:
            return match[0]
        return f"{label_text(name)} ({match[0]})" if name in shared else label_text(name)

    def named(text: object) -> object:
        return _USER.sub(label, text) if isinstance(text, str) else text

    if names:
        for axis in (chart.layout.xaxis, chart.layout.yaxis):
            if axis.ticktext is not None:
                axis.ticktext = [named(text) for text in axis.ticktext]
        chart.layout.meta = {key: named(text) for key, text in chart.layout.meta.items()}
    return chart


_WORK_NEEDS = ("work_queue", "step_minutes", "labels")
_FACT_NEEDS = (
    "records",
    "links",
    "score",
    "status_over_time",
    "missed",
    "site_outcomes",
    *_WORK_NEEDS,
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
_SPECIAL: dict[
    str, Any
] = {  # sections that say more than their chart and table, and the other tables they need
    "by_site": (_by_site, "site_outcomes"),
    "counts": (_counts,),
    "diff": (_diff,),
    "links": (_links,),
    "records": (_records, "evidence"),
    "diff_by_site": (_diff_by_site,),
    "status_over_time": (_over_time,),
    "time_to_removal": (_time_to_removal, "records", "relistings", "site_outcomes", "removal_of_all"),
    "declared_vs_observed": (_declared_vs_observed,),
    "changes": (_changes,),
    "precision": (_precision,),
    "site_health": (_site_health,),
    "week": (_week, "week_by_site", "week_before", "status_over_time", "records"),
    "score": (_score, "records", "links", "work_queue"),
    "forecast": (_forecast, "records", "work_queue", "site_outcomes"),
    "missed": (_missed,),
    "failed_removals": (_failed_removals, "stalled", "relistings"),
    "relistings": (_relistings, "records"),
    "score_changes": (_score_changes,),
    "blockers": (_blockers, "best_next_fields"),
    "best_next_fields": (_best_next_fields, "blockers"),
    "work_queue": (_work_queue, "step_minutes", "timed_steps", "plan"),
    "coverage": (_coverage, "failures", "records", "missed", "site_outcomes", *_WORK_NEEDS),
}
KINDS = {
    "fleet": Kind(
        (
            *("by_site", "week", "score", "status_over_time", "time_to_removal", "declared_vs_observed"),
            *("relistings", "blockers", "work_queue", "missed", "coverage"),
        ),
        _fleet_title,
        _finding,
        _fleet_facts,
        _FLEET_NEEDS,
    ),
    "person": Kind(
        ("records", "status_over_time", "links", "blockers", "work_queue"),
        _person_title,
        _finding,
        _facts,
        _FACT_NEEDS,
    ),
    "changes": Kind(
        ("changes", "counts", "diff_by_site", "score_changes", "diff", "work_queue"),
        lambda data: f"What changed since {_since(data)}",
        _change_finding,
        _change_facts,
        (
            *("records", "links", "changes", "score_changes", "status_over_time", "site_outcomes"),
            *_WORK_NEEDS,
        ),
    ),
    "sites": Kind(
        (
            *("by_site", "time_to_removal", "declared_vs_observed", "relistings"),
            *("site_health", "precision"),
        ),
        _sites_title,
        _finding,
        _site_facts,
        _FLEET_NEEDS,
    ),
}
