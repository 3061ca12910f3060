"""`tsc-interp info`: what a checkpoint is and where it comes from."""

from __future__ import annotations

from typing import Any

from tsc_interp.cli.common import CheckpointOption, EpochOption, JsonOption, output, print_json


def command(
    checkpoint: CheckpointOption = "walkthrough",
    epoch: EpochOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show a model's configuration, parameters and provenance."""
    from tsc_interp.checkpoints import load_checkpoint

    loaded = load_checkpoint(checkpoint, epoch=epoch)
    shapes = {name: list(weight.shape) for name, weight in loaded.weights.items()}
    document: dict[str, Any] = {
        "checkpoint": loaded.source,
        "config": loaded.config.to_dict(),
        "config_key": loaded.config.key(),
        "weight_hash": loaded.weight_hash(),
        "parameters": loaded.n_parameters,
        "weights": shapes,
        "provenance": dict(loaded.provenance),
    }
    if as_json:
        print_json("info/1", document)
        return

    from rich.table import Table

    console = output()
    console.print(
        f"[bold]{loaded.source}[/bold]: {loaded.config.task.describe()}? "
        f"{loaded.n_parameters} parameters"
    )
    for title, rows in {
        "configuration": document["config"],
        "weights": {name: " × ".join(map(str, shape)) for name, shape in shapes.items()},
        "provenance": {**loaded.provenance, "weight hash": loaded.weight_hash()},
    }.items():
        table = Table(title=title, title_justify="left", show_header=False)
        for name, value in rows.items():
            table.add_row(name, str(value))
        console.print(table)
