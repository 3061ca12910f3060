"""One model and the trusted base, as tests of order ask it."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from tsc_interp.checkpoints import Checkpoint
from tsc_interp.tasks import trellis_of
from tsc_interp.tasks.transducer import Writing
from tsc_interp.tasks.trellis import Trellis
from tsc_interp.trusted.budget import Budget
from tsc_interp.trusted.judge import Judge
from tsc_interp.trusted.language import written_table
from tsc_interp.trusted.order import PathRegions
from tsc_interp.trusted.replay import Replay, replay, sealed
from tsc_interp.trusted.replay_tables import TableParts
from tsc_interp.trusted.sets import Sets
from tsc_interp.trusted.spec import read_model
from tsc_interp.trusted.trees import Leaf, mask_text


class Asked:
    """A model about its own task."""

    def __init__(self, checkpoint: Checkpoint, **limits: Any) -> None:
        self.checkpoint, self.model = checkpoint, read_model(checkpoint.to_bytes())
        self.budget = Budget(**limits)
        self.budget.restart()
        self.judge = Judge(self.model, self.budget)
        self.margins, self.forward = self.judge.margins, self.judge.forward
        self.spec, self.n_classes = self.model.spec, self.judge.n_classes

    def trellis(self, number: int) -> Trellis:
        """All inputs of a length, or of a step of a task that writes."""
        task: Any = self.checkpoint.config.task
        if isinstance(task, Writing):
            return task.step_trellis(number)
        return trellis_of(task, self.spec.n_letters, number)

    def regions(self, sets: Sets) -> PathRegions:
        """What its reader meets in these sets, each of which has one."""
        ((_, regions, _),) = self.judge.path_regions(sets)
        return regions

    def gaps(self, sets: Sets, winner: Any, float32: bool = False, used: Any = None) -> Any:
        """Lower bounds on the winner's output less each one's: `[set class]`."""
        ((_, regions, rounded),) = self.judge.path_regions(sets, float32)
        winner = np.broadcast_to(winner, len(sets))
        used = np.arange(self.n_classes) if used is None else np.array(used)
        with np.errstate(all="ignore"):
            return self.margins.gaps(regions, winner, used, rounded)

    def answered(self, sets: Sets, winner: int, float32: bool = False) -> Any:
        """In which sets a class is shown to be the answer."""
        wanted = np.tile(np.arange(self.n_classes) != winner, (len(sets), 1))
        return self.judge.on_paths(sets, np.full(len(sets), winner), wanted, float32)

    def holds(self, sets: Sets, by: int | None = None, float32: bool = False) -> bool:
        """Whether one set's label is shown to be right, or to be beaten by a class."""
        label = max(0, int(sets.labels()[0]))
        leaf = Leaf("is", (label,), float32) if by is None else Leaf("wrong", (by,), float32)
        return bool(self.parts(sets.trellis).shown(sets, [leaf])[0])

    def parts(self, trellis: Trellis, float32: str | None = "tokens") -> TableParts:
        """Parts about one table."""
        name = {"step" if isinstance(self.checkpoint.config.task, Writing) else "length": 0}
        name = {"length": trellis.length} if "length" in name else {"step": 1}
        return TableParts([self.judge], [(trellis, name)], float32, self.budget)

    def tree(self, sets: Sets, each: int = 4) -> list[Any]:
        """A tree for these paths: decided if that is shown, else cut in halves."""
        label = int(sets.labels()[0])
        if label >= 0:
            if self.holds(sets):
                return [["is", label]]
            for by in range(self.n_classes):
                if self.holds(sets, by):
                    return [["wrong", by]]
        if sets.counts()[0] <= each:
            return [["each"]]
        stage = max(range(len(sets.masks)), key=lambda i: int(sets.masks[i].sum()))
        edges = np.flatnonzero(sets.masks[stage][0])
        chosen = np.zeros(sets.masks[stage].shape[1], dtype=bool)
        chosen[edges[: len(edges) // 2]] = True
        inside, outside = parted(sets, stage, chosen), parted(sets, stage, ~chosen)
        if not (inside.has_paths[0] and outside.has_paths[0]):
            return [["open"]]
        return [["cut", stage, mask_text(chosen)], *self.tree(inside), *self.tree(outside)]

    def language(self, numbers: list[int]) -> dict[str, Any]:
        kind = "step" if isinstance(self.checkpoint.config.task, Writing) else "length"
        tables = [written_table(self.trellis(number), {kind: number}) for number in numbers]
        return {"tables": tables}

    def document(self, numbers: list[int], float32: str | None = None) -> dict[str, Any]:
        """A proof about lengths, or steps, made by halving."""
        parts = []
        for at, number in enumerate(numbers):
            table = self.trellis(number)
            for label in table.labels:
                tree = self.tree(Sets.whole(table.of_label(label)))
                parts.append({"table": at, "labels": [label], "tree": tree})
        return self.sealed(self.language(numbers), parts, float32)

    def derive(self, number: int, *parts: Any, float32: str | None = None) -> dict[str, Any]:
        """What follows from parts about one table."""
        said = Replay([self.model], self.language([number]), float32).run(list(parts))
        stated: dict[str, Any] = said["tables"][0]
        return stated

    def sealed(self, language: Any, parts: Any, float32: str | None = None) -> dict[str, Any]:
        """A document of what follows from parts."""
        conclusion = Replay([self.model], language, float32).run(parts)
        return sealed([self.model], language, float32, parts, conclusion)

    def check(self, document: Any, **limits: Any) -> dict[str, Any]:
        """What a document proves of the model."""
        return replay(document, [self.model], **limits)


def parted(sets: Sets, stage: int, chosen: Any) -> Sets:
    """The paths of one set through the chosen edges of a stage."""
    masks = list(sets.masks)
    masks[stage] = masks[stage] & chosen
    return Sets(sets.trellis, masks)


def part_of(sets: Sets, draw: random.Random) -> Sets | None:
    """Some of the paths, all with one label and one last letter."""
    trellis = sets.trellis
    masks = [mask & (np.array([[draw.random() for _ in mask[0]]]) < 0.7) for mask in sets.masks]
    found = Sets(trellis, masks)
    if not found.has_paths[0]:
        return None
    labels = np.unique(trellis.label[found.masks[trellis.label_stage][0]])
    found = parted(found, trellis.label_stage, trellis.label == draw.choice(labels.tolist()))
    if trellis.length - 1 in trellis.place_of:
        stage, column = trellis.place_of[trellis.length - 1]
        letters = trellis.stages[stage].letters[:, column]
        last = draw.choice(np.unique(letters[found.masks[stage][0]]).tolist())
        found = parted(found, stage, letters == last)
    return found
