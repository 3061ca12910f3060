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
from tsc_interp.verification.order.saved import found_in, save
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
        groups = [group for search in searches for group in search.groups]
        left = [group for group in groups if group.left(tmp_path) > 0]
        if not left:
            break
        turns += 1
        left[0].turn(tmp_path, float("inf"), 0.0)
    assert turns > len(groups)
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
    for group in search.groups:
        assert group.left(tmp_path) == 1
        begun = group.begun(tmp_path, monotonic() + 60)
        begun.advance(0.0)
        begun.advance(0.0)
        save(tmp_path / group.name, begun)
        group.partition = None
        assert group.left(tmp_path) == pytest.approx(begun.left())
        again = group.begun(tmp_path, monotonic() + 60)
        assert again.found.nodes == begun.found.nodes
        assert again.found.examined == begun.found.examined
        mine, theirs = (
            part.waiting[np.argsort(part.waiting.node)].regions.masks for part in (again, begun)
        )
        for one, other in zip(mine, theirs, strict=True):
            assert (one == other).all()
        kept = found_in(tmp_path / group.name, group.trellis)
        assert kept is not None
        assert kept.nodes == begun.found.nodes
        assert kept.wrong[1].tolist() == begun.found.wrong[1].tolist()
        assert (
            np.concatenate([[0], *(classes for _, classes in kept.wrong_inputs)]).tolist()
            == np.concatenate([[0], *(classes for _, classes in begun.found.wrong_inputs)]).tolist()
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
