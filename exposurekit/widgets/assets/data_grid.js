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
    append("span", line, words, "value").dir = "auto";
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
      if (!right[position]) cell.dir = "auto";
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
