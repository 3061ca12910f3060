"""`tsc-interp diff`: which strings two models answer differently, decided for every string."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from tsc_interp.cli.common import only, print_checked, tell, working
from tsc_interp.cli.signature import takes

_DIFFERENT = 3


@takes("verification/comparison.py:diff", "boxes", "prove")
def command(
    first: str,
    second: str,
    *,
    out: Path | None = None,
    check: Path | None = None,
    force: bool = False,
    as_json: bool = False,
    quiet: bool = False,
    **options: Any,
) -> None:
    """Compare two models: the exact set of strings they answer differently.

    Two epochs of a run, a model and its pruned copy, any two with the same alphabet. Exit code 3
    if they differ on some string, or if a certificate is rejected.

    Args:
        first (MODEL): A bundled model, a .safetensors file, or a run.
        second (MODEL): Another one.
        out: Write the certificate here.
        check: Only check this certificate about the two models.
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
        print_checked("diff-check/1", check, lambda: check_proof(check, *models).sentences, as_json)
        return
    if out is not None:
        check_output(out, is_certificate, force=force, reads=[model.source for model in models])
    with working(quiet) as doing:
        doing(f"comparing {first} and {second} on every string")
        compared = diff(*models, progress=doing, **options)
    if out is not None:
        compared.save(out, force=force)
    lines = [*compared.sentences(), *([] if out is None else [f"Certificate written to {out}."])]
    tell(as_json, "diff/1", compared.to_dict, lines)
    if compared.counted.differing or compared.shortest is not None:
        raise typer.Exit(_DIFFERENT)
