let count = 0;
const folded = (text) => text.normalize("NFD").replace(/\p{M}/gu, "").toLowerCase(); // "cafe" finds "Café"
function render({ model, el }) {
  const id = `exposurekit-pick-${++count}-${Math.random().toString(36).slice(2)}`;
  const group = el.appendChild(node("div", { className: "exposurekit-pick", role: "group" }));
  const name = node("span", { className: "label", id, textContent: model.get("description") });
  group.setAttribute("aria-labelledby", id);
  let search = "", isOpen = false;
  const index = () => model.get("index");
  const pick = (position, on) => {
    const picked = index().filter((one) => one !== position);
    model.set("index", on ? [...picked, position] : picked);
    model.save_changes();
  };
  const focused = () => (group.contains(document.activeElement) ? document.activeElement.dataset.at : undefined);
  function chips(items) {
    const row = node("div", { className: "exposurekit-chips" });
    items.forEach(([text, n, kind], position) => {
      const button = node("button", { type: "button", className: `chip ${kind}` }, node("span", { textContent: text, dir: "auto" }));
      if (n !== null) button.append(node("span", { className: "count", textContent: n.toLocaleString("en") }));
      button.dataset.at = `chip ${position}`;
      button.setAttribute("aria-pressed", index().includes(position));
      button.onclick = () => pick(position, !index().includes(position));
      row.append(button);
    });
    if (!items.length) row.append(node("span", { className: "soft", textContent: "none" }));
    return row;
  }
  function list(items) {
    const picked = index(), details = node("details", { open: isOpen, className: "exposurekit-pop" });
    const first = picked.length ? items[picked[0]]?.[0] : model.get("everything");
    const summary = node("summary", { className: "exposurekit-button" },
      node("span", { className: "value", textContent: first, dir: "auto" }),
      ...(picked.length > 1 ? [node("span", { className: "count", textContent: `+${picked.length - 1}` })] : []));
    summary.dataset.at = "summary";
    summary.setAttribute("aria-label", `${model.get("description")}: ${picked.map((one) => items[one]?.[0]).join(", ") || model.get("everything")}`);
    const box = node("input", { type: "search", placeholder: "Find", value: search, autocomplete: "off", spellcheck: false });
    box.setAttribute("aria-label", `Find in ${model.get("description")}`);
    box.dataset.at = "find";
    const rows = node("div", { className: "options" });
    const draw = () => {
      const key = folded(search);
      rows.replaceChildren(...items.flatMap(([text, n, kind], position) => {
        if (key && !folded(text).includes(key)) return [];
        const check = node("input", { type: "checkbox", checked: picked.includes(position) });
        check.dataset.at = `option ${position}`;
        check.onchange = () => pick(position, check.checked);
        const label = node("label", {}, check, node("span", { className: "value", textContent: text, dir: "auto" }));
        if (n !== null) label.append(node("span", { className: "count", textContent: n.toLocaleString("en") }));
        return [label];
      }));
      if (!rows.children.length) rows.append(node("p", { className: "soft", textContent: "Nothing matches." }));
    };
    box.oninput = () => { search = box.value; draw(); };
    draw();
    const all = node("button", { type: "button", className: "exposurekit-button", textContent: `Show ${model.get("everything")}` });
    all.dataset.at = "all";
    all.disabled = !picked.length;
    all.onclick = () => { model.set("index", []); model.save_changes(); };
    details.append(summary, node("div", { className: "panel" }, ...(items.length > 8 ? [box] : []), rows, all));
    details.ontoggle = () => { isOpen = details.open; if (isOpen) box.focus(); };
    details.onkeydown = (event) => {
      if (event.key !== "Escape" || !details.open) return;
      event.stopPropagation();
      details.open = false;
      summary.focus();
    };
    return details;
  }
  const draw = () => {
    const at = focused(), items = model.get("items"), scroll = group.querySelector(".options")?.scrollTop;
    group.replaceChildren(name, model.get("is_compact") ? list(items) : chips(items));
    const rows = group.querySelector(".options");
    if (rows && scroll) rows.scrollTop = scroll;
    if (at) [...group.querySelectorAll("[data-at]")].find((one) => one.dataset.at === at)?.focus();
  };
  const away = (event) => {
    const details = group.querySelector("details");
    if (details?.open && !group.contains(event.target)) details.open = false;
  };
  let waiting = false;  // several changes at once are drawn once
  const later = () => {
    if (waiting) return;
    waiting = true;
    queueMicrotask(() => { waiting = false; draw(); });
  };
  const names = ["change:items", "change:index", "change:is_compact"];
  names.forEach((one) => model.on(one, later));
  document.addEventListener("pointerdown", away);
  draw();
  return () => {
    names.forEach((one) => model.off(one, later));
    document.removeEventListener("pointerdown", away);
  };
}
export default { render };
