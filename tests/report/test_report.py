"""Reports: one result in many forms, with identical numbers, written completely or not at all."""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import io
import json
import os
import re
from dataclasses import replace
from pathlib import Path

import plotly.io
import pytest
from plotly.offline import get_plotlyjs

import tsc_interp as tsc
from tsc_interp.cli.app import main
from tsc_interp.errors import TscError, UnsupportedError, UsageError
from tsc_interp.model.hooked import HookedClassifier
from tsc_interp.output.console import SafeConsole
from tsc_interp.output.numbers import format_cell
from tsc_interp.report import Report, files
from tsc_interp.report.saved import FILES
from tsc_interp.report.scoring import score_test_set, sensible_strings
from tsc_interp.report.terminal import print_report


@pytest.fixture(scope="module")
def report() -> Report:
    return tsc.analyze("generalization-errors", ["aac", "ab{100}", "b{2}c{152}"], probes=["trace"])


@pytest.fixture(scope="module")
def saved(report, tmp_path_factory):
    directory = tmp_path_factory.mktemp("reports") / "saved"
    report.save(directory)
    return directory


# -- what is looked at -----------------------------------------------------------------------


def test_default_strings_are_first_errors_examples_and_the_worst_of_the_test_set():
    model = tsc.load("generalization-errors")
    score = score_test_set(model)
    assert (score.strings, score.false_positives, score.false_negatives) == (9984, 6, 691)
    report = tsc.analyze(model, probes=["trace"])
    assert report.models[0].strings == (
        "ab{66}",
        "bc{70}",
        "aac",
        "baac",
        "ab{100}",
        "b{2}c{152}",
        "ab{100}c{55}",
        *score.worst,
    )
    for string, right in zip(score.worst, report["trace"].right[-2:], strict=True):
        assert not right, string


def test_sensible_strings_fit_any_task():
    config = tsc.ClassifierConfig(n_letters=5, task={"kind": "contains_all", "letters": "bde"})
    strings = sensible_strings(config)
    labels = config.task.labels(config.alphabet.count_matrix(strings))
    assert labels.any()
    assert not labels.all()
    lonely = tsc.ClassifierConfig(n_letters=1, task={"kind": "at_least", "letter": "a"})
    assert sensible_strings(lonely)


def test_the_same_string_twice_is_one_string():
    report = tsc.analyze("walkthrough", ["aab", "a{2}b", "ab"], probes=["trace"])
    assert report.models[0].strings == ("aab", "ab")


# -- many forms, the same numbers ------------------------------------------------------------


def _expected_cells(report: Report) -> list[list[str]]:
    data = json.loads(report.to_json())
    again = Report.from_dict(data)
    return [
        [format_cell(cell) for cell in row]
        for section in again.models[0].sections.values()
        for table in section.result.tables()
        for row in table.rows
    ]


def test_html_shows_the_numbers_of_the_json(report, saved):
    page = (saved / "index.html").read_text()
    rows = [
        [html.unescape(cell) for cell in re.findall(r"<td[^>]*>(.*?)</td>", row)]
        for row in re.findall(r"<tr>(<td.*?)</tr>", page, re.S)
    ]
    assert rows == _expected_cells(report)


def test_markdown_shows_the_numbers_of_the_json(report, saved):
    lines = (saved / "report.md").read_text().splitlines()
    rows = [line.strip("| ").split(" | ") for line in lines if line.startswith("| ")]
    columns = {
        tuple(t.columns) for s in report.models[0].sections.values() for t in s.result.tables()
    }
    body = [row for row in rows if tuple(row) not in columns and not set("".join(row)) <= set("-:")]
    assert body == _expected_cells(report)


def test_terminal_shows_the_numbers_of_the_json(report):
    console = SafeConsole(file=io.StringIO())
    print_report(report, console, tables=True)
    shown = [re.split(" {2,}", line.strip()) for line in console.file.getvalue().splitlines()]
    expected = _expected_cells(report)
    assert [row for row in shown if row in expected] == expected


def test_every_form_tells_every_finding(report, saved):
    console = SafeConsole(file=io.StringIO())
    print_report(report, console, tables=True)
    page = html.unescape(re.sub(r"</?code>", "", (saved / "index.html").read_text()))
    notes = (saved / "report.md").read_text()
    for finding in report.findings:
        assert finding.text.replace("`", "") in console.file.getvalue()
        assert finding.text.replace("`", "") in page
        assert finding.text in notes


def test_json_round_trip(report):
    again = Report.from_json(report.to_json())
    assert again.to_json() == report.to_json()
    # Only the failure map needs the weights, which JSON does not carry.
    bare = Report(tuple(replace(model, checkpoint=None) for model in report.models))
    assert again.to_html() == bare.to_html()
    assert 'class="tsc-map"' in report.to_html()
    assert "The failure map needs the weights" in again.to_html()
    assert json.loads(report.to_json())["schema"] == "tsc-interp/report/2"
    for other in ("something/1", "tsc-interp/report/1"):
        with pytest.raises(TscError, match="not a report"):
            Report.from_dict({"schema": other})


def test_failures_come_before_everything_but_the_verdict(report):
    severities = [finding.severity for finding in report.findings][1:]
    order = ["failure", "warning", "note", "good"]
    assert severities == sorted(severities, key=order.index)
    assert "697 of the 9,984" in report.findings[0].text


def test_highlights_hold_the_worst_of_each_probe():
    report = tsc.analyze("generalization-errors", probes=["trace", "margin", "init-norm"])
    verdict, *rest = report.models[0].highlights()
    assert "up to 66 letters is proved right" in verdict[1].text
    assert [probe for probe, _ in rest] == ["margin"]  # the verdict says what trace says
    assert all(finding.severity == "failure" for _, finding in rest)
    assert "one `a` outweighs one `b` e^3.7378 = 42.0 times" in rest[0][1].text
    console = SafeConsole(file=io.StringIO())
    print_report(report, console)
    shown = console.file.getvalue()
    assert all(finding.text.replace("`", "") in shown for _, finding in rest)
    more = len(report.models[0].findings()) - 2
    assert f"{more} more findings in the report" in shown


# -- the page --------------------------------------------------------------------------------


def test_page_is_one_file_under_four_megabytes_that_needs_no_network(saved):
    page = (saved / "index.html").read_text()
    assert len(page.encode()) < 4_000_000
    (packed,) = re.findall(r'<script type="application/gzip" id="plotly">(.*?)</script>', page)
    assert gzip.decompress(base64.b64decode(packed)).decode() == get_plotlyjs()
    assert not re.findall(r'(?:src|href)="(?!#|data:)[^"]*"', page)


def test_plotly_can_stand_beside_the_page_or_come_from_the_net(report, tmp_path):
    report.save(tmp_path / "beside", plotlyjs="directory", formats=["html"])
    assert {file.name for file in (tmp_path / "beside").iterdir()} == {
        "index.html",
        "plotly.min.js",
        files.MARK,
    }
    assert (tmp_path / "beside" / "index.html").stat().st_size < 400_000
    (script,) = re.findall(r'<script src="https:[^>]*>', report.to_html(plotlyjs="cdn"))
    # plotly's own pages name the same file and the hash of the copy that plotly brings along.
    theirs = plotly.io.to_html({}, include_plotlyjs="cdn")
    assert re.search(r'src="([^"]*)"', script)[1] == re.search(r'src="(https:[^"]*)"', theirs)[1]
    bundled = (Path(plotly.__file__).parent / "package_data" / "plotly.min.js").read_bytes()
    for page in (script, theirs):
        kind, digest = re.search(r'integrity="(sha\d+)-([^"]*)"', page).groups()
        assert base64.b64decode(digest) == hashlib.new(kind, bundled).digest()
    assert 'crossorigin="anonymous"' in script
    with pytest.raises(UsageError, match="plotlyjs is one of"):
        report.to_html(plotlyjs="carrier pigeon")


def test_a_string_cannot_smuggle_markup_into_the_page():
    """Model names come from file names, which may hold anything."""
    card = tsc.analyze("walkthrough", ["ab"], probes=["trace"]).models[0]
    evil = "</script><script>alert(1)</script>"
    report = Report((type(card)(_renamed(card.card, evil), card.strings, card.results),))
    assert evil not in report.to_html(plotlyjs="cdn")


def _renamed(card, name):
    return type(card)(**{**vars(card), "name": name})


# -- two models ------------------------------------------------------------------------------


def test_compare_of_different_alphabets_uses_strings_both_can_read():
    other = HookedClassifier(tsc.ClassifierConfig(n_letters=2))
    report = tsc.analyze("walkthrough", probes=["trace"], compare=other)
    assert set("".join(report.models[0].strings)) <= set("ab{}0123456789")
    with pytest.raises(TscError, match="unexpected 'c'"):
        tsc.analyze("walkthrough", ["abc"], probes=["trace"], compare=other)


# -- on disk ---------------------------------------------------------------------------------


def test_a_report_may_be_replaced_and_leaves_nothing_behind(report, tmp_path):
    place = tmp_path / "r"
    report.save(place, plotlyjs="directory")
    report.save(place, formats=["json"])
    assert {file.name for file in place.iterdir()} == {"report.json", files.MARK}
    report.save(place)
    assert [file.name for file in tmp_path.iterdir()] == ["r"]


def test_other_peoples_files_are_refused_and_kept(report, tmp_path):
    place = tmp_path / "thesis"
    place.mkdir()
    (place / "chapter.tex").write_text("precious")
    with pytest.raises(UsageError, match="holds other files"):
        report.save(place)
    assert [file.name for file in place.iterdir()] == ["chapter.tex"]
    report.save(place, formats=["json"], force=True)
    assert {file.name for file in place.iterdir()} == {"chapter.tex", "report.json", files.MARK}
    (place / "chapter.tex").unlink()
    (place / "report.json").write_text('{"schema": "mine"}')
    with pytest.raises(UsageError, match="holds other files"):
        report.save(place)
    with pytest.raises(UsageError, match="is a file"):
        report.save(place / "report.json")


def test_a_full_disk_leaves_the_old_report_alone(report, tmp_path, monkeypatch):
    place = tmp_path / "r"
    report.save(place, formats=["json"])
    before = (place / "report.json").read_bytes()

    def full(*args, **kwargs):
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr("tsc_interp.report.markdown.render_markdown", full)
    with pytest.raises(TscError, match="No space left on device; nothing was changed"):
        report.save(place)
    assert (place / "report.json").read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["r"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
def test_a_really_full_device_is_told_plainly(report, tmp_path, monkeypatch):
    target = tmp_path / "r"
    write = Report._write
    monkeypatch.setattr(Report, "_write", lambda report, place, *options: (
        (place / "report.json").symlink_to("/dev/full"), write(report, place, *options)
    ))  # fmt: skip
    with pytest.raises(TscError, match="No space left on device"):
        report.save(target, formats=["json"])
    assert not target.exists()


# -- the command -----------------------------------------------------------------------------


def test_command_prints_findings_and_leaves_a_report(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["analyze", "-p", "trace", "aac", "baac"]) == 0
    out, err = capsys.readouterr()
    assert "All 2 strings traced are answered correctly" in " ".join(out.split())
    assert "tsc-report/walkthrough/index.html" in err
    assert {f.name for f in (tmp_path / "tsc-report" / "walkthrough").iterdir()} == {
        *FILES.values(),
        files.MARK,
    }


def test_command_json_is_one_document_and_no_files(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["analyze", "-p", "trace", "--json", "-c", "walkthrough", "aac"]) == 0
    out = capsys.readouterr().out
    report = Report.from_json(out)
    assert float(report["trace"].logits.array[0]) == pytest.approx(-8.2945, abs=5e-5)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--probe", "trase"], 2, "did you mean 'trace'"),
        (["abx"], 2, "unexpected 'x'"),
        (["--format", "pdf"], 2, "formats are any of html, md, json; got pdf"),
        (["--checkpoint", "walkthru"], 1, "did you mean 'walkthrough'"),
        (["--compare", "nowhere"], 1, "no checkpoint 'nowhere'"),
        (["--epoch", "3"], 2, "run directory only"),
    ],
)
def test_command_refuses_bad_input_and_writes_nothing(
    arguments, code, message, tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    assert main(["analyze", *arguments]) == code
    error = capsys.readouterr().err
    assert message in " ".join(error.split())
    assert "Traceback" not in error
    assert not list(tmp_path.iterdir())


def test_command_refuses_a_full_directory_before_it_works(tmp_path, capsys):
    (tmp_path / "mine.txt").write_text("mine")
    assert main(["analyze", "--out", str(tmp_path)]) == 2
    assert "holds other files" in capsys.readouterr().err


def test_a_probe_that_cannot_be_asked_is_an_error_if_named_and_a_remark_if_not(monkeypatch):
    def refuse(inputs):
        raise UnsupportedError("this model is too mysterious")

    probes = (replace(tsc.probes.registry.find_probe("trace"), function=refuse),)
    monkeypatch.setattr("tsc_interp.report.string_subject.PROBES", probes)
    monkeypatch.setattr("tsc_interp.probes.registry.PROBES", probes)
    with pytest.raises(UnsupportedError, match="probe trace: this model is too mysterious"):
        tsc.analyze("walkthrough", ["ab"], probes=["trace"])
    report = tsc.analyze("walkthrough", ["ab"])
    assert report.models[0].not_run == {"trace": "this model is too mysterious"}
    assert "too mysterious" in report.to_html(plotlyjs="cdn")
    assert "too mysterious" in report.to_markdown()


def test_small_models_are_examined_on_one_thread_and_threads_come_back(monkeypatch):
    """With two, on a machine with other work, a report took nine times as long."""
    import torch

    from tsc_interp.model.threads import one_thread

    before, seen = torch.get_num_threads(), []
    monkeypatch.setattr(torch, "set_num_threads", seen.append)
    tsc.analyze("walkthrough", ["ab"], probes="specialization")
    assert (seen[0], seen[-1]) == (1, before)
    seen.clear()
    with pytest.raises(ZeroDivisionError), one_thread():
        raise ZeroDivisionError
    assert seen == [1, before]
