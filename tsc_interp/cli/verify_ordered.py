"""`tsc-interp verify` for order-sensitive models: inputs counted by length, or by step written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from tsc_interp.cli.common import messages, output, print_json, print_line, share_done
from tsc_interp.output.visible import visible

if TYPE_CHECKING:
    from tsc_interp.checkpoints import Checkpoint
    from tsc_interp.verification import OrderedVerdict
    from tsc_interp.verification.order.verdict import PartCount

_DOES_NOT_HOLD = 3


def verify(
    loaded: Checkpoint,
    max_length: int | None,
    *,
    lengths: Sequence[int] | None = None,
    seconds: float | None = None,
    resume: Path | None = None,
    certify: bool,
    out: Path | None,
    force: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Decide, print and leave with exit code 3 unless every input is right."""
    from tsc_interp.verification import OrderedVerdict
    from tsc_interp.verification import verify as decide

    console = messages(quiet)
    console.print("deciding every input")
    with share_done(console, "all inputs") as share:
        verdict = decide(
            loaded,
            max_length,
            lengths=lengths or None,
            seconds=seconds,
            resume=resume,
            certify=certify,
            progress=share,
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
    for sentence in _counts(verdict.counts):
        print_line(console, f"  {sentence}")
    kinds = {"right": verdict.right, "wrong": verdict.wrong, "undecided": verdict.undecided}
    counts = ", ".join(f"{count:,} {kind}" for kind, count in kinds.items())
    print_line(console, f"Of {verdict.inputs:,} inputs: {counts}.")
    for kind, sentence in verdict._lines():
        said = f"  proved: {sentence}" if kind == "proved" else _sentence(sentence)
        print_line(console, said.replace("`", ""))
    print_line(console, "Statements about real numbers, the float32 weights taken as exact.")


def _sentence(words: str) -> str:
    return f"{words[0].upper()}{words[1:]}."


def _counts(counts: Sequence[PartCount]) -> Iterator[str]:
    """A line for each length or step; neighbours without errors share one."""
    for clean, run in groupby(counts, key=lambda one: not one.wrong and not one.undecided):
        some = list(run)
        if clean:
            # Every step reads the same inputs, and every length its own.
            inputs = sum(one.inputs for one in some) if some[0].step is None else some[0].inputs
            yield f"{_name(some)}: all {inputs:,} inputs right"
            continue
        for one in some:
            open_ = f", {one.undecided:,} undecided" if one.undecided else ""
            yield f"{_name([one])}: {one.wrong:,} of {one.inputs:,} inputs wrong{open_}"


def _name(run: Sequence[PartCount]) -> str:
    what = "length" if run[0].step is None else "step"
    first, last = (one.length if one.step is None else one.step for one in (run[0], run[-1]))
    return f"{what} {first}" if first == last else f"{what}s {first} to {last}"


def check(path: Path, loaded: Checkpoint) -> tuple[str, ...]:
    """What a certificate proves of this model."""
    from tsc_interp.verification import check as derive
    from tsc_interp.verification import read_certificate

    return derive(read_certificate(path), loaded).sentences
