"""Wrong calls of the public functions: `python -m tests.fuzz.calls` tries them all.

Each argument of each public function is replaced by every value below, one at a time. A call may
return, or raise a `TscError`; anything else is a raw exception that a user would have to decipher.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import io
import os
import signal
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

import tsc_interp as tsc
from tsc_interp.checkpoints import load_checkpoint
from tsc_interp.data import BalancedStream

SECONDS = 20
"""Of the processor, after which a call is stopped."""
CALLED = ("progress", "announce", "label", "sample", "original", "hook", "name", "names")
"""Arguments that may be functions: what a function of the user's raises is the user's."""


class Call(NamedTuple):
    """A call with one wrong argument."""

    what: str
    do: Callable[[], Any]


def _fails(*_: Any, **__: Any) -> Any:
    raise ZeroDivisionError


def _values() -> dict[str, Any]:
    return {
        "None": None,
        "True": True,
        "-1": -1,
        "0": 0,
        "1.5": 1.5,
        "10**20": 10**20,
        "nan": float("nan"),
        "-inf": float("-inf"),
        "'x'": "x",
        "''": "",
        "NUL": "\0",
        "surrogate": "a\ud800",
        "bytes": b"ab",
        "[]": [],
        "{}": {},
        "[None]": [None],
        "['x']": ["x"],
        "[-1]": [-1],
        "[10**20]": [10**20],
        "{'x': 1}": {"x": 1},
        "object": object(),
        "class": dict,
        "function": _fails,
        "tensor": torch.ones(2, 2),
        "array": np.array([1.5, float("nan")]),
        "meta model": tsc.load("walkthrough").to("meta"),
        "module": nn.Linear(2, 1),
        "directory": Path(),
        "path with NUL": Path("\0"),
        "config": tsc.ClassifierConfig(),
    }


def _functions() -> dict[str, tuple[Callable[..., Any], dict[str, Any]]]:
    """Each public function with arguments that work, and quickly."""
    name = "generalization-errors"
    model, loaded = tsc.load(name), load_checkpoint(name)
    frame = {"places": (1, 3), "letters": ((0, 1, 2),)}
    quick = {"max_epochs": 1, "train": {"batches": 2}, "test": {"batches": 1}}
    short = BalancedStream(batches=2)
    training = tsc.TrainingConfig(max_epochs=1, train=short, test=short.replace(seed=1))
    certificate = tsc.certify(name, limit=30)
    embedding, head = nn.Embedding(4, 4), nn.Linear(4, 2)
    encoder = nn.TransformerEncoderLayer(4, 2, 4, 0.0, batch_first=True)
    return {
        "load": (tsc.load, {"model": name, "epoch": None}),
        "evaluate": (tsc.evaluate, {"model": name, "strings": "ab"}),
        "run_probe": (tsc.run_probe, {"name": "trace", "model": name, "strings": "aab"}),
        "run_probe patching": (
            tsc.run_probe, {"name": "patching", "model": name, "strings": ["aab", "aac"]},
        ),
        "show_attention": (tsc.show_attention, {"model": name, "strings": "aab"}),
        "analyze": (tsc.analyze, {
            "model": name, "strings": "aab", "probes": "trace", "compare": None, "epoch": None,
            "progress": lambda _: None,
        }),
        "analyze tokens": (tsc.analyze, {
            "model": model, "strings": torch.tensor([[3, 0, 1]]), "probes": "patterns",
            "query": None, "token_names": None, "direction": None, "attention_mask": None,
            "answer": None, "found": None, "name": None,
        }),
        "falsify": (tsc.falsify, {
            "model": name, "label": None, "frame": None, "seconds": 1, "seed": 0, "tries": 50,
            "sample": None, "exhaustive": False, "progress": None,
        }),
        "certify": (tsc.certify, {
            "model": name, "limit": 10, "lengths": None, "seconds": 5.0, "boxes": None,
            "float32": None,
        }),
        "check": (tsc.check, {"document": certificate.document, "seconds": 5.0, "memory": 2**30}),
        "check of a model": (
            lambda document, model: tsc.check(document, model),
            {"document": certificate.document, "model": name},
        ),
        "diff": (tsc.diff, {
            "first": name, "second": "walkthrough", "max_length": 4, "limit": 20, "seconds": 2.0,
            "boxes": 50, "prove": False,
        }),
        "horizon": (tsc.horizon, {
            "model": name, "limit": 20, "seconds": 2.0, "boxes": 100, "prove": False,
            "float32": None,
        }),
        "verify": (tsc.verify, {
            "model": name, "max_length": 4, "lengths": None, "seconds": None, "task": None,
            "horizon": False, "certify": False, "float32": None,
            "replay": False, "progress": None, "announce": None,
        }),
        "intervene": (tsc.intervene, {
            "model": name, "input": "aab", "interventions": "head0=zero", "token_names": None,
        }),
        "edit": (tsc.edit, {"model": name, "interventions": "head0=zero", "strings": ()}),
        "construct": (tsc.construct, {
            "task": "contains_all", "letters": "ab", "letter": "a", "k": 2, "odd": True,
            "n_letters": None, "max_length": 10, "scores": "plain", "mlp": True,
        }),
        "prune": (tsc.prune, {
            "model": name, "keep": 1, "keep_horizon": False, "by": "norm", "strings": None,
            "limit": 50,
        }),
        "runs": (tsc.runs, {"directory": "runs", "experiment": None}),
        "write_playground": (tsc.write_playground, {
            "model": name, "path": "page.html", "compare": None, "history": None, "also": (),
            "circuit": False, "force": True,
        }),
        "lab": (tsc.lab, {"name": "nosuch", "quick": True}),
        "sweep": (tsc.sweep, {
            "what": tsc.Experiment.of("quick", [0], {}, quick), "out": "sweep", "verify": None,
            "limit": 5, "boxes": 5, "processes": 1, "ensemble": None,
        }),
        "train": (tsc.train, {
            "jobs": tsc.ClassifierConfig(), "runs": "runs", "watcher": None, "seeds": [0],
            "training": training, "processes": 1,
        }),
        "from_arrays": (tsc.from_arrays, {
            "config": loaded.config, "arrays": dict(loaded.weights), "original": None,
            "samples": 4, "seed": 0, "provenance": None, "source": "arrays",
        }),
        "from_torch": (tsc.from_torch, {
            "embedding": embedding, "encoder": encoder, "head": head,
            "tokens": {0: "a", 1: "b", 2: "c"}, "query": 3, "task": "contains_all",
            "classes": (0, 1), "positions": None, "samples": 4, "seed": 0,
        }),
        "from_transformer_lens": (tsc.from_transformer_lens, {
            "model": model, "tokens": [0, 1, 2], "task": "contains_all", "query": 3,
            "classes": None, "samples": 4, "seed": 0,
        }),
        "ClassifierConfig": (tsc.ClassifierConfig, {
            field: value for field, value in loaded.config.model_dump().items() if field != "task"
        } | {"task": "contains_all"}),
        "TrainingConfig": (tsc.TrainingConfig, training.model_dump()),
        "Frame": (tsc.Frame, frame | {
            "before": (), "between": {}, "after": (), "read": (-1,), "writes": 0,
            "classes": None, "distinct": False, "names": {}, "name": "",
        }),
        "HookedClassifier": (tsc.HookedClassifier, {
            "config": loaded.config, "weights": None, "seed": 0, "name": "x",
        }),
        "Checkpoint": (tsc.Checkpoint, {
            "config": loaded.config, "weights": dict(loaded.weights), "provenance": {},
            "source": "memory",
        }),
        "Checkpoint.save": (loaded.save, {"path": "model.safetensors"}),
        "model(...)": (lambda strings: model(strings), {"strings": "ab"}),
        "model.run_with_cache": (
            lambda strings, names: model.run_with_cache(strings, names_filter=names),
            {"strings": "ab", "names": None},
        ),
        "model.run_with_hooks": (
            lambda strings, name, hook: model.run_with_hooks(strings, fwd_hooks=[(name, hook)]),
            {"strings": "ab", "name": "blocks.0.hook_resid_post", "hook": lambda value, hook: None},
        ),
        "model.tokens": (model.tokens, {"strings": "ab"}),
        "report.write": (
            lambda path: tsc.analyze(name, "aab", probes="trace").save(path), {"path": "report"},
        ),
    }  # fmt: skip


def calls() -> Iterator[Call]:
    """Every call with one wrong argument."""
    values = _values()
    for name, (function, arguments) in _functions().items():
        for argument in arguments:
            for label, value in values.items():
                if argument in CALLED and label in ("class", "module"):
                    continue
                given = {**arguments, argument: value}
                yield Call(f"{name}({argument}={label})", functools.partial(function, **given))


def outcome(call: Call) -> tuple[str, str]:
    """How a call ends: "returned", "TscError", or the raw exception with where it came from."""

    def stop(*_: object) -> None:
        raise TimeoutError(f"more than {SECONDS} s")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            call.do()
    except tsc.TscError as error:
        return "TscError", str(error)
    except ZeroDivisionError:
        return "returned", "the function that was given failed"
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        ours = [frame for frame in frames if "tsc_interp" in frame.filename]
        where = f"{ours[-1].filename}:{ours[-1].lineno}" if ours else "?"
        return type(error).__name__, f"{str(error)[:90]!r} {where}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
    return "returned", ""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.calls", description=__doc__)
    parser.add_argument("--only", default="", help="only calls that hold this")
    options = parser.parse_args()
    endings: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as place:
        os.chdir(place)
        for call in calls():
            if options.only not in call.what:
                continue
            ending, detail = outcome(call)
            endings[ending] += 1
            if ending not in ("returned", "TscError"):
                print(f"{ending}: {call.what}\n    {detail}", flush=True)
    print(dict(endings))
    return int(bool(set(endings) - {"returned", "TscError"}))


if __name__ == "__main__":
    sys.exit(main())
