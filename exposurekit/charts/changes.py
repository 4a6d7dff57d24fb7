"""Charts of the causes of a change in open items, or in a score: bars from zero for what was added and what ended."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain, repeat

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
from exposurekit.charts.bars import TEXT_OUTSIDE, row_chart
from exposurekit.charts.theme import (
    BLUE,
    COLOURS,
    GREY,
    HOVER,
    PALE_PURPLE,
    PATTERNS,
    PURPLE,
    Chart,
    bar_marker,
    count_ticks,
    definition_lines,
    empty_chart,
    label_text,
    short,
)
from exposurekit.contract.types import REMOVED

_SCOPE = "change of scope"
# Colour, pattern and causes of each kind of change. Scope changes say nothing about the sites.
_KINDS = {
    "new, or listed again": (PURPLE, "/", (NEW, AGAIN)),
    CHANGED: (PALE_PURPLE, "-", (FAILED, CHANGED)),
    REMOVED: (COLOURS[REMOVED], PATTERNS[REMOVED], (REMOVED,)),
    VANISHED: (COLOURS[VANISHED], PATTERNS[VANISHED], (VANISHED,)),
    _SCOPE: (GREY, "x", (ENTERED_SCOPE, LEFT_SCOPE)),
}
_KIND = {cause: kind for kind, (_, _, causes) in _KINDS.items() for cause in causes}
_TOTAL = "net change"
_STYLES = {kind: style for kind, (*style, _) in _KINDS.items()} | {_TOTAL: (BLUE, "")}
_TEXT_SHARE = 0.12  # of the length of the axis, for the text beyond the end of a bar


@dataclass(frozen=True, slots=True)
class _Scale:
    """The quantity that changed.

    Attributes:
        column: The column with its running total.
        change: The column with its changes.
        ends: The first and the last cause: the totals before and after.
        predicate: What follows the total in a title.
        axis: The title of the axis.
        items: The words for the causes of points.
    """

    column: str
    change: str
    ends: tuple[str, str]
    predicate: str
    axis: str
    items: Mapping[str, str] = field(default_factory=dict)


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
_OPEN = _Scale("open", "n", (OPEN_BEFORE, OPEN_AFTER), "are open", "change in open items")
_SCORE = _Scale("score", "points", (SCORE_BEFORE, SCORE_AFTER), "points in total", "change in points", _ITEMS)


def changes(table: pd.DataFrame, *, provenance: str = "") -> Chart:
    """Draw the causes of a change in the number of open items: a bar for each, and one for all together.

    Items that entered scope or left it have a colour of their own, as the exposure itself did not change. Causes that
    did not occur have no bar.

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
    return _causes(table, provenance, _OPEN)


def score_changes(table: pd.DataFrame, *, provenance: str = "") -> Chart:
    """Draw the causes of a change of the score: a bar for each, and one for all together.

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
    return _causes(table, provenance, _SCORE)


def _causes(table: pd.DataFrame, provenance: str, scale: _Scale) -> Chart:
    """Draw the chart of `charts.changes` or `charts.score_changes` for a non-empty table."""
    bars = _bars(table, scale)
    low, high = min(float(bars["n"].min()), 0), max(float(bars["n"].max()), 0)
    room = _TEXT_SHARE * max(high - low, 1)
    axis = {
        "title": {"text": scale.axis},
        "range": [low - 2 * room if low else 0, high + room],  # the labels of the rows are left of it
        "zeroline": True,
        "zerolinecolor": GREY,
        **count_ticks(high - low),
    }
    return row_chart(
        [_bar(str(kind), rows) for kind, rows in bars.groupby("kind", sort=False)],
        bars["label"].tolist(),
        axis,
        finding=_finding(table, scale),
        summary=_summary(table, scale),
        provenance=provenance,
    )


def _bars(table: pd.DataFrame, scale: _Scale) -> pd.DataFrame:
    """The kind, label, length and text of the bar of each cause that occurred, and of all together."""
    before, after = float(table[scale.column].iloc[0]), float(table[scale.column].iloc[-1])
    occurred = table[(table[scale.change] != 0) & ~table["cause"].isin(scale.ends)]
    n = [*occurred[scale.change].astype("float64").tolist(), after - before]
    causes = occurred["cause"].tolist()
    total = f"{_TOTAL}: {amount(before)} to {amount(after)}"
    labels = [*map(label_text, causes), total]
    texts = [signed(one) for one in n]
    definitions = [*map(definition_lines, causes), ""]
    return pd.DataFrame(
        {
            "kind": [*(_KIND.get(cause, OTHER) for cause in causes), _TOTAL],
            "label": labels,
            "n": n,
            "text": texts,
            "hover": [
                f"{label}: {text}{lines}"
                for label, text, lines in zip(labels, texts, definitions, strict=True)
            ],
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
        y=rows.index.tolist(),
        x=rows["n"].tolist(),
        orientation="h",
        text=rows["text"].tolist(),
        **TEXT_OUTSIDE,
        showlegend=False,
        customdata=rows["hover"].tolist(),
        hovertemplate=HOVER,
        marker=bar_marker(colour, shape),
    )


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
