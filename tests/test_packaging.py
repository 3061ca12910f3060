"""The source distribution: complete, its tests run from it, and its description stands alone."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
from email import message_from_string
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# For this repository only: a package needs neither.
NOT_SHIPPED = {".ci/run", ".gitignore", ".pre-commit-config.yaml", "docs/.gitignore"}
GENERATED = ("__pycache__", ".egg-info", ".venv", ".hypothesis", "_cache", "docs/generated/")


def sources() -> list[str]:
    """The files of the repository; in an unpacked sdist, the files that are there."""
    if (ROOT / ".git").exists():
        listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
        found = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout
        return [name for name in found.splitlines() if (ROOT / name).is_file()]
    names = [path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*") if path.is_file()]
    made = ("PKG-INFO", "setup.cfg")
    return [name for name in names if name not in made and not any(g in name for g in GENERATED)]


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sdist, built from a copy so that nothing is left here, and unpacked."""
    folder = tmp_path_factory.mktemp("sdist")
    for name in sources():
        (folder / "src" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / "src" / name)
    build = "from setuptools import build_meta; build_meta.build_sdist('..')"
    subprocess.run(
        [sys.executable, "-c", build], cwd=folder / "src", check=True, capture_output=True
    )
    [archive] = folder.glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    return folder / archive.name.removesuffix(".tar.gz")


def test_every_file_is_in_the_sdist(unpacked: Path) -> None:
    missing = [name for name in sources() if not (unpacked / name).is_file()]
    assert set(missing) <= NOT_SHIPPED


def test_tests_run_from_the_sdist(unpacked: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
    environment = {**os.environ, "PYTHONPATH": str(unpacked)}
    command += ["tests/test_strings.py"]
    ran = subprocess.run(
        command, cwd=unpacked, env=environment, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout[-2000:] + ran.stderr[-2000:]


def test_the_description_needs_nothing_from_the_repository(unpacked: Path) -> None:
    """A package index shows it without our pictures and files, so it must not point to them."""
    metadata = message_from_string((unpacked / "PKG-INFO").read_text("utf-8"))
    description = metadata.get_payload()
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert description.lstrip().startswith("# tsc-interp")
    assert "](" in description
    assert all(url.startswith("https://") for url in re.findall(r"\]\(([^)]*)\)", description))
    assert "![" not in description
    for alternative in re.findall(r"!\[([^\]]*)\]", (ROOT / "README.md").read_text("utf-8")):
        assert f"*{alternative}*" in description


def test_links_in_the_readme_lead_somewhere() -> None:
    for page in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "benchmarks/README.md"):
        text = (ROOT / page).read_text("utf-8")
        for target in re.findall(r"\]\((?!https?://|#)([^)#]*)", text):
            assert (ROOT / page).parent.joinpath(target).exists(), f"{page} links to {target}"


def test_urls_are_ones_we_know() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    # No address of this project itself is known, so none is given.
    assert project["urls"] == {"Source report": "https://github.com/rstebbing/workshop"}
