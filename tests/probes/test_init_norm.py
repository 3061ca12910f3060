"""init-norm against theory: the chi mean, and draws made here without the model."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import UsageError
from tsc_interp.model.hooked import HookedClassifier
from tsc_interp.model.initialise import initial_weights
from tsc_interp.probes.init_norm import theoretical_norm
from tsc_interp.probes.registry import figures, find_probe

run = find_probe("init-norm").run

SEEDS = 60


@pytest.fixture(scope="module")
def result(request):
    from tsc_interp.model.hooked import load

    return run(load("walkthrough"), ["aac", "ab"], seeds=SEEDS, widths=(2, 4, 16, 64))


def test_theory_is_the_chi_mean():
    """By the gamma function, and by the known value sqrt(pi / 2) at width 2."""
    for width in (1, 2, 7, 64):
        gamma = math.exp(math.lgamma((width + 1) / 2) - math.lgamma(width / 2))
        assert theoretical_norm("default", width) == pytest.approx(math.sqrt(2) * gamma)
    assert theoretical_norm("default", 2) == pytest.approx(math.sqrt(math.pi / 2))


def test_measured_norms_agree_with_theory_within_sampling_error(result):
    """Four tokens of 60 seeds; a norm has variance below 1/2: five standard errors are 0.23."""
    for strategy in ("default", "output_fan_out"):
        mean = result.embedding_norms.at(strategy=strategy, statistic="mean")
        theory = result.embedding_norms.at(strategy=strategy, statistic="theory")
        np.testing.assert_allclose(mean, theory, atol=5 * math.sqrt(0.5 / (4 * SEEDS)))
    doubled = result.embedding_norms.at(strategy="default", statistic="mean")
    assert doubled[3] / doubled[2] == pytest.approx(2, rel=0.05)  # two doublings
    quiet = result.embedding_norms.array[-1, :, 0]
    np.testing.assert_allclose(quiet, 1 / math.sqrt(3), rtol=0.12)


def test_norms_are_those_of_the_very_draws(result):
    drawn = [
        initial_weights(ClassifierConfig(d_model=16), seed)["embed.W_E"][[0, 2, 3, 4]].norm(dim=1)
        for seed in range(SEEDS)
    ]
    norms = torch.cat(drawn).double().numpy()
    measured = result.embedding_norms.at(strategy="default", width=16)
    np.testing.assert_allclose(
        measured[:3], [norms.mean(), *np.quantile(norms, [0.05, 0.95])], rtol=1e-6
    )


def test_logit_spread_is_that_of_single_models(result):
    config = ClassifierConfig(d_model=4)
    with torch.no_grad():
        each = [HookedClassifier(config, seed=seed)(["aac", "ab"]) for seed in range(SEEDS)]
    spread = float(torch.cat(each).double().std())
    assert float(result.logit_spread.at(strategy="default", width=4)) == pytest.approx(
        spread, rel=1e-5
    )


def test_training_is_compared_with_the_models_own_start(result, walkthrough):
    row = result.after.labels["weight"].index("blocks.0.mlp.W_in")
    weight = walkthrough.get_parameter("blocks.0.mlp.W_in").detach()
    assert result.after.array[row] == pytest.approx(float(weight.square().mean().sqrt()), rel=1e-6)
    assert result.before.array[row, 0] == pytest.approx(1 / math.sqrt(6), rel=0.1)
    assert "W_in" in result.findings[0].text


def test_a_quiet_model_is_still_compared_with_the_loud_default():
    """The strategies replace the model's own, they do not pile on top of it."""
    quiet = ClassifierConfig(
        embedding_init="linear_like", attention_init="output_fan_out", mlp_init="output_fan_out"
    )
    found = run(HookedClassifier(quiet), ["ab"], seeds=8, widths=(8,))
    assert float(found.embedding_norms.at(strategy="default", statistic="mean")[0]) > 2


@pytest.mark.parametrize(
    "config",
    [
        ClassifierConfig(n_heads=0),
        ClassifierConfig(n_positions=3, n_letters=5),
        ClassifierConfig(norm="layer", n_layers=2),
    ],
)
def test_other_models_get_what_applies(config):
    found = run(HookedClassifier(config), ["ab"], seeds=4, widths=(2, 4))
    assert found.not_applicable
    assert (found.score_spread is None) == (not config.has_attention)
    assert figures(found)


def test_impossible_options_are_refused(walkthrough):
    with pytest.raises(UsageError, match="at least 2 seeds"):
        run(walkthrough, ["ab"], seeds=1)
