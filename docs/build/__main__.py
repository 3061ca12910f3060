"""Make everything the pages include, in two processes; says what it is doing."""

from __future__ import annotations

import multiprocessing
import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from docs.build.cli_reference import cli_reference
from docs.build.commands import write_commands
from docs.build.figures import write_assets
from docs.build.lab_pages import write_lab_index, write_lab_page
from docs.build.notebooks import EXAMPLES, write_notebook
from docs.build.playgrounds import write_playgrounds
from docs.build.probe_pages import write_probe_index, write_probe_page
from docs.build.scripts import scripts, write_script
from docs.build.trusted import trusted_files
from tsc_interp.laboratories.registry import LABORATORIES
from tsc_interp.playground import failure_map
from tsc_interp.probes.registry import PROBES

ROOT = Path(__file__).resolve().parents[2]
INCLUDED = ROOT / "docs" / "generated"
SERVED = ROOT / "docs" / "pages" / "generated"

Step = tuple[str, Callable[..., object], *tuple[Any, ...]]


def main() -> None:
    started = time.perf_counter()
    for folder in (INCLUDED, SERVED):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    # Forked, so that torch and the package are imported once.
    with ProcessPoolExecutor(2, multiprocessing.get_context("fork")) as pool:
        for done in as_completed([pool.submit(_timed, *step) for step in steps()]):
            what, seconds = done.result()
            print(f"{seconds:6.1f} s  {what}", flush=True)
    print(f"{time.perf_counter() - started:6.1f} s  in all")


def _timed(what: str, step: Callable[..., object], *arguments: Any) -> tuple[str, float]:
    begun = time.perf_counter()
    step(*arguments)
    return what, time.perf_counter() - begun


def steps() -> Iterator[Step]:
    """What has to be made, and how; the longest first, so that both processes end together."""
    for script in sorted(scripts(), key=lambda place: not place.startswith("examples/")):
        yield script, write_script, script, INCLUDED / script
    for lab in LABORATORIES:
        yield f"laboratories/{lab.name}", write_lab_page, lab.name, INCLUDED / "laboratories"
    yield "commands", write_commands, INCLUDED / "commands"
    for path in sorted(EXAMPLES.glob("*.ipynb")):
        served = SERVED / "notebooks"
        yield f"notebooks/{path.stem}", write_notebook, path, INCLUDED / "notebooks", served
    for probe in PROBES:
        yield f"probes/{probe.name}", write_probe_page, probe.name, INCLUDED / "probes"
    yield "playgrounds", write_playgrounds, SERVED / "playground"
    yield "lists of probes", write_probe_index, INCLUDED / "probes"
    yield "list of laboratories", write_lab_index, INCLUDED / "laboratories"
    yield "plotly.js and themes", write_assets, SERVED / "assets"
    yield "pictures", shutil.copytree, ROOT / "docs" / "images", SERVED / "images"
    yield "failure map", _write_text, INCLUDED / "failure-map.html", _failure_map
    yield "command-line reference", _write_text, INCLUDED / "cli.txt", cli_reference
    yield "trusted files", _write_text, INCLUDED / "trusted.txt", trusted_files


def _failure_map() -> str:
    return failure_map("generalization-errors", string="ab{66}")


def _write_text(path: Path, text: Callable[[], str]) -> None:
    path.write_text(text(), encoding="utf-8")


if __name__ == "__main__":
    main()
