"""A search of one trellis as arrays, so that it can go on later or in another process.

Arrays only: to read them runs no code. The tree of cuts says which regions are left.
"""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from tsc_interp.files import write_atomically
from tsc_interp.tasks.trellis import Trellis
from tsc_interp.verification.order.found import Found, Node
from tsc_interp.verification.order.partition import Partition

_LEAF = -1
Arrays = dict[str, NDArray[Any]]


def save(path: Path, search: Partition) -> None:
    """Write what a search has found, in place of what is there."""
    found = search.found
    no_rows = np.zeros((0, found.trellis.length), dtype=np.int16)
    no_classes = np.zeros(0, dtype=np.int64)
    arrays = _tree(found.nodes) | {
        "wrong_inputs": np.concatenate([no_rows, *(rows for rows, _ in found.wrong_inputs)]),
        "instead": np.concatenate([no_classes, *(classes for _, classes in found.wrong_inputs)]),
        "undecided_inputs": np.concatenate([no_rows, *found.undecided_inputs]),
        "examined": np.array([found.examined]),
        "known": np.array(sorted(found.known.items()), dtype=np.int64).reshape(-1, 2),
        "sure": np.array(sorted(found.sure), dtype=np.int64),
        "sure_inputs": found.sure_inputs,
        "left": np.array([search.left()]),
    }
    content = BytesIO()
    np.savez(content, allow_pickle=False, **arrays)
    write_atomically(path, content.getvalue(), durable=False)


def share_left(path: Path) -> float:
    """The share of inputs that a saved search has not decided; 1 where there is none."""
    arrays = _load(path, ("left",))
    return 1.0 if arrays is None else float(arrays["left"][0])


def found_in(path: Path, trellis: Trellis) -> Found | None:
    """What a saved search found."""
    arrays = _load(path)
    if arrays is None:
        return None
    wrong = [(arrays["wrong_inputs"], arrays["instead"])] if len(arrays["instead"]) else []
    undecided = [arrays["undecided_inputs"]] if len(arrays["undecided_inputs"]) else []
    return Found(
        trellis, _nodes(arrays), wrong, undecided, int(arrays["examined"][0]),
        dict(arrays["known"].tolist()), set(arrays["sure"].tolist()), arrays["sure_inputs"],
    )  # fmt: skip


def _load(path: Path, names: tuple[str, ...] | None = None) -> Arrays | None:
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            return {name: archive[name] for name in names or archive.files}
    except (FileNotFoundError, BadZipFile, ValueError, KeyError, EOFError):
        return None  # there is none, or none that can be read: the search begins again


def _tree(nodes: list[Node]) -> Arrays:
    """Nodes as arrays: of a cut its stage and child, of a leaf its outcome."""
    cuts = [node for node in nodes if isinstance(node, tuple)]
    return {
        "tree_stage": np.array([_LEAF if isinstance(node, int) else node[0] for node in nodes]),
        "tree_value": np.array([node if isinstance(node, int) else node[2] for node in nodes]),
        "tree_sizes": np.array([len(edges) for _, edges, _ in cuts], dtype=np.int64),
        "tree_edges": np.frombuffer(b"".join(edges for _, edges, _ in cuts), dtype=np.uint8),
    }


def _nodes(arrays: Arrays) -> list[Node]:
    edges, ends = arrays["tree_edges"].tobytes(), np.cumsum(arrays["tree_sizes"]).tolist()
    pieces = iter([edges[a:b] for a, b in zip([0, *ends], ends, strict=False)])
    return [
        value if stage == _LEAF else (stage, next(pieces), value)
        for stage, value in zip(
            arrays["tree_stage"].tolist(), arrays["tree_value"].tolist(), strict=True
        )
    ]
