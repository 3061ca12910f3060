"""The calls that users rely on for order-sensitive models, in Python and on the command line."""

from __future__ import annotations

import errno
import json
import os
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tsc_interp as tsc
from studies.constructed import carry_adder, running_sum
from tests.model.outside_models import tl_model
from tests.verification.ordered_models import ordered_checkpoint, with_task
from tsc_interp.checkpoints import Checkpoint, load_checkpoint
from tsc_interp.cli.app import main
from tsc_interp.errors import OutputError, UsageError
from tsc_interp.tasks import Addition
from tsc_interp.verification import questions
from tsc_interp.verification.order import saved

VALUES = (0, 1, 2, 3, 4, 5, -5, -4, -3, -2, -1)


def test_a_sum_imported_from_transformer_lens() -> None:
    """Tokens as a list, read at the last letter; equal to the model's own forward pass."""
    import torch

    model = tl_model(d_vocab=11, d_vocab_out=3, n_ctx=20, act_fn="relu", positions=True)
    task = tsc.tasks.SumSign(values=list(VALUES))
    checkpoint = tsc.from_transformer_lens(model, tokens=list(range(11)), task=task)
    assert checkpoint.config.reads == "last_letter"
    found = tsc.verify(checkpoint, lengths=[3], seconds=600)
    every = torch.cartesian_prod(*[torch.arange(11)] * 3)
    with torch.no_grad():
        answers = model(every)[:, -1].argmax(-1)
    wrong = int((answers != 1 + torch.tensor(VALUES)[every].sum(1).sign()).sum())
    assert (found.right, found.wrong, found.undecided) == (1331 - wrong, wrong, 0)


@pytest.fixture(scope="module")
def sums(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Right on every string of up to 20 numbers, and wrong on sums of ±1 at 21."""
    path = tmp_path_factory.mktemp("models") / "sums.safetensors"
    running_sum(VALUES, 20).save(path)
    return path


@pytest.fixture(scope="module")
def adder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Wrong on the 16 pairs whose sum is 15, at the last step."""
    path = tmp_path_factory.mktemp("models") / "adder.safetensors"
    carry_adder(2, 4, shift=1.5).save(path)
    return path


def test_verify_length_20(sums: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(sums), "--length", "20", "--seconds", "600"]) == 0
    printed = capsys.readouterr().out
    assert "length 20: all 672,749,994,932,560,009,201 inputs right" in printed
    assert "0 wrong, 0 undecided" in printed


def test_python_and_the_command_line_say_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "sums.safetensors"
    running_sum((0, 1, -1), 20).save(path)
    found: Any = tsc.verify(path, lengths=[20, 21], seconds=600)
    assert found.lengths[0].wrong == 0
    assert found.wrong == found.lengths[1].wrong > 0
    assert found.first_wrong.string == "a{20}b"
    options = ["--length", "20", "--length", "21", "--seconds", "600", "--json", "--quiet"]
    assert main(["verify", str(path), *options]) == 3
    out, errors = capsys.readouterr()
    document = json.loads(out)
    assert document.pop("schema") == "tsc-interp/verify-ordered/2"
    assert document == json.loads(json.dumps(found.to_dict()))
    assert errors == ""


def test_a_model_that_writes(adder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found: Any = tsc.verify(adder)
    assert [step.wrong for step in found.steps] == [0, 0, 16]
    assert (found.inputs, found.wrong) == (256, 16)
    assert found.first_wrong.tokens[:6] == ("0", "0", "+", "3", "3", "=")
    assert main(["verify", str(adder)]) == 3
    printed = capsys.readouterr().out
    assert "steps 0 to 1: all 256 inputs right" in printed
    assert "step 2: 16 of 256 inputs wrong" in printed
    assert "Of 256 inputs: 240 right, 16 wrong, 0 undecided." in printed
    assert "00+33=33 at step 2" in " ".join(printed.split())
    assert main(["verify", str(adder), "--length", "3"]) == 2


def test_a_certificate_of_either_is_checked(
    sums: Path, adder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    proof = tmp_path / "proof.json"
    assert main(["verify", str(adder), "--certify", "-o", str(proof)]) == 3
    assert main(["verify", str(adder), "--check", str(proof)]) == 0
    assert main(["verify", str(sums), "--check", str(proof)]) == 3
    capsys.readouterr()
    short = running_sum((0, 1, -1), 3)
    certificate: Any = tsc.certify(short, lengths=[3, 4])
    proved: Any = tsc.check(certificate.document, short)
    assert [int(part["wrong"]) for part in certificate.document["conclusion"]["tables"]] == [0, 32]
    assert proved.sentences == certificate.proved


def _forced(checkpoint: Checkpoint, length: int, positive: Any) -> int:
    """Wrong strings by asking the hooked model about every one."""
    model, letters = tsc.load(checkpoint), checkpoint.config.alphabet.letters
    strings = ["".join(letters) for letters in product(letters, repeat=length)]
    logits = model(model.tokens(strings)).detach().numpy()
    return int(((logits > 0) != np.array([positive(s) for s in strings])).sum())


@pytest.mark.parametrize(
    ("task", "positive"),
    [
        (
            tsc.tasks.Automaton(
                letters="abc", start=0, label=lambda depth: depth == 0,
                step=lambda depth, x: max(-1, min(3, depth + "ba".find(x) * 2 - 1))
                if x != "c" and depth >= 0 else depth,
            ),
            None,
        ),
        (tsc.tasks.Regex("(a|b)*c"), lambda string: "c" not in string[:-1] and string[-1] == "c"),
    ],
    ids=["automaton", "regex"],
)  # fmt: skip
def test_a_task_of_ones_own(
    task: Any, positive: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A step function or an expression, through a file that holds no code."""
    config = tsc.ClassifierConfig(n_positions=5, d_model=3, n_heads=2, d_head=2)
    path = tmp_path / "own.safetensors"
    with_task(ordered_checkpoint(config, 3), task).save(path)

    def by_steps(string: str) -> bool:
        state = task.start
        for letter in string:
            state = task.step[state][task.letters.index(letter)]
        return bool(task.label[state])

    loaded = load_checkpoint(path)
    forced = _forced(loaded, 4, positive or by_steps)
    assert 0 < forced < 81
    assert tsc.verify(loaded, lengths=[4]).wrong == forced
    assert main(["verify", str(path), "--length", "4", "--json"]) == 3
    assert json.loads(capsys.readouterr().out)["wrong"] == forced


def test_time_that_is_over_leaves_inputs_undecided(
    sums: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Never right, and exit code 3."""
    assert main(["verify", str(sums), "--length", "20", "--seconds", "1e-9"]) == 3
    printed = capsys.readouterr().out
    assert "Of 672,749,994,932,560,009,201 inputs: 0 right, 0 wrong" in printed
    assert "undecided" in printed


def test_progress_is_told_in_a_pipe(
    sums: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tsc_interp.cli.common._SECONDS_BETWEEN_LINES", -1)
    assert main(["verify", str(sums), "--length", "2", "--length", "3"]) == 0
    errors = capsys.readouterr().err
    assert "deciding every input" in errors
    assert "50 % of all inputs decided" in errors


def test_seconds_bound_the_search_and_the_certificate_together(
    sums: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a clock of its own: the search gets half, and the certificate what is then left."""
    now, given = [100.0], {}

    def searched(checkpoint: Any, lengths: Any, *, seconds: float, **options: Any) -> Any:
        given["search"] = seconds
        now[0] += 7.0  # it overruns its five seconds
        return tsc.verification.OrderedVerdict("", "", "", (), (), 1, 0, 0, None, None)

    def certified(checkpoint: Any, *, seconds: float, **options: Any) -> None:
        given["certificate"] = seconds

    monkeypatch.setattr(questions, "monotonic", lambda: now[0])
    monkeypatch.setattr(questions, "verify_order", searched)
    monkeypatch.setattr(questions, "certify_order", certified)
    tsc.verify(sums, lengths=[20], seconds=10, certify=True)
    assert given == {"search": 5.0, "certificate": 3.0}


def test_a_search_that_cannot_be_kept_says_where(sums: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for place in ("file", "file/folder"):
        with pytest.raises(OutputError, match=f"cannot keep the search in .*{place}"):
            tsc.verify(sums, lengths=[3], seconds=600, resume=tmp_path / place)


def test_a_full_disk_is_said(sums: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(saved, "write_atomically", full)
    with pytest.raises(OutputError, match="No space left on device; resume takes a folder"):
        tsc.verify(sums, lengths=[3], seconds=600, resume=tmp_path / "kept")


@pytest.mark.parametrize("call", ["verify", "horizon", "diff", "falsify", "certify"])
def test_endless_seconds_are_refused(call: str) -> None:
    models = ["walkthrough"] * (2 if call == "diff" else 1)
    with pytest.raises(UsageError, match="seconds is a finite number, such as 3600, got inf"):
        getattr(tsc, call)(*models, seconds=float("inf"))


@pytest.mark.parametrize("stops", [False, True])
def test_a_stop_token_is_part_of_the_task(stops: bool) -> None:
    """One adder, every digit right; with the stop token in the task it has to be written, too."""
    digits, base = 2, 3
    plain = carry_adder(digits, base)
    task = Addition(digits=digits, base=base, end=(base + 2,))
    old = plain.config
    config = old.replace(
        n_letters=old.n_letters + 1, n_outputs=old.n_outputs + 1, d_model=old.d_model + 1,
        n_positions=old.n_positions + 1, task=task, token_names=(*old.token_names, "END"),
    )  # fmt: skip
    weights = {}
    for name, shape in config.weight_shapes().items():
        weights[name] = np.zeros(shape)
        weights[name][tuple(map(slice, plain.weights[name].shape))] = plain.weights[name]
    # A feature of its own says that all digits are written, and reads out as the stop token.
    weights["pos_embed.W_pos"][-1, -1] = 1
    weights["unembed.W_U"][-1, -1] = 2000 * stops
    weights["unembed.b_U"][-1] = -1000
    model = tsc.from_arrays(config, weights)
    verdict = tsc.verify(model)
    assert (verdict.inputs, verdict.wrong) == (81, 0 if stops else 81)
    assert [step.wrong for step in verdict.counts] == [0, 0, 0, 0 if stops else 81]
    digits_only = replace(model, config=config.replace(task=Addition(digits=digits, base=base)))
    assert tsc.verify(digits_only).wrong == 0
    assert tsc.check(tsc.certify(model), model)
