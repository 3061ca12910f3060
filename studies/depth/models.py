"""The models of the study: two public ones, and two that are trained here in a minute."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from studies.gallery.claims import CLAIMS, Rows
from studies.gallery.run import load
from studies.lens import build
from tsc_interp.falsification.network import Network, of_transformer_lens
from tsc_interp.frames.frame import Frame

PLACES, LETTERS = 12, 6


@dataclass(frozen=True)
class Subject:
    """A model and what it is asked."""

    name: str
    network: Network
    label: Callable[[Any], Rows]
    before: tuple[int, ...]
    after: tuple[int, ...]
    read: int
    letters: tuple[int, ...]
    draw: Callable[[np.random.Generator], NDArray[np.int64]]
    """Letters of an input around which boxes are made."""

    def frame(self, word: NDArray[np.int64], free: list[int]) -> Frame:
        """All inputs that differ from a word at some places only."""
        sets = [self.letters if i in free else (int(one),) for i, one in enumerate(word)]
        return Frame(before=self.before, places=len(word), letters=sets, after=self.after,
                     read=self.read)  # fmt: skip


def high(rows: Any) -> Rows:
    """1 where the letters, as numbers, add up to more than 30 of 60."""
    return np.asarray(np.asarray(rows)[:, 1:].sum(axis=1) > 5 * PLACES // 2, dtype=np.int64)


def subjects(folder: Path | None, only: str | None) -> list[Subject]:
    """Trained ones, and those of the public ones that the folder holds."""
    found = [_trained(layers) for layers in (2, 3) if only in (None, f"sums, {layers} layers")]
    files = {hashlib.sha256(one.read_bytes()).hexdigest()[:16]: one
             for one in (folder.glob("*.pt") if folder else ())}  # fmt: skip
    for key, path in sorted(files.items()):
        claim = CLAIMS.get(key)
        if claim is None or claim.name not in (
            {"palindromes", "brackets"} if only is None else {only}
        ):
            continue
        network = of_transformer_lens(load(path, claim))
        if claim.name == "palindromes":
            found.append(Subject(claim.name, network, claim.label, (31,), (32,), -1,
                                 tuple(range(31)), _one_pair_wrong))  # fmt: skip
        else:
            found.append(Subject(claim.name, network, claim.label, (0,), (2,), 0, (3, 4),
                                 _equal_numbers))  # fmt: skip
    return found


def _one_pair_wrong(rng: np.random.Generator) -> NDArray[np.int64]:
    half = rng.integers(0, 31, 10)
    word = np.concatenate([half, half[::-1]])
    pair = rng.integers(0, 10)
    word[pair] = (word[pair] + rng.integers(1, 31)) % 31
    return word


def _equal_numbers(rng: np.random.Generator) -> NDArray[np.int64]:
    return rng.permuted(np.array([3] * 20 + [4] * 20))


def _trained(layers: int) -> Subject:
    """400 steps of AdamW from a fixed seed."""
    torch.manual_seed(layers)
    model = build(
        layers, n_layers=layers, n_ctx=PLACES + 1, d_model=16, d_head=8, n_heads=2, d_mlp=32,
        act_fn="relu", d_vocab=LETTERS + 1, d_vocab_out=2, normalization_type="LN",
        attention_dir="bidirectional",
    )  # fmt: skip
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.1)
    rng = np.random.default_rng(layers)
    for step in range(400):
        rows = torch.from_numpy(_rows(rng, 128))
        loss = torch.nn.functional.cross_entropy(model(rows)[:, 0], torch.from_numpy(high(rows)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step == 300:
            optimizer.param_groups[0]["lr"] = 3e-4
    return Subject(f"sums, {layers} layers", of_transformer_lens(model), high, (LETTERS,), (), 0,
                   tuple(range(LETTERS)), lambda rng: rng.integers(0, LETTERS, PLACES))  # fmt: skip


def _rows(rng: np.random.Generator, count: int) -> NDArray[np.int64]:
    letters = rng.integers(0, LETTERS, size=(count, PLACES))
    return np.hstack([np.full((count, 1), LETTERS), letters])
