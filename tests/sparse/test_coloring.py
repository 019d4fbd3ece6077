"""Colourings against a checker of their own, with counts; fallbacks; what is refused.

Not for: patterns (`test_detect.py`) or values (`test_derivatives.py`).
"""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as ss
from hypothesis import given, settings
from hypothesis import strategies as st

import dualad as da
from dualad.errors import ArgumentError, ArgumentTypeError, SparsityError
from dualad.sparse import coloring, greedy

from .problems import arrow, brusselator, bundle, burgers, collocation, rosenbrock, springs, tells_all


@settings(max_examples=30)
@given(
    st.integers(0, 12), st.integers(0, 12), st.floats(0, 0.6), st.integers(0, 10**6),
    st.sampled_from(["auto", "forward", "reverse", "bidirectional"]),
    st.sampled_from(["auto", "natural", "largest_first"]),
)  # fmt: skip
def test_random_patterns_can_be_told(m, n, share, seed, mode, order) -> None:
    rng = np.random.default_rng(seed)
    pattern = rng.uniform(size=(m, n)) < share
    if m and n:
        pattern[rng.integers(m)] |= rng.uniform(size=n) < 0.8  # a dense row
    C = da.color(pattern, mode, order)
    assert tells_all(C)
    if mode == "forward":
        assert C.count >= C.lower_bound and C.reverse == 0


@settings(max_examples=30)
@given(st.integers(0, 14), st.floats(0, 0.5), st.integers(0, 10**6), st.sampled_from(["direct", "substitution"]))
def test_random_symmetric_patterns_can_be_told(n, share, seed, decompression) -> None:
    pattern = np.random.default_rng(seed).uniform(size=(n, n)) < share
    C = da.color(pattern | pattern.T, "symmetric", decompression=decompression)
    assert tells_all(C)


@pytest.mark.parametrize("decompression", ["direct", "substitution"])
def test_any_order_is_the_better_one(decompression) -> None:
    rng, fewer = np.random.default_rng(0), set[int]()
    hubs = np.eye(203, dtype=bool)
    hubs[200:] = hubs[:, 200:] = True
    for pattern in (hubs, *[rng.uniform(size=(n, n)) < 3 / n for n in (60, 120, 180)]):
        natural, largest, best = [
            da.color(pattern | pattern.T, "symmetric", order, decompression)
            for order in ("natural", "largest_first", "auto")
        ]
        assert best.count <= min(natural.count, largest.count) and tells_all(best)
        fewer.add(natural.count - largest.count)
    assert fewer != {0}


@pytest.mark.parametrize("compiled", [True, False])
def test_counts_of_the_standard_problems(compiled, monkeypatch) -> None:
    if not compiled:
        monkeypatch.setattr(greedy, "_compiled_kernel", lambda: None)
        for module in (greedy, coloring):
            monkeypatch.setattr(module, "has_compiler", lambda: False)
    elif greedy._compiled_kernel() is None:
        pytest.fail("SciPy's kernel `scipy.optimize._group_columns.group_sparse` is gone: change greedy.py")
    for (f, x), count in ((burgers(60), 3), (brusselator(8), 12), (bundle(5, 40, 200), 12)):
        C = da.color(da.jacobian_sparsity(f, x))
        assert C.lower_bound <= C.forward <= count and not C.reverse and tells_all(C)
    C = da.color(da.jacobian_sparsity(*collocation(50)))
    assert (C.forward, C.reverse) == (5, 1) and tells_all(C)
    for (f, x), count in ((rosenbrock(30), 3), (springs(6), 16), (arrow(40), 2)):
        C = da.color(da.hessian_sparsity(f, x), "symmetric")
        assert C.count <= count and tells_all(C)
    for (f, x), count in ((rosenbrock(30), 2), (springs(6), 8)):
        C = da.color(da.hessian_sparsity(f, x), "symmetric", decompression="substitution")
        assert C.count <= count and tells_all(C)


def test_stars_by_sets_are_those_of_the_loops_over_paths() -> None:
    """The loops are what Numba compiles."""
    rng = np.random.default_rng(5)
    for k in range(150):
        n = int(rng.integers(1, 50))
        pattern = rng.uniform(size=(n, n)) < rng.uniform(0, 6) / n
        pattern[:, : k % 3] |= rng.uniform(size=(n, 1)) < 0.6  # hubs
        A = ss.csr_array(pattern | pattern.T | (np.eye(n, dtype=bool) if k % 2 else False))
        given = A.indptr.tolist(), A.indices.tolist(), rng.permutation(n).tolist()
        assert greedy._star_by_sets(*given) == greedy.star.__wrapped__(*given)


def test_small_patterns_do_not_ask_for_numba(monkeypatch) -> None:
    def loaded():
        raise AssertionError("loading Numba takes longer than these colourings in Python")

    for module in (greedy, coloring):
        monkeypatch.setattr(module, "has_compiler", loaded)
    for mode in ("symmetric", "bidirectional"):
        assert tells_all(da.color(da.hessian_sparsity(*springs(6)), mode))
    with pytest.raises(AssertionError, match="Numba"):
        da.color(da.hessian_sparsity(*springs(101)), "symmetric")


def test_a_dense_row_is_left_to_reverse_mode() -> None:
    pattern = ss.eye_array(30, format="lil", dtype=bool)
    pattern[4] = True
    C = da.color(pattern.tocsr())
    assert (C.forward, C.reverse, C.mode) == (1, 1, "bidirectional") and "1 dense row left" in C.explain()
    R = da.color(pattern.tocsr().T)
    assert R.count <= 3 and tells_all(R)


def test_a_chain_by_substitution_is_accurate() -> None:
    """One tree of two thousand entries: each is found from the one before."""
    n = 2000
    C = da.color(
        ss.diags_array([1.0, 1.0, 1.0], offsets=[-1, 0, 1], shape=(n, n)), "symmetric", decompression="substitution"
    )
    assert C.count == 2
    hessian = da.sparse_hessian(lambda x: np.sum(np.sin(x[1:] * x[:-1])), sparsity=C)
    x = np.linspace(0.2, 2.0, n)
    np.testing.assert_allclose(
        hessian(x).toarray(), da.sparse_hessian(lambda x: np.sum(np.sin(x[1:] * x[:-1])))(x).toarray(), atol=1e-10
    )


def test_hubs_are_not_quadratic() -> None:
    """With a dense row of n entries greedy colouring alone would take n² steps."""
    f, x = arrow(200_000)
    C = da.color(da.hessian_sparsity(f, x), "symmetric")
    assert C.count == 2


def test_a_wrong_colouring_is_refused() -> None:
    S = da.Sparsity(np.ones((2, 3)))
    with pytest.raises(SparsityError, match=r"does not tell entry \(0, 0\)"):
        da.Coloring(S, "forward", np.array([0, 0, 1]), np.full(2, -1), "by hand")
    with pytest.raises(SparsityError, match="not symmetric"):
        da.color(np.triu(np.ones((3, 3))), "symmetric")
    ring = np.eye(4, dtype=bool) | np.roll(np.eye(4, dtype=bool), 1, 0) | np.roll(np.eye(4, dtype=bool), -1, 0)
    S = da.Sparsity(ring)
    with pytest.raises(SparsityError, match="not acyclic"):
        coloring.Substitution(S, np.array([0, 1, 0, 1]), coloring._transposed(S))


def test_bad_input_is_refused() -> None:
    with pytest.raises(ArgumentError, match="mode='rows'"):
        da.color(np.eye(2), "rows")
    with pytest.raises(ArgumentError, match="without mode='symmetric'"):
        da.color(np.eye(2), decompression="substitution")
    with pytest.raises(ArgumentTypeError, match="pattern is str"):
        da.color("eye")


def test_the_lower_bound_is_the_fullest_row() -> None:
    """Entries of one row can't share a product, so a colouring of columns needs as many as the fullest row has."""
    pattern = da.jacobian_sparsity(lambda x: np.concatenate([x[:1] * x[1:], np.sum(x[:4]).reshape(1)]), np.ones(9))
    found = da.color(pattern)
    assert found.lower_bound == 4 and found.count <= 4
