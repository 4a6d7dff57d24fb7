"""Survival curves in steps, with their bands, told apart by colour and dash. Draws no band where there is none."""

from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from exposurekit.charts.bars import join_rows, omitted_note, row_labels, tied
from exposurekit.charts.theme import DASHES, SERIES, Chart, chart, interval, label_text, percent

GROUPS = 6


def curves(table: pd.DataFrame, by: str | None, provenance: str) -> Chart:
    """The figure of `charts.survival`, of a table with a row or more."""
    names, groups, n = _largest(table, by)
    said = [f"{name}: {_end(rows)}" for name, rows in zip(names, groups, strict=True)]
    figure = chart(
        _traces([label_text(name) for name in names], groups),
        finding=_falls(names, groups),
        summary=join_rows(said) + omitted_note(n - GROUPS, "group", "groups"),
        provenance=provenance,
    )
    figure.update_xaxes(title_text="age in days", rangemode="tozero", showgrid=False)
    figure.update_yaxes(title_text="share not removed", range=[0, 1.03], tickformat=".0%")
    return figure


def _largest(table: pd.DataFrame, by: str | None) -> tuple[list[str], list[pd.DataFrame], int]:
    """The curves that tell of most, each by itself and by age: what they are called, their rows; and how many there are."""
    if by is None:
        return row_labels(table.head(1), None), [table.sort_values("days")], 1
    place, values = pd.factorize(table[by], use_na_sentinel=False)
    most = (
        table["at_risk"].groupby(place).max().sort_values(ascending=False, kind="stable").head(GROUPS).index
    )
    names = row_labels(pd.DataFrame({by: values[most]}), by)
    return names, [table[place == one].sort_values("days") for one in most], len(values)


def _end(rows: pd.DataFrame) -> str:
    """Where a curve ends, and of how many it tells."""
    last = rows.iloc[-1]
    band = interval(last["low"], last["high"], percent)
    half = rows.loc[rows["survival"] <= 0.5 + 1e-12, "days"]
    when = f"half by day {int(half.iloc[0]):,}" if len(half) else "half not reached"
    n = int(rows["at_risk"].max())
    return f"{when}, {percent(last['survival'])}{band} not removed by day {int(last['days']):,}, n {n:,}"


def _falls(names: list[str], groups: list[pd.DataFrame]) -> str:
    left = [float(rows["survival"].iloc[-1]) for rows in groups]
    if len(groups) == 1:
        return (
            f"{percent(left[0])} of the listings are not removed by day {int(groups[0]['days'].iloc[-1]):,}"
        )
    least, most = int(np.argmin(left)), int(np.argmax(left))
    if left[least] == left[most]:
        return f"Where the curves end {percent(left[0])} are not removed, whatever the group"
    low, high = (
        tied([name for name, one in zip(names, left, strict=True) if one == left[end]], "groups")
        for end in (least, most)
    )
    return f"Not removed where the curves end: from {percent(left[least])} ({low}) to {percent(left[most])} ({high})"


def _traces(names: list[str], groups: list[pd.DataFrame]) -> list[go.Scatter]:
    """The curves, each with its band, and a small mark at ages up to which some were only watched."""
    bands = [_band(rows, SERIES[place], place) for place, rows in enumerate(groups)]
    lines = [_line(name, rows, place) for place, (name, rows) in enumerate(zip(names, groups, strict=True))]
    ends = [_censored(rows, SERIES[place], place) for place, rows in enumerate(groups)]
    return [*bands, *lines, *ends]


def _line(name: str, rows: pd.DataFrame, place: int) -> go.Scatter:
    begins = rows["days"].iloc[0] > 0
    days = [*([0] if begins else []), *rows["days"].tolist()]
    share = [*([1.0] if begins else []), *rows["survival"].tolist()]
    said = [f"{name}<br>{told}" for told in [*(["100% at first"] if begins else []), *_curve_note(rows)]]
    return go.Scatter(
        name=name,
        legendgroup=str(place),
        x=days,
        y=share,
        customdata=said,
        mode="lines",
        line={"color": SERIES[place], "dash": DASHES[place], "shape": "hv", "width": 2},
        hovertemplate="%{customdata}<extra></extra>",
    )


def _curve_note(rows: pd.DataFrame) -> list[str]:
    """Each step in words."""
    steps = zip(rows["days"], rows["survival"], rows["low"], rows["high"], rows["at_risk"], strict=True)
    return [
        f"day {day:,}: {percent(share)}{interval(low, high, percent)}, {at_risk:,} watched"
        for day, share, low, high, at_risk in steps
    ]


def _band(rows: pd.DataFrame, colour: str, place: int) -> go.Scatter:
    """Around each stretch of ages that have a band; each holds until the next age."""
    days = rows["days"].to_numpy("int64")
    until = np.append(days[1:], days[-1:])
    low, high = rows["low"].to_numpy("float64"), rows["high"].to_numpy("float64")
    known = ~np.isnan(low) & ~np.isnan(high)
    x: list[Any] = []
    y: list[Any] = []
    for row in np.flatnonzero(known).tolist():
        # A box a step: a step without a band leaves a hole, and no other shape could.
        x += [int(days[row]), int(until[row]), int(until[row]), int(days[row]), None]
        y += [float(low[row]), float(low[row]), float(high[row]), float(high[row]), None]
    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return go.Scatter(
        legendgroup=str(place),
        showlegend=False,
        x=x,
        y=y,
        mode="lines",
        line={"width": 0},
        fill="toself",
        fillcolor=f"rgba({red},{green},{blue},0.15)",
        hoverinfo="skip",
    )


def _censored(rows: pd.DataFrame, colour: str, place: int) -> go.Scatter:
    some = rows[rows["censored"] > 0]
    return go.Scatter(
        legendgroup=str(place),
        showlegend=False,
        x=some["days"].tolist(),
        y=some["survival"].tolist(),
        mode="markers",
        marker={"symbol": "line-ns", "size": 8, "line": {"color": colour, "width": 1}},
        hoverinfo="skip",
    )
