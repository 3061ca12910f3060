"""What the documentation says of the code is read off the code."""

from __future__ import annotations

from xml.etree import ElementTree

from docs.build.rooms import PICTURE, draw
from docs.build.trusted import FOLDER, trusted_files
from tests.test_rooms import VERIFICATION


def test_the_trusted_files_are_those_of_the_folder():
    table = trusted_files()
    for path in FOLDER.glob("*.py"):
        listed = f"| `{path.name}` | {len(path.read_text().splitlines())} |" in table
        assert listed == (path.stem != "__init__")


def test_the_picture_shows_every_room():
    drawn = ElementTree.fromstring(draw())
    texts = {element.text for element in drawn.iter() if element.tag.endswith("text")}
    assert {*VERIFICATION, "top", "model", "verification", "cli"} <= texts
    lines = {element.text for element in drawn.iter() if element.tag.endswith("title")}
    assert any(line.startswith("report imports from") for line in lines)
    assert not any(line.startswith("trusted imports from") for line in lines)
    ElementTree.parse(PICTURE)
