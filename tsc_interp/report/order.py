"""An order-sensitive model in a report: every input decided, and one of them letter by letter.

Counts are the search's and exact. The string that is taken apart is the first wrong one, or the
closest call of a sample.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import PlainSerializer

from tsc_interp.errors import TscError
from tsc_interp.frozen import Frozen
from tsc_interp.output.numbers import counted, number
from tsc_interp.results.base import Severity, Table
from tsc_interp.tasks.audit import inputs_of
from tsc_interp.tasks.regions import Regions
from tsc_interp.tasks.transducer import Writing
from tsc_interp.tasks.trellis import Index
from tsc_interp.verification.counting.tally import json_integer
from tsc_interp.verification.order.verify import longest_string

if TYPE_CHECKING:
    from tsc_interp.model.classifier import Classifier

SECONDS = 60.0
"""Most models need far less; `analyze(seconds=...)` changes it."""
SAMPLE, _LONGEST, _MOST_HEADS = 2000, 20, 4
Count = Annotated[int, PlainSerializer(json_integer, when_used="json")]
Array = NDArray[np.float64]


class PartCounts(Frozen):
    """One length or step."""

    number: int
    inputs: Count
    wrong: Count
    undecided: Count

    def shares(self) -> dict[str, float]:
        """Percent of its inputs; any share above zero is wide enough to be seen."""
        kinds = {"wrong": self.wrong, "undecided": self.undecided}
        widths = {kind: max(1.5, 100 * n / self.inputs) if n else 0.0 for kind, n in kinds.items()}
        scale = min(1.0, 100 / (sum(widths.values()) or 1))
        widths = {kind: round(share * scale, 2) for kind, share in widths.items()}
        return {"right": round(100 - sum(widths.values()), 2), **widths}


class LetterRead(Frozen):
    """One letter of the input that is taken apart."""

    letter: str
    attention: tuple[float, ...]
    """Percent of each head's attention."""
    push: float
    """The gap with it, less the mean gap with another letter in its place; 0 for a fixed sign."""


class TakenApart(Frozen):
    """An input letter by letter. The gap is the right output less the strongest other one."""

    string: str
    step: int | None
    expected: str
    answer: str
    right: bool
    gap: float
    letters: tuple[LetterRead, ...]


class OrderSummary(Frozen):
    """Every input of an order-sensitive model, and one of them letter by letter."""

    parts: tuple[PartCounts, ...]
    writes: bool
    inputs: Count
    wrong: Count
    undecided: Count
    first: str | None
    first_is_first: bool
    regions: tuple[str, ...]
    apart: TakenApart

    @property
    def unit(self) -> str:
        return "step" if self.writes else "length"

    @property
    def severity(self) -> Severity:
        return "failure" if self.wrong else "note" if self.undecided else "good"

    def sentence(self) -> str:
        """How many inputs are right, wrong and undecided, and the first wrong one."""
        first, last = self.parts[0].number, self.parts[-1].number
        letters = counted(last, "letter") if first == last else f"{first} to {last} letters"
        scope = "" if self.writes else f" of {letters}"
        if not self.wrong and not self.undecided:
            return f"All {number(self.inputs)} inputs{scope} are decided, and all are right."
        n = self.wrong
        wrong = f"{number(n)} {'is' if n == 1 else 'are'} wrong" if n else "none was found wrong"
        text = f"Of all {number(self.inputs)} inputs{scope}, {wrong}"
        if self.first is not None:
            text += "; the first is" if self.first_is_first else "; one of them is"
            text += f" `{self.first}`"
        if self.undecided:
            undecided = number(self.undecided)
            text += f". {undecided} are undecided; `--seconds` gives the search more time"
        return f"{text}."

    def table(self) -> Table:
        """Counts by length or step."""
        rows = [(part.number, str(part.inputs), str(part.wrong), str(part.undecided))
                for part in self.parts]  # fmt: skip
        columns = (self.unit, "inputs", "wrong", "undecided")
        return Table.from_rows(f"Every input, by {self.unit}", columns, rows)


def order_summary(model: Classifier, seconds: float = SECONDS) -> OrderSummary | None:
    """Decide every input within some seconds; None where this model cannot be."""
    from tsc_interp.verification.order.verify import verify_order

    checkpoint, task = model.to_checkpoint(), model.config.task
    if model.config.n_layers > 1:  # what it reads of each letter is told of one layer
        return None
    writes, lengths = isinstance(task, Writing), None
    if model.config.frame is None and not writes:
        fits = longest_string(model.config)
        lengths = range(1, min(_LONGEST, _LONGEST if fits is None else fits) + 1)
    try:
        verdict = verify_order(checkpoint, lengths, seconds=seconds)
    except TscError:
        return None
    first, plain = verdict.first_wrong, not model.config.token_names
    at = (first.step if writes else first.length) if first else verdict.counts[-1].length
    if writes and first is None:
        at = len(verdict.steps) - 1
    assert at is not None
    sample = _Sample(model, at)
    row, label = sample.closest()
    if first is not None:
        names = sample.names
        row, label = np.array([names.index(token) for token in first.tokens]), first.label
    return OrderSummary(
        parts=tuple(
            PartCounts(number=count.length if count.step is None else count.step,
                       inputs=count.inputs, wrong=count.wrong, undecided=count.undecided)
            for count in verdict.counts
        ),
        writes=writes, inputs=verdict.inputs, wrong=verdict.wrong, undecided=verdict.undecided,
        first=None if first is None else first.string if plain else sample.written(first.tokens),
        first_is_first=verdict.shortest_is_first,
        regions=tuple(map(sample.with_class_names, verdict.regions[:3])),
        apart=sample.taken_apart(row, label, at if writes else None),
    )  # fmt: skip


class _Sample:
    """Inputs of one length or step drawn from each label, with the model's margins."""

    def __init__(self, model: Classifier, at: int) -> None:
        from tsc_interp.training.testing import ahead

        self.model, config = model, model.config
        task: Any = config.task
        self.names = config.token_names or tuple(config.alphabet.letters)
        trellis = inputs_of(task, config.n_letters, at)
        labels = trellis.labels
        size = -(-SAMPLE // len(labels))
        parts = [Regions.whole(trellis.of_label(label)).sample(size, seed=0) for label in labels]
        self.rows = np.concatenate(parts)
        self.labels = np.repeat(labels, [len(part) for part in parts])
        outputs = self._outputs(self.rows)
        self.margins = ahead(outputs, self.labels, outputs.shape[1])

    def _outputs(self, rows: Index) -> Array:
        """The model's outputs, `[input class]`; one output is written as two."""
        import torch

        letters = self.model.config.alphabet.letters
        strings = ["".join(letters[i] for i in row) for row in rows]
        with torch.no_grad():
            outputs = self.model(self.model.tokens(strings)).double().numpy()
        return np.stack([0 * outputs, outputs], 1) if outputs.ndim == 1 else outputs

    def written(self, tokens: Sequence[str]) -> str:
        """An input in its tokens' own names."""
        return ("" if max(map(len, self.names)) == 1 else " ").join(tokens)

    def closest(self) -> tuple[Index, int]:
        """The sampled input with the smallest margin, and its label."""
        at = int(self.margins.argmin())
        return self.rows[at], int(self.labels[at])

    def taken_apart(self, row: Index, label: int, step: int | None) -> TakenApart:
        outputs = self._outputs(row[None])[0]
        rival = int(np.where(np.arange(len(outputs)) == label, -np.inf, outputs).argmax())
        gap = float(outputs[label] - outputs[rival])
        reads = self._attention(row)
        letters = []
        for place, letter in enumerate(row.tolist()):
            instead = np.setdiff1d(self.rows[:, place], [letter])
            push = 0.0
            if len(instead):  # else a fixed sign
                changed = np.repeat(row[None], len(instead), 0)
                changed[:, place] = instead
                outputs = self._outputs(changed)
                push = gap - float((outputs[:, label] - outputs[:, rival]).mean())
            letters.append(LetterRead(letter=self.names[letter], attention=reads[place], push=push))
        return TakenApart(
            string=self.written([self.names[i] for i in row]),
            step=step, expected=self._class(label), answer=self._class(label if gap > 0 else rival),
            right=gap > 0, gap=gap, letters=tuple(letters),
        )  # fmt: skip

    def _attention(self, row: Index) -> list[tuple[float, ...]]:
        """Percent of each head's attention for each letter of the row."""
        config = self.model.config
        if not config.has_attention or config.n_heads > _MOST_HEADS:
            return [()] * len(row)
        letters = config.alphabet.letters
        tokens = self.model.tokens(["".join(letters[i] for i in row)])
        name = "blocks.0.attn.hook_pattern"
        _, cache = self.model.run_with_cache(tokens, names_filter=name)
        reader = 0 if config.reads == "first" else -1
        pattern = 100 * cache[name][0, :, reader].numpy()
        at = pattern[:, int(config.reads == "first") :][:, : len(row)]
        return [tuple(round(float(x), 2) for x in column) for column in at.T]

    def with_class_names(self, region: str) -> str:
        return re.sub(r"class (\d+) wins", lambda n: f"it answers {self._class(int(n[1]))}", region)

    def _class(self, label: int) -> str:
        """A class in words: the letter written, yes or no, or its number."""
        config = self.model.config
        task: Any = config.task
        if isinstance(task, Writing) or task.kind == "maximum":
            return self.names[label]
        two: Sequence[str] = ("no", "yes")
        return two[label] if task.n_classes(config.n_letters) == 2 else f"class {label}"
