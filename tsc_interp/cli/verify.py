"""`tsc-interp verify`: which strings a model gets wrong, decided for every string."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tsc_interp.cli.common import (
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
from tsc_interp.cli.signature import takes
from tsc_interp.output.visible import visible
from tsc_interp.telling import told

if TYPE_CHECKING:
    from tsc_interp.checkpoints import Checkpoint
    from tsc_interp.verification import OrderedVerdict, Verdict

_DOES_NOT_HOLD = 3
_QUICK = 3_000_000
"""Count vectors that need no progress bar."""


@takes("verification/questions.py:verify")
def command(
    model: str | None = None,
    *,
    checkpoint: str | None = None,
    epoch: int | None = None,
    float32: str | None = None,
    replay: bool = True,
    out: Path | None = None,
    check: Path | None = None,
    force: bool = False,
    as_json: bool = False,
    quiet: bool = False,
    **options: Any,
) -> None:
    """Decide exactly which strings a model gets wrong.

    Counts every misclassified string up to a length. Exit code 3 if there are any, or if a
    certificate is rejected.

    Args:
        float32: With --certify: also prove up to which length the float32 model is right, any
            order of sums; strings given as 'tokens' or 'compressed'.
        replay: Run the counterexamples through the float32 model.
        out: Write the certificate here (with --certify).
        check: Only check this certificate against the model.
    """
    from tsc_interp.checkpoints import load_checkpoint
    from tsc_interp.errors import UsageError
    from tsc_interp.files import check_output
    from tsc_interp.verification import check as check_claims
    from tsc_interp.verification.documents import is_certificate

    if check is not None:
        given = {name.removesuffix("s"): value for name, value in options.items()}
        only("--check", **given, out=out, float32=float32)
    for option, value in (("--out", out), ("--float32", float32)):
        if value is not None and not options["certify"]:
            raise UsageError(f"{option} is about a certificate, so it needs --certify")
    loaded = load_checkpoint(named_model(model, checkpoint), epoch=epoch)
    if out is not None:
        check_output(out, is_certificate, force=force, reads=[loaded.source])
    if check is not None:
        print_checked(
            "verify-check/1", check, lambda: check_claims(check, loaded).sentences, as_json
        )
        return
    verdict = _verified(loaded, quiet, float32=float32, replay=replay, **options)
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


def _verified(
    loaded: Checkpoint, quiet: bool, *, replay: bool, **options: Any
) -> Verdict | OrderedVerdict:
    """Ask the library, with a bar for what takes long."""
    from math import comb

    from tsc_interp.verification import Verdict, verify
    from tsc_interp.verification.questions import default_length

    console = messages(quiet)
    if loaded.config.needs_order:
        console.print("deciding every input")
        with share_done(console, "all inputs") as share, told(in_lines(console)):
            return verify(loaded, progress=share, **options)
    letters = loaded.config.n_letters
    length = options.get("max_length") or default_length(loaded)
    # The total is for the bar alone; a length beyond reach is refused before there is one.
    total = comb(min(length, 10**6) + letters, letters) - 1
    done = 0

    def more(vectors: int) -> None:
        nonlocal done
        done += vectors
        if tell is not None:
            tell(done / total)

    shown = not quiet and total > _QUICK
    bar = share_done(console, f"{total:,} count vectors") if shown else nullcontext(None)
    with told(in_lines(console)), bar as tell:
        verdict = verify(
            loaded, progress=more, replay=False,
            announce=lambda sentence: print_line(console, sentence), **options,
        )  # fmt: skip
    if not isinstance(verdict, Verdict) or not (replay and verdict.counterexamples):
        return verdict
    from tsc_interp.verification.replay import replay_all

    with working(quiet) as doing:
        doing("asking the float32 model (--no-replay skips this)")
        return replace(verdict, replays=replay_all(loaded, verdict.counterexamples))


def _print(verdict: Verdict | OrderedVerdict, loaded: Checkpoint) -> None:
    console = output()
    console.print(visible(f"{loaded.source}: {loaded.config.question}?"), style="bold")
    for style, sentence in verdict.lines():
        print_line(console, sentence, style)
