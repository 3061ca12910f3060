"""Tasks by name: one's own, and reading any of them from a configuration or a checkpoint.

A task of one's own is a subclass of `OwnTask`:

    class EvenLength(tsc.tasks.OwnTask):
        kind: Literal["even_length"] = "even_length"

        def labels(self, counts):
            return counts.sum(-1) % 2 == 0

    class EndsLikeItBegins(tsc.tasks.OwnTask):
        kind: Literal["ends_like_it_begins"] = "ends_like_it_begins"
        ordered: ClassVar[bool] = True

        def labels(self, letters):
            last = (letters >= 0).sum(1) - 1
            return letters[:, 0] == letters[np.arange(len(letters)), last]

Configurations and checkpoints name it by its `kind`. The class must have been imported where they
are read, or be an entry point of the group `tsc_interp.tasks` in an installed package.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import PlainValidator

from tsc_interp.errors import UsageError, shorten, suggest
from tsc_interp.rules import (
    AtLeast,
    Before,
    ContainsAll,
    Majority,
    Maximum,
    MostFrequent,
    Parity,
    Rule,
)


class OwnTask(Rule):
    """The base class of your own tasks; a subclass must define `labels`.

    If there are more than two classes, define `n_classes`, too. If the task is about the order of
    letters, set `ordered: ClassVar[bool] = True`. If all strings over a set of letters share a
    label, `label_of_support` can return it, which makes proofs about every length possible. A
    configuration compares it with `labels` on short strings (`task_check.py`) and raises an error
    if they differ; for longer strings it is trusted.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        _OWN.append(cls)

    def describe(self) -> str:
        return str(getattr(self, "kind", type(self).__name__)).replace("_", " ")


SHIPPED: tuple[type[Any], ...] = (
    ContainsAll,
    AtLeast,
    Majority,
    Parity,
    MostFrequent,
    Maximum,
    Before,
)
_OWN: list[type[OwnTask]] = []

# Rules on order that are more than a few lines: loaded from tsc_interp/tasks when first named.
_IN_TASKS = {
    "automaton": ("automaton", "Automaton"),
    "regex": ("regex", "Regex"),
    "sum_sign": ("order", "SumSign"),
    "brackets": ("order", "Brackets"),
    "ends_with": ("order", "EndsWith"),
    "palindrome": ("order", "Palindrome"),
    "transducer": ("transducer", "Transducer"),
    "addition": ("writing", "Addition"),
    "copy": ("writing", "Copy"),
    "framed": ("framed", "Framed"),
    "framed_writing": ("framed", "FramedWriting"),
}


def kind_of(task: type[Any]) -> str:
    """What JSON calls it."""
    field = task.model_fields.get("kind")
    return str(field.default) if field is not None else ""


def task_of_kind(kind: str) -> type[Any] | None:
    """The class behind a name: shipped, imported, or an entry point; the youngest of a name."""
    known: dict[str, type[Any]] = {kind_of(task): task for task in (*_OWN, *SHIPPED)}
    if kind in _IN_TASKS:
        known[kind] = _loaded(kind)
    if kind not in known:
        for entry in entry_points(group="tsc_interp.tasks", name=kind):
            known[kind] = entry.load()
    return known.get(kind)


def _loaded(kind: str) -> type[Any]:
    module, name = _IN_TASKS[kind]
    task: type[Any] = getattr(import_module(f"tsc_interp.tasks.{module}"), name)
    return task


def _known_kinds(wanted: object) -> str:
    """What somebody may have meant: the nearest name, or else those that come with the package."""
    shipped = [*map(kind_of, SHIPPED), *_IN_TASKS]
    near = suggest(str(wanted)[:99], {*shipped, *map(kind_of, _OWN)}).rstrip()
    return f": {near}" if near else f"; tsc-interp has {', '.join(shipped)}."


def given_task(given: object) -> Any:
    """A task given to a function: `read_task`, whose complaint is a `UsageError`."""
    try:
        return read_task(given)
    except ValueError as error:
        raise UsageError(str(error)) from None


def read_task(given: object) -> Any:
    """A task from its JSON, from the name of its kind, or as it is."""
    if isinstance(given, str):
        given = {"kind": given.replace("-", "_")}
    if isinstance(given, Mapping):
        kind, inside = given.get("kind"), given.get("task")
        if isinstance(inside, Mapping) and "task" in inside:
            raise ValueError("a task has one frame, and the task in this one's frame has another")
        task = task_of_kind(kind) if isinstance(kind, str) else None
        if task is None:
            raise ValueError(
                f"there is no task of kind {shorten(kind)}{_known_kinds(kind)} A task of your own "
                "must be imported first, or be an entry point of tsc_interp.tasks"
            )
        given = task(**{str(name): value for name, value in given.items()})
    if not isinstance(given, Rule):
        raise ValueError(
            f"a task is one of tsc-interp's or a tsc.tasks.OwnTask, got {shorten(given)}"
        )
    if type(given) not in SHIPPED:
        _refuse_disguise(given)
    return given


def _refuse_disguise(task: Any) -> None:
    """Refuse a task that would pass for a shipped one, whose rules verification knows by name."""
    name, kind = type(task).__name__, kind_of(type(task))
    every = (*SHIPPED, *map(_loaded, _IN_TASKS))
    if type(task) in every:
        return
    if isinstance(task, every):
        shipped = next(base for base in every if isinstance(task, base))
        raise ValueError(
            f"{name} is a subclass of {shipped.__name__}, and would be taken for it where its "
            "labels differ; derive it from tsc.tasks.OwnTask alone"
        )
    if not kind:
        raise ValueError(f"{name} needs a kind: Literal[...] = ...")
    if {kind, task.kind} & {kind_of(shipped) for shipped in every}:
        raise ValueError(
            f"{name} calls itself {task.kind!r}, the name of a task of tsc-interp; "
            "give it a kind of its own"
        )
    if task.kind != kind:
        raise ValueError(f"{name} is of kind {kind!r}, and this one says {task.kind!r}")


if TYPE_CHECKING:
    Task = Rule
else:  # written as JSON by its own class, not as any rule
    Task = Annotated[Any, PlainValidator(read_task)]
    """What a configuration holds."""
