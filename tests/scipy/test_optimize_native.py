"""Small problems as programs: published optima, SciPy's answers in lanes, derivatives against those of SciPy's loop.

Not for: derivatives at an optimum as such (`test_optimize_minimize.py`).
"""

from __future__ import annotations

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.optimize

import dualad as da
from dualad.errors import ArgumentError, ConvergenceError, PerformanceNote, SingularMatrixError
from dualad.scipy import optimize
from dualad.scipy.optimize.interior import SOLVED, Program, search

INF, ROOT, TIMES = np.inf, np.sqrt, np.arange(5.0)


def _hs(f, start, best, c=None, equations=0, inequalities=0, low=-INF, high=INF):
    """A problem as Hock and Schittkowski give it: first equations c = 0, then inequalities c >= 0."""
    return SimpleNamespace(f=f, start=start, best=best, c=c, e=equations, i=inequalities, low=low, high=high)


def _banana(x):
    return 100 * (x[1] - x[0] ** 2) ** 2 + (1 - x[0]) ** 2


#: Hock, Schittkowski, *Test Examples for Nonlinear Programming Codes* (1981), by number
HOCK_SCHITTKOWSKI = {
    1: _hs(_banana, [-2, 1], 0.0, low=[-INF, -1.5]),
    3: _hs(lambda x: x[1] + 1e-5 * (x[1] - x[0]) ** 2, [10, 1], 0.0, low=[-INF, 0]),
    4: _hs(lambda x: (x[0] + 1) ** 3 / 3 + x[1], [1.125, 0.125], 8 / 3, low=[1, 0]),
    5: _hs(lambda x: np.sin(x[0] + x[1]) + (x[0] - x[1]) ** 2 - 1.5 * x[0] + 2.5 * x[1] + 1, [0, 0],
           -ROOT(3) / 2 - np.pi / 3, low=[-1.5, -3], high=[4, 3]),
    6: _hs(lambda x: (1 - x[0]) ** 2, [-1.2, 1], 0.0, lambda x: [10 * (x[1] - x[0] ** 2)], 1),
    7: _hs(lambda x: np.log(1 + x[0] ** 2) - x[1], [2, 2], -ROOT(3),
           lambda x: [(1 + x[0] ** 2) ** 2 + x[1] ** 2 - 4], 1),
    10: _hs(lambda x: x[0] - x[1], [-10, 10], -1.0, lambda x: [-3 * x[0] ** 2 + 2 * x[0] * x[1] - x[1] ** 2 + 1], 0, 1),
    11: _hs(lambda x: (x[0] - 5) ** 2 + x[1] ** 2 - 25, [4.9, 0.1], -8.498464223, lambda x: [x[1] - x[0] ** 2], 0, 1),
    12: _hs(lambda x: 0.5 * x[0] ** 2 + x[1] ** 2 - x[0] * x[1] - 7 * x[0] - 7 * x[1], [0, 0], -30.0,
            lambda x: [25 - 4 * x[0] ** 2 - x[1] ** 2], 0, 1),
    14: _hs(lambda x: (x[0] - 2) ** 2 + (x[1] - 1) ** 2, [2, 2], 9 - 2.875 * ROOT(7),
            lambda x: [x[0] - 2 * x[1] + 1, -0.25 * x[0] ** 2 - x[1] ** 2 + 1], 1, 1),
    15: _hs(_banana, [-2, 1], 306.5, lambda x: [x[0] * x[1] - 1, x[0] + x[1] ** 2], 0, 2, high=[0.5, INF]),
    16: _hs(_banana, [-2, 1], 0.25, lambda x: [x[0] + x[1] ** 2, x[0] ** 2 + x[1]], 0, 2, [-0.5, -INF], [0.5, 1]),
    18: _hs(lambda x: 0.01 * x[0] ** 2 + x[1] ** 2, [2, 2], 5.0,
            lambda x: [x[0] * x[1] - 25, x[0] ** 2 + x[1] ** 2 - 25], 0, 2, [2, 0], 50),
    19: _hs(lambda x: (x[0] - 10) ** 3 + (x[1] - 20) ** 3, [20.1, 5.84], -6961.81381,
            lambda x: [(x[0] - 5) ** 2 + (x[1] - 5) ** 2 - 100, 82.81 - (x[1] - 5) ** 2 - (x[0] - 6) ** 2], 0, 2,
            [13, 0], 100),
    24: _hs(lambda x: ((x[0] - 3) ** 2 - 9) * x[1] ** 3 / (27 * ROOT(3)), [1, 0.5], -1.0,
            lambda x: [x[0] / ROOT(3) - x[1], x[0] + ROOT(3) * x[1], 6 - x[0] - ROOT(3) * x[1]], 0, 3, 0),
    27: _hs(lambda x: 0.01 * (x[0] - 1) ** 2 + (x[1] - x[0] ** 2) ** 2, [2, 2, 2], 0.04,
            lambda x: [x[0] + x[2] ** 2 + 1], 1),
    29: _hs(lambda x: -x[0] * x[1] * x[2], [1, 1, 1], -16 * ROOT(2),
            lambda x: [48 - x[0] ** 2 - 2 * x[1] ** 2 - 4 * x[2] ** 2], 0, 1),
    33: _hs(lambda x: (x[0] - 1) * (x[0] - 2) * (x[0] - 3) + x[2], [0, 0, 3], ROOT(2) - 6,
            lambda x: [x[2] ** 2 - x[1] ** 2 - x[0] ** 2, x @ x - 4], 0, 2, 0, [INF, INF, 5]),
    37: _hs(lambda x: -x[0] * x[1] * x[2], [10, 10, 10], -3456.0,
            lambda x: [72 - x[0] - 2 * x[1] - 2 * x[2], x[0] + 2 * x[1] + 2 * x[2]], 0, 2, 0, 42),
    39: _hs(lambda x: -x[0], [2, 2, 2, 2], -1.0,
            lambda x: [x[1] - x[0] ** 3 - x[2] ** 2, x[0] ** 2 - x[1] - x[3] ** 2], 2),
    43: _hs(lambda x: x[0] ** 2 + x[1] ** 2 + 2 * x[2] ** 2 + x[3] ** 2 - 5 * x[0] - 5 * x[1] - 21 * x[2] + 7 * x[3],
            [0, 0, 0, 0], -44.0,
            lambda x: [8 - x @ x - x[0] + x[1] - x[2] + x[3],
                       10 - x @ x - x[1] ** 2 - x[3] ** 2 + x[0] + x[3],
                       5 - 2 * x[0] ** 2 - x[1] ** 2 - x[2] ** 2 - 2 * x[0] + x[1] + x[3]], 0, 3),
    64: _hs(lambda x: 5 * x[0] + 5e4 / x[0] + 20 * x[1] + 7.2e4 / x[1] + 10 * x[2] + 1.44e5 / x[2], [1, 1, 1],
            6299.842428, lambda x: [1 - 4 / x[0] - 32 / x[1] - 120 / x[2]], 0, 1, 1e-5),
    71: _hs(lambda x: x[0] * x[3] * (x[0] + x[1] + x[2]) + x[2], [1, 5, 5, 1], 17.0140173,
            lambda x: [x @ x - 40, x[0] * x[1] * x[2] * x[3] - 25], 1, 1, 1, 5),
    79: _hs(lambda x: (x[0] - 1) ** 2 + (x[0] - x[1]) ** 2 + (x[1] - x[2]) ** 2 + (x[2] - x[3]) ** 4
            + (x[3] - x[4]) ** 4, [2] * 5, 0.0787768209,
            lambda x: [x[0] + x[1] ** 2 + x[2] ** 3 - 2 - 3 * ROOT(2), x[1] - x[2] ** 2 + x[3] + 2 - 2 * ROOT(2),
                       x[0] * x[4] - 2], 3),
}  # fmt: skip


@pytest.mark.parametrize("number", HOCK_SCHITTKOWSKI)
def test_published_optima(number) -> None:
    q = HOCK_SCHITTKOWSKI[number]
    x0, m = np.array(q.start, float), max(1, q.e + q.i)
    c = (lambda x: np.stack(q.c(x))) if q.c else (lambda x: 0.0 * x[:1])
    sides = [np.zeros(q.e), np.full(m - q.e, 0.0 if q.c else -INF)], [np.zeros(q.e), np.full(m - q.e, INF)]
    low, high = [np.concatenate([np.broadcast_to(np.asarray(b, float), x0.shape), *s])
                 for b, s in zip((q.low, q.high), sides, strict=True)]  # fmt: skip
    lagrangian = lambda x, factor, y: factor * q.f(x) + y @ c(x)
    out = search(
        Program(q.f, c, da.grad(q.f), da.jacfwd(c), da.hessian(lagrangian), None, low, high), x0, 1e-9, 200
    )  # fmt: skip
    assert out.status == SOLVED
    np.testing.assert_allclose(q.f(out.x), q.best, rtol=1e-6, atol=1e-6)
    at = np.concatenate([out.x, c(out.x)])
    assert np.all(at >= low - 1e-8 * (1 + abs(low))) and np.all(at <= high + 1e-8 * (1 + abs(high)))
    slope = da.grad(q.f)(out.x) - out.forces[len(x0) :] @ da.jacfwd(c)(out.x)  # is held by the bounds
    np.testing.assert_allclose(slope, out.forces[: len(x0)], atol=1e-6 * (1 + abs(q.best)))


def _quadratic(n, lanes, seed):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(lanes, n, n))
    return (
        root @ root.swapaxes(1, 2) + 0.1 * np.eye(n), 2 * rng.normal(size=(lanes, n)), rng.normal(size=(lanes, 3, n)),
        rng.uniform(0.2, 1, size=(lanes, 3)), rng.normal(size=(lanes, n)), rng.uniform(-1.5, -0.5, size=(lanes, n)),
    )  # fmt: skip


def _minimum_of_quadratic(Q, q, A, b, e, low, **options):
    held = [{"type": "ineq", "fun": lambda x: b - A @ x}, {"type": "eq", "fun": lambda x: np.stack([e @ x - 0.3])}]
    return optimize.minimize(
        lambda x: 0.5 * x @ Q @ x + q @ x, np.zeros(len(q)), bounds=optimize.Bounds(low, low + 2.0), constraints=held,
        method="SLSQP", **{"tol": 1e-14, "jac": "dualad"} | options,
    )  # fmt: skip


def test_quadratic_programs_in_lanes_are_scipys() -> None:
    given = _quadratic(5, 200, 0)
    x, found, multipliers = da.jit(
        da.vmap(lambda *a: (lambda r: (r.x, r.success, r.multipliers))(_minimum_of_quadratic(*a)))
    )(*given)
    assert found.all() and multipliers.shape == (200, 4)
    for i, (Q, q, A, b, e, low) in enumerate(zip(*given, strict=True)):
        held = [
            {"type": "ineq", "fun": lambda x, A=A, b=b: b - A @ x, "jac": lambda x, A=A: -A},
            {"type": "eq", "fun": lambda x, e=e: e @ x - 0.3, "jac": lambda x, e=e: e},
        ]
        out = scipy.optimize.minimize(
            lambda x, Q=Q, q=q: (0.5 * x @ Q @ x + q @ x, Q @ x + q), np.zeros(5), jac=True, method="SLSQP",
            bounds=scipy.optimize.Bounds(low, low + 2), constraints=held, options={"ftol": 1e-14},
        )  # fmt: skip
        if out.success:
            np.testing.assert_allclose(x[i], out.x, atol=1e-6)
        value = lambda x, Q=Q, q=q: 0.5 * x @ Q @ x + q @ x
        assert value(x[i]) <= value(np.clip(out.x, low, low + 2)) + 1e-6  # where SciPy's line search gives up


def test_derivatives_in_lanes_are_those_of_scipys_answers() -> None:
    given = _quadratic(3, 6, 1)
    low = lambda *a: _minimum_of_quadratic(*a).fun
    at = lambda *a: _minimum_of_quadratic(*a).x
    moves = da.jit(da.vmap(da.jacrev(at, argnums=(1, 3, 5))))(*given)
    curves = da.jit(da.vmap(da.hessian(low, argnums=1)))(*given)
    slopes = da.jit(da.grad(lambda q: np.sum(da.vmap(low)(given[0], q, *given[2:]))))(given[1])
    # SciPy's line search gives up below 1e-12 on some machines, by the last digit of a matrix product.
    low, at = (lambda *a: _minimum_of_quadratic(*a, tol=1e-10).fun), (lambda *a: _minimum_of_quadratic(*a, tol=1e-10).x)
    for i, lane in enumerate(zip(*given, strict=True)):
        for a, b in zip(moves, da.jacfwd(at, argnums=(1, 3, 5))(*lane), strict=True):
            np.testing.assert_allclose(a[i], b, atol=1e-6)
        np.testing.assert_allclose(curves[i], da.hessian(low, argnums=1)(*lane), atol=1e-6)
        np.testing.assert_allclose(slopes[i], at(*lane), atol=1e-6)  # the envelope theorem


def test_lanes_without_an_answer_say_so() -> None:
    def both(a):
        held = {"type": "ineq", "fun": lambda x: np.stack([a - x @ x])}
        out = optimize.minimize(lambda x: np.sum((x - 1) ** 2), np.ones(2), constraints=held, require_success=False)
        return out.x, out.success

    a = np.array([1.0, -1.0, 0.5])  # no x has a norm below zero
    x, found = da.jit(da.vmap(both))(a)
    assert found.tolist() == [True, False, True]
    np.testing.assert_allclose(x[[0, 2]], np.sqrt(a[[0, 2], None] / 2) * np.ones(2), atol=1e-8)
    with pytest.warns(optimize.SolutionWarning, match="1 of 3 lanes have no answer"):
        moves = da.jit(da.vmap(da.jacfwd(lambda a: both(a)[0])))(a)
    np.testing.assert_allclose(moves, np.sqrt(0.125 / a[:, None].clip(0.5)) * [[1, 1], [0, 0], [1, 1]], atol=1e-7)
    with pytest.warns(optimize.SolutionWarning, match="1 of 3 lanes have no answer"):
        back = da.jit(da.vmap(da.grad(lambda a: np.sum(both(a)[0]))))(a)
    np.testing.assert_allclose(back, moves.sum(axis=1))
    bottomless = lambda a: optimize.minimize(lambda x: a * np.sum(x**2) + np.sum(x), np.ones(1)).x
    with pytest.raises(ConvergenceError, match="1 of 3 lanes, the first of them 1: the objective decreases"):
        da.jit(da.vmap(bottomless))(np.array([1.0, -1.0, 2.0]))


@pytest.mark.parametrize(
    ("solve", "given"),
    [
        (lambda a: optimize.root(lambda x: np.stack([x[0] + x[1] - a, x[0] - np.tanh(x[1])]), np.ones(2)).x, 2.0),
        (lambda a: optimize.root(lambda x, b: x**3 + x - b, np.ones((2, 1)), args=(a,), method="lm").x, 0.7),
        (lambda a: optimize.least_squares(lambda x: np.stack([x[0] - a, x[1] * a - 2, x[0] * x[1] - 1]), np.ones(2),
                                          bounds=(0.0, 2.5), jac="dualad", xtol=1e-14, gtol=1e-14, ftol=1e-14).x, 0.6),
        (lambda a: optimize.least_squares(lambda x: np.stack([x[0] - a, 3 * x[0] - 1, x[0] - 9]), np.ones(1),
                                          loss="soft_l1", jac="dualad", xtol=1e-14, gtol=1e-14, ftol=1e-14).x, 0.6),
        (lambda a: optimize.curve_fit(lambda t, p, q: p * np.exp(-q * t), TIMES, 2 * np.exp(-a * TIMES) + 0.1 * TIMES,
                                      p0=[1.0, 1.0], jac="dualad", ftol=1e-14), 0.9),
        *[(lambda a, m=m: optimize.minimize(
            lambda x: (x[0] - a) ** 4 + (x[0] - x[1]) ** 2 + a * x[1] ** 2, np.ones(2), method=m, jac="dualad",
            hess="dualad" if "-" in m else None, tol=1e-11,
        ).x, 0.8) for m in ("BFGS", "trust-exact")],
    ],
)  # fmt: skip
def test_small_solves_are_those_of_scipys_loops(solve, given) -> None:
    at = given + np.array([0.0, 0.1, 0.25])
    lanes, alone = da.jit(da.vmap(solve))(at), da.jit(solve)(given)
    moves, move = da.jit(da.vmap(da.jacfwd(solve)))(at), da.jit(da.jacrev(solve))(given)

    def same(a, b):
        for x, y in zip(da.tree.leaves(a), da.tree.leaves(b), strict=True):
            np.testing.assert_allclose(x, y, atol=1e-5)

    first = lambda tree: [x[0] for x in da.tree.leaves(tree)]
    same(first(lanes), alone)
    same(first(moves), move)
    for i, a in enumerate(at):
        same([x[i] for x in da.tree.leaves(lanes)], solve(a))
        same([x[i] for x in da.tree.leaves(moves)], da.jacfwd(solve)(a))


def test_who_solves_it() -> None:
    f = lambda a, **more: optimize.minimize(lambda x: np.sum((x - a) ** 2), np.zeros(2), **more)
    out = f(3.0, solver="native")
    np.testing.assert_allclose(out.x, 3.0, atol=1e-12)
    assert out.success and out.nit > 0 and np.abs(out.jac).max() < 1e-9
    np.testing.assert_allclose(da.vmap(lambda a: f(a, solver="native").x)(np.arange(3.0))[:, 0], np.arange(3.0))
    assert f(np.inf, solver="native").success is False
    compared = da.jit(lambda a: f(a, method="Nelder-Mead").x)(1.0)
    np.testing.assert_array_equal(compared, scipy.optimize.minimize(lambda x: np.sum((x - 1.0) ** 2), np.zeros(2),
                                                                    method="Nelder-Mead").x)  # fmt: skip
    native = {"solver": "native"}
    for more in ({"solver": "scipy"}, {**native, "method": "Powell"}, {**native, "callback": print}):
        with pytest.raises(ArgumentError, match="solver="):
            f(1.0, **more)
    with pytest.raises(ArgumentError, match="for 40 unknowns"):
        optimize.root(lambda x: x, np.zeros(40), solver="native")
    spectrum = lambda x: np.linalg.eigvals(np.diag(x)).real
    called = da.jit(lambda a: optimize.root(lambda x: spectrum(x) - a * np.arange(1.0, 3.0), np.array([0.0, 0.1])).x)
    with pytest.warns(PerformanceNote, match="SciPy's loop"):
        np.testing.assert_allclose(called(1.0), [1.0, 2.0])


def test_no_unique_answer_is_an_error_in_a_lane() -> None:
    valley = lambda a: optimize.minimize(lambda x: (x[0] + x[1] - 1.0) ** 2 + a * x[0] ** 2, np.zeros(2)).x
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises((SingularMatrixError, ConvergenceError)):
            da.jit(da.vmap(da.jacfwd(valley)))(np.array([1.0, 0.0]))
    double = lambda a: optimize.root(lambda x: x**2 - a, np.ones(1)).x
    np.testing.assert_allclose(da.jit(da.vmap(da.jacfwd(double)))(np.array([4.0]))[0], 0.25)
    with pytest.raises((SingularMatrixError, ConvergenceError)):
        da.jit(da.vmap(da.jacfwd(double)))(np.array([4.0, 0.0]))
