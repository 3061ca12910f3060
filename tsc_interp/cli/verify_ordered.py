"""`tsc-interp verify` for a model that sees order: strings counted length by length."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from tsc_interp.cli.common import output, print_json, working
from tsc_interp.output.visible import visible

if TYPE_CHECKING:
    from tsc_interp.checkpoints import Checkpoint

_DOES_NOT_HOLD = 3


def verify(
    loaded: Checkpoint,
    max_length: int | None,
    *,
    certify: bool,
    out: Path | None,
    force: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    from tsc_interp.verification import verify_ordered

    with working(quiet) as doing:
        doing("deciding every string, length by length")
        verdict = verify_ordered(loaded, max_length, certify=certify)
    if out is not None and verdict.certificate is not None:
        verdict.certificate.save(out, force=force)
    if as_json:
        print_json("verify-ordered/1", verdict.to_dict())
    else:
        console = output()
        console.print(f"{visible(loaded.source)}: {visible(loaded.config.question)}?", style="bold")
        for one in verdict.lengths:
            told = f"{one.wrong:,} of {one.strings:,} wrong"
            told += f", {one.undecided:,} undecided" if one.undecided else ""
            console.print(f"  length {one.length:,}: {told}")
        proved = verdict.certificate.proved if verdict.certificate else ()
        for _, sentence in verdict._lines():
            said = f"  proved: {sentence}" if sentence in proved else sentence
            console.print(visible(said.replace("`", "")))
        console.print("Statements about real numbers, the float32 weights taken as exact.")
        if out is not None:
            console.print(f"Certificate written to {out}.")
    if not verdict.correct:
        raise typer.Exit(_DOES_NOT_HOLD)


def check(path: Path, loaded: Checkpoint) -> tuple[str, ...]:
    """What a certificate proves of this model."""
    from tsc_interp.verification import check_ordered, read_certificate

    return check_ordered(read_certificate(path), loaded).sentences
