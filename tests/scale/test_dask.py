"""Operators on Dask's arrays in blocks: what is computed block by block, as one task, by Dask itself, or refused.

The oracle is the operator on NumPy's arrays. Not for: everyday functions and derivatives
(``tests/edges/test_other_arrays.py``).
"""

from __future__ import annotations

import numpy as np
import pytest

import dualad as da
import dualad.ops.special
from dualad.core.libraries import is_lazy, refuse_lazy
from dualad.core.tables import OPS
from dualad.errors import UnsupportedError

dask = pytest.importorskip("dask", reason="Dask is not installed: the extra dualad[scale]")
lazy = pytest.importorskip("dask.array", reason="Dask is not installed: the extra dualad[scale]").from_array

RNG = np.random.default_rng(0)
V, M = RNG.normal(size=4) + 2.0, RNG.normal(size=(3, 4)) + 2.0
SQUARE = RNG.normal(size=(4, 4)) + 4 * np.eye(4)
STACK = RNG.normal(size=(5, 3, 3)) + 4 * np.eye(3)


def both(name: str, lazily, plainly, /, **params) -> list:
    """Return the lazy results of an operator, each beside the one of NumPy's arrays; compare them."""
    found, wanted = OPS[name](*lazily, **params), OPS[name](*plainly, **params)
    pairs = list(zip(found, wanted, strict=True)) if isinstance(wanted, tuple) else [(found, wanted)]
    for got, want in pairs:
        assert is_lazy(got) and (got.shape, got.dtype) == (want.shape, want.dtype)
        computed = got.compute(scheduler="synchronous")
        assert computed.shape == want.shape
        np.testing.assert_allclose(computed, want, rtol=1e-10, atol=1e-12)
    return [got for got, _ in pairs]


def test_entry_by_entry_the_blocks_stay_as_they_are():
    (found,) = both("sinc", [lazy(M, chunks=(2, 3))], [M], order=0)
    assert found.chunks == ((2, 1), (3, 1))
    (found,) = both("sinc", [lazy(np.stack([M, M]), chunks=(1, 2, 3))], [np.stack([M, M])], order=1)
    assert found.numblocks == (2, 2, 2)
    both("sinc", [lazy(np.asarray(0.3), chunks=())], [np.asarray(0.3)], order=0)


def test_entry_by_entry_with_numbers_and_arrays_of_fewer_axes():
    for q in (2.0, np.float64(2.0), np.array(2.0), V, lazy(V, chunks=3)):
        wanted = V if is_lazy(q) else q
        (found,) = both("zeta_derivative", [lazy(M, chunks=(2, 3)), q], [M, wanted], order=1)
        assert found.numblocks == (2, 2)
    both("zeta_derivative", [M[:, :1], lazy(V, chunks=2)], [M[:, :1], V], order=1)


def test_what_needs_all_values_takes_one_block():
    (found,) = both("sort", [lazy(M, chunks=-1)], [M], axis=0)
    assert found.npartitions == 1
    with pytest.raises(UnsupportedError, match="`sort` met a lazy array in 4 blocks") as caught:
        OPS["sort"](lazy(M, chunks=2), axis=0)
    assert "rechunk(-1)" in caught.value.instead
    both("searchsorted", [np.sort(V), lazy(V, chunks=-1)], [np.sort(V), V], side="left")
    with pytest.raises(UnsupportedError, match="2 blocks"):  # by the largest: a small array beside it says nothing
        OPS["searchsorted"](lazy(np.sort(V)[:2], chunks=-1), lazy(V, chunks=2), side="left")


def test_one_matrix_is_dasks_own():
    (found,) = both("inv", [lazy(SQUARE, chunks=2)], [SQUARE])
    assert found.numblocks == (2, 2)
    with pytest.raises(UnsupportedError, match="`eigvalsh` met a lazy array in 4 blocks"):
        OPS["eigvalsh"](lazy(SQUARE, chunks=2), uplo="L")


@pytest.mark.parametrize(("name", "params"), [("inv", {}), ("det", {}), ("eigh", {"uplo": "L"}), ("svd", {})])
@pytest.mark.parametrize("rows", [5, 4, 2, 1])
def test_a_stack_is_cut_along_its_first_axis(name, params, rows):
    for got in both(name, [lazy(STACK, chunks=(rows, 3, 3))], [STACK], **params):
        assert got.chunks[0] == lazy(STACK, chunks=(rows, 3, 3)).chunks[0]


def test_a_stack_beside_a_plain_one_and_beside_one_matrix():
    right = RNG.normal(size=(5, 3, 2))
    cut = lazy(STACK, chunks=(2, 3, 3))
    both("solve", [cut, right], [STACK, right])
    both("solve", [STACK, lazy(right, chunks=(2, 3, 2))], [STACK, right])
    both("solve", [cut, lazy(right[:1], chunks=-1)], [STACK, right[:1]])
    both("solve", [lazy(STACK[:1], chunks=-1), lazy(right, chunks=(2, 3, 2))], [STACK[:1], right])
    both("lyapunov", [cut, lazy(STACK[0], chunks=-1)], [STACK, STACK[0]], pole=0.0)
    both("lyapunov", [cut, STACK[0]], [STACK, STACK[0]], pole=0.0)
    deep = np.stack([STACK, 2 * STACK])
    both("det", [lazy(deep, chunks=(1, 5, 3, 3))], [deep])


@pytest.mark.parametrize("chunks", [(2, 2, 3), (2, 3, 2), (5, 1, 3)])
def test_a_stack_of_matrices_that_are_cut_is_refused(chunks):
    with pytest.raises(UnsupportedError, match=r"`det` met a lazy array in \d blocks"):
        OPS["det"](lazy(STACK, chunks=chunks))
    with pytest.raises(UnsupportedError, match="blocks"):
        OPS["lyapunov"](lazy(STACK, chunks=(2, 3, 3)), lazy(STACK[0], chunks=(1, 3)), pole=0.0)


def test_a_choice_by_values_that_are_not_there_is_refused():
    with pytest.raises(
        UnsupportedError, match=r"a test depends on the values of a lazy array of shape \(4,\)"
    ) as caught:
        refuse_lazy(lazy(V, chunks=2), "a test", "think, then ")
    assert caught.value.instead.startswith("think, then compute it first")
    refuse_lazy(V, "a test")
    with pytest.raises(UnsupportedError, match="a test"):
        da.jvp(lambda x: refuse_lazy(x, "a test"), (lazy(V, chunks=2),), (lazy(V, chunks=2),))
