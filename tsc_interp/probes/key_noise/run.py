"""How much noise on a key does it take to change answers? Beside what margins say.

One letter's key in one head of the first layer is moved by a share of its own length, through
`hook_k` (`head0.key[c]=noise(0.1, seed=3, along=norm)`), many times with different seeds:

    norm        longer or shorter, so that the letter's score s becomes s (1 ± size)
    direction   turned by the angle atan(size), its length kept (needs d_head > 1)

Counted is the share of answers that change, on 128 of the test strings. Beside it stands what
margins allow: in a string with n_t of each letter t, the letter with the largest s_t + log n_t has
the most weight. A move of `letter`'s key changes who that is when it changes its score by the
difference to the leader (or, of the leader, to the next); the share of strings in which `size` is
enough is how often a flip is possible by this reasoning. A move may go the right way, and other
heads may hold, so fewer answers change; more change where an answer depends on more than who leads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tsc_interp.config import ClassifierConfig
from tsc_interp.data import source_test_set
from tsc_interp.errors import ConfigError, UnsupportedError, UsageError
from tsc_interp.interventions.changes import Noise
from tsc_interp.interventions.hooks import Hooks
from tsc_interp.interventions.intervention import Intervention
from tsc_interp.interventions.parts import Part
from tsc_interp.model.threads import one_thread
from tsc_interp.probes.base import LabeledArray
from tsc_interp.probes.key_noise.result import KeyNoiseResult
from tsc_interp.probes.key_noise.words import findings
from tsc_interp.probes.running import Floats, as_array, need_classifier, score_factor
from tsc_interp.strings import FIRST_LETTER, Counts

SIZES = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
OVER = 128


@one_thread()
def run(
    model: Any,
    strings: Sequence[str],
    *,
    sizes: Sequence[float] = SIZES,
    draws: int = 4,
    seed: int = 0,
) -> KeyNoiseResult:
    """`strings` are counted on where there is no test set. Seeds are `seed`, `seed + 1`, ..."""
    config = need_classifier(model, "key-noise")
    if not config.has_attention:
        raise UnsupportedError("this model has no attention (n_heads = 0), so no keys")
    if config.needs_order:
        raise UnsupportedError("with positions a letter has no one key; key-noise needs none")
    if draws < 1 or not sizes:
        raise UsageError(f"noise needs one or more draws and sizes, got {draws} and {len(sizes)}")
    given = config.alphabet.count_matrix(list(strings))
    counts, over = _counts(config, given)
    ways = ["norm"] if config.d_head == 1 else ["norm", "direction"]
    axes = {
        "along": ways,
        "head": range(config.n_heads),
        "letter": config.alphabet.letters,
        "size": [f"{size:g}" for size in sizes],
    }
    scores, longest = _scores(model, config)
    result = KeyNoiseResult(
        findings=(),
        not_applicable=tuple(_not_applicable(config)),
        n_layers=config.n_layers,
        needs=config.task.needs,
        over=over,
        strings=len(counts),
        draws=draws,
        sizes=tuple(float(size) for size in sizes),
        scores=LabeledArray.of(
            scores[:, -config.n_letters :], head=axes["head"], letter=axes["letter"]
        ),
        flips=LabeledArray.of(_flips(model, config, counts, ways, sizes, draws, seed), **axes),
        possible=LabeledArray.of(
            np.stack([_possible(config, counts, scores, longest, along, sizes) for along in ways]),
            **axes,
        ),
    )
    return result.with_findings(findings(result))


def _counts(config: ClassifierConfig, given: Counts) -> tuple[Counts, str]:
    try:
        every = source_test_set(config)
    except ConfigError:
        return given, "the given strings"
    rows = np.linspace(0, len(every) - 1, OVER).astype(np.int64)
    return np.asarray(every[rows]), f"{OVER} test strings"


def _flips(
    model: Any, config: ClassifierConfig, counts: Counts, ways: Sequence[str],
    sizes: Sequence[float], draws: int, seed: int,
) -> Floats:  # fmt: skip
    """`[along head letter size]`."""
    import torch

    inputs = model.counts(counts.copy())
    shape = (len(ways), config.n_heads, config.n_letters, len(sizes))
    found = np.zeros(shape)
    with torch.no_grad():
        before = as_array(model(inputs)) > 0
        for along, head, letter, size in np.ndindex(shape):
            part = Part("key", 0, head, config.alphabet.letters[letter])
            for drawn in range(draws):
                noise = Noise(float(sizes[size]), seed + drawn, ways[along])
                hooks = Hooks(model, inputs, Intervention(part, noise))
                after = as_array(model.run_with_hooks(inputs, fwd_hooks=hooks.fwd_hooks)) > 0
                hooks.remarks()
                found[along, head, letter, size] += (after != before).mean() / draws
    return found


def _scores(model: Any, config: ClassifierConfig) -> tuple[Floats, Floats]:
    """`[head token]` for what CLS attends to: its scores, and |q| |k| / scale, their bound."""
    import torch

    every = [config.alphabet.letters]
    with torch.no_grad():
        cache = model.run_with_cache(every)[1]
    tokens = model.inputs(every).tokens[0].numpy()
    seen = (tokens >= FIRST_LETTER) | (config.attend_cls and tokens == 0)
    query = as_array(cache["blocks.0.attn.hook_q"])[0, 0]
    keys = as_array(cache["blocks.0.attn.hook_k"])[0, seen]
    root = np.sqrt(config.d_head)
    scores = np.einsum("hd,thd->ht", query, keys) / root
    longest = np.linalg.norm(query, axis=-1)[:, None] * np.linalg.norm(keys, axis=-1).T / root
    return scores, longest


def _possible(
    config: ClassifierConfig, counts: Counts, scores: Floats, longest: Floats,
    along: str, sizes: Sequence[float],
) -> Floats:  # fmt: skip
    """`[head letter size]`: the share of strings in which who leads can change."""
    present = counts.astype(float)
    if config.attend_cls:
        present = np.insert(present, 0, 1.0, axis=1)
    factor = score_factor(config, counts.sum(axis=1).astype(float))[:, None]
    letters = range(present.shape[1] - config.n_letters, present.shape[1])
    found = np.zeros((len(scores), config.n_letters, len(sizes)))
    with np.errstate(divide="ignore", invalid="ignore"):
        for head, own in enumerate(scores):
            standing = factor * own + np.log(present)
            for index, letter in enumerate(letters):
                others = np.delete(standing, letter, axis=1).max(axis=1)
                # The score at which this letter is level with the best of the others.
                level = (others - np.log(present[:, letter])) / factor[:, 0]
                needed = _size(own[letter], level, longest[head, letter], along)
                needed[~np.isfinite(others) | (present[:, letter] == 0)] = np.inf
                found[head, index] = [(needed <= size).mean() for size in sizes]
    return found


def _size(score: float, level: Floats, longest: float, along: str) -> Floats:
    """How far a key must be moved for its score to come from `score` to `level`."""
    if along == "norm":
        return np.asarray(np.abs(level - score) / abs(score))
    reachable = np.abs(level) <= longest
    turn = np.abs(
        np.arccos(np.clip(level / longest, -1, 1)) - np.arccos(np.clip(score / longest, -1, 1))
    )
    return np.where(reachable & (turn < np.pi / 2), np.tan(turn), np.inf)


def _not_applicable(config: ClassifierConfig) -> list[str]:
    notes = []
    if config.d_head == 1:
        notes.append("a key of one number has no direction to turn in, so only its norm is moved")
    if config.n_layers > 1:
        notes.append("only keys of the first layer are moved: later they vary with the string")
    return notes
