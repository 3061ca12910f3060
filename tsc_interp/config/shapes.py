"""Which weights a classifier has: HookedTransformer's names and shapes, in the order data flows."""

from __future__ import annotations

from tsc_interp.config.options import ClassifierOptions

Shapes = dict[str, tuple[int, ...]]


def weight_shapes(config: ClassifierOptions) -> Shapes:
    """The shape of every weight, by its name.

    Heads that share keys and values have one `W_K` and `W_V` per group, and tied embeddings have no
    `W_U`: `Checkpoint.expanded` writes both out.
    """
    d = config.d_model
    shapes: Shapes = {"embed.W_E": (config.alphabet.vocab_size, d)}
    if config.learned_positions:
        shapes["pos_embed.W_pos"] = (config.n_positions, d)
    for layer in range(config.n_layers):
        block = f"blocks.{layer}"
        if config.has_attention:
            shapes |= _norm(config.norm, f"{block}.ln1", d)
            shapes |= _attention(config, f"{block}.attn")
            shapes |= _norm(config.attention_norm, f"{block}.ln1_post", d)
        if config.has_mlp:
            shapes |= _norm(config.norm, f"{block}.ln2", d)
            shapes |= _mlp(config, f"{block}.mlp")
    if config.final_norm:
        shapes |= _norm(config.norm, "ln_final", d)
    if not config.tied_embeddings:
        shapes["unembed.W_U"] = (d, config.n_outputs)
    return shapes | ({"unembed.b_U": (config.n_outputs,)} if config.biases else {})


def _attention(config: ClassifierOptions, name: str) -> Shapes:
    d, h, k = config.d_model, config.n_heads, config.d_head
    heads = {"Q": h, "K": config.kv_heads, "V": config.kv_heads}
    shapes: Shapes = {f"{name}.W_{part}": (n, d, k) for part, n in heads.items()}
    shapes[f"{name}.W_O"] = (h, k, d)
    shapes |= {f"{name}.log_n_factor": (h,)} if config.ssmax else {}
    for part in ("q_norm", "k_norm"):
        shapes |= _norm(config.qk_norm, f"{name}.{part}", k)
    if config.biases:
        shapes |= {f"{name}.b_{part}": (n, k) for part, n in heads.items()}
        shapes[f"{name}.b_O"] = (d,)
    return shapes


def _mlp(config: ClassifierOptions, name: str) -> Shapes:
    d, m = config.d_model, config.d_mlp
    shapes: Shapes = {f"{name}.W_gate": (d, m)} if config.gated_mlp else {}
    shapes |= {f"{name}.W_in": (d, m), f"{name}.W_out": (m, d)}
    return shapes | ({f"{name}.b_in": (m,), f"{name}.b_out": (d,)} if config.biases else {})


def _norm(kind: str, name: str, width: int) -> Shapes:
    kept = {"rms": ("w",), "layer": ("w", "b")}.get(kind, ())
    return {f"{name}.{part}": (width,) for part in kept}
