"""Several outputs over counts: the answer is the largest one's index, of equals the lowest.

Against every string token by token, against mpmath, and against forged certificates.
"""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import tsc_interp as tsc
from tests.trusted.counts import contradicted
from tests.verification import precise
from tests.verification.enumeration import enumerate_counts, same_counts, verify_both_ways
from tests.verification.models import random_checkpoint, small_vectors
from tsc_interp.checkpoints import Checkpoint
from tsc_interp.cli import main
from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import UnsupportedError
from tsc_interp.model.hooked import HookedClassifier
from tsc_interp.model.inputs import token_rows
from tsc_interp.tasks.counts import ContainsAll, Majority, Maximum, MostFrequent, Parity
from tsc_interp.verification import check
from tsc_interp.verification.count_model import CountModel
from tsc_interp.verification.counting.regions import count_regions
from tsc_interp.verification.labels import all_supports, class_range, classes_of
from tsc_interp.verification.search.ways import OPEN, TaskWays


class Remainder(tsc.tasks.OwnTask):
    """A task of one's own, of which nothing is known but single strings."""

    kind: Literal["remainder_of_length"] = "remainder_of_length"

    def n_classes(self, n_letters: int) -> int:
        return 4

    def labels(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.asarray(counts.sum(-1) % 4)


LOG_N = {"score_scale": "sqrt_d_head_log_n"}
SEVERAL = [
    ClassifierConfig(task=MostFrequent(), n_outputs=3, d_model=4),
    ClassifierConfig(task=MostFrequent(), n_letters=4, n_outputs=5, d_model=3, biases=True),
    ClassifierConfig(task=Maximum(), n_outputs=3, d_model=4, attend_cls=True, d_head=2),
    ClassifierConfig(task=Maximum(), n_letters=2, n_outputs=4, d_mlp=0, biases=True),
    ClassifierConfig(task=ContainsAll(), n_outputs=3, act_fn="relu", d_mlp=3, biases=True),
    ClassifierConfig(task=Majority(), n_outputs=4, act_fn="silu", d_model=3),
    ClassifierConfig(task=Parity(letter="b"), n_outputs=3, norm="layer", d_model=3),
    ClassifierConfig(
        task=MostFrequent(), n_outputs=3, norm="rms_pre", final_norm=True, biases=True, d_model=4
    ),
    ClassifierConfig(task=Maximum(), n_outputs=3, **LOG_N, biases=True),
    ClassifierConfig(task=MostFrequent(), n_outputs=4, reads="last", attend_cls=True, biases=True),
    ClassifierConfig(task=Remainder(), n_outputs=4, n_heads=1, d_model=3),
    ClassifierConfig(task=Maximum(), n_letters=2, n_outputs=3, n_layers=2, d_model=3),
]
NUMBERED = pytest.mark.parametrize("config", SEVERAL, ids=range(len(SEVERAL)))


def full(config: ClassifierConfig, letters: tuple[int, ...], counts: Any) -> list[int]:
    found = [0] * config.n_letters
    for letter, count in zip(letters, counts, strict=True):
        found[letter] = int(count)
    return found


def wrong_strings(checkpoint: Checkpoint, length: int) -> list[str]:
    """Every string of a length the hooked model gets wrong, token by token, in float64."""
    config = checkpoint.config
    weights = {name: torch.from_numpy(w).double() for name, w in checkpoint.weights.items()}
    letters = config.alphabet.letters
    texts = ["".join(picked) for picked in product(letters, repeat=length)]
    with torch.no_grad():
        rows = torch.from_numpy(token_rows(config, texts))
        outputs = HookedClassifier(config, weights)(rows).numpy()
    top = np.sort(outputs)
    assert (top[:, -1] - top[:, -2]).min() > 1e-12, "rounding would decide"
    labels = config.task.classes(config.alphabet.count_matrix(texts))
    return [text for text, out, label in zip(texts, outputs, labels, strict=True)
            if out.argmax() != label]  # fmt: skip


# -- counting and searching ------------------------------------------------------------------------


@NUMBERED
def test_every_string_of_short_lengths(config: ClassifierConfig) -> None:
    checkpoint = random_checkpoint(config, 3)
    longest = {2: 8, 3: 6, 4: 5}[config.n_letters]
    wrong = {n: wrong_strings(checkpoint, n) for n in range(1, longest + 1)}
    for count in (enumerate_counts, count_regions):
        tally = count(CountModel(checkpoint), longest)
        assert tally.errors[0].strings[1:] == [len(wrong[n]) for n in wrong]
        assert tally.undecided.total_vectors == 0
    verdict = verify_both_ways(checkpoint, longest, replay=True)
    assert verdict.wrong is not None
    first = next(min(map("".join, map(sorted, wrong[n]))) for n in wrong if wrong[n])
    assert config.alphabet.expand(verdict.wrong.string) == first
    counts = list(verdict.wrong.counts)
    assert verdict.wrong.answer == precise.answer(checkpoint, counts)
    assert verdict.wrong.label == int(config.task.classes(np.array(counts)))
    outputs = precise.outputs(checkpoint, counts)
    others = [z for j, z in enumerate(outputs) if j != verdict.wrong.label]
    assert verdict.wrong.logit == pytest.approx(float(outputs[verdict.wrong.label] - max(others)))
    assert verdict.replays is not None
    assert all(one.also_wrong for one in verdict.replays)
    found = tsc.horizon(checkpoint, limit=longest)
    assert found.proved
    assert found.length == len(first) - 1
    assert found.shortest is not None
    assert config.alphabet.expand(found.shortest.string) == first


@settings(max_examples=40)
@given(st.sampled_from(SEVERAL), st.integers(0, 10**6), st.sampled_from([0.5, 2.0, 8.0]))
def test_verdicts_are_those_of_mpmath(config: ClassifierConfig, seed: int, scale: float) -> None:
    checkpoint, rng = random_checkpoint(config, seed, scale), np.random.default_rng(seed)
    model = CountModel(checkpoint)
    letters = all_supports(config)[rng.integers(2**config.n_letters - 1)]
    vectors = rng.integers(1, [3, 30, 4000][rng.integers(3)], (4, len(letters)))
    for row, way in zip(vectors, TaskWays(model).decided(letters, vectors), strict=True):
        counts = full(config, letters, row)
        answer = precise.answer(checkpoint, counts)
        if answer is not None:
            assert way == (answer == int(config.task.classes(np.array(counts))))
            assert model.answer(counts) == answer


@settings(max_examples=60)
@given(st.sampled_from(SEVERAL), st.integers(0, 10**6), st.sampled_from([0.5, 2.0]))
def test_no_vector_leaves_the_bounds_of_its_box(
    config: ClassifierConfig, seed: int, scale: float
) -> None:
    """Of every class over every other one."""
    checkpoint, rng = random_checkpoint(config, seed, scale), np.random.default_rng(seed)
    model = CountModel(checkpoint)
    letters = all_supports(config)[rng.integers(2**config.n_letters - 1)]
    low = rng.integers(1, 20, len(letters))
    high = low + rng.integers(0, 30, len(letters))
    point = rng.integers(low, high + 1)
    outputs = precise.outputs(checkpoint, full(config, letters, point))
    for label in range(config.n_outputs):
        winner = np.array([label])
        shown = model.gaps(letters, low[None], high[None], winner, model.others(winner))[0]
        for other in range(config.n_outputs):
            apart = outputs[label] - outputs[other]
            # Where a final norm divides outputs, gaps are times its scale.
            assert other == label or not (shown[other] > 0 and apart <= 0)
            assert other == label or config.final_norm or shown[other] <= apart + 1e-9


@settings(max_examples=60)
@given(st.sampled_from(SEVERAL), st.integers(0, 10**6))
def test_classes_of_boxes(config: ClassifierConfig, seed: int) -> None:
    """A box with a class has no vector of another."""
    rng = np.random.default_rng(seed)
    letters = all_supports(config)[rng.integers(2**config.n_letters - 1)]
    low = rng.integers(1, 6, (8, len(letters)))
    high = low + rng.integers(0, 4, low.shape)
    for a, b, found in zip(low, high, class_range(config, letters, low, high), strict=True):
        every = np.array(list(product(*map(range, a, b + 1))))
        classes = set(classes_of(config, letters, every).tolist())
        assert found == -1 or classes == {found}
        if len(every) == 1 or config.task.kind in ("most_frequent", "maximum"):
            assert (found == -1) == (len(classes) > 1)


# -- ties ------------------------------------------------------------------------------------------


def with_equal_outputs(config: ClassifierConfig, seed: int, *pairs: tuple[int, int]) -> Checkpoint:
    checkpoint = random_checkpoint(config, seed)
    weights = {name: w.copy() for name, w in checkpoint.weights.items()}
    for name in ("unembed.W_U", "unembed.b_U"):
        for a, b in pairs if name in weights else ():
            weights[name][..., b] = weights[name][..., a]
    return Checkpoint(config, weights)


@pytest.mark.parametrize("config", [SEVERAL[1], SEVERAL[7]], ids=["tables", "layers"])
def test_of_equal_outputs_the_lowest_is_the_answer(config: ClassifierConfig) -> None:
    """Outputs 0 and 2 are the same weights: 2 is never the answer, and 0 is not held up by it."""
    checkpoint = with_equal_outputs(config, 5, (0, 2))
    model, vectors = CountModel(checkpoint), small_vectors(config.n_letters, 4)
    seen = set()
    for counts in vectors.tolist():
        outputs = precise.outputs(checkpoint, counts)
        answer = max(range(len(outputs)), key=lambda j: (outputs[j], -j))
        seen.add(answer)
        assert model.answer(counts) == answer
    assert 0 in seen
    assert 2 not in seen
    tally = verify_both_ways(checkpoint, 4).tally
    assert tally.undecided.total_vectors == 0
    certificate = tsc.certify(checkpoint, limit=4)
    assert certificate.horizon.proved


def test_all_outputs_equal() -> None:
    """Class 0 is always the answer, which the search knows and no margin can show."""
    config = ClassifierConfig(task=Maximum(), n_outputs=3, d_model=3)
    checkpoint = with_equal_outputs(config, 1, (0, 1), (0, 2))
    verdict = verify_both_ways(checkpoint, 5, horizon=True)
    assert verdict.tally.errors[0].total_strings == verdict.tally.strings - 5  # all but a, aa, ...
    assert verdict.wrong is not None
    assert (verdict.wrong.string, verdict.wrong.answer) == ("b", 0)


def test_what_cancels_is_undecided() -> None:
    """Two heads that hear the same, an output for each: equal, but not as weights."""
    config = ClassifierConfig(task=Maximum(), n_outputs=3, d_mlp=0, d_model=4)
    weights = {name: np.abs(w) for name, w in random_checkpoint(config, 1).weights.items()}
    weights["embed.W_E"][:, :2] = 0
    for part in "QKV":
        name = f"blocks.0.attn.W_{part}"
        weights[name][1] = weights[name][0]
    weights["blocks.0.attn.W_O"][:] = np.eye(4, dtype=np.float32)[:2, None]
    weights["unembed.W_U"][:] = np.eye(4, dtype=np.float32)[:, :3]
    weights["unembed.W_U"][2] = 0
    model = CountModel(Checkpoint(config, weights))
    vectors = np.array([[1, 2], [2, 1], [3, 5]])
    assert set(TaskWays(model).decided((0, 1), vectors).tolist()) == {OPEN}
    assert model.answer([1, 2, 0]) is None
    # Where the third is the right one, it is beaten, whoever of the two beats it.
    assert TaskWays(model).decided((0, 1, 2), np.array([[1, 2, 1]])).tolist() == [0]
    model.exact_work = 0
    assert set(TaskWays(model).decided((0, 1), vectors).tolist()) == {OPEN}
    assert verify_both_ways(model.checkpoint, 4).tally.undecided.total_vectors


# -- two outputs are one logit ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [{}, {"norm": "layer", "d_model": 4}, {**LOG_N}, {"final_norm": True, "norm": "rms"}],
    ids=["plain", "norm", "log n", "final norm"],
)
def test_two_outputs_are_the_difference(options: dict[str, Any]) -> None:
    """Weights in quarters, so that float32 holds the difference: one output says the same."""
    config = ClassifierConfig(n_outputs=2, biases=True, **options)
    checkpoint = random_checkpoint(config, 4)
    weights = dict(checkpoint.weights)
    for name in ("unembed.W_U", "unembed.b_U"):
        weights[name] = np.round(4 * weights[name]) / np.float32(4)
    one = dict(weights)
    for name in ("unembed.W_U", "unembed.b_U"):
        one[name] = weights[name][..., 1:] - weights[name][..., :1]
    two = Checkpoint(config, weights)
    single = Checkpoint(config.replace(n_outputs=1), one)
    verdicts = [verify_both_ways(c, 12) for c in (two, single)]
    assert same_counts(verdicts[0].tally, verdicts[1].tally)
    certificates = [tsc.certify(c, limit=12) for c in (two, single)]
    assert certificates[0].horizon.shortest == certificates[1].horizon.shortest
    conclusions = [c.document["conclusion"] for c in certificates]
    assert conclusions[0] == conclusions[1]
    if not options:
        found = tsc.diff(two, single, max_length=9, limit=20)
        assert found.counted.differing == 0
        assert found.proved.agree_through == 20 or found.same


def test_biases_of_very_different_size_are_not_rounded_away() -> None:
    """2^30 against 1: the difference is no float64 number of float32 size, and decides."""
    config = ClassifierConfig(
        task=ContainsAll(letters="a"), n_letters=1, n_outputs=2, biases=True, n_heads=0, d_mlp=0,
        norm="rms", final_norm=True,
    )  # fmt: skip
    weights = {name: np.zeros(s, np.float32) for name, s in config.weight_shapes().items()}
    weights["ln_final.w"][:] = 1
    weights["embed.W_E"][0] = [1, 0]
    for low, high in ((2.0**60, 2.0**60 + 2.0**37), (1.0, np.nextafter(np.float32(1), 2))):
        for bias in ([low, high], [high, low]):
            weights["unembed.b_U"] = np.array(bias, np.float32)
            weights["unembed.W_U"][0] = [1e-30, 0.0]
            checkpoint = Checkpoint(config, {k: w.copy() for k, w in weights.items()})
            truth = precise.outputs(checkpoint, [1], 60)
            assert CountModel(checkpoint).answer([1]) == int(truth[1] > truth[0])
            assert tsc.verify(checkpoint, 3).correct == (bias[1] > bias[0])


# -- certificates ----------------------------------------------------------------------------------


@NUMBERED
def test_certificates_hold_and_tell_the_truth(config: ClassifierConfig) -> None:
    for seed in (1, 2):
        checkpoint = random_checkpoint(config, seed, 1.0)
        certificate = tsc.certify(checkpoint, limit=25, boxes=300)
        document = json.loads(json.dumps(certificate.document))
        assert check(document, checkpoint) == certificate.checked
        for part in document["parts"]:
            assert contradicted(checkpoint, part) is None, part


# -- what says so ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("classes") / "model.safetensors"
    random_checkpoint(SEVERAL[0], 1).save(path)
    return path


def test_the_command_line(saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "certificate.json"
    asked = ["verify", "-c", str(saved), "-L", "6", "--horizon", "--certify"]
    assert main([*asked, "--json", "--out", str(out)]) == 3
    told = json.loads(capsys.readouterr().out)
    assert told["schema"] == "tsc-interp/verify-classes/2"
    assert "false_positives" not in told
    first = told["wrong"]["shortest"]
    assert (first["kind"], first["string"]) == ("wrong", "a")
    assert first["answer"] != first["label"]
    assert first["margin"] < 0
    assert told["horizon"]["shortest_counterexample"] == first
    assert told["errors_by_length"][0].keys() == {"length", "wrong", "undecided"}
    assert main(["verify", "-c", str(saved), "--check", str(out)]) == 0
    assert "answered" in capsys.readouterr().out
    assert main(asked) == 3
    said = capsys.readouterr().out
    assert "wrong strings" in said
    assert "class 0, answered" in said
    assert "false" not in said


def test_what_needs_two_classes_says_so(saved: Path) -> None:
    checkpoint = random_checkpoint(SEVERAL[0], 1)
    for asked in (
        lambda: tsc.diff(checkpoint, checkpoint),
        lambda: CountModel(checkpoint).logit([1, 1, 0]),
    ):
        with pytest.raises(UnsupportedError, match="two classes"):
            asked()
    with pytest.raises(UnsupportedError, match="no false positives or false negatives"):
        _ = tsc.verify(checkpoint, 2).tally.false_positives
