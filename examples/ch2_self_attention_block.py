"""Chapter 2: inside the self-attention block.

    python examples/ch2_self_attention_block.py

The model has two heads of size one. Each head gives every letter a score, weights the letters by
their scores, and returns the weighted average of their values, which is one number. So CLS learns
only two numbers about a string.
"""

# --8<-- [start:load]
import tsc_interp as tsc

model = tsc.load("walkthrough")
strings = ["aac", "baac"]
logits, cache = model.run_with_cache(strings)
letters = model.config.alphabet.letters
print("activations:", ", ".join(name for name in cache if ".attn." in name))
# --8<-- [end:load]

# --8<-- [start:scores]
# A string is kept as CLS and one position per letter, with counts: CLS a b c. Here, one of each.
_, one_of_each = model.run_with_cache("abc")
query = one_of_each["blocks.0.attn.hook_q"][0, 0, :, 0]  # CLS's question, one number per head
keys = one_of_each["blocks.0.attn.hook_k"][0, 1:, :, 0]  # each letter's answer
for head in range(2):
    scores = (query[head] * keys[:, head]).tolist()
    shown = "  ".join(f"{x} {s:+7.3f}" for x, s in zip(letters, scores, strict=True))
    print(f"head {head}: {shown}")
# --8<-- [end:scores]

# --8<-- [start:weights]
tokens = model.tokens(strings)
_, in_full = model.run_with_cache(tokens)  # one position per character, as in the report
pattern = in_full["blocks.0.attn.hook_pattern"][:, :, 0]
for head in range(2):
    for row, string in enumerate(strings):
        shown = pattern[row, head, 1 : 1 + len(string)].tolist()
        print(f"head {head}, {string:5}", "  ".join(f"{weight:.4e}" for weight in shown))
# --8<-- [end:weights]

# --8<-- [start:values]
values = one_of_each["blocks.0.attn.hook_v"][0, 1:, :, 0]
taken = cache["blocks.0.attn.hook_z"][:, 0, :, 0]
for head in range(2):
    shown = "  ".join(
        f"{x} {v:+.4f}" for x, v in zip(letters, values[:, head].tolist(), strict=True)
    )
    got = "  ".join(f"{s} {z:+.4f}" for s, z in zip(strings, taken[:, head].tolist(), strict=True))
    print(f"head {head} values: {shown}   CLS takes: {got}")
# --8<-- [end:values]

# --8<-- [start:order]
# Neither the order of the letters nor the number of copies of the whole string changes anything.
same = ["baac", "caab", "aabc", "a{2000}b{1000}c{1000}"]
print(
    "  ".join(
        f"{string} {logit:+.4f}" for string, logit in zip(same, model(same).tolist(), strict=True)
    )
)
# --8<-- [end:order]


# --8<-- [start:mute]
def silence(head_values, hook, head):
    head_values[:, :, head] = 0.0
    return head_values


for head in range(2):
    muted = model.run_with_hooks(
        strings, fwd_hooks=[("blocks.0.attn.hook_z", lambda z, hook, h=head: silence(z, hook, h))]
    )
    shown = "  ".join(f"{s} {x:+.3f}" for s, x in zip(strings, muted.tolist(), strict=True))
    print(f"without head {head}: {shown}")
# --8<-- [end:mute]

# --8<-- [start:report]
report = tsc.analyze(
    model,
    [*strings, "ab{20}c", "a{20}b", "b{9}c"],
    probes=["trace", "specialization", "attribution"],
)
report.show()
print("report:", report.save("tsc-report/ch2"))
# --8<-- [end:report]
