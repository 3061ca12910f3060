"""`prune`: a smaller checkpoint, chosen by what it still gets right, exactly.

tsc.prune("many-heads", keep=2)              the best two heads
tsc.prune("many-heads", keep_horizon=True)   smaller, part by part, without a shorter horizon
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb
from typing import Any

from tsc_interp.arguments import checked
from tsc_interp.checkpoints.checkpoint import Checkpoint
from tsc_interp.checkpoints.resolve import ModelLike
from tsc_interp.errors import UnsupportedError, UsageError
from tsc_interp.interventions.parts import Part, writers
from tsc_interp.model.framing import FrameLike, with_frame
from tsc_interp.output.display import Displayed
from tsc_interp.output.numbers import counted
from tsc_interp.pruning.smaller import narrow, remove
from tsc_interp.telling import Progress, say
from tsc_interp.verification.count_model import checkpoint_of
from tsc_interp.verification.horizon_result import Horizon
from tsc_interp.verification.horizons import horizon
from tsc_interp.verification.summaries import DEFAULT_LIMIT

_MOST_SUBSETS = 600
_BOXES = 4_000
"""Per set of letters, when many models are compared."""


@dataclass(frozen=True, repr=False)
class Pruned(Displayed):
    """A pruned model, compared with the original."""

    checkpoint: Checkpoint
    before: Horizon
    after: Horizon
    removed: tuple[str, ...]
    d_model: tuple[int, int]
    """Before and after."""
    how: str

    def sentences(self) -> list[str]:
        """Return the result as sentences."""
        config = self.checkpoint.config
        gone = ", ".join(self.removed) or "nothing"
        return [
            f"Removed {gone} ({self.how}).",
            f"What is left: {counted(config.n_heads, 'head')}, "
            f"{counted(config.d_mlp, 'neuron')}, {counted(config.d_model, 'dimension')} "
            f"(of {self.d_model[0]}), {self.checkpoint.n_parameters:,} weights.",
            f"Before: {_reach(self.before)} After: {_reach(self.after)}",
        ]

    def _facts(self) -> list[str]:
        return [
            f"{counted(len(self.removed), 'part')} removed",
            f"horizon {self.after.verified_length:,}",
        ]

    def _lines(self) -> list[tuple[str, str]]:
        return [("", sentence) for sentence in self.sentences()]

    def to_dict(self) -> dict[str, Any]:
        """Return the result as JSON types."""
        return {
            "removed": list(self.removed),
            "how": self.how,
            "config": self.checkpoint.config.model_dump(mode="json"),
            "parameters": self.checkpoint.n_parameters,
            "d_model": list(self.d_model),
            "before": self.before.to_dict(),
            "after": self.after.to_dict(),
            "weight_hash": self.checkpoint.weight_hash(),
        }


@checked
def prune(
    model: ModelLike,
    *,
    keep: int | None = None,
    keep_horizon: bool = False,
    limit: int = DEFAULT_LIMIT,
    frame: FrameLike | None = None,
    progress: Progress | bool | None = None,
) -> Pruned:
    """Remove heads, neurons and dimensions from a model.

    Args:
        model: A hooked model, a checkpoint, a bundled name, a path, or a run.
        keep: The number of heads to keep. All choices are compared by their horizons if there are
            at most 600, else one head is removed at a time.
        keep_horizon: Remove heads and neurons one at a time, then dimensions, as long as the
            horizon does not get shorter; the default without `keep`.
        limit: The length up to which horizons are searched.
        frame: The format of the inputs (`tsc.Frame`), for a model that was imported without one.
        progress: True prints the current step; a function is called with a few words about it.

    Returns:
        The smaller checkpoint, the removed parts, and the horizons before and after.

    Raises:
        UsageError: Both `keep` and `keep_horizon`, or an impossible value.
        UnsupportedError: The model has no horizon (it sees order), or no heads.

    Example:
        >>> pruned = prune("walkthrough", keep=1, limit=20)
        >>> pruned.checkpoint.config.n_heads, len(pruned.removed)
        (1, 1)
    """
    if keep is not None and keep_horizon:
        raise UsageError("keep (a number of heads) and keep_horizon do not go together; give one")
    checkpoint = checkpoint_of(with_frame(model, frame))
    if not checkpoint.config.has_attention:
        raise UnsupportedError("this model has no attention, so no head to prune")
    say("the horizon of the model itself")
    own = horizon(checkpoint, limit=limit)
    if keep is None:
        gone = _while_it_lasts(checkpoint, own.verified_length, limit)
        how = "kept the horizon"
    else:
        gone, how = _all_but(checkpoint, keep, limit)
    smaller = _narrowed(without(checkpoint, gone), own if keep is None else None, limit)
    smaller = _named(smaller, checkpoint, gone)
    say("the horizon of the smaller model, proved")
    after = horizon(smaller, limit=limit)
    sizes = (checkpoint.config.d_model, smaller.config.d_model)
    return Pruned(smaller, own, after, tuple(map(str, gone)), sizes, how)


def parts_of(checkpoint: Checkpoint) -> list[Part]:
    """Every head and neuron."""
    every = list(writers(checkpoint.config))
    return [part for kind in ("head", "neuron") for part in every if part.kind == kind]


def without(checkpoint: Checkpoint, gone: Sequence[Part]) -> Checkpoint:
    """The model with these heads and neurons removed."""
    heads, neurons = (
        [(part.layer, part.index) for part in gone if part.kind == kind and part.index is not None]
        for kind in ("head", "neuron")
    )
    return remove(checkpoint, heads=heads, neurons=neurons)


def reach_of(checkpoint: Checkpoint, limit: int) -> int:
    """The length up to which a quick search shows no error: at most the horizon."""
    return horizon(checkpoint, limit=limit, boxes=_BOXES, prove=False).verified_length


def _all_but(checkpoint: Checkpoint, keep: int, limit: int) -> tuple[list[Part], str]:
    heads = [part for part in parts_of(checkpoint) if part.kind == "head"]
    if not 1 <= keep <= len(heads):
        raise UsageError(f"keep from 1 to {len(heads)} heads, not {keep}")
    if comb(len(heads), keep) <= _MOST_SUBSETS:
        choices = list(combinations(heads, keep))
        best: tuple[int, tuple[Part, ...]] | None = None
        for number, kept in enumerate(choices, start=1):
            if number % 20 == 1:
                say(f"{number} of {len(choices)} choices of heads to keep")
            reach = reach_of(without(checkpoint, [h for h in heads if h not in kept]), limit)
            if best is None or reach > best[0]:
                best = reach, kept
        assert best is not None
        return [h for h in heads if h not in best[1]], f"the best of all {len(choices)} choices"
    gone: list[Part] = []
    while len(heads) - len(gone) > keep:
        say(f"{len(heads) - len(gone)} heads left, {keep} wanted")
        left = [head for head in heads if head not in gone]
        gone.append(max(left, key=lambda h: reach_of(without(checkpoint, [*gone, h]), limit)))
    return sorted(gone, key=heads.index), "one at a time, the longest horizon each time"


def _while_it_lasts(checkpoint: Checkpoint, least: int, limit: int) -> list[Part]:
    """Parts that can go one after the other without the horizon getting shorter than `least`."""
    every = parts_of(checkpoint)
    gone: list[Part] = []
    while True:
        left = [part for part in every if part not in gone]
        heads = sum(part.kind == "head" for part in left)
        neurons = counted(len(left) - heads, "neuron")
        say(f"{counted(heads, 'head')} and {neurons} left")
        # A model needs a head; it can do without an MLP.
        tried = [p for p in left if p.kind != "head" or heads > checkpoint.config.n_layers]
        reaches = {p: reach_of(without(checkpoint, [*gone, p]), limit) for p in tried}
        best = max(reaches, key=lambda part: reaches[part], default=None)
        if best is None or reaches[best] < least:
            return sorted(gone, key=every.index)
        gone.append(best)


def _narrowed(checkpoint: Checkpoint, own: Horizon | None, limit: int) -> Checkpoint:
    """As few dimensions as are used; with a horizon to keep, as few as still keep it."""
    if checkpoint.config.has_norm or checkpoint.config.beyond_report:
        return checkpoint
    best = narrow(checkpoint)
    if own is None:
        return best
    if reach_of(best, limit) < own.verified_length:  # rounding alone can cost a little
        return checkpoint
    for size in range(best.config.d_model - 1, 0, -1):
        say(counted(size, "dimension"))
        tried = narrow(checkpoint, size)
        if reach_of(tried, limit) < own.verified_length:
            break
        best = tried
    return best


def _named(smaller: Checkpoint, whole: Checkpoint, gone: Sequence[Part]) -> Checkpoint:
    history = {
        "from": whole.source,
        "weight_hash": whole.weight_hash(),
        "removed": list(map(str, gone)),
    }
    provenance = {**whole.provenance, "pruned": history}
    return Checkpoint(smaller.config, smaller.weights, provenance, f"{whole.source}, pruned")


def _reach(found: Horizon) -> str:
    if found.infinite:
        return "right on every string, proved."
    first = f", first error {found.shortest.string}" if found.shortest else ""
    word = "proved" if found.proved or found.checked else "as far as the search went"
    return f"right up to {found.verified_length:,} letters ({word}{first})."
