"""What order-sensitive models answer in float32: claims held against torch in several orders."""

from __future__ import annotations

import base64
import random
from typing import Any

import numpy as np
import pytest
import torch

import tsc_interp as tsc
from tests.verification.ordered_models import (
    longest,
    ordered_checkpoint,
    random_config,
    wide_config,
    with_task,
)
from tests.verification.test_layer_rounding import orders, run
from tests.verification.test_trellis_checker import holds, part_of
from tsc_interp.checkpoints import Checkpoint
from tsc_interp.errors import UsageError
from tsc_interp.tasks import Automaton
from tsc_interp.verification import CertificateError
from tsc_interp.verification.checker.sets import Sets
from tsc_interp.verification.checker.trellis import TrellisChecker
from tsc_interp.verification.checker.trellis_claims import PartProved, TrellisProved
from tsc_interp.verification.order.certificate_result import Float32Counts


def answers(checkpoint: Checkpoint, string: tuple[int, ...]) -> set[int]:
    """Classes that torch gives in float32, sums taken in several orders."""
    text = "".join(checkpoint.config.alphabet.letters[letter] for letter in string)
    return {int(run(one, text, torch.float32)[0].argmax()) for one in orders(checkpoint)}


@pytest.mark.parametrize("block", range(4))
def test_claims_hold_in_torch_whatever_the_order(block: int) -> None:
    shown = 0
    for seed in range(block * 4, block * 4 + 4):
        draw = random.Random(seed)
        config = (wide_config if seed % 2 else random_config)(seed)
        checkpoint = ordered_checkpoint(config, seed)
        checker = TrellisChecker(checkpoint)
        trellis = checker.trellis("length", min(3, longest(config, 64)))
        for _ in range(3):
            part = part_of(Sets.whole(trellis), draw)
            if part is None:
                continue
            label = int(part.labels()[0])
            right = holds(checker, part, float32=True)
            beaten = any(
                holds(checker, part, by, float32=True)
                for by in range(checker.model.n_classes)
                if by != label
            )
            # What is shown in float32 is shown over the reals.
            assert not right or holds(checker, part)
            alone = checker._certain(part.singles([0]))
            for number, (string, _) in enumerate(list(part.strings(0))[:8]):
                said = answers(checkpoint, string)
                assert not right or said == {label}, config
                assert not beaten or label not in said, config
                assert not alone[0][number] or said == {label}
                assert not alone[1][number] or label not in said
            shown += right or beaten
    assert shown > 2


def nearly_tied(gap: float) -> Checkpoint:
    """Two outputs that read the same; the second has a bias more, and every string its label."""
    config = tsc.ClassifierConfig(
        n_letters=2, n_outputs=2, task=Automaton(states=1, start=0, step=[[0, 0]], label=[1]),
        n_positions=4, reads="last_letter", attend_cls=True, biases=True, d_mlp=3,
    )  # fmt: skip
    weights = {name: np.array(w) for name, w in ordered_checkpoint(config, 5).weights.items()}
    weights["unembed.W_U"][:, 1] = weights["unembed.W_U"][:, 0]
    weights["unembed.b_U"] = np.array([0.0, gap], dtype=np.float32)
    return Checkpoint(config, weights)


def test_a_margin_within_rounding_is_right_over_the_reals_only() -> None:
    close = tsc.verify(nearly_tied(1e-9), lengths=[3], float32=True)
    assert (close.right, close.float32) == (8, None)
    far = tsc.verify(nearly_tied(1.0), lengths=[2, 3], float32=True)
    assert far.float32 == Float32Counts(inputs=12, right=12, wrong=0)
    assert far.to_dict()["float32"] == {"right": "12", "wrong": "0", "depends_on_rounding": "0"}
    assert "12 right, 0 wrong in float32" in str(far._lines())
    wrong = tsc.certify(nearly_tied(-1.0), lengths=[3], float32=True)
    assert wrong.float32 == Float32Counts(inputs=8, right=0, wrong=8)


def test_no_leaf_can_claim_float32_that_is_not_shown() -> None:
    """A tree of two leaves, one for each last letter: true over the reals, and in float32 not."""
    last = base64.b64encode(np.packbits([True, False]).tobytes()).decode()

    def derived(gap: float, *leaves: list[Any]) -> PartProved:
        tree = [["cut", 2, last], *leaves]
        parts = [{"length": 3, "groups": [{"labels": [1], "tree": tree}]}]
        return TrellisChecker(nearly_tied(gap)).derive(parts).parts[0]

    assert derived(1e-9, ["right"], ["right"]).right == 8
    sure = derived(1.0, ["right", "float32"], ["right"])
    assert (sure.right, sure.float32) == (8, {"right": 4, "wrong": 0})
    assert sure.conclusion()["float32"] == {"right": "4", "wrong": "0"}
    each = derived(1e-9, ["each", "float32"], ["right"])
    assert (each.right, each.float32) == (8, None)
    for leaves in ([["right", "float32"], ["right"]], [["right"], ["right", "float32"]]):
        with pytest.raises(CertificateError, match="not proved right"):
            derived(1e-9, *leaves)
    with pytest.raises(CertificateError, match="not proved wrong"):
        derived(-1e-9, ["wrong", 0, "float32"], ["wrong", 0])


@pytest.mark.parametrize(
    "node",
    [
        ["open", "float32"],
        ["float32"],
        ["right", "float64"],
        ["right", "float32", "float32"],
        ["wrong", "float32"],
    ],
)
def test_leaves_that_are_none_are_refused(node: list[Any]) -> None:
    parts = [{"length": 2, "groups": [{"labels": [1], "tree": [node]}]}]
    with pytest.raises(CertificateError):
        TrellisChecker(nearly_tied(1.0)).derive(parts)


def test_counts_of_a_certificate_are_those_of_torch() -> None:
    """Every string of one length: right and wrong in float32 as torch says, none contradicted."""
    config = random_config(8)
    checkpoint = with_task(ordered_checkpoint(config, 8), config.task)
    length = longest(config, 64)
    certificate: Any = tsc.certify(checkpoint, lengths=[length], float32=True)
    known, checked = certificate.float32, tsc.check(certificate.document, checkpoint)
    assert checked.parts[0].float32 == {"right": known.right, "wrong": known.wrong}
    sets = Sets.whole(TrellisChecker(checkpoint).trellis("length", length))
    said = [(answers(checkpoint, string), label) for string, label in sets.strings(0)]
    assert known.right <= sum(found == {label} for found, label in said)
    assert known.wrong <= sum(label not in found for found, label in said)
    assert known.depends <= 0.1 * len(said)


def test_steps_count_an_input_once() -> None:
    def part(step: int, right: int, wrong: int) -> PartProved:
        return PartProved("step", step, 100, 90, 10, None, {"right": right, "wrong": wrong})

    both = TrellisProved("adding", (part(0, 95, 2), part(1, 90, 4)))
    assert Float32Counts.of(both) == Float32Counts(100, 85, 4)
    assert Float32Counts(100, 85, 4).depends == 11
    many = TrellisProved("adding", (part(0, 10, 2), part(1, 20, 4)))
    assert Float32Counts.of(many) == Float32Counts(100, 0, 4)
    silent = TrellisProved("adding", (PartProved("step", 0, 100, 90, 10, None),))
    assert Float32Counts.of(silent) is None


def test_order_is_read_as_tokens() -> None:
    with pytest.raises(UsageError, match="reads tokens"):
        tsc.verify(nearly_tied(1.0), lengths=[2], float32="compressed")
    assert tsc.verify(nearly_tied(1.0), lengths=[2], float32=False).float32 is None
