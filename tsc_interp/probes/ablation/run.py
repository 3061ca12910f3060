"""What is each part needed for? Remove it, and see which strings go wrong.

The probe removes every head, every neuron, each layer's MLP, and each letter's value in each head
of the first layer, one at a time. It replaces the part by one of three:

    zero       zero
    mean       its average over 128 of the test strings, evenly spaced among them
               (for a letter's value: the average value of all letters in them, counting copies)
    resample   for each string, its value on another test string, drawn with a seed

Effects on the logits of the given strings are read through hooks (`hook_z`, `hook_v`,
`mlp.hook_post`, `hook_mlp_out`). Zero and mean are constants, so the model without the part is
again a classifier (`tsc_interp.interventions.weights`). Its errors on the 9,984 test strings, and
on every string up to 200 letters, are counted exactly, and its first error is found by search.
First errors that a finding names are also given to the checker. Resampling differs from string to
string, so it is measured by hooks on 1,024 of the test strings, and only for whole parts, because a
letter's value is the same in every string.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from tsc_interp.config import ClassifierConfig
from tsc_interp.data import source_test_set
from tsc_interp.errors import ConfigError, UnsupportedError, UsageError
from tsc_interp.interventions.changes import Change, Mean, Resample, Zero
from tsc_interp.interventions.hooks import Hooks, intervene
from tsc_interp.interventions.intervention import Intervention
from tsc_interp.interventions.parts import Part
from tsc_interp.model.inputs import token_rows
from tsc_interp.model.threads import one_thread
from tsc_interp.probes.ablation.exact import ExactHalf
from tsc_interp.probes.ablation.result import Ablated, AblationResult, TestErrors
from tsc_interp.probes.ablation.rows import run_rows
from tsc_interp.probes.ablation.words import named
from tsc_interp.probes.inputs import Floats, as_array, classifier_config, need_classifier
from tsc_interp.results.base import LabeledArray, that_hold
from tsc_interp.strings import PAD, Counts
from tsc_interp.verification.counting.differences import affordable_length

MEAN_OVER = 128
RESAMPLED = 1024
EXACT_PARTS = 24
MOST_LETTERS = 3
"""With more, or with norms or layers, an edited model takes seconds, and there are dozens."""


@one_thread()
def run(
    model: Any,
    strings: Sequence[str],
    *,
    exact: int | None = None,
    length: int | None = None,
    seed: int = 0,
    **of_rows: Any,
) -> AblationResult:
    """`exact` is how many parts are judged exactly, whole ones first, then by effect.

    The default is 24 for a model of one layer and three letters without norm, else none. They are
    judged on every string up to `length`: 200, or less where that is too many. `seed` draws what
    resampling puts in a part's place.

    On any TransformerLens model: token ids `[batch pos]` for strings, and `query`, `answer`,
    `token_names` and `attention_mask` as in `rows.py`.
    """
    own = classifier_config(model)
    if own is None:
        return run_rows(model, strings, **of_rows)
    if of_rows:
        raise UsageError(f"{', '.join(of_rows)}: for TransformerLens models, on token ids")
    if own.n_outputs > 1:
        return _of_classes(model, own, strings)
    config = need_classifier(model, "ablation")
    parts = list(_parts(config))
    if not parts:
        raise UnsupportedError("this model has no head and no neuron, so nothing to remove")
    if length is not None and length < 1:
        raise UsageError(f"the length of strings to judge is a whole number from 1, got {length}")
    given = tuple(config.alphabet.canonical(string) for string in strings)
    counts = None
    with suppress(ConfigError):  # the task names every letter
        counts = None if config.needs_order else source_test_set(config)
    changes: dict[str, Change] = {"zero": Zero()}
    average = _spaced(counts, MEAN_OVER) if counts is not None else None
    if not config.needs_order:
        averaged = given if average is None else tuple(map(config.alphabet.write, average))
        changes["mean"] = Mean(averaged)
    effects = _effects(model, given, parts, changes)
    chosen = _chosen(config, parts, effects, exact)
    longest = length or affordable_length(config.n_letters)
    work = ExactHalf(model, config, counts, changes, chosen, longest)
    result = AblationResult(
        not_applicable=_not_applicable(config, counts, parts, chosen),
        length=work.length,
        strings=sum(config.n_letters**n for n in range(1, (work.length or 0) + 1)),
        mean_over="the given strings" if average is None else f"{MEAN_OVER} test strings",
        test_strings=0 if counts is None else len(counts),
        resampled_strings=0 if counts is None else len(_spaced(counts, RESAMPLED)),
        logits=LabeledArray.of(as_array(model(list(given))), string=given),
        effects=LabeledArray.of(effects, change=changes, part=parts, string=given),
        test=work.standing_test,
        exact=work.standing,
        ablated=tuple(work.ablated({part: _name(part, config) for part in parts})),
    )
    if counts is not None:
        result = _resampled(model, config, result, parts, _spaced(counts, RESAMPLED), seed)
    result = work.proved(result, named(result))
    return result


def _of_classes(model: Any, config: ClassifierConfig, strings: Sequence[str]) -> AblationResult:
    """A multiclass model, by hooks on its TransformerLens form."""
    from tsc_interp.model.hooked import load

    rows = token_rows(config, strings)
    if (rows == PAD).any():
        raise UnsupportedError(
            f"this model has {config.n_outputs} outputs, and the ablation probe then needs strings "
            "of one length"
        )
    lens = load(model.to_checkpoint()).to_transformer_lens(n_ctx=rows.shape[1])
    at = 0 if config.reads == "first" else -1
    return run_rows(lens, rows, query=at, token_names=dict(enumerate(config.called)))


def _parts(config: ClassifierConfig) -> Iterator[Part]:
    """Whole parts first, then letters' values."""
    for layer in range(config.n_layers):
        yield from (Part("head", layer, head) for head in range(config.n_heads))
        yield from (Part("neuron", layer, neuron) for neuron in range(config.d_mlp))
        if config.d_mlp:
            yield Part("mlp", layer)
    for head in range(config.n_heads):
        yield from (Part("value", 0, head, letter) for letter in config.alphabet.letters)


def _name(part: Part, config: ClassifierConfig) -> str:
    where = f"layer {part.layer}'s " if config.n_layers > 1 else ""
    if part.kind == "mlp":
        return f"{where}MLP" if where else "the MLP"
    if part.kind == "value":
        return f"`{part.letter}`'s value in {where}head {part.index}"
    return f"{where}{part.kind} {part.index}"


def _spaced(counts: Counts, most: int) -> Counts:
    rows = np.linspace(0, len(counts) - 1, min(most, len(counts))).astype(np.int64)
    return np.asarray(counts[rows])


def _effects(
    model: Any, given: Sequence[str], parts: Sequence[Part], changes: dict[str, Change]
) -> Floats:
    """`[change part string]`, by hooks."""
    effects = np.zeros((len(changes), len(parts), len(given)))
    for c, how in enumerate(changes.values()):
        for p, part in enumerate(parts):
            outcome = intervene(model, list(given), Intervention(part, how))
            effects[c, p] = as_array(outcome.after - outcome.before)
    return effects


def _chosen(
    config: ClassifierConfig, parts: Sequence[Part], effects: Floats, exact: int | None
) -> list[Part]:
    """The parts to judge exactly: whole ones first, each kind by its largest mean effect."""
    if config.needs_order:
        return []
    easy = config.n_letters <= MOST_LETTERS and config.n_layers == 1 and not config.has_norm
    most = exact if exact is not None else EXACT_PARTS if easy else 0
    size = np.abs(effects).mean(axis=2).max(axis=0)
    order = sorted(range(len(parts)), key=lambda p: (parts[p].kind == "value", -size[p]))
    kept = set(order[:most])
    return [part for p, part in enumerate(parts) if p in kept]


def _resampled(
    model: Any, config: ClassifierConfig, result: AblationResult,
    parts: Sequence[Part], counts: Counts, seed: int,
) -> AblationResult:  # fmt: skip
    import torch

    inputs, labels = model.counts(counts.copy()), config.task.labels(counts)

    def errors(logits: Any) -> TestErrors:
        wrong = (as_array(logits) > 0) != labels
        return TestErrors(
            false_positives=int((wrong & ~labels).sum()),
            false_negatives=int((wrong & labels).sum()),
        )

    ablated = []
    with torch.no_grad():
        standing = errors(model(inputs))
        for part in (part for part in parts if part.kind != "value"):
            hooks = Hooks(model, inputs, Intervention(part, Resample(seed)))
            after = model.run_with_hooks(inputs, fwd_hooks=hooks.fwd_hooks)
            hooks.remarks()
            name, test = _name(part, config), errors(after)
            ablated.append(
                Ablated(part=str(part), name=name, change="resample", whole=True, test=test)
            )
    update = {"resampled_test": standing, "ablated": (*result.ablated, *ablated)}
    return result.model_copy(update=update)


def _not_applicable(
    config: ClassifierConfig, counts: Counts | None, parts: Sequence[Part], chosen: Sequence[Part]
) -> tuple[str, ...]:
    if config.needs_order:
        return (
            "this model has positions: only zero, and only on the given strings; an edited model "
            "has no weights of the form that could be verified, and the test set is of counts",
        )
    tested = 0 if counts is None else min(RESAMPLED, len(counts))
    return that_hold({
        "the test set needs a letter the task does not name, so errors on it are not counted":
        counts is None,
        "with norms, only a whole part set to zero can be written as weights; the other changes "
        "are read from the logits of the given strings": config.has_norm,
        "letters' values are removed in the first layer only: later they vary with the string":
        config.n_layers > 1,
        "resampling differs from string to string, so it has no exact form: it is measured on "
        f"{tested:,} of the test strings, for whole parts": counts is not None,
        f"{len(chosen)} of {len(parts)} parts are judged exactly, to save time; in Python, "
        f"run_probe('ablation', model, strings, exact={len(parts)}) judges all":
        len(chosen) < len(parts),
    })  # fmt: skip
