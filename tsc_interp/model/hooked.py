"""The classifier as TransformerLens users know a model: hooks, caches, `W_Q` with a layer axis.

A `HookedRootModule` whose hook names, weight names and shapes are HookedTransformer's. It holds no
arithmetic: `forward` runs `model.forward.forward` with every activation passed through its hook
point, so an edit at any hook takes effect downstream and nowhere else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn
from transformer_lens import ActivationCache, FactoredMatrix
from transformer_lens.hook_points import HookPoint

from tsc_interp.checkpoints.format import Checkpoint
from tsc_interp.checkpoints.locate import DEFAULT, load_checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import CheckpointError, UnsupportedError, UsageError
from tsc_interp.model.forward import forward, hook_names
from tsc_interp.model.initialise import initial_weights
from tsc_interp.model.inputs import Inputs, from_counts, from_strings, from_tokens
from tsc_interp.model.interop import transformer_lens_config, untangle_state_dict

try:  # 4.x names the class at the top level, 3.x keeps it beside the hook points
    from transformer_lens import HookedRootModule
except ImportError:
    from transformer_lens.hook_points import HookedRootModule

Input = str | Sequence[str] | Tensor | Inputs


class _Part(nn.Module):
    """A named place in the tree, such as `blocks.0.attn`, holding weights and hook points."""


class HookedClassifier(HookedRootModule):  # type: ignore[misc]
    """One classifier, or an ensemble: weights may carry leading axes, and so then do activations.

    `model(x)` and everything built on it (`run_with_cache`, `run_with_hooks`, `hooks`) accept

    - a string or a list of strings in run-length notation, run in compressed form when exact;
    - token ids `[batch pos]`, an integer tensor whose rows begin with CLS;
    - `model.counts(array)` or `model.compressed(strings)`, letter counts `[batch letter]`.
    """

    def __init__(
        self,
        config: ClassifierConfig,
        weights: Mapping[str, Tensor | np.ndarray] | None = None,
        *,
        seed: int = 0,
        name: str = "tsc-classifier",
    ) -> None:
        super().__init__()
        self.config = config
        self.cfg = transformer_lens_config(config)
        self.cfg.model_name = name
        # Caches ask the model for a tokenizer before they decode; strings are read by `inputs`.
        self.tokenizer = None
        given = initial_weights(config, seed) if weights is None else weights
        self.ensemble_shape = _check_shapes(config, given)
        self.blocks = nn.ModuleList(_Part() for _ in range(config.n_layers))
        for path in config.weight_shapes():
            parent, leaf = self._place(path)
            parent.register_parameter(leaf, nn.Parameter(_copy(given[path])))
        for path in hook_names(config):
            parent, leaf = self._place(path)
            parent.add_module(leaf, HookPoint())
        self.setup()
        self.eval()

    @classmethod
    def from_checkpoint(cls, checkpoint: Checkpoint) -> Self:
        return cls(checkpoint.config, checkpoint.weights, name=checkpoint.source)

    @classmethod
    def from_state_dict(cls, config: ClassifierConfig, state: Mapping[str, Tensor]) -> Self:
        """HookedTransformer-style keys; its biases and buffers are accepted where they are zero."""
        return cls(config, untangle_state_dict(config, state))

    def to_checkpoint(self, provenance: Mapping[str, Any] | None = None) -> Checkpoint:
        if self.ensemble_shape:
            raise UsageError("a checkpoint holds one model; take one member of the ensemble first")
        arrays = {name: p.detach().float().numpy().copy() for name, p in self.named_parameters()}
        return Checkpoint(self.config, arrays, provenance or {}, source=str(self.cfg.model_name))

    # -- running -----------------------------------------------------------------------------

    def forward(self, x: Input) -> Tensor:
        """Logits `[batch]`, behind the ensemble axes if there are any."""
        given = self.inputs(x)
        if self.training and self.config.dropout and given.compressed:
            raise UnsupportedError(
                "dropout treats copies of a letter differently, so training with it needs tokens "
                "(model.tokens(strings)); in eval mode compressed strings are exact"
            )
        return forward(
            self.config,
            dict(self.named_parameters()),
            given,
            tap=lambda name, activation: self.hook_dict[name](activation),
            training=self.training,
            with_result=bool(self.cfg.use_attn_result),
        )

    def run_with_cache(
        self,
        *args: Any,
        return_cache_object: bool = True,
        remove_batch_dim: bool = False,
        **kwargs: Any,
    ) -> tuple[Tensor, ActivationCache | dict[str, Tensor]]:
        out, cache = super().run_with_cache(*args, remove_batch_dim=remove_batch_dim, **kwargs)
        if not return_cache_object:
            return out, cache
        return out, ActivationCache(cache, self, has_batch_dim=not remove_batch_dim)

    def set_use_attn_result(self, use: bool) -> None:
        """Whether `hook_result` fires: each head's own contribution, an extra activation."""
        self.cfg.use_attn_result = use

    def inputs(self, x: Input) -> Inputs:
        if isinstance(x, Inputs):
            return x
        if isinstance(x, Tensor):
            return from_tokens(self.config, x)
        return from_strings(self.config, x)

    def counts(self, counts: Tensor | np.ndarray) -> Inputs:
        """Letter counts `[batch letter]` as an input."""
        return from_counts(self.config, counts)

    def compressed(self, strings: str | Sequence[str]) -> Inputs:
        """Strings in compressed form, refused for a model with positions."""
        texts = [strings] if isinstance(strings, str) else list(strings)
        return self.counts(self.config.alphabet.count_matrix(texts))

    def tokens(self, strings: str | Sequence[str]) -> Tensor:
        """Strings as token ids `[batch pos]`."""
        texts = [strings] if isinstance(strings, str) else list(strings)
        return torch.from_numpy(self.config.alphabet.tokens(texts))

    def to_tokens(self, strings: str | Sequence[str], **_: Any) -> Tensor:
        """TransformerLens's name for `tokens`."""
        return self.tokens(strings)

    def to_transformer_lens(self, n_ctx: int = 256) -> Any:
        """This model as a `TransformerBridge` (4.x) or `HookedTransformer` (3.x)."""
        from tsc_interp.model.interop import export

        return export(self, n_ctx)

    # -- weights, stacked over layers as in TransformerLens -----------------------------------

    @property
    def W_E(self) -> Tensor:
        return self._weight("embed.W_E")

    @property
    def W_pos(self) -> Tensor:
        return self._weight("pos_embed.W_pos")

    @property
    def W_U(self) -> Tensor:
        return self._weight("unembed.W_U")

    @property
    def W_Q(self) -> Tensor:
        return self._stacked("attn.W_Q")

    @property
    def W_K(self) -> Tensor:
        return self._stacked("attn.W_K")

    @property
    def W_V(self) -> Tensor:
        return self._stacked("attn.W_V")

    @property
    def W_O(self) -> Tensor:
        return self._stacked("attn.W_O")

    @property
    def W_in(self) -> Tensor:
        return self._stacked("mlp.W_in")

    @property
    def W_out(self) -> Tensor:
        return self._stacked("mlp.W_out")

    @property
    def QK(self) -> FactoredMatrix:
        return FactoredMatrix(self.W_Q, self.W_K.transpose(-2, -1))

    @property
    def OV(self) -> FactoredMatrix:
        return FactoredMatrix(self.W_V, self.W_O)

    def _weight(self, name: str) -> Tensor:
        weight: Tensor = self.get_parameter(name)
        return weight

    def _stacked(self, name: str) -> Tensor:
        """`[..., layer, head, ...]`: the layer axis stands behind ensemble axes, if any."""
        if name.startswith("attn") and not self.config.has_attention:
            raise UnsupportedError("this model has no attention (n_heads = 0)")
        if name.startswith("mlp") and not self.config.has_mlp:
            raise UnsupportedError("this model has no MLP (d_mlp = 0)")
        layers = [self._weight(f"blocks.{i}.{name}") for i in range(self.config.n_layers)]
        return torch.stack(layers, dim=len(self.ensemble_shape))

    def _place(self, path: str) -> tuple[nn.Module, str]:
        """The module that `path`'s last part belongs to, made on the way if need be."""
        *parents, leaf = path.split(".")
        module: nn.Module = self
        for part in parents:
            if part not in module._modules:
                module.add_module(part, _Part())
            module = module.get_submodule(part)
        return module, leaf


def _copy(weight: Tensor | np.ndarray) -> Tensor:
    return torch.as_tensor(weight).detach().clone()


def _check_shapes(
    config: ClassifierConfig, weights: Mapping[str, Tensor | np.ndarray]
) -> tuple[int, ...]:
    """The ensemble axes all weights share, after checking every name and shape."""
    expected = config.weight_shapes()
    if weights.keys() != expected.keys():
        wrong = sorted(weights.keys() ^ expected.keys())
        raise CheckpointError(f"weights do not fit the configuration; check {', '.join(wrong)}")
    leading = set()
    for name, shape in expected.items():
        got = tuple(weights[name].shape)
        if got[len(got) - len(shape) :] != shape:
            raise CheckpointError(f"{name} has shape {list(got)}, expected {list(shape)}")
        leading.add(got[: len(got) - len(shape)])
    if len(leading) > 1:
        raise CheckpointError(f"weights disagree about ensemble axes: {sorted(leading)}")
    return leading.pop()


def load(where: str | PathLike[str] = DEFAULT, *, epoch: int | None = None) -> HookedClassifier:
    """The hooked model behind a bundled name, a `.safetensors` file, or a run directory."""
    return HookedClassifier.from_checkpoint(load_checkpoint(where, epoch=epoch))
