"""Any model whose architecture you can state: a configuration and its weights as arrays.

    config = tsc.ClassifierConfig(n_letters=14, d_model=7, n_heads=1, d_head=7, task=..., ...)
    checkpoint = tsc.from_arrays(config, {"embed.W_E": ..., "blocks.0.attn.W_Q": ..., ...})

For state dicts that no library describes. Arrays have HookedTransformer's names and multiply from
the right (`x @ W`), or names of the table in `names.py`. Factors of a low-rank weight are
multiplied first.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from tsc_interp.arguments import checked
from tsc_interp.checkpoints.checkpoint import Checkpoint
from tsc_interp.checkpoints.tensor_files import flattened, read_tensors
from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import UsageError, shorten
from tsc_interp.model.comparing import compare
from tsc_interp.model.input_map import InputMap
from tsc_interp.model.names import weights_of

Arrays = Mapping[str, Any] | nn.Module | str | os.PathLike[str]


@checked
def from_arrays(
    config: ClassifierConfig,
    arrays: Arrays,
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
        arrays: NumPy arrays, tensors or nested lists by those names; or by GPT-2's, Llama's,
            Qwen's or PyTorch's (the documentation has the table), stored as these libraries do.
            Nested dictionaries, an `nn.Module`, and the path of a `.npz`, `.safetensors` or `.pt`
            file are accepted, too. Weights of attention may have their heads side by side
            (`[d_model, n_heads * d_head]`, for `W_O` the transpose), and `embed.W_E` may have only
            the letters' rows if the model has no CLS.
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
    if isinstance(arrays, str | os.PathLike):
        arrays = read_tensors(Path(arrays))
    elif not isinstance(arrays, Mapping | nn.Module):
        raise UsageError(
            f"arrays is a dictionary, an nn.Module or the path of a file, got {shorten(arrays)}"
        )
    weights, rounded = weights_of(config, flattened(arrays), source)
    origin = {"imported_from": "arrays", **(provenance or {}), "rounded_to_float32": rounded}
    checkpoint = Checkpoint(config, weights, origin, source=source)
    if original is not None:
        reading = InputMap((), config.token_names, None, config.reads, None)
        compare(checkpoint, reading, original, samples, seed)
    return checkpoint
