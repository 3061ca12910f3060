"""Make everything the pages include. Takes a minute or two; says what it is doing."""

from __future__ import annotations

import os
import shutil
import time
import warnings
from pathlib import Path

# Before torch is imported: more threads than cores only get in each other's way.
os.environ.setdefault("OMP_NUM_THREADS", "1")
warnings.simplefilter("ignore")

from docs.build.cli_reference import cli_reference
from docs.build.figures import write_assets
from docs.build.scripts import run_and_write

ROOT = Path(__file__).resolve().parents[2]
GENERATED = ROOT / "docs" / "pages" / "generated"


def main() -> None:
    started = time.perf_counter()
    shutil.rmtree(GENERATED, ignore_errors=True)
    write_assets(GENERATED / "assets")
    (GENERATED / "cli.txt").write_text(cli_reference(), encoding="utf-8")
    for kind in ("checks", "examples"):
        folder = ROOT / "docs" / "checks" if kind == "checks" else ROOT / "examples"
        for script in sorted(folder.glob("*.py")):
            finished = run_and_write(script, GENERATED / kind)
            print(f"{finished.seconds:6.1f} s  {script.relative_to(ROOT)}", flush=True)
    print(f"{time.perf_counter() - started:6.1f} s  in all, into {GENERATED.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
