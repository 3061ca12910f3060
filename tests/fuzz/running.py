"""Run hostile cases one after the other and say how each one ended."""

from __future__ import annotations

import contextlib
import io
import os
import random
import signal
import tempfile
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tsc_interp.cli.app import main


@dataclass(frozen=True)
class Case:
    """What to run: arguments of `tsc-interp`, or a function that returns an exit code."""

    what: str
    """Shown when it ends badly."""
    arguments: tuple[str, ...] = ()
    call: Callable[[], int] | None = None


Generator = Callable[[random.Random, Path], Case]


@dataclass(frozen=True)
class Outcome:
    case: Case
    ending: str
    """`exit 0` to `exit 3`, or `traceback`, `bug`, `hang`, `control characters`."""
    detail: str = ""

    @property
    def bad(self) -> bool:
        return self.ending not in ("exit 0", "exit 1", "exit 2", "exit 3")


class _TooLong(BaseException):
    """Not an `Exception`, so that nothing under test swallows it."""


def run_cases(
    generate: Generator, cases: int, seed: int, limit_seconds: int = 20
) -> Iterator[Outcome]:
    """Case number i depends on the seed and on i alone, so one bad case can be run again."""
    for index in range(cases):
        with tempfile.TemporaryDirectory() as place, contextlib.chdir(place):
            case = generate(random.Random(f"{seed}:{index}"), Path(place))
            yield run_case(case, limit_seconds)


def run_case(case: Case, limit_seconds: int) -> Outcome:
    out, err = io.StringIO(), io.StringIO()

    def too_long(number: int, frame: object) -> None:
        raise _TooLong

    before = signal.signal(signal.SIGALRM, too_long)
    signal.alarm(limit_seconds)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = case.call() if case.call else main(case.arguments)
    except _TooLong:
        return Outcome(case, "hang", f"over {limit_seconds} s")
    except BaseException:
        return Outcome(case, "traceback", traceback.format_exc(limit=-3))
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    said = out.getvalue() + err.getvalue()
    if "This is a bug in tsc-interp" in said:
        return Outcome(case, "bug", err.getvalue())
    if not said.replace("\n", "").isprintable():
        return Outcome(case, "control characters", repr(said[-500:]))
    return Outcome(case, f"exit {code}", err.getvalue())


def quiet_environment() -> None:
    """No colours, no shared cache: what is left in the output is what the case put there."""
    os.environ["NO_COLOR"] = "1"
    os.environ.setdefault("TSC_CACHE", "off")
