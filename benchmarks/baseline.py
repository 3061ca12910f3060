"""The report's training the way most people would write it: the yardstick, and the oracle in tests.

Padded token batches, full attention over all positions, an nn.Module, autograd, one seed at a time,
data drawn with NumPy's own calls for every run. Nothing here is imported from tsc_interp, so that
agreement between the two means something.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice, product

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

CLS, PAD, FIRST_LETTER = 0, 1, 2
LETTERS = "abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True)
class Options:
    """What the report varies; its walk-through model by default."""

    n_letters: int = 3
    positive: str = "ab"
    d_model: int = 2
    n_heads: int = 2
    d_head: int = 1
    d_mlp: int = 2
    attend_cls: bool = False
    norm: str = "off"
    linear_like_embedding: bool = False
    attention_fan_out: bool = False
    mlp_fan_out: bool = False
    all_strings_of_length: int = 0


# -- data --------------------------------------------------------------------------------------


def balanced_strings(
    max_length: int,
    alpha: float,
    batch_size: int,
    seed: int,
    n_letters: int = 3,
    positive: str = "ab",
) -> Iterator[list[str]]:
    """Batches without end, each from its own legacy generator."""
    others = [letter for letter in LETTERS[:n_letters] if letter not in positive]
    slots = 2 ** len(positive) + len(positive) + 1
    sizes = [batch_size // slots + (slot < batch_size % slots) for slot in range(slots)]
    last = 2 ** len(positive) - 1
    while True:
        random = np.random.RandomState(seed)
        budget = [*sizes[:last], sum(sizes[last:])]
        batch = []
        for _ in range(batch_size):
            available = [subset for subset, left in enumerate(budget) if left > 0]
            subset = available[random.randint(len(available))]
            budget[subset] -= 1
            letters = [letter for bit, letter in enumerate(positive) if subset >> bit & 1]
            length = random.randint(max(len(letters), 1), max_length + 1)
            characters = []
            if letters:
                total = random.randint(len(letters), length + 1)
                shares = random.dirichlet([alpha / len(letters)] * len(letters))
                repeats = 1 + random.multinomial(total - len(letters), shares)
                for letter, repeat in zip(letters, repeats, strict=True):
                    characters += [letter] * int(repeat)
            remaining = length - len(characters)
            if remaining:
                picks = random.randint(len(others), size=remaining)
                characters += [others[pick] for pick in picks]
            batch.append("".join(sorted(characters)))
        yield batch
        seed = int(random.randint(2**32))


def encode(strings: list[str]) -> Tensor:
    longest = max(len(string) for string in strings)
    rows = [
        [CLS, *(FIRST_LETTER + LETTERS.index(letter) for letter in string)]
        + [PAD] * (longest - len(string))
        for string in strings
    ]
    return torch.tensor(rows)


def labels_of(strings: list[str], positive: str) -> Tensor:
    return torch.tensor([float(all(letter in string for letter in positive)) for string in strings])


# -- model -------------------------------------------------------------------------------------


class RMSNorm(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight


def make_norm(options: Options) -> nn.Module:
    if options.norm == "rms":
        return RMSNorm(options.d_model)
    return nn.LayerNorm(options.d_model) if options.norm == "layer" else nn.Identity()


class Classifier(nn.Module):
    def __init__(self, options: Options, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.options = options
        d, width = options.d_model, options.n_heads * options.d_head
        self.embedding = nn.Embedding(FIRST_LETTER + options.n_letters, d)
        self.query = nn.Linear(d, width, bias=False)
        self.key = nn.Linear(d, width, bias=False)
        self.value = nn.Linear(d, width, bias=False)
        self.output = nn.Linear(width, d, bias=False)
        self.mlp_in = nn.Linear(d, options.d_mlp, bias=False)
        self.mlp_out = nn.Linear(options.d_mlp, d, bias=False)
        self.readout = nn.Linear(d, 1, bias=False)
        self.norm1, self.norm2 = make_norm(options), make_norm(options)
        with torch.no_grad():
            if options.linear_like_embedding:
                nn.init.kaiming_uniform_(self.embedding.weight, a=5**0.5)
            self.embedding.weight[PAD] = 0.0
            if options.attention_fan_out:
                nn.init.kaiming_uniform_(self.output.weight, a=5**0.5, mode="fan_out")
            if options.mlp_fan_out:
                nn.init.kaiming_uniform_(self.mlp_out.weight, a=5**0.5, mode="fan_out")

    def forward(self, tokens: Tensor) -> Tensor:
        attended = tokens != PAD
        if not self.options.attend_cls:
            attended = attended & (tokens != CLS)
        x = self.embedding(tokens)
        x = x + self.attention(self.norm1(x), attended)
        x = x + self.mlp_out(nn.functional.gelu(self.mlp_in(self.norm2(x))))
        return self.readout(x[:, 0]).squeeze(-1)

    def attention(self, x: Tensor, attended: Tensor) -> Tensor:
        batch, positions, _ = x.shape
        heads, size = self.options.n_heads, self.options.d_head
        q, k, v = (
            layer(x).view(batch, positions, heads, size).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        scores = q @ k.transpose(-2, -1) / size**0.5
        scores = scores.masked_fill(~attended[:, None, None, :], float("-inf"))
        mixed = scores.softmax(-1) @ v
        return self.output(mixed.transpose(1, 2).reshape(batch, positions, heads * size))


# -- training ----------------------------------------------------------------------------------


@dataclass
class Outcome:
    model: Classifier
    losses: list[float] = field(default_factory=list)
    states: list[dict[str, Tensor]] = field(default_factory=list)
    chosen_epoch: int = 0
    steps: int = 0

    @property
    def epochs(self) -> int:
        return len(self.losses)


def train(options: Options, seed: int, max_epochs: int = 30) -> Outcome:
    """One run of the report, start to end. `states[e]` are the weights after epoch e."""
    model = Classifier(options, seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.5, 30)
    loss_of = nn.BCEWithLogitsLoss()
    epochs = train_batches(options)
    outcome = Outcome(model, states=[snapshot(model)])
    best_since_5, patience = float("inf"), 3
    for epoch in range(1, max_epochs + 1):
        for strings in next(epochs):
            optimizer.zero_grad()
            loss = loss_of(model(encode(strings)), labels_of(strings, options.positive))
            loss.backward()
            optimizer.step()
            outcome.steps += 1
        schedule.step()
        outcome.states.append(snapshot(model))
        outcome.losses.append(validation_loss(model, options))
        if epoch >= 5:
            loss_now = outcome.losses[-1]
            if loss_now < 0.05:
                break
            if loss_now < best_since_5:
                best_since_5, patience = loss_now, 3
            else:
                patience -= 1
                if patience == 0:
                    break
    outcome.chosen_epoch = 1 + int(np.argmin(outcome.losses))
    model.load_state_dict(outcome.states[outcome.chosen_epoch])
    return outcome


def train_batches(options: Options) -> Iterator[Iterator[list[str]]]:
    """For each epoch, its batches."""
    if options.all_strings_of_length:
        alphabet = LETTERS[: options.n_letters]
        strings = ["".join(s) for s in product(alphabet, repeat=options.all_strings_of_length)]
        generator = torch.Generator().manual_seed(0)
        loader = DataLoader(
            strings, batch_size=64, shuffle=True, generator=generator, collate_fn=list
        )
        while True:
            yield iter(loader)
    stream = balanced_strings(10, 1.0, 64, 0, options.n_letters, options.positive)
    while True:
        yield islice(stream, 10_000 // 64)


def snapshot(model: Classifier) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in model.state_dict().items()}


@torch.no_grad()
def validation_loss(model: Classifier, options: Options) -> float:
    loss_of = nn.BCEWithLogitsLoss(reduction="sum")
    stream = balanced_strings(50, 0.5, 64, 0, options.n_letters, options.positive)
    total = 0.0
    for strings in islice(stream, 1_000 // 64):
        total += loss_of(model(encode(strings)), labels_of(strings, options.positive)).item()
    return total


@torch.no_grad()
def confusion_matrix(
    model: Classifier, options: Options, batches: int = 10_000 // 256
) -> list[list[int]]:
    """[[TN, FP], [FN, TP]] on the report's test set."""
    matrix = np.zeros((2, 2), dtype=int)
    stream = balanced_strings(200, 0.1, 256, 2, options.n_letters, options.positive)
    for strings in islice(stream, batches):
        predicted = (model(encode(strings)) > 0).int()
        for label, prediction in zip(labels_of(strings, options.positive), predicted, strict=True):
            matrix[int(label), int(prediction)] += 1
    return matrix.tolist()
