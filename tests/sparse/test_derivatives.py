"""Sparse Jacobians and Hessians as users get them: values, formats, trees, transforms, checks, files, refusals.

Not for: patterns (`test_detect.py`) or colourings (`test_coloring.py`).
"""

from __future__ import annotations

import pickle
import subprocess
import sys
import warnings

import numpy as np
import pytest
import scipy.sparse as ss
from hypothesis import given, settings
from hypothesis import strategies as st

import dualad as da
from dualad.errors import ArgumentError, DtypeError, OutputError, PerformanceNote, ShapeError, SparsityError
from tests.oracles import random_programs

from .problems import arrow, brusselator, bundle, burgers, collocation, rosenbrock, springs

X = np.linspace(0.3, 1.7, 6)

JACOBIANS = {
    "burgers": burgers(12), "brusselator": brusselator(4), "bundle": bundle(3, 5, 20), "collocation": collocation(9),
}  # fmt: skip
HESSIANS = {"rosenbrock": rosenbrock(9), "arrow": arrow(8), "springs": springs(3)}


def close(found, expected) -> None:
    found = found.toarray() if ss.issparse(found) else found
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-11 * (1 + np.abs(expected).max(initial=0)))


@pytest.mark.parametrize("mode", ["auto", "forward", "reverse", "bidirectional", "direct"])
@pytest.mark.parametrize("name", JACOBIANS)
def test_jacobians(name, mode) -> None:
    f, x = JACOBIANS[name]
    jac = da.sparse_jacobian(f, mode=mode, check="raise")
    for point in (x, x + 0.1):
        found = jac(point)
        assert type(found) is ss.csr_array and found.has_canonical_format
        close(found, da.jacfwd(f)(point))
    if mode == "direct":
        assert jac.prepare(x).method == "direct"


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"mode": "symmetric"},
        {"mode": "forward"},
        {"mode": "direct"},
        {"mode": "symmetric", "decompression": "substitution"},
    ],
)
@pytest.mark.parametrize("name", HESSIANS)
def test_hessians(name, options) -> None:
    f, x = HESSIANS[name]
    hes = da.sparse_hessian(f, check="raise", **options)
    for point in (x, x + 0.1):
        close(hes(point), da.hessian(f)(point))


@settings(max_examples=25)
@given(st.lists(st.integers(0, 2**30), min_size=1, max_size=5), st.integers(0, 2**20))
def test_random_programs_agree_with_the_dense_jacobian(choices, seed) -> None:
    import scipy.special

    program = random_programs.build("float64", choices, seed)
    x = [np.asarray(a) for a in program.inputs]
    shapes = [a.shape for a in x]
    flat = np.concatenate([a.reshape(-1) for a in x])

    def f(v):
        parts, start = [], 0
        for shape in shapes:
            size = int(np.prod(shape))
            parts.append(v[start : start + size].reshape(shape))
            start += size
        return np.reshape(program(np, scipy.special, *parts), -1)

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        dense = da.jacfwd(f)(flat)
        if not np.isfinite(dense).all():
            return
        local = da.jacobian_sparsity(f, flat, scope="local")
        assert da.jacobian_sparsity(f, flat).covers(da.Sparsity(dense != 0))
        assert local.covers(da.Sparsity(dense != 0))
        for mode in ("forward", "direct", "auto"):
            found = da.sparse_jacobian(f, mode=mode)(flat)
            np.testing.assert_allclose(
                found.toarray(), dense, rtol=1e-9, atol=1e-9 * (1 + np.abs(dense).max(initial=0))
            )


def test_nan_seeding_finds_no_other_pattern() -> None:
    """A second detector: a NaN in one argument spreads to what depends on it."""
    f, x = JACOBIANS["brusselator"]
    found = np.zeros((len(x), len(x)), bool)
    for j in range(len(x)):
        seeded = x.copy()
        seeded[j] = np.nan
        found[:, j] = np.isnan(f(seeded))
    np.testing.assert_array_equal(da.jacobian_sparsity(f, x).toarray(), found)


# ── formats and trees ────────────────────────────────────────────────────────────────────────────────────────────


def test_formats() -> None:
    f = lambda x: np.diff(x) ** 2
    dense = da.jacfwd(f)(X)
    for form, kind in (("csr", ss.csr_array), ("csc", ss.csc_array), ("coo", ss.coo_array), ("dense", np.ndarray)):
        found = da.sparse_jacobian(f, format=form)(X)
        assert type(found) is kind
        close(found, dense)
    operator = da.sparse_jacobian(f, format="operator")(X)
    close(operator @ X, dense @ X)
    rows, columns, data = da.sparse_jacobian(f, format="triplets")(X)
    jac = da.sparse_jacobian(f)
    close(jac.data(X), data)
    for mine, theirs in zip(jac.structure(), (rows, columns), strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_the_structure_survives_what_users_do_to_a_result() -> None:
    jac = da.sparse_jacobian(lambda x: x**2 + np.roll(x, 1))
    first = jac(np.zeros(6))
    assert first.nnz == 12  # zeros are stored
    first.eliminate_zeros()
    first.indices[:] = 0
    close(jac(X), np.diag(2 * X) + np.roll(np.eye(6), 1, 0))


def test_trees_make_one_matrix_or_blocks() -> None:
    f = lambda p, q: {"r": p["a"] * q, "s": p["b"].sum()}
    p = {"a": X, "b": np.ones((2, 2))}
    whole = da.sparse_jacobian(f, argnums=(0, 1))(p, 2.0)
    assert whole.shape == (7, 11)
    blocks = da.sparse_jacobian(f, argnums=(0, 1), blocks=True)(p, 2.0)
    dense = da.jacfwd(f, argnums=(0, 1))(p, 2.0)
    for r in ("r", "s"):
        for k in ("a", "b"):
            block = blocks[r][0][k]
            close(block, np.reshape(dense[r][0][k], block.shape))
        close(blocks[r][1], np.reshape(dense[r][1], blocks[r][1].shape))
    row = np.concatenate(
        [
            np.concatenate([blocks[r][0]["a"].toarray(), blocks[r][0]["b"].toarray(), blocks[r][1].toarray()], 1)
            for r in ("r", "s")
        ]
    )
    close(whole, row)
    h = lambda p: np.sum(p["a"] ** 2 * p["b"][0, 0]) + np.sum(p["b"]) ** 2
    found, dense = da.sparse_hessian(h, blocks=True)(p), da.hessian(h)(p)
    for i in p:
        for j in p:
            close(found[i][j], np.reshape(dense[i][j], found[i][j].shape))


def test_values_and_auxiliary_results() -> None:
    f = lambda x, k: (np.diff(x) * k, {"sum": np.sum(x)})
    (value, aux), J = da.value_and_sparse_jacobian(f, has_aux=True)(X, 2.0)
    close(value, 2 * np.diff(X))
    assert aux["sum"] == np.sum(X)
    J, aux = da.sparse_jacobian(f, has_aux=True, argnums=1)(X, 2.0)
    close(J, np.diff(X)[:, None])
    g = lambda x: (np.sum(x**3), "aux")
    (value, aux), H = da.value_and_sparse_hessian(g, has_aux=True)(X)
    close(H, np.diag(6 * X))
    assert value == np.sum(X**3) and aux == "aux"
    value, H = da.value_and_sparse_hessian(lambda x: np.sum(x**3))(X)
    assert value == np.sum(X**3)
    assert type(da.sparse_hessian(g, has_aux=True)(X)) is tuple


@pytest.mark.parametrize("triangle", ["lower", "upper"])
def test_triangles(triangle) -> None:
    f, x = HESSIANS["springs"]
    hes = da.sparse_hessian(f, triangle=triangle)
    cut = {"lower": np.tril, "upper": np.triu}[triangle]
    close(hes(x), cut(da.hessian(f)(x)))
    rows, columns = hes.structure()
    close(hes.data(x), da.hessian(f)(x)[rows, columns])


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex128])
@pytest.mark.parametrize("mode", ["forward", "reverse", "direct"])
def test_dtypes_are_those_of_jacfwd(dtype, mode) -> None:
    x = X.astype(dtype)
    holomorphic = dtype is np.complex128
    if holomorphic:
        x = x * (1 + 0.5j)
    f = lambda x: x[1:] * np.sin(x[:-1])
    found = da.sparse_jacobian(f, mode=mode, holomorphic=holomorphic)(x)
    dense = da.jacfwd(f, holomorphic=holomorphic)(x)
    assert found.dtype == dense.dtype
    np.testing.assert_allclose(found.toarray(), dense, rtol=1e-5 if dtype is np.float32 else 1e-12)


@pytest.mark.parametrize("mode", ["auto", "forward"])
def test_real_arguments_and_complex_results(mode) -> None:
    f = lambda x: np.exp(1j * x) * x[0]
    close(da.sparse_jacobian(f, mode=mode)(X), da.jacfwd(f)(X))


@pytest.mark.parametrize("chunk_size", [1, 2, 5, 100])
def test_chunks(chunk_size) -> None:
    f, x = JACOBIANS["brusselator"]
    for mode in ("forward", "reverse"):
        close(da.sparse_jacobian(f, mode=mode, chunk_size=chunk_size)(x), da.jacfwd(f)(x))


def test_what_is_empty() -> None:
    assert da.sparse_jacobian(lambda x: x)(np.zeros(0)).shape == (0, 0)
    assert da.sparse_jacobian(lambda x: x[:0])(X).shape == (0, 6)
    for mode in ("auto", "forward", "reverse", "direct"):
        jac = da.sparse_jacobian(lambda x: np.ones(3), mode=mode, check="raise")
        assert jac(X).nnz == 0 and jac.coloring.count == 0
    close(da.sparse_hessian(lambda x: np.sum(x))(X), np.zeros((6, 6)))


# ── transforms ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("mode", ["forward", "reverse", "direct"])
def test_under_other_transforms(mode) -> None:
    f = lambda x: x[1:] ** 2 * np.sin(x[:-1])
    jac = da.sparse_jacobian(f, mode=mode)
    at = jac.prepare(X) and jac.structure()
    entries = lambda x: da.jacfwd(f)(x)[at]
    lanes = np.stack([X, X + 0.1, X[::-1]])
    close(da.vmap(jac.data)(lanes), np.stack([entries(x) for x in lanes]))
    tangent = np.cos(X)
    close(da.jvp(jac.data, (X,), (tangent,))[1], da.jvp(entries, (X,), (tangent,))[1])
    weights = np.arange(1.0, 11.0)
    close(da.grad(lambda x: np.sum(jac.data(x) * weights))(X), da.grad(lambda x: np.sum(entries(x) * weights))(X))
    close(
        da.grad(lambda x: np.sum((jac(x) @ tangent) ** 2))(X),
        da.grad(lambda x: np.sum((da.jacfwd(f)(x) @ tangent) ** 2))(X),
    )
    close(da.jacfwd(jac.data)(X), da.jacfwd(entries)(X))
    batched = da.vmap(jac)(lanes)
    assert batched.data.shape == (3, 10)


def test_a_hessian_under_other_transforms() -> None:
    f, x = HESSIANS["springs"]
    hes = da.sparse_hessian(f)
    hes.prepare(x)
    close(
        da.vmap(lambda x: hes(x) @ x)(np.stack([x, x + 0.01])), np.stack([da.hessian(f)(y) @ y for y in (x, x + 0.01)])
    )


def test_detection_under_a_transform() -> None:
    """A global pattern needs no values: it is found where there are none."""
    jac = da.sparse_jacobian(lambda x: np.diff(x) ** 3)
    close(
        da.grad(lambda x: np.sum(jac.data(x)))(X), da.grad(lambda x: np.sum(da.jacfwd(lambda x: np.diff(x) ** 3)(x)))(X)
    )


# ── the check ────────────────────────────────────────────────────────────────────────────────────────────────────


def flips(x):
    return x**2 if np.sum(x) > 0 else x * np.roll(x, 1)


@pytest.mark.parametrize("mode", ["auto", "forward", "reverse", "direct"])
def test_a_branch_that_flips_is_noticed_and_repaired(mode) -> None:
    jac = da.sparse_jacobian(flips, mode=mode)
    close(jac(X), np.diag(2 * X))
    with pytest.warns(PerformanceNote, match="the pattern did not hold here: 6 entries were missing"):
        found = jac(-X)
    close(found, da.jacfwd(flips)(-X))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        close(jac(X), np.diag(2 * X))
        close(jac(-X - 1), da.jacfwd(flips)(-X - 1))
    assert jac.sparsity.nnz == 12 and jac.sparsity.scope == "local"
    strict = da.sparse_jacobian(flips, mode=mode, check="raise")
    strict(X)
    with pytest.raises(SparsityError, match="the first one missing is row 0, column 5"):
        strict(-X)


def test_preparing_at_several_points_unites() -> None:
    jac = da.sparse_jacobian(flips, check="raise")
    jac.prepare(X)
    jac.prepare(-X)
    close(jac(-X), da.jacfwd(flips)(-X))


@pytest.mark.parametrize("missing", range(0, 10, 3))
def test_every_planted_hole_is_caught(missing) -> None:
    f = lambda x: x[1:] * x[:-1]
    S = da.jacobian_sparsity(f, X)
    rows, columns = np.delete(S.rows, missing), np.delete(S.indices, missing)
    holed = da.Sparsity(ss.csr_array((np.ones(9), (rows, columns)), shape=S.shape))
    for mode in ("auto", "forward", "reverse", "direct"):
        with pytest.raises(SparsityError, match=f"row {S.rows[missing]}, column {S.indices[missing]}"):
            da.sparse_jacobian(f, sparsity=holed, mode=mode)(X)
    found = da.sparse_jacobian(f, sparsity=np.ones((5, 6)))(X)
    close(found, da.jacfwd(f)(X))


def test_a_small_entry_that_is_missed_is_caught_too() -> None:
    f = lambda x: 1e9 * x + 1e-2 * np.roll(x, 1) * np.array([1.0, 0, 0, 0, 0, 0])
    with pytest.raises(SparsityError, match="row 0, column 5"):
        da.sparse_jacobian(f, sparsity=np.eye(6))(X)


def test_zeros_of_constants_are_relied_on_and_watched() -> None:
    mask = np.array([1.0, 0.0] * 3)
    f = lambda x: x + mask * np.roll(x, 1)
    jac = da.sparse_jacobian(f)
    assert jac(X).nnz == 9 and jac.sparsity.relies_on_constants
    compiled = da.jit(jac)
    close(compiled(X), da.jacfwd(f)(X))
    mask[1] = 2.0
    close(jac(X), da.jacfwd(f)(X))
    close(compiled(X), da.jacfwd(f)(X))


@pytest.mark.parametrize("shape", [{}, {"mode": "forward"}, {"sparsity": np.ones((6, 6))}])
def test_rounding_is_not_taken_for_a_missed_entry(shape) -> None:
    mask = np.array([1.0, 0.0] * 3)
    f = lambda x: 1e13 * x + mask * np.roll(x, 1) - 1e13 * x
    for jac in (da.sparse_jacobian(f, **shape), da.jit(da.sparse_jacobian(f, scope="global"))):
        close(jac(X), da.jacfwd(f)(X))


def test_indices_that_change_between_calls_are_followed() -> None:
    f = lambda x, i: x[i] ** 2
    jac = da.sparse_jacobian(f)
    for i in (np.array([0, 1]), np.array([4, 5]), np.array([0, 1])):
        close(jac(X, i), da.jacfwd(f)(X, i))
    assert len(jac._prepared) == 2


def test_sorting_takes_other_ways_at_other_points() -> None:
    f = lambda x: np.sort(x) ** 2
    for scope in ("global", "local"):
        jac = da.sparse_jacobian(f, scope=scope)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PerformanceNote)
            for x in (X, X[::-1].copy(), np.roll(X, 2)):
                close(jac(x), da.jacfwd(f)(x))


# ── files and words ──────────────────────────────────────────────────────────────────────────────────────────────


def test_what_was_prepared_is_saved_and_recognized(tmp_path) -> None:
    f, x = JACOBIANS["collocation"]
    file = tmp_path / "jac.npz"
    da.sparse_jacobian(f).prepare(x).save(file)
    jac = da.sparse_jacobian(f, prepared=file)
    close(jac(x + 0.5), da.jacfwd(f)(x + 0.5))
    with pytest.raises(SparsityError, match="another function or other shapes"):
        da.sparse_jacobian(lambda x: np.sin(f(x)), prepared=file)(x)
    with pytest.raises(SparsityError, match="another function or other shapes"):
        da.sparse_jacobian(f, prepared=file)(np.ones(5 + len(x)))
    hes = da.sparse_hessian(HESSIANS["springs"][0], mode="symmetric", decompression="substitution")
    hes.prepare(HESSIANS["springs"][1]).save(file)
    again = da.sparse_hessian(HESSIANS["springs"][0], prepared=file)
    close(again(HESSIANS["springs"][1]), hes(HESSIANS["springs"][1]).toarray())
    assert pickle.loads(pickle.dumps(jac.sparsity)) == jac.sparsity


def test_explain_gives_both_costs() -> None:
    f, x = springs(8)
    hes = da.sparse_hessian(f)
    with pytest.raises(ArgumentError, match="nothing has been prepared"):
        hes.explain()
    text = hes.explain(x)
    assert "global" in text and "symmetric" in text and "chosen: direct" in text


def test_a_matrix_that_is_not_sparse_is_said_to_be_so() -> None:
    with pytest.warns(PerformanceNote, match=r"40 products for a matrix of 40 x 40: dualad\.jacobian"):
        da.sparse_jacobian(lambda x: np.fft.fft(x).real)(np.ones(40))


def test_refusals() -> None:
    with pytest.raises(ShapeError, match=r"\(6, 6\), and the matrix \(5, 6\)"):
        da.sparse_jacobian(np.diff, sparsity=np.eye(6))(X)
    with pytest.raises(DtypeError, match="int64"):
        da.sparse_jacobian(lambda x: x)(np.arange(3))
    with pytest.raises(DtypeError, match="complex"):
        da.sparse_jacobian(lambda x: x)(X + 0j)
    with pytest.raises(OutputError, match="dtype int"):
        da.sparse_jacobian(lambda x: (x, np.argsort(x)))(X)
    for option, value in (("format", "bsr"), ("check", "maybe"), ("mode", "both"), ("scope", "here")):
        with pytest.raises(ArgumentError, match=f"{option}='{value}'"):
            da.sparse_jacobian(np.sin, **{option: value})
    with pytest.raises(ArgumentError, match="both sparsity and prepared"):
        da.sparse_jacobian(np.sin, sparsity=np.eye(2), prepared="x.npz")
    with pytest.raises(ArgumentError, match="triangle='diagonal'"):
        da.sparse_hessian(np.sum, triangle="diagonal")
    with pytest.raises(ArgumentError, match="chunk_size=0"):
        da.sparse_jacobian(np.sin, chunk_size=0)


def test_without_scipy_there_is_one_taught_error() -> None:
    code = """
import sys
class No:
    def find_spec(self, name, *_):
        if name.split(".")[0] == "scipy":
            raise ImportError("no scipy here")
sys.meta_path.insert(0, No())
import numpy as np
import dualad as da
from dualad import *
for use in (lambda: da.sparse_jacobian(np.sin)(np.ones(3)), lambda: da.sparse_hessian(np.sum)(np.ones(3)),
            lambda: da.jacobian_sparsity(np.sin, np.ones(3)), lambda: da.color(np.eye(3))):
    try:
        use()
    except da.errors.ArgumentError as error:
        assert "sparse derivatives need SciPy" in str(error), error
    else:
        raise AssertionError("no error")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_importing_dualad_does_not_load_scipy() -> None:
    code = "import sys, dualad; assert 'scipy' not in sys.modules and 'dualad.sparse' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.full
def test_a_million_unknowns_in_a_small_memory() -> None:
    code = """
import resource, time
import numpy as np
import scipy.optimize, scipy.sparse
import dualad as da
from tests.sparse.problems import burgers
f, x = burgers(10**6)
da.sparse_jacobian(np.sin)(np.ones(3))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
start = time.perf_counter()
S = da.jacobian_sparsity(f, x)
C = da.color(S)
assert S.nnz == 2_999_998 and C.count == 3
assert time.perf_counter() - start < 2
assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 600_000
J = da.sparse_jacobian(f, sparsity=C, check="raise")(x)
assert J.nnz == 2_999_998
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
