"""The horizon: against brute force and planted errors. Its bounds: test_search_bounds.py."""

from __future__ import annotations

import numpy as np
import pytest

from tests.sizes import many
from tests.verification.models import (
    WIDER,
    hand_built,
    planted,
    random_checkpoint,
    small_vectors,
    twelve_weights,
    unfailing,
)
from tsc_interp import horizon
from tsc_interp.checkpoints import bundled_names, load_checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import UsageError
from tsc_interp.model.hooked import HookedClassifier
from tsc_interp.tasks.counts import ContainsAll
from tsc_interp.verification.count_model import CountModel
from tsc_interp.verification.counting.regions import count_regions
from tsc_interp.verification.labels import support_name
from tsc_interp.verification.replay import replay_all


def first_errors(
    config: ClassifierConfig, model: CountModel, longest: int
) -> dict[str, tuple[int, ...]]:
    """The first wrong vector of each set of letters, by looking at all of them in order."""
    vectors = small_vectors(config.n_letters, longest)
    ordered = sorted(vectors.tolist(), key=lambda v: (sum(v), [-n for n in v]))
    found: dict[str, tuple[int, ...]] = {}
    for vector in ordered:
        name = support_name(config, tuple(i for i, n in enumerate(vector) if n))
        label = bool(config.task.labels(np.array(vector)))
        if name not in found and (model.answer(vector) == 1) != label:
            found[name] = tuple(vector)
    return found


@pytest.mark.parametrize("config", WIDER, ids=range(len(WIDER)))
def test_first_errors_by_brute_force(config: ClassifierConfig) -> None:
    longest = {1: 12, 2: 12, 3: 9, 4: 6, 5: 5}[config.n_letters]
    for seed in (4, 1)[: many(1, 2)]:
        checkpoint = random_checkpoint(config, seed)
        expected = first_errors(config, CountModel(checkpoint), longest)
        found = horizon(checkpoint, limit=longest)
        for support in found.by_letters:
            got = None if support.shortest is None else support.shortest.counts
            assert got == expected.get(support.letters), (seed, support)
            assert support.proved
        first = min(expected.values(), key=lambda v: (sum(v), [-n for n in v]), default=None)
        assert (found.shortest and found.shortest.counts) == first
        assert found.length == (None if first is None else sum(first) - 1)


@pytest.mark.parametrize("first", [2, 5, 66, 1000, 54321, 999_998])
def test_planted_errors_are_found_however_far(first: int) -> None:
    found = horizon(planted(first, c_score=-1.0))
    assert found.shortest is not None
    assert found.shortest.counts == (1, first, 0)
    assert (found.length, found.proved, found.infinite) == (first, True, False)
    assert found.shortest_false_positive is None


def test_scores_scaled_by_log_n_can_reach_for_ever() -> None:
    found = horizon(unfailing(), limit=1000)
    assert (found.length, found.infinite, found.proved) == (None, True, True)
    assert found.shortest is None


def test_beyond_the_limit_nothing_is_claimed() -> None:
    found = horizon(planted(500, -1.0), limit=500)
    assert (found.length, found.proved, found.verified_length) == (None, False, 500)
    assert horizon(planted(500, -1.0), limit=501).length == 500


def test_a_spent_budget_still_proves_a_prefix() -> None:
    found = horizon(planted(5000, c_score=-1.0), boxes=3)
    assert not found.proved
    assert 0 < found.verified_length <= 5000
    # What it says is true: nothing up to there is wrong.
    assert horizon(planted(5000, c_score=-1.0), limit=found.verified_length).length is None


def test_ties_go_to_the_alphabet() -> None:
    """b and c weigh the same against a, so ab{4}, ab{3}c, ... ac{4} all fail first, together."""
    found = horizon(planted(4))
    by_letters = {support.letters: support.shortest for support in found.by_letters}
    assert by_letters["ab"].string == "ab{4}"  # type: ignore[union-attr]
    assert by_letters["ac"].string == "ac{4}"  # type: ignore[union-attr]
    assert by_letters["abc"].string == "ab{3}c"  # type: ignore[union-attr]
    assert found.shortest is by_letters["ab"]


@pytest.mark.parametrize("name", bundled_names())
def test_bundled_models(name: str) -> None:
    """Counting by regions finds the same first error, and none before it."""
    checkpoint = load_checkpoint(name)
    found = horizon(checkpoint)
    assert found.proved
    assert found.length is not None
    assert found.shortest is not None
    tally = count_regions(CountModel(checkpoint), found.length + 1)
    assert tally.first_error_length == found.length + 1
    assert found.shortest.counts in (side.shortest for side in tally.sides)
    assert sum(side.vectors[-1] for side in tally.sides) == sum(
        s.total_vectors for s in tally.sides
    )


@pytest.mark.parametrize("name", bundled_names())
def test_bundled_counterexamples(name: str) -> None:
    """Each is wrong for the float32 model too; with one letter less it is right."""
    checkpoint = load_checkpoint(name)
    model = CountModel(checkpoint)
    shortest = [support.shortest for support in horizon(checkpoint).by_letters if support.shortest]
    assert shortest
    for one, replayed in zip(shortest, replay_all(checkpoint, shortest), strict=True):
        assert replayed.also_wrong
        assert replayed.form == ("tokens" if one.length <= 1000 else "compressed")
        assert replayed.logit == pytest.approx(one.logit, abs=1e-4)
        fewer = list(one.counts)
        fewer[int(np.argmax(fewer))] -= 1
        if any(fewer):
            label = bool(checkpoint.config.task.labels(np.array(fewer)))
            assert (model.answer(fewer) == 1) == label


def test_a_hooked_model_is_as_good_as_a_checkpoint() -> None:
    checkpoint = planted(9)
    assert horizon(HookedClassifier.from_checkpoint(checkpoint)) == horizon(checkpoint)


def test_undecided_is_not_proved() -> None:
    found = horizon(hand_built([[1, 0, 2]] * 2, [[1, 0, 3], [-1, 0, -3]], 0.0), limit=3)
    assert not found.proved
    assert found.verified_length <= 1


def test_limits_are_checked() -> None:
    with pytest.raises(UsageError, match=r"from 1( to|, got)"):
        horizon(planted(3), limit=0)


def test_other_alphabets_and_positive_sets() -> None:
    """Six letters, three of them wanted: every set of letters is searched."""
    config = ClassifierConfig(n_letters=6, d_model=5, task=ContainsAll(letters="bdf"))
    found = horizon(random_checkpoint(config, 0), limit=50)
    assert len(found.by_letters) == 63
    assert found.proved


def test_twelve_weights_are_settled_to_a_thousand() -> None:
    """Two terms nearly cancel, and c is not heard: cut along c, the boxes were too many."""
    checkpoint = twelve_weights()
    assert checkpoint.n_parameters == 12
    tally = count_regions(CountModel(checkpoint), 120)
    assert not any(side.total_vectors for side in tally.sides)
    found = horizon(checkpoint, limit=1000, prove=False)
    assert (found.complete, found.verified_length, found.length) == (True, 1000, None)
