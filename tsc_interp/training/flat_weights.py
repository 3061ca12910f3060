"""The weights of many small classifiers as one flat vector each, laid out as products need them.

    rows      W_O, W_E, W_out                  vectors in d_model
    columns   W_Q, W_K, W_V, W_in, W_U         vectors in d_model

Every weight is a view into the flat array, so that one product of rows and columns (closed_form.py)
gives all that strings take part in.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tsc_interp.checkpoints.checkpoint import WeightArrays
from tsc_interp.config import ClassifierConfig
from tsc_interp.strings import FIRST_LETTER

Array = NDArray[np.float32]


class Packed:
    """Named weights of many models as one array `[model, parameter]`, and back."""

    size: int
    """Parameters of one model."""

    def named(self, flat: Array) -> dict[str, Array]:
        """Every weight `[model, ...]` as a view into the flat array."""
        raise NotImplementedError

    def pack(self, many: Sequence[WeightArrays]) -> Array:
        """Named weights to `[model, parameter]`."""
        flat = np.zeros((len(many), self.size), dtype=np.float32)
        for name, view in self.named(flat).items():
            view[...] = [weights[name] for weights in many]
        return flat

    def unpack(self, flat: Array) -> list[dict[str, Array]]:
        """`[model, parameter]` to named weights."""
        stacked = {
            name: np.ascontiguousarray(view) for name, view in self.named(flat.copy()).items()
        }
        return [
            {name: array[model] for name, array in stacked.items()} for model in range(len(flat))
        ]


class FlatWeights(Packed):
    """Where each weight of a configuration stands in `[model, parameter]`."""

    def __init__(self, config: ClassifierConfig) -> None:
        self.config = config
        heads, letters, mlp = config.n_heads * config.d_head, config.n_letters, config.d_mlp
        vocab = FIRST_LETTER + letters
        self.width = heads
        # Rows: W_O, then the embeddings in token order (CLS, PAD, letters), then W_out.
        self.cls = heads
        self.tokens = slice(heads, heads + vocab)
        self.mixed = slice(0, heads + 1)  # what CLS's residual stream is a sum of
        self.keys = slice(heads if config.attend_cls else heads + FIRST_LETTER, heads + vocab)
        self.mlp_out = slice(heads + vocab, heads + vocab + mlp)
        self.n_rows = heads + vocab + mlp
        # Columns: W_Q, W_K, W_V, W_in, W_U.
        self.read = slice(3 * heads, 3 * heads + mlp + 1)
        self.n_columns = 3 * heads + mlp + 1
        self.n_factors = config.n_heads if config.ssmax else 0
        self.size = (self.n_rows + self.n_columns) * config.d_model + self.n_factors

    def named(self, flat: Array) -> dict[str, Array]:
        n, d, h, k = len(flat), self.config.d_model, self.config.n_heads, self.config.d_head
        rows, columns = self.split(flat)
        parts = columns[:, :, : 3 * self.width].reshape(n, d, 3, h, k).transpose(2, 0, 3, 1, 4)
        named = {"embed.W_E": rows[:, self.tokens]}
        named |= {f"blocks.0.attn.W_{name}": parts[i] for i, name in enumerate("QKV")}
        named["blocks.0.attn.W_O"] = rows[:, : self.width].reshape(n, h, k, d)
        if self.config.has_mlp:
            named["blocks.0.mlp.W_in"] = columns[:, :, self.read][:, :, :-1]
            named["blocks.0.mlp.W_out"] = rows[:, self.mlp_out]
        if self.n_factors:
            named["blocks.0.attn.log_n_factor"] = self.factors(flat)
        named["unembed.W_U"] = columns[:, :, -1:]
        return named

    def factors(self, flat: Array) -> Array:
        """`[model, head]`; SSMax's stand at the end."""
        return flat[:, self.size - self.n_factors :]

    def split(self, flat: Array) -> tuple[Array, Array]:
        """Rows `[model row d_model]` and columns `[model d_model column]`, as views."""
        d, boundary = self.config.d_model, self.n_rows * self.config.d_model
        return (
            flat[:, :boundary].reshape(-1, self.n_rows, d),
            flat[:, boundary : self.size - self.n_factors].reshape(-1, d, self.n_columns),
        )
