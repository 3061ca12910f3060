"""The public names: one contract for what a model is, one error family, types a user can see."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import tsc_interp as tsc
from tsc_interp.checkpoints import load_checkpoint
from tsc_interp.checkpoints.locate import bundled_path
from tsc_interp.checkpoints.resolve import as_checkpoint
from tsc_interp.checkpoints.run_directory import RunDirectory
from tsc_interp.verification import read_certificate

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
    return tsc.train(tsc.ClassifierConfig(), runs, seeds=[2], training=training)[0]


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
    checkpoint = load_checkpoint(NAME)
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
    lambda: tsc.analyze(load_checkpoint(), epoch=3),
    lambda: tsc.load("walkthrough", epoch=3),
    lambda: tsc.verify("walkthrough", 0),
    lambda: tsc.verify("walkthrough", "200"),
    lambda: tsc.verify("walkthrough", 2.5),
    lambda: tsc.verify("walkthrough", True),
    lambda: tsc.horizon("walkthrough", limit=0),
    lambda: tsc.horizon("walkthrough", limit="100"),
    lambda: tsc.horizon("walkthrough", boxes="many"),
    lambda: tsc.certify("walkthrough", limit=-5),
    lambda: tsc.certify("walkthrough", limit="9"),
    lambda: tsc.run_probe(7, "walkthrough", "ab"),
    lambda: read_certificate("nowhere.json"),
    lambda: read_certificate(5),
    lambda: tsc.check({}, load_checkpoint()),
    lambda: tsc.Experiment.load("nowhere.toml"),
    lambda: tsc.Experiment.of(5),
    lambda: tsc.ClassifierConfig(task="contains"),
    lambda: tsc.tasks.AtLeast(letter="a", count="two"),
    lambda: tsc.tasks.ContainsAll(letters=5),
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
from tsc_interp import Checkpoint, horizon
assert as_checkpoint({str(bundled_path(NAME))!r}).weight_hash()
assert horizon({NAME!r}, limit=50).limit == 50
sys.exit("torch" in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_every_public_name_is_there() -> None:
    assert len(tsc.__all__) == 20
    for name in tsc.__all__:
        assert getattr(tsc, name) is not None
    assert set(dir(tsc)) == set(tsc.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = tsc.nothing


def test_importing_the_package_loads_nothing_else() -> None:
    script = """
import sys
import tsc_interp
sys.exit(len([name for name in sys.modules if name.startswith("tsc_interp.")]) - 1)
"""
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_whatever_takes_a_model_takes_a_frame() -> None:
    """One rule, without exceptions."""
    takes = {}
    for name in tsc._PUBLIC:
        found = getattr(tsc, name)
        if callable(found) and not isinstance(found, type):
            parameters = inspect.signature(found).parameters
            if "model" in parameters:
                takes[name] = "frame" in parameters
            assert "reading" not in parameters, name
    assert all(takes.values())
    assert len(takes) >= 12


@pytest.mark.parametrize("call", [
    lambda model, frame: tsc.evaluate(model, "aab", frame=frame)[0].logit,
    lambda model, frame: tsc.run_probe("attribution", model, ["aab"], frame=frame).to_dict(),
    lambda model, frame: tsc.intervene(model, ["aab"], "head0=zero", frame=frame).after.tolist(),
    lambda model, frame: tsc.horizon(model, limit=9, frame=frame).to_dict(),
    lambda model, frame: tsc.load(model, frame=frame)(["aab"]).tolist(),
], ids=["evaluate", "run_probe", "intervene", "horizon", "load"])  # fmt: skip
def test_a_frame_is_importing_first(call: Callable[[Any, Any], Any]) -> None:
    model = tsc.load(NAME).to_transformer_lens(n_ctx=70)
    frame = {"frame": "[CLS] x{1..9}; x=2..4; CLS=0; read=0", "task": "contains_all"}
    assert call(model, frame) == call(tsc.from_transformer_lens(model, **frame), None)


def test_check_takes_what_certify_takes(tmp_path: Path) -> None:
    certificate = tsc.certify(NAME, limit=70)
    certificate.save(tmp_path / "certificate.json")
    given = [certificate, certificate.document, tmp_path / "certificate.json"]
    models = forms(load_checkpoint(NAME), tmp_path).values()
    assert {tsc.check(document, NAME).horizon for document in given} == {66}
    assert {tsc.check(certificate, model).horizon for model in models} == {66}
    with pytest.raises(tsc.TscError, match="other models"):
        tsc.check(certificate, "walkthrough")
    with pytest.raises(tsc.TscError, match="about one model, got 2"):
        tsc.check(certificate, NAME, NAME)


def test_check_tells_the_kinds_of_certificates_apart(tmp_path: Path) -> None:
    agreement = tsc.diff("walkthrough", NAME, max_length=5, limit=70)
    agreement.save(tmp_path / "agreement.json")
    proved = tsc.check(tmp_path / "agreement.json", "walkthrough", tsc.load(NAME))
    assert proved == agreement.proved
    with pytest.raises(tsc.TscError, match="other models"):
        tsc.check(agreement, NAME, "walkthrough")
    with pytest.raises(tsc.TscError, match="about two models, got 1"):
        tsc.check(agreement, NAME)
    config = tsc.ClassifierConfig(task="before", n_positions=4)
    ordered = tsc.HookedClassifier(config, seed=1)
    certificate = tsc.certify(ordered, lengths=[1, 2])
    assert tsc.check(certificate, ordered).sentences == certificate.proved


@pytest.mark.parametrize("ask", [tsc.horizon, tsc.certify])
def test_seconds_bound_a_search(ask: Callable[..., Any]) -> None:
    with pytest.raises(tsc.TscError, match=r"horizon\(model, seconds=1\)"):
        ask("walkthrough", seconds=1e-5)


def test_float32_is_an_option() -> None:
    found = tsc.horizon(NAME, limit=80, float32="tokens").float32
    assert found == tsc.verify(NAME, 67, float32="tokens", replay=False).float32_horizon
    proved = tsc.certify(NAME, limit=80, float32="tokens").float32
    assert found.safe_through == proved.safe_through == 66
    assert (found.proved, proved.proved) == (False, True)
    assert tsc.verify(NAME, 5).float32_horizon is None


def test_a_difference_need_not_be_proved() -> None:
    whole = tsc.diff("walkthrough", NAME, max_length=68, limit=70)
    assert tsc.diff("walkthrough", NAME, max_length=68, prove=False) == whole.counted


SCRIPT = '''
import tsc_interp as tsc

model = tsc.load("walkthrough")
reveal_type(model)
reveal_type(model.ensemble_shape)
reveal_type(model.to_checkpoint().config.d_model)
reveal_type(tsc.analyze(model, "aab", probes="trace"))
reveal_type(tsc.verify("walkthrough").accuracy)
reveal_type(tsc.horizon(model).length)
reveal_type(tsc.certify("walkthrough"))
reveal_type(tsc.evaluate(model, ["ab"])[0].logit)
reveal_type(tsc.write_playground(model, "page.html"))
reveal_type(tsc.Experiment.of("width", seeds="0..3"))
reveal_type(tsc.tasks.Majority(letter="a"))
reveal_type(tsc.runs()[0].path)
reveal_type(tsc.__version__)
tsc.horizn(model)
tsc.verify(5)
'''  # fmt: skip
REVEALED = [
    "tsc_interp.model.hooked.HookedClassifier", "tuple[int, ...]", "int",
    "tsc_interp.report.report.Report", "tsc_interp.output.numbers.Share", "int | None",
    "tsc_interp.verification.certificates.Certificate | "
    "tsc_interp.verification.order.certificate_result.OrderedCertificate", "float", "pathlib.Path",
    "tsc_interp.training.experiments.Experiment", "tsc_interp.tasks.counts.Majority",
    "pathlib.Path", "str",
]  # fmt: skip


@pytest.mark.slow
def test_a_users_type_checker_sees_types(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    """Libraries are not followed, which takes minutes: this is about our own types.

    What mypy knows is kept from run to run, as pytest keeps what failed.
    """
    (tmp_path / "script.py").write_text(SCRIPT)
    skipped = "torch.*,transformer_lens.*,scipy.*,plotly.*,flint.*,numpy.*,rich.*,jaxtyping.*"
    skipped += ",einops.*,safetensors.*"
    (tmp_path / "mypy.ini").write_text(f"[mypy]\n[mypy-{skipped}]\nfollow_imports = skip\n")
    root = Path(tsc.__file__).parents[1]
    command = [sys.executable, "-m", "mypy", "--strict", "script.py"]
    kept = getattr(pytestconfig, "cache", None)  # not there with -p no:cacheprovider
    known = kept.mkdir("mypy") if kept else tmp_path / "mypy"
    command += ["--cache-dir", str(known), "--follow-imports=silent"]
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


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: tsc.verify("walkthrough", max_len=5), "has no argument 'max_len': did you mean"),
        (lambda: tsc.evaluate("walkthrough", "ab", frames=1), "did you mean 'frame'"),
        (lambda: tsc.analyze("walkthrough", probe="trace"), "did you mean 'probes'"),
        (lambda: tsc.run_probe("tracee", "walkthrough"), "no probe 'tracee': did you mean 'trace'"),
        (lambda: tsc.run_probe("trace", "walkthrough"), "which strings"),
        (lambda: tsc.horizon(), "missing a required argument: 'model'"),
    ],
)
def test_a_wrong_call_says_what_was_meant(call: Any, said: str) -> None:
    with pytest.raises(tsc.TscError, match=said):
        call()


def test_a_misspelt_name_says_what_was_meant() -> None:
    with pytest.raises(AttributeError, match="did you mean 'evaluate'"):
        tsc.evaluat  # type: ignore[attr-defined]  # noqa: B018
