"""Certificates of order-sensitive models: what the search found, as far as the checker shows it.

Every leaf of the search's trees is put to the independent checker. What it cannot derive again is
cut further and put to it once more, down to regions of few inputs that are evaluated one by one, or
to the end of the time. The rest is left open, and so undecided: a slip in the search can cost a
proof, but cannot invent one.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np

from tsc_interp.checkpoints.checkpoint import Checkpoint
from tsc_interp.errors import UnsupportedError
from tsc_interp.files import write_output
from tsc_interp.output.display import Displayed
from tsc_interp.tasks.regions import Mask, Regions
from tsc_interp.tasks.trellis import Trellis
from tsc_interp.verification.checker.budget import CertificateError
from tsc_interp.verification.checker.trellis import (
    EACH,
    SCHEMA,
    Claim,
    TrellisChecker,
    TrellisProved,
)
from tsc_interp.verification.order.decide import OPEN, RIGHT, UNDECIDED
from tsc_interp.verification.order.partition import Found
from tsc_interp.verification.order.parts import Part
from tsc_interp.verification.order.verify import SECONDS, verify_order

Node = list[Any]
_AT_ONCE = 4096
"""Leaves that the checker is asked about together."""


@dataclass(frozen=True, repr=False)
class OrderedCertificate(Displayed):
    """The document, and what the checker derived from it: nothing here rests on the search."""

    document: dict[str, Any]
    checked: TrellisProved

    @property
    def proved(self) -> tuple[str, ...]:
        """The claims that the checker confirmed, as sentences."""
        return self.checked.sentences

    def _facts(self) -> list[str]:
        return [f"{len(self.proved)} statements proved"]

    def _lines(self) -> list[tuple[str, str]]:
        return [("proved", sentence) for sentence in self.proved]

    def save(self, path: str | os.PathLike[str], *, force: bool = False) -> None:
        """Write the document; a file that is there must be a certificate, or `force` be given."""
        content = (json.dumps(self.document) + "\n").encode()
        write_output(Path(path), content, is_ordered_certificate, force=force)


def is_ordered_certificate(start: bytes) -> bool:
    """Whether a file that starts so is a certificate of an order-sensitive model."""
    return b'"tsc-interp/trellis-certificate/' in start[:100]


def certify_order(
    checkpoint: Checkpoint,
    lengths: Sequence[int] | None = None,
    *,
    seconds: float = SECONDS,
    parts: Sequence[Part] | None = None,
) -> OrderedCertificate:
    """A certificate about every input of these lengths, or of every step of a task that writes.

    Args:
        checkpoint: The model, whose own task the certificate is about.
        lengths: As in `verify_order`.
        seconds: For the search, and again for the checker; what is left is open.
        parts: What a search has found already, instead of another search.

    Raises:
        UnsupportedError: where the checker does not know this kind of model.
    """
    try:
        checker = TrellisChecker(checkpoint, seconds=float("inf"))
    except CertificateError as error:
        raise UnsupportedError(str(error).removeprefix("rejected: ")) from None
    if parts is None:
        parts = verify_order(checkpoint, lengths, seconds=seconds).parts
    writer = _Writer(checker, monotonic() + seconds)
    written = [writer.part(part) for part in parts]
    checked = checker.derive(written)
    content = {
        "task": checkpoint.config.task.model_dump(mode="json"),  # type: ignore[attr-defined]
        "parts": written,
    }
    document = SCHEMA.sealed([checker.weight_hash], content, checked.conclusion())
    return OrderedCertificate(document, checked)


class _Writer:
    def __init__(self, checker: TrellisChecker, deadline: float) -> None:
        self.checker, self.deadline = checker, deadline

    def part(self, part: Part) -> dict[str, Any]:
        name = {"length": part.length} if part.step is None else {"step": part.step}
        groups = [
            {"labels": list(found.trellis.labels), "tree": self._tree(found)}
            for found in part.groups
        ]
        return {**name, "groups": groups}

    def _tree(self, found: Found) -> list[Node]:
        """The search's tree in preorder, its leaves as the checker agrees to them."""
        trellis, nodes = found.trellis, found.tree.nodes
        leaves: list[_Leaf] = []
        order: list[Node | _Leaf] = []
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
                order.append(_cut(stage, edges))
                waiting += [(child + 1, outside), (child, inside)]
            else:
                assert node is not None
                leaves.append(_Leaf(masks, node))
                order.append(leaves[-1])
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
        claims = [leaves[i].claim for i in asked]
        shown = self.checker.hold(whole.trellis, [mask[asked] for mask in regions.masks], claims)
        agreed = dict(zip(asked, shown.tolist(), strict=True))
        again: list[_Leaf] = []
        for i, leaf in enumerate(leaves):
            if agreed.get(i):
                leaf.said = [leaf.claim.node()]
            elif leaf.outcome == UNDECIDED or late:
                leaf.said = [["open"]]
            elif counts[i] <= EACH:
                leaf.said = [["each"]]
            else:
                again += leaf.halved([mask[i] for mask in regions.masks])
        return again


class _Leaf:
    """A leaf of the search, or what it was cut into."""

    def __init__(self, masks: list[Mask], outcome: int) -> None:
        self.masks, self.outcome = masks, outcome
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
            self.halves.append(_Leaf(half, self.outcome))
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


def _cut(stage: int, edges: Mask) -> Node:
    return ["cut", stage, base64.b64encode(np.packbits(edges).tobytes()).decode()]


def _halves(masks: list[Mask]) -> tuple[int, Mask]:
    """Half of the edges of the stage that has most."""
    stage = max(range(len(masks)), key=lambda i: int(masks[i].sum()))
    kept = np.flatnonzero(masks[stage])
    edges = np.zeros(len(masks[stage]), dtype=bool)
    edges[kept[: len(kept) // 2]] = True
    return stage, edges
