"""Rules on one letter's count, written down: at least k, majority, and parity as far as it goes.

One head without an MLP, over uniform attention, computes the sign of any linear function of the
counts: with CLS attended to, the mean of values v is (v_CLS + sum_t n_t v_t) / (1 + n). At least k
and majority are such functions, so both are right at every length.

Parity is not. On a^n the logit of H heads is a constant plus H terms c_h r_h / (r_h + n), a
rational function whose numerator has degree H: it changes sign H times at most. The model below
puts the changes at 1.5, 2.5, ..., so that it is right up to H + 1 letters, and no further.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tsc_interp.construction.written import (
    Construction,
    checked_length,
    checked_letters,
    embedding,
    one_head,
    written,
)
from tsc_interp.errors import UnsupportedError
from tsc_interp.tasks.counts import AtLeast, Majority, Parity

PARITY_LONGEST = 7
"""Beyond it the weights of the interpolation are too far apart for float32."""
_OTHERS_AWAY = 40.0
"""By how much the letters that do not count are outscored: e^-40 of a letter is left of each."""


def at_least(letter: str, k: int, n_letters: int | None) -> Construction:
    """(n_letter - k + 1/2) / (1 + n), from one head that reads CLS as well.

    With CLS at x, its own share adds 2 x: so x is half of 1/2 - k, and letters are worth x more
    than they count for.
    """
    task = AtLeast(letter=letter, k=k)
    config = one_head(task, checked_letters(n_letters, letter), attend_cls=True)
    cls = (0.5 - k) / 2
    values = {t: float(t == letter) - cls for t in config.alphabet.letters}
    weights = {"W_E": embedding(config, cls, values), "W_V": 1, "W_O": 1, "W_U": 1}
    how = f"uniform attention, CLS worth {0.5 - k:g} letters: the sign of n_{letter} - {k} + 1/2"
    return written(config, weights, how, None)


def majority(letter: str, n_letters: int | None, length: int | None) -> Construction:
    """n_letter - n_others over n, less a threshold that lets a certificate be found."""
    config = one_head(Majority(letter=letter), checked_letters(n_letters, letter))
    values = {other: 1.0 if other == letter else -1.0 for other in config.alphabet.letters}
    reach, threshold = None, 0.0
    if length is not None and config.n_letters > 1:
        # Odd lengths fail first, the next one at length + 1 or length + 2.
        reach = checked_length(length, 1) + length % 2
        threshold = 1 / (reach + 0.5)
    weights = {"W_E": embedding(config, -threshold, values), "W_V": 1, "W_O": 1, "W_U": 1}
    how = "uniform attention, the letter worth 1 and all others -1"
    return written(config, weights, how, reach, exactly=reach is not None)


def parity(letter: str, odd: bool, n_letters: int | None, length: int | None) -> Construction:
    """A head for every change of sign from 0 (or 1, if there is no other letter) to `length`."""
    if length is None or length > PARITY_LONGEST:
        asked = "every length" if length is None else f"{length:,} letters"
        raise UnsupportedError(
            "no model of this family decides parity at every length, and without an MLP a head is "
            f"worth one more letter (documentation, theory/construct); {asked} is out of "
            f"reach: ask for at most {PARITY_LONGEST} with --max-length"
        )
    alphabet = checked_letters(n_letters, letter)
    first = 0 if alphabet > 1 else 1
    changes = np.arange(first, checked_length(length, 1), dtype=np.float64) + 0.5
    heads = max(len(changes), 1)
    task = Parity(letter=letter, odd=odd)
    config = one_head(task, alphabet, d_model=2, n_heads=heads, attend_cls=True)
    # What CLS is worth in each head is e^pull letters; -pull is a pole of the rational function.
    pull = np.linspace(np.log(0.2), np.log(4.0 * length + 3), heads).astype(np.float32)
    shares = _partial_fractions(np.exp(pull.astype(np.float64)), changes)
    sign = 1.0 if (length % 2 == 1) == odd else -1.0  # of the longest string of the letter alone
    away = -_OTHERS_AWAY / pull if alphabet > 1 else np.zeros(heads)
    others = {other: [0.0, 1.0] for other in config.alphabet.letters if other != letter}
    weights = {
        "W_E": embedding(config, [sign, 0.0], others),
        "W_Q": np.stack([sign * pull, np.zeros(heads)], axis=1)[..., None],
        "W_K": np.stack([np.full(heads, sign), away], axis=1)[..., None],
        "W_V": np.stack([np.full(heads, sign), np.zeros(heads)], axis=1)[..., None],
        "W_O": np.stack([sign * shares, np.zeros(heads)], axis=1)[:, None, :],
        "W_U": [1, 0],
    }
    how = "a rational function of the count, its changes of sign put between whole numbers"
    return written(config, weights, how, length, exactly=True)


def _partial_fractions(poles: NDArray[np.float64], changes: NDArray[np.float64]) -> Any:
    """c_h with prod_j (n - t_j) / prod_h (r_h + n) = 1 + sum_h c_h r_h / (r_h + n)."""
    if not len(changes):
        return np.zeros(len(poles))
    apart = poles[None, :] - poles[:, None] + np.eye(len(poles))
    numerators = (-poles[:, None] - changes[None, :]).prod(axis=1)
    return numerators / apart.prod(axis=1) / poles
