"""What do the weights of each head say, before any input? OV and QK circuits, and composition.

A head's weights make two maps of the residual stream: `W_OV = W_V W_O`, what it writes for what it
attends to, and `W_QK = W_Q W_K^T`, how it scores. Read from tokens (rows of `W_E`), or for scores
also from positions (rows of `W_pos`), and to the outputs (`W_U`), they are tables:

    OV    E W_V W_O W_U                             attending to a token adds this to each output
    QK    (E W_Q + b_Q) (E W_K + b_K)^T / scale     the score a token gives another

The mean over outputs is subtracted from OV, since it changes no answer. These are direct paths. In
the first layer they are the whole score, except for terms of tokens with positions; in later
layers the outputs of earlier layers are added. A norm before attention is folded in without its
scale (gain and, for a LayerNorm, centring), so entries compare within a head.

Composition of an earlier head 1 with a later head 2 (Elhage et al., 2021), in Frobenius norms:

    Q    |W_OV1 W_QK2| / (|W_OV1| |W_QK2|)
    K    |W_OV1 W_QK2^T| / (|W_OV1| |W_QK2|)
    V    |W_OV1 W_OV2| / (|W_OV1| |W_OV2|)

with the weights as they are, as TransformerLens computes it, beside what pairs of heads with
shuffled weights give. Reads weights only; the strings say which tokens and positions to show.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from math import isqrt
from typing import Annotated, Any, ClassVar

import numpy as np

from tsc_interp.errors import UnsupportedError
from tsc_interp.probes.inputs import Floats, Inputs, as_array, weight
from tsc_interp.probes.probe import probe
from tsc_interp.probes.scores import attention_scale
from tsc_interp.probes.wording import capital
from tsc_interp.results.base import (
    Cell,
    Finding,
    LabeledArray,
    Number,
    ProbeResult,
    Table,
    named_heads,
    that_hold,
)
from tsc_interp.results.views import Heat, Rows, shown
from tsc_interp.strings import PAD

MOST_TOKENS = 16
MOST_POSITIONS = 64
MOST_SCORES = 120_000
"""Of positions with positions, over all heads: of many heads fewer positions are shown."""
MOST_OUTPUTS = 16
MOST_HEADS = 48
DRAWS = 8
"""Times the weights are shuffled for what chance gives."""
MOST_PAIRS = 60
MOST_TOLD = 4
_HEADS = ("layer", "head")
_MAPS = (
    "One table per head, from its weights alone, on one scale. Vermillion is more, blue is less."
)


class CircuitsWeightsResult(ProbeResult):
    """Maps of each head's weights, and how heads compose."""

    probe: ClassVar[str] = "circuits-weights"

    n_layers: int
    ov_token: Annotated[
        LabeledArray,
        Heat("What attending to a token adds to the outputs", _MAPS, panels=_HEADS, table=False),
    ]
    """`[layer head token output]`, less the mean over the outputs."""
    qk_token: Annotated[
        LabeledArray, Heat("How tokens score tokens", _MAPS, panels=_HEADS, table=False)
    ]
    """`[layer head from to]`: the score a token gives another."""
    qk_position: Annotated[
        LabeledArray | None,
        Heat("How positions score positions", _MAPS, panels=_HEADS, table=False),
    ]
    """`[layer head query key]`; None without a table of positions."""
    composition: LabeledArray | None
    """`[by from to]`: Q, K and V composition of an earlier head with a later one, 0 to 1."""
    chance: Number | None
    """Nine in ten pairs of heads with shuffled weights have a lower score."""
    copies: bool
    """Whether outputs are tokens, so that a head can copy what it attends to."""

    @property
    def heads(self) -> list[tuple[int, int, str]]:
        return named_heads(self.n_layers, self.qk_token)

    def range_of(self, scores: LabeledArray | None, i: int, h: int) -> float:
        """How far apart the scores of two keys are at most, for one query."""
        return 0.0 if scores is None else float(np.ptp(scores.array[i, h], axis=-1).max())

    def copied(self, i: int, h: int) -> int:
        """For how many tokens attending to the token raises its own logit most."""
        tokens, outputs = self.ov_token.labels["token"], self.ov_token.labels["output"]
        best = self.ov_token.array[i, h].argmax(-1)
        return sum(token == outputs[at] for token, at in zip(tokens, best, strict=True))

    def pairs(self) -> list[tuple[str, str, str, float]]:
        """Kind, earlier head, later head, score: the largest first."""
        if self.composition is None:
            return []
        labels = self.composition.labels
        pairs = [
            (labels["by"][b], labels["from"][f], labels["to"][t], float(score))
            for (b, f, t), score in np.ndenumerate(self.composition.array)
            if score > 0
        ]
        return sorted(pairs, key=lambda pair: -pair[3])

    @shown(
        Heat(
            "How heads compose",
            "How much of what the earlier head writes the later one's queries, keys or values can "
            "read. Nine in ten scores of shuffled weights are below {result.chance:.3f}.",
            share=True, form=".2f", most=24, name="composition", table=False,
        )
    )  # fmt: skip
    def composing(self) -> LabeledArray | None:
        """`[heads by]`: the pairs of an earlier and a later head."""
        if self.composition is None:
            return None
        scores, labels = self.composition.array, self.composition.labels
        used = [(f, t) for f, t in np.ndindex(scores.shape[1:]) if scores[:, f, t].any()]
        if not used:
            return None
        names = [f"{labels['from'][f]} → {labels['to'][t]}" for f, t in used]
        cells = np.array([scores[:, f, t] for f, t in used])
        return LabeledArray.of(cells, heads=names, by=("queries", "keys", "values"))

    @shown(Rows("How much each head's weights tell apart"))
    def ranges(self) -> Table:
        columns = ("head", "scores of tokens differ by", "scores of positions differ by",
                   "largest effect on an output")  # fmt: skip
        rows = (
            (name, self.range_of(self.qk_token, i, h), self.range_of(self.qk_position, i, h),
             float(np.abs(self.ov_token.array[i, h]).max()))
            for i, h, name in self.heads
        )  # fmt: skip
        return Table.from_rows("How much each head's weights tell apart", columns, rows)

    @shown(Rows("How heads compose"))
    def strongest(self) -> Table:
        columns = ("through", "from", "to", "composition")
        return Table.from_rows("How heads compose", columns, self.pairs()[:MOST_PAIRS])

    def conclude(self) -> Iterator[Finding]:
        if self.chance is not None:
            yield self._compositions(self.chance)
        yield from self._copying()
        ranges = [
            (name, self.range_of(self.qk_token, i, h), self.range_of(self.qk_position, i, h))
            for i, h, name in self.heads
        ]
        ranges.sort(key=lambda head_ranges: -max(head_ranges[1:]))
        for name, token, place in ranges[:MOST_TOLD]:
            numbers: dict[str, Cell] = {"tokens": token}
            text = f"{capital(name)}'s scores differ by up to {token:.2f} from token to token"
            if self.qk_position is not None:
                text += f" and by up to {place:.2f} from position to position"
                numbers["positions"] = place
            yield Finding.of(f"{text}.", numbers, head=name)

    def _compositions(self, chance: float) -> Finding:
        pairs = self.pairs()
        beyond = [pair for pair in pairs if pair[3] > chance]
        text = (
            f"{len(beyond)} of {len(pairs)} composition scores are larger than nine in ten of "
            f"shuffled weights ({chance:.3f})"
        )
        if beyond:
            readings = [f"{to} reads {source} by {by} ({score:.3f})"
                        for by, source, to, score in beyond[:MOST_TOLD]]  # fmt: skip
            text += f"; the largest: {', '.join(readings)}"
        return Finding.of(f"{text}.", {"beyond": len(beyond), "chance": chance})

    def _copying(self) -> Iterator[Finding]:
        count = len(self.ov_token.labels["token"])
        copies = [(name, self.copied(i, h)) for i, h, name in self.heads if self.copies]
        for name, copied in sorted(copies, key=lambda copy: -copy[1])[:MOST_TOLD]:
            if copied > count / 2 and count > 1:
                text = (
                    f"{capital(name)} copies: for {copied} of {count} tokens, attending to the "
                    "token raises its own logit most."
                )
                yield Finding.of(text, {"copied": copied, "tokens": count}, head=name)


@probe(
    CircuitsWeightsResult,
    title="What do the weights say?",
    question="What does each head score and write, read off its weights alone?",
    on_request=True,
    any_model=True,
    accepts=("token_names",),
)
def circuits_weights(inputs: Inputs) -> CircuitsWeightsResult:
    """The tokens of the given strings, the most frequent ones of many, and their positions."""
    model, given = inputs.model, inputs.run("hook_embed")
    if given.config is not None and not given.config.has_attention:
        raise UnsupportedError("this model has no attention (n_heads = 0), so no head to look at")
    # But for padding; of many tokens the most frequent.
    shown = given.visible if given.config is None else given.tokens != PAD
    times = Counter(given.tokens[shown].tolist())
    tokens = sorted(token for token, _ in times.most_common(MOST_TOKENS))
    names = given.names(tokens)
    layers = range(model.cfg.n_layers)
    embed, unembed = _need(model, "W_E")[tokens], _need(model, "W_U")
    copies = unembed.shape[1] == getattr(model.cfg, "d_vocab", None)
    outputs = tokens if copies else range(min(MOST_OUTPUTS, unembed.shape[1]))
    named = names if copies else [str(output) for output in outputs]
    readout = (unembed - unembed.mean(1, keepdims=True))[:, list(outputs)]
    if unembed.shape[1] == 1:
        readout = unembed
    heads = [_weights(model, layer) for layer in layers]
    axes: dict[str, Any] = {"layer": layers, "head": range(len(heads[0]["W_Q"]))}
    places = _places(model, given)

    def qk(rows: Floats) -> Floats:
        scores = []
        for i, w in enumerate(heads):
            read = _folded(model, i, rows)
            q, k = (read @ w[f"W_{part}"] + w[f"b_{part}"][:, None] for part in "QK")
            scores.append(q @ k.transpose(0, 2, 1) / attention_scale(model))
        return np.stack(scores)

    ov = np.stack([_folded(model, i, embed) @ _ov(w) @ readout for i, w in enumerate(heads)])
    composition, chance = _composition(heads)
    return CircuitsWeightsResult(
        not_applicable=_not_applicable(model, given, tokens),
        n_layers=model.cfg.n_layers,
        ov_token=LabeledArray.of(ov, **axes, token=names, output=named),
        qk_token=LabeledArray.of(qk(embed), **axes, **{"from": names, "to": names}),
        qk_position=None if places is None
        else LabeledArray.of(qk(places), **axes, query=range(len(places)), key=range(len(places))),
        composition=composition,
        chance=chance,
        copies=copies,
    )  # fmt: skip


def _need(model: Any, name: str) -> Floats:
    matrix = getattr(model, name, None)
    if matrix is None:
        raise UnsupportedError(f"this model has no {name}, so its weights make no map of tokens")
    return as_array(matrix)


def _places(model: Any, run: Any) -> Floats | None:
    """`[position d_model]`, as far as the strings go; None where the table is not learned."""
    learned = getattr(model, "W_pos", None)
    if learned is None or (run.config is not None and not run.config.n_positions):
        return None
    table = as_array(learned)
    kind = getattr(model.cfg, "positional_embedding_type", "standard")
    if kind not in ("standard", "learned", None) or not table.any():
        return None
    heads = model.cfg.n_layers * model.cfg.n_heads
    return table[: min(run.tokens.shape[1], MOST_POSITIONS, max(8, isqrt(MOST_SCORES // heads)))]


def _weights(model: Any, layer: int) -> dict[str, Floats]:
    """`[head ...]`: heads that share a key or value get a copy each."""
    matrices = {name: weight(model, layer, "attn", name) for name in ("W_Q", "W_K", "W_V", "W_O")}
    known = {name: array for name, array in matrices.items() if array is not None}
    if len(known) < len(matrices):
        lacks = ", ".join(sorted(matrices.keys() - known.keys()))
        raise UnsupportedError(f"layer {layer} of this model has no {lacks}")
    heads = len(known["W_Q"])
    for name, weight_name in (("b_Q", "W_Q"), ("b_K", "W_K")):
        bias = weight(model, layer, "attn", name)
        known[name] = np.zeros(known[weight_name].shape[::2]) if bias is None else bias
    return {
        name: array if len(array) == heads else np.repeat(array, heads // len(array), axis=0)
        for name, array in known.items()
    }


def _folded(model: Any, layer: int, rows: Floats) -> Floats:
    """Rows as attention meets them, but for the scale of a norm."""
    kind = str(getattr(model.cfg, "normalization_type", None) or "")
    if kind.startswith("LN"):
        rows = rows - rows.mean(-1, keepdims=True)
    from tsc_interp.interventions.norms import norm_weights

    gain, _, offset = norm_weights(getattr(model.blocks[layer], "ln1", None))
    return rows if not kind or gain is None else rows * (as_array(gain) + offset)


def _ov(weights: dict[str, Floats]) -> Floats:
    return weights["W_V"] @ weights["W_O"]


def _composition(heads: list[dict[str, Floats]]) -> tuple[LabeledArray | None, float | None]:
    count = sum(len(head["W_Q"]) for head in heads)
    if len(heads) < 2 or count > MOST_HEADS:
        return None, None
    names = [f"layer {i} head {h}" for i, w in enumerate(heads) for h in range(len(w["W_Q"]))]
    generator = np.random.default_rng(0)

    def shuffled(array: Floats) -> Floats:
        return generator.permutation(array.ravel()).reshape(array.shape)

    by_chance = [
        scores
        for _ in range(DRAWS)
        for scores in [_all_scores([{n: shuffled(a) for n, a in w.items()} for w in heads])]
    ]
    drawn = np.concatenate([scores[scores > 0] for scores in by_chance])
    own = _all_scores(heads)
    labels = {"by": ("Q", "K", "V"), "from": names, "to": names}
    return LabeledArray.of(own, **labels), float(np.quantile(drawn, 0.9)) if drawn.size else 0.0


def _all_scores(heads: list[dict[str, Floats]]) -> Floats:
    """`[by from to]`: 0 where the first head is in no earlier layer."""
    ov = np.concatenate([_ov(head) for head in heads])
    qk = np.concatenate([head["W_Q"] @ head["W_K"].transpose(0, 2, 1) for head in heads])
    layer = np.concatenate([[i] * len(w["W_Q"]) for i, w in enumerate(heads)])
    earlier = layer[:, None] < layer[None, :]
    scores = np.zeros((3, len(ov), len(ov)))
    for b, right in enumerate((qk, qk.transpose(0, 2, 1), ov)):
        for f, t in zip(*np.nonzero(earlier), strict=True):
            size = np.linalg.norm(ov[f]) * np.linalg.norm(right[t])
            scores[b, f, t] = np.linalg.norm(ov[f] @ right[t]) / size if size else 0.0
    return scores


def _not_applicable(model: Any, run: Any, tokens: list[int]) -> tuple[str, ...]:
    seen, places = len(set(run.tokens.ravel().tolist())), _places(model, run)
    width, shown = run.tokens.shape[1], 0 if places is None else len(places)
    heads = model.cfg.n_layers * model.cfg.n_heads
    return that_hold({
        "positions turn queries and keys, so QK scores are those of two tokens at one place":
        getattr(model.cfg, "positional_embedding_type", None) == "rotary",
        "a norm stands before attention: its scale is left out of every entry":
        getattr(model.cfg, "normalization_type", None),
        f"of {seen} tokens that occur, the {len(tokens)} most frequent are shown":
        run.config is None and seen > len(tokens),
        f"of {width} positions, the first {shown} are shown": places is not None and shown < width,
        f"composition scores of {heads} heads were left out: more than {MOST_HEADS}":
        heads > MOST_HEADS,
    })  # fmt: skip
