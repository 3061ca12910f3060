"""`tsc-interp list`: what there is to train, to load and to ask."""

from __future__ import annotations

from typing import Any

from tsc_interp.cli.common import JsonOption, output, print_json


def command(as_json: JsonOption = False) -> None:
    """List the source report's experiments, the bundled models and the probes."""
    from tsc_interp.checkpoints import bundled_names, load_checkpoint
    from tsc_interp.probes.registry import PROBES
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
    if as_json:
        print_json("list/1", {"experiments": experiments, "models": models, "probes": probes})
        return

    from tsc_interp.output.table import print_table

    console = output()
    tables: dict[str, list[dict[str, Any]]] = {
        "experiments of the source report (tsc-interp reproduce NAME)": experiments,
        "bundled models (--checkpoint NAME)": models,
        "probes (tsc-interp analyze --probe NAME)": probes,
    }
    for index, (title, rows) in enumerate(tables.items()):
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
