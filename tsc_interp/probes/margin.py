"""How far is the letter a head reads ahead of the others, and when is it outweighed? Chapter 3.

A head reads the letter t with the highest score s_t; its margin over letter o is s_t - s_o. In a
string with one t and k o's the weight of t is 1 / (1 + k exp(-margin)): exp(margin) o's per t halve
it. (Where scores grow with log n, a margin above 1 is never outweighed; below, k solves
(k + 1)^margin = k.)

For our classifier: the exact counts at which families such as `ab{n}`, `a{n}b`, `abc{n}` go wrong,
by branch and bound from the box of all their counts (`tsc_interp.verification`; claims about real
numbers), or with positions by evaluating every n. For false negatives: which head lost its letter,
and whether the other letters matter.

Reads `hook_q`, `hook_k`, `hook_v`, `hook_pattern`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from einops import rearrange
from numpy.typing import ArrayLike, NDArray

from tsc_interp.config import ClassifierConfig
from tsc_interp.probes.attention import Reading, read, read_by_chance
from tsc_interp.probes.inputs import Floats, Inputs, logits_of
from tsc_interp.probes.probe import probe
from tsc_interp.probes.standing_out import against_chance, heads_to_tell
from tsc_interp.probes.wording import (
    capital,
    grouped,
    n_letters,
    occurrences,
    write_share,
    write_strings,
)
from tsc_interp.results.base import (
    Cell,
    Finding,
    HeadsResult,
    LabeledArray,
    Record,
    Severity,
    that_hold,
)
from tsc_interp.results.views import Lines, NumberLine, Rows, shown
from tsc_interp.source_report import TEST_LENGTH

if TYPE_CHECKING:
    from tsc_interp.plots.figure import Figure

CAP = 10**6
FAR = 10_000
"""A family that goes wrong beyond this n is only noted."""
BOXES = 5_000
"""Of one family."""
GRID = tuple(np.unique(np.geomspace(1, CAP, 91).astype(np.int64)).tolist())
"""The n at which curves are drawn."""
MOST_HEADS, MOST_LINES = 4, 6
LONG, LETTERS, GIVEN = 10, 8, 4
ALIKE = 0.01
"""Scores closer than this get weights within 1 % of each other, which is no preference."""


class Family(Record):
    """All strings with these counts, except that `letter` occurs n times."""

    name: str
    letter: str
    counts: tuple[int, ...]
    """Of every letter of the alphabet; the varied one's entry is the given string's, or 1."""
    cap: int
    """The largest n looked at."""
    first_error: int | None = None
    """The smallest n that is wrong, or None if none was found up to the cap."""
    right_up_to: int = 0
    """Every n up to here is right."""
    start: float = 0.0
    """The logit at n = 1."""


class LostLetter(Record):
    """A given false negative, and which head lost its letter."""

    string: str
    logit: float
    head: int | None = None
    """The head whose weight on its letter falls most, from a string with each letter once."""
    kept: float | None = None
    rival: str | None = None
    """The letter that takes most of the weight instead."""
    left_out: str = ""
    """Letters that the label does not depend on; empty if there are none to leave out."""
    reduced: str = ""
    """The string without these."""
    reduced_logit: float | None = None


class MarginResult(HeadsResult):
    probe: ClassVar[str] = "margin"

    scores: LabeledArray
    """`[layer head letter]`: q·k / sqrt(d_head)."""
    margins: Annotated[LabeledArray, Rows("Margins: the highest score less each {result.unit}'s")]
    """`[layer head letter]`."""
    half_weight: Annotated[
        LabeledArray, Rows("How many of each {result.unit} per one read halve its weight")
    ]
    """`[layer head letter]`."""
    families: Annotated[
        tuple[Family, ...],
        Rows(
            "When families of strings flip",
            headings={"name": "family", "first_error": "first error", "right_up_to": "right up to",
                      "start": "logit at n = 1"},
        ),
    ] = ()  # fmt: skip
    logits: Annotated[
        LabeledArray | None,
        Lines(
            "When do long strings flip?",
            "The logit as one letter's count n grows, on a log scale; below the dashed line the "
            "answer is no. Crosses mark the first n with a wrong answer.",
            name="flips", x="n", y="logit", log_x=True, marks=False, form=".4f", table=False,
        ),
    ] = None  # fmt: skip
    """`[family n]`."""
    lost: tuple[LostLetter, ...] = ()

    @property
    def reads(self) -> tuple[tuple[str, ...], ...]:
        """The letter each head reads, `[layer][head]`."""
        letters = self.scores.labels["letter"]
        return tuple(tuple(letters[t] for t in row) for row in self.scores.array.argmax(axis=-1))

    @shown(
        NumberLine(
            "How heads score each {result.unit}",
            "The {result.unit} farthest to the right is the one a head reads; its distance d to "
            "another is the margin. About e to the power d of the other per {result.unit} read "
            "take half of the weight: 20 for d = 3, 150 for d = 5, 22,000 for d = 10.",
            name="scores", x="score", form=".4f", per=("layer",),
        )
    )  # fmt: skip
    def lines(self) -> LabeledArray:
        """Scores; of many heads, those of the clearest, relative to the highest."""
        if not self.many_heads:
            return self.scores
        heads = self.shown_by_name(MOST_LINES)
        scores = np.stack([self.scores.array[i, h] for i, h, _ in heads])
        top = np.sort(np.unique(np.argsort(-scores, axis=1)[:, :3]))
        letters = [self.scores.labels["letter"][t] for t in top]
        relative = (scores - scores.max(1, keepdims=True))[:, top]
        return LabeledArray.of(relative, head=[name for _, _, name in heads], letter=letters)

    def to_show(self, numbers: LabeledArray) -> LabeledArray | None:
        """Of many families, the curves of those that go wrong first."""
        if numbers is not self.logits or len(self.families) <= MOST_LINES:
            return super().to_show(numbers)
        first = sorted(self.families, key=lambda family: family.first_error or 10**12)
        kept = [family.name for family in first[:MOST_LINES]]
        rows = np.stack([numbers.at(family=name) for name in kept])
        return LabeledArray.of(rows, family=kept, n=numbers.labels["n"])

    def drawn(self) -> Sequence[Figure]:
        """What the fields declare, with a cross at each first error."""
        return [_crossed(self, one) if one.name == "flips" else one for one in super().drawn()]

    # -- what was found ----------------------------------------------------------------------------

    def conclude(self) -> Iterator[Finding]:
        if self.needs is None:
            yield against_chance(self)
            for i, h in heads_to_tell(self):
                yield self._head(i, h)
            return
        for i in range(len(self.reads)):
            for h in self._heads_worth_naming(i):
                yield self._head(i, h)
        shortest_first = sorted(self.lost, key=lambda lost: n_letters(lost.string))
        for same in grouped(shortest_first, lambda lost: (lost.head, lost.rival)):
            yield self._lost_letter(*same)
        flips = [family for family in self.families if family.first_error is not None]
        flips.sort(key=lambda family: family.first_error or 0)
        for alike in grouped(flips, _severity):
            yield _flip(alike)
        right = [family for family in self.families if family.first_error is None]
        for families in grouped(right, lambda family: family.right_up_to):
            cap = families[0].right_up_to
            names = write_strings([family.name for family in families])
            text = f"Right for every n up to {cap:,}: {names}."
            if cap < families[0].cap:
                text = f"No error found, and every n up to {cap:,} is right: {names}."
            yield Finding.of(text, {"right up to": cap}, "good")

    def _heads_worth_naming(self, i: int) -> list[int]:
        """All heads, or of many those with the largest margins."""
        heads = [h for h in range(len(self.reads[i])) if self.stands_out(i, h)]
        ahead = np.sort(self.margins.array[i], axis=1)[:, :2].sum(1)
        return sorted(sorted(heads, key=lambda h: -ahead[h])[:MOST_HEADS])

    def _head(self, i: int, h: int) -> Finding:
        labels, target = self.scores.labels, self.reads[i][h]
        letters, name = labels["letter"], capital(self.head_name(labels["layer"][i], h))
        margins, half = self.margins.array[i, h], self.half_weight.array[i, h]
        order = [t for t in np.argsort(margins, kind="stable") if letters[t] != target]
        if not order:
            return Finding.of(f"{name} has one {self.unit} to read.")
        alike = [letters[t] for t in order if margins[t] < ALIKE]
        if len(alike) == len(order):
            return Finding.of(
                f"{name} attends to all of them alike: no {self.unit}'s score is more than "
                f"{margins.max():.1g} below the highest.",
                {"largest margin": float(margins.max())},
            )
        order = order[len(alike) :]
        told = [f"{margins[t]:.4f} over `{letters[t]}` ({_halves(half[t])}" for t in order[:3]]
        if np.isfinite(half[order[0]]):
            told[0] += f" of them per `{target}` halve its weight"
        both = f" and {write_strings(alike)} alike" if alike else ""
        return Finding.of(
            f"{name} reads `{target}`{both}, with a margin of {'), '.join(told)}).",
            {letters[t]: float(margins[t]) for t in order[:3]},
            layer=labels["layer"][i], head=h, letter=target,
        )  # fmt: skip

    def _lost_letter(self, lost: LostLetter, *others: LostLetter) -> Finding:
        start = f"`{lost.string}` (logit {lost.logit:+.4f}) is a false negative"
        strings = (lost.string, *(other.string for other in others))
        also = f" The same happens in {write_strings(strings[1:])}." if others else ""
        if lost.head is None or lost.kept is None or lost.rival is None:
            text = f"{start}; no head reads its letters.{also}"
            return Finding.of(text, severity="failure", string=strings)
        layer, rival = self.scores.labels["layer"][0], lost.rival
        target, head = self.reads[0][lost.head], capital(self.head_name(layer, lost.head))
        margin, half = (
            float(array.at(layer=layer, head=lost.head, letter=rival))
            for array in (self.margins, self.half_weight)
        )
        many, text = occurrences(lost.string), f"{start}. {head} reads `{target}`: "
        if margin < ALIKE:
            text = f"{start}. {head} attends to `{target}` and `{rival}` alike"
        elif rival in many and np.isclose(half, np.exp(margin), rtol=1e-6):
            text += (
                f"one `{target}` outweighs one `{rival}` e^{margin:.4f} = {_halves(half)} "
                f"times, {'but' if many[rival] > half else 'and'} there "
                f"{'is one' if many[rival] == 1 else f'are {many[rival]:,}'} `{rival}`"
            ) + (f" and {many[target]:,} `{target}`" if many.get(target, 1) > 1 else "")
        else:
            text += (
                f"its margin over `{rival}` is {margin:.4f}, and {_halves(half)} `{rival}` "
                f"per `{target}` halve its weight"
            )
        text += f". So `{target}` keeps {write_share(lost.kept)} of the head's weight."
        numbers: dict[str, Cell] = {"logit": lost.logit, "kept": lost.kept, "margin": margin}
        if (logit := lost.reduced_logit) is not None:
            numbers["without"] = logit
            left_out = " and ".join(f"`{letter}`" for letter in lost.left_out)
            be = "are" if len(lost.left_out) > 1 else "is"
            right, no = ("right", "") if logit > 0 else ("still wrong", "not ")
            text += (
                f" Without {left_out}, `{lost.reduced}` is {right} (logit {logit:+.4f}), so "
                f"{left_out} {be} {no}the cause."
            )
        return Finding.of(
            text + also, numbers, "failure", string=strings, head=lost.head, letter=target
        )


def _halves(count: float) -> str:
    if count == float("inf"):
        return "never outweighed"
    return f"{count:.1f}" if count < 100 else f"{count:,.0f}" if count < 1e9 else f"{count:.1e}"


def _severity(family: Family) -> Severity:
    n = family.first_error or 0
    return "failure" if n <= TEST_LENGTH else "warning" if n <= FAR else "note"


def _flip(families: Sequence[Family]) -> Finding:
    """One sentence for a severity: "`ab{n}` goes wrong at n = 66, `bc{n}` at n = 70"."""
    clauses = []
    for family in families:
        if family.first_error == 1:
            clauses.append(f"`{family.name}` is wrong from n = 1 on (logit {family.start:+.4f})")
            continue
        # The verb once: what follows is a list.
        verb = "at" if any("goes wrong" in clause for clause in clauses) else "goes wrong at"
        sure = "" if family.right_up_to == (family.first_error or 0) - 1 else " or before"
        clauses.append(f"`{family.name}` {verb} n = {family.first_error:,}{sure}")
    return Finding.of(
        f"{', '.join(clauses)}.",
        {family.name: family.first_error for family in families},
        _severity(families[0]),
        family=tuple(family.name for family in families),
    )


def _crossed(result: MarginResult, flips: Figure) -> Figure:
    from tsc_interp.plots.colours import INK, WRONG
    from tsc_interp.plots.series import add_series
    from tsc_interp.plots.style import decision_line

    assert result.logits is not None
    curves = result.to_show(result.logits) or result.logits
    known = {one.name: one for one in result.families}
    drawn = [known[name] for name in curves.labels["family"]]
    wrong = [family for family in drawn if family.first_error is not None]
    add_series(flips.figure, [family.first_error or 0 for family in wrong], [0.0] * len(wrong),
               "first wrong n", "%{customdata}<extra></extra>", mode="markers", colour=WRONG,
               symbol="x", size=11, marker={"line": {"width": 1, "color": INK}},
               customdata=[f"{one.name} is first wrong at n = {one.first_error:,}"
                           for one in wrong])  # fmt: skip
    decision_line(flips.figure, y=0)
    return flips


# -- what is computed ------------------------------------------------------------------------------


@probe(
    MarginResult,
    title="When is a letter outweighed?",
    question="How many other letters does it take before a head loses the one it reads?",
    chapter="3",
    any_model=True,
    token_title="When is a token outweighed?",
    token_question="How many other tokens does it take before a head loses the one it reads?",
)
def margin(inputs: Inputs, *, layer: int | None = None) -> MarginResult:
    inputs.refuse_frame("so no letter can be added until another is outweighed")
    reading, config = read(inputs, layer), inputs.config
    scores = np.stack([layer.scores for layer in reading.layers])
    margins = scores.max(axis=-1, keepdims=True) - scores
    grows = config is not None and config.log_n
    half = np.vectorize(lambda margin: half_weight_count(float(margin), grows))(margins)
    axes = {"layer": reading.layer_names, "head": reading.heads, "letter": reading.tokens}
    result = MarginResult(
        not_applicable=(*reading.caveats(), *_not_applicable(config)),
        n_layers=reading.n_layers,
        needs=reading.needs,
        **reading.certainty(read_by_chance(inputs, layer)),
        scores=LabeledArray.of(scores, **axes),
        margins=LabeledArray.of(margins, **axes),
        half_weight=LabeledArray.of(half, **axes),
    )
    if config is None or _no_flips(config):
        return result
    flips = _flips(inputs.model, config, reading)
    if config.n_layers == 1 and not config.needs_order:
        flips["lost"] = tuple(_lost_letters(inputs.model, config, reading))
    return result.model_copy(update=flips)


def half_weight_count(margin: float, grows: bool = False) -> float:
    """How many of another letter, beside one of the letter read, take half of the weight."""
    if not grows:
        return float(np.exp(min(margin, 700.0)))
    if margin >= 1:
        return float("inf")
    from scipy.optimize import brentq

    # m log(k + 1) - log k falls from m log 2 at k = 1 towards minus infinity.
    log_k = brentq(lambda x: margin * np.logaddexp(x, 0) - x, 0.0, 1e9)
    return float(np.exp(min(log_k, 700.0)))


def families(config: ClassifierConfig, strings: Sequence[str]) -> list[Family]:
    """For each letter: every letter the task names once, that letter n times. Then the strings'.

    A given string with `LONG` or more of a letter makes a family of its most frequent one.
    """
    alphabet, needs = config.alphabet, config.task.needs
    needed = alphabet.counts(needs) if needs else np.zeros(alphabet.size, dtype=np.int64)
    made = [_family(config, needed, letter) for letter in varied_letters(config)]
    for string in strings:
        counts = alphabet.counts(string)
        if np.count_nonzero(counts) > 1 and counts.max() >= LONG:
            made.append(_family(config, counts, alphabet.letters[int(counts.argmax())]))
    unique: dict[str, Family] = {}
    for family in made:
        unique.setdefault(family.name, family)
    return list(unique.values())[: len(varied_letters(config)) + GIVEN]


def varied_letters(config: ClassifierConfig) -> str:
    """The letters that get a family of their own: those the task names first, at most `LETTERS`."""
    named = sorted(config.alphabet.letters, key=lambda letter: letter not in config.task.needs)
    return "".join(sorted(named[:LETTERS]))


def _family(config: ClassifierConfig, counts: NDArray[np.int64], letter: str) -> Family:
    fixed = counts.copy()
    fixed[config.alphabet.index(letter)] = 0
    name = "".join(
        f"{symbol}{{n}}" if symbol == letter else symbol if n == 1 else f"{symbol}{{{n}}}"
        for symbol, n in zip(config.alphabet.letters, fixed.tolist(), strict=True)
        if n or symbol == letter
    )
    places = config.n_positions - int(config.has_cls)
    room = places - int(fixed.sum()) if config.has_positions else CAP
    return Family(name=name, letter=letter, counts=tuple(counts.tolist()), cap=min(CAP, room))


def counts_of(config: ClassifierConfig, family: Family, n: ArrayLike) -> Floats:
    """`[len(n), letter]`."""
    n = np.asarray(n, dtype=np.float64)
    counts = np.tile(np.array(family.counts, dtype=np.float64), (len(n), 1))
    counts[:, config.alphabet.index(family.letter)] = n
    return counts


def _flips(model: Any, config: ClassifierConfig, reading: Reading) -> dict[str, Any]:
    """The families with their flips, and the curves behind the figure."""
    made = [family for family in families(config, reading.rows) if family.cap >= 1]
    starts = np.concatenate([counts_of(config, family, [1]) for family in made])
    logits = logits_of(model, starts).tolist()
    first_error = _by_evaluating if config.needs_order else _by_searching
    exact = tuple(
        family.model_copy(update={"start": start, "first_error": n, "right_up_to": right})
        for family, start, (n, right) in zip(made, logits, first_error(model, made), strict=True)
    )
    if config.needs_order:
        return {"families": exact}
    axes = {"family": [family.name for family in made], "n": GRID}
    counts = np.stack([counts_of(config, family, GRID) for family in made])
    curves = logits_of(model, rearrange(counts, "family n letter -> (family n) letter"))
    return {"families": exact, "logits": LabeledArray.of(curves.reshape(len(made), -1), **axes)}


def _by_evaluating(model: Any, made: Sequence[Family]) -> Iterator[tuple[int | None, int]]:
    """The first n that is wrong, and up to where all are right: every n, on sorted strings."""
    for family in made:
        counts = counts_of(model.config, family, np.arange(1, family.cap + 1))
        labels = model.config.task.labels(counts.astype(np.int64))
        wrong = np.flatnonzero((logits_of(model, counts) > 0) != labels)
        n = int(wrong[0]) + 1 if len(wrong) else None
        yield n, family.cap if n is None else n - 1


def _by_searching(model: Any, made: Sequence[Family]) -> Iterator[tuple[int | None, int]]:
    """The same by branch and bound from the box of all n."""
    from tsc_interp.verification.count_model import CountModel, checkpoint_of
    from tsc_interp.verification.search.search import search_support

    counted = CountModel(checkpoint_of(model))
    for family in made:
        low, high = counts_of(model.config, family, [1, family.cap]).astype(np.int64)
        letters = tuple(np.flatnonzero(low).tolist())
        box = tuple(low[list(letters)].tolist()), tuple(high[list(letters)].tolist())
        found = search_support(counted, letters, int(high.sum()), BOXES, box=box)
        others, grows = int(low.sum()) - 1, model.config.alphabet.index(family.letter)
        first = found.counterexample
        n = None if first is None else first[letters.index(grows)]
        yield n, max(0, found.verified_length - others)


def _no_flips(config: ClassifierConfig) -> str | None:
    """Why there are no families whose answers could be followed; None where there are."""
    if config.n_outputs > 1:
        return f"flips are of the sign of one logit, and this model has {config.n_outputs} outputs"
    if config.task.ordered:
        return "flips of families such as ab{n} are of counts, and this task is about order"
    if config.needs_order and not config.has_positions:
        return "flips of families such as ab{n} are of counts, and this model sees order"
    return None


def _not_applicable(config: ClassifierConfig | None) -> tuple[str, ...]:
    if config is None:
        return (
            "flips of families such as ab{n} need a task with labels, which only our classifier "
            "has",
        )
    if (reason := _no_flips(config)) is not None:
        return (reason,)
    varied = varied_letters(config)
    return that_hold({
        "flips are looked for up to the last learned position, on sorted strings; there is no "
        "limit, since order matters": config.has_positions,
        f"of {config.n_letters} letters only {', '.join(varied)} are varied to look for flips; "
        "name strings to ask about others": config.n_letters > len(varied),
        "scores are per unit of log n, so exp(margin) does not apply: a letter is outweighed only "
        "if its margin is below 1": config.log_n,
    })  # fmt: skip


# -- false negatives: which head lost the letter it reads, and do other letters matter? ------------


def _lost_letters(model: Any, config: ClassifierConfig, reading: Reading) -> Iterator[LostLetter]:
    """For a model of one layer without positions."""
    from scipy.special import softmax

    counts = config.alphabet.count_matrix(reading.rows)
    logits, labels = logits_of(model, counts.astype(np.float64)), config.task.labels(counts)
    layer, letters = reading.layers[0], config.alphabet.letters
    read = [reading.tokens[t] for t in layer.scores.argmax(axis=1)]
    for row in np.flatnonzero(labels & (logits <= 0)):
        own = counts[row]
        lost = LostLetter(string=reading.rows[row], logit=float(logits[row]))
        heads = [h for h, letter in enumerate(read) if letter in config.task.needs]
        heads = [h for h in heads if own[letters.index(read[h])]]
        if not heads:
            yield lost
            continue
        kept = {h: float(layer.weights[row, h, layer.scores[h].argmax()]) for h in heads}
        there = [t not in letters or own[letters.index(t)] > 0 for t in reading.tokens]
        # A head that never preferred its letter has lost nothing, however little it keeps.
        losses = {h: softmax(layer.scores[h, there]).max() - kept[h] for h in heads}
        h = max(losses, key=lambda head: losses[head])
        others = layer.weights[row, h].copy()
        others[reading.tokens.index(read[h])] = 0
        told = {"head": h, "kept": kept[h], "rival": reading.tokens[int(others.argmax())]}
        yield lost.model_copy(update=told | _reduced(model, config, own))


def _reduced(model: Any, config: ClassifierConfig, counts: NDArray[np.int64]) -> dict[str, Any]:
    """Empty where there is nothing to leave out, or the label would not be positive without it."""
    letters = np.array(list(config.alphabet.letters))
    needed = np.isin(letters, list(config.task.needs))
    spare, reduced = letters[(counts > 0) & ~needed], np.where(needed, counts, 0)
    if not len(spare) or not config.task.labels(reduced):
        return {}
    return {
        "left_out": "".join(spare),
        "reduced": config.alphabet.write(reduced),
        "reduced_logit": float(logits_of(model, reduced[None].astype(np.float64))[0]),
    }
