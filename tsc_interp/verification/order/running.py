"""The search over all parts within a time: by turns, on several cores, and resumable.

A part is one length or one step; its groups (one or several labels, see parts.py) are searched one
by one. Every group gets its turn, so that a hard one does not cost the others their time. Where
several are left after some seconds, other processes take turns at them too: groups are passed
through files (saved.py), so that a search that was killed goes on from the same files.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, sleep
from typing import Any

from tsc_interp.checkpoints.checkpoint import Checkpoint
from tsc_interp.files import write_atomically
from tsc_interp.processes import cores
from tsc_interp.tasks.regions import Regions
from tsc_interp.tasks.transducer import Writing
from tsc_interp.tasks.unrolling import trellis_of
from tsc_interp.verification.order.bounds import Bounds
from tsc_interp.verification.order.exact import OrderedExact
from tsc_interp.verification.order.found import Found, unsearched
from tsc_interp.verification.order.keys import keys_of
from tsc_interp.verification.order.partition import Partition
from tsc_interp.verification.order.parts import Part, groups_of
from tsc_interp.verification.order.saved import found_in, restore, save, share_left
from tsc_interp.verification.order.terms import LinearBounds, Terms, has_terms

ALONE = 10.0
"""Seconds before other processes are started: that takes two of them."""
_SLICE = 1.0
"""Seconds between two states on disk, at least; and ten times what writing one takes."""
_FORMAT = "tsc-interp/order-search/1"
Progress = Callable[[float], None]


@dataclass
class Search:
    """One part: its trellises, and what has been found in each."""

    exact: OrderedExact
    task: Any
    length: int
    step: int | None
    weights: str
    """The model's hash."""
    found: dict[int, Found] = field(default_factory=dict)
    open: dict[int, Partition] = field(default_factory=dict)
    seconds: float = 0.0

    @cached_property
    def trellis(self) -> Any:
        if isinstance(self.task, Writing):
            assert self.step is not None
            return self.task.step_trellis(self.step)
        return trellis_of(self.task, self.exact.config.n_letters, self.length)

    @cached_property
    def groups(self) -> list[Any]:
        # A sweep costs so little where margins are sums of terms that the number of sweeps counts.
        return groups_of(self.trellis, stack=self.terms is not None)

    @cached_property
    def counts(self) -> list[int]:
        """The number of inputs of each group."""
        return [sum(Regions.whole(group).counts()) for group in self.groups]

    @cached_property
    def keys(self) -> Any:
        return keys_of(self.exact, self.trellis)

    @cached_property
    def terms(self) -> Terms | None:
        config = self.exact.config
        return Terms(config, self.keys) if has_terms(config, self.keys) else None

    def opened(self, group: int, deadline: float) -> Partition:
        """The search of one group, begun where it is not."""
        if group not in self.open:
            trellis, config = self.groups[group], self.exact.config
            terms = self.terms
            bounds = LinearBounds(terms, trellis) if terms else Bounds(config, trellis, self.keys)
            self.open[group] = Partition(self.exact, bounds, deadline)
        return self.open[group]

    def part(self) -> Part:
        """What became of every input; what was not decided is undecided."""
        found = [
            one
            for number, group in enumerate(self.groups)
            for one in (self.found.get(number) or unsearched(group)).by_label()
        ]
        return Part(self.length, self.step, sum(self.counts), found, self.seconds)


Unit = tuple[Search, int]


def searches_of(
    checkpoint: Checkpoint, task: Any, asked: Sequence[tuple[int, int | None]]
) -> list[Search]:
    """A search for each (length, step)."""
    exact, weights = OrderedExact(checkpoint), checkpoint.weight_hash()
    return [Search(exact, task, length, step, weights) for length, step in asked]


def run(
    checkpoint: Checkpoint,
    searches: Sequence[Search],
    deadline: float,
    progress: Progress | None = None,
    folder: Path | None = None,
) -> list[Part]:
    """Every part, as far as the time goes; on several cores where it takes longer.

    Args:
        checkpoint: The model that the searches are about.
        searches: One for each part.
        deadline: When to end, by `monotonic`.
        progress: Called with the share of inputs that are decided, on average over parts.
        folder: Where searches are kept, to go on from there next time.
    """
    units = [(one, group) for one in searches for group in range(len(one.groups))]
    told = _Told(units, progress)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    alone = min(deadline, monotonic() + ALONE)
    while (waiting := _waiting(units)) and (monotonic() < alone or not _can_share(searches, units)):
        for unit in waiting:
            if monotonic() > deadline:
                break
            ends = alone if _can_share(searches, units) else deadline
            _turn(unit, folder, deadline, _until(ends, waiting))
            told.now()
        if monotonic() > deadline:
            break
    if _waiting(units) and monotonic() < deadline:
        with _kept(folder) as shared:
            _shared(checkpoint, searches, units, shared, deadline, told)
    for search, group in _waiting(units):
        if group in search.open:
            search.found[group] = search.open.pop(group).ended()
        elif folder is not None:
            search.found[group] = found_in(folder / name_of(search, group), search.groups[group])
    return [one.part() for one in searches]


def _waiting(units: Sequence[Unit]) -> list[Unit]:
    return [(one, group) for one, group in units if group not in one.found]


def _can_share(searches: Sequence[Search], units: Sequence[Unit]) -> bool:
    """Whether another process could help: a core, two groups, and a task that it can import."""
    own = type(searches[0].task).__module__.split(".")[0] == __name__.split(".")[0]
    return own and cores() > 1 and len(_waiting(units)) > 1


def _until(deadline: float, waiting: Sequence[Unit]) -> float:
    """The end of a turn: half of the time is shared out at once."""
    now = monotonic()
    return now + max(0.0, deadline - now) / (2 * len(waiting))


def _turn(unit: Unit, folder: Path | None, deadline: float, until: float) -> None:
    """Search on in one group until then, and keep what was found."""
    search, group = unit
    begun = monotonic()
    new = group not in search.open
    opened = search.opened(group, deadline)
    path = None if folder is None else folder / name_of(search, group)
    if new and path is not None:
        restore(path, opened)
    slice_ = _SLICE
    while not (done := opened.advance(until if path is None else min(until, monotonic() + slice_))):
        if path is not None:
            start = monotonic()
            save(path, opened)
            slice_ = max(_SLICE, 10 * (monotonic() - start))
        if monotonic() > min(until, deadline):
            break
    if done:
        if path is not None:
            save(path, opened)
        search.found[group] = search.open.pop(group).ended()
    search.seconds += monotonic() - begun


def name_of(search: Search, group: int) -> str:
    """The file of a group's search: by the model, the task, and which inputs."""
    trellis = search.groups[group]
    said = [
        _FORMAT, search.weights, search.task.model_dump(mode="json"), search.length, search.step,
        trellis.labels, trellis.n_edges,
    ]  # fmt: skip
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:32] + ".npz"


@contextmanager
def _kept(folder: Path | None) -> Iterator[Path]:
    if folder is not None:
        yield folder
        return
    with TemporaryDirectory(prefix="tsc-interp-") as made:
        yield Path(made)


# -- several processes -------------------------------------------------------------------------


def _shared(
    checkpoint: Checkpoint,
    searches: Sequence[Search],
    units: Sequence[Unit],
    folder: Path,
    deadline: float,
    told: _Told,
) -> None:
    """This process from the front, others from the back; a claim is a file."""
    waiting = _waiting(units)
    for search, group in waiting:
        path = folder / name_of(search, group)
        path.with_suffix(".claim").unlink(missing_ok=True)
        if group in search.open:
            save(path, search.open.pop(group))
    model = folder / f"{checkpoint.weight_hash()[:16]}-{os.getpid()}.safetensors"
    write_atomically(model, checkpoint.to_bytes(), durable=False)
    first = searches[0]
    asked = sorted({(one.length, one.step) for one, _ in waiting})
    task = first.task.model_dump(mode="json")
    seconds = deadline - monotonic()
    order = json.dumps([str(model), str(folder), task, asked, seconds, os.getpid()])
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    # Not multiprocessing: that runs a script without a guard a second time.
    code = f"import sys; sys.path[:] = {sys.path!r}; from {__name__} import helper; helper()"
    command = [sys.executable, "-c", code, order]
    helpers = [
        subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL)
        for _ in range(min(cores(), len(waiting)) - 1)
    ]

    def look() -> bool:
        told.now(folder)
        if all(one.poll() is not None for one in helpers):  # one that was killed leaves its claim
            for search, group in waiting:
                (folder / name_of(search, group)).with_suffix(".claim").unlink(missing_ok=True)
        return True

    try:
        _together(waiting, folder, deadline, look)
    finally:
        for one in helpers:
            one.terminate()
            one.wait()
        with suppress(OSError):
            model.unlink()
    for search, group in _waiting(units):
        search.found[group] = found_in(folder / name_of(search, group), search.groups[group])


def _together(
    units: Sequence[Unit], folder: Path, deadline: float, look: Callable[[], bool]
) -> None:
    """Turns at groups that nobody else has, until all are decided or the time is over.

    `look` is called between turns; where it says no, this ends.
    """
    while monotonic() < deadline and look():
        waiting, idle = _unfinished(units, folder), True
        if not waiting:
            return
        for search, group in waiting:
            path = folder / name_of(search, group)
            claim = path.with_suffix(".claim")
            if monotonic() > deadline or not look() or not _claimed(claim):
                continue
            try:
                search.open.pop(group, None)  # another may have gone on with it
                _turn((search, group), folder, deadline, _until(deadline, waiting))
                idle = False
            finally:
                claim.unlink(missing_ok=True)
        if idle:
            sleep(0.05)


def _unfinished(units: Sequence[Unit], folder: Path) -> list[Unit]:
    return [(one, group) for one, group in _waiting(units)
            if share_left(folder / name_of(one, group)) > 0]  # fmt: skip


def _claimed(path: Path) -> bool:
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    except FileExistsError:
        return False
    return True


def helper() -> None:
    """Another process: the same groups from the back, until its parent ends."""
    from tsc_interp.checkpoints import load_checkpoint
    from tsc_interp.task import read_task

    model, folder, task, asked, seconds, parent = json.loads(sys.argv[1])
    deadline, checkpoint, chosen = monotonic() + seconds, load_checkpoint(model), read_task(task)
    searches = searches_of(checkpoint, chosen, [tuple(one) for one in asked])
    units = [(one, group) for one in searches for group in range(len(one.groups))]
    _together(units[::-1], Path(folder), deadline, lambda: os.getppid() == parent)


class _Told:
    """Progress: the share of inputs decided, on average over parts, now and then."""

    def __init__(self, units: Sequence[Unit], progress: Progress | None) -> None:
        self.units, self.progress, self.last = units, progress, -1.0

    def now(self, folder: Path | None = None) -> None:
        if self.progress is None or (monotonic() - self.last < 0.5 and _waiting(self.units)):
            return
        self.last = monotonic()
        left = 0.0
        for search, group in _waiting(self.units):
            if group in search.open:
                share = search.open[group].left()
            else:
                share = 1.0 if folder is None else share_left(folder / name_of(search, group))
            left += share * search.counts[group] / sum(search.counts)
        self.progress(1 - left / len({id(search) for search, _ in self.units}))
