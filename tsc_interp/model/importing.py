"""A model that someone else trained, taken over: weights, options, and a comparison.

    tsc.from_transformer_lens(model, tokens={0: "a", 1: "b", 2: "c"}, query=3, task="contains_all")

takes a `HookedTransformer` (3.x) or a `TransformerBridge` (4.x). What this family of classifiers
has no place for is refused with the reason and the nearest thing that fits. What fits is built, run
on random strings beside the original, and accepted only if the two agree to float32 rounding. Two
of the original's steps are folded into weights, which rounds them once more: the difference of two
outputs, and a scale of attention scores other than the square root of d_head. Whatever is proved
afterwards is about the weights taken over.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tsc_interp.checkpoints.format import Checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import UnsupportedError, UsageError, shorten
from tsc_interp.model.comparing import Reading, Reads, compare
from tsc_interp.model.interop import HAS_BRIDGE_ONLY
from tsc_interp.strings import CLS, FIRST_LETTER, LETTERS

_NORMS = {"LN": "layer", "LNPre": "layer_pre", "RMS": "rms", "RMSPre": "rms_pre"}
_ACTIVATIONS = {
    "relu": "relu", "gelu": "gelu", "silu": "silu", "swish": "silu",
    "gelu_new": "gelu_new", "gelu_fast": "gelu_new", "gelu_pytorch_tanh": "gelu_new",
}  # fmt: skip


def from_transformer_lens(
    model: Any,
    *,
    tokens: Mapping[int, str] | Sequence[int],
    task: Any = "contains_all",
    query: int | None = None,
    classes: tuple[int, int] | None = None,
    samples: int = 64,
    seed: int = 0,
) -> Checkpoint:
    """The model as a checkpoint, after it was compared with the original on `samples` strings.

    `tokens` says which of the model's token ids are letters, and what they are called: `{5: "a"}`,
    or `{5: "(", 6: ")"}`, whose names the checkpoint keeps; a list of ids is a, b, c, ... in that
    order. `query` is the id of the token at which the answer is read: it comes last in a causal
    model and first in one that looks both ways; without it the last letter itself reads. `classes`
    are the outputs that mean no and yes; their difference is the logit. A model of one output has
    its sign as an answer. More than two outputs, without `classes`, are kept: the largest is the
    answer.
    """
    cfg = getattr(model, "cfg", None)
    if cfg is None or not hasattr(model, "W_U"):
        raise UsageError(
            "a model of TransformerLens is taken over, a HookedTransformer or a TransformerBridge; "
            f"got a {type(model).__name__} (plain PyTorch: tsc.from_torch)"
        )
    _refuse(cfg)
    causal = _choice(cfg, "attention_dir", "causal") == "causal"
    if query is None and not causal:
        raise UsageError("a model that looks both ways is read at a token of its own: query=its id")
    reads: Reads = "last_letter" if query is None else ("last" if causal else "first")
    ids, names = chosen_letters(tokens, cfg.d_vocab, query)
    reading = Reading(ids, names, query, reads, chosen_classes(classes, model.W_U.shape[-1]))
    config = _config(model, cfg, reading, task)
    weights = _weights(model, cfg, config, reading)
    checkpoint = Checkpoint(
        config,
        as_arrays(config, weights),
        {"imported_from": type(model).__name__, "token_ids": list(ids), "query": query},
        source=_name(model, cfg),
    )

    def original(letters: Tensor) -> Tensor:
        out: Tensor = model(reading.rows(letters).to(model.W_E.device))
        return out[:, 0 if reads == "first" else -1].float().cpu()

    compare(checkpoint, reading, original, samples, seed, getattr(cfg, "n_ctx", None))
    return checkpoint


def _name(model: Any, cfg: Any) -> str:
    """The model's own name, if it has one."""
    named = getattr(cfg, "model_name", None)
    return type(model).__name__ if named in (None, "", "custom", "native") else str(named)


def taken_over(model: Any, reading: Mapping[str, Any]) -> Checkpoint:
    """The same with its options in a mapping, whose names are checked."""
    known = {"tokens", "task", "query", "classes", "samples", "seed"}
    if not isinstance(reading, Mapping) or "tokens" not in reading or set(reading) - known:
        raise UsageError(
            "reading has tokens, and may have query, classes and task, as "
            f"tsc.from_transformer_lens takes them; got {shorten(reading)}"
        )
    return from_transformer_lens(model, **reading)


# -- what fits ---------------------------------------------------------------------------------

# Option, the values that change nothing, and what could be done instead.
_NEUTRAL: tuple[tuple[str, tuple[Any, ...], str], ...] = (
    ("parallel_attn_mlp", (None, False), "attention and MLP in turn"),
    ("gated_mlp", (None, False), "an MLP without a gate"),
    ("use_local_attn", (None, False), "attention to every token before"),
    ("use_qk_norm", (None, False), "queries and keys without a norm"),
    ("attn_scores_soft_cap", (None, -1.0, 0.0), "scores without a cap"),
    ("output_logits_soft_cap", (None, -1.0, 0.0), "logits without a cap"),
    ("num_experts", (None, 0), "one MLP"),
    ("post_embedding_ln", (None, False), "no norm after the embedding"),
    ("use_normalization_before_and_after", (None, False), "norms before each part only"),
    ("scale_attn_by_inverse_layer_idx", (None, False), "the same scale in every layer"),
    ("rmsnorm_uses_offset", (None, False), "a norm's scale as it is"),
    ("positional_embedding_type", (None, "standard", "none"), "learned positions, or none"),
)


def _refuse(cfg: Any) -> None:
    for option, neutral, instead in _NEUTRAL:
        value = getattr(cfg, option, None)
        if value not in neutral:
            raise UnsupportedError(
                f"this model has {option} = {value!r}, for which a classifier here has no place; "
                f"what can be taken over has {instead}"
            )
    dtype = getattr(cfg, "dtype", torch.float32)
    if dtype not in (torch.float32, torch.bfloat16, torch.float16):
        raise UnsupportedError(f"weights of {dtype} do not fit into float32; model.float() does")


def _choice(cfg: Any, option: str, default: str) -> str:
    return str(getattr(cfg, option, None) or default)


def chosen_letters(
    tokens: Mapping[int, str] | Sequence[int], d_vocab: int, query: int | None
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """The token ids in the order of our letters, and their names where those are not letters."""
    named = (
        dict(tokens) if isinstance(tokens, Mapping) else dict(zip(tokens, LETTERS, strict=False))
    )
    ids = [*named, *([] if query is None else [query])]
    wrong = [one for one in ids if type(one) is not int or not 0 <= one < d_vocab]
    if not named or wrong or len(set(ids)) < len(ids) or len(named) > len(LETTERS):
        raise UsageError(
            f"tokens are 1 to {len(LETTERS)} different ids below {d_vocab}, none of them the "
            f"query's; got {list(named)[:9]} and query={query}"
        )
    names = [str(name) for name in named.values()]
    if len(set(names)) < len(names):
        raise UsageError("two tokens have the same name")
    if set(names) == set(LETTERS[: len(names)]):
        order = sorted(named, key=lambda one: LETTERS.index(named[one]))
        return tuple(order), ()
    return tuple(named), tuple(names)


def chosen_classes(classes: tuple[int, int] | None, outputs: int) -> tuple[int, int] | None:
    if classes is None:
        return (0, 1) if outputs == 2 else None
    valid = len(classes) == 2 and classes[0] != classes[1]
    if not valid or not all(type(c) is int and 0 <= c < outputs for c in classes):
        raise UsageError(f"classes are two different outputs below {outputs}, got {classes!r}")
    return classes


def _config(model: Any, cfg: Any, reading: Reading, task: Any) -> ClassifierConfig:
    kind = getattr(cfg, "normalization_type", None)
    if kind not in (None, *_NORMS):
        raise UnsupportedError(
            f"normalization_type {kind!r}; what can be taken over is {', '.join(_NORMS)} or None"
        )
    state = dict(model.state_dict())
    norm = "off" if kind is None else _NORMS[kind]
    if norm in ("layer", "rms") and _norm_weight(state, "blocks.0.ln1", "w") is None:
        norm += "_pre"  # folded into what follows
    ours = exported_from(model)
    final_norm = norm != "off" and (ours is None or ours.final_norm)
    if final_norm and norm.startswith("layer") and getattr(cfg, "final_rms", False):
        raise UnsupportedError(
            "this model has LayerNorms and a final RMS norm (final_rms); what can be taken over "
            "has one kind of norm"
        )
    has_mlp = not getattr(cfg, "attn_only", False)
    act = str(getattr(cfg, "act_fn", None) or "gelu")
    if has_mlp and act not in _ACTIVATIONS:
        raise UnsupportedError(
            f"the activation {act!r}; what can be taken over is {', '.join(_ACTIVATIONS)}"
        )
    positions = bool(getattr(model, "W_pos", None) is not None and model.W_pos.any())
    outputs = 1 if reading.classes else model.W_U.shape[-1]
    options: dict[str, Any] = {
        "n_letters": len(reading.ids),
        "task": task,
        "n_layers": cfg.n_layers,
        "d_model": cfg.d_model,
        "n_heads": cfg.n_heads,
        "d_head": cfg.d_head,
        "d_mlp": model.W_in.shape[-1] if has_mlp else 0,
        "norm": norm,
        "norm_eps": float(getattr(cfg, "eps", 1e-5)),
        "final_norm": final_norm,
        "attend_cls": ours is None or ours.attend_cls,
        "n_positions": model.W_pos.shape[0] if positions else 0,
        "biases": True,
        "act_fn": _ACTIVATIONS[act] if has_mlp else "gelu",
        "n_outputs": outputs,
        "reads": reading.reads,
        "token_names": reading.names,
    }
    return ClassifierConfig(**options)


def exported_from(model: Any) -> ClassifierConfig | None:
    """What `to_transformer_lens` made this model of: it may mask CLS, and have no final norm."""
    inner = model if hasattr(model, "classifier_config") else getattr(model, "original_model", None)
    config = getattr(inner, "classifier_config", None)
    return config if isinstance(config, ClassifierConfig) else None


# -- weights -----------------------------------------------------------------------------------


def _weights(model: Any, cfg: Any, config: ClassifierConfig, reading: Reading) -> dict[str, Tensor]:
    state = {name: tensor.detach() for name, tensor in model.state_dict().items()}
    embedding = torch.zeros(config.alphabet.vocab_size, config.d_model)
    embedding[FIRST_LETTER:] = model.W_E.detach()[list(reading.ids)].float().cpu()
    if reading.query is not None:
        embedding[CLS] = model.W_E.detach()[reading.query].float().cpu()
    found: dict[str, Tensor] = {"embed.W_E": embedding}
    if config.has_positions:
        found["pos_embed.W_pos"] = model.W_pos
    for layer in range(config.n_layers):
        block = f"blocks.{layer}"
        scale = _score_scale(cfg, config)
        found[f"{block}.attn.W_Q"] = model.W_Q[layer] * scale
        found[f"{block}.attn.b_Q"] = model.b_Q[layer] * scale
        found[f"{block}.attn.W_O"], found[f"{block}.attn.b_O"] = model.W_O[layer], model.b_O[layer]
        for part in "KV":
            for kind in "Wb":
                held = getattr(model, f"{kind}_{part}")[layer]
                # Grouped heads share keys and values: each gets a copy of its own.
                held = held.repeat_interleave(config.n_heads // len(held), dim=0)
                found[f"{block}.attn.{kind}_{part}"] = held
        if config.has_mlp:
            for name in ("W_in", "b_in", "W_out", "b_out"):
                found[f"{block}.mlp.{name}"] = getattr(model, name)[layer]
        for name in ("ln1", "ln2")[: 1 + config.has_mlp]:
            found |= _norm_weights(state, config, f"{block}.{name}")
    if config.final_norm:
        found |= _norm_weights(state, config, "ln_final")
    found["unembed.W_U"] = difference(model.W_U, reading.classes)
    found["unembed.b_U"] = difference(_b_u(model), reading.classes)
    return found


def difference(outputs: Tensor, classes: tuple[int, int] | None) -> Tensor:
    """Yes minus no, rounded to float32; or all outputs."""
    if classes is None:
        return outputs
    no, yes = classes
    return outputs.float()[..., [yes]] - outputs.float()[..., [no]]


def as_arrays(
    config: ClassifierConfig, weights: Mapping[str, Tensor]
) -> dict[str, NDArray[np.float32]]:
    """What a checkpoint holds, of the weights this configuration has."""
    return {
        name: np.ascontiguousarray(weights[name].detach().float().cpu().numpy())
        for name in config.weight_shapes()
    }


def _b_u(model: Any) -> Tensor:
    bias = getattr(model, "b_U", None)
    return torch.zeros(model.W_U.shape[-1]) if bias is None else bias


def _score_scale(cfg: Any, config: ClassifierConfig) -> float:
    """What queries are multiplied by so that scores divided by sqrt(d_head) are the original's.

    A bridge without `use_attn_scale` divides by sqrt(d_head) all the same; a HookedTransformer
    does not divide.
    """
    given = float(getattr(cfg, "attn_scale", -1.0) or -1.0)
    if not getattr(cfg, "use_attn_scale", True):
        given = -1.0 if HAS_BRIDGE_ONLY else 1.0
    return 1.0 if given <= 0 else math.sqrt(config.d_head) / given


def _norm_weights(
    state: Mapping[str, Tensor], config: ClassifierConfig, name: str
) -> dict[str, Tensor]:
    wanted = {"layer": "wb", "rms": "w"}.get(config.norm, "")
    found = {}
    for part in wanted:
        weight = _norm_weight(state, name, part)
        if weight is None:
            raise UnsupportedError(f"the model has no {name}.{part}, though others of its norms do")
        found[f"{name}.{part}"] = weight
    return found


def _norm_weight(state: Mapping[str, Tensor], name: str, part: str) -> Tensor | None:
    """Under HookedTransformer's name, or a bridge's."""
    of_bridge = {"w": "weight", "b": "bias"}[part]
    return state.get(f"{name}.{part}", state.get(f"{name}.{of_bridge}"))
