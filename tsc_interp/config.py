"""What a classifier is: its shape, its options and its task, checked when it is made.

The report's classifiers have no biases, GELU, one output and a CLS in front. What TransformerLens's
models have besides is here under its own options; they are left out of the JSON where they have
their defaults, so that a classifier of the report keeps its JSON, its key and its weight hash.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from tsc_interp.errors import UnsupportedError
from tsc_interp.frozen import FrozenConfig
from tsc_interp.strings import FIRST_LETTER, MAX_LETTERS, Alphabet, letters_of_tokens
from tsc_interp.task import Classes, ContainsAll, Task


class ClassifierConfig(FrozenConfig):
    """One transformer sequence classifier. The defaults are the walk-through model."""

    added: ClassVar[frozenset[str]] = frozenset(
        {
            "biases", "act_fn", "final_norm", "n_outputs", "reads", "positions", "token_names",
            "adaptive_temperature", "attention_norm",
        }
    )  # fmt: skip

    n_letters: int = Field(default=3, ge=1, le=MAX_LETTERS)
    task: Task = ContainsAll()

    n_layers: int = Field(default=1, ge=1, le=64)
    d_model: int = Field(default=2, ge=1, le=4096)
    n_heads: int = Field(default=2, ge=0, le=1024, description="0: no attention")
    d_head: int = Field(default=1, ge=1, le=4096)
    d_mlp: int = Field(default=2, ge=0, le=16384, description="0: no MLP")

    norm: Literal["off", "rms", "layer", "rms_pre", "layer_pre"] = Field(
        default="off", description="_pre: without learned scale and shift"
    )
    norm_eps: float = Field(default=1e-5, gt=0)
    dropout: float = Field(default=0.0, ge=0.0, lt=1.0)
    attend_cls: bool = False
    n_positions: int = Field(default=0, ge=0, le=65536, description="learned positions; 0: none")
    score_scale: Literal[
        "sqrt_d_head", "sqrt_d_head_log_n", "sqrt_d_head_log_n_cls", "sqrt_d_head_ssmax"
    ] = Field(
        default="sqrt_d_head",
        description="_log_n: times the log of the number of letters; _log_n_cls: CLS is counted, "
        "too; _ssmax: times log n and a factor each head learns",
    )

    embedding_init: Literal["default", "linear_like"] = "default"
    attention_init: Literal["default", "output_fan_out"] = "default"
    mlp_init: Literal["default", "output_fan_out"] = "default"

    biases: bool = Field(default=False, description="b_Q, b_K, b_V, b_O, b_in, b_out and b_U")
    act_fn: Literal["gelu", "gelu_new", "relu", "silu"] = "gelu"
    final_norm: bool = Field(default=False, description="a norm before the read-out")
    n_outputs: int = Field(
        default=1, ge=1, le=4096, description="1: the logit's sign; more: the largest one's index"
    )
    reads: Literal["first", "last", "last_letter"] = Field(
        default="first",
        description="first: CLS in front, attention both ways; last: CLS at the end, causal; "
        "last_letter: no CLS, causal, the last letter reads",
    )
    positions: Literal["learned", "sinusoidal"] = "learned"
    token_names: tuple[str, ...] = Field(
        default=(), description="what the letters stand for, one name each"
    )
    adaptive_temperature: bool = Field(
        default=False, description="scores grow with the entropy of the attention they would give"
    )
    attention_norm: Literal["off", "rms", "layer"] = Field(
        default="off", description="a norm after attention, of what it adds"
    )

    @model_validator(mode="after")
    def _task_fits(self) -> Self:
        missing = sorted(set(self.task.needs) - set(self.alphabet.letters))
        if missing:
            raise ValueError(
                f"the task needs the letters {''.join(missing)}, "
                f"but the alphabet is {self.alphabet.letters} (n_letters = {self.n_letters})"
            )
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
        return self

    @field_validator("token_names", mode="before")
    @classmethod
    def _names_are_a_tuple(cls, names: object) -> object:
        return tuple(names) if isinstance(names, list) else names

    @model_validator(mode="after")
    def _options_fit(self) -> Self:
        if self.final_norm and not self.has_norm:
            raise ValueError("final_norm needs a kind of norm")
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
        if self.token_names and len(set(self.token_names)) != self.n_letters:
            raise ValueError(
                f"token_names needs {self.n_letters} different names, one per letter, got "
                f"{len(self.token_names)}"
            )
        return self

    @property
    def beyond_report(self) -> tuple[str, ...]:
        """What this classifier has that no classifier of the report has, in words."""
        has = {
            "biases": self.biases,
            f"the activation {self.act_fn}": self.has_mlp and self.act_fn != "gelu",
            "norms without weights": self.norm.endswith("_pre"),
            "a final norm": self.final_norm,
            f"{self.n_outputs} outputs": self.n_outputs > 1,
            "causal attention": self.causal,
            f"{self.positions} positions": self.positions != "learned",
            "CLS counted in log n": bool(self.cls_counted),
        }
        named = tuple(words for words, applies in has.items() if applies)
        return named + self.beyond_verification

    @property
    def beyond_verification(self) -> tuple[str, ...]:
        """What no bound over boxes of strings is written for, in words."""
        has = {
            "a learned factor of log n (folded() takes it into W_Q)": self.ssmax,
            "adaptive temperature": self.has_attention and self.adaptive_temperature,
            "a norm after attention": self.has_attention and self.attention_norm != "off",
        }
        return tuple(words for words, applies in has.items() if applies)

    @property
    def alphabet(self) -> Alphabet:
        return Alphabet(self.n_letters)

    @property
    def question(self) -> str:
        """What is decided, and what its letters stand for where they have names of their own."""
        asked = self.task.describe()
        named = zip(self.alphabet.letters, self.token_names, strict=False)
        legend = ", ".join(f"{letter} is {name}" for letter, name in named)
        return f"{asked} ({legend})" if legend else asked

    @property
    def called(self) -> tuple[str, ...]:
        """What each token is called, in token order: by its letter, or by a name of its own."""
        special = self.alphabet.token_names[:FIRST_LETTER]
        return (*special, *(self.token_names or self.alphabet.letters))

    def classes(self, strings: Sequence[str]) -> Classes:
        """The task's class of each string in run-length notation; of two classes, 1 is yes."""
        if self.task.ordered:
            return self.task.classes(letters_of_tokens(self.alphabet.tokens(strings)))
        return self.task.classes(self.alphabet.count_matrix(strings))

    @property
    def has_attention(self) -> bool:
        return self.n_heads > 0

    @property
    def has_mlp(self) -> bool:
        return self.d_mlp > 0

    @property
    def has_positions(self) -> bool:
        return self.n_positions > 0

    @property
    def has_norm(self) -> bool:
        return self.norm != "off"

    @property
    def centred_norm(self) -> bool:
        """LayerNorm, which takes the mean out; RMS norms do not."""
        return self.norm.startswith("layer")

    @property
    def learned_norm(self) -> bool:
        """Whether norms have a scale (and LayerNorms a shift) of their own."""
        return self.norm in ("rms", "layer")

    @property
    def causal(self) -> bool:
        return self.reads != "first"

    @property
    def has_cls(self) -> bool:
        return self.reads != "last_letter"

    @property
    def needs_order(self) -> bool:
        """Whether the logit depends on more than how often each letter occurs.

        One causal layer whose CLS reads from the end sees all letters, in no order.
        """
        ordered = self.reads == "last_letter" or (self.causal and self.n_layers > 1)
        return self.has_positions or ordered

    @property
    def log_n(self) -> bool:
        """Whether scores are multiplied by the log of n, the letters (and `cls_counted`)."""
        return self.score_scale != "sqrt_d_head"

    @property
    def cls_counted(self) -> int:
        """What n is larger by than the number of letters, where scores grow with log n."""
        return int(self.score_scale == "sqrt_d_head_log_n_cls")

    @property
    def ssmax(self) -> bool:
        """Whether each head has learned a factor of log n."""
        return self.has_attention and self.score_scale == "sqrt_d_head_ssmax"

    def weight_shapes(self) -> dict[str, tuple[int, ...]]:
        """Every weight's name and shape, HookedTransformer's, in the order data flows."""
        d, h, k, m = self.d_model, self.n_heads, self.d_head, self.d_mlp
        shapes: dict[str, tuple[int, ...]] = {"embed.W_E": (self.alphabet.vocab_size, d)}
        if self.has_positions and self.positions == "learned":
            shapes["pos_embed.W_pos"] = (self.n_positions, d)
        for layer in range(self.n_layers):
            block = f"blocks.{layer}"
            if self.has_attention:
                shapes |= _norm_shapes(self.norm, f"{block}.ln1", d)
                shapes |= {f"{block}.attn.W_{name}": (h, d, k) for name in "QKV"}
                shapes[f"{block}.attn.W_O"] = (h, k, d)
                shapes |= {f"{block}.attn.log_n_factor": (h,)} if self.ssmax else {}
                shapes |= _norm_shapes(self.attention_norm, f"{block}.ln1_post", d)
                biases = {f"{block}.attn.b_{name}": (h, k) for name in "QKV"}
                shapes |= self._bias_shapes(biases | {f"{block}.attn.b_O": (d,)})
            if self.has_mlp:
                shapes |= _norm_shapes(self.norm, f"{block}.ln2", d)
                shapes[f"{block}.mlp.W_in"] = (d, m)
                shapes[f"{block}.mlp.W_out"] = (m, d)
                shapes |= self._bias_shapes({f"{block}.mlp.b_in": (m,), f"{block}.mlp.b_out": (d,)})
        if self.final_norm:
            shapes |= _norm_shapes(self.norm, "ln_final", d)
        shapes["unembed.W_U"] = (d, self.n_outputs)
        return shapes | self._bias_shapes({"unembed.b_U": (self.n_outputs,)})

    def _bias_shapes(self, shapes: dict[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
        return shapes if self.biases else {}


def _norm_shapes(kind: str, name: str, d_model: int) -> dict[str, tuple[int, ...]]:
    kept = {"rms": ("w",), "layer": ("w", "b")}.get(kind, ())
    return {f"{name}.{part}": (d_model,) for part in kept}


def require_report_family(config: ClassifierConfig, what: str) -> None:
    """For what knows only the options of the report's classifiers, and says so."""
    if config.beyond_report:
        raise UnsupportedError(
            f"{what} knows the report's own kind of classifier; this one has "
            f"{', '.join(config.beyond_report)}"
        )
