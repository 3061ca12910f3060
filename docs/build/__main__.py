"""Make everything the pages include. Takes a minute or two; says what it is doing."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from docs.build.cli_reference import cli_reference
from docs.build.commands import write_commands
from docs.build.figures import write_assets
from docs.build.lab_pages import write_lab_pages
from docs.build.notebooks import write_notebooks
from docs.build.playgrounds import write_playgrounds
from docs.build.probe_pages import write_probe_pages
from docs.build.scripts import run_and_write, scripts
from docs.build.trusted import trusted_files

ROOT = Path(__file__).resolve().parents[2]
INCLUDED = ROOT / "docs" / "generated"
SERVED = ROOT / "docs" / "pages" / "generated"


def main() -> None:
    started = time.perf_counter()
    for folder in (INCLUDED, SERVED):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    for what, step in steps():
        begun = time.perf_counter()
        step()
        print(f"{time.perf_counter() - begun:6.1f} s  {what}", flush=True)
    print(f"{time.perf_counter() - started:6.1f} s  in all")


def steps() -> Iterator[tuple[str, Callable[[], object]]]:
    yield "plotly.js and themes", lambda: write_assets(SERVED / "assets")
    yield "pictures", lambda: shutil.copytree(ROOT / "docs" / "images", SERVED / "images")
    yield "command-line reference", lambda: write_text("cli.txt", cli_reference())
    yield "trusted files", lambda: write_text("trusted.txt", trusted_files())
    yield "commands", lambda: write_commands(INCLUDED / "commands")
    yield "probe pages", lambda: write_probe_pages(INCLUDED / "probes")
    yield "laboratories", lambda: write_lab_pages(INCLUDED / "laboratories")
    yield "notebooks", lambda: write_notebooks(INCLUDED / "notebooks", SERVED / "notebooks")
    yield "playgrounds", lambda: write_playgrounds(SERVED / "playground")
    for place, script in scripts().items():
        folder = INCLUDED / place
        yield place, lambda script=script, folder=folder: run_and_write(script, folder)


def write_text(name: str, text: str) -> None:
    (INCLUDED / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
