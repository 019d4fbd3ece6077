"""Sums over directions: every operator against one direction at a time, harmonic functions, nesting, refusals."""

from __future__ import annotations

import math

import numpy as np
import pytest

import dualad as da
from dualad.core.tables import OPS
from dualad.errors import ArgumentError, ArgumentTypeError, DtypeError, ShapeError, TreeError
from tests.oracles import op_values
from tests.oracles.arrays import close, describe, leaves, random_like, tolerance

X = np.array([0.3, -0.7, 1.1])
A = np.array([0.5, -0.7, 0.3])


def f(x):
    return np.exp(x @ A) + np.sin(x[0] * x[1]) * x[2] ** 2 / np.sqrt(1 + x @ x) + np.linalg.norm(np.tanh(x))


def one_by_one(f, x, directions, order: int, weights):
    rows = zip(*directions, strict=True) if isinstance(directions, tuple) else directions
    terms = [da.taylor(f, x, v, order=order) for v in rows]
    parts = [leaves(t) for t in terms]
    return [sum(w * math.factorial(order) * p[i][order] for w, p in zip(weights, parts, strict=True))
            for i in range(len(parts[0]))]  # fmt: skip


def collapsed_agrees(op, samples) -> None:
    weights = np.array([0.7, -1.3, 0.4])
    for s in samples:
        g, args = s.reduced()
        args = tuple([np.asarray(a)[()] for a in args])
        if not args:
            continue
        rng = s.rng("collapsed")
        rows = [tuple([random_like(rng, a) for a in args]) for _ in weights]
        directions = tuple([np.stack(column) for column in zip(*rows, strict=True)])
        for order in (2, 3):
            with np.errstate(all="ignore"):
                found = leaves(da.directional(lambda a, g=g: g(*a), args, directions, order=order, weights=weights))
                expected = one_by_one(lambda a, g=g: g(*a), args, directions, order, weights)
            for a, b in zip(found, expected, strict=True):
                if np.asarray(a).dtype.kind in "fc":
                    what = f"{op.name}, sample {s.index} {describe(s.args, s.params)}, order {order}"
                    close(a, b, what, rtol=100 * tolerance(args, a), dtypes=False)


SOME = ["add", "cholesky", "einsum", "eigh", "index_set", "matmul", "multiply", "norm", "power", "prod", "scan",
        "solve",
        "sqrtm", "svd", "sylvester", "tanh", "vector_norm", "where",
        "while_loop"]  # fmt: skip


@pytest.mark.parametrize("name", [n for n in SOME if n in OPS])
def test_a_sum_is_the_sum_of_single_directions(name: str) -> None:
    collapsed_agrees(OPS[name], op_values.subjects(OPS[name])[-1:])


@pytest.mark.full
@pytest.mark.filterwarnings("ignore:logm result may be inaccurate")
@pytest.mark.parametrize("op", [op for op in OPS.values() if op.jvp is not None], ids=lambda op: op.name)
def test_a_sum_is_the_sum_of_single_directions_at_every_sample(op) -> None:
    collapsed_agrees(op, op_values.subjects(op))


# ── Laplacian and biharmonic ─────────────────────────────────────────────────────────────────────────────────────

HARMONIC = {
    "Re z⁵": lambda x: np.real((x[0] + 1j * x[1]) ** 5),
    "x² − y²": lambda x: x[0] ** 2 - x[1] ** 2 + 3 * x[0] * x[1],
    "1/r": lambda x: 1 / np.sqrt(x @ x),
    "zonal": lambda x: 2 * x[2] ** 2 - x[0] ** 2 - x[1] ** 2,
    "eˣ sin y": lambda x: np.exp(x[0]) * np.sin(x[1]),
}


@pytest.mark.parametrize("name", HARMONIC)
def test_harmonic_functions(name: str) -> None:
    assert abs(da.laplacian(HARMONIC[name])(X)) <= 1e-12
    assert abs(da.biharmonic(HARMONIC[name])(X)) <= 1e-10


def test_radial_functions() -> None:
    r = np.sqrt(X @ X)
    radial = lambda x: (x @ x) ** 2.5  # Δ rⁿ = n (n + d − 2) rⁿ⁻²
    np.testing.assert_allclose(da.laplacian(radial)(X), 5 * 6 * r**3)
    np.testing.assert_allclose(da.biharmonic(radial)(X), 5 * 6 * 3 * 4 * r)


@pytest.mark.parametrize("d", [1, 2, 5])
def test_biharmonic_is_the_laplacian_twice(d: int) -> None:
    x, a = np.linspace(0.2, 0.9, d), np.linspace(-1.0, 0.5, d)
    g = lambda x: np.exp(np.sum(a * x)) + np.prod(np.sin(x)) + np.sum(x) ** 4
    twice = da.laplacian(da.laplacian(g, method="hessian"), method="hessian")(x)
    np.testing.assert_allclose(da.biharmonic(g)(x), twice, rtol=1e-11)
    np.testing.assert_allclose(da.biharmonic(g, chunk_size=3)(x), twice, rtol=1e-11)


def test_the_two_methods_agree() -> None:
    for options in ({}, {"chunk_size": 2}):
        found = da.laplacian(f, method="taylor", **options)(X)
        np.testing.assert_allclose(found, da.laplacian(f, method="hessian", **options)(X), rtol=1e-11)
    np.testing.assert_allclose(da.laplacian(f)(X), np.trace(da.hessian(f)(X)), rtol=1e-11)


def test_laplacian_against_jax() -> None:
    jax = pytest.importorskip("jax")
    import jax.numpy as jnp

    from tests.oracles import jax_side  # noqa: F401 - float64

    def g(xp):
        return lambda x: xp.exp(x @ A) + xp.sin(x[0] * x[1]) * x[2] ** 2 / xp.sqrt(1 + x @ x)

    expected = np.trace(np.asarray(jax.hessian(g(jnp))(X)))
    np.testing.assert_allclose(da.laplacian(g(np))(X), expected, rtol=1e-11)


def test_results_and_arguments_are_trees() -> None:
    def g(p, scale):
        return {"u": np.stack([p["a"] ** 2 * np.sum(p["b"]), np.sum(p["b"] ** 3)]), "n": 3}

    p = {"a": 2.0, "b": np.array([1.0, -1.0]), "name": "static"}
    found = da.laplacian(g)(p, 2.0)
    np.testing.assert_allclose(found["u"], [2 * np.sum(p["b"]), 6 * np.sum(p["b"])])
    value, aux = da.laplacian(lambda x: (x @ x, np.sin(x)), has_aux=True)(X)
    assert value == 6.0
    np.testing.assert_array_equal(aux, np.sin(X))


NESTED = {
    "gradient": (lambda g: da.grad(g), 1e-10),
    "taylor": (lambda g: lambda x: da.taylor(g, x, A, order=2), 1e-10),
    "vmap": (lambda g: lambda x: da.vmap(g)(np.stack([x, 2 * x])), 1e-10),
    "laplacian": (lambda g: da.laplacian(g), 1e-9),
    "jit": (lambda g: da.jit(g), 1e-10),
}


@pytest.mark.parametrize("name", NESTED)
def test_nesting(name: str) -> None:
    around, limit = NESTED[name]
    found, expected = around(da.laplacian(f, method="taylor"))(X), around(da.laplacian(f, method="hessian"))(X)
    close(found, expected, name, rtol=limit)


INSIDE = {
    "jit": da.jit(f),
    "scan": lambda x: da.scan(lambda c, y: (np.sin(c) * y + c * c, None), x[0], x)[0],
    "traced scan": da.jit(lambda x: da.scan(lambda c, y: (np.sin(c) * y + c * c, None), x[0], x)[0]),
    "traced cond": da.jit(lambda x: da.cond(x[0] > 0, np.sum, lambda y: np.sum(y**4) * y[0], x * x) * x[1]),
    "writes": lambda x: _written(x),
    "a solve": lambda x: np.linalg.solve(np.outer(x, x) + np.eye(3), np.sin(x)) @ x,
    "eigenvalues": lambda x: np.linalg.eigvalsh(np.outer(x, x) + np.diag(np.arange(3.0)))[1],
    "a gradient": lambda x: np.sum(da.grad(f)(x) ** 2),
}


def _written(x):
    y = np.zeros_like(x)
    for i in range(3):
        y[i] = y[i - 1] * x[i] + np.sin(x[i])
    return y @ y


@pytest.mark.parametrize("name", INSIDE)
def test_constructs(name: str) -> None:
    g = INSIDE[name]
    np.testing.assert_allclose(da.laplacian(g)(X), np.trace(da.hessian(g)(X)), rtol=1e-10)
    weights = np.array([1.0, -2.0, 0.5])
    found = da.directional(g, X, np.eye(3), order=3, weights=weights)
    np.testing.assert_allclose(found, one_by_one(g, X, np.eye(3), 3, weights)[0], rtol=1e-9)


def test_random_directions_estimate_a_laplacian() -> None:
    d = 50
    x = np.linspace(-1, 1, d)
    g = lambda x: np.sum(np.sin(x)) + np.sum(x[1:] * x[:-1])
    signs = np.random.default_rng(0).choice([-1.0, 1.0], size=(4000, d))
    found = da.directional(g, x, signs, order=2) / len(signs)
    np.testing.assert_allclose(found, da.laplacian(g)(x), atol=0.5)


INNER = {"abs": np.abs, "exp": np.exp, "square": lambda x: x * x, "where": lambda x: np.where(x > 0, x, -0.5 * x)}
OUTER = {
    "power": lambda x, y: np.abs(x) ** y, "divide": np.divide, "multiply": np.multiply, "arctan2": np.arctan2,
    "hypot": np.hypot, "logaddexp": np.logaddexp, "solve": lambda x, y: np.linalg.solve(np.diag(x + 3) + 0.1, y),
    "matmul": lambda x, y: np.outer(x, y) @ y, "scan": lambda x, y: da.scan(lambda c, v: (c * v + y[0],) * 2, y, x)[1],
    "square of a scan": lambda x, y: np.sin(da.scan(lambda c, v: (c * v + y[0],) * 2, y, x)[1] ** 2),
    "while": lambda x, y: np.exp(da.while_loop(lambda c: np.sum(c) < 2, lambda c: c * y + 0.5, x)),
    "cond": lambda x, y: da.cond(x[0] > 9, np.sin, np.cos, x * y) ** 2 * y,
    "count": lambda x, y: (lambda n, z: z[n] * y * z)(*da.fori_loop(0, 2, lambda i, c: (c[0] + 1, c[1] * y), (0, x))),
}  # fmt: skip


@pytest.mark.parametrize("outer", OUTER)
@pytest.mark.parametrize("inner", INNER)
def test_sums_over_directions_in_a_program(inner: str, outer: str) -> None:
    """The degrees of coefficients that are constants, and of others that are not yet known to end, add up."""
    for sides in (lambda x: (INNER[inner](x), x), lambda x: (x, INNER[inner](x)), lambda x: (INNER[inner](x), x[::-1])):
        g = lambda x, sides=sides: np.sum(OUTER[outer](*sides(x)) * np.arange(1.0, 4.0))
        expected = np.trace(da.hessian(g)(X))
        np.testing.assert_allclose(da.laplacian(g)(X), expected, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(da.trace(da.laplacian(g), X)(X), expected, rtol=1e-9, atol=1e-12)


REFUSED = {
    "order": (lambda: da.directional(f, X, np.eye(3), order=0), ArgumentError, "order=0"),
    "no directions": (lambda: da.directional(f, X, np.zeros((0, 3)), order=2), ArgumentError, "numbers of directions"),
    "shape": (lambda: da.directional(f, X, np.eye(2), order=2), ShapeError, r"shape \(2, 2\)"),
    "dtype": (lambda: da.directional(f, X, np.eye(3, dtype=complex), order=2), DtypeError, "complex128"),
    "weights": (lambda: da.directional(f, X, np.eye(3), order=2, weights=np.ones(2)), ShapeError, "3 directions"),
    "tree": (lambda: da.directional(f, X, [np.eye(3)], order=2), TreeError, "directions"),
    "integers": (lambda: da.laplacian(lambda n: n * n)(3), DtypeError, "int"),
    "complex": (lambda: da.laplacian(lambda z: z @ z)(X + 1j), DtypeError, "complex"),
    "method": (lambda: da.laplacian(f, method="trace"), ArgumentError, "two ways"),
    "executor": (lambda: da.laplacian(f, method="taylor", executor=3), ArgumentTypeError, "executor"),
    "chunks": (lambda: da.biharmonic(f, chunk_size=0), ArgumentError, "chunk_size"),
    "function": (lambda: da.biharmonic(3.0), ArgumentTypeError, "the function is 3.0"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name: str) -> None:
    call, kind, words = REFUSED[name]
    with pytest.raises(kind, match=words):
        call()
