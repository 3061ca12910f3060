"""Only the description that a package index shows; everything else is in pyproject.toml.

An index has neither our pictures nor our files: a picture becomes its description, and a link into
the repository becomes its text.
"""

import re
from pathlib import Path

from setuptools import setup


def for_an_index(readme: str) -> str:
    without_pictures = re.sub(r"!\[([^\]]*)\]\([^)]*\)", r"*\1*", readme)
    return re.sub(r"\[([^\]]*)\]\((?!https?://)[^)]*\)", r"\1", without_pictures)


setup(
    long_description=for_an_index(Path(__file__).with_name("README.md").read_text("utf-8")),
    long_description_content_type="text/markdown",
)
