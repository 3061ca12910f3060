"""One-layer models that see the order of letters: random ones over every option, and by hand."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from tsc_interp.checkpoints import Checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.model.initialise import initial_weights
from tsc_interp.tasks.counts import AtLeast, ContainsAll, Majority, Maximum, Parity
from tsc_interp.tasks.order import Before


def random_config(seed: int) -> ClassifierConfig:
    """Any combination of options, at sizes at which every string can be looked at."""
    draw = random.Random(seed)
    reads = draw.choice(["first", "last", "last_letter"])
    norm = draw.choice(["off", "off", "off", "rms", "layer", "rms_pre", "layer_pre"])
    positions = draw.choice([0, 4, 5])
    grows = reads == "first" and draw.random() < 0.3
    return ClassifierConfig(
        n_letters=draw.choice([2, 3, 4]),
        task=draw.choice(
            [ContainsAll(), AtLeast(letter="b", k=2), Majority(letter="a"), Parity(letter="b")]
        ),
        n_heads=draw.choice([0, 1, 1, 2, 3]),
        d_model=draw.choice([2, 3, 5]),
        d_head=draw.choice([1, 2]),
        d_mlp=draw.choice([0, 0, 2, 4]),
        norm=norm,
        final_norm=norm != "off" and draw.random() < 0.5,
        attend_cls=reads != "first" or draw.random() < 0.5,
        n_positions=positions,
        positions=draw.choice(["learned", "sinusoidal"]) if positions else "learned",
        reads=reads,
        biases=draw.random() < 0.5,
        act_fn=draw.choice(["gelu", "gelu_new", "relu", "silu"]),
        n_outputs=draw.choice([1, 1, 2, 3, 4]),
        score_scale="sqrt_d_head_log_n" if grows else "sqrt_d_head",
    )


def wide_config(seed: int, *, gated: bool = True) -> ClassifierConfig:
    """The same with every option of the family that public models have."""
    draw, config = random.Random(1000 + seed), random_config(seed)
    heads = draw.choice([1, 2, 4])
    kinds = ["learned", "sinusoidal", "rotary", "shortformer", *["alibi"] * config.causal]
    positions = draw.choice(kinds) if config.n_positions else "learned"
    rotary = positions == "rotary"
    return config.replace(
        n_heads=heads,
        d_head=draw.choice([2, 4]),
        n_key_value_heads=draw.choice([n for n in (0, 1, 2, 4) if not n or heads % n == 0]),
        positions=positions,
        rotary_dim=2 if rotary and draw.random() < 0.5 else 0,
        rotary_base=100.0 if rotary and draw.random() < 0.5 else 10_000.0,
        rotary_adjacent_pairs=rotary and draw.random() < 0.5,
        qk_norm=draw.choice(["off", "rms", "rms_pre"]),
        attention_scale=draw.choice([0.0, 0.7, 3.0]),
        gated_mlp=gated and config.has_mlp and draw.random() < 0.5,
        tied_embeddings=config.n_outputs == config.n_letters and draw.random() < 0.8,
        norm_eps=draw.choice([1e-5, 1e-8, 0.01]),
    )


def ordered_checkpoint(config: ClassifierConfig, seed: int, scale: float = 2.0) -> Checkpoint:
    """Fresh weights made larger and none of them zero, so that every part has a say."""
    noise = np.random.default_rng(seed)
    return Checkpoint(
        config,
        {
            name: (w.numpy() * scale + noise.normal(size=w.shape) * scale / 4).astype(np.float32)
            for name, w in initial_weights(config, seed).items()
        },
    )


def random_task(config: ClassifierConfig, seed: int) -> Any:
    """One that the model has outputs for."""
    known: list[Any] = [config.task, Before(first="b", second="a")]
    if config.n_outputs >= config.n_letters:
        known += [Maximum(), Maximum()]
    return random.Random(seed).choice(known)


def with_task(checkpoint: Checkpoint, task: Any) -> Checkpoint:
    """The same weights, asked about another task."""
    return Checkpoint(checkpoint.config.replace(task=task), checkpoint.weights)


def labels_of(task: Any, rows: Any, n_letters: int) -> Any:
    """Classes of strings `[string position]`, whatever the task looks at."""
    return task.classes(rows if task.ordered else (rows[:, :, None] == np.arange(n_letters)).sum(1))


def longest(config: ClassifierConfig, most: int) -> int:
    """The longest strings of a model of which there are at most so many."""
    fits = (config.n_positions or 99) - int(config.has_cls)
    return max(n for n in range(1, fits + 1) if n == 1 or config.n_letters**n <= most)


def copying(letters: int = 3, sharpness: float = 4.0, **options: Any) -> Checkpoint:
    """max-of-k by hand: the last letter looks at the largest letter and copies it.

    Letter i scores `sharpness` · i whoever asks, and its value is the i-th unit vector, so the
    largest letter has the largest output as long as the others are not too many.
    """
    config = ClassifierConfig(
        n_letters=letters, n_heads=1, d_head=letters, d_model=letters + 1, d_mlp=0,
        n_outputs=letters, reads="last_letter", attend_cls=True,
        task=ContainsAll(letters="a"), **options,
    )  # fmt: skip
    embedding = np.zeros((letters + 2, letters + 1))
    embedding[2:, :letters] = np.eye(letters)
    embedding[2:, letters] = 1.0
    query, key = np.zeros((1, letters + 1, letters)), np.zeros((1, letters + 1, letters))
    query[0, letters, 0] = np.sqrt(letters)
    key[0, :letters, 0] = sharpness * np.arange(letters)
    value, out = np.zeros_like(query), np.zeros((1, letters, letters + 1))
    value[0, :letters] = np.eye(letters)
    out[0, :, :letters] = 8 * np.eye(letters)
    unembed = np.zeros((letters + 1, letters))
    unembed[:letters] = np.eye(letters)
    arrays = {
        "embed.W_E": embedding,
        "blocks.0.attn.W_Q": query,
        "blocks.0.attn.W_K": key,
        "blocks.0.attn.W_V": value,
        "blocks.0.attn.W_O": out,
        "unembed.W_U": unembed,
    }
    if config.has_positions:
        arrays["pos_embed.W_pos"] = np.zeros((config.n_positions, letters + 1))
    return Checkpoint(config, {name: a.astype(np.float32) for name, a in arrays.items()})
