"""Labels and texts, each with a button that copies the text. Text is never read as markup."""

from collections.abc import Iterable
from typing import Any

import anywidget
import traitlets

from exposurekit.analysis.tasks import NO_VALUE_TEXTS, NOT_ON_FILE
from exposurekit.text.sanitize import plain

_SCRIPT = """
async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {  // no clipboard here: the selection is copied
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}
function row([label, text, copies]) {
  const line = document.createElement("tr"), head = document.createElement("th");
  const cell = document.createElement("td");
  head.scope = "row";
  head.textContent = label;
  head.style.cssText = "text-align: left; font-weight: normal; padding: 0 1em 0 0; opacity: .8";
  cell.style.cssText = "text-align: left; padding: 0; overflow-wrap: anywhere";
  const words = document.createElement(copies ? "code" : "em");
  words.textContent = text;
  cell.append(words);
  if (copies) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = "Copy";
    button.style.cssText = "margin-left: .6em; font-size: .85em; cursor: pointer";
    button.setAttribute("aria-label", `Copy ${label}`);
    button.addEventListener("click", async () => {
      button.textContent = (await copied(text)) ? "Copied" : "Select it by hand";
      setTimeout(() => { button.textContent = "Copy"; }, 2000);
    });
    cell.append(button);
  }
  line.append(head, cell);
  return line;
}
function render({ model, el }) {
  const draw = () => {
    const table = document.createElement("table");
    const body = document.createElement("tbody");
    body.append(...model.get("entries").map(row));
    table.append(body);
    el.replaceChildren(table);
  };
  draw();
  model.on("change:entries", draw);
  return () => model.off("change:entries", draw);
}
export default { render };
"""


class CopyTable(anywidget.AnyWidget):
    """Rows of a label and a text to copy.

    Attributes:
        entries: What is shown: ``[label, text, whether it can be copied]``.
    """

    _esm = _SCRIPT
    entries: traitlets.List[list[Any]] = traitlets.List().tag(sync=True)

    def show(self, rows: Iterable[tuple[str, str | None]]) -> None:
        """Show these rows and no others; where a text is None, that nothing is known stands there."""
        self.entries = [
            [plain(label), _missing(label) if text is None else plain(text), text is not None]
            for label, text in rows
        ]


def _missing(label: str) -> str:
    return NOT_ON_FILE if label.startswith(("Enter ", "On file ")) else NO_VALUE_TEXTS[0]
