"""What leaves of a certificate about order claim, and what follows from them, counted.

`Claim` is one leaf of a tree and `Tally` adds leaves up; `PartProved` and `TrellisProved` are what
the checker (trellis.py) returns.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, NamedTuple

import numpy as np

from tsc_interp.verification.checker.box_claims import whole
from tsc_interp.verification.checker.budget import CertificateError, require
from tsc_interp.verification.checker.sets import Mask, Sets


@dataclass(frozen=True)
class PartProved:
    """One length, or one step of a task that writes."""

    kind: str
    """`length` or `step`."""
    number: int
    inputs: int
    right: int
    wrong: int
    first_wrong: tuple[int, ...] | None
    """The first wrong input that was shown, as letters by index."""
    float32: dict[str, int] | None = None
    """How many were shown `right` and `wrong` in float32, too, whatever the order of sums."""
    table: str = ""
    """The digest of the trellis: which inputs, and with which labels."""

    @property
    def undecided(self) -> int:
        return self.inputs - self.right - self.wrong

    def conclusion(self) -> dict[str, Any]:
        """Numbers of inputs as text: they may be beyond what JSON's readers hold exactly."""
        return {
            self.kind: self.number,
            "table": self.table,
            "inputs": str(self.inputs),
            "right": str(self.right),
            "wrong": str(self.wrong),
            "undecided": str(self.undecided),
            "first_wrong": None if self.first_wrong is None else list(self.first_wrong),
            **({} if self.float32 is None else {"float32": self._float32()}),
        }

    def _float32(self) -> dict[str, str]:
        assert self.float32 is not None
        return {kind: str(number) for kind, number in self.float32.items()}


@dataclass(frozen=True)
class TrellisProved:
    """What the checker derived again: the only thing anyone may call proved."""

    task: str
    parts: tuple[PartProved, ...]

    @property
    def sentences(self) -> tuple[str, ...]:
        sentences = []
        for part in self.parts:
            at = "of length" if part.kind == "length" else "at step"
            undecided = f", {part.undecided:,} not decided" if part.undecided else ""
            sentences.append(
                f"of {part.inputs:,} inputs {at} {part.number}, {part.right:,} are right and "
                f"{part.wrong:,} wrong{undecided} (task: {self.task})"
            )
        return tuple(sentences)

    def __iter__(self) -> Iterator[str]:
        return iter(self.sentences)

    def __len__(self) -> int:
        return len(self.sentences)

    def conclusion(self) -> dict[str, Any]:
        """As a certificate states it."""
        return {"parts": [part.conclusion() for part in self.parts]}


class Tally:
    """Numbers of inputs of one part, as leaves are derived."""

    def __init__(self) -> None:
        self.right = self.wrong = 0
        self.first_wrong: tuple[int, ...] | None = None
        self.float32: dict[str, int] | None = None

    def add(self, kind: str, count: int, float32: bool) -> None:
        if kind == "right":
            self.right += count
        else:
            self.wrong += count
        if float32:
            self.float32 = self.float32 or {"right": 0, "wrong": 0}
            self.float32[kind] += count

    def error(self, string: tuple[int, ...]) -> None:
        if self.first_wrong is None or string < self.first_wrong:
            self.first_wrong = string


class Claim(NamedTuple):
    """What a leaf says of all its inputs."""

    kind: str
    by: int = -1
    float32: bool = False

    @classmethod
    def of(cls, node: Any) -> Claim:
        """A leaf of a document.

        Raises:
            CertificateError: for anything else.
        """
        float32 = node[-1] == "float32"
        words = node[:-1] if float32 else node
        require(bool(words) and isinstance(words[0], str), f"unknown leaf {node!r}")
        kinds = {"right": 1, "wrong": 2, "each": 1, "open": 1}
        known = len(words) == kinds.get(words[0], -1) and not (float32 and words[0] == "open")
        require(known, f"unknown leaf {str(node)[:80]}")
        return cls(words[0], whole(words[1]) if words[0] == "wrong" else -1, float32)

    def node(self) -> list[Any]:
        """As in a document."""
        words = [self.kind, *([self.by] if self.kind == "wrong" else [])]
        return [*words, *(["float32"] if self.float32 else [])]


def names_of(sets: Sets, claims: Sequence[Claim]) -> list[bytes]:
    """What leaves are, and what they say, in 32 bytes each."""
    rows = np.packbits(np.concatenate(sets.masks, axis=1), axis=1)
    start = sets.trellis.digest.encode()
    return [
        sha256(start + row.tobytes() + repr(claim).encode()).digest()
        for row, claim in zip(rows, claims, strict=True)
    ]


def mask_of(text: Any, edges: int) -> Mask:
    """The edges of a cut."""
    require(isinstance(text, str), "edges are base64 of packed bits")
    try:
        packed = np.frombuffer(base64.b64decode(text, validate=True), dtype=np.uint8)
    except binascii.Error:
        raise CertificateError("rejected: edges are base64 of packed bits") from None
    require(len(packed) == -(-edges // 8), "a cut has one bit per edge of its stage")
    bits = np.unpackbits(packed)
    require(not bits[edges:].any(), "a cut has one bit per edge of its stage")
    return bits[:edges].astype(bool)
