"""`python -m tests.mutation` (or `make mutants`): change the trusted core, one place at a time.

Every mutant is tried in a process of its own, forked from one that has everything loaded already;
there the changed module and all that import it are loaded again. The changed source lives in
memory, so nothing on disk is touched. A mutant is killed when a test fails, or when its tests take
four times as long as without it. Survivors must be listed in `equivalent.py` with the reason why
no test can tell them apart. Which mutants of a large file are tried is drawn with a fixed seed
(`--seed`, `--most`), so a run can be repeated.
"""

from __future__ import annotations

import argparse
import ast
import gc
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import random
import resource
import signal
import sys
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from hypothesis import Phase, settings

from tests.mutation.equivalent import reason
from tests.mutation.mutate import Mutant, mutants
from tests.mutation.targets import TARGETS, Target

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
        exec(compile(self.mutant.make(), self.mutant.file, "exec"), module.__dict__)


def _try(mutant: Mutant, target: Target, cpu_seconds: int, users: dict[str, set[str]]) -> int:
    """In the child: 0 if the tests pass, so the mutant survives."""
    import pytest

    # The system ends what goes on for ever; on a busy machine the clock would be no judge.
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds))
    name = mutant.file.removesuffix(".py").replace("/", ".")
    _forget(name, users)
    sys.meta_path.insert(0, _Changed(name, mutant))
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    # Why a test fails is of no interest here, nor the smallest example of it.
    options = ["-x", "-q", "-p", "no:cacheprovider", "--assert=plain", "--tb=no"]
    examples = ["-p", "_hypothesis_pytestplugin", "--hypothesis-profile=mutants"]
    chosen = ["-k", target.only] if target.only else []
    return int(pytest.main([*options, *examples, *chosen, *target.tests]))


class Trial(NamedTuple):
    mutant: Mutant
    target: Target
    cpu_seconds: int


class Ending(NamedTuple):
    survived: bool
    cpu_seconds: float


def _run(waiting: list[Trial], workers: int, users: dict[str, set[str]]) -> dict[Mutant, Ending]:
    results: dict[Mutant, Ending] = {}
    running: dict[int, tuple[Trial, float]] = {}
    waiting, total = waiting[::-1], len(waiting)
    while waiting or running:
        while waiting and len(running) < workers:
            trial = waiting.pop()
            child = os.fork()
            if child == 0:
                code = 99
                try:
                    code = _try(*trial, users)
                finally:
                    os._exit(code)
            running[child] = trial, time.monotonic() + 60 + 20 * trial.cpu_seconds
        time.sleep(0.02)
        for child, (trial, until) in list(running.items()):
            ended, status, used = os.wait4(child, os.WNOHANG)
            if not ended:
                if time.monotonic() > until:  # waits for something that never comes
                    os.kill(child, signal.SIGKILL)
                continue
            del running[child]
            survived = os.waitstatus_to_exitcode(status) in (0, 5)  # 5: there were no tests
            results[trial.mutant] = Ending(survived, used.ru_utime + used.ru_stime)
            if survived and trial.mutant.before != _CONTROL:
                print(f"survived: {trial.mutant.name} (line {trial.mutant.line})", flush=True)
            if len(results) % 25 == 0:
                print(f"{len(results)} of {total}", file=sys.stderr, flush=True)
    return results


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("--most", type=int, default=15, help="mutants per file (default 15)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only", default="", help="only files whose name contains this")
    parser.add_argument("--function", default="", help="only functions whose name contains this")
    parser.add_argument("--table", type=Path, help="a JSON file to add this run's rows to")
    options = parser.parse_args()
    started = time.monotonic()
    targets = [target for target in TARGETS if options.only in target.file]
    users = _load(targets)
    sources = {target: Path(target.file).read_text() for target in targets}
    # The controls: nothing changed, so the tests must pass, or killing means nothing.
    controls = {
        t: Mutant(t.file, 0, "", _CONTROL, _CONTROL, partial(str, sources[t])) for t in targets
    }
    alone = _run(
        [Trial(control, t, 600) for t, control in controls.items()], options.workers, users
    )
    broken = [control.file for control, ending in alone.items() if not ending.survived]
    if broken:
        print(f"the tests fail without any change: {', '.join(broken)}")
        return 1
    trials, drawn_from = [], {}
    for target in targets:
        every = [m for m in mutants(target.file, sources[target]) if options.function in m.function]
        drawn = random.Random(options.seed).sample(every, min(options.most, len(every)))
        drawn_from[target.file] = len(every)
        limit = 10 + int(4 * alone[controls[target]].cpu_seconds)
        trials += [Trial(mutant, target, limit) for mutant in drawn]
    results = _run(trials, options.workers, users)
    spent = sum(ending.cpu_seconds for ending in (*alone.values(), *results.values()))
    print(f"seed {options.seed}, at most {options.most} mutants per file")
    rate = _report(results, drawn_from)
    if options.table is not None:
        _store(options.table, results, drawn_from, options.seed)
    print(f"{time.monotonic() - started:.0f} s on the clock, {spent:.0f} s of processor time")
    return 0 if rate >= 0.95 else 1


def _load(targets: list[Target]) -> dict[str, set[str]]:
    """Once, before forking: all that the tests import. For each module of ours, who imports it."""
    # Plugins that these tests do not need cost half a second for each mutant.
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    for name in ("tests.conftest", *(test for target in targets for test in target.tests)):
        importlib.import_module(name.removesuffix(".py").replace("/", "."))
    no_shrinking = (Phase.explicit, Phase.generate)
    settings.register_profile("mutants", settings.get_profile("tsc"), phases=no_shrinking)
    ours = [
        name for name in sys.modules if name.split(".")[0] in ("tsc_interp", "tests", "checker")
    ]
    users: dict[str, set[str]] = {name: set() for name in ours}
    for user in ours:
        for name in _imports(Path(sys.modules[user].__file__ or "")):
            if name in users:
                users[name].add(user)
    gc.collect()
    gc.freeze()
    return users


def _imports(path: Path) -> set[str]:
    """What a file imports at run time: modules, and names that may be modules."""
    found, waiting = set(), [ast.parse(path.read_text())]
    while waiting:
        node: Any = waiting.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        waiting += ast.iter_child_nodes(node)
    return found


def _forget(name: str, users: dict[str, set[str]]) -> None:
    """In the child: a module and all that import it, at first or second hand."""
    waiting, seen = [name], set()
    while waiting:
        module = waiting.pop()
        if module not in seen:
            seen.add(module)
            waiting += users.get(module, ())
            sys.modules.pop(module, None)
            package, _, inner = module.rpartition(".")
            if package in sys.modules:
                vars(sys.modules[package]).pop(inner, None)


def _store(
    path: Path, results: dict[Mutant, Ending], drawn_from: dict[str, int], seed: int
) -> None:
    """One row per file; rows of other files stay, so that a long run can be made in parts."""
    rows = json.loads(path.read_text()) if path.exists() else {}
    for file, every in drawn_from.items():
        mine = {mutant: ending for mutant, ending in results.items() if mutant.file == file}
        alive = [mutant.name for mutant, ending in mine.items() if ending.survived]
        rows[file] = {
            "seed": seed,
            "mutants": every,
            "tried": len(mine),
            "killed": len(mine) - len(alive),
            "equivalent": [name for name in alive if reason(name)],
            "survived": [name for name in alive if not reason(name)],
        }
    path.write_text(json.dumps(rows, indent=2, sort_keys=True) + "\n")


def _report(results: dict[Mutant, Ending], drawn_from: dict[str, int]) -> float:
    survivors = [mutant for mutant, ending in results.items() if ending.survived]
    excused = [mutant for mutant in survivors if reason(mutant.name)]
    files = Counter(mutant.file for mutant in results)
    alive, equal = (Counter(mutant.file for mutant in some) for some in (survivors, excused))
    for file, number in files.items():
        print(f"{file:45} {number:4} of {drawn_from[file]:4} mutants, {number - alive[file]:4} "
              f"killed, {equal[file]} equivalent, {alive[file] - equal[file]} not")  # fmt: skip
    killed = len(results) - len(survivors)
    rate = killed / max(1, len(results) - len(excused))
    print(f"{killed} of {len(results)} killed, {len(excused)} equivalent: {rate:.1%} of the others")
    for mutant in survivors:
        print(f"  {mutant.name} (line {mutant.line})\n    {reason(mutant.name) or 'NOT EXPLAINED'}")
    return rate


if __name__ == "__main__":
    sys.exit(main())
