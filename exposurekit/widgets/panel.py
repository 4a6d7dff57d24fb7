"""What every widget has in common: it is a value that Jupyter shows, with a static twin, and its errors are seen."""

import secrets
from collections.abc import Callable, Sequence
from typing import Any

from IPython.display import publish_display_data
from ipywidgets import HTML, VBox, Widget

from exposurekit.errors import ExposureError
from exposurekit.text.sanitize import escaped, plain

_WIDGET = "application/vnd.jupyter.widget-view+json"
_STYLE = """<style>
.exposurekit-panel .widget-checkbox, .exposurekit-panel .widget-label-basic { height: auto; white-space: normal; }
.exposurekit-panel .widget-label-basic { line-height: 1.5; align-items: flex-start; }
.exposurekit-panel a { color: var(--jp-content-link-color, #0059a3); text-decoration: underline; }
.exposurekit-panel { --jp-widgets-disabled-opacity: 0.8; }
.exposurekit-panel .js-plotly-plot :is(.gtitle, .xtitle, .ytitle, .x2title, .y2title, .legendtext, .bartext-outside),
.exposurekit-panel .js-plotly-plot :is(.xtick, .ytick, .x2tick, .y2tick, .textpoint) text,
.exposurekit-panel .js-plotly-plot .annotation-text {
  fill: var(--jp-content-font-color1, currentColor) !important;  /* Plotly knows one colour; a page has two themes */
}
.exposurekit-panel :focus-visible { outline: 2px solid #0072B2; outline-offset: 2px; }
.exposurekit-trouble { border-left: 4px solid #D55E00; padding: .3em .8em; }
</style>"""
Answer = Callable[[Any], None]


class Panel(VBox):  # type: ignore[misc]  # ipywidgets tells no types
    """A widget that is a value: it shows itself where a notebook displays it, and nowhere else.

    Beside what is live a notebook is given a static twin of the same content. It is hidden while the live one is there,
    and stands in its place where a notebook was saved, exported, or is not trusted.
    """

    def __init__(self, parts: Sequence[Widget]) -> None:
        self.error: Exception | None = None
        self._name = f"exposurekit-{secrets.token_hex(6)}"
        self._trouble = HTML()
        self._is_shown = False
        super().__init__([HTML(_STYLE), self._trouble, *parts])
        self.add_class("exposurekit-panel")
        self.add_class(self._name)

    def line(self) -> str:
        """What it is, in one line, for a terminal; no personal data."""
        raise NotImplementedError

    def to_html(self) -> str:
        """The static twin: what it shows now, without anything that runs."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return plain(self.line())

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:  # noqa: ARG002, FBT001  as IPython calls it
        printer.text(repr(self))

    def _repr_html_(self) -> str:
        return self.to_html()

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        live = {"version_major": 2, "version_minor": 0, "model_id": self._model_id}
        return {"text/plain": repr(self), _WIDGET: live}

    def _ipython_display_(self) -> None:
        _publish(self._repr_mimebundle_())
        _publish(self._twin(), display_id=self._name)
        self._is_shown = True

    def answering(self, act: Answer) -> Answer:
        """A callback whose errors are shown in the widget, and kept as ``error``."""

        def answer(change: Any) -> None:
            self.error, self._trouble.value = None, ""
            try:
                act(change)
            except Exception as error:  # noqa: BLE001  whatever it is, it would be lost in a log
                self._tell(error)
            try:
                self.renew()
            except Exception as error:  # noqa: BLE001  the same
                self._tell(error)

        return answer

    def _tell(self, error: Exception) -> None:
        known = isinstance(error, ExposureError)
        said = str(error) if known else f"{type(error).__name__}: the widget's .error holds it"
        self.error = error
        self._trouble.value = f'<div class="exposurekit-trouble" role="alert">{escaped(said)}</div>'

    def renew(self) -> None:
        """Have the twin say what is so now, so that a notebook that is saved says it too."""
        if self._is_shown:
            _publish(self._twin(), display_id=self._name, update=True)

    def _twin(self) -> dict[str, str]:
        hidden = f":root:has(.{self._name}) .{self._name}-twin {{ display: none; }}"
        return {"text/html": f'<style>{hidden}</style><div class="{self._name}-twin">{self.to_html()}</div>'}


def _publish(bundle: dict[str, Any], *, display_id: str = "", update: bool = False) -> None:
    transient = {"display_id": display_id} if display_id else {}
    publish_display_data(bundle, transient=transient, update=update)  # type: ignore[no-untyped-call]
