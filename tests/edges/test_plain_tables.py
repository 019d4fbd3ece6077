"""Plain arrays from outside of a function that traced integers and masks read: every lane reads its own entries.

The oracle is the plain function in a loop over lanes. ``jit`` reads them too, but for masks and methods, of which it
says what to write. Not for: the
arguments of a transform, which take all lanes at once (``test_plain_arguments.py``).
"""

import itertools
import warnings

import numpy as np
import pytest

import dualad as da
from dualad.errors import DualadError

A = np.arange(60.0).reshape(3, 4, 5) ** 1.1
TABLES = {
    "float64": A,
    "float32": A.astype(np.float32),
    "integers": (10 * A).astype(int),
    "complex": A + 1j * A[::-1],
    "a view": A[::-1, :, ::2],
    "read-only": np.broadcast_to(A[:1], (3, 4, 5)),
}
READS = {
    "T[i]": lambda T, i: T[i],
    "T[i, 1]": lambda T, i: T[i, 1],
    "T[1, i]": lambda T, i: T[1, i],
    "T[:, i, 0]": lambda T, i: T[:, i, 0],
    "T[..., i]": lambda T, i: T[..., i],
    "T[i, None]": lambda T, i: T[i, None],
    "T[i, i]": lambda T, i: T[i, i],
    "T[-i]": lambda T, i: T[-i],
    "T[i][..., i]": lambda T, i: T[i][..., i],
    "T[[[i, 0]]]": lambda T, i: T[np.stack([i, 0 * i])],
    "take": lambda T, i: np.take(T, i),
    "take along": lambda T, i: np.take(T, i, axis=1),
    "take of a list": lambda T, i: np.take([0.5, 1.5, 2.5], i),
    "T.take": lambda T, i: T.take(i, axis=-1),
    "T.take(mode)": lambda T, i: T.take(i + 7, mode="wrap"),
    "T[i > 0]": lambda T, i: np.sum(T[np.broadcast_to(i > 0, i.shape or 3) if i.shape in ((), (3,)) else 1]),
    "a list": lambda T, i: np.float64([1.5, 2.5, 3.5][i]) if i.shape == () else T[i],
}
INDICES = {
    "scalars": np.array([0, 2, 2, 1, 0]),
    "int8": np.array([1, 0, 2], np.int8),
    "vectors": np.array([[0, 1, 2], [2, 2, 1], [0, 1, 2]]),
    "unsigned": np.array([[[1, 0]], [[2, 2]]], np.uint16),
    "one lane": np.array([2]),
}
CASES = list(itertools.product(TABLES, READS, INDICES))


def _same(found, expected):
    assert found.dtype == expected.dtype and found.shape == expected.shape
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("read", READS)
@pytest.mark.filterwarnings("ignore::dualad.errors.PerformanceNote")
def test_every_lane_reads_its_own_entries(read):
    refused = 0
    for table, index in itertools.product(TABLES, INDICES):
        T, every, f = TABLES[table], INDICES[index], READS[read]
        if (read, index) == ("T[-i]", "unsigned"):  # minus an unsigned integer is a large one
            continue
        expected = np.array([f(T, i) for i in every])
        _same(da.vmap(lambda i, T=T, f=f: f(T, i))(every), expected)
        x = np.linspace(0.5, 1.5, len(every))
        slope = da.vmap(da.grad(lambda x, i, T=T, f=f: np.sum(x**2 * np.abs(f(T, i)).astype(float))))(x, every)
        weights = np.array([np.sum(np.abs(f(T, i)).astype(float)) for i in every])
        np.testing.assert_allclose(slope, 2 * x * weights, rtol=1e-6)
        together = lambda x, T=T, f=f, every=every: np.sum(
            da.vmap(lambda x, i: x**2 * np.abs(f(T, i)).astype(float))(x, every)
        )
        if np.ndim(expected) == 1:
            np.testing.assert_allclose(da.grad(together)(x), 2 * x * weights, rtol=1e-6)
        for i, e in zip(every[:1], expected, strict=False):
            said = []
            try:
                _same(np.asarray(da.jit(lambda i, T=T, f=f: f(T, i))(i)), np.asarray(e))
            except DualadError as error:
                said = [error.instead]
            assert all("np.asarray(array, like=x)[x]" in text for text in said)
            refused += len(said)
    assert (refused > 0) == (read in ("T.take", "T.take(mode)", "T[i > 0]"))


def test_an_index_that_was_computed():
    x = np.array([[3.0, 1.0, 2.0], [0.5, 2.0, 4.0]])
    f = lambda x: A[0, np.argmin(x), 1] * x[0] ** 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        slope = da.vmap(da.grad(f))(x)
    np.testing.assert_allclose(slope, [[2 * A[0, 1, 1] * 3.0, 0, 0], [2 * A[0, 0, 1] * 0.5, 0, 0]])


def test_a_function_that_agrees_runs_once():
    runs = []

    def f(x):
        runs.append(1)
        return A[0, 0, np.argmin(x)] * x

    da.vmap(f)(np.array([[1.0, 2.0], [3.0, 5.0]]))
    assert len(runs) == 1


def whole(table, i):
    table[:] = i


def entry(table, i):
    table[0] = i


@pytest.mark.parametrize("write", [whole, entry])
@pytest.mark.parametrize("transform", [da.vmap, da.jit])
def test_what_is_written_into_them_is_refused(write, transform):
    table = np.zeros(3, int)
    with pytest.raises(DualadError, match="plain array"):
        transform(lambda i: write(table, i) or i)(np.array([1, 2]) if transform is da.vmap else 2)
    assert table.tolist() == [0, 0, 0]


@pytest.mark.filterwarnings("ignore::dualad.errors.PerformanceNote")
def test_a_table_of_the_functions_own_takes_an_index_for_a_write():
    def f(i):
        table = np.arange(4.0)
        table[i] = 9.0
        return table

    _same(da.vmap(f)(np.array([0, 3, 3])), np.array([f(0), f(3), f(3)]))


def test_too_many_groups_say_what_to_write():
    with pytest.raises(DualadError, match="max_splits") as caught:
        da.vmap(lambda i: A.ravel()[i], max_splits=3)(np.arange(9))
    assert "like=x" in str(caught.value)
    many = np.arange(1000) % 60
    _same(da.vmap(lambda i: np.asarray(A.ravel(), like=i)[i])(many), A.ravel()[many])


def test_there_are_a_thousand():
    assert len(CASES) * 3 > 1000
