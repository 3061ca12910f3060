"""How large is everything at the start, how does that grow with d_model, and what did training do?

A standard-normal embedding of width d has a chi-distributed norm, mean sqrt(2) Γ((d+1)/2) / Γ(d/2):
about sqrt(d), so a factor that tends to sqrt(2) for every doubling. A `linear_like` embedding is
uniform on ±1/sqrt(d), so its root-mean-square norm is 1/sqrt(3) at any width. Both are measured,
with the spread of scores and logits they cause, on hundreds of freshly initialised models at once:
an ensemble is one hooked model, read at `hook_embed` and `blocks.0.attn.hook_attn_scores`.
Chapter 4.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from einops import reduce
from numpy.typing import NDArray

from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import UsageError
from tsc_interp.model.classifier import Classifier
from tsc_interp.model.initialise import initial_ensemble
from tsc_interp.probes.init_norm.result import InitNormResult
from tsc_interp.results.base import LabeledArray, that_hold

_PARTS = ("embedding_init", "attention_init", "mlp_init")
STRATEGIES = {
    name: dict(zip(_PARTS, values, strict=True))
    for name, values in {
        "default": ("default", "default", "default"),
        "output_fan_out": ("default", "output_fan_out", "output_fan_out"),
        "linear_like and output_fan_out": ("linear_like", "output_fan_out", "output_fan_out"),
    }.items()
}
"""The report's three: its default, and the two it changes in chapter 4."""
WIDTHS = (2, 4, 8, 16, 32, 64)
_MAX_WEIGHTS = 20_000_000


def run(
    model: Classifier,
    strings: Sequence[str],
    *,
    seeds: int = 200,
    widths: Sequence[int] = WIDTHS,
) -> InitNormResult:
    """Measure `seeds` fresh models per width and strategy, all other options being the model's."""
    if seeds < 2 or not widths or min(widths) < 1:
        raise UsageError(f"at least 2 seeds and one width of 1 or more; got {seeds} and {widths}")
    config = model.config
    measured = {
        (strategy, width): _measure(config.replace(d_model=width, **changes), strings, seeds)
        for strategy, changes in STRATEGIES.items()
        for width in widths
    }
    axes = {"strategy": list(STRATEGIES), "width": list(widths)}
    shape = (len(STRATEGIES), len(widths))
    norms, scores, logits = (np.array([m[i] for m in measured.values()]) for i in range(3))
    own = _matrices(dict(model.named_parameters()))
    fits = model.to_checkpoint().n_parameters * 8 <= _MAX_WEIGHTS
    notes = {
        "There are no scores: this model has no attention.": not config.has_attention,
        "Logits are those of one short string: this model has positions.": config.has_positions,
        "Scores are computed from the normalised residual, whatever the norms are.":
        config.has_norm,
        "The model is too large to draw many fresh copies of it for comparison.": not fits,
    }  # fmt: skip
    return InitNormResult(
        not_applicable=that_hold(notes),
        seeds=seeds,
        d_model=config.d_model,
        embedding_norms=LabeledArray.of(
            norms.reshape(*shape, 4), **axes, statistic=("mean", "5 %", "95 %", "theory")
        ),
        score_spread=LabeledArray.of(scores.reshape(shape), **axes)
        if config.has_attention
        else None,
        logit_spread=LabeledArray.of(logits.reshape(shape), **axes),
        before=_before(config, seeds) if fits else None,
        after=LabeledArray.of([_rms(weight[None])[0] for weight in own.values()], weight=own),
        own_norms=LabeledArray.of(
            model.W_E.detach().norm(dim=-1).numpy(), token=config.alphabet.token_names
        ),
    )


def theoretical_norm(embedding_init: str, width: int) -> float:
    """The mean norm of a standard-normal vector; the root-mean-square norm of a uniform one."""
    if embedding_init != "default":
        return math.sqrt(1 / 3)
    return math.sqrt(2) * math.exp(math.lgamma((width + 1) / 2) - math.lgamma(width / 2))


def _measure(
    config: ClassifierConfig, strings: Sequence[str], seeds: int
) -> tuple[list[float], float, float]:
    """Embedding norm statistics, score spread and logit spread of `seeds` fresh models."""
    ensemble = Classifier(config, initial_ensemble(config, range(seeds)))
    # Every letter once: multiplicities are one, so the hook shows the scores themselves.
    letters = config.alphabet.letters[: config.n_positions - 1 if config.has_positions else None]
    wanted = ["hook_embed"] + ["blocks.0.attn.hook_attn_scores"] * config.has_attention
    with torch.no_grad():
        _, cache = ensemble.run_with_cache(letters, names_filter=wanted, return_cache_object=False)
        logits = ensemble(letters if config.has_positions else list(strings))
    norms = cache["hook_embed"].double().norm(dim=-1).flatten().numpy()
    scores = np.nan
    if config.has_attention:
        scores = float(cache["blocks.0.attn.hook_attn_scores"][..., 0, 1:].double().std())
    statistics = [norms.mean(), *np.quantile(norms, [0.05, 0.95])]
    theory = theoretical_norm(config.embedding_init, config.d_model)
    return [*map(float, statistics), theory], scores, float(logits.double().std())


def _before(config: ClassifierConfig, seeds: int) -> LabeledArray:
    size = sum(int(np.prod(shape)) for shape in config.weight_shapes().values())
    n_models = max(8, min(seeds, _MAX_WEIGHTS // size))
    fresh = _matrices(initial_ensemble(config, range(n_models)))
    rows = [
        [values.mean(), *np.quantile(values, [0.05, 0.95])] for values in map(_rms, fresh.values())
    ]
    return LabeledArray.of(rows, weight=list(fresh), statistic=("mean", "5 %", "95 %"))


def _matrices(weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """In the order data flows; norm scales and shifts start at one and zero, whatever the seed."""
    kept = {name: w for name, w in weights.items() if name.rsplit(".", 1)[1].startswith("W_")}
    return {name: kept[name] for name in sorted(kept, key=_flow)}


def _flow(name: str) -> tuple[int, str, int]:
    place = {"embed": 0, "pos_embed": 1, "blocks": 2, "unembed": 3}[name.split(".")[0]]
    order = ["W_E", "W_pos", "W_Q", "W_K", "W_V", "W_O", "W_in", "W_out", "W_U"]
    return place, name.split(".")[1].zfill(4), order.index(name.rsplit(".", 1)[1])


def _rms(weights: torch.Tensor) -> NDArray[np.float64]:
    """One root mean square per model of an ensemble."""
    return reduce(weights.detach().double().square(), "seed ... -> seed", "mean").sqrt().numpy()
