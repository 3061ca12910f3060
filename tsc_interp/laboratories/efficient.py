"""What do cheaper forms of attention cost, and what is exact at no cost?

Full attention over n positions takes n² steps. The sources cut this to a multiple of n:

    Linformer   the pattern has nearly low rank, so keys and values are first mixed into a few by a
                linear projection, learned with the model
    BigBird     each position reads its neighbours (a window) and a few random positions, and a few
                global positions read everything and are read by all

**Low rank, exactly.** Without positions all copies of a letter have the same key, so the rank of
the n × n pattern is at most the number of letters, for every n. The laboratory cuts a trained
classifier's pattern to its largest singular values and counts, over every string up to a length,
how many answers flip.

**Paths.** After L layers a state depends on positions at most L links away, whatever the weights.
So the layers that BigBird's parts need until CLS depends on every letter, or every letter on every
other, are lengths of paths. A letter that CLS cannot reach is unread: strings that differ only
there have the same answer, so one of the two is wrong where the label differs.

**Trained.** Models with two layers and learned positions are trained with each form. Strings have
two letters that are not c, at random places: one a and one b, or two a's, or two b's. Half have
both, so a constant answer is right in half. Where CLS reaches only some places in two layers, a
model can know the answer only if both letters stand there: this gives the best accuracy possible.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tsc_interp.errors import UnsupportedError
from tsc_interp.laboratories.base import (
    Finding,
    LabeledArray,
    LabOptions,
    LabResult,
    Progress,
    option,
)
from tsc_interp.results.intervals import told_mean
from tsc_interp.results.views import Heat, Lines, shown

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]
WINDOW, RANDOM, READS, READ, EVERY = PARTS = (
    "window",
    "window, random",
    "window, CLS reads all",
    "window, CLS reads all and is read",
    "window, random, CLS reads all and is read",
)
_OF = {  # random links, CLS reads all, letters read CLS
    WINDOW: (False, False, False),
    RANDOM: (True, False, False),
    READS: (False, True, False),
    READ: (False, True, True),
    EVERY: (True, True, True),
}
TARGETS = ("CLS depends on every letter", "every letter depends on every other")
FULL, LINFORMER = "full", "Linformer"
TRAINED = (FULL, WINDOW, RANDOM, READ, EVERY, LINFORMER)
SIDE, RANDOM_LINKS = 3, 2
"""Positions read on either side, and anywhere, by each position."""
LAYERS, WIDTH, HEADS = 2, 32, 2
CHANCE = 0.5


class EfficientOptions(LabOptions):
    QUICK: ClassVar = {"seeds": 2, "steps": 120, "length": 16, "lengths": (16, 64), "test": 1000,
                       "max_length": 16}  # fmt: skip

    model: str = option("walkthrough", "Whose pattern is cut: a bundled model, a file or a run.")
    max_length: int = option(60, "Low rank is for every string up to it.", ge=2, le=120)
    lengths: tuple[int, ...] = option((16, 64, 256), "Letters of the graphs.", min_length=1)
    seeds: int = option(4, "Two-layer models of each form.", ge=1, le=64)
    seed: int = option(0, "The first of them, and of the random links.", ge=0)
    length: int = option(32, "Letters of the strings they are trained on.", ge=8, le=128)
    budget: int = option(8, "Rows of Linformer's projection.", ge=1, le=64)
    steps: int = option(400, "Of training, 64 strings each.", ge=1, le=20_000)
    test: int = option(4000, "Strings to test with.", ge=100, le=100_000)


class EfficientResult(LabResult):
    probe: ClassVar[str] = "efficient"

    options: EfficientOptions
    layers: LabeledArray
    """`[parts length target]`: the least number of layers."""
    ranks: LabeledArray
    """`[rank statistic]`: over every vector of counts: flipped answers, and the largest error."""
    right: LabeledArray
    """`[form seed]`: the accuracy of two-layer models."""
    best: LabeledArray
    """`[form seed]`: the best possible, by which places CLS reaches in two layers."""

    @shown(Lines(
        "Layers until every letter can depend on every other",
        "Each position reads 3 neighbours on either side, and 2 random ones; whatever the weights.",
        x="letters", y="layers", form=".0f", log_x=True, name="layers",
    ))  # fmt: skip
    def pairs(self) -> LabeledArray:
        lengths = self.layers.labels["length"]
        return LabeledArray.of(self.layers.at(target=TARGETS[1]), parts=PARTS, length=lengths)

    @shown(Heat(
        "Two trained layers",
        "Accuracy on strings of {result.options.length} letters, the mean of "
        "{result.options.seeds} seeds, beside the best that its links allow. A constant answer has "
        "50 %.",
        share=True, form=".1%", name="trained",
    ))  # fmt: skip
    def trained(self) -> LabeledArray:
        both = np.stack([one.array.mean(axis=1) for one in (self.right, self.best)], axis=1)
        return LabeledArray.of(both, form=TRAINED, accuracy=("trained", "best possible"))

    @shown(Heat(
        "The pattern cut to a rank",
        "Every vector of counts up to {result.options.max_length} letters: answers that flip, and "
        "the largest error of a logit.",
        form=".3g", name="rank",
    ))  # fmt: skip
    def by_rank(self) -> LabeledArray:
        return self.ranks

    def conclude(self) -> Iterator[Finding]:
        yield self._layers()
        yield self._trained()
        yield self._unread()
        yield self._rank()

    def _layers(self) -> Finding:
        length = self.layers.labels["length"][-1]
        heard, pairs = (
            dict(zip(PARTS, map(int, self.layers.at(length=length, target=t)), strict=True))
            for t in TARGETS
        )
        return Finding.of(
            f"How many layers BigBird's parts need at {length} letters, for any weights: for CLS "
            f"to depend on every letter, a window alone needs {heard[WINDOW]} layers, "
            f"{heard[RANDOM]} with random links, and {heard[READS]} if CLS reads everything. For "
            f"every letter to depend on every other, the numbers are {pairs[WINDOW]}, "
            f"{pairs[RANDOM]} and {pairs[READS]}; if letters also attend to CLS it takes "
            f"{pairs[READ]} layers ({pairs[EVERY]} with random links as well). These are lower "
            "bounds; training may need more.",
            {f"every other: {parts}": count for parts, count in pairs.items()},
        )

    def _trained(self) -> Finding:
        told = "; ".join(f"{form} {told_mean(self.right.at(form=form), 1)}" for form in TRAINED)
        means = {form: float(self.right.at(form=form).mean()) for form in TRAINED}
        best = float(self.best.at(form=WINDOW).mean())
        return Finding.of(
            f"Two layers trained with each form, {self.options.steps} steps on strings of "
            f"{self.options.length} letters, {self.options.seeds} seeds (a constant answer is "
            f"right in {CHANCE:.0%}): {told}. Linformer mixes {self.options.length + 1} positions "
            f"into {self.options.budget}. With a window alone no model can exceed {best:.1%}.",
            dict(means.items()),
        )

    def _unread(self) -> Finding:
        reach = {form: float(self.best.at(form=form).mean()) for form in (WINDOW, RANDOM)}
        worst = float((self.right.array - self.best.array).max())
        return Finding.of(
            "A letter that CLS cannot reach is unread: two strings that differ only there have "
            "the same answer, and one of them is wrong if their labels differ. In one layer a CLS "
            "that reads b letters is therefore wrong at b + 1. In two layers the best possible "
            f"accuracy is {reach[WINDOW]:.1%} with a window alone and {reach[RANDOM]:.1%} with "
            "random links, on average; no trained model exceeds its own best by more than "
            f"{max(worst, 0):.1%} (a test of {self.options.test:,} strings).",
            {**reach, "above": worst},
            "good" if worst < 2 / math.sqrt(self.options.test) else "failure",
        )

    def _rank(self) -> Finding:
        error, flips = (self.ranks.at(statistic=s) for s in ("largest error", "flips"))
        told = "; ".join(
            f"rank {rank}: {flip:.1%} of the count vectors flip, a logit is up to {miss:.2g} off"
            for rank, flip, miss in zip(self.ranks.labels["rank"], flips, error, strict=True)
        )
        return Finding.of(
            f"Without positions the n × n attention pattern has rank at most {len(error)}, the "
            "size of the alphabet, for every n: Linformer's premise holds exactly. Over all "
            f"strings of up to {self.options.max_length} letters ({self.options.model}): {told}.",
            {"largest error at full rank": float(error[-1]), "flips at rank 1": float(flips[0])},
            "good",
        )


# -- paths -----------------------------------------------------------------------------------------


def links(parts: str, length: int, rng: np.random.Generator) -> Flags:
    """Return `[query key]`: who reads whom, CLS at 0 and then the letters."""
    anywhere, reads_all, is_read = _OF[parts]
    places = np.arange(length + 1)
    linked = np.abs(places[:, None] - places) <= SIDE
    if anywhere:
        chosen = rng.integers(length + 1, size=(length + 1, RANDOM_LINKS))
        linked[places[:, None], chosen] = True
    # Only the global part makes letters read CLS, or CLS read what is not next to it.
    linked[1:, 0] = is_read
    linked[0] |= reads_all
    return np.asarray(linked)


def distances(linked: Flags) -> Floats:
    """Return `[query key]`: the least number of layers until one depends on the other."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import shortest_path

    return np.asarray(shortest_path(csr_array(linked), unweighted=True))


def layers_needed(linked: Flags) -> tuple[float, float]:
    """Return the layers until CLS depends on every letter, and every letter on every other."""
    away = distances(linked)
    return float(away[0, 1:].max()), float(away[1:, 1:].max())


def best_possible(linked: Flags, layers: int) -> float:
    """The accuracy of who knows the letters that CLS reaches: unless it sees both, it guesses."""
    places = len(linked) - 1
    reached = int((distances(linked)[0, 1:] <= layers).sum())
    return (1 + math.comb(reached, 2) / math.comb(places, 2)) / 2


# -- two layers, trained ---------------------------------------------------------------------------


def strings(rng: np.random.Generator, count: int, length: int) -> tuple[Integers, Floats]:
    """Token rows (CLS 0, a 1, b 2, c 3) and labels: one a and one b, or two of one of them."""
    rows = np.full((count, length + 1), 3)
    rows[:, 0] = 0
    places = 1 + rng.random((count, length)).argsort(axis=1)[:, :2]
    label, first = rng.integers(2, size=(2, count))
    np.put_along_axis(rows, places[:, :1], 1 + first[:, None], axis=1)
    np.put_along_axis(rows, places[:, 1:], 1 + (first ^ label)[:, None], axis=1)
    return rows, label.astype(np.float64)


def two_layers(linked: Flags | None, length: int, budget: int, seed: int) -> Any:
    """A transformer read at CLS; `linked` masks its attention, else Linformer projects it."""
    import torch
    from torch import Tensor, nn

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))
            self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
            self.mlp = nn.Sequential(
                nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
            )
            self.mix = None
            if linked is None:  # of keys and of values
                drawn = torch.randn(2, budget, length + 1) / math.sqrt(budget)
                self.mix = nn.Parameter(drawn)

        def forward(self, x: Tensor) -> Tensor:
            q, k, v = (
                part.unflatten(-1, (HEADS, -1)) for part in self.qkv(self.norms[0](x)).chunk(3, -1)
            )
            if self.mix is not None:
                k, v = (torch.einsum("bp,sphd->sbhd", m, part)
                        for m, part in zip(self.mix, (k, v), strict=True))  # fmt: skip
            scores = torch.einsum("sqhd,skhd->shqk", q, k) / math.sqrt(WIDTH / HEADS)
            if linked is not None:
                scores = scores.masked_fill(~torch.from_numpy(linked), -math.inf)
            z = torch.einsum("shqk,skhd->sqhd", scores.softmax(-1), v).flatten(-2)
            x = x + self.out(z)
            after: Tensor = x + self.mlp(self.norms[1](x))
            return after

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tokens = nn.Embedding(4, WIDTH)
            self.positions = nn.Parameter(0.1 * torch.randn(length + 1, WIDTH))
            self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
            self.read = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 1))

        def forward(self, rows: Tensor) -> Tensor:
            logits: Tensor = self.read(self.blocks(self.tokens(rows) + self.positions)[:, 0])
            return logits[:, 0]

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Model()


def accuracy(form: str, asked: EfficientOptions, seed: int) -> tuple[float, float]:
    """Train one model; how often it is right, and the best that its links allow."""
    import torch

    n = asked.length
    every = np.ones((n + 1, n + 1), dtype=bool)
    linked = links(form, n, np.random.default_rng([seed, 8])) if form in PARTS else every
    model = two_layers(None if form == LINFORMER else linked, n, asked.budget, seed)
    rng = np.random.default_rng([seed, 9])
    optimiser = torch.optim.Adam(model.parameters(), lr=2e-3)
    rate = torch.optim.lr_scheduler.LinearLR(optimiser, 1.0, 0.02, total_iters=asked.steps)
    for _ in range(asked.steps):
        tokens, wanted = map(torch.from_numpy, strings(rng, 64, n))
        loss = torch.nn.functional.binary_cross_entropy_with_logits(model(tokens).double(), wanted)
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        rate.step()
    rows, labels = strings(np.random.default_rng([seed, 10]), asked.test, n)
    with torch.no_grad():
        parts = [model(part).numpy() for part in torch.split(torch.from_numpy(rows), 500)]
    return float(((np.concatenate(parts) > 0) == labels).mean()), best_possible(linked, LAYERS)


# -- low rank --------------------------------------------------------------------------------------


def low_rank_errors(asked: EfficientOptions) -> LabeledArray:
    """`[rank statistic]`: of the model over every vector of counts up to a length."""
    import torch

    from tsc_interp.checkpoints.resolve import as_checkpoint
    from tsc_interp.construction.bound import beyond_plain
    from tsc_interp.laboratories.every_string import vectors_up_to
    from tsc_interp.model.classifier import Classifier

    checkpoint = as_checkpoint(asked.model)
    config = checkpoint.config
    if obstacles := beyond_plain(config):
        raise UnsupportedError(
            "the efficient laboratory cuts one layer of plain softmax attention without positions "
            f"or norms, CLS reading letters only; this model has {', '.join(obstacles)}"
        )
    model = Classifier.from_checkpoint(checkpoint).double()
    counts = vectors_up_to(config.n_letters, asked.max_length)
    with torch.no_grad():
        cache = model.run_with_cache(model.counts(np.ones((1, config.n_letters), np.int64)))[1]
        q, k = (cache[f"blocks.0.attn.hook_{part}"][0].numpy() for part in "qk")
        full = model(model.counts(counts)).numpy()
        scores = np.einsum("qhd,khd->hqk", q, k[1:]) / math.sqrt(config.d_head)
        rows = []
        for rank in range(1, config.n_letters + 1):
            weights = torch.as_tensor(low_rank(scores, counts, rank))

            def replace(pattern: Any, hook: object, weights: Any = weights) -> Any:
                pattern = pattern.clone()
                pattern[:, :, 0, 1:] = weights
                return pattern

            hooks = [("blocks.0.attn.hook_pattern", replace)]
            cut = model.run_with_hooks(model.counts(counts), fwd_hooks=hooks).numpy()
            rows.append((((cut > 0) != (full > 0)).mean(), np.abs(cut - full).max()))
    return LabeledArray.of(
        rows, rank=range(1, config.n_letters + 1), statistic=("flips", "largest error")
    )


def low_rank(scores: Floats, counts: Integers, rank: int) -> Floats:
    """`[string head letter]`: CLS's row of the pattern of every position, cut to this rank.

    Equal rows and columns stay equal, so the n × n pattern has the singular values of a small
    matrix: one row and one column per kind of token, each times the root of its count.

    Args:
        scores: `[head kind letter]`, of CLS and each letter as a query, for each letter.
        counts: `[string letter]`.
        rank: How many singular values are kept.
    """
    from scipy.special import softmax

    with np.errstate(divide="ignore"):
        pattern = softmax(scores[None] + np.log(counts)[:, None, None, :], axis=-1)
    rows = np.sqrt(np.insert(counts, 0, 1, axis=1))[:, None, :, None]
    columns = np.sqrt(counts)[:, None, None, :]
    # A letter's weight in all is its count times one copy's: the root of the count is left.
    small = np.divide(rows * pattern, columns, where=columns > 0, out=np.zeros_like(pattern))
    left, values, right = np.linalg.svd(small, full_matrices=False)
    cut = np.einsum("shr,shr,shrl->shl", left[:, :, 0, :rank], values[..., :rank],
                    right[..., :rank, :])  # fmt: skip
    return np.asarray(cut * columns[:, :, 0])


def run(asked: EfficientOptions, progress: Progress) -> EfficientResult:
    from tsc_interp.model.threads import one_thread

    progress(f"low rank on every string up to {asked.max_length} letters")
    ranks = low_rank_errors(asked)
    depths = [
        [layers_needed(links(p, n, np.random.default_rng([asked.seed, 7, n])))
         for n in asked.lengths]
        for p in PARTS
    ]  # fmt: skip
    seeds = range(asked.seed, asked.seed + asked.seeds)
    right, best = np.zeros((len(TRAINED), asked.seeds)), np.zeros((len(TRAINED), asked.seeds))
    for i, form in enumerate(TRAINED):
        progress(f"training two layers: {form}")
        with one_thread():
            for j, seed in enumerate(seeds):
                right[i, j], best[i, j] = accuracy(form, asked, seed)
    return EfficientResult(
        options=asked,
        layers=LabeledArray.of(depths, parts=PARTS, length=asked.lengths, target=TARGETS),
        ranks=ranks,
        right=LabeledArray.of(right, form=TRAINED, seed=seeds),
        best=LabeledArray.of(best, form=TRAINED, seed=seeds),
    )
