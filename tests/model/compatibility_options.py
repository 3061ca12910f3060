"""The options of `forward`, and the parts of a model that can be called, for compatibility.py."""

from __future__ import annotations

from typing import Any

from tests.model.compatibility_rows import BOTH, NEW, OLD, Row, Side, differs, logits, works
from tsc_interp.model.refused import OPTIONS


def residual(side: Side, layer: int) -> Any:
    return side.cache[f"blocks.{layer}.hook_resid_pre"]


FORWARD = [
    works("return_type=None", lambda s: s.model(s.tokens, return_type=None)),
    works('return_type="logits"', lambda s: logits(s, s.model(s.tokens, return_type="logits"))),
    differs('return_type="loss"', lambda s: both(s)[0], "see `loss_fn`", expected=True),
    differs('return_type="both"', lambda s: both(s)[1], "the same", expected=True),
    differs("loss_per_token", lambda s: both(s)[2], "one number per string", expected=True),
    works("prepend_bos", lambda s: logits(s, s.model(s.tokens, prepend_bos=True)),
          note="ignored: CLS is part of every input"),
    works("stop_at_layer", lambda s: [s.model(s.tokens, stop_at_layer=i) for i in (0, 1, -1)],
          note="the residual stream before that layer"),
    differs("start_at_layer", lambda s: logits(s, s.model(
        residual(s, 1), start_at_layer=1, tokens=s.tokens)),
        "needs `tokens=`, which say what may be attended to"),
    differs("tokens", lambda s: logits(s, s.model(
        residual(s, 1), start_at_layer=1, tokens=s.tokens)),
        "with `start_at_layer`, whatever the return type", OLD),
]  # fmt: skip
_VERSIONS = {"padding_side": BOTH, "attention_mask": BOTH, "past_kv_cache": OLD,
             "shortformer_pos_embed": OLD}  # fmt: skip
FORWARD_REFUSED = [
    Row(name, "refused", None, _VERSIONS.get(name, NEW), reason) for name, reason in OPTIONS.items()
]

PARTS = [
    works("embed(tokens)", lambda s: s.model.embed(s.tokens)),
    works("unembed(resid)", lambda s: s.model.unembed(residual(s, 1))),
    works("blocks[i].mlp(x)", lambda s: s.model.blocks[0].mlp(residual(s, 1))),
]
PARTS_REFUSED = [
    Row(name, "refused", None, BOTH, "attention needs to know how often each key counts")
    for name in ("blocks[i](resid)", "blocks[i].attn(q, k, v)")
]


def both(side: Side) -> list[bool]:
    """Loss and logits agree with each other and with the loss taken apart."""
    out = side.model(side.tokens, return_type="both")
    each = side.model(side.tokens, return_type="loss", loss_per_token=True)
    loss = side.model(side.tokens, return_type="loss")
    return [
        bool(loss == each.mean()),
        bool((out.logits == side.model(side.tokens)).all() and out.loss == loss),
        bool((each == side.model.loss_fn(out.logits, side.tokens, per_token=True)).all()),
    ]
