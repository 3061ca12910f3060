"""The description that a package index shows, and Coq's library; the rest is in pyproject.toml.

An index has neither our pictures nor our files: a picture becomes its description, and a link into
the repository becomes its text.
"""

import re
import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


def for_an_index(readme: str) -> str:
    without_pictures = re.sub(r"!\[([^\]]*)\]\([^)]*\)", r"*\1*", readme)
    return re.sub(r"\[([^\]]*)\]\((?!https?://)[^)]*\)", r"\1", without_pictures)


class WithCoq(build_py):
    """An installed package has the folder `formal/` inside: `tsc.theorem` copies it."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            target = Path(self.build_lib) / "tsc_interp/formal/coq"
            target.mkdir(parents=True, exist_ok=True)
            for pattern in ("*.v", "*.txt"):
                for source in Path(__file__).with_name("formal").glob(pattern):
                    shutil.copy(source, target)


setup(
    cmdclass={"build_py": WithCoq},
    long_description=for_an_index(Path(__file__).with_name("README.md").read_text("utf-8")),
    long_description_content_type="text/markdown",
)
