"""Minima: against closed forms, central differences of SciPy's own solvers, both modes, two orders, lanes and `jit`.

Not for: sums of squares (`test_optimize_least_squares.py`), or linear programs (`test_optimize_linear.py`).
"""

from __future__ import annotations

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse

import dualad as da
from dualad.errors import ArgumentError, ConvergenceError, KinkError, ShapeError, SingularMatrixError
from dualad.scipy import optimize
from dualad.scipy.optimize import SolutionWarning, stationary
from dualad.scipy.optimize.minimize import Objective
from tests.oracles.implicit import verify

X0 = np.array([0.3, 0.2])
A, B = np.array([0.8, -0.4]), np.float64(1.3)
OWN = {"jac": "dualad", "tol": 1e-11}


def hill(x, a, b):
    """Convex, with mixed terms; nothing about it is symmetric."""
    return (x[0] - a[0]) ** 4 + b * (x[0] - a[0]) ** 2 + 2 * (x[1] - a[1] * x[0] * b) ** 2 + 0.1 * np.exp(x[1])


def square(x, a, b):
    return b * np.sum((x - a) ** 2)


@pytest.mark.parametrize(
    "options",
    [
        OWN,
        pytest.param({**OWN, "method": "CG"}, marks=pytest.mark.full),
        pytest.param({**OWN, "method": "L-BFGS-B", "options": {"ftol": 1e-16}}, marks=pytest.mark.full),
        pytest.param({**OWN, "method": "Newton-CG", "hess": "dualad"}, marks=pytest.mark.full),
        {**OWN, "method": "trust-exact", "hess": "dualad"},
    ],
    ids=["BFGS", "CG", "L-BFGS-B", "Newton-CG", "trust-exact"],
)
def test_free_minima(options) -> None:
    f = lambda a, b: optimize.minimize(lambda x: hill(x, a, b), X0, **options).x
    verify(f, A, B, second=options is OWN, compiled=False, rtol=1e-7, accuracy=1e-5)


def test_the_value_of_a_minimum_and_its_gradient() -> None:
    verify(lambda a, b: optimize.minimize(hill, X0, args=(a, b), **OWN).fun, A, B, rtol=1e-7, second=False)
    tangent = da.jvp(lambda a: optimize.minimize(hill, X0, args=(a, B), **OWN).jac, (A,), (A,))[1]
    np.testing.assert_allclose(tangent, 0, atol=1e-12)


def test_closed_forms() -> None:
    verify(lambda a: optimize.minimize(lambda x: np.sum(np.exp(x) - a**2 * x), X0, **OWN).x, A + 2,
           exact=lambda a: 2 * np.log(a), rtol=1e-8, compiled=False, accuracy=1e-6)  # fmt: skip


# Which bound or constraint holds is what each of these differs in.
PROBLEMS = {
    "an upper bound that moves": lambda a, b: {"bounds": [(None, a[0] * b / 2), (None, None)]},
    "bounds as an object": lambda a, b: {"bounds": optimize.Bounds([-5.0, -5.0], [9.0, a[1] * b])},
    "all variables at bounds": lambda a, b: {"bounds": [(None, a[0] * b / 2), (b**2, None)]},
    "a fixed variable": lambda a, b: {"bounds": [(a[0] * b, a[0] * b), (None, None)]},
    "bounds that do not hold": lambda a, b: {"bounds": [(-9.0 * b, 9.0), (-9.0, None)]},
    "an equation": lambda a, b: {
        "constraints": {"type": "eq", "fun": lambda x: x[0] ** 2 + x[1] ** 2 - b, "jac": "dualad"}
    },
    "an inequality that holds": lambda a, b: {
        "constraints": [
            {"type": "ineq", "fun": lambda x, b: b / 4 - x[0] ** 2 - x[1] ** 2, "jac": "dualad", "args": (b,)},
            {"type": "ineq", "fun": lambda x: 100 - x[0], "jac": lambda x: np.stack([-1.0 + 0 * b, 0 * b])},
        ]
    },
    "a traced matrix": lambda a, b: {
        "constraints": [
            optimize.LinearConstraint([[a[0], 1.0]], b, b),
            optimize.LinearConstraint(np.stack([np.stack([0 * b, b])]), -np.inf, 50.0),
        ]
    },
    "an object, and a bound": lambda a, b: {
        "constraints": scipy.optimize.NonlinearConstraint(lambda x: x[0] * x[1] * b, -0.1, 5.0, jac="dualad"),
        "bounds": [(None, b / 3), (-3.0, None)],
    },
}


QUICK = ("an upper bound that moves", "an equation", "an object, and a bound")


@pytest.mark.parametrize("name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.full) for n in PROBLEMS])
def test_bounds_and_constraints(name) -> None:
    def f(a, b):
        out = optimize.minimize(lambda x: hill(x, a, b), X0, **PROBLEMS[name](a, b), **OWN)
        return np.concatenate([out.x, np.reshape(out.fun, (1,))])

    verify(f, A, B, second=name == QUICK[1], compiled=name == QUICK[1], rtol=1e-6, accuracy=3e-5)


def test_interior_points_and_multipliers() -> None:
    def f(b):
        held = scipy.optimize.NonlinearConstraint(lambda x: np.sum(x**2), -np.inf, b, jac="dualad")
        return optimize.minimize(
            lambda x: np.sum((x - 2) ** 2), X0, method="trust-constr", constraints=held, jac="dualad", hess="dualad",
            options={"gtol": 1e-10, "xtol": 1e-13, "barrier_tol": 1e-12},
        )  # fmt: skip

    slope = da.jvp(lambda b: f(b).x, (B,), (1.0,))[1]
    np.testing.assert_allclose(slope, np.sqrt(1 / (8 * B)) * np.ones(2), rtol=1e-4)  # x = √(b/2)
    value, multiplier = da.jvp(lambda b: f(b).fun, (B,), (1.0,))[1], da.jvp(lambda b: f(b).multipliers, (B,), (1.0,))[0]
    np.testing.assert_allclose(multiplier, [value], rtol=1e-4)  # the value's derivative in the limit


def test_sides_of_a_switch() -> None:
    """x = min(a, 1): the derivative is that of the piece, on both sides; at the corner the convention decides."""
    f = lambda a: optimize.minimize(lambda x: np.sum((x - a) ** 2), [0.0], bounds=[(None, 1.0)], **OWN).x[0]
    assert da.grad(f)(0.9) == pytest.approx(1.0)
    assert da.grad(f)(1.1) == pytest.approx(0.0)
    assert da.grad(f)(1.0) == pytest.approx(0.0)  # one-sided: the bound stays
    with da.kinks("nan"):
        assert np.isnan(da.grad(f)(1.0))
        assert da.grad(f)(0.9) == pytest.approx(1.0)
    with da.kinks("raise"), pytest.raises(KinkError, match="minimize"):
        da.grad(f)(1.0)
    np.testing.assert_allclose(da.vmap(da.grad(f))(np.array([0.9, 1.1])), [1.0, 0.0], atol=1e-12)


@pytest.mark.parametrize(
    "solve",
    [
        lambda f: optimize.minimize_scalar(f, tol=1e-11),
        lambda f: optimize.minimize_scalar(f, bracket=(0.0, 1.0), method="golden", tol=1e-11),
        lambda f: optimize.minimize_scalar(f, bounds=(0.0, 3.0), method="bounded", options={"xatol": 1e-11}),
    ],
)
def test_numbers(solve) -> None:
    f = lambda a: solve(lambda x: (x - a) ** 2 + 0.1 * x**4).x
    x, slope = da.jvp(f, (B,), (1.0,))
    assert slope == pytest.approx(2 / (2 + 1.2 * x**2), rel=1e-6)
    x = lambda a: da.jvp(f, (a,), (1.0,))[0]
    curvature = da.grad(da.grad(f))(B)
    assert curvature == pytest.approx(-2.4 * x(B) * slope * slope / (2 + 1.2 * x(B) ** 2), rel=1e-5)
    assert da.grad(lambda a: solve(lambda x: (x - a) ** 2 + 0.1 * x**4).fun)(B) == pytest.approx(-2 * (x(B) - B))


def test_a_number_at_its_bound() -> None:
    f = lambda a: optimize.minimize_scalar(lambda x: (x - 3.0) ** 2, bounds=(0.0, a)).x
    assert da.grad(f)(1.0) == pytest.approx(1.0)


@pytest.mark.parametrize(
    "solve",
    [
        lambda f, box: optimize.basinhopping(f, X0, niter=2, minimizer_kwargs=dict(OWN), rng=1),
        lambda f, box: optimize.differential_evolution(f, box, rng=1, tol=1e-8, popsize=6),
        lambda f, box: optimize.dual_annealing(f, box, rng=1, maxiter=5),
        pytest.param(lambda f, box: optimize.shgo(f, box, n=10), marks=pytest.mark.full),
    ],
    ids=["basinhopping", "differential_evolution", "dual_annealing", "shgo"],
)
def test_global_ones(solve) -> None:
    f = lambda a: solve(lambda x: np.sum((x - a) ** 2 + 0.1 * np.cos(3 * x)), [(-2.0, 2.0), (-2.0, 2.0 + a[0])]).x
    x, slope = da.jvp(f, (A,), (np.ones(2),))
    np.testing.assert_allclose(slope, 2 / (2 - 0.9 * np.cos(3 * x)), rtol=1e-3)


def test_plain_calls_are_scipys() -> None:
    rosen = scipy.optimize.rosen
    assert repr(optimize.minimize(rosen, X0)) == repr(scipy.optimize.minimize(rosen, X0))
    exact = optimize.minimize(rosen, X0, jac="dualad", hess="dualad", method="trust-exact")
    np.testing.assert_allclose(exact.x, 1, rtol=1e-8)
    assert exact.success
    disc = scipy.optimize.NonlinearConstraint(lambda x: x[0] ** 2 + x[1] ** 2, -np.inf, 1.0, "dualad", "dualad")
    for held in (disc, [disc], [{"type": "ineq", "fun": lambda x: 1 - x[0] ** 2 - x[1] ** 2, "jac": "dualad"}]):
        method = "SLSQP" if held.__class__ is list and isinstance(held[0], dict) else "trust-constr"
        out = optimize.minimize(rosen, X0, jac="dualad", constraints=held, method=method)
        np.testing.assert_allclose(out.x, [0.7864, 0.6177], atol=1e-3)
    assert da.grad(lambda a: a * optimize.minimize(rosen, X0).fun)(1.0) == scipy.optimize.minimize(rosen, X0).fun


def test_users_derivatives_and_results() -> None:
    seen = []

    def f(a):
        objective = lambda x, a: np.sum((x - a) ** 4 + x**2)
        gradient = lambda x, a: 4 * (x - a) ** 3 + 2 * x
        seen.append(optimize.minimize(objective, X0, (a,), jac=gradient, tol=1e-10))
        seen.append(optimize.minimize(lambda x: (objective(x, a), gradient(x, a)), X0, jac=True, tol=1e-10))
        product = lambda x, p, a: (12 * (x - a) ** 2 + 2) * p
        seen.append(optimize.minimize(objective, X0, a, "trust-ncg", gradient, hessp=product, tol=1e-10))
        return [out.x for out in seen]

    tangents = da.jvp(f, (B,), (1.0,))[1]
    x = scipy.optimize.brentq(lambda x: 4 * (x - B) ** 3 + 2 * x, 0, 2, xtol=1e-14)
    slope = 12 * (x - B) ** 2 / (12 * (x - B) ** 2 + 2)
    for tangent, out in zip(tangents, seen, strict=True):
        np.testing.assert_allclose(tangent, slope, rtol=1e-6)
        assert out.success is True
        assert type(out.nfev) is int
        assert out.message


def test_a_minimum_inside_a_minimum() -> None:
    """The outer problem searches over what the inner one is given, with exact gradients through it."""
    inner = lambda p: optimize.minimize(lambda x: np.sum((x - p) ** 2 + 0.1 * x**4), X0, **OWN).x
    outer = lambda a: optimize.minimize(lambda p: np.sum((inner(p) - a) ** 2), X0, **OWN).x
    found, slope = da.jvp(outer, (A,), (np.ones(2),))
    np.testing.assert_allclose(found, A + 0.2 * A**3, rtol=1e-5)
    np.testing.assert_allclose(slope, 1 + 0.6 * A**2, rtol=1e-5)


def test_no_answer_is_an_error() -> None:
    few = {"options": {"maxiter": 1}}
    for f in (
        lambda a: optimize.minimize(lambda x: hill(x, A, a), X0, **few).fun,
        lambda a: optimize.minimize_scalar(lambda x: (x - a) ** 2, bounds=(0, 9), method="bounded", **few).x,
    ):
        with pytest.raises(ConvergenceError, match="require_success"):
            da.grad(f)(1.0)


@pytest.mark.filterwarnings("ignore:Singular Jacobian matrix", "ignore:delta_grad == 0")
def test_what_is_no_minimum_or_not_the_only_one() -> None:
    early = lambda a: optimize.minimize(
        lambda x: np.sum((x - a) ** 2 + x**4), X0, require_success=False, jac="dualad", options={"maxiter": 2}
    ).x[0]
    with pytest.warns(SolutionWarning, match="gradient at the answer"):
        da.grad(early)(1.0)
    saddle = lambda a: optimize.minimize(lambda x: a * (x[0] ** 2 - x[1] ** 2) + x[0], [-0.5, 0.0], jac="dualad").x[0]
    with pytest.warns(SolutionWarning, match="no minimum"):
        da.grad(saddle)(1.0)
    valley = lambda a: optimize.minimize(lambda x: (x[0] + x[1] - a) ** 2, X0, **OWN).x[0]
    with pytest.raises(SingularMatrixError, match=r"\[-?1\., +-?1\.\]|\[ 1\., -1\.\]"):
        da.grad(valley)(1.0)
    flat = lambda a: optimize.minimize(lambda x: (x[0] - a) ** 4, [0.3], jac="dualad").x[0]
    with pytest.raises(SingularMatrixError, match="flat"):
        da.grad(flat)(1.0)
    twice = [{"type": "eq", "fun": lambda x: x[0] + x[1] - 1}, {"type": "eq", "fun": lambda x: 2 * x[0] + 2 * x[1] - 2}]
    held = lambda a: optimize.minimize(
        square, X0, (a, 1.0), constraints=twice, method="trust-constr", require_success=False
    ).x[0]
    with pytest.raises(SingularMatrixError, match="LICQ"):
        da.grad(held)(1.0)


def test_bad_input() -> None:
    with pytest.raises(ShapeError, match="returns one number"):
        da.grad(lambda a: optimize.minimize(lambda x: x * a, X0).fun)(1.0)
    with pytest.raises(ArgumentError, match="3 bounds for 2"):
        da.grad(lambda a: optimize.minimize(square, X0, (a, 1.0), bounds=[(0, a)] * 3).fun)(1.0)
    with pytest.raises(ArgumentError, match="constraint of type str"):
        da.grad(lambda a: optimize.minimize(square, X0, (a, 1.0), constraints=["x > 0"]).fun)(1.0)
    with pytest.raises(ValueError, match="Unknown solver"):
        da.grad(lambda a: optimize.minimize(square, X0, (a, 1.0), method="none").fun)(1.0)


@pytest.mark.parametrize("plant", ["bound", "multiplier", "curvature"])
def test_planted_faults_are_caught(plant, monkeypatch) -> None:
    """Rules that forget a moving bound, are off in the curvature, or in what the optimum depends on do not pass."""
    right = stationary.Stationary.gradient
    if plant == "bound":
        monkeypatch.setattr(stationary, "_finite", lambda v: da.stop_gradient(np.where(np.isfinite(v), v, 0.0)))
    elif plant == "multiplier":
        fault = lambda self, x, m, inputs: right(self, x, da.stop_gradient(m), inputs)
        monkeypatch.setattr(stationary.Stationary, "gradient", fault)
    else:
        fault = lambda self, x, m, inputs: right(self, x, m, inputs) + 0.01 * (x - da.stop_gradient(x))
        monkeypatch.setattr(stationary.Stationary, "gradient", fault)
    name = "an upper bound that moves" if plant == "bound" else "an equation"
    with pytest.raises((AssertionError, SingularMatrixError)):
        test_bounds_and_constraints(name)


def test_many_variables() -> None:
    n = 700
    a = np.linspace(1.0, 2.0, n)
    chain = lambda a: optimize.minimize(
        lambda x: np.sum((x - a) ** 2) + 0.5 * np.sum((x[1:] - x[:-1]) ** 2), np.zeros(n), method="L-BFGS-B",
        jac="dualad", tol=1e-14, options={"maxiter": 5000, "ftol": 1e-16},
    ).x  # fmt: skip
    matrix = 2 * np.eye(n) + (np.diag(np.r_[1.0, np.full(n - 2, 2.0), 1.0]) - np.eye(n, k=1) - np.eye(n, k=-1))
    v = np.cos(np.arange(n))
    np.testing.assert_allclose(da.jvp(chain, (a,), (v,))[1], np.linalg.solve(matrix, 2 * v), rtol=1e-8)


def test_derivatives_of_a_constraint_by_users() -> None:
    """The point of the circle |x| = 1 that is nearest to (a, 1): (a, 1)/√(a² + 1)."""
    circle = lambda x: x[0] ** 2 + x[1] ** 2
    given = scipy.optimize.NonlinearConstraint(
        circle, 1.0, 1.0, jac=lambda x: 2 * x[None], hess=lambda x, v: 2 * v[0] * np.eye(2)
    )
    own = scipy.optimize.NonlinearConstraint(circle, 1.0, 1.0, jac="dualad", hess="dualad")
    for held in (given, own):

        def nearest(a, held=held):
            distance = lambda x: (x[0] - a) ** 2 + (x[1] - 1.0) ** 2
            options = {"method": "trust-constr", "jac": "dualad", "hess": "dualad", "constraints": held, "tol": 1e-12}
            return optimize.minimize(distance, np.ones(2), **options).x

        np.testing.assert_allclose(da.jacfwd(nearest)(2.0), np.array([1.0, -2.0]) / 5**1.5, rtol=1e-5)


def test_many_variables_have_sparse_derivatives() -> None:
    """``trust-constr`` is given sparse matrices of all constraints; it ends where SciPy's own derivatives end."""
    n = 501
    fun = lambda x: np.sum((x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)
    limit = lambda x: x[1:] ** 2 + x[:-1] ** 2
    held = [
        optimize.NonlinearConstraint(limit, -np.inf, 1.5, jac="dualad", hess="dualad"),
        optimize.LinearConstraint(np.eye(n)[:3], -5, 0.5),
    ]
    given = {"method": "trust-constr", "jac": "dualad", "hess": "dualad", "options": {"maxiter": 300}}
    out = optimize.minimize(fun, np.zeros(n), constraints=held, **given)
    assert out.success and all([scipy.sparse.issparse(J) for J in out.jac])
    assert np.max(limit(out.x)) < 1.5 + 1e-6 and np.max(out.x[:3]) < 0.5 + 1e-6
    push = sum([J.T @ v for J, v in zip(out.jac, out.v, strict=True)])
    np.testing.assert_allclose(da.grad(fun)(out.x), -push, atol=1e-6)


def test_derivatives_of_many_variables_are_compiled() -> None:
    """What the function reads is followed then as before, and one that does more than return is called as before."""
    goal, seen = [1.0], []
    start = np.linspace(-3, 9, 501)
    power = lambda x: np.sum((x - goal[0]) ** 4)

    def noting(x):
        seen.append(type(x))
        return power(x)

    quick, noted = [Objective("f", f, start, (), "dualad", None, None).plain([])["fun"] for f in (power, noting)]
    for goal[0] in (1.0, 1.0, 5.0):
        for f in (quick, noted):
            np.testing.assert_allclose(f(start)[1], 4 * (start - goal[0]) ** 3)
    count = len(seen)
    noted(start)
    assert len(seen) > count


def test_the_tangents_of_many_variables_need_no_dense_matrix(monkeypatch) -> None:
    """Pairs with a given sum, of which some variables are at bounds: against the closed form."""
    n = 600
    a = np.linspace(-1.0, 1.0, n)
    pair = lambda x: x[::2] + x[1::2]

    def nearest(p):
        held = optimize.NonlinearConstraint(pair, 0.2 * p, 0.2 * p, jac="dualad")
        box = optimize.Bounds(np.full(n, -0.9), np.full(n, 0.9))
        fun = lambda x: np.sum((x - p * a) ** 2)
        given = {"method": "SLSQP", "jac": "dualad", "tol": 1e-12}
        return optimize.minimize(fun, np.zeros(n), bounds=box, constraints=held, **given).x

    def closed(p):
        low, high = p * a[::2], p * a[1::2]
        move = (0.2 * p - low - high) / 2
        x = np.clip(low + move, 0.2 * p - 0.9, 0.9)
        x = np.clip(x, -0.9, 0.9)
        return np.stack([x, 0.2 * p - x], axis=1).reshape(-1)

    monkeypatch.setattr(stationary, "jacrev", None)
    x, moves = da.jvp(nearest, (1.3,), (1.0,))
    np.testing.assert_allclose(x, closed(1.3), atol=1e-8)
    np.testing.assert_allclose(moves, (closed(1.3 + 1e-6) - closed(1.3 - 1e-6)) / 2e-6, atol=1e-6)


def test_multipliers_from_sparse_gradients() -> None:
    rng = np.random.default_rng(0)
    rows, g, side = rng.normal(size=(9, 7)) * (rng.random((9, 7)) < 0.5), rng.normal(size=7), np.array([1, 0, -1] * 3)
    rows[8] = np.arange(7)
    dense, sparse = [stationary.forces_of(side, r, g) for r in (rows, scipy.sparse.csr_array(rows))]
    np.testing.assert_allclose(sparse, dense, atol=1e-12)
    rows[8] = rows[6] - 2 * rows[0]
    with pytest.raises(SingularMatrixError, match="depend on each other"):
        stationary.forces_of(side, scipy.sparse.csr_array(rows), g)


@pytest.mark.parametrize("method", ["BFGS", "SLSQP", "trust-constr"])
def test_derivatives_of_what_is_compiled_are_compiled_once(method, caplog) -> None:
    @da.jit
    def fun(x, a):
        return np.sum((x - a) ** 2) + 0.1 * np.sum(x**4)

    def solve(x0, a):
        caplog.clear()
        with caplog.at_level("INFO", logger="dualad"):
            out = optimize.minimize(fun, x0, (a,), method, jac="dualad")
        assert out.success
        slope = 2 * (out.x - a) + 0.4 * out.x**3
        np.testing.assert_allclose(slope, 0, atol=5e-3)
        return sum([r.getMessage().startswith("[DAL001]") for r in caplog.records])

    assert solve(np.zeros(4), np.arange(4.0)) > 0
    assert solve(np.ones(4), np.arange(4.0)[::-1].copy()) == 0
    given = da.jit(lambda x: 2 * (x - 1.0))
    out = optimize.minimize(da.jit(lambda x: np.sum((x - 1.0) ** 2)), np.zeros(3), jac=given)
    np.testing.assert_allclose(out.x, 1, atol=1e-6)
    both = da.jit(da.value_and_grad(lambda x: np.sum((x - 1.0) ** 2)))
    np.testing.assert_allclose(optimize.minimize(both, np.zeros(3), jac=True).x, 1, atol=1e-6)
