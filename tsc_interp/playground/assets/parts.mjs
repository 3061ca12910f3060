// The smaller parts of the page: title, badge, verdict, sliders, training, map tools, sharing.

import { pythonScript, shellCommand, weightsDocument } from "./commands.mjs";
import { epochCurve } from "./curve.mjs";
import { h, reducedMotion, tokenColour } from "./dom.mjs";
import { copyText, downloadFile, standaloneSvg } from "./download.mjs";
import { logitLines, probabilityLines } from "./formulas.mjs";
import { isScaleFree } from "./map.mjs";
import { show, showCount, showPercent, sigmoid } from "./maths.mjs";
import { prepare, run } from "./model.mjs";
import { countsOf, MAX_REPEAT } from "./strings.mjs";
import { describeTask, hasRatioLabels, labelOf } from "./task.mjs";

const byId = (id) => document.getElementById(id);

export function introduce(payload, main, other) {
  const { config } = main;
  const parts = [`${config.n_layers} layer${config.n_layers > 1 ? "s" : ""}`, `${config.n_heads} head${config.n_heads === 1 ? "" : "s"}`,
    `width ${config.d_model}`, config.d_mlp > 0 ? `MLP ${config.d_mlp}` : "no MLP"];
  if (config.norm !== "off") parts.push(`${config.norm} norm`);
  if (config.attend_cls) parts.push("CLS attends to itself");
  if (config.score_scale !== "sqrt_d_head") parts.push("scores × log n");
  byId("title").textContent = other ? `${main.name} and ${other.name}` : main.name;
  byId("subtitle").textContent = `Does the string match “${describeTask(config.task)}”? A transformer with ${parts.join(", ")}.`;
  byId("footer").textContent = `tsc-interp ${payload.version} playground. The model runs in this page; nothing is sent anywhere.`;
}

const differences = new WeakMap();

/** Trust: the page's logits against the ones Python computed for the same strings. */
export function badge(model, strings, logits) {
  if (!differences.has(model)) {
    const ready = prepare(model);
    const apart = strings.map((text, i) => Math.abs(run(ready, countsOf(text, model.config.n_letters)).logit - logits[i]));
    differences.set(model, Math.max(...apart));
  }
  const worst = differences.get(model);
  const agrees = worst <= 1e-5;
  return h("p", {
    class: `badge ${agrees ? "good" : "bad"}`, "data-worst": worst, "data-key": `badge-${model.name}`,
    explain: () => [`Python and this page both computed ${strings.length} strings of ${model.name}, in float64.`,
      `The largest difference is ${show(worst, 3)}; at most 10⁻⁵ passes. What tsc-interp eval prints is the float32 model, whose rounding shows in the sixth digit.`],
  }, agrees ? `✓ matches Python to ${show(worst, 2)}` : `✗ differs from Python by ${show(worst, 3)}`);
}

export function verdictLine(side, name) {
  const { trace } = side;
  const { config } = side.prepared.model;
  const says = trace.logit > 0;
  const right = says === labelOf(config.task, trace.counts);
  const kind = right ? "right" : says ? "wrong: false positive" : "wrong: false negative";
  return h("div", { class: `verdict ${right ? "right" : "wrong"}` },
    name ? h("span", { class: "side-name" }, name) : null,
    h("span", { class: "big number", "data-key": `verdict-${side.id}`, "data-result": `logit-${side.id}`, "data-logit": trace.logit, explain: () => logitLines(side) }, `logit ${show(trace.logit, 6)}`),
    h("span", { class: "number", "data-key": `probability-${side.id}`, explain: () => probabilityLines(trace.logit) }, `probability ${showPercent(sigmoid(trace.logit))}`),
    h("span", { class: "says" }, `says ${says ? "yes" : "no"}`),
    h("span", { class: "tag" }, kind),
    side.before ? h("span", { class: "tag edited" }, `edited; was ${show(side.before.logit)}`) : null);
}

// -- sliders: every count to 30, then steps of four percent to a thousand million ------------------------

const STOPS = (() => {
  const stops = Array.from({ length: 31 }, (_, i) => i);
  while (stops.at(-1) < MAX_REPEAT) stops.push(Math.min(MAX_REPEAT, Math.ceil(stops.at(-1) * 1.04)));
  return stops;
})();

const stopFor = (count) => STOPS.reduce((best, stop, i) => (Math.abs(stop - count) < Math.abs(STOPS[best] - count) ? i : best), 0);

export function sliders(container, letters, onCounts) {
  let counts = letters.map(() => 0);
  const set = (i, count) => onCounts(counts.map((own, j) => (i === j ? count : own)));
  const rows = letters.map((letter, i) => {
    const range = h("input", { type: "range", min: 0, max: STOPS.length - 1, id: `slider-${letter}`, "aria-label": `number of ${letter}`, oninput: (event) => set(i, STOPS[Number(event.target.value)]) });
    const box = h("input", { type: "number", min: 0, max: MAX_REPEAT, step: 1, id: `count-${letter}`, "aria-label": `number of ${letter}, exactly`,
      oninput: (event) => Number.isInteger(event.target.valueAsNumber) && event.target.valueAsNumber >= 0 && event.target.valueAsNumber <= MAX_REPEAT && set(i, event.target.valueAsNumber),
      onblur: (event) => (event.target.value = String(counts[i])) });
    container.append(h("div", { class: "slider", style: `--colour:${tokenColour(letter)}` }, h("span", { class: "chip", "aria-hidden": "true" }, letter), range, box));
    return { range, box };
  });
  return {
    update(now) {
      counts = now;
      rows.forEach(({ range, box }, i) => {
        const stop = stopFor(now[i]);
        if (Number(range.value) !== stop) range.value = String(stop);
        range.setAttribute("aria-valuetext", showCount(now[i]));
        if (document.activeElement !== box || box.valueAsNumber >= 0) box.value = String(now[i]);
      });
    },
  };
}

export function exampleButtons(examples, onPick) {
  return [h("span", { class: "note" }, "Try"), examples.map((text) =>
    h("button", { type: "button", class: "small", onclick: () => onPick(text) }, h("code", {}, text)))].flat();
}

// -- training --------------------------------------------------------------------------------------

let playing = 0;

export function epochPanel(state, epochs, versionOf, edits, onEpoch) {
  const index = epochs.indexOf(state.epoch);
  const logits = epochs.map((epoch) => run(prepare(versionOf(epoch), edits), state.counts).logit);
  const next = () => onEpoch(epochs[(epochs.indexOf(state.epoch) + 1) % epochs.length]);
  const toggle = () => {
    if (playing) {
      clearInterval(playing);
      playing = 0;
      return onEpoch(state.epoch);
    }
    if (state.epoch === epochs.at(-1)) onEpoch(epochs[0]);
    playing = setInterval(() => {
      next();
      if (state.epoch === epochs.at(-1)) {
        clearInterval(playing);
        playing = 0;
      }
    }, 500);
    onEpoch(state.epoch);
  };
  const quiet = reducedMotion();
  return [
    h("div", { class: "toolbar epoch-bar" },
      h("button", { type: "button", "data-key": "play", onclick: quiet ? next : toggle }, quiet ? "Next epoch" : playing ? "Pause" : "Play"),
      h("input", { type: "range", min: 0, max: epochs.length - 1, value: index, "aria-label": "epoch", "aria-valuetext": `epoch ${state.epoch}`, "data-key": "epoch", id: "epoch",
        oninput: (event) => onEpoch(epochs[Number(event.target.value)]) }),
      h("output", { for: "epoch" }, `epoch ${state.epoch}`)),
    epochCurve(epochs, logits, state.epoch, onEpoch),
    h("p", { class: "note" }, "The string's logit after each epoch; above the line the model says yes."),
  ];
}

// -- the map's surroundings --------------------------------------------------------------------------

export function mapCaption(config, size) {
  const what = config.n_letters < 2 ? "With one letter there is nothing to mix; see how its number matters beside this."
    : "Every mixture of letters is a point: inside all of them occur, on a band two, on a disc one.";
  const holds = isScaleFree(config) ? "This model sees only ratios, so the map holds for every length."
    : `This model's answer depends on length too: this is length ${showCount(size)}, the string's.`;
  const judged = hasRatioLabels(config.task) ? "" : " The task depends on exact counts, so nothing is marked as wrong here.";
  return `${what} ${holds}${judged}`;
}

export function mapTools(state, letters, change) {
  const face = letters.length > 3 ? [0, 1, 2].map((place) => h("label", {}, `${["Left", "right", "top"][place]} `,
    h("select", { "data-key": `face-${place}`, onchange: (event) => change({ face: swapInto(state.face, place, event.target.value) }) },
      letters.map((letter) => h("option", { value: letter, selected: letter === state.face[place] }, letter))))) : [];
  const used = letters.filter((_, i) => state.counts[i] > 0);
  const unseen = used.some((letter) => !state.face.includes(letter)) && used.length <= 3;
  if (unseen) {
    const others = letters.filter((letter) => !used.includes(letter));
    face.push(h("button", { type: "button", class: "small", "data-key": "face-string", onclick: () => change({ face: [...used, ...others].slice(0, 3).join("") }) }, "Show the string's letters"));
  }
  return letters.length < 2 ? [] : [
    h("label", { class: "lens" }, "Lens ", h("input", { type: "range", min: 1, max: 8, step: 0.5, value: state.lens, "data-key": "lens", "aria-valuetext": `corners magnified, power ${state.lens}`, oninput: (event) => change({ lens: Number(event.target.value) }) }),
      h("span", { class: "note" }, state.lens === 1 ? "true proportions" : "corners magnified")),
    ...face,
  ];
}

/** The face with one letter replaced; if the new one was elsewhere on it, the two change places. */
export function swapInto(face, place, letter) {
  const letters = [...face];
  const elsewhere = letters.indexOf(letter);
  if (elsewhere >= 0) letters[elsewhere] = letters[place];
  letters[place] = letter;
  return letters.join("");
}

export function mapLegend(container) {
  container.append(
    h("span", { class: "legend-scale" }, "no", h("span", { class: "legend-gradient", "aria-hidden": "true" }), "yes"),
    h("span", {}, h("span", { class: "legend-wrong", "aria-hidden": "true" }), " wrong"),
    h("span", {}, h("span", { class: "legend-you", "aria-hidden": "true" }), " the string"));
}

// -- sharing ---------------------------------------------------------------------------------------

let chosenFigure = "failure-map";

export function sharePanel(side, state, figures) {
  const { model } = side.prepared;
  const edits = state.timeline.now;
  const python = pythonScript(model.name, state.text, edits, model.config);
  const shell = shellCommand(model.name, state.text, edits);
  const said = h("span", { role: "status", class: "note" });
  const copyButton = (name, key, text) => h("button", { type: "button", "data-key": key, onclick: async () => {
    const worked = await copyText(typeof text === "function" ? text() : text);
    said.textContent = worked ? `${name} copied.` : "The browser did not allow copying; select the text instead.";
  } }, `Copy ${name}`);
  const names = [...figures()].map((figure) => figure.getAttribute("data-figure"));
  const chooser = h("select", { "data-key": "figure", onchange: (event) => (chosenFigure = event.target.value) },
    names.map((name) => h("option", { value: name, selected: name === chosenFigure }, name.replaceAll("-", " "))));
  const fileName = model.name.split("/").at(-1).replace(/\W+/g, "-");
  return [
    h("div", { class: "toolbar" }, location.protocol === "about:" ? null : copyButton("link", "copy-link", () => location.href), copyButton("Python", "copy-python", python), copyButton("shell command", "copy-shell", shell), said),
    h("pre", { class: "code", tabindex: 0, "aria-label": "Python that reproduces this view", "data-result": "python" }, python),
    h("pre", { class: "code", tabindex: 0, "aria-label": "Shell commands that reproduce this view", "data-result": "shell" }, shell),
    h("div", { class: "toolbar" },
      h("label", {}, "Figure ", chooser),
      h("button", { type: "button", "data-key": "download-svg", onclick: () => {
        const figure = [...figures()].find((each) => each.getAttribute("data-figure") === chooser.value);
        downloadFile(`${fileName}-${figure.getAttribute("data-figure")}.svg`, standaloneSvg(figure), "image/svg+xml");
      } }, "Download SVG"),
      h("button", { type: "button", "data-key": "download-weights", onclick: () => downloadFile(`${fileName}-weights.json`, weightsDocument(model, edits), "application/json") }, "Download weights")),
  ];
}

export function themeButton(button, redraw) {
  const root = document.documentElement;
  const dark = () => (root.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const label = () => (button.textContent = dark() ? "Light" : "Dark");
  button.setAttribute("aria-label", "Switch between light and dark");
  button.addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    label();
    redraw();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    label();
    redraw();
  });
  label();
}

