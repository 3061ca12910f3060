// The circuit that Python found: which heads and neurons do what the whole model does, and how exactly.

import { h } from "./dom.mjs";
import { setChange } from "./edits.mjs";

/** The sentence, a switch to show the circuit, and one to run nothing but it. `circuit` = { parts, kept, sentence } or { why }. */
export function circuitPanel(circuit, shown, act) {
  if (!circuit.parts) return h("p", { class: "note" }, "Circuit: ", withCode(circuit.why));
  const rest = circuit.parts.filter((part) => !circuit.kept.includes(part));
  return [
    h("p", { class: "note" }, "Circuit, of heads and neurons, the rest set to zero: ", withCode(circuit.sentence)),
    h(
      "div",
      { class: "toolbar" },
      h(
        "button",
        { class: "small", "data-key": "circuit-shown", "aria-pressed": String(shown), onclick: () => act.show(!shown) },
        "Highlight the circuit",
      ),
      act.edit && rest.length > 0
        ? h(
            "button",
            { class: "small", "data-key": "circuit-only", onclick: () => act.edit((edits) => rest.reduce((now, part) => setChange(now, `${part}=zero`), edits)) },
            "Run only the circuit",
          )
        : null,
    ),
  ];
}

/** Text with what stands between backticks as code. */
const withCode = (text) => text.split("\u0060").map((piece, i) => (i % 2 ? h("code", {}, piece) : piece));
