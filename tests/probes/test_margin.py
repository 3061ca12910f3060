"""Margin: flips against evaluating each n, half weights against the definition, several models."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.cases import CONFIGS, POSITIONED
from tests.probes.models import QUERY, TOKENS, check_survives_json, transformer_lens_model
from tests.verification.models import planted
from tsc_interp.config import ClassifierConfig
from tsc_interp.model.hooked import HookedClassifier, load
from tsc_interp.probes.inputs import compact, logits_of
from tsc_interp.probes.margin import (
    Family,
    MarginResult,
    counts_of,
    families,
    half_weight_count,
    margin,
    varied_letters,
)
from tsc_interp.tasks.counts import AtLeast, ContainsAll


def family(result: MarginResult, name: str) -> Family:
    return next(family for family in result.families if family.name == name)


def test_the_report_on_generalization_errors() -> None:
    model = load("generalization-errors")
    result = margin.run(model, ["ab{100}", "ab{100}c{55}"])
    assert result.reads == (("a", "b"),)
    # Head 0 attends to a, then b: so says the report.
    assert list(np.argsort(-result.scores.array[0, 0])) == [0, 1, 2]
    ab = family(result, "ab{n}")
    assert (ab.first_error, ab.right_up_to) == (66, 65)
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


@pytest.mark.parametrize("name", ["generalization-errors", "attend-cls"])
def test_flips_by_evaluating_each_n(name: str) -> None:
    """Oracle: long strings, token by token in the model's slow form, around every flip found."""
    model = load(name)
    result = margin.run(model, ["ab{19}c{2}", "b{2}c{19}"])
    for found in result.families:
        upto = min(found.first_error or 70, 70)
        n = np.arange(1, upto + 1)
        counts = counts_of(model.config, found, n).astype(int)
        strings = [model.config.alphabet.write(row) for row in counts]
        logits = model(model.tokens(strings)).detach().numpy()
        wrong = (logits > 0) != model.config.task.labels(counts)
        assert list(n[wrong]) == ([found.first_error] if found.first_error == upto else [])
        if found.first_error is not None and found.first_error > upto:
            n = found.first_error
            apart = max(1, n // 500)  # float32 may cross a little elsewhere
            ends = [found.name.replace("{n}", f"{{{k}}}") for k in (n - apart, n - 1 + apart)]
            signs = [float(model(end)[0].detach()) > 0 for end in ends]
            labels = model.config.task.labels(model.config.alphabet.count_matrix(ends))
            assert [sign == label for sign, label in zip(signs, labels, strict=True)] == [
                True,
                False,
            ]


def test_a_planted_error_is_found_at_its_n() -> None:
    model = HookedClassifier.from_checkpoint(planted(54_321, c_score=-1.0))
    found = family(margin.run(model, ["ab"]), "ab{n}")
    assert (found.first_error, found.right_up_to) == (54_321, 54_320)


@pytest.mark.parametrize("value", [0.0, 0.3, 2.0, 5.5])
def test_half_weight_by_definition(value: float) -> None:
    k = half_weight_count(value)
    assert 1 / (1 + k * np.exp(-value)) == pytest.approx(0.5)


@pytest.mark.parametrize("value", [0.0, 0.5, 0.9])
def test_half_weight_when_scores_grow(value: float) -> None:
    k = half_weight_count(value, grows=True)
    assert (k + 1) ** value == pytest.approx(k)
    assert half_weight_count(1.0, grows=True) == float("inf")


WITH_HEADS = [config for config in [*CONFIGS, POSITIONED] if config.has_attention]


@pytest.mark.parametrize("config", WITH_HEADS, ids=lambda config: config.key()[:6])
def test_every_configuration(config: ClassifierConfig) -> None:
    model = HookedClassifier(config, seed=5)
    result = margin.run(model, ["ab", "a{3}b{5}"])
    assert result.margins.array.min() == 0
    for found in result.families:
        counts = counts_of(config, found, np.arange(1, min(found.cap, 40) + 1)).astype(int)
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
    names = [found.name for found in families(config, ["c{17}a", "c{17}a{2}", "c{7}b"])]
    assert names == ["a{n}bd", "b{n}d", "bc{n}d", "bd{n}", "ac{n}", "a{2}c{n}"]
    counting = ClassifierConfig(n_letters=2, task=AtLeast(letter="a", k=3))
    result = margin.run(HookedClassifier(counting, seed=1), ["ab"])
    assert [found.name for found in result.families] == ["a{n}", "ab{n}"]
    assert all(found.right_up_to < (found.first_error or 10**9) for found in result.families)


def test_transformer_lens_model_against_its_own_cache() -> None:
    model = transformer_lens_model()
    result = margin.run(model, TOKENS, query=QUERY, layer=1)
    cache = model.run_with_cache(TOKENS)[1]
    q, k = (cache[f"blocks.1.attn.hook_{part}"] for part in "qk")
    scores = torch.einsum("bhk,bjhk->bjh", q[:, QUERY], k[:, : QUERY + 1]) / 3**0.5
    for letter in result.scores.labels["letter"]:
        mean = scores[TOKENS[:, : QUERY + 1] == int(letter)].mean(0).detach().numpy()
        assert result.scores.at(layer=1, letter=letter) == pytest.approx(mean, abs=1e-5)
    assert result.families == ()
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
    assert varied_letters(config) == "abcdefgz"
    assert len(families(config, [])) == 8
