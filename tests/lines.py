"""`make lines`: the lines of Python in each room, and whether the caps in pyproject.toml hold.

A cap keeps a tree readable: whoever raises one gives the reason in the commit.
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = "tsc_interp"


def lines(path: Path) -> int:
    return len(path.read_text("utf-8").splitlines())


def rooms(root: Path = ROOT) -> dict[str, tuple[int, int]]:
    """Files and lines of each folder of the package, of its top level, and of the tests."""
    counts: dict[str, tuple[int, int]] = {}
    for folder in (PACKAGE, "tests"):
        for path in sorted((root / folder).rglob("*.py")):
            parts = path.relative_to(root).parts
            inner = parts[1] if len(parts) > 2 else "(top)"
            room = folder if folder == "tests" else f"{folder}/{inner}"
            files, total = counts.get(room, (0, 0))
            counts[room] = files + 1, total + lines(path)
    return counts


def caps(root: Path = ROOT) -> dict[str, int]:
    table: dict[str, int] = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["tool"][
        "tsc-interp"
    ]["caps"]
    return table


def measured(counts: dict[str, tuple[int, int]]) -> dict[str, int]:
    """What the caps are about: the package's lines and files, the trusted base, and the tests."""
    package = [count for room, count in counts.items() if room.startswith(f"{PACKAGE}/")]
    return {
        "package-lines": sum(total for _, total in package),
        "package-files": sum(files for files, _ in package),
        "trusted-lines": counts.get(f"{PACKAGE}/trusted", (0, 0))[1],
        "test-lines": counts["tests"][1],
    }


def main() -> int:
    counts = rooms()
    for room, (files, total) in counts.items():
        print(f"{total:7,} lines {files:4} files  {room}")
    over = 0
    found = measured(counts)
    for name, cap in caps().items():
        above = found[name] > cap
        over += above
        print(f"{name}: {found[name]:,} of at most {cap:,}{'  ABOVE THE CAP' if above else ''}")
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
