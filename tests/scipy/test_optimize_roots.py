"""Roots: against closed forms, central differences of SciPy's own solvers, both modes, two orders, lanes and `jit`.

Not for: minima (`test_optimize_minimize.py`).
"""

from __future__ import annotations

import functools

import numpy as np
import pytest
import scipy.optimize

import dualad as da
from dualad.errors import CapturedTensorError, ConvergenceError, ShapeError, SingularMatrixError
from dualad.scipy import optimize
from dualad.scipy.optimize import problem, scalar
from tests.oracles.implicit import verify

A, B = np.array([2.0, 3.0]), np.float64(1.3)
TIGHT = {"xtol": 1e-14, "rtol": 1e-14}


def cube_root(a):
    return a ** (1 / 3)


def system(x, a, b):
    """Two equations with the root (√a₀ b, a₁ − √a₀)."""
    return [x[0] ** 2 - a[0] * b**2, x[0] / b + x[1] - a[1]]


def closed_form(a, b):
    return np.stack([np.sqrt(a[0]) * b, a[1] - np.sqrt(a[0])])


@pytest.mark.filterwarnings("ignore::dualad.boundary.swallowed.RefusalSwallowedWarning")
@pytest.mark.parametrize(
    "solve",
    [
        lambda f, x0: optimize.root(f, x0, tol=1e-13).x,
        lambda f, x0: optimize.root(f, x0, tol=1e-13, method="lm", jac="dualad").x,
        lambda f, x0: optimize.root(f, x0, tol=1e-12, method="krylov").x,
        lambda f, x0: optimize.fsolve(f, x0, xtol=1e-13),
        lambda f, x0: optimize.fsolve(f, x0, xtol=1e-13, fprime="dualad", col_deriv=True, full_output=True)[0],
        lambda f, x0: optimize.newton_krylov(f, x0, f_tol=1e-12),
    ],
    ids=["hybr", "lm", "krylov", "fsolve", "fprime", "newton_krylov"],
)
def test_systems(solve) -> None:
    def f(a, b):
        return solve(lambda x: np.stack(system(x, a, b)), np.array([1.0, 1.0]))

    verify(f, A, B, exact=closed_form)


@pytest.mark.filterwarnings("ignore:An ill-conditioned")
@pytest.mark.parametrize("name", ["anderson", "broyden1", "broyden2", "diagbroyden", "excitingmixing", "linearmixing"])
def test_the_kin_of_newton_krylov(name) -> None:
    solve = getattr(optimize, name)
    options = {"alpha": 0.3} if "mixing" in name else {}
    f = lambda a: solve(lambda x: 1.0 - a * (x + 0.1 * x**3), np.full(2, 0.4), f_tol=1e-12, maxiter=500, **options)
    x = f(A)
    found, slope = da.jvp(f, (A,), (np.ones(2),))
    np.testing.assert_allclose(found, x)
    np.testing.assert_allclose(slope, -(x + 0.1 * x**3) / (A * (1 + 0.3 * x**2)), rtol=1e-9)


@pytest.mark.parametrize(
    "solve",
    [
        *[
            lambda f, name=name: getattr(optimize, name)(f, 0.1, 3.0, **TIGHT)
            for name in ("bisect", "brenth", "brentq", "ridder", "toms748")
        ],
        lambda f: optimize.newton(f, 1.0, tol=1e-14),
        lambda f: optimize.newton(f, 1.0, tol=1e-14, fprime="dualad", fprime2="dualad"),
        lambda f: optimize.newton(f, 1.0, x1=1.2, tol=1e-14, full_output=True)[1].root,
        lambda f: optimize.root_scalar(f, bracket=[0.1, 3.0], **TIGHT).root,
        lambda f: optimize.root_scalar(f, x0=1.0, fprime="dualad", **TIGHT).root,
        lambda f: optimize.root_scalar(f, x0=1.0, fprime="dualad", fprime2="dualad", method="halley", **TIGHT).root,
    ],
)
def test_numbers(solve) -> None:
    verify(lambda a: solve(lambda x: x**3 - a), np.float64(2.0), exact=cube_root)


def test_one_equation_for_each_entry() -> None:
    f = lambda a: optimize.newton(lambda x: x**3 - a, np.ones(2), tol=1e-14)
    verify(f, A, exact=cube_root)
    x, ended, zero = da.jvp(
        lambda a: optimize.newton(lambda x: x**3 - a, np.ones(2), full_output=True), (A,), (A,), has_aux=False
    )[0]
    assert x.shape == (2,)
    assert ended.all()
    assert not zero.any()


def test_fixed_points() -> None:
    # x = cos(a x), entry by entry, and a coupled one.
    f = lambda a: optimize.fixed_point(lambda x: 0.5 * (x + a / x), np.ones(2), xtol=1e-13)
    verify(f, A, exact=np.sqrt)
    g = lambda b: optimize.fixed_point(lambda x: np.stack([0.2 * x[1] + b, 0.3 * x[0]]), np.ones(2), xtol=1e-14)
    verify(g, B, exact=lambda b: np.stack([b, 0.3 * b]) / 0.94)


def test_arguments_and_closures_and_users_jacobians() -> None:
    for f in (
        lambda a, b: optimize.root(system, [1.0, 1.0], args=(a, b), tol=1e-13).x,
        lambda a, b: optimize.root(
            lambda x, a: np.stack(system(x, a, b)), [1.0, 1.0], args=a, tol=1e-13,
            jac=lambda x, a: np.stack([np.stack([2 * x[0], 0 * b]), np.stack([1 / b, 1 + 0 * b])]),
        ).x,
        lambda a, b: optimize.root(
            lambda x: (np.stack(system(x, a, b)), [[2 * x[0], 0.0], [1 / b, 1.0]]), [1.0, 1.0], jac=True, tol=1e-13,
        ).x,
    ):  # fmt: skip
        found = da.jvp(f, (A, B), (A, 0.3))[1]
        np.testing.assert_allclose(found, da.jvp(closed_form, (A, B), (A, 0.3))[1], rtol=1e-9)


class Curve:
    """An equation with its parameters as attributes."""

    def __init__(self, a) -> None:
        self.a, self.pieces = a, {"scale": [a, 1.0]}

    def value(self, x, shift=0.0):
        return (x - self.a if x < 1 else x * self.pieces["scale"][0] - self.a**2) - shift


def branching(x, a):
    return x - a if x < 1 else a * x - a * a


HELD: list = [None]


@pytest.mark.filterwarnings("ignore:.*lanes disagree")
def test_functions_that_branch() -> None:
    """They can't be written down; what they read is found where Python keeps it."""
    for solve in (
        lambda a: optimize.brentq(branching, 0.0, 5.0, args=(a,)),
        lambda a: optimize.brentq(lambda x: branching(x, a), 0.0, 5.0),
        lambda a: optimize.brentq(lambda x, b=a: branching(x, b), 0.0, 5.0),
        lambda a: optimize.brentq(functools.partial(branching, a=a), 0.0, 5.0),
        lambda a: optimize.brentq(Curve(a).value, 0.0, 5.0),
        lambda a: optimize.brentq((lambda f: lambda x: f(x)[0])(lambda x: (branching(x, a), 1)), 0.0, 5.0),
        lambda a: optimize.root_scalar(lambda x: branching(x, a), bracket=[0.0, 5.0], fprime="dualad").root,
    ):
        assert da.grad(solve)(2.0) == pytest.approx(1.0)
        assert da.grad(da.grad(solve))(2.0) == pytest.approx(0.0)
        np.testing.assert_allclose(da.vmap(da.grad(solve))(np.array([0.5, 2.0])), 1.0)
    calls = 0

    def counted(x):
        nonlocal calls
        calls += 1
        return branching(x, HELD[0])

    def through_a_global(a):
        HELD[0] = a
        return optimize.brentq(counted, 0.0, 5.0)

    with pytest.raises(CapturedTensorError, match="args="):
        da.grad(through_a_global)(2.0)
    HELD[0] = None

    def with_a_counter(a):
        def f(x):
            nonlocal calls
            calls += 1
            return branching(x, a)

        return optimize.brentq(f, 0.0, 5.0)

    before = calls
    assert da.grad(with_a_counter)(2.0) == pytest.approx(1.0)
    assert calls > before + 3


def test_plain_calls_are_scipys() -> None:
    plain = lambda x: x**2 - 2.0
    for ours, theirs in (
        (optimize.root(plain, [1.0]), scipy.optimize.root(plain, [1.0])),
        (optimize.root_scalar(plain, bracket=[0, 2]), scipy.optimize.root_scalar(plain, bracket=[0, 2])),
    ):
        assert repr(ours) == repr(theirs)
    assert optimize.brentq(plain, 0, 2, require_success=True) == scipy.optimize.brentq(plain, 0, 2)
    assert optimize.newton(plain, 1.0, fprime="dualad") == pytest.approx(2**0.5)
    inside = da.grad(lambda a: a * optimize.brentq(plain, 0, 2))(1.0)
    assert inside == scipy.optimize.brentq(plain, 0, 2)


def test_results_have_tangents_and_counts() -> None:
    seen = []

    def f(a):
        seen.append(optimize.root(lambda x: x**2 - a, np.ones(2)))
        seen.append(optimize.root_scalar(lambda x: x**2 - a, bracket=[0.0, 3.0]))
        return seen[0].x

    da.jvp(f, (2.0,), (1.0,))
    result, one = seen
    assert isinstance(result, scipy.optimize.OptimizeResult)
    assert result.success is True
    assert type(result.nfev) is int
    assert "converged" in result.message
    assert isinstance(one, scipy.optimize.RootResults)
    assert one.converged is True
    assert one.method == "brentq"
    lanes = da.vmap(lambda a: optimize.root(lambda x: x**2 - a, np.ones(1)).success)(np.array([2.0, 3.0]))
    assert lanes.dtype == bool
    assert lanes.all()


def test_no_answer_is_an_error() -> None:
    for f in (
        lambda a: optimize.root(lambda x: x**2 + a, [1.0]).x[0],
        lambda a: optimize.fsolve(lambda x: x**2 + a, [1.0])[0],
        lambda a: optimize.newton(lambda x: x**2 + a, 1.0),
        lambda a: optimize.newton(lambda x: x**2 + a, np.ones(2))[0],
        lambda a: optimize.brentq(lambda x: x**3 - a, 0.0, 2.0, maxiter=2),
        lambda a: optimize.root_scalar(lambda x: x**3 - a, bracket=[0.0, 2.0], maxiter=2).root,
        lambda a: optimize.fixed_point(lambda x: x + a, 1.0),
        lambda a: optimize.newton_krylov(lambda x: x**2 + a, np.ones(1), maxiter=3)[0],
    ):
        with np.errstate(all="ignore"), pytest.raises(ConvergenceError):
            da.grad(f)(1.0)
    rough = lambda a: optimize.brentq(lambda x: x**3 - a, 0.0, 2.0, maxiter=5, require_success=False)
    assert np.isfinite(da.vmap(rough)(np.ones(2))).all()
    with pytest.raises(SingularMatrixError, match="tolerance"):
        da.grad(lambda a: optimize.brentq(lambda x: x**3 - a, 0.0, 2.0, maxiter=3, require_success=False))(1.0)


def test_singular_jacobians_are_errors() -> None:
    twice = lambda a: optimize.fsolve(lambda x: np.stack([x[0] + x[1] - a, 2 * x[0] + 2 * x[1] - 2 * a]), [1.0, 1.0])[0]
    with pytest.raises(SingularMatrixError, match=r"direction \[ ?1\., ?-1\.\]"):
        da.grad(twice)(1.0)
    with pytest.raises(SingularMatrixError, match="multiple"):
        da.grad(lambda a: optimize.fsolve(lambda x: (x - a) ** 2, [1.1])[0])(1.0)
    with pytest.raises(SingularMatrixError, match="multiple"):
        da.grad(lambda a: optimize.newton(lambda x: (x - a) ** 2, 1.5))(1.0)
    with pytest.raises(SingularMatrixError):
        da.jit(da.grad(twice))(1.0)


def test_errors_of_the_users_function_come_out_as_they_are() -> None:
    def f(x, a):
        if x > 1.5:
            raise KeyError("mine")
        return x - a

    with pytest.raises(KeyError, match="mine"):
        da.grad(lambda a: optimize.brentq(f, 0.0, 2.0, args=(a,)))(1.0)
    with pytest.raises(ShapeError, match="2 numbers for 1 unknowns"):
        da.grad(lambda a: optimize.fsolve(lambda x: np.stack([x[0], x[0] * a]), [1.0])[0])(1.0)


@pytest.mark.parametrize("plant", ["slope", "sign"])
def test_planted_faults_are_caught(plant, monkeypatch) -> None:
    """A rule that is off by a factor, or by its sign, does not pass."""
    factor = {"slope": 1.001, "sign": -1.0}[plant]
    right = problem.Condition.dense
    monkeypatch.setattr(problem.Condition, "dense", lambda self, r, b: factor * right(self, r, b))
    monkeypatch.setattr(scalar.Entrywise, "dense", lambda self, r, b: factor * right(self, r, b))
    with pytest.raises(AssertionError):
        verify(lambda a: optimize.root(lambda x: x**3 - a, [1.0, 1.0], tol=1e-13).x, A)


def test_many_unknowns_are_solved_as_a_sparse_system_or_by_products() -> None:
    n = 600
    source = np.linspace(1.0, 2.0, n)

    def sparse(s):
        f = lambda u: 4 * u - np.roll(u, 1) - np.roll(u, -1) + 0.1 * u**3 - s
        return np.sum(optimize.newton_krylov(f, np.ones(n), f_tol=1e-11))

    def full(s):
        f = lambda u: u + 0.1 * np.sum(u**2) / n - s
        return np.sum(optimize.newton_krylov(f, np.ones(n), f_tol=1e-11))

    for f in (sparse, full):
        slope = da.grad(f)(source)
        direction = np.cos(np.arange(n))
        h = 1e-4
        difference = (f(source + h * direction) - f(source - h * direction)) / (2 * h)
        assert slope @ direction == pytest.approx(difference, rel=1e-6)


def test_krylov_with_the_exact_sparse_jacobian() -> None:
    """It converges where the method alone does not, in a few steps, and not only for vectors."""
    n = 2000

    def f(u, lam):
        edge = np.zeros(1)
        left, right = np.concatenate([edge, u[:-1]]), np.concatenate([u[1:], edge])
        return (left - 2 * u + right) * (n + 1) ** 2 + lam * np.exp(u)

    solve = lambda lam, **more: optimize.root(f, np.zeros(n), args=(lam,), method="krylov", tol=1e-6, **more)
    out = solve(1.0, jac="dualad")
    assert out.success
    assert out.nit < 8
    slope, h = da.jvp(lambda a: solve(a, jac="dualad").x, (1.0,), (1.0,))[1], 1e-4
    difference = (solve(1.0 + h, jac="dualad").x - solve(1.0 - h, jac="dualad").x) / (2 * h)
    np.testing.assert_allclose(slope, difference, rtol=1e-5)
    square = optimize.root(lambda x: x**3 - 2.0, np.ones((2, 2)), method="krylov", jac="dualad", tol=1e-10)
    np.testing.assert_allclose(square.x, np.full((2, 2), 2 ** (1 / 3)))


def test_arguments_by_position_and_unknown_ones() -> None:
    def by_position(a):
        x, result = optimize.toms748(lambda x, k: x**3 - k, 0.0, 3.0, (a,), 2, 1e-13, 1e-13, 100, True)
        assert result.converged
        return x

    np.testing.assert_allclose(da.grad(by_position)(2.0), 2.0 ** (-2 / 3) / 3, rtol=1e-10)
    with pytest.raises(TypeError, match="unexpected keyword"):
        da.grad(lambda a: optimize.brentq(lambda x: x**3 - a, 0.0, 3.0, tolerance=1e-9))(2.0)


def test_jacobians_of_users_and_their_columns() -> None:
    a = np.array([2.0, 3.0])
    exact = np.diag(a ** (-2 / 3) / 3)
    given = lambda a: optimize.fsolve(lambda x, a: x**3 - a, np.ones(2), (a,), lambda x, a: np.diag(3 * x**2))
    own = lambda a: optimize.fsolve(lambda x: x**3 - a, np.ones(2), fprime="dualad", col_deriv=1)
    for solve in (given, own):
        np.testing.assert_allclose(da.jacfwd(solve)(a), exact, rtol=1e-7, atol=1e-12)


def test_what_holds_nothing_traced_is_scipys() -> None:
    def f(a):
        found = [
            optimize.brentq(lambda x: x - 2.0, 0.0, 3.0),
            optimize.root(lambda x: x - 2.0, 1.0).x[0],
            optimize.newton(lambda x: x - 2.0, 1.0),
            optimize.fixed_point(np.cos, 1.0),
            optimize.newton_krylov(lambda x: x - 1.0, np.zeros(2))[0],
            optimize.minimize(lambda x: np.sum((x - 1.0) ** 2), np.ones(2)).x[0],
            optimize.fmin(lambda x: (x[0] - 1.0) ** 2, [1.0], disp=0)[0],
            optimize.leastsq(lambda x: x - 2.0, 1.0)[0][0],
            optimize.nnls(np.eye(2), np.ones(2))[0][0],
            optimize.linprog([1.0], bounds=(1, 2)).fun,
        ]
        assert all(isinstance(x, (float, np.ndarray)) for x in found)
        return a * sum(found)

    assert np.isfinite(da.grad(f)(2.0))
