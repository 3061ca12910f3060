"""Every public object is documented in Google style, with an example that runs."""

from __future__ import annotations

import dataclasses
import doctest
import inspect
import re
import sys
import warnings
from typing import Any

import pytest

import tsc_interp as tsc
from tsc_interp.frozen import FrozenConfig

PUBLIC = {name: getattr(tsc, name) for name in sorted(set(tsc._PUBLIC) - {"__version__", "tasks"})}
TASKS = {f"tasks.{name}": getattr(tsc.tasks, name) for name in tsc.tasks.__all__}
SECTIONS = r"(?:Args|Attributes|Returns|Raises|Example|Yields):"
NOT_RUN = {"sweep"}  # starts processes, which takes seconds; tests/sweeps runs the same


def section(text: str, name: str) -> str:
    """The lines below a heading, up to the next one."""
    found = re.search(rf"^{name}:\n(.*?)(?=^{SECTIONS}|\Z)", text, re.DOTALL | re.MULTILINE)
    return found[1] if found else ""


def documented(text: str, heading: str) -> set[str]:
    return set(re.findall(r"^    (\w+): \S", section(text, heading), re.MULTILINE))


def parameters(thing: Any) -> set[str]:
    """What a caller can give; the fields of a configuration describe themselves."""
    if isinstance(thing, type) and issubclass(thing, FrozenConfig | Exception):
        return set()
    if dataclasses.is_dataclass(thing):
        return {field.name for field in dataclasses.fields(thing)}
    return set(inspect.signature(thing).parameters)


@pytest.mark.parametrize("name", PUBLIC)
def test_public_objects_are_documented_in_full(name: str) -> None:
    thing = PUBLIC[name]
    text = inspect.getdoc(thing) or ""
    heading = "Attributes" if section(text, "Attributes") else "Args"
    said = documented(text, heading)
    if said and isinstance(thing, type) and issubclass(thing, FrozenConfig):
        assert said == set(thing.model_fields)
    else:
        assert said == parameters(thing)
    if inspect.isfunction(thing):
        assert section(text, "Returns")
        assert section(text, "Raises")
    assert ">>> " in section(text, "Example")


@pytest.mark.parametrize("name", PUBLIC | TASKS)
def test_examples_run(name: str) -> None:
    thing = (PUBLIC | TASKS)[name]
    # Decorated functions keep the module whose names their example uses.
    names = vars(sys.modules[inspect.unwrap(thing).__module__])
    examples = doctest.DocTestFinder(recurse=False).find(thing, name, globs=dict(names))
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # an import may warn of its n_ctx
        ran = [runner.run(example) for example in examples if example.examples]
    assert all(result.failed == 0 for result in ran)
    skipped = any(e.options.get(doctest.SKIP) for example in examples for e in example.examples)
    assert skipped == (name in NOT_RUN)


def test_a_wrong_example_is_noticed() -> None:
    def wrong() -> None:
        """Wrong.

        Example:
            >>> 1 + 1
            3
        """

    (example,) = doctest.DocTestFinder().find(wrong)
    runner = doctest.DocTestRunner(verbose=False)
    assert runner.run(example, out=lambda text: None).failed == 1


@pytest.mark.parametrize(
    "name", [n for n, thing in (PUBLIC | TASKS).items() if isinstance(thing, type)]
)
def test_methods_are_documented(name: str) -> None:
    """Every public method and property that a public class defines itself says what it returns."""
    members = vars((PUBLIC | TASKS)[name]).items()
    kinds = (property, classmethod, staticmethod)
    lacking = [
        member
        for member, thing in members
        if not member.startswith(("_", "model_"))
        and (isinstance(thing, kinds) or inspect.isfunction(thing))
        and not inspect.getdoc(thing)
    ]
    assert not lacking
