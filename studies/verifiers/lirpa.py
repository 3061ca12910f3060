"""auto_LiRPA: linear bounds through the network, with boxes halved where they do not decide."""

from __future__ import annotations

import heapq
import time
import warnings
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import numpy as np
import torch
from auto_LiRPA import BoundedModule, BoundedTensor, PerturbationLpNorm
from torch import Tensor, nn

from studies.tables import Row
from studies.verifiers.questions import CountsNetwork
from studies.verifiers.run import LENGTHS, exact_logits, relu_heads, supports, timed

_BATCH = 64
Bound = Callable[[Tensor, Tensor, Tensor | None], tuple[Tensor, Tensor]]


def rows(seconds: float) -> list[Row]:
    """One call per set of letters, then with cutting."""
    ways = (("IBP", "IBP", 0.0), ("CROWN", "CROWN", 0.0), ("CROWN, boxes halved", "CROWN", seconds))
    return [
        timed(lambda n=n, by=by, most=most: _strings(n, by, most), tool="auto_LiRPA", method=name,
              question="strings", length=n)
        for n in LENGTHS for name, by, most in ways
    ]  # fmt: skip


def bounder(network: nn.Module, width: int, method: str) -> Bound:
    """The bounds of a network over boxes, many at once; in float32, the one it works in."""
    warnings.simplefilter("ignore")
    bounded: Any = BoundedModule(deepcopy(network).float(), torch.ones(2, width))

    def bound(low: Tensor, high: Tensor, compared: Tensor | None) -> tuple[Tensor, Tensor]:
        low, high = low.float(), high.float()
        box = PerturbationLpNorm(norm=float("inf"), x_L=low, x_U=high)
        both: tuple[Tensor, Tensor] = bounded.compute_bounds(
            x=(BoundedTensor((low + high) / 2, box),), C=compared, method=method
        )
        return both

    return bound


def _strings(length: int, method: str, seconds: float) -> Row:
    """Best first: the box with the worst bound is halved, along its largest ratio of counts."""
    network = CountsNetwork(relu_heads())
    bound = bounder(network, 3, method)
    until, parts, worst = time.process_time() + seconds, 0, float("inf")
    waiting: list[tuple[float, int, Any, Any, bool]] = []

    def judge(lows: list[Any], highs: list[Any], label: bool) -> None:
        nonlocal parts, worst
        low, high = (torch.tensor(np.array(one)) for one in (lows, highs))
        lower, upper = bound(low, high, None)
        margins = (lower if label else -upper)[:, 0].detach().tolist()
        for one, other, margin in zip(lows, highs, margins, strict=True):
            parts += 1
            if margin <= 0 and sum(one) <= length:
                heapq.heappush(waiting, (margin, parts, one, other, label))

    for support, label in supports():
        low = [int(letter in support) for letter in range(3)]
        high = [x * (length - len(support) + 1) for x in low]
        judge([low], [high], label)
    worst = min((one[0] for one in waiting), default=0.0)
    wrong = None
    while waiting and wrong is None and time.process_time() < until:
        some = [heapq.heappop(waiting) for _ in range(min(_BATCH, len(waiting)))]
        for label in (False, True):
            lows, highs = [], []
            for _, _, low, high, kind in some:
                if kind is not label:
                    continue
                if low == high:
                    if (exact_logits(network, np.array([low]))[0] > 0) != label:
                        wrong = low
                    continue
                for a, b in _halves(low, high):
                    lows.append(a)
                    highs.append(b)
            if lows:
                judge(lows, highs, label)
    return {"answered": wrong is not None or not waiting, "right": wrong is None and not waiting,
            "parts": parts, "open": len(waiting), "worst_bound": worst}  # fmt: skip


def _halves(low: list[int], high: list[int]) -> list[tuple[list[int], list[int]]]:
    at = max(range(3), key=lambda i: high[i] / low[i] if low[i] else 0.0)
    middle = max(low[at], min(high[at] - 1, int((low[at] * high[at]) ** 0.5)))
    left, right = list(high), list(low)
    left[at], right[at] = middle, middle + 1
    return [(low, left), (right, high)]
