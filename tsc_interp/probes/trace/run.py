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

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from einops import einsum, rearrange
from numpy.typing import NDArray

from tsc_interp.errors import UnsupportedError
from tsc_interp.model.classifier import Classifier
from tsc_interp.model.inputs import Inputs
from tsc_interp.probes.running import need_classifier
from tsc_interp.probes.trace.fields import residual_field, value_field
from tsc_interp.probes.trace.result import TraceResult
from tsc_interp.probes.trace.words import findings
from tsc_interp.results.base import LabeledArray
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
    not_applicable = []
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
    else:
        not_applicable.append("No head is drawn: this model has no attention.")
    if config.needs_order:
        not_applicable.append(
            "Queries, keys, values and scores are not drawn: this model sees order, so equal "
            "letters differ by where they stand. Weights are sums over a letter's positions."
        )
    if config.n_layers > 1:
        not_applicable.append(
            f"With {config.n_layers} layers, what a letter is in a later layer depends on the "
            "whole string; keys and values are drawn for the first layer only."
        )
    if config.has_norm:
        not_applicable.append(
            "Attention and MLP read the normalised residual; the residual is drawn as it is."
        )
    labels = tuple(config.classes(strings).tolist())
    result = TraceResult(
        findings=(),
        not_applicable=tuple(not_applicable),
        task=config.question,
        logits=LabeledArray.of(logits.numpy(), string=strings),
        labels=labels,
        embeddings=LabeledArray.of(
            model.W_E.detach().numpy(),
            token=config.alphabet.token_names,
            dim=range(config.d_model),
        ),
        readout=LabeledArray.of(model.W_U.detach().numpy()[:, 0], dim=range(config.d_model)),
        states=seen.states(),
        neurons=seen.at_cls("mlp.hook_post", "neuron") if config.has_mlp else None,
        magnitudes=_magnitudes(model),
        residual_field=residual_field(model, cache),
        **attention,
    )
    return result.with_findings(findings(result))


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

    def _labels(self, *names: str) -> dict[str, Any]:
        known = {"layer": self.layers, "string": self.strings, "token": self.tokens}
        return {name: known.get(name) for name in names}

    def at_cls(self, name: str, *trailing: str) -> LabeledArray:
        values = self._at_cls(self._stack(name))
        sizes = {axis: range(size) for axis, size in zip(trailing, values.shape[2:], strict=True)}
        return LabeledArray.of(values, **self._labels("layer", "string"), **sizes)

    def _at_cls(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """`[layer string pos ...]` where each string's CLS stands."""
        return np.stack([values[:, row, at] for row, at in enumerate(self.cls)], axis=1)

    def everywhere(self, name: str, *trailing: str) -> LabeledArray:
        values = self._stack(name)
        sizes = {axis: range(size) for axis, size in zip(trailing, values.shape[3:], strict=True)}
        return LabeledArray.of(values, **self._labels("layer", "string", "token"), **sizes)

    def weights(self) -> LabeledArray:
        every = self._stack("attn.hook_pattern")
        pattern = self._at_cls(rearrange(every, "layer string head q k -> layer string q head k"))
        members = self.inputs.tokens.numpy()[:, :, None] == self._token_ids()
        summed = einsum(
            pattern, members, "layer string head key, string key token -> layer string head token"
        )
        return LabeledArray.of(
            summed,
            **self._labels("layer", "string"),
            head=range(summed.shape[2]),
            token=self.tokens,
        )

    def _token_ids(self) -> list[int]:
        return [0, *range(FIRST_LETTER, FIRST_LETTER + len(self.tokens) - 1)]

    def scores(self) -> LabeledArray:
        scores = self._stack("attn.hook_attn_scores")[:, :, :, 0, :]
        multiplicity = rearrange(self.inputs.multiplicity.numpy(), "string key -> 1 string 1 key")
        present = multiplicity > 0
        raw = scores - np.log(np.where(present, multiplicity, 1.0))
        return LabeledArray.of(
            np.where(present, raw, np.nan),
            **self._labels("layer", "string"),
            head=range(raw.shape[2]),
            token=self.tokens,
        )

    def states(self) -> LabeledArray:
        stages = [s for s in STAGES if f"blocks.0.hook_{s}" in self.cache]
        every = [self._stack(f"hook_{stage}") for stage in stages]
        tokens = self.tokens
        if not self.inputs.compressed:
            tokens, every = tokens[:1], [self._at_cls(values)[:, :, None] for values in every]
        values = np.stack(every, axis=1)
        return LabeledArray.of(
            values,
            layer=self.layers,
            stage=stages,
            string=self.strings,
            token=tokens,
            dim=range(values.shape[-1]),
        )


def _magnitudes(model: Classifier) -> LabeledArray:
    rows = {
        name: (float(weight.square().mean().sqrt()), float(weight.abs().max()))
        for name, weight in model.state_dict().items()
    }
    return LabeledArray.of(
        list(rows.values()), weight=list(rows), statistic=("root mean square", "largest")
    )
