"""`tsc-interp prune`: a smaller model that still does its task."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tsc_interp.cli.common import (
    CheckpointOption,
    EpochOption,
    ForceOption,
    JsonOption,
    QuietOption,
    model_argument,
    named_model,
    only,
    output,
    print_json,
    working,
)

_DEFAULT = "many-heads"


def command(
    model: Annotated[str | None, model_argument(_DEFAULT)] = None,
    checkpoint: CheckpointOption = None,
    epoch: EpochOption = None,
    keep: int | None = typer.Option(None, min=1, help="How many heads to keep."),
    keep_horizon: bool = typer.Option(
        False,
        "--keep-horizon",
        help="Remove as much as possible without shortening the horizon; the default.",
    ),
    out: Path | None = typer.Option(None, "--out", "-o", help="Write the smaller model here."),
    force: ForceOption = False,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Remove heads, neurons and dimensions, judged by exact horizons."""
    from tsc_interp.checkpoints import load_checkpoint
    from tsc_interp.checkpoints.checkpoint import is_checkpoint
    from tsc_interp.files import check_output
    from tsc_interp.pruning import prune

    if keep is not None:
        only("--keep", keep_horizon=keep_horizon)
    loaded = load_checkpoint(named_model(model, checkpoint, _DEFAULT), epoch=epoch)
    if out is not None:
        check_output(out, is_checkpoint, force=force, reads=[loaded.source])
    with working(quiet) as doing:
        pruned = prune(loaded, keep=keep, keep_horizon=keep_horizon, progress=doing)
    if out is not None:
        pruned.checkpoint.save(out, force=force)
    if as_json:
        print_json("prune/2", pruned.to_dict())
        return
    for sentence in pruned.sentences():
        output().print(sentence)
    if out is not None:
        output().print(f"The smaller model is {out}.")
