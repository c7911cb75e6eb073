// The page "Play": sliders over the numbers that the page embeds. No library, nothing is fetched.
"use strict";

(() => {
  const embedded = document.getElementById("play-data");
  if (!embedded) return;
  const data = JSON.parse(embedded.textContent);
  const SVG = "http://www.w3.org/2000/svg";
  let made = 0; // of ids

  // --- Parts of a page ---------------------------------------------------------------------

  // An element with attributes (functions become listeners) and children (texts stay texts).
  function make(tag, attributes = {}, ...children) {
    const vector = ["svg", "line", "polyline", "circle", "text", "title"].includes(tag);
    const element = vector ? document.createElementNS(SVG, tag) : document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (typeof value === "function") element.addEventListener(name, value);
      else if (value === true) element.setAttribute(name, "");
      else if (value !== false && value !== undefined) element.setAttribute(name, value);
    }
    element.append(...children);
    return element;
  }

  const percent = (share) => `${Math.round(share * 100)}%`;
  // A probability that is neither certain nor impossible is not shown as if it were.
  const chance = (p) => (p > 0 && p < 0.005 ? "<1%" : p < 1 && p >= 0.995 ? ">99%" : percent(p));
  const listed = (words) => words.join(", ");

  // A list to choose from; calls `moved` with the place of what was chosen.
  function choice(label, names, moved) {
    const id = `play-${++made}`;
    const options = names.map((name, place) => make("option", { value: place }, name));
    const select = make("select", { id, change: () => moved(Number(select.value)) }, ...options);
    return make("p", { class: "control" }, make("label", { for: id }, label), select);
  }

  // A slider over the places of a list; it can be given another list.
  function slider(label, said, moved) {
    const id = `play-${++made}`;
    let values = [];
    const name = make("label", { for: id });
    const input = make("input", { id, type: "range", min: 0, step: 1, input: show });
    function show() {
      const value = said(values[Number(input.value)]);
      name.textContent = `${label} = ${value}`;
      input.setAttribute("aria-valuetext", `${label} ${value}`);
      moved(Number(input.value));
    }
    function over(list, place) {
      values = list;
      input.max = list.length - 1;
      input.value = Math.min(place, list.length - 1);
      show();
    }
    return { element: make("p", { class: "control" }, name, input), over, place: () => Number(input.value) };
  }

  // What is said aloud after a move.
  const spoken = () => make("output", { class: "finding" });

  // Rows of bars: {label, value, low, high, n, note, aside}, or without a value; `strong` is marked,
  // and what stands aside (it answers another question) is never the strongest.
  function bars(caption, rows, strong, dimmed = (row) => row.aside) {
    const trials = new Set(rows.map((row) => row.n).filter(Boolean));
    const alike = trials.size === 1 ? `, n = ${[...trials][0].toLocaleString("en")}` : "";
    const table = make("table", { class: "bars" }, make("caption", {}, `${caption}${alike}`));
    for (const row of rows) {
      const known = row.value !== undefined;
      const fill = make("span", { class: "fill", style: `width:${100 * (row.value || 0)}%` });
      const reach = `left:${100 * row.low}%;width:${100 * (row.high - row.low)}%`;
      const drawn = known ? [fill, make("span", { class: "reach", style: reach })] : [];
      const notes = [row.aside, row.note, row.n && !alike && `n = ${row.n.toLocaleString("en")}`].filter(Boolean);
      const interval = known ? `${percent(row.low)} to ${percent(row.high)}` : "not reached";
      table.append(
        make(
          "tr",
          { class: (row === strong ? "strong" : "") + (dimmed(row) ? " dimmed" : "") },
          make("th", { scope: "row" }, row.label),
          make("td", { "aria-hidden": "true" }, make("span", { class: "bar" }, ...drawn)),
          make("td", {}, known ? make("b", {}, percent(row.value)) : "", ` ${interval}`),
          ...(notes.length ? [make("td", {}, listed(notes))] : []),
        ),
      );
    }
    return table;
  }

  const highest = (rows) =>
    rows.reduce((best, row) => (!row.aside && (row.value ?? -1) > (best?.value ?? -1) ? row : best), undefined);

  // --- A sentence at every epsilon -----------------------------------------------------------

  const STATES = {
    "in clear": "passes in clear, as it is not sanitized",
    kept: "the word was sent as it is",
    near: "one of the twenty nearest words was sent",
    far: "a word farther away was sent",
  };

  function sentence(root, { texts }) {
    let text = texts[0];
    let chosen = text.words.findIndex((_, at) => text.sent[0][at].guesses.length);
    const line = make("p", { class: "sentence" });
    const finding = spoken();
    const posterior = make("div", { class: "posterior" });
    const epsilon = slider("ε", String, show);

    function named(at) {
      const { guesses } = text.sent[epsilon.place()][at];
      return guesses.length > 0 && guesses[0][0] === text.words[at];
    }

    // One word: what was sent, below it the first guess, right or wrong.
    function word(sent, at) {
      if (!sent.guesses.length) return make("span", { class: "clear" }, sent.sent);
      const right = named(at);
      const state = sent.state;
      const mark = make("small", { class: right ? "right" : "wrong" }, `${right ? "✓" : "✗"} ${sent.guesses[0][0]}`);
      const about = `${sent.sent}, ${state}; guessed ${sent.guesses[0][0]}, ${right ? "right" : "wrong"}`;
      const attributes = { type: "button", class: `word ${state}`, "aria-label": about };
      attributes["aria-pressed"] = String(at === chosen);
      attributes.click = () => {
        chosen = at;
        show();
        line.querySelector("[aria-pressed=true]")?.focus();
      };
      return make("button", attributes, sent.sent, mark);
    }

    function show() {
      const sent = text.sent[epsilon.place()];
      line.replaceChildren(...sent.map(word));
      const hidden = sent.flatMap((each, at) => (each.guesses.length ? [at] : []));
      const count = (state) => hidden.filter((at) => sent[at].state === state).length;
      const right = hidden.filter(named);
      const replaced = right.filter((at) => sent[at].state !== "kept");
      finding.textContent =
        `${hidden.length} sanitized words: ${count("kept")} sent as they are, ${count("near")} replaced by near words, ` +
        `${count("far")} by far ones. Recovered by the attacker: ${right.length}, of which ${replaced.length} although ` +
        `another word was sent.`;
      const { state, rank, guesses } = sent[chosen];
      const rows = guesses.map(([label, value]) => ({
        label: label + (label === text.words[chosen] ? " ✓ (written)" : ""),
        value,
      }));
      const away = state === "kept" ? "" : ` (${rank.toLocaleString("en")} words are nearer)`;
      posterior.replaceChildren(
        make("p", {}, make("b", {}, text.words[chosen]), ` was written; “${sent[chosen].sent}” was sent: ${STATES[state]}${away}.`),
        guessed(rows, text.words[chosen]),
      );
    }

    function guessed(rows, truth) {
      const table = make("table", { class: "bars" }, make("caption", {}, "What the attacker takes it for, with the probability"));
      for (const { label, value } of rows) {
        const fill = make("span", { class: "fill", style: `width:${100 * value}%` });
        table.append(
          make(
            "tr",
            { class: label.startsWith(`${truth} ✓`) ? "strong" : "" },
            make("th", { scope: "row" }, label),
            make("td", { "aria-hidden": "true" }, make("span", { class: "bar" }, fill)),
            make("td", {}, chance(value)),
          ),
        );
      }
      if (!rows.some(({ label }) => label.startsWith(`${truth} ✓`)))
        table.append(make("tr", {}, make("th", { scope: "row" }, truth), make("td", { colspan: 2 }, `not among the first ${rows.length}`)));
      return table;
    }

    const key = make("p", { class: "key" });
    for (const state of ["kept", "near", "far"]) key.append(make("span", { class: `word ${state}` }, state), ` ${STATES[state]} `);
    const select = choice("Sentence and sanitizer", texts.map(({ label }) => label), (place) => {
      text = texts[place];
      chosen = text.words.findIndex((_, at) => text.sent[0][at].guesses.length);
      epsilon.over(text.values, Math.floor(text.values.length / 2));
    });
    root.append(select, epsilon.element, line, key, finding, posterior);
    epsilon.over(text.values, Math.floor(text.values.length / 2));
  }

  // --- Lines over the length of the noise ------------------------------------------------------

  function lines(root, { word, values, lines: every }) {
    const width = 640;
    const height = 320;
    const edge = 8;
    const all = every.flatMap(({ scores }) => scores);
    const [low, top] = [Math.min(...all), Math.max(...all)];
    const x = (place) => edge + (place / (values.length - 1)) * (width - 2 * edge);
    const y = (score) => height - edge - ((score - low) / (top - low)) * (height - 2 * edge);
    const at = (place) => every.reduce((best, line) => (line.scores[place] > best.scores[place] ? line : best));
    const winners = new Map();
    values.forEach((value, place) => winners.has(at(place).word) || winners.set(at(place).word, value));

    const picture = make("svg", { viewBox: `0 0 ${width} ${height}`, role: "img" });
    picture.append(make("title", {}, `Scores of ${every.length} words against the length of the noise; the highest is sent.`));
    const ordered = [...every].sort((a, b) => winners.has(a.word) - winners.has(b.word));
    const drawn = new Map();
    for (const line of ordered) {
      const points = line.scores.map((score, place) => `${x(place)},${y(score)}`).join(" ");
      drawn.set(line.word, make("polyline", { points, class: winners.has(line.word) ? "winner" : "other" }));
      picture.append(drawn.get(line.word));
    }
    const ruler = make("line", { y1: 0, y2: height, class: "ruler" });
    const point = make("circle", { r: 6, class: "point" });
    const name = make("text", {});
    picture.append(ruler, point, name);

    const finding = spoken();
    const radius = slider("length of the noise", (value) => value.toFixed(1), (place) => {
      const best = at(place);
      ruler.setAttribute("x1", x(place));
      ruler.setAttribute("x2", x(place));
      point.setAttribute("cx", x(place));
      point.setAttribute("cy", y(best.scores[place]));
      const late = place > values.length / 2; // then the name stands to the left
      name.textContent = best.word;
      name.setAttribute("x", x(place) + (late ? -12 : 12));
      name.setAttribute("y", Math.max(y(best.scores[place]) - 10, 16));
      name.setAttribute("text-anchor", late ? "end" : "start");
      for (const [each, line] of drawn) line.classList.toggle("highest", each === best.word);
      const second = every.filter((line) => line !== best).sort((a, b) => b.scores[place] - a.scores[place])[0];
      const sent = best.word === word ? `“${word}” is sent as it is` : `“${best.word}” is sent for “${word}”`;
      finding.textContent = `At ${values[place].toFixed(1)} ${sent}; next would be “${second.word}”.`;
    });
    const from = [...winners].map(([name, value]) => `${name} from ${value.toFixed(1)}`);
    root.append(radius.element, picture, finding, make("p", {}, `Along this direction: ${listed(from)}.`));
    radius.over(values, Math.floor(values.length / 3));
  }

  // --- Bars at the values of a slider ------------------------------------------------------------

  function stepped(label, shown, caption, says) {
    return (root, { choices }) => {
      let chosen = choices[0];
      const table = make("div");
      const finding = spoken();
      const moved = slider(label, shown, (place) => {
        const rows = chosen.steps[place];
        const best = highest(rows);
        table.replaceChildren(bars(caption, rows, best));
        finding.textContent = says(best, shown(chosen.values[place]), rows);
      });
      const select = choice("Shown", choices.map((each) => each.label), (place) => {
        chosen = choices[place];
        moved.over(chosen.values, moved.place());
      });
      root.append(...(choices.length > 1 ? [select] : []), moved.element, finding, table);
      moved.over(chosen.values, Math.floor(chosen.values.length / 2));
    };
  }

  const stencil = stepped("sigma", String, "Tokens recovered, with 95% intervals", (best, sigma) =>
    `At sigma ${sigma} the strongest attack is ${best.label}: it recovers ${percent(best.value)} of the tokens.`);

  const scoreboard = stepped("success of the strongest attack", percent, "What is left of the use, with 95% intervals", (best, risk, rows) => {
    const alike = rows.filter((row) => row !== best && row.high >= best.low).map((row) => row.label);
    const beside = alike.length ? ` Its interval overlaps with those of ${listed(alike)}.` : "";
    return `Where the strongest attack reaches ${risk}, ${best.label} leaves most: ${percent(best.value)}.${beside}`;
  });

  // --- What the attacker knows -------------------------------------------------------------------

  function ladder(root, { facts, settings }) {
    let setting = settings[0];
    const table = make("div");
    const finding = spoken();
    const boxes = new Map();
    const group = make("fieldset", {}, make("legend", {}, "The attacker knows"));
    for (const [key, label] of Object.entries(facts)) {
      const id = `play-${++made}`;
      const box = make("input", { id, type: "checkbox", change: show, checked: ["channel", "shadow"].includes(key) });
      boxes.set(key, box);
      group.append(make("div", {}, box, make("label", { for: id }, ` ${label}`)));
    }
    function show() {
      const able = (row) => row.needs.every((need) => boxes.get(need).checked);
      const rows = [...setting.rows].sort((a, b) => able(b) - able(a) || b.value - a.value);
      const best = highest(rows.filter(able));
      table.replaceChildren(bars("Words recovered, with 95% intervals, pale where the attack needs more", rows, best, (row) => !able(row)));
      finding.textContent = best
        ? `${rows.filter(able).length} of ${rows.length} attacks are possible; the strongest, ${best.label}, recovers ${percent(best.value)} of the words.`
        : "No attack is possible with this.";
    }
    const select = choice("Sanitizer", settings.map(({ label }) => label), (place) => {
      setting = settings[place];
      show();
    });
    root.append(select, group, finding, table);
    show();
  }

  const PARTS = { sentence, lines, stencil, ladder, scoreboard };
  for (const [key, part] of Object.entries(PARTS)) {
    const root = document.getElementById(`play-${key}`);
    if (root && data[key]) part(root, data[key]);
  }
})();
