"""What exact verification costs. Run by `python -m benchmarks.verification`.

Processor time of one core (`OMP_NUM_THREADS=1`), best of three, after one warm-up call; peak memory
is that of the whole process so far. First the bundled models against the targets, then how cost
grows with length, letters, heads, head size and layers. Growth is measured on untrained models with
weights doubled: signs change everywhere, so there is more boundary than in a trained one.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = "1"

import resource
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.verification.enumeration import enumerate_counts
from tsc_interp import certify, horizon
from tsc_interp.checkpoints import Checkpoint, bundled_names, load_checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.model.initialise import initial_weights
from tsc_interp.verification.count_model import CountModel
from tsc_interp.verification.counting.regions import count_regions
from tsc_interp.verification.counting.tally import Tally


def main() -> None:
    enumerate_counts(CountModel(load_checkpoint("walkthrough")), 20)
    _bundled()
    _lengths()
    _letters()
    print("\nother sizes (three letters, untrained):")
    print("                enumerate to 100   regions to 100   horizon to 10^6")
    for name, options in _SIZES.items():
        _one_size(name, _untrained(ClassifierConfig(**options)))


_SIZES: dict[str, dict[str, Any]] = {
    **{f"{n} heads": {"d_model": 16, "n_heads": n} for n in (1, 4, 16, 64)},
    **{f"d_head {k}": {"d_model": 16, "d_head": k} for k in (1, 4, 16, 64)},
    **{f"d_mlp {m}": {"d_model": 16, "d_mlp": m} for m in (0, 8, 64)},
    **{f"{n} layers": {"n_layers": n} for n in (1, 2, 3, 4)},
    "norm rms": {"norm": "rms"},
    "log n": {"score_scale": "sqrt_d_head_log_n"},
}


def _bundled() -> None:
    print("bundled models:")
    print("                           every vector  regions to  peak    horizon to 10^6")
    print("                           to 200        1000        memory    found  proved  certified")
    for name in bundled_names():
        checkpoint = load_checkpoint(name)
        regions = _seconds(lambda c=checkpoint: count_regions(CountModel(c), 1000), once=True)
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        times = [
            _seconds(lambda c=checkpoint: enumerate_counts(CountModel(c), 200)),
            _seconds(lambda c=checkpoint: horizon(c, prove=False)),
            _seconds(lambda c=checkpoint: horizon(c)),
            _seconds(lambda c=checkpoint: certify(c)),
        ]
        print(
            f"  {name:24s} {times[0]:7.3f} s   {regions:7.3f} s  {memory:5.0f} MB"
            f" {times[1]:7.3f} s {times[2]:7.3f} s {times[3]:7.3f} s"
        )


def _lengths() -> None:
    print("\nlength (three letters): vectors, then seconds by regions")
    models = {
        "generalization-errors": load_checkpoint("generalization-errors"),
        "untrained": _untrained(ClassifierConfig()),
    }
    for length in (200, 500, 1000, 2000, 4000):
        vectors = Tally(length, 3).vectors
        row = f"  {length:6,d} {vectors:17,d}"
        for name, checkpoint in models.items():
            if name == "untrained" and length > 1000:
                continue
            taken = _seconds(
                lambda c=checkpoint, n=length: count_regions(CountModel(c), n), once=True
            )
            row += f"   {name} {taken:8.2f}"
        print(row)
    print(f"  peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")


def _letters() -> None:
    print("\nletters (untrained): sets of letters, vectors, enumerate, regions, horizon to 10^4")
    for letters, length in ((2, 1000), (3, 200), (4, 80), (5, 45), (6, 30)):
        checkpoint = _untrained(ClassifierConfig(n_letters=letters))
        vectors = Tally(length, letters).vectors
        by_one = _seconds(
            lambda c=checkpoint, n=length: enumerate_counts(CountModel(c), n), once=True
        )
        regions = _seconds(
            lambda c=checkpoint, n=length: count_regions(CountModel(c), n), once=True
        )
        known = horizon(checkpoint, limit=10_000, boxes=20_000)
        search = _seconds(lambda c=checkpoint: horizon(c, limit=10_000, boxes=20_000), once=True)
        proved = sum(support.proved for support in known.by_letters)
        print(
            f"  {letters} to length {length:4d} {2**letters - 1:4d} {vectors:10,d}"
            f" {by_one:7.2f} s {regions:7.2f} s {search:7.2f} s"
            f" ({proved} of {len(known.by_letters)} sets decided)"
        )


def _one_size(name: str, checkpoint: Checkpoint) -> None:
    times = [
        _seconds(lambda: enumerate_counts(CountModel(checkpoint), 100), once=True),
        _seconds(lambda: count_regions(CountModel(checkpoint), 100), once=True),
    ]
    known = horizon(checkpoint, boxes=5_000)
    times.append(_seconds(lambda: horizon(checkpoint, boxes=5_000), once=True))
    proved = sum(support.proved for support in known.by_letters)
    row = "   ".join(f"{taken:11.3f} s" for taken in times)
    print(f"  {name:12s} {row}   ({proved} of {len(known.by_letters)} sets of letters decided)")


def _untrained(config: ClassifierConfig) -> Checkpoint:
    weights = {name: w.numpy() * np.float32(2) for name, w in initial_weights(config, 0).items()}
    return Checkpoint(config, weights)


def _seconds(work: Callable[[], Any], once: bool = False) -> float:
    times = []
    for _ in range(1 if once else 3):
        started = time.process_time()
        work()
        times.append(time.process_time() - started)
    return min(times)


if __name__ == "__main__":
    main()
