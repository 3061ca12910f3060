"""`frame=`, which every function takes that takes a model: what the model's inputs look like.

    tsc.verify(model, frame="[START] x{20} [END]; x=0..30; START=31; END=32", task="palindrome")
    tsc.evaluate(model, "abba", frame={"frame": "[4] x{4} [5]; x=0..3", "task": "palindrome"})

A TransformerLens model is imported with its frame. One of our models keeps its weights, and its
task becomes one about the inputs of the frame, whose tokens are then ours (CLS is 0, a is 2).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from tsc_interp.checkpoints.checkpoint import Checkpoint
from tsc_interp.checkpoints.resolve import as_checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import UnsupportedError, UsageError, shorten
from tsc_interp.frames.frame import Frame
from tsc_interp.strings import CLS, FIRST_LETTER
from tsc_interp.tasks.base import given_task
from tsc_interp.tasks.framed import framed
from tsc_interp.tasks.function import as_task, is_function
from tsc_interp.tasks.regions import Regions
from tsc_interp.tasks.transducer import Writing

FrameLike = Frame | str | Mapping[str, Any]
"""A frame, its notation, or the options of `tsc.from_transformer_lens`, the task among them."""
_SHOWN = 100
_IMPORT_OPTIONS = {"tokens", "task", "frame", "query", "classes", "samples", "seed", "name"}


def is_external(model: Any) -> bool:
    """Whether this is a TransformerLens model and none of ours."""
    return hasattr(model, "cfg") and hasattr(model, "W_U") and not hasattr(model, "to_checkpoint")


def with_frame(model: Any, frame: FrameLike | None, *, task: Any = None) -> Any:
    """A model whose inputs have this frame, as a checkpoint; without a frame, the model itself.

    Args:
        model: A TransformerLens model, or whatever stands for one of ours.
        frame: What inputs look like.
        task: What a TransformerLens model should decide, where `frame` does not say it.

    Raises:
        UsageError: The frame does not fit the model, or nothing says what the model should decide.
        UnsupportedError: No classifier here reads such a frame.

    Example:
        >>> framed = with_frame("generalization-errors", "[CLS] x{1..9}; x=2..4; CLS=0; read=0")
        >>> framed.provenance["frame"]
        '[CLS] x{1..9}; x=2..4; CLS=0; read=0'
    """
    if frame is None:
        return model
    if not isinstance(frame, Frame | str | Mapping):
        raise UsageError(
            "a frame is a tsc.Frame, its notation, or a mapping with the options of "
            f"tsc.from_transformer_lens (frame or tokens, and a task); got {shorten(frame)}"
        )
    if is_external(model):
        from tsc_interp.model.importing import from_transformer_lens

        options = dict(frame) if isinstance(frame, Mapping) else {"frame": frame}
        if task is not None:
            options.setdefault("task", task)
        if set(options) - _IMPORT_OPTIONS or not {"tokens", "frame"} & set(options):
            raise UsageError(
                "a mapping has a frame, or tokens and perhaps query and classes, and a task, as "
                f"tsc.from_transformer_lens takes them; got {shorten(options)}"
            )
        if "task" not in options:
            raise UsageError(
                "nothing says what this model should decide; name a task: "
                "frame={'frame': ..., 'task': ...}"
            )
        return from_transformer_lens(model, **options)
    if isinstance(frame, Mapping):
        raise UsageError(
            f"a mapping is for a TransformerLens model, which is imported with it; this one is "
            f"imported already, and takes a frame; got {shorten(frame)}"
        )
    return _reframed(as_checkpoint(model), Frame.of(frame))


def _reframed(checkpoint: Checkpoint, frame: Frame) -> Checkpoint:
    config = checkpoint.config
    inside = _without_cls(config, frame)
    task = getattr(config.task, "task", config.task)
    provenance = {**checkpoint.provenance, "frame": str(frame)}
    if config.needs_order:
        framed_config = config.replace(task=framed(task, inside))
        return replace(checkpoint, config=framed_config, provenance=provenance)
    every = tuple(range(config.n_letters))
    plain = not inside.fixed and not inside.distinct and inside.places[0] <= 1
    if not plain or set(inside.letters) != {every}:
        raise UnsupportedError(
            "this model sees how often each letter occurs and not where: places that differ, fixed "
            "tokens and exact lengths mean nothing to it (tsc.falsify takes any frame)"
        )
    return replace(checkpoint, provenance=provenance)


def _without_cls(config: ClassifierConfig, frame: Frame) -> Frame:
    """The frame without CLS, its tokens as letters by index."""
    before, after = list(frame.before), list(frame.after)
    fits = len(frame.read) == 1 and frame.classes is None
    if config.reads == "first":
        fits = fits and before[:1] == [CLS] and frame.reads(frame.places[1]) == (0,)
        before = before[1:]
    elif config.reads == "last":
        fits = fits and after[-1:] == [CLS] and frame.read == (-1,)
        after = after[:-1]
    else:
        fits = fits and frame.read == (-1,)
    trimmed = frame.replace(before=tuple(before), after=tuple(after), read=(-1,))
    highest = FIRST_LETTER + config.n_letters
    if not fits or not all(FIRST_LETTER <= token < highest for token in trimmed.tokens):
        raise UsageError(
            f"the frame {frame} does not fit the model, whose inputs look like {frame_of(config)}"
        )
    return _shifted(trimmed, -FIRST_LETTER)


def _shifted(frame: Frame, by: int) -> Frame:
    names = {token + by: name for token, name in frame.names.items() if token + by >= 0}
    return frame.mapped(lambda token: token + by, names=names)


def frame_of(config: ClassifierConfig) -> Frame:
    """What the inputs of one of our models look like, in its own tokens, CLS among them.

    Without a frame of its own: up to 100 letters, or as many as it has positions for.
    """
    longest = config.n_positions - config.has_cls if config.n_positions else _SHOWN
    bare = config.frame
    if bare is None and isinstance(config.task, Writing):
        bare = _prompts(config.task)
    elif bare is None:
        bare = Frame(places=range(1, min(_SHOWN, longest) + 1), letters=range(config.n_letters))
    inside = _shifted(bare, FIRST_LETTER)
    special, names = config.called[:FIRST_LETTER], config.called[FIRST_LETTER:]
    called = {FIRST_LETTER + i: name for i, name in enumerate(names)}
    called |= {i: name for i, name in enumerate(special) if name not in names}
    return inside.replace(
        before=((CLS,) if config.reads == "first" else ()) + inside.before,
        after=inside.after + ((CLS,) if config.reads == "last" else ()),
        read=(0,) if config.reads == "first" else (-1,),
        names=called,
    )


def task_of(checkpoint: Checkpoint, given: object) -> Any:
    """The task somebody gave for a model: a function gets the tokens that the model gets.

    Those are the original's for a model that was imported, and ours for others.
    """
    config, known = checkpoint.config, checkpoint.provenance
    if not is_function(given):
        return given_task(given)
    if config.frame is not None and config.frame.writes:
        raise UsageError("a model that writes takes a tsc.tasks.Transducer, and no function")
    ids = known.get("token_ids")
    if ids is None:
        ids, frame = range(FIRST_LETTER, FIRST_LETTER + config.n_letters), frame_of(config)
    elif "frame" in known:
        frame = Frame.parse(str(known["frame"]))
    else:
        query = [] if known.get("query") is None else [known["query"]]
        front = config.reads == "first"
        frame = Frame(before=query if front else [], after=[] if front else query,
                      places=1, letters=ids)  # fmt: skip
    tokens = np.array(ids)
    return as_task(
        given, lambda letters: frame.rows(tokens[letters]),
        config.n_letters if config.frame is None else 1 + max(map(max, config.frame.letters)),
        n_classes=max(2, config.n_outputs), ordered=config.needs_order, layout=config.frame,
        longest=config.n_positions - config.has_cls if config.has_positions else None,
    )  # fmt: skip


def _prompts(task: Writing) -> Frame:
    """What the prompts of a task that writes look like, letters by index."""
    first = task.step_trellis(0)
    letters = {
        place: tuple(np.unique(first.stages[stage].letters[:, column]).tolist())
        for place, (stage, column) in first.place_of.items()
    }
    if sum(Regions.whole(first).counts()) != math.prod(map(len, letters.values())):
        raise UnsupportedError(
            "the prompts of this task are not all combinations of letters: give a frame"
        )
    places, fixed = sorted(letters), dict(first.fixed)
    runs: dict[int, list[int]] = {}
    for place, letter in sorted(fixed.items()):
        runs.setdefault(sum(free < place for free in places), []).append(letter)
    before, after = runs.pop(0, []), runs.pop(len(places), [])
    return Frame(
        before=before, places=len(places), letters=[letters[place] for place in places],
        between=runs, after=after, writes=task.n_steps,
    )  # fmt: skip
