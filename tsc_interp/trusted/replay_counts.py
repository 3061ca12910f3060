"""Derives the parts of a proof whose inputs are letter counts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice, product
from typing import Any

import numpy as np

from tsc_interp.trusted.boxes import Boxes
from tsc_interp.trusted.budget import Budget
from tsc_interp.trusted.errors import require
from tsc_interp.trusted.facts import Facts
from tsc_interp.trusted.judge import Judge, Support, rounded_up
from tsc_interp.trusted.language import Rule, support_of, whole
from tsc_interp.trusted.trees import EACH, Box, Leaf, Node, box_leaves

MAX_LETTERS = 12
"""A conclusion speaks of every set of letters: 4,095 of them with 12."""
_BATCH = 4096
_KINDS = {
    frozenset({"letters", "up_to", "tree"}): "up_to", frozenset({"counts", "tree"}): "single",
    frozenset({"letters", "ever", "trees"}): "ever", frozenset({"letters", "from", "tree"}): "from",
    frozenset({"letters", "limit", "tree"}): "limit",
}  # fmt: skip
Labelled = tuple[Leaf, Box, int | None]


class CountParts:
    """Parts one after the other."""

    def __init__(
        self, judges: Sequence[Judge], rule: Rule | None, float32: str | None, budget: Budget
    ) -> None:
        self.judges, self.rule, self.form, self.budget = judges, rule, float32, budget
        self.spec, self.n_classes = judges[0].spec, judges[0].n_classes
        self.cls = float(self.spec.attend_cls)
        for judge in judges:
            require(not judge.spec.sees_order, "the model sees the order of letters")
            require(judge.spec.n_letters <= MAX_LETTERS, f"more than {MAX_LETTERS} letters")
        self.facts = Facts(self.spec.n_letters, rule, float32)

    def conclusion(self) -> dict[str, Any]:
        """What follows from all parts."""
        return self.facts.conclusion()

    # -- parts -----------------------------------------------------------------------------------

    def add(self, part: Any) -> None:
        """Derive one part, or raise `NotProved`."""
        kind = _KINDS.get(frozenset(part))
        require(kind is not None, f"a part with the fields {sorted(part)}")
        if kind == "single":
            self._single([whole(n) for n in part["counts"]], part["tree"])
            return
        support = support_of(part["letters"], self.spec.n_letters)
        if kind == "up_to":
            self._up_to(support, whole(part["up_to"]), part["tree"])
        elif kind == "ever":
            require(part["ever"] is True, "ever is true")
            self._ever(support, part["trees"])
        elif kind == "from":
            self._from(support, whole(part["from"]), self._one_leaf(part["tree"]))
        else:
            require(part["limit"] is True, "limit is true")
            self._limit(support, self._one_leaf(part["tree"]))

    def _up_to(self, support: Support, length: int, tree: Any) -> None:
        size = len(support)
        root = Box((1,) * size, (max(1, length - size + 1),) * size)
        sure = self.form is not None
        leaves = box_leaves(tree, root, length, self.n_classes, self.budget)
        while batch := list(islice(leaves, _BATCH)):
            sure &= all(leaf.float32 for leaf, _ in batch)
            told: list[Labelled] = []
            for leaf, box in batch:
                if leaf.kind == "each":
                    told += self._each(support, leaf, box, length)
                else:
                    require(leaf.kind == "is", "a part up to a length says what the answer is")
                    told.append((leaf, box, self._label(support, box)))
            self._require_shown(support, told, length)
        self.facts.up_to[support] = max(length, self.facts.up_to.get(support, 0))
        if sure:
            self.facts.float_up_to[support] = max(length, self.facts.float_up_to.get(support, 0))

    def _each(self, support: Support, leaf: Leaf, box: Box, length: int) -> Iterator[Labelled]:
        """Every count vector of a box by itself, to be answered with its label."""
        sizes = [int(b) - int(a) + 1 for a, b in zip(box.low, box.high, strict=True)]
        require(int(np.prod(sizes, dtype=object)) <= EACH, f"more than {EACH} inputs, one by one")
        require(self.rule is not None, "of two models a leaf says what both answer")
        ranges = (range(int(a), int(b) + 1) for a, b in zip(box.low, box.high, strict=True))
        for counts in product(*ranges):
            if sum(counts) <= length:
                point = Box(counts, counts)
                label = self._label(support, point)
                require(label is not None, "an input without a label")
                yield Leaf("is", (int(label or 0),), leaf.float32), point, label

    def _require_shown(self, support: Support, told: Sequence[Labelled], length: int) -> None:
        """That every box has the label that its leaf says, and is answered so."""
        for leaf, _, label in told:
            right = self.rule is None or leaf.classes == (label,)
            require(right, f"a leaf over {support} is not of the class it says")
        for float32 in (False, True):
            some = [(leaf.classes[0], box) for leaf, box, _ in told if leaf.float32 >= float32]
            answers, boxes = np.array([j for j, _ in some]), [box for _, box in some]
            shown = self.shown_up_to(support, boxes, answers, length, float32)
            where = boxes[int(shown.argmin())] if len(boxes) else None
            require(bool(shown.all()), f"{where} over {support} is not proved")

    def shown_up_to(
        self, support: Support, boxes: Sequence[Box], answers: Any, length: int, float32: bool
    ) -> Any:
        """In which boxes each model is proved to answer every input up to a length so."""
        shown = np.ones(len(boxes), dtype=bool)
        for judge in self.judges:
            if float32:
                ends = [rounded_up(min(length, int(sum(box.high)))) for box in boxes]
                for end in set(ends):
                    at = np.flatnonzero(np.array(ends) == end).tolist()
                    some = [boxes[i] for i in at]
                    shown[at] &= self._in_boxes(judge, support, some, answers[at], length, end)
            else:
                good = self._in_boxes(judge, support, boxes, answers, length)
                for i in np.flatnonzero(~good & shown).tolist():
                    low, high = boxes[i].low, boxes[i].high
                    counts = [int(n) for n in low]
                    alone = low == high and judge.answer_to_counts(support, counts) == answers[i]
                    good[i] = alone
                shown &= good
        return shown

    def _in_boxes(
        self, judge: Judge, support: Support, boxes: Sequence[Box], answers: Any, length: int,
        float_length: int = 0,
    ) -> Any:  # fmt: skip
        if not boxes:
            return np.ones(0, dtype=bool)
        low, high = (
            np.array([getattr(box, end) for box in boxes], dtype=np.float64)
            for end in ("low", "high")
        )
        region = Boxes.of_counts(low, high, judge.spec.attend_cls, length)
        form = self.form if float_length else None
        return judge.in_boxes(support, region, answers, self._others(answers), form, float_length)

    def _others(self, answers: Any) -> Any:
        return np.arange(self.n_classes) != answers[:, None]

    def _ever(self, support: Support, trees: Any) -> None:
        require(not any(judge.spec.log_n for judge in self.judges),
                "ratios alone do not decide scores scaled by log n")  # fmt: skip
        require(len({judge.spec.attend_cls for judge in self.judges}) == 1,
                "one of the two attends to CLS")  # fmt: skip
        require(len(trees) == len(support), "one tree for each letter that occurs most")
        free, label = len(support) - 1 + int(self.cls), self._shared(support)
        root = Box((0.0,) * free, (1.0,) * free)
        leaves = (
            (column, leaf, box)
            for column, tree in enumerate(trees)
            for leaf, box in box_leaves(tree, root, None, self.n_classes, self.budget)
        )
        while batch := list(islice(leaves, _BATCH)):
            plain = all(leaf.kind == "is" and not leaf.float32 for _, leaf, _ in batch)
            require(plain, "ratios say what the answer is, over the reals")
            right = all(label is None or leaf.classes == (label,) for _, leaf, _ in batch)
            require(right, f"a leaf over {support} is not of the class it says")
            low, high = (
                np.array([self.weights(column, getattr(box, end)) for column, _, box in batch])
                for end in ("low", "high")
            )
            answers = np.array([leaf.classes[0] for _, leaf, _ in batch])
            for judge in self.judges:
                shown = judge.in_boxes(support, Boxes(low, high), answers, self._others(answers))
                require(bool(shown.all()), f"ratios over {support} are not proved")
        self.facts.always.add(support)

    def weights(self, column: int, free: Sequence[float]) -> list[float]:
        """CLS first, then all letters: the one that occurs most weighs 1."""
        weights = [*free] if self.cls else [0.0, *free]
        weights.insert(1 + column, 1.0)
        return weights

    def _from(self, support: Support, start: int, leaf: Leaf) -> None:
        scaled = all(judge.spec.log_n for judge in self.judges) and start >= 2
        require(scaled, "from a length on: only where scores are scaled by log n")
        label = self._shared(support)
        require(label is None or leaf.classes == (label,), "the tail is of another class")
        answers = np.array(leaf.classes)
        for judge in self.judges:
            ones = np.array([[float(judge.spec.attend_cls), *[1.0] * len(support)]])
            boxes = Boxes(ones, ones, [start], [start], tail=True)
            shown = judge.in_boxes(support, boxes, answers, self._others(answers))
            require(bool(shown.all()), f"the tail over {support} is not proved")
        self.facts.beyond[support] = min(start, self.facts.beyond.get(support, start))

    def _limit(self, support: Support, leaf: Leaf) -> None:
        judge, (answer,) = self.judges[0], leaf.classes
        require(len(self.judges) == 1 == len(support), "a limit is of one letter and one model")
        require(not judge.spec.log_n, "the limit argument needs scores that do not grow")
        # Strictly: every other class has to be beaten as if it won ties.
        alone = np.array([[0.0, 1.0]])
        shown = judge.strictly_in_box(support, Boxes(alone, alone), answer)
        require(shown, f"the limit of {support} is not proved")
        self.facts.limits[support[0]] = answer

    def _single(self, counts: Sequence[int], tree: Any) -> None:
        require(len(counts) == self.spec.n_letters, "a count for each letter")
        support = tuple(i for i, n in enumerate(counts) if n)
        require(bool(support), "an input without letters")
        leaf = self._one_leaf(tree, float32=True)
        own = [counts[i] for i in support]
        answers = [judge.answer_to_counts(support, own) for judge in self.judges]
        point = Box(tuple(own), tuple(own))
        if self.rule is None:
            require(leaf.kind == "apart" and len(set(leaf.classes)) == 2, "not answered apart")
            require(answers == list(leaf.classes), f"{counts} is not proved to be answered apart")
        else:
            label = self._label(support, point)
            require(leaf.kind == "is" and label is not None, "a single input is answered")
            require(leaf.classes != (label,), f"{counts} is answered right")
            require(answers == list(leaf.classes), f"{counts} is not proved misclassified")
        if leaf.float32:
            for judge, j in zip(self.judges, leaf.classes, strict=True):
                sure = self._in_boxes(judge, support, [point], np.array([j]), sum(own), sum(own))
                require(bool(sure.all()), f"{counts} is not proved wrong in float32")
        self.facts.failures[tuple(counts)] = leaf.float32 or self.facts.failures.get(
            tuple(counts), False
        )

    def _one_leaf(self, tree: Any, float32: bool = False) -> Leaf:
        require(isinstance(tree, list) and len(tree) == 1, "a tree of one leaf")
        leaf = Leaf.of(tree[0], self.n_classes)
        require(leaf.kind in ("is", "apart") and (float32 or not leaf.float32), "an answer")
        return leaf

    def _label(self, support: Support, box: Box) -> int | None:
        if self.rule is None:
            return None
        low, high = ([int(n) for n in end] for end in (box.low, box.high))
        return self.rule.of_box(support, low, high)

    def _shared(self, support: Support) -> int | None:
        """The label of a support, which it must have unless there is no language."""
        if self.rule is None:
            return None
        label = self.rule.of_support(support)
        require(label is not None, f"strings over {support} do not share a label")
        return label


def single(counts: Sequence[int], *classes: int, float32: bool = False) -> dict[str, Any]:
    """The part about one input: the class it is answered with, by each model."""
    kind = "is" if len(classes) == 1 else "apart"
    leaf: Node = Leaf(kind, classes, float32).node()
    return {"counts": list(counts), "tree": [leaf]}
