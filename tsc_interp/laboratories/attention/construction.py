"""Three inputs, four orthogonal vectors of norm γ, and the matrices that read them.

    x_1 = u_d + u_b   x_2 = u_a   x_3 = u_c + u_b     wanted: c_1 = u_b - u_c, c_2 = u_b
    K = I   Q = (u_d u_aᵀ ± u_c u_dᵀ) / γ²   V = (u_b u_bᵀ - u_c u_cᵀ) / γ²

Everything is said in units of the u, so a vector is four coefficients and u·u is γ².
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

Floats = NDArray[np.float64]
VECTORS = ("u_a", "u_b", "u_c", "u_d")
U_A, U_B, U_C, U_D = np.eye(4)
WANTED = np.array([U_B - U_C, U_B])
SIGNS = {"as printed (-)": -1.0, "mended (+)": 1.0}
OUTPUTS = ("c_1", "c_2")


def inputs(x_2: Floats = U_A) -> Floats:
    return np.array([U_D + U_B, x_2, U_C + U_B])


def attend(queries: Floats, keys: Floats, values: Floats, gamma: float) -> Floats:
    """Rows are positions; scores are dot products of the vectors themselves."""
    return np.asarray(softmax(gamma**2 * queries @ keys.T, axis=1) @ values)


def outputs(sign: float, gamma: float) -> Floats:
    """`[output vector]`: c_1 and c_2 with the matrices; `sign` stands before u_c u_dᵀ."""
    x = inputs()
    q = np.outer(U_D, U_A) + sign * np.outer(U_C, U_D)
    v = np.outer(U_B, U_B) - np.outer(U_C, U_C)
    return attend(x @ q.T, x, x @ v.T, gamma)[:2]


def plain(added: Floats, multiple: float, gamma: float) -> tuple[Floats, float]:
    """c_2 with x itself as queries, keys and values, and by how much x_2's own score leads."""
    x = inputs(U_A + multiple * added)
    scores = x[1] @ x.T
    return attend(x, x, x, gamma)[1], float(scores[1] - max(scores[0], scores[2]))
