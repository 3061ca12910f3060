"""Parts of a model that an intervention changes, and edges from one part to another.

The notation names layers only if there are several:

    head0                   what a head returns               (hook_z)
    head0.query             its query                         (hook_q)
    head0.key[c]            the key it gives the letter c     (hook_k)
    head0.value[c]          the value it gives the letter c   (hook_v)
    head0.pattern           its attention weights             (hook_pattern)
    neuron1                 a neuron, after its activation    (mlp.hook_post)
    mlp                     what the whole MLP adds           (hook_mlp_out)
    attn                    what all heads add                (hook_attn_out)
    resid_pre               the residual stream; resid_mid, resid_post
    head0.score             its scores, before the softmax    (hook_attn_scores)
    layer1.head0            a head of a later layer
    head0@0                 the same, only at position 0: CLS (of a compressed string, 1 is a, ...)
    head0.pattern@0<-3      only how position 0 looks at position 3; @<-3 is how all do
    head0->neuron1          an edge: what this neuron receives from that head
    embed->logit            an edge: what the read-out receives from the embedding
    layer0.head0->layer1.head1.key
    mlp->layer1.mlp         an edge between whole MLPs

A direction of the residual stream has no short name: `Direction("resid_post", 0, vector)`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from tsc_interp.errors import UsageError

Kind = Literal[
    "embed", "resid_pre", "resid_mid", "resid_post", "attn", "head", "query", "key", "value",
    "score", "pattern", "neuron", "mlp", "logit",
]  # fmt: skip
_IN_HEAD = ("query", "key", "value", "score", "pattern")
_HOOKS: dict[str, str] = {
    "embed": "hook_embed",
    "head": "blocks.{}.attn.hook_z",
    "query": "blocks.{}.attn.hook_q",
    "key": "blocks.{}.attn.hook_k",
    "value": "blocks.{}.attn.hook_v",
    "score": "blocks.{}.attn.hook_attn_scores",
    "pattern": "blocks.{}.attn.hook_pattern",
    "attn": "blocks.{}.hook_attn_out",
    "resid_pre": "blocks.{}.hook_resid_pre",
    "resid_mid": "blocks.{}.hook_resid_mid",
    "resid_post": "blocks.{}.hook_resid_post",
    "neuron": "blocks.{}.mlp.hook_post",
    "mlp": "blocks.{}.hook_mlp_out",
}
_NOTATION = re.compile(
    r"(?:layer(?P<layer>\d+)\.)?"
    r"(?:head(?P<head>\d+)(?:\.(?P<of>query|key|value|score|pattern))?(?:\[(?P<letter>.+?)\])?"
    r"|neuron(?P<neuron>\d+)|(?P<whole>mlp|attn|resid_(?:pre|mid|post)|embed|logit))"
    r"(?:@(?P<position>\d+)?(?:<-(?P<seen>\d+))?)?"
)


@dataclass(frozen=True)
class Part:
    """One part of the model, at every position unless a letter is named."""

    kind: Kind
    layer: int = 0
    index: int | None = None
    """Which head or neuron."""
    letter: str | None = None
    """Only keys, values and queries: at this letter's positions."""
    position: int | None = None
    """Only at this position of the input."""
    seen: int | None = None
    """Only scores and patterns: what they say of this position."""

    def __post_init__(self) -> None:
        if self.seen is not None and self.kind not in ("score", "pattern"):
            raise UsageError(f"{self}: only a score or a pattern is about a second position")
        if self.position is not None and self.kind in ("embed", "logit"):
            raise UsageError(f"{self}: name no position of the {self.kind}")

    @classmethod
    def parse(cls, text: str) -> Part:
        """Return the part written as `head0.value[c]`."""
        match = _NOTATION.fullmatch(text.strip().replace(" ", ""))
        if match is None:
            raise UsageError(
                f"{text!r} names no part of a model; parts are written like head0, head0.query, "
                "head0.key[c], head0.value[c], head0.pattern, neuron1, mlp, layer1.head0"
            )
        layer = int(match["layer"] or 0)
        at: dict[str, Any] = {
            name: int(match[name]) for name in ("position", "seen") if match[name]
        }
        whole: Any = match["whole"]
        if whole:
            if match["layer"] and whole in ("embed", "logit"):
                raise UsageError(f"{text!r}: there is one {whole}, not one per layer")
            return cls(whole, layer, **at)
        if match["neuron"] is not None:
            return cls("neuron", layer, int(match["neuron"]), **at)
        of: Any = match["of"] or "head"
        if match["letter"] and of not in ("key", "value"):
            raise UsageError(f"{text!r}: a letter has a key and a value in a head, and no {of}")
        return cls(of, layer, int(match["head"]), match["letter"], **at)

    @property
    def hook(self) -> str:
        """Return the name of the hook that this part is read at."""
        if self.kind == "logit":
            raise UsageError("the logit is what an intervention is judged by; it cannot be changed")
        return _HOOKS[self.kind].format(self.layer)

    def check(self, cfg: Any) -> None:
        """Raise an error if the model has no such part."""
        if self.kind in ("embed", "logit"):
            return
        if not 0 <= self.layer < cfg.n_layers:
            raise UsageError(f"{self}: the model has {_many(cfg.n_layers, 'layer')}")
        if self.kind in ("neuron", "mlp"):
            if not _neurons(cfg):
                raise UsageError(f"{self}: the model has no MLP")
            most, word = cfg.d_mlp, "neuron"
        elif self.kind in ("attn", "resid_mid") and not cfg.n_heads:
            raise UsageError(f"{self}: the model has no attention")
        else:
            most, word = cfg.n_heads, "head"
        if self.index is not None and not 0 <= self.index < most:
            raise UsageError(f"{self}: the model has {_many(most, word)} per layer, from {word} 0")

    def __str__(self) -> str:
        where = f"layer{self.layer}." if self.layer else ""
        seen = "" if self.seen is None else f"<-{self.seen}"
        at = f"@{'' if self.position is None else self.position}{seen}"
        at = "" if at == "@" else at
        if self.kind in _IN_HEAD:
            letter = f"[{self.letter}]" if self.letter else ""
            return f"{where}head{self.index}.{self.kind}{letter}{at}"
        return f"{where}{self.kind}{'' if self.index is None else self.index}{at}"


@dataclass(frozen=True)
class Edge:
    """What one part receives from another: `source` writes, `target` reads."""

    source: Part
    target: Part

    def __post_init__(self) -> None:
        if self.source.kind not in ("embed", "head", "neuron", "mlp"):
            raise UsageError(f"{self}: edges begin at embed, a head, a neuron or mlp")
        if self.target.kind not in ("query", "key", "value", "neuron", "mlp", "logit"):
            raise UsageError(
                f"{self}: edges end at a head's query, key or value, at a neuron, mlp or logit"
            )
        if self.target.letter or self.source.position is not None:
            raise UsageError(
                f"{self}: an edge is read at every position, or at one: head0->neuron1@0"
            )
        if not _before(self.source, self.target):
            raise UsageError(f"{self}: {self.target} is computed before {self.source}")

    def check(self, cfg: Any) -> None:
        """Raise an error if the model has no such edge."""
        self.source.check(cfg)
        self.target.check(cfg)

    def __str__(self) -> str:
        return f"{self.source}->{self.target}"


@dataclass(frozen=True)
class Direction:
    """The component of the residual stream along a vector, where it passes a hook."""

    site: Literal["resid_pre", "resid_mid", "resid_post"]
    layer: int
    vector: tuple[float, ...]

    def __post_init__(self) -> None:
        size = float(np.linalg.norm(self.vector))
        if not np.isfinite(size) or size == 0:
            raise UsageError("a direction needs a vector of finite, non-zero length")

    @property
    def unit(self) -> Any:
        """The direction, scaled to length one."""
        return np.asarray(self.vector) / np.linalg.norm(self.vector)

    @property
    def hook(self) -> str:
        """Return the name of the hook that this direction is read at."""
        return f"blocks.{self.layer}.hook_{self.site}"

    def check(self, cfg: Any) -> None:
        """Raise an error if the direction does not fit the model."""
        if not 0 <= self.layer < cfg.n_layers:
            raise UsageError(f"{self}: the model has {_many(cfg.n_layers, 'layer')}")
        if len(self.vector) != cfg.d_model:
            raise UsageError(
                f"{self}: a vector of {len(self.vector)} numbers, but d_model is {cfg.d_model}"
            )

    def __str__(self) -> str:
        return f"a direction of layer {self.layer}'s {self.site}"


Place = Part | Edge | Direction


def place(text: str | Place) -> Place:
    """Return the part or edge that a notation names; objects are returned unchanged.

    Example:
        >>> str(place("head0->neuron1"))
        'head0->neuron1'
    """
    if not isinstance(text, str):
        return text
    source, arrow, target = text.replace("→", "->").partition("->")
    return Edge(Part.parse(source), Part.parse(target)) if arrow else Part.parse(source)


def writers(config: Any) -> Iterator[Part]:
    """Yield the parts that add to the residual stream, in order."""
    yield Part("embed")
    for layer in range(config.n_layers):
        yield from (Part("head", layer, head) for head in range(config.n_heads))
        yield from (Part("neuron", layer, neuron) for neuron in range(_neurons(config)))


def readers(config: Any) -> Iterator[Part]:
    """Yield the parts that read the residual stream, in order."""
    for layer in range(config.n_layers):
        for head in range(config.n_heads):
            yield from (Part(kind, layer, head) for kind in ("query", "key", "value"))
        yield from (Part("neuron", layer, neuron) for neuron in range(_neurons(config)))
    yield Part("logit")


def edges(config: Any) -> Iterator[Edge]:
    """Yield every edge from a writing part to a later reading part."""
    for target in readers(config):
        for source in writers(config):
            if _before(source, target):
                yield Edge(source, target)


def _before(source: Part, target: Part) -> bool:
    if source.kind == "embed" or target.kind == "logit":
        return True
    if source.layer != target.layer:
        return source.layer < target.layer
    return source.kind == "head" and target.kind in ("neuron", "mlp")


def _neurons(cfg: Any) -> int:
    """In each layer; TransformerLens's configs have a `d_mlp` also where there is no MLP."""
    return 0 if getattr(cfg, "attn_only", False) else int(cfg.d_mlp)


def _many(count: int, word: str) -> str:
    return f"no {word}" if not count else f"{count} {word}{'s' if count > 1 else ''}"
