"""`python -m tests.mutation` (or `make mutants`): change the trusted core, one place at a time.

Every mutant is tried in a process of its own, forked from one that has torch and the like loaded
already; the changed module lives in memory, so nothing on disk is touched. A mutant is killed when
a test fails, or when its tests take longer than `--seconds`. Survivors must be listed in
`equivalent.py` with the reason why no test can tell them apart. Which mutants of a large file are
tried is drawn once, with a fixed seed, so a run can be repeated.
"""

from __future__ import annotations

import argparse
import importlib.abc
import importlib.machinery
import importlib.util
import os
import random
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from tests.mutation.equivalent import reason
from tests.mutation.mutate import Mutant, mutants
from tests.mutation.targets import TARGETS, Target

# Imported before forking: slow, and not ours.
_HEAVY = ("torch", "transformer_lens", "scipy.special", "flint", "mpmath", "hypothesis", "pytest",
          "pydantic", "safetensors.numpy", "rich.console", "typer", "plotly.graph_objects",
          "jaxtyping", "beartype", "jinja2", "einops", "markdown")  # fmt: skip


_CONTROL = "nothing"


class _Changed(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports one module from a changed source."""

    def __init__(self, name: str, mutant: Mutant) -> None:
        self.name, self.mutant = name, mutant

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != self.name:
            return None
        return importlib.util.spec_from_loader(name, self, origin=self.mutant.file)

    def exec_module(self, module: Any) -> None:
        module.__file__ = self.mutant.file
        exec(compile(self.mutant.source, self.mutant.file, "exec"), module.__dict__)


def _try(mutant: Mutant, target: Target) -> int:
    """In the child: 0 if the tests pass, so the mutant survives."""
    import pytest

    name = mutant.file.removesuffix(".py").replace("/", ".")
    sys.meta_path.insert(0, _Changed(name, mutant))
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    options = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:rerunfailures",
               "-W", "ignore::pytest.PytestAssertRewriteWarning"]  # fmt: skip
    chosen = ["-k", target.only] if target.only else []
    return int(pytest.main([*options, *chosen, *target.tests]))


def _run(waiting: list[tuple[Mutant, Target]], workers: int, seconds: float) -> dict[Mutant, str]:
    results: dict[Mutant, str] = {}
    running: dict[int, tuple[Mutant, float]] = {}
    total = len(waiting)
    while waiting or running:
        while waiting and len(running) < workers:
            mutant, target = waiting.pop()
            child = os.fork()
            if child == 0:
                code = 99
                try:
                    code = _try(mutant, target)
                finally:
                    os._exit(code)
            running[child] = mutant, time.monotonic() + seconds
        time.sleep(0.02)
        for child, (mutant, until) in list(running.items()):
            ended, status = os.waitpid(child, os.WNOHANG)
            if not ended and time.monotonic() < until:
                continue
            if not ended:
                os.kill(child, 9)
                os.waitpid(child, 0)
                results[mutant] = "too slow"
            else:
                code = os.waitstatus_to_exitcode(status)
                results[mutant] = {0: "survived", 1: "killed", 5: "no tests"}.get(code, "killed")
            del running[child]
            if results[mutant] in ("survived", "no tests") and mutant.before != _CONTROL:
                print(f"{results[mutant]}: {mutant.name}", flush=True)
            if len(results) % 25 == 0:
                print(f"{len(results)} of {total}", file=sys.stderr, flush=True)
    return results


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("--most", type=int, default=30, help="mutants per file (default 30)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=90.0, help="per mutant")
    parser.add_argument("--only", default="", help="only files whose name contains this")
    options = parser.parse_args()
    for name in _HEAVY:
        importlib.import_module(name)
    chosen: list[tuple[Mutant, Target]] = []
    for target in TARGETS:
        if options.only in target.file:
            source = Path(target.file).read_text()
            # The control: nothing changed, so its tests must pass, or killing means nothing.
            chosen.append((Mutant(target.file, 0, "", _CONTROL, _CONTROL, source), target))
            every = list(mutants(target.file, source))
            drawn = random.Random(options.seed).sample(every, min(options.most, len(every)))
            chosen += [(mutant, target) for mutant in drawn]
    started = time.monotonic()
    results = _run(chosen[::-1], options.workers, options.seconds)
    return _report(results, time.monotonic() - started)


def _report(results: dict[Mutant, str], seconds: float) -> int:
    controls = {m: results.pop(m) for m in list(results) if m.before == _CONTROL}
    broken = [m.file for m, result in controls.items() if result != "survived"]
    if broken:
        print(f"the tests fail without any change: {', '.join(broken)}")
        return 1
    survivors = [m for m, result in results.items() if result in ("survived", "no tests")]
    excused = [m for m in survivors if reason(m.name)]
    files = Counter(m.file for m in results)
    alive = Counter(m.file for m in survivors)
    for file, number in files.items():
        print(f"{file:52} {number - alive[file]:4} of {number:4} killed")
    killed = len(results) - len(survivors)
    rate = killed / max(1, len(results) - len(excused))
    equal = f"{len(excused)} equivalent"
    print(f"{killed} of {len(results)} killed, {equal}: {rate:.1%} of the others; {seconds:.0f} s")
    for mutant in survivors:
        print(f"  {mutant.name}\n    {reason(mutant.name) or 'NOT EXPLAINED'}")
    return 0 if rate >= 0.95 else 1


if __name__ == "__main__":
    sys.exit(main())
