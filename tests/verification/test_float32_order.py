"""What order-sensitive models answer in float32: claims held against torch in several orders."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import torch

import tsc_interp as tsc
from tests.trusted.asking import Asked, part_of
from tests.trusted.paths import singles, strings
from tests.trusted.test_float_layer import orders, run
from tests.verification.ordered_models import (
    longest,
    ordered_checkpoint,
    random_config,
    wide_config,
    with_task,
)
from tsc_interp.checkpoints import Checkpoint
from tsc_interp.errors import UsageError
from tsc_interp.tasks import Automaton
from tsc_interp.trusted.sets import Sets
from tsc_interp.trusted.trees import mask_text
from tsc_interp.verification import CertificateError
from tsc_interp.verification.order.certificate_result import (
    Float32Counts,
    PartProved,
    TablesProved,
)


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
        asked = Asked(checkpoint)
        trellis = asked.trellis(min(3, longest(config, 64)))
        for _ in range(3):
            part = part_of(Sets.whole(trellis), draw)
            if part is None:
                continue
            label = int(part.labels()[0])
            right = asked.holds(part, float32=True)
            beaten = any(
                asked.holds(part, by, float32=True) for by in range(asked.n_classes) if by != label
            )
            # What is shown in float32 is shown over the reals.
            assert not right or asked.holds(part)
            alone = [
                asked.answered(singles(part, [0]), by, float32=True)
                for by in range(asked.n_classes)
            ]
            for number, (string, _) in enumerate(list(strings(part, 0))[:8]):
                said = answers(checkpoint, string)
                assert not right or said == {label}, config
                assert not beaten or label not in said, config
                for by in range(asked.n_classes):
                    assert not alone[by][number] or said == {by}
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
    assert (close.right, close.float32) == (8, Float32Counts(inputs=8, right=0, wrong=0))
    far = tsc.verify(nearly_tied(1.0), lengths=[2, 3], float32=True)
    assert far.float32 == Float32Counts(inputs=12, right=12, wrong=0)
    assert far.to_dict()["float32"] == {"right": "12", "wrong": "0", "depends_on_rounding": "0"}
    assert "12 right, 0 wrong in float32" in str(far._lines())
    wrong = tsc.certify(nearly_tied(-1.0), lengths=[3], float32=True)
    assert wrong.float32 == Float32Counts(inputs=8, right=0, wrong=8)


def test_no_leaf_can_claim_float32_that_is_not_shown() -> None:
    """A tree of two leaves, one for each last letter: true over the reals, and in float32 not."""
    last = mask_text(np.array([True, False]))

    def derived(gap: float, *leaves: list[Any]) -> dict[str, Any]:
        part = {"table": 0, "labels": [1], "tree": [["cut", 2, last], *leaves]}
        return Asked(nearly_tied(gap)).derive(3, part, float32="tokens")

    assert derived(1e-9, ["is", 1], ["is", 1])["right"] == "8"
    sure = derived(1.0, ["is", 1, "float32"], ["is", 1])
    assert (sure["right"], sure["float32"]) == ("8", {"right": "4", "wrong": "0"})
    each = derived(1e-9, ["each", "float32"], ["is", 1])
    assert (each["right"], each["float32"]) == ("8", {"right": "0", "wrong": "0"})
    for leaves in ([["is", 1, "float32"], ["is", 1]], [["is", 1], ["is", 1, "float32"]]):
        with pytest.raises(CertificateError, match="not proved is"):
            derived(1e-9, *leaves)
    with pytest.raises(CertificateError, match="not proved wrong"):
        derived(-1e-9, ["wrong", 0, "float32"], ["wrong", 0])


def test_counts_of_a_certificate_are_those_of_torch() -> None:
    """Every string of one length: right and wrong in float32 as torch says, none contradicted."""
    config = random_config(8)
    checkpoint = with_task(ordered_checkpoint(config, 8), config.task)
    length = longest(config, 64)
    certificate: Any = tsc.certify(checkpoint, lengths=[length], float32=True)
    known, checked = certificate.float32, tsc.check(certificate.document, checkpoint)
    assert checked.parts[0].float32 == {"right": known.right, "wrong": known.wrong}
    sets = Sets.whole(Asked(checkpoint).trellis(length))
    said = [(answers(checkpoint, string), label) for string, label in strings(sets, 0)]
    assert known.right <= sum(found == {label} for found, label in said)
    assert known.wrong <= sum(label not in found for found, label in said)
    assert known.depends <= 0.1 * len(said)


def test_steps_count_an_input_once() -> None:
    def part(step: int, right: int, wrong: int) -> PartProved:
        return PartProved("step", step, 100, 90, 10, None, {"right": right, "wrong": wrong})

    both = TablesProved("adding", (part(0, 95, 2), part(1, 90, 4)))
    assert Float32Counts.of(both) == Float32Counts(100, 85, 4)
    assert Float32Counts(100, 85, 4).depends == 11
    many = TablesProved("adding", (part(0, 10, 2), part(1, 20, 4)))
    assert Float32Counts.of(many) == Float32Counts(100, 0, 4)
    silent = TablesProved("adding", (PartProved("step", 0, 100, 90, 10, None),))
    assert Float32Counts.of(silent) is None


def test_order_is_read_as_tokens() -> None:
    with pytest.raises(UsageError, match="reads tokens"):
        tsc.verify(nearly_tied(1.0), lengths=[2], float32="compressed")
    assert tsc.verify(nearly_tied(1.0), lengths=[2], float32=False).float32 is None
