"""Which of a model's tokens are letters, where its answer is read, and which outputs it has.

Stated by `tokens`, `query` and `classes`, or by a frame. A causal model reads the last token, so
what stands behind the position read is cut off, and all that is left are letters of the imported
model. A model that looks both ways reads a fixed token, which becomes its CLS and comes first;
learned positions are put in the same order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from tsc_interp.errors import UnsupportedError, UsageError
from tsc_interp.frames.frame import Frame
from tsc_interp.strings import LETTERS, MAX_LETTERS

Reads = Literal["first", "last", "last_letter"]


@dataclass(frozen=True)
class InputMap:
    """Which of a model's tokens are letters, where its answer is read, and what it is."""

    ids: tuple[int, ...]
    """Token ids, in the order of our letters."""
    names: tuple[str, ...]
    """What they are called; empty where that is a, b, c, ..."""
    query: int | None
    reads: Reads
    classes: tuple[int, int] | None
    outputs: tuple[int, ...] | None = None
    """The original's outputs in the order they are kept; by default their own."""
    front: int | None = None
    """Tokens in front of the query; by default as `reads` says."""
    back: int = 0
    """Where `front` is None and a model looks both ways: tokens behind the query."""
    layout: Frame | None = None
    """What is left of the frame without the query, letters by index."""
    moved: tuple[int, ...] | None = None
    """The original's position for each of ours, where they differ."""
    blank: int = 0
    """Positions of a table of zeros, for a model that has none and whose letters have places."""

    def read_at(self, length: int) -> int:
        """Which of the original's positions is read, of so many letters."""
        if self.reads != "first":
            return length if self.reads == "last" else length - 1
        if self.layout is None:
            return self.front or 0
        return self.front if self.front is not None else length - self.back

    def rows(self, letters: Tensor) -> Tensor:
        """Letters `[batch pos]` as the original's tokens."""
        ids = torch.tensor(self.ids)[letters]
        if self.query is None:
            return ids
        at = self.read_at(letters.shape[1])
        query = torch.full((len(ids), 1), self.query)
        return torch.cat([ids[:, :at], query, ids[:, at:]], dim=1)

    def answers(self, outputs: Tensor) -> Tensor:
        """The original's outputs `[... out]` as the import has them.

        With `classes`, yes minus no, rounded to float32.
        """
        if self.classes is None:
            return outputs if self.outputs is None else outputs[..., list(self.outputs)]
        no, yes = self.classes
        return outputs.float()[..., [yes]] - outputs.float()[..., [no]]


def chosen_letters(
    tokens: Mapping[int, str] | Sequence[int], d_vocab: int, query: int | None
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """The token ids in the order of our letters, and their names where those are not letters."""
    named = (
        dict(tokens) if isinstance(tokens, Mapping) else dict(zip(tokens, LETTERS, strict=False))
    )
    ids = [*named, *([] if query is None else [query])]
    wrong = [token for token in ids if type(token) is not int or not 0 <= token < d_vocab]
    if not named or wrong or len(set(ids)) < len(ids) or len(named) > len(LETTERS):
        raise UsageError(
            f"tokens are 1 to {len(LETTERS)} different ids from 0 to {d_vocab - 1}, none of them "
            f"the query's; got {list(named)[:9]} and query={query}"
        )
    names = [str(name) for name in named.values()]
    if len(set(names)) < len(names):
        raise UsageError("two tokens have the same name")
    if set(names) == set(LETTERS[: len(names)]):
        order = sorted(named, key=lambda token: LETTERS.index(named[token]))
        return tuple(order), ()
    return tuple(named), tuple(names)


def chosen_classes(classes: tuple[int, int] | None, outputs: int) -> tuple[int, int] | None:
    if classes is None:
        return (0, 1) if outputs == 2 else None
    valid = len(classes) == 2 and classes[0] != classes[1]
    if not valid or not all(type(c) is int and 0 <= c < outputs for c in classes):
        raise UsageError(
            f"classes are two different outputs from 0 to {outputs - 1}, got {classes!r}"
        )
    return classes


def of_frame(
    frame: Frame,
    model: Any,
    *,
    causal: bool,
    n_positions: int,
    ordered: bool,
    names: Mapping[int, str] | None = None,
) -> InputMap:
    """Which tokens are letters, where the answer is read, and the frame of what is left.

    Args:
        frame: What inputs look like; tokens are the model's own.
        model: The TransformerLens model.
        causal: Which way attention looks.
        n_positions: For how many tokens there are positions; 0 for none.
        ordered: Whether the task is about the order of letters.
        names: What tokens are called, besides the names of the frame.

    Raises:
        UsageError: The frame does not fit the model.
        UnsupportedError: No classifier here reads such a frame.
    """
    d_vocab, outputs = model.cfg.d_vocab, model.W_U.shape[-1]
    if max(frame.tokens) >= d_vocab or max(frame.classes or (0,)) >= outputs:
        raise UsageError(
            f"the frame has tokens up to {max(frame.tokens)} and classes {frame.classes}; the "
            f"model has {d_vocab} tokens and {outputs} outputs"
        )
    if len(frame.read) > 1:
        raise UnsupportedError(
            "an imported model answers once: a causal model that answers at every position is read "
            "at the last one, x{1..20} instead of x{20}; read=0..19 (tsc.falsify takes both)"
        )
    left, query, front, back = (_causal if causal else _both_ways)(frame)
    counts = not ordered and not n_positions and _alone(left, frame, int(causal))
    if counts and causal:
        counts = model.cfg.n_layers == 1
        if counts:
            query, left = left.after[0], left.replace(after=())
    if query is not None and front is None and n_positions and len(frame.lengths) > 1:
        raise UnsupportedError(
            "a model with positions that looks both ways is read at a token whose position is the "
            "same in every input: read=0, or one length"
        )
    ids = left.tokens
    if len(ids) > MAX_LETTERS:
        raise UnsupportedError(f"the frame has {len(ids)} tokens; up to {MAX_LETTERS} are letters")
    called = {**frame.names, **(names or {})}
    known = tuple(called.get(token, str(token)) for token in ids)
    longest = frame.length(frame.places[1])
    moved: tuple[int, ...] | None = None
    if query is not None and not causal and n_positions:
        at = front if front is not None else longest - 1 - back
        end = n_positions if front is not None else longest
        moved = (at, *(position for position in range(end) if position != at))
    return InputMap(
        ids=ids,
        names=() if known == tuple(LETTERS[: len(ids)]) else known,
        query=query,
        reads="last_letter" if query is None else "last" if causal else "first",
        classes=_two(frame, outputs),
        outputs=_ordered(frame, outputs),
        front=front,
        back=back,
        layout=None if counts else _numbered(left, ids, known),
        moved=moved,
        # Fixed letters and places have an order, which a table of zeros lets a model see.
        blank=longest if query is not None and not counts and not n_positions else 0,
    )


Cut = tuple[Frame, int | None, int | None, int]
"""The frame without the token that reads, that token, and how many come before or behind it."""


def _causal(frame: Frame) -> Cut:
    """The frame without what stands behind the position read, which does not see it."""
    if frame.writes:
        return frame, None, None, 0
    unseen = {frame.length(n) - 1 - frame.reads(n)[0] for n in frame.lengths}
    behind = max(unseen)
    if len(unseen) > 1 or behind > len(frame.after):
        raise UnsupportedError(
            "a causal model does not see letters behind the position read, so the answer cannot "
            "depend on them: read the last letter, or a fixed token behind it"
        )
    after = frame.after[: len(frame.after) - behind]
    return frame.replace(after=after, read=(-1,)), None, None, 0


def _both_ways(frame: Frame) -> Cut:
    if frame.writes:
        raise UnsupportedError("a model that looks both ways writes nothing")
    longest = frame.places[1]
    at, size = frame.reads(longest)[0], frame.length(longest)
    row, places = frame.template(longest)
    ends = len({frame.length(n) - frame.reads(n)[0] for n in frame.lengths}) == 1
    front = at if at < len(frame.before) else None
    if at in places or (front is None and not ends and len(frame.lengths) > 1):
        raise UnsupportedError(
            "a model that looks both ways is read at a fixed token, in every input the same: put "
            "one into the frame, and read its position"
        )
    behind = size - 1 - at
    if front is not None:
        left = frame.replace(before=frame.before[:at] + frame.before[at + 1 :], read=(-1,))
    elif behind < len(frame.after):
        i = len(frame.after) - 1 - behind
        left = frame.replace(after=frame.after[:i] + frame.after[i + 1 :], read=(-1,))
    else:
        raise UnsupportedError("a model that looks both ways is read before or behind the letters")
    return left, int(row[at]), front, behind


def _alone(left: Frame, frame: Frame, behind: int) -> bool:
    """Whether the letters stand alone, in any order and number: then counts may be all there is.

    A causal model's token that reads is still behind them.
    """
    shared = len(set(left.letters)) == 1 and not left.distinct and left.places[0] <= 1
    free = not left.before and not left.between and not frame.writes
    return shared and free and len(left.after) == behind and not {*left.after} & {*left.letters[0]}


def _numbered(left: Frame, ids: tuple[int, ...], called: tuple[str, ...]) -> Frame:
    """The frame with letters by index instead of tokens."""
    names = {i: name for i, name in enumerate(called) if name != str(i)}
    return left.mapped(ids.index, classes=None, names=names)


def _two(frame: Frame, outputs: int) -> tuple[int, int] | None:
    """The outputs for no and yes, where there are no others."""
    if outputs != 2:
        return None
    no, yes = frame.classes if frame.classes is not None and len(frame.classes) == 2 else (0, 1)
    return no, yes


def _ordered(frame: Frame, outputs: int) -> tuple[int, ...] | None:
    """Outputs in the order of the classes they stand for, and then those that stand for none."""
    if frame.classes is None or outputs <= 2:
        return None
    unused = [output for output in range(outputs) if output not in frame.classes]
    return (*frame.classes, *unused)
