"""Two runs of one model for patching: the pair that is given, or one that is found.

By letter (`by="letter"`, models without positions): a position is a kind of token, CLS or a letter,
so strings of any lengths can be compared. What differs between two strings is then how often each
letter occurs, and nothing else: that enters a model where attention weighs its keys.
By position (`by="position"`): the place in the string, so both strings must be of one length.

Pairs are found around the strings that are given. First, for a string the model gets wrong: the
wrong string, and the longest of its kind, with fewer of its most frequent letter (or, where length
must stay, with one letter replaced), that it gets right. Then two strings that differ in one letter
and in their label, both answered right where such a pair is found near a wrong string or near the
others. Of a model with a frame, every string that is looked at fits the frame.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import UnsupportedError, UsageError
from tsc_interp.probes.inputs import Floats, Inputs, as_array, lead, need_one_logit
from tsc_interp.probes.token_rows import TokenNames, device_of, name_of, need_method
from tsc_interp.results.base import Record, Severity

if TYPE_CHECKING:
    from tsc_interp.interventions.changes import Patch

By = Literal["letter", "position"]
Metric = Callable[[Any], Any]
"""From what the model returns to one number per row."""
Pairs = Iterable[Sequence[Any]]
"""`[(clean, corrupted), ...]`: strings, or numbers of rows of token ids."""
Found = tuple[str, str, str]
"""Clean, corrupted, and why."""
MOST_PAIRS = 16
MOST_POSITIONS = 128
MOST_SHORTENED = 512
APART = 1e-3


class Pair(Record):
    """Two strings (or rows of token ids) for patching: values go from the clean run into the other.

    An effect is `(patched - corrupted) / (clean - corrupted)`: 1 is the clean string's logit
    restored, 0 is nothing changed.
    """

    clean: str
    corrupted: str
    clean_logit: float
    corrupted_logit: float
    labels: tuple[int, int] | None = None
    """The true labels of clean and corrupted, for a model with a task."""
    why: str
    """How the two came to be compared."""
    positions: tuple[str, ...]
    """What to call each position: a kind of token, or a place in the strings."""

    def effect(self, patched_logit: float) -> float:
        """Return (patched - corrupted) / (clean - corrupted) of a logit."""
        return (patched_logit - self.corrupted_logit) / (self.clean_logit - self.corrupted_logit)

    def patched_logit(self, effect: float) -> float:
        """Return the logit that has this effect."""
        return self.corrupted_logit + effect * (self.clean_logit - self.corrupted_logit)

    def sentence(self) -> str:
        """Return the pair and its logits as a sentence."""
        return (
            f"The clean string is {self._one(0)}, the corrupted string {self._one(1)}: {self.why}."
        )

    def scale(self) -> str:
        """For captions: which is clean, which is corrupted, and what the numbers are."""
        return (
            f"Clean: {self.clean} (logit {self.clean_logit:+.4g}). Corrupted: {self.corrupted} "
            f"({self.corrupted_logit:+.4g}). 1 = the clean string's logit restored, "
            "0 = nothing changed."
        )

    def right(self, which: int) -> bool | None:
        """Whether the clean (0) or the corrupted string (1) is answered right."""
        if self.labels is None:
            return None
        return ((self.clean_logit, self.corrupted_logit)[which] > 0) == bool(self.labels[which])

    @property
    def severity(self) -> Severity:
        """A failure where a wrong string is compared with one that is answered right."""
        return "failure" if self.right(1) is False and self.right(0) else "note"

    def _one(self, which: int) -> str:
        name = (self.clean, self.corrupted)[which]
        logit = (self.clean_logit, self.corrupted_logit)[which]
        answer = {None: "", True: ", right", False: ", wrong"}[self.right(which)]
        return f"`{name}` (logit {logit:+.4f}{answer})"


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


def pair_runs(inputs: Inputs, pairs: Pairs | None = None, by: By | None = None) -> list[PairRun]:
    """Return the pairs to look at, checked.

    Of our classifier: `pairs` of strings, clean first; without, the two strings that are given
    (the first is the clean one), or pairs that are found around those given.
    Of any TransformerLens model: `pairs` of row numbers (without, rows 0 and 1), read at position
    `query`. Of one output it is the logit, of two the second less the first, and of more the logit
    of `answer` less the largest other one; without `answer`, of what the model answers to the clean
    row, and of our classifier the right class.
    """
    model, config = inputs.model, inputs.config
    if config is None:
        return _rows(inputs, pairs)
    if by not in (None, "letter", "position"):
        raise UsageError(f"by is 'letter' or 'position', got {by!r}")
    if by == "letter" and config.needs_order:
        raise UsageError(
            "this model has positions, so a letter is not the same at two places: by='position'"
        )
    form: By = by or ("position" if config.needs_order else "letter")
    if pairs is not None:
        chosen = []
        for pair in pairs:
            if isinstance(pair, str) or not isinstance(pair, Sequence) or len(pair) != 2:
                raise UsageError(f"a pair is two strings, (clean, corrupted); got {pair!r}")
            clean, corrupted = map(config.alphabet.canonical, config.filled(pair))
            chosen.append((clean, corrupted, "the pair that was asked for"))
    elif len(inputs.given) == 2:
        why = "the two strings that were given, the clean one first"
        chosen = [(*inputs.given, why)]
    else:
        need_one_logit(config, "patching or paths (without a pair of strings)")
        chosen = find_pairs(model, config, inputs.given, same_length=form == "position")
    if not 1 <= len(chosen) <= MOST_PAIRS:
        raise UsageError(f"1 to {MOST_PAIRS} pairs can be looked at, got {len(chosen)}")
    return [_pair_run(model, config, form, *pair) for pair in chosen]


def _pair_run(
    model: Any, config: ClassifierConfig, by: By, clean: str, corrupted: str, why: str
) -> PairRun:
    import torch

    from tsc_interp.interventions.changes import Patch
    from tsc_interp.interventions.singly import logit

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
    right = int(labels[0])
    metric: Metric = (lambda outputs: lead(outputs, right)) if multiclass else logit
    with torch.no_grad():
        logits = [float(metric(model(given))) for given in inputs]
    pair = Pair(
        clean=clean,
        corrupted=corrupted,
        clean_logit=logits[0],
        corrupted_logit=logits[1],
        labels=None if multiclass else (right, int(labels[1])),
        why=f"{why}; the clean one's class over the best other" if multiclass else why,
        positions=positions,
    )
    _check_apart(pair)
    reading = model.inputs(inputs[1]).reading
    at = 0 if reading is None else int(reading[0])
    return PairRun(pair, model, inputs[1], Patch(clean), metric, by, differ, ours=True, query=at)


def _places(
    clean: list[int], corrupted: list[int], names: TokenNames | None
) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """`2 b`, or `3 b|c` where the clean string has b and the corrupted one c."""
    places, differ = [], []
    for at, tokens in enumerate(zip(clean, corrupted, strict=True)):
        called = [name_of(names, token) for token in dict.fromkeys(tokens)]
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


def _rows(inputs: Inputs, pairs: Pairs | None) -> list[PairRun]:
    import torch

    from tsc_interp.interventions.changes import Patch

    model = inputs.model
    need_method(model, "run_with_hooks")
    given = inputs.rows
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
        metric, remark = _metric(outputs[0, at], at, inputs.answer)
        logits = as_array(metric(outputs)).tolist()
        positions, differ = _places(rows[0].tolist(), rows[1].tolist(), inputs.token_names)
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


def _metric(clean: Any, at: int, answer: Any) -> tuple[Metric, str]:
    """From what the model returns to one number per row, and what it is, in words."""
    outputs = len(clean)
    if answer is not None and not (isinstance(answer, int) and 0 <= answer < outputs):
        raise UsageError(
            f"answer is one of the {outputs} outputs, 0 to {outputs - 1}, not {answer}"
        )
    if outputs == 1:
        return lambda output: output[:, at, 0], ""
    if outputs == 2 and answer is None:  # no and yes, as in an exported classifier
        return lambda output: lead(output[:, at], 1), ""
    own = int(clean.argmax()) if answer is None else answer
    return lambda output: lead(output[:, at], own), f", output {own} over the best other"


# -- pairs that are found --------------------------------------------------------------------------


def find_pairs(
    model: Any, config: ClassifierConfig, strings: list[str], *, same_length: bool
) -> list[Found]:
    """At most two: a wrong string and a right one of its label, and two labels one letter apart."""
    known = _Answers(model, config, same_length)
    strings = [s for s in dict.fromkeys(strings) if known.readable(s)]
    known.add(strings)
    pairs: list[Found] = []
    for wrong in (s for s in strings if not known.right(s)):
        near = list(known.replaced(wrong) if same_length else known.shortened(wrong))
        known.add(near)
        alike = (s for s in near if known.labels[s] == known.labels[wrong] and known.right(s))
        right = next((s for s in alike if known.gap(s, wrong) > APART), None)
        if right is not None:
            why = "the corrupted one is wrong, the clean one has the same label and is right"
            pairs.append((right, wrong, why))
            break
    # What the rule names, or else all letters: no given string may be near the other label.
    needs = config.task.needs or config.alphabet.letters
    often = [config.alphabet.canonical(f"{needs[0]}{{{k}}}") for k in range(1, 17)]
    seeds = [*(right for right, *_ in pairs), *strings, needs, *often]
    labels = _label_pair(known, [seed for seed in seeds if known.readable(seed)], strings)
    if labels is None and not pairs:
        raise UnsupportedError(
            "no two strings one letter apart were found that differ in their label and their "
            "logit; name a pair: pairs=[(clean, corrupted)]"
        )
    return pairs if labels is None else [*pairs, labels]


def _label_pair(known: _Answers, seeds: list[str], given: list[str]) -> Found | None:
    """Clean is the string with the positive label; both are answered right, if there are such."""
    best: tuple[float, Found] | None = None
    why = "one letter apart, with different labels"
    for seed in dict.fromkeys(seeds):
        near = list(known.replaced(seed) if known.same_length else known.one_letter_apart(seed))
        near.sort(key=lambda string: string not in given)  # stable: given strings first
        known.add([seed, *near])
        for other in (s for s in near if known.labels[s] != known.labels[seed]):
            clean, corrupted = (seed, other) if known.labels[seed] else (other, seed)
            gap = known.gap(seed, other)
            if known.right(seed) and known.right(other) and gap > APART:
                return clean, corrupted, f"{why}, both answered right"
            if gap > max(APART, best[0] if best else 0.0):
                best = gap, (clean, corrupted, why)
    return None if best is None else best[1]


class _Answers:
    """Labels and logits of strings, each asked for once, and the strings near a string."""

    def __init__(self, model: Any, config: ClassifierConfig, same_length: bool) -> None:
        self.model, self.config, self.same_length = model, config, same_length
        self.logits: dict[str, float] = {}
        self.labels: dict[str, bool] = {}

    def readable(self, string: str) -> bool:
        """Whether it is an input of this model; by position, 100 letters are plenty."""
        letters = self.config.alphabet.expand(string) if self.same_length else ""
        if self.config.frame is not None:
            return list(map(self.config.alphabet.letters.index, letters)) in self.config.frame
        return len(letters) < min(100, self.config.n_positions or 100)

    def add(self, strings: list[str]) -> None:
        import torch

        new = [s for s in dict.fromkeys(strings) if s not in self.logits]
        if not new:
            return
        with torch.no_grad():
            logits: Floats = as_array(self.model(new))
        labels = self.config.classes(new)
        self.logits |= dict(zip(new, logits.tolist(), strict=True))
        self.labels |= dict(zip(new, labels.tolist(), strict=True))

    def right(self, string: str) -> bool:
        return (self.logits[string] > 0) == self.labels[string]

    def gap(self, string: str, other: str) -> float:
        return abs(self.logits[string] - self.logits[other])

    def shortened(self, string: str) -> Iterator[str]:
        """With fewer of its most frequent letter, the longest first."""
        alphabet = self.config.alphabet
        counts = alphabet.counts(string)
        most = int(counts.argmax())
        fewer = np.unique(np.geomspace(1, counts[most], MOST_SHORTENED).astype(int))[:-1]
        if counts[most] <= MOST_SHORTENED:
            fewer = np.arange(1, counts[most])
        for count in fewer[::-1].tolist():
            shorter = counts.copy()
            shorter[most] = count
            yield alphabet.write(shorter)

    def one_letter_apart(self, string: str) -> Iterator[str]:
        """By counts: one letter replaced, then one more, then one less."""
        alphabet = self.config.alphabet
        counts = alphabet.counts(string)
        units = np.eye(alphabet.size, dtype=np.int64)
        moves = [add - take for take in units for add in units if (add != take).any()]
        for move in [*moves, *units, *-units]:
            changed = counts + move
            if changed.min() >= 0 and changed.any():
                yield alphabet.write(changed)

    def replaced(self, string: str) -> Iterator[str]:
        """By place: one letter replaced, everything else where it was."""
        alphabet = self.config.alphabet
        letters = alphabet.expand(string)
        for at, old in enumerate(letters):
            for new in alphabet.letters:
                changed = alphabet.canonical(letters[:at] + new + letters[at + 1 :])
                if new != old and self.readable(changed):
                    yield changed
