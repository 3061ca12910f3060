"""Several outputs over letter counts: the answer is the largest one's index, of equals the lowest.

A string of class c is right when output c is above every output before it, and not below any after
it. Each of these comparisons is a difference of two outputs, which is one logit like any other
(faces.py): its zero counts for the lower index, as the tie does. The smallest of the differences
`output c - output j` is the *margin* of c, a `MarginFace` on one set of letters: above zero the
string is right, below zero wrong. What is too close to zero is decided in `arb`, ties included.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from flint import ctx

from tsc_interp.checkpoints.format import Checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.verification.exact import (
    COST,
    PRECISIONS,
    ExactModel,
    Pair,
    exact_differences,
    judged,
)
from tsc_interp.verification.faces import Face, Faces, ZeroFace
from tsc_interp.verification.intervals import Array, Interval


def has_several(config: ClassifierConfig) -> bool:
    """Whether more than two classes are told apart: two are the sign of one logit."""
    return config.n_outputs > 2


class ExactClasses(ExactModel):
    """All outputs over the reals, compared with one of them."""

    def differences(self, counts: Sequence[int], label: int) -> list[Any]:
        """Output `label` minus each output, itself included, at the working precision."""
        others = range(self.config.n_outputs)
        columns, offset = (
            self._differences(name, label, others) for name in ("unembed.W_U", "unembed.b_U")
        )
        gaps = self.read(counts) * columns
        return [
            gap + (0 if offset is None else offset[0, j]) for j, gap in enumerate(gaps.tolist()[0])
        ]

    def _differences(self, name: str, label: int, others: Sequence[int]) -> Any:
        if name not in self.weights:
            return None
        key = f"{name} {label}", -1
        if key not in self._matrices:
            rows = np.atleast_2d(self.weights[name]).astype(np.float64).tolist()
            self._matrices[key] = exact_differences(rows, [label] * len(others), others)
        return self._matrices[key]

    def right(self, counts: Sequence[int], label: int) -> bool | None:
        """Whether this class is the answer; None if it cannot be told."""
        cost = self.cost(sum(1 for count in counts if count))
        for precision in PRECISIONS:
            if self.budget <= 0:
                return None
            self.budget -= cost * COST[precision]
            with ctx.workprec(precision):
                found = judged(self.differences(counts, label), label)
            if found is not None:
                return found < 0
        return None

    def answer(self, counts: Sequence[int]) -> int | None:
        """The class the model gives: guessed from midpoints, then shown."""
        for precision in PRECISIONS:
            with ctx.workprec(precision):
                gaps = [float(gap.mid()) for gap in self.differences(counts, 0)]
                best = min(range(len(gaps)), key=lambda j: (gaps[j], j))
                if judged(self.differences(counts, best), best) == -1:
                    return best
        return None

    def margin(self, counts: Sequence[int], label: int) -> float:
        """The smallest difference to another output, rounded to float64."""
        with ctx.workprec(PRECISIONS[1]):
            gaps = self.differences(counts, label)
            return min(float(gap) for j, gap in enumerate(gaps) if j != label)


class ClassFaces:
    """All faces of a classifier of several outputs: one for each pair, made when asked for."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self.checkpoint, self.config = checkpoint, checkpoint.config
        self.exact = ExactClasses(checkpoint)
        self._pairs: dict[Pair, Faces] = {}
        self._margins: dict[tuple[tuple[int, ...], int], Face] = {}

    def __getitem__(self, letters: tuple[int, ...]) -> Face:
        """Some face of these letters, for what does not depend on the class: what it costs."""
        return self.margin(letters, 0)

    def margin(self, letters: tuple[int, ...], label: int) -> Face:
        """How far the output of this class is above all others; at zero or below it may lose."""
        if (letters, label) not in self._margins:
            self._margins[letters, label] = self._margin(letters, label)
        return self._margins[letters, label]

    def _margin(self, letters: tuple[int, ...], label: int) -> Face:
        parts: list[tuple[Face, float]] = []
        for other in range(self.config.n_outputs):
            if other == label:
                continue
            pair = (min(other, label), max(other, label))
            if pair not in self._pairs:
                self._pairs[pair] = Faces(self.checkpoint, pair)
            face = self._pairs[pair][letters]
            if not isinstance(face, ZeroFace):
                parts.append((face, 1.0 if other < label else -1.0))
            elif other < label:
                return face  # always equal, and a tie goes to the other: never the answer
        if not parts:
            return _AlwaysFirst(letters, self.config.attend_cls, self.config.log_n)
        return MarginFace(letters, parts)


class MarginFace:
    """The smallest of some logits, each with its sign: a `Face` like any other."""

    def __init__(self, letters: tuple[int, ...], parts: Sequence[tuple[Face, float]]) -> None:
        self.letters, self.parts = letters, parts
        self.attends_cls, self.log_n = parts[0][0].attends_cls, parts[0][0].log_n

    @property
    def cost(self) -> int:
        return sum(face.cost for face, _ in self.parts)

    def logits(self, counts: Array) -> tuple[Array, Array]:
        """The smallest, and an error that holds for whichever it is."""
        least, widest = np.full(len(counts), np.inf), np.zeros(len(counts))
        for face, sign in self.parts:
            logits, error = face.logits(counts)
            least, widest = np.minimum(least, sign * logits), np.maximum(widest, error)
        return least, widest

    def bounds(self, light: Array, heavy: Array, shortest: Array, longest: Array) -> Interval:
        return self.smallest(
            [face.bounds(light, heavy, shortest, longest) for face, _ in self.parts]
        )

    def smallest(self, ends: Sequence[Interval]) -> Interval:
        """The margin's range, given that of each part."""
        signed = [
            (low, high) if sign > 0 else (-high, -low)
            for (low, high), (_, sign) in zip(ends, self.parts, strict=True)
        ]
        lows, highs = zip(*signed, strict=True)
        return np.minimum.reduce(lows), np.minimum.reduce(highs)


class _AlwaysFirst(ZeroFace):
    """All outputs are the same weights, and this class is the first of them: always the answer."""

    def logits(self, counts: Array) -> tuple[Array, float]:
        return np.ones(len(counts)), 0.0

    def bounds(self, light: Array, heavy: Array, shortest: Array, longest: Array) -> Interval:
        return np.ones(len(light)), np.ones(len(light))


AnyFaces = Faces | ClassFaces


def faces_of(checkpoint: Checkpoint) -> AnyFaces:
    """What a model is searched by: one logit, or the margins of several classes."""
    return ClassFaces(checkpoint) if has_several(checkpoint.config) else Faces(checkpoint)
