"""Run a kind of hostile input and print how often each ending came up."""

from __future__ import annotations

import argparse
import sys
from collections import Counter

from tests.fuzz import KINDS, Outcome, run_cases
from tests.fuzz.running import quiet_environment


def run() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("kinds", nargs="*", choices=[*KINDS, []], help=", ".join(KINDS))
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit", type=int, default=20, help="seconds that are called a hang")
    parser.add_argument("--show", type=int, default=5, help="bad cases to show of each kind")
    options = parser.parse_args()
    quiet_environment()
    bad = 0
    print("| kind | cases | endings | bad |\n|---|---:|---|---:|")
    for kind in options.kinds or KINDS:
        endings: Counter[str] = Counter()
        worst: list[Outcome] = []
        for outcome in run_cases(KINDS[kind], options.cases, options.seed, options.limit):
            endings[outcome.ending] += 1
            worst += [outcome] if outcome.bad else []
        told = ", ".join(f"{name}: {count}" for name, count in sorted(endings.items()))
        print(f"| {kind} | {options.cases} | {told} | {len(worst)} |", flush=True)
        for outcome in worst[: options.show]:
            print(f"{outcome.ending}: {outcome.case.what!a}\n{outcome.detail!a}", file=sys.stderr)
        bad += len(worst)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(run())
