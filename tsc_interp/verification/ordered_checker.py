"""An independent checker of certificates about strings in their order: exact arithmetic.

It believes nothing but the checkpoint and the task's own rules for boxes (ordered_tasks.py). Every
box of a certificate gets its class and its bounds again here (ordered_checker_model.py), no string
may be in two boxes, and numbers of strings are products of set sizes. Strings in no box are
undecided: a certificate need not know everything. What cannot be derived again, or not within the
time allowed, is rejected with the reason.

The schema is `tsc-interp/ordered-certificate/1`:

    task        the task, by name
    lengths     per length: `right`, a list of boxes, and `wrong`, boxes with the class that beats
                the label in all of their strings; a box is a list of sets, a set a text of letters
    conclusion  per length how many strings there are, are right, wrong and undecided; the first
                error, and whether nothing undecided can come before it
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from time import monotonic
from typing import Any

from tsc_interp.checkpoints.format import Checkpoint
from tsc_interp.verification.box_claims import CertificateError, require, whole
from tsc_interp.verification.checker import MAX_PARAMETERS, SECONDS, digest, json_text, rejecting
from tsc_interp.verification.ordered_checker_model import OrderedBoxModel
from tsc_interp.verification.ordered_disjoint import disjoint
from tsc_interp.verification.ordered_tasks import OrderedTask, task_from_dict

SCHEMA = "tsc-interp/ordered-certificate/1"
MAX_BOXES = 500_000
MAX_LENGTH = 1000

__all__ = ["SCHEMA", "CertificateError", "OrderedChecker", "OrderedProved", "check_ordered"]


@dataclass(frozen=True)
class LengthProved:
    length: int
    strings: int
    right: int
    wrong: int

    @property
    def undecided(self) -> int:
        return self.strings - self.right - self.wrong

    def to_dict(self) -> dict[str, Any]:
        """Numbers of strings as text: they may be beyond what JSON's readers hold exactly."""
        return {
            "length": self.length,
            "strings": str(self.strings),
            "right": str(self.right),
            "wrong": str(self.wrong),
            "undecided": str(self.undecided),
        }


@dataclass(frozen=True)
class OrderedProved:
    """What the checker derived again: the only thing anyone may call proved."""

    task: str
    lengths: tuple[LengthProved, ...]
    first_error: str | None
    """The first string, by length and then by the alphabet, of the boxes shown wrong."""

    @property
    def first_error_is_first(self) -> bool:
        """Whether no string of these lengths that comes before it is undecided."""
        if self.first_error is None:
            return False
        end = len(self.first_error)
        return not any(one.undecided for one in self.lengths if one.length <= end)

    @property
    def right_through(self) -> int:
        """Every string up to this length is right."""
        through = 0
        for one in self.lengths:
            if one.length != through + 1 or one.right != one.strings:
                break
            through = one.length
        return through

    @property
    def sentences(self) -> tuple[str, ...]:
        said = []
        for one in self.lengths:
            rest = f", {one.undecided:,} not decided" if one.undecided else ""
            said.append(
                f"of {one.strings:,} strings of length {one.length}, {one.right:,} are right and "
                f"{one.wrong:,} wrong{rest} (task: {self.task})"
            )
        if self.first_error is not None:
            which = "the first error" if self.first_error_is_first else "an error"
            said.append(f"{self.first_error} is {which} of these lengths")
        return tuple(said)

    def __iter__(self) -> Iterator[str]:
        return iter(self.sentences)

    def __len__(self) -> int:
        return len(self.sentences)

    def conclusion(self) -> dict[str, Any]:
        """As a certificate states it."""
        return {
            "lengths": [one.to_dict() for one in self.lengths],
            "first_error": self.first_error,
            "first_error_is_first": self.first_error_is_first,
            "right_through": self.right_through,
        }


def check_ordered(
    document: Any,
    checkpoint: Checkpoint,
    *,
    task: OrderedTask | None = None,
    seconds: float = SECONDS,
) -> OrderedProved:
    """What the certificate proves; `CertificateError` if anything fails or takes too long.

    `task` is only needed for one that a certificate cannot name: a function of strings.
    """
    return OrderedChecker(checkpoint, seconds=seconds).check(document, task)


class OrderedChecker:
    """Checks certificates of one model; what was derived once is known."""

    def __init__(self, checkpoint: Checkpoint, *, seconds: float = SECONDS) -> None:
        config = checkpoint.config
        require(config.n_layers == 1, f"the model has {config.n_layers} layers, not one")
        require(
            not config.beyond_verification,
            f"the model has {', '.join(config.beyond_verification)}, which is not known here",
        )
        require(
            checkpoint.n_parameters <= MAX_PARAMETERS,
            f"the model has {checkpoint.n_parameters:,} parameters; exact arithmetic is affordable "
            f"up to {MAX_PARAMETERS:,}",
        )
        self.config, self.weight_hash = config, checkpoint.weight_hash()
        self.seconds, self._until = seconds, 0.0
        self.model = OrderedBoxModel(checkpoint, self._pay)
        self._derived: set[Any] = set()

    def check(self, document: Any, task: OrderedTask | None = None) -> OrderedProved:
        with self._rejecting():
            require(isinstance(document, dict), "a certificate is a JSON object")
            fields = {"schema", "weight_hash", "task", "lengths", "conclusion", "digest"}
            require(set(document) == fields, f"it has exactly the fields {sorted(fields)}")
            require(document["schema"] == SCHEMA, f"the schema must be {SCHEMA!r}")
            require(document["digest"] == digest(document), "the digest does not fit the content")
            require(
                document["weight_hash"] == self.weight_hash,
                "the certificate is about other weights or another configuration",
            )
            if task is None:
                task = task_from_dict(document["task"], self.config)
            named = json_text(document["task"]) == json_text(task.to_dict())
            require(named, "the certificate is about another task")
            proved = self._derive(document["lengths"], task)
            given, derived = (json_text(x) for x in (document["conclusion"], proved.conclusion()))
            require(given == derived, f"the conclusion does not follow; what does is {derived}")
            return proved

    def derive(self, lengths: Any, task: OrderedTask) -> OrderedProved:
        """What follows from these boxes, each derived again."""
        with self._rejecting():
            return self._derive(lengths, task)

    def holds(self, sets: Sequence[Sequence[int]], instead: int | None, task: OrderedTask) -> bool:
        """Whether a box is shown right (None), or beaten by a class."""
        with self._rejecting():
            return self._holds(tuple(map(tuple, sets)), instead, task)

    # -- derivation ------------------------------------------------------------------------------

    def _derive(self, lengths: Any, task: OrderedTask) -> OrderedProved:
        require(isinstance(lengths, list) and bool(lengths), "lengths are a list")
        found, errors, total, last = [], [], 0, 0
        for claim in lengths:
            require(set(claim) == {"length", "right", "wrong"}, "a length has right and wrong")
            length = whole(claim["length"])
            require(last < length <= MAX_LENGTH, "lengths rise, and are not too long")
            last = length
            total += len(claim["right"]) + len(claim["wrong"])
            require(total <= MAX_BOXES, f"more than {MAX_BOXES:,} boxes are too many to check")
            proved, first = self._one_length(length, claim, task)
            found.append(proved)
            errors += first
        return OrderedProved(task.describe(), tuple(found), errors[0] if errors else None)

    def _one_length(
        self, length: int, claim: Any, task: OrderedTask
    ) -> tuple[LengthProved, list[str]]:
        config, letters = self.config, self.config.alphabet.letters
        if config.has_positions:
            fits = length + int(config.has_cls) <= config.n_positions
            require(fits, f"the model has no positions for strings of {length} letters")
        require(isinstance(claim["right"], list), "boxes are a list")
        require(isinstance(claim["wrong"], list), "boxes are a list")
        right = [self._sets(box, length) for box in claim["right"]]
        wrong = []
        for entry in claim["wrong"]:
            require(isinstance(entry, list) and len(entry) == 2, "a wrong box has a class")
            wrong.append((self._sets(entry[0], length), whole(entry[1])))
        for sets in right:
            require(self._holds(sets, None, task), f"{_shown(sets, letters)} is not proved right")
        for sets, by in wrong:
            shown = f"{_shown(sets, letters)} is not proved wrong by class {by}"
            require(self._holds(sets, by, task), shown)
        every = [*right, *(sets for sets, _ in wrong)]
        require(disjoint(every, config.n_letters, self._pay), "two boxes share strings")
        first = min((tuple(min(one) for one in sets) for sets, _ in wrong), default=None)
        proved = LengthProved(
            length,
            config.n_letters**length,
            sum(prod(map(len, sets)) for sets in right),
            sum(prod(map(len, sets)) for sets, _ in wrong),
        )
        return proved, [] if first is None else ["".join(letters[i] for i in first)]

    def _holds(self, sets: Any, instead: int | None, task: OrderedTask) -> bool:
        key = (sets, instead, task.kind, json_text(task.to_dict()))
        if key in self._derived:
            return True
        self._pay()
        label = task.box_label(tuple(map(frozenset, sets)), self.config.n_letters)
        if label is None:
            return False
        require(0 <= label < self.model.n_classes, "a class the model has no output for")
        if instead is None:
            held = self.model.is_right(sets, label)
        else:
            require(instead < self.model.n_classes, "a class the model has no output for")
            held = self.model.is_beaten(sets, label, instead)
        if held:
            self._derived.add(key)
        return held

    def _sets(self, box: Any, length: int) -> tuple[tuple[int, ...], ...]:
        require(isinstance(box, list) and len(box) == length, f"a box has {length} sets")
        return tuple(self._set(one) for one in box)

    def _set(self, text: Any) -> tuple[int, ...]:
        known = self.config.alphabet.letters
        require(isinstance(text, str) and bool(text), f"{text!r} is not a set of letters")
        require(set(text) <= set(known), f"{text!r} has letters the model does not know")
        found = tuple(known.index(letter) for letter in text)
        rises = all(a < b for a, b in pairwise(found))
        require(rises, f"{text!r} is not in the order of the alphabet, or has a letter twice")
        return found

    @contextmanager
    def _rejecting(self) -> Iterator[None]:
        """Whatever goes wrong inside, it is a rejection; the budget begins anew."""
        self._until = monotonic() + self.seconds
        with rejecting():
            yield

    def _pay(self) -> None:
        require(
            monotonic() < self._until,
            f"not checked within {self.seconds:g} seconds; allow more (seconds=...), or ask for a "
            "certificate of fewer boxes",
        )


def _shown(sets: Sequence[Sequence[int]], letters: str) -> str:
    found = " × ".join("".join(letters[i] for i in one) for one in sets)
    return found if len(found) <= 120 else f"{found[:117]}..."
