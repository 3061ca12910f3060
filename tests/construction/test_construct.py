"""Classifiers that are written down: their promises against brute force, both checkers, proofs."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from scipy.special import erf

import tsc_interp as tsc
from tsc_interp.checkpoints import load_checkpoint
from tsc_interp.checkpoints.checkpoint import Checkpoint
from tsc_interp.cli.app import main
from tsc_interp.construction.bound import reach
from tsc_interp.construction.construct import construct
from tsc_interp.construction.contains import directions, mean_sum
from tsc_interp.construction.written import Construction
from tsc_interp.errors import UnsupportedError, UsageError

CHECKER = Path(__file__).parents[2] / "checker" / "rational_checker.py"


def vectors(n_letters: int, length: int) -> np.ndarray:
    every = np.array(list(product(range(length + 1), repeat=n_letters)))
    return every[(every.sum(1) > 0) & (every.sum(1) <= length)]


def plain_logits(checkpoint: Checkpoint, counts: np.ndarray) -> np.ndarray:
    """The classifier again, on tokens one by one, in float64: no multiplicities, no torch."""
    config = checkpoint.config
    w = {name: weight.astype(np.float64) for name, weight in checkpoint.weights.items()}
    logits = []
    for vector in counts:
        letters = [2 + t for t, n in enumerate(vector) for _ in range(n)]
        x = w["embed.W_E"][[0] * config.attend_cls + letters]
        cls = w["embed.W_E"][0]
        out = cls.copy()
        for q, k, v, o in zip(*(w[f"blocks.0.attn.W_{part}"] for part in "QKVO"), strict=True):
            scores = (x @ k) @ (cls @ q) / math.sqrt(config.d_head)
            if config.log_n:
                scores = scores * math.log(len(letters))
            weights = np.exp(scores - scores.max())
            out += (weights / weights.sum()) @ (x @ v) @ o
        if config.has_mlp:
            pre = out @ w["blocks.0.mlp.W_in"]
            out = out + (pre * (1 + erf(pre / math.sqrt(2))) / 2) @ w["blocks.0.mlp.W_out"]
        logits.append(out @ w["unembed.W_U"][:, 0])
    return np.array(logits)


def wrong_lengths(model: Construction, length: int) -> list[int]:
    config = model.checkpoint.config
    counts = vectors(config.n_letters, length)
    wrong = (plain_logits(model.checkpoint, counts).round(12) > 0) != config.task.labels(counts)
    return sorted(set(counts[wrong].sum(1).tolist()))


@pytest.mark.parametrize(("letters", "n_letters", "length"), [
    ("ab", 2, 2), ("ab", 2, 5), ("ab", 3, 2), ("ab", 3, 3), ("ab", 3, 6), ("bc", 3, 5),
    ("ab", 4, 4), ("abc", 3, 4), ("abc", 4, 5), ("abcd", 4, 5), ("a", 2, 4), ("b", 3, 3),
])  # fmt: skip
def test_contains_all_is_right_up_to_the_length_and_not_at_the_next(letters, n_letters, length):
    model = construct(letters=letters, n_letters=n_letters, max_length=length)
    assert wrong_lengths(model, length + 1) == [length + 1]


@pytest.mark.parametrize("length", [2, 3, 17, 1000, 100_000])
@pytest.mark.parametrize("n_letters", [2, 3])
@pytest.mark.parametrize("mlp", [True, False])
def test_the_horizon_of_two_letters_is_proved_to_be_the_length_asked_for(length, n_letters, mlp):
    model = construct(max_length=length, n_letters=n_letters, mlp=mlp)
    found = tsc.certify(model).horizon
    assert (found.length, found.proved) == (length, True)
    assert model.exactly
    assert model.checkpoint.n_parameters == (9 if mlp else 11) + n_letters
    assert model.checkpoint.config.d_model == 1


@pytest.mark.parametrize("length", [2, 7, 8, 60])
def test_one_neuron_is_right_on_every_count_vector(length):
    """Oracle: the closed form, in float64, on all vectors of up to one letter more."""
    checkpoint = construct(max_length=length).checkpoint
    w = {name: weight.astype(np.float64).ravel() for name, weight in checkpoint.weights.items()}
    counts = np.stack(np.meshgrid(*[np.arange(length + 2)] * 3), -1).reshape(-1, 3)
    counts = counts[(counts.sum(1) > 0) & (counts.sum(1) <= length + 1)]
    cls, _, *letters = w["embed.W_E"]
    sharpness = cls * w["blocks.0.attn.W_Q"] * w["blocks.0.attn.W_K"]
    weights = counts * np.exp(sharpness * np.array(letters))
    hidden = cls + weights @ letters / weights.sum(1)
    pre = w["blocks.0.mlp.W_in"] * hidden
    logits = hidden + w["blocks.0.mlp.W_out"] * pre * (1 + erf(pre / math.sqrt(2))) / 2
    wrong = (logits > 0) != ((counts[:, 0] > 0) & (counts[:, 1] > 0))
    assert counts[wrong].tolist() == [[length, 1, 0]]


def test_fewer_weights_leave_only_one_head_without_an_mlp():
    """Every shape with fewer than 12 weights attends with one head in one dimension, or not at all.

    The documentation proves that neither can do it. Learned positions are left out: they take a
    weight for every place.
    """
    fewer = []
    for d, heads, size, neurons, layers in product((1, 2), (0, 1, 2), (1, 2), (0, 1, 2), (1, 2)):
        for norm, outputs, scale in product(("off", "rms", "layer"), (1, 2), ("", "_ssmax")):
            try:
                config = tsc.ClassifierConfig(
                    d_model=d, n_heads=heads, d_head=size, d_mlp=neurons, n_layers=layers,
                    norm=norm, n_outputs=outputs, score_scale=f"sqrt_d_head{scale}",
                )  # fmt: skip
            except ValueError:  # such as SSMax without attention
                continue
            weights = sum(math.prod(shape) for shape in config.weight_shapes().values())
            if weights < 12 and config.has_attention:
                fewer.append(weights)
                assert (d, heads, size, neurons, layers) == (1, 1, 1, 0, 1)
    assert min(fewer) == 10


def test_relu_cannot_replace_gelu_in_twelve_weights():
    """h + w relu(v h) is positive on a half-line or everywhere but 0, never on an interval."""
    h = np.linspace(-3, 3, 1201)
    for w, v in product(np.linspace(-4, 4, 33), (-2.0, -1.0, 1.0, 2.0)):
        positive = h + w * np.maximum(v * h, 0) > 1e-12
        assert np.abs(np.diff(positive[np.abs(h) > 1e-9].astype(int))).sum() <= 1


@pytest.mark.parametrize(("letters", "n_letters"), [("a", 2), ("ab", 2), ("bc", 4), ("abc", 4)])
def test_with_log_n_it_is_proved_right_at_every_length(letters, n_letters):
    model = construct(letters=letters, n_letters=n_letters, scores="log_n")
    assert tsc.certify(model).horizon.infinite
    assert wrong_lengths(model, 6) == []
    assert model.checkpoint.config.n_heads == len(letters)
    assert model.checkpoint.config.d_model == (1 if len(letters) < 3 else 2)


def test_many_letters_with_log_n_keep_the_distance_the_proof_gives():
    """Positive strings reach low + (1 - nearest) / P, negative ones no more than low."""
    for count in (5, 8):
        corners = directions(count)
        nearest = max(0.0, math.cos(2 * math.pi / count))
        low = count - 1 + nearest
        for filler in (0, 1, count):
            for length in (count, count + 1, 30, 10**6):
                counts = np.array([1.0] * count + [0.0])
                counts[filler] += length - count
                sharpness = 2 / (1 - nearest) * math.log(length)
                assert mean_sum(corners, sharpness, counts) >= low + (1 - nearest) / count
                counts[2] = 0
                assert mean_sum(corners, sharpness, counts) <= low


@pytest.mark.parametrize("k", [1, 2, 5])
def test_at_least_is_right_on_every_string(k):
    model = construct("at_least", letter="b", k=k)
    assert model.length is None
    assert model.checkpoint.n_parameters == 10
    assert wrong_lengths(model, 9) == []
    assert tsc.horizon(model, limit=500).verified_length == 500


@pytest.mark.parametrize(("length", "horizon"), [(4, 4), (5, 6), (40, 40)])
def test_majority_lasts_to_the_next_odd_length(length, horizon):
    model = construct("majority", max_length=length)
    assert tsc.certify(model).horizon.length == horizon == model.length
    assert wrong_lengths(construct("majority", max_length=None), 9) == []


@pytest.mark.parametrize("length", range(1, 8))
@pytest.mark.parametrize("odd", [True, False])
def test_parity_reaches_one_letter_per_head(length, odd):
    with_others = construct("parity", odd=odd, n_letters=2, max_length=length)
    assert with_others.checkpoint.config.n_heads == length
    assert wrong_lengths(with_others, length + 1) == [length + 1]
    alone = construct("parity", odd=odd, n_letters=1, max_length=length)
    assert alone.checkpoint.config.n_heads == max(length - 1, 1)
    if length > 1:
        assert tsc.certify(alone, limit=50).horizon.length == length


def test_the_vanishing_model_is_its_formula_and_never_wrong():
    model = construct(max_length=None, letters="bc")
    counts = vectors(3, 14)
    n = counts.sum(1)
    p, cls = counts / (1 + n)[:, None], 1 / (1 + n)

    def even(x):
        return x * erf(x / math.sqrt(2))

    formula = even(p[:, 1] + p[:, 2]) - even(p[:, 1] - p[:, 2]) - even(cls)
    assert np.allclose(plain_logits(model.checkpoint, counts), formula, atol=1e-14)
    far = np.array([[10.0**e, 1, 1] for e in range(1, 7)])
    assert tsc.verify(model, max_length=14).accuracy == 1
    total = 1 + far.sum(1)
    assert (even(2 / total) - even(1 / total) > 0).all()


@pytest.mark.parametrize("length", [10, 50, 3000])
def test_the_bound_on_margins_is_met(length):
    model = construct(max_length=length, mlp=False)
    found = reach(model)
    assert found.allowed == length == tsc.horizon(model).length
    assert found.leverage == pytest.approx(2)
    least = math.log((length - 2) / (found.leverage - 1))
    assert least < found.margin < least + 4 / (length - 2)


def test_no_horizon_is_beyond_the_bound():
    """Built models with noise on every weight: right for a while, in no special way."""
    rng = np.random.default_rng(0)
    lasting = 0
    for trial in range(40):
        model = construct(max_length=int(rng.integers(3, 200)), mlp=False).checkpoint
        noisy = {
            name: (weight * (1 + rng.normal(0, 0.15, weight.shape))).astype(np.float32)
            for name, weight in model.weights.items()
        }
        checkpoint = Checkpoint(model.config, noisy)
        found = tsc.horizon(checkpoint, prove=False).verified_length
        assert found <= reach(checkpoint).allowed, trial
        lasting += found > 2
    assert lasting > 5


def test_one_head_without_an_mlp_is_wrong_on_aa_bb_or_ab():
    """At one length the sign of the logit is that of a linear function of the counts."""
    rng = np.random.default_rng(1)
    for attend_cls, scale in product([False, True], ["sqrt_d_head", "sqrt_d_head_log_n"]):
        config = tsc.ClassifierConfig(
            d_model=3, n_heads=1, d_head=4, d_mlp=0, attend_cls=attend_cls, score_scale=scale
        )
        for _ in range(50):
            weights = {
                name: rng.normal(0, 1, shape).astype(np.float32)
                for name, shape in config.weight_shapes().items()
            }
            two = np.array([[2, 0, 0], [0, 2, 0], [1, 1, 0]])
            aa, bb, ab = plain_logits(Checkpoint(config, weights), two) > 0
            assert aa or bb or not ab


def test_the_second_checker_accepts_what_is_built(tmp_path):
    for name, model in {
        "plain": construct(max_length=200),
        "two-heads": construct(max_length=200, mlp=False),
        "log-n": construct(letters="abc", n_letters=3, scores="log_n"),
        "parity": construct("parity", n_letters=2, max_length=5),
    }.items():
        proof = tsc.certify(model, limit=1000)
        model.checkpoint.save(tmp_path / f"{name}.safetensors")
        proof.save(tmp_path / f"{name}.json")
        files = [str(tmp_path / f"{name}.json"), str(tmp_path / f"{name}.safetensors")]
        told = subprocess.run(
            [sys.executable, str(CHECKER), *files], capture_output=True, text=True
        )
        assert told.returncode == 0, told.stdout
        assert tsc.check(proof.document, model.checkpoint).horizon == model.length


@pytest.mark.parametrize(("options", "problem"), [
    ({"task": "sorting"}, "what can be constructed is contains_all"),
    ({"letters": ""}, "one or more letters"),
    ({"max_length": 1}, "from 2 to 100,000, not 1"),
    ({"max_length": 10**6}, "not 1000000"),
    ({"max_length": True}, "got True"),
    ({"scores": "cosine"}, "plain or log_n"),
    ({"task": "majority", "scores": "log_n"}, "are for contains_all"),
    ({"letters": "abc", "max_length": None}, "written down for two letters"),
    ({"letters": "e", "n_letters": 2}, "5 to"),
    ({"task": "at_least", "k": 0}, "k"),
    ({"task": "parity", "max_length": 8}, "at most 7"),
    ({"task": "parity", "max_length": None}, "every length is out of reach"),
])  # fmt: skip
def test_what_cannot_be_built_is_refused(options, problem):
    with pytest.raises(tsc.TscError, match=problem):
        construct(**options)


def test_the_bound_refuses_what_it_does_not_know():
    with pytest.raises(UnsupportedError, match="an MLP"):
        reach("walkthrough")
    with pytest.raises(UnsupportedError, match="no letter beside"):
        reach(construct(n_letters=2, mlp=False))


def test_the_command_writes_a_model_and_its_certificate(tmp_path, capsys):
    model, proof = tmp_path / "x.safetensors", tmp_path / "x.json"
    files = ["--out", str(model), "--certificate", str(proof)]
    assert main(["construct", "--max-length", "60", *files]) == 0
    told = capsys.readouterr().out
    assert "12 weights" in told
    assert "up to 60 letters" in told
    assert "a{60}b" in told
    assert tsc.check(json.loads(proof.read_text()), load_checkpoint(model)).horizon == 60
    assert main(["construct", "--max-length", "60", "--no-mlp"]) == 0
    assert "14 weights" in capsys.readouterr().out
    assert main(["construct", "--log-n", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "tsc-interp/construct/2"
    assert document["horizon"]["infinite"]
    assert main(["construct", "--every-length", "--max-length", "12"]) == 0
    assert "proof on paper" in " ".join(capsys.readouterr().out.split())


def test_a_refused_command_writes_nothing(tmp_path, capsys):
    model = tmp_path / "x.safetensors"
    assert main(["construct", "--task", "parity", "--out", str(model)]) == 1
    assert main(["construct", "--no-check", "--certificate", str(tmp_path / "c.json")]) == 2
    model.write_text("mine")
    assert main(["construct", "--out", str(model)]) != 0
    assert model.read_text() == "mine"
    capsys.readouterr()


def test_a_construction_stands_for_its_model():
    model = tsc.construct(max_length=9)
    assert tsc.horizon(model).length == 9
    assert "exactly 9 letters" in repr(model)
    with pytest.raises(UsageError):
        tsc.construct("sorting")
