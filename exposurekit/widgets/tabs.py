"""Tabs in groups above a chart card; where they have no room, a list to pick from."""

from collections.abc import Sequence
from typing import Any

import anywidget
import traitlets

from exposurekit.widgets.asset_files import script, style


class Tabs(anywidget.AnyWidget):
    """One of several values, as a tab of its group.

    Attributes:
        options: The group, the label and the value of each tab.
        value: The picked value.
        displayed: The value that the card below displays; while it is another one, the card is marked as busy.
    """

    _esm, _css = script("tabs"), style("tabs")
    description = traitlets.Unicode().tag(sync=True)
    options: traitlets.List[list[str]] = traitlets.List().tag(sync=True)
    value = traitlets.Unicode().tag(sync=True)
    displayed = traitlets.Unicode().tag(sync=True)

    def __init__(self, description: str, options: Sequence[tuple[str, str, str]], value: str) -> None:
        super().__init__(
            description=description, options=[[*one] for one in options], value=value, displayed=value
        )

    @traitlets.validate("value")
    def _valid(self, proposal: Any) -> str:
        """The proposed value, if it is one of the options: the browser may send any."""
        value: str = proposal["value"]
        return value if any(value == one for *_, one in self.options) else self.value
