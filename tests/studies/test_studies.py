"""Studies: what is stored is what a run makes, in small files, and nothing rests on few seeds."""

from __future__ import annotations

import math
from importlib import import_module
from pathlib import Path

import pytest

from docs.build.sections import run
from studies.__main__ import NAMES, main
from studies.tables import RESULTS, Row, laboratory, read, took
from tsc_interp.laboratories.registry import find_laboratory
from tsc_interp.sweeps.definition import load_definition

ROOT = Path(__file__).parents[2]
SAMPLES = {
    "formula": [("d_model 4", range(2)), ("CLS attended", range(7, 9))],
    "epochs": [(("plain", 2, range(1)),), (("log n", 2, range(3, 4)),)],
    "attention": [
        (("SSMax", 2, 2, range(3)),),
        (("log n, CLS counted", 4, 16, range(60, 62)),),
        (("adaptive temperature", 2, 2, range(2)),),
    ],
    "heads": [((2, 4, 4, "small", range(2)),)],
    "init_norm": [
        (("scores", "small", 16, 4.0, range(2)),),
        (("decay", "default", 16, 0.0, range(2)),),
    ],
    "mending": [(("directions", 2, 4, range(2)),), (("default", 4, 16, range(12, 14)),)],
    "decay": [(("off", 0.03, 0.01, range(1)),)],
    "lengths": [(("log n", 4, range(2)),), (("plain", 20, range(2)),)],
    "frontier": [
        (("contains a and b", 1, 1, 1, range(4)),),
        (("majority of a", 2, 2, 0, range(2)),),
    ],
    "tasks": [
        (("majority of a", "sqrt_d_head", False, range(2)),),
        (("most frequent letter", "sqrt_d_head", False, range(1)),),
    ],
}
"""What is computed again, by study: the arguments of `rows`."""


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_sample_of_the_stored_rows_is_computed_again(name: str) -> None:
    """Equal where the weights are the same to the last bit.

    Another processor may add in another order, and training carries that on: then rows are near.
    """
    stored = {_identity(row): row for row in read(name)}
    near = []
    for arguments in SAMPLES[name]:
        for made in import_module(f"studies.{name}.run").rows(*arguments):
            kept = stored[_identity(made)]
            if made["weights"] == kept["weights"]:
                assert {k: _plain(v) for k, v in made.items()} == {
                    k: _plain(v) for k, v in kept.items()
                }
            near.append(_near(made, kept))
    assert sum(near) >= len(near) / 2, near


def _identity(row: Row) -> tuple[object, ...]:
    """What says which model a row is about: everything up to its seed, and the epoch."""
    names = [*list(row)[: list(row).index("seed") + 1], "epoch"]
    return tuple(row[name] for name in names if name in row)


def _plain(value: object) -> object:
    return None if value == "" else value


def _near(made: Row, kept: Row) -> bool:
    for name in ("first_error", "exact"):
        if name in made:
            pair = [row[name] or 10**6 for row in (made, kept)]
            return abs(math.log(pair[0] / pair[1])) < math.log(3)
    return bool(made["outcome"] == kept["outcome"])


@pytest.mark.parametrize("name", NAMES)
def test_results_are_small_and_rest_on_enough_seeds(name: str) -> None:
    rows = read(name)
    assert (RESULTS / f"{name}.csv.gz").stat().st_size < 300_000
    assert took(name)["processor_seconds"] < 2 * 20 * 60
    groups: dict[tuple[object, ...], set[int]] = {}
    for row in rows:
        groups.setdefault(_identity({**row, "seed": 0, "epoch": 0}), set()).add(row["seed"])
    assert min(map(len, groups.values())) >= 32


@pytest.mark.parametrize("name", NAMES)
def test_a_page_says_what_is_stored(name: str) -> None:
    """Its script ends with assertions about the numbers it has just printed."""
    script = ROOT / "studies" / name / "page.py"
    printed = run(script).printed
    assert printed["conclusions"].startswith("- **")
    assert f"python -m studies {name}" in printed["cost"]
    assert "assert " in script.read_text()


@pytest.mark.parametrize("name", ["failures", "pretrain"])
def test_a_laboratory_says_of_its_stored_run_what_the_page_cites(name: str) -> None:
    """The numbers are found again from the stored arrays, and the page's tables can be made."""
    found = find_laboratory(name)
    result = found.result_type.from_dict(laboratory(name))
    assert result.concluded().findings == result.findings
    assert result.options.seeds >= 16
    for section, text in run(ROOT / "studies" / f"lab_{name}" / "page.py").printed.items():
        assert text.startswith("| "), section
        assert "95% CI" in text, section


def test_an_unknown_study_is_refused() -> None:
    for wanted in ([], ["horizons"]):
        with pytest.raises(SystemExit, match="the studies are formula, attention"):
            main(wanted)


def test_the_larger_grid_is_a_sweep() -> None:
    sweep = load_definition(ROOT / "studies" / "attention" / "sweep.toml")
    assert sum(part.models for part in sweep.parts) == 36 * 1024
