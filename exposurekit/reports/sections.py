"""The sections of each kind of report: fleet, person, changes and sites."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime

import pandas as pd

from exposurekit import analysis, charts
from exposurekit.analysis.diff import AGAIN, NEW
from exposurekit.analysis.score import PAGE
from exposurekit.analysis.statuses import OTHER
from exposurekit.analysis.tasks import tasks
from exposurekit.analysis.work_queue import STEP_MINUTES, VISIT_MINUTES
from exposurekit.charts.bars import names_or_count
from exposurekit.charts.theme import format_duration, label_text, percent, pluralize, short
from exposurekit.contract.types import DISCOVERED, PENDING_REMOVAL, REMOVED
from exposurekit.errors import InvalidArgument
from exposurekit.history import Diff
from exposurekit.history.times import format_time
from exposurekit.reports.data import ReportData
from exposurekit.reports.manual_steps import removals
from exposurekit.reports.model import ROWS_MAX, TASKS_MAX, Fact, Report, Section
from exposurekit.reports.share_safe import FEW

AHEAD_DAYS = 30  # of the forecast
_ASSUMED = f"assuming {VISIT_MINUTES:g} minutes a host and {STEP_MINUTES:g} a step"
_CENSORING_NOTE = "Open listings count only while observed."
_NO_SINGLE_BAR = {"blockers", "best_next_fields"}  # a sentence says it
_USER = re.compile(r"\buser (\d+)\b")
_POINTS_NOTE = "Each listing counts once, by its first and its last status: one that was found and removed in between has no points."
ASKS = 2  # fields that unlock most, as a fleet's report names them
_RECORD_COLUMNS = ("site", "status", "first_seen_at", "changed_at", "age", "states", "href")
_LINK_COLUMNS = ("title", "url", "contains")
_CHANGE_COLUMNS = ("user_id", "site", "before", "after", "what")
_RELISTING_COLUMNS = ("user_id", "site", "removed_at", "listed_again_at", "gone_days", "episode")
_QUEUE_COLUMNS = (
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
_LOAD_ISSUE_COLUMNS = ("user_id", "operation", "error", "status")


def fleet(data: ReportData) -> Report:
    """A report on all users: exposure by site, its course, and the manual work."""
    table = analysis.by_site(data.records)
    sections = [
        _section(data, "by_site", "Exposure by site", table, charts.by_site),
        _section(data, "score", "Who is most exposed", data.score, charts.score),
        *_over_time(data),
        *_removal_sections(data),
        *_blocker_sections(data),
        _manual(data),
        *_coverage_sections(data),
    ]
    title = f"Exposure of {pluralize(data.people, 'person', 'people')}{_dates(data)}"
    return Report("fleet", title, _finding(data), tuple(_facts(data)), tuple(sections), data.provenance())


def _dates(data: ReportData) -> str:
    """The first and the last day of the data."""
    last = f"{data.as_of:%Y-%m-%d}"
    first = last if data.first_run_at is None else f"{data.first_run_at:%Y-%m-%d}"
    return f", {last}" if first == last else f", {first} to {last}"


def person(data: ReportData) -> Report:
    """A report on one person: listings, web pages and manual work."""
    sections = [
        _section(data, "records", "Listings", data.records, columns=_RECORD_COLUMNS),
        *_over_time(data),
        _section(data, "links", "Web pages", data.links, columns=_LINK_COLUMNS),
        *_blocker_sections(data),
        _manual(data),
    ]
    return Report(
        "person",
        f"Exposure of {data.user_label}",
        _finding(data),
        tuple(_facts(data)),
        tuple(sections),
        data.provenance(),
    )


def changes(data: ReportData, since: str | date | datetime) -> Report:
    """A report on what changed since an instant, or since the end of a day."""
    if data.history is None:
        raise InvalidArgument(
            "An exposure has no past. Report changes of a history: ek.report(history, since=...)"
        )
    difference, points = data.history.diff(since), data.history.score_changes(since)
    since_text = format_time(difference.since) if data.sharing is None else f"{difference.since:%Y-%m-%d}"
    changed = difference.things[difference.things["what"] != "unchanged"]
    suffix = f" · since {since_text}"
    title = "Why the score changed"
    scored = _section(data, "score_changes", title, points, charts.score_changes, source_suffix=suffix)
    sections = [
        _section(
            data,
            "changes",
            "Why the number of open listings changed",
            difference.why,
            charts.changes,
            source_suffix=suffix,
        ),
        _counts(data, difference),
        replace(scored, words=f"{scored.words} {_POINTS_NOTE}"),
        _section(data, "things", "Each listing that changed", changed, columns=_CHANGE_COLUMNS),
        _manual(data),
    ]
    provenance = data.provenance() | {"since": since_text}
    return Report(
        "changes",
        f"What changed since {since_text}",
        _change_finding(difference),
        tuple(_change_facts(data, difference, points, since_text)),
        tuple(sections),
        provenance,
    )


def _counts(data: ReportData, difference: Diff) -> Section:
    """The number of listings and of moves for each kind of change, and why the two may differ."""
    moves = difference.why.set_index("cause")["n"].abs()
    table = difference.counts.assign(moves=difference.counts["what"].map(moves).astype("Int64"))
    differ = table[table["moves"].notna() & (table["moves"] != table["n"])]
    words = "n counts each listing once, by its first and its last status; moves counts every change in between, as the chart above does."
    if len(differ):
        each = ", ".join(f"{row.what} ({row.n:,} and {row.moves:,})" for row in differ.itertuples())
        words += (
            f" They differ for {each}: a listing that was found and removed in between counts as new and as removed in moves, "
            "but only as removed in n; one that came back and was removed again counts several times."
        )
    return replace(_section(data, "counts", "Changes by kind", table), words=words)


def sites(data: ReportData) -> Report:
    """A report on sites: listings, time to removal, relistings and data quality."""
    table = analysis.by_site(data.records)
    sections = [
        _section(data, "by_site", "Listings by site", table, charts.by_site),
        *_removal_sections(data),
    ]
    if data.history is not None:
        health, precision = data.history.site_health(), data.history.precision()
        sections += [
            _section(data, "site_health", "Scan quality by site", health, charts.site_health),
            _section(data, "precision", "Precision of matches", precision, charts.precision),
        ]
    return Report("sites", "Sites", _finding(data), tuple(_facts(data)), tuple(sections), data.provenance())


def _finding(data: ReportData) -> str:
    open_now = _open(data.records)
    listed = f"{pluralize(len(open_now), 'listing')} of {pluralize(len(data.records), 'found', 'found')} "
    are = "is" if len(open_now) == 1 else "are"
    if open_now.empty:
        return f"No listing is open, of {len(data.records):,} that were found."
    counts = open_now["site"].astype("str").value_counts()
    first = counts.index[counts == counts.iloc[0]]
    names = [short(site) for site in first if data.can_name(site)]
    each = f"{counts.iloc[0]:,}{' each' if len(first) > 1 else ''}"
    where = f"; most on {names_or_count(names, 'sites')} ({each})" if len(names) == len(first) else ""
    return f"{listed}{are} still open{where}."


def _facts(data: ReportData) -> Iterator[Fact]:
    open_now = _open(data.records)
    complete = f"all {data.people:,} people were" if data.people != 1 else "the person was"
    missed = f"{data.incomplete:,} of {data.people:,} people were not observed completely in the last run"
    observed = missed if data.incomplete else f"{complete} observed in the last run"
    yield Fact("open listings", f"{len(open_now):,}", observed)
    removed = int((data.records["status"].astype("str") == REMOVED).sum())
    share = removed / len(data.records) if len(data.records) else float("nan")
    absent = int(data.records["status"].isin(analysis.NOT_LISTED).sum())
    besides = f"; {absent:,} vanished or are unknown" if absent else ""
    yield Fact("removed", f"{removed:,}", f"{percent(share)} of {len(data.records):,} found{besides}")
    yield Fact("pages with their data", f"{len(data.links):,}", "they have no opt-out form")
    yield Fact("score", f"{data.score['score'].sum():,.0f}", _score_sum(data))
    yield _manual_fact(data)
    if data.history is not None and data.user is None:
        yield from _history_facts(data)


def _change_facts(
    data: ReportData, difference: Diff, points: pd.DataFrame, since_text: str
) -> Iterator[Fact]:
    """The bars of the chart of changes as figures; every move counts."""
    n = dict(zip(difference.why["cause"], difference.why["n"].abs(), strict=True))
    before, now = int(difference.why["open"].iloc[0]), int(difference.why["open"].iloc[-1])
    yield Fact("open listings", f"{now:,}", f"{before:,} on {since_text}")
    closed = int(n[NEW] - difference.counts.set_index("what")["n"][NEW])
    yield Fact(
        "new",
        f"{n[NEW]:,}",
        f"since {since_text}" + (f"; {closed:,} of them no longer open" if closed > 0 else ""),
    )
    yield Fact("listed again", f"{n[AGAIN]:,}", f"since {since_text}")
    yield Fact("removed", f"{n[REMOVED]:,}", f"since {since_text}")
    first, last = float(points["score"].iloc[0]), float(points["score"].iloc[-1])
    yield Fact("score", f"{last:,.0f}", f"{first:,.0f} on {since_text}; now {_score_sum(data)}")
    yield _manual_fact(data)


def _score_sum(data: ReportData) -> str:
    """The terms of the score."""
    status = _open(data.records)["status"].astype("str")
    n = {name: int((status == name).sum()) for name in (DISCOVERED, PENDING_REMOVAL)}
    n |= {OTHER: len(status) - sum(n.values()), PAGE: len(data.links)}
    words = {OTHER: "in other statuses", PAGE: "page" if n[PAGE] == 1 else "pages"}
    parts = [
        f"{n[name]:,} {words.get(name, name)} \u00d7 {analysis.WEIGHTS[name]:g}" for name in n if n[name]
    ]
    return " + ".join(parts) or "nothing is open"


def _manual_fact(data: ReportData) -> Fact:
    """The manual removals that wait: of listings and of web pages."""
    waiting = data.waiting
    pages = int(waiting["site"].isna().sum())
    blocked = _blocked(data)
    waits = "waits" if blocked == 1 else "wait"
    reason = f"; {blocked:,} of them {waits} for a value that is not on file" if blocked else ""
    return Fact(
        "removals by hand",
        f"{len(waiting):,}",
        f"{pluralize(len(waiting) - pages, 'listing')}, {pluralize(pages, 'web page')}; "
        f"about {format_duration(waiting['minutes'].sum())}{reason}; {_ASSUMED}",
    )


def _blocked(data: ReportData) -> int:
    """The number of manual removals that need a value which is not on file; 0 in a share-safe report."""
    if data.sharing is not None:
        return 0
    return sum(1 for task in tasks(data.waiting) if task.missing_values)


def _history_facts(data: ReportData) -> Iterator[Fact]:
    assert data.history is not None  # noqa: S101  the callers check
    removal = data.history.time_to_removal(by=None).to_dict("records")[0]
    if removal["n"]:
        median = removal["median_days"]
        days = "not reached" if pd.isna(median) else f"{median:,g} days"
        relisted = int(removal["n"]) - len(data.records)
        more = f", {relisted:,} of them relistings" if relisted > 0 else ""
        yield Fact(
            "half removed within",
            days,
            f"n = {removal['n']:,} listings{more}; {percent(removal['never'])} not removed within "
            f"{removal['followed_days']:,} days",
        )
    forecast = data.history.forecast([AHEAD_DAYS]).to_dict("records")[0]
    if not pd.isna(forecast["open"]):
        interval = f"95 % interval: {forecast['low']:,.0f}\N{EN DASH}{forecast['high']:,.0f}"
        caution = "" if pd.isna(forecast["reason"]) else f"; {forecast['reason']}"
        yield Fact(f"open in {AHEAD_DAYS} days", f"{forecast['open']:,.0f}", interval + caution)


def _over_time(data: ReportData) -> list[Section]:
    if data.history is None:
        return []
    table = data.history.status_over_time(user=data.user)
    section = _section(data, "status_over_time", "Status over time", table, charts.status_over_time)
    return [replace(section, words=f"{section.words}{_no_forecast(data)}")]


def _no_forecast(data: ReportData) -> str:
    """Why there is no forecast, as a sentence; empty if there is one."""
    if data.history is None or data.user is not None:
        return ""
    forecast = data.history.forecast([AHEAD_DAYS]).to_dict("records")[0]
    return f" No forecast for {AHEAD_DAYS} days: {forecast['reason']}." if pd.isna(forecast["open"]) else ""


def _removal_sections(data: ReportData) -> list[Section]:
    """Time to removal, and relistings."""
    if data.history is None:
        return []
    removal, relistings = data.history.time_to_removal(), data.history.relistings()
    section = _section(data, "time_to_removal", "Time to removal", removal, charts.time_to_removal)
    return [
        replace(section, words=f"{section.words} {_CENSORING_NOTE}") if section.chart else section,
        _section(data, "relistings", "Relistings", relistings, charts.relistings, columns=_RELISTING_COLUMNS),
    ]


def _blocker_sections(data: ReportData) -> list[Section]:
    if data.on_file is None:
        words = (
            "A history does not store what people have on file, so missing fields are not known. "
            "Add the service: exposurekit report --live, or exposure= in Python."
        )
        return [Section("blockers", "Missing fields", words)]
    table = analysis.blockers(data.records, data.on_file)
    next_fields = analysis.best_next_fields(data.records, data.on_file, asks=ASKS)
    if data.sharing is not None and data.user is None:
        table, next_fields = _of_many(table), _of_many(next_fields)
        if table.empty:
            words = f"Not shown: fewer than {FEW} people lack the same field."
            return [Section("blockers", "Missing fields", words)]
    return [
        _section(data, "blockers", "Missing fields", table, charts.blockers),
        _section(data, "best_next_fields", "Whom to ask first", next_fields, charts.best_next_fields),
    ]


def _of_many(table: pd.DataFrame) -> pd.DataFrame:
    """The rows about fields that at least `FEW` people lack."""
    name = "field" if "field" in table else "fields"
    field = table[name].map(lambda cell: cell if isinstance(cell, str) else tuple(cell))
    people = table.groupby(field)["user_id"].transform("nunique") if len(table) else pd.Series(dtype="int64")
    return table[people.to_numpy() >= FEW].reset_index(drop=True)


def _manual(data: ReportData) -> Section:
    queue = data.queue[[name for name in _QUEUE_COLUMNS if name in data.queue]]
    section = _section(data, "work_queue", "Manual work", queue, charts.work_queue)
    work = removals(data.queue, limit=TASKS_MAX, as_of=data.as_of.date())
    if section.chart is not None:
        for trace in section.chart.data:  # the legend names only the states that occur
            if trace.x is not None and not any(trace.x):
                trace.showlegend = False
        section = replace(section, words=f"{section.words} {_amount(data)}")
    return replace(section, removals=work if data.sharing is None else data.sharing.removals(work, data.user))


def _amount(data: ReportData) -> str:
    """How much manual work there is, in a sentence."""
    waiting, blocked = data.waiting, _blocked(data)
    pages = int(waiting["site"].isna().sum())
    words = (
        f"{pluralize(len(waiting), 'item')} in all: {pluralize(len(waiting) - pages, 'listing')} on people-search "
        f"sites and {pluralize(pages, 'web page')}; about {format_duration(waiting['minutes'].sum())}."
    )
    if blocked:
        words += f" {blocked:,} cannot start yet, because a required value is not on file: see the end of the list."
    return words


def _coverage_sections(data: ReportData) -> list[Section]:
    title = "Who was observed"
    if data.history is not None:
        return [_section(data, "coverage", title, data.history.coverage(), charts.coverage)]
    assert data.exposure is not None  # noqa: S101  one of the two is there
    issues = data.exposure.failures()
    section = _section(data, "failures", title, issues, columns=_LOAD_ISSUE_COLUMNS)
    missing = f"{pluralize(len(issues), 'request')} failed; these people are missing or incomplete above."
    return [replace(section, words="All people were loaded." if issues.empty else missing)]


def _section(
    data: ReportData,
    key: str,
    title: str,
    table: pd.DataFrame,
    draw: Callable[..., charts.Chart] | None = None,
    *,
    source_suffix: str = "",
    columns: Sequence[str] = (),
) -> Section:
    """A section of a table: its chart, and the columns to show; redacted for a share-safe report."""
    table = table if data.sharing is None else data.sharing.table(table)
    chart = None if draw is None else draw(table, provenance=data.source_line + source_suffix)
    if table.empty:
        return Section(key, title, "None." if chart is None else f"{chart.layout.meta['finding']}.")
    words = ""
    if chart is not None:
        chart = _with_names(chart, data.names)
        words = charts.describe(chart) if key == "status_over_time" else f"{chart.layout.meta['finding']}."
    selected = table[[name for name in columns if name in table]] if columns else table
    is_single = key in _NO_SINGLE_BAR and len(table) == 1
    return Section(
        key,
        title,
        words,
        None if is_single else chart,
        selected.head(ROWS_MAX).reset_index(drop=True),
        len(selected),
    )


def _with_names(chart: charts.Chart, names: Mapping[int, str]) -> charts.Chart:
    """A chart whose labels name people, not only their ids."""

    def named(text: object) -> object:
        if not isinstance(text, str):
            return text
        return _USER.sub(
            lambda match: (
                f"{label_text(names[int(match[1])])} ({match[1]})" if int(match[1]) in names else match[0]
            ),
            text,
        )

    if names:
        for axis in (chart.layout.xaxis, chart.layout.yaxis):
            if axis.ticktext is not None:
                axis.ticktext = [named(text) for text in axis.ticktext]
        chart.layout.meta = {key: named(text) for key, text in chart.layout.meta.items()}
    return chart


def _open(records: pd.DataFrame) -> pd.DataFrame:
    return records[analysis.is_open(records["status"].astype("str"))]


def _change_finding(difference: Diff) -> str:
    before, after = int(difference.why["open"].iloc[0]), int(difference.why["open"].iloc[-1])
    more = after - before
    words = (
        "as many as before" if more == 0 else f"{abs(more):,} {'more' if more > 0 else 'fewer'} than before"
    )
    return f"{pluralize(after, 'listing')} {'is' if after == 1 else 'are'} open, {words}."
