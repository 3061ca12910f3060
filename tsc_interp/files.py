"""Writing to disk: a file appears whole or not at all, and never in place of somebody else's.

What a user names as output is replaced only if we wrote it: a recogniser looks at the first bytes.
Anything else needs `force`, and even then only a regular file is ever replaced: no device, pipe or
link, and no file that is being read.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tsc_interp.errors import OutputError, TscError, UsageError, shorten

TEMPORARY = ".writing-"
"""Begins the names of files not yet complete; one that stays behind can be deleted."""

START = 65536
"""How many bytes a recogniser is shown."""

Recogniser = Callable[[bytes], bool]


def write_atomically(path: Path, content: bytes, *, durable: bool = True) -> None:
    """All of the content or none of it; `durable` also waits until it is on the disk."""
    with made_folder(path.parent):
        temporary = path.with_name(temporary_name())
        try:
            with temporary.open("xb") as file:
                file.write(content)
                if durable:
                    file.flush()
                    os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        if durable:
            _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Wait until the disk has the folder's names; the content is there whatever comes of it."""
    with suppress(OSError):  # not every system lets a folder be opened
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def remove_temporaries(*folders: Path) -> None:
    """Delete what killed writers left; for whoever holds the lock of these folders."""
    for folder in folders:
        for path in folder.glob(f"{TEMPORARY}*"):
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                with suppress(OSError):
                    path.unlink()


def write_output(
    path: Path,
    content: bytes,
    ours: Recogniser | None,
    *,
    force: bool = False,
    reads: Iterable[str | os.PathLike[str]] = (),
) -> None:
    """Write one file a user asked for, if `check_output` has nothing against it."""
    check_output(path, ours, force=force, reads=reads)
    try:
        write_atomically(path, content)
    except OSError as error:
        raise OutputError(f"cannot write {path}: {reason(error)}; nothing was changed") from None


def as_path(value: object) -> Path:
    """A path that was given; a `UsageError` for what no system could write."""
    try:
        if isinstance(value, str | os.PathLike) and b"\0" not in os.fsencode(value):
            return Path(value)
    except (TypeError, UnicodeError):
        pass
    raise UsageError(f"a path was expected, got {shorten(value)}")


def check_output(
    path: Path,
    ours: Recogniser | None,
    *,
    force: bool = False,
    reads: Iterable[str | os.PathLike[str]] = (),
) -> None:
    """Refuse a place that holds what must not be lost; `reads` are the files being read.

    Without a recogniser nothing that is there is taken for our own.
    """
    kind = kind_of(path)
    if kind == "folder":
        raise UsageError(f"{path} is a folder; name a file in it")
    if kind == "nothing":
        return
    if any(_same_file(path, other) for other in reads):
        raise UsageError(f"{path} is the very file being read; choose another name for the output")
    if not force and not _starts(path, ours):
        whose = "" if ours is None else " and is no earlier output of this kind"
        raise UsageError(
            f"{path} exists{whose}; choose another name, or pass --force (in Python: force=True) "
            "to replace it"
        )


def kind_of(path: Path) -> str:
    """'nothing', 'file' or 'folder'; what is neither is refused, links included."""
    try:
        mode = path.lstat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return "nothing"
    except (OSError, ValueError) as error:
        raise OutputError(f"cannot write {shown(path)}: {reason(error)}") from None
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "folder"
    kinds = {stat.S_IFLNK: "a symbolic link", stat.S_IFIFO: "a named pipe",
             stat.S_IFSOCK: "a socket"}  # fmt: skip
    kind = kinds.get(stat.S_IFMT(mode), "a device")
    raise UsageError(f"{path} is {kind}; only regular files and folders are ever replaced")


def read_regular(path: Path, limit: int) -> bytes:
    """The content of a regular file of at most `limit` bytes; an `OSError` for anything else.

    What is no regular file is not even opened: a pipe would wait for a writer.
    """
    status = as_path(path).stat()
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file")
    if status.st_size > limit:
        raise OSError(errno.EFBIG, f"it has {status.st_size:,} bytes, at most {limit:,} are read")
    return path.read_bytes()


def entries(folder: Path, problem: type[TscError]) -> list[os.DirEntry[str]]:
    """What a folder holds, sorted by name; nothing without a folder.

    A `problem` is raised where the system does not let anybody look.
    """
    try:
        with os.scandir(folder) as content:
            return sorted(content, key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise problem(f"cannot look into {shown(folder)}: {reason(error)}") from None


@contextmanager
def made_folder(folder: Path) -> Iterator[None]:
    """The folder with its parents; what had to be made is gone again if the block fails."""
    missing = [place for place in (folder, *folder.parents) if not place.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        with suppress(OSError):  # somebody else may have put something there meanwhile
            for place in missing:
                place.rmdir()
        raise


def temporary_name() -> str:
    return f"{TEMPORARY}{os.getpid()}-{secrets.token_hex(4)}"


def reason(error: Exception) -> str:
    """Why the operating system refused, without the path that the message names anyway."""
    return getattr(error, "strerror", None) or str(error)


def _same_file(path: Path, other: str | os.PathLike[str]) -> bool:
    try:
        return path.samefile(other)
    except (OSError, ValueError):
        return False


def _starts(path: Path, ours: Recogniser | None) -> bool:
    """Whether we wrote the file; an empty one holds nothing to lose."""
    try:
        with path.open("rb") as file:
            start = file.read(START)
    except OSError:
        return False
    return not start or (ours is not None and ours(start))


def shown(path: str | os.PathLike[str]) -> str:
    """A path, or any text, for a message: a very long one keeps its ends."""
    text = os.fspath(path)
    return text if len(text) <= 100 else f"{text[:60]}...{text[-30:]}"


def slug(name: str) -> str:
    """A name as part of a path: letters, digits, dots, hyphens and underscores."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.") or "model"
