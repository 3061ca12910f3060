"""Up to which length a model makes no error at all, and the first ones it makes: exactly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tsc_interp.errors import UnsupportedError
from tsc_interp.strings import MAX_LETTERS, Alphabet

if TYPE_CHECKING:
    from tsc_interp.checkpoints.checkpoint import Checkpoint

_MOST_LETTERS = 5
_ANY = Alphabet(MAX_LETTERS)


def n_letters(string: str) -> int:
    """How long a string in run-length notation is.

    Example:
        >>> n_letters("ab{66}")
        67
    """
    return int(_ANY.counts(string).sum())


def written_out(string: str) -> str:
    """A string in words.

    Example:
        >>> written_out("ab{66}")
        'one a, then 66 b'
    """
    runs = [(letter, int(repeat)) for letter, repeat in _ANY.runs(string)]
    return ", then ".join(f"{'one' if n == 1 else f'{n:,}'} {letter}" for letter, n in runs)


@dataclass(frozen=True)
class Reach:
    """`verified_length` is proved. Beyond it lie the shortest errors found, if any."""

    verified_length: int
    exact: bool
    """Whether the next length has an error, so that `verified_length` is the horizon itself."""
    false_positive: str | None
    false_negative: str | None
    wrong: str | None = None
    """Of a model with several classes, whose errors have no kinds: the shortest."""

    def errors(self) -> list[tuple[str, str]]:
        """(string, kind): the shortest error of each kind that is known, the shortest first."""
        by_kind = (
            (self.false_positive, "false positive"),
            (self.false_negative, "false negative"),
            (self.wrong, ""),
        )
        known = [(string, kind) for string, kind in by_kind if string is not None]
        return sorted(known, key=lambda error: n_letters(error[0]))

    def shortest_error(self) -> int | None:
        """The length of the shortest string known to be wrong."""
        return next((n_letters(string) for string, _ in self.errors()), None)

    def sentence(self) -> str:
        """How far it is proved right, and the shortest strings it gets wrong."""
        if self.verified_length:
            letters = "letter" if self.verified_length == 1 else "letters"
            proved = f"Every string of up to {self.verified_length:,} {letters} is proved right."
        else:
            proved = "It already fails at length 1." if self.exact else "Nothing is proved."
        errors = self.errors()
        if not errors:
            return proved
        first = " and ".join(f"`{string}`" + f" (a {kind})" * bool(kind) for string, kind in errors)
        strings = "strings" if len(errors) > 1 else "string"
        verb = ("" if self.exact else " found") + (" are" if len(errors) > 1 else " is")
        return f"{proved} The shortest wrong {strings}{verb} {first}."


def reach(checkpoint: Checkpoint) -> Reach | None:
    """None where counts do not describe the input, or there are too many sets of letters."""
    from tsc_interp.probes.searched import searched

    if checkpoint.config.n_letters > _MOST_LETTERS or checkpoint.config.needs_order:
        return None
    try:
        found = searched(checkpoint).horizon
    except UnsupportedError:
        return None
    first = found.shortest if checkpoint.config.n_outputs > 1 else None
    errors = found.shortest_false_positive, found.shortest_false_negative, first
    positive, negative, wrong = (None if error is None else error.string for error in errors)
    return Reach(
        # What the checker did not derive again may be true, but is not proved.
        verified_length=found.verified_length if found.checked else 0,
        exact=found.proved and found.length is not None,
        false_positive=positive,
        false_negative=negative,
        wrong=wrong if first is not None and first.multiclass else None,
    )
