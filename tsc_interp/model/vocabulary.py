"""Strings, tokens and the one output under TransformerLens's method names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tsc_interp.errors import UsageError
from tsc_interp.model.classifier import Classifier
from tsc_interp.strings import FIRST_LETTER

Tokens = Tensor | np.ndarray | Sequence[int]


class Vocabulary(Classifier):
    """`to_tokens` and its like. `prepend_bos` is accepted and ignored: CLS is always there."""

    def to_tokens(
        self, input: str | Sequence[str], prepend_bos: bool | None = None, **_: Any
    ) -> Tensor:
        """Strings as token ids `[batch pos]`, CLS where the model reads, PAD at the end."""
        return self.tokens(input)

    def to_str_tokens(
        self, input: str | Sequence[str] | Tokens, prepend_bos: bool | None = None, **_: Any
    ) -> list[str] | list[list[str]]:
        """`["CLS", "a", "a", "c"]` for a string or a row of tokens; a list of such for strings.

        Letters that stand for tokens with names of their own are called by those.
        """
        if isinstance(input, str):
            return self._names(self.tokens(input)[0])
        if isinstance(input, Sequence) and input and isinstance(input[0], str):
            return [self._names(self.tokens(text)[0]) for text in input]  # type: ignore[arg-type]
        return self._names(self._row(input))

    def to_string(self, tokens: Tokens) -> str | list[str]:
        """The string a row of tokens stands for, in run-length notation; a list for several."""
        ids = torch.as_tensor(tokens)
        if ids.ndim == 2:
            return [self._text(row) for row in ids]
        return self._text(ids)

    def to_single_token(self, string: str) -> int:
        """By its letter, or by its name."""
        for names in (self.config.alphabet.token_names, self.config.called):
            if string in names:
                return names.index(string)
        known = ", ".join(self.config.called)
        raise UsageError(f"{string!r} is not one token; the tokens are {known}")

    def to_single_str_token(self, int_token: int) -> str:
        return self._names(torch.tensor([int_token]))[0]

    def tokens_to_residual_directions(self, tokens: int | str | Tensor) -> Tensor:
        """An output's read-out direction, 0 (yes) where it is the only one: `[... d_model]`."""
        wanted = torch.as_tensor(-1 if isinstance(tokens, str) else tokens)
        outputs = self.config.n_outputs
        if wanted.is_floating_point() or bool(((wanted < 0) | (wanted >= outputs)).any()):
            have = "one output, 0 (yes)" if outputs == 1 else f"outputs 0 to {outputs - 1}"
            raise UsageError(f"this classifier has {have}, whatever it reads; got {tokens!r}")
        directions = self.W_U.movedim(-1, 0)[wanted]
        return directions if wanted.numel() > 1 else directions.reshape(self.W_U.shape[:-1])

    def _row(self, tokens: Any) -> Tensor:
        ids = torch.as_tensor(tokens)
        if ids.ndim == 2 and len(ids) == 1:
            ids = ids[0]
        if ids.ndim != 1 or ids.is_floating_point():
            raise UsageError(f"expected one row of token ids, got shape {list(ids.shape)}")
        return ids

    def _names(self, ids: Tensor) -> list[str]:
        names = self.config.called
        wrong = [i for i in ids.tolist() if not 0 <= i < len(names)]
        if wrong:
            raise UsageError(
                f"tokens are 0 to {len(names) - 1} ({', '.join(names)}); got {wrong[0]}"
            )
        return [names[i] for i in ids.tolist()]

    def _text(self, ids: Tensor) -> str:
        self._names(ids)
        letters = self.config.alphabet.letters
        text = "".join(letters[i - FIRST_LETTER] for i in ids.tolist() if i >= FIRST_LETTER)
        return self.config.alphabet.canonical(text) if text else ""
