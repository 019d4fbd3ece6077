"""Polynomials by their coefficients, and np.emath."""

import numpy as np
import pytest

import dualad as da
from dualad.errors import UnsupportedError
from tests.oracles.calls import check_call

P, Q = np.array([2.0, -1.0, 0.5, 3.0]), np.array([1.5, 0.25])
X, Y = np.linspace(-1, 1.3, 7), np.cos(np.arange(7.0))
C = np.arange(6.0).reshape(2, 3) + 1
polynomial = np.polynomial.polynomial

CALLS = {
    "polyval": (np.polyval, P, X),
    "polyadd": (np.polyadd, P, Q),
    "polysub": (np.polysub, Q, P),
    "polymul": (np.polymul, P, Q),
    "polydiv": (lambda u, v: np.polydiv(u, v)[0], P, Q),
    "polydiv, rest": (lambda u, v: np.polydiv(u, v)[1], P, Q),
    "polyder": (lambda p: np.polyder(p, 2), P),
    "polyint": (lambda p: np.polyint(p, 2, [1.0, 2.0]), P),
    "polyfit": (lambda x, y: np.polyfit(x, y, 2), X, Y),
    "polyfit, weights": (lambda y, w: np.polyfit(X, y, 1, w=w), Y, np.abs(Y) + 1),
    "polyfit, two columns": (lambda y: np.polyfit(X, np.stack([y, y * y], 1), 2), Y),
    "emath.sqrt": (np.emath.sqrt, X + 2),
    "emath.log": (np.emath.log, X + 2),
    "emath.log2": (np.emath.log2, X + 2),
    "emath.log10": (np.emath.log10, X + 2),
    "emath.logn": (lambda x: np.emath.logn(3.0, x), X + 2),
    "emath.power": (lambda x: np.emath.power(x, 2.5), X + 2),
    "emath.arccos": (np.emath.arccos, X / 2),
    "emath.arcsin": (np.emath.arcsin, X / 2),
    "emath.arctanh": (np.emath.arctanh, X / 2),
    "polynomial.polyval": (lambda x: polynomial.polyval(x, P), X),
    "polynomial.polyval2d": (lambda x, c: polynomial.polyval2d(x, Y, c), X, C),
    "polynomial.polygrid2d": (lambda x, c: polynomial.polygrid2d(x, Y, c), X, C),
}
BRANCHES = [name for name in CALLS if name.startswith("emath")]


if not hasattr(polynomial.polygrid2d, "_implementation"):  # early releases don't let it be overridden
    del CALLS["polynomial.polygrid2d"]


# Where polyval2d can't be overridden either, np.array packs its arguments.
@pytest.mark.filterwarnings("ignore::dualad.surface.arguments.PerformanceNote")
@pytest.mark.parametrize("name", CALLS)
def test_calls(name):
    check_call(name, *CALLS[name], batch=name not in BRANCHES, stage=name not in BRANCHES and "polynomial" not in name)


@pytest.mark.parametrize("name", ["sqrt", "log", "log2", "log10", "arccos", "arcsin", "arctanh"])
def test_emath_is_complex_outside_the_real_domain(name):
    f = getattr(np.emath, name)
    x = np.array([-2.5, 0.3])
    value, tangent = da.jvp(f, (x,), (np.ones(2),))
    np.testing.assert_allclose(value, f(x))
    assert value.dtype == complex
    h = 1e-6
    np.testing.assert_allclose(tangent, (f(x + h) - f(x - h)) / (2 * h), rtol=1e-5, atol=1e-8)


def test_emath_power_of_negative_numbers():
    value, tangent = da.jvp(lambda x: np.emath.power(x, 1.5), (np.array([-4.0, 4.0]),), (np.ones(2),))
    np.testing.assert_allclose(value, np.emath.power([-4.0, 4.0], 1.5))
    np.testing.assert_allclose(tangent, 1.5 * np.emath.power([-4.0, 4.0], 0.5), atol=1e-12)


def test_what_polyfit_cannot_give():
    with pytest.raises(UnsupportedError, match="full=True"):
        da.jvp(lambda y: np.polyfit(X, y, 1, full=True), (Y,), (Y,))


@pytest.mark.parametrize(
    "f", [lambda p: np.polyder(p, -1), lambda p: np.polyint(p, -1), lambda p: np.polyint(p, 3, [1.0, 2.0])]
)
def test_bad_calls_raise_as_numpys(f):
    with pytest.raises(ValueError):
        f(P)
    with pytest.raises(ValueError):
        da.jvp(f, (P,), (P,))
