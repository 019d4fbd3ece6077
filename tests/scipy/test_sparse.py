"""`dualad.scipy.sparse` against SciPy, dense JAX and central differences."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse as ss
import scipy.sparse.linalg as sl

import dualad as da
import dualad.scipy.sparse as ours
import dualad.scipy.sparse.linalg as ours_linalg
from dualad.errors import ConversionError, UnsupportedError
from tests.oracles.jax_side import jax
from tests.oracles.mirrored import agrees

RNG = np.random.default_rng(23)
DENSE = np.where(RNG.uniform(size=(4, 5)) < 0.6, RNG.normal(size=(4, 5)), 0.0)
DENSE[2] = 0
SQUARE = np.where(RNG.uniform(size=(5, 5)) < 0.5, RNG.normal(size=(5, 5)), 0.0) + 4 * np.eye(5)
X, Z = RNG.normal(size=5), RNG.normal(size=(5, 3))
FORMATS = ["bsr", "coo", "csc", "csr", "dia", "dok", "lil"]


@pytest.mark.parametrize("kind", ["array", "matrix"])
@pytest.mark.parametrize("form", FORMATS)
def test_products(form: str, kind: str) -> None:
    a, b = getattr(ours, f"{form}_{kind}")(DENSE), getattr(ss, f"{form}_{kind}")(DENSE)
    agrees(lambda x: a @ x, lambda x: b @ x, X)
    agrees(lambda x: a @ x, lambda x: b @ x, Z)
    agrees(lambda x: a @ x, lambda x: b @ x, Z[:, :1])
    agrees(lambda x: a.dot(x), lambda x: b.dot(x), X)
    agrees(lambda x: a.T @ x, lambda x: b.T @ x, X[:4])
    agrees(lambda x: x @ a, lambda x: x @ b, X[:4])
    agrees(lambda x: x.T @ a, lambda x: x.T @ b, Z[:4])
    agrees(lambda x: np.sin(a @ x) @ a, lambda x: np.sin(b @ x) @ b, X, order=3)
    if kind == "matrix":
        agrees(lambda x: a * x, lambda x: b * x, X)


def test_complex_and_single_and_whole() -> None:
    z = ours.csr_array(DENSE + 1j * DENSE[::-1])
    agrees(lambda x: z @ x, lambda x: z.toarray() @ x, X)
    agrees(lambda x: ours.csr_array(DENSE) @ x, lambda x: DENSE @ x, X + 1j * X[::-1], rtol=1e-9)
    single = ours.csr_array(DENSE.astype(np.float32))
    value, tangent = da.jvp(lambda x: single @ x, (X.astype(np.float32),), (X.astype(np.float32),))
    assert value.dtype == tangent.dtype == np.float32
    whole = ours.csr_array(np.eye(5, dtype=int))
    np.testing.assert_array_equal(
        da.vmap(lambda x: whole @ x)(np.arange(10).reshape((2, 5))), [np.arange(5), np.arange(5, 10)]
    )


def test_elementwise() -> None:
    a = ours.csr_array(DENSE)
    for f, g in (
        (lambda x: (a * x) @ X, lambda x: (DENSE * x) @ X), (lambda x: (x * a) @ X, lambda x: (DENSE * x) @ X),
        (lambda x: a.multiply(x) @ X, lambda x: (DENSE * x) @ X), (lambda x: (a / x) @ X, lambda x: (DENSE / x) @ X),
    ):  # fmt: skip
        agrees_up_to_rounding(f, g, X + 3)
        agrees_up_to_rounding(f, g, np.asarray(1.7))
    for f, g in (
        (lambda x: a + x, lambda x: DENSE + x), (lambda x: x + a, lambda x: x + DENSE),
        (lambda x: a - x, lambda x: DENSE - x), (lambda x: x - a, lambda x: x - DENSE),
    ):  # fmt: skip
        agrees_up_to_rounding(f, g, DENSE + 1)


def agrees_up_to_rounding(f, g, x) -> None:
    value, tangent = da.jvp(f, (x,), (np.ones_like(x),))
    expected = da.jvp(g, (x,), (np.ones_like(x),))
    np.testing.assert_allclose(value, expected[0], rtol=1e-12)
    np.testing.assert_allclose(tangent, expected[1], rtol=1e-12)
    ct = np.ones_like(value)
    np.testing.assert_allclose(da.vjp(f, x)[1](ct)[0], da.vjp(g, x)[1](ct)[0], rtol=1e-12)


# ── traced entries ───────────────────────────────────────────────────────────────────────────────────────────────

CSR = ss.csr_array(DENSE)
COO = ss.coo_array(DENSE)


def dense_of(data, rows, columns, shape):
    return jax.numpy.zeros(shape).at[rows, columns].add(data)


@pytest.mark.slow
def test_traced_entries_against_jax() -> None:
    rows, columns = COO.coords
    for build in (
        lambda d: ours.coo_array((d, (rows, columns)), shape=(4, 5)),
        lambda d: ours.csr_array((d, (rows, columns)), shape=(4, 5)),
        lambda d: ours.csc_array((d, (rows, columns)), shape=(4, 5)),
        lambda d: ours.csr_array((d, CSR.indices, CSR.indptr), (4, 5)),
    ):
        for f, g in (
            (lambda a, x: a @ x, lambda a, x: a @ x), (lambda a, x: a.T @ (a @ x), lambda a, x: a.T @ (a @ x)),
            (lambda a, x: x[:4] @ a, lambda a, x: x[:4] @ a),
            (lambda a, x: (2 * a / 3) @ x, lambda a, x: 2 * a / 3 @ x),
            (lambda a, x: a.toarray() * x, lambda a, x: a * x), (lambda a, x: -a + x, lambda a, x: x - a),
        ):  # fmt: skip
            mine = lambda d, x, f=f, build=build: np.sum(np.sin(f(build(d), x)))
            theirs = lambda d, x, g=g: jax.numpy.sin(g(dense_of(d, rows, columns, (4, 5)), x)).sum()
            for a, b in zip(da.grad(mine, (0, 1))(COO.data, X), jax.grad(theirs, (0, 1))(COO.data, X), strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


def test_repeated_entries_add_up() -> None:
    f = lambda d: ours.coo_array((d, ([0, 0, 1], [1, 1, 0])), shape=(2, 2)) @ np.array([1.0, 10.0])
    np.testing.assert_array_equal(da.jacrev(f)(np.array([1.0, 2.0, 3.0])), [[10, 10, 0], [0, 0, 1]])
    f = lambda d: ours_linalg.spsolve(ours.csr_array((d, ([0, 0, 1], [0, 0, 1])), shape=(2, 2)), np.ones(2))
    np.testing.assert_allclose(da.jacfwd(f)(np.array([1.0, 1.0, 2.0])), [[-0.25, -0.25, 0], [0, 0, -0.25]])


def test_lanes_of_entries() -> None:
    data = np.stack([CSR.data, 2 * CSR.data, CSR.data**2])
    f = lambda d: ours.csr_array((d, CSR.indices, CSR.indptr), shape=(4, 5)) @ X
    expected = [ss.csr_array((d, CSR.indices, CSR.indptr), shape=(4, 5)) @ X for d in data]
    np.testing.assert_allclose(da.vmap(f)(data), expected)


def test_what_traced_entries_refuse() -> None:
    build = lambda d: ours.csr_array((d, CSR.indices, CSR.indptr), shape=(4, 5))
    with pytest.raises(UnsupportedError, match="pattern of a sparse matrix is constant"):
        da.jvp(ours.csr_array, (DENSE,), (DENSE,))
    with pytest.raises(UnsupportedError, match="toarray"):
        da.jvp(lambda d: build(d).setdiag(1.0), (CSR.data,), (CSR.data,))
    with pytest.raises(ValueError, match="dimension mismatch"):
        da.jvp(lambda d: build(d) @ X[:3], (CSR.data,), (CSR.data,))
    with pytest.raises(ValueError, match="out of bounds"):
        da.jvp(lambda d: ours.csr_array((d, CSR.indices, CSR.indptr), shape=(4, 2)), (CSR.data,), (CSR.data,))
    with pytest.raises(ValueError, match="fit together"):
        da.jvp(lambda d: ours.csr_array((d[1:], CSR.indices, CSR.indptr)), (CSR.data,), (CSR.data,))


# ── systems ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("form", ["csc", "csr"])
def test_systems(form: str) -> None:
    a, b = getattr(ours, f"{form}_array")(SQUARE), getattr(ss, f"{form}_array")(SQUARE)
    agrees(lambda x: ours_linalg.spsolve(a, x), lambda x: sl.spsolve(b, x), X, order=3)
    agrees(lambda x: ours_linalg.spsolve(b, x), lambda x: sl.spsolve(b, x), Z)
    agrees(lambda x: ours_linalg.spsolve(b, x), lambda x: sl.spsolve(b, x), Z[:, :1])
    csc = ss.csc_array(SQUARE)
    agrees(lambda x: ours_linalg.factorized(csc)(x), lambda x: sl.factorized(csc)(x), X)


@pytest.mark.slow
def test_systems_with_traced_entries_against_jax() -> None:
    coo = ss.coo_array(SQUARE)
    rows, columns = coo.coords
    build = lambda d: ours.csr_array((d, (rows, columns)), shape=(5, 5))
    f = lambda d, b: np.sum(np.sin(ours_linalg.spsolve(build(d), b))) + np.sum(ours_linalg.spsolve(build(d).T, b) ** 3)

    def g(d, b):
        a = dense_of(d, rows, columns, (5, 5))
        return jax.numpy.sin(jax.numpy.linalg.solve(a, b)).sum() + (jax.numpy.linalg.solve(a.T, b) ** 3).sum()

    for a, b in zip(da.grad(f, (0, 1))(coo.data, X), jax.grad(g, (0, 1))(coo.data, X), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9)
    v = np.cos(np.arange(len(coo.data)))
    found = da.hvp(lambda d: f(d, X), coo.data, v)
    expected = jax.jvp(jax.grad(lambda d: g(d, X)), (coo.data,), (v,))[1]
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-12)


def test_singular_systems() -> None:
    singular = ours.csc_array(np.diag([1.0, 0.0]) + np.array([[0, 1.0], [0, 0]]))
    with pytest.raises(np.linalg.LinAlgError, match="singular"):
        da.jvp(lambda b: ours_linalg.spsolve(singular, b), (np.ones(2),), (np.ones(2),))
    with pytest.raises(UnsupportedError, match="sparse right-hand side"):
        da.jvp(lambda d: ours_linalg.spsolve(_with(d), ss.csr_array(np.eye(2))), (np.ones(2),), (np.ones(2),))
    with pytest.raises(ValueError, match="dimension mismatch"):
        da.jvp(lambda b: ours_linalg.spsolve(singular, b), (X,), (X,))
    with pytest.raises(UnsupportedError, match="cg"):
        da.jvp(lambda b: ours_linalg.cg(singular, b), (np.ones(2),), (np.ones(2),))


def _with(d):
    return ours.csr_array((d, ([0, 1], [0, 1])), shape=(2, 2))


# ── matrices are SciPy's ─────────────────────────────────────────────────────────────────────────────────────────


def test_matrices_are_scipys() -> None:
    a = ours.csr_array(DENSE)
    assert isinstance(a, ss.csr_array) and ss.issparse(a)
    for b in (
        a.T, a @ a.T, a + a, 2 * a, a.tocsc(), a[:2], abs(a), a.copy(), ours.eye_array(3), ours.diags_array([1.0, 2.0]),
        ours.vstack([a, a]), ours.kron(a, a), ours.csr_array(ss.csr_array(DENSE)), pickle.loads(pickle.dumps(a)),
    ):  # fmt: skip
        assert type(b).__module__ == "dualad.scipy.sparse", type(b)
        x = np.arange(b.shape[1]) + 1.0
        np.testing.assert_allclose(da.jvp(lambda x: b @ x, (x,), (x,))[1], b.toarray() @ x)
    np.testing.assert_array_equal(a @ X, ss.csr_array(DENSE) @ X)
    np.testing.assert_array_equal((a * X).toarray(), (ss.csr_array(DENSE) * X).toarray())
    np.testing.assert_array_equal(np.sqrt(abs(a)).toarray(), np.sqrt(abs(DENSE)))
    assert type(X[:4] @ a) is np.ndarray


def test_a_change_of_the_matrix_does_not_reach_a_program() -> None:
    a = ours.csr_array((np.array([1.0, 2.0]), np.array([1, 0]), np.array([0, 2])), shape=(1, 2))
    program = da.trace(lambda x: a @ x, np.ones(2))
    a.sort_indices()
    a.data[:] = 7
    np.testing.assert_array_equal(program(np.array([1.0, 10.0])), [12.0])


# ── matrices that SciPy has made ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", ["array", "matrix"])
@pytest.mark.parametrize("form", FORMATS)
def test_operators_of_scipys_own_matrices(form: str, kind: str) -> None:
    a = getattr(ss, f"{form}_{kind}")(DENSE)
    for f in (lambda x: a @ x, lambda x: a.dot(x), lambda x: x.T @ a.T, lambda x: np.sin(a @ x).T @ a):
        agrees(f, f, X, order=3)
        agrees(f, f, Z)
    times = (lambda x: a * x) if kind == "matrix" else (lambda x: (a * x).toarray())
    agrees(times, times, X)
    for f in (lambda c: (a * c).toarray(), lambda c: (c * a) @ X, lambda c: (a / c) @ X):
        agrees(f, f, np.asarray(1.7), rtol=1e-9)
    with pytest.raises(ConversionError, match=r"multiply was given a tensor[\s\S]*dualad\.scipy\.sparse\.csr_array"):
        da.jvp(da.plain(lambda x: a.multiply(x)), (X,), (X,))
    if form != "dok":  # a dict, whose entries an alias can't share
        f = da.lift(lambda x: a.multiply(x) @ X)
        agrees_up_to_rounding(f, lambda x: (DENSE * x) @ X, X + 3)
    assert type(a) is getattr(ss, f"{form}_{kind}")


def test_scipys_own_matrices_compiled_and_changed() -> None:
    a = ss.csr_matrix(DENSE)
    f = lambda x: np.sum(np.sin(a @ x) ** 2) + (x @ a.T) @ a.dot(x)
    np.testing.assert_allclose(da.jit(da.hessian(f))(X), da.hessian(f)(X), rtol=1e-12, atol=1e-14)
    product = da.jit(lambda x: a @ x)
    np.testing.assert_allclose(product(X), DENSE @ X, rtol=1e-14)
    a.data *= 2
    np.testing.assert_allclose(product(X), 2 * DENSE @ X, rtol=1e-14)
    with pytest.raises(UnsupportedError, match="of 1 dimension met a tensor"):
        da.jvp(lambda x: ss.coo_array(X) @ x, (X,), (X,))


def test_lifted_code_shares_the_matrix() -> None:
    a = ss.csr_array(DENSE)

    @da.lift
    def f(x):
        a[2, 3] = 5.0  # not in the pattern so far
        return a.multiply(x) @ np.ones(5)

    with pytest.warns(ss.SparseEfficiencyWarning):
        changed = da.jacfwd(f)(X)
    assert a[2, 3] == 5.0
    np.testing.assert_array_equal(changed, a.toarray())


def test_factors_made_outside() -> None:
    a = ss.csc_matrix(SQUARE)
    factors, solve = sl.splu(a), sl.factorized(a)
    for f in (lambda b: factors.solve(b), lambda b: solve(b), lambda b: factors.solve(b, "T")):
        agrees(da.lift(f), f, X, order=3)
    plain = np.linalg.solve(SQUARE, X)
    np.testing.assert_allclose(da.lift(lambda b: sl.spsolve(a, b))(X), plain, rtol=1e-12)
    entries = da.lift(lambda d: sl.spsolve(ss.csr_matrix((d, a.indices, a.indptr)).T, X))
    differences = lambda d: sl.spsolve(ss.csr_matrix((d, a.indices, a.indptr)).T, X)
    agrees(entries, differences, a.data, rtol=1e-9)
