"""Searches by turns, in several processes, and from files: the same counts as in one go."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import numpy as np
import pytest

import tsc_interp as tsc
from tests.verification.ordered_models import ordered_checkpoint
from tests.verification.test_trellis_search import adder, oracle, random_automaton
from tsc_interp.verification.order import partition, running
from tsc_interp.verification.order.saved import found_in, restore, save, share_left
from tsc_interp.verification.order.verify import verify_order


def several(seed: int = 3) -> tuple[Any, Any]:
    """A model with positions and an automaton over its letters."""
    config = tsc.ClassifierConfig(
        n_letters=3, n_outputs=3, n_positions=6, reads="last_letter", attend_cls=True, d_model=5,
        d_head=3, n_heads=2, d_mlp=4,
    )  # fmt: skip
    return ordered_checkpoint(config, seed, 2.0), random_automaton(3, 3, seed)


LENGTHS = (2, 3)


def told(verdict: Any) -> list[Any]:
    return [(one.length, one.step, one.wrong, one.undecided) for one in verdict.counts]


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """One region at a time, and single inputs only at the end."""
    monkeypatch.setattr(partition, "FEW", 1)
    monkeypatch.setattr(partition, "_MASKS_AT_ONCE", 1)


@pytest.mark.parametrize("make", [several, lambda: (adder(3), None)])
def test_a_search_cut_off_after_every_batch_ends_with_the_same_counts(
    make: Any, tmp_path: Path, slow: None
) -> None:
    """One batch, and all is forgotten but the files."""
    checkpoint, task = make()
    lengths = None if task is None else LENGTHS
    whole = verify_order(checkpoint, lengths, task=task)
    assert whole.undecided == 0
    asked = [(one.length, one.step) for one in whole.counts]
    task = task or checkpoint.config.task
    turns = 0
    while True:
        searches = running.searches_of(checkpoint, task, asked)
        units = [(one, group) for one in searches for group in range(len(one.groups))]
        left = [share_left(tmp_path / running.name_of(*unit)) > 0 for unit in units]
        if not any(left):
            break
        turns += 1
        running._turn(units[left.index(True)], tmp_path, float("inf"), 0.0)
    assert turns > len(units)
    found = verify_order(checkpoint, lengths, task=task, seconds=1e-9, resume=tmp_path)
    assert (told(found), found.first_wrong) == (told(whole), whole.first_wrong)


def test_files_of_another_task_or_model_are_not_taken(tmp_path: Path) -> None:
    checkpoint, task = several()
    verify_order(checkpoint, [3], task=task, resume=tmp_path)
    other = random_automaton(3, 3, 8)
    wrong = oracle(checkpoint, other, 3)
    assert verify_order(checkpoint, [3], task=other, resume=tmp_path).wrong == len(wrong)
    changed = ordered_checkpoint(checkpoint.config, 4, 2.0)
    wrong = oracle(changed, task, 3)
    assert verify_order(changed, [3], task=task, resume=tmp_path).wrong == len(wrong)


def test_what_cannot_be_read_is_searched_again(tmp_path: Path) -> None:
    checkpoint, task = several()
    expected = told(verify_order(checkpoint, [3, 4], task=task, resume=tmp_path))
    for path in tmp_path.glob("*.npz"):
        path.write_bytes(path.read_bytes()[:100])
    assert told(verify_order(checkpoint, [3, 4], task=task, resume=tmp_path)) == expected


def test_a_saved_search_is_the_search(tmp_path: Path, slow: None) -> None:
    checkpoint, task = several()
    (search,) = running.searches_of(checkpoint, task, [(4, None)])
    for group in range(len(search.groups)):
        opened, path = search.opened(group, monotonic() + 60), tmp_path / f"{group}.npz"
        assert share_left(path) == 1
        opened.advance(0.0)
        opened.advance(0.0)
        save(path, opened)
        assert share_left(path) == pytest.approx(opened.left())
        search.open.pop(group)
        new = search.opened(group, monotonic() + 60)
        restore(path, new)
        assert new.found.tree == opened.found.tree
        assert new.found.examined == opened.found.examined
        for mine, theirs in zip(
            new.waiting.regions.masks, opened.waiting.regions.masks, strict=True
        ):
            assert (mine == theirs).all()
        found, wanted = found_in(path, search.groups[group]), opened.ended()
        assert found.tree == wanted.tree
        for one, other in ((found.wrong, wanted.wrong), (found.wrong_inputs, wanted.wrong_inputs)):
            assert (
                np.concatenate([[0], *(c for _, c in one)]).tolist()
                == np.concatenate([[0], *(c for _, c in other)]).tolist()
            )


def test_other_processes_find_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint, task = several()
    expected = told(verify_order(checkpoint, LENGTHS, task=task))
    monkeypatch.setattr(running, "ALONE", 0.0)
    monkeypatch.setattr("tsc_interp.verification.order.running.cores", lambda: 2)
    shares: list[float] = []
    assert told(verify_order(checkpoint, LENGTHS, task=task, progress=shares.append)) == expected
    assert shares == sorted(shares)
    assert shares[-1] == 1


_SCRIPT = """
import sys
from tests.verification.test_order_running import LENGTHS, several
from tsc_interp.verification.order import partition, running
from tsc_interp.verification.order.verify import verify_order
partition.FEW, partition._MASKS_AT_ONCE, running._SLICE = 1, 1, 0.0
checkpoint, task = several()
verify_order(checkpoint, LENGTHS, task=task, resume=sys.argv[1], seconds=600)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no kill -9 here")
def test_a_killed_process_loses_little(tmp_path: Path) -> None:
    checkpoint, task = several()
    process = subprocess.Popen([sys.executable, "-c", _SCRIPT, str(tmp_path)], env=dict(os.environ))
    began = monotonic()
    while not list(tmp_path.glob("*.npz")) and process.poll() is None and monotonic() - began < 90:
        sleep(0.01)
    process.kill()
    process.wait()
    assert list(tmp_path.glob("*.npz"))
    found = verify_order(checkpoint, LENGTHS, task=task, resume=tmp_path)
    assert told(found) == told(verify_order(checkpoint, LENGTHS, task=task))
