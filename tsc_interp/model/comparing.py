"""Whether an imported model computes what the original computes: both run on the same strings."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from itertools import chain

import numpy as np
import torch
from torch import Tensor

from tsc_interp.checkpoints.checkpoint import Checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import UnsupportedError, shorten
from tsc_interp.frames.frame import Frame
from tsc_interp.model.forward import forward, unembedding
from tsc_interp.model.input_map import InputMap
from tsc_interp.model.inputs import as_read, from_tokens
from tsc_interp.strings import CLS, FIRST_LETTER
from tsc_interp.tasks.counts import ContainsAll

_TOLERANCE = 3e-5
"""Of the sizes that meet in an output: many roundings of float32, and no other function."""
_NOISE, _MOST_NOISE, _TRIES = 16.0, 0.01, 8
"""An import may differ by so many times what rounding was seen to do, up to one per cent of the
sizes that meet in an output."""
_HALF_UNIT = 2.0**-24
_SHORT = 16
_LONGEST = 512


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
            theirs = reading.answers(original(letters))
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
    rows = np.pad(letters.numpy() + FIRST_LETTER, ((0, 0), (1, 0)), constant_values=CLS)
    inputs = from_tokens(bare, torch.from_numpy(as_read(bare, rows)))
    return forward(bare, {**weights, **identity}, inputs).reshape(len(letters), width)
