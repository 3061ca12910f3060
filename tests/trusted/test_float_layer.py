"""What float32 can make of margins: against torch in several orders, and against an adversary."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch

from tests.sizes import many
from tests.trusted.asking import Asked
from tests.trusted.paths import strings
from tests.verification.ordered_models import ordered_checkpoint, wide_config
from tsc_interp.checkpoints import Checkpoint
from tsc_interp.config import ClassifierConfig
from tsc_interp.model.forward import forward
from tsc_interp.model.inputs import from_tokens, token_rows
from tsc_interp.trusted.float_layer import gamma
from tsc_interp.trusted.sets import Sets


def run(checkpoint: Checkpoint, text: str, dtype: torch.dtype) -> tuple[np.ndarray, dict[str, Any]]:
    """Outputs of one string, and what the norms divide by where it is read."""
    config, seen = checkpoint.config, {}
    weights = {n: torch.from_numpy(w.copy()).to(dtype) for n, w in checkpoint.weights.items()}
    inputs = from_tokens(config, torch.from_numpy(token_rows(config, [text])))
    at = 0 if inputs.reading is None else int(inputs.reading[0])

    def keep(name: str, activation: torch.Tensor) -> torch.Tensor:
        if name.endswith("hook_scale") and ".attn." not in name:
            seen[name.split(".hook")[0]] = float(activation[0, at])
        if name == "blocks.0.hook_resid_post":
            x = activation[0, at].double()
            x = x - x.mean() if config.centred_norm else x
            seen["exact scale"] = float((x.square().mean() + config.norm_eps).sqrt())
        return activation

    with torch.no_grad():
        out = forward(config, weights, inputs, tap=keep).reshape(-1).double().numpy()
    return (out if len(out) > 1 else np.array([0.0, out[0]])), seen


def shuffled(checkpoint: Checkpoint, seed: int) -> Checkpoint:
    """The same function with the residual stream and the neurons in another order: other sums."""
    rng, config = np.random.default_rng(seed), checkpoint.config
    d, m = rng.permutation(config.d_model), rng.permutation(max(config.d_mlp, 1))
    moved = {}
    for name, w in checkpoint.weights.items():
        kind = name.rsplit(".", 1)[1]
        if kind in ("W_Q", "W_K", "W_V"):
            moved[name] = w[:, d]
        elif kind in ("W_E", "W_pos", "W_O"):
            moved[name] = w[..., d]
        elif kind in ("W_in", "W_gate"):
            moved[name] = w[d][:, m]
        elif kind == "W_out":
            moved[name] = w[m][:, d]
        elif kind == "b_in":
            moved[name] = w[m]
        elif kind == "W_U":
            moved[name] = w[d]
        else:
            moved[name] = w[d] if w.shape == d.shape and "q_norm" not in name else w
    return Checkpoint(config, moved)


def orders(checkpoint: Checkpoint) -> list[Checkpoint]:
    sinusoidal = checkpoint.config.positions == "sinusoidal"  # a table that cannot be reordered
    head_norms = checkpoint.config.qk_norm == "rms" and (
        checkpoint.config.d_head == checkpoint.config.d_model
    )
    if sinusoidal or head_norms or checkpoint.config.n_outputs == checkpoint.config.d_model:
        return [checkpoint]
    return [checkpoint, *(shuffled(checkpoint, seed) for seed in range(3))]


def text_of(config: ClassifierConfig, string: tuple[int, ...]) -> str:
    return "".join(config.alphabet.letters[letter] for letter in string)


def some_paths(asked: Asked, trellis: Any, rng: Any, edges: int) -> Sets:
    """A set with one reader: at most so many edges of each stage, one of the last."""
    while True:
        chosen = [rng.permutation(len(stage))[:edges] for stage in trellis.stages]
        chosen[-1] = chosen[-1][:1]
        stages = zip(chosen, trellis.stages, strict=True)
        sets = Sets(trellis, [np.isin(np.arange(len(s)), edge)[None] for edge, s in stages])
        if sets.has_paths[0] and asked.judge.order.readers(sets)[0] >= 0:
            return sets


@pytest.mark.parametrize("seed", range(many(10, 48)))
def test_float32_stays_above_the_bound_in_every_order(seed: int) -> None:
    """Sets of one and of several strings, every option; times what the final norm divides by."""
    config = wide_config(seed)
    checkpoint = ordered_checkpoint(config, seed, scale=0.7)
    asked, rng = Asked(checkpoint), np.random.default_rng(seed)
    trellis = asked.trellis(min(4, (config.n_positions or 9) - int(config.has_cls)))
    for edges in (1, 2, 3):
        sets = some_paths(asked, trellis, rng, edges)
        for winner in range(asked.n_classes):
            real, bound = (asked.gaps(sets, winner, float32)[0] for float32 in (False, True))
            assert (np.delete(bound, winner) < np.delete(real, winner)).all()
            if edges == 1:  # 5 % of it: nothing like a bound that is of no use
                assert (real - bound <= 0.05 * np.maximum(np.abs(real), 1.0)).all()
            for string, _ in list(strings(sets, 0))[:2]:
                for one in orders(checkpoint):
                    said, found = run(one, text_of(config, string), torch.float32)
                    scale = found["exact scale"] if config.final_norm else 1.0
                    others = np.arange(len(said)) != winner
                    assert (scale * (said[winner] - said) * (1 + 1e-6) >= bound)[others].all()


# -- an adversary: every rounding as bad as the assumptions allow ------------------------------

U = 2.0**-24


class Adversary:
    """A plain forward pass in float64 that rounds each step as it likes, within the assumptions.

    The errors are `e` times what is allowed, each e in [-1, 1]: taken from the signs of the
    gradient, they are about the worst there are.
    """

    def __init__(self, checkpoint: Checkpoint) -> None:
        written = checkpoint.expanded()
        self.config = written.config
        self.w = {n: torch.from_numpy(w.astype(np.float64)) for n, w in written.weights.items()}
        self.moves: list[torch.Tensor] = []
        self.signs: list[torch.Tensor] | None = None

    def off(self, x: torch.Tensor, allowed: torch.Tensor) -> torch.Tensor:
        if self.signs is None:
            self.moves.append(torch.zeros_like(x, requires_grad=True))
            return x + self.moves[-1] * allowed.detach()
        return x + self.signs.pop(0) * allowed.detach()

    def rounded(self, x: torch.Tensor, units: float = 1.0) -> torch.Tensor:
        return self.off(x, units * U * x.abs())

    def linear(self, x: torch.Tensor, name: str, bias: str = "", head: Any = ...) -> torch.Tensor:
        matrix = self.w[name][head]
        out, reach = x @ matrix, x.abs() @ matrix.abs()
        terms = len(matrix)
        if bias and self.config.biases:
            out, reach = out + self.w[bias][head], reach + self.w[bias][head].abs()
            terms += 1
        return self.off(out, terms * U * reach)

    def norm(self, x: torch.Tensor, name: str) -> torch.Tensor:
        config, d = self.config, x.shape[-1]
        if config.norm == "off":
            return x
        if config.centred_norm:
            mean = self.off(x.mean(-1, keepdim=True), d * U * x.abs().mean(-1, keepdim=True))
            x = self.rounded(x - mean)
        self.scale = (x.square().mean(-1, keepdim=True) + config.norm_eps).sqrt()
        x = self.rounded(x / self.rounded(self.scale, d / 2 + 2), 2)
        if config.learned_norm:
            x = self.rounded(x * self.w[f"{name}.w"])
            if config.centred_norm:
                x = self.rounded(x + self.w[f"{name}.b"])
        return x

    def activation(self, x: torch.Tensor) -> torch.Tensor:
        act = {"relu": torch.relu, "silu": torch.nn.functional.silu}.get(self.config.act_fn)
        gelu = torch.nn.functional.gelu
        form = "tanh" if self.config.act_fn == "gelu_new" else "none"
        units = {"relu": 0.0, "gelu": 8.0, "gelu_new": 24.0, "silu": 12.0}[self.config.act_fn]
        return self.off(act(x) if act else gelu(x, approximate=form), units * U * x.abs())

    def outputs(self, string: tuple[int, ...]) -> torch.Tensor:
        """Read at the last letter, in a model with learned positions or none."""
        config, w, name = self.config, self.w, "blocks.0.attn"
        x = w["embed.W_E"][torch.tensor(string) + 2]
        if config.has_positions:
            x = self.rounded(x + w["pos_embed.W_pos"][: len(string)])
        read, last, heard = self.norm(x, "blocks.0.ln1"), x[-1], []
        for head in range(config.n_heads):
            q, k, v = (
                self.linear(read, f"{name}.W_{part}", f"{name}.b_{part}", head) for part in "QKV"
            )
            reach = k.abs() @ q[-1].abs() * config.d_head * U
            scores = self.rounded(self.off(k @ q[-1], reach) / config.d_head**0.5, 3)
            raw = self.rounded((scores - scores.max()).exp(), 9)
            total = self.rounded(raw.sum(), len(string))
            p = self.rounded(raw / total)
            heard.append(self.off(p @ v, (len(string) * U * p) @ v.abs()))
        if heard:
            flat = torch.cat(heard)
            out = w[f"{name}.W_O"].reshape(-1, config.d_model)
            reach, terms = flat.abs() @ out.abs(), len(out)
            made = flat @ out
            if config.biases:
                made, reach = made + w[f"{name}.b_O"], reach + w[f"{name}.b_O"].abs()
            last = self.rounded(last + self.off(made, (terms + 1) * U * reach))
        if config.has_mlp:
            last = self.rounded(last + self.mlp(self.norm(last, "blocks.0.ln2")))
        self.scale = torch.ones(1)
        last = self.norm(last, "ln_final") if config.final_norm else last
        found = self.linear(last, "unembed.W_U", "unembed.b_U")
        return found if config.n_outputs > 1 else torch.cat([torch.zeros(1), found])

    def mlp(self, read: torch.Tensor) -> torch.Tensor:
        name = "blocks.0.mlp"
        if not self.config.gated_mlp:
            post = self.activation(self.linear(read, f"{name}.W_in", f"{name}.b_in"))
        else:
            gate = self.activation(self.linear(read, f"{name}.W_gate"))
            post = self.rounded(gate * self.linear(read, f"{name}.W_in"))
            if self.config.biases:
                post = self.rounded(post + self.w[f"{name}.b_in"])
        return self.linear(post, f"{name}.W_out", f"{name}.b_out")

    def worst(self, string: tuple[int, ...], a: int, b: int) -> tuple[float, float]:
        """The difference of two outputs times the final scale: real, and as small as can be."""
        self.moves, self.signs = [], None
        found = self.outputs(string)
        real = (found[a] - found[b]) * self.scale.squeeze()
        if not real.requires_grad:
            return float(real), float(real)
        slopes = torch.autograd.grad(real, self.moves, allow_unused=True)
        self.signs = [
            torch.zeros_like(move) if slope is None else -slope.sign()
            for move, slope in zip(self.moves, slopes, strict=True)
        ]
        with torch.no_grad():
            found = self.outputs(string)
        return float(real.detach()), float((found[a] - found[b]) * self.scale.squeeze())


def attacked(seed: int) -> ClassifierConfig:
    """Norms of every kind, gates, biases, several heads, all activations."""
    kinds = ["off", "rms", "layer", "rms_pre", "layer_pre"]
    norm = kinds[seed % 5]
    return ClassifierConfig(
        n_letters=3, d_model=(4, 6)[seed % 2], n_heads=(1, 2, 3)[seed % 3], d_head=(2, 3)[seed % 2],
        d_mlp=(0, 5, 7)[seed % 3], gated_mlp=seed % 3 > 0 and seed % 4 == 1, norm=norm,
        final_norm=norm != "off" and seed % 2 == 0, biases=seed % 2 == 1, reads="last_letter",
        act_fn=("gelu", "gelu_new", "relu", "silu")[seed % 4], attend_cls=True,
        n_positions=(0, 5)[seed % 2], n_outputs=(1, 2, 4)[seed % 3],
        norm_eps=(1e-5, 1e-8)[seed % 2],
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(many(20, 150)))
def test_no_adversary_gets_below_the_bound(seed: int) -> None:
    config = attacked(seed)
    checkpoint = ordered_checkpoint(config, seed, scale=(0.7, 1.5)[seed % 2])
    asked, rng, adversary = Asked(checkpoint), np.random.default_rng(seed), Adversary(checkpoint)
    trellis = asked.trellis(4)
    for edges in (1, 2):
        sets = some_paths(asked, trellis, rng, edges)
        winner = int(rng.integers(asked.n_classes))
        bound, exact = asked.gaps(sets, winner, True)[0], asked.gaps(sets, winner)[0]
        for string, _ in list(strings(sets, 0))[:2]:
            for other in set(range(asked.n_classes)) - {winner}:
                real, least = adversary.worst(string, winner, other)
                assert real >= exact[other] - 1e-9 * (1 + abs(real))
                assert least >= bound[other]
                if edges == 1:  # and not by orders of magnitude
                    assert exact[other] - bound[other] < 40 * (real - least) + 1e-6


@pytest.mark.parametrize("terms", [1, 7, 100, 10_000, 4_000_000])
def test_no_adversary_sums_worse_than_gamma(terms: int) -> None:
    share = Fraction(terms, 2**24)
    least = share / (1 - share)
    assert least <= Fraction(gamma(terms)) < least * Fraction(10001, 10000)
    assert np.isnan(gamma(2**22))


def test_what_may_overflow_is_not_shown() -> None:
    config = ClassifierConfig(
        n_letters=2, norm="rms", d_model=3, d_mlp=4, final_norm=True, biases=True, n_positions=4,
        reads="last_letter", attend_cls=True, n_outputs=2,
    )  # fmt: skip
    checkpoint = ordered_checkpoint(config, 0)

    def shown(weights: Any, **options: Any) -> bool:
        changed = Checkpoint(config.replace(**options), weights)
        asked = Asked(changed)
        trellis = asked.trellis(3)
        sets = some_paths(asked, trellis, np.random.default_rng(0), 1)
        assert np.isfinite(asked.gaps(sets, 0)[0, 1])
        return bool(np.isfinite(asked.gaps(sets, 0, True)[0, 1]))

    assert shown(checkpoint.weights)
    for name, size in {
        "embed.W_E": 1e25, "unembed.W_U": 1e38, "blocks.0.attn.W_O": 1e30, "unembed.b_U": 1e38,
        "blocks.0.mlp.W_in": 1e38, "blocks.0.mlp.W_out": 1e38, "blocks.0.ln2.w": 1e38,
        "ln_final.w": 1e38,
    }.items():  # fmt: skip
        large = {**checkpoint.weights, name: checkpoint.weights[name] * np.float32(size)}
        assert not shown(large), name
    assert not shown(checkpoint.weights, norm_eps=1e-30)
