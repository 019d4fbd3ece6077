"""Writes and views: plain NumPy code is its own oracle.

Each function runs on plain arrays, where NumPy itself performs the writes, and under every transform; derivatives are
held against central differences of the plain runs.
"""

import numpy as np
import pytest

import dualad as da
import dualad.numpy as dnp
from dualad.errors import InPlaceError, PlainBufferError, UnsupportedError
from dualad.surface import writing
from tests.oracles import differences

X = np.array([0.7, -1.2, 2.5, 0.3, 1.9, -0.4])


def copied(f):
    """Let a function that writes into its argument be run on plain arrays without harm."""

    def run(x):
        return f(np.copy(x))

    run.__name__ = f.__name__
    return run


FUNCTIONS = {}


def case(f):
    FUNCTIONS[f.__name__] = copied(f)
    return f


@case
def fill_loop(x):
    y = np.zeros_like(x)
    for i in range(len(x)):
        y[i] = x[i] * x[i - 1]
    return y


@case
def recurrence(x):
    y = np.zeros_like(x)
    y[0] = x[0]
    for i in range(1, len(x)):
        y[i] = 0.5 * y[i - 1] + np.sin(x[i])
    return y


@case
def overwritten_entries(x):
    y = np.zeros_like(x)
    for i in range(len(x)):
        y[i % 2] = x[i] ** 2
    return y


@case
def slice_writes(x):
    x[1:4] = x[2:5] * x[0]
    x[::2] = 3.0
    x[-1] = x[1]
    return x


@case
def slice_augmented(x):
    x[1:4] += x[2:5]
    x[::-2] *= x[0]
    x[2] -= 1.0
    x[3] /= x[4]
    x[5] **= 2
    return x


@case
def whole_array_augmented(x):
    y = x
    y += 1
    y *= x
    y -= 0.5 * x
    y /= 2.0
    return x + y


@case
def two_dimensional(x):
    a = np.zeros((2, 3), like=x)
    a[0] = x[:3]
    a[:, 1] = x[4:]
    a[1, ::2] += x[0]
    a[1, 2] = a[0, 1] * x[1]
    return a


@case
def broadcast_values(x):
    a = np.ones((3, 2, 2), like=x)
    a[1:] = x[:2]
    a[..., 0] *= x[2]
    a[0, :] = x[3]
    a[None, 0, 0] = x[4:6][None]
    return a


@case
def advanced_indices(x):
    x[[0, 2, 0]] = x[3:] * 2
    x[np.array([[1], [4]])] += 1.5
    return x


@case
def masks(x):
    x[np.array([True, False, True, False, False, True])] = x[:3]
    x[np.arange(6) > 3] = 0.0
    return x


@case
def value_masks(x):
    x[x > 1] = x[0] ** 2
    x[x < 0] *= -1
    return x


@case
def new_axes_and_ellipsis(x):
    a = x.reshape(2, 3)
    a[..., 0] = 7.0
    a[:, np.newaxis, 1] = x[4] * 2
    return x


@case
def views_of_views(x):
    v = x[1:5]
    w = v[::-1]
    u = w[:2]
    u *= 3.0
    v[0] = x[5]
    x[2] = 10.0
    return np.concatenate([x, v, w, u])


@case
def sibling_views(x):
    a, b = x[:4], x[2:]
    a += x[5]
    b *= 2.0
    return x * np.concatenate([a, b[:2]])


@case
def reshaped_views(x):
    a = x.reshape(2, 3)
    a[0] = a[1] * 2
    t = a.T
    t[2] = x[0]
    r = t.ravel()  # a copy, since t is not contiguous
    r[0] = 100.0
    flat = a.ravel()  # a view
    flat[1] = x[3] ** 2
    return np.concatenate([x, t.reshape(-1), r])


@case
def swapped_axes(x):
    a = x.reshape(1, 2, 3)
    b = np.swapaxes(a, 0, 2)
    b[1] = 5.0 * x[0]
    c = np.moveaxis(a, 2, 0)
    c[0, 0] += 1.0
    d = np.squeeze(a)
    d[1, 2] *= x[1]
    e = np.expand_dims(d, 1)
    e[0, 0, 0] = 2.5
    return x


@case
def rows_by_iteration(x):
    a = x.reshape(3, 2)
    for i, row in enumerate(a):
        row += i * x[0]
        row[0] *= 2
    return x


@case
def split_pieces(x):
    first, second = np.split(x, 2)
    first *= second
    second[0] = first[2]
    return x


@case
def diagonals(x):
    a = np.zeros((3, 3), like=x)
    np.fill_diagonal(a, x[:3])
    a[np.arange(2), np.arange(1, 3)] = x[3:5]
    return a


@case
def read_only_views(x):
    a = x.reshape(2, 3)[:, :2]
    d = np.diagonal(a)
    b = np.broadcast_to(x[:2], (3, 2))
    x *= x[1]  # both see it
    return np.concatenate([d, b.ravel(), x])


@case
def flips_are_views(x):
    y = np.flip(x)
    y[0] = 9.0 * x[0]
    return x


@case
def copies_are_not_views(x):
    y, z, w = np.copy(x), x + 0, x[[0, 1, 2]]
    x[:] = 0.5
    y[0] = z[1]
    return np.concatenate([x, y, z, w])


@case
def aliases_see_writes(x):
    def fill(buffer, value):
        buffer[0] = value

    y = x
    fill(y, x[1] * x[2])
    return x


@case
def out_arguments(x):
    y = np.zeros_like(x)
    np.multiply(x, x, out=y)
    np.add(y, 1.0, out=y)
    np.sin(x[:3], out=y[3:])
    np.exp(x, out=x, where=np.arange(6) % 2 == 0)
    return x + y


@case
def out_of_array_functions(x):
    y = np.zeros((2,), like=x)
    np.sum(x.reshape(2, 3), axis=1, out=y)
    z = np.zeros_like(x)
    np.cumsum(x, out=z)
    np.clip(x, -1.0, 1.0, out=x)
    return np.concatenate([x, y, z])


@case
def ufunc_at(x):
    np.add.at(x, [0, 0, 3], x[:3])
    np.subtract.at(x, [1, 1], 0.5)
    np.multiply.at(x, [2, 2, 4], x[3:])
    np.maximum.at(x, [5, 0], 0.9)
    np.negative.at(x, [1])
    return x


@case
def copyto(x):
    y = np.zeros_like(x)
    np.copyto(y, x * 2)
    np.copyto(y, 1.0, where=np.arange(6) > 3)
    return y


@case
def put_and_relatives(x):
    np.put(x, [0, -1], x[2:4] * 2)
    np.putmask(x, np.arange(6) % 3 == 1, x[0] ** 2)
    np.place(x, np.arange(6) > 3, [x[0], x[1]] if isinstance(x, np.ndarray) else np.stack([x[0], x[1]]))
    a = x.reshape(2, 3)
    np.put_along_axis(a, np.array([[0], [2]]), 4.0 * x[3], axis=1)
    return x


@case
def methods(x):
    y = np.copy(x)
    y.sort()
    z = np.zeros_like(x)
    z.fill(x[0])
    z.put([1, 2], x[:2])
    z.flat[4] = x[5]
    return np.concatenate([x, y, z])


@case
def scalars_rebind(x):
    s = x[0]
    t = s
    s += x[1]
    s *= 2.0
    return np.stack([s, t])


@case
def smoothing(x):
    for _ in range(2):
        x[1:-1] = 0.25 * x[:-2] + 0.5 * x[1:-1] + 0.25 * x[2:]
    return x


@case
def elimination(x):
    a = np.reshape(np.concatenate([x, x[:3] ** 2]), (3, 3)) + 3 * np.eye(3)
    for k in range(2):
        a[k + 1 :, k] /= a[k, k]
        a[k + 1 :, k + 1 :] -= a[k + 1 :, k : k + 1] * a[k, k + 1 :]
    return a


@pytest.mark.parametrize("name", FUNCTIONS)
class TestEveryFunction:
    def test_values_and_first_derivatives(self, name):
        f = FUNCTIONS[name]
        x = X.copy()
        t = np.cos(np.arange(6.0))
        value, tangent = da.jvp(f, (x,), (t,))
        np.testing.assert_allclose(value, f(X))
        differences.compare(tangent, differences.along(f, (X,), (t,)), name)
        np.testing.assert_array_equal(x, X)  # the caller's array is never written
        c = np.sin(np.arange(float(np.size(value)))).reshape(np.shape(value))
        (pulled,) = da.vjp(f, x)[1](c)
        assert np.sum(pulled * t) == pytest.approx(np.sum(c * tangent))

    def test_both_jacobians(self, name):
        f = FUNCTIONS[name]
        np.testing.assert_allclose(da.jacfwd(f)(X), da.jacrev(f)(X), atol=1e-13)

    def test_batches(self, name):
        f = FUNCTIONS[name]
        rows = np.stack([X, X * 1.1, X * 0.9])
        np.testing.assert_allclose(da.vmap(f)(rows), [f(r) for r in rows])
        np.testing.assert_allclose(da.vmap(da.jacrev(f))(rows), [da.jacrev(f)(r) for r in rows], atol=1e-13)
        np.testing.assert_allclose(
            da.jacfwd(lambda r: da.vmap(f, in_axes=1)(r.T))(rows), da.jacrev(lambda r: da.vmap(f)(r))(rows), atol=1e-13
        )

    def test_second_derivatives_and_programs(self, name):
        f = FUNCTIONS[name]

        def scalar(x):
            return np.sum(np.sin(f(x)))

        hessian = da.hessian(scalar)(X)
        np.testing.assert_allclose(hessian, da.jacrev(da.jacfwd(scalar))(X), atol=1e-12)
        step = 1e-5
        for i in range(6):
            e = step * np.eye(6)[i]
            numeric = (da.grad(scalar)(X + e) - da.grad(scalar)(X - e)) / (2 * step)
            np.testing.assert_allclose(hessian[i], numeric, atol=1e-6)
        if name != "value_masks":
            np.testing.assert_allclose(da.trace(f, X)(X * 0.8), f(X * 0.8))


def test_filling_costs_one_write(monkeypatch):
    """n successive writes cost O(n): they are carried out as one scatter, also where entries are read between."""
    sizes = []
    scatter = da.core.tables.OPS["index_set"]
    monkeypatch.setattr(
        scatter, "impl", lambda x, *a, _impl=scatter.impl, **p: sizes.append(x.size) or _impl(x, *a, **p)
    )
    x = np.linspace(0.0, 1.0, 200)
    da.jvp(FUNCTIONS["recurrence"], (x,), (x,))
    assert len(sizes) == 2  # of the primal, and of its tangent
    sizes.clear()
    da.grad(lambda x: np.sum(FUNCTIONS["fill_loop"](x)))(x)
    assert len(sizes) <= 3


def test_writes_of_an_inner_transform_promote_an_outer_buffer():
    def f(x):
        buffer = np.zeros_like(x)

        def g(y):
            buffer[0] = y * x[1]
            return buffer[0] ** 2

        return da.grad(g)(2.0) * x[0]

    np.testing.assert_allclose(da.grad(f)(np.array([3.0, 5.0])), [4 * 25.0, 3 * 4 * 2 * 5.0])


def test_complex_parts_are_views():
    def f(z):
        w = z * 1
        w.real[0] = 3.0
        w.imag *= 2.0
        return w

    z = np.array([1 + 2j, 3 - 1j])
    value, tangent = da.jvp(f, (z,), (np.array([1 + 1j, 2 + 1j]),))
    np.testing.assert_allclose(value, f(z))
    np.testing.assert_allclose(tangent, [2j, 2 + 2j])


AT = {
    "set": (lambda x, v: x.at[1:3].set(v), lambda x, v: np.concatenate([x[:1], v, x[3:]])),
    "add, repeated": (lambda x, v: x.at[[0, 0]].add(v), lambda x, v: np.concatenate([x[:1] + v[0] + v[1], x[1:]])),
    "multiply, repeated": (
        lambda x, v: x.at[[2, 2]].multiply(v),
        lambda x, v: np.concatenate([x[:2], (x[2] * v[0] * v[1])[None], x[3:]]),
    ),
    "divide": (lambda x, v: x.at[:2].divide(v), lambda x, v: np.concatenate([x[:2] / v, x[2:]])),
    "power": (lambda x, v: x.at[2].power(2.0), lambda x, v: np.concatenate([x[:2], x[2:3] ** 2, x[3:]])),
    "min": (lambda x, v: x.at[1:3].min(v), lambda x, v: np.concatenate([x[:1], np.minimum(x[1:3], v), x[3:]])),
    "max": (lambda x, v: x.at[1:3].max(v), lambda x, v: np.concatenate([x[:1], np.maximum(x[1:3], v), x[3:]])),
    "get": (lambda x, v: x.at[1:3].get() * v, lambda x, v: x[1:3] * v),
}


@pytest.mark.parametrize("name", AT)
def test_functional_forms(name):
    functional, plain = AT[name]
    v = np.array([0.4, 1.7])
    for transform in (da.jacfwd, da.jacrev):
        for ours, theirs in zip(transform(functional, (0, 1))(X, v), transform(plain, (0, 1))(X, v), strict=True):
            np.testing.assert_allclose(ours, theirs)


def test_ties_of_functional_minima_are_shared_evenly():
    x, v = da.grad(lambda x, v: np.sum(x.at[0].min(v)), (0, 1))(np.array([2.0, 1.0]), 2.0)
    np.testing.assert_array_equal(x, [0.5, 1.0])
    assert v == 0.5


def test_a_traced_mask_that_selects_entries_for_one_number_keeps_lanes_together():
    def f(x):
        x = np.copy(x)
        x[x > 1] = 0.0
        return x

    rows = np.stack([X, -X])
    np.testing.assert_array_equal(da.vmap(f)(rows), [f(r) for r in rows])
    np.testing.assert_array_equal(da.trace(f, X)(X), f(X))


# ── what is refused ──────────────────────────────────────────────────────────────────────────────────────────────

PLAIN = np.zeros(6)


@pytest.mark.parametrize(
    "write",
    [
        lambda x: PLAIN.__setitem__(0, x[0]),
        lambda x: PLAIN.__setitem__(slice(None), x),
        lambda x: PLAIN.fill(x[0]),
        lambda x: np.copyto(PLAIN, x),
        lambda x: np.add(x, 1.0, out=PLAIN),
        lambda x: np.sum(x, out=PLAIN[0:1]),
        lambda x: PLAIN.__iadd__(x),
    ],
)
def test_a_plain_array_refuses_traced_values_and_stays_as_it_was(write):
    with pytest.raises((PlainBufferError, InPlaceError, da.errors.ConversionError)) as caught:
        da.jvp(lambda x: write(x), (X,), (X,))
    assert "zeros_like" in str(caught.value) or "stop_gradient" in str(caught.value)
    np.testing.assert_array_equal(PLAIN, 0.0)


def test_writes_that_would_lose_something_are_refused():
    def complex_into_real(x):
        x[0] = x[1] * 1j

    def complex_sum(x):
        x += 1j

    for f in (complex_into_real, complex_sum):
        with pytest.raises(InPlaceError):
            da.jvp(lambda x, f=f: f(np.copy(x)) or x, (X,), (X,))


@pytest.mark.parametrize(
    "write",
    [
        lambda y, v: np.put(y, [0, 1], v),
        lambda y, v: y.put([0, 1], v),
        lambda y, v: np.place(y, np.arange(6) < 2, v),
        lambda y, v: np.fill_diagonal(y.reshape(2, 3), v),
        lambda y, v: np.put_along_axis(y, np.arange(2), v, None),
        lambda y, v: y.flat.__setitem__(slice(2), v),
        lambda y, v: y.fill(v[0]),
    ],
)
def test_no_way_of_writing_loses_an_imaginary_part(write):
    for value in (lambda x: x[:2] * 1j, lambda x: np.array([1j, 2j])):
        with pytest.raises(InPlaceError, match="complex"):
            da.jvp(lambda x, value=value: write(np.copy(x), value(x)), (X,), (X,))


def test_put_of_nothing_writes_nothing_and_knows_its_modes():
    def f(x):
        y = np.copy(x)
        for put in (np.put, lambda y, *given: y.put(*given)):
            put(y, [], x)
            put(y, [0, 5], [])
        return y

    np.testing.assert_array_equal(da.jvp(f, (X,), (X,))[1], X)
    with pytest.raises(ValueError, match="mode must be one of"):
        da.jvp(lambda x: np.copy(x).put([0], 1.0, "nonsense"), (X,), (X,))


def test_integers_truncate_and_have_no_derivative():
    def f(x):
        n = np.zeros_like(x, dtype=int)
        n[0] = x[2]
        return n[0] * x[1]

    np.testing.assert_array_equal(da.grad(f)(X), [0, 2, 0, 0, 0, 0])


def test_numpys_own_errors():
    with pytest.raises(ValueError, match="broadcast"):
        da.jvp(lambda x: np.copy(x).__setitem__(slice(2), x), (X,), (X,))
    with pytest.raises(IndexError):
        da.jvp(lambda x: np.copy(x).__setitem__(6, 0.0), (X,), (X,))
    with pytest.raises(TypeError, match="item assignment"):
        da.jvp(lambda x: x[0].__setitem__((), 0.0), (X,), (X,))
    with pytest.raises(ValueError, match="broadcast"):
        da.jvp(lambda x: np.copy(x[0:1]).__iadd__(x), (X,), (X,))


def test_a_mask_with_a_value_per_entry_is_refused_while_unknown():
    with pytest.raises(UnsupportedError, match="mask"):
        da.trace(lambda x: np.copy(x).__setitem__(x > 0, x[:3]), X)


@pytest.mark.parametrize("view", [lambda x: np.broadcast_to(x, (2, 6)), lambda x: np.diagonal(x.reshape(2, 3))])
def test_read_only_views_refuse_writes_as_numpys_do(view):
    def f(x):
        v = view(x)
        v[0] = 1.0
        return x

    for run in (lambda: f(np.copy(X)), lambda: da.jvp(f, (X,), (X,))):
        with pytest.raises(ValueError, match="read-only"):
            run()


def test_resize_and_primal_are_refused():
    with pytest.raises(InPlaceError):
        da.jvp(lambda x: x.resize(3), (X,), (X,))
    with da.dual_level():
        d = da.make_dual(X, X)
        with pytest.raises(ValueError, match="read-only"):
            d.primal[0] = 1.0
        with pytest.raises(AttributeError):
            d.primal = X


def test_the_functional_forms_are_documented():
    assert all(
        getattr(writing.At, n).__doc__ for n in ("get", "set", "add", "multiply", "divide", "power", "min", "max")
    )


def test_an_entry_read_after_its_write_is_a_number_of_numpys():
    def f(x):
        x[0] = 2.5
        entry = x[0]
        assert entry.shape == () and entry.dtype == x.dtype
        return x[1] * entry

    np.testing.assert_array_equal(da.grad(lambda x: f(np.copy(x)))(X), [0, 2.5, 0, 0, 0, 0])


def test_what_was_written_does_not_change_with_its_source():
    """A 0-d array may be written to after its value has gone into another array."""

    def f(x):
        y, s = np.copy(x), np.copy(x[0] * 3.0)
        y[0] = s
        np.add(s, 1.0, out=s)
        y[1] = s
        b = dnp.full((), 2.0)
        y[2] = b
        b[...] = 7.0
        return y

    value, tangent = da.jvp(f, (np.ones(4),), (np.ones(4),))
    np.testing.assert_array_equal(value, [3.0, 4.0, 2.0, 1.0])
    np.testing.assert_array_equal(tangent, [3.0, 3.0, 0.0, 1.0])
