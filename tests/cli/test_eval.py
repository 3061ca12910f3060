"""`tsc-interp eval`: tables that fit, and any number of strings."""

from __future__ import annotations

import json
import re
from itertools import product

import pytest

from tests.verification.models import random_checkpoint
from tsc_interp.cli import main
from tsc_interp.config import ClassifierConfig
from tsc_interp.model.evaluation import evaluate
from tsc_interp.tasks import Addition

STRINGS = ["aac", "ab{100000000}c{55}", "b{2}c{152}"]


@pytest.mark.parametrize("columns", ["40", "60", "80", None])
def test_no_number_is_split(
    columns: str | None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if columns is not None:
        monkeypatch.setenv("COLUMNS", columns)
    assert main(["eval", *STRINGS]) == 0
    words = capsys.readouterr().out.split()
    for row in evaluate("walkthrough", STRINGS):
        assert row.string in words
        assert {f"{row.length:,}", f"{row.logit:.4f}", f"{row.probability:.4g}"} <= set(words)


def test_the_examples_stand_side_by_side_in_sixty_columns(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    assert main(["eval"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == ["string", "length", "logit", "P(1)", "predicted", "label"]
    assert max(map(len, lines)) <= 60


def test_ten_thousand_strings(capsys: pytest.CaptureFixture[str]) -> None:
    """One plain line each, the string last; mistakes are counted, and the first ones named."""
    strings = ["".join(word) for word in product("abc", repeat=8)][:5000]
    strings += [f"ab{{{n}}}" for n in range(1, 5001)]
    assert main(["eval", "-c", "generalization-errors", *strings]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 + 10_000 + 1
    assert [line.split()[-1] for line in lines[2:-1]] == strings
    assert len({line.index(s) for line, s in zip(lines[2:-1], strings, strict=True)}) == 1
    # ab{66} is the first of its kind to fail, and all longer ones do.
    assert lines[-1].startswith(f"{10_000 - (5000 - 65):,} of 10,000 right; wrong: ab{{66}} (false")
    assert lines[-1].endswith(f"and {5000 - 65 - 10:,} more")


def test_batches_do_not_change_an_answer(capsys: pytest.CaptureFixture[str]) -> None:
    strings = [f"a{{{n}}}b" for n in range(1, 4100)]
    assert main(["eval", "--json", *strings]) == 0
    results = json.loads(capsys.readouterr().out)["results"]
    assert [row["string"] for row in results] == strings
    for index in (0, 4095, 4096, 4098):
        (alone,) = evaluate("walkthrough", strings[index])
        assert results[index]["counts"] == alone.counts == {"a": index + 1, "b": 1, "c": 0}
        assert results[index]["logit"] == pytest.approx(alone.logit, rel=1e-6)


@pytest.fixture
def adder(tmp_path):
    """A model that writes the sum of two digits, by the names of its tokens."""
    config = ClassifierConfig(
        n_letters=12, n_outputs=12, task=Addition(digits=1), n_positions=6, reads="last_letter",
        attend_cls=True, token_names=tuple("0123456789+="),
    )  # fmt: skip
    random_checkpoint(config, 0).save(tmp_path / "adder.safetensors")
    return str(tmp_path / "adder.safetensors")


def test_a_model_that_writes_reads_the_names_of_its_tokens(adder, capsys) -> None:
    sums = {"5+7=": 2, "5+7=2": 1, "0+0=": 0, "3+4=": 7}
    assert main(["eval", "-c", adder, "--json", *sums]) == 0
    results = json.loads(capsys.readouterr().out)["results"]
    assert [(row["string"], row["label"]) for row in results] == list(sums.items())
    # The same as letters, d being 3: k is + and l is =.
    assert main(["eval", "-c", adder, "--json", "fkhl", "dkel"]) == 0
    letters = json.loads(capsys.readouterr().out)["results"]
    assert [row["logits"] for row in letters] == [results[0]["logits"], results[3]["logits"]]
    assert main(["eval", adder]) == 0  # prompts of its own
    shown = [line.split() for line in capsys.readouterr().out.splitlines()]
    prompts = [line for line in shown if re.fullmatch(r"\d\+\d=", line[0])]
    assert len(prompts) > 2
    for prompt, *_, label in prompts:
        assert label == str((int(prompt[0]) + int(prompt[2])) % 10)
    assert main(["intervene", "head0=zero", "-c", adder, "--no-exact"]) == 0
