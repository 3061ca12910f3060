"""Hostile input by the thousand: `python -m tests.fuzz cli --cases 1000 --seed 0`.

A generator makes one case at a time from a random number generator and a directory of its own to
put files in; `KINDS` names them all. A case is run as the command line would run it, in this
process. Good outcomes are the exit codes 0 to 3; bad ones are a traceback, the catch-all ("this is
a bug"), a hang, and output that holds control characters.
"""

from __future__ import annotations

from tests.fuzz import failures, files, pages
from tests.fuzz.command_lines import command_line
from tests.fuzz.running import Case, Generator, Outcome, run_cases

KINDS: dict[str, Generator] = {
    "cli": command_line,
    **files.KINDS,
    **failures.KINDS,
    **pages.KINDS,
}

__all__ = ["KINDS", "Case", "Generator", "Outcome", "run_cases"]
