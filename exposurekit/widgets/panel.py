"""Base class of the widgets: a value that Jupyter displays, with a static fallback and visible errors."""

import secrets
from collections.abc import Callable, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, TypeVar

from IPython.display import publish_display_data
from ipywidgets import HTML, Button, VBox, Widget

from exposurekit.errors import ExposureError
from exposurekit.text.html_cards import stylesheet
from exposurekit.text.sanitize import escaped, plain

_WIDGET = "application/vnd.jupyter.widget-view+json"
_STATIC_NOTE = "A static copy of a widget: run its cell again to use it."
_BUSY = "exposurekit-busy"  # shows that something is being worked out
Callback = Callable[[Any], None]
WidgetT = TypeVar("WidgetT", bound=Widget)


class Panel(VBox):  # type: ignore[misc]  # ipywidgets has no types
    """A widget that is a value: a notebook displays it as the last expression of a cell.

    The notebook also receives static HTML of the same content. It is hidden while the live widget is there, and
    replaces it in a notebook that was saved, exported or is not trusted.

    Attributes:
        error: The exception of the last callback, or None.
    """

    def __init__(self, parts: Sequence[Widget]) -> None:
        self.error: Exception | None = None
        self._name = f"exposurekit-{secrets.token_hex(6)}"
        self._error_box = HTML()
        self._is_displayed = False
        self._running = 0  # callbacks, one of which may call another
        super().__init__([HTML(_style()), self._error_box, *parts])
        self._dom_classes = ("exposurekit", "exposurekit-panel", self._name)

    def line(self) -> str:
        """A summary in one line for a terminal, without personal data."""
        raise NotImplementedError

    def to_html(self) -> str:
        """Static HTML of the current content, without scripts."""
        raise NotImplementedError

    def to_output_html(self) -> str:
        """Static HTML for a notebook's output; it may draw charts with a script."""
        return self.to_html()

    def __repr__(self) -> str:
        return plain(self.line())

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:  # noqa: ARG002, FBT001  IPython's signature
        printer.text(repr(self))

    def _repr_html_(self) -> str:
        return f"<style>{stylesheet()}</style>{self.to_html()}"

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        live = {"version_major": 2, "version_minor": 0, "model_id": self._model_id}
        return {"text/plain": repr(self), _WIDGET: live}

    def _ipython_display_(self) -> None:
        publish(self._repr_mimebundle_())
        publish(self._fallback(), display_id=self._name)
        self._is_displayed = True

    def callback(self, action: Callback) -> Callback:
        """Wrap a callback: its errors are displayed in the widget and stored in ``error``; the fallback follows."""

        def run(change: Any) -> None:
            self.error, self._error_box.value = None, ""
            self.add_class(_BUSY)
            self._running += 1
            try:
                action(change)
            except Exception as error:  # noqa: BLE001  ipywidgets would only log it
                self._show_error(error)
            finally:
                self._running -= 1
            try:
                self.update_fallback()
            except Exception as error:  # noqa: BLE001  the same
                self._show_error(error)
            self.remove_class(_BUSY)

        return run

    def button(self, label: str, action: Callable[..., Any], *, kind: str = "", **options: Any) -> Button:
        """Create a button with a wrapped callback; of a kind: ``primary``, ``quiet`` or neither."""
        button = Button(description=label, **options)
        if kind:
            button.add_class(f"exposurekit-{kind}")
        button.on_click(self.callback(action))
        return button

    def _show_error(self, error: Exception) -> None:
        self.error = error
        self._error_box.value = f'<div class="alert" role="alert">{escaped(in_words(error))}</div>'

    def update_fallback(self) -> None:
        """Update the static HTML, so that a notebook saved now contains the current content; after a callback, once."""
        if self._is_displayed and not self._running:
            publish(self._fallback(), display_id=self._name, update=True)

    def _fallback(self) -> dict[str, str]:
        """The static HTML, hidden while the live widget is there; without it, what says so is hidden."""
        static = f"{self._name}-static"
        style = (
            f":root:has(.{self._name}) .{static}, "
            f":root:not(:has(.{self._name})) .jp-OutputArea-child:has(.jupyter-widgets)"
            f":has(+ .jp-OutputArea-child .{static}) "
            f"{{ display: none; }} "
            f"@media print {{ .{static} details::details-content {{ content-visibility: visible; }} }}"
        )
        content = f'{self.to_output_html()}<p class="label"><em>{_STATIC_NOTE}</em></p>'
        return {
            "text/html": f'<style>{stylesheet()}{style}</style><div class="exposurekit {static}">{content}</div>'
        }


def in_words(error: Exception) -> str:
    """What a widget says about an error; the text of another package may hold personal data."""
    is_ours = isinstance(error, ExposureError)
    return str(error) if is_ours else f"{type(error).__name__}: see the widget's .error"


@cache
def _style() -> str:
    own = files("exposurekit.widgets").joinpath("widgets.css").read_text("utf-8")
    return f"<style>{stylesheet()}{own}</style>"


def with_classes(widget: WidgetT, *names: str) -> WidgetT:
    """The widget, with these names as its classes in the style sheet."""
    widget._dom_classes = (*widget._dom_classes, *names)  # noqa: SLF001  one message in place of one a name
    return widget


def publish(bundle: dict[str, Any], *, display_id: str = "", update: bool = False) -> None:
    """Send an output to the notebook, or update the output with this display id."""
    transient = {"display_id": display_id} if display_id else {}
    publish_display_data(bundle, transient=transient, update=update)  # type: ignore[no-untyped-call]
