"""Median times to removal and shares not removed, one row per group, with intervals."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from exposurekit import analysis
from exposurekit.analysis import UNKNOWN, VANISHED
from exposurekit.analysis.survival import UNREQUESTED, is_unrequested
from exposurekit.charts.argument_checks import check_input
from exposurekit.charts.bars import (
    MAX_ROWS,
    Omitted,
    annotations,
    group_column,
    join_rows,
    points,
    row_chart,
    row_labels,
    whiskers,
)
from exposurekit.charts.survival import age_ticks, listed_times
from exposurekit.charts.theme import (
    BLUE,
    GREY,
    Chart,
    count_axis,
    empty_chart,
    format_interval,
    interval_label,
    label_text,
)
from exposurekit.contract.types import REMOVED
from exposurekit.text.formatting import NO_VALUE, percent, pluralize

_SHARE = "estimated share still listed"
_OWN_DAYS = "Each share still listed is as of the longest time observed in its row; these times differ."
_CUT_AT = 2  # times the longest median: an interval beyond it ends in an arrow, and its text says where
_ARROW_AT = 1.06  # times the last day, where nobody reads it as that day
_FAR = 0.1  # of the axis: a text so far behind its dot is not read as the number of another day, since it says what it is
_TICKS_MAX = 4  # they stand side by side on a phone, too
_ESTIMATES = ("median_days", "median_low", "median_high", "never", "never_low", "never_high")
_TIMES = ("n", "left_out", "median_days", "median_low", "median_high")
_NEVER = ("never", "never_low", "never_high", "followed_days")
_EXITS = (REMOVED, "first_removed", VANISHED, UNKNOWN, "open")
_GROUPS = {"site": ("site", "sites"), "user_id": ("person", "people")}


def time_to_removal(table: pd.DataFrame, *, provenance: str = "") -> Chart:
    """Draw the median time to removal and the share not removed, per group, with intervals.

    Beside each median stands its number; without one, the reason does. An interval that is longer than the axis ends in an
    arrow. Sites without a request come last, and have no estimate: beside them stands how many listings are open.

    Args:
        table: A table as returned by `analysis.time_to_removal` or `History.time_to_removal`, with any ``by``.
        provenance: As in `by_site`.

    Raises:
        MissingColumns: ``table`` lacks a column.

    >>> charts.time_to_removal(history.time_to_removal())
    Chart('Median time to removal: ...')
    """
    check_input("time_to_removal", table, (*_TIMES, *_NEVER))
    if table.empty:
        return empty_chart("No listings observed yet", provenance=provenance)
    return _medians(table, group_column(table, (*_TIMES, "requested", *_NEVER, *_EXITS)), provenance)


def _medians(table: pd.DataFrame, by: str | None, provenance: str) -> Chart:
    """Draw the chart of `charts.time_to_removal` for a non-empty table."""
    table = without_estimates(table)
    drawn = table.head(MAX_ROWS).sort_values(
        ["unrequested", "median_days"], kind="stable", na_position="last"
    )
    names = [label_text(name) for name in row_labels(drawn, by)]
    group, groups = _GROUPS.get(by or "", ("group", "groups"))
    most = longest_days(drawn)
    shares = {"range": [-0.02, 1.45], "tickvals": [0, 1], "tickformat": ".0%"}
    return row_chart(
        [*median_traces(drawn, names, most), *_shares(drawn, names)],
        [f"{name} ({listed_times(n)})" for name, n in zip(names, drawn["n"], strict=True)],
        median_axis("days from first observation", most),
        right=shares | {"title": {"text": _SHARE}},
        finding=_finding(table, groups),
        summary=_summary(drawn, by),
        rest=Omitted(len(table) - MAX_ROWS, group, groups),
        provenance=provenance,
    )


def without_estimates(table: pd.DataFrame) -> pd.DataFrame:
    """The table with a column ``unrequested``: whether a group has no request, and then no estimate either."""
    unrequested = is_unrequested(table)
    estimates = {name: table[name].mask(unrequested) for name in _ESTIMATES}
    return table.assign(unrequested=unrequested, **estimates)


def median_axis(title: str, most: float) -> dict[str, Any]:
    """The axis of medians, with some room for the texts behind them."""
    return count_axis(title, most, room=1.2) | {"tickvals": age_ticks(int(most), _TICKS_MAX)}


def longest_days(table: pd.DataFrame) -> float:
    """The last day of the axis; one long interval must not squeeze the medians."""
    middle = table["median_days"].max()
    most = table[["median_days", "median_high", "followed_days"]].max().max()
    return 0 if pd.isna(most) else float(most if pd.isna(middle) else min(most, _CUT_AT * middle))


def median_traces(
    table: pd.DataFrame, names: list[str], most: float, marks: Sequence[float] = ()
) -> list[go.Scatter]:
    """The medians with their intervals and numbers; an arrow where an interval has no upper limit, or goes beyond the axis.

    Args:
        table: The rows.
        names: Their labels, already escaped.
        most: The last day of the axis.
        marks: Where each row has another mark, which its number must not cover; empty: nowhere.
    """
    median, low, high = (
        table[name].astype("Float64").to_numpy("float64", na_value=np.nan).tolist()
        for name in ("median_days", "median_low", "median_high")
    )
    rows, label = table.to_dict("records"), interval_label(table)
    arrow = _ARROW_AT * most
    arrows = [
        arrow if pd.notna(middle) and not limit <= most else None
        for middle, limit in zip(median, high, strict=True)
    ]
    ends = [limit if end is None else end for limit, end in zip(high, arrows, strict=True)]
    hover = [f"{name}<br>{median_text(row, label)}" for name, row in zip(names, rows, strict=True)]
    starts = [limit if pd.notna(limit) else middle for limit, middle in zip(low, median, strict=True)]
    has_median = [pd.notna(middle) for middle in median]
    behind = [
        max(end if has else 0, mark)
        for end, has, mark in zip(ends, has_median, marks or [0] * len(ends), strict=True)
    ]
    return [
        whiskers(
            [low if has else None for low, has in zip(starts, has_median, strict=True)], ends, name=label
        ),
        points(arrows, hover, symbol="triangle-right", colour=GREY, name="interval continues"),
        points(median, hover, symbol="circle", colour=BLUE, name="median"),
        annotations(
            [_beside(row, limit, at, most) for row, limit, at in zip(rows, high, behind, strict=True)],
            behind,
        ),
    ]


def _beside(row: dict[Any, Any], high: float, at: float, most: float) -> str:
    """What stands beside a row: the median, with the end of its interval if that is not drawn; or why there is none."""
    if pd.isna(row["median_days"]):
        return _no_median_reason(row).replace("not reached in", "not within")
    return f"{median_beside(row['median_days'], at, most)}{f' (to {high:,g})' if high > most else ''}"


def median_beside(days: float, at: float, most: float) -> str:
    """The median as the text of a row; far behind the dot, it says that it is the median, not the day where it stands."""
    return f"{'median ' if at - days > _FAR * most else ''}{format_days(days)}"


def _no_median_reason(row: dict[Any, Any]) -> str:
    """Why a row has no median; empty if it has one."""
    if row.get("unrequested"):
        return UNREQUESTED
    if pd.notna(row["median_days"]):
        return ""
    if not row["n"]:
        return "no data" + (f", {row['left_out']:,} left-censored" if row["left_out"] else "")
    if pd.isna(row["never"]):
        return f"fewer than {analysis.MIN_N} listings"
    return f"not reached in {pluralize(int(row['followed_days']), 'day')}"


def median_text(row: dict[Any, Any], label: str) -> str:
    """The median with its interval, or why there is none."""
    if pd.isna(row["median_days"]):
        reason = _no_median_reason(row)
        return f"median {reason}" if pd.notna(row["never"]) else reason
    band = format_interval(row["median_low"], row["median_high"], "{:,g}".format, label)
    return f"median {format_days(row['median_days'])}{band}"


def _shares(table: pd.DataFrame, names: list[str]) -> list[go.Scatter]:
    rows, label = table.to_dict("records"), interval_label(table)
    hover = [f"{name}<br>{_share_text(row, label)}" for name, row in zip(names, rows, strict=True)]
    axes = {"xaxis": "x2", "yaxis": "y"}
    never, low, high = (table[name].tolist() for name in ("never", "never_low", "never_high"))
    shares = [
        f"{row['open']:,} of {row['n']:,} open"
        if row["unrequested"] and "open" in row
        else percent(row["never"])
        for row in rows
    ]
    return [
        whiskers(low, high, **axes),
        points(never, hover, symbol="diamond", colour=BLUE, name=_SHARE, **axes),
        annotations(shares, [0 if row["unrequested"] else 1.05 for row in rows], **axes),
    ]


def _share_text(row: dict[Any, Any], label: str) -> str:
    if pd.isna(row["never"]):
        return f"{_SHARE}: {NO_VALUE}"
    band = format_interval(row["never_low"], row["never_high"], percent, label)
    return f"{percent(row['never'])}{band} estimated to be still listed after {pluralize(int(row['followed_days']), 'day')}"


def format_days(days: float) -> str:
    """``1 day``, ``4.2 days``."""
    return f"{days:,g} {'day' if days == 1 else 'days'}"


def own_days(table: pd.DataFrame) -> str:
    """That shares are after different numbers of days, as a sentence; empty if they are not."""
    return _OWN_DAYS if len({*table.loc[table["never"].notna(), "followed_days"]}) > 1 else ""


def _finding(table: pd.DataFrame, groups: str) -> str:
    n, enough = int(table["n"].sum()), table[table["never"].notna()]
    if not n:
        return "Median time to removal: no listing was observed from its start"
    if enough.empty:
        reason = UNREQUESTED if table["unrequested"].any() else "too few listings"
        return f"Median time to removal: {reason} (n = {n:,})"
    medians = enough["median_days"].dropna()
    if medians.empty:
        where = f" on any of {len(table):,} {groups}" if len(table) > 1 else ""
        return f"Median time to removal: not reached{where} (n = {n:,})"
    least, most = float(medians.min()), float(medians.max())
    days = f"{least:,g} to {format_days(most)}" if most > least else format_days(most)
    if len(table) == 1:
        row = table.to_dict("records")[0]
        band = format_interval(row["median_low"], row["median_high"], "{:,g}".format, interval_label(table))
        return f"Median time to removal: {days}{band.removesuffix(')')}; n = {n:,})"
    rest, unasked = len(enough) - len(medians), int(table["unrequested"].sum())
    not_reached = f"; not reached on {rest:,}" if rest else ""
    not_reached += f"; {UNREQUESTED} on {unasked:,}" if unasked else ""
    of_groups = f"on {len(medians):,} of {len(table):,} {groups}{not_reached}"
    return f"Median time to removal: {days} {of_groups} (n = {n:,})"


def _summary(table: pd.DataFrame, by: str | None) -> str:
    rows, label = zip(row_labels(table, by), table.to_dict("records"), strict=True), interval_label(table)
    texts = [
        f"{name}: {median_text(row, label)}, {_share_text(row, label)}, n = {row['n']:,}"
        for name, row in rows
    ]
    n = int(table["left_out"].sum())
    excluded = (
        f" {pluralize(n, 'listing')} already present at the first load excluded (left-censored)." if n else ""
    )
    return f"{f'{join_rows(texts)} {own_days(table)}'.strip()}{excluded}"
