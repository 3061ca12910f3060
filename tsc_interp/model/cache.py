"""TransformerLens's `ActivationCache` for a model whose read-out may have no norm in front.

TransformerLens knows two kinds of models: with norms everywhere, the last one before the read-out,
or with none. A classifier's blocks may have norms and its read-out none, so where a stack is
prepared for such a read-out (`apply_ln` at the final layer, `logit_attrs`) it is left as it is.
"""

from __future__ import annotations

from typing import Any

import torch
from einops import rearrange
from torch import Tensor
from transformer_lens import ActivationCache

from tsc_interp.errors import UnsupportedError
from tsc_interp.model.interop import utility


class ClassifierCache(ActivationCache):  # type: ignore[misc]
    def apply_ln_to_stack(
        self,
        residual_stack: Tensor,
        layer: int | None = None,
        mlp_input: bool = False,
        pos_slice: Any = None,
        batch_slice: Any = None,
        has_batch_dim: bool = True,
        **options: Any,
    ) -> Tensor:
        if not self._is_final(layer):
            stack: Tensor = super().apply_ln_to_stack(
                residual_stack, layer, mlp_input, pos_slice, batch_slice, has_batch_dim, **options
            )
            return stack
        Slice = utility("Slice")
        chosen = batch_slice if isinstance(batch_slice, Slice) else Slice(batch_slice)
        sliced: Tensor = chosen.apply(residual_stack, dim=1) if has_batch_dim else residual_stack
        return sliced

    def logit_lens(self, **options: Any) -> Any:
        """TransformerLens 4's, read at CLS in front unless `positions` says otherwise."""
        if not hasattr(ActivationCache, "logit_lens"):
            raise UnsupportedError(
                "this TransformerLens has no logit_lens; model.unembed(cache.accumulated_resid()) "
                "gives the same numbers"
            )
        front = {} if self.model.config.causal else {"positions": 0}
        return super().logit_lens(**{**front, **options})

    def _stack_neuron_results_apply_ln_projected(
        self, layer: int, pos_slice: Any, neuron_slice: Any, project_2d: Tensor, **options: Any
    ) -> Tensor:
        if not self._is_final(layer):
            stack: Tensor = super()._stack_neuron_results_apply_ln_projected(
                layer, pos_slice, neuron_slice, project_2d, **options
            )
            return stack
        of_layers = [
            self.get_neuron_results(
                index, neuron_slice, pos_slice=pos_slice, project_output_onto=project_2d
            )
            for index in range(layer)
        ]
        return rearrange(torch.cat(of_layers, dim=-2), "... neuron out -> neuron ... out")

    def _is_final(self, layer: int | None) -> bool:
        """Whether a stack is prepared for a read-out without a norm."""
        config = getattr(self.model, "classifier_config", None) or self.model.config
        return layer in (None, -1, self.model.cfg.n_layers) and not config.final_norm
