"""An oracle by hand, and what every probe has to stand: JSON and back."""

import json

import pytest
from tsc_sharpness import SharpnessResult

import tsc_interp as tsc


def test_it_is_the_largest_share_of_the_pattern():
    model = tsc.load("walkthrough")
    result = tsc.run_probe("sharpness", model, ["ab", "ab{9}c{4}"])
    _, cache = model.run_with_cache(["ab{9}c{4}"])
    pattern = cache["pattern", 0][0, :, 0]  # copies of a letter are one key
    for head in range(2):
        expected = float(pattern[head].max())
        got = float(result.sharpness.at(head=f"layer 0 head {head}", string="ab{9}c{4}"))
        assert got == pytest.approx(expected, abs=1e-6)


def test_it_survives_json():
    result = tsc.run_probe("sharpness", "walkthrough", ["abc"])
    assert SharpnessResult.from_dict(json.loads(json.dumps(result.to_dict()))) == result
