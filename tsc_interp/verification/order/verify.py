"""Every input of an order-sensitive model, decided: `tsc.verify` comes here for such a model.

For one layer of the family, with positions of any kind or with the last letter as the one that
reads; models of several layers are asked input by input (`each.py`). The claim is about the real
numbers: float32 weights are exact, and nothing is rounded.

    one output       class 1 if the logit is above zero, else 0: zero counts as negative
    several outputs  the index of the largest; where several are equal, the lowest of them
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from heapq import nlargest
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np

from tsc_interp.checkpoints.checkpoint import Checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import OutputError, UsageError
from tsc_interp.files import reason, shown
from tsc_interp.frames.frame import Frame
from tsc_interp.tasks.base import given_task
from tsc_interp.tasks.framed import framed
from tsc_interp.tasks.regions import Regions
from tsc_interp.tasks.transducer import Writing
from tsc_interp.tasks.trellis import Index
from tsc_interp.tasks.writing import Addition
from tsc_interp.verification.order.parts import Part, require_readable
from tsc_interp.verification.order.running import run, searches_of
from tsc_interp.verification.order.union import lifted, union_count
from tsc_interp.verification.order.verdict import OrderedVerdict, PartCount, WrongInput

SECONDS = 600.0
_MOST_REGIONS, _FEW_LETTERS = 5, 3
_TO_COUNT = 0.1
"""The share of the time that is kept to count inputs of several steps once."""
Progress = Callable[[float], None]
Answer = Callable[[Sequence[int]], int | None]
"""What a model answers to one string."""


def verify_order(
    checkpoint: Checkpoint,
    lengths: Sequence[int] | None = None,
    *,
    seconds: float = SECONDS,
    task: Any = None,
    progress: Progress | None = None,
    resume: str | os.PathLike[str] | None = None,
    float32: bool = False,
) -> OrderedVerdict:
    """Decide every input of these lengths, or of every step of a task that writes.

    Args:
        checkpoint: The model.
        lengths: Which; by default the frame's or, without a frame, 1 to what the model's positions
            hold. Not for a task that writes.
        seconds: After which what is left is called undecided.
        task: By default the model's own; another one is an object or a name (`"maximum"`).
        progress: Called with the share of inputs that are decided, on average over parts.
        resume: A folder where the search is kept, so that the same call goes on from there.
        float32: Whether parts are cut until the same is shown of the float32 model.
    """
    chosen = task_for(checkpoint.config, task)
    require_readable(checkpoint.config, chosen)
    asked = asked_parts(checkpoint.config, chosen, lengths)
    deadline = monotonic() + seconds
    if checkpoint.config.n_layers > 1:
        from tsc_interp.verification.order.each import Each  # which loads torch

        each = Each(checkpoint)
        parts = each.parts(chosen, asked, deadline, progress)
        return _verdict(checkpoint, each.answer, chosen, parts, deadline)
    searches = searches_of(checkpoint, chosen, asked, float32)
    until = deadline - _TO_COUNT * seconds
    folder = None if resume is None else Path(resume)
    try:
        parts = run(checkpoint, searches, until, progress, folder)
    except OSError as error:
        place = error.filename or folder or "a temporary folder"
        raise OutputError(
            f"cannot keep the search in {shown(place)}: {reason(error)}; resume takes a folder "
            "that can be written, and what was kept in it before is still there"
        ) from None
    return _verdict(checkpoint, searches[0].judge.answer_to_string, chosen, parts, deadline)


def task_for(config: ClassifierConfig, task: Any) -> Any:
    """The given task, or the model's own; refused if the model has too few outputs or letters."""
    chosen = config.task if task is None else given_task(task)
    if config.frame is not None and getattr(chosen, "layout", None) is None:
        chosen = framed(chosen, config.frame)
    classes, outputs = chosen.n_classes(config.n_letters), max(config.n_outputs, 2)
    if classes > outputs:
        raise UsageError(
            f"the task ({chosen.describe()}) has {classes} classes, but the model tells {outputs} "
            f"apart (n_outputs = {config.n_outputs})"
        )
    if misfit := chosen.misfit(config.n_letters):
        raise UsageError(misfit)
    return chosen


def asked_parts(
    config: ClassifierConfig, task: Any, lengths: Sequence[int] | None
) -> list[tuple[int, int | None]]:
    """(length, step) of every part."""
    fits = longest_string(config)
    if isinstance(task, Writing):
        if lengths is not None:
            raise UsageError("a task that writes has steps, and its inputs one length: no lengths")
        longest = task.prompt_length + task.n_steps - 1
        if fits is not None and longest > fits:
            raise UsageError(f"the last step reads {longest} letters, and {fits} fit the positions")
        return [(task.prompt_length + step, step) for step in range(task.n_steps)]
    frame: Frame | None = getattr(task, "layout", None)
    if lengths is None and frame is None and fits is None:
        raise UsageError("this model has no positions to run out of: say which lengths")
    usual = range(1, (fits or 0) + 1) if frame is None else frame.lengths
    chosen = list(usual if lengths is None else lengths)
    if frame is not None:
        _require_frame(frame, fits, chosen)
    elif not chosen or any(type(length) is not int or length < 1 for length in chosen):
        raise UsageError(f"lengths are whole numbers from 1; got {lengths!r}")
    elif fits is not None and max(chosen) > fits:
        raise UsageError(
            f"the model has {config.n_positions} positions: strings of up to {fits} letters, "
            f"got {max(chosen)}"
        )
    return [(length, None) for length in sorted(set(chosen))]


def longest_string(config: ClassifierConfig) -> int | None:
    """Letters that fit into the model's positions; None: any number."""
    return config.n_positions - int(config.has_cls) if config.has_positions else None


def _require_frame(frame: Frame, fits: int | None, chosen: Sequence[int]) -> None:
    """Lengths are letters at the frame's places."""
    outside = [length for length in chosen if length not in frame.lengths]
    if not chosen or outside:
        raise UsageError(f"the frame {frame} has no inputs of {outside or 'no'} letters")
    longest = frame.length(max(chosen))
    if fits is not None and longest > fits:
        raise UsageError(f"a row of the frame has {longest} letters, and {fits} fit the positions")


def _verdict(
    checkpoint: Checkpoint, answer: Answer, task: Any, parts: list[Part], deadline: float
) -> OrderedVerdict:
    counts = tuple(
        PartCount(part.length, part.step, part.inputs, part.wrong, part.undecided, part.examined)
        for part in parts
    )
    writes = isinstance(task, Writing)
    wrong, undecided = sum(c.wrong for c in counts), sum(c.undecided for c in counts)
    inputs = sum(c.inputs for c in counts)
    if writes:
        inputs, wrong, undecided = counts[0].inputs, *_once(task, parts, deadline)
    config = checkpoint.config
    first = _first(parts, task)
    open_ = [row for row in (part.first(undecided=True) for part in parts) if row is not None]
    largest = [
        (count, part, sentence)
        for part in parts
        for count, sentence in largest_regions(part, task, lambda letter: _name(config, letter))
    ]
    largest.sort(key=lambda entry: -entry[0])
    return OrderedVerdict(
        source=checkpoint.source,
        weight_hash=checkpoint.weight_hash(),
        task=task.describe(),
        lengths=() if writes else counts,
        steps=counts if writes else (),
        inputs=inputs,
        wrong=wrong,
        undecided=undecided,
        first_wrong=None if first is None else _wrong_input(answer, config, task, *first),
        first_undecided=written(config, open_[0]) if open_ else None,
        regions=tuple(
            f"{count:,} inputs of {_part_name(part)}: {sentence}"
            for count, part, sentence in largest[:_MOST_REGIONS]
        ),
        parts=tuple(parts),
    )


def _part_name(part: Part) -> str:
    return f"length {part.length}" if part.step is None else f"step {part.step}"


def _once(task: Writing, parts: list[Part], deadline: float) -> tuple[int, int]:
    """Inputs wrong at any step, and undecided at any and wrong at none.

    Where the time does not suffice to tell inputs of different steps apart: at least so many wrong
    ones, and at most so many that are not known to be right.
    """
    whole, prompt = task.whole(), task.prompt_length

    def families(undecided: bool) -> list[list[Regions]]:
        return [
            [lifted(region, whole) for region in part.regions(undecided) if len(region)]
            for part in parts
        ]

    def counted(regions: list[list[Regions]], inputs: list[Index]) -> int | None:
        rows = np.concatenate([part[:, :prompt] for part in inputs])
        return union_count(whole, regions, rows, deadline)

    n_wrong, n_open = [part.wrong for part in parts], [part.undecided for part in parts]
    at_most = min(parts[0].inputs, sum(n_wrong) + sum(n_open))
    regions, inputs = families(False), [part.wrong_inputs for part in parts]
    # Within a step nothing overlaps.
    wrong = max(n_wrong) if max(n_wrong) == sum(n_wrong) else counted(regions, inputs)
    if wrong is None:
        return max(n_wrong), at_most - max(n_wrong)
    if not any(n_open):
        return wrong, 0
    regions += families(True)
    not_right = counted(regions, [*inputs, *(part.undecided_inputs for part in parts)])
    return wrong, (at_most if not_right is None else not_right) - wrong


def _first(parts: list[Part], task: Any) -> tuple[tuple[int, ...], Part] | None:
    firsts = [(part.first(), part) for part in parts]
    candidates = [(string, part) for string, part in firsts if string is not None]
    if not candidates:
        return None
    if isinstance(task, Writing):
        return min(candidates, key=lambda pair: (pair[0][: task.prompt_length], pair[1].step))
    return candidates[0]  # parts are in order of length


def _wrong_input(
    answer: Answer, config: ClassifierConfig, task: Any, string: tuple[int, ...], part: Part
) -> WrongInput:
    labels = (group.trellis.label_of(np.array(string)) for group in part.groups)
    label = next(label for label in labels if label is not None)
    tokens = tuple(_name(config, letter) for letter in string)
    fixed = 0 if part.step is not None else len(string) - part.length
    return WrongInput(written(config, string), tokens, label, answer(string), part.step, fixed)


def written(config: ClassifierConfig, string: tuple[int, ...]) -> str:
    """Letters by index: by their names where tokens have names of one sign, else as strings are."""
    names = [config.token_names[letter] for letter in string] if config.token_names else []
    if names and (config.frame is not None or all(len(name) == 1 for name in names)):
        return "".join(names) if all(len(name) == 1 for name in names) else " ".join(names)
    alphabet = config.alphabet
    return alphabet.canonical("".join(alphabet.letters[letter] for letter in string))


def _name(config: ClassifierConfig, letter: int) -> str:
    return config.token_names[letter] if config.token_names else config.alphabet.letters[letter]


# -- wrong regions in words ---------------------------------------------------------------------


def largest_regions(part: Part, task: Any, name: Callable[[int], str]) -> list[tuple[int, str]]:
    """The largest wrong regions of a part: how many inputs, and what they have in common."""
    wrong_regions = [
        (count, number, regions, instead)
        for regions, instead in (group.wrong for group in part.groups)
        for number, count in enumerate(regions.counts())
    ]
    return [
        (count, f"{described(regions, number, task, name)}: class {int(instead[number])} wins")
        for count, number, regions, instead in nlargest(
            _MOST_REGIONS, wrong_regions, key=lambda entry: entry[0]
        )
    ]


def described(regions: Regions, number: int, task: Any, name: Callable[[int], str]) -> str:
    """For each place where not every letter may stand, those that may (or those that may not)."""
    chain = _carried(regions, number, task) if isinstance(task, Addition) else []
    clauses = []
    if chain:
        ends = f"digit {chain[0]}" if len(chain) == 1 else f"digits {chain[0]} to {chain[-1]}"
        clauses.append(f"a + b = {task.base - 1} at {ends} (a carry runs through)")
    for place in range(regions.trellis.length):
        if place not in regions.trellis.place_of:
            continue
        stage, column = regions.trellis.place_of[place]
        letters = regions.trellis.stages[stage].letters[:, column]
        possible = set(letters.tolist())
        allowed = set(letters[regions.masks[stage][number]].tolist())
        if allowed == possible or (stage in chain and len(allowed) > 1):
            continue
        where = task.place_name(place) if isinstance(task, Writing) else f"place {place}"
        if len(allowed) <= _FEW_LETTERS or len(possible) - len(allowed) > _FEW_LETTERS:
            clauses.append(f"{where} is {' or '.join(name(letter) for letter in sorted(allowed))}")
        else:
            excluded = " or ".join(name(letter) for letter in sorted(possible - allowed))
            clauses.append(f"{where} is not {excluded}")
    return ", ".join(clauses) or "any input"


def _carried(regions: Regions, number: int, task: Addition) -> list[int]:
    """The longest run of digits whose two operands always add up to one less than the base."""
    best: list[int] = []
    run: list[int] = []
    for digit, (stage, mask) in enumerate(zip(regions.trellis.stages, regions.masks, strict=True)):
        columns = [i for i, at in enumerate(stage.places) if task.place_name(at)[0] in "ab"]
        sums = stage.letters[mask[number]][:, columns].sum(1)
        run = [*run, digit] if (sums == task.base - 1).all() else []
        best = max(best, run, key=len)
    return best
