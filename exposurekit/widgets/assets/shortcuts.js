function render({ model, el }) {
  const line = document.createElement("div");
  line.className = "exposurekit-keys";
  line.append("Keys:", ...model.get("actions").flatMap(([key, action]) => {
    const cap = document.createElement("kbd");
    cap.textContent = key;
    return [cap, " ", action];
  }));
  el.appendChild(line);
  let panel = null;
  const handle = (event) => {
    const isTyping = event.target.closest("input:not([type=checkbox]), textarea, select, [contenteditable=true]");
    if (isTyping || event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (!model.get("keys_used").includes(event.key)) return;
    event.preventDefault();
    event.stopPropagation();
    const target = model.get("targets")[event.key];
    if (target) panel.querySelector(target)?.focus();
    else model.send({ key: event.key });
  };
  // The widget is placed in its panel after it is rendered.
  const waiting = setTimeout(() => {
    panel = el.closest(".exposurekit-panel");
    if (!panel) return;
    panel.tabIndex = panel.tabIndex < 0 ? 0 : panel.tabIndex;
    panel.dataset.lmSuppressShortcuts = "true";
    panel.addEventListener("keydown", handle);
  });
  return () => {
    clearTimeout(waiting);
    if (panel) panel.removeEventListener("keydown", handle);
  };
}
export default { render };
