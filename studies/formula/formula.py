"""The first error from the weights: a closed formula, without a search. Plain softmax, one layer.

Long strings fail because one letter outweighs the others. So take every *family*: one each of some
letters S, and n of another letter t. A head's weight on t is n / (n + exp(D)), where D, its margin,
is log Σ exp(s) over S (and CLS, where it is attended to) minus s_t: the head lets go at n = exp(D).
Between what S gives it and what t gives it, its value moves by that weight, and the read-out turns
values into the logit. All of this is evaluated at n = 1, at exp(D) times 1/16, 1/8, ..., 16 for
each head, and in the limit. Between the first of these points that is wrong, y, and the one before,
x, the logit f is taken to be linear in u = 1 / (1 + n exp(-D)), the weight that the head nearest to
x keeps:

    u* = u(x) + (u(y) - u(x)) f(x) / (f(x) - f(y)),     n* = exp(D) (1 / u* - 1)

which is exact where one head lets go and no neuron bends. The prediction is the smallest |S| + n*
of all families, rounded up. `studies/formula.py` measures it against the exact horizon: what it
misses is strings in which two letters grow, so the truth is shorter there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import torch
from einops import einsum
from scipy.special import logsumexp, softmax

from tsc_interp.checkpoints.checkpoint import Checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.model.forward import read_out
from tsc_interp.model.inputs import from_counts
from tsc_interp.model.layers import Pass
from tsc_interp.probes.inputs import Floats
from tsc_interp.strings import CLS, FIRST_LETTER

LETTERS = 6
"""With more there are too many families."""
FACTORS = tuple(2.0**power for power in range(-4, 5))


@dataclass(frozen=True)
class Prediction:
    """The shortest string the formula expects to be wrong."""

    length: int
    string: str


def formula_applies(config: ClassifierConfig) -> bool:
    one_layer = config.n_layers == 1 and config.has_attention and config.n_outputs == 1
    plain = not (config.needs_order or config.log_n or config.beyond_counts)
    return one_layer and plain and config.n_letters <= LETTERS


def predicted_first_error(checkpoint: Checkpoint) -> Prediction | None:
    """None where no family ever goes wrong, or the task has no labels for sets of letters."""
    model, best = _OneLayer(checkpoint), None
    for others, letter, label in _families(checkpoint.config):
        n = _first_wrong(model, others, letter, 1.0 if label else -1.0)
        length = len(others) + n
        if np.isfinite(length) and (best is None or length < best[0]):
            best = length, others, letter, n
    if best is None:
        return None
    length, others, letter, n = best
    counts = np.zeros(checkpoint.config.n_letters, dtype=np.int64)
    counts[list(others)], counts[letter] = 1, int(n)
    return Prediction(int(length), checkpoint.config.alphabet.write(counts))


def _families(config: ClassifierConfig) -> Iterator[tuple[tuple[int, ...], int, bool]]:
    """Letters that occur once, the letter that grows, and the label they share."""
    letters = range(config.n_letters)
    for size in letters:
        for others in combinations(letters, size):
            for letter in set(letters) - set(others):
                support = frozenset(config.alphabet.letters[i] for i in (*others, letter))
                label = config.task.label_of_support(support)
                if label is not None:
                    yield others, letter, bool(label)


def _first_wrong(model: _OneLayer, others: tuple[int, ...], letter: int, sign: float) -> float:
    """The predicted n, a whole number; infinite where the family stays right."""
    family = model.family(others, letter)
    if family is None:  # strings of one letter alone, whose logit no n changes
        return 1.0 if sign * model.alone(letter) <= 0 else np.inf
    releases = np.exp(np.clip(family[0], 0, 700))
    points = np.unique(np.concatenate([[1.0], *(releases * factor for factor in FACTORS)]))
    points = np.append(points[points >= 1], np.inf)
    logits = sign * model.logits_of(*family, points)
    wrong = np.flatnonzero(logits <= 0)
    if not len(wrong):
        return np.inf
    at = int(wrong[0])
    if at == 0:
        return 1.0
    before, after = logits[at - 1], logits[at]
    if after == 0 and np.isinf(points[at]):
        return np.inf
    near = releases[np.argmin(np.abs(np.log(releases / points[at - 1])))]
    held, lost = near / (near + points[at - 1 : at + 1])
    kept = held + (lost - held) * before / (before - after)
    return float(np.ceil(near / kept - near))


class _OneLayer:
    """Scores, values and read-out of one classifier in float64."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        checkpoint = checkpoint.expanded()
        self.config = config = checkpoint.config
        self.weights = {
            name: torch.from_numpy(w).double() for name, w in checkpoint.weights.items()
        }
        embedded = self.weights["embed.W_E"]
        inputs = from_counts(config, np.eye(1, config.n_letters, dtype=np.int64))
        self._given = Pass(config, self.weights, inputs=inputs)
        read = self._given.norm("blocks.0.ln1.", embedded[None])[0]
        q, k, v = (self._projected(part, read) for part in "QKV")
        scores = einsum(q[:, CLS], k, "head d_head, head token d_head -> head token")
        self.scores = (scores / config.score_divisor).numpy()
        self.values: Floats = v.numpy()

    def _projected(self, part: str, read: torch.Tensor) -> torch.Tensor:
        name = "blocks.0.attn."
        pattern = "token d_model, head d_model d_head -> head token d_head"
        out = einsum(read, self.weights[f"{name}W_{part}"], pattern)
        return out + self.weights[f"{name}b_{part}"][:, None] if self.config.biases else out

    def family(self, others: tuple[int, ...], letter: int) -> tuple[Floats, Floats, Floats] | None:
        """Per head: its margin D, what it reads of the letters that occur once, and of `letter`."""
        once = [FIRST_LETTER + i for i in others] + [CLS] * self.config.attend_cls
        if not once:
            return None
        grows = FIRST_LETTER + letter
        margins = logsumexp(self.scores[:, once], axis=1) - self.scores[:, grows]
        shares = softmax(self.scores[:, once], axis=1)
        held = np.einsum("ht,htk->hk", shares, self.values[:, once])
        return margins, held, self.values[:, grows]

    def alone(self, letter: int) -> float:
        return float(self._read(self.values[None, :, FIRST_LETTER + letter])[0])

    def logits_of(self, margins: Floats, held: Floats, growing: Floats, n: Floats) -> Floats:
        with np.errstate(over="ignore"):
            weight = 1 / (1 + np.exp(margins - np.log(n)[:, None]))
        return self._read(held + weight[:, :, None] * (growing - held))

    def _read(self, z: Floats) -> Floats:
        """The logit if CLS receives these head values, `[batch head d_head]`."""
        config, weights = self.config, self.weights
        pattern = "batch head d_head, head d_head d_model -> batch d_model"
        out = einsum(torch.from_numpy(z), weights["blocks.0.attn.W_O"], pattern)
        residual = (weights["embed.W_E"][CLS] + out)[:, None]
        if config.biases:
            residual = residual + weights["blocks.0.attn.b_O"]
        if config.has_mlp:
            read = self._given.norm("blocks.0.ln2.", residual)
            residual = residual + self._given.mlp("blocks.0.mlp.", read)
        return np.asarray(read_out(self._given, residual).numpy())
