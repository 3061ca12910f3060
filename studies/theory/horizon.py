"""Plain softmax fails at some length unless a limit is exactly zero; which, the margin decides."""

# --8<-- [start:limits]
import math

import numpy as np
import torch

import tsc_interp as tsc
from tsc_interp.checkpoints import bundled_names, load_checkpoint
from tsc_interp.model.forward import forward
from tsc_interp.model.inputs import from_counts
from tsc_interp.verification.count_model import CountModel


def logits(checkpoint: tsc.Checkpoint, counts: list[list[int]], **changes: object) -> np.ndarray:
    """In float64, the configuration changed if asked."""
    config = checkpoint.config.replace(**changes)
    weights = {key: torch.from_numpy(array).double() for key, array in checkpoint.weights.items()}
    return forward(config, weights, from_counts(config, torch.tensor(counts))).numpy()


def flip_of_abc(checkpoint: tsc.Checkpoint) -> int:
    """An n with abc{n} called negative and abc{n - 1} not: doubling, then halving the interval."""

    def wrong(n: int) -> bool:
        return bool(logits(checkpoint, [[1, 1, n]])[0] <= 0)

    low, high = 0, 1
    while not wrong(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if wrong(middle) else (middle, high)
    return high


print("model                     f(c)   limit of f(abc{n})   abc{n} flips at n =   horizon")
rows = {}
for name in bundled_names():
    checkpoint = load_checkpoint(name)
    f_c = float(logits(checkpoint, [[0, 0, 1]])[0])
    limit = float(logits(checkpoint, [[0, 0, 1]], attend_cls=False)[0])
    rows[name] = (f_c, limit, flip_of_abc(checkpoint), tsc.horizon(checkpoint).length)
    print(f"{name:24} {f_c:+7.3f} {limit:+14.3f} {rows[name][2]:>21,} {rows[name][3]:>9,}")
# --8<-- [end:limits]
for name, (_, limit, flip, horizon) in rows.items():
    assert limit < 0, name
    assert horizon <= flip + 1, name  # abc{flip} is an error of length flip + 2

# --8<-- [start:exception]
# All scores are zero, so heads return shares of letters, and logits tend to zero.
both = CountModel(tsc.construct("contains_all", letters="ab", max_length=None).checkpoint)
most = CountModel(tsc.construct("majority", letter="a", max_length=None).checkpoint)
print("            n   contains a and b: abc{n}      c{n}   majority: a{n+1}b{n}   a{n}b{n+1}")
signs = []
for n in (1, 10**3, 10**6, 10**9):
    row = [both.logit([1, 1, n]), both.logit([0, 0, n])]
    row += [most.logit([n + 1, n, 0]), most.logit([n, n + 1, 0])]
    signs.append([logit > 0 for logit in row])
    print(f"{n:13,} {row[0]:+26.1e} {row[1]:+9.1e} {row[2]:+22.1e} {row[3]:+12.1e}")
# --8<-- [end:exception]
assert signs == [[True, False, True, False]] * 4

# --8<-- [start:margin]
original = load_checkpoint("walkthrough")
sharper = []
print("scores ×   head 0: a over c   horizon   log(horizon)")
for factor in (1.0, 1.25, 1.5, 1.75, 2.0):
    weights = dict(original.weights)
    weights["blocks.0.attn.W_Q"] = np.float32(factor) * weights["blocks.0.attn.W_Q"]
    scaled = tsc.Checkpoint(original.config, weights)
    model = tsc.HookedClassifier.from_checkpoint(scaled)
    cache = model.run_with_cache("abc")[1]
    score = cache["blocks.0.attn.hook_attn_scores"][0, :, 0, 1:].detach().double().numpy()
    length = tsc.horizon(scaled, limit=10**8).length
    sharper.append((factor, float(score[0, 0] - score[0, 2]), length))
    print(f"{factor:8} {sharper[-1][1]:18.3f} {length:>9,} {math.log(length):14.3f}")
# --8<-- [end:margin]
growth = np.polyfit([margin for _, margin, _ in sharper], np.log([n for _, _, n in sharper]), 1)[0]
assert 0.9 < growth < 1.1, growth
