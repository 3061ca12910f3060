"""Max-of-4 (Gross et al. 2024, compact proofs): how many of all 16,777,216 sequences are wrong?

Run by `python -m studies.max_of_four.run [seed...]`, under TransformerLens 3.x or 4.x. Models are
of the paper's kind: one attention-only layer, one head, d_model 32, 64 numbers,
learned positions, no biases; 3000 steps of AdamW (lr 1e-3) on batches of 128 uniform sequences.
For each seed the exact number of wrong sequences, twice: by branch and bound (`tsc.verify`),
and by looking at every sequence in float64 with a bound on its rounding, where what is closer than
that is decided in ball arithmetic. The first seed's result is then proved by the independent
checker, and TransformerLens's own forward pass over all sequences is timed (float32; one sequence
in 32, scaled). `python -m studies.max_of_four.run longer` is max-of-5, 6, 8 and 10 (or the
lengths that follow) by search alone, where no brute force can follow; `fresh` is eleven more seeds
by search alone, for the spread of the accuracy. Times are CPU seconds.
"""

from __future__ import annotations

import gzip
import json
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

import tsc_interp as tsc
from studies.lens import VERSION, build, fit
from tsc_interp.verification.order.running import judge_of

SEEDS = (50, 104, 123, 519, 742)
NUMBERS, LENGTH, STEPS, BATCH = 64, 4, 3000, 128
Array = NDArray[np.float64]


def main(seeds: tuple[int, ...]) -> None:
    torch.set_num_threads(1)
    print(f"max-of-{LENGTH}, {NUMBERS} numbers, TransformerLens {VERSION}\n")
    print(" seed   training   wrong by search   boxes   seconds   wrong by force   close   seconds")
    found = [_row(seed) for seed in seeds]
    print(f"\nmean accuracy {np.mean([1 - f['wrong'] / NUMBERS**LENGTH for f in found]):.6f}")
    found[0] |= _proof(seeds[0])
    print(json.dumps({"transformer_lens": VERSION, "models": found}))


def _row(seed: int) -> dict[str, Any]:
    started = time.process_time()
    checkpoint = taken(trained(seed))
    training = time.process_time() - started
    started = time.process_time()
    verdict = tsc.verify(checkpoint, lengths=[LENGTH])
    search = time.process_time() - started
    started = time.process_time()
    forced = brute_force(checkpoint, LENGTH)
    force = time.process_time() - started
    boxes = verdict.lengths[0].regions
    assert (verdict.wrong, verdict.undecided) == (forced.wrong, 0), "they disagree"
    print(
        f"{seed:5}{training:9.1f} s{verdict.wrong:18,}{boxes:8,}{search:10.2f}"
        f"{forced.wrong:17,}{forced.close:8,}{force:10.1f}",
        flush=True,
    )
    first = verdict.shortest
    return {
        "seed": seed, "wrong": verdict.wrong, "boxes": boxes, "close": forced.close,
        "first": list(first.tokens) if first else None, "training_seconds": round(training, 1),
        "search_seconds": round(search, 2), "force_seconds": round(force, 1),
        "by_maximum": forced.by_maximum,
    }  # fmt: skip


def _proof(seed: int) -> dict[str, Any]:
    model = trained(seed)
    checkpoint = taken(model)
    started = time.process_time()
    verdict = tsc.verify(checkpoint, lengths=[LENGTH], certify=True)
    making = time.process_time() - started
    assert verdict.certificate is not None
    document = verdict.certificate.document
    started = time.process_time()
    proved = tsc.check(document, checkpoint)
    checking = time.process_time() - started
    text = json.dumps(document).encode()
    sizes = len(text), len(gzip.compress(text))
    plain = forward_seconds(model)
    print(f"\nseed {seed}, confirmed by the checker in {checking:.1f} s (made: {making:.1f} s):")
    print("\n".join(f"  {sentence}" for sentence in proved))
    print(f"  certificate of {sizes[0] / 1e3:.0f} kB, {sizes[1] / 1e3:.0f} kB compressed")
    print(f"  TransformerLens's forward pass on every sequence: {plain:.0f} s (scaled)")
    return {
        "proved": list(proved), "checking_seconds": round(checking, 1), "bytes": sizes[0],
        "compressed_bytes": sizes[1], "forward_seconds": round(plain),
    }  # fmt: skip


def fresh(seeds: tuple[int, ...] = tuple(range(11))) -> None:
    """Print the exact number of wrong sequences of more seeds, by search alone."""
    torch.set_num_threads(1)
    found = []
    for seed in seeds:
        verdict = tsc.verify(taken(trained(seed)), lengths=[LENGTH])
        assert verdict.undecided == 0
        found.append({"seed": seed, "wrong": verdict.wrong})
        print(f"{seed:5}{verdict.wrong:18,}", flush=True)
    print(json.dumps({"transformer_lens": VERSION, "models": found}))


def longer(lengths: tuple[int, ...], seed: int = 123, seconds: float = 120.0) -> None:
    """Print what of longer sequences is decided, in at most so many seconds on the clock each."""
    torch.set_num_threads(1)
    for length in lengths or (5, 6, 8, 10):
        checkpoint = taken(trained(seed, length=length))
        started = sum(os.times()[:4])  # helpers that have ended count, too
        verdict = tsc.verify(checkpoint, lengths=[length], seconds=seconds)
        spent = sum(os.times()[:4]) - started
        share = verdict.undecided / verdict.inputs
        print(
            f"max-of-{length}: {verdict.wrong:,} of {verdict.inputs:,} wrong, "
            f"{verdict.undecided:,} undecided ({share:.2%}); {verdict.lengths[0].regions:,} "
            f"regions, {spent:.1f} s",
            flush=True,
        )


# -- the model ---------------------------------------------------------------------------------


def trained(seed: int, *, length: int = LENGTH, numbers: int = NUMBERS, steps: int = STEPS) -> Any:
    model = build(
        seed, biases=False, n_layers=1, n_heads=1, d_model=32, d_head=32, d_vocab=numbers,
        d_vocab_out=numbers, n_ctx=length, attn_only=True, normalization_type=None,
    )  # fmt: skip
    fit(model, batches(seed, length, numbers), steps=steps)
    return model


def batches(seed: int, length: int, numbers: int) -> Iterator[tuple[Tensor, Tensor]]:
    draws = torch.Generator().manual_seed(seed)
    while True:
        tokens = torch.randint(0, numbers, (BATCH, length), generator=draws)
        yield tokens, tokens.max(1).values


def taken(model: Any) -> tsc.Checkpoint:
    """With the numbers as the letters' names; the last number reads."""
    names = {number: str(number) for number in range(model.cfg.d_vocab)}
    return tsc.from_transformer_lens(model, tokens=names, task="maximum")


@torch.no_grad()
def forward_seconds(model: Any, part: int = 32) -> float:
    """CPU seconds of one forward pass per sequence, from one in `part` of them."""
    started = time.process_time()
    for first in range(0, NUMBERS, part):
        rest = torch.cartesian_prod(*(torch.arange(NUMBERS),) * (LENGTH - 1))
        tokens = torch.cat([torch.full((len(rest), 1), first), rest], dim=1)
        for some in tokens.split(1 << 13):
            model(some)[:, -1].argmax(-1)
    return (time.process_time() - started) * part


# -- every sequence ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Forced:
    """How many are wrong, how many were too close for float64, and the wrong by their maximum."""

    wrong: int
    close: int
    by_maximum: list[int]


def brute_force(checkpoint: tsc.Checkpoint, length: int) -> Forced:
    """Every sequence of at least three numbers, in float64 and blocks of two places.

    Nothing of the search is used: tables come from the weights by plain products of matrices.
    """
    judge = judge_of(checkpoint)
    scores, values, own, off = tables(checkpoint, length)
    numbers = len(own)
    label = np.maximum.outer(np.arange(numbers), np.arange(numbers))
    by_maximum, close = np.zeros(numbers, dtype=np.int64), 0
    for reader, *fixed in product(range(numbers), repeat=length - 2):
        places = [*enumerate(fixed), (length - 1, reader)]
        weights = np.exp(scores[reader] - scores[reader].max())
        total = weights[-3][:, None] + weights[-2] + sum(weights[p, x] for p, x in places)
        mixed = sum(weights[p, x] * values[p, x] for p, x in places)
        first, second = (weights[p, :, None] * values[p] for p in (-3, -2))
        outputs = (first[:, None] + second + mixed) / total[..., None] + own[reader]
        maximum = np.maximum(label, max(reader, *fixed, 0))
        right = np.take_along_axis(outputs, maximum[..., None], 2)
        np.put_along_axis(outputs, maximum[..., None], -np.inf, 2)
        gap = right[..., 0] - outputs.max(2)
        wrong = gap < 0
        for i, j in np.argwhere(np.abs(gap) <= 2 * off):
            string = (*fixed, int(i), int(j), reader)
            wrong[i, j] = judge.answer_to_string(string) != max(string)
            close += 1
        by_maximum += np.bincount(maximum[wrong], minlength=numbers)
    return Forced(int(by_maximum.sum()), close, by_maximum.tolist())


def tables(checkpoint: tsc.Checkpoint, length: int) -> tuple[Array, Array, Array, float]:
    """Scores `[reader place number]`, what a number adds to the outputs `[place number output]`,
    what the reader itself adds, and how far any output is from the real one.

    A chain of products of matrices is off by at most n units of the same product of absolute
    values, n being all that is summed over and a little.
    """
    config = checkpoint.config
    weights = {name: array.astype(np.float64) for name, array in checkpoint.weights.items()}
    unit = (4 * config.d_model + 64) * 2.0**-53

    def chained(absolute: bool) -> tuple[Array, Array, Array]:
        w = {name: np.abs(array) if absolute else array for name, array in weights.items()}
        x = w["embed.W_E"][2:] + w["pos_embed.W_pos"][:length, None]
        attn = {key[-3:]: array[0] for key, array in w.items() if "attn" in key}
        q = x[-1] @ attn["W_Q"] + attn["b_Q"]
        k, v = x @ attn["W_K"] + attn["b_K"], x @ attn["W_V"] + attn["b_V"]
        scores = np.einsum("rd,pld->rpl", q, k) / np.sqrt(config.d_head)
        values = v @ attn["W_O"] @ w["unembed.W_U"]
        own = (x[-1] + w["blocks.0.attn.b_O"]) @ w["unembed.W_U"] + w["unembed.b_U"]
        return scores, values, own

    scores, values, own = chained(absolute=False)
    sizes = [float(part.max()) for part in chained(absolute=True)]
    # Weights are off by a factor of at most exp(error of a score) and a few units; a mean by twice
    # that of the largest value, by the values' own error and a few units more.
    of_scores, of_values, of_own = (unit * size for size in sizes)
    off = 2 * (2 * of_scores + unit) * sizes[1] + of_values + of_own
    return scores, values, own, 2 * off


if __name__ == "__main__":
    if sys.argv[1:2] == ["longer"]:
        longer(tuple(map(int, sys.argv[2:])))
    elif sys.argv[1:] == ["fresh"]:
        fresh()
    else:
        main(tuple(map(int, sys.argv[1:])) or SEEDS)
