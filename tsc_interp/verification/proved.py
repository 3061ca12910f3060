"""What a proof about letter counts proves, in the model's own letters and in sentences.

All of it is read off the conclusion that the trusted base derived: the only thing anyone may call
proved.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tsc_interp.config import ClassifierConfig
from tsc_interp.verification.labels import class_of_support, support_name


@dataclass(frozen=True)
class Float32Proved:
    """Of strings given in one form: up to where all are right, and the first known to be wrong."""

    safe_through: int
    first_wrong: str | None


@dataclass(frozen=True)
class Proved:
    """What the trusted base derived about one model of counts."""

    sentences: tuple[str, ...]
    horizon: int | None
    infinite: bool
    finite: bool
    verified_length: Mapping[str, int | None]
    """Per set of letters, the length up to which its strings are right; None is every length."""
    wrong: tuple[str, ...]
    negative_supports: Mapping[str, bool | None]
    float32: Mapping[str, Float32Proved] = field(default_factory=dict)
    """By form of the strings: what holds in float32, whatever the order of sums."""

    def __iter__(self) -> Iterator[str]:
        return iter(self.sentences)

    def __len__(self) -> int:
        return len(self.sentences)

    @classmethod
    def of(cls, config: ClassifierConfig, document: Mapping[str, Any]) -> Proved:
        """From a document whose conclusion was derived again."""
        stated, write = document["conclusion"], config.alphabet.write
        through = _through(config, stated)
        wrong = {write(counts): counts for counts in stated["failures"]}
        failing = {tuple(i for i, n in enumerate(counts) if n) for counts in stated["failures"]}
        negative = {
            support_name(config, tuple(support)): _holds(tuple(support) in failing, end)
            for support, end in stated["verified_length"]
            if config.n_outputs <= 2 and class_of_support(config, tuple(support)) == 0
        }
        two = config.n_outputs <= 2
        sentences = [
            f"{string} is a false {'positive' if answer else 'negative'}"
            if two
            else f"{string} is answered {answer}: wrong"
            for string, (answer,) in _singles(config, document).items()
        ]
        sentences += [
            f"every string over exactly {letters}{_reach(end)} is right"
            for letters, end in through.items()
            if end is None or end >= len(letters)
        ]
        if stated["horizon"] is not None:
            sentences.append(f"the horizon is {stated['horizon']}")
        holding = [letters for letters, holds in negative.items() if holds]
        if holding:
            sentences.append(f"no false positive of any length over {', '.join(holding)}")
        if stated["infinite"]:
            sentences.append("the horizon is infinite: no string of any length is misclassified")
        elif stated["finite"] and not wrong:
            sentences.append("the horizon is finite: two sets of letters of different labels share "
                             "a limit that is not zero")  # fmt: skip
        rule = document["language"]["counts"]
        if rule["rule"] == "listed" and rule["supports"]:
            sentences.append(
                f"this believes the task {config.task.kind!r} that all strings over the same "
                "letters have the label that its label_of_support says"
            )
        float32 = {}
        if document["float32"] is not None:
            of_form, form = stated["float32"], document["float32"]
            first = next(map(write, of_form["failures"]), None)
            float32[form] = Float32Proved(of_form["verified_length"], first)
            start = f"in float32 ({form}, any order of sums)"
            sentences.append(
                f"{start} every string up to length {of_form['verified_length']} is right"
            )
            sentences += [f"{start} {first} is wrong"] * (first is not None)
        return cls(
            tuple(sentences), stated["horizon"], stated["infinite"], stated["finite"], through,
            tuple(wrong), negative, float32,
        )  # fmt: skip


@dataclass(frozen=True)
class Agreement:
    """What the trusted base derived about two models of counts."""

    sentences: tuple[str, ...]
    through: Mapping[str, int | None]
    """Per set of letters, the length up to which the two agree; None is every length."""
    differ: tuple[str, ...]
    first_difference: int | None
    """The length of the shortest string they answer differently, where all shorter ones agree."""

    @property
    def everywhere(self) -> bool:
        """Whether they agree on every string of every length."""
        return all(end is None for end in self.through.values())

    @property
    def agree_through(self) -> int | None:
        """They agree on every string up to this length; None is every length."""
        ends = [end for end in self.through.values() if end is not None]
        return min(ends) if ends else None

    def conclusion(self) -> dict[str, Any]:
        """As JSON types."""
        return {
            "agree_through": self.agree_through,
            "everywhere": self.everywhere,
            "first_difference": self.first_difference,
        }

    @classmethod
    def of(cls, config: ClassifierConfig, document: Mapping[str, Any]) -> Agreement:
        """From a document whose conclusion was derived again; of letters as `config` has them."""
        stated = document["conclusion"]
        through = _through(config, stated)
        differ = tuple(config.alphabet.write(counts) for counts in stated["failures"])
        words: dict[tuple[int, ...], tuple[Any, ...]] = {
            (0, 1): ("no", "yes"),
            (1, 0): ("yes", "no"),
        }
        sentences = [
            "{}: the first says {}, the second {}".format(string, *words.get(answers, answers))
            for string, answers in _singles(config, document).items()
        ]
        sentences += [
            f"every string over exactly {letters}{_reach(end)} is answered alike"
            for letters, end in through.items()
            if end is None or end >= len(letters)
        ]
        first = None if stated["horizon"] is None else stated["horizon"] + 1
        if stated["infinite"]:
            sentences.append("the two answer every string of every length alike")
        return cls(tuple(sentences), through, differ, first)


def _singles(config: ClassifierConfig, document: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """The single inputs of a document, and what they are answered with."""
    return {
        config.alphabet.write(part["counts"]): tuple(
            x for x in part["tree"][0][1:] if isinstance(x, int)
        )
        for part in document["parts"]
        if "counts" in part
    }


def _through(config: ClassifierConfig, stated: Mapping[str, Any]) -> dict[str, int | None]:
    return {support_name(config, tuple(support)): end for support, end in stated["verified_length"]}


def _reach(end: int | None) -> str:
    return ", however long," if end is None else f" up to length {end}"


def _holds(failing: bool, end: int | None) -> bool | None:
    return False if failing else True if end is None else None
