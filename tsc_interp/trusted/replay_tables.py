"""Derives the parts of a proof whose inputs are the paths of tables, and counts them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np

from tsc_interp.trusted.budget import Budget
from tsc_interp.trusted.errors import LeavesNotProved, require
from tsc_interp.trusted.judge import Judge
from tsc_interp.trusted.language import whole
from tsc_interp.trusted.margins import Index, Mask
from tsc_interp.trusted.sets import Layout, Sets, slots
from tsc_interp.trusted.table import Trellis
from tsc_interp.trusted.trees import EACH, Leaf, path_leaves

_PER_SLOT, _FIRST_LEAF = 64, 256
"""Bytes for each slot (an edge, or space for one) of leaves that are derived together, about; and
of the first one, with what is made once for a table."""
KINDS = "right", "wrong"


class Tally:
    """Numbers of inputs of one table."""

    def __init__(self, float32: bool) -> None:
        self.right = self.wrong = self.float_right = self.float_wrong = 0
        self.first_wrong: tuple[int, ...] | None = None
        self.float32 = float32

    def add(self, right: bool, count: int, float32: bool) -> None:
        self.right, self.wrong = self.right + count * right, self.wrong + count * (not right)
        if float32:
            self.float_right += count * right
            self.float_wrong += count * (not right)

    def failed(self, string: tuple[int, ...]) -> None:
        if self.first_wrong is None or string < self.first_wrong:
            self.first_wrong = string

    def stated(self, name: Mapping[str, int], inputs: int, every: bool) -> dict[str, Any]:
        """Numbers of inputs as text: they may be beyond what JSON's readers hold exactly."""
        stated: dict[str, Any] = {
            **name,
            "inputs": str(inputs),
            "all_strings": every,
            "right": str(self.right),
            "wrong": str(self.wrong),
            "undecided": str(inputs - self.right - self.wrong),
            "first_wrong": None if self.first_wrong is None else list(self.first_wrong),
        }
        if self.float32:
            counts = self.float_right, self.float_wrong
            stated["float32"] = dict(zip(KINDS, map(str, counts), strict=True))
        return stated


class TableParts:
    """Parts one after the other. Of two models, what both answer alike counts as right."""

    def __init__(
        self, judges: Sequence[Judge], tables: Sequence[tuple[Trellis, Any]], float32: str | None,
        budget: Budget,
    ) -> None:  # fmt: skip
        require(float32 != "compressed", "models that see order read tokens")
        self.judges, self.tables, self.budget = judges, tables, budget
        self.n_classes, self.pair = judges[0].n_classes, len(judges) == 2
        names = []
        for table, name in tables:
            ((kind, number),) = name.items()
            letters = table.length, table.length - len(table.fixed)
            named = kind == "step" or (kind == "length" and number in letters)
            require(named, "a table of another name")
            names.append((kind, whole(number)))
            for judge in judges:
                spec = judge.spec
                require(spec.n_layers == 1, "tables are for models of one layer")
                tokens = table.length + int(spec.reads != "last_letter")
                fits = not spec.has_positions or tokens <= spec.n_positions
                require(fits, f"the model has no positions for {table.length} letters")
        require(len({kind for kind, _ in names}) == 1 and names == sorted(set(names)),
                "tables are of one kind, each named once, in rising order")  # fmt: skip
        self.tallies = [Tally(float32 is not None) for _ in tables]
        self.seen: set[tuple[int, int]] = set()

    def add(self, part: Any) -> None:
        """Derive one part, or raise `NotProved`."""
        require(set(part) == {"table", "labels", "tree"}, "a part has a table, labels and a tree")
        number = whole(part["table"], len(self.tables))
        table, tally = self.tables[number][0], self.tallies[number]
        labels = [whole(label) for label in part["labels"]]
        names = {(number, label) for label in labels}
        once = len(names) == len(labels) > 0 and not names & self.seen
        require(once and set(labels) <= set(table.labels), "a label of no input, or twice")
        self.seen |= names
        some = table.of_labels(labels)
        size = self.at_once(some)
        layouts = [Layout(stage) for stage in some.stages]
        leaves, first = path_leaves(part["tree"], some, self.n_classes, self.budget), 0
        while batch := list(islice(leaves, size)):
            columns = zip(*(masks for _, masks in batch), strict=True)
            sets = Sets(some, [np.stack(column) for column in columns], layouts)
            self._batch(tally, [leaf for leaf, _ in batch], sets, first)
            first += len(batch)

    def at_once(self, table: Trellis) -> int:
        """How many leaves fit into the memory that is allowed; at least one has to."""
        width = slots(table)
        self.budget(width * _FIRST_LEAF)
        return max(1, min(4096, self.budget.memory // 2 // (width * _PER_SLOT)))

    def _batch(self, tally: Tally, leaves: Sequence[Leaf], sets: Sets, first: int) -> None:
        require(bool(sets.has_paths.all()), "a cut leaves inputs on both sides")
        counts, labels, shown = sets.counts(), sets.labels(), self.shown(sets, leaves)
        said = np.array([leaf.kind in ("is", "wrong", "apart") for leaf in leaves])
        missing = np.flatnonzero(said & ~shown).tolist()
        if missing:
            count, leaf = counts[missing[0]], leaves[missing[0]]
            problem = f"a leaf of {count:,} inputs is not proved {leaf.kind}"
            raise LeavesNotProved(problem, [first + number for number in missing])
        failing = np.zeros(len(leaves), dtype=bool)
        for i, (leaf, count) in enumerate(zip(leaves, counts, strict=True)):
            if said[i]:
                failing[i] = leaf.kind != "is" or not (self.pair or leaf.classes[0] == labels[i])
                tally.add(not failing[i], count, leaf.float32)
            elif leaf.kind == "each":
                problem = f"at most {EACH} inputs are evaluated one by one, not {count:,}"
                require(count <= EACH and not self.pair, problem)
        if failing.any():
            tally.failed(sets[failing].first())
        each = [i for i, leaf in enumerate(leaves) if leaf.kind == "each"]
        room, some = self.at_once(sets.trellis), 0
        for i in range(len(each)):
            if i + 1 == len(each) or sum(counts[k] for k in each[some : i + 2]) > room:
                self._each(tally, leaves, sets, each[some : i + 1])
                some = i + 1

    def shown(self, sets: Sets, leaves: Sequence[Leaf]) -> Mask:
        """Which leaves that say a class are proved: all their paths have one label, and so on."""
        asked = [leaf.kind in ("is", "wrong", "apart") for leaf in leaves]
        labels, classes = sets.labels(), np.arange(self.n_classes)
        marked = np.array([leaf.float32 for leaf in leaves], dtype=bool)
        shown = np.array(asked) & sets.has_paths & (self.pair | (labels >= 0))
        for number, judge in enumerate(self.judges):
            winner = np.array([(leaf.classes or (0,))[min(number, len(leaf.classes) - 1)]
                               for leaf in leaves])  # fmt: skip
            wrong = np.array([leaf.kind == "wrong" for leaf in leaves])
            apart = np.array([leaf.kind == "apart" for leaf in leaves])
            shown &= (apart <= self.pair) & ~(wrong & (self.pair | (winner == labels)))
            shown &= ~apart | [len(set(leaf.classes)) == 2 for leaf in leaves]
            wanted = np.where(wrong[:, None], classes == labels[:, None], True)
            wanted &= classes != winner[:, None]
            # What holds in float32 is shown over the reals, too.
            shown = _shown(judge, sets, shown & ~marked, winner, wanted, False) | _shown(
                judge, sets, shown & marked, winner, wanted, True
            )
        return shown

    def _each(self, tally: Tally, leaves: Sequence[Leaf], sets: Sets, which: Sequence[int]) -> None:
        """Every input of these leaves."""
        of, letters, labels = sets[which].paths()
        marked = np.array([leaves[leaf].float32 for leaf in which])[of]
        answer, sure = self.judges[0].of_inputs(letters, labels, marked)
        for right, chosen in (
            (True, answer == labels),
            (False, (answer >= 0) & (answer != labels)),
        ):
            tally.add(right, int((chosen & ~sure).sum()), False)
            tally.add(right, int((chosen & sure).sum()), True)
        wrong = letters[(answer >= 0) & (answer != labels)]
        for string in wrong[np.lexsort(wrong.T[::-1])[:1]].tolist():
            tally.failed(tuple(string))

    def conclusion(self) -> dict[str, Any]:
        """Per table, how many inputs are right and wrong, and the first wrong one."""
        parts = []
        for (table, name), tally in zip(self.tables, self.tallies, strict=True):
            inputs = Sets.whole(table).counts()[0]
            every = inputs == self.judges[0].spec.n_letters ** table.length
            parts.append(tally.stated(name, inputs, every))
        return {"tables": parts}


def _shown(
    judge: Judge, sets: Sets, asked: Mask, winner: Index, wanted: Mask, float32: bool
) -> Mask:
    """In which of the sets that are asked about a class beats each wanted one."""
    shown, at = np.zeros(len(sets), dtype=bool), np.flatnonzero(asked)
    if len(at):
        shown[at] = judge.on_paths(sets[at], winner[at], wanted[at], float32)
    return shown
