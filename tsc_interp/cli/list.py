"""`tsc-interp list`: what there is to train, to load and to ask."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tsc_interp.cli.common import output, print_json

if TYPE_CHECKING:
    from tsc_interp.checkpoints import Checkpoint

_TITLES = {
    "experiments": "experiments of the source report (tsc-interp reproduce NAME)",
    "models": "bundled models (--checkpoint NAME)",
    "probes": "probes (tsc-interp analyze --probe NAME)",
    "plugins": "probes of other packages (--probe NAME)",
    "broken_plugins": "probes that cannot be loaded",
}


def command(*, as_json: bool = False) -> None:
    """List the source report's experiments, the bundled models and the probes.

    Probes of other packages that are installed here are listed, too.
    """
    from tsc_interp.checkpoints import bundled_names, load_checkpoint
    from tsc_interp.probes.registry import PROBES, plugins
    from tsc_interp.reproduction.experiments import SOURCE_EXPERIMENTS

    installed = plugins()
    tables: dict[str, list[dict[str, Any]]] = {
        "experiments": [_facts(e, "name", "seeds", "about", "chapter") for e in SOURCE_EXPERIMENTS],
        "models": [_model(name, load_checkpoint(name)) for name in bundled_names()],
        "probes": [_facts(probe, "name", "question", "chapter") for probe in PROBES],
        "plugins": [
            {**_facts(probe, "name", "question"), "package": package}
            for probe, package in zip(installed.probes, installed.packages, strict=True)
        ],
        "broken_plugins": [_facts(b, "name", "package", "reason") for b in installed.broken],
    }
    if as_json:
        print_json("list/1", tables)
        return

    from tsc_interp.output.table import print_table

    console = output()
    for index, name in enumerate(name for name, rows in tables.items() if rows):
        if index:
            console.print()
        headings = list(tables[name][0])
        numbers = [headings.index(name) for name in ("seed", "parameters") if name in headings]
        cells = [[_cell(value) for value in row.values()] for row in tables[name]]
        print_table(console, headings, cells, title=_TITLES[name], right=numbers)


def _facts(thing: object, *names: str) -> dict[str, Any]:
    return {name: getattr(thing, name) for name in names}


def _model(name: str, loaded: Checkpoint) -> dict[str, Any]:
    provenance = loaded.provenance
    return {
        "name": name,
        "trained as": provenance.get("experiment"),
        "seed": provenance.get("seed"),
        "parameters": loaded.n_parameters,
    }


def _cell(value: object) -> str:
    if isinstance(value, tuple):
        return f"{value[0]}..{value[-1]}" if len(value) > 1 else str(value[0])
    return f"{value:,}" if isinstance(value, int) else str(value)
