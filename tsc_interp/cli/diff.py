"""`tsc-interp diff`: which strings two models answer differently, decided for every string."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tsc_interp.cli.common import (
    ForceOption,
    JsonOption,
    QuietOption,
    complete_checkpoint,
    only,
    output,
    print_checked,
    print_json,
    working,
)

_DIFFERENT = 3
_Model = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="A bundled model, a .safetensors file, or a run.",
        autocompletion=complete_checkpoint,
        show_default=False,
    ),
]


def command(
    first: _Model,
    second: _Model,
    max_length: int | None = typer.Option(
        None, "--max-length", "-L", min=1, help="Count every string up to this length (200)."
    ),
    limit: int = typer.Option(
        10**6, min=1, help="The greatest length searched for the first difference."
    ),
    out: Path | None = typer.Option(None, "--out", "-o", help="Write the certificate here."),
    check: Path | None = typer.Option(
        None, help="Only check this certificate about the two models."
    ),
    force: ForceOption = False,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Compare two models: the exact set of strings they answer differently.

    Two epochs of a run, a model and its pruned copy, any two with the same alphabet. Exit code 3
    if they differ on some string, or if a certificate is rejected.
    """
    from tsc_interp.checkpoints import load_checkpoint
    from tsc_interp.files import check_output
    from tsc_interp.verification import check as check_proof
    from tsc_interp.verification import diff
    from tsc_interp.verification.documents import is_certificate

    if check is not None:
        only("--check", out=out)
    models = [load_checkpoint(name) for name in (first, second)]
    if check is not None:
        print_checked(
            "diff-check/1",
            check,
            lambda: check_proof(check, *models).sentences,
            as_json,
        )
        return
    if out is not None:
        check_output(out, is_certificate, force=force, reads=[model.source for model in models])
    with working(quiet) as doing:
        doing(f"comparing {first} and {second} on every string")
        compared = diff(*models, max_length=max_length, limit=limit, progress=doing)
    if out is not None:
        compared.save(out, force=force)
    if as_json:
        print_json("diff/1", compared.to_dict())
    else:
        for sentence in compared.sentences():
            output().print(sentence.replace("`", ""))
        if out is not None:
            output().print(f"Certificate written to {out}.")
    if compared.counted.differing or compared.shortest is not None:
        raise typer.Exit(_DIFFERENT)
