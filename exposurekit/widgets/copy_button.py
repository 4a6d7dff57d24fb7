"""A table of labels and texts, each with a button that copies the text; texts are never read as markup."""

from collections.abc import Sequence
from typing import Any

import anywidget
import traitlets

from exposurekit.text.html_cards import copy_script
from exposurekit.widgets.task_captions import Section

_SCRIPT = (
    copy_script()
    + """
function element(name, properties, ...children) {
  const node = Object.assign(document.createElement(name), properties);
  node.append(...children);
  return node;
}
function copyButton(label, text) {
  const button = element("button", { type: "button", textContent: "Copy", ariaLabel: `Copy ${label}` });
  button.addEventListener("click", async () => {
    button.textContent = (await copy(text)) ? "Copied" : "Select it by hand";
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
  return button;
}
function row([label, text, copies, words]) {
  const link = { href: text, target: "_blank", rel: "noopener noreferrer nofollow", textContent: words };
  const content = words ? element("a", link) : element(copies ? "span" : "em", { textContent: text });
  const cell = element("td", {}, content);
  const button = element("td", { className: "copy" });
  if (copies) button.append(copyButton(label, text));
  return element("tr", {}, element("th", { scope: "row", textContent: label }), cell, button);
}
function section([heading, collapsed, rows]) {
  const table = element("table", {}, element("tbody", {}, ...rows.map(row)));
  const head = heading ? [element(collapsed ? "summary" : "h3", { textContent: heading })] : [];
  return element(collapsed ? "details" : "div", { className: "section" }, ...head, table);
}
function render({ model, el }) {
  const within = el.appendChild(element("div", { className: "exposurekit-copies" }));
  const draw = () => within.replaceChildren(...model.get("sections").map(section));
  draw();
  model.on("change:sections", draw);
  return () => model.off("change:sections", draw);
}
export default { render };
"""
)
_STYLE = """
.exposurekit-copies { display: grid; gap: 12px; }
.exposurekit-copies .section > :is(h3, summary) { margin: 0 0 4px; font-size: .8125rem; font-weight: 600; }
.exposurekit-panel .exposurekit-copies table { border-collapse: collapse; width: 100%; table-layout: auto; }
.exposurekit-copies :is(th, td) { text-align: left; vertical-align: middle; padding: 4px 12px 4px 0; border-bottom: 1px solid var(--line); font-size: .8125rem; font-weight: 400; line-height: 1.45; }
.exposurekit-copies th { color: var(--soft); width: 8.5rem; }
.exposurekit-copies td { overflow-wrap: anywhere; font-weight: 500; }
.exposurekit-copies .copy { width: 1%; padding-right: 0; text-align: right; white-space: nowrap; }
.exposurekit-copies button { height: 26px; padding: 0 10px; border: 1px solid var(--line); border-radius: 6px; background: transparent; color: inherit; font: 500 .75rem/1 var(--font, inherit); cursor: pointer; }
@container (max-width: 480px) {  /* the label above its value, which has the width */
  .exposurekit-panel .exposurekit-copies tr { display: grid; grid-template-columns: minmax(0, 1fr) auto; align-items: center; border-bottom: 1px solid var(--line); padding: 4px 0; }
  .exposurekit-panel .exposurekit-copies :is(th, td) { width: auto; padding: 0; border: 0; }
  .exposurekit-panel .exposurekit-copies th { grid-column: 1 / -1; }
}
.exposurekit-copies button:hover { background: var(--hover); }
"""


class CopyTable(anywidget.AnyWidget):
    """Rows of a label and a text to copy, in sections.

    Attributes:
        sections: ``[heading, whether it is collapsed, rows]``; a row is ``[label, text, whether it can be copied, link
            text]``. Only an address that `link_text` accepts may have a link text.
    """

    _esm, _css = _SCRIPT, _STYLE
    sections: traitlets.List[list[Any]] = traitlets.List().tag(sync=True)

    def show(self, sections: Sequence[Section]) -> None:
        """Replace what is displayed."""
        self.sections = [
            [heading, collapsed, [[*row] for row in rows]] for heading, collapsed, rows in sections
        ]
