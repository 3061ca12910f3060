"""The page as a file: what is in it, how large it is, what is refused, the command for it."""

from __future__ import annotations

import gzip
import json
import re
from base64 import b64decode
from pathlib import Path

import numpy as np
import pytest

import tsc_interp as tsc
from tests.cases import POSITIONED
from tests.checkpoints.run_directories import write_run
from tsc_interp.checkpoints import Checkpoint, bundled_names, load_checkpoint
from tsc_interp.cli import main
from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import TscError, UnsupportedError, UsageError
from tsc_interp.model.initialise import initial_weights
from tsc_interp.playground import playground_fragment, read_history, scripts, write_playground
from tsc_interp.playground.examples import examples

LIMIT = 200_000


def fresh(config: ClassifierConfig, source: str = "memory", epoch: int | None = None) -> Checkpoint:
    weights = {name: w.numpy() for name, w in initial_weights(config, epoch or 1).items()}
    return Checkpoint(config, weights, {} if epoch is None else {"epoch": epoch}, source=source)


def payload_of(page: str) -> dict:
    found = re.search(
        r'<script type="application/json" id="payload">\n(.*?)\n</script>', page, re.S
    )
    assert found
    return json.loads(found[1])


@pytest.mark.parametrize("name", bundled_names())
def test_page_carries_exact_weights_and_python_logits_in_under_200_kb(name: str) -> None:
    page = playground_fragment(name)
    assert len(page.encode()) < LIMIT
    model = payload_of(page)["models"][0]
    checkpoint = load_checkpoint(name)
    assert model["config"] == checkpoint.config.to_json()
    for key, weight in checkpoint.weights.items():
        bits = np.frombuffer(b64decode(model["weights"][key]), dtype="<f4")
        assert np.array_equal(bits, weight.ravel())
    logits = [result.logit for result in tsc.evaluate(checkpoint, model["strings"])]
    assert model["logits"] == pytest.approx(logits, abs=2e-5)
    assert len(model["strings"]) >= 30


def test_the_largest_comparison_is_under_200_kb_too() -> None:
    assert len(playground_fragment("many-heads", compare="many-heads").encode()) < LIMIT


def test_all_bundled_models_fit_in_one_page() -> None:
    first, *others = bundled_names()
    page = playground_fragment(first, also=others)
    assert len(page.encode()) < 1.1 * LIMIT
    payload = payload_of(page)
    assert [model["name"] for model in payload["models"]] == bundled_names()
    assert payload["beside"] is None


def test_models_of_one_name_are_told_apart() -> None:
    payload = payload_of(playground_fragment("walkthrough", "walkthrough", also=["walkthrough"]))
    names = [model["name"] for model in payload["models"]]
    assert names == ["walkthrough", "walkthrough (2)", "walkthrough (3)"]
    assert payload["beside"] == 1


TASKS = [
    {"kind": "contains_all", "letters": "ab"},
    {"kind": "contains_all", "letters": "b"},
    {"kind": "at_least", "letter": "b", "k": 1},
    {"kind": "at_least", "letter": "a", "k": 5},
    {"kind": "majority", "letter": "b"},
    {"kind": "parity", "letter": "a"},
    {"kind": "parity", "letter": "b", "odd": False},
]


@pytest.mark.parametrize("letters", [2, 3, 7])
@pytest.mark.parametrize("task", TASKS)
def test_examples_fit_the_task(task: dict, letters: int) -> None:
    config = ClassifierConfig(n_letters=letters, task=task)
    found = examples(config)
    assert 2 <= len(found) == len(set(found)) <= 6
    counts = config.alphabet.count_matrix(found)
    assert set(config.task.labels(counts)) == {True, False}
    assert counts.sum(axis=1).min() < 8
    assert counts.sum(axis=1).max() > 99
    assert [config.alphabet.canonical(text) for text in found] == found


def test_one_letter_has_examples_too() -> None:
    for task in ({"kind": "parity"}, {"kind": "majority"}, {"kind": "at_least", "k": 2}):
        assert len(examples(ClassifierConfig(n_letters=1, task=task))) >= 2


def script_of(page: str) -> str:
    found = re.search(r'const packed = "([^"]+)"', page)
    assert found
    return gzip.decompress(b64decode(found[1])).decode()


def test_page_refers_to_nothing_outside_itself() -> None:
    page = playground_fragment("walkthrough")
    for text in (page, script_of(page)):
        addresses = set(re.findall(r"https?://[^\s\"'`)]+", text))
        assert addresses <= {"http://www.w3.org/2000/svg"}
        assert not re.search(r"<(link|iframe|img|object|embed)\b|\bsrc=|@import|url\((?!#)", text)
    assert "default-src 'none'" in page


def test_the_page_holds_the_packages_own_script_and_is_always_the_same() -> None:
    page = playground_fragment("walkthrough")
    assert script_of(page) == scripts.assemble_script("page.mjs")
    assert playground_fragment("walkthrough") == page


def test_nothing_in_a_name_ends_the_script_or_becomes_markup() -> None:
    evil = "</script><script>alert(1)</script><!--__SCRIPT__.safetensors"
    page = playground_fragment(fresh(ClassifierConfig(), source=evil))
    assert page.count("<script") == 2
    assert page.count("</script") == 2
    assert payload_of(page)["models"][0]["source"] == evil
    assert "<title>&lt;" not in page.split("<title>")[0]
    assert "alert(1)</title>" not in page


def test_history_is_embedded_in_order(tmp_path: Path) -> None:
    config = ClassifierConfig(n_letters=4)
    write_run(tmp_path, {epoch: fresh(config, epoch=epoch) for epoch in (10, 2, 0)})
    history = read_history(tmp_path)
    assert list(history) == [0, 2, 10]
    model = payload_of(playground_fragment(history[10], history=history))["models"][0]
    assert model["name"].endswith(tmp_path.name), "a run is called after its directory"
    assert [version["epoch"] for version in model["history"]] == [0, 2, 10]
    for version in model["history"]:
        logits = [r.logit for r in tsc.evaluate(history[version["epoch"]], model["strings"])]
        assert version["logits"] == pytest.approx(logits, abs=2e-5)


def test_writing_returns_the_path_and_replaces_the_file(tmp_path: Path) -> None:
    path = tmp_path / "new" / "page.html"
    assert tsc.write_playground("walkthrough", path) == path
    first = path.read_bytes()
    write_playground("many-heads", path)
    assert path.read_bytes() != first


def test_refusals_say_why() -> None:
    with pytest.raises(UsageError, match="need different pages"):
        playground_fragment("walkthrough", also=[fresh(POSITIONED)])
    with pytest.raises(UsageError, match="history is shown for models on letter counts only"):
        playground_fragment(fresh(POSITIONED), history={0: fresh(POSITIONED)})
    with pytest.raises(UnsupportedError, match="parameters; the playground carries"):
        playground_fragment(fresh(ClassifierConfig(d_model=300, d_mlp=300)))
    with pytest.raises(UsageError, match="reads 3 letters and memory 4"):
        playground_fragment("walkthrough", compare=fresh(ClassifierConfig(n_letters=4)))
    with pytest.raises(UsageError, match="another configuration"):
        playground_fragment("walkthrough", history={3: fresh(ClassifierConfig(d_mlp=0))})
    with pytest.raises(UsageError, match="run directory"):
        read_history("walkthrough")


def test_command_writes_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "page.html"
    assert main(["playground", "-c", "walkthrough", "--compare", "attend-cls", "-o", str(out)]) == 0
    said = capsys.readouterr()
    assert said.out == ""
    assert "playground (" in said.err
    assert [model["name"] for model in payload_of(out.read_text())["models"]] == [
        "walkthrough",
        "attend-cls",
    ]


def test_command_adds_models_to_choose_from(tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    given = ["playground", "--also", "attend-cls", "--also", "many-heads", "-o", str(out), "-q"]
    assert main(given) == 0
    models = payload_of(out.read_text())["models"]
    assert [model["name"] for model in models] == ["walkthrough", "attend-cls", "many-heads"]


def test_command_names_the_page_after_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["playground", "--quiet"]) == 0
    assert (tmp_path / "playground-walkthrough.html").is_file()


def test_command_refuses_a_history_that_is_not_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["playground", "--with-history", "-o", str(tmp_path / "page.html")]) == 2
    assert "run directory" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


# -- putting modules together --------------------------------------------------------------------


def assemble(monkeypatch: pytest.MonkeyPatch, **modules: str) -> str:
    monkeypatch.setattr(scripts, "read_asset", lambda name: modules[name.removesuffix(".mjs")])
    return scripts.assemble_script("entry.mjs")


def test_modules_stand_before_those_that_use_them(monkeypatch: pytest.MonkeyPatch) -> None:
    script = assemble(
        monkeypatch,
        entry='import { two } from "./b.mjs";\nimport { one } from "./a.mjs";\none(two);\n',
        a='import { two } from "./b.mjs";\nexport function one() {}\n',
        b="export const two = 2;\n",
    )
    assert [script.index(f"// {name}.mjs") for name in ("b", "a", "entry")] == sorted(
        script.index(f"// {name}.mjs") for name in ("a", "b", "entry")
    )
    assert not re.search(r"^(import|export)\b", script, re.M)


@pytest.mark.parametrize(
    ("modules", "problem"),
    [
        ({"entry": 'import { a } from "./a.mjs";\n', "a": "const a = 1;\n"}, "does not export"),
        (
            {"entry": 'import { x } from "./entry.mjs";\nexport const x = 1;\n'},
            "in a circle: entry.mjs -> entry.mjs",
        ),
        ({"entry": 'import * as a from "./a.mjs";\n', "a": ""}, "cannot assemble the line"),
        ({"entry": "export default 3;\n"}, "cannot assemble the line"),
        (
            {
                "entry": 'import { x } from "./a.mjs";\nimport { y } from "./b.mjs";\n',
                "a": "export const x = 1;\n",
                "b": "export const y = 1;\nexport const x = 2;\n",
            },
            "both export x",
        ),
    ],
)
def test_what_cannot_be_put_together_is_refused(
    monkeypatch: pytest.MonkeyPatch, modules: dict[str, str], problem: str
) -> None:
    with pytest.raises(TscError, match=problem):
        assemble(monkeypatch, **modules)


def test_every_module_of_the_package_is_in_the_page() -> None:
    entries = ("page.mjs", "sequence.mjs", "sums.mjs")
    used = "".join(scripts.assemble_script(entry) for entry in entries)
    for file in scripts.ASSETS.iterdir():
        if file.name.endswith(".mjs"):
            assert f"// {file.name}\n" in used, f"{file.name} is not used"
