"""The streams, bit for bit: against the published batches, and against NumPy's own calls."""

from __future__ import annotations

import os
from collections import Counter
from itertools import islice, product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.baseline import balanced_strings
from tsc_interp.config import ClassifierConfig
from tsc_interp.data import (
    TRAIN,
    VALIDATION,
    AllStrings,
    BalancedStream,
    cache,
    sorted_tokens,
    streams,
)
from tsc_interp.data.balanced import LegacyDraws, budgets
from tsc_interp.errors import ConfigError
from tsc_interp.strings import counts_of_tokens
from tsc_interp.tasks.counts import AtLeast, ContainsAll

CONFIG = ClassifierConfig()


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TSC_CACHE", str(tmp_path / "cache"))
    streams._balanced_epochs.cache_clear()


def written(counts, config=CONFIG):
    return [config.alphabet.expand(config.alphabet.write(row)) for row in counts]


def test_the_published_first_batches():
    stream = BalancedStream(max_length=10, alpha=1.0, batch_size=4, batches=4, seed=0)
    strings = written(stream.epoch(CONFIG, 0))
    assert " ".join(strings) == (
        "cccccc aaaa aabcc bbbbbbbb bbb aabbcccc ccccccc aaac "
        "aacccc ccccc abccccc bbbccccccc cccccccccc abbcc bccc accc"
    )
    labels = CONFIG.task.labels(stream.epoch(CONFIG, 0)).astype(int).tolist()
    assert labels == [0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 1, 0, 0]


def test_the_published_sizes_and_label_counts():
    test = streams.source_test_set(ClassifierConfig())
    assert test.shape == (9_984, 3)
    assert int(CONFIG.task.labels(test).sum()) == 5_655
    assert len(TRAIN.epoch(CONFIG, 0)) == 9_984
    assert len(VALIDATION.epoch(CONFIG, 0)) == 960
    labels = CONFIG.task.labels(AllStrings(length=9).epoch(CONFIG, 0))
    assert (len(labels), int(labels.sum())) == (19_683, 18_660)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    max_length=st.sampled_from([4, 10, 50, 200, 700]),
    alpha=st.sampled_from([0.05, 0.1, 0.5, 1.0, 2.0, 3.0, 7.5]),
    batch_size=st.integers(1, 70),
    seed=st.integers(0, 2**32 - 1),
    letters=st.sampled_from([(3, "ab"), (2, "a"), (4, "bd"), (6, "acf"), (5, "abde")]),
)
def test_replay_equals_numpys_own_calls(max_length, alpha, batch_size, seed, letters):
    """Every branch: one and many other letters, gamma shapes around 1, both binomials."""
    n_letters, positive = letters
    config = ClassifierConfig(n_letters=n_letters, task=ContainsAll(letters=positive))
    stream = BalancedStream(
        max_length=max_length, alpha=alpha, batch_size=batch_size, batches=3, seed=seed
    )
    plain = balanced_strings(max_length, alpha, batch_size, seed, n_letters, positive)
    expected = [string for batch in islice(plain, 6) for string in batch]
    drawn = [row for i in range(2) for row in written(stream.epoch(config, i), config)]
    assert drawn == expected


@pytest.mark.parametrize("seed", [0, 1, 123456, 2**32 - 1])
def test_each_replayed_draw(seed):
    """Interleaved, so that a draw that consumes one output too many spoils all that follow."""
    draws, numpy = LegacyDraws(), np.random.RandomState(seed)
    draws.seed(seed)
    for i in range(1, 400):
        assert draws.below(i) == numpy.randint(i)
        assert draws.double() == numpy.random_sample()
        assert draws.gamma(i / 150) == numpy.standard_gamma(i / 150)
        probability = (1 + i % 100) / 100
        assert draws.binomial(i, probability) == numpy.binomial(i, probability)
        shares = draws.dirichlet(i / 99, 3)
        assert shares == numpy.dirichlet([i / 99] * 3).tolist()
        assert draws.multinomial(i, shares) == numpy.multinomial(i, shares).tolist()
    assert draws.output() == numpy.randint(2**32)


def test_budgets_divide_the_batch():
    assert budgets(4, 2) == [1, 1, 1, 1]
    assert budgets(64, 2) == [10, 9, 9, 36]  # 64 = 7 * 9 + 1, the last subset owns four slots
    for size, positive in [(1, 1), (7, 2), (100, 3), (3, 4)]:
        assert sum(budgets(size, positive)) == size
        assert len(budgets(size, positive)) == 2**positive


def test_other_tasks_are_balanced_by_the_letters_they_name():
    config = ClassifierConfig(task=AtLeast(letter="b", k=2))
    counts = BalancedStream(batch_size=40, batches=5).epoch(config, 0)
    assert Counter((counts[:, 1] > 0).tolist()) == {True: 150, False: 50}  # 3 slots against 1


def test_a_stream_that_cannot_exist_is_refused():
    with pytest.raises(ConfigError, match="a letter the task does not name"):
        TRAIN.epoch(ClassifierConfig(n_letters=2), 0)
    with pytest.raises(ConfigError, match="names 3 letters"):
        BalancedStream(max_length=2).epoch(
            ClassifierConfig(n_letters=4, task=ContainsAll(letters="abc")), 0
        )
    with pytest.raises(ConfigError, match="at most 2000000"):
        AllStrings(length=9).epoch(ClassifierConfig(n_letters=26), 0)
    with pytest.raises(ConfigError, match="batch_size"):
        BalancedStream(batch_size=0)


def test_all_strings_follow_a_shuffling_dataloader():
    strings = ["".join(letters) for letters in product("abcd", repeat=3)]
    config = ClassifierConfig(n_letters=4)
    source = AllStrings(length=3, batch_size=10, seed=7)
    loader = torch.utils.data.DataLoader(
        strings, batch_size=10, shuffle=True, generator=torch.Generator().manual_seed(7)
    )
    for index in range(3):
        expected = [string for batch in loader for string in batch]
        tokens = source.epoch_tokens(config, index)
        np.testing.assert_array_equal(tokens, config.alphabet.tokens(expected))
        np.testing.assert_array_equal(
            source.epoch(config, index), config.alphabet.count_matrix(expected)
        )


def test_sorted_tokens_are_the_sorted_strings():
    counts = BalancedStream(max_length=30, alpha=0.5, batches=3).epoch(CONFIG, 0)
    tokens = sorted_tokens(counts)
    np.testing.assert_array_equal(tokens, CONFIG.alphabet.tokens(written(counts)))
    np.testing.assert_array_equal(counts_of_tokens(tokens, 3), counts)


def test_the_cache_gives_back_what_was_drawn_and_survives_damage(monkeypatch):
    stream = BalancedStream(batches=4)
    first = [stream.epoch(CONFIG, index).copy() for index in range(2)]
    files = sorted(cache.directory().rglob("*.epoch"))
    assert len(files) == 2
    assert not list(cache.directory().rglob(".*"))

    streams._balanced_epochs.cache_clear()
    monkeypatch.setattr(streams._Balanced, "_make", lambda self: pytest.fail("drawn again"))
    for index in range(2):
        np.testing.assert_array_equal(stream.epoch(CONFIG, index), first[index])
    monkeypatch.undo()

    monkeypatch.setenv("TSC_CACHE", str(files[0].parent.parent))
    files[0].write_bytes(files[0].read_bytes()[:100])
    files[1].write_bytes(b"not an epoch")
    streams._balanced_epochs.cache_clear()
    for index in range(2):
        np.testing.assert_array_equal(stream.epoch(CONFIG, index), first[index])
    assert cache.read(files[0].stem) is not None


def altered(file, other):
    """One count moved from a letter to the next, as a hand or a disk might."""
    content = bytearray(file.read_bytes())
    content[-8] ^= 1
    content[-4] ^= 1
    file.write_bytes(content)


def next_seed(file, other):
    content = bytearray(file.read_bytes())
    content[32] ^= 1
    file.write_bytes(content)


def another_epoch(file, other):
    file.write_bytes(other.read_bytes())


def of_numpy(file, other):
    with file.open("wb") as out:
        np.savez(out, counts=np.zeros((256, 3), np.int32), next_seed=np.uint64(1))


def too_much(file, other):
    with file.open("r+b") as out:
        out.truncate(2**33)  # a hole of 8 GB


def pipe(file, other):
    file.unlink()
    os.mkfifo(file)


def folder(file, other):
    file.unlink()
    (file / "inside").mkdir(parents=True)


@pytest.mark.parametrize(
    "damage", [altered, next_seed, another_epoch, of_numpy, too_much, pipe, folder]
)
def test_what_is_not_what_was_drawn_is_drawn_again(damage, monkeypatch):
    """The first three were believed, and trained another model."""
    stream = BalancedStream(batches=4)
    with monkeypatch.context() as without:
        without.setenv("TSC_CACHE", "off")
        expected = [stream.epoch(CONFIG, index).copy() for index in range(3)]
    streams._balanced_epochs.cache_clear()
    stream.epoch(CONFIG, 1)
    files = sorted(cache.directory().rglob("*.epoch"))
    damage(files[0], files[1])
    streams._balanced_epochs.cache_clear()
    for index in range(3):
        np.testing.assert_array_equal(stream.epoch(CONFIG, index), expected[index])


def test_where_the_cache_is(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TSC_CACHE", "~/x")
    assert cache.directory() == tmp_path / "x"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    monkeypatch.delenv("TSC_CACHE")
    assert cache.directory() == tmp_path / "caches" / "tsc-interp"


@pytest.mark.parametrize("chosen", [None, "~/x", "~nobody-of-that-name/x"])
def test_without_a_home_there_is_no_cache_and_no_folder_called_tilde(chosen, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("HOME", "XDG_CACHE_HOME", "TSC_CACHE"):
        monkeypatch.delenv(name, raising=False)

    def unknown(*_):
        raise KeyError("no such user")

    monkeypatch.setattr("pwd.getpwuid", unknown)
    if chosen:
        monkeypatch.setenv("TSC_CACHE", chosen)
    assert len(BalancedStream(batches=1).epoch(CONFIG, 0)) == 64
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("place", ["off", "/proc/no/such/place"])
def test_without_a_cache_streams_still_flow(place, monkeypatch):
    monkeypatch.setenv("TSC_CACHE", place)
    assert len(BalancedStream(batches=1).epoch(CONFIG, 0)) == 64


def test_writing_to_an_epoch_does_not_change_the_next_readers():
    stream = BalancedStream(batches=1)
    stream.epoch(CONFIG, 0)[:] = 5
    assert not (stream.epoch(CONFIG, 0) == 5).all()
