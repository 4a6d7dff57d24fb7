"""Charts as widgets: redrawn in place, with click handlers."""

import hashlib
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import anywidget
import traitlets
from ipywidgets import HTML, VBox, Widget, widget_serialization

from exposurekit import charts
from exposurekit.charts.embedding import drawing_module, without_meta
from exposurekit.charts.theme import CLEAR, figure_json
from exposurekit.text.sanitize import isolated, with_unbroken_dates
from exposurekit.widgets.asset_files import script

_HEIGHT_PX = 420  # of a chart that states none
_EMPTY = '<div class="empty"><strong>Nothing to draw</strong><span>{}</span></div>'
_NOT_OBSERVED = "No such event has been observed yet."
_NO_MATCH = "Nothing matches the filters and the day. Clear them, or pick others."
_DIM = 0.25  # of a bar that is not marked, where others are
_TOP_PX = 12  # above a chart, whose title is not within it
# plotly.js, and what draws with it, is sent once for all charts of a page. A widget of one column is narrow on a phone alone:
# charts side by side keep their height whatever a sidebar leaves them.
_SCRIPT = script("figure_widget")


class Library(anywidget.AnyWidget):
    """plotly.js and the script that draws with it, sent once for all charts of a kernel."""

    _esm = "export default { render() {} };"
    code = traitlets.Unicode().tag(sync=True)


class FigureView(anywidget.AnyWidget):
    """A chart as a widget.

    Attributes:
        chart: What is displayed.
        figure: The same as the browser receives it, without its title and metadata.
    """

    _esm = _SCRIPT
    _library = traitlets.Instance(Widget).tag(sync=True, **widget_serialization)
    _version = traitlets.Unicode().tag(sync=True)
    figure: "traitlets.Dict[str, Any]" = traitlets.Dict().tag(sync=True)

    def __init__(self, chart: charts.Chart) -> None:
        self.chart = chart
        self._action: Callable[[int, Any], None] | None = None
        super().__init__(figure=_figure(chart))
        self.on_msg(lambda _widget, content, _buffers: self._receive(content))

    def redraw(self, chart: charts.Chart) -> None:
        """Display another chart in its place, and forget what to do on clicks."""
        self.chart, self._action = chart, None
        self.figure = _figure(chart)

    def on_click(self, action: Callable[[int, Any], None]) -> None:
        """Call with the row and the x of the first clicked point, from now on this action alone."""
        self._action = action

    @traitlets.default("_library")
    def _default_library(self) -> Library:
        return _library()

    @traitlets.default("_version")
    def _default_version(self) -> str:
        return _version()

    def _receive(self, content: Any) -> None:
        if isinstance(content, dict) and type(row := content.get("row")) is int and row >= 0 and self._action:
            self._action(row, content.get("x"))


_libraries: list[Library] = []


def _library() -> Library:
    if not _libraries or _libraries[-1].comm is None:  # closing all widgets closes it, too
        _libraries[:] = [Library(code=_code())]
    return _libraries[-1]


@cache
def _version() -> str:
    """What differs between two kernels of a page whose scripts do."""
    return hashlib.sha256(f"{_SCRIPT}{_code()}".encode()).hexdigest()


def _code() -> str:
    return f"export default (() => {{ {drawing_module()} }})();"


def align(figures: Sequence[charts.Chart]) -> None:
    """Make charts that stand side by side equally tall below their titles."""
    tops = [figure.layout.margin.t or 0 for figure in figures]
    heights = [figure.layout.height or _HEIGHT_PX for figure in figures]
    tallest = max(height - top for height, top in zip(heights, tops, strict=True))
    for figure, top in zip(figures, tops, strict=True):
        figure.update_layout(height=tallest + top)


def mark(figure: charts.Chart, is_marked: Sequence[bool]) -> None:
    """Dim the bars of unmarked rows; without any mark, no bar is dimmed.

    Args:
        figure: A chart with a bar of each trace in every row.
        is_marked: For each row, from the first; later rows are unmarked.
    """
    for bar in figure.select_traces({"type": "bar"}):
        rows = [*is_marked, *[False] * (len(bar.y) - len(is_marked))]
        bar.marker.opacity = [1 if one else _DIM for one in rows] if any(is_marked) else [1] * len(rows)


def _figure(chart: charts.Chart) -> dict[str, Any]:
    """What plotly.js receives: no title, which stands above the chart, and the background of the page."""
    figure = without_meta(figure_json(chart))
    layout = figure["layout"]
    margin = layout.get("margin", {})
    height = (layout.get("height") or _HEIGHT_PX) - max(margin.get("t", 0) - _TOP_PX, 0)
    changes = {"margin": {**margin, "t": _TOP_PX}, "height": height, "paper_bgcolor": CLEAR}
    return figure | {"layout": {name: part for name, part in (layout | changes).items() if name != "title"}}


class ChartCard(VBox):  # type: ignore[misc]  # ipywidgets has no types
    """A chart below its finding and its provenance.

    Args:
        figure: The chart.
        controls: Widgets above it.
        source: What stands above all cards, so that it is left out of the provenance.

    Attributes:
        view: The chart as a widget.
    """

    def __init__(self, figure: charts.Chart, *controls: Widget, source: str = "") -> None:
        self.view, self._head, self._controls = FigureView(figure), HTML(), controls
        self._parts: tuple[Widget, ...] = ()
        self._empty = HTML(_EMPTY.format(_NOT_OBSERVED))
        super().__init__()
        self._dom_classes = ("exposurekit-chart-card",)
        self._show(figure, source)

    def show(self, figure: charts.Chart, *, is_filtered: bool = False, source: str = "") -> None:
        """Display another chart, and remove the click handlers; without data, it says whether filters may be why."""
        self.view.redraw(figure)
        self._empty.value = _EMPTY.format(_NO_MATCH if is_filtered else _NOT_OBSERVED)
        self._show(figure, source)

    def show_error(self, message: str) -> None:
        """Display an error in the place of the chart."""
        self._head.value = (
            '<div class="empty" role="alert"><strong>This chart could not be drawn</strong>'
            f"<span>{isolated(message)}</span></div>"
        )
        self._parts = self.children = (*self._controls, self._head)

    def _show(self, figure: charts.Chart, source: str) -> None:
        children = (*self._controls, self._head, self.view if figure.data else self._empty)
        if children != self._parts:
            self._parts = self.children = children
        meta = figure.layout.meta
        self._head.value = (
            f'<h2 class="headline">{with_unbroken_dates(meta["finding"])}</h2>'
            f'<p class="label">{isolated(meta["provenance"].removeprefix(source).removeprefix(" · "))}</p>'
            f'<p class="visually-hidden">{isolated(charts.describe(figure))}</p>'
        )
