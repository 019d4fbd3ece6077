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
@pytest.mark.filterwarnings("ignore::dualad.errors.PerformanceNote")
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


# ── roots and coefficients from roots ────────────────────────────────────────────────────────────────────────────

CUBIC = np.array([1.5, -6.0, 11.0, -6.1])


def orders(f, x, t, n):
    """Return the n-th directional derivative."""
    return f(x) if n == 0 else da.jvp(lambda x: orders(f, x, t, n - 1), (x,), (t,))[1]


@pytest.mark.parametrize("p", [CUBIC, CUBIC + 0.3j, np.array([2.0, 0.3, 1.5]), CUBIC.astype(np.float32)])
def test_roots_move_as_the_polynomial_says(p):
    """Differentiate p(r(p)) = 0 three times: what comes out must be zero."""
    t = np.linspace(0.5, 1.0, p.size).astype(p.dtype)
    value, tangent = da.jvp(np.roots, (p,), (t,))
    assert value.dtype == tangent.dtype == np.result_type(p, np.complex64)
    assert np.allclose(value, np.roots(p))
    tolerance = 1e-3 if p.dtype == np.float32 else 1e-9
    for n in range(4):
        assert np.allclose(orders(lambda p: np.polyval(p, np.roots(p)), p, t, n), 0, atol=tolerance)


def test_a_leading_coefficient_of_zero_still_moves_the_roots():
    p, t = np.array([0.0, 1.0, -3.0, 2.0]), np.array([1.0, 0.0, 0.0, 0.0])
    value, tangent = da.jvp(np.roots, (p,), (t,))
    assert np.allclose(value, [2.0, 1.0])
    exact = -(value**3) / (2 * value - 3)  # −ṗ(r)/p′(r)
    assert np.allclose(tangent, exact)


def test_roots_of_what_has_none_or_zero():
    assert da.jvp(np.roots, (np.zeros(3),), (np.ones(3),))[0].shape == (0,)
    assert da.jvp(np.roots, (np.array([2.0]),), (np.ones(1),))[0].shape == (0,)
    value, tangent = da.jvp(np.roots, (np.array([2.0, 3.0, 0.0]),), (np.array([0.0, 0.0, 6.0]),))
    assert np.allclose(value, [-1.5, 0.0])
    assert np.allclose(tangent, [2.0, -2.0])
    double = da.jvp(np.roots, (np.array([1.0, 0.0, 0.0]),), (np.array([0.0, 0.0, 1.0]),))[1]
    assert not np.isfinite(double).any()  # ±√−h has no derivative at 0


@pytest.mark.filterwarnings("ignore::dualad.errors.PerformanceNote")
def test_lanes_of_roots_and_trimmed_zeros_may_differ_in_number():
    p = np.array([[1.0, 2.0, 3.0], [0.0, 1.0, 2.0]])
    assert np.allclose(da.vmap(lambda p: np.sum(np.roots(p)))(p), [-2.0, -2.0])
    assert np.allclose(da.vmap(da.grad(lambda p: np.real(np.sum(np.roots(p)))))(p)[0], [2.0, -1.0, 0.0])
    x = np.array([[0.0, 1.0, 2.0], [1.0, 5.0, 0.0]])
    assert np.allclose(da.vmap(lambda x: np.trim_zeros(x)[1] * x[1])(x), [2.0, 25.0])


@pytest.mark.parametrize("a", [np.diag([2.0, 2.0, 2.0]), np.arange(9.0).reshape(3, 3), np.array([[1.0, 1], [0, 1]])])
def test_the_characteristic_polynomial_is_smooth_also_at_repeated_eigenvalues(a):
    """det(x − A) is a polynomial in the entries; evaluated at a point it is compared with the determinant."""
    t = np.cos(np.arange(a.size)).reshape(a.shape)
    for n in range(4):
        ours = orders(lambda a: np.polyval(np.poly(a), 0.7), a, t, n)
        assert np.allclose(ours, orders(lambda a: np.linalg.det(0.7 * np.eye(len(a)) - a), a, t, n), atol=1e-10)
    stack = np.stack([a, a + t])
    assert np.allclose(da.vmap(np.poly)(stack), [np.poly(a), np.poly(a + t)])
    assert np.poly(a).dtype == da.jvp(np.poly, (a,), (t,))[1].dtype


def test_poly_of_roots():
    x, t = np.array([1.0, 2.0, -0.5]), np.array([0.3, 1.0, -2.0])
    check_call("poly", np.poly, x)
    value, tangent = da.jvp(np.poly, (x + 1j,), (t + 0j,))
    assert np.allclose(value, np.poly(x + 1j))
    assert np.allclose(tangent, (np.poly(x + 1j + 1e-6 * t) - np.poly(x + 1j - 1e-6 * t)) / 2e-6)
    assert da.jvp(lambda x: np.poly(x[:0]), (x,), (t,))[0] == 1.0
    assert np.allclose(da.jvp(lambda x: np.real_if_close(np.poly(np.roots(x))), (CUBIC,), (np.eye(4)[0],))[1][0], 0.0)


@pytest.mark.parametrize("trim", ["fb", "f", "b"])
@pytest.mark.parametrize("x", [np.array([0, 0, 1.0, 0, 2, 0]), np.array([[0, 0, 0], [0, 1.0, 0]]), np.zeros(3)])
def test_trim_zeros(x, trim):
    if x.ndim > 1 and np.lib.NumpyVersion(np.__version__) < "2.2.0":
        pytest.skip("NumPy trims several axes since 2.2")
    value, tangent = da.jvp(lambda x: np.trim_zeros(x, trim), (x,), (x * 3 + 1,))
    wanted = np.trim_zeros(x, trim)
    assert np.array_equal(value, wanted)
    assert value.shape == wanted.shape
    assert np.array_equal(tangent, 3 * wanted + 1)


def test_sums_with_poly1d_keep_leading_coefficients_that_are_zero_now():
    line, x = np.poly1d([1.0, 2.0]), np.array([1.0, 2.0])
    np.testing.assert_array_equal(da.grad(lambda x: np.polyval(np.polysub(x, line), 2.0))(x), [2.0, 1.0])
    for value in da.jvp(lambda x: np.polyadd(x, line), (x,), (x,)), da.jit(lambda x: (np.polyadd(x, line), x))(x):
        np.testing.assert_array_equal(value, [[2.0, 4.0], [1.0, 2.0]])
    z = x + 1j
    np.testing.assert_array_equal(da.jvp(lambda z: np.polyadd(z, [z[0], 1.0]), (z,), (z,))[1], [2 * z[0], z[1]])


@pytest.mark.skipif(not hasattr(polynomial, "polyvalnd"), reason="NumPy 2.5 has it first")
def test_polyvalnd_is_that_of_the_plain_array() -> None:
    rng = np.random.default_rng(0)
    points, c = rng.normal(size=(3, 4)), rng.normal(size=(2, 3, 2))
    powers = [np.stack([x**k for k in range(n)]) for x, n in zip(points, c.shape, strict=True)]
    expected = np.einsum("ijk,ip,jp,kp->p", c, *powers)
    assert np.allclose(da.jvp(lambda x: polynomial.polyvalnd(x, c), (points,), (points,))[0], expected)
    slope = da.jacfwd(lambda x: polynomial.polyvalnd(x, c))(points)
    step = 1e-6 * np.eye(12)[5].reshape(3, 4)
    difference = (polynomial.polyvalnd(points + step, c) - polynomial.polyvalnd(points - step, c)) / 2e-6
    assert np.allclose(slope[:, 1, 1], difference, atol=1e-8)
    assert np.allclose(da.jacrev(lambda x: polynomial.polyvalnd(x, c))(points), slope)
