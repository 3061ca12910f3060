// The page's top: title, badge, verdict, light and dark.

import { h } from "./dom.mjs";
import { logitLines, probabilityLines } from "./formulas.mjs";
import { inputOf } from "./inputs.mjs";
import { show, showCount, showPercent, sigmoid } from "./maths.mjs";
import { prepare, run } from "./model.mjs";
import { describeTask, labelOf } from "./task.mjs";

const byId = (id) => document.getElementById(id);

export function introduce(payload, main, other) {
  const { config } = main;
  const parts = [
    `${config.n_layers} layer${config.n_layers > 1 ? "s" : ""}`,
    `${config.n_heads} head${config.n_heads === 1 ? "" : "s"}`,
    `width ${config.d_model}`,
    config.d_mlp > 0 ? `MLP ${config.d_mlp}` : "no MLP",
  ];
  if (config.norm !== "off") parts.push(`${config.norm} norm`);
  if (config.attend_cls) parts.push("CLS attends to itself");
  if (config.score_scale !== "sqrt_d_head") parts.push("scores × log n");
  byId("title").textContent = other ? `${main.name} and ${other.name}` : main.name;
  byId("subtitle").textContent =
    `Does the string match “${describeTask(config.task)}”? A transformer with ${parts.join(", ")}.`;
  byId("intervene-caption").textContent = other
    ? `Changes act on ${main.name}, in this page only.`
    : "Changes act in this page only; the checkpoint stays as it is.";
  byId("footer").textContent =
    `tsc-interp ${payload.version} playground. The model runs in this page; nothing is sent anywhere.`;
  document.title = `${byId("title").textContent} · tsc-interp playground`;
}

const differences = new WeakMap();

/** Trust: the page's logits against the ones Python computed for the same strings. */
export function badge(model, strings, logits) {
  if (!logits) return h("span", { class: "badge good" }, "trained in this page");
  if (!differences.has(model)) {
    const ready = prepare(model);
    const apart = strings.flatMap((text, i) => {
      const { outputs } = run(ready, inputOf(model.config, text));
      return [logits[i]].flat().map((logit, output) => Math.abs(outputs[output] - logit));
    });
    differences.set(model, Math.max(...apart));
  }
  const worst = differences.get(model);
  const agrees = worst <= 1e-5;
  return h(
    "button",
    {
      class: `badge ${agrees ? "good" : "bad"}`,
      "data-worst": worst,
      "data-key": `badge-${model.name}`,
      explain: () => [
        `Python and this page both computed ${strings.length} strings of ${model.name}, in float64.`,
        `The largest difference is ${show(worst, 3)}; at most 10⁻⁵ passes. What tsc-interp eval prints is the float32 model, whose rounding shows in the sixth digit.`,
      ],
    },
    agrees ? `✓ matches Python to ${show(worst, 2)}` : `✗ differs from Python by ${show(worst, 3)}`,
  );
}

/** One sentence on what the page shows now. */
export function lookingAt({ trace, answer, prepared, before }, text) {
  const { task } = prepared.model.config;
  const truth = labelOf(task, trace.counts) ? "yes" : "no";
  const said = answer === null ? "comes too close to zero to call" : `says ${answer ? "yes" : "no"}`;
  const judged = answer === null ? "" : (answer ? "yes" : "no") === truth ? ", rightly" : `; the right answer is ${truth}`;
  return `You are looking at ${text}, ${showCount(trace.size)} letter${trace.size === 1 ? "" : "s"}, on its way through ${before ? "the changed model" : "the model"}: asked whether it ${asked(task)}, the model ${said}${judged}.`;
}

const asked = (task) => {
  const words = describeTask(task);
  return words.startsWith("contains") ? words : `has ${words}`;
};

const OPEN_LINES = [
  "float64 cannot tell the sign of this logit: large terms cancel, or it is zero.",
  "tsc-interp verify decides such strings exactly.",
];

export function verdictLine(side, name) {
  const { trace } = side;
  const { config } = side.prepared.model;
  const { answer } = side;
  const right = answer === labelOf(config.task, trace.counts);
  const kind =
    answer === null ? "too close to call" : right ? "right" : `wrong: false ${answer ? "positive" : "negative"}`;
  return h(
    "div",
    { class: `verdict ${answer === null ? "open" : right ? "right" : "wrong"}` },
    name ? h("span", { class: "side-name" }, name) : null,
    h(
      "button",
      {
        class: "big number",
        "data-key": `verdict-${side.id}`,
        "data-result": `logit-${side.id}`,
        "data-logit": trace.logit,
        explain: () => logitLines(side),
      },
      `logit ${show(trace.logit, 6)}`,
    ),
    h(
      "button",
      { class: "number", "data-key": `probability-${side.id}`, explain: () => probabilityLines(trace.logit) },
      `probability ${showPercent(sigmoid(trace.logit))}`,
    ),
    answer === null ? null : h("span", { class: "says" }, `says ${answer ? "yes" : "no"}`),
    answer === null
      ? h("button", { class: "tag number", "data-key": `open-${side.id}`, explain: OPEN_LINES }, kind)
      : h("span", { class: "tag" }, kind),
    side.before ? h("span", { class: "tag edited" }, `edited; was ${show(side.before.logit)}`) : null,
  );
}

/** Light or dark: as the system has it, until the button is pressed. */
export function themeButton(button) {
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  let chosen = null;
  const apply = () => {
    root.dataset.theme = chosen ?? (system.matches ? "dark" : "light");
    button.textContent = root.dataset.theme === "dark" ? "Light" : "Dark";
  };
  button.setAttribute("aria-label", "Switch between light and dark");
  button.addEventListener("click", () => {
    chosen = root.dataset.theme === "dark" ? "light" : "dark";
    apply();
  });
  system.addEventListener("change", apply);
  apply();
}
