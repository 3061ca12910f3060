"""What BigBird's parts let a model express: how many layers until one position depends on another.

Position q reads position k where the pattern has a link. After L layers the state at q depends on
nothing farther than L links, whatever the weights. So the number of layers at which CLS can depend
on every letter, or every letter on every other, is a length of paths: exact, and least. That a
model with so many layers also learns it is another question.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import shortest_path

from tsc_interp.laboratories.base import LabeledArray
from tsc_interp.laboratories.efficient.result import PARTS, TARGETS, EfficientOptions

SIDE, RANDOM = 3, 2
"""Positions read on either side, and anywhere, by each position."""
_OF = {  # random links, CLS reads all, letters read CLS
    PARTS[0]: (False, False, False),
    PARTS[1]: (True, False, False),
    PARTS[2]: (False, True, False),
    PARTS[3]: (False, True, True),
    PARTS[4]: (True, True, True),
}


def links(parts: str, length: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Return `[query key]`: who reads whom, CLS at 0 and then the letters.

    Args:
        parts: One of `PARTS`.
        length: Letters.
        rng: For the random part.
    """
    anywhere, reads_all, is_read = _OF[parts]
    places = np.arange(length + 1)
    linked = np.abs(places[:, None] - places) <= SIDE
    if anywhere:
        chosen = rng.integers(length + 1, size=(length + 1, RANDOM))
        linked[places[:, None], chosen] = True
    # Only the global part makes letters read CLS, or CLS read what is not next to it.
    linked[1:, 0] = is_read
    linked[0] |= reads_all
    return np.asarray(linked)


def layers(linked: NDArray[np.bool_]) -> tuple[float, float]:
    """Return the layers until CLS depends on every letter, and every letter on every other."""
    away = shortest_path(csr_array(linked), unweighted=True)
    return float(away[0, 1:].max()), float(away[1:, 1:].max())


def study(asked: EfficientOptions) -> LabeledArray:
    """Return the layers for each form and length."""
    depths = [
        [layers(links(parts, n, np.random.default_rng([asked.seed, 7, n]))) for n in asked.lengths]
        for parts in PARTS
    ]
    return LabeledArray.of(depths, parts=PARTS, length=asked.lengths, target=TARGETS)
