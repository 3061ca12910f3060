"""`tsc-interp info`: what a checkpoint is and where it comes from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tsc_interp.cli.common import named_model, output, print_json


def command(
    model: str | None = None,
    *,
    checkpoint: str | None = None,
    epoch: int | None = None,
    as_json: bool = False,
) -> None:
    """Show a model's configuration, parameters and provenance."""
    from tsc_interp.checkpoints import load_checkpoint

    loaded = load_checkpoint(named_model(model, checkpoint), epoch=epoch)
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

    from tsc_interp.output.table import print_table
    from tsc_interp.output.visible import visible

    console = output()
    question = visible(loaded.config.question)
    console.print(
        f"{visible(loaded.source)}: {question}? {loaded.n_parameters:,} parameters", style="bold"
    )
    for title, facts in {
        "configuration": document["config"],
        "weights": {name: " × ".join(map(str, shape)) for name, shape in shapes.items()},
        "provenance": loaded.provenance,
    }.items():
        console.print()
        print_table(console, ("", ""), list(_lines(facts)), title=title)
    console.print(f"\nweight hash {document['weight_hash']}", soft_wrap=True)


def _lines(facts: Any, under: str = "") -> Iterator[tuple[str, str]]:
    """Facts within facts under a name with dots: `training.test.seed`."""
    for name, value in facts.items():
        if isinstance(value, dict):
            yield from _lines(value, f"{under}{name}.")
        else:
            yield f"{under}{name}", str(value)
