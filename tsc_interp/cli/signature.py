"""A command from a function: its options are the parameters, its help is the docstring.

    @takes("pruning/prune.py:prune")
    def command(model: str | None = None, *, out: Path | None = None, **options: Any) -> None:
        \"\"\"Remove heads, neurons and dimensions, judged by exact horizons.

        Args:
            out: Write the smaller model here.
        \"\"\"

Positional parameters are arguments, keywords are options, and several values are one option that
may be repeated: `lengths` is `--length`. `takes` adds the parameters of the library's function that
the command calls, with their defaults and their help. They are read from its source, because
`--help` should not wait for the import of torch.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import typer

from tsc_interp.arguments import least_whole
from tsc_interp.cli.grouped import PlainCommand

Body = TypeVar("Body", bound=Callable[..., None])

MODEL = "A bundled model, a .safetensors file, a run (see tsc-interp runs), RUN@EPOCH or DIR:ROW."
HELP = {
    "model": f"{MODEL} Default: walkthrough.",
    "checkpoint": MODEL,
    "epoch": "The epoch of a run (default: the chosen one).",
    "runs": "The directory of runs.",
    "open_page": "Open the page in a browser.",
    "force": "Replace files that tsc-interp did not write.",
    "as_json": "Print one JSON document on standard output, and nothing else.",
    "quiet": "Print no messages and no progress.",
}
"""Of options that many commands have, unless the command's docstring says something else."""

_FLAGS = {
    "as_json": "--json", "checkpoint": "--checkpoint --model -c", "exhaustive": "--every",
    "formats": "--format", "k": "-k", "label": "--task", "max_length": "--max-length -L",
    "open_page": "--open", "options": "--set", "out": "--out -o", "probes": "--probe -p",
    "quiet": "--quiet -q", "strings": "--string -s",
}  # fmt: skip
"""Where they do not follow from the name."""

_ORDER = {"checkpoint": 1, "epoch": 1, **dict.fromkeys(
    ("runs", "open_page", "force", "as_json", "quiet"), 4
)}  # fmt: skip
_METAVARS = {"model": "MODEL", "checkpoint": "MODEL", "compare": "MODEL", "runs": "DIR"}
_KINDS: dict[str, Any] = {
    "bool": bool, "int": int, "float": float, "str": str, "Path": Path, "ModelLike": str,
    "str | os.PathLike[str]": Path, "str | Path": Path, "tuple[str, str]": tuple[str, str],
    "list[str]": list[str], "Sequence[int]": list[int], "str | Sequence[str]": list[str],
}  # fmt: skip
_ENTRY = re.compile(r"(\w+)(?: \(([^)]*)\))?: (.*)")


@dataclass(frozen=True, kw_only=True)
class Asked:
    """An argument or option of a command."""

    name: str
    kind: Any
    """As typer reads it; several values are a list."""
    default: Any = None
    help: str = ""
    metavar: str | None = None
    argument: bool = False

    def parameter(self) -> inspect.Parameter:
        """Return what typer makes an option of."""
        many = getattr(self.kind, "__origin__", None) is list
        known: dict[str, Any] = {
            "help": self.help,
            "metavar": self.metavar or _METAVARS.get(self.name),
            "autocompletion": _COMPLETES.get(self.name),
        }
        if self.kind is int or self.kind == list[int]:
            known["min"] = least_whole(self.name) or None
        if self.argument:
            info = typer.Argument(**known, show_default=False)
        else:
            name = self.name.removesuffix("s") if many else self.name
            flags = _FLAGS.get(self.name) or f"--{name.replace('_', '-')}"
            if self.kind is bool and self.default is not False:
                flags += f"/{flags.replace('--', '--no-', 1)}"
            info = typer.Option(*flags.split(" "), **known, show_default=self.default != "")
        optional = self.default is None
        kind: Any = self.kind | None if optional else self.kind
        return inspect.Parameter(
            self.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=self.default,
            annotation=Annotated[kind, info],
        )


def takes(place: str, *without: str) -> Callable[[Body], Body]:
    """Add the parameters of a library's function, as `FILE.py:NAME`, to those of a command.

    Args:
        place: The file is named from the package.
        without: Parameters that the command line does not offer.
    """

    def mark(body: Body) -> Body:
        body.asked = partial(_taken, place, without)  # type: ignore[attr-defined]
        return body

    return mark


@cache
def command(name: str, body: Callable[..., None]) -> Any:
    """Return what typer makes of a command."""
    app = typer.Typer(
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    parameters = [one.parameter() for one in _asked(body)]

    own = inspect.signature(body).parameters

    def run(**given: Any) -> None:
        body(**{name: value for name, value in given.items() if value is not None or name in own})

    run.__doc__ = inspect.cleandoc(body.__doc__ or "").partition("\nArgs:\n")[0].strip()
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in parameters}
    app.command(name, cls=PlainCommand)(run)
    return typer.main.get_command(app)


def summary(body: Callable[..., None]) -> str:
    """Return the first line of the help."""
    return inspect.cleandoc(body.__doc__ or "").splitlines()[0]


def _asked(body: Callable[..., None]) -> list[Asked]:
    """Return the arguments, which model is meant, options taken over, others, what many have."""
    told = told_of(body.__doc__ or "")
    signature = inspect.signature(body).parameters
    taken: Iterable[Asked] = getattr(body, "asked", lambda *_: ())(told, set(signature))
    order: dict[int, list[Asked]] = {0: [], 1: [], 2: [*taken], 3: [], 4: []}
    for name, parameter in signature.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            continue
        words, metavar = told.get(name, (HELP.get(name, ""), None))
        argument = parameter.kind is parameter.POSITIONAL_OR_KEYWORD
        one = Asked(
            name=name, kind=kind_of(str(parameter.annotation)), default=parameter.default,
            help=words, metavar=metavar, argument=argument,
        )  # fmt: skip
        order[0 if argument else _ORDER.get(name, 3)].append(one)
    return [one for some in order.values() for one in some]


def _taken(
    place: str, without: tuple[str, ...], told: dict[str, Any], own: set[str]
) -> Iterator[Asked]:
    """What a function of the library asks, as far as a command line can give it."""
    file, _, name = place.partition(":")
    module = ast.parse((Path(__file__).parents[1] / file).read_text(encoding="utf-8"))
    function = next(
        one
        for one in module.body
        if isinstance(one, ast.FunctionDef) and one.name == name and ast.get_docstring(one)
    )
    told = told_of(ast.get_docstring(function) or "") | told
    aliases = {
        one.targets[0].id: one.value
        for one in module.body
        if isinstance(one, ast.Assign) and isinstance(one.targets[0], ast.Name)
    }
    given = function.args
    positional = [*given.posonlyargs, *given.args]
    defaults: list[Any] = [None] * (len(positional) - len(given.defaults)) + given.defaults
    for one, default in zip(
        [*positional, *given.kwonlyargs], [*defaults, *given.kw_defaults], strict=True
    ):
        kind = kind_of(ast.unparse(one.annotation) if one.annotation else "", aliases)
        if one.arg in own or one.arg in without or kind is None or one.arg not in told:
            continue
        words, metavar = told[one.arg]
        yield Asked(
            name=one.arg, kind=kind, help=words, metavar=metavar,
            default=_constant(default) if default else inspect.Parameter.empty,
        )  # fmt: skip


def _constant(default: ast.expr) -> Any:
    """A default that is written out, or None: what is not given is not passed on."""
    return default.value if isinstance(default, ast.Constant) else None


def kind_of(annotation: str, aliases: dict[str, ast.expr] | None = None) -> Any:
    """Return the type that typer reads, or None for what no command line can give."""
    plain = annotation.removesuffix(" | None")
    alias = (aliases or {}).get(plain)
    if alias is not None:
        plain = ast.unparse(alias)
    if plain.startswith("Literal["):
        return Literal[ast.literal_eval(f"({plain[8:-1]},)")]
    return _KINDS.get(plain)


def told_of(docstring: str) -> dict[str, tuple[str, str | None]]:
    """Return what a docstring says of each argument, with the metavar it gives in parentheses."""
    section = inspect.cleandoc(docstring).partition("Args:\n")[2].split("\n\n")[0]
    found: dict[str, tuple[str, str | None]] = {}
    for line in section.splitlines():
        entry = _ENTRY.fullmatch(line[4:]) if not line.startswith(" " * 5) else None
        if entry:
            name, metavar, words = entry.groups()
            found[name] = words, metavar
        else:
            words, metavar = found[name]
            found[name] = f"{words} {line.strip()}", metavar
    return {name: (words.replace("`", ""), metavar) for name, (words, metavar) in found.items()}


# -- names that the shell completes ----------------------------------------------------------------


def _completing(names: Callable[[], Any]) -> Callable[[str], list[str]]:
    def complete(start: str) -> list[str]:
        return [name for name in names() if name.startswith(start)]

    return complete


def _models() -> list[str]:
    from tsc_interp.checkpoints.locate import bundled_names
    from tsc_interp.checkpoints.run_list import runs

    return [*bundled_names(), *(run.address for run in runs())]


def _probes() -> list[str]:
    from tsc_interp.probes.registry import PROBES, plugins

    return [probe.name for probe in (*PROBES, *plugins().probes)]


def _experiments() -> list[str]:
    from tsc_interp.reproduction.experiments import SOURCE_EXPERIMENTS

    return [experiment.name for experiment in SOURCE_EXPERIMENTS]


_COMPLETES = {
    **dict.fromkeys(("model", "checkpoint", "compare", "also", "first", "second"),
                    _completing(_models)),
    "probes": _completing(_probes),
    "experiments": _completing(_experiments),
}  # fmt: skip
