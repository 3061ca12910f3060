"""Chapter 1: a whole classifier, seen from above.

    python examples/ch1_high_level_walkthrough.py

A string goes in, and one number comes out. The string becomes a row of tokens, and each token a
point in the plane. A transformer block moves the points, and the number depends on where one of
them ends up.
"""

# --8<-- [start:load]
import tsc_interp as tsc

model = tsc.load("walkthrough")
config = model.config
size = model.to_checkpoint().n_parameters
print(
    f"{size} parameters decide whether a string over {config.alphabet.letters} "
    f"{config.task.describe()}"
)
# --8<-- [end:load]

# --8<-- [start:ask]
strings = ["aac", "baac"]
for answer in tsc.evaluate(model.to_checkpoint(), strings):
    print(
        f"{answer.string:5} logit {answer.logit:+.4f}, probability {answer.probability:.6f}, "
        f"label {answer.label}"
    )
# --8<-- [end:ask]

# --8<-- [start:tokens]
names = config.alphabet.token_names
for string, row in zip(strings, model.tokens(strings).tolist(), strict=True):
    print(f"{string:5}", " ".join(f"{names[token]}={token}" for token in row))
# --8<-- [end:tokens]

# --8<-- [start:embeddings]
for name, vector in zip(names, model.W_E.tolist(), strict=True):
    print(f"{name:4} ({vector[0]:+.4f}, {vector[1]:+.4f})")
# --8<-- [end:embeddings]

# --8<-- [start:transformed]
logits, cache = model.run_with_cache(strings)
transformed = cache["blocks.0.hook_resid_post"][:, 0]  # CLS stands at position 0
for string, vector in zip(strings, transformed.tolist(), strict=True):
    print(f"{string:5} CLS is now at ({vector[0]:+.4f}, {vector[1]:+.4f})")
# --8<-- [end:transformed]

# --8<-- [start:read-out]
direction = model.W_U[:, 0]
print(f"read-out direction ({direction[0]:+.4f}, {direction[1]:+.4f})")
for string, vector, logit in zip(strings, transformed, logits.tolist(), strict=True):
    print(f"{string:5} {float(vector @ direction):+.4f} by hand, {logit:+.4f} from the model")
# --8<-- [end:read-out]

# --8<-- [start:report]
more = ["ab", "bac", "cab{20}", "c", "a{7}", "b{4}c{9}"]
report = tsc.analyze(model, strings + more, probes=["trace"])
report.show()
print("report:", report.save("tsc-report/ch1"))
# --8<-- [end:report]
