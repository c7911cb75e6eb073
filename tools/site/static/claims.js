// Claims: one list that can be searched, filtered, sorted and read on. Without JavaScript all stands there.
"use strict";

(() => {
  const root = document.querySelector("div.claims");
  if (!root) return;
  const STEP = 40; // rows that are shown, and added at a time
  const body = root.querySelector("tbody");
  const apart = root.querySelector("details");
  body.append(...apart.querySelectorAll("tbody tr"));
  apart.remove();
  const rows = [...body.rows].map((row) => ({
    row,
    paper: row.cells[0].textContent,
    verdict: row.dataset.verdict,
    text: row.textContent.toLowerCase(),
  }));
  const verdicts = [...new Set(rows.map(({ verdict }) => verdict))];
  const papers = [...new Set(rows.map(({ paper }) => paper))];
  let order = [...rows];
  let shown = STEP;

  function control(label, element) {
    const whole = document.createElement("label");
    whole.append(`${label} `, element);
    return whole;
  }
  function choice(options) {
    const select = document.createElement("select");
    for (const [value, name] of options) select.add(new Option(name, value));
    return select;
  }
  const search = Object.assign(document.createElement("input"), { type: "search" });
  const paper = choice([["", "all four"], ...papers.map((name) => [name, name])]);
  const COMPARED = "compared";
  const verdict = choice([[COMPARED, "all that were compared"], ...verdicts.map((name) => [name, name]), ["", "everything"]]);
  const count = document.createElement("output");
  const more = Object.assign(document.createElement("button"), { type: "button" });

  function show() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const kept = order.filter(
      (each) =>
        (!paper.value || each.paper === paper.value) &&
        (!verdict.value || (verdict.value === COMPARED ? each.verdict !== "not comparable" : each.verdict === verdict.value)) &&
        words.every((word) => each.text.includes(word)),
    );
    body.replaceChildren(...kept.slice(0, shown).map(({ row }) => row));
    const left = kept.length - Math.min(shown, kept.length);
    count.textContent = `${kept.length} of ${rows.length} claims`;
    more.hidden = !left;
    more.textContent = `Show ${Math.min(STEP, left)} more of ${left}`;
  }
  function again() {
    shown = STEP;
    show();
  }
  search.addEventListener("input", again);
  paper.addEventListener("change", again);
  verdict.addEventListener("change", again);
  more.addEventListener("click", () => {
    shown += STEP;
    show();
  });

  // A click on a head sorts by its column, a second one the other way round.
  const heads = [...root.querySelectorAll("thead th")];
  heads.forEach((head, column) => {
    const button = Object.assign(document.createElement("button"), { type: "button", textContent: head.textContent });
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      for (const each of heads) each.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const key = ({ row }) => row.cells[column].textContent;
      const compare = new Intl.Collator("en", { numeric: true }).compare;
      order = [...rows].sort((a, b) => (down ? -1 : 1) * compare(key(a), key(b)));
      again();
    });
  });
  const controls = document.createElement("div");
  controls.className = "controls";
  controls.append(control("Search claims", search), control("Paper", paper), control("Verdict", verdict), count);
  root.prepend(controls);
  root.append(more);
  show();
})();
