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
function link(url, words) {
  const anchor = document.createElement("a");
  anchor.href = url;
  anchor.target = "_blank";
  anchor.rel = "noopener noreferrer nofollow";
  anchor.textContent = words;
  return anchor;
}
function row([label, text, copies, words]) {
  const line = document.createElement("tr"), head = document.createElement("th");
  const cell = document.createElement("td");
  head.scope = "row";
  head.textContent = label;
  head.style.cssText = "text-align: left; font-weight: normal; padding: 0 1em 0 0; opacity: .8; white-space: nowrap";
  cell.style.cssText = "text-align: left; padding: 0; overflow-wrap: anywhere";
  if (words) cell.append(link(text, words));
  else {
    const node = document.createElement(copies ? "code" : "em");
    node.textContent = text;
    cell.append(node);
  }
  if (copies) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = "Copy";
    button.style.cssText = "margin-left: .6em; font-size: .85em; cursor: pointer";
    button.setAttribute("aria-label", `Copy ${label}`);
    button.addEventListener("click", async () => {
      button.textContent = (await copy(text)) ? "Copied" : "Select it by hand";
      setTimeout(() => { button.textContent = "Copy"; }, 2000);
    });
    cell.append(button);
  }
  line.append(head, cell);
  return line;
}
function section([heading, collapsed, rows]) {
  const part = document.createElement(collapsed ? "details" : "div");
  if (heading) {
    const head = document.createElement(collapsed ? "summary" : "strong");
    head.textContent = heading;
    part.append(head);
  }
  const table = document.createElement("table"), body = document.createElement("tbody");
  body.append(...rows.map(row));
  table.append(body);
  part.append(table);
  return part;
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
