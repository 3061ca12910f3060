"""Two classifiers compared: brute force, forged certificates, and models that are the same."""

from __future__ import annotations

import copy
import json
from itertools import product

import numpy as np
import pytest

import tsc_interp as tsc
from tests.verification import precise
from tests.verification.models import (
    planted,
    random_checkpoint,
    rescaled,
    shifted,
    unfailing,
    with_cancelling_heads,
)
from tsc_interp.checkpoints import Checkpoint
from tsc_interp.cli.app import main
from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import TscError, UnsupportedError, UsageError
from tsc_interp.strings import FIRST_LETTER
from tsc_interp.trusted.replay import Replay, digest
from tsc_interp.verification import CertificateError, check, diff
from tsc_interp.verification.documents import model_of
from tsc_interp.verification.identity import exact_form

CONFIGS = [
    ClassifierConfig(),
    ClassifierConfig(attend_cls=True, n_letters=2),
    ClassifierConfig(n_letters=2, n_layers=2, d_mlp=0),
    ClassifierConfig(n_letters=2, norm="rms"),
    ClassifierConfig(n_letters=2, score_scale="sqrt_d_head_log_n", n_heads=3),
]


def answers(model: Checkpoint, longest: int) -> dict[tuple[int, ...], bool]:
    """Every count vector up to a length, its sign at 40 and 70 digits."""
    counts = product(range(longest + 1), repeat=model.config.n_letters)
    return {c: precise.sign(model, list(c)) == 1 for c in counts if 0 < sum(c) <= longest}


@pytest.mark.parametrize("config", CONFIGS, ids=range(len(CONFIGS)))
@pytest.mark.parametrize("seeds", [(1, 4), (2, 3)])
def test_the_first_difference_by_brute_force(config, seeds):
    a, b = (random_checkpoint(config, seed) for seed in seeds)
    longest = 12 if config.n_letters == 2 else 7
    found = diff(a, b, max_length=longest, limit=longest)
    ours, theirs = answers(a, longest), answers(b, longest)
    differing = sorted(
        (c for c in ours if ours[c] != theirs[c]), key=lambda c: (sum(c), [-n for n in c])
    )
    first = config.alphabet.write(differing[0]) if differing else None
    assert found.shortest == first
    for letters, string in found.by_letters.items():
        mine = [c for c in differing if _letters(config, c) == letters]
        assert string == (config.alphabet.write(mine[0]) if mine else None)
        end = found.proved.through[letters]
        assert (longest if end is None else end) >= (sum(mine[0]) - 1 if mine else longest)
    again = check(json.loads(json.dumps(found.document)), a, b)
    assert again == found.proved
    assert not (differing and found.same)


def _letters(config, counts):
    return "".join(x for x, n in zip(config.alphabet.letters, counts, strict=True) if n)


def test_the_same_function_written_differently():
    """Heads in another order, split in two, a head that is never heard, neurons that cancel."""
    config = ClassifierConfig(d_model=3, n_heads=2, d_head=2, d_mlp=3)
    a = random_checkpoint(config, 5)
    bigger = config.model_copy(update={"n_heads": 4, "d_mlp": 5})
    w = {name: np.zeros(shape, np.float32) for name, shape in bigger.weight_shapes().items()}
    for name in ("embed.W_E", "unembed.W_U"):
        w[name] = a.weights[name]
    half = {"attn.W_O": np.float32(0.5)}
    for name in ("W_Q", "W_K", "W_V", "W_O"):
        key = f"blocks.0.attn.{name}"
        factor = half.get(f"attn.{name}", np.float32(1))
        w[key][0] = a.weights[key][1]
        w[key][1] = w[key][2] = a.weights[key][0] * factor
    w["blocks.0.attn.W_O"][3] = 0.0
    w["blocks.0.attn.W_V"][3] = 1.0
    w["blocks.0.mlp.W_in"][:, :3] = a.weights["blocks.0.mlp.W_in"][:, ::-1]
    w["blocks.0.mlp.W_out"][:3] = a.weights["blocks.0.mlp.W_out"][::-1]
    w["blocks.0.mlp.W_in"][:, 3:] = 1.0
    w["blocks.0.mlp.W_out"][3], w["blocks.0.mlp.W_out"][4] = 1.0, -1.0
    b = Checkpoint(bigger, w)
    found = diff(a, b, max_length=20)
    assert found.same
    assert found.counted.differing == 0
    assert found.identical == ("a", "b", "c", "ab", "ac", "bc", "abc")
    other = {**w, "unembed.W_U": w["unembed.W_U"] * np.float32(1.0000001)}
    assert exact_form(Checkpoint(bigger, other), (0, 1)) != exact_form(a, (0, 1))


def test_two_models_right_at_every_length_agree_at_every_length():
    a = unfailing()
    louder = {**a.weights, "unembed.W_U": a.weights["unembed.W_U"] * np.float32(1.5)}
    b = Checkpoint(a.config, louder)
    found = diff(a, b, max_length=20, limit=1000)
    assert found.same
    assert found.proved.everywhere or found.identical
    assert found.shortest is None


@pytest.mark.parametrize("lengths", [(4, 6), (66, 1000), (1000, 54321)])
def test_planted_differences_are_found_however_far(lengths):
    """One fails from a b{n} on, the other later: the first difference is the earlier error."""
    a, b = (planted(n, c_score=-1.0) for n in lengths)
    found = diff(a, b, max_length=20)
    assert found.shortest == f"ab{{{lengths[0]}}}" or found.shortest == "a" + "b" * lengths[0]
    assert found.proved.first_difference == lengths[0] + 1
    assert found.proved.agree_through == lengths[0]


def forged(document, **changes):
    bent = copy.deepcopy(document) | changes
    bent["digest"] = digest(bent)
    return bent


def test_false_certificates_are_rejected():
    a, b = planted(4, c_score=-1.0), planted(6, c_score=-1.0)
    document = diff(a, b, max_length=12, limit=100).document
    assert check(document, a, b).first_difference == 5
    everywhere = {**document["conclusion"], "infinite": True, "horizon": None}
    yes = ["is", 1]
    for parts, conclusion in [
        (document["parts"], everywhere),
        ([{"counts": [1, 1, 0], "tree": [["apart", 0, 1]]}], document["conclusion"]),
        ([up_to([0, 1], 10, yes)], everywhere),
        (document["parts"][1:], document["conclusion"]),
        ([{"letters": [0, 1], "ever": True, "trees": [[yes]] * 2}], everywhere),
        (None, everywhere),
        ([{"trust": "me"}], everywhere),
    ]:
        with pytest.raises(CertificateError):
            check(forged(document, parts=parts, conclusion=conclusion), a, b)
    with pytest.raises(CertificateError, match="other models"):
        check(document, b, a)
    with pytest.raises(CertificateError, match="digest"):
        check({**document, "digest": "0" * 64}, a, b)
    with pytest.raises(UsageError, match="two models"):
        check(document, a)


def test_what_is_not_finite_proves_nothing():
    """Weights so large that balls overflow: nothing may be called alike."""
    config = ClassifierConfig(n_layers=2, norm="rms", n_letters=2)
    a, b = random_checkpoint(config, 1), random_checkpoint(config, 2)
    huge = {name: w * np.float32(1e30) for name, w in a.weights.items()}
    found = diff(Checkpoint(config, huge), b, max_length=4, limit=20, boxes=200)
    longest = found.proved.agree_through
    ours, theirs = answers(Checkpoint(config, huge), 5), answers(b, 5)
    for counts, yes in ours.items():
        if longest is None or sum(counts) <= longest:
            assert yes == theirs[counts]


def test_wrong_use():
    with pytest.raises(UnsupportedError, match="alphabets"):
        diff("walkthrough", random_checkpoint(ClassifierConfig(n_letters=2), 0))
    with pytest.raises(TscError):
        diff("walkthrough", "attend-cls", limit=0)
    with pytest.raises(TscError):
        diff("walkthrough", "no-such-model")


def test_the_command(tmp_path, capsys):
    out = tmp_path / "agreement.json"
    assert main(["diff", "walkthrough", "attend-cls", "-o", str(out), "-L", "30"]) == 3
    told = capsys.readouterr().out
    assert "a{1426}b" in told
    assert main(["diff", "walkthrough", "attend-cls", "--check", str(out)]) == 0
    assert "accepted" in capsys.readouterr().out
    assert main(["diff", "attend-cls", "walkthrough", "--check", str(out)]) == 3
    capsys.readouterr()
    assert main(["diff", "walkthrough", "walkthrough", "--json", "-L", "30"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "tsc-interp/diff/1"
    assert document["identical"] == ["a", "b", "c", "ab", "ac", "bc", "abc"]
    assert tsc.diff("walkthrough", "walkthrough", max_length=10).same


# -- parts by hand ---------------------------------------------------------------------------------


def replay_of(*models):
    return Replay([model_of(model) for model in models], None, None).parts


def up_to(letters, length, *tree):
    return {"letters": letters, "up_to": length, "tree": list(tree)}


def test_parts_by_hand():
    """planted(n) says yes to a^i b^j if i (n - 1/2) > j, so 4 and 6 first differ on ab^4."""
    parts, yes = replay_of(planted(4), planted(6)), ["is", 1]
    parts.add(up_to([0, 1], 4, yes))
    parts.add({"counts": [1, 4, 0], "tree": [["apart", 0, 1]]})
    stated = parts.conclusion()
    assert [[0, 1], 4] in stated["verified_length"]
    assert (stated["failures"], stated["horizon"]) == ([[1, 4, 0]], None)
    for bad, says in [
        (up_to([0, 1], 5, yes), "not proved"),
        (up_to([0, 1], 4, ["is", 0]), "not proved"),
        (up_to([0, 1], 4, ["each"]), "both answer"),
        (up_to([0, 1], 4, ["wrong", 0]), "what the answer is"),
        ({"counts": [1, 4, 0], "tree": [["apart", 1, 0]]}, "answered apart"),
        ({"counts": [1, 4, 0], "tree": [["apart", 1, 1]]}, "not answered apart"),
        ({"counts": [1, 3, 0], "tree": [["apart", 0, 1]]}, "answered apart"),
        ({"counts": [1, 4, 0], "tree": [["is", 0]]}, "not answered apart"),
        ({"letters": [0, 1], "from": 9, "tree": [yes]}, "log n"),
        ({"letters": [0], "limit": True, "tree": [yes]}, "one model"),
        ({"letters": [0, 1], "ever": True, "trees": [[yes], [yes]]}, "ratios"),
    ]:
        with pytest.raises(CertificateError, match=says):
            parts.add(bad)
    for part in ([0], 4, yes), ([1], 4, ["is", 0]), ([2], 4, ["is", 0]), ([1, 2], 4, ["is", 0]):
        parts.add(up_to(*part))
    parts.add(up_to([0, 2], 4, yes))
    parts.add(up_to([0, 1, 2], 4, ["cut", 0, 1], ["cut", 1, 1], yes, yes, yes))
    assert parts.conclusion()["horizon"] == 4


def test_false_tails_and_other_kinds_of_models_are_refused():
    scaled, plain = unfailing(), planted(4)
    weights = dict(scaled.weights, **{"unembed.W_U": -scaled.weights["unembed.W_U"]})
    opposite = Checkpoint(scaled.config, weights)
    for j in (0, 1):
        with pytest.raises(CertificateError, match=r"tail over .* is not proved"):
            replay_of(scaled, opposite).add({"letters": [0, 1], "from": 64, "tree": [["is", j]]})
    always = {"letters": [1], "ever": True, "trees": [[["is", 0]]]}
    for pair in ((scaled, plain), (plain, scaled)):
        with pytest.raises(CertificateError, match="do not decide scores scaled by log n"):
            replay_of(*pair).add(always)
    attends = random_checkpoint(ClassifierConfig(attend_cls=True), 0)
    with pytest.raises(CertificateError, match="attends to CLS"):
        replay_of(attends, plain).add(always)
    three = random_checkpoint(ClassifierConfig(n_outputs=3), 0)
    with pytest.raises(CertificateError, match="other letters or classes"):
        replay_of(three, plain)


def test_fractions_see_every_weight():
    """One unit of the last digit in any weight that matters is another function."""
    checkpoint = random_checkpoint(ClassifierConfig(n_letters=2, d_model=2), 3)
    form = exact_form(checkpoint, (0, 1))
    for name, weight in checkpoint.weights.items():
        for place in np.ndindex(weight.shape):
            if name == "embed.W_E" and place[0] == 1:
                continue  # PAD is read by no one
            bent = weight.copy()
            bent[place] = np.nextafter(bent[place], np.float32(np.inf))
            changed = Checkpoint(checkpoint.config, {**checkpoint.weights, name: bent})
            assert exact_form(changed, (0, 1)) != form, (name, place)
    attends = checkpoint.config.model_copy(update={"attend_cls": True})
    assert exact_form(Checkpoint(attends, checkpoint.weights), (0, 1)) != form
    scaled = checkpoint.config.model_copy(update={"score_scale": "sqrt_d_head_log_n"})
    assert exact_form(Checkpoint(scaled, checkpoint.weights), (0, 1)) != form


def whole_weights() -> Checkpoint:
    """Small whole numbers: coordinate 2 is 1 for all tokens, and neuron 1 adds nothing.

    Both heads write along one coordinate each: 0, which only neuron 0 reads, and 1, which the
    logit and neuron 0 read.
    """
    config = ClassifierConfig(n_letters=2, d_model=3, n_heads=2, d_head=1, d_mlp=2)
    noise = np.random.default_rng(0)
    weights = {
        name: noise.integers(1, 9, shape).astype(np.float32)
        for name, shape in config.weight_shapes().items()
    }
    weights["embed.W_E"][:, 2] = 1
    weights["unembed.W_U"][0] = 0
    weights["blocks.0.attn.W_O"][...] = [[[1, 0, 0]], [[0, 1, 0]]]
    weights["blocks.0.mlp.W_out"][1] = 0
    return Checkpoint(config, weights)


def changed(checkpoint, name, at, by):
    weights = {key: weight.copy() for key, weight in checkpoint.weights.items()}
    weights[f"blocks.0.{name}"][at] += by
    return Checkpoint(checkpoint.config, weights)


def test_a_head_that_one_neuron_hears_belongs_to_the_function():
    model = whole_weights()
    model.weights["blocks.0.mlp.W_in"][0, 1] = 0
    for part in ("W_V", "W_Q"):
        other = changed(model, f"attn.{part}", (0, 0, 0), 1)
        assert exact_form(other, (0, 1)) != exact_form(model, (0, 1))


def test_what_only_the_value_of_the_second_letter_changes_belongs_to_the_function():
    model = whole_weights()
    model.weights["blocks.0.attn.W_K"][:, 1] = 0
    model.weights["blocks.0.attn.W_O"][0] = 0  # one head is left
    other = {name: weight.copy() for name, weight in model.weights.items()}
    other["embed.W_E"][FIRST_LETTER + 1, 1] += 1
    forms = [exact_form(one, (0, 1)) for one in (model, Checkpoint(model.config, other))]
    assert forms[0] != forms[1]
    assert forms[0][:3] == forms[1][:3]  # options, score differences and base


def test_what_a_head_adds_for_every_token_may_move_to_another():
    model = changed(whole_weights(), "attn.W_O", (0, 0), [-1, 1, 0])  # as the other head
    moved = changed(changed(model, "attn.W_V", (0, 2), 1), "attn.W_V", (1, 2), -1)
    assert exact_form(moved, (0, 1)) == exact_form(model, (0, 1))
    assert exact_form(changed(moved, "attn.W_V", (1, 2), 2), (0, 1)) != exact_form(model, (0, 1))


@pytest.mark.parametrize("dead", [0, 1])
def test_a_head_that_only_a_silent_neuron_hears_does_not(dead):
    """Neuron 1 reads it and adds nothing; the other head is heard, whichever comes first."""
    model = whole_weights()
    model.weights["blocks.0.attn.W_O"][...] = [[[0, 1, 0]], [[0, 1, 0]]]
    model.weights["blocks.0.attn.W_O"][dead] = [1, 0, 0]
    model.weights["blocks.0.mlp.W_in"][0, 0] = 0
    for part in ("W_V", "W_Q"):
        other = changed(model, f"attn.{part}", (dead, 0, 0), 1)
        assert exact_form(other, (0, 1)) == exact_form(model, (0, 1))
        other = changed(model, f"attn.{part}", (1 - dead, 0, 0), 1)
        assert exact_form(other, (0, 1)) != exact_form(model, (0, 1))


def test_the_time_of_fractions_is_paid_for():
    paid = []
    exact_form(whole_weights(), (0, 1), lambda: paid.append(1))
    assert len(paid) == 2


@pytest.mark.parametrize(
    "other",
    [shifted(planted(4), 0.5), with_cancelling_heads(planted(4), 3.0), rescaled(planted(4), 7)],
    ids=["scores shifted", "heads that cancel", "residual rescaled"],
)
def test_the_same_function_in_other_numbers(other):
    found = diff(planted(4), other, max_length=12)
    assert found.same
    assert len(found.identical) == 7
