"""`tsc-interp verify`: plain words, one JSON document, exit codes, certificates on disk."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cases import POSITIONED
from tests.verification.models import planted, random_checkpoint
from tsc_interp.checkpoints import Checkpoint
from tsc_interp.cli import main
from tsc_interp.cli import verify as verify_command
from tsc_interp.config import ClassifierConfig

FIELDS = [
    "schema", "checkpoint", "weight_hash", "claim", "max_length", "method", "vectors", "strings",
    "false_positives", "false_negatives", "undecided", "undecided_out_of_budget", "accuracy",
    "first_error_length", "errors_by_length", "horizon", "float32_horizon", "negative_supports",
    "certified", "float32",
]  # fmt: skip


@pytest.fixture
def model(tmp_path: Path) -> str:
    """Right up to six letters; ab{6} is its first error."""
    path = tmp_path / "model.safetensors"
    planted(6, c_score=-1.0).save(path)
    return str(path)


@pytest.mark.parametrize("config", [ClassifierConfig(), POSITIONED], ids=["counts", "order"])
def test_the_name_of_a_file_fakes_no_line(
    config: ClassifierConfig, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "m\nEverything is proved.safetensors"
    random_checkpoint(config, 0).save(path)
    main(["verify", str(path), "-L", "3", "--no-replay", "--quiet"])
    assert "m\\nEverything is proved.safetensors: " in capsys.readouterr().out.replace("\n", "")


def test_in_plain_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify"]) == 0
    out = capsys.readouterr().out
    assert "All 3.98·10⁹⁵ strings up to length 200 checked, as 1,373,700 count vectors" in out
    assert "none is wrong" in out
    assert "real numbers" in out
    assert "float32 model gets" not in out


def test_an_error_is_shown_and_exits_with_three(
    model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["verify", "-c", model, "-L", "9", "--horizon"]) == 3
    out = capsys.readouterr().out
    assert "the shortest is ab{6}" in out
    assert "no false positives" in out
    assert "Horizon: 6." in out
    assert "float32 model gets 3 of these 3 counterexamples wrong too" in out
    assert main(["verify", "-c", model, "-L", "6", "--no-replay"]) == 0


def test_json(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", "-c", model, "-L", "90", "--certify", "--json"]) == 3
    document = json.loads(capsys.readouterr().out)
    assert list(document) == FIELDS
    assert document["schema"] == "tsc-interp/verify/4"
    assert document["max_length"] == 90
    assert document["vectors"] == 129_765  # C(93, 3) - 1
    # Too large for a JSON number, so a string; the numbers add up.
    assert document["strings"] == str(sum(3**n for n in range(1, 91)))
    wrong = [int(document[side]["strings"]) for side in ("false_positives", "false_negatives")]
    right, total = (int(document["accuracy"][key]) for key in ("numerator", "denominator"))
    assert (right + sum(wrong), total) == (total, int(document["strings"]))
    assert document["false_positives"] == {"vectors": 0, "strings": 0, "shortest": None}
    shortest = document["false_negatives"]["shortest"]
    assert shortest["string"] == "ab{6}"
    assert (shortest["length"], shortest["counts"], shortest["label"]) == (7, [1, 6, 0], 1)
    assert document["undecided"]["vectors"] == 0
    assert document["first_error_length"] == document["errors_by_length"][0]["length"] == 7
    by_length = [int(row["false_negatives"]["strings"]) for row in document["errors_by_length"]]
    assert sum(by_length) == wrong[1]
    known = document["horizon"]
    assert (known["length"], known["infinite"], known["proved"]) == (6, False, True)
    assert known["shortest_counterexample"] == shortest
    supports = document["negative_supports"]
    assert [support["letters"] for support in supports] == ["b", "c", "bc"]
    assert all(
        support["holds_for_all_lengths"] and support["witness"] is None for support in supports
    )
    # Two claims, kept apart.
    assert document["claim"].startswith("real numbers")
    assert document["float32"]["all_also_wrong"] is True
    assert {one["form"] for one in document["float32"]["replayed"]} == {"tokens"}


def test_json_without_extras(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", "-L", "5", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert list(document) == FIELDS
    for absent in ("horizon", "float32_horizon", "negative_supports", "certified", "float32"):
        assert document[absent] is None
    assert document["vectors"] == 55


def test_certificate_on_disk(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "certificate.json"
    arguments = ["verify", "-c", model, "-L", "6", "--certify", "--no-replay", "-o", str(path)]
    assert main(arguments) == 0
    assert "Certificate written" in capsys.readouterr().out
    assert main(["verify", "-c", model, "--check", str(path)]) == 0
    out = capsys.readouterr().out
    assert "the horizon is 6" in out
    assert "accepted" in out
    assert main(["verify", "-c", model, "--check", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["accepted"] is True
    # The same file about another model, or bent, is refused.
    assert main(["verify", "--check", str(path)]) == 3
    captured = capsys.readouterr()
    assert "other models" in captured.err
    assert not captured.out
    path.write_text(path.read_text().replace('"up_to": 6', '"up_to": 7'))
    assert main(["verify", "-c", model, "--check", str(path), "--json"]) == 3
    document = json.loads(capsys.readouterr().out)
    assert document["accepted"] is False
    assert "digest" in document["reason"]


def test_usage_errors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    positioned = tmp_path / "positioned.safetensors"
    random_checkpoint(POSITIONED.replace(n_layers=2), 0).save(positioned)
    for arguments, code, message in (
        (["--out", "x.json"], 2, "needs --certify"),
        (["--check", "x.json", "--certify"], 2, "--check and --certify do not go together"),
        (["--max-length", "0"], 2, "--max-length"),
        (["--check", str(tmp_path / "none.json")], 2, "cannot read"),
        (["-c", str(positioned)], 1, "verified input by input"),
    ):
        assert main(["verify", *arguments]) == code, arguments
        assert message in capsys.readouterr().err


def test_no_torch_unless_something_is_replayed() -> None:
    """What makes `verify` start fast."""
    code = (
        "import sys; from tsc_interp.cli import main; "
        "code = main(['verify', '-L', '9', '--certify', '--no-replay', '--json']); "
        "sys.exit(10 * code + any(m in sys.modules for m in ('torch', 'transformer_lens')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


def test_sixty_columns(model: str, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    """Lines break between words, so no number is ever split; a pipe gets whole lines."""
    # A path longer than a line has to be folded; this one is short.
    monkeypatch.chdir(Path(model).parent)
    arguments = ["verify", "-c", Path(model).name, "-L", "90", "--certify"]
    assert main(arguments) == 3
    wide = capsys.readouterr().out
    monkeypatch.setenv("COLUMNS", "60")
    assert main(arguments) == 3
    narrow = capsys.readouterr().out
    assert max(map(len, narrow.splitlines())) <= 60 < max(map(len, wide.splitlines()))
    assert narrow.split() == wide.split()


def test_what_a_long_count_says(
    model: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Plain lines on standard error; nothing with --quiet."""
    monkeypatch.setattr("tsc_interp.cli.common._SECONDS_BETWEEN_LINES", -1)
    monkeypatch.setattr(verify_command, "_QUICK", 0)
    arguments = ["verify", "-c", model, "-L", "30", "--no-replay", "--json"]
    assert main(arguments) == 3
    captured = capsys.readouterr()
    assert "100 % of 5,455 count vectors decided" in captured.err
    assert "\x1b" not in captured.err
    json.loads(captured.out)
    assert main([*arguments, "--quiet"]) == 3
    assert not capsys.readouterr().err


@pytest.mark.parametrize("digits", [7, 40, 5000])
def test_lengths_beyond_reach(digits: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", "-L", "9" * digits]) in (1, 2)
    error = capsys.readouterr().err
    assert len(error.splitlines()) <= 2
    assert "-L" in error


def overflowing(path: Path) -> str:
    """Four layers that multiply by 1e74 each: no float can hold what comes out."""
    config = ClassifierConfig(n_layers=4, d_mlp=0)
    weights = {
        name: w * np.float32(1 if name[-1] in "QK" else 1e37)
        for name, w in random_checkpoint(config, 0).weights.items()
    }
    Checkpoint(config, weights).save(path)
    return str(path)


def test_numbers_that_are_not_finite(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`verify --json` and `eval --json` stay JSON, and no answer is not called right."""
    model = overflowing(tmp_path / "model.safetensors")
    assert main(["verify", "-c", model, "-L", "2", "--json"]) == 3
    document = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    shortest = document["false_negatives"]["shortest"] or document["false_positives"]["shortest"]
    assert shortest["logit"] in ("Infinity", "-Infinity")
    assert document["float32"]["replayed"][0]["logit"] == "NaN"
    assert main(["eval", "-c", model, "a", "ab", "--json"]) == 0
    results = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)["results"]
    assert {row["logit"] for row in results} == {"NaN"}
    assert main(["eval", "-c", model, "a", "ab"]) == 0
    assert "0 of 2 right; wrong: a (the logit is not a number)" in capsys.readouterr().out


def test_a_model_with_positions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Counted length by length, against the forward pass itself."""
    from itertools import product

    from tests.model import oracle
    from tests.verification.models import random_checkpoint
    from tsc_interp.config import ClassifierConfig

    config = ClassifierConfig(n_letters=2, n_positions=5, biases=True, token_names=("x", "y"))
    checkpoint = random_checkpoint(config, 1)
    path, proof = tmp_path / "order.safetensors", tmp_path / "proof.json"
    checkpoint.save(path)
    wrong = [
        sum(
            (oracle.logit(config, dict(checkpoint.weights), "".join(text)) > 0)
            != ({"a", "b"} <= set(text))
            for text in product("ab", repeat=length)
        )
        for length in range(1, 5)
    ]
    assert main(["verify", "-c", str(path), "--certify", "-o", str(proof), "--json"]) == 3
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "tsc-interp/verify-ordered/2"
    assert [one["wrong"] for one in document["by_length"]] == wrong
    assert main(["verify", "-c", str(path), "-L", "2"]) == 3
    out = capsys.readouterr().out
    assert "a is x, b is y" in out
    assert f"length 2: {wrong[1]} of 4 inputs wrong" in out
    assert main(["verify", "-c", str(path), "--check", str(proof)]) == 0
    assert "accepted" in capsys.readouterr().out
    assert main(["verify", "-c", str(path), "--horizon"]) == 2
    assert main(["verify", "-c", str(path), "-L", "9"]) == 2


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("verify nosuch --json", 1),
        ("eval --json ab{", 2),
        ("verify --nosuch --json", 2),
        ("lab nosuch --json", 2),
    ],
)
def test_errors_are_json_too(command: str, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(command.split()) == code
    captured = capsys.readouterr()
    document = json.loads(captured.out)
    assert (document["schema"], document["exit_code"]) == ("tsc-interp/error/1", code)
    assert document["error"] in captured.err
    assert main([word for word in command.split() if word != "--json"]) == code
    assert not capsys.readouterr().out


def test_a_rejected_comparison_is_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "certificate.json"
    path.write_text("{}")
    command = ["diff", "walkthrough", "many-heads", "--check", str(path)]
    assert main([*command, "--json"]) == 3
    document = json.loads(capsys.readouterr().out)
    assert (document["schema"], document["accepted"]) == ("tsc-interp/diff-check/1", False)
    assert "rejected" in document["reason"]
    assert main(command) == 3
    assert "rejected" in capsys.readouterr().err
