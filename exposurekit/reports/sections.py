"""The sections of reports: each declares its tables and is a pure function of them."""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from datetime import date, timedelta
from itertools import chain, count
from typing import Any

import numpy as np
import pandas as pd

from exposurekit import analysis, charts
from exposurekit.analysis.data_quality import OUTCOMES
from exposurekit.analysis.definitions import definition
from exposurekit.analysis.diff import AGAIN, CHANGED, ENDED, FAILED, NEW, OPENED, STILL_OPEN, WHAT
from exposurekit.analysis.forecast import MIN_RATIO
from exposurekit.analysis.manual_tasks import with_listings
from exposurekit.analysis.site_outcomes import in_vain, is_refusing
from exposurekit.analysis.statuses import OPEN, UNKNOWN, VANISHED
from exposurekit.analysis.survival import UNREQUESTED, is_unrequested
from exposurekit.analysis.work_queue import DONE, TO_DO, UNABLE
from exposurekit.charts.theme import (
    adopt_figure,
    format_duration,
    format_interval,
    label_text,
    short,
)
from exposurekit.charts.time_to_removal import format_days, own_days, without_estimates
from exposurekit.charts.work_queue import LATER, NOT_STARTED
from exposurekit.contract.types import DISCOVERED, PENDING_REMOVAL, REMOVED
from exposurekit.errors import InvalidArgument
from exposurekit.evidence import with_evidence
from exposurekit.questions import QUESTIONS
from exposurekit.reports import statements
from exposurekit.reports.data import AHEAD_DAYS, LISTED_NAMES, WEEK_DAYS, ReportData
from exposurekit.reports.headline import NOT_IN_TIME
from exposurekit.reports.manual_steps import whole_minutes
from exposurekit.reports.model import (
    ROWS_MAX,
    Section,
)
from exposurekit.reports.share_safe import FEW
from exposurekit.text.formatting import enumerate_words, is_missing, percent, pluralize

_BY_COUNT = "Points count listings and pages, however sensitive the data on them is."
_OF_MANY = {"has": "have", "removes": "remove"}
ASKS = 2  # rows of `best_next_fields`
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
    "Send your analyst the references of those that are the person's and of those that are not: the code is under For analysts "
    "(on screen only)"
)
MANY_SITES = 5  # more are counted, not named
_CENSORING_NOTE = "A listing found recently has been followed for only a few days, so the estimated share still listed may be 0% while some are open."
_FROM_FIRST = "In the title, chart and table, days count from the first observation of a listing"
_UNREQUESTED = (
    f", with or without a removal request; requests that were refused, or {NOT_IN_TIME}, count as not removed"
)
_SAME_MEDIANS = ". Each site's median is the same from the request; the overall one is not, because some listings had no request"
_LISTED_KINDS = {"age": "age", "locations": "places", "aliases": "other names", "relations": "relatives"}
_SITES_NAMED = 5  # of each kind of change; others are counted
_KINDS_NAMED = 3  # kinds of data
_REFERENCE = "reference_id"
_BACK_LATER = "listed again later"  # instead of the status of a listing that has a later row
_IN_ORDER = (*OPENED, *ENDED, FAILED, CHANGED)  # what adds up to the open listings first
_ALWAYS_COUNTED = (NEW, AGAIN, REMOVED)  # kinds of change, also if there was none
_NO_SINGLE_BAR = {"blockers", "best_next_fields"}  # a sentence says it
_MEDIAN = ("median_days", "median_low", "median_high")
_REQUEST_MEDIAN = ("request_median", "request_low", "request_high")
_NO_SUMS = {"people", "sites", "user_id", "declared_days"}
_NOT_DECLARED = "Nobody has entered how fast sites promise to remove listings, so promises cannot be judged."
_RECORD_DAYS = "Send the days that sites state to your analyst: the code is under For analysts."
_HOW_SURE = (
    "The 95% interval beside an estimate assumes that sites behave as before and the matches are correct."
)
# Of the outcomes of sites: the verdict and the cards say it.
_NOT_DISPLAYED = ("waiting", "not_listed_again", "overdue_days")
_ORDER = "the most expected removals per minute come first"
_ORDER_BY_MINUTES = "the least time per item comes first"
_CHECK_FIRST = "Check right before each removal or message: it removes nothing by itself, but leaves people of the same name alone."
_LATER = "; what has to wait is marked (later), with the reason"
_OTHERS_OPEN = (  # of a share-safe report, which does not say how many of each
    "Open listings that are pending removal, wait for the service, or were ticked as done or unable are not among them."
)
_NOT_IN_KEY = re.compile(r"[^a-z0-9]+")
_FINISHED = {DONE: "done", UNABLE: "marked unable"}
_USER = re.compile(r"\buser (\d+)\b")
_SHARED_VISITS = "The time to get started on a site is divided among the people listed there; a report on one person counts all of it."
_ROWS_NOTE = "The list has one row per listing or person and is left out because the report is shared: it shows totals only."
_NO_PROFILES = (
    "this report was made from a history, which does not store what people have on file. A report that is made while "
    "connected to the service has it."
)
_POINTS_NOTE = "Each listing counts once, by its first and its last status: one that was found and removed in between has no points."
_RECORD_COLUMNS = (
    *("site", "status", "first_seen_at", "changed_at", "evidence_before", "evidence_after"),
    *("age", "states", "href"),
)
_OVERDUE = "A request is overdue if its listing was still pending {days} after the declared day: verification may take that long."
_LATE_NOTES = (
    (
        "A site takes longer if more than half of its due requests are overdue, and by more than chance would explain (sign "
        "test for all sites, at most 5% false alarms)."
    ),
    "Requests too recent to judge are not due.",
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


def section_names() -> list[str]:
    """Return the names of the sections that exist, also of questions added since."""
    return [*dict.fromkeys((*QUESTIONS, *_TABLES))]


def section_type(name: str) -> SectionType:
    """Return a section type by name: a special one, or the chart and table of a question.

    Raises:
        InvalidArgument: There is none of that name.

    >>> from exposurekit.reports.sections import section_type
    >>> section_type("by_state").needs
    ('by_state',)
    """
    InvalidArgument.check("a section", name, section_names())
    title = _TABLES[name][0] if name in _TABLES else QUESTIONS[name].title
    make, *needs = _SPECIAL.get(name, (lambda data: _section(data, name),))
    return SectionType(title, (name, *needs), make)


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


def _minutes_spent(data: ReportData) -> str:
    """The minutes that were spent so far, and those that are left, for each listing; empty if nothing was timed."""
    timed = data.tables["timed_steps"]
    if timed is None or timed.empty or data.sharing is not None:
        return ""
    spent, listings = analysis.minutes_spent(timed)
    if not listings:
        return ""
    waiting, *_ = data.manual_work
    left = data.open_work["minutes"].sum()
    each = f", {left / waiting:,.1f} min each" if waiting else ""
    return (
        f"Timed so far: {format_duration(spent)} on {pluralize(listings, 'listing or page', 'listings and pages')}, "
        f"{spent / listings:,.1f} min each; left: {format_duration(left)}{each}."
    )


def _base(data: ReportData, n: int, n_open: int) -> str:
    """A sentence on the listings that were followed, and how many of them are open."""
    followed = statements.followed(data, n)
    subject = f"{followed[:1].upper()}{followed[1:]}"
    return f"{subject} {'is' if n == 1 else 'are'} followed (n = {n:,}); {n_open:,} of them {'is' if n_open == 1 else 'are'} open."


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
        words = f"Net change in open listings: {statements.signed(now)}; in the {WEEK_DAYS} days before: {statements.signed(then)}."
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
    changes = [
        statements.change_in(data, column, start) for column in (OPEN, PENDING_REMOVAL) if start is not None
    ]
    if len(changes) < 2 or None in changes or not changes[1]:  # noqa: PLR2004  one for each column
        return ""
    more = (changes[0] or 0) - (changes[1] or 0)
    n = int((data.open_records["status"] != PENDING_REMOVAL).sum())
    return f" Without a pending removal: {n:,}, {statements.more_or_fewer(more) if more else 'as many as before'}."


def _removed_again(data: ReportData, by_site: pd.DataFrame) -> str:
    """How many of the listings removed since the start of the week had been listed again before; empty if none had, or it is not known."""
    records, start = data.tables.get("records"), data.week_start
    if records is None or "episode" not in records or start is None:
        return ""
    is_recent = (records["status"] == REMOVED) & (
        records["changed_at"] >= pd.Timestamp(start + timedelta(days=1), tz="UTC")
    )
    again, removed = int((is_recent & (records["episode"] > 1)).sum()), int(by_site[REMOVED].sum())
    if not again or int(is_recent.sum()) != removed:  # some were listed again within the week
        return ""
    of = "All" if again == removed else f"{again:,} of the"
    return f"{of} {pluralize(removed, 'removed listing')} had been listed again before."


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
    why = f": refused, or {NOT_IN_TIME}" if what == FAILED else ""
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
    section, outcomes = _section(data, "by_site"), statements.outcomes_by_site(data)
    if section is None or section.table is None:
        return section
    if outcomes is None:
        return _with_totals(replace(section, table=_with_every_listing(section.table)))
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
    table = _with_every_listing(table.merge(section.table[["site", *rest]], on="site", how="left"))
    table.attrs |= outcomes.attrs
    named = outcomes[[data.can_name(str(site)) for site in outcomes["site"]]]
    worst = named[named["open"] > 0].head(statements.WORST_NAMED)
    others = "; ".join(_other_measures(named, worst))
    words = [_verdicts(worst), statements.sentences([others])]
    section = replace(
        section,
        title="Sites, most open listings first",
        table=table.head(ROWS_MAX),
        rows=len(table),
        finding=_worst_first(data, worst) or section.finding,
    )
    section = _add_points(_with_totals(section), _without_relisting(named), *_promises(data, outcomes))
    return _add_words(section, " ".join(filter(None, words)))


def _with_every_listing(table: pd.DataFrame) -> pd.DataFrame:
    """Count in ``total`` also the listings that vanished or are unknown, as the head of the report does."""
    unlisted = table.columns.intersection([*analysis.NOT_LISTED])
    counted = table.assign(total=table["total"] + table[unlisted].sum(axis=1).astype("int64"))
    counted.attrs |= table.attrs
    return counted


def _worst_first(data: ReportData, worst: pd.DataFrame) -> str:
    """The sites with the most open listings, each with the verdict on it; empty if there are none."""
    if worst.empty:
        return ""
    n_open = len(data.open_records)
    are = "listing is" if n_open == 1 else "listings are"
    rows = zip(worst["site"].astype("str"), worst["open"], strict=True)
    sites = enumerate_words([f"{short(site)} {n:,}" for site, n in rows])
    return f"{n_open:,} {are} open. Most open listings{statements.of_named(data)}: {sites}."


def _verdicts(worst: pd.DataFrame) -> str:
    """What came of the requests to some sites, as a sentence; empty if there are none."""
    sites: dict[str, list[str]] = {}
    for site, verdict in zip(worst["site"].astype("str"), worst["verdict"], strict=True):
        sites.setdefault(verdict, []).append(short(site))
    return statements.sentences(["; ".join(_verdict_on(names, verdict) for verdict, names in sites.items())])


def _verdict_on(names: Sequence[str], verdict: str) -> str:
    """The verdict on some sites, as a clause."""
    if verdict == UNREQUESTED:
        return f"no removal request has been seen yet on {enumerate_words(names, 'or')}"
    verb, _, rest = verdict.partition(" ")
    who = enumerate_words(names)
    if not verb.isalpha():  # a count
        return f"{who}: {verdict}"
    return f"{who} {_OF_MANY.get(verb, verb) if len(names) > 1 else verb} {rest}"


def _other_measures(table: pd.DataFrame, worst: pd.DataFrame) -> Iterator[str]:
    """The first site by other measures: one that refuses requests, and where the largest share was listed again."""
    refusing = table[is_refusing(table) & ~table["site"].isin(worst["site"])]
    for row in refusing.head(1).to_dict("records"):
        yield f"{short(row['site'])} {in_vain(row)}"
    gone = table["listed_again"] + table["not_listed_again"]
    share = (table["listed_again"] / gone.where(gone > 0)).fillna(0).to_numpy("float64")
    if (share > 0).any():
        at = int(share.argmax())
        site, back, n = str(table["site"].iloc[at]), table["listed_again"].iloc[at], gone.iloc[at]
        yield f"{short(site)} has the largest share of relisted listings: {back:,} of {n:,}"


def _without_relisting(outcomes: pd.DataFrame) -> str:
    """On how many sites listings were removed, and none that is gone was listed again."""
    n = int(((outcomes[REMOVED] > 0) & (outcomes["listed_again"] == 0)).sum())
    return (
        f"On {n:,} of {pluralize(len(outcomes), 'site')}, listings were removed and none was listed again so far."
        if n
        else ""
    )


def _promises(data: ReportData, outcomes: pd.DataFrame) -> Iterator[str]:
    """Whether sites take longer than they declare, as far as that may be said; or that no declared days are recorded."""
    if outcomes["declared_days"].isna().all():
        yield from [_NOT_DECLARED] if data.sharing is not None else [_NOT_DECLARED, _RECORD_DAYS]
        return
    times = data.tables.get("declared_vs_observed")
    if times is None or data.sharing is not None:
        return
    slow = times.loc[times["takes_longer"].fillna(False).astype("bool"), "site"].astype("str")
    names = enumerate_words([*map(short, slow)]) if 0 < len(slow) <= MANY_SITES else f"{len(slow):,} sites"
    takes = "takes longer than it declares" if len(slow) == 1 else "take longer than they declare"
    yield "No site takes significantly longer than it declares." if slow.empty else f"{names} {takes}."


def _without_idle_causes(why: pd.DataFrame) -> pd.DataFrame:
    """The causes of a change without those that did not occur; the usual ones remain."""
    usual = why["cause"].isin([NEW, AGAIN, REMOVED]) | why.index.isin([why.index[0], why.index[-1]])
    return why[usual | (why["n"] != 0)].reset_index(drop=True)


def _score(data: ReportData) -> Section | None:
    """Who is most exposed, what a point is, and where the names are from."""
    names = "" if data.has_profiles or not data.names else f"Names are {LISTED_NAMES}."
    section, points = _section(data, "score"), definition("score").partition("; ")[0]
    if data.open_records["status"].isin([DISCOVERED, PENDING_REMOVAL]).all():
        points = ", ".join(part for part in points.split(", ") if "another open status" not in part)
    if section is not None and data.omits_rows(data["score"]):
        return _add_points(_add_words(_total_score(section, data), f"{points.capitalize()}."), _BY_COUNT)
    if section is None or section.figure is None:
        return section
    safe = data.person_rows if data.sharing is None else data.sharing.table(data.person_rows)
    total, _, most = section.finding.partition("; ")
    most = f"{most[:1].upper()}{most[1:].removesuffix('.')}{_without_doubt(data)}."
    section = replace(section, finding=most, table=_with_people(safe, data.names))
    doubt, counted = _other_namesakes(data), f"{total}: {points.partition(': ')[2]}."
    most, data_kinds = _most_exposed(data)
    words = [most, doubt or counted]
    section = _add_points(
        _with_totals(section), counted if doubt else "", data_kinds, _BY_COUNT, names, _shared_visits(data)
    )
    return _add_words(section, " ".join(filter(None, words)))


def _shared_visits(data: ReportData) -> str:
    """Why a report on one person counts more time; empty if nobody shares a visit, or no time is shown."""
    if data.sharing is not None:
        return ""
    queue = data.open_work
    people = queue.groupby(["kind", "group"])["user_id"].nunique()
    return _SHARED_VISITS if (people > 1).any() else ""


def _most_exposed(data: ReportData) -> tuple[str, str]:
    """What the person with the most points has, and what data that shows, a sentence each.

    Empty in a share-safe report, and of a tie.
    """
    table = data["score"]
    if data.sharing is not None or len(table) < 2 or table["score"].iloc[0] == table["score"].iloc[1]:  # noqa: PLR2004
        return "", ""
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
    of_person = data["details"][data["details"]["user_id"] == first["user_id"]]
    on_listings = _listing_kinds(of_person[analysis.is_open(of_person["status"])])
    on_each = {"the open listings": ["a name", *on_listings] if on_listings else [], "the web pages": kinds}
    data_kinds = [f"{where} show {enumerate_words(what)}" for where, what in on_each.items() if what]
    doubtful = data.namesakes[int(first["user_id"])]
    on += f"; {doubtful:,} of them may be about {statements.SOMEBODY_ELSE}" if doubtful else ""
    name = short(data.names.get(int(first["user_id"]), f"user {first['user_id']}"))
    has = f"{pluralize(int(first['listings']), 'open listing')}{on}"
    most = f"{name[:1].upper()}{name[1:]} has {has}; {pluralize(int(first['pages']), 'web page')}."
    return most, f"About {name}, {', and '.join(data_kinds)}." if data_kinds else ""


def _without_namesakes(data: ReportData) -> str:
    """Who would be first in the score without the listings that may be of a namesake; empty if nobody else."""
    table, doubtful = data["score"], data.namesakes
    # None of them has a pending removal.
    less = table["user_id"].map(doubtful).fillna(0) * analysis.WEIGHTS[DISCOVERED]
    score = table["score"] - less
    first = table.loc[score == score.max(), "user_id"].tolist()
    if first[0] == table["user_id"].iloc[0]:
        return ""
    names = [short(data.names.get(user, f"user {user}")) for user in first]
    who = (
        enumerate_words(names)
        if len(names) <= statements.WORST_NAMED
        else pluralize(len(names), "person", "people")
    )
    return f"; without {'it' if doubtful.total() == 1 else 'them'}, {who} would have the most points"


def _without_doubt(data: ReportData) -> str:
    """The points of the first without what may be of a namesake, in brackets; empty if the first place does not rest on it."""
    table = data["score"]
    is_first = len(table) > 1 and table["score"].iloc[0] > table["score"].iloc[1]  # alone
    if data.sharing is not None or not is_first or not _without_namesakes(data):
        return ""
    first = table.iloc[0]
    n = data.namesakes[int(first["user_id"])]
    points = first["score"] - n * analysis.WEIGHTS[DISCOVERED]
    return f" ({points:,g} without {pluralize(n, 'listing')} that may be about somebody else)"


def _other_namesakes(data: ReportData) -> str:
    """Whose listings have another name than those on file, as a sentence; empty if there are none."""
    doubtful = Counter() if data.sharing is not None else data.namesakes
    if not doubtful:
        return ""
    listings = f"{pluralize(doubtful.total(), 'listing has', 'listings have')} another name than on file"
    people = [short(data.names.get(user, f"user {user}")) for user in sorted(doubtful)]
    of = f" ({', '.join(people)})" if len(people) <= _SITES_NAMED else ""
    return f"{listings} and may be about somebody else{of}{_without_namesakes(data)}."


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
    return _add_points(section, section.figure.layout.meta["summary"] if section and section.figure else "")


def _forecast(data: ReportData) -> Section | None:
    """The forecast, and what to expect if all manual work is done; the work queue of a person is not everyone's."""
    table = data.tables["forecast"]
    if table is None or data.user is not None or not data.open_parts[0]:
        return _section(data, "forecast")
    rows = table.to_dict("records")
    done = [
        math.nan if pd.isna(row["open"]) else float(statements.open_if_done(data, row)[0]) for row in rows
    ]
    section = _section(data, "forecast", table.assign(if_done=done))
    words = [
        f"in {pluralize(row['days'], 'day')}: {words_if_done}"
        for row in rows
        if not pd.isna(row["open"]) and (words_if_done := statements.if_done(data, row))
    ]
    return _add_words(section, statements.sentences(["; ".join(words)]))


def _failed_removals(data: ReportData) -> Section | None:
    """Removals that failed, were not carried out in the usual time or were undone, by site; and the sites that remove nothing."""
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
        ("without_effect", ("removal request was", "removal requests were"), NOT_IN_TIME),
    ):
        if n := int(table[column].sum()):
            parts.append(f"{pluralize(n, *nouns)} {did}{_where(data, table, column)}")
    if len(data["relistings"]):
        parts.append(statements.relisted_listings(data))
    return f"{'; '.join(parts)}." if parts else "No removal failed or was undone, as far as observed."


def _where(data: ReportData, table: pd.DataFrame, column: str) -> str:
    """On which site all of them are, or most; empty if it may not be named, or several have as many."""
    n = table.set_index("site")[column].sort_values(ascending=False, kind="stable")
    n = n[n > 0]
    if n.empty or not data.can_name(str(n.index[0])) or (len(n) > 1 and n.iloc[0] == n.iloc[1]):
        return ""
    first = short(str(n.index[0]))
    return f" on {first}" if len(n) == 1 else f", most on {first} ({n.iloc[0]:,})"


def _relistings(data: ReportData) -> Section | None:
    """Each relisting; the status now stands in the last row of a listing."""
    table = data.tables["relistings"]
    if table is None:
        return None
    is_last = ~table.duplicated(["user_id", "key"], keep="last")
    rows = table.assign(status=table["status"].astype("str").where(is_last, _BACK_LATER))
    if data.sharing is None:
        rows = with_listings(rows, data["details"], columns=[_REFERENCE])
        rows = rows.sort_values(["listed_again_at", "user_id", "site", _REFERENCE, "key"], ignore_index=True)
    site, *times = (one for one in QUESTIONS["relistings"].columns if one != "user_id")
    section = _section(data, "relistings", rows, columns=("user_id", site, _REFERENCE, *times))
    if section is None or table.empty:
        return section
    days = data.longest_gone
    limit = (
        f" No listing has been gone for more than {pluralize(days, 'day')} yet, so more may be listed again later."
        if days
        else ""
    )
    listings = len(table.drop_duplicates(["user_id", "key"]))
    of = f" of {pluralize(listings, 'listing')}" if listings < len(table) else ""
    words = f"{pluralize(len(table), 'relisting')}{of}{_where_relisted(data)}.{limit}"
    return _add_words(
        replace(section, finding=f"{statements.relisted_listings(data, counts_times=False)}."), words
    )


def _where_relisted(data: ReportData) -> str:
    """On which sites most listings were listed again, of how many that were gone, and after how many days; empty without names."""
    outcomes = statements.outcomes_by_site(data)
    if outcomes is None:
        return ""
    back = outcomes[outcomes["listed_again"] > 0].sort_values("listed_again", ascending=False, kind="stable")
    named = back.head(statements.RELISTING_SITES)
    if named.empty or not all(map(data.can_name, named["site"].astype("str"))):
        return ""
    rows = zip(named["site"].astype("str"), named["listed_again"], named["not_listed_again"], strict=True)
    times = data["relistings"]["site"].astype("str").value_counts()
    sites = enumerate_words(
        [
            f"{short(site)} ({n:,} of {n + never:,}{f', {times[site]:,} times' if times[site] > n else ''})"
            for site, n, never in rows
        ]
    )
    most = "most on" if len(back) > len(named) else "on"
    days = data["relistings"]["gone_days"].dropna().round().astype("int64")
    if days.empty or data.sharing is not None:
        return f", {most} {sites}"
    low, high = int(days.min()), int(days.max())
    after = pluralize(high, "day") if low == high else f"{low:,}\N{EN DASH}{high:,} days"
    return f", {most} {sites}, after {after}"


def _time_to_removal(data: ReportData) -> Section | None:
    section = _section(data, "time_to_removal")
    if section is None or section.figure is None:
        return section
    times = data["time_to_removal"]
    n, n_open = int(times["n"].sum()), int(times["open"].sum())
    # The estimate is for everyone; the other tables of a report on a person are not.
    base = _base(data, n, n_open) if data.user is None else ""
    speeds = _speeds(data)
    in_all = _time_finding(data)
    hidden = section.text
    section = replace(section, finding=in_all or speeds or section.finding)
    speeds = speeds if section.finding != speeds else ""
    how_sure = _time_intervals(data) if in_all else ""
    clocks = _UNREQUESTED if _median_from_request(data) else ""
    if section.table is not None:
        order = ["unrequested", "median_days"]  # as in the chart
        table = without_estimates(section.table).sort_values(order, kind="stable", ignore_index=True)
        table = table.drop(columns="unrequested")
        with_requests = _with_request_medians(data, table)
        clocks += _SAME_MEDIANS if clocks and with_requests is table else ""
        section = replace(section, table=table if with_requests is None else with_requests)
    how_counted = (f"{_FROM_FIRST}{clocks}.", f"{how_sure} {base}".strip())
    limits = (*_without_removals(data), own_days(times), hidden, _CENSORING_NOTE, _resolution(data))
    request = _median_from_request(data)
    of_request = f"From the removal request, the overall median is {request}." if request else ""
    return _add_points(replace(section, text=f"{speeds} {of_request}".strip()), *how_counted, *limits)


def _time_finding(data: ReportData) -> str:
    """The estimated median time to removal of all listings, and the share that stays; empty without an estimate."""
    times = data.tables["removal_of_all"]
    if (
        data.user is not None
        or times is None
        or not (stay := statements.still_listed(row := times.to_dict("records")[0], band=False))
    ):
        return ""
    if pd.isna(row["median_days"]):
        return f"The median time to removal is not reached yet; {stay}."
    days, _ = statements.median_words(row)
    return f"Median time to removal: {days} from first observation; {stay}."


def _time_intervals(data: ReportData) -> str:
    """How sure the median time to removal and the share that stays are, as a sentence; empty without a median."""
    row = data["removal_of_all"].to_dict("records")[0]
    _, band = statements.median_words(row)
    share = format_interval(row["never_low"], row["never_high"], percent, "").strip(" (:)")
    return f"{band} days, and {share} of listings." if band else ""


def _with_request_medians(data: ReportData, times: pd.DataFrame) -> pd.DataFrame | None:
    """The times with the median days from the request; the same table if they are equal, None if they are not known.

    A share-safe report does not have them: it leaves out other sites than those of the table.
    """
    outcomes = statements.outcomes_by_site(data)
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


def _median_from_request(data: ReportData) -> str:
    """The median days to removal from the request; empty if it is not known, or the same from the first observation."""
    if data.user is not None or not {"removal_of_all", "removal_requests"} <= {*data.tables}:
        return ""
    first = data["removal_of_all"]["median_days"].iloc[0]
    request = data.request_times["median_days"]
    return "" if pd.isna(first) or pd.isna(request) or first == request else format_days(request)


def _declared_vs_observed(data: ReportData) -> Section | None:
    """The days that sites declare and take; those that declare nothing, or had no request, are counted only."""
    table = data.tables["declared_vs_observed"]
    if table is None:
        title = QUESTIONS["declared_vs_observed"].title
        words = f"{_NOT_DECLARED} An analyst can enter them."
        return Section(title, key="declared_vs_observed", text=words)
    declared = table[table["declared_days"].notna()].reset_index(drop=True)
    section = _section(data, "declared_vs_observed", declared)
    sites = data["records"]["site"]
    total, rest = sites.nunique(), sites[~sites.isin(declared["site"])].nunique()
    had_none = (declared["n"] == 0) & (declared["left_out"] == 0) & declared["site"].isin(sites)
    idle, all_sites = int(had_none.sum()), pluralize(total, "site")
    others = [
        f"{rest:,} of {all_sites} {'has' if rest == 1 else 'have'} no declared days" if rest else "",
        f"{idle:,} {'more' if rest else f'of {all_sites}'} had no request" if idle else "",
        _hidden_sites(data, section, int(((declared["n"] > 0) | (declared["left_out"] > 0)).sum())),
    ]
    if section is not None and section.table is not None:
        section = replace(section, table=section.table.drop(columns="q_value"))  # for analysts
    overdue = _OVERDUE.format(days=pluralize(int(table.attrs["allowance_days"]), "day"))
    hidden = section.text if section else ""
    section = section and replace(
        section, text=f"{overdue} {statements.sentences(['; '.join(filter(None, others))])}".strip()
    )
    return _add_points(section, *_LATE_NOTES, hidden)


def _hidden_sites(data: ReportData, section: Section | None, requested: int) -> str:
    """How many of the sites that declare days and had requests a share-safe section leaves out; empty if none."""
    if data.sharing is None or section is None or section.table is None:
        return ""
    hidden = requested - int((section.table["n"] > 0).sum())
    return f"{hidden:,} more {'is' if hidden == 1 else 'are'} {statements.IS_SHARED}" if hidden else ""


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
    return enumerate_words(names) if len(names) <= statements.WORST_NAMED else f"{len(names):,} sites"


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


def _without_removals(data: ReportData) -> list[str]:
    """The sites that removed nothing, and those on which no request was seen, a sentence each."""
    table = data["time_to_removal"]
    if "site" not in table:
        return []
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
    return sentences + (
        [f"No requests have been seen on {unrequested} yet, {unasked}."] if unrequested else []
    )


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
    ordered = " by kind, the newest first" if len(table) > 1 else ""  # the section on kinds counts them
    finding = f"{pluralize(len(table), 'change')}{ordered}." if len(table) else "No listing changed."
    return _with_finding(_section(data, "diff", newest_first.drop(columns="order")), finding)


def _records(data: ReportData) -> Section | None:
    """The listings by status, open ones first."""
    table = data["listings"]
    is_open = pd.Series(analysis.is_open(table["status"]), table.index)
    order = pd.DataFrame({"is_closed": ~is_open, "status": table["status"].astype("str")})
    by_status = order.sort_values(["is_closed", "status"], kind="stable").index
    ordered = table.loc[by_status].reset_index(drop=True)
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
    request = statements.best_request(data)
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
    work = statements.removal_groups(data)
    words, points = section.text, list[str]()
    if section.figure is not None or (data.omits_rows(queue) and len(queue)):
        words += f" {_amount(data)}"
        points += _how_to_work(data)
    if section.table is not None:
        points += [_finished_rows(queue)]
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
    elif data.sharing is None and (blocked := data.manual_work[2]):
        waits = "waits" if blocked == 1 else "wait"
        words += f" {blocked:,} {waits} for a value that is not on file: see the end of the list."
    return _add_points(replace(section, text=words.strip(), removals=work), *points)


def _finished_rows(queue: pd.DataFrame) -> str:
    """What the table has besides the open items."""
    states = queue["state"].astype("str").value_counts()
    finished = [f"{states[state]:,} {words}" for state, words in _FINISHED.items() if states.get(state)]
    return f"The table below also has {enumerate_words(finished)}." if finished else ""


def _amount(data: ReportData) -> str:
    waiting, pages, _, duration = data.manual_work
    return (
        f"{pluralize(waiting, 'item')} in all: {pluralize(waiting - pages, 'listing')} on people-search "
        f"sites and {pluralize(pages, 'web page')}; about {duration}{statements.check_part(data)}."
    )


def _how_to_work(data: ReportData) -> Iterator[str]:
    """In which order the manual work stands, what it includes, and what not."""
    yield (
        "Ordered as under What to do next: listings before web pages, since sites have an opt-out procedure and page "
        f"owners need not comply; among these, {_order(data)}{_LATER if data.later_work else ''}."
    )
    yield _requested_before(data)
    yield _CHECK_FIRST if any(statements.checks(data)) else ""
    yield _minutes_spent(data)
    if data.sharing is not None:
        yield statements.sentences([statements.LEFT_OUT]) if data.unchecked_sites else ""
        yield _OTHERS_OPEN


def _requested_before(data: ReportData) -> str:
    """How many of the listings had a request before, as a sentence; empty if that is not known."""
    counts = data.requested_before
    if counts is None or not sum(counts):
        return ""
    without, after = counts
    others = f", and {after:,} had one that failed or was followed by a relisting" if after else ""
    return f"{without:,} of {pluralize(without + after, 'listing')} {'has' if without == 1 else 'have'} had no request so far{others}."


def _order(data: ReportData) -> str:
    """What comes first in the work queue."""
    return f"{_ORDER_BY_MINUTES} ({statements.NEED_HISTORY})" if data.runs is None else _ORDER


def _coverage(data: ReportData) -> Section | None:
    table = data.tables["coverage"]
    if table is not None:
        section = _section(data, "coverage")
        is_one_bar = np.count_nonzero(table[[*OUTCOMES]]) == 1
        section = replace(section, figure=None) if section and is_one_bar else section
        if section is None:
            return None
        unconfirmed, observed = statements.unconfirmed(data), section.finding
        finding = f"{unconfirmed}; {observed[:1].lower()}{observed[1:]}" if unconfirmed else observed
        return replace(section, title=_UNKNOWN_TITLE, finding=finding, points=tuple(_unknowns(data)))
    issues = data["failures"]
    section = _section(data, "failures", issues)
    missing = f"{pluralize(len(issues), 'request')} failed; these people are missing or incomplete above."
    words = data.stopped or ("All people were loaded." if issues.empty else missing)
    return section and replace(section, text=words, points=tuple(_unknowns(data)))


def _unknowns(data: ReportData) -> Iterator[str]:
    """What nobody can tell from the data, a sentence each."""
    if data.sharing is None and statements.unconfirmed(data):
        yield f"{_TO_CONFIRM}."
        yield from () if data.runs is None else [f"{_RECORD_LABEL}."]
        unlabelled = int(data.manual_pages["label"].isna().sum())
        if unlabelled:
            yield (
                f"{pluralize(unlabelled, 'web page has', 'web pages have')} not been checked either: check each before you "
                "write."
            )
    if data.incomplete and statements.names_unobserved(data):
        yield f"{statements.unobserved(data)}."
    yield _UNSEARCHED
    records, missed = data["records"], data.tables["missed"]
    if missed is not None and isinstance(reason := missed["reason"].iloc[-1], str):
        yield f"The number of missed listings cannot be estimated: {reason}."
    ahead = data.tables.get("next_forecast")
    if ahead is not None and ahead["days"].iloc[0] < AHEAD_DAYS:
        needed = pluralize(AHEAD_DAYS * MIN_RATIO, "day")
        yield f"How many listings will be open in {AHEAD_DAYS} days: a forecast that far ahead needs {needed} of history."
    outcomes = statements.outcomes_by_site(data)
    if outcomes is not None:
        if outcomes["declared_days"].isna().all() and "by_site" not in data.tables:  # whose section says it
            yield _NOT_DECLARED
        yield _HOW_SURE
    gone = int((records["status"] == UNKNOWN).sum())
    if gone:
        are = "listing is" if gone == 1 else "listings are"
        yield f"{gone:,} {are} of people whom the service no longer lists."
    if not data.has_profiles and data.sharing is None:  # of a share-safe report, the manual work says it
        yield f"Whether required values are on file is not known: {_NO_PROFILES}"


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
    since = f" · since {statements.since_day(data)}" if name in _SINCE and data.since is not None else ""
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


def _add_points(section: Section | None, *points: str) -> Section | None:
    return section and replace(section, points=(*section.points, *filter(None, points)))


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


WORK_NEEDS = ("work_queue", "step_minutes", "labels")
_SPECIAL: dict[
    str, Any
] = {  # sections that say more than their chart and table, and the other tables they need
    "by_site": (_by_site, "site_outcomes"),
    "counts": (_counts,),
    "diff": (_diff,),
    "links": (_links,),
    "records": (_records, "listings", "evidence"),
    "diff_by_site": (_diff_by_site,),
    "status_over_time": (_over_time,),
    "time_to_removal": (_time_to_removal, "records", "relistings", "site_outcomes", "removal_of_all"),
    "declared_vs_observed": (_declared_vs_observed, "records"),
    "changes": (_changes,),
    "precision": (_precision,),
    "site_health": (_site_health,),
    "week": (_week, "week_by_site", "week_before", "status_over_time", "records"),
    "score": (_score, "records", "details", "links", "work_queue"),
    "forecast": (_forecast, "records", "work_queue", "site_outcomes"),
    "missed": (_missed,),
    "failed_removals": (_failed_removals, "stalled", "relistings"),
    "relistings": (_relistings, "details"),
    "score_changes": (_score_changes,),
    "blockers": (_blockers, "best_next_fields"),
    "best_next_fields": (_best_next_fields, "blockers"),
    "work_queue": (_work_queue, "step_minutes", "timed_steps", "plan"),
    "coverage": (_coverage, "failures", "records", "missed", "site_outcomes", *WORK_NEEDS),
}
