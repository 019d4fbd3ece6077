"""The complex step: exact where it applies, and a reason where it does not."""

from __future__ import annotations

import numpy as np
import pytest

from dualad.testing import Unavailable, complex_step


@pytest.mark.parametrize(
    ("f", "df"),
    [(np.sin, np.cos), (np.exp, np.exp), (np.sqrt, lambda x: 0.5 / np.sqrt(x)), (np.log, lambda x: 1 / x)],
)
def test_exact_to_rounding(f, df):
    x = np.array([0.3, 1.7])
    np.testing.assert_allclose(complex_step.derivative(f, x, np.ones(2)).value, df(x), rtol=1e-15)


def test_jacobian():
    found = complex_step.jacobian(lambda x: np.array([x[0] * x[1], x[1] ** 2]), np.array([2.0, 3.0]))
    np.testing.assert_allclose(found.value, [[3.0, 2.0], [0.0, 6.0]], rtol=1e-15)


def test_second_derivatives():
    x = np.array([0.7, 1.3])
    found = complex_step.second_derivative(lambda x: np.exp(x[0]) * x[1] ** 3, x, np.array([1.0, 0.0]), np.eye(2))
    expected = np.exp(0.7) * np.array([1.3**3, 3 * 1.3**2])
    np.testing.assert_allclose(found.value, expected, rtol=1e-9)


def _into_a_real_buffer(x):
    out = np.zeros(1)
    out[:] = x
    return out


def _refuses_complex(x):
    return np.floor(x)


def _jumps(x):
    return x + 1.0 if np.iscomplexobj(x) and np.any(x.imag) else x


@pytest.mark.parametrize(
    ("f", "reason"),
    [
        (np.abs, "comes back real"),
        (lambda x: x.real * 2.0, "comes back real"),
        (_into_a_real_buffer, "discards imaginary parts"),
        (_refuses_complex, "TypeError"),
        (_jumps, "real part changes"),
    ],
)
def test_why_it_does_not_apply(f, reason):
    found = complex_step.derivative(f, np.array([1.5]), np.array([1.0]))
    assert isinstance(found, Unavailable)
    assert reason in found.reason
