"""`tsc-interp prune`: a smaller model that still does its task."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tsc_interp.cli.common import named_model, only, tell, working
from tsc_interp.cli.signature import takes


@takes("pruning/prune.py:prune", "limit")
def command(
    model: str | None = None,
    *,
    checkpoint: str | None = None,
    epoch: int | None = None,
    out: Path | None = None,
    force: bool = False,
    as_json: bool = False,
    quiet: bool = False,
    **options: Any,
) -> None:
    """Remove heads, neurons and dimensions, judged by exact horizons.

    Args:
        model: A bundled model, a .safetensors file, or a run. Default: many-heads.
        out: Write the smaller model here.
    """
    from tsc_interp.checkpoints import load_checkpoint
    from tsc_interp.checkpoints.checkpoint import is_checkpoint
    from tsc_interp.files import check_output
    from tsc_interp.pruning import prune

    if "keep" in options:
        only("--keep", keep_horizon=options["keep_horizon"])
    loaded = load_checkpoint(named_model(model, checkpoint, "many-heads"), epoch=epoch)
    if out is not None:
        check_output(out, is_checkpoint, force=force, reads=[loaded.source])
    with working(quiet) as doing:
        pruned = prune(loaded, progress=doing, **options)
    if out is not None:
        pruned.checkpoint.save(out, force=force)
    lines = [*pruned.sentences(), *([] if out is None else [f"The smaller model is {out}."])]
    tell(as_json, "prune/2", pruned.to_dict, lines)
