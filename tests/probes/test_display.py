"""What a notebook shows of results, arrays, figures and reports: short, light and escaped."""

from __future__ import annotations

import json
import re
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tsc_interp as tsc
from tsc_interp.errors import UsageError
from tsc_interp.output.display import Displayed, prose, table
from tsc_interp.probes.registry import figures
from tsc_interp.report import Report
from tsc_interp.results.base import Finding, LabeledArray, ProbeResult, Table

PLOTLY_JS = 500_000
"""plotly.js has several million characters: what is shorter cannot hold it."""


@pytest.fixture(scope="module")
def report() -> Report:
    return tsc.analyze(
        "generalization-errors", ["aac", "ab{100}"], probes=["trace", "margin", "cone"]
    )


def array() -> LabeledArray:
    return LabeledArray.of(np.arange(30.0).reshape(2, 3, 5), head=range(2), letter="abc", n="vwxyz")


# -- short ---------------------------------------------------------------------------------------


def test_everything_has_a_short_repr(report):
    """A report's was 75,000 characters once."""
    margin = report["margin"]
    shown = [report, *report.models, report.figures, report.figures["margin"]]
    shown += [*report.figures["margin"], margin, margin.scores, *margin.tables()]
    for one in shown:
        assert len(repr(one)) < 400, repr(one)
        assert len(str(one)) < 400
    assert "margin" in repr(report)
    assert repr(array()) == "<LabeledArray: head 2, letter 3, n 5>"
    assert repr(margin).startswith("<MarginResult: 2 failures, ")


def test_html_is_light_and_loads_nothing(report):
    """No script, no picture from elsewhere; the sentences and the numbers are there."""
    for one in (report, report.models[0], report["margin"], report["margin"].scores, array()):
        shown = one._repr_html_()
        assert len(shown) < 40_000
        assert not re.search(r"<script|<iframe|src=|href=", shown)
    assert "goes wrong at n = 66" in report["margin"]._repr_html_()
    assert "<code>ab{n}</code>" in report["margin"]._repr_html_()
    assert report.models[0].card.verdict().text.split(".")[0] in report._repr_html_()


def test_a_figure_is_shown_by_plotly_without_its_script(report, monkeypatch):
    import plotly.io

    monkeypatch.setattr(plotly.io.renderers, "default", "plotly_mimetype")
    figure = report.figures["margin"]["flips"]
    bundle = figure._repr_mimebundle_()
    assert list(bundle) == ["application/vnd.plotly.v1+json"]
    drawing = bundle["application/vnd.plotly.v1+json"]
    assert drawing["layout"]["title"]["text"] == figure.title
    assert len(json.dumps(drawing, default=list)) < PLOTLY_JS
    assert figure.figure.layout.title.text is None, "showing it must not change it"


def test_figures_are_found_by_place_and_by_name(report):
    drawn = report.figures["margin"]
    assert set(report.figures) == {"trace", "margin", "cone"}
    assert "patterns" not in report.figures
    assert [figure.name for figure in drawn] == ["flips", "scores"]
    assert drawn["flips"] is drawn[0]
    assert [figure.name for figure in drawn[1:]] == ["scores"]
    assert report.figures["margin"] is drawn, "drawn once"
    with pytest.raises(UsageError, match="no figure 'flip'; the figures are flips, scores"):
        drawn["flip"]
    with pytest.raises(
        UsageError, match="no probe 'patterns' in this report; it has trace, margin"
    ):
        report.figures["patterns"]
    with pytest.raises(UsageError, match="no probe 'patterns'"):
        report["patterns"]


@given(st.text(max_size=40))
def test_text_from_outside_is_text(text):
    """Nothing in a sentence or a cell becomes markup, save code between backticks."""
    shown = prose(text).replace("<code>", "").replace("</code>", "") + table([text], [[text]])
    assert not set(re.findall(r"<[^>]*>", shown)) - {
        "<table>", "</table>", "<thead>", "</thead>", "<tbody>", "</tbody>", "<tr>", "</tr>",
        "<th>", "</th>", "</td>", "<td style='text-align: left'>",
    }  # fmt: skip


def test_long_tables_are_cut_and_say_so():
    shown = table(["n"], [[n] for n in range(1000)])
    assert shown.count("<tr>") == 14
    assert "988 more rows" in shown


def test_an_object_with_nothing_to_say():
    assert repr(Displayed()) == "<Displayed>"
    assert Displayed()._repr_html_() == "<div><b>Displayed</b> </div>"


# -- labelled axes -------------------------------------------------------------------------------


def test_the_array_is_made_once_and_cannot_be_changed():
    labelled = array()
    assert labelled.array is labelled.array
    assert np.shares_memory(labelled.at(head=1), labelled.array)
    with pytest.raises(ValueError, match="read-only"):
        labelled.array[0] = 1


def test_equality_ignores_the_cache():
    used, fresh = array(), array()
    assert used.array.sum() == 435
    assert used == fresh
    assert fresh.array.sum() == 435
    assert used == fresh
    assert used != LabeledArray.of(np.zeros((2, 3, 5)), head=range(2), letter="abc", n="vwxyz")
    assert used.model_dump() == fresh.model_dump()
    assert set(used.model_dump()) == {"dims", "labels", "flat"}


def test_an_unknown_axis_or_label_is_refused():
    with pytest.raises(UsageError, match="no axis 'heads': the axes are head, letter, n"):
        array().at(heads=0)
    with pytest.raises(UsageError, match="no head 2: there are 0, 1"):
        array().at(head=2)


def test_to_pandas_has_a_row_per_number():
    frame = array().to_pandas()
    assert list(frame.columns) == ["head", "letter", "n", "value"]
    assert len(frame) == 30
    picked = frame[(frame["head"] == "1") & (frame["letter"] == "c") & (frame["n"] == "x")]
    assert picked["value"].tolist() == [15 + 10 + 2]


def test_to_xarray_keeps_names_and_labels():
    labelled = array()
    converted = labelled.to_xarray()
    assert converted.dims == ("head", "letter", "n")
    assert float(converted.sel(head="1", letter="c", n="x")) == 27
    np.testing.assert_array_equal(converted.sel(letter="b").values, labelled.at(letter="b"))


def test_a_result_gives_its_tables_as_frames(report):
    margin = report["margin"]
    first, _, flips, _ = margin.tables()
    frame = margin.to_pandas()
    assert list(frame.columns) == list(first.columns)
    assert len(frame) == len(first.rows)
    by_name = margin.to_pandas("When families of strings flip")
    assert by_name.equals(margin.to_pandas(2))
    assert by_name.set_index("family")["first error"]["ab{n}"] == 66
    assert flips.to_pandas().equals(by_name)
    with pytest.raises(UsageError, match="margin has no table 'flips'; its tables are 0: Margins"):
        margin.to_pandas("flips")
    with pytest.raises(UsageError, match="no table 4"):
        margin.to_pandas(4)


@pytest.mark.parametrize("library", ["pandas", "xarray"])
def test_a_missing_library_is_named(library, monkeypatch):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(UsageError, match=f"needs {library}, .* pip install {library}"):
        getattr(array(), f"to_{library}")()


class _Nothing(ProbeResult):
    probe = "nothing"


def test_a_result_without_tables_or_arrays():
    result = _Nothing(findings=(Finding(severity="good", text="Nothing."),) * 2)
    assert repr(result) == "<_Nothing: 2 good>"
    with pytest.raises(UsageError, match="its tables are none"):
        result.to_pandas()
    with pytest.raises(UsageError, match="no probe 'nothing'"):
        figures(result)


def test_what_verification_says_is_short_and_light():
    """A verdict, a horizon and a certificate: one line, and the sentences the terminal prints."""
    verdict = tsc.verify("generalization-errors", 80, horizon=True)
    certificate = tsc.certify("generalization-errors")
    for one in (verdict, verdict.horizon, certificate):
        assert len(repr(one)) < 200
        assert "ab{66}" in repr(one)
        shown = one._repr_html_()
        assert len(shown) < 20_000
        assert not re.search(r"<script|src=|href=", shown)
    assert "up to length 80" in repr(verdict)
    assert "count vectors" in verdict._repr_html_()
    assert "Horizon: 66" in verdict.horizon._repr_html_()
    assert all(prose(sentence) in certificate._repr_html_() for sentence in certificate.proved)
    right = repr(tsc.verify("walkthrough", 20))
    assert right == "<Verdict: walkthrough, of 5,230,176,600 strings up to length 20 none is wrong>"


def test_a_table_shows_itself():
    shown = Table(title="T", columns=("a", "b"), rows=((1, "<x>"),))
    assert repr(shown) == "<Table: T, 1 rows of a, b>"
    assert "&lt;x&gt;" in shown._repr_html_()


# -- results of the public functions -------------------------------------------------------------


def test_a_horizon_lists_the_first_error_of_each_set_of_letters() -> None:
    shown = tsc.horizon("generalization-errors", limit=100)._repr_html_()
    rows = [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in shown.split("<tr>")]
    assert ["bc", "70", "bc{70}"] in rows
    assert ["ac", "100", "–"] in rows
    assert [row[0] for row in rows if row] == ["a", "b", "c", "ab", "ac", "bc", "abc"]


def test_answers_and_interventions_are_tables() -> None:
    said = tsc.evaluate("generalization-errors", ["baac", "ab{66}"])
    assert isinstance(said, list)
    rows = re.findall(r"<tr><td.*?</tr>", said._repr_html_())
    assert ["wrong" in row for row in rows] == [False, True]
    outcome = tsc.intervene("generalization-errors", ["bc{70}", "baac"], "head0.value[c]=like(b)")
    assert repr(outcome) == "<Outcome: 1 of 2 answers changed>"
    assert "0.0625" in outcome._repr_html_()
