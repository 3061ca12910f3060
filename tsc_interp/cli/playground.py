"""`tsc-interp playground`: one page in which the model runs, for a browser, without a network."""

from __future__ import annotations

from pathlib import Path

from tsc_interp.cli.common import named_model, tell_page, working


def command(
    model: str | None = None,
    *,
    checkpoint: str | None = None,
    epoch: int | None = None,
    compare: str | None = None,
    also: list[str] | None = None,
    with_history: bool = False,
    circuit: bool = False,
    seconds: float = 60,
    out: Path | None = None,
    open_page: bool = False,
    force: bool = False,
    quiet: bool = False,
) -> None:
    """Write a page to play with a model: type strings, see every step, break it, change it.

    The page is one file that opens from disk and needs no network.

    Args:
        compare: A second model, shown side by side.
        also (MODEL): Another model to choose in the page; repeatable.
        with_history: Include every epoch of the run, to scrub through training.
        circuit: Search for the circuit to highlight (bundled models have one).
        seconds: For a model that adds: the time to decide all pairs.
        out: The page to write (default: playground-MODEL.html).
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
