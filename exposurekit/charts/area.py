"""Counts over time as Plotly draws them: areas on one another, or a line for each group. Draws nothing where nobody looked."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from numpy.typing import NDArray

from exposurekit.charts.theme import BLUE, COLOURS, DASHES, GREY, PATTERNS, SERIES, label_text, pluralize
from exposurekit.charts.time_gaps import Stretches, Texts, texts

LINES = 8
Ints = NDArray[np.int64]


def areas(rows: pd.DataFrame, statuses: list[str], when: Stretches) -> list[go.Scatter]:
    """An area for each status, the first at the bottom, and above them where nobody looked or not everybody was seen.

    Args:
        rows: One row a period, ascending: a column of counts for each status; ``people`` and ``unseen``, if it has these.
        statuses: What is stacked.
        when: When each row holds.
    """
    tops = rows[statuses].to_numpy("int64").cumsum(axis=1)
    bottoms = np.column_stack([np.zeros(len(rows), "int64"), tops[:, :-1]])
    outline, line = when.outline(), when.line()
    traces = []
    for place, status in enumerate(statuses):
        traces.append(_area(status, outline, (bottoms[:, place], tops[:, place])))
        traces.append(_edge(status, line, rows[status].to_numpy("int64"), tops[:, place]))
    return [*traces, *_gap_area(when, int(tops.max())), *_unobserved_area(rows, when, tops[:, -1])]


def lines(counts: NDArray[np.float64], names: Sequence[str], when: Stretches) -> list[go.Scatter]:
    """A line for each group, told apart by colour and dash; more than eight of them are the rest together, in grey.

    Args:
        counts: One row a period, one column a group; NaN: it was not known yet.
        names: Of the groups.
        when: When each row holds.
    """
    at, row = when.line()
    traces = []
    for place, name in enumerate(names):
        traces.append(
            go.Scatter(
                name=label_text(name),
                x=at,
                y=np.where(row < 0, np.nan, counts[row, place]),
                mode="lines",
                line={"shape": "hv", **_line(place)},
                hovertemplate="%{y:,d}",
            )
        )
    return [*traces, *_gap_area(when, int(np.nanmax(counts, initial=0)))]


def _line(place: int) -> dict[str, Any]:
    if place >= LINES:
        return {"color": GREY, "width": 1}
    dash = DASHES[(place + place // len(SERIES)) % len(DASHES)]
    return {"color": SERIES[place % len(SERIES)], "dash": dash, "width": 2}


def _area(status: str, outline: tuple[Texts, Ints, Any], between: tuple[Ints, Ints]) -> go.Scatter:
    at, row, lower = outline
    bottom, top = between
    colour = COLOURS.get(status, BLUE)
    return go.Scatter(
        name=label_text(status),
        legendgroup=label_text(status),
        x=at,
        y=_broken(np.where(lower, bottom[row], top[row]), row),
        mode="lines",
        line={"width": 0},
        fill="toself",
        fillcolor=colour,
        fillpattern={
            "shape": PATTERNS.get(status, ""),
            "bgcolor": colour,
            "fgcolor": "white",
            "solidity": 0.2,
        },
        hoverinfo="skip",
    )


def _edge(status: str, line: tuple[Texts, Ints], n: Ints, top: Ints) -> go.Scatter:
    """The upper edge of an area: what one points at."""
    at, row = line
    return go.Scatter(
        name=label_text(status),
        legendgroup=label_text(status),
        showlegend=False,
        x=at,
        y=_broken(top[row], row),
        customdata=_broken(n[row], row),
        mode="lines",
        line={"width": 1, "color": COLOURS.get(status, BLUE), "shape": "hv"},
        hovertemplate="%{customdata:,d}",
    )


def _broken(n: Ints, row: Ints) -> NDArray[np.float64]:
    """Numbers as Plotly draws them: nothing where a line breaks. Arrays it takes as they are, of lists it looks at each."""
    return np.where(row < 0, np.nan, n)


def _gap_area(when: Stretches, top: int) -> list[go.Scatter]:
    gaps = when.gaps()
    if not len(gaps.starts):
        return []
    at, row, lower = gaps.outline()
    ground = go.Scatter(
        name="nobody looked",
        x=at,
        y=_broken(np.where(lower, 0, max(top, 1)), row),
        mode="lines",
        line={"width": 0},
        fill="toself",
        fillcolor="rgba(0,0,0,0)",
        fillpattern={"shape": "+", "bgcolor": "rgba(0,0,0,0)", "fgcolor": GREY, "solidity": 0.2, "size": 6},
        hoverinfo="skip",
    )
    return [ground]


def _unobserved_area(rows: pd.DataFrame, when: Stretches, top: Ints) -> list[go.Scatter]:
    """A mark where the last look did not see everybody well."""
    if "unseen" not in rows or "people" not in rows:
        return []
    some = (rows["unseen"].fillna(0) > 0).to_numpy("bool")
    if not some.any():
        return []
    told = rows.loc[some, ["unseen", "people"]].astype("int64").to_numpy().tolist()
    marks = go.Scatter(
        name="not all seen well",
        x=texts(when.starts[some]),
        y=top[some].tolist(),
        customdata=[f"{unseen:,} of {pluralize(people, 'person', 'people')}" for unseen, people in told],
        mode="markers",
        marker={"symbol": "triangle-down-open", "color": GREY, "size": 7},
        hovertemplate="%{customdata}",
    )
    return [marks]
