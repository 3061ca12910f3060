"""No wrong call of a public function ends in a raw exception."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz.calls import calls, outcome
from tests.sizes import many


def test_wrong_arguments_are_refused_in_our_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sample by default; `TSC_THOROUGH=1` and `python -m tests.fuzz.calls` try all of them."""
    monkeypatch.chdir(tmp_path)
    every = list(calls())
    assert len(every) > 5000
    for call in random.Random(0).sample(every, many(400, len(every))):
        ending, detail = outcome(call)
        assert ending in ("returned", "TscError"), (call.what, ending, detail)


def test_ctrl_c_while_the_command_starts_is_one_line() -> None:
    code = """
import sys
class Interrupt:
    def find_spec(self, name, *_):
        if name == "typer":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupt())
from tsc_interp.cli.app import run
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 130
    assert done.stderr == "tsc-interp: interrupted; nothing was written\n"
