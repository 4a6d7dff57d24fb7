const PAUSE_MS = 250;  // after the last key, so that half a word is not searched
let count = 0;
function render({ model, el }) {
  const row = el.appendChild(document.createElement("label"));
  row.className = "exposurekit-textbox";
  const words = row.appendChild(document.createElement("span"));
  const input = row.appendChild(document.createElement("input"));
  const completions = row.appendChild(document.createElement("datalist"));
  words.textContent = model.get("description");
  completions.id = `exposurekit-completions-${++count}-${Math.random().toString(36).slice(2)}`;
  Object.assign(input, { type: "search", autocomplete: "off", spellcheck: false });
  let waiting = null;
  const report = () => {
    clearTimeout(waiting);
    waiting = null;
    if (input.value === model.get("value")) return;
    model.set("value", input.value);
    model.save_changes();
  };
  const offer = () => {
    completions.replaceChildren(...model.get("options").map((text) => {
      const option = document.createElement("option");
      option.value = text;
      return option;
    }));
    if (completions.children.length) input.setAttribute("list", completions.id);
  };
  const hint = () => { input.placeholder = model.get("placeholder"); };
  const follow = () => { if (waiting === null) input.value = model.get("value"); };
  input.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(report, PAUSE_MS); });
  input.addEventListener("change", report);
  model.on("change:value", follow);
  model.on("change:options", offer);
  model.on("change:placeholder", hint);
  hint();
  follow();
  offer();
  return () => {
    clearTimeout(waiting);
    model.off("change:value", follow);
    model.off("change:options", offer);
    model.off("change:placeholder", hint);
  };
}
export default { render };
