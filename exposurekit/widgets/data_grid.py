"""One page of a table in the browser, with a header that sorts, a box to select each row, and buttons to turn pages."""

from collections.abc import Callable
from typing import Any

import anywidget
import traitlets
from ipywidgets import HTML, Button, Dropdown, HBox, Layout

from exposurekit.widgets.asset_files import script, style

PAGES = (20, 50, 100)


class Grid(anywidget.AnyWidget):
    """Rows of text with a header that sorts and summarizes each column, a box beside each row, and a button that copies.

    Args:
        on_sort: Called with the name of a column.
        on_select: Called with the number of a row and whether it is selected.
        on_copy: Called to `copy` the rows, of which the browser has one page only.
    """

    _esm, _css = script("data_grid"), style("data_grid")
    caption = traitlets.Unicode().tag(sync=True)
    summaries: traitlets.List[dict[str, Any]] = traitlets.List().tag(sync=True)  # as of `summarize`
    columns = traitlets.List(traitlets.Unicode()).tag(sync=True)
    rows: traitlets.List[list[Any]] = traitlets.List().tag(sync=True)
    sort = traitlets.List([None, True]).tag(sync=True)
    selected = traitlets.List(traitlets.Int()).tag(sync=True)
    has_boxes = traitlets.Bool(True).tag(sync=True)
    nothing = traitlets.Unicode().tag(sync=True)  # in the place of rows, if there are none

    def __init__(self, on_sort: Any, on_select: Any, on_copy: Any) -> None:
        super().__init__()
        self._on_sort, self._on_select, self._on_copy = on_sort, on_select, on_copy
        self.on_msg(lambda _widget, content, _buffers: self._receive(content))

    def copy(self, text: str | None) -> None:
        """Have the browser copy a text; None: there is none, as an error occurred."""
        self.send({"csv": text})

    def _receive(self, content: Any) -> None:
        if not isinstance(content, dict):
            return
        if content.get("csv") is True:
            self._on_copy(None)
        if content.get("sort") in self.columns:
            self._on_sort(content["sort"])
        row, numbers = content.get("row"), {row[0] for row in self.rows}
        if type(row) is int and row in numbers and self.has_boxes:
            self._on_select((row, bool(content.get("selected"))))


class Pager(HBox):  # type: ignore[misc]  # ipywidgets has no types
    """Buttons that turn pages, the number of rows per page, and which rows are displayed.

    Args:
        on_turn: Called after another page or size was chosen.

    Attributes:
        page: The number of the page, from 0.
    """

    def __init__(self, on_turn: Callable[[Any], None]) -> None:
        self.page, self._total, self._on_turn = 0, 0, on_turn
        self._status = HTML()
        self._size = Dropdown(description="Rows", options=PAGES, value=PAGES[0])
        self._size.observe(lambda _: self._turn(-self.page), "value")
        buttons = [Button(description="Previous page"), Button(description="Next page")]
        for button, ahead in zip(buttons, (-1, 1), strict=True):
            button.on_click(lambda _, ahead=ahead: self._turn(ahead))
        super().__init__(
            [self._status, *buttons, self._size], layout=Layout(flex_flow="row wrap", align_items="center")
        )

    @property
    def size(self) -> int:
        """The number of rows on a page."""
        size: int = self._size.value
        return size

    @property
    def begin(self) -> int:
        """The number of the first row on the page, from 0."""
        return self.page * self.size

    def show(self, total: int) -> None:
        """Display which of the ``total`` rows are on the page."""
        self._total = total
        to = min(self.begin + self.size, total)
        self._status.value = (
            f'<p class="label" role="status">Rows {self.begin + 1 if to else 0:,} to {to:,} of {total:,}</p>'
        )

    def _turn(self, ahead: int) -> None:
        last = max(0, -(-self._total // self._size.value) - 1)
        self.page = max(0, min(last, self.page + ahead))
        self._on_turn(None)
