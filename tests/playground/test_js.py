"""The page's JavaScript against Python: node runs tests/js on the cases of `playground_cases`."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

import tsc_interp as tsc
from tests.playground.cases import all_cases, fresh
from tests.playground.copied import NODE, python_scripts, run_script
from tsc_interp.checkpoints import Checkpoint, load_checkpoint
from tsc_interp.cli import main
from tsc_interp.config import ClassifierConfig
from tsc_interp.playground.payload import encoded_weights
from tsc_interp.playground.scripts import ASSETS

JS = Path(__file__).parents[1] / "js"
FILES = sorted(file.name for file in JS.glob("*.test.mjs"))

pytestmark = pytest.mark.skipif(
    NODE is None and os.environ.get("TSC_REQUIRE_BROWSER") != "1", reason="node is not installed"
)


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("playground") / "cases.json"
    path.write_text(json.dumps(all_cases()))
    return path


@pytest.mark.parametrize("file", FILES)
def test_node(file: str, cases: Path) -> None:
    done = subprocess.run(
        [NODE or "node", "--test", "--test-reporter=tap", str(JS / file)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "TSC_PLAYGROUND_CASES": str(cases)},
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert "# skipped 0" in done.stdout
    assert "# tests 0" not in done.stdout


def written_checkpoint(checkpoint: Checkpoint, edits: dict[str, Any], path: Path) -> None:
    """What the page's "Download weights" gives."""
    about = {"source": "walk, ünïcode", "version": "9.9", "config": checkpoint.config.to_json()}
    given = json.dumps([encoded_weights(checkpoint), checkpoint.config.to_dict(), edits, about])
    folder = Path(str(ASSETS)).as_uri()
    code = (
        f'const {{ makeModel, noEdits, prepare }} = await import("{folder}/model.mjs");'
        f'const {{ checkpointFile }} = await import("{folder}/safetensors.mjs");'
        'const { writeFileSync } = await import("node:fs");'
        f"const [weights, config, some, about] = {given};"
        "const edits = { ...noEdits(), ...some };"
        "const { model } = prepare(makeModel(config, weights), edits);"
        f"writeFileSync({json.dumps(str(path))}, await checkpointFile(model, edits, about));"
    )
    subprocess.run([NODE or "node", "--input-type=module", "-e", code], check=True)


@pytest.mark.parametrize("name", ["walkthrough", "many-heads", "deep"])
def test_downloaded_weights_are_the_bytes_python_would_write(name: str, tmp_path: Path) -> None:
    config = ClassifierConfig(n_layers=2, d_model=5, n_heads=3, d_head=2, d_mlp=7, norm="layer")
    checkpoint = fresh(config, 4) if name == "deep" else load_checkpoint(name)
    path = tmp_path / "down.safetensors"
    written_checkpoint(checkpoint, {}, path)
    read = load_checkpoint(path)
    assert read.weight_hash() == checkpoint.weight_hash()
    assert read.provenance == {
        "edited": False,
        "source": "walk, ünïcode",
        "written_by": "tsc-interp 9.9 playground",
    }
    assert path.read_bytes() == read.to_bytes()


def test_edited_weights_come_back_with_the_pages_logits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "down.safetensors"
    checkpoint = load_checkpoint("walkthrough")
    edits = {"changes": ["head1=zero", "neuron0=scale(0.5)"], "weights": {"unembed.W_U/1": 2.5}}
    written_checkpoint(checkpoint, edits, path)
    (script,) = python_scripts(["baac"], edits, checkpoint.config)
    assert tsc.evaluate(path, ["baac"])[0].logit == pytest.approx(
        run_script(script, checkpoint), abs=1e-5
    )
    assert main(["info", "--checkpoint", str(path)]) == 0
    assert "playground" in capsys.readouterr().out
    assert main(["eval", "--checkpoint", str(path), "baac"]) == 0
