"""One forward pass for a probe: our classifier on strings, any TransformerLens model on tokens.

Whatever differs between the two kinds is settled here, so that a probe is written once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import UnsupportedError, UsageError
from tsc_interp.strings import CLS, FIRST_LETTER

if TYPE_CHECKING:
    from torch import Tensor

    from tsc_interp.model.inputs import Inputs

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Pass:
    """One forward pass: what went in, and every activation."""

    rows: tuple[str, ...]
    """What to call each row: the string, or `row 0`."""
    tokens: NDArray[np.int64]
    """`[row position]`."""
    multiplicity: Floats
    """`[row position]`: how many copies of the token stand there; 0 is masked."""
    score_factor: Floats
    """`[row]`: log n where scores grow with length, else 1."""
    query: int
    cache: Any
    config: ClassifierConfig | None
    """Of our own classifier; None for any other model."""
    token_names: Sequence[str] | None

    def activation(self, name: str) -> Floats:
        return as_array(self.cache[name])

    def names(self, tokens: Sequence[int] | NDArray[np.int64]) -> tuple[str, ...]:
        names = self.config.alphabet.token_names if self.config else self.token_names
        return tuple(str(token) if names is None else names[token] for token in tokens)


def start(
    model: Any,
    strings: Sequence[str] | Tensor,
    *,
    query: int | None = None,
    token_names: Sequence[str] | None = None,
) -> Pass:
    """Run the model once and keep its activations.

    `query` defaults to CLS for our classifier and to the last position otherwise; `token_names[i]`
    names token i of another model, which is otherwise called by its number.
    """
    import torch

    config = classifier_config(model)
    if isinstance(strings, str) or len(strings) == 0:
        raise UsageError("a probe needs a list of one or more strings (or rows of token ids)")
    if not hasattr(model, "run_with_cache"):
        raise UnsupportedError(
            f"a model with TransformerLens's run_with_cache is needed, not {type(model).__name__}"
        )
    if config is None:
        if (
            not isinstance(strings, torch.Tensor)
            or strings.ndim != 2
            or strings.is_floating_point()
        ):
            raise UsageError(
                "a TransformerLens model is probed on token ids, a whole-number tensor [batch pos]"
            )
        rows = tuple(f"row {row}" for row in range(len(strings)))
        tokens, multiplicity = strings.cpu().numpy(), np.ones(strings.shape)
        factor = np.ones(len(strings))
    else:
        rows = tuple(config.alphabet.canonical(string) for string in strings)
        inputs = model.inputs(strings)
        tokens, multiplicity = inputs.tokens.numpy(), as_array(inputs.multiplicity)
        factor = score_factor(config, as_array(inputs.lengths))
    at = _position(query, tokens.shape[1], default=-1 if config is None else 0)
    with torch.no_grad():
        cache = model.run_with_cache(strings)[1]
    return Pass(rows, tokens, multiplicity, factor, at, cache, config, token_names)


def compact(config: ClassifierConfig, counts: Floats) -> Inputs:
    """Counts `[batch letter]`, real ones too, as an input without the letters that nowhere occur.

    The same logits as the full form, with positions only for CLS and the letters that matter.
    """
    import torch

    from tsc_interp.model.inputs import Inputs

    present = np.flatnonzero(counts.any(axis=0))
    tokens = torch.tensor([CLS, *(FIRST_LETTER + present).tolist()]).expand(len(counts), -1)
    multiplicity = np.insert(counts[:, present].astype(np.float64), 0, config.attend_cls, axis=1)
    lengths = torch.from_numpy(counts.sum(axis=1))
    return Inputs(tokens, torch.from_numpy(multiplicity), lengths, compressed=True)


def logits_of(model: Any, counts: Floats) -> Floats:
    """Our float32 model's logits for whole counts `[batch letter]`."""
    import torch

    config: ClassifierConfig = model.config
    with torch.no_grad():
        if config.has_positions:
            return as_array(model([config.alphabet.write(row) for row in counts.astype(int)]))
        return as_array(model(compact(config, counts)))


def score_factor(config: ClassifierConfig, lengths: Floats) -> Floats:
    """What scores are multiplied by in strings of these lengths."""
    grows = config.log_n
    return np.log(lengths) if grows else np.ones(len(lengths))


def classifier_config(model: Any) -> ClassifierConfig | None:
    """The configuration of our own classifier; None for any other TransformerLens model."""
    config = getattr(model, "config", None)
    if not isinstance(config, ClassifierConfig):
        return None
    if model.ensemble_shape:
        raise UnsupportedError(
            f"this model is an ensemble of shape {list(model.ensemble_shape)}; "
            "a probe looks at one model, so pass one member"
        )
    return config


def need_classifier(model: Any, probe: str) -> ClassifierConfig:
    """For the probes that ask about labels, which only our classifier has."""
    config = classifier_config(model)
    if config is None:
        raise UnsupportedError(
            f"the {probe} probe asks about a task's labels, so it needs a tsc-interp classifier, "
            f"not a {type(model).__name__}"
        )
    return config


def readout_direction(model: Any, direction: ArrayLike | Tensor | None) -> Floats | None:
    """A vector in residual space: the one given, or our classifier's own, or none."""
    if direction is None:
        return None if classifier_config(model) is None else as_array(model.W_U)[:, 0]
    vector = as_array(direction)
    if vector.shape != (model.cfg.d_model,):
        raise UsageError(
            f"the read-out direction must have shape [{model.cfg.d_model}] (d_model); "
            f"got {list(vector.shape)}"
        )
    return vector


def chosen_layers(model: Any, layer: int | None) -> list[int]:
    count = model.cfg.n_layers
    if layer is None:
        return list(range(count))
    if not -count <= layer < count:
        raise UsageError(f"layer {layer} does not exist; the model has layers 0 to {count - 1}")
    return [layer % count]


def as_array(tensor: Any) -> Floats:
    if hasattr(tensor, "detach"):
        tensor = tensor.detach().cpu().numpy()
    return np.asarray(tensor, dtype=np.float64)


def _position(query: int | None, width: int, default: int) -> int:
    at = default if query is None else query
    if not -width <= at < width:
        raise UsageError(f"query position {at} is outside the {width} positions of the input")
    return at % width
