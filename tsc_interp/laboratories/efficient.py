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
there have the same answer, so one of the two is wrong where the label differs. Take strings with
two letters that are not c, at random places: one a and one b, or two a's, or two b's, half of them
of the first kind. A model can know the answer only where CLS reaches both letters; this gives the
best accuracy that any weights can have.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from tsc_interp.errors import UnsupportedError
from tsc_interp.laboratories.base import (
    Finding,
    LabeledArray,
    LabOptions,
    LabResult,
    Progress,
    option,
)
from tsc_interp.results.views import Lines, Rows, shown

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]
Letters = Annotated[int, Field(ge=8, le=2000)]
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
SIDE, RANDOM_LINKS = 3, 2
"""Positions read on either side, and anywhere, by each position."""
LAYERS = 2
"""Of the models whose unread letters are counted."""


class EfficientOptions(LabOptions):
    model: str = option("walkthrough", "Whose pattern is cut: a bundled model, a file or a run.")
    max_length: int = option(60, "Low rank is for every string up to it.", ge=2, le=120)
    lengths: tuple[Letters, ...] = option((16, 64, 256), "Letters of the graphs.", min_length=1)
    seed: int = option(0, "Of the random links.", ge=0)


class EfficientResult(LabResult):
    probe: ClassVar[str] = "efficient"

    options: EfficientOptions
    layers: LabeledArray
    """`[parts length target]`: the least number of layers."""
    read: Annotated[LabeledArray, Rows("Letters that CLS depends on after two layers")]
    """`[parts length]`: the rest is unread."""
    ranks: Annotated[LabeledArray, Rows("The pattern cut to a rank")]
    """`[rank statistic]`: over every vector of counts: flipped answers, and the largest error."""

    @shown(Lines(
        "Layers until every letter can depend on every other",
        "Each position reads 3 neighbours on either side, and 2 random ones; whatever the weights.",
        x="letters", y="layers", form=".0f", log_x=True, name="layers",
    ))  # fmt: skip
    def pairs(self) -> LabeledArray:
        lengths = self.layers.labels["length"]
        return LabeledArray.of(self.layers.at(target=TARGETS[1]), parts=PARTS, length=lengths)

    def conclude(self) -> Iterator[Finding]:
        yield self._layers()
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

    def _unread(self) -> Finding:
        length = self.layers.labels["length"][-1]
        letters = int(length)
        window, linked = (int(self.read.at(parts=p, length=length)) for p in (WINDOW, RANDOM))
        best = {WINDOW: best_possible(window, letters), RANDOM: best_possible(linked, letters)}
        return Finding.of(
            f"A letter that CLS cannot reach is unread. With a window alone, {LAYERS} layers read "
            f"{window} of {letters} letters: `ac{{{letters - 2}}}b` and `ac{{{letters - 1}}}` have "
            "the same answer whatever the weights, and one of the two is wrong. Where one a and "
            "one b are told from two of a kind, at random places, no weights are right more often "
            f"than {best[WINDOW]:.1%}, and with random links than {best[RANDOM]:.1%} ({linked} "
            "letters); a constant answer is right in 50%.",
            {"read": window, **best},
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


def letters_read(linked: Flags) -> int:
    """How many letters CLS depends on after two layers."""
    return int((distances(linked)[0, 1:] <= LAYERS).sum())


def best_possible(read: int, letters: int) -> float:
    """The accuracy of who knows so many letters: unless it sees both that count, it guesses."""
    return (1 + math.comb(read, 2) / math.comb(letters, 2)) / 2


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
    progress(f"low rank on every string up to {asked.max_length} letters")
    ranks = low_rank_errors(asked)
    graphs = {
        (p, n): links(p, n, np.random.default_rng([asked.seed, 7, n]))
        for p in PARTS
        for n in asked.lengths
    }
    depths = [[layers_needed(graphs[p, n]) for n in asked.lengths] for p in PARTS]
    read = [[letters_read(graphs[p, n]) for n in asked.lengths] for p in PARTS]
    return EfficientResult(
        options=asked,
        layers=LabeledArray.of(depths, parts=PARTS, length=asked.lengths, target=TARGETS),
        ranks=ranks,
        read=LabeledArray.of(read, parts=PARTS, length=asked.lengths),
    )
