"""How a command ends when the world around it does: pipes, full disks, Ctrl-C, old terminals."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tsc_interp.cli import common, main

SCRIPT = Path(sys.executable).parent / "tsc-interp"


def shell(line: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """`tsc-interp` stands for the installed command."""
    command = line.replace("tsc-interp", shlex.quote(str(SCRIPT)))
    return subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command}"],
        capture_output=True,
        check=False,
        env={**os.environ, **environment},
    )


@pytest.mark.parametrize("command", ["list", "list --json"])
def test_a_reader_that_leaves_is_no_failure(command: str) -> None:
    """With `pipefail` the exit code is that of the first command to fail: it was 1."""
    done = shell(f"tsc-interp {command} | head -n 1")
    assert (done.returncode, done.stderr) == (0, b"")
    assert len(done.stdout.splitlines()) == 1


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
@pytest.mark.parametrize("command", ["list", "list --json"])
def test_a_full_disk_is_told_on_one_line(command: str) -> None:
    done = shell(f"tsc-interp {command} > /dev/full")
    assert done.returncode == 1
    assert done.stderr == b"tsc-interp: cannot write the output: No space left on device\n"


def test_closed_streams_are_nobodys_business() -> None:
    assert shell("tsc-interp list >&-").returncode == 0
    assert shell("tsc-interp eval ax 2>&-").returncode == 2


def test_an_ascii_terminal_is_enough() -> None:
    """Both the multiplication sign of a shape and a name that is not even UTF-8."""
    old = {"LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    done = shell("tsc-interp info", **old)
    assert done.returncode == 0
    assert b"2 x 2 x 1" in done.stdout
    done = shell("tsc-interp info --checkpoint $'nam\\xc3\\xa9\\xff'", **old)
    assert done.returncode == 1
    assert done.stderr.startswith(b"tsc-interp: no checkpoint 'nam")
    assert done.stderr.isascii()
    assert len(done.stderr.splitlines()) == 1


def test_a_count_that_goes_on_is_told_only_now_and_then_in_a_pipe(monkeypatch, capsys) -> None:
    clock = [0.0]
    monkeypatch.setattr(common, "monotonic", lambda: clock[0])
    with common.working() as say:
        for doing, seconds in (
            ("loading", 0), ("1 of 7 sets", 1), ("2 of 7 sets", 2), ("1 of 2 files", 3),
            ("3 of 7 sets", 12), ("4 of 7 sets", 13), ("loading", 14),
        ):  # fmt: skip
            clock[0] = seconds
            say(doing)
    said = capsys.readouterr().err.splitlines()
    assert said == ["loading", "1 of 7 sets", "1 of 2 files", "3 of 7 sets", "loading"]


def test_ctrl_c_says_how_to_go_on(monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    def interrupt(*args: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("tsc_interp.report.examine.analyze", interrupt)
    assert main(["analyze"]) == 130
    said = capsys.readouterr().err.splitlines()[-1]
    assert said == (
        "tsc-interp: interrupted; no report was written; --probe NAME asks fewer questions"
    )
    monkeypatch.setattr("tsc_interp.training.jobs.train", interrupt)
    assert main(["train"]) == 130
    assert "the same command goes on from there" in capsys.readouterr().err
    monkeypatch.setattr("tsc_interp.checkpoints.load_checkpoint", interrupt)
    assert main(["info"]) == 130
    assert "interrupted; nothing was written" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ZeroDivisionError("odd\nthing"), "ZeroDivisionError: odd\\nthing. This is a bug in "
         "tsc-interp: please report it with what `tsc-interp --debug ...` prints"),
        (MemoryError("36 GiB"), "there is not enough memory for this (36 GiB)"),
        (PermissionError(13, "Permission denied", "/x\x1b[2J"),
         "/x\\x1b[2J: Permission denied"),
    ],
)  # fmt: skip
def test_what_nobody_foresaw_is_one_line_and_a_traceback_if_asked_for(
    error: Exception, words: str, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    def fail(*args: object, **options: object) -> None:
        raise error

    monkeypatch.setattr("tsc_interp.checkpoints.load_checkpoint", fail)
    assert main(["info"]) == 1
    assert capsys.readouterr().err == f"tsc-interp: {words}\n"
    with pytest.raises(type(error)):
        main(["--debug", "info"])


def test_a_message_stays_short_whatever_it_quotes(capsys) -> None:
    assert main(["eval", "--checkpoint", "x" * 100_000]) == 1
    assert main(["verify", "--check", "y" * 100_000]) == 2
    assert all(len(line) < 1100 for line in capsys.readouterr().err.splitlines())


@pytest.mark.parametrize("command", [
    ["info", "--checkpoint", "pipe"], ["eval", "--checkpoint", "pipe"], ["train", "pipe"],
    ["import", "pipe", "--out", "x.safetensors"], ["verify", "--check", "pipe"],
    ["analyze", "--compare", "pipe", "-p", "trace", "ab"], ["playground", "--checkpoint", "pipe"],
])  # fmt: skip
def test_a_pipe_that_nobody_writes_to_is_refused_instead_of_waited_for(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    assert main(command) in (1, 2)
    assert "pipe" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]
