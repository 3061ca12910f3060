"""Models of TransformerLens, imported: the same logits for every option, and clear refusals."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import tsc_interp as tsc
from tests.model import oracle
from tests.model.outside_models import tl_model
from tests.verification.enumeration import verify_both_ways
from tsc_interp.checkpoints import load_checkpoint
from tsc_interp.cli import main
from tsc_interp.errors import CheckpointError, ConfigError, TscError, UnsupportedError, UsageError
from tsc_interp.model.import_files import build, read_transformer_lens
from tsc_interp.model.interop import HAS_BRIDGE_ONLY
from tsc_interp.verification import check

ABC = {2: "a", 4: "b", 1: "c"}
OPTIONS: list[dict[str, Any]] = [
    {},
    {"act_fn": "relu"},
    {"act_fn": "silu"},
    {"act_fn": "gelu_new"},
    {"attn_only": True},
    {"normalization_type": "LN"},
    {"normalization_type": "LNPre"},
    {"normalization_type": "RMS"},
    {"normalization_type": "RMSPre"},
    {"normalization_type": "LN", "attn_only": True, "eps": 1e-3},
    {"n_layers": 2, "normalization_type": "LN"},
    {"attention_dir": "bidirectional"},
    {"attention_dir": "bidirectional", "n_layers": 2, "normalization_type": "LNPre"},
    {"attn_scale": 0.7},
    {"use_attn_scale": False},
    {"d_vocab_out": 1},
    {"positions": True},
    {"positions": True, "attention_dir": "bidirectional"},
    {"n_heads": 4, "n_key_value_heads": 2},
    {"n_heads": 3, "n_key_value_heads": 1, "n_layers": 2},
    {"gated_mlp": True, "act_fn": "silu"},
    {"gated_mlp": True, "act_fn": "gelu", "n_layers": 2, "normalization_type": "RMS"},
    {"positional_embedding_type": "rotary", "d_head": 4},
    {"positional_embedding_type": "rotary", "d_head": 4, "rotary_dim": 2, "rotary_base": 100},
    {"positional_embedding_type": "rotary", "d_head": 2, "attention_dir": "bidirectional"},
]
if not HAS_BRIDGE_ONLY:
    OPTIONS += [
        {"positional_embedding_type": "rotary", "d_head": 4, "rotary_adjacent_pairs": True},
        {"positional_embedding_type": "alibi", "n_heads": 3},
        {"positional_embedding_type": "shortformer", "positions": True, "n_layers": 2},
        {"use_qk_norm": True, "normalization_type": "RMS", "eps": 1e-3},
        {"use_qk_norm": True, "n_heads": 4, "n_key_value_heads": 2},
    ]


@pytest.fixture(autouse=True)
def _quiet() -> object:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def taken(model: Any, **options: Any) -> Any:
    return tsc.from_transformer_lens(
        model, **{"tokens": ABC, "query": 3, "task": "contains_all", **options}
    )


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_the_same_logits(options: dict[str, Any]) -> None:
    model = tl_model(1, **options)
    checkpoint = taken(model)
    ids = {letter: token for token, letter in ABC.items()}
    first = options.get("attention_dir") == "bidirectional"
    for text in ("a", "ab", "cab", "bbaccb", "ccccccccccab"):
        row = [ids[letter] for letter in text]
        row = [3, *row] if first else [*row, 3]
        out = model(torch.tensor([row]))[0, 0 if first else -1].detach()
        expected = float(out[1] - out[0]) if len(out) == 2 else float(out[0])
        weights = dict(checkpoint.weights)
        close = pytest.approx(expected, abs=2e-5, rel=1e-5)
        assert oracle.logit(checkpoint.config, weights, text) == close
        if not checkpoint.config.needs_order:
            assert tsc.evaluate(checkpoint, text)[0].logit == close


@pytest.mark.parametrize("seed", range(3))
def test_a_model_read_at_its_last_letter_keeps_all_outputs(seed: int) -> None:
    model = tl_model(seed, attn_only=True, d_vocab_out=6, positions=True)
    checkpoint = taken(model, query=None, task="majority")
    assert checkpoint.config.reads == "last_letter"
    out = tsc.load(checkpoint)(["abca"])[0]
    assert torch.allclose(out, model(torch.tensor([[2, 4, 1, 2]]))[0, -1], atol=1e-5)
    one = taken(model, query=None, classes=(5, 2))
    assert float(tsc.load(one)(["abca"])) == pytest.approx(float(out[2] - out[5]), abs=1e-5)


def test_horizons_of_what_was_taken_over_are_proved() -> None:
    """Every string up to six letters, by the original itself."""
    for seed in range(4):
        model = tl_model(seed, normalization_type=None)
        found = tsc.horizon(taken(model), limit=50)
        ids, wrong = {"a": 2, "b": 4, "c": 1}, []
        for length in range(1, 7):
            texts = [np.base_repr(i, 3).zfill(length) for i in range(3**length)]
            rows = [[ids["abc"[int(c)]] for c in text] + [3] for text in texts]
            out = model(torch.tensor(rows))[:, -1].detach()
            says = (out[:, 1] - out[:, 0] > 0).tolist()
            right = ["0" in text and "1" in text for text in texts]
            wrong += [length] * sum(a != b for a, b in zip(says, right, strict=True))
        if wrong:
            assert found.length == min(wrong) - 1
            assert found.proved
        else:
            assert found.verified_length >= 6


@pytest.mark.parametrize("task", ["maximum", "most-frequent"])
def test_one_causal_layer_of_several_outputs(task: str) -> None:
    """Read at a fixed last token it is a function of counts: counted as the original answers."""
    for seed, options in enumerate([{}, {"attn_only": True}, {"normalization_type": "LNPre"}]):
        model = tl_model(seed, d_vocab_out=3, **options)
        checkpoint = taken(model, task=task)
        verdict = verify_both_ways(checkpoint, 5)
        wrong, shortest = [0] * 6, None
        for length in range(1, 6):
            picked = np.array(list(np.ndindex(*[3] * length)))
            rows = np.concatenate([np.array([2, 4, 1])[picked], np.full((len(picked), 1), 3)], 1)
            says = model(torch.from_numpy(rows))[:, -1].detach().argmax(-1).numpy()
            counts = (picked[:, :, None] == np.arange(3)).sum(1)
            label = picked.max(1) if task == "maximum" else counts.argmax(1)
            wrong[length] = int((says != label).sum())
            shortest = length if shortest is None and wrong[length] else shortest
        assert verdict.tally.errors[0].strings == wrong
        assert not verdict.tally.undecided.total_vectors
        found = tsc.certify(checkpoint, limit=5)
        assert found.horizon.proved
        assert found.checked.horizon == (None if shortest is None else shortest - 1)
        assert (checkpoint.config.reads, checkpoint.config.n_outputs) == ("last", 3)
        assert check(found.document, checkpoint) == found.checked


def test_a_model_is_imported_first() -> None:
    with pytest.raises(UsageError, match="imported first"):
        tsc.horizon(tl_model(1))
    for wrong in ({"query": 3}, {"tokens": ABC, "quarry": 3}, 7):
        with pytest.raises(UsageError, match=r"frame,? or tokens"):
            tsc.horizon(tl_model(1), frame=wrong)
    with pytest.raises(UsageError, match=r"tsc\.from_torch"):
        tsc.from_transformer_lens(torch.nn.Linear(2, 2), tokens=ABC, task="parity")


def test_names_of_tokens_are_kept() -> None:
    checkpoint = taken(
        tl_model(), tokens={1: "(", 5: ")"}, task=tsc.tasks.ContainsAll(letters="ab")
    )
    assert checkpoint.config.token_names == ("(", ")")
    plain = taken(tl_model(), tokens=[1, 5])
    assert plain.config.token_names == ()
    assert np.array_equal(plain.weights["embed.W_E"], checkpoint.weights["embed.W_E"])
    swapped = taken(tl_model(), tokens={5: "b", 1: "a"})
    assert np.array_equal(plain.weights["embed.W_E"], swapped.weights["embed.W_E"])


@pytest.mark.parametrize(
    ("options", "given", "kind", "words"),
    [
        ({}, {"tokens": {9: "a"}}, UsageError, "different ids from 0 to 5"),
        ({}, {"tokens": {}}, UsageError, "different ids"),
        ({}, {"tokens": {3: "a"}}, UsageError, "none of them the query"),
        ({}, {"tokens": {1: "x", 2: "x"}}, UsageError, "same name"),
        ({}, {"classes": (0, 0)}, UsageError, "two different outputs"),
        ({}, {"classes": (0, 2)}, UsageError, "two different outputs"),
        ({}, {"task": "longest"}, UsageError, "longest"),
        ({}, {"task": tsc.tasks.ContainsAll(letters="xy")}, ConfigError, "needs the letters xy"),
        ({"attention_dir": "bidirectional"}, {"query": None}, UsageError, "query="),
        ({"dtype": torch.float64}, {}, UnsupportedError, "float32"),
        ({"n_layers": 1, "act_fn": "solu_ln"}, {}, UnsupportedError, "solu_ln"),
    ],
    ids=str,
)
def test_refusals(
    options: dict[str, Any], given: dict[str, Any], kind: type[TscError], words: str
) -> None:
    model = tl_model()
    for name, value in options.items():
        setattr(model.cfg, name, value)
    with pytest.raises(kind, match=words):
        taken(model, **given)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("parallel_attn_mlp", True), ("use_local_attn", True), ("use_attention_sinks", True),
        ("attn_scores_soft_cap", 30.0), ("output_logits_soft_cap", 30.0), ("num_experts", 4),
        ("positional_embedding_type", "relative_positional_bias"), ("clip_qkv", 1.0),
        ("use_logn_attn", True), ("normalization_type", "Batch"),
    ],
)  # fmt: skip
def test_what_has_no_place_is_refused_by_name(option: str, value: Any) -> None:
    model = tl_model()
    setattr(model.cfg, option, value)
    with pytest.raises(UnsupportedError, match=str(option)):
        taken(model)


def test_longer_inputs_than_the_original_reads_are_said() -> None:
    with pytest.warns(UserWarning, match=r"any number of tokens, and the original accepts 20"):
        taken(tl_model())
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        taken(tl_model(positions=True))


@pytest.mark.parametrize(
    ("option", "value"),
    [("act_fn", "relu"), ("attn_scale", 5.0), ("eps", 3.0), ("gated_mlp", True)]
    + [("use_qk_norm", True)]
    # 3.x asks its config at every forward pass.
    + [("attention_dir", "bidirectional")] * HAS_BRIDGE_ONLY,
)
def test_a_config_that_lies_is_found_out(option: str, value: Any) -> None:
    """Parts are read, and the comparison runs the original, whatever its config says."""
    model = tl_model(2, normalization_type="LN")
    setattr(model.cfg, option, value)
    words = "does not compute what the original does|the model's configuration"
    with pytest.raises(UnsupportedError, match=words):
        taken(model)


@pytest.mark.skipif(HAS_BRIDGE_ONLY, reason="what TransformerLens 3 calls processing")
def test_folded_norms() -> None:
    model = tl_model(3, normalization_type="LN")
    model.process_weights_(center_writing_weights=True, center_unembed=False)
    assert taken(model).config.norm == "layer_pre"


# -- files -------------------------------------------------------------------------------------

DESCRIPTION = """
[model]
d_model = 6
d_head = 3
n_heads = 2
n_layers = 1
d_mlp = 8
n_ctx = 20
d_vocab = 6
d_vocab_out = 2
act_fn = "gelu"
normalization_type = "LN"
[reading]
tokens = { "2" = "a", "4" = "b", "1" = "c" }
query = 3
classes = [0, 1]
task = "contains_all"
"""


@pytest.fixture
def saved(tmp_path: Path) -> tuple[Path, Path, Any]:
    model = tl_model(4, normalization_type="LN", positions=True)
    torch.save(model.state_dict(), tmp_path / "model.pt")
    (tmp_path / "model.toml").write_text(DESCRIPTION)
    return tmp_path / "model.pt", tmp_path / "model.toml", model


def test_a_saved_state_is_the_model(saved: tuple[Path, Path, Any], tmp_path: Path) -> None:
    from safetensors.torch import save_file

    path, config, model = saved
    expected = taken(model).weights
    state = {k: v for k, v in model.state_dict().items() if not k.endswith(("mask", "IGNORE"))}
    save_file({k: v.contiguous() for k, v in state.items()}, tmp_path / "m.safetensors")
    for file in (path, tmp_path / "m.safetensors"):
        found = read_transformer_lens(file, config)
        assert all(np.array_equal(found.weights[name], w) for name, w in expected.items())
    out = tmp_path / "out.safetensors"
    assert main(["import", str(path), "--config", str(config), "--out", str(out)]) == 0
    assert load_checkpoint(out).weight_hash() == taken(model).weight_hash()


@pytest.mark.skipif(not HAS_BRIDGE_ONLY, reason="3.x keys are its own there")
def test_keys_of_a_hooked_transformer_are_read_too(saved: tuple[Path, Path, Any]) -> None:
    """Written by hand from the weights under TransformerLens's names."""
    _, _, m = saved
    state = {"embed.W_E": m.W_E, "pos_embed.W_pos": m.W_pos, "unembed.W_U": m.W_U}
    state["unembed.b_U"] = m.b_U
    for part in ("W_Q", "W_K", "W_V", "W_O", "b_Q", "b_K", "b_V", "b_O"):
        state[f"blocks.0.attn.{part}"] = getattr(m, part)[0]
    for part in ("W_in", "b_in", "W_out", "b_out"):
        state[f"blocks.0.mlp.{part}"] = getattr(m, part)[0]
    for name in ("blocks.0.ln1", "blocks.0.ln2", "ln_final"):
        state[f"{name}.w"] = m.state_dict()[f"{name}.weight"]
        state[f"{name}.b"] = m.state_dict()[f"{name}.bias"]
    state["blocks.0.attn.mask"] = torch.ones(3, 3).tril().bool()
    from tsc_interp.model.import_files import read_description

    options, _ = read_description(saved[1])
    rows = torch.tensor([[2, 4, 1, 3]])
    assert torch.allclose(build(options, state)(rows), m(rows), atol=1e-5)
    del state["blocks.0.attn.W_V"]
    with pytest.raises(TscError):
        build(options, state)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("n_heads = 2", "n_heads = 3"), "."),
        (("d_vocab = 6", "d_vocab = 7"), "."),
        (('"LN"', '"RMS"'), "."),
        (("query = 3", "query = 4"), "none of them the query"),
        (("[reading]", "[other]"), "two tables"),
        (("query = 3", "quarry = 3"), "tokens and perhaps"),
        (('"2" = "a"', '"two" = "a"'), "whole number"),
        (("d_model = 6", "d_model = "), "neither TOML nor JSON"),
        (("d_mlp = 8", "d_mpl = 8"), "no such model"),
    ],
)
def test_what_does_not_fit_changes_nothing(
    saved: tuple[Path, Path, Any], change: tuple[str, str], words: str
) -> None:
    path, config, _ = saved
    config.write_text(DESCRIPTION.replace(*change))
    out = path.with_name("out.safetensors")
    with pytest.raises(TscError, match=words):
        read_transformer_lens(path, config)
    assert main(["import", str(path), "--config", str(config), "--out", str(out)]) != 0
    assert not out.exists()


# -- plain PyTorch -----------------------------------------------------------------------------


@pytest.mark.parametrize("activation", ["relu", "gelu", torch.nn.functional.silu])
@pytest.mark.parametrize("layers", [0, 1, 2])
@pytest.mark.parametrize("outputs", [1, 2])
def test_plain_torch(activation: Any, layers: int, outputs: int) -> None:
    torch.manual_seed(layers)
    embedding, head = torch.nn.Embedding(5, 6), torch.nn.Linear(6, outputs)
    encoder: Any = torch.nn.TransformerEncoderLayer(
        6, 2, 10, activation=activation, norm_first=True, batch_first=layers != 1, dropout=0.3
    )
    if layers:
        final = torch.nn.LayerNorm(6) if layers == 2 else None
        encoder = torch.nn.TransformerEncoder(
            encoder, layers, norm=final, enable_nested_tensor=False
        )
    found = tsc.from_torch(embedding, encoder, head, tokens=[0, 1, 2], query=4, task="contains_all")
    encoder.eval()
    x = embedding(torch.tensor([[4, 0, 1, 2, 2]]))
    x = encoder(x)[:, 0] if layers != 1 else encoder(x.transpose(0, 1))[0]
    out = head(x)[0]
    expected = out[1] - out[0] if outputs == 2 else out[0]
    assert tsc.evaluate(found, "abcc")[0].logit == pytest.approx(float(expected), abs=1e-5)


def test_plain_torch_refusals() -> None:
    embedding, head = torch.nn.Embedding(5, 6), torch.nn.Linear(6, 1)
    late = torch.nn.TransformerEncoderLayer(6, 2, 10, batch_first=True)
    with pytest.raises(UnsupportedError, match="norm_first=True"):
        tsc.from_torch(embedding, late, head, tokens=[0, 1], query=4, task="parity")
    tanh = torch.nn.TransformerEncoderLayer(
        6, 2, 10, batch_first=True, norm_first=True, activation=torch.tanh
    )
    with pytest.raises(UnsupportedError, match="activation"):
        tsc.from_torch(embedding, tanh, head, tokens=[0, 1], query=4, task="parity")
    with pytest.raises(UsageError, match="TransformerEncoder"):
        tsc.from_torch(
            embedding, torch.nn.Linear(6, 6), head, tokens=[0, 1], query=4, task="parity"
        )  # type: ignore[arg-type]


def test_options_larger_than_the_file_are_refused_before_anything_is_built() -> None:
    """Built, these options would take 160 GB."""
    options = {"d_model": 10**5, "d_vocab": 5, "n_layers": 2, "n_heads": 1000, "d_head": 100}
    with pytest.raises(CheckpointError, match=r"at least 40,000,500,000 weights.* holds 20"):
        build(options, {"embed.W_E": torch.zeros(5, 4)})


def test_a_task_is_required_and_may_be_a_function_of_token_rows() -> None:
    model, ids = tl_model(1), {2: "a", 4: "b", 1: "c"}
    with pytest.raises(TypeError, match="task"):
        tsc.from_transformer_lens(model, tokens=ids, query=3)  # type: ignore[call-arg]
    seen: list[list[int]] = []

    def has_both(rows: torch.Tensor) -> torch.Tensor:
        seen.extend(rows[:1].tolist())
        return (rows == 2).any(1) & (rows == 4).any(1)

    named = tsc.from_transformer_lens(model, tokens=ids, query=3, task="contains_all")
    mine = tsc.from_transformer_lens(model, tokens=ids, query=3, task=has_both)
    assert tsc.verify(mine, 9).tally.errors == tsc.verify(named, 9).tally.errors
    assert all(row[-1] == 3 and set(row) <= {1, 2, 3, 4} for row in seen)
    assert "has both" in mine.config.question
    # An order that the model cannot see, and answers that are none.
    for wrong, why in {
        (lambda rows: rows[:, 0] == 2): "does not see the order",
        (lambda rows: rows.float().mean(1)): "whole number",
    }.items():
        with pytest.raises(tsc.TscError, match=why):
            tsc.from_transformer_lens(model, tokens=ids, query=3, task=wrong)


def test_a_function_labels_models_that_see_order_and_rows_of_a_frame() -> None:
    model, ids = tl_model(1, positions=True), {2: "a", 4: "b", 1: "c"}
    named = tsc.from_transformer_lens(model, tokens=ids, query=3, task="before")
    given = tsc.from_transformer_lens(
        model, tokens=ids, query=3,
        task=lambda rows: [[t for t in row if t in (2, 4)][:1] == [2] for row in rows.tolist()],
    )  # fmt: skip
    for length in (1, 3, 5):
        assert (
            tsc.verify(given, lengths=[length]).wrong == tsc.verify(named, lengths=[length]).wrong
        )
    frame = "[5] x{2..4} [3]; x=1,2"
    alike = tsc.from_transformer_lens(model, frame=frame, task="palindrome")
    rows_seen = tsc.from_transformer_lens(
        model, frame=frame, task=lambda rows: (rows[:, 1:-1] == rows[:, 1:-1].flip(1)).all(1)
    )
    assert tsc.verify(rows_seen).wrong == tsc.verify(alike).wrong


def test_a_torch_encoder_and_arrays_need_a_task_too() -> None:
    layer = torch.nn.TransformerEncoderLayer(4, 1, 4, norm_first=True, batch_first=True)
    parts = torch.nn.Embedding(4, 4), layer, torch.nn.Linear(4, 1)
    mine = tsc.from_torch(*parts, tokens=[0, 1, 2], query=3, task=lambda rows: (rows == 1).any(1))
    assert [row.label for row in tsc.evaluate(mine, ["aac", "cab"])] == [0, 1]
    with pytest.raises(TypeError, match="task"):
        tsc.from_torch(*parts, tokens=[0, 1, 2], query=3)  # type: ignore[call-arg]
    config = tsc.ClassifierConfig(n_heads=0, d_mlp=0)
    arrays = {name: np.ones(shape) for name, shape in config.weight_shapes().items()}
    with pytest.raises(tsc.TscError, match="what the model should decide"):
        tsc.from_arrays(config, arrays)
