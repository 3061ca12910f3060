"""What a probe reads from a model's attention: scores, weights and values for one query per row.

Scores are recomputed from queries and keys (`scores.py`), without multiplicities, because a
TransformerBridge's own `hook_attn_scores` cannot be relied on, and checked against `hook_pattern`.
Of very many tokens only those are read that get the most weight somewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from einops import einsum, rearrange, reduce
from numpy.typing import NDArray

from tsc_interp.errors import UnsupportedError
from tsc_interp.probes.inputs import Floats, Inputs, Pass, chosen_layers, weight
from tsc_interp.probes.scores import query_scores, same_for_heads
from tsc_interp.probes.standing_out import under_chance
from tsc_interp.results.arrays import LabeledArray

MOST_TOKENS = 16
"""Tokens of another model that are compared; every table and figure grows with them."""
MOST_NUMBERS = 20_000
"""Vectors of a model with more numbers than this stay in its cache."""
SAME = 1e-5
"""Relative difference below which two readings of one token count as equal (float32 models)."""
READS = tuple(f"attn.hook_{part}" for part in ("q", "k", "v", "z", "pattern", "rot_q", "rot_k"))


@dataclass(frozen=True)
class Layer:
    """One attention layer as the query sees it, averaged over each token's occurrences."""

    index: int
    scores: Floats
    """`[head token]`: q·k / scale."""
    values: Floats
    """`[head token d_head]`."""
    weights: Floats
    """`[row head token]`: attention weight, summed over the token's copies in that row."""
    head_values: Floats
    """`[row head d_head]`: what each head returns to the query."""
    output: Floats
    """`[head d_head d_model]`: W_O."""
    score_spread: Floats
    """`[head token]`: the largest deviation of one occurrence's score from the average."""
    value_spread: float
    """The largest deviation of one occurrence's value from its token's average."""
    precision: float
    """Relative difference below which two readings count as equal, by the model's format."""

    @property
    def spread(self) -> float:
        """The largest deviation of one occurrence from its token's average; 0 when all equal."""
        return max(float(self.score_spread.max(initial=0.0)), self.value_spread)

    @property
    def varies(self) -> bool:
        return self.spread > self.precision * max(1.0, float(np.abs(self.values).max(initial=0.0)))

    def readout(self, direction: Floats) -> Floats:
        """`[head token]`: what the read-out gains if the head gives this token all its weight."""
        return einsum(
            self.values, self.output @ direction, "head token d_head, head d_head -> head token"
        )

    def lead(self) -> tuple[Floats, Floats]:
        """`[head]`: the highest score less the next one; and the larger of these two's spreads."""
        if self.scores.shape[1] < 2:
            return np.zeros(len(self.scores)), np.zeros(len(self.scores))
        order = np.argsort(-self.scores, axis=1, kind="stable")[:, :2]
        rows = np.arange(len(self.scores))[:, None]
        best, spread = self.scores[rows, order], self.score_spread[rows, order]
        return best[:, 0] - best[:, 1], spread.max(axis=1)


@dataclass(frozen=True)
class Reading:
    rows: tuple[str, ...]
    tokens: tuple[str, ...]
    layers: tuple[Layer, ...]
    n_layers: int
    needs: str | None
    """The letters the task names; None for a model without a task."""
    direction: Floats | None
    """The read-out, a vector in residual space: given, or our classifier's own."""
    not_shown: int = 0
    """How many tokens were seen and not read."""
    padding: tuple[str, float] | None = None
    """A token that looks like padding, and the most weight a head gives it."""

    @property
    def heads(self) -> tuple[str, ...]:
        return tuple(str(head) for head in range(self.layers[0].scores.shape[0]))

    @property
    def layer_names(self) -> tuple[str, ...]:
        return tuple(str(layer.index) for layer in self.layers)

    def certainty(self, chance: Sequence[Reading] = ()) -> dict[str, Any]:
        """For a result: how far ahead each head's token is, and what chance would give."""
        if self.needs is not None and not any(layer.varies for layer in self.layers):
            return {}
        lead, doubt = np.stack([layer.lead() for layer in self.layers], axis=1)
        axes = {"layer": self.layer_names, "head": self.heads}
        by_chance = [layer.lead()[0] for other in chance for layer in other.layers]
        return {
            "lead": LabeledArray.of(lead, **axes),
            "doubt": LabeledArray.of(doubt, **axes),
            "chance": tuple(np.concatenate(by_chance).tolist()) if by_chance else None,
        }

    def caveats(self) -> tuple[str, ...]:
        """What averaging over occurrences hides and what the strings do not show, in words."""
        varying = [layer for layer in self.layers if layer.varies]
        rows = "rows" if self.needs is None else "strings"
        noted = [
            f"layer {layer.index}: a token's scores and values differ between its occurrences "
            f"(by up to {layer.spread:.3g}), so its average over the given {rows} stands for it"
            for layer in (varying[:2] if len(varying) > 3 else varying)
        ]
        if len(varying) > 3:
            noted.append(
                f"so they do in {len(varying) - 2} more layers (by up to "
                f"{max(layer.spread for layer in varying):.3g})"
            )
        if self.not_shown:
            total = self.not_shown + len(self.tokens)
            noted.append(
                f"of the {total} tokens the query sees, the {len(self.tokens)} that get the most "
                "weight in some head are compared with each other"
            )
        if self.padding is not None:
            name, weight = self.padding
            noted.append(
                f"`{name}` looks like padding and gets up to {weight:.0%} of a head's weight: pass "
                "attention_mask (1 for tokens, 0 for padding) if it is"
            )
        unseen = [letter for letter in self.needs or "" if letter not in self.tokens]
        if unseen:
            noted.append(f"no given string has {' or '.join(unseen)}, so who reads it is not known")
        return tuple(noted)


def read(inputs: Inputs, layer: int | None = None) -> Reading:
    """Every attention layer (or just `layer`) as each row's query sees it."""
    return inputs.once(("attention", layer), lambda: _read(inputs, layer))


def read_by_chance(inputs: Inputs, layer: int | None = None) -> list[Reading]:
    """The same of shuffled weights, where the model has no task and chance has to be known."""
    if read(inputs, layer).needs is not None:
        return []
    return inputs.once(
        ("attention by chance", layer),
        lambda: under_chance(inputs.model, lambda: _read(inputs.fresh(), layer)),
    )


def _read(inputs: Inputs, layer: int | None) -> Reading:
    model, run = inputs.model, inputs.run(*READS)
    if run.config is not None and not run.config.has_attention:
        raise UnsupportedError("this model has no attention (n_heads = 0), so no head to look at")
    chosen = chosen_layers(model, layer)
    readable = {index: _readable(run, index) for index in chosen}
    seen, shown = _shown(run, readable)
    layers = tuple(
        _layer(model, run, index, _members(run.tokens, readable[index], shown)) for index in chosen
    )
    padding = None
    if run.padding is not None and (most := run.padding_weight(chosen)) > 0:
        padding = run.names([run.padding])[0], most
    tokens = run.names(shown)
    if run.config is not None:  # by letter, as tasks name them
        tokens = tuple(run.config.alphabet.token_names[token] for token in shown)
    return Reading(
        run.rows,
        tokens,
        layers,
        n_layers=model.cfg.n_layers,
        needs=None if run.config is None else run.config.task.needs,
        direction=inputs.direction,
        not_shown=seen - len(shown),
        padding=padding,
    )


def keep_small(layers: Sequence[Floats], *, always: bool, **labels: Any) -> LabeledArray | None:
    """The layers' numbers with their labels, or None where they would fill megabytes."""
    if not always and sum(part.size for part in layers) > MOST_NUMBERS:
        return None
    return LabeledArray.of(np.stack(layers), **labels)


def _members(
    tokens: NDArray[np.int64], readable: NDArray[np.bool_], shown: NDArray[np.int64]
) -> Floats:
    return np.asarray(readable[:, :, None] & (tokens[:, :, None] == shown), dtype=np.float64)


def _layer(model: Any, run: Pass, index: int, members: Floats) -> Layer:
    """`members[row, key, token]` is 1 where the key is an occurrence of the token, else 0."""
    name = f"blocks.{index}.attn"
    scores, pattern = query_scores(model, run, index), run.pattern(index)
    output = weight(model, index, "attn", "W_O")
    if output is None:
        raise UnsupportedError(f"layer {index} of this model has no W_O, so what heads write is "
                               "not known")  # fmt: skip
    v = same_for_heads(run.activation(f"{name}.hook_v"), scores.shape[1])
    seen = reduce(members, "row key token -> token", "sum")
    mean_scores = einsum(scores, members, "row head key, row key token -> head token") / seen
    total_values = einsum(v, members, "row key head d_head, row key token -> head token d_head")
    mean_values = total_values / rearrange(seen, "token -> token 1")
    row, key, token = np.nonzero(members)
    spread = np.zeros_like(mean_scores)
    apart = np.abs(scores[row, :, key] - mean_scores[:, token].T)
    np.maximum.at(spread.T, token, apart)
    of_values = np.abs(
        v[row, key] - rearrange(mean_values[:, token], "head at d_head -> at head d_head")
    )
    return Layer(
        index,
        mean_scores,
        mean_values,
        weights=einsum(pattern, members, "row head key, row key token -> row head token"),
        head_values=run.at_query(f"{name}.hook_z"),
        output=output,
        score_spread=spread,
        value_spread=float(of_values.max(initial=0.0)),
        precision=max(SAME, 4 * run.epsilon(f"{name}.hook_v")),
    )


def _readable(run: Pass, layer: int) -> NDArray[np.bool_]:
    """`[row key]`: which keys the query can see. Masked and future keys have no weight anywhere."""
    pattern = run.pattern(layer)
    if run.config is None:
        given = float(pattern[~np.broadcast_to(run.visible[:, None], pattern.shape)].max(initial=0))
        if given > 0:
            raise UnsupportedError(
                f"layer {layer} gives masked positions up to {given:.2%} of a head's weight: this "
                "model does not heed attention_mask, so leave the padding out"
            )
        return np.asarray((pattern > 0).any(axis=1))
    return run.visible if layer == 0 else run.visible & (run.multiplicity > 0)


def _shown(run: Pass, readable: dict[int, NDArray[np.bool_]]) -> tuple[int, NDArray[np.int64]]:
    """How many tokens are seen in every layer, and those to read, by number.

    Of too many, those with the largest mean weight per occurrence in any head of any layer.
    """
    seen = [set(run.tokens[visible].tolist()) for visible in readable.values()]
    shown = np.array(sorted(set.intersection(*seen)), dtype=np.int64)
    if run.config is not None or len(shown) <= MOST_TOKENS:
        return len(shown), shown
    most = np.zeros(len(shown))
    for index, visible in readable.items():
        members = _members(run.tokens, visible, shown)
        total = einsum(run.pattern(index), members, "row head key, row key token -> head token")
        most = np.maximum(most, (total / reduce(members, "row key token -> token", "sum")).max(0))
    kept = np.argsort(-most, kind="stable")[:MOST_TOKENS]
    return len(shown), np.sort(shown[kept])
