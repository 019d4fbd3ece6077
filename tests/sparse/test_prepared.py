"""Sparse derivatives under ``jit``: values on a fixed structure, formats, and patterns that no longer hold.

Twenty-four random programs in the gate, a thousand with ``--full``. Not for: values without ``jit``
(`test_derivatives.py`).
"""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as ss

import dualad as da
from dualad.errors import SparsityError

from .problems import arrow, brusselator, bundle, burgers, collocation, rosenbrock, springs

X = np.linspace(0.3, 1.7, 6)
#: random programs of a test, in the gate and with ``--full``
FEW, MANY = 6, 250

# ── random programs ──────────────────────────────────────────────────────────────────────────────────────────────


def moved(rng, v):
    """Return a random map of a vector that reads few entries for each of its own."""
    n = v.shape[0]
    kind, k = rng.integers(8), int(rng.integers(1, n))
    where, weights = rng.integers(0, n, n), rng.uniform(0.5, 1.5, n)
    return [
        lambda v: np.roll(v, k),
        lambda v: np.concatenate([v[k:], np.zeros(k)]),
        lambda v: v[where] * weights,
        lambda v: v[::-1] + v,
        lambda v: np.where(weights > 1, v, np.roll(v, 1)),
        lambda v: np.stack([v, weights * v], axis=1).reshape(-1)[:n],
        lambda v: weights * v,
        lambda v: np.concatenate([v[::2], v[1::2]]),
    ][kind]


def random_program(seed):
    """Return a function of a vector of a few numbers, and a point."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 9))
    steps = []
    for _ in range(rng.integers(1, 6)):
        one, other = moved(rng, np.zeros(n)), moved(rng, np.zeros(n))
        kind = rng.integers(6)
        steps.append([
            lambda v, a=one, b=other: a(v) * b(v),
            lambda v, a=one, b=other: a(v) + np.sin(b(v)),
            lambda v, a=one: a(v) ** 2,
            lambda v, a=one, b=other: a(v) / (2.0 + np.cos(b(v))),
            lambda v, a=one, b=other: a(v) - 0.3 * b(v),
            lambda v, a=one: np.concatenate([a(v)[:-1], np.sum(a(v)).reshape(1) * 0.2]),
        ][kind])  # fmt: skip

    def f(x):
        v = x
        for step in steps:
            v = np.tanh(step(v))
        return v[: int(n - seed % 2)]

    return f, rng.normal(size=n)


@pytest.mark.parametrize("chunk", range(4))
def test_random_programs(chunk, request) -> None:
    count = MANY if request.config.getoption("--full") else FEW
    for seed in range(chunk * count, (chunk + 1) * count):
        f, x = random_program(seed)
        jac = da.sparse_jacobian(f, mode=("auto", "direct", "forward", "reverse")[seed % 4])
        hes = da.sparse_hessian(lambda x, f=f: np.sum(f(x) ** 3), mode=("auto", "direct")[seed % 2])
        probe = np.random.default_rng(seed).normal(size=x.size)
        for compiled, eager in ((da.jit(jac), da.jacrev(f)), (da.jit(hes), da.hessian(hes.__wrapped__))):
            for point in (x, x[::-1] + 0.1):
                found, dense = compiled(point), eager(point)
                assert type(found) is ss.csr_array
                np.testing.assert_allclose(found.toarray(), dense, rtol=1e-9, atol=1e-10, err_msg=f"seed {seed}")
                np.testing.assert_allclose(found @ probe, dense @ probe, rtol=1e-9, atol=1e-9)


# ── the benchmarks' problems ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("mode", ["auto", "forward", "direct"])
@pytest.mark.parametrize("problem", [burgers(12), brusselator(4), bundle(3, 5, 20), collocation(9)])
def test_jacobians(problem, mode) -> None:
    f, x = problem
    jac = da.sparse_jacobian(f, mode=mode)
    compiled, entries = da.jit(jac), da.jit(jac.data)
    for point in (x, x + 0.1):
        np.testing.assert_allclose(compiled(point).toarray(), da.jacfwd(f)(point), rtol=1e-10, atol=1e-11)
        rows, columns = jac.structure()
        np.testing.assert_array_equal(compiled(point).toarray()[rows, columns], entries(point))


@pytest.mark.parametrize("problem", [rosenbrock(9), arrow(8), springs(3)])
def test_hessians(problem) -> None:
    f, x = problem
    compiled = da.jit(da.value_and_sparse_hessian(f))
    for point in (x, x + 0.1):
        value, found = compiled(point)
        np.testing.assert_allclose(value, f(point), rtol=1e-14)
        np.testing.assert_allclose(found.toarray(), da.hessian(f)(point), rtol=1e-10, atol=1e-11)


def test_values_beside_a_jacobian() -> None:
    value, J = da.jit(da.value_and_sparse_jacobian(lambda x: np.diff(x) ** 2))(X)
    np.testing.assert_array_equal(value, np.diff(X) ** 2)
    np.testing.assert_allclose(J.toarray(), da.jacfwd(lambda x: np.diff(x) ** 2)(X))


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "dense"])
def test_a_compiled_matrix_has_the_format_asked_for(form) -> None:
    jac = da.sparse_jacobian(lambda x: np.diff(x) ** 2, format=form)
    found, expected = da.jit(jac)(X), jac(X)
    assert type(found) is type(expected)
    np.testing.assert_array_equal(
        *[m if form == "dense" else m.toarray() for m in (found, expected)],
    )
    if form != "dense":
        np.testing.assert_array_equal(found.data, expected.data)


def test_what_users_do_to_a_result_changes_no_other() -> None:
    jac = da.sparse_jacobian(lambda x: 3.0 * x, mode="direct")
    for call in (jac, jac, da.jit(jac)):
        found = call(X)
        found.data[:], found.indices[:] = 0, 0
        np.testing.assert_array_equal(call(X).toarray(), 3.0 * np.eye(6))


def test_empty_rows_and_no_rows() -> None:
    for f in (lambda x: x[:0], lambda x: np.zeros(4) + 0.0 * x[0], lambda x: np.concatenate([x[:2], np.ones(2)])):
        np.testing.assert_array_equal(da.jit(da.sparse_jacobian(f))(X).toarray(), da.jacfwd(f)(X))


# ── patterns that do not hold ────────────────────────────────────────────────────────────────────────────────────


def test_a_given_pattern_that_misses_entries_is_noticed() -> None:
    f = lambda x: x * np.roll(x, 1)
    jac = da.sparse_jacobian(f, sparsity=np.eye(6, dtype=bool))
    for call in (lambda: da.jit(jac)(X), lambda: da.jit(jac.data)(X), lambda: da.vmap(jac.data)(np.stack([X, X]))):
        with pytest.raises(SparsityError, match="outside of its pattern"):
            call()
    whole = da.jacobian_sparsity(f, X)
    np.testing.assert_allclose(da.jit(da.sparse_jacobian(f, sparsity=whole))(X).toarray(), da.jacfwd(f)(X))


def test_a_pattern_that_changes_at_another_point_is_noticed() -> None:
    S = da.Sparsity(np.eye(6, dtype=bool))
    compiled = da.jit(da.sparse_jacobian(lambda x: x**2 + np.maximum(np.roll(x, 1), 0.0), sparsity=S))
    np.testing.assert_allclose(compiled(-X).diagonal(), -2 * X)
    with pytest.raises(SparsityError, match="outside of its pattern"):
        compiled(X)


def test_a_checked_matrix_of_constants() -> None:
    jac = da.sparse_jacobian(lambda x: 2.0 * x, mode="direct", check="raise")
    np.testing.assert_array_equal(da.jit(jac)(X).toarray(), 2.0 * np.eye(6))


def test_what_the_function_reads_changes_the_structure() -> None:
    order = np.arange(6)
    compiled = da.jit(da.sparse_jacobian(lambda x: x[order] ** 2))
    for _ in range(2):
        np.testing.assert_allclose(compiled(X).toarray(), da.jacfwd(lambda x: x[order] ** 2)(X))
        order[:] = order[::-1].copy()
