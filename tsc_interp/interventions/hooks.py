"""Interventions as hooks, for `run_with_hooks` of our classifier and of TransformerLens's models.

    outcome = intervene(model, ["aac", "bc{70}"], "head0.value[c]=like(b)")
    outcome.before, outcome.after            logits
    model.run_with_hooks(tokens, fwd_hooks=Hooks(model, tokens, "head0=zero").fwd_hooks)

Every hook records that it fired and by how much it changed its activation; a hook that did not fire
is an error, and a change that changed nothing is said.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tsc_interp.arguments import checked
from tsc_interp.errors import UsageError
from tsc_interp.interventions.constants import Runs, changing
from tsc_interp.interventions.intervention import Given, Intervention, as_interventions
from tsc_interp.interventions.norms import (
    check_reading,
    check_writers,
    has_norm,
    normed,
    stream_hook,
)
from tsc_interp.interventions.parts import Direction, Edge, Part
from tsc_interp.model.framing import FrameLike, with_frame
from tsc_interp.output.display import Displayed, Grid

HookPair = tuple[str, Callable[..., Any]]
_READS = {"query": "Q", "key": "K", "value": "V", "neuron": "in", "mlp": "in"}
"""The weight that a part reads the residual stream with."""


@dataclass
class _Record:
    fired: bool = False
    moved: float = 0.0


class Hooks:
    """The hooks of some interventions for one input, and the effect they had.

    With `each`, the first intervention changes the first row of the input only, the second the
    second, and so on: as many runs as there are interventions, in one.
    """

    def __init__(
        self,
        model: Any,
        input: Any,
        interventions: Given,
        *,
        token_names: Sequence[str] | None = None,
        each: bool = False,
    ) -> None:
        self.runs = Runs(model, input, token_names)
        self.interventions = as_interventions(interventions)
        self._rows = {key: row for row, key in enumerate(self.interventions)} if each else {}
        if each and not len(self._rows) == len(self.interventions) == len(self.runs.tokens):
            raise UsageError(
                f"{len(self.interventions)} interventions, one for each row, need as many rows and "
                f"have to differ; the input has {len(self.runs.tokens)}"
            )
        self._records = {intervention: _Record() for intervention in self.interventions}
        edits: list[HookPair] = []
        captures: list[HookPair] = []
        reads: list[HookPair] = []
        self.steps: list[list[HookPair]] = []
        """Of each intervention the hooks it takes, in order; the last one changes something."""
        for intervention in self.interventions:
            intervention.check(self.runs.cfg)
            if isinstance(intervention.place, Edge):
                *listening, read = self._edge(intervention, intervention.place)
                captures += listening
                reads.append(read)
                self.steps.append([*listening, read])
            else:
                edits.append((intervention.place.hook, self._edit(intervention)))
                self.steps.append([edits[-1]])
        # A part that is both changed and listened to is heard as it is after the change.
        self.fwd_hooks: list[HookPair] = [*edits, *captures, *reads]

    def remarks(self) -> list[str]:
        """Return remarks after the run; an intervention whose hook did not fire raises an error."""
        for intervention, record in self._records.items():
            if not record.fired:
                raise UsageError(f"{intervention}: its hook did not fire, so nothing was changed")
        return [
            f"{intervention} changed nothing: the activation was the same already"
            for intervention, record in self._records.items()
            if record.moved == 0.0
        ]

    def moved(self) -> list[float]:
        """Return the largest change of an activation by each; infinity if a weight was 0 before."""
        self.remarks()
        return [self._records[intervention].moved for intervention in self.interventions]

    def _note(self, intervention: Intervention, before: Tensor, after: Tensor) -> None:
        record = self._records[intervention]
        record.fired = True
        if before.numel():
            # Masked scores are minus infinity before and after, which is no change.
            apart = torch.where(after.eq(before), 0.0, (after - before).detach().abs())
            record.moved = max(record.moved, float(apart.max()))

    def _only(self, intervention: Intervention, mask: Tensor, axes: int) -> Tensor:
        """Of a mask over an activation with so many axes, what is in the intervention's row."""
        if intervention not in self._rows:
            return mask
        row = _one_of(len(self.runs.tokens), self._rows[intervention])
        return mask.logical_and(row.reshape(-1, *[1] * (axes - 1)))

    # -- parts -------------------------------------------------------------------------------

    def _edit(self, intervention: Intervention) -> Callable[..., Tensor]:
        where, changed_into = intervention.place, changing(self.runs, intervention)
        assert not isinstance(where, Edge)

        def edit(activation: Tensor, hook: Any) -> Tensor:
            target = changed_into(activation)
            if isinstance(where, Direction):
                unit = torch.as_tensor(where.unit, dtype=activation.dtype)
                gap = (target - activation) @ unit
                target = activation + gap[..., None] * unit
                mask = torch.ones((), dtype=torch.bool)
            else:
                mask = self._mask(where)
            mask = self._only(intervention, mask, activation.ndim)
            changed = torch.where(mask, target, activation)
            self._note(intervention, activation, changed)
            return changed

        return edit

    def _mask(self, where: Part) -> Tensor:
        """Which entries of the activation belong to the part; broadcasts from the right."""
        at = self._positions(where.position)
        if where.index is None:
            return at[:, None]
        if where.kind == "neuron":
            return at[:, None].logical_and(_one_of(self.runs.cfg.d_mlp, where.index))
        head = _one_of(self.runs.cfg.n_heads, where.index)
        if where.kind in ("score", "pattern"):
            shown = at[:, None].logical_and(self._positions(where.seen))
            return head[:, None, None].logical_and(shown)
        if where.letter is None:
            return at[:, None, None].logical_and(head[:, None])
        matching: Tensor = self.runs.tokens.eq(self.runs.token(where.letter)).logical_and(at)
        return matching[:, :, None, None].logical_and(head[:, None])

    def _positions(self, position: int | None) -> Tensor:
        width = self.runs.tokens.shape[1]
        if position is None:
            return torch.ones(width, dtype=torch.bool)
        if position >= width:
            raise UsageError(f"position {position} is beyond the {width} positions of the input")
        return _one_of(width, position)

    # -- edges -------------------------------------------------------------------------------

    def _edge(self, intervention: Intervention, edge: Edge) -> list[HookPair]:
        """Listen to what the source writes; take it from what the target reads."""
        through_norm = has_norm(self.runs) and edge.target.kind != "logit"
        if has_norm(self.runs):
            check_writers(self.runs)
        changed_into = changing(self.runs, intervention)
        heard: list[Tensor] = []
        stream: list[Tensor] = []

        def listen(activation: Tensor, hook: Any) -> None:
            heard[:] = [self._written(edge.source, activation - changed_into(activation))]

        def keep(activation: Tensor, hook: Any) -> None:
            stream[:] = [activation]

        def read(activation: Tensor, hook: Any) -> Tensor:
            lost = heard[0]
            if through_norm:
                before = normed(self.runs, edge.target, stream[0])
                row = self._rows.get(intervention, slice(None))  # other rows may be changed already
                check_reading(edge.target, *self._heard(edge.target, activation[row], before[row]))
                lost = before - normed(self.runs, edge.target, stream[0] - lost)
            unheard = activation - self._read(edge.target, lost)
            everywhere = torch.ones((), dtype=torch.bool)
            mask = self._only(intervention, everywhere, activation.ndim)
            changed = torch.where(mask, unheard, activation)
            self._note(intervention, activation, changed)
            return changed

        listening = [(edge.source.hook, listen)]
        if through_norm:
            listening.append((stream_hook(edge.target), keep))
        return [*listening, (_reading_hook(self.runs, edge.target), read)]

    def _heard(self, target: Part, activation: Tensor, stream: Tensor) -> tuple[Tensor, Tensor]:
        """The target's activation, and the one its weights make of the normed stream."""
        name, block = _READS[target.kind], self.runs.model.blocks[target.layer]
        index = slice(None) if target.index is None else target.index
        heard = activation[..., index] if name == "in" else activation[..., index, :]
        bias = getattr(block.mlp if name == "in" else block.attn, f"b_{name}", None)
        computed = stream @ self._weight(f"W_{name}", target)
        return heard, computed if bias is None else computed + bias.detach()[index]

    def _written(self, source: Part, activation: Tensor) -> Tensor:
        """The source's activation as the residual stream has it: `[... batch pos d_model]`."""
        if source.kind in ("embed", "mlp"):
            return activation
        if source.kind == "head":
            return activation[..., source.index, :] @ self._weight("W_O", source)
        return activation[..., source.index, None] * self._weight("W_out", source)

    def _read(self, target: Part, written: Tensor) -> Tensor:
        """What the target makes of it, in the shape of the activation at its reading hook."""
        if target.kind == "logit":
            return written
        projected: Tensor = written @ self._weight(f"W_{_READS[target.kind]}", target)
        if target.kind != "mlp":
            projected = projected[..., None] if target.kind == "neuron" else projected[..., None, :]
        return projected * self._mask(target)

    def _weight(self, name: str, part: Part) -> Tensor:
        stacked: Tensor = getattr(self.runs.model, name).detach()[part.layer]
        if name == "W_in":
            return stacked if part.index is None else stacked[:, part.index]
        return stacked[part.index]


def _one_of(size: int, index: int) -> Tensor:
    return torch.arange(size).eq(index)


def _reading_hook(runs: Runs, target: Part) -> str:
    if target.kind == "logit":
        return f"blocks.{runs.cfg.n_layers - 1}.hook_resid_post"
    if target.kind in ("neuron", "mlp"):
        return f"blocks.{target.layer}.mlp.hook_pre"
    return target.hook


@dataclass(frozen=True, repr=False)
class Outcome(Displayed):
    """Logits of our classifier, or whatever a TransformerLens model returns, before and after."""

    before: Tensor
    after: Tensor
    remarks: tuple[str, ...]
    strings: tuple[str, ...] = ()
    """What was run, where it was strings."""

    def _facts(self) -> list[str]:
        if not self._one_logit_each:
            return [f"outputs {tuple(self.after.shape)}"]
        flipped = int(((self.before > 0) != (self.after > 0)).sum())
        return [f"{flipped} of {len(self.strings)} answers changed"]

    def _lines(self) -> list[tuple[str, str]]:
        return [("remark", remark) for remark in self.remarks]

    def _grids(self) -> list[Grid]:
        if not self._one_logit_each:
            return []
        rows = zip(self.strings, self.before.tolist(), self.after.tolist(), strict=True)
        columns = ["string", "before", "after"]
        return [Grid("logits", columns, [list(row) for row in rows], unfolded=True)]

    @property
    def _one_logit_each(self) -> bool:
        return self.before.shape == (len(self.strings),)


@checked
def intervene(
    model: Any,
    input: Any,
    interventions: Given,
    *,
    token_names: Sequence[str] | None = None,
    frame: FrameLike | None = None,
) -> Outcome:
    """Run a model with and without interventions, through hooks, and return both logits.

    Args:
        model: A hooked model, a checkpoint, a bundled name, a path, or a run; or any model of
            TransformerLens.
        input: One or more strings; token ids `[batch pos]` for a TransformerLens model.
        interventions: One or several, as text such as `"head0=zero"` or as `Intervention`. A mean
            that names no strings is taken over `input`.
        token_names: The names of a TransformerLens model's tokens in the notation.
        frame: The format of the inputs (`tsc.Frame`), for a model that was imported without one.

    Returns:
        The logits `before` and `after`, and `remarks` on interventions that changed nothing.

    Raises:
        UsageError: The notation cannot be read, or the model has no such part.
        UnsupportedError: The model discards an edit at that place.

    Example:
        >>> outcome = intervene("walkthrough", "baac", "head0=zero")
        >>> round(outcome.before.item(), 2), round(outcome.after.item(), 2)
        (10.96, 9.59)
    """
    model = with_frame(model, frame)
    if not hasattr(model, "run_with_hooks"):
        from tsc_interp.model.classifier import open_classifier

        model = open_classifier(model)
    hooks = Hooks(model, input, interventions, token_names=token_names)
    with torch.no_grad():
        before = model(input)
        after = model.run_with_hooks(input, fwd_hooks=hooks.fwd_hooks)
    strings = (input,) if isinstance(input, str) else input
    named = not isinstance(strings, Tensor) and all(isinstance(text, str) for text in strings)
    return Outcome(before, after, tuple(hooks.remarks()), tuple(strings) if named else ())
