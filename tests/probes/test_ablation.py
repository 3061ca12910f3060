"""Ablation against a forward pass by hand, with the part replaced where it is computed."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import tsc_interp as tsc
from tests.probes.models import check_survives_json
from tests.verification.models import hand_built, random_checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.data import source_test_set
from tsc_interp.errors import UnsupportedError, UsageError
from tsc_interp.interventions.hooks import intervene
from tsc_interp.model.classifier import Classifier
from tsc_interp.probes.registry import figures, run_probe

LENGTH = 5
CONFIG = ClassifierConfig(d_model=3, n_heads=2, d_head=2, d_mlp=3)


def by_hand(weights, counts, *, head=None, neuron=None, mlp=None, value=None):
    """The logit of a one-layer model, and its parts.

    `head=(1, z)`, `neuron=(0, x)`, `mlp=x` or `value=(1, letter, v)` is put in a part's place.
    """
    w = {name.split(".")[-1]: array.astype(float) for name, array in weights.items()}
    embedded = w["W_E"]
    state, seen = embedded[0].copy(), {}
    for h in range(len(w["W_Q"])):
        query, keys = embedded[0] @ w["W_Q"][h], embedded[2:] @ w["W_K"][h]
        values = embedded[2:] @ w["W_V"][h]
        if value is not None and value[0] == h:
            values[value[1]] = value[2]
        odds = counts * np.exp(keys @ query / np.sqrt(len(query)))
        z = odds / odds.sum() @ values
        if head is not None and head[0] == h:
            z = head[1]
        seen["head", h] = z
        state = state + z @ w["W_O"][h]
    post = np.array([x * (1 + math.erf(x / math.sqrt(2))) / 2 for x in state @ w["W_in"]])
    if neuron is not None:
        post[neuron[0]] = neuron[1]
    out = post @ w["W_out"] if mlp is None else mlp
    seen |= {("neuron", i): x for i, x in enumerate(post)} | {("mlp", None): out}
    return float((state + out) @ w["W_U"][:, 0]), seen


def vectors(length):
    rows = itertools.product(range(length + 1), repeat=3)
    return [np.array(row) for row in rows if 1 <= sum(row) <= length]


def strings_of(counts):
    return len(
        set(itertools.permutations("".join(c * n for c, n in zip("abc", counts, strict=True))))
    )


def replacement(part, new):
    """The keyword of `by_hand` that puts `new` in the part's place."""
    if part == "mlp":
        return {"mlp": new}
    if part.startswith("neuron"):
        return {"neuron": (int(part[6:]), new)}
    if "value" in part:
        return {"value": (int(part[4]), "abc".index(part[-2]), new)}
    return {"head": (int(part[4:]), new)}


def average(weights, part, counts):
    """What the part is on average over these strings."""
    if "value" in part:
        w = {name.split(".")[-1]: array.astype(float) for name, array in weights.items()}
        values = w["W_E"][2:] @ w["W_V"][int(part[4])]
        return counts.sum(axis=0) @ values / counts.sum()
    kind = part.rstrip("0123456789")
    index = None if part == "mlp" else int(part[len(kind) :])
    return np.mean([by_hand(weights, row)[1][kind, index] for row in counts], axis=0)


@pytest.fixture(scope="module", params=[4])
def case(request):
    checkpoint = random_checkpoint(CONFIG, request.param)
    model = Classifier.from_checkpoint(checkpoint)
    return checkpoint, run_probe("ablation", model, ["ab", "bccc"], exact=99, length=LENGTH)


def test_errors_are_those_of_a_forward_pass_by_hand(case):
    checkpoint, result = case
    weights = checkpoint.weights
    sample = source_test_set(CONFIG)
    sample = sample[np.linspace(0, len(sample) - 1, 128).astype(int)]
    assert len(result.judged("zero")) == len(result.judged("mean")) == 2 + 3 + 1 + 6
    plain = {tuple(row): by_hand(weights, row)[0] > 0 for row in vectors(LENGTH)}
    for one in result.ablated:
        new = np.zeros(()) if one.change == "zero" else average(weights, one.part, sample)
        if one.change == "zero" and one.part == "mlp":
            new = np.zeros(CONFIG.d_model)
        elif one.change == "zero" and one.part.startswith("head"):
            new = np.zeros(CONFIG.d_head)
        wrong, same = {True: 0, False: 0}, True
        for row in vectors(LENGTH):
            answer = by_hand(weights, row, **replacement(one.part, new))[0] > 0
            label = bool(row[0] and row[1])
            wrong[label] += strings_of(row) * (answer != label)
            same &= answer == plain[tuple(row)]
        assert (one.exact.false_positives, one.exact.false_negatives) == (wrong[False], wrong[True])
        assert one.same_answers == same, one
        assert one.exact.undecided == 0


def test_leads_and_answers_by_hand(case):
    checkpoint, result = case
    weights = checkpoint.weights
    rows = {"ab": np.array([1, 1, 0]), "bccc": np.array([0, 1, 3])}
    zeros = {
        "head 0": ("head0", np.zeros(2)),
        "neuron 2": ("neuron2", 0.0),
        "MLP": ("mlp", np.zeros(3)),
        "b's value in head 1": ("head1.value[b]", np.zeros(2)),
    }
    for name, (part, new) in zeros.items():
        for string, row in rows.items():
            before = by_hand(weights, row)[0]
            after = by_hand(weights, row, **replacement(part, new))[0]
            moved = float(result.effects.at(change="zero", part=name, string=string))
            assert moved == pytest.approx((after - before) * np.sign(before), abs=1e-5)
            assert result.after.at(change="zero", part=name, string=string) == (after > 0)


def test_a_head_that_does_nothing_is_found():
    """Two heads that read a and b, and one that writes nothing."""
    scores, values = [[9, 0, 0], [0, 9, 0], [1, 2, 3]], [[2, 0, 0], [0, 2, 0], [0, 0, 0]]
    model = Classifier.from_checkpoint(hand_built(scores, values, 3.0))
    result = run_probe("ablation", model, ["ab", "c"], exact=3)
    zero = {one.part: one for one in result.judged("zero")}
    assert zero["head2"].same_answers
    assert zero["head2"].exact == result.exact.model_copy(update={"proved": False})
    # Without head 0 the logit is at most 2 - 3: every one of the strings with a and b is missed.
    both = sum(3**n - 2 * 2**n + 1 for n in range(1, 201))
    assert zero["head0"].exact.false_negatives == zero["head1"].exact.false_negatives == both
    assert zero["head0"].exact.false_positives == 0
    assert zero["head0"].exact.first_error == "ab"
    about = {finding.about.get("part"): finding.severity for finding in result.findings}
    assert about["head2",] == "good"
    assert about["head0"] == "note"
    check_survives_json(result)
    assert [figure.name for figure in figures(result)] == ["errors", "leads"]


def test_proved_is_what_the_checker_says():
    result = run_probe("ablation", "generalization-errors", ["ab"], exact=2)
    named = [one for one in result.ablated if one.exact.proved]
    for one in named:
        found = tsc.horizon(tsc.edit("generalization-errors", f"{one.part}=zero"))
        assert found.proved
        assert (found.length, found.shortest.string) == (one.exact.horizon, one.exact.first_error)
    assert {one.part for one in named} >= {"head1"}
    assert all(one.change == "zero" for one in named)
    assert result.exact.proved


def test_what_was_left_out_is_said():
    result = run_probe("ablation", "walkthrough", ["ab"], exact=1)
    assert len(result.judged("zero")) == 1
    assert any("1 of 11 parts" in note for note in result.not_applicable)
    normed = run_probe("ablation", Classifier(ClassifierConfig(norm="rms"), seed=0), ["ab"])
    assert normed.exact is None
    assert any("norms" in note for note in normed.not_applicable)
    placed = run_probe("ablation", Classifier(ClassifierConfig(n_positions=5), seed=0), ["ab", "c"])
    assert placed.effects.labels["change"] == ("zero",)
    assert placed.exact is None


def test_wrong_use():
    empty = Classifier(ClassifierConfig(n_heads=0, d_mlp=0), seed=0)
    with pytest.raises(UnsupportedError, match="nothing to remove"):
        run_probe("ablation", empty, ["ab"])
    with pytest.raises(UsageError, match="length of strings"):
        run_probe("ablation", "walkthrough", ["ab"], length=-3)
    with pytest.raises(UsageError, match="query is for other models"):
        run_probe("ablation", "walkthrough", ["ab"], query=0)


def test_a_multiclass_classifier_against_interventions():
    config = ClassifierConfig(n_letters=3, n_outputs=3, n_heads=2, task="most_frequent")
    model = Classifier(config, seed=3)
    strings = ["abc", "aab", "cccb", "bbb"]
    result = run_probe("ablation", model, strings)
    for head in range(2):
        after = intervene(model, strings, [f"head{head}=zero"]).after.argmax(-1).tolist()
        assert result.after.at(change="zero", part=f"head {head}").tolist() == after
