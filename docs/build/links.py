"""Links that lead nowhere: every page of the built site, every `href` and `src` in it.

A link must name a file of the site and, with `#`, something in it. A link from the root of a host
(`/assets/...`) is broken wherever the site stands in a folder, and from disk.
"""

from __future__ import annotations

from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """What a page links to, and what can be linked to in it."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.anchors |= {given[name] or "" for name in ("id", "name") if name in given}
        self.links += [link for name in ("href", "src") if (link := given.get(name))]


def broken_links(site: Path) -> Iterator[str]:
    pages = {path: Page(path) for path in sorted(site.resolve().rglob("*.html"))}
    for path, page in pages.items():
        for link in page.links:
            if problem := _problem(path, link, pages):
                yield f"{path.relative_to(site.resolve()).as_posix()} links to {link}: {problem}"


def _problem(path: Path, link: str, pages: dict[Path, Page]) -> str | None:
    parts = urlsplit(link)
    if parts.scheme or link.startswith("//"):
        return None  # elsewhere; what is loaded from there is another check's concern
    if link.startswith("/"):
        return "from the root of a host, where the site need not stand"
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if not target.exists():
        return "there is no such file"
    anchor = unquote(parts.fragment)
    # Material's own controls, made by its script.
    if anchor and target in pages and not anchor.startswith("__"):
        return None if anchor in pages[target].anchors else "there is no such place in it"
    return None
