"""Bring your own model: from a TransformerLens training loop to a certificate.

    python examples/bring_your_own_model.py

This script trains a small transformer with TransformerLens and plain torch to say whether a string
contains an `a` and a `b`. Then it imports the model and decides it on strings of every length.
(With TransformerLens 3, HookedTransformer and HookedTransformerConfig take the same options.)
"""

# --8<-- [start:train]
import torch
from transformer_lens import TransformerBridge, TransformerBridgeConfig

A, B, C, ASK = range(4)
torch.manual_seed(0)
torch.set_num_threads(1)
config = TransformerBridgeConfig(
    n_layers=1, d_model=16, n_heads=2, d_head=8, d_mlp=32, n_ctx=24, d_vocab=4, d_vocab_out=2,
    act_fn="gelu", normalization_type=None, device="cpu", seed=0,
)  # fmt: skip
model = TransformerBridge.boot_native(config)
model.pos_embed.weight.requires_grad_(False).zero_()  # the order of letters does not matter here


def batch(size, length):
    """Random strings, most of them without one of the letters, and ASK at the end."""
    letters = torch.randint(0, 3, (size, length))
    gone = torch.randint(0, 3, (size, 1))
    letters = torch.where((torch.rand(size, 1) < 0.6) & (letters == gone), (gone + 1) % 3, letters)
    label = ((letters == A).any(1) & (letters == B).any(1)).long()
    return torch.cat([letters, torch.full((size, 1), ASK)], dim=1), label


trained = [p for p in model.parameters() if p.requires_grad]
optimizer = torch.optim.AdamW(trained, lr=3e-3)
for _ in range(401):
    tokens, label = batch(128, length=int(torch.randint(1, 21, ())))
    loss = torch.nn.functional.cross_entropy(model(tokens)[:, -1], label)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

tokens, label = batch(10_000, length=20)
with torch.no_grad():
    accuracy = (model(tokens)[:, -1].argmax(-1) == label).double().mean()
print(f"right on {accuracy:.2%} of 10,000 random strings of 20 letters")
# --8<-- [end:train]

# --8<-- [start:certificate]
import tsc_interp as tsc

reading = {"tokens": {A: "a", B: "b", C: "c"}, "query": ASK, "task": "contains_all"}
checkpoint = tsc.from_transformer_lens(model, **reading)
found = tsc.horizon(checkpoint)
print("every string is right up to", found.verified_length, "letters; the first error is",
      found.shortest.string)  # fmt: skip
tsc.certify(checkpoint).save("certificate.json")
checkpoint.save("mine.safetensors")
proved = tsc.check("certificate.json", checkpoint)
print(*proved, sep="\n")
# --8<-- [end:certificate]

# --8<-- [start:witness]
counts = dict(zip("abc", found.shortest.counts, strict=True))
row = [A] * counts["a"] + [B] * counts["b"] + [C] * counts["c"] + [ASK]
with torch.no_grad():
    no, yes = model(torch.tensor([row]))[0, -1].tolist()
print(f"the original on {found.shortest.string}: {'yes' if yes > no else 'no'} ({yes - no:+.3f})")
# --8<-- [end:witness]

# --8<-- [start:report]
report = tsc.analyze(checkpoint, probes=["trace", "margin", "attribution"])
report.show()
# --8<-- [end:report]

# --8<-- [start:torch]
layer = torch.nn.TransformerEncoderLayer(
    16, nhead=2, dim_feedforward=32, norm_first=True, batch_first=True, dropout=0.0
)
embedding, head = torch.nn.Embedding(4, 16), torch.nn.Linear(16, 1)
mine = tsc.from_torch(embedding, layer, head, tokens=[A, B, C], query=ASK, task="contains_all")
print(f"{mine.config.norm} norms, {mine.config.act_fn}; untrained, it is right on "
      f"{float(tsc.verify(mine, 10).accuracy):.1%} of all strings of up to 10 letters")  # fmt: skip
# --8<-- [end:torch]

# --8<-- [start:saved]
import json
from pathlib import Path

from tsc_interp.cli import main

torch.save(model.state_dict(), "state.pt")
options = {
    "n_layers": 1, "d_model": 16, "n_heads": 2, "d_head": 8, "d_mlp": 32, "n_ctx": 24,
    "d_vocab": 4, "d_vocab_out": 2, "act_fn": "gelu", "normalization_type": None,
}  # fmt: skip
named = {"0": "a", "1": "b", "2": "c"}
described = {"model": options, "reading": {"tokens": named, "query": 3, "task": "contains_all"}}
Path("state.json").write_text(json.dumps(described))
main(["import", "state.pt", "--config", "state.json", "--out", "saved.safetensors"])
main(["verify", "--checkpoint", "saved.safetensors", "--horizon"])
# --8<-- [end:saved]

# --8<-- [start:refused]
capped = TransformerBridgeConfig(
    n_layers=1, d_model=16, n_heads=2, d_head=8, d_mlp=32, n_ctx=24, d_vocab=4, d_vocab_out=2,
    act_fn="gelu", normalization_type=None, device="cpu", attn_scores_soft_cap=30.0,
)  # fmt: skip
try:
    tsc.from_transformer_lens(TransformerBridge.boot_native(capped), **reading)
except tsc.TscError as error:
    print(error)
# --8<-- [end:refused]

# --8<-- [start:task]
from typing import Literal


class Both(tsc.tasks.OwnTask):
    """At least two of a and one of b."""

    kind: Literal["two_a_and_b"] = "two_a_and_b"

    def labels(self, counts):
        return (counts[..., 0] >= 2) & (counts[..., 1] >= 1)


verdict = tsc.verify(tsc.from_transformer_lens(model, **{**reading, "task": Both()}), 12)
print(f"as an answer to “two a and a b?”: right on {float(verdict.accuracy):.1%}, "
      f"first wrong on {verdict.shortest.string}")  # fmt: skip
# --8<-- [end:task]

# --8<-- [start:ordered]
ordered = TransformerBridge.boot_native(config)  # its positions left as they are
ordered.eval()
with_order = tsc.from_transformer_lens(ordered, **{**reading, "task": "before"})
verdict = tsc.verify(with_order, 8)
print(f"“{with_order.config.question}?”: {verdict.wrong:,} of {verdict.strings:,} strings of "
      f"up to 8 letters are wrong, the first is {verdict.shortest.string}")  # fmt: skip
# --8<-- [end:ordered]
