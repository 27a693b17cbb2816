
// Sorts tables of the class "sortable" by the column whose heading is pressed.
for (const table of document.querySelectorAll("table.sortable")) {
  const headings = [...table.tHead.rows[0].cells];
  const body = table.tBodies[0];
  const value = (row, column) => {
    const cell = row.cells[column];
    const number = Number.parseFloat(cell.dataset.value);
    return cell.dataset.value === undefined ? cell.textContent : number;
  };
  const compare = (one, two) => {
    if (typeof one === "string") return one.localeCompare(two);
    // What is no number comes last, whichever the direction.
    return Number.isNaN(one) - Number.isNaN(two) || one - two;
  };
  headings.forEach((heading, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...heading.childNodes);
    heading.append(button);
    button.addEventListener("click", () => {
      const down = heading.getAttribute("aria-sort") === "ascending";
      for (const other of headings) other.removeAttribute("aria-sort");
      heading.setAttribute("aria-sort", down ? "descending" : "ascending");
      const sign = down ? -1 : 1;
      const rows = [...body.rows].sort((one, two) => {
        const pair = [value(one, column), value(two, column)];
        return pair.some(Number.isNaN) ? compare(...pair) : sign * compare(...pair);
      });
      body.append(...rows);
    });
  });
}
