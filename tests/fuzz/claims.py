"""Random tasks, alphabets, models and claims against brute force: `python -m tests.fuzz.claims`.

Alphabets are larger than the task needs, models of every small shape, weights ordinary, whole (so
that outputs tie), zero, or so large that softmax is one-hot. What `verify`, `certify` and `check`,
`horizon`, `diff`, `falsify` and `evaluate` claim is compared with every input, whose labels and
answers come from `oracle.py`, which imports nothing of the package. A claim that is false, or an
error that nobody raised on purpose, is bad; a task that does not fit its alphabet is refused.

    python -m tests.fuzz.claims --minutes 10 --seed 0
    python -m tests.fuzz.claims --case 0:17
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations_with_replacement
from math import factorial
from typing import Any

import numpy as np

import tsc_interp as tsc
from tests.fuzz.oracle import LETTERS, Asked, Model, Row, asked
from tsc_interp.checkpoints import Checkpoint

SECONDS = 10.0


class FalseClaim(Exception):
    """What was claimed is not so."""


@dataclass
class Subject:
    """A task over an alphabet, and a model of it."""

    task: Asked
    n_letters: int
    options: dict[str, Any]
    checkpoint: Checkpoint
    model: Model
    rng: np.random.Generator

    def inputs(self, length: int) -> list[Row]:
        return self.task.rows(self.n_letters, length)

    @cached_property
    def parts(self) -> dict[int, list[tuple[Row, int, int | None]]]:
        """Every input with its label and answer, by length, or by step."""
        if self.task.steps:
            return {
                step: [self._answered(row[: step - self.task.steps], row[step - self.task.steps])
                       for row in self.inputs(self.task.lengths[0])]
                for step in range(self.task.steps)
            }  # fmt: skip
        return {
            length: [self._answered(row, self.task.label(row)) for row in self.inputs(length)]
            for length in self.task.lengths
        }

    def _answered(self, row: Row, label: int) -> tuple[Row, int, int | None]:
        return row, label, self.model.answer(row)


def drawn(rng: np.random.Generator) -> Subject | None:
    """A subject, or None where the task does not fit the alphabet and that is said."""
    task = asked(rng)
    n_letters = task.needs + int(rng.integers(0, 3))
    in_order = task.ordered or bool(rng.integers(2))
    longest = max(len(row) for length in task.lengths[-1:] for row in task.rows(n_letters, length))
    reads = ("first", "last", "last_letter")[int(rng.integers(3))] if in_order else "first"
    reads = "last_letter" if task.steps else reads
    norm = ("off", "off", "layer", "rms", "layer_pre")[int(rng.integers(5))]
    heads, neurons = int(rng.integers(0, 3)), int(rng.integers(0, 4))
    counted = norm == "off" and not in_order
    positioned = reads != "last_letter" or bool(rng.integers(2))
    options = {
        "n_letters": n_letters, "task": task.task, "d_model": int(rng.integers(1, 4)),
        "n_heads": heads, "d_head": int(rng.integers(1, 3)), "d_mlp": neurons, "norm": norm,
        "final_norm": norm != "off" and bool(rng.integers(2)), "reads": reads,
        "attend_cls": reads != "first" or bool(rng.integers(2)),
        "n_positions": longest + 2 if in_order and positioned else 0,
        "biases": bool(rng.integers(2)),
        "act_fn": ("gelu", "relu", "silu")[int(rng.integers(3))],
        "score_scale": "sqrt_d_head_log_n" if counted and rng.integers(4) == 0 else "sqrt_d_head",
    }  # fmt: skip
    classes = task.classes(n_letters)
    options["n_outputs"] = classes if classes > 2 else int(rng.integers(1, 4))
    misfit = task.exact and n_letters != task.needs
    try:
        config = tsc.ClassifierConfig(**options)
    except tsc.TscError as error:
        if not misfit:
            raise FalseClaim(f"{task.task} over {n_letters} letters is refused: {error}") from None
        return None
    if misfit:
        raise FalseClaim(f"{task.task} is accepted over {n_letters} letters")
    weights = {name: _weight(rng, shape) for name, shape in config.weight_shapes().items()}
    checkpoint = Checkpoint(config, weights, source="fuzz")
    return Subject(task, n_letters, options, checkpoint, Model(options, weights), rng)


def _weight(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    kind, weight = int(rng.integers(12)), rng.normal(size=shape)
    if kind == 0:
        weight = weight * 0
    elif kind in (1, 2):
        weight = np.round(weight * 2)
    elif kind == 3:
        weight = weight * 30
    elif kind == 4:
        weight = np.where(rng.random(shape) < 0.5, 0, weight)
    return weight.astype(np.float32)


# -- claims -----------------------------------------------------------------------------------


def require(holds: bool, what: str) -> None:
    if not holds:
        raise FalseClaim(what)


def _within(name: str, inputs: int, wrong: int, undecided: int, truth: list[Any]) -> None:
    """Numbers of inputs against all of them, some of which the oracle may not decide either."""
    right = sum(answer == label for _, label, answer in truth)
    bad = sum(answer not in (label, None) for _, label, answer in truth)
    open_ = len(truth) - right - bad
    said = f"{name}: {inputs} inputs, {wrong} wrong, {undecided} undecided"
    true = f"true: {len(truth)} inputs, {bad} wrong, {open_} too near to say"
    possible = inputs == len(truth) and wrong <= bad + open_ and wrong + undecided >= bad
    require(possible, f"{said}; {true}")


def by_verify(subject: Subject) -> str:
    """Every length or step, with a certificate, checked."""
    config = subject.checkpoint.config
    lengths = None if subject.task.steps else list(subject.task.lengths)
    verdict = tsc.verify(subject.checkpoint, lengths=lengths, seconds=SECONDS, certify=True)
    counts = verdict.steps if subject.task.steps else verdict.lengths
    require(len(counts) == len(subject.parts), f"{len(counts)} of {len(subject.parts)} parts")
    for count, (number, truth) in zip(counts, subject.parts.items(), strict=True):
        _within(f"part {number}", count.inputs, count.wrong, count.undecided, truth)
    if verdict.first_wrong is not None:
        known = {row: answer for truth in subject.parts.values() for row, _, answer in truth}
        called = config.token_names or config.alphabet.letters
        row = tuple(called.index(token) for token in verdict.first_wrong.tokens)
        require(known[row] in (verdict.first_wrong.answer, None), f"{row} is answered otherwise")
    if subject.task.steps:
        whole = {row[: -subject.task.steps] for row in subject.inputs(subject.task.lengths[0])}
        prompt = len(next(iter(whole)))
        bad = {row[:prompt] for truth in subject.parts.values() for row, label, answer in truth
               if answer not in (label, None)}  # fmt: skip
        open_ = {row[:prompt] for truth in subject.parts.values() for row, _, answer in truth
                 if answer is None}  # fmt: skip
        possible = verdict.wrong <= len(bad | open_) and verdict.wrong + verdict.undecided >= len(
            bad
        )
        require(verdict.inputs == len(whole) and possible,
                f"at any step: {verdict.wrong} wrong, {len(bad)} are")  # fmt: skip
    proved = tsc.check(verdict.certificate, subject.checkpoint)
    for part, (number, truth) in zip(proved.parts, subject.parts.items(), strict=True):
        _within(f"certified part {number}", part.inputs, part.wrong, part.undecided, truth)
    return "verify of order"


def by_counts(subject: Subject) -> str:
    """Numbers of strings, the first error, and what is certified of every set of letters."""
    longest = 5 if subject.n_letters < 5 else 4
    strings: list[tuple[Row, int, int | None]] = []
    weights = []
    for length in range(1, longest + 1):
        for row in combinations_with_replacement(range(subject.n_letters), length):
            strings.append((row, subject.task.label(row), subject.model.answer(row)))
            ways = factorial(length)
            for letter in set(row):
                ways //= factorial(row.count(letter))
            weights.append(ways)
    verdict = tsc.verify(subject.checkpoint, longest)
    sides = verdict.tally.sides
    undecided = sides[-1].total_strings
    wrong = sum(side.total_strings for side in sides[:-1])
    bad = sum(w for w, (_, label, answer) in zip(weights, strings, strict=True)
              if answer not in (label, None))  # fmt: skip
    open_ = sum(w for w, (_, _, answer) in zip(weights, strings, strict=True) if answer is None)
    possible = wrong <= bad + open_ and wrong + undecided >= bad
    require(verdict.tally.strings == sum(weights) and possible,
            f"{wrong} wrong and {undecided} undecided of {verdict.tally.strings}; {bad} are wrong "
            f"of {sum(weights)}, {open_} too near to say")  # fmt: skip
    certificate = tsc.certify(subject.checkpoint, limit=longest + 3)
    proved = tsc.check(certificate, subject.checkpoint)
    failing = {"".join(LETTERS[x] for x in row): "".join(sorted({LETTERS[x] for x in row}))
               for row, label, answer in strings if answer not in (label, None)}  # fmt: skip
    for text, letters in failing.items():
        through = proved.verified_length[letters]
        require(through is not None and through < len(text), f"{text} is wrong, {letters} right")
    for text in proved.wrong:
        counts = subject.checkpoint.config.alphabet.counts(text)
        row = tuple(x for x, count in enumerate(counts) for _ in range(int(count)))
        said = subject.model.answer(row)
        require(said is None or said != subject.task.label(row), f"{text} is right")
    first = min(map(len, failing), default=None)
    horizon = tsc.horizon(subject.checkpoint, limit=longest)
    if first is not None:
        require(
            horizon.verified_length < first, f"horizon {horizon.verified_length}, {first} fails"
        )
    return "counts"


def by_falsify(subject: Subject) -> str:
    """The exact numbers of an enumeration."""
    if subject.task.steps or "frame" in subject.task.task:
        return "falsify: has a frame"
    truth = [entry for part in subject.parts.values() for entry in part]
    if any(answer is None for _, _, answer in truth):
        return "falsify: ties"  # each costs a second at the highest precision
    reads = subject.options["reads"]
    front, back, read = {"first": ("[CLS] ", "", "0"), "last": ("", " [CLS]", "-1")}.get(
        reads, ("", "", "-1")
    )
    shortest, longest = subject.task.lengths[0], subject.task.lengths[-1]
    frame = (
        f"{front}x{{{shortest}..{longest}}}{back}; x=2..{subject.n_letters + 1}; CLS=0; read={read}"
    )
    if reads == "last_letter":
        frame = frame.replace("; CLS=0", "")
    try:
        found = tsc.falsify(subject.checkpoint, frame=frame, exhaustive=True, seconds=SECONDS)
    except tsc.errors.UnsupportedError:
        return "falsify: unsupported"
    counts = found.enumerated
    _within("enumerated", counts.inputs, counts.wrong, counts.undecided, truth)
    if found.proved:
        row = tuple(token - 2 for token in found.tokens if token)
        known = {row: (label, answer) for row, label, answer in truth}
        label, answer = known[row]
        require(label == found.label and answer != label, f"{row} is right, and proved wrong")
    return "falsify"


def by_evaluate(subject: Subject) -> str:
    """Labels, and answers that are not near a tie."""
    if subject.task.steps:
        return "evaluate: writes"
    truth = [entry for part in subject.parts.values() for entry in part][:200]
    strings = ["".join(LETTERS[x] for x in row) for row, _, _ in truth]
    for said, (row, label, answer) in zip(
        tsc.evaluate(subject.checkpoint, strings), truth, strict=True
    ):
        require(said.label == label, f"{row} is labelled {said.label}, not {label}")
        if subject.model.margin(row) > 0.01 and answer is not None:
            big = max(float(np.abs(w).max(initial=0)) for w in subject.model.weights.values())
            require(said.prediction == answer or big > 5, f"{row}: {said.prediction}, not {answer}")
    return "evaluate"


def by_diff(subject: Subject) -> str:
    """Against the same model with a few other weights."""
    if subject.checkpoint.config.n_outputs > 2:
        return "diff: multiclass"
    weights = {name: w.copy() for name, w in subject.checkpoint.weights.items()}
    name = list(weights)[int(subject.rng.integers(len(weights)))]
    weights[name] = _weight(subject.rng, weights[name].shape)
    other = Checkpoint(subject.checkpoint.config, weights)
    try:
        found = tsc.diff(subject.checkpoint, other, max_length=4, limit=8)
    except tsc.errors.UnsupportedError:
        return "diff: unsupported"
    answers = Model(subject.options, weights)
    proved = tsc.check(found.document, subject.checkpoint, other)
    for length in range(1, 5):
        for row in combinations_with_replacement(range(subject.n_letters), length):
            one, two = subject.model.answer(row), answers.answer(row)
            if None in (one, two) or one == two:
                continue
            through = proved.through["".join(sorted({LETTERS[x] for x in row}))]
            require(through is not None and through < length, f"{row} differs, proved alike")
    return "diff"


def claims_about(subject: Subject) -> Iterator[Callable[[Subject], str]]:
    if subject.checkpoint.config.needs_order:
        yield by_verify
    else:
        yield by_counts
        yield by_diff
    yield by_falsify
    yield by_evaluate


def tried(seed: int, number: int) -> Iterator[tuple[str, str]]:
    """(what was claimed, how that ended) of one case; a bad ending has its trace."""
    what = "task"
    try:
        subject = drawn(np.random.default_rng([seed, number]))
        if subject is None:
            yield what, "refused"
            return
        for claim in claims_about(subject):
            what = claim.__name__
            yield claim(subject), "true"
    except tsc.errors.UnsupportedError as error:
        yield what, f"unsupported: {str(error)[:60]}"
    except Exception:
        yield what, "BAD\n" + traceback.format_exc(limit=-4)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.claims", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--case", help="SEED:NUMBER of one case to try again")
    options = parser.parse_args()
    if options.case:
        seed, number = map(int, options.case.split(":"))
        for what, ending in tried(seed, number):
            print(what, ending)
        return 0
    endings: Counter[tuple[str, str]] = Counter()
    until, number = time.monotonic() + 60 * options.minutes, 0
    while time.monotonic() < until:
        for what, ending in tried(options.seed, number):
            endings[what, ending.partition("\n")[0]] += 1
            if ending.startswith("BAD"):
                print(f"case {options.seed}:{number} {what} {ending}", flush=True)
        number += 1
    print(f"| claim | ending | {number:,} cases |\n|---|---|---:|")
    for (what, ending), times in sorted(endings.items()):
        print(f"| {what} | {ending} | {times} |")
    return int(any(ending == "BAD" for _, ending in endings))


if __name__ == "__main__":
    sys.exit(main())
