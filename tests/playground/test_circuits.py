"""The circuit a page carries: the probe's own, exact, or a sentence saying why there is none."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

import tsc_interp as tsc
from tests.playground.test_playground import fresh, payload_of
from tsc_interp.checkpoints import bundled_names, load_checkpoint
from tsc_interp.cli import main
from tsc_interp.config import ClassifierConfig
from tsc_interp.playground import playground_fragment
from tsc_interp.playground.circuits import bundled_circuits, circuit_payload, searched


@pytest.mark.slow
def test_the_kept_circuits_are_what_the_probe_finds() -> None:
    """If this fails: python -m tsc_interp.playground.circuits writes the file again."""
    for name, (key, found) in zip(bundled_names(), bundled_circuits().items(), strict=True):
        checkpoint = load_checkpoint(name)
        assert key == checkpoint.weight_hash()
        assert searched(checkpoint) == found, name


@pytest.mark.parametrize("name", bundled_names())
def test_the_circuit_answers_like_the_model_by_brute_force(name: str) -> None:
    """Through hooks, on every count vector of up to 12 letters; the rest is what is set to zero."""
    circuit = payload_of(playground_fragment(name))["models"][0]["circuit"]
    outside = [part for part in circuit["parts"] if part not in circuit["kept"]]
    assert outside
    vectors = [v for v in itertools.product(range(13), repeat=3) if 0 < sum(v) <= 12]
    model = tsc.load(name)
    strings = [model.config.alphabet.write(np.array(v)) for v in vectors]
    outcome = tsc.intervene(model, strings, [f"{part}=zero" for part in outside])
    assert ((outcome.before > 0) == (outcome.after > 0)).all()
    first = circuit["sentence"].split("`")[1]
    differs = tsc.intervene(model, [first], [f"{part}=zero" for part in outside])
    assert (differs.before > 0) != (differs.after > 0), "the sentence names a string they differ on"


def test_of_other_models_nothing_is_claimed_unless_it_was_searched_for() -> None:
    other = fresh(ClassifierConfig())
    assert "none was searched for" in circuit_payload(other)["why"]
    assert "parts" not in circuit_payload(other)
    found = circuit_payload(other, search=True)
    assert found == searched(other)
    assert set(found["kept"]) <= set(found["parts"])
    deep = circuit_payload(fresh(ClassifierConfig(n_layers=2)), search=True)
    assert "only edges are searched" in deep["why"]


def test_command_searches_on_request(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, page = tmp_path / "model.safetensors", tmp_path / "page.html"
    fresh(ClassifierConfig()).save(model)
    for options, key in (([], "why"), (["--circuit"], "parts")):
        assert main(["playground", "-c", str(model), "-o", str(page), *options]) == 0
        assert key in payload_of(page.read_text())["models"][0]["circuit"]
    assert "searching for circuits" in capsys.readouterr().err
