"""A TransformerLens model from its saved state and a file that says what it is.

    [model]                     # TransformerLens's own options, as its config was made with
    d_model = 32
    n_heads = 2
    ...
    [reading]
    frame = "[START] x{20} [END]; x=0..30; START=31; END=32"
    task = "palindrome"

TOML or JSON. Instead of a frame, [reading] may have tokens, query and classes. The state is a `.pt`
of `torch.save(model.state_dict(), ...)`, read without running code, or a safetensors file; its keys
are HookedTransformer's or a TransformerBridge's. The original is built again by TransformerLens and
compared with what was imported (importing.py).
"""

from __future__ import annotations

import json
import os
import tomllib
import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor

from tsc_interp.checkpoints.checkpoint import Checkpoint
from tsc_interp.checkpoints.tensor_files import read_tensors
from tsc_interp.errors import CheckpointError, ConfigError, UnsupportedError, shorten
from tsc_interp.files import read_regular, shown
from tsc_interp.memory import require_memory
from tsc_interp.model.importing import from_transformer_lens
from tsc_interp.model.interop import HAS_BRIDGE_ONLY
from tsc_interp.model.unaltered import require_saved_masks

_MAX_BYTES = 1_000_000
_MASKS = ("mask", "IGNORE")
"""What the names of a state's masks end in: they are made from the options, and only compared."""
_READING = {"tokens", "query", "classes", "task", "frame", "name"}


def read_transformer_lens(
    path: str | os.PathLike[str], config: str | os.PathLike[str], **given: Any
) -> Checkpoint:
    """The checkpoint behind a saved state and its configuration.

    Args:
        path: The state.
        config: A file with the tables [model] and [reading].
        given: What is not to be read from [reading], such as `frame` and `task`.
    """
    options, reading = read_description(Path(config))
    reading |= given
    state = read_tensors(Path(path))
    with warnings.catch_warnings(action="ignore"):  # TransformerLens's, about what it is given
        model = build(options, state)
        checkpoint = from_transformer_lens(model, **reading)
    provenance = {**checkpoint.provenance, "file": Path(path).name}
    return replace(checkpoint, provenance=provenance, source=str(path))


def read_description(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The model's options, and how it is to be read: two tables of a TOML or JSON file."""
    try:
        text = read_regular(path, _MAX_BYTES).decode()
        described = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    except OSError as error:
        raise ConfigError(f"{shown(path)} cannot be read: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{shown(path)} is neither TOML nor JSON: {error}") from None
    tables = isinstance(described, dict) and set(described) == {"model", "reading"}
    if not tables or not all(isinstance(table, dict) for table in described.values()):
        raise ConfigError(
            f"{shown(path)} needs two tables: [model] with TransformerLens's options, and "
            "[reading] with frame and task, or tokens, query, classes and task"
        )
    reading = described["reading"]
    if set(reading) - _READING or not isinstance(reading.get("frame", ""), str):
        raise ConfigError(
            f"{shown(path)}: [reading] has a frame in its notation, or tokens and perhaps query "
            f"and classes, and a task; got {shorten(sorted(reading))}"
        )
    if isinstance(reading.get("tokens"), dict):
        reading["tokens"] = {_whole(key): name for key, name in reading["tokens"].items()}
    elif not isinstance(reading.get("tokens", []), list):
        raise ConfigError(f"{shown(path)}: tokens are a table of id = name, or a list of ids")
    if isinstance(reading.get("classes"), list):
        reading["classes"] = tuple(reading["classes"])
    return described["model"], reading


def _whole(text: str) -> int:
    if not text.isdecimal():
        raise ConfigError(f"a token id is a whole number, got {shorten(text)}")
    return int(text)


def build(options: Mapping[str, Any], state: Mapping[str, Tensor]) -> Any:
    """The model as TransformerLens builds it, with these weights and no others."""
    _refuse_larger(options, state)
    masks = {name: table for name, table in state.items() if name.endswith(_MASKS)}
    require_saved_masks(masks)
    state = {name: tensor for name, tensor in state.items() if name not in masks}
    try:
        model, loaded = _bridge(options, state) if HAS_BRIDGE_ONLY else _hooked(options, state)
    except (TypeError, ValueError, KeyError, AttributeError, RuntimeError, AssertionError) as error:
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise UnsupportedError(
            f"TransformerLens builds no such model of these options and weights: {first[:300]}"
        ) from None
    missing = [name for name in loaded[0] if not name.endswith(_MASKS)]
    if missing or loaded[1]:
        raise CheckpointError(
            f"the state does not fit the options: missing {missing[:4]}, unexpected {loaded[1][:4]}"
        )
    return model.eval()


def _refuse_larger(options: Mapping[str, Any], state: Mapping[str, Tensor]) -> None:
    """Before anything is built, since TransformerLens allocates whatever the options ask for."""
    names = ("d_model", "d_vocab", "n_layers", "n_heads", "d_head", "d_mlp", "n_ctx")
    sizes = [options[name] if isinstance(options.get(name), int) else 0 for name in names]
    width, vocabulary, layers, heads, d_head, d_mlp, n_ctx = sizes
    block = 2 * heads * d_head + (0 if options.get("attn_only") else 2 * d_mlp)
    least = width * (vocabulary + layers * block + n_ctx * ("pos_embed.W_pos" in state))
    # A mask of which token sees which: numbers first, then truth values in every layer.
    require_memory(
        f"the model's mask of n_ctx = {n_ctx:,} tokens", n_ctx, n_ctx, each=4 + layers,
        instead="state a smaller n_ctx",
    )  # fmt: skip
    stored = sum(tensor.numel() for tensor in state.values())
    if least > stored:
        raise CheckpointError(
            f"the options describe at least {least:,} weights, but the file holds {stored:,}"
        )


def _bridge(options: Mapping[str, Any], state: Mapping[str, Tensor]) -> tuple[Any, Any]:
    from transformer_lens import TransformerBridge, TransformerBridgeConfig
    from transformer_lens.utilities.tl_checkpoint_conversion import convert_tl_checkpoint

    cfg = TransformerBridgeConfig(**{**options, "device": "cpu"})
    model = TransformerBridge.boot_native(cfg)
    weights = dict(state)
    if "embed.W_E" in weights:
        weights = convert_tl_checkpoint(weights, cfg)
    own = set(model.state_dict())
    wrong = sorted(own - set(weights)), sorted(set(weights) - own)
    model.load_state_dict(weights, strict=False)
    return model, wrong


def _hooked(options: Mapping[str, Any], state: Mapping[str, Tensor]) -> tuple[Any, Any]:
    from transformer_lens import HookedTransformer, HookedTransformerConfig

    model = HookedTransformer(HookedTransformerConfig(**{**options, "device": "cpu"}))
    return model, model.load_state_dict(dict(state), strict=False)
