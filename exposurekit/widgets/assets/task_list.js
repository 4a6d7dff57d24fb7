function render({ model, el }) {
  const list = el.appendChild(node("div", { className: "exposurekit-list", tabIndex: 0 }));
  list.setAttribute("role", "listbox");
  list.setAttribute("aria-label", model.get("description"));
  const id = `exposurekit-list-${Math.random().toString(36).slice(2)}`;
  const choose = (value) => { model.set("value", value); model.save_changes(); };
  const select = () => {
    const value = model.get("value");
    for (const row of list.querySelectorAll("[role=option]")) {
      const isCurrent = Number(row.dataset.value) === value;
      row.setAttribute("aria-selected", isCurrent);
      if (!isCurrent) continue;
      list.setAttribute("aria-activedescendant", row.id);
      const above = row.offsetTop - list.scrollTop, below = above + row.offsetHeight - list.clientHeight;
      if (above < 0) list.scrollTop += above; else if (below > 0) list.scrollTop += below;
    }
  };
  const draw = () => {
    const scroll = list.scrollTop;
    list.replaceChildren(...model.get("items").map(([value, title, person, detail, side, done, steps, kind, state]) => {
      const bar = node("progress", { max: Math.max(steps, 1), value: done });
      bar.setAttribute("aria-hidden", "true");
      const row = node("div", { id: `${id}-${value}`, className: `row ${kind}` },
        node("span", { className: "title", textContent: title }), node("span", { className: "side", textContent: side }),
        node("span", { className: "person", textContent: person }), node("span", { className: "detail", textContent: detail }),
        node("span", { className: "steps-done" }, ...(steps ? [bar] : []), node("span", { className: "state", textContent: state })));
      row.setAttribute("role", "option");
      row.dataset.value = value;
      row.onclick = () => choose(value);
      return row;
    }));
    list.scrollTop = scroll;
    list.hidden = !list.children.length;
    select();
  };
  list.addEventListener("keydown", (event) => {
    const values = model.get("items").map(([value]) => value), at = values.indexOf(model.get("value"));
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: values.length - 1 }[event.key];
    if (to === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    event.stopPropagation();
    if (to >= 0 && to < values.length && to !== at) choose(values[to]);
  });
  model.on("change:items", draw);
  model.on("change:value", select);
  draw();
  return () => { model.off("change:items", draw); model.off("change:value", select); };
}
export default { render };
