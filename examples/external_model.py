"""Explain a published model: from its file of weights to a page about it.

    python examples/external_model.py                           (a model made on the spot)
    python examples/external_model.py palindromes.pt --task palindrome \\
        --frame "[START] x{20} [END]; x=0..30; START=31; END=32"

The file is a saved state of TransformerLens's HookedTransformer. The script reads the model's sizes
from the weights. A state does not contain the activation and the direction of attention, so these
are options. The frame says what inputs look like, and the task what is right. The script searches
for the simplest wrong input; the page takes it apart and shows which changes the model misses, the
heads that the answers need and where they attend.
"""

# --8<-- [start:read]
import argparse
import json
import sys
from pathlib import Path

import torch

import tsc_interp as tsc
from tsc_interp.model.import_files import build, read_tensors


def sizes(state: dict[str, torch.Tensor], act_fn: str, both_ways: bool) -> dict[str, object]:
    """TransformerLens's options, as far as the shapes of the weights say them."""
    heads, d_model, d_head = state["blocks.0.attn.W_Q"].shape
    thinks = "blocks.0.mlp.W_in" in state
    return {
        "n_layers": len({name.split(".")[1] for name in state if name.startswith("blocks.")}),
        "d_model": d_model,
        "n_heads": heads,
        "d_head": d_head,
        "n_ctx": len(state["pos_embed.W_pos"]),
        "d_vocab": len(state["embed.W_E"]),
        "d_vocab_out": state["unembed.W_U"].shape[1],
        "normalization_type": "LN" if "ln_final.w" in state else None,
        "attention_dir": "bidirectional" if both_ways else "causal",
        **({"d_mlp": state["blocks.0.mlp.W_in"].shape[1], "act_fn": act_fn} if thinks else
           {"attn_only": True}),
    }  # fmt: skip


# --8<-- [end:read]


# --8<-- [start:made]
def made() -> dict[str, torch.Tensor]:
    """A state in the same form: head 0 looks at the first letter, which becomes the answer."""
    letters, width, d_model = 5, 7, 12
    state = {
        "embed.W_E": torch.eye(letters, d_model),
        "pos_embed.W_pos": torch.eye(width, d_model).roll(letters, 1),
        "unembed.W_U": torch.eye(d_model, letters), "unembed.b_U": torch.zeros(letters),
    }  # fmt: skip
    query = torch.zeros(2, d_model, 4)
    key, value = query.clone(), query.clone()
    query[0, d_model - 1, 0] = 6.0  # the last position asks head 0,
    key[0, letters, 0] = 6.0  # the first position answers,
    value[0, :4, :] = 3.0 * torch.eye(4)  # and its letter is copied; head 1 does nothing
    named = {"W_Q": query, "W_K": key, "W_V": value, "W_O": value.transpose(1, 2)}
    shapes = {"b_Q": (2, 4), "b_K": (2, 4), "b_V": (2, 4), "b_O": (d_model,)}
    state |= {f"blocks.0.attn.{name}": weight.clone() for name, weight in named.items()}
    return state | {f"blocks.0.attn.{n}": torch.zeros(shape) for n, shape in shapes.items()}


# --8<-- [end:made]


# --8<-- [start:page]
parser = argparse.ArgumentParser()
parser.add_argument("state", nargs="?", type=Path)
parser.add_argument("--frame", default="x{7}; x=0..4", help="what inputs look like")
parser.add_argument("--task", help="what is right: a name, or a task as JSON")
parser.add_argument("--act-fn", default="relu")
parser.add_argument("--both-ways", action="store_true", help="attention is not causal")
parser.add_argument("--seconds", type=float, default=60)
parser.add_argument("--out", default="external-report")
run_alone = Path(sys.argv[0]).name == Path(__file__).name  # the documentation runs it, too
asked = parser.parse_args(None if run_alone else [])

state = read_tensors(asked.state) if asked.state else made()
model = build(sizes(state, asked.act_fn, asked.both_ways), state)
label = lambda rows: rows[:, 0]  # noqa: E731  (what the made model answers: the first letter)
if asked.task:
    label = json.loads(asked.task) if asked.task.startswith("{") else asked.task

found = tsc.falsify(model, label, frame=asked.frame, seconds=asked.seconds, seed=0)
name = asked.state.stem if asked.state else "first letter"
report = tsc.analyze(model, found=found, name=name)
report.show()
print("page:", report.save(asked.out))
# --8<-- [end:page]
