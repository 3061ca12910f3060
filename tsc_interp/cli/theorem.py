"""`tsc-interp theorem`: what a model answers, as theorems for the proof assistant Coq."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tsc_interp.cli.common import named_model, tell, working
from tsc_interp.cli.signature import takes


@takes("formal/theorem.py:theorem", "folder", "frame")
def command(
    model: str | None = None,
    *,
    checkpoint: str | None = None,
    epoch: int | None = None,
    out: Path = Path("tsc-theorem"),
    force: bool = False,
    as_json: bool = False,
    quiet: bool = False,
    **options: Any,
) -> None:
    """State up to which length a model is right, and prove it in Coq.

    Without `coqc` the files are written all the same, with how to check them.

    Args:
        out: The folder for the weights, the statements and the library.
    """
    from tsc_interp.checkpoints import load_checkpoint
    from tsc_interp.formal import theorem

    loaded = load_checkpoint(named_model(model, checkpoint), epoch=epoch)
    with working(quiet) as doing:
        made = theorem(loaded, out, force=force, progress=doing, **options)
    tell(as_json, "theorem/1", made.to_dict, [text for _, text in made.lines()])
