"""What probes and pages say of external models: each of these was said wrongly once."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any, ClassVar, Literal

import numpy as np
import pytest
import torch

import tsc_interp as tsc
from tests.model.outside_models import tl_model
from tests.model.test_forward import shaken_weights
from tsc_interp.errors import UnsupportedError, UsageError
from tsc_interp.interventions.hooks import intervene
from tsc_interp.interventions.intervention import Intervention
from tsc_interp.interventions.parts import Part
from tsc_interp.model.hooked import HookedClassifier
from tsc_interp.report.asked import Asked
from tsc_interp.report.card import ModelCard
from tsc_interp.report.scoring import sensible_strings


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


class EvenLength(tsc.tasks.OwnTask):
    kind: Literal["words_even_length"] = "words_even_length"

    def labels(self, counts: Any) -> Any:
        return counts.sum(-1) % 2 == 0


class EndsAlike(tsc.tasks.OwnTask):
    kind: Literal["words_ends_alike"] = "words_ends_alike"
    ordered: ClassVar[bool] = True

    def labels(self, letters: Any) -> Any:
        last = (letters >= 0).sum(1) - 1
        return letters[:, 0] == letters[np.arange(len(letters)), last]


def model_of(**options: Any) -> HookedClassifier:
    config = tsc.ClassifierConfig(**options)
    return HookedClassifier(config, shaken_weights(config))


@pytest.mark.parametrize("task", [EvenLength(), EndsAlike()], ids=lambda task: task.kind)
@pytest.mark.parametrize("probe", ["patching", "paths", "margin"])
def test_a_task_that_names_no_letters_can_be_probed(task: tsc.tasks.OwnTask, probe: str) -> None:
    model = model_of(task=task, n_positions=9 if task.ordered else 0)
    assert tsc.run_probe(probe, model, ["aab", "b", "ca"]).findings


def test_a_refusal_does_not_send_to_another_refusal() -> None:
    with pytest.raises(UnsupportedError, match=r"tsc\.verify decides"):
        tsc.horizon(model_of(n_positions=9))
    assert tsc.verify(model_of(n_positions=9), 3).undecided == 0
    assert tsc.verify(model_of(n_layers=2, n_positions=9), 3).undecided == 0


@pytest.mark.parametrize(("layers", "promised"), [(1, True), (2, False)])
def test_a_page_promises_only_what_verify_does(layers: int, promised: bool) -> None:
    config = tsc.ClassifierConfig(n_layers=layers, n_positions=9)
    card = ModelCard("some", "some", "task", 1, "", config.to_dict())
    assert ("tsc-interp verify" in card._untested()) is promised


def test_uniform_attention_reads_no_letter() -> None:
    model = model_of(n_letters=3)
    with torch.no_grad():
        model.blocks[0].attn.W_Q.mul_(1e-5)
    said = " ".join(one.text for one in tsc.run_probe("margin", model, ["aab"]).findings)
    assert "Head 0 attends to all of them alike" in said
    assert "Head 0 reads" not in said


def test_masked_padding_is_not_called_attended_to() -> None:
    """Causal attention gives what comes after the query a weight of exactly 0."""
    model = tl_model(1)
    direction = model.W_U[:, 1] - model.W_U[:, 0]
    rows = torch.tensor([[0, 1, 2, 5, 5], [1, 0, 5, 5, 5], [2, 1, 0, 1, 5]])
    result = tsc.run_probe("attribution", model, rows, query=[2, 1, 3], direction=direction)
    assert not any("padding" in note for note in result.not_applicable)
    seen = tsc.run_probe("attribution", model, rows, query=[4, 4, 4], direction=direction)
    assert any("`5` looks like padding" in note for note in seen.not_applicable)


def test_rows_read_at_their_first_token_have_different_names() -> None:
    names = {7: "[start]", 1: "x", 2: "y"}
    asked = Asked(((7, 1, 2), (7, 2, 1)), (0, 1), given=2, query=(0, 0), names=names)
    assert [asked.row_name(row) for row in (0, 1)] == ["row 0: [start] x y", "row 1: [start] y x"]


def test_a_legend_of_many_names_is_cut() -> None:
    names = tuple(f"t{number}" for number in range(31))
    question = tsc.ClassifierConfig(n_letters=31, token_names=names).question
    assert question.endswith("a is t0, b is t1, c is t2, d is t3, e is t4, f is t5, g is t6, "
                             "..., E is t30)")  # fmt: skip
    few = tsc.ClassifierConfig(n_letters=2, token_names=("(", ")")).question
    assert few == "contains a and b (a is (, b is ))"


def test_default_strings_use_every_letter() -> None:
    model = model_of(n_letters=11, task="maximum", n_outputs=11, n_positions=7)
    assert set("".join(sensible_strings(model.config))) >= set(model.config.alphabet.letters)


@pytest.mark.parametrize("name", ["(", ")", "[", "]", "=", "+", "[start]"])
def test_tokens_of_any_name_can_be_named(name: str) -> None:
    assert Part.parse(f"head0.value[{name}]").letter == name
    one = Intervention.parse(f"head0.value[{name}]=zero")
    assert one.place == Part("value", 0, 0, name)
    model = model_of(n_letters=2, token_names=(name, "other"))
    by_letter = intervene(model, ["aab"], ["head0.value[a]=zero"])
    assert torch.equal(intervene(model, ["aab"], [one]).after, by_letter.after)


def test_negative_token_ids_are_told_the_range() -> None:
    with pytest.raises(UsageError, match=r"ids from 0 to 5.*-1"):
        tsc.from_transformer_lens(tl_model(), tokens=[-1, 2], query=3, task="parity")
