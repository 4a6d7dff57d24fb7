"""The list of a work queue: one alert a row, with its person, minutes and progress; arrow keys move."""

from collections.abc import Sequence
from typing import Any

import anywidget
import traitlets

from exposurekit.widgets.asset_files import script, style


class TaskList(anywidget.AnyWidget):
    """Alerts to pick from.

    Attributes:
        items: For each alert: its value, title (the site), person, detail, what stands at the side, the number of steps
            done and of all steps, a class of the style sheet, and its state in words.
        value: The value of the picked one, or None.
    """

    _esm, _css = script("task_list"), style("task_list")
    description = traitlets.Unicode().tag(sync=True)
    items: traitlets.List[list[Any]] = traitlets.List().tag(sync=True)
    value = traitlets.Int(None, allow_none=True).tag(sync=True)

    def show(self, items: Sequence[Sequence[Any]], value: int | None) -> None:
        """Replace the alerts and what is picked."""
        with self.hold_sync():
            self.items, self.value = [[*item] for item in items], value
