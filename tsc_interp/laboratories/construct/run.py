"""How small can a classifier be that is right up to a length, or at every length?

The laboratory builds models for contains-all, at-least-k, majority and parity weight by weight
(contains.py, neuron.py, counting.py), searches each for errors, and passes it to the
independent checker. It also shows:

- the bound on score margins (bound.py), which built models reach and trained ones do not;
- what no model of a kind can do. One head without an MLP cannot solve "contains a and b", because
  its logit on ab has the sign of a weighted mean of its logits on aa and bb. H heads without an MLP
  cannot solve parity beyond H + 1 letters of one kind, or H if there are other letters.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tsc_interp.checkpoints.checkpoint import Checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.laboratories.base import LabeledArray, Progress
from tsc_interp.laboratories.construct.bound import least_margin, reach
from tsc_interp.laboratories.construct.construct import construct
from tsc_interp.laboratories.construct.result import Built, ConstructOptions, ConstructResult
from tsc_interp.laboratories.construct.written import Construction
from tsc_interp.laboratories.every_string import letter_scores
from tsc_interp.laboratories.trained import trained
from tsc_interp.rules import Parity
from tsc_interp.training.config import TrainingConfig
from tsc_interp.verification.bounds.exact import ExactModel
from tsc_interp.verification.certificates import certify_counts
from tsc_interp.verification.float32 import float32_horizon
from tsc_interp.verification.horizons import horizon

MARGINS = ("log M", "least log M", "leverage", "allowed", "horizon", "largest weight")
TRAINED = ("log M", "leverage", "allowed", "horizon")
ONE_HEAD = ("horizon", "logit of ab", "weighted mean of aa and bb")
PARITY = ("ceiling", "built", "best trained")
PARITY_HEADS = (1, 2, 3, 4, 5, 6)
_FLOAT32 = 10_000
"""How far rounding is followed."""
TWO_HEADS = "contains a and b, two heads"
COUNTS = (1, 3, 10, 30, 100, 300, 1000, 3000, 10_000, 30_000, 100_000)


def run(asked: ConstructOptions, progress: Progress) -> ConstructResult:
    training = TrainingConfig(max_epochs=asked.epochs)
    models = _models(asked)
    built = []
    for name, (model, limit) in models.items():
        progress(f"certifying {name}")
        built.append(_built(name, model, limit))
    progress("the bound on margins")
    margins = _margins(asked.lengths)
    progress(f"training {asked.seeds} models without an MLP")
    seeds = range(asked.seeds)
    plain = _bounded(trained(ClassifierConfig(d_mlp=0), seeds, training))
    progress(f"training {asked.seeds} single heads")
    single = ClassifierConfig(d_mlp=0, n_heads=1, d_head=2)
    one_head = _one_head(trained(single, seeds, training))
    progress("parity")
    return ConstructResult(
        options=asked,
        built=tuple(built),
        margins=margins,
        trained=plain,
        fading=_fading(models),
        one_head=one_head,
        parity=_parity(range(min(asked.seeds, 4)), training),
    )


def _models(asked: ConstructOptions) -> dict[str, tuple[Construction, int]]:
    """What is built, and how far each is searched."""
    longest, far = max(asked.lengths), 500 if asked.quick else 1_000_000
    near = asked.longest_proof
    two_heads = construct(max_length=longest, mlp=False)
    return {
        f"contains a and b, {longest:,} letters": (construct(max_length=longest), far),
        TWO_HEADS: (two_heads, far),
        "contains a and b, log n": (construct(scores="log_n"), far),
        "contains a and b, vanishing": (construct(max_length=None), near),
        "contains a, b and c, log n": (construct(letters="abc", n_letters=4, scores="log_n"), far),
        "contains a, b and c, 100 letters": (
            construct(letters="abc", n_letters=4, max_length=100),
            far,
        ),
        "at least 3 a": (construct("at_least", k=3), far),
        "majority of a, 40 letters": (construct("majority", max_length=40), far),
        "odd number of a, 7 letters": (construct("parity", n_letters=2, max_length=7), 100),
    }


def _built(name: str, model: Construction, limit: int) -> Built:
    config, proved = model.checkpoint.config, certify_counts(model, limit=limit).horizon
    return Built(
        name=name,
        how=model.how,
        d_model=config.d_model,
        heads=config.n_heads,
        neurons=config.d_mlp,
        parameters=model.checkpoint.n_parameters,
        largest_weight=model.largest_weight,
        promise=model.promise,
        for_ever=model.length is None,
        length=proved.length,
        infinite=proved.infinite,
        verified_length=proved.verified_length,
        proved=proved.proved,
        first_error=proved.shortest.string if proved.shortest else "",
        float32_safe=float32_horizon(model, limit=_FLOAT32).safe_through,
    )


# -- the bound -------------------------------------------------------------------------------------


def _margins(lengths: Sequence[int]) -> LabeledArray:
    rows = []
    for length in lengths:
        model = construct(max_length=length, mlp=False)
        bound = reach(model)
        least = least_margin(length, 2, bound.leverage)
        verified = horizon(model).verified_length
        rows.append(
            (bound.margin, least, bound.leverage, bound.allowed, verified, model.largest_weight)
        )
    return LabeledArray.of(rows, length=lengths, quantity=MARGINS)


def _bounded(checkpoints: Sequence[Checkpoint]) -> LabeledArray:
    rows = []
    for checkpoint in checkpoints:
        bound = reach(checkpoint)
        verified = horizon(checkpoint, prove=False).verified_length
        rows.append((bound.margin, bound.leverage, bound.allowed, verified))
    return LabeledArray.of(rows, seed=range(len(rows)), quantity=TRAINED)


# -- what cannot be --------------------------------------------------------------------------------


def _one_head(checkpoints: Sequence[Checkpoint]) -> LabeledArray:
    rows = [
        (horizon(checkpoint, prove=False).verified_length, *_on_two(checkpoint))
        for checkpoint in checkpoints
    ]
    return LabeledArray.of(rows, seed=range(len(rows)), quantity=ONE_HEAD)


def _on_two(checkpoint: Checkpoint) -> tuple[float, float]:
    """The logit of ab, and the mean of those of aa and bb, weighted by what a and b weigh."""
    config = checkpoint.config
    exact = ExactModel(checkpoint)
    aa, bb, ab = (
        exact.rounded(list(config.alphabet.counts(string))) for string in ("aa", "bb", "ab")
    )
    scores = letter_scores(checkpoint)[0, :2]
    a, b = np.exp(scores - scores.max())
    return ab, float((a * aa + b * bb) / (a + b))


def _parity(seeds: Sequence[int], training: TrainingConfig) -> LabeledArray:
    """With two letters: from no a to as many as the string is long."""
    rows = []
    for heads in PARITY_HEADS:
        built = horizon(construct("parity", n_letters=2, max_length=heads), limit=100)
        config = ClassifierConfig(
            n_letters=2, d_model=2, d_mlp=0, n_heads=heads, attend_cls=True, task=Parity()
        )
        best = max(
            horizon(model, limit=100, prove=False).verified_length
            for model in trained(config, seeds, training.replace(max_epochs=2))
        )
        rows.append((heads, built.verified_length, best))
    return LabeledArray.of(rows, heads=PARITY_HEADS, quantity=PARITY)


def _fading(models: dict[str, tuple[Construction, int]]) -> LabeledArray:
    """The logit of abc{n}, by exact arithmetic, relative to that of ab."""
    shown = [TWO_HEADS, "contains a and b, log n", "contains a and b, vanishing"]
    rows = []
    for name in shown:
        exact = ExactModel(models[name][0].checkpoint)
        rows.append([exact.rounded([1, 1, n]) for n in COUNTS])
    return LabeledArray.of(rows, model=shown, n=COUNTS)
