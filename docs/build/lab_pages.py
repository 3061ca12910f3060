"""What a laboratory's page includes: its docstring, and what a quick run of it says and draws."""

from __future__ import annotations

from pathlib import Path

import tsc_interp as tsc
from docs.build.probe_pages import computes, told
from docs.build.scripts import kept
from tsc_interp.laboratories.registry import LABORATORIES, Laboratory, find_laboratory
from tsc_interp.report.commands import lab_command
from tsc_interp.report.laboratory import LabReport


def write_lab_page(name: str, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.txt").write_text(_page(find_laboratory(name)), encoding="utf-8")


def write_lab_index(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    rows = [f"| [{one.name}]({one.name}.md) | {one.question} |" for one in LABORATORIES]
    table = "\n".join(["| laboratory | question |", "|---|---|", *rows])
    (folder / "index.txt").write_text(table + "\n", encoding="utf-8")


def _page(laboratory: Laboratory) -> str:
    report = _quick(laboratory)
    command = lab_command(report.result)
    return "\n\n".join(
        [
            f"*{laboratory.question}* From {laboratory.source}.",
            *computes(laboratory),
            f"## What a quick run finds\n\n```bash\n{command}\n```",
            *told(report.section),
        ]
    )


def _quick(laboratory: Laboratory) -> LabReport:
    """The quick run: the one its example has made, unless that has options of its own."""
    made = kept(f"examples/lab_{laboratory.name}") / "report.json"
    if made.is_file():
        report = LabReport.from_json(made.read_text(encoding="utf-8"))
        if report.result.options == laboratory.options_type(quick=True):
            return report
    return tsc.lab(laboratory.name, quick=True)
