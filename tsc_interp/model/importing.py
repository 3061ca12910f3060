"""A model that someone else trained, imported: weights, options, and a comparison.

    tsc.from_transformer_lens(model, tokens={0: "a", 1: "b", 2: "c"}, query=3, task="contains_all")

takes a `HookedTransformer` (3.x) or a `TransformerBridge` (4.x). What this family of classifiers
has no place for is refused with the reason and the nearest thing that fits. So are hooks,
subclasses and replaced methods (`unaltered.py`), which could do something else on strings nobody
tried. What fits is built, run beside the original, and accepted only if the two agree to float32
rounding on every string tried and every output (`comparing.py`). Two of the original's steps are
folded into weights, which rounds them once more: the difference of two outputs, and a scale of
attention scores other than the square root of d_head. Whatever is proved afterwards is about the
weights imported.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tsc_interp.arguments import checked
from tsc_interp.checkpoints.checkpoint import Checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import UnsupportedError, UsageError
from tsc_interp.frames.frame import Frame
from tsc_interp.model.comparing import (
    InputMap,
    Reads,
    chosen_classes,
    chosen_letters,
    compare,
)
from tsc_interp.model.import_frame import of_frame
from tsc_interp.model.import_options import family_options, family_weights
from tsc_interp.model.interop import NORMS
from tsc_interp.model.layers import ACTIVATIONS
from tsc_interp.model.unaltered import (
    require_activation,
    require_epsilon,
    require_equal_layers,
    require_unaltered,
)
from tsc_interp.strings import CLS, FIRST_LETTER
from tsc_interp.task import given_task
from tsc_interp.tasks.framed import framed

ACTIVATION_NAMES = {
    "relu": "relu", "gelu": "gelu", "silu": "silu", "swish": "silu",
    "gelu_new": "gelu_new", "gelu_fast": "gelu_new", "gelu_pytorch_tanh": "gelu_new",
}  # fmt: skip


@checked
def from_transformer_lens(
    model: Any,
    *,
    tokens: Mapping[int, str] | Sequence[int] | None = None,
    task: Any = "contains_all",
    frame: Frame | str | None = None,
    query: int | None = None,
    classes: tuple[int, int] | None = None,
    samples: int = 64,
    seed: int = 0,
    name: str | None = None,
) -> Checkpoint:
    """Import a TransformerLens model, and compare it with the original.

    Args:
        model: A `HookedTransformer` or a `TransformerBridge`.
        tokens: The token ids that are letters, and their names: `{5: "a"}`, or `{5: "(", 6: ")"}`,
            whose names the checkpoint keeps. A list of ids stands for a, b, c, ...
        task: The task, by name or as one of `tsc.tasks`.
        frame: The format of the inputs (`tsc.Frame`, or its notation): fixed tokens, letters for
            each place, lengths, and the position read. It replaces `query` and `classes`; `tokens`
            may still name tokens. The checkpoint stores the frame, and every function uses it. The
            task is about the letters at the places; its a is the letter with the lowest id.
        query: The id of the token at which the answer is read. It comes last in a causal model and
            first in a bidirectional one. Without it, the answer is read at the last letter.
        classes: The outputs that mean no and yes; their difference is the logit. By default these
            are the two outputs; with more outputs, all are kept, and the largest is the answer.
        samples: The number of random strings on which both models are compared.
        seed: The seed of these strings.
        name: The title of the model's pages; by default the frame's name, or the model's own.

    Returns:
        The model as a checkpoint, which every function of the package accepts as a model.

    Raises:
        UsageError: The options do not fit the model.
        UnsupportedError: The model has a part that cannot be imported, or the two disagree.

    Example:
        >>> import tsc_interp as tsc
        >>> bridge = tsc.load("walkthrough").to_transformer_lens(n_ctx=32)
        >>> mine = from_transformer_lens(bridge, tokens={2: "a", 3: "b", 4: "c"}, query=0)
        >>> tsc.evaluate(mine, "aab")[0].correct
        True
        >>> framed = from_transformer_lens(bridge, frame="[CLS] x{1..9}; x=2..4; CLS=0; read=0")
        >>> tsc.verify(framed).correct
        True
    """
    cfg = getattr(model, "cfg", None)
    if cfg is None or not hasattr(model, "W_U"):
        raise UsageError(
            "a model of TransformerLens is imported, a HookedTransformer or a TransformerBridge; "
            f"got a {type(model).__name__} (plain PyTorch: tsc.from_torch)"
        )
    require_unaltered(model)
    refuse_unsupported(cfg)
    causal = str(getattr(cfg, "attention_dir", None) or "causal") == "causal"
    options = family_options(model, cfg)
    provenance: dict[str, Any] = {"imported_from": type(model).__name__}
    if frame is not None:
        task = given_task(task)
        names = dict(tokens) if isinstance(tokens, Mapping) else None
        if query is not None or classes is not None or (tokens is not None and names is None):
            raise UsageError(
                "a frame says which tokens are letters, where the answer is read and which outputs "
                "stand for which classes: leave out query and classes; tokens may name tokens"
            )
        reading = of_frame(
            Frame.parse(frame, names=names) if isinstance(frame, str) else frame, model,
            causal=causal, n_positions=options["n_positions"], ordered=task.ordered, names=names,
        )  # fmt: skip
        moved = reading.moved is not None and reading.moved[0] > 0
        if moved and options.get("positions", "learned") != "learned":
            raise UnsupportedError(
                f"{options['positions']} positions count from the first token, so a model that "
                "looks both ways is read there: read=0"
            )
        task = task if reading.layout is None else framed(task, reading.layout)
        provenance["frame"] = str(frame)
    else:
        if tokens is None:
            raise UsageError("say which tokens are letters (tokens=), or what inputs look like")
        if query is None and not causal:
            raise UsageError(
                "a model that looks both ways is read at a token of its own: query=its id"
            )
        reads: Reads = "last_letter" if query is None else ("last" if causal else "first")
        ids, called = chosen_letters(tokens, cfg.d_vocab, query)
        reading = InputMap(ids, called, query, reads, chosen_classes(classes, model.W_U.shape[-1]))
    config = _config(model, cfg, reading, task, options)
    _require_uniform(model, config, cfg)
    weights = _weights(model, config, reading)
    checkpoint = Checkpoint(
        config,
        as_arrays(config, weights),
        {**provenance, "token_ids": list(reading.ids), "query": reading.query},
        source=name or getattr(frame, "name", "") or name_of(model),
    )

    def original(letters: Tensor) -> Tensor:
        out: Tensor = model(reading.rows(letters).to(model.W_E.device))
        return out[:, reading.read_at(letters.shape[1])].float().cpu()

    compare(checkpoint, reading, original, samples, seed, getattr(cfg, "n_ctx", None))
    return checkpoint


def name_of(model: Any) -> str:
    """A TransformerLens model's own name, or that of its class."""
    named = getattr(model.cfg, "model_name", None)
    return type(model).__name__ if named in (None, "", "custom", "native") else str(named)


# -- what fits ---------------------------------------------------------------------------------

_POSITIONS = (None, "standard", "none", "rotary", "alibi", "shortformer")
# Option, the values that change nothing, and what could be done instead.
_NEUTRAL: tuple[tuple[str, tuple[Any, ...], str], ...] = (
    ("parallel_attn_mlp", (None, False), "attention and MLP in turn"),
    ("use_local_attn", (None, False), "attention to every token before"),
    ("attn_scores_soft_cap", (None, -1.0, 0.0), "scores without a cap"),
    ("output_logits_soft_cap", (None, -1.0, 0.0), "logits without a cap"),
    ("num_experts", (None, 0), "one MLP"),
    ("post_embedding_ln", (None, False), "no norm after the embedding"),
    ("use_normalization_before_and_after", (None, False), "norms before each part only"),
    ("scale_attn_by_inverse_layer_idx", (None, False), "the same scale in every layer"),
    ("rmsnorm_uses_offset", (None, False), "a norm's scale as it is"),
    ("positional_embedding_type", _POSITIONS, "positions of a kind that is known, or none"),
    ("use_attention_sinks", (None, False), "attention to tokens only"),
    ("use_logn_attn", (None, False), "queries of one scale"),
    ("clip_qkv", (None,), "queries, keys and values as they are"),
)


def refuse_unsupported(cfg: Any) -> None:
    """Refuse options of TransformerLens that no form of the arithmetic here has."""
    for option, neutral, instead in _NEUTRAL:
        value = getattr(cfg, option, None)
        if value not in neutral:
            raise UnsupportedError(
                f"this model has {option} = {value!r}, for which a classifier here has no place; "
                f"what can be imported has {instead}"
            )
    dtype = getattr(cfg, "dtype", torch.float32)
    if dtype not in (torch.float32, torch.bfloat16, torch.float16):
        raise UnsupportedError(f"weights of {dtype} do not fit into float32; model.float() does")


def _require_uniform(model: Any, config: ClassifierConfig, cfg: Any) -> None:
    """One activation and one epsilon in all layers: the ones the configuration names."""
    require_equal_layers(model.blocks)
    if config.has_norm:
        require_epsilon(model, config.norm_eps)
    if config.has_mlp:
        require_activation(model, ACTIVATIONS[config.act_fn], str(cfg.act_fn))


def _config(
    model: Any, cfg: Any, reading: InputMap, task: Any, family: Mapping[str, Any]
) -> ClassifierConfig:
    kind = getattr(cfg, "normalization_type", None)
    if kind not in NORMS:
        known = ", ".join(filter(None, NORMS))
        raise UnsupportedError(
            f"normalization_type {kind!r}; what can be imported is {known} or None"
        )
    state = dict(model.state_dict())
    norm = NORMS[kind]
    if norm in ("layer", "rms") and norm_weight(state, "blocks.0.ln1", "w") is None:
        norm += "_pre"  # folded into what follows
    ours = exported_from(model)
    final_norm = norm != "off" and (ours is None or ours.final_norm)
    if final_norm and norm.startswith("layer") and getattr(cfg, "final_rms", False):
        raise UnsupportedError(
            "this model has LayerNorms and a final RMS norm (final_rms); what can be imported "
            "has one kind of norm"
        )
    has_mlp = not getattr(cfg, "attn_only", False)
    act = str(getattr(cfg, "act_fn", None) or "gelu")
    if has_mlp and act not in ACTIVATION_NAMES:
        raise UnsupportedError(
            f"the activation {act!r}; what can be imported is {', '.join(ACTIVATION_NAMES)}"
        )
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
        "biases": True,
        "act_fn": ACTIVATION_NAMES[act] if has_mlp else "gelu",
        "n_outputs": outputs,
        "reads": reading.reads,
        "token_names": reading.names,
        **family,
    }
    if reading.moved is not None or reading.blank:
        options["n_positions"] = reading.blank or len(reading.moved or ())
    return ClassifierConfig(**options)


def exported_from(model: Any) -> ClassifierConfig | None:
    """What `to_transformer_lens` made this model of: it may mask CLS, and have no final norm."""
    inner = model if hasattr(model, "classifier_config") else getattr(model, "original_model", None)
    config = getattr(inner, "classifier_config", None)
    return config if isinstance(config, ClassifierConfig) else None


# -- weights -----------------------------------------------------------------------------------


def _weights(model: Any, config: ClassifierConfig, reading: InputMap) -> dict[str, Tensor]:
    state = {name: tensor.detach() for name, tensor in model.state_dict().items()}
    embedding = torch.zeros(config.alphabet.vocab_size, config.d_model)
    embedding[FIRST_LETTER:] = model.W_E.detach()[list(reading.ids)].float().cpu()
    if reading.query is not None:
        embedding[CLS] = model.W_E.detach()[reading.query].float().cpu()
    weights: dict[str, Tensor] = {"embed.W_E": embedding}
    if config.learned_positions:
        weights["pos_embed.W_pos"] = _positions(model, config, reading)
    for layer in range(config.n_layers):
        block = f"blocks.{layer}"
        for name in ("W_Q", "b_Q", "W_O", "b_O"):
            weights[f"{block}.attn.{name}"] = getattr(model, name)[layer]
        weights |= family_weights(model, config, layer)
        for name in ("ln1", "ln2")[: 1 + config.has_mlp]:
            weights |= _norm_weights(state, config, f"{block}.{name}")
    if config.final_norm:
        weights |= _norm_weights(state, config, "ln_final")
    for name, outputs in (("unembed.W_U", model.W_U), ("unembed.b_U", output_bias(model))):
        kept = outputs if reading.outputs is None else outputs[..., list(reading.outputs)]
        weights[name] = difference(kept, reading.classes)
    return weights


def _positions(model: Any, config: ClassifierConfig, reading: InputMap) -> Tensor:
    """The table in our order: what reads comes first."""
    if reading.blank:
        return torch.zeros(config.n_positions, config.d_model)
    table: Tensor = model.W_pos
    return table if reading.moved is None else table[list(reading.moved)]


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


def output_bias(model: Any) -> Tensor:
    bias = getattr(model, "b_U", None)
    return torch.zeros(model.W_U.shape[-1]) if bias is None else bias


def _norm_weights(
    state: Mapping[str, Tensor], config: ClassifierConfig, name: str
) -> dict[str, Tensor]:
    wanted = {"layer": "wb", "rms": "w"}.get(config.norm, "")
    weights = {}
    for part in wanted:
        weight = norm_weight(state, name, part)
        if weight is None:
            raise UnsupportedError(f"the model has no {name}.{part}, though others of its norms do")
        weights[f"{name}.{part}"] = weight
    return weights


def norm_weight(state: Mapping[str, Tensor], name: str, part: str) -> Tensor | None:
    """Under HookedTransformer's name, or a bridge's."""
    of_bridge = {"w": "weight", "b": "bias"}[part]
    return state.get(f"{name}.{part}", state.get(f"{name}.{of_bridge}"))
