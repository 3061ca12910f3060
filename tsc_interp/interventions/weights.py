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
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tsc_interp.arguments import checked
from tsc_interp.checkpoints.checkpoint import Checkpoint
from tsc_interp.checkpoints.resolve import ModelLike, as_checkpoint
from tsc_interp.errors import UnsupportedError, UsageError
from tsc_interp.interventions.changes import From, Mean, Patch, Resample, Scale, Set, Zero
from tsc_interp.interventions.constants import (
    Runs,
    given_vector,
    moved_table,
    named_strings,
    require_votes,
    table,
)
from tsc_interp.interventions.intervention import Given, Intervention, as_interventions
from tsc_interp.interventions.parts import Direction, Edge, Part, readers, writers
from tsc_interp.interventions.scaling import (
    READ_WEIGHT,
    becomes_bias,
    factor,
    only_scales,
    read_by,
    scale,
    write_bias,
    written_by,
)
from tsc_interp.model.framing import FrameLike, with_frame
from tsc_interp.strings import CLS, FIRST_LETTER

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
    if all(only_scales(one) or becomes_bias(checkpoint.config, one) for one in wanted):
        from tsc_interp.model.classifier import Classifier

        weights = {name: w.astype(np.float64) for name, w in checkpoint.weights.items()}
        for intervention in (one.over(tuple(strings)) for one in wanted):
            intervention.check(checkpoint.config)
            if only_scales(intervention):
                scale(weights, checkpoint.config, intervention)
            else:
                write_bias(weights, Classifier.from_checkpoint(checkpoint), intervention)
        rounded = {name: w.astype(np.float32) for name, w in weights.items()}
        return Checkpoint(checkpoint.config, rounded, provenance, source=source)
    editor = _Editor(checkpoint, tuple(strings))
    for intervention in wanted:
        editor.add(intervention)
    return editor.finish(provenance, source)


class _Editor:
    """Weights in float64, with the tags and views that edits ask for."""

    def __init__(self, checkpoint: Checkpoint, strings: tuple[str, ...]) -> None:
        from tsc_interp.model.classifier import Classifier

        self.config = checkpoint.config
        if self.config.beyond_report or self.config.has_positions:
            has = self.config.beyond_report or ("positions",)
            raise UnsupportedError(
                f"this model has {', '.join(has)}: zero and scale of whole heads, neurons and MLPs "
                "can be written into its weights, and with biases constants of the last layer; use "
                "hooks (intervene) for other changes"
            )
        self.model = Classifier.from_checkpoint(checkpoint)
        self.strings = strings
        self.weights = {name: w.astype(np.float64) for name, w in checkpoint.weights.items()}
        self.cut: dict[Part, set[Part]] = {reader: set() for reader in readers(self.config)}
        self.tagged: dict[tuple[int, Part], Array] = {}
        """What a reader gets at a kind of token beyond what it reads: (token, reader) -> vector."""

    # -- taking edits ------------------------------------------------------------------------

    def add(self, intervention: Intervention) -> None:
        intervention = intervention.over(self.strings)
        intervention.check(self.config)
        where, how = intervention.place, intervention.change
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
        """A head, a neuron or an MLP writes less, nothing, or a constant."""
        if isinstance(intervention.change, Mean | From | Set):
            for token, average in self._averages(intervention, where).items():
                vector = self._written(where, average)
                self._constant(token, vector, [r for r in self.cut if _after(where, r)])
        written = written_by(self.weights, where)
        written *= factor(intervention)

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
        if isinstance(intervention.change, Mean | From | Set):
            for token, average in self._averages(intervention, edge.source).items():
                self._constant(token, self._written(edge.source, average), [edge.target])

    def _inside_head(self, intervention: Intervention, where: Part) -> None:
        if only_scales(intervention):
            scale(self.weights, self.config, intervention)
            return
        if where.layer:
            raise UnsupportedError(
                f"{intervention}: beyond the first layer a letter's {where.kind} depends on the "
                "string, so it is no constant; only zero and scale of the whole can be written as "
                "weights"
            )
        self._no_norm(intervention)
        reader = Part(where.kind, 0, where.index)
        for token, old, new in self._vectors(intervention, where):
            self._tag(token, reader, new - old)

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
            average = self._averages(intervention, where)[CLS]
            self._tag(CLS, Part("logit"), np.array([float(unit @ average) * read]))
        self.weights["unembed.W_U"][:, 0] -= (1 - factor(intervention)) * read * unit

    def _no_norm(self, intervention: Intervention) -> None:
        if self.config.has_norm:
            raise UnsupportedError(
                f"{intervention}: written as weights this adds dimensions, which the norms of this "
                "model would feel; zero and scale of whole parts can be written as weights, and "
                "hooks do the rest"
            )

    # -- constants ---------------------------------------------------------------------------

    def _averages(self, intervention: Intervention, where: Part | Direction) -> dict[int, Array]:
        """Per kind of token that anyone reads, what the part is on average."""
        self._no_norm(intervention)
        last = where.layer == self.config.n_layers - 1 and not (
            isinstance(where, Part) and where.kind == "embed"
        )
        needed = [CLS, *([] if last else range(FIRST_LETTER, self.config.alphabet.vocab_size))]
        if isinstance(intervention.change, Set):
            return {t: np.array(given_vector(self.model.cfg, intervention, where)) for t in needed}
        means, votes = table(Runs(self.model, named_strings(intervention)), where.hook)
        require_votes(intervention, votes, needed, self.config.alphabet.token_names)
        values = means.double().numpy()
        index = where.index if isinstance(where, Part) else None
        return {t: values[t] if index is None else values[t][index] for t in needed}

    def _vectors(self, intervention: Intervention, where: Part) -> list[tuple[int, Array, Array]]:
        """(token, old, new) of the queries, keys or values a head gives in the first layer."""
        name = f"blocks.0.{READ_WEIGHT[where.kind]}"
        every = self.weights["embed.W_E"] @ self.weights[name][where.index]
        tokens = [CLS, *range(FIRST_LETTER, len(every))]
        if where.letter is not None:
            tokens = [FIRST_LETTER + self.config.alphabet.index(where.letter)]
        new = moved_table(self.model, intervention, where, every)
        return [(t, every[t], new[t]) for t in tokens]

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
        cuts = list(dict.fromkeys(frozenset(cut) for cut in self.cut.values()))
        tokens = list(dict.fromkeys(token for token, _ in self.tagged))
        size = self.config.d_model
        width = size * len(cuts) + len(tokens)
        config = self.config.model_copy(update={"d_model": width})
        weights = {name: np.zeros(shape) for name, shape in config.weight_shapes().items()}
        for name in weights:
            if ".ln" in name:  # only kept where nothing is added
                weights[name] = self.weights[name]
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
        rounded = {name: w.astype(np.float32) for name, w in weights.items()}
        return Checkpoint(config, rounded, provenance, source=source)


def _after(writer: Part, reader: Part) -> bool:
    """Whether the reader comes after a head, a neuron or an MLP."""
    if reader.kind == "logit" or reader.layer > writer.layer:
        return True
    return reader.layer == writer.layer and writer.kind == "head" and reader.kind == "neuron"
