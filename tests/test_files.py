"""Output never destroys: every command that writes, on every kind of thing that may be in the way.

What is in the way is looked at before and after. The oracle is the directory itself.
"""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

import pytest

import tsc_interp as tsc
from tests.report.test_import import as_the_report_stores_it
from tsc_interp.checkpoints import read_checkpoint
from tsc_interp.checkpoints.locate import bundled_path
from tsc_interp.cli import main
from tsc_interp.config import ClassifierConfig
from tsc_interp.errors import OutputError, UsageError
from tsc_interp.files import TEMPORARY, write_atomically
from tsc_interp.report import files as report_files

PRECIOUS = b"the only copy\n"


@pytest.fixture
def model(tmp_path) -> Path:
    path = tmp_path / "in" / "model.safetensors"
    path.parent.mkdir()
    path.write_bytes(bundled_path("walkthrough").read_bytes())
    return path


@pytest.fixture
def source_model(tmp_path) -> Path:
    import torch

    path = tmp_path / "in" / "model.pt"
    path.parent.mkdir(exist_ok=True)
    torch.save(as_the_report_stores_it(ClassifierConfig()), path)
    return path


def seen(directory: Path) -> dict[str, tuple[int, object]]:
    """Every entry below a directory: its kind, and its content or target."""
    found: dict[str, tuple[int, object]] = {}
    for path in sorted(directory.rglob("*")):
        mode = path.lstat().st_mode
        content: object = None
        if stat.S_ISLNK(mode):
            content = os.readlink(path)
        elif stat.S_ISREG(mode):
            content = path.read_bytes()
        found[str(path.relative_to(directory))] = (stat.S_IFMT(mode), content)
    return found


def commands(request) -> dict[str, list[str]]:
    model = str(request.getfixturevalue("model"))
    return {
        "verify": ["verify", "-c", model, "-L", "3", "--certify", "--no-replay", "--out"],
        "playground": ["playground", "-c", model, "--out"],
        "analyze": ["analyze", "-c", model, "-p", "trace", "aac", "--format", "json", "--out"],
        "import": ["import", str(request.getfixturevalue("source_model")), "--out"],
    }


def in_the_way(kind: str, path: Path) -> None:
    elsewhere = path.with_name("elsewhere")
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(os.path.relpath(path))
    elif kind == "link to a file":
        elsewhere.write_bytes(PRECIOUS)
        path.symlink_to(elsewhere)
    elif kind == "link to a folder":
        elsewhere.mkdir()
        path.symlink_to(elsewhere)
    elif kind == "broken link":
        path.symlink_to(path.with_name("nothing"))
    elif kind == "link to a device":
        path.symlink_to(os.devnull)


KINDS = ["pipe", "socket", "link to a file", "link to a folder", "broken link", "link to a device"]


@pytest.mark.parametrize("force", [[], ["--force"]], ids=["", "force"])
@pytest.mark.parametrize("name", ["verify", "playground", "analyze", "import"])
def test_only_files_and_folders_are_ever_replaced(name, force, request, tmp_path, capsys):
    command = commands(request)[name]
    for kind in KINDS:
        place = tmp_path / kind
        place.mkdir()
        in_the_way(kind, place / "out")
        before = seen(place)
        assert main([*command, str(place / "out"), *force]) == 2, kind
        assert "only regular files and folders are ever replaced" in capsys.readouterr().err
        assert seen(place) == before, kind


@pytest.mark.parametrize("name", ["verify", "playground", "import"])
def test_somebody_elses_file_needs_force(name, request, tmp_path, capsys):
    command, out = commands(request)[name], tmp_path / "out"
    out.write_bytes(PRECIOUS)
    assert main([*command, str(out)]) == 2
    assert "--force" in capsys.readouterr().err
    assert out.read_bytes() == PRECIOUS
    assert main([*command, str(out), "--force"]) in (0, 3)
    ours = out.read_bytes()
    assert ours != PRECIOUS
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
    # What we wrote is replaced unasked, except a checkpoint, which may be the only one.
    assert main([*command, str(out)]) == (2 if name == "import" else 0)
    assert len(out.read_bytes()) == len(ours)
    out.unlink()
    out.mkdir()
    assert main([*command, str(out), "--force"]) == 2
    assert "is a folder" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["verify", "playground", "import"])
def test_the_file_being_read_is_never_the_output(name, request, model, capsys):
    command = commands(request)[name]
    read = Path(command[1]) if name == "import" else model
    before = read.read_bytes()
    for out in (read, read.parent / ".." / read.parent.name / read.name):
        assert main([*command, str(out), "--force"]) == 2
        assert "the very file being read" in capsys.readouterr().err
    os.link(read, read.with_name("other name"))
    assert main([*command, str(read.with_name("other name")), "--force"]) == 2
    assert read.read_bytes() == before


def test_a_compared_model_and_an_epoch_shown_are_read_too(model, tmp_path):
    first = read_checkpoint(model)
    copy = tmp_path / "copy.safetensors"
    first.save(copy)
    second = read_checkpoint(copy)
    for options in ({"compare": second}, {"history": {1: second}}):
        with pytest.raises(UsageError, match="being read"):
            tsc.write_playground(first, copy, force=True, **options)


# -- a folder --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def report():
    return tsc.analyze("walkthrough", ["aac"], probes=["trace"])


def own_pictures(place):
    (place / "images").mkdir()
    (place / "images" / "mine.png").write_bytes(PRECIOUS)


def own_page(place):
    (place / "index.html").write_text("<p>my notes on tsc-interp</p>")


def own_edit(place):
    with (place / "report.json").open("a") as file:
        file.write(" ")


def own_folder(place):
    (place / "chapter").mkdir()


def own_link(place):
    (place / "report.md").symlink_to(place / "report.json")


@pytest.mark.parametrize("add", [own_pictures, own_page, own_edit, own_folder, own_link])
def test_a_report_in_which_somebody_worked_is_kept(add, report, tmp_path):
    """Each of the first three was replaced without a word."""
    place = tmp_path / "r"
    report.save(place, formats=["json"])
    add(place)
    before = seen(place)
    with pytest.raises(UsageError, match="or changed ones"):
        report.save(place, formats=["json"])
    assert seen(place) == before


def test_a_page_that_only_speaks_of_us_is_not_ours(report, tmp_path):
    own_page(tmp_path)
    with pytest.raises(UsageError, match=r"index\.html"):
        report.save(tmp_path)
    assert "my notes" in (tmp_path / "index.html").read_text()


def test_force_writes_among_other_files_and_takes_back_only_its_own(report, tmp_path):
    report.save(tmp_path, formats=["md", "json"])
    own_pictures(tmp_path)
    report.save(tmp_path, formats=["json"], force=True)
    assert set(seen(tmp_path)) == {"images", "images/mine.png", "report.json", report_files.MARK}
    assert (tmp_path / "images" / "mine.png").read_bytes() == PRECIOUS


@pytest.mark.parametrize("obstacle", ["link", "folder", "pipe"])
def test_force_stops_at_what_is_no_file_before_it_changes_anything(obstacle, report, tmp_path):
    (tmp_path / "index.html").write_bytes(PRECIOUS)
    (tmp_path / "target").write_bytes(PRECIOUS)
    where = tmp_path / "report.md"
    {"link": lambda: where.symlink_to("target"), "folder": where.mkdir,
     "pipe": lambda: os.mkfifo(where)}[obstacle]()  # fmt: skip
    before = seen(tmp_path)
    with pytest.raises(UsageError):
        report.save(tmp_path, force=True)
    assert seen(tmp_path) == before


class Disk:
    """Renames until a given one, which fails; those after it fail too if it is `broken`."""

    def __init__(self, monkeypatch, failing: int, broken: bool = False) -> None:
        self.rename, self.calls, self.failing, self.broken = os.replace, 0, failing, broken
        monkeypatch.setattr("os.replace", self)

    def __call__(self, source, target):
        self.calls += 1
        if self.calls == self.failing or (self.broken and self.calls > self.failing):
            raise OSError(28, "No space left on device")
        self.rename(source, target)


@pytest.mark.parametrize(("force", "moves"), [(False, 6), (True, 7)], ids=["ours", "mixed"])
def test_nothing_was_changed_is_said_only_when_true(force, moves, report, tmp_path, monkeypatch):
    """Fail at every move, with and without other files there."""
    report.save(tmp_path, formats=["json", "md"])
    if force:
        (tmp_path / "index.html").write_bytes(PRECIOUS)
    before = seen(tmp_path)
    for failing in range(1, moves + 1):
        with monkeypatch.context() as patched:
            Disk(patched, failing)
            with pytest.raises(OutputError, match="No space left on device; nothing was changed"):
                report.save(tmp_path, formats=["html", "json"], plotlyjs="cdn", force=force)
        assert seen(tmp_path) == before
    with monkeypatch.context() as patched:
        disk = Disk(patched, moves + 1)
        report.save(tmp_path, formats=["html", "json"], plotlyjs="cdn", force=force)
        assert disk.calls == moves


def test_when_not_even_putting_back_works_the_message_says_where_things_are(
    report, tmp_path, monkeypatch
):
    report.save(tmp_path, formats=["json"])
    before = (tmp_path / "report.json").read_bytes()
    Disk(monkeypatch, 5, broken=True)
    with pytest.raises(OutputError, match="some files were replaced") as caught:
        report.save(tmp_path)
    assert "nothing was changed" not in str(caught.value)
    kept = Path(str(caught.value).rsplit(" is in ")[1])
    assert (kept / "report.json").read_bytes() == before


def test_the_current_folder_can_hold_the_report(report, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    report.save(".", formats=["json"])
    report.save(".", formats=["json"])
    assert set(seen(tmp_path)) == {"report.json", report_files.MARK}


# -- writing itself --------------------------------------------------------------------------


def test_a_failed_write_leaves_no_folders_behind(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(OSError, match="No space"):
        write_atomically(tmp_path / "a" / "b" / "file", b"content")
    assert seen(tmp_path) == {}


def test_a_durable_write_also_syncs_the_folder_behind_the_rename(tmp_path, monkeypatch):
    """Without it a power failure can leave the old name, however well the content was written."""
    synced, real = [], os.fsync

    def sync(handle):
        synced.append((stat.S_ISDIR(os.fstat(handle).st_mode), (tmp_path / "file").exists()))
        real(handle)

    monkeypatch.setattr("os.fsync", sync)
    write_atomically(tmp_path / "file", b"content")
    assert synced == [(False, False), (True, True)]
    write_atomically(tmp_path / "other", b"content", durable=False)
    assert len(synced) == 2


@pytest.mark.parametrize("length", [200, 250, 255])
def test_long_names_can_be_written(length, tmp_path):
    """The temporary name was the name and more, so 250 characters were too many."""
    write_atomically(tmp_path / ("n" * length), b"content")
    assert [len(path.name) for path in tmp_path.iterdir()] == [length]


def test_impossible_names_are_told_plainly(tmp_path, model):
    checkpoint = read_checkpoint(model)
    for name, kind in (("n" * 256, OutputError), ("nul\0byte", UsageError)):
        with pytest.raises(kind) as caught:
            checkpoint.save(tmp_path / name)
        assert len(str(caught.value)) < 250


def test_files_get_the_permissions_the_user_asked_for(tmp_path):
    before = os.umask(0o027)
    try:
        write_atomically(tmp_path / "file", b"content")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o640
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(TEMPORARY)]
