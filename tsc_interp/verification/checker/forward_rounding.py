"""How far float32 can be from the reals in the whole forward pass of one layer, norms included.

The assumptions are rounding.py's: sums in any order, with or without fused multiply-adds. A norm
takes the mean out (LayerNorm), divides by √(mean square + ε) or multiplies by its reciprocal, good
to 2 u each, then scales and shifts.

The error of a norm. Let c be what is divided, E_i what its components are off by, and s ≥ √ε its
scale. s is 1-Lipschitz in the root mean square of c, and no vector is longer than √d times the
scale it is divided by. So a normalised component is off by at most (E_i + |E|) / s, the normalised
vector by at most 2 |E| / s in length, and both by a few u of themselves. The length counts: a
reader whose weights have length |w| hears at most |w| times it. At tokens s is known. After
attention it depends on the input: a caller that knows more than s ≥ √ε passes it on
(`inner_scale`). The final norm needs nothing of the kind where outputs are compared: `scaled`
bounds the error times s, and s cancels.

The error of a mean with weights p, each moved by at most a share δ of itself: δ / (1 - δ) times
Σ p |v - mean|, which is at most half the range of v.

Part of the checker. No ball is compared here but by the kernel; what may overflow is `UNKNOWN`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from flint import arb, ctx

from tsc_interp.checkpoints.checkpoint import Checkpoint
from tsc_interp.model.positions import alibi_slopes, rotary, turned_pairs
from tsc_interp.strings import CLS, FIRST_LETTER, PAD
from tsc_interp.verification.checker import kernel
from tsc_interp.verification.checker.budget import require
from tsc_interp.verification.checker.heads import Heads, Row, Spot
from tsc_interp.verification.checker.kernel import UNKNOWN, Ball
from tsc_interp.verification.checker.norm_rounding import Divided, Norm, divided, plain
from tsc_interp.verification.checker.rounding import (
    ACTIVATION_UNITS,
    PRECISION,
    SLOPE,
    TINY,
    Known,
    U,
    add,
    gamma,
    linear,
    within,
)


class Token(NamedTuple):
    """A vector of one token at one place: its real components, and what float32 has of them."""

    real: Row
    known: list[Known]


class ForwardBound:
    """Bounds for one model; all strings of a length at once."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self.heads = Heads(checkpoint)
        self.config, self.weights = self.heads.config, self.heads.weights
        self._kept: dict[Spot, Token] = {}
        self._states: dict[tuple[int, Spot], list[Known]] = {}
        config = self.config
        require(config.n_layers == 1, "float32 rounding is bounded for one layer")
        beyond = ", ".join(config.beyond_verification)
        require(not beyond, f"float32 rounding is not bounded with {beyond}")

    def room(
        self,
        length: int,
        reader: Spot,
        *,
        inner_scale: Ball | None = None,
        outer_scale: Ball | None = None,
        scaled: bool = False,
    ) -> Ball:
        """What the difference of two outputs can be off by, read at this token; an exact number.

        Args:
            length: Letters in the string, given as tokens.
            reader: The token that reads, and its place.
            inner_scale: At most what the norm before the MLP divides by, in the strings meant.
            outer_scale: The same of the final norm.
            scaled: Bound the error times what the final norm divides by.

        Returns:
            The bound for every string of that length, `UNKNOWN` where something may overflow. With
            one output, what that output can be off by.
        """
        with ctx.workprec(PRECISION):
            state = self._before_readout(length, reader, inner_scale)
            found = self._read_out(state, outer_scale, scaled=False)
            if scaled and found.is_finite():  # or what is read out may overflow
                found = self._read_out(state, None, scaled=True)
            return found.upper() if found.is_finite() else UNKNOWN

    def before_mlp(self, length: int, reader: Spot) -> list[Known]:
        """The residual stream after attention, at the token that reads."""
        if (length, reader) not in self._states:
            self._states[length, reader] = self._attended(length, reader)
        return self._states[length, reader]

    def _attended(self, length: int, reader: Spot) -> list[Known]:
        state = self._embedded(reader).known
        if self.config.has_attention:
            heard = self._attention(length, reader)
            out = [row for head in self.weights["blocks.0.attn.W_O"] for row in balls(head)]
            state = add(state, linear(heard, out, self.vector("blocks.0.attn.b_O")))
        return state

    def _before_readout(self, length: int, reader: Spot, inner: Ball | None) -> list[Known]:
        state = self.before_mlp(length, reader)
        if self.config.has_mlp:
            state = add(state, self._mlp(self.divided("blocks.0.ln2", state, inner)))
        return state

    def _read_out(self, state: list[Known], outer: Ball | None, scaled: bool) -> Ball:
        config, most = self.config, arb(1)
        read = plain(state)
        if config.final_norm:
            most = self._most(state) if scaled else most
            read = self.divided("ln_final", state, outer, most if scaled else None)
        bias = self.vector("unembed.b_U")
        bias = bias if bias is None else [most * b for b in bias]
        return read.worst_difference(balls(self.weights["unembed.W_U"]), bias, most)

    # -- tokens ----------------------------------------------------------------------------------

    def _embedded(self, spot: Spot) -> Token:
        real = self.heads.embedded([spot]).tolist()[0]
        units = U if self.config.added_positions else arb(0)
        return Token(real, [Known(abs(x), units * abs(x)) for x in real])

    def _read(self, spot: Spot) -> Token:
        """What attention reads of a token."""
        if spot not in self._kept:
            token = self._embedded(spot)
            if self.config.has_norm:
                centred = (self.heads.embedded([spot]) * self.heads.centring()).tolist()[0]
                token = self._normed_token("blocks.0.ln1", token, centred)
            self._kept[spot] = token
        return self._kept[spot]

    def _normed_token(self, name: str, token: Token, centred: Row) -> Token:
        divisor = self.heads.divisor(centred)
        normal = [value / divisor for value in centred]
        norm = self.norm(name)
        eps = self.config.norm_eps
        known = divided(token.known, norm, divisor.lower(), eps, centred, normal).scaled()
        scale = norm.scale or [arb(1)] * len(normal)
        shift = norm.shift or [arb(0)] * len(normal)
        real = [x * w + b for x, w, b in zip(normal, scale, shift, strict=True)]
        return _of(real, known)

    def _projected(self, part: str, head: int, read: Token) -> Token:
        matrix = balls(self.weights[f"blocks.0.attn.W_{part}"][head])
        bias = self.vector(f"blocks.0.attn.b_{part}", head)
        real = [kernel.dot(read.real, column) for column in zip(*matrix, strict=True)]
        real = real if bias is None else [x + b for x, b in zip(real, bias, strict=True)]
        return _of(real, linear(read.known, matrix, bias))

    def _met(self, part: str, head: int, spot: Spot) -> Token:
        """A query or key as it meets the other."""
        config, token = self.config, self._read(spot)
        if config.positions == "shortformer":
            places = self.heads.places([spot]).tolist()[0]
            real = [x + p for x, p in zip(token.real, places, strict=True)]
            token = _of(real, add(token.known, [Known(abs(p), arb(0)) for p in places]))
        token = self._projected(part, head, token)
        if config.qk_norm != "off":
            token = self._normed_token(f"blocks.0.attn.{part.lower()}_norm", token, token.real)
        return self._turned(token, spot[1]) if config.positions == "rotary" else token

    def _turned(self, token: Token, place: int) -> Token:
        config, real, known = self.config, list(token.real), list(token.known)
        table = rotary(config.n_positions, config.turned, config.rotary_base)
        pairs = zip(*turned_pairs(config.turned, config.rotary_adjacent_pairs), strict=True)
        for index, (i, j) in enumerate(pairs):
            cos, sin = (arb(float(number)) for number in table[place, :, index])
            a, b = token.real[i], token.real[j]
            real[i], real[j] = cos * a - sin * b, cos * b + sin * a
            of = [token.known[i], token.known[j]]
            known[i] = linear(of, [[cos], [sin]], None)[0]
            known[j] = linear(of, [[sin], [cos]], None)[0]
        return _of(real, known)

    # -- attention -------------------------------------------------------------------------------

    def _spots(self, length: int, reader: Spot) -> tuple[list[Spot], list[Spot]]:
        """Keys that may be attended to, and masked ones, of which only overflow matters."""
        config, vocab = self.config, self.config.alphabet.vocab_size
        first = int(config.reads == "first")
        places = range(first, length + first) if config.has_positions else range(1)
        later = range(config.n_positions) if config.has_positions else range(1)
        letters = [(token, place) for place in places for token in range(FIRST_LETTER, vocab)]
        own = [reader] if config.attend_cls and reader[0] == CLS else []
        masked = [(PAD, place) for place in later] + ([] if own or reader[0] != CLS else [reader])
        return letters + own, masked

    def _attention(self, length: int, reader: Spot) -> list[Known]:
        """What all heads hear, component by component."""
        attended, masked = self._spots(length, reader)
        found: list[Known] = []
        for head in range(self.config.n_heads):
            query = self._met("Q", head, reader)
            keys = [*attended, *masked]
            scores = [self._score(head, query, reader, key, length) for key in keys]
            values = [self._projected("V", head, self._read(key)) for key in keys]
            held = [token.known for token in values]
            finite = all(one.error.is_finite() for row in [scores, *held] for one in row)
            kept = scores[: len(attended)]
            apart = 2 * kernel.largest([s + e for s, e in kept])
            moved = kernel.largest([error for _, error in kept])
            # A score that is moved, the difference to the largest, and exp.
            share = (moved + U * apart + 9 * U).exp() - 1
            if not (finite and kernel.is_less(share, arb(1) / 4)):
                share = UNKNOWN
            seen = values[: len(attended)]
            for index in range(self.config.d_head):
                column = [(token.real[index], token.known[index]) for token in seen]
                found.append(_mixed(column, share, length + 1))
        return found

    def _score(self, head: int, query: Token, reader: Spot, spot: Spot, length: int) -> Known:
        config, key = self.config, self._met("K", head, spot)
        pairs = list(zip(query.known, key.known, strict=True))
        reach = sum(((q.size + q.error) * (k.size + k.error) for q, k in pairs), arb(0))
        moved = sum((q.error * (k.size + k.error) + q.size * k.error for q, k in pairs), arb(0))
        terms = len(pairs) + 1
        stated = config.attention_scale
        factor, units = 1 / (arb(stated) if stated else arb(config.d_head).sqrt()), 3
        if config.log_n:
            factor, units = factor * arb(max(length + config.cls_counted, 2)).log(), 13
        size = abs(kernel.dot(query.real, key.real)) * factor
        error = (moved + gamma(terms) * reach + terms * TINY) * factor
        error = error + units * U * (size + error) * (1 + units * U)
        if config.positions == "alibi":
            taken = arb(float(alibi_slopes(config.n_heads)[head])) * max(reader[1] - spot[1], 0)
            size, error = size + taken, error + 2 * U * (size + error + 2 * taken) + TINY
        return within(reach + size + error, Known(size, error))

    # -- norms and the MLP -------------------------------------------------------------------------

    def norm(self, name: str) -> Norm:
        """The kind, scale and shift of the norm of that name."""
        config = self.config
        if "_norm" in name:
            scale = self.vector(f"{name}.w", biased=True) if config.qk_norm == "rms" else None
            return Norm(False, scale, None)
        scale = self.vector(f"{name}.w", biased=True) if config.learned_norm else None
        shifted = config.learned_norm and config.centred_norm
        shift = self.vector(f"{name}.b", biased=True) if shifted else None
        return Norm(config.centred_norm, scale, shift)

    def _most(self, state: Sequence[Known]) -> Ball:
        """What a norm of this state divides by at most."""
        square = sum((known.size**2 for known in state), arb(0)) / len(state)
        return kernel.root(square + arb(self.config.norm_eps)).upper()

    def divided(
        self, name: str, state: list[Known], least: Ball | None, most: Ball | None = None
    ) -> Divided:
        """A state that depends on the string; with `most`, times what it is divided by."""
        if not self.config.has_norm:
            return plain(state)
        if most is not None:
            return divided(state, self.norm(name), arb(1), self.config.norm_eps, most=most)
        least = arb(self.config.norm_eps).sqrt().lower() if least is None else least
        return divided(state, self.norm(name), least, self.config.norm_eps)

    def _mlp(self, read: Divided) -> list[Known]:
        config, name = self.config, "blocks.0.mlp"
        into, bias = balls(self.weights[f"{name}.W_in"]), self.vector(f"{name}.b_in")
        if config.gated_mlp:
            gates = self._activated(read.through(balls(self.weights[f"{name}.W_gate"]), None))
            opened = zip(gates, read.through(into, None), strict=True)
            post = [_product(gate, x) for gate, x in opened]
            if bias is not None:
                post = add(post, [Known(abs(b), arb(0)) for b in bias])
        else:
            post = self._activated(read.through(into, bias))
        out = self.vector(f"{name}.b_out")
        return linear(post, balls(self.weights[f"{name}.W_out"]), out)

    def _activated(self, pre: Sequence[Known]) -> list[Known]:
        units = ACTIVATION_UNITS[self.config.act_fn] * U
        return [Known(s, SLOPE * e + units * (s + e) + TINY) for s, e in pre]

    def vector(self, name: str, head: int | None = None, biased: bool = False) -> Row | None:
        """A bias, None in a model without; with `biased`, any vector."""
        if not (biased or self.config.biases):
            return None
        row: Row = self.heads.matrix(name, head).tolist()[0]
        return row


def _of(real: Row, known: Sequence[Known]) -> Token:
    """With the real sizes, which are known here."""
    return Token(real, [Known(abs(x), one.error) for x, one in zip(real, known, strict=True)])


def balls(matrix: Any) -> list[Row]:
    """An array of weights as exact numbers."""
    return [[arb(x) for x in row] for row in matrix.astype(float).tolist()]


def _product(a: Known, b: Known) -> Known:
    reach = (a.size + a.error) * (b.size + b.error)
    error = a.error * (b.size + b.error) + a.size * b.error + U * reach + TINY
    return within(reach, Known(a.size * b.size, error))


def _mixed(values: Sequence[tuple[Ball, Known]], share: Ball, keys: int) -> Known:
    """A mean of these, each weight off by at most this share of itself before it is divided."""
    size = kernel.largest([known.size for _, known in values])
    error = kernel.largest([known.error for _, known in values])
    reals = [real for real, _ in values]
    spread = (kernel.largest(reals) - kernel.smallest(reals)) / 2
    # The sum of weights, the division, and the sum of products.
    units = gamma(keys) + gamma(keys + 1) + 4 * U
    moved = share / (1 - share) * (spread + 2 * error)
    error = error + moved + (size + error + moved) * units * (1 + units)
    return Known(size, error + keys * TINY * (1 + size))
