"""Runs that diverged and weights that overflow: every document about them is still JSON."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path

import numpy as np
import pytest

from tsc_interp.checkpoints import load_checkpoint
from tsc_interp.cli import main
from tsc_interp.report import Report


def strict(text: str) -> dict:
    """As any other language reads it: no NaN, no Infinity outside of a string."""

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    return json.loads(text, parse_constant=refuse)


@pytest.fixture(scope="module")
def diverged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real one: the learning rate is so high that the first epoch has no loss."""
    place = tmp_path_factory.mktemp("runs")
    options = ["learning_rate=1e6", "max_epochs=1", "train.batches=20", "validation.batches=2"]
    set_ = [part for option in options for part in ("--set", f"training.{option}")]
    assert main(["train", "--quiet", "--seeds", "0", "--runs", str(place), *set_]) == 1
    (run,) = place.glob("*/*/seed=0")
    return run


@pytest.fixture(scope="module")
def overflowing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every weight times 10^30: each is a float32, what they add up to is not."""
    path = tmp_path_factory.mktemp("models") / "huge.safetensors"
    model = load_checkpoint("walkthrough")
    weights = {name: weight * np.float32(1e30) for name, weight in model.weights.items()}
    provenance = {"loss": math.nan, "limits": [math.inf, -math.inf]}
    dataclasses.replace(model, weights=weights, provenance=provenance).save(path)
    return path


@pytest.mark.parametrize("model", ["diverged", "overflowing"])
@pytest.mark.parametrize("command", ["info", "eval ab{100}", "verify -L 3", "analyze -q ab"])
def test_every_document_is_json(
    command: str,
    model: str,
    request: pytest.FixtureRequest,
    capsys: pytest.CaptureFixture[str],
) -> None:
    where = str(request.getfixturevalue(model))
    capsys.readouterr()
    probes = ["-p", "trace"] if command.startswith("analyze") else []
    assert main([*command.split(), *probes, "--json", "--checkpoint", where]) in (0, 3)
    strict(capsys.readouterr().out)


def test_the_forms_are_the_stated_ones(
    overflowing: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["info", "--json", "--checkpoint", str(overflowing)]) == 0
    provenance = strict(capsys.readouterr().out)["provenance"]
    assert provenance == {"loss": "NaN", "limits": ["Infinity", "-Infinity"]}
    assert main(["eval", "--json", "ab{100}", "--checkpoint", str(overflowing)]) == 0
    (row,) = strict(capsys.readouterr().out)["results"]
    assert row["logit"] == "NaN"


def test_a_diverged_run_has_a_report(diverged: Path, tmp_path: Path) -> None:
    """Its losses are not numbers: this was the end of `analyze`."""
    place = tmp_path / "r"
    arguments = ["analyze", "ab", "-p", "dynamics", "-p", "trace", "-q", "-c", str(diverged)]
    assert main([*arguments, "-o", str(place)]) == 0
    text = (place / "report.json").read_text()
    told = strict(text)["models"][0]["results"]
    assert "NaN" in json.dumps(told)
    again = Report.from_json(text)
    assert math.isnan(again["dynamics"].losses.array[0, 0])
    (numbers,) = (f.numbers for f in again["dynamics"].findings if "validation loss" in f.numbers)
    assert math.isnan(numbers["validation loss"])
    assert again.to_json() + "\n" == text
