"""Certificates of order-sensitive models: what the search found, as far as the checker shows it.

The independent checker checks every leaf of the search's trees. A leaf that it cannot derive is cut
further and checked again, down to regions of few inputs that are evaluated one by one, or to the
end of the time. The rest stays undecided: a mistake in the search can cost a proof, but cannot
invent one.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from time import monotonic
from typing import Any

import numpy as np

from tsc_interp.checkpoints.checkpoint import Checkpoint
from tsc_interp.errors import UnsupportedError
from tsc_interp.tasks.regions import Mask, Regions
from tsc_interp.telling import say
from tsc_interp.verification.checker.budget import CertificateError
from tsc_interp.verification.checker.sets import Sets
from tsc_interp.verification.checker.spans import Floats
from tsc_interp.verification.checker.trellis import EACH, SCHEMA, VERSION, TrellisChecker
from tsc_interp.verification.checker.trellis_claims import Claim, PartProved, TrellisProved
from tsc_interp.verification.order.bounds import Bounds
from tsc_interp.verification.order.certificate_result import OrderedCertificate
from tsc_interp.verification.order.exact import OrderedExact
from tsc_interp.verification.order.found import OPEN, RIGHT, SINGLY, Cut, Found
from tsc_interp.verification.order.keys import keys_of
from tsc_interp.verification.order.partition import Partition
from tsc_interp.verification.order.parts import Part
from tsc_interp.verification.order.verify import SECONDS, verify_order

Node = list[Any]
_SPARE, _PATIENCE = 1.5, 10.0
"""How much more than the checker lacks is searched for, and how many seconds."""
_AT_ONCE, _CUT_AT_ONCE = 4096, 512
"""Leaves that the checker is asked about together, and those that are searched again."""
_FIRST_AT_ONCE, _BATCH_SECONDS = 64, 0.25
"""Batches grow from so many leaves as long as one takes less time than this."""
SEARCHED, _WRITTEN = 0.5, 0.6
"""The share of the time for the search, and of what is then left for writing; the rest is for the
checker, which derives everything again."""


def certify_order(
    checkpoint: Checkpoint,
    lengths: Sequence[int] | None = None,
    *,
    seconds: float = SECONDS,
    parts: Sequence[Part] | None = None,
    float32: bool = False,
) -> OrderedCertificate:
    """A certificate about every input of these lengths, or of every step of a task that writes.

    Args:
        checkpoint: The model, whose own task the certificate is about.
        lengths: As in `verify_order`.
        seconds: For the search, the checker and the certificate together; what is left is open.
        parts: What a search has found already, instead of another search.
        float32: Also prove what the float32 model answers, whatever the order of its sums.

    Raises:
        UnsupportedError: where the checker does not know this kind of model.
    """
    try:
        checker = TrellisChecker(checkpoint, seconds=float("inf"))
    except CertificateError as error:
        raise UnsupportedError(str(error).removeprefix("rejected: ")) from None
    deadline = monotonic() + seconds
    if parts is None:

        def share(done: float) -> None:
            say(f"searching: {done:.0%} of all inputs decided")

        searched = SEARCHED * seconds
        parts = verify_order(checkpoint, lengths, seconds=searched, progress=share).parts
    exact, written = OrderedExact(checkpoint), []
    proved: list[PartProved] = []
    until = monotonic() + _WRITTEN * (deadline - monotonic())
    for number, part in enumerate(parts):
        say(f"certificate: part {number + 1} of {len(parts)}")
        left = (until - monotonic()) / (len(parts) - number)
        written.append(_Writer(exact, checker, monotonic() + left, float32).part(part))
    for number, part_written in enumerate(written):
        say(f"checking part {number + 1} of {len(parts)}")
        left = (deadline - monotonic()) / (len(parts) - number)
        proved += _derived(checker, part_written, left).parts
    checked = TrellisProved(checkpoint.config.task.describe(), tuple(proved))
    content = {
        "task": checkpoint.config.task.model_dump(mode="json"),
        "parts": written,
    }
    document = SCHEMA.sealed([checker.weight_hash], content, checked.conclusion(), VERSION)
    return OrderedCertificate(document, checked)


def _derived(checker: TrellisChecker, part: dict[str, Any], seconds: float) -> TrellisProved:
    """What follows from a part; in too little time, without what is evaluated input by input."""
    try:
        return checker.derive([part], max(seconds, 0.0))
    except CertificateError:
        for group in part["groups"]:
            group["tree"] = [["open"] if node[0] == "each" else node for node in group["tree"]]
        return checker.derive([part])


class _Writer:
    """What the search found of each part, as far as the checker agrees."""

    def __init__(
        self, exact: OrderedExact, checker: TrellisChecker, deadline: float, float32: bool
    ) -> None:
        self.exact, self.checker, self.float32 = exact, checker, float32
        self.deadline = deadline

    def part(self, part: Part) -> dict[str, Any]:
        name = {"length": part.length} if part.step is None else {"step": part.step}
        groups = [
            {"labels": list(group.trellis.labels), "tree": self._tree(group)}
            for group in part.groups
        ]
        return {**name, "groups": groups}

    def _tree(self, group: Found) -> list[Node]:
        """The search's tree in preorder, its leaves as the checker agrees to them."""
        whole = Regions.whole(group.trellis)
        root = _Leaf([mask[0] for mask in whole.masks], OPEN)
        self._agree(whole, root.grow(group.walk()))
        return root.nodes()

    def _agree(self, whole: Regions, waiting: list[_Leaf]) -> None:
        """Ask the checker about all leaves; those it does not agree to are cut, and asked again."""
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
        """Write down what the checker agrees to, and return the other leaves."""
        columns = zip(*(leaf.masks for leaf in leaves), strict=True)
        regions, _ = whole.with_masks([np.stack(column) for column in columns]).pruned()
        counts = regions.counts()
        late = monotonic() > self.deadline
        asked = [
            i
            for i, leaf in enumerate(leaves)
            if not late
            and leaf.outcome != OPEN
            and not (leaf.outcome == SINGLY and counts[i] <= EACH)
        ]
        shown = self._shown(regions[asked], [leaves[i].claim for i in asked])
        agreed = dict(zip(asked, shown, strict=True))
        again: list[_Leaf] = []
        for i, leaf in enumerate(leaves):
            claim = agreed.get(i)
            if claim is not None and (claim.float32 or not self.float32 or leaf.above):
                leaf.said = [claim.node()]
            elif leaf.outcome == OPEN or late:
                leaf.give_up()
            elif counts[i] <= EACH:
                leaf.said = [Claim("each", float32=self.float32).node()]
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
        model, sets = self.checker.model, Sets(regions.trellis, regions.masks)
        label, reader = sets.labels(), model.readers(sets)
        beaten = np.array([leaf.claim.by for leaf in leaves])
        winner, classes = np.where(beaten < 0, label, beaten), np.arange(model.n_classes)
        with np.errstate(all="ignore"):
            gaps = model.gaps(sets, reader, winner, classes, np.full(len(leaves), self.float32))
        required = (beaten < 0)[:, None] | (classes == label[:, None])
        return np.asarray(-np.where(required & (classes != winner[:, None]), gaps, np.inf).min(1))

    def _shown(self, regions: Regions, claims: list[Claim]) -> list[Claim | None]:
        """The strongest form of each claim that the checker shows."""
        shown: list[Claim | None] = [None] * len(claims)
        for float32 in (True, False) if self.float32 else (False,):
            missing = [i for i, claim in enumerate(shown) if claim is None]
            forms = [claims[i]._replace(float32=float32) for i in missing]
            chosen = regions[missing]
            for i, claim, holds in zip(
                missing, forms, self.checker.hold(chosen.trellis, chosen.masks, forms), strict=True
            ):
                shown[i] = claim if holds else None
        return shown


class _Leaf:
    """A leaf of the search, or what it was cut into."""

    def __init__(self, masks: Sequence[Mask], outcome: int, above: _Leaf | None = None) -> None:
        self.masks, self.outcome = masks, outcome
        self.above = above
        """An ancestor that was shown over the reals, but not in float32."""
        self.shown: Claim | None = None
        self.said: list[Node] = []
        self.parts: list[Node | _Leaf] = []

    @property
    def claim(self) -> Claim:
        if self.outcome in (RIGHT, SINGLY):
            return Claim("right")
        return Claim("wrong", self.outcome)

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
                packed = base64.b64encode(np.packbits(edges).tobytes()).decode()
                self.parts.append(["cut", stage, packed])
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
