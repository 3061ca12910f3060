"""An independent checker of certificates about order-sensitive models of one layer.

It believes the checkpoint and what the task says of its inputs: the trellis of a length, or of a
step of a task that writes (`tsc_interp.tasks`). A certificate is a tree of cuts: every cut parts
the paths of a trellis in two, so every input is in exactly one leaf. For each leaf the label is
read off the trellis, the margins are bounded again in exact arithmetic (trellis_model.py), and its
paths are counted. What cannot be derived again, or not within the budget, is rejected with the
reason.

    {"schema": "tsc-interp/trellis-certificate/1", "weight_hash": ..., "task": task as JSON,
     "parts": [part, ...], "conclusion": {...}, "digest": as in document.py}

The conclusion has per part the number of inputs, right, wrong and undecided, as text, and the first
wrong input that was shown.

A *part* is one length, or one step of a task that writes:

    {"length": 20, "groups": [{"labels": [0], "tree": [node, ...]}, ...]}
    {"step": 3,    "groups": [...]}

Its trellis is `trellis_of(task, n_letters, length)`, or `task.step_trellis(step)`. Labels are
looked at in groups, no label in two of them; the tree of a group is about the paths of
`trellis.of_labels(labels)`, and its edges are numbered as there. A label of the trellis in no group
is undecided as a whole. The tree is a list of nodes in preorder, beginning with all paths:

    ["cut", stage, edges]   two children: the paths through these edges of the stage, then the rest.
                            `edges` is base64 of `np.packbits(mask)`, one bit per edge of the stage
    ["right"]               every path is answered with its label
    ["wrong", j]            class j beats the label on every path
    ["each"]                at most `EACH` paths, each to be evaluated on its own: right or wrong
    ["open"]                undecided: counts as neither

In right and wrong leaves all paths have one label, and for models whose last letter reads they have
one last letter. Children partition the paths of their parent, so the leaves cover every input once
whatever the search did: coverage needs no further proof.

No bound of the search is in the document. The checker derives its own for every
leaf: the range of every neuron, a linear relaxation of the margin, and the extreme of that
one functional over all paths by Dinkelbach's iteration, ended by one sweep that is rounded
outwards. Whoever writes a certificate asks the checker leaf by leaf,
`TrellisChecker(checkpoint).holds(trellis, masks, by)`, and cuts further (or leaves the leaf open)
where it does not agree.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tsc_interp.checkpoints.checkpoint import Checkpoint
from tsc_interp.tasks import trellis_of
from tsc_interp.tasks.transducer import Writing
from tsc_interp.tasks.trellis import Trellis
from tsc_interp.verification.checker.box_claims import whole
from tsc_interp.verification.checker.budget import (
    MEMORY,
    SECONDS,
    Budget,
    CertificateError,
    require,
)
from tsc_interp.verification.checker.document import Schema, checking, json_text, require_known
from tsc_interp.verification.checker.paths import Mask, Paths
from tsc_interp.verification.checker.trellis_model import TrellisModel

SCHEMA = Schema("trellis-certificate", content=("task", "parts"))
EACH = 64
"""At most this many paths of a leaf are evaluated one by one."""
MAX_NODES = 2_000_000
MAX_LENGTH = 1000
MAX_EDGES = 5_000_000

__all__ = ["EACH", "SCHEMA", "PartProved", "TrellisChecker", "TrellisProved", "check_trellis"]


@dataclass(frozen=True)
class PartProved:
    """One length, or one step of a task that writes."""

    kind: str
    """`length` or `step`."""
    number: int
    inputs: int
    right: int
    wrong: int
    first_wrong: tuple[int, ...] | None
    """The first wrong input that was shown, as letters by index."""

    @property
    def undecided(self) -> int:
        return self.inputs - self.right - self.wrong

    def conclusion(self) -> dict[str, Any]:
        """Numbers of inputs as text: they may be beyond what JSON's readers hold exactly."""
        return {
            self.kind: self.number,
            "inputs": str(self.inputs),
            "right": str(self.right),
            "wrong": str(self.wrong),
            "undecided": str(self.undecided),
            "first_wrong": None if self.first_wrong is None else list(self.first_wrong),
        }


@dataclass(frozen=True)
class TrellisProved:
    """What the checker derived again: the only thing anyone may call proved."""

    task: str
    parts: tuple[PartProved, ...]

    @property
    def all_right(self) -> bool:
        return all(part.right == part.inputs for part in self.parts)

    @property
    def sentences(self) -> tuple[str, ...]:
        said = []
        for part in self.parts:
            at = "of length" if part.kind == "length" else "at step"
            rest = f", {part.undecided:,} not decided" if part.undecided else ""
            said.append(
                f"of {part.inputs:,} inputs {at} {part.number}, {part.right:,} are right and "
                f"{part.wrong:,} wrong{rest} (task: {self.task})"
            )
        return tuple(said)

    def __iter__(self) -> Iterator[str]:
        return iter(self.sentences)

    def __len__(self) -> int:
        return len(self.sentences)

    def conclusion(self) -> dict[str, Any]:
        """As a certificate states it."""
        return {"parts": [part.conclusion() for part in self.parts]}


def check_trellis(
    document: Any,
    checkpoint: Checkpoint,
    *,
    seconds: float = SECONDS,
    memory: int = MEMORY,
) -> TrellisProved:
    """Return what a certificate proves about an order-sensitive model.

    Args:
        document: The certificate, as read from JSON.
        checkpoint: The model it is about.
        seconds: How long the check may take.
        memory: How many bytes it may hold at one time, besides the document.

    Raises:
        CertificateError: If anything does not hold, or takes more than that.
    """
    return TrellisChecker(checkpoint, seconds=seconds, memory=memory).check(document)


class TrellisChecker:
    """Checks certificates of one model about its own task."""

    def __init__(
        self, checkpoint: Checkpoint, *, seconds: float = SECONDS, memory: int = MEMORY
    ) -> None:
        config = checkpoint.config
        require(config.n_layers == 1, f"the model has {config.n_layers} layers, not one")
        require_known(checkpoint, config.beyond_verification)
        self.config, self.weight_hash = config, checkpoint.weight_hash()
        self._task: Any = config.task
        self._budget = Budget(seconds, memory)
        self.model = TrellisModel(checkpoint, self._budget, memory)
        self._trellises: dict[tuple[str, int], Trellis] = {}

    def check(self, document: Any) -> TrellisProved:
        with checking(self._budget):
            SCHEMA.opened(document, [self.weight_hash])
            task = self._task.model_dump(mode="json")
            same = json_text(document["task"]) == json_text(task)
            require(same, "the certificate is about another task")
            proved = self._derive(document["parts"])
            SCHEMA.concluded(document, proved.conclusion())
            return proved

    def derive(self, parts: Any) -> TrellisProved:
        """What follows from these trees, every leaf derived again."""
        with checking(self._budget):
            return self._derive(parts)

    def holds(self, trellis: Trellis, masks: Sequence[Mask], by: int | None = None) -> bool:
        """Whether all paths through these edges are shown right, or beaten by class `by`.

        `trellis` is one of `of_labels(...)`; for whoever writes a certificate.
        """
        try:
            with checking(self._budget):
                return self._holds(Paths(trellis, masks), by)
        except CertificateError:
            return False

    # -- derivation ------------------------------------------------------------------------------

    def _derive(self, parts: Any) -> TrellisProved:
        require(isinstance(parts, list) and bool(parts), "parts are a list")
        found: list[PartProved] = []
        for part in parts:
            require(isinstance(part, dict) and len(part) == 2, "a part has a name and groups")
            kind = "step" if isinstance(self._task, Writing) else "length"
            require(set(part) == {kind, "groups"}, f"a part has a {kind} and groups")
            number = whole(part[kind])
            after = not found or found[-1].number < number
            require(after, f"each {kind} is named once, in rising order")
            found.append(self._part(kind, number, part["groups"]))
        return TrellisProved(self.config.task.describe(), tuple(found))

    def trellis(self, kind: str, number: int) -> Trellis:
        """All inputs of a length, or of a step of a task that writes."""
        if (kind, number) not in self._trellises:
            config, task = self.config, self._task
            require(number <= MAX_LENGTH, f"inputs of more than {MAX_LENGTH} letters are too long")
            if isinstance(task, Writing):
                made = task.step_trellis(number)
            else:
                made = trellis_of(task, config.n_letters, number)
            if config.has_positions:
                fits = made.length + int(config.has_cls) <= config.n_positions
                require(fits, f"the model has no positions for {made.length} letters")
            require(made.n_edges <= MAX_EDGES, "the task has too many states to be checked")
            require(made.labels[-1] < self.model.n_classes, "a class the model has no output for")
            self._trellises[kind, number] = made
        return self._trellises[kind, number]

    def _part(self, kind: str, number: int, groups: Any) -> PartProved:
        trellis = self.trellis(kind, number)
        every = Paths(trellis, [np.ones(len(stage), dtype=bool) for stage in trellis.stages])
        require(isinstance(groups, list), "groups are a list")
        seen: set[int] = set()
        right = wrong = 0
        first: tuple[int, ...] | None = None
        for group in groups:
            require(set(group) == {"labels", "tree"}, "a group has labels and a tree")
            labels = [whole(label) for label in group["labels"]]
            once = len(set(labels)) == len(labels) and not seen & set(labels)
            require(bool(labels) and once, "no label is in two groups, or twice in one")
            require(set(labels) <= set(trellis.labels), "a label that no input has")
            seen |= set(labels)
            for claim, paths in self._leaves(trellis.of_labels(labels), group["tree"]):
                more_right, more_wrong, error = self._leaf(claim, paths)
                right, wrong = right + more_right, wrong + more_wrong
                if error is not None and (first is None or error < first):
                    first = error
        return PartProved(kind, number, every.count(), right, wrong, first)

    def _leaves(self, trellis: Trellis, tree: Any) -> Iterator[tuple[Any, Paths]]:
        """The leaves of a tree with their paths, in preorder."""
        require(isinstance(tree, list) and len(tree) <= MAX_NODES, "a tree is a list of nodes")
        whole_of = Paths(trellis, [np.ones(len(stage), dtype=bool) for stage in trellis.stages])
        waiting, held = [whole_of], trellis.n_edges
        for node in tree:
            require(bool(waiting), "the tree goes on after its last leaf")
            require(isinstance(node, list) and bool(node), "a node is a list")
            paths = waiting.pop()
            if node[0] != "cut":
                yield node, paths
                continue
            require(len(node) == 3, "a cut has a stage and edges")
            stage = whole(node[1])
            require(stage < len(trellis.stages), "a cut is made at one of the stages")
            inside, outside = paths.parted(stage, _mask(node[2], len(trellis.stages[stage])))
            both = not inside.is_empty and not outside.is_empty
            require(both, "a cut leaves inputs on both sides")
            waiting += [outside, inside]
            self._budget(len(waiting) * held)
        require(not waiting, "the tree ends before its last leaf")

    def _leaf(self, claim: Any, paths: Paths) -> tuple[int, int, tuple[int, ...] | None]:
        """How many paths are right and wrong, and the first wrong one."""
        self._budget()
        count, kind = paths.count(), claim[0]
        if kind == "open":
            require(len(claim) == 1, "an open leaf says nothing more")
            return 0, 0, None
        if kind == "right":
            require(len(claim) == 1, "a right leaf says nothing more")
            require(self._holds(paths, None), f"a leaf of {count:,} inputs is not proved right")
            return count, 0, None
        if kind == "wrong":
            require(len(claim) == 2, "a wrong leaf has the class that beats the label")
            by = whole(claim[1])
            require(self._holds(paths, by), f"a leaf of {count:,} inputs is not proved wrong")
            return 0, count, paths.first()
        require(claim == ["each"], f"unknown leaf {claim!r}")
        require(count <= EACH, f"at most {EACH} inputs are evaluated one by one, not {count:,}")
        return self._each(paths)

    def _each(self, paths: Paths) -> tuple[int, int, tuple[int, ...] | None]:
        right, errors = 0, []
        for string, label in paths.strings():
            answered = self.model.verdict(string, label)
            right += answered is True
            errors += [string] if answered is False else []
        return right, len(errors), min(errors, default=None)

    def _holds(self, paths: Paths, by: int | None) -> bool:
        labels = paths.labels()
        if len(labels) != 1:
            return False
        if by is None:
            return self.model.is_right(paths, labels[0])
        require(by < self.model.n_classes, "a class the model has no output for")
        return self.model.is_beaten(paths, labels[0], by)


def _mask(text: Any, edges: int) -> Mask:
    require(isinstance(text, str), "edges are base64 of packed bits")
    try:
        packed = np.frombuffer(base64.b64decode(text, validate=True), dtype=np.uint8)
    except binascii.Error:
        raise CertificateError("rejected: edges are base64 of packed bits") from None
    require(len(packed) == -(-edges // 8), "a cut has one bit per edge of its stage")
    bits = np.unpackbits(packed)
    require(not bits[edges:].any(), "a cut has one bit per edge of its stage")
    return bits[:edges].astype(bool)
