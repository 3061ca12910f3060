"""Chapter 3: why a model that has learned its task fails on long strings.

    python examples/ch3_generalization_errors.py

This model has the same 36 parameters, trained from another seed on strings of up to ten letters. It
makes no error on strings of up to 66 letters, but fails on longer ones in two ways, each with its
own mechanism.
"""

# --8<-- [start:errors]
import numpy as np

import tsc_interp as tsc

model = tsc.load("generalization-errors")
strings = ["aac", "baac", "ab{100}", "b{2}c{152}", "ab{100}c{55}"]
for row in tsc.evaluate(model.to_checkpoint(), strings):
    verdict = "right" if row.correct else f"false {'positive' if row.prediction else 'negative'}"
    print(f"{row.string:13} logit {row.logit:+.4f}  probability {row.probability:.8f}  {verdict}")
# --8<-- [end:errors]

# --8<-- [start:outnumbered]
# False negatives: the one a is still seen best, but there are too many b's.
_, cache = model.run_with_cache("abc")
scores = cache["blocks.0.attn.hook_attn_scores"][0, 0, 0, 1:].detach().numpy()
margin = float(scores[0] - scores[1])
print(f"head 0 scores: a {scores[0]:+.3f}, b {scores[1]:+.3f}, c {scores[2]:+.3f}")
print(f"margin of a over b {margin:.4f}: {np.exp(margin):.1f} b's halve its weight")
for n in (1, 10, 42, 65, 66, 100):
    logit, cache = model.run_with_cache(f"ab{{{n}}}")
    weight = float(cache["blocks.0.attn.hook_pattern"][0, 0, 0, 1])
    print(f"ab{{{n}}}".ljust(8), f"weight of a {weight:.4f}, logit {float(logit):+.4f}")
# --8<-- [end:outnumbered]

# --8<-- [start:without-c]
# ab{100} and ab{100}c{55} fail for the same reason: the c's hardly matter.
for string in ("ab{100}", "ab{100}c{55}"):
    logit, cache = model.run_with_cache(string)
    shown = "  ".join(f"{x:+.4f}" for x in cache["blocks.0.attn.hook_z"][0, 0, :, 0].tolist())
    print(f"{string:13} head values {shown}   logit {float(logit):+.4f}")
# --8<-- [end:without-c]

# --8<-- [start:imitation]
# False positives: no a in sight, but enough c's pass for one.
_, cache = model.run_with_cache("abc")
values = cache["blocks.0.attn.hook_v"][0, 1:, 0, 0].tolist()
print("head 0 values:", "  ".join(f"{x} {v:+.4f}" for x, v in zip("abc", values, strict=True)))
for n in (0, 10, 50, 100, 138, 139, 152):
    string = f"b{{2}}c{{{n}}}" if n else "b{2}"
    logit, cache = model.run_with_cache(string)
    taken = float(cache["blocks.0.attn.hook_z"][0, 0, 0, 0])
    print(f"{string:11} head 0 returns {taken:+.4f}, logit {float(logit):+.4f}")
# --8<-- [end:imitation]


# --8<-- [start:intervene]
# If c's value in head 0 is the cause, moving it must cure the false positive, and nothing else.
def quiet_c(values, hook):
    values[:, 3, 0] = values[:, 2, 0]  # in head 0, c now says what b says
    return values


edit = [("blocks.0.attn.hook_v", quiet_c)]
for string in strings:
    before, after = float(model(string)), float(model.run_with_hooks(string, fwd_hooks=edit))
    print(f"{string:13} logit {before:+8.4f} -> {after:+8.4f}")
# --8<-- [end:intervene]

# --8<-- [start:report]
report = tsc.analyze(model, strings, probes=["trace", "superposition", "cone", "margin"])
report.show()
print("report:", report.save("tsc-report/ch3"))
# --8<-- [end:report]
