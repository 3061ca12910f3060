"""A Markdown extension: `$x^2$` in a line and `$$x^2$$` by itself become MathML.

It happens when the site is built. Browsers set MathML themselves, so a page needs
no script and no network for it.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as etree
from typing import Any

from latex2mathml.converter import convert
from markdown import Extension, Markdown
from markdown.inlinepatterns import InlineProcessor

_DISPLAYED = r"\$\$(.+?)\$\$"
_INLINE = r"(?<![\\$\w])\$(?=\S)([^$\n]+?)(?<=\S)\$(?!\w)"

_TALL = re.compile(r'<mo (?:stretchy="true"|minsize="[^"]*" maxsize="[^"]*")')
"""Brackets around fractions. Browsers stretch them by a math font only, so the style does it."""


class FormulaExtension(Extension):
    def extendMarkdown(self, md: Markdown) -> None:
        # After code, in which nothing is a formula, and before backslashes are taken for escapes.
        md.inlinePatterns.register(Displayed(_DISPLAYED, md), "formula-displayed", 187)
        md.inlinePatterns.register(Inline(_INLINE, md), "formula", 186)


class Inline(InlineProcessor):
    display = "inline"

    def handleMatch(self, m: Any, data: str) -> tuple[Any, int, int]:
        written = convert(m[1].strip(), display=self.display)
        written = _TALL.sub('<mo class="tall" stretchy="false"', written)
        return self.made(self.md.htmlStash.store(written)), m.start(0), m.end(0)

    def made(self, placeholder: str) -> Any:
        return placeholder


class Displayed(Inline):
    display = "block"

    def made(self, placeholder: str) -> Any:
        # Wider than a phone: it scrolls by itself, also by keyboard.
        element = etree.Element("span", {"class": "formula", "tabindex": "0"})
        element.text = placeholder
        return element


def makeExtension(**options: Any) -> FormulaExtension:
    return FormulaExtension(**options)
