"""`python -m studies depth FOLDER`: boxes of inputs of models with two and three layers.

FOLDER holds your copies of the public models (it may hold none). `--auto-lirpa FOLDER` is the
source of auto_LiRPA. For each model and number of free places, boxes of all inputs that differ
from a random one at these places: how many a single bound decides, by our bounds and by
auto_LiRPA's, beside running every input. Then whole frames, by boxes with cuts and by enumeration,
each limited by `--seconds`. CPU seconds; the result is `studies/results/depth.json`.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from studies.depth.bounds.margins import Bounder
from studies.depth.boxes import as_boxes, decide_by_boxes
from studies.depth.models import Subject, subjects
from studies.tables import RESULTS, Row
from tsc_interp.falsification.enumerating import MOST, enumerate_all
from tsc_interp.falsification.question import Question, in_batches

FREE = {"sums, 2 layers": (1, 2, 4), "sums, 3 layers": (1, 2), "palindromes": (1, 2),
        "brackets": (1,)}  # fmt: skip
WHOLE = {"sums, 2 layers": (5,), "sums, 3 layers": (5,), "palindromes": (2,), "brackets": (10,)}


def main(arguments: Sequence[str]) -> None:
    """Ask, print a line for each row, and store them."""
    parser = argparse.ArgumentParser(prog="python -m studies depth", description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--auto-lirpa", type=Path, help="a folder that holds auto_LiRPA's source")
    parser.add_argument("--only", help="the name of one model")
    parser.add_argument("--seconds", type=float, default=60, help="for each whole frame")
    parser.add_argument("--boxes", type=int, default=6, help="of each kind")
    parser.add_argument("--store", type=Path, default=RESULTS / "depth.json")
    asked = parser.parse_args(arguments)
    torch.set_num_threads(1)
    if asked.auto_lirpa is not None:
        sys.path.insert(0, str(asked.auto_lirpa))
    rows: list[Row] = []
    if asked.store.exists():
        rows = json.loads(asked.store.read_text(encoding="utf-8"))["rows"]
    for subject in subjects(asked.folder, asked.only):
        rows = [row for row in rows if row["model"] != subject.name]
        for row in _asked(subject, asked):
            print(json.dumps(row), flush=True)
            rows.append(row)
            asked.store.write_text(json.dumps({"rows": rows}, indent=1) + "\n", encoding="utf-8")


def _asked(subject: Subject, asked: Any) -> Any:
    for free in FREE[subject.name]:
        yield from _boxes(subject, free, asked.boxes, asked.auto_lirpa is not None)
    for free in WHOLE[subject.name]:
        yield from _frame(subject, free, asked.seconds)


def _boxes(subject: Subject, free: int, count: int, other: bool) -> list[Row]:
    """Single bounds over boxes whose label is the same for all inputs."""
    rng = np.random.default_rng(free)
    drawn: list[Any] = []
    while len(drawn) < count:
        word = subject.draw(rng)
        places = rng.permutation(len(word))[:free].tolist()
        frame = subject.frame(word, places)
        sample = frame.rows(frame.sample(2_000, rng, len(word)))
        labels = subject.label(sample)
        if (labels == labels[0]).all() and _sure(subject, word, places):
            drawn.append((frame, int(labels[0])))
    known = {"model": subject.name, "kind": "box", "free": free, "of": count,
             "inputs": int(drawn[0][0].count())}  # fmt: skip
    known["alike"] = sum(_alike(subject, frame, label) for frame, label in drawn)
    bounder = Bounder(subject.network)

    def ours(frame: Any, label: int) -> bool:
        boxes = as_boxes(frame, [frame.letters])
        found = bounder(boxes, frame.reads(len(frame.letters)), torch.tensor([[label]]))
        return bool((found.low > 0).all() or (found.high < 0).any())

    rows = [known | {"tool": "tsc-interp"} | _timed(ours, drawn)]
    if other:
        from studies.depth import lirpa

        for method in lirpa.METHODS:

            def theirs(frame: Any, label: int, method: str = method) -> bool:
                boxes = as_boxes(frame, [frame.letters])
                read = frame.reads(len(frame.letters))[0]
                return any(lirpa.signs(subject.network, boxes, read, label, method))

            rows.append(known | {"tool": "auto_LiRPA", "method": method} | _timed(theirs, drawn))
    return rows


def _alike(subject: Subject, frame: Any, label: int) -> bool:
    """Whether the model answers every input of a box alike: more a bound cannot show."""
    question = Question(in_batches(subject.network), 2, frame, subject.label)
    (n,) = frame.lengths
    answers = [question.ask(frame.listed(n, i, min(i + 8192, frame.count()))).wrong
               for i in range(0, frame.count(), 8192)]  # fmt: skip
    return len(np.unique(np.concatenate(answers))) == 1


def _sure(subject: Subject, word: Any, places: list[int]) -> bool:
    """A box has one label for certain: at its extreme inputs, or by a place that is not free."""
    if subject.name.startswith("sums"):
        ends = np.array([[end if i in places else one for i, one in enumerate(word)]
                         for end in (min(subject.letters), max(subject.letters))])  # fmt: skip
        labels = subject.label(np.hstack([np.zeros((2, 1), np.int64), ends]))
        return bool(labels[0] == labels[1])
    if subject.name == "palindromes":
        return any(word[i] != word[19 - i] for i in range(10) if not {i, 19 - i} & {*places})
    return len(places) < 14 and (word[0] == 4 and 0 not in places)


def _timed(ask: Callable[[Any, int], bool], drawn: list[Any]) -> Row:
    started, decided, failed = time.process_time(), 0, ""
    for frame, label in drawn:
        try:
            decided += ask(frame, label)
        except Exception as error:  # what another tool cannot do is a result
            where = traceback.extract_tb(error.__traceback__)[-1]
            place = f"{Path(where.filename).name}:{where.lineno}"
            failed = f"{type(error).__name__} at {place}: {error}"[:200]
            break
    spent = (time.process_time() - started) / len(drawn)
    return {"decided": decided, "seconds": round(spent, 4)} | ({"failed": failed} if failed else {})


def _frame(subject: Subject, free: int, seconds: float) -> list[Row]:
    """A whole frame, right and wrong inputs and every label, by boxes and one by one."""
    rng = np.random.default_rng(100 + free)
    word = subject.draw(rng)
    frame = subject.frame(word, rng.permutation(len(word))[:free].tolist())
    rows: list[Row] = []
    for tool, decide in (("boxes", decide_by_boxes), ("enumeration", enumerate_all)):
        if tool == "enumeration" and frame.count() > MOST:
            continue
        question = Question(in_batches(subject.network), 2, frame, subject.label)
        started = time.process_time()
        until = time.monotonic() + seconds
        found: Any = decide(question, subject.network, until, lambda _: None)
        found = found if tool == "boxes" else found[0]
        boxes = (found.in_boxes, found.boxes) if tool == "boxes" else (0, 0)
        rows.append({
            "model": subject.name, "kind": "frame", "free": free, "inputs": int(frame.count()),
            "tool": tool, "decided": found.inputs - found.undecided, "wrong": found.wrong,
            "in_boxes": boxes[0], "boxes": boxes[1],
            "seconds": round(time.process_time() - started, 2),
        })  # fmt: skip
    return rows


if __name__ == "__main__":
    main(sys.argv[1:])
