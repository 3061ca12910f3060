"""Means along many directions from those along eight; single inputs many at once."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest

from tests.trusted.asking import Asked
from tests.trusted.paths import strings
from tests.verification import precise_ordered
from tests.verification.ordered_models import ordered_checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.tasks import Maximum
from tsc_interp.trusted.order import Inputs, PathRegions
from tsc_interp.trusted.probes import Probes, plane_of
from tsc_interp.trusted.sets import Sets
from tsc_interp.trusted.spans import Span

CONFIG = ClassifierConfig(
    n_letters=3, n_heads=2, d_model=5, d_head=2, d_mlp=4, n_positions=5, n_outputs=3, norm="rms",
    reads="last_letter", attend_cls=True, task=Maximum(),
)  # fmt: skip


@pytest.mark.parametrize("rank", [0, 1, 2])
@pytest.mark.parametrize("seed", range(4))
def test_what_probes_say_of_a_mean_is_so(rank: int, seed: int) -> None:
    """Met for values in a plane; and above it however far they, or the plane, are off."""
    noise = np.random.default_rng(seed)
    values = noise.normal(size=(9, rank)) @ noise.normal(size=(rank, 5)) + noise.normal(size=5)
    asked = noise.normal(size=(7, 5))
    plane = plane_of(Span.exact(values))
    assert plane is not None
    for off, turned in ((0.0, 0.0), (0.01, 0.0), (0.0, 0.1)):
        near = values + off * noise.normal(size=values.shape)
        probes = Probes(Span(near - off, near + off), plane + turned, asked)
        for _ in range(20):
            mean = noise.dirichlet(np.full(9, 0.3)) @ (near + off * noise.uniform(-1, 1, (9, 5)))
            found = probes.above((probes.directions @ mean)[None])[0]
            assert (found >= asked @ mean).all()
            if not off and not turned:
                assert (found <= asked @ mean + 1e-12).all()


def test_no_plane_is_found_where_there_is_none() -> None:
    noise = np.random.default_rng(1)
    assert plane_of(Span.exact(noise.normal(size=(9, 5)))) is None
    with np.errstate(invalid="ignore"):
        assert plane_of(Span.exact(np.full((9, 5), np.inf))) is None


def whole(asked: Asked, letter: int) -> Sets:
    """All strings of four letters that end in one."""
    trellis = asked.trellis(4)
    masks = [np.ones((1, len(stage)), dtype=bool) for stage in trellis.stages]
    masks[-1] = (trellis.stages[-1].letters[:, 0] == letter)[None]
    return Sets(trellis, masks)


def reals(asked: Asked, letters: Any) -> Any:
    with mpmath.workprec(256):
        rows = [precise_ordered.state_of(asked.checkpoint, row) for row in letters.tolist()]
        return np.array([[float(x) for x in row] for row in rows])


@pytest.mark.parametrize("seed", range(3))
def test_ranges_by_probes_hold_and_are_little_wider(seed: int) -> None:
    asked = Asked(ordered_checkpoint(CONFIG, seed))
    sets, q = whole(asked, 1), np.random.default_rng(seed).normal(size=(6, 5))
    regions = asked.regions(sets)
    by_probes, base = regions.highest(q[None]), regions.base.middle
    assert all(key.probes(0, q) is not None for key in regions.keys)
    for key in regions.keys:
        key.values = ()
    direct = PathRegions(sets, regions.keys).highest(q[None])
    _, letters, _ = sets.paths()
    states = reals(asked, letters)
    real = ((states - base) @ q.T).max(0)
    far = np.linalg.norm(states[:, None] - states, axis=2).max() * np.linalg.norm(q, axis=1)
    assert (by_probes >= real - 1e-12).all()
    assert (direct >= real - 1e-12).all()
    assert (by_probes <= direct + 0.5 * far).all()


@pytest.mark.parametrize("options", [{}, {"reads": "first"}, {"n_heads": 0}])
def test_single_inputs_are_known_closely(options: Any) -> None:
    asked = Asked(ordered_checkpoint(CONFIG.replace(**options), 2))
    _, letters, _ = Sets.whole(asked.trellis(3)).paths()
    assert [tuple(row) for row in letters.tolist()] == [
        string for string, _ in strings(Sets.whole(asked.trellis(3)), 0)
    ]
    seen = []
    for at, _, regions, _ in asked.judge._inputs(letters, np.zeros(len(letters), dtype=np.int64)):
        assert isinstance(regions, Inputs)
        real, reach = reals(asked, letters[at]), regions.reach
        assert (reach.low <= real + 1e-15).all()
        assert (real - 1e-15 <= reach.high).all()
        assert (reach.high - reach.low).max() < 1e-12
        highest = regions.highest(np.eye(5)[None])
        assert (highest >= real - regions.base.high - 1e-15).all()
        assert (highest <= real - regions.base.low + 1e-12).all()
        seen += at.tolist()
    assert sorted(seen) == list(range(len(letters)))
