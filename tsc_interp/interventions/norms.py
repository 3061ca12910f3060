"""What a reader receives through its norm.

Without norms a reader receives the sum of all writers, and one writer can be subtracted from it.
With a norm it receives `norm(x)`, which is no such sum; without one part of x it would receive
`norm(x - part)`. This is how path patching is defined for models with norms (auto-circuit's edges,
TransformerLens's split inputs): a reader's own copy of the residual stream is changed before its
norm.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from tsc_interp.errors import UnsupportedError
from tsc_interp.interventions.constants import Runs
from tsc_interp.interventions.parts import Part

CLOSE = 1e-3
"""How far a reader's activation may be from the one computed through the norm, relatively."""


def has_norm(runs: Runs) -> bool:
    if runs.config is not None:
        return bool(runs.config.has_norm)
    return getattr(runs.cfg, "normalization_type", None) is not None


def check_writers(runs: Runs) -> None:
    """That what heads and MLPs write reaches the residual stream as it is."""
    after = getattr(runs.cfg, "use_normalization_before_and_after", False)
    if runs.config is not None:
        after = runs.config.attention_norm != "off"
    if after or getattr(runs.cfg, "parallel_attn_mlp", False):
        raise UnsupportedError(
            "edges need writers that add to the residual stream as they are, one after another; "
            "this model has norms after its sub-layers, or sub-layers side by side"
        )


def stream_hook(target: Part) -> str:
    """Where the residual stream is that the target's norm reads."""
    where = "mid" if target.kind in ("neuron", "mlp") else "pre"
    return f"blocks.{target.layer}.hook_resid_{where}"


def normed(runs: Runs, target: Part, x: Tensor) -> Tensor:
    """`norm(x)`, gain and shift included, in front of the target."""
    kind = str(getattr(runs.cfg, "normalization_type", None))
    before_mlp = target.kind in ("neuron", "mlp")
    norm = getattr(runs.model.blocks[target.layer], "ln2" if before_mlp else "ln1")
    if kind.startswith("LN"):
        x = x - x.mean(-1, keepdim=True)
    x = x / (x.square().mean(-1, keepdim=True) + float(getattr(runs.cfg, "eps", 1e-5))).sqrt()
    if kind.endswith("Pre"):
        return x
    gain, shift, offset = norm_weights(norm)
    if gain is not None:
        x = x * (gain + offset)
    return x if shift is None else x + shift


def check_reading(target: Part, heard: Tensor, computed: Tensor) -> None:
    """Refuse where a reader's activation is not its weights times the norm of the stream."""
    apart = float((heard - computed).detach().abs().max())
    if not apart <= CLOSE * max(1.0, float(heard.detach().abs().max())):
        raise UnsupportedError(
            f"what {target} reads differs by {apart:.2g} from its weights times the norm of the "
            "residual stream, so its input from one writer is not known; through a norm, one edge "
            "into a reader is changed at a time"
        )


def norm_weights(norm: Any) -> tuple[Tensor | None, Tensor | None, float]:
    """A norm's gain and shift, None where it has none, and what is added to the gain."""
    candidates = (
        [getattr(norm, name) for name in names if isinstance(getattr(norm, name, None), Tensor)]
        for names in (("w", "weight"), ("b", "bias"))
    )
    gain, shift = (weights[0].detach() if weights else None for weights in candidates)
    return gain, shift, float(getattr(norm, "uses_weight_offset", False))
