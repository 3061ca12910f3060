"""The real-number model: float32 weights are exact rationals, and everything else is an `arb` ball.

A ball holds the true real number, so a ball that does not touch zero proves a sign. `exact_sign`
raises the precision until that happens; what still touches zero at the highest precision is
reported as undecided, never guessed. (A logit that is exactly zero by cancellation cannot be
proved so this way; one that is zero because weights are zero can, and counts as negative.)

Two of a model's outputs are one logit: the upper minus the lower (`pair`), whose sign says which of
the two is larger, zero counting for the lower one. So two outputs are verified as one is, and
several as all their pairs (classes.py).

High precision is slow, so an `ExactModel` has a budget for signs. When it is spent, every further
sign is undecided.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from flint import arb, arb_mat, ctx

from tsc_interp.checkpoints.format import Checkpoint
from tsc_interp.checkpoints.resolve import as_checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import UnsupportedError
from tsc_interp.strings import CLS, FIRST_LETTER

PRECISIONS = (128, 512, 2048, 8192)
COST = {128: 1, 512: 2, 2048: 7, 8192: 50}
"""How much longer a logit takes than at 128 bits, measured."""

SIGN_BUDGET = 60_000_000
"""For all signs of one `ExactModel`, in microseconds of a 2020s processor: about a minute."""


Pair = tuple[int, int]
"""Two outputs, the lower index first."""


def only_pair(config: ClassifierConfig) -> Pair | None:
    """What decides between two classes: the one logit (None), or the difference of two."""
    if config.n_outputs > 2:
        raise UnsupportedError(
            f"this model has {config.n_outputs} outputs, and what is asked here needs a model of "
            "two classes. The difference of two outputs is one logit: "
            "tsc.from_transformer_lens(model, classes=(0, 1))"
        )
    return (0, 1) if config.n_outputs == 2 else None


def checkpoint_of(model: Any, reading: Mapping[str, Any] | None = None) -> Checkpoint:
    """The weights to verify, of whatever stands for a model.

    With `reading`, a model of TransformerLens is taken over first: `from_transformer_lens`'s
    options.
    """
    if reading is not None:
        from tsc_interp.model.importing import taken_over

        model = taken_over(model, reading)
    checkpoint = as_checkpoint(model)
    config = checkpoint.config
    if config.has_positions:
        raise UnsupportedError(
            "this model has positions, so its logit depends on the order of the letters and not on "
            "their counts alone; exact verification of counts needs a model with n_positions = 0. "
            "tsc.verify_ordered decides one layer with positions, length by length"
        )
    if config.needs_order:
        raise UnsupportedError(
            "this model's attention is causal and what it reads depends on the order of the "
            "letters; exact verification of counts needs attention both ways, or one causal layer "
            "read at a token of its own. tsc.verify_ordered decides one layer, length by length"
        )
    if config.beyond_verification:
        raise UnsupportedError(
            f"this model has {', '.join(config.beyond_verification)}: there are no bounds over "
            "boxes of strings for that, so nothing can be searched or proved; tsc.evaluate "
            "answers for single strings"
        )
    return checkpoint


class ExactModel:
    """One classifier over the reals, evaluated on letter counts at the working precision.

    With `pair` it has one output, the upper of these two minus the lower.
    """

    def __init__(self, checkpoint: Checkpoint, pair: Pair | None = None) -> None:
        self.config, self.pair = checkpoint.config, pair
        self.weights: Mapping[str, np.ndarray] = checkpoint.weights
        self._matrices: dict[tuple[str, int], Any] = {}
        self.budget = SIGN_BUDGET

    def matrix(self, name: str, head: int = -1) -> Any:
        """A weight (of one head) as an exact matrix; vectors become one row."""
        if (name, head) not in self._matrices:
            weight = self.weights[name] if head < 0 else self.weights[name][head]
            rows = np.atleast_2d(weight).astype(np.float64).tolist()
            self._matrices[name, head] = arb_mat(rows)
            if self.pair is not None and name.startswith("unembed."):
                lower, upper = self.pair
                self._matrices[name, head] = exact_differences(rows, [upper], [lower])
        return self._matrices[name, head]

    @cached_property
    def _embedding(self) -> list[list[Any]]:
        return [[arb(x) for x in row] for row in self.weights["embed.W_E"].astype(float).tolist()]

    def embed(self, letters: Sequence[int]) -> Any:
        """CLS and these letters, a row each."""
        return arb_mat([self._embedding[t] for t in (CLS, *(FIRST_LETTER + i for i in letters))])

    def norm(self, name: str, x: Any) -> Any:
        """RMS or LayerNorm of every row."""
        config = self.config
        if not config.has_norm:
            return x
        rows = []
        for row in x.tolist():
            if config.centred_norm:
                mean = sum(row, arb(0)) / len(row)
                row = [value - mean for value in row]
            square = sum((value * value for value in row), arb(0)) / len(row)
            root = (square + arb(config.norm_eps)).sqrt()
            row = [value / root for value in row]
            if config.learned_norm:
                scale = self.matrix(f"{name}.w").tolist()[0]
                row = [value * w for value, w in zip(row, scale, strict=True)]
            rows.append(row)
        normal = arb_mat(rows)
        shifted = config.learned_norm and config.centred_norm
        return normal + self._rows(f"{name}.b", len(rows)) if shifted else normal

    def _rows(self, name: str, count: int, head: int = -1) -> Any:
        """A vector of weights, once for every row."""
        return arb_mat(self.matrix(name, head).tolist() * count)

    def biased(self, x: Any, name: str, head: int = -1) -> Any:
        """With this bias added to every row, in a model that has biases."""
        return x + self._rows(name, x.nrows(), head) if self.config.biases else x

    def scores(self, layer: int, head: int, read: Any) -> Any:
        """q · k / sqrt(d_head), `[query key]`, before any factor log n."""
        name = f"blocks.{layer}.attn"
        q, k = (
            self.biased(read * self.matrix(f"{name}.W_{part}", head), f"{name}.b_{part}", head)
            for part in "QK"
        )
        return q * k.transpose() * (1 / arb(self.config.d_head).sqrt())

    def values(self, layer: int, head: int, read: Any) -> Any:
        """What attending to each token adds to the residual: `[key d_model]`."""
        name = f"blocks.{layer}.attn"
        v = self.biased(read * self.matrix(f"{name}.W_V", head), f"{name}.b_V", head)
        return v * self.matrix(f"{name}.W_O", head)

    def logit(self, counts: Sequence[int]) -> Any:
        """The logit of a count vector, as a ball at the working precision."""
        x = self.read(counts)
        return self.biased(x * self.matrix("unembed.W_U"), "unembed.b_U")[0, 0]

    def read(self, counts: Sequence[int]) -> Any:
        """What the outputs are read from: a row per token, CLS's first."""
        letters = [i for i, count in enumerate(counts) if count]
        multiplicity = [int(self.config.attend_cls), *(int(counts[i]) for i in letters)]
        n = sum(int(c) for c in counts) + self.config.cls_counted
        stretch = arb(n).log() if self.config.log_n else arb(1)
        x = self.embed(letters)
        for layer in range(self.config.n_layers):
            if self.config.has_attention:
                read = self.norm(f"blocks.{layer}.ln1", x)
                for head in range(self.config.n_heads):
                    pattern = _attend(self.scores(layer, head, read) * stretch, multiplicity)
                    x = x + pattern * self.values(layer, head, read)
                x = self.biased(x, f"blocks.{layer}.attn.b_O")
            if self.config.has_mlp:
                mlp, read = f"blocks.{layer}.mlp", self.norm(f"blocks.{layer}.ln2", x)
                pre = self.biased(read * self.matrix(f"{mlp}.W_in"), f"{mlp}.b_in")
                act = ACTIVATIONS[self.config.act_fn]
                post = arb_mat([[act(value) for value in row] for row in pre.tolist()])
                x = self.biased(x + post * self.matrix(f"{mlp}.W_out"), f"{mlp}.b_out")
        return self.norm("ln_final", x) if self.config.final_norm else x

    def sign(self, counts: Sequence[int]) -> int | None:
        """+1 if the logit is positive, -1 if it is negative or exactly zero, None if undecided."""
        cost = self.cost(sum(1 for count in counts if count))
        for precision in PRECISIONS:
            if self.budget <= 0:
                return None
            self.budget -= cost * COST[precision]
            with ctx.workprec(precision):
                logit = self.logit(counts)
            if logit > 0:
                return 1
            if logit < 0 or logit.is_zero():
                return -1
        return None

    def cost(self, letters: int) -> int:
        """About how many microseconds a logit takes at 128 bits; the same on every machine."""
        config, tokens = self.config, 1 + letters
        head = config.d_model * config.d_head * 4 + tokens * (config.d_head + config.d_model)
        products = tokens * (config.n_heads * head + 2 * config.d_model * config.d_mlp)
        functions = tokens * (config.n_heads * tokens + config.d_mlp)
        return 150 + config.n_layers * (products // 10 + 8 * functions)

    def rounded(self, counts: Sequence[int]) -> float:
        """The logit rounded to float64, if any precision tells that many digits."""
        for precision in PRECISIONS:
            with ctx.workprec(precision):
                logit = self.logit(counts)
            if logit.rel_accuracy_bits() > 60 or logit.is_zero():
                break
        return float(logit)


def exact_differences(
    rows: Sequence[Sequence[float]], uppers: Sequence[int], lowers: Sequence[int]
) -> Any:
    """Columns minus columns, exactly: 512 bits hold any difference of two float32 numbers."""
    pairs = list(zip(uppers, lowers, strict=True))
    with ctx.workprec(512):
        return arb_mat([[arb(row[a]) - arb(row[b]) for a, b in pairs] for row in rows])


def judged(differences: Sequence[Any], label: int) -> int | None:
    """Of one output minus each: -1 if it is the largest, a class that beats it, or None."""
    open_ = False
    for j, gap in enumerate(differences):
        if j == label:
            continue
        # A tie goes to the lower index.
        if gap < 0 or (j < label and gap.is_zero()):
            return j
        if not (gap > 0 or (j > label and gap.is_zero())):
            open_ = True
    return None if open_ else -1


def gelu(x: Any) -> Any:
    """x Φ(x), written with erfc so that far negative x keep their relative accuracy."""
    return x * (-x / arb(2).sqrt()).erfc() / 2


def _gelu_new(x: Any) -> Any:
    """GELU with tanh in place of erf; x times a logistic function is the same, and keeps digits."""
    inner = (arb(2) / arb.pi()).sqrt() * (x + arb(44715) / 10**6 * x**3)
    return x / (1 + (-2 * inner).exp())


ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "gelu": gelu,
    "gelu_new": _gelu_new,
    "silu": lambda x: x / (1 + (-x).exp()),
    "relu": lambda x: x.max(arb(0)),
}


def _attend(scores: Any, multiplicity: Sequence[int]) -> Any:
    """Attention weights `[query key]`, the largest attended score taken out of every row."""
    rows = []
    for row in scores.tolist():
        attended = list(zip(row, multiplicity, strict=True))
        largest = max(s.mid() for s, m in attended if m)
        raw = [(s - largest).exp() * m if m else arb(0) for s, m in attended]
        total = sum(raw, arb(0))
        rows.append([weight / total for weight in raw])
    return arb_mat(rows)
