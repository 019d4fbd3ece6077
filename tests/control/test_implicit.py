"""custom_root, fixed_point and custom_linear_solve: under every word over J, V, M and T, against closed forms in JAX.

Not for: the operators' own rules (`ops/test_every_op.py`).
"""

from __future__ import annotations

import functools

import numpy  # noqa: ICN001  (np is the namespace that a function is given)
import numpy as np
import pytest
import scipy.linalg
import scipy.optimize
import scipy.sparse.linalg

import dualad as da
from dualad.errors import (
    ArgumentTypeError,
    CapturedTensorError,
    ConvergenceError,
    DtypeError,
    NotLinearError,
    RuleMissingError,
    ShapeError,
    TreeError,
)
from tests.compose import zoo
from tests.compose.words import WORDS, expected, found
from tests.compose.zoo import Animal, matrix, normal, positive
from tests.oracles.jax_side import jax, jnp


def plain(x) -> None:
    """Solvers are given arrays of NumPy's, never tensors."""
    for leaf in jax.tree.leaves(x):
        assert isinstance(leaf, (np.ndarray, np.generic, float)), type(leaf)


def scipy_root(f, x0):
    plain(x0)
    plain(f(x0))
    return scipy.optimize.root(f, x0, tol=1e-14).x


def scalar_newton(f, x):
    plain(x)
    for _ in range(60):
        x = x - f(x) / da.jvp(f, (x,), (np.ones_like(x)[()],))[1]
    return x


def dense(matvec, b):
    plain(b)
    return np.linalg.solve(np.stack([matvec(e) for e in np.eye(len(b))], 1), b)


def gmres(matvec, b):
    plain(b)
    operator = scipy.sparse.linalg.LinearOperator((len(b), len(b)), matvec)
    return scipy.sparse.linalg.gmres(operator, b, rtol=1e-13, atol=0.0)[0]


# In JAX each is its closed form.


def cube_roots(np, a, s):
    """A vector of unknowns, a closure, SciPy's solver."""
    if np is not numpy:
        return jnp.cbrt(a * s)
    return da.custom_root(lambda x: x**3 - a * s, numpy.ones(2), scipy_root)


def with_arguments(np, a, p):
    """Parameters as a tree of args, and a Krylov method for the tangents."""
    if np is not numpy:
        return jnp.linalg.solve(a, p["b"]) ** 2
    f = lambda x, a, p: a @ x - p["b"]
    return da.custom_root(f, numpy.zeros(2), scipy_root, args=(a, p), tangent_solve=gmres) ** 2


def quadratic(np, b, c):
    """A scalar equation whose solver is written in NumPy and dualad."""
    if np is not numpy:
        return -b / 2 + jnp.sqrt(b * b / 4 + c)
    return da.custom_root(lambda x: x * x + b * x - c, 2.0, scalar_newton)


def tree_of_unknowns(np, a):
    """x·y = a, x = 2y."""
    if np is not numpy:
        y = jnp.sqrt(a / 2)
        return 2 * y + 3 * y**2

    def solve(f, x0):
        flat = lambda v: numpy.array(f({"x": v[0], "y": v[1]}))
        v = scipy.optimize.root(flat, [x0["x"], x0["y"]], tol=1e-14).x
        return {"x": v[0], "y": v[1]}

    out = da.custom_root(lambda u: (u["x"] * u["y"] - a, u["x"] - 2 * u["y"]), {"x": 1.0, "y": 1.0}, solve)
    return out["x"] + 3 * out["y"] ** 2


def iteration(np, a, b):
    """x = A x / 8 + b."""
    if np is not numpy:
        return jnp.linalg.solve(jnp.eye(2) - a / 8, b)
    return da.fixed_point(lambda x: a @ x / 8 + b, b * 0, tolerance=1e-15)


def babylonian(np, a):
    """Nested: the root of a root."""
    if np is not numpy:
        return jnp.sqrt(jnp.sqrt(a))
    root = lambda v: da.fixed_point(lambda x: 0.5 * (x + v / x), 1.0)
    return root(root(a))


def linear_system(np, a, b):
    if np is not numpy:
        return jnp.linalg.solve(a, b)
    return da.custom_linear_solve(lambda x: a @ x, b, dense, transpose_solve=dense)


def symmetric_system(np, a, b):
    if np is not numpy:
        return jnp.linalg.solve(a @ a.T, b)
    s = a @ a.T
    return da.custom_linear_solve(lambda x: s @ x, b, dense, symmetric=True)


def factorized(np, a, b):
    """The solver is handed the matrix, and factorizes it."""
    if np is not numpy:
        return jnp.linalg.solve(a, b)
    solve = lambda matvec, b, a: scipy.linalg.lu_solve(scipy.linalg.lu_factor(a), b)
    back = lambda vecmat, c, a: scipy.linalg.lu_solve(scipy.linalg.lu_factor(a), c, trans=1)
    return da.custom_linear_solve(lambda x, a: a @ x, b, solve, back, args=(a,))


ANIMALS = {
    f.__name__: Animal(f, lambda rng, makers=makers: tuple(m(rng) for m in makers))
    for f, makers in {
        cube_roots: (positive(2), positive()),
        with_arguments: (matrix(2), lambda rng: {"b": rng.normal(size=2)}),
        quadratic: (positive(), positive()),
        tree_of_unknowns: (positive(),),
        iteration: (normal(2, 2), normal(2)),
        babylonian: (positive(),),
        linear_system: (matrix(2), normal(2)),
        symmetric_system: (matrix(2), normal(2)),
        factorized: (matrix(2), normal(2)),
    }.items()
}


@pytest.fixture(autouse=True)
def in_the_zoo(monkeypatch):
    monkeypatch.setattr(zoo, "ZOO", {**zoo.ZOO, **ANIMALS})


def agrees(name: str, word: str) -> None:
    got, want = found(name, ANIMALS[name], word), expected(name, ANIMALS[name], word)
    assert abs(got - want) <= 1e-7 * max(1.0, abs(want)), f"{word} of {name}: {got}, the closed form gives {want}"


@pytest.mark.parametrize("word", WORDS[1] + WORDS[2])
@pytest.mark.parametrize("name", ANIMALS)
def test_under_every_pair_of_transforms(name: str, word: str) -> None:
    agrees(name, word)


@pytest.mark.slow
@pytest.mark.parametrize("name", ANIMALS)
def test_under_every_triple_of_transforms(name: str) -> None:
    for word in WORDS[3]:
        agrees(name, word)


# ── how often, with what, how exactly ────────────────────────────────────────────────────────────────────────────


def test_the_solver_runs_once_and_once_per_lane() -> None:
    """Derivatives of any order take the one solution; a batch solves once per lane."""
    calls = []

    def solve(f, x0):
        calls.append(np.shape(x0))
        return scipy_root(f, x0)

    root = lambda a: da.custom_root(lambda x: x**2 - a, np.ones(2), solve)
    a = np.array([4.0, 9.0])
    np.testing.assert_allclose(root(a), [2.0, 3.0])
    for derivative in (da.jacfwd(root), da.jacrev(root), da.hessian(lambda a: np.sum(root(a)))):
        calls.clear()
        derivative(a)
        assert calls == [(2,)]
    calls.clear()
    np.testing.assert_allclose(da.vmap(root)(np.array([a, a + 7, a + 16])) ** 2, [a, a + 7, a + 16])
    assert calls == [(2,)] * 3
    calls.clear()
    program = da.trace(root, a)
    assert calls == [] and [e.op.name for e in program.equations][-1] == "root"
    np.testing.assert_allclose(program(a), [2.0, 3.0])


def test_where_the_search_began_does_not_matter() -> None:
    f = lambda x0, a: da.custom_root(lambda x: x**2 - a, x0, scalar_newton)
    assert da.grad(f)(1.5, 4.0) == 0.0
    np.testing.assert_allclose(da.grad(f, 1)(1.5, 4.0), 0.25)
    np.testing.assert_allclose(da.vmap(f)(np.array([1.0, -1.0]), np.array([4.0, 4.0])), [2.0, -2.0])
    np.testing.assert_allclose(da.vmap(da.grad(f, 1), (0, None))(np.array([1.0, -1.0]), 4.0), [0.25, -0.25])


def test_an_equation_that_branches_takes_its_parameters_as_arguments() -> None:
    """It can't be written down to find its closure; the error says so, and with args= it works."""

    def f(x, a):
        return x - 2 * a if x > 100.0 else x * x - a

    root = lambda a: da.custom_root(f, 1.0, scalar_newton, args=(a,))
    np.testing.assert_allclose(da.grad(root)(9.0), 1 / 6)
    np.testing.assert_allclose(da.vmap(da.grad(root))(np.array([9.0, 4.0])), [1 / 6, 1 / 4])
    with pytest.raises(CapturedTensorError, match="args="):
        da.grad(lambda a: da.custom_root(lambda x: f(x, a), 1.0, lambda g, x: g(x) * 0 + 3.0))(9.0)


def test_dtypes_and_structures() -> None:
    """float32 stays float32 although SciPy answers in float64; integers to start from become floats."""
    root = lambda a: da.custom_root(lambda x: x * x - a, np.ones(2, np.float32), scipy_root)
    a = np.array([4.0, 9.0], np.float32)
    assert root(a).dtype == da.jacrev(root)(a).dtype == np.float32
    assert da.custom_root(lambda x: x - 3, 1, scalar_newton).dtype == float
    z = da.grad(lambda a: da.custom_root(lambda x: x * x - a, 1.0 + 1.0j, scalar_newton), holomorphic=True)(2j)
    np.testing.assert_allclose(z, 1 / (2 * (1 + 1j)))
    half = lambda a: da.fixed_point(lambda x: (x + a) / 2, np.float32(0))
    assert half(np.float32(1)).dtype == np.float32 and abs(half(np.float32(1)) - 1) < 1e-4


def test_plain_calls_are_plain() -> None:
    kept = []
    out = da.custom_root(lambda x: kept.append(x) or x - 2.0, 1.0, lambda f, x: x - f(x))
    assert out == 2.0 and any(type(x) is np.float64 for x in kept)
    np.testing.assert_allclose(da.custom_linear_solve(lambda x: 2 * x, np.ones(2), dense), 0.5)


def test_fixed_point_by_iteration_and_otherwise() -> None:
    cosine = lambda a: da.fixed_point(lambda x: np.cos(a * x), 1.0)
    np.testing.assert_allclose(cosine(1.0), 0.7390851332151607, rtol=1e-11)
    with pytest.raises(ConvergenceError, match="after 20 steps"):
        da.fixed_point(lambda x: np.cos(x), 1.0, max_steps=20)
    with pytest.raises(ConvergenceError, match="contracts"), np.errstate(over="ignore"):
        da.fixed_point(lambda x: x * x, 2.0)
    # x²(x + 3) = a
    fast = lambda a: da.fixed_point(
        lambda x: np.sqrt(a / (x + 3)), 1.2, lambda f, x0: scipy.optimize.fixed_point(f, x0)
    )
    x = fast(10.0)
    np.testing.assert_allclose([x * x * (x + 3), da.grad(fast)(10.0)], [10.0, 1 / (3 * x * x + 6 * x)], rtol=1e-7)


# ── what solvers read from their closures ────────────────────────────────────────────────────────────────────────


#: a global, where nobody looks for traced values
_HIDDEN: list = []


def check_closures(seed):
    """Solvers that read the traced values the equations are made of, in closures, defaults, partials and methods."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 4))
    A, b = 0.4 * rng.normal(size=(n, n)) + 4 * np.eye(n), rng.normal(size=n)  # far from singular: MINPACK converges
    way = rng.integers(4)

    class Holder:
        def __init__(self, a):
            self.a = a

        def solve(self, matvec, c):
            plain(self.a)
            return np.linalg.solve(self.a, c)

    def solver(a):
        if way == 0:
            return lambda matvec, c: (plain(a), np.linalg.solve(a, c))[1]
        if way == 1:
            return lambda matvec, c, a=a: (plain(a), np.linalg.solve(a, c))[1]
        if way == 2:
            return functools.partial(lambda a, matvec, c: (plain(a), np.linalg.solve(a, c))[1], a)
        return Holder(a).solve

    def linear(a, c):
        turned = a.T
        solve, back = solver(a), lambda matvec, c: (plain(turned), np.linalg.solve(turned, c))[1]
        return da.custom_linear_solve(lambda x: a @ x, c, solve, back)

    def curved(a, c):  # a x + x³/9 = c
        residual = lambda x: a @ x + x**3 / 9 - c
        search = lambda f, x: (plain((a, c)), scipy.optimize.root(lambda x: a @ x + x**3 / 9 - c, x, tol=1e-14).x)[1]
        return da.custom_root(residual, np.zeros(n), search, _tangent_solver(a))

    def _tangent_solver(a):
        return lambda matvec, c: (plain(a), dense(matvec, c))[1]

    def newton(a, c):  # the same without any rule
        x = np.linalg.solve(a, c)
        for _ in range(60):
            x = x - np.linalg.solve(a + np.eye(n) * (x**2 / 3), a @ x + x**3 / 9 - c)
        return x

    v = rng.normal(size=n)
    for ours, theirs in ((linear, np.linalg.solve), (curved, newton)):
        f, g = (lambda a, c, s=s: v @ s(np.sin(a) + a, c * c) for s in (ours, theirs))
        close = functools.partial(np.testing.assert_allclose, rtol=1e-6, atol=1e-8)
        for x, y in zip(da.grad(f, (0, 1))(A, b), da.grad(g, (0, 1))(A, b), strict=True):
            close(x, y)
        close(da.jvp(f, (A, b), (A.T, v))[1], da.jvp(g, (A, b), (A.T, v))[1])
        lanes = np.stack([A, A.T]), np.stack([b, v])
        close(da.vmap(da.grad(f))(*lanes), da.vmap(da.grad(g))(*lanes))
        if seed % 4 == 0:
            close(da.hessian(f, 1)(A, b), da.hessian(g, 1)(A, b))


@pytest.mark.parametrize("seed", range(12))
def test_solvers_read_traced_values_from_closures(seed):
    check_closures(seed)


@pytest.mark.full
def test_many_solvers_read_traced_values_from_closures():
    for seed in range(12, 1012):
        check_closures(seed)


def test_the_four_arguments_of_jax():
    def root(custom_root, np, a):
        f = lambda x: x**3 + a * x - 2.0
        newton = lambda f, x: functools.reduce(lambda x, _: x - f(x) / (3 * x**2 + a), range(40), x)
        return custom_root(f, 1.0, newton, lambda g, y: y / g(1.0))

    ours, theirs = lambda a: root(da.custom_root, np, a), lambda a: root(jax.lax.custom_root, jnp, a)
    for transform, other in ((lambda f: f, lambda f: f), (da.grad, jax.grad), (da.jacfwd, jax.jacfwd)):
        np.testing.assert_allclose(transform(ours)(1.5), other(theirs)(1.5), rtol=1e-12)
    np.testing.assert_allclose(da.grad(da.grad(ours))(1.5), jax.grad(jax.grad(theirs))(1.5), rtol=1e-10)
    lanes = np.array([0.5, 1.5])
    np.testing.assert_allclose(da.vmap(da.grad(ours))(lanes), jax.vmap(jax.grad(theirs))(lanes), rtol=1e-12)


# ── refusals ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_refusals_of_custom_root() -> None:
    f, x0 = (lambda x: x**2 - 4.0), np.ones(2)
    with pytest.raises(TreeError, match=r"return sol\.x"):
        da.custom_root(f, x0, lambda f, x: scipy.optimize.root(f, x))
    with pytest.raises(ShapeError, match=r"returned shape \(3,\) for x0"):
        da.custom_root(f, x0, lambda f, x: np.ones(3))
    with pytest.raises(DtypeError, match="imaginary part"):
        da.custom_root(f, x0, lambda f, x: x + 0j)
    with pytest.raises(ShapeError, match="1 numbers for 2 unknowns"):
        da.custom_root(np.sum, x0, scipy_root)
    with pytest.raises(ArgumentTypeError, match="solved for"):
        da.custom_root(f, "start", scipy_root)
    with pytest.raises(CapturedTensorError, match="solve returned a Dual"):
        da.grad(lambda a: (_HIDDEN.append(a), da.custom_root(lambda x: x - a, 1.0, lambda f, x: _HIDDEN[-1]))[1])(2.0)
    with pytest.raises(ShapeError, match="returned shape"):
        da.fixed_point(lambda x: np.stack([x, x]), 1.0)


def test_refusals_of_custom_linear_solve() -> None:
    a, b = np.array([[3.0, 1.0], [0.0, 2.0]]), np.ones(2)
    solved = lambda b: np.sum(da.custom_linear_solve(lambda x: a @ x, b, dense))
    np.testing.assert_allclose(da.jvp(solved, (b,), (b,))[1], np.sum(np.linalg.solve(a, b)))
    with pytest.raises(RuleMissingError, match="symmetric=True"):
        da.grad(solved)(b)
    with pytest.raises(NotLinearError):
        da.custom_linear_solve(lambda x: x * x, b, dense)
    with pytest.raises(NotLinearError):
        da.custom_linear_solve(lambda x: a @ x + b, b, dense)
    with pytest.raises(ShapeError, match="square"):
        da.custom_linear_solve(lambda x: x[:1], b, dense)
    with pytest.raises(ShapeError, match="solve returned shape"):
        da.custom_linear_solve(lambda x: a @ x, b, lambda matvec, b: b[:1])
    with pytest.raises(CapturedTensorError, match="solve returned a Dual"):
        solved = lambda b: da.custom_linear_solve(lambda x: a @ x, b, lambda m, b: _HIDDEN[-1])
        da.jvp(lambda b: (_HIDDEN.append(b), solved(b))[1], (b,), (b,))
    _HIDDEN.clear()


def test_a_sparse_factorization_solves_for_tangents() -> None:
    def solution(source, how):
        n = len(source)
        residual = lambda u, s: (2 * u - np.roll(u, 1) - np.roll(u, -1)) * n**2 + u**3 - s

        def newton(f, u):
            for _ in range(12):
                u = u - np.linalg.solve(da.jacfwd(f)(u), f(u))
            return u

        return da.custom_root(residual, np.ones(n), newton, args=(source,), tangent_solve=how)

    source = np.linspace(1.0, 2.0, 7)
    for derivative in (da.grad, da.hessian):
        found, expected = (
            derivative(lambda s, how=how: np.sum(solution(s, how) ** 2))(source) for how in ("sparse", None)
        )
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-14)
    lanes = np.stack([source, source + 1])
    found, expected = (da.vmap(da.jacfwd(lambda s, how=how: solution(s, how)))(lanes) for how in ("sparse", None))
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    with pytest.raises(ArgumentTypeError, match="tangent_solve"):
        solution(source, "dense")
