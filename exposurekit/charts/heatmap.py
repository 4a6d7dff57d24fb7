"""A field of cells, people down and something else across: the fuller, the deeper. Draws nothing where nothing is."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from exposurekit.charts.bars import as_rows
from exposurekit.charts.theme import BLACK, Chart

# Cells have a ground of their own, so that their figures read on white and on black.
DEEP = ((0.0, "#FBE8DA"), (1.0, "#D55E00"))
GREYS = ((0.0, "#EBEBEB"), (1.0, "#8C8C8C"))
_CELL_PX, _REST_PX = 24, 240


def grid_px(rows: int) -> int:
    """How high a field of so many rows is."""
    return _REST_PX + _CELL_PX * max(rows, 2)


def cells(
    n: NDArray[Any],
    said: Sequence[Sequence[str]],
    *,
    full: float,
    scale: Sequence[tuple[float, str]] = DEEP,
    **look: Any,
) -> go.Heatmap:
    """The cells; those that are missing have no ground.

    Args:
        n: One row a row, one column a column; NaN: nothing is drawn.
        said: Of each cell what it is, and how many, for those who point at it; `named` by then.
        full: The number that is deepest.
        scale: From pale to deep.
        look: More of Plotly's heat map.
    """
    return go.Heatmap(
        z=[[None if np.isnan(one) else int(one) for one in row] for row in n.astype("float64")],
        x=[*range(n.shape[1])],
        y=[*range(n.shape[0])],
        customdata=[[*row] for row in said],
        hovertemplate="%{customdata}<extra></extra>",
        hoverongaps=False,
        colorscale=[[*step] for step in scale],
        zmin=0,
        zmax=max(full, 1),
        xgap=2,
        ygap=2,
        texttemplate="%{z:,d}",
        textfont={"color": BLACK},  # reads on the deepest ground, too
        showscale=False,
        **look,
    )


def column_labels(figure: Chart, rows: Sequence[str], columns: Sequence[str]) -> Chart:
    """Names at the side and below."""
    places = [*range(len(columns))]
    room = [-0.5, max(len(columns), 6) - 0.5]  # few columns do not grow as wide as the page
    figure.update_xaxes(range=room, tickvals=places, ticktext=[*columns], tickangle=-45, showgrid=False)
    return as_rows(figure, rows)
