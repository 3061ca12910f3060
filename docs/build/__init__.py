"""What the pages include, made by running the code: `python -m docs.build`.

Text and figures go to `docs/generated`, where pages include them from; what is served as it stands
(plotly.js, playgrounds) to `docs/pages/generated`. Neither is kept in git, so nothing in the site
can be older than the code it talks about. `mkdocs build --strict` then fails on anything missing.
"""

import os

# Before torch is imported: more threads than cores only get in each other's way.
os.environ.setdefault("OMP_NUM_THREADS", "1")
