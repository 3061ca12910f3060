"""The trusted base against brute force: `python -m tests.fuzz.kernel --minutes 30 --seed 0`.

Random models of counts of every kind, with extreme scores (gaps of 700 and more), equal outputs,
zero weights, denormals and huge embeddings of CLS and PAD; random regions and claims about them,
over the reals and in float32. What is accepted is compared with mpmath
(`tests/verification/precise.py`) and with torch in float32, sums in several orders. False and
accepted is the one bad ending.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from typing import Any

import numpy as np

from tests.trusted.counts import answer, contradicted, forged_parts, replay_of
from tests.verification.models import random_checkpoint
from tests.verification.test_float32 import computed, shuffled
from tsc_interp.checkpoints import Checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.tasks.counts import AtLeast, ContainsAll, Majority, Maximum, MostFrequent, Parity
from tsc_interp.trusted.errors import NotProved
from tsc_interp.trusted.float32 import FORMS

Part = dict[str, Any]
_STRANGE = ("plain", "plain", "scores", "equal outputs", "zeros", "denormal", "huge CLS and PAD")


def random_model(rng: np.random.Generator) -> tuple[str, Checkpoint]:
    """A model of counts, and what is strange about it."""
    letters, outputs = int(rng.integers(1, 4)), int(rng.choice([1, 1, 2, 3]))
    layers = int(rng.choice([1, 1, 1, 2]))
    deep: dict[str, Any] = {} if layers > 1 else {
        "gated_mlp": bool(rng.random() < 0.15), "qk_norm": str(rng.choice(["off"] * 5 + ["rms"])),
        "reads": str(rng.choice(["first"] * 4 + ["last"])),
    }  # fmt: skip
    letter = "abc"[rng.integers(letters)]
    tasks: list[Any] = [
        ContainsAll(letters="ab" if letters > 1 else "a"), AtLeast(letter=letter, k=2),
        Majority(letter=letter), Parity(letter=letter),
        *([Maximum(), MostFrequent()] if max(2, outputs) >= letters else []),
    ]  # fmt: skip
    scales = ["sqrt_d_head"] * 3 + ["sqrt_d_head_log_n", "sqrt_d_head_log_n_cls"]
    causal = deep.get("reads") == "last"
    norm = str(rng.choice(["off"] * 4 + ["rms", "layer", "rms_pre", "layer_pre"]))
    config = ClassifierConfig(
        n_letters=letters, n_outputs=outputs, n_layers=layers, d_model=int(rng.integers(1, 5)),
        n_heads=int(rng.integers(0, 4)) if deep.get("qk_norm", "off") == "off" else 2,
        d_head=int(rng.integers(1, 3)), norm=norm,
        d_mlp=int(rng.integers(0, 4)) + bool(deep.get("gated_mlp")),
        attend_cls=causal or bool(rng.random() < 0.5), biases=bool(rng.random() < 0.5),
        act_fn=str(rng.choice(["gelu", "gelu_new", "relu", "silu"])),  # type: ignore[arg-type]
        score_scale="sqrt_d_head" if causal else str(rng.choice(scales)),  # type: ignore[arg-type]
        final_norm=norm != "off" and bool(rng.random() < 0.5),
        task=tasks[rng.integers(len(tasks))], **deep,
    )  # fmt: skip
    scale = float(10 ** rng.uniform(-1, 1))
    checkpoint = random_checkpoint(config, int(rng.integers(10**6)), scale)
    strange, weights = str(rng.choice(_STRANGE)), dict(checkpoint.weights)
    for name, weight in weights.items():
        weights[name] = weight.copy()
    if strange == "scores" and config.has_attention:
        weights["blocks.0.attn.W_Q"] *= np.float32(10 ** rng.uniform(1, 4))
    elif strange == "equal outputs":
        weights["unembed.W_U"][:] = weights["unembed.W_U"][:, :1]
    elif strange == "zeros":
        chosen = str(rng.choice(sorted(weights)))
        weights[chosen][:] = 0
    elif strange == "denormal":
        weights["unembed.W_U"] *= np.float32(1e-40)
    elif strange == "huge CLS and PAD":
        weights["embed.W_E"][int(rng.integers(2))] *= np.float32(10 ** rng.uniform(3, 25))
    return strange, Checkpoint(config, weights)


def float32_refuted(checkpoint: Checkpoint, part: Part, form: str, rng: Any) -> bool:
    """Whether torch contradicts a float32 claim, its sums in some orders."""
    config, at = checkpoint.config, FORMS.index(form)
    (claimed,) = {node[1] for node in part["tree"] if node[0] == "is"}
    if "counts" in part:
        rows = [part["counts"]]
    else:
        rows = []
        for _ in range(4):
            row = [0] * config.n_letters
            for letter in part["letters"]:
                row[letter] = 1
            for _ in range(int(rng.integers(max(1, min(part["up_to"], 30) - sum(row) + 1)))):
                row[int(rng.choice(part["letters"]))] += 1
            rows += [row] if sum(row) <= part["up_to"] else []
    return any(
        int(computed(shuffled(checkpoint, rng), row, rng)[at] > 0) != claimed
        for row in rows
        for _ in range(3)
    )


def one_model(rng: np.random.Generator, endings: Counter[str]) -> None:
    """Every forged part of one model, and what became of it."""
    strange, checkpoint = random_model(rng)
    config = checkpoint.config
    form = str(rng.choice(FORMS)) if config.n_layers == 1 and config.n_outputs == 1 else None
    try:
        parts = replay_of(checkpoint, form).parts
    except NotProved:
        endings["not known"] += 1
        return
    endings["models"] += 1
    for part in forged_parts(config):
        kind = next(k for k in ("counts", "up_to", "ever", "from", "limit") if k in part)
        try:
            parts.add(part)
            endings[f"{kind}: accepted"] += 1
        except NotProved:
            endings[f"{kind}: refused"] += 1
            continue
        drowned = config.attend_cls and strange in ("scores", "huge CLS and PAD")
        if kind != "limit" or not drowned:  # there no count that is tried is far enough
            against = contradicted(checkpoint, part)
            if against is not None:
                endings["FALSE"] += 1
                print("ACCEPTED AND FALSE", part, against, answer(checkpoint, against), config,
                      {n: w.tolist() for n, w in checkpoint.weights.items()})  # fmt: skip
        if form is not None and kind in ("counts", "up_to"):
            tree = [[*n, "float32"] if n[0] == "is" else n for n in part["tree"]]
            try:
                parts.add({**part, "tree": tree})
            except NotProved:
                continue
            endings[f"{kind}: accepted in float32"] += 1
            if float32_refuted(checkpoint, part, form, rng):
                endings["FALSE"] += 1
                print("FALSE IN FLOAT32", form, part, config)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.kernel", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng, endings = np.random.default_rng(options.seed), Counter[str]()
    until = time.monotonic() + 60 * options.minutes
    while time.monotonic() < until:
        one_model(rng, endings)
    print("| what | number |\n|---|---:|")
    for name, count in sorted(endings.items()):
        print(f"| {name} | {count:,} |")
    return int(endings["FALSE"] > 0)


if __name__ == "__main__":
    sys.exit(main())
