"""What a classifier is: its shape, its options and its task, checked when it is made."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

from pydantic import field_validator, model_validator

from tsc_interp.config.options import ClassifierOptions
from tsc_interp.config.shapes import weight_shapes
from tsc_interp.errors import StringError, UnsupportedError, shorten
from tsc_interp.memory import require_memory
from tsc_interp.strings import letters_of_tokens
from tsc_interp.tasks.audit import check_supports
from tsc_interp.tasks.base import Classes, is_shipped

if TYPE_CHECKING:
    from tsc_interp.frames.frame import Frame

_NAMES_SHOWN = 16
_NAMED_RUN = re.compile(r"(.)(\{[0-9]+\})?", re.DOTALL)
_COUNTED_NAME = re.compile(r"(.+)(\{[0-9]+\})", re.DOTALL)


class ClassifierConfig(ClassifierOptions):
    """The shape and the task of a transformer sequence classifier.

    The defaults are those of the walk-through model. Unknown options and impossible values raise a
    `ConfigError` that says what is allowed.

    Example:
        >>> config = ClassifierConfig(d_model=4, n_heads=1, task="parity")
        >>> config.weight_shapes()["blocks.0.attn.W_Q"]
        (1, 4, 1)
        >>> config.replace(d_mlp=8).d_mlp
        8
    """

    @model_validator(mode="after")
    def _task_fits(self) -> Self:
        if misfit := self.task.misfit(self.n_letters):
            raise ValueError(misfit)
        classes = self.task.n_classes(self.n_letters)
        if classes > max(self.n_outputs, 2):
            raise ValueError(
                f"the task ({self.task.describe()}) has {classes} classes: n_outputs must be "
                f"{classes} or more, not {self.n_outputs}"
            )
        if self.task.ordered and not self.needs_order:
            raise ValueError(
                f"the task ({self.task.describe()}) is about the order of letters, which this "
                "classifier cannot see: it needs n_positions, or causal attention that sees order "
                "(reads = 'last_letter', or 'last' with two layers)"
            )
        if not is_shipped(self.task):
            check_supports(self.task, self.n_letters)
        return self

    @field_validator("token_names", mode="before")
    @classmethod
    def _names_are_a_tuple(cls, names: object) -> object:
        return tuple(names) if isinstance(names, list) else names

    @model_validator(mode="after")
    def _options_fit(self) -> Self:
        if self.final_norm and not self.has_norm:
            raise ValueError("final_norm needs a kind of norm")
        table = {"rotary": self.turned, "sinusoidal": self.d_model}.get(self.positions, 0)
        require_memory(
            f"the table of {self.positions} positions",
            self.n_positions, table, each=24,
            instead="choose a smaller n_positions",
        )  # fmt: skip
        if self.positions != "learned" and not self.has_positions:
            raise ValueError(f"positions = {self.positions!r} needs n_positions")
        if self.causal and not self.attend_cls:
            raise ValueError(
                f"reads = {self.reads!r} is causal attention, in which the token that reads is "
                "attended to as well: attend_cls must be true"
            )
        if self.log_n and self.reads != "first":
            raise ValueError("scores that grow with log n need reads = 'first'")
        if self.adaptive_temperature and self.reads != "first":
            raise ValueError("adaptive temperature needs reads = 'first'")
        _check_attention(self)
        if self.gated_mlp and not self.has_mlp:
            raise ValueError("gated_mlp needs an MLP (d_mlp)")
        if self.tied_embeddings and self.n_outputs != self.n_letters:
            raise ValueError(
                f"tied_embeddings reads one output per letter: n_outputs must be {self.n_letters}, "
                f"not {self.n_outputs}"
            )
        if self.token_names and len(set(self.token_names)) != self.n_letters:
            raise ValueError(
                f"token_names needs {self.n_letters} different names, one per letter, got "
                f"{len(self.token_names)}"
            )
        return self

    @property
    def beyond_report(self) -> tuple[str, ...]:
        """Options of this classifier that the source report's classifiers lack, in words."""
        has = {
            "biases": self.biases,
            f"the activation {self.act_fn}": self.has_mlp and self.act_fn != "gelu",
            "norms without weights": self.norm.endswith("_pre"),
            "a final norm": self.final_norm,
            f"{self.n_outputs} outputs": self.n_outputs > 1,
            "causal attention": self.causal,
            f"{self.positions} positions": self.positions != "learned",
            "CLS counted in log n": bool(self.cls_counted),
            "heads that share keys and values": self.grouped,
            f"scores divided by {self.attention_scale:g}": self.attention_scale > 0,
            "tied embeddings": self.tied_embeddings,
        }
        named = tuple(words for words, applies in has.items() if applies)
        return named + self.beyond_counts

    @property
    def beyond_counts(self) -> tuple[str, ...]:
        """Options for which there are no bounds over letter counts, in words."""
        has = {
            "a gated MLP": self.gated_mlp,
            "a norm of queries and keys": self.qk_norm != "off",
        }
        named = tuple(words for words, applies in has.items() if applies)
        return named + self.beyond_verification

    @property
    def beyond_verification(self) -> tuple[str, ...]:
        """Options for which there are no bounds over boxes of strings, in words."""
        has = {
            "a learned factor of log n (folded() takes it into W_Q)": self.ssmax,
            "adaptive temperature": self.has_attention and self.adaptive_temperature,
            "a norm after attention": self.has_attention and self.attention_norm != "off",
        }
        return tuple(words for words, applies in has.items() if applies)

    def classes(self, strings: Sequence[str]) -> Classes:
        """Return the right class of each string; with two classes, 1 is yes."""
        if self.task.ordered:
            rows = self.alphabet.tokens(self.filled(strings))
            return self.task.classes_of_all(letters_of_tokens(rows))
        return self.task.classes(self.alphabet.count_matrix(self.filled(strings)))

    @property
    def frame(self) -> Frame | None:
        """The format of the inputs, if the task defines one; tokens are indices of letters."""
        return self.task.layout

    def filled(self, strings: Sequence[str]) -> list[str]:
        """Return strings as letters, with the frame's fixed tokens added if there is a frame.

        A string gives the letters at the frame's places, or the whole row. If tokens have names, it
        may also give these: `3 4 END`, or `0{3}5+` where each name is one character.
        """
        if self.frame is None:
            return [self._unnamed(text) for text in strings]
        task: Any = self.task
        rows = [task.row(self._letters(text)) for text in strings]
        return ["".join(self.alphabet.letters[letter] for letter in row) for row in rows]

    def _letters(self, text: str) -> list[int]:
        expanded = self.alphabet.expand(self._unnamed(text))
        return [self.alphabet.letters.index(letter) for letter in expanded]

    def _unnamed(self, text: str) -> str:
        """The letters for a text of token names; a text of letters unchanged.

        Raises:
            StringError: It is neither.
        """
        if not self.token_names or not isinstance(text, str):
            return text
        words = text.split()
        runs = [self._run(word) for word in words]
        if (
            len(words) == 1
            and runs[0][0] not in self.token_names
            and (not set(text) <= set(self.alphabet.letters))
        ):
            runs = _NAMED_RUN.findall(text)
        names = [name for name, _ in runs]
        if not names or not set(names) <= set(self.token_names):
            with suppress(StringError):
                self.alphabet.runs(text)
                return text
            raise self._no_token(text, [self._run(word)[0] for word in words])
        letters = dict(zip(self.token_names, self.alphabet.letters, strict=True))
        return "".join(letters[name] + repeat for name, repeat in runs)

    def _no_token(self, text: str, names: Sequence[str]) -> StringError:
        shown = [*self.token_names[:_NAMES_SHOWN], *["..."] * (self.n_letters > _NAMES_SHOWN)]
        wrong = next((name for name in names if name not in self.token_names), text)
        problem = f"there is no token {shorten(wrong)}"
        allowed = f"tokens are {', '.join(shown)}, with spaces between and repeats such as "
        return StringError(text, None, problem, f"{allowed}{self.token_names[0]}{{3}}")

    def _run(self, word: str) -> tuple[str, str]:
        """A token's name and how often: `red{5}`, unless that is itself a name."""
        counted = _COUNTED_NAME.fullmatch(word)
        return (
            (word, "") if counted is None or word in self.token_names else (counted[1], counted[2])
        )

    def named(self, text: str) -> str:
        """Return a string of letters in the tokens' own names; `filled` reads it back.

        Example:
            >>> ClassifierConfig(token_names=("red", "green", "blue")).named("ab{3}")
            'red green{3}'
        """
        if not self.token_names:
            return text
        names = dict(zip(self.alphabet.letters, self.token_names, strict=True))
        letters = self.alphabet.letters
        short = all(len(name) == 1 and name not in letters for name in self.token_names)
        runs = self.alphabet.runs(text)
        return ("" if short else " ").join(
            names[letter] + (f"{{{repeat}}}" if int(repeat) > 1 else "") for letter, repeat in runs
        )

    def weight_shapes(self) -> dict[str, tuple[int, ...]]:
        """Return each weight's name, HookedTransformer's, and shape, in the order of use."""
        return weight_shapes(self)


def _check_attention(config: ClassifierOptions) -> None:
    """Raise a ValueError where options of attention contradict each other or the sizes."""
    rotary = {name for name in config.added if name.startswith("rotary")}
    fields = type(config).model_fields
    moved = sorted(n for n in rotary if getattr(config, n) != fields[n].default)
    if moved and config.positions != "rotary":
        raise ValueError(f"{', '.join(moved)} needs positions = 'rotary'")
    if config.positions == "rotary" and (
        config.turned % 2 or not 0 < config.turned <= config.d_head
    ):
        raise ValueError(
            f"rotary positions turn pairs of a head's components: an even number up to d_head "
            f"= {config.d_head}, not {config.turned} (rotary_dim)"
        )
    if config.positions == "alibi" and not config.causal:
        raise ValueError(
            "ALiBi counts tokens back from the query, and CLS in front has none before it: "
            "reads must be 'last' or 'last_letter'"
        )
    if 0 < config.attention_scale < 1e-6:
        raise ValueError(f"attention_scale = {config.attention_scale:g} is below 1e-6")
    if config.n_key_value_heads and config.n_heads % config.n_key_value_heads:
        raise ValueError(
            f"n_key_value_heads = {config.n_key_value_heads} does not divide n_heads = "
            f"{config.n_heads}: every group has the same number of heads"
        )
    needs = {"positions": config.positions in ("rotary", "alibi", "shortformer")}
    needs |= {"n_key_value_heads": bool(config.n_key_value_heads)}
    needs |= {"qk_norm": config.qk_norm != "off", "attention_scale": config.attention_scale > 0}
    for name, used in needs.items():
        if used and not config.has_attention:
            raise ValueError(f"{name} = {getattr(config, name)!r} needs attention (n_heads)")


def require_report_family(config: ClassifierConfig, what: str) -> None:
    """For what knows only the options of the report's classifiers, and says so."""
    if config.beyond_report:
        raise UnsupportedError(
            f"{what} knows the report's own kind of classifier; this one has "
            f"{', '.join(config.beyond_report)}"
        )
