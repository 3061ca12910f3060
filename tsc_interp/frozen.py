"""Frozen, validated objects whose complaints are `ConfigError`s, and their one JSON form.

Equal objects have equal JSON, so a configuration can be the key of a run.
"""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Mapping
from typing import Any, ClassVar, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
)
from pydantic_core import ErrorDetails

from tsc_interp.errors import ConfigError, shorten, suggest


class Frozen(BaseModel):
    """Cannot be changed, and refuses what it does not know in words of its own."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def __init__(self, /, *unnamed: Any, **data: Any) -> None:
        if unnamed:
            raise ConfigError(
                f"{type(self).__name__} takes options by name, such as "
                f"{next(iter(type(self).model_fields), 'name')}=...; got {shorten(unnamed[0])}"
            )
        try:
            super().__init__(**data)
        except ValidationError as error:
            raise ConfigError(_explain(type(self), error)) from None

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        """Show options alone in the signature, and types without what validates them."""
        shown = inspect.signature(cls)
        options = [
            p.replace(annotation=getattr(p.annotation, "__origin__", p.annotation))
            if hasattr(p.annotation, "__metadata__") else p
            for p in shown.parameters.values() if p.kind is not p.VAR_POSITIONAL
        ]  # fmt: skip
        cls.__signature__ = shown.replace(parameters=options)


class FrozenConfig(Frozen):
    """The same, without conversions (a 2.0 is no 2), to and from JSON."""

    added: ClassVar[frozenset[str]] = frozenset()
    """Options younger than the first files: written only where they are used, so that whatever does
    without them keeps its JSON and its key."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Self:
        try:
            data = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ConfigError(f"{cls.__name__} is not valid JSON: {error}") from None
        return cls.from_dict(data)

    @classmethod
    def from_dict(cls, data: Any) -> Self:
        if not isinstance(data, Mapping):
            raise ConfigError(f"{cls.__name__} must be an object of options, got {shorten(data)}")
        return cls(**{str(key): value for key, value in data.items()})

    @model_serializer(mode="wrap")
    def _without_unused(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        fields = type(self).model_fields
        return {
            name: value
            for name, value in write(self).items()
            if name not in self.added or getattr(self, name) != fields[name].default
        }

    def to_dict(self) -> dict[str, Any]:
        return self.model_dump(mode="json")

    def to_json(self) -> str:
        """Canonical: sorted keys, no spaces, defaults written out."""
        return json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"))

    def key(self) -> str:
        """A short content hash: the same for equal configurations, on every machine."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()[:16]

    def replace(self, **changes: Any) -> Self:
        """A changed copy, checked like a new one."""
        return type(self)(
            **{**{name: getattr(self, name) for name in type(self).model_fields}, **changes}
        )


_EXPECTED = {
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "string_type": "text",
    "tuple_type": "a list",
    "list_type": "a list",
    "literal_error": "{expected}",
    "enum": "{expected}",
    "greater_than": "a number above {gt}",
    "greater_than_equal": "at least {ge}",
    "less_than": "a number below {lt}",
    "less_than_equal": "at most {le}",
    "union_tag_invalid": "one of the kinds {expected_tags}",
    "union_tag_not_found": "a table with a kind",
    "model_type": "a table of options",
    "model_attributes_type": "a table of options",
    "dict_type": "a table of options",
}
"""What pydantic's kinds of problems expected, in our words."""


def _explain(model: type[BaseModel], error: ValidationError) -> str:
    """pydantic's list of problems as one readable sentence each, with what is allowed."""
    problems = error.errors()
    sentences = [_sentence(model, problem) for problem in problems[:5]]
    if len(problems) > 5:
        sentences.append(f"and {len(problems) - 5} more")
    return f"{model.__name__}: " + "; ".join(sentences)


def _sentence(model: type[BaseModel], problem: ErrorDetails) -> str:
    field = ".".join(str(part) for part in problem["loc"])
    kind = problem["type"]
    if kind == "extra_forbidden":
        hint = suggest(field, model.model_fields)
        allowed = f"the options are {', '.join(sorted(model.model_fields))}"
        return f"unknown option {shorten(field)}: {hint.rstrip() or allowed}"
    if kind == "missing":
        return f"{field} is missing: give it a value"
    message = problem["msg"].removeprefix("Value error, ")
    if not field:
        return message
    if kind in _EXPECTED:
        message = f"expected {_EXPECTED[kind].format(**problem.get('ctx', {}))}"
    return f"{field} = {shorten(problem['input'])}: {message[0].lower()}{message[1:]}"
