// Training: a slider over the epochs, and the string's logit after each.

import { epochCurve } from "./curve.mjs";
import { h, reducedMotion } from "./dom.mjs";
import { prepare, run } from "./model.mjs";

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
    h(
      "div",
      { class: "toolbar epoch-bar" },
      h(
        "button",
        { type: "button", "data-key": "play", onclick: quiet ? next : toggle },
        quiet ? "Next epoch" : playing ? "Pause" : "Play",
      ),
      h("input", {
        type: "range",
        min: 0,
        max: epochs.length - 1,
        value: index,
        "aria-label": "epoch",
        "aria-valuetext": `epoch ${state.epoch}`,
        "data-key": "epoch",
        id: "epoch",
        oninput: (event) => onEpoch(epochs[Number(event.target.value)]),
      }),
      h("output", { for: "epoch" }, `epoch ${state.epoch}`),
    ),
    epochCurve(epochs, logits, state.epoch, onEpoch),
    h("p", { class: "note" }, "The string's logit after each epoch; above the line the model says yes."),
  ];
}
