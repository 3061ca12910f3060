"""What every command shares: which model is meant, where output goes, how progress is shown.

Import-light on purpose: `tsc-interp --help` reads this file and must answer at once.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console

    from tsc_interp.report.saved import SavedReport


DEFAULT_MODEL = "walkthrough"
_DEFAULT_LETTERS = 3
_SECONDS_BETWEEN_LINES = 10


def named_model(model: str | None, checkpoint: str | None, default: str = DEFAULT_MODEL) -> str:
    """The one model that a command line names, by position or by `--checkpoint`."""
    from tsc_interp.errors import UsageError

    if None not in (model, checkpoint) and model != checkpoint:
        raise UsageError(f"two models are named, {model} and --checkpoint {checkpoint}; name one")
    return model or checkpoint or default


def only(option: str, **others: object) -> None:
    """Refuse options that `option`, which is given, would ignore."""
    from tsc_interp.errors import UsageError

    ignored = [f"--{name.replace('_', '-')}" for name, value in others.items() if value]
    if ignored:
        raise UsageError(f"{option} and {', '.join(ignored)} do not go together; leave one out")


def model_and_strings(
    first: str | None, strings: list[str] | None, checkpoint: str | None, quiet: bool = False
) -> tuple[str, list[str] | None]:
    """Which model, and which strings: the first word is the model if it can only be one."""
    from tsc_interp.checkpoints.locate import bundled_names, names_a_model
    from tsc_interp.errors import TscError, UsageError, suggest
    from tsc_interp.strings import Alphabet

    if first is None:
        return checkpoint or DEFAULT_MODEL, strings
    if names_a_model(first):
        return named_model(first, checkpoint), strings
    if checkpoint is not None:
        return checkpoint, [first, *(strings or [])]
    try:
        Alphabet(_DEFAULT_LETTERS).counts(first)
    except TscError as error:
        hint = suggest(first, bundled_names())
        raise UsageError(
            f"{first!r} is no model ({hint or 'see tsc-interp list and tsc-interp runs'}), and no "
            f"string for {DEFAULT_MODEL}: {error}"
        ) from None
    messages(quiet).print(f"{first} names no model, so it is a string for {DEFAULT_MODEL}")
    return DEFAULT_MODEL, [first, *(strings or [])]


def output() -> Console:
    """For results: standard output. What is printed is text, never markup or control codes."""
    from tsc_interp.output.console import SafeConsole

    return SafeConsole()


def messages(quiet: bool = False) -> Console:
    """For progress and remarks: standard error, so that output stays clean."""
    from tsc_interp.output.console import SafeConsole

    return SafeConsole(stderr=True, quiet=quiet)


def tell_page(page: Path, *, quiet: bool, open_page: bool, what: str = "report") -> None:
    """Say where a page was written, and open it if asked."""
    from tsc_interp.output.visible import visible

    messages(quiet).print(f"{what}: {visible(page)}", soft_wrap=True)
    if open_page:
        typer.launch(str(page.resolve()))


def print_saved(
    report: SavedReport,
    page: Path | None,
    *,
    tables: bool,
    as_json: bool,
    quiet: bool,
    open_page: bool,
) -> None:
    """Print a report or its JSON, and say where its page is."""
    if as_json:
        sys.stdout.write(report.to_json() + "\n")
    elif not quiet:
        report.show(tables=tables)
    if page is not None:
        tell_page(page, quiet=quiet, open_page=open_page)


def print_json(schema: str, document: dict[str, Any]) -> None:
    """One document with its `schema` first, and nothing else on standard output."""
    from tsc_interp.output.json_form import to_json

    sys.stdout.write(to_json({"schema": f"tsc-interp/{schema}", **document}, indent=2) + "\n")


def tell(
    as_json: bool, schema: str, document: Callable[[], dict[str, Any]], lines: Iterable[str]
) -> None:
    """Print what was found: one JSON document, or lines of text."""
    if as_json:
        print_json(schema, document())
    else:
        for line in lines:
            output().print(line.replace("`", ""))


def print_checked(
    schema: str, certificate: Path, check: Callable[[], Sequence[str]], as_json: bool
) -> None:
    """Check a certificate and print what it proves; exit code 3 if it is rejected."""
    from tsc_interp.verification import CertificateError

    try:
        proved = list(check())
    except CertificateError as error:
        if not as_json:
            raise
        print_json(schema, {"accepted": False, "reason": str(error), "proved": []})
        raise typer.Exit(error.exit_code) from None
    if as_json:
        print_json(schema, {"accepted": True, "reason": None, "proved": proved})
        return
    for sentence in proved:
        print_line(output(), f"  {sentence}")
    print_line(output(), f"{certificate}: accepted, {len(proved)} statements derived again.")


Update = Callable[..., None]
"""Sets the text of a live bar, and with `total`, `completed` or `advance` how far it is."""


@contextmanager
def live_bar(console: Console, unit: str) -> Iterator[Update | None]:
    """Show a bar that counts `unit` on a terminal; give None where output is not a terminal."""
    if not console.is_terminal:
        yield None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    text = TextColumn(f"{unit}, {{task.description}}", markup=False)
    columns = [BarColumn(bar_width=12), MofNCompleteColumn(), text]
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda text, **fields: bar.update(task, description=text, **fields)


class Pace:
    """What is left to do, and how long that takes, judging from what has been done."""

    def __init__(self, left: int, clock: Callable[[], float] = monotonic) -> None:
        self.left, self.done = left, 0
        self._clock, self._began = clock, clock()

    def spend(self, amount: int) -> None:
        """So much has been done."""
        self.done += amount
        self.left -= amount

    def save(self, amount: int) -> None:
        """So much need not be done."""
        self.left -= amount

    def per_second(self) -> float:
        return self.done / max(self._clock() - self._began, 1e-9)

    def time_left(self, before: str = "") -> str:
        if not self.done:
            return "time left not known yet"
        minutes, seconds = divmod(math.ceil(max(self.left, 0) / self.per_second()), 60)
        hours, minutes = divmod(minutes, 60)
        if hours:
            return f"{before}{hours:,} h {minutes} min left"
        return f"{before}{minutes} min {seconds} s left" if minutes else f"{before}{seconds} s left"


def in_lines(console: Console) -> Callable[[str], None]:
    """Print what is being done; a count that goes on, such as `2 of 7 sets`, only now and then."""
    from tsc_interp.output.visible import visible

    due: dict[str, float] = {}

    def say(doing: str) -> None:
        kind = re.sub(r"\d[\d,]* of ", "", doing)
        if kind == doing or monotonic() >= due.get(kind, 0.0):
            due[kind] = monotonic() + _SECONDS_BETWEEN_LINES
            console.print(visible(doing), soft_wrap=True)

    return say


@contextmanager
def working(quiet: bool = False) -> Iterator[Callable[[str], None]]:
    """Say what is being done: a spinner on a terminal, plain lines in a pipe.

    A count that goes on, as `2 of 7 sets`, gets a line in a pipe only every ten seconds.
    """
    from rich.text import Text

    from tsc_interp.output.visible import visible

    console = messages(quiet)
    if console.is_terminal:
        with console.status("starting") as status:

            def spin(doing: str) -> None:
                text = Text(visible(doing))
                text.truncate(console.width - 3, overflow="ellipsis")
                status.update(text)

            yield spin
    else:
        yield in_lines(console)


@contextmanager
def share_done(console: Console, of: str) -> Iterator[Callable[[float], None]]:
    """Show a bar with the time left on a terminal, and an occasional plain line in a pipe.

    The function it yields takes the share that is done, 0 to 1.
    """
    if console.is_terminal:
        from rich.progress import Progress

        with Progress(console=console, transient=True) as progress:
            task = progress.add_task(of, total=1.0)
            yield lambda share: progress.update(task, completed=share)
        return
    printed_at = monotonic()

    def say(share: float) -> None:
        nonlocal printed_at
        if monotonic() - printed_at > _SECONDS_BETWEEN_LINES:
            printed_at = monotonic()
            console.print(f"{share * 100:.0f} % of {of} decided")

    yield say


def print_line(console: Console, sentence: str, style: str = "") -> None:
    """Wrapped between words, never inside a number, and indented as it starts."""
    from rich.padding import Padding
    from rich.text import Text

    from tsc_interp.output.visible import visible

    words = sentence.lstrip()
    indent = len(sentence) - len(words)
    console.print(Padding(Text(visible(words), style), (0, 0, 0, indent), expand=False))
