"""The attention laboratory: every closed form against softmax, draws, or numbers by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from scipy.special import expit, softmax
from scipy.stats import norm

from tests.laboratories.quick import small
from tsc_interp.laboratories import attention
from tsc_interp.laboratories.attention import draw_keys, share_of_a
from tsc_interp.laboratories.registry import find_laboratory

pytestmark = pytest.mark.xdist_group("lab-attention")


@pytest.fixture(scope="module")
def result():
    return small("attention")


@pytest.mark.parametrize(("mean", "deviation"), [(0.0, 0.3), (1.5, 2.0), (8.0, 6.0)])
def test_moments_of_a_logistic_of_a_normal_by_another_quadrature(mean, deviation):
    def moment(power: int) -> float:
        def density(z: float) -> float:
            return float(expit(mean + deviation * z) ** power * norm.pdf(z))

        return quad(density, -12, 12, points=[-mean / deviation], limit=400)[0]

    first, second = attention.logistic_moments(mean, deviation)
    assert first == pytest.approx(moment(1), abs=1e-9)
    assert second == pytest.approx(moment(2) - moment(1) ** 2, abs=1e-9)


def test_limits_by_hand():
    """A small deviation s gives s²/16, a huge one a coin flip; 7.86 % of norms are lost."""
    assert attention.one_head(1e-3, 0.5, 0.0, varying=2)[1] == pytest.approx(1e-6 / 16, rel=1e-4)
    assert attention.one_head(150.0, 0.5, 0.0, varying=2)[1] == pytest.approx(0.25, abs=0.003)
    lost = attention.turned(0.5)
    assert lost == pytest.approx(0.0786496, abs=1e-7)
    mean, variance = attention.two_heads(190.0, 0.5, 0.0, varying=1)
    assert mean == pytest.approx((1 - lost) / 2, abs=2e-3)
    assert variance == pytest.approx(lost * (1 - lost) / 4, abs=1e-3)


def test_two_peaks_exactly_beyond_variance_two():
    """The density of the logistic of N(0, s²), by its own formula."""
    shares = np.linspace(0.001, 0.999, 1999)
    odds = np.log(shares / (1 - shares))
    for deviation, peaks in ((1.40, 1), (1.43, 2)):
        density = norm.pdf(odds / deviation) / deviation / (shares * (1 - shares))
        assert int(((density[1:-1] > density[:-2]) & (density[1:-1] >= density[2:])).sum()) == peaks


@pytest.mark.parametrize("varying", [0, 1, 2])
@pytest.mark.parametrize("design", ["one head", "two heads"])
@pytest.mark.parametrize(("scale", "alpha"), [(1.0, 0.1), (9.0, 0.0), (9.0, 0.02)])
def test_closed_moments_are_those_of_drawn_keys(varying, design, scale, alpha):
    """Within five standard errors, for another variance of the norm than the default."""
    keys = draw_keys(np.random.default_rng(7), 40_000, 0.3, alpha, varying=varying)
    shares = share_of_a(keys, scale, design)
    closed = {"one head": attention.one_head, "two heads": attention.two_heads}[design]
    mean, variance = closed(scale, 0.3, alpha, varying=varying)
    error = shares.std() / np.sqrt(len(shares))
    assert shares.mean() == pytest.approx(mean, abs=5 * error + 1e-12)
    fourth = ((shares - shares.mean()) ** 4).mean()
    error = np.sqrt((fourth - shares.var() ** 2) / len(shares))
    assert shares.var() == pytest.approx(variance, abs=5 * error + 1e-12)


def test_other_keys_do_not_change_how_two_share():
    """What the limits of the page say: the ratio of two weights is theirs alone."""
    rng = np.random.default_rng(1)
    scores = rng.normal(size=9)
    few, many = softmax(scores[:2]), softmax(scores)
    assert many[0] / many[:2].sum() == pytest.approx(few[0])


def test_keys_have_the_covariance_that_is_claimed():
    keys = draw_keys(np.random.default_rng(3), 200_000, 0.5, 0.04, varying=1)
    expected = 0.04 * np.eye(4)
    expected[0, 0] += 0.5
    assert np.cov(keys[:, 0].T) == pytest.approx(expected, abs=0.01)
    assert np.cov(keys[:, 1].T) == pytest.approx(0.04 * np.eye(4), abs=0.01)
    assert keys.mean(axis=0) == pytest.approx(np.eye(2, 4), abs=0.01)


def test_the_construction_with_real_vectors_and_matrices():
    """Written out once more, with u as vectors of norm γ in a random basis."""
    gamma = 3.0
    basis, _ = np.linalg.qr(np.random.default_rng(5).standard_normal((6, 6)))
    a, b, c, d = gamma * basis[:4]
    x = np.array([d + b, a, c + b])
    for sign in (-1, 1):
        q = (np.outer(d, a) + sign * np.outer(c, d)) / gamma**2
        v = (np.outer(b, b) - np.outer(c, c)) / gamma**2
        outputs = softmax(x @ q.T @ x.T, axis=1) @ (x @ v.T)
        coefficients = outputs[:2] @ np.array([a, b, c, d]).T / gamma**2
        assert coefficients == pytest.approx(attention.outputs(sign, gamma), abs=1e-12)


def test_the_printed_sign_fails_in_one_output_and_the_other_mends_it():
    wrong, right = (attention.outputs(sign, 5.0) for sign in (-1, 1))
    assert wrong[0] == pytest.approx([0, 0.5, 0, 0], abs=1e-6)  # q_1 = -u_c: x_1 and x_2, evenly
    assert wrong[1] == pytest.approx(attention.WANTED[1], abs=1e-6)
    assert right == pytest.approx(attention.WANTED, abs=1e-6)


@pytest.mark.parametrize("multiple", [-3.0, 0.0, 0.5, 1.0, 4.0])
def test_without_matrices_the_second_input_reads_itself(multiple):
    """Its own score leads by (1 + s² - max(s, 0)) γ², never less than ¾ γ²."""
    for added in (attention.U_C, attention.U_D):
        c_2, lead = attention.without_matrices(added, multiple, 6.0)
        assert lead == pytest.approx(1 + multiple**2 - max(multiple, 0.0))
        assert lead >= 0.75
        assert c_2 == pytest.approx(attention.U_A + multiple * added, abs=1e-6)


def test_what_is_said_follows_the_numbers(result):
    assert result.findings[0].severity == "warning"
    assert "swings" in result.findings[0].text
    calm = find_laboratory("attention").run(quick=True, scales=(0.1,))
    assert "swings" not in calm.findings[0].text
    assert result.figures[0].name == "swing"
    both = result.swing.at(design="one head"), result.swing.at(design="one head, drawn")
    assert both[0] == pytest.approx(both[1], abs=0.03)


def test_written_matrices_look_up_and_x_itself_cannot(result):
    """The written ones by hand, with numpy: scores C k_i · k_j, whatever the rotation."""
    turn = attention.rotation(np.random.default_rng(8))
    keys, values = attention.draw_tables(np.random.default_rng(4), 7)
    items = torch.from_numpy(np.concatenate([keys, values], axis=-1)).float()
    asked = np.concatenate([keys[:, 3] @ turn.T, np.zeros((7, attention.VALUE))], axis=-1)
    outputs, _ = attention.look_up(attention.written(turn), items, torch.from_numpy(asked).float())
    by_hand = softmax(attention.SHARP * np.einsum("tkd,td->tk", keys, keys[:, 3]), axis=1)
    expected = np.einsum("tk,tkv->tv", by_hand, values)
    assert outputs.numpy() == pytest.approx(expected, abs=1e-4)
    plain, learned, written = result.matrices.at(statistic="right item")
    assert plain < 0.15
    assert learned > 0.95
    assert written > 0.95
    assert result.alike > 0.95
