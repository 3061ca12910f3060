"""`python -m studies verifiers`: general verifiers asked the same questions as `tsc.verify`.

Options: `--auto-lirpa FOLDER`, the source of auto_LiRPA (github.com/Verified-Intelligence), and
Marabou where `maraboupy` can be imported. Each is asked whether a ReLU sibling of the walk-through
model is right on all strings up to a length (questions.py). Times are CPU seconds, each limited by
`--seconds`. The result is `studies/results/verifiers.json`.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import torch

import tsc_interp as tsc
from studies.keep import model
from studies.tables import RESULTS, Row
from studies.verifiers.questions import CountsNetwork, Heads

LENGTHS, SECONDS = (10, 100, 351, 352), 60.0


def main(arguments: Sequence[str]) -> None:
    """Ask every verifier that is there, print a line each, and store what they said."""
    parser = argparse.ArgumentParser(prog="python -m studies verifiers", description=__doc__)
    parser.add_argument("--auto-lirpa", type=Path, help="a folder that holds auto_LiRPA's source")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="for each question")
    parser.add_argument("--store", type=Path, default=RESULTS / "verifiers.json")
    asked = parser.parse_args(arguments)
    torch.set_num_threads(1)
    rows = _ours()
    if asked.auto_lirpa is not None:
        sys.path.insert(0, str(asked.auto_lirpa))
        from studies.verifiers import lirpa

        rows += lirpa.rows(asked.seconds)
    try:
        from studies.verifiers import marabou
    except ImportError as error:
        print(f"Marabou was not asked: {error}", flush=True)
    else:
        rows += marabou.rows(asked.seconds)
    for row in rows:
        print(line(row), flush=True)
    asked.store.write_text(json.dumps({"rows": rows}, indent=1) + "\n", encoding="utf-8")


def timed(ask: Callable[[], Row], **known: Any) -> Row:
    """What was said, with the CPU seconds it took."""
    started = time.process_time()
    found = ask()
    return {**known, **found, "seconds": round(time.process_time() - started, 2)}


def _ours() -> list[Row]:
    relu = model("relu")

    def strings(length: int) -> Row:
        verdict: Any = tsc.verify(relu, length)
        return {"answered": True, "right": verdict.correct, "parts": verdict.tally.vectors,
                "open": 0}  # fmt: skip

    return [timed(lambda n=n: strings(n), tool="tsc-interp", question="strings", length=n)
            for n in LENGTHS]  # fmt: skip


# -- what both modules need --------------------------------------------------------------------


def supports() -> list[tuple[tuple[int, ...], bool]]:
    """Sets of letters of a, b, c, and whether strings over them contain a and b."""
    every = [s for size in (1, 2, 3) for s in combinations(range(3), size)]
    return [(support, {0, 1} <= set(support)) for support in every]


def relu_heads() -> Heads:
    return Heads.of(model("relu"))


def exact_logits(network: CountsNetwork, counts: np.ndarray) -> np.ndarray:
    return network(torch.from_numpy(counts.astype(np.float64)))[:, 0].numpy()


def line(row: Row) -> str:
    """One row in words."""
    asked = f"strings up to {row['length']}"
    said = ("right" if row["right"] else "wrong") if row["answered"] else "not answered"
    how = f" ({row['method']})" if "method" in row else ""
    return (
        f"{row['tool'] + how:<28} {asked:<20} {said:<14} {row['parts']:>9,} parts, "
        f"{row['open']:,} open, {row['seconds']:.1f} s"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
