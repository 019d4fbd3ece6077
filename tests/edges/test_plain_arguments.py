"""A transform's own plain arguments, and what is computed from them: they take traced writes and traced indices.

The oracle is the plain function: a loop over lanes, central differences. Not for: arrays that the function makes itself
(tests/memory/test_buffer.py).
"""

import numpy as np
import pytest
import scipy.linalg

import dualad as da
from dualad.errors import ConversionError, InPlaceError
from dualad.memory.buffer import Buffer

X = np.array([0.5, 1.5, -0.7])
BASE = np.arange(1.0, 5.0)
TABLE = np.arange(12.0).reshape(3, 4) ** 1.1
LARGE = np.zeros(20_000)


def entry(x, base):
    y = base * 1.0
    y[1] = x
    return y * x


def through_views(x, base):
    rows = base.reshape(2, 2).copy()
    rows[0] *= x
    rows.T[1] += x**2
    return rows.ravel()


def into_the_argument(x, base):
    base[0] = 2.0
    base[1] = x * base[0]
    base[2:] += 1.0
    return base * x


def augmented(x, base):
    y = base / 2.0
    y += x
    np.multiply(y, x, out=y)
    np.add.at(y, [0, 0, 1], x)
    return y


def tree(x, base):
    parts = {"a": [base, base[::-1]]}
    parts["a"][0] = parts["a"][0] + 0.0
    parts["a"][0][2] = np.sin(x)
    return parts["a"][0] * parts["a"][1]


WRITES = [entry, through_views, into_the_argument, augmented, tree]


@pytest.mark.parametrize("f", WRITES, ids=lambda f: f.__name__)
def test_writes(f):
    plain = lambda x: f(x, BASE.copy())
    base = BASE.copy()
    h = 1e-6
    slopes = np.array([(plain(x + h) - plain(x - h)) / (2 * h) for x in X])
    lanes = np.array([plain(x) for x in X])

    np.testing.assert_allclose(da.vmap(f, in_axes=(0, None))(X, base), lanes, rtol=1e-12)
    for derivative in (da.jacfwd, da.jacrev):
        np.testing.assert_allclose(derivative(f)(X[0], base), slopes[0], atol=1e-8)
        np.testing.assert_allclose(derivative(lambda b, x: f(x, b), argnums=1)(base, X[0]), slopes[0], atol=1e-8)
        np.testing.assert_allclose(derivative(f, argnames="x", argnums=())(x=X[0], base=base), slopes[0], atol=1e-8)
    total = lambda x, b: np.sum(f(x, b))
    np.testing.assert_allclose(da.grad(total)(X[0], base), slopes[0].sum(), atol=1e-8)
    np.testing.assert_allclose(da.vmap(da.grad(total), in_axes=(0, None))(X, base), slopes.sum(1), atol=1e-8)
    inside = lambda x, b: np.sum(da.vmap(f, in_axes=(0, None))(x, b))
    np.testing.assert_allclose(da.grad(inside)(X, base), slopes.sum(1), atol=1e-8)
    captured = lambda x, b: da.grad(lambda z: total(z, b))(x)
    np.testing.assert_allclose(da.vmap(captured, in_axes=(0, None))(X, base), slopes.sum(1), atol=1e-8)
    assert np.shape(da.hessian(total)(X[0], base)) == ()
    np.testing.assert_array_equal(base, BASE)


def multiplied_at(i, v, base):
    y = base * 1.0
    np.multiply.at(y, i, v)
    return y


def replaced(i, v, base):
    y = base * 1.0
    y[i] = v
    y[i] += 1.0
    return y


READS = {
    "take": (lambda i, t: np.take(t, i), np.array([0, 5, 5])),
    "take of several": (lambda i, t: np.take(t, i, axis=1), np.array([[0, 1], [3, 2]])),
    "an entry": (lambda i, t: t[1, i], np.array([0, 3, 3])),
    "a column": (lambda i, t: t[:, i], np.array([2, 1, 0])),
    "columns": (lambda i, t: t[:, i] * 2.0, np.array([[0, 1], [2, 3]])),
    "of a view": (lambda i, t: t.T[1:][i], np.array([2, 1, 0])),
    "along": (lambda i, t: np.take_along_axis(t, i[None, :], 0), np.array([[0, 1, 2, 0], [2, 2, 1, 1]])),
}


@pytest.mark.parametrize("name", READS)
def test_traced_indices_read(name):
    f, i = READS[name]
    np.testing.assert_array_equal(da.vmap(f, in_axes=(0, None))(i, TABLE), [f(k, TABLE) for k in i])


def test_more_lanes_than_there_may_be_groups():
    i = np.arange(200) % 12
    np.testing.assert_array_equal(da.vmap(lambda k, t: t.ravel()[k], in_axes=(0, None))(i, TABLE), TABLE.ravel()[i])


@pytest.mark.parametrize("f", [multiplied_at, replaced])
@pytest.mark.parametrize("i", [np.array([0, 3, 1]), np.array([[0, 1], [2, 2], [3, 0]])], ids=["scalar", "vector"])
def test_traced_indices_written(f, i):
    expected = [f(k, v, BASE) for k, v in zip(i, X, strict=True)]
    np.testing.assert_allclose(da.vmap(f, in_axes=(0, 0, None))(i, X, BASE), expected)
    slope = da.vmap(da.grad(lambda v, k, b: np.sum(f(k, v, b) ** 2)), in_axes=(0, 0, None))(X, i, BASE)
    h = 1e-6
    loss = lambda v, k: np.sum(f(k, v, BASE) ** 2)
    differences = [(loss(v + h, k) - loss(v - h, k)) / (2 * h) for v, k in zip(X, i, strict=True)]
    np.testing.assert_allclose(slope, differences, atol=1e-7)


# ── what code finds in its arguments ─────────────────────────────────────────────────────────────────────────────


def test_code_that_does_not_write_gets_the_arrays_themselves():
    seen = []

    def f(x, a):
        seen.append(a)
        return x * np.sum(a)

    da.grad(f)(2.0, BASE)
    da.vmap(f, in_axes=(0, None))(X, BASE)
    assert all(a is BASE for a in seen) and len(seen) == 2


def test_compiled_code_takes_them_also_in_the_second_run():
    a = np.eye(3) * 2.0
    kinds = []

    def f(x, a):
        kinds.append(isinstance(a, Buffer))
        lu = scipy.linalg.lu_factor(a)
        y = scipy.linalg.lu_solve(lu, np.ones(3)) + np.linalg.solve(a, np.ones(3))
        z = a[0] * 1.0
        z[0] = x
        return np.sum(z) * np.sum(y) * np.linalg.det(a)

    assert da.grad(f)(3.0, a) == pytest.approx(3.0 * 8.0)
    assert kinds == [False, True]


def test_large_arrays_are_not_copied():
    big = np.ones(10**6)
    memory = []

    def f(x, big):
        memory.append(np.asarray(big).__array_interface__["data"][0])
        y = big[:3] * 1.0
        y[0] = x
        return np.sum(y) + np.sum(big)

    assert da.grad(f)(2.0, big) == 1.0
    assert memory == [big.__array_interface__["data"][0]] * 2


def test_a_large_array_that_is_written_to_twice_is_refused():
    """What the first run has done to it is not known, and must not be done a second time."""
    big = np.zeros(20_000)

    def f(x, big):
        big += 1.0
        big[1] = x
        return np.sum(big)

    with pytest.raises(InPlaceError, match="runs twice") as caught:
        da.grad(f)(2.0, big)
    assert isinstance(caught.value.__cause__, ConversionError)
    assert da.grad(lambda x, big: f(x, np.copy(big)))(2.0, big) == 1.0


@pytest.mark.plain
def test_the_first_refusal_is_told_where_the_second_run_fails_too():
    def f(x, base):
        own = np.zeros(3)  # the function's own array is none of the arguments
        own[0] = x
        return np.sum(own * base[0])

    with pytest.raises(ConversionError, match=r"buffer\[i\] = x"):
        da.grad(f)(2.0, BASE)


def test_tensors_that_the_first_run_has_written_into_start_anew():
    def f(x, base):
        x *= 2.0
        x[0] = 1.0
        y = base * 1.0
        y[:3] = x
        return np.sum(y**2)

    x = np.array([1.0, 2.0, 3.0])
    np.testing.assert_allclose(da.grad(f)(x, BASE), [0.0, 16.0, 24.0])
    rows = da.vmap(f, in_axes=(0, None))(np.stack([x, 2 * x]), BASE)
    np.testing.assert_allclose(rows, [1 + 16 + 36 + 16, 1 + 64 + 144 + 16])


def test_the_same_array_twice_is_one_array():
    def f(x, a, b):
        y = a * 0.0 + 1.0
        a[0] = x
        return np.sum(b * y)

    base = BASE.copy()
    assert da.grad(f)(5.0, base, base) == 1.0
    np.testing.assert_array_equal(base, BASE)


def test_two_names_for_one_memory_are_refused_where_one_is_written_to():
    """What stands for an argument has memory of its own: a write would not be seen by the other name."""
    base = np.zeros(4)

    def traced(x, a, b):
        a[1] = x
        return b[0] * 1.0

    def plain(i, a, b):
        a[1] = 3.0
        return b[i] * 1.0

    def outside(x, a):
        base[0] = 7.0
        a[1] = x
        return a[0] * x

    lanes = np.array([0, 1])
    for f, x, args in (
        (traced, X[:2], (base, base[1:])), (traced, X[:2], (base[::-1], base[2:])), (plain, lanes, (base, base[1:])),
        (traced, X[:2], (LARGE, LARGE[1:])), (outside, X[:2], (base,)),
    ):  # fmt: skip
        with pytest.raises(InPlaceError, match="by two names") as caught:
            da.vmap(f, in_axes=(0, *[None] * len(args)))(x, *args)
        assert "np.copy(a)" in caught.value.instead
        base[:] = 0.0
    copied = da.vmap(lambda x, a: traced(x, a := np.copy(a), a[1:]), in_axes=(0, None))(X, base)
    np.testing.assert_array_equal(copied, X)


def test_two_names_for_one_memory_are_no_matter_where_nothing_is_written():
    table = TABLE.ravel()
    read = lambda i, a, b: a[i] * b[i]
    np.testing.assert_array_equal(
        da.vmap(read, (0, None, None))(np.array([0, 3]), table, table[1:]), table[[0, 3]] * table[[1, 4]]
    )
    evens, odds = table[::2], table[1::2]

    def apart(x, a, b):
        a[0] = x
        return a[0] + b[0]

    np.testing.assert_array_equal(da.vmap(apart, (0, None, None))(X, evens, odds), X + odds[0])


def test_up_to_ten_thousand_entries_are_kept_for_the_second_run():
    def f(x, a):
        a += 1.0
        a[1] = x
        return np.sum(a)

    array = np.zeros(10_000)
    assert da.grad(f)(2.0, array) == 1.0 and not array.any()
    with pytest.raises(InPlaceError, match="runs twice"):
        da.grad(f)(2.0, np.zeros(10_001))


def test_an_array_that_can_not_be_written_to_is_read():
    array = BASE.copy()
    array.flags.writeable = False
    np.testing.assert_array_equal(da.vmap(lambda i, a: a[i], (0, None))(np.array([0, 2]), array), [1.0, 3.0])


def test_a_write_beneath_an_array_that_can_not_be_written_to_is_refused_too():
    base = np.zeros(3)
    view = base[:]
    view.flags.writeable = False

    def f(i, v):
        base[0] = 7.0
        return v[i] * 1.0

    with pytest.raises(InPlaceError, match="by two names"):
        da.vmap(f, in_axes=(0, None))(np.array([0, 1]), view)
