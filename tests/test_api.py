"""The public names: one contract for what a model is, one error family, types a user can see."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import tsc_interp as tsc
from tsc_interp.checkpoints import bundled_names
from tsc_interp.checkpoints.locate import bundled_path
from tsc_interp.checkpoints.resolve import as_checkpoint
from tsc_interp.checkpoints.run_directory import RunDirectory

NAME = "generalization-errors"

# Each public function that takes a model, as something to do with one.
TAKE_A_MODEL: dict[str, Callable[[Any, Path], Any]] = {
    "analyze": lambda model, _: tsc.analyze(model, "aab", probes="trace").to_json(),
    "compare": lambda model, _: tsc.analyze(NAME, "aab", probes=["trace"], compare=model).to_json(),
    "verify": lambda model, _: tsc.verify(model, 12, replay=False).to_dict(),
    "horizon": lambda model, _: tsc.horizon(model, limit=400).to_dict(),
    "certify": lambda model, _: tsc.certify(model, limit=400).document,
    "evaluate": lambda model, _: tsc.evaluate(model, "ab{100}"),
    "write_playground": lambda model, out: tsc.write_playground(
        model, out / "page.html"
    ).read_text(),
    "load": lambda model, _: tsc.load(model)("ab{100}").tolist(),
    "run_probe": lambda model, _: tsc.run_probe("margin", model, "aab").to_dict(),
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A run that ends with the bundled model's configuration, trained for a moment."""
    training = tsc.TrainingConfig(max_epochs=1)
    runs = tmp_path_factory.mktemp("runs")
    return tsc.train_seeds(tsc.ClassifierConfig(), [2], training, runs=runs)[0]


def forms(checkpoint: tsc.Checkpoint, folder: Path) -> dict[str, Any]:
    """The same weights in every form a model can be given."""
    file = folder / "model.safetensors"
    checkpoint.save(file)
    return {
        "hooked model": tsc.HookedClassifier.from_checkpoint(checkpoint),
        "checkpoint": checkpoint,
        "path": file,
        "path as text": str(file),
    }


@pytest.mark.parametrize("function", TAKE_A_MODEL)
def test_every_form_of_a_model_gives_the_same_answer(function: str, tmp_path: Path) -> None:
    do = TAKE_A_MODEL[function]
    checkpoint = tsc.load_checkpoint(NAME)
    expected = do(NAME, tmp_path)
    for form, model in forms(checkpoint, tmp_path).items():
        if isinstance(model, str | Path):
            # A file is called by its path, which is part of some answers.
            assert do(model, tmp_path), form
            assert as_checkpoint(model).weight_hash() == checkpoint.weight_hash()
        elif function not in ("analyze", "compare", "write_playground"):  # quote the provenance
            assert do(model, tmp_path) == expected, form
        else:
            assert do(model, tmp_path), form


@pytest.mark.parametrize("function", TAKE_A_MODEL)
def test_a_run_and_its_directory_are_models_too(function: str, run: Any, tmp_path: Path) -> None:
    do = TAKE_A_MODEL[function]
    of_directory = do(run.path, tmp_path)
    assert do(RunDirectory.open(run.path), tmp_path) == of_directory
    assert do(run, tmp_path) == of_directory
    assert do(tsc.runs(run.path.parents[2])[0], tmp_path) == of_directory


WRONG_MODELS = {
    "None": None,
    "number": 5,
    "list": ["walkthrough"],
    "dict": {"config": 1},
    "object": object(),
    "another module": torch.nn.Linear(2, 1),
    "bytes": b"walkthrough",
    "class": tsc.HookedClassifier,
    "unknown name": "walk-through",
    "empty": "",
    "missing file": Path("nowhere.safetensors"),
    "directory": Path(),
    "config": tsc.ClassifierConfig(),
}


@pytest.mark.parametrize("wrong", WRONG_MODELS)
@pytest.mark.parametrize("function", TAKE_A_MODEL)
def test_what_is_no_model_is_refused(function: str, wrong: str, tmp_path: Path) -> None:
    if (function, wrong) == ("compare", "None"):
        return  # nothing to compare with
    with pytest.raises(tsc.TscError) as refused:
        TAKE_A_MODEL[function](WRONG_MODELS[wrong], tmp_path)
    assert len(str(refused.value)) > 20
    assert not list(tmp_path.iterdir())


def ensemble() -> tsc.HookedClassifier:
    from tsc_interp.model.initialise import initial_weights, stack_weights

    config = tsc.ClassifierConfig()
    return tsc.HookedClassifier(config, stack_weights([initial_weights(config, s) for s in (0, 1)]))


@pytest.mark.parametrize("function", sorted(set(TAKE_A_MODEL) - {"load"}))
def test_an_ensemble_is_not_one_model(function: str, tmp_path: Path) -> None:
    with pytest.raises(tsc.TscError, match=r"ensemble"):
        TAKE_A_MODEL[function](ensemble(), tmp_path)


@pytest.mark.parametrize("strings", [5, [1, 2], b"ab", "", [""], ["ab", 3], "aXb", object()])
@pytest.mark.parametrize("do", [
    lambda strings: tsc.evaluate("walkthrough", strings),
    lambda strings: tsc.analyze("walkthrough", strings, probes="trace"),
    lambda strings: tsc.load("walkthrough")(strings),
    lambda strings: tsc.load("walkthrough").tokens(strings),
    lambda strings: tsc.run_probe("trace", "walkthrough", strings),
], ids=["evaluate", "analyze", "model", "tokens", "run_probe"])  # fmt: skip
def test_what_is_no_string_is_refused(do: Callable[[Any], Any], strings: Any) -> None:
    with pytest.raises(tsc.TscError):
        do(strings)


@pytest.mark.parametrize("call", [
    lambda: tsc.analyze(probes=5),
    lambda: tsc.analyze(probes="no-such-probe"),
    lambda: tsc.analyze(probes=[]),
    lambda: tsc.analyze("walkthrough", epoch=3),
    lambda: tsc.analyze(tsc.load_checkpoint(), epoch=3),
    lambda: tsc.load("walkthrough", epoch=3),
    lambda: tsc.verify("walkthrough", 0),
    lambda: tsc.verify("walkthrough", "200"),
    lambda: tsc.verify("walkthrough", 2.5),
    lambda: tsc.verify("walkthrough", True),
    lambda: tsc.verify("walkthrough", 5, method="magic"),
    lambda: tsc.horizon("walkthrough", limit=0),
    lambda: tsc.horizon("walkthrough", limit="100"),
    lambda: tsc.horizon("walkthrough", budget="many"),
    lambda: tsc.certify("walkthrough", limit=-5),
    lambda: tsc.certify("walkthrough", limit=None),
    lambda: tsc.run_probe(7, "walkthrough", "ab"),
    lambda: tsc.read_certificate("nowhere.json"),
    lambda: tsc.read_certificate(5),
    lambda: tsc.check({}, tsc.load_checkpoint()),
    lambda: tsc.load_experiment("nowhere.toml"),
    lambda: tsc.make_experiment(5),
    lambda: tsc.ClassifierConfig(task="contains"),
    lambda: tsc.AtLeast(letter="a", count="two"),
    lambda: tsc.ContainsAll(letters=5),
])  # fmt: skip
def test_wrong_use_is_one_family_of_errors(call: Callable[[], Any]) -> None:
    with pytest.raises(tsc.TscError):
        call()


def test_a_single_string_and_a_list_of_one_are_the_same() -> None:
    assert tsc.evaluate(NAME, "ab{9}") == tsc.evaluate(NAME, ["ab{9}"])
    one, many = (tsc.analyze(NAME, s, probes=p) for s, p in (("ab", "trace"), (["ab"], ["trace"])))
    assert one.to_json() == many.to_json()
    assert tsc.evaluate(NAME, iter(["a", "b"])) == tsc.evaluate(NAME, ("a", "b"))


def test_what_a_model_is_needs_no_torch() -> None:
    script = f"""
import sys
from tsc_interp.checkpoints.resolve import as_checkpoint
from tsc_interp.checkpoints.run_directory import RunDirectory
from tsc_interp import Checkpoint, horizon, load_checkpoint
assert as_checkpoint({str(bundled_path(NAME))!r}).weight_hash()
assert horizon({NAME!r}, limit=50).limit == 50
sys.exit("torch" in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def imported_for_types() -> dict[str, str]:
    tree = ast.parse(Path(tsc.__file__).read_text())
    guarded = next(node for node in tree.body if isinstance(node, ast.If))
    return {
        alias.asname: f"{node.module}" for node in guarded.body
        if isinstance(node, ast.ImportFrom) for alias in node.names if alias.asname
    }  # fmt: skip


def test_every_public_name_is_there_and_typed() -> None:
    assert imported_for_types() == tsc._PUBLIC
    for name in tsc.__all__:
        assert getattr(tsc, name) is not None
    assert set(dir(tsc)) == set(tsc.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = tsc.nothing
    assert bundled_names() == tsc.bundled_names()


SCRIPT = '''
import tsc_interp as tsc

model = tsc.load("walkthrough")
reveal_type(model)
reveal_type(model.ensemble_shape)
reveal_type(tsc.load_checkpoint("walkthrough").config.d_model)
reveal_type(tsc.analyze(model, "aab", probes="trace"))
reveal_type(tsc.verify("walkthrough").accuracy)
reveal_type(tsc.horizon(model).length)
reveal_type(tsc.certify(tsc.load_checkpoint()))
reveal_type(tsc.evaluate(model, ["ab"])[0].logit)
reveal_type(tsc.write_playground(model, "page.html"))
reveal_type(tsc.make_experiment("width", seeds="0..3"))
reveal_type(tsc.Majority(letter="a"))
reveal_type(tsc.runs()[0].path)
reveal_type(tsc.__version__)
tsc.horizn(model)
tsc.verify(5)
'''  # fmt: skip
REVEALED = [
    "tsc_interp.model.hooked.HookedClassifier", "tuple[int, ...]", "int",
    "tsc_interp.report.report.Report", "fractions.Fraction", "int | None",
    "tsc_interp.verification.certificates.Certificate", "float", "pathlib.Path",
    "tsc_interp.training.experiments.Experiment", "tsc_interp.task.Majority", "pathlib.Path", "str",
]  # fmt: skip


@pytest.mark.slow
def test_a_users_type_checker_sees_types(tmp_path: Path) -> None:
    """Libraries are not followed, which takes minutes: this is about our own types."""
    (tmp_path / "script.py").write_text(SCRIPT)
    skipped = "torch.*,transformer_lens.*,scipy.*,plotly.*,flint.*,numpy.*,rich.*,jaxtyping.*"
    skipped += ",einops.*,safetensors.*"
    (tmp_path / "mypy.ini").write_text(f"[mypy]\n[mypy-{skipped}]\nfollow_imports = skip\n")
    root = Path(tsc.__file__).parents[1]
    command = [sys.executable, "-m", "mypy", "--strict", "script.py"]
    command += ["--cache-dir", str(tmp_path / "cache"), "--follow-imports=silent"]
    said = subprocess.run(
        command, cwd=tmp_path, env={"MYPYPATH": str(root), "PATH": ""}, capture_output=True,
        text=True, check=False,
    ).stdout  # fmt: skip
    revealed = re.findall(r'Revealed type is "(.*)"', said.replace("builtins.", ""))
    assert revealed == REVEALED, said
    errors = [line for line in said.splitlines() if ": error:" in line and "script.py" in line]
    assert len(errors) == 2, said
    assert "horizn" in errors[0]
    assert 'Argument 1 to "verify" has incompatible type "int"' in errors[1]
