"""Models per second of a sweep: one process, two, and a Dask cluster of two workers.

Every model is the default shape, trained, tested and with its horizon proved. On a machine with
other work the clock says little, so processor time is printed beside it: what the models took by
their own rows, what all workers took, and what is left per task and for starting up.
"""

from __future__ import annotations

import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import wait
from contextlib import contextmanager
from pathlib import Path

import numpy as np

import tsc_interp as tsc
from tsc_interp.sweeps.definition import definition_of
from tsc_interp.sweeps.executors import Cluster, Processes
from tsc_interp.sweeps.packing import all_pieces, pack
from tsc_interp.sweeps.work import do_task

MODELS = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
FEWER = max(64, MODELS // 4)
EMPTY = 400
"""Tasks that are done already: what is left of them is the handing out."""


def children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure(name: str, models: int, place: Path, cpu: Callable[[], float], **how: object) -> None:
    experiment = tsc.Experiment.of("default", f"0..{models - 1}")
    used, began = cpu(), time.perf_counter()
    found = tsc.sweep(experiment, place, **how)  # type: ignore[arg-type]
    seconds, used = time.perf_counter() - began, cpu() - used
    table = found.table()
    parts = {part: table[f"seconds_{part}"].sum() for part in ("train", "test", "verify")}
    own, tasks = sum(parts.values()), table["shard"].n_unique()
    size = sum(file.stat().st_size for kind in ("rows", "weights")
               for file in (place / kind).iterdir())  # fmt: skip
    print(
        f"{name}: {models} models in {seconds:.1f} s on the clock ({models / seconds:.1f}/s), "
        f"{used:.1f} s of processors ({models / used:.1f} models per processor second)\n"
        f"    by part, ms per model: "
        + ", ".join(f"{part} {1000 * value / models:.1f}" for part, value in parts.items())
        + f"; beside them {used - own:.1f} s for starting, {tasks} tasks and writing\n"
        f"    proved {table['proved'].sum()}, median horizon {table['horizon'].median():.0f}, "
        f"{size / models:.0f} bytes on disk per model",
        flush=True,
    )


def empty_tasks(name: str, workers: object, place: Path) -> None:
    """The time per task that there is nothing to do for."""
    definition = definition_of(tsc.Experiment.of("default", f"0..{FEWER - 1}"))
    flags = np.ones(FEWER, dtype=bool)
    task = pack(all_pieces(definition.parts), flags, definition.options, 1, FEWER)[0]
    do_task(task, str(place))
    with workers.opened() as pool:  # type: ignore[attr-defined]
        wait([pool.submit(do_task, task, str(place)) for _ in range(4)])
        began = time.perf_counter()
        wait([pool.submit(do_task, task, str(place)) for _ in range(EMPTY)])
        print(f"{name}: {1000 * (time.perf_counter() - began) / EMPTY:.2f} ms per empty task")


@contextmanager
def two_workers():
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=2, threads_per_worker=1, processes=True, protocol="tcp://",
                     host="127.0.0.1", dashboard_address="127.0.0.1:0", memory_limit=0) as cluster,
        Client(cluster) as client,
    ):  # fmt: skip
        yield client


def main() -> None:
    print(f"load average {os.getloadavg()[0]:.1f}, {len(os.sched_getaffinity(0))} cores")
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        measure("one process", FEWER, place / "one", children, processes=1)
        measure("two processes", MODELS, place / "two", children, processes=2)
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1000
        print(f"largest worker process: {peak:.0f} MB")
        empty_tasks("two processes", Processes(2), place / "empty")
        with two_workers() as client:

            def used() -> float:
                return sum(client.run(time.process_time).values())

            measure("Dask, two workers", FEWER, place / "dask", used, client=client)
            usage = client.run(resource.getrusage, resource.RUSAGE_SELF).values()
            print(f"largest Dask worker: {max(one.ru_maxrss for one in usage) / 1000:.0f} MB")
            empty_tasks("Dask, two workers", Cluster(client), place / "empty")


if __name__ == "__main__":
    main()
