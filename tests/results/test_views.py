"""What a result declares beside its fields: figures, alternative texts, tables, JSON."""

from __future__ import annotations

import json
from typing import Annotated, ClassVar

import numpy as np
import pytest
from pydantic import BaseModel

from tsc_interp.errors import UsageError
from tsc_interp.plots.heat import Panel, heat, panels
from tsc_interp.results.base import Finding, LabeledArray, ProbeResult, Record, Shown
from tsc_interp.results.views import (
    Bars,
    Drawing,
    Each,
    Heat,
    Lines,
    NumberLine,
    Rows,
    Scatter,
    Stack,
    shown,
)

SHARES = np.array([[[0.5, 0.25, 0.25], [0.1, 0.2, 0.7]]])


class Word(Record):
    string: str
    logit: float


class Sample(ProbeResult):
    probe: ClassVar[str] = "sample"
    unit: str = "letter"

    weights: Annotated[LabeledArray, Heat("What each {result.unit} gets", "Shares.", share=True)]
    decay: Annotated[LabeledArray | None, Lines("How it falls", "By length.")] = None
    words: Annotated[tuple[Word, ...], Rows("Words", headings={"logit": "its logit"})] = ()

    @shown(Bars("The most", "Largest shares."))
    def most(self) -> LabeledArray:
        """The largest share of each head."""
        return LabeledArray.of(self.weights.array.max(-1), layer=[0], head=range(2))

    def conclude(self):
        yield Finding.of("Head 0 reads `a`.", {"share": 0.5}, head=0, string=("aab", "ab"))


def sample(**fields) -> Sample:
    weights = LabeledArray.of(SHARES, layer=[0], head=range(2), letter="abc")
    return Sample(weights=weights, **fields).concluded()


def test_a_field_that_is_there_is_drawn_with_its_numbers_in_words():
    [weights, most] = sample().figures
    assert (weights.name, weights.title) == ("weights", "What each letter gets")
    assert weights.caption == "Shares."
    assert weights.figure.data[0].z.tolist() == SHARES[0].tolist()
    assert weights.alt == ("What each letter gets. The largest: head 0, a: 0.5; head 1, c: 0.7.")
    assert most.alt == "The most. head 0: 0.5; head 1: 0.7."


def test_lines_say_where_they_begin_and_end():
    decay = LabeledArray.of([[1, 0.5], [0.25, 0.125]], head=range(2), length=[1, 10])
    figure = sample(decay=decay).figures["decay"]
    assert figure.figure.data[1].y.tolist() == [0.25, 0.125]
    assert figure.alt.endswith("head 0: 1 at 1, 0.5 at 10; head 1: 0.25 at 1, 0.125 at 10.")


def test_tables_leave_out_axes_with_one_label_and_records_have_headings():
    weights, words, most = sample(words=(Word(string="ab", logit=-2),)).tables()
    assert weights.columns == ("head", "a", "b", "c")
    assert weights.rows == ((0, 0.5, 0.25, 0.25), (1, 0.1, 0.2, 0.7))
    assert (words.columns, words.rows) == (("its logit",), ((-2.0,),))
    assert most.rows == (("0", 0.5), ("1", 0.7))


def test_json_and_back_with_what_findings_are_about():
    result = sample()
    again = Sample.from_dict(json.loads(json.dumps(result.to_dict())))
    assert again == result
    [finding] = again.findings
    assert finding.concerns(string="ab")
    assert finding.concerns(letter="z", head=0)
    assert not finding.concerns(string="a")
    assert finding.about["string"] == ("aab", "ab")


def test_an_axis_of_figures_and_a_plane_and_a_line_of_points():
    class Drawn(ProbeResult):
        probe: ClassVar[str] = "drawn"
        by_string: Annotated[LabeledArray, Heat("Of", per=("string",), form=".1f")]
        plane: Annotated[LabeledArray, Scatter("Where")]
        line: Annotated[LabeledArray, NumberLine("On a line", x="value")]

    points = np.array([[0.0, 1.0], [2.0, 3.0]])
    cells = np.arange(8.0).reshape(2, 2, 2)
    drawn = Drawn(
        by_string=LabeledArray.of(cells, string=["aa", "b"], head=range(2), letter="ab"),
        plane=LabeledArray.of(points, letter="ab", component=range(2)),
        line=LabeledArray.of(points, head=range(2), letter="ab"),
    ).figures
    assert [figure.name for figure in drawn] == ["by-string", "by-string-1", "plane", "line"]
    assert drawn[1].title == "Of: b"
    assert drawn[1].figure.data[0].z.tolist() == cells[1].tolist()
    assert "a (0.0000, 1.0000), b (2.0000, 3.0000)" in drawn[2].alt
    assert drawn[3].alt == "On a line. head 0: a 0, b 1; head 1: a 2, b 3."


def test_dir_shows_what_is_of_use():
    names = {name for name in dir(sample()) if not name.startswith("_")}
    assert {"figures", "tables", "to_pandas", "weights", "most", "findings"} <= names
    assert not names & {name for name in dir(BaseModel) if not name.startswith("_")}


def test_a_figure_that_is_not_there_is_refused_with_those_that_are():
    with pytest.raises(UsageError, match="no figure 'x'; the figures are weights, most"):
        sample().figures["x"]


class Part(Shown):
    name: str
    cells: Annotated[LabeledArray, Heat("Cells of {result.name}", most=2, missing="=")]

    @shown(Drawing("By hand, of {result.name}", "Look."))
    def drawing(self):
        figure = self.cells.array
        return figure, f"{figure.size} numbers.", "Some are missing."


class Whole(ProbeResult):
    probe: ClassVar[str] = "whole"
    parts: Annotated[tuple[Part, ...], Each()]


def test_each_record_is_shown_by_its_own_views():
    cells = LabeledArray.of([[1.0, np.nan], [3.0, 0.0], [-2.0, 0.5]], row="xyz", column="pq")
    whole = Whole(parts=(Part(name="one", cells=cells), Part(name="two", cells=cells)))
    assert [figure.name for figure in whole.figures] == ["cells", "drawing", "cells-2", "drawing-2"]
    first, second, third, _ = whole.figures
    assert third.title == "Cells of two"
    assert first.figure.data[0].z.tolist() == [[3, 0], [-2, 0.5]]
    assert first.caption == "Of 3 rows, the 2 with the largest numbers."
    assert (second.title, second.caption) == ("By hand, of one", "Look. Some are missing.")
    assert second.alt == "6 numbers."
    assert [table.title for table in whole.tables()] == ["Cells of one", "Cells of two"]


def test_a_missing_number_is_marked():
    cells = LabeledArray.of([[1.0, np.nan]], row="x", column="pq")
    [figure, _] = Part(name="one", cells=cells).drawn()
    assert list(figure.figure.data[0].text[0]) == ["1", "="]


def test_panels_are_of_the_entries_with_the_largest_numbers():
    class Many(ProbeResult):
        probe: ClassVar[str] = "many"
        maps: Annotated[LabeledArray, Heat("Maps", panels=("layer", "head"))]

    numbers = np.arange(20.0)[:, None, None, None] * np.ones((20, 1, 2, 2))
    maps = LabeledArray.of(numbers, layer=range(20), head=[0], to="ab", **{"from": "ab"})
    [figure] = Many(maps=maps).figures
    assert len(figure.figure.data) == 12
    assert figure.caption == "Of 20 panels, the 12 with the largest numbers."
    assert figure.alt.startswith("Maps. The largest of each: layer 8, to a, from a: 8;")


def test_a_stack_adds_up():
    class Sums(ProbeResult):
        probe: ClassVar[str] = "sums"
        sums: Annotated[LabeledArray, Stack("Sums", form="+.1f")]

    sums = LabeledArray.of([[1, 2, -4, 0, 0, 0, 0.5, 0.5]], string=["aab"], part=range(8))
    [figure] = Sums(sums=sums).figures
    *bars, total = figure.figure.data
    assert sum(bar.x[0] for bar in bars) == total.x[0] == 0
    assert bars[-1].name == "3 others"
    assert figure.alt.startswith("Sums. aab +0.0 = ")


def test_cells_say_no_more_than_is_true_and_names_stand_in_steps_people_count_in() -> None:
    figure = heat([[0.99996, 0.0, 1.0]], ["head 0"], list("abc"), show=".2%")
    assert list(figure.data[0].text[0]) == [">99.99%", "0.00%", "100.00%"]
    names = [str(place) for place in range(88)]
    many = panels([Panel("head 0", np.zeros((88, 88)))], names, names, x="", y="", colours={})
    assert list(many.layout.xaxis.ticktext) == ["0", "20", "40", "60", "80"]
