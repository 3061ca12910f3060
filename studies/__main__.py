"""`python -m studies NAME ...`: train and verify a study's models again, and store what was found.

A study is a folder: `run.py` makes its results, `page.py` the numbers and figures of its page. Most
have `cells()`, the work in parts that do not depend on each other, and `rows(cell)`, one row per
model. The parts are spread over the cores (or as many processes as `TSC_STUDY_PROCESSES` says).
What comes out is `studies/results/NAME.csv.gz`.

The studies in `SCRIPTS` print their tables instead, each in a process of its own.
`python -m studies public_models FOLDER` and `python -m studies gallery FOLDER` take a folder with
your copies of public models, `python -m studies verifiers --auto-lirpa FOLDER` the source of
another verifier.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from importlib import import_module
from typing import Any

from studies.tables import Row, write

NAMES = (
    "formula",
    "attention",
    "mending",
    "epochs",
    "heads",
    "init_norm",
    "tasks",
    "decay",
    "frontier",
    "lengths",
)
SCRIPTS = ("own_models", "max_of_four", "causes")


def main(wanted: list[str]) -> None:
    if wanted[:1] in (["public_models"], ["gallery"], ["verifiers"]):
        import_module(f"studies.{wanted[0]}.run").main(wanted[1:])
        return
    unknown = sorted(set(wanted) - {*NAMES, *SCRIPTS})
    if unknown or not wanted:
        given = f"no study {unknown[0]!r}; " if unknown else ""
        sys.exit(f"{given}python -m studies NAME ...; the studies are {', '.join(NAMES + SCRIPTS)}")
    for name in wanted:
        if name in SCRIPTS:
            subprocess.run([sys.executable, "-m", f"studies.{name}.run"], check=True)
        else:
            run(name)


def run(name: str) -> None:
    cells, started = import_module(f"studies.{name}.run").cells(), time.perf_counter()
    found: list[Row] = []
    seconds = 0.0
    processes = int(os.environ.get("TSC_STUDY_PROCESSES", os.cpu_count() or 1))
    with ProcessPoolExecutor(processes) as pool:
        for done, (rows, spent) in enumerate(pool.map(partial(timed, name), cells), 1):
            found += rows
            seconds += spent
            print(f"{name}: {done} of {len(cells)} parts, {len(found):,} models", flush=True)
    wall = time.perf_counter() - started
    write(name, found, {"processor_seconds": round(seconds), "seconds": round(wall)})
    print(f"{name}: {len(found):,} rows, {seconds:.0f} s of processor time, {wall:.0f} s")


def timed(name: str, cell: Any) -> tuple[list[Row], float]:
    started = time.process_time()
    rows = import_module(f"studies.{name}.run").rows(cell)
    return rows, time.process_time() - started


if __name__ == "__main__":
    main(sys.argv[1:])
