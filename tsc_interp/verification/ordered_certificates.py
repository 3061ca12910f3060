"""Certificates about strings in their order: what a search found, as far as the checker shows it.

Each box that the search decided is put to the independent checker; what it cannot derive again is
cut in two and put to it once more, down to single strings or the end of patience. The rest is left
out, and so undecided: a slip in the search can cost a proof, but cannot invent one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tsc_interp.checkpoints.format import Checkpoint
from tsc_interp.errors import UnsupportedError
from tsc_interp.files import write_output
from tsc_interp.output.display import Displayed
from tsc_interp.verification.box_claims import CertificateError
from tsc_interp.verification.checker import digest
from tsc_interp.verification.ordered_boxes import UNDECIDED
from tsc_interp.verification.ordered_checker import SCHEMA, OrderedChecker, OrderedProved
from tsc_interp.verification.ordered_search import LengthSearch
from tsc_interp.verification.ordered_tasks import OrderedTask

PATIENCE = 600_000_000
"""For the checker, in microseconds of its estimated work: the same on every machine."""

Sets = list[list[int]]


@dataclass(frozen=True, repr=False)
class OrderedCertificate(Displayed):
    """The document, and what the checker derived from it: nothing here rests on the search."""

    document: dict[str, Any]
    checked: OrderedProved

    @property
    def proved(self) -> tuple[str, ...]:
        return self.checked.sentences

    def _facts(self) -> list[str]:
        return [f"{len(self.proved)} statements proved"]

    def _lines(self) -> list[tuple[str, str]]:
        return [("proved", sentence) for sentence in self.proved]

    def save(self, path: str | os.PathLike[str], *, force: bool = False) -> None:
        """Write the document; a file that is there must be a certificate, or `force` be given."""
        content = (json.dumps(self.document) + "\n").encode()
        write_output(Path(path), content, is_ordered_certificate, force=force)


def is_ordered_certificate(start: bytes) -> bool:
    """Whether a file that starts so is a certificate about strings in their order."""
    return b'"tsc-interp/ordered-certificate/' in start[:100]


def certify_ordered(
    checkpoint: Checkpoint,
    task: OrderedTask,
    searches: Sequence[LengthSearch],
    patience: int = PATIENCE,
) -> OrderedCertificate:
    """What follows from searches already made, derived again."""
    try:
        checker = OrderedChecker(checkpoint, seconds=float("inf"))
    except CertificateError as error:
        raise UnsupportedError(str(error).removeprefix("rejected: ")) from None
    builder = _Builder(checker, task, patience)
    lengths = json.loads(json.dumps([builder.length(search) for search in searches]))
    checked = checker.derive(lengths, task)
    document = {
        "schema": SCHEMA,
        "weight_hash": checker.weight_hash,
        "task": task.to_dict(),
        "lengths": lengths,
        "conclusion": checked.conclusion(),
    }
    document["digest"] = digest(document)
    return OrderedCertificate(document, checked)


class _Builder:
    def __init__(self, checker: OrderedChecker, task: OrderedTask, patience: int) -> None:
        self.checker, self.task, self.left = checker, task, patience

    def length(self, search: LengthSearch) -> dict[str, Any]:
        right, wrong = [], []
        for sets, _, instead in search.found():
            if instead == UNDECIDED:
                continue
            by = None if instead < 0 else instead
            for shown in self._shown(sets, by):
                if by is None:
                    right.append(self._written(shown))
                else:
                    wrong.append([self._written(shown), by])
        return {"length": search.length, "right": right, "wrong": wrong}

    def _shown(self, sets: Sets, by: int | None) -> Iterator[Sets]:
        """The box, or smaller ones that together are what the checker can show of it."""
        waiting = [sets]
        while waiting:
            box = waiting.pop()
            self.left -= self._cost(box, by)
            if self.left < 0:
                return
            if self.checker.holds(box, by, self.task):
                yield box
                continue
            place = max(range(len(box)), key=lambda i: len(box[i]))
            middle = len(box[place]) // 2
            if middle:
                halves = box[place][:middle], box[place][middle:]
                waiting += [[*box[:place], half, *box[place + 1 :]] for half in halves]

    def _cost(self, box: Sets, by: int | None) -> int:
        config, classes = self.checker.config, self.checker.model.n_classes
        keys = sum(map(len, box)) + 1
        channels = 1 if by is not None else classes
        plain = config.n_heads == 1 and not config.has_mlp and not config.final_norm
        if plain:
            return 100 + 2 * keys * channels
        if config.has_mlp:
            channels += config.d_mlp + config.d_model * (config.has_norm + config.final_norm)
        return 200 + 15 * keys * channels * max(config.n_heads, 1)

    def _written(self, sets: Sets) -> list[str]:
        letters = self.checker.config.alphabet.letters
        return ["".join(letters[i] for i in one) for one in sets]
