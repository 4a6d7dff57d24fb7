function copyButton(label, text) {
  const button = node("button", { type: "button", textContent: "Copy", ariaLabel: `Copy ${label}` });
  button.addEventListener("click", async () => {
    button.textContent = (await copy(text)) ? "Copied" : "Select it by hand";
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
  return button;
}
function row([label, text, copies, words]) {
  const link = { href: text, target: "_blank", rel: "noopener noreferrer nofollow", textContent: words, dir: "auto" };
  const content = words ? node("a", link) : node(copies ? "span" : "em", { textContent: text, dir: "auto" });
  const cell = node("td", {}, content);
  const button = node("td", { className: "copy" });
  if (copies) button.append(copyButton(label, text));
  return node("tr", {}, node("th", { scope: "row", textContent: label }), cell, button);
}
function section([heading, collapsed, rows]) {
  const table = node("table", {}, node("tbody", {}, ...rows.map(row)));
  const head = heading ? [node(collapsed ? "summary" : "h3", { textContent: heading })] : [];
  return node(collapsed ? "details" : "div", { className: "section" }, ...head, table);
}
function render({ model, el }) {
  const within = el.appendChild(node("div", { className: "exposurekit-copies" }));
  const draw = () => within.replaceChildren(...model.get("sections").map(section));
  draw();
  model.on("change:sections", draw);
  return () => model.off("change:sections", draw);
}
export default { render };
