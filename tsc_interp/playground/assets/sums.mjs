// The page for models that add two numbers: type them, watch the digits being written, walk in the map of all pairs.

import { carriesOf, cellsOf, columnsOf, digitOfStep, digitsOf, numberOf, pairInCell, shareOf, writeSum } from "./addition.mjs";
import { h, reducedMotion, replace, roving, startRoving, startTooltip } from "./dom.mjs";
import { downloadFile } from "./download.mjs";
import { roughError } from "./evaluator.mjs";
import { contributionFigure } from "./figures.mjs";
import { show, showCount, showPercent, showSigned } from "./maths.mjs";
import { prepare } from "./model.mjs";
import { readModel } from "./models.mjs";
import { badge, themeButton } from "./parts.mjs";

const byId = (id) => document.getElementById(id);
const payload = JSON.parse(byId("payload").textContent);
const models = payload.models.map(readModel);
const state = { main: models[0], a: [], b: [], step: 0, map: 0, shown: Infinity };
const SAMPLE = 100_000; // pairs that a usual test draws

/** A count in four digits, powers of ten as such. */
const big = (count) => (BigInt(count) < 1_000_000n ? showCount(String(count)) : show(Number(BigInt(count)), 4).replace(/^1\.0+·/, ""));
const exactly = (count) => showCount(count);
const nameOf = (token) => state.main.model.called[token + 1];
const sums = () => state.main.sums;
const stepName = (step) => (digitOfStep(sums(), step) === null ? "the end" : `digit ${digitOfStep(sums(), step)}`);

// -- state ----------------------------------------------------------------------------------------------

/** Two numbers as digits; the step that is looked at is the first wrong one, if there is one. */
function setPair(a, b, step = null) {
  Object.assign(state, { a, b, shown: Infinity });
  clearTimeout(walking);
  const steps = written();
  const wrong = steps.findIndex(({ said, truth }) => said !== truth);
  state.step = step ?? (wrong < 0 ? Math.min(state.step, steps.length - 1) : wrong);
  state.map = state.step;
  byId("first").value = numberOf(a);
  byId("second").value = numberOf(b);
  for (const id of ["first", "second"]) byId(id).setAttribute("aria-invalid", "false");
  byId("sum-problem").textContent = "";
  draw();
}

function readNumbers() {
  const [a, b] = ["first", "second"].map((id) => digitsOf(byId(id).value, sums()));
  const problems = [a, b].filter((each) => typeof each === "string");
  byId("first").setAttribute("aria-invalid", String(typeof a === "string"));
  byId("second").setAttribute("aria-invalid", String(typeof b === "string"));
  byId("sum-problem").textContent = problems.length > 0 ? `${problems[0]}; still showing ${numberOf(state.a)} + ${numberOf(state.b)}` : "";
  if (problems.length > 0) return;
  const [one, two] = [byId("first").value, byId("second").value];
  setPair(a, b);
  // What is being typed stays as it was typed.
  Object.assign(byId("first"), { value: one });
  Object.assign(byId("second"), { value: two });
}

const prepared = new Map();

function written() {
  if (!prepared.has(state.main)) prepared.set(state.main, prepare(state.main.model));
  return writeSum(prepared.get(state.main), sums(), state.a, state.b);
}

/** Wrong pairs of the map, the smallest of each cell, most pairs first. */
function wrongPairs() {
  const steps = sums().known?.steps ?? [];
  const found = steps.flatMap(({ cells }, step) => (cells ?? []).filter(([, , , , , pair]) => pair).map(([, , , wrong, , pair]) => ({ step, wrong: BigInt(wrong), pair })));
  return found.sort((one, two) => (two.wrong > one.wrong) - (two.wrong < one.wrong));
}

function startingPair() {
  const { first } = sums();
  const fallback = Array.from({ length: sums().digits }, (_, i) => Number(i === Math.min(4, sums().digits - 1)));
  return first ? first.map((text) => digitsOf(text, sums())) : [fallback, fallback];
}

function restore(hash) {
  const given = new URLSearchParams(hash.replace(/^#/, ""));
  const wanted = models.find(({ name }) => name === given.get("model"));
  state.main = wanted ?? models[0];
  const pair = ["a", "b"].map((name) => digitsOf(given.get(name) ?? "", sums()));
  const fits = pair.every((digits) => typeof digits !== "string");
  const problem = given.size > 0 && (!fits || (given.has("model") && !wanted));
  byId("notice").hidden = !problem;
  byId("notice").textContent = "The link does not fit this page; it opened on its own example.";
  introduce();
  setPair(...(fits ? pair : startingPair()));
}

let timer = 0;

function remember() {
  clearTimeout(timer);
  timer = setTimeout(() => {
    const parts = new URLSearchParams(state.main === models[0] ? {} : { model: state.main.name });
    parts.set("a", numberOf(state.a));
    parts.set("b", numberOf(state.b));
    try {
      history.replaceState(null, "", `#${parts}`);
    } catch {
      // Inside another page (a report) there is no address of our own to write to.
    }
  }, 200);
}

// -- what is drawn ----------------------------------------------------------------------------------------

function introduce() {
  const { main } = state;
  const { config } = main;
  byId("title").textContent = main.name;
  byId("subtitle").textContent = `A transformer that adds two numbers: ${config.n_layers} layer${config.n_layers > 1 ? "s" : ""}, ${config.n_heads} head${config.n_heads === 1 ? "" : "s"}, width ${config.d_model}. It never sees numbers, only ${config.n_letters} kinds of tokens in a row.`;
  document.title = `${main.name} · tsc-interp playground`;
  byId("footer").textContent = `tsc-interp ${payload.version} playground. The model runs in this page; nothing is sent anywhere.`;
  byId("models").hidden = models.length < 2;
  const option = ({ name }) => h("option", { value: name, selected: name === main.name }, name);
  const choose = (event) => {
    state.main = models.find(({ name }) => name === event.target.value);
    introduce();
    setPair(...startingPair());
  };
  replace(byId("models"), h("label", {}, "Model ", h("select", { "data-key": "model", onchange: choose }, models.map(option))));
  replace(byId("badges"), badge(main.model, main.strings, main.logits));
  drawKnown();
  drawProof();
  drawTries();
}

function draw() {
  const steps = written();
  const wrong = steps.findIndex(({ said, truth }) => said !== truth);
  replace(byId("verdicts"), verdict(steps, wrong));
  drawColumns(steps, wrong);
  drawLooks(steps[state.step]);
  drawWhy(steps[state.step]);
  drawMap();
  refreshTooltip();
  document.documentElement.dataset.ready = "yes";
  remember();
}

const sure = ({ trace }) => Math.abs(trace.logit) > roughError(trace);

/** What was written, as people write it: signs that are no digits stay. */
function writtenText(steps, which) {
  const signs = sums().places.s.map((place) => nameOf(steps[place - sums().fixed.length][which]));
  return signs.reverse().join("").replace(/^0+(?=\d)/, "");
}

function verdict(steps, wrong) {
  const close = steps.some((step) => !sure(step));
  const [look, tag] = close ? ["open", "too close to call"] : wrong < 0 ? ["right", "right"] : ["wrong", `wrong: ${writtenText(steps, "truth")} is right`];
  return h("div", { class: `verdict ${look}` }, h("span", { class: "big", "data-result": "sum" }, `= ${writtenText(steps, "said")}`), h("span", { class: "tag", "data-result": "judged" }, tag));
}

function drawTries() {
  const random = () => Array.from({ length: sums().digits }, () => Math.floor(Math.random() * sums().base));
  const button = (key, text, act) => h("button", { class: "small", "data-key": key, onclick: act }, text);
  const wrong = wrongPairs();
  let next = 0;
  replace(
    byId("tries"),
    wrong.length > 0
      ? button("wrong-pair", "A wrong pair", () => {
          const { pair, step } = wrong[next++ % wrong.length];
          setPair(...pair.map((text) => digitsOf(text, sums())), step);
        })
      : null,
    button("random-pair", "A random pair", () => setPair(random(), random())),
    button("nines", "All nines", () => setPair(...Array(2).fill(Array(sums().digits).fill(sums().base - 1)))),
  );
}

function drawColumns(steps, wrong) {
  const { digits, places, fixed } = sums();
  const carries = carriesOf(sums(), state.a, state.b);
  const columns = Array.from({ length: places.s.length }, (_, i) => places.s.length - 1 - i);
  const shown = (digit, list) => list.slice(digit).every((value) => value === 0) && digit > 0;
  const operand = (list) => columns.map((j) => h("td", { class: shown(j, list) ? "zero" : "" }, j < digits ? list[j] : ""));
  const stepOf = (j) => places.s[j] - fixed.length;
  const written = (j) => {
    const step = stepOf(j);
    const { said, truth } = steps[step];
    const hidden = step >= state.shown;
    const kind = hidden ? " unwritten" : said === truth ? "" : " wrong";
    const label = hidden ? "not written yet" : `digit ${j}: writes ${nameOf(said)}${said === truth ? "" : `, ${nameOf(truth)} is right`}`;
    return h("td", {}, h("button", { class: `digit${kind}`, "data-key": `step-${step}`, "data-step": step, "aria-pressed": String(step === state.step), "aria-label": label, onclick: () => look(step) }, nameOf(said)));
  };
  const row = (name, cells, kind = "") => h("tr", { class: kind }, h("th", { scope: "row" }, name), cells);
  const ends = steps.map((each, step) => ({ ...each, step })).filter(({ step }) => digitOfStep(sums(), step) === null);
  replace(
    byId("column-sum"),
    h(
      "table",
      { class: "sum-table", "aria-label": "The sum in columns" },
      h(
        "tbody",
        {},
        row("carry", columns.map((j) => h("td", {}, carries[j] ? "1" : "")), "carry"),
        row("", operand(state.a)),
        row("+", operand(state.b)),
        row("it writes", columns.map(written), "answer"),
        wrong < 0 ? null : row("right is", columns.map((j) => h("td", {}, steps[stepOf(j)].said === steps[stepOf(j)].truth ? "" : nameOf(steps[stepOf(j)].truth))), "expected"),
      ),
    ),
    ends.map(({ said, truth, step }) => h("p", { class: "note" }, `Then it writes ${nameOf(said)}${said === truth ? "." : `; ${nameOf(truth)} is right.`} `, h("button", { class: "small", "data-key": `step-${step}`, onclick: () => look(step) }, "Look"))),
  );
  const last = state.shown >= steps.length;
  replace(
    byId("walk"),
    h("button", { class: "small", "data-key": "watch", onclick: watch }, "Watch it write"),
    h("button", { class: "small", "data-key": "back", "aria-label": "The digit before", disabled: state.step === 0, onclick: () => look(state.step - 1) }, "◀"),
    h("button", { class: "small", "data-key": "on", "aria-label": "The next digit", disabled: state.step === steps.length - 1, onclick: () => look(state.step + 1) }, "▶"),
    h("span", { class: "note" }, last && wrong >= 0 && state.step > wrong ? "Since its first error it reads its own wrong digit." : `Step ${state.step + 1} of ${steps.length}, ${stepName(state.step)}.`),
  );
}

function look(step) {
  Object.assign(state, { step, map: step, shown: Infinity });
  clearTimeout(walking);
  draw();
}

let walking = 0;

/** One digit after the other, from the first that is written. */
function watch() {
  const steps = sums().writes.length;
  const on = (step) => {
    Object.assign(state, { step, map: step, shown: step + 1 });
    draw();
    clearTimeout(walking);
    if (step + 1 < steps) walking = setTimeout(() => on(step + 1), reducedMotion() ? 1200 : 700);
    else state.shown = Infinity;
  };
  on(0);
}

// -- one step -------------------------------------------------------------------------------------------

function drawLooks({ trace, letters, said }) {
  const { config } = state.main.model;
  byId("looks-caption").textContent = `Before it writes ${nameOf(said)} as ${stepName(state.step)}: darker is more attention. The framed token asks; point at a token for the formula.`;
  const where = columnsOf(sums(), letters.length);
  const layers = trace.layers.flatMap((layer, index) => (layer.pattern ?? []).map((rows, head) => ({ layer, index, rows, head })));
  if (layers.length === 0) return replace(byId("looks"), h("p", {}, "This model has no attention."));
  const columns = ["sign", ...Array.from({ length: sums().places.s.length }, (_, i) => sums().places.s.length - 1 - i)];
  const table = ({ layer, index, rows, head }) => {
    const weights = rows[rows.length === trace.ids.length ? trace.reading : 0];
    const cell = (row, column) => {
      const place = where.findIndex((each) => each.row === row && each.column === column);
      if (place < 0) return h("td", { class: "none" });
      const score = layer.scores[head].at(-1)[place];
      const value = layer.v[head][place];
      const lines = [
        `${nameOf(letters[place])} at place ${place}: ${showPercent(weights[place])} of the attention`,
        `score q · k = ${show(score)}`,
        `weight = e^score / sum of e^score = ${show(weights[place], 3)}`,
        `value v = (${value.slice(0, 6).map((x) => show(x, 3)).join(", ")}${value.length > 6 ? ", …" : ""})`,
      ];
      return h("td", { class: place === letters.length - 1 ? "asks" : "", style: `--weight:${weights[place].toFixed(4)}`, explain: lines, "data-key": `look-${index}-${head}-${place}` }, nameOf(letters[place]));
    };
    const most = weights.map((weight, place) => ({ weight, place })).sort((one, two) => two.weight - one.weight).slice(0, 3);
    const part = trace.parts.find(({ id }) => id === `${index}.${head}`);
    return h(
      "div",
      {},
      h("h3", {}, `${config.n_layers > 1 ? `Layer ${index}, head` : "Head"} ${head}`, h("span", { class: "note" }, ` mostly at ${most.filter(({ weight }) => weight > 0.1).map(({ weight, place }) => `${nameAt(where[place])} (${showPercent(weight)})`).join(", ") || "nothing in particular"}${part ? `; adds ${showSigned(part.contribution, 3)}` : ""}`)),
      roving(h("table", { class: "look-table", "aria-label": `Attention of head ${head}` }, h("tbody", {}, ["a", "b", "s"].map((row) => h("tr", {}, columns.map((column) => cell(row, column))))))),
    );
  };
  return replace(byId("looks"), layers.map((each) => h("div", { class: "scroll-x" }, table(each))));
}

const nameAt = ({ row, column }) => (column === "sign" ? { a: "what stands before", b: "+", s: "=" }[row] : `${row}${column}`);

function drawWhy({ trace, said, truth }) {
  const order = trace.outputs.map((_, i) => i).sort((i, j) => trace.outputs[j] - trace.outputs[i]);
  const close = Math.abs(trace.logit) <= roughError(trace);
  byId("why-caption").textContent = `${nameOf(said)} is ahead of ${nameOf(trace.second)} by ${show(trace.logit, 4)}${close ? ", less than this page's rounding" : ""}; the parts below add up to that.`;
  const row = (i) => h("tr", {}, h("th", { scope: "row" }, nameOf(i), i === truth ? h("span", { class: "note" }, " (right)") : null), h("td", { class: "right" }, showSigned(trace.outputs[i])));
  const shown = [...new Set([...order.slice(0, 4), truth])];
  replace(
    byId("why"),
    contributionFigure(trace, null, () => false, 420, "ahead by"),
    h("table", { class: "numbers" }, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "it could write"), h("th", { scope: "col", class: "right" }, "output"))), h("tbody", {}, shown.map(row))),
  );
}

// -- all pairs --------------------------------------------------------------------------------------------

function drawKnown() {
  const { known } = sums();
  byId("known-title").textContent = known ? `All ${big(known.pairs)} pairs` : "What about all pairs?";
  byId("proof-card").hidden = !known;
  if (!known) {
    byId("known").textContent = "This page does not know how many pairs are wrong. The command below decides them all, and its page has their map and the proof.";
    replace(byId("missed"), h("code", {}, `tsc-interp playground ${state.main.source} --seconds 60`));
    return;
  }
  const [wrong, open] = [BigInt(known.wrong), BigInt(known.undecided)];
  const rest = open > 0n ? ` ${exactly(known.undecided)} are not decided.` : "";
  const one = wrong > 0n ? BigInt(known.pairs) / wrong : 0n;
  byId("known").textContent =
    wrong > 0n
      ? `The model is wrong on ${exactly(known.wrong)} of ${exactly(known.pairs)} pairs, about one in ${big(one)}, and right on ${exactly(known.right)}.${rest}`
      : open > 0n
        ? `No wrong pair was found; ${exactly(known.right)} of ${exactly(known.pairs)} are right.${rest}`
        : `The model is right on every one of ${exactly(known.pairs)} pairs. This was proved; no test by samples can say it.`;
  byId("missed").textContent = wrong > 0n ? sampled(shareOf(known.wrong, known.pairs)) : "";
}

/** What a test of random pairs would have seen, and why short numbers are not among them. */
function sampled(share) {
  const [expected, chance] = [SAMPLE * share, -Math.expm1(SAMPLE * Math.log1p(-share))];
  const { digits, base, first } = sums();
  const seen = expected >= 3 ? `A test of ${showCount(SAMPLE)} random pairs meets ${show(expected, 2)} wrong ones on average.` : `A test of ${showCount(SAMPLE)} random pairs finds a wrong one with a chance of ${showPercent(chance)}: most likely it reports 100%.`;
  const size = Math.max(...first.map((text) => numberOf(digitsOf(text, sums())).length));
  if (size > digits - 2) return seen;
  const rare = BigInt(base) ** BigInt(2 * (digits - size));
  return `${seen} The smallest wrong pair, ${first.map((text) => numberOf(digitsOf(text, sums()))).join(" + ")}, has ${size} digits, and nearly all random numbers have ${digits}: only one pair in ${big(rare)} is as short.`;
}

function drawMap() {
  const { known } = sums();
  byId("map-card").hidden = !known;
  if (!known) return;
  const digit = digitOfStep(sums(), state.map);
  const place = digit === null ? null : Math.min(digit, sums().digits - 1);
  byId("map-caption").textContent = "Rows are the first number's digit, columns the second's. Choose a cell to try a pair of it: the smallest wrong one, if there is any.";
  replace(byId("map"), h("div", { class: "sum-map" }, stepTable(known), h("div", {}, place === null || known.steps[state.map].cells === null ? h("p", { class: "note" }, "This step has no map: what it writes does not tell which carry came in.") : grids(known.steps[state.map], place), mapKey())));
}

function stepTable({ steps, pairs }) {
  const row = ({ wrong, undecided }, step) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, h("button", { class: "small", "data-key": `map-${step}`, "aria-pressed": String(step === state.map), onclick: () => Object.assign(state, { map: step }) && drawMap() }, stepName(step))),
      h("td", { class: `right ${wrong === "0" ? "" : "wrong-text"}`, title: `${exactly(wrong)} wrong` }, wrong === "0" ? (undecided === "0" ? "all right" : "") : `${big(wrong)} wrong`),
      h("td", { class: "right note" }, undecided === "0" ? (wrong === "0" ? "" : `1 in ${big(String(BigInt(pairs) / BigInt(wrong)))}`) : `${big(undecided)} undecided`),
    );
  return h("table", { class: "numbers sum-steps" }, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "of the sum"), h("th", { scope: "col", class: "right" }, "pairs"), h("th", { scope: "col" }))), h("tbody", {}, steps.map(row)));
}

function grids(step, place) {
  const { base } = sums();
  const cells = cellsOf(step);
  const here = [carriesOf(sums(), state.a, state.b)[place], state.a[place], state.b[place]].join(" ");
  const digits = Array.from({ length: base }, (_, i) => i);
  const cell = (carry, first, second) => {
    const key = [carry, first, second].join(" ");
    const found = cells.get(key);
    const size = step.sizes[carry];
    const share = found && found.wrong !== "0" ? shareOf(found.wrong, size) : 0;
    const kind = share > 0 ? "wrong" : found ? "open" : "";
    const said = share > 0 ? `${exactly(found.wrong)} of ${exactly(size)} pairs wrong` : found ? `${exactly(found.undecided)} of ${exactly(size)} pairs undecided` : `all ${exactly(size)} pairs right`;
    const name = `${first} + ${second}${carry ? " + 1" : ""}`;
    const go = () => {
      if (found?.pair) return setPair(...found.pair.map((text) => digitsOf(text, sums())), state.map);
      const drawn = pairInCell(sums(), place, [carry, first, second]);
      return drawn && setPair(...drawn, state.map);
    };
    // From one in 10^12 to all pairs of the cell.
    const depth = share > 0 ? Math.max(12, Math.min(100, 100 + (100 / 12) * Math.log10(share))) : 0;
    return h("td", {}, h("button", { class: `${kind}${key === here ? " here" : ""}`, style: share > 0 ? `--depth:${depth.toFixed(0)}%` : null, disabled: size === "0", "data-key": `cell-${key.replaceAll(" ", "-")}`, "aria-label": `${name}: ${said}`, explain: [`${name}: ${said}`, ...(share > 0 ? [`${showPercent(share)} of this cell; smallest ${found.pair.map((text) => numberOf(digitsOf(text, sums()))).join(" + ")}`] : [])], onclick: go }));
  };
  const grid = (carry) =>
    roving(
      h(
        "table",
        { class: "sum-grid" },
        h("caption", {}, carry ? "a carry comes in" : "no carry comes in"),
        h("thead", {}, h("tr", {}, h("th", {}), digits.map((second) => h("th", { scope: "col" }, second)))),
        h("tbody", {}, digits.map((first) => h("tr", {}, h("th", { scope: "row" }, first), digits.map((second) => cell(carry, first, second))))),
      ),
    );
  return h("div", { class: "sum-grids" }, [0, 1].map(grid));
}

const mapKey = () => h("p", { class: "sum-key" }, h("span", {}, "all pairs right"), h("span", { class: "wrong" }, "some wrong; darker is more"), h("span", { class: "open" }, "undecided"));

// -- the proof --------------------------------------------------------------------------------------------

function drawProof() {
  const { known, digits, base } = sums();
  if (!known) return;
  const years = Number(BigInt(known.pairs)) / 1e6 / 3.156e7;
  const trying = years > 1 ? `Not by trying: at a million pairs a second that takes ${show(years, 2)} years.` : "So few pairs could be tried one by one; what follows also works for 10²⁰.";
  const paragraphs = [
    `${trying} Pairs are taken in sets, such as all pairs whose digits at some places are among those allowed there. For a whole set at once one can say between which bounds each head's attention, each neuron and each output must lie. Where the right digit's output stays above every other one's, the whole set is right; where another digit's stays above, the whole set is wrong; otherwise the set is cut in two.`,
    `For this model ${showCount(known.examined)} sets were looked at. Because each cut splits a set into those inside and those outside, no pair of ${digits} digits in base ${base} can be left out. What is said here is about real numbers: the weights exactly as they are stored, and nothing rounded.`,
  ];
  replace(byId("proof"), paragraphs.map((text) => h("p", {}, text)), known.proof ? proofFile(known.proof) : h("p", {}, "There is no proof file: the time did not suffice for one."));
}

function proofFile({ bytes, packed, content, steps }) {
  const sums = (name) => steps.reduce((sum, step) => sum + BigInt(step[name]), 0n);
  const shown = sums("right") + sums("wrong");
  const covers = shown === sums("inputs") ? "every pair at every digit" : `${exactly(shown)} of ${exactly(sums("inputs"))} cases (a case is a pair at one digit; the time for the proof ended before the rest)`;
  const file = `${state.main.name.replace(/\W+/g, "-")}-proof.json`;
  const save = async () => {
    const raw = Uint8Array.from(atob(content), (character) => character.charCodeAt(0));
    const stream = new Blob([raw]).stream().pipeThrough(new DecompressionStream("gzip"));
    downloadFile(file, await new Response(stream).text(), "application/json");
  };
  return [
    h("p", {}, `The proof is a list of these cuts and of what holds in each set: ${showCount(Math.ceil(bytes / 1000))} kB, ${showCount(Math.ceil(packed / 1000))} kB packed. It covers ${covers}. A small program that does not search derives every bound again, from the bytes of the weights.`),
    h("div", { class: "toolbar" }, content ? h("button", { "data-key": "download-proof", onclick: save }, "Download the proof") : h("span", { class: "note" }, "It is too large for this page; tsc-interp verify --certify --out FILE writes it.")),
    h("pre", { class: "code", tabindex: 0, role: "region", "aria-label": "How to check it" }, `tsc-interp verify ${state.main.source.split("/").at(-1)} --check ${file}`),
  ];
}

// -- start ------------------------------------------------------------------------------------------------

const refreshTooltip = startTooltip(byId("tooltip"));
themeButton(byId("theme"));
startRoving();
byId("numbers").addEventListener("input", readNumbers);
byId("numbers").addEventListener("submit", (event) => event.preventDefault());
addEventListener("hashchange", () => restore(location.hash));
restore(location.hash);

// For people at the console and for tests: the very functions the page itself uses.
window.playground = { state, written: (a, b) => writeSum(prepare(state.main.model), sums(), digitsOf(a, sums()), digitsOf(b, sums())).map(({ said }) => said) };
