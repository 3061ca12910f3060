"""Playground pages in a real browser, for the tests that need one: small helpers.

Pages are opened from disk, without a network; a test fails on any console message or request.
"""

from __future__ import annotations

import contextlib
import io
import os
import shutil
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tsc_interp as tsc
from tsc_interp.checkpoints import Checkpoint, bundled_names, load_checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.model.initialise import initial_weights

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
IN_BROWSER = [
    pytest.mark.browser,
    pytest.mark.xdist_group("playground"),  # one browser and one set of pages
    pytest.mark.skipif(
        CHROMIUM is None and os.environ.get("TSC_REQUIRE_BROWSER") != "1",
        reason="chromium is not installed",
    ),
]

BUNDLED = bundled_names()
Open = Callable[..., Any]

ODD = {
    "deep": ClassifierConfig(n_layers=3, d_model=5, n_heads=2, d_head=3, norm="rms"),
    "two-letters": ClassifierConfig(n_letters=2, d_model=3, attend_cls=True, d_head=2),
    "one-letter": ClassifierConfig(n_letters=1, d_model=1, task={"kind": "parity", "letter": "a"}),
    "five-letters": ClassifierConfig(n_letters=5, d_model=7, n_heads=3, d_head=2, d_mlp=11),
    "all-letters": ClassifierConfig(n_letters=26, d_model=4, n_heads=5, norm="layer", d_mlp=9),
    "no-attention": ClassifierConfig(n_heads=0),
    "no-mlp": ClassifierConfig(d_mlp=0, score_scale="sqrt_d_head_log_n"),
}


def fresh(config: ClassifierConfig, seed: int) -> Checkpoint:
    weights = {name: w.numpy() for name, w in initial_weights(config, seed).items()}
    return Checkpoint(config, weights)


def training() -> dict[int, Checkpoint]:
    """Something like a run: from initial weights to the walk-through model in a straight line."""
    end = load_checkpoint("walkthrough")
    start = fresh(end.config, 5).weights
    return {
        epoch: Checkpoint(
            end.config,
            {
                n: (start[n] + (w - start[n]) * np.float32(epoch / 8))
                for n, w in end.weights.items()
            },
            {"epoch": epoch},
            source=f"runs/example/seed=5/checkpoints/epoch={epoch:03d}.safetensors",
        )
        for epoch in range(9)
    }


def check_request(url: str, problems: list[str]) -> None:
    if not url.startswith(("file:", "data:", "blob:", "about:")):
        problems.append(f"request for {url}")


def shown_logit(page: Any, side: str = "main") -> float:
    settle(page)
    return float(page.get_attribute(f"[data-result=logit-{side}]", "data-logit"))


def settle(page: Any) -> None:
    """Two frames: one in which the page notices, one in which it draws."""
    page.evaluate("new Promise((go) => requestAnimationFrame(() => requestAnimationFrame(go)))")


def logit(model: str | Checkpoint, text: str) -> float:
    checkpoint = load_checkpoint(model) if isinstance(model, str) else model
    return tsc.evaluate(checkpoint, [text])[0].logit


def wait_until(page: Any, expression: str) -> None:
    """playwright's own way needs eval, which the page's security policy rightly forbids."""
    for _ in range(6000):
        if page.evaluate(expression):
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"never true: {expression}")


def run_copied(script: str) -> float:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(script, "copied", "exec"), {})
    return float(out.getvalue())
