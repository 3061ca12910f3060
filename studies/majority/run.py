"""Majority without positions: exact errors per length where the literature samples.

Run by `python -m studies.majority.run`, under TransformerLens 3.x or 4.x. The
length-generalisation literature (lacoco-lab/length_generalization, binary majority, no positions)
trains one layer of one head and 16 dimensions (64 for more letters), LayerNorms and GELU, to length
50, batches of 64, AdamW at 1e-3 for 3000 steps, and tests 2,000 random strings of each of the
ranges 1-50, 51-100 and 101-150: the share of a is uniform, ties do not occur. Here a model is
trained likewise (every batch has one length; no token before the string) and then every string up
to length 500 is decided, as counts; where none of them is wrong, strings one letter from a tie are
asked up to a million letters, for some error. Ties have no right answer and are left out. Times are
CPU seconds.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from math import comb
from typing import Any

import torch
from torch import Tensor

import tsc_interp as tsc
from studies.lens import VERSION, build, fit
from tsc_interp.strings import Alphabet
from tsc_interp.verification.bounds.exact import ExactModel

A, B, QUERY = range(3)
READING = {"tokens": {A: "a", B: "b"}, "query": QUERY, "task": "majority"}
LONGEST, TESTED_TO, VERIFIED_TO, LIMIT = 50, 150, 500, 10**6
STEPS, BATCH, SAMPLED = 3000, 64, 2000
SEEDS = {16: 3, 64: 2}
RANGES = ((1, 50), (51, 100), (101, 150))


def main() -> None:
    torch.set_num_threads(1)
    print(f"majority without positions, TransformerLens {VERSION}\n")
    print("                       sampled, right of 2,000         exact")
    print("d_model seed training   1-50  51-100 101-150   right up to      some error   "
          "worst length to 150   seconds")  # fmt: skip
    found = [_row(size, seed) for size, seeds in SEEDS.items() for seed in range(seeds)]
    print(json.dumps({"transformer_lens": VERSION, "models": found}))


def _row(size: int, seed: int) -> dict[str, Any]:
    started = time.process_time()
    model = trained(size, seed)
    training = time.process_time() - started
    sampled = [sampled_right(model, *ends) for ends in RANGES]
    started = time.process_time()
    checkpoint = tsc.from_transformer_lens(model, **READING)
    found = errors(checkpoint, VERIFIED_TO)
    some = found["first"] or beyond(checkpoint, VERIFIED_TO)
    seconds = time.process_time() - started
    wrong, open_ = found["wrong"], found["undecided"]
    right_through = next((n - 1 for n, w in enumerate(wrong) if w or open_[n]), VERIFIED_TO)
    shares = [w / (2**n - ties(n)) if n else 0.0 for n, w in enumerate(wrong)]
    worst = max(range(TESTED_TO + 1), key=lambda n: shares[n])
    print(
        f"{size:7}{seed:5}{training:7.1f} s{sampled[0]:7,}{sampled[1]:8,}{sampled[2]:8,}"
        f"{right_through:14,}{some or 'none':>18}"
        f"{f'{shares[worst]:.1e} at {worst}' if shares[worst] else 'none':>22}{seconds:10.1f}",
        flush=True,
    )
    return {
        "d_model": size, "seed": seed, "sampled": sampled, "right_through": right_through,
        "first": found["first"], "some": some, "undecided": sum(open_),
        "shares": [float(f"{share:.3g}") for share in shares],
        "training_seconds": round(training, 1), "exact_seconds": round(seconds, 1),
    }  # fmt: skip


def trained(size: int, seed: int, steps: int = STEPS) -> Any:
    model = build(
        seed, positions=False, n_layers=1, n_heads=1, d_model=size, d_head=size, d_mlp=4 * size,
        n_ctx=TESTED_TO + 1, d_vocab=3, d_vocab_out=2, act_fn="gelu_new", normalization_type="LN",
    )  # fmt: skip
    fit(model, batches(seed), steps=steps, weight_decay=0.01)
    return model


def batches(seed: int) -> Iterator[tuple[Tensor, Tensor]]:
    draws = torch.Generator().manual_seed(seed)
    while True:
        length = int(torch.randint(1, LONGEST + 1, (), generator=draws))
        yield asked(strings(BATCH, length, draws))


def strings(number: int, length: int, draws: torch.Generator) -> Tensor:
    """Of one length, the number of a's uniform, in any order; ties are moved off by one."""
    count = torch.randint(0, length + 1, (number,), generator=draws)
    count = torch.where(2 * count == length, count + 1, count)
    order = torch.rand(number, length, generator=draws).argsort(1)
    return torch.where(order < count[:, None], A, B)


def asked(letters: Tensor) -> tuple[Tensor, Tensor]:
    label = 2 * (letters == A).sum(1) > letters.shape[1]
    return torch.cat([letters, torch.full((len(letters), 1), QUERY)], dim=1), label.long()


@torch.no_grad()
def sampled_right(model: Any, shortest: int, longest: int) -> int:
    """What a test set says: how many of 2,000 strings of these lengths are right."""
    draws, right = torch.Generator().manual_seed(1), 0
    per_length, more = divmod(SAMPLED, longest - shortest + 1)
    for i, length in enumerate(range(shortest, longest + 1)):
        tokens, label = asked(strings(per_length + (i < more), length, draws))
        right += int((model(tokens)[:, -1].argmax(-1) == label).sum())
    return right


def ties(length: int) -> int:
    return comb(length, length // 2) if length % 2 == 0 else 0


def errors(checkpoint: tsc.Checkpoint, longest: int) -> dict[str, Any]:
    """Wrong (and undecided) strings of each length that are no ties, and the first of them.

    To the verifier a tie is negative; one that the model calls positive is taken out again.
    """
    exact = ExactModel(checkpoint)
    tally = tsc.verify(checkpoint, longest).tally
    wrong = [
        p + n
        for p, n in zip(tally.false_positives.strings, tally.false_negatives.strings, strict=True)
    ]
    undecided = list(tally.undecided.strings)
    for length in range(2, longest + 1, 2):
        if wrong[length] or undecided[length]:
            sign = exact.sign((length // 2, length // 2))
            if sign is None:
                undecided[length] -= ties(length)
            elif sign > 0:
                wrong[length] -= ties(length)
    first = next((length for length, strings in enumerate(wrong) if strings), None)
    return {"wrong": wrong, "undecided": undecided, "first": _first(exact, first)}


def _first(exact: ExactModel, length: int | None) -> str | None:
    """The wrong counts nearest to a tie, of those of the shortest length."""
    if length is None:
        return None
    for a in sorted(range(length + 1), key=lambda a: abs(2 * a - length)):
        sign = exact.sign((a, length - a))
        if 2 * a != length and sign is not None and (sign > 0) != (2 * a > length):
            return Alphabet(2).write([a, length - a])
    return None


def beyond(checkpoint: tsc.Checkpoint, longest: int) -> str | None:
    """An error with more letters, one letter from a tie: where it begins along that line, if so.

    Not the first of all errors: only this line is looked at, and between lengths that differ by a
    tenth an error that goes away again may be missed.
    """
    exact = ExactModel(checkpoint)

    def wrong(a: int, b: int) -> bool:
        sign = exact.sign((a, b))
        return sign is not None and (sign > 0) != (a > b)

    found = []
    for more_a, more_b in ((1, 0), (0, 1)):
        right, half = longest // 2, longest // 2
        while half <= LIMIT // 2 and not wrong(half + more_a, half + more_b):
            right, half = half, half + max(half // 10, 1)
        if half <= LIMIT // 2:
            while half - right > 1:
                middle = (right + half) // 2
                is_wrong = wrong(middle + more_a, middle + more_b)
                right, half = (right, middle) if is_wrong else (middle, half)
            found.append((half + more_a, half + more_b))
    return Alphabet(2).write(list(min(found, key=sum))) if found else None


if __name__ == "__main__":
    main()
