// A table that is marked `sortable` is sorted by the column whose heading is pressed, up or down.
(function () {
  "use strict";
  const value = (row, column) => row.cells[column].dataset.sort ?? row.cells[column].textContent;
  const isNumber = (text) => /^-?\d/.test(text) && !Number.isNaN(Number(text));

  function compare(one, two) {
    if (isNumber(one) && isNumber(two)) return Number(one) - Number(two);
    return one.localeCompare(two, "en", { numeric: true });
  }

  for (const table of document.querySelectorAll("table.sortable")) {
    const headings = [...table.tHead.rows[0].cells];
    headings.forEach((heading, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...heading.childNodes);
      heading.append(button);
      button.addEventListener("click", () => {
        const up = heading.getAttribute("aria-sort") !== "ascending";
        headings.forEach((each) => each.removeAttribute("aria-sort"));
        heading.setAttribute("aria-sort", up ? "ascending" : "descending");
        const rows = [...table.tBodies[0].rows];
        rows.sort((one, two) => (up ? 1 : -1) * compare(value(one, column), value(two, column)));
        table.tBodies[0].append(...rows);
      });
    });
  }
})();
