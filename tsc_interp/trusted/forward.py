"""The forward pass in `arb` balls: scores and values of keys, norms, the MLP, the outputs.

A token stands at a place (0 where there are no positions), and a key counts as often as its letter
occurs: copies of a letter have one state in every layer. Every option of the family ends here:
norms, positions of all kinds, norms of queries and keys, a stated scale, gates.

No ball is compared here: every judgement is made in balls.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from flint import arb, arb_mat

from tsc_interp.trusted import balls
from tsc_interp.trusted.balls import Ball
from tsc_interp.trusted.positions import alibi_slopes, rotary, sinusoidal, turned_pairs
from tsc_interp.trusted.spec import CLS, FIRST_LETTER, Model

Row = list[Ball]
Spot = tuple[int, int]
"""A token and its place."""


@dataclass(frozen=True)
class Readout:
    """What reads the residual stream after the last attention: a column per neuron or output.

    Scales and shifts of norms are multiplied in, and `outer` is before the final norm's division.
    """

    inner: Any
    gates: Any | None
    centred: Any
    outer: Any
    out: Any
    """`W_out`, and `b_out` as a row."""
    out_bias: Any
    inner_bias: Row
    gate_bias: Row
    late_bias: Row
    """What is added after the product with a gate."""
    shift: Row
    """What is added to outputs after the final norm's division."""


class Forward:
    """One model, layer by layer."""

    def __init__(self, model: Model) -> None:
        self.model, self.spec, self.weights = model, model.spec, model.weights
        self.last = model.spec.n_layers - 1

    # -- whole inputs ----------------------------------------------------------------------------

    def outputs(self, keys: Sequence[Spot], copies: Sequence[int], reader: Spot) -> Row:
        """Outputs of one input.

        Args:
            keys: Its tokens.
            copies: How often each occurs.
            reader: The token that reads. It attends to itself only where it is among the keys.
        """
        spots = [reader, *keys]
        letters = sum(n for (token, _), n in zip(keys, copies, strict=True) if token != CLS)
        copies = [0, *copies]
        x = self.embedded(spots)
        for layer in range(self.spec.n_layers):
            asking = 1 if layer == self.last else len(spots)
            x = self._attended(layer, x, spots, copies, asking, letters)
            if self.spec.d_mlp:
                x = x + self._mlp(layer, x)
        read = self.readout()
        outputs = (x * read.outer).tolist()[0]
        centred = (x * read.centred).tolist()[0]
        scale = self.divisor(centred) if self.spec.final_norm else arb(1)
        return [output / scale + shift for output, shift in zip(outputs, read.shift, strict=True)]

    def _attended(
        self, layer: int, x: Any, spots: Sequence[Spot], copies: Sequence[int], asking: int,
        letters: int,
    ) -> Any:  # fmt: skip
        """The residual stream of the first `asking` tokens after attention."""
        state = arb_mat(x.tolist()[:asking])
        if not self.spec.n_heads:
            return state
        state = self.biased(state, f"blocks.{layer}.attn.b_O")
        read = self.normed(f"blocks.{layer}.ln1", x)
        for head in range(self.spec.n_heads):
            queries = self.met("Q", layer, head, arb_mat(read.tolist()[:asking]), spots[:asking])
            keys = self.met("K", layer, head, read, spots)
            values = self.added(layer, head, read).tolist()
            rows = []
            for row in self.scores(head, queries, spots[:asking], keys, spots, letters).tolist():
                chosen = [k for k, n in enumerate(copies) if n]
                weights = [copies[k] * row[k].exp() for k in chosen]
                total = sum(weights, arb(0))
                # The weight of a single key is 1, which a quotient of balls is not.
                alone = len(chosen) == 1
                shares = [arb(1)] if alone else [weight / total for weight in weights]
                rows += (arb_mat([shares]) * arb_mat([values[k] for k in chosen])).tolist()
            state = state + arb_mat(rows)
        return state

    # -- attention -------------------------------------------------------------------------------

    def embedded(self, spots: Sequence[Spot]) -> Any:
        """What the residual stream holds at first, a row for each token."""
        rows = self.weights["embed.W_E"][[token for token, _ in spots]].astype(np.float64)
        vectors = arb_mat(rows.tolist())
        return vectors + self.places(spots) if self.spec.added_positions else vectors

    def places(self, spots: Sequence[Spot]) -> Any:
        """Rows of the position table."""
        if self.spec.positions == "sinusoidal":
            table = sinusoidal(self.spec.n_positions, self.spec.d_model)
        else:
            table = self.weights["pos_embed.W_pos"]
        return arb_mat([table[place].astype(np.float64).tolist() for _, place in spots])

    def met(self, part: str, layer: int, head: int, read: Any, spots: Sequence[Spot]) -> Any:
        """Queries (`Q`) or keys (`K`) as they meet, a row for each token."""
        spec, name = self.spec, f"blocks.{layer}.attn"
        if spec.has_positions and spec.positions == "shortformer":
            read = read + self.places(spots)
        met = read * self.matrix(f"{name}.W_{part}", head)
        rows = self.biased(met, f"{name}.b_{part}", head).tolist()
        if spec.qk_norm != "off":
            scale = self.head_norm(layer, part)
            rows = [
                [value / self.divisor(row) * w for value, w in zip(row, scale, strict=True)]
                for row in rows
            ]
        if spec.has_positions and spec.positions == "rotary":
            rows = [self._turned(row, place) for row, (_, place) in zip(rows, spots, strict=True)]
        return arb_mat(rows)

    def scores(
        self, head: int, queries: Any, asking: Sequence[Spot], keys: Any, spots: Sequence[Spot],
        letters: int, scaled: bool = True,
    ) -> Any:  # fmt: skip
        """`[query key]`, for inputs of so many letters; without log n unless they are `scaled`."""
        factor = balls.score_factor(self.spec.d_head, self.spec.attention_scale)
        if self.spec.log_n and scaled:
            factor = factor * arb(letters + self.spec.cls_counted).log()
        scores = queries * keys.transpose() * factor
        if self.spec.has_positions and self.spec.positions == "alibi":
            slope = arb(float(alibi_slopes(self.spec.n_heads)[head]))
            steps = [[max(query - key, 0) for _, key in spots] for _, query in asking]
            scores = scores - arb_mat([[slope * step for step in row] for row in steps])
        return scores

    def added(self, layer: int, head: int, read: Any) -> Any:
        """What each key adds to the residual stream that attends to it alone, without `b_O`."""
        name = f"blocks.{layer}.attn"
        values = self.biased(read * self.matrix(f"{name}.W_V", head), f"{name}.b_V", head)
        return values * self.matrix(f"{name}.W_O", head)

    def head_norm(self, layer: int, part: str) -> Row:
        """The scale of the norm of queries or keys."""
        if self.spec.qk_norm == "rms_pre":
            return [arb(1)] * self.spec.d_head
        scale: Row = self.matrix(f"blocks.{layer}.attn.{part.lower()}_norm.w").tolist()[0]
        return scale

    def _turned(self, row: Row, place: int) -> Row:
        spec, row = self.spec, list(row)
        table = rotary(spec.n_positions, spec.turned, spec.rotary_base)
        pairs = zip(*turned_pairs(spec.turned, spec.rotary_adjacent_pairs), strict=True)
        for index, (i, j) in enumerate(pairs):
            cos, sin = (arb(float(number)) for number in table[place, :, index])
            row[i], row[j] = cos * row[i] - sin * row[j], sin * row[i] + cos * row[j]
        return row

    # -- MLP, norms and outputs ------------------------------------------------------------------

    def _mlp(self, layer: int, x: Any) -> Any:
        spec, name = self.spec, f"blocks.{layer}.mlp"
        read = self.normed(f"blocks.{layer}.ln2", x)
        pre = read * self.matrix(f"{name}.W_in")
        gated, inner = spec.gated_mlp, f"{name}.b_in"
        opened = read * self.matrix(f"{name}.W_gate") if gated else self.biased(pre, inner)
        post = [[balls.activation(spec.act_fn, x) for x in row] for row in opened.tolist()]
        if gated:
            pairs = zip(post, pre.tolist(), strict=True)
            post = [[g * x for g, x in zip(*pair, strict=True)] for pair in pairs]
            post = self.biased(arb_mat(post), inner).tolist()
        return self.biased(arb_mat(post) * self.matrix(f"{name}.W_out"), f"{name}.b_out")

    def readout(self) -> Readout:
        """The matrices of the last layer's MLP and of the outputs, at the precision that is set."""
        spec, d, block = self.spec, self.spec.d_model, f"blocks.{self.last}"
        outer, shift = self.matrix("unembed.W_U"), self.bias("unembed.b_U", spec.n_outputs)
        if spec.n_outputs == 1:
            outer = arb_mat([[arb(0), *row] for row in outer.tolist()])
            shift = arb_mat([[arb(0), *shift.tolist()[0]]])
        centred = self.centring()
        if spec.final_norm:
            scale, added = self.norm_weights("ln_final")
            shift = shift + arb_mat([added]) * outer
            outer = centred * scaled(scale, outer)
        inner, gates, mlp = arb_mat(d, 0), None, f"{block}.mlp"
        inner_bias = gate_bias = late_bias = arb_mat(1, spec.d_mlp)
        if spec.d_mlp:
            inner = self.matrix(f"{mlp}.W_in")
            gates = self.matrix(f"{mlp}.W_gate") if spec.gated_mlp else None
            late_bias = self.bias(f"{mlp}.b_in", spec.d_mlp)
            if gates is None:
                inner_bias, late_bias = late_bias, arb_mat(1, spec.d_mlp)
            if spec.has_norm:
                scale, added = self.norm_weights(f"{block}.ln2")
                inner_bias = inner_bias + arb_mat([added]) * inner
                inner = centred * scaled(scale, inner)
                if gates is not None:
                    gate_bias = gate_bias + arb_mat([added]) * gates
                    gates = centred * scaled(scale, gates)
        return Readout(
            inner=inner,
            gates=gates,
            centred=centred,
            outer=outer,
            out=self.matrix(f"{mlp}.W_out") if spec.d_mlp else arb_mat(0, d),
            out_bias=self.bias(f"{mlp}.b_out", d) if spec.d_mlp else arb_mat(1, d),
            inner_bias=inner_bias.tolist()[0],
            gate_bias=gate_bias.tolist()[0],
            late_bias=late_bias.tolist()[0],
            shift=shift.tolist()[0],
        )

    def normed(self, name: str, x: Any) -> Any:
        """Every row after the norm of that name."""
        if not self.spec.has_norm:
            return x
        scale, shift = self.norm_weights(name)
        most = arb(self.spec.d_model).sqrt().upper()
        rows = []
        for row in (x * self.centring()).tolist():
            divisor = self.divisor(row)
            # No coordinate exceeds √d times the root mean square it is divided by.
            divided = [balls.clamp(value / divisor, most) for value in row]
            rows.append([v * w + b for v, w, b in zip(divided, scale, shift, strict=True)])
        return arb_mat(rows)

    def divisor(self, state: Sequence[Ball]) -> Ball:
        """What a norm divides a row by, the mean taken out where that is done."""
        square = sum((balls.square(value) for value in state), arb(0)) / len(state)
        return balls.root(square + arb(self.spec.norm_eps))

    def norm_weights(self, name: str) -> tuple[Row, Row]:
        """Scale and shift."""
        ones, zeros = [arb(1)] * self.spec.d_model, [arb(0)] * self.spec.d_model
        if not self.spec.learned_norm:
            return ones, zeros
        shift = self.matrix(f"{name}.b").tolist()[0] if self.spec.centred_norm else zeros
        return self.matrix(f"{name}.w").tolist()[0], shift

    def centring(self) -> Any:
        """Takes the mean out where norms do, and changes nothing where not."""
        d = self.spec.d_model
        mean = 1 / arb(d) if self.spec.centred_norm else arb(0)
        return arb_mat([[arb(int(i == j)) - mean for j in range(d)] for i in range(d)])

    def matrix(self, name: str, head: int | None = None) -> Any:
        """A weight (of one head); a vector is one row."""
        weight = self.weights[name] if head is None else self.weights[name][head]
        return arb_mat(np.atleast_2d(weight).astype(np.float64).tolist())

    def bias(self, name: str, width: int) -> Any:
        """A bias as a row; zeros in a model without."""
        return self.matrix(name) if self.spec.biases else arb_mat(1, width)

    def biased(self, x: Any, name: str, head: int | None = None) -> Any:
        """Every row with a bias added, in a model that has them."""
        if not self.spec.biases:
            return x
        return x + arb_mat(self.matrix(name, head).tolist() * x.nrows())

    # -- who reads what --------------------------------------------------------------------------

    def reader(self, length: int, last_letter: int) -> Spot:
        """The token that reads inputs of so many letters, of which the last one is given."""
        if self.spec.reads == "last_letter":
            return FIRST_LETTER + last_letter, length - 1
        return CLS, length if self.spec.reads == "last" and self.spec.has_positions else 0

    def keys(self, letters: Sequence[Spot], reader: Spot) -> list[Spot]:
        """The tokens that are attended to, given the letters and their places."""
        own = self.spec.attend_cls and self.spec.reads != "last_letter"
        return [*letters, *([reader] * own)]


def scaled(scale: Row, matrix: Any) -> Any:
    rows = zip(scale, matrix.tolist(), strict=True)
    return arb_mat([[w * x for x in row] for w, row in rows])
