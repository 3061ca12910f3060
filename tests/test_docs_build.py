"""What the documentation says of the code is read off the code."""

from __future__ import annotations

from xml.etree import ElementTree

from docs.build.rooms import PICTURE, draw
from docs.build.trusted import CHECKER, needed_by, trusted_files
from tests.test_rooms import VERIFICATION


def test_the_trusted_files_are_those_of_the_folder():
    table = trusted_files()
    for path in CHECKER.glob("*.py"):
        listed = f"| `{path.name}` | {len(path.read_text().splitlines())} |" in table
        assert listed == (path.stem != "__init__")


def test_what_a_certificate_rests_on_is_followed_through_imports():
    needed = needed_by("check")
    assert {"check", "claims", "coverage", "kernel", "document"} <= needed
    assert not {"agreement", "identity", "trellis"} & needed
    assert needed < needed_by("agreement")


def test_the_picture_shows_every_room():
    drawn = ElementTree.fromstring(draw())
    texts = {element.text for element in drawn.iter() if element.tag.endswith("text")}
    assert {*VERIFICATION, "top", "model", "verification", "cli"} <= texts
    lines = {element.text for element in drawn.iter() if element.tag.endswith("title")}
    assert any(line.startswith("report imports from") for line in lines)
    assert not any(line.startswith("checker imports from bounds") for line in lines)
    ElementTree.parse(PICTURE)
