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
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np
from einops import reduce
from numpy.typing import NDArray

from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import UsageError
from tsc_interp.probes.inputs import Inputs, need_classifier
from tsc_interp.probes.probe import probe
from tsc_interp.results.base import Finding, LabeledArray, ProbeResult, Table, that_hold
from tsc_interp.results.views import Lines, Rows, shown

if TYPE_CHECKING:
    import torch

    from tsc_interp.plots.figure import Figure

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


class InitNormResult(ProbeResult):
    probe: ClassVar[str] = "init-norm"

    seeds: int
    d_model: int = 0
    """Of this model."""
    embedding_norms: Annotated[
        LabeledArray, Rows("Norms of a fresh token's embedding, over {result.seeds} seeds")
    ]
    """`[strategy width statistic]`: mean, 5 % and 95 % quantiles, and what theory says."""
    score_spread: Annotated[
        LabeledArray | None,
        Lines(
            "Spread of the scores at initialisation",
            "How much the scores differ between fresh models: the larger, the more decided a model "
            "is before it has learned anything.",
            x="d_model", y="standard deviation of scores", log_x=True, log_y=True, form=".4f",
        ),
    ]  # fmt: skip
    """`[strategy width]`: standard deviation of CLS's scores over seeds, heads and letters."""
    logit_spread: Annotated[
        LabeledArray,
        Lines(
            "Spread of the logits at initialisation",
            "How much the logits differ between fresh models: the larger, the more decided a model "
            "is before it has learned anything.",
            x="d_model", y="standard deviation of logits", log_x=True, log_y=True, form=".4f",
        ),
    ]  # fmt: skip
    """`[strategy width]`: standard deviation of the logits over seeds and strings."""
    before: LabeledArray | None
    """`[weight statistic]`: each weight's root mean square over seeds, for this configuration."""
    after: LabeledArray
    """`[weight]`: the same of this model."""
    own_norms: Annotated[LabeledArray, Rows("Norms of this model's embeddings")]
    """`[token]`: the norms of this model's embeddings."""

    @shown(
        Lines(
            "Embedding norms at initialisation",
            "Means over {result.seeds} fresh models, and theory. Both axes are logarithmic: a "
            "straight slope is a power of d_model.",
            name="embedding-norms", x="d_model", y="norm of a token's embedding", log_x=True,
            log_y=True, form=".4f", table=False,
        )
    )  # fmt: skip
    def norms(self) -> LabeledArray:
        """Only the embedding's own strategy matters, so the first and the last of the three."""
        lines = {
            f"{name}{suffix}": self.embedding_norms.array[strategy, :, column]
            for strategy, name in ((0, "standard normal"), (-1, "linear_like"))
            for column, suffix in ((0, ", measured"), (3, ", theory"))
        }
        width = self.embedding_norms.labels["width"]
        return LabeledArray.of(list(lines.values()), embedding=list(lines), width=width)

    @shown(Rows("Root mean square of each weight, fresh (over seeds) and in this model"))
    def sizes(self) -> Table | None:
        """A row per weight."""
        if self.before is None:
            return None
        before, after = self.before.array.tolist(), self.after.array.tolist()
        return Table.from_rows(
            "Root mean square of each weight, fresh (over seeds) and in this model",
            ("weight", "fresh mean", "fresh 5 %", "fresh 95 %", "this model"),
            zip(self.after.labels["weight"], *zip(*before, strict=True), after, strict=True),
        )

    def drawn(self) -> list[Figure]:
        """The weights before and after training, then what the fields declare."""
        first = [] if self.before is None else [_training(self, self.before)]
        return [*first, *super().drawn()]

    # -- what was found ----------------------------------------------------------------------------

    def conclude(self) -> Iterator[Finding]:
        if self.before is not None:
            yield self._training(self.before)
        yield self._growth()
        if len(self.embedding_norms.labels["width"]) > 1:
            yield from self._spreads()

    def _growth(self) -> Finding:
        widths = [int(width) for width in self.embedding_norms.labels["width"]]
        mean = self.embedding_norms.at(strategy="default", statistic="mean")
        theory = self.embedding_norms.at(strategy="default", statistic="theory")
        small = self.embedding_norms.array[-1, :, 0]
        doublings = [
            float(mean[i + 1] / mean[i])
            for i in range(len(widths) - 1)
            if widths[i + 1] == 2 * widths[i]
        ]
        growth = ""
        if doublings:
            growth = (
                f"; each doubling multiplies it by {min(doublings):.3f} to {max(doublings):.3f} "
                f"(theory: towards √2 = {np.sqrt(2):.3f})"
            )
        return Finding.of(
            f"A fresh standard-normal embedding has mean norm {mean[0]:.4f} at d_model "
            f"{widths[0]} (theory {theory[0]:.4f}) and {mean[-1]:.4f} at {widths[-1]} (theory "
            f"{theory[-1]:.4f}){growth}. With linear_like it stays between {small.min():.4f} and "
            f"{small.max():.4f}.",
            {
                **{f"mean norm at {w}": float(m) for w, m in zip(widths, mean, strict=True)},
                **{f"theory at {w}": float(t) for w, t in zip(widths, theory, strict=True)},
            },
        )

    def _spreads(self) -> Iterator[Finding]:
        """How much larger scores and logits are at a wide default start than at a quieter one."""
        widths = self.logit_spread.labels["width"]
        for name, spread in (("scores", self.score_spread), ("logits", self.logit_spread)):
            if spread is None:
                continue
            loud, quiet = spread.array[0], spread.array[-1]
            yield Finding.of(
                f"At initialisation the {name} have standard deviation {loud[0]:.4f} at "
                f"d_model {widths[0]} and {loud[-1]:.4f} at {widths[-1]}; with linear_like and "
                f"output_fan_out {quiet[0]:.4f} and {quiet[-1]:.4f}.",
                {
                    f"default, {widths[-1]}": float(loud[-1]),
                    f"quieter, {widths[-1]}": float(quiet[-1]),
                },
            )

    def _training(self, before: LabeledArray) -> Finding:
        weights = self.after.labels["weight"]
        start, low, high = before.array.T
        ratio = self.after.array / np.where(start > 0, start, np.nan)
        most = int(np.nanargmax(ratio))
        outside = int(((self.after.array < low) | (self.after.array > high)).sum())
        return Finding.of(
            f"{outside} of {len(weights)} weight matrices have left the range in which 90 % of "
            f"seeds start (same configuration, d_model {self.d_model}). `{weights[most]}` grew "
            f"most: its norm is {ratio[most]:.2f} times the usual start ({start[most]:.4f} to "
            f"{self.after.array[most]:.4f}).",
            {
                f"{weight} ratio": float(r)
                for weight, r in zip(weights, ratio, strict=True)
                if np.isfinite(r)
            },
        )


def _training(result: InitNormResult, before: LabeledArray) -> Figure:
    from tsc_interp.plots.colours import INK, MUTED
    from tsc_interp.plots.figure import Figure
    from tsc_interp.plots.series import add_series, each, name_rows
    from tsc_interp.plots.style import new_figure

    weights = list(result.after.labels["weight"])
    rows = np.arange(len(weights))
    mean, low, high = before.array.T
    figure = new_figure("root mean square", height=110 + 32 * len(weights), legend=True)
    reach = {"type": "data", "symmetric": False, "array": high - mean, "arrayminus": mean - low,
             "color": INK, "thickness": 3, "width": 0}  # fmt: skip
    add_series(figure, mean, rows, "fresh: mean, 90 % of seeds", "fresh %{x:.4f}<extra></extra>",
               mode="markers", colour=INK, symbol="line-ns-open", size=12,
               error_x=reach)  # fmt: skip
    add_series(figure, result.after.array, rows, "this model", "this model %{x:.4f}<extra></extra>",
               mode="markers", colour=MUTED[2], size=11)  # fmt: skip
    name_rows(figure, weights)
    figure.update_yaxes(showgrid=False)
    figure.update_xaxes(rangemode="tozero")
    spoken = each("{} {:.4f} to {:.4f}", weights, mean, result.after.array, between=", ")
    return Figure(
        "before-and-after",
        "Weights before and after training",
        figure,
        "Grey: where fresh models of this configuration start. Rust: this model.",
        f"Root mean square, fresh mean to this model: {spoken}.",
    )


# -- what is computed ------------------------------------------------------------------------------


@probe(
    InitNormResult,
    title="How large are the weights?",
    question="How large is everything at initialisation, and what did training make of it?",
    chapter="4",
    why_not="it compares a model with fresh ones, and how this one was initialised is not known",
)
def init_norm(
    inputs: Inputs, *, seeds: int = 200, widths: Sequence[int] = WIDTHS
) -> InitNormResult:
    """Measure `seeds` fresh models per width and strategy, all other options being the model's."""
    if seeds < 2 or not widths or min(widths) < 1:
        raise UsageError(f"at least 2 seeds and one width of 1 or more; got {seeds} and {widths}")
    model, strings, config = inputs.model, inputs.given, inputs.config
    if config is None:
        config = need_classifier(model, "init-norm")  # refuses
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
    import torch

    from tsc_interp.model.classifier import Classifier
    from tsc_interp.model.initialise import initial_ensemble

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
    from tsc_interp.model.initialise import initial_ensemble

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
