"""The forward pass: against a plain-loop oracle, tokens against counts, one against many."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import ATTENTION, CONFIGS, FAMILY, POSITIONED, PUBLIC, configs
from tests.model import oracle
from tsc_interp.checkpoints import load_checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import TscError, UnsupportedError, UsageError
from tsc_interp.model.evaluation import evaluate
from tsc_interp.model.forward import forward
from tsc_interp.model.hooked import load
from tsc_interp.model.initialise import initial_ensemble, initial_weights, stack_weights
from tsc_interp.model.inputs import from_counts, from_strings, from_tokens, token_rows


def shaken_weights(config: ClassifierConfig, seed: int = 1) -> dict[str, torch.Tensor]:
    """Initial weights with norm scales, shifts and biases moved off one and zero."""
    generator = torch.Generator().manual_seed(seed)
    weights = initial_weights(config, seed)
    for name, value in weights.items():
        if ".ln" in name or "_norm." in name or ".b_" in name or name.startswith("ln_final"):
            weights[name] = value + 0.3 * torch.randn(value.shape, generator=generator)
    return weights


def random_strings(config: ClassifierConfig, count: int = 5, length: int = 11) -> list[str]:
    rng = np.random.default_rng(count)
    return [
        "".join(rng.choice(list(config.alphabet.letters), rng.integers(1, length + 1)))
        for _ in range(count)
    ]


@pytest.mark.parametrize(
    "config",
    [*CONFIGS, POSITIONED, *FAMILY, *ATTENTION, *PUBLIC],
    ids=lambda config: config.key()[:6],
)
def test_agrees_with_the_oracle(config: ClassifierConfig) -> None:
    weights = shaken_weights(config)
    strings = random_strings(config)
    double = {name: value.double() for name, value in weights.items()}
    plain = {name: value.numpy() for name, value in weights.items()}
    expected = np.array([oracle.logits(config, plain, text) for text in strings])
    found = forward(config, double, from_strings(config, strings)).numpy()
    assert found.shape == (len(strings), config.n_outputs)[: found.ndim]
    # Tables of positions are rounded to float32, like weights.
    tolerance = 1e-6 if config.positions in ("sinusoidal", "rotary", "alibi") else 1e-12
    assert found.reshape(expected.shape) == pytest.approx(expected, rel=tolerance, abs=tolerance)


@given(configs(), st.integers(0, 10**6))
def test_compressed_and_token_form_agree(config: ClassifierConfig, seed: int) -> None:
    """Copies of a letter keep equal states at any depth, so k positions equal one of weight k."""
    weights = shaken_weights(config, seed)
    strings = random_strings(config, 4, 30)
    for dtype, tolerance in ((torch.float32, 1e-5), (torch.float64, 1e-12)):
        cast = {name: value.to(dtype) for name, value in weights.items()}
        tokens = torch.from_numpy(token_rows(config, strings))
        long = forward(config, cast, from_tokens(config, tokens))
        short = forward(config, cast, from_strings(config, strings))
        assert torch.allclose(long, short, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    "config", [*CONFIGS, *FAMILY, *ATTENTION, *PUBLIC], ids=lambda config: config.key()[:6]
)
def test_an_ensemble_is_its_members(config: ClassifierConfig) -> None:
    members = [shaken_weights(config, seed) for seed in range(6)]
    given_strings = from_strings(config, random_strings(config))
    together = forward(config, stack_weights(members), given_strings)
    for logits, member in zip(together, members, strict=True):
        assert torch.allclose(logits, forward(config, member, given_strings), atol=1e-6)


def test_reproduces_the_reports_first_draws() -> None:
    """Layer by layer as torch itself draws them, from the global generator."""
    config = ClassifierConfig(d_model=16, n_heads=3, d_head=2, d_mlp=5, n_letters=4)
    torch.manual_seed(11)
    embedding = torch.nn.Embedding(6, 16).weight.detach().clone()
    embedding[1] = 0
    layers = [
        torch.nn.Linear(into, out, bias=False).weight.detach()
        for into, out in [(16, 6), (16, 6), (16, 6), (6, 16), (16, 5), (5, 16), (16, 1)]
    ]
    query, _, value, output, mlp_in, mlp_out, readout = layers
    redrawn = [torch.empty(6, 16), torch.empty(16, 6), torch.empty(16, 5)]
    modes = ["fan_in", "fan_out", "fan_out"]
    for tensor, mode in zip(redrawn, modes, strict=True):
        torch.nn.init.kaiming_uniform_(tensor, a=math.sqrt(5), mode=mode)

    weights = initial_weights(config, 11)
    assert torch.equal(weights["embed.W_E"], embedding)
    assert torch.equal(weights["blocks.0.attn.W_Q"][1].T, query[2:4])
    assert torch.equal(weights["blocks.0.attn.W_V"][2].T, value[4:6])
    assert torch.equal(weights["blocks.0.attn.W_O"][1].T, output[:, 2:4])
    assert torch.equal(weights["blocks.0.mlp.W_in"].T, mlp_in)
    assert torch.equal(weights["blocks.0.mlp.W_out"].T, mlp_out)
    assert torch.equal(weights["unembed.W_U"].T, readout)

    low = initial_weights(
        config.replace(
            embedding_init="linear_like", attention_init="output_fan_out", mlp_init="output_fan_out"
        ),
        11,
    )
    redrawn[0][1] = 0
    assert torch.equal(low["embed.W_E"], redrawn[0])
    assert torch.equal(low["blocks.0.attn.W_O"][2].T, redrawn[1][:, 4:6])
    assert torch.equal(low["blocks.0.mlp.W_out"].T, redrawn[2])
    assert torch.equal(low["blocks.0.attn.W_Q"], weights["blocks.0.attn.W_Q"])


def test_initialising_leaves_the_global_generator_alone() -> None:
    torch.manual_seed(0)
    before = torch.get_rng_state()
    initial_weights(ClassifierConfig(), 5)
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("config", [*CONFIGS, POSITIONED])
def test_many_seeds_at_once_are_the_same_bits(config: ClassifierConfig) -> None:
    together = initial_ensemble(config, [4, 0, 9])
    apart = stack_weights([initial_weights(config, seed) for seed in (4, 0, 9)])
    assert together.keys() == apart.keys()
    assert all(torch.equal(together[name], apart[name]) for name in apart)


def test_positions_change_nothing_else() -> None:
    plain = initial_weights(POSITIONED.replace(n_positions=0), 4)
    positioned = initial_weights(POSITIONED, 4)
    assert all(torch.equal(plain[name], positioned[name]) for name in plain)
    weights = {name: value.double() for name, value in positioned.items()}
    first, second = forward(POSITIONED, weights, from_strings(POSITIONED, ["ab", "ba"]))
    assert abs(float(first - second)) > 1e-6


def test_a_million_letters_at_once_in_no_memory() -> None:
    config = ClassifierConfig()
    inputs = from_strings(config, ["ab{1000000}"])
    assert inputs.tokens.shape == (1, 4)
    assert torch.isfinite(forward(config, initial_weights(config, 0), inputs)).all()


@pytest.mark.parametrize(
    ("tokens", "words"),
    [
        (torch.tensor([[0.0, 2.0]]), "whole numbers shaped"),
        (torch.tensor([[[0, 2]]]), "whole numbers shaped"),
        (torch.tensor([[0, 5]]), r"0\.\.4 \(CLS, PAD, abc\)"),
        (torch.tensor([[0, -1]]), r"got -1\.\.0"),
        (torch.tensor([[2, 3]]), "begin with CLS"),
        (torch.tensor([[0, 2, 0]]), "only there"),
        (torch.tensor([[0, 1]]), "at least one letter"),
        (torch.tensor([[0, 1, 2]]), "at the end"),
    ],
)
def test_refuses_token_rows_that_are_no_strings(tokens: torch.Tensor, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        from_tokens(ClassifierConfig(), tokens)


@pytest.mark.parametrize("counts", [[[0, 0, 0]], [[1, -1, 3]], [[1, 2]], [1, 2, 3]])
def test_refuses_counts_that_are_no_strings(counts: list[object]) -> None:
    with pytest.raises(UsageError, match="counts must"):
        from_counts(ClassifierConfig(), torch.tensor(counts))


def test_positions_refuse_counts_and_overlong_strings() -> None:
    with pytest.raises(UnsupportedError, match="has positions"):
        from_counts(POSITIONED, torch.ones(1, 4, dtype=torch.long))
    with pytest.raises(TscError, match="14 positions with CLS, but the model has learned 13"):
        from_strings(POSITIONED, ["a{13}"])


def test_published_figures_of_the_walkthrough(walkthrough) -> None:  # type: ignore[no-untyped-def]
    checkpoint = walkthrough.to_checkpoint()
    aac, baac = evaluate(checkpoint, ["aac", "baac"])
    assert (round(aac.logit, 4), round(baac.logit, 4)) == (-8.2945, 10.9587)
    assert (aac.prediction, baac.prediction, aac.label, baac.label) == (0, 1, 0, 1)
    expected = [[-0.6023, -1.0448], [0, 0], [0.1197, 2.3601], [-1.5085, -2.1599], [1.546, -0.8536]]
    assert np.round(checkpoint.weights["embed.W_E"], 4).tolist() == pytest.approx(
        [pytest.approx(row) for row in expected]
    )


def test_a_loaded_model_knows_where_it_comes_from_until_its_weights_change() -> None:
    model = load("walkthrough")
    known = model.to_checkpoint().provenance
    assert known == load_checkpoint("walkthrough").provenance
    assert "training" in known
    model.W_E.data[0, 0] += 1
    assert model.to_checkpoint().provenance == {}
    assert model.to_checkpoint({"trained_by": "me"}).provenance == {"trained_by": "me"}


def test_probability_keeps_its_digits() -> None:
    from tsc_interp.model.evaluation import sigmoid

    assert sigmoid(-40.0) == pytest.approx(math.exp(-40), rel=1e-12)
    assert sigmoid(0.0) == 0.5
    assert sigmoid(800.0) == 1.0
    assert sigmoid(-800.0) == 0.0
