"""Proofs about order-sensitive models: what the search found, as far as the trusted base shows it.

The trusted base is asked about every leaf of the search's trees. A leaf that it cannot show is cut
further and asked about again, down to regions of few inputs that are evaluated one by one, or to
the end of the time. The rest stays undecided: a mistake in the search can cost a proof, but cannot
invent one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import deepcopy
from hashlib import sha256
from time import monotonic
from typing import Any

import numpy as np

from tsc_interp.checkpoints.checkpoint import Checkpoint
from tsc_interp.errors import UnsupportedError
from tsc_interp.tasks.regions import Mask, Regions
from tsc_interp.telling import say
from tsc_interp.trusted.budget import Budget
from tsc_interp.trusted.errors import NotProved, require
from tsc_interp.trusted.judge import Judge
from tsc_interp.trusted.replay import Replay, sealed
from tsc_interp.trusted.replay_tables import TableParts
from tsc_interp.trusted.sets import Sets
from tsc_interp.trusted.spans import Floats
from tsc_interp.trusted.trees import EACH, Leaf, mask_text
from tsc_interp.verification.documents import model_of
from tsc_interp.verification.order.bounds import Bounds
from tsc_interp.verification.order.certificate_result import (
    OrderedCertificate,
    TablesProved,
    language_of,
)
from tsc_interp.verification.order.exact import OrderedExact
from tsc_interp.verification.order.found import OPEN, SINGLY, Cut, Found
from tsc_interp.verification.order.keys import keys_of
from tsc_interp.verification.order.partition import Partition
from tsc_interp.verification.order.parts import Part
from tsc_interp.verification.order.verify import SECONDS, verify_order

Node = list[Any]
_SPARE, _PATIENCE = 1.5, 10.0
"""How much more than a proof lacks is searched for, and how many seconds."""
_AT_ONCE, _CUT_AT_ONCE = 4096, 512
"""Leaves that are asked about together, and those that are searched again."""
_FIRST_AT_ONCE, _BATCH_SECONDS = 64, 0.25
"""Batches grow from so many leaves as long as one takes less time than this."""
SEARCHED, _WRITTEN = 0.5, 0.6
"""The share of the time for the search, and of what is then left for writing; the rest is for what
is evaluated input by input."""


def certify_order(
    checkpoint: Checkpoint,
    lengths: Sequence[int] | None = None,
    *,
    seconds: float = SECONDS,
    parts: Sequence[Part] | None = None,
    float32: bool = False,
) -> OrderedCertificate:
    """A proof about every input of these lengths, or of every step of a task that writes.

    Args:
        checkpoint: The model, whose own task the proof is about.
        lengths: As in `verify_order`.
        seconds: For the search and the proof together; what is left is open.
        parts: What a search has found already, instead of another search.
        float32: Also prove what the float32 model answers, whatever the order of its sums.

    Raises:
        UnsupportedError: where the trusted base does not know this kind of model.
    """
    deadline = monotonic() + seconds
    form = "tokens" if float32 else None
    try:
        models = [model_of(checkpoint)]
        require(models[0].spec.n_layers == 1, "the model has several layers")
        Judge(models[0], Budget())
    except NotProved as error:
        raise UnsupportedError(str(error).removeprefix("rejected: ")) from None
    if parts is None:

        def share(done: float) -> None:
            say(f"searching: {done:.0%} of all inputs decided")

        searched = SEARCHED * seconds
        parts = verify_order(checkpoint, lengths, seconds=searched, progress=share).parts
    names = [{"length": p.length} if p.step is None else {"step": p.step} for p in parts]
    language = language_of(checkpoint.config, names)
    replay = Replay(models, language, form, float("inf"))
    asked = _Asked(replay)
    exact, written = OrderedExact(checkpoint), []
    until = monotonic() + _WRITTEN * (deadline - monotonic())
    for number, part in enumerate(parts):
        say(f"proof: part {number + 1} of {len(parts)}")
        left = (until - monotonic()) / (len(parts) - number)
        written.append(_Writer(exact, asked, monotonic() + left, float32).part(number, part))
    for number, groups in enumerate(written):
        say(f"deriving part {number + 1} of {len(parts)}")
        left = (deadline - monotonic()) / (len(parts) - number)
        asked.derive(groups, left)
    conclusion = asked.conclusion()
    said = [group for groups in written for group in groups]
    document = sealed(models, language, form, said, conclusion)
    return OrderedCertificate(document, TablesProved.of(checkpoint.config, document))


class _Asked(TableParts):
    """The trusted base while a proof is written: a leaf that was shown is not shown again."""

    def __init__(self, replay: Replay) -> None:
        assert isinstance(replay.parts, TableParts)
        self.__dict__.update(vars(replay.parts))
        self._known: set[bytes] = set()
        self.about: tuple[int, tuple[int, ...]] = (0, ())
        """The table and the labels of the leaves that are asked about."""

    def shown(self, sets: Sets, leaves: Sequence[Leaf]) -> Mask:
        """Which leaves are shown."""
        rows = np.packbits(np.concatenate(sets.masks, axis=1), axis=1)
        names = [
            sha256(repr((self.about, leaf)).encode() + row.tobytes()).digest()
            for row, leaf in zip(rows, leaves, strict=True)
        ]
        shown = np.array([name in self._known for name in names], dtype=bool)
        left = np.flatnonzero(~shown)
        if len(left):
            shown[left] = super().shown(sets[left], [leaves[i] for i in left.tolist()])
        self._known |= {name for name, good in zip(names, shown, strict=True) if good}
        return shown

    def derive(self, groups: list[dict[str, Any]], seconds: float) -> None:
        """Add parts; in too little time, without what is evaluated input by input."""
        self.budget.seconds = max(seconds, 0.0)
        self.budget.restart()
        before = deepcopy((self.tallies, self._seen))
        try:
            for group in groups:
                self.add(group)
        except NotProved:
            self.budget.seconds = float("inf")
            self.budget.restart()
            self.tallies, self._seen = before
            for group in groups:
                group["tree"] = [["open"] if node[0] == "each" else node for node in group["tree"]]
                self.add(group)

    def add(self, part: Any) -> None:
        self.about = part["table"], tuple(part["labels"])
        super().add(part)


class _Writer:
    """What the search found of each part, as far as the trusted base agrees."""

    def __init__(self, exact: OrderedExact, asked: _Asked, deadline: float, float32: bool) -> None:
        self.exact, self.asked, self.float32 = exact, asked, float32
        self.deadline = deadline

    def part(self, number: int, part: Part) -> list[dict[str, Any]]:
        """The groups of labels of one table."""
        groups = []
        for group in part.groups:
            labels = list(group.trellis.labels)
            self.asked.about = number, tuple(labels)
            groups.append({"table": number, "labels": labels, "tree": self._tree(group)})
        return groups

    def _tree(self, group: Found) -> list[Node]:
        """The search's tree in preorder, its leaves as they are shown."""
        whole = Regions.whole(group.trellis)
        root = _Leaf([mask[0] for mask in whole.masks], OPEN)
        self._agree(whole, root.grow(group.walk()))
        return root.nodes()

    def _agree(self, whole: Regions, waiting: list[_Leaf]) -> None:
        """Ask about all leaves; those that are not shown are cut, and asked about again."""
        trellis = whole.trellis
        search: Bounds | None = None
        while waiting:
            again: list[_Leaf] = []
            size = _FIRST_AT_ONCE
            while waiting:
                batch, waiting = waiting[:size], waiting[size:]
                began = monotonic()
                again += self._asked(whole, batch)
                size = min(2 * size, _AT_ONCE) if monotonic() - began < _BATCH_SECONDS else size
            if again and search is None:
                search = Bounds(self.exact.config, trellis, keys_of(self.exact, trellis))
            for start in range(0, len(again), _CUT_AT_ONCE):
                assert search is not None
                waiting += self._cut(search, again[start : start + _CUT_AT_ONCE])

    def _asked(self, whole: Regions, leaves: list[_Leaf]) -> list[_Leaf]:
        """Write down what is shown, and return the other leaves."""
        columns = zip(*(leaf.masks for leaf in leaves), strict=True)
        regions, _ = whole.with_masks([np.stack(column) for column in columns]).pruned()
        sets = Sets(regions.trellis, regions.masks)
        counts, labels = regions.counts(), sets.labels().tolist()
        late = monotonic() > self.deadline
        asked = [
            i
            for i, leaf in enumerate(leaves)
            if not late
            and leaf.outcome != OPEN
            and not (leaf.outcome == SINGLY and counts[i] <= EACH)
        ]
        shown = self._shown(sets[asked], [leaves[i].claim(labels[i]) for i in asked])
        agreed = dict(zip(asked, shown, strict=True))
        again: list[_Leaf] = []
        for i, leaf in enumerate(leaves):
            claim = agreed.get(i)
            if claim is not None and (claim.float32 or not self.float32 or leaf.above):
                leaf.said = [claim.node()]
            elif leaf.outcome == OPEN or late:
                leaf.give_up()
            elif counts[i] <= EACH:
                leaf.said = [Leaf("each", float32=self.float32).node()]
            else:
                leaf.masks = [mask[i] for mask in regions.masks]
                leaf.shown = claim
                again.append(leaf)
        return again

    def _cut(self, search: Bounds, leaves: list[_Leaf]) -> list[_Leaf]:
        """Search these again for margins larger than what the checker lacks; at least in halves."""
        regions = Regions.whole(search.trellis)
        columns = zip(*(leaf.masks for leaf in leaves), strict=True)
        regions = regions.with_masks([np.stack(column) for column in columns])
        lacking = self._lacking(regions, leaves)
        made: list[_Leaf] = []
        # Those that lack about as much together, each within a factor of four.
        size = np.round(np.log(np.where(lacking > 0, lacking, 1.0)) / np.log(4.0))
        for magnitude in np.unique(size[np.isfinite(size)]):
            at = np.flatnonzero(size == magnitude)
            search.relaxation.room = float(lacking[at].max()) * _SPARE
            until = min(self.deadline, monotonic() + _PATIENCE)
            again = Partition(self.exact, search, until).only(regions[at])
            again.advance(until)
            made += [part for root, i in enumerate(at) for part in leaves[i].cut(again.found, root)]
        rest = (leaves[i] for i in np.flatnonzero(~np.isfinite(size)))
        return made + [part for leaf in rest for part in leaf.halved()]

    def _lacking(self, regions: Regions, leaves: list[_Leaf]) -> Floats:
        """How much larger the least margin of each leaf would have to be."""
        judge, sets = self.asked.judges[0], Sets(regions.trellis, regions.masks)
        label, classes = sets.labels(), np.arange(judge.n_classes)
        beaten = np.array([leaf.outcome for leaf in leaves])
        winner = np.where(beaten < 0, label, beaten)
        gaps = np.full((len(leaves), len(classes)), np.nan)
        for at, some, rounded in judge.path_regions(sets, self.float32):
            with np.errstate(all="ignore"):
                gaps[at] = judge.margins.gaps(some, winner[at], classes, rounded)
        required = (beaten < 0)[:, None] | (classes == label[:, None])
        return np.asarray(-np.where(required & (classes != winner[:, None]), gaps, np.inf).min(1))

    def _shown(self, sets: Sets, leaves: list[Leaf]) -> list[Leaf | None]:
        """The strongest form of each leaf that is shown."""
        found: list[Leaf | None] = [None] * len(leaves)
        for float32 in (True, False) if self.float32 else (False,):
            missing = [i for i, leaf in enumerate(found) if leaf is None]
            forms = [leaves[i]._replace(float32=float32) for i in missing]
            if missing:
                shown = self.asked.shown(sets[missing], forms)
                for i, leaf, good in zip(missing, forms, shown, strict=True):
                    found[i] = leaf if good else None
        return found


class _Leaf:
    """A leaf of the search, or what it was cut into."""

    def __init__(self, masks: Sequence[Mask], outcome: int, above: _Leaf | None = None) -> None:
        self.masks, self.outcome = masks, outcome
        self.above = above
        """An ancestor that was shown over the reals, but not in float32."""
        self.shown: Leaf | None = None
        self.said: list[Node] = []
        self.parts: list[Node | _Leaf] = []

    def claim(self, label: int) -> Leaf:
        """What it is to say, given the label of its inputs (-1 where they have several)."""
        return Leaf("is", (max(label, 0),)) if self.outcome < 0 else Leaf("wrong", (self.outcome,))

    def give_up(self) -> None:
        """Leave it open, or replace its ancestor by what was shown of that over the reals."""
        if self.above is None:
            self.said = [["open"]]
        else:
            assert self.above.shown is not None
            self.above.said, self.above.parts = [self.above.shown.node()], []

    def cut(self, found: Found, root: int) -> list[_Leaf]:
        """The leaves that a search cut it into, below node `root` of its tree; else halves."""
        if isinstance(found.nodes[root], int):
            return self.halved()
        return self.grow(found.walk(root, self.masks))

    def halved(self) -> list[_Leaf]:
        """Cut in two at the stage that has most edges."""
        stage = max(range(len(self.masks)), key=lambda i: int(self.masks[i].sum()))
        kept = np.flatnonzero(self.masks[stage])
        edges = np.zeros(len(self.masks[stage]), dtype=bool)
        edges[kept[: len(kept) // 2]] = True
        inside, outside = list(self.masks), list(self.masks)
        inside[stage], outside[stage] = edges, self.masks[stage] & ~edges
        halves = ((0, side, self.outcome) for side in (inside, outside))
        return self.grow([(0, self.masks, (stage, edges)), *halves])

    def grow(self, steps: Iterable[tuple[int, Sequence[Mask], Cut | int]]) -> list[_Leaf]:
        """The leaves of a tree in the place of this one."""
        above = self.above if self.shown is None else self
        for _, masks, step in steps:
            if isinstance(step, int):
                # What was found without more room holds where time was up with more.
                outcome = self.outcome if step == OPEN else step
                self.parts.append(_Leaf(masks, outcome, above))
            else:
                stage, edges = step
                self.parts.append(["cut", stage, mask_text(edges)])
        return [part for part in self.parts if isinstance(part, _Leaf)]

    def nodes(self) -> list[Node]:
        """The nodes of the tree below it, in preorder."""
        nodes: list[Node] = []
        waiting: list[_Leaf | Node] = [self]
        while waiting:
            part = waiting.pop()
            if isinstance(part, _Leaf):
                nodes += part.said
                waiting += reversed(part.parts)
            else:
                nodes.append(part)
        return nodes
