"""Computes the part of a one-layer model after attention, in `arb` balls.

Part of the checker (trellis_model.py): nothing here is taken from the search. No ball is compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from flint import arb, arb_mat

from tsc_interp.strings import CLS, FIRST_LETTER
from tsc_interp.verification.checker import kernel
from tsc_interp.verification.checker.heads import Heads, Row, Spot


@dataclass(frozen=True)
class Readout:
    """A column per neuron, output or coordinate."""

    inner: Any
    gates: Any | None
    centred: Any
    outer: Any
    """Without the final norm's division."""
    out: Any
    """`W_out`, and `b_out` as a row."""
    out_bias: Any
    inner_bias: Row
    gate_bias: Row
    shift: Row
    """What is added to outputs after that division."""


class WholeModel(Heads):
    """All of a model: attention (heads.py), the MLP, norms and outputs."""

    @property
    def n_classes(self) -> int:
        """One output is as good as two, of which the first is always zero."""
        return max(2, self.config.n_outputs)

    def reader(self, string: Sequence[int]) -> Spot:
        """The token that reads a string."""
        last = FIRST_LETTER + string[-1], len(string) - 1
        return last if self.config.reads == "last_letter" else self.cls_spot(len(string))

    def attended(self, string: Sequence[int]) -> Any:
        """The reader's residual after attention, as a row."""
        config, length, reader = self.config, len(string), self.reader(string)
        first = int(config.reads == "first")
        spots = [(FIRST_LETTER + letter, place + first) for place, letter in enumerate(string)]
        own = config.attend_cls and config.reads != "last_letter"
        x = self.base(reader)
        for head in range(config.n_heads):
            scores, held = self.heard(head, [reader], [*spots, *([reader] * own)], length)
            weights = [score.exp() for score in scores.tolist()[0]]
            total = sum(weights, arb(0))
            x = x + arb_mat([[weight / total for weight in weights]]) * held
        return x

    def outputs(self, x: Any) -> Row:
        """Outputs times the final norm's scale, of a residual after attention."""
        config, read = self.config, self.readout()
        if config.has_mlp:
            x = x + self._mlp(x)
        outputs = (x * read.outer).tolist()[0]
        scale = self.divisor((x * read.centred).tolist()[0]) if config.final_norm else arb(1)
        return [output + shift * scale for output, shift in zip(outputs, read.shift, strict=True)]

    def cls_spot(self, length: int) -> Spot:
        """CLS where it reads."""
        return CLS, 0 if self.config.reads == "first" else length

    def base(self, reader: Spot) -> Any:
        """The reader's own residual, as a row, with what attention adds whatever it attends to."""
        residual = self.embedded([reader])
        if not self.config.has_attention:
            return residual
        return residual + self.bias("blocks.0.attn.b_O", self.config.d_model)

    def _mlp(self, x: Any) -> Any:
        name, config = "blocks.0.mlp", self.config
        read = self.normed("blocks.0.ln2", x)
        pre, bias = read * self.matrix(f"{name}.W_in"), self.bias(f"{name}.b_in", config.d_mlp)
        if config.gated_mlp:
            gates = (read * self.matrix(f"{name}.W_gate")).tolist()[0]
            opened = [kernel.activation(config.act_fn, gate) for gate in gates]
            pairs = zip(opened, pre.tolist()[0], strict=True)
            post = arb_mat([[gate * value for gate, value in pairs]]) + bias
        else:
            values = (pre + bias).tolist()[0]
            post = arb_mat([[kernel.activation(config.act_fn, value) for value in values]])
        return post * self.matrix(f"{name}.W_out") + self.bias(f"{name}.b_out", config.d_model)

    def readout(self) -> Readout:
        """The matrices, at the precision that is set."""
        config, d = self.config, self.config.d_model
        outer = self.matrix("unembed.W_U")
        shift = self.bias("unembed.b_U", config.n_outputs)
        if config.n_outputs == 1:
            outer = arb_mat([[arb(0), *row] for row in outer.tolist()])
            shift = arb_mat([[arb(0), *shift.tolist()[0]]])
        centred = self.centring()
        if config.final_norm:
            scale, added = self.norm_weights("ln_final")
            shift = shift + arb_mat([added]) * outer
            outer = centred * _scaled(scale, outer)
        inner, gates = arb_mat(d, 0), None
        inner_bias = gate_bias = arb_mat(1, config.d_mlp)
        if config.has_mlp:
            inner = self.matrix("blocks.0.mlp.W_in")
            gates = self.matrix("blocks.0.mlp.W_gate") if config.gated_mlp else None
            if not config.gated_mlp:  # else it is added after the product
                inner_bias = self.bias("blocks.0.mlp.b_in", config.d_mlp)
            if config.has_norm:
                scale, added = self.norm_weights("blocks.0.ln2")
                inner_bias = inner_bias + arb_mat([added]) * inner
                inner = centred * _scaled(scale, inner)
                if gates is not None:
                    gate_bias = gate_bias + arb_mat([added]) * gates
                    gates = centred * _scaled(scale, gates)
        mlp = "blocks.0.mlp"
        return Readout(
            inner=inner,
            gates=gates,
            centred=centred,
            outer=outer,
            out=self.matrix(f"{mlp}.W_out") if config.has_mlp else arb_mat(0, d),
            out_bias=self.bias(f"{mlp}.b_out", d) if config.has_mlp else arb_mat(1, d),
            inner_bias=inner_bias.tolist()[0],
            gate_bias=gate_bias.tolist()[0],
            shift=shift.tolist()[0],
        )

    def same_outputs(self, label: int) -> set[int]:
        """Outputs with the same weights and bias are the same number."""
        columns = self.weights["unembed.W_U"].astype(np.float64)
        if self.config.biases:
            bias = np.asarray(self.weights["unembed.b_U"], dtype=np.float64)
            columns = np.concatenate([columns, bias[None]])
        if self.config.n_outputs == 1:
            columns = np.concatenate([np.zeros_like(columns), columns], axis=1)
        return set(np.flatnonzero((columns == columns[:, [label]]).all(0)).tolist())


def _scaled(scale: Row, matrix: Any) -> Any:
    rows = zip(scale, matrix.tolist(), strict=True)
    return arb_mat([[w * x for x in row] for w, row in rows])
