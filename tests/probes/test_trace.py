"""The trace probe: every number against the published figures, or against arithmetic done here."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tsc_interp.config import ClassifierConfig
from tsc_interp.model.hooked import HookedClassifier, load
from tsc_interp.probes.registry import figures, find_probe

run = find_probe("trace").run


def test_walkthrough_reproduces_the_published_figures(walkthrough):
    result = run(walkthrough, ["aac", "baac"])
    np.testing.assert_allclose(result.logits.array, [-8.2945, 10.9587], atol=5e-5)
    np.testing.assert_allclose(
        result.embeddings.array[[0, 2, 3, 4]],
        [[-0.6023, -1.0448], [0.1197, 2.3601], [-1.5085, -2.1599], [1.5460, -0.8536]],
        atol=5e-5,
    )
    final = result.states.at(layer=0, stage="resid_post", token="CLS")
    np.testing.assert_allclose(final, [[-6.4319, -0.9393], [0.2414, 9.1150]], atol=5e-5)
    assert result.weights is not None
    # Published per position; a's two copies together here.
    head_0 = result.weights.at(layer=0, string="aac", head=0)
    np.testing.assert_allclose(head_0, [0, 2 * 4.9982e-01, 0, 3.5828e-04], rtol=1e-4)
    head_1 = result.weights.at(layer=0, string="baac", head=1)
    np.testing.assert_allclose(head_1, [0, 2 * 1.5737e-06, 9.9959e-01, 4.0383e-04], rtol=1e-4)
    assert result.findings[0].severity == "good"


def test_generalization_errors_values_and_failures_are_told():
    result = run(load("generalization-errors"), ["ab{100}", "b{2}c{152}", "aac"])
    assert result.value is not None
    values = {t: float(result.value.at(layer=0, string="aac", token=t, head=0)[0]) for t in "ac"}
    assert values == {"a": pytest.approx(2.0178, abs=5e-5), "c": pytest.approx(1.3575, abs=5e-5)}
    told = " ".join(finding.text for finding in result.findings)
    assert "2.0178" in told
    assert "1.3575" in told
    assert "2 of the 3 strings" in told
    assert result.findings[0].severity == "failure"
    assert result.right == (False, False, True)


def test_stages_add_up_and_read_out(odd_model):
    """Residuals are sums of what was added, and the read-out of the last one is the logit."""
    result = run(odd_model, ["abcde", "a{7}e", "dd"])
    at = lambda stage: result.states.at(layer=0, stage=stage)  # noqa: E731
    np.testing.assert_allclose(at("resid_mid"), at("resid_pre") + at("attn_out"), atol=1e-6)
    np.testing.assert_allclose(at("resid_post"), at("resid_mid") + at("mlp_out"), atol=1e-6)
    np.testing.assert_allclose(
        at("resid_post")[:, 0] @ result.readout.array, result.logits.array, atol=1e-6
    )


def test_scores_weights_and_head_values_agree(odd_model):
    """Weights are softmax(score + log count); head values are weighted sums of values."""
    strings = ["abcde", "a{7}e", "dd"]
    result = run(odd_model, strings)
    scores, weights = result.scores.array[0], result.weights.array[0]
    counts = odd_model.config.alphabet.count_matrix(strings)
    for row in range(len(strings)):
        for head in range(3):
            present = counts[row] > 0
            grown = counts[row][present] * np.exp(scores[row, head, 1:][present])
            np.testing.assert_allclose(
                weights[row, head, 1:][present], grown / grown.sum(), rtol=1e-5
            )
            assert np.isnan(scores[row, head, 1:][~present]).all()
            mixed = weights[row, head] @ result.value.array[0, row, :, head]
            np.testing.assert_allclose(result.head_values.array[0, row, head], mixed, atol=1e-6)


def test_value_field_is_the_logit_at_those_values(walkthrough):
    """An independent way to a grid point: the same arithmetic on numpy weights."""
    result = run(walkthrough, ["aac"])
    field = result.value_field
    assert field is not None
    x, y = float(field.labels["x"][3]), float(field.labels["y"][30])
    weights = {name: p.detach().double().numpy() for name, p in walkthrough.named_parameters()}
    residual = weights["embed.W_E"][0] + (
        x * weights["blocks.0.attn.W_O"][0, 0] + y * weights["blocks.0.attn.W_O"][1, 0]
    )
    hidden = torch.nn.functional.gelu(torch.tensor(residual @ weights["blocks.0.mlp.W_in"])).numpy()
    final = residual + hidden @ weights["blocks.0.mlp.W_out"]
    expected = float(final @ weights["unembed.W_U"][:, 0])
    assert field.array[30, 3] == pytest.approx(expected, rel=1e-4, abs=1e-4)


CONFIGS = {
    "no attention": ClassifierConfig(n_heads=0),
    "no mlp": ClassifierConfig(d_mlp=0),
    "one letter": ClassifierConfig(n_letters=1, task={"kind": "at_least", "letter": "a", "k": 2}),
    "two layers": ClassifierConfig(n_layers=2, d_model=5, n_heads=3, d_head=2),
    "norm": ClassifierConfig(norm="rms", d_model=3, attend_cls=True),
    "positions": ClassifierConfig(n_positions=9),
    "width one": ClassifierConfig(d_model=1),
}


@pytest.mark.parametrize("name", CONFIGS)
def test_any_configuration_is_traced_and_drawn(name):
    model = HookedClassifier(CONFIGS[name], seed=1)
    strings = ["a", "aa"] if CONFIGS[name].n_letters == 1 else ["ab", "aab", "b"]
    result = run(model, strings)
    with torch.no_grad():
        np.testing.assert_allclose(result.logits.array, model(strings).numpy(), atol=1e-6)
    drawn = figures(result)
    assert len({figure.name for figure in drawn}) == len(drawn)
    for figure in drawn:
        assert figure.caption
        assert figure.alt
        assert figure.figure.data
    if name in ("no attention", "two layers", "positions"):
        assert result.not_applicable
    assert ("normed" in {figure.name for figure in drawn}) == (name == "norm")


@pytest.mark.parametrize("norm", ["rms", "layer"])
def test_what_attention_and_mlp_read_is_the_normed_residual(norm):
    """Oracle: the norm in numpy, of each token's embedding and of CLS after attention."""
    model = HookedClassifier(ClassifierConfig(norm=norm, d_model=3), seed=1)
    result = run(model, ["ab", "aab"])
    assert result.normed is not None
    weights = {name: p.detach().double().numpy() for name, p in model.named_parameters()}
    for reader, stage, place in (("attention", "resid_pre", "ln1"), ("MLP", "resid_mid", "ln2")):
        x = result.states.at(layer=0, stage=stage)
        x = x - x.mean(-1, keepdims=True) if norm == "layer" else x
        expected = x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5)
        expected = expected * weights.get(f"blocks.0.{place}.w", 1.0)
        expected = expected + weights.get(f"blocks.0.{place}.b", 0.0)
        found = result.normed.at(layer=0, reader=reader)
        np.testing.assert_allclose(found, expected, atol=1e-5)
    names = [figure.name for figure in figures(result)]
    assert {"normed", "normed-mlp"} <= set(names)


def test_normalised_states_keep_the_direction_and_the_answer(walkthrough):
    """cos = logit / (|w| |x|): without a bias the angle with the read-out decides."""
    strings = ["aac", "baac", "c", "bbc"]
    result = run(walkthrough, strings)
    drawn = {figure.name: figure for figure in figures(result)}
    states = result.states.at(stage="resid_post", token="CLS")[-1]
    sizes = np.linalg.norm(states, axis=1) * np.linalg.norm(result.readout.array)
    for string, cosine in zip(strings, result.logits.array / sizes, strict=True):
        assert f"{string} {cosine:+.4f}" in drawn["normalised-resid-post"].alt
    for name in ("normalised-resid-mid", "normalised-resid-post"):
        ends = [
            (trace.x[-1], trace.y[-1])
            for trace in drawn[name].figure.data
            if trace.mode == "lines+markers"
        ]
        assert len(ends) == len(strings)
        assert np.hypot(*np.transpose(ends)) == pytest.approx(1.0)
