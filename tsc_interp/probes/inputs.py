"""What a probe is asked about: our classifier and strings, or any TransformerLens model and tokens.

    inputs = Inputs(model, ["aab", "ab{66}"])
    inputs.run("attn.hook_pattern").pattern(0)

Whatever differs between the two kinds is settled here, so that a probe is written once. A report
asks all its probes with one `Inputs`, so that the model is run once for those that read the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import UnsupportedError, UsageError, shorten
from tsc_interp.probes.token_rows import (
    Query,
    Rows,
    TokenNames,
    device_of,
    name_of,
    need_method,
    queries,
    token_rows,
    unmasked_padding,
)
from tsc_interp.strings import CLS, FIRST_LETTER, as_strings

if TYPE_CHECKING:
    from torch import Tensor

    from tsc_interp.frames.frame import Frame
    from tsc_interp.model.inputs import Inputs as ModelInputs

Floats = NDArray[np.float64]
T = TypeVar("T")
MOST_WORK = 100_000_000_000
"""Parameters times tokens times passes: some 30 seconds of one processor core."""


@dataclass(frozen=True)
class Pass:
    """One forward pass: what went in, and the activations that were asked for."""

    rows: tuple[str, ...]
    """What to call each row: the string, or `row 0`."""
    tokens: NDArray[np.int64]
    """`[row position]`."""
    multiplicity: Floats
    """`[row position]`: how many copies of the token stand there; 0 is masked."""
    score_factor: Floats
    """`[row]`: log n where scores grow with length, else 1."""
    query: NDArray[np.int64]
    """`[row]`: the position that reads."""
    visible: NDArray[np.bool_]
    """`[row position]`: what the query may look at; all that is not masked, if nobody knows."""
    logits: Any
    """`[row ...]`: where each row is read."""
    cache: Any
    config: ClassifierConfig | None
    """Of our own classifier; None for any other model."""
    token_names: TokenNames | None
    padding: int | None = None
    """A token that looks like padding, though no mask says so."""

    def tensor(self, name: str) -> Tensor:
        if name not in self.cache:
            raise UnsupportedError(
                f"this model shows no {name}; this probe reads a transformer whose hooks have "
                "TransformerLens's names"
            )
        return cast("Tensor", self.cache[name])

    def activation(self, name: str) -> Floats:
        return as_array(self.tensor(name))

    def at_query(self, name: str) -> Floats:
        """`[row ...]`: an activation `[row position ...]` where each row is read."""
        tensor = self.tensor(name)
        return as_array(tensor[np.arange(len(self.query)), self.query])

    def pattern(self, layer: int) -> Floats:
        """`[row head key]`: the weights the query gives."""
        pattern = self.tensor(f"blocks.{layer}.attn.hook_pattern")
        return as_array(pattern[np.arange(len(self.query)), :, self.query])

    def padding_weight(self, layers: Sequence[int]) -> float:
        """The most that a query gives to what looks like padding, in these layers' heads."""
        padding = (self.tokens == self.padding)[:, None, :]
        return max((float((self.pattern(i) * padding).sum(-1).max()) for i in layers), default=0.0)

    def epsilon(self, name: str) -> float:
        """The relative rounding error of one operation in the number format of an activation."""
        import torch

        return float(torch.finfo(self.tensor(name).dtype).eps)

    def names(self, tokens: Sequence[int] | NDArray[np.int64]) -> tuple[str, ...]:
        """What tokens are called; two of one name get their numbers as well."""
        if self.config is not None:
            return tuple(self.config.called[token] for token in tokens)
        names = [name_of(self.token_names, int(token)) for token in tokens]
        times = Counter(names)
        return tuple(
            f"{name} ({token})" if times[name] > 1 else name
            for name, token in zip(names, tokens, strict=True)
        )


class Inputs:
    """A model and strings, or rows of token ids; what is read from the model is kept.

    Args:
        model: One of our classifiers, or a TransformerLens model.
        given: Strings in run-length notation, or token ids `[batch pos]`.
        query: The position that reads, one or one per row; by default where our classifier reads,
            or each row's last position that is not masked.
        token_names: What tokens are called: a list by token id, or a dictionary.
        direction: A vector in residual space; by default the read-out of our classifier.
        attention_mask: `[batch pos]`, 1 for tokens and 0 for padding.
        answer: The output that is asked about, one or one per row.

    Raises:
        UsageError: What is given is not an input of this model.
    """

    OPTIONS = ("query", "token_names", "direction", "attention_mask", "answer")

    def __init__(
        self,
        model: Any,
        given: Any,
        *,
        query: Query | None = None,
        token_names: TokenNames | None = None,
        direction: ArrayLike | Tensor | None = None,
        attention_mask: ArrayLike | Tensor | None = None,
        answer: int | Sequence[int] | None = None,
    ) -> None:
        self.model = model
        self.config = classifier_config(model)
        """Of our own classifier; None for any other model."""
        self.query, self.token_names, self.answer = query, token_names, answer
        self.attention_mask = attention_mask
        self.given_direction = direction
        self.given = given
        """Strings in run-length notation, the fixed tokens of a frame among them; or token ids."""
        self._kept: dict[Any, Any] = {}
        if self.config is None:
            return
        if attention_mask is not None:
            raise UsageError("a classifier knows its padding; attention_mask is for other models")
        texts = self.config.filled(as_strings(given))
        if not texts:
            raise UsageError("a probe needs at least one string, such as 'aab'; got none")
        self.given = [self.config.alphabet.canonical(text) for text in texts]

    @property
    def frame(self) -> Frame | None:
        """What inputs of our classifier look like, its letters by index; None if any string is."""
        return None if self.config is None else self.config.frame

    def of_frame(self, most: int = 256) -> Inputs:
        """Return the model with inputs of its frame: all of few, or random ones."""
        frame, config = self.frame, self.config
        if frame is None or config is None:
            return self
        if frame.count() <= most:
            drawn = [frame.listed(size, 0, frame.count(size)) for size in frame.lengths]
        else:
            rng = np.random.default_rng(0)
            sizes = frame.draw_lengths(most, rng).items()
            drawn = [frame.sample(count, rng, size) for size, count in sizes]
        rows = [row for letters in drawn if len(letters) for row in frame.rows(letters).tolist()]
        strings = ["".join(config.alphabet.letters[i] for i in row) for row in rows]
        return self.once("of frame", lambda: Inputs(self.model, strings, query=self.query))

    def refuse_frame(self, because: str) -> None:
        """Refuse a model whose inputs have a frame, where strings of any kind are asked about."""
        if self.frame is not None:
            raise UnsupportedError(f"inputs of this model look like {self.frame}, {because}")

    def fresh(self) -> Inputs:
        """Return the same inputs with nothing read yet, for a model that was changed since."""
        options = {name: getattr(self, name) for name in self.OPTIONS if name != "direction"}
        return Inputs(self.model, self.given, **options, direction=self.given_direction)

    def once(self, key: Hashable, compute: Callable[[], T]) -> T:
        """Return what `compute` returns, which is computed once for all probes."""
        if key not in self._kept:
            self._kept[key] = compute()
        return cast("T", self._kept[key])

    @property
    def direction(self) -> Floats | None:
        """The read-out, a vector in residual space: given, or our classifier's own, or none."""
        return self.once("direction", lambda: readout_direction(self.model, self.given_direction))

    @property
    def rows(self) -> Rows:
        """The rows of token ids, checked, of a TransformerLens model."""
        return self.once(
            "rows", lambda: token_rows(self.model, self.given, self.query, self.attention_mask)
        )

    @property
    def row_names(self) -> tuple[str, ...]:
        """What to call each row: the string, or `row 0`."""
        if self.config is not None:
            return tuple(self.given)
        return tuple(f"row {row}" for row in range(len(self.rows.tokens)))

    @property
    def fed(self) -> Any:
        """What the model is run on: compressed strings of our classifier, or token ids."""

        def made() -> Any:
            need_method(self.model, "run_with_hooks")
            if self.config is not None:
                return self.model.inputs(self.given)
            import torch

            return torch.from_numpy(self.rows.tokens).to(device_of(self.model))

        return self.once("fed", made)

    def outputs(self, hooks: Sequence[Any] = (), copies: int = 1) -> Tensor:
        """`[row output]`: what the model says under these hooks, where each row is read.

        A single logit becomes the outputs no and yes, so that the largest one is the answer. With
        `copies` the rows are run so many times at once.
        """
        import torch

        if self.config is not None:
            batch = self.fed if copies == 1 else self.fed.repeated(copies)
            out: Tensor = self.model.run_with_hooks(batch, fwd_hooks=list(hooks))
        else:
            options = {}
            if self.attention_mask is not None:
                kept = torch.from_numpy(self.rows.kept).long().to(self.fed.device)
                options["attention_mask"] = kept.repeat(copies, 1)
            batch = self.fed.repeat(copies, 1)
            out = self.model.run_with_hooks(batch, fwd_hooks=list(hooks), **options)
            out = out[torch.arange(len(out)), torch.from_numpy(np.tile(self.rows.query, copies))]
        out = out.reshape(len(out), -1)
        return torch.cat([torch.zeros_like(out), out], 1) if out.shape[1] == 1 else out

    def check_work(self, passes: int, doing: str) -> None:
        """Refuse what would take minutes: so many passes over all rows."""
        tokens = self.fed.tokens.numel() if self.config is not None else self.fed.numel()
        size = sum(parameter.numel() for parameter in self.model.parameters())
        if size * tokens * passes > MOST_WORK:
            raise UnsupportedError(
                f"{doing} takes {passes:,} passes over {tokens:,} tokens, which is too much for a "
                f"model of {size:,} parameters; {MOST_WORK // (size * passes):,} tokens fit"
            )

    def run(self, *reads: str, written_out: bool = False) -> Pass:
        """Run the model, unless that was done, and keep the activations whose names end so.

        Our classifiers are small: of them all activations are kept, for all probes.

        Args:
            reads: Ends of hook names, such as `attn.hook_pattern`.
            written_out: Whether our classifier gets one position per letter, with order or without.
        """
        need_method(self.model, "run_with_cache")
        if self.config is not None:
            return self.once(("pass", written_out), lambda: _start_classifier(self, written_out))
        known: dict[tuple[str, ...], Pass] = self.once("passes", dict)
        for names, seen in known.items():
            if set(reads) <= set(names):
                return seen
        known[reads] = _start_rows(self, reads)
        return known[reads]


def _start_rows(inputs: Inputs, reads: tuple[str, ...]) -> Pass:
    import torch

    model, given, rows = inputs.model, inputs.rows, inputs.row_names
    device = device_of(model)
    ids = torch.from_numpy(given.tokens).to(device)
    options: dict[str, Any] = {"names_filter": lambda name: name.endswith(reads)}
    if inputs.attention_mask is not None:
        options["attention_mask"] = torch.from_numpy(given.kept).long().to(device)
    try:
        with torch.no_grad():
            logits, cache = model.run_with_cache(ids, **options)
    except TypeError as error:
        if inputs.attention_mask is None or "attention_mask" not in str(error):
            raise
        raise UnsupportedError(
            f"this {type(model).__name__} takes no attention_mask; leave the padding out"
        ) from None
    if logits is not None:  # of a large vocabulary all positions are more than all the rest
        logits = logits[np.arange(len(rows)), given.query]
    return Pass(
        rows,
        given.tokens,
        multiplicity=given.kept.astype(np.float64),
        score_factor=np.ones(len(rows)),
        query=given.query,
        visible=given.kept,
        logits=logits,
        cache=cache,
        config=None,
        token_names=inputs.token_names,
        padding=unmasked_padding(model, given, inputs.token_names),
    )


def _start_classifier(inputs: Inputs, written_out: bool) -> Pass:
    import torch

    model, strings = inputs.model, inputs.given
    config: ClassifierConfig = model.config
    given = model.inputs(model.tokens(strings)) if written_out else inputs.fed
    tokens, multiplicity = given.tokens.cpu().numpy(), as_array(given.multiplicity)
    if inputs.query is None and given.reading is not None:
        at = given.reading.cpu().numpy()
    else:
        query = 0 if inputs.query is None else inputs.query
        at = queries(query, tokens.shape, multiplicity > 0)
    visible = multiplicity > 0
    if given.causal:
        visible &= np.arange(tokens.shape[1]) <= at[:, None]
    elif not config.needs_order:
        # A letter a string lacks still has its key and value, the same as in any other string.
        visible |= tokens >= FIRST_LETTER
    with torch.no_grad():
        logits, cache = model.run_with_cache(given)
    factor = score_factor(config, as_array(given.lengths))
    return Pass(
        inputs.row_names, tokens, multiplicity, factor, at, visible, logits, cache, config,
        token_names=None,
    )  # fmt: skip


def lead(outputs: Tensor, answers: Any) -> Tensor:
    """`[row]`: of `outputs [row output]` the answer's less the largest other one."""
    import torch

    own = torch.as_tensor(answers, device=outputs.device).expand(len(outputs))[:, None]
    others = outputs.scatter(1, own, -torch.inf)
    return outputs.gather(1, own)[:, 0] - others.max(1).values


def compact(config: ClassifierConfig, counts: Floats) -> ModelInputs:
    """Counts `[batch letter]`, real ones too, as an input without the letters that nowhere occur.

    The same logits as the full form, with positions only for CLS and the letters that matter.
    """
    import torch

    from tsc_interp.model.inputs import Inputs

    present = np.flatnonzero(counts.any(axis=0))
    tokens = torch.tensor([CLS, *(FIRST_LETTER + present).tolist()]).expand(len(counts), -1)
    multiplicity = np.insert(counts[:, present].astype(np.float64), 0, config.attend_cls, axis=1)
    lengths = torch.from_numpy(counts.sum(axis=1))
    return Inputs(tokens, torch.from_numpy(multiplicity), lengths, compressed=True)


def logits_of(model: Any, counts: Floats) -> Floats:
    """Our float32 model's logits for whole counts `[batch letter]`."""
    import torch

    config: ClassifierConfig = model.config
    with torch.no_grad():
        if config.needs_order:
            return as_array(model([config.alphabet.write(row) for row in counts.astype(int)]))
        return as_array(model(compact(config, counts)))


def score_factor(config: ClassifierConfig, lengths: Floats) -> Floats:
    """What scores are multiplied by in strings of these lengths."""
    return np.log(lengths + config.cls_counted) if config.log_n else np.ones(len(lengths))


def classifier_config(model: Any) -> ClassifierConfig | None:
    """The configuration of our own classifier; None for any other TransformerLens model."""
    config = getattr(model, "config", None)
    if not isinstance(config, ClassifierConfig):
        return None
    if model.ensemble_shape:
        raise UnsupportedError(
            f"this model is an ensemble of shape {list(model.ensemble_shape)}; "
            "a probe looks at one model, so pass one member"
        )
    return config


def need_classifier(model: Any, probe: str) -> ClassifierConfig:
    """For the probes that ask about labels, which only our classifier has."""
    config = classifier_config(model)
    if config is None:
        raise UnsupportedError(
            f"the {probe} probe asks about a task's labels, so it needs a tsc-interp classifier, "
            f"not a {type(model).__name__}"
        )
    need_one_logit(config, probe)
    return config


def need_one_logit(config: ClassifierConfig, probe: str) -> None:
    """For the probes that ask for yes or no, the sign of one logit."""
    if config.n_outputs > 1:
        raise UnsupportedError(
            f"this model has {config.n_outputs} outputs, and the {probe} probe asks about the sign "
            "of one; imported with classes=(no, yes), two of them are one"
        )


def readout_direction(model: Any, direction: ArrayLike | Tensor | None) -> Floats | None:
    """A vector in residual space: the one given, or our classifier's own, or none."""
    if direction is None:
        config = classifier_config(model)
        alone = config is not None and config.n_outputs == 1
        return as_array(model.W_U)[:, 0] if alone else None
    try:
        asked = getattr(direction, "is_complex", None)
        if np.iscomplexobj(direction) if asked is None else asked():
            raise TypeError
        vector = as_array(direction)
    except (TypeError, ValueError):
        raise UsageError(
            f"the read-out direction is a vector of {model.cfg.d_model} numbers (d_model), not "
            f"{shorten(direction)}"
        ) from None
    if vector.shape != (model.cfg.d_model,):
        raise UsageError(
            f"the read-out direction must have shape [{model.cfg.d_model}] (d_model); "
            f"got {list(vector.shape)}"
        )
    if not np.isfinite(vector).all():
        raise UsageError("the read-out direction has entries that are not finite numbers")
    return vector


def chosen_layers(model: Any, layer: int | None) -> list[int]:
    count = model.cfg.n_layers
    if layer is None:
        return list(range(count))
    if not isinstance(layer, int) or not -count <= layer < count:
        raise UsageError(f"layer {layer} does not exist; the model has layers 0 to {count - 1}")
    return [layer % count]


def as_array(tensor: Any) -> Floats:
    if hasattr(tensor, "detach"):
        if tensor.device.type == "meta":
            raise UnsupportedError("this model is on the meta device, where tensors hold nothing")
        tensor = tensor.detach().cpu().double().numpy()  # numpy knows no bfloat16
    return np.asarray(tensor, dtype=np.float64)


def weight(model: Any, layer: int, part: str, name: str) -> Floats | None:
    """A layer's own weight, `weight(model, 0, "attn", "W_O")`; None where it has none."""
    module = getattr(model.blocks[layer], part, None)
    value = getattr(module, name, None)
    return None if value is None else as_array(value)
