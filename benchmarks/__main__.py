"""`python -m benchmarks [NAME...]`: every benchmark, or those named, one after the other."""

from __future__ import annotations

import sys
from importlib import import_module

NAMES = ("training", "forward", "verification")


def main(wanted: list[str]) -> None:
    for name in wanted or NAMES:
        if name not in NAMES:
            sys.exit(f"no benchmark {name!r}; the benchmarks are {', '.join(NAMES)}")
        print(f"# benchmarks.{name}\n", flush=True)
        import_module(f"benchmarks.{name}").main()
        print(flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
