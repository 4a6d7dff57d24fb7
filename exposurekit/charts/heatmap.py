"""Heat maps: people in rows, sites or fields in columns, colour by count."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from exposurekit.charts.bars import label_rows
from exposurekit.charts.theme import BLACK, HOVER, Chart

# Both scales keep black text readable in light and dark themes.
BLUES = ((0.0, "#E3EFF7"), (1.0, "#5C9FCC"))
GREYS = ((0.0, "#EBEBEB"), (1.0, "#8C8C8C"))
_CELL_PX, _FRAME_PX = 24, 240
COLUMN_MAX = 20  # characters of the name of a column
_COLUMN_ANGLES = (0, -45)  # if the names do not fit side by side


def heatmap_px(rows: int) -> int:
    """Height of a heat map with this number of rows."""
    return _FRAME_PX + _CELL_PX * max(rows, 2)


def heatmap(
    n: NDArray[Any],
    hover: Sequence[Sequence[str]],
    *,
    zmax: float,
    scale: Sequence[tuple[float, str]] = BLUES,
    **options: Any,
) -> go.Heatmap:
    """Create a heat map trace.

    Args:
        n: The counts; NaN leaves a cell empty.
        hover: The hover text of each cell, already escaped.
        zmax: The count with the darkest colour.
        scale: Colour scale, light to dark.
        options: More options of `plotly.graph_objects.Heatmap`.
    """
    return go.Heatmap(
        z=[[None if np.isnan(count) else int(count) for count in row] for row in n.astype("float64")],
        x=[*range(n.shape[1])],
        y=[*range(n.shape[0])],
        customdata=[[*row] for row in hover],
        hovertemplate=HOVER,
        hoverongaps=False,
        colorscale=[[*step] for step in scale],
        zmin=0,
        zmax=max(zmax, 1),
        xgap=2,
        ygap=2,
        texttemplate="%{z:,d}",
        textfont={"color": BLACK},  # readable on the darkest cell, too
        showscale=False,
        **options,
    )


def label_axes(figure: Chart, rows: Sequence[str], columns: Sequence[str]) -> Chart:
    """Label the rows and the columns, by names already escaped."""
    ticks = [*range(len(columns))]
    extent = [-0.5, max(len(columns), 6) - 0.5]  # few columns do not stretch over the whole width
    figure.update_xaxes(
        range=extent,
        tickvals=ticks,
        ticktext=[*columns],
        autotickangles=_COLUMN_ANGLES,
        showgrid=False,
        ticks="",
    )
    figure.update_yaxes(ticks="")
    return label_rows(figure, rows)
