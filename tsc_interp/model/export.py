"""To TransformerLens: its config, and its own model classes.

4.x has `TransformerBridge`, 3.x `HookedTransformer`. Both take token ids and return `[batch pos 1]`
logits, of which ours is position 0. Neither knows multiplicities, so the exported model carries
permanent hooks that read the tokens it is given and take all weight from PAD, and from CLS where it
is not attended to. What cannot be exported is refused with the reason, never approximated.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from einops import rearrange
from torch import Tensor, nn

from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import UnsupportedError
from tsc_interp.model.inputs import from_tokens
from tsc_interp.model.interop import HAS_BRIDGE_ONLY

if TYPE_CHECKING:
    from tsc_interp.model.hooked import HookedClassifier

_NORM_TYPES = {
    "off": None,
    "rms": "RMS",
    "layer": "LN",
    "rms_pre": "RMSPre",
    "layer_pre": "LNPre",
}


def beyond_transformer_lens(config: ClassifierConfig) -> tuple[str, ...]:
    """Why no model that TransformerLens itself builds from our config computes our logits.

    Empty when one does, for strings of one length: PAD, which it would attend to, is a matter of
    the input. `to_transformer_lens` mends with hooks what can be mended.
    """
    reasons = {
        "every block of its models has attention": not config.has_attention,
        "it has no attention scores that grow with log n": config.log_n,
        "it has no models without positions": not config.has_positions,
        "it attends to every token, CLS too": config.has_attention and not config.attend_cls,
        "its models with norms have one before the read-out": config.has_norm
        and not config.final_norm,
    }
    return tuple(reason for reason, applies in reasons.items() if applies)


def transformer_lens_config(config: ClassifierConfig, n_ctx: int = 256) -> Any:
    """The TransformerLens config of this classifier: what `model.cfg` holds."""
    cfg = _buildable_config(config, n_ctx)
    if not config.has_positions:
        cfg.positional_embedding_type = "none"
    cfg.n_params = sum(
        math.prod(shape)
        for name, shape in config.weight_shapes().items()
        if ".attn." in name or ".mlp." in name
    )
    cfg.beyond_transformer_lens = beyond_transformer_lens(config)
    return cfg


def _buildable_config(config: ClassifierConfig, n_ctx: int) -> Any:
    """The same with a position table, without which TransformerLens builds no such model."""
    if HAS_BRIDGE_ONLY:
        from transformer_lens import TransformerBridgeConfig as Config
    else:
        from transformer_lens import HookedTransformerConfig as Config
    # TransformerLens reads d_mlp 0 as "unset"; attn_only says there is no MLP.
    sizes = {"d_mlp": config.d_mlp} if config.has_mlp else {"attn_only": True}
    return Config(
        d_model=config.d_model,
        d_head=config.d_head,
        n_heads=config.n_heads,
        n_layers=config.n_layers,
        n_ctx=config.n_positions or n_ctx,
        d_vocab=config.alphabet.vocab_size,
        d_vocab_out=config.n_outputs,
        act_fn=config.act_fn,
        normalization_type=_NORM_TYPES[config.norm],
        eps=config.norm_eps,
        attention_dir="causal" if config.causal else "bidirectional",
        init_weights=False,
        device="cpu",
        **sizes,
    )


def export(model: HookedClassifier, n_ctx: int) -> Any:
    """A TransformerLens model with the same logits (at position 0) and activations."""
    config = model.config
    for reason, applies in {
        "an ensemble is many models": bool(model.ensemble_shape),
        "TransformerLens models have attention in every block": not config.has_attention,
        "TransformerLens has no attention scores that grow with log n": config.log_n,
        "that is not built yet for " + ", ".join(config.beyond_report): bool(config.beyond_report),
    }.items():
        if applies:
            raise UnsupportedError(f"this classifier cannot be exported: {reason}")
    cfg = _buildable_config(config, n_ctx)
    exported = _bridge(model, cfg) if HAS_BRIDGE_ONLY else _hooked_transformer(model, cfg)
    return exported.eval()


def _bridge(model: HookedClassifier, cfg: Any) -> Any:
    from transformer_lens import TransformerBridge
    from transformer_lens.utilities.tl_checkpoint_conversion import convert_tl_checkpoint

    bridge = TransformerBridge.boot_native(cfg)
    bridge.load_state_dict(convert_tl_checkpoint(_tl_state(model, cfg), cfg), strict=False)
    native = bridge.original_model
    # Its final norm has no counterpart here.
    native.ln_out = nn.Identity()
    seen = _remember_multiplicity(model.config, _inner(native.tok_embed))

    def reweight(pattern: Tensor, hook: Any) -> Tensor:
        # Edits to scores are discarded by the bridge; on the pattern the same rule reads
        # m_j p_j / sum_i m_i p_i.
        multiplicity = seen["multiplicity"].to(pattern.dtype)
        weighted = pattern * rearrange(multiplicity, "batch key -> batch 1 1 key")
        return weighted / weighted.sum(-1, keepdim=True)

    for layer in range(model.config.n_layers):
        bridge.blocks[layer].attn.hook_pattern.add_hook(reweight, is_permanent=True)
    return bridge


def _tl_state(model: HookedClassifier, cfg: Any) -> dict[str, Tensor]:
    """Every weight of a TransformerLens model, a position table of its length among them."""
    state = {name: weight.detach() for name, weight in model.tl_parameters().items()}
    if not model.config.has_positions:
        state["pos_embed.W_pos"] = torch.zeros(cfg.n_ctx, cfg.d_model)
    return state


def _hooked_transformer(model: HookedClassifier, cfg: Any) -> Any:
    from transformer_lens import HookedTransformer

    exported = HookedTransformer(cfg)
    exported.load_state_dict(_tl_state(model, cfg), strict=False)
    exported.ln_final = nn.Identity()
    exported.setup()
    seen = _remember_multiplicity(model.config, exported.embed)

    def reweight(scores: Tensor, hook: Any) -> Tensor:
        log_multiplicity = seen["multiplicity"].log().to(scores.dtype)
        return scores + rearrange(log_multiplicity, "batch key -> batch 1 1 key")

    for block in exported.blocks:
        block.attn.hook_attn_scores.add_perma_hook(reweight)
    return exported


def _remember_multiplicity(config: ClassifierConfig, embedding: nn.Module) -> dict[str, Tensor]:
    """Filled with the multiplicities of whatever tokens the model is embedding."""
    seen: dict[str, Tensor] = {}

    def remember(_: nn.Module, args: tuple[Tensor, ...]) -> None:
        seen["multiplicity"] = from_tokens(config, args[0]).multiplicity

    embedding.register_forward_pre_hook(remember)
    return seen


def _inner(component: Any) -> Any:
    """The torch module a bridge component wraps, or the module itself."""
    return getattr(component, "original_component", None) or component
