"""The batched pass, its rounding bound and the ball arithmetic, against the model's own forward.

The bound is compared with ball arithmetic at 256 bits, never with itself.
"""

from __future__ import annotations

import flint
import pytest
import torch

import tsc_interp as tsc
from tests.falsification.models import palindrome_model, random_model
from tsc_interp.enumeration.exact import Exact
from tsc_interp.enumeration.network import of_checkpoint, of_transformer_lens
from tsc_interp.enumeration.running import Runner
from tsc_interp.errors import UnsupportedError

KINDS = [
    {},
    {"attention_dir": "bidirectional", "act_fn": "relu"},
    {"normalization_type": "RMS", "act_fn": "silu"},
    {"normalization_type": None, "act_fn": "gelu_new"},
    {"n_layers": 3},
]


@pytest.fixture(scope="module", params=range(len(KINDS)))
def model(request):
    return random_model(request.param, **KINDS[request.param])


def exact_outputs(network, row, reads):
    before, flint.ctx.prec = flint.ctx.prec, 256
    try:
        return Exact(network).outputs(row, reads)
    finally:
        flint.ctx.prec = before


def test_all_forms_agree_with_the_models_own_forward(model):
    rows = torch.randint(0, 7, (5, 8), generator=torch.Generator().manual_seed(1))
    network, reads = of_transformer_lens(model), (2, 7, 0)
    with torch.no_grad():
        own = model(rows)[:, list(reads)]
    for bounded in (False, True):
        quick, _ = Runner(network, torch.float32, bounded=bounded)(rows, reads)
        assert torch.allclose(quick, own, atol=2e-4, rtol=1e-4)
    for row, outputs in zip(rows[:2].tolist(), own[:2].tolist(), strict=True):
        for ball, number in zip(exact_outputs(network, row, reads), outputs, strict=True):
            assert [float(one) for one in ball] == pytest.approx(number, abs=2e-4, rel=1e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_bound_holds_and_is_of_use(model, dtype):
    rows = torch.randint(0, 7, (4, 9), generator=torch.Generator().manual_seed(2))
    network, reads = of_transformer_lens(model), (8, 3)
    outputs, bound = Runner(network, dtype, bounded=True)(rows, reads)
    for i, row in enumerate(rows.tolist()):
        for j, ball in enumerate(exact_outputs(network, row, reads)):
            off = max(
                float(abs(one - flint.arb(number)).upper())
                for one, number in zip(ball, outputs[i, j].tolist(), strict=True)
            )
            assert off <= float(bound[i])
    if dtype == torch.float64:  # three layers without norms are the worst of these
        assert float(bound.max()) < 0.1


@pytest.mark.parametrize("common", [0, 1, 5, 8])
def test_rows_that_share_a_prefix_are_run_as_others(model, common):
    rows = torch.randint(0, 7, (6, 9), generator=torch.Generator().manual_seed(3))
    rows[:, :common] = rows[0, :common]
    runner = Runner(of_transformer_lens(model), torch.float64, bounded=True)
    for reads in ((8,), (6, 8)):
        together, bound = runner(rows, reads)
        alone = [runner(row[None], reads) for row in rows]
        assert torch.allclose(together, torch.cat([one for one, _ in alone]), atol=1e-9)
        assert float(bound.max()) >= max(float(one) for _, one in alone) * 0.5


def test_the_bound_grows_where_a_norm_divides_by_little():
    """A residual stream that is nearly constant has a small sigma, which multiplies every error."""
    model = random_model(7, n_layers=1)
    network = of_transformer_lens(model)
    rows = torch.zeros(1, 4, dtype=torch.long)
    _, usual = Runner(network, torch.float64, bounded=True)(rows, (3,))
    network.embed[:] = 1.0 + 1e-4 * network.embed
    network.positions[:] *= 1e-4
    _, flat = Runner(network, torch.float64, bounded=True)(rows, (3,))
    assert float(flat) > 10 * float(usual)


def test_ties_are_undecided_and_wrong_outputs_are_proved_wrong():
    network = of_transformer_lens(palindrome_model(2, 3))
    exact = Exact(network)
    assert exact.right([3, 1, 2, 2, 1], [0], [1]) is True
    assert exact.right([3, 1, 2, 2, 1], [0], [0]) is False
    network.unembed.bias[:] = 0.0
    network.unembed.weight[:] = 0.0
    assert exact.right([3, 1, 2, 2, 1], [0], [1]) is None


@pytest.mark.parametrize("name", ["walkthrough", "attend-cls"])
def test_our_checkpoints_are_the_same_function(name):
    checkpoint = tsc.load(name).to_checkpoint()
    model = tsc.load(checkpoint)
    rows = model.to_tokens(["abc", "aab", "ccb"])
    with torch.no_grad():
        own = model(rows)
    outputs, _ = Runner(of_checkpoint(checkpoint), torch.float32, bounded=False)(rows, (0,))
    assert torch.allclose(outputs[:, 0, 1] - outputs[:, 0, 0], own, atol=1e-5)


def test_a_model_with_a_hook_is_no_network():
    model = random_model()
    model.blocks[0].hook_resid_post.register_forward_hook(lambda *_: None)
    with pytest.raises(UnsupportedError, match="hook"):
        of_transformer_lens(model)
