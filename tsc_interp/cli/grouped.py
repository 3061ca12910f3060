"""The list of commands in `tsc-interp --help`, in groups."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup


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
