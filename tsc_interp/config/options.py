"""The options of a classifier, and what follows from them.

The report's classifiers have no biases, GELU, one output and a CLS in front. What TransformerLens's
models have besides is here under its own options; they are left out of the JSON where they have
their defaults, so that a classifier of the report keeps its JSON, its key and its weight hash.
"""

from __future__ import annotations

import math
from typing import ClassVar, Literal

from pydantic import Field

from tsc_interp.frozen import FrozenConfig
from tsc_interp.strings import FIRST_LETTER, MAX_LETTERS, Alphabet
from tsc_interp.tasks.base import GivenTask
from tsc_interp.tasks.counts import ContainsAll

_LEGEND = 8
"""Names of tokens a sentence lists."""


class ClassifierOptions(FrozenConfig):
    """Sizes, task and kinds of parts; `ClassifierConfig` checks that they fit together."""

    added: ClassVar[frozenset[str]] = frozenset(
        {
            "biases", "act_fn", "final_norm", "n_outputs", "reads", "positions", "token_names",
            "adaptive_temperature", "attention_norm", "rotary_dim", "rotary_base",
            "rotary_adjacent_pairs", "n_key_value_heads", "qk_norm", "attention_scale", "gated_mlp",
            "tied_embeddings",
        }
    )  # fmt: skip

    n_letters: int = Field(default=3, ge=1, le=MAX_LETTERS)
    task: GivenTask = ContainsAll()

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
    n_positions: int = Field(
        default=0, ge=0, le=65536, description="tokens there are positions for; 0: no positions"
    )
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
    positions: Literal["learned", "sinusoidal", "rotary", "alibi", "shortformer"] = Field(
        default="learned",
        description="learned, sinusoidal: added to embeddings; shortformer: learned, added to what "
        "queries and keys read; rotary: queries and keys are turned; alibi: scores fall with the "
        "distance",
    )
    token_names: tuple[str, ...] = Field(
        default=(), description="what the letters stand for, one name each"
    )
    adaptive_temperature: bool = Field(
        default=False, description="scores grow with the entropy of the attention they would give"
    )
    attention_norm: Literal["off", "rms", "layer"] = Field(
        default="off", description="a norm after attention, of what it adds"
    )
    rotary_dim: int = Field(
        default=0, ge=0, description="components of a head that are turned; 0: all of them"
    )
    rotary_base: float = Field(default=10_000.0, gt=0)
    rotary_adjacent_pairs: bool = Field(
        default=False, description="components 2i and 2i + 1 turn together, not i and i + half"
    )
    n_key_value_heads: int = Field(
        default=0, ge=0, description="heads share keys and values in groups; 0: each has its own"
    )
    qk_norm: Literal["off", "rms", "rms_pre"] = Field(
        default="off", description="an RMS norm of each query and key; _pre: without a scale"
    )
    attention_scale: float = Field(
        default=0.0,
        ge=0,
        le=1e6,
        description="what scores are divided by, from 1e-6 on; 0: the root of d_head",
    )
    gated_mlp: bool = Field(
        default=False, description="SwiGLU (silu) or GeGLU (gelu): act(x W_gate) times x W_in"
    )
    tied_embeddings: bool = Field(
        default=False, description="output i is read along letter i's embedding: no W_U"
    )

    @property
    def alphabet(self) -> Alphabet:
        """The letters of its strings."""
        return Alphabet(self.n_letters)

    @property
    def question(self) -> str:
        """What is decided, and what its letters stand for where they have names of their own."""
        asked = self.task.describe()
        named = list(zip(self.alphabet.letters, self.token_names, strict=False))
        shown = [f"{letter} is {name}" for letter, name in named]
        if len(named) > _LEGEND:  # a sentence, not a table
            shown = [*shown[: _LEGEND - 1], "...", shown[-1]]
        return f"{asked} ({', '.join(shown)})" if shown else asked

    @property
    def called(self) -> tuple[str, ...]:
        """What each token is called, in token order: by its letter, or by a name of its own."""
        special = self.alphabet.token_names[:FIRST_LETTER]
        return (*special, *(self.token_names or self.alphabet.letters))

    @property
    def has_attention(self) -> bool:
        """Whether there are heads."""
        return self.n_heads > 0

    @property
    def has_mlp(self) -> bool:
        """Whether there are neurons."""
        return self.d_mlp > 0

    @property
    def has_positions(self) -> bool:
        """Whether it has positions."""
        return self.n_positions > 0

    @property
    def learned_positions(self) -> bool:
        """Whether there is a learned position table, `W_pos`."""
        return self.has_positions and self.positions in ("learned", "shortformer")

    @property
    def added_positions(self) -> bool:
        """Whether positions are added to embeddings."""
        return self.has_positions and self.positions in ("learned", "sinusoidal")

    @property
    def turned(self) -> int:
        """How many components of a query or key rotary positions turn, from the first on."""
        return self.rotary_dim or self.d_head

    @property
    def kv_heads(self) -> int:
        """How many heads have keys and values of their own."""
        return self.n_key_value_heads or self.n_heads

    @property
    def grouped(self) -> bool:
        """Whether several heads share keys and values."""
        return self.kv_heads < self.n_heads

    @property
    def score_divisor(self) -> float:
        """What scores are divided by: exact where it is stated, a root in float64 where not."""
        return self.attention_scale or math.sqrt(self.d_head)

    @property
    def has_norm(self) -> bool:
        """Whether it has norms."""
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
        """Whether attention is causal."""
        return self.reads != "first"

    @property
    def has_cls(self) -> bool:
        """Whether a CLS token reads the answer."""
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
