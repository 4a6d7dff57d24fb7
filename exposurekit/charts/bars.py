"""Horizontal charts with one labelled row per group, and a note on the groups that are not drawn."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import pandas as pd
import plotly.graph_objects as go

from exposurekit.charts.theme import GREY, HOVER, X_AXIS, Chart, bar_marker, chart, escape, short
from exposurekit.text.formatting import pluralize

MAX_ROWS = 12
PERSON = "person"  # the column of names that `Exposure.with_people` adds
MAX_SUMMARY_ROWS = 10
MAX_TIED_NAMES = 2  # a longer tie is reported as a count
TEXT_OUTSIDE = {
    "textposition": "outside",
    "cliponaxis": False,
    "constraintext": "none",
}  # never smaller than others
_ROW_PX, _FRAME_PX = 30, 190
_SINGLE_GAP = 0.6  # a single bar is as thick as one of several


class Omitted(NamedTuple):
    """How many groups are not drawn, and their names: one, and many."""

    n: int
    one: str
    many: str

    @property
    def label(self) -> str:
        """What is not drawn: ``3 more people``; empty if that is nothing."""
        return pluralize(self.n, f"more {self.one}", f"more {self.many}") if self.n > 0 else ""

    def note(self, n_drawn: int) -> str:
        """A sentence on what is drawn, and what the table has; empty if all groups are drawn.

        >>> from exposurekit.charts.bars import Omitted
        >>> Omitted(14, "person", "people").note(11)
        ' The chart shows 11 people; the table has all 25.'
        """
        drawn = pluralize(n_drawn, self.one, self.many)
        return f" The chart shows {drawn}; the table has all {n_drawn + self.n:,}." if self.n > 0 else ""


def row_chart(
    traces: Iterable[Any],
    labels: Sequence[str],
    axis: dict[str, Any],
    *,
    right: dict[str, Any] | None = None,
    summary: str,
    rest: Omitted | None = None,
    **words: str,
) -> Chart:
    """Create a chart with one labelled row per group, top to bottom.

    Args:
        traces: Traces whose y is the number of the row, so that equal labels keep rows of their own.
        labels: The label of each row, already escaped.
        axis: The x axis.
        right: The x axis of a second panel beside the first.
        summary: As in `chart`.
        rest: What has no row: the last row says so, and the summary; None: nothing.
        words: The finding and the provenance, as in `chart`.
    """
    words["summary"] = summary + (rest.note(len(labels)) if rest else "")
    if rest and rest.label:
        traces = [*traces, annotations([*[""] * len(labels), "not drawn"])]
        labels = [*labels, rest.label]
    layout: dict[str, Any] = {"yaxis": _labelled(labels), "xaxis": axis}
    if len(labels) == 1:
        layout["bargap"] = _SINGLE_GAP
    if right is not None:
        layout["yaxis"] |= {"anchor": "x"}
        layout["xaxis"] = axis | {"domain": (0, 0.6)}
        layout["xaxis2"] = X_AXIS | right | {"domain": (0.68, 1), "anchor": "y"}
    height = _FRAME_PX + _ROW_PX * max(len(labels), 2)
    return chart(traces, height=height, barmode="stack", **layout, **words)


def label_rows(figure: Chart, labels: Sequence[str]) -> Chart:
    """Label the rows of a chart, top to bottom."""
    figure.update_yaxes(**_labelled(labels))
    return figure


def _labelled(labels: Sequence[str]) -> dict[str, Any]:
    ticks, extent = [*range(len(labels))], [len(labels) - 0.5, -0.5]
    return {"range": extent, "tickvals": ticks, "ticktext": [*labels], "showgrid": False}


def group_rest(table: pd.DataFrame, by: str, groups: str) -> pd.DataFrame:
    """Keep the first `MAX_ROWS` rows and add one row with the sums of the rest."""
    if len(table) <= MAX_ROWS:
        return table
    rest = table.iloc[MAX_ROWS:]
    row = {by: rest_label(len(rest), groups), **rest.drop(columns=by).sum().to_dict()}
    return pd.concat([table.head(MAX_ROWS), pd.DataFrame([row])], ignore_index=True)


def whole_ties(n: Sequence[float]) -> int:
    """How many of some numbers, largest first, to draw: at most `MAX_ROWS`, and not a part of those that are equal.

    >>> from exposurekit.charts.bars import whole_ties
    >>> whole_ties([9, 8, 7, *[6] * 12]), whole_ties([6] * 15)
    (3, 12)
    """
    if len(n) <= MAX_ROWS or n[MAX_ROWS] < n[MAX_ROWS - 1]:
        return min(len(n), MAX_ROWS)
    return sum(number > n[MAX_ROWS] for number in n[:MAX_ROWS]) or MAX_ROWS


def rest_label(n: int, groups: str) -> str:
    """The label of the row that sums up the rest: ``175 more sites``."""
    return f"{n:,} more {groups}"


def row_labels(table: pd.DataFrame, by: str | None) -> list[str]:
    """The label of each row: its group, ``user 7`` for a user, or ``all listings`` without a group."""
    if by is None:
        return ["all listings"] * len(table)
    return [f"user {value}" if by == "user_id" else short(value) for value in table[by]]


def person_labels(table: pd.DataFrame) -> list[str]:
    """The label of each row's person: the name in ``person``, with the id where several share it; else ``user 7``.

    >>> from exposurekit.charts.bars import person_labels
    >>> person_labels(pd.DataFrame({"user_id": [7, 8, 9], "person": ["Ann Lee", None, "Ann Lee"]}))
    ['Ann Lee (user 7)', 'user 8', 'Ann Lee (user 9)']
    """
    users = row_labels(table, "user_id")
    if not has_names(table):
        return users
    names = [short(name) if isinstance(name, str) and name else "" for name in table[PERSON]]
    shared = {name for name, n in Counter(names).items() if n > 1}
    return [
        f"{name} ({user})" if name in shared and name else name or user
        for name, user in zip(names, users, strict=True)
    ]


def has_names(table: pd.DataFrame) -> bool:
    """Whether a table has the names of people; in a matrix, ``person`` may be a site."""
    return PERSON in table and not pd.api.types.is_numeric_dtype(table[PERSON])


def hide_names(figure: Chart, finding: str) -> Chart:
    """Give a chart whose texts name people a repr with ids: a repr may reach a log."""
    figure.update_layout(meta=figure.layout.meta | {"repr": finding})
    return figure


def group_column(table: pd.DataFrame, columns: tuple[str, ...]) -> str | None:
    """The column of the group, which is the one beside these; None without groups."""
    return next((name for name in table.columns if name not in columns), None)


def join_rows(rows: Sequence[str]) -> str:
    """Join the first rows of a summary, and say where the others are."""
    rest = "; others are in the table" if len(rows) > MAX_SUMMARY_ROWS else ""
    return f"{'; '.join(rows[:MAX_SUMMARY_ROWS])}{rest}."


def names_or_count(names: Sequence[str], groups: str) -> str:
    """Join one or two tied names; return the count of more.

    >>> from exposurekit.charts.bars import names_or_count
    >>> names_or_count(["A", "B"], "sites"), names_or_count(["A", "B", "C"], "sites")
    ('A and B', '3 sites')
    """
    return " and ".join(names) if len(names) <= MAX_TIED_NAMES else f"{len(names):,} {groups}"


def leaders(names: Sequence[str], n: Sequence[float], groups: str, counted: str) -> str:
    """Describe which group has the highest count of something, naming all groups of a tie.

    >>> from exposurekit.charts.bars import leaders
    >>> leaders(["A", "B", "C"], [4, 2, 1], "sites", "points")
    'A has the most points: 4'
    >>> leaders(["A", "B", "C"], [4, 4, 1], "sites", "points")
    'A and B have the most points: 4 each'
    >>> leaders(["A", "B"], [4, 4], "sites", "points")
    'each of 2 sites has 4 points'
    """
    most = max(n)
    amount = f"{most:,.1f}".removesuffix(".0")
    first = [name for name, count in zip(names, n, strict=True) if count == most]
    if len(first) == 1:
        return f"{first[0]} has the most {counted}: {amount}"
    if len(first) == len(names):
        return f"each of {len(names):,} {groups} has {amount} {counted}"
    return f"{names_or_count(first, groups)} have the most {counted}: {amount} each"


def bars(
    name: str, n: Sequence[float], hover: Sequence[str], style: tuple[str, str], **options: Any
) -> go.Bar:
    """Create one horizontal bar per row in a style of colour and pattern; `hover` texts are already escaped."""
    return go.Bar(
        name=name,
        y=[*range(len(n))],
        x=[*n],
        orientation="h",
        customdata=[*hover],
        hovertemplate=HOVER,
        marker=bar_marker(*style),
        **options,
    )


def whiskers(low: Sequence[Any], high: Sequence[Any], **options: Any) -> go.Scatter:
    """Create a line from low to high in each row that has both; with a `name` it is in the legend."""
    x, y = [], []
    for row, (start, end) in enumerate(zip(low, high, strict=True)):
        if pd.notna(start) and pd.notna(end):
            x += [start, end, None]
            y += [row, row, None]
    line = {"color": GREY, "width": 2}
    in_legend = bool(x) and "name" in options
    return go.Scatter(x=x, y=y, mode="lines", line=line, hoverinfo="skip", showlegend=in_legend, **options)


def points(
    values: Sequence[Any], hover: Sequence[str], *, symbol: str, colour: str, **options: Any
) -> go.Scatter:
    """Create a marker in each row that has a value; with a `name` it is in the legend.

    `hover` texts are already escaped.
    """
    rows = [row for row, value in enumerate(values) if pd.notna(value)]
    return go.Scatter(
        x=[values[row] for row in rows],
        y=rows,
        mode="markers",
        marker={"symbol": symbol, "color": colour, "size": 10},
        cliponaxis=False,
        showlegend=bool(rows) and "name" in options,
        customdata=[hover[row] for row in rows],
        hovertemplate=HOVER,
        **options,
    )


def annotations(texts: Sequence[str], x: Sequence[float] | None = None, **options: Any) -> go.Scatter:
    """Create a text in each row that has one, at `x` or at 0."""
    rows = [row for row, text in enumerate(texts) if text]
    return go.Scatter(
        x=[x[row] if x else 0 for row in rows],
        y=rows,
        mode="text",
        text=[f"  {escape(texts[row])}" for row in rows],
        textposition="middle right",
        cliponaxis=False,
        hoverinfo="skip",
        showlegend=False,
        **options,
    )
