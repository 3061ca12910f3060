"""What Coq accepts and what it must refuse: `make formal`.

TSC_REQUIRE_COQ=1 makes a missing `coqc` a failure; TSC_AXIOMS=few computes on Coq's own integers.
"""

from __future__ import annotations

import os
import re
import shutil
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import tsc_interp as tsc
from tests.model.outside_models import tl_model
from tsc_interp.checkpoints import load_checkpoint
from tsc_interp.checkpoints.resolve import as_checkpoint
from tsc_interp.formal import coq
from tsc_interp.formal.rules import claims
from tsc_interp.formal.writing import dyadic, weights_text
from tsc_interp.model.forward import forward
from tsc_interp.model.hooked import HookedClassifier
from tsc_interp.model.inputs import as_read, from_tokens
from tsc_interp.strings import Alphabet

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not coq.found() and not os.environ.get("TSC_REQUIRE_COQ"), reason="no coqc"),
]
AXIOMS: Any = os.environ.get("TSC_AXIOMS") or "machine"
SECONDS = 900 if AXIOMS == "machine" else 7200


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library, compiled once."""
    folder = tmp_path_factory.mktemp("coq") / "Tsc"
    coq.copy_library(folder, AXIOMS)
    coq.compile_library(folder, SECONDS)
    return folder


@pytest.fixture
def folder(library: Path, tmp_path: Path) -> Path:
    """A folder for a model, with the library in it."""
    shutil.copytree(library, tmp_path / "Tsc")
    return tmp_path


def proved(model: Any, folder: Path, **options: Any) -> tsc.Theorem:
    made = tsc.theorem(model, folder, axioms=AXIOMS, seconds=SECONDS, **options)
    assert made.proved
    print(f"\n{made.seconds:6.1f} s  {', '.join(made.theorems)}  ({len(made.axioms)} axioms)")
    return made


HORIZONS = {
    "generalization-errors": 66,
    "walkthrough": 2166,
    "attend-cls": 1426,
    "increased-dimensionality": 783,
    "many-heads": 228,
    "lower-magnitude": 0,
}


@pytest.mark.parametrize("name", HORIZONS)
def test_a_bundled_model_s_horizon_is_a_theorem(name, folder):
    made = proved(name, folder)
    assert f"horizon_is_{HORIZONS[name]}" in made.theorems
    assert f"wrong_at_{HORIZONS[name] + 1}" in made.theorems
    reals = {axiom for axiom in made.axioms if "Int63" not in axiom}
    assert reals == coq.allowed("few")


def test_the_constructed_model_is_right_to_exactly_its_length(folder):
    built = tsc.construct("contains_all", letters="ab", max_length=200)
    assert {"right_to_200", "wrong_at_201"} <= set(proved(built, folder).theorems)


@pytest.mark.parametrize("letters", ["ab", "abc"])
def test_scores_that_grow_with_log_n_are_right_at_every_length(letters, folder):
    built = tsc.construct("contains_all", letters=letters, scores="log_n")
    wanted = " /\\ ".join(f"In {letter} s" for letter in letters)
    said = f"forall s : list letter, s <> [] -> (0 < logit s <-> {wanted})"
    assert proved(built, folder).theorems == {"right_at_every_length": said}


@pytest.mark.parametrize(
    ("options", "length"),
    [
        ({"task": "at_least", "letter": "a", "k": 2}, 40),
        ({"task": "majority", "letter": "b", "max_length": 8}, 8),
        ({"task": "parity", "letter": "a", "max_length": 5}, 5),
    ],
    ids=lambda value: value["task"] if isinstance(value, dict) else "",
)
def test_other_tasks_have_their_theorem(options, length, folder):
    made = proved(tsc.construct(**options), folder, limit=40)
    assert f"right_to_{length}" in made.theorems


@pytest.mark.parametrize(
    ("seed", "norm", "task", "limit", "name"),
    [
        (8, "RMS", "contains_all", 10_000, "horizon_is_7"),
        (3, "LN", "maximum", 19, "right_to_19"),
    ],
)
def test_an_imported_model_has_its_theorem(seed, norm, task, limit, name, folder):
    """Random, with all biases and a final norm; its n_ctx of 20 is 19 letters and a query."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = tl_model(seed, normalization_type=norm)
        imported = tsc.from_transformer_lens(model, tokens={2: "a", 4: "b"}, query=3, task=task)
    made = proved(imported, folder, limit=limit)
    assert name in made.theorems
    assert made.original_reads == 19
    assert "up to 19 letters (n_ctx)" in (folder / "Model/Weights.v").read_text()


@pytest.mark.parametrize(
    ("task", "needed"),
    [("most_frequent", "unembed.b_U"), ("maximum", "blocks.0.attn.W_K")],
)
def test_several_classes_have_their_theorem(task, needed, folder):
    """Each letter writes its share to its own output; the largest attracts nearly all attention."""
    config = tsc.ClassifierConfig(
        n_letters=3, d_model=3, n_heads=1, d_head=3, d_mlp=0, n_outputs=3, biases=True,
        task=task,
    )  # fmt: skip
    weights = {name: np.zeros(shape, np.float32) for name, shape in config.weight_shapes().items()}
    weights["embed.W_E"][2:] = np.eye(3)
    weights["blocks.0.attn.W_V"][0] = weights["blocks.0.attn.W_O"][0] = np.eye(3)
    weights["unembed.W_U"][:] = np.eye(3)
    if task == "maximum":
        weights["blocks.0.attn.b_Q"][0, 0] = 1
        weights["blocks.0.attn.W_K"][0, :, 0] = [0, 10, 20]
    else:
        weights["unembed.b_U"][:] = [0.02, 0.01, 0.0]  # of letters that tie, the first
    made = proved(tsc.Checkpoint(config, weights), folder, limit=12)
    assert "right_to_12" in made.theorems
    without = tsc.Checkpoint(config, weights | {needed: np.zeros_like(weights[needed])})
    (folder / "Model/Weights.v").write_text(weights_text(without))
    with pytest.raises(coq.CoqError, match="refuses"):
        compile_model(folder)


def compile_model(folder: Path) -> None:
    paths = ("-Q", "Tsc", "Tsc", "-Q", "Model", "Model")
    for name in ("Weights", "Theorem"):
        coq.compiled(folder, f"Model/{name}", paths, SECONDS)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("66", "67"),  # one letter too long
        ("In b s", "In c s"),  # another statement than the rule's
        ("repeat b 66", "repeat b 65"),  # a string that is right
        ("c => 4", "c => 3"),  # two letters with one token
        ("match x with a => 2", "match x with a => 1"),  # PAD, which no string contains
        ("0 < logit s <->", "logit s < 0 <->"),  # the other sign
    ],
)
def test_an_altered_statement_is_refused(old, new, folder):
    tsc.theorem("generalization-errors", folder, prove=False)
    file = folder / "Model/Theorem.v"
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new))
    with pytest.raises(coq.CoqError, match="refuses"):
        compile_model(folder)


def definitions(checkpoint: tsc.Checkpoint, name: str) -> str:
    """The record of a model under another name."""
    found = re.search(r"Definition stored : model := (.*?\|})\.", weights_text(checkpoint), re.S)
    assert found
    return f"Definition {name} : model := {found[1]}."


def scratch(folder: Path, lines: list[str]) -> str:
    """What Coq prints about a file of these lines."""
    (folder / "Scratch.v").write_text(
        "\n".join(["From Tsc Require Import Tail.", "Local Open Scope Z_scope.", *lines])
    )
    return coq.compiled(folder, "Scratch", ("-Q", "Tsc", "Tsc"), SECONDS)


def altered() -> Iterator[tuple[str, tsc.Checkpoint]]:
    """A model with one array changed at a time, so that it is no longer right up to 66."""
    given = load_checkpoint("generalization-errors")
    for name in given.weights:
        for factor in (-1.0, 0.0):
            weights = dict(given.weights)
            weights[name] = (weights[name] * factor).astype(np.float32)
            yield f"{name} * {factor}", replace(given, weights=weights)


def test_altered_weights_lengths_and_tasks_are_refused(folder):
    given = load_checkpoint("generalization-errors")
    _, claim = claims(given.config.task, 3)
    models, refused = [definitions(given, "given")], []
    endless = tsc.construct("contains_all", letters="ab", scores="log_n").checkpoint
    weak = {name: w / 2 if name.endswith("W_K") else w for name, w in endless.weights.items()}
    models += [definitions(endless, "endless")]
    models += [definitions(replace(endless, weights=weak), "bounded")]
    for number, (_, checkpoint) in enumerate(altered()):
        if tsc.horizon(checkpoint, limit=66, prove=False).verified_length < 66:
            models.append(definitions(checkpoint, f"altered_{number}"))
            refused.append(f"right_to altered_{number} task_ab 66")
    refused += [
        "right_from bounded [2; 3]%nat 1000",  # a gap of scores below 1
        "right_from endless [2; 4]%nat 1000",  # other letters
        "right_from given [2; 3]%nat 1000",  # scores that do not grow
        "right_to given task_ab 67",
        "right_to given (yes_or_no (at_least [1; 0; 0] 1)) 66",  # only a
        "right_to given (yes_or_no (both (at_least [1; 0; 0] 1) (at_least [0; 0; 1] 1))) 66",
        "right_to given (yes_or_no (at_least [1; 1; 0] 2)) 66",
        "right_to given (yes_or_no (odd_count 0)) 66",
        "certain given [2; 3]%nat [rejects]",  # ab is accepted
        "certain given [2]%nat [accepts]",  # a is not
        "certain given (2 :: repeat 3 66)%nat [accepts]",
        # a tree that ends before it has decided, and one whose leaves decide nothing
        "cover 1 (passes given 66 (judges given task_ab) (weighI given))"
        " (geometric_cut 1 1) 3 (whole_box given 66)",
        "cover 1 (fun _ => false) (geometric_cut 1 1) 9 (whole_box given 66)",
        "cover 1 (passes given 66 (judges given task_ab) (weighI given))"
        " (fun _ => None) 200 (whole_box given 66)",
        "complete {| " + definitions(given, "x").partition("{|")[2].rpartition("|}")[0].replace(
            "n_letters := 3", "n_letters := 4"
        ) + " |}",
    ]  # fmt: skip
    assert len(refused) >= 20
    accepted = [
        "right_from endless [2; 3]%nat 20",
        "right_to given task_ab 66",
        "complete given",
        "certain given [2; 3]%nat [accepts]",
    ]
    printed = scratch(
        folder,
        [
            f"Definition task_ab := yes_or_no ({claim.rule}).",
            *models,
            *(f"Eval vm_compute in ({what})." for what in [*refused, *accepted]),
        ],
    )
    values = re.findall(r"= (true|false)\s*: bool", printed)
    assert values == ["false"] * len(refused) + ["true"] * len(accepted)


FAMILY: list[dict[str, Any]] = [
    {"n_letters": 3, "d_model": 4, "n_heads": 2, "d_head": 3, "d_mlp": 5},
    {"n_letters": 2, "attend_cls": True, "biases": True, "d_head": 2, "act_fn": "relu"},
    {"n_letters": 4, "norm": "rms", "act_fn": "silu", "d_model": 3, "d_mlp": 4},
    {"norm": "layer", "final_norm": True, "act_fn": "gelu_new", "d_model": 5, "biases": True},
    {"norm": "layer_pre", "n_outputs": 3, "d_model": 4, "n_heads": 1, "attend_cls": True},
    {"norm": "rms_pre", "reads": "last", "attend_cls": True, "biases": True, "d_model": 3},
    {"score_scale": "sqrt_d_head_log_n", "d_head": 2},
    {"score_scale": "sqrt_d_head_log_n_cls", "attend_cls": True, "norm": "rms"},
    {"n_heads": 2, "n_key_value_heads": 1, "tied_embeddings": True, "n_outputs": 3},
]


def logits(checkpoint: tsc.Checkpoint, strings: list[str]) -> np.ndarray:
    """`[string output]`, by the package's definition of the model in float64."""
    weights = {name: torch.tensor(w).double() for name, w in checkpoint.weights.items()}
    tokens = Alphabet(checkpoint.config.n_letters).tokens(strings)
    rows = torch.from_numpy(as_read(checkpoint.config, tokens))
    with torch.no_grad():
        found = forward(checkpoint.config, weights, from_tokens(checkpoint.config, rows))
    return found.reshape(len(strings), -1).numpy()


def strings_over(letters: str, number: int) -> list[str]:
    draw = np.random.default_rng(4)
    lengths = [1, 2, *draw.integers(3, 80, number - 2)]
    return ["".join(draw.choice(list(letters), length)) for length in lengths]


def test_logits_lie_in_coq_s_enclosures(folder):
    """So formal/Transformer.v computes what the package computes, for every kind of part."""
    tolerance = 1e-9
    lines, count = [], 0
    checkpoints = [load_checkpoint(name) for name in HORIZONS]
    for number, options in enumerate(FAMILY):
        model = HookedClassifier(tsc.ClassifierConfig(**options), seed=number)
        with torch.no_grad():  # norms and biases begin as ones and zeros
            for parameter in model.parameters():
                parameter += 0.3 * torch.randn_like(parameter)
        checkpoints.append(as_checkpoint(model))
    for number, checkpoint in enumerate(checkpoints):
        config = checkpoint.config
        lines.append(definitions(checkpoint, f"model_{number}"))
        strings = strings_over("abcd"[: config.n_letters], 8)
        for string, outputs in zip(strings, logits(checkpoint, strings), strict=True):
            tokens = "; ".join(str("abcd".index(letter) + 2) for letter in string)
            pairs = [(0, 1)] if config.n_outputs > 1 else [(0, 0)]
            for y, other in pairs:
                question = "accepts" if y == other else f"(prefers {y} {other})"
                value = float(outputs[y] - (0 if y == other else outputs[other]))
                low, high = dyadic(value - tolerance), dyadic(value + tolerance)
                lines.append(
                    f"Eval vm_compute in (let found := hd anything (answers_on model_{number}"
                    f" [{tokens}]%nat [{question}]) in positive (found -! exactly {low}) &&"
                    f" positive (exactly {high} -! found))."
                )
                count += 1
    values = re.findall(r"= (true|false)\s*: bool", scratch(folder, lines))
    assert [i for i, value in enumerate(values) if value != "true"] == []
    assert len(values) == count
