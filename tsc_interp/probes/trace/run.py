"""What happens to a string on its way to a logit?

Every named activation at the CLS position, for every string: embeddings; queries, keys and values;
scores (q·k / sqrt(d_head), before multiplicities), weights, head values z = sum of weight · value;
attention output, residual, MLP, read-out. Hooks read: `hook_q`, `hook_k`, `hook_v`,
`hook_attn_scores`, `hook_pattern`, `hook_z`, `hook_resid_pre`, `hook_attn_out`, `hook_resid_mid`,
`hook_mlp_out`, `hook_resid_post` and `mlp.hook_post` of every block.
Two fields are measured by writing instead of reading: the logit over a plane of head values (at
`hook_z`) and over the plane of the residual after attention (at `hook_resid_mid`). Chapters 1-2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from einops import einsum, rearrange
from numpy.typing import NDArray
from torch import Tensor

from tsc_interp.errors import UnsupportedError
from tsc_interp.model.classifier import Classifier
from tsc_interp.model.inputs import Inputs
from tsc_interp.probes.inputs import need_classifier
from tsc_interp.probes.trace.result import TraceResult
from tsc_interp.results.base import LabeledArray, that_hold
from tsc_interp.strings import FIRST_LETTER

STAGES = ("resid_pre", "attn_out", "resid_mid", "mlp_out", "resid_post")


def run(model: Classifier, strings: Sequence[str]) -> TraceResult:
    """Trace each string. A model with positions is traced at CLS only, weights summed by letter."""
    config = need_classifier(model, "trace")
    if not config.has_cls:
        raise UnsupportedError("a trace follows CLS, and here the last letter reads; there is none")
    inputs = model.inputs(list(strings))
    tokens = ("CLS", *config.alphabet.letters)
    with torch.no_grad():
        logits, cache = model.run_with_cache(inputs)
    seen = _Reader(cache, config.n_layers, tuple(strings), tokens, inputs)
    attention: dict[str, Any] = {}
    if config.has_attention:
        attention = {
            "weights": seen.weights(),
            "head_values": seen.at_cls("attn.hook_z", "head", "component"),
            "value_field": value_field(model, cache),
        }
        if not config.needs_order:
            attention |= {
                name: seen.everywhere(f"attn.hook_{name[0]}", "head", "component")
                for name in ("query", "key", "value")
            }
            attention["scores"] = seen.scores()
    notes = {
        "No head is drawn: this model has no attention.": not config.has_attention,
        "Queries, keys, values and scores are not drawn: this model sees order, so equal letters "
        "differ by where they stand. Weights are sums over a letter's positions.":
        config.needs_order,
        f"With {config.n_layers} layers, what a letter is in a later layer depends on the whole "
        "string; keys and values are drawn for the first layer only.": config.n_layers > 1,
        "Attention and MLP read the normalised residual; the residual is drawn as it is.":
        config.has_norm,
    }  # fmt: skip
    dims = range(config.d_model)
    sizes = {
        name: (float(weight.square().mean().sqrt()), float(weight.abs().max()))
        for name, weight in model.state_dict().items()
    }
    return TraceResult(
        not_applicable=that_hold(notes),
        task=config.question,
        logits=LabeledArray.of(logits.numpy(), string=strings),
        labels=tuple(config.classes(strings).tolist()),
        embeddings=LabeledArray.of(
            model.W_E.detach().numpy(), token=config.alphabet.token_names, dim=dims
        ),
        readout=LabeledArray.of(model.W_U.detach().numpy()[:, 0], dim=dims),
        states=seen.states(),
        neurons=seen.at_cls("mlp.hook_post", "neuron") if config.has_mlp else None,
        magnitudes=LabeledArray.of(
            list(sizes.values()), weight=sizes, statistic=("root mean square", "largest")
        ),
        residual_field=residual_field(model, cache),
        **attention,
    )


class _Reader:
    """Cached activations of all layers as labelled arrays."""

    def __init__(
        self, cache: Any, n_layers: int, strings: tuple[str, ...], tokens: tuple[str, ...],
        inputs: Inputs,
    ) -> None:  # fmt: skip
        self.cache, self.layers = cache, range(n_layers)
        self.strings, self.tokens, self.inputs = strings, tokens, inputs
        first = [0] * len(strings)
        self.cls = first if inputs.reading is None else inputs.reading.tolist()

    def _stack(self, name: str) -> NDArray[np.float64]:
        layers = [self.cache[f"blocks.{layer}.{name}"] for layer in self.layers]
        return torch.stack(layers).double().numpy()

    def _labelled(self, values: NDArray[np.float64], *axes: str) -> LabeledArray:
        """Axes that are not known by name are numbered."""
        known: dict[str, Any] = {
            "layer": self.layers, "string": self.strings, "token": self.tokens
        }  # fmt: skip
        sizes = zip(axes, values.shape, strict=True)
        return LabeledArray.of(values, **{axis: known.get(axis, range(n)) for axis, n in sizes})

    def at_cls(self, name: str, *trailing: str) -> LabeledArray:
        return self._labelled(self._at_cls(self._stack(name)), "layer", "string", *trailing)

    def _at_cls(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """`[layer string pos ...]` where each string's CLS stands."""
        return np.stack([values[:, row, at] for row, at in enumerate(self.cls)], axis=1)

    def everywhere(self, name: str, *trailing: str) -> LabeledArray:
        return self._labelled(self._stack(name), "layer", "string", "token", *trailing)

    def weights(self) -> LabeledArray:
        every = self._stack("attn.hook_pattern")
        pattern = self._at_cls(rearrange(every, "layer string head q k -> layer string q head k"))
        ids = [0, *range(FIRST_LETTER, FIRST_LETTER + len(self.tokens) - 1)]
        members = self.inputs.tokens.numpy()[:, :, None] == ids
        summed = einsum(
            pattern, members, "layer string head key, string key token -> layer string head token"
        )
        return self._labelled(summed, "layer", "string", "head", "token")

    def scores(self) -> LabeledArray:
        scores = self._stack("attn.hook_attn_scores")[:, :, :, 0, :]
        multiplicity = rearrange(self.inputs.multiplicity.numpy(), "string key -> 1 string 1 key")
        present = multiplicity > 0
        raw = scores - np.log(np.where(present, multiplicity, 1.0))
        return self._labelled(np.where(present, raw, np.nan), "layer", "string", "head", "token")

    def states(self) -> LabeledArray:
        stages = [s for s in STAGES if f"blocks.0.hook_{s}" in self.cache]
        every = [self._stack(f"hook_{stage}") for stage in stages]
        tokens = self.tokens
        if not self.inputs.compressed:
            tokens, every = tokens[:1], [self._at_cls(values)[:, :, None] for values in every]
        values, axes = np.stack(every, axis=1), {"layer": self.layers, "stage": stages}
        places = {"string": self.strings, "token": tokens, "dim": range(values.shape[-1])}
        return LabeledArray.of(values, **axes, **places)


# -- the logit over a plane, measured by writing points of a grid into a hook at CLS ---------------


_GRID = 41


def value_field(model: Classifier, cache: Any) -> LabeledArray | None:
    """The logit where the two one-dimensional heads of a one-layer model have values (x, y)."""
    config = model.config
    if (config.n_layers, config.n_heads, config.d_head) != (1, 2, 1) or config.needs_order:
        return None
    values = cache["blocks.0.attn.hook_v"][..., 0].double().flatten(0, -2).numpy()
    return _field(model, "blocks.0.attn.hook_z", values, lambda xy: xy[:, :, None])


def residual_field(model: Classifier, cache: Any) -> LabeledArray | None:
    """The logit where CLS's residual after the last attention is (x, y)."""
    config = model.config
    last = f"blocks.{config.n_layers - 1}.hook_resid_mid"
    if config.d_model != 2 or config.needs_order or last not in cache:
        return None
    return _field(model, last, cache[last][:, 0].double().numpy(), lambda xy: xy)


def _field(
    model: Classifier,
    hook_name: str,
    seen: NDArray[np.float64],
    shape: Callable[[Tensor], Tensor],
) -> LabeledArray:
    """On a square around the origin and all points that were seen, with room around them."""
    low, high = np.minimum(seen.min(axis=0), 0.0), np.maximum(seen.max(axis=0), 0.0)
    half = 0.8 * float((high - low).max()) or 1.0
    x, y = (np.linspace(m - half, m + half, _GRID) for m in (low + high) / 2)
    points = torch.tensor(np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2), dtype=torch.float32)

    def write(activation: Tensor, hook: Any) -> Tensor:
        changed = activation.clone()
        changed[:, 0] = shape(points).to(activation.dtype)
        return changed

    one_letter = np.zeros((len(points), model.config.n_letters), dtype=np.int64)
    one_letter[:, 0] = 1
    with torch.no_grad():
        logits = model.run_with_hooks(model.counts(one_letter), fwd_hooks=[(hook_name, write)])
    grid = logits.double().numpy().reshape(_GRID, _GRID)
    return LabeledArray.of(grid, y=[f"{v:.6g}" for v in y], x=[f"{v:.6g}" for v in x])
