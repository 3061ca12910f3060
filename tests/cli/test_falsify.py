"""`tsc-interp falsify`, in this process: our models, and a saved TransformerLens state."""

from __future__ import annotations

import json

import pytest
import torch

from tests.falsification.models import palindrome_model
from tsc_interp.cli.app import main

CONFIG = json.dumps(
    {
        "model": {
            "n_layers": 1, "n_ctx": 7, "d_model": 13, "d_head": 1, "n_heads": 6, "d_mlp": 6,
            "act_fn": "relu", "d_vocab": 4, "d_vocab_out": 2, "normalization_type": None,
            "attention_dir": "bidirectional",
        },
        "reading": {"frame": "[START] x{6}; x=0..2; START=3; read=0", "task": "palindrome"},
    }
)  # fmt: skip


@pytest.fixture
def saved(tmp_path):
    def save(missing):
        torch.save(palindrome_model(3, 3, missing).state_dict(), tmp_path / "model.pt")
        (tmp_path / "model.json").write_text(CONFIG)
        return [str(tmp_path / "model.pt"), "--config", str(tmp_path / "model.json")]

    return save


def test_a_saved_state_is_falsified(saved, capsys):
    assert main(["falsify", *saved(1), "--json"]) == 3
    found = json.loads(capsys.readouterr().out)
    assert found["schema"] == "tsc-interp/falsify/1"
    assert (found["tokens"], found["proved"]) == ([3, 0, 0, 0, 0, 1, 0], True)
    assert main(["falsify", *saved(1)]) == 3
    text = " ".join(capsys.readouterr().out.split())
    assert "START 0 0 0 0 1 0 is wrong: the label is 0, the answer 1." in text
    assert "pair 2 (places 2 and 5)" in text


def test_every_input_of_a_right_model(saved, capsys):
    assert main(["falsify", *saved(None), "--every"]) == 0
    assert "Proved: none of the 729 inputs" in " ".join(capsys.readouterr().out.split())


def test_our_models(capsys):
    frame = "[0] x{1..6}; x=2..4; read=0"
    assert main(["falsify", "walkthrough", "--frame", frame, "--every", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["enumerated"]["inputs"] == sum(
        3**n for n in range(1, 7)
    )


@pytest.mark.parametrize(("change", "words"), [
    (("reading", "readings"), "[reading] with frame and task"),
    (("task", "label"), "[reading] has a frame"),
    (("x{6}", "x{"), "cannot read the frame"),
])  # fmt: skip
def test_errors(saved, capsys, change, words):
    arguments = saved(None)
    with open(arguments[2], "w") as file:
        file.write(CONFIG.replace(*change))
    assert main(["falsify", *arguments]) == 2
    assert words in capsys.readouterr().err


def test_a_killed_search_goes_on(saved, tmp_path, capsys):
    given = ["falsify", *saved(1), "--json", "--state", str(tmp_path / "state.jsonl")]
    found = []
    for _ in range(2):
        assert main(given) == 3
        found.append(json.loads(capsys.readouterr().out))
    assert found[0] == found[1]


def test_import_keeps_the_frame(saved, tmp_path, capsys):
    out = str(tmp_path / "mine.safetensors")
    model, *config = saved(1)
    assert main(["import", model, *config, "-o", out]) == 0
    assert main(["verify", out, "--json"]) == 3
    text = capsys.readouterr().out
    found = json.loads(text[text.index("{") :])
    # A pair that is never compared: 27 palindromes of three pairs, and two other letters there.
    assert (found["inputs"], found["wrong"], found["undecided"]) == (729, 54, 0)
    # Without strings, commands run inputs of the frame; a change is counted on all of them.
    assert main(["eval", out]) == 0
    assert "000000" in capsys.readouterr().out
    assert main(["intervene", "head0=scale(1)", "-c", out, "--json"]) == 0
    exact = json.loads(capsys.readouterr().out)["exact"]
    assert (exact["wrong_before"], exact["wrong_after"]) == ("54", "54")
    frame = "[3] x{6}; x=0..1; read=0"
    assert main(["import", model, *config, "--frame", frame, "-o", out, "--force"]) == 0
    assert main(["verify", out, "--json"]) == 3
    text = capsys.readouterr().out
    found = json.loads(text[text.index("{") :])
    assert (found["inputs"], found["wrong"]) == (64, 8)
