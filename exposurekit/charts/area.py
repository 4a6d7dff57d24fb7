"""Traces of counts over time: stacked areas by status, or one line per group, with gaps where nothing was observed."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from numpy.typing import NDArray

from exposurekit.charts.theme import (
    BLUE,
    CLEAR,
    COLOURS,
    DASHES,
    GREY,
    PATTERNS,
    SERIES,
    fill_pattern,
    filled,
    label_text,
)
from exposurekit.charts.time_gaps import ObservedSpans, Texts, iso_texts
from exposurekit.text.formatting import pluralize

MAX_LINES = 8
Ints = NDArray[np.int64]


def areas(rows: pd.DataFrame, statuses: list[str], spans: ObservedSpans) -> list[go.Scatter]:
    """Create a stacked area per status, first at the bottom, and traces for gaps and incomplete runs.

    Args:
        rows: One row per period, ascending, with a column of counts per status; optionally ``people`` and ``unseen``.
        statuses: The statuses to stack.
        spans: The time span of each row.
    """
    tops = rows[statuses].to_numpy("int64").cumsum(axis=1)
    bottoms = np.column_stack([np.zeros(len(rows), "int64"), tops[:, :-1]])
    outline, line = spans.outline(), spans.line()
    traces = []
    for column, status in enumerate(statuses):
        traces.append(_area(status, outline, (bottoms[:, column], tops[:, column])))
        traces.append(_edge(status, line, rows[status].to_numpy("int64"), tops[:, column]))
    return [*traces, *_gap_area(spans, int(tops.max())), *_incomplete_markers(rows, spans, tops[:, -1])]


def lines(counts: NDArray[np.float64], names: Sequence[str], spans: ObservedSpans) -> list[go.Scatter]:
    """Create a line per group with a colour and dash of its own; lines after the eighth are grey.

    Args:
        counts: One row per period and one column per group; NaN: not observed yet.
        names: The names of the groups.
        spans: The time span of each row.
    """
    at, row = spans.line()
    traces = []
    for column, name in enumerate(names):
        traces.append(
            go.Scatter(
                name=label_text(name),
                x=at,
                y=np.where(row < 0, np.nan, counts[row, column]),
                mode="lines",
                line={"shape": "hv", **_line_style(column)},
                hovertemplate="%{y:,d}",
            )
        )
    return [*traces, *_gap_area(spans, int(np.nanmax(counts, initial=0)))]


def _line_style(number: int) -> dict[str, Any]:
    if number >= MAX_LINES:
        return {"color": GREY, "width": 1}
    dash = DASHES[(number + number // len(SERIES)) % len(DASHES)]
    return {"color": SERIES[number % len(SERIES)], "dash": dash, "width": 2}


def _area(status: str, outline: tuple[Texts, Ints, Any], bounds: tuple[Ints, Ints]) -> go.Scatter:
    at, row, lower = outline
    bottom, top = bounds
    colour = COLOURS.get(status, BLUE)
    return filled(
        at,
        _with_breaks(np.where(lower, bottom[row], top[row]), row),
        colour,
        name=label_text(status),
        legendgroup=label_text(status),
        fillpattern=fill_pattern(PATTERNS.get(status, ""), colour),
    )


def _edge(status: str, line: tuple[Texts, Ints], n: Ints, top: Ints) -> go.Scatter:
    """The upper edge of an area, which carries the hover text."""
    at, row = line
    return go.Scatter(
        name=label_text(status),
        legendgroup=label_text(status),
        showlegend=False,
        x=at,
        y=_with_breaks(top[row], row),
        customdata=_with_breaks(n[row], row),
        mode="lines",
        line={"width": 1, "color": COLOURS.get(status, BLUE), "shape": "hv"},
        hovertemplate="%{customdata:,d}",
    )


def _with_breaks(n: Ints, row: Ints) -> NDArray[np.float64]:
    """Replace numbers by NaN where a line breaks. An array, because Plotly validates lists element by element."""
    return np.where(row < 0, np.nan, n)


def _gap_area(spans: ObservedSpans, top: int) -> list[go.Scatter]:
    gaps = spans.gaps()
    if not len(gaps.starts):
        return []
    at, row, lower = gaps.outline()
    y = _with_breaks(np.where(lower, 0, max(top, 1)), row)
    pattern = fill_pattern("+", CLEAR, GREY, size=6, solidity=0.2)
    return [filled(at, y, CLEAR, name="no observations", fillpattern=pattern)]


def _incomplete_markers(rows: pd.DataFrame, spans: ObservedSpans, top: Ints) -> list[go.Scatter]:
    if "unseen" not in rows or "people" not in rows:
        return []
    is_incomplete = (rows["unseen"].fillna(0) > 0).to_numpy("bool")
    if not is_incomplete.any():
        return []
    pairs = rows.loc[is_incomplete, ["unseen", "people"]].astype("int64").to_numpy().tolist()
    markers = go.Scatter(
        name="incomplete run",
        x=iso_texts(spans.starts[is_incomplete]),
        y=top[is_incomplete].tolist(),
        customdata=[
            f"{unseen:,} of {pluralize(people, 'person', 'people')} not loaded completely"
            for unseen, people in pairs
        ],
        mode="markers",
        marker={"symbol": "triangle-down-open", "color": GREY, "size": 7},
        hovertemplate="%{customdata}",
    )
    return [markers]
