"""Writing a report to disk: all of it or nothing, and never over somebody else's files."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
from collections.abc import Callable, Sequence
from pathlib import Path

from tsc_interp.errors import OutputError, UsageError
from tsc_interp.files import TEMPORARY, kind_of, made_folder, reason, temporary_name

MARK = ".tsc-interp-report.json"
_MARK_SCHEMA = "tsc-interp/report-files/1"


def check_directory(directory: Path, *, force: bool) -> None:
    """Refuse, before any work is done, a place that holds anything but a report of ours."""
    kind = kind_of(directory)
    if kind == "file":
        raise UsageError(f"{directory} is a file; a report is a directory, so choose another name")
    if kind == "folder" and not force and (others := _not_ours(directory)):
        named = ", ".join(others[:3]) + (", ..." if len(others) > 3 else "")
        raise UsageError(
            f"{directory} exists and holds other files than a report's, or changed ones ({named}); "
            "choose another directory with --out, or pass --force to write the report among them"
        )


def replace_report(directory: Path, write: Callable[[Path], None], *, force: bool) -> None:
    """`write` fills a temporary directory; its files then move into place, one by one."""
    check_directory(directory, force=force)
    try:
        with made_folder(directory):
            temporary = directory / temporary_name()
            temporary.mkdir()
            try:
                write(temporary)
                _write_mark(temporary)
                _move(temporary, directory)
            finally:
                shutil.rmtree(temporary, ignore_errors=True)
    except OSError as error:
        raise OutputError(
            f"cannot write the report to {directory}: {reason(error)}; nothing was changed"
        ) from None


def _move(temporary: Path, directory: Path) -> None:
    """Each file into its place, those of the last report that have no successor away."""
    new = _files(temporary)
    for name in new:
        if kind_of(directory / name) == "folder":
            raise UsageError(f"{directory / name} is a folder, where the report has a file")
    stale = [name for name in sorted(_unchanged(directory)) if name not in new]
    backup = temporary / temporary_name()
    backup.mkdir()
    moved: list[str] = []
    try:
        for name in [*new, *stale]:
            if (directory / name).exists():
                os.replace(directory / name, backup / name)
            moved.append(name)
            if name in new:
                os.replace(temporary / name, directory / name)
    except OSError:
        _put_back(moved, backup, directory)
        raise


def _put_back(moved: Sequence[str], backup: Path, directory: Path) -> None:
    try:
        for name in reversed(moved):
            (directory / name).unlink(missing_ok=True)
            if (backup / name).exists():
                os.replace(backup / name, directory / name)
    except OSError as error:
        rescue_directory = directory / temporary_name()
        backup.rename(rescue_directory)
        raise OutputError(
            f"cannot write the report to {directory}: {reason(error)}; some files were replaced, "
            f"and what they replaced is in {rescue_directory}"
        ) from None


# -- what is ours ------------------------------------------------------------------------------


def _write_mark(place: Path) -> None:
    """Lists what was written, so that the next report replaces exactly that."""
    written = {name: _hash(place / name) for name in _files(place)}
    mark = {"schema": _MARK_SCHEMA, "sha256": written}
    (place / MARK).write_text(json.dumps(mark, indent=1) + "\n", encoding="utf-8")


def _unchanged(directory: Path) -> set[str]:
    """The files of the report that is there, its mark included, as far as nobody changed them."""
    try:
        if _hash(directory / MARK) is None:
            return set()
        mark = json.loads((directory / MARK).read_text(encoding="utf-8"))
        written = dict(mark["sha256"]) if mark["schema"] == _MARK_SCHEMA else None
    except (OSError, ValueError, KeyError, TypeError):
        return set()
    if written is None:
        return set()
    # Only files that the folder lists are hashed, whatever the mark says.
    hashes = {name: _hash(directory / name) for name in _files(directory)}
    same = {name for name, digest in hashes.items() if digest and digest == written.get(name)}
    return same | {MARK}


def _not_ours(directory: Path) -> list[str]:
    present = {path.name for path in directory.iterdir()} - _unchanged(directory)
    return sorted(name for name in present if not name.startswith(TEMPORARY))


def _files(directory: Path) -> list[str]:
    """The names of everything in the folder that is not a folder."""
    inside = (path for path in directory.iterdir() if path.is_symlink() or not path.is_dir())
    return sorted(path.name for path in inside)


def _hash(path: Path) -> str | None:
    """Of a regular file; None for anything else, which is never ours."""
    if not stat.S_ISREG(path.lstat().st_mode):
        return None
    return hashlib.sha256(path.read_bytes()).hexdigest()
