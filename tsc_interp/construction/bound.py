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
from numpy.typing import NDArray

from tsc_interp.checkpoints.checkpoint import Checkpoint
from tsc_interp.checkpoints.resolve import ModelLike, as_checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import UnsupportedError
from tsc_interp.results.base import that_hold
from tsc_interp.tasks.counts import ContainsAll


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


def beyond_plain(config: ClassifierConfig) -> tuple[str, ...]:
    """What a model has beyond one layer of plain heads that decide contains-all by counts."""
    return that_hold({
        "more than one layer": config.n_layers > 1,
        "no attention": not config.has_attention,
        "positions or an order of reading": config.needs_order,
        "a CLS that attends to itself": config.attend_cls,
        "scores scaled by the length": config.score_scale != "sqrt_d_head",
        "a norm": config.has_norm,
        "multiclass outputs": config.n_outputs > 1,
        "a task other than contains-all": not isinstance(config.task, ContainsAll),
    })  # fmt: skip


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


def letter_scores(checkpoint: Checkpoint) -> NDArray[np.float64]:
    """`[head letter]`: the scores before any factor of length."""
    w = {name: weight.astype(np.float64) for name, weight in checkpoint.weights.items()}
    letters, cls = w["embed.W_E"][2:], w["embed.W_E"][0]
    query = np.einsum("d,hdk->hk", cls, w["blocks.0.attn.W_Q"])
    keys = np.einsum("td,hdk->htk", letters, w["blocks.0.attn.W_K"])
    scores = np.einsum("hk,htk->ht", query, keys) / math.sqrt(checkpoint.config.d_head)
    return np.asarray(scores)
