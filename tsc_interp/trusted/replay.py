"""Replays a document for the models it is about: what is proved.

    {"schema": "tsc-interp/proof/1", "models": [hash, ...], "float32": null | "tokens" |
     "compressed", "language": null | {"counts": rule} | {"tables": [table, ...]},
     "parts": [part, ...], "conclusion": {...}, "digest": SHA-256 of all the rest}

A part is a region and the tree of its leaves (trees.py). Of inputs that are counts:

    {"letters": [0, 1], "up_to": 66, "tree": [...]}     strings over exactly these, up to a length
    {"letters": [0, 1], "ever": true, "trees": [...]}   of any length: a tree for each letter, which
                                                        occurs most; axes: CLS if it is attended
                                                        to, then the other letters
    {"letters": [0, 1], "from": 40, "tree": [leaf]}     from a length on (scores scaled by log n)
    {"counts": [1, 66, 0], "tree": [leaf]}              one count vector
    {"letters": [1], "limit": true, "tree": [leaf]}     all attention on one letter

and of those of a table `{"table": 0, "labels": [0, 1], "tree": [...]}`: the inputs with these
labels, states with equal continuations merged; no label of a table in two parts.

Everything rests on one statement about a region: output j is above output k there. Nothing in a
document is believed but that its language is what was meant, and nothing outside of it but the
bytes of the models. With two models and no language, leaves say where both answer alike.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from tsc_interp.trusted.budget import MEMORY, SECONDS, Budget
from tsc_interp.trusted.errors import NotProved, UsageError, require
from tsc_interp.trusted.float32 import FORMS
from tsc_interp.trusted.judge import Judge
from tsc_interp.trusted.language import Rule, read_table
from tsc_interp.trusted.replay_counts import CountParts
from tsc_interp.trusted.replay_tables import TableParts
from tsc_interp.trusted.spec import Model

SCHEMA = "tsc-interp/proof/1"
_FIELDS = {"schema", "models", "float32", "language", "parts", "conclusion", "digest"}
Conclusion = dict[str, Any]


def replay(
    document: Any, models: Sequence[Model], seconds: float = SECONDS, memory: int = MEMORY
) -> Conclusion:
    """Return the conclusion of a document, every leaf derived again.

    Args:
        document: As read from JSON.
        models: One or two, in the order in which it names them.
        seconds: How long it may take.
        memory: How many bytes it may hold at one time.

    Raises:
        NotProved: Anything does not hold, or takes more than is allowed.
    """
    try:
        require(isinstance(document, dict) and set(document) == _FIELDS,
                f"a proof has the fields {sorted(_FIELDS)}")  # fmt: skip
        require(document["schema"] == SCHEMA, f"the schema must be {SCHEMA!r}")
        require(document["digest"] == digest(document), "the digest does not fit the content")
        hashes = [model.hash for model in models]
        require(document["models"] == hashes, "the proof is about other models")
        derived = Replay(models, document["language"], document["float32"], seconds, memory).run(
            document["parts"]
        )
        same = text_of(document["conclusion"]) == text_of(derived)
        require(same, f"the conclusion does not follow; what does is {text_of(derived)[:500]}")
        return derived
    except (RecursionError, OverflowError, MemoryError) as error:
        raise NotProved(f"rejected: too much to check: {type(error).__name__}") from None
    except (LookupError, TypeError, ValueError, AttributeError, UsageError) as error:
        raise NotProved(f"rejected: malformed: {type(error).__name__}: {error}") from None


class Replay:
    """The parts of one document, or of one that is written."""

    def __init__(
        self, models: Sequence[Model], language: Any, float32: str | None,
        seconds: float = SECONDS, memory: int = MEMORY, judges: Sequence[Judge] = (),
    ) -> None:  # fmt: skip
        """`judges`: those of the models, where they are made already."""
        require(len(models) in (1, 2), "a proof is about one model or two")
        letters = {model.spec.n_letters for model in models}
        classes = {model.spec.n_classes for model in models}
        require(len(letters) == len(classes) == 1, "the models have other letters or classes")
        require(float32 is None or float32 in FORMS, f"float32 is one of {FORMS}")
        self.budget = Budget(seconds, memory)
        self.budget.restart()
        self.judges = [*judges] or [Judge(model, self.budget) for model in models]
        self.float32, self.n_letters, self.n_classes = float32, letters.pop(), classes.pop()
        self.parts: CountParts | TableParts
        tables = isinstance(language, dict) and set(language) == {"tables"}
        if tables:
            read = [(read_table(data, self.n_letters, self.n_classes), data["name"])
                    for data in language["tables"]]  # fmt: skip
            self.parts = TableParts(self.judges, read, float32, self.budget)
        else:
            given = isinstance(language, dict) and set(language) == {"counts"}
            rule = Rule(language["counts"], self.n_letters) if given else None
            require(given or (language is None and len(models) == 2), "a language of no kind")
            self.parts = CountParts(self.judges, rule, float32, self.budget)

    def run(self, parts: Any) -> Conclusion:
        """What follows from all parts."""
        require(isinstance(parts, list), "parts are a list")
        for part in parts:
            self.budget()
            self.parts.add(part)
        return self.parts.conclusion()


def sealed(
    models: Sequence[Model], language: Any, float32: str | None, parts: Sequence[Any],
    conclusion: Conclusion,
) -> dict[str, Any]:  # fmt: skip
    """A document with a digest that fits."""
    document = {
        "schema": SCHEMA, "models": [model.hash for model in models], "float32": float32,
        "language": language, "parts": list(parts), "conclusion": conclusion,
    }  # fmt: skip
    return {**document, "digest": digest(document)}


def digest(document: Mapping[str, Any]) -> str:
    """SHA-256 of everything but the digest itself."""
    rest = {key: value for key, value in document.items() if key != "digest"}
    return hashlib.sha256(text_of(rest).encode()).hexdigest()


def text_of(value: Any) -> str:
    """One text for equal JSON, and different ones for 1, 1.0 and true."""
    return json.dumps(value, sort_keys=True)
