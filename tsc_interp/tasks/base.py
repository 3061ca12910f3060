"""What a task is: the right answer to every input, as an object or by the name of its kind.

A task is a small frozen class: a `kind` that names it in JSON, and `labels(counts)` on an array
whose last axis is letters. Labels are True and False, or the numbers of several classes
(`n_classes`). A task on the order of letters (`ordered`) has `labels(letters)` instead: `[string,
position]`, 0 for a, 1 for b, ..., and -1 behind the end of a string shorter than others.

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

Configurations and checkpoints name a task by its `kind`. The class must have been imported where
they are read, or be an entry point of the group `tsc_interp.tasks` in an installed package.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field, PlainValidator

from tsc_interp.errors import UsageError, shorten, suggest
from tsc_interp.frames.frame import Frame
from tsc_interp.frozen import Frozen
from tsc_interp.strings import LETTERS, MAX_LETTERS, Counts
from tsc_interp.tasks.layers import MOST_STATES, layered, tabulated
from tsc_interp.tasks.trellis import Trellis

Labels = NDArray[np.bool_]
Classes = NDArray[np.int64]
Walk = tuple[Hashable, Callable[[Any, int], Hashable], Callable[[list[Any]], Any]]
"""A state, the state after a letter, and the classes of strings that end in these states."""


def _no_truth_value(given: object) -> object:
    if isinstance(given, bool):
        raise ValueError(f"a whole number is needed, not {given}")
    return given


MOST = 10**9
"""The largest number of a task: as many letters as a string may repeat, and no sum overflows."""
Whole = Annotated[int, BeforeValidator(_no_truth_value), Field(ge=-MOST, le=MOST)]
"""A whole number of a task; True is none."""
LetterIndex = Annotated[int, BeforeValidator(_no_truth_value), Field(ge=0, lt=MAX_LETTERS)]
"""A letter by its index."""
_BY_KIND: dict[str, type[Task]] = {}
_SHIPPED: list[type[Task]] = []


def kind_of(task: type[Any]) -> str:
    """What JSON calls it."""
    field = task.model_fields.get("kind")
    return str(field.default) if field is not None else ""


class Task(Frozen):
    """What every task can do; by default two classes, decided by counts."""

    ordered: ClassVar[bool] = False
    """Whether labels depend on where letters stand."""
    words: ClassVar[str] = ""
    """What is decided, options of the task in braces."""
    exact: ClassVar[bool] = False
    """Whether the alphabet must have the letters that the task names and no others."""
    if TYPE_CHECKING:
        kind: str

    def __init_subclass__(cls, shipped: bool = False, **options: Any) -> None:
        super().__init_subclass__(**options)

    @classmethod
    def __pydantic_init_subclass__(cls, shipped: bool = False, **options: Any) -> None:
        super().__pydantic_init_subclass__(**options)
        if shipped:
            _SHIPPED.append(cls)
        if kind_of(cls):
            _BY_KIND[kind_of(cls)] = cls

    @property
    def partial(self) -> bool:
        """Whether some inputs have no label, which is the class -1."""
        return False

    @property
    def layout(self) -> Frame | None:
        """What inputs look like, if the task says it; tokens are letters by index."""
        return None

    @property
    def needs(self) -> str:
        """The letters that the task names, which the alphabet must have."""
        return ""

    def misfit(self, n_letters: int) -> str:
        """Return why the task does not label the strings of an alphabet; empty if it does."""
        letters = LETTERS[:n_letters]
        missing = sorted(set(self.needs) - set(letters), key=LETTERS.index)
        if missing:
            return (
                f"the task needs the letters {''.join(missing)}, "
                f"but the alphabet is {letters} (n_letters = {n_letters})"
            )
        if self.exact and set(self.needs) != set(letters):
            return (
                f"the task ({self.describe()}) is about the letters {self.needs} and no others, "
                f"but the alphabet is {letters} (n_letters = {n_letters})"
            )
        return ""

    def n_classes(self, n_letters: int) -> int:
        """Return the number of classes over an alphabet of this size."""
        return 2

    def labels(self, counts: Counts) -> Any:
        """Return the label of each row: `[..., letter]` to `[...]`.

        True is the positive class; numbers where there are more than two.
        """
        raise NotImplementedError(f"{type(self).__name__} has no labels")

    def classes(self, counts: Counts) -> Classes:
        """Return labels as numbers below `n_classes`, checked; of two, 1 is the positive one."""
        classes = np.asarray(self.labels(counts))
        kind = str(getattr(self, "kind", type(self).__name__))
        wanted = counts.shape[:1] if self.ordered else counts.shape[:-1]
        if classes.shape != wanted or classes.dtype.kind not in "iub":
            raise UsageError(
                f"labels of the task {kind!r} must be True and False, or whole numbers, shaped "
                f"{list(wanted)}; got {classes.dtype} shaped {list(classes.shape)}"
            )
        # A task on order does not see the alphabet, so its classes are bounded for the largest.
        most = self.n_classes(MAX_LETTERS if self.ordered else counts.shape[-1])
        least = -1 if self.partial else 0
        if classes.size and not least <= int(classes.min()) <= int(classes.max()) < most:
            raise UsageError(
                f"labels of the task {kind!r} must lie in {least} to {most - 1}; got "
                f"{int(classes.min())} to {int(classes.max())}; a multiclass task sets n_classes"
            )
        return classes.astype(np.int64)

    def classes_of_all(self, letters: Classes) -> Classes:
        """Return the class of each row, of which every one must have a label.

        Raises:
            UsageError: The task has no opinion on one of them.
        """
        classes = self.classes(letters)
        if (classes < 0).any():
            row = letters[int((classes < 0).argmax())]
            raise UsageError(
                f"the task ({self.describe()}) has no opinion on the letters "
                f"{shorten(row[row >= 0].tolist())}, so nothing is right or wrong there"
            )
        return classes

    def label_of_support(self, letters: frozenset[str]) -> Any:
        """Return the label all strings over exactly these letters share, or None."""
        return None

    def walk(self, n_letters: int, length: int) -> Walk:
        """Return how a string of this length is read letter by letter; by default, counted."""

        def one_more(counts: Any, letter: int) -> tuple[int, ...]:
            return (*counts[:letter], counts[letter] + 1, *counts[letter + 1 :])

        return (0,) * n_letters, one_more, lambda states: self.classes(np.array(states))

    def trellis(self, n_letters: int, length: int) -> Trellis:
        """Return all strings of one length as paths; a string without a label is none of them."""
        if not self.ordered:
            return layered(*self.walk(n_letters, length), n_letters, length)
        if n_letters**length > MOST_STATES:
            raise UsageError(
                f"the task {self.kind!r} says the class of single strings only, and there are "
                f"{n_letters}^{length} of them; give it as a tsc.tasks.Automaton"
            )
        every = np.indices((n_letters,) * length).reshape(length, -1).T
        return tabulated([range(n_letters)] * length, self.classes(every))

    def describe(self) -> str:
        """Return the question in words."""
        return self.words.format(**dict(self))


class OwnTask(Task):
    """The base class of your own tasks; a subclass must define `labels`.

    If there are more than two classes, define `n_classes`, too. If the task is about the order of
    letters, set `ordered: ClassVar[bool] = True`. If all strings over a set of letters share a
    label, `label_of_support` can return it, which makes proofs about every length possible. A
    configuration compares it with `labels` on short strings (`audit.py`) and raises an error if
    they differ; for longer strings it is trusted.
    """

    def describe(self) -> str:
        return str(getattr(self, "kind", type(self).__name__)).replace("_", " ")


def trellis_of(task: Task, n_letters: int, length: int) -> Trellis:
    """Return a trellis of every string of one length, labelled by a task.

    Args:
        task: Which.
        n_letters: The size of the alphabet.
        length: The number of letters of each string.

    Returns:
        The trellis. Its paths are the strings that have a label.

    Raises:
        UsageError: The task needs more states than can be held.

    Example:
        >>> from tsc_interp.tasks import Parity, trellis_of
        >>> trellis_of(Parity(letter="b"), n_letters=3, length=4).sizes
        (1, 2, 2, 2, 2)
    """
    if length < 1:
        raise UsageError(f"a string has one letter or more, got length {length}")
    return task.trellis(n_letters, length)


# -- by name -------------------------------------------------------------------------------------


def is_shipped(task: Task) -> bool:
    """Whether it is one of this package's, whose rules verification knows by name."""
    return type(task) in _SHIPPED


def task_of_kind(kind: str) -> type[Task] | None:
    """The class behind a name: shipped, imported, or an entry point; the youngest of a name."""
    shipped = next((task for task in _SHIPPED if kind_of(task) == kind), None)
    known = shipped or _BY_KIND.get(kind)
    if known is None:
        for entry in entry_points(group="tsc_interp.tasks", name=kind):
            known = entry.load()
    return known


def given_task(given: object) -> Task:
    """A task given to a function: `read_task`, whose complaint is a `UsageError`."""
    try:
        return read_task(given)
    except ValueError as error:
        raise UsageError(str(error)) from None


def read_task(given: object) -> Task:
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
    if not isinstance(given, Task):
        raise ValueError(
            f"a task is one of tsc-interp's or a tsc.tasks.OwnTask, got {shorten(given)}"
        )
    if not is_shipped(given):
        _refuse_disguise(given)
    return given


def _known_kinds(wanted: object) -> str:
    """What somebody may have meant: the nearest name, or else those that come with the package."""
    near = suggest(str(wanted)[:99], _BY_KIND).rstrip()
    return f": {near}" if near else f"; tsc-interp has {', '.join(map(kind_of, _SHIPPED))}."


def _refuse_disguise(task: Task) -> None:
    """Refuse a task that would pass for a shipped one."""
    name, kind = type(task).__name__, kind_of(type(task))
    if isinstance(task, tuple(_SHIPPED)):
        shipped = next(base for base in _SHIPPED if isinstance(task, base))
        raise ValueError(
            f"{name} is a subclass of {shipped.__name__}, and would be taken for it where its "
            "labels differ; derive it from tsc.tasks.OwnTask alone"
        )
    if not kind:
        raise ValueError(f"{name} needs a kind: Literal[...] = ...")
    if {kind, task.kind} & set(map(kind_of, _SHIPPED)):
        raise ValueError(
            f"{name} calls itself {task.kind!r}, the name of a task of tsc-interp; "
            "give it a kind of its own"
        )
    if task.kind != kind:
        raise ValueError(f"{name} is of kind {kind!r}, and this one says {task.kind!r}")


if TYPE_CHECKING:
    GivenTask = Task
else:  # written as JSON by its own class, not as any task
    GivenTask = Annotated[Any, PlainValidator(read_task)]
    """What a configuration holds."""
