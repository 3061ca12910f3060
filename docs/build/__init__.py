"""What the pages include, made by running the code: `python -m docs.build`.

Everything is written to `docs/pages/generated`, which is not kept in git, so nothing in the site
can be older than the code it talks about. `mkdocs build --strict` then fails on anything missing.
"""

import os

# Before torch is imported: more threads than cores only get in each other's way.
os.environ.setdefault("OMP_NUM_THREADS", "1")
