"""From what a person types after `--checkpoint` to a checkpoint: a bundled name, a file, a run."""

from __future__ import annotations

import difflib
import os
from dataclasses import replace
from pathlib import Path

from tsc_interp.checkpoints.format import SUFFIX, Checkpoint, read_checkpoint
from tsc_interp.checkpoints.run_directory import RunDirectory
from tsc_interp.errors import CheckpointError, UsageError, shorten
from tsc_interp.files import reason, shown

DEFAULT = "walkthrough"
_BUNDLED = Path(__file__).parent / "bundled"


def bundled_names() -> list[str]:
    """The models that come with the package, in the order the report meets them."""
    order = ["walkthrough", "generalization-errors", "attend-cls", "increased-dimensionality",
             "lower-magnitude", "many-heads"]  # fmt: skip
    present = {path.stem for path in _BUNDLED.glob(f"*{SUFFIX}")}
    return [name for name in order if name in present] + sorted(present - set(order))


def bundled_path(name: str) -> Path:
    return _BUNDLED / f"{name}{SUFFIX}"


def load_checkpoint(
    where: str | os.PathLike[str] = DEFAULT, *, epoch: int | None = None
) -> Checkpoint:
    """A bundled name, a `.safetensors` file, or a run directory (its chosen epoch, or `epoch`)."""
    path = _path(where)
    try:
        is_folder, is_there = path.is_dir(), path.exists()
    except OSError as error:  # a name that is too long, a folder that may not be looked into
        raise CheckpointError(f"no checkpoint {shown(path)!r}: {reason(error)}") from None
    if is_folder:
        return RunDirectory.open(path).checkpoint(epoch)
    if epoch is not None:
        raise UsageError(f"an epoch can be picked from a run directory only; {where} is not one")
    name = where.replace("_", "-") if isinstance(where, str) else ""
    if name in bundled_names():
        return replace(read_checkpoint(bundled_path(name)), source=name)
    if is_there:
        return read_checkpoint(path)
    raise CheckpointError(_nothing_there(str(where)))


def _path(where: str | os.PathLike[str]) -> Path:
    if isinstance(where, str | os.PathLike) and "\0" not in os.fspath(where):
        return Path(where)
    raise UsageError(f"a checkpoint is a name or a path, got {shorten(where)}")


def _nothing_there(where: str) -> str:
    names = bundled_names()
    nearest = difflib.get_close_matches(where.replace("_", "-"), names, n=1)
    hint = f"did you mean {nearest[0]!r}? " if nearest else ""
    return (
        f"no checkpoint {shown(where)!r}: {hint}expected a bundled model ({', '.join(names)}), "
        f"a {SUFFIX} file, or a run directory"
    )
