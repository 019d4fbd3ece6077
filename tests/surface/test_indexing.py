"""What stands between brackets, and NumPy's functions that select entries: against NumPy, differences, a loop."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest

import dualad as da
from dualad.errors import ConversionError, DualadError, UnsupportedError
from dualad.surface.indexing import parse_index, set_at
from tests.oracles.arrays import close
from tests.oracles.calls import check_call
from tests.oracles.loops import axes_choices, lane, looped

RNG = np.random.default_rng(4)
X = RNG.normal(size=(3, 4, 5))
M = X[0]
V = X[0, 0]
POSITIVE = X > 0

INDICES = {
    "int": 0,
    "negative": -1,
    "number": np.int32(2),
    "0-d array": np.array(1),
    "all ints": (0, 1, 2),
    "slice": slice(1, 3),
    "reversed": slice(None, None, -1),
    "steps": (slice(2, 0, -1), slice(None, None, -2)),
    "empty slice": slice(5, 1),
    "empty reversed slice": slice(0, 2, -1),
    "whole": (slice(None),) * 3,
    "ellipsis": ...,
    "ellipsis last": (0, ...),
    "ellipsis first": (..., 0),
    "ellipsis of nothing": (0, ..., 1, 2),
    "new axes": (None, 0, None, ..., None),
    "nothing": (),
    "list": [0, 0, 2],
    "empty list": [],
    "array": np.array([2, -1, 2]),
    "array of matrix": np.array([[0, 1], [2, 2]]),
    "Fortran array": np.asfortranarray([[0, 1, 2], [2, 2, 0]]),
    "unsigned": np.array([1, 2], np.uint8),
    "nested tuple": ((0, 1),),
    "two lists": ([0, 1], [1, 1]),
    "second axis": (slice(None), [1, 1, 0]),
    "partial_eval_jvp": ([0, 1], slice(None), [1, 4]),
    "separated by a new axis": ([0, 2], None, [1, 1]),
    "int apart from array": (0, slice(None), [1, 4, 4]),
    "int beside array": (0, np.array([1, 2]), np.array([[0], [3]])),
    "broadcast": (slice(None), [[0], [1]], [1, 2]),
    "slices around": (slice(1, 3), np.array([1, 2]), slice(None, None, 2)),
    "new axis and int": (None, [0, 1], slice(None), 0),
    "ellipsis then array": (..., [0, 1], [2, 2]),
    "mask": POSITIVE,
    "mask of two axes": POSITIVE[:, :, 0],
    "mask of the last axis": (0, 0, POSITIVE[0, 0]),
    "mask after a slice": (slice(None), POSITIVE[0]),
    "mask beside an int": (0, POSITIVE[0, :, 0]),
    "mask list": ([True, False, True], slice(1, None)),
    "empty mask": np.zeros((3, 4), bool),
    "true": True,
    "false": False,
    "true and int": (True, 0),
    "true and array": (np.array([0, 1]), True),
}


@pytest.mark.parametrize("name", INDICES)
def test_reading(name):
    check_call(f"x[{name}]", lambda x: x[INDICES[name]], X)


@pytest.mark.parametrize("name", INDICES)
def test_replacing(name):
    """`set_at` is NumPy's assignment: what is not written stays, of several values for one entry the last stays."""
    index = INDICES[name]

    def assigned(x, v):
        if isinstance(x, np.ndarray) and isinstance(v, (np.ndarray, np.generic)):
            y = x.copy()
            y[index] = v
            return y
        return set_at(x, index, v)

    check_call(f"x[{name}] = v", assigned, X, RNG.normal(size=X[index].shape))
    check_call(f"x[{name}] = number", assigned, X, np.float64(2.5))


def test_replacing_broadcasts_and_casts():
    value, tangent = da.jvp(lambda v: set_at(np.zeros((2, 3)), np.s_[:, 1], v), (V[:1][None],), (np.ones((1, 1)),))
    close(value, np.array([[0, V[0], 0]] * 2), "value")
    close(tangent, np.array([[0.0, 1, 0]] * 2), "tangent")
    assert da.jvp(lambda v: set_at(np.zeros(3, np.float32), 0, v), (1.5,), (1.0,))[1].dtype == np.float32
    with pytest.raises(ValueError, match="broadcast"):
        da.jvp(lambda v: set_at(np.zeros(3), slice(None), v), (V[:2],), (V[:2],))


TRACED = {
    "one": lambda x, i, j: x[i],
    "one number": lambda x, i, j: x[i[0]],
    "two": lambda x, i, j: x[i, j],
    "second axis": lambda x, i, j: x[:, j],
    "apart": lambda x, i, j: x[i, :, j],
    "numbers apart": lambda x, i, j: x[i[0], :, j],
    "last axes": lambda x, i, j: x[:, j, i],
    "new axis between": lambda x, i, j: x[:, j, None, i],
    "with a static int": lambda x, i, j: x[0, :, j],
    "with a static array": lambda x, i, j: x[[0, 1], j],
    "with a wider static array": lambda x, i, j: x[:, [[0], [1]], i],
    "broadcast": lambda x, i, j: x[None, :, j[:, None], i],
    "ellipsis": lambda x, i, j: x[..., i],
    "with true": lambda x, i, j: x[i, True],
    "list of numbers": lambda x, i, j: x[[i[0], i[1]]],
}


@pytest.mark.parametrize("name", TRACED)
def test_batched_indices(name):
    """Indices that differ between lanes: one gather, whatever else is mapped; and its transpose."""
    f = TRACED[name]
    xs, i, j = RNG.normal(size=(6, 3, 4, 5)), RNG.integers(-3, 3, (6, 2)), RNG.integers(-4, 4, (6, 2))
    for axes in axes_choices(3, (0, None)):
        args = [v if a == 0 else v[0] for v, a in zip((xs, i, j), axes, strict=True)]
        pushed = lambda x, i, j: da.jvp(lambda x: f(x, i, j), (x,), (2 * x,))
        expected = looped(f, args, axes, 6)[0]
        value, tangent = da.vmap(pushed, axes)(*args)
        close(value, expected, f"{axes}")
        close(tangent, 2 * expected, f"{axes} tangent")
        cts = RNG.normal(size=expected.shape)
        for ct, ct_axis in ((cts, 0), (cts[0], None)):
            pulled = lambda x, i, j, c: da.vjp(lambda x: f(x, i, j), x)[1](c)[0]
            found = da.vmap(pulled, (*axes, ct_axis))(*args, ct)
            lanes = [[lane(v, a, b) for v, a in zip((*args, ct), (*axes, ct_axis), strict=True)] for b in range(6)]
            close(found, np.stack([pulled(*values) for values in lanes]), f"{axes} pullback")


def test_batched_indices_of_replacement():
    xs, vs, i = RNG.normal(size=(6, 4, 3)), RNG.normal(size=(6, 4, 2)), RNG.integers(0, 3, (6, 2))

    def assigned(x, v, i):
        y = x.copy()
        y[:, i] = v
        return y

    f = lambda x, v, i: set_at(x, (slice(None), i), v)
    for axes in axes_choices(3, (0, None)):
        args = [v if a == 0 else v[0] for v, a in zip((xs, vs, i), axes, strict=True)]
        close(da.vmap(f, axes)(*args), looped(assigned, args, axes, 6)[0], f"{axes}")


def test_staged_indices():
    program = da.trace(lambda x, i: x[i, 1:], M, np.array([1, 1]))
    close(program(M, np.array([3, 0])), M[[3, 0], 1:], "program")
    program = da.trace(lambda x, i: x[i], V, 0)
    close(program(V, 4), V[4], "program")


def test_iteration_and_unpacking():
    value, tangent = da.jvp(lambda x: sum(a * b for a, b in x), (M[:, :2],), (M[:, :2],))
    close(value, np.sum(M[:, 0] * M[:, 1]), "value")
    close(tangent, 2 * value, "tangent")
    value, tangent = da.jvp(lambda x: x[0] * len(x) + x[-1] * len(list(x[1:])), (V,), (V,))
    close(value, 5 * V[0] + 4 * V[-1], "value")
    close(tangent, value, "tangent")
    with pytest.raises(TypeError, match="iteration over a 0-d array"):
        da.jvp(lambda x: list(x), (1.0,), (1.0,))


ERRORS = {
    "out of bounds": (5, "index 5 is out of bounds for axis 0 with size 3"),
    "negative out of bounds": ((0, -5), "index -5 is out of bounds for axis 1 with size 4"),
    "too many": ((0, 0, 0, 0), "too many indices for array: array is 3-dimensional, but 4 were indexed"),
    "two ellipses": ((..., ...), "single ellipsis"),
    "float": (1.0, "only integers, slices"),
    "string": ("a", "only integers, slices"),
    "float array": (np.array([1.0]), "only integers, slices"),
    "mask of another shape": (np.ones(4, bool), "boolean index did not match"),
    "array out of bounds": ([0, 7], "index 7 is out of bounds"),
    "arrays that do not broadcast": (([0, 1, 2], [0, 1]), "shape mismatch"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_are_numpys(name):
    index, message = ERRORS[name]
    with pytest.raises(IndexError, match=message):
        da.jvp(lambda x: x[index], (X,), (X,))
    with pytest.raises(IndexError):
        X[index]


def test_staged_masks_are_refused_with_the_rewrite():
    for f in (lambda x: x[x > 0], np.nonzero, lambda x: np.compress(x[0, 0] > 0, x, axis=-1)):
        with pytest.raises(UnsupportedError, match=r"np\.where"):
            da.trace(f, X)


def test_masks_of_duals_are_plain():
    check_call("positive entries", lambda x: x[x > 0] ** 2, X, batch=False, stage=False)
    check_call("0-d mask", lambda x: x[x > 0], np.float64(2.0), batch=False, stage=False)
    check_call("0-d mask that is false", lambda x: x[x > 9], np.float64(2.0), batch=False, stage=False)


def test_a_written_index_array_changes_no_pullback():
    i = np.array([0, 1, 1])
    _, pull = da.vjp(lambda x: x[i] ** 2, V)
    before = pull(np.ones(3))[0]
    i[:] = 4
    close(pull(np.ones(3))[0], before, "pullback after a write into the index array")


def test_a_written_index_array_changes_no_program():
    transposed = lambda g: lambda x: g(x[:3])[0]
    for make in (
        lambda f: da.trace(f, V),
        lambda f: da.linearize(f, V)[1],
        lambda f: transposed(da.linear_transpose(f, V)),
    ):
        i = np.array([0, 1, 1])
        g = make(lambda x: x[i])
        before = g(V)
        i[:] = 4
        close(g(V), before, "after a write into the index array")


def test_parse_index():
    template, arrays = parse_index(X, (..., -1, [0, 1]))
    assert template == ((0, 3, 1), 3, "array")
    assert hash(template) is not None
    close(arrays[0], np.array([0, 1]), "arrays")


# ── functions ────────────────────────────────────────────────────────────────────────────────────────────────────

ALONG = np.argsort(X, axis=1)[:, :2]

CALLS = {
    "take": (lambda x: np.take(x, [1, 1, -1]), X),
    "take axis": (lambda x: np.take(x, [[0, 0], [1, 2]], axis=1), X),
    "take number": (lambda x: np.take(x, 2, axis=-1), X),
    "take of a number": (lambda x: np.take(x, [0, 0]), np.float64(2.0)),
    "take wrap": (lambda x: np.take(x, [5, -7], axis=0, mode="wrap"), X),
    "take clip": (lambda x: np.take(x, [5, -7], axis=0, mode="clip"), X),
    "take_along_axis": (lambda x: np.take_along_axis(x, ALONG, axis=1), X),
    "take_along_axis last": (lambda x: np.take_along_axis(x, np.array([[[0, -1]]]), axis=-1), X),
    "take_along_axis flat": (lambda x: np.take_along_axis(x, np.array([3, 3, 0]), axis=None), X),
    "compress": (lambda x: np.compress([True, False, True], x, axis=0), X),
    "compress flat": (lambda x: np.compress([False, True, True], x), X),
    "extract": (lambda x: np.extract(POSITIVE, x), X),
    "delete": (lambda x: np.delete(x, 1, axis=1), X),
    "delete some": (lambda x: np.delete(x, [0, -1]), V),
    "delete slice": (lambda x: np.delete(x, slice(None, None, 2), axis=2), X),
    "delete mask": (lambda x: np.delete(x, POSITIVE[0, 0]), V),
    "insert": (lambda x, v: np.insert(x, 1, v), V, np.float64(2.0)),
    "insert row": (lambda x, v: np.insert(x, -1, v, axis=0), M, V),
    "insert columns": (lambda x, v: np.insert(x, 2, v, axis=1), M, M[:2, :4]),
    "insert at several places": (lambda x, v: np.insert(x, [0, 2, 2], v), V, V[:3]),
    "insert at the end": (lambda x, v: np.insert(x, [5], v), V, V[:3]),
    "insert at a slice": (lambda x, v: np.insert(x, slice(1, 3), v, axis=1), M, np.float64(2.0)),
    "insert where a mask is": (lambda x, v: np.insert(x, np.array([1, 0, 1, 0, 0], bool), v), V, V[:2]),
    "diagonal": (np.diagonal, M),
    "diagonal offset": (lambda x: np.diagonal(x, -2, 0, -1), X),
    "diagonal outside": (lambda x: np.diagonal(x, 9), M),
    "linalg.diagonal": (lambda x: np.linalg.diagonal(x, offset=1), X),
    "trace": (lambda x: np.trace(x, 1), X),
    "linalg.trace": (np.linalg.trace, X),
    "diag": (np.diag, V),
    "diag offset": (lambda x: np.diag(x, -2), V),
    "diag of a matrix": (lambda x: np.diag(x, 1), M),
    "diagflat": (lambda x: np.diagflat(x, 1), M[:2, :2]),
    "tril": (lambda x: np.tril(x, -1), X),
    "triu": (np.triu, M),
    "triu of a vector": (np.triu, V),
    "sliding_window_view": (lambda x: np.lib.stride_tricks.sliding_window_view(x, 3), V),
    "sliding_window_view axes": (lambda x: np.lib.stride_tricks.sliding_window_view(x, (2, 3)), M),
    "sliding_window_view one axis": (lambda x: np.lib.stride_tricks.sliding_window_view(x, 2, axis=1), X),
    "ix_": (lambda x: x[np.ix_([0, 2], [1, 1], [False, True, True, False, True])], X),
    "ix_ of traced values": (lambda x, y: np.ix_(x, y), V, V[:2]),
    "diag_indices_from": (lambda x: x[np.diag_indices_from(x)], M[:, :4]),
    "tril_indices_from": (lambda x: x[np.tril_indices_from(x, 1)], M),
    "triu_indices_from": (lambda x: x[np.triu_indices_from(x, 1)], M),
}


with warnings.catch_warnings():
    warnings.simplefilter("ignore", FutureWarning)
    if np.insert(np.zeros(2), np.array([True, False]), 1).size != 3:  # early releases make integers of a mask
        del CALLS["insert where a mask is"]


@pytest.mark.parametrize("name", CALLS)
def test_call(name):
    check_call(name, *CALLS[name])


def test_traced_indices_of_plain_arrays():
    """`plain[traced]` can't be caught, nor `np.take`, which looks for tensors in its first argument only."""
    i = RNG.integers(0, 3, (7, 2))
    assert da.trace(lambda i: [1.0, 2.0, 3.0][i], 0)(2) == 3.0
    with da.plain(), pytest.raises(ConversionError, match=r"np\.asarray\(array, like=x\)\[x\]"):
        da.trace(lambda i: [1.0, 2.0, 3.0][i], 0)
    with da.plain(), pytest.raises(DualadError):
        da.trace(lambda i: np.take(X, i, axis=0), i)
    close(da.trace(lambda i: np.take(X, i, axis=0), i)(i), np.take(X, i, axis=0), "take, lifted")
    close(da.vmap(lambda i: np.asarray(X, like=i)[i])(i), X[i], "like")
    j = RNG.integers(0, 4, (7, 3, 2, 5))
    found = da.vmap(lambda j: np.take_along_axis(X, j, axis=1))(j)
    close(found, np.stack([np.take_along_axis(X, k, axis=1) for k in j]), "take_along_axis")


def test_where_entries_are():
    def f(x):
        assert np.array_equal(np.nonzero(x), np.nonzero(V))
        assert np.array_equal(np.argwhere(x > 0), np.argwhere(V > 0))
        assert np.array_equal(np.flatnonzero(x > 0), np.flatnonzero(V > 0))
        return np.sum(x[np.nonzero(x > 0)])

    np.testing.assert_array_equal(da.grad(f)(V), V > 0)


@pytest.mark.parametrize("invert", [False, True])
def test_isin(invert):
    f = lambda x, y: np.isin(x, y, invert=invert)
    xs, ys = RNG.integers(0, 5, (4, 2, 3)).astype(float), RNG.integers(0, 5, (4, 2)).astype(float)
    value, tangent = da.jvp(f, (xs[0], ys[0]), (xs[0], ys[0]))
    close(value, f(xs[0], ys[0]), "isin")
    assert tangent.dtype == da.float0
    for axes in itertools.product((0, None), repeat=2):
        if any(a == 0 for a in axes):
            args = [v if a == 0 else v[0] for v, a in zip((xs, ys), axes, strict=True)]
            close(da.vmap(f, axes)(*args), looped(f, args, axes, 4)[0], f"vmap {axes}")
