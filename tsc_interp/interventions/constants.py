"""What an intervention makes of an activation, found by running the model as it is.

Where order does not matter (our classifier without positions) a position is a kind of token: CLS,
or a letter. Its constant is then looked up by token, whatever strings are run. Everywhere else it
belongs to a position, and strings have to be of one length.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from tsc_interp.errors import ConfigError, UnsupportedError, UsageError
from tsc_interp.interventions.changes import (
    Like,
    Mean,
    Noise,
    Patch,
    Resample,
    Scale,
    Set,
    Zero,
)
from tsc_interp.interventions.intervention import Intervention
from tsc_interp.interventions.parts import Direction, Edge, Part
from tsc_interp.model.inputs import Inputs
from tsc_interp.strings import CLS


class Runs:
    """A model and an input to run it on, with what it takes to name tokens and positions."""

    def __init__(self, model: Any, input: Any, token_names: Sequence[str] | None = None) -> None:
        self.model, self.input = model, input
        self.cfg = model.cfg
        self.config = getattr(model, "config", None) if hasattr(model, "inputs") else None
        if self.config is not None:
            self.inputs: Inputs | None = model.inputs(input)
            self.tokens = self.inputs.tokens
            self.present = (self.inputs.multiplicity > 0) | (self.tokens == CLS)
            token_names = self.config.alphabet.token_names
        else:
            if not isinstance(input, Tensor) or input.ndim != 2 or input.is_floating_point():
                raise UsageError(
                    "a TransformerLens model is run on token ids, a whole-number tensor [batch pos]"
                )
            self.inputs, self.tokens = None, input
            self.present = torch.ones_like(input, dtype=torch.bool)
        self.token_names = token_names
        self._others: dict[str | tuple[int, ...], Any] = {}

    @property
    def compressed(self) -> bool:
        """Whether a position is a kind of token and not a place in the string."""
        return self.inputs is not None and self.inputs.compressed

    @property
    def by_token(self) -> bool:
        """Whether a token's activations do not depend on where it stands."""
        return self.config is not None and not self.config.has_positions

    def token(self, letter: str) -> int:
        if self.token_names is not None and letter in self.token_names:
            return list(self.token_names).index(letter)
        if self.config is not None and letter in self.config.called:  # by its own name
            return int(self.config.called.index(letter))
        if self.token_names is None and letter.isdigit():
            return int(letter)
        known = "ids, as in key[17]" if self.token_names is None else ", ".join(self.token_names)
        raise ConfigError(f"no token is called {letter!r}; tokens are {known}")

    def activation(self, hook: str, input: Any = None) -> Tensor:
        """`hook`'s activation, of the model as it is."""
        with torch.no_grad():
            cache = self.model.run_with_cache(
                self.input if input is None else input, names_filter=lambda name: name == hook
            )[1]
        if hook not in cache:
            raise UnsupportedError(f"this model has no activation {hook}")
        activation: Tensor = cache[hook].detach()
        return activation

    def there(self, source: str | tuple[int, ...]) -> Any:
        """Every activation of the run on another string, position by position like this one's."""
        if source not in self._others:
            self._others[source] = self._read(source)
        return self._others[source]

    def _read(self, source: str | tuple[int, ...]) -> Any:
        if isinstance(source, str):
            if self.config is None:
                raise UsageError("a model run on token ids takes patch() from a row of token ids")
            other = self.model.inputs([source] if self.compressed else self.model.tokens([source]))
            width = other.tokens.shape[1]
        else:
            other, width = torch.tensor([source]), len(source)
        same = width == self.tokens.shape[1]
        if not same or not (self.compressed or bool(self.present.all())):
            raise UsageError(
                f"patch({source}): {width} positions, but the other run has "
                f"{self.tokens.shape[1]}; where a position is a place in the string, both must be "
                "of one length"
            )
        with torch.no_grad():
            return self.model.run_with_cache(other)[1]

    def elsewhere(self, strings: Sequence[str]) -> Runs:
        if self.config is None:
            raise UsageError("a model run on token ids takes its mean over those; name no strings")
        return Runs(self.model, list(strings))


def changing(runs: Runs, wanted: Intervention) -> Callable[[Tensor], Tensor]:
    """The function from a part's activation to what it is changed into, at every position."""
    where, how = wanted.place, wanted.change
    if isinstance(where, Edge):
        where = where.source
    if isinstance(how, Scale):
        return lambda activation: activation * how.factor
    if isinstance(how, Noise):
        return lambda activation: noisy(runs, activation, how)
    new = _constant(runs, wanted, where)
    return lambda activation: new.to(activation.dtype)


def _constant(runs: Runs, wanted: Intervention, where: Part | Direction) -> Tensor:
    """The new activation at each position of the input, `[... batch pos ...]`."""
    how = wanted.change
    if isinstance(how, Zero):
        return torch.zeros(())
    if isinstance(how, Set):
        return torch.tensor(given_vector(runs.cfg, wanted, where), dtype=torch.float64)
    if isinstance(how, Resample):
        return _resampled(runs, where.hook, how.seed)
    if isinstance(how, Patch):
        cache = runs.there(how.source)
        if where.hook not in cache:
            raise UnsupportedError(f"{wanted}: this model has no activation {where.hook}")
        activation: Tensor = cache[where.hook].detach()
        return activation
    if isinstance(how, Like):
        return _of_letter(runs, where, how.letter)
    assert isinstance(how, Mean)
    if isinstance(where, Part) and where.kind in ("pattern", "score"):
        raise UnsupportedError(
            f"{wanted}: which letters there are differs between strings, so attention weights "
            "have no mean; use patch, zero, scale or resample, or change keys"
        )
    source = runs.elsewhere(how.strings) if how.strings else runs
    return _average(runs, source, where, wanted)


def only_read(cfg: Any, where: Part | Direction) -> bool:
    """Whether a part of the last layer is heard at the position that is read, and nowhere else."""
    late = where.hook.endswith(
        ("hook_z", "attn_out", "resid_mid", "hook_post", "mlp_out", "resid_post")
    )
    return late and where.layer == cfg.n_layers - 1


def given_vector(cfg: Any, wanted: Intervention, where: Part | Direction) -> tuple[float, ...]:
    """The numbers of a `set`, as many as the part has."""
    assert isinstance(wanted.change, Set)
    kind = where.kind if isinstance(where, Part) else where.site
    if kind in ("pattern", "score"):
        raise UnsupportedError(f"{wanted}: a {kind} has as many numbers as positions; use patch")
    in_head = kind in ("head", "query", "key", "value")
    size = cfg.d_head if in_head else 1 if kind == "neuron" else cfg.d_model
    if len(wanted.change.vector) != size:
        raise UsageError(f"{wanted}: {len(wanted.change.vector)} numbers, but {kind} has {size}")
    return wanted.change.vector


def _table(there: Runs, hook: str) -> tuple[Tensor, Tensor]:
    """`[vocab ...]`: the average per kind of token, and `[vocab]` how many strings have it."""
    activation = there.activation(hook)
    vocab = there.config.alphabet.vocab_size if there.config else int(there.tokens.max()) + 1
    batch = activation.shape[: there.tokens.ndim]
    if tuple(batch) != tuple(there.tokens.shape):
        raise UnsupportedError("means are taken of one model at a time, not of an ensemble")
    if hook.endswith(("hook_k", "hook_v")):
        return _mean_letter(there, activation, vocab)
    # One vote per string and kind of token, however often the string has it.
    flat = there.tokens[there.present]
    votes = torch.zeros(vocab, dtype=torch.float64).index_add_(
        0, flat, torch.ones(len(flat), dtype=torch.float64)
    )
    sums = torch.zeros((vocab, *activation.shape[2:]), dtype=torch.float64)
    sums.index_add_(0, flat, activation[there.present].double())
    means = sums / votes.clamp(min=1).reshape(-1, *[1] * (sums.ndim - 1))
    return means.to(activation.dtype), votes


def _mean_letter(source: Runs, activation: Tensor, vocab: int) -> tuple[Tensor, Tensor]:
    """A key or a value is averaged over the attended tokens of all strings, copies counted.

    (Over one kind of token it would stay what it is: in the first layer it does not vary.)
    """
    assert source.inputs is not None
    weights = source.inputs.multiplicity
    mean = (weights[:, :, None, None] * activation.double()).sum((0, 1)) / weights.sum()
    return mean.to(activation.dtype).expand(vocab, *mean.shape), torch.ones(vocab)


def _average(runs: Runs, source: Runs, where: Part | Direction, wanted: Intervention) -> Tensor:
    if runs.by_token:
        means, votes = _table(source, where.hook)
        present = runs.tokens[runs.present]
        if only_read(runs.cfg, where) and runs.inputs is not None:
            at = runs.inputs.reading
            rows = torch.arange(len(runs.tokens))
            present = runs.tokens[:, 0] if at is None else runs.tokens[rows, at]
        names = runs.token_names or ()
        missing = [names[token] for token in present.unique().tolist() if not votes[token]]
        if missing:
            raise UsageError(f"{wanted}: no string of the mean has {', '.join(missing)}")
        return means[runs.tokens]
    activation = source.activation(where.hook)
    if activation.shape[1] != runs.tokens.shape[1] or not bool(source.present.all()):
        raise UsageError(
            f"{wanted}: positions matter to this model, so all strings must be of one length"
        )
    return activation.mean(0, keepdim=True)


def _of_letter(runs: Runs, where: Part | Direction, letter: str) -> Tensor:
    assert isinstance(where, Part)
    if not runs.by_token or where.layer:
        raise UnsupportedError(
            f"{where}=like({letter}): a letter has one key and one value only in the first layer "
            "of a model without positions"
        )
    token = runs.token(letter)
    assert runs.config is not None
    source = runs.elsewhere([letter])
    return source.activation(where.hook)[0, source.tokens[0] == token][0]


def _resampled(runs: Runs, hook: str, seed: int) -> Tensor:
    if len(runs.tokens) < 2:
        raise UsageError("resampling takes activations from another string: give two or more")
    if not runs.by_token and not bool(runs.present.all()):
        raise UsageError("resampling swaps positions: all strings must be of one length")
    # A random cycle through all strings, so that each gets another one's.
    order = torch.randperm(len(runs.tokens), generator=torch.Generator().manual_seed(seed))
    swapped = torch.empty_like(order)
    swapped[order] = order.roll(1)
    return runs.activation(hook)[swapped]


def noisy(runs: Runs, activation: Tensor, how: Noise) -> Tensor:
    """Every vector (the last axis) moved by `size` of its own length, the same for equal tokens."""
    generator = torch.Generator().manual_seed(how.seed)
    if runs.by_token and runs.config is not None:
        rows = (runs.config.alphabet.vocab_size, *activation.shape[runs.tokens.ndim :])
        drawn = torch.randn(rows, generator=generator, dtype=torch.float64)[runs.tokens]
    else:
        drawn = torch.randn(activation.shape, generator=generator, dtype=torch.float64)
    return _moved(activation, drawn.to(activation.dtype), how)


def _moved(vectors: Tensor, drawn: Tensor, how: Noise) -> Tensor:
    """`vectors` moved along what was drawn, as `how` says."""
    length: Tensor = vectors.norm(dim=-1, keepdim=True)
    unit: Tensor = vectors / length.clamp(min=torch.finfo(vectors.dtype).tiny)
    if how.along == "norm":
        return vectors * (1 + how.size * drawn[..., :1].sign())
    if how.along == "any":
        step: Tensor = drawn / drawn.norm(dim=-1, keepdim=True)
        return vectors + how.size * length * step
    if vectors.shape[-1] == 1:
        raise UnsupportedError(
            "a key of one number has no direction to turn in; use noise along norm"
        )
    across = drawn - (drawn * unit).sum(-1, keepdim=True) * unit
    across = across / across.norm(dim=-1, keepdim=True).clamp(min=torch.finfo(drawn.dtype).tiny)
    turned: Tensor = vectors + how.size * length * across
    shrink: Tensor = length / turned.norm(dim=-1, keepdim=True).clamp(min=1e-30)
    return turned * shrink
