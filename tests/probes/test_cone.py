"""Cone: largest logits against brute force over mixtures, shortest strings against enumeration."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from tests.cases import CONFIGS, POSITIONED
from tests.probes.models import TOKENS, check_survives_json, transformer_lens_model
from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import UnsupportedError
from tsc_interp.model.hooked import HookedClassifier, load
from tsc_interp.probes.cone.maximise import maximise
from tsc_interp.probes.cone.result import ConeResult, NegativeSet
from tsc_interp.probes.cone.run import negative_sets
from tsc_interp.probes.registry import find_probe
from tsc_interp.rules import AtLeast, ContainsAll, Majority

cone = find_probe("cone")


def logit(model: HookedClassifier, given: object) -> float:
    with torch.no_grad():
        return float(model(given)[0])


def found(result: ConeResult, letters: str) -> NegativeSet:
    return next(one for one in result.sets if one.letters == letters)


def test_maximise_finds_the_higher_of_two_peaks() -> None:
    def two_peaks(counts: np.ndarray) -> np.ndarray:
        t = np.log(counts[:, 1] / counts[:, 0])
        return np.exp(-((t - 3) ** 2)) + 1.5 * np.exp(-(((t + 7.123) / 0.1) ** 2)) - 1

    best = maximise(two_peaks, 2, ratios_only=True)
    assert best.value == pytest.approx(0.5, abs=1e-6)
    assert np.log(best.counts[1] / best.counts[0]) == pytest.approx(-7.123, abs=1e-3)
    assert (two_peaks(best.seen) > 0).all()


def test_maximise_in_four_dimensions() -> None:
    centre = np.array([2.0, 11.0, 5.0, 8.0])
    best = maximise(lambda n: -((np.log(n) - centre) ** 2).sum(1), 4, ratios_only=False)
    assert np.log(best.counts) == pytest.approx(centre, abs=1e-3)
    assert not best.dense


@pytest.mark.parametrize("name", ["walkthrough", "generalization-errors", "attend-cls"])
def test_largest_logit_against_brute_force(name: str) -> None:
    """Oracle: the hooked float32 model itself on a fine, independent grid of ratios."""
    model = load(name)
    result = cone.run(model, ["ab"])
    for one in result.sets:
        indices = [model.config.alphabet.index(letter) for letter in one.letters]
        steps = np.logspace(0, 9, 400)
        grid = np.ones((1, 1))
        if len(one.letters) == 2:
            grid = np.concatenate(
                [np.stack([np.ones(400), steps], 1), np.stack([steps, np.ones(400)], 1)]
            )
        counts = np.zeros((len(grid), 3))
        counts[:, indices] = grid
        with torch.no_grad():
            brute = float(model(model.counts(counts)).max())
        assert one.max_logit >= brute - 1e-4
        reached = np.zeros((1, 3))
        reached[0, indices] = one.mixture
        assert one.max_logit == pytest.approx(logit(model, model.counts(reached)), abs=1e-3)
        if not model.config.attend_cls:
            assert one.max_logit <= brute + 0.05


@pytest.mark.parametrize("name", ["generalization-errors", "lower-magnitude"])
def test_shortest_string_against_enumeration(name: str) -> None:
    model = load(name)
    for one in cone.run(model, ["ab"]).sets:
        best = None
        for length in range(len(one.letters), 90):
            rows = [
                row
                for row in itertools.product(range(1, length + 1), repeat=len(one.letters))
                if sum(row) == length
            ]
            counts = np.zeros((len(rows), 3), dtype=int)
            counts[:, [model.config.alphabet.index(letter) for letter in one.letters]] = rows
            if bool((model(model.counts(counts)).detach() > 0).any()):
                best = length
                break
        assert one.length == best
        assert one.searched_to >= 200


def test_a_latent_crossing() -> None:
    """attend-cls hides one behind a score gap: it shows at 33477 letters and not before."""
    model = load("attend-cls")
    result = cone.run(model, ["ac{50}"])
    one = found(result, "ac")
    assert one.crosses
    assert one.latent
    assert one.length > one.searched_to
    assert logit(model, one.shortest) > 0
    assert one.written_mixture() == "784.1 a : 1,000,000,000 c"
    # Oracle for "shortest": every ac string with up to 3 a's, one c at a time, below that length.
    for a in range(1, 4):
        counts = np.zeros((one.length - a - 1, 3), dtype=int)
        counts[:, 0], counts[:, 2] = a, np.arange(1, one.length - a)
        with torch.no_grad():
            assert not bool((model(model.counts(counts)) > 0).any())
    assert any("do not reveal it" in finding.text for finding in result.findings)
    assert not found(cone.run(model, ["ab"], visible=10**6), "ac").latent


def test_the_report_on_generalization_errors() -> None:
    result = cone.run(load("generalization-errors"), ["b{2}c{152}", "ab"])
    assert found(result, "bc").shortest == "bc{70}"
    assert not found(result, "ac").crosses
    (point,) = result.strings
    assert point.letters == "bc"
    assert point.logit == pytest.approx(0.4635, abs=1e-4)
    assert point.log_ratio == pytest.approx(np.log10(76))
    curve = result.curves.at(set="bc")
    ratios = np.array([float(ratio) for ratio in result.curves.labels["ratio"]])
    assert np.interp(point.log_ratio, ratios, curve) == pytest.approx(point.logit, abs=0.2)
    assert curve.max() <= found(result, "bc").max_logit + 1e-9


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.key()[:6])
def test_every_configuration(config: ClassifierConfig) -> None:
    """Invariant: no string of a set exceeds the set's largest logit."""
    model = HookedClassifier(config, seed=6)
    result = cone.run(model, ["a{3}", "b{2}"])
    check_survives_json(result)
    generator = np.random.default_rng(0)
    for one in result.sets:
        counts = np.zeros((200, config.n_letters), dtype=int)
        columns = [config.alphabet.index(letter) for letter in one.letters]
        counts[:, columns] = np.exp(generator.uniform(0, 12, (200, len(columns)))).astype(int)
        with torch.no_grad():
            logits = model(model.counts(counts)).double().numpy()
        assert logits.max() <= one.max_logit + 1e-4
        assert not one.shortest or logit(model, one.shortest) > 0


def test_negative_sets() -> None:
    assert negative_sets(ClassifierConfig())[0] == ["a", "b", "c", "ac", "bc"]
    large = ClassifierConfig(n_letters=8, task=ContainsAll(letters="ab"))
    assert negative_sets(large)[0] == ["acdefgh", "bcdefgh"]
    counting = ClassifierConfig(task=AtLeast(letter="a", k=2))
    assert negative_sets(counting) == (["b", "c", "bc"], 4)
    majority = ClassifierConfig(n_letters=2, task=Majority(letter="a"))
    assert negative_sets(majority) == (["b"], 1)


def test_refusals() -> None:
    with pytest.raises(UnsupportedError, match="order"):
        cone.run(HookedClassifier(POSITIONED), ["ab"])
    with pytest.raises(UnsupportedError, match="labels"):
        cone.run(transformer_lens_model(), TOKENS)
