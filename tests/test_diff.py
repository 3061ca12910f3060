"""Two classifiers compared: brute force, forged certificates, and models that are the same."""

from __future__ import annotations

import copy
import json
from itertools import product

import numpy as np
import pytest

import tsc_interp as tsc
from tests import precise
from tests.verification_models import planted, random_checkpoint, unfailing
from tsc_interp.checkpoints import Checkpoint
from tsc_interp.cli.app import main
from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import TscError, UnsupportedError
from tsc_interp.verification import CertificateError, check_agreement, diff
from tsc_interp.verification.checker import digest
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
    again = check_agreement(json.loads(json.dumps(found.document)), a, b)
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
    assert [claim["kind"] for claim in found.document["claims"]] == ["identical"] * 7
    other = {**w, "unembed.W_U": w["unembed.W_U"] * np.float32(1.0000001)}
    assert exact_form(Checkpoint(bigger, other), (0, 1)) != exact_form(a, (0, 1))


def test_two_models_right_at_every_length_agree_at_every_length():
    a = unfailing()
    louder = {**a.weights, "unembed.W_U": a.weights["unembed.W_U"] * np.float32(1.5)}
    b = Checkpoint(a.config, louder)
    found = diff(a, b, max_length=20, limit=1000)
    assert found.same
    assert "agree_beyond" in {claim["kind"] for claim in found.document["claims"]}
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
    assert check_agreement(document, a, b).first_difference == 5
    claims = document["claims"]
    everywhere = {"agree_through": None, "everywhere": True, "first_difference": None}
    up_to = next(claim for claim in claims if claim.get("letters") == "ab")
    wider = {**up_to, "length": 10, "boxes": [[[1, 1], [9, 9]]]}
    thinner = {**up_to, "boxes": up_to["boxes"][1:]}
    sets = ("a", "b", "c", "ab", "ac", "bc", "abc")
    identical = [{"kind": "identical", "letters": letters} for letters in sets]
    charts = [{"largest": x, "boxes": [[[0.0], [1.0]]]} for x in "ab"]
    always = {"kind": "agree_at_all_lengths", "letters": "ab", "charts": charts}
    for claims_now, conclusion in [
        (claims, everywhere),
        ([{"kind": "differ", "string": "ab"}], document["conclusion"]),
        ([wider], everywhere),
        ([c if c is not up_to else thinner for c in claims], document["conclusion"]),
        (identical, everywhere),
        ([always], everywhere),
        ([{"kind": "agree_beyond", "letters": "ab", "length": 2}], everywhere),
        ([{"kind": "agree_up_to", "letters": "ba", "length": 1, "boxes": []}], everywhere),
        (None, everywhere),
        ([{"kind": "trust me"}], everywhere),
        ([*claims, {**up_to, "length": True}], document["conclusion"]),
    ]:
        with pytest.raises(CertificateError):
            check_agreement(forged(document, claims=claims_now, conclusion=conclusion), a, b)
    with pytest.raises(CertificateError, match="other weights"):
        check_agreement(document, b, a)
    with pytest.raises(CertificateError, match="digest"):
        check_agreement({**document, "digest": "0" * 64}, a, b)


def test_what_is_not_finite_proves_nothing():
    """Weights so large that balls overflow: nothing may be called alike."""
    config = ClassifierConfig(n_layers=2, norm="rms", n_letters=2)
    a, b = random_checkpoint(config, 1), random_checkpoint(config, 2)
    huge = {name: w * np.float32(1e30) for name, w in a.weights.items()}
    found = diff(Checkpoint(config, huge), b, max_length=4, limit=20, budget=200)
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
    assert document["everywhere"] is True
    assert tsc.diff("walkthrough", "walkthrough", max_length=10).same
