"""A TransformerLens model from its saved state and a file that says what it is.

    [model]                     # TransformerLens's own options, as its config was made with
    d_model = 32
    n_heads = 2
    ...
    [reading]
    tokens = { "0" = "a", "1" = "b", "2" = "c" }
    query = 3
    classes = [0, 1]
    task = "contains_all"

TOML or JSON. The state is a `.pt` of `torch.save(model.state_dict(), ...)`, read without running
code, or a safetensors file; its keys are HookedTransformer's or a TransformerBridge's. The original
is built again by TransformerLens and compared with what was imported (importing.py).
"""

from __future__ import annotations

import json
import os
import tomllib
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from tsc_interp.checkpoints.checkpoint import Checkpoint
from tsc_interp.checkpoints.torch_files import read_tensors
from tsc_interp.errors import CheckpointError, ConfigError, UnsupportedError, shorten
from tsc_interp.files import read_regular, shown
from tsc_interp.model.importing import from_transformer_lens
from tsc_interp.model.interop import HAS_BRIDGE_ONLY

_MAX_BYTES = 1_000_000
_READING = {"tokens", "query", "classes", "task"}


def read_transformer_lens(
    path: str | os.PathLike[str], config: str | os.PathLike[str]
) -> Checkpoint:
    """The checkpoint behind a saved state and its configuration."""
    options, reading = read_description(Path(config))
    state = read_tensors(Path(path))
    with warnings.catch_warnings(action="ignore"):  # TransformerLens's, about what it is given
        model = build(options, state)
        found = from_transformer_lens(model, **reading)
    provenance = {**found.provenance, "file": Path(path).name}
    return Checkpoint(found.config, found.weights, provenance, source=str(path))


def read_claim(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The model's options, and `frame` and `task` of a claim about it, for `falsify`."""
    options, claim = _tables(path, "claim", "frame and task")
    if set(claim) - {"frame", "task"} or not isinstance(claim.get("frame", ""), str):
        raise ConfigError(
            f"{shown(path)}: [claim] has a frame in its notation and a task; "
            f"got {shorten(sorted(claim))}"
        )
    return options, claim


def _tables(path: Path, second: str, holds: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The two tables of a TOML or JSON file: [model], and one more."""
    try:
        text = read_regular(path, _MAX_BYTES).decode()
        described = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    except OSError as error:
        raise ConfigError(f"{shown(path)} cannot be read: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{shown(path)} is neither TOML nor JSON: {error}") from None
    if not isinstance(described, dict) or set(described) != {"model", second}:
        raise ConfigError(
            f"{shown(path)} needs two tables: [model] with TransformerLens's options, and "
            f"[{second}] with {holds}"
        )
    options, other = described["model"], described[second]
    if not isinstance(options, dict) or not isinstance(other, dict):
        raise ConfigError(f"{shown(path)}: [model] and [{second}] are tables")
    return options, other


def read_description(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The model's options, and how it is to be read."""
    options, reading = _tables(path, "reading", "tokens, query, classes and task")
    unknown = sorted(set(reading) - _READING)
    if unknown or "tokens" not in reading:
        raise ConfigError(
            f"{shown(path)}: [reading] has tokens, and may have query, classes and task; "
            f"got {shorten(sorted(reading))}"
        )
    if isinstance(reading["tokens"], dict):
        reading["tokens"] = {_whole(key): name for key, name in reading["tokens"].items()}
    elif not isinstance(reading["tokens"], list):
        raise ConfigError(f"{shown(path)}: tokens are a table of id = name, or a list of ids")
    if isinstance(reading.get("classes"), list):
        reading["classes"] = tuple(reading["classes"])
    return options, reading


def _whole(text: str) -> int:
    if not text.isdecimal():
        raise ConfigError(f"a token id is a whole number, got {shorten(text)}")
    return int(text)


def build(options: Mapping[str, Any], state: Mapping[str, Tensor]) -> Any:
    """The model as TransformerLens builds it, with these weights and no others."""
    try:
        model, loaded = _bridge(options, state) if HAS_BRIDGE_ONLY else _hooked(options, state)
    except (TypeError, ValueError, KeyError, AttributeError, RuntimeError, AssertionError) as error:
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise UnsupportedError(
            f"TransformerLens builds no such model of these options and weights: {first[:300]}"
        ) from None
    missing = [name for name in loaded[0] if not name.endswith(("mask", "IGNORE"))]
    extra = [name for name in loaded[1] if not name.endswith(("mask", "IGNORE"))]
    if missing or extra:
        raise CheckpointError(
            f"the state does not fit the options: missing {missing[:4]}, unexpected {extra[:4]}"
        )
    return model.eval()


def _bridge(options: Mapping[str, Any], state: Mapping[str, Tensor]) -> tuple[Any, Any]:
    from transformer_lens import TransformerBridge, TransformerBridgeConfig
    from transformer_lens.utilities.tl_checkpoint_conversion import convert_tl_checkpoint

    cfg = TransformerBridgeConfig(**{**options, "device": "cpu"})
    model = TransformerBridge.boot_native(cfg)
    weights = dict(state)
    if "embed.W_E" in weights:
        kept = {k: v for k, v in weights.items() if not k.endswith(("mask", "IGNORE"))}
        weights = convert_tl_checkpoint(kept, cfg)
    own = set(model.state_dict())
    wrong = sorted(own - set(weights)), sorted(set(weights) - own)
    model.load_state_dict(weights, strict=False)
    return model, wrong


def _hooked(options: Mapping[str, Any], state: Mapping[str, Tensor]) -> tuple[Any, Any]:
    from transformer_lens import HookedTransformer, HookedTransformerConfig

    model = HookedTransformer(HookedTransformerConfig(**{**options, "device": "cpu"}))
    return model, model.load_state_dict(dict(state), strict=False)
