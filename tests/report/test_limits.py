"""Large models: what is left out is said, what is named is asked, nothing takes for ever."""

from __future__ import annotations

import pytest

import tsc_interp as tsc
from tsc_interp.checkpoints import load_checkpoint
from tsc_interp.model.classifier import Classifier
from tsc_interp.probes.registry import PROBES
from tsc_interp.report.asking import LIMITS, left_out

LARGE = {
    "heads": tsc.ClassifierConfig(n_heads=1024),
    "layers": tsc.ClassifierConfig(n_layers=64),
    "width": tsc.ClassifierConfig(d_model=512, n_heads=2, d_head=256, d_mlp=512),
}


def not_asked(config: tsc.ClassifierConfig) -> dict[str, str]:
    parameters = Classifier(config).to_checkpoint().n_parameters
    reasons = {probe.name: left_out(probe.name, config, parameters) for probe in PROBES}
    return {name: reason for name, reason in reasons.items() if reason}


def test_every_limit_is_that_of_a_probe() -> None:
    assert set(LIMITS) <= {probe.name for probe in PROBES}


@pytest.mark.parametrize("name", tsc.checkpoints.bundled_names())
def test_no_bundled_model_loses_anything(name: str) -> None:
    assert not_asked(load_checkpoint(name).config) == {}


def test_what_is_left_out_is_said_with_the_size_and_the_way_round() -> None:
    assert set(not_asked(LARGE["heads"])) == set(LIMITS)
    assert set(not_asked(LARGE["layers"])) == {"cone", "margin", "init-norm", "dynamics"}
    assert set(not_asked(LARGE["width"])) == {"margin"}
    assert not_asked(LARGE["heads"])["margin"] == (
        "this model has 1,024 heads, and this is asked of up to 64, to save time; "
        "--probe margin asks it all the same"
    )
    deep = not_asked(tsc.ClassifierConfig(n_layers=17))
    assert "17 layers, and this is asked of up to 4" in deep["cone"]
    assert "1,575,936 parameters" in not_asked(LARGE["width"])["margin"]


def test_a_limit_is_the_last_size_that_is_asked() -> None:
    for heads, expected in ((64, False), (65, True)):
        assert ("margin" in not_asked(tsc.ClassifierConfig(n_heads=heads))) is expected


def test_a_report_on_a_large_model_says_what_it_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over two minutes before. The horizon is left out as well: its bounds are as slow."""
    monkeypatch.setattr("tsc_interp.report.string_subject.score_test_set", lambda model: None)
    monkeypatch.setattr("tsc_interp.report.string_subject.reach", lambda model: pytest.fail("slow"))
    model = Classifier(LARGE["heads"])
    report = tsc.analyze(model, ["ab"])
    assert set(report.models[0].sections) == {"attribution"}
    assert set(report.models[0].not_run) == set(LIMITS) - {"dynamics"}
    assert "margin was not run: this model has 1,024 heads" in report.to_markdown().replace("*", "")
    named = tsc.analyze(Classifier(tsc.ClassifierConfig(n_heads=257)), ["ab"], probes=["trace"])
    assert set(named.models[0].sections) == {"trace"}
    assert named.models[0].not_run == {}


def test_a_report_searches_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The verdict and the cone probe share one search."""
    from tsc_interp.probes import searched

    times, search = [], searched.search_supports
    monkeypatch.setattr(searched, "_known", {})
    monkeypatch.setattr(
        searched, "search_supports", lambda *a, **k: times.append(1) or search(*a, **k)
    )
    report = tsc.analyze("generalization-errors", ["ab"], probes=["cone"])
    assert "up to 66 letters is proved right" in report.findings[0].text
    assert len(times) == 1
