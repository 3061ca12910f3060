"""A lock per configuration: a second process waits, and then finds the work done."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from tsc_interp.checkpoints.run_directory import RunError
from tsc_interp.files import reason


@contextmanager
def locked(directory: Path, say: Callable[[str], None], option: str = "--runs") -> Iterator[None]:
    """Hold the directory's lock, and say so if another process has it first.

    `option` is what a person would choose another directory with.
    """
    with explained(directory, option):
        directory.mkdir(parents=True, exist_ok=True)
        lock = FileLock(directory / ".lock")
        try:
            lock.acquire(timeout=0)
        except Timeout:
            say(f"waiting for another process that works in {directory}")
            lock.acquire()
    try:
        yield
    finally:
        lock.release()  # as dying does


@contextmanager
def explained(path: Path, option: str = "--runs") -> Iterator[None]:
    """What the system refuses, in words that say how to go on."""
    try:
        yield
    except OSError as error:
        raise RunError(
            f"cannot write {path}: {reason(error)}; what was finished before is kept, "
            f"and the same command goes on from there ({option} DIR chooses another place)"
        ) from None
