"""A forward pass over strings in their order at 256 bits: mpmath, plain loops, every option.

It shares nothing with the package but the configuration, the weights and the tables of positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import mpmath
from mpmath import mpf

from tests.verification.ordered_models import labels_of
from tsc_interp.checkpoints import Checkpoint
from tsc_interp.trusted.positions import alibi_slopes, rotary, sinusoidal

BITS = 256


def answer(checkpoint: Checkpoint, string: Sequence[int], bits: int = BITS) -> int | None:
    """The class of the largest output, the lowest of equals; None within 2^(-bits/3) of a tie.

    Outputs whose weights are equal are equal, so such ties are known.
    """
    with mpmath.workprec(bits):
        outputs = outputs_of(checkpoint, string)
        if len(outputs) == 1:
            outputs = [mpf(0), outputs[0]]
        best = max(range(len(outputs)), key=lambda j: (outputs[j], -j))
        columns = _columns(checkpoint)
        close = mpf(2) ** (-bits // 3) * max(1, max(map(abs, outputs)))
        for j, value in enumerate(outputs):
            if columns[j] == columns[best]:
                best = min(best, j)
            elif outputs[best] - value < close:
                return None
        return best


def wrong_strings(checkpoint: Checkpoint, task: Any, length: int) -> list[tuple[int, ...]] | None:
    """All of one length in alphabetical order; None if one of them is too close to a tie."""
    import numpy as np

    letters = checkpoint.config.n_letters
    found = []
    for string in product(range(letters), repeat=length):
        said = answer(checkpoint, string)
        if said is None:
            return None
        if said != labels_of(task, np.array([string]), letters)[0]:
            found.append(string)
    return found


def state_of(checkpoint: Checkpoint, string: Sequence[int]) -> list[Any]:
    """The reader's residual stream after attention."""
    config, w = checkpoint.config, _exact_weights(checkpoint)
    tokens = [2 + letter for letter in string]
    if config.reads == "first":
        tokens = [0, *tokens]
    elif config.reads == "last":
        tokens = [*tokens, 0]
    reading = 0 if config.reads == "first" else len(tokens) - 1
    attended = [t != 0 or config.attend_cls for t in tokens]
    x = [list(w["embed.W_E"][token]) for token in tokens]
    if config.n_positions and config.positions in ("learned", "sinusoidal"):
        table = (
            w["pos_embed.W_pos"]
            if config.positions == "learned"
            else _exact(sinusoidal(config.n_positions, config.d_model).tolist())
        )
        x = [[a + b for a, b in zip(row, table[i], strict=True)] for i, row in enumerate(x)]
    state = list(x[reading])
    if config.n_heads:
        state = _attend(config, w, x, reading, attended, state, len(string))
    return state


def final_state(checkpoint: Checkpoint, string: Sequence[int]) -> list[Any]:
    """The reader's residual stream after the MLP."""
    config, w = checkpoint.config, _exact_weights(checkpoint)
    state = state_of(checkpoint, string)
    if config.d_mlp:
        post = _neurons(config, w, _norm(config, w, "blocks.0.ln2", state))
        state = _plus(state, _affine(post, w, "blocks.0.mlp", "out"))
    return state


def final_scale(checkpoint: Checkpoint, string: Sequence[int]) -> Any:
    """What the final norm divides by; one where there is none."""
    config, row = checkpoint.config, final_state(checkpoint, string)
    if not config.final_norm:
        return mpf(1)
    if config.norm.startswith("layer"):
        row = [value - mpmath.fsum(row) / len(row) for value in row]
    return mpmath.sqrt(mpmath.fsum(v * v for v in row) / len(row) + mpf(config.norm_eps))


def outputs_of(checkpoint: Checkpoint, string: Sequence[int]) -> list[Any]:
    config, w = checkpoint.config, _exact_weights(checkpoint)
    state = final_state(checkpoint, string)
    if config.final_norm:
        state = _norm(config, w, "ln_final", state)
    if config.tied_embeddings:
        w["unembed.W_U"] = [list(column) for column in zip(*w["embed.W_E"][2:], strict=True)]
    return _affine(state, w, "unembed", "U")


def _neurons(config: Any, w: Any, read: list[Any]) -> list[Any]:
    if not config.gated_mlp:
        pre = _affine(read, w, "blocks.0.mlp", "in")
        return [_activation(config.act_fn, value) for value in pre]
    gates = _times(read, w["blocks.0.mlp.W_gate"])
    pairs = zip(gates, _times(read, w["blocks.0.mlp.W_in"]), strict=True)
    post = [_activation(config.act_fn, gate) * value for gate, value in pairs]
    return _plus(post, w.get("blocks.0.mlp.b_in"))


def _attend(
    config: Any, w: Any, x: Any, reading: int, attended: Any, state: Any, length: int
) -> Any:
    read = [_norm(config, w, "blocks.0.ln1", row) for row in x]
    seen = read
    if config.positions == "shortformer":
        seen = [_plus(row, w["pos_embed.W_pos"][i]) for i, row in enumerate(read)]
    group = config.n_heads // (config.n_key_value_heads or config.n_heads)
    for head in range(config.n_heads):
        name = "blocks.0.attn"
        q, k, v = (
            [
                _plus(_times(row, w[f"{name}.W_{p}"][own]), _bias(w, f"{name}.b_{p}", own))
                for row in rows
            ]
            for p, own, rows in (
                ("Q", head, seen),
                ("K", head // group, seen),
                ("V", head // group, read),
            )
        )
        q, k = (_met(config, w, p, rows) for p, rows in (("q", q), ("k", k)))
        scale = mpf(config.attention_scale) or mpmath.sqrt(config.d_head)
        stretch = mpmath.log(length + config.cls_counted) if config.log_n else 1
        keys = [i for i, seen in enumerate(attended) if seen]
        scores = [mpmath.fdot(q[reading], k[i]) / scale * stretch for i in keys]
        if config.positions == "alibi":
            slope = mpf(float(alibi_slopes(config.n_heads)[head]))
            scores = [s - slope * (reading - i) for s, i in zip(scores, keys, strict=True)]
        top = max(scores)
        raw = [mpmath.exp(score - top) for score in scores]
        z = [
            mpmath.fsum(weight * v[i][c] for weight, i in zip(raw, keys, strict=True))
            / mpmath.fsum(raw)
            for c in range(config.d_head)
        ]
        state = _plus(state, _times(z, w[f"{name}.W_O"][head]))
    return _plus(state, w["blocks.0.attn.b_O"]) if config.biases else state


def _met(config: Any, w: Any, part: str, rows: list[list[Any]]) -> list[list[Any]]:
    """Queries or keys after their norm and their turn."""
    if config.qk_norm != "off":
        kept = config.replace(norm="rms_pre", final_norm=False)
        rows = [_norm(kept, w, f"blocks.0.attn.{part}_norm", row) for row in rows]
    if config.positions != "rotary":
        return rows
    width = config.rotary_dim or config.d_head
    table = _exact(rotary(config.n_positions, width, config.rotary_base).tolist())
    found = []
    for place, row in enumerate(rows):
        turned = list(row)
        for pair, (cos, sin) in enumerate(zip(*table[place], strict=True)):
            i, j = (2 * pair, 2 * pair + 1)
            if not config.rotary_adjacent_pairs:
                i, j = pair, pair + width // 2
            turned[i], turned[j] = cos * row[i] - sin * row[j], cos * row[j] + sin * row[i]
        found.append(turned)
    return found


def _norm(config: Any, w: Any, name: str, row: list[Any]) -> list[Any]:
    if config.norm == "off":
        return row
    if config.norm.startswith("layer"):
        mean = mpmath.fsum(row) / len(row)
        row = [value - mean for value in row]
    root = mpmath.sqrt(mpmath.fsum(v * v for v in row) / len(row) + mpf(config.norm_eps))
    row = [value / root for value in row]
    if f"{name}.w" in w:
        row = [a * b for a, b in zip(row, w[f"{name}.w"], strict=True)]
    return _plus(row, w[f"{name}.b"]) if f"{name}.b" in w else row


def _activation(name: str, x: Any) -> Any:
    if name == "relu":
        return max(x, mpf(0))
    if name == "silu":
        return x / (1 + mpmath.exp(-x))
    if name == "gelu":
        return x * mpmath.erfc(-x / mpmath.sqrt(2)) / 2
    cubed = x + mpf("0.044715") * x**3
    return x * (1 + mpmath.tanh(mpmath.sqrt(2 / mpmath.pi) * cubed)) / 2


def _affine(row: list[Any], w: Any, module: str, part: str) -> list[Any]:
    found = _times(row, w[f"{module}.W_{part}"])
    bias = w.get(f"{module}.b_{part}")
    return found if bias is None else _plus(found, bias)


def _bias(w: Any, name: str, head: int) -> Any:
    return w[name][head] if name in w else None


def _plus(a: list[Any], b: Any) -> list[Any]:
    return a if b is None else [p + q for p, q in zip(a, b, strict=True)]


def _times(row: list[Any], matrix: list[Any]) -> list[Any]:
    return [
        mpmath.fsum(p * line[j] for p, line in zip(row, matrix, strict=True))
        for j in range(len(matrix[0]))
    ]


def _columns(checkpoint: Checkpoint) -> list[tuple[float, ...]]:
    weights = (
        checkpoint.weights["embed.W_E"][2:].T
        if checkpoint.config.tied_embeddings
        else checkpoint.weights["unembed.W_U"]
    ).tolist()
    bias = checkpoint.weights.get("unembed.b_U")
    rows = weights if bias is None else [*weights, bias.tolist()]
    if len(rows[0]) == 1:
        rows = [[0.0, *row] for row in rows]
    return list(zip(*rows, strict=True))


def _exact_weights(checkpoint: Checkpoint) -> dict[str, Any]:
    return {name: _exact(array.tolist()) for name, array in checkpoint.weights.items()}


def _exact(value: Any) -> Any:
    return [_exact(entry) for entry in value] if isinstance(value, list) else mpf(value)
