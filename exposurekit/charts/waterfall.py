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
    FAILED,
    INTO_VIEW,
    NEW,
    OPEN_AFTER,
    OPEN_BEFORE,
    OUT_OF_VIEW,
)
from exposurekit.analysis.score import SCORE_AFTER, SCORE_BEFORE
from exposurekit.charts.theme import (
    BLUE,
    COLOURS,
    GREY,
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
    _SCOPE: (GREY, "x", (INTO_VIEW, OUT_OF_VIEW)),
}
_KIND = {cause: kind for kind, (_, _, causes) in _KINDS.items() for cause in causes}
_STYLES = {kind: style for kind, (*style, _) in _KINDS.items()} | dict.fromkeys(("open", "score"), (BLUE, ""))
_TRUNCATE_ABOVE = 0.7  # of the height: if all values are above, the axis starts above zero
_MAX_SINGLE_TICKS = 5


@dataclass(frozen=True, slots=True)
class Scale:
    """The quantity of a waterfall.

    Attributes:
        column: The column with its running total.
        ends: The first and the last cause: the totals before and after.
        predicate: What follows the total in a title.
    """

    column: str
    ends: tuple[str, str]
    predicate: str


OPEN = Scale("open", (OPEN_BEFORE, OPEN_AFTER), "are open")
SCORE = Scale("score", (SCORE_BEFORE, SCORE_AFTER), "points in total")


def waterfall(table: pd.DataFrame, provenance: str, scale: Scale) -> Chart:
    """Draw the chart of `charts.changes` or `charts.score_changes` for a non-empty table."""
    bars, level = _bars(table, scale), table[scale.column].to_numpy("float64")
    figure = chart(
        [*_connectors(level), *(_bar(str(kind), rows) for kind, rows in bars.groupby("kind", sort=False))],
        finding=_finding(table, scale),
        summary=_summary(table, scale),
        provenance=provenance,
        barmode="overlay",
    )
    extent = [-0.6, len(bars) - 0.4]
    figure.update_xaxes(range=extent, tickvals=[*bars.index], ticktext=[*bars["cause"]], showgrid=False)
    return _with_height_axis(figure, level, scale)


def _bars(table: pd.DataFrame, scale: Scale) -> pd.DataFrame:
    """The kind, position, label and definition of each cause's bar."""
    n, level = table["n"].to_numpy("float64"), table[scale.column].to_numpy("float64")
    kinds = [scale.column if cause in scale.ends else _KIND.get(cause, OTHER) for cause in table["cause"]]
    is_total = table["cause"].isin(scale.ends).to_numpy()
    rows = zip(n.tolist(), level.tolist(), is_total.tolist(), strict=True)
    return pd.DataFrame(
        {
            "kind": kinds,
            "cause": [label_text(cause) for cause in table["cause"]],
            "low": np.where(is_total, 0, np.minimum(level, level - n)),
            "high": np.where(is_total, level, np.maximum(level, level - n)),
            "definition": [definition_lines(cause) for cause in table["cause"]],
            "text": [amount(total) if as_total else signed(change) for change, total, as_total in rows],
        }
    )


def amount(n: float) -> str:
    """Format an amount: whole numbers without decimals, others with one."""
    return f"{n:,.0f}" if float(n).is_integer() else f"{n:,.1f}"


def signed(n: float) -> str:
    """Format a change with its sign; 0 has none."""
    return f"{'+' if n > 0 else chr(0x2212)}{amount(abs(n))}" if n else "0"


def _bar(kind: str, rows: pd.DataFrame) -> go.Bar:
    colour, shape = _STYLES.get(kind, (COLOURS[OTHER], PATTERNS[OTHER]))
    return go.Bar(
        name=kind,
        x=rows.index.tolist(),
        width=0.75,
        base=rows["low"].tolist(),
        y=(rows["high"] - rows["low"]).tolist(),
        text=rows["text"].tolist(),
        textposition="outside",
        cliponaxis=False,
        customdata=[
            f"{cause}: {text}{definition}"
            for cause, text, definition in zip(rows["cause"], rows["text"], rows["definition"], strict=True)
        ],
        hovertemplate="%{customdata}<extra></extra>",
        marker=bar_marker(colour, shape),
    )


def _connectors(level: Any) -> list[go.Scatter]:
    """Thin lines between neighbouring bars."""
    x = [position for bar in range(len(level) - 1) for position in (bar, bar + 1, None)]
    y = [position for height in level[:-1].tolist() for position in (height, height, None)]
    line = {"color": GREY, "width": 1, "dash": "dot"}
    return [go.Scatter(x=x, y=y, mode="lines", line=line, hoverinfo="skip", showlegend=False)]


def _with_height_axis(figure: Chart, level: Any, scale: Scale) -> Chart:
    """Start the axis at zero, or above it if all values are high; then its title says so."""
    least, most = int(level.min()), int(np.ceil(level.max()))
    if least <= _TRUNCATE_ABOVE * most:
        figure.update_yaxes(title_text=scale.column, range=[0, max(most, 1) * 1.12], **_integer_ticks(most))
        return figure
    start = max(int(least - 0.5 * max(most - least, 1)), 0)
    title = f"{scale.column} (axis starts at {start:,})"
    figure.update_yaxes(
        title_text=title, range=[start, most + 0.2 * (most - start)], **_integer_ticks(most - start)
    )
    return figure


def _integer_ticks(height: float) -> dict[str, Any]:
    """Integer ticks; on a short axis one per integer, so that no fraction is rounded to its neighbour's label."""
    return {"tickformat": ",d"} | ({"dtick": 1} if height < _MAX_SINGLE_TICKS else {})


def _finding(table: pd.DataFrame, scale: Scale) -> str:
    before, after = float(table[scale.column].iloc[0]), float(table[scale.column].iloc[-1])
    n = abs(after - before)
    change = f"{amount(n)} {'more' if after > before else 'fewer'} than before" if n else "as many as before"
    return f"{amount(after)} {scale.predicate}, {change}{_main_causes(table, scale)}"


def _main_causes(table: pd.DataFrame, scale: Scale) -> str:
    """The three causes with the largest effect."""
    causes = table[(table["n"] != 0) & ~table["cause"].isin(scale.ends)]
    largest = causes.reindex(causes["n"].abs().sort_values(ascending=False, kind="stable").index).head(3)
    texts = [
        f"{amount(abs(n))} {short(cause)}" for n, cause in zip(largest["n"], largest["cause"], strict=True)
    ]
    return f": {', '.join(texts)}" if texts else ""


def _summary(table: pd.DataFrame, scale: Scale) -> str:
    causes = dict(zip(table["cause"], table["n"], strict=True))
    before, after = float(table[scale.column].iloc[0]), float(table[scale.column].iloc[-1])
    scope = sum(float(causes.get(cause, 0)) for cause in (INTO_VIEW, OUT_OF_VIEW))
    effects = [f"{short(cause)} {signed(n)}" for cause, n in causes.items() if n and cause not in scale.ends]
    changes = ", ".join(effects) or "no changes"
    note = f" Changes of scope account for {signed(scope)}, without any change on the sites." if scope else ""
    first, last = scale.ends
    return f"{first.capitalize()}: {amount(before)}; {changes}; {last}: {amount(after)}.{note}"
