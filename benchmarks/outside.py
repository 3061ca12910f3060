"""Probes on a model somebody else made: GPT-2-small's shape, random weights, 8 rows of 64 tokens.

Run by `python -m benchmarks.outside [probe...]`, or with `report` for a whole report, page and all.
The model is built here and nothing is downloaded. Memory is what the process holds at most, beyond
what it held once the model was built.
"""

from __future__ import annotations

import json
import resource
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import torch

PROBES = ("specialization", "margin", "superposition", "attribution")
SHAPE = {
    "n_layers": 12, "n_heads": 12, "d_model": 768, "d_head": 64, "d_mlp": 3072, "n_ctx": 64,
    "d_vocab": 50257, "act_fn": "gelu_new", "normalization_type": "LN", "device": "cpu", "seed": 0,
}  # fmt: skip


def main(wanted: list[str]) -> None:
    from tsc_interp.probes.registry import run_probe

    model = build()
    tokens = torch.randint(0, 50257, (8, 64), generator=torch.Generator().manual_seed(1))
    if wanted == ["report"]:
        return report(model, tokens)
    before = resident()
    print(f"GPT-2-small's shape, 8 x 64 tokens ({before:.0f} MB with the model built):")
    totals = [0.0, 0.0, 0.0]
    for name in wanted or PROBES:
        options = {"direction": model.W_U[:, 5].detach()} if name == "attribution" else {}
        started, busy = time.perf_counter(), time.process_time()
        result = run_probe(name, model, tokens, **options)
        clock, cpu = time.perf_counter() - started, time.process_time() - busy
        size = len(json.dumps(result.to_dict())) / 1e6
        totals = [a + b for a, b in zip(totals, (clock, cpu, size), strict=True)]
        print(
            f"  {name:15s} {clock:7.1f} s ({cpu:6.1f} of CPU)   {size:6.2f} MB of JSON", flush=True
        )
    clock, cpu, size = totals
    print(f"  {'all':15s} {clock:7.1f} s ({cpu:6.1f} of CPU)   {size:6.2f} MB of JSON")
    print(f"  at most {peak() - before:.0f} MB beyond the model")


def report(model: Any, tokens: torch.Tensor) -> None:
    """All four probes, and the page they make."""
    import tsc_interp as tsc

    before, started, busy = resident(), time.perf_counter(), time.process_time()
    print(f"GPT-2-small's shape, 8 x 64 tokens ({before:.0f} MB with the model built):")
    made = tsc.analyze(model, tokens, direction=model.W_U[:, 5].detach())
    _took("analyze", started, busy)
    started, busy = time.perf_counter(), time.process_time()
    with tempfile.TemporaryDirectory() as place:
        made.save(place, plotlyjs="directory")
        _took("save", started, busy)
        for name in ("index.html", "report.md", "report.json"):
            print(f"  {name:15s} {(Path(place) / name).stat().st_size / 1e6:7.2f} MB")
    print(f"  at most {peak() - before:.0f} MB beyond the model")


def _took(what: str, started: float, busy: float) -> None:
    clock, cpu = time.perf_counter() - started, time.process_time() - busy
    print(f"  {what:15s} {clock:7.1f} s ({cpu:6.1f} of CPU)", flush=True)


def build() -> Any:
    """TransformerLens 4's own model; 3's takes the same options."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            from transformer_lens import TransformerBridge, TransformerBridgeConfig

            return TransformerBridge.boot_native(TransformerBridgeConfig(**SHAPE)).eval()
        except ImportError:
            from transformer_lens import HookedTransformer, HookedTransformerConfig

            return HookedTransformer(HookedTransformerConfig(**SHAPE)).eval()


def resident() -> float:
    """Megabytes held now; forgets the largest there was, so that `peak` is about what follows."""
    Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS")


def peak() -> float:
    return _status("VmHWM")


def _status(field: str) -> float:
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:  # not Linux
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    return next(int(line.split()[1]) for line in lines if line.startswith(field)) / 1e3


if __name__ == "__main__":
    main(sys.argv[1:])
