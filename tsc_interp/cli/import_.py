"""`tsc-interp import`: the source report's own checkpoints, turned into ours."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from tsc_interp.cli.common import messages


class Norm(StrEnum):
    off = "off"
    rms = "rms"
    layer = "layer"


def command(
    model: Annotated[
        Path, typer.Argument(help="A state dict saved by torch.save.", metavar="MODEL.pt")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="Where to write the checkpoint.")],
    n_heads: Annotated[
        int | None, typer.Option(help="Number of heads (default: heads of size 1).")
    ] = None,
    attend_cls: Annotated[
        bool, typer.Option("--attend-cls", help="The model attends to CLS.")
    ] = False,
    norm: Annotated[Norm, typer.Option(help="The kind of norm, if the model has one.")] = Norm.off,
    norm_eps: Annotated[float, typer.Option(help="The norm's epsilon.")] = 1e-5,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
) -> None:
    """Read one of the source report's checkpoints (without running code) and write it as ours."""
    from tsc_interp.files import check_output
    from tsc_interp.reproduction.source_models import read_source_model

    # A checkpoint may be the only copy of a model, so none is replaced unasked.
    check_output(out, None, force=force, reads=[model])
    checkpoint = read_source_model(
        model, n_heads=n_heads, attend_cls=attend_cls, norm=norm.value, norm_eps=norm_eps
    )
    checkpoint.save(out, force=force)
    messages().print(f"wrote {out}: {checkpoint.n_parameters} parameters")
