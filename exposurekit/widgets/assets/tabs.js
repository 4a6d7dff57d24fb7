let count = 0;
function render({ model, el }) {
  const id = `exposurekit-tab-${++count}-${Math.random().toString(36).slice(2)}`, name = model.get("description");
  const options = model.get("options").map(([group, text, value], at) => ({ group, text, value, id: `${id}-${at}` }));
  const groups = [...new Set(options.map((one) => one.group))].map((text, at) => {
    const members = options.filter((one) => one.group === text);
    return { text, members, recent: members[0], id: `${id}-group-${at}` };
  });
  // Tabs, of which one is in the order of the keyboard, and arrows pick the others.
  const tabs = (label, items, pick) => {
    const all = items.map((item) => {
      const tab = node("button", { type: "button", role: "tab", id: item.id, textContent: item.text });
      tab.onclick = () => pick(item);
      return tab;
    });
    const list = node("div", { className: "list", role: "tablist", ariaLabel: label }, ...all);
    list.dataset.lmSuppressShortcuts = "true";  // a notebook has its own meaning of arrows
    list.onkeydown = (event) => {
      const at = all.indexOf(document.activeElement), last = all.length - 1;
      const to = { ArrowRight: at === last ? 0 : at + 1, ArrowLeft: at ? at - 1 : last, Home: 0, End: last }[event.key];
      if (at < 0 || to === undefined) return;
      event.preventDefault();
      event.stopPropagation();
      all[to].focus();
      all[to].click();
    };
    const mark = (picked) => all.forEach((tab, at) => {
      tab.setAttribute("aria-selected", items[at] === picked);
      tab.tabIndex = items[at] === picked ? 0 : -1;
    });
    return { list, mark };
  };
  const card = () => el.parentElement?.querySelector(".exposurekit-chart-card");
  // The chart of the tab before stays until the kernel has drawn the next one.
  const follow = () => {
    const value = model.get("value"), option = options.find((one) => one.value === value);
    const group = groups.find((one) => one.members.includes(option));
    group.recent = option;  // to which a return to the group leads
    ofGroups.mark(group);
    for (const one of groups) {
      one.panel.hidden = one !== group;
      one.tabs.mark(one.recent);
    }
    select.value = value;
    const panel = card(), isWaiting = value !== model.get("displayed");
    if (!panel) return;
    panel.setAttribute("role", "tabpanel");
    panel.setAttribute("aria-labelledby", option.id);
    panel.setAttribute("aria-busy", isWaiting);
    panel.classList.toggle("exposurekit-waiting", isWaiting);
  };
  const pick = ({ value }) => { model.set("value", value); model.save_changes(); follow(); };
  const ofGroups = tabs(`Groups of ${name.toLowerCase()}`, groups, (group) => pick(group.recent));
  ofGroups.list.classList.add("groups");
  for (const group of groups) {
    group.tabs = tabs(`${name}: ${group.text}`, group.members, pick);
    group.panel = node("div", { role: "tabpanel" }, group.tabs.list);
    group.panel.setAttribute("aria-labelledby", group.id);
  }
  const select = node("select", {}, ...groups.map(({ text, members }) => node("optgroup", { label: text },
    ...members.map((one) => node("option", { textContent: one.text, value: one.value })))));
  select.onchange = () => pick(select);
  el.classList.add("exposurekit-tabs");
  el.append(
    node("div", { className: "wide" }, ofGroups.list, ...groups.map((one) => one.panel)),
    node("label", { className: "narrow" }, node("span", { textContent: name }), select),
  );
  const names = ["change:value", "change:displayed"];
  names.forEach((one) => model.on(one, follow));
  follow();
  const waiting = setTimeout(follow);  // the card is placed after the tabs
  return () => { clearTimeout(waiting); names.forEach((one) => model.off(one, follow)); };
}
export default { render };
