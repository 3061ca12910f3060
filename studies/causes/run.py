"""What interventions cost, and what pruning finds. Run by `python -m studies.causes.run`.

First the probes that intervene, with their default options, on every bundled model (wall time, this
machine). Then sixteen heads of eight seeds: which two does each method keep, and how long is the
model right with them?
"""

from __future__ import annotations

import tempfile
import time

import tsc_interp as tsc
from tsc_interp.checkpoints import bundled_names
from tsc_interp.probes.registry import PROBES
from tsc_interp.reproduction.experiments import experiment_named
from tsc_interp.source_report import EXAMPLES


def main() -> None:
    _probes()
    _edits()
    _seeds()


def _probes() -> None:
    asked = [probe.name for probe in PROBES if probe.on_request]
    print("seconds per probe with its defaults\n" + " " * 26 + "".join(f"{n:>12}" for n in asked))
    for model in bundled_names():
        seconds = []
        for name in asked:
            start = time.perf_counter()
            tsc.run_probe(name, model, list(EXAMPLES))
            seconds.append(time.perf_counter() - start)
        print(f"{model:26}" + "".join(f"{s:12.1f}" for s in seconds), flush=True)


def _edits() -> None:
    print("\nseconds for one edit, and to compare it with the model: count to 200, prove beyond")
    for model in bundled_names():
        start = time.perf_counter()
        edited = tsc.edit(model, "head0=zero")
        middle = time.perf_counter()
        tsc.diff(model, edited)
        print(f"{model:26}{middle - start:12.3f}{time.perf_counter() - middle:12.3f}", flush=True)


def _seeds() -> None:
    print("\nsixteen heads, eight seeds: right up to how many letters")
    print("seed   all 16   best two   smallest that lasts as long")
    with tempfile.TemporaryDirectory() as place:
        runs = tsc.train(experiment_named("increased_num_attention_heads").jobs(), place)
        for run in runs:
            model = run.directory.checkpoint(run.result.chosen_epoch)
            best = tsc.prune(model, keep=2)
            least = tsc.prune(model, keep_horizon=True)
            config = least.checkpoint.config
            print(
                f"{run.result.seed:4}{_reach(least.before):>9}{_reach(best.after):>11}"
                f"   {config.n_heads} heads, {config.d_mlp} neurons, {config.d_model} dimensions, "
                f"{least.checkpoint.n_parameters} weights: {_reach(least.after)}",
                flush=True,
            )


def _reach(found: tsc.Horizon) -> str:
    return "every" if found.infinite else f"{found.verified_length:,}"


if __name__ == "__main__":
    main()
