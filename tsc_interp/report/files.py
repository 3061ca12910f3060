"""Writing a report to disk: all of it or nothing, and never over somebody else's files."""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tsc_interp.errors import TscError, UsageError
from tsc_interp.report.extras import playground
from tsc_interp.report.html import PLOTLY_FILE, PLOTLYJS, render_html
from tsc_interp.report.markdown import GENERATOR, render_markdown
from tsc_interp.report.report import SCHEMA, Report

FILES = {"html": "index.html", "md": "report.md", "json": "report.json"}
IMAGES = "images"
_OURS = {*FILES.values(), PLOTLY_FILE, IMAGES}


def default_directory(report: Report) -> Path:
    """`tsc-report/<model>`, or `tsc-report/<model>-and-<other>`."""
    return Path("tsc-report") / "-and-".join(_slug(model.card.name) for model in report.models)


def check_directory(directory: Path, *, force: bool) -> None:
    """Refuse, before any work is done, a place that holds something other than a report of ours."""
    if directory.exists() and not directory.is_dir():
        raise UsageError(f"{directory} is a file; a report is a directory, so choose another name")
    if force or not directory.exists() or _is_empty(directory) or _is_report(directory):
        return
    raise UsageError(
        f"{directory} exists and holds other files; choose another directory with --out, or pass "
        "--force to write the report among them"
    )


def check_options(formats: Sequence[str], plotlyjs: str, images: str | None) -> None:
    unknown = [name for name in formats if name not in FILES]
    if unknown or not formats:
        raise UsageError(
            f"formats are any of {', '.join(FILES)}; got {', '.join(formats) or 'none'}"
        )
    if plotlyjs not in PLOTLYJS:
        raise UsageError(f"plotlyjs is one of {', '.join(PLOTLYJS)}; got {plotlyjs!r}")
    if images not in (None, "png", "svg"):
        raise UsageError(f"images are png or svg; got {images!r}")


def save(
    report: Report,
    directory: Path,
    *,
    formats: Sequence[str],
    plotlyjs: str,
    images: str | None,
    force: bool,
) -> Path:
    """Write into a temporary directory beside the target, then move it into place."""
    check_options(formats, plotlyjs, images)
    check_directory(directory, force=force)
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(dir=directory.parent, prefix=f".{directory.name}."))
        try:
            _write(report, temporary, formats, plotlyjs, images)
            _move(temporary, directory)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    except OSError as error:
        reason = error.strerror or str(error)
        raise TscError(
            f"cannot write the report to {directory}: {reason}; nothing was changed"
        ) from None
    return directory / FILES[next(name for name in FILES if name in formats)]


def _write(
    report: Report, place: Path, formats: Sequence[str], plotlyjs: str, images: str | None
) -> None:
    pictures: Mapping[str, str] = {}
    if images:
        from tsc_interp.report.images import write_images

        pictures = write_images(report, place / IMAGES, images)
    renderers: dict[str, Callable[[], str]] = {
        "html": lambda: render_html(report, plotlyjs=plotlyjs, extras=playground(report)),
        "md": lambda: render_markdown(report, images=pictures),
        "json": lambda: report.to_json() + "\n",
    }
    for name in formats:
        (place / FILES[name]).write_text(renderers[name](), encoding="utf-8")
    if plotlyjs == "directory" and "html" in formats:
        from plotly.offline import get_plotlyjs

        (place / PLOTLY_FILE).write_text(get_plotlyjs(), encoding="utf-8")


def _move(temporary: Path, directory: Path) -> None:
    umask = os.umask(0)
    os.umask(umask)
    temporary.chmod(0o777 & ~umask)
    if not directory.exists():
        temporary.rename(directory)
    elif _is_empty(directory) or _is_report(directory):
        # Swap whole directories, so that no file of the old report survives in the new one.
        old = temporary.with_name(temporary.name + ".old")
        directory.rename(old)
        try:
            temporary.rename(directory)
        except OSError:
            old.rename(directory)
            raise
        shutil.rmtree(old, ignore_errors=True)
    else:
        for file in sorted(temporary.rglob("*")):
            target = directory / file.relative_to(temporary)
            if file.is_dir():
                target.mkdir(exist_ok=True)
            else:
                file.replace(target)


def _is_empty(directory: Path) -> bool:
    return not any(directory.iterdir())


def _is_report(directory: Path) -> bool:
    """Only files we write, at least one of them with our mark in it."""
    if not {entry.name for entry in directory.iterdir()} <= _OURS:
        return False
    try:
        page, notes, data = (directory / name for name in FILES.values())
        if data.exists():
            return bool(json.loads(data.read_text(encoding="utf-8")).get("schema") == SCHEMA)
        if notes.exists():
            return notes.read_text(encoding="utf-8").startswith(GENERATOR)
        return page.exists() and "tsc-interp" in page.read_text(encoding="utf-8")[:600]
    except (OSError, ValueError, AttributeError):
        return False


def _slug(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.") or "model"
