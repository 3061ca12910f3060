"""Runs shared out over processes: whole ensembles, so that no training loop is run twice.

A process takes seconds to start, so it gets that much less to do, and little work is not shared.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager

from tsc_interp.config import ClassifierConfig
from tsc_interp.training.config import Job, TrainingConfig
from tsc_interp.training.engine import shape_of

Same = Sequence[Job]
"""Jobs of one configuration and seed: one run, wanted under one or more names."""

START = 2.0
"""Seconds until another process has imported what it needs."""
# Measured: seconds a step takes, whatever it trains, and for each model in it.
_STEP, _MODEL = 150e-6, 3.5e-6


def groups_of(waiting: Sequence[Same]) -> list[list[Same]]:
    """Runs that can share a training loop together."""
    groups: dict[tuple[ClassifierConfig, TrainingConfig], list[Same]] = {}
    for same in waiting:
        config = same[0].config
        groups.setdefault((shape_of(config.classifier), config.training), []).append(same)
    return list(groups.values())


def shared_out(waiting: Sequence[Same], processes: int) -> tuple[list[Same], list[list[Same]]]:
    """Return the runs that this process trains, and those of each other process that gets any.

    The longest groups are handed out first, each to the process that would end first with it.
    """
    processes = max(1, min(processes, len(waiting)))
    shares: list[list[list[Same]]] = [[] for _ in range(processes)]
    ends = [0.0] + [START] * (processes - 1)
    for group in sorted(groups_of(waiting), key=seconds, reverse=True):
        first = min(range(processes), key=lambda process: ends[process])
        ends[first] += seconds(group)
        shares[first].append(group)
    own, *others = [[same for group in share for same in group] for share in shares]
    return own, [share for share in others if share]


def seconds(group: Sequence[Same]) -> float:
    """About how long a group trains, if no run stops early."""
    config = group[0][0].config
    batches = config.training.train.batches_of(config.classifier)
    return config.training.max_epochs * batches * (_STEP + _MODEL * len(group))


@contextmanager
def helpers(count: int) -> Iterator[Executor]:
    """So many other processes; Ctrl-C ends them at once, and what they finished stays on disk."""
    context = multiprocessing.get_context("spawn")
    executor = ProcessPoolExecutor(max(count, 1), context, initializer=_die_quietly)
    try:
        yield executor
    finally:
        executor.shutdown(cancel_futures=True)


def _die_quietly() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    end_with_parent()


def end_with_parent() -> None:
    """In a helper process: end when the process that started it does, even if that was killed."""
    parent = multiprocessing.parent_process()

    def watch() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
