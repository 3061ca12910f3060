"""What others call a classifier's weights: one table, by which every state dict is read.

Names are looked up by their ends, so that a prefix (`model.`, `transformer.`, `_orig_mod.`) does
not matter, and `h.3.`, `layers.3.`, `layer.3.` and `blocks.3.` all begin what belongs to block 3. A
name that is ours (HookedTransformer's) is kept, and its array multiplies from the right (`x @ W`).
Arrays by other names are stored as `torch.nn.Linear` stores them, out x in, except for GPT-2's
`Conv1D`, which the shape of `c_attn` tells.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import CheckpointError
from tsc_interp.model.unaltered import is_causal
from tsc_interp.strings import FIRST_LETTER

Array = NDArray[np.float64]

OUTSIDE_BLOCKS = {
    "embed.W_E": ("wte", "embed_tokens", "tok_emb", "token_emb", "token_embedding", "embedding",
                  "embeddings.embeddings"),
    "pos_embed.W_pos": ("wpe", "pos_emb", "position_embedding", "pos_embedding", "positions"),
    "ln_final": ("ln_f", "norm", "final_norm", "ln_final"),
    "unembed.U": ("lm_head", "head", "unembed", "binary_linear.linear"),
}  # fmt: skip
IN_BLOCK = {
    "ln1": ("ln_1", "ln1", "norm1", "input_layernorm", "attention_layer_norm"),
    "attn.QKV": ("attn.c_attn", "attn.qkv", "self_attn.in_proj"),
    "attn.Q": ("self_attn.q_proj", "attn.q_proj", "attention.query"),
    "attn.K": ("self_attn.k_proj", "attn.k_proj", "attention.key"),
    "attn.V": ("self_attn.v_proj", "attn.v_proj", "attention.value"),
    "attn.q_norm": ("self_attn.q_norm", "attn.q_norm"),
    "attn.k_norm": ("self_attn.k_norm", "attn.k_norm"),
    "attn.O": ("attn.c_proj", "attn.proj", "attn.o_proj", "self_attn.o_proj",
               "self_attn.out_proj", "attention.output"),
    "ln2": ("ln_2", "ln2", "norm2", "post_attention_layernorm", "feed_forward_layer_norm"),
    "mlp.gate": ("mlp.gate_proj",),
    "mlp.in": ("mlp.c_fc", "mlp.up_proj", "mlp.fc1", "linear1", "feed_forward.input_"),
    "mlp.out": ("mlp.c_proj", "mlp.down_proj", "mlp.fc2", "linear2", "feed_forward.output"),
}  # fmt: skip
"""Our part, without `W_` and `b_`, and what others call it."""
BUFFERS = (
    "attn.IGNORE", "attn.masked_bias", "attn.rotary_sin", "attn.rotary_cos", "rotary_emb.inv_freq",
    "rsqrt_attention_head_size",
)  # fmt: skip
MASKS = ("attn.mask", "attn.bias")
"""What models keep beside their weights; it follows from the configuration. Masks are causal."""

_BLOCK = re.compile(r"(?:.*\.)?(?:(?:h|layers?|blocks)\.(\d+)|self_attention_block)\.(.+)")
_LEAF = re.compile(r"(.+?)[._](weight|bias|w|b)")
_OURS = {
    other: ours
    for table in (OUTSIDE_BLOCKS, IN_BLOCK)
    for ours, others in table.items()
    for other in others
}
_SPLIT = {"W_Q": 1, "W_K": 1, "W_V": 1, "W_O": 0, "b_Q": 0, "b_K": 0, "b_V": 0}
"""The axis in which the heads of a weight that is not split by heads stand side by side."""


def our_name(theirs: str) -> str | None:
    """HookedTransformer's name of another library's weight; None if the table has none.

    Fused queries, keys and values are called `W_QKV`.

    Example:
        >>> our_name("model.layers.3.mlp.down_proj.weight"), our_name("transformer.ln_f.bias")
        ('blocks.3.mlp.W_out', 'ln_final.b')
    """
    block = _BLOCK.fullmatch(theirs)
    leaf = _LEAF.fullmatch(block[2] if block else theirs)
    if leaf is None:
        return None
    table = IN_BLOCK if block else OUTSIDE_BLOCKS
    names = [leaf[1]] if block else [leaf[1].split(".", cut)[-1] for cut in range(9)]
    part = next((_OURS[name] for name in names if _OURS.get(name) in table), None)
    if part is None:
        return None
    place = f"blocks.{block[1] or 0}.{part}" if block else part
    kind = leaf[2][0]
    if part.rsplit(".", 1)[-1].startswith(("ln", "q_norm", "k_norm")):
        return f"{place}.{kind}"
    if ".W_" in place:  # an embedding
        return place if kind == "w" else None
    parent, name = place.rsplit(".", 1)
    return f"{parent}.{'b' if kind == 'b' else 'W'}_{name}"


def weights_of(
    config: ClassifierConfig, state: Mapping[str, Any], source: str, *, lacks_biases: bool = False
) -> tuple[dict[str, NDArray[np.float32]], list[str]]:
    """The weights of a configuration out of a state dict, and the names of those that were rounded.

    Biases that are missing are zeros where names are another library's, or with `lacks_biases`.

    Raises:
        CheckpointError: An array is missing, unknown, or of another shape.
    """
    given = {name: _as_float64(name, array, source) for name, array in state.items()}
    weights, rounded, shapes = {}, [], config.weight_shapes()
    for name, array in _by_our_names(config, given, source, lacks_biases).items():
        apart = _placed(config, name, array)
        if apart.shape != shapes[name]:
            raise CheckpointError(
                f"{source}: {name} has shape {list(array.shape)}, expected {list(shapes[name])}"
            )
        weights[name] = np.ascontiguousarray(apart, dtype=np.float32)
        rounded += [name] if (weights[name] != apart).any() else []
    return weights, rounded


def _by_our_names(
    config: ClassifierConfig, state: Mapping[str, Array], source: str, lacks_biases: bool
) -> dict[str, Array]:
    """The arrays of a state dict by our names.

    Raises:
        CheckpointError: A name is missing, in no table, or stands twice.
    """
    expected, ours, unknown = config.weight_shapes(), dict[str, Array](), list[str]()
    for theirs, array in state.items():
        name = theirs if theirs in expected else our_name(theirs)
        if name is None:
            known = theirs.endswith(BUFFERS) or (
                theirs.endswith(MASKS) and is_causal(array.squeeze())
            )
            unknown += [] if known else [theirs]
            continue
        if theirs != name:
            lacks_biases = True
            array = array.T if _is_linear(theirs, name, array, state) else array
        parts = _taken_apart(config, name, array, source)
        if twice := parts.keys() & ours.keys():
            raise CheckpointError(f"{source}: {theirs} is another {', '.join(sorted(twice))}")
        ours |= parts
    if config.tied_embeddings and np.array_equal(
        ours.get("unembed.W_U", ()), ours.get("embed.W_E", np.zeros(())).T[:, -config.n_letters :]
    ):
        del ours["unembed.W_U"]
    has = f"it has {', '.join(expected)}"
    if lacks_biases:
        absent = [name for name in expected.keys() - ours.keys() if re.search(r"\.b(_\w+)?$", name)]
        ours |= {name: np.zeros(expected[name]) for name in absent}
    if missing := sorted(expected.keys() - ours.keys()):
        raise CheckpointError(f"{source}: there is no {', '.join(missing)}; {has}")
    if unknown := sorted([*unknown, *(ours.keys() - expected.keys())]):
        raise CheckpointError(
            f"{source}: the configuration has a place for no {', '.join(unknown)}; {has}"
        )
    return {name: ours[name] for name in expected}


def _is_linear(theirs: str, ours: str, array: Array, state: Mapping[str, Array]) -> bool:
    """Whether a matrix is stored out x in."""
    if array.ndim != 2 or ours.endswith((".W_E", ".W_pos")):
        return False
    conv = re.match(r"(.*\.)(attn|mlp)\.c_\w+\.weight$", theirs)
    fused = None if conv is None else state.get(f"{conv[1]}attn.c_attn.weight")
    return fused is None or fused.ndim != 2 or fused.shape[0] > fused.shape[1]


def _taken_apart(
    config: ClassifierConfig, name: str, array: Array, source: str
) -> dict[str, Array]:
    """Queries, keys and values that one array holds side by side; any other array as it is."""
    if not name.endswith("_QKV"):
        return {name: array}
    sizes = [heads * config.d_head for heads in (config.n_heads, config.kv_heads, config.kv_heads)]
    if array.shape[-1] != sum(sizes):
        raise CheckpointError(
            f"{source}: {name} holds {array.shape[-1]} numbers side by side, not {sum(sizes)} "
            "(queries, keys and values of the configuration's heads)"
        )
    parts = np.split(array, np.cumsum(sizes)[:2], axis=-1)
    return {name.replace("QKV", part): piece for part, piece in zip("QKV", parts, strict=True)}


def _placed(config: ClassifierConfig, name: str, array: Array) -> Array:
    """The array with its heads apart, or its letters behind CLS and PAD."""
    kind, shape = name.rsplit(".", 1)[1], config.weight_shapes()[name]
    if kind == "W_E" and not config.has_cls and array.shape == (config.n_letters, config.d_model):
        return np.concatenate([np.zeros((FIRST_LETTER, config.d_model)), array])
    if kind not in _SPLIT or array.ndim != len(shape) - 1 or array.shape[_SPLIT[kind]] % shape[0]:
        return array
    return np.stack(np.split(array, shape[0], axis=_SPLIT[kind]))


def _as_float64(name: str, array: Any, source: str) -> Array:
    try:
        if isinstance(array, Tensor):
            array = array.detach().cpu()
            array = (array if array.is_complex() else array.double()).numpy()
        if np.iscomplexobj(array):  # whose imaginary part NumPy would drop
            raise TypeError
        return np.asarray(array, dtype=np.float64)
    except (TypeError, ValueError, RuntimeError):  # sparse, quantized and meta tensors among them
        raise CheckpointError(f"{source}: {name} is not an array of numbers") from None
