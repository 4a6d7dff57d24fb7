"""Forecast chart: expected open listings per horizon with an interval, or the reason for no forecast."""

from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from exposurekit.charts.theme import (
    BLUE,
    GREY,
    HOVER,
    PALE,
    SKY,
    VERMILION,
    Chart,
    bar_marker,
    chart,
    count_axis,
    filled,
    format_interval,
    interval_label,
)
from exposurekit.text.formatting import pluralize

# Column, legend entry and style of each part of the expected number.
PARTS = (
    ("of_open", "open now, still open", BLUE, ""),
    ("of_gone", "gone now, relisted", SKY, "\\"),
    ("of_new", "new", VERMILION, "/"),
)
_BEYOND = "older than any observed"  # their curves are extrapolated
_MAX_TICKS, _MAX_LONG_TICKS = 12, 4


def horizons(table: pd.DataFrame, provenance: str) -> Chart:
    """Draw the chart of `charts.forecast` for a non-empty table, sorted by days."""
    label = interval_label(table)
    now, days = int(table["open_now"].iloc[0]), table["days"].tolist()
    # Bars too close for a linear axis are spaced evenly.
    distance = float(np.diff([0, *days]).min())
    is_linear = distance >= days[-1] / _MAX_TICKS
    rows = table.assign(x=days if is_linear else range(1, len(days) + 1))
    width = 0.5 * (distance if is_linear else 1)
    figure = chart(
        [*(_part(rows, part, now, width) for part in PARTS), *_band(rows, now, label), *_no_forecast(rows)],
        finding=_finding(table, now, label),
        summary=_summary(table, now, label),
        provenance=provenance,
        barmode="stack",
    )
    most = table[["open_now", "of_open", "open", "high"]].max().max()
    figure.update_layout(yaxis=count_axis("open listings", float(most)))
    labelled = rows.iloc[:: -(len(rows) // _MAX_TICKS + 1)]
    is_long = len(rows) <= _MAX_LONG_TICKS
    ticks = ["now", *(_tick(row, is_long=is_long) for row in labelled.to_dict("records"))]
    figure.update_xaxes(showgrid=False, tickvals=[0, *labelled["x"]], ticktext=ticks)
    return figure


def _part(rows: pd.DataFrame, part: tuple[str, str, str, str], now: int, width: float) -> go.Bar:
    column, name, colour, shape = part
    forecasts = rows[rows[column].notna()]
    first = [now] if column == "of_open" else [0]
    n = [*first, *forecasts[column].tolist()]
    return go.Bar(
        name=name,
        x=[0, *forecasts["x"].tolist()],
        y=n,
        width=width,
        customdata=[f"{count:,.0f} {name}" for count in n],
        hovertemplate=HOVER,
        marker=bar_marker(colour, shape),
    )


def _band(rows: pd.DataFrame, now: int, label: str) -> list[go.Scatter]:
    forecasts = rows[rows[["open", "low", "high"]].notna().all(axis=1)]
    if forecasts.empty:
        return []
    x = [0, *forecasts["x"].tolist()]
    low, high, expected = ([now, *forecasts[name].tolist()] for name in ("low", "high", "open"))
    band = filled([*x, *x[::-1]], [*low, *high[::-1]], PALE, name=label)
    hover = [
        f"{n:,.0f} open{format_interval(start, end, '{:,.0f}'.format, label)}"
        for n, start, end in zip(expected, low, high, strict=True)
    ]
    return [band, _expected_line(x, expected, (low, high), hover)]


def _expected_line(
    x: list[float], expected: list[float], band: tuple[list[float], list[float]], hover: list[str]
) -> go.Scatter:
    low, high = band
    return go.Scatter(
        name="expected total",
        x=x,
        y=expected,
        customdata=hover,
        mode="lines+markers",
        line={"color": GREY, "dash": "dash"},
        marker={"color": GREY, "size": 8},
        error_y={
            "symmetric": False,
            "array": [end - n for n, end in zip(expected, high, strict=True)],
            "arrayminus": [n - start for n, start in zip(expected, low, strict=True)],
            "color": GREY,
        },
        hovertemplate=HOVER,
    )


def _no_forecast(rows: pd.DataFrame) -> list[go.Scatter]:
    missing = rows[rows["open"].isna()]
    if missing.empty:
        return []
    return [
        go.Scatter(
            x=missing["x"].tolist(),
            y=[0] * len(missing),
            mode="text",
            text=["no forecast"] * len(missing),
            textposition="top center",
            cliponaxis=False,
            hoverinfo="skip",
            showlegend=False,
        )
    ]


def _finding(table: pd.DataFrame, now: int, label: str) -> str:
    forecasts = table[table["open"].notna()]
    if forecasts.empty:
        reasons = table["reason"].dropna()
        return f"No forecast: {reasons.iloc[0]}" if len(reasons) else "No forecast"
    last = forecasts.to_dict("records")[-1]
    return (
        f"Forecast for {pluralize(int(last['days']), 'day')} ahead: {_expected(last, label)}, "
        f"if current trends continue; now {now:,}"
    )


def _summary(table: pd.DataFrame, now: int, label: str) -> str:
    if len(table) > _MAX_TICKS:
        table = pd.concat([table.head(_MAX_TICKS - 1), table.tail(1)])
    return " ".join([f"Open now: {now:,}.", *(_horizon(row, label) for row in table.to_dict("records"))])


def _horizon(row: dict[Any, Any], label: str) -> str:
    reason = "" if pd.isna(row["reason"]) else f" ({row['reason']})"
    if pd.isna(row["open"]):
        return f"In {pluralize(row['days'], 'day')}: no forecast{reason}."
    parts = ", ".join(f"{name} {row[column]:,.0f}" for column, name, _, _ in PARTS)
    beyond = f"; {row['beyond']:,} {_BEYOND}" if row["beyond"] else ""
    return f"In {pluralize(row['days'], 'day')}: {_expected(row, label)}; {parts}{beyond}{reason}."


def _expected(row: dict[Any, Any], label: str) -> str:
    n = f"{row['open']:,.0f}"
    listings = "open listing" if n == "1" else "open listings"
    return f"{n} {listings}{format_interval(row['low'], row['high'], '{:,.0f}'.format, label)}"


def _tick(row: dict[Any, Any], *, is_long: bool) -> str:
    beyond = f"<br>{row['beyond']:,} {_BEYOND}" if row["beyond"] and is_long else ""
    return f"in {pluralize(row['days'], 'day')}{beyond}"
