"""Probe any TransformerLens model.

    python examples/probe_a_transformerlens_model.py

This script trains a small causal transformer for a few seconds to say which of two marker tokens, X
or Y, occurred before the question mark. Then it runs four probes on the model.
(With TransformerLens 3, HookedTransformer and HookedTransformerConfig take the same options.)
"""

# --8<-- [start:model]
import torch
from transformer_lens import TransformerBridge, TransformerBridgeConfig

import tsc_interp as tsc

VOCABULARY = ["?", "X", "Y", "k", "l", "m", "n", "o"]
QUESTION, X, Y, FIRST_NOISE = 0, 1, 2, 3

torch.manual_seed(0)
torch.set_num_threads(1)
model = TransformerBridge.boot_native(
    TransformerBridgeConfig(
        n_layers=1,
        d_model=16,
        n_heads=2,
        d_head=8,
        d_mlp=32,
        n_ctx=24,
        d_vocab=len(VOCABULARY),
        act_fn="gelu",
        normalization_type=None,
        device="cpu",
        seed=0,
    )
)
# --8<-- [end:model]


# --8<-- [start:train]
def batch(size: int, length: int = 12) -> tuple[torch.Tensor, torch.Tensor]:
    """Noise, one marker at a random place, and the question mark at the end."""
    tokens = torch.randint(FIRST_NOISE, len(VOCABULARY), (size, length))
    marker = torch.randint(X, Y + 1, (size,))
    tokens[torch.arange(size), torch.randint(0, length - 1, (size,))] = marker
    tokens[:, -1] = QUESTION
    return tokens, marker


optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
for step in range(151):
    tokens, marker = batch(128)
    loss = torch.nn.functional.cross_entropy(model(tokens)[:, -1], marker)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        print(f"step {step:3}: loss {loss.item():.4f}")
model.eval()
# --8<-- [end:train]

# --8<-- [start:probe]
tokens, marker = batch(64)
direction = (model.W_U[:, X] - model.W_U[:, Y]).detach()  # positive: X rather than Y
asked = {"query": -1, "token_names": VOCABULARY}

results = {
    "specialization": tsc.run_probe("specialization", model, tokens, **asked),
    "margin": tsc.run_probe("margin", model, tokens, **asked),
    "superposition": tsc.run_probe("superposition", model, tokens, **asked),
    "attribution": tsc.run_probe("attribution", model, tokens[:4], direction=direction, **asked),
}
for name, result in results.items():
    for finding in result.findings[:4]:
        print(f"{name}: [{finding.severity}] {finding.text}")
# --8<-- [end:probe]

# --8<-- [start:report]
report = tsc.analyze(model, tokens, direction=direction, **asked)
report.show()
print("report:", report.save("marker-report"))
# --8<-- [end:report]

# --8<-- [start:neither]
# Put it to the test: strings with no marker at all. What does the model say?
nothing = torch.randint(FIRST_NOISE, len(VOCABULARY), (1000, 12))
nothing[:, -1] = QUESTION
with torch.no_grad():
    answers = model(nothing)[:, -1].argmax(-1)
print({VOCABULARY[token]: int((answers == token).sum()) for token in answers.unique()})
# --8<-- [end:neither]

# --8<-- [start:exact]
# What attribution adds up is what the model says, to rounding.
with torch.no_grad():
    said = model(tokens[:4])[:, -1]
added_up = results["attribution"].effects.array.sum(axis=1)
for row, total in enumerate(added_up):
    print(f"row {row}: parts {total:+.4f}, X minus Y {float(said[row, X] - said[row, Y]):+.4f}")
# --8<-- [end:exact]
