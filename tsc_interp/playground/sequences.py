"""Models that a page shows string by string: those that see order, and those with several outputs.

Counts of letters say nothing about the first, and a triangle has one colour per logit, so the
second have no failure map either. The page runs them token by token instead.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import TscError
from tsc_interp.tasks.counts import AtLeast, ContainsAll, Majority, Maximum, MostFrequent, Parity
from tsc_interp.tasks.framed import Framed
from tsc_interp.tasks.regions import Regions
from tsc_interp.tasks.transducer import Writing

LONGEST = 40
"""Letters up to which a task's automaton is unrolled for the page."""
MOST_STATES = 2_000


def on_counts(config: ClassifierConfig) -> bool:
    """Whether the page about letter counts shows this model, with sliders and a failure map."""
    countable = isinstance(config.task, (ContainsAll, AtLeast, Majority, Parity))
    return countable and config.n_outputs == 1 and not (config.needs_order or config.grouped)


def no_map_reason(config: ClassifierConfig) -> str | None:
    """Why there is no failure map of this model; None if there is one."""
    if config.needs_order:
        return (
            "this model sees where letters stand, so the number of each letter does not describe a "
            "string"
        )
    if config.n_outputs > 1:
        return f"a map shows one logit, and this model has {config.n_outputs} outputs"
    if not on_counts(config) and not config.grouped:
        return f"mixtures of letters are not judged by this task ({config.task.describe()})"
    beyond = config.beyond_counts
    return f"bounds over counts are not written for {', '.join(beyond)}" if beyond else None


def class_names(config: ClassifierConfig) -> list[str]:
    """What each class is called: no and yes, or the letters, or numbers."""
    classes = max(config.n_outputs, 2)
    if config.task.n_classes(config.n_letters) == 2:
        return ["no", "yes", *(f"class {i}" for i in range(2, classes))]
    letters = list(config.token_names or config.alphabet.letters)
    by_letter = isinstance(config.task, (MostFrequent, Maximum, Writing))
    return [letters[i] if by_letter and i < len(letters) else f"class {i}" for i in range(classes)]


def sequence_payload(config: ClassifierConfig) -> dict[str, Any]:
    """What the page knows of the task: its question, its classes and, if it is one, its machine."""
    reason = no_map_reason(config) or "the map stands in this model's report"
    return {
        "question": config.question,
        "classes": class_names(config),
        "machine": _machine(config),
        "frame": _frame(config),
        "truths": _truths(config, sequence_examples(config)),
        # The sentence that stands where the map would.
        "why": f"There is no failure map and there are no sliders here: {reason}. Single strings "
        "and the attention of every head take its place.",
    }


def _machine(config: ClassifierConfig) -> dict[str, Any] | None:
    """The automaton of a task on order, for strings up to `length`."""
    task: Any = config.task
    n_letters = config.n_letters
    if isinstance(task, Framed):  # an automaton of the letters at its places
        task, n_letters = task.task, task.n_places
    build = getattr(task, "machine", None)
    if build is None:
        return None
    length = min(_longest(config), LONGEST)
    try:
        machine = build(n_letters, length).minimised()
    except TscError:  # too many states, or none: palindromes
        return None
    if len(machine) > MOST_STATES:
        return None
    return {
        "start": int(machine.start),
        "step": machine.step.tolist(),
        "label": machine.label.tolist(),
        "length": length,
    }


def _frame(config: ClassifierConfig) -> dict[str, Any] | None:
    """Rows with null at the places, by the number of letters; and the letters of each place."""
    task: Any = config.task
    if not isinstance(task, Framed):
        return None
    layout, rows = task.layout, {}
    for length in layout.lengths:
        row, at = layout.template(length)
        rows[length] = [None if i in at else letter for i, letter in enumerate(row.tolist())]
    return {"rows": rows, "letters": layout.letters, "distinct": layout.distinct}


def _truths(config: ClassifierConfig, strings: list[str]) -> dict[str, int]:
    """The classes of these strings; of what a task has no class for, nothing."""
    labels = {}
    for text in strings:
        try:
            labels[text] = int(config.classes([text])[0])
        except TscError:
            continue
    return labels


def sequence_examples(config: ClassifierConfig, number: int = 6) -> list[str]:
    """Strings to try: inputs of a task that writes, else random strings; always the same ones."""
    generator = np.random.default_rng(0)
    letters = np.array(list(config.alphabet.letters))
    task: Any = config.task
    if isinstance(task, Framed):
        layout = task.layout
        longer = list(reversed(layout.lengths))
        chosen = [layout.sample(1, generator, longer[i % len(longer)])[0] for i in range(number)]
        return list(dict.fromkeys("".join(letters[row]) for row in chosen))
    longest = min(_longest(config), 12)
    lengths = [max(1, longest - index % longest) for index in range(number)]
    drawn = ["".join(generator.choice(letters, length)) for length in lengths]
    write = config.alphabet.canonical if not config.needs_order else str
    return list(dict.fromkeys(write(text) for text in _prompts(config, number) or drawn))


def _prompts(config: ClassifierConfig, number: int) -> list[str]:
    """Inputs of a task that writes: random ones of each of its steps, as many of each."""
    task: Any = config.task
    if not isinstance(task, Writing):
        return []
    size = -(-number // task.n_steps)
    parts = [Regions.whole(task.step_trellis(i)).sample(size, seed=0) for i in range(task.n_steps)]
    rows = [row for part in parts for row in part.tolist()]
    return ["".join(config.alphabet.letters[letter] for letter in row) for row in rows][:number]


def _longest(config: ClassifierConfig) -> int:
    return config.n_positions - int(config.has_cls) if config.has_positions else LONGEST
