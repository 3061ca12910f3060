"""Interventions as weights: the changed model is again a classifier, so it can be verified.

    edited = edit("walkthrough", "head0.value[c]=like(b)")        a Checkpoint
    tsc.horizon(edited)

Three devices do this, each exact up to the rounding of the new weights to float32:

- **Scaling**: zero and scale multiply the weights that a part writes with.
- **Tags**: a constant needs a bias, which this family does not have. A residual dimension that is 1
  at one kind of token (CLS, or a letter) and that nothing writes to serves as one: each reader of
  the constant gets a row of weights for it.
- **Views**: a reader that must not receive some writers gets its own copy of the residual stream,
  into which all other writers write as before.

Tags and views add dimensions, which a norm would notice, and are written for the report's family
only. Every other classifier (norms, biases, positions, several outputs) allows zero and scale.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tsc_interp.arguments import checked
from tsc_interp.checkpoints.checkpoint import Checkpoint
from tsc_interp.checkpoints.resolve import ModelLike, as_checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import UnsupportedError, UsageError
from tsc_interp.interventions.changes import Mean, Patch, Resample, Scale, Set, Zero
from tsc_interp.interventions.constants import Runs, changing, only_read
from tsc_interp.interventions.intervention import Given, Intervention, as_interventions
from tsc_interp.interventions.parts import Direction, Edge, Part, readers, writers
from tsc_interp.interventions.scaling import (
    becomes_bias,
    factor,
    only_scales,
    read_by,
    scale,
    write_bias,
    written_by,
)
from tsc_interp.model.framing import FrameLike, with_frame
from tsc_interp.strings import CLS

Array = NDArray[np.float64]
_PATTERN = "an attention pattern is no constant; change the query or keys instead"
_WRITTEN = "as weights, change what is written: heads, neurons, or the mlp"
_REFUSED = {
    "pattern": _PATTERN,
    "score": _PATTERN,
    **dict.fromkeys(("attn", "resid_pre", "resid_mid", "resid_post"), _WRITTEN),
    "embed": "everything reads the embedding; cut the edges from it instead, such as embed->logit",
}
"""Parts that no weights can change, each with the reason."""


@checked
def edit(
    model: ModelLike,
    interventions: Given,
    *,
    strings: Sequence[str] = (),
    frame: FrameLike | None = None,
) -> Checkpoint:
    """Return a copy of a model with interventions written into its weights.

    Args:
        model: A hooked model, a checkpoint, a bundled name, a path, or a run.
        interventions: One or several, as text such as `"head0=zero"` or as `Intervention`.
        strings: The strings over which a mean is taken if it names none.
        frame: The format of the inputs (`tsc.Frame`), for a model that was imported without one.

    Returns:
        The changed model, which can be verified like any other.

    Raises:
        UsageError: The notation cannot be read, or the model has no such part.
        UnsupportedError: The change cannot be written as weights; the message says why.

    Example:
        >>> edited = edit("walkthrough", "head0.value[c]=like(b)")
        >>> edited.source
        'walkthrough with head0.value[c]=like(b)'
    """
    checkpoint = as_checkpoint(with_frame(model, frame))
    wanted = as_interventions(interventions)
    history = [*checkpoint.provenance.get("interventions", ()), *map(str, wanted)]
    provenance = {**checkpoint.provenance, "interventions": history}
    source = f"{checkpoint.source} with {', '.join(map(str, wanted))}"
    editor = _Editor(checkpoint, tuple(strings))
    for intervention in wanted:
        editor.add(intervention)
    return editor.finish(provenance, source)


class _Editor:
    """Weights in float64, with the tags and views that edits ask for."""

    def __init__(self, checkpoint: Checkpoint, strings: tuple[str, ...]) -> None:
        from tsc_interp.model.classifier import Classifier

        self.config = checkpoint.config
        self.model = Classifier.from_checkpoint(checkpoint).double()
        self.strings = strings
        self.weights = {name: w.astype(np.float64) for name, w in checkpoint.weights.items()}
        self.cut: dict[Part, set[Part]] = {reader: set() for reader in readers(self.config)}
        self.tagged: dict[tuple[int, Part], Array] = {}
        """What a reader gets at a kind of token beyond what it reads: (token, reader) -> vector."""

    # -- taking edits ------------------------------------------------------------------------

    def add(self, intervention: Intervention) -> None:
        intervention = intervention.over(self.strings)
        intervention.check(self.config)
        if intervention.change == Mean():
            raise UsageError(
                f"{intervention}: a mean over no strings; name them, as in mean(aab, abc)"
            )
        if only_scales(intervention):
            scale(self.weights, self.config, intervention)
        elif becomes_bias(self.config, intervention):
            write_bias(self.weights, self.model, intervention)
        else:
            self._with_dimensions(intervention)

    def _with_dimensions(self, intervention: Intervention) -> None:
        """What tags and views write, in the report's family."""
        where, how = intervention.place, intervention.change
        if self.config.beyond_report or self.config.has_positions:
            has = self.config.beyond_report or ("positions",)
            raise UnsupportedError(
                f"this model has {', '.join(has)}: zero and scale of whole heads, neurons and MLPs "
                "can be written into its weights, and with biases constants of the last layer; use "
                "hooks (intervene) for other changes"
            )
        if isinstance(how, Resample):
            raise UnsupportedError(
                f"{intervention}: what is drawn differs from string to string, so it is no "
                "constant; use from(...) or mean(...)"
            )
        at = where.target if isinstance(where, Edge) else where
        if isinstance(how, Patch) or (isinstance(at, Part) and at.position is not None):
            raise UnsupportedError(
                f"{intervention}: patches and single positions belong to one run, so they are no "
                "constant; use from(...) of the whole part"
            )
        if isinstance(where, Direction):
            self._direction(intervention, where)
        elif isinstance(where, Edge):
            self._edge(intervention, where)
        elif where.kind in ("query", "key", "value"):
            self._inside_head(intervention, where)
        elif where.kind in _REFUSED:
            raise UnsupportedError(f"{intervention}: {_REFUSED[where.kind]}")
        else:
            self._output(intervention, where)

    def _output(self, intervention: Intervention, where: Part) -> None:
        """A head, a neuron or an MLP writes a constant."""
        remaining = factor(intervention)
        for token, value in self._values(intervention, where).items():
            vector = self._written(where, value)
            self._constant(token, vector, [r for r in self.cut if _after(where, r)])
        written = written_by(self.weights, where)
        written *= remaining

    def _edge(self, intervention: Intervention, edge: Edge) -> None:
        self._no_norm(intervention)
        if "mlp" in (edge.source.kind, edge.target.kind):
            raise UnsupportedError(f"{intervention}: as weights, cut the edges of single neurons")
        if edge.source in self.cut[edge.target]:
            raise UsageError(f"{edge} is changed twice")
        self.cut[edge.target].add(edge.source)
        if isinstance(intervention.change, Scale):
            raise UnsupportedError(
                f"{intervention}: an edge is cut or made constant in weights; scale the whole "
                "part, or use hooks"
            )
        if isinstance(intervention.change, Mean | Set):
            for token, value in self._values(intervention, edge.source).items():
                self._constant(token, self._written(edge.source, value), [edge.target])

    def _inside_head(self, intervention: Intervention, where: Part) -> None:
        if where.layer:
            raise UnsupportedError(
                f"{intervention}: beyond the first layer a letter's {where.kind} depends on the "
                "string, so it is no constant; only zero and scale of the whole can be written as "
                "weights"
            )
        self._no_norm(intervention)
        reader = Part(where.kind, 0, where.index)
        before = self.runs.activation(where.hook)[0, :, where.index].numpy()
        old = dict(zip(self.runs.tokens[0].tolist(), before, strict=True))
        for token, new in self._values(intervention, where).items():
            if where.letter is None or token == self.runs.token(where.letter):
                self._tag(token, reader, new - old[token])

    def _direction(self, intervention: Intervention, where: Direction) -> None:
        if where.site != "resid_post" or where.layer != self.config.n_layers - 1:
            raise UnsupportedError(
                f"{intervention}: as weights, only a direction of the last resid_post can be "
                "changed; use hooks for the others"
            )
        unit = np.asarray(where.unit, dtype=np.float64)
        read = float(unit @ self.weights["unembed.W_U"][:, 0])
        if not isinstance(intervention.change, Zero | Scale):
            self._no_norm(intervention)
            value = self._values(intervention, where)[CLS]
            self._tag(CLS, Part("logit"), np.array([float(unit @ value) * read]))
        self.weights["unembed.W_U"][:, 0] -= (1 - factor(intervention)) * read * unit

    def _no_norm(self, intervention: Intervention) -> None:
        if self.config.has_norm:
            raise UnsupportedError(
                f"{intervention}: written as weights this adds dimensions, which the norms of this "
                "model would feel; zero and scale of whole parts can be written as weights, and "
                "hooks do the rest"
            )

    # -- constants ---------------------------------------------------------------------------

    @cached_property
    def runs(self) -> Runs:
        """A string of every letter, each of whose positions is a kind of token."""
        return Runs(self.model, self.config.alphabet.letters)

    def _values(self, intervention: Intervention, where: Part | Direction) -> dict[int, Array]:
        """Per kind of token that anyone reads, what the part becomes."""
        self._no_norm(intervention)
        activation = self.runs.activation(where.hook)
        new = changing(self.runs, intervention)(activation).expand_as(activation)[0].numpy()
        index = where.index if isinstance(where, Part) else None
        values = new if index is None else new[:, index]
        by_token = dict(zip(self.runs.tokens[0].tolist(), values, strict=True))
        return {CLS: by_token[CLS]} if only_read(self.config, where) else by_token

    def _constant(self, token: int, vector: Array, heard_by: list[Part]) -> None:
        """Add a constant vector of the residual stream to what some parts read."""
        for reader in heard_by:
            self._tag(token, reader, vector @ read_by(self.weights, reader))

    def _tag(self, token: int, reader: Part, vector: Array) -> None:
        before = self.tagged.get((token, reader), np.zeros_like(vector))
        self.tagged[token, reader] = before + vector

    def _written(self, source: Part, activation: Array) -> Array:
        if source.kind in ("embed", "mlp"):
            return activation
        return np.atleast_1d(activation) @ np.atleast_2d(written_by(self.weights, source))

    # -- the new checkpoint ------------------------------------------------------------------

    def finish(self, provenance: dict[str, Any], source: str) -> Checkpoint:
        config, weights = self.config, self.weights
        if self.tagged or any(self.cut.values()):
            config, weights = self._widened()
        rounded = {name: w.astype(np.float32) for name, w in weights.items()}
        return Checkpoint(config, rounded, provenance, source=source)

    def _widened(self) -> tuple[ClassifierConfig, dict[str, Array]]:
        """With a copy of the residual stream for each view, and a dimension for each tag."""
        cuts = list(dict.fromkeys(frozenset(cut) for cut in self.cut.values()))
        tokens = list(dict.fromkeys(token for token, _ in self.tagged))
        size = self.config.d_model
        width = size * len(cuts) + len(tokens)
        config = self.config.model_copy(update={"d_model": width})
        weights = {name: np.zeros(shape) for name, shape in config.weight_shapes().items()}
        for part in writers(self.config):
            for view, cut in enumerate(cuts):
                if part not in cut:
                    columns = slice(size * view, size * (view + 1))
                    written_by(weights, part)[..., columns] = written_by(self.weights, part)
        for column, token in enumerate(tokens, start=size * len(cuts)):
            weights["embed.W_E"][token, column] = 1.0
        for reader, unheard in self.cut.items():
            at = size * cuts.index(frozenset(unheard))
            read_by(weights, reader)[at : at + size] = read_by(self.weights, reader)
        for (token, reader), vector in self.tagged.items():
            read_by(weights, reader)[size * len(cuts) + tokens.index(token)] += vector
        return config, weights


def _after(writer: Part, reader: Part) -> bool:
    """Whether the reader comes after a head, a neuron or an MLP."""
    if reader.kind == "logit" or reader.layer > writer.layer:
        return True
    return reader.layer == writer.layer and writer.kind == "head" and reader.kind == "neuron"
