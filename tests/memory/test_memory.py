"""Memory, a function at a time: copies that stay as they were, records of views, stand-ins, writes that wait.

Each expected value is NumPy's own answer for the same lines. Not for: random programs of views and writes
(tests/edges/test_memory.py).
"""

import gc
import operator

import numpy as np
import pytest

import dualad as da
import dualad.numpy as dnp
from dualad.errors import InPlaceError
from dualad.memory.memory import is_unchanged, record, snapshot, snapshot_once, stand_in, unshared
from tests.edges.device import OnDevice

X = np.array([1.0, 2.0, 3.0])
M = np.arange(6.0).reshape(2, 3) + 1.0


def assert_as_numpy(f, *args):
    """Values of a function are NumPy's under every transform; it is linear, so its derivative along x is its value."""
    expected = f(*args)
    np.testing.assert_allclose(da.jvp(f, args, args), [expected, expected])
    np.testing.assert_allclose(da.vmap(f)(*[np.stack([a, 2 * a]) for a in args]), np.stack([expected, 2 * expected]))
    np.testing.assert_allclose(da.trace(f, *args)(*args), expected)


# ── copies ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_snapshot_stays_as_it_was():
    whole = np.ones(4)
    view = whole[:2]
    view.setflags(write=False)  # who holds the whole can write to it all the same
    kept = snapshot(view)
    whole[:] = 7.0
    assert kept.tolist() == [1.0, 1.0]
    assert not kept.flags.writeable  # so a snapshot of it is itself
    assert snapshot(kept) is kept


def test_a_snapshot_of_one_repeated_number_is_one_number():
    kept = snapshot(np.broadcast_to(np.full((), 3.0), (1000, 1000)))
    assert kept.strides == (0, 0)
    assert kept[7, 8] == 3.0


def test_a_constant_met_again_is_copied_again_only_if_it_changed():
    a, copies = np.arange(100.0), {}
    a[3] = np.nan
    first = snapshot_once(a, copies)
    assert snapshot_once(a, copies) is first
    assert snapshot_once(a.copy(), copies) is not first
    for position, value in ((3, 1.0), (4, np.nan), (5, 9.0)):
        before = snapshot_once(a, copies)
        a[position] = value
        after = snapshot_once(a, copies)
        assert after is not before
        np.testing.assert_array_equal(after, a)
    a.shape = (10, 10)
    assert snapshot_once(a, copies).shape == (10, 10)


def test_what_is_unshared_has_memory_of_its_own():
    assert unshared(2.0) == 2.0
    a = np.ones(2)
    b = unshared(a)
    b[0] = 5.0
    assert a[0] == 1.0
    there = OnDevice([1.0])
    assert unshared(there) is not there


def test_a_box_is_unchanged_until_something_is_written():
    def f(x):
        box = unshared(x)
        assert is_unchanged(box, x)
        x[1] = 2.0 * x[0]
        assert not is_unchanged(box, x)
        return box

    np.testing.assert_array_equal(da.jvp(f, (X,), (X,)), [X, X])


# ── views ────────────────────────────────────────────────────────────────────────────────────────────────────────

ZERO_DIMENSIONAL = {
    "reshape": lambda a: a[:1].reshape(()),
    "squeeze": lambda a: a[:1].squeeze(),
    "ellipsis last": lambda a: a[0, ...],
    "ellipsis first": lambda a: a[..., 0],
    "entry": lambda a: a[0],
    "entry by NumPy's integer": lambda a: a[np.int64(0)],
}


@pytest.mark.parametrize("name", ZERO_DIMENSIONAL)
@pytest.mark.parametrize("make", [np.copy, lambda x: dnp.zeros(3) + 0.0 * x[0], lambda x: dnp.zeros(3)])
def test_a_view_without_axes_shares_memory_where_numpy_has_an_array(name, make):
    def f(x):
        a = make(x)
        v = ZERO_DIMENSIONAL[name](a)
        a[0] = 5.0 * x[1]
        seen = v * 1.0
        if "entry" not in name:
            v[...] = x[2]
        return np.stack([seen, a[0]])

    assert_as_numpy(f, X)


def _added_on(x):
    y = x.copy()
    for n, entry in enumerate(y):
        y[n + 1 :] += entry
    return y


def _of_a_view(x):
    y = 1.0 * x
    for n, entry in enumerate(y[::-1]):
        y[n] = 2.0 * entry
    return y


def _generated(x):
    y = x.copy()
    entries = (2.0 * entry for entry in y)
    y[-1] = x[0]
    return sum(entries) + y


@pytest.mark.parametrize("f", [_added_on, _of_a_view, _generated])
def test_a_loop_over_a_vector_sees_what_it_writes(f):
    assert_as_numpy(f, X)
    np.testing.assert_allclose(da.jit(f)(X), f(X))


def test_what_lanes_share_can_be_written_to():
    def f(x):
        lanes = da.vmap(lambda r: 2.0 * x)(M)
        lanes[1, 0] = x[2]
        return lanes

    assert_as_numpy(f, X)


#: arrays without axes of a number: NumPy's copy of a scalar, and views of an entry
ARRAYS_OF_NUMBERS = {
    "of a sum": lambda x: np.sum(x)[...],
    "of an entry": lambda x: x[0][...],
    "twice": lambda x: np.std(x)[...][...],
    "of a view": lambda x: x[0, ...],
}


@pytest.mark.parametrize("name", ARRAYS_OF_NUMBERS)
def test_an_array_of_a_number_is_written_in_place(name):
    def f(x):
        v = w = ARRAYS_OF_NUMBERS[name](x.copy())
        v += x[1]
        v[...] *= 2.0
        return w

    assert_as_numpy(f, X)


@pytest.mark.parametrize("change", ["iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow", "imatmul"])
@pytest.mark.parametrize("name", ARRAYS_OF_NUMBERS)
def test_an_array_of_a_number_does_not_grow(name, change):
    for of in (lambda x: x[:0], lambda x: x[:1], lambda x: x, lambda x: x[None, :0]):
        f = lambda x, of=of: getattr(operator, change)(ARRAYS_OF_NUMBERS[name](x), of(x))
        for run in (f, da.jit(f), lambda x, f=f: da.jvp(f, (x,), (x,))):
            with pytest.raises(ValueError, match=r"broadcast|dimension"):
                run(X)


def test_views_of_an_array_without_axes():
    def f(x):
        b = np.zeros_like(x[0])
        v, w = b[...], b.reshape(1)
        b[()] = 3.0 * x[0]
        return v + 10.0 * w[0] + 100.0 * b

    assert_as_numpy(f, X)

    def g(x):
        b = np.zeros((), like=x)
        w = b[None]
        b[...] = 3.0 * x[0]
        return w[0]

    assert da.jvp(g, (X,), (X,)) == (3.0, 3.0)


def test_a_scalar_shares_no_memory():
    def f(x):
        s = np.sum(x)
        for view in (s[None], s.reshape(1), np.atleast_1d(s)):
            view[0] = 7.0 * x[0]
        return s

    assert_as_numpy(f, X)


def test_all_of_many_views_see_a_write_and_dead_ones_are_forgotten():
    def f(x):
        a = np.copy(x)
        alive = [a[:1] for _ in range(40)]
        for _ in range(3000):
            a[1:]
        gc.collect()
        assert len(record(a).views) < 300
        a[0] = 5.0 * x[1]
        return sum([v[0] for v in alive])

    assert da.jvp(f, (X,), (X,)) == (400.0, 400.0)


def test_a_view_written_into_another_place_is_written():
    def f(x):
        a, b = np.copy(x), np.zeros_like(x)
        b[1:] = a[1:]  # the same entries of another array
        a[1:] = a[:-1]  # other entries of the same
        return np.concatenate([a, b])

    assert_as_numpy(f, X)


def test_an_augmented_write_through_a_view_writes_once():
    def f(x):
        a = np.copy(x)
        a[1:] += 1.0
        return a

    assert str(da.trace(f, X)).count("index_set") == 1


# ── stand-ins ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("strides", [None, (8,), (-8,), (16,)])
def test_a_stand_in_for_indices_is_zero(strides):
    for _ in range(3):
        dirty = np.full(8, -1)  # its memory is NumPy's next answer
        del dirty
        assert not stand_in((4,), np.dtype(np.int64), strides).any()


@pytest.mark.parametrize("strides", [(1,), (-1,), (3,), (-3,)])
def test_a_stand_in_has_room_for_narrow_entries(strides):
    a = stand_in((2,), np.dtype(bool), strides)
    assert a.strides == strides
    assert a.tolist() == [False, False]


def test_an_empty_stand_in():
    assert stand_in((0, 3), np.dtype(float), (24, 8)).shape == (0, 3)
    assert_as_numpy(lambda x: np.sum(np.asfortranarray(x[:0, :])) + x[0, 0], M)


# ── conversions ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_conversions_keep_identity_shape_and_dtype_as_numpy_does():
    def f(x):
        assert dnp.asarray(x) is x
        assert dnp.ascontiguousarray(x) is x
        assert dnp.array(x, copy=None, ndmin=3).shape == (1, 2, 3)
        assert dnp.asarray(x, dtype=np.float32).dtype == np.float32
        assert dnp.array(x, dtype=np.float32, ndmin=3).dtype == np.float32
        assert dnp.array(x).dtype == np.float64
        return dnp.asarray(x, dtype=np.float32)

    value, tangent = da.jvp(f, (M,), (M,))
    assert value.dtype == tangent.dtype == np.float32
    np.testing.assert_array_equal(value, M)
    with pytest.raises(TypeError, match="can't be made an array of dtype"):
        da.jvp(lambda x: dnp.asarray(x, dtype="S8"), (M,), (M,))


NEW = {
    "zeros in Fortran's order": lambda x: np.zeros((2, 3), order="F", like=x),
    "zeros in C's order": lambda x: np.zeros((2, 3), order="C", like=x),
    "copy in Fortran's order": lambda x: np.copy(x, order="F"),
    "copy of a transpose in C's order": lambda x: np.copy(x.reshape(3, 2).T, order="C"),
    "copy of a transpose as it is": lambda x: np.copy(x.reshape(3, 2).T, order="K"),
    "sorted transpose": lambda x: np.sort(x.reshape(3, 2).T, axis=0),
    "product in C's order": lambda x: x.astype(float, order="C"),
}


@pytest.mark.parametrize("name", NEW)
def test_new_arrays_have_numpys_order_in_memory(name):
    def f(x):
        a = NEW[name](x)
        rows, columns = a.reshape(6), a.T.reshape(6)  # a view, where entries lie so
        a[...] = 10.0 * x
        return np.stack([rows, columns])

    np.testing.assert_allclose(da.jvp(f, (M,), (M,))[0], f(M))
    np.testing.assert_allclose(da.trace(f, M)(M), f(M))


def test_order_in_memory_of_constants():
    """What is computed inside ``no_tangents`` is a plain array, whose order nobody has to note."""

    def f(x):
        with da.no_tangents():
            a = np.sort(x.T) + np.copy(x.T, order="F") + dnp.asfortranarray(x).T
        return np.sum(a * x.T)

    a = np.sort(M.T) + 2.0 * M.T
    assert da.jvp(f, (M,), (np.ones_like(M),)) == pytest.approx((np.sum(a * M.T), np.sum(a)))


# ── writes ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_result_is_cast_to_its_target():
    def f(x):
        a = x.astype(np.float32)
        a += x
        a *= 2.0
        np.add(a, 1.0, out=a)
        return a

    value, tangent = da.jvp(f, (X,), (X,))
    assert value.dtype == tangent.dtype == np.float32
    np.testing.assert_allclose(value, 4 * X + 1)
    np.testing.assert_allclose(tangent, 4 * X)


@pytest.mark.plain
@pytest.mark.filterwarnings("ignore:np.array")
def test_a_plain_target_is_refused():
    def f(x):
        buffer = np.zeros(3)
        buffer += x
        return buffer

    with pytest.raises(InPlaceError, match="plain array of shape"):
        da.jvp(f, (X,), (X,))

    def g(x):
        a = np.array([x[0], 1.0])  # of objects: its entries may be tensors
        a += x[1]
        return a

    np.testing.assert_allclose(da.jvp(g, (X,), (X,)), [[3.0, 3.0], [3.0, 2.0]])

    def h(x):
        a = np.array([x[0], 1.0])
        a += np.stack([x, x])[:, :2]
        return a

    with pytest.raises(InPlaceError, match="plain array of shape"):
        da.jvp(h, (X,), (X,))


@pytest.mark.plain
@pytest.mark.filterwarnings("ignore::dualad.boundary.swallowed.RefusalSwallowedWarning")
@pytest.mark.parametrize("write", [lambda x, v: x.__setitem__(0, v), lambda x, v: x.__setitem__(slice(1), v)])
@pytest.mark.parametrize("of", [lambda x: x, lambda x: x[:2], lambda x: x[:2][:1]])
def test_a_write_beside_a_copy_that_numpy_has_is_refused(of, write):
    def f(x):
        first, second = np.asarray(of(x)), np.asarray(of(x))
        del second
        with pytest.raises(InPlaceError, match=r"made by np\.asarray"):
            write(x, 5.0)
        del first
        write(x, 5.0)
        return x[0]

    assert da.jvp(f, (X,), (X,)) == (5.0, 0.0)


# ── writes that wait ─────────────────────────────────────────────────────────────────────────────────────────────


def test_a_tensor_with_waiting_writes_is_itself():
    seen = []
    asked = [repr, len, np.asarray, lambda a: a.shape, lambda a: a.dtype, lambda a: a.aval, lambda a: a.primal.tolist()]

    def f(x):
        for ask in asked:
            a, b = np.copy(x), np.copy(x)
            a[0] = 5.0 * x[1]
            b[:1] = 5.0 * x[1]  # carried out at once
            assert str(ask(a)) == str(ask(b))
        a = np.copy(x)
        a[0] = 5.0 * x[1]
        seen.append(a)
        return x[0]

    da.jvp(f, (X,), (X,))
    assert "1 writes to carry out" in repr(seen[0])
    assert "escaped" in repr(seen[0])


def test_waiting_writes_have_the_dtype_of_the_array():
    def f(x, narrow):
        a = np.zeros_like(narrow)
        a[0] = narrow[0]
        a[1] = x[1] / 3.0  # of a tensor, to one that waits
        entries = [a[0], a[1]]
        a[2] = 0.1
        entries.append(a[2])
        a[0] = np.float64(0.3)
        entries.append(a[0])
        assert [e.dtype for e in entries] == [np.float32] * 4
        b = np.zeros_like(narrow)
        b[0] = x[0] / 3.0  # the first one that waits
        assert b[0].dtype == np.float32
        return np.concatenate([np.stack(entries), a, b])

    narrow = X.astype(np.float32)
    expected = f(X, narrow)
    value = da.jvp(f, (X, narrow), (X, narrow))[0]
    assert value.dtype == np.float32
    np.testing.assert_array_equal(value, expected)


def test_one_entry_from_a_sequence_of_one():
    def f(x):
        a = np.zeros_like(x)
        a[0] = x[:1]
        a[1] = 1.0 * x[1]
        a[1] = x[2:]
        return a

    assert da.jvp(f, (X,), (X,))[1].tolist() == [1.0, 3.0, 0.0]
