"""Attention with multiplicities is the same function as attention over every character."""

# --8<-- [start:same]
from math import comb

import torch

import tsc_interp as tsc
from tsc_interp.model.forward import forward
from tsc_interp.model.inputs import from_counts, from_tokens

# Three layers, norms, CLS attended to: nothing here is special.
config = tsc.ClassifierConfig(
    n_letters=4, n_layers=3, d_model=6, n_heads=3, d_head=2, norm="layer", attend_cls=True
)
model = tsc.HookedClassifier(config, seed=1)
weights = {name: weight.detach().double() for name, weight in model.named_parameters()}

strings = ["abc", "cab", "ab{100}c{55}d", "d{900}a", "a{7}b{7}c{7}d{7}"]
tokens = torch.from_numpy(config.alphabet.tokens(strings))
counts = torch.from_numpy(config.alphabet.count_matrix(strings))

by_character = forward(config, weights, from_tokens(config, tokens))
by_count = forward(config, weights, from_counts(config, counts))

for string, one, other in zip(strings, by_character.tolist(), by_count.tolist(), strict=True):
    print(f"{string:18} {one:+.15f} {other:+.15f}")
largest = float((by_character - by_count).abs().max())
print(f"positions: {tokens.shape[1]} and {counts.shape[1] + 1}; largest difference {largest:.1e}")
# --8<-- [end:same]
assert largest < 1e-13
assert abs(float(by_count[0] - by_count[1])) < 1e-15, "abc and cab have the same counts"

# --8<-- [start:how-many]
for length in (9, 50, 200, 500):
    all_strings = sum(3**n for n in range(1, length + 1))
    vectors = comb(length + 3, 3) - 1
    print(f"up to length {length:3}: {vectors:>10,} count vectors for {all_strings:.2e} strings")
# --8<-- [end:how-many]
assert comb(203, 3) - 1 == 1_373_700

# --8<-- [start:positions]
positioned = tsc.HookedClassifier(config.replace(n_positions=32), seed=1)
try:
    positioned(positioned.counts(counts))
    refused = None
except tsc.TscError as error:
    refused = error
print(refused)

causal = tsc.HookedClassifier(config.replace(n_layers=2, reads="last"), seed=1)
in_order = {string: causal(string).item() for string in ("abc", "cab")}
print(", ".join(f"{string}: {logit:+.4f}" for string, logit in in_order.items()))
try:
    causal(causal.counts(counts))
    refused_too = None
except tsc.TscError as error:
    refused_too = error
print(refused_too)
# --8<-- [end:positions]
assert refused is not None, "a model with positions must refuse counts"
assert refused_too is not None, "two causal layers must refuse counts"
assert abs(in_order["abc"] - in_order["cab"]) > 1e-4, "two causal layers see order"
