"""Running `coqc`: the library, a model's files, and the axioms that Coq says they rest on."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Literal

from tsc_interp.errors import TscError
from tsc_interp.telling import say

Axioms = Literal["machine", "few"]

LIBRARY = (
    "Carrier", "Normal", "Transformer", "Enclosure", "Reading", "Answers", "Cover", "Horizon",
    "Text", "Tail",
)  # fmt: skip
"""Coq's files in the order in which they are compiled; `Carrier` is one of two."""

_CARRIERS: dict[Axioms, str] = {"machine": "CarrierMachine", "few": "CarrierFew"}
_PLACES = (Path(__file__).parent / "coq", Path(__file__).parents[2] / "formal")
_WARNINGS = "-w", "-ambiguous-paths,-abstract-large-number"


class CoqError(TscError):
    """Coq refused a file, or took too long."""


def sources() -> Path:
    """The folder of the library: in an installed package, or in the repository."""
    return next(place for place in _PLACES if (place / "Transformer.v").exists())


def found() -> bool:
    """Whether there is a `coqc`."""
    return shutil.which("coqc") is not None


def copy_library(folder: Path, axioms: Axioms = "machine") -> None:
    """Put the library's files into a folder, so that they can be checked without this package."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in LIBRARY:
        source = sources() / f"{_CARRIERS[axioms] if name == 'Carrier' else name}.v"
        target = folder / f"{name}.v"
        if not target.exists() or target.read_bytes() != source.read_bytes():
            target.write_bytes(source.read_bytes())
            target.with_suffix(".vo").unlink(missing_ok=True)


def compile_library(folder: Path, seconds: float = 600) -> None:
    """Compile what is not compiled yet."""
    stale = False
    for name in LIBRARY:
        stale = stale or not (folder / f"{name}.vo").exists()
        if stale:
            say(f"Coq checks the library: {name}.v")
            compiled(folder, name, ("-Q", ".", "Tsc"), seconds)


def compiled(folder: Path, name: str, paths: tuple[str, ...], seconds: float) -> str:
    """Compile one file and return what Coq printed.

    Raises:
        CoqError: Coq refused it, with its message, or took too long.
    """
    command = ["coqc", "-q", *_WARNINGS, *paths, f"{name}.v"]
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired:
        raise CoqError(f"Coq did not finish {folder / name}.v in {seconds:g} seconds") from None
    if done.returncode:
        raise CoqError(f"Coq refuses {folder / name}.v:\n{done.stderr.strip()[-2000:]}")
    return done.stdout


def assumptions(printed: str) -> list[str]:
    """The names below `Axioms:` in what `Print Assumptions` printed.

    Example:
        >>> assumptions("Axioms:\\nclassic : forall P,\\n  P \\\\/ ~ P\\nPrimInt63.int : Set")
        ['PrimInt63.int', 'classic']
    """
    _, _, listed = printed.partition("Axioms:\n")
    return sorted(re.findall(r"^(\S+)(?= :|\n|$)", listed, re.MULTILINE))


def allowed(axioms: Axioms) -> set[str]:
    """The axioms a theorem may rest on, from the library's list."""
    lines = (sources() / "axioms.txt").read_text("utf-8").splitlines()
    names = [line for line in lines if line and not line.startswith("#")]
    return {name for name in names if axioms == "machine" or "Int63" not in name.split(".")[0]}
