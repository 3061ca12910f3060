"""What counting refuses, how much memory it takes, and what it says about the rest."""

from __future__ import annotations

import subprocess
import sys
from math import comb
from pathlib import Path

import numpy as np
import pytest

from tests.verification.enumeration import enumerate_counts
from tests.verification.models import hand_built, planted, random_checkpoint
from tsc_interp import verify
from tsc_interp.checkpoints import Checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import UnsupportedError
from tsc_interp.tasks.counts import Majority
from tsc_interp.verification.count_model import CountModel
from tsc_interp.verification.counting import costs, regions
from tsc_interp.verification.counting.regions import count_regions

MEMORY = 2 * 2**30

_LIMITED = f"""
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, ({MEMORY}, {MEMORY}))
from tsc_interp.cli import main
sys.exit(main(sys.argv[1:]))
"""


def limited(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The command in a process that is given 2 GB and not a byte more."""
    return subprocess.run(
        [sys.executable, "-c", _LIMITED, *arguments],
        capture_output=True, text=True, check=False,
        env={"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": ":".join(sys.path)},
    )  # fmt: skip


def always_yes(letters: int) -> Checkpoint:
    """Every logit is 1."""
    return hand_built([[0] * letters], [[0] * letters], -1.0)


def test_five_letters_wrong_everywhere(tmp_path: Path) -> None:
    """2,872,408,790 count vectors, which once asked for 23 GB."""
    path = tmp_path / "no.safetensors"
    model = always_yes(5)
    weights = {**model.weights, "unembed.W_U": -model.weights["unembed.W_U"]}
    Checkpoint(model.config, weights).save(path)
    done = limited("verify", "-c", str(path), "--no-replay")
    assert done.returncode == 3, done.stderr
    # All strings with an a and a b: 5^n - 2 · 4^n + 3^n of each length n.
    wrong = sum(5**n - 2 * 4**n + 3**n for n in range(1, 201))
    tally = verify(Checkpoint(model.config, weights)).tally
    assert tally.false_negatives.total_strings == wrong
    assert f"{comb(205, 5) - 1:,} count vectors" in done.stdout


def test_a_length_whose_answer_is_too_long_to_hold(tmp_path: Path) -> None:
    """One a among 94,000 others is lost: six thousand lengths with numbers of 28,000 digits."""
    path = tmp_path / "model.safetensors"
    planted(94_000).save(path)
    done = limited("verify", "-c", str(path), "-L", "100000", "--no-replay")
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    words = " ".join(done.stderr.split())
    assert "digits" in words
    assert "--horizon" in words
    assert not done.stdout


def test_long_strings_that_are_all_right_are_counted() -> None:
    """Nothing wrong, nothing to hold: a million letters are no obstacle."""
    tally = verify(planted(10**7), 10**6).tally
    assert tally.vectors == comb(10**6 + 3, 3) - 1
    assert not any(side.total_vectors for side in tally.sides)


def test_a_thin_region_at_a_great_length() -> None:
    """a b{n} c{m} with one a among 3,000 others or more; a regression took minutes and 2.7 GB."""
    tally = verify(planted(3000), 5000).tally
    # One a: n - 1 others, 2^(n-1) ways to choose them, n places for the a.
    for length in (3000, 3001, 4321, 5000):
        expected = length * 2 ** (length - 1) if length > 3000 else 0
        assert tally.false_negatives.strings[length] == expected


@pytest.mark.parametrize("length", [10**6 + 1, 10**40])
def test_lengths_beyond_reach(length: int) -> None:
    with pytest.raises(UnsupportedError, match=r"1,000,000.*--horizon"):
        verify(planted(3), length)


def test_work_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Boxes, rows and sums each end in the same kind of sentence when they are too much."""
    model = CountModel(random_checkpoint(ClassifierConfig(), 0))
    for name, value, what in (
        ("PATIENCE", 1e-3, "1 second of work"),
        ("BOX_MEMORY", 1000, "memory"),
        ("ANSWER_MEMORY", 100, "digits"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(costs, name, value)
            patch.setattr(costs, "_CHECK_EVERY", 1000)
            with pytest.raises(UnsupportedError, match=f"{what}.*-L.*--horizon"):
                count_regions(model, 150)
    assert count_regions(model, 150).false_negatives.total_vectors


def test_costs_in_words() -> None:
    for seconds, words in ((0.2, "1 second"), (90, "2 minutes"), (7300, "2 hours")):
        assert costs.duration(seconds) == words


def test_a_long_count_is_announced_or_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorter strings tell what longer ones take, before anything is started."""
    said: list[str] = []
    model = planted(3000)
    verify(model, 2000, announce=said.append)
    assert len(said) == 1
    assert "1,337,337,000 count vectors by regions: about 1 second, judging from" in said[0]
    verify(model, 200, announce=said.append)
    assert len(said) == 1
    boundary = random_checkpoint(ClassifierConfig(), 0)
    # An hour's patience is spent at about 30,000 letters; 200 milliseconds' much earlier.
    monkeypatch.setattr(regions, "PATIENCE", 0.02)
    monkeypatch.setattr(costs, "PATIENCE", 0.02)
    monkeypatch.setattr(costs.Work, "_check", lambda *_: None)
    with pytest.raises(UnsupportedError, match=r"judging from shorter strings.*--horizon"):
        verify(boundary, 2000, announce=said.append)
    assert len(said) == 1


def test_forecasts_follow_the_models_boundary() -> None:
    """No boundary, no growth with length; a surface grows fourfold when the length doubles."""
    flat = CountModel(always_yes(5))
    assert regions.forecast(flat, 10**4) < 1
    surface = CountModel(random_checkpoint(ClassifierConfig(), 0))
    short, long = (regions.forecast(surface, length) for length in (300, 600))
    assert 2 < long / short < 6
    spent = costs.Work(surface.config, 200)
    count_regions(surface, 200, work=spent)
    assert 1 / 3 < regions.forecast(surface, 200) / spent.seconds < 3


# Two heads that cancel: the logit is zero for every string, and no precision can show it.
CANCELLING = hand_built([[1, 0, 2], [1, 0, 2]], [[1, 0, 3], [-1, 0, -3]], 0.0)


def test_undecided_by_the_thousand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exact arithmetic stops when its budget is spent, and the verdict says so."""
    monkeypatch.setattr(regions, "EXACT_BUDGET", 300_000)
    verdict = verify(CANCELLING, 30)
    tally = verdict.tally
    # One letter alone needs no division that rounds, and is decided.
    assert tally.undecided.total_vectors == comb(33, 3) - 1 - 3 * 30
    assert tally.undecided.total_strings == sum(3**n - 3 for n in range(1, 31))
    assert tally.out_of_budget
    assert verdict.to_dict()["undecided_out_of_budget"] is True
    words = " ".join(sentence for _, sentence in verdict.lines())
    assert "stopped" in words
    assert "none is wrong" not in words
    assert verdict.undecided == "ab"


def test_few_undecided_are_all_tried() -> None:
    verdict = verify(CANCELLING, 3)
    assert verdict.tally.undecided.total_vectors
    assert not verdict.tally.out_of_budget


@pytest.mark.parametrize(
    "config",
    [
        ClassifierConfig(),
        ClassifierConfig(n_layers=2, norm="rms", d_model=3),
        ClassifierConfig(task=Majority(letter="b"), attend_cls=True),
    ],
)
def test_a_read_out_of_zeros(config: ClassifierConfig) -> None:
    """Every logit is zero, provably: so all positive strings are wrong, at any length."""
    weights = random_checkpoint(config, 1).weights
    zero = Checkpoint(config, {**weights, "unembed.W_U": np.zeros_like(weights["unembed.W_U"])})
    for count in (enumerate_counts, count_regions):
        tally = count(CountModel(zero), 40)
        assert tally.false_positives.total_vectors == tally.undecided.total_vectors == 0
        for length in (1, 2, 7, 40):
            rows = [
                (a, b, length - a - b) for a in range(length + 1) for b in range(length + 1 - a)
            ]
            positive = int(config.task.labels(np.array(rows)).sum())
            assert tally.false_negatives.vectors[length] == positive
