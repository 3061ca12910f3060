"""Scores that grow with log n: a margin above 1 keeps a lone letter's weight, for ever."""

# --8<-- [start:threshold]
import math
import tempfile

import numpy as np

import tsc_interp as tsc


def weight_of_one(margin: float, n: int) -> float:
    """Attention weight of one target among n - 1 others, its score larger by `margin` · log n."""
    return 1 / (1 + (n - 1) * math.exp(-margin * math.log(n)))


lengths = [10, 1_000, 100_000, 10_000_000, 1_000_000_000]
print("margin   " + "".join(f"n = 10^{round(math.log10(n)):<6}" for n in lengths))
for margin in (0.0, 0.8, 1.0, 1.2, 2.0):
    print(f"{margin:<9}" + "".join(f"{weight_of_one(margin, n):<13.6f}" for n in lengths))
# --8<-- [end:threshold]
assert weight_of_one(0.8, 10**9) < 0.02
assert abs(weight_of_one(1.0, 10**9) - 0.5) < 1e-8
assert weight_of_one(1.2, 10**9) > 0.98

# --8<-- [start:two-heads]
config = tsc.ClassifierConfig(
    d_model=3, n_heads=2, d_head=1, d_mlp=0, score_scale="sqrt_d_head_log_n"
)
margin, threshold = 2.0, 7 / 6
two_heads = tsc.Checkpoint(
    config,
    {
        # Rows CLS, PAD, a, b, c. CLS carries the threshold, a and b a direction each, c nothing.
        "embed.W_E": np.float32([[1, 0, 0], [0, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 0]]),
        # Head 0 asks for a, head 1 for b, each with margin 2 over the other letters ...
        "blocks.0.attn.W_Q": np.float32([[[margin], [0], [0]], [[margin], [0], [0]]]),
        "blocks.0.attn.W_K": np.float32([[[0], [1], [0]], [[0], [0], [1]]]),
        # ... and returns 1 for its letter, 0 for the others.
        "blocks.0.attn.W_V": np.float32([[[0], [1], [0]], [[0], [0], [1]]]),
        "blocks.0.attn.W_O": np.float32([[[0, 1, 0]], [[0, 0, 1]]]),
        "unembed.W_U": np.float32([[-threshold], [1], [1]]),
    },
)
strings = ["ab", "ab{1000000}", "a{1000000}b", "abc{1000000000}", "c", "a{5}c", "b{1000000}c{7}"]
for row in tsc.evaluate(two_heads, strings):
    print(f"{row.string:17} logit {row.logit:+.4f}   label {row.label}")
certificate = tsc.certify(two_heads)
for sentence in certificate.proved:
    print("-", sentence)
# --8<-- [end:two-heads]
assert certificate.horizon.infinite
for row in tsc.evaluate(two_heads, strings):
    assert row.margin > 1 / 6 - 1e-6, row

# --8<-- [start:one-head]
single = config.replace(n_heads=1, d_head=2, d_mlp=2)
steep, slack = 40.0, 0.02


def one_head(gap: float) -> tsc.Checkpoint:
    """One head that sees a and b far above c, and a above b by `gap`.

    It returns (weight of a, weight of b), and the MLP turns their sum into about twice the smaller
    of the two: u + v - |u - v|. The logit is that minus a little, so it is negative when one of
    them is missing.
    """
    key_a, key_b = 2 + gap / 2, 2 - gap / 2
    return tsc.Checkpoint(
        single,
        {
            "embed.W_E": two_heads.weights["embed.W_E"],
            "blocks.0.attn.W_Q": np.float32([[[math.sqrt(2), 0], [0, 0], [0, 0]]]),
            "blocks.0.attn.W_K": np.float32([[[0, 0], [key_a, 0], [key_b, 0]]]),
            "blocks.0.attn.W_V": np.float32([[[0, 0], [1, 0], [0, 1]]]),
            "blocks.0.attn.W_O": np.float32([[[0, 1, 0], [0, 0, 1]]]),
            "blocks.0.mlp.W_in": np.float32([[0, 0], [steep, -steep], [-steep, steep]]),
            "blocks.0.mlp.W_out": np.float32([[0, -1 / steep, 0], [0, -1 / steep, 0]]),
            "unembed.W_U": np.float32([[-slack], [1], [1]]),
        },
    )


shortest = {}
print("a over b   horizon   first error")
for gap in (-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0):
    found = tsc.horizon(one_head(gap), limit=10**9)
    shortest[gap] = found.shortest
    print(f"{gap:+8.1f} {found.length:>9,}   {found.shortest.string}")
# --8<-- [end:one-head]
assert all(error.kind == "false_negative" for error in shortest.values())

# --8<-- [start:trained]
# The walk-through model again, 36 parameters from eight seeds, its scores now scaled by log n.
experiment = tsc.Experiment.of(
    "log_n", "0..7", {"score_scale": "sqrt_d_head_log_n"}, {"max_epochs": 8}
)
with tempfile.TemporaryDirectory() as place:
    runs = tsc.train(experiment.jobs(), place)
    models = [run.directory.checkpoint(run.result.chosen_epoch) for run in runs]
for_ever = 0
for run, trained in zip(runs, models, strict=True):
    certificate = tsc.certify(trained)
    for_ever += certificate.horizon.infinite
    outcome = (
        f"proved right on every string of every length ({len(certificate.proved)} statements)"
        if certificate.horizon.infinite
        else f"wrong from {certificate.horizon.shortest.string}"
    )
    print(f"seed {run.result.seed}: {run.result.test.errors:5,} test errors; {outcome}")
    if not certificate.horizon.infinite:
        heads = tsc.run_probe("specialization", trained, ["ab", "b"])
        failures = [found.text for found in heads.findings if found.severity == "failure"]
        print("       ", *failures)
print(f"{for_ever} of {len(models)} have an infinite horizon")
# --8<-- [end:trained]
assert for_ever >= 6
assert failures, "the page says that heads which do not specialise are the reason"
