"""What TransformerLens 4's names do on our classifier: the rows of a table in the documentation.

    python -m tests.model.compatibility

writes the table into docs/pages/how-to/transformer-lens.md. test_compatibility.py walks the rows: a
row that works is called on our model and on the same model exported to TransformerLens, and the
answers must be equal; a row that differs is checked against what its note says. Every other public
name of a `TransformerBridge` must be refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformer_lens import ActivationCache, TransformerBridge

PAGE = Path(__file__).parents[2] / "docs/pages/how-to/transformer-lens.md"
BEGIN, END = "<!-- compatibility: begin -->", "<!-- compatibility: end -->"


@dataclass(frozen=True)
class Side:
    """One of the two: our model or the exported one, and a cache of its activations."""

    model: Any
    cache: Any
    tokens: Any
    ours: bool


@dataclass(frozen=True)
class Row:
    name: str
    status: str
    """works or differs."""
    call: Callable[[Side], Any]
    """What is done on both sides, whose answers must be equal."""
    note: str = ""
    expected: Any = None
    """Where TransformerLens has no equal: the answer, known without either."""


def works(name: str, call: Callable[[Side], Any], note: str = "") -> Row:
    return Row(name, "works", call, note)


def differs(name: str, call: Callable[[Side], Any], note: str, expected: Any = None) -> Row:
    return Row(name, "differs", call, note, expected)


def logits(side: Side, out: Any) -> Any:
    return out if side.ours else out[:, 0]


def attribute(name: str) -> Row:
    return works(name, lambda side: getattr(side.model, name))


def edit(side: Side, **options: Any) -> Any:
    """Logits after halving what the heads return, by way of whatever `options` name."""
    hooks = [(Z, lambda z, hook: z * 0.5)]
    return logits(side, side.model.run_with_hooks(side.tokens, fwd_hooks=hooks, **options))


def now(side: Side) -> Any:
    return logits(side, side.model(side.tokens))


def with_hook(
    side: Side,
    add: Callable[[Any], Any],
    *,
    gone: str = "remove_all_hook_fns",
    permanent: bool = False,
) -> Any:
    """Logits while a hook is there, and after it is gone again."""
    add(lambda z, hook: z * 0.5)
    edited = now(side)
    getattr(side.model, gone)()
    after = now(side)
    if permanent:  # still there; the exported model has permanent hooks of its own to keep
        point(side).remove_hooks("fwd", including_permanent=True)
    return edited, after, now(side)


def cached(side: Side, start: Callable[[], Any]) -> Any:
    """What caching hooks gather in a run, of one activation."""
    cache = start()
    side.model(side.tokens)
    side.model.reset_hooks()
    return cache[PATTERN]


def extra(side: Side, switch: str, *names: str) -> Any:
    """With an extra switched on: its activations, and the logits after doubling the first."""
    getattr(side.model, switch)(True)
    try:
        _, cache = side.model.run_with_cache(side.tokens)
        hooks = [(f"blocks.1.{names[0]}", lambda x, hook: x * 2)]
        edited = side.model.run_with_hooks(side.tokens, fwd_hooks=hooks)
        return [*(cache[f"blocks.1.{name}"] for name in names), logits(side, edited)]
    finally:
        getattr(side.model, switch)(False)


def point(side: Side) -> Any:
    return side.model.blocks[0].attn.hook_z


PATTERN = "blocks.1.attn.hook_pattern"
Z = "blocks.0.attn.hook_z"
_MATRICES = (
    "W_E",
    "W_pos",
    "W_E_pos",
    "W_U",
    "W_Q",
    "W_K",
    "W_V",
    "W_O",
    "W_in",
    "W_out",
    "W_gate",
)
_BIASES = ("b_Q", "b_K", "b_V", "b_O", "b_in", "b_out", "b_U")
WEIGHTS = [
    *map(attribute, (*_MATRICES, *_BIASES)),
    works("QK", lambda s: s.model.QK.AB),
    works("OV", lambda s: s.model.OV.AB),
    works("accumulated_bias", lambda s: s.model.accumulated_bias(1, mlp_input=True)),
    works("all_head_labels", lambda s: s.model.all_head_labels),
    differs("all_composition_scores", lambda s: [plain(s, mode) for mode in "QKV"],
            "a plain tensor, where TransformerLens wraps it in a class of its own"),
    works("tl_parameters", lambda s: s.model.tl_parameters()),
]  # fmt: skip


def plain(side: Side, mode: str) -> Any:
    scores = side.model.all_composition_scores(mode)
    return getattr(scores, "scores", scores)


_FURTHER = "also where a TransformerBridge made by `boot_native` cannot"
RUNNING = [
    differs("forward", now, "one logit per string, `[batch]`: CLS's. Its options are below"),
    works("run_with_cache", lambda s: s.model.run_with_cache(
        s.tokens, names_filter=PATTERN)[1][PATTERN]),
    works("run_with_hooks", edit),
    works("hooks", lambda s: hooked_block(s)),
    works("add_hook", lambda s: with_hook(s, lambda f: s.model.add_hook(Z, f))),
    works("add_perma_hook", lambda s: with_hook(
        s, lambda f: s.model.add_perma_hook(Z, f), permanent=True)),
    works("check_hooks_to_add", lambda s: s.model.check_hooks_to_add(point(s), Z, print)),
    works("add_caching_hooks", lambda s: cached(s, lambda: s.model.add_caching_hooks(PATTERN))),
    works("get_caching_hooks", lambda s: caching(s)),
    works("cache_all", lambda s: cached(s, lambda: filled(s.model.cache_all))),
    works("cache_some", lambda s: cached(s, lambda: filled(
        s.model.cache_some, lambda name: name == PATTERN))),
    works("reset_hooks", lambda s: with_hook(
        s, lambda f: point(s).add_hook(f), gone="reset_hooks")),
    works("remove_all_hook_fns", lambda s: with_hook(s, lambda f: point(s).add_hook(f))),
    works("clear_contexts", lambda s: s.model.clear_contexts()),
    works("list_hooks", lambda s: listed(s)),
    works("hook_points", lambda s: point(s) in list(s.model.hook_points())),
    works("hook_dict", lambda s: s.model.hook_dict[Z] is point(s)),
    works("mod_dict", lambda s: s.model.mod_dict["blocks.1"] is s.model.blocks[1]),
    works("set_use_attn_result", lambda s: extra(
        s, "set_use_attn_result", "attn.hook_result"), note=_FURTHER),
    works("set_use_attn_in", lambda s: extra(s, "set_use_attn_in", "hook_attn_in"), note=_FURTHER),
    works("set_use_split_qkv_input", lambda s: extra(
        s, "set_use_split_qkv_input", "hook_q_input", "hook_k_input", "hook_v_input"),
        note=_FURTHER),
    works("set_use_hook_mlp_in", lambda s: extra(s, "set_use_hook_mlp_in", "hook_mlp_in")),
    differs("loss_fn", lambda s: s.model.loss_fn(
        torch.tensor([[0.0, 2.0], [0.0, -1.0], [0.0, 0.5]]), s.tokens, per_token=True),
        "cross-entropy of the task's classes; there is no next token",
        expected=torch.tensor([math.log1p(math.exp(x)) for x in (-2.0, -1.0, 0.5)])),
]  # fmt: skip


def hooked_block(side: Side) -> Any:
    with side.model.hooks(fwd_hooks=[(Z, lambda z, hook: z * 0.5)]):
        inside = now(side)
    return inside, now(side)


def filled(start: Callable[..., Any], *args: Any) -> dict[str, Any]:
    cache: dict[str, Any] = {}
    start(cache, *args)
    return cache


def caching(side: Side) -> Any:
    cache, forward, backward = side.model.get_caching_hooks(PATTERN)
    side.model.run_with_hooks(side.tokens, fwd_hooks=forward)
    return cache[PATTERN], [name for name, _ in forward], backward


def listed(side: Side) -> Any:
    point(side).add_hook(lambda z, hook: z)
    try:
        found = side.model.list_hooks(lambda name: name == Z)
        return [len(handles) for handles in found.values()]
    finally:
        side.model.reset_hooks()


STRINGS = [
    differs("to_tokens", lambda s: s.model.to_tokens(["abb", "c"], prepend_bos=True).tolist(),
            "letters and run lengths; one CLS in front, whatever `prepend_bos`",
            expected=[[0, 2, 3, 3], [0, 4, 1, 1]]),
    differs("to_str_tokens", lambda s: [
        s.model.to_str_tokens("ab{2}"), s.model.to_str_tokens(torch.tensor([0, 4, 1])),
        s.model.to_str_tokens(["a", "b"])], "the same",
        expected=[["CLS", "a", "b", "b"], ["CLS", "c", "PAD"], [["CLS", "a"], ["CLS", "b"]]]),
    differs("to_string", lambda s: s.model.to_string([[0, 3, 3, 3, 3, 3], [0, 4, 1, 1, 1, 1]]),
            "run-length notation, without CLS and PAD", expected=["b{5}", "c"]),
    differs("to_single_token", lambda s: [s.model.to_single_token(x) for x in ("a", "CLS")],
            "a letter, `CLS` or `PAD`", expected=[2, 0]),
    differs("to_single_str_token", lambda s: s.model.to_single_str_token(6), "the same",
            expected="e"),
    works("tokens_to_residual_directions", lambda s: [
        s.model.tokens_to_residual_directions(0),
        s.model.tokens_to_residual_directions(torch.zeros(2, 3, dtype=torch.long)),
    ], note="of output 0 (yes), the only one"),
    works("tokenizer", lambda s: s.model.tokenizer, note="None"),
]  # fmt: skip

CACHE = [
    works("keys", lambda s: sorted(set(s.cache.keys()) & {PATTERN, "hook_embed"})),
    works("values", lambda s: any(value is s.cache[PATTERN] for value in s.cache.values())),
    works("items", lambda s: dict(s.cache.items())[PATTERN]),
    works("accumulated_resid", lambda s: s.cache.accumulated_resid(
        incl_mid=True, apply_ln=True, return_labels=True)),
    works("decompose_resid", lambda s: s.cache.decompose_resid(apply_ln=True, return_labels=True)),
    works("get_full_resid_decomposition", lambda s: s.cache.get_full_resid_decomposition(
        return_labels=True, project_output_onto=s.model.W_U)),
    works("stack_head_results", lambda s: s.cache.stack_head_results(2, return_labels=True)),
    works("stack_neuron_results", lambda s: s.cache.stack_neuron_results(2, return_labels=True)),
    works("get_neuron_results", lambda s: s.cache.get_neuron_results(1, neuron_slice=3)),
    works("compute_head_results", lambda s: s.cache.compute_head_results()),
    works("stack_activation", lambda s: s.cache.stack_activation("pattern")),
    works("logit_attrs", lambda s: s.cache.logit_attrs(s.cache.decompose_resid(), 0)),
    works("apply_ln_to_stack", lambda s: s.cache.apply_ln_to_stack(s.cache.decompose_resid(), 1),
          note="for the read-out, which has no norm here, it leaves the stack as it is"),
    differs("logit_lens", lambda s: s.cache.logit_lens(positions=0).values,
            "reads CLS unless `positions` says otherwise"),
    works("apply_slice_to_batch_dim", lambda s: s.cache.apply_slice_to_batch_dim(1)["embed"]),
    works("remove_batch_dim", lambda s: one_row(s).remove_batch_dim()["resid_post", 0]),
    works("toggle_autodiff", lambda s: toggled(s)),
    works("ssm_layers", lambda s: s.cache.ssm_layers(), note="there are none"),
]  # fmt: skip


def one_row(side: Side) -> Any:
    return side.model.run_with_cache(side.tokens[:1])[1]


def toggled(side: Side) -> bool:
    side.cache.toggle_autodiff(True)
    try:
        return torch.is_grad_enabled()
    finally:
        torch.set_grad_enabled(True)


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
]  # fmt: skip

PARTS = [
    works("embed(tokens)", lambda s: s.model.embed(s.tokens)),
    works("unembed(resid)", lambda s: s.model.unembed(residual(s, 1))),
    works("blocks[i].mlp(x)", lambda s: s.model.blocks[0].mlp(residual(s, 1))),
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


REFUSED_OPTIONS = [
    "attention_mask", "padding_side", "past_key_values", "labels", "pixel_values", "input_values",
]  # fmt: skip
MODEL = [*WEIGHTS, *RUNNING, *STRINGS]


def public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_") and not hasattr(nn.Module, name)}


def refused(kind: type, rows: list[Row]) -> list[str]:
    return sorted(public(kind) - {row.name for row in rows})


def render() -> str:
    """The tables as they stand in the documentation."""
    tables: list[tuple[str, list[Row], list[str]]] = [
        ("`model.`", MODEL, refused(TransformerBridge, MODEL)),
        ("`cache.`", CACHE, refused(ActivationCache, CACHE)),
        ("`model(tokens, ...)`", FORWARD, REFUSED_OPTIONS),
        ("`model.`, called", PARTS, ["blocks[i](resid)", "blocks[i].attn(q, k, v)"]),
    ]
    lines = [BEGIN, ""]
    for title, rows, others in tables:
        lines += [f"| {title} | here | |", "|---|---|---|"]
        for (status, note), alike in groupby(rows, key=lambda row: (row.status, row.note)):
            names = ", ".join(f"`{row.name}`" for row in alike)
            lines.append(f"| {names} | {status} | {note} |")
        lines += [f"| {', '.join(f'`{name}`' for name in others)} | refused | |", ""]
    return "\n".join([*lines, END])


def main() -> None:
    page = PAGE.read_text()
    before, rest = page.split(BEGIN)
    PAGE.write_text(before + render() + rest.split(END)[1])


if __name__ == "__main__":
    main()
