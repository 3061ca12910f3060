"""What the superposition probe found, in sentences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tsc_interp.probes.base import Cell, Finding
from tsc_interp.probes.hull import nearest_in_hull
from tsc_interp.probes.reading import Layer, Reading
from tsc_interp.probes.running import classifier_config
from tsc_interp.probes.wording import capital, write_mixture, write_strings, write_vector

if TYPE_CHECKING:
    from tsc_interp.config import ClassifierConfig
    from tsc_interp.probes.superposition import SuperpositionResult

CLOSE = 0.25
"""A letter can be imitated when the others come within this fraction of the values' range."""
NEGLIGIBLE = 0.05
"""A share of a letter too small to explain anything."""
MOST_STRINGS = 4


def findings(model: Any, reading: Reading, result: SuperpositionResult) -> tuple[Finding, ...]:
    if len(reading.tokens) < 2:
        return (Finding(severity="note", text="One letter alone has nobody to imitate it."),)
    config = classifier_config(model)
    found = [
        finding
        for i in range(len(reading.layers))
        for finding in (*_heads(reading, result, i), _joint(config, reading, result, i))
    ]
    if config is not None and reading.n_layers == 1:
        found += _false_positives(model, config, reading)
    return tuple(found)


# -- letters ---------------------------------------------------------------------------------


def _heads(reading: Reading, result: SuperpositionResult, i: int) -> list[Finding]:
    """For the letter each head scores highest: can the others pass for it?"""
    layer = reading.layers[i]
    found, safe = [], []
    for h, t in enumerate(layer.scores.argmax(axis=1)):
        if result.relative[i, h, t] <= CLOSE:
            found.append(_imitated(reading, result, (i, h, int(t))))
        else:
            safe.append((h, int(t)))
    return found + ([_safe(reading, result, i, safe)] if safe else [])


def _imitated(reading: Reading, result: SuperpositionResult, at: tuple[int, int, int]) -> Finding:
    i, h, t = at
    letter, values = reading.tokens[t], result.values.array[i, h]
    distance, relative = float(result.hull_distance.array[at]), float(result.relative[at])
    mixture = result.mixture.array[at]
    name = reading.head_name(reading.layers[i], h)
    near = "equal to" if distance < 1e-9 else f"within {distance:.4f} of"
    text = (
        f"{capital(name)} reads `{letter}`, and other letters can pass for it: "
        f"{write_mixture(mixture, reading.tokens)} gives {write_vector(mixture @ values)}, "
        f"{near} `{letter}`'s value {write_vector(values[t])} ({relative:.0%} of the range)"
    )
    numbers: dict[str, Cell] = {"distance": distance, "relative": relative}
    return Finding(severity="note", text=text + _same_sign(values, t, reading), numbers=numbers)


def _same_sign(values: np.ndarray, t: int, reading: Reading) -> str:
    """For heads of size one: who is on the letter's side of zero."""
    if values.shape[1] != 1:
        return "."
    side = np.sign(values[:, 0])
    same = [
        f"`{token}` ({values[other, 0]:.4f})"
        for other, token in enumerate(reading.tokens)
        if other != t and side[other] == side[t]
    ]
    return f"; of the same sign: {', '.join(same)}." if same else "; no other has its sign."


def _safe(
    reading: Reading, result: SuperpositionResult, i: int, heads: Sequence[tuple[int, int]]
) -> Finding:
    layer = reading.layers[i]
    nearest = min(float(result.relative[i, h, t]) for h, t in heads)
    if len(heads) > 3:
        names = f"{len(heads)} of {len(reading.heads)} heads"
    else:
        names = " and ".join(
            f"{reading.head_name(layer, h)} (`{reading.tokens[t]}`)" for h, t in heads
        )
    letter = "the letter each reads" if len(heads) > 1 else "the letter it reads"
    text = (
        f"In {names} nothing passes for {letter}: "
        f"every mixture of the others stays {nearest:.0%} of the values' range away, or more."
    )
    return Finding(severity="good", text=text, numbers={"nearest": nearest})


def _joint(
    config: ClassifierConfig | None, reading: Reading, result: SuperpositionResult, i: int
) -> Finding:
    """Over all heads at once; of our own classifier, only for the letters its task names."""
    candidates = [
        t for t, token in enumerate(reading.tokens) if config is None or token in config.task.needs
    ]
    t = min(candidates, key=lambda t: float(result.relative[i, -1, t]))
    letter, relative = reading.tokens[t], float(result.relative[i, -1, t])
    mixture = write_mixture(result.mixture.array[i, -1, t], reading.tokens)
    layer = "" if reading.n_layers == 1 else f"Layer {reading.layers[i].index}: "
    numbers: dict[str, Cell] = {"relative": relative}
    if relative <= CLOSE:
        text = (
            f"{layer}In all heads at once `{letter}` can be imitated: "
            f"{mixture} comes within {relative:.0%} of the values' range."
        )
        return Finding(severity="warning", text=text, numbers=numbers)
    text = (
        f"{layer}In all heads at once no letter the task needs can be imitated: `{letter}`, the "
        f"nearest to it, stays {relative:.0%} of the values' range from every mixture."
    )
    return Finding(severity="good", text=text, numbers=numbers)


# -- strings ---------------------------------------------------------------------------------


def _false_positives(model: Any, config: ClassifierConfig, reading: Reading) -> list[Finding]:
    logits = model(list(reading.rows)).detach().double().numpy()
    labels = config.task.labels(config.alphabet.count_matrix(reading.rows))
    imitated, plain = [], []
    for row, string in enumerate(reading.rows):
        missing = [letter for letter in config.task.needs if letter not in string]
        if logits[row] > 0 and not labels[row] and missing:
            finding = _explain(reading, row, float(logits[row]), missing, config.task.needs)
            if finding is None:
                plain.append(string)
            else:
                imitated.append(finding)
    found = imitated[:MOST_STRINGS]
    if plain:
        text = (
            f"{write_strings(plain)}: false positive, but not by imitation: "
            "no head's value moves towards that of a missing letter."
        )
        found.append(Finding(severity="note", text=text, numbers={"strings": len(plain)}))
    return found


def _explain(
    reading: Reading, row: int, logit: float, missing: Sequence[str], needs: str
) -> Finding | None:
    """The head whose value reads most like a letter that is not there, and who plays its part."""
    layer = reading.layers[0]
    share, letter, h = max(
        (float(_reads_as(reading, layer, row, h, needs)[needs.index(letter)]), letter, h)
        for h in range(len(reading.heads))
        for letter in missing
    )
    if share < NEGLIGIBLE:
        return None
    values, weights = layer.values[h], layer.weights[row, h]
    target = values[reading.tokens.index(letter)]
    present = [t for t in range(len(reading.tokens)) if weights[t] >= NEGLIGIBLE]
    t = min(present, key=lambda t: float(np.linalg.norm(values[t] - target)))
    mixture = write_mixture(_reads_as(reading, layer, row, h, needs), needs)
    text = (
        f"`{reading.rows[row]}` (logit {logit:+.4f}) is a false positive: it has no `{letter}`, "
        f"but `{reading.tokens[t]}` imitates it. {capital(reading.head_name(layer, h))} gives "
        f"`{reading.tokens[t]}` {weights[t]:.0%} of its weight, with a value of "
        f"{write_vector(values[t])} where `{letter}` has {write_vector(target)}; its output "
        f"{write_vector(layer.head_values[row, h])} reads as {mixture}."
    )
    numbers: dict[str, Cell] = {"logit": logit, "head": h, "share": share}
    return Finding(severity="failure", text=text, numbers=numbers)


def _reads_as(reading: Reading, layer: Layer, row: int, h: int, needs: str) -> np.ndarray:
    """The mixture of the task's letters nearest to what the head returns."""
    named = [reading.tokens.index(letter) for letter in needs]
    return nearest_in_hull(layer.head_values[row, h], layer.values[h, named])[1]
