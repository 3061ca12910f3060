"""The failure atlas: every cell a real string, first errors as the horizon finds them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import POSITIONED
from tests.verification_models import planted, random_checkpoint, unfailing
from tsc_interp import horizon
from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import UnsupportedError
from tsc_interp.model.hooked import HookedClassifier, load
from tsc_interp.probes.atlas import figures_map
from tsc_interp.probes.atlas import maps as cells
from tsc_interp.probes.atlas import result as maps
from tsc_interp.probes.atlas import run as atlas
from tsc_interp.probes.atlas.figures import figures
from tsc_interp.task import Majority, Parity


def hooked(checkpoint: object) -> HookedClassifier:
    return HookedClassifier.from_checkpoint(checkpoint)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["generalization-errors", "attend-cls"])
def test_maps_show_what_the_model_says(name: str) -> None:
    """Triangle and plane against the hooked model, cell by cell, wherever it is not close."""
    model = load(name)
    result = atlas.run(model, [])
    assert result.triangle is not None
    assert result.triangle_wrong is not None
    assert result.plane is not None
    assert result.plane_wrong is not None
    cells = []
    for index, length in enumerate(result.triangle.labels["length"]):
        counts, inside = maps.triangle_counts(None if length == "any" else int(length))
        assert np.isnan(result.triangle.array[index][~inside]).all()
        cells.append((counts[inside], result.triangle.array[index][inside],
                      result.triangle_wrong.array[index][inside]))  # fmt: skip
    plane = maps.plane_counts(result.plane_reach).reshape(-1, 3)
    cells.append((plane, result.plane.array.ravel(), result.plane_wrong.array.ravel()))
    for counts, logits, wrong in cells:
        with torch.no_grad():
            expected = model(model.counts(counts)).double().numpy()
        np.testing.assert_allclose(logits, expected, atol=2e-3)
        clear = np.abs(expected) > 1e-2
        # All three letters are there, so every string is positive.
        assert ((expected <= 0) == wrong)[clear].all()


def test_cells_have_the_ratios_of_their_place() -> None:
    counts, inside = maps.triangle_counts(1000)
    assert inside[0].all()
    assert inside[-1].sum() == 1
    np.testing.assert_array_equal(counts[0, 0], [1000, 1, 1])
    np.testing.assert_array_equal(counts[0, -1], [1, 1000, 1])
    np.testing.assert_array_equal(counts[-1, maps.TRIANGLE_COLUMNS // 2], [1, 1, 1000])
    edge = maps.edge_counts(1000)
    np.testing.assert_array_equal(edge[[0, -1]], [[1000, 1], [1, 1000]])
    np.testing.assert_array_equal(edge[maps.EDGE_POINTS // 2], [500, 500])
    plane = maps.plane_counts(3)
    np.testing.assert_array_equal(plane[0, -1], [10_000, 10_000_000, 10])
    np.testing.assert_array_equal(plane[maps.PLANE // 2, maps.PLANE // 2], [10, 10, 10])
    pairs = maps.pair_counts(2)
    np.testing.assert_array_equal(pairs[[0, -1]], [[1000, 10], [10, 1000]])


def test_first_errors_are_the_horizons() -> None:
    checkpoint = planted(12, c_score=-1.0)
    result = atlas.run(hooked(checkpoint), ["ab{3}", "b"])
    known = horizon(checkpoint)
    assert result.horizon == known.length == 12
    assert [one.first_error for one in result.sets] == [
        support.shortest and support.shortest.string for support in known.by_letters
    ]
    by_letters = {one.letters: one for one in result.sets}
    assert by_letters["ab"].kind == "false negative"
    assert by_letters["bc"].always_right
    assert {one.string: (one.wrong, one.given) for one in result.marked} == {
        "ab{12}": (True, False), "ac{32}": (True, False), "ab{12}c": (True, False),
        "abbb": (False, True), "b": (False, True),
    }  # fmt: skip
    first, second, third = result.findings
    assert "`ab{12}`" in first.text
    assert first.severity == "failure"
    assert "No false positive of any length" in second.text
    assert second.severity == "good"
    assert "`ac{32}`" in third.text


def test_a_model_that_never_fails() -> None:
    result = atlas.run(hooked(unfailing()), [])
    assert result.infinite
    assert [finding.severity for finding in result.findings] == ["good", "good"]
    assert all(one.always_right for one in result.sets)
    assert len(figures(result)) == 4


def test_other_alphabets_and_tasks() -> None:
    two = atlas.run(hooked(random_checkpoint(ClassifierConfig(n_letters=2), 1)), ["ab"])
    assert two.triangle is None
    assert two.not_applicable
    assert [figure.name for figure in figures(two)] == ["edges", "first-errors"]
    for task in (Majority(letter="b"), Parity(letter="a")):
        model = hooked(random_checkpoint(ClassifierConfig(task=task), 1))
        result = atlas.run(model, [])
        assert result.triangle_wrong is not None
        counts, inside = maps.triangle_counts(None)
        with torch.no_grad():
            answers = model(model.counts(counts[inside])).numpy()
        clear = np.abs(answers) > 1e-2
        wrong = (answers > 0) != task.labels(counts[inside])
        np.testing.assert_array_equal(
            wrong[clear], result.triangle_wrong.array[0][inside][clear] > 0
        )
        assert len(figures(result)) == 4


def test_slices_only_where_length_matters() -> None:
    plain = atlas.run(load("walkthrough"), [])
    assert not plain.length_matters
    assert plain.triangle is not None
    assert plain.triangle.labels["length"] == ("any",)
    drawn = {figure.name: figure.figure for figure in figures(plain)}
    assert not drawn["triangle"].layout.sliders
    sliced = atlas.run(load("attend-cls"), [])
    assert sliced.triangle is not None
    assert sliced.triangle.labels["length"] == tuple(map(str, cells.SLICES))
    slider = {figure.name: figure.figure for figure in figures(sliced)}["triangle"].layout.sliders[
        0
    ]
    triangle = {figure.name: figure.figure for figure in figures(sliced)}["triangle"]
    assert [step.label for step in slider.steps] == [f"{length:,}" for length in cells.SLICES]
    for step in slider.steps:
        assert len(step.args[0]["visible"]) == len(triangle.data)


def test_hovering_shows_a_string_and_its_logit() -> None:
    drawn = {figure.name: figure.figure for figure in figures(atlas.run(load("walkthrough"), []))}
    cells = drawn["triangle"].data[0]
    assert cells.customdata[0][0] == "a{1000000000}b{10}c{10} (wrong)"
    assert "%{customdata}: logit %{z" in cells.hovertemplate
    words = [cell for row in drawn["far-ratios"].data[0].customdata for cell in row]
    assert any(cell.endswith(" (wrong)") for cell in words)


def test_refusals() -> None:
    with pytest.raises(UnsupportedError, match="positions"):
        atlas.run(HookedClassifier(POSITIONED), [])
    many = HookedClassifier(ClassifierConfig(n_letters=6))
    with pytest.raises(UnsupportedError, match="up to 5 letters"):
        atlas.run(many, [])
    with pytest.raises(UnsupportedError, match="needs a tsc-interp classifier"):
        atlas.run(torch.nn.Linear(1, 1), [])


# -- the map ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["generalization-errors", "attend-cls"])
def test_edges_and_corners_show_what_the_model_says(name: str) -> None:
    """Strings of two letters and of one, against the hooked model and the task's own labels."""
    model = load(name)
    result = atlas.run(model, [])
    assert result.edges is not None
    assert result.edges_wrong is not None
    assert result.corners is not None
    assert result.corners_wrong is not None
    for index, length in enumerate(result.edges.labels["length"]):
        known = None if length == "any" else int(length)
        groups = [(edge, maps.edge_counts(known)) for edge in result.edges.labels["edge"]]
        groups += [(letter, np.array([[known or 1]])) for letter in result.letters]
        said = [*result.edges.array[index], *result.corners.array[index][:, None]]
        wrong = [*result.edges_wrong.array[index], *result.corners_wrong.array[index][:, None]]
        for (letters, counts), logits, bad in zip(groups, said, wrong, strict=True):
            full = np.zeros((len(counts), 3), dtype=np.int64)
            full[:, ["abc".index(letter) for letter in letters]] = counts
            with torch.no_grad():
                expected = model(model.counts(full)).double().numpy()
            np.testing.assert_allclose(logits, expected, atol=2e-3)
            clear = np.abs(expected) > 1e-2
            labels = model.config.task.labels(full)
            np.testing.assert_array_equal((expected > 0)[clear] != labels[clear], bad[clear] > 0)


@given(st.lists(st.floats(0.05, 1), min_size=3, max_size=3), st.sampled_from([1.0, 2.0, 4.0]))
def test_a_string_stands_where_its_cell_is(shares: list[float], lens: float) -> None:
    """The lens and its inverse: the string of a place is drawn at that place."""
    place = np.array(shares) / sum(shares)
    counts = maps.strings_at(place, 10**9, lens)
    np.testing.assert_allclose(figures_map.place_of(counts, lens), place @ figures_map.CORNERS,
                               atol=1e-4)  # fmt: skip


@pytest.mark.parametrize(
    ("counts", "outside"), [([5, 7, 9], 0.0), ([5, 7, 0], 0.05), ([0, 0, 9], 0.13)]
)
def test_bands_and_discs_stand_outside_the_triangle(counts: list[int], outside: float) -> None:
    """Strings of fewer letters are as far outside as the drawing says: signed distance to edges."""
    at = figures_map.place_of(counts, 4.0)
    corners = figures_map.CORNERS
    distances = []
    for start, end in ((0, 1), (1, 2), (2, 0)):
        along = corners[end] - corners[start]
        distances.append(float(np.cross([*along, 0], [*(at - corners[start]), 0])[2]))
    if outside == 0.0:
        assert min(distances) > 0
    elif outside == 0.05:
        assert min(distances) == pytest.approx(-0.05)
    else:
        nearest = np.linalg.norm(corners - at, axis=1).min()
        assert nearest == pytest.approx(outside)
        assert min(distances) < 0


def test_a_map_from_before_the_lens_is_still_drawn() -> None:
    """Reports saved by version 0.1 have no lens, no edges and no corners."""
    result = atlas.run(load("walkthrough"), ["ab"])
    written = result.to_dict()
    for name in ("lens", "edges", "edges_wrong", "corners", "corners_wrong", "task", "limit"):
        del written[name]
    for name in ("triangle", "triangle_wrong"):
        written[name]["labels"]["length"] = ["1000"]
    old = maps.AtlasResult.from_dict(written)
    assert old.lens == 1
    drawn = figures(old)[-1]
    assert drawn.name == "triangle"
    assert drawn.figure.data[0].customdata[0][0] == "a{1000}bc (wrong)"
