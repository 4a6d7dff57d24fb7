"""Traces of counts over time: stacked areas by status, or one row per group, with gaps where nothing was observed."""

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
    GREY,
    PATTERNS,
    fill_pattern,
    filled,
    label_text,
)
from exposurekit.charts.time_gaps import ObservedSpans, Texts, iso_texts
from exposurekit.text.formatting import pluralize

MAX_GROUPS = 8
_FRAME_PX, _STRIP_PX, _STRIP_SPACE, _STRIP_OPACITY = 170, 38, 0.14, 0.25
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


def strips(
    counts: NDArray[np.float64], names: Sequence[str], newest: Sequence[int], spans: ObservedSpans
) -> tuple[list[go.Scatter], dict[str, Any]]:
    """Create one row per group, with its axis from 0 to its scale: its counts as an area, its name before it, its newest count behind.

    Args:
        counts: One row per period and one column per group; NaN: not observed yet.
        names: The names of the groups, first at the top.
        newest: The newest count of each group.
        spans: The time span of each row.

    Returns:
        The traces, and the options of the layout.
    """
    scales = strip_scales(counts)
    line, outline = spans.line(), spans.outline()
    traces: list[go.Scatter] = []
    layout: dict[str, Any] = {"annotations": []}
    for column, name in enumerate(names):
        number = len(names) - column  # from below: the first axis is at the bottom, where time has its labels
        axis = "y" if number == 1 else f"y{number}"
        colour = BLUE if column < MAX_GROUPS else GREY
        traces += _strip(
            counts[:, column], label_text(name), (line, outline), {"colour": colour, "axis": axis}
        )
        layout[f"yaxis{axis[1:]}"] = _strip_axis(name, scales[column], number, len(names))
        layout["annotations"].append(_newest(newest[column], axis, scales[column]))
    # Over all rows.
    every = f"y{len(names) + 1}"
    layout[f"yaxis{every[1:]}"] = {"domain": [0, 1], "range": [0, 1], "visible": False, "fixedrange": True}
    gaps = _gap_area(spans, 1)
    return [*traces, *(gap.update(yaxis=every) for gap in gaps)], layout


def strip_scales(counts: NDArray[np.float64]) -> list[float]:
    """The end of each row's axis: the same for all, but for a row of the rest, which would flatten the others.

    >>> import numpy as np
    >>> from exposurekit.charts.area import MAX_GROUPS, strip_scales
    >>> strip_scales(np.array([[2.0] * MAX_GROUPS + [90.0]]))[-2:]
    [2.0, 90.0]
    """
    most = max(float(np.nanmax(counts[:, :MAX_GROUPS], initial=0)), 1)
    rest = [max(float(np.nanmax(column, initial=0)), 1) for column in counts[:, MAX_GROUPS:].T]
    return [most] * min(counts.shape[1], MAX_GROUPS) + [max(n, most) for n in rest]


def strips_px(rows: int) -> int:
    """The height of a chart of so many rows."""
    return _FRAME_PX + _STRIP_PX * max(rows, 2)


def _strip(
    n: NDArray[np.float64], name: str, spans: tuple[Any, Any], style: dict[str, str]
) -> tuple[go.Scatter, go.Scatter]:
    (at, row), (corners, corner_row, lower) = spans
    heights = np.where(lower & ~np.isnan(n[corner_row]), 0, n[corner_row])
    fill = filled(
        corners,
        np.where(corner_row < 0, np.nan, heights),
        style["colour"],
        opacity=_STRIP_OPACITY,
        yaxis=style["axis"],
        showlegend=False,
    )
    edge = go.Scatter(
        name=name,
        x=at,
        y=np.where(row < 0, np.nan, n[row]),
        yaxis=style["axis"],
        mode="lines",
        line={"shape": "hv", "color": style["colour"], "width": 1.5},
        hovertemplate="%{y:,d}",
        showlegend=False,
    )
    return fill, edge


def _strip_axis(name: str, most: float, number: int, rows: int) -> dict[str, Any]:
    return {
        "domain": [(number - 1) / rows, (number - _STRIP_SPACE) / rows],
        "range": [0, most],
        "tickvals": [most / 2],
        "ticktext": [label_text(name)],
        "showgrid": False,
        "zeroline": True,
        "zerolinecolor": GREY,
        "zerolinewidth": 0.5,
        "fixedrange": True,
        "title": None,
    }


def _newest(n: int, axis: str, most: float) -> dict[str, Any]:
    return {
        "text": f"{n:,}",
        "xref": "paper",
        "x": 1,
        "xanchor": "left",
        "xshift": 6,
        "yref": axis,
        "y": most / 2,
        "showarrow": False,
    }


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
