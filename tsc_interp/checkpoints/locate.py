"""From what a person types after `--checkpoint` to a checkpoint: a name, a file, a run, a row."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path

from tsc_interp.checkpoints.checkpoint import SUFFIX, Checkpoint, read_checkpoint
from tsc_interp.checkpoints.run_directory import RunDirectory
from tsc_interp.checkpoints.run_list import find_run
from tsc_interp.checkpoints.shards import find_sweep, row_checkpoint
from tsc_interp.errors import CheckpointError, UsageError, shorten, suggest
from tsc_interp.files import reason, shown

DEFAULT = "walkthrough"
_AT_EPOCH = re.compile(r"(.+)@(\d{1,6})", re.DOTALL)
_AT_ROW = re.compile(r"(.+):(\d{1,9})", re.DOTALL)
_BUNDLED = Path(__file__).parent / "bundled"


def bundled_names() -> list[str]:
    """Return the names of the models that come with the package, in the source report's order.

    Example:
        >>> bundled_names()[:2]
        ['walkthrough', 'generalization-errors']
    """
    order = ["walkthrough", "generalization-errors", "attend-cls", "increased-dimensionality",
             "lower-magnitude", "many-heads"]  # fmt: skip
    present = {path.stem for path in _BUNDLED.glob(f"*{SUFFIX}")}
    return [name for name in order if name in present] + sorted(present - set(order))


def bundled_path(name: str) -> Path:
    return _BUNDLED / f"{name}{SUFFIX}"


def load_checkpoint(
    where: str | os.PathLike[str] = DEFAULT, *, epoch: int | None = None
) -> Checkpoint:
    """Load a checkpoint.

    Args:
        where: A bundled name, a `.safetensors` file, a run directory, the address of a run, which
            may name an epoch (`RUN@3`), or a row of a sweep (`SWEEP:ROW`).
        epoch: The epoch of a run, by default the chosen one.

    Returns:
        The configuration and weights.

    Raises:
        CheckpointError: There is no such checkpoint, or it cannot be read.

    Example:
        >>> load_checkpoint("walkthrough").n_parameters
        36
    """
    if sweep := split_row(where):
        if epoch is not None:
            raise UsageError(f"a sweep keeps the chosen epoch only; {shown(where)} has no others")
        return row_checkpoint(*sweep)
    place, named = split_epoch(where)
    run = open_run(place)
    if run is not None:
        if None not in (epoch, named) and epoch != named:
            raise UsageError(f"{shown(where)} is epoch {named}, but epoch {epoch} is asked for")
        return run.checkpoint(named if epoch is None else epoch)
    if named is not None:
        raise CheckpointError(_nothing_there(str(where)))
    if epoch is not None:
        raise UsageError(
            f"an epoch can be picked from a run directory only; {shown(where)} is not one"
        )
    if name := _bundled_name(where):
        return replace(read_checkpoint(bundled_path(name)), source=name)
    if _kind(where) == "file":
        return read_checkpoint(where)
    raise CheckpointError(_nothing_there(str(where)))


def names_a_model(text: str) -> bool:
    """Tell a model from a string of letters, where a command line may start with either.

    A model is a bundled name (or nearly one: the error then says which), a `.safetensors` file, a
    run directory, the address of a run, or a row of a sweep.

    Example:
        >>> names_a_model("walkthrough"), names_a_model("walkthru"), names_a_model("ab{66}")
        (True, True, False)
    """
    if _bundled_name(text) or suggest(text, bundled_names()) or text.endswith(SUFFIX):
        return True
    try:
        return split_row(text) is not None or open_run(text) is not None
    except UsageError:  # an experiment whose name fits several of its runs
        return "\0" not in text
    except CheckpointError:  # too long for a name, or a folder that is no run
        return os.sep in text


def split_epoch(where: str | os.PathLike[str]) -> tuple[str | os.PathLike[str], int | None]:
    """`RUN@3` as the run and the epoch; anything that is there under its whole name stays whole."""
    match = _AT_EPOCH.fullmatch(where) if isinstance(where, str) else None
    if match is None or _kind(where) is not None:
        return where, None
    return match[1], int(match[2])


def split_row(where: str | os.PathLike[str]) -> tuple[Path, int] | None:
    """`sweeps/width:17` as the sweep's directory and the row; `width:17` means the same."""
    match = _AT_ROW.fullmatch(where) if isinstance(where, str) else None
    if match is None or _kind(where) is not None:
        return None
    place = find_sweep(match[1])
    return None if place is None else (place, int(match[2]))


def open_run(where: str | os.PathLike[str]) -> RunDirectory | None:
    """The run meant by a directory, or by an address in `runs`; None if it is something else."""
    if split_row(where):
        return None
    where, _ = split_epoch(where)
    kind = _kind(where)
    if kind == "folder":
        return RunDirectory.open(where)
    if kind == "file" or _bundled_name(where) or not isinstance(where, str):
        return None
    run = find_run(where)
    return None if run is None else run.directory


def _bundled_name(where: str | os.PathLike[str]) -> str | None:
    name = where.replace("_", "-") if isinstance(where, str) else ""
    return name if name in bundled_names() else None


def _kind(where: str | os.PathLike[str]) -> str | None:
    path = _path(where)
    try:
        return "folder" if path.is_dir() else "file" if path.exists() else None
    except OSError as error:  # a name that is too long, a folder that may not be looked into
        raise CheckpointError(f"no checkpoint {shown(path)!r}: {reason(error)}") from None


def _path(where: str | os.PathLike[str]) -> Path:
    if isinstance(where, str | os.PathLike) and "\0" not in os.fspath(where):
        return Path(where)
    raise UsageError(f"a checkpoint is a name or a path, got {shorten(where)}")


def _nothing_there(where: str) -> str:
    names = bundled_names()
    hint = suggest(where, names)
    if hint:
        return f"no checkpoint {shown(where)!r}: {hint}'tsc-interp list' shows the bundled models"
    return (
        f"no checkpoint {shown(where)!r}: expected a bundled model ({', '.join(names)}), a "
        f"{SUFFIX} file, a run ('tsc-interp runs' lists them; RUN@3 is its epoch 3), or a row of "
        "a sweep, DIR:ROW"
    )
