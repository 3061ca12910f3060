// Two ways to change a part: what the mute buttons do, and any change in its notation.

import { h } from "./dom.mjs";
import { splitList } from "./many.mjs";

/** What muting puts in a part's place, as a change. */
export const muting = ({ muteBy, mean }) => (muteBy === "zero" ? "zero" : `mean(${splitList(mean).join(", ")})`);

/**
 * Fills the container once (a box must not be rebuilt under the hand that types); { update(state) }.
 * `act.choose(parts of the state)`, and `act.apply(text)` returns whether the change was made.
 */
export function changeBox(container, act) {
  const radio = (value, ...label) => {
    const input = h("input", { type: "radio", name: "mute-by", value, "data-key": `mute-by-${value}`, onchange: () => act.choose({ muteBy: value }) });
    return { input, label: h("label", {}, input, ...label) };
  };
  const choices = [radio("zero", "zero"), radio("mean", "the mean over")];
  const strings = h("input", {
    type: "text",
    id: "mean",
    class: "code-input",
    "aria-label": "Strings of the mean",
    "aria-describedby": "change-problem",
    autocomplete: "off",
    autocapitalize: "none",
    spellcheck: "false",
    oninput: () => act.choose({ mean: strings.value, muteBy: "mean" }),
  });
  const notation = h("input", {
    type: "text",
    id: "change",
    class: "code-input",
    placeholder: "head0.value[c]=like(b)",
    "aria-describedby": "change-problem",
    autocomplete: "off",
    autocapitalize: "none",
    spellcheck: "false",
  });
  const problem = h("p", { role: "alert", class: "problem", id: "change-problem" });
  const form = h(
    "form",
    {
      class: "toolbar change-form",
      onsubmit: (event) => {
        event.preventDefault();
        if (act.apply(notation.value)) notation.value = "";
      },
    },
    h("label", { for: "change" }, "Change"),
    notation,
    h("button", { type: "submit", "data-key": "apply" }, "Apply"),
  );
  form.querySelector("button").type = "submit";
  const hint =
    "Part=change, as in tsc-interp intervene. Parts: head0, head0.query, head0.key[c], head0.value[c], head0.pattern, neuron1, mlp, layer1.head0. Changes: zero, mean(aab, abc), from(aab), like(b), set(0.7), scale(0.5), patch(aab).";
  container.replaceChildren(
    h("fieldset", { class: "choice" }, h("legend", {}, "Mute to"), ...choices.map(({ label }) => label), strings),
    form,
    h("p", { class: "note" }, hint),
    problem,
  );
  return {
    update(state) {
      for (const { input } of choices) input.checked = input.value === state.muteBy;
      if (strings.value !== state.mean) strings.value = state.mean;
      problem.textContent = state.changeProblem ?? "";
    },
  };
}
