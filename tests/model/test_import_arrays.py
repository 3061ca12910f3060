"""A model whose architecture is stated by hand: arrays in, the same outputs out, or a clear no."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

import tsc_interp as tsc
from studies.public_models.readers import adder, cumulative_sum
from tsc_interp.checkpoints import Checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import CheckpointError, UnsupportedError
from tsc_interp.model.initialise import initial_weights

CONFIG = ClassifierConfig(
    n_letters=4, d_model=5, n_heads=6, n_key_value_heads=3, d_head=2, d_mlp=7, biases=True,
    reads="last_letter", attend_cls=True, n_outputs=4, task="contains_all",
)  # fmt: skip


def arrays(config: ClassifierConfig = CONFIG) -> dict[str, Any]:
    noise = torch.Generator().manual_seed(0)
    return {
        name: weight + 0.1 * torch.randn(weight.shape, generator=noise)
        for name, weight in initial_weights(config, 0).items()
    }


def side_by_side(given: dict[str, Any]) -> dict[str, Any]:
    """As a plain state dict has them: one matrix for all heads, just the letters' embeddings."""
    merged = dict(given)
    for name, weight in given.items():
        kind = name.rsplit(".", 1)[1]
        if kind in ("W_Q", "W_K", "W_V"):
            merged[name] = weight.permute(1, 0, 2).reshape(weight.shape[1], -1).tolist()
        elif kind in ("W_O", "b_Q", "b_K", "b_V"):
            merged[name] = weight.flatten(0, 1).double().numpy()
    merged["embed.W_E"] = given["embed.W_E"][2:]
    return merged


def test_heads_side_by_side_are_taken_apart() -> None:
    given = arrays()
    apart, beside = tsc.from_arrays(CONFIG, given), tsc.from_arrays(CONFIG, side_by_side(given))
    for name, weight in apart.weights.items():
        rows = slice(2, None) if name == "embed.W_E" else slice(None)
        assert (weight[rows] == beside.weights[name][rows]).all(), name
    assert not beside.weights["embed.W_E"][:2].any()
    assert beside.provenance["rounded_to_float32"] == []


def test_what_had_to_be_rounded_is_named() -> None:
    given = {**arrays(), "unembed.W_U": np.full((5, 4), 0.1)}
    assert tsc.from_arrays(CONFIG, given).provenance["rounded_to_float32"] == ["unembed.W_U"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"unembed.W_U": None}, r"there is no unembed.W_U; it has embed.W_E"),
        ({"extra": 1.0}, "a place for no extra"),
        ({"blocks.0.mlp.W_in": np.zeros((7, 5))}, r"W_in has shape \[7, 5\], expected \[5, 7\]"),
        ({"blocks.0.attn.W_Q": np.zeros((5, 11))}, r"W_Q has shape \[5, 11\]"),
        ({"blocks.0.attn.W_Q": "eight"}, "W_Q is not an array of numbers"),
        ({"unembed.b_U": [0.0, 0.0, 0.0, np.inf]}, "NaN or infinite"),
    ],
)
def test_what_does_not_fit_is_refused(changes: dict[str, Any], words: str) -> None:
    given = {**arrays(), **changes}
    given = {name: array for name, array in given.items() if array is not None}
    with pytest.raises(CheckpointError, match=words):
        tsc.from_arrays(CONFIG, given)


TIED = CONFIG.replace(tied_embeddings=True, biases=False, n_positions=5, positions="alibi")


@pytest.mark.parametrize("config", [CONFIG, TIED], ids=["plain", "tied"])
def test_the_original_has_a_say(config: ClassifierConfig) -> None:
    model = tsc.load(tsc.from_arrays(config, arrays(config)))

    def original(letters: Tensor) -> Tensor:
        return model(letters + 2)

    assert isinstance(tsc.from_arrays(config, arrays(config), original=original), Checkpoint)
    with pytest.raises(UnsupportedError, match="does not compute what the original does"):
        tsc.from_arrays(config, arrays(config), original=lambda letters: -original(letters))


def test_an_adder_in_the_public_format(tmp_path: Path) -> None:
    """Random factors of our own, saved as the adders are; outputs factor by factor."""
    d, rank, out_rank, hidden, tokens, places = 7, 3, 2, 9, 14, 12
    noise = torch.Generator().manual_seed(3)
    shapes = {
        "token_emb.weight": (tokens, d), "pos_emb.A": (places, rank), "pos_emb.B": (rank, d),
        "blocks.0.ln1.weight": (d,), "blocks.0.attn.qkv_A": (d, rank),
        "blocks.0.attn.qkv_Bq": (rank, d), "blocks.0.attn.qkv_Bkv": (rank, d),
        "blocks.0.attn.proj.A": (d, out_rank), "blocks.0.attn.proj.B": (out_rank, d),
        "blocks.0.ln2.weight": (d,), "blocks.0.mlp.fc1.A": (d, rank),
        "blocks.0.mlp.fc1.B": (rank, hidden), "blocks.0.mlp.fc2.A": (hidden, rank),
        "blocks.0.mlp.fc2.B": (rank, d), "ln_f.weight": (d,),
    }  # fmt: skip
    w = {name: torch.randn(shape, generator=noise) for name, shape in shapes.items()}
    w["lm_head.weight"] = w["token_emb.weight"]
    torch.save({"model_state": w, "params": 0}, tmp_path / "adder.pt")
    checkpoint = adder(tmp_path / "adder.pt")
    assert checkpoint.config.tied_embeddings
    assert checkpoint.config.d_head == rank
    assert np.linalg.matrix_rank(checkpoint.weights["blocks.0.attn.W_O"][0]) == out_rank

    def rms(x: Tensor, name: str) -> Tensor:
        return x / (x.square().mean(-1, keepdim=True) + 1e-8).sqrt() * w[f"{name}.weight"]

    letters = torch.randint(0, tokens, (16, 9), generator=noise)
    x = w["token_emb.weight"][letters] + (w["pos_emb.A"] @ w["pos_emb.B"])[:9]
    read = rms(x, "blocks.0.ln1") @ w["blocks.0.attn.qkv_A"]
    q, k = read @ w["blocks.0.attn.qkv_Bq"], read @ w["blocks.0.attn.qkv_Bkv"]
    scores = (q @ k.transpose(1, 2) / d**0.5).masked_fill(torch.ones(9, 9).triu(1) > 0, -torch.inf)
    z = scores.softmax(-1) @ k
    x = x + z @ w["blocks.0.attn.proj.A"] @ w["blocks.0.attn.proj.B"]
    pre = rms(x, "blocks.0.ln2") @ w["blocks.0.mlp.fc1.A"] @ w["blocks.0.mlp.fc1.B"]
    x = x + functional.gelu(pre) @ w["blocks.0.mlp.fc2.A"] @ w["blocks.0.mlp.fc2.B"]
    expected = (rms(x, "ln_f") @ w["lm_head.weight"].T)[:, -1]
    found = tsc.load(checkpoint)(letters + 2)
    assert torch.allclose(found, expected, atol=1e-4)
    assert expected.abs().max() > 1


def test_a_state_of_transformer_lens_with_its_buffers(tmp_path: Path) -> None:
    config = ClassifierConfig(
        n_letters=11, n_outputs=3, d_model=6, n_heads=1, d_head=4, d_mlp=5, n_positions=8,
        biases=True, act_fn="relu", reads="last_letter", attend_cls=True,
    )  # fmt: skip
    given = arrays(config)
    saved = {**given, "embed.W_E": given["embed.W_E"][2:]}
    saved |= {"blocks.0.attn.mask": torch.ones(8, 8).bool(), "blocks.0.attn.IGNORE": torch.ones(())}
    torch.save(saved, tmp_path / "sum.pt")
    checkpoint = cumulative_sum(tmp_path / "sum.pt")
    assert checkpoint.config.token_names == ("0", "1", "2", "3", "4", "5", *map(str, range(-5, 0)))
    letters = torch.tensor([[0, 3, 10, 7], [5, 5, 6, 1]])
    own = tsc.load(Checkpoint(config, {n: w.numpy() for n, w in given.items()}))
    assert torch.equal(tsc.load(checkpoint)(letters + 2), own(letters + 2))


def ill_conditioned(seed: int = 0) -> tuple[ClassifierConfig, dict[str, np.ndarray]]:
    """Embeddings near 300 that differ by hundredths: a norm makes much of float32's rounding."""
    config = ClassifierConfig(
        n_letters=3, d_model=4, n_heads=0, d_mlp=0, norm="layer", final_norm=True,
        reads="last_letter", attend_cls=True, task="parity",
    )  # fmt: skip
    rng = np.random.default_rng(seed)
    arrays = {n: rng.normal(size=shape) for n, shape in config.weight_shapes().items()}
    arrays["embed.W_E"] = 300 + 0.01 * rng.normal(size=arrays["embed.W_E"].shape)
    return config, arrays


def in_float64(config: ClassifierConfig, arrays: dict[str, np.ndarray], letters: Any) -> Any:
    x = arrays["embed.W_E"][np.asarray(letters)[:, -1] + 2]
    x = x - x.mean(-1, keepdims=True)
    x = x / np.sqrt((x**2).mean(-1, keepdims=True) + config.norm_eps)
    x = x * arrays["ln_final.w"] + arrays["ln_final.b"]
    return torch.from_numpy(x @ arrays["unembed.W_U"])


def test_what_rounding_explains_is_imported_and_said() -> None:
    config, arrays = ill_conditioned()
    with pytest.warns(UserWarning, match=r"differ by 0\.00\d+, which rounding to float32 explains"):
        tsc.from_arrays(config, arrays, original=lambda x: in_float64(config, arrays, x))


def test_what_rounding_does_not_explain_is_refused_with_both_numbers() -> None:
    config, arrays = ill_conditioned()
    with pytest.raises(UnsupportedError, match=r"tokens \[0\], .* and float32 explains 0\.\d+ of"):
        tsc.from_arrays(config, arrays, original=lambda x: in_float64(config, arrays, x) + 0.2)
