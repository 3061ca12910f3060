"""Certificates of order-sensitive models: what the search found, as far as the checker shows it.

Every leaf of the search's trees is put to the independent checker. What it cannot derive again is
cut further and put to it once more, down to regions of few inputs that are evaluated one by one, or
to the end of the time. The rest is left open, and so undecided: a slip in the search can cost a
proof, but cannot invent one.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from time import monotonic
from typing import Any

import numpy as np

from tsc_interp.checkpoints.checkpoint import Checkpoint
from tsc_interp.errors import UnsupportedError
from tsc_interp.tasks.regions import Mask, Regions
from tsc_interp.tasks.trellis import Trellis
from tsc_interp.verification.checker.budget import CertificateError
from tsc_interp.verification.checker.trellis import (
    EACH,
    SCHEMA,
    Claim,
    TrellisChecker,
)
from tsc_interp.verification.order.certificate_result import OrderedCertificate
from tsc_interp.verification.order.decide import OPEN, RIGHT, UNDECIDED
from tsc_interp.verification.order.partition import Found
from tsc_interp.verification.order.parts import Part
from tsc_interp.verification.order.verify import SECONDS, verify_order

Node = list[Any]
_DEEPEST = 3
"""A leaf that is shown over the reals, but not in float32, is halved no more often than this."""
_AT_ONCE = 4096
"""Leaves that the checker is asked about together."""


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
        seconds: For the search, and again for the checker; what is left is open.
        parts: What a search has found already, instead of another search.
        float32: Also prove what the float32 model answers, whatever the order of its sums.

    Raises:
        UnsupportedError: where the checker does not know this kind of model.
    """
    try:
        checker = TrellisChecker(checkpoint, seconds=float("inf"))
    except CertificateError as error:
        raise UnsupportedError(str(error).removeprefix("rejected: ")) from None
    if parts is None:
        parts = verify_order(checkpoint, lengths, seconds=seconds).parts
    writer = _Writer(checker, monotonic() + seconds, float32)
    written = [writer.part(part) for part in parts]
    checked = checker.derive(written)
    content = {
        "task": checkpoint.config.task.model_dump(mode="json"),  # type: ignore[attr-defined]
        "parts": written,
    }
    document = SCHEMA.sealed([checker.weight_hash], content, checked.conclusion())
    return OrderedCertificate(document, checked)


class _Writer:
    def __init__(self, checker: TrellisChecker, deadline: float, float32: bool) -> None:
        self.checker, self.deadline, self.float32 = checker, deadline, float32

    def part(self, part: Part) -> dict[str, Any]:
        name = {"length": part.length} if part.step is None else {"step": part.step}
        groups = [
            {"labels": list(found.trellis.labels), "tree": self._tree(found)}
            for found in part.groups
        ]
        return {**name, "groups": groups}

    def _tree(self, found: Found) -> list[Node]:
        """The search's tree in preorder, its leaves as the checker agrees to them."""
        leaves: list[_Leaf] = []
        order: list[Node | _Leaf] = []
        for said, outcome in _walk(found):
            if outcome is None:
                order.append(said)
            else:
                leaves.append(_Leaf(said, outcome))
                order.append(leaves[-1])
        trellis = found.trellis
        self._agree(trellis, leaves)
        return [
            node for one in order for node in (one.nodes() if isinstance(one, _Leaf) else [one])
        ]

    def _agree(self, trellis: Trellis, leaves: list[_Leaf]) -> None:
        """Ask the checker about all leaves; those it does not agree to are cut, and asked again."""
        whole = Regions.whole(trellis)
        waiting = leaves
        while waiting:
            again: list[_Leaf] = []
            for start in range(0, len(waiting), _AT_ONCE):
                some = waiting[start : start + _AT_ONCE]
                again += self._asked(whole, some)
            waiting = again

    def _asked(self, whole: Regions, leaves: list[_Leaf]) -> list[_Leaf]:
        columns = zip(*(leaf.masks for leaf in leaves), strict=True)
        regions, _ = whole.with_masks([np.stack(column) for column in columns]).pruned()
        counts = regions.counts()
        late = monotonic() > self.deadline
        asked = [
            i
            for i, leaf in enumerate(leaves)
            if not late
            and leaf.outcome != UNDECIDED
            and not (leaf.outcome == OPEN and counts[i] <= EACH)
        ]
        shown = self._shown(regions[asked], [leaves[i].claim for i in asked])
        agreed = dict(zip(asked, shown, strict=True))
        again: list[_Leaf] = []
        for i, leaf in enumerate(leaves):
            claim = agreed.get(i)
            if claim is not None and (claim.float32 or not self.float32 or leaf.depth >= _DEEPEST):
                leaf.said = [claim.node()]
            elif leaf.outcome == UNDECIDED or late:
                leaf.said = [["open"]]
            elif counts[i] <= EACH:
                leaf.said = [Claim("each", float32=self.float32).node()]
            else:
                again += leaf.halved([mask[i] for mask in regions.masks])
        return again

    def _shown(self, regions: Regions, claims: list[Claim]) -> list[Claim | None]:
        """The strongest form of each claim that the checker shows."""
        found: list[Claim | None] = [None] * len(claims)
        for float32 in (True, False) if self.float32 else (False,):
            left = [i for i, one in enumerate(found) if one is None]
            asked = [claims[i]._replace(float32=float32) for i in left]
            some = regions[left]
            for i, claim, holds in zip(
                left, asked, self.checker.hold(some.trellis, some.masks, asked), strict=True
            ):
                found[i] = claim if holds else None
        return found


class _Leaf:
    """A leaf of the search, or what it was cut into."""

    def __init__(self, masks: list[Mask], outcome: int, depth: int = 0) -> None:
        self.masks, self.outcome, self.depth = masks, outcome, depth
        self.said: list[Node] = []
        self.halves: list[_Leaf] = []

    @property
    def claim(self) -> Claim:
        if self.outcome in (RIGHT, OPEN):
            return Claim("right")
        return Claim("wrong", self.outcome)

    def halved(self, masks: list[Mask]) -> list[_Leaf]:
        """In two, at the stage that has most edges."""
        stage, edges = _halves(masks)
        self.said = [_cut(stage, edges)]
        for part in (edges, ~edges):
            half = list(masks)
            half[stage] = masks[stage] & part
            self.halves.append(_Leaf(half, self.outcome, self.depth + 1))
        return self.halves

    def nodes(self) -> list[Node]:
        """In preorder."""
        found: list[Node] = []
        waiting = [self]
        while waiting:
            one = waiting.pop()
            found += one.said
            waiting += reversed(one.halves)
        return found


def _walk(found: Found) -> Iterator[tuple[list[Any], int | None]]:
    """A search's tree in preorder: cuts as nodes, leaves as their masks with their outcome."""
    trellis, nodes = found.trellis, found.tree.nodes
    waiting = [(0, [np.ones(len(stage), dtype=bool) for stage in trellis.stages])]
    while waiting:
        at, masks = waiting.pop()
        node = nodes[at]
        if isinstance(node, tuple):
            stage, packed, child = node
            bits = np.unpackbits(np.frombuffer(packed, dtype=np.uint8))
            edges = bits[: len(trellis.stages[stage])].astype(bool)
            inside, outside = list(masks), list(masks)
            inside[stage], outside[stage] = masks[stage] & edges, masks[stage] & ~edges
            yield _cut(stage, edges), None
            waiting += [(child + 1, outside), (child, inside)]
        else:
            assert node is not None
            yield masks, node


def _cut(stage: int, edges: Mask) -> Node:
    return ["cut", stage, base64.b64encode(np.packbits(edges).tobytes()).decode()]


def _halves(masks: list[Mask]) -> tuple[int, Mask]:
    """Half of the edges of the stage that has most."""
    stage = max(range(len(masks)), key=lambda i: int(masks[i].sum()))
    kept = np.flatnonzero(masks[stage])
    edges = np.zeros(len(masks[stage]), dtype=bool)
    edges[kept[: len(kept) // 2]] = True
    return stage, edges
