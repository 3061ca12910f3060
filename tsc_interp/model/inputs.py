"""What the forward pass reads: one token per position, and how often each position counts.

    tokens        which embedding stands there
    multiplicity  0 masked, 1 an ordinary token, k for k copies of it
    lengths       letters in the string, whose log scores may be scaled by

The token form has a position per character and multiplicities 0 and 1. The compressed form has
`CLS` and one position per letter of the alphabet, whatever the string's length.

A row of tokens is CLS, letters, PADs; letters, CLS, PADs where CLS reads from the end; letters,
PADs where the last letter reads (`ClassifierConfig.reads`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from einops import einsum
from jaxtyping import Float, Int, Real
from numpy.typing import NDArray
from torch import Tensor

from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import UnsupportedError, UsageError
from tsc_interp.strings import CLS, FIRST_LETTER, PAD, Counts, letters_of_tokens
from tsc_interp.tasks.base import Classes

TOKENS_NEEDED = (
    "a residual stream does not say which of its positions may be attended to: pass tokens=... "
    "with start_at_layer"
)


@dataclass(frozen=True)
class Inputs:
    tokens: Int[Tensor, "batch pos"]
    multiplicity: Float[Tensor, "batch pos"]
    lengths: Real[Tensor, " batch"]  # whole for strings; probes also ask about real mixtures
    compressed: bool
    reading: Int[Tensor, " batch"] | None = None  # where the logit is read; None: position 0
    causal: bool = False  # whether a position sees only itself and what comes before

    def repeated(self, count: int) -> Inputs:
        """So many copies of all rows, read where they are read and masked as they are masked."""
        rows: dict[str, Any] = {
            name: value.repeat(count, *[1] * (value.ndim - 1))
            for name, value in vars(self).items()
            if isinstance(value, Tensor)  # all of them have the batch in front
        }
        return replace(self, **rows)


def from_tokens(config: ClassifierConfig, tokens: Tensor) -> Inputs:
    """Token ids `[batch pos]`, or one row of them; `PAD`s stand at the end."""
    tokens = torch.as_tensor(tokens)
    if tokens.ndim == 1:
        tokens = tokens[None]
    _check_tokens(config, tokens)
    letters = tokens >= FIRST_LETTER
    attended = letters | (tokens == CLS) if config.attend_cls else letters
    reading = (tokens != PAD).sum(-1) - 1 if config.causal else None
    return Inputs(
        tokens,
        attended.to(torch.float64),
        letters.sum(-1),
        compressed=False,
        reading=reading,
        causal=config.causal,
    )


def from_counts(config: ClassifierConfig, counts: Tensor | np.ndarray) -> Inputs:
    """Letter counts `[batch letter]`: exact at any depth, because copies of a letter stay equal."""
    counts = torch.as_tensor(counts)
    _check_counts(config, counts)
    batch = counts.shape[0]
    layout = torch.tensor([CLS, *range(FIRST_LETTER, config.alphabet.vocab_size)])
    cls = torch.full((batch, 1), float(config.attend_cls), dtype=torch.float64)
    multiplicity = torch.cat([cls, counts.to(torch.float64)], dim=1)
    return Inputs(layout.expand(batch, -1), multiplicity, counts.sum(-1), compressed=True)


def from_strings(config: ClassifierConfig, strings: str | Sequence[str]) -> Inputs:
    """Run-length strings: compressed wherever that is exact, tokens for a model with positions."""
    texts = [strings] if isinstance(strings, str) else list(strings)
    if config.needs_order:
        return from_tokens(config, torch.from_numpy(token_rows(config, texts)))
    return from_counts(config, config.alphabet.count_matrix(config.filled(texts)))


def token_rows(config: ClassifierConfig, texts: Sequence[str]) -> NDArray[np.int64]:
    """Strings as the rows of tokens this model reads."""
    return as_read(config, config.alphabet.tokens(config.filled(texts)))


def as_read(config: ClassifierConfig, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Rows with CLS in front as the model reads them: CLS there, behind the letters, or nowhere."""
    if config.reads == "first":
        return rows
    rows = rows[:, 1:]
    if config.reads == "last":
        rows = np.pad(rows, ((0, 0), (0, 1)), constant_values=PAD)
        rows[np.arange(len(rows)), (rows != PAD).sum(-1)] = CLS
    return rows


def letter_counts(config: ClassifierConfig, inputs: Inputs) -> Counts:
    """How many of each letter, `[batch letter]`: what a task's label is about."""
    of_token = inputs.tokens[..., None] == torch.arange(FIRST_LETTER, config.alphabet.vocab_size)
    counts = einsum(
        inputs.multiplicity, of_token.double(), "batch pos, batch pos letter -> batch letter"
    )
    return counts.round().long().numpy()


def true_classes(config: ClassifierConfig, inputs: Inputs) -> Classes:
    """The task's class of every string."""
    if config.task.ordered:
        return config.task.classes_of_all(letters_of_tokens(inputs.tokens.cpu().numpy()))
    return config.task.classes(letter_counts(config, inputs))


def _check_tokens(config: ClassifierConfig, tokens: Tensor) -> None:
    vocab = config.alphabet.vocab_size
    if tokens.ndim != 2 or tokens.is_floating_point() or tokens.dtype == torch.bool:
        raise UsageError(
            f"tokens must be whole numbers shaped [batch, position]; "
            f"got {tokens.dtype} shaped {list(tokens.shape)}"
        )
    if tokens.numel() and (int(tokens.min()) < 0 or int(tokens.max()) >= vocab):
        raise UsageError(
            f"tokens must lie in 0..{vocab - 1} (CLS, PAD, {config.alphabet.letters}); "
            f"got {int(tokens.min())}..{int(tokens.max())}"
        )
    _check_cls(config, tokens)
    if not bool((tokens >= FIRST_LETTER).any(-1).all()):
        raise UsageError("each row needs at least one letter")
    if bool(((tokens[:, :-1] == PAD) & (tokens[:, 1:] != PAD)).any()):
        raise UsageError(f"PAD ({PAD}) may only stand at the end of a row")
    if config.has_positions and tokens.shape[1] > config.n_positions:
        raise UsageError(
            f"{tokens.shape[1]} positions with CLS, but the model has learned {config.n_positions}"
            if config.has_cls
            else f"{tokens.shape[1]} letters, but the model has {config.n_positions} positions"
        )


def _check_cls(config: ClassifierConfig, tokens: Tensor) -> None:
    if config.reads == "first":
        if not bool((tokens[:, 0] == CLS).all()) or bool((tokens[:, 1:] == CLS).any()):
            raise UsageError(f"each row must begin with CLS ({CLS}) and contain it only there")
    elif config.reads == "last":
        last = tokens.gather(1, (tokens != PAD).sum(-1, keepdim=True).clamp(min=1) - 1)
        if not bool((last == CLS).all()) or bool(((tokens == CLS).sum(-1) != 1).any()):
            raise UsageError(f"each row must end with CLS ({CLS}), but for PADs, and have no other")
    elif bool((tokens == CLS).any()):
        raise UsageError(f"the last letter reads, so no row may contain CLS ({CLS})")


def _check_counts(config: ClassifierConfig, counts: Tensor) -> None:
    if config.needs_order:
        why = "has positions" if config.has_positions else "reads what comes before each letter"
        raise UnsupportedError(
            f"this model {why}, so equal letters differ by where they stand and counts do "
            "not describe its input; pass strings or tokens instead"
        )
    if counts.ndim != 2 or counts.shape[1] != config.n_letters:
        raise UsageError(
            f"counts must be shaped [batch, {config.n_letters}], a column per letter "
            f"({config.alphabet.letters}); got {list(counts.shape)}"
        )
    if counts.numel() and (int(counts.min()) < 0 or not bool((counts.sum(-1) > 0).all())):
        raise UsageError("counts must not be negative, and each row needs at least one letter")
