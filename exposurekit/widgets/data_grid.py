"""One page of a table in the browser: it is told which rows to show, and tells what was clicked. Holds no table."""

from typing import Any

import anywidget
import traitlets

_SCRIPT = """
const made = (name, within, words) => {
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
const drawn = (model, table) => {
  const focused = table.contains(document.activeElement) ? document.activeElement.dataset.name : null;
  table.replaceChildren();
  made("caption", table, model.get("caption"));
  const head = made("tr", made("thead", table));
  made("th", head, "").setAttribute("aria-label", "selected");
  for (const column of model.get("columns")) {
    const cell = made("th", head);
    cell.scope = "col";
    const button = made("button", cell, column + arrow(model, column));
    button.type = "button";
    button.dataset.name = "sort " + column;
    button.setAttribute("aria-label", "sort by " + column);
    cell.setAttribute("aria-sort", aria[arrow(model, column)]);
    button.onclick = () => model.send({ sort: column });
  }
  const body = made("tbody", table);
  for (const [index, values] of model.get("rows")) {
    const line = made("tr", body);
    const box = made("input", made("td", line));
    box.type = "checkbox";
    box.checked = model.get("selected").includes(index);
    box.dataset.name = "row " + index;
    box.setAttribute("aria-label", "select row " + index);
    box.onchange = () => model.send({ row: index, selected: box.checked });
    for (const value of values) made("td", line, value);
  }
  if (focused) [...table.querySelectorAll("[data-name]")].find((one) => one.dataset.name === focused)?.focus();
};
// What stands beside it and is as wide as its place was drawn before it had one: it measures again. And a slider of
// ipywidgets does not tell its name to those who do not see it.
const settled = () => {
  window.dispatchEvent(new Event("resize"));
  for (const slider of document.querySelectorAll(".exposurekit-panel .widget-slider")) {
    const handle = slider.querySelector("[role=slider]");
    if (handle) handle.setAttribute("aria-label", slider.querySelector("label")?.textContent || "slider");
  }
};
function render({ model, el }) {
  const around = made("div", el);
  around.style.overflowX = "auto";
  const table = made("table", around);
  table.className = "exposurekit-grid";
  const draw = () => drawn(model, table);
  for (const name of ["rows", "sort", "selected", "caption"]) model.on("change:" + name, draw);
  draw();
  for (const after of [100, 1000]) setTimeout(settled, after);
  return () => { for (const name of ["rows", "sort", "selected", "caption"]) model.off("change:" + name, draw); };
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
    """Some rows of text: a header that sorts, and a box beside each row.

    Args:
        sorted_by: Called with the name of a column.
        chosen: Called with a row's number, and whether it is selected.
    """

    _esm, _css = _SCRIPT, _STYLE
    caption = traitlets.Unicode().tag(sync=True)
    columns = traitlets.List(traitlets.Unicode()).tag(sync=True)
    rows: traitlets.List[list[Any]] = traitlets.List().tag(sync=True)
    sort = traitlets.List([None, True]).tag(sync=True)
    selected = traitlets.List(traitlets.Int()).tag(sync=True)

    def __init__(self, sorted_by: Any, chosen: Any) -> None:
        super().__init__()
        self._sorted_by, self._chosen = sorted_by, chosen
        self.on_msg(lambda _widget, content, _buffers: self._heard(content))

    def _heard(self, content: Any) -> None:
        if not isinstance(content, dict):
            return
        if content.get("sort") in self.columns:
            self._sorted_by(content["sort"])
        row, shown = content.get("row"), {row[0] for row in self.rows}
        if type(row) is int and row in shown:
            self._chosen((row, bool(content.get("selected"))))
