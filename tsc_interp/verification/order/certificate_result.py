"""A certificate of an order-sensitive model: the document, and what the checker derived from it."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tsc_interp.files import write_output
from tsc_interp.output.display import Displayed
from tsc_interp.output.numbers import counted
from tsc_interp.verification.checker.trellis_claims import TrellisProved


@dataclass(frozen=True, repr=False)
class OrderedCertificate(Displayed):
    """A certificate about an order-sensitive model, and the claims that the checker confirmed."""

    document: dict[str, Any]
    checked: TrellisProved

    @property
    def proved(self) -> tuple[str, ...]:
        """The claims that the checker confirmed, as sentences."""
        return self.checked.sentences

    @property
    def float32(self) -> Float32Counts | None:
        """What is proved of the float32 model, where that was asked for."""
        return Float32Counts.of(self.checked)

    def _facts(self) -> list[str]:
        return [f"{counted(len(self.proved), 'statement')} proved"]

    def _lines(self) -> list[tuple[str, str]]:
        return [("proved", sentence) for sentence in self.proved]

    def save(self, path: str | os.PathLike[str], *, force: bool = False) -> None:
        """Write the document; a file that is there must be a certificate, or `force` be given."""
        content = (json.dumps(self.document) + "\n").encode()
        write_output(Path(path), content, is_ordered_certificate, force=force)


@dataclass(frozen=True)
class Float32Counts:
    """Inputs by what the float32 model answers, whatever the order of its sums.

    A model that writes is right on an input where it is right at every step, and wrong where it is
    wrong at one. The numbers are at least so many; the rest depends on rounding as far as is known.
    """

    inputs: int
    right: int
    wrong: int

    @property
    def depends(self) -> int:
        """Inputs of which neither is proved."""
        return self.inputs - self.right - self.wrong

    @classmethod
    def of(cls, checked: TrellisProved) -> Float32Counts | None:
        """From what was proved of every length or step."""
        parts = checked.parts
        if not any(part.float32 for part in parts):
            return None
        proved = [part.float32 or {"right": 0, "wrong": 0} for part in parts]
        right, wrong = ([numbers[kind] for numbers in proved] for kind in ("right", "wrong"))
        if parts[0].kind == "length":
            return cls(sum(part.inputs for part in parts), sum(right), sum(wrong))
        inputs = parts[0].inputs
        missing = sum(inputs - number for number in right)
        return cls(inputs, max(0, inputs - missing), max(wrong))

    def to_dict(self) -> dict[str, str]:
        """Numbers as text: they may be beyond what JSON's readers hold exactly."""
        numbers = {"right": self.right, "wrong": self.wrong, "depends_on_rounding": self.depends}
        return {name: str(number) for name, number in numbers.items()}


def is_ordered_certificate(start: bytes) -> bool:
    """Whether a file that starts so is a certificate of an order-sensitive model."""
    return b'"tsc-interp/trellis-certificate/' in start[:100]
