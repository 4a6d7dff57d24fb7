"""Waterfall charts: the causes of a change in open items, or in a score."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain, repeat
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from exposurekit.analysis import OTHER, VANISHED
from exposurekit.analysis.diff import (
    AGAIN,
    CHANGED,
    ENTERED_SCOPE,
    FAILED,
    LEFT_SCOPE,
    NEW,
    OPEN_AFTER,
    OPEN_BEFORE,
)
from exposurekit.analysis.score import SCORE_AFTER, SCORE_BEFORE
from exposurekit.charts.argument_checks import check_input
from exposurekit.charts.bars import TEXT_OUTSIDE
from exposurekit.charts.theme import (
    BLUE,
    COLOURS,
    GREY,
    HOVER,
    PATTERNS,
    VERMILION,
    Chart,
    bar_marker,
    chart,
    count_ticks,
    definition_lines,
    empty_chart,
    label_text,
    short,
)
from exposurekit.contract.types import PENDING_REMOVAL, REMOVED

_SCOPE = "change of scope"
# Colour, pattern and causes of each legend entry. Scope changes say nothing about the sites.
_KINDS = {
    "new, or listed again": (VERMILION, "/", (NEW, AGAIN)),
    CHANGED: (COLOURS[PENDING_REMOVAL], "-", (FAILED, CHANGED)),
    REMOVED: (COLOURS[REMOVED], PATTERNS[REMOVED], (REMOVED,)),
    VANISHED: (COLOURS[VANISHED], PATTERNS[VANISHED], (VANISHED,)),
    _SCOPE: (GREY, "x", (ENTERED_SCOPE, LEFT_SCOPE)),
}
_KIND = {cause: kind for kind, (_, _, causes) in _KINDS.items() for cause in causes}
_STYLES = {kind: style for kind, (*style, _) in _KINDS.items()} | dict.fromkeys(("open", "score"), (BLUE, ""))
_HALF_BAR = 0.375  # of the distance of two bars
_HIGH = 0.7  # of the highest level: if all are above, totals are lines, as bars would dwarf the changes


@dataclass(frozen=True, slots=True)
class _Scale:
    """The quantity of a waterfall.

    Attributes:
        column: The column with its running total.
        change: The column with its changes.
        ends: The first and the last cause: the totals before and after.
        predicate: What follows the total in a title.
    """

    column: str
    change: str
    ends: tuple[str, str]
    predicate: str
    items: Mapping[str, str] = field(default_factory=dict)  # the words for the causes of points


_ITEMS = {
    NEW: "new items",
    ENTERED_SCOPE: "items that entered the scope",
    AGAIN: "items listed again",
    FAILED: "failed removals",
    CHANGED: "changed statuses",
    REMOVED: "removed items",
    VANISHED: "vanished items",
    LEFT_SCOPE: "items that left the scope",
}
_OPEN = _Scale("open", "n", (OPEN_BEFORE, OPEN_AFTER), "are open")
_SCORE = _Scale("score", "points", (SCORE_BEFORE, SCORE_AFTER), "points in total", _ITEMS)


def changes(table: pd.DataFrame, *, provenance: str = "") -> Chart:
    """Draw the causes of a change in the number of open items as a waterfall.

    Items that entered scope or left it have a colour of their own, as the exposure itself did not change.

    Args:
        table: A table as returned by `analysis.changes`: ``why`` of `History.diff`.
        provenance: As in `by_site`.

    Raises:
        MissingColumns: ``table`` lacks a column.

    >>> moved = history.diff(history.last_run().finished_at)
    >>> charts.changes(moved.why)
    Chart('... are open, as many as before')
    """
    check_input("changes", table, ("cause", "n", "open"))
    if table.empty:
        return empty_chart("No changes", provenance=provenance)
    return _waterfall(table, provenance, _OPEN)


def score_changes(table: pd.DataFrame, *, provenance: str = "") -> Chart:
    """Draw the causes of a change of the score as a waterfall.

    Args:
        table: A table as returned by `analysis.score_changes` or `History.score_changes`.
        provenance: As in `by_site`.

    Raises:
        MissingColumns: ``table`` lacks a column.

    >>> charts.score_changes(history.score_changes(history.last_run().finished_at))
    Chart('... points in total, as many as before')
    """
    check_input("score_changes", table, ("cause", "points", "score"))
    if table.empty:
        return empty_chart("No changes", provenance=provenance)
    return _waterfall(table, provenance, _SCORE)


def _waterfall(table: pd.DataFrame, provenance: str, scale: _Scale) -> Chart:
    """Draw the chart of `charts.changes` or `charts.score_changes` for a non-empty table."""
    level = table[scale.column].to_numpy("float64")
    least, most = float(level.min()), float(level.max())
    is_high = least > _HIGH * most
    bars = _bars(table, scale)
    is_line = bars["is_total"] & is_high
    traces = [_bar(str(kind), rows) for kind, rows in bars[~is_line].groupby("kind", sort=False)]
    figure = chart(
        [*_connectors(level), *(_line(row) for row in bars[is_line].itertuples()), *traces],
        finding=_finding(table, scale),
        summary=_summary(table, scale),
        provenance=provenance,
        barmode="overlay",
    )
    extent = [-0.6, len(bars) - 0.4]
    figure.update_xaxes(
        range=extent, tickvals=[*bars.index], ticktext=[*map(_two_lines, bars["cause"])], showgrid=False
    )
    span = most - least if is_high else most
    start = least - 0.15 * max(span, 1) if is_high else 0
    figure.update_yaxes(
        title_text=scale.column, range=[start, most + 0.15 * max(span, 1)], **count_ticks(span)
    )
    return figure


def _bars(table: pd.DataFrame, scale: _Scale) -> pd.DataFrame:
    """The kind, position, label and definition of each cause's bar."""
    n, level = table[scale.change].to_numpy("float64"), table[scale.column].to_numpy("float64")
    kinds = [scale.column if cause in scale.ends else _KIND.get(cause, OTHER) for cause in table["cause"]]
    is_total = table["cause"].isin(scale.ends).to_numpy()
    rows = zip(n.tolist(), level.tolist(), is_total.tolist(), strict=True)
    texts = [amount(total) if as_total else signed(change) for change, total, as_total in rows]
    labels = [label_text(cause) for cause in table["cause"]]
    definitions = map(definition_lines, table["cause"])
    return pd.DataFrame(
        {
            "kind": kinds,
            "cause": labels,
            "is_total": is_total,
            "low": np.where(is_total, 0, np.minimum(level, level - n)),
            "high": np.where(is_total, level, np.maximum(level, level - n)),
            "text": texts,
            "hover": [
                f"{label}: {text}{lines}"
                for label, text, lines in zip(labels, texts, definitions, strict=True)
            ],
        }
    )


def _two_lines(cause: str) -> str:
    """A cause with its last word on a second line."""
    return "<br>".join(cause.rsplit(" ", 1))


def amount(n: float) -> str:
    """Format an amount: whole numbers without decimals, others with one."""
    return f"{n:,.0f}" if float(n).is_integer() else f"{n:,.1f}"


def signed(n: float) -> str:
    """Format a change with its sign; 0 has none."""
    return f"{'+' if n > 0 else chr(0x2212)}{amount(abs(n))}" if n else "0"


def _line(total: Any) -> go.Scatter:
    """A total far above zero, as a line at its height."""
    colour, _ = _STYLES[total.kind]
    return go.Scatter(
        name=total.kind,
        x=[total.Index - _HALF_BAR, total.Index, total.Index + _HALF_BAR],
        y=[total.high] * 3,
        mode="lines+markers+text",
        marker={"size": 10, "opacity": 0},  # sets the text off from the line
        text=["", total.text, ""],
        textposition="top center",
        cliponaxis=False,
        line={"color": colour, "width": 5},
        customdata=[total.hover] * 3,
        hovertemplate=HOVER,
        showlegend=False,
    )


def _bar(kind: str, rows: pd.DataFrame) -> go.Bar:
    colour, shape = _STYLES.get(kind, (COLOURS[OTHER], PATTERNS[OTHER]))
    return go.Bar(
        name=kind,
        x=rows.index.tolist(),
        width=2 * _HALF_BAR,
        base=rows["low"].tolist(),
        y=(rows["high"] - rows["low"]).tolist(),
        text=rows["text"].tolist(),
        **TEXT_OUTSIDE,
        textangle=0,
        customdata=rows["hover"].tolist(),
        hovertemplate=HOVER,
        marker=bar_marker(colour, shape),
    )


def _connectors(level: Any) -> list[go.Scatter]:
    x = [position for bar in range(len(level) - 1) for position in (bar, bar + 1, None)]
    y = [position for height in level[:-1].tolist() for position in (height, height, None)]
    line = {"color": GREY, "width": 1, "dash": "dot"}
    return [go.Scatter(x=x, y=y, mode="lines", line=line, hoverinfo="skip", showlegend=False)]


def _finding(table: pd.DataFrame, scale: _Scale) -> str:
    before, after = float(table[scale.column].iloc[0]), float(table[scale.column].iloc[-1])
    n = abs(after - before)
    change = f"{amount(n)} {'more' if after > before else 'fewer'} than before" if n else "as many as before"
    return f"{amount(after)} {scale.predicate}, {change}{_main_causes(table, scale)}"


def _main_causes(table: pd.DataFrame, scale: _Scale) -> str:
    causes = table[(table[scale.change] != 0) & ~table["cause"].isin(scale.ends)]
    largest = causes.reindex(
        causes[scale.change].abs().sort_values(ascending=False, kind="stable").index
    ).head(3)
    units = chain([" points"], repeat(""))
    texts = [
        f"{amount(abs(n))}{next(units)} for {scale.items[cause]}"
        if cause in scale.items
        else f"{amount(abs(n))} {short(cause)}"
        for n, cause in zip(largest[scale.change], largest["cause"], strict=True)
    ]
    return f": {', '.join(texts)}" if texts else ""


def _summary(table: pd.DataFrame, scale: _Scale) -> str:
    causes = dict(zip(table["cause"], table[scale.change], strict=True))
    before, after = float(table[scale.column].iloc[0]), float(table[scale.column].iloc[-1])
    scope = sum(float(causes.get(cause, 0)) for cause in (ENTERED_SCOPE, LEFT_SCOPE))
    effects = [f"{short(cause)} {signed(n)}" for cause, n in causes.items() if n and cause not in scale.ends]
    changes = ", ".join(effects) or "no changes"
    note = f" Changes of scope account for {signed(scope)}, without any change on the sites." if scope else ""
    first, last = scale.ends
    return f"{first.capitalize()}: {amount(before)}; {changes}; {last}: {amount(after)}.{note}"
