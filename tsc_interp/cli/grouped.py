"""Help as plain text: commands in groups, arguments without Python's types."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from typer.core import TyperCommand, TyperGroup

_TYPES = {"int": "N", "float": "NUMBER", "str": "TEXT", "path": "PATH"}


def _named(option: str) -> str:
    """An option with `N` or `PATH` where typer writes Python's type, or that of a list."""
    plain = re.sub(r"<(?:list\[)?(.*?)(?: range)?\]?>", r"<\1>", option)
    return re.sub(r"<(\w+)>$", lambda match: _TYPES.get(match[1], match[0]), plain)


class PlainCommand(TyperCommand):
    """Names arguments and options without Python's types, readable in 60 columns."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return [
            re.sub(r"^\{([^|]*)\}$", r"\1", piece) for piece in super().collect_usage_pieces(ctx)
        ]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        rows: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None and param.param_type_name == "argument":
                rows["Arguments"].append((re.sub(r" <.*>$", "", record[0]), record[1]))
            elif record is not None:
                rows["Options"].append((_named(record[0]), record[1]))
        for title, records in rows.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records, col_max=20)


class GroupedCommands(TyperGroup):
    """Commands that are made when they are asked for, listed under titles in this order.

    The help is plain text: unlike typer's tables it keeps square brackets, gives flags no type and
    stays readable in a narrow terminal.
    """

    @classmethod
    def table(cls) -> Mapping[str, Mapping[str, str]]:
        """Return what each command does in a sentence, by title and name."""
        raise NotImplementedError

    @classmethod
    def made(cls, name: str) -> Any:
        """Return the command of this name, or None."""
        raise NotImplementedError

    def list_commands(self, ctx: Any) -> list[str]:
        return [name for commands in self.table().values() for name in commands]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return self.made(cmd_name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        known: Any = dict.fromkeys(self.list_commands(ctx))
        self.commands = known  # what typer suggests from
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        for title, commands in self.table().items():
            with formatter.section(title):
                formatter.write_dl(list(commands.items()))
