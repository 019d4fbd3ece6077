"""Patterns of whole functions: global against local against dense, what is refused, what is said.

Not for: single operators (`test_walk.py`).
"""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as ss

import dualad as da
from dualad.errors import ArgumentError, BranchError, PerformanceNote, ShapeError, SparsityError
from dualad.sparse import rows

from .problems import arrow, brusselator, bundle, burgers, collocation, rosenbrock, springs

X = np.linspace(0.3, 1.7, 6)

JACOBIANS = {
    "burgers": burgers(12), "brusselator": brusselator(4), "bundle": bundle(3, 5, 20), "collocation": collocation(9),
}  # fmt: skip
HESSIANS = {"rosenbrock": rosenbrock(9), "arrow": arrow(8), "springs": springs(3)}


@pytest.mark.parametrize("name", JACOBIANS)
def test_standard_jacobians_are_tight(name) -> None:
    f, x = JACOBIANS[name]
    S = da.jacobian_sparsity(f, x)
    assert S.scope == "global" and not S.dense_operators
    dense = sum(abs(da.jacfwd(f)(x + 0.1 * k)) for k in range(3)) != 0
    np.testing.assert_array_equal(S.toarray(), dense)
    assert S.covers(da.jacobian_sparsity(f, x, scope="local"))


@pytest.mark.parametrize("name", HESSIANS)
def test_standard_hessians_are_tight(name) -> None:
    f, x = HESSIANS[name]
    S = da.hessian_sparsity(f, x)
    assert S.scope == "global" and not S.dense_operators and S == S.T
    np.testing.assert_array_equal(S.toarray(), da.hessian(f)(x) != 0)


def in_place(x):
    y = np.zeros_like(x)
    for i in range(1, len(x)):
        y[i] = x[i] * y[i - 1] if i % 2 else x[i]
    return y


def scanned(x):
    return da.scan(lambda c, row: (c * row, c + row), x[0], x[1:])[1]


def not_carried(x):
    return da.scan(lambda c, row: (c, row**2), 0.0, x)[1]


def looped(x):
    return da.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, np.roll(c[1], 1) * c[1]), (0, x))[1]


def branching(x):
    return da.cond(np.sum(x) > 0, lambda x: x**2, lambda x: x * x[0], x)


SHAPES_OF_CODE = {
    "in place": in_place, "scan": scanned, "scan without carry": not_carried, "while loop": looped, "cond": branching,
    "sort": lambda x: np.sort(x) * x, "interp": lambda x: np.interp(x, [0.0, 1.0, 2.0], [0.0, 1.0, 4.0]),
    "where": lambda x: np.where(x > 1, x**2, x[0]), "maximum": lambda x: np.maximum(x[1:], x[:-1]),
    "cumsum": np.cumsum, "cumprod": np.cumprod, "fft": lambda x: np.abs(np.fft.fft(x)),
    "solve": lambda x: np.linalg.solve(np.eye(3) + np.diag(x[:3]), x[3:]), "norm": lambda x: x / np.linalg.norm(x),
    "matmul": lambda x: (np.eye(6)[1:] * 2) @ x, "matrix": lambda x: np.diff(np.eye(6), axis=0) @ np.sin(x),
    "einsum": lambda x: np.einsum("ij,j->i", x.reshape(2, 3), x[:3]), "diagonal": lambda x: np.diag(x) @ np.ones(6),
    "convolve": lambda x: np.convolve(x, [1.0, 0.0, -1.0], "same"), "reduce": lambda x: x.reshape(2, 3).sum(0) ** 2,
    "extremum": lambda x: x.reshape(3, 2).max(1), "nothing": lambda x: np.ones(3), "one": lambda x: np.sum(x),
    "empty": lambda x: x[:0], "gather": lambda x: x[np.array([5, 0, 0])] ** 2, "broadcast": lambda x: x[:2, None] * x,
    "jit": da.jit(lambda x: x[1:] * x[:-1]),
    "dict": lambda x: {"a": x[:2], "b": (x[2] ** 2, np.roll(x, 2))},
}  # fmt: skip


@pytest.mark.parametrize("name", SHAPES_OF_CODE)
def test_every_shape_of_code_is_covered(name) -> None:
    f = SHAPES_OF_CODE[name]
    flat = lambda x: np.concatenate([np.reshape(y, -1) for y in da.tree.flatten(f(x))[0]])
    S, local = da.jacobian_sparsity(f, X), da.jacobian_sparsity(f, X, scope="local")
    assert S.scope == "global" and local.scope == "local"
    for x in (X, X[::-1].copy(), X + 1.0):
        dense = da.jacfwd(flat)(x) != 0
        assert not (dense & ~S.toarray()).any()
    assert not ((da.jacfwd(flat)(X) != 0) & ~local.toarray()).any()
    assert S.covers(local)


TIGHT = {"in place": 7, "where": 11, "maximum": 10, "matrix": 10, "convolve": 10, "gather": 3, "nothing": 0, "empty": 0,
         "scan without carry": 6, "diagonal": 6, "jit": 10, "matmul": 5, "reduce": 6}  # fmt: skip


@pytest.mark.parametrize("name", TIGHT)
def test_patterns_are_as_tight_as_they_can_be(name) -> None:
    assert da.jacobian_sparsity(SHAPES_OF_CODE[name], X).nnz == TIGHT[name]


def test_a_branch_makes_the_pattern_local_and_it_says_where() -> None:
    def f(x):
        return x**2 if x[0] > 0 else x * x[0]

    S = da.jacobian_sparsity(f, X)
    assert S.scope == "local" and S.reason.startswith("local: branch at ") and "test_detect.py:" in S.reason
    assert S.nnz == 6
    with pytest.raises(BranchError):
        da.jacobian_sparsity(f, X, scope="global")
    assert (S | da.jacobian_sparsity(f, -X)).nnz == 11


def test_a_mask_makes_the_pattern_local() -> None:
    S = da.jacobian_sparsity(lambda x: x[x > 1.0] ** 2, X)
    assert S.scope == "local" and "mask" in S.reason and S.shape == (3, 6)


def test_numbers_among_other_arguments_are_unknown() -> None:
    """A time of 0, or a mask passed as an argument, may be another one at the next call."""
    f = lambda t, y, mask: t * np.roll(y, 1) + mask * y
    S = da.jacobian_sparsity(f, 0.0, X, np.array([0.0, 1.0] * 3), argnums=1)
    assert S.nnz == 12 and not S.relies_on_constants
    constant = np.array([0.0, 1.0] * 3)
    S = da.jacobian_sparsity(lambda y: constant * y, X)
    assert S.nnz == 3 and S.relies_on_constants


def test_an_operator_without_a_rule_is_named_with_its_line() -> None:
    mixed = lambda residuals, vectors: vectors[::-1] * residuals
    S = da.jacobian_sparsity(lambda x: da.linear_call(mixed, mixed, np.ones(6), x), X)
    assert S.nnz == 36
    assert any("test_detect.py:" in name for name in S.dense_operators), S.dense_operators


@pytest.mark.parametrize("shared", [256, 65_536])
def test_counts_never_wrap_around(shared) -> None:
    """An int8 product of 256 shared indices is zero, and SciPy drops it."""
    S = da.jacobian_sparsity(lambda x: np.stack([np.sum(x), np.sum(x**2)]), np.ones(shared))
    assert S.nnz == 2 * shared
    matrix = rows.pattern(np.zeros(shared, np.int32), np.arange(shared + 1), (shared, 1))
    union, _, starts = rows.collect(matrix, np.zeros(shared, int), 1)
    assert union.nnz == 1 and len(starts) == 1
    H = da.hessian_sparsity(lambda x: np.sum(x) ** 2, np.ones(300))
    assert H.nnz == 300 * 300


def test_what_is_too_dense_is_said_and_never_held() -> None:
    f = lambda x: np.cumsum(np.cumsum(x))
    with pytest.warns(PerformanceNote, match=r"taken as full.*`cumsum` at .*test_detect\.py"):
        S = da.jacobian_sparsity(f, np.ones(2000))
    assert S.nnz == 4_000_000
    with pytest.raises(SparsityError, match=r"too dense to be held.*`cumsum`"):
        da.jacobian_sparsity(f, np.ones(100_000))
    with pytest.raises(SparsityError, match="too dense"):
        da.jacobian_sparsity(f, np.ones(3000), max_memory=100_000)


def test_trees_of_arguments_and_results() -> None:
    f = lambda p, q: {"r": p["a"] * q, "s": p["b"].sum()}
    S = da.jacobian_sparsity(f, {"a": X, "b": np.ones((2, 2))}, 2.0, argnums=(0, 1))
    assert S.shape == (7, 11)
    expected = np.zeros((7, 11), bool)
    expected[:6, :6], expected[:6, 10], expected[6, 6:10] = np.eye(6), True, True
    np.testing.assert_array_equal(S.toarray(), expected)


def test_sparsity_is_saved_compared_and_united(tmp_path) -> None:
    S = da.jacobian_sparsity(lambda x: np.diff(x), X)
    S.save(tmp_path / "s.npz")
    again = da.Sparsity.load(tmp_path / "s.npz")
    assert again == S and again.scope == "global" and repr(again) == repr(S)
    other = da.Sparsity(np.eye(5, 6))
    assert other.scope == "given" and S != other and S.covers(other) and (S | other) == S and not other.covers(S)
    assert ss.issparse(S.to_scipy()) and S.T.shape == (6, 5)
    with pytest.raises(ShapeError, match=r"\(5, 6\) and \(6, 6\)"):
        S | da.Sparsity(np.eye(6))


def test_empty_shapes() -> None:
    assert da.jacobian_sparsity(lambda x: x, np.zeros(0)).shape == (0, 0)
    assert da.jacobian_sparsity(lambda x: np.zeros(3), np.zeros(0)).shape == (3, 0)
    assert da.jacobian_sparsity(lambda x: x[:0], X).shape == (0, 6)
    assert da.jacobian_sparsity(lambda x: {}, X).shape == (0, 6)


def test_bad_scope_is_refused() -> None:
    with pytest.raises(ArgumentError, match="scope='everywhere'"):
        da.jacobian_sparsity(np.sin, X, scope="everywhere")
