"""Plain PyTorch, taken over: an embedding, encoder layers that look both ways, a linear head.

    tsc.from_torch(embedding, encoder, head, tokens=[0, 1, 2], query=3, task="contains_all")

`encoder` is an `nn.TransformerEncoderLayer` or an `nn.TransformerEncoder` of such layers, with
`norm_first=True`: a norm after each part, PyTorch's default, has no place in this family. The
answer is read at the query token, which comes first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from einops import rearrange
from torch import Tensor, nn
from torch.nn import functional

from tsc_interp.checkpoints.format import Checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import UnsupportedError, UsageError
from tsc_interp.model.comparing import Reading, compare
from tsc_interp.model.importing import as_arrays, chosen_classes, chosen_letters, difference
from tsc_interp.strings import CLS, FIRST_LETTER


def from_torch(
    embedding: nn.Embedding,
    encoder: nn.TransformerEncoderLayer | nn.TransformerEncoder,
    head: nn.Linear,
    *,
    tokens: Mapping[int, str] | Sequence[int],
    query: int,
    task: Any = "contains_all",
    classes: tuple[int, int] | None = None,
    positions: nn.Embedding | Tensor | None = None,
    samples: int = 64,
    seed: int = 0,
) -> Checkpoint:
    """The model as a checkpoint, after it was compared with the original on `samples` strings.

    It computes `head(encoder(embedding(tokens) + positions)[0])`, the query token in front;
    `tokens`, `query`, `classes` and `task` are those of `from_transformer_lens`.
    """
    layers, final = _layers(encoder)
    ids, names = chosen_letters(tokens, embedding.num_embeddings, query)
    reading = Reading(ids, names, query, "first", chosen_classes(classes, head.out_features))
    table = positions.weight if isinstance(positions, nn.Embedding) else positions
    outputs = 1 if reading.classes else head.out_features
    config = _config(layers, final, reading, task, table, outputs)
    weights = _weights(config, embedding, layers, final, head, reading)
    if table is not None:
        weights["pos_embed.W_pos"] = table
    checkpoint = Checkpoint(
        config,
        as_arrays(config, weights),
        {"imported_from": type(encoder).__name__, "token_ids": list(ids), "query": query},
        source="torch",
    )

    def original(letters: Tensor) -> Tensor:
        rows = reading.rows(letters).to(embedding.weight.device)
        x = embedding(rows)
        x = x if table is None else x + table[: rows.shape[1]]
        x = encoder(x) if layers[0].self_attn.batch_first else encoder(x.transpose(0, 1))
        read = x[:, 0] if layers[0].self_attn.batch_first else x[0]
        out: Tensor = head(read)
        return out.float().cpu()

    was_training = encoder.training
    encoder.eval()
    try:
        compare(checkpoint, reading, original, samples, seed)
    finally:
        encoder.train(was_training)
    return checkpoint


def _layers(encoder: Any) -> tuple[list[nn.TransformerEncoderLayer], nn.LayerNorm | None]:
    stacked = isinstance(encoder, nn.TransformerEncoder)
    layers = list(encoder.layers) if stacked else [encoder]
    final = encoder.norm if stacked else None
    if not layers or not all(isinstance(one, nn.TransformerEncoderLayer) for one in layers):
        raise UsageError(
            "the encoder is an nn.TransformerEncoderLayer, or an nn.TransformerEncoder"
        )
    if not all(one.norm_first for one in layers):
        raise UnsupportedError(
            "these layers have their norms after attention and MLP (norm_first=False), for which a "
            "classifier here has no place; with norm_first=True they can be taken over"
        )
    if final is not None and not isinstance(final, nn.LayerNorm):
        raise UnsupportedError(f"a final {type(final).__name__}; a LayerNorm can be taken over")
    return layers, final


def _config(
    layers: list[nn.TransformerEncoderLayer],
    final: nn.LayerNorm | None,
    reading: Reading,
    task: Any,
    positions: Tensor | None,
    outputs: int,
) -> ClassifierConfig:
    first = layers[0]
    sizes = {(one.self_attn.num_heads, one.linear1.out_features, one.norm1.eps) for one in layers}
    if len(sizes) > 1:
        raise UnsupportedError("layers of different sizes; equal ones can be taken over")
    width = first.self_attn.embed_dim
    options: dict[str, Any] = {
        "n_letters": len(reading.ids),
        "task": task,
        "n_layers": len(layers),
        "d_model": width,
        "n_heads": first.self_attn.num_heads,
        "d_head": width // first.self_attn.num_heads,
        "d_mlp": first.linear1.out_features,
        "norm": "layer",
        "norm_eps": first.norm1.eps,
        "final_norm": final is not None,
        "attend_cls": True,
        "n_positions": 0 if positions is None else len(positions),
        "biases": True,
        "act_fn": _activation(first.activation),
        "n_outputs": outputs,
        "token_names": reading.names,
    }
    return ClassifierConfig(**options)


def _activation(function: Any) -> str:
    known = {functional.relu: "relu", functional.gelu: "gelu", functional.silu: "silu"}
    classes = {nn.ReLU: "relu", nn.SiLU: "silu"}
    if isinstance(function, nn.GELU):
        return "gelu" if function.approximate == "none" else "gelu_new"
    found = known.get(function) or classes.get(type(function))
    if found is None:
        raise UnsupportedError(f"the activation {function!r}; relu, gelu and silu are taken over")
    return found


def _weights(
    config: ClassifierConfig,
    embedding: nn.Embedding,
    layers: list[nn.TransformerEncoderLayer],
    final: nn.LayerNorm | None,
    head: nn.Linear,
    reading: Reading,
) -> dict[str, Tensor]:
    table = torch.zeros(config.alphabet.vocab_size, config.d_model)
    ids = [reading.query, *reading.ids]
    table[[CLS, *range(FIRST_LETTER, len(table))]] = embedding.weight.detach()[ids].float().cpu()
    found: dict[str, Tensor] = {"embed.W_E": table}
    for index, layer in enumerate(layers):
        block, attention = f"blocks.{index}", layer.self_attn
        if attention.in_proj_weight is None:
            raise UnsupportedError("keys and values of a width of their own; equal ones are taken")
        projections = attention.in_proj_weight.chunk(3)
        biases = _or_zeros(attention.in_proj_bias, 3 * config.d_model).chunk(3)
        for part, weight, bias in zip("QKV", projections, biases, strict=True):
            split = "(head d_head) d_model -> head d_model d_head"
            found[f"{block}.attn.W_{part}"] = rearrange(weight, split, head=config.n_heads)
            bias = rearrange(bias, "(head d_head) -> head d_head", head=config.n_heads)
            found[f"{block}.attn.b_{part}"] = bias
        found[f"{block}.attn.W_O"] = rearrange(
            attention.out_proj.weight,
            "d_model (head d_head) -> head d_head d_model",
            head=config.n_heads,
        )
        found[f"{block}.attn.b_O"] = _or_zeros(attention.out_proj.bias, config.d_model)
        for name, linear in (("in", layer.linear1), ("out", layer.linear2)):
            found[f"{block}.mlp.W_{name}"] = linear.weight.T
            found[f"{block}.mlp.b_{name}"] = _or_zeros(linear.bias, linear.out_features)
        found |= _norm(f"{block}.ln1", layer.norm1) | _norm(f"{block}.ln2", layer.norm2)
    found |= {} if final is None else _norm("ln_final", final)
    found["unembed.W_U"] = difference(head.weight.T, reading.classes)
    found["unembed.b_U"] = difference(_or_zeros(head.bias, head.out_features), reading.classes)
    return found


def _norm(name: str, norm: nn.LayerNorm) -> dict[str, Tensor]:
    size = norm.normalized_shape[0]
    weight = torch.ones(size) if norm.weight is None else norm.weight
    return {f"{name}.w": weight, f"{name}.b": _or_zeros(norm.bias, size)}


def _or_zeros(bias: Tensor | None, size: int) -> Tensor:
    return torch.zeros(size) if bias is None else bias
