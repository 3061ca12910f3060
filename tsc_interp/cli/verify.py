"""`tsc-interp verify`: which strings a model gets wrong, decided for every string."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tsc_interp.cli.common import (
    CheckpointOption,
    EpochOption,
    ForceOption,
    JsonOption,
    ModelArgument,
    QuietOption,
    in_lines,
    messages,
    named_model,
    only,
    output,
    print_checked,
    print_json,
    print_line,
    share_done,
    working,
)
from tsc_interp.output.visible import visible
from tsc_interp.source_report import TEST_LENGTH
from tsc_interp.telling import told

if TYPE_CHECKING:
    from tsc_interp.checkpoints import Checkpoint
    from tsc_interp.verification import OrderedVerdict, Verdict

_DOES_NOT_HOLD = 3
_QUICK = 3_000_000
"""Count vectors that need no progress bar."""


def command(
    model: ModelArgument = None,
    checkpoint: CheckpointOption = None,
    epoch: EpochOption = None,
    max_length: int | None = typer.Option(
        None,
        "--max-length",
        "-L",
        min=1,
        help=f"Count every string up to this length (default: {TEST_LENGTH}, or what a model's "
        "positions have room for).",
    ),
    length: list[int] | None = typer.Option(
        None, min=1, help="For order-sensitive models: verify this length; repeatable."
    ),
    seconds: float | None = typer.Option(
        None, help="For order-sensitive models: stop after so many seconds; the rest is undecided."
    ),
    resume: Path | None = typer.Option(
        None, help="For order-sensitive models: keep the search in this folder, to go on with it."
    ),
    horizon: bool = typer.Option(
        False,
        "--horizon",
        help="Also find the horizon: the length up to which every string is right.",
    ),
    certify: bool = typer.Option(False, "--certify", help="Also prove claims about every length."),
    float32: str | None = typer.Option(
        None,
        help="With --certify: also prove up to which length the float32 model is right, any "
        "order of sums; strings given as 'tokens' or 'compressed'.",
    ),
    out: Path | None = typer.Option(
        None, "--out", "-o", help="Write the certificate here (with --certify)."
    ),
    check: Path | None = typer.Option(None, help="Only check this certificate against the model."),
    replay: bool = typer.Option(
        True, "--replay/--no-replay", help="Run the counterexamples through the float32 model."
    ),
    force: ForceOption = False,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Decide exactly which strings a model gets wrong.

    Counts every misclassified string up to a length. Exit code 3 if there are any, or if a
    certificate is rejected.
    """
    from tsc_interp.checkpoints import load_checkpoint
    from tsc_interp.errors import UsageError
    from tsc_interp.files import check_output
    from tsc_interp.verification import check as check_claims
    from tsc_interp.verification.documents import is_certificate
    from tsc_interp.verification.questions import default_length

    if check is not None:
        only("--check", certify=certify, horizon=horizon, out=out, float32=float32, length=length)
    if out is not None and not certify:
        raise UsageError("--out writes a certificate, so it needs --certify")
    if float32 is not None and not certify:
        raise UsageError("--float32 is claimed in a certificate, so it needs --certify")
    loaded = load_checkpoint(named_model(model, checkpoint), epoch=epoch)
    ordered = loaded.config.needs_order
    if out is not None:
        check_output(out, is_certificate, force=force, reads=[loaded.source])
    if check is not None:
        print_checked(
            "verify-check/1", check, lambda: check_claims(check, loaded).sentences, as_json
        )
        return
    verdict: Verdict | OrderedVerdict
    options: dict[str, Any]
    if ordered:
        if horizon or float32 is not None:
            raise UsageError(
                "this model sees the order of letters: its strings are counted length by length, "
                "without --horizon and --float32"
            )
        options = {"lengths": length or None, "seconds": seconds, "resume": resume}
        verdict = _verify_ordered(loaded, quiet, max_length=max_length, certify=certify, **options)
    else:
        if length or seconds is not None or resume is not None:
            raise UsageError("--length, --seconds and --resume are for order-sensitive models only")
        options = {"horizon": horizon, "certify": certify, "float32": float32}
        verdict = _verify(loaded, max_length or default_length(loaded), options, quiet)
        if replay and verdict.counterexamples:
            verdict = _replayed(verdict, loaded, quiet)
    if out is not None and verdict.certificate is not None:
        verdict.certificate.save(out, force=force)
    if as_json:
        print_json(verdict.schema, verdict.to_dict())
    else:
        _print(verdict, loaded)
        if out is not None:
            output().print(f"Certificate written to {out}.")
    if not verdict.correct:
        raise typer.Exit(_DOES_NOT_HOLD)


def _verify_ordered(loaded: Checkpoint, quiet: bool, **options: Any) -> OrderedVerdict:
    from tsc_interp.verification import OrderedVerdict, verify

    console = messages(quiet)
    console.print("deciding every input")
    with share_done(console, "all inputs") as share, told(in_lines(console)):
        verdict = verify(loaded, progress=share, **options)
    assert isinstance(verdict, OrderedVerdict)
    return verdict


def _verify(loaded: Checkpoint, max_length: int, options: Any, quiet: bool) -> Verdict:
    from math import comb

    from tsc_interp.verification.verdict import verify_counts

    console, letters = messages(quiet), loaded.config.n_letters
    # The total is for the bar alone; a length beyond reach is refused before there is one.
    total = comb(min(max_length, 10**6) + letters, letters) - 1
    shown, done = not quiet and total > _QUICK, 0

    def more(vectors: int) -> None:
        nonlocal done
        done += vectors
        if tell is not None:
            tell(done / total)

    words = f"{total:,} count vectors"
    doing = in_lines(console) if options["certify"] or options["horizon"] else None
    with told(doing), share_done(console, words) if shown else nullcontext(None) as tell:
        return verify_counts(
            loaded, max_length, **options,
            progress=more, announce=lambda sentence: print_line(console, sentence),
        )  # fmt: skip


def _replayed(verdict: Verdict, loaded: Checkpoint, quiet: bool) -> Verdict:
    from dataclasses import replace

    from tsc_interp.verification.replay import replay_all

    with working(quiet) as doing:
        doing("asking the float32 model (--no-replay skips this)")
        return replace(verdict, replays=replay_all(loaded, verdict.counterexamples))


def _print(verdict: Verdict | OrderedVerdict, loaded: Checkpoint) -> None:
    console = output()
    console.print(visible(f"{loaded.source}: {loaded.config.question}?"), style="bold")
    for style, sentence in verdict.lines():
        print_line(console, sentence, style)
