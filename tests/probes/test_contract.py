"""What every probe owes its caller, checked over the whole registry, on models of every kind."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from tests.sizes import THOROUGH, many
from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import TscError, UnsupportedError, UsageError
from tsc_interp.model.hooked import HookedClassifier, load
from tsc_interp.plots.style import Figure
from tsc_interp.probes.registry import PROBES, figures, find_probe
from tsc_interp.results.base import ProbeResult
from tsc_interp.tasks.counts import ContainsAll

STRINGS = ("aac", "ab", "ab{30}", "c{3}")
CHEAP = {
    "init-norm": {"seeds": 6, "widths": (2, 4)},
    "ablation": {"exact": 0},
    "circuit": {"max_length": many(8, 12), "graph": "nodes"},
}
ASKED = [probe for probe in PROBES if not probe.needs_run]


def _models() -> dict[str, HookedClassifier]:
    return {
        "walkthrough": load("walkthrough"),
        "odd": HookedClassifier(
            ClassifierConfig(
                n_letters=many(4, 5),
                d_model=7,
                n_heads=3,
                d_head=2,
                d_mlp=11,
                attend_cls=True,
                task=ContainsAll(letters="ace" if THOROUGH else "acd"),
            ),
            seed=3,
        ),
    }


@pytest.fixture(scope="module")
def models() -> dict[str, HookedClassifier]:
    return _models()


def _hooks(model: HookedClassifier) -> int:
    return sum(
        len(point.fwd_hooks) + len(point.bwd_hooks) + len(point._forward_hooks)
        for point in model.hook_dict.values()
    )


@pytest.mark.parametrize("name", ["walkthrough", "odd"])
@pytest.mark.parametrize("probe", ASKED, ids=lambda probe: probe.name)
def test_contract(probe, name, models):
    """Model unchanged, hooks gone, deterministic, JSON round trip, findings, figures with words."""
    model = models[name]
    options = CHEAP.get(probe.name, {})
    weights = {key: value.clone() for key, value in model.state_dict().items()}
    switch = bool(model.cfg.use_attn_result)
    random_state = torch.get_rng_state()

    result = probe.run(model, STRINGS, **options)

    assert all(torch.equal(weights[key], value) for key, value in model.state_dict().items())
    assert _hooks(model) == 0
    assert bool(model.cfg.use_attn_result) == switch
    assert all(parameter.grad is None for parameter in model.parameters())
    assert torch.equal(random_state, torch.get_rng_state())
    assert isinstance(result, probe.result_type)
    assert isinstance(result, ProbeResult)
    assert result.probe == probe.name
    assert result.findings

    written = json.dumps(result.to_dict(), allow_nan=False)
    again = probe.result_type.from_dict(json.loads(written))
    assert json.dumps(again.to_dict()) == written
    assert probe.told(again).findings == result.findings, "findings need more than a result"
    assert json.dumps(probe.run(model, STRINGS, **options).to_dict()) == written

    for finding in result.findings:
        assert finding.text.rstrip().endswith((".", ")", "?")), finding.text
        assert finding.text.count("`") % 2 == 0, finding.text
    assert all(table.rows for table in result.tables())
    check_figures(figures(again), probe.name)


def check_figures(drawn: list[Figure], probe: str) -> None:
    assert drawn, f"{probe} draws nothing"
    assert len({figure.name for figure in drawn}) == len(drawn)
    for figure in drawn:
        words = (figure.title, figure.caption, figure.alt)
        assert all(text.strip() for text in words), (probe, figure.name)
        assert figure.name == figure.name.lower().replace(" ", "-")
        assert any(character.isdigit() for character in figure.alt), (probe, figure.name)
        assert figure.figure.layout.title.text is None, "titles belong to the page"


def test_every_probe_has_words():
    for probe in PROBES:
        assert probe.question.endswith("?")
        assert probe.title
        assert probe.chapter or probe.on_request  # what intervenes goes beyond the source
        assert probe.result_type.probe == probe.name


def test_every_probe_is_listed():
    """A probe that is not listed is never asked."""
    folder = Path(__file__).parents[2] / "tsc_interp" / "probes"
    found = {path.stem for path in folder.glob("*.py") if "\n@probe(" in path.read_text("utf-8")}
    assert found == {probe.name.replace("-", "_") for probe in PROBES}


@pytest.mark.parametrize("probe", ASKED, ids=lambda probe: probe.name)
def test_hooks_are_gone_after_an_error(probe, models):
    model = models["walkthrough"]
    with pytest.raises(TscError, match=r"unexpected '!'"):
        probe.run(model, ["ab!"], **CHEAP.get(probe.name, {}))
    assert _hooks(model) == 0


@pytest.mark.parametrize("probe", ASKED, ids=lambda probe: probe.name)
def test_strings_without_the_letters_of_the_task(probe):
    """With positions nothing is known of a letter no string has, so nothing is said of it."""
    config = ClassifierConfig(n_letters=4, n_positions=9)
    try:
        result = probe.run(HookedClassifier(config, seed=0), ["c"], **CHEAP.get(probe.name, {}))
    except UnsupportedError:
        return
    assert not any("`b`" in finding.text for finding in result.findings)
    figures(result)


def test_an_unknown_probe_is_refused_with_the_nearest_name():
    with pytest.raises(UsageError, match="did you mean 'trace'"):
        find_probe("trase")
    with pytest.raises(UsageError, match="did you mean 'init-norm'"):
        find_probe("init_norm")


def test_an_unknown_option_is_refused_with_those_there_are(models):
    """It was a TypeError of Python's, from inside."""
    with pytest.raises(UsageError, match="'budget'; its options are visible, boxes"):
        find_probe("cone").run(models["walkthrough"], ["ab"], budget=3)
