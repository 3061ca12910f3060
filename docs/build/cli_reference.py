"""The command-line reference, read off the commands themselves."""

from __future__ import annotations

import re
from typing import Any

from tsc_interp.cli.app import Commands
from tsc_interp.cli.lab import Laboratories


def commands() -> dict[str, Any]:
    """By name, in the order of the help; a laboratory, `lab NAME`, stands behind `lab`."""
    found: dict[str, Any] = {}
    for group, before in ((Commands, ""), (Laboratories, "lab ")):
        for titled in group.table().values():
            found |= {f"{before}{name}": group.made(name) for name in titled}
    return found


def cli_reference() -> str:
    """A section per command: what it does, its arguments, its options."""
    return "\n".join(_section(name, command) for name, command in commands().items())


def _section(name: str, command: Any) -> str:
    context = command.context_class(command, info_name=f"tsc-interp {name}")
    usage = " ".join(["tsc-interp", name, *command.collect_usage_pieces(context)])
    records = [(parameter, _record(parameter, context)) for parameter in command.params]
    arguments = [row for parameter, row in records if parameter.param_type_name == "argument"]
    options = [row for parameter, row in records if parameter.param_type_name == "option"]
    parts = [f"## {name}", _plain(command.help or ""), f"```text\n{usage}\n```"]
    for heading, rows in (("argument", arguments), ("option", options)):
        if rows:
            lines = [f"| <code>{left}</code> | {right} |" for left, right in rows]
            parts.append("\n".join([f"| {heading} | |", "|---|---|", *lines]))
    return "\n\n".join(parts) + "\n"


def _record(parameter: Any, context: Any) -> tuple[str, str]:
    left, right = parameter.get_help_record(context) or (parameter.name, parameter.help or "")
    left = left.split(" <")[0] if parameter.param_type_name == "argument" else left
    return _cell(left), _cell(right)


def _cell(text: str) -> str:
    """Safe between the bars of a table."""
    return _plain(text).replace("|", "&#124;")


def _plain(text: str) -> str:
    """Help text as Markdown: braces and brackets are meant literally."""
    return re.sub(r"\[(?=default|required)", r"\\[", text).replace("<", "&lt;").strip()
