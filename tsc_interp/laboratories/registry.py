"""Every laboratory there is: one explicit list, in the order the documentation tells them.

Listing is cheap: a laboratory's file is imported when it is needed, and imports torch only to run.
To add one, write `laboratories/NAME.py` and add its line here.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from importlib import import_module
from typing import Any, ClassVar, cast

from tsc_interp.laboratories.base import LabOptions, LabResult, Progress, silent
from tsc_interp.probes.probe import Question
from tsc_interp.probes.registry import find_named


@dataclass(frozen=True, kw_only=True)
class Laboratory(Question):
    """A question that is answered by building, simulating or training something."""

    kind: ClassVar[str] = "laboratory"
    room: ClassVar[str] = "laboratories"

    source: str
    """Where the question comes from."""

    @property
    def file(self) -> Any:
        """Its one file: `NameOptions`, `NameResult`, and `run`, which makes one of the other."""
        return import_module(f"tsc_interp.laboratories.{self.name}")

    @property
    def result_type(self) -> type[LabResult]:
        return cast("type[LabResult]", getattr(self.file, f"{self.name.title()}Result"))

    @property
    def explanation(self) -> str:
        """What is computed: the docstring of its file."""
        return inspect.getdoc(self.file) or ""

    @property
    def options_type(self) -> type[LabOptions]:
        return cast("type[LabOptions]", self.result_type.model_fields["options"].annotation)

    def run(self, *, quick: bool = False, progress: Progress = silent, **options: Any) -> LabResult:
        asked = self.options_type(quick=quick, **options)
        return cast(LabResult, self.file.run(asked, progress)).concluded()


LABORATORIES: tuple[Laboratory, ...] = (
    Laboratory(
        name="attention",
        title="Attention by construction",
        question="What can one head do by construction, and what takes two?",
        source="an attention exploration (a practical's written answers)",
    ),
    Laboratory(
        name="image",
        title="Attention over a picture",
        question="How does attention find the place in a picture that a sentence names?",
        source="6.7900 lecture notes 13: attention over an image with a context vector",
    ),
    Laboratory(
        name="efficient",
        title="Cheaper attention, and what it costs",
        question="What do cheaper forms of attention cost, and what is exact at no cost?",
        source="an attention exploration (Linformer, BigBird)",
    ),
    Laboratory(
        name="pretrain",
        title="What pre-training gives",
        question="When does pre-training on corrupted strings help, and when not?",
        source="an attention exploration (span corruption: 23.0 % against 0.6 %)",
    ),
    Laboratory(
        name="positions",
        title="What positions cost, and what they make possible",
        question="What do positions cost, and what do they make possible?",
        source="6.7900 lecture notes 13: attention is permutation invariant until positions come",
    ),
    Laboratory(
        name="bounds",
        title="What a validation set can say",
        question="What does a validation set say about a model, and what does it not?",
        source="lecture notes on generalisation (6.7900, 13)",
    ),
    Laboratory(
        name="failures",
        title="Predicting failures",
        question="Are failures predictable from the problem, and are wrong answers roughly right?",
        source="a paper on what transformers do when they fail at mathematics (Charton, 2022)",
    ),
)


def find_laboratory(name: str) -> Laboratory:
    """The laboratory of that name; an unknown one is refused with the nearest name."""
    return find_named(name, LABORATORIES)
