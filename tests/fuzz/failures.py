"""A process that dies, and a disk that refuses, at any of the changes a run makes to its files.

Python tells an audit hook of each file opened, renamed, made or removed before it happens. One of
those, drawn at random, is where the process is killed (as `kill -9` does) or where the system says
no. Then the same training goes on, and must end with the very same files.
"""

from __future__ import annotations

import errno
import os
import random
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from tests.fuzz.files import QUICK_JOB, contents, exit_code, sound_runs
from tests.fuzz.running import Case
from tsc_interp.files import TEMPORARY
from tsc_interp.training.jobs import train

REFUSALS = (errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EMFILE)
_CHANGES = ("os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.truncate")


class _Events:
    """What to do at each change below a folder. A hook stays for ever, so there is one."""

    place: Path | None = None
    happen: Callable[[], None] = staticmethod(lambda: None)
    hooked = False

    @classmethod
    def hook(cls, event: str, arguments: tuple[object, ...]) -> None:
        if cls.place is None or not arguments or not isinstance(arguments[0], (str, Path)):
            return
        writes = event == "open" and isinstance(arguments[2], int) and arguments[2] & 0o3
        if (writes or event in _CHANGES) and str(arguments[0]).startswith(str(cls.place)):
            cls.happen()


@contextmanager
def at_each_change(place: Path, happen: Callable[[], None]) -> Iterator[None]:
    """Also before what is written is forced to the disk, of which Python tells nobody."""
    if not _Events.hooked:
        sys.addaudithook(_Events.hook)
        _Events.hooked = True
    real = os.fsync

    def fsync(file: int) -> None:
        happen()
        real(file)

    _Events.place, _Events.happen, os.fsync = place, staticmethod(happen), fsync  # type: ignore[assignment]
    try:
        yield
    finally:
        _Events.place, os.fsync = None, real


def _at(number: int, act: Callable[[], None]) -> Callable[[], None]:
    left = number

    def happen() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            act()

    return happen


@cache
def changes_of_a_run() -> int:
    """How often training once touches the disk."""
    seen: list[None] = []
    with TemporaryDirectory() as place, at_each_change(Path(place), lambda: seen.append(None)):
        train([QUICK_JOB], Path(place) / "runs")
    return len(seen)


def _same_files(runs: Path) -> None:
    """A file that was being written may stay behind under a name that says so."""
    here = Path("here", QUICK_JOB.config.key(), "seed=0")
    train([QUICK_JOB], runs)
    found = contents(runs / here)
    complete = {name: c for name, c in found.items() if not Path(name).name.startswith(TEMPORARY)}
    assert complete == contents(sound_runs()["finished"] / here), "another run"


def killed(rng: random.Random, place: Path) -> Case:
    """One to three times in a row, each in a process of its own."""
    numbers = [rng.randint(1, changes_of_a_run()) for _ in range(rng.choice([1, 1, 2, 3]))]
    runs = place / "runs"
    torch.set_num_threads(1)  # threads do not survive a fork

    def go() -> None:
        for number in numbers:
            child = os.fork()
            if child == 0:
                try:
                    die = _at(number, lambda: os.kill(os.getpid(), signal.SIGKILL))
                    with at_each_change(place, die):
                        train([QUICK_JOB], runs)
                finally:
                    os._exit(0)  # there was less left to do than drawn
            os.waitpid(child, 0)
        _same_files(runs)

    return Case(f"killed at {numbers}", call=exit_code(go))


def refused(rng: random.Random, place: Path) -> Case:
    """From some point on, or just once; the error is one in words."""
    number, code = rng.randint(1, changes_of_a_run()), rng.choice(REFUSALS)
    for_good, runs = rng.random() < 0.5, place / "runs"
    state = {"left": number}

    def refuse() -> None:
        state["left"] -= 1
        if state["left"] == 0 or (for_good and state["left"] < 0):
            raise OSError(code, os.strerror(code))

    def go() -> None:
        def attempt() -> None:
            with at_each_change(place, refuse):
                train([QUICK_JOB], runs)

        exit_code(attempt)()  # anything but an error in words goes on as a traceback
        _same_files(runs)

    return Case(f"{errno.errorcode[code]} at {number}, for good: {for_good}", call=exit_code(go))


KINDS = {"kill": killed, "disk": refused}
