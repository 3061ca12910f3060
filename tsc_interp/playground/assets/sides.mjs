// A side of the page: one model with its edits, run on the string.

import { isEdited } from "./edits.mjs";
import { makeEvaluator } from "./evaluator.mjs";
import { noEdits, prepare, run } from "./model.mjs";

/**
 * makeSide(id, model, edits, counts, act): what every drawing needs to know. `act` = { edit, redraw } for the side
 * that can be changed. What takes long is kept as long as neither model nor edits change.
 */
export function sideMaker() {
  const known = new Map();
  const unedited = noEdits();
  const ready = (id, model, edits) => {
    const last = known.get(id);
    if (last?.model === model && last.edits === edits) return last;
    const prepared = prepare(model, edits);
    const made = { model, edits, prepared, evaluator: makeEvaluator(prepared) };
    known.set(id, made);
    return made;
  };
  return (id, model, edits, counts, act = null) => {
    const { prepared, evaluator } = ready(id, model, edits);
    const plain = isEdited(edits) ? ready(`${id} before`, model, unedited) : null;
    const before = plain && { ...run(plain.prepared, counts), answer: plain.evaluator.evaluate(counts).answer };
    const trace = run(prepared, counts);
    return {
      ...{ id, prepared, evaluator, trace, before, original: model, editable: act !== null, ...act },
      answer: evaluator.evaluate(counts).answer,
      baseValues: (layer, head) => (before ?? trace).layers[layer].v[head],
    };
  };
}
