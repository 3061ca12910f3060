"""`tsc-interp train`: train an experiment of one's own, from a TOML file or from options."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tsc_interp.cli.common import output, print_json
from tsc_interp.cli.training_view import complain_about_diverged, print_runs, run_row, watching

if TYPE_CHECKING:
    from tsc_interp.training.experiments import Experiment


def command(
    file: Path | None = None,
    *,
    seeds: str | None = None,
    options: list[str] | None = None,
    name: str | None = None,
    runs: Path = Path("runs"),
    as_json: bool = False,
    quiet: bool = False,
) -> None:
    """Train classifiers, one for each seed and each cell of a grid.

    Without a file and options, train the source report's walk-through model from eight seeds.

    Args:
        file (FILE.toml): An experiment: name, seeds, options.
        seeds (SEEDS): Seeds, such as 5, 0..31 or 0,1,5 (default: 0..7).
        options (OPTION=VALUE): Set an option: d_model=16, training.learning_rate=0.003, a grid
            d_model=[2,4,8].
        name: The name of the experiment (default: mine).
    """
    import time

    from tsc_interp.training.jobs import train

    started = time.perf_counter()
    experiment = _experiment(file, seeds, options or [], name)
    cells = {cell.config.key(): cell.label for cell in experiment.cells}
    with watching(quiet, cells) as watcher:
        finished = train(experiment, runs, watcher)
    labels = [cell.label for cell in experiment.cells for _ in experiment.seeds]
    if as_json:
        rows = [
            {
                **run_row(run),
                "cell": label,
                "ending": run.result.ending,
                "misclassified": list(run.result.test.misclassified),
                "config": run.job.config.to_dict(),
            }
            for run, label in zip(finished, labels, strict=True)
        ]
        seconds = round(time.perf_counter() - started, 3)
        print_json("train/2", {"runs": rows, "seconds": seconds})
    else:
        print_runs(finished, labels)
        where = runs / experiment.name
        output().print(f"runs in {where}; 'tsc-interp runs' lists them by name", soft_wrap=True)
    complain_about_diverged(finished)


def _experiment(
    file: Path | None, seeds: str | None, options: list[str], name: str | None
) -> Experiment:
    from tsc_interp.errors import UsageError
    from tsc_interp.training.experiments import Experiment

    if file is not None:
        if seeds or options or name:
            raise UsageError(f"{file} says what to train; leave out --seeds, --set and --name")
        return Experiment.load(file)
    tables: dict[str, dict[str, Any]] = {"classifier": {}, "training": {}}
    for option in options:
        _set(tables, option)
    return Experiment.of(name or "mine", seeds or "0..7", tables["classifier"], tables["training"])


def _set(tables: dict[str, dict[str, Any]], option: str) -> None:
    """`d_model=16` is the classifier's, `training.train.max_length=20` says where it belongs."""
    import tomllib

    from tsc_interp.errors import UsageError, shorten

    key, equals, text = option.partition("=")
    path = key.strip().split(".")
    if path[0] not in tables:
        path = ["classifier", *path]
    if not equals or not all(path):
        raise UsageError(f"--set {shorten(option)}: expected OPTION=VALUE, such as d_model=16")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except (tomllib.TOMLDecodeError, RecursionError):
        value = text.strip()  # a bare word, such as norm=rms
    except ValueError as error:
        raise UsageError(f"--set {shorten(option)}: {error}") from None
    table = tables[path[0]]
    for part in path[1:-1]:
        table = table.setdefault(part, {})
        if not isinstance(table, dict):
            raise UsageError(f"--set {shorten(option)}: {part} was given a value before")
    table[path[-1]] = value
