// Tables can be sorted, filtered and saved as CSV; items can be ticked, and the ticks saved. Nothing leaves the page.
(() => {
  "use strict";
  const FEW = 5; // rows that are read faster than filtered
  const MANY = 12; // values that are searched rather than picked
  const number = /^(?:from |up to |under |over )?([-+\u2212]?[\d,]*\.?\d+)%?(?:\u2013[\d.,]+%?)?(?: \(.*\))?$/; // or an interval, by its lower end
  const value = (text) => (number.test(text)
    ? parseFloat(number.exec(text)[1].replace(/,/g, "").replace("\u2212", "-")) : text.toLowerCase());
  function compared(a, b) {
    if ((a === "—") !== (b === "—")) return a === "—" ? 1 : -1; // missing values come last
    const [x, y] = [value(a), value(b)];
    return typeof x === typeof y ? (x < y ? -1 : x > y ? 1 : 0) : typeof x === "number" ? -1 : 1;
  }

  function sorting(table) {
    const body = table.tBodies[0];
    table.style.setProperty("--columns", table.tHead.rows[0].cells.length); // more columns print smaller
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      const parts = head.textContent.split(/(?<= )/); // a narrow heading breaks between its words
      button.append(...parts.flatMap((part, at) => (at ? [document.createElement("wbr"), part] : [part])));
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        const falling = head.getAttribute("aria-sort") === "ascending";
        for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", falling ? "descending" : "ascending");
        const rows = [...body.rows].sort((a, b) => {
          const order = compared(a.cells[column].textContent, b.cells[column].textContent);
          return falling && a.cells[column].textContent !== "—" && b.cells[column].textContent !== "—" ? -order : order;
        });
        body.append(...rows);
      });
    });
  }

  // A column of few texts, each in several rows, is filtered by picking one; each has its number of rows.
  function pickers(table) {
    const rows = [...table.tBodies[0].rows];
    return [...table.tHead.rows[0].cells].flatMap((head, column) => {
      if (head.dataset.pick === undefined) return [];
      const counts = new Map();
      for (const row of rows) {
        const text = row.cells[column]?.textContent;
        counts.set(text, (counts.get(text) ?? 0) + 1);
        if (counts.size > MANY) return [];
      }
      if (counts.size < 2 || counts.size * 2 > rows.length) return [];
      const select = document.createElement("select");
      const name = head.textContent;
      select.setAttribute("aria-label", `${name} in ${table.caption.textContent}`);
      select.append(new Option(`Every ${name}`, ""));
      for (const [text, n] of [...counts].sort((a, b) => b[1] - a[1])) select.append(new Option(`${text} (${n})`, text));
      return [{ column, select }];
    });
  }

  function download(text, type, name) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type }));
    link.download = name;
    link.click();
    URL.revokeObjectURL(link.href);
  }

  function tools(numbers) {
    const table = numbers.querySelector("table");
    const row = document.createElement("div");
    row.className = "tools";
    const label = document.createElement("label");
    const search = document.createElement("input");
    search.type = "search";
    search.placeholder = "Filter rows";
    search.setAttribute("aria-label", `Filter ${table.caption.textContent}`);
    label.append(search);
    const count = document.createElement("span");
    count.setAttribute("role", "status");
    const picks = pickers(table);
    const filter = () => {
      const query = search.value.toLowerCase();
      let matches = 0;
      for (const row of table.tBodies[0].rows) {
        row.hidden = !row.textContent.toLowerCase().includes(query)
          || picks.some(({ column, select }) => select.value && row.cells[column].textContent !== select.value);
        matches += row.hidden ? 0 : 1;
      }
      const isFiltered = query || picks.some(({ select }) => select.value);
      count.textContent = isFiltered ? `${matches} of ${table.tBodies[0].rows.length} rows` : "";
    };
    search.addEventListener("input", filter);
    for (const { select } of picks) select.addEventListener("change", filter);
    const save = document.createElement("button");
    save.type = "button";
    save.textContent = "CSV";
    save.setAttribute("aria-label", `Save ${table.caption.textContent} as CSV`);
    save.addEventListener("click", () => {
      download(JSON.parse(numbers.querySelector("script").textContent), "text/csv", `${numbers.dataset.name}.csv`);
    });
    const rows = table.tBodies[0].rows.length;
    if (rows > FEW) row.append(label, ...picks.map(({ select }) => select), count);
    if (rows > 1) {
      sorting(table);
      row.append(sortList(table));
    }
    row.append(save);
    numbers.querySelector(".wide").before(row);
  }
  // On a phone the cards have no heads to press: a list sorts them, numbers from the largest.
  function sortList(table) {
    const select = document.createElement("select");
    select.className = "sort";
    select.setAttribute("aria-label", `Sort ${table.caption.textContent}`);
    select.append(new Option("Sort by …", ""));
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, at) => select.append(new Option(head.textContent, at)));
    select.addEventListener("change", () => {
      if (!select.value) return;
      const head = heads[select.value], press = head.querySelector("button");
      const wanted = head.classList.contains("left") ? "ascending" : "descending";
      do press.click(); while (head.getAttribute("aria-sort") !== wanted);
    });
    return select;
  }
  const isPhone = matchMedia("(max-width: 30rem)").matches; // where a row is a card of several lines
  for (const numbers of document.querySelectorAll(".numbers")) {
    tools(numbers);
    if (isPhone) numbers.open = false;
  }

  // Each value has a button that copies it.
  function button(words, label) {
    const element = document.createElement("button");
    element.type = "button";
    element.textContent = words;
    if (label) element.setAttribute("aria-label", label);
    return element;
  }
  function copyIcon() {
    const names = "http://www.w3.org/2000/svg", icon = document.createElementNS(names, "svg");
    icon.setAttribute("viewBox", "0 0 16 16");
    icon.setAttribute("aria-hidden", "true");
    const path = document.createElementNS(names, "path");
    path.setAttribute("d", "M5.5 5.5h8v8h-8zM3.5 10.5h-1v-8h8v1");
    path.setAttribute("fill", "none");
    path.setAttribute("stroke", "currentColor");
    path.setAttribute("stroke-width", "1.5");
    icon.append(path);
    return icon;
  }
  for (const code of document.querySelectorAll(".task code, .task a")) {
    const press = button("", `Copy ${code.previousElementSibling?.textContent ?? "link"}`);
    press.className = "copy";
    press.title = "Copy";
    press.append(copyIcon());
    press.addEventListener("click", async () => {
      press.textContent = (await copy(code.getAttribute("href") || code.textContent)) ? "Copied" : "Select it by hand";
      setTimeout(() => press.replaceChildren(copyIcon()), 2000);
    });
    code.after(press);
  }

  // When an item was ticked is stored in this browser, if it allows a page to store anything.
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
      const name = `exposurekit-tick ${box.value}`, at = stored(name);
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
      const every = button(words);
      every.className = "all";
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
