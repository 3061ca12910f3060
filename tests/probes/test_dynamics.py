"""dynamics: every epoch of a real run, against each epoch loaded and evaluated by itself."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import tsc_interp as tsc
from tests.checkpoints.run_directories import write_run
from tsc_interp.checkpoints import load_checkpoint
from tsc_interp.cli.app import main
from tsc_interp.data import source_test_set
from tsc_interp.errors import CheckpointError, UsageError
from tsc_interp.model.hooked import HookedClassifier, load
from tsc_interp.probes.dynamics import DynamicsResult
from tsc_interp.probes.registry import figures, find_probe

run = find_probe("dynamics").run

STRINGS = ("aac", "baac", "ab{100}")
EPOCHS = (0, 1, 2)


@pytest.fixture(scope="module")
def run_directory(tmp_path_factory) -> Path:
    """Two epochs of training would do; these weights are drawn, which is quicker and as good."""
    directory = tmp_path_factory.mktemp("runs") / "mine" / "abc" / "seed=4"
    write_run(directory, epochs(), chosen=2)
    return directory


def epochs():
    config = tsc.ClassifierConfig()
    drawn = {e: HookedClassifier(config, seed=10 + e).to_checkpoint() for e in EPOCHS}
    return {**drawn, 2: load_checkpoint("generalization-errors")}


@pytest.fixture(scope="module")
def result(run_directory) -> DynamicsResult:
    return run(load(run_directory), STRINGS, run_directory=run_directory)


@pytest.mark.parametrize("epoch", [0, 2])
def test_each_epoch_is_what_that_checkpoint_says_by_itself(epoch, result, run_directory):
    model = load(run_directory, epoch=epoch)
    with torch.no_grad():
        np.testing.assert_allclose(result.logits.at(epoch=epoch), model(list(STRINGS)), atol=1e-5)
        counts = source_test_set(model.config)
        said = model(model.counts(counts.copy())).numpy() > 0
        _, cache = model.run_with_cache("abc")
    labels = model.config.task.labels(counts)
    assert int(result.errors.at(epoch=epoch, kind="false positives")) == (said & ~labels).sum()
    assert int(result.errors.at(epoch=epoch, kind="false negatives")) == (~said & labels).sum()
    for head in range(2):
        for place, letter in enumerate("abc", start=1):
            score = cache["blocks.0.attn.hook_attn_scores"][0, head, 0, place]
            value = cache["blocks.0.attn.hook_v"][0, place, head, 0]
            where = {"epoch": epoch, "head": head, "letter": letter}
            assert float(result.scores.at(**where)) == pytest.approx(float(score), abs=1e-5)
            assert float(result.values.at(**where)[0]) == pytest.approx(float(value), abs=1e-5)
    assert float(result.horizons.at(epoch=epoch)) == tsc.horizon(model).verified_length


def test_published_numbers_of_the_chosen_epoch(result):
    assert result.chosen_epoch == 2
    assert float(result.horizons.at(epoch=2)) == 66
    assert float(result.values.at(epoch=2, head=0, letter="a")[0]) == pytest.approx(
        2.0178, abs=5e-5
    )
    assert result.errors.at(epoch=2).tolist() == [6, 691]
    told = " ".join(finding.text for finding in result.findings)
    assert "epoch 2 was chosen, with validation loss 2.0000" in told
    assert "up to 66 letters" in told


def test_json_round_trip_and_losses(result):
    written = json.dumps(result.to_dict(), allow_nan=False)
    assert json.dumps(DynamicsResult.from_dict(json.loads(written)).to_dict()) == written
    assert np.isnan(result.losses.at(epoch=0)).all()
    assert result.losses.at(epoch=2).tolist() == [4.5, 2.0]


def test_figures_and_animation_hold_every_epoch(result):
    drawn = {figure.name: figure for figure in figures(result)}
    for name in ("embeddings", "transformed"):
        figure = drawn[name].figure
        assert [frame.name for frame in figure.frames] == ["0", "1", "2"]
        # A still picture shows the last epoch, so its points are those of the last frame.
        np.testing.assert_array_equal(figure.data[-1].x, figure.frames[-1].data[-1].x)
        np.testing.assert_allclose(
            figure.frames[1].data[-1].x, getattr(result, name).array[1, :, 0]
        )
    assert all(figure.alt and figure.caption for figure in drawn.values())


def test_without_metrics_and_result_the_rest_is_told(run_directory, tmp_path):
    write_run(tmp_path / "r", epochs(), with_metrics=False)
    found = run(load(tmp_path / "r", epoch=1), STRINGS, run_directory=tmp_path / "r")
    assert found.losses is None
    assert found.chosen_epoch is None
    assert "not finished" in found.findings[0].text
    assert figures(found)


def test_a_run_directory_brings_dynamics_into_the_report(run_directory, tmp_path, capsys):
    report = tsc.analyze(run_directory, STRINGS, probes=["dynamics"])
    assert report.models[0].card.name == "mine seed=4 epoch=2"
    page = report.to_html(plotlyjs="cdn")
    assert f"--checkpoint {run_directory} --epoch 2 --probe dynamics" in page.replace("&#39;", "'")
    assert main(["analyze", "-p", "dynamics", "-o", str(tmp_path / "r")]) == 2
    assert "dynamics needs a run directory" in capsys.readouterr().err


def test_foreign_directories_and_models_are_refused(run_directory, tmp_path, odd_model):
    with pytest.raises(CheckpointError, match="not a run directory"):
        run(odd_model, ["ab"], run_directory=tmp_path)
    with pytest.raises(UsageError, match="its configuration differs"):
        run(odd_model, ["ab"], run_directory=run_directory)
