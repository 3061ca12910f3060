"""`python -m studies.own_order.run`: small models trained here on order, every string decided.

One layer, two heads, learned positions, trained on all strings of nine letters for a few seconds.
Every string of one to nine letters is then decided (`tsc.verify`), and counted once more by the
model's own forward pass. Rows go to `studies/results/own_order.json`; times are CPU seconds.
"""

from __future__ import annotations

import json
import sys
import time
from itertools import product
from tempfile import TemporaryDirectory
from typing import Any

import torch

import tsc_interp as tsc
from studies.tables import RESULTS, Row
from tsc_interp.data import AllStrings, BalancedStream

LENGTH, EPOCHS = 9, 6
TASKS: dict[str, Any] = {
    "a before any b": tsc.tasks.Before(),
    "balanced brackets, two deep": tsc.tasks.Brackets(depth=2),
}


def main() -> None:
    """Train, decide and store; a line each."""
    rows = []
    for name, task in TASKS.items():
        rows.append({"task": name, **row(task)})
        print(json.dumps(rows[-1]), flush=True)
    (RESULTS / "own_order.json").write_text(json.dumps({"rows": rows}, indent=1) + "\n")


def row(task: Any, length: int = LENGTH, epochs: int = EPOCHS) -> Row:
    """One model: what it gets wrong by the search, and by asking it about every string."""
    started = time.process_time()
    checkpoint = trained(task, length, epochs)
    training = time.process_time() - started
    started = time.process_time()
    verdict: Any = tsc.verify(checkpoint, lengths=range(1, length + 1), seconds=120)
    search = time.process_time() - started
    started = time.process_time()
    forced = [forward(checkpoint, n) for n in range(1, length + 1)]
    first = verdict.first_wrong
    return {
        "parameters": checkpoint.n_parameters, "strings": verdict.inputs, "wrong": verdict.wrong,
        "undecided": verdict.undecided, "by_length": [one.wrong for one in verdict.lengths],
        "forced": forced, "first": None if first is None else first.string,
        "regions": list(verdict.regions[:2]), "training_seconds": round(training, 1),
        "search_seconds": round(search, 2),
        "force_seconds": round(time.process_time() - started, 2),
    }  # fmt: skip


def trained(task: Any, length: int, epochs: int) -> tsc.Checkpoint:
    config = tsc.ClassifierConfig(
        task=task, n_positions=length + 1, d_model=16, n_heads=2, d_head=8, d_mlp=16, biases=True
    )
    mixed = BalancedStream(max_length=length, batches=40, order="shuffled")
    training = tsc.TrainingConfig(
        train=AllStrings(length=length), validation=mixed, test=mixed.replace(seed=1),
        max_epochs=epochs,
    )  # fmt: skip
    with TemporaryDirectory() as runs:
        (run,) = tsc.train(config, seeds=[0], training=training, runs=runs)
        return tsc.load(run).to_checkpoint()


@torch.no_grad()
def forward(checkpoint: tsc.Checkpoint, length: int) -> int:
    """Wrong strings of one length in float32."""
    model, config = tsc.load(checkpoint), checkpoint.config
    strings = ["".join(letters) for letters in product(config.alphabet.letters, repeat=length)]
    answers = model(model.tokens(strings)).numpy() > 0
    return int((answers != config.classes(strings).astype(bool)).sum())


if __name__ == "__main__":
    sys.exit(main())
