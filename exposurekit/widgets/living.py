"""Figures that are drawn anew where they stand, and tell of clicks. Knows nothing of what they show."""

from collections.abc import Callable
from typing import Any

import plotly.graph_objects as go

from exposurekit import charts

_PAD_PX = 28  # a second line lifts the first


def live(figure: charts.Chart) -> go.FigureWidget:
    """The figure as a widget, with the buttons of a chart."""
    living = go.FigureWidget(figure)
    living.update_layout(title=_title(figure))
    living._config = living._config | charts.CONFIG  # noqa: SLF001  there is no other way to set it
    return living


def redraw(living: go.FigureWidget, figure: charts.Chart) -> None:
    """Show another figure in its place; what listened to clicks does so no longer."""
    with living.batch_update():
        living.data = []
        living.add_traces(figure.data)
        living.layout = figure.layout
        living.update_layout(title=_title(figure))


def _title(figure: charts.Chart) -> dict[str, Any]:
    """The title with the provenance below it as lines of one text.

    A subtitle of its own is put where the title ends, and while a widget is drawn unseen that is nowhere.
    """
    title = figure.layout.title
    below = f'<span style="font-size:12px">{title.subtitle.text}</span>' if title.subtitle.text else None
    lines = [line for line in (title.text, below) if line]
    pad = title.pad.to_plotly_json() | ({"t": _PAD_PX} if len(lines) > 1 else {})
    return {"text": "<br>".join(lines), "subtitle": {"text": ""}, "pad": pad}


def listen(living: go.FigureWidget, act: Callable[[int, Any], None]) -> None:
    """Call with the place and the x of the first point that was clicked.

    Plotly tells every trace of a click, one after the other: only at the last one may there be others.
    """
    clicked: list[tuple[int, Any]] = []

    def told(_trace: Any, points: Any, _state: Any) -> None:
        clicked.extend(zip(points.point_inds, points.xs, strict=True))
        if points.trace_index == len(living.data) - 1 and clicked:
            first, clicked[:] = clicked[0], []
            act(*first)

    for trace in living.data:
        trace.on_click(told)
