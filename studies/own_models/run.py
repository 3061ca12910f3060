"""Twenty models that are right on every test string, and the shortest string each gets wrong.

Run by `python -m studies.own_models.run [number of models]`, under TransformerLens 3.x or 4.x. Each
model is trained as its user would train it: a HookedTransformer (a TransformerBridge under 4.x) of
one layer, two heads, 16 dimensions and a context of 128 tokens, everything else TransformerLens's
defaults but for the norm and the positions (none), a plain loop of 1000 steps of AdamW on strings
of 1 to 20 letters. It is tested on 10,000 random strings of 20 letters: half of them uniform
(nearly all of which contain both), half drawn as in training. Then it is imported and given to
`tsc.horizon`, and the shortest failure is given to the original model, whose context admits it.
Times are CPU seconds of both.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

import tsc_interp as tsc
from studies.lens import VERSION, build, fit
from tsc_interp.strings import Alphabet

A, B, C, QUERY = range(4)
READING = {"tokens": {A: "a", B: "b", C: "c"}, "query": QUERY, "task": "contains_all"}
LONGEST, STEPS, BATCH = 20, 1000, 128
CONTEXT = 128
TESTED = 10_000


def main(models: int = 20) -> None:
    torch.set_num_threads(1)
    print(f'"contains a and b", TransformerLens {VERSION}, strings of {LONGEST} letters to test\n')
    print(
        "seed   training   right of 10,000   right up to   shortest failure   proved   original   "
        "seconds"
    )
    found = [row(seed) for seed in range(models)]
    print(json.dumps({"transformer_lens": VERSION, "n_ctx": CONTEXT, "models": found}))


def row(seed: int) -> dict[str, Any]:
    started = time.process_time()
    model = trained(seed)
    training = time.process_time() - started
    right = tested(model)
    started = time.process_time()
    found = tsc.horizon(tsc.from_transformer_lens(model, **READING))
    seconds = time.process_time() - started
    shortest = found.shortest.string if found.shortest else None
    logits = original_logits(model, shortest) if shortest else None
    print(
        f"{seed:4}{training:9.1f} s{right:18,}{found.verified_length:14,}{shortest or 'none':>19}"
        f"{'yes' if found.proved else 'no':>9}"
        f"{'wrong' if logits and logits[0] > logits[1] else 'right':>11}{seconds:10.2f}",
        flush=True,
    )
    return {
        "seed": seed, "right": right, "right_through": found.verified_length,
        "shortest": shortest, "proved": found.proved, "original_logits": logits,
        "training_seconds": round(training, 1), "horizon_seconds": round(seconds, 2),
    }  # fmt: skip


def trained(seed: int, steps: int = STEPS) -> Any:
    model = build(
        seed, positions=False, n_layers=1, d_model=16, d_head=8, n_heads=2, n_ctx=CONTEXT,
        d_vocab=4, d_vocab_out=2, act_fn="gelu", normalization_type=None,
    )  # fmt: skip
    fit(model, batches(seed), steps=steps)
    return model


def batches(seed: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Strings of one length each, from 1 to 20."""
    draws = torch.Generator().manual_seed(seed)
    while True:
        length = int(torch.randint(1, LONGEST + 1, (), generator=draws))
        yield asked(uneven(BATCH, length, draws))


def uneven(strings: int, length: int, draws: torch.Generator) -> Tensor:
    """Strings in which each letter may be frequent, rare or missing."""
    shares = torch.rand(strings, 3, generator=draws)
    shares = shares * (torch.rand(strings, 3, generator=draws) < 0.7)
    shares[shares.sum(1) == 0] = 1.0
    return torch.multinomial(shares, length, replacement=True, generator=draws)


def asked(letters: Tensor) -> tuple[Tensor, Tensor]:
    """Rows of letters with the query behind them, and the right answers."""
    label = (letters == A).any(1) & (letters == B).any(1)
    query = torch.full((len(letters), 1), QUERY)
    return torch.cat([letters, query], dim=1), label.long()


@torch.no_grad()
def original_logits(model: Any, string: str) -> list[float]:
    """The logits for no and yes of the TransformerLens model itself, on one string."""
    letters = Alphabet(3).tokens([string])[0]
    letters = torch.as_tensor([letter - 2 for letter in letters.tolist() if letter >= 2])
    tokens, _ = asked(letters[None])
    return [round(float(logit), 4) for logit in model(tokens)[0, -1]]


@torch.no_grad()
def tested(model: Any) -> int:
    """How many of 10,000 random strings of 20 letters are right."""
    draws = torch.Generator().manual_seed(1)
    uniform = torch.randint(0, 3, (TESTED // 2, LONGEST), generator=draws)
    tokens, label = asked(torch.cat([uniform, uneven(TESTED // 2, LONGEST, draws)]))
    return int((model(tokens)[:, -1].argmax(-1) == label).sum())


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
