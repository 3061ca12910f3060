"""Rows of token ids for a TransformerLens model: checked, masked, and where each row is read."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tsc_interp.errors import UnsupportedError, UsageError, shorten

if TYPE_CHECKING:
    from torch import Tensor

TokenNames = Sequence[str] | Mapping[int, str]
Query = int | Sequence[int]
_PADDING = re.compile(r"[<\[|]*pad(ding)?[>\]|]*", re.IGNORECASE)
SHORTEST_RUN = 2


@dataclass(frozen=True)
class Rows:
    tokens: NDArray[np.int64]
    """`[row position]`."""
    kept: NDArray[np.bool_]
    """`[row position]`: False where the attention mask says padding."""
    query: NDArray[np.int64]
    """`[row]`: the position that reads."""


def token_rows(
    model: Any, tokens: Any, query: Query | None, attention_mask: ArrayLike | Tensor | None
) -> Rows:
    """Whatever is wrong with an input is said here, before the model fails in its own words.

    Without `query` a row is read at its last position that is not masked.
    """
    ids = _ids(model, tokens)
    kept = _mask(attention_mask, ids.shape)
    at = queries(query, ids.shape, kept)
    masked = np.flatnonzero(~kept[np.arange(len(ids)), at])
    if len(masked):
        row = int(masked[0])
        raise UsageError(f"row {row} is read at position {at[row]}, which its mask leaves out")
    return Rows(ids, kept, at)


def unmasked_padding(model: Any, rows: Rows, names: TokenNames | None) -> int | None:
    """A token that looks like padding and is not masked: so called, or filling up the rows."""
    seen = set(rows.tokens[rows.kept].tolist())
    stated = getattr(getattr(model, "tokenizer", None), "pad_token_id", None)
    if stated is not None and stated in seen:
        return int(stated)
    for token in sorted(seen):
        if names is not None and _PADDING.fullmatch(name_of(names, token)):
            return int(token)
    return _filler(np.where(rows.kept, rows.tokens, -1))


def name_of(names: TokenNames | None, token: int) -> str:
    """What a token is called: its number where it has no name."""
    if names is None:
        return str(token)
    if isinstance(names, Mapping):
        if not all(isinstance(key, int) for key in names):
            raise UsageError(f"token_names maps token ids, whole numbers; got {shorten(names)}")
        return _said(names.get(token), token)
    if not hasattr(names, "__len__") or isinstance(names, type):
        raise UsageError(f"token_names is a list or a dictionary, got {shorten(names)}")
    if not 0 <= token < len(names):
        raise UsageError(
            f"token_names has {len(names)} names, but token {token} occurs; give a name for each "
            "token id, or a dictionary {token id: name}"
        )
    return _said(names[token], token)


def _said(name: object, token: int) -> str:
    return str(token) if name is None or not str(name) else str(name)


def _filler(tokens: NDArray[np.int64]) -> int | None:
    """The token that ends (or begins) rows in runs of different lengths, as only padding does."""
    for side in (tokens[:, ::-1], tokens):
        runs = [_run(row) for row in side]
        for token in {token for token, length in runs if length >= SHORTEST_RUN and token >= 0}:
            lengths = {length if first == token else 0 for first, length in runs}
            inside = any(
                token in row[length if first == token else 0 :]
                for row, (first, length) in zip(side, runs, strict=True)
            )
            if len(lengths) > 1 and not inside:
                return int(token)
    return None


def _run(row: NDArray[np.int64]) -> tuple[int, int]:
    """The first token and how often it stands there in a row."""
    other = np.flatnonzero(row != row[0])
    return int(row[0]), int(other[0]) if len(other) else len(row)


def _ids(model: Any, tokens: Any) -> NDArray[np.int64]:
    ids = _array(tokens, "the tokens are")
    if ids.ndim != 2 or not np.issubdtype(ids.dtype, np.integer) or 0 in ids.shape:
        raise UsageError(
            "a TransformerLens model is probed on token ids, a whole-number tensor [batch pos]; "
            f"got {shorten(tokens) if ids.ndim != 2 else f'{ids.dtype} {list(ids.shape)}'}"
        )
    size, longest = (getattr(model.cfg, name, None) for name in ("d_vocab", "n_ctx"))
    if int(ids.min()) < 0 or (size and int(ids.max()) >= size):
        raise UsageError(
            f"token ids must lie in 0..{(size or 1) - 1} (d_vocab = {size}); "
            f"got {int(ids.min())}..{int(ids.max())}"
        )
    if longest and ids.shape[1] > longest:
        raise UsageError(
            f"rows of {ids.shape[1]} tokens, but the model reads at most {longest} (n_ctx)"
        )
    return ids.astype(np.int64)


def _array(given: Any, subject: str) -> NDArray[Any]:
    """Whatever was given as an array; empty where it is none, so that its shape is refused."""
    if getattr(getattr(given, "device", None), "type", None) == "meta":
        raise UsageError(f"{subject} on the meta device, where tensors have no numbers")
    try:
        return np.asarray(given.detach().cpu() if hasattr(given, "detach") else given)
    except (TypeError, ValueError):
        return np.empty(0)


def _mask(mask: Any, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    if mask is None:
        return np.ones(shape, dtype=bool)
    kept = _array(mask, "attention_mask is")
    if kept.shape != shape or not np.isin(kept, (0, 1)).all():
        raise UsageError(
            f"attention_mask must be shaped {list(shape)} like the tokens, 1 for tokens and 0 for "
            f"padding; got {list(kept.shape)}"
        )
    if not kept.any(axis=1).all():
        raise UsageError(f"row {int(np.argmin(kept.any(axis=1)))} is masked altogether")
    return kept.astype(bool)


def queries(query: Any, shape: tuple[int, ...], kept: NDArray[np.bool_]) -> NDArray[np.int64]:
    rows, width = shape
    if query is None:
        return np.asarray(width - 1 - kept[:, ::-1].argmax(axis=1), dtype=np.int64)
    at = _array(query, "query is")
    if at.shape not in ((), (rows,)) or not np.issubdtype(at.dtype, np.integer):
        raise UsageError(
            f"query is one position, or one for each of the {rows} rows; got {shorten(query)}"
        )
    at = np.broadcast_to(at, (rows,))
    for position in at.tolist():
        if not -width <= position < width:
            raise UsageError(
                f"query position {position} is outside the {width} positions of the input"
            )
    return np.asarray(at % width, dtype=np.int64)


def need_method(model: Any, name: str) -> None:
    """Refuse a model that cannot be run as TransformerLens's are: `run_with_cache`, ..."""
    if not hasattr(model, name):
        raise UnsupportedError(
            f"a model with TransformerLens's {name} is needed, not {type(model).__name__}"
        )


def device_of(model: Any) -> Any:
    """Where the model is: its tokens have to be there too."""
    parameters = model.parameters() if hasattr(model, "parameters") else iter(())
    return next((parameter.device for parameter in parameters), "cpu")


def answers_of(answer: int | Sequence[int] | None, own_answers: NDArray[Any], outputs: int) -> Any:
    """`[row]`: the output that is asked about, by default the model's own answer."""
    if answer is None:
        return own_answers
    chosen = _array(answer, "answer is")
    fits = chosen.shape in ((), own_answers.shape) and np.issubdtype(chosen.dtype, np.integer)
    if not fits or chosen.min() < 0 or chosen.max() >= outputs:
        raise UsageError(
            f"answer is one of the {outputs} outputs, 0 to {outputs - 1}, for all rows or one for "
            f"each of the {len(own_answers)}; got {answer!r}"
        )
    return np.broadcast_to(chosen, own_answers.shape)
