"""The report's 45 runs: the plain baseline against the trainer, in one go, on one machine.

Run by `python -m benchmarks training`. The trainer does all 45 runs, twice: *cold* (no cached data)
and *warm* (data cached by the first), each with every epoch written to disk and every model tested.
The baseline would take a quarter of an hour or more, so it is measured on a subset: for each of the
five kinds of run, one epoch of training and validation and 3 of the 39 test batches are timed, and
scaled by the epochs and tests of the 45 runs. Imports are not counted for either, both use one
thread (for arrays this small more threads only add waiting), and CPU time is printed beside the
time on the clock, because only that is comparable when the machine has other work.
"""

from __future__ import annotations

import os
import resource
import tempfile
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import torch

from benchmarks import baseline
from tsc_interp import data
from tsc_interp.config import ClassifierConfig
from tsc_interp.data.balanced import BatchMaker
from tsc_interp.reproduction.experiments import SOURCE_EXPERIMENTS
from tsc_interp.reproduction.published import check_figures
from tsc_interp.training.config import Job, RunConfig
from tsc_interp.training.ensemble import start, train_ensemble
from tsc_interp.training.jobs import TrainedRun, train
from tsc_interp.training.stopping import chosen_epoch
from tsc_interp.training.testing import evaluate_ensemble

ENSEMBLE = 256
# Of the 39 batches of the test set, how many the baseline is timed on.
TESTED = 3


class Spent(NamedTuple):
    """Seconds on the clock, and of this process's CPU time."""

    clock: float
    cpu: float

    def __str__(self) -> str:
        return f"{self.clock:7.2f} ({self.cpu:7.2f})"


def main() -> None:
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TSC_CACHE"] = str(Path(folder, "cache"))
        print("## The balanced stream (training data, strings per second of CPU time)\n")
        stream(folder)
        # Before the baseline, whose test evaluation needs gigabytes, so that peak memory is ours.
        print(f"\n## An ensemble of {ENSEMBLE} seeds of the default shape\n")
        large_ensemble()
        clear(folder)
        print("\n## All 45 runs of the report, in seconds (CPU seconds)\n")
        whole_suite(Path(folder))


def stream(folder: str) -> None:
    config = ClassifierConfig()
    plain = baseline.balanced_strings(10, 1.0, 64, 0)
    spent, _ = timed(lambda: list(islice(plain, 156)))
    print(f"plain loop of NumPy calls   {156 * 64 / spent.cpu:>12,.0f}")
    maker = BatchMaker(3, [0, 1], 10, 1.0, 64)

    def replay() -> None:
        seed = 0
        for _ in range(5 * 156):
            _, seed = maker.batch(seed)

    spent, _ = timed(replay)
    print(f"replayed from raw outputs   {5 * 156 * 64 / spent.cpu:>12,.0f}")
    data.TRAIN.epoch(config, 29)
    forget()
    spent, _ = timed(lambda: data.TRAIN.epoch(config, 29))
    print(f"read from the cache         {30 * 156 * 64 / spent.cpu:>12,.0f}")
    clear(folder)


def whole_suite(folder: Path) -> None:
    jobs = [job for experiment in SOURCE_EXPERIMENTS for job in experiment.jobs()]
    forget()
    cold, runs = timed(lambda: train(jobs, folder / "cold"))
    forget()
    warm, again = timed(lambda: train(jobs, folder / "warm"))
    assert [run.result for run in runs] == [run.result for run in again]
    held = [claim.holds for claim in check_figures(runs)]
    estimate = baseline_estimate(runs)
    for name, spent in {"trainer, cold": cold, "trainer, warm": warm}.items():
        print(
            f"{name:<30}{spent}   {estimate.clock / spent.clock:.0f} times faster "
            f"({estimate.cpu / spent.cpu:.0f} times less CPU)"
        )
    print(f"published figures that hold: {sum(held)} of {len(held)}")


def baseline_estimate(runs: list[TrainedRun]) -> Spent:
    """One epoch and one test per kind of run, scaled by what all 45 runs need."""
    total, epochs = Spent(0.0, 0.0), 0
    baseline.train(baseline.Options(), 0, 1)  # what torch prepares once is not counted
    for name, (options, kind) in _KINDS.items():
        alike = [run for run in runs if kind(run.job)]
        model = baseline.Classifier(options, alike[0].job.seed)
        per_epoch, outcome = timed(lambda o=options, r=alike[0]: baseline.train(o, r.job.seed, 1))
        part, matrix = timed(lambda m=model, o=options: baseline.confusion_matrix(m, o, TESTED))
        assert sum(map(sum, matrix)) == TESTED * 256
        per_test = Spent(part.clock * 39 / TESTED, part.cpu * 39 / TESTED)
        needed = sum(run.result.epochs for run in alike)
        for spent, times in ((per_epoch, needed), (per_test, len(alike))):
            total = Spent(total.clock + times * spent.clock, total.cpu + times * spent.cpu)
        epochs += needed
        print(
            f"baseline, {name:<20}{per_epoch} per epoch of {outcome.steps} steps, "
            f"{per_test} per test; {len(alike)} runs, {needed} epochs"
        )
    print(f"{'baseline, scaled to 45 runs':<30}{total}   ({epochs} epochs, 45 tests)")
    return total


def _kind(**options: Any) -> Callable[[Job], bool]:
    def matches(job: Job) -> bool:
        classifier = job.config.classifier
        named = {name: getattr(classifier, name) for name in ("d_model", "n_heads", "attend_cls")}
        return {**named, "data": job.config.training.train.kind} == {
            "d_model": 2, "n_heads": 2, "attend_cls": False, "data": "balanced", **options
        }  # fmt: skip

    return matches


_KINDS: dict[str, tuple[baseline.Options, Callable[[Job], bool]]] = {
    "default": (baseline.Options(), _kind()),
    "CLS attended to": (baseline.Options(attend_cls=True), _kind(attend_cls=True)),
    "strings of length 9": (
        baseline.Options(all_strings_of_length=9), _kind(data="all_strings")
    ),
    "d_model 16": (baseline.Options(d_model=16), _kind(d_model=16)),
    "16 heads": (baseline.Options(d_model=16, n_heads=16), _kind(d_model=16, n_heads=16)),
}  # fmt: skip


def large_ensemble() -> None:
    config = RunConfig()
    data.TRAIN.epoch(config.classifier, config.training.max_epochs - 1)

    def run() -> int:
        best: dict[int, Any] = {}
        epochs = 0
        for members in train_ensemble([start(config, seed) for seed in range(ENSEMBLE)]):
            epochs += len(members)
            for member in members:
                losses = [row.validation_loss for row in member.metrics]
                if chosen_epoch(losses) == member.epoch:
                    best[member.seed] = member.weights
        tests = evaluate_ensemble(config, [best[seed] for seed in range(ENSEMBLE)])
        perfect = sum(test.errors == 0 for test in tests)
        print(f"{perfect} of {ENSEMBLE} seeds make no test error")
        return epochs

    spent, epochs = timed(run)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{spent} s for {epochs} epochs of one model, tests included; peak memory {peak:.0f} MB")
    print(f"{ENSEMBLE / spent.clock:.1f} models per second")
    print(
        f"({ENSEMBLE / spent.cpu:.1f} per CPU second, "
        f"{spent.cpu / epochs / 156 * 1e6:.1f} µs for a batch of one model)"
    )


def timed(work: Callable[[], Any]) -> tuple[Spent, Any]:
    clock, cpu = time.perf_counter(), time.process_time()
    result = work()
    return Spent(time.perf_counter() - clock, time.process_time() - cpu), result


def forget() -> None:
    """Drop what this process remembers of the data; the cache on disk stays."""
    data._balanced_epochs.cache_clear()
    data._shuffles.cache_clear()
    data._all_tokens.cache_clear()


def clear(folder: str) -> None:
    """As if nothing had ever been generated."""
    forget()
    for file in Path(folder).rglob("*.npz"):
        file.unlink()


if __name__ == "__main__":
    main()
