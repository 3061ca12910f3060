"""The strings models are trained and tested on: balanced streams, and all strings of a length.

Strings come as counts `[string, letter]`, epoch by epoch; `batch_size` rows after each other are a
batch. They depend on the alphabet and the task's letters alone, never on a model, so an epoch is
made once per process, shared by every model trained on it, and kept on disk (`cache`).

    TRAIN.epoch(config, 0)       # the strings of the first epoch
    source_test_set(config)      # the source report's 9,984 test strings

The balanced stream is defined for the source report's task, "contains all of these letters". For
the other tasks it is balanced in the same sense, by which of the letters the rule names occur; that
does not balance their labels. A rule that names none gets letters drawn evenly.

A model that sees order reads the characters of a balanced string sorted, as the source report
writes them, or, with `order="shuffled"`, in an order drawn for each string and epoch.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from tsc_interp.config import ClassifierConfig
from tsc_interp.data import cache
from tsc_interp.data.balanced import BatchMaker
from tsc_interp.errors import ConfigError
from tsc_interp.frozen import FrozenConfig
from tsc_interp.source_report import TEST_LENGTH
from tsc_interp.strings import CLS, FIRST_LETTER, PAD, Alphabet, Counts, counts_of_tokens

Tokens = NDArray[np.int64]

MAX_NAMED_LETTERS = 12
MAX_ALL_STRINGS = 2_000_000


class BalancedStream(FrozenConfig):
    """The source report's: every subset of the task's letters equally often, the full set more.

    An epoch is the next `batches` batches, so the stream goes on from epoch to epoch.
    """

    added: ClassVar[frozenset[str]] = frozenset({"order"})

    kind: Literal["balanced"] = "balanced"
    max_length: int = Field(default=10, ge=1, le=100_000)
    alpha: float = Field(default=1.0, ge=0.01, le=1000)
    batch_size: int = Field(default=64, ge=1, le=100_000)
    batches: int = Field(default=156, ge=1, le=100_000)
    seed: int = Field(default=0, ge=0, lt=2**32)
    order: Literal["sorted", "shuffled"] = Field(
        default="sorted", description="of the characters, for a model that sees it"
    )

    @property
    def longest(self) -> int:
        return self.max_length

    def batches_of(self, config: ClassifierConfig) -> int:
        """How many batches an epoch has."""
        return self.batches

    @property
    def in_order(self) -> bool:
        """Whether strings are sorted, so that nothing can be learned about order."""
        return self.order == "sorted"

    def check(self, config: ClassifierConfig) -> None:
        """Refuse an alphabet and task for which this stream is not defined."""
        named, letters = config.task.needs, config.alphabet.letters
        if set(named) == set(letters):
            raise ConfigError(
                f"the balanced stream needs a letter the task does not name, but the alphabet is "
                f"{letters} and the task is '{config.task.describe()}'; raise n_letters"
            )
        if len(named) > min(self.max_length, MAX_NAMED_LETTERS):
            raise ConfigError(
                f"the task names {len(named)} letters; the balanced stream takes at most "
                f"{MAX_NAMED_LETTERS}, and no more than max_length = {self.max_length}"
            )

    def epoch(self, config: ClassifierConfig, index: int) -> Counts:
        """Epoch `index`, from 0: `[batches * batch_size, letter]`."""
        self.check(config)
        drawn = self.replace(order="sorted")  # the same counts, whatever becomes of their order
        return _balanced_epochs(drawn, config.n_letters, config.task.needs).get(index).copy()

    def epoch_tokens(self, config: ClassifierConfig, index: int) -> Tokens:
        """The same strings, characters sorted or shuffled, as tokens `[string, position]`."""
        tokens = sorted_tokens(self.epoch(config, index))
        return tokens if self.in_order else _shuffled(tokens, self.seed, index)


class AllStrings(FrozenConfig):
    """Every string of one length, each epoch in the order of a shuffling torch DataLoader."""

    kind: Literal["all_strings"] = "all_strings"
    length: int = Field(default=9, ge=1, le=20)
    batch_size: int = Field(default=64, ge=1, le=100_000)
    seed: int = Field(default=0, ge=0, lt=2**63)

    @property
    def longest(self) -> int:
        return self.length

    in_order: ClassVar[bool] = False

    def batches_of(self, config: ClassifierConfig) -> int:
        """How many batches an epoch has; the last one may be short."""
        return -(-int(config.n_letters**self.length) // self.batch_size)

    def check(self, config: ClassifierConfig) -> None:
        """Refuse an alphabet with too many strings of this length."""
        strings = config.n_letters**self.length
        if strings > MAX_ALL_STRINGS:
            raise ConfigError(
                f"there are {strings} strings of length {self.length} over {config.n_letters} "
                f"letters; at most {MAX_ALL_STRINGS} can be trained on"
            )

    def epoch(self, config: ClassifierConfig, index: int) -> Counts:
        """Epoch `index`, from 0: `[letters ** length, letter]`; the last batch may be short."""
        counts = counts_of_tokens(self._in_order(config), config.n_letters)
        return counts[self._order(config, index)]

    def epoch_tokens(self, config: ClassifierConfig, index: int) -> Tokens:
        """The same strings, characters in their own order, as tokens `[string, position]`."""
        return self._in_order(config)[self._order(config, index)]

    def _order(self, config: ClassifierConfig, index: int) -> NDArray[np.int64]:
        return _shuffles(config.n_letters**self.length, self.seed).get(index)

    def _in_order(self, config: ClassifierConfig) -> Tokens:
        self.check(config)
        return _all_tokens(config.n_letters, self.length)


Source = Annotated[BalancedStream | AllStrings, Field(discriminator="kind")]

# The source report's three sets. Validation restarts every epoch: it is always the first one.
TRAIN = BalancedStream(max_length=10, alpha=1.0, batch_size=64, batches=10_000 // 64, seed=0)
VALIDATION = BalancedStream(max_length=50, alpha=0.5, batch_size=64, batches=1_000 // 64, seed=0)
TEST = BalancedStream(
    max_length=TEST_LENGTH, alpha=0.1, batch_size=256, batches=10_000 // 256, seed=2
)


def source_test_set(config: ClassifierConfig) -> Counts:
    """The source report's 9,984 test strings, for the configuration's alphabet and task."""
    return TEST.epoch(config, 0)


def sorted_tokens(counts: Counts) -> Tokens:
    """`CLS`, the characters in alphabetical order, `PAD` to the longest: `[string, position]`."""
    ends = np.cumsum(counts, axis=1)
    longest = int(ends[:, -1].max(initial=0))
    # The letter at a place is the number of letters whose last character came before it.
    letters = (np.arange(longest)[None, :, None] >= ends[:, None, :]).sum(axis=2)
    tokens = np.where(letters < counts.shape[1], FIRST_LETTER + letters, PAD)
    first = np.full((len(counts), 1), CLS)
    return np.concatenate([first, tokens], axis=1).astype(np.int64)


def _shuffled(tokens: Tokens, seed: int, epoch: int) -> Tokens:
    """Each row's letters in an order of their own; CLS stays in front, PAD at the end.

    From NumPy's legacy generator, whose draws never change.
    """
    keys = np.random.RandomState([seed, epoch]).random_sample(tokens.shape)
    keys[tokens == CLS], keys[tokens == PAD] = -1.0, 2.0
    return np.take_along_axis(tokens, keys.argsort(axis=1, kind="stable"), axis=1)


class _Balanced:
    """The epochs of one balanced stream, each made once."""

    def __init__(self, stream: BalancedStream, n_letters: int, named: str) -> None:
        positive = [Alphabet(n_letters).index(letter) for letter in named]
        self._stream = stream
        self._maker = BatchMaker(
            n_letters, positive, stream.max_length, stream.alpha, stream.batch_size
        )
        self._key = f"{stream.key()}-{n_letters}{named}"
        self._epochs: list[Counts] = []
        self._seed = stream.seed

    def get(self, index: int) -> Counts:
        while len(self._epochs) <= index:
            place = f"{self._key}-{len(self._epochs):04d}"
            epoch = cache.read(place)
            if epoch is None:
                epoch = self._make()
                cache.write(place, *epoch)
            counts, self._seed = epoch
            self._epochs.append(counts)
        return self._epochs[index]

    def _make(self) -> tuple[Counts, int]:
        batches, seed = [], self._seed
        for _ in range(self._stream.batches):
            batch, seed = self._maker.batch(seed)
            batches.append(batch)
        return np.concatenate(batches), seed


class _Shuffles:
    """The orders in which a torch DataLoader visits its items, epoch after epoch."""

    def __init__(self, items: int, seed: int) -> None:
        import torch
        from torch.utils.data import DataLoader

        # The loader itself, over indices: what its generator is used for is torch's own affair. The
        # order does not depend on the size of batches, and one large one is quickest.
        self._loader: DataLoader[int] = DataLoader(
            range(items),  # type: ignore[arg-type]
            batch_size=items,
            shuffle=True,
            generator=torch.Generator().manual_seed(seed),
            collate_fn=list,
        )
        self._orders: list[NDArray[np.int64]] = []

    def get(self, index: int) -> NDArray[np.int64]:
        while len(self._orders) <= index:
            (order,) = self._loader
            self._orders.append(np.array(order))
        return self._orders[index]


@lru_cache(maxsize=32)
def _balanced_epochs(stream: BalancedStream, n_letters: int, named: str) -> _Balanced:
    return _Balanced(stream, n_letters, named)


@lru_cache(maxsize=8)
def _shuffles(items: int, seed: int) -> _Shuffles:
    return _Shuffles(items, seed)


@lru_cache(maxsize=4)
def _all_tokens(n_letters: int, length: int) -> Tokens:
    digits = np.indices((n_letters,) * length).reshape(length, -1).T + FIRST_LETTER
    return np.concatenate([np.full((len(digits), 1), CLS), digits], axis=1).astype(np.int64)
