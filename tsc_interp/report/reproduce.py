"""How to get a section again: the shell command and the Python lines, ready to paste."""

from __future__ import annotations

import shlex

from tsc_interp.report.report import Report


def command(report: Report, probe: str | None = None) -> str:
    names = [model.card.name for model in report.models]
    parts = ["tsc-interp", "analyze", "--checkpoint", names[0]]
    parts += ["--compare", names[1]] if len(names) > 1 else []
    parts += ["--probe", probe] if probe else []
    return shlex.join([*parts, *report.models[0].strings])


def python(report: Report, probe: str) -> str:
    names = [model.card.name for model in report.models]
    compared = f", compare={names[1]!r}" if len(names) > 1 else ""
    strings = list(report.models[0].strings)
    return (
        "import tsc_interp as tsc\n\n"
        f"report = tsc.analyze({names[0]!r}, {strings!r},\n"
        f"                     probes=[{probe!r}]{compared})\n"
        "report.show(tables=True)"
    )
