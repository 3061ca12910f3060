"""When does pre-training on corrupted text help, and what does it leave behind?

The source asks for the birth places of persons. Here a document is a name of four letters, a dot
and a place. It is corrupted as the source does: the span that is taken out leaves a mask token, and
is appended behind a second one,

    kabe.D   →   ka⁇.D⁇be          (prefix ⁇ suffix ⁇ span)

and a causal model with two layers and learned positions reads it character by character, always
asked for the next one. Fine-tuning asks `kabe?⁇` and wants the place.

Names come in families that share their first two letters. A family has a home, and most of its
names are from there; the others, the exceptions, are from anywhere else. Fine-tuning asks for some
names of each family; the corpus also has names that fine-tuning never asks for (held out), and
strangers occur nowhere. So it can be counted how often a model answers right, and how often it
answers with the home of similar names: for strangers, which it cannot know, and for exceptions,
where this is wrong although the corpus has the right place.

Three arms begin with the same weights, seed by seed: corruption and then fine-tuning, fine-tuning
alone, and fine-tuning alone for as many steps as both together. The source's constant answer is the
most frequent place of the names asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tsc_interp.laboratories.base import (
    Finding,
    LabeledArray,
    LabOptions,
    LabResult,
    Progress,
    option,
)
from tsc_interp.results.intervals import mean_interval, sign_test, told_mean
from tsc_interp.results.views import Heat, shown

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
BOTH, ALONE, LONGER = "corruption, fine-tuning", "fine-tuning alone", "alone, as many steps"
ARMS = (BOTH, ALONE, LONGER)
RIGHT = ("right", "right, like the family", "right, exceptions")
SIMILAR = (
    "home, exceptions", "home, strangers", "same answer, one family", "same answer, two families",
)  # fmt: skip
SURE = ("sure of held-out names", "sure of strangers")
MEASURED = (*RIGHT, *SIMILAR, *SURE)
"""Of held-out names, of strangers, and of pairs of names; the mean probability of answers."""

FAMILIES, SHOWN, HELD_OUT, STRANGERS = 8, 2, 6, 2
NAMES = SHOWN + HELD_OUT + STRANGERS
PLACES, LETTERS = 8, 10
LOYAL = 0.6
"""The chance that a name is from its family's home."""
DOT, ASK, MASK, PAD = range(LETTERS + PLACES, LETTERS + PLACES + 4)
VOCABULARY = PAD + 1
NAME, DOCUMENT = 4, 6
SPAN = 2
LENGTH = DOCUMENT + 2
WIDTH, RATE = 32, 3e-3


class PretrainOptions(LabOptions):
    QUICK: ClassVar = {"seeds": 6, "pretrain_steps": 100, "finetune_steps": 30, "batch": 32}

    seeds: int = option(16, "Models of each arm.", ge=2, le=128)
    seed: int = option(0, "The first of them.", ge=0, lt=2**31)
    pretrain_steps: int = option(600, "Of span corruption.", ge=1, le=50_000)
    finetune_steps: int = option(60, "Of questions about names.", ge=1, le=50_000)
    batch: int = option(64, "Corrupted documents in a step.", ge=1, le=1024)


class PretrainResult(LabResult):
    probe: ClassVar[str] = "pretrain"

    options: PretrainOptions
    measured: LabeledArray
    """`[arm measure seed]`."""
    constant: LabeledArray
    """`[seed]`: right answers about held-out names of who always says the most frequent place."""

    @shown(Heat(
        "Held-out names answered right",
        "Names in the corpus that fine-tuning never asked for, the mean of {result.options.seeds} "
        "seeds; a constant answer is right for {result.constant_share:.0%}.",
        share=True, form=".0%", name="held-out",
    ))  # fmt: skip
    def held_out(self) -> LabeledArray:
        return self._means(RIGHT)

    @shown(Heat(
        "Similar names, similar answers",
        "How often a model answers with the home of the family: for held-out names that are from "
        "elsewhere, and for names it never saw. And how often two names get one answer.",
        share=True, form=".0%", name="similar",
    ))  # fmt: skip
    def similar(self) -> LabeledArray:
        return self._means((*SIMILAR, *SURE))

    @property
    def constant_share(self) -> float:
        return float(self.constant.array.mean())

    def of(self, arm: str, measure: str) -> Floats:
        """`[seed]`, without seeds that have nothing to measure."""
        values = self.measured.at(arm=arm, measure=measure)
        return np.asarray(values[np.isfinite(values)])

    def _means(self, measures: tuple[str, ...]) -> LabeledArray:
        means = [[self.of(arm, measure).mean() for measure in measures] for arm in ARMS]
        return LabeledArray.of(means, training=ARMS, measure=measures)

    def conclude(self) -> Iterator[Finding]:
        yield self._helps()
        yield self._similar()
        yield self._anyway()

    def _helps(self) -> Finding:
        gains = self.measured.at(arm=BOTH, measure="right") - self.measured.at(
            arm=LONGER, measure="right"
        )
        more, less, chance = int((gains > 0).sum()), int((gains < 0).sum()), sign_test(gains)
        both, alone, longer = (told_mean(self.of(arm, "right")) for arm in ARMS)
        low, high = mean_interval(gains)
        verdict = (
            f"{'helps' if more > less else 'harms'}" if chance < 0.05
            else "makes no difference that these seeds show"
        )  # fmt: skip
        return Finding.of(
            f"Where the weights must store facts, pre-training {verdict}: {more} seeds are better "
            f"with it and {less} worse (sign test, p = {chance:.2g}). Of {HELD_OUT * FAMILIES} "
            f"names that fine-tuning never asked for, models answer {both} right after corruption "
            f"and fine-tuning, {alone} after fine-tuning alone, and {longer} after as many steps "
            f"of fine-tuning as both together; a constant answer is right for "
            f"{self.constant_share:.1%}. The gain is {100 * gains.mean():+.0f} points (95% CI "
            f"{100 * low:+.0f} to {100 * high:+.0f}).",
            {"pretrained": float(self.of(BOTH, "right").mean()), "constant": self.constant_share,
             "longer": float(self.of(LONGER, "right").mean()), "p": chance},
            "good" if chance < 0.05 and more > less else "note",
        )  # fmt: skip

    def _similar(self) -> Finding:
        told = {measure: told_mean(self.of(BOTH, measure)) for measure in MEASURED}
        within, across = (self.of(BOTH, measure).mean() for measure in SIMILAR[2:])
        return Finding.of(
            "Similar names get similar answers. After corruption and fine-tuning, two names that "
            f"share their first letters get the same answer in {told[SIMILAR[2]]} of the pairs, "
            f"other pairs in {told[SIMILAR[3]]}. Names in no corpus get the home of their family "
            f"in {told['home, strangers']} of cases (chance: {1 / PLACES:.1%}), and so do "
            f"{told['home, exceptions']} of the held-out names that are from elsewhere. This "
            f"raises the score: held-out names from the home are answered right in "
            f"{told[RIGHT[1]]}, the others in {told[RIGHT[2]]}.",
            {name: float(self.of(BOTH, name).mean()) for name in (*RIGHT, *SIMILAR)},
            "warning" if within > across else "note",
        )

    def _anyway(self) -> Finding:
        strangers, known = (told_mean(self.of(BOTH, measure)) for measure in SURE[::-1])
        alone = told_mean(self.of(LONGER, SURE[0]))
        return Finding.of(
            "A model asked what it never learned answers anyway. To its answers about names that "
            f"occur nowhere a pre-trained model gives a probability of {strangers} on average, to "
            f"those about held-out names {known}; after as many steps of fine-tuning alone it is "
            f"{alone} for held-out names, which such a model never saw.",
            {measure: float(self.of(BOTH, measure).mean()) for measure in SURE},
            "warning",
        )


# -- names, families, places -----------------------------------------------------------------------


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
    ends = np.broadcast_to([ASK, MASK], (len(names), 2))
    return np.concatenate([names, ends], axis=1)


def constant_answer(world: World) -> float:
    """The share of held-out names that are from the shown names' most frequent place."""
    asked = np.bincount(world.places[:, :SHOWN].ravel(), minlength=PLACES)
    return float((world.places[:, SHOWN : SHOWN + HELD_OUT] == asked.argmax()).mean())


def measure(answered: Integers, sure: Floats, world: World) -> Floats:
    """Return the numbers of `MEASURED`; NaN where there is nothing to measure."""
    held_out = np.s_[:, SHOWN : SHOWN + HELD_OUT]
    strangers = np.s_[:, SHOWN + HELD_OUT :]
    homes = world.homes[:, None]
    loyal = (world.places == homes)[held_out]
    right, home = (answered == world.places)[held_out], answered == homes
    alike = answered.ravel()[:, None] == answered.ravel()
    family = np.repeat(np.arange(FAMILIES), NAMES)
    same = family[:, None] == family
    others = ~np.eye(len(family), dtype=bool)
    parts = (right, right[loyal], right[~loyal], home[held_out][~loyal], home[strangers],
             alike[same & others], alike[~same], sure[held_out], sure[strangers])  # fmt: skip
    return np.array([part.mean() if part.size else np.nan for part in parts])


# -- models and training ---------------------------------------------------------------------------


def new_reader(seed: int) -> Any:
    """A causal transformer over characters with learned positions: two layers, two heads."""
    import torch
    from torch import Tensor, nn

    class Reader(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.characters = nn.Embedding(VOCABULARY, WIDTH)
            self.positions = nn.Parameter(0.1 * torch.randn(LENGTH, WIDTH))
            layer = nn.TransformerEncoderLayer(
                WIDTH, 2, 4 * WIDTH, dropout=0.0, activation="gelu", batch_first=True,
                norm_first=True,
            )  # fmt: skip
            self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
            self.read = nn.Linear(WIDTH, VOCABULARY)

        def forward(self, rows: Tensor) -> Tensor:
            """Return logits `[row position character]` of each next character."""
            size = rows.shape[1]
            ahead = torch.triu(torch.ones(size, size, dtype=torch.bool), diagonal=1)
            embedded = self.characters(rows) + self.positions[:size]
            read: Tensor = self.read(self.layers(embedded, mask=ahead))
            return read

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Reader()


def train(reader: Any, batches: Iterator[tuple[Integers, Integers]]) -> None:
    """Rows and what follows each of their last characters."""
    import torch
    from torch.nn import functional

    from tsc_interp.laboratories.trained import descend

    def losses() -> Iterator[Any]:
        for rows, wanted in batches:
            logits = reader(torch.from_numpy(rows))[:, -wanted.shape[1] :].flatten(0, 1)
            yield functional.cross_entropy(logits, torch.from_numpy(wanted).flatten())

    descend(reader.parameters(), losses(), RATE)


def corrupted(
    world: World, asked: PretrainOptions, rng: np.random.Generator
) -> Iterator[tuple[Integers, Integers]]:
    known = documents(world)
    for _ in range(asked.pretrain_steps):
        rows = corrupt(known[rng.integers(len(known), size=asked.batch)], rng)
        yield rows[:, :-1], rows[:, 1:]


def run(asked: PretrainOptions, progress: Progress) -> PretrainResult:
    import torch

    from tsc_interp.model.threads import one_thread

    seeds = range(asked.seed, asked.seed + asked.seeds)
    measured = np.zeros((len(ARMS), len(MEASURED), len(seeds)))
    worlds = []
    for k, seed in enumerate(seeds):
        progress(f"character corruption and fine-tuning, seed {seed}")
        rng = np.random.default_rng([seed, 3])
        world = draw_world(rng)
        worlds.append(world)
        question = questions(world.names[:, :SHOWN].reshape(-1, NAME))
        place = LETTERS + world.places[:, :SHOWN].reshape(-1, 1)
        every = torch.from_numpy(questions(world.names.reshape(-1, NAME)))
        for i, arm in enumerate(ARMS):
            reader = new_reader(seed)
            steps = asked.finetune_steps + (asked.pretrain_steps if arm == LONGER else 0)
            with one_thread():
                if arm == BOTH:
                    train(reader, corrupted(world, asked, rng))
                train(reader, ((question, place) for _ in range(steps)))
                with torch.no_grad():
                    chances = reader(every)[:, -1].softmax(-1)[:, LETTERS : LETTERS + PLACES]
            sure, answered = (part.reshape(FAMILIES, NAMES).numpy() for part in chances.max(-1))
            measured[i, :, k] = measure(answered, sure.astype(np.float64), world)
    return PretrainResult(
        options=asked,
        measured=LabeledArray.of(measured, arm=ARMS, measure=MEASURED, seed=seeds),
        constant=LabeledArray.of([constant_answer(world) for world in worlds], seed=seeds),
    )
