"""Margin: flips against evaluating each n, half weights against the definition, several models."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.cases import CONFIGS, POSITIONED
from tests.probes.models import QUERY, TOKENS, check_survives_json, transformer_lens_model
from tsc_interp.config import ClassifierConfig
from tsc_interp.model.hooked import HookedClassifier, load
from tsc_interp.probes.inputs import compact, logits_of
from tsc_interp.probes.margin import families
from tsc_interp.probes.margin.result import Family, MarginResult
from tsc_interp.probes.margin.run import half_weight_count
from tsc_interp.probes.registry import find_probe
from tsc_interp.rules import AtLeast, ContainsAll

margin = find_probe("margin")


def family(result: MarginResult, name: str) -> Family:
    return next(family for family in result.families if family.name == name)


def test_the_report_on_generalization_errors() -> None:
    model = load("generalization-errors")
    result = margin.run(model, ["ab{100}", "ab{100}c{55}"])
    assert result.reads == (("a", "b"),)
    # Head 0 attends to a, then b: so says the report.
    assert list(np.argsort(-result.scores.array[0, 0])) == [0, 1, 2]
    ab = family(result, "ab{n}")
    assert ab.first_error == ab.predicted == 66
    [short] = [f for f in result.findings if "false negative" in f.text]
    assert short.text == (
        "`ab{100}` (logit -1.9748) is a false negative. Head 0 reads `a`: one `a` outweighs one "
        "`b` e^3.7378 = 42.0 times, but there are 100 `b`. So `a` keeps 29.58% of the head's "
        "weight. The same happens in `ab{100}c{55}`."
    )
    [long] = [f for f in margin.run(model, ["ab{100}c{55}"]).findings if "false negative" in f.text]
    assert long.text.startswith("`ab{100}c{55}` ")
    assert "Without `c`, `ab{100}` is still wrong (logit -1.9748), so `c` is not the" in long.text
    assert long.numbers["without"] == pytest.approx(short.numbers["logit"], abs=1e-6)
    assert short.numbers["kept"] == pytest.approx(1 / (1 + 100 * np.exp(-3.7378)), abs=1e-4)


@pytest.mark.parametrize("name", ["walkthrough", "generalization-errors", "attend-cls"])
def test_flips_by_evaluating_each_n(name: str) -> None:
    """Oracle: long strings, token by token in the model's slow form, around every flip found."""
    model = load(name)
    result = margin.run(model, ["ab{19}c{2}", "b{2}c{19}"])
    for found in result.families:
        upto = min(found.first_error or 70, 70)
        n = np.arange(1, upto + 1)
        counts = families.counts_of(model.config, found, n).astype(int)
        strings = [model.config.alphabet.write(row) for row in counts]
        logits = model(model.tokens(strings)).detach().numpy()
        wrong = (logits > 0) != model.config.task.labels(counts)
        assert list(n[wrong]) == ([found.first_error] if found.first_error == upto else [])
        if found.first_error is not None and found.first_error > upto:
            ends = [found.string(found.first_error - 1), found.string(found.first_error)]
            signs = [float(model(end)[0].detach()) > 0 for end in ends]
            labels = model.config.task.labels(model.config.alphabet.count_matrix(ends))
            assert [sign == label for sign, label in zip(signs, labels, strict=True)] == [
                True,
                False,
            ]


def test_prediction_comes_from_scores_and_values_and_agrees(walkthrough: HookedClassifier) -> None:
    result = margin.run(walkthrough, ["ab{19}c{2}"])
    for found in result.families:
        if found.first_error is None:
            assert found.predicted is None
        else:
            assert found.predicted == pytest.approx(found.first_error, rel=1e-5, abs=1)


def test_head_values_in_closed_form(odd_model: HookedClassifier) -> None:
    """Oracle: the model's own hook_z on the same counts."""
    from tsc_interp.probes.attention import read

    counts = np.array([[1.0, 7, 0, 2, 3], [0, 0, 5, 0, 1]])
    reading = read(odd_model, ["abcde"])
    values = families.head_values(odd_model.config, reading.layers[0], reading.tokens, counts)
    z = odd_model.run_with_cache(odd_model.counts(counts))[1]["blocks.0.attn.hook_z"][:, 0]
    assert values == pytest.approx(z.detach().numpy(), abs=1e-5)
    logits = families.logits_of_values(odd_model, values)
    assert logits == pytest.approx(odd_model(odd_model.counts(counts)).detach().numpy(), abs=1e-5)
    assert not odd_model.hook_dict["blocks.0.attn.hook_z"].fwd_hooks


def test_an_error_that_comes_and_goes_is_not_skipped() -> None:
    """No monotonicity is assumed: a model wrong only for 3 <= n <= 5 is caught at 3."""

    class Window(HookedClassifier):
        def forward(self, x: object) -> torch.Tensor:
            b = self.inputs(x).multiplicity[:, 2]
            return torch.where((b >= 3) & (b <= 5), -1.0, 1.0)

    model = Window(ClassifierConfig(n_letters=2))
    made = families.families(model.config, [])
    assert [found.name for found in made] == ["a{n}b", "ab{n}"]
    assert families.first_error(model, made[1]) == 3
    assert families.first_error(model, made[0]) is None


def test_flips_beyond_the_exhaustive_range_are_pinned_down() -> None:
    class Threshold(HookedClassifier):
        def forward(self, x: object) -> torch.Tensor:
            return torch.where(self.inputs(x).multiplicity[:, 2] < 123_457, 1.0, -1.0)

    model = Threshold(ClassifierConfig(n_letters=2))
    found = families.families(model.config, [])[1]
    assert families.first_error(model, found) == 123_457
    assert not found.model_copy(update={"first_error": 123_457}).exact


@pytest.mark.parametrize("value", [0.0, 0.3, 2.0, 5.5])
def test_half_weight_by_definition(value: float) -> None:
    k = half_weight_count(value)
    assert 1 / (1 + k * np.exp(-value)) == pytest.approx(0.5)


@pytest.mark.parametrize("value", [0.0, 0.5, 0.9])
def test_half_weight_when_scores_grow(value: float) -> None:
    k = half_weight_count(value, grows=True)
    assert (k + 1) ** value == pytest.approx(k)
    assert half_weight_count(1.0, grows=True) == float("inf")


def test_sign_change_by_evaluating_the_mixture() -> None:
    """At k others per letter read, the head's direct effect is zero; on either side, not."""
    model = load("generalization-errors")
    from tsc_interp.probes.attention import read

    layer = read(model, ["ab"]).layers[0]
    readout = layer.readout(model.W_U[:, 0].detach().numpy())
    k = float(margin.run(model, ["ab"]).sign_change.at(layer=0, head=0, letter="b"))
    odds = np.array([1.0, k]) * np.exp(layer.scores[0, :2])
    assert odds @ readout[0, :2] / odds.sum() == pytest.approx(0, abs=1e-9)


WITH_HEADS = [config for config in [*CONFIGS, POSITIONED] if config.has_attention]


@pytest.mark.parametrize("config", WITH_HEADS, ids=lambda config: config.key()[:6])
def test_every_configuration(config: ClassifierConfig) -> None:
    model = HookedClassifier(config, seed=5)
    result = margin.run(model, ["ab", "a{3}b{5}"])
    assert result.margins.array.min() == 0
    for found in result.families:
        counts = families.counts_of(config, found, np.arange(1, min(found.cap, 40) + 1)).astype(int)
        logits = logits_of(model, counts.astype(float))
        wrong = np.flatnonzero((logits > 0) != config.task.labels(counts))
        first = int(wrong[0]) + 1 if len(wrong) else None
        assert first == (found.first_error if (found.first_error or 99) <= 40 else None)
    check_survives_json(result)
    assert bool(result.not_applicable) == (
        config.n_layers > 1 or config.has_positions or config.score_scale != "sqrt_d_head"
    )


def test_families_for_other_alphabets_and_tasks() -> None:
    config = ClassifierConfig(n_letters=4, task=ContainsAll(letters="bd"))
    names = [found.name for found in families.families(config, ["c{17}a", "c{17}a{2}", "c{7}b"])]
    assert names == ["a{n}bd", "b{n}d", "bc{n}d", "bd{n}", "ac{n}", "a{2}c{n}"]
    counting = ClassifierConfig(n_letters=2, task=AtLeast(letter="a", k=3))
    result = margin.run(HookedClassifier(counting, seed=1), ["ab"])
    assert [found.name for found in result.families] == ["a{n}", "ab{n}"]
    assert all(found.predicted is None for found in result.families)


def test_transformer_lens_model_against_its_own_cache() -> None:
    model = transformer_lens_model()
    result = margin.run(model, TOKENS, query=QUERY, layer=1, direction=model.W_U[:, 2])
    cache = model.run_with_cache(TOKENS)[1]
    q, k = (cache[f"blocks.1.attn.hook_{part}"] for part in "qk")
    scores = torch.einsum("bhk,bjhk->bjh", q[:, QUERY], k[:, : QUERY + 1]) / 3**0.5
    for letter in result.scores.labels["letter"]:
        mean = scores[TOKENS[:, : QUERY + 1] == int(letter)].mean(0).detach().numpy()
        assert result.scores.at(layer=1, letter=letter) == pytest.approx(mean, abs=1e-5)
    assert result.families == ()
    assert result.sign_change is not None
    assert any("need a task" in text for text in result.not_applicable)
    check_survives_json(result)


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.key()[:6])
def test_leaving_out_absent_letters_changes_nothing(config: ClassifierConfig) -> None:
    """Oracle: the full compressed form, with a position for every letter of the alphabet."""
    model = HookedClassifier(config, seed=8)
    counts = np.zeros((3, config.n_letters))
    counts[:, 0], counts[1:, -1] = [1, 5, 2], [3, 40]
    small = compact(config, counts)
    assert small.tokens.shape == (3, 3)
    with torch.no_grad():
        full = model(model.counts(counts.astype(np.int64)))
        assert torch.allclose(model(small), full, atol=1e-6)


def test_large_alphabets_vary_the_letters_that_matter_first() -> None:
    config = ClassifierConfig(n_letters=26, task=ContainsAll(letters="az"))
    assert families.varied_letters(config) == "abcdefgz"
    assert len(families.families(config, [])) == 8
