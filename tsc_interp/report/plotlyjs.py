"""How a page gets plotly's JavaScript: in itself, from a network, or from a file beside it."""

from __future__ import annotations

import base64
import gzip
import hashlib
from functools import cache

from markupsafe import Markup

from tsc_interp.errors import UsageError

PLOTLYJS = ("inline", "cdn", "directory")
PLOTLY_FILE = "plotly.min.js"


def check_plotlyjs(how: str) -> None:
    if how not in PLOTLYJS:
        raise UsageError(f"plotlyjs is one of {', '.join(PLOTLYJS)}; got {how!r}")


@cache
def plotly_script(how: str) -> Markup:
    """The element that brings the library into a page."""
    from plotly.offline import get_plotlyjs, get_plotlyjs_version

    check_plotlyjs(how)
    if how == "cdn":
        address = f"https://cdn.plot.ly/plotly-{get_plotlyjs_version()}.min.js"
        # The file there is the one that plotly brings along: a browser refuses any other.
        digest = base64.b64encode(hashlib.sha384(get_plotlyjs().encode()).digest()).decode()
        return Markup(
            f'<script src="{address}" integrity="sha384-{digest}" crossorigin="anonymous"></script>'
        )
    if how == "directory":
        return Markup(f'<script src="{PLOTLY_FILE}"></script>')
    # Packed, it is 1.9 MB instead of 4.7; page.js unpacks it.
    packed = gzip.compress(get_plotlyjs().encode(), compresslevel=9, mtime=0)
    return Markup(
        f'<script type="application/gzip" id="plotly">{base64.b64encode(packed).decode()}</script>'
    )
