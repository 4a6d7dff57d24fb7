"""Self-contained chart HTML for exported notebooks and reports, drawn offline.

nbconvert does not draw Plotly figures, so the HTML of a chart contains its compressed figure. The first chart of a
notebook also contains plotly.js, which all charts of the notebook share. The first widget with charts contains it again:
JupyterLab shows the HTML of widgets, but not that of charts.
"""

import base64
import gzip
import json
from functools import cache
from importlib.resources import files
from typing import Any

import plotly.offline

# plotly.js, cartesian bundle: all trace types used here, at a third of the full size
VENDORED_VERSION = "4.1.1"
_DRAW = "<script>globalThis.exposurekitCharts?.()</script>"


class _Session:
    """Tracks the cell of a kernel whose output contains plotly.js.

    Attributes:
        shell: The kernel's IPython shell.
        library_cell: The cell's id, or its code; empty: none.
    """

    def __init__(self) -> None:
        self.shell: Any = None
        self.library_cell = ""

    def needs_library(self) -> bool:
        """Return whether the current output must contain plotly.js, and record its cell if so."""
        from IPython import get_ipython

        shell: Any = get_ipython()
        if shell is not self.shell:
            self.shell, self.library_cell = shell, ""
            shell.events.register("pre_run_cell", self._on_run_cell)
        if self.library_cell:
            return False
        self.library_cell = self._cell(shell.history_manager.input_hist_raw[-1])
        return True

    def _on_run_cell(self, info: Any) -> None:
        """Forget the cell if it runs again or was deleted, because its output is gone."""
        is_deleted = self.library_cell in self._metadata().get("deletedCells", ())
        if is_deleted or self._cell(info.raw_cell) == self.library_cell:
            self.library_cell = ""

    def _cell(self, code: str) -> str:
        """The id of the current cell; its code if the front end sends no id."""
        return str(self._metadata().get("cellId") or code)

    def _metadata(self) -> dict[str, Any]:
        metadata: dict[str, Any] = self.shell.get_parent().get("metadata") or {}
        return metadata


_charts, _widgets = _Session(), _Session()


def in_terminal() -> bool:
    """Return whether no kernel is running, so that HTML is not displayed."""
    from IPython import get_ipython

    return not hasattr(get_ipython(), "get_parent")


def embed_html(figure: dict[str, Any], fallback: str) -> str:
    """Return a figure as HTML for a kernel's output, with plotly.js unless another chart of the notebook has it.

    Args:
        figure: ``data``, ``layout`` and ``config``.
        fallback: HTML to show until the figure is drawn; then its text is the alternative text.
    """
    return embed_figure(figure, fallback) + (_library() if _charts.needs_library() else "")


def embed_figure(figure: dict[str, Any], fallback: str) -> str:
    """Return a figure as HTML as `embed_html` does, but without plotly.js, which another output has."""
    packed = _gzip_base64(json.dumps(without_meta(figure), separators=(",", ":")))
    return f'<figure class="exposurekit-chart" style="margin:0">{fallback}<script type="text/plain">{packed}</script></figure>{_DRAW}'


def without_meta(figure: dict[str, Any]) -> dict[str, Any]:
    """Return a figure without its metadata, as its texts stand beside it."""
    layout = {name: part for name, part in figure["layout"].items() if name != "meta"}
    return figure | {"layout": layout}


def widget_library() -> str:
    """Return plotly.js as HTML for the output of a widget, unless another widget of the notebook has it."""
    return _library() if _widgets.needs_library() else ""


def plotly_js(installed: str | None = None) -> str:
    """Return plotly.js: the small vendored bundle if compatible, else the full one of the installed Plotly.

    Args:
        installed: Version of plotly.js for which the figures were created; None: that of the installed Plotly.
    """
    if is_vendored_compatible(installed):
        return _file("vendored/plotly-cartesian.min.js")
    full: str = plotly.offline.get_plotlyjs()
    return full


def is_vendored_compatible(installed: str | None = None) -> bool:
    """Return whether the vendored plotly.js has the major version of the installed one; `installed` as in `plotly_js`."""
    version: str = installed or plotly.offline.get_plotlyjs_version()
    return version.partition(".")[0] == VENDORED_VERSION.partition(".")[0]


def drawing_js() -> str:
    """Return the script that draws a figure in its container, and fits it to the width."""
    return _file("fitting.js") + _file("drawing.js")


@cache
def drawing_module() -> str:
    """Return plotly.js and `drawing_js` as the body of a function that returns their function ``drawing``."""
    return f"const module = {{ exports: {{}} }};\n{plotly_js()}\n{drawing_js()}return drawing.bind(null, module.exports);"


@cache
def _library() -> str:
    return (
        f'<script type="text/plain" class="exposurekit-drawing">{_gzip_base64(drawing_module())}</script>'
        f"<script>{_file('embedding.js')}</script>"
    )


def _gzip_base64(text: str) -> str:
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()


@cache
def _file(name: str) -> str:
    return files("exposurekit.charts").joinpath(name).read_text("utf-8")
