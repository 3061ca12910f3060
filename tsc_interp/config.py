"""What a classifier is: its shape, its options and its task, checked when it is made."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from tsc_interp.frozen import FrozenConfig
from tsc_interp.strings import MAX_LETTERS, Alphabet
from tsc_interp.task import ContainsAll, Task


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
