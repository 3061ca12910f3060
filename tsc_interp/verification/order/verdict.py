"""What is known of every input of an order-sensitive model, length by length or step by step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from tsc_interp.output.display import PLAIN, Displayed, Grid, Line
from tsc_interp.output.numbers import Share, number
from tsc_interp.verification.counting.tally import json_integer, not_right
from tsc_interp.verification.order.certificate_result import Float32Counts, OrderedCertificate
from tsc_interp.verification.order.parts import Part

CLAIM = (
    "real numbers: float32 weights taken as exact; each region of inputs decided in float64 with "
    "an error bound, single inputs too close for that in ball arithmetic; derived again by the "
    "independent checker: what is under 'certified'"
)


@dataclass(frozen=True)
class PartCount:
    """The numbers of inputs of one length or step: all, wrong and undecided."""

    length: int
    step: int | None
    inputs: int
    wrong: int
    undecided: int
    regions: int
    """How many regions of inputs were bounded."""

    @property
    def right(self) -> int:
        """The number of right inputs."""
        return self.inputs - self.wrong - self.undecided

    @property
    def strings(self) -> int:
        """The number of inputs."""
        return self.inputs

    def to_dict(self) -> dict[str, Any]:
        """Return the counts as JSON types."""
        return {
            **({"length": self.length} if self.step is None else {"step": self.step}),
            "inputs": json_integer(self.inputs),
            "wrong": json_integer(self.wrong),
            "undecided": json_integer(self.undecided),
            "regions": self.regions,
        }


@dataclass(frozen=True)
class WrongInput:
    """An input the model gets wrong."""

    string: str
    tokens: tuple[str, ...]
    """Its letters by their names, where the model's tokens have names of their own."""
    label: int
    answer: int | None
    """The class that the model answers; None if it is not known which."""
    step: int | None = None
    fixed: int = 0
    """The number of letters that are fixed tokens of a frame."""

    @property
    def length(self) -> int:
        """The number of letters; of a frame, those at its places."""
        return len(self.tokens) - self.fixed

    def to_dict(self) -> dict[str, Any]:
        """Return the input as JSON types."""
        step = {} if self.step is None else {"step": self.step}
        return {
            "string": self.string,
            "tokens": list(self.tokens),
            "label": self.label,
            "answer": self.answer,
            **step,
        }


@dataclass(frozen=True, repr=False)
class OrderedVerdict(Displayed):
    """The exact numbers of right, wrong and undecided inputs, and the first wrong input."""

    source: str
    weight_hash: str
    task: str
    lengths: tuple[PartCount, ...]
    """Length by length; empty for a task that writes."""
    steps: tuple[PartCount, ...]
    """Step by step, each over every input, whatever happened at other steps."""
    inputs: int
    wrong: int
    """Inputs that are wrong; with steps each is counted once, at its first wrong step."""
    undecided: int
    """Inputs that are undecided somewhere and wrong nowhere (at most, where time ran out)."""
    first_wrong: WrongInput | None
    """The shortest, of these the first in alphabetical order; see `first_is_first`."""
    first_undecided: str | None
    regions: tuple[str, ...] = ()
    """The largest sets of wrong inputs in words."""
    certificate: OrderedCertificate | None = None
    parts: tuple[Part, ...] = field(default=(), compare=False)
    """What the search found, region by region."""

    @property
    def right(self) -> int:
        """The number of right inputs."""
        return self.inputs - self.wrong - self.undecided

    @property
    def float32(self) -> Float32Counts | None:
        """The numbers of inputs proved right and wrong in float32, whatever the order of sums."""
        return None if self.certificate is None else self.certificate.float32

    @property
    def correct(self) -> bool:
        """Whether no input is wrong or undecided."""
        return not self.wrong and not self.undecided

    @property
    def accuracy(self) -> Share:
        """The share of inputs known to be right; undecided inputs do not count as right."""
        return Share(self.right, self.inputs)

    @property
    def error_rate(self) -> Share:
        """The share of inputs known to be wrong."""
        return Share(self.wrong, self.inputs)

    @property
    def counts(self) -> tuple[PartCount, ...]:
        """The counts by length, or by step."""
        return self.lengths or self.steps

    @property
    def shortest_is_first(self) -> bool:
        """Whether no undecided input could come before the first error found."""
        if self.first_wrong is None:
            return False
        if self.steps:
            return not any(step.undecided for step in self.steps)
        return not any(c.undecided for c in self.lengths if c.length <= self.first_wrong.length)

    @property
    def strings(self) -> int:
        """The number of inputs."""
        return self.inputs

    @property
    def shortest(self) -> WrongInput | None:
        """The first wrong input, or None."""
        return self.first_wrong

    @property
    def right_through(self) -> int:
        """Deprecated: `verified_length`."""
        return self.verified_length

    @property
    def verified_length(self) -> int:
        """The length up to which every string is right; 0 if lengths do not begin with 1."""
        through = 0
        for count in self.lengths:
            if count.length != through + 1 or count.wrong or count.undecided:
                break
            through = count.length
        return through

    def sample(self, count: int = 10, seed: int = 0) -> list[tuple[int, ...]]:
        """Draw wrong inputs at random, as indices of letters, each equally likely.

        An input that is wrong at several steps is drawn at the first of them.

        Args:
            count: How many, drawn with replacement.
            seed: Equal seeds draw equal inputs.
        """
        import numpy as np

        sizes = [float(part.wrong) for part in self.counts]
        samples: list[tuple[int, ...]] = []
        draw = np.random.default_rng(seed)
        while sum(sizes) and len(samples) < count:
            chosen = draw.choice(len(sizes), count, p=np.array(sizes) / sum(sizes))
            for i, n_drawn in zip(*np.unique(chosen, return_counts=True), strict=True):
                rows = self.parts[i].sample(int(n_drawn), int(draw.integers(2**31)))
                earlier = self.parts[:i] if self.steps else ()
                samples += [
                    tuple(row.tolist())
                    for row in rows
                    if not any(part.is_wrong(row[: part.length]) for part in earlier)
                ]
        order = draw.permutation(len(samples))[:count]
        return [samples[i] for i in order]

    def _facts(self) -> list[str]:
        example = None if self.first_wrong is None else self.first_wrong.string
        phrase = not_right(self.wrong, example, self.undecided, self.first_undecided)
        if self.steps:
            return [self.source, f"of {number(self.inputs)} inputs {phrase}"]
        first, last = self.lengths[0].length, self.lengths[-1].length
        ends = f"{first} to {last}" if first != last else f"{first}"
        return [self.source, f"of {number(self.inputs)} strings of length {ends} {phrase}"]

    def _lines(self) -> list[tuple[str, str]]:
        lines = []
        if self.first_wrong is not None:
            error = self.first_wrong
            answer = "another" if error.answer is None else str(error.answer)
            at = "" if error.step is None else f" at step {error.step}"
            lines.append(
                ("failure", f"first error `{error.string}`{at}: class {error.label}, "
                 f"answered {answer}")
            )  # fmt: skip
        lines += [("failure", words) for words in self.regions]
        if self.undecided:
            lines.append(
                ("warning", f"{self.undecided:,} undecided, the first `{self.first_undecided}`")
            )
        if self.correct:
            lines.append(("success", "every input is right"))
        if self.float32 is not None:
            float32 = self.float32
            rest = f"{float32.depends:,} may depend on rounding" if float32.depends else ""
            parts = [f"{float32.right:,} right, {float32.wrong:,} wrong in float32", rest]
            lines.append(("proved", ", ".join(filter(None, parts))))
        if self.certificate is not None:
            lines += [("proved", sentence) for sentence in self.certificate.proved]
        return lines

    def lines(self) -> Iterator[Line]:
        """Return sentences: the counts, then whatever else is known."""
        for sentence in _by_part(self.counts):
            yield PLAIN, f"  {sentence}"
        kinds = {"right": self.right, "wrong": self.wrong, "undecided": self.undecided}
        counts = ", ".join(f"{count:,} {kind}" for kind, count in kinds.items())
        yield PLAIN, f"Of {self.inputs:,} inputs: {counts}."
        for kind, words in self._lines():
            line = f"  proved: {words}" if kind == "proved" else f"{words[0].upper()}{words[1:]}."
            yield PLAIN, line.replace("`", "")
        yield PLAIN, "Statements about real numbers, the float32 weights taken as exact."

    def _grids(self) -> list[Grid]:
        by = "length" if self.lengths else "step"
        rows = [
            [c.length if self.lengths else c.step, c.inputs, c.wrong, c.undecided, c.regions]
            for c in self.counts
        ]
        return [Grid(f"by {by}", [by, "inputs", "wrong", "undecided", "regions"], rows)]

    schema = "verify-ordered/2"

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON document without its schema field; integers beyond 2^53 are strings."""
        return {
            "checkpoint": self.source,
            "weight_hash": self.weight_hash,
            "claim": CLAIM,
            "task": self.task,
            "inputs": json_integer(self.inputs),
            "right": json_integer(self.right),
            "wrong": json_integer(self.wrong),
            "undecided": json_integer(self.undecided),
            "by_length": [count.to_dict() for count in self.lengths],
            "by_step": [step.to_dict() for step in self.steps],
            "first_wrong": self.first_wrong.to_dict() if self.first_wrong else None,
            "first_is_first": self.shortest_is_first,
            "first_undecided": self.first_undecided,
            "wrong_regions": list(self.regions),
            "float32": self.float32.to_dict() if self.float32 else None,
            "certified": list(self.certificate.proved) if self.certificate else None,
        }


def _by_part(counts: Sequence[PartCount]) -> Iterator[str]:
    """A line for each length or step; neighbours without errors share one."""
    for clean, group in groupby(counts, key=lambda part: not part.wrong and not part.undecided):
        parts = list(group)
        if clean:
            # Every step reads the same inputs, and every length its own.
            inputs = sum(p.inputs for p in parts) if parts[0].step is None else parts[0].inputs
            yield f"{_name(parts)}: all {inputs:,} inputs right"
            continue
        for part in parts:
            open_ = f", {part.undecided:,} undecided" if part.undecided else ""
            yield f"{_name([part])}: {part.wrong:,} of {part.inputs:,} inputs wrong{open_}"


def _name(parts: Sequence[PartCount]) -> str:
    kind = "length" if parts[0].step is None else "step"
    first, last = (p.length if p.step is None else p.step for p in (parts[0], parts[-1]))
    return f"{kind} {first}" if first == last else f"{kind}s {first} to {last}"
