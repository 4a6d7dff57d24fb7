// Tables can be sorted, filtered and saved as CSV; items can be ticked, and the ticks saved. Nothing leaves the page.
(() => {
  "use strict";
  const FEW = 5; // rows that are read faster than filtered
  const CARDS = 3; // of a table, on a phone, before a button for the others
  const MANY = 200; // values that are searched rather than picked
  const number = /^(?:from |up to |under |over )?([-+\u2212]?[\d,]*\.?\d+)%?(?:\u2013[\d.,]+%?)?(?: \(.*\))?$/; // or an interval, by its lower end
  const duration = /^(?:([\d,]+) h)?(?: ?(\d+) min)?$/;
  function value(text) {
    const plain = (digits) => parseFloat((digits ?? "0").replace(/,/g, "").replace("\u2212", "-"));
    if (number.test(text)) return plain(number.exec(text)[1]);
    const time = text && duration.exec(text);
    return time ? 60 * plain(time[1]) + plain(time[2]) : text.toLowerCase();
  }
  function compared(a, b) {
    if ((a === "—") !== (b === "—")) return a === "—" ? 1 : -1; // missing values come last
    const [x, y] = [value(a), value(b)];
    return typeof x === typeof y ? (x < y ? -1 : x > y ? 1 : 0) : typeof x === "number" ? -1 : 1;
  }
  const text = (row, column) => row.cells[column].textContent;
  function made(name, properties, ...parts) {
    const element = Object.assign(document.createElement(name), properties);
    element.append(...parts);
    return element;
  }
  const button = (words, properties, ...parts) => made("button", { type: "button", ...properties }, words, ...parts);

  const heads = (table) => [...table.tHead.rows[0].cells];
  function sorting(table) {
    const body = table.tBodies[0];
    table.style.setProperty("--columns", heads(table).length); // more columns print smaller
    heads(table).forEach((head, column) => {
      const parts = head.textContent.split(/(?<= )/); // a narrow heading breaks between its words
      const words = parts.flatMap((part, at) => (at ? [document.createElement("wbr"), part] : [part]));
      const press = button("", {}, ...words);
      head.replaceChildren(press);
      press.addEventListener("click", () => {
        const falling = head.ariaSort === "ascending";
        for (const other of heads(table)) other.ariaSort = null;
        head.ariaSort = falling ? "descending" : "ascending";
        body.append(...[...body.rows].sort((one, other) => {
          const [a, b] = [text(one, column), text(other, column)], order = compared(a, b);
          return falling && a !== "—" && b !== "—" ? -order : order;
        }));
      });
    });
  }

  // Columns of few texts, each in several rows, are filtered by picking: each value has the number of rows that it
  // would leave under the other filters.
  function facets(table, rows) {
    return heads(table).flatMap((head, column) => {
      const kind = head.dataset.pick, key = (row) => text(row, column);
      const counts = kind ? counted(rows, key) : new Map();
      if (counts.size < 2 || counts.size * 2 > rows.length || counts.size > MANY) return [];
      const values = [...counts.keys()].sort((a, b) => counts.get(b) - counts.get(a));
      const facet = (kind === "chips" ? chips : list)(head.textContent, values);
      facet.element.ariaLabel = `${head.textContent} in ${table.caption.textContent}`;
      return { ...facet, key };
    });
  }
  function counted(rows, key) {
    const counts = new Map();
    for (const row of rows) counts.set(key(row), (counts.get(key(row)) ?? 0) + 1);
    return counts;
  }
  function list(name, values, label = (one) => one) {
    const options = values.map((one) => new Option(label(one), one));
    const element = made("select", {}, new Option(`${name[0].toUpperCase()}${name.slice(1)}: all`, ""), ...options);
    return {
      element,
      picked: () => options.filter((one) => one.selected).map((one) => one.value),
      clear: () => { element.value = ""; },
      count: (counts) => options.forEach((one) => { one.text = `${label(one.value)} (${counts.get(one.value) ?? 0})`; }),
    };
  }
  function chips(name, values) {
    const buttons = values.map((one) => button(one, { className: "pick", value: one, ariaPressed: "false" }, made("span")));
    const element = made("div", { role: "group" }, ...buttons);
    const isPressed = (one) => one.ariaPressed === "true";
    element.addEventListener("click", ({ target }) => {
      const pressed = target.closest("button");
      if (pressed) pressed.ariaPressed = String(!isPressed(pressed));
      element.dispatchEvent(new Event("change"));
    });
    return {
      element,
      picked: () => buttons.filter(isPressed).map((one) => one.value),
      clear: () => buttons.forEach((one) => { one.ariaPressed = "false"; }),
      count: (counts) => buttons.forEach((one) => {
        one.lastChild.textContent = ` ${counts.get(one.value) ?? 0}`;
        one.disabled = !counts.has(one.value) && !isPressed(one);
      }),
    };
  }

  function download(text, type, name) {
    const link = made("a", { href: URL.createObjectURL(new Blob([text], { type })), download: name });
    link.click();
    URL.revokeObjectURL(link.href);
  }

  function tools(numbers) {
    const table = numbers.querySelector("table"), wide = numbers.querySelector(".wide"), caption = table.caption.textContent;
    const rows = [...table.tBodies[0].rows], found = () => [...table.tBodies[0].rows].filter((row) => !row.hidden);
    const numbered = table.dataset.rows?.split(" ") ?? [...rows.keys()];
    const search = made("input", { type: "search", placeholder: "Filter rows", ariaLabel: `Filter ${caption}` });
    const count = made("span", { role: "status" }), all = button("Reset", { ariaLabel: `Reset the rows of ${caption}` });
    const save = button("CSV", { className: "csv" }), rest = button("", { className: "rest" });
    const picks = facets(table, rows);
    const filter = () => {
      const query = search.value.toLowerCase();
      const fits = picks.map(({ picked, key }) => {
        const values = picked();
        return (row) => !values.length || values.includes(key(row));
      });
      fits.push((row) => row.textContent.toLowerCase().includes(query));
      for (const row of rows) row.hidden = !fits.every((fit) => fit(row));
      picks.forEach((facet, at) => {
        const others = fits.filter((_, number) => number !== at);
        facet.count(counted(rows.filter((row) => others.every((fit) => fit(row))), facet.key));
      });
      const n = found().length, isFiltered = query || picks.some(({ picked }) => picked().length);
      all.hidden = !isFiltered;
      count.textContent = isFiltered ? `${n} of ${rows.length} rows` : "";
      save.textContent = isFiltered ? `CSV (${n} ${n === 1 ? "row" : "rows"})` : "CSV";
      save.ariaLabel = `Save ${isFiltered ? `these ${n} rows of ` : ""}${caption} as CSV`;
      rest.textContent = `Show all ${n} rows`;
      rest.hidden = n <= CARDS || !wide.classList.contains("first");
    };
    search.addEventListener("input", filter);
    for (const { element } of picks) element.addEventListener("change", filter);
    all.addEventListener("click", () => {
      search.value = "";
      for (const { clear } of picks) clear();
      filter();
      search.focus();
    });
    // All columns: of the rows that are found, in the order of the page, or of all.
    save.addEventListener("click", () => {
      const whole = JSON.parse(numbers.querySelector("script").textContent);
      const [head, ...lines] = whole.match(/(?:"[^"]*"|[^"\n])+/g);
      const part = () => [head, ...found().map((row) => lines[numbered[rows.indexOf(row)]]), ""].join("\n");
      // A spreadsheet that opens the file recognises UTF-8 by the mark at its beginning.
      download("\ufeff" + (all.hidden ? whole : part()), "text/csv", `${numbers.dataset.name}.csv`);
    });
    rest.addEventListener("click", () => {
      wide.classList.remove("first");
      filter();
    });
    // A text that is cut off has its whole in the title.
    table.addEventListener("pointerover", ({ target }) => {
      const cell = target.closest("td");
      if (cell?.scrollWidth > cell?.clientWidth) cell.title = cell.textContent;
    });
    const row = made("div", { className: "tools" });
    if (rows.length > FEW) row.append(search, ...picks.map(({ element }) => element), count, all);
    if (rows.length > 1) {
      sorting(table);
      row.append(sortList(table));
    }
    row.append(save);
    wide.classList.add("first");
    wide.before(row);
    wide.after(rest);
    filter();
  }
  // On a phone the cards have no heads to press: a list sorts them, numbers from the largest.
  function sortList(table) {
    const options = heads(table).map((head, at) => new Option(head.textContent, at));
    const select = made("select", { ariaLabel: `Sort ${table.caption.textContent}` }, new Option("…", ""), ...options);
    select.value = heads(table).findIndex((head) => head.ariaSort);
    if (select.selectedIndex < 0) select.value = "";
    select.addEventListener("change", () => {
      if (!select.value) return;
      const head = heads(table)[select.value], press = head.querySelector("button");
      const wanted = head.classList.contains("left") ? "ascending" : "descending";
      do press.click(); while (head.ariaSort !== wanted);
    });
    return made("label", { className: "sort" }, "Sort by ", select);
  }
  const isPhone = matchMedia("(max-width: 30rem)").matches; // where a row is a card of several lines
  for (const numbers of document.querySelectorAll(".numbers")) {
    tools(numbers);
    if (isPhone) numbers.open = false;
  }

  // The manual work is filtered by site and person, each with the number of items that it would leave.
  function workFilter(place) {
    const every = (selector) => [...place.parentNode.querySelectorAll(selector)];
    const items = every(".task"), people = new Map();
    if (items.length <= FEW) return;
    const user = (item) => item.dataset.user ?? item.querySelector("input").value.split(" ")[0];
    for (const item of items) people.set(user(item), item.querySelector("strong").textContent.replace("listed as ", ""));
    const names = [...people.values()].map((one) => one.replace(/ \(.*/, "")); // with the id where two are alike
    [...people.keys()].forEach((one, at) => { if (names.filter((name) => name === names[at]).length < 2) people.set(one, names[at]); });
    const users = [...people.keys()].sort((a, b) => people.get(a).localeCompare(people.get(b)));
    const keys = [(item) => item.closest(".tasks").dataset.name, user];
    const picks = [chips("site", [...counted(items, keys[0]).keys()]), list("person", users, (user) => people.get(user))];
    const count = made("span", { role: "status" }), all = button("Reset");
    const filter = () => {
      const picked = picks.map((one) => one.picked()), isPerson = picked[1].length > 0;
      const fits = picked.map((values, at) => (item) => !values.length || values.includes(keys[at](item)));
      for (const item of items) item.hidden = !fits[0](item) || !fits[1](item);
      for (const group of every("article")) group.classList.toggle("none", !group.querySelector(".task:not([hidden])"));
      for (const tasks of every(".tasks")) {
        tasks.classList.toggle("part", isPerson);
        tasks.open ||= isPerson;
      }
      picks.forEach((one, at) => one.count(counted(items.filter(fits[1 - at]), keys[at])));
      all.hidden = !isPerson && !picked[0].length;
      count.textContent = all.hidden ? "" : `${items.filter((item) => !item.hidden).length} of ${items.length} items`;
    };
    const pick = (user) => {
      for (const one of picks) one.clear();
      if (user) picks[1].element.value = user;
      filter();
    };
    for (const { element } of picks) element.addEventListener("change", filter);
    all.addEventListener("click", () => pick());
    // A link to somebody's work picks it; what another link leads to is not hidden.
    document.addEventListener("click", ({ target }) => {
      const link = target.closest("[href^='#work_queue-'], [data-user][href]");
      if (link) pick(link.dataset.user);
    });
    picks.forEach(({ element }, at) => { element.ariaLabel = ["Site", "Person"][at]; });
    place.append(...picks.map(({ element }) => element), count, all);
    filter();
  }
  document.querySelectorAll("#to-do").forEach(workFilter);

  // Each value has a button that copies it.
  function copyIcon() {
    const names = "http://www.w3.org/2000/svg", icon = document.createElementNS(names, "svg");
    const path = document.createElementNS(names, "path");
    icon.setAttribute("viewBox", "0 0 16 16");
    icon.ariaHidden = "true";
    path.setAttribute("d", "M5.5 5.5h8v8h-8zM3.5 10.5h-1v-8h8v1");
    icon.append(path);
    return icon;
  }
  for (const code of document.querySelectorAll(".task code, .task a")) {
    const ariaLabel = `Copy ${code.previousElementSibling?.textContent ?? "link"}`;
    const press = button("", { ariaLabel, className: "copy", title: "Copy" }, copyIcon());
    press.addEventListener("click", async () => {
      press.textContent = (await copy(code.getAttribute("href") || code.textContent)) ? "Copied" : "Select it by hand";
      setTimeout(() => press.replaceChildren(copyIcon()), 2000);
    });
    code.after(press);
  }

  // When an item was ticked is stored in this browser, if it allows a page to store anything. All files share the store, and
  // two services may have the same ids.
  const service = document.querySelector(".kicker span")?.textContent;
  const stored = (name, at) => {
    try {
      if (at === undefined) return localStorage.getItem(name);
      at ? localStorage.setItem(name, at) : localStorage.removeItem(name);
    } catch { /* not stored */ }
  };
  const ticks = new Map(), bar = document.querySelector(".save"); // by the value of a box: a user and the key of an item
  const tick = ({ value }, at) => {
    const [user_id, item] = value.split(" ");
    at ? ticks.set(value, { user_id, item, ticked_at: at }) : ticks.delete(value);
    bar.hidden = !ticks.size;
    bar.querySelector("span").textContent = `${ticks.size} ticked`;
  };
  bar?.querySelector("button").addEventListener("click", () => {
    const at = new Date().toISOString(), file = { format: "exposurekit ticks 1", ticks: [...ticks.values()] };
    download(JSON.stringify(file, null, 1), "application/json", `exposurekit-ticks-${at.slice(0, 10)}.json`);
  });
  for (const tasks of document.querySelectorAll(".tasks")) {
    const all = [...tasks.querySelectorAll(".task input")], summary = tasks.querySelector("summary");
    const count = summary.querySelector(".ticked"), progress = tasks.closest("article").querySelector("progress");
    const update = () => {
      const ticked = all.filter((box) => box.checked).length;
      count.textContent = `: ${ticked} of ${all.length} ticked`;
      if (progress) {
        progress.value = ticked;
        progress.hidden = !ticked; // an empty bar looks like a part that failed to load
      }
    };
    for (const box of all) {
      const name = `exposurekit-tick ${service} ${box.value}`, at = stored(name);
      if (at) { box.checked = true; tick(box, at); }
      box.addEventListener("change", () => {
        const now = box.checked ? new Date().toISOString() : "";
        stored(name, now);
        tick(box, now);
        update();
      });
    }
    const ready = all.filter((box) => !box.closest(".blocked"));
    if (ready.length > 1) {
      const words = `Tick all ${ready.length}${ready.length < all.length ? " that can start" : ""}`;
      const every = button(words, { className: "all" });
      let undo = [], isBulk = false;
      every.addEventListener("click", () => {
        const boxes = undo.length ? undo : ready.filter((box) => !box.checked);
        isBulk = true;
        boxes.forEach((box) => box.click());
        isBulk = false;
        undo = undo.length ? [] : boxes;
        every.textContent = undo.length ? `${undo.length} ticked · Undo` : words;
      });
      summary.after(every);
      all.forEach((box) => box.addEventListener("change", () => {
        if (!isBulk) { undo = []; every.textContent = words; } // a tick by hand ends what Undo would restore
      }));
    }
    update();
  }
  // A table that is longer than its box has a shadow at its lower edge until its end is in view.
  for (const box of document.querySelectorAll(".wide")) {
    const shade = () => box.classList.toggle("shaded", box.scrollTop + box.clientHeight < box.scrollHeight - 4);
    box.addEventListener("scroll", shade);
    new ResizeObserver(shade).observe(box);
  }
  // The list of sections marks the one that is in view.
  const marks = new Map([...document.querySelectorAll("nav a")].map((link) => [link.hash.slice(1), link]));
  const inView = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      if (!isIntersecting) continue;
      for (const link of marks.values()) link.removeAttribute("aria-current");
      marks.get(target.id)?.setAttribute("aria-current", "true");
    }
  }, { rootMargin: "-20% 0px -70% 0px" });
  for (const section of document.querySelectorAll("main > section")) inView.observe(section);
  // Paper has no folded lists.
  let folded = [];
  addEventListener("beforeprint", () => {
    folded = [...document.querySelectorAll("details:not([open])")];
    for (const list of folded) list.open = true;
  });
  addEventListener("afterprint", () => { for (const list of folded) list.open = false; });
})();
