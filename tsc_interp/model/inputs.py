"""What the forward pass reads: one token per position, and how often each position counts.

    tokens        which embedding stands there
    multiplicity  0 masked, 1 an ordinary token, k for k copies of it
    lengths       letters in the string, which `sqrt_d_head_log_n` scales by

The token form has a position per character and multiplicities 0 and 1. The compressed form has
`CLS` and one position per letter of the alphabet, whatever the string's length.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from einops import einsum
from jaxtyping import Float, Int, Real
from torch import Tensor

from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import UnsupportedError, UsageError
from tsc_interp.strings import CLS, FIRST_LETTER, PAD, Counts


@dataclass(frozen=True)
class Inputs:
    tokens: Int[Tensor, "batch pos"]
    multiplicity: Float[Tensor, "batch pos"]
    lengths: Real[Tensor, " batch"]  # whole for strings; probes also ask about real mixtures
    compressed: bool


def from_tokens(config: ClassifierConfig, tokens: Tensor) -> Inputs:
    """Token ids `[batch pos]`, each row `CLS`, letters, `PAD`s; or one such row."""
    tokens = torch.as_tensor(tokens)
    if tokens.ndim == 1:
        tokens = tokens[None]
    _check_tokens(config, tokens)
    letters = tokens >= FIRST_LETTER
    attended = letters | (tokens == CLS) if config.attend_cls else letters
    return Inputs(tokens, attended.to(torch.float64), letters.sum(-1), compressed=False)


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
    if config.has_positions:
        return from_tokens(config, torch.from_numpy(config.alphabet.tokens(texts)))
    return from_counts(config, config.alphabet.count_matrix(texts))


def letter_counts(config: ClassifierConfig, inputs: Inputs) -> Counts:
    """How many of each letter, `[batch letter]`: what a task's label is about."""
    of_token = inputs.tokens[..., None] == torch.arange(FIRST_LETTER, config.alphabet.vocab_size)
    counts = einsum(
        inputs.multiplicity, of_token.double(), "batch pos, batch pos letter -> batch letter"
    )
    return counts.round().long().numpy()


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
    if not bool((tokens[:, 0] == CLS).all()) or bool((tokens[:, 1:] == CLS).any()):
        raise UsageError(f"each row must begin with CLS ({CLS}) and contain it only there")
    if not bool((tokens >= FIRST_LETTER).any(-1).all()):
        raise UsageError("each row needs at least one letter")
    if bool(((tokens[:, :-1] == PAD) & (tokens[:, 1:] != PAD)).any()):
        raise UsageError(f"PAD ({PAD}) may only stand at the end of a row")
    if config.has_positions and tokens.shape[1] > config.n_positions:
        raise UsageError(
            f"{tokens.shape[1]} positions with CLS, but the model has learned {config.n_positions}"
        )


def _check_counts(config: ClassifierConfig, counts: Tensor) -> None:
    if config.has_positions:
        raise UnsupportedError(
            "this model has positions, so equal letters differ by where they stand and counts do "
            "not describe its input; pass strings or tokens instead"
        )
    if counts.ndim != 2 or counts.shape[1] != config.n_letters:
        raise UsageError(
            f"counts must be shaped [batch, {config.n_letters}], a column per letter "
            f"({config.alphabet.letters}); got {list(counts.shape)}"
        )
    if counts.numel() and (int(counts.min()) < 0 or not bool((counts.sum(-1) > 0).all())):
        raise UsageError("counts must not be negative, and each row needs at least one letter")
