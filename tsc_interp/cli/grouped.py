"""Help as plain text: commands in groups, arguments without Python's types."""

from __future__ import annotations

import re
from typing import Any

from typer.core import TyperCommand, TyperGroup


class PlainCommand(TyperCommand):
    """Names an argument by its metavar alone, and an option that repeats by the type of one."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        rows: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None and param.param_type_name == "argument":
                rows["Arguments"].append((re.sub(r" <.*>$", "", record[0]), record[1]))
            elif record is not None:
                name = re.sub(r"<(?:list\[)?(.*?)(?: range)?\]?>", r"<\1>", record[0])
                rows["Options"].append((name, record[1]))
        for title, records in rows.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


class GroupedCommands(TyperGroup):
    """Lists commands under the `rich_help_panel` each was given, in the order of the groups.

    The help is plain text: unlike typer's tables it keeps square brackets, gives flags no type and
    stays readable in a narrow terminal.
    """

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        groups: dict[str, list[tuple[str, str]]] = {}
        for name in self.list_commands(ctx):
            command: Any = self.get_command(ctx, name)
            said = command.get_short_help_str(limit=200)
            groups.setdefault(command.rich_help_panel or "Commands", []).append((name, said))
        for title, rows in groups.items():
            with formatter.section(title):
                formatter.write_dl(rows)
