"""What a long call is doing, told to whoever asked: `progress=True`, or a function of a text."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from time import monotonic

Progress = Callable[[str], None]

_SECONDS = 0.5, 5.0
"""Between two texts on a terminal, where each replaces the one before, and between two lines."""


def _nobody(doing: str) -> None:
    pass


_listener: ContextVar[Progress] = ContextVar("listener", default=_nobody)


def say(doing: str) -> None:
    """Tell whoever listens what is being done."""
    _listener.get()(doing)


@contextmanager
def told(progress: Progress | bool | None) -> Iterator[Progress]:
    """Let this function, or standard error (True), hear what is said inside.

    Example:
        >>> with told(print):
        ...     say("searching")
        searching
    """
    if progress is None or progress is False:
        yield say
        return
    printer = _Printer() if progress is True else None
    token = _listener.set(printer or progress)  # type: ignore[arg-type]
    try:
        yield say
    finally:
        _listener.reset(token)
        if printer is not None:
            printer.end()


class _Printer:
    """Texts on standard error, none sooner than some time after the one before."""

    def __init__(self) -> None:
        self.terminal = sys.stderr.isatty()
        self.wait, self.after = _SECONDS[not self.terminal], 0.0
        self.width = 0

    def __call__(self, doing: str) -> None:
        if monotonic() < self.after:
            return
        self.after = monotonic() + self.wait
        start, end = ("\r", "") if self.terminal else ("", "\n")
        print(start + doing.ljust(self.width), end=end, file=sys.stderr, flush=True)
        self.width = len(doing) if self.terminal else 0

    def end(self) -> None:
        """Wipe what stands on the terminal."""
        if self.width:
            print("\r" + " " * self.width, end="\r", file=sys.stderr, flush=True)
