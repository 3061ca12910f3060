"""The count of lines behind `make lines`."""

from __future__ import annotations

from pathlib import Path

from tests.lines import measured, rooms


def test_rooms_are_counted_by_folder(tmp_path: Path) -> None:
    for name, text in {
        "tsc_interp/__init__.py": "a\nb\n",
        "tsc_interp/trusted/one.py": "a\n\nb",
        "tsc_interp/cli/deep/two.py": "a\n",
        "tests/cli/test_it.py": "a\nb\nc\nd\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    counts = rooms(tmp_path)
    assert counts == {
        "tsc_interp/(top)": (1, 2),
        "tsc_interp/trusted": (1, 3),
        "tsc_interp/cli": (1, 1),
        "tests": (1, 4),
    }
    assert measured(counts) == {
        "package-lines": 6,
        "package-files": 3,
        "trusted-lines": 3,
        "test-lines": 4,
    }
