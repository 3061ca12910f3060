"""A model that someone else trained, imported: weights, options, and a comparison.

    tsc.from_transformer_lens(model, tokens={0: "a", 1: "b", 2: "c"}, query=3, task="contains_all")

takes a `HookedTransformer` (3.x) or a `TransformerBridge` (4.x). What this family of classifiers
has no place for is refused with the reason and the nearest thing that fits. So are hooks,
subclasses and replaced methods (`unaltered.py`), which could do something else on strings nobody
tried. What fits is built, run beside the original, and accepted only if the two agree to float32
rounding on every string tried and every output (`comparing.py`). The difference of two outputs is
folded into weights, which rounds it once more. Whatever is proved afterwards is about the weights
imported.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tsc_interp.arguments import checked
from tsc_interp.checkpoints.checkpoint import Checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import UnsupportedError, UsageError
from tsc_interp.frames.frame import Frame
from tsc_interp.model.comparing import compare
from tsc_interp.model.import_options import is_causal, model_options
from tsc_interp.model.input_map import InputMap, Reads, chosen_classes, chosen_letters, of_frame
from tsc_interp.model.interop import weight_of
from tsc_interp.model.names import weights_of
from tsc_interp.output.numbers import counted
from tsc_interp.strings import CLS, FIRST_LETTER
from tsc_interp.tasks.base import given_task
from tsc_interp.tasks.counts import AtLeast
from tsc_interp.tasks.framed import framed
from tsc_interp.tasks.function import as_task, is_function


@checked
def from_transformer_lens(
    model: Any,
    *,
    task: Any,
    tokens: Mapping[int, str] | Sequence[int] | None = None,
    frame: Frame | str | None = None,
    query: int | None = None,
    classes: tuple[int, int] | None = None,
    samples: int = 64,
    seed: int = 0,
    name: str | None = None,
) -> Checkpoint:
    """Import a TransformerLens model, and compare it with the original.

    Args:
        model: A `HookedTransformer` or a `TransformerBridge`.
        task: What the model should decide: the name of a task, one of `tsc.tasks`, or a function
            of one input's tokens that returns its class (None: no opinion), or of token rows
            `[row, position]` that returns a class for each row.
        tokens: The token ids that are letters, and their names: `{5: "a"}`, or `{5: "(", 6: ")"}`,
            whose names the checkpoint keeps. A list of ids stands for a, b, c, ...
        frame: The format of the inputs (`tsc.Frame`, or its notation): fixed tokens, letters for
            each place, lengths, and the position read. It replaces `query` and `classes`; `tokens`
            may still name tokens. The checkpoint stores the frame, and every function uses it. The
            task is about the letters at the places; its a is the letter with the lowest id.
        query: The id of the token at which the answer is read. It comes last in a causal model and
            first in a bidirectional one. Without it, the answer is read at the last letter.
        classes: The outputs that mean no and yes; their difference is the logit. By default these
            are the two outputs; with more outputs, all are kept, and the largest is the answer.
        samples: The number of random strings on which both models are compared.
        seed: The seed of these strings.
        name: The title of the model's pages; by default the frame's name, or the model's own.

    Returns:
        The model as a checkpoint, which every function of the package accepts as a model.

    Raises:
        UsageError: The options do not fit the model.
        UnsupportedError: The model has a part that cannot be imported, or the two disagree.

    Example:
        >>> import tsc_interp as tsc
        >>> bridge = tsc.load("walkthrough").to_transformer_lens(n_ctx=32)
        >>> mine = from_transformer_lens(bridge, tokens={2: "a", 3: "b", 4: "c"}, query=0,
        ...                              task="contains_all")
        >>> tsc.evaluate(mine, "aab")[0].correct
        True
        >>> framed = from_transformer_lens(bridge, frame="[CLS] x{1..9}; x=2..4; CLS=0; read=0",
        ...              task=lambda rows: (rows == 2).any(1) * (rows == 3).any(1))
        >>> tsc.verify(framed).correct
        True
    """
    cfg = getattr(model, "cfg", None)
    if cfg is None or not hasattr(model, "W_U"):
        raise UsageError(
            "a model of TransformerLens is imported, a HookedTransformer or a TransformerBridge; "
            f"got a {type(model).__name__} (plain PyTorch: tsc.from_torch)"
        )
    options = model_options(model)
    causal = is_causal(cfg)
    provenance: dict[str, Any] = {"imported_from": type(model).__name__}
    if frame is not None:
        names = dict(tokens) if isinstance(tokens, Mapping) else None
        if query is not None or classes is not None or (tokens is not None and names is None):
            raise UsageError(
                "a frame says which tokens are letters, where the answer is read and which outputs "
                "stand for which classes: leave out query and classes; tokens may name tokens"
            )
        frame = Frame.of(frame, names=names)
        reading = of_frame(
            frame, model, causal=causal, n_positions=options["n_positions"],
            ordered=not is_function(task) and given_task(task).ordered, names=names,
        )  # fmt: skip
        moved = reading.moved is not None and reading.moved[0] > 0
        if moved and options["positions"] != "learned":
            raise UnsupportedError(
                f"{options['positions']} positions count from the first token, so a model that "
                "looks both ways is read there: read=0"
            )
        provenance["frame"] = str(frame)
    else:
        if tokens is None:
            raise UsageError("say which tokens are letters (tokens=), or what inputs look like")
        if query is None and not causal:
            raise UsageError(
                "a model that looks both ways is read at a token of its own: query=its id"
            )
        reads: Reads = "last_letter" if query is None else ("last" if causal else "first")
        ids, called = chosen_letters(tokens, cfg.d_vocab, query)
        reading = InputMap(ids, called, query, reads, chosen_classes(classes, model.W_U.shape[-1]))
    if n_ctx := getattr(cfg, "n_ctx", None):
        provenance["n_ctx"] = int(n_ctx) - _cut(frame, reading)
        _warn_beyond(int(n_ctx), frame, options["n_positions"])
    config = _config(options, reading, task, model.W_U.shape[-1], frame)
    state = _state(model, config, reading)
    weights, _ = weights_of(config, state, name_of(model), lacks_biases=True)
    checkpoint = Checkpoint(
        config,
        weights,
        {**provenance, "token_ids": list(reading.ids), "query": reading.query},
        source=name or getattr(frame, "name", "") or name_of(model),
    )

    def original(letters: Tensor) -> Tensor:
        out: Tensor = model(reading.rows(letters).to(model.W_E.device))
        return out[:, reading.read_at(letters.shape[1])].float().cpu()

    compare(checkpoint, reading, original, samples, seed, getattr(cfg, "n_ctx", None))
    return checkpoint


def _cut(frame: Frame | None, reading: InputMap) -> int:
    """How many tokens behind the position read the import leaves out."""
    if frame is None:
        return 0
    kept = 0 if reading.layout is None else reading.layout.length(0)
    return frame.length(0) - kept - (reading.query is not None)


def _warn_beyond(n_ctx: int, frame: Frame | None, n_positions: int) -> None:
    """Say that the import reads inputs which the original refuses."""
    longest = f"{n_positions} tokens" if n_positions else "any number of tokens"
    beyond = not 0 < n_positions <= n_ctx
    if frame is not None:
        tokens = frame.length(frame.places[1]) + max(frame.writes - 1, 0)
        longest, beyond = f"{tokens} tokens", tokens > n_ctx
    if beyond:
        warnings.warn(
            f"inputs of the import have up to {longest}, and the original accepts {n_ctx} (n_ctx): "
            "what is claimed of longer ones is about the imported weights alone",
            stacklevel=4,
        )


def name_of(model: Any) -> str:
    """A TransformerLens model's own name, or its size: that of its class would name them all."""
    named = getattr(model.cfg, "model_name", None)
    if named not in (None, "", "custom", "native"):
        return str(named)
    layers, heads = int(model.cfg.n_layers), int(model.cfg.n_heads)
    return f"{layers}-layer model, {counted(heads, 'head')}"


def _config(
    options: Mapping[str, Any], reading: InputMap, task: Any, outputs: int, frame: Frame | None
) -> ClassifierConfig:
    n_letters = len(reading.ids)
    positions = {}
    if reading.moved is not None or reading.blank:
        positions["n_positions"] = reading.blank or len(reading.moved or ())
    shape = {
        **options,
        "n_letters": n_letters,
        "biases": True,
        "n_outputs": 1 if reading.classes else outputs,
        "reads": reading.reads,
        "token_names": reading.names,
        **positions,
    }
    sees_order = ClassifierConfig(**shape, task=AtLeast()).needs_order
    layout = reading.layout

    def rows(letters: Any) -> Any:
        if frame is None or letters.shape[1] not in frame.lengths:
            return reading.rows(torch.from_numpy(letters)).numpy()
        return frame.rows(np.array(reading.ids)[letters])

    places = shape["n_positions"] - (reading.query is not None) if shape["n_positions"] else None
    task = as_task(
        task, rows, n_letters if layout is None else 1 + max(map(max, layout.letters)),
        n_classes=max(2, shape["n_outputs"]), ordered=sees_order, layout=layout, longest=places,
    )  # fmt: skip
    return ClassifierConfig(**shape, task=task if layout is None else framed(task, layout))


def _state(model: Any, config: ClassifierConfig, reading: InputMap) -> dict[str, Tensor]:
    """The weights the configuration calls for: letters, positions and outputs in our order."""
    named = {name: weight_of(model, name) for name in config.weight_shapes()}
    weights = {name: weight for name, weight in named.items() if weight is not None}
    absent = [name for name in named.keys() - weights.keys() if ".b_" not in name]
    if absent:
        raise UnsupportedError(
            f"the model's configuration calls for {absent[0]}, which the model does not have"
        )
    embedding = torch.zeros(config.alphabet.vocab_size, config.d_model)
    embedding[FIRST_LETTER:] = model.W_E.detach()[list(reading.ids)].float().cpu()
    if reading.query is not None:
        embedding[CLS] = model.W_E.detach()[reading.query].float().cpu()
    weights["embed.W_E"] = embedding
    if reading.blank:
        weights["pos_embed.W_pos"] = torch.zeros(config.n_positions, config.d_model)
    elif config.learned_positions and reading.moved is not None:
        weights["pos_embed.W_pos"] = model.W_pos[list(reading.moved)]
    for name in ("unembed.W_U", "unembed.b_U"):
        if name in weights:
            weights[name] = reading.answers(weights[name])
    return weights
