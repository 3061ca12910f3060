"""Order-sensitive models made by hand, whose errors are known: for tests, benchmarks and pages.

running_sum     the sign of a sum: uniform attention is the mean, and a mean of 0 a sum of 0
carry_adder     addition: weights that grow with the place make a mean that holds every carry
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

import tsc_interp as tsc
from tsc_interp.checkpoints import Checkpoint

Arrays = dict[str, NDArray[np.float64]]
SILENT = -30.0
"""A score that leaves a key about 1e-13 of the attention."""


def running_sum(values: tuple[int, ...], length: int, *, n_positions: int = 0) -> Checkpoint:
    """The sign of a sum of letters' values, right on strings of up to `length` letters.

    The mean of n values is 0 or at least 1/n away from it. The outputs are -mean, a threshold of
    1/(length + 1/2), and the mean: of strings one letter longer, sums of ±1 are wrong.

    Example:
        >>> import tsc_interp as tsc
        >>> tsc.verify(running_sum((0, 1, -1), 3), lengths=[3, 4]).wrong
        32
    """
    letters = len(values)
    config = tsc.ClassifierConfig(
        n_letters=letters, n_outputs=3, task=tsc.tasks.SumSign(values=values), d_model=2,
        n_heads=1, d_head=1, d_mlp=0, biases=True, reads="last_letter", attend_cls=True,
        n_positions=n_positions,
    )  # fmt: skip
    arrays = {name: np.zeros(shape) for name, shape in config.weight_shapes().items()}
    arrays["embed.W_E"][2:, 0] = values
    arrays["blocks.0.attn.W_V"][0, 0, 0] = 1
    arrays["blocks.0.attn.W_O"][0, 0, 1] = 1
    arrays["unembed.W_U"][1] = (-1, 0, 1)
    arrays["unembed.b_U"][...] = (0, 1 / (length + 0.5), 0)
    return tsc.from_arrays(config, arrays, source=f"sum of up to {length}")


def carry_adder(digits: int, base: int = 10, *, shift: float = 0.5) -> Checkpoint:
    """An adder with ReLU whose errors are known: none, or with `shift=1.5` the sums of nines.

    The reader of step j gives both digits of place i ≤ j the weight base^(i-j), and `+` what is
    missing to a sum C of weights. So the mean is T/C with T = Σ (a_i + b_i) base^(i-j), whose whole
    part is a_j + b_j and the carry. Two neurons subtract `base` where T reaches it. Output k is
    2kz - k², the largest for the k nearest to z; z is T - 1/2 and `shift` times base^-digits, so
    that a T just below a whole number is still rounded down. With a shift of 1.5 it is not, and the
    base^digits pairs whose sum is base^digits - 1 are wrong, at the last step.

    Example:
        >>> import tsc_interp as tsc
        >>> tsc.verify(carry_adder(2, base=3)).right, tsc.verify(carry_adder(2, 3, shift=1.5)).wrong
        (81, 9)
    """
    steps, tokens = digits + 1, base + 2
    task = tsc.tasks.Addition(digits=digits, base=base)
    config = tsc.ClassifierConfig(
        n_letters=tokens, n_outputs=tokens, task=task, d_model=2 + 2 * steps, n_heads=1,
        d_head=steps, d_mlp=2, act_fn="relu", biases=True, reads="last_letter", attend_cls=True,
        n_positions=task.prompt_length + digits, attention_scale=1.0,
        token_names=(*(str(i) for i in range(base)), "+", "="),
    )  # fmt: skip
    w = {name: np.zeros(shape) for name, shape in config.weight_shapes().items()}
    w["embed.W_E"][2 : 2 + base, 0] = range(base)
    total = 2.0 * base / (base - 1)
    places = w["pos_embed.W_pos"]
    queries, keys = places[:, 1 : 1 + steps], places[:, 1 + steps : 1 + 2 * steps]
    keys[:] = SILENT
    for step in range(steps):
        queries[task.prompt_length - 1 + step, step] = 1
        left = total
        for place in range(min(step + 1, digits)):
            score = (place - step) * math.log(base)
            left -= 2 * math.exp(score)
            # Digits stand most significant first: place 0 is the last of each operand.
            keys[[digits - 1 - place, 2 * digits - place], step] = score
        keys[digits, step] = math.log(left)
    _wire(w, steps, base, total, shift)
    return tsc.from_arrays(config, w, source=f"adder of {digits} digits in base {base}")


def _wire(w: Arrays, steps: int, base: int, total: float, shift: float) -> None:
    """The head, the neurons and the outputs, which read what the tables say."""
    gap = float(base) ** (1 - steps)
    w["blocks.0.attn.W_Q"][0, 1 : 1 + steps] = np.eye(steps)
    w["blocks.0.attn.W_K"][0, 1 + steps : 1 + 2 * steps] = np.eye(steps)
    w["blocks.0.attn.W_V"][0, 0, 0] = 1
    w["blocks.0.attn.W_O"][0, 0, -1] = 1
    w["blocks.0.mlp.W_in"][-1] = total / gap
    w["blocks.0.mlp.b_in"][...] = (1 - base / gap, -base / gap)
    w["blocks.0.mlp.W_out"][:, -1] = (-base / total, base / total)
    k = np.arange(base)
    w["unembed.W_U"][-1, :base] = 2 * k * total
    w["unembed.b_U"][...] = -4.0 * base**2
    w["unembed.b_U"][:base] = 2 * k * (shift * gap - 0.5) - k**2
