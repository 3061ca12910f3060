"""`tsc-interp verify` for a model that sees order: strings counted length by length."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from tsc_interp.cli.common import output, print_json, working
from tsc_interp.output.visible import visible

if TYPE_CHECKING:
    from tsc_interp.checkpoints import Checkpoint
    from tsc_interp.verification import OrderedVerdict

_DOES_NOT_HOLD = 3


def verify(
    loaded: Checkpoint,
    max_length: int | None,
    *,
    lengths: Sequence[int] | None = None,
    seconds: float | None = None,
    certify: bool,
    out: Path | None,
    force: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    from tsc_interp.verification import OrderedVerdict
    from tsc_interp.verification import verify as decide

    with working(quiet) as doing:
        doing("deciding every input")
        verdict = decide(
            loaded, max_length, lengths=lengths or None, seconds=seconds, certify=certify
        )
    assert isinstance(verdict, OrderedVerdict)
    if out is not None and verdict.certificate is not None:
        verdict.certificate.save(out, force=force)
    if as_json:
        print_json("verify-ordered/2", verdict.to_dict())
    else:
        _print(loaded, verdict)
        if out is not None:
            output().print(f"Certificate written to {out}.")
    if not verdict.correct:
        raise typer.Exit(_DOES_NOT_HOLD)


def _print(loaded: Checkpoint, verdict: OrderedVerdict) -> None:
    console = output()
    console.print(f"{visible(loaded.source)}: {visible(loaded.config.question)}?", style="bold")
    for one in verdict.counts:
        name = f"length {one.length:,}" if one.step is None else f"step {one.step}"
        open_ = f", {one.undecided:,} undecided" if one.undecided else ""
        console.print(f"  {name}: {one.wrong:,} of {one.inputs:,} wrong{open_}")
    if verdict.steps:
        open_ = f", {verdict.undecided:,} undecided" if verdict.undecided else ""
        console.print(f"{verdict.wrong:,} of {verdict.inputs:,} inputs wrong{open_}.")
    for kind, sentence in verdict._lines():
        said = f"  proved: {sentence}" if kind == "proved" else sentence
        console.print(visible(said.replace("`", "")))
    console.print("Statements about real numbers, the float32 weights taken as exact.")


def check(path: Path, loaded: Checkpoint) -> tuple[str, ...]:
    """What a certificate proves of this model."""
    from tsc_interp.verification import check as derive
    from tsc_interp.verification import read_certificate

    return derive(read_certificate(path), loaded).sentences
