"""Survival curves as step lines with confidence bands, one colour and dash per group."""

from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from exposurekit.charts.argument_checks import check_input
from exposurekit.charts.bars import Omitted, group_column, join_rows, names_or_count, row_labels
from exposurekit.charts.theme import (
    DASHES,
    HOVER,
    SERIES,
    Chart,
    chart,
    empty_chart,
    filled,
    format_interval,
    interval_label,
    label_text,
)
from exposurekit.contract.types import REMOVED
from exposurekit.text.formatting import percent, pluralize

MAX_GROUPS = 6
_CURVE = ("days", "at_risk", "censored", "survival", "low", "high")
_RISK_PX, _RISK_NAME = 18, 28
_TICK_DAYS, _TICKS_MAX = (1, 2, 5, 7, 10, 14, 20, 30, 60, 90, 180, 365), 7


def survival(table: pd.DataFrame, *, provenance: str = "") -> Chart:
    """Draw survival curves with confidence bands, for at most the six largest groups.

    Args:
        table: A table as returned by `analysis.survival` or `History.survival`, with any ``by``.
        provenance: As in `by_site`.

    Raises:
        MissingColumns: ``table`` lacks a column.

    >>> charts.survival(history.survival(left_censored=True)).layout.yaxis.title.text
    'share not removed'
    """
    check_input("survival", table, _CURVE)
    if table.empty:
        return empty_chart("No listings observed yet", provenance=provenance)
    return _curves(table, group_column(table, (*_CURVE, REMOVED)), provenance)


def _curves(table: pd.DataFrame, by: str | None, provenance: str) -> Chart:
    """Draw the chart of `charts.survival` for a non-empty table."""
    names, groups, n = _largest(table, by)
    label = interval_label(table)
    texts = [f"{name}: {_curve_text(rows, label)}" for name, rows in zip(names, groups, strict=True)]
    figure = chart(
        _traces([label_text(name) for name in names], groups, label),
        finding=_finding(names, groups),
        summary=join_rows(texts) + Omitted(n - MAX_GROUPS, "group", "groups").note(MAX_GROUPS),
        provenance=provenance,
    )
    ticks = age_ticks(max(int(rows["days"].iloc[-1]) for rows in groups))
    figure.add_trace(_at_risk(groups, ticks))
    figure.update_xaxes(
        title_text="days from first observation", rangemode="tozero", showgrid=False, tickvals=ticks
    )
    risk_px = _RISK_PX * (len(groups) + 1)
    plot_px = figure.layout.height - figure.layout.margin.t - figure.layout.margin.b
    figure.update_layout(
        height=figure.layout.height + risk_px,
        xaxis={"anchor": "y2"},  # below the numbers, which no other height of the plot moves onto it
        yaxis={
            "title": {"text": "share not removed"},
            "range": [0, 1.03],
            "tickformat": ".0%",
            "domain": [risk_px / (plot_px + risk_px), 1],
        },
        yaxis2=_risk_axis(names, top=(risk_px - _RISK_PX / 2) / (plot_px + risk_px)),
    )
    return figure


def age_ticks(days: int, most: int = _TICKS_MAX) -> list[int]:
    """At most so many ages from 0 on, at even distances."""
    distance = next((step for step in _TICK_DAYS if days / step < most), -(-days // (most - 1)))
    return [*range(0, days + 1, distance)]


def listed_times(n: int) -> str:
    """How often listings of a group were listed: one that was listed again counts again."""
    return f"listed {pluralize(n, 'time')}"


def _at_risk(groups: list[pd.DataFrame], ticks: list[int]) -> go.Scatter:
    """How many listings are still followed at each tick, below the curves: one row per group."""
    n = [[_followed(rows, day) for day in ticks] for rows in groups]
    return go.Scatter(
        x=ticks * len(groups),
        y=[row for row in range(len(groups)) for _ in ticks],
        yaxis="y2",
        mode="text",
        text=[f"{count:,}" for row in n for count in row],
        textfont={"size": 11},
        cliponaxis=False,
        hoverinfo="skip",
        showlegend=False,
    )


def _followed(rows: pd.DataFrame, day: int) -> int:
    """The number at risk at an age: that of the next age at which anything happened."""
    later = rows.loc[rows["days"] >= day, "at_risk"]
    return int(later.iloc[0]) if len(later) else 0


def _risk_axis(names: list[str], top: float) -> dict[str, Any]:
    labels = (
        ["still followed"] if len(names) == 1 else [label_text(name, max_length=_RISK_NAME) for name in names]
    )
    return {
        "domain": [0, top],
        "range": [len(names) - 0.5, -1],
        "tickvals": [*range(len(names))],
        "ticktext": labels,
        "ticklabelstandoff": 18,  # half of the number at age 0
        "showgrid": False,
        "fixedrange": True,
        "title": None,
    }


def _largest(table: pd.DataFrame, by: str | None) -> tuple[list[str], list[pd.DataFrame], int]:
    """The groups with most episodes at risk: their names, their rows by age, and the number of all groups."""
    if by is None:
        return row_labels(table.head(1), None), [table.sort_values("days")], 1
    codes, values = pd.factorize(table[by], use_na_sentinel=False)
    sizes = table["at_risk"].groupby(codes).max().sort_values(ascending=False, kind="stable")
    largest = sizes.head(MAX_GROUPS).index
    names = row_labels(pd.DataFrame({by: values[largest]}), by)
    return names, [table[codes == code].sort_values("days") for code in largest], len(values)


def _curve_text(rows: pd.DataFrame, label: str) -> str:
    last = rows.iloc[-1]
    band = format_interval(last["low"], last["high"], percent, label)
    below = rows.loc[rows["survival"] <= 0.5 + 1e-12, "days"]
    median = f"median {pluralize(int(below.iloc[0]), 'day')}" if len(below) else "median not reached"
    n = int(rows["at_risk"].max())
    return f"{median}, {percent(last['survival'])}{band} not removed by day {int(last['days']):,}, n = {n:,}"


def _finding(names: list[str], groups: list[pd.DataFrame]) -> str:
    shares = [float(rows["survival"].iloc[-1]) for rows in groups]
    if len(groups) == 1:
        n, days = int(groups[0]["at_risk"].max()), int(groups[0]["days"].iloc[-1])
        return f"{percent(shares[0])} of listings are not removed by day {days:,} (n = {n:,})"
    least, most = min(shares), max(shares)
    if least == most:
        return f"Share not removed at the end: {percent(least)} in every group"
    low, high = (
        names_or_count([name for name, share in zip(names, shares, strict=True) if share == end], "groups")
        for end in (least, most)
    )
    return f"Share not removed at the end: {percent(least)} ({low}) to {percent(most)} ({high})"


def _traces(names: list[str], groups: list[pd.DataFrame], label: str) -> list[go.Scatter]:
    bands = [_band(rows, number) for number, rows in enumerate(groups)]
    lines = [
        _line(name, rows, number, label)
        for number, (name, rows) in enumerate(zip(names, groups, strict=True))
    ]
    return [*bands, *lines, *(_censored(rows, number) for number, rows in enumerate(groups))]


def _line(name: str, rows: pd.DataFrame, number: int, label: str) -> go.Scatter:
    starts_later = rows["days"].iloc[0] > 0
    days = [*([0] if starts_later else []), *rows["days"].tolist()]
    share = [*([1.0] if starts_later else []), *rows["survival"].tolist()]
    texts = [*(["day 0: 100%"] if starts_later else []), *_hover_texts(rows, label)]
    return go.Scatter(
        name=name,
        legendgroup=str(number),
        x=days,
        y=share,
        customdata=[f"{name}<br>{text}" for text in texts],
        mode="lines",
        line={"color": SERIES[number], "dash": DASHES[number], "shape": "hv", "width": 2},
        hovertemplate=HOVER,
    )


def _hover_texts(rows: pd.DataFrame, label: str) -> list[str]:
    steps = zip(rows["days"], rows["survival"], rows["low"], rows["high"], rows["at_risk"], strict=True)
    return [
        f"day {day:,}: {percent(share)}{format_interval(low, high, percent, label)}, {at_risk:,} at risk"
        for day, share, low, high, at_risk in steps
    ]


def _band(rows: pd.DataFrame, number: int) -> go.Scatter:
    """The confidence band; each value holds until the next age."""
    days = rows["days"].to_numpy("int64")
    until = np.append(days[1:], days[-1:])
    low, high = rows["low"].to_numpy("float64"), rows["high"].to_numpy("float64")
    has_band = ~np.isnan(low) & ~np.isnan(high)
    x: list[Any] = []
    y: list[Any] = []
    for row in np.flatnonzero(has_band).tolist():
        # One box per step, so that a step without a band leaves a hole.
        x += [int(days[row]), int(until[row]), int(until[row]), int(days[row]), None]
        y += [float(low[row]), float(low[row]), float(high[row]), float(high[row]), None]
    colour = SERIES[number]
    red, green, blue = (int(colour[start : start + 2], 16) for start in (1, 3, 5))
    return filled(x, y, f"rgba({red},{green},{blue},0.15)", legendgroup=str(number), showlegend=False)


def _censored(rows: pd.DataFrame, number: int) -> go.Scatter:
    censored = rows[rows["censored"] > 0]
    return go.Scatter(
        legendgroup=str(number),
        showlegend=False,
        x=censored["days"].tolist(),
        y=censored["survival"].tolist(),
        mode="markers",
        marker={"symbol": "line-ns", "size": 8, "line": {"color": SERIES[number], "width": 1}},
        hoverinfo="skip",
    )
