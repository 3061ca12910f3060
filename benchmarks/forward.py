"""How fast strings are read: token form against compressed form, and start-up times.

Run by `python -m benchmarks.forward`. Both forms evaluate the same 10,000 random strings of up to
200 letters with the `walkthrough` model, in batches of 500; the printed ratio is from this one run.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from tsc_interp.checkpoints import load_checkpoint
from tsc_interp.model.forward import forward
from tsc_interp.model.inputs import from_counts, from_tokens

STRINGS = 10_000
BATCH = 500


def main() -> None:
    checkpoint = load_checkpoint("walkthrough")
    config = checkpoint.config
    weights = {name: torch.from_numpy(value) for name, value in checkpoint.weights.items()}
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 201, STRINGS)
    counts = np.stack([rng.multinomial(n, rng.dirichlet(np.ones(3))) for n in lengths])
    batches = [counts[start : start + BATCH] for start in range(0, STRINGS, BATCH)]
    tokens = [
        torch.from_numpy(config.alphabet.tokens([config.alphabet.write(row) for row in batch]))
        for batch in batches
    ]
    with torch.no_grad():
        started = time.perf_counter()
        short = [forward(config, weights, from_counts(config, batch)) for batch in batches]
        compressed = time.perf_counter() - started
        started = time.perf_counter()
        long = [forward(config, weights, from_tokens(config, batch)) for batch in tokens]
        expanded = time.perf_counter() - started
    apart = float((torch.cat(short) - torch.cat(long)).abs().max())
    print(f"forward, {STRINGS:,} strings of up to 200 letters:")
    print(f"  token form       {expanded * 1e3:9.1f} ms")
    print(
        f"  compressed form  {compressed * 1e3:9.1f} ms   {expanded / compressed:.0f} times faster"
    )
    print(f"  largest difference between the two {apart:.1e}")
    print("start-up, best of three:")
    for arguments in (["--help"], ["info"], ["eval", "aac"], ["analyze", "--quiet"]):
        print(f"  tsc-interp {' '.join(arguments):15s} {_best_of_three(arguments):.2f} s")


def _best_of_three(arguments: list[str]) -> float:
    command = [str(Path(sys.executable).parent / "tsc-interp"), *arguments]
    times = []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(3):
            started = time.perf_counter()
            subprocess.run(command, capture_output=True, check=True, cwd=folder)
            times.append(time.perf_counter() - started)
    return min(times)


if __name__ == "__main__":
    main()
