"""Sparse matrices of traced entries: SciPy's numbers, in all formats and kinds, and the derivatives of dense code."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as ss
import scipy.sparse.linalg as sl

import dualad as da
import dualad.scipy.sparse as ours
import dualad.scipy.sparse.linalg as ours_linalg
from dualad.errors import UnsupportedError
from tests.oracles.mirrored import agrees

ROWS, COLUMNS = np.array([3, 0, 1, 0, 2, 3, 2]), np.array([0, 2, 1, 0, 3, 3, 0])
X = np.random.default_rng(5).uniform(0.5, 2.0, 7)
OTHER = np.where(np.arange(16).reshape((4, 4)) % 3 == 0, np.arange(16.0).reshape((4, 4)) + 1, 0)
V = np.array([0.3, -1.2, 0.7, 2.0])
KINDS = [f"{form}_{kind}" for kind in ("array", "matrix") for form in ("csr", "csc", "coo")]


def dense(A):
    return A.toarray() if hasattr(A, "toarray") else np.asarray(A) if type(A) is np.matrix else A


#: (module of sparse matrices, A, a constant sparse matrix) -> a matrix, or dense numbers
FUNCTIONS = {
    "matrix @ vector": lambda s, A, B: A @ V,
    "vector @ matrix": lambda s, A, B: V @ A,
    "A @ B": lambda s, A, B: A @ B,
    "B @ A": lambda s, A, B: B @ A,
    "A @ A": lambda s, A, B: A @ A.T @ A,
    "dot": lambda s, A, B: A.dot(B),
    "A * vector": lambda s, A, B: A * V,
    "A * 2": lambda s, A, B: 2 * A * 3 / 4,
    "vector * A": lambda s, A, B: V * A,
    "A * B": lambda s, A, B: A * B,
    "B * A": lambda s, A, B: B * A,
    "A ** 2": lambda s, A, B: A**2,
    "A ** 3": lambda s, A, B: A**3,
    "power": lambda s, A, B: A.power(3),
    "multiply": lambda s, A, B: A.multiply(B) + A.multiply(V) + B.multiply(A),
    "A + B": lambda s, A, B: A + B - A.T,
    "B + A": lambda s, A, B: B - A + B,
    "neg": lambda s, A, B: abs(-A),
    "sqrt": lambda s, A, B: A.sqrt().sin(),
    "data": lambda s, A, B: A.data * np.arange(len(A.data)),
    "row": lambda s, A, B: A[[1]],
    "entry": lambda s, A, B: A.tocsr()[3, 0] * A.tocsr()[1, 0],
    "slices": lambda s, A, B: A.tocsc()[1:, ::2],
    "free": lambda s, A, B: A.tocsr()[[0, 2, 3]][:, [0, 2, 3]],
    "mask": lambda s, A, B: A.tocsr()[:, np.array([True, False, True, True])],
    "diagonal": lambda s, A, B: A.diagonal() * A.trace(),
    "diagonal above": lambda s, A, B: A.diagonal(2),
    "sum": lambda s, A, B: A.sum() + A.mean(),
    "reshape": lambda s, A, B: A.reshape((2, 8)),
    "formats": lambda s, A, B: A.tocsr().tocoo().tocsc().asformat("dia") @ V,
    "hstack": lambda s, A, B: s.hstack([A, B, 2 * A]),
    "vstack": lambda s, A, B: s.vstack([B, A], format="csc"),
    "bmat": lambda s, A, B: s.bmat([[A, None], [B, A.T]]),
    "block_diag": lambda s, A, B: s.block_diag([A, np.ones((1, 2)), B]),
    "triangles": lambda s, A, B: s.tril(A) + s.triu(A, 1) * 2,
    "kron": lambda s, A, B: s.kron(A, B) + s.kron(B, A),
    "conj": lambda s, A, B: A.conj().real + A.T.conj() + A.imag,
}
#: where a form of SciPy's does not have what others have
LACKING = {"row": ("coo",)}


def build(module, kind: str, x, shape=(4, 4)):
    return getattr(module, kind)((x, (ROWS, COLUMNS)), shape=shape)


#: the gate has an array and a matrix, one by columns and one by rows
IN_THE_GATE = ("csc_array", "csr_matrix")


@pytest.mark.parametrize("kind", [k if k in IN_THE_GATE else pytest.param(k, marks=pytest.mark.full) for k in KINDS])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_as_scipy(name: str, kind: str) -> None:
    if kind[:3] in LACKING.get(name, ()):
        pytest.skip("SciPy's class does not have it")
    f = FUNCTIONS[name]
    mine = lambda x: dense(f(ours, build(ours, kind, x), getattr(ours, kind)(OTHER)))
    theirs = lambda x: dense(f(ss, build(ss, kind, x), getattr(ss, kind)(OTHER)))
    agrees(mine, theirs, X, order=1)


@pytest.mark.parametrize("name", ["A @ A", "A ** 2", "sqrt", "free", "kron", "diagonal"])
def test_second_order_lanes_and_programs(name: str) -> None:
    f = FUNCTIONS[name]
    mine = lambda x: np.sum(np.sin(dense(f(ours, build(ours, "csr_array", x), ours.csr_array(OTHER)))))
    agrees(mine, lambda x: np.sum(np.sin(dense(f(ss, build(ss, "csr_array", x), ss.csr_array(OTHER))))), X, order=2)
    lanes = np.stack([X, 2 * X])
    np.testing.assert_allclose(da.vmap(da.grad(mine))(lanes), [da.grad(mine)(x) for x in lanes], rtol=1e-12)
    np.testing.assert_allclose(da.jit(da.grad(mine))(X), da.grad(mine)(X), rtol=1e-12)


def test_diagonals() -> None:
    for f in (
        lambda s, x: s.diags_array([x[:4], -x[4:]], offsets=[0, 1]).tocsr()[1:] @ V,
        lambda s, x: s.diags_array([x[0], 2 * x[1]], offsets=[-1, 0], shape=(4, 4), format="csr") @ V,
        lambda s, x: s.diags([x[:3], np.ones(4)], [1, 0]).tocsc() @ V,
        lambda s, x: s.diags_array(x[:4]).diagonal() * V,
        lambda s, x: s.spdiags(np.stack([x[:4], x[3:]]), [0, 1], 4, 4) @ V,
        lambda s, x: s.dia_array((np.stack([x[:4], x[3:]]), [0, -1]), shape=(4, 4)).tocsr() @ V,
    ):
        agrees(lambda x, f=f: f(ours, x), lambda x, f=f: f(ss, x), X)


def test_repeated_entries_are_added_before_a_function_of_them() -> None:
    rows, columns = [0, 0, 1], [1, 1, 0]
    for f in (
        lambda A: A.power(2),
        abs,
        lambda A: A.sqrt(),
        lambda A: A.tocsr()[0:1],
        lambda A: A @ A,
        lambda A: A * A,
    ):
        mine = lambda x, f=f: f(ours.csr_array((x, (rows, columns)), shape=(2, 2))).toarray()
        agrees(mine, lambda x, f=f: f(ss.csr_array((x, (rows, columns)), shape=(2, 2))).toarray(), X[:3])
    kept = lambda s, x: s.coo_array((x, (rows, columns)), shape=(2, 2)).data
    agrees(lambda x: kept(ours, x), lambda x: kept(ss, x), X[:3])


def test_entries_keep_the_order_of_the_format() -> None:
    for kind in KINDS:
        A, B = build(ours, kind, X), build(ss, kind, X)
        primal, _ = da.jvp(lambda x, kind=kind: build(ours, kind, x).data, (X,), (X,))
        np.testing.assert_array_equal(primal, B.data)
        np.testing.assert_array_equal(A.data, B.data)

        def places(x, kind=kind):
            A = build(ours, kind, x)
            found.append(A.coords if A.format == "coo" else (A.indices, A.indptr))
            return x

        found: list = []
        da.jvp(places, (X,), (X,))
        for mine, theirs in zip(found[0], B.coords if B.format == "coo" else (B.indices, B.indptr), strict=True):
            np.testing.assert_array_equal(mine, theirs)


def test_transforms_return_matrices_of_scipy() -> None:
    for kind in KINDS:
        value, tangent = da.jvp(lambda x, kind=kind: build(ours, kind, x), (X,), (np.ones(7),))
        assert type(value) is type(build(ss, kind, X))
        np.testing.assert_array_equal(value.toarray(), build(ss, kind, X).toarray())
        np.testing.assert_array_equal(tangent.toarray(), build(ss, kind, np.ones(7)).toarray())
    assert type(da.jit(lambda x: build(ours, "csr_array", x) * 2)(X)) is ss.csr_array
    lanes = da.vmap(lambda x: build(ours, "csr_array", x).tocsr())(np.stack([X, X]))
    assert lanes.entries.shape == (2, 7)


def test_dtypes() -> None:
    value, tangent = da.jvp(
        lambda x: ours.csr_array((x, (ROWS, COLUMNS)), dtype=np.float32) @ V.astype("f4"), (X,), (X,)
    )
    assert value.dtype == tangent.dtype == np.float32
    agrees(
        lambda x: (lambda A: A.conj().T @ A)(build(ours, "csr_array", x + 1j * x**2)).toarray(),
        lambda x: (lambda A: A.conj().T @ A)(build(ss, "csr_array", x + 1j * x**2)).toarray(),
        X,
    )
    stacked, _ = da.jvp(lambda x: ours.hstack([build(ours, "csr_array", x), np.eye(4)], dtype=np.float32), (X,), (X,))
    assert stacked.dtype == np.float32


def test_issparse() -> None:
    """Code that asks goes the same way with tensors as without."""
    f = lambda x: V @ build(ours, "csr_array", x) @ V if ours.issparse(build(ours, "csr_array", x)) else 0.0
    assert np.any(da.grad(f)(X))
    assert da.grad(lambda x: x[0] * ours.isspmatrix(build(ours, "csr_matrix", x)))(X)[0] == 1
    assert not ours.isspmatrix(ss.csr_array(OTHER)) and not ours.issparse(OTHER)


def test_factors_and_norms() -> None:
    full = lambda s, x: build(s, "csc_array", x) + 4 * s.csc_array(np.eye(4))
    for trans in "NTH":
        agrees(lambda x, trans=trans: ours_linalg.splu(full(ours, x)).solve(V, trans),
               lambda x, trans=trans: sl.splu(full(ss, x)).solve(V, trans), X)  # fmt: skip
        agrees(lambda x, trans=trans: ours_linalg.splu(full(ss, X)).solve(x[:4], trans),
               lambda x, trans=trans: sl.splu(full(ss, X)).solve(x[:4], trans), X)  # fmt: skip
    assert ours_linalg.splu(full(ss, X)).perm_c.shape == (4,)
    for ord in (None, "fro", 1, np.inf):
        agrees(lambda x, ord=ord: ours_linalg.norm(full(ours, x), ord),
               lambda x, ord=ord: sl.norm(full(ss, x), ord), X)  # fmt: skip


@pytest.mark.parametrize(
    "f",
    [
        lambda A: A.todense(),
        lambda A: A.sum(axis=0),
        lambda A: A + np.ones((4, 4)),
        lambda A: np.ones((4, 4)) - A,
    ],
)
def test_what_would_be_a_matrix_of_numpy_is_refused(f) -> None:
    """Its ``*`` is another one than that of a tensor."""
    with pytest.raises(UnsupportedError, match=r"np\.matrix"):
        da.jvp(lambda x: f(build(ours, "csr_matrix", x)), (X,), (X,))


@pytest.mark.parametrize(
    "f",
    [
        lambda A: A == A,
        lambda A: A > 0,
        lambda A: bool(A),
        lambda A: list(A),
        lambda A: A.max(),
        lambda A: A.setdiag(1.0),
        lambda A: A.__setitem__((0, 0), 1.0),
        lambda A: A / A,
        lambda A: A + 1,
        lambda A: A[0],
        lambda A: ours.save_npz("nowhere", A),
        lambda A: ours_linalg.eigs(A),
        lambda A: ours_linalg.splu(A).L,
        lambda A: ours_linalg.norm(A, 2),
        lambda A: A[A.sum()],
    ],
)
def test_the_rest_is_refused_with_words(f) -> None:
    with pytest.raises(UnsupportedError) as caught:
        da.jvp(lambda x: f(build(ours, "csr_array", x)), (X,), (X,))
    assert caught.value.instead


@pytest.mark.parametrize(
    ("f", "error"),
    [
        (lambda A: A @ np.ones(3), ValueError),
        (lambda A: A @ ss.csr_array(np.ones((3, 2))), ValueError),
        (lambda A: A + ss.csr_array(np.ones((3, 2))), ValueError),
        (lambda A: A.multiply(np.ones((3, 2))), ValueError),
        (lambda A: A**0, NotImplementedError),
        (lambda A: A.sum(axis=2), ValueError),
        (lambda A: A[5, 0], IndexError),
        (lambda A: A.nothing, AttributeError),
    ],
)
def test_scipys_own_errors(f, error) -> None:
    for module, start in ((ss, lambda g: g(X)), (ours, lambda g: da.jvp(g, (X,), (X,)))):
        with pytest.raises(error):
            start(lambda x, module=module: f(build(module, "csr_array", x)))


@pytest.mark.parametrize("entries", [0, 1, 60, 5000])
def test_compiled_products_are_the_same(entries) -> None:
    """Small ones are equations that machine code knows, whose additions have SciPy's order."""
    rng = np.random.default_rng(entries)
    m, n = 90, 80
    A = ss.random_array((m, n), density=entries / (m * n), rng=rng, format="csr")
    A.indices.setflags(write=False)
    x, v = rng.normal(size=n), rng.normal(size=m)
    for f, at in ((lambda x: A @ x, x), (lambda v: A.T @ v, v), (lambda x: A @ x[:, None], x), (lambda v: v @ A, v)):
        fast = da.jit(f)
        assert fast(at).tobytes() == f(at).tobytes()
        np.testing.assert_allclose(da.jit(da.jacrev(f))(at), da.jacfwd(f)(at), rtol=1e-13, atol=1e-15)
        np.testing.assert_allclose(da.jit(da.vmap(f))(np.stack([at, 2 * at]))[1], 2 * f(at), rtol=1e-13, atol=1e-15)
    if entries == 60:
        assert "csr_product" not in da.jit(lambda x: np.sin(A @ x)).lower(x).source
    traced = lambda data: ours.csr_array((data, A.indices, A.indptr), shape=A.shape) @ x
    np.testing.assert_allclose(da.jit(da.jacrev(traced))(A.data), da.jacfwd(traced)(A.data), rtol=1e-13, atol=1e-15)
    assert da.jit(traced)(A.data).tobytes() == (A @ x).tobytes()
