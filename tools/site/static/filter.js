// Claims: shows the rows that hold every word that was typed. Without JavaScript the list is whole.
const first = document.querySelector("#claims-of-the-papers > section");
if (first) {
  const input = document.createElement("input");
  input.type = "search";
  input.className = "filter";
  input.placeholder = "Words of a setting, verdict or reason";
  input.setAttribute("aria-label", input.placeholder);
  input.addEventListener("input", () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const row of document.querySelectorAll("#claims-of-the-papers section tbody tr"))
      row.hidden = !words.every((word) => row.textContent.toLowerCase().includes(word));
  });
  first.before(input);
}
