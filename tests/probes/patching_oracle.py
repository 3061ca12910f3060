"""A slow, separate forward pass of one layer, in plain numpy; any value can be replaced."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import erf

from tsc_interp.config import ClassifierConfig


def gelu(x: np.ndarray) -> np.ndarray:
    return x * 0.5 * (1 + erf(x / np.sqrt(2)))


class OneLayer:
    """What CLS makes of a string, value by value; `replaced` overrides any of them."""

    def __init__(self, config: ClassifierConfig, weights: dict[str, Any]) -> None:
        assert config.n_layers == 1
        assert not config.attend_cls
        self.config = config
        self.w = {name: np.asarray(w, dtype=np.float64) for name, w in weights.items()}

    def values(self, string: str, replaced: dict[tuple, Any] | None = None) -> dict[tuple, Any]:
        """Keys: ("score", head, letter), ("pattern", head), ("z", head), ("heard", neuron, head),
        ("heard", "logit", head), ("attn_out",), ("resid_mid",), ("post", n), ("mlp_out",),
        ("said", n) what the logit hears of a neuron, ("resid_post",), ("logit",)."""
        w, out, new = self.w, {}, replaced or {}

        def put(key: tuple, value: Any) -> Any:
            out[key] = new.get(key, value)
            return out[key]

        counts = self.config.alphabet.counts(string)
        embedded = w["embed.W_E"]
        cls, letters = embedded[0], embedded[2:]
        attention = np.zeros(self.config.d_model)
        for h in range(self.config.n_heads):
            query = cls @ w["blocks.0.attn.W_Q"][h]
            scores = []
            for t, letter in enumerate(letters):
                score = query @ (letter @ w["blocks.0.attn.W_K"][h]) / np.sqrt(self.config.d_head)
                with np.errstate(divide="ignore"):
                    scores.append(put(("score", h, t), score + np.log(float(counts[t]))))
            odds = np.exp(np.array(scores) - max(scores))
            pattern = put(("pattern", h), odds / odds.sum())
            z = put(("z", h), pattern @ (letters @ w["blocks.0.attn.W_V"][h]))
            attention = attention + z @ w["blocks.0.attn.W_O"][h]
        attention = put(("attn_out",), attention)
        middle = put(("resid_mid",), cls + attention)
        added = np.zeros(self.config.d_model)
        said = np.zeros(self.config.d_model)
        for n in range(self.config.d_mlp):
            read = middle
            for h in range(self.config.n_heads):
                heard = put(("heard", n, h), out["z", h])
                read = read + (heard - out["z", h]) @ w["blocks.0.attn.W_O"][h]
            post = put(("post", n), gelu(read @ w["blocks.0.mlp.W_in"][:, n]))
            added = added + post * w["blocks.0.mlp.W_out"][n]
            said = said + (put(("said", n), post) - post) * w["blocks.0.mlp.W_out"][n]
        added = put(("mlp_out",), added)
        last = put(("resid_post",), middle + added)
        for h in range(self.config.n_heads):
            heard = put(("heard", "logit", h), out["z", h])
            last = last + (heard - out["z", h]) @ w["blocks.0.attn.W_O"][h]
        out["logit",] = float((last + said) @ w["unembed.W_U"][:, 0])
        return out

    def effect(self, clean: str, corrupted: str, key: tuple, source: tuple | None = None) -> float:
        """(patched - corrupted) / (clean - corrupted), `key` taking `source`'s clean value."""
        right, wrong = self.values(clean), self.values(corrupted)
        patched = self.values(corrupted, {key: right[source or key]})
        below = right["logit",] - wrong["logit",]
        return (patched["logit",] - wrong["logit",]) / below
