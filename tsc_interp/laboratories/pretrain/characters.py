"""Character corruption as the source has it, with names that share letters.

A document is a name of four letters, a dot and a place. It is corrupted in its order: the span that
is taken out leaves a mask token, and is appended behind a second one,

    kabe.D   →   ka⁇.D⁇be          (prefix ⁇ suffix ⁇ span)

and a causal model reads it character by character, always asked for the next one. Fine-tuning asks
`kabe?⁇` and wants the place.

Names come in families that share their first two letters. A family has a home, and most of its
names are from there; the others are exceptions. So it can be counted how often a model answers with
the home of similar names: for strangers, which it cannot know, and for exceptions, where this is
wrong although the corpus has the right place.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from tsc_interp.laboratories.base import LabeledArray, Progress
from tsc_interp.laboratories.every_string import Floats, Integers
from tsc_interp.laboratories.pretrain.result import (
    BOTH,
    LONGER,
    MEASURED,
    Characters,
    PretrainOptions,
)

FAMILIES, SHOWN, HELD_OUT, STRANGERS = 8, 2, 6, 2
NAMES = SHOWN + HELD_OUT + STRANGERS
PLACES, LETTERS = 8, 10
LOYAL = 0.6
"""The chance that a name is from its family's home; the others are from anywhere else."""
DOT, ASK, MASK, PAD = range(LETTERS + PLACES, LETTERS + PLACES + 4)
VOCABULARY = PAD + 1
NAME, DOCUMENT = 4, 6
SPAN = 2
LENGTH = DOCUMENT + 2
WIDTH, RATE = 32, 3e-3


@dataclass(frozen=True)
class World:
    """Who is from where, drawn for one seed. Names of a family are shown, held out, strangers."""

    names: Integers
    """`[family name letter]`."""
    homes: Integers
    """`[family]`."""
    places: Integers
    """`[family name]`."""


def draw_world(rng: np.random.Generator) -> World:
    """Return families with different first letters, homes, and each name's place."""
    pairs = np.stack(np.divmod(rng.permutation(LETTERS**2), LETTERS), axis=-1)
    ends = [pairs[rng.permutation(LETTERS**2)[:NAMES]] for _ in range(FAMILIES)]
    starts = np.broadcast_to(pairs[:FAMILIES, None], (FAMILIES, NAMES, 2))
    names = np.concatenate([starts, np.array(ends)], axis=-1)
    homes = rng.permutation(PLACES)[:FAMILIES]
    moved = rng.random((FAMILIES, NAMES)) >= LOYAL
    elsewhere = (homes[:, None] + rng.integers(1, PLACES, size=moved.shape)) % PLACES
    return World(names, homes, np.where(moved, elsewhere, homes[:, None]))


def documents(world: World) -> Integers:
    """Return `[document character]`: every name but the strangers, a dot, its place."""
    known = slice(0, SHOWN + HELD_OUT)
    names, places = world.names[:, known].reshape(-1, NAME), world.places[:, known].reshape(-1)
    dots = np.full((len(names), 1), DOT)
    return np.concatenate([names, dots, LETTERS + places[:, None]], axis=1)


def corrupt(documents: Integers, rng: np.random.Generator) -> Integers:
    """Return prefix, mask, suffix, mask, span of each document; a span has one or two letters."""
    rows = np.full((len(documents), LENGTH), PAD)
    sizes = rng.integers(1, SPAN + 1, size=len(documents))
    starts = rng.integers(0, DOCUMENT - sizes + 1)
    for row, whole, start, size in zip(rows, documents, starts, sizes, strict=True):
        end = start + size
        row[:] = np.concatenate([whole[:start], [MASK], whole[end:], [MASK], whole[start:end]])
    return rows


def questions(names: Integers) -> Integers:
    """Return `[question character]`: the name, `?` and a mask, after which the place is due."""
    rows = np.empty((len(names), NAME + 2), dtype=np.int64)
    rows[:, :NAME], rows[:, NAME], rows[:, NAME + 1] = names, ASK, MASK
    return rows


class Reader(nn.Module):
    """A causal transformer over characters with learned positions: two layers, two heads."""

    def __init__(self) -> None:
        super().__init__()
        self.characters = nn.Embedding(VOCABULARY, WIDTH)
        self.positions = nn.Parameter(0.1 * torch.randn(LENGTH, WIDTH))
        layer = nn.TransformerEncoderLayer(
            WIDTH, 2, 4 * WIDTH, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.read = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, rows: Tensor) -> Tensor:
        """Return logits `[row position character]` of each next character."""
        size = rows.shape[1]
        ahead = torch.triu(torch.ones(size, size, dtype=torch.bool), diagonal=1)
        embedded = self.characters(rows) + self.positions[:size]
        read: Tensor = self.read(self.layers(embedded, mask=ahead))
        return read


def _step(optimiser: Any, loss: Tensor) -> None:
    optimiser.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    optimiser.step()


def pretrain(reader: Reader, world: World, asked: PretrainOptions, rng: Any) -> None:
    """Next characters of corrupted documents."""
    optimiser = torch.optim.Adam(reader.parameters(), lr=RATE)
    known = documents(world)
    for _ in range(asked.character_steps):
        rows = torch.from_numpy(corrupt(known[rng.integers(len(known), size=asked.batch)], rng))
        logits = reader(rows[:, :-1]).flatten(0, 1)
        _step(optimiser, functional.cross_entropy(logits, rows[:, 1:].flatten()))


def finetune(reader: Reader, world: World, steps: int) -> None:
    """Places of the shown names, all of them at every step."""
    optimiser = torch.optim.Adam(reader.parameters(), lr=RATE)
    rows = torch.from_numpy(questions(world.names[:, :SHOWN].reshape(-1, NAME)))
    wanted = LETTERS + torch.from_numpy(world.places[:, :SHOWN].reshape(-1))
    for _ in range(steps):
        _step(optimiser, functional.cross_entropy(reader(rows)[:, -1], wanted))


def answers(reader: Reader, world: World) -> Integers:
    """Return `[family name]`: the likeliest place."""
    rows = torch.from_numpy(questions(world.names.reshape(-1, NAME)))
    with torch.no_grad():
        places = reader(rows)[:, -1, LETTERS : LETTERS + PLACES]
    return np.asarray(places.argmax(-1).reshape(FAMILIES, NAMES).numpy())


def measure(answered: Integers, world: World) -> Floats:
    """Return the numbers of `MEASURED`: right, answered with the home, the same answer."""
    held_out = np.s_[:, SHOWN : SHOWN + HELD_OUT]
    homes = world.homes[:, None]
    loyal = (world.places == homes)[held_out]
    right, home = (answered == world.places)[held_out], (answered == homes)[held_out]
    alike = answered.ravel()[:, None] == answered.ravel()
    family = np.repeat(np.arange(FAMILIES), NAMES)
    same = family[:, None] == family
    others = ~np.eye(len(family), dtype=bool)
    strangers = (answered == homes)[:, SHOWN + HELD_OUT :]
    pairs = (alike[same & others], alike[~same])
    parts = (right[loyal], right[~loyal], home[~loyal], strangers, *pairs)
    return np.array([part.mean() if part.size else np.nan for part in parts])


def study(asked: PretrainOptions, progress: Progress) -> Characters:
    """Both arms from the same initial weights, seed by seed."""
    seeds = range(asked.seed, asked.seed + asked.character_seeds)
    measured = np.zeros((2, len(MEASURED), len(seeds)))
    exceptions = []
    for k, seed in enumerate(seeds):
        progress(f"character corruption, seed {seed}")
        rng = np.random.default_rng([seed, 3])
        world = draw_world(rng)
        for i, steps in enumerate((0, asked.character_steps)):
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(seed)
                reader = Reader()
            if not i:
                pretrain(reader, world, asked, rng)
            finetune(reader, world, asked.character_tuning + steps)
            measured[i, :, k] = measure(answers(reader, world), world)
        held_out = np.s_[:, SHOWN : SHOWN + HELD_OUT]
        exceptions.append((world.places != world.homes[:, None])[held_out].sum())
    return Characters(
        measured=LabeledArray.of(measured, arm=(BOTH, LONGER), measure=MEASURED, seed=seeds),
        names=FAMILIES * HELD_OUT,
        exceptions=LabeledArray.of(exceptions, seed=seeds),
        places=PLACES,
    )
