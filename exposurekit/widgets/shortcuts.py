"""Keys pressed anywhere in a panel reach Python, unless somebody is typing. Shows a line that says which."""

from collections.abc import Mapping
from typing import Any

import anywidget
import traitlets

from exposurekit.text.sanitize import plain

_SCRIPT = """
function render({ model, el }) {
  const line = document.createElement("div");
  line.textContent = model.get("words");
  line.style.opacity = "0.75";
  el.appendChild(line);
  let panel = null;
  const typed = (event) => {
    const typing = event.target.closest("input:not([type=checkbox]), textarea, select, [contenteditable=true]");
    if (typing || event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (!model.get("heard").includes(event.key)) return;
    event.preventDefault();
    event.stopPropagation();
    model.send({ key: event.key });
  };
  // The panel is there when this is: one turn later this stands in it.
  const waiting = setTimeout(() => {
    panel = el.closest(".exposurekit-panel");
    if (!panel) return;
    panel.tabIndex = panel.tabIndex < 0 ? 0 : panel.tabIndex;
    panel.dataset.lmSuppressShortcuts = "true";
    panel.addEventListener("keydown", typed);
  });
  return () => {
    clearTimeout(waiting);
    if (panel) panel.removeEventListener("keydown", typed);
  };
}
export default { render };
"""


class Keys(anywidget.AnyWidget):
    """Keys and what each does; ``pressed(key)`` is called for each.

    Args:
        does: What each key does, in a word or two.
        pressed: Called with the key.
    """

    _esm = _SCRIPT
    words = traitlets.Unicode().tag(sync=True)
    heard = traitlets.List(traitlets.Unicode()).tag(sync=True)

    def __init__(self, does: Mapping[str, str], pressed: Any) -> None:
        words = "Keys: " + ", ".join(f"{key} {plain(what)}" for key, what in does.items())
        super().__init__(words=words, heard=[*does])
        self.on_msg(lambda _widget, content, _buffers: self._heard(content, pressed))

    def _heard(self, content: Any, pressed: Any) -> None:
        key = content.get("key") if isinstance(content, dict) else None
        if key in self.heard:
            pressed(key)
