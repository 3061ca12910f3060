"""`theorem`: what a model answers, stated and proved in Coq."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from pathlib import Path
from time import monotonic
from typing import Any, Literal

from tsc_interp.arguments import checked
from tsc_interp.checkpoints.resolve import ModelLike
from tsc_interp.errors import OutputError, UnsupportedError, UsageError
from tsc_interp.files import as_path, write_output
from tsc_interp.formal import coq
from tsc_interp.formal.rules import claims
from tsc_interp.formal.writing import Statement, require_stated, weights_text
from tsc_interp.model.framing import FrameLike, with_frame
from tsc_interp.output.display import GOOD, PLAIN, Displayed, Line
from tsc_interp.tasks.counts import ContainsAll
from tsc_interp.telling import Progress, say
from tsc_interp.verification.count_model import checkpoint_of
from tsc_interp.verification.horizon_result import Horizon
from tsc_interp.verification.horizons import horizon

HOW_TO_CHECK = """\
To check without tsc-interp, in this folder (coq 8.16 and coq-interval 4.6, in Debian the packages
coq and libcoq-interval):

{commands}

Model/Weights.v has the model, Model/Theorem.v its letters and the statements (Coq prints the axioms
behind them), and Tsc/Transformer.v says what a model computes, with Tsc/Normal.v for GELU. These
definitions and statements are all that has to be read; Coq checks the rest.
"""


@dataclass(frozen=True, repr=False)
class Theorem(Displayed):
    """The statements about a model, where they are written, and whether Coq accepted them.

    Attributes:
        folder: The folder with the library, the weights and the statements.
        theorems: Each theorem's statement in Coq, by its name.
        proved: Whether `coqc` accepted all of them here and now.
        seconds: What Coq took for the model's files, without the library.
        axioms: What Coq says the proofs rest on, besides its kernel.
        note: Why nothing is proved, if nothing is.
        original_reads: The most letters that the original of an imported model accepts, if known.

    Example:
        >>> from tempfile import mkdtemp
        >>> list(theorem("generalization-errors", mkdtemp(), prove=False).theorems)
        ['right_to_66', 'wrong_at_67', 'horizon_is_66']
    """

    folder: Path
    theorems: dict[str, str]
    proved: bool
    seconds: float
    axioms: tuple[str, ...]
    note: str = ""
    original_reads: int | None = None

    def _facts(self) -> list[str]:
        how = f"proved in {self.seconds:.0f} s" if self.proved else "not checked"
        return [how, *self.theorems, str(self.folder)]

    def _lines(self) -> list[tuple[str, str]]:
        return [("", text) for _, text in self.lines()]

    def lines(self) -> list[Line]:
        """Return what was proved, in sentences with a style each."""
        stated = [(PLAIN, f"{name}: {text}") for name, text in self.theorems.items()]
        if self.original_reads is not None:
            stated.append((PLAIN, f"The original reads up to {self.original_reads:,} letters."))
        if not self.proved:
            return [(PLAIN, self.note), *stated]
        done = f"Proved in Coq ({self.seconds:.0f} s, {len(self.axioms)} axioms):"
        return [(GOOD, done), *stated, (PLAIN, f"The files are in {self.folder}.")]

    def to_dict(self) -> dict[str, Any]:
        """Return the result as JSON types."""
        return {**asdict(self), "folder": str(self.folder), "axioms": list(self.axioms)}


@checked
def theorem(
    model: ModelLike,
    folder: str | os.PathLike[str],
    *,
    limit: int = 10_000,
    axioms: Literal["machine", "few"] = "machine",
    prove: bool = True,
    seconds: float = 600.0,
    force: bool = False,
    frame: FrameLike | None = None,
    progress: Progress | bool | None = None,
) -> Theorem:
    """State up to which length a model is right, as theorems for Coq, and prove them.

    The search finds the horizon and its first error; Coq does not trust it, but searches again by
    itself. Without `coqc` the files are written all the same, with how to check them.

    Args:
        model: A hooked model, a checkpoint, a bundled name, a path, or a run.
        folder: Where the files go: the library, the weights, the statements.
        limit: The length of the longest strings that a theorem is about.
        axioms: `"machine"`: Coq computes on machine integers and lists what it assumes about them;
            `"few"`: on its own integers, several times slower.
        prove: Whether to run `coqc`.
        seconds: How long Coq may take for each file.
        force: Replace files that are not ours.
        frame: The format of the inputs (`tsc.Frame`), for a model that was imported without one.
        progress: True prints the current step; a function is called with a few words about it.

    Returns:
        The statements, and whether Coq accepted them.

    Raises:
        UnsupportedError: The model or its task is outside what the library describes.
        CoqError: Coq refused a file or took too long.

    Example:
        >>> from tempfile import mkdtemp
        >>> made = theorem("generalization-errors", mkdtemp(), prove=False)
        >>> made.theorems["horizon_is_66"].endswith("<-> (L <= 66)%nat")
        True
    """
    if axioms not in ("machine", "few"):
        raise UsageError(f"axioms are 'machine' or 'few', not {axioms!r}")
    say("stating what there is to prove")
    checkpoint = checkpoint_of(with_frame(model, frame))
    require_stated(checkpoint.config)
    parts = claims(checkpoint.config.task, checkpoint.config.n_letters)
    if checkpoint.config.n_outputs == 1:  # it is positive for the second class
        parts = parts[1:]
    # Only the checker can say that there is no error at any length.
    answer = horizon(checkpoint, limit=limit, prove=checkpoint.config.log_n)
    statement = _stated(Statement(checkpoint.config, parts), answer, checkpoint.config.task)
    place = as_path(folder)
    _write(place, weights_text(checkpoint), statement.text(), force)
    coq.copy_library(place / "Tsc", axioms)
    if not prove or not coq.found():
        why = "Not checked, as asked." if not prove else "Not checked: there is no coqc here."
        how = "In Debian: apt-get install coq libcoq-interval."
        note = f"{why} {'' if coq.found() else how + ' '}{place}/README says how to check."
        return Theorem(place, statement.theorems, False, 0.0, (), note, answer.original_reads)
    coq.compile_library(place / "Tsc", seconds)
    found, taken = checked_by_coq(place, seconds)
    if unknown := set(found) - coq.allowed(axioms):
        raise coq.CoqError(f"the proof rests on more than it may: {', '.join(sorted(unknown))}")
    reads = answer.original_reads
    return Theorem(place, statement.theorems, True, taken, tuple(found), original_reads=reads)


def checked_by_coq(folder: Path, seconds: float) -> tuple[list[str], float]:
    """Compile the weights and the theorems; return Coq's axioms and how long it took."""
    began, paths = monotonic(), ("-Q", "Tsc", "Tsc", "-Q", "Model", "Model")
    say("Coq reads the weights")
    coq.compiled(folder, "Model/Weights", paths, seconds)
    say("Coq checks the theorems")
    printed = coq.compiled(folder, "Model/Theorem", paths, seconds)
    return coq.assumptions(printed), monotonic() - began


def _stated(statement: Statement, answer: Horizon, task: Any) -> Statement:
    """What can be said, given the search's answer."""
    if not answer.complete:
        raise UnsupportedError(
            "the search could not decide every string up to the limit, so there is nothing sure "
            "to state: a smaller limit may do"
        )
    if answer.infinite and statement.binary and isinstance(task, ContainsAll):
        statement.right_everywhere(task.letters)
        return statement
    length = answer.verified_length
    statement.right_through(length)
    if answer.shortest is not None and answer.shortest.length == length + 1:
        statement.first_error(length, answer.shortest)
    return statement


def _write(folder: Path, weights: str, statement: str, force: bool) -> None:
    """The model's files and a README; other people's files stay."""
    files = {"Model/Weights.v": weights, "Model/Theorem.v": statement}
    try:
        (folder / "Model").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot make the folder {folder}: {error}") from None
    options = '-w "-ambiguous-paths"'
    library = [f"coqc {options} -Q Tsc Tsc Tsc/{name}.v" for name in coq.LIBRARY]
    own = [f"coqc {options} -Q Tsc Tsc -Q Model Model {name}" for name in files]
    commands = "\n".join(f"    {line}" for line in [*library, *own])
    for name, text in {**files, "README": HOW_TO_CHECK.format(commands=commands)}.items():
        write_output(folder / name, text.encode(), _ours, force=force)


def _ours(start: bytes) -> bool:
    return start.startswith((b"(* The weights of", b"From Coq", b"To check without"))
