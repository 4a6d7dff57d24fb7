"""Charts as HTML that draws itself without a network: for exported notebooks, and for the pages of reports.

nbconvert knows no Plotly. The HTML of a chart holds its figure, packed; and the first chart that a kernel shows in a
notebook brings plotly.js with it, for all of them.
"""

import base64
import gzip
import json
from functools import cache
from importlib.resources import files
from typing import Any

import plotly.offline

VENDORED = (
    "4.1.1"  # of plotly.js, its cartesian bundle: all types of trace that are used here, a third of the whole
)
_NUDGE = "<script>globalThis.exposurekitCharts?.()</script>"


class _Session:
    """Which cell's output holds plotly.js, for one kernel; an empty name: none."""

    def __init__(self) -> None:
        self.shell: Any = None
        self.carrier = ""

    def brings(self) -> bool:
        """Whether the chart that is shown now has to bring plotly.js."""
        from IPython import get_ipython

        shell: Any = get_ipython()
        if shell is not self.shell:
            self.shell, self.carrier = shell, ""
            shell.events.register("pre_run_cell", self._begins)
        if self.carrier:
            return False
        self.carrier = self._cell(shell.history_manager.input_hist_raw[-1])
        return True

    def _begins(self, info: Any) -> None:
        """What a cell showed is gone when it runs again, or when it is deleted."""
        is_deleted = self.carrier in self._metadata().get("deletedCells", ())
        if is_deleted or self._cell(info.raw_cell) == self.carrier:
            self.carrier = ""

    def _cell(self, code: str) -> str:
        """The current cell's id; its code where the front end tells no id."""
        return str(self._metadata().get("cellId") or code)

    def _metadata(self) -> dict[str, Any]:
        told: dict[str, Any] = self.shell.get_parent().get("metadata") or {}
        return told


_session = _Session()


def in_terminal() -> bool:
    """Whether nothing here shows HTML: no kernel runs."""
    from IPython import get_ipython

    return not hasattr(get_ipython(), "get_parent")


def embedded(figure: dict[str, Any], words: str) -> str:
    """A figure as HTML for a kernel's output; with plotly.js where no other output of the notebook has it.

    Args:
        figure: ``data``, ``layout`` and ``config``.
        words: The HTML that stands there until it is drawn; what it says is the alternative text then.
    """
    # Its words are said once.
    shown = figure | {"layout": {name: part for name, part in figure["layout"].items() if name != "meta"}}
    packed = _packed(json.dumps(shown, separators=(",", ":")))
    chart = f'<figure class="exposurekit-chart" style="margin:0">{words}<script type="text/plain">{packed}</script></figure>'
    return chart + (_library() if _session.brings() else _NUDGE)


def plotly_js(installed: str | None = None) -> str:
    """The script that draws: the small bundle that is kept here, where the installed Plotly speaks its language.

    Args:
        installed: The version of plotly.js that the figures are made for; None: that of the installed Plotly.
    """
    if speaks_vendored(installed):
        return _file("vendored/plotly-cartesian.min.js")
    whole: str = plotly.offline.get_plotlyjs()
    return whole


def speaks_vendored(installed: str | None = None) -> bool:
    """Whether figures are made for the plotly.js that is kept here; ``installed`` as of `plotly_js`."""
    made_for: str = installed or plotly.offline.get_plotlyjs_version()
    return made_for.partition(".")[0] == VENDORED.partition(".")[0]


def drawing_js() -> str:
    """The script that fits a figure to where it stands."""
    return _file("drawing.js")


@cache
def _library() -> str:
    code = f"const module = {{ exports: {{}} }};\n{plotly_js()}\n{drawing_js()}return drawing.bind(null, module.exports);"
    return (
        f'<script type="text/plain" class="exposurekit-drawing">{_packed(code)}</script>'
        f"<script>{_file('embedding.js')}</script>"
    )


def _packed(text: str) -> str:
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()


@cache
def _file(name: str) -> str:
    return files("exposurekit.charts").joinpath(name).read_text("utf-8")
