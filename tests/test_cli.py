"""The command line as a person meets it: output, errors, exit codes, start-up."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tsc_interp import __version__
from tsc_interp.cli import main


def python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )


def test_eval_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", "--json", "aac", "baac", "ab{1000000}"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert list(document) == ["schema", "checkpoint", "results"]
    assert document["schema"] == "tsc-interp/eval/1"
    assert document["checkpoint"] == "walkthrough"
    fields = ["string", "length", "counts", "logit", "probability", "prediction", "label"]
    assert all(list(row) == fields for row in document["results"])
    first, second, third = document["results"]
    assert (first["string"], first["length"]) == ("aac", 3)
    assert first["counts"] == {"a": 2, "b": 0, "c": 1}
    assert round(first["logit"], 4) == -8.2945
    assert (second["prediction"], second["label"]) == (1, 1)
    assert third["counts"]["b"] == 10**6


def test_eval_table_names_the_mistakes(capsys: pytest.CaptureFixture[str]) -> None:
    strings = ["ab{100}", "b{2}c{152}", "ab"]
    assert main(["eval", "--checkpoint", "generalization-errors", *strings]) == 0
    out = capsys.readouterr().out
    assert "1 of 3 right; wrong: ab{100} (false negative), b{2}c{152} (false positive)" in out
    assert "0.1219" in out


def test_eval_needs_no_strings(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval"]) == 0
    assert "5 of 5 right" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["eval", "ax"], 2, "cannot read 'ax' at position 1: unexpected 'x'"),
        (["eval", ""], 2, "the string is empty"),
        (["eval", "a{0}"], 2, "out of range"),
        (["eval", "--checkpoint", "walktrough", "a"], 1, "did you mean 'walkthrough'"),
        (["eval", "--epoch", "3", "a"], 2, "run directory only"),
        (["info", "--checkpoint", "nothing"], 1, "expected a bundled model"),
        (["eval", "--no-such-option"], 2, "No such option"),
        (["no-such-command"], 2, "No such command"),
    ],
)
def test_errors_are_short_and_on_standard_error(
    arguments: list[str], code: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == code
    captured = capsys.readouterr()
    assert words in captured.err
    assert captured.out == ""
    assert len(captured.err.strip().splitlines()) <= 4
    assert "Traceback" not in captured.err


def test_debug_shows_the_traceback() -> None:
    from tsc_interp.errors import StringError

    with pytest.raises(StringError):
        main(["--debug", "eval", "ax"])


def test_info(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", "--json", "-c", "many-heads"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "tsc-interp/info/1"
    assert document["config"]["n_heads"] == 16
    assert document["parameters"] == 5 * 16 + 4 * 16 * 16 + 2 * 2 * 16 + 16
    assert document["provenance"]["seed"] == 0
    assert main(["info"]) == 0
    assert "36 parameters" in capsys.readouterr().out


def test_version_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"tsc-interp {__version__}\n"
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    assert all(command in out for command in ("eval", "info", "import"))


def test_the_installed_command_runs() -> None:
    script = Path(sys.executable).parent / "tsc-interp"
    done = subprocess.run([script, "eval", "ax"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("tsc-interp: cannot read 'ax'")


def test_help_imports_nothing_heavy() -> None:
    """What makes `--help` fast: asserted as a fact about imports, not as a time."""
    done = python(
        "import sys; from tsc_interp.cli import main; main(['--help']);"
        "heavy = {'torch', 'numpy', 'transformer_lens', 'plotly', 'pydantic', 'scipy', 'flint'};"
        "sys.exit(', '.join(sorted(heavy & set(sys.modules))) or 0)"
    )
    assert done.returncode == 0, done.stderr


def test_eval_and_info_do_without_transformer_lens() -> None:
    done = python(
        "import sys; from tsc_interp.cli import main;"
        "main(['info']); assert 'torch' not in sys.modules;"
        "main(['eval', 'ab']); sys.exit('transformer_lens' in sys.modules)"
    )
    assert done.returncode == 0, done.stderr


def test_analyze_imports_only_what_it_uses() -> None:
    """TransformerLens is for models with hooks, scipy.stats for four letters and more."""
    done = python(
        "import sys; from tsc_interp.cli import main;"
        "assert main(['analyze', '--json', '--quiet']) == 0;"
        "heavy = {'transformer_lens', 'transformers', 'scipy.stats', 'pandas', 'xarray'};"
        "sys.exit(', '.join(sorted(heavy & set(sys.modules))) or 0)"
    )
    assert done.returncode == 0, done.stderr


def test_the_package_imports_nothing_until_used() -> None:
    done = python(
        "import sys, tsc_interp; assert 'load' in dir(tsc_interp);"
        "sys.exit(bool({'numpy', 'torch'} & set(sys.modules)))"
    )
    assert done.returncode == 0, done.stderr


def test_every_public_name_exists() -> None:
    import tsc_interp

    for name in tsc_interp.__all__:
        assert getattr(tsc_interp, name) is not None
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = tsc_interp.no_such_name


def test_completion_offers_bundled_models() -> None:
    script = Path(sys.executable).parent / "tsc-interp"
    done = subprocess.run(
        [script],
        capture_output=True,
        text=True,
        check=False,
        env={
            **os.environ,
            "_TSC_INTERP_COMPLETE": "complete_bash",
            "COMP_WORDS": "tsc-interp eval --checkpoint w",
            "COMP_CWORD": "3",
        },
    )
    assert done.stdout.split() == ["walkthrough"]


def test_no_colour_where_none_is_wanted() -> None:
    done = python("from tsc_interp.cli import main; main(['eval', 'ab'])", NO_COLOR="1")
    assert "\x1b[" not in done.stdout


def test_a_closed_pipe_is_no_error() -> None:
    script = Path(sys.executable).parent / "tsc-interp"
    done = subprocess.run(
        f"{script} info --json | head -n 1", shell=True, capture_output=True, text=True, check=False
    )
    assert done.stdout == "{\n"
    assert done.stderr == ""
