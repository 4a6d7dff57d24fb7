// Tables sort, filter, and give their CSV. Nothing leaves the page.
(() => {
  "use strict";
  const number = /^-?[\d,]*\.?\d+%?$/;
  const value = (text) => (number.test(text) ? parseFloat(text.replace(/,/g, "")) : text.toLowerCase());
  function compared(a, b) {
    if ((a === "—") !== (b === "—")) return a === "—" ? 1 : -1; // what is missing stands last
    const [x, y] = [value(a), value(b)];
    return typeof x === typeof y ? (x < y ? -1 : x > y ? 1 : 0) : typeof x === "number" ? -1 : 1;
  }

  function sorting(table) {
    const body = table.tBodies[0];
    table.style.setProperty("--columns", table.tHead.rows[0].cells.length); // the more there are, the smaller it prints
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      const parts = head.textContent.split(/(?<=_)/); // a narrow head breaks where its words end
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

  function tools(numbers) {
    const table = numbers.querySelector("table");
    const row = document.createElement("div");
    row.className = "tools";
    const label = document.createElement("label");
    const search = document.createElement("input");
    search.type = "search";
    label.append("Filter ", search);
    const count = document.createElement("span");
    count.setAttribute("role", "status");
    search.addEventListener("input", () => {
      const asked = search.value.toLowerCase();
      let shown = 0;
      for (const one of table.tBodies[0].rows) {
        one.hidden = !one.textContent.toLowerCase().includes(asked);
        shown += one.hidden ? 0 : 1;
      }
      count.textContent = asked ? `${shown} of ${table.tBodies[0].rows.length} rows` : "";
    });
    const save = document.createElement("button");
    save.type = "button";
    save.textContent = "CSV";
    save.setAttribute("aria-label", `Save ${table.caption.textContent} as CSV`);
    save.addEventListener("click", () => {
      const text = JSON.parse(numbers.querySelector("script").textContent);
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
      link.download = `${numbers.dataset.name}.csv`;
      link.click();
      URL.revokeObjectURL(link.href);
    });
    row.append(label, save, count);
    numbers.prepend(row);
    sorting(table);
  }
  for (const numbers of document.querySelectorAll(".numbers")) tools(numbers);

  // Every text to enter has a button that copies it. A file may have no clipboard: then the selection is copied.
  async function copied(text) {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      const area = document.createElement("textarea");
      area.value = text;
      document.body.append(area);
      area.select();
      const done = document.execCommand("copy");
      area.remove();
      return done;
    }
  }
  function button(words, label) {
    const made = document.createElement("button");
    made.type = "button";
    made.textContent = words;
    if (label) made.setAttribute("aria-label", label);
    return made;
  }
  for (const code of document.querySelectorAll(".task code, .task a")) {
    const copy = button("Copy", `Copy ${code.previousElementSibling.textContent}`);
    copy.addEventListener("click", async () => {
      copy.textContent = (await copied(code.getAttribute("href") || code.textContent)) ? "Copied" : "Select it by hand";
      setTimeout(() => { copy.textContent = "Copy"; }, 2000);
    });
    code.after(" ", copy);
  }

  // Ticks stay in this browser, where it lets a page keep anything.
  const kept = {
    read(name) { try { return localStorage.getItem(name) !== null; } catch { return false; } },
    write(name, on) { try { on ? localStorage.setItem(name, "1") : localStorage.removeItem(name); } catch { /* not kept */ } },
  };
  for (const tasks of document.querySelectorAll(".tasks")) {
    const all = [...tasks.querySelectorAll(".task input")], summary = tasks.querySelector("summary");
    const words = summary.textContent;
    const said = () => { summary.textContent = `${words}: ${all.filter((one) => one.checked).length} ticked`; };
    all.forEach((box, at) => {
      const item = box.closest(".task");
      const name = `exposurekit ${document.title} ${tasks.dataset.name} ${at} ${item.textContent.replace(/\s+/g, " ")}`;
      let hash = 5381n;
      for (const letter of name) hash = (hash * 33n + BigInt(letter.codePointAt(0))) % 18446744073709551557n;
      const key = `exposurekit-${hash.toString(36)}`;
      box.checked = kept.read(key);
      box.addEventListener("change", () => { kept.write(key, box.checked); said(); });
    });
    if (all.length > 1) {
      const every = button(`Tick all ${all.length}`);
      every.className = "all";
      every.addEventListener("click", () => all.forEach((box) => { box.checked || box.click(); }));
      summary.after(every);
    }
    said();
  }
  // On paper nothing is folded.
  let folded = [];
  addEventListener("beforeprint", () => {
    folded = [...document.querySelectorAll("details:not([open])")];
    for (const one of folded) one.open = true;
  });
  addEventListener("afterprint", () => { for (const one of folded) one.open = false; });
})();
