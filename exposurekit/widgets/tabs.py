"""Tabs above a chart card; where they have no room, a list to pick from."""

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
  const id = `exposurekit-tab-${++count}-${Math.random().toString(36).slice(2)}`, options = model.get("options");
  const list = node("div", { className: "list", role: "tablist", ariaLabel: model.get("description") });
  const select = node("select", {}, ...options.map(([text, value]) => node("option", { textContent: text, value })));
  const label = node("label", { className: "narrow" }, node("span", { textContent: model.get("description") }), select);
  const tabs = options.map(([text, value], position) => {
    const tab = node("button", { type: "button", role: "tab", id: `${id}-${position}`, textContent: text });
    tab.onclick = () => pick(value);
    return tab;
  });
  list.append(...tabs);
  list.dataset.lmSuppressShortcuts = "true";  // a notebook has its own meaning of arrows
  el.classList.add("exposurekit-tabs");
  el.append(list, label);
  const card = () => el.parentElement?.querySelector(".exposurekit-chart-card");
  // The chart of the tab before stays until the kernel has drawn the next one.
  const follow = () => {
    const value = model.get("value"), position = options.findIndex((one) => one[1] === value);
    tabs.forEach((tab, at) => {
      tab.setAttribute("aria-selected", at === position);
      tab.tabIndex = at === Math.max(position, 0) ? 0 : -1;
    });
    select.value = value;
    const panel = card(), isWaiting = value !== model.get("displayed");
    if (!panel) return;
    panel.setAttribute("role", "tabpanel");
    panel.setAttribute("aria-labelledby", `${id}-${position}`);
    panel.setAttribute("aria-busy", isWaiting);
    panel.classList.toggle("exposurekit-waiting", isWaiting);
  };
  const pick = (value) => { model.set("value", value); model.save_changes(); follow(); };
  select.onchange = () => pick(select.value);
  list.onkeydown = (event) => {
    const at = tabs.indexOf(document.activeElement), last = tabs.length - 1;
    const to = { ArrowRight: at === last ? 0 : at + 1, ArrowLeft: at ? at - 1 : last, Home: 0, End: last }[event.key];
    if (at < 0 || to === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    tabs[to].focus();
    tabs[to].click();
  };
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
.exposurekit-tabs .list { display: flex; flex-flow: row wrap; gap: 4px; }
.exposurekit-tabs [role="tab"] { padding: 7px 12px; border: 1px solid transparent; border-radius: 999px; background: transparent; color: inherit; font: 500 .8125rem/1.3 var(--font); cursor: pointer; }
.exposurekit-tabs [role="tab"]:hover { background: var(--hover); }
.exposurekit-tabs [role="tab"][aria-selected="true"] { background: var(--accent); color: var(--on-accent); }
.exposurekit-panel .exposurekit-tabs .narrow { display: none; align-items: center; gap: 8px; font-size: .8125rem; }
.exposurekit-tabs select { flex: 1; min-width: 0; height: 34px; padding: 0 8px; border: 1px solid var(--line); border-radius: 8px; background: transparent; color: inherit; font: inherit; }
.exposurekit-tabs option { background: var(--jp-layout-color0, Canvas); color: var(--jp-content-font-color1, CanvasText); }
.exposurekit-panel .exposurekit-waiting > :not(.exposurekit-row) { opacity: .35; transition: opacity .15s .1s; }
@container (max-width: 760px) {
  .exposurekit-panel .exposurekit-tabs .list { display: none; }
  .exposurekit-panel .exposurekit-tabs .narrow { display: flex; }
}
"""


class Tabs(anywidget.AnyWidget):
    """One of several values, as tabs.

    Attributes:
        options: Pairs of a label and a value.
        value: The picked value.
        displayed: The value that the card below displays; while it is another one, the card is marked as busy.
    """

    _esm, _css = _SCRIPT, _STYLE
    description = traitlets.Unicode().tag(sync=True)
    options: traitlets.List[list[str]] = traitlets.List().tag(sync=True)
    value = traitlets.Unicode().tag(sync=True)
    displayed = traitlets.Unicode().tag(sync=True)

    def __init__(self, description: str, options: Sequence[tuple[str, str]], value: str) -> None:
        super().__init__(
            description=description, options=[[*one] for one in options], value=value, displayed=value
        )

    @traitlets.validate("value")
    def _valid(self, proposal: Any) -> str:
        """The proposed value, if it is one of the options: the browser may send any."""
        value: str = proposal["value"]
        return value if any(value == one for _, one in self.options) else self.value
