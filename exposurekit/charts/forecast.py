"""Forecast chart: open listings so far, and the expected number with its interval, or the reason for no forecast."""

from typing import Any

import pandas as pd
import plotly.graph_objects as go

from exposurekit.charts.argument_checks import check_input
from exposurekit.charts.theme import (
    BLUE,
    GREY,
    HOVER,
    PURPLE,
    Chart,
    chart,
    count_axis,
    empty_chart,
    filled,
    format_interval,
    interval_label,
)
from exposurekit.text.formatting import pluralize

# Column and name of each part of the expected number.
PARTS = (("of_open", "open now, still open"), ("of_gone", "gone now, listed again"), ("of_new", "new"))
_DONE, _IF_DONE = "if_done", "if all manual work is done"
_BEYOND = "older than any observed"  # their curves are extrapolated
_MAX_TICKS, _MAX_LABELS = 12, 4
_FAN = "rgba(0,114,178,0.18)"  # BLUE
_PAST_TICKS = 3


def forecast(table: pd.DataFrame, *, provenance: str = "") -> Chart:
    """Draw the number of open listings so far, and the expected one as a fan: its interval opens from now on.

    Args:
        table: A table as returned by `History.forecast`, or by `analysis.forecast`, which has no past. For a horizon
            without a forecast the chart gives the reason. With ``if_done``, it also has the number to expect if all manual
            work is done.
        provenance: As in `by_site`.

    Raises:
        MissingColumns: ``table`` lacks a column.

    >>> "no forecast" in charts.describe(charts.forecast(history.forecast()))
    True
    """
    needed = ("days", "open_now", "of_open", "of_gone", "of_new", "open", "low", "high", "beyond", "reason")
    check_input("forecast", table, needed)
    if table.empty:
        return empty_chart("No horizons to forecast", provenance=provenance)
    return _horizons(table.sort_values("days", ignore_index=True), provenance)


def _horizons(table: pd.DataFrame, provenance: str) -> Chart:
    """Draw the chart of `charts.forecast` for a non-empty table, sorted by days."""
    label = interval_label(table)
    now, days = int(table["open_now"].iloc[0]), table["days"].tolist()
    past = _past(table, days[-1])
    figure = chart(
        [*_so_far(past, now), *_fan(table, now, label), *_if_done(table, now)],
        finding=_finding(table, now, label),
        summary=_summary(table, now, label),
        provenance=provenance,
        annotations=_no_forecast(table),
    )
    most = max(float(table[["open_now", "open", "high"]].max().max()), *(n for _, n in past), 0)
    figure.update_layout(yaxis=count_axis("open listings", most, room=1.12))
    values, texts = _ticks(past, days)
    figure.update_xaxes(
        showgrid=False,
        tickvals=values,
        ticktext=texts,
        tickangle=0,
        title_text="days from now",
        range=[past[0][0] if past else -0.02 * days[-1], 1.08 * days[-1]],
    )
    return figure


def _past(table: pd.DataFrame, longest: int) -> list[tuple[float, int]]:
    """The number of open listings at days before now, oldest first, over at most twice the longest horizon."""
    stored = table.attrs.get("past", [])
    return [(float(day), int(n)) for day, n in stored if -2 * longest <= day < 0]


def _ticks(past: list[tuple[float, int]], days: list[int]) -> tuple[list[float], list[str]]:
    ahead = days[:: -(len(days) // _MAX_TICKS + 1)][::-1]
    distance = next(
        (step for step in (7, 14, 30, 60, 90, 180) if past and -past[0][0] / step <= _PAST_TICKS), 365
    )
    before = [-day for day in range(distance, int(-past[0][0]) + 1, distance)][::-1] if past else []
    return [*before, 0, *ahead], [
        *(f"\N{MINUS SIGN}{-day}" for day in before),
        "now",
        *(f"+{day}" for day in ahead),
    ]


def _so_far(past: list[tuple[float, int]], now: int) -> list[go.Scatter]:
    if not past:
        return []
    days, n = [*(day for day, _ in past), 0], [*(n for _, n in past), now]
    hover = [
        f"{pluralize(round(-day), 'day')} ago: {count:,} open"
        for day, count in zip(days[:-1], n, strict=False)
    ]
    line = {"color": BLUE, "width": 2, "shape": "hv"}
    return [
        go.Scatter(
            name="open so far",
            x=days,
            y=n,
            customdata=[*hover, f"now: {now:,} open"],
            mode="lines",
            line=line,
            hovertemplate=HOVER,
        )
    ]


def _fan(table: pd.DataFrame, now: int, label: str) -> list[go.Scatter]:
    """The interval, which opens from now on, and the expected number with its value at each horizon."""
    forecasts = table[table[["open", "low", "high"]].notna().all(axis=1)]
    if forecasts.empty:
        return []
    x = [0, *forecasts["days"].tolist()]
    low, high, expected = ([now, *forecasts[name].tolist()] for name in ("low", "high", "open"))
    rows = forecasts.to_dict("records")
    values = [f"{row['open']:,.0f}" for row in rows] if len(rows) <= _MAX_LABELS else [""] * len(rows)
    return [
        filled([*x, *x[::-1]], [*low, *high[::-1]], _FAN, name=label),
        go.Scatter(
            name="expected",
            x=x,
            y=expected,
            customdata=[f"now: {now:,} open", *(_hover(row, label) for row in rows)],
            text=[f"{now:,} now", *values],
            textposition=["bottom right", *["top center"] * len(rows)],
            cliponaxis=False,
            mode="lines+markers+text",
            line={"color": BLUE, "width": 2, "dash": "dash"},
            marker={"color": BLUE, "size": 8},
            hovertemplate=HOVER,
        ),
    ]


def _if_done(table: pd.DataFrame, now: int) -> list[go.Scatter]:
    """The number to expect if all manual work is done, if the table has it."""
    if _DONE not in table or table[_DONE].isna().all():
        return []
    rows = table.dropna(subset=_DONE).to_dict("records")
    n = [f"{row[_DONE]:,.0f}" for row in rows]
    hover = [
        f"in {pluralize(row['days'], 'day')}: {text} {_IF_DONE}" for row, text in zip(rows, n, strict=True)
    ]
    return [
        go.Scatter(
            name=_IF_DONE,
            x=[0, *(row["days"] for row in rows)],
            y=[now, *(row[_DONE] for row in rows)],
            customdata=[f"now: {now:,} open", *hover],
            text=["", *(n if len(rows) <= _MAX_LABELS else [""] * len(rows))],
            textposition="bottom center",
            cliponaxis=False,
            mode="lines+markers+text",
            line={"color": PURPLE, "width": 2, "dash": "dot"},
            marker={"color": PURPLE, "size": 8, "symbol": "diamond"},
            hovertemplate=HOVER,
        )
    ]


def _hover(row: dict[Any, Any], label: str) -> str:
    parts = "<br>".join(f"{row[column]:,.0f} {name}" for column, name in PARTS)
    beyond = f"<br>{row['beyond']:,} {_BEYOND}" if row["beyond"] else ""
    return f"in {pluralize(row['days'], 'day')}: {_expected(row, label)}<br>{parts}{beyond}"


def _no_forecast(table: pd.DataFrame) -> list[dict[str, Any]]:
    """One text below the horizons without a forecast."""
    missing = table.loc[table["open"].isna(), "days"]
    if missing.empty:
        return []
    text = {"text": "no forecast", "font": {"color": GREY}, "showarrow": False}
    return [{**text, "x": float(missing.mean()), "y": 0, "yanchor": "bottom"}]


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
    parts = ", ".join(f"{name} {row[column]:,.0f}" for column, name in PARTS)
    beyond = f"; {row['beyond']:,} {_BEYOND}" if row["beyond"] else ""
    done = "" if pd.isna(row.get(_DONE)) else f"; {row[_DONE]:,.0f} {_IF_DONE}"
    return f"In {pluralize(row['days'], 'day')}: {_expected(row, label)}; {parts}{done}{beyond}{reason}."


def _expected(row: dict[Any, Any], label: str) -> str:
    n = f"{row['open']:,.0f}"
    listings = "open listing" if n == "1" else "open listings"
    return f"{n} {listings}{format_interval(row['low'], row['high'], '{:,.0f}'.format, label)}"
