"""Commands as a reader would type them, each with what it printed during this build."""

from __future__ import annotations

import contextlib
import io
import os
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path

from docs.build.sections import inside
from tsc_interp.cli import main

WIDTH_TOML = """\
name = "width"
about = "does a wider model last longer?"
seeds = "0..3"

[classifier]
d_model = [2, 8]

[training]
max_epochs = 8
"""

# In the order they are run, all in one directory: later ones use what earlier ones wrote.
COMMANDS = {
    "eval": "tsc-interp eval --checkpoint generalization-errors",
    "info": "tsc-interp info --checkpoint walkthrough",
    "list": "tsc-interp list",
    "why": "tsc-interp analyze -c generalization-errors --probe margin aac 'ab{100}'",
    "analyze": "tsc-interp analyze --checkpoint generalization-errors",
    "verify": "tsc-interp verify --checkpoint generalization-errors --horizon",
    "certify": "tsc-interp verify --checkpoint walkthrough --certify --out walkthrough.json",
    "check": "tsc-interp verify --checkpoint walkthrough --check walkthrough.json",
    "intervene": "tsc-interp intervene 'head0.value[c]=like(b)' -c generalization-errors "
    "-s 'bc{70}' -s ab -s aac",
    "diff": "tsc-interp diff walkthrough attend-cls --out agreement.json",
    "prune": "tsc-interp prune --checkpoint many-heads --keep-horizon --out small.safetensors",
    "construct": "tsc-interp construct --max-length 1000 --out built.safetensors "
    "--certificate built.json",
    "construct-check": "python checker/rational_checker.py built.json built.safetensors",
    "second-checker": "python checker/rational_checker.py walkthrough.json "
    "tsc_interp/checkpoints/bundled/walkthrough.safetensors",
    "check-other": "tsc-interp verify --checkpoint many-heads --check walkthrough.json",
    "reproduce": "tsc-interp reproduce walkthrough generalization_errors --check",
    "train": "tsc-interp train width.toml",
    "runs": "tsc-interp runs width",
    "playground": "tsc-interp playground --checkpoint generalization-errors --out play.html",
    "wrong-letter": "tsc-interp eval aax",
}
_WIDTH = 92
_ROOT = Path(__file__).parents[2]
EXIT_CODES = {"verify": 3, "diff": 3, "check-other": 3, "wrong-letter": 2}


def write_commands(folder: Path) -> None:
    """`NAME.txt` holds the command and its output, and its exit code unless that is 0."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "width.toml").write_text(WIDTH_TOML, encoding="utf-8")
    with inside():
        Path("width.toml").write_text(WIDTH_TOML, encoding="utf-8")
        for name, line in COMMANDS.items():
            text = f"$ {line}\n{run_command(line, EXIT_CODES.get(name, 0))}"
            (folder / f"{name}.txt").write_text(text, encoding="utf-8")


def run_command(line: str, expected: int = 0) -> str:
    """What it prints, results and messages together."""
    caught = io.StringIO()
    os.environ["COLUMNS"] = str(_WIDTH)
    program, *words = shlex.split(line)
    if program == "python":
        code = _run_script(words, caught)
    else:
        with contextlib.redirect_stdout(caught), contextlib.redirect_stderr(caught):
            code = main(words)
    if code != expected:
        raise RuntimeError(f"{line!r} ended with {code}, not {expected}:\n{caught.getvalue()}")
    text = "\n".join(map(_wrapped, caught.getvalue().rstrip().splitlines()))
    # Where the build happened is nobody's business.
    text = text.replace(f"{os.getcwd()}/", "")
    return f"{text}\n" + (f"(exit code {code})\n" if code else "")


def _run_script(words: list[str], caught: io.StringIO) -> int:
    """A script of the repository, as if the repository were the current directory."""
    paths = [str(_ROOT / word) if (_ROOT / word).is_file() else word for word in words]
    done = subprocess.run([sys.executable, *paths], capture_output=True, text=True, check=False)
    caught.write(done.stdout + done.stderr)
    return done.returncode


def _wrapped(line: str) -> str:
    """Messages go out in one piece, for the terminal to break; tables fit already."""
    if len(line) <= _WIDTH:
        return line.rstrip()
    indent = " " * (len(line) - len(line.lstrip()) + 4)
    return "\n".join(textwrap.wrap(line, _WIDTH, subsequent_indent=indent))
