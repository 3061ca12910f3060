"""The exported classifier for TransformerLens 3.x: HookedTransformer, knowing what is masked."""

from __future__ import annotations

from typing import Any

import torch
from einops import rearrange
from torch import Tensor, nn
from transformer_lens import HookedTransformer
from transformer_lens.components import Attention, GroupedQueryAttention
from transformer_lens.hook_points import HookPoint

from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import UsageError
from tsc_interp.model.cache import ClassifierCache
from tsc_interp.model.inputs import TOKENS_NEEDED, from_tokens


class Masked:
    """Attention that honours `attention_mask` whether it is causal or not.

    Mixed into TransformerLens's attention; the mask is added to scores and not passed on, because
    TransformerLens would count positions from the first token that is attended to.
    """

    def forward(
        self,
        query_input: Tensor,
        key_input: Tensor,
        value_input: Tensor,
        past_kv_cache_entry: Any = None,
        additive_attention_mask: Tensor | None = None,
        attention_mask: Tensor | None = None,
        position_bias: Tensor | None = None,
    ) -> Tensor:
        if attention_mask is None:
            raise UsageError(
                "which positions may be attended to is not known here: run the whole model, or "
                "pass attention_mask=..., 1 for those that may"
            )
        masked = attention_mask.to(query_input.dtype).log()
        masked = rearrange(masked, "batch key -> batch 1 1 key")
        if additive_attention_mask is not None:
            masked = masked + additive_attention_mask
        out: Tensor = super().forward(  # type: ignore[misc]
            query_input,
            key_input,
            value_input,
            past_kv_cache_entry=past_kv_cache_entry,
            additive_attention_mask=masked,
            position_bias=position_bias,
        )
        return out


class MaskedAttention(Masked, Attention):  # type: ignore[misc]
    """Every head with keys and values of its own."""


class MaskedGroupedAttention(Masked, GroupedQueryAttention):  # type: ignore[misc]
    """Heads that share keys and values."""


class NoFinalNorm(nn.Module):
    """Where TransformerLens looks for a final norm: nothing is changed, and the scale is 1."""

    def __init__(self) -> None:
        super().__init__()
        self.hook_scale = HookPoint()
        self.hook_normalized = HookPoint()

    def forward(self, x: Tensor) -> Tensor:
        scale = self.hook_scale(torch.ones_like(x[..., :1]))
        out: Tensor = self.hook_normalized(x / scale)
        return out


class MaskingTransformer(HookedTransformer):  # type: ignore[misc]
    """A HookedTransformer that attends to what our classifier attends to, whatever was run before.

    Like `exported_bridge.MaskingModel`, it takes `tokens=` or `attention_mask=` with
    `start_at_layer`.
    """

    def __init__(self, cfg: Any, config: ClassifierConfig) -> None:
        super().__init__(cfg)
        self.classifier_config = config
        for layer, block in enumerate(self.blocks):
            kind = MaskedGroupedAttention if config.grouped else MaskedAttention
            block.attn = kind(self.cfg, "global", layer)
        self._without_final_norm()

    def input_to_embed(self, input: Any, *args: Any, **options: Any) -> tuple[Any, ...]:
        # The mask is not passed on: TransformerLens would count positions from its first 1.
        mask = options.pop("attention_mask", None)
        residual, tokens, positions, _ = super().input_to_embed(input, *args, **options)
        return residual, tokens, positions, self._attended(tokens, mask)

    def forward(
        self,
        input: Any,
        *args: Any,
        start_at_layer: int | None = None,
        tokens: Tensor | None = None,
        attention_mask: Tensor | None = None,
        **options: Any,
    ) -> Any:
        if start_at_layer is not None:
            if tokens is None and attention_mask is None:
                raise UsageError(TOKENS_NEEDED)
            if tokens is not None:
                attention_mask = self._attended(tokens, attention_mask)
        return super().forward(
            input,
            *args,
            start_at_layer=start_at_layer,
            tokens=tokens,
            attention_mask=attention_mask,
            **options,
        )

    def run_with_cache(
        self,
        *args: Any,
        return_cache_object: bool = True,
        remove_batch_dim: bool = False,
        **options: Any,
    ) -> tuple[Any, Any]:
        """TransformerLens's, with a cache that knows whether there is a final norm."""
        out, cache = super().run_with_cache(
            *args, return_cache_object=False, remove_batch_dim=remove_batch_dim, **options
        )
        if not return_cache_object:
            return out, cache
        return out, ClassifierCache(cache, self, has_batch_dim=not remove_batch_dim)

    def load_and_process_state_dict(self, state_dict: Any, **options: Any) -> None:
        """TransformerLens's. Without a final norm none is put there with the folding of the others,
        and what writes into the residual stream is not centred, because all of it is read."""
        if self._reads_residual:
            options["center_writing_weights"] = False
        super().load_and_process_state_dict(state_dict, **options)
        self._without_final_norm()

    @property
    def _reads_residual(self) -> bool:
        return self.classifier_config.has_norm and not self.classifier_config.final_norm

    def _without_final_norm(self) -> None:
        if self._reads_residual:
            self.ln_final = NoFinalNorm()
        self.setup()

    def _attended(self, tokens: Tensor, mask: Tensor | None) -> Tensor:
        attended = from_tokens(self.classifier_config, tokens).multiplicity
        return attended if mask is None else attended * mask.to(attended)


def hooked_transformer(config: ClassifierConfig, cfg: Any, state: dict[str, Tensor]) -> Any:
    """A `HookedTransformer` with these weights."""
    built = MaskingTransformer(cfg, config)
    if config.grouped:  # kept under names of their own there
        shared = ("attn.W_K", "attn.W_V", "attn.b_K", "attn.b_V")
        state = {
            name.replace("attn.", "attn._") if name.endswith(shared) else name: weight
            for name, weight in state.items()
        }
    missing, unexpected = built.load_state_dict(state, strict=False)
    fixed = (".mask", ".IGNORE", ".rotary_sin", ".rotary_cos")
    absent = [name for name in missing if not name.endswith(fixed)]
    if absent or unexpected:  # a TransformerLens that names its weights otherwise
        raise UsageError(f"the export does not fit this TransformerLens: {absent} {unexpected}")
    return built.eval()
