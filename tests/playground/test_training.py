"""A model trained in the page: the same file, the same run, and Python goes on where it stopped."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tsc_interp as tsc
from tests.playground.copied import NODE
from tests.playground.pages import IN_BROWSER, Open, run_copied, shown_logit, wait_until
from tests.playground.training import TRAINED, training_run
from tsc_interp.checkpoints.checkpoint import WeightArrays
from tsc_interp.checkpoints.run_records import EpochMetrics
from tsc_interp.cli.app import main
from tsc_interp.playground.scripts import ASSETS
from tsc_interp.training.ensemble import TrainingState, train_ensemble
from tsc_interp.training.experiments import Experiment

BATCHES = 12
needs_node = pytest.mark.skipif(
    NODE is None and os.environ.get("TSC_REQUIRE_BROWSER") != "1", reason="node is not installed"
)


def trained_by_node(config: str, recipe: dict[str, Any], epochs: int) -> list[dict[str, Any]]:
    """The page's states after each epoch, as the page keeps them."""
    code = (
        f'const here = "{Path(str(ASSETS)).as_uri()}/trainer.mjs";'
        "const { RECIPE, startTraining, trainEpoch } = await import(here);"
        f"let state = startTraining({config}, {{ ...RECIPE, ...{json.dumps(recipe)} }});"
        "const kept = [];"
        f"for (let i = 0; i < {epochs}; i++) {{"
        "  const work = trainEpoch(state);"
        "  let step = work.next();"
        "  while (!step.done) step = work.next();"
        "  state = step.value;"
        "  const lists = ['weights', 'mean', 'square'].map((part) => [part, Object.fromEntries("
        "    Object.entries(state[part]).map(([name, list]) => [name, Array.from(list)]))]);"
        "  kept.push({ ...Object.fromEntries(lists), rate: state.rate });"
        "}"
        "console.log(JSON.stringify(kept));"
    )
    command = [NODE or "node", "--input-type=module", "-e", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    kept: list[dict[str, Any]] = json.loads(done.stdout)
    return kept


@needs_node
@pytest.mark.parametrize(("classifier", "recipe"), TRAINED)
def test_python_goes_on_from_the_pages_state(classifier: Any, recipe: Any) -> None:
    run = training_run(classifier, recipe, BATCHES)
    shapes = run.classifier.weight_shapes()
    given = {"batches": BATCHES, **recipe}
    one, two = trained_by_node(run.classifier.to_json(), given, 2)

    def arrays(part: str) -> WeightArrays:
        return {
            name: np.array(one[part][name], dtype=np.float32).reshape(shape)
            for name, shape in shapes.items()
        }

    metrics = EpochMetrics(epoch=1, learning_rate=one["rate"], train_loss=1.0, validation_loss=1.0)
    parts = (arrays(part) for part in ("weights", "mean", "square"))
    state = TrainingState(run, recipe["seed"], *parts, metrics=(metrics,))
    [further] = next(iter(train_ensemble([state])))
    for name, weight in further.weights.items():
        assert weight.ravel() == pytest.approx(two["weights"][name], abs=1e-4), name


class TestInTheBrowser:
    pytestmark = IN_BROWSER

    def test_the_download_is_the_model_that_was_trained(self, visit: Open, tmp_path: Path) -> None:
        page = visit("generalization-errors")
        page.click("#train-link")
        page.fill("#train-seed", "5")
        for epoch in (1, 2):
            page.click("[data-key=train-one]")
            page.wait_for_selector(f'[data-result=training]:has-text("After epoch {epoch},")')
            page.wait_for_selector("[data-key=train-one]:enabled")
        assert page.inner_text("#title") == "trained here"
        assert "trained in this page" in page.inner_text("#badges")
        page.fill("#string", "aaabcc")
        with page.expect_download() as download:
            page.click("[data-key=download-weights]")
        file = tmp_path / download.value.suggested_filename
        download.value.save_as(file)
        assert file.name == "trained-seed5-epoch2.safetensors"
        shown = float(page.get_attribute("[data-result=logit-main]", "data-logit"))
        assert tsc.evaluate(file, ["aaabcc"])[0].logit == pytest.approx(shown, abs=1e-5)
        # Back to the first epoch, by the slider; going on from there makes the second again.
        page.fill("#epoch", "1")
        page.wait_for_selector('[data-result=training]:has-text("After epoch 1,")')
        page.click("[data-key=train-one]")
        page.wait_for_selector('[data-result=training]:has-text("After epoch 2,")')
        page.wait_for_selector("[data-key=train-one]:enabled")
        again = float(page.get_attribute("[data-result=logit-main]", "data-logit"))
        assert again == shown
        # The same run by Python, from the file the page shows.
        page.click("text=The same in Python")
        toml = tmp_path / "trained-here.toml"
        toml.write_text(page.inner_text("[data-result=experiment]"))
        (cell,) = Experiment.load(toml).cells
        expected = training_run({}, {"max_length": 10, "alpha": 1.0}, 156)
        assert cell.config.classifier == expected.classifier
        assert cell.config.training.train == expected.training.train
        assert cell.config.training.max_epochs == 2

    def test_its_address_and_its_python_lead_back_to_it(
        self,
        visit: Open,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        page = visit("walkthrough")
        page.click("#train-link")
        page.fill("#train-seed", "7")
        page.select_option("#train-norm", "rms")
        for epoch in (1, 2):
            page.click("[data-key=train-one]")
            page.wait_for_selector(f'[data-result=training]:has-text("After epoch {epoch},")')
            page.wait_for_selector("[data-key=train-one]:enabled")
        page.fill("#string", "aaabcc")
        page.click("[data-key=mute-head0]")
        shown = shown_logit(page)
        wait_until(page, "location.hash.includes('change=head0')")
        fragment = page.evaluate("location.hash")
        assert "train=seed%3A7%2Cnorm%3Arms" in fragment
        assert "epoch=2" in fragment
        again = visit("walkthrough", fragment)
        again.wait_for_selector('[data-result=training]:has-text("After epoch 2,")')
        again.wait_for_selector("[data-key=train-one]:enabled")
        assert shown_logit(again) == shown
        assert again.input_value("#train-seed") == "7"
        assert again.is_hidden("#notice")
        monkeypatch.chdir(tmp_path)
        assert run_copied(again.inner_text("[data-result=python]")) == pytest.approx(
            shown, abs=1e-3
        )
        shell = again.inner_text("[data-result=shell]")
        with again.expect_download() as download:
            again.click("[data-key=download-weights]")
        download.value.save_as(tmp_path / download.value.suggested_filename)
        command = next(line for line in shell.splitlines() if line.startswith("tsc-interp eval"))
        capsys.readouterr()
        assert main([*shlex.split(command)[1:], "--json"]) == 0
        (answer,) = json.loads(capsys.readouterr().out)["results"]
        assert answer["logit"] == pytest.approx(shown, abs=1e-5)

    def test_addresses_with_options_there_are_not_train_nothing(self, visit: Open) -> None:
        page = visit("walkthrough")
        address = page.url.partition("#")[0]
        for train in (
            "seed:5,norm:<img src=x>", "seed:5,evil:1", "seed:-1", "", "seed:5&epoch=9999",
        ):  # fmt: skip
            page.goto("about:blank")
            page.goto(f"{address}#train={train}")
            page.wait_for_selector("html[data-ready=yes]")
            assert page.inner_text("#title") == "walkthrough"
            assert "train" in page.inner_text("#notice"), train
            assert page.input_value("#train-seed") == "5"

    def test_what_cannot_be_trained_is_said(self, visit: Open) -> None:
        page = visit("walkthrough")
        page.click("#train-link")
        page.fill("#train-d_model", "99")
        page.click("[data-key=train-go]")
        assert "Width: “99” is not a whole number from 1 to 16" in page.inner_text("#train")
        assert page.inner_text("#title") == "walkthrough"
