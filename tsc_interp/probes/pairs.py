"""Two runs of one model for patching: the pair that is given, or one that is found.

By letter (`by="letter"`, models without positions): a position is a kind of token, CLS or a letter,
so strings of any lengths can be compared. What differs between two strings is then how often each
letter occurs, and nothing else: that enters a model where attention weighs its keys.
By position (`by="position"`): the place in the string, so both strings must be of one length.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypedDict

from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import UsageError
from tsc_interp.interventions.changes import Patch
from tsc_interp.interventions.singly import Metric, logit
from tsc_interp.probes.inputs import as_array, classifier_config, need_one_logit
from tsc_interp.probes.pair_search import find_pairs
from tsc_interp.probes.token_rows import device_of, need_method, token_rows
from tsc_interp.results.base import Pair

By = Literal["letter", "position"]
MOST_PAIRS = 16
MOST_POSITIONS = 128


@dataclass(frozen=True)
class PairRun:
    """A pair, and what it takes to patch from its clean run into its corrupted one."""

    pair: Pair
    model: Any
    corrupted: Any
    """The input of the corrupted run, one row."""
    patch: Patch
    """The value from the clean run."""
    metric: Metric
    by: By
    differ: tuple[int, ...]
    """The positions at which the two inputs have different tokens."""
    ours: bool
    """Whether the model is our classifier."""
    query: int
    """The position the logit is read from."""


class PairOptions(TypedDict, total=False):
    """What the probes that patch are asked with."""

    pairs: Iterable[Sequence[Any]] | None
    """`[(clean, corrupted), ...]`; without, two given strings are one, clean first, and of more
    strings, or one, pairs are found."""
    by: By | None
    query: int | None
    """Any TransformerLens model: the position that is read."""
    answer: int | None
    """Any TransformerLens model: the token whose logit it is."""
    token_names: Sequence[str] | None


def pair_runs(
    model: Any,
    strings: Any,
    *,
    pairs: Iterable[Sequence[Any]] | None = None,
    by: By | None = None,
    query: int | None = None,
    answer: int | None = None,
    token_names: Sequence[str] | None = None,
) -> list[PairRun]:
    """The pairs to look at, checked.

    Of our classifier: `pairs` of strings, clean first; without, the two strings that are given
    (the first is the clean one), or pairs that are found around those given.
    Of any TransformerLens model: `strings` are rows of token ids, `pairs` are pairs of row numbers
    (without, rows 0 and 1), read at position `query`. Of one output it is the logit, of two the
    second less the first, and of more the logit of `answer` less the largest other one; without
    `answer`, of what the model answers to the clean row, and of our classifier the right class.
    """
    config = classifier_config(model)
    if config is None:
        return _rows(model, strings, pairs, query, answer, token_names)
    if isinstance(strings, str) or len(strings) == 0:
        raise UsageError("a probe needs a list of one or more strings (or rows of token ids)")
    texts = [config.alphabet.canonical(string) for string in strings]
    form = _form(config, by)
    if pairs is not None:
        chosen = []
        for pair in pairs:
            if isinstance(pair, str) or not isinstance(pair, Sequence) or len(pair) != 2:
                raise UsageError(f"a pair is two strings, (clean, corrupted); got {pair!r}")
            clean, corrupted = map(config.alphabet.canonical, pair)
            chosen.append((clean, corrupted, "the pair that was asked for"))
    elif len(texts) == 2:
        chosen = [(texts[0], texts[1], "the two strings that were given, the clean one first")]
    else:
        need_one_logit(config, "patching or paths (without a pair of strings)")
        chosen = find_pairs(model, config, texts, same_length=form == "position")
    if not 1 <= len(chosen) <= MOST_PAIRS:
        raise UsageError(f"1 to {MOST_PAIRS} pairs can be looked at, got {len(chosen)}")
    return [_pair_run(model, config, form, *pair) for pair in chosen]


def _form(config: ClassifierConfig, by: By | None) -> By:
    if by not in (None, "letter", "position"):
        raise UsageError(f"by is 'letter' or 'position', got {by!r}")
    if by == "letter" and config.needs_order:
        raise UsageError(
            "this model has positions, so a letter is not the same at two places: by='position'"
        )
    return by or ("position" if config.needs_order else "letter")


def _pair_run(
    model: Any, config: ClassifierConfig, by: By, clean: str, corrupted: str, why: str
) -> PairRun:
    import torch

    names = config.alphabet.token_names
    if by == "letter":
        inputs = [model.inputs([string]) for string in (clean, corrupted)]
        positions = tuple(names[t] for t in inputs[0].tokens[0].tolist())
        differ: tuple[int, ...] = ()
    else:
        lengths = [int(config.alphabet.counts(string).sum()) for string in (clean, corrupted)]
        if lengths[0] != lengths[1]:
            raise UsageError(
                f"`{clean}` has {lengths[0]} letters and `{corrupted}` {lengths[1]}: patched by "
                "position, both strings must be of one length"
            )
        if lengths[0] >= MOST_POSITIONS:
            raise UsageError(
                f"`{clean}` has {lengths[0]} letters; by position at most {MOST_POSITIONS - 1}"
            )
        inputs = [model.tokens([string]) for string in (clean, corrupted)]
        rows = [row[0].tolist() for row in inputs]
        positions, differ = _places(rows[0], rows[1], names)
    labels = config.classes([clean, corrupted])
    multiclass = config.n_outputs > 1
    metric = _lead(int(labels[0])) if multiclass else logit
    with torch.no_grad():
        logits = [float(metric(model(given))) for given in inputs]
    pair = Pair(
        clean=clean,
        corrupted=corrupted,
        clean_logit=logits[0],
        corrupted_logit=logits[1],
        labels=None if multiclass else (int(labels[0]), int(labels[1])),
        why=f"{why}; the clean one's class over the best other" if multiclass else why,
        positions=positions,
    )
    _check_apart(pair)
    reading = model.inputs(inputs[1]).reading
    at = 0 if reading is None else int(reading[0])
    return PairRun(pair, model, inputs[1], Patch(clean), metric, by, differ, ours=True, query=at)


def _lead(answer: int) -> Metric:
    """Of outputs `[row output]`: the answer's logit less the largest of the others."""

    def lead(output: Any) -> Any:
        others = output.clone()
        others[..., answer] = float("-inf")
        return output[..., answer] - others.max(-1).values

    return lead


def _places(
    clean: list[int], corrupted: list[int], names: Sequence[str] | None
) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """`2 b`, or `3 b|c` where the clean string has b and the corrupted one c."""
    places, differ = [], []
    for at, tokens in enumerate(zip(clean, corrupted, strict=True)):
        called = [str(token) if names is None else names[token] for token in dict.fromkeys(tokens)]
        places.append("CLS" if called == ["CLS"] else f"{at} {'|'.join(called)}")
        if len(called) > 1:
            differ.append(at)
    return tuple(places), tuple(differ)


def _check_apart(pair: Pair) -> None:
    size = max(1.0, abs(pair.clean_logit), abs(pair.corrupted_logit))
    if not abs(pair.clean_logit - pair.corrupted_logit) > 1e-6 * size:
        raise UsageError(
            f"`{pair.clean}` and `{pair.corrupted}` have the same logit ({pair.clean_logit:+.4f}), "
            "so there is no difference to trace; take two strings the model tells apart"
        )


def _rows(
    model: Any,
    tokens: Any,
    pairs: Iterable[Sequence[Any]] | None,
    query: int | None,
    answer: int | None,
    token_names: Sequence[str] | None,
) -> list[PairRun]:
    import torch

    need_method(model, "run_with_hooks")
    given = token_rows(model, tokens, query, None)
    tokens = torch.from_numpy(given.tokens).to(device_of(model))
    chosen = [(0, 1)] if pairs is None else [tuple(numbers) for numbers in pairs]
    for numbers in chosen:
        if len(numbers) != 2 or not all(
            isinstance(row, int) and 0 <= row < len(tokens) for row in numbers
        ):
            raise UsageError(
                f"of {len(tokens)} rows of token ids, a pair is two row numbers, clean first, from "
                f"0 to {len(tokens) - 1}; got {numbers!r}"
            )
    at = int(given.query[0])
    runs = []
    for clean, corrupted in chosen:
        rows = tokens[[clean, corrupted]]
        with torch.no_grad():
            outputs = model(rows)
        metric, remark = _metric(outputs[0, at], at, answer)
        logits = as_array(metric(outputs)).tolist()
        positions, differ = _places(rows[0].tolist(), rows[1].tolist(), token_names)
        pair = Pair(
            clean=f"row {clean}",
            corrupted=f"row {corrupted}",
            clean_logit=logits[0],
            corrupted_logit=logits[1],
            why=f"rows {clean} and {corrupted} of the token ids{remark}",
            positions=positions,
        )
        _check_apart(pair)
        patch = Patch(tuple(rows[0].tolist()))
        runs.append(PairRun(pair, model, rows[1:], patch, metric, "position", differ, False, at))
    return runs


def _metric(clean: Any, at: int, answer: int | None) -> tuple[Metric, str]:
    """From what the model returns to one number per row, and what it is, in words."""
    outputs = len(clean)
    if answer is not None and not (isinstance(answer, int) and 0 <= answer < outputs):
        raise UsageError(
            f"answer is one of the {outputs} outputs, 0 to {outputs - 1}, not {answer}"
        )
    if outputs == 1:
        return lambda output: output[:, at, 0], ""
    if outputs == 2 and answer is None:  # no and yes, as in an exported classifier
        return lambda output: output[:, at, 1] - output[:, at, 0], ""
    own = int(clean.argmax()) if answer is None else answer
    lead = _lead(own)
    return lambda output: lead(output[:, at]), f", output {own} over the best other"
