"""What the page's JavaScript is held against: cases with Python's answers.

Every oracle is this package's float64 forward pass, its own parser, its task rules, its hooks, its
verifier, the exact model, or an enumeration of all strings up to a length.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from flint import ctx
from numpy.typing import NDArray

import tsc_interp as tsc
from tests.cases import CONFIGS, FAMILY
from tests.playground.changes import change_cases, notation_cases
from tests.playground.copied import python_scripts, run_script
from tests.playground.family import family_cases, random_checkpoint
from tests.playground.training import training_cases
from tsc_interp.checkpoints import Checkpoint, bundled_names, load_checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import StringError
from tsc_interp.model.forward import forward
from tsc_interp.model.initialise import initial_weights
from tsc_interp.model.inputs import from_counts
from tsc_interp.playground.mapfields import MapView, map_length
from tsc_interp.playground.mapfigure import layers, summary
from tsc_interp.playground.payload import encoded_weights
from tsc_interp.strings import Alphabet
from tsc_interp.tasks.counts import AtLeast, ContainsAll, Majority, Parity
from tsc_interp.verification.count_model import CountModel

BAD_AND_GOOD = [
    *["", "a", "aac", "a{3}b", "a{003}", "a{0}", "a{", "a{}", "a{2", "a{2}{3}", "{3}a", "}", "a}"],
    *["A", "d", "z", " a", "a ", "a\n", "a\tb", "é", "a💥b", "💥{3}", "a{-1}", "a{1.5}", "a{1e3}"],
    *["a{1000000000}", "a{1000000001}", "a{99999999999999}", "a{1000000000}a", "a{ 2}", "a{２}"],
    *["'", '"', "it's", 'say "a"', "\\", "a\\n", "\x00", "a\u200b", "a\xa0", "a\u2028", "<script>"],
    *["a" * 70 + "!", "!" + "b" * 70, "abc" * 500, "b{7}a{2}b{1}c"],
]


def double(weights: Any) -> dict[str, torch.Tensor]:
    return {name: torch.as_tensor(np.array(w), dtype=torch.float64) for name, w in weights.items()}


def exact_logits(config: ClassifierConfig, weights: Any, counts: NDArray[np.int64]) -> NDArray:
    with torch.no_grad():
        return forward(config, double(weights), from_counts(config, counts)).numpy()


def fresh(config: ClassifierConfig, seed: int) -> Checkpoint:
    weights = {name: w.numpy() * 1.7 for name, w in initial_weights(config, seed).items()}
    return Checkpoint(config, weights)


def random_strings(config: ClassifierConfig, number: int) -> list[str]:
    generator = np.random.default_rng(number + config.n_letters)
    counts = np.floor(10 ** generator.uniform(-0.7, 5, (number, config.n_letters))).astype(int)
    counts[:, -1] += counts.sum(axis=1) == 0
    return [config.alphabet.write(row) for row in counts]


def given(checkpoint: Checkpoint) -> dict[str, Any]:
    """A model as the page gets it, its configuration read."""
    return {"config": checkpoint.config.to_dict(), "weights": encoded_weights(checkpoint)}


def string_case(text: str, size: int) -> dict[str, Any]:
    try:
        return {
            "text": text,
            "size": size,
            "counts": Alphabet(size).counts(text).tolist(),
            "error": None,
        }
    except StringError as error:
        return {"text": text, "size": size, "counts": None, "error": str(error)}


def model_case(checkpoint: Checkpoint, strings: list[str]) -> dict[str, Any]:
    config = checkpoint.config
    counts = config.alphabet.count_matrix(strings)
    kept: dict[str, Any] = {}

    def keep(name: str, activation: torch.Tensor) -> torch.Tensor:
        if name.endswith("hook_pattern"):
            kept[name] = activation[0, :, 0].tolist()
        if name.endswith("hook_z"):
            kept[name] = activation[0, 0].tolist()
        return activation

    with torch.no_grad():
        weights = double(checkpoint.weights)
        logits = forward(config, weights, from_counts(config, counts), tap=keep)
    return {
        **given(checkpoint),
        "shapes": {name: list(shape) for name, shape in config.weight_shapes().items()},
        "strings": strings,
        "logits": logits.tolist(),
        "activations": kept,
    }


def vectors_of_length(size: int, length: int) -> Iterator[tuple[int, ...]]:
    """Lexicographically largest first: the alphabetical order of sorted strings."""
    if size == 1:
        yield (length,)
        return
    for first in range(length, -1, -1):
        for rest in vectors_of_length(size - 1, length - first):
            yield (first, *rest)


def first_error_by_enumeration(checkpoint: Checkpoint, limit: int) -> list[int] | None:
    config = checkpoint.config
    for length in range(1, limit + 1):
        counts = np.array(list(vectors_of_length(config.n_letters, length)))
        wrong = (exact_logits(config, checkpoint.weights, counts) > 0) != config.task.labels(counts)
        if wrong.any():
            return [int(count) for count in counts[int(wrong.argmax())]]
    return None


def weaker(name: str, factor: float, **changes: Any) -> Checkpoint:
    """A bundled model with its scores scaled down: it fails on strings short enough to list."""
    checkpoint = load_checkpoint(name)
    weights = {
        key: w * np.float32(factor if "W_Q" in key else 1) for key, w in checkpoint.weights.items()
    }
    return Checkpoint(checkpoint.config.replace(**changes), weights)


def search_cases() -> list[dict[str, Any]]:
    models = {
        "generalization-errors": load_checkpoint("generalization-errors"),
        "walkthrough, weaker": weaker("walkthrough", 0.45),
        "attend-cls, weaker": weaker("attend-cls", 0.5),
        "wide, weaker": weaker("increased-dimensionality", 0.6),
        "many heads, weaker": weaker("many-heads", 0.75),
        "lower-magnitude": load_checkpoint("lower-magnitude"),
        "log n": weaker("walkthrough", 0.12, score_scale="sqrt_d_head_log_n"),
        "log n with CLS": weaker("attend-cls", 0.12, score_scale="sqrt_d_head_log_n"),
        "at least 2 a": weaker("walkthrough", 1, task=AtLeast(letter="a", k=2)),
        "majority of b": weaker("walkthrough", 1, task=Majority(letter="b")),
    }
    cases = []
    for name, checkpoint in models.items():
        counts = first_error_by_enumeration(checkpoint, 90)
        assert counts is not None, f"{name} makes no error that a test can list"
        cases.append({"name": name, **given(checkpoint), "counts": counts})
    # Beyond what can be listed: the verifier's answers, proved by interval arithmetic.
    for name in bundled_names():
        checkpoint = load_checkpoint(name)
        found = tsc.horizon(checkpoint).shortest
        assert found is not None
        cases.append({"name": name, **given(checkpoint), "counts": list(found.counts)})
    return cases


def exact_logit(model: CountModel, counts: list[int]) -> list[float]:
    """The real logit as a sum of two floats, thirty digits of it."""
    with ctx.workprec(1024):
        zero, one = model.outputs(counts)
        ball = one - zero
        high = float(ball)
        return [high, float(ball - high)]


def _sign(answer: int | None) -> int | None:
    return None if answer is None else 2 * answer - 1


def scaled(config: ClassifierConfig, seed: int, sizes: dict[str, float]) -> Checkpoint:
    weights = {
        name: w.numpy() * np.float32(next((s for part, s in sizes.items() if part in name), 1.7))
        for name, w in initial_weights(config, seed).items()
    }
    return Checkpoint(config, weights)


def cancelling(size: float) -> Checkpoint:
    """Two heads that cancel but for a thousandth: 0.1 is no float, so its products are rounded.

    Head 0 reads the mixture of a and b with values of `size`, head 1 the same with the opposite
    sign, and the CLS embedding adds a thousandth on the right side for strings with a.
    """
    config = ClassifierConfig(
        n_letters=2, d_model=3, n_heads=2, d_head=1, d_mlp=0, task=AtLeast(letter="a", k=1)
    )
    weights = {name: np.zeros(shape, np.float32) for name, shape in config.weight_shapes().items()}
    weights["embed.W_E"][:] = [[0, 0, 1], [0, 0, 0], [1, 0.1, 0], [1, 0.7, 0]]
    value = np.array([0.1, 0.3, 0], np.float32) * np.float32(size)
    weights["blocks.0.attn.W_V"][0, :, 0] = value
    weights["blocks.0.attn.W_V"][1, :, 0] = value
    weights["blocks.0.attn.W_O"][0, 0] = [0.3, 0, 0]
    weights["blocks.0.attn.W_O"][1, 0] = [-0.3, 0, 0]
    weights["unembed.W_U"][:, 0] = [1.1, 0, 1e-3]
    return Checkpoint(config, weights)


def rounding_cases() -> list[dict[str, Any]]:
    """Models whose terms are far larger than their logits, with the real logits."""
    huge = {"W_V": 3e5, "W_O": 4e5, "W_out": 2e6}
    models = [(f"cancelling {size:g}", cancelling(size)) for size in (1, 1e6, 1e12, 1e15)]
    models += [(f"{i}", fresh(config, 50 + i)) for i, config in enumerate(CONFIGS)]
    models += [(f"{i} huge", scaled(config, i, huge)) for i, config in enumerate(CONFIGS)]
    models += [(f"{i} sharp", scaled(config, i, {"W_Q": 40})) for i, config in enumerate(CONFIGS)]
    cases = []
    for name, checkpoint in models:
        config, model = checkpoint.config, CountModel(checkpoint)
        counts = config.alphabet.count_matrix(random_strings(config, 12)).tolist()
        counts += [list(row) for row in vectors_of_length(config.n_letters, 2)][:6]
        cases.append(
            {
                "name": name,
                **given(checkpoint),
                "counts": counts,
                "logits": [exact_logit(model, row) for row in counts],
                "signs": [_sign(model.answer(row)) for row in counts],
            }
        )
    return cases


def map_cases() -> list[dict[str, Any]]:
    """Every bundled model's map as Python draws it, and some of other shapes, tasks and lengths."""
    models = [(load_checkpoint(name), 4.0, 1000) for name in bundled_names()]
    models += [(load_checkpoint("attend-cls"), 4.0, n) for n in (1, 2, 4, 57, 1427)]
    models += [(weaker("walkthrough", 0.5), 1.0, 9), (weaker("walkthrough", 1), 2.5, 9)]
    models += [(weaker("walkthrough", 1, task=Majority(letter="b")), 2.0, 30)]
    models += [(weaker("walkthrough", 1, task=AtLeast(letter="a", k=k)), 4.0, 30) for k in (1, 2)]
    models += [(weaker("walkthrough", 1, task=Parity(letter="c")), 4.0, 30)]
    models += [(fresh(ClassifierConfig(n_letters=2, d_head=2), 3), 4.0, 30)]
    models += [(fresh(ClassifierConfig(n_layers=2, d_model=5, norm="rms"), 3), 3.0, 30)]
    models += [(random_checkpoint(FAMILY[i], i), 4.0, 30) for i in (0, 3, 6, 16)]
    cases = []
    for checkpoint, lens, length in models:
        config = checkpoint.config
        view = MapView(config, tuple(range(config.n_letters)), lens, map_length(config, length))
        fields = view.fields(CountModel(checkpoint))
        cases.append(
            {
                **given(checkpoint),
                "view": {"face": list(view.letters), "lens": lens, "length": length},
                "layers": layers(view, fields),
                "summary": summary(view, fields),
            }
        )
    return cases


def edited_cases() -> list[dict[str, Any]]:
    deep = fresh(
        ClassifierConfig(n_layers=2, d_model=5, n_heads=3, d_head=2, d_mlp=7, norm="layer"), 4
    )
    flat = load_checkpoint("walkthrough")
    frozen = [f"head{i}.pattern=patch(ab{{3}}c)" for i in range(3)]
    edits: list[tuple[Checkpoint, dict[str, Any]]] = [
        (flat, {"changes": ["head1=zero"]}),
        (flat, {"changes": ["mlp=zero", "head0.pattern=patch(aac)", "head1.pattern=patch(aac)"]}),
        (
            flat,
            {
                "changes": ["head1.value[b]=set(0.7)"],
                "weights": {"embed.W_E/5": 0.25, "blocks.0.attn.W_Q/2": -1},
            },
        ),
        (deep, {"changes": ["head2=zero", "layer1.head0=mean(abc, aab)"]}),
        (deep, {"changes": ["mlp=zero", *frozen]}),
        (
            deep,
            {
                "changes": [
                    "head1.value[b]=set(0.5, -2)",
                    "layer1.head2.value[a]=set(1, 0.125)",
                    "layer1.head1=zero",
                ]
            },
        ),
        (
            deep,
            {
                "changes": ["layer1.head0.value[c]=set(3, 1)", "neuron2=mean(ab{2}c)"],
                "weights": {"blocks.1.attn.W_O/17": 2.5},
            },
        ),
    ]
    strings = ["aac", "baac", "ab{100}", "ab{100}c{55}", "c{9}"]
    cases = []
    for checkpoint, edit in edits:
        scripts = python_scripts(strings, edit, checkpoint.config)
        logits = [run_script(script, checkpoint) for script in scripts]
        case = {"edits": edit, "strings": strings, "logits": logits}
        cases.append({**given(checkpoint), **case})
    return cases


def task_cases() -> list[dict[str, Any]]:
    counts = np.array([row for length in range(1, 6) for row in vectors_of_length(4, length)])
    rules = [
        ContainsAll(),
        ContainsAll(letters="bd"),
        AtLeast(letter="c", k=2),
        Majority(letter="b"),
    ]
    rules += [Parity(letter="d"), Parity(letter="a", odd=False)]
    return [
        {
            "task": rule.model_dump(mode="json"),
            "counts": counts.tolist(),
            "labels": rule.labels(counts).tolist(),
        }
        for rule in rules
    ]


def all_cases() -> dict[str, Any]:
    points = [*np.linspace(-7, 7, 2801), 1e-9, -1e-300, 0.0, 30.0, 5.9999999, 6.0000001]
    gelu = torch.nn.functional.gelu(torch.tensor(points, dtype=torch.float64)).tolist()
    odd = [fresh(config, seed) for seed, config in enumerate(CONFIGS)]
    bundled = [load_checkpoint(name) for name in bundled_names()]
    return {
        "erf": [
            {"x": float(x), "erf": math.erf(x), "gelu": smooth}
            for x, smooth in zip(points, gelu, strict=True)
        ],
        "strings": [string_case(text, size) for text in BAD_AND_GOOD for size in (1, 3, 26)],
        "models": [
            model_case(model, random_strings(model.config, 25)) for model in [*odd, *bundled]
        ],
        "family": family_cases(),
        "edited": edited_cases(),
        "changes": change_cases(),
        "notation": notation_cases(),
        "tasks": task_cases(),
        "searches": search_cases(),
        "rounding": rounding_cases(),
        "maps": map_cases(),
        "training": training_cases(),
    }
