"""How does attention find the place in a picture that a sentence names?

The picture is a mosaic of handwritten digits, the sentence so far names a place (`top left is`),
and the next word is the digit that stands there. Learned filters turn the picture into one feature
vector per location. The state of a recurrent network over the words is the context vector. Each
location gets a score from both, and the average of the features, weighted by the softmax of the
scores, gives the next word together with the state.

    features   f_l = conv, ReLU, pool; conv, ReLU, pool; conv, ReLU      at each location l
    context    h   = the state of a GRU after the words so far
    score      s_l = (W h) · (f_l + p_l) / √d                            p_l is learned
    weights    α   = softmax over locations of s
    next word      = softmax of  U [Σ_l α_l f_l ; h]

The network is never told where `top left` is; it learns this from right and wrong words. The
laboratory measures how often the next word is right, and how often the largest weight lies in the
named place, on digits that training never saw. A network with uniform weights, trained in the same
way, cannot look. Who reads every digit but does not know the place can be right as often as the
most frequent digit of the picture occurs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tsc_interp.errors import needed
from tsc_interp.laboratories.base import (
    Finding,
    LabeledArray,
    LabOptions,
    LabResult,
    Number,
    Progress,
    Record,
    option,
)
from tsc_interp.results.intervals import share_interval
from tsc_interp.results.views import Drawing, Rows, shown

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Pixels = NDArray[np.float32]
ARMS = TRAINED, UNIFORM = ("trained", "uniform attention")
SIDE, POOLED = 8, 4
"""Pixels of a digit, and of a location."""
HELD_OUT = 500
"""Digits that no picture of training has."""
WIDTH, STATE = 32, 24
"""Of a feature; of the recurrent state, and of a word's vector."""
RATE = 0.015
NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_ROWS = {2: ("top", "bottom"), 3: ("top", "middle", "bottom")}
_COLUMNS = {2: ("left", "right"), 3: ("left", "centre", "right")}


class ImageOptions(LabOptions):
    QUICK: ClassVar = {"grid": 2, "steps": 150, "sentences": 8, "seeds": 1, "test": 1000}

    grid: int = option(3, "Digits across and down in a picture.", ge=2, le=3)
    filters: int = option(8, "In the first convolution.", ge=2, le=64)
    steps: int = option(300, "Of training, for each model.", ge=1, le=20_000)
    pictures: int = option(24, "In a step of training.", ge=1, le=512)
    sentences: int = option(16, "About each picture of a step.", ge=1, le=64)
    seeds: int = option(3, "Of initial weights.", ge=1, le=32)
    test: int = option(2000, "Pictures to test with.", ge=100, le=50_000)
    seed: int = option(0, "The first seed, and the draws'.", ge=0, lt=2**32)


class Shown(Record):
    """A sentence about the picture that is drawn, the next word, and the model's."""

    place: str
    word: str
    answer: str


class ImageResult(LabResult):
    probe: ClassVar[str] = "image"

    options: ImageOptions
    right: LabeledArray
    """`[arm seed]`: next words that are right, of `options.test`."""
    pointed: LabeledArray
    """`[seed]`: how often a trained network's largest weight lies in the named place."""
    weight: Number
    """The trained networks' mean weight in the named place."""
    blind: Number
    """The share of right words for somebody who knows every digit and not which is asked for."""
    picture: LabeledArray
    """`[row column]`: ink from 0 to 1."""
    maps: LabeledArray
    """`[sentence row column]`: the first trained network's weights over that picture."""
    sentences: Annotated[tuple[Shown, ...], Rows(
        "The sentences that are drawn",
        headings={"place": "named place", "word": "next word", "answer": "the network's"},
    )]  # fmt: skip

    @shown(Rows("Share of next words that are right"))
    def arms(self) -> LabeledArray:
        seeds = [f"seed {seed}" for seed in self.right.labels["seed"]]
        return LabeledArray.of(self.right.array / self.options.test, network=ARMS, seed=seeds)

    @shown(Drawing(
        "Where the network looks for the next word",
        "One picture of held-out digits, four sentences. Rust is the attention weight of each "
        "location, darkest where it is largest; bold is the network's next word.",
        name="maps",
    ))  # fmt: skip
    def attention_map(self) -> tuple[Any, str]:
        return attention_map(self)

    def told(self, counts: Sequence[float]) -> str:
        """`96.2% (95% CI 95.3% to 97.0%)`; of several seeds the mean and the outermost ends."""
        test = self.options.test
        ends = [share_interval(int(count), test) for count in counts]
        low, high = min(end.low for end in ends), max(end.high for end in ends)
        of = "95% CI" if len(ends) == 1 else f"mean of {len(ends)} seeds, with 95% CIs within"
        return f"{np.mean(counts) / test:.1%} ({of} {low:.1%} to {high:.1%})"

    def conclude(self) -> Iterator[Finding]:
        test, places = self.options.test, self.options.grid**2
        trained, uniform = (self.right.at(arm=arm).tolist() for arm in ARMS)
        learned = share_interval(int(min(trained)), test).low > self.blind
        yield Finding.of(
            f"After {self.options.steps:,} steps the next word is right for {self.told(trained)} "
            f"of {test:,} pictures of held-out digits, and the largest of the "
            f"{self.maps.array[0].size} weights lies in the named place for "
            f"{self.told(self.pointed.array.tolist())} (chance, with {places} places: "
            f"{1 / places:.1%}). On average {self.weight:.1%} of the weight lies there. The "
            "network learned the places from words alone; no attention map was given.",
            {"words": float(np.mean(trained)) / test, "weight": self.weight, "seeds": len(trained)},
            "good" if learned else "warning",
        )
        yield Finding.of(
            "With the same weight at every location and otherwise the same training, the next "
            f"word is right for {self.told(uniform)}. The best possible accuracy without knowing "
            f"the place is {self.blind:.1%}, by naming the most frequent digit of each picture.",
            {"words": float(np.mean(uniform)) / test, "without the place": self.blind},
        )


def attention_map(result: ImageResult) -> tuple[Any, str]:
    """One picture, four sentences: where the network looks for the next word."""
    from tsc_interp.plots.colours import INK, MUTED, SHARE, faint
    from tsc_interp.plots.heat import side_by_side

    titles = [
        f"{one.place} is <b>{one.answer}</b>"
        + (f" (it is {one.word})" if one.answer != one.word else "")
        for one in result.sentences
    ]
    figure = side_by_side(titles, 2, 680, y_gap=0.2)
    bare = {"visible": False, "constrain": "domain"}
    figure.update_xaxes(bare).update_yaxes(bare, autorange="reversed", scaleratio=1)
    figure.for_each_yaxis(lambda axis: axis.update(scaleanchor=axis.anchor))
    picture, across = result.picture.array, result.maps.shape[-1]
    step = len(picture) / across
    middles = [step * (i + 0.5) - 0.5 for i in range(across)]
    clear = [(0.0, faint(MUTED[2], 0.0)), (1.0, faint(MUTED[2], 0.85))]
    for place, weights in enumerate(result.maps.array):
        at = {"row": place // 2 + 1, "col": place % 2 + 1}
        figure.add_heatmap(z=picture, showscale=False, **SHARE, hoverinfo="skip", **at)
        for cut in range(1, result.options.grid):
            edge = cut * SIDE - 0.5
            figure.add_hline(edge, line={"color": INK, "width": 1}, **at)
            figure.add_vline(edge, line={"color": INK, "width": 1}, **at)
        figure.add_heatmap(
            z=weights, x=middles, y=middles, showscale=False, colorscale=clear, zmin=0.0,
            zmax=float(weights.max()), hovertemplate="weight %{z:.3f}<extra></extra>", **at,
        )  # fmt: skip
    said = (
        f"{one.place}: {one.answer}, where {one.word} stands; largest weight {weights.max():.0%}"
        for one, weights in zip(result.sentences, result.maps.array, strict=True)
    )
    return figure, f"{'; '.join(said)}."


# -- pictures and sentences ------------------------------------------------------------------------


@dataclass(frozen=True)
class Digits:
    """Images `[digit row column]`, ink from 0 to 1, and which digit each is."""

    images: Pixels
    labels: Integers

    def standardised(self, pictures: Pixels) -> Pixels:
        """Return pictures with this set's mean ink at 0 and its deviation at 1."""
        return np.asarray((pictures - self.images.mean()) / self.images.std(), dtype=np.float32)


@dataclass(frozen=True)
class Questions:
    """Pictures, sentences about each, and the place and word that each asks for."""

    pictures: Pixels
    """`[picture row column]`, ink from 0 to 1."""
    digits: Integers
    """`[picture place]`."""
    places: Integers
    """`[picture sentence]`."""

    def words(self, grid: int) -> Integers:
        """`[picture sentence word]`: row, column, `is`."""
        places = self.places
        parts = [places // grid, grid + places % grid, np.full_like(places, 2 * grid)]
        return np.stack(parts, axis=-1)

    def answers(self, grid: int) -> Integers:
        """`[picture sentence]`, as words."""
        return np.take_along_axis(self.digits, self.places, axis=1) + 2 * grid + 1


def split_digits() -> tuple[Digits, Digits]:
    """Return the digits to train with and the 500 to test with, the same on every call."""
    loaded = needed("sklearn.datasets", "the laboratory image", "'tsc-interp[labs]'").load_digits()
    images, labels = (loaded.images / 16).astype(np.float32), loaded.target.astype(np.int64)
    order = np.random.default_rng(0).permutation(len(labels))
    kept, held_out = order[HELD_OUT:], order[:HELD_OUT]
    return Digits(images[kept], labels[kept]), Digits(images[held_out], labels[held_out])


def vocabulary(grid: int) -> tuple[str, ...]:
    """Return the words: rows, columns, `is`, numbers."""
    return (*_ROWS[grid], *_COLUMNS[grid], "is", *NUMBERS)


def place_names(grid: int) -> tuple[str, ...]:
    """Return `top left` and so on, row by row."""
    return tuple(f"{row} {column}" for row in _ROWS[grid] for column in _COLUMNS[grid])


def compose(tiles: Pixels) -> Pixels:
    """Return `[picture row column]` from tiles `[picture place row column]`."""
    grid = math.isqrt(tiles.shape[1])
    by_rows = tiles.reshape(-1, grid, grid, SIDE, SIDE).swapaxes(2, 3)
    return by_rows.reshape(-1, grid * SIDE, grid * SIDE)


def draw(
    rng: np.random.Generator, digits: Digits, grid: int, pictures: int, sentences: int
) -> Questions:
    """Draw pictures, and sentences that name places of each."""
    chosen = rng.integers(len(digits.labels), size=(pictures, grid**2))
    places = rng.integers(grid**2, size=(pictures, sentences))
    return Questions(compose(digits.images[chosen]), digits.labels[chosen], places)


def blind_guess(digits: Integers) -> float:
    """Return how often the commonest digit of a picture is the right one, a random place asked.

    Nobody who knows all digits of a picture and not the place does better.
    """
    counts = (digits[..., None] == np.arange(len(NUMBERS))).sum(axis=1)
    return float((counts.max(axis=-1) / digits.shape[1]).mean())


def attended(weights: Floats, grid: int) -> Floats:
    """Return the weight in each place, `[... place]`, from weights by location `[... location]`."""
    across = math.isqrt(weights.shape[-1]) // grid
    split = weights.reshape(*weights.shape[:-1], grid, across, grid, across)
    return np.asarray(split.sum(axis=(-3, -1)).reshape(*weights.shape[:-1], grid**2))


def pointed_at(weights: Floats, grid: int) -> Integers:
    """Return the place that holds the location with the largest weight."""
    side = math.isqrt(weights.shape[-1])
    row, column = np.divmod(weights.argmax(axis=-1), side)
    return np.asarray(row // (side // grid) * grid + column // (side // grid))


# -- the network -----------------------------------------------------------------------------------


def new_network(asked: ImageOptions, seed: int, *, uniform: bool = False) -> Any:
    """With `uniform`, every location has the same weight, whatever its score."""
    import torch
    from torch import Tensor, nn
    from torch.nn import functional

    words = len(vocabulary(asked.grid))

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            sizes = (1, asked.filters, 2 * asked.filters, WIDTH)
            convolutions = [nn.Conv2d(a, b, 3, padding=1) for a, b in pairwise(sizes)]
            for convolution in convolutions:
                nn.init.kaiming_normal_(convolution.weight, nonlinearity="relu")
            self.filters = nn.ModuleList(convolutions)
            self.words = nn.Embedding(words, STATE)
            self.recurrent = nn.GRU(STATE, STATE, batch_first=True)
            self.places = nn.Parameter(torch.randn((asked.grid * SIDE // POOLED) ** 2, WIDTH))
            self.query = nn.Linear(STATE, WIDTH)
            self.next = nn.Linear(WIDTH + STATE, words)

        def features(self, pictures: Tensor) -> Tensor:
            """`[picture location feature]`."""
            seen = pictures[:, None]
            for place, convolution in enumerate(self.filters):
                seen = functional.relu(convolution(seen))
                if place < 2:
                    seen = functional.max_pool2d(seen, 2)
            return seen.flatten(2).transpose(1, 2)

        def forward(self, pictures: Tensor, words: Tensor) -> tuple[Tensor, Tensor]:
            """Return logits `[picture sentence word]` and weights over locations."""
            features = self.features(pictures)
            states = self.recurrent(self.words(words.flatten(0, 1)))[0][:, -1]
            states = states.unflatten(0, words.shape[:2])
            scores = torch.einsum("nsd,nld->nsl", self.query(states), features + self.places)
            weights = (scores / math.sqrt(WIDTH)).softmax(-1)
            if uniform:
                weights = torch.full_like(weights, 1 / weights.shape[-1])
            seen = torch.einsum("nsl,nld->nsd", weights, features)
            return self.next(torch.cat([seen, states], dim=-1)), weights

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Network()


def train(network: Any, asked: ImageOptions, digits: Digits, seed: int) -> None:
    """Adam on the cross-entropy of the answers, the rate rising to 0.015 and back to zero."""
    import torch

    from tsc_interp.laboratories.trained import descend

    rng = np.random.default_rng([seed, 0])

    def losses() -> Iterator[Any]:
        for _ in range(asked.steps):
            batch = draw(rng, digits, asked.grid, asked.pictures, asked.sentences)
            pictures = torch.from_numpy(digits.standardised(batch.pictures))
            logits, _ = network(pictures, torch.from_numpy(batch.words(asked.grid)))
            wanted = torch.from_numpy(batch.answers(asked.grid)).flatten()
            yield torch.nn.functional.cross_entropy(logits.flatten(0, 1), wanted)

    def cycle(optimiser: Any) -> Any:
        return torch.optim.lr_scheduler.OneCycleLR(optimiser, RATE, total_steps=asked.steps + 1)

    descend(network.parameters(), losses(), RATE, cycle)


def answer(network: Any, digits: Digits, batch: Questions, grid: int) -> tuple[Integers, Floats]:
    """Return the likeliest words `[picture sentence]` and the weights over locations.

    `digits` are those that training drew from, for their mean and deviation.
    """
    import torch

    pictures = torch.from_numpy(digits.standardised(batch.pictures))
    words = torch.from_numpy(batch.words(grid))
    pairs = zip(torch.split(pictures, 250), torch.split(words, 250), strict=True)
    with torch.no_grad():
        parts = [network(*pair) for pair in pairs]
    likeliest = torch.cat([logits.argmax(-1) for logits, _ in parts]).numpy()
    return likeliest, torch.cat([weights for _, weights in parts]).double().numpy()


def run(asked: ImageOptions, progress: Progress) -> ImageResult:
    from tsc_interp.model.threads import one_thread

    digits, held_out = split_digits()
    grid, seeds = asked.grid, range(asked.seed, asked.seed + asked.seeds)
    test = draw(np.random.default_rng([asked.seed, 1]), held_out, grid, asked.test, 1)
    right = np.zeros((len(ARMS), asked.seeds))
    pointed, weight = np.zeros(asked.seeds), np.zeros(asked.seeds)
    drawn: dict[str, Any] = {}
    with one_thread():
        for (i, arm), (k, seed) in ((a, s) for s in enumerate(seeds) for a in enumerate(ARMS)):
            progress(f"training: {arm}, seed {seed}")
            network = new_network(asked, seed, uniform=arm == UNIFORM)
            train(network, asked, digits, seed)
            said, over = answer(network, digits, test, grid)
            weights, place = over[:, 0], test.places[:, 0]
            right[i, k] = (said == test.answers(grid)).sum()
            if arm == TRAINED:
                pointed[k] = (pointed_at(weights, grid) == place).sum()
                own = np.take_along_axis(attended(weights, grid), place[:, None], axis=1)
                weight[k] = own.mean()
                drawn = drawn or _drawn(asked, network, digits, test)
    return ImageResult(
        options=asked,
        right=LabeledArray.of(right, arm=ARMS, seed=seeds),
        pointed=LabeledArray.of(pointed, seed=seeds),
        weight=float(weight.mean()),
        blind=blind_guess(test.digits),
        **drawn,
    )


def _drawn(asked: ImageOptions, network: Any, digits: Digits, test: Questions) -> dict[str, Any]:
    """Sentences about the corners of the first picture whose digits there all differ."""
    grid, known, names = asked.grid, vocabulary(asked.grid), place_names(asked.grid)
    corners = np.array([0, grid - 1, grid * (grid - 1), grid**2 - 1])
    picked = next((i for i, row in enumerate(test.digits) if len({*row[corners]}) == 4), 0)
    own = test.digits[picked]
    batch = Questions(test.pictures[picked][None], own[None], corners[None])
    said, weights = (part[0] for part in answer(network, digits, batch, grid))
    side, pixels = math.isqrt(weights.shape[-1]), range(grid * SIDE)
    return {
        "picture": LabeledArray.of(test.pictures[picked], row=pixels, column=pixels),
        "maps": LabeledArray.of(
            weights.reshape(-1, side, side), sentence=range(4), row=range(side), column=range(side)
        ),
        "sentences": tuple(
            Shown(place=names[place], word=NUMBERS[own[place]], answer=known[word])
            for place, word in zip(corners, said, strict=True)
        ),
    }
