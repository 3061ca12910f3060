"""What a laboratory's page includes: its docstring, and what a quick run of it says and draws."""

from __future__ import annotations

from pathlib import Path

import tsc_interp as tsc
from docs.build.probe_pages import computes, told
from tsc_interp.laboratories.registry import LABORATORIES, Laboratory
from tsc_interp.report.commands import lab_command


def write_lab_pages(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for laboratory in LABORATORIES:
        (folder / f"{laboratory.name}.txt").write_text(_page(laboratory), encoding="utf-8")
    rows = [f"| [{one.name}]({one.name}.md) | {one.question} |" for one in LABORATORIES]
    table = "\n".join(["| laboratory | question |", "|---|---|", *rows])
    (folder / "index.txt").write_text(table + "\n", encoding="utf-8")


def _page(laboratory: Laboratory) -> str:
    report = tsc.lab(laboratory.name, quick=True)
    command = lab_command(report.result)
    return "\n\n".join(
        [
            f"*{laboratory.question}* From {laboratory.source}.",
            *computes(laboratory),
            f"## What a quick run finds\n\n```bash\n{command}\n```",
            *told(report.section),
        ]
    )
