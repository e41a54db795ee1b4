// Sortable tables: a button in every heading; a second press turns the order round.
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  table.tHead.querySelectorAll("th").forEach((heading) => {
    const column = heading.cellIndex, button = document.createElement("button");
    button.type = "button";
    button.append(...heading.childNodes);
    heading.append(button);
    button.addEventListener("click", () => {
      const down = heading.getAttribute("aria-sort") !== "descending";
      table.tHead.querySelectorAll("th").forEach((other) => other.removeAttribute("aria-sort"));
      heading.setAttribute("aria-sort", down ? "descending" : "ascending");
      const key = (row) => {
        const cell = row.cells[column];
        if (!cell) return "";
        return "value" in cell.dataset ? Number(cell.dataset.value || -Infinity) : cell.textContent.trim();
      };
      const compare = (a, b) => typeof a === "number" && typeof b === "number"
        ? a - b : String(a).localeCompare(String(b), undefined, { numeric: true });
      const rows = [...body.rows].sort((a, b) => compare(key(a), key(b)));
      body.append(...(down ? rows.reverse() : rows));
    });
  });
}
