"""A table of labels and texts, each with a button that copies the text; texts are never read as markup."""

from collections.abc import Sequence
from typing import Any

import anywidget
import traitlets

from exposurekit.widgets.listings import Section

_SCRIPT = """
async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {  // without a clipboard, copy a selection
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}
const HEAD = "text-align: left; font-weight: normal; padding: 0 1em 0 0; opacity: .8; white-space: nowrap";
function element(name, properties, ...children) {
  const node = Object.assign(document.createElement(name), properties);
  node.append(...children);
  return node;
}
function copyButton(label, text) {
  const style = "margin-left: .6em; font-size: .85em; cursor: pointer";
  const button = element("button", { type: "button", textContent: "Copy", ariaLabel: `Copy ${label}`, style });
  button.addEventListener("click", async () => {
    button.textContent = (await copy(text)) ? "Copied" : "Select it by hand";
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
  return button;
}
function row([label, text, copies, words]) {
  const link = { href: text, target: "_blank", rel: "noopener noreferrer nofollow", textContent: words };
  const content = words ? element("a", link) : element(copies ? "code" : "em", { textContent: text });
  const cell = element("td", { style: "text-align: left; padding: 0; overflow-wrap: anywhere" }, content);
  if (copies) cell.append(copyButton(label, text));
  return element("tr", {}, element("th", { scope: "row", textContent: label, style: HEAD }), cell);
}
function section([heading, collapsed, rows]) {
  const table = element("table", {}, element("tbody", {}, ...rows.map(row)));
  const head = heading ? [element(collapsed ? "summary" : "strong", { textContent: heading })] : [];
  return element(collapsed ? "details" : "div", {}, ...head, table);
}
function render({ model, el }) {
  const draw = () => el.replaceChildren(...model.get("sections").map(section));
  draw();
  model.on("change:sections", draw);
  return () => model.off("change:sections", draw);
}
export default { render };
"""


class CopyTable(anywidget.AnyWidget):
    """Rows of a label and a text to copy, in sections.

    Attributes:
        sections: ``[heading, whether it is collapsed, rows]``; a row is ``[label, text, whether it can be copied, link
            text]``. Only an address that `link_text` accepts may have a link text.
    """

    _esm = _SCRIPT
    sections: traitlets.List[list[Any]] = traitlets.List().tag(sync=True)

    def show(self, sections: Sequence[Section]) -> None:
        """Replace what is displayed."""
        self.sections = [
            [heading, collapsed, [[*row] for row in rows]] for heading, collapsed, rows in sections
        ]
