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
