"""A search of one trellis as arrays, so that it can go on later or in another process.

Arrays only: to read them runs no code. Masks are packed to bits.
"""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from tsc_interp.files import write_atomically
from tsc_interp.tasks.regions import Regions
from tsc_interp.tasks.trellis import Index, Trellis
from tsc_interp.verification.order.found import Batch, Found, Tree, unsearched
from tsc_interp.verification.order.partition import Partition

_LEAF, _OPEN = -1, -2
Arrays = dict[str, NDArray[Any]]


def save(path: Path, search: Partition) -> None:
    """Write what a search has found and what is waiting, in place of what is there."""
    found, waiting = search.found, search.waiting
    arrays = _tree(found.tree) | _regions("waiting", waiting.regions)
    for name in ("reader", "label", "node", "doubt"):
        arrays[name] = getattr(waiting, name)
    arrays |= {f"levels{head}": level for head, level in enumerate(waiting.levels)}
    for number, (regions, _) in enumerate(found.wrong):
        arrays |= _regions(f"wrong{number}.", regions)
    inputs = [rows for rows, _ in found.wrong_inputs]
    empty = np.zeros((0, found.trellis.length), dtype=np.int16)
    arrays["wrong_classes"] = _joined([one for _, one in found.wrong])
    arrays["wrong_inputs"] = np.concatenate([empty, *inputs])
    arrays["instead"] = _joined([one for _, one in found.wrong_inputs])
    arrays["undecided_inputs"] = np.concatenate([empty, *found.undecided_inputs])
    arrays["examined"] = np.array([found.examined])
    arrays["left"] = np.array([search.left()])
    content = BytesIO()
    np.savez(content, allow_pickle=False, **arrays)
    write_atomically(path, content.getvalue(), durable=False)


def share_left(path: Path) -> float:
    """The share of inputs that a saved search has not decided; 1 where there is none."""
    kept = _load(path, ("left",))
    return 1.0 if kept is None else float(kept["left"][0])


def restore(path: Path, search: Partition) -> None:
    """Let a new search go on where a saved one stopped; nothing where there is none."""
    kept = _load(path)
    if kept is None:
        return
    search.found, trellis = _found(kept, search.trellis), search.trellis
    levels = [kept[f"levels{head}"] for head in range(len(search.waiting.levels))]
    search.waiting = Batch(
        _unpacked("waiting", kept, trellis),
        kept["reader"],
        kept["label"],
        kept["node"],
        levels,
        kept["doubt"],
    )
    search.retry()


def found_in(path: Path, trellis: Trellis) -> Found:
    """What a saved search found; what was waiting is undecided."""
    kept = _load(path)
    if kept is None:
        return unsearched(trellis)
    found = _found(kept, trellis)
    found.give_up(_unpacked("waiting", kept, trellis), kept["node"])
    return found


def _found(kept: Arrays, trellis: Trellis) -> Found:
    wrong: list[tuple[Regions, Index]] = []
    start = 0
    while f"wrong{len(wrong)}.0" in kept:
        regions = _unpacked(f"wrong{len(wrong)}.", kept, trellis)
        wrong.append((regions, kept["wrong_classes"][start : start + len(regions)]))
        start += len(regions)
    inputs = [(kept["wrong_inputs"], kept["instead"])] if len(kept["instead"]) else []
    single = [kept["undecided_inputs"]] if len(kept["undecided_inputs"]) else []
    return Found(trellis, wrong, [], inputs, single, int(kept["examined"][0]), _read_tree(kept))


def _load(path: Path, names: tuple[str, ...] | None = None) -> Arrays | None:
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as kept:
            return {name: kept[name] for name in names or kept.files}
    except (FileNotFoundError, BadZipFile, ValueError, KeyError, EOFError):
        return None  # there is none, or none that can be read: the search begins again


def _joined(parts: list[Index]) -> Index:
    return np.concatenate([np.zeros(0, dtype=np.int64), *parts])


def _regions(name: str, regions: Regions) -> Arrays:
    packed = (np.packbits(mask, axis=1) for mask in regions.masks)
    return {f"{name}{stage}": mask for stage, mask in enumerate(packed)}


def _unpacked(name: str, kept: Mapping[str, NDArray[Any]], trellis: Trellis) -> Regions:
    masks = [
        np.unpackbits(kept[f"{name}{number}"], axis=1, count=len(stage)).astype(bool)
        for number, stage in enumerate(trellis.stages)
    ]
    return Regions(trellis, tuple(masks))


def _tree(tree: Tree) -> Arrays:
    cuts = [node for node in tree.nodes if isinstance(node, tuple)]
    stage = [n[0] if isinstance(n, tuple) else _OPEN if n is None else _LEAF for n in tree.nodes]
    value = [n[2] if isinstance(n, tuple) else n or 0 for n in tree.nodes]
    return {
        "tree_stage": np.array(stage),
        "tree_value": np.array(value),
        "tree_sizes": np.array([len(edges) for _, edges, _ in cuts], dtype=np.int64),
        "tree_edges": np.frombuffer(b"".join(edges for _, edges, _ in cuts), dtype=np.uint8),
    }


def _read_tree(kept: Arrays) -> Tree:
    edges, ends = kept["tree_edges"].tobytes(), np.cumsum(kept["tree_sizes"]).tolist()
    pieces = iter([edges[a:b] for a, b in zip([0, *ends], ends, strict=False)])
    nodes: list[Any] = []
    for stage, value in zip(kept["tree_stage"].tolist(), kept["tree_value"].tolist(), strict=True):
        cut = (stage, next(pieces), value) if stage >= 0 else None
        nodes.append(cut if stage >= 0 else value if stage == _LEAF else None)
    return Tree(nodes)
