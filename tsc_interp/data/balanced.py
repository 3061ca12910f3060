"""One batch of the source report's balanced stream, drawn as NumPy's legacy generator would.

The stream is defined by calls to a legacy `RandomState` (`randint`, `dirichlet`, `multinomial`),
several per string, each of which costs microseconds before it draws anything. What they return are
simple functions of the generator's 32-bit outputs, so the outputs are fetched in bulk and the calls
replayed on them. What is rare and intricate (a binomial with a large mean, a gamma with shape above
1) is left to NumPy itself, started from the very output the replay has reached.

The replay relies on the legacy generator being frozen, which NumPy promises (NEP 19); the tests
compare it with the calls themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from math import exp, log, pow, sqrt
from operator import length_hint
from typing import Any

import numpy as np
from numpy.random import MT19937, RandomState

from tsc_interp.errors import ConfigError
from tsc_interp.strings import Counts

# Outputs fetched at once.
_BULK = 512
_MEAN_OF_INVERSION = 30.0


def budgets(batch_size: int, n_positive: int) -> list[int]:
    """How many strings of a batch each subset of the positive letters gets, subsets as bit masks.

    The batch is divided over 2^P + P + 1 slots, the first slots taking the remainder. Every subset
    but the last owns one slot; the last, all positive letters, owns the rest.
    """
    subsets = 2**n_positive
    slots = subsets + n_positive + 1
    share, remainder = divmod(batch_size, slots)
    sizes = [share + (slot < remainder) for slot in range(slots)]
    return [*sizes[: subsets - 1], sum(sizes[subsets - 1 :])]


class BatchMaker:
    """Draws batches of counts `[string, letter]` for one set of positive letters."""

    def __init__(
        self, n_letters: int, positive: list[int], max_length: int, alpha: float, batch_size: int
    ) -> None:
        self._n_letters = n_letters
        self._others = [letter for letter in range(n_letters) if letter not in positive]
        self._subsets = [
            [letter for bit, letter in enumerate(positive) if subset >> bit & 1]
            for subset in range(2 ** len(positive))
        ]
        self._budgets = budgets(batch_size, len(positive))
        self._max_length = max_length
        self._alpha = alpha
        self._draws = LegacyDraws()

    def batch(self, seed: int) -> tuple[Counts, int]:
        """The batch that starts from `seed`, and the seed of the batch after it."""
        draws = self._draws
        draws.seed(seed)
        left = list(self._budgets)
        open_subsets = [subset for subset, budget in enumerate(left) if budget]
        rows = []
        for _ in range(sum(left)):
            subset = open_subsets[draws.below(len(open_subsets))]
            left[subset] -= 1
            if not left[subset]:
                open_subsets.remove(subset)
            rows.append(self._string(self._subsets[subset]))
        return np.array(rows, dtype=np.int64).reshape(-1, self._n_letters), draws.output()

    def _string(self, letters: list[int]) -> list[int]:
        """Counts of one string in which exactly these positive letters occur."""
        draws, kinds, others = self._draws, len(letters), self._others
        counts = [0] * self._n_letters
        shortest = kinds or 1
        remaining = shortest + draws.below(self._max_length + 1 - shortest)
        if kinds == 1:  # the share of the only letter is drawn and is 1
            positive = 1 + draws.below(remaining)
            draws.gamma(self._alpha)
            counts[letters[0]] = positive
            remaining -= positive
        elif kinds:
            positive = kinds + draws.below(remaining + 1 - kinds)
            shares = draws.dirichlet(self._alpha / kinds, kinds)
            extras = draws.multinomial(positive - kinds, shares)
            for letter, extra in zip(letters, extras, strict=True):
                counts[letter] = 1 + extra
            remaining -= positive
        if len(others) == 1:  # a choice among one consumes nothing
            counts[others[0]] = remaining
        else:
            for _ in range(remaining):
                counts[others[draws.below(len(others))]] += 1
        return counts


class LegacyDraws:
    """What `RandomState(seed)`'s methods return, computed from its raw outputs."""

    _resumed: Any
    output: Callable[[], int]
    """The next 32-bit output: also what `randint(2**32)` returns."""

    def __init__(self) -> None:
        self._bits = MT19937()
        self._numpy = RandomState(self._bits)

    def seed(self, seed: int) -> None:
        self._seed, self._resumed = seed, None
        self._numpy.seed(seed)
        self._replay()

    def below(self, n: int) -> int:
        """`randint(n)`: outputs are masked to just enough bits and redrawn while too large."""
        if n == 1:
            return 0
        mask = (1 << (n - 1).bit_length()) - 1
        value = self.output() & mask
        while value >= n:
            value = self.output() & mask
        return value

    def double(self) -> float:
        """`random_sample()`: 53 bits out of two outputs."""
        return ((self.output() >> 5) * 67108864.0 + (self.output() >> 6)) / 9007199254740992.0

    def exponential(self) -> float:
        return -log(1.0 - self.double())

    def gamma(self, shape: float) -> float:
        """`standard_gamma(shape)`."""
        if shape == 1.0:
            return self.exponential()
        if shape > 1.0:
            return float(self._ask_numpy(lambda numpy: numpy.standard_gamma(shape)))
        # Rejection from a power law on [0, 1] and an exponential tail.
        while True:
            uniform, bound = self.double(), self.exponential()
            if uniform <= 1.0 - shape:
                value = pow(uniform, 1.0 / shape)
                if value <= bound:
                    return value
            else:
                tail = -log((1.0 - uniform) / shape)
                value = pow(1.0 - shape + shape * tail, 1.0 / shape)
                if value <= bound + tail:
                    return value

    def dirichlet(self, concentration: float, size: int) -> list[float]:
        """`dirichlet([concentration] * size)`."""
        gammas = [self.gamma(concentration) for _ in range(size)]
        total = 0.0
        for gamma in gammas:
            total += gamma
        if not total:
            raise ConfigError(
                f"concentration {concentration} is so small that all shares round to zero; "
                "choose a larger alpha"
            )
        inverse = 1.0 / total
        return [gamma * inverse for gamma in gammas]

    def multinomial(self, n: int, shares: list[float]) -> list[int]:
        """`multinomial(n, shares)`: a chain of binomials on what is left."""
        counts = [0] * len(shares)
        left, remaining_share = n, 1.0
        for i in range(len(shares) - 1):
            counts[i] = self.binomial(left, shares[i] / remaining_share)
            left -= counts[i]
            if left <= 0:
                return counts
            remaining_share -= shares[i]
        counts[-1] = left
        return counts

    def binomial(self, n: int, p: float) -> int:
        """A link of that chain. Unlike `RandomState.binomial`, it draws nothing if n or p is 0."""
        if n == 0 or p == 0.0:
            return 0
        smaller = p if p <= 0.5 else 1.0 - p
        if n * smaller > _MEAN_OF_INVERSION:
            return int(self._ask_numpy(lambda numpy: numpy.binomial(n, p)))
        successes = self._inversion(n, smaller)
        return successes if p <= 0.5 else n - successes

    def _inversion(self, n: int, p: float) -> int:
        """Walk the distribution function up to a uniform number."""
        q = 1.0 - p
        none = exp(n * log(q))
        mean = n * p
        bound = min(n, int(mean + 10.0 * sqrt(mean * q + 1)))
        value, probability, uniform = 0, none, self.double()
        while uniform > probability:
            value += 1
            if value > bound:
                value, probability, uniform = 0, none, self.double()
            else:
                uniform -= probability
                probability = ((n - value + 1) * p * probability) / (value * q)
        return value

    def _ask_numpy(self, call: Callable[[RandomState], Any]) -> Any:
        """Let NumPy draw, from where the replay stands; the replay goes on from where it stops."""
        consumed = self._fetched - length_hint(self._bulk)
        if self._resumed is None:
            self._numpy.seed(self._seed)
        else:
            self._bits.state = self._resumed
        self._bits.random_raw(consumed, output=False)
        drawn = call(self._numpy)
        # Saving the state is slow, so it is done here only, where it may be needed again.
        self._resumed = self._bits.state
        self._replay()
        return drawn

    def _replay(self) -> None:
        """Serve outputs from where the generator stands now."""
        self._fetched = 0
        self._bulk: Iterator[int] = iter(())
        self.output = chain.from_iterable(self._bulks()).__next__

    def _bulks(self) -> Iterator[Iterator[int]]:
        while True:
            self._bulk = iter(self._bits.random_raw(_BULK).tolist())
            self._fetched += _BULK
            yield self._bulk
