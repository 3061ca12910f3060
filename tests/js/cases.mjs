// The cases Python wrote for these tests: run them through tests/playground/test_js.py.

import { readFileSync } from "node:fs";

const path = process.env.TSC_PLAYGROUND_CASES;

/** One list of cases by name, or null when Python did not write any. */
export const casesOf = (name) => (path ? JSON.parse(readFileSync(path, "utf8"))[name] : null);
export const skipWithout = (cases) => (cases ? false : "the cases come from tests/playground/test_js.py");
export const assets = new URL("../../tsc_interp/playground/assets/", import.meta.url);
