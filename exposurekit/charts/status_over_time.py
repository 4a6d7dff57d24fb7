"""Status counts over time: stacked areas, or a row of open items for each group."""

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from exposurekit.analysis import OTHER, UNKNOWN, VANISHED
from exposurekit.analysis.status_over_time import since_observed
from exposurekit.analysis.statuses import OPEN
from exposurekit.charts.area import MAX_GROUPS, areas, strip_scales, strips, strips_px
from exposurekit.charts.argument_checks import check_input
from exposurekit.charts.bars import leaders, rest_label, row_labels
from exposurekit.charts.theme import Chart, chart, count_ticks, empty_chart, short
from exposurekit.charts.time_gaps import ObservedSpans, observed_spans
from exposurekit.contract.types import REMOVED
from exposurekit.text.formatting import pluralize

_OTHER_COLUMNS = ("period", "at", "site", "user_id", OPEN, "total", "people", "unseen", VANISHED, UNKNOWN)
_REQUIRED = ("period", "at", OPEN, "total", VANISHED, UNKNOWN)
_CHARACTER_PX = 8
_DAY_MS = 86_400_000
# Between them Plotly would draw a tick every 12 hours, with labels too wide for a phone.
_HOURS_FROM, _HOURS_UNTIL = pd.Timedelta(days=1), pd.Timedelta(days=5)
AGO_DAYS = 28  # the title compares with so long before: whole weeks, as services that scan once a week find on one weekday
_GROUPS = {"site": ("site", "sites"), "user_id": ("person", "people")}


def status_over_time(table: pd.DataFrame, *, provenance: str = "") -> Chart:
    """Draw status counts over time as stacked areas; with groups, draw their open items in one row per group.

    All rows have the same scale, except that of the remaining groups. Eight groups have a row of their own: those with the most open items at the end, then those whose number of open
    items changed most. Groups without open items in the whole period are left out. Gaps without observations are hatched in grey. Markers show periods whose last run was incomplete.

    Args:
        table: A table as returned by `analysis.status_over_time` or `History.status_over_time`, with any ``by``.
        provenance: As in `by_site`.

    Raises:
        MissingColumns: ``table`` lacks a column.

    >>> figure = charts.status_over_time(history.status_over_time(), provenance=exposure.provenance)
    >>> figure.data[0].name
    'discovered'
    """
    check_input("status_over_time", table, _REQUIRED)
    if table.empty:
        return empty_chart("No runs yet", provenance=provenance)
    by = next((name for name in _GROUPS if name in table), None)
    return _by_status(table, provenance) if by is None else _by_group(table, by, provenance)


def _by_status(table: pd.DataFrame, provenance: str) -> Chart:
    rows = since_observed(table.sort_values("period", ignore_index=True))
    spans, statuses = observed_spans(rows["period"]), _statuses(rows)
    figure = chart(
        areas(rows, statuses, spans),
        finding=_finding(rows),
        summary=_summary(rows, statuses, spans),
        provenance=provenance,
        hovermode="x unified",
    )
    figure = _with_time_axis(figure, "listings" if REMOVED in rows else "items", rows["total"].max())
    span = rows["period"].iloc[-1] - rows["period"].iloc[0]
    return figure.update_xaxes(dtick=_DAY_MS) if _HOURS_FROM <= span < _HOURS_UNTIL else figure


def _statuses(table: pd.DataFrame) -> list[str]:
    """The statuses to stack: those that the service lists, then vanished and unknown if there are any."""
    listed = [
        str(name) for name in table if name not in _OTHER_COLUMNS and (name != OTHER or table[name].any())
    ]
    return [*listed, *(name for name in (VANISHED, UNKNOWN) if table[name].any())]


def _with_time_axis(figure: Chart, counted: str, most: float) -> Chart:
    figure.update_yaxes(title_text=counted, rangemode="tozero", **count_ticks(most))
    figure.update_xaxes(type="date", title_text="UTC", hoverformat="%Y-%m-%d %H:%M")
    return figure


def _finding(rows: pd.DataFrame) -> str:
    open_, listings = rows[OPEN], rows[["total", VANISHED, UNKNOWN]].sum(axis=1)
    if not listings.any():
        return "Nothing listed so far"
    now, most = int(open_.iloc[-1]), int(open_.max())
    is_records = REMOVED in rows
    current = (
        f"{now:,} of {pluralize(int(listings.iloc[-1]), 'listing is', 'listings are')} open"
        if is_records
        else f"{now:,} listed"
    )
    current += _since_then(rows) if is_records else ""
    if most == now:
        return f"{current}, the highest number so far" if (open_ < now).any() else current
    peak = int(open_.argmax())
    day = _day(rows["period"].iloc[peak])
    if is_records and not peak:
        return f"{current}; down from {most:,} when monitoring began on {day}"
    return f"{current}; peak of {most:,} on {day}"


def _since_then(rows: pd.DataFrame) -> str:
    """How many more are open than a month before; empty if nobody was observed yet."""
    before = rows[rows["period"] <= rows["period"].iloc[-1] - pd.Timedelta(days=AGO_DAYS)]
    if before.empty or ("people" in before and not before["people"].iloc[-1]):
        return ""
    more = int(rows[OPEN].iloc[-1]) - int(before[OPEN].iloc[-1])
    how = f"{abs(more):,} {'more' if more > 0 else 'fewer'} than" if more else "as many as"
    return f", {how} {AGO_DAYS} days before"


def _summary(rows: pd.DataFrame, statuses: list[str], spans: ObservedSpans) -> str:
    counts = ", ".join(f"{int(rows[name].iloc[-1]):,} {short(name)}" for name in statuses)
    return f"{_observation(spans)}{_completeness(rows)}. At the end: {counts}."


def _observation(spans: ObservedSpans) -> str:
    missing, kind = spans.count_unobserved(), spans.kind
    one, many = (
        ("long gap", "long gaps") if kind == "run" else (f"{kind} without a run", f"{kind}s without a run")
    )
    observed = (
        f"{pluralize(len(spans.starts), kind)} from {_day(spans.starts[0])} to {_day(spans.starts[-1])}"
    )
    return f"{observed}; {pluralize(missing, one, many)}" if missing else f"{observed}, without gaps"


def _completeness(rows: pd.DataFrame) -> str:
    if "unseen" not in rows or "people" not in rows or pd.isna(rows["unseen"].iloc[-1]):
        return ""
    unseen, people = int(rows["unseen"].iloc[-1]), int(rows["people"].iloc[-1])
    n = int((rows["unseen"].fillna(0) > 0).sum())
    if not people:  # of the one person whom the table is about, and who is no longer registered
        return ""
    last = f"; the last run loaded {people - unseen:,} of {pluralize(people, 'person', 'people')} completely"
    return f"{last}; {pluralize(n, 'incomplete run')}" if n else last


def _day(at: Any) -> str:
    return str(np.datetime_as_string(pd.Timestamp(at).to_datetime64(), unit="D"))


def _by_group(table: pd.DataFrame, by: str, provenance: str) -> Chart:
    rows = table if table["period"].is_monotonic_increasing else table.sort_values("period", kind="stable")
    period, periods = pd.factorize(rows["period"])
    groups = _groups(rows, by, len(periods))
    drawn = groups.head(MAX_GROUPS)
    counts = _counts(rows, by, period, drawn[by].tolist())
    spans = observed_spans(pd.Series(periods))
    names, newest = row_labels(drawn, by), drawn[OPEN].tolist()
    if len(groups) > MAX_GROUPS:
        total = np.bincount(period, weights=rows[OPEN].to_numpy("float64"), minlength=len(periods))
        counts = np.column_stack([counts, total - np.nansum(counts, axis=1)])
        names.append(rest_label(len(groups) - MAX_GROUPS, _GROUPS[by][1]))
        newest.append(groups[OPEN].sum() - sum(newest))
    at_the_end = "; ".join(f"{name} {n:,}" for name, n in zip(names, newest, strict=True))
    n_groups = pluralize(len(groups), *_GROUPS[by])
    traces, layout = strips(counts, names, newest, spans)
    figure = chart(
        traces,
        finding=_group_finding(groups, by),
        summary=f"{n_groups}. {_observation(spans)} Open at the end: {at_the_end}.",
        provenance=provenance,
        height=strips_px(len(names)),
        hovermode="x unified",
        hoversubplots="axis",
        **layout,
    )
    scales = [int(scale) for scale in strip_scales(counts)]
    last = f", the last to {scales[-1]:,}" if scales[-1] > scales[0] else ""
    counted = "Open listings" if REMOVED in rows else "Items"
    figure.update_layout(margin_r=28 + _CHARACTER_PX * len(f"{max(newest):,}"))
    figure.update_xaxes(
        type="date",
        title_text=f"{counted}, each row from 0 to {scales[0]:,}{last}; UTC",
        hoverformat="%Y-%m-%d %H:%M",
    )
    return figure


def _groups(rows: pd.DataFrame, by: str, periods: int) -> pd.DataFrame:
    """The groups that had open items, and how many they have at the end; first those with most, then with most change.

    A group that was observed later than the first period counts from 0.
    """
    groups = rows.groupby(by, observed=True)[OPEN].agg(["max", "min", "size", "last"])
    if groups["max"].any():
        groups = groups[groups["max"] > 0]
    change = groups["max"] - groups["min"].where(groups["size"] == periods, 0)
    groups = groups.assign(change=change).rename(columns={"last": OPEN})
    ranked = groups.sort_values([OPEN, "change"], ascending=False, kind="stable")
    return ranked[[OPEN]].reset_index()


def _group_finding(groups: pd.DataFrame, by: str) -> str:
    now = int(groups[OPEN].sum())
    most = leaders(row_labels(groups, by), groups[OPEN].tolist(), _GROUPS[by][1], OPEN)
    return f"{pluralize(now, 'is', 'are')} open; {most}" if now else "Nothing is open"


def _counts(rows: pd.DataFrame, by: str, period: Any, names: list[Any]) -> NDArray[np.float64]:
    """Open items of some groups (columns) per period (rows); NaN before a group's first observation."""
    selected = rows[by].isin(names).to_numpy("bool")
    group = pd.Index(names).get_indexer(pd.Index(rows.loc[selected, by]))
    counts = np.full((int(period.max()) + 1, len(names)), np.nan)
    counts[period[selected], group] = rows.loc[selected, OPEN].to_numpy("float64")
    return counts
