"""`tsc-interp import`: models of TransformerLens and of the source report, turned into ours."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from tsc_interp.cli.common import messages


def command(
    model: Path,
    *,
    out: Path,
    config: Path | None = None,
    frame: str | None = None,
    task: str | None = None,
    n_heads: int | None = None,
    attend_cls: bool = False,
    norm: Literal["off", "rms", "layer"] = "off",
    norm_eps: float = 1e-5,
    force: bool = False,
) -> None:
    """Import a model trained elsewhere: with TransformerLens (--config) or the source report.

    Nothing in the file is run. A TransformerLens model is rebuilt from its options, and its answers
    on random strings are compared with the imported model's before anything is written.

    Args:
        model (MODEL): A state dict saved by torch.save, or a safetensors file.
        out: Where to write the checkpoint.
        config: For a TransformerLens model: TOML or JSON with its options under [model] and its
            frame (or tokens, query, classes) and task under [reading].
        frame: With --config: what inputs look like, as '[START] x{20} [END]; x=0..30; START=31;
            END=32'. The checkpoint keeps it.
        task: With --config: what the model should decide.
        n_heads: Number of heads (default: heads of size 1).
        attend_cls: The model attends to CLS.
        norm: The kind of norm, if the model has one.
        norm_eps: The norm's epsilon.
        force: Overwrite an existing file.
    """
    from tsc_interp.errors import UsageError
    from tsc_interp.files import check_output

    # A checkpoint may be the only copy of a model, so none is replaced unasked.
    check_output(out, None, force=force, reads=[model, *([] if config is None else [config])])
    if config is None and (frame, task) != (None, None):
        raise UsageError("--frame and --task are for a TransformerLens model, with --config")
    if config is None:
        from tsc_interp.reproduction.source_models import read_source_model

        checkpoint = read_source_model(
            model, n_heads=n_heads, attend_cls=attend_cls, norm=norm, norm_eps=norm_eps
        )
    else:
        from tsc_interp.model.import_files import read_transformer_lens

        if n_heads is not None or attend_cls or norm != "off":
            raise UsageError("with --config, the options of the model are in that file")
        reading = {"frame": frame, "task": task}
        chosen = {name: value for name, value in reading.items() if value is not None}
        checkpoint = read_transformer_lens(model, config, **chosen)
    checkpoint.save(out, force=force)
    messages().print(f"wrote {out}: {checkpoint.n_parameters} parameters")
