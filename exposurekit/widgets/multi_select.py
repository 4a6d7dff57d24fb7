"""A picker of several values, each with its count: chips if they are few, else a list that opens and can be searched."""

from collections.abc import Mapping, Sequence
from typing import Any

import anywidget
import traitlets

from exposurekit.widgets.dom import NODE

CHIPS_MAX = 6
_SCRIPT = (
    NODE
    + """
let count = 0;
function render({ model, el }) {
  const id = `exposurekit-pick-${++count}-${Math.random().toString(36).slice(2)}`;
  const group = el.appendChild(node("div", { className: "exposurekit-pick", role: "group" }));
  const name = node("span", { className: "label", id, textContent: model.get("description") });
  group.setAttribute("aria-labelledby", id);
  let search = "", isOpen = false;
  const index = () => model.get("index");
  const pick = (position, on) => {
    const picked = index().filter((one) => one !== position);
    model.set("index", on ? [...picked, position] : picked);
    model.save_changes();
  };
  const focused = () => (group.contains(document.activeElement) ? document.activeElement.dataset.at : undefined);
  function chips(items) {
    const row = node("div", { className: "exposurekit-chips" });
    items.forEach(([text, n, kind], position) => {
      const button = node("button", { type: "button", className: `chip ${kind}` }, node("span", { textContent: text }));
      if (n !== null) button.append(node("span", { className: "count", textContent: n.toLocaleString("en") }));
      button.dataset.at = `chip ${position}`;
      button.setAttribute("aria-pressed", index().includes(position));
      button.onclick = () => pick(position, !index().includes(position));
      row.append(button);
    });
    if (!items.length) row.append(node("span", { className: "soft", textContent: "none" }));
    return row;
  }
  function list(items) {
    const picked = index(), details = node("details", { open: isOpen, className: "exposurekit-pop" });
    const first = picked.length ? items[picked[0]]?.[0] : model.get("everything");
    const summary = node("summary", { className: "exposurekit-button" },
      node("span", { className: "value", textContent: first }),
      ...(picked.length > 1 ? [node("span", { className: "count", textContent: `+${picked.length - 1}` })] : []));
    summary.dataset.at = "summary";
    summary.setAttribute("aria-label", `${model.get("description")}: ${picked.map((one) => items[one]?.[0]).join(", ") || model.get("everything")}`);
    const box = node("input", { type: "search", placeholder: "Find", value: search, autocomplete: "off", spellcheck: false });
    box.setAttribute("aria-label", `Find in ${model.get("description")}`);
    box.dataset.at = "find";
    const rows = node("div", { className: "options" });
    const draw = () => {
      const key = search.toLowerCase();
      rows.replaceChildren(...items.flatMap(([text, n, kind], position) => {
        if (key && !text.toLowerCase().includes(key)) return [];
        const check = node("input", { type: "checkbox", checked: picked.includes(position) });
        check.dataset.at = `option ${position}`;
        check.onchange = () => pick(position, check.checked);
        const label = node("label", {}, check, node("span", { className: "value", textContent: text }));
        if (n !== null) label.append(node("span", { className: "count", textContent: n.toLocaleString("en") }));
        return [label];
      }));
      if (!rows.children.length) rows.append(node("p", { className: "soft", textContent: "Nothing matches." }));
    };
    box.oninput = () => { search = box.value; draw(); };
    draw();
    const all = node("button", { type: "button", className: "exposurekit-button", textContent: `Show ${model.get("everything")}` });
    all.dataset.at = "all";
    all.disabled = !picked.length;
    all.onclick = () => { model.set("index", []); model.save_changes(); };
    details.append(summary, node("div", { className: "panel" }, ...(items.length > 8 ? [box] : []), rows, all));
    details.ontoggle = () => { isOpen = details.open; if (isOpen) box.focus(); };
    details.onkeydown = (event) => {
      if (event.key !== "Escape" || !details.open) return;
      event.stopPropagation();
      details.open = false;
      summary.focus();
    };
    return details;
  }
  const draw = () => {
    const at = focused(), items = model.get("items"), scroll = group.querySelector(".options")?.scrollTop;
    group.replaceChildren(name, model.get("is_compact") ? list(items) : chips(items));
    const rows = group.querySelector(".options");
    if (rows && scroll) rows.scrollTop = scroll;
    if (at) [...group.querySelectorAll("[data-at]")].find((one) => one.dataset.at === at)?.focus();
  };
  const away = (event) => {
    const details = group.querySelector("details");
    if (details?.open && !group.contains(event.target)) details.open = false;
  };
  let waiting = false;  // several changes at once are drawn once
  const later = () => {
    if (waiting) return;
    waiting = true;
    queueMicrotask(() => { waiting = false; draw(); });
  };
  const names = ["change:items", "change:index", "change:is_compact"];
  names.forEach((one) => model.on(one, later));
  document.addEventListener("pointerdown", away);
  draw();
  return () => {
    names.forEach((one) => model.off(one, later));
    document.removeEventListener("pointerdown", away);
  };
}
export default { render };
"""
)
_STYLE = """
.exposurekit-pick { display: flex; flex-direction: column; gap: 4px; min-width: 0; position: relative; }
.exposurekit-chips { display: flex; flex-flow: row wrap; gap: 6px; }
.exposurekit-panel .exposurekit-chips .chip { height: 34px; background: transparent; color: inherit; font: 500 .8125rem/1 var(--font); cursor: pointer; padding: 0 12px; }
.exposurekit-panel .exposurekit-chips .chip:hover { background: var(--hover); }
.exposurekit-panel .exposurekit-chips .chip[aria-pressed="true"] { background: var(--accent); border-color: var(--accent); color: var(--on-accent); }
.exposurekit-panel .exposurekit-chips .chip[aria-pressed="true"]::before { box-shadow: 0 0 0 1.5px var(--on-accent); }
.exposurekit-pick .count { font-variant-numeric: tabular-nums; color: var(--soft); }
.exposurekit-pick [aria-pressed="true"] .count { color: inherit; }
.exposurekit-pop > summary { display: inline-flex; align-items: center; gap: 8px; list-style: none; max-width: 100%; min-width: 10rem; }
.exposurekit-pop > summary::-webkit-details-marker { display: none; }
.exposurekit-pop > summary::after { content: ""; width: .45em; height: .45em; margin: -.2em 0 0 auto; border: solid; border-width: 0 1.5px 1.5px 0; rotate: 45deg; flex: none; }
.exposurekit-pop > summary .value, .exposurekit-pop label .value { overflow: hidden; text-overflow: ellipsis; white-space: nowrap; min-width: 0; }
.exposurekit-pop > summary .value { padding: .2em 0; }
.exposurekit-pop > .panel { position: relative; margin-top: 6px; width: min(20rem, 100%); padding: 8px; border: 1px solid var(--line); border-radius: 8px; display: grid; gap: 6px; background: var(--jp-layout-color0, Canvas); z-index: 3; }
.exposurekit-pop .options { display: grid; max-height: 16rem; overflow-y: auto; }
.exposurekit-pop label { display: flex; align-items: center; gap: 8px; padding: 4px 6px; border-radius: 6px; font-size: .8125rem; cursor: pointer; min-width: 0; }
.exposurekit-pop label .count { margin-left: auto; }
.exposurekit-pop label:hover { background: var(--hover); }
.exposurekit-panel .exposurekit-pop label input { margin: 0; }
@container (max-width: 480px) { .exposurekit-panel .exposurekit-pop > summary { width: 100%; } }
.exposurekit-pop input[type="search"] { height: 32px; padding: 0 10px; border: 1px solid var(--line); border-radius: 8px; background: transparent; color: inherit; font: inherit; font-size: .8125rem; min-width: 0; }
"""


class MultiSelect(anywidget.AnyWidget):
    """Values to pick from, each with its count.

    Args:
        description: What the values are, such as ``Sites``.
        everything: What it says while nothing is picked.

    Attributes:
        options: Pairs of label and value.
        value: The picked values, in the order of the options.
    """

    _esm, _css = _SCRIPT, _STYLE
    description = traitlets.Unicode().tag(sync=True)
    everything = traitlets.Unicode("all").tag(sync=True)
    items: traitlets.List[list[Any]] = traitlets.List().tag(sync=True)  # label, count or None, class
    index: traitlets.List[int] = traitlets.List().tag(sync=True)
    is_compact = traitlets.Bool().tag(sync=True)
    value = traitlets.Tuple()

    def __init__(self, description: str, *, everything: str = "all") -> None:
        self.options: list[tuple[str, Any]] = []
        self._is_updating = False
        super().__init__(description=description, everything=everything)

    def offer(
        self,
        options: Sequence[tuple[str, Any]],
        picked: Sequence[Any] = (),
        *,
        counts: Mapping[Any, int] | None = None,
        classes: Mapping[Any, str] | None = None,
    ) -> None:
        """Replace the options and what is picked of them.

        Args:
            options: Pairs of label and value.
            picked: Values; those without an option are dropped.
            counts: How many rows have each value; None: none is shown.
            classes: Classes of the style sheet, such as a status's.
        """
        self._is_updating = True
        try:
            self.options = [*options]
            values = [value for _, value in self.options]
            with self.hold_sync():
                self.items = [
                    [
                        label,
                        None if counts is None else int(counts.get(value, 0)),
                        (classes or {}).get(value, ""),
                    ]
                    for label, value in self.options
                ]
                self.is_compact = len(self.options) > CHIPS_MAX
                self.index = [values.index(value) for value in picked if value in values]
            self.value = tuple(values[position] for position in self.index)
        finally:
            self._is_updating = False

    @traitlets.observe("index")
    def _index_changed(self, change: Any) -> None:
        if not self._is_updating:
            positions = [one for one in change["new"] if type(one) is int and 0 <= one < len(self.options)]
            self.value = tuple(self.options[position][1] for position in positions)

    @traitlets.observe("value")
    def _value_changed(self, change: Any) -> None:
        if not self._is_updating:
            values = [value for _, value in self.options]
            self._is_updating = True
            try:
                self.index = [values.index(value) for value in change["new"] if value in values]
            finally:
                self._is_updating = False
