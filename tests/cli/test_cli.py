"""The command line as a person meets it: output, errors, exit codes, start-up."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer

import tsc_interp as tsc
from tsc_interp import __version__
from tsc_interp.cli import main
from tsc_interp.cli.app import app


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
        (["eval", "--no-such-option"], 2, "No such option: --no-such-option (see"),
        (["analyze", "--prob", "cone"], 2, "did you mean '--probe'?"),
        (["analyze", "--pair", "ab"], 2, "see tsc-interp analyze --help"),
        (["analyze", "walkthrough", "-c", "many-heads"], 2, "two models are named"),
        (["prune", "walkthrough", "--keep", "1", "--keep-horizon"], 2, "do not go together"),
        (["runs", "--limit", "0"], 2, "expected at least 1"),
        (["no-such-command"], 2, "No such command"),
        (["evl"], 2, "No such command 'evl'. Did you mean 'eval'?"),
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
        main(["--debug", "eval", "-c", "walkthrough", "ax"])


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
    assert "no string for walkthrough: cannot read 'ax'" in done.stderr


@pytest.mark.parametrize(
    "command", [[], ["info"], ["runs"], ["lab"], ["lab", "attention"]], ids=" ".join
)
def test_flags_have_no_type(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*command, "--help"]) == 0
    shown = capsys.readouterr().out
    assert "--help" in shown
    assert "bool" not in shown.lower()


def test_nothing_heavy_is_imported_before_it_is_used() -> None:
    """What makes commands fast: asserted as a fact about imports, not as a time.

    TransformerLens is for models with hooks, scipy.stats for four letters and more.
    """
    done = python(
        "import sys\n"
        "def without(*names):\n"
        "    heavy = sorted(set(names) & set(sys.modules))\n"
        "    assert not heavy, heavy\n"
        "import tsc_interp\n"
        "assert 'load' in dir(tsc_interp)\n"
        "without('numpy', 'torch')\n"
        "from tsc_interp.cli import main\n"
        "main(['--help'])\n"
        "without('pydantic')\n"
        "main(['verify', '--help'])\n"
        "without('torch', 'numpy', 'transformer_lens', 'plotly', 'scipy', 'flint')\n"
        "main(['lab', 'attention', '--help'])\n"
        "main(['info'])\n"
        "without('torch', 'plotly')\n"
        "main(['eval', 'ab'])\n"
        "assert main(['analyze', '--json', '--quiet']) == 0\n"
        "without('transformer_lens', 'transformers', 'scipy.stats', 'pandas', 'xarray')"
    )
    assert done.returncode == 0, done.stderr
    assert "--draws" in done.stdout


def test_every_public_name_exists() -> None:
    import tsc_interp

    for name in tsc_interp._PUBLIC:
        assert getattr(tsc_interp, name) is not None
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = tsc_interp.no_such_name


def test_no_colour_where_none_is_wanted(monkeypatch, capsys) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert main(["eval", "ab"]) == 0
    assert "\x1b[3" in capsys.readouterr().out
    monkeypatch.setenv("NO_COLOR", "1")
    assert main(["eval", "ab"]) == 0
    assert "\x1b[3" not in capsys.readouterr().out


def test_a_closed_pipe_is_no_error() -> None:
    script = Path(sys.executable).parent / "tsc-interp"
    done = subprocess.run(
        f"{script} info --json | head -n 1", shell=True, capture_output=True, text=True, check=False
    )
    assert done.stdout == "{\n"
    assert done.stderr == ""


def test_models_are_named_first(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    name = "generalization-errors"
    assert main(["info", name, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["checkpoint"] == name
    assert main(["eval", name, "ab{66}", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["checkpoint"] == name
    assert [row["prediction"] for row in document["results"]] == [0]
    assert main(["verify", name, "-L", "70", "--json"]) == 3
    assert json.loads(capsys.readouterr().out)["checkpoint"] == name
    page = tmp_path / "page.html"
    assert main(["playground", name, "--out", str(page)]) == 0
    assert page.exists()
    capsys.readouterr()
    assert main(["analyze", name, "ab{66}", "--probe", "margin", "--json"]) == 0
    assert f'"{name}"' in capsys.readouterr().out
    smaller = tmp_path / "smaller.safetensors"
    assert main(["prune", "many-heads", "--keep", "2", "--out", str(smaller)]) == 0
    capsys.readouterr()
    assert main(["eval", str(smaller), "aab", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["checkpoint"] == str(smaller)


def test_checkpoint_and_model_are_one_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", "--model", "many-heads", "aab", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["checkpoint"] == "many-heads"
    assert main(["info", "many-heads", "--checkpoint", "walkthrough"]) == 2
    assert "name one" in capsys.readouterr().err


def test_a_misspelt_model_is_no_string(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["analyze", "generalisation-errors"]) == 1
    assert "did you mean 'generalization-errors'" in capsys.readouterr().err


def test_strings_stay_strings(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ab").mkdir()  # a folder that is no run
    (tmp_path / "ac").write_text("a file that is no checkpoint")
    long = "a" * 5000
    assert main(["eval", "ab", "ac", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["results"]
    assert [row["string"] for row in rows] == ["ab", "ac"]
    assert main(["eval", long, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["results"][0]["length"] == 5000


def test_help_fits_a_narrow_terminal() -> None:
    from docs.build.cli_reference import commands

    for name, command in commands().items():
        context = command.context_class(
            command, info_name=f"tsc-interp {name}", terminal_width=60, max_content_width=60
        )
        text = command.get_help(context)
        assert max(map(len, text.splitlines())) <= 60, name
        assert "<bool>" not in text, name
        assert "[[" not in text, name
        assert name != "import" or "[model]" in text


def test_every_option_says_what_it_is_and_the_librarys_are_taken_over(capsys) -> None:
    """Read from the source of the function that a command calls, by its own defaults."""
    from docs.build.cli_reference import commands

    found = commands()
    for name, command in found.items():
        assert all(option.help for option in command.params), name
    options = {option.name: option for option in found["construct"].params}
    signature = inspect.signature(tsc.construct).parameters
    assert set(signature) - set(options) == {"scores"}
    for name in set(signature) & set(options):
        assert options[name].default == signature[name].default, name
    lengths = next(option for option in found["verify"].params if option.name == "lengths")
    assert (lengths.opts, lengths.multiple) == (["--length"], True)
    assert main(["construct", "--task", "nothing"]) == 2
    assert "'contains_all', 'at_least', 'majority', 'parity'" in capsys.readouterr().err


def test_commands_are_listed_in_groups(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    order = ["Understand a model:", "  analyze", "Decide every string:", "  verify", "  sweep"]
    assert [out.index(text) for text in order] == sorted(out.index(text) for text in order)
    assert "Commands:" not in out


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("analyze --probe tr", "trace"),
        ("reproduce wal", "walkthrough"),
        ("analyze --compare man", "many-heads"),
        ("eval --checkpoint w", "walkthrough"),
    ],
)
def test_the_shell_completes_names(
    typed: str, offered: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("_TSC_INTERP_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", f"tsc-interp {typed}")
    monkeypatch.setenv("COMP_CWORD", str(len(typed.split())))
    command = typer.main.get_command(app)
    with pytest.raises(SystemExit):
        command.main(prog_name="tsc-interp", complete_var="_TSC_INTERP_COMPLETE")
    assert capsys.readouterr().out.split() == [offered]


def test_a_string_where_a_model_may_stand_is_said_to_be_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["eval", "aabc", "--json"]) == 0
    captured = capsys.readouterr()
    assert "aabc names no model, so it is a string for walkthrough" in captured.err
    assert json.loads(captured.out)["checkpoint"] == "walkthrough"
