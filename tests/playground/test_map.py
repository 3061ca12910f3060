"""The failure map by itself: what it shows is true of strings, and it stands alone in any page."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import POSITIONED
from tsc_interp.checkpoints import Checkpoint, bundled_names, load_checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import StringError, UnsupportedError, UsageError
from tsc_interp.model.initialise import initial_weights
from tsc_interp.playground import failure_map
from tsc_interp.playground.contours import region_path, stretches, trace
from tsc_interp.playground.geometry import CORNERS, LATTICE, lattice, through_lens
from tsc_interp.playground.mapfields import MapView, map_length, nearest_strings
from tsc_interp.tasks.counts import AtLeast, Majority
from tsc_interp.verification.count_model import CountModel

SVG = "{http://www.w3.org/2000/svg}"


def fresh(config: ClassifierConfig, seed: int = 1) -> Checkpoint:
    weights = {name: w.numpy() * 1.7 for name, w in initial_weights(config, seed).items()}
    return Checkpoint(config, weights)


def figure(fragment: str) -> ElementTree.Element:
    """The fragment read as XML, which is stricter than HTML."""
    return ElementTree.fromstring(
        fragment.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ')
    )


def polygons(path: str) -> list[np.ndarray]:
    """The corners of a path's pieces, back from relative tenths."""
    found = []
    for piece in re.findall(r"M([^M]*?)z", path):
        numbers = [int(number) for number in re.findall(r"-?\d+", piece)]
        found.append(np.cumsum(np.reshape(numbers, (-1, 2)), axis=0) / 10)
    return found


def inside(path: str, x: float, y: float) -> bool:
    """Even-odd, by counting how often a line to the right crosses."""
    crossings = 0
    for corners in polygons(path):
        ends = np.roll(corners, -1, axis=0)
        for (x1, y1), (x2, y2) in zip(corners, ends, strict=True):
            if (y1 > y) != (y2 > y) and x < x1 + (y - y1) / (y2 - y1) * (x2 - x1):
                crossings += 1
    return crossings % 2 == 1


# -- lines -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("least", "area"), [(0.0, 1.0), (0.25, 0.5625), (0.5, 0.25), (0.9, 0.01)])
def test_half_planes_have_their_area(least: float, area: float) -> None:
    """Where the left corner's share exceeds a number lies a triangle like the whole one."""
    path = region_path(trace(lattice()[:, 0] / LATTICE - least))
    (corners,) = polygons(path)
    x, y = corners.T
    found = abs(np.dot(x, np.roll(y, -1)) - np.dot(y, np.roll(x, -1))) / 2
    whole = abs(np.linalg.det(np.diff(CORNERS, axis=0))) / 2
    assert found / whole == pytest.approx(area, abs=1e-3)


@pytest.mark.parametrize("seed", range(4))
def test_points_are_inside_their_region_and_no_other(seed: int) -> None:
    """Smooth fields with several hills: every point well above zero is inside, well below out."""
    generator = np.random.default_rng(seed)
    u = np.column_stack([lattice(), LATTICE - lattice().sum(1)]) / LATTICE
    values = np.sin(u @ generator.uniform(-14, 14, (3, 5)) + generator.uniform(0, 6, 5)).sum(1)
    path = region_path(trace(values))
    interior = np.flatnonzero((u > 0.02).all(1) & (np.abs(values) > 0.2))
    for i in generator.choice(interior, 150, replace=False):
        assert inside(path, *(u[i] @ CORNERS)) == (values[i] > 0)


def test_stretches_of_an_edge() -> None:
    assert stretches(np.array([-1.0, -1, -1])) == []
    assert stretches(np.array([1.0, 1, 1])) == [(0, 1)]
    assert stretches(np.array([-1.0, 1, 3, -1, -1, 2])) == [
        (0.5 / 5, 2.75 / 5),
        ((4 + 1 / 3) / 5, 1.0),
    ]


@given(
    st.lists(st.floats(1e-6, 1), min_size=1, max_size=3),
    st.integers(3, 10**9),
    st.sampled_from([1.0, 2.5, 4.0]),
)
def test_nearest_strings_have_their_length_and_all_letters(
    shares: list[float], length: int, lens: float
) -> None:
    ratios = through_lens(np.array([shares]), lens)
    (counts,) = nearest_strings(ratios, length)
    assert counts.sum() == length
    assert counts.min() >= 1
    # Every letter is within one of its share, or raised to one at the most frequent one's cost.
    off = np.abs(counts - ratios[0] * length)
    assert np.all((off < 1.001) | (counts == counts.max()))
    assert off.max() <= 3


# -- truth -----------------------------------------------------------------------------------------


def wrong_strings(checkpoint: Checkpoint, length: int) -> set[tuple[int, ...]]:
    """By trying every count vector of a length, exactly; as sets of letters that occur."""
    model, config = CountModel(checkpoint), checkpoint.config
    found = set()
    for a in range(length + 1):
        for b in range(length + 1 - a):
            counts = [a, b, length - a - b]
            if (model.answer(counts) == 1) != bool(config.task.labels(np.array(counts))):
                found.add(tuple(int(i) for i in np.flatnonzero(counts)))
    return found


@pytest.mark.parametrize("length", [1, 2, 4, 9])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_with_cls_only_strings_of_the_length_are_judged(seed: int, length: int) -> None:
    """A support is marked exactly when a string of that length over its letters is wrong."""
    checkpoint = fresh(ClassifierConfig(attend_cls=True), seed)
    fields = view_of(checkpoint, length).fields(CountModel(checkpoint))
    marked = {tuple(sorted(field.places)) for field in fields if (field.wrong > 0).any()}
    assert marked == wrong_strings(checkpoint, length)
    assert all(len(field.places) <= length for field in fields)


def view_of(checkpoint: Checkpoint, length: int | None = None) -> MapView:
    return MapView(checkpoint.config, (0, 1, 2), 4.0, map_length(checkpoint.config, length))


def test_short_strings_of_attend_cls_are_right_and_the_map_says_so() -> None:
    fragment = failure_map("attend-cls", length=4)
    assert 'class="wrong"' not in fragment
    assert "strings of length 4" in fragment
    assert "a, b: right;" in fragment
    assert "a, b: wrong in part (says no)" in failure_map("attend-cls", length=1427)


@pytest.mark.parametrize("name", bundled_names())
def test_points_are_wrong_exactly_where_the_model_is(name: str) -> None:
    checkpoint = load_checkpoint(name)
    model, config = CountModel(checkpoint), checkpoint.config
    view, generator = view_of(checkpoint, 500), np.random.default_rng(3)
    for field in view.fields(CountModel(checkpoint)):
        points = {1: np.ones((1, 1)), 2: np.linspace(0, 1, LATTICE + 1)[:, None]}.get(
            len(field.places), lattice() / LATTICE
        )
        shares = np.column_stack([1 - points, points]) if len(field.places) == 2 else points
        if len(field.places) == 3:
            shares = np.column_stack([points, 1 - points.sum(1)])
        for i in generator.choice(len(shares), min(6, len(shares)), replace=False):
            ratios = through_lens(np.maximum(shares[[i]], 1e-3), 4.0)
            length = 10**15 if view.length is None else view.length
            counts = np.zeros(3, dtype=np.int64)
            counts[list(field.places)] = nearest_strings(ratios, length)[0]
            truth = bool(config.task.labels(counts))
            assert (field.wrong[i] > 0) == ((model.answer(counts.tolist()) == 1) != truth)


def test_a_label_that_changes_along_a_line_is_followed() -> None:
    """Yes to everything, majority of a: wrong exactly where a's share is at most a half."""
    config = ClassifierConfig(n_heads=0, d_mlp=0, d_model=1, task=Majority(letter="a"))
    weights = {name: np.ones(shape, np.float32) for name, shape in config.weight_shapes().items()}
    checkpoint = Checkpoint(config, weights)
    view = MapView(config, (0, 1, 2), 1.0, None)
    inner = view.fields(CountModel(checkpoint))[0]
    (corners,) = polygons(region_path(trace(inner.wrong)))
    x, y = corners.T
    area = abs(np.dot(x, np.roll(y, -1)) - np.dot(y, np.roll(x, -1))) / 2
    assert area / (abs(np.linalg.det(np.diff(CORNERS, axis=0))) / 2) == pytest.approx(
        0.75, abs=0.01
    )


def test_at_least_two_depends_on_length_and_at_least_one_does_not() -> None:
    two, one = (ClassifierConfig(task=AtLeast(letter="a", k=k)) for k in (2, 1))
    assert map_length(two, 30) == 30
    assert map_length(two, None) == 1000
    assert map_length(one, 30) is None


# -- a picture that stands alone -------------------------------------------------------------------


@pytest.mark.parametrize("name", bundled_names())
def test_fragment_is_small_static_and_described(name: str) -> None:
    fragment = failure_map(name)
    assert len(fragment.encode()) < 12_000
    assert not re.search(r"<script|https?:|src=|@import|\bon\w+=", fragment)
    root = figure(fragment)
    svg = root.find(f"{SVG}svg")
    assert svg is not None
    assert svg.get("role") == "img"
    title = svg.find(f"{SVG}title")
    assert title is not None
    assert svg.get("aria-labelledby") == title.get("id")
    assert "Failure map. a, b, c: " in (title.text or "")
    assert "prefers-color-scheme:dark" in fragment
    assert '[data-theme="dark"]' in fragment
    hatches = set(re.findall(r'fill="url\(#([\w-]+)\)"', fragment))
    assert hatches <= set(re.findall(r'<pattern id="([\w-]+)"', fragment))


def test_two_maps_in_one_page_do_not_share_names() -> None:
    ids = [
        set(re.findall(r'id="([\w-]+)"', failure_map(name)))
        for name in ("walkthrough", "many-heads")
    ]
    assert ids[0].isdisjoint(ids[1])


def test_a_string_is_marked_where_it_stands() -> None:
    def mark(text: str, **options: Any) -> tuple[float, float]:
        root = figure(failure_map("walkthrough", string=text, **options))
        ring = root.find(f".//{SVG}circle[@class='you-ring']")
        assert ring is not None
        return float(ring.get("cx", "")), float(ring.get("cy", ""))

    assert mark("abc") == pytest.approx(tuple(CORNERS.mean(0)), abs=0.1)
    assert mark("ab")[1] > CORNERS[0][1], "two letters stand on the band, outside"
    assert mark("c")[1] < CORNERS[2][1]
    assert mark("aabc", lens=1.0) == pytest.approx(tuple([0.5, 0.25, 0.25] @ CORNERS), abs=0.1)
    assert "the string" in failure_map("walkthrough", string="abc")
    assert 'class="you-ring"' not in failure_map("walkthrough", string="abc", letters="ab")
    assert "strings of length 1,427" in failure_map("attend-cls", string="a{1426}b")


def test_two_letters_are_a_line_and_one_letter_is_said() -> None:
    two = failure_map(fresh(ClassifierConfig(n_letters=2)))
    assert "is a point of the line" in two
    assert figure(two).find(f".//{SVG}polygon") is None
    config = ClassifierConfig(n_letters=1, task=AtLeast(letter="a", k=2))
    assert "nothing to mix" in failure_map(fresh(config))
    assert "<svg" not in failure_map(fresh(config))


def test_of_many_letters_the_tasks_are_shown() -> None:
    checkpoint = fresh(
        ClassifierConfig(n_letters=5, task={"kind": "contains_all", "letters": "de"})
    )
    assert "Every mixture of a, d and e" in failure_map(checkpoint)
    assert "any of the other 2 letters" in failure_map(checkpoint)
    assert "Every mixture of b, c and d" in failure_map(checkpoint, letters="bcd")
    assert "Every mixture of a, b and c" in failure_map(checkpoint, string="abc{9}")
    assert "Every mixture of c and e" in failure_map(checkpoint, letters="ce")


def test_refusals_say_why() -> None:
    with pytest.raises(UnsupportedError, match="sees where letters stand"):
        failure_map(fresh(POSITIONED))
    for letters in ("", "abcd", "aab", "xy"):
        with pytest.raises(UsageError, match="up to three different letters"):
            failure_map("walkthrough", letters=letters)
    with pytest.raises(UsageError, match="got length 0"):
        failure_map("attend-cls", length=0)
    with pytest.raises(StringError):
        failure_map("walkthrough", string="xyz")
