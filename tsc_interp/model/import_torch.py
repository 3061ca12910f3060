"""Plain PyTorch, imported: an embedding, encoder layers that look both ways, a linear head.

    tsc.from_torch(embedding, encoder, head, tokens=[0, 1, 2], query=3, task="contains_all")

`encoder` is an `nn.TransformerEncoderLayer` or an `nn.TransformerEncoder` of such layers, with
`norm_first=True`: a norm after each part, PyTorch's default, has no place in this family. The
answer is read at the query token, which comes first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from tsc_interp.arguments import checked
from tsc_interp.checkpoints.checkpoint import Checkpoint
from tsc_interp.checkpoints.tensor_files import flattened
from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import UnsupportedError, UsageError
from tsc_interp.model.comparing import compare
from tsc_interp.model.input_map import InputMap, chosen_classes, chosen_letters
from tsc_interp.model.names import weights_of
from tsc_interp.model.unaltered import require_plain, require_unaltered
from tsc_interp.strings import CLS, FIRST_LETTER
from tsc_interp.tasks.function import as_task


@checked
def from_torch(
    embedding: nn.Embedding,
    encoder: nn.TransformerEncoderLayer | nn.TransformerEncoder,
    head: nn.Linear,
    *,
    task: Any,
    tokens: Mapping[int, str] | Sequence[int],
    query: int,
    classes: tuple[int, int] | None = None,
    positions: nn.Embedding | Tensor | None = None,
    samples: int = 64,
    seed: int = 0,
    name: str = "torch",
) -> Checkpoint:
    """Import a plain PyTorch encoder, and compare it with the original.

    The original computes `head(encoder(embedding(tokens) + positions)[0])`, the query token first.

    Args:
        embedding: The embedding of the tokens.
        encoder: A layer, or a stack of layers, with `norm_first=True`.
        head: The read-out.
        task: What the model should decide: the name of a task, one of `tsc.tasks`, or a function
            of token rows `[row, position]` that returns a class for each row.
        tokens: The token ids that are letters, and their names; a list stands for a, b, c, ...
        query: The id of the token at which the answer is read.
        classes: The outputs that mean no and yes; their difference is the logit.
        positions: A table that is added to the embeddings.
        samples: The number of random strings on which both models are compared.
        seed: The seed of these strings.
        name: The title of the model's pages.

    Returns:
        The model as a checkpoint, which every function of the package accepts as a model.

    Raises:
        UsageError: The options do not fit the model.
        UnsupportedError: The model has a part that cannot be imported, or the two disagree.

    Example:
        >>> layer = nn.TransformerEncoderLayer(
        ...     8, nhead=2, dim_feedforward=16, norm_first=True, batch_first=True
        ... )
        >>> parts = nn.Embedding(4, 8), layer, nn.Linear(8, 1)
        >>> from_torch(*parts, tokens=[0, 1, 2], query=3, task="parity").n_parameters
        649
    """
    layers, final = _layers(encoder)
    _require_plain(embedding, nn.Embedding)
    _require_plain(head, nn.Linear)
    if isinstance(positions, Tensor):
        require_plain({"positions": positions})
    elif positions is not None:
        _require_plain(positions, nn.Embedding)
    ids, names = chosen_letters(tokens, embedding.num_embeddings, query)
    reading = InputMap(ids, names, query, "first", chosen_classes(classes, head.out_features))
    table = positions.weight if isinstance(positions, nn.Embedding) else positions
    outputs = 1 if reading.classes else head.out_features
    config = _config(layers, final, reading, task, table, outputs)
    state = _state(config, embedding, layers, final, head, reading)
    if table is not None:
        state["pos_embed.W_pos"] = table
    weights, _ = weights_of(config, state, name)
    checkpoint = Checkpoint(
        config,
        weights,
        {"imported_from": type(encoder).__name__, "token_ids": list(ids), "query": query},
        source=name,
    )

    def original(letters: Tensor) -> Tensor:
        rows = reading.rows(letters).to(embedding.weight.device)
        x = embedding(rows)
        x = x if table is None else x + table[: rows.shape[1]]
        x = encoder(x) if layers[0].self_attn.batch_first else encoder(x.transpose(0, 1))
        read = x[:, 0] if layers[0].self_attn.batch_first else x[0]
        out: Tensor = head(read)
        return out.float().cpu()

    training = [module for module in encoder.modules() if module.training]
    encoder.eval()
    try:
        compare(checkpoint, reading, original, samples, seed)
    finally:
        for module in training:
            module.training = True
    return checkpoint


def _layers(encoder: Any) -> tuple[list[nn.TransformerEncoderLayer], nn.LayerNorm | None]:
    stacked = type(encoder) is nn.TransformerEncoder
    layers = list(encoder.layers) if stacked else [encoder]
    final = encoder.norm if stacked else None
    if not layers or not all(type(layer) is nn.TransformerEncoderLayer for layer in layers):
        kinds = sorted({type(module).__name__ for module in (encoder, *layers)})
        raise UsageError(
            "the encoder is an nn.TransformerEncoderLayer, or an nn.TransformerEncoder of them, "
            f"and no subclass; got {', '.join(kinds)}"
        )
    require_unaltered(encoder)
    if not all(layer.norm_first for layer in layers):
        raise UnsupportedError(
            "these layers have their norms after attention and MLP (norm_first=False), for which a "
            "classifier here has no place; with norm_first=True they can be imported"
        )
    if final is not None and type(final) is not nn.LayerNorm:
        raise UnsupportedError(f"a final {type(final).__name__}; a LayerNorm can be imported")
    for layer in layers:
        _require_parts(layer)
    _require_equal(layers, final)
    return layers, final


def _require_equal(layers: list[nn.TransformerEncoderLayer], final: nn.LayerNorm | None) -> None:
    """One size, one order of axes, one activation, and one eps in every norm."""
    norms = [norm for layer in layers for norm in (layer.norm1, layer.norm2)]
    options = {
        "sizes": {(layer.self_attn.num_heads, layer.linear1.out_features) for layer in layers},
        "batch_first": {layer.self_attn.batch_first for layer in layers},
        "activation": {_activation(layer.activation) for layer in layers},
        "eps of norms": {norm.eps for norm in (norms if final is None else [*norms, final])},
    }
    for option, values in options.items():
        if len(values) > 1:
            raise UnsupportedError(
                f"layers differ in {option} ({', '.join(map(str, sorted(values)))}); equal ones "
                "can be imported"
            )


def _require_plain(module: Any, kind: type[nn.Module]) -> None:
    """Refuse what is not exactly this class of PyTorch's, or changes what it holds."""
    if type(module) is not kind:
        raise UnsupportedError(
            f"a {type(module).__name__} instead of an nn.{kind.__name__}, of which no subclass is "
            "imported"
        )
    require_unaltered(module)
    if getattr(module, "max_norm", None) is not None:
        raise UnsupportedError("an nn.Embedding with max_norm; one without can be imported")


def _require_parts(layer: nn.TransformerEncoderLayer) -> None:
    """Refuse a layer whose parts are not those PyTorch puts there, or that attends to more."""
    attention = layer.self_attn
    usual = nn.TransformerEncoderLayer(1, 1, 1, norm_first=True)
    for name, module in layer.named_modules():
        expected = dict(usual.named_modules()).get(name)
        if name != "activation" and type(module) is not type(expected):
            raise UnsupportedError(f"{name} is a {type(module).__name__}, not as PyTorch made it")
    if attention.add_zero_attn or attention.bias_k is not None or attention.bias_v is not None:
        raise UnsupportedError(
            "attention with add_zero_attn or bias_k attends to a token that is not there; without "
            "them it can be imported"
        )
    fused = {0: None, 1: "relu", 2: "gelu"}.get(layer.activation_relu_or_gelu, "")
    if fused is not None and fused != _activation(layer.activation).removesuffix("_new"):
        raise UnsupportedError(
            f"the activation is {layer.activation!r}, but PyTorch's fused evaluation would use "
            f"{fused}; set activation_relu_or_gelu to 0"
        )


def _config(
    layers: list[nn.TransformerEncoderLayer],
    final: nn.LayerNorm | None,
    reading: InputMap,
    task: Any,
    positions: Tensor | None,
    outputs: int,
) -> ClassifierConfig:
    first = layers[0]
    width = first.self_attn.embed_dim
    options: dict[str, Any] = {
        "n_letters": len(reading.ids),
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
    n_letters = len(reading.ids)
    options["task"] = as_task(
        task, lambda letters: reading.rows(torch.from_numpy(letters)).numpy(), n_letters,
        n_classes=max(2, outputs), ordered=positions is not None,
        longest=None if positions is None else len(positions) - 1,
    )  # fmt: skip
    return ClassifierConfig(**options)


def _activation(function: Any) -> str:
    known = {functional.relu: "relu", functional.gelu: "gelu", functional.silu: "silu"}
    classes = {nn.ReLU: "relu", nn.SiLU: "silu"}
    if type(function) is nn.GELU:
        return "gelu" if function.approximate == "none" else "gelu_new"
    name = known.get(function) or classes.get(type(function))
    if name is None:
        raise UnsupportedError(f"the activation {function!r}; relu, gelu and silu are imported")
    return name


def _state(
    config: ClassifierConfig,
    embedding: nn.Embedding,
    layers: list[nn.TransformerEncoderLayer],
    final: nn.LayerNorm | None,
    head: nn.Linear,
    reading: InputMap,
) -> dict[str, Any]:
    """What PyTorch calls the layers, and by our names what is arranged otherwise."""
    table = torch.zeros(config.alphabet.vocab_size, config.d_model)
    ids = [reading.query, *reading.ids]
    table[[CLS, *range(FIRST_LETTER, len(table))]] = embedding.weight.detach()[ids].float().cpu()
    state: dict[str, Any] = flattened({"layers": layers, "norm": final or {}})
    if final is not None and not final.elementwise_affine:
        state["norm.weight"] = torch.ones(config.d_model)
    state["embed.W_E"] = table
    state["unembed.W_U"] = reading.answers(head.weight.T)
    if head.bias is not None:
        state["unembed.b_U"] = reading.answers(head.bias)
    return state
