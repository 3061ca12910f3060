"""Somebody else's text, made safe to look at.

Names of files and models, metadata and strings may hold anything: escape sequences that repaint a
terminal, a line end that fakes a line of output, characters that turn the reading direction, lone
surrogates that no encoding can write.
"""

from __future__ import annotations

import codecs
from typing import TextIO

# What our own sentences use, for terminals that know ASCII only.
_ASCII = {"×": "x", "–": "-", "−": "-", "“": '"', "”": '"', "’": "'", "…": "...", "∞": "inf",
          "≥": ">=", "≤": "<=", "·": "*", "→": "->", "²": "^2"}  # fmt: skip


def visible(text: object, keep: str = "") -> str:
    r"""The text with all that is not printable written as `\x1b`, `\n`, `\u202e` or `\udcff`.

    `keep` stays as it is.
    """
    written = str(text)
    if keep and keep in written:
        return keep.join(map(visible, written.split(keep)))
    if written.isprintable():
        return written
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
        for character in written
    )


def write_everything(stream: TextIO) -> None:
    """Let a stream that cannot encode a character write something legible instead of failing."""
    codecs.register_error("tsc-legible", _legible)
    if hasattr(stream, "reconfigure"):
        stream.reconfigure(errors="tsc-legible")


def _legible(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    unknown = error.object[error.start : error.end]
    written = "".join(
        _ASCII.get(character) or character.encode("ascii", "backslashreplace").decode("ascii")
        for character in unknown
    )
    return written, error.end
