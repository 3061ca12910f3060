"""A model as its edges: which reader receives what from which writer.

For any model by gates (`Gated`). Writers are the token embedding, each head and each MLP; readers
are each head's query, key and value, each MLP and the logit. Every reader has its own copy of the
residual stream, as in path patching and in auto-circuit. With gate 0 a reader receives a writer's
reference (zero, its mean, or what it writes on another input) instead of what it writes, and its
norm is taken of that sum:

    heard = norm(stream - Σ (1 - gate) (written - reference)) W + b

The output is differentiable in the gates, so one run back estimates what every edge is worth.

For one layer without norms as sums (`Wiring`): a neuron's input and the logit are sums over writers
(the embedding of CLS, the heads, the neurons), and cutting an edge takes one term away. So once the
terms are known for every count vector, what any of thousands of circuits answers is a few sums.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import ndtr
from torch import Tensor

from tsc_interp.checkpoints.checkpoint import Checkpoint
from tsc_interp.errors import UnsupportedError, UsageError
from tsc_interp.interventions.constants import Runs
from tsc_interp.interventions.norms import CLOSE, check_writers, has_norm, normed
from tsc_interp.interventions.parts import Edge, Part
from tsc_interp.model.classifier import Classifier
from tsc_interp.probes.inputs import Inputs, lead
from tsc_interp.strings import Counts

Array = NDArray[np.float64]
Hook = tuple[str, Callable[[Tensor, Any], Tensor | None]]
Answer = Callable[[int, list[Hook]], Tensor]
"""Runs the model on so many copies of the rows, with these hooks: one number for each row."""


class Gated:
    """The edges of a model, and its leads on some rows for any choice of gates."""

    def __init__(self, inputs: Inputs) -> None:
        self.runs, self.answer = Runs(inputs.model, inputs.fed), _leading(inputs)
        check_writers(self.runs)
        cfg = self.runs.cfg
        heads = range(cfg.n_heads)
        self.has_mlp = bool(getattr(cfg, "d_mlp", 0)) and not getattr(cfg, "attn_only", False)
        self.writers, self.readers = [Part("embed")], list[Part]()
        for layer in range(cfg.n_layers):
            for kind in ("query", "key", "value"):
                self.readers += [Part(kind, layer, head) for head in heads]
            self.writers += [Part("head", layer, head) for head in heads]
            if self.has_mlp:
                self.readers.append(Part("mlp", layer))
                self.writers.append(Part("mlp", layer))
        self.readers.append(Part("logit"))
        self.edges = [
            Edge(writer, reader)
            for reader in self.readers
            for writer in self.writers
            if _stage(writer) < _stage(reader)
        ]
        places = [(self.readers.index(e.target), self.writers.index(e.source)) for e in self.edges]
        self.reader, self.writer = torch.tensor(places).T
        self.reference: list[Tensor] = [torch.zeros(1, 1, 1)] * len(self.writers)

    def written(self) -> list[Tensor]:
        """What every writer writes in the model as it is: `[row pos d_model]` each.

        Raises:
            UnsupportedError: A reader's activation is not its weights times the normed stream.
        """
        forward_pass = _Pass(self, torch.ones(len(self.edges), 1), 1, checked=True)
        with torch.no_grad():
            self.answer(1, forward_pass.hooks())
        return forward_pass.written

    def __call__(self, gates: Tensor) -> Tensor:
        """`gates [edge choice]`, or `[edge choice row]`, to the lead of each row `[choice row]`."""
        rows = len(self.runs.tokens)
        choices = gates.shape[1]
        by_row = gates if gates.ndim == 3 else gates[..., None].expand(-1, -1, rows)
        forward_pass = _Pass(self, by_row.reshape(len(gates), -1), choices)
        return self.answer(choices, forward_pass.hooks()).reshape(choices, rows)

    def leads(self, gates: Array) -> Array:
        """`[choice row]`, for choices of gates `[choice edge]`, without a gradient."""
        with torch.no_grad():
            return self(torch.from_numpy(gates.T.astype(np.float32))).double().numpy()

    def attribution(self) -> Array:
        """`[edge]`: |∂ lead / ∂ gate|, the change without the edge to first order, on average."""
        gates = torch.ones(len(self.edges), 1, len(self.runs.tokens), requires_grad=True)
        with torch.enable_grad():
            (slope,) = torch.autograd.grad(self(gates).sum(), gates)
        return np.asarray(slope.abs().mean((1, 2)).double().numpy())

    def other(self, inputs: Inputs) -> list[Tensor]:
        """What the writers write on other rows of the same lengths."""
        other = Gated(inputs)
        if other.runs.tokens.shape != self.runs.tokens.shape:
            raise UsageError(
                f"corrupted rows are shaped {list(other.runs.tokens.shape)}, the rows "
                f"{list(self.runs.tokens.shape)}; give one of the same length for each row"
            )
        return other.written()


def _leading(inputs: Inputs) -> Answer:
    """A function that runs copies of the rows: the lead of the model's own answers."""
    with torch.no_grad():
        answers = inputs.outputs().argmax(1)

    def leading(copies: int, hooks: list[Hook]) -> Tensor:
        return lead(inputs.outputs(hooks, copies), answers.repeat(copies))

    return leading


class _Pass:
    """One run: what has been written so far, and what each reader receives from it."""

    def __init__(self, graph: Gated, gates: Tensor, copies: int, *, checked: bool = False) -> None:
        self.graph, self.copies, self.checked = graph, copies, checked
        self.closed = torch.zeros(len(graph.readers), len(graph.writers), gates.shape[1])
        self.closed[graph.reader, graph.writer] = 1 - gates
        self.written: list[Tensor] = []
        self.surplus: list[Tensor] = []
        self.stream = torch.empty(0)

    def hooks(self) -> list[Hook]:
        hooks: list[Hook] = [("hook_embed", self._write)]
        model, cfg = self.graph.runs.model, self.graph.runs.cfg
        for layer in range(cfg.n_layers):
            hooks.append((f"blocks.{layer}.hook_resid_pre", self._keep))
            for kind in ("query", "key", "value"):
                readers = [
                    reader
                    for reader in self.graph.readers
                    if (reader.kind, reader.layer) == (kind, layer)
                ]
                weight = getattr(model, f"W_{kind[0].upper()}").detach()[layer]
                hooks.append((readers[0].hook, self._read(readers, weight)))
            hooks.append((f"blocks.{layer}.attn.hook_z", self._heads(model.W_O.detach()[layer])))
            if self.graph.has_mlp:
                weight = model.W_in.detach()[layer][None]
                hooks.append((f"blocks.{layer}.hook_resid_mid", self._keep))
                hooks.append(
                    (f"blocks.{layer}.mlp.hook_pre", self._read([Part("mlp", layer)], weight))
                )
                hooks.append((f"blocks.{layer}.hook_mlp_out", self._write))
        hooks.append((f"blocks.{cfg.n_layers - 1}.hook_resid_post", self._logit))
        return hooks

    def _keep(self, stream: Tensor, hook: Any) -> None:
        self.stream = stream

    def _write(self, output: Tensor, hook: Any) -> None:
        reference = self.graph.reference[len(self.written)]
        if len(reference) > 1:
            reference = reference.repeat(self.copies, 1, 1)
        self.written.append(output)
        self.surplus.append(output - reference)

    def _heads(self, out: Tensor) -> Callable[[Tensor, Any], None]:
        def write(z: Tensor, hook: Any) -> None:
            for head, weight in enumerate(out):
                self._write(z[:, :, head] @ weight, hook)

        return write

    def _heard(self, readers: list[Part]) -> Tensor:
        """`[reader row pos d_model]`: each reader's copy of the stream."""
        indices = [self.graph.readers.index(reader) for reader in readers]
        closed = self.closed[indices, : len(self.surplus)]
        return self.stream - torch.einsum("rwb,wbpd->rbpd", closed, torch.stack(self.surplus))

    def _read(self, readers: list[Part], weight: Tensor) -> Callable[[Tensor, Any], Tensor]:
        runs, target = self.graph.runs, readers[0]
        if len(weight) != len(readers):
            raise UnsupportedError("heads that share keys and values have no edges of their own")

        def through(stream: Tensor) -> Tensor:
            return normed(runs, target, stream) if has_norm(runs) else stream

        def read(activation: Tensor, hook: Any) -> Tensor:
            own, heard = through(self.stream)[None], through(self._heard(readers))
            if self.checked:
                _check(activation, torch.einsum("rbpd,rde->bpre", own.expand_as(heard), weight))
            moved = torch.einsum("rbpd,rde->bpre", heard - own, weight)
            return activation + moved.reshape(activation.shape)

        return read

    def _logit(self, stream: Tensor, hook: Any) -> Tensor:
        self.stream = stream
        return self._heard([Part("logit")])[0]


def _stage(part: Part) -> int:
    if part.kind in ("embed", "logit"):
        return -1 if part.kind == "embed" else 10**6
    return 2 * part.layer + (part.kind == "mlp")


def _check(activation: Tensor, computed: Tensor) -> None:
    """What is added after the weights has to be the same everywhere: a bias, and nothing else."""
    bias = activation - computed.reshape(activation.shape)
    apart = float((bias - bias.mean((0, 1))).abs().max())
    if not apart <= CLOSE * max(1.0, float(activation.abs().max())):
        raise UnsupportedError(
            f"what a head or an MLP reads differs by {apart:.2g} from its weights times the norm "
            "of the residual stream, so what it receives from one writer is not known"
        )


# -- one layer without norms, as sums --------------------------------------------------------------


@dataclass(frozen=True)
class Wiring:
    """Terms in float64: `heard[writer][vector reader]`, readers being the neurons and the logit."""

    writers: tuple[Part, ...]
    heard: Array
    """`[writer vector reader]`, the logit last."""
    outputs: Array
    """`[neuron]`: what a neuron's activation adds to the logit."""

    @property
    def neurons(self) -> int:
        return len(self.outputs)

    def pairs(self) -> list[tuple[Part, Part]]:
        """(writer, reader), in the order of the columns of `logits`."""
        layer = [Part("neuron", 0, n) for n in range(self.neurons)]
        into = [(w, reader) for reader in [*layer, Part("logit")] for w in self.writers]
        return into + [(neuron, Part("logit")) for neuron in layer]

    def edges(self) -> list[Edge]:
        return [Edge(*pair) for pair in self.pairs()]

    def logits(self, keep: Array, fill: Wiring | None = None) -> Array:
        """`[circuit vector]`, for circuits given by the gates of their `pairs()`, `[circuit edge]`.

        A term whose gate is 0 is zero, or its mean over the strings of `fill`.
        """
        readers, writers = self.neurons + 1, len(self.writers)
        into = keep[:, : readers * writers].reshape(-1, readers, writers)
        out = keep[:, readers * writers :]
        total = np.einsum("crw,wvr->cvr", into, self.heard)
        if fill is not None:
            total += np.einsum("crw,wr->cr", 1 - into, fill.heard.mean(axis=1))[:, None]
        active = _gelu(total[..., : self.neurons])
        heard = np.einsum("cvn,cn->cv", active, out * self.outputs)
        if fill is not None:
            usual = _gelu(fill.heard.sum(axis=0)[:, : self.neurons]).mean(axis=0)
            heard += ((1 - out) * (self.outputs * usual)).sum(axis=1)[:, None]
        return np.asarray(total[..., -1] + heard)


def _gelu(x: Array) -> Array:
    return np.asarray(x * ndtr(x))


def wiring(checkpoint: Checkpoint, counts: Counts) -> Wiring:
    """The terms of every count vector."""
    config = checkpoint.config
    weights = {name: w.astype(np.float64) for name, w in checkpoint.weights.items()}
    readout = weights["unembed.W_U"]
    readers = [weights["blocks.0.mlp.W_in"]] if config.has_mlp else []
    reading = np.concatenate([*readers, readout], axis=1)
    model = Classifier.from_checkpoint(checkpoint).double()
    name = "blocks.0.attn.hook_z"
    with torch.no_grad():
        z = model.run_with_cache(model.counts(counts), names_filter=name)[1][name][:, 0].numpy()
    heads = np.einsum("vhk,hkd,dr->hvr", z, weights["blocks.0.attn.W_O"], reading, optimize=True)
    embedded = np.broadcast_to(weights["embed.W_E"][0] @ reading, heads.shape[1:])
    writers = (Part("embed"), *(Part("head", 0, h) for h in range(config.n_heads)))
    outputs = (weights["blocks.0.mlp.W_out"] @ readout)[:, 0] if config.has_mlp else np.zeros(0)
    return Wiring(writers, np.concatenate([embedded[None], heads]), outputs)
