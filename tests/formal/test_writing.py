"""What is written for Coq: weights bit by bit, rules that label as tasks do, and refusals."""

from __future__ import annotations

import itertools
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import tsc_interp as tsc
from tsc_interp.checkpoints.locate import bundled_names, bundled_path
from tsc_interp.formal import coq
from tsc_interp.formal.rules import claims
from tsc_interp.model.hooked import HookedClassifier
from tsc_interp.tasks.counts import AtLeast, ContainsAll, Majority, Maximum, MostFrequent, Parity

ROOT = Path(__file__).parents[2]


def arguments(text: str) -> list[str]:
    """What stands in each outer pair of parentheses."""
    found, depth = [""], 0
    for character in text:
        depth += (character == "(") - (character == ")")
        found[-1] += character
        if not depth and character == ")":
            found.append("")
    return [part.strip()[1:-1] for part in found if part.strip()]


def holds(rule: str, counts: Sequence[int]) -> bool:
    """A rule's value, as formal/Horizon.v defines it."""
    name, _, rest = rule.partition(" ")
    if name in ("both", "denied"):
        values = [holds(part, counts) for part in arguments(rest)]
        return all(values) if name == "both" else not values[0]
    numbers = [int(number) for number in re.findall(r"-?\d+", rest)]
    if name == "odd_count":
        return counts[numbers[0]] % 2 == 1
    assert name == "at_least"
    *weights, least = numbers
    return sum(w * m for w, m in zip(weights, counts, strict=False)) >= least


@pytest.mark.parametrize(
    "task",
    [
        ContainsAll(letters="ac"), AtLeast(letter="b", k=2), Majority(letter="b"),
        Parity(letter="c"), Parity(letter="a", odd=False), MostFrequent(), Maximum(),
    ],
    ids=lambda task: task.describe(),
)  # fmt: skip
def test_a_rule_holds_exactly_where_its_class_is_right(task):
    strings = [m for m in itertools.product(range(4), repeat=3) if sum(m)]
    right = task.classes(np.array(strings))
    rules = [claim.rule for claim in claims(task, 3)]
    for counts, label in zip(strings, right, strict=True):
        held = [holds(rule, counts) for rule in rules]
        assert held == [label == y for y in range(len(rules))]


@pytest.mark.parametrize("name", bundled_names())
def test_ten_lines_that_share_nothing_read_the_same_weights(name, tmp_path):
    tsc.theorem(name, tmp_path, prove=False)
    compare = [sys.executable, ROOT / "formal/compare_weights.py", tmp_path / "Model/Weights.v"]
    done = subprocess.run([*compare, bundled_path(name)], capture_output=True, text=True)
    assert not done.returncode, done.stderr
    other = next(other for other in bundled_names() if other != name)
    assert subprocess.run([*compare, bundled_path(other)], capture_output=True).returncode


def test_one_output_says_yes_to_the_second_class(tmp_path):
    model = HookedClassifier(tsc.ClassifierConfig(n_letters=2, task="maximum"))
    tsc.theorem(model, tmp_path, prove=False)
    text = (tmp_path / "Model/Theorem.v").read_text()
    assert "Definition wanted (s : list letter) : Prop := In b s." in text


def test_the_statement_is_the_report_s_and_its_length_the_horizon_s(tmp_path):
    made = tsc.theorem("generalization-errors", tmp_path, prove=False)
    right = "(0 < logit s <-> In a s /\\ In b s)"
    assert made.theorems["right_to_66"] == (
        f"forall s : list letter, (1 <= length s <= 66)%nat -> {right}"
    )
    assert made.theorems["horizon_is_66"].endswith("<-> (L <= 66)%nat")
    text = (tmp_path / "Model/Theorem.v").read_text()
    assert all(f"Theorem {name} :\n  {said}." in text for name, said in made.theorems.items())
    assert "first_error : list letter := repeat a 1 ++ repeat b 66." in text
    assert not re.search(r"Admitted|admit|Axiom|Parameter", text)


def test_without_coq_the_files_are_there_and_the_way_to_check_them_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    made = tsc.theorem("generalization-errors", tmp_path)
    assert not made.proved
    assert "there is no coqc" in made.note
    commands = (tmp_path / "README").read_text()
    for name in [f"Tsc/{name}" for name in coq.LIBRARY] + ["Model/Weights", "Model/Theorem"]:
        assert (tmp_path / f"{name}.v").exists()
        assert f" {name}.v" in commands


OUTSIDE = [
    ({"n_layers": 2}, "2 layers"),
    ({"attention_scale": 2.0}, "divided by"),
    ({"n_letters": 19}, "19 letters"),
    ({"gated_mlp": True}, "gated MLP"),
    ({"qk_norm": "rms"}, "norm of queries"),
    ({"n_positions": 9}, "positions"),
    ({"score_scale": "sqrt_d_head_ssmax"}, "log n"),
    ({"n_letters": 1, "task": "maximum"}, "one class only"),
    ({"attention_norm": "rms"}, "norm after attention"),
]


@pytest.mark.parametrize(("options", "reason"), OUTSIDE, ids=[reason for _, reason in OUTSIDE])
def test_a_model_outside_is_refused_with_the_reason(options, reason, tmp_path):
    model = HookedClassifier(tsc.ClassifierConfig(**options))
    with pytest.raises(tsc.TscError, match=reason):
        tsc.theorem(model, tmp_path / "none", prove=False)
    assert not (tmp_path / "none").exists()


def test_nothing_of_the_library_is_admitted():
    unproved = r"\b(Admitted|admit|Axioms?|Parameters?|Conjecture|Unset Guard|bypass_check)\b"
    for path in coq.sources().glob("*.v"):
        assert not re.search(unproved, path.read_text()), path
