"""A sweep's page and lists: numbers against brute force on the rows."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import numpy as np
import pytest

import tsc_interp as tsc
from tests.sweeps.test_sweeps import Here, quick
from tsc_interp.cli import main
from tsc_interp.errors import UsageError
from tsc_interp.report.sweep import answer, cell_table, model_table, render_sweep, report_link
from tsc_interp.results.intervals import median_interval, share_interval
from tsc_interp.sweeps import running
from tsc_interp.sweeps.analysis import analyse
from tsc_interp.sweeps.columns import RESULTS
from tsc_interp.sweeps.figures import figures
from tsc_interp.sweeps.tables import frame

WIDE = (2, 4, 8)
INITS = ("default", "linear_like")


def made_up(d_model, init, seed, length, infinite=False):
    """A row as a sweep writes it, of a model that nobody trained."""
    return {
        "row": seed, "seed": seed, "cell": f"{d_model} {init}", "config_key": f"{d_model}{init}",
        "verified": "prove", "infinite": infinite, "test_errors": int(length < 20),
        "first_error": None if infinite else "a", "ending": "last_epoch",
        "first_error_length": None if infinite else length, "proved": True,
        "horizon": None if infinite else length - 1, "verified_length": length - 1,
        "d_model": d_model, "embedding_init": init,
    }  # fmt: skip


@pytest.fixture(scope="module")
def rows():
    """Lengths that grow with d_model, and for one init only with it; one model far off."""
    random = np.random.default_rng(3)
    found = []
    for d_model in WIDE:
        for init in INITS:
            for _ in range(12):
                level = d_model * (5 if init == "default" else 1) ** (d_model == 8)
                length = int(10 * level * math.exp(0.2 * random.normal())) + 1
                found.append(made_up(d_model, init, len(found), length))
    found[5] = {**found[5], "first_error_length": 90_000}
    found += [made_up(8, "default", len(found) + i, 10**6, infinite=True) for i in range(3)]
    return found


def explained(groups):
    """One-way analysis of variance, the slow way."""
    everything = [math.log10(x) for group in groups for x in group]
    mean = sum(everything) / len(everything)
    between = sum(
        (sum(math.log10(x) for x in group) / len(group) - mean) ** 2 * len(group)
        for group in groups
    )
    return between / sum((x - mean) ** 2 for x in everything)


def test_factors_are_the_options_that_vary_with_what_they_explain(rows):
    found = analyse(frame(rows))
    assert {factor.name for factor in found.factors} == {"d_model", "embedding_init"}
    finite = [row for row in rows if not row["infinite"]]
    for factor in found.factors:
        values = WIDE if factor.name == "d_model" else INITS
        groups = [[r["first_error_length"] for r in finite if r[factor.name] == v] for v in values]
        assert factor.explained == pytest.approx(explained(groups))
        assert [group.value for group in factor.groups] == [str(value) for value in values]
        assert [sorted(group) for group in groups] == [g.measures.tolist() for g in factor.groups]
    by_width = next(factor for factor in found.factors if factor.name == "d_model")
    assert [group.infinite for group in by_width.groups] == [0, 0, 3]


def test_an_interaction_is_what_no_sum_of_two_effects_explains(rows):
    (pair,) = analyse(frame(rows)).interactions
    finite = [row for row in rows if not row["infinite"]]
    logs = np.log10([row["first_error_length"] for row in finite])
    one = np.array([[row["d_model"] == value for value in WIDE] for row in finite], dtype=float)
    two = np.array([[row["embedding_init"] == v for v in INITS] for row in finite], dtype=float)
    cells = (one[:, :, None] * two[:, None, :]).reshape(len(finite), -1)

    def left(design):
        fitted = np.linalg.lstsq(design, logs, rcond=None)[0]
        return ((logs - design @ fitted) ** 2).sum()

    total = ((logs - logs.mean()) ** 2).sum()
    expected = (left(np.hstack([one, two])) - left(cells)) / total
    assert pair.beyond == pytest.approx(expected)
    assert pair.beyond > 0.01
    for i, first in enumerate(pair.rows):
        for j, second in enumerate(pair.columns):
            own = [r for r in rows if {str(r["d_model"]), r["embedding_init"]} == {first, second}]
            lengths = sorted(math.inf if r["infinite"] else r["first_error_length"] for r in own)
            assert pair.medians[i, j] == lengths[(len(lengths) - 1) // 2]


def test_every_cell_has_the_intervals_of_its_seeds(rows):
    analysis = analyse(frame(rows))
    table = cell_table(analysis)
    for cell, shown in zip(analysis.cells, table.rows, strict=True):
        own = [row for row in rows if row["cell"] == cell["cell"]]
        lengths = [math.inf if row["infinite"] else row["horizon"] for row in own]
        assert (cell["median_low"], cell["median_high"]) == median_interval(lengths)
        good = sum(row["test_errors"] == 0 for row in own)
        ends = share_interval(good, len(own))
        assert (cell["no_test_errors_low"], cell["no_test_errors_high"]) == ends
        assert f"{ends[0]:.0%} to {ends[1]:.0%}" in shown
        assert len(shown) == len(table.columns)


def test_the_outlier_is_found_with_its_cell(rows):
    outliers = analyse(frame(rows)).outliers
    assert outliers[0].row == 5
    assert outliers[0].cell == "2 default"
    assert outliers[0].deviations > 10


def test_rows_that_were_not_verified_are_judged_by_test_errors():
    rows = [{**made_up(2, "default", i, 5), "verified": "no", "test_errors": i} for i in range(9)]
    found = analyse(frame(rows))
    assert found.measure == "test errors + 1"
    assert found.factors == ()


def test_figures_say_in_words_what_they_show(rows):
    drawn = figures(analyse(frame(rows)))
    assert [figure.name.split("-")[0] for figure in drawn[:2]] == ["by", "by"]
    width = next(figure for figure in drawn if figure.name == "by-d_model")
    assert "3 proved right at every length" in width.alt
    shares = [note.text for note in width.figure.layout.annotations]
    assert shares == [f"{3 / 27:.0%} ∞"]


@pytest.fixture(scope="module")
def sweep(tmp_path_factory):
    place = tmp_path_factory.mktemp("x") / "sweeps" / "quick"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(running, "Processes", lambda count: Here())
        return tsc.sweep(quick("0..8"), place, verify="found")


def test_the_page_is_one_file_that_names_models_by_row(sweep, capsys):
    assert main(["sweep-report", str(sweep.path)]) == 0
    page = (sweep.path / "report.html").read_text("utf-8")
    assert "18 models in 2 cells" in page
    assert "By d_model" in page
    assert "tsc-interp sweep" in page
    assert "https://" not in page.split("<script")[0]
    assert main(["sweep-report", str(sweep.path)]) == 0  # its own page is replaced
    (sweep.path / "mine.html").write_text("mine")
    assert main(["sweep-report", str(sweep.path), "--out", str(sweep.path / "mine.html")]) == 2
    assert (sweep.path / "mine.html").read_text() == "mine"
    assert main(["sweep-report", str(sweep.path), "--where", "d_modle = 1"]) == 2
    assert main(["sweep-report", str(sweep.path / "nothing")]) == 1
    capsys.readouterr()


def test_runs_lists_sweeps_and_their_rows(sweep, capsys, monkeypatch):
    monkeypatch.chdir(sweep.path.parent.parent)
    assert main(["runs"]) == 0
    assert "18 of 18" in capsys.readouterr().out
    assert main(["runs", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["sweeps"]
    assert listed == [{"sweep": "quick", "verify": "found", "path": "sweeps/quick",
                       "models": 18, "of": 18}]  # fmt: skip
    arguments = ["runs", "quick", "--where", "d_model = 3", "--sort", "-test_errors", "--json"]
    assert main([*arguments, "--limit", "4"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["matching"], len(document["rows"])) == (9, 4)
    errors = sorted(sweep.table("d_model = 3")["test_errors"], reverse=True)
    assert [row["test_errors"] for row in document["rows"]] == errors[:4]
    assert main(["runs", "quick"]) == 0
    assert "18 of 18 rows" in capsys.readouterr().err
    assert main(["runs", "quick", "--sort", "nothing"]) == 2
    assert main(["runs", "--where", "seed = 1"]) == 2
    with pytest.raises(UsageError):
        sweep.table("nothing = 1")


def test_the_guide_names_every_column():
    guide = (Path(__file__).parents[2] / "docs/pages/how-to/sweep.md").read_text("utf-8")
    named = set(re.findall(r"^\| `(\w+)`", guide, re.MULTILINE))
    kinds = {name for name in RESULTS if "norm_W_" not in name}
    assert kinds <= named


def test_one_median_per_cell(rows):
    """The table, the figures' words and the heat map say the same, infinity included."""
    analysis = analyse(frame(rows))
    table = cell_table(analysis)
    at = table.columns.index("median")
    shown = {row[0]: row[at] for row in table.rows}
    (pair,) = analysis.interactions
    for i, width in enumerate(pair.rows):
        for j, init in enumerate(pair.columns):
            own = {pair.first: width, pair.second: init}
            cell = f"{own['d_model']} {own['embedding_init']}"
            assert shown[cell] == pair.medians[i, j] or cell == "2 default"  # row 5 was bent
    lengths = sorted(math.inf if r["infinite"] else r["first_error_length"] for r in rows
                     if r["d_model"] == 8)  # fmt: skip
    figure = next(f for f in figures(analysis) if f.name == "by-d_model")
    middle = lengths[(len(lengths) - 1) // 2]
    assert figure.figure.data[0].median[2] == middle
    assert f"8: median {middle:,} of {len(lengths)}" in figure.alt


def test_the_headline_names_no_winner_that_chance_could_have_named():
    """Equal cells: intervals overlap, and an option explains about (k - 1) / (n - 1) by chance."""
    named = 0
    for seed in range(40):
        random = np.random.default_rng(seed)
        rows = [
            made_up(d, "default", 20 * at + i, int(20 * math.exp(random.normal())) + 2)
            for at, d in enumerate(WIDE)
            for i in range(20)
        ]
        said = answer(analyse(frame(rows)))
        named += "stay right longest" in said
        assert ("No cell is clearly better" in said) != ("stay right longest" in said)
        assert ("more than chance" in said) != ("explains the most" in said)
    assert named <= 4  # of 40, where none differs
    few = [made_up(d, "default", 5 * at + i, 10**at + i + 2)
           for at, d in enumerate(WIDE) for i in range(5)]  # fmt: skip
    assert "fewer than 6 models" in answer(analyse(frame(few)))


def test_the_page_answers_and_links_reports(sweep, rows):
    said = answer(analyse(frame(rows)))
    assert said.startswith("Models of `8 default` stay right longest")
    assert "Those of `2 " in said
    written = sweep.path / "reports" / "3" / "index.html"
    assert report_link(sweep, 3, sweep.path) is None
    written.parent.mkdir(parents=True)
    written.write_text("a report")
    assert report_link(sweep, 3, sweep.path) == "reports/3/index.html"
    assert report_link(sweep, 3, sweep.path.parent) == "quick/reports/3/index.html"
    page = render_sweep(sweep, plotlyjs="cdn")
    assert page.count('<a href="reports/3/index.html">') == 1
    assert f"--out {sweep.path / 'reports' / 'ROW'}" in page
    listed = model_table(sweep, sweep.table(), None)
    assert len(listed) == 18
    assert listed == sorted(listed, key=lambda one: (one["length"], one["row"]))
