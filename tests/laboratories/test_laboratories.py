"""What every laboratory owes its caller, checked over the whole registry, quickly."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import torch

import tsc_interp as tsc
from tests.laboratories.quick import EVERY, small, smaller
from tests.probes.test_contract import check_figures
from tsc_interp.cli import main
from tsc_interp.errors import ConfigError, UsageError
from tsc_interp.laboratories.base import LabOptions, LabResult
from tsc_interp.laboratories.registry import LABORATORIES, find_laboratory
from tsc_interp.report.laboratory import LabReport

ROOT = Path(__file__).parents[2]


def written(result: LabResult) -> str:
    return json.dumps(result.to_dict(), allow_nan=False)


@EVERY
def test_contract(laboratory):
    """Deterministic, JSON round trip, findings with numbers, figures with words."""
    random_state = torch.get_rng_state()
    told: list[str] = []
    result = small(laboratory.name)
    again = laboratory.run(quick=True, progress=told.append, **smaller(laboratory.name))
    assert written(again) == written(result)
    assert told, "progress is shown"
    assert torch.equal(random_state, torch.get_rng_state())

    assert isinstance(result, laboratory.result_type)
    assert result.probe == laboratory.name
    assert result.options == laboratory.options_type(quick=True, **smaller(laboratory.name))
    read = laboratory.result_type.from_dict(json.loads(json.dumps(result.to_dict())))
    assert read.to_dict() == result.to_dict()
    assert read.concluded().findings == result.findings

    assert result.findings
    for finding in result.findings:
        assert re.search(r"\d", finding.text), finding.text
        assert finding.numbers, finding.text
        assert finding.text.rstrip().endswith((".", ")", "?")), finding.text
        assert finding.text.count("`") % 2 == 0, finding.text
    assert result.tables()
    assert all(table.rows for table in result.tables())
    check_figures(laboratory.figures(read), laboratory.name)


@EVERY
def test_a_page_a_text_and_the_data(laboratory, tmp_path):
    report = LabReport(small(laboratory.name))
    page = report.save(tmp_path / "out", plotlyjs="cdn").read_text(encoding="utf-8")
    assert page.count('class="plot"') == len(report.figures)
    assert f"tsc-interp lab {laboratory.name} --quick" in page
    assert f"tsc.lab({laboratory.name!r}, quick=True".replace("'", "&#39;") in page
    text = (tmp_path / "out" / "report.md").read_text(encoding="utf-8")
    assert all(f"index.html#{report.laboratory.name}-{one.name}" in text for one in report.figures)
    data = (tmp_path / "out" / "report.json").read_text(encoding="utf-8")
    assert LabReport.from_json(data).to_json() == report.to_json()
    assert report.to_markdown() == LabReport.from_json(data).to_markdown()


def test_every_laboratory_has_words_and_a_folder():
    folder = ROOT / "tsc_interp" / "laboratories"
    helpers = {"__init__", "base", "registry", "every_string", "trained"}
    found = {path.stem for path in folder.glob("*.py")} - helpers
    assert found == {one.name for one in LABORATORIES}
    for one in LABORATORIES:
        assert one.question.endswith("?")
        assert one.title
        assert one.source
        assert issubclass(one.options_type, LabOptions)
        for name, field in one.options_type.model_fields.items():
            assert field.description, (one.name, name)
        assert (ROOT / "docs" / "pages" / "laboratories" / f"{one.name}.md").is_file()


def test_the_command_lists_them_and_runs_one(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["lab", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["laboratories"]
    assert [row["name"] for row in listed] == [one.name for one in LABORATORIES]
    assert main(["lab"]) == 0
    assert all(one.name in capsys.readouterr().out for one in LABORATORIES[:1])

    assert main(["lab", "attention", "--quick", "--scales", "1,4", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert LabReport.from_dict(printed).result.options.scales == (1, 4)
    assert not any(tmp_path.iterdir()), "--json writes to disk only if told where"
    assert main(["lab", "attention", "--quick", "--draws", "100"]) == 0
    assert (tmp_path / "tsc-report" / "lab-attention" / "index.html").is_file()
    assert "swings between v_a and v_b" in capsys.readouterr().out


def test_bad_options_are_refused_before_anything_is_done(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for words, said in (
        (["atention"], "did you mean 'attention'"),
        (["attention", "--draws", "3"], "draws = 3"),
        (["attention", "--draws", "many"], "expected a whole number"),
        (["attention", "--scales", "1,x"], "scales.1 = 'x'"),
        (["attention", "--depth", "2"], "--depth"),
    ):
        assert main(["lab", *words]) == 2
        assert said in capsys.readouterr().err
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    assert main(["lab", "attention", "--quick", "--out", "mine"]) == 2
    assert [path.name for path in tmp_path.rglob("*")] == ["mine", "notes.txt"]
    with pytest.raises(ConfigError, match="unknown option 'depth'"):
        tsc.lab("attention", depth=2)
    with pytest.raises(UsageError, match="the laboratories are"):
        tsc.lab("nothing like it")


def test_options_know_what_differs_from_the_defaults():
    options = find_laboratory("attention").options_type
    assert options().asked() == {}
    assert options(quick=True).asked() == {}
    assert options(quick=True, draws="500", scales="1,2.5").asked() == {
        "draws": 500,
        "scales": (1.0, 2.5),
    }
