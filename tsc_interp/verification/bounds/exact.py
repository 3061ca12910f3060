"""The real-number model: float32 weights are exact rationals, and everything else is an `arb` ball.

A ball holds the true real number, so a ball that does not touch zero proves a sign. `right` raises
the precision until every comparison of outputs is decided; what no precision decides is reported as
undecided, never guessed. (Outputs that are equal by cancellation cannot be proved so this way;
outputs that are equal because their weights are can, and the lower index wins.)

A model of one output has two: the first of them is zero. So two classes are compared like more.

High precision is slow, so an `ExactModel` has a budget for decisions. When it is spent, every
further one is undecided.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from flint import arb, arb_mat, ctx

from tsc_interp.checkpoints.checkpoint import Checkpoint
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
"""Two outputs, the lower index first; their difference is the upper minus the lower."""
LOGIT: Pair = (0, 1)
"""What decides between two classes."""


def require_two_classes(config: ClassifierConfig) -> None:
    """Refuse a model that has no single logit."""
    if config.n_outputs > 2:
        raise UnsupportedError(
            f"this model has {config.n_outputs} outputs, and what is asked here needs a model of "
            "two classes. The difference of two outputs is one logit: "
            "tsc.from_transformer_lens(model, classes=(0, 1))"
        )


def checkpoint_of(model: Any) -> Checkpoint:
    """The weights to verify, of whatever stands for a model."""
    checkpoint = as_checkpoint(model)
    config = checkpoint.config
    if config.has_positions:
        raise UnsupportedError(
            "this model has positions, so its logit depends on the order of the letters and not on "
            "their counts alone; exact verification of counts needs a model with n_positions = 0. "
            + _instead(config)
        )
    if config.needs_order:
        raise UnsupportedError(
            "this model's attention is causal and what it reads depends on the order of the "
            "letters; exact verification of counts needs attention both ways, or one causal layer "
            "read at a token of its own. " + _instead(config)
        )
    if config.beyond_counts:
        raise UnsupportedError(
            f"this model has {', '.join(config.beyond_counts)}: there are no bounds over "
            "boxes of strings for that, so nothing can be searched or proved; tsc.evaluate "
            "answers for single strings"
        )
    return checkpoint


def _instead(config: ClassifierConfig) -> str:
    """What can be asked of a model that sees order."""
    if config.n_layers == 1:
        return "tsc.verify decides this model length by length"
    return (
        f"order is verified for one layer, and this model has {config.n_layers}; tsc.falsify "
        "searches for wrong inputs at any depth"
    )


class ExactModel:
    """One classifier over the reals, evaluated on letter counts at the working precision."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        checkpoint = checkpoint.expanded()
        self.config = checkpoint.config
        self.n_classes = max(self.config.n_outputs, 2)
        self.weights: Mapping[str, np.ndarray] = checkpoint.weights
        self._matrices: dict[tuple[str, int], Any] = {}
        self.budget = SIGN_BUDGET

    def matrix(self, name: str, head: int = -1) -> Any:
        """A weight (of one head) as an exact matrix; vectors become one row."""
        if (name, head) not in self._matrices:
            weight = self.weights[name] if head < 0 else self.weights[name][head]
            rows = np.atleast_2d(weight).astype(np.float64).tolist()
            self._matrices[name, head] = arb_mat(rows)
        return self._matrices[name, head]

    def outputs(self, name: str) -> list[list[float]]:
        """A weight of the read-out, a column per output: a single one has a zero before it."""
        rows: list[list[float]] = np.atleast_2d(self.weights[name]).astype(np.float64).tolist()
        return [[0.0, *row] for row in rows] if self.config.n_outputs == 1 else rows

    def unembed(self, name: str, uppers: Sequence[int], lowers: Sequence[int]) -> Any:
        """The read-out of outputs minus others, as an exact matrix."""
        key = f"{name} {uppers} {lowers}", -1
        if key not in self._matrices:
            self._matrices[key] = exact_differences(self.outputs(name), uppers, lowers)
        return self._matrices[key]

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
        x = normal(x, centred=config.centred_norm, eps=config.norm_eps)
        if not config.learned_norm:
            return x
        scale = self.matrix(f"{name}.w").tolist()[0]
        rows = [[value * w for value, w in zip(row, scale, strict=True)] for row in x.tolist()]
        scaled = arb_mat(rows)
        return scaled + self._rows(f"{name}.b", len(rows)) if config.centred_norm else scaled

    def _rows(self, name: str, count: int, head: int = -1) -> Any:
        """A vector of weights, once for every row."""
        return arb_mat(self.matrix(name, head).tolist() * count)

    def biased(self, x: Any, name: str, head: int = -1) -> Any:
        """With this bias added to every row, in a model that has biases."""
        return x + self._rows(name, x.nrows(), head) if self.config.biases else x

    def scores(self, layer: int, head: int, read: Any) -> Any:
        """q · k / sqrt(d_head) (or the stated scale), `[query key]`, before any factor log n."""
        name = f"blocks.{layer}.attn"
        q, k = (
            self.biased(read * self.matrix(f"{name}.W_{part}", head), f"{name}.b_{part}", head)
            for part in "QK"
        )
        return q * k.transpose() * (1 / self.score_divisor())

    def score_divisor(self) -> Any:
        """What scores are divided by: the stated scale, or the root of d_head."""
        stated = self.config.attention_scale
        return arb(stated) if stated else arb(self.config.d_head).sqrt()

    def values(self, layer: int, head: int, read: Any) -> Any:
        """What attending to each token adds to the residual: `[key d_model]`."""
        name = f"blocks.{layer}.attn"
        v = self.biased(read * self.matrix(f"{name}.W_V", head), f"{name}.b_V", head)
        return v * self.matrix(f"{name}.W_O", head)

    def logit(self, counts: Sequence[int]) -> Any:
        """The logit of a model of two classes, as a ball at the working precision."""
        require_two_classes(self.config)
        return self.differences(counts, 1)[0]

    def differences(self, counts: Sequence[int], label: int) -> list[Any]:
        """Output `label` minus each output, itself included, at the working precision."""
        compared = [label] * self.n_classes, range(self.n_classes)
        gaps = (self.read(counts) * self.unembed("unembed.W_U", *compared)).tolist()[0]
        if not self.config.biases:
            return list(gaps)
        offsets = self.unembed("unembed.b_U", *compared).tolist()[0]
        return [gap + offset for gap, offset in zip(gaps, offsets, strict=True)]

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
                    scores = self.scores(layer, head, read) * stretch
                    pattern = attend(scores, [multiplicity] * scores.nrows())
                    x = x + pattern * self.values(layer, head, read)
                x = self.biased(x, f"blocks.{layer}.attn.b_O")
            if self.config.has_mlp:
                mlp, read = f"blocks.{layer}.mlp", self.norm(f"blocks.{layer}.ln2", x)
                pre = self.biased(read * self.matrix(f"{mlp}.W_in"), f"{mlp}.b_in")
                act = ACTIVATIONS[self.config.act_fn]
                post = arb_mat([[act(value) for value in row] for row in pre.tolist()])
                x = self.biased(x + post * self.matrix(f"{mlp}.W_out"), f"{mlp}.b_out")
        return self.norm("ln_final", x) if self.config.final_norm else x

    def right(self, counts: Sequence[int], label: int) -> bool | None:
        """Whether this class is the answer; None if that cannot be decided."""
        cost = self.cost(sum(1 for count in counts if count))
        for precision in PRECISIONS:
            if self.budget <= 0:
                return None
            self.budget -= cost * COST[precision]
            with ctx.workprec(precision):
                verdict = judged(self.differences(counts, label), label)
            if verdict is not None:
                return verdict < 0
        return None

    def sign(self, counts: Sequence[int]) -> int | None:
        """Of two classes: +1 if the logit is positive, -1 if it is not, None if undecided."""
        require_two_classes(self.config)
        positive = self.right(counts, 1)
        return None if positive is None else 1 if positive else -1

    def answer(self, counts: Sequence[int]) -> int | None:
        """The class the model gives: guessed from midpoints, then shown."""
        for precision in PRECISIONS:
            with ctx.workprec(precision):
                gaps = [float(gap.mid()) for gap in self.differences(counts, 0)]
                best = min(range(len(gaps)), key=lambda j: (gaps[j], j))
                if judged(self.differences(counts, best), best) == -1:
                    return best
        return None

    def cost(self, letters: int) -> int:
        """About how many microseconds a logit takes at 128 bits; the same on every machine."""
        config, tokens = self.config, 1 + letters
        head = config.d_model * config.d_head * 4 + tokens * (config.d_head + config.d_model)
        products = tokens * (config.n_heads * head + 2 * config.d_model * config.d_mlp)
        functions = tokens * (config.n_heads * tokens + config.d_mlp)
        return 150 + config.n_layers * (products // 10 + 8 * functions)

    def margin(self, counts: Sequence[int], label: int) -> float:
        """The smallest difference to another output, rounded to float64."""
        for precision in PRECISIONS:
            with ctx.workprec(precision):
                gaps = self.differences(counts, label)
            del gaps[label]
            if all(gap.rel_accuracy_bits() > 60 or gap.is_zero() for gap in gaps):
                break
        return min(map(float, gaps))

    def rounded(self, counts: Sequence[int]) -> float:
        """The logit of a model of two classes, rounded to float64."""
        require_two_classes(self.config)
        return self.margin(counts, 1)

    def reported(self, counts: Sequence[int], label: int) -> float:
        """What is reported of a string of this class: of two the logit, of more the margin."""
        margin = self.margin(counts, label)
        return margin if label or self.n_classes > 2 else -margin


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


def normal(x: Any, *, centred: bool, eps: float) -> Any:
    """Every row divided by its root mean square, its mean taken out first where it is centred."""
    rows = []
    for row in x.tolist():
        if centred:
            mean = sum(row, arb(0)) / len(row)
            row = [value - mean for value in row]
        square = sum((value * value for value in row), arb(0)) / len(row)
        root = (square.nonnegative_part() + arb(eps)).sqrt()
        rows.append([value / root for value in row])
    return arb_mat(rows)


def attend(scores: Any, multiplicities: Sequence[Sequence[int]]) -> Any:
    """Attention weights `[query key]`, the largest attended score taken out of every row."""
    rows = []
    for row, multiplicity in zip(scores.tolist(), multiplicities, strict=True):
        attended = list(zip(row, multiplicity, strict=True))
        largest = max(s.mid() for s, m in attended if m)
        raw = [(s - largest).exp() * m if m else arb(0) for s, m in attended]
        total = sum(raw, arb(0))
        rows.append([weight / total for weight in raw])
    return arb_mat(rows)
