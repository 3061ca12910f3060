"""How does attention find the place in a picture that a sentence names?

The picture is a mosaic of handwritten digits, the sentence so far names a place (`top left is`),
and the next word is the digit that stands there. Learned filters turn the picture into one feature
vector per location. The state of a recurrent network over the words is the context vector. Each
location gets a score from both, and the average of the features, weighted by the softmax of the
scores, gives the next word together with the state. The formulas are in `network.py`.

The network is never told where `top left` is; it learns this from right and wrong words. The
laboratory measures how often the next word is right, and how often the largest weight lies in the
named place, on digits that training never saw. Two networks that cannot look serve for comparison:
one with uniform weights, trained in the same way, and one that was never trained. A network that
reads every digit but does not know the place can be right as often as the most frequent digit of
the picture occurs.

A sentence continues with a second place (`top left is seven bottom right is`), so the state has to
keep the place that was named last.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tsc_interp.laboratories.base import LabeledArray, Progress
from tsc_interp.laboratories.image.mosaics import (
    NUMBERS,
    Digits,
    Questions,
    attended,
    blind_guess,
    draw,
    place_names,
    pointed_at,
    split_digits,
    vocabulary,
    write,
)
from tsc_interp.laboratories.image.network import Network, answer, seeded, train
from tsc_interp.laboratories.image.result import (
    ARMS,
    LOOKING,
    QUESTIONS,
    TRAINED,
    UNIFORM,
    UNTRAINED,
    ImageOptions,
    ImageResult,
    Shown,
)
from tsc_interp.model.threads import one_thread

Networks = dict[tuple[str, int], Network]


@one_thread()
def run(asked: ImageOptions, progress: Progress) -> ImageResult:
    digits, held_out = split_digits()
    networks = _networks(asked, digits, progress)
    progress("testing on digits that were held out")
    rng = np.random.default_rng([asked.seed, 1])
    test = draw(rng, held_out, asked.grid, asked.test, 1)
    first = networks[TRAINED, asked.seed]
    return ImageResult(
        options=asked,
        blind=blind_guess(test.digits),
        **_tested(asked, networks, digits, test),
        **_drawn(asked, first, digits, test),
        filters=LabeledArray.of(
            first.filters[0].get_parameter("weight").detach()[:, 0].double().numpy(),
            filter=range(asked.filters), row=range(3), column=range(3),
        ),
    )  # fmt: skip


def _networks(asked: ImageOptions, digits: Digits, progress: Progress) -> Networks:
    """Every arm from the same initial weights, with the same pictures, seed by seed."""
    networks: Networks = {}
    for seed in range(asked.seed, asked.seed + asked.seeds):
        for arm in ARMS:
            with seeded(seed):
                network = Network(asked, len(vocabulary(asked.grid)), uniform=arm == UNIFORM)
            if arm != UNTRAINED:
                progress(f"training: {arm}, seed {seed}")
                train(network, asked, digits, seed)
            networks[arm, seed] = network
    return networks


def _tested(
    asked: ImageOptions, networks: Networks, digits: Digits, test: Questions
) -> dict[str, Any]:
    seeds, names = range(asked.seed, asked.seed + asked.seeds), place_names(asked.grid)
    shape = (len(ARMS), asked.seeds, len(QUESTIONS))
    right, pointed, earlier = np.zeros(shape), np.zeros(shape), np.zeros(shape[:2])
    looking = [ARMS.index(arm) for arm in LOOKING]
    looked = np.zeros(shape[1:])
    weight = np.zeros((len(names), len(names)))
    places = test.places[:, 0]
    for (arm, seed), network in networks.items():
        i, k = ARMS.index(arm), seed - asked.seed
        words, weights = (part[:, 0] for part in answer(network, digits, test))
        good, at = words == test.answers[:, 0], pointed_at(weights, asked.grid)
        right[i, k], pointed[i, k] = good.sum(axis=0), (at == places).sum(axis=0)
        earlier[i, k] = (at[:, 1] == places[:, 0]).sum()
        if arm == TRAINED:
            looked[k] = (~good & (at == places)).sum(axis=0)
            attention = attended(weights[:, 1], asked.grid)
            weight += [attention[places[:, 1] == place].mean(axis=0) for place in range(len(names))]
    return {
        "right": LabeledArray.of(right, arm=ARMS, seed=seeds, question=QUESTIONS),
        "pointed": LabeledArray.of(pointed[looking], arm=LOOKING, seed=seeds, question=QUESTIONS),
        "earlier": LabeledArray.of(earlier[looking], arm=LOOKING, seed=seeds),
        "looked": LabeledArray.of(looked, seed=seeds, question=QUESTIONS),
        "weight": LabeledArray.of(weight / asked.seeds, named=names, place=names),
    }


def _drawn(
    asked: ImageOptions, network: Network, digits: Digits, test: Questions
) -> dict[str, Any]:  # fmt: skip
    """Four sentences about the first picture whose digits in the corners all differ."""
    last = asked.grid - 1
    corners = np.array([0, last, last * asked.grid, asked.grid**2 - 1])
    picked = next(
        (i for i, row in enumerate(test.digits) if len(set(row[corners].tolist())) == 4), 0
    )
    # Two sentences ask for the upper corners at once, two go on from there to the lower ones.
    places = corners[[[0, 3], [1, 2], [1, 2], [0, 3]]]
    own = test.digits[picked]
    words, answers = write(places, np.broadcast_to(own, (4, len(own))), asked.grid)
    picture = test.pictures[picked]
    batch = Questions(picture[None], own[None], words[None], places[None], answers[None])
    likeliest, weights = (part[0] for part in answer(network, digits, batch))
    known, names = vocabulary(asked.grid), place_names(asked.grid)
    shown, maps = [], []
    for s in range(4):
        q = int(s >= 2)
        size = words.shape[-1] if q else words.shape[-1] // 2
        shown.append(
            Shown(
                sentence=" ".join(known[word] for word in words[s, :size]),
                place=names[places[s, q]],
                word=NUMBERS[own[places[s, q]]],
                answer=known[likeliest[s, q]],
            )
        )
        maps.append(weights[s, q])
    side = round(float(np.sqrt(len(maps[0]))))
    return {
        "picture": LabeledArray.of(
            picture, row=range(picture.shape[0]), column=range(picture.shape[1])
        ),
        "maps": LabeledArray.of(
            np.array(maps).reshape(-1, side, side),
            sentence=range(4), row=range(side), column=range(side),
        ),
        "shown": tuple(shown),
    }  # fmt: skip
