"""Which letter does each head read, and do heads repeat each other? Chapters 2 and 4.

A head's reading is its attention if every letter occurred once: p_t = exp(s_t) / sum_i exp(s_i).
From it: the letter it reads (the largest p), its entropy in bits, and the overlap of two heads,
sum_t min(p_t, p'_t), which is 1 when they attend alike. What two heads write is compared as the
cosine of their outputs over the letters, v_t W_O, centred. Heads that overlap report the same thing
twice. Where inputs have a frame, attention and overlap are averages over inputs of it instead.

A letter that no head reads cannot be noticed, which is the cause of the false positives of
`lower_magnitude_initializations` seed 2.

Reads `hook_q`, `hook_k`, `hook_v`, `hook_pattern`; works per layer, on any TransformerLens model.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, ClassVar

import numpy as np
from einops import rearrange, reduce
from numpy.typing import NDArray

from tsc_interp.config import ClassifierConfig
from tsc_interp.model.threads import one_thread
from tsc_interp.probes.attention import Layer, Reading, keep_small, read, read_by_chance
from tsc_interp.probes.inputs import Floats, Inputs, as_array, score_factor
from tsc_interp.probes.probe import probe
from tsc_interp.probes.standing_out import against_chance, heads_to_tell
from tsc_interp.probes.wording import capital, grouped, joined, write_share
from tsc_interp.results.base import Finding, HeadsResult, LabeledArray, Record, Severity, Table
from tsc_interp.results.views import Heat, Rows, shown

MOST_SIGNS = 4
"""Heads whose values' signs are told."""
ALIKE = 0.9
"""Two heads whose attention overlaps by more than this read the same."""


class Unread(Record):
    """A letter that no head reads, and the logits of a string with and without it."""

    letter: str
    with_it: str
    without_it: str
    """Empty where the task names no other letter; there are no logits then."""
    logits: tuple[float, ...] = ()
    """With it, without it."""


class SpecializationResult(HeadsResult):
    probe: ClassVar[str] = "specialization"

    attention: Annotated[
        LabeledArray,
        Heat(
            "Which {result.unit} each head reads",
            "A head's attention {result.when}. A head that has specialised has one dark cell.",
            name="reading", form=".2%", share=True, per=("layer",), table=False,
        ),
    ]  # fmt: skip
    """`[layer head letter]`: the weights if every letter occurred once, or, where inputs have a
    frame, the mean over those with this letter."""
    values: LabeledArray | None
    """`[layer head letter component]`; None for a large model, whose vectors fill megabytes."""
    entropy: LabeledArray
    """`[layer head]`, in bits."""
    overlap: Annotated[
        LabeledArray,
        Heat(
            "Do heads repeat each other?",
            "The share of their attention two heads have in common. Dark cells off the diagonal "
            "are heads that read the same.",
            form=".2%", share=True, per=("layer",), table=False,
        ),
    ]  # fmt: skip
    """`[layer head other]`: how much of their attention two heads share, 0 to 1."""
    writing: LabeledArray
    """`[layer head other]`: the cosine of what they write, -1 to 1."""
    of_frame: int = 0
    """How many inputs of the model's frame are averaged over; 0 for a model without one."""
    unread: tuple[Unread, ...] = ()
    """The letters the task names that no head reads, asked of one layer of our classifier."""

    @property
    def when(self) -> str:
        """In which inputs a head has this attention, for captions."""
        if self.of_frame:
            return f"on each letter, the mean over those of {self.of_frame} inputs that have it"
        return f"if every {self.unit} occurred once; each row sums to 100%"

    @property
    def reads(self) -> tuple[tuple[str, ...], ...]:
        """The letter each head reads, `[layer][head]`."""
        letters = self.attention.labels["letter"]
        return tuple(
            tuple(letters[t] for t in layer) for layer in self.attention.array.argmax(axis=-1)
        )

    @shown(
        Heat(
            "Heads that read one token clearly",
            "One cell per head: how far the score of the token it scores highest is ahead of the "
            "next. Empty cells are no further ahead than heads with shuffled weights, or by less "
            "than one token's scores differ from place to place.",
            name="leads", form=".2f", table=False,
        )
    )  # fmt: skip
    def clear_leads(self) -> LabeledArray | None:
        """`[layer head]`, of a model with many heads: the leads of those that stand out."""
        if not self.many_heads or self.lead is None:
            return None
        clear = [x if self.stands_out(i, h) else 0 for (i, h), x in np.ndenumerate(self.lead.array)]
        return LabeledArray.of(np.reshape(clear, self.lead.shape), **self.lead.labels)

    @shown(Rows("What each head reads"))
    def readings(self) -> Table:
        """A row per head."""
        labels = self.attention.labels
        at = self.heads_to_show() if self.many_heads else list(np.ndindex(self.entropy.shape))
        rows = [
            (labels["layer"][i], labels["head"][h], self.reads[i][h],
             *self.attention.array[i, h].tolist(), float(self.entropy.array[i, h]))
            for i, h in at
        ]  # fmt: skip
        weights = (f"weight of {letter}" for letter in labels["letter"])
        columns = ("layer", "head", "reads", *weights, "entropy (bits)")
        return Table.from_rows(f"What each head reads{self.of_all_heads()}", columns, rows)

    @shown(Rows("Heads compared"))
    def pairs(self) -> Table:
        """A row per pair of heads of a layer."""
        labels = self.overlap.labels
        at = set(self.heads_to_show()) if self.many_heads else set(np.ndindex(self.entropy.shape))
        rows = [
            (labels["layer"][i], f"{labels['head'][h]} and {labels['other'][g]}",
             float(self.overlap.array[i, h, g]), float(self.writing.array[i, h, g]))
            for i, h, g in np.ndindex(self.overlap.shape)
            if h < g and {(i, h), (i, g)} <= at
        ]  # fmt: skip
        columns = ("layer", "heads", "attention overlap", "cosine of what they write")
        return Table.from_rows("Heads compared", columns, rows)

    # -- what was found ----------------------------------------------------------------------------

    def conclude(self) -> Iterator[Finding]:
        if self.needs is None:
            yield against_chance(self)
        for i in range(len(self.reads)):
            yield from self._who_reads_what(i)
        yield from self._alike()
        if needs := self.needs_among(self.attention.labels["letter"]):
            yield from self._signs(needs)
            # Where a letter's scores depend on its place, who reads it is known on average only.
            if self.lead is None and not self.of_frame:
                yield from self._unread(needs)

    def _alike(self) -> Iterator[Finding]:
        """The two heads of one layer that attend most alike, among those that can be spoken of."""
        overlap = self.overlap.array
        pairs = [
            (i, h, g)
            for i, h, g in np.ndindex(overlap.shape)
            if h < g and overlap[i, h, g] > ALIKE
            and (self.needs is not None or (self.stands_out(i, h) and self.stands_out(i, g)))
        ]  # fmt: skip
        if not pairs:
            return
        i, h, g = max(pairs, key=lambda pair: float(overlap[pair]))
        share = float(overlap[i, h, g])
        over = f", on average over {self.of_frame} inputs" if self.of_frame else ""
        more = f"; {len(pairs)} pairs of heads overlap by {ALIKE:.0%}" if len(pairs) > 1 else ""
        # With more heads than letters some have to agree.
        needless = self.needs is not None and overlap.shape[1] <= self.attention.shape[2]
        yield Finding.of(
            capital(
                f"{self._layer(i)}heads {h} and {g} attend alike: they share {write_share(share)} "
                f"of their attention{over}, and what they write has cosine "
                f"{self.writing.array[i, h, g]:+.2f}{more}."
            ),
            {"overlap": share, "pairs": len(pairs)},
            "warning" if needless else "note",
            layer=i,
        )

    def _who_reads_what(self, i: int) -> Iterator[Finding]:
        """What the heads of a layer read, as far as they can be spoken of."""
        heads = [h for h in range(len(self.reads[i])) if self.stands_out(i, h)]
        if self.needs is None:
            heads = [h for layer, h in sorted(heads_to_tell(self)) if layer == i]
        meaning = f" of its weight when every {self.unit} occurs once"
        if self.of_frame:
            meaning = " on average, in inputs that have it"
        parts: list[str] = []
        for same in grouped(heads, lambda h: self.reads[i][h]):
            letter = self.reads[i][same[0]]
            t = self.attention.labels["letter"].index(letter)
            least = min(float(self.attention.array[i, h, t]) for h in same)
            share = "at least " * (len(same) > 1) + write_share(least)
            read = "s" * (len(same) > 1) + f" {joined([str(h) for h in same])} "
            read += {1: "reads", 2: "both read"}.get(len(same), "read")
            parts.append(f"head{read} `{letter}` ({share}{'' if parts else meaning})")
        if parts:
            numbers = {f"head {h}": self.reads[i][h] for h in heads}
            text = capital(f"{self._layer(i)}{'; '.join(parts)}.")
            yield Finding.of(text, numbers, layer=i, head=tuple(map(str, heads)))

    def _signs(self, needs: str) -> Iterator[Finding]:
        """For a few heads of size one: do the letters the task names get opposite signs?"""
        if self.values is None or self.values.shape[-1] != 1 or len(needs) != 2:
            return
        if self.values.shape[1] > MOST_SIGNS:
            return
        named = [self.values.labels["letter"].index(letter) for letter in needs]
        pairs = self.values.array[0][:, named, 0]
        opposite = int((pairs[:, 0] * pairs[:, 1] < 0).sum())
        values = "; ".join(f"head {h} {a:.4f} and {b:.4f}" for h, (a, b) in enumerate(pairs))
        which = "Every head gives" if opposite == len(pairs) else f"{opposite or 'No'} heads give"
        yield Finding.of(
            f"{which} `{needs[0]}` and `{needs[1]}` values of opposite sign: {values}.",
            {"opposite": opposite},
        )

    def _unread(self, needs: str) -> Iterator[Finding]:
        if not self.unread:
            text = f"Every letter the task names ({', '.join(needs)}) has a head that reads it."
            yield Finding.of(text, severity="good")
        readable = " and ".join(f"`{letter}`" for letter in sorted(set(self.reads[0])))
        count = len(self.reads[0])
        heads = {1: "its one head reads", 2: "both heads read"}.get(count, f"{count} heads read")
        for unread in self.unread:
            yield _effect_of_not_reading(unread, f"{heads} {readable}")

    def _layer(self, i: int) -> str:
        return "" if self.n_layers == 1 else f"layer {self.attention.labels['layer'][i]}: "


def _effect_of_not_reading(unread: Unread, instead: str) -> Finding:
    letter = unread.letter
    if not unread.logits:
        return Finding.of(f"No head reads `{letter}`; {instead}.", None, "warning", letter=letter)
    with_it, without_it = unread.logits
    turns = (with_it > 0) != (without_it > 0)
    effect = (
        ", yet the answer depends on it"
        if turns
        else ", and whether it is there does not change the answer"
    )
    severity: Severity = "warning" if turns else "failure"
    return Finding.of(
        f"No head reads `{letter}` ({instead}){effect}: `{unread.with_it}` has logit "
        f"{with_it:+.4f} and `{unread.without_it}` {without_it:+.4f}.",
        {unread.with_it: with_it, unread.without_it: without_it},
        severity,
        letter=letter,
    )


# -- what is computed ------------------------------------------------------------------------------


@probe(
    SpecializationResult,
    title="What does each head read?",
    question="Which letter does each head read, and do heads repeat each other?",
    chapter="2, 4",
    any_model=True,
    token_question="Which token does each head read, and do heads repeat each other?",
)
def specialization(inputs: Inputs, *, layer: int | None = None) -> SpecializationResult:
    inputs = inputs.of_frame()
    reading = read(inputs, layer)
    heads, layers = reading.heads, reading.layer_names
    if inputs.frame is None:
        attention = np.stack([once_each(inputs.config, layer) for layer in reading.layers])
        overlap = np.minimum(attention[:, :, None], attention[:, None]).sum(-1)
        spread = entropy(attention)
    else:
        weights = np.stack([layer.weights for layer in reading.layers])  # [layer row head letter]
        there = np.array([[t in row or len(t) > 1 for t in reading.tokens] for row in reading.rows])
        attention = np.einsum("irht,rt->iht", weights, there) / there.sum(0)
        overlap = np.minimum(weights[:, :, :, None], weights[:, :, None]).sum(-1).mean(1)
        spread = entropy(weights).mean(1)
    by_head = {"layer": layers, "head": heads}
    names = reading.tokens
    if inputs.frame is not None and inputs.config is not None:  # in the tokens of the frame
        letters = inputs.config.alphabet.token_names
        names = tuple(inputs.config.called[letters.index(t)] for t in reading.tokens)
    by_letter = {**by_head, "letter": names}
    by_pair = {**by_head, "other": heads}
    result = SpecializationResult(
        not_applicable=reading.caveats(),
        n_layers=reading.n_layers,
        needs=reading.needs,
        of_frame=0 if inputs.frame is None else len(reading.rows),
        **reading.certainty(read_by_chance(inputs, layer)),
        attention=LabeledArray.of(attention, **by_letter),
        values=_values(reading, by_letter),
        entropy=LabeledArray.of(spread / np.log(2), **by_head),
        overlap=LabeledArray.of(overlap, **by_pair),
        writing=LabeledArray.of(np.stack([_writing(layer) for layer in reading.layers]), **by_pair),
    )  # fmt: skip
    if inputs.frame is None and (needs := result.needs_among(reading.tokens)):
        unread = _unread(inputs.model, needs, result.reads[0])
        result = result.model_copy(update={"unread": unread})
    return result


def once_each(config: ClassifierConfig | None, layer: Layer) -> Floats:
    """`[head letter]`: the attention of a string in which every letter occurs once."""
    from scipy.special import softmax

    # CLS is looked at too where the model attends to it, but it is no letter of the string.
    letters = layer.scores.shape[1] - (config is not None and config.attend_cls)
    factor = 1.0 if config is None else float(score_factor(config, np.array([letters]))[0])
    return np.asarray(softmax(factor * layer.scores, axis=-1))


def entropy(shares: NDArray[Any]) -> Floats:
    """In nats, over the last axis; 0 log 0 is 0."""
    logs = np.log(shares, where=shares > 0, out=np.zeros_like(shares))
    return np.asarray(-(shares * logs).sum(-1))


def _values(reading: Reading, by_letter: dict[str, Any]) -> LabeledArray | None:
    parts = [layer.values for layer in reading.layers]
    always = reading.needs is not None
    return keep_small(parts, always=always, **by_letter, component=range(parts[0].shape[-1]))


def _writing(layer: Layer) -> Floats:
    """The cosine of what two heads write: v_t W_O, centred over the letters."""
    import torch

    values = layer.values - reduce(layer.values, "head letter d_head -> head 1 d_head", "mean")
    with one_thread():
        written = torch.from_numpy(values) @ torch.from_numpy(layer.output)
        flat = rearrange(written, "head letter d_model -> head (letter d_model)")
        norms = torch.linalg.norm(flat, dim=1, keepdim=True)
        unit = flat / torch.where(norms > 0, norms, 1.0)
        return as_array(unit @ unit.mT)


def _unread(model: Any, needs: str, reads: Sequence[str]) -> tuple[Unread, ...]:
    """The letters the task names that no head reads, and what that does to a string."""
    unread = []
    for letter in needs:
        if letter not in reads:
            without = needs.replace(letter, "")
            outputs = as_array(model([needs, without])) if without else np.empty(0)
            logits = tuple(outputs.tolist()) if outputs.ndim == 1 else ()  # not of several outputs
            unread.append(Unread(letter=letter, with_it=needs, without_it=without, logits=logits))
    return tuple(unread)
