"""Proofs about order-sensitive models: the search's tree of cuts, derived again from its parts.

The search closes a region where the trusted base shows what its inputs are, so its tree is the
proof. The trusted base reads it as it reads any other: that alone says what is proved.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import deepcopy
from time import monotonic
from typing import Any

from tsc_interp.checkpoints.checkpoint import Checkpoint
from tsc_interp.errors import UnsupportedError
from tsc_interp.telling import say
from tsc_interp.trusted.errors import LeavesNotProved, NotProved
from tsc_interp.trusted.replay import Replay, sealed
from tsc_interp.trusted.replay_tables import TableParts
from tsc_interp.trusted.trees import Leaf, Node, mask_text
from tsc_interp.verification.documents import model_of
from tsc_interp.verification.order.certificate_result import (
    OrderedCertificate,
    TablesProved,
    language_of,
)
from tsc_interp.verification.order.found import OPEN, RIGHT, SINGLY, Found
from tsc_interp.verification.order.parts import Part
from tsc_interp.verification.order.verify import SECONDS, verify_order

SEARCHED = 0.5
"""The share of the time for the search: to derive what it found takes no longer."""


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
    if checkpoint.config.n_layers > 1:
        raise UnsupportedError(
            "a proof about a model that sees order is for one layer, and this one has "
            f"{checkpoint.config.n_layers} layers; verify decides it without a proof"
        )
    deadline = monotonic() + seconds
    if parts is None:

        def share(done: float) -> None:
            say(f"searching: {done:.0%} of all inputs decided")

        parts = verify_order(
            checkpoint, lengths, seconds=SEARCHED * seconds, progress=share, float32=float32
        ).parts
    models = [model_of(checkpoint)]
    names = [{"length": p.length} if p.step is None else {"step": p.step} for p in parts]
    language, form = language_of(checkpoint.config, names), "tokens" if float32 else None
    replay = Replay(models, language, form, float("inf"))
    said = []
    for number, part in enumerate(parts):
        say(f"deriving part {number + 1} of {len(parts)}")
        for group in part.groups:
            labels = list(group.trellis.labels)
            said.append({"table": number, "labels": labels, "tree": list(nodes(group, float32))})
            assert isinstance(replay.parts, TableParts)
            derive(replay.parts, said[-1], deadline)
    document = sealed(models, language, form, said, replay.parts.conclusion())
    return OrderedCertificate(document, TablesProved.of(checkpoint.config, document))


def nodes(found: Found, float32: bool) -> Iterator[Node]:
    """A search's tree, in preorder."""
    trellis = found.trellis
    for at, masks, step in found.walk():
        if not isinstance(step, int):
            yield ["cut", step[0], mask_text(step[1])]
        elif step == OPEN:
            yield Leaf("open").node()
        elif step == SINGLY:
            yield Leaf("each", float32=float32).node()
        else:
            label = int(trellis.label[masks[trellis.label_stage].argmax()])
            sure = float32 and at in found.sure
            leaf = Leaf("is", (label,), sure) if step == RIGHT else Leaf("wrong", (step,), sure)
            yield leaf.node()


def derive(parts: TableParts, part: dict[str, Any], deadline: float) -> None:
    """Add a part to what is proved; what does not hold again, or in too little time, is open.

    How close a bound is depends a little on the sets that are bounded with it, so a leaf that the
    search closed need not hold in another company.
    """
    before = deepcopy((parts.tallies, parts.seen))
    parts.budget.seconds = max(deadline - monotonic(), 0.0)
    parts.budget.restart()
    leaves = [number for number, node in enumerate(part["tree"]) if node[0] != "cut"]
    while True:
        try:
            return parts.add(part)
        except LeavesNotProved as error:
            for leaf in error.leaves:
                part["tree"][leaves[leaf]] = Leaf("open").node()
        except NotProved:
            if monotonic() < deadline:
                raise
            part["tree"] = [Leaf("open").node()]
            parts.budget.seconds = float("inf")
            parts.budget.restart()
        parts.tallies, parts.seen = deepcopy(before)
