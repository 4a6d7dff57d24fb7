"""The list of a work queue: one alert a row, with its person, minutes and progress; arrow keys move."""

from collections.abc import Sequence
from typing import Any

import anywidget
import traitlets

from exposurekit.widgets.dom import NODE

_SCRIPT = (
    NODE
    + """
function render({ model, el }) {
  const list = el.appendChild(node("div", { className: "exposurekit-list", tabIndex: 0 }));
  list.setAttribute("role", "listbox");
  list.setAttribute("aria-label", model.get("description"));
  const id = `exposurekit-list-${Math.random().toString(36).slice(2)}`;
  const choose = (value) => { model.set("value", value); model.save_changes(); };
  const select = () => {
    const value = model.get("value");
    for (const row of list.querySelectorAll("[role=option]")) {
      const isCurrent = Number(row.dataset.value) === value;
      row.setAttribute("aria-selected", isCurrent);
      if (!isCurrent) continue;
      list.setAttribute("aria-activedescendant", row.id);
      const above = row.offsetTop - list.scrollTop, below = above + row.offsetHeight - list.clientHeight;
      if (above < 0) list.scrollTop += above; else if (below > 0) list.scrollTop += below;
    }
  };
  const draw = () => {
    const scroll = list.scrollTop;
    list.replaceChildren(...model.get("items").map(([value, title, person, detail, side, done, steps, kind, state]) => {
      const bar = node("progress", { max: Math.max(steps, 1), value: done });
      bar.setAttribute("aria-hidden", "true");
      const row = node("div", { id: `${id}-${value}`, className: `row ${kind}` },
        node("span", { className: "title", textContent: title }), node("span", { className: "side", textContent: side }),
        node("span", { className: "person", textContent: person }), node("span", { className: "detail", textContent: detail }),
        node("span", { className: "steps-done" }, ...(steps ? [bar] : []), node("span", { className: "state", textContent: state })));
      row.setAttribute("role", "option");
      row.dataset.value = value;
      row.onclick = () => choose(value);
      return row;
    }));
    list.scrollTop = scroll;
    list.hidden = !list.children.length;
    select();
  };
  list.addEventListener("keydown", (event) => {
    const values = model.get("items").map(([value]) => value), at = values.indexOf(model.get("value"));
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: values.length - 1 }[event.key];
    if (to === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    event.stopPropagation();
    if (to >= 0 && to < values.length && to !== at) choose(values[to]);
  });
  model.on("change:items", draw);
  model.on("change:value", select);
  draw();
  return () => { model.off("change:items", draw); model.off("change:value", select); };
}
export default { render };
"""
)
_STYLE = """
.exposurekit-list { max-height: 44rem; overflow-y: auto; border: 1px solid var(--line); border-radius: 8px; position: relative; }
.exposurekit-list .row { display: grid; grid-template-columns: minmax(0, 1fr) auto; gap: 1px 10px; padding: 9px 12px 10px; cursor: pointer; border-left: 3px solid transparent; font-size: .8125rem; line-height: 1.4; }
.exposurekit-list .row + .row { border-top: 1px solid var(--line); }
.exposurekit-list .row:hover { background: var(--hover); }
.exposurekit-list .row[aria-selected="true"] { border-left-color: var(--accent); background: color-mix(in srgb, var(--accent) 11%, transparent); }
.exposurekit-list .title { font-weight: 600; font-size: .875rem; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.exposurekit-list .side { color: var(--soft); white-space: nowrap; font-variant-numeric: tabular-nums; }
.exposurekit-list .person, .exposurekit-list .detail { grid-column: 1 / -1; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.exposurekit-list .detail { color: var(--soft); }
.exposurekit-list .steps-done { grid-column: 1 / -1; display: flex; align-items: center; gap: 10px; margin-top: 3px; font-size: .75rem; color: var(--soft); }
.exposurekit-list .row progress { height: 4px; flex: 0 1 5rem; }
.exposurekit-list .done .title::before { content: "\\2713\\00a0"; color: inherit; }
@container (max-width: 760px) { .exposurekit-list { max-height: 16rem; } }
"""


class TaskList(anywidget.AnyWidget):
    """Alerts to pick from.

    Attributes:
        items: For each alert: its value, title (the site), person, detail, what stands at the side, the number of steps
            done and of all steps, a class of the style sheet, and its state in words.
        value: The value of the picked one, or None.
    """

    _esm, _css = _SCRIPT, _STYLE
    description = traitlets.Unicode().tag(sync=True)
    items: traitlets.List[list[Any]] = traitlets.List().tag(sync=True)
    value = traitlets.Int(None, allow_none=True).tag(sync=True)

    def show(self, items: Sequence[Sequence[Any]], value: int | None) -> None:
        """Replace the alerts and what is picked."""
        with self.hold_sync():
            self.items, self.value = [[*item] for item in items], value
