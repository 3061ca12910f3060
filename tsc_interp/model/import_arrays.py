"""Any model whose architecture you can state: a configuration and its weights as arrays.

    config = tsc.ClassifierConfig(n_letters=14, d_model=7, n_heads=1, d_head=7, task=..., ...)
    checkpoint = tsc.from_arrays(config, {"embed.W_E": ..., "blocks.0.attn.W_Q": ..., ...})

For state dicts that no library describes. Arrays have HookedTransformer's names and multiply from
the right (`x @ W`), so the weight of a `torch.nn.Linear` is transposed first. Factors of a low-rank
weight are multiplied, tied weights written twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from tsc_interp.arguments import checked
from tsc_interp.checkpoints.checkpoint import Checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import CheckpointError, UsageError
from tsc_interp.model.comparing import InputMap, compare
from tsc_interp.strings import FIRST_LETTER

_SPLIT = {"W_Q": 1, "W_K": 1, "W_V": 1, "W_O": 0, "b_Q": 0, "b_K": 0, "b_V": 0}
"""The axis in which the heads of a weight that is not split by heads stand side by side."""


@checked
def from_arrays(
    config: ClassifierConfig,
    arrays: Mapping[str, ArrayLike | Tensor],
    *,
    original: Callable[[Tensor], Tensor] | None = None,
    samples: int = 64,
    seed: int = 0,
    provenance: Mapping[str, Any] | None = None,
    source: str = "arrays",
) -> Checkpoint:
    """Return a checkpoint of these weights, each checked against the configuration.

    Args:
        config: The architecture and the task; `config.weight_shapes()` lists the names and shapes
            of the arrays.
        arrays: NumPy arrays, tensors or nested lists by those names. Weights of attention may have
            their heads side by side (`[d_model, n_heads * d_head]`, for `W_O` the transpose), and
            `embed.W_E` may have only the letters' rows if the model has no CLS.
        original: The original model, for comparison on random strings. It takes letter indices
            `[batch pos]` and returns outputs `[batch out]` at the position that is read.
        samples: The number of strings to compare.
        seed: The seed of these strings.
        provenance: Where the weights come from; kept in the file.
        source: The model's name in messages and reports.

    Returns:
        The checkpoint. Its provenance names the arrays that were rounded to float32; proofs are
        about the rounded arrays.

    Raises:
        UsageError: The configuration names no task.
        CheckpointError: An array is missing, unknown, or of another shape.
        UnsupportedError: The original and the checkpoint give different outputs.

    Example:
        >>> import numpy as np
        >>> config = ClassifierConfig(d_model=2, n_heads=1, d_head=2, d_mlp=0, task="parity")
        >>> eye = np.eye(2)
        >>> arrays = {"embed.W_E": np.ones((5, 2)), "unembed.W_U": np.ones((2, 1))}
        >>> arrays |= {f"blocks.0.attn.W_{part}": eye for part in "QKVO"}
        >>> from_arrays(config, arrays).weights["blocks.0.attn.W_Q"].shape
        (1, 2, 2)
    """
    if "task" not in config.model_fields_set:
        raise UsageError(
            "the configuration says nothing about what the model should decide: "
            "ClassifierConfig(..., task='contains_all'), or one of tsc.tasks"
        )
    expected = config.weight_shapes()
    known = f"it has {', '.join(expected)}"
    if missing := sorted(expected.keys() - arrays.keys()):
        raise CheckpointError(f"{source}: there is no {', '.join(missing)}; {known}")
    if unknown := sorted(arrays.keys() - expected.keys()):
        raise CheckpointError(
            f"{source}: the configuration has a place for no {', '.join(unknown)}; {known}"
        )
    weights, rounded = {}, []
    for name, shape in expected.items():
        array = _array(name, arrays[name], source)
        placed = _placed(config, name, array, shape)
        if placed.shape != shape:
            raise CheckpointError(
                f"{source}: {name} has shape {list(array.shape)}, expected {list(shape)}"
            )
        weights[name] = np.ascontiguousarray(placed, dtype=np.float32)
        rounded += [name] if (weights[name] != placed).any() else []
    origin = {"imported_from": "arrays", **(provenance or {}), "rounded_to_float32": rounded}
    checkpoint = Checkpoint(config, weights, origin, source=source)
    if original is not None:
        reading = InputMap((), config.token_names, None, config.reads, None)
        compare(checkpoint, reading, original, samples, seed)
    return checkpoint


def _array(name: str, array: Any, source: str) -> NDArray[Any]:
    if isinstance(array, Tensor):
        array = array.detach().cpu().double().numpy()
    try:
        return np.asarray(array, dtype=np.float64)
    except (TypeError, ValueError):
        raise CheckpointError(f"{source}: {name} is not an array of numbers") from None


def _placed(
    config: ClassifierConfig, name: str, array: NDArray[Any], shape: tuple[int, ...]
) -> NDArray[Any]:
    """The array with its heads apart, or its letters behind CLS and PAD."""
    kind = name.rsplit(".", 1)[1]
    if kind == "W_E" and not config.has_cls and array.shape == (config.n_letters, config.d_model):
        return np.concatenate([np.zeros((FIRST_LETTER, config.d_model)), array])
    if kind not in _SPLIT or array.ndim != len(shape) - 1:
        return array
    axis, heads = _SPLIT[kind], shape[0]
    if array.shape[axis] % heads:
        return array
    return np.stack(np.split(array, heads, axis=axis))
