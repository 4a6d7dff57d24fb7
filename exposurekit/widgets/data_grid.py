"""One page of a table in the browser, with a header that sorts, a box to select each row, and buttons to turn pages."""

from collections.abc import Callable
from typing import Any

import anywidget
import traitlets
from ipywidgets import HTML, Button, Dropdown, HBox, Layout

PAGES = (20, 50, 100)

_SCRIPT = """
const append = (name, within, words) => {
  const node = document.createElement(name);
  if (words !== undefined) node.textContent = words;
  if (within) within.appendChild(node);
  return node;
};
const arrow = (model, column) => {
  const [by, ascending] = model.get("sort");
  return by === column ? (ascending ? " ▲" : " ▼") : "";
};
const aria = { "": "none", " ▲": "ascending", " ▼": "descending" };
const draw = (model, table) => {
  const focused = table.contains(document.activeElement) ? document.activeElement.dataset.name : null;
  table.replaceChildren();
  append("caption", table, model.get("caption"));
  const head = append("tr", append("thead", table));
  append("th", head, "").setAttribute("aria-label", "selected");
  for (const column of model.get("columns")) {
    const cell = append("th", head);
    cell.scope = "col";
    const button = append("button", cell, column + arrow(model, column));
    button.type = "button";
    button.dataset.name = "sort " + column;
    button.setAttribute("aria-label", "sort by " + column);
    cell.setAttribute("aria-sort", aria[arrow(model, column)]);
    button.onclick = () => model.send({ sort: column });
  }
  const body = append("tbody", table);
  for (const [index, values] of model.get("rows")) {
    const line = append("tr", body);
    const box = append("input", append("td", line));
    box.type = "checkbox";
    box.checked = model.get("selected").includes(index);
    box.dataset.name = "row " + index;
    box.setAttribute("aria-label", "select row " + index);
    box.onchange = () => model.send({ row: index, selected: box.checked });
    for (const value of values) append("td", line, value);
  }
  if (focused) [...table.querySelectorAll("[data-name]")].find((one) => one.dataset.name === focused)?.focus();
};
// Charts beside the grid were drawn before their width was known: they measure again. A slider of ipywidgets has no
// accessible name.
const settle = () => {
  window.dispatchEvent(new Event("resize"));
  for (const slider of document.querySelectorAll(".exposurekit-panel .widget-slider")) {
    const handle = slider.querySelector("[role=slider]");
    if (handle) handle.setAttribute("aria-label", slider.querySelector("label")?.textContent || "slider");
  }
};
function render({ model, el }) {
  const around = append("div", el);
  around.style.overflowX = "auto";
  const table = append("table", around);
  table.className = "exposurekit-grid";
  const redraw = () => draw(model, table);
  for (const name of ["rows", "sort", "selected", "caption"]) model.on("change:" + name, redraw);
  redraw();
  for (const after of [100, 1000]) setTimeout(settle, after);
  return () => { for (const name of ["rows", "sort", "selected", "caption"]) model.off("change:" + name, redraw); };
}
export default { render };
"""
_STYLE = """
.exposurekit-grid { border-collapse: collapse; font-size: 0.9em; }
.exposurekit-grid caption { text-align: left; padding: 0.3em 0; }
.exposurekit-grid th, .exposurekit-grid td {
  border-bottom: 1px solid rgba(127, 127, 127, 0.35); padding: 0.25em 0.7em; text-align: left;
  max-width: 28em; overflow: hidden; text-overflow: ellipsis; white-space: nowrap;
}
.exposurekit-grid button { all: unset; cursor: pointer; font-weight: bold; }
.exposurekit-grid button:focus-visible { outline: 2px solid #0072B2; outline-offset: 2px; }
"""


class Grid(anywidget.AnyWidget):
    """Rows of text with a header that sorts, and a box beside each row.

    Args:
        on_sort: Called with the name of a column.
        on_select: Called with the number of a row and whether it is selected.
    """

    _esm, _css = _SCRIPT, _STYLE
    caption = traitlets.Unicode().tag(sync=True)
    columns = traitlets.List(traitlets.Unicode()).tag(sync=True)
    rows: traitlets.List[list[Any]] = traitlets.List().tag(sync=True)
    sort = traitlets.List([None, True]).tag(sync=True)
    selected = traitlets.List(traitlets.Int()).tag(sync=True)

    def __init__(self, on_sort: Any, on_select: Any) -> None:
        super().__init__()
        self._on_sort, self._on_select = on_sort, on_select
        self.on_msg(lambda _widget, content, _buffers: self._receive(content))

    def _receive(self, content: Any) -> None:
        if not isinstance(content, dict):
            return
        if content.get("sort") in self.columns:
            self._on_sort(content["sort"])
        row, numbers = content.get("row"), {row[0] for row in self.rows}
        if type(row) is int and row in numbers:
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
        self._size = Dropdown(description="Rows", options=PAGES, value=PAGES[0], layout=Layout(width="12em"))
        self._size.observe(lambda _: self._turn(-self.page), "value")
        buttons = [Button(description="Previous page"), Button(description="Next page")]
        for button, ahead in zip(buttons, (-1, 1), strict=True):
            button.on_click(lambda _, ahead=ahead: self._turn(ahead))
        super().__init__([*buttons, self._size, self._status], layout=Layout(flex_flow="row wrap"))

    def rows(self, total: int) -> slice:
        """Return which of so many rows are on the page, and display it."""
        begin, self._total = self.page * self._size.value, total
        to = min(begin + self._size.value, total)
        self._status.value = f'<p role="status">Rows {begin + 1 if to else 0:,} to {to:,} of {total:,}</p>'
        return slice(begin, to)

    def _turn(self, ahead: int) -> None:
        last = max(0, -(-self._total // self._size.value) - 1)
        self.page = max(0, min(last, self.page + ahead))
        self._on_turn(None)
