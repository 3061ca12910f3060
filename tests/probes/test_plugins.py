"""Probes of other packages, found by entry point: the example, built and installed without network,
and packages that are broken in every way we could think of."""

from __future__ import annotations

import json
import runpy
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tsc_interp as tsc
from tests.probes.models import QUERY, TOKENS, transformer_lens_model
from tsc_interp.cli import main
from tsc_interp.errors import TscError, UsageError
from tsc_interp.probes.registry import find_probe, plugins
from tsc_interp.report import Report

EXAMPLE = Path(__file__).parents[2] / "examples" / "probe_plugin"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example as it is installed: built from a copy, with what is here, and unpacked."""
    folder = tmp_path_factory.mktemp("plugin")
    shutil.copytree(EXAMPLE, folder / "source")
    build = "from setuptools import build_meta; build_meta.build_wheel('..')"
    subprocess.run(
        [sys.executable, "-c", build], cwd=folder / "source", check=True, capture_output=True
    )
    [archive] = folder.glob("*.whl")
    zipfile.ZipFile(archive).extractall(folder / "site")
    return folder / "site"


@pytest.fixture
def installed(wheel: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.syspath_prepend(str(wheel))
    yield wheel
    _forget("tsc_sharpness")


def _forget(package: str) -> None:
    for name in [n for n in sys.modules if n == package or n.startswith(f"{package}.")]:
        del sys.modules[name]


def test_the_example_is_listed_asked_drawn_and_read_back(
    installed: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert main(["list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    [entry] = listed["plugins"]
    assert (entry["name"], entry["package"]) == ("sharpness", "tsc-sharpness 0.1")
    assert listed["broken_plugins"] == []
    assert main(["list"]) == 0
    assert "sharpness" in capsys.readouterr().out

    out = tmp_path / "out"
    asked = ["analyze", "ab", "aab{9}", "--probe", "sharpness", "--probe", "margin", "--tables"]
    assert main([*asked, "-o", str(out)]) == 0
    assert "The sharpest is layer 0 head" in capsys.readouterr().out
    page = (out / "index.html").read_text()
    assert 'id="sharpness-sharpness"' in page
    assert "How sharply heads look" in page
    report = Report.from_json((out / "report.json").read_text())
    assert report == tsc.analyze("walkthrough", ["ab", "aab{9}"], probes=["sharpness", "margin"])
    assert report.figures["sharpness"][0].name == "sharpness"
    # Installed is not asked for: what is on this machine changes nobody's reports.
    monkeypatch.setattr("tsc_interp.report.string_subject.PROBES", (find_probe("trace"),))
    assert tsc.analyze("walkthrough", ["ab"]).probe_names() == ["trace"]


def test_the_example_reads_any_model(installed: Path) -> None:
    """Oracle: the weights of equal tokens added up, by hand, from the cache."""
    model = transformer_lens_model()
    report = tsc.analyze(model, TOKENS, probes=["sharpness"], query=QUERY)
    result: Any = report["sharpness"]
    pattern = model.run_with_cache(TOKENS)[1]["blocks.1.attn.hook_pattern"].detach().numpy()
    for row in range(len(TOKENS)):
        weights: dict[int, float] = {}
        for key, token in enumerate(TOKENS[row].tolist()):
            weights[token] = weights.get(token, 0.0) + float(pattern[row, 0, QUERY, key])
        got = float(result.sharpness.array[2, row])
        assert result.sharpness.labels["head"][2] == "layer 1 head 0"
        assert got == pytest.approx(max(weights.values()), abs=1e-6)
    assert np.isfinite(result.sharpness.array).all()


def test_the_example_s_own_tests_pass(installed: Path) -> None:
    tests = runpy.run_path(str(EXAMPLE / "tests" / "test_sharpness.py"))
    ran = [check() for name, check in tests.items() if name.startswith("test_")]
    assert len(ran) == 2


def test_a_report_of_a_probe_that_is_gone_says_so(
    wheel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.syspath_prepend(str(wheel))
        text = tsc.analyze("walkthrough", ["ab"], probes=["sharpness"]).to_json()
    _forget("tsc_sharpness")
    with pytest.raises(UsageError, match=r"not installed here: no probe 'sharpness'"):
        Report.from_json(text)


# -- what is broken ------------------------------------------------------------------------------

GOOD = """
from typing import ClassVar
from tsc_interp.probes.probe import Probe, probe
from tsc_interp.results.base import Finding, ProbeResult
class R(ProbeResult):
    probe: ClassVar[str] = {name!r}
    def conclude(self):
        yield Finding.of("fine")
@probe(R, title="T", question="Q?")
def PROBE(inputs):
    return R()
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Write a package with an entry point into a folder that Python looks in."""
    made = []

    def one(package: str, name: str, text: str = GOOD) -> None:
        made.append(package)
        (tmp_path / f"{package}.py").write_text(text.replace("{name!r}", repr(name)))
        info = tmp_path / f"{package}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[tsc_interp.probes]\n{name} = {package}:PROBE\n")

    monkeypatch.syspath_prepend(str(tmp_path))
    yield one
    for package in made:
        _forget(package)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("import nowhere", "No module named 'nowhere'"),
        ("PROBE = 3", "expected a tsc_interp.probes.probe.Probe"),
        ("x = 1", "AttributeError"),
        ("raise SystemError('two\\nlines')", "SystemError: two"),
        (GOOD.replace("{name!r}", "'other'"), "is called 'other'"),
        (GOOD + "PROBE = Probe(name={name!r}, title='T', question='Q?')", "has no function"),
        (GOOD.replace("@probe(R,", "@probe(int, name={name!r},"), "int is no ProbeResult"),
        (GOOD + "R.probe = 'margin'", "R.probe is 'margin'"),
        (GOOD.replace('"Q?")', '"Q?", accepts=("colour",))'), "accepts colour; a probe may"),
    ],
)
def test_what_cannot_be_loaded_is_one_line_and_stops_nobody(
    install: Any, text: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    install("fine_one", "fine")
    install("bad_one", "bad", text)
    found = plugins()
    assert [probe.name for probe in found.probes] == ["fine"]
    [broken] = found.broken
    assert broken.package == "bad_one 1.0"
    assert words in broken.reason
    assert "\n" not in broken.sentence()
    with pytest.raises(UsageError, match=r"the probe bad of bad_one 1.0 cannot be loaded"):
        find_probe("bad")
    assert main(["list"]) == 0
    assert "bad_one" in capsys.readouterr().out
    assert main(["analyze", "--probe", "bad"]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) <= 3


def test_names_that_are_taken_are_refused(install: Any) -> None:
    install("first_one", "margin")
    install("second_one", "twice")
    install("third_one", "twice")
    found = plugins()
    assert found.probes == ()
    assert sorted(one.name for one in found.broken) == ["margin", "twice", "twice"]
    assert not find_probe("margin").external
    with pytest.raises(UsageError, match="another package has a probe of this name"):
        find_probe("twice")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (GOOD.replace("return R()", "return {}['x']"), "KeyError"),
        (GOOD.replace("return R()", "return 5"), "run gave a int, expected R"),
        (GOOD + "R.drawn = lambda result: [1 / 0]", "ZeroDivisionError"),
        (GOOD + "R.drawn = lambda result: ['a']", "figures gave a str"),
        (GOOD + "R.to_dict = lambda result: {}", "a result of probe None"),
    ],
)
def test_one_that_fails_when_asked_is_one_line_and_stops_nobody(
    install: Any, text: str, words: str
) -> None:
    install("bad_one", "bad", text)
    with pytest.raises(TscError, match="probe bad failed") as caught:
        tsc.analyze("walkthrough", ["ab"], probes=["bad"])
    assert words in str(caught.value)
    report = tsc.analyze("walkthrough", ["ab"], probes=["bad", "specialization"])
    assert list(report.models[0].sections) == ["specialization"]
    assert words in report.models[0].not_run["bad"]
