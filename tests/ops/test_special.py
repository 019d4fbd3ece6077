"""`scipy.special` on tensors: poles and removable singularities, large arguments, refusals, loading.

Not for: points inside the domain, which `test_every_op` covers for every operator.
"""

from __future__ import annotations

import subprocess
import sys
import warnings

import mpmath
import numpy as np
import pytest
import scipy.special as sp

import dualad as da
from dualad.errors import RuleMissingError, UnsupportedError
from dualad.ops.special import polygamma

INF = np.inf


def derivatives(f, x, n: int) -> list[float]:
    out = []
    for _ in range(n):
        f = (lambda g: lambda x: da.jvp(g, (x,), (1.0,))[1])(f)
        out.append(float(f(x)))
    return out


# ── chosen values at zeros and poles ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("f", "args", "expected"),
    [
        pytest.param(sp.xlogy, (0.0, 0.0), (0.0, 0.0), id="xlogy at the corner"),
        pytest.param(sp.xlogy, (0.0, 2.0), (np.log(2.0), 0.0), id="xlogy at x = 0"),
        pytest.param(sp.xlogy, (2.0, 0.0), (-INF, INF), id="xlogy at y = 0"),
        pytest.param(sp.xlog1py, (0.0, -1.0), (0.0, 0.0), id="xlog1py at the corner"),
        pytest.param(sp.entr, (0.0,), (INF,), id="entr at 0"),
        pytest.param(sp.rel_entr, (0.0, 0.0), (1.0, 0.0), id="rel_entr at the corner"),
        pytest.param(sp.rel_entr, (0.0, 2.0), (-INF, 0.0), id="rel_entr at x = 0"),
        pytest.param(sp.kl_div, (0.0, 0.0), (0.0, 1.0), id="kl_div at the corner"),
        pytest.param(sp.kl_div, (2.0, 2.0), (0.0, 0.0), id="kl_div of equals"),
        pytest.param(sp.logit, (0.0,), (INF,), id="logit at 0"),
        pytest.param(sp.erfinv, (1.0,), (INF,), id="erfinv at 1"),
        pytest.param(sp.huber, (1.0, 1.0), (0.0, 1.0), id="huber where its pieces meet"),
        pytest.param(sp.huber, (1.0, -3.0), (2.0, -1.0), id="huber outside"),
        pytest.param(lambda x: sp.gammainc(1.0, x), (0.0,), (1.0,), id="gammainc of a = 1 at 0"),
        pytest.param(lambda x: sp.gammainc(2.0, x), (0.0,), (0.0,), id="gammainc of a = 2 at 0"),
        pytest.param(lambda x: sp.gammainc(0.5, x), (0.0,), (INF,), id="gammainc of a = 1/2 at 0"),
        pytest.param(lambda x: sp.betainc(1.0, 1.0, x), (0.0,), (1.0,), id="betainc of the uniform at 0"),
    ],
)
def test_chosen_derivatives(f, args, expected) -> None:
    with np.errstate(divide="ignore"):
        reverse = da.grad(lambda *a: f(*a), argnums=tuple(range(len(args))))(*args)
        np.testing.assert_allclose(reverse, expected, rtol=1e-14)
        for i in range(len(args)):
            tangents = [1.0 if j == i else 0.0 for j in range(len(args))]
            np.testing.assert_allclose(da.jvp(f, args, tangents)[1], expected[i], rtol=1e-14)


def test_mixed_derivative_of_xlogy_where_x_is_zero() -> None:
    assert da.grad(lambda y: da.grad(lambda x: sp.xlogy(x, y))(0.0))(4.0) == 0.25
    assert da.grad(lambda x: da.grad(lambda y: sp.xlogy(x, y))(4.0))(0.0) == 0.25


@pytest.mark.parametrize(
    ("pole", "at", "inside"),
    [
        (sp.logit, 0.0, 0.3),
        (sp.entr, 0.0, 0.3),
        (sp.erfinv, 1.0, 0.3),
        (sp.ndtri, 0.0, 0.3),
        (lambda p: sp.stdtrit(3.0, p), 0.0, 0.3),
        (lambda p: sp.gdtrix(1.0, 3.0, p), 0.0, 0.3),
        (lambda p: sp.gdtria(p, 3.0, 1.0), 0.0, 0.3),
        (lambda p: sp.bdtri(1.0, 4, p), 1.0, 0.3),
    ],
)
def test_a_pole_in_the_branch_not_taken(pole, at, inside) -> None:
    g = da.grad(lambda x: np.sum(np.where(x == at, 3 * x, pole(x))))(np.array([at, inside]))
    slope = da.jvp(pole, (inside,), (1.0,))[1]
    np.testing.assert_allclose(g, [3.0, slope])
    t = da.jvp(pole, (np.array([at, inside]),), (np.array([0.0, 1.0]),))[1]  # a tangent of zero stays zero
    np.testing.assert_allclose(t, [0.0, slope])


# ── removable singularities, to every order ──────────────────────────────────────────────────────────────────────


def test_spence_at_one() -> None:
    np.testing.assert_allclose(derivatives(sp.spence, 1.0, 4), [-1, 1 / 2, -2 / 3, 3 / 2], rtol=1e-14)


def test_exprel_at_zero() -> None:
    np.testing.assert_allclose(derivatives(sp.exprel, 0.0, 4), [1 / 2, 1 / 3, 1 / 4, 1 / 5], rtol=1e-14)


@pytest.mark.parametrize("x", [0.5, 2.0])
def test_boxcox_at_lambda_zero(x) -> None:
    log = np.log(x)
    expected = [log**2 / 2, log**3 / 3, log**4 / 4]
    np.testing.assert_allclose(derivatives(lambda lmbda: sp.boxcox(x, lmbda), 0.0, 3), expected, rtol=1e-13)
    np.testing.assert_allclose(derivatives(lambda lmbda: sp.boxcox1p(x - 1, lmbda), 0.0, 3), expected, rtol=1e-13)


@pytest.mark.parametrize("f", [sp.j1, sp.i1, lambda x: sp.jv(1, x), lambda x: sp.iv(1, x)])
def test_bessel_functions_of_order_one_at_zero(f) -> None:
    sign = np.sign(f(1e-3) - 0.5e-3)  # ± x³/16 follows x/2
    np.testing.assert_allclose(derivatives(f, 0.0, 3), [0.5, 0.0, sign * 3 / 8], atol=1e-15)


@pytest.mark.parametrize(
    "f",
    [sp.jv, sp.yv, sp.iv, sp.kv, sp.kve, sp.hankel1, sp.hankel2, sp.hankel1e, sp.hankel2e],
    ids=lambda f: f.__name__,
)
def test_bessel_functions_of_complex_arguments(f) -> None:
    v, h = np.array([0.3, 1.0, 2.7]), 1e-5
    z, t = np.array([1 + 0.5j, 0.7 - 0.4j, 2j]), np.array([1j, 0.3 - 1j, 1.0])
    expected = (f(v, z + h * t) - f(v, z - h * t)) / (2 * h)
    np.testing.assert_allclose(da.jvp(lambda z: f(v, z), (z,), (t,))[1], expected, rtol=1e-8)
    (back,) = da.vjp(lambda z: f(v, z), z)[1](t)
    np.testing.assert_allclose(back, expected, rtol=1e-8)


def test_elliptic_integrals_at_zero() -> None:
    pi = np.pi
    np.testing.assert_allclose(derivatives(sp.ellipk, 0.0, 2), [pi / 8, 9 * pi / 64], rtol=1e-14)
    np.testing.assert_allclose(derivatives(sp.ellipe, 0.0, 2), [-pi / 8, -3 * pi / 64], rtol=1e-14)
    m = np.array([-3.0, 0.2, 0.97])
    k, e = sp.ellipk(m), sp.ellipe(m)
    np.testing.assert_allclose(
        da.jvp(sp.ellipk, (m,), (np.ones(3),))[1], (e - (1 - m) * k) / (2 * m * (1 - m)), rtol=1e-12
    )
    np.testing.assert_allclose(da.jvp(sp.ellipe, (m,), (np.ones(3),))[1], (e - k) / (2 * m), rtol=1e-12)


def test_reciprocal_gamma_at_its_zeros() -> None:
    """1/Γ has derivative (−1)ⁿ n! at −n, where ψ/Γ is 0·∞; and 2γ is its second derivative at 0."""
    for n, expected in enumerate([1.0, -1.0, 2.0, -6.0]):
        assert da.jvp(sp.rgamma, (-float(n),), (1.0,))[1] == pytest.approx(expected, rel=1e-13)
    assert derivatives(sp.rgamma, 0.0, 2)[1] == pytest.approx(2 * np.euler_gamma, rel=1e-13)
    x = np.array([0.49, 0.51, 3.0])
    expected = -sp.digamma(x) * sp.rgamma(x)
    np.testing.assert_allclose(da.jvp(sp.rgamma, (x,), (np.ones(3),))[1], expected, rtol=1e-13)


def test_orthogonal_polynomials_at_the_ends_of_their_interval() -> None:
    for n in range(5):
        sign = (-1.0) ** (n + 1)
        legendre, chebyt, chebyu = n * (n + 1) / 2, n**2, n * (n + 1) * (n + 2) / 3
        for f, expected in ((sp.eval_legendre, legendre), (sp.eval_chebyt, chebyt), (sp.eval_chebyu, chebyu)):
            assert da.jvp(lambda x, f=f, n=n: f(n, x), (1.0,), (1.0,))[1] == pytest.approx(expected)
            assert da.jvp(lambda x, f=f, n=n: f(n, x), (-1.0,), (1.0,))[1] == pytest.approx(sign * expected)


# ── far from the origin: no cancellation ─────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("x", [5.0, 11.9, 12.1, 50.0, 1e3, 1e8])
def test_scaled_error_function_far_out(x) -> None:
    """erfcx⁽ⁿ⁾(x) = (2/√π) ∫ (−2t)ⁿ exp(−t² − 2xt) dt over t > 0, by Gauss and Laguerre's rule in u = 2xt."""
    u, w = np.polynomial.laguerre.laggauss(90)
    t = u / (2 * x)
    expected = [2 / np.sqrt(np.pi) * np.sum(w * (-2 * t) ** n * np.exp(-t * t)) / (2 * x) for n in (1, 2)]
    found = derivatives(sp.erfcx, x, 2)
    assert found[0] == pytest.approx(expected[0], rel=1e-12)
    assert found[1] == pytest.approx(expected[1], rel=1e-8)


@pytest.mark.parametrize("x", [12.5, 60.0, -60.0, 1e5])
def test_dawson_far_out(x) -> None:
    first, second = derivatives(sp.dawsn, x, 2)
    series = sum(c / x ** (2 * k) for k, c in enumerate([1, 3 / 2, 15 / 4, 105 / 8, 945 / 16, 10395 / 32]))
    assert first == pytest.approx(-series / (2 * x * x), rel=1e-9)
    assert second == pytest.approx(-2 * (sp.dawsn(x) + x * first), rel=1e-3)


def test_tails_of_the_normal_distribution() -> None:
    x = np.array([-1e5, -40.0, -3.0, 0.0, 8.0, 39.0])
    tangent = da.jvp(sp.log_ndtr, (x,), (np.ones(6),))[1]
    assert tangent[0] == pytest.approx(1e5 + 1e-5, rel=1e-14)
    np.testing.assert_allclose(
        tangent[2:5], np.exp(-(x**2) / 2)[2:5] / np.sqrt(2 * np.pi) / sp.ndtr(x)[2:5], rtol=1e-12
    )
    assert np.all(np.isfinite(tangent))
    round_trip = da.jvp(lambda x: sp.ndtri_exp(sp.log_ndtr(x)), (x[:4],), (np.ones(4),))[1]
    np.testing.assert_allclose(round_trip, 1.0, rtol=1e-9)


def test_logistic_tails_keep_their_digits() -> None:
    for x in (-700.0, -40.0, 40.0, 700.0):
        assert da.jvp(sp.expit, (x,), (1.0,))[1] == pytest.approx(np.exp(-abs(x)), rel=1e-13)
    assert da.jvp(sp.log_expit, (40.0,), (1.0,))[1] == pytest.approx(np.exp(-40.0), rel=1e-13)


def test_no_warnings_beside_poles() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        da.grad(lambda x: np.sum(sp.xlogy(x, x)))(np.array([0.0, 1.0]))
        da.grad(lambda x: np.sum(sp.logit(x)))(np.array([0.2, 1.0]))
        da.grad(lambda x: np.sum(sp.gammaincc(0.5, x)))(np.array([0.0, 1.0]))


# ── polygamma ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("z", [0.3 + 1j, -3.2 + 0.4j, 5 - 20j, 0.51 + 1e-3j, -0.5 - 30j, 3 - 400j])
def test_derivatives_of_digamma_in_the_complex_plane(z) -> None:
    mpmath = pytest.importorskip("mpmath")
    f = sp.loggamma
    for n in range(5):
        f = lambda z, g=f: da.jvp(g, (z,), (1.0 + 0j,))[1]
        np.testing.assert_allclose(f(z), complex(mpmath.psi(n, mpmath.mpc(z))), rtol=1e-12)
    assert np.isclose(da.jvp(sp.digamma, (z,), (2.0 + 0j,))[1], 2 * complex(mpmath.psi(1, mpmath.mpc(z))), rtol=1e-12)


def test_derivatives_of_digamma_are_polygammas() -> None:
    for x in (0.2, 1.0, 7.5):
        np.testing.assert_allclose(
            derivatives(sp.digamma, x, 4), [sp.polygamma(n, x) for n in (1, 2, 3, 4)], rtol=1e-13
        )
        np.testing.assert_allclose(derivatives(sp.gammaln, x, 3), [sp.polygamma(n, x) for n in (0, 1, 2)], rtol=1e-13)


@pytest.mark.parametrize("x", [-0.5, -1.3, -6.9])
def test_polygamma_left_of_zero(x) -> None:
    """By recurrence, ψₙ(x) = ψₙ(x+m) − (−1)ⁿ n! Σ 1/(x+k)ⁿ⁺¹ over k < m."""
    m = 8
    for order in (1, 2, 3):
        shift = (-1.0) ** order * sp.factorial(order) * sum(1 / (x + k) ** (order + 1) for k in range(m))
        assert polygamma(np.float64(x), order=order) == pytest.approx(sp.polygamma(order, x + m) - shift, rel=1e-11)


def test_gamma_left_of_zero() -> None:
    x, h = np.array([-0.5, -1.7, -2.2]), 1e-6
    for f in (sp.gamma, sp.gammaln, sp.digamma):
        expected = (f(x + h) - f(x - h)) / (2 * h)
        np.testing.assert_allclose(da.jvp(f, (x,), (np.ones(3),))[1], expected, rtol=1e-7)


# ── refusals ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("f", "argument"),
    [
        (lambda k: sp.pdtr(k, 1.0), "k"),
        (lambda v: sp.jv(v, 1.0 + 1j), "v"),
        (lambda n: sp.eval_legendre(n, 0.5), "n"),
        (lambda a: sp.hyp1f1(a, 1.0, 1.0 + 1j), "a"),
        (lambda z: sp.ive(0.5, z + 1j), "z"),
    ],
)
def test_parameters_without_a_rule_are_refused_by_name(f, argument) -> None:
    for differentiate in (da.grad(lambda x: np.real(f(x))), lambda x: da.jvp(f, (x,), (1.0,))):
        with pytest.raises(RuleMissingError, match=f"argument `{argument}`"):
            differentiate(1.5)
    np.testing.assert_allclose(da.vmap(f)(np.array([1.5, 2.5])), [f(1.5), f(2.5)])


def test_a_ufunc_without_a_rule_is_refused_even_without_tangents() -> None:
    x = np.array([0.5, 0.7])
    for transform in (
        lambda f: da.jvp(f, (x,), (x,)),
        lambda f: da.vmap(f)(x),
        lambda f: da.grad(lambda x: np.sum(f(x)))(x),
    ):
        with pytest.raises(UnsupportedError, match="kolmogorov"):
            transform(sp.kolmogorov)
        with pytest.raises(UnsupportedError, match="mathieu_a"):
            transform(lambda x: sp.mathieu_a(1.0, x))


def test_python_functions_of_scipy_are_never_silently_constant() -> None:
    for f in (sp.logsumexp, sp.softmax, lambda x: sp.polygamma(1, x), lambda x: sp.multigammaln(x, 2)):
        try:
            _, tangent = da.jvp(f, (np.array([2.0, 3.0]),), (np.array([1.0, 0.0]),))
        except Exception:
            continue
        assert np.any(tangent != 0)


# ── the names that are SciPy's own, loading ──────────────────────────────────────────────────────────────────────


def test_names_that_numpy_has_too() -> None:
    x = np.array([0.5, 1.5])
    for theirs, ours in (
        (sp.exp2, np.exp2),
        (sp.expm1, np.expm1),
        (sp.log1p, np.log1p),
        (sp.cbrt, np.cbrt),
        (sp.round, np.rint),
    ):
        np.testing.assert_array_equal(da.jvp(theirs, (x,), (x,)), da.jvp(ours, (x,), (x,)))
    np.testing.assert_array_equal(da.jvp(sp.sinc, (x,), (x,)), da.jvp(np.sinc, (x,), (x,)))
    np.testing.assert_allclose(da.jvp(sp.softplus, (x,), (x,))[1], x * sp.expit(x))
    assert da.jvp(lambda z: np.real(sp.lambertw(z)), (1.0,), (1.0,))[1] == pytest.approx(0.3618962566348892)


def test_single_precision_stays_single() -> None:
    x = np.array([0.3, 0.6], np.float32)
    for f in (sp.erf, sp.expit, sp.gammaln, sp.digamma, sp.log_ndtr, sp.erfcx, sp.entr, lambda x: sp.xlogy(x, x)):
        value, tangent = da.jvp(f, (x,), (x,))
        assert value.dtype == tangent.dtype == np.float32


def test_scipy_is_loaded_only_when_it_is_used() -> None:
    program = (
        "import sys, dualad as da, numpy as np\n"
        "assert 'scipy' not in sys.modules\n"
        "da.jvp(np.sin, (1.0,), (1.0,))\n"
        "assert 'scipy' not in sys.modules\n"
        "import scipy.special as sp\n"
        "assert 'dualad.ops.special' not in sys.modules\n"
        "value, tangent = da.jvp(sp.erf, (np.array([0.0]),), (np.array([1.0]),))\n"
        "assert abs(tangent[0] - 2 / np.sqrt(np.pi)) < 1e-15, tangent\n"
        "assert da.vmap(sp.gammaln)(np.array([1.0, 2.0])).shape == (2,)\n"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize("x", [-1e4, -300.0, -17.5, -16.0, -3.0, 0.0, 8.0, 1000.0])
def test_log_ndtr_far_out(x) -> None:
    """Three derivatives of log Φ against mpmath, where φ/Φ is as large as −x and where it underflows."""
    derivative = sp.log_ndtr
    for order in (1, 2, 3):
        derivative = da.grad(derivative)
        with mpmath.workdps(150):
            logarithm = lambda z: mpmath.log(mpmath.ncdf(z))
            expected = float(mpmath.diff(logarithm, mpmath.mpf(x), order, h=mpmath.mpf("1e-30")))
        assert derivative(x) == pytest.approx(expected, rel=1e-6, abs=1e-300)
