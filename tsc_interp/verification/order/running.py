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
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, sleep
from typing import Any

from tsc_interp.checkpoints.checkpoint import Checkpoint
from tsc_interp.errors import UnsupportedError
from tsc_interp.files import write_atomically
from tsc_interp.processes import cores
from tsc_interp.tasks.audit import inputs_of
from tsc_interp.tasks.base import is_shipped
from tsc_interp.tasks.regions import Regions
from tsc_interp.tasks.trellis import Trellis
from tsc_interp.trusted.budget import Budget
from tsc_interp.trusted.errors import NotProved
from tsc_interp.trusted.judge import Judge
from tsc_interp.verification.documents import model_of
from tsc_interp.verification.order.found import Found
from tsc_interp.verification.order.partition import Partition
from tsc_interp.verification.order.parts import Part, groups_of
from tsc_interp.verification.order.saved import found_in, save, share_left

ALONE = 10.0
"""Seconds before other processes are started: that takes two of them."""
_SLICE = 1.0
"""Seconds between two states on disk, at least; and ten times what writing one takes."""
_FORMAT = "tsc-interp/order-search/4"
Progress = Callable[[float], None]


@dataclass
class Search:
    """The search over one part."""

    judge: Judge
    task: Any
    length: int
    step: int | None
    weights: str
    """The model's hash."""
    float32: bool = False

    @cached_property
    def trellis(self) -> Trellis:
        number = self.length if self.step is None else self.step
        return inputs_of(self.task, self.judge.spec.n_letters, number)

    @cached_property
    def groups(self) -> list[Group]:
        return [Group(self, trellis) for trellis in groups_of(self.trellis)]

    @cached_property
    def inputs(self) -> int:
        return sum(group.inputs for group in self.groups)

    def part(self) -> Part:
        """What became of every input; what was not decided is undecided."""
        groups = [
            part
            for group in self.groups
            for part in (group.found or Found(group.trellis)).by_label()
        ]
        return Part(self.length, self.step, self.inputs, groups)


@dataclass
class Group:
    """The search of one trellis of a part, on which one process works at a time."""

    search: Search
    trellis: Trellis
    partition: Partition | None = None
    """Where this process is working on it."""
    found: Found | None = None
    """What came of it, when it is over."""

    @cached_property
    def inputs(self) -> int:
        return sum(Regions.whole(self.trellis).counts())

    @cached_property
    def name(self) -> str:
        """The name of its file, from the model, the task and which inputs."""
        search, trellis = self.search, self.trellis
        facts = [
            _FORMAT, search.weights, search.task.model_dump(mode="json"), search.length,
            search.step, search.trellis.digest, trellis.labels, trellis.n_edges, search.float32,
        ]  # fmt: skip
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:32] + ".npz"

    def begun(self, folder: Path | None, deadline: float) -> Partition:
        """The search as it is here, or in a file of this folder, or new."""
        if self.partition is None:
            search = self.search
            self.partition = Partition(search.judge, self.trellis, deadline, search.float32)
            saved = None if folder is None else found_in(folder / self.name, self.trellis)
            if saved is not None:
                self.partition.go_on(saved)
        return self.partition

    def turn(self, folder: Path | None, deadline: float, until: float) -> None:
        """Search on until then, and keep what was found."""
        partition, slice_, done = self.begun(folder, deadline), _SLICE, False
        while not done:
            done = partition.advance(until if folder is None else min(until, monotonic() + slice_))
            if folder is not None:
                start = monotonic()
                save(folder / self.name, partition)
                slice_ = max(_SLICE, 10 * (monotonic() - start))
            if monotonic() > min(until, deadline):
                break
        if done:
            self.end(folder)

    def end(self, folder: Path | None) -> None:
        """Take what was found so far, by whichever process."""
        if self.partition is not None:
            self.found, self.partition = self.partition.found, None
        elif folder is not None:
            self.found = found_in(folder / self.name, self.trellis)
        self.found = self.found or Found(self.trellis)
        self.found.settle()

    def left(self, folder: Path | None) -> float:
        """About the share of inputs that are not decided."""
        if self.found is not None:
            return 0.0
        if self.partition is not None:
            return self.partition.left()
        return 1.0 if folder is None else share_left(folder / self.name)

    def claim(self, folder: Path) -> Path:
        """The file that exists while a process works on this group."""
        return (folder / self.name).with_suffix(".claim")


def judge_of(checkpoint: Checkpoint) -> Judge:
    """The trusted base about one model of one layer.

    Raises:
        UnsupportedError: where it does not know this kind of model.
    """
    if checkpoint.config.n_layers != 1:
        raise UnsupportedError(
            "strings in their order are verified for one layer; this model has "
            f"{checkpoint.config.n_layers}. tsc.falsify searches models of any depth for wrong "
            "inputs, and decides every input of a small frame with exhaustive=True "
            "(tsc-interp falsify --every)"
        )
    if checkpoint.config.beyond_verification:
        raise UnsupportedError(
            f"this model has {', '.join(checkpoint.config.beyond_verification)}: there are no "
            "bounds for that"
        )
    budget = Budget(float("inf"))
    budget.restart()
    try:
        return Judge(model_of(checkpoint), budget)
    except NotProved as error:
        raise UnsupportedError(str(error).removeprefix("rejected: ")) from None


def searches_of(
    checkpoint: Checkpoint, task: Any, asked: Sequence[tuple[int, int | None]],
    float32: bool = False,
) -> list[Search]:  # fmt: skip
    """A search for each (length, step)."""
    judge, weights = judge_of(checkpoint), checkpoint.weight_hash()
    return [Search(judge, task, length, step, weights, float32) for length, step in asked]


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
    groups = [group for search in searches for group in search.groups]
    report = _Report(searches, progress)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    alone = min(deadline, monotonic() + ALONE)
    _turns(groups, folder, deadline, alone, partial(report.now, folder))
    if _can_share(groups) and monotonic() < deadline:
        kept = TemporaryDirectory(prefix="tsc-interp-") if folder is None else nullcontext(folder)
        with kept as shared:
            _shared(checkpoint, groups, Path(shared), deadline, report)
    _turns(groups, folder, deadline, deadline, partial(report.now, folder))
    for group in _waiting(groups):
        group.end(folder)
    return [search.part() for search in searches]


def _waiting(groups: Sequence[Group]) -> list[Group]:
    return [group for group in groups if group.found is None]


def _can_share(groups: Sequence[Group]) -> bool:
    """Whether another process could help: a core, two groups, and a task that it can import."""
    task = groups[0].search.task
    importable = is_shipped(task) and is_shipped(getattr(task, "task", task))
    return importable and cores() > 1 and len(_waiting(groups)) > 1


def _turns(
    groups: Sequence[Group],
    folder: Path | None,
    deadline: float,
    until: float,
    look: Callable[[], bool],
    shared: bool = False,
) -> None:
    """Turns at all groups, or at those that nobody else has, until then or all are decided.

    `look` is called after each; where it says no, this ends.
    """
    while monotonic() < until:
        waiting = _waiting(groups)
        if shared:
            waiting = [group for group in waiting if group.left(folder) > 0]
        if not waiting:
            return
        idle = True
        for group in waiting:
            if monotonic() > until:
                return
            claim = _claimed(group.claim(folder)) if shared and folder else nullcontext(True)
            with claim as claimed:
                if claimed:
                    # Half of the time is shared out at once.
                    now = monotonic()
                    group.turn(folder, deadline, now + (until - now) / (2 * len(waiting)))
                    idle = False
            if shared:
                group.partition = None  # another may go on with it
            if not look():
                return
        if idle:
            sleep(0.05)


# -- several processes -------------------------------------------------------------------------


def _shared(
    checkpoint: Checkpoint,
    groups: Sequence[Group],
    folder: Path,
    deadline: float,
    report: _Report,
) -> None:
    """This process from the front, others from the back; a claim is a file."""
    waiting = _waiting(groups)
    for group in waiting:
        group.claim(folder).unlink(missing_ok=True)
        if group.partition is not None:
            save(folder / group.name, group.partition)
            group.partition = None
    model = folder / f"{checkpoint.weight_hash()[:16]}-{os.getpid()}.safetensors"
    write_atomically(model, checkpoint.to_bytes(), durable=False)
    parts = sorted({(group.search.length, group.search.step) for group in waiting})
    task = groups[0].search.task.model_dump(mode="json")
    seconds = deadline - monotonic()
    about = [str(model), str(folder), task, parts, groups[0].search.float32]
    arguments = json.dumps([*about, seconds, os.getpid()])
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    # Not multiprocessing: that runs a script without a guard a second time.
    code = f"import sys; sys.path[:] = {sys.path!r}; from {__name__} import helper; helper()"
    command = [sys.executable, "-c", code, arguments]
    helpers = [
        subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL)
        for _ in range(min(cores(), len(waiting)) - 1)
    ]

    def look() -> bool:
        if all(process.poll() is not None for process in helpers):
            for group in waiting:  # one that was killed leaves its claim
                group.claim(folder).unlink(missing_ok=True)
        return report.now(folder)

    try:
        _turns(waiting, folder, deadline, deadline, look, shared=True)
    finally:
        for process in helpers:
            process.terminate()
            process.wait()
        with suppress(OSError):
            model.unlink()
    for group in _waiting(waiting):
        group.end(folder)
    report.now(folder)


@contextmanager
def _claimed(path: Path) -> Iterator[bool]:
    """Claim a group by its file; False where another process has claimed it."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    except FileExistsError:
        yield False
        return
    try:
        yield True
    finally:
        path.unlink(missing_ok=True)


def helper() -> None:
    """Another process: the same groups from the back, until its parent ends."""
    from tsc_interp.checkpoints import load_checkpoint
    from tsc_interp.tasks.base import read_task

    model, folder, task, parts, float32, seconds, parent = json.loads(sys.argv[1])
    deadline, checkpoint, chosen = monotonic() + seconds, load_checkpoint(model), read_task(task)
    searches = searches_of(checkpoint, chosen, [tuple(part) for part in parts], float32)
    groups = [group for search in searches for group in search.groups]
    with_parent = lambda: os.getppid() == parent  # noqa: E731
    _turns(groups[::-1], Path(folder), deadline, deadline, with_parent, shared=True)


class _Report:
    """Progress: the share of inputs decided, on average over parts, now and then."""

    def __init__(self, searches: Sequence[Search], progress: Progress | None) -> None:
        self.searches, self.progress, self.last = searches, progress, -1.0

    def now(self, folder: Path | None) -> bool:
        """Report if it is time to; the folder is where other processes keep their groups."""
        groups = [group for search in self.searches for group in search.groups]
        if self.progress and (monotonic() - self.last >= 0.5 or not _waiting(groups)):
            self.last = monotonic()
            left = sum(group.left(folder) * group.inputs / group.search.inputs for group in groups)
            self.progress(1 - left / len(self.searches))
        return True
