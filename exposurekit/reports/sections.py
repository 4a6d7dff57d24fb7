"""What each kind of report says: the fleet, one person, what changed, the sites. Asks what was gathered, and draws no page."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import date, datetime

import pandas as pd

from exposurekit import analysis, charts
from exposurekit.analysis.diff import AGAIN, NEW
from exposurekit.analysis.score import PAGE
from exposurekit.analysis.statuses import OTHER
from exposurekit.analysis.work_queue import STEP_MINUTES, VISIT_MINUTES
from exposurekit.charts.bars import tied
from exposurekit.charts.theme import format_duration, percent, pluralize, short
from exposurekit.contract.types import DISCOVERED, PENDING_REMOVAL, REMOVED
from exposurekit.errors import InvalidArgument
from exposurekit.history import Diff
from exposurekit.history.times import format_time
from exposurekit.reports.data import ReportData
from exposurekit.reports.manual_steps import removals
from exposurekit.reports.model import ROWS_MAX, TASKS_MAX, Fact, Report, Section

AHEAD_DAYS = 30
_ASSUMED = f"{VISIT_MINUTES:g} minutes a place and {STEP_MINUTES:g} a step are assumed"
_POINTS_ONCE = "Each listing counts once, by how it stood before and stands now: one that was found and removed in between has no points."
ASKS = 2  # fields that unlock most, as a fleet's report names them
_LISTED = ("site", "status", "first_seen_at", "changed_at", "age", "states", "href")
_PAGE = ("title", "url", "contains")
_MOVED = ("user_id", "site", "before", "after", "what")
_AGAIN = ("user_id", "site", "removed_at", "listed_again_at", "gone_days", "episode")
_QUEUE = (
    *(
        "place",
        "group",
        "kind",
        "site",
        "user_id",
        "alert_number",
        "record_id",
        "state",
        "steps",
        "done",
        "unable",
    ),
    *("minutes", "first_seen_at", "items", "people", "items_per_minute"),
)
_FAILED = ("user_id", "operation", "error", "status")


def fleet(of: ReportData) -> Report:
    """Everyone: where they are exposed, how it moves, and what is to be done."""
    table = analysis.by_site(of.records)
    sections = [
        _section(of, "by_site", "Exposure by site", table, charts.by_site),
        _section(of, "score", "Who is most exposed", of.score, charts.score),
        *_over_time(of),
        *_removal_sections(of),
        *_unblocked(of),
        _manual(of),
        *_coverage_sections(of),
    ]
    return Report("fleet", "Exposure", _finding(of), tuple(_facts(of)), tuple(sections), of.provenance())


def person(of: ReportData) -> Report:
    """One person: their listings, pages, and what is left to do."""
    sections = [
        _section(of, "records", "Listings", of.records, columns=_LISTED),
        *_over_time(of),
        _section(of, "links", "Pages", of.links, columns=_PAGE),
        *_unblocked(of),
        _manual(of),
    ]
    return Report(
        "person",
        f"Exposure of {of.called}",
        _finding(of),
        tuple(_facts(of)),
        tuple(sections),
        of.provenance(),
    )


def changes(of: ReportData, since: str | date | datetime) -> Report:
    """What moved since an instant, or the end of a day."""
    if of.history is None:
        raise InvalidArgument("What changed is asked of a history: ek.report(history, since=...)")
    moved, points = of.history.diff(since), of.history.score_changes(since)
    after = format_time(moved.since) if of.sharing is None else f"{moved.since:%Y-%m-%d}"
    each = moved.things[moved.things["what"] != "unchanged"]
    since_then = f" · since {after}"
    title = "Why the score moved"
    scored = _section(of, "score_changes", title, points, charts.score_changes, since=since_then)
    sections = [
        _section(of, "changes", "Why the number moved", moved.why, charts.changes, since=since_then),
        _counts(of, moved),
        replace(scored, words=f"{scored.words} {_POINTS_ONCE}"),
        _section(of, "things", "Each of them", each, columns=_MOVED),
        _manual(of),
    ]
    provenance = of.provenance() | {"since": after}
    return Report(
        "changes",
        f"What changed since {after}",
        _change_finding(moved),
        tuple(_facts_of_change(of, moved, points, after)),
        tuple(sections),
        provenance,
    )


def _counts(of: ReportData, moved: Diff) -> Section:
    """Each listing once, beside every move: where the two differ the page says why."""
    moves = moved.why.set_index("cause")["n"].abs()
    table = moved.counts.assign(moves=moved.counts["what"].map(moves).astype("Int64"))
    differ = table[table["moves"].notna() & (table["moves"] != table["n"])]
    words = "n has each listing once, by how it stood before and stands now; moves has every move in between, as the chart above."
    if len(differ):
        each = ", ".join(f"{row.what} ({row.n:,} and {row.moves:,})" for row in differ.itertuples())
        words += (
            f" They differ for {each}: a listing that was found and removed in between is new and removed among the moves, "
            "and only removed in n; one that came back and was removed again has moved several times."
        )
    return replace(_section(of, "counts", "What moved", table), words=words)


def sites(of: ReportData) -> Report:
    """The league of sites: what each holds, how long it takes, what it lists again, and whether it can be read."""
    table = analysis.by_site(of.records)
    sections = [
        _section(of, "by_site", "What each holds", table, charts.by_site),
        *_removal_sections(of),
    ]
    if of.history is not None:
        health, precision = of.history.site_health(), of.history.precision()
        sections += [
            _section(of, "site_health", "Whether they can be read", health, charts.site_health),
            _section(of, "precision", "Whose listings they are", precision, charts.precision),
        ]
    return Report("sites", "The sites", _finding(of), tuple(_facts(of)), tuple(sections), of.provenance())


def _finding(of: ReportData) -> str:
    open_now = _open(of.records)
    listed = f"{pluralize(len(open_now), 'listing')} of {pluralize(len(of.records), 'found', 'found')} "
    are = "is" if len(open_now) == 1 else "are"
    if open_now.empty:
        return f"No listing is open, of {len(of.records):,} that were found."
    counts = open_now["site"].astype("str").value_counts()
    first = counts.index[counts == counts.iloc[0]]
    names = [short(site) for site in first if of.may_name(site)]
    each = f"{counts.iloc[0]:,}{' each' if len(first) > 1 else ''}"
    where = f"; most on {tied(names, 'sites')} ({each})" if len(names) == len(first) else ""
    return f"{listed}{are} still open{where}."


def _facts(of: ReportData) -> Iterator[Fact]:
    open_now = _open(of.records)
    seen = f"{of.unseen:,} of {of.people:,} people not seen well" if of.unseen else "everybody was seen well"
    yield Fact("open listings", f"{len(open_now):,}", seen)
    removed = int((of.records["status"].astype("str") == REMOVED).sum())
    share = removed / len(of.records) if len(of.records) else float("nan")
    gone = int(of.records["status"].isin(analysis.NOT_LISTED).sum())
    besides = f"; {gone:,} vanished or are unknown" if gone else ""
    yield Fact("removed", f"{removed:,}", f"{percent(share)} of {len(of.records):,} found{besides}")
    yield Fact("pages with their data", f"{len(of.links):,}", "nobody can send these a form")
    yield Fact("score", f"{of.score['score'].sum():,.0f}", _added_up(of))
    yield _by_hand(of)
    if of.history is not None and of.user is None:
        yield from _of_time(of)


def _facts_of_change(of: ReportData, moved: Diff, points: pd.DataFrame, after: str) -> Iterator[Fact]:
    """What a chart of changes shows as bars, as figures: every move counts."""
    n = dict(zip(moved.why["cause"], moved.why["n"].abs(), strict=True))
    before, now = int(moved.why["open"].iloc[0]), int(moved.why["open"].iloc[-1])
    yield Fact("open listings", f"{now:,}", f"{before:,} on {after}")
    gone = int(n[NEW] - moved.counts.set_index("what")["n"][NEW])
    yield Fact(
        "new", f"{n[NEW]:,}", f"since {after}" + (f"; {gone:,} of them not open any more" if gone > 0 else "")
    )
    yield Fact("listed again", f"{n[AGAIN]:,}", f"since {after}")
    yield Fact("removed", f"{n[REMOVED]:,}", f"since {after}")
    first, last = float(points["score"].iloc[0]), float(points["score"].iloc[-1])
    yield Fact("score", f"{last:,.0f}", f"{first:,.0f} on {after}; now {_added_up(of)}")
    yield _by_hand(of)


def _added_up(of: ReportData) -> str:
    """What the score is the sum of."""
    status = _open(of.records)["status"].astype("str")
    n = {name: int((status == name).sum()) for name in (DISCOVERED, PENDING_REMOVAL)}
    n |= {OTHER: len(status) - sum(n.values()), PAGE: len(of.links)}
    words = {OTHER: "in other statuses", PAGE: "page" if n[PAGE] == 1 else "pages"}
    parts = [
        f"{n[name]:,} {words.get(name, name)} \u00d7 {analysis.WEIGHTS[name]:g}" for name in n if n[name]
    ]
    return " + ".join(parts) or "nothing is open"


def _by_hand(of: ReportData) -> Fact:
    """The alerts that wait for a human: of listings and of pages."""
    left = of.queue[~of.queue["state"].isin(["done", "unable"])]
    pages = int(left["site"].isna().sum())
    what = f"{len(left) - pages:,} of listings, {pages:,} of pages"
    return Fact(
        "removals by hand",
        f"{len(left):,}",
        f"{what}; about {format_duration(left['minutes'].sum())}; {_ASSUMED}",
    )


def _of_time(of: ReportData) -> Iterator[Fact]:
    assert of.history is not None  # noqa: S101  asked where there is one
    removal = of.history.time_to_removal(by=None).to_dict("records")[0]
    if removal["n"]:
        median = removal["median_days"]
        days = "not reached" if pd.isna(median) else f"{median:,} days"
        never = percent(removal["never"])
        followed = f"of {removal['n']:,} that were followed; {never} were not within {removal['followed_days']:,} days"
        yield Fact("half removed within", days, followed)
    ahead = of.history.forecast([AHEAD_DAYS]).to_dict("records")[0]
    if not pd.isna(ahead["open"]):
        interval = f"95 % interval: {ahead['low']:,.0f}\N{EN DASH}{ahead['high']:,.0f}"
        caution = "" if pd.isna(ahead["reason"]) else f"; {ahead['reason']}"
        yield Fact(f"open in {AHEAD_DAYS} days", f"{ahead['open']:,.0f}", interval + caution)


def _over_time(of: ReportData) -> list[Section]:
    if of.history is None:
        return []
    table = of.history.status_over_time(user=of.user)
    section = _section(of, "status_over_time", "Status over time", table, charts.status_over_time)
    return [replace(section, words=f"{section.words}{_no_forecast(of)}")]


def _no_forecast(of: ReportData) -> str:
    """Why there is no card of what is coming; nothing where there is one."""
    if of.history is None or of.user is not None:
        return ""
    ahead = of.history.forecast([AHEAD_DAYS]).to_dict("records")[0]
    return f" No forecast for {AHEAD_DAYS} days: {ahead['reason']}." if pd.isna(ahead["open"]) else ""


def _removal_sections(of: ReportData) -> list[Section]:
    """How long removals take, and what comes back."""
    if of.history is None:
        return []
    removal, again = of.history.time_to_removal(), of.history.relistings()
    return [
        _section(of, "time_to_removal", "Time to removal", removal, charts.time_to_removal),
        _section(of, "relistings", "Listed again", again, charts.relistings, columns=_AGAIN),
    ]


def _unblocked(of: ReportData) -> list[Section]:
    if of.on_file is None:
        words = (
            "What people have on file is not known here: a history does not keep it. A report that looks at the service as "
            "well knows it: exposurekit report --live, or exposure= in Python."
        )
        return [Section("blockers", "What can be unblocked", words)]
    table = analysis.blockers(of.records, of.on_file)
    asks = analysis.best_next_fields(of.records, of.on_file, asks=ASKS)
    return [
        _section(of, "blockers", "What can be unblocked", table, charts.blockers),
        _section(of, "best_next_fields", "Whom to ask first", asks, charts.best_next_fields),
    ]


def _manual(of: ReportData) -> Section:
    queue = of.queue[[name for name in _QUEUE if name in of.queue]]
    section = _section(of, "work_queue", "What a human must do", queue, charts.work_queue)
    found = removals(of.queue, most=TASKS_MAX)
    return replace(section, removals=found if of.sharing is None else of.sharing.removals(found, of.user))


def _coverage_sections(of: ReportData) -> list[Section]:
    if of.history is not None:
        return [_section(of, "coverage", "Who was seen", of.history.coverage(), charts.coverage)]
    assert of.exposure is not None  # noqa: S101  there is one of the two
    failures = of.exposure.failures()
    section = _section(of, "failures", "Who was seen", failures, columns=_FAILED)
    missing = f"{len(failures):,} loads failed: these people are missing above."
    return [replace(section, words="Everybody was loaded." if failures.empty else missing)]


def _section(
    of: ReportData,
    key: str,
    title: str,
    table: pd.DataFrame,
    draw: Callable[..., charts.Chart] | None = None,
    *,
    since: str = "",
    columns: Sequence[str] = (),
) -> Section:
    """A table as it may be told, what is drawn of it, and those of its columns that are shown."""
    told = table if of.sharing is None else of.sharing.table(table)
    chart = None if draw is None else draw(told, provenance=of.line + since)
    if told.empty:  # nothing to draw, and nothing to count
        return Section(key, title, "Nothing." if chart is None else f"{chart.layout.meta['finding']}.")
    words = "" if chart is None else charts.describe(chart)
    shown = told[[name for name in columns if name in told]] if columns else told
    return Section(key, title, words, chart, shown.head(ROWS_MAX).reset_index(drop=True), len(shown))


def _open(records: pd.DataFrame) -> pd.DataFrame:
    return records[analysis.is_open(records["status"].astype("str"))]


def _change_finding(moved: Diff) -> str:
    before, after = int(moved.why["open"].iloc[0]), int(moved.why["open"].iloc[-1])
    gone = after - before
    how = "as many as before" if gone == 0 else f"{abs(gone):,} {'more' if gone > 0 else 'fewer'} than before"
    return f"{pluralize(after, 'listing')} {'is' if after == 1 else 'are'} open, {how}."
