"""Models as a user of TransformerLens makes them, 3.x or 4.x, whichever is installed."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from importlib.metadata import version
from typing import Any

import torch
from torch import Tensor

VERSION = version("transformer_lens")


def build(seed: int, *, positions: bool = True, biases: bool = True, **options: Any) -> Any:
    """A fresh model of TransformerLens; what it shall not have is zero and stays so."""
    given: dict[str, Any] = {"device": "cpu", "seed": seed, **options}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if VERSION.startswith("3"):
            from transformer_lens import HookedTransformer, HookedTransformerConfig

            model = HookedTransformer(HookedTransformerConfig(**given))
        else:
            from transformer_lens import TransformerBridge, TransformerBridgeConfig

            model = TransformerBridge.boot_native(TransformerBridgeConfig(**given))
    for name, parameter in model.named_parameters():
        place = name.startswith(("pos_embed.", "pos."))
        bias = name.split(".")[-1].startswith(("b_", "bias")) and "ln" not in name
        if (place and not positions) or (bias and not biases):
            parameter.requires_grad_(False).zero_()
    return model


def fit(
    model: Any,
    batches: Iterator[tuple[Tensor, Tensor]],
    *,
    steps: int,
    **options: Any,
) -> float:
    """A plain training loop, AdamW and cross-entropy at the last place; the last batch's loss."""
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained, **{"lr": 1e-3, **options})
    loss = torch.zeros(())
    for _ in range(steps):
        tokens, labels = next(batches)
        loss = torch.nn.functional.cross_entropy(model(tokens)[:, -1], labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    return float(loss.detach())
