"""Checks certificates about order-sensitive models of one layer.

It believes the checkpoint and what the task says of its inputs: the trellis of a length, or of a
step of a task that writes (`tsc_interp.tasks`). A certificate is a tree of cuts: every cut parts
the paths of a trellis in two, so every input is in exactly one leaf. For each leaf the label is
read off the trellis, the margins are bounded again, rounded outwards (trellis_model.py), and its
paths are counted. What cannot be derived again, or not within the budget, is rejected with the
reason.

    {"schema": "tsc-interp/trellis-certificate/2", "weight_hash": ..., "task": task as JSON,
     "parts": [part, ...], "conclusion": {...}, "digest": as in document.py}

The conclusion has per part the number of inputs, right, wrong and undecided, as text, and the first
wrong input that was shown; and the digest of its trellis, so that it is about these labels only.

A *part* is one length, or one step of a task that writes:

    {"length": 20, "groups": [{"labels": [0], "tree": [node, ...]}, ...]}
    {"step": 3,    "groups": [...]}

Its trellis is `trellis_of(task, n_letters, length)`, or `task.step_trellis(step)`, audited
(`tasks/audit.py`): its letters exist, its paths are as many as there are inputs, and its labels are
those of the task on all inputs, or on random ones of more than 20,000. Labels are looked at in
groups, no label in two of them; the tree of a group is about the paths of
`trellis.of_labels(labels)`, and its edges are numbered as there. A label of the trellis in no group
is undecided as a whole. The tree is a list of nodes in preorder, beginning with all paths:

    ["cut", stage, edges]   two children: the paths through these edges of the stage, then the rest.
                            `edges` is base64 of `np.packbits(mask)`, one bit per edge of the stage
    ["right"]               every path is answered with its label
    ["wrong", j]            class j beats the label on every path
    ["each"]                at most `EACH` paths, each to be evaluated on its own: right or wrong
    ["open"]                undecided: counts as neither

A leaf of the first three kinds that ends in `"float32"` says the same of the float32 model, too,
whatever the order of its sums (layer_rounding.py); of `each`, wherever that can be told. The
conclusion of the part then counts `float32` right and wrong.

In right and wrong leaves all paths have one label, and for models whose last letter reads they have
one last letter. Children partition the paths of their parent, so the leaves cover every input once
whatever the search did: coverage needs no further proof.

No bound of the search is in the document. Whoever writes a certificate asks the checker,
`TrellisChecker(checkpoint).hold(trellis, masks, claims)`, and cuts further (or leaves the leaf
open) where it does not agree.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tsc_interp.checkpoints.checkpoint import Checkpoint
from tsc_interp.tasks.audit import inputs_of
from tsc_interp.tasks.transducer import Writing
from tsc_interp.tasks.trellis import Trellis
from tsc_interp.verification.checker.box_claims import whole
from tsc_interp.verification.checker.budget import MEMORY, SECONDS, Budget, require
from tsc_interp.verification.checker.document import Schema, checking, json_text, require_known
from tsc_interp.verification.checker.sets import Layout, Mask, Sets, slots
from tsc_interp.verification.checker.trellis_claims import (
    Claim,
    PartProved,
    Tally,
    TrellisProved,
    mask_of,
    names_of,
)
from tsc_interp.verification.checker.trellis_model import TrellisModel

VERSION = 2
SCHEMA = Schema("trellis-certificate", versions=(VERSION,), content=("task", "parts"))
EACH = 64
"""At most this many paths of a leaf are evaluated one by one."""
MAX_NODES = 2_000_000
MAX_LENGTH = 1000
MAX_EDGES = 5_000_000
_PER_SLOT = 64
"""Bytes for each slot (an edge, or room for one) of leaves that are derived together, about."""
_FIRST_LEAF = 256
"""The same of the first leaf, with what is made once for a trellis."""


class TrellisChecker:
    """Checks certificates of one model about its own task.

    Args:
        checkpoint: The model.
        seconds: How long one check may take.
        memory: How many bytes it may hold at one time, besides the document.
    """

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
        self._shown: set[bytes] = set()
        """Leaves that `hold` has shown, so that `derive` need not do it again."""

    def check(self, document: Any) -> TrellisProved:
        """What a certificate, as read from JSON, proves about the model.

        Raises:
            CertificateError: If anything does not hold, or takes more than is allowed.
        """
        with checking(self._budget):
            SCHEMA.opened(document, [self.weight_hash])
            task = self._task.model_dump(mode="json")
            same = json_text(document["task"]) == json_text(task)
            require(same, "the certificate is about another task")
            proved = self._derive(document["parts"])
            SCHEMA.concluded(document, proved.conclusion(), VERSION)
            return proved

    def derive(self, parts: Any, seconds: float = float("inf")) -> TrellisProved:
        """What follows from these trees within so many seconds, every leaf derived again."""
        self._budget.seconds = seconds
        with checking(self._budget):
            return self._derive(parts)

    def hold(self, trellis: Trellis, masks: Sequence[Mask], claims: Sequence[Claim]) -> Mask:
        """Which of these right or wrong leaves are shown, for whoever writes a certificate.

        Args:
            trellis: One of `of_labels(...)`.
            masks: `[leaf edge]` per stage.
            claims: What each leaf is to say.
        """
        by = np.array([claim.by for claim in claims], dtype=np.int64)
        float32 = np.array([claim.float32 for claim in claims], dtype=bool)
        shown = np.zeros(len(claims), dtype=bool)
        with checking(self._budget):
            size = self._leaves_at_once(trellis)
            for start in range(0, len(claims), size):
                part = slice(start, start + size)
                sets = Sets(trellis, [mask[part] for mask in masks])
                shown[part] = self.model.hold(sets, by[part], float32[part]) & sets.has_paths
                names = names_of(sets, claims[part])
                self._shown |= {name for name, good in zip(names, shown[part], strict=True) if good}
        return shown

    # -- derivation ------------------------------------------------------------------------------

    def _derive(self, parts: Any) -> TrellisProved:
        require(isinstance(parts, list) and bool(parts), "parts are a list")
        proved: list[PartProved] = []
        for part in parts:
            require(isinstance(part, dict) and len(part) == 2, "a part has a name and groups")
            kind = "step" if isinstance(self._task, Writing) else "length"
            require(set(part) == {kind, "groups"}, f"a part has a {kind} and groups")
            number = whole(part[kind])
            after = not proved or proved[-1].number < number
            require(after, f"each {kind} is named once, in rising order")
            proved.append(self._part(kind, number, part["groups"]))
        return TrellisProved(self.config.task.describe(), tuple(proved))

    def trellis(self, kind: str, number: int) -> Trellis:
        """All inputs of a length, or of a step of a task that writes."""
        if (kind, number) not in self._trellises:
            config, task = self.config, self._task
            require(number <= MAX_LENGTH, f"inputs of more than {MAX_LENGTH} letters are too long")
            inputs = inputs_of(task, config.n_letters, number)
            if config.has_positions:
                fits = inputs.length + int(config.has_cls) <= config.n_positions
                require(fits, f"the model has no positions for {inputs.length} letters")
            require(inputs.n_edges <= MAX_EDGES, "the task has too many states to be checked")
            require(inputs.labels[-1] < self.model.n_classes, "a class the model has no output for")
            self._trellises[kind, number] = inputs
        return self._trellises[kind, number]

    def _part(self, kind: str, number: int, groups: Any) -> PartProved:
        trellis = self.trellis(kind, number)
        self._leaves_at_once(trellis)  # before anything as large as that is made
        require(isinstance(groups, list), "groups are a list")
        seen: set[int] = set()
        tally = Tally()
        for group in groups:
            require(set(group) == {"labels", "tree"}, "a group has labels and a tree")
            labels = [whole(label) for label in group["labels"]]
            once = len(set(labels)) == len(labels) and not seen & set(labels)
            require(bool(labels) and once, "no label is in two groups, or twice in one")
            require(set(labels) <= set(trellis.labels), "a label that no input has")
            seen |= set(labels)
            part = trellis.of_labels(labels)
            self._leaves_at_once(part)
            layouts = [Layout(stage) for stage in part.stages]
            for claims, masks in self._batches(part, group["tree"]):
                self._batch(tally, claims, Sets(part, masks, layouts))
        inputs = Sets.whole(trellis).counts()[0]
        return PartProved(kind, number, inputs, **vars(tally), table=trellis.digest)

    def _batches(self, trellis: Trellis, tree: Any) -> Iterator[tuple[list[Claim], list[Mask]]]:
        """The leaves of a tree with the edges of their paths, in preorder, many at a time."""
        size = self._leaves_at_once(trellis)
        claims: list[Claim] = []
        leaf_masks: list[list[Mask]] = []
        for node, masks in self._leaves(trellis, tree):
            claims.append(Claim.of(node))
            leaf_masks.append(masks)
            if len(claims) == size:
                yield claims, [np.stack(column) for column in zip(*leaf_masks, strict=True)]
                claims, leaf_masks = [], []
        if claims:
            yield claims, [np.stack(column) for column in zip(*leaf_masks, strict=True)]

    def _leaves_at_once(self, trellis: Trellis) -> int:
        """How many leaves fit into the memory that is allowed; at least one has to."""
        width = slots(trellis)
        self._budget(width * _FIRST_LEAF)
        return max(1, self._budget.memory // 2 // (width * _PER_SLOT))

    def _leaves(self, trellis: Trellis, tree: Any) -> Iterator[tuple[Any, list[Mask]]]:
        require(isinstance(tree, list) and len(tree) <= MAX_NODES, "a tree is a list of nodes")
        waiting = [[np.ones(len(stage), dtype=bool) for stage in trellis.stages]]
        node_bytes = max(map(len, trellis.stages)) + 8 * len(trellis.stages) + 200
        for node in tree:
            require(bool(waiting), "the tree goes on after its last leaf")
            require(isinstance(node, list) and bool(node), "a node is a list")
            masks = waiting.pop()
            if node[0] != "cut":
                yield node, masks
                continue
            require(len(node) == 3, "a cut has a stage and edges")
            stage = whole(node[1])
            require(stage < len(trellis.stages), "a cut is made at one of the stages")
            chosen = mask_of(node[2], len(trellis.stages[stage]))
            inside, outside = list(masks), masks
            inside[stage], outside[stage] = masks[stage] & chosen, masks[stage] & ~chosen
            waiting += [outside, inside]
            self._budget(len(waiting) * node_bytes)
        require(not waiting, "the tree ends before its last leaf")

    def _batch(self, tally: Tally, claims: list[Claim], sets: Sets) -> None:
        """Derive every claim of a batch, or reject."""
        self._budget()
        require(bool(sets.has_paths.all()), "a cut leaves inputs on both sides")
        counts = sets.counts()
        asked = np.array([claim.kind in ("right", "wrong") for claim in claims])
        by = np.array([claim.by for claim in claims])
        float32 = np.array([claim.float32 for claim in claims])
        require(bool((by < self.model.n_classes).all()), "a class the model has no output for")
        shown = np.zeros(len(claims), dtype=bool)
        if self._shown:
            shown = asked & [name in self._shown for name in names_of(sets, claims)]
        left = asked & ~shown
        shown[left] = self.model.hold(sets[left], by[left], float32[left])
        for claim, count, proved in zip(claims, counts, shown.tolist(), strict=True):
            if claim.kind in ("right", "wrong"):
                require(proved, f"a leaf of {count:,} inputs is not proved {claim.kind}")
                tally.add(claim.kind, count, claim.float32)
            elif claim.kind == "each":
                problem = f"at most {EACH} inputs are evaluated one by one, not {count:,}"
                require(count <= EACH, problem)
        wrong = np.array([claim.kind == "wrong" for claim in claims])
        if wrong.any():
            tally.error(sets[wrong].first())
        each_leaves = [number for number, claim in enumerate(claims) if claim.kind == "each"]
        step = max(1, self._leaves_at_once(sets.trellis) // EACH)
        for start in range(0, len(each_leaves), step):
            self._each(tally, claims, sets, each_leaves[start : start + step])

    def _each(
        self, tally: Tally, claims: Sequence[Claim], sets: Sets, which: Sequence[int]
    ) -> None:
        """Every input of these leaves: by intervals where they suffice, else in balls."""
        singles = sets.singles(which)
        float32 = [claims[leaf].float32 for leaf in which]
        none = np.zeros(len(singles), dtype=bool)
        likely = self.model.hold(singles, np.full(len(singles), -1), none)
        sure, beaten = self._certain(singles) if any(float32) else (none, none)
        inputs = [(*labelled, marked) for leaf, marked in zip(which, float32, strict=True)
                  for labelled in sets.strings(leaf)]  # fmt: skip
        for number, (string, label, marked) in enumerate(inputs):
            self._budget()
            answered = True if likely[number] else self.model.verdict(string, label)
            if answered is None:
                continue
            certain = bool(sure[number] if answered else beaten[number]) and marked
            tally.add("right" if answered else "wrong", 1, certain)
            if not answered:
                tally.error(string)

    def _certain(self, singles: Sets) -> tuple[Mask, Mask]:
        """Which inputs float32 answers with their label for certain, and which with another."""
        every = np.ones(len(singles), dtype=bool)
        claims = [np.full(len(singles), by) for by in range(-1, self.model.n_classes)]
        right, *beaten = (self.model.hold(singles, by, every) for by in claims)
        return right, np.any(beaten, axis=0)
