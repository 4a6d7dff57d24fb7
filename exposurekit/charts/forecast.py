"""The forecast, horizon by horizon, with its interval; where there is no number, the reason instead."""

from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from exposurekit.charts.theme import (
    BLUE,
    GREY,
    PALE,
    SKY,
    VERMILION,
    Chart,
    chart,
    count_axis,
    patterned,
    pluralize,
)

# Of the expected: its column, what it is called, and how it looks.
PARTS = (
    ("of_open", "open now and still then", BLUE, ""),
    ("of_gone", "gone now and back by then", SKY, "\\"),
    ("of_new", "not listed yet", VERMILION, "/"),
)
_BEYOND = "older than any followed"  # of those open now: the curves are carried on for them
_TICKS, _LONG_TICKS = 12, 4


def horizons(table: pd.DataFrame, provenance: str) -> Chart:
    """The bars and the interval of `charts.forecast`, for a table with a row or more, by days."""
    table = table.assign(level=table.attrs.get("level", np.nan))
    now, days = int(table["open_now"].iloc[0]), table["days"].tolist()
    # Bars that lie too near to one another stand side by side instead; their days are told below them.
    apart = float(np.diff([0, *days]).min())
    is_even = apart >= days[-1] / _TICKS
    rows = table.assign(at=days if is_even else range(1, len(days) + 1))
    width = 0.5 * (apart if is_even else 1)
    figure = chart(
        [*(_part(rows, part, now, width) for part in PARTS), *_band(rows, now), *_unknown(rows)],
        finding=_expected(table, now),
        summary=_summary(table, now),
        provenance=provenance,
        barmode="stack",
    )
    most = table[["open_now", "of_open", "open", "high"]].max().max()
    figure.update_layout(yaxis=count_axis("open listings", float(most)))
    shown = rows.iloc[:: -(len(rows) // _TICKS + 1)]  # of very many only some are told below
    said = ["now", *(_tick(row, is_long=len(rows) <= _LONG_TICKS) for row in shown.to_dict("records"))]
    figure.update_xaxes(showgrid=False, tickvals=[0, *shown["at"]], ticktext=said)
    return figure


def _part(rows: pd.DataFrame, part: tuple[str, str, str, str], now: int, width: float) -> go.Bar:
    column, name, colour, shape = part
    known = rows[rows[column].notna()]
    first = [now] if column == "of_open" else [0]
    n = [*first, *known[column].tolist()]
    return go.Bar(
        name=name,
        x=[0, *known["at"].tolist()],
        y=n,
        width=width,
        customdata=[f"{one:,.0f} {name}" for one in n],
        hovertemplate="%{customdata}<extra></extra>",
        marker=patterned(colour, shape),
    )


def _band(rows: pd.DataFrame, now: int) -> list[go.Scatter]:
    known = rows[rows[["open", "low", "high"]].notna().all(axis=1)]
    if known.empty:
        return []
    x = [0, *known["at"].tolist()]
    low, high, middle = ([now, *known[name].tolist()] for name in ("low", "high", "open"))
    band = go.Scatter(
        name="interval",
        x=[*x, *x[::-1]],
        y=[*low, *high[::-1]],
        mode="lines",
        line={"width": 0},
        fill="toself",
        fillcolor=PALE,
        hoverinfo="skip",
    )
    return [band, _middle(x, middle, (low, high))]


def _middle(x: list[float], middle: list[float], band: tuple[list[float], list[float]]) -> go.Scatter:
    rows = [*zip(middle, *band, strict=True)]
    return go.Scatter(
        name="expected in all",
        x=x,
        y=middle,
        customdata=[f"{at:,.0f} open, interval: {low:,.0f}\N{EN DASH}{high:,.0f}" for at, low, high in rows],
        mode="lines+markers",
        line={"color": GREY, "dash": "dash"},
        marker={"color": GREY, "size": 8},
        error_y={
            "symmetric": False,
            "array": [high - at for at, _, high in rows],
            "arrayminus": [at - low for at, low, _ in rows],
            "color": GREY,
        },
        hovertemplate="%{customdata}<extra></extra>",
    )


def _unknown(rows: pd.DataFrame) -> list[go.Scatter]:
    """Where there is no number: that there is none."""
    lacking = rows[rows["open"].isna()]
    if lacking.empty:
        return []
    return [
        go.Scatter(
            x=lacking["at"].tolist(),
            y=[0] * len(lacking),
            mode="text",
            text=["no forecast"] * len(lacking),
            textposition="top center",
            cliponaxis=False,
            hoverinfo="skip",
            showlegend=False,
        )
    ]


def _expected(table: pd.DataFrame, now: int) -> str:
    known = table[table["open"].notna()]
    if known.empty:
        why = table["reason"].dropna()
        return f"No forecast: {why.iloc[0]}" if len(why) else "No forecast"
    last = known.to_dict("records")[-1]
    ahead = pluralize(int(last["days"]), "day")
    return (
        f"In {ahead} {last['open']:,.0f} listings will be open ({_interval(last)}), "
        f"if things go on as before; now {now:,}"
    )


def _summary(table: pd.DataFrame, now: int) -> str:
    told = table if len(table) <= _TICKS else pd.concat([table.head(_TICKS - 1), table.tail(1)])
    return " ".join([f"Open now: {now:,}.", *(_horizon(row) for row in told.to_dict("records"))])


def _horizon(row: dict[Any, Any]) -> str:
    why = "" if pd.isna(row["reason"]) else f" ({row['reason']})"
    if pd.isna(row["open"]):
        return f"In {pluralize(row['days'], 'day')}: no forecast{why}."
    parts = ", ".join(f"{name} {row[column]:,.0f}" for column, name, _, _ in PARTS)
    beyond = f"; {row['beyond']:,} {_BEYOND}" if row["beyond"] else ""
    return f"In {pluralize(row['days'], 'day')}: {row['open']:,.0f} in all ({_interval(row)}); {parts}{beyond}{why}."


def _interval(row: dict[Any, Any]) -> str:
    level = "" if pd.isna(row["level"]) else f"{100 * row['level']:.10g} % "
    return f"{level}interval: {row['low']:,.0f}\N{EN DASH}{row['high']:,.0f}"


def _tick(row: dict[Any, Any], *, is_long: bool) -> str:
    beyond = f"<br>{row['beyond']:,} {_BEYOND}" if row["beyond"] and is_long else ""
    return f"in {pluralize(row['days'], 'day')}{beyond}"
