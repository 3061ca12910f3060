"""What probes are asked about: one pass for all, inputs of a frame, scales that a model states."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import tsc_interp as tsc
from tests.probes.models import QUERY, TOKENS, transformer_lens_model
from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import UnsupportedError, UsageError
from tsc_interp.model.classifier import Classifier
from tsc_interp.model.framing import with_frame
from tsc_interp.model.hooked import HookedClassifier
from tsc_interp.probes.inputs import Inputs
from tsc_interp.probes.registry import find_probe, run_probe
from tsc_interp.tasks import Maximum

FRAME = "[S] x{3} [E]; x=2..5; S=6; E=7"
SHARING = ("superposition", "margin", "specialization")


def framed() -> Any:
    """A random model that names the largest of three numbers between two fixed tokens."""
    config = ClassifierConfig(
        n_letters=6, n_outputs=6, d_model=8, n_heads=3, d_head=4, n_positions=7,
        reads="last_letter", attend_cls=True, task=Maximum(),
    )  # fmt: skip
    checkpoint = with_frame(HookedClassifier(config, seed=1), FRAME)
    return HookedClassifier.from_checkpoint(checkpoint)


def test_probes_that_read_the_same_share_one_pass() -> None:
    model, passes = transformer_lens_model(), []
    plain = type(model).run_with_cache

    class Counted:
        cfg, blocks, parameters = model.cfg, model.blocks, model.parameters
        named_parameters = model.named_parameters

        def run_with_cache(self, tokens: Any, **options: Any) -> Any:
            passes.append(len(tokens))
            return plain(model, tokens, **options)

    inputs = Inputs(Counted(), TOKENS, query=QUERY)
    first = find_probe("margin").ask(inputs)
    alone = len(passes)
    for name in SHARING:
        find_probe(name).ask(inputs)
    assert len(passes) == alone
    assert find_probe("margin").ask(inputs) == first


def test_an_option_that_a_probe_does_not_take_is_refused() -> None:
    with pytest.raises(UsageError, match="the circuits-weights probe takes no query"):
        run_probe("circuits-weights", transformer_lens_model(), TOKENS, query=QUERY)


def test_a_framed_model_is_asked_about_its_own_inputs() -> None:
    """Oracle: the model's own weights on all 64 inputs of its frame, averaged by hand."""
    model = framed()
    result: Any = run_probe("specialization", model, ["abc"])
    rows = np.array(list(np.ndindex(4, 4, 4)))
    tokens = np.concatenate([np.full((64, 1), 4), rows, np.full((64, 1), 5)], axis=1) + 2
    cache = model.run_with_cache(torch.tensor(tokens))[1]
    pattern = cache["blocks.0.attn.hook_pattern"][:, :, -1].detach().double().numpy()
    by_letter = np.stack([(pattern * (tokens == 2 + t)[:, None]).sum(-1) for t in range(6)], -1)
    for t, letter in enumerate("abcdef"):
        here = (tokens == 2 + t).any(1)
        expected = by_letter[here, :, t].mean(0)
        assert result.attention.at(layer=0, letter=letter) == pytest.approx(expected, abs=1e-6)
    shared = np.minimum(by_letter[:, :, None], by_letter[:, None]).sum(-1).mean(0)
    assert result.overlap.array[0] == pytest.approx(shared, abs=1e-6)
    assert not any("once" in finding.text for finding in result.findings)


@pytest.mark.parametrize("probe", ["superposition", "margin"])
def test_what_a_frame_rules_out_is_not_asked(probe: str) -> None:
    with pytest.raises(
        UnsupportedError, match=r"inputs of this model look like \[S\] x\{3\} \[E\]"
    ):
        run_probe(probe, framed(), ["abc"])


@pytest.mark.parametrize("probe", SHARING)
def test_a_stated_scale_of_scores_is_read_with_hooks_and_without(probe: str) -> None:
    """A `Classifier` has no TransformerLens config: its scale was taken to be the default."""
    config = ClassifierConfig(attention_scale=0.37)
    plain = Classifier.from_checkpoint(HookedClassifier(config, seed=2).to_checkpoint())
    hooked = HookedClassifier.from_checkpoint(plain.to_checkpoint())
    assert run_probe(probe, plain, ["abc"]) == run_probe(probe, hooked, ["abc"])
    assert probe in tsc.analyze(plain, ["abc"], probes=[probe]).probe_names()
