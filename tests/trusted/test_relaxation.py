"""Linear bounds: at points of the box, and how far a chord can be off, by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from tsc_interp.trusted.relaxation import (
    _CURVATURE,
    Form,
    _bends,
    activated,
    inverse_root,
    product,
    root,
)
from tsc_interp.trusted.spans import Span

ACTIVATIONS: dict[str, Any] = {
    "relu": torch.relu,
    "gelu": torch.nn.functional.gelu,
    "gelu_new": lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
    "silu": torch.nn.functional.silu,
}


def some_form(noise: np.random.Generator, least: float = -np.inf) -> Form:
    """Three sets of four quantities: two coordinates between -1 and 1, and what they reach."""
    row, rest = noise.normal(size=(3, 4, 2)) * 3, noise.normal(size=(3, 4))
    reach = np.abs(row).sum(2) * (1 + 1e-12)
    rest = np.maximum(rest, least + reach)
    return Form(Span.exact(row), Span.exact(rest), Span(rest - reach, rest + reach))


def at(form: Form, x: Any) -> Any:
    return (form.row.middle * x[:, None]).sum(2)


def holds(found: Form, x: Any, truth: Any) -> None:
    """The truth lies in the values, and in row · x + rest."""
    line = at(found, x)
    assert (found.values.low - 1e-12 <= truth).all()
    assert (truth <= found.values.high + 1e-12).all()
    assert (line + found.rest.low - 1e-12 <= truth).all()
    assert (truth <= line + found.rest.high + 1e-12).all()


@pytest.mark.parametrize("seed", range(4))
def test_every_bound_holds_all_over_its_box(seed: int) -> None:
    noise = np.random.default_rng(seed)
    one, other, mean = some_form(noise), some_form(noise), some_form(noise, least=0.0)
    for _ in range(100):
        x = noise.uniform(-1, 1, size=(3, 2))
        a, b, m = (at(form, x) + form.rest.middle for form in (one, other, mean))
        holds(product(one, other), x, a * b)
        holds(one.squared(), x, a * a)
        holds(inverse_root(mean, 1e-2), x, 1 / np.sqrt(m + 1e-2))
        holds(root(mean, 1e-2), x, np.sqrt(m + 1e-2))


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_hold_all_over_their_box(name: str) -> None:
    noise = np.random.default_rng(1)
    form = some_form(noise)
    found = activated(name, form)
    for _ in range(200):
        x = noise.uniform(-1, 1, size=(3, 2))
        before = torch.as_tensor(at(form, x) + form.rest.middle)
        holds(found, x, ACTIVATIONS[name](before).numpy())
    # No wider than the range of the activation between the ends calls for.
    width = found.rest.high - found.rest.low
    assert (width < form.values.high - form.values.low).all()


@pytest.mark.parametrize("name", ["gelu", "gelu_new", "silu"])
def test_a_chord_is_off_by_an_eighth_of_the_curvature_times_the_widest_gap_squared(
    name: str,
) -> None:
    nodes = np.array([[[0.0, 1, 3, 4], [0, 0.5, 1, 1.5]], [[-8, -4, -2, 0], [1, 1, 1, 1]]])
    widest = np.array([[2.0, 0.5], [4.0, 0.0]])
    for found, most in zip(_bends(name, nodes), _CURVATURE[name], strict=True):
        expected = widest**2 / 8 * most
        assert (expected <= found).all()
        assert (found <= expected * (1 + 1e-14) + 1e-300).all()
