"""Names that somebody may give a file or a model: none of them takes control of anything."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.fuzz import KINDS, run_cases
from tests.fuzz.names import HOSTILE
from tests.sizes import THOROUGH
from tsc_interp.checkpoints import load_checkpoint
from tsc_interp.cli import main
from tsc_interp.output.visible import visible

COMMANDS = (
    ["info"],
    ["info", "--json"],
    ["eval", "ab"],
    ["eval", "ab", "--json"],
    ["verify", "-L", "3"],
    ["verify", "-L", "3", "--json"],
    [
        "analyze",
        "ab",
        "--probe",
        "trace",
        "--format",
        "html,md,json",
        "--quiet",
        "--plotlyjs",
        "cdn",
    ],
    ["playground"],
)


def as_file(name: str, place: Path) -> Path:
    """A checkpoint under that name, and with that name in its metadata."""
    data = name.replace("/", "_").encode("utf-8", "surrogateescape" if "\ud800" not in name
                                         else "surrogatepass")[:200]  # fmt: skip
    path = place / (data.decode("utf-8", "surrogateescape") + ".safetensors")
    loaded = load_checkpoint("walkthrough")
    safe = name.encode("utf-8", "replace").decode()
    dataclasses.replace(loaded, provenance={"experiment": safe, safe: {safe: [safe]}}).save(path)
    return path


def _some(commands: Sequence[list[str]], name: str) -> Sequence[list[str]]:
    """The first command, `analyze` and `playground`, and one other: each meets many names.

    All of them with TSC_THOROUGH=1.
    """
    if THOROUGH:
        return commands
    first, *others, analyze, playground = commands
    return first, others[HOSTILE.index(name) % len(others)], analyze, playground


@pytest.fixture
def _quick_analysis(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names are the subject here: no figures, no test set, no proofs."""
    monkeypatch.setattr("tsc_interp.probes.registry.Probe.figures", lambda self, result: [])
    monkeypatch.setattr("tsc_interp.report.string_subject.score_test_set", lambda model: None)
    monkeypatch.setattr("tsc_interp.report.string_subject.reach", lambda model: None)


@pytest.mark.usefixtures("_quick_analysis")
@pytest.mark.parametrize("name", HOSTILE)
def test_no_name_controls_the_terminal_or_breaks_a_command(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = as_file(name, tmp_path)
    with contextlib.chdir(tmp_path):
        for command in _some(COMMANDS, name):
            assert main([*command, "--checkpoint", str(path)]) == 0, command
            out, err = capsys.readouterr()
            assert (out + err).replace("\n", "").isprintable(), command
            if command == ["info"]:
                assert out.splitlines()[0].startswith(f"{visible(path)}: contains a and b?")


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_of_nothing_is_quoted_on_one_line(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with contextlib.chdir(tmp_path):
        for arguments in (
            *([*command, "--checkpoint", name] for command in _some(COMMANDS, name)),
            ["eval", name],
            ["analyze", "--probe", name],
            ["analyze", "--format", name],
            ["verify", "--check", name],
            ["verify", "--max-length", name],
            ["reproduce", name],
            ["train", name],
            ["train", "--set", name],
            ["train", "--seeds", name],
            ["import", name, "--out", "x"],
            [name],
        ):
            code = main(arguments)
            out, err = capsys.readouterr()
            if code == 0:  # such as --help
                continue
            assert code in (1, 2), arguments
            assert (out + err).replace("\n", "").isprintable(), arguments
            assert "This is a bug" not in err
            assert len(err.splitlines()) == 1, arguments


def test_150_hostile_command_lines_end_well() -> None:
    """More of them: `python -m tests.fuzz cli --cases 5000`."""
    bad = [
        outcome
        for outcome in run_cases(KINDS["cli"], 150, seed=1, limit_seconds=3000)
        if outcome.bad
    ]
    assert bad == []
