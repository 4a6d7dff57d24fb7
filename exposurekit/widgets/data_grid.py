"""One page of a table in the browser, with a header that sorts, a box to select each row, and buttons to turn pages."""

from collections.abc import Callable
from typing import Any

import anywidget
import traitlets
from ipywidgets import HTML, Button, Dropdown, HBox, Layout

from exposurekit.text.html_cards import copy_script

PAGES = (20, 50, 100)

_SCRIPT = (
    copy_script()
    + """
const append = (name, within, words, className) => {
  const node = document.createElement(name);
  if (words !== undefined) node.textContent = words;
  if (className) node.className = className;
  if (within) within.appendChild(node);
  return node;
};
const write = (node, words) => { if (node.textContent !== words) node.textContent = words; };
const SVG = "http://www.w3.org/2000/svg", WIDTH = 96, HEIGHT = 26;
const STATUSES = { discovered: "discovered", "pending removal": "pending-removal", removed: "removed", vanished: "vanished" };
const histogram = (bars, within) => {
  const svg = within.appendChild(document.createElementNS(SVG, "svg"));
  svg.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("aria-hidden", "true");
  bars.forEach((height, position) => {
    const bar = svg.appendChild(document.createElementNS(SVG, "rect")), width = WIDTH / bars.length;
    const tall = height ? Math.max(height * HEIGHT, 1.5) : 0;
    const place = { x: position * width + 0.5, y: HEIGHT - tall, width: Math.max(width - 1, 0.5), height: tall };
    for (const [name, value] of Object.entries(place)) bar.setAttribute(name, value);
  });
};
const summarize = ({ bars, range, top, note, missing }, within) => {
  const box = append("div", within, undefined, "summary");
  if (bars.length) {
    histogram(bars, box);
    const ends = append("span", box, undefined, "ends");
    append("span", ends, range[0]);
    if (range[1] !== range[0]) append("span", ends, range[1]);
  }
  for (const [words, share, percentage] of top) {
    const line = append("span", box, undefined, "top");
    line.style.setProperty("--share", `${100 * share}%`);
    append("span", line, words, "value");
    append("span", line, percentage, "share");
  }
  const notes = [note, missing && `${missing} missing`].filter(Boolean).join(" · ");
  if (notes) append("span", box, notes, "note");
};
const NAMES = ["caption", "columns", "summaries", "has_boxes", "rows", "sort", "selected"];
const arrow = (model, column) => {
  const [by, ascending] = model.get("sort");
  return by === column ? (ascending ? " ▲" : " ▼") : "";
};
const aria = { "": "none", " ▲": "ascending", " ▼": "descending" };
// The edge of a head: dragged, or moved with the arrow keys; Home and a double click restore the width.
const LEAST_PX = 60, STEP_PX = 16;
const edge = (column, cell, widths) => {
  const handle = append("span", cell, undefined, "edge"), inner = cell.firstChild;
  handle.tabIndex = 0;
  handle.dataset.name = "width " + column;
  handle.dataset.lmSuppressShortcuts = "true";  // a notebook has its own meaning of arrows
  for (const [name, value] of [["role", "separator"], ["aria-orientation", "vertical"], ["aria-label", "width of " + column],
    ["aria-valuemin", LEAST_PX], ["aria-valuemax", 2000]]) handle.setAttribute(name, value);
  const place = () => {
    const width = widths.get(column);
    for (const side of ["width", "minWidth", "maxWidth"]) inner.style[side] = width ? `${width}px` : "";
    handle.setAttribute("aria-valuenow", width ?? 120);
    const at = [...cell.parentNode.children].indexOf(cell);
    for (const line of cell.closest("table").tBodies[0]?.rows ?? []) {
      const below = line.children[at];
      if (below && below.colSpan === 1) below.style.maxWidth = width ? `${width}px` : "";
    }
  };
  const set = (width) => {
    if (width === null) widths.delete(column); else widths.set(column, Math.min(2000, Math.max(LEAST_PX, Math.round(width))));
    place();
  };
  handle.onkeydown = (event) => {
    const by = { ArrowLeft: -STEP_PX, ArrowRight: STEP_PX }[event.key];
    if (by === undefined && event.key !== "Home") return;
    event.preventDefault();
    event.stopPropagation();
    set(by === undefined ? null : inner.offsetWidth + by);
  };
  handle.ondblclick = () => set(null);
  handle.onpointerdown = (event) => {
    const from = event.clientX, width = inner.offsetWidth;
    handle.setPointerCapture(event.pointerId);
    handle.onpointermove = (move) => set(width + move.clientX - from);
    handle.onlostpointercapture = () => { handle.onpointermove = null; };
  };
  return place;
};
const drawHead = (model, head, widths) => {
  const summaries = model.get("summaries");
  head.replaceChildren();
  if (model.get("has_boxes")) append("td", head);
  return model.get("columns").map((column, position) => {
    const cell = append("th", head);
    cell.scope = "col";
    const inner = append("div", cell, undefined, "head");
    const button = append("button", inner);
    button.type = "button";
    button.dataset.name = "sort " + column;
    button.setAttribute("aria-label", "sort by " + column);
    button.onclick = () => model.send({ sort: column });
    if (summaries[position]?.is_number) cell.classList.add("number");
    if (summaries[position]) summarize(summaries[position], inner);
    return { column, cell, button, place: edge(column, cell, widths) };
  });
};
const drawBody = (model, body) => {
  const columns = model.get("columns"), summaries = model.get("summaries"), hasBoxes = model.get("has_boxes");
  const right = columns.map((_, position) => summaries[position]?.is_number);
  body.replaceChildren();
  const lines = model.get("rows").map(([index, values]) => {
    const line = append("tr", body), box = hasBoxes ? append("input", append("td", line)) : null;
    if (box) {
      box.type = "checkbox";
      box.dataset.name = "row " + index;
      box.setAttribute("aria-label", "select row " + index);
      box.onchange = () => model.send({ row: index, selected: box.checked });
    }
    values.forEach((value, position) => {
      const cell = append("td", line, undefined, right[position] ? "number" : "");
      const kind = columns[position] === "status" && Object.hasOwn(STATUSES, value) && STATUSES[value];
      if (kind) append("span", cell, value, `chip ${kind}`); else cell.textContent = value;
      if (value.length > 30) cell.title = value;
    });
    return { index, line, box };
  });
  if (!lines.length) {
    const cell = append("td", append("tr", body), undefined);
    cell.colSpan = columns.length + 1;
    append("div", cell, model.get("nothing"), "empty");
  }
  return lines;
};
const showOrder = (model, heads) => {
  for (const { column, cell, button } of heads) {
    const sorted = arrow(model, column);
    write(button, column + sorted);
    cell.setAttribute("aria-sort", aria[sorted]);
  }
};
const showTicks = (model, lines) => {
  for (const { index, line, box } of lines) {
    const isSelected = model.get("selected").includes(index);
    line.classList.toggle("selected", isSelected);
    if (box) box.checked = isSelected;
  }
};
function render({ model, el }) {
  const bar = append("div", el, undefined, "exposurekit-grid-bar");
  const caption = append("span", bar, "", "label"), button = append("button", bar, "Copy as CSV", "exposurekit-button");
  caption.setAttribute("aria-hidden", "true");
  button.type = "button";
  button.onclick = () => { button.textContent = "Copying …"; model.send({ csv: true }); };
  let waiting = null;
  const report = (words) => {
    button.textContent = words;
    clearTimeout(waiting);
    waiting = setTimeout(() => { button.textContent = "Copy as CSV"; }, 2000);
  };
  const receive = async (message) => {
    if (typeof message?.csv === "string") report((await copy(message.csv)) ? "Copied" : "Not allowed here");
    else if (message?.csv === null) report("Copy as CSV");
  };
  const around = append("div", el, undefined, "exposurekit-grid-box");
  around.tabIndex = 0;
  around.setAttribute("role", "group");
  around.setAttribute("aria-label", "table");
  const table = append("table", around);
  table.className = "exposurekit-grid";
  const title = append("caption", table, "", "visually-hidden");
  const head = append("tr", append("thead", table)), body = append("tbody", table);
  const widths = new Map();  // by column, as set by hand
  const changed = new Set(NAMES);
  let heads, lines;
  // Only what changed, so that no element in use is replaced.
  const redraw = () => {
    const focused = table.contains(document.activeElement) ? document.activeElement.dataset.name : null;
    const news = new Set(changed), hasNew = (...names) => names.some((name) => news.has(name));
    changed.clear();
    const isNew = hasNew("columns", "summaries", "has_boxes");
    if (isNew) heads = drawHead(model, head, widths);
    if (isNew || hasNew("sort")) showOrder(model, heads);
    if (isNew || hasNew("rows")) {
      lines = drawBody(model, body);
      for (const { place } of heads) place();
    }
    if (isNew || hasNew("rows", "selected")) showTicks(model, lines);
    for (const node of [caption, title]) write(node, model.get("caption"));
    if (!focused || document.activeElement.dataset.name === focused) return;
    [...table.querySelectorAll("[data-name]")].find((one) => one.dataset.name === focused)?.focus();
  };
  const listeners = NAMES.map((name) => ["change:" + name, () => {
    changed.add(name);
    if (changed.size === 1) queueMicrotask(redraw);
  }]);
  for (const [name, listener] of listeners) model.on(name, listener);
  model.on("msg:custom", receive);
  redraw();
  return () => {
    clearTimeout(waiting);
    for (const [name, listener] of listeners) model.off(name, listener);
    model.off("msg:custom", receive);
  };
}
export default { render };
"""
)
_STYLE = """
.exposurekit-grid-bar { display: flex; align-items: center; justify-content: space-between; gap: 12px; flex-wrap: wrap; margin-bottom: 8px; }
.exposurekit-grid-box { overflow: auto; max-width: 100%; border: 1px solid var(--line); border-radius: 8px; }
.exposurekit-panel table.exposurekit-grid { border-collapse: separate; border-spacing: 0; font-size: .8125rem; width: 100%; }
.exposurekit-grid th, .exposurekit-grid td {
  border-bottom: 1px solid var(--line); padding: 6px 12px; text-align: left; line-height: 1.4;
  max-width: 22rem; overflow: hidden; text-overflow: ellipsis; white-space: nowrap;
}
.exposurekit-grid tbody tr:last-child td { border-bottom: 0; }
.exposurekit-grid tbody tr:hover { background: var(--hover); }
.exposurekit-grid tbody tr.selected { background: color-mix(in srgb, var(--accent) 11%, transparent); }
.exposurekit-grid td.number { text-align: right; font-variant-numeric: tabular-nums; }
.exposurekit-grid thead td { background: var(--tint); }
.exposurekit-grid thead th { vertical-align: top; background: var(--tint); padding: 0; font-weight: 400; height: 1px; position: relative; }
.exposurekit-grid .head { display: flex; flex-direction: column; gap: 6px; min-width: 7.5rem; padding: 8px 12px; height: 100%; overflow: hidden; }
.exposurekit-grid .edge { position: absolute; inset: 0 0 0 auto; width: 9px; cursor: col-resize; touch-action: none; border-right: 1px solid var(--line); }
.exposurekit-grid .edge:is(:hover, :focus-visible) { border-right: 3px solid var(--accent); }
.exposurekit-grid th:last-child .edge { border-right-color: transparent; }
.exposurekit-grid .head button { all: unset; cursor: pointer; font-weight: 600; overflow: hidden; text-overflow: ellipsis; }
.exposurekit-grid .number .head button { align-self: flex-end; }
.exposurekit-grid .head button:hover { text-decoration: underline; text-underline-offset: 3px; }
.exposurekit-grid .head button:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; border-radius: 3px; }
.exposurekit-grid .summary { display: grid; gap: 2px; font-size: .6875rem; line-height: 1.35; max-width: 11rem; }
.exposurekit-grid .summary svg { width: 100%; height: 26px; fill: color-mix(in srgb, var(--accent) 60%, transparent); border-bottom: 1px solid var(--line); }
.exposurekit-grid .ends, .exposurekit-grid .top { display: flex; justify-content: space-between; gap: 8px; font-variant-numeric: tabular-nums; }
.exposurekit-grid .top { background: linear-gradient(color-mix(in srgb, var(--accent) 22%, transparent) 0 0) 0 / var(--share) 100% no-repeat; border-radius: 3px; padding: 0 4px; max-width: 11rem; }
.exposurekit-grid .top .value { overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.exposurekit-grid .note { color: var(--soft); }
.exposurekit-grid td .empty { border: 0; padding: 28px 12px; white-space: normal; }
"""


class Grid(anywidget.AnyWidget):
    """Rows of text with a header that sorts and summarizes each column, a box beside each row, and a button that copies.

    Args:
        on_sort: Called with the name of a column.
        on_select: Called with the number of a row and whether it is selected.
        on_copy: Called to `copy` the rows, of which the browser has one page only.
    """

    _esm, _css = _SCRIPT, _STYLE
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
        """Display which of so many rows are on the page."""
        self._total = total
        to = min(self.begin + self.size, total)
        self._status.value = (
            f'<p class="label" role="status">Rows {self.begin + 1 if to else 0:,} to {to:,} of {total:,}</p>'
        )

    def _turn(self, ahead: int) -> None:
        last = max(0, -(-self._total // self._size.value) - 1)
        self.page = max(0, min(last, self.page + ahead))
        self._on_turn(None)
