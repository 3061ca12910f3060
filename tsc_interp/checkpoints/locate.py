"""From what a person types after `--checkpoint` to a checkpoint: a bundled name, a file, a run."""

from __future__ import annotations

import difflib
import json
import os
from pathlib import Path

from tsc_interp.checkpoints.format import SUFFIX, Checkpoint, read_checkpoint
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
        return read_checkpoint(epoch_file(path, epoch))
    if epoch is not None:
        raise UsageError(f"an epoch can be picked from a run directory only; {where} is not one")
    if isinstance(where, str) and where in bundled_names():
        checkpoint = read_checkpoint(bundled_path(where))
        return Checkpoint(
            checkpoint.config, checkpoint.weights, checkpoint.provenance, source=where
        )
    if is_there:
        return read_checkpoint(path)
    raise CheckpointError(_nothing_there(str(where)))


def _path(where: str | os.PathLike[str]) -> Path:
    if isinstance(where, str | os.PathLike) and "\0" not in os.fspath(where):
        return Path(where)
    raise UsageError(f"a checkpoint is a name or a path, got {shorten(where)}")


def epoch_file(run: Path, epoch: int | None) -> Path:
    """The checkpoint file of one epoch of a run; without a number, of the chosen one."""
    present = {int(file.stem.removeprefix("epoch=")): file
               for file in sorted((run / "checkpoints").glob(f"epoch=*{SUFFIX}"))}  # fmt: skip
    if not present:
        raise CheckpointError(
            f"{run} is a directory without checkpoints/epoch=NNN{SUFFIX}, so not a run directory"
        )
    if epoch is None:
        epoch = _chosen_epoch(run)
    if epoch not in present:
        raise UsageError(
            f"{run} has epochs {min(present)} to {max(present)}; there is no epoch {epoch}"
        )
    return present[epoch]


def _chosen_epoch(run: Path) -> int:
    try:
        return int(json.loads((run / "result.json").read_text())["chosen_epoch"])
    except FileNotFoundError:
        raise CheckpointError(
            f"{run} is not finished, so no epoch is chosen yet; name one with --epoch"
        ) from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{run / 'result.json'} cannot be read: {error}") from None


def _nothing_there(where: str) -> str:
    names = bundled_names()
    nearest = difflib.get_close_matches(where.replace("_", "-"), names, n=1)
    hint = f"did you mean {nearest[0]!r}? " if nearest else ""
    return (
        f"no checkpoint {shown(where)!r}: {hint}expected a bundled model ({', '.join(names)}), "
        f"a {SUFFIX} file, or a run directory"
    )
