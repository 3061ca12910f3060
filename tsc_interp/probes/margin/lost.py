"""Given false negatives: which head lost the letter it reads, and whether other letters matter."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import softmax

from tsc_interp.config import ClassifierConfig
from tsc_interp.probes.attention import Reading
from tsc_interp.probes.inputs import logits_of
from tsc_interp.probes.margin.result import LostLetter, Reduced
from tsc_interp.strings import Counts


def lost_letters(model: Any, config: ClassifierConfig, reading: Reading) -> tuple[LostLetter, ...]:
    """For a model of one layer without positions."""
    counts = config.alphabet.count_matrix(reading.rows)
    logits = logits_of(model, counts.astype(np.float64))
    labels = config.task.labels(counts)
    wrong = [row for row in range(len(counts)) if labels[row] and logits[row] <= 0]
    return tuple(
        _lost_letter(model, config, reading, row, counts[row], float(logits[row])) for row in wrong
    )


def _lost_letter(
    model: Any, config: ClassifierConfig, reading: Reading, row: int, counts: Counts, logit: float
) -> LostLetter:
    layer, string = reading.layers[0], reading.rows[row]
    read = [reading.tokens[t] for t in layer.scores.argmax(axis=1)]
    heads = [h for h, letter in enumerate(read) if letter in config.task.needs]
    heads = [h for h in heads if counts[config.alphabet.index(read[h])]]
    if not heads:
        return LostLetter(string=string, logit=logit)
    kept = {h: float(layer.weights[row, h, layer.scores[h].argmax()]) for h in heads}
    letters = config.alphabet.letters
    there = [t not in letters or counts[letters.index(t)] > 0 for t in reading.tokens]
    # A head that never preferred its letter has lost nothing, however little it keeps.
    h = max(heads, key=lambda head: softmax(layer.scores[head, there]).max() - kept[head])
    others = layer.weights[row, h].copy()
    others[reading.tokens.index(read[h])] = 0
    return LostLetter(
        string=string,
        logit=logit,
        head=h,
        kept=kept[h],
        rival=reading.tokens[int(others.argmax())],
        reduced=_reduced(model, config, counts),
    )


def _reduced(model: Any, config: ClassifierConfig, counts: Counts) -> Reduced | None:
    """None where there is nothing to leave out, or the label would not be positive without it."""
    letters = config.alphabet.letters
    needed = np.array([letter in config.task.needs for letter in letters])
    spare = [letter for letter, n, keep in zip(letters, counts, needed, strict=True)
             if n and not keep]  # fmt: skip
    reduced = np.where(needed, counts, 0)
    if not spare or not config.task.labels(reduced):
        return None
    return Reduced(
        left_out="".join(spare),
        string=config.alphabet.write(reduced),
        logit=float(logits_of(model, reduced[None].astype(np.float64))[0]),
    )
