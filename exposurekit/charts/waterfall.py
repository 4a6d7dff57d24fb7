"""Waterfall charts: the causes of a change in open items, or in a score."""

from dataclasses import dataclass
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
    definition_lines,
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
_BREAK_ABOVE = 0.7  # of the height: if all values are above, the axis is broken
_STEPS = [step * 10**power for power in range(12) for step in (1, 2, 5)]
_MAX_TICKS = 6


@dataclass(frozen=True, slots=True)
class Scale:
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


OPEN = Scale("open", "n", (OPEN_BEFORE, OPEN_AFTER), "are open")
SCORE = Scale("score", "points", (SCORE_BEFORE, SCORE_AFTER), "points in total")


@dataclass(frozen=True, slots=True)
class _Axis:
    """The height axis: from zero to the highest level, and broken if all levels are far above zero.

    Attributes:
        start: Heights between zero and this one are left out; 0: the axis is not broken.
        end: The highest level.
    """

    start: int
    end: int

    @property
    def gap(self) -> float:
        """The height of the break."""
        return 0.15 * (self.end - self.start) if self.start else 0

    def positions(self, heights: Any) -> Any:
        """Where heights are drawn."""
        return np.where(heights > 0, heights - self.start + self.gap, 0)

    def layout(self, title: str) -> dict[str, Any]:
        """The layout of the axis; the title says that it is broken."""
        span = max(self.end - self.start, 1)
        step = next(step for step in _STEPS if span / step < _MAX_TICKS)
        ticks = [0, *range(-(-max(self.start, 1) // step) * step, self.start + span + 1, step)]
        broken = f" (axis broken: 0 to {self.start:,})" if self.start else ""
        return {
            "title_text": title + broken,
            "range": [0, self.gap + span * 1.15],
            "tickvals": self.positions(np.array(ticks)).tolist(),
            "ticktext": [f"{tick:,}" for tick in ticks],
        }


def waterfall(table: pd.DataFrame, provenance: str, scale: Scale) -> Chart:
    """Draw the chart of `charts.changes` or `charts.score_changes` for a non-empty table."""
    level = table[scale.column].to_numpy("float64")
    axis = _axis(level)
    bars = _bars(table, scale, axis)
    traces = (_bar(str(kind), rows, axis) for kind, rows in bars.groupby("kind", sort=False))
    figure = chart(
        [*_connectors(axis.positions(level)), *traces],
        finding=_finding(table, scale),
        summary=_summary(table, scale),
        provenance=provenance,
        barmode="overlay",
    )
    extent = [-0.6, len(bars) - 0.4]
    figure.update_xaxes(
        range=extent, tickvals=[*bars.index], ticktext=[*map(_two_lines, bars["cause"])], showgrid=False
    )
    figure.update_yaxes(**axis.layout(scale.column))
    return figure


def _axis(level: Any) -> _Axis:
    least, most = int(level.min()), int(np.ceil(level.max()))
    is_high = least > _BREAK_ABOVE * most
    return _Axis(max(int(least - 0.5 * max(most - least, 1)), 0) if is_high else 0, most)


def _bars(table: pd.DataFrame, scale: Scale, axis: _Axis) -> pd.DataFrame:
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
            "low": axis.positions(np.where(is_total, 0, np.minimum(level, level - n))),
            "high": axis.positions(np.where(is_total, level, np.maximum(level, level - n))),
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


def _bar(kind: str, rows: pd.DataFrame, axis: _Axis) -> go.Bar:
    colour, shape = _STYLES.get(kind, (COLOURS[OTHER], PATTERNS[OTHER]))
    if axis.start and not rows["low"].any():  # a total: in two pieces, below and above the break
        foot = rows.assign(high=0.35 * axis.gap, text="")
        rows = pd.concat([foot, rows.assign(low=0.65 * axis.gap)])
    return go.Bar(
        name=kind,
        x=rows.index.tolist(),
        width=0.75,
        base=rows["low"].tolist(),
        y=(rows["high"] - rows["low"]).tolist(),
        text=rows["text"].tolist(),
        textposition="outside",
        cliponaxis=False,
        customdata=rows["hover"].tolist(),
        hovertemplate=HOVER,
        marker=bar_marker(colour, shape),
    )


def _connectors(level: Any) -> list[go.Scatter]:
    x = [position for bar in range(len(level) - 1) for position in (bar, bar + 1, None)]
    y = [position for height in level[:-1].tolist() for position in (height, height, None)]
    line = {"color": GREY, "width": 1, "dash": "dot"}
    return [go.Scatter(x=x, y=y, mode="lines", line=line, hoverinfo="skip", showlegend=False)]


def _finding(table: pd.DataFrame, scale: Scale) -> str:
    before, after = float(table[scale.column].iloc[0]), float(table[scale.column].iloc[-1])
    n = abs(after - before)
    change = f"{amount(n)} {'more' if after > before else 'fewer'} than before" if n else "as many as before"
    return f"{amount(after)} {scale.predicate}, {change}{_main_causes(table, scale)}"


def _main_causes(table: pd.DataFrame, scale: Scale) -> str:
    causes = table[(table[scale.change] != 0) & ~table["cause"].isin(scale.ends)]
    largest = causes.reindex(
        causes[scale.change].abs().sort_values(ascending=False, kind="stable").index
    ).head(3)
    texts = [
        f"{amount(abs(n))} {short(cause)}"
        for n, cause in zip(largest[scale.change], largest["cause"], strict=True)
    ]
    return f": {', '.join(texts)}" if texts else ""


def _summary(table: pd.DataFrame, scale: Scale) -> str:
    causes = dict(zip(table["cause"], table[scale.change], strict=True))
    before, after = float(table[scale.column].iloc[0]), float(table[scale.column].iloc[-1])
    scope = sum(float(causes.get(cause, 0)) for cause in (ENTERED_SCOPE, LEFT_SCOPE))
    effects = [f"{short(cause)} {signed(n)}" for cause, n in causes.items() if n and cause not in scale.ends]
    changes = ", ".join(effects) or "no changes"
    note = f" Changes of scope account for {signed(scope)}, without any change on the sites." if scope else ""
    first, last = scale.ends
    return f"{first.capitalize()}: {amount(before)}; {changes}; {last}: {amount(after)}.{note}"
