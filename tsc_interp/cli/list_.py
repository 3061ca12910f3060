"""`tsc-interp list`: what there is to train, to load and to ask."""

from __future__ import annotations

from typing import Any

from tsc_interp.cli.common import JsonOption, output, print_json


def command(as_json: JsonOption = False) -> None:
    """List the source report's experiments, the bundled models and the probes.

    Probes of other packages that are installed here are listed, too.
    """
    from tsc_interp.checkpoints import bundled_names, load_checkpoint
    from tsc_interp.probes.registry import PROBES, plugins
    from tsc_interp.reproduction.experiments import SOURCE_EXPERIMENTS

    experiments = [
        {
            "name": experiment.name,
            "seeds": list(experiment.seeds),
            "about": experiment.about,
            "chapter": experiment.chapter,
        }
        for experiment in SOURCE_EXPERIMENTS
    ]
    models = []
    for name in bundled_names():
        loaded = load_checkpoint(name)
        models.append(
            {
                "name": name,
                "trained as": loaded.provenance.get("experiment"),
                "seed": loaded.provenance.get("seed"),
                "parameters": loaded.n_parameters,
            }
        )
    probes = [
        {"name": probe.name, "question": probe.question, "chapter": probe.chapter}
        for probe in PROBES
    ]
    installed = plugins()
    others = [
        {"name": probe.name, "question": probe.question, "package": package}
        for probe, package in zip(installed.probes, installed.packages, strict=True)
    ]
    broken = [
        {"name": one.name, "package": one.package, "reason": one.reason} for one in installed.broken
    ]
    if as_json:
        print_json(
            "list/1",
            {
                "experiments": experiments,
                "models": models,
                "probes": probes,
                "plugins": others,
                "broken_plugins": broken,
            },
        )
        return

    from tsc_interp.output.table import print_table

    console = output()
    tables: dict[str, list[dict[str, Any]]] = {
        "experiments of the source report (tsc-interp reproduce NAME)": experiments,
        "bundled models (--checkpoint NAME)": models,
        "probes (tsc-interp analyze --probe NAME)": probes,
        "probes of other packages (--probe NAME)": others,
        "probes that cannot be loaded": broken,
    }
    shown = {title: rows for title, rows in tables.items() if rows}
    for index, (title, rows) in enumerate(shown.items()):
        if index:
            console.print()
        headings = list(rows[0])
        numbers = [headings.index(name) for name in ("seed", "parameters") if name in headings]
        cells = [[_cell(value) for value in row.values()] for row in rows]
        print_table(console, headings, cells, title=title, right=numbers)


def _cell(value: object) -> str:
    if isinstance(value, list):
        return f"{value[0]}..{value[-1]}" if len(value) > 1 else str(value[0])
    return f"{value:,}" if isinstance(value, int) else str(value)
