"""How to get a section again: the shell command and the Python lines, ready to paste."""

from __future__ import annotations

import shlex
from pathlib import Path

from tsc_interp.report.report import Report


def command(report: Report, probe: str | None = None) -> str:
    first, *others = (model.card.source for model in report.models)
    where, epoch = _run_and_epoch(first)
    parts = ["tsc-interp", "analyze", "--checkpoint", where]
    parts += [] if epoch is None else ["--epoch", str(epoch)]
    parts += [part for other in others for part in ("--compare", other)]
    parts += ["--probe", probe] if probe else []
    return shlex.join([*parts, *report.models[0].strings])


def python(report: Report, probe: str) -> str:
    first, *others = (model.card.source for model in report.models)
    where, epoch = _run_and_epoch(first)
    options = f"probes=[{probe!r}]"
    options += "" if epoch is None else f", epoch={epoch}"
    options += "".join(f", compare={other!r}" for other in others)
    return (
        "import tsc_interp as tsc\n\n"
        f"strings = {list(report.models[0].strings)!r}\n"
        f"report = tsc.analyze({where!r}, strings, {options})\n"
        "report.show(tables=True)"
    )


def _run_and_epoch(source: str) -> tuple[str, int | None]:
    """A run's checkpoint as run and epoch: only the run knows its history."""
    path = Path(source)
    epoch = path.stem.removeprefix("epoch=")
    if path.parent.name == "checkpoints" and epoch.isdecimal():
        return str(path.parent.parent), int(epoch)
    return source, None
