"""Buffers: preallocated loops written with ``import dualad.numpy as np``, unchanged under every transform.

Each program runs on plain arrays (there it is NumPy's), and its derivatives are compared with central differences of
that, forwards, backwards, batched, nested and traced. Not for: how creation functions parse their arguments
(``tests/test_numpy_namespace.py``).
"""

from __future__ import annotations

import threading

import numpy as onp  # noqa: ICN001 - np is the namespace under test
import pytest

import dualad as da
import dualad.numpy as np
from dualad.errors import EscapedTensorError, InPlaceError
from dualad.memory.buffer import Buffer

POINT = onp.array([0.7, 1.3])


# ── programs ─────────────────────────────────────────────────────────────────────────────────────────────────────


def fill_loop(x):
    out = np.zeros(4)
    for i in range(4):
        out[i] = np.sin(x[i % 2]) * i if i else 1.0
    return out


def constant_changed_after_use(x):
    c = np.ones(2)
    y = c * x
    c[0] = 100.0
    c *= 2.0
    return y.sum() * c[0] + np.sum(c)


def views_of_views(x):
    b = np.zeros(4)
    v = b[1:3]
    w = b.reshape(2, 2).T
    r = b[::-1]
    q = v[:1]
    v[0] = x[0]
    w[1, 1] = x[1]
    r[0] += x[0] * x[1]
    q *= 3.0
    b[2] = 7.0
    v *= 2
    return b + v.sum() + w[0, 0] * w[1, 0] + r


def rows_and_parts(x):
    b = np.zeros((2, 3))
    rows = list(b)
    a, c = np.split(b, [1], axis=1)
    rows[0][1] = x[0]
    a[1, 0] = x[1]
    c[:, 1] = x
    np.fill_diagonal(b[:, :2], x[0] * 2)
    b.T[2] = 5.0 * x
    return b.sum(axis=0) + rows[1]


def functions_that_write(x):
    b = np.ones(5)
    np.copyto(b[:2], x)
    np.put(b, [3], x[0] ** 2)
    np.add(b, 1.0, out=b)
    np.multiply(b, x[1], out=b)
    np.add.at(b, [0, 0, 4], x[0])
    b[b > 100] = 0.0
    c = np.zeros(5)
    np.add.at(c, [0, 0], 1.0)
    np.sin(x[0] * np.ones(5), out=c)
    d = np.empty(2)
    d.fill(2.0)
    d[:] = [x[0], 3.0]
    np.putmask(d, d > 1e6, 0.0)
    return b + c + d.sum()


def masks_and_indices(x):
    b = np.arange(4.0)
    m = b > 1.5
    b[m] = x[0]
    b[[0, 1]] = x
    b[np.array([True, False, False, False])] *= 3.0
    index = np.zeros(2, int)
    index[0] = 1
    n = np.arange(3)
    return (
        b[np.where(m)[0]] * np.sum(b[m]) + b[:2] + x[index] * n[index] + np.repeat(x, n[:2] + 1)[1:3] + np.roll(x, n[1])
    )


def augmented(x):
    b = np.zeros(3)
    b[0] += x[0]
    b[1:] += x
    b *= x[1]
    b **= 2
    b[0] /= 3
    total = 0.0
    for v in b:
        total = total + v
    return b * total


def construction(x):
    a = np.array([x[0], 1.0])
    m = np.array([[x[0], 2], [3, x[1]]])
    z = np.asarray([a, x])
    f = np.full((2,), x[0])
    q = np.r_[x[0], 1.0, x, 0:2]
    c = np.c_[x, np.ones(2)]
    return np.linalg.inv(m) @ a + z.sum(0) + f + q.sum() + c[0] + np.sum([x[0], x[1]]) + np.max([x[0], 3.0])


def transforms_inside(x):
    buf = np.zeros(2)
    buf[0] = 1.5
    value, tangent = da.jvp(lambda y: y * x, (buf,), (np.ones(2),))
    _, pull = da.vjp(lambda y: y * x + np.ones(2), buf)
    (g,) = pull(np.ones(2))
    lanes = da.vmap(lambda y: y * x[0])(buf)
    outer = np.zeros(2)

    def inner(y):
        z = np.zeros(2)
        z[0] = y * x[0]
        z[1] = x[1]
        return np.sum(z**2) + np.sum(outer * y)

    outer[1] = x[1]
    return value + tangent * g + lanes + da.grad(inner)(x[1]) + buf


def copies_and_results(x):
    a = np.zeros(3)
    a[:2] = x
    b = a.copy()
    b[0] = 9.0
    c = np.copy(a)
    c[2] = x[0]
    d = np.zeros_like(a)
    d[1] = x[1] * 2
    e = np.eye(3)
    e[0] = a
    g = np.diag(np.ones(3)).copy()
    g[1, 1] = x[1]
    ramp = np.linspace(0, 1, 3)
    ramp[1] = x[0]
    z = np.zeros(3, dtype=np.float64)
    z[0] = np.float64(x[0])
    s = np.array(2.0)
    s += x[0]
    u = np.tile(np.ones(1), 3)
    u[0] = x[0]
    each = np.vectorize(lambda t: t * t)(a)
    return a * b + c + d + e.sum(0) + g @ a + ramp + z + s + u + np.mean(np.ones(3)) + float(np.ones(3).sum()) + each


def filter_step(x):
    P = np.eye(2)
    history = []
    for _ in range(3):
        K = P @ x / (x @ P @ x + 1.0)
        P = (np.eye(2) - np.outer(K, x)) @ P
        history.append(P[0, 0])
    out = np.empty(3)
    out[:] = history
    return out


def sorting(x):
    b = np.array([3.0, 1.0, 2.0])
    b.sort()
    b[0] = x[0] * 5
    b[1:] = x
    b.sort()
    for i, v in np.ndenumerate(b):
        b[i] = v * 2
    return b


def zero_dimensional(x):
    s = np.zeros(())
    s[...] = x[0]
    return s * np.ones(2)


PROGRAMS = [
    fill_loop, constant_changed_after_use, views_of_views, rows_and_parts, functions_that_write, masks_and_indices,
    augmented, construction, transforms_inside, copies_and_results, filter_step, sorting, zero_dimensional,
]  # fmt: skip


def differences(f, x, h=1e-5):
    return onp.stack([(f(x + h * e) - f(x - h * e)) / (2 * h) for e in onp.eye(x.size)], axis=-1)


@pytest.fixture(params=PROGRAMS, ids=lambda f: f.__name__)
def program(request):
    return request.param


def test_outside_it_is_numpy(program):
    assert type(program(POINT)) in (onp.ndarray, onp.float64)


def test_forward_and_reverse(program):
    value, tangent = da.jvp(program, (POINT,), (onp.ones(2),))
    J = differences(program, POINT)
    assert type(value) is type(tangent)
    assert type(value) in (onp.ndarray, onp.float64)
    assert type(value) is onp.float64 or value.flags.writeable
    onp.testing.assert_allclose(value, program(POINT), rtol=1e-14)
    onp.testing.assert_allclose(tangent, J @ onp.ones(2), rtol=1e-6, atol=1e-7)
    onp.testing.assert_allclose(da.jacfwd(program)(POINT), J, rtol=1e-6, atol=1e-7)
    onp.testing.assert_allclose(da.jacrev(program)(POINT), J, rtol=1e-6, atol=1e-7)


def squares(program):
    return lambda x: onp.sum(program(x) ** 2)


def test_second_order(program):
    f = squares(program)
    expected = differences(da.grad(f), POINT)
    for hessian in (da.hessian(f), da.jacfwd(da.jacfwd(f)), da.jacrev(da.jacrev(f)), da.jacrev(da.jacfwd(f))):
        onp.testing.assert_allclose(hessian(POINT), expected, rtol=1e-5, atol=1e-6)


def test_batched_and_nested(program):
    f = squares(program)
    X = onp.stack([POINT, POINT * 1.1, POINT + 0.3])
    onp.testing.assert_allclose(da.vmap(program)(X), onp.stack([program(x) for x in X]), rtol=1e-12)
    expected = onp.stack([da.grad(f)(x) for x in X])
    onp.testing.assert_allclose(da.vmap(da.grad(f))(X), expected, rtol=1e-10)
    onp.testing.assert_allclose(da.grad(lambda X: onp.sum(da.vmap(f)(X)))(X), expected, rtol=1e-10)


def test_traced(program):
    traced = da.trace(program, POINT)
    onp.testing.assert_allclose(traced(POINT * 1.05), program(POINT * 1.05), rtol=1e-12)


def random_program(seed):
    """Make a program of twelve random views of one array, writes through them, and plain and traced updates."""
    generator = onp.random.default_rng(seed)
    steps = [(int(generator.integers(9)), int(generator.integers(1000)), generator.normal()) for _ in range(12)]

    def program(x):
        views = [np.zeros((3, 4))]
        for kind, k, c in steps:
            v = views[k % len(views)]
            match kind:
                case 0:
                    views.append(v.T)
                case 1 if v.shape[0] > 1:
                    views.append(v[1:])
                case 2 if v.ndim > 1:
                    views.append(v[k % v.shape[0]])
                case 3:
                    views.append(v[::-1])
                case 4:
                    views.append(v.reshape(-1))
                case 5:
                    v[k % v.shape[0]] = c
                case 6:
                    v[k % v.shape[0]] = x[k % 2] * c
                case 7:
                    v += c
                case 8:
                    v *= x[k % 2]
        return np.concatenate([np.ravel(v) for v in views])

    return program


@pytest.mark.parametrize("seed", range(40))
def test_random_views_and_writes(seed):
    program = random_program(seed)
    expected = differences(program, POINT)
    onp.testing.assert_allclose(da.jvp(program, (POINT,), (POINT,))[0], program(POINT), rtol=1e-12)
    onp.testing.assert_allclose(da.jacfwd(program)(POINT), expected, rtol=1e-6, atol=1e-7)
    onp.testing.assert_allclose(da.jacrev(program)(POINT), expected, rtol=1e-6, atol=1e-7)
    lanes = da.vmap(program)(onp.stack([POINT, 2 * POINT]))
    onp.testing.assert_allclose(lanes[1], program(2 * POINT), rtol=1e-10, atol=1e-12)


# ── what it is, and what it refuses ──────────────────────────────────────────────────────────────────────────────


def test_plain_results_leave_as_plain_arrays():
    def f(x):
        b = np.zeros(3)
        return b, b[1:], {"a": np.ones(2)}, x

    value, tangent = da.jvp(f, (1.0,), (1.0,))
    assert [type(v) for v in (*value[:2], value[2]["a"])] == [onp.ndarray] * 3
    assert tangent[0].tolist() == [0.0, 0.0, 0.0]
    _, aux = da.grad(lambda x: (x * 2, np.ones(2)), has_aux=True)(1.0)
    assert type(aux) is onp.ndarray


def test_inside_a_buffer_computes_as_its_array():
    def f(x):
        b = np.arange(6.0).reshape(2, 3)
        plain = onp.arange(6.0).reshape(2, 3)
        assert isinstance(b, Buffer)
        assert isinstance(b + 1, Buffer)
        assert isinstance(b, np.ndarray)
        for name in ("sum", "mean", "max", "argmax", "cumsum", "std", "ravel", "copy", "tolist", "round"):
            assert onp.array_equal(getattr(b, name)(), getattr(plain, name)())
        assert b[1, 2] == 5.0
        assert type(b[1, 2]) is onp.float64
        assert float(b[0, 1]) == 1.0
        assert str(b) == str(plain)
        assert repr(b) == repr(plain).replace("array", "Buffer")
        assert b.flags.c_contiguous
        assert onp.linalg.norm(b) == onp.linalg.norm(plain)
        assert [list(row) for row in b] == plain.tolist()
        assert (b > 2).sum() == 3
        assert plain[np.array([1])].tolist() == [[3.0, 4.0, 5.0]]
        assert list(range(np.arange(3)[2])) == [0, 1]
        return x

    da.grad(f)(1.0)
    assert type(np.arange(3)) is onp.ndarray


@pytest.mark.plain
@pytest.mark.parametrize(
    "write", [lambda b, x: b.__setitem__(0, x), lambda b, x: b.__iadd__(x), lambda b, x: np.copyto(b, x)]
)
def test_memory_that_numpy_holds_is_not_left_stale(write):
    def held(x):
        b = np.zeros(2)
        a = onp.asarray(b)
        write(b, x)
        return a.sum()

    def let_go(x):
        b = np.zeros(2)
        total = onp.asarray(b).sum()
        write(b, x)
        return total + b[0]

    def diagonal(x):
        b = np.zeros((2, 2))
        d = np.diagonal(b)
        write(b[0], x)
        return d.sum()

    for f in (held, diagonal):
        with pytest.raises(InPlaceError, match="was written to while"):
            da.grad(f)(1.0)
    assert da.grad(let_go)(1.0) == 1.0


def test_a_copy_that_numpy_holds_is_read_only():
    def f(x):
        onp.asarray(np.zeros(2))[0] = 1.0
        return x

    with pytest.raises(ValueError, match="read-only"):
        da.grad(f)(1.0)


@pytest.mark.parametrize(("dtype", "factor"), [(int, 1.0), (float, 1j)])
def test_what_a_buffer_cannot_hold_is_refused(dtype, factor):
    def f(x):
        b = np.zeros(2, dtype)
        b[0] = x * factor
        return x

    with pytest.raises(InPlaceError, match="wider dtype"):
        da.grad(f)(1.0)


def test_float32_stays():
    def f(x):
        b = np.zeros(2, dtype=np.float32)
        b[0] = x
        return b

    value, tangent = da.jvp(f, (2.0,), (1.0,))
    assert value.dtype == tangent.dtype == onp.float32


@pytest.mark.filterwarnings("ignore::dualad.boundary.swallowed.RefusalSwallowedWarning")
def test_the_callers_arrays_are_not_written():
    data = onp.arange(3.0)

    def f(x):
        own = np.array(data)
        own[0] = 5.0
        own[1] = x
        with pytest.raises(ValueError, match="array element"):
            np.asarray(data)[1] = x
        return own.sum()

    assert da.grad(f)(1.0) == 1.0
    assert data.tolist() == [0.0, 1.0, 2.0]


def test_a_pullback_keeps_what_the_function_read():
    kept = []

    def f(x):
        c = np.ones(2)
        kept.append(c)
        return c * x

    _, pull = da.vjp(f, POINT)
    kept[0][:] = 100.0
    assert pull(onp.ones(2))[0].tolist() == [1.0, 1.0]


def test_after_the_transform():
    kept = []

    def f(x):
        traced, plain = np.zeros(2), np.ones(2)
        traced[0] = x
        traced = traced * 1.0
        kept.extend([traced, plain])
        return plain, x

    (value, _), _ = da.jvp(f, (1.0,), (1.0,))
    with pytest.raises(EscapedTensorError, match="jvp"):
        kept[0] + 1
    kept[1][0] = 5.0
    assert value.tolist() == [1.0, 1.0]
    assert (kept[1] + onp.ones(2)).tolist() == [6.0, 2.0]


def test_user_levels_and_threads():
    with da.dual_level():
        b = np.zeros(2)
        b[0] = da.make_dual(2.0, 1.0)
        assert da.unpack_dual(b * b).tangent.tolist() == [4.0, 0.0]
    seen = []

    def f(x):
        thread = threading.Thread(target=lambda: seen.append(type(np.zeros(1))))
        thread.start()
        thread.join()
        return x

    da.grad(f)(1.0)
    assert seen == [onp.ndarray]  # another thread is in no transform
    with pytest.raises(ZeroDivisionError):
        da.grad(lambda x: x / np.zeros(1)[0] if 1 // 0 else x)(1.0)
    assert type(np.zeros(2)) is onp.ndarray


def test_plain_values_written_at_traced_indices() -> None:
    """Only the selected entries change, whether the lanes agree or not, and the functional result is NumPy's."""
    a = onp.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])

    def filled(namespace, x, where):
        out = namespace.full(3, 0.5)
        out[where(x)] = 7.0
        return out

    for where in (
        lambda x: x > 10.0,
        lambda x: x > 3.5,
        lambda x: x > 1.5,
        lambda x: onp.argmax(-onp.abs(x - 2.2)),
        lambda x: onp.argsort(onp.sin(x))[:2],
    ):
        expected = [filled(onp, row, where) for row in a]
        assert onp.array_equal(da.vmap(lambda x, w=where: filled(np, x, w))(a), expected)
        program = da.trace(lambda x, w=where: filled(np, x, w), a[0])
        assert onp.array_equal(program(a[1]), expected[1])


# ── a function at a time ─────────────────────────────────────────────────────────────────────────────────────────


def some_outputs(x):
    b, q = np.array([5.0, 7.5]), np.zeros(2)
    given, rest = onp.divmod(b, 2.0, out=(q, None))
    assert given is q
    rest[0] = x[0]  # a buffer, too
    total = np.zeros(())
    assert b.sum(out=total) is total
    plain = onp.zeros(())
    assert b.sum(out=plain) is plain
    return q + rest + total + plain


def memory_left_behind(x):
    """A tensor that read the memory keeps it; what is written next goes elsewhere, and the views follow."""
    b = np.zeros(4)
    v = b[1:]
    w = v[1:].reshape(2, 1)
    y = (b + 1.0) * x[0]
    z = b * x[1]
    b[2] = 5.0
    first = w[0, 0] + v[1]
    w[1, 0] = 7.0
    v[0] = 3.0
    return first + y + z + b * 10.0


def objects_written(x):
    b = np.zeros(3)
    objects = onp.empty(2, object)
    objects[:] = [x[0], 2.0]
    b[:2] = objects
    b[2] = [[x[1]]][0][0]
    return b


def named_results(x):
    found = onp.linalg.eigh(np.array([[2.0, 1.0], [1.0, 3.0]]))
    found.eigenvectors[0, 0] = x[0]
    found[0][1] = x[1]
    return found.eigenvectors + found.eigenvalues


def outputs_and_options(x):
    b, c = np.zeros(4), np.zeros(2)
    assert onp.concatenate([x, 2.0 * x], out=b) is b
    onp.add(x, 1.0, out=c, where=np.array([True, False]))
    return b + onp.sum(onp.stack([c, x]), axis=0, where=np.array([[True, False], [True, True]]))[0]


ONE_AT_A_TIME = [some_outputs, memory_left_behind, objects_written, named_results, outputs_and_options]


@pytest.mark.parametrize("program", ONE_AT_A_TIME, ids=lambda f: f.__name__)
@pytest.mark.filterwarnings("ignore:np.array")
def test_one_at_a_time(program):
    value, tangent = da.jvp(program, (POINT,), (onp.ones(2),))
    onp.testing.assert_allclose(value, program(POINT))
    h = 1e-6
    onp.testing.assert_allclose(tangent, (program(POINT + h) - program(POINT - h)) / (2 * h), atol=1e-8)
    onp.testing.assert_allclose(da.jacrev(program)(POINT).sum(-1), tangent)
