"""`python -m benchmarks [NAME...]`: every benchmark, or those named, one after the other.

Each runs in a process of its own, so that one's memory and warm caches are not another's.
"""

from __future__ import annotations

import subprocess
import sys

NAMES = ("training", "forward", "verification", "order", "outside", "falsify", "sweeps")


def main(wanted: list[str]) -> int:
    for name in wanted or NAMES:
        if name not in NAMES:
            sys.exit(f"no benchmark {name!r}; the benchmarks are {', '.join(NAMES)}")
    failed = 0
    for name in wanted or NAMES:
        print(f"# benchmarks.{name}\n", flush=True)
        failed |= subprocess.run([sys.executable, "-m", f"benchmarks.{name}"]).returncode
        print(flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
