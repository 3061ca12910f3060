"""Names and texts that somebody may give a file, a model or an option."""

from __future__ import annotations

import random

HOSTILE = (
    "[/x]",
    "[bold]loud[/bold]",
    "[link=https://example.org]click[/link]",
    "[red",
    "tsc-interp[images]",
    ":smile:",
    "\x1b[2J\x1b[31mred",
    "\x1b]0;title\x07",
    "\x1b]8;;https://example.org\x1b\\link\x1b]8;;\x1b\\",
    "bell\x07back\x08space",
    "line\nbreak",
    "tsc-interp: all proved\n",
    "carriage\rreturn",
    "tab\tstop",
    "delete\x7f and c1 \x9b31m",
    "right\u202eleft",
    "zero\u200bwidth\u2028line",
    "lone\udcffsurrogate",
    "high\ud800surrogate",
    "<img src=x onerror=alert(1)>",
    "</script><script>alert(1)</script>",
    "[click](javascript:alert(1))",
    "![x](x)",
    "`code` and ``` fence",
    "a | b | c",
    "# heading",
    "**bold** _em_ ~~gone~~",
    "&lt;b&gt; &amp; &#60;",
    "{{ 7 * 7 }}{% raw %}",
    "$(touch owned) `touch owned`",
    "'; rm -rf x; '",
    "%s %d {0} {name}",
    "--help",
    "-",
    " ",
    "日本語 العربية é",
    "a" * 300,
    "é" * 200,
    "\\x1b \\u202e",
    "<b>bold</b><a href='https://example.org'>a</a><br>x",
)


def hostile(rng: random.Random) -> str:
    """One of them, two joined, or anything at all."""
    kind = rng.random()
    if kind < 0.5:
        return rng.choice(HOSTILE)
    if kind < 0.7:
        return rng.choice(HOSTILE) + rng.choice(HOSTILE)
    return "".join(chr(rng.choice([rng.randrange(1, 128), rng.randrange(1, 0x110000)]))
                   for _ in range(rng.randrange(1, 40)))  # fmt: skip


def file_name(rng: random.Random, suffix: str = "") -> str:
    """A hostile text that a file system takes as one name."""
    name = hostile(rng).replace("/", "_").replace("\0", "_") + suffix
    data = name.encode("utf-8", "surrogatepass")[-200:]
    return data.decode("utf-8", "surrogateescape")
