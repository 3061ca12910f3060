"""Random interventions with `tsc.intervene`'s answers, for the page's JavaScript to agree with.

The oracle is the package's own hooks, in float64.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tsc_interp as tsc
from tests.cases import CONFIGS
from tsc_interp.checkpoints import Checkpoint, bundled_names, load_checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import TscError
from tsc_interp.interventions.intervention import Intervention
from tsc_interp.interventions.parts import writers
from tsc_interp.model.classifier import Classifier
from tsc_interp.model.initialise import initial_weights
from tsc_interp.playground.payload import encoded_weights

SETS = 14
"""How many sets of interventions each model gets."""


class Drawn:
    """Random strings, parts and changes of one model."""

    def __init__(self, config: ClassifierConfig, seed: int) -> None:
        self.config, self.random = config, np.random.default_rng(seed)

    def string(self, *, every: bool = False) -> str:
        """With `every`, each letter occurs."""
        high = float(self.random.choice([1, 3]))
        powers = self.random.uniform(0 if every else -0.6, high, self.config.n_letters)
        counts = np.floor(10**powers).astype(int)
        counts[0] += counts.sum() == 0
        return self.config.alphabet.write(counts)

    def pick(self, options: Any) -> Any:
        return options[int(self.random.integers(len(options)))]

    def numbers(self, size: int) -> str:
        return ", ".join(f"{x:.3g}" for x in self.random.normal(0, 1.5, size))

    def intervention(self) -> str:
        part = self.pick([p for p in writers(self.config) if p.kind != "embed"])
        where = str(part)
        changes = ["zero", f"scale({self.random.normal():.3g})", f"patch({self.string()})"]
        strings = [self.string(every=True) for _ in range(int(self.random.integers(1, 4)))]
        changes += [f"mean({', '.join(strings)})"] * 2 + [f"from({strings[0]})"]
        if part.kind == "neuron":
            if self.random.random() < 0.3:
                where, size = where.replace(f"neuron{part.index}", "mlp"), self.config.d_model
            else:
                size = 1
            return f"{where}={self.pick([*changes, f'set({self.numbers(size)})'])}"
        changes.append(f"set({self.numbers(self.config.d_head)})")
        inside = self.pick(["", ".query", ".key", ".value", ".pattern"])
        if inside == ".pattern":
            changes = [f"patch({self.string()})"]
        if inside in (".key", ".value") and self.random.random() < 0.6:
            letters = self.config.alphabet.letters
            inside += f"[{self.pick([*letters, 'CLS'])}]"
            if part.layer == 0:
                changes += [f"like({self.pick(letters)})"] * 2
        return f"{where}{inside}={self.pick(changes)}"

    def several(self) -> list[str]:
        found = {text.partition("=")[0]: text for text in (self.intervention() for _ in range(3))}
        return list(found.values())[: int(self.random.integers(1, 4))]


def change_case(checkpoint: Checkpoint, seed: int) -> dict[str, Any]:
    model, drawn = Classifier.from_checkpoint(checkpoint).double(), Drawn(checkpoint.config, seed)
    sets = []
    for _ in range(SETS):
        changes, strings = drawn.several(), [drawn.string() for _ in range(5)]
        outcome = tsc.intervene(model, strings, changes)
        sets.append({"changes": changes, "strings": strings, "logits": outcome.after.tolist()})
    return {
        "config": checkpoint.config.to_dict(),
        "weights": encoded_weights(checkpoint),
        "sets": sets,
    }


def change_cases() -> list[dict[str, Any]]:
    models = [load_checkpoint(name) for name in bundled_names()]
    for seed, config in enumerate(CONFIGS):
        weights = {n: w.numpy() * 1.7 for n, w in initial_weights(config, seed).items()}
        models.append(Checkpoint(config, weights))
    return [
        change_case(model, seed)
        for seed, model in enumerate(models)
        if any(part.kind != "embed" for part in writers(model.config))
    ]


WRITTEN = [
    *["head0=zero", " head1 = mean( aab,abc ) ", "head0.value[c]=like(b)", "layer0.head0=zero"],
    *["neuron1=set(.5)", "mlp=scale(2e0)", "head0.pattern=patch(ab{3})", "head1.key=from(cc)"],
    *["head0.value[CLS]=set(-0.25)", "head1.query=scale(-1)"],
]
REFUSED = [
    *["", "head0", "head7=zero", "layer3.head0=zero", "neuron9=zero", "head0[c]=zero"],
    *["head0.value[z]=zero", "head0=like(b)", "head0=mean(xyz)", "head0=patch()", "head0=zero(a)"],
    *[
        "head0.value[c]=like(z)",
        "head0=set(1, 2)",
        "head0=from(a{)",
        "head-1=zero",
        "toString=zero",
    ],
    *["head0=scale(x)", "head0.pattern=mean(ab)", "head0=constructor", "=", "head0=", "mlp=set(1)"],
]


def notation_cases() -> dict[str, Any]:
    """For the walk-through model: what Python makes of notation, and what it refuses."""
    model = tsc.load("walkthrough")
    for text in REFUSED:
        try:
            tsc.intervene(model, ["abc"], text)
        except TscError:
            continue
        raise AssertionError(f"Python takes {text!r}")
    return {
        "config": model.config.to_dict(),
        "written": [[text, str(Intervention.parse(text))] for text in WRITTEN],
        "refused": REFUSED,
    }
