"""`tsc-interp playground`: one page in which the model runs, for a browser, without a network."""

from __future__ import annotations

from pathlib import Path

import typer

from tsc_interp.cli.common import (
    CheckpointOption,
    EpochOption,
    ForceOption,
    ModelArgument,
    OpenOption,
    QuietOption,
    named_model,
    tell_page,
    working,
)


def command(
    model: ModelArgument = None,
    checkpoint: CheckpointOption = None,
    epoch: EpochOption = None,
    compare: str | None = typer.Option(
        None, metavar="MODEL", help="A second model, shown side by side."
    ),
    also: list[str] | None = typer.Option(
        None, metavar="MODEL", help="Another model to choose in the page; repeatable."
    ),
    with_history: bool = typer.Option(
        False, "--with-history", help="Include every epoch of the run, to scrub through training."
    ),
    circuit: bool = typer.Option(
        False, "--circuit", help="Search for the circuit to highlight (bundled models have one)."
    ),
    seconds: float = typer.Option(
        60.0, min=0, metavar="NUMBER", help="For a model that adds: the time to decide all pairs."
    ),
    out: Path | None = typer.Option(
        None, "--out", "-o", help="The page to write.", show_default="playground-MODEL.html"
    ),
    open_page: OpenOption = False,
    force: ForceOption = False,
    quiet: QuietOption = False,
) -> None:
    """Write a page to play with a model: type strings, see every step, break it, change it.

    The page is one file that opens from disk and needs no network.
    """
    from tsc_interp.checkpoints import load_checkpoint
    from tsc_interp.files import check_output
    from tsc_interp.playground import is_playground, page_name, read_history, write_playground

    named = named_model(model, checkpoint)
    loaded = load_checkpoint(named, epoch=epoch)
    history = read_history(named) if with_history else None
    target = out or Path(f"playground-{page_name(loaded).replace('/', '-')}.html")
    check_output(target, is_playground, force=force, reads=[loaded.source])
    with working(quiet) as doing:
        if circuit:
            doing("searching for circuits")
        write_playground(
            loaded,
            target,
            compare,
            history,
            also=also or (),
            circuit=circuit,
            seconds=seconds,
            progress=lambda done: doing(f"{done:.0%} of all pairs decided"),
            force=force,
        )
    size = target.stat().st_size / 1000
    tell_page(target, quiet=quiet, open_page=open_page, what=f"playground ({size:.0f} kB)")
