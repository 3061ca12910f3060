"""Whether an imported model computes what the original computes: both run on the same strings."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from tsc_interp.checkpoints.checkpoint import Checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import UnsupportedError, UsageError, shorten
from tsc_interp.frames.frame import Frame
from tsc_interp.model.forward import forward, unembedding
from tsc_interp.model.inputs import from_tokens
from tsc_interp.strings import CLS, FIRST_LETTER, LETTERS
from tsc_interp.tasks.counts import ContainsAll

_TOLERANCE = 3e-5
"""Of the sizes that meet in an output: many roundings of float32, and no other function."""
_NOISE, _MOST_NOISE, _TRIES = 16.0, 0.01, 8
"""An import may differ by so many times what rounding was seen to do, up to one per cent of the
sizes that meet in an output."""
_HALF_UNIT = 2.0**-24
_SHORT = 16
_LONGEST = 512

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


def compare(
    checkpoint: Checkpoint,
    reading: InputMap,
    original: Callable[[Tensor], Tensor],
    samples: int,
    seed: int,
    room: int | None = None,
) -> None:
    """Check that the import computes what the original computes, on each string and each output.

    The strings are every single letter, `samples` random strings of up to sixteen letters, and a
    few of 32, 64, ... letters up to the original's context, or 512 letters.

    Args:
        checkpoint: The import.
        reading: Which of the original's tokens are letters, and where it is read.
        original: Takes letters `[batch pos]` and returns outputs `[batch out]`.
        samples: How many short strings are drawn.
        seed: Of the strings.
        room: How many tokens the original reads at most, where it has no positions.

    Raises:
        UnsupportedError: An output differs by more than float32 rounding.
    """
    config = checkpoint.config
    weights = {name: torch.from_numpy(array) for name, array in checkpoint.weights.items()}
    strings: Iterable[Tensor] = ()
    if reading.layout is not None:
        strings = _of_frame(reading.layout, samples, seed)
    if reading.layout is None or config.causal:  # else the query has its place in the frame only
        strings = chain(strings, _strings(config, samples, seed, room))
    rounded = 0.0
    for letters in strings:
        with torch.no_grad():
            theirs = original(letters)
        if reading.classes:
            no, yes = reading.classes
            theirs = theirs[:, [yes]] - theirs[:, [no]]
        elif reading.outputs is not None:
            theirs = theirs[:, list(reading.outputs)]
        ours, size = _outputs(config, weights, letters)
        gap = (ours - theirs).abs()
        if bool((gap <= _TOLERANCE * (1 + size)).all()):  # which no NaN is
            continue
        exact, noise = _rounding(config, weights, letters, ours)
        gap = torch.minimum(gap, (exact - theirs).abs())
        wrong = ~(gap <= torch.minimum(_NOISE * noise, _MOST_NOISE * (1 + size)))
        wrong &= ~(gap <= _TOLERANCE * (1 + size))
        if bool(wrong.any()):
            string, output = (int(index) for index in wrong.nonzero()[0])
            row = letters[string] if not reading.ids else reading.rows(letters)[string]
            raise UnsupportedError(
                f"imported, the model does not compute what the original does: on a string of "
                f"{letters.shape[1]} letters, tokens {shorten(row.tolist())}, output {output} is "
                f"{float(ours[string, output]):.6g} instead of {float(theirs[string, output]):.6g}"
                f", and float32 explains {_NOISE * float(noise[output]):.2g} of that at most. "
                "Something about it has no counterpart here, or tokens, query or classes are not "
                "what it was trained with. An original in float64 is imported after .float()"
            )
        rounded = max(rounded, float(gap.max()))
    if rounded:
        warnings.warn(
            f"an output of the original and of the import differ by {rounded:.2g}, which rounding "
            "to float32 explains: what is proved is about the imported weights in real numbers",
            stacklevel=3,
        )


def _outputs(
    config: ClassifierConfig, weights: dict[str, Tensor], letters: Tensor
) -> tuple[Tensor, Tensor]:
    """Outputs `[batch out]`, and what meets in them without its signs: the size of a sum."""
    columns = unembedding(config, weights)
    offset = weights.get("unembed.b_U", columns.new_zeros(config.n_outputs))
    with torch.no_grad():
        read = _read(config, weights, letters)
    return read @ columns + offset, read.abs() @ columns.abs() + offset.abs()


def _rounding(
    config: ClassifierConfig, weights: dict[str, Tensor], letters: Tensor, ours: Tensor
) -> tuple[Tensor, Tensor]:
    """Outputs in float64, and how far rounding moves each of them at most, `[out]`.

    By float32's own pass, and by weights that are moved by half a unit in their last place.
    """
    double = {name: weight.double() for name, weight in weights.items()}
    exact, _ = _outputs(config, double, letters)
    moved, generator = [ours], torch.Generator().manual_seed(0)
    for _ in range(_TRIES):
        shifted = {}
        for name, weight in double.items():
            share = 2 * torch.rand(weight.shape, generator=generator, dtype=weight.dtype) - 1
            shifted[name] = weight * (1 + _HALF_UNIT * share)
        moved.append(_outputs(config, shifted, letters)[0])
    gaps = torch.stack([(outputs - exact).abs() for outputs in moved])
    return exact, gaps.amax(dim=(0, 1))


def _of_frame(frame: Frame, samples: int, seed: int) -> Iterator[Tensor]:
    """Whole rows of letters, of some of the frame's lengths."""
    rng, lengths = np.random.default_rng(seed), frame.lengths
    for n in lengths[:: max(1, len(lengths) // 16)]:
        per_length = max(4, samples // min(16, len(lengths)))
        yield torch.from_numpy(frame.rows(frame.sample(per_length, rng, n)))


def _strings(
    config: ClassifierConfig, samples: int, seed: int, room: int | None
) -> Iterator[Tensor]:
    """Letters `[batch pos]`, length after length."""
    room = config.n_positions or room
    longest = _LONGEST if room is None else max(1, min(_LONGEST, room - int(config.has_cls)))
    generator = torch.Generator().manual_seed(seed)
    yield torch.arange(config.n_letters)[:, None]
    short = min(_SHORT, longest)
    for length in range(1, short + 1):
        shape = (max(1, samples // short), length)
        yield torch.randint(0, config.n_letters, shape, generator=generator)
    doubled = [2**power for power in range(5, 20) if 2**power < longest]
    for length in [*doubled, longest][: len(doubled) + (longest > short)]:
        mixed = torch.randint(0, config.n_letters, (2, length), generator=generator)
        # Two letters only, one of them rare: a mixture of all hides what a single letter does.
        pair = torch.randint(0, config.n_letters, (2, 2), generator=generator)
        rare = (torch.rand(2, length, generator=generator) < 0.1).long()
        yield torch.cat([mixed, pair.gather(1, rare)])


def _read(config: ClassifierConfig, weights: dict[str, Tensor], letters: Tensor) -> Tensor:
    """What the read-out reads, `[batch d_model]`: the outputs of an identity in its place."""
    width = config.d_model
    dtype = weights["embed.W_E"].dtype
    identity = {
        "unembed.W_U": torch.eye(width, dtype=dtype),
        "unembed.b_U": torch.zeros(width, dtype=dtype),
    }
    bare = config.replace(n_outputs=width, task=ContainsAll(letters="a"), tied_embeddings=False)
    inputs = from_tokens(bare, own_rows(bare, letters))
    return forward(bare, {**weights, **identity}, inputs).reshape(len(letters), width)


def own_rows(config: ClassifierConfig, letters: Tensor) -> Tensor:
    """Letters `[batch pos]` as rows of our tokens."""
    rows, cls = letters + FIRST_LETTER, torch.full((len(letters), 1), CLS)
    if config.reads == "first":
        return torch.cat([cls, rows], dim=1)
    return torch.cat([rows, cls], dim=1) if config.reads == "last" else rows
