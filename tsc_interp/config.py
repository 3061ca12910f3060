"""What a classifier is: its shape, its options and its task, checked when it is made.

Frozen, and equal configurations have equal JSON, so a configuration can be the key of a run. Every
value that pydantic refuses is turned into a `ConfigError` that names the field, what was given and
what is allowed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from tsc_interp.errors import ConfigError, shorten
from tsc_interp.strings import MAX_LETTERS, Alphabet
from tsc_interp.task import ContainsAll, Task


class FrozenConfig(BaseModel):
    """A frozen, strict pydantic model whose complaints are `ConfigError`s."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    def __init__(self, /, **data: Any) -> None:
        try:
            super().__init__(**data)
        except ValidationError as error:
            raise ConfigError(_explain(type(self), error)) from None

    @classmethod
    def from_json(cls, text: str) -> Self:
        try:
            data = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ConfigError(f"{cls.__name__} is not valid JSON: {error}") from None
        return cls.from_dict(data)

    @classmethod
    def from_dict(cls, data: Any) -> Self:
        if not isinstance(data, Mapping):
            raise ConfigError(f"{cls.__name__} must be an object of options, got {shorten(data)}")
        return cls(**{str(key): value for key, value in data.items()})

    def to_dict(self) -> dict[str, Any]:
        return self.model_dump(mode="json")

    def to_json(self) -> str:
        """Canonical: sorted keys, no spaces, defaults written out."""
        return json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"))

    def key(self) -> str:
        """A short content hash: the same for equal configurations, on every machine."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()[:16]

    def replace(self, **changes: Any) -> Self:
        """A changed copy, checked like a new one."""
        return type(self)(
            **{**{name: getattr(self, name) for name in type(self).model_fields}, **changes}
        )


class ClassifierConfig(FrozenConfig):
    """One transformer sequence classifier. The defaults are the walk-through model."""

    n_letters: int = Field(default=3, ge=1, le=MAX_LETTERS)
    task: Task = ContainsAll()

    n_layers: int = Field(default=1, ge=1, le=64)
    d_model: int = Field(default=2, ge=1, le=4096)
    n_heads: int = Field(default=2, ge=0, le=1024, description="0: no attention")
    d_head: int = Field(default=1, ge=1, le=4096)
    d_mlp: int = Field(default=2, ge=0, le=16384, description="0: no MLP")

    norm: Literal["off", "rms", "layer"] = "off"
    norm_eps: float = Field(default=1e-5, gt=0)
    dropout: float = Field(default=0.0, ge=0.0, lt=1.0)
    attend_cls: bool = False
    n_positions: int = Field(default=0, ge=0, le=65536, description="learned positions; 0: none")
    score_scale: Literal["sqrt_d_head", "sqrt_d_head_log_n"] = "sqrt_d_head"

    embedding_init: Literal["default", "linear_like"] = "default"
    attention_init: Literal["default", "output_fan_out"] = "default"
    mlp_init: Literal["default", "output_fan_out"] = "default"

    @field_validator("task", mode="before")
    @classmethod
    def _task_by_name(cls, task: object) -> object:
        """`"majority"` is the task of that kind with its defaults."""
        return {"kind": task.replace("-", "_")} if isinstance(task, str) else task

    @model_validator(mode="after")
    def _task_fits(self) -> Self:
        missing = sorted(set(self.task.needs) - set(self.alphabet.letters))
        if missing:
            raise ValueError(
                f"the task needs the letters {''.join(missing)}, "
                f"but the alphabet is {self.alphabet.letters} (n_letters = {self.n_letters})"
            )
        return self

    @property
    def alphabet(self) -> Alphabet:
        return Alphabet(self.n_letters)

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
    def log_n(self) -> bool:
        """Whether scores are multiplied by the log of the number of letters (CLS not counted)."""
        return self.score_scale == "sqrt_d_head_log_n"

    def weight_shapes(self) -> dict[str, tuple[int, ...]]:
        """Every weight's name and shape, HookedTransformer's, in the order data flows."""
        d, h, k, m = self.d_model, self.n_heads, self.d_head, self.d_mlp
        shapes: dict[str, tuple[int, ...]] = {"embed.W_E": (self.alphabet.vocab_size, d)}
        if self.has_positions:
            shapes["pos_embed.W_pos"] = (self.n_positions, d)
        for layer in range(self.n_layers):
            block = f"blocks.{layer}"
            if self.has_attention:
                shapes |= self._norm_shapes(f"{block}.ln1")
                shapes |= {f"{block}.attn.W_{name}": (h, d, k) for name in "QKV"}
                shapes[f"{block}.attn.W_O"] = (h, k, d)
            if self.has_mlp:
                shapes |= self._norm_shapes(f"{block}.ln2")
                shapes[f"{block}.mlp.W_in"] = (d, m)
                shapes[f"{block}.mlp.W_out"] = (m, d)
        shapes["unembed.W_U"] = (d, 1)
        return shapes

    def _norm_shapes(self, name: str) -> dict[str, tuple[int, ...]]:
        kept = {"off": (), "rms": ("w",), "layer": ("w", "b")}[self.norm]
        return {f"{name}.{part}": (self.d_model,) for part in kept}


def _explain(model: type[BaseModel], error: ValidationError) -> str:
    """pydantic's list of problems as one readable sentence each, with what is allowed."""
    sentences = []
    problems = error.errors()
    for problem in problems[:5]:
        field = ".".join(str(part) for part in problem["loc"])
        if problem["type"] == "extra_forbidden":
            allowed = ", ".join(sorted(model.model_fields))
            sentences.append(f"unknown option {shorten(field)}; the options are: {allowed}")
        elif not field:
            sentences.append(problem["msg"].removeprefix("Value error, "))
        else:
            message = problem["msg"].removeprefix("Value error, ")
            sentences.append(
                f"{field} = {shorten(problem['input'])}: {message[0].lower()}{message[1:]}"
            )
    if len(problems) > 5:
        sentences.append(f"and {len(problems) - 5} more")
    return f"{model.__name__}: " + "; ".join(sentences)
