"""What exact verification of order-sensitive models costs. Run by `python -m benchmarks.order`.

    python -m benchmarks.order [FOLDER] [--certify SECONDS] [--only NAME]

Four models of our own need no download; FOLDER holds your copies of public ones (the 456-parameter
adder, ARENA's cumulative sum; `studies/public_models/readers.py` lists the formats). Each row has a
process of its own: CPU seconds of one core for the search, for the certificate and for the checker
alone, and the process's peak memory. The targets are issue figures: max-of-4 0.5 s, the
456-parameter adder 6 s (checked 60 s), the cumulative sum of 20 numbers 6 s, memory 2 GB.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = "1"

import argparse
import resource
from multiprocessing import get_context
from pathlib import Path
from typing import Any

VALUES = (0, 1, 2, 3, 4, 5, -5, -4, -3, -2, -1)
OWN = ("own adder, 3 digits", "own adder, 4 digits", "own sum of 20", "max-of-4")
LENGTHS = {"own sum of 20": [20], "max-of-4": [4]}


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.order")
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--seconds", type=float, default=120.0, help="for the search")
    parser.add_argument("--certify", type=float, default=120.0, help="per certificate; 0: none")
    parser.add_argument("--only", default="", help="rows whose name contains this")
    asked = parser.parse_args(arguments)
    files = sorted(asked.folder.glob("*.pt")) if asked.folder else []
    head = f"{'model':<24}{'inputs':>11}{'wrong':>10}{'undecided':>11}"
    print(f"{head}{'search':>9}{'certify':>9}{'check':>9}{'memory':>9}")
    for what in [one for one in [*OWN, *files] if asked.only in str(one)]:
        with get_context("spawn").Pool(1) as pool:
            print(pool.apply(row, (what, asked.seconds, asked.certify)), flush=True)


def subject(what: str | Path) -> tuple[str, Any, Any]:
    """A name, the model, and the lengths to decide."""
    if isinstance(what, Path):
        from studies.public_models.run import identity, read

        found = read(what)
        # Of the cumulative sum the longest strings are the benchmark; the others add little.
        return str(identity(what)["name"]), found.checkpoint, found.lengths and found.lengths[-1:]
    from studies.constructed import carry_adder, running_sum
    from studies.keep import model

    made = {
        "own adder, 3 digits": lambda: carry_adder(3),
        "own adder, 4 digits": lambda: carry_adder(4),
        "own sum of 20": lambda: running_sum(VALUES, 20),
        "max-of-4": lambda: model("max_of_four"),
    }
    return what, made[what](), LENGTHS.get(what)


def row(what: str | Path, seconds: float, certify: float) -> str:
    """One line of the table."""
    import tsc_interp as tsc
    from tsc_interp.verification.order import certificates  # noqa: F401  (before the clock starts)

    try:
        name, checkpoint, lengths = subject(what)
    except (tsc.TscError, KeyError, ValueError) as error:
        return f"{Path(what).stem:<24} {error}"
    started = _cpu()
    verdict: Any = tsc.verify(checkpoint, lengths=lengths, seconds=seconds)
    times = [_cpu() - started]
    if certify:
        started = _cpu()
        made = tsc.certify(checkpoint, lengths=lengths, seconds=certify)
        times.append(_cpu() - started)
        started = _cpu()
        tsc.check(made.document, checkpoint, seconds=10 * certify)
        times.append(_cpu() - started)
    told = "".join(f"{spent:7.2f} s" for spent in times) + (3 - len(times)) * "        -"
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return (
        f"{name:<24}{float(verdict.inputs):11.2e}{float(verdict.wrong):10.3g}"
        f"{float(verdict.undecided):11.3g}{told}{memory:6.0f} MB"
    )


def _cpu() -> float:
    """CPU seconds of this process and of helpers that have ended."""
    return sum(os.times()[:4])


if __name__ == "__main__":
    main()
