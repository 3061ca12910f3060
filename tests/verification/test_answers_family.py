"""Answers of the wider family, string by string: several outputs, order, names of tokens."""

from __future__ import annotations

import json
import math
from itertools import product
from typing import Any, ClassVar, Literal

import numpy as np
import pytest
import torch

import tsc_interp as tsc
from tests.model.test_forward import shaken_weights
from tsc_interp.checkpoints.checkpoint import Checkpoint
from tsc_interp.cli import main
from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import ConfigError, UsageError
from tsc_interp.model.inputs import from_strings, true_classes
from tsc_interp.verification import verify_ordered


class EndsLikeItBegins(tsc.tasks.OwnTask):
    """A task of one's own on order: written as the documentation tells."""

    kind: Literal["test_ends_like_it_begins"] = "test_ends_like_it_begins"
    ordered: ClassVar[bool] = True

    def labels(self, letters: np.ndarray) -> Any:
        last = (letters >= 0).sum(1) - 1
        return letters[:, 0] == letters[np.arange(len(letters)), last]


def checkpoint(**options: Any) -> Checkpoint:
    config = ClassifierConfig(**options)
    weights = {name: np.array(weight) for name, weight in shaken_weights(config).items()}
    return Checkpoint(config, weights, {}, source="made")


STRINGS = ["".join(s) for n in range(1, 5) for s in product("abc", repeat=n)]
CAUSAL = {"reads": "last", "attend_cls": True}
MODELS = {
    "most frequent": {"task": "most_frequent", "n_outputs": 3},
    "maximum, causal": {"task": "maximum", "n_outputs": 4, "n_positions": 6, **CAUSAL},
    "before": {"task": "before", "n_positions": 6},
    "before, causal": {"task": "before", "n_layers": 2, **CAUSAL},
    "own": {"task": EndsLikeItBegins(), "reads": "last_letter", "attend_cls": True},
}
TRUTHS = {
    "most_frequent": lambda s: min(range(3), key=lambda i: (-s.count("abc"[i]), i)),
    "maximum": lambda s: "abc".index(max(s)),
    "before": lambda s: int("a" in s and "b" not in s[: s.index("a")]),
    "test_ends_like_it_begins": lambda s: int(s[0] == s[-1]),
}


@pytest.mark.parametrize("name", MODELS)
def test_evaluated_against_the_definition(name: str) -> None:
    made = checkpoint(**MODELS[name])
    outputs = tsc.load(made)(STRINGS).detach().double()
    truth = TRUTHS[made.config.task.kind]
    found = tsc.evaluate(made, STRINGS)
    assert {e.label for e in found} >= {0, 1}
    for string, said, e in zip(STRINGS, outputs, found, strict=True):
        assert e.label == truth(string) == made.config.classes([string])[0]
        if said.ndim:
            shares = said.softmax(-1)
            assert e.prediction == int(said.argmax())
            assert e.logits == tuple(said.tolist())
            assert e.probability == pytest.approx(float(shares.max()))
            rest = torch.cat([said[: e.label], said[e.label + 1 :]]).max()
            assert e.margin == pytest.approx(float(said[e.label] - rest))
            assert e.to_dict()["logits"] == e.logits
        else:
            assert e.prediction == int(said > 0)
            assert "logits" not in e.to_dict()
        assert e.correct == (e.prediction == e.label)
    assert true_classes(made.config, from_strings(made.config, STRINGS)).tolist() == [
        e.label for e in found
    ]


def test_outputs_that_are_no_numbers_are_no_answer() -> None:
    made = checkpoint(task="most_frequent", n_outputs=3, biases=True)
    made.weights["unembed.b_U"][:] = [np.nan, 0.0, np.inf]
    (e,) = tsc.evaluate(made, ["ccc"])
    assert e.prediction == 2 == e.label
    assert not e.correct
    assert math.isnan(e.probability)


def test_the_command_shows_classes_and_names(
    tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    made = checkpoint(task="most_frequent", n_outputs=3, token_names=("(", ")", "<end>"))
    made.save(tmp_path / "made.safetensors")
    given = ["eval", "aab", "bbb", "-c", str(tmp_path / "made.safetensors")]
    assert main(given) == 0
    shown = capsys.readouterr().out
    assert "a is (, b is ), c is <end>" in " ".join(shown.split())
    assert main([*given, "--json"]) == 0
    (first, second) = json.loads(capsys.readouterr().out)["results"]
    assert (first["label"], second["label"]) == (0, 1)
    assert len(first["logits"]) == 3


def test_a_change_is_shown_by_its_answers(
    tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    made = checkpoint(**MODELS["most frequent"])
    made.save(tmp_path / "made.safetensors")
    given = ["intervene", "head0=zero", "-s", "aab", "-s", "cab", "-c"]
    assert main([*given, str(tmp_path / "made.safetensors")]) == 0
    shown = capsys.readouterr().out
    assert "answer before" in shown
    said = tsc.evaluate(made, ["aab", "cab"])
    (row,) = (line.split() for line in shown.splitlines() if line.startswith("cab"))
    assert row[1] == str(said[1].prediction)


def test_tokens_are_called_by_their_names() -> None:
    model = tsc.load(checkpoint(token_names=("(", ")", "<end>"), **CAUSAL))
    assert model.config.called == ("CLS", "PAD", "(", ")", "<end>")
    assert model.to_str_tokens("ac") == ["(", "<end>", "CLS"]
    assert model.to_single_token(")") == model.to_single_token("b") == 3
    assert model.to_single_str_token(4) == "<end>"
    with pytest.raises(UsageError, match=r"the tokens are CLS, PAD, \(, \), <end>"):
        model.to_single_token("z")
    with pytest.raises(UsageError, match=r"got 9"):
        model.to_single_str_token(9)


@pytest.mark.parametrize("name", ["before", "own"])
def test_a_task_on_order_is_verified(name: str) -> None:
    """Every string of up to four letters, against the float64 forward pass of the model itself."""
    made = checkpoint(**MODELS[name])
    verdict = verify_ordered(made, 4, certify=True)
    truth = TRUTHS[made.config.task.kind]
    says = tsc.load(made).double()(STRINGS) > 0
    for one in verdict.lengths:
        wrong = sum(
            int(say) != truth(string)
            for string, say in zip(STRINGS, says.tolist(), strict=True)
            if len(string) == one.length
        )
        assert (one.wrong, one.undecided) == (wrong, 0)
    assert tsc.check(verdict.certificate.document, made).sentences == verdict.certificate.proved


def test_pairs_are_judged_by_their_order() -> None:
    made = checkpoint(**MODELS["before"])
    result = tsc.run_probe("patching", tsc.load(made), ["ab", "ba"])
    assert result.pairs[0].pair.labels == (1, 0)
    most_frequent = checkpoint(**MODELS["most frequent"])
    several = tsc.load(most_frequent)
    logits = several(["aab", "abb"]).detach()
    found = tsc.run_probe("patching", several, ["aab", "abb"]).pairs[0].pair
    own = int(most_frequent.config.classes(["aab"])[0])
    others = [output for output in range(logits.shape[1]) if output != own]
    ahead = logits[:, own] - logits[:, others].max(1).values
    assert [found.clean_logit, found.corrupted_logit] == pytest.approx(ahead.tolist(), abs=1e-5)


def test_a_task_on_order_says_so_wherever_only_counts_are() -> None:
    with pytest.raises(ConfigError, match="order of letters, which this classifier cannot see"):
        ClassifierConfig(task=EndsLikeItBegins())
    assert ClassifierConfig(**MODELS["own"]).to_dict()["task"] == {
        "kind": "test_ends_like_it_begins"
    }
