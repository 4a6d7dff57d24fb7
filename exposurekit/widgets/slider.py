"""A slider over several values, such as days; the value is read aloud, and sent when the slider is let go."""

from collections.abc import Sequence
from typing import Any

import anywidget
import traitlets

from exposurekit.widgets.dom import NODE

_SCRIPT = (
    NODE
    + """
function render({ model, el }) {
  const options = model.get("options");
  const input = node("input", { type: "range", min: 0, max: options.length - 1 });
  const readout = node("span", { className: "readout", ariaHidden: true });
  input.dataset.lmSuppressShortcuts = "true";  // a notebook has its own meaning of arrows
  const show = () => {
    readout.textContent = options[input.value];
    input.setAttribute("aria-valuetext", options[input.value]);
  };
  const follow = () => { input.value = options.indexOf(model.get("value")); show(); };
  input.oninput = show;
  input.onchange = () => { model.set("value", options[input.value]); model.save_changes(); };
  el.classList.add("exposurekit-slider");
  el.append(node("label", {}, node("span", { textContent: model.get("description") }), input, readout));
  model.on("change:value", follow);
  follow();
  return () => model.off("change:value", follow);
}
export default { render };
"""
)
_STYLE = """
.exposurekit-slider label { display: flex; align-items: center; gap: 12px; height: 34px; font-size: .8125rem; }
.exposurekit-slider span { color: var(--soft); }
.exposurekit-slider input { flex: 1; min-width: 4rem; margin: 0; accent-color: var(--accent); }
.exposurekit-slider .readout { min-width: 6.5em; text-align: right; font-variant-numeric: tabular-nums; }
"""


class Slider(anywidget.AnyWidget):
    """One of several values in order.

    Attributes:
        options: The values, from left to right.
        value: The picked value.
    """

    _esm, _css = _SCRIPT, _STYLE
    description = traitlets.Unicode().tag(sync=True)
    options = traitlets.List(traitlets.Unicode()).tag(sync=True)
    value = traitlets.Unicode().tag(sync=True)

    def __init__(self, description: str, options: Sequence[str], value: str) -> None:
        super().__init__(description=description, options=[*options], value=value)

    @traitlets.validate("value")
    def _valid(self, proposal: Any) -> str:
        """The proposed value, if it is one of the options: the browser may send any."""
        value: str = proposal["value"]
        return value if value in self.options else self.value
