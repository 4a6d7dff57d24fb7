"""A slider over several values, such as days; the value is read aloud, and sent when the slider is let go."""

from collections.abc import Sequence
from typing import Any

import anywidget
import traitlets

from exposurekit.widgets.asset_files import script, style


class Slider(anywidget.AnyWidget):
    """One of several values in order.

    Attributes:
        options: The values, from left to right.
        value: The picked value.
    """

    _esm, _css = script("slider"), style("slider")
    description = traitlets.Unicode().tag(sync=True)
    options = traitlets.List(traitlets.Unicode()).tag(sync=True)
    value = traitlets.Unicode().tag(sync=True)

    def __init__(self, description: str, options: Sequence[str], value: str) -> None:
        super().__init__(description=description, options=[*options], value=value)

    @traitlets.validate("value")
    def _valid(self, proposal: Any) -> str:
        """The proposed value, if it is one of the options: the browser may send any."""
        value: str = proposal["value"]
        return value if value in self.options else self.value
