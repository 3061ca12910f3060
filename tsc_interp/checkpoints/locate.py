"""From what a person types after `--checkpoint` to a checkpoint: a bundled name, a file, a run."""

from __future__ import annotations

import difflib
import json
import os
from pathlib import Path

from tsc_interp.checkpoints.format import SUFFIX, Checkpoint, read_checkpoint
from tsc_interp.errors import CheckpointError, UsageError

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
    path = Path(where)
    if path.is_dir():
        return read_checkpoint(epoch_file(path, epoch))
    if epoch is not None:
        raise UsageError(f"an epoch can be picked from a run directory only; {where} is not one")
    if isinstance(where, str) and where in bundled_names():
        checkpoint = read_checkpoint(bundled_path(where))
        return Checkpoint(
            checkpoint.config, checkpoint.weights, checkpoint.provenance, source=where
        )
    if path.exists():
        return read_checkpoint(path)
    raise CheckpointError(_nothing_there(str(where)))


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
        f"no checkpoint {where!r}: {hint}expected a bundled model ({', '.join(names)}), "
        f"a {SUFFIX} file, or a run directory"
    )
