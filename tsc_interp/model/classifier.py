"""The classifier as a torch module, without hooks: what analyses run when nobody needs hooks.

It needs torch and nothing else. `hooked.py` makes a TransformerLens model of it; importing that
takes seconds, so whatever only reads activations or replaces a few works on this class as well: it
has `run_with_cache` and `run_with_hooks` in their plainest form, under the same names.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from tsc_interp.arguments import checked
from tsc_interp.checkpoints.checkpoint import Checkpoint
from tsc_interp.checkpoints.resolve import ModelLike, as_checkpoint
from tsc_interp.checkpoints.safe import require_names
from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import CheckpointError, UnsupportedError, UsageError
from tsc_interp.model.forward import forward
from tsc_interp.model.initialise import initial_weights
from tsc_interp.model.inputs import Inputs, from_counts, from_strings, from_tokens, token_rows
from tsc_interp.model.layers import Tap, untapped
from tsc_interp.model.parts import Component, place
from tsc_interp.model.stacked import StackedWeights
from tsc_interp.model.unaltered import require_own
from tsc_interp.strings import as_strings

Input = str | Sequence[str] | Tensor | Inputs
NamesFilter = Callable[[str], bool] | Container[str] | None
Hook = tuple[str, Callable[[Tensor, Any], Tensor | None]]


class Classifier(StackedWeights):
    """One classifier, or an ensemble, whose weights and activations have leading axes.

    `model(x)`, `run_with_cache` and `run_with_hooks` accept

    - a string or a list of strings in run-length notation, run in compressed form when exact;
    - token ids `[batch pos]` or `[pos]`, an integer tensor whose rows begin with CLS;
    - `model.counts(array)` or `model.compressed(strings)`, letter counts `[batch letter]`.
    """

    @checked
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
        self.source = name
        self._loaded: Checkpoint | None = None
        self.cfg: Any = config
        """Sizes under the name TransformerLens users know: `cfg.n_layers`, `cfg.d_model`, ..."""
        given = initial_weights(config, seed) if weights is None else weights
        self.ensemble_shape = _check_shapes(config, given)
        self.blocks = nn.ModuleList(Component(config) for _ in range(config.n_layers))
        for path in config.weight_shapes():
            parent, leaf = place(self, config, path)
            weight = torch.as_tensor(given[path]).detach().clone()
            parent.register_parameter(leaf, nn.Parameter(weight))
        place(self, config, "unembed.W_U")  # a part without weights where embeddings are tied
        self.eval()

    @classmethod
    def from_checkpoint(cls, checkpoint: Checkpoint) -> Self:
        """Return the model with the weights of a checkpoint."""
        model = cls(checkpoint.config, checkpoint.weights, name=checkpoint.source)
        model._loaded = checkpoint
        return model

    def to_checkpoint(self, provenance: Mapping[str, Any] | None = None) -> Checkpoint:
        """Return its configuration and weights as a checkpoint.

        Args:
            provenance: Where the weights come from; by default what the checkpoint said that they
                were loaded from, as long as they are the same.

        Raises:
            UnsupportedError: Its weights do not say what it computes: it has hooks, replaced
                methods, weights that are not float32, or tensors of a class of its own.
        """
        if self.ensemble_shape:
            raise UsageError("a checkpoint holds one model; take one member of the ensemble first")
        self._require_weights()
        require_own(self)
        arrays = {name: p.detach().cpu().numpy().copy() for name, p in self.named_parameters()}
        if provenance is None and self._loaded is not None:
            loaded = self._loaded.weights
            unchanged = all(np.array_equal(array, loaded[name]) for name, array in arrays.items())
            provenance = self._loaded.provenance if unchanged else None
        return Checkpoint(self.config, arrays, provenance or {}, source=self.source)

    # -- running -----------------------------------------------------------------------------

    def forward(self, input: Input) -> Tensor:
        """Return logits `[batch]`, after the ensemble axes if there are any."""
        return self._logits(self.inputs(input), untapped)

    def run_with_cache(
        self,
        input: Input,
        *,
        names_filter: NamesFilter = None,
        return_cache_object: bool = False,  # there is no cache object here; accepted for its name
    ) -> tuple[Tensor, Any]:
        """Return logits, and the activations that `names_filter` selects, by hook name."""
        cache: dict[str, Tensor] = {}

        def keep(name: str, activation: Tensor) -> Tensor:
            if _wanted(names_filter, name):
                cache[name] = activation.detach()
            return activation

        return self._logits(self.inputs(input), keep), cache

    def run_with_hooks(self, input: Input, *, fwd_hooks: Sequence[Hook] = ()) -> Tensor:
        """Return logits, with each named activation replaced by its hook's result if not None."""
        hooks: dict[str, list[Any]] = {}
        for name, function in fwd_hooks:
            hooks.setdefault(name, []).append(function)

        def edit(name: str, activation: Tensor) -> Tensor:
            for function in hooks.pop(name, ()):
                edited = function(activation, hook=SimpleNamespace(name=name))
                activation = activation if edited is None else edited
            return activation

        logits = self._logits(self.inputs(input), edit)
        if hooks:
            raise UsageError(f"this model has no activation {', '.join(sorted(hooks))}")
        return logits

    def _logits(self, inputs: Inputs, tap: Tap) -> Tensor:
        self._check_dropout(inputs)
        weights = dict(self.named_parameters())
        return forward(self.config, weights, inputs, tap=tap, training=self.training)

    def _require_weights(self) -> None:
        if any(parameter.is_meta for parameter in self.parameters()):
            raise UsageError(
                "the model is on the meta device, where weights have no values: load it again, or "
                "give it weights with model.to_empty(device='cpu') and load_state_dict"
            )

    def _check_dropout(self, inputs: Inputs) -> None:
        if self.training and self.config.dropout and inputs.compressed:
            raise UnsupportedError(
                "dropout treats copies of a letter differently, so training with it needs tokens "
                "(model.tokens(strings)); in eval mode compressed strings are exact"
            )

    # -- inputs ------------------------------------------------------------------------------

    def inputs(self, x: Input) -> Inputs:
        """Return strings, counts or tokens as the inputs of the forward pass."""
        self._require_weights()
        if isinstance(x, Inputs):
            return x
        if isinstance(x, Tensor):
            return from_tokens(self.config, x)
        return from_strings(self.config, as_strings(x))

    def counts(self, counts: Tensor | np.ndarray) -> Inputs:
        """Return letter counts `[batch letter]` as an input of the model."""
        return from_counts(self.config, counts)

    def compressed(self, strings: str | Sequence[str]) -> Inputs:
        """Return strings as letter counts; a model with positions raises an error."""
        return self.counts(self.config.alphabet.count_matrix(as_strings(strings)))

    def tokens(self, strings: str | Sequence[str]) -> Tensor:
        """Return strings as token ids `[batch pos]`, in the format that this model reads."""
        return torch.from_numpy(token_rows(self.config, as_strings(strings)))


def open_classifier(model: ModelLike) -> Classifier:
    """Whatever stands for a model, ready to run: itself if it can run, else without hooks."""
    if isinstance(model, Classifier):
        return model
    return Classifier.from_checkpoint(as_checkpoint(model))


def _wanted(names_filter: NamesFilter, name: str) -> bool:
    if names_filter is None:
        return True
    if isinstance(names_filter, str):
        return name == names_filter
    return names_filter(name) if callable(names_filter) else name in names_filter


def _check_shapes(
    config: ClassifierConfig, weights: Mapping[str, Tensor | np.ndarray]
) -> tuple[int, ...]:
    """The ensemble axes all weights share, after checking every name and shape."""
    expected = config.weight_shapes()
    require_names(expected, weights)
    leading = set()
    for name, shape in expected.items():
        got = tuple(weights[name].shape)
        if got[len(got) - len(shape) :] != shape:
            raise CheckpointError(f"{name} has shape {list(got)}, expected {list(shape)}")
        leading.add(got[: len(got) - len(shape)])
    if len(leading) > 1:
        raise CheckpointError(f"weights disagree about ensemble axes: {sorted(leading)}")
    return leading.pop()
