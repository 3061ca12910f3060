"""Training shared out over processes: every run once, by whole groups, with the same weights."""

from __future__ import annotations

from concurrent.futures import BrokenExecutor, Future
from contextlib import contextmanager

import pytest

import tsc_interp as tsc
from tests.sweeps.test_sweeps import quick
from tsc_interp.reproduction.experiments import SOURCE_EXPERIMENTS
from tsc_interp.training import jobs, sharing
from tsc_interp.training.sharing import groups_of, seconds, shared_out


def waiting(experiments):
    wanted = {}
    for experiment in experiments:
        for job in experiment.jobs():
            wanted.setdefault((job.config, job.seed), []).append(job)
    return list(wanted.values())


@pytest.mark.parametrize("processes", [1, 2, 3, 8])
def test_every_run_is_shared_out_once_and_groups_stay_whole(processes, monkeypatch):
    monkeypatch.setattr(sharing, "START", 0.1)
    runs = waiting(SOURCE_EXPERIMENTS)
    own, others = shared_out(runs, processes)
    shares = [own, *others]
    assert len(shares) <= processes
    assert all(others)
    assert sorted(id(same) for share in shares for same in share) == sorted(map(id, runs))
    for group in groups_of(runs):
        assert sum(any(same in share for same in group) for share in shares) == 1
    ends = [sum(map(seconds, groups_of(share))) for share in shares]
    longest = max(map(seconds, groups_of(runs)))
    if processes == 2:  # no worse than a group apart: the rule by which the longest go first
        assert abs(ends[0] - ends[1]) <= longest


def test_little_work_is_not_shared():
    runs = waiting([quick("0..3")])
    own, others = shared_out(runs, 4)
    assert (len(own), others) == (8, [])


@pytest.mark.parametrize("dies", [False, True])
def test_shared_runs_are_the_same_runs_even_if_a_helper_dies(dies, tmp_path, monkeypatch):
    experiment = quick("0..1", d_model=[2, 3, 4])
    alone = tsc.train(experiment, tmp_path / "alone")
    asked = []

    class Helper:
        def submit(self, function, *arguments):
            future: Future = Future()
            asked.append(arguments)
            if dies:
                future.set_exception(BrokenExecutor())
            else:
                future.set_result(function(*arguments))
            return future

    @contextmanager
    def helpers(count):
        yield Helper()

    monkeypatch.setattr(sharing, "START", 0.0)
    monkeypatch.setattr(jobs, "helpers", helpers)
    told = []

    class Told(jobs.Watcher):
        def finished(self, job, result):
            told.append((job.config.classifier.d_model, job.seed))

    shared = tsc.train(experiment, tmp_path / "shared", Told(), processes=2)
    assert len(asked) == 1
    assert sorted(told) == [(d, seed) for d in (2, 3, 4) for seed in (0, 1)]
    for one, other in zip(alone, shared, strict=True):
        assert one.result == other.result
        assert one.checkpoint().weight_hash() == other.checkpoint().weight_hash()
