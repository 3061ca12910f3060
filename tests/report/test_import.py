"""The report's own state dicts: our bundled models written the report's way and read back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from tests.model.test_forward import random_strings, shaken_weights
from tsc_interp.checkpoints import load_checkpoint
from tsc_interp.cli import main
from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import CheckpointError, ConfigError, UsageError
from tsc_interp.model.evaluation import evaluate
from tsc_interp.model.forward import forward
from tsc_interp.model.inputs import from_strings
from tsc_interp.reproduction.source_models import read_source_model

BLOCK = "self_attention_block"


def as_the_report_stores_it(config: ClassifierConfig, seed: int = 4) -> dict[str, torch.Tensor]:
    """Linear layers out x in, heads as consecutive blocks, written here by hand."""
    w = shaken_weights(config, seed)
    heads = range(config.n_heads)
    state = {"embeddings.embeddings.weight": w["embed.W_E"]}
    for ours, theirs in {"Q": "query", "K": "key", "V": "value"}.items():
        blocks = [w[f"blocks.0.attn.W_{ours}"][head].T for head in heads]
        state[f"{BLOCK}.attention.{theirs}.weight"] = torch.cat(blocks)
    outputs = [w["blocks.0.attn.W_O"][head].T for head in heads]
    state[f"{BLOCK}.attention.output.weight"] = torch.cat(outputs, dim=1)
    state[f"{BLOCK}.attention.rsqrt_attention_head_size"] = torch.tensor(config.d_head**-0.5)
    if config.d_mlp:
        state[f"{BLOCK}.feed_forward.input_.weight"] = w["blocks.0.mlp.W_in"].T
        state[f"{BLOCK}.feed_forward.output.weight"] = w["blocks.0.mlp.W_out"].T
    for ours, theirs in {"ln1": "attention", "ln2": "feed_forward"}.items():
        for part, word in {"w": "weight", "b": "bias"}.items():
            if f"blocks.0.{ours}.{part}" in w:
                state[f"{BLOCK}.{theirs}_layer_norm.{word}"] = w[f"blocks.0.{ours}.{part}"]
    state["binary_linear.linear.weight"] = w["unembed.W_U"].T
    return state


@pytest.mark.parametrize(
    ("config", "options"),
    [
        (ClassifierConfig(), {}),
        (ClassifierConfig(n_letters=5, d_model=7, n_heads=3, d_head=2, d_mlp=11), {"n_heads": 3}),
        (ClassifierConfig(attend_cls=True, n_heads=16, d_model=6), {"attend_cls": True}),
        (ClassifierConfig(d_model=5, norm="rms", norm_eps=1e-3), {"norm": "rms", "norm_eps": 1e-3}),
        (ClassifierConfig(d_model=5, norm="layer"), {"norm": "layer"}),
        (ClassifierConfig(d_mlp=0), {}),
    ],
)
def test_reads_what_the_report_writes(
    config: ClassifierConfig, options: dict[str, object], tmp_path: Path
) -> None:
    torch.save(as_the_report_stores_it(config), tmp_path / "model.pt")
    checkpoint = read_source_model(tmp_path / "model.pt", **options)  # type: ignore[arg-type]
    assert checkpoint.config == config
    strings = random_strings(config)
    expected = forward(config, shaken_weights(config, 4), from_strings(config, strings))
    logits = [row.logit for row in evaluate(checkpoint, strings)]
    assert logits == pytest.approx(expected.tolist(), abs=1e-6)


def test_a_layer_norm_without_shift_gets_a_zero_one(tmp_path: Path) -> None:
    state = as_the_report_stores_it(ClassifierConfig(d_model=5, norm="layer"))
    state = {name: value for name, value in state.items() if not name.endswith("bias")}
    torch.save(state, tmp_path / "model.pt")
    checkpoint = read_source_model(tmp_path / "model.pt", norm="layer")
    assert np.array_equal(checkpoint.weights["blocks.0.ln1.b"], np.zeros(5, np.float32))


class _Explosive:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (exec, ("raise SystemExit('code was run')",))


def test_each_wrong_file_has_its_own_words(tmp_path: Path) -> None:
    config = ClassifierConfig(d_model=6, n_heads=2, d_head=3)
    good = as_the_report_stores_it(config)
    output = f"{BLOCK}.attention.output.weight"
    path = tmp_path / "model.pt"
    cases: list[tuple[object, dict[str, object], str]] = [
        ({"model": _Explosive()}, {}, "cannot be read as plain tensors"),
        ([1, 2], {}, "holds a list, not a state dict"),
        ({"layer.weight": torch.zeros(2)}, {}, "not one of the source report's models"),
        (good, {"n_heads": 4}, "cannot be divided into 4 heads"),
        (good, {"n_heads": 6}, "heads of size 3, not 1"),
        (good, {"n_heads": 2, "norm": "rms"}, "there is no blocks.0.ln1.w"),
        ({**good, "dropout.p": torch.zeros(1)}, {"n_heads": 2}, "place for no dropout.p"),
        (
            {**good, output: torch.zeros(6, 5)},
            {"n_heads": 2},
            r"W_O has shape \[5, 6\], expected \[2, 3, 6\]",
        ),
        ({**good, output: torch.zeros(6, 6).long()}, {"n_heads": 2}, "expected floating point"),
        ({**good, output: torch.full((6, 6), torch.nan)}, {"n_heads": 2}, "NaN or infinite"),
    ]
    for content, options, words in cases:
        torch.save(content, path)
        with pytest.raises((CheckpointError, UsageError), match=words):
            read_source_model(path, **options)  # type: ignore[arg-type]
    normed = as_the_report_stores_it(config.replace(norm="rms"))
    torch.save(normed, path)
    with pytest.raises(CheckpointError, match="is --norm missing"):
        read_source_model(path, n_heads=2)
    with pytest.raises(ConfigError, match="norm = 'group'"):
        read_source_model(path, n_heads=2, norm="group")
    path.write_bytes(b"PK\x03\x04 half a file")
    with pytest.raises(CheckpointError, match="not a readable archive"):
        read_source_model(path)
    with pytest.raises(CheckpointError, match="no file at"):
        read_source_model(tmp_path / "absent.pt")


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, target = tmp_path / "model.pt", tmp_path / "model.safetensors"
    torch.save(as_the_report_stores_it(ClassifierConfig(d_model=5, norm="layer")), source)
    wanted = ["import", str(source), "--out", str(target), "--norm", "layer", "--norm-eps", "1e-5"]
    assert main([*wanted, "--n-heads", "7"]) == 2
    assert not target.exists()
    assert main(wanted) == 0
    assert load_checkpoint(target).provenance == {"imported_from": "model.pt"}
    before = target.read_bytes()
    assert main(wanted) == 2
    assert "pass --force" in capsys.readouterr().err
    assert target.read_bytes() == before
    assert main([*wanted, "--force"]) == 0
