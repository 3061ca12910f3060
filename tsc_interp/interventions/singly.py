"""Many interventions on one string, each by itself, and what gradients expect of each.

    effects = singly(model, "aac", ["head0=patch(aab)", "head1=patch(aab)"])
    effects.before, effects.after, effects.changes, effects.moved
    expected(model, "aac", ["head0=patch(aab)", ...])      first-order changes of the logit

One run does some hundred of them: the string is repeated, and each row has its own intervention.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tsc_interp.errors import UsageError
from tsc_interp.interventions.hooks import HookPair, Hooks
from tsc_interp.interventions.intervention import Given, Intervention, as_interventions
from tsc_interp.interventions.parts import Part
from tsc_interp.model.inputs import Inputs

AT_ONCE = 128
Metric = Callable[[Tensor], Tensor]
"""From what the model returns to one number per row."""


def logit(output: Tensor) -> Tensor:
    """What our classifier returns is one number per row already."""
    return output


@dataclass(frozen=True)
class Effects:
    """What each intervention does, all `[intervention]`."""

    before: Tensor
    """The logit of the string as it is, from the same row of a batch of the same size: processors
    round other rows and other sizes differently, and that is no effect."""
    after: Tensor
    moved: Tensor
    """By how much it changed an activation at most; 0 is not at all."""

    @property
    def changes(self) -> Tensor:
        """Of the logit."""
        return self.after - self.before


def singly(model: Any, input: Any, interventions: Given, *, metric: Metric = logit) -> Effects:
    """The logit of one string as it is and under each intervention, never two at a time."""
    wanted = as_interventions(interventions)
    before: list[Tensor] = []
    after, moved = [], []
    with torch.no_grad():
        for start in range(0, len(wanted), AT_ONCE):
            batch = wanted[start : start + AT_ONCE]
            rows = repeated(model, input, len(batch))
            hooks = Hooks(model, rows, batch, each=True)
            if not before or len(batch) < AT_ONCE:
                unchanged = metric(model(rows))
            before.append(unchanged)
            after.append(metric(model.run_with_hooks(rows, fwd_hooks=hooks.fwd_hooks)))
            moved.append(torch.tensor(hooks.moved()))
    return Effects(torch.cat(before), torch.cat(after), torch.cat(moved))


def expected(model: Any, input: Any, interventions: Given, *, metric: Metric = logit) -> Tensor:
    """`[intervention]`: gradient times change, with one run forward and one back for all of them.

    The gradient is that of the unchanged run, where the intervention takes hold. For scores, which
    can be minus infinity, it is taken one step later, at the pattern.
    """
    row = repeated(model, input, 1)
    wanted = as_interventions(interventions)
    hooks = Hooks(model, row, wanted)
    names = {name for steps in hooks.steps for name, _ in steps}
    names |= {_weights(name) for name in names}
    cached: dict[str, Tensor] = {}

    def keeping(name: str) -> HookPair:
        def keep(activation: Tensor, hook: Any) -> Tensor:
            cached[name] = activation if activation.requires_grad else activation.requires_grad_()
            return cached[name]

        return name, keep

    with torch.enable_grad():
        out = metric(model.run_with_hooks(row, fwd_hooks=[keeping(name) for name in sorted(names)]))
        order = list(cached)
        grads = torch.autograd.grad(out.sum(), [cached[name] for name in order], allow_unused=True)
    gradients = {
        name: torch.zeros_like(cached[name]) if grad is None else grad
        for name, grad in zip(order, grads, strict=True)
    }
    with torch.no_grad():
        return torch.stack(
            [
                _first_order(intervention, steps, cached, gradients)
                for intervention, steps in zip(wanted, hooks.steps, strict=True)
            ]
        )


def _first_order(
    intervention: Intervention,
    steps: list[HookPair],
    cached: dict[str, Tensor],
    gradients: dict[str, Tensor],
) -> Tensor:
    for name, step in steps:
        if name not in cached:
            raise UsageError(f"{intervention}: its hook did not fire, so nothing was changed")
        before, after = cached[name], step(cached[name], hook=None)
    place = intervention.place
    if isinstance(place, Part) and place.kind == "score":
        before, after = before.softmax(-1), after.softmax(-1)
        name = _weights(name)
    change: Tensor = gradients[name] * (after - before)
    return change.sum()


def _weights(name: str) -> str:
    """Where scores have become attention weights; any other hook is itself."""
    return name.replace("attn_scores", "pattern")


def repeated(model: Any, input: Any, count: int) -> Any:
    """So many rows of one string (or of one row of token ids)."""
    if hasattr(model, "inputs"):
        inputs: Inputs = model.inputs(input)
        _need_one(len(inputs.tokens))
        return inputs.repeated(count)
    rows = torch.as_tensor(input)
    rows = rows[None] if rows.ndim == 1 else rows
    _need_one(len(rows))
    return rows.expand(count, -1)


def _need_one(rows: int) -> None:
    if rows != 1:
        raise UsageError(f"interventions one at a time need one string, got {rows}")
