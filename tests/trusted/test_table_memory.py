"""What is derived of tables holds no more bytes than it is allowed."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from tests.trusted.asking import Asked
from tests.verification.ordered_models import ordered_checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.tasks import Automaton
from tsc_interp.trusted.errors import NotProved
from tsc_interp.trusted.sets import Sets
from tsc_interp.trusted.trees import Leaf


def many_states(states: int, memory: int) -> Asked:
    """Every letter leads from each state to another: a stage of `3 * states` edges."""
    rng = np.random.default_rng(0)
    step = rng.integers(0, states, (states, 3)).tolist()
    task = Automaton(states=states, start=0, step=step, label=[s % 2 for s in range(states)])
    config = ClassifierConfig(
        n_letters=3, n_outputs=2, task=task, d_model=3, d_mlp=2, reads="last_letter",
        attend_cls=True,
    )  # fmt: skip
    return Asked(ordered_checkpoint(config, 1), memory=memory)


def test_what_is_derived_at_once_is_counted_before_it_is_made() -> None:
    """Batches fit the memory that is allowed; where one leaf does not, it is refused by name."""
    part = {"table": 0, "labels": [0, 1], "tree": [["open"]]}
    large = many_states(800, 1 << 30)
    table = large.trellis(12)
    parts = large.parts(table)
    parts.add(part)
    assert parts.conclusion()["tables"][0]["undecided"] == str(3**12)
    small = many_states(800, 1 << 21).parts(table)
    tracemalloc.start()
    try:
        with pytest.raises(NotProved, match="more than 2,097,152 bytes of memory"):
            small.add(part)
        assert tracemalloc.get_traced_memory()[1] < 1 << 21
    finally:
        tracemalloc.stop()


def test_leaves_are_derived_as_many_at_a_time_as_memory_allows() -> None:
    memory = 1 << 23
    asked = many_states(20, memory)
    table = asked.trellis(6).of_labels([0, 1])
    masks = [np.repeat(mask, 300, axis=0) for mask in Sets.whole(table).masks]
    leaves, parts = [Leaf("is", (0,))] * 300, asked.parts(asked.trellis(6))
    tracemalloc.start()
    try:
        # Two labels: nothing is shown.
        assert not parts.shown(Sets(table, masks), leaves).any()
        assert tracemalloc.get_traced_memory()[1] < memory
        last = np.isin(np.arange(masks[-1].shape[1]), np.flatnonzero(table.label == 0)[:1])
        masks[-1] = masks[-1] & last
        parts.shown(Sets(table, masks), leaves)
        assert tracemalloc.get_traced_memory()[1] < memory + 300 * table.n_edges
    finally:
        tracemalloc.stop()
