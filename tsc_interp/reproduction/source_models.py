"""The source report's own models: a torch state dict under its names, read without running code.

Shapes are as torch Linear stores them (out x in). They tell d_model, d_mlp, the alphabet and
the attention width, but not how that width divides into heads, nor whether CLS is attended to, nor
which norm a scale belongs to: those are arguments.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from tsc_interp.checkpoints.checkpoint import Checkpoint
from tsc_interp.checkpoints.tensor_files import read_tensors
from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import CheckpointError, UsageError
from tsc_interp.files import shown
from tsc_interp.model.names import weights_of
from tsc_interp.strings import FIRST_LETTER, MAX_LETTERS

_BLOCK = "self_attention_block"
_SCALE = f"{_BLOCK}.attention.rsqrt_attention_head_size"
_EMBEDDING, _QUERY = "embeddings.embeddings.weight", f"{_BLOCK}.attention.query.weight"
_MLP = f"{_BLOCK}.feed_forward.input_.weight"
_REQUIRED = (
    _EMBEDDING,
    "binary_linear.linear.weight",
    *(f"{_BLOCK}.attention.{part}.weight" for part in ("query", "key", "value", "output")),
)


def read_source_model(
    path: str | os.PathLike[str],
    *,
    n_heads: int | None = None,
    attend_cls: bool = False,
    norm: str = "off",
    norm_eps: float = 1e-5,
) -> Checkpoint:
    """One of the source report's `.pt` files as a checkpoint of ours."""
    path = Path(path)
    state = _read_state(path)
    config = _config(path, state, n_heads, attend_cls, norm, norm_eps)
    try:
        weights, _ = weights_of(config, state, str(path))
    except CheckpointError as error:
        normed = norm == "off" and any("layer_norm" in name for name in state)
        raise CheckpointError(f"{error}{'; is --norm missing?' if normed else ''}") from None
    return Checkpoint(config, weights, {"imported_from": path.name}, source=str(path))


def _read_state(path: Path) -> dict[str, Tensor]:
    state = read_tensors(path)
    missing = [name for name in _REQUIRED if name not in state]
    if missing:
        raise CheckpointError(
            f"{shown(path)} is not one of the source report's models: it has no "
            f"{', '.join(missing)}"
        )
    for name, weight in state.items():
        if not weight.is_floating_point():
            raise CheckpointError(f"{path}: {name} is {weight.dtype}, expected floating point")
    return state


def _config(
    path: Path,
    state: Mapping[str, Tensor],
    n_heads: int | None,
    attend_cls: bool,
    norm: str,
    norm_eps: float,
) -> ClassifierConfig:
    embedding, query = state[_EMBEDDING], state[_QUERY]
    for name, weight in (("embeddings", embedding), ("query", query)):
        if weight.ndim != 2:
            raise CheckpointError(f"{path}: the {name} weight has {weight.ndim} axes, expected 2")
    width = query.shape[0]
    heads = width if n_heads is None else n_heads
    if heads < 1 or width % heads:
        raise UsageError(
            f"an attention width of {width} cannot be divided into {heads} heads of equal size"
        )
    n_letters = embedding.shape[0] - FIRST_LETTER
    if not 2 <= n_letters <= MAX_LETTERS:
        raise CheckpointError(
            f"{path}: {embedding.shape[0]} embeddings, not CLS, PAD, 2 to {MAX_LETTERS} letters"
        )
    _check_scale(path, state, width // heads)
    mlp_in = state.get(_MLP)
    options: dict[str, Any] = {
        "n_letters": n_letters,
        "d_model": embedding.shape[1],
        "n_heads": heads,
        "d_head": width // heads,
        "d_mlp": 0 if mlp_in is None else mlp_in.shape[0],
        "attend_cls": attend_cls,
        "norm": norm,
        "norm_eps": norm_eps,
    }
    return ClassifierConfig(**options)


def _check_scale(path: Path, state: Mapping[str, Tensor], d_head: int) -> None:
    """The file stores 1 / sqrt(d_head): a wrong number of heads shows here."""
    stored = state.get(_SCALE)
    if stored is None:
        return
    scale = float(stored) if stored.numel() == 1 else math.nan
    if not 0 < scale < math.inf:
        raise CheckpointError(f"{shown(path)}: {_SCALE} is not one positive number")
    if abs(scale - d_head**-0.5) > 1e-6:
        raise UsageError(
            f"{shown(path)} scales scores for heads of size {scale**-2:.6g}, not {d_head}; "
            f"pass the --n-heads that gives heads of that size"
        )
