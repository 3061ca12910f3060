"""Attention with multiplicities: key j gets weight m_j exp(s_j) / sum_i m_i exp(s_i).

In log space that is log m added to the scores, with log 0 = -inf, which is what `hook_attn_scores`
shows. Causal attention adds -inf where a key comes after its query.
"""

from __future__ import annotations

import math

import torch
from einops import einsum, rearrange, repeat
from torch import Tensor

from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import UnsupportedError
from tsc_interp.memory import require_memory
from tsc_interp.model.layers import Pass, Residual
from tsc_interp.trusted.positions import alibi_slopes, rotary, turned_pairs


def attention(given: Pass, block: str, residual: Residual, asked_at: Tensor | None) -> Residual:
    """What a block's heads add to the residual stream.

    `asked_at` are positions that queries and keys read and values do not (`shortformer`).
    """
    config, tap, name = given.config, given.tap, f"{block}.attn."
    q, k, v = _queries_keys_values(given, block, residual, asked_at)
    if config.positions == "rotary":
        q = tap(f"{name}hook_rot_q", rotated(config, q))
        k = tap(f"{name}hook_rot_k", rotated(config, k))
    k, v = _for_every_head(config, k), _for_every_head(config, v)
    scores = tap(f"{name}hook_attn_scores", _scores(given, name, q, k))
    pattern = tap(f"{name}hook_pattern", scores.softmax(-1))
    mixed = "... batch head query key, ... batch key head d_head -> ... batch query head d_head"
    z, output = tap(f"{name}hook_z", einsum(pattern, v, mixed)), given.weights[f"{name}W_O"]
    axes = "... batch query head d_head, ... head d_head d_model -> ... batch query"
    if given.extras.attn_result:
        out = tap(f"{name}hook_result", einsum(z, output, f"{axes} head d_model")).sum(-2)
    else:
        out = einsum(z, output, f"{axes} d_model")
    return given.biased(f"{name}b_O", out)


def _queries_keys_values(
    given: Pass, block: str, residual: Residual, asked_at: Tensor | None
) -> list[Tensor]:
    """`[... batch pos head d_head]` each; keys and values have a head per group."""
    config, name, per_head = given.config, f"{block}.attn.", given.extras.per_head_input
    reads = _attention_inputs(given, block, residual)
    if asked_at is not None:
        seen = asked_at.unsqueeze(-2) if per_head else asked_at
        reads = [reads[0] + seen, reads[1] + seen, reads[2]]
    axes = "... batch pos head d_model" if per_head else "... batch pos d_model"
    projection = f"{axes}, ... head d_model d_head -> ... batch pos head d_head"
    projected = []
    for part, x in zip("QKV", reads, strict=True):
        vectors = einsum(x, given.weights[f"{name}W_{part}"], projection)
        vectors = given.biased(f"{name}b_{part}", vectors, "... head d_head -> ... 1 1 head d_head")
        vectors = given.tap(f"{name}hook_{part.lower()}", vectors)
        if part != "V":
            vectors = given.norm(f"{name}{part.lower()}_norm.", vectors, True, config.qk_norm)
        projected.append(vectors)
    return projected


def _attention_inputs(given: Pass, name: str, x: Residual) -> list[Tensor]:
    """What queries, keys and values are read from: one tensor, or with extras one for each.

    With extras they have a head axis, so that a hook can change what a single head reads.
    """
    config, tap, extras = given.config, given.tap, given.extras
    if not extras.per_head_input:
        return [given.norm(f"{name}.ln1.", x)] * 3
    if config.grouped and extras.attn_in:
        raise UnsupportedError(
            "hook_attn_in has one input per head, but these heads share keys and values: use "
            "set_use_split_qkv_input, which has one per group"
        )
    per_head = "... batch pos d_model -> ... batch pos head d_model"
    heads = {"q": config.n_heads, "k": config.kv_heads, "v": config.kv_heads}
    read = {part: repeat(x, per_head, head=n) for part, n in heads.items()}
    if extras.attn_in:
        read = dict.fromkeys(heads, tap(f"{name}.hook_attn_in", read["q"].clone()))
    if not extras.split_qkv_input:
        return [given.norm(f"{name}.ln1.", read["q"], per_head=True)] * 3
    parts = [tap(f"{name}.hook_{part}_input", x.clone()) for part, x in read.items()]
    return [given.norm(f"{name}.ln1.", part, per_head=True) for part in parts]


def rotated(config: ClassifierConfig, x: Tensor) -> Tensor:
    """Queries or keys `[... pos head d_head]`, each pair of components turned by its position."""
    table = torch.tensor(rotary(config.n_positions, config.turned, config.rotary_base))
    table = table[: x.shape[-3]].to(x.device, x.dtype)
    cos, sin = rearrange(table, "pos two pair -> two pos 1 pair")
    first, second = turned_pairs(config.turned, config.rotary_adjacent_pairs)
    a, b = x[..., first], x[..., second]
    turned = x.clone()
    turned[..., first] = a * cos - b * sin
    turned[..., second] = b * cos + a * sin
    return turned


def _for_every_head(config: ClassifierConfig, x: Tensor) -> Tensor:
    """Each head's keys or values, of those that its group shares."""
    return x.repeat_interleave(config.n_heads // config.kv_heads, dim=-2) if config.grouped else x


def _scores(given: Pass, name: str, q: Tensor, k: Tensor) -> Tensor:
    """`[... batch head query key]`, with the log of each key's multiplicity."""
    config, inputs = given.config, given.inputs
    require_memory(
        f"attention between {k.shape[-3]:,} positions",
        *q.shape[:-1], k.shape[-3], each=3 * q.element_size(), instead="give shorter strings",
    )  # fmt: skip
    met = "... batch query head d_head, ... batch key head d_head -> ... batch head query key"
    scores = einsum(q, k, met) / config.score_divisor
    if config.ssmax:
        factor = given.weights[f"{name}log_n_factor"]
        scores = scores * rearrange(factor, "... head -> ... 1 head 1 1")
    if config.log_n:
        log_n = (inputs.lengths + config.cls_counted).to(scores.dtype).log()
        scores = scores * rearrange(log_n, "batch -> batch 1 1 1")
    log_multiplicity = inputs.multiplicity.log().to(scores.dtype)
    log_multiplicity = rearrange(log_multiplicity, "batch key -> batch 1 1 key")
    if config.adaptive_temperature:
        scores = scores * inverse_temperature(scores, log_multiplicity)
    if config.positions == "alibi":
        scores = scores + alibi(config, scores)
    scores = scores + log_multiplicity
    if inputs.causal:
        later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
        scores = scores.masked_fill(later, -math.inf)
    return scores


def alibi(config: ClassifierConfig, scores: Tensor) -> Tensor:
    """`[head query key]`: minus the head's slope for every step from the query back to the key."""
    place = torch.arange(scores.shape[-1], device=scores.device, dtype=scores.dtype)
    steps = (place[None, :] - place[:, None]).clamp(max=0)
    slopes = torch.tensor(alibi_slopes(config.n_heads)).to(scores.device, scores.dtype)
    return rearrange(slopes, "head -> head 1 1") * steps


def inverse_temperature(scores: Tensor, log_multiplicity: Tensor) -> Tensor:
    """What "Softmax is not enough" (2410.01104) multiplies scores by: a polynomial of entropy.

    The entropy is that of the attention the scores would give, over single tokens: each of m copies
    has an m-th of its letter's weight. The factor is never below 1, and 1 where the entropy is
    below 0.5; since the polynomial falls in the end, it is 1 again above an entropy of about 5.9.
    """
    weights = (scores + log_multiplicity).softmax(-1)
    # One copy's log weight; finite where a key is masked, whose weight is 0.
    single = weights.clamp(min=torch.finfo(scores.dtype).tiny).log()
    single = single - log_multiplicity.nan_to_num(neginf=0.0)
    entropy = -(weights * single).sum(-1, keepdim=True)
    factor = torch.zeros_like(entropy)
    for coefficient in _TEMPERATURE:
        factor = factor * entropy + coefficient
    return torch.where(entropy > 0.5, factor.clamp(min=1.0), torch.ones_like(factor))


_TEMPERATURE = (-0.037, 0.481, -2.3, 4.917, -1.791)
