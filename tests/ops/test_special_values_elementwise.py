"""Elementwise functions where the derivative is a matter of choice, or of care: ties, zeros, poles, bounds.

Not for: points inside the domain, which `test_every_op` covers for every operator.
"""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest

import dualad as da
from dualad.errors import InPlaceError, RuleMissingError, UnsupportedError

INF, NAN = np.inf, np.nan


def both_modes(f, *args):
    """Return the derivatives of sum(f) in each argument, by grad, having checked that jvp says the same."""
    args = tuple(np.asarray(a, float) for a in args)
    reverse = da.grad(lambda *a: np.sum(f(*a)), argnums=tuple(range(len(args))))(*args)
    for i, g in enumerate(reverse):
        for index in np.ndindex(*args[i].shape):
            basis = np.zeros(args[i].shape)
            basis[index] = 1.0
            tangents = [basis[()] if j == i else None for j in range(len(args))]
            forward = np.sum(da.jvp(f, args, tangents)[1])
            np.testing.assert_allclose(forward, g[index], rtol=1e-13, err_msg="jvp and grad differ")
    return reverse


# ── subgradients of least norm, even splits ──────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("f", "args", "expected"),
    [
        pytest.param(np.abs, (0.0,), (0.0,), id="abs at 0"),
        pytest.param(np.fabs, (0.0,), (0.0,), id="fabs at 0"),
        pytest.param(np.abs, (-0.0,), (0.0,), id="abs at -0"),
        pytest.param(np.hypot, (0.0, 0.0), (0.0, 0.0), id="hypot at the origin"),
        pytest.param(np.hypot, (3.0, -4.0), (0.6, -0.8), id="hypot"),
        pytest.param(np.hypot, (3e200, 4e200), (0.6, 0.8), id="hypot of large numbers"),
        pytest.param(np.arctan2, (0.0, 0.0), (0.0, 0.0), id="arctan2 at the origin"),
        pytest.param(np.arctan2, (0.0, -1.0), (-1.0, 0.0), id="arctan2 on the cut"),
        pytest.param(np.arctan2, (1e-170, 1e-170), (5e169, -5e169), id="arctan2 of small numbers"),
        pytest.param(np.copysign, (0.0, 1.0), (0.0, 0.0), id="copysign at 0"),
        pytest.param(np.copysign, (2.0, -3.0), (-1.0, 0.0), id="copysign"),
        pytest.param(np.maximum, (1.0, 1.0), (0.5, 0.5), id="maximum tie"),
        pytest.param(np.minimum, (1.0, 1.0), (0.5, 0.5), id="minimum tie"),
        pytest.param(np.fmax, (1.0, 1.0), (0.5, 0.5), id="fmax tie"),
        pytest.param(np.fmin, (1.0, 1.0), (0.5, 0.5), id="fmin tie"),
        pytest.param(np.fmax, (NAN, 1.0), (0.0, 1.0), id="fmax beside NaN"),
        pytest.param(np.fmax, (1.0, NAN), (1.0, 0.0), id="fmax beside NaN, second"),
        pytest.param(np.fmin, (NAN, 1.0), (0.0, 1.0), id="fmin beside NaN"),
        pytest.param(np.maximum, (INF, INF), (0.5, 0.5), id="maximum of infinities"),
        pytest.param(lambda x: np.maximum(x, x), (2.0,), (1.0,), id="maximum with itself"),
        pytest.param(lambda x: np.maximum(x, 0), (0.0,), (0.5,), id="relu at 0"),
        pytest.param(np.logaddexp, (0.0, 0.0), (0.5, 0.5), id="logaddexp tie"),
        pytest.param(np.logaddexp, (-INF, 1.0), (0.0, 1.0), id="logaddexp of -inf"),
        pytest.param(np.logaddexp, (-INF, -INF), (0.5, 0.5), id="logaddexp of two -inf"),
        pytest.param(np.logaddexp, (INF, 1.0), (1.0, 0.0), id="logaddexp of inf"),
        pytest.param(np.logaddexp2, (1000.0, -1000.0), (1.0, 0.0), id="logaddexp2 of large numbers"),
        pytest.param(np.remainder, (-7.25, 3.0), (1.0, 3.0), id="remainder"),
        pytest.param(np.fmod, (-7.25, 3.0), (1.0, 2.0), id="fmod"),
        pytest.param(np.heaviside, (0.0, 0.3), (0.0, 1.0), id="heaviside at 0"),
        pytest.param(np.heaviside, (2.0, 0.3), (0.0, 0.0), id="heaviside off 0"),
    ],
)
def test_chosen_derivatives(f, args, expected) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_allclose(both_modes(f, *args), expected, rtol=1e-13)


@pytest.mark.parametrize("f", [np.abs, np.hypot, np.logaddexp, np.maximum])
def test_ties_inside_an_array_do_not_leak(f) -> None:
    x = np.array([0.0, 1.0, -2.0])
    args = (x,) if f.nin == 1 else (x, np.array([0.0, 3.0, -2.0]))
    together = both_modes(f, *args)
    alone = [both_modes(f, *(a[i] for a in args)) for i in range(3)]
    np.testing.assert_allclose(together, np.transpose(alone), rtol=1e-13)


def test_second_derivative_of_logaddexp_at_a_tie() -> None:
    h = da.hessian(lambda v: np.logaddexp(v[0], v[1]))(np.array([0.7, 0.7]))
    np.testing.assert_allclose(h, [[0.25, -0.25], [-0.25, 0.25]])


# ── powers ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("exponent", [0, 0.0, np.array(0.0), np.array([0.0, 0.0]), np.array([0, 0])])
def test_power_zero_has_derivative_zero_at_zero(exponent) -> None:
    x = np.array([0.0, 2.0])
    np.testing.assert_array_equal(both_modes(lambda x: x**exponent, x)[0], [0.0, 0.0])
    np.testing.assert_array_equal(both_modes(lambda x: np.power(x, exponent), x)[0], [0.0, 0.0])


@pytest.mark.parametrize("base", [0, 0.0, np.zeros(3), np.zeros(3, int)])
def test_powers_of_zero_in_the_exponent(base) -> None:
    with np.errstate(divide="ignore"):
        (g,) = both_modes(lambda b: np.power(base, b), [-1.0, 0.0, 1.0])
    np.testing.assert_array_equal(g, [-INF, 0.0, 0.0])


def test_power_in_both_arguments_at_zero() -> None:
    dx, dy = both_modes(np.power, [0.0, 0.0, 0.0, 2.0], [0.0, 1.0, 2.0, 0.0])
    np.testing.assert_array_equal(dx, [0.0, 1.0, 0.0, 0.0])
    np.testing.assert_allclose(dy, [0.0, 0.0, 0.0, np.log(2.0)])


def test_mixed_derivative_of_power_where_the_exponent_is_zero() -> None:
    """∂²/∂x∂y x^y = x^(y−1) (1 + y log x): a mask on y = 0 would give 0 instead of 1/x."""
    mixed = da.grad(lambda y: da.grad(lambda x: np.power(x, y))(2.0))(0.0)
    assert mixed == pytest.approx(0.5)
    mixed = da.grad(lambda x: da.grad(lambda y: np.power(x, y))(0.0))(2.0)
    assert mixed == pytest.approx(0.5)


def test_integer_powers_of_negative_bases() -> None:
    x = np.array([-2.0, -0.5, 0.0])
    np.testing.assert_allclose(both_modes(lambda x: x**3, x)[0], 3 * x**2)
    np.testing.assert_allclose(both_modes(lambda x: x ** np.array([3, 2, 1]), x)[0], [12.0, -1.0, 1.0])
    np.testing.assert_allclose(both_modes(lambda x: x ** np.array([3, 2, 1], np.uint8), x)[0], [12.0, -1.0, 1.0])
    assert da.grad(da.grad(da.grad(lambda x: x**3)))(0.0) == 6.0
    assert da.grad(da.grad(lambda x: x**2))(0.0) == 2.0


def test_fractional_power_of_zero_beside_a_selection() -> None:
    def f(x):
        return np.where(x > 0, x**0.5, 0.0)

    np.testing.assert_allclose(both_modes(f, [0.0, 4.0])[0], [0.0, 0.25])
    assert da.jvp(lambda x: x**0.5, (0.0,), (1.0,))[1] == INF
    assert da.jvp(lambda x: x**0.5, (0.0,), (0.0,))[1] == 0.0


@pytest.mark.parametrize("base", [-1, -1.0, np.array([-1.0, -1.0]), np.array([-1 + 0j, -1 + 0j])])
def test_power_of_a_negative_base_with_a_complex_exponent(base) -> None:
    c, t = np.array([0.3 + 0.2j, -1.5 - 0.4j]), np.array([0.7 - 0.1j, 0.2 + 1j])
    value, tangent = da.jvp(lambda c: np.power(base, c), (c,), (t,))
    np.testing.assert_allclose(value, np.power(np.asarray(base), c))
    np.testing.assert_allclose(tangent, np.exp(1j * np.pi * c) * 1j * np.pi * t)
    ct = np.array([1 + 2j, -0.3j])
    (back,) = da.vjp(lambda c: np.power(base, c), c)[1](ct)
    np.testing.assert_allclose(back, np.exp(1j * np.pi * c) * 1j * np.pi * ct)


def test_power_of_python_numbers() -> None:
    assert da.jvp(lambda x: x**2, (3.0,), (1.0,)) == (9.0, 6.0)
    assert da.jvp(lambda x: 2**x, (3.0,), (1.0,)) == (8.0, pytest.approx(8 * np.log(2)))
    value, tangent = da.jvp(lambda x: np.power(x, 1 / 3), (8.0,), (1.0,))
    assert (value, tangent) == (pytest.approx(2.0), pytest.approx(1 / 12))
    with np.errstate(all="ignore"):
        assert np.isnan(da.jvp(lambda x: np.power(x, 1 / 3), (-8.0,), (1.0,))[0])
        assert da.jvp(lambda x: x**2.0, (1e300,), (1.0,))[0] == INF


def test_float_power_computes_in_double() -> None:
    value, tangent = da.jvp(lambda x: np.float_power(x, 2), (np.float32(3.0),), (np.float32(1.0),))
    assert value.dtype == np.float64 and (value, tangent) == (9.0, 6.0)


# ── bounds and selections ────────────────────────────────────────────────────────────────────────────────────────


def test_clip_is_the_identity_on_its_bounds() -> None:
    x = np.array([-1.0, 0.0, 0.5, 1.0, 2.0])
    for f in (
        lambda x: np.clip(x, 0, 1),
        lambda x: np.clip(x, min=0.0, max=1.0),
        lambda x: np.clip(x, np.zeros(5), np.ones(5)),
    ):
        np.testing.assert_array_equal(both_modes(f, x)[0], [0.0, 1.0, 1.0, 1.0, 0.0])
    np.testing.assert_array_equal(both_modes(lambda x: np.clip(x, None, 1), x)[0], [1.0, 1.0, 1.0, 1.0, 0.0])
    np.testing.assert_array_equal(both_modes(lambda x: np.clip(x, 0, None), x)[0], [0.0, 1.0, 1.0, 1.0, 1.0])


def test_clip_moves_with_its_bounds() -> None:
    dx, dlow, dhigh = both_modes(np.clip, [-1.0, 0.5, 2.0, 0.3], [0.0, 0.0, 0.0, 2.0], [1.0, 1.0, 1.0, 1.0])
    np.testing.assert_array_equal(dx, [0.0, 1.0, 0.0, 0.0])
    np.testing.assert_array_equal(dlow, [1.0, 0.0, 0.0, 0.0])
    np.testing.assert_array_equal(dhigh, [0.0, 0.0, 1.0, 1.0])  # crossed bounds: NumPy returns the upper one


def test_clip_arguments() -> None:
    x = np.array([1.0])
    with pytest.raises(TypeError, match="a_max"):
        da.jvp(lambda x: np.clip(x, 0), (x,), (x,))
    with pytest.raises(InPlaceError):
        da.jvp(da.plain(lambda x: np.clip(x, 0, 1, out=np.zeros(1))), (x,), (x,))
    small = np.array([3, 200], np.uint8)
    np.testing.assert_array_equal(da.vmap(lambda v: np.clip(v, -5, 300))(small), small)


@pytest.mark.parametrize(
    "pole",
    [np.sqrt, np.log, np.cbrt, np.reciprocal, np.log1p, np.arcsin, np.arccos, np.arctanh, np.log2, np.log10],
)
def test_a_pole_in_the_branch_not_taken(pole) -> None:
    at = {np.log1p: -1.0, np.arcsin: 1.0, np.arccos: 1.0, np.arctanh: 1.0}.get(pole, 0.0)

    def f(x):
        with np.errstate(all="ignore"):
            return np.where(x == at, 3 * x, pole(x))

    inside = 0.25
    expected = da.jvp(pole, (inside,), (1.0,))[1]
    np.testing.assert_allclose(both_modes(f, [at, inside])[0], [3.0, expected])


def test_where_selects_and_sums_back() -> None:
    mask = np.array([[True, False, True], [False, False, True]])
    x, y = np.arange(3.0), np.array([[1.0], [2.0]])
    dx, dy = both_modes(lambda x, y: np.where(mask, x, y), x, y)
    np.testing.assert_array_equal(dx, [1.0, 0.0, 2.0])
    np.testing.assert_array_equal(dy, [[1.0], [2.0]])
    dtype = da.jvp(lambda x: np.where(x > 1, x, 0), (np.ones(2, np.float32),), (np.ones(2, np.float32),))[0].dtype
    assert dtype == np.float32


def test_where_reads_numbers_as_truth() -> None:
    x = np.array([0.0, 2.0])
    np.testing.assert_array_equal(both_modes(lambda x: np.where(x, x * 5, 7.0), x)[0], [0.0, 5.0])


def test_where_of_complex_and_real() -> None:
    z, x = np.array([1 + 2j, 3j]), np.array([1.0, 2.0])
    mask = np.array([True, False])
    _, pull = da.vjp(lambda z, x: np.where(mask, z, x), z, x)
    dz, dx = pull(np.array([1 + 1j, 2 - 3j]))
    np.testing.assert_array_equal(dz, [1 + 1j, 0])
    np.testing.assert_array_equal(dx, [0.0, 2.0])
    assert dx.dtype == np.float64


def test_select_and_choose_and_piecewise() -> None:
    x = np.array([-2.0, 0.5, 3.0])
    f = lambda x: np.select([x < 0, x < 1], [x**2, 5 * x], default=7.0)
    np.testing.assert_allclose(both_modes(f, x)[0], [-4.0, 5.0, 0.0])
    np.testing.assert_allclose(da.jvp(f, (x,), (x,))[0], f(x))
    index = np.array([0, 2, 1])
    f = lambda x: np.choose(index, [x, 2 * x, x**3])
    np.testing.assert_allclose(both_modes(f, x)[0], [1.0, 0.75, 2.0])
    np.testing.assert_allclose(da.jvp(f, (x,), (x,))[0], f(x))
    f = lambda x: np.piecewise(x, [x < 0, x > 1], [lambda v: -v, lambda v: v**2, 4.0])
    np.testing.assert_allclose(both_modes(f, x)[0], [-1.0, 0.0, 6.0])
    np.testing.assert_allclose(da.jvp(f, (x,), (x,))[0], f(x))
    np.testing.assert_allclose(da.vmap(f)(x[:, None])[:, 0], f(x))


def test_choose_of_a_traced_index() -> None:
    index, x = np.array([[0, 5], [1, -1]]), np.array([1.0, 2.0])
    for mode in ("clip", "wrap"):
        batched = da.vmap(lambda i: np.choose(i, [x, 10 * x], mode=mode))(index)
        np.testing.assert_array_equal(batched, [np.choose(i, [x, 10 * x], mode=mode) for i in index])
    with pytest.raises(UnsupportedError, match="out of range"):
        da.vmap(lambda i: np.choose(i, [x, x]))(index)
    with pytest.raises(ValueError, match="invalid entry"):
        da.jvp(lambda x: np.choose(index, [x, x]), (x,), (x,))


# ── signs, parts and sizes of complex numbers ────────────────────────────────────────────────────────────────────


def test_absolute_of_complex() -> None:
    z = np.array([3 + 4j, 0j])
    value, tangent = da.jvp(np.abs, (z,), (np.array([1j, 1 + 1j]),))
    np.testing.assert_allclose(value, [5.0, 0.0])
    np.testing.assert_allclose(tangent, [0.8, 0.0])
    assert tangent.dtype == np.float64
    assert da.grad(lambda z: np.abs(z) ** 2)(1 + 2j) == pytest.approx(2 - 4j)
    np.testing.assert_allclose(da.grad(lambda z: np.sum(np.abs(z)))(z), [0.6 - 0.8j, 0.0])


def test_sign_of_complex_is_not_constant() -> None:
    z, h = 3 + 4j, 1e-6
    for t in (1.0 + 0j, 1j, 0.3 - 2j):
        value, tangent = da.jvp(np.sign, (z,), (t,))
        assert value == pytest.approx(0.6 + 0.8j)
        assert tangent == pytest.approx((np.sign(z + h * t) - np.sign(z - h * t)) / (2 * h), abs=1e-9)
    assert da.grad(lambda z: np.real(np.sign(z)))(z) == pytest.approx(np.conj(0.128 - 0.096j))
    assert da.jvp(np.sign, (0j,), (1 + 1j,)) == (0, 0)
    assert da.jvp(lambda x: np.sign(x) * x, (-2.0,), (1.0,)) == (2.0, -1.0)


def test_parts_of_complex_numbers() -> None:
    z, t = 1.5 - 2j, 0.25 + 1j
    assert da.jvp(np.conj, (z,), (1j,))[1] == -1j
    assert da.jvp(np.real, (z,), (t,)) == (1.5, 0.25)
    assert da.jvp(np.imag, (z,), (t,)) == (-2.0, 1.0)
    assert da.jvp(np.angle, (z,), (t,))[1] == pytest.approx((t / z).imag)
    assert da.jvp(lambda z: np.angle(z, deg=True), (z,), (t,))[1] == pytest.approx(np.rad2deg((t / z).imag))
    assert da.vjp(np.real, z)[1](2.0)[0] == 2 + 0j
    assert da.vjp(np.imag, z)[1](2.0)[0] == -2j
    assert da.vjp(np.conj, z)[1](1 + 2j)[0] == 1 - 2j
    assert da.jvp(np.real, (2.0,), (3.0,)) == (2.0, 3.0)
    assert da.jvp(np.imag, (2.0,), (3.0,)) == (0.0, 0.0)
    assert da.jvp(np.angle, (-2.0,), (3.0,)) == (np.pi, 0.0)
    assert da.jvp(np.real_if_close, (z,), (t,)) == (z, t)
    assert da.jvp(np.real_if_close, (1.5 + 1e-17j,), (t,)) == (1.5, 0.25)
    assert da.jvp(lambda z: np.real_if_close(z, tol=1e-3), (1.5 + 1e-4j,), (t,)) == (1.5, 0.25)
    assert da.jvp(np.real_if_close, (2.0,), (3.0,)) == (2.0, 3.0)


@pytest.mark.parametrize("f", [np.arcsin, np.arccos, np.arctan, np.arcsinh, np.arccosh, np.arctanh, np.sqrt, np.log])
@pytest.mark.parametrize("z", [-2.5 + 0.3j, -2.5 - 0.3j, 0.2 + 3j, 0.2 - 3j, -0.4 - 3j, 1.7 + 0.1j, -0.3 + 0.2j])
def test_derivatives_on_every_side_of_the_branch_cuts(f, z) -> None:
    h = 1e-6
    expected = (f(z + h) - f(z - h)) / (2 * h)
    assert da.jvp(f, (z,), (1 + 0j,))[1] == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("f", [np.arcsin, np.arccos, np.arccosh, np.arctanh, np.arcsinh, np.arctan, np.sqrt, np.log])
@pytest.mark.parametrize("size", [2.1, -2.1])
@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_derivatives_on_both_sides_of_a_branch_cut(f, size, zero) -> None:
    """The sign of a zero part says on which side of the cut a number lies, along which the derivative is taken."""
    upright = f in (np.arcsinh, np.arctan)
    at = lambda s: np.complex128(complex(zero, s) if upright else complex(s, zero))
    expected = (f(at(size + 1e-6)) - f(at(size - 1e-6))) / 2e-6
    assert da.jvp(f, (at(size),), (1j if upright else 1 + 0j,))[1] == pytest.approx(expected, rel=1e-7)


# ── all derivatives at a removable singularity ───────────────────────────────────────────────────────────────────


def _derivatives(f, x: float, n: int) -> list[float]:
    out = []
    for _ in range(n):
        f = (lambda g: lambda x: da.jvp(g, (x,), (1.0,))[1])(f)
        out.append(float(f(x)))
    return out


def test_sinc_at_zero() -> None:
    pi2 = np.pi**2
    expected = [0.0, -pi2 / 3, 0.0, pi2**2 / 5, 0.0, -(pi2**3) / 7]
    np.testing.assert_allclose(_derivatives(np.sinc, 0.0, 6), expected, rtol=1e-13)
    assert da.grad(da.grad(np.sinc))(0.0) == pytest.approx(-pi2 / 3)


def test_derivatives_of_sinc_meet_where_its_two_formulas_meet() -> None:
    """Judged by the integral sinc⁽ⁿ⁾(x) = ∫₀¹ πⁿ sⁿ cos(πxs + nπ/2) ds, by Gauss and Legendre's rule."""
    nodes, weights = np.polynomial.legendre.leggauss(60)
    s, w = (nodes + 1) / 2, weights / 2
    for x in (1e-5, 0.3, 2 / np.pi - 1e-9, 2 / np.pi + 1e-9, 1.0, -4.25):
        expected = [np.sum(w * (np.pi * s) ** n * np.cos(np.pi * x * s + n * np.pi / 2)) for n in range(1, 7)]
        np.testing.assert_allclose(_derivatives(np.sinc, x, 6), expected, rtol=1e-9, atol=1e-11)


def test_i0_agrees_with_scipy_to_third_order() -> None:
    special = pytest.importorskip("scipy.special")
    for x in (-30.0, -2.0, 0.0, 0.7, 8.0, 12.0, 300.0, 700.0):
        expected = [special.ivp(0, x, n) for n in (1, 2, 3)]
        np.testing.assert_allclose(_derivatives(np.i0, x, 3), expected, rtol=1e-12, atol=1e-14)


# ── steps, questions, the floating-point grid ────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("f", [np.floor, np.ceil, np.trunc, np.rint, np.round, np.fix, np.sign, np.around])
def test_steps_have_derivative_zero(f) -> None:
    x = np.array([-1.5, 0.0, 0.4, 2.0])
    value, tangent = da.jvp(f, (x,), (np.ones(4),))
    np.testing.assert_array_equal(value, f(x))
    np.testing.assert_array_equal(tangent, 0.0)
    np.testing.assert_array_equal(da.grad(lambda x: np.sum(f(x)))(x), 0.0)


def test_rounding_to_decimals() -> None:
    x = np.array([1234.5678, -0.05])
    for decimals in (0, 3, -3):
        np.testing.assert_array_equal(da.vmap(lambda v: np.round(v, decimals))(x), np.round(x, decimals))
    np.testing.assert_array_equal(da.grad(lambda x: np.sum(x - np.round(x, 2)))(x), 1.0)


def test_a_number_taken_apart_and_put_together() -> None:
    x = np.array([-2.75, 0.3, 20.0])
    (fraction, whole), (t, zero) = da.jvp(np.modf, (x,), (np.ones(3),))
    np.testing.assert_array_equal((fraction, whole), np.modf(x))
    np.testing.assert_array_equal((t, zero), [[1, 1, 1], [0, 0, 0]])
    value, tangent = da.jvp(lambda x: np.ldexp(*np.frexp(x)), (x,), (np.ones(3),))
    np.testing.assert_array_equal(value, x)
    np.testing.assert_array_equal(tangent, 1.0)
    quotient, rest = da.jvp(lambda x, y: np.divmod(x, y), (x, np.full(3, 0.7)), (np.ones(3), np.ones(3)))[1]
    np.testing.assert_array_equal(quotient, 0.0)
    np.testing.assert_allclose(rest, 1 - np.floor(x / 0.7))


def test_modf_of_infinity() -> None:
    fraction, whole = da.jvp(np.modf, (INF,), (1.0,))[0]
    assert (fraction, whole) == (0.0, INF)


@pytest.mark.parametrize("f", [np.spacing, lambda x: np.nextafter(x, 9.0), lambda x: np.nextafter(9.0, x)])
def test_the_floating_point_grid_has_no_derivative_but_maps(f) -> None:
    x = np.array([1.0, 2.0])
    with pytest.raises(RuleMissingError, match=r"np\.(spacing|nextafter)"):
        da.jvp(f, (x,), (x,))
    with pytest.raises(RuleMissingError):
        da.grad(lambda x: np.sum(f(x)))(x)
    np.testing.assert_array_equal(da.vmap(f)(x), f(x))
    np.testing.assert_array_equal(da.jvp(lambda x: x + f(da.stop_gradient(x)), (x,), (x,))[1], x)


def test_questions_answer_with_plain_arrays() -> None:
    x = np.array([0.0, NAN, INF, -INF, 2.0])
    questions = [
        np.isnan, np.isinf, np.isfinite, np.signbit, np.isposinf, np.isneginf, np.isreal, np.iscomplex, np.logical_not,
        lambda x: x > 1, lambda x: x == 2.0, lambda x: np.isclose(x, 2.0 + 1e-9),
        lambda x: np.isclose(x, x, equal_nan=True),
    ]  # fmt: skip
    for f in questions:
        seen = []

        def g(x, f=f, seen=seen):
            seen.append(f(x))
            return x

        da.jvp(g, (x,), (x,))
        assert type(seen[0]) is np.ndarray and seen[0].dtype == bool
        np.testing.assert_array_equal(seen[0], f(x))
        np.testing.assert_array_equal(da.vmap(f)(x), f(x))


def test_questions_about_whole_arrays() -> None:
    x, y = np.array([1.0, NAN]), np.array([1.0, NAN])
    for f in (
        lambda x: np.array_equal(x, y),
        lambda x: np.array_equal(x, y, equal_nan=True),
        lambda x: np.array_equal(x, y[:1]),
        lambda x: np.array_equiv(x, np.array([[1.0, NAN]])),
        lambda x: np.array_equiv(x, np.ones(3)),
        lambda x: np.allclose(x, y),
        lambda x: np.allclose(x, y, equal_nan=True),
        lambda x: np.iscomplexobj(x),
        lambda x: np.isrealobj(x),
    ):
        seen = []
        da.jvp(lambda x, f=f, seen=seen: (seen.append(f(x)), x)[1], (x,), (x,))
        assert seen[0] is f(x)
    lanes = np.array([[1.0, 2.0], [1.0, 3.0]])
    np.testing.assert_array_equal(da.vmap(lambda v: np.allclose(v, lanes[0]))(lanes), [True, False])


def test_nan_to_num_passes_only_what_it_kept() -> None:
    x = np.array([1.0, NAN, INF, -INF])
    np.testing.assert_array_equal(both_modes(np.nan_to_num, x)[0], [1.0, 0.0, 0.0, 0.0])
    np.testing.assert_array_equal(da.jvp(np.nan_to_num, (x,), (x,))[0], np.nan_to_num(x))
    f = lambda x: np.nan_to_num(x, nan=7.0, posinf=8.0, neginf=9.0)
    np.testing.assert_array_equal(da.jvp(f, (x,), (x,))[0], [1.0, 7.0, 8.0, 9.0])
    z = np.array([complex(NAN, 1.0), complex(2.0, -INF)])
    value, tangent = da.jvp(np.nan_to_num, (z,), (np.array([1 + 2j, 3 + 4j]),))
    np.testing.assert_array_equal(value, np.nan_to_num(z))
    np.testing.assert_array_equal(tangent, [2j, 3.0])
    half = np.array([INF, 1.0], np.float32)
    assert da.jvp(np.nan_to_num, (half,), (half,))[0].dtype == np.float32


# ── promotion and ufunc methods ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "f", [np.maximum, np.power, np.hypot, np.arctan2, np.logaddexp, np.remainder, np.copysign, np.fmin]
)
def test_python_numbers_do_not_widen(f) -> None:
    x = np.array([0.5, 1.5], np.float32)
    for g in (lambda x: f(x, 2.0), lambda x: f(2.0, x), lambda x: f(x, 2)):
        value, tangent = da.jvp(g, (x,), (x,))
        assert value.dtype == tangent.dtype == np.float32
        np.testing.assert_allclose(value, g(x), rtol=1e-6)
        assert da.grad(lambda x, g=g: np.sum(g(x)))(x).dtype == np.float32


def test_outer_of_binary_ufuncs() -> None:
    x, y = np.array([1.0, 2.0, 4.0]), np.array([3.0, -1.0])
    for ufunc in (np.add, np.multiply, np.maximum, np.arctan2, np.hypot):
        value, tangent = da.jvp(ufunc.outer, (x, y), (np.ones(3), np.ones(2)))
        np.testing.assert_allclose(value, ufunc.outer(x, y))
        np.testing.assert_allclose(tangent, da.jvp(ufunc, (x[:, None], y), (np.ones((3, 1)), np.ones(2)))[1])


def test_degrees_and_radians_are_linear() -> None:
    for f in (np.deg2rad, np.radians, np.rad2deg, np.degrees, np.positive):
        (back,) = da.linear_transpose(f, np.zeros(2))(np.array([1.0, 90.0]))
        np.testing.assert_allclose(back, f(np.array([1.0, 90.0])))


def test_second_derivatives_of_logaddexp_of_numbers_far_apart() -> None:
    """Softplus and its like have no factor that overflows, at any order and in single precision either."""
    for f in (np.logaddexp, np.logaddexp2):
        for gap in (-3000.0, -800.0, 800.0, 3000.0):
            h = lambda x, f=f: f(0.0, x)
            for _ in range(4):
                h = da.grad(h)
                assert min(abs(h(gap)), abs(h(gap) - 1)) < 1e-200
    x = np.array([-200.0, 0.0, 200.0], np.float32)
    second = da.vmap(da.grad(da.grad(lambda x: np.logaddexp(np.float32(0), x))))(x)
    assert second.dtype == np.float32 and second.tolist() == [0.0, 0.25, 0.0]


def test_python_numbers_at_a_pole_behave_as_numpys() -> None:
    with np.errstate(all="ignore"):
        assert da.grad(da.grad(lambda x: np.where(x > 0, np.log(x), 0.0)))(0.0) == 0
        assert da.grad(da.grad(np.log))(0.0) == -np.inf
        assert da.jvp(lambda x: 1 / x, (0.0,), (1.0,)) == (np.inf, -np.inf)


@pytest.mark.parametrize("f", [np.sqrt, np.log, lambda x: x**0.3], ids=["sqrt", "log", "power"])
def test_the_branch_not_taken_is_absent_from_every_nesting_of_order_four(f) -> None:
    spell = {
        "J": lambda g: lambda x: da.jvp(g, (x,), (1.0,))[1],
        "V": lambda g: lambda x: da.vjp(g, x)[1](1.0)[0],
    }
    for word in map("".join, itertools.product("JV", repeat=4)):
        g = lambda x: np.where(x > 0, f(x), 0.0)
        for letter in word:
            g = spell[letter](g)
        with np.errstate(all="ignore"):
            assert g(0.0) == 0, word
