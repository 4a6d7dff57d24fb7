"""Tabs in groups above a chart card; where they have no room, a list to pick from."""

from collections.abc import Sequence
from typing import Any

import anywidget
import traitlets

from exposurekit.widgets.dom import NODE

_SCRIPT = (
    NODE
    + """
let count = 0;
function render({ model, el }) {
  const id = `exposurekit-tab-${++count}-${Math.random().toString(36).slice(2)}`, name = model.get("description");
  const options = model.get("options").map(([group, text, value], at) => ({ group, text, value, id: `${id}-${at}` }));
  const groups = [...new Set(options.map((one) => one.group))].map((text, at) => {
    const members = options.filter((one) => one.group === text);
    return { text, members, recent: members[0], id: `${id}-group-${at}` };
  });
  // Tabs, of which one is in the order of the keyboard, and arrows pick the others.
  const tabs = (label, items, pick) => {
    const all = items.map((item) => {
      const tab = node("button", { type: "button", role: "tab", id: item.id, textContent: item.text });
      tab.onclick = () => pick(item);
      return tab;
    });
    const list = node("div", { className: "list", role: "tablist", ariaLabel: label }, ...all);
    list.dataset.lmSuppressShortcuts = "true";  // a notebook has its own meaning of arrows
    list.onkeydown = (event) => {
      const at = all.indexOf(document.activeElement), last = all.length - 1;
      const to = { ArrowRight: at === last ? 0 : at + 1, ArrowLeft: at ? at - 1 : last, Home: 0, End: last }[event.key];
      if (at < 0 || to === undefined) return;
      event.preventDefault();
      event.stopPropagation();
      all[to].focus();
      all[to].click();
    };
    const mark = (picked) => all.forEach((tab, at) => {
      tab.setAttribute("aria-selected", items[at] === picked);
      tab.tabIndex = items[at] === picked ? 0 : -1;
    });
    return { list, mark };
  };
  const card = () => el.parentElement?.querySelector(".exposurekit-chart-card");
  // The chart of the tab before stays until the kernel has drawn the next one.
  const follow = () => {
    const value = model.get("value"), option = options.find((one) => one.value === value);
    const group = groups.find((one) => one.members.includes(option));
    group.recent = option;  // to which a return to the group leads
    ofGroups.mark(group);
    for (const one of groups) {
      one.panel.hidden = one !== group;
      one.tabs.mark(one.recent);
    }
    select.value = value;
    const panel = card(), isWaiting = value !== model.get("displayed");
    if (!panel) return;
    panel.setAttribute("role", "tabpanel");
    panel.setAttribute("aria-labelledby", option.id);
    panel.setAttribute("aria-busy", isWaiting);
    panel.classList.toggle("exposurekit-waiting", isWaiting);
  };
  const pick = ({ value }) => { model.set("value", value); model.save_changes(); follow(); };
  const ofGroups = tabs(`Groups of ${name.toLowerCase()}`, groups, (group) => pick(group.recent));
  ofGroups.list.classList.add("groups");
  for (const group of groups) {
    group.tabs = tabs(`${name}: ${group.text}`, group.members, pick);
    group.panel = node("div", { role: "tabpanel" }, group.tabs.list);
    group.panel.setAttribute("aria-labelledby", group.id);
  }
  const select = node("select", {}, ...groups.map(({ text, members }) => node("optgroup", { label: text },
    ...members.map((one) => node("option", { textContent: one.text, value: one.value })))));
  select.onchange = () => pick(select);
  el.classList.add("exposurekit-tabs");
  el.append(
    node("div", { className: "wide" }, ofGroups.list, ...groups.map((one) => one.panel)),
    node("label", { className: "narrow" }, node("span", { textContent: name }), select),
  );
  const names = ["change:value", "change:displayed"];
  names.forEach((one) => model.on(one, follow));
  follow();
  const waiting = setTimeout(follow);  // the card is placed after the tabs
  return () => { clearTimeout(waiting); names.forEach((one) => model.off(one, follow)); };
}
export default { render };
"""
)
_STYLE = """
.exposurekit-tabs .wide { display: grid; gap: var(--gap-3); }
.exposurekit-tabs .list { display: flex; flex-flow: row wrap; gap: 4px; }
.exposurekit-tabs [role="tab"] { padding: 7px 12px; border: 1px solid transparent; border-radius: 999px; background: var(--tint); color: inherit; font: 500 .8125rem/1.3 var(--font); cursor: pointer; }
.exposurekit-tabs [role="tab"]:hover { background: var(--hover); }
.exposurekit-tabs [role="tab"][aria-selected="true"] { background: var(--accent); color: var(--on-accent); }
.exposurekit-tabs .groups { gap: 0 var(--gap-4); box-shadow: inset 0 -1px var(--line); }
.exposurekit-tabs .groups [role="tab"] { padding: 8px 0; border: solid transparent; border-width: 2px 0; border-radius: 0; background: transparent; font-size: .9375rem; color: var(--soft); }
.exposurekit-tabs .groups [role="tab"]:hover { background: transparent; color: inherit; }
.exposurekit-tabs .groups [role="tab"][aria-selected="true"] { background: transparent; color: inherit; font-weight: 600; border-bottom-color: var(--accent); }
.exposurekit-panel .exposurekit-tabs .narrow { display: none; align-items: center; gap: 8px; font-size: .8125rem; }
.exposurekit-tabs select { flex: 1; min-width: 0; height: 34px; padding: 0 8px; border: 1px solid var(--line); border-radius: 8px; background: transparent; color: inherit; font: inherit; }
.exposurekit-tabs option { background: var(--jp-layout-color0, Canvas); color: var(--jp-content-font-color1, CanvasText); }
.exposurekit-panel .exposurekit-waiting > :not(.exposurekit-row) { opacity: .35; transition: opacity .15s .1s; }
@container (max-width: 560px) {
  .exposurekit-panel .exposurekit-tabs .wide { display: none; }
  .exposurekit-panel .exposurekit-tabs .narrow { display: flex; }
}
"""


class Tabs(anywidget.AnyWidget):
    """One of several values, as a tab of its group.

    Attributes:
        options: The group, the label and the value of each tab.
        value: The picked value.
        displayed: The value that the card below displays; while it is another one, the card is marked as busy.
    """

    _esm, _css = _SCRIPT, _STYLE
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
