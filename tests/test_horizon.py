"""The horizon: against brute force and planted errors; its bounds against sampled points."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import configs
from tests.verification_models import (
    VERIFIED,
    hand_built,
    planted,
    random_checkpoint,
    small_vectors,
    unfailing,
)
from tsc_interp import horizon
from tsc_interp.checkpoints import bundled_names, load_checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import UsageError
from tsc_interp.model.hooked import HookedClassifier
from tsc_interp.task import ContainsAll
from tsc_interp.verification.faces import Faces, count_box_bounds
from tsc_interp.verification.intervals import gelu, gelu_bounds, mean_bounds
from tsc_interp.verification.labels import all_faces, face_name
from tsc_interp.verification.proofs import prove_all_lengths, tail_bounds
from tsc_interp.verification.regions import count_regions
from tsc_interp.verification.replay import replay_all


def first_errors(
    config: ClassifierConfig, faces: Faces, longest: int
) -> dict[str, tuple[int, ...]]:
    """The first wrong vector of each set of letters, by looking at all of them in order."""
    vectors = small_vectors(config.n_letters, longest)
    ordered = sorted(vectors.tolist(), key=lambda v: (sum(v), [-n for n in v]))
    found: dict[str, tuple[int, ...]] = {}
    for vector in ordered:
        name = face_name(config, tuple(i for i, n in enumerate(vector) if n))
        label = bool(config.task.labels(np.array(vector)))
        if name not in found and (faces.exact.sign(vector) == 1) != label:
            found[name] = tuple(vector)
    return found


@pytest.mark.parametrize("config", VERIFIED, ids=range(len(VERIFIED)))
def test_first_errors_by_brute_force(config: ClassifierConfig) -> None:
    longest = {1: 12, 2: 12, 3: 9, 4: 6, 5: 5}[config.n_letters]
    for seed in (1, 4):
        checkpoint = random_checkpoint(config, seed)
        expected = first_errors(config, Faces(checkpoint), longest)
        found = horizon(checkpoint, limit=longest)
        for face in found.by_letters:
            got = None if face.shortest is None else face.shortest.counts
            assert got == expected.get(face.letters), (seed, face)
            assert face.proved
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
    assert (found.length, found.proved, found.right_through) == (None, False, 500)
    assert horizon(planted(500, -1.0), limit=501).length == 500


def test_a_spent_budget_still_proves_a_prefix() -> None:
    found = horizon(planted(5000, c_score=-1.0), budget=3)
    assert not found.proved
    assert 0 < found.right_through <= 5000
    # What it says is true: nothing up to there is wrong.
    assert horizon(planted(5000, c_score=-1.0), limit=found.right_through).length is None


def test_ties_go_to_the_alphabet() -> None:
    """b and c weigh the same against a, so ab{4}, ab{3}c, ... ac{4} all fail first, together."""
    found = horizon(planted(4))
    by_letters = {face.letters: face.shortest for face in found.by_letters}
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
    tally = count_regions(Faces(checkpoint), found.length + 1)
    assert tally.first_error_length == found.length + 1
    assert found.shortest.counts in (side.shortest for side in tally.sides)
    assert sum(side.vectors[-1] for side in tally.sides) == sum(
        s.total_vectors for s in tally.sides
    )


@pytest.mark.parametrize("name", bundled_names())
def test_bundled_counterexamples(name: str) -> None:
    """Each is wrong for the float32 model too; with one letter less it is right."""
    checkpoint = load_checkpoint(name)
    faces = Faces(checkpoint)
    shortest = [face.shortest for face in horizon(checkpoint).by_letters if face.shortest]
    assert shortest
    for one, replayed in zip(shortest, replay_all(checkpoint, shortest), strict=True):
        assert replayed.also_wrong
        assert replayed.form == ("tokens" if one.length <= 1000 else "compressed")
        assert replayed.logit == pytest.approx(one.logit, abs=1e-4)
        fewer = list(one.counts)
        fewer[int(np.argmax(fewer))] -= 1
        if any(fewer):
            label = bool(checkpoint.config.task.labels(np.array(fewer)))
            assert (faces.exact.sign(fewer) == 1) == label


def test_a_hooked_model_is_as_good_as_a_checkpoint() -> None:
    checkpoint = planted(9)
    assert horizon(HookedClassifier.from_checkpoint(checkpoint)) == horizon(checkpoint)


def test_undecided_is_not_proved() -> None:
    found = horizon(hand_built([[1, 0, 2]] * 2, [[1, 0, 3], [-1, 0, -3]], 0.0), limit=3)
    assert not found.proved
    assert found.right_through <= 1


def test_limits_are_checked() -> None:
    with pytest.raises(UsageError, match="from 1 to"):
        horizon(planted(3), limit=0)


# -- the bounds everything rests on ---------------------------------------------------------------


@settings(max_examples=25)
@given(configs(), st.integers(0, 10**6), st.integers(0, 10**6))
def test_box_bounds_hold_at_every_point(config: ClassifierConfig, seed: int, draw: int) -> None:
    faces = Faces(random_checkpoint(config, seed))
    rng = np.random.default_rng(draw)
    face = all_faces(config)[rng.integers(len(all_faces(config)))]
    low = np.floor(10 ** rng.uniform(0, 4, (6, len(face))))
    high = np.floor(low * 10 ** rng.uniform(0, 1.5, low.shape))
    least, most = count_box_bounds(faces[face], low, high)
    for _ in range(5):
        inside = np.floor(low + rng.uniform(0, 1, low.shape) * (high - low + 1)).clip(low, high)
        corner = np.where(rng.uniform(size=low.shape) < 0.5, low, high)
        for points in (inside, corner):
            logits, error = faces[face].logits(points)
            assert (least - error <= logits).all()
            assert (logits <= most + error).all()


TOKEN = st.tuples(st.floats(0, 9), st.floats(0, 5), st.floats(-3, 3))


@given(st.lists(TOKEN, min_size=1, max_size=5), st.integers(0, 99))
def test_mean_bounds(tokens: list[tuple[float, float, float]], draw: int) -> None:
    """Sound everywhere, and attained at a corner."""
    light = np.array([t[0] for t in tokens]) + 0.01
    heavy = light + [t[1] for t in tokens]
    values = np.array([t[2] for t in tokens])
    low, high = mean_bounds(light, heavy, (values, values))
    corners = np.array(np.meshgrid(*[[0, 1]] * len(tokens))).reshape(len(tokens), -1).T
    weights = light + corners * (heavy - light)
    means = weights @ values / weights.sum(1)
    np.testing.assert_allclose([low, high], [means.min(), means.max()], atol=1e-12)
    inside = light + np.random.default_rng(draw).uniform(size=(20, len(tokens))) * (heavy - light)
    means = inside @ values / inside.sum(1)
    assert (low <= means).all()
    assert (means <= high).all()


@given(st.floats(-6, 6), st.floats(0, 6))
def test_gelu_bounds(low: float, width: float) -> None:
    least, most = gelu_bounds(np.array([low]), np.array([low + width]))
    sampled = gelu(np.linspace(low, low + width, 301))
    assert least[0] <= sampled.min()
    assert sampled.max() <= most[0]
    assert sampled.min() - least[0] < 0.01
    assert most[0] - sampled.max() < 1e-9


def test_all_lengths_proof_covers_every_ratio() -> None:
    checkpoint = load_checkpoint("attend-cls")
    faces = Faces(checkpoint)
    proof = prove_all_lengths(faces[(1, 2)], label=False)
    assert proof is not None
    rng = np.random.default_rng(0)
    counts = np.floor(10 ** rng.uniform(0, 8, (2000, 2)))
    assert faces[(1, 2)].logits(counts)[0].max() <= proof.extreme_logit < 0
    # ac{33508} is wrong, so there is nothing to prove over a and c.
    assert prove_all_lengths(faces[(0, 2)], label=False) is None


def test_tail_bounds_hold() -> None:
    faces = Faces(unfailing())
    rng = np.random.default_rng(1)
    for face in all_faces(faces.config):
        bounds = tail_bounds(faces[face], 64)
        assert bounds is not None
        counts = np.floor(10 ** rng.uniform(1.81, 7, (500, len(face))))
        counts[:, : len(face) - 1] **= rng.uniform(0, 1, (500, 1))
        counts = np.maximum(np.floor(counts), 1)
        logits, error = faces[face].logits(counts)
        assert bounds[0][0] - error <= logits.min()
        assert logits.max() <= bounds[1][0] + error
    assert tail_bounds(Faces(planted(4))[(0, 1)], 64) is None


def test_other_alphabets_and_positive_sets() -> None:
    """Six letters, three of them wanted: every set of letters is searched."""
    config = ClassifierConfig(n_letters=6, d_model=5, task=ContainsAll(letters="bdf"))
    found = horizon(random_checkpoint(config, 0), limit=50)
    assert len(found.by_letters) == 63
    assert found.proved
