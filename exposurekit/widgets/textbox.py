"""A text box that reports its value during typing, and offers completions."""

import anywidget
import traitlets

from exposurekit.widgets.asset_files import script, style


class TextBox(anywidget.AnyWidget):
    """One line of text; ``value`` follows a quarter of a second after the last key, or immediately on Enter.

    Attributes:
        value: The text in the box.
        options: Completions that the browser offers.
    """

    _esm, _css = script("textbox"), style("textbox")
    description = traitlets.Unicode().tag(sync=True)
    placeholder = traitlets.Unicode().tag(sync=True)
    value = traitlets.Unicode().tag(sync=True)
    options = traitlets.List(traitlets.Unicode()).tag(sync=True)
