"""``solve_bvp``: derivatives against closed forms and differences of tight solutions, in every mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.integrate as si
import scipy.linalg
from scipy.optimize import brentq

import dualad as da
from dualad.errors import ArgumentTypeError, ConvergenceError, ShapeError, SingularMatrixError, UnsupportedError
from dualad.scipy.integrate import solve_bvp

MESH = np.linspace(0.0, 1.0, 5)
GUESS = np.zeros((2, 5))


def string(k: Any, end: Any = 1.0, length: Any = 1.0, **options: Any) -> Any:
    """Solve y'' = k² y, y(0) = 0, y(length) = end: y = end · sinh(kx) / sinh(k length)."""
    fun = lambda x, y: np.stack([y[1], k**2 * y[0]])
    bc = lambda ya, yb: np.stack([ya[0], yb[0] - end])
    return solve_bvp(fun, bc, MESH * length, GUESS, **{"tol": 1e-9, **options})


closed = lambda k, end=1.0, length=1.0, x=0.4: end * np.sinh(k * x) / np.sinh(k * length)
at = lambda k, end=1.0, length=1.0, x=0.4: string(k, end, length).sol(x)[0]


def test_every_argument_mode_and_order() -> None:
    point = (2.0, 1.3, 1.1, 0.4)
    for n in range(4):
        for derive in (da.grad, da.jacfwd):
            np.testing.assert_allclose(derive(at, n)(*point), da.grad(closed, n)(*point), rtol=1e-7)
    exact = np.array(da.hessian(closed, (0, 1, 2, 3))(*point))
    np.testing.assert_allclose(np.array(da.hessian(at, (0, 1, 2, 3))(*point)), exact, rtol=2e-6)
    np.testing.assert_allclose(
        np.array(da.jacfwd(da.jacrev(at, (0, 1, 2)), (0, 1, 2))(*point[:3])), exact[:3, :3], rtol=2e-6
    )
    third = lambda f, x: da.grad(da.grad(da.grad(f)))(x)
    np.testing.assert_allclose(third(at, 2.0), third(closed, 2.0), rtol=1e-6)
    np.testing.assert_allclose(third(lambda x: at(2.0, x=x), 0.4), third(lambda x: closed(2.0, x=x), 0.4), rtol=1e-7)


def test_lanes_and_programs() -> None:
    ks = np.array([0.5, 2.0, 3.0])
    slopes = da.vmap(da.grad(closed))(ks)
    np.testing.assert_allclose(da.vmap(da.grad(at))(ks), slopes, rtol=1e-7)
    np.testing.assert_allclose(da.jit(da.grad(at))(2.0), slopes[1], rtol=1e-7)
    np.testing.assert_allclose(da.jit(da.vmap(da.hessian(at)))(ks[:2]), da.vmap(da.hessian(closed))(ks[:2]), rtol=1e-6)
    ends = da.vmap(lambda k: string(k).y[:, -1])(ks)
    np.testing.assert_allclose(ends, np.stack([np.ones(3), ks / np.tanh(ks)], 1), rtol=1e-7)
    with pytest.raises(UnsupportedError, match="which mesh it takes"):
        da.vmap(lambda k: np.sum(string(k).y))(ks)


def test_the_result_is_scipys() -> None:
    """The mesh, y and p are what SciPy finds with the exact Jacobians; plain calls are SciPy's own."""
    plain = string(2.0)
    assert type(plain.sol).__name__ == "PPoly"
    own, seen = string(2.0, fun_jac="dualad", bc_jac="dualad"), []
    (x, y), _ = da.jvp(lambda k: (seen.append(sol := string(k)), (sol.x, sol.y))[1], (2.0,), (1.0,))
    assert (seen[0].status, seen[0].success, seen[0].niter, seen[0].p) == (0, True, own.niter, None)
    np.testing.assert_allclose(x, own.x, atol=1e-15)
    np.testing.assert_array_equal(y, own.y)
    np.testing.assert_allclose(own.y, plain.sol(own.x), atol=1e-8)
    near = np.array([0.0, 0.123, own.x[1], 1.0])
    np.testing.assert_allclose(da.jvp(lambda k: string(k).sol(near), (2.0,), (1.0,))[0], own.sol(near), atol=1e-15)


def bratu(strength: Any, guess: float) -> Any:
    """Solve y'' + λ exp(y) = 0 with y = 0 at both ends, which has two solutions up to λ = 3.5138."""
    fun, bc = lambda x, y: np.stack([y[1], -strength * np.exp(y[0])]), lambda ya, yb: np.stack([ya[0], yb[0]])
    start = np.stack([np.full(5, guess), np.zeros(5)])
    return solve_bvp(fun, bc, MESH, start, tol=1e-9, max_nodes=5000).sol(0.5)[0]


@pytest.mark.parametrize(("guess", "bracket"), [(0.1, (0.0, 4.0)), (3.0, (4.9, 20.0))], ids=["lower", "upper"])
def test_both_solutions_of_bratu(guess: float, bracket: tuple) -> None:
    angle = lambda s: brentq(lambda a: a - np.sqrt(2 * s) * np.cosh(a / 4), *bracket, xtol=1e-15, rtol=1e-14)
    height = lambda s: 2 * np.log(np.cosh(angle(s) / 4))
    np.testing.assert_allclose(bratu(1.0, guess), height(1.0), rtol=1e-8)
    h = 1e-3
    first = (8 * (height(1 + h) - height(1 - h)) - height(1 + 2 * h) + height(1 - 2 * h)) / (12 * h)
    np.testing.assert_allclose(da.grad(bratu)(1.0, guess), first, rtol=1e-8)
    second = (height(1 + h) - 2 * height(1.0) + height(1 - h)) / h**2
    np.testing.assert_allclose(da.hessian(bratu)(1.0, guess), second, rtol=1e-5)
    # Where there is no solution exp(y) may overflow on the way: whether it does hangs on the last bits of BLAS's sums.
    with np.errstate(all="ignore"), pytest.raises(ConvergenceError, match="solve_bvp: "):
        da.grad(bratu)(3.6, guess)


def frequency(density: Callable) -> Any:
    """Return the second eigenvalue p of y'' + p² ρ(x) y = 0, y(0) = y(1) = 0, scaled by y'(0) = p."""
    fun = lambda x, y, p: np.stack([y[1], -(p[0] ** 2) * density(x) * y[0]])
    bc = lambda ya, yb, p: np.stack([ya[0], yb[0], ya[1] - p[0]])
    return solve_bvp(fun, bc, MESH, np.stack([[0.0, 1, 0, -1, 0], np.zeros(5)]), p=[6.0], tol=1e-7, max_nodes=3000).p[0]


def test_an_eigenvalue() -> None:
    """For a constant density p = 2π/√ρ; a small change of it counts with weight −p ρ̇ y² / (2 ∫ρ y²)."""
    even = lambda d: frequency(lambda x: d + 0 * x)
    for f in (even, da.jit(even)):
        np.testing.assert_allclose(da.grad(f)(1.5), -np.pi * 1.5**-1.5, rtol=1e-7)
    np.testing.assert_allclose(da.hessian(even)(1.5), 1.5 * np.pi * 1.5**-2.5, rtol=1e-6)
    uneven = lambda e: frequency(lambda x: 1.2 + e * x**2)
    x = np.linspace(0, 1, 2001)
    weight = np.sin(2 * np.pi * x) ** 2
    expected = -np.pi / 1.2**1.5 * np.trapezoid(x**2 * weight, x) / np.trapezoid(weight, x)
    np.testing.assert_allclose(da.grad(uneven)(0.0), expected, rtol=1e-6)


def test_a_singular_term_and_complex_numbers() -> None:
    """The sphere of Emden, y'' + 2/x y' + y⁵ = 0, is y = (1 + x²/3)^(−1/2) for y'(0) = 0, y(1) = √¾."""
    term = np.array([[0.0, 0.0], [0.0, -2.0]])

    def emden(edge: Any) -> Any:
        fun = lambda x, y: np.stack([y[1], -(y[0] ** 5)])
        bc = lambda ya, yb: np.stack([ya[1], yb[0] - edge])
        return solve_bvp(fun, bc, MESH, np.full((2, 5), 0.8), S=term, tol=1e-9).sol(0.5)[0]

    edge, h = np.sqrt(0.75), 1e-3
    value, slope = da.value_and_grad(emden)(edge)
    np.testing.assert_allclose(value, (13 / 12) ** -0.5, rtol=1e-8)
    steps = [emden(edge + s * h) for s in (2, 1, -1, -2)]
    np.testing.assert_allclose(slope, (8 * (steps[1] - steps[2]) - steps[0] + steps[3]) / (12 * h), rtol=1e-6)
    np.testing.assert_array_equal(term, [[0, 0], [0, -2]])

    turn = lambda w: solve_bvp(lambda x, y: 1j * w * y, lambda a, b: a - 1, MESH, np.ones((1, 5), complex), tol=1e-8).y[
        0, -1
    ]
    np.testing.assert_allclose(da.jvp(turn, (2.0,), (1.0,)), [np.exp(2j), 1j * np.exp(2j)], rtol=1e-8)


def agrees_on_a_linear_problem(seed: int) -> None:
    """Solve y' = A y + g, B₀ y(0) + B₁ y(1) = c, whose solution is y = e^(xM) (s, 1) with M = [[A, g], [0, 0]]."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 4))
    point = [rng.normal(size=s) for s in ((n, n), (n, 1), (n, n), (n, n), (n,))]
    x, place = np.linspace(0, 1, 5), rng.uniform()

    def ours(A: Any, g: Any, B0: Any, B1: Any, c: Any) -> Any:
        fun, bc = lambda x, y: A @ y + g, lambda ya, yb: B0 @ ya + B1 @ yb - c
        return solve_bvp(fun, bc, x, np.zeros((n, 5)), tol=1e-8, max_nodes=20000).sol(place)

    def exact(A: Any, g: Any, B0: Any, B1: Any, c: Any) -> np.ndarray:
        flow = lambda x: scipy.linalg.expm(x * np.block([[A, g], [np.zeros((1, n + 1))]]))[:n]
        Y, r = flow(1.0)[:, :n], flow(1.0)[:, n]
        start = np.linalg.solve(B0 + B1 @ Y, c - B1 @ r)
        return flow(place)[:, :n] @ start + flow(place)[:, n]

    Y = scipy.linalg.expm(point[0])
    if np.linalg.cond(point[2] + point[3] @ Y) > 100:
        return
    along = [rng.normal(size=p.shape) for p in point]
    moved = exact(*[p + 1e-20j * d for p, d in zip(point, along, strict=True)])
    expected = moved.imag / 1e-20
    value, forward = da.jvp(ours, tuple(point), tuple(along))
    size = 1 + np.max(abs(expected))
    np.testing.assert_allclose(value, exact(*point), atol=1e-6 * size)
    np.testing.assert_allclose(forward, expected, atol=1e-5 * size)
    weights = rng.normal(size=n)
    back = da.vjp(ours, *point)[1](weights)
    np.testing.assert_allclose(
        sum([np.sum(b * d) for b, d in zip(back, along, strict=True)]), weights @ forward, rtol=1e-9, atol=1e-9 * size
    )


@pytest.mark.parametrize("seed", range(6))
def test_linear_problems(seed: int) -> None:
    agrees_on_a_linear_problem(seed)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(6, 200))
def test_many_linear_problems(seed: int) -> None:
    agrees_on_a_linear_problem(seed)


def test_a_boundary_layer_that_shooting_does_not_reach() -> None:
    """ε y'' = y with ends 1: y'(1) = ε^(−1/2) up to e^(−100)."""

    def slope(eps: Any) -> Any:
        fun, bc = lambda x, y: np.stack([y[1], y[0] / eps]), lambda ya, yb: np.stack([ya[0] - 1, yb[0] - 1])
        return solve_bvp(fun, bc, np.linspace(0, 1, 50), np.zeros((2, 50)), tol=1e-5, max_nodes=20000).y[1, -1]

    np.testing.assert_allclose(da.grad(slope)(1e-4), -0.5e6, rtol=1e-5)
    np.testing.assert_allclose(da.hessian(slope)(1e-4), 0.75e10, rtol=1e-5)


def test_lifted_code_and_functions_with_branches() -> None:
    def user(k: Any) -> Any:
        fun = lambda x, y: np.vstack((y[1], k**2 * y[0]))
        bc = lambda ya, yb: np.array([ya[0], yb[0] - 1])
        return si.solve_bvp(fun, bc, MESH, GUESS, tol=1e-9).sol(0.4)[0]

    np.testing.assert_allclose(da.grad(da.lift(user))(2.0), da.grad(closed)(2.0), rtol=1e-7)

    def branches(k: Any) -> Any:
        fun = lambda x, y: np.stack([y[1], k**2 * y[0]]) if x[0] < 2 else y
        return solve_bvp(fun, lambda ya, yb: np.stack([ya[0], yb[0] - 1]), MESH, GUESS, tol=1e-9).sol(0.4)[0]

    np.testing.assert_allclose(da.grad(branches)(2.0), da.grad(closed)(2.0), rtol=1e-7)


@pytest.mark.parametrize("nodes", [5, 800])
def test_a_condition_that_fixes_nothing(nodes: int) -> None:
    """However many unknowns there are: a constant can be added to y, up to rounding."""
    free = lambda k: solve_bvp(
        lambda x, y: k * np.cos(2 * np.pi * x) + 0 * y, lambda ya, yb: (1 + 1e-14) * ya - yb,
        np.linspace(0, 1, nodes), np.zeros((1, nodes)), tol=1e-2,
    ).y[0, -1]  # fmt: skip
    with pytest.raises(SingularMatrixError, match="the Jacobian at the answer is singular"):
        da.grad(free)(1.0)


def test_errors() -> None:
    fun, bc = lambda x, y: np.stack([y[1], y[0]]), lambda ya, yb: np.stack([ya[0], yb[0] - 1])
    of = lambda fun=fun, bc=bc, x=MESH, y=GUESS, **options: (
        lambda k: solve_bvp(lambda x, y: k * fun(x, y), bc, x, y, **options).y[0, -1]
    )
    with pytest.raises(ShapeError, match=r"returned shape \(1,\); expected \(2,\)"):
        da.grad(of(bc=lambda ya, yb: ya[:1]))(1.0)
    with pytest.raises(ShapeError, match=r"returned shape \(2,\); expected \(3,\)"):
        da.grad(lambda k: solve_bvp(lambda x, y, p: k * y, lambda a, b, p: a, MESH, GUESS, [1.0]).p[0])(1.0)
    with pytest.raises(ShapeError, match=r"returned shape \(1, 1\); expected \(2, 1\)"):
        da.grad(of(fun=lambda x, y: y[:1]))(1.0)
    with pytest.raises(ShapeError, match="a column for each"):
        da.grad(of(y=np.zeros((2, 4))))(1.0)
    with pytest.raises(ArgumentTypeError, match="tol is traced"):
        da.grad(lambda tol: string(2.0, tol=tol).y[0, -1])(1e-3)
    with pytest.raises(ConvergenceError, match="singular Jacobian"):
        da.grad(of(bc=lambda ya, yb: np.stack([ya[0], ya[0] - 1])))(1.0)
    with pytest.raises(ConvergenceError, match="mesh nodes"):
        da.grad(of(tol=1e-12, max_nodes=6))(1.0)
    rough = lambda k: string(k, tol=1e-12, max_nodes=6, require_success=False)
    assert da.jvp(lambda k: (k, rough(k).status), (1.0,), (1.0,))[0][1] == 1
