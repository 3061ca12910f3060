"""Models that compute something else than their weights say: a claim would be about neither."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import tsc_interp as tsc
from tests.model.outside_models import SIZES, tl_model
from tsc_interp.checkpoints import Checkpoint
from tsc_interp.errors import CheckpointError, TscError, UnsupportedError
from tsc_interp.model.import_files import read_transformer_lens
from tsc_interp.verification import CertificateError


class Reversed(tsc.HookedClassifier):
    def forward(self, *args: Any, **options: Any) -> Any:
        return -super().forward(*args, **options)


class Odd(torch.Tensor):
    """Another table for 21 rows."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = super().__torch_function__(func, types, args, kwargs or {})
        return -result if func is torch.Tensor.__getitem__ else result


class OddParameter(nn.Parameter):
    pass


def hooked(way: str) -> Any:
    model = tsc.load("generalization-errors")
    if way == "hook":
        model.add_hook("blocks.0.hook_attn_out", lambda value, hook: value * 0)
    elif way == "permanent hook":
        model.add_perma_hook("blocks.0.hook_attn_out", lambda value, hook: value * 0)
    elif way == "torch hook":
        model.register_forward_hook(lambda module, given, out: -out)
    elif way == "method":
        forward = model.forward
        model.forward = lambda *args, **options: -forward(*args, **options)
    elif way == "subclass":
        model = Reversed.from_checkpoint(model.to_checkpoint())
    elif way == "hook_dict":
        model.hook_dict["blocks.0.hook_attn_out"] = lambda value: value * 0
    elif way == "double":
        model = model.double()
    elif way == "nan":
        with torch.no_grad():
            next(model.parameters()).mul_(float("nan"))
    elif way == "tensor":
        model.unembed.W_U = OddParameter(model.unembed.W_U.detach())
    return model


CLAIMS: dict[str, Callable[[Any], Any]] = {
    "verify": lambda model: tsc.verify(model, 5),
    "horizon": lambda model: tsc.horizon(model, limit=20),
    "certify": lambda model: tsc.certify(model, limit=20),
    "check": lambda model: tsc.check(
        tsc.certify("generalization-errors", limit=20).document, model
    ),
    "diff": lambda model: tsc.diff("walkthrough", model, max_length=3, limit=5),
    "prune": lambda model: tsc.prune(model),
    "falsify": lambda model: tsc.falsify(model, seconds=2),
    "evaluate": lambda model: tsc.evaluate(model, "ab"),
    "analyze": lambda model: tsc.analyze(model),
}
WAYS = {
    "hook": "forward hook", "permanent hook": "forward hook", "torch hook": "forward hook",
    "method": "method forward", "subclass": "one of your own", "hook_dict": "hook_dict",
    "double": "claims are about float32 weights", "nan": "NaN", "tensor": "a class of tensors",
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_every_claim_refuses_a_model_that_is_more_than_its_weights(way: str) -> None:
    model = hooked(way)
    for name, claim in CLAIMS.items():
        with pytest.raises((UnsupportedError, CheckpointError)) as refused:
            claim(model)
        assert WAYS[way] in str(refused.value), name


def test_a_model_as_it_was_loaded_is_accepted() -> None:
    model = tsc.load("generalization-errors")
    with model.hooks(fwd_hooks=[("blocks.0.hook_attn_out", lambda value, hook: value)]):
        model(["ab"])
    assert tsc.horizon(model, limit=70).length == 66


# -- imports ----------------------------------------------------------------------------------


@pytest.mark.parametrize("position", [17, 19])
def test_a_mask_that_was_changed_is_refused(position: int) -> None:
    """Nothing of it is imported, and strings that nobody compares see it alone."""
    model = tl_model(positions=True)
    tables = [table for name, table in model.named_buffers() if name.endswith("mask")]
    if tables[0].numel() == 0:  # made in the first run
        model.blocks[0].attn.mask = torch.ones(20, 20).tril().bool()
        tables = [model.blocks[0].attn.mask]
    tsc.from_transformer_lens(model, tokens=[0, 1, 2], query=5, task="contains_all")
    with torch.no_grad():  # what a token sees of itself is the other way round behind it
        tables[0][position, : position - 3] = tables[0][0, 1].clone()
    with pytest.raises(UnsupportedError, match="mask is not the one that a fresh model"):
        tsc.from_transformer_lens(model, tokens=[0, 1, 2], query=5, task="contains_all")


def test_a_rotary_table_that_was_changed_is_refused() -> None:
    model = tl_model(positional_embedding_type="rotary", rotary_dim=2, d_head=4)
    names = [name for name, _ in model.named_buffers() if "sin" in name]
    with torch.no_grad():
        dict(model.named_buffers())[names[0]][17] *= -1
    with pytest.raises(UnsupportedError, match=r"sin.* is not the one that a fresh model"):
        tsc.from_transformer_lens(model, tokens=[0, 1, 2], task="ends_with")


@pytest.mark.parametrize("mask", ["eye", "ones", "tril"])
def test_a_mask_in_a_saved_state_is_compared(mask: str, tmp_path: Path) -> None:
    d, h, k, f = SIZES["d_model"], SIZES["n_heads"], SIZES["d_head"], SIZES["d_mlp"]
    attention, mlp = "blocks.0.attn", "blocks.0.mlp"
    shapes = {
        "embed.W_E": (6, d), "pos_embed.W_pos": (20, d), f"{attention}.W_O": (h, k, d),
        **{f"{attention}.W_{part}": (h, d, k) for part in "QKV"},
        **{f"{attention}.b_{part}": (h, k) for part in "QKV"}, f"{attention}.b_O": (d,),
        f"{mlp}.W_in": (d, f), f"{mlp}.b_in": (f,), f"{mlp}.W_out": (f, d), f"{mlp}.b_out": (d,),
        "unembed.W_U": (d, 2), "unembed.b_U": (2,),
    }  # fmt: skip
    generator = torch.Generator().manual_seed(0)
    state = {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}
    masks = {"eye": torch.eye(20), "ones": torch.ones(20, 20), "tril": torch.ones(20, 20).tril()}
    state[f"{attention}.mask"] = masks[mask].bool()
    state[f"{attention}.IGNORE"] = torch.tensor(-float("inf"))
    torch.save(state, tmp_path / "state.pt")
    model = {**SIZES, "n_ctx": 20, "d_vocab": 6, "d_vocab_out": 2, "act_fn": "gelu",
             "normalization_type": None, "attention_dir": "causal"}  # fmt: skip
    reading = {"tokens": [0, 1, 2], "query": 5, "task": "contains_all"}
    (tmp_path / "state.json").write_text(json.dumps({"model": model, "reading": reading}))
    if mask == "tril":
        read_transformer_lens(tmp_path / "state.pt", tmp_path / "state.json")
        return
    with pytest.raises(UnsupportedError, match="not TransformerLens's own mask"):
        read_transformer_lens(tmp_path / "state.pt", tmp_path / "state.json")


@pytest.mark.parametrize("where", ["positions", "embedding", "head", "encoder"])
def test_tensors_that_compute_are_refused(where: str) -> None:
    embedding, head = nn.Embedding(4, 8), nn.Linear(8, 1)
    layer = nn.TransformerEncoderLayer(
        8, nhead=2, dim_feedforward=16, norm_first=True, batch_first=True
    )
    positions = torch.randn(40, 8)
    if where == "positions":
        positions = positions.as_subclass(Odd)
    elif where == "embedding":
        embedding.weight = OddParameter(torch.randn(4, 8))
    elif where == "head":
        head.weight = OddParameter(torch.randn(1, 8))
    else:
        layer.linear1.weight = OddParameter(torch.randn(16, 8))
    with pytest.raises(UnsupportedError, match="a class of tensors of its own"):
        tsc.from_torch(
            embedding, layer, head, tokens=[0, 1, 2], query=3, positions=positions,
            task="contains_all",
        )  # fmt: skip


def test_a_double_precision_model_is_not_rounded_in_silence() -> None:
    """Its answer on b is 1e-12 above zero, and its rounded weights' is zero."""
    config = tsc.ClassifierConfig(
        n_letters=2, task={"kind": "contains_all", "letters": "a"}, n_heads=1, d_head=1,
        d_model=1, d_mlp=0,
    )  # fmt: skip
    shapes = config.weight_shapes()
    weights = {name: np.ones(shape, np.float32) for name, shape in shapes.items()}
    weights["embed.W_E"][:, 0] = [1, 0, 1, -1]
    model = tsc.HookedClassifier.from_checkpoint(Checkpoint(config, weights)).double()
    with torch.no_grad():
        model.embed.W_E[0, 0] = 1 + 1e-12
    assert model(["b"]).item() > 0
    for claim in (CLAIMS["verify"], CLAIMS["evaluate"]):
        with pytest.raises(UnsupportedError, match="float32 weights"):
            claim(model)


# -- names ------------------------------------------------------------------------------------


def test_models_with_other_names_of_letters_are_not_compared() -> None:
    """`aab` is `zero zero one` for one of them, and `one one zero` for the other."""
    config = tsc.ClassifierConfig(
        n_letters=2, task={"kind": "contains_all", "letters": "a"}, token_names=("zero", "one")
    )
    rng = np.random.default_rng(0)
    weights = {name: rng.normal(size=shape).astype(np.float32)
               for name, shape in config.weight_shapes().items()}  # fmt: skip
    one = Checkpoint(config, weights)
    other = Checkpoint(config.replace(token_names=("one", "zero")), weights)
    for prove in (True, False):
        with pytest.raises(TscError, match="names"):
            tsc.diff(one, other, prove=prove)
    document = tsc.diff(one, one, max_length=3, limit=5).document
    with pytest.raises(CertificateError, match="names"):
        tsc.check(document, one, other)
