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
})();
