"""What a result declares beside its fields: figures, alternative texts, tables, JSON."""

from __future__ import annotations

import json
from typing import Annotated, ClassVar

import numpy as np
import pytest
from pydantic import BaseModel

from tsc_interp.errors import UsageError
from tsc_interp.results.base import Finding, LabeledArray, ProbeResult, Record
from tsc_interp.results.views import Bars, Heat, Lines, NumberLine, Rows, Scatter, shown

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
