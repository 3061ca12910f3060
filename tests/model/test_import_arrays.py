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
from tsc_interp.model.names import IN_BLOCK, OUTSIDE_BLOCKS

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
        ({"unembed.b_U": np.array([1j, 0, 0, 0])}, "b_U is not an array of numbers"),
        ({"unembed.b_U": torch.tensor([1j, 0, 0, 0])}, "b_U is not an array of numbers"),
        ({"unembed.b_U": torch.zeros(4).to_sparse()}, "b_U is not an array of numbers"),
        ({"unembed.b_U": torch.zeros(4, device="meta")}, "b_U is not an array of numbers"),
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


HF = {"vocab_size": 6, "hidden_size": 12, "num_attention_heads": 3, "num_hidden_layers": 2}
OURS = {
    "n_letters": 6, "n_outputs": 6, "d_model": 12, "n_heads": 3, "d_head": 4, "n_layers": 2,
    "n_positions": 16, "reads": "last_letter", "attend_cls": True, "final_norm": True,
    "task": "maximum",
}  # fmt: skip
LLAMA = {
    **OURS, "d_mlp": 20, "gated_mlp": True, "act_fn": "silu", "norm": "rms", "norm_eps": 1e-6,
    "positions": "rotary",
}  # fmt: skip


def hugging_face(kind: str) -> tuple[ClassifierConfig, Any]:
    """A fresh model of the library, every weight at work, and what it is here."""
    import transformers as hf

    torch.manual_seed(0)
    wide = {"intermediate_size": 20, "max_position_embeddings": 16, "rms_norm_eps": 1e-6}
    if kind == "GPT-2":
        config = hf.GPT2Config(vocab_size=6, n_embd=12, n_head=3, n_layer=2, n_positions=16)
        model = hf.GPT2LMHeadModel(config)
        mine = {**OURS, "d_mlp": 48, "norm": "layer", "act_fn": "gelu_new", "biases": True}
        mine |= {"tied_embeddings": True, "biases": True}
    elif kind == "Llama":
        config = hf.LlamaConfig(**HF, **wide, num_key_value_heads=1, tie_word_embeddings=False)
        model, mine = hf.LlamaForCausalLM(config), {**LLAMA, "n_key_value_heads": 1}
    elif kind == "Qwen2":
        model = hf.Qwen2ForCausalLM(hf.Qwen2Config(**HF, **wide, num_key_value_heads=3))
        mine = {**LLAMA, "biases": True}
    else:
        config = hf.Qwen3Config(**HF, **wide, num_key_value_heads=3, head_dim=4)
        model, mine = hf.Qwen3ForCausalLM(config), {**LLAMA, "qk_norm": "rms"}
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape))
    base = getattr(model.config, "rope_parameters", None) or {}
    if kind != "GPT-2":
        mine["rotary_base"] = float(base.get("rope_theta", getattr(model.config, "rope_theta", 0)))
    return ClassifierConfig(**mine), model.eval()


@pytest.mark.parametrize("kind", ["GPT-2", "Llama", "Qwen2", "Qwen3"])
@pytest.mark.parametrize("form", ["module", "npz"])
def test_hugging_faces_names_are_known(kind: str, form: str, tmp_path: Path) -> None:
    """Oracle: the library's own forward pass."""
    config, model = hugging_face(kind)

    def original(letters: Tensor) -> Tensor:
        return model(letters).logits[:, -1].detach()

    given: Any = model
    if form == "npz":
        given = tmp_path / "model.npz"
        np.savez_compressed(given, **{n: w.numpy() for n, w in model.state_dict().items()})
    checkpoint = tsc.from_arrays(config, given, original=original)
    assert checkpoint.config == config
    changed = {n: w * (1.5 if "down_proj" in n or "mlp.c_proj" in n else 1)
               for n, w in model.state_dict().items()}  # fmt: skip
    with pytest.raises(UnsupportedError, match="does not compute"):
        tsc.from_arrays(config, changed, original=original)


def test_nested_states_and_linear_layers() -> None:
    """nanoGPT's names, which GPT-2's Conv1D has too, with matrices as nn.Linear stores them."""
    given = {n: w.double().numpy() for n, w in arrays().items()}
    config = CONFIG.replace(norm="off")
    block = {
        "attn": {
            "c_attn": {
                "weight": np.concatenate(
                    [given[f"blocks.0.attn.W_{x}"].transpose(0, 2, 1).reshape(-1, 5) for x in "QKV"]
                ),
                "bias": np.concatenate([given[f"blocks.0.attn.b_{x}"].ravel() for x in "QKV"]),
            },
            "c_proj": {"weight": given["blocks.0.attn.W_O"].reshape(-1, 5).T,
                       "bias": given["blocks.0.attn.b_O"]},
            "bias": np.tri(9)[None, None],
        },
        "mlp": {"c_fc": {"weight": given["blocks.0.mlp.W_in"].T,
                         "bias": given["blocks.0.mlp.b_in"]},
                "c_proj": {"weight": given["blocks.0.mlp.W_out"].T,
                           "bias": given["blocks.0.mlp.b_out"]}},
    }  # fmt: skip
    head = {"weight": given["unembed.W_U"].T, "bias": given["unembed.b_U"]}
    outside = {"wte": {"weight": given["embed.W_E"][2:]}, "h": [block]}
    state = {"transformer": outside, "lm_head": head}
    plain = tsc.from_arrays(config, given)
    read = tsc.from_arrays(config, {"model_state_dict": state, "epoch": 3})
    for name, weight in plain.weights.items():
        rows = slice(2, None) if name == "embed.W_E" else slice(None)
        assert (weight[rows] == read.weights[name][rows]).all(), name
    block["attn"]["bias"] = np.ones((1, 1, 9, 9))
    with pytest.raises(CheckpointError, match=r"a place for no transformer\.h\.0\.attn\.bias"):
        tsc.from_arrays(config, state)
    del block["attn"]["bias"]
    state["embedding"] = state["transformer"]["wte"]
    with pytest.raises(CheckpointError, match=r"embedding.weight is another embed\.W_E"):
        tsc.from_arrays(config, state)


def test_the_page_has_the_table_of_names() -> None:
    page = Path("docs/pages/how-to/bring-your-own-model.md").read_text()
    for table in (OUTSIDE_BLOCKS, IN_BLOCK):
        for ours, others in table.items():
            row = f"| `{ours}` | {', '.join(f'`{name}`' for name in others)} |"
            assert row in page


def test_an_npz_with_objects_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.array([{}], dtype=object))
    with pytest.raises(CheckpointError, match="cannot be read as NumPy arrays"):
        tsc.from_arrays(CONFIG, tmp_path / "a.npz")


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
