import assert from "node:assert/strict";
import test from "node:test";

import { assets, casesOf, skipWithout } from "./cases.mjs";

const { makeEvaluator } = await import(new URL("evaluator.mjs", assets));
const { mapFields, mapLayers, mapSummary } = await import(new URL("drawmap.mjs", assets));
const { makeModel, prepare } = await import(new URL("model.mjs", assets));

const maps = casesOf("maps");
const skip = skipWithout(maps);
const fieldsOf = ({ config, weights, view }) =>
  mapFields(makeEvaluator(prepare(makeModel(config, weights))), config, view, 96);

test("the page draws the map that Python draws", { skip }, () => {
  for (const given of maps) {
    const fields = fieldsOf(given);
    assert.equal(mapSummary(fields), given.summary);
    assert.deepEqual(mapLayers(fields, given.view.face.length), given.layers, JSON.stringify(given.config));
  }
});
