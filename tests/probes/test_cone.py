"""Cone: first errors against enumeration and the horizon, largest logits against brute force."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from tests.cases import CONFIGS, POSITIONED
from tests.probes.models import TOKENS, check_survives_json, transformer_lens_model
from tests.verification.models import planted, random_checkpoint, unfailing
from tsc_interp import horizon
from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import UnsupportedError
from tsc_interp.model.hooked import HookedClassifier, load
from tsc_interp.probes.cone import (
    ConeResult,
    LetterSet,
    cone,
    largest_negative_sets,
)
from tsc_interp.tasks.counts import AtLeast, ContainsAll, Majority, Parity


def hooked(checkpoint: object) -> HookedClassifier:
    return HookedClassifier.from_checkpoint(checkpoint)  # type: ignore[arg-type]


def logit(model: HookedClassifier, given: object) -> float:
    with torch.no_grad():
        return float(model(given)[0])


def found(result: ConeResult, letters: str) -> LetterSet:
    return next(one for one in result.sets if one.letters == letters)


@pytest.mark.parametrize("name", ["generalization-errors", "attend-cls"])
def test_largest_logit_against_brute_force(name: str) -> None:
    """Oracle: the hooked float32 model itself on a fine, independent grid of ratios."""
    model = load(name)
    for one in (one for one in cone.run(model, ["ab"]).sets if one.label == 0):
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
        assert one.largest_logit is not None
        assert one.largest_logit >= brute - 0.05
        if not model.config.attend_cls:
            assert one.largest_logit <= brute + 0.05


def test_first_errors_against_enumeration() -> None:
    model = load("generalization-errors")
    for one in cone.run(model, ["ab"]).sets:
        best = None
        for length in range(len(one.letters), 75):
            rows = [
                row
                for row in itertools.product(range(1, length + 1), repeat=len(one.letters))
                if sum(row) == length
            ]
            counts = np.zeros((len(rows), 3), dtype=int)
            counts[:, [model.config.alphabet.index(letter) for letter in one.letters]] = rows
            if bool(((model(model.counts(counts)).detach() > 0) != bool(one.label)).any()):
                best = length
                break
        assert one.length == best or (best is None and (one.length or 75) >= 75)
        assert one.verified_length < (one.length or 10**9)


def test_first_errors_are_the_horizons() -> None:
    checkpoint = planted(12, c_score=-1.0)
    result = cone.run(hooked(checkpoint), ["ab{3}", "b"])
    known = horizon(checkpoint)
    assert result.horizon == known.length == 12
    assert [one.first_error for one in result.sets] == [
        support.shortest and support.shortest.string for support in known.by_letters
    ]
    assert found(result, "ab").kind == "false negative"
    assert found(result, "bc").always_right
    quiet, negatives = result.findings
    assert "at any length: proved" in quiet.text
    assert quiet.severity == "good"
    assert "`ab{12}`, `ac{32}`" in negatives.text or "`ab{12}`" in negatives.text
    assert negatives.concerns(string="ab{12}")


def test_a_latent_false_positive() -> None:
    """attend-cls hides one behind a score gap: it shows at 33,509 letters and not before."""
    model = load("attend-cls")
    result = cone.run(model, ["ac{50}"])
    one = found(result, "ac")
    assert one.length is not None
    assert one.length == one.verified_length + 1 > 30_000
    assert logit(model, "ac{34000}") > 0
    # Oracle for "shortest": every ac string with up to 3 a's, one c at a time, well below it.
    for a in range(1, 4):
        counts = np.zeros((one.length - 100, 3), dtype=int)
        counts[:, 0], counts[:, 2] = a, np.arange(1, len(counts) + 1)
        with torch.no_grad():
            assert not bool((model(model.counts(counts)) > 0).any())
    [finding] = [f for f in result.findings if f.concerns(string=one.first_error)][:1]
    assert finding.severity == "warning"
    assert "do not reveal it" in finding.text
    seen = cone.run(model, ["ab"], visible=10**6).findings
    assert not any("do not reveal it" in finding.text for finding in seen)


def test_the_report_on_generalization_errors() -> None:
    result = cone.run(load("generalization-errors"), ["b{2}c{152}", "ab"])
    assert found(result, "bc").first_error == "bc{70}"
    assert not found(result, "ac").first_error


def test_curves_of_two_letters_show_what_the_model_says() -> None:
    """Against the hooked model, string by string."""
    for name in ("generalization-errors", "attend-cls"):
        model = load(name)
        result = cone.run(model, ["ab"])
        assert result.curves is not None
        ratios = np.array([float(ratio) for ratio in result.curves.labels["ratio"]])
        whole = np.flatnonzero(ratios == np.round(ratios))
        for pair in result.curves.labels["pair"]:
            counts = np.zeros((len(whole), 3), dtype=np.int64)
            counts[:, ["abc".index(letter) for letter in pair.split(" and ")]] = np.stack(
                [10.0 ** np.maximum(-ratios[whole], 0), 10.0 ** np.maximum(ratios[whole], 0)], 1
            )
            with torch.no_grad():
                expected = model(model.counts(counts)).double().numpy()
            np.testing.assert_allclose(result.curves.at(pair=pair)[whole], expected, atol=2e-3)


def test_a_model_that_never_fails() -> None:
    result = cone.run(hooked(unfailing()), ["a"])
    assert result.infinite
    assert [finding.severity for finding in result.findings] == ["good"]
    assert all(one.always_right for one in result.sets)
    assert result.shortest_of(None) is None


# A default, one with a norm that attends to CLS, three layers, and scores that grow.
@pytest.mark.parametrize("config", [CONFIGS[i] for i in (0, 4, 7, 9)], ids=lambda c: c.key()[:6])
def test_every_configuration(config: ClassifierConfig) -> None:
    """Invariant: no string up to the verified length of its set is wrong."""
    model = HookedClassifier(config, seed=6)
    result = cone.run(model, ["a{3}", "b{2}"])
    check_survives_json(result)
    generator = np.random.default_rng(0)
    for one in result.sets:
        columns = [config.alphabet.index(letter) for letter in one.letters]
        counts = np.zeros((200, config.n_letters), dtype=int)
        counts[:, columns] = np.exp(generator.uniform(0, 6, (200, len(columns)))).astype(int)
        counts = counts[counts.sum(1) <= one.verified_length]
        if len(counts):
            with torch.no_grad():
                logits = model(model.counts(counts)).double().numpy()
            clear = np.abs(logits) > 1e-4
            assert ((logits > 0) == config.task.labels(counts))[clear].all()
        if one.first_error:
            assert logit(model, one.first_error) == pytest.approx(one.logit, abs=1e-3)


def test_other_alphabets_and_tasks() -> None:
    two = cone.run(hooked(random_checkpoint(ClassifierConfig(n_letters=2), 1)), ["ab"])
    assert [figure.name for figure in two.figures] == ["largest-logits", "mixtures"]
    for task in (Majority(letter="b"), Parity(letter="a"), AtLeast(letter="a", k=2)):
        model = hooked(random_checkpoint(ClassifierConfig(task=task), 1))
        assert len(cone.run(model, ["a"]).sets) == 7
    large = ClassifierConfig(n_letters=8, task=ContainsAll(letters="ab"))
    assert largest_negative_sets(large) == ["acdefgh", "bcdefgh"]
    result = cone.run(HookedClassifier(large, seed=0), ["ab"])
    assert [one.letters for one in result.sets] == ["acdefgh", "bcdefgh"]
    assert "largest negative sets" in result.not_applicable[0]


def test_refusals() -> None:
    with pytest.raises(UnsupportedError, match="order"):
        cone.run(HookedClassifier(POSITIONED), ["ab"])
    with pytest.raises(UnsupportedError, match="labels"):
        cone.run(transformer_lens_model(), TOKENS)
