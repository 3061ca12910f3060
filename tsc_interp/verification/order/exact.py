"""One layer that sees positions, over the reals: float32 weights are exact, the rest `arb` balls.

The token that reads (CLS, or the last letter) asks every key once, and a key is a token at a place,
so scores and values are constants. What lies between attention and the outputs is linear, but for
norms and the activation.

One output is written as two, of which the first is always zero: then an answer is the index of the
largest output, the lowest where several are equal, for any number of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from flint import arb, arb_mat, arb_series, ctx

from tsc_interp.checkpoints.checkpoint import Checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import UnsupportedError
from tsc_interp.strings import CLS, FIRST_LETTER
from tsc_interp.trusted.positions import alibi_slopes, rotary, sinusoidal, turned_pairs
from tsc_interp.verification.bounds.exact import ACTIVATIONS, PRECISIONS, ExactModel, judged

Matrix = Any
"""A `flint.arb_mat`."""


def require_one_layer(config: ClassifierConfig) -> None:
    if config.beyond_verification:
        raise UnsupportedError(
            f"this model has {', '.join(config.beyond_verification)}: there are no bounds for that"
        )
    if config.n_layers != 1:
        raise UnsupportedError(
            f"strings in their order are verified for one layer; this model has {config.n_layers}. "
            "tsc.falsify searches models of any depth for wrong inputs, and decides every input of "
            "a small frame with exhaustive=True (tsc-interp falsify --every)"
        )


def letter_places(config: ClassifierConfig, length: int) -> range:
    """Where the letters of a string stand in its row of tokens."""
    return range(1, length + 1) if config.reads == "first" else range(length)


def longest_string(config: ClassifierConfig) -> int | None:
    """Letters that fit into the model's positions; None: any number."""
    return config.n_positions - int(config.has_cls) if config.has_positions else None


class OrderedExact(ExactModel):
    """Pieces of the forward pass at the working precision."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        require_one_layer(checkpoint.config)
        super().__init__(checkpoint)
        self._heard: dict[Any, dict[tuple[int, int], tuple[Any, list[Any]]]] = {}

    def bias(self, name: str, width: int) -> Matrix:
        return self.matrix(name) if self.config.biases else arb_mat(1, width)

    def embed_at(self, tokens: Sequence[tuple[int, int]]) -> Matrix:
        """(token, place) pairs, a row each; the sum of two float32 numbers is exact at 128 bits."""
        rows = self.weights["embed.W_E"][[token for token, _ in tokens]].astype(np.float64)
        embedded = arb_mat(rows.tolist())
        return embedded + self._places(tokens) if self.config.added_positions else embedded

    def _places(self, tokens: Sequence[tuple[int, int]]) -> Matrix:
        """What is added for each token's place."""
        table = sinusoidal(self.config.n_positions, self.config.d_model)
        if self.config.learned_positions:
            table = self.weights["pos_embed.W_pos"]
        return arb_mat(table[[place for _, place in tokens]].astype(np.float64).tolist())

    def reading_tokens(self, length: int) -> list[tuple[int, int]]:
        """The tokens that may read: CLS, or each letter at the last place."""
        if self.config.reads == "last_letter":
            letters = range(self.config.n_letters)
            return [(FIRST_LETTER + letter, length - 1) for letter in letters]
        return [(CLS, 0 if self.config.reads == "first" else length)]

    def norm_weights(self, name: str) -> tuple[list[Any], list[Any]]:
        d = self.config.d_model
        scale, shift = [arb(1)] * d, [arb(0)] * d
        if self.config.learned_norm:
            scale = self.matrix(f"{name}.w").tolist()[0]
            shift = self.matrix(f"{name}.b").tolist()[0] if self.config.centred_norm else shift
        return scale, shift

    def centring(self) -> Matrix:
        d, centred = self.config.d_model, self.config.centred_norm
        share = 1 / arb(d) if centred else arb(0)
        return arb_mat([[arb(int(i == j)) - share for j in range(d)] for i in range(d)])

    def heard(
        self,
        head: int,
        readers: Sequence[tuple[int, int]],
        keys: Sequence[tuple[int, int]],
        length: int,
    ) -> tuple[Matrix, Matrix]:
        """How much each reader asks for each key, and what each key would add.

        This is all that attention of one layer depends on, for every option of the family.

        Args:
            head: Which head.
            readers: (token, place) pairs that ask.
            keys: (token, place) pairs that may be attended to.
            length: Letters in the string, whose log scores may be scaled by.

        Returns:
            Scores `[reader key]` and values `[key d_model]`, with `W_O` and without `b_O`.
        """
        factor = 1 / self.score_divisor()
        if self.config.log_n:
            factor = factor * arb(length + self.config.cls_counted).log()
        asks, offers = self._projected("Q", head, readers), self._projected("K", head, keys)
        scores = asks * offers.transpose() * factor
        if self.config.positions == "alibi":
            slope = arb(float(alibi_slopes(self.config.n_heads)[head]))
            back = [[min(p - r, 0) for _, p in keys] for _, r in readers]
            scores = scores + arb_mat([[slope * steps for steps in row] for row in back])
        return scores, self.values(0, head, self.norm("blocks.0.ln1", self.embed_at(keys)))

    def _projected(self, part: str, head: int, tokens: Sequence[tuple[int, int]]) -> Matrix:
        """Queries or keys as they meet: normed and turned, where the model does that."""
        config, name = self.config, "blocks.0.attn"
        read = self.norm("blocks.0.ln1", self.embed_at(tokens))
        if config.positions == "shortformer":
            read = read + self._places(tokens)
        rows = self.biased(read * self.matrix(f"{name}.W_{part}", head), f"{name}.b_{part}", head)
        if config.qk_norm != "off":
            rows = self._head_norm(f"{name}.{part.lower()}_norm.w", rows)
        return self._turned(rows, tokens) if config.positions == "rotary" else rows

    def _head_norm(self, name: str, x: Matrix) -> Matrix:
        scale = [arb(1)] * self.config.d_head
        if self.config.qk_norm == "rms":
            scale = self.matrix(name).tolist()[0]
        rows = []
        for row in x.tolist():
            square = sum((value * value for value in row), arb(0)) / len(row)
            root = (square + arb(self.config.norm_eps)).sqrt()
            rows.append([value / root * w for value, w in zip(row, scale, strict=True)])
        return arb_mat(rows)

    def _turned(self, x: Matrix, tokens: Sequence[tuple[int, int]]) -> Matrix:
        config, rows = self.config, x.tolist()
        table = rotary(config.n_positions, config.turned, config.rotary_base)
        pairs = list(zip(*turned_pairs(config.turned, config.rotary_adjacent_pairs), strict=True))
        for row, (_, place) in zip(rows, tokens, strict=True):
            cosines, sines = table[place].astype(np.float64).tolist()
            for (i, j), cos, sin in zip(pairs, cosines, sines, strict=True):
                row[i], row[j] = row[i] * cos - row[j] * sin, row[j] * cos + row[i] * sin
        return arb_mat(rows)

    def unembedding(self) -> tuple[Matrix, Matrix]:
        """Columns of the outputs, and their biases; one output becomes two, the first zero."""
        columns = self.matrix("unembed.W_U")
        bias = self.bias("unembed.b_U", self.config.n_outputs)
        if self.config.n_outputs > 1:
            return columns, bias
        return (
            arb_mat([[arb(0), *row] for row in columns.tolist()]),
            arb_mat([[arb(0), *bias.tolist()[0]]]),
        )

    def read_by_neurons(self, name: str, state: Matrix | None) -> tuple[Matrix, Matrix]:
        """A matrix of the MLP with the norm's own weights, and what is added after its division."""
        into = self.matrix(f"blocks.0.mlp.{name}")
        if state is None:
            return into, arb_mat(1, into.ncols())
        scale, shifted = self.norm_weights("blocks.0.ln2")
        return state * scaled(scale, into), arb_mat([shifted]) * into

    def residual(self, reading: Matrix) -> Matrix:
        """What the reading token itself brings: its embedding, and attention's own bias."""
        if not self.config.has_attention:
            return reading
        return self.biased(reading, "blocks.0.attn.b_O")

    def mlp_constant(self) -> Matrix:
        """What the MLP adds whatever it reads: a gated one has its first bias after the gates."""
        if not self.config.gated_mlp:
            return self.mlp_bias()
        first = self.bias("blocks.0.mlp.b_in", self.config.d_mlp)
        return first * self.matrix("blocks.0.mlp.W_out") + self.mlp_bias()

    def mlp_bias(self) -> Matrix:
        if not self.config.has_mlp:
            return arb_mat(1, self.config.d_model)
        return self.bias("blocks.0.mlp.b_out", self.config.d_model)

    # -- one string ----------------------------------------------------------------------------

    def differences(self, string: Sequence[int], label: int) -> list[Any]:
        """The label's output minus each other one's."""
        gaps, _, scale = self.scaled_gaps(self.stream(string), label, slopes=False)
        return [gap / scale for gap in gaps.tolist()[0]]

    def stream(self, string: Sequence[int]) -> Matrix:
        """The residual stream of the reading token after attention, one row."""
        config, length = self.config, len(string)
        places = letter_places(config, length)
        letters = [(FIRST_LETTER + i, p) for i, p in zip(string, places, strict=True)]
        reads_last = config.reads == "last_letter"
        asking = letters[-1] if reads_last else self.reading_tokens(length)[0]
        keys = [asking, *letters] if config.attend_cls and not reads_last else letters
        x = self.residual(self.embed_at([asking]))
        for head in range(config.n_heads if config.has_attention else 0):
            heard = self._known(head, asking, keys, length)
            weights = [heard[key][0] for key in keys]
            total = 1 / sum(weights, arb(0))
            x = x + arb_mat([weights]) * arb_mat([heard[key][1] for key in keys]) * total
        return x

    def _known(
        self, head: int, asking: tuple[int, int], keys: Sequence[tuple[int, int]], length: int
    ) -> dict[tuple[int, int], tuple[Any, list[Any]]]:
        """exp(score) and value of each key, computed once for all strings."""
        known = self._heard.setdefault((ctx.prec, head, asking, length), {})
        missing = [key for key in keys if key not in known]
        if missing:
            scores, values = self.heard(head, [asking], missing, length)
            rows = zip(missing, scores.tolist()[0], values.tolist(), strict=True)
            known.update((key, (score.exp(), row)) for key, score, row in rows)
        return known

    def instead(self, string: Sequence[int], label: int) -> int | None:
        """-1 if the label wins, another class that beats it if not, None if it cannot be told."""
        for precision in PRECISIONS:
            with ctx.workprec(precision):
                winner = judged(self.differences(string, label), label)
            if winner is not None:
                return winner
        return None

    # -- margins and their slopes ----------------------------------------------------------------

    def scaled_gaps(self, x: Matrix, label: int, slopes: bool = True) -> tuple[Matrix, Matrix, Any]:
        """Margins of a residual stream before the MLP, one row, times the final norm's scale.

        Returns:
            The label's output minus each other one's, their slopes `[d class]` by x (without
            `slopes` no rows), and the scale, which is 1 without a final norm.
        """
        d = self.config.d_model
        y = x
        moved = arb_mat(0, d)
        if slopes:
            moved = arb_mat([[int(i == j) for j in range(d)] for i in range(d)])
        if self.config.has_mlp:
            post, steep = self._mlp_slopes(*self._norm_slopes(x, moved))
            out = self.matrix("blocks.0.mlp.W_out")
            y, moved = y + post * out + self.mlp_bias(), moved + steep * out
        columns, bias = (part.tolist() for part in self.unembedding())
        # Subtract weights first: equal columns then give exactly zero.
        gaps = arb_mat([[row[label] - value for value in row] for row in columns])
        constant = arb_mat([[bias[0][label] - value for value in bias[0]]])
        if not self.config.final_norm:
            return y * gaps + constant, moved * gaps, arb(1)
        scale, shift = self.norm_weights("ln_final")
        y, moved = self._centred(y), self._centred(moved)
        root = self._root(y)
        constant = constant + arb_mat([shift]) * gaps
        toward = moved * y.transpose() * (1 / (d * root))
        y, moved = _columns(y, scale), _columns(moved, scale)
        return y * gaps + constant * root, moved * gaps + toward * constant, root

    def _centred(self, rows: Matrix) -> Matrix:
        """As the norm reads them: less their means, where it centres."""
        if not self.config.centred_norm:
            return rows
        d = rows.ncols()
        means = rows * arb_mat(d, 1, [1 / arb(d)] * d)
        return rows - means * arb_mat(1, d, [1] * d)

    def _root(self, state: Matrix) -> Any:
        square = (state * state.transpose())[0, 0] / state.ncols()
        return (square + arb(self.config.norm_eps)).sqrt()

    def _norm_slopes(self, x: Matrix, moved: Matrix) -> tuple[Matrix, Matrix]:
        """The norm before the MLP of one row, and its slopes."""
        if not self.config.has_norm:
            return x, moved
        scale, shift = self.norm_weights("blocks.0.ln2")
        state, moved = self._centred(x), self._centred(moved)
        t = 1 / self._root(state)
        toward = moved * state.transpose() * state * (t**3 / state.ncols())
        normal = _columns(state * t, scale) + arb_mat([shift])
        return normal, _columns(moved * t - toward, scale)

    def _mlp_slopes(self, read: Matrix, moved: Matrix) -> tuple[Matrix, Matrix]:
        """Activations of one row, and their slopes."""
        name, act = "blocks.0.mlp", ACTIVATIONS[self.config.act_fn]
        into, gated = self.matrix(f"{name}.W_in"), self.config.gated_mlp
        pre, slopes = read * into, moved * into
        if not gated:
            pre = self.biased(pre, f"{name}.b_in")
        opened = read * self.matrix(f"{name}.W_gate") if gated else pre
        row = opened.tolist()[0]
        value = [act(z) for z in row]
        steep = [_slope(self.config.act_fn, z) for z in row] if moved.nrows() else value
        if not gated:
            return arb_mat([value]), _columns(slopes, steep)
        more = _columns(moved * self.matrix(f"{name}.W_gate"), steep)
        plain = pre.tolist()[0]
        post = self.biased(_columns(pre, value), f"{name}.b_in")
        return post, _columns(slopes, value) + _columns(more, plain)


def scaled(scale: Sequence[Any], matrix: Matrix) -> Matrix:
    """Each row times a number."""
    rows = zip(scale, matrix.tolist(), strict=True)
    return arb_mat([[w * value for value in row] for w, row in rows])


def _slope(name: str, x: Any) -> Any:
    """Of an activation, wherever in the ball x."""
    if name == "relu":
        return arb(1) if x > 0 else arb(0) if x < 0 else arb(0.5, 0.5)
    try:
        return ACTIVATIONS[name](arb_series([x, 1], 2))[1]
    except ValueError:  # a ball so wide that a denominator may be zero
        return arb("nan")


def _columns(matrix: Matrix, scale: Sequence[Any]) -> Matrix:
    """Each column times a number."""
    return arb_mat(
        matrix.nrows(),
        matrix.ncols(),
        [a * b for row in matrix.tolist() for a, b in zip(row, scale, strict=True)],
    )
