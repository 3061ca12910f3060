"""A marker classifier made with TransformerLens's own training tool: imported, verified, proved.

Run by `python -m studies.markers.run [seed...]`, under TransformerLens 3.x or 4.x. A row is up to 8
words, two of which are markers, then `?`, then the answer: yes if an opening marker stands before
any closing one. `transformer_lens.train` (4.x: `tools.training`) trains on such rows as on any
language, so the model also learns that words are random. What it answers after `?` is imported
(`query=`, `classes=`), and `tsc.verify` decides every string of 1 to 8 words: 2,015,538 of
them. TransformerLens's own forward pass looks at each of them, too. Times are CPU seconds.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import time
from typing import Any

import torch
from torch import Tensor

os.environ.setdefault("TQDM_DISABLE", "1")

import tsc_interp as tsc
from studies.lens import VERSION, build
from tsc_interp.rules import Before

WORDS = ("<", ">", "red", "green", "blue", "grey")
QUERY, NO, YES, END = range(len(WORDS), len(WORDS) + 4)
LONGEST, ROWS = 8, 60_000
READING = {
    "tokens": dict(enumerate(WORDS)), "query": QUERY, "classes": (NO, YES),
    "task": Before(first="a", second="b"),
}  # fmt: skip
SEEDS = (0, 1, 2)


def main(seeds: tuple[int, ...]) -> None:
    torch.set_num_threads(1)
    print(f"an opening marker before any closing one, TransformerLens {VERSION}\n")
    print("seed   training     wrong   by TransformerLens   right up to   search   forward passes"
          "   proof   first error")  # fmt: skip
    found = [_row(seed) for seed in seeds]
    print(json.dumps({"transformer_lens": VERSION, "models": found}))


def _row(seed: int) -> dict[str, Any]:
    started = time.process_time()
    model = trained(seed)
    training = time.process_time() - started
    checkpoint = tsc.from_transformer_lens(model, **READING)
    started = time.process_time()
    verdict = tsc.verify(checkpoint, LONGEST)
    search = time.process_time() - started
    started = time.process_time()
    asked = sum(wrong_in_float32(model, length) for length in range(1, LONGEST + 1))
    passes = time.process_time() - started
    started = time.process_time()
    proof = tsc.verify(checkpoint, LONGEST, certify=True).certificate
    proving = time.process_time() - started
    assert proof is not None
    first = " ".join(verdict.shortest.tokens) if verdict.shortest else "none"
    print(
        f"{seed:4}{training:9.1f} s{verdict.wrong:10,}{asked:21,}"
        f"{verdict.verified_length:14}{search:9.2f}{passes:17.1f}{proving:8.2f}   {first}",
        flush=True,
    )
    return {
        "seed": seed, "wrong": [one.wrong for one in verdict.lengths], "asked": asked,
        "undecided": verdict.undecided, "first": first, "proved": list(proof.proved),
        "right_through": verdict.verified_length, "training_seconds": round(training, 1),
        "search_seconds": round(search, 2), "forward_seconds": round(passes, 1),
        "proof_seconds": round(proving, 2), "strings": verdict.strings,
    }  # fmt: skip


# -- training by TransformerLens ---------------------------------------------------------------


class Rows(torch.utils.data.Dataset[dict[str, Tensor]]):
    """What TransformerLens's loop asks for: rows of tokens, one after the other."""

    def __init__(self, seed: int, number: int = ROWS) -> None:
        draws = torch.Generator().manual_seed(seed)
        length = torch.randint(1, LONGEST + 1, (number,), generator=draws)
        markers = torch.rand(number, 1, generator=draws)  # how many words are markers
        kind = torch.rand(number, LONGEST, generator=draws)
        words = torch.randint(2, len(WORDS), (number, LONGEST), generator=draws)
        words = torch.where(kind < markers, torch.where(kind < markers / 2, 0, 1), words)
        self.tokens = torch.full((number, LONGEST + 2), END)
        self.tokens[:, :LONGEST] = words
        places = torch.arange(LONGEST + 2)
        self.tokens[places > length[:, None]] = END
        self.tokens[places == length[:, None]] = QUERY
        rows, answer = torch.arange(number), label_of(self.tokens)
        self.tokens[rows, length + 1] = torch.where(answer, YES, NO)

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        return {"tokens": self.tokens[index]}


def label_of(rows: Tensor) -> Tensor:
    """Whether the first marker is there, and opens."""
    marker = (rows == 0) | (rows == 1)
    first = marker.int().argmax(1)
    return torch.as_tensor(rows[torch.arange(len(rows)), first] == 0)


def trained(seed: int, rows: int = ROWS) -> Any:
    model = build(
        seed, n_layers=1, n_heads=1, d_model=16, d_head=16, n_ctx=LONGEST + 2, d_vocab=END + 1,
        attn_only=True, normalization_type=None,
    )  # fmt: skip
    options = {
        "num_epochs": 4, "batch_size": 64, "lr": 1e-2, "seed": seed, "device": "cpu",
        "print_every": None,
    }  # fmt: skip
    with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
        if VERSION.startswith("3"):
            from transformer_lens.train import HookedTransformerTrainConfig, train

            train(model, HookedTransformerTrainConfig(**options), Rows(seed, rows))
        else:
            from transformer_lens.tools.training import TrainConfig, train

            train(model, TrainConfig(**options), Rows(seed, rows))
    return model.eval()


@torch.no_grad()
def wrong_in_float32(model: Any, length: int) -> int:
    """Of all strings of a length, how many TransformerLens itself answers wrongly."""
    wrong = 0
    every = torch.cartesian_prod(*(torch.arange(len(WORDS)),) * length).reshape(-1, length)
    for words in every.split(1 << 14):
        query = torch.full((len(words), 1), QUERY)
        out = model(torch.cat([words, query], dim=1))[:, -1]
        wrong += int(((out[:, YES] > out[:, NO]) != label_of(words)).sum())
    return wrong


if __name__ == "__main__":
    main(tuple(map(int, sys.argv[1:])) or SEEDS)
