"""How long a model can last, from its score margins and from what its heads can move.

One layer of plain softmax without an MLP, CLS not attended to, contains-all of P letters, c a
letter that the task does not name. Against c, letter p has the margin D_hp in head h; let

    M       the largest sum over p of e^D_hp, of all heads
    K       the sum over heads of the most that a positive letter raises the logit above c's
    rho     K / |f(c)|, the leverage

If the model is right on c and on one of each positive letter with m letters c, then m < M (rho - 1)
(proved in the documentation): so the horizon is below P + M (rho - 1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tsc_interp.checkpoints.resolve import ModelLike, as_checkpoint
from tsc_interp.errors import UnsupportedError
from tsc_interp.laboratories.every_string import beyond_plain, letter_scores
from tsc_interp.results.base import that_hold


@dataclass(frozen=True)
class Reach:
    """The bound for one filler letter."""

    filler: str
    summed: float
    """M."""
    leverage: float
    """rho; infinite where the logit of the filler is zero, so that nothing is bounded."""
    allowed: float
    """No horizon is longer. 0 where the filler itself is answered wrong."""

    @property
    def margin(self) -> float:
        """log M: with one positive letter that counts, its score margin over the filler."""
        return math.log(self.summed)


def least_margin(length: int, positive: int, leverage: float) -> float:
    """log M must be larger than this for a horizon of `length`."""
    return math.log((length - positive) / (leverage - 1))


def reach(model: ModelLike) -> Reach:
    """The filler that bounds the model most."""
    checkpoint = as_checkpoint(model)
    config = checkpoint.config
    named = [config.alphabet.index(letter) for letter in config.task.needs]
    others = [t for t in range(config.n_letters) if t not in named]
    beyond = {"an MLP": config.has_mlp, "no letter beside the task's": not others}
    obstacles = [*beyond_plain(config), *that_hold(beyond), *config.beyond_report]
    if obstacles:
        raise UnsupportedError(f"the bound on margins is for plain heads; this has {obstacles[0]}")
    weights = {name: weight.astype(np.float64) for name, weight in checkpoint.weights.items()}
    embedded = weights["embed.W_E"]
    letters, cls = embedded[2:], embedded[0]
    scores = letter_scores(checkpoint)
    direction = weights["unembed.W_U"][:, 0]
    values = np.einsum("td,hdk->htk", letters, weights["blocks.0.attn.W_V"])
    read = np.einsum("hkd,d->hk", weights["blocks.0.attn.W_O"], direction)
    moved = np.einsum("htk,hk->ht", values, read)
    """What a letter that has all of a head's weight adds to the logit."""
    horizons = [
        _against(
            config.alphabet.letters[c],
            np.exp(scores[:, named] - scores[:, [c]]).sum(axis=1).max(),
            (moved[:, named] - moved[:, [c]]).max(axis=1).clip(min=0).sum(),
            float(cls @ direction + moved[:, c].sum()),
            len(named),
        )
        for c in others
    ]
    return min(horizons, key=lambda bound: bound.allowed)


def _against(filler: str, summed: float, most: float, logit: float, positive: int) -> Reach:
    if logit > 0:
        return Reach(filler, float(summed), math.nan, 0.0)
    if logit == 0:
        return Reach(filler, float(summed), math.inf, math.inf)
    leverage = float(most) / -logit
    # m is a whole number below M (rho - 1), so the length is at most this.
    allowed = positive + math.ceil(max(float(summed) * (leverage - 1), 0.0)) - 1
    return Reach(filler, float(summed), leverage, float(max(allowed, 0)))
