"""The exported classifier for TransformerLens 4.x: its native model, which knows what is masked."""

from __future__ import annotations

from functools import partial
from typing import Any

from torch import Tensor, nn
from torch.nn import functional
from transformer_lens.model_bridge.sources._bridge_builder import build_bridge_from_module
from transformer_lens.model_bridge.sources.native import NativeModel
from transformer_lens.utilities.tl_checkpoint_conversion import convert_tl_checkpoint

from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import UsageError
from tsc_interp.model.inputs import TOKENS_NEEDED, from_tokens

_ARCHITECTURE = "TransformerLensNative"


class MaskingModel(NativeModel):  # type: ignore[misc]
    """TransformerLens's native model, attending to what our classifier attends to.

    Which positions those are is read off the tokens in every call, so nothing is remembered. A call
    that begins with a residual stream (`start_at_layer`) has to say it: `tokens=` or
    `attention_mask=` (1 for what is attended to).
    """

    def __init__(self, cfg: Any, config: ClassifierConfig) -> None:
        super().__init__(cfg)
        self.classifier_config = config
        if not config.final_norm:
            self.ln_out = nn.Identity()
        if config.act_fn == "gelu_new" and config.has_mlp:
            for block in self.layers:
                # The same function as a lambda there, which could not be pickled.
                block.mlp.act = partial(functional.gelu, approximate="tanh")

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        tokens: Tensor | None = None,
        **options: Any,
    ) -> Tensor:
        seen = input_ids if input_ids is not None else tokens
        if seen is not None:
            attended = from_tokens(self.classifier_config, seen).multiplicity.long()
            attention_mask = attended if attention_mask is None else attended * attention_mask
        elif attention_mask is None:
            raise UsageError(TOKENS_NEEDED)
        logits: Tensor = super().forward(
            input_ids, attention_mask, position_ids, inputs_embeds, **options
        )
        return logits


def bridge(config: ClassifierConfig, cfg: Any, state: dict[str, Tensor]) -> Any:
    """A `TransformerBridge` around it, with these weights."""
    cfg.architecture = _ARCHITECTURE
    built = build_bridge_from_module(
        MaskingModel(cfg, config), architecture=_ARCHITECTURE, tl_config=cfg, model_name="tsc"
    )
    built.load_state_dict(convert_tl_checkpoint(state, cfg), strict=True)
    if config.has_norm and not config.final_norm:
        # The path on which a bridge lets an identity pass, and says that its scale is 1.
        built.ln_final.use_native_layernorm_autograd = True
    return built.eval()
