"""New arrays of lifted code: buffers in lines that need them, NumPy's own in all others from the second call on."""

from __future__ import annotations

import copy
import gc
import inspect
import math
import pickle
import sys
import types

import numpy as np
import pytest

import dualad as da
from dualad.core.tracer import Tracer
from dualad.memory.buffer import Buffer
from dualad.memory.lines import DIRECTLY, making
from dualad.numpy.direct import _extension, direct, is_direct

X = np.array([1.5, 2.0, 0.5])

needs_extension = pytest.mark.skipif(not is_direct(), reason="the extension was not built")


def fresh(f):
    """Return a function of which nothing is known."""
    return types.FunctionType(f.__code__.replace(), f.__globals__, f.__name__, f.__defaults__, f.__closure__)


def made(x, held):
    out = np.zeros(3)
    held.append(np.zeros(3))
    held.append(np.array([1.0, 2.0]))
    held.append(np.linspace(0.0, 1.0, 4))
    held.append(np.ones_like(held[0]))
    out[0], out[1] = x[0] * x[1], x[2]
    return out @ (held[0] + 2.0) + held[2].sum()


@needs_extension
def test_lines_that_need_no_buffers_make_arrays() -> None:
    f, first, second = fresh(made), [], []
    for held in (first, second):
        np.testing.assert_allclose(da.grad(lambda x, held=held: f(x, held))(X), [4.0, 3.0, 2.0])
    assert [isinstance(x, Tracer) for x in second] == [False] * 4
    assert any([isinstance(x, Tracer) for x in first])  # by which the lines were found


def computed(x, n):
    a = np.ones(3)
    b = (2.0 * a).reshape(1, 3)
    if n:
        b[0, 1] = x[1] ** 2
    c = np.concatenate([np.arange(2.0), np.full(2, 0.5)])[1:].copy()
    c[-1] = x[0] * 3
    return b.sum() + c @ np.array([0.0, 1.0, 2.0]) + float(x[2])


@needs_extension
@pytest.mark.parametrize("order", [(0, 1, 0, 1, 1), (1, 0, 1), (1, 1)])
def test_what_is_computed_of_an_array_marks_its_line(order) -> None:
    f, runs = fresh(computed), 0

    def counted(x, n):
        nonlocal runs
        runs += 1
        return f(x, n)

    for n in order:
        got = da.grad(counted)(X, n)
        np.testing.assert_allclose(got, [6.0, 4.0 * n, 1.0])
    runs = 0
    da.grad(counted)(X, 1)
    assert runs == 1  # all lines are known by now


def looked_up(x, i):
    table = np.array([[1.0, 2.0], [3.0, 4.0]])
    row = table[i]
    count = np.zeros(2)
    count[i] = 1.0
    return (row * x[:2]).sum() + count @ x[:2]


def test_traced_indices_of_arrays() -> None:
    f = fresh(looked_up)
    index = np.array([0, 1, 1])
    for _ in range(3):
        got = da.vmap(da.grad(f), in_axes=(None, 0))(X, index)
        np.testing.assert_allclose(got, np.array([[2.0, 2.0, 0.0], [3.0, 5.0, 0.0], [3.0, 5.0, 0.0]]))
        np.testing.assert_allclose(da.grad(f)(X, 1), [3.0, 5.0, 0.0])


def caught(x, n):
    a = np.zeros(2)
    try:
        a[n] = x[0]
    except (TypeError, ValueError):
        a[n] = -1.0
    b = np.zeros(2)
    if n:
        try:
            b[0] = x[1]
        except (TypeError, ValueError):
            b[0] = -1.0
    return a.sum() + b.sum()


def test_a_caught_refusal_marks_the_line() -> None:
    f = fresh(caught)
    for n in (0, 0, 1, 1, 0):
        np.testing.assert_allclose(da.grad(f)(X, n), [1.0, n, 0.0])


def test_code_that_is_refused_for_another_reason_runs_with_buffers_again() -> None:
    def f(x):
        a = np.zeros(1)
        a[0] = x[0]
        return a[0] if x[1] > 1.0 else np.zeros(2)[x[2]]  # no index

    g = fresh(f)
    assert da.grad(g)(X)[0] == 1.0 == da.grad(g)(X)[0]
    for _ in range(2):
        with pytest.raises((da.errors.ConversionError, IndexError)):
            da.grad(g)(np.array([1.0, 0.5, 0.5]))
    assert da.grad(g)(X)[0] == 1.0


def named(x):
    held.append(
        (isinstance(1.0, float), isinstance(1, (int, np.ndarray)), math.hypot(3.0, 4.0), float("2"), complex(1, 2))
    )
    held.append((np.zeros(2, float).dtype, np.array([1, 2], dtype=np.float32).dtype, np.full(2, 1j, complex).dtype))
    out = np.empty(2)
    out[:] = 0.0
    out[0] = math.sin(x)
    return out.sum()


held: list = []


def test_types_that_stand_for_others_are_given_as_these() -> None:
    f = fresh(named)
    for _ in range(3):
        held.clear()
        assert da.grad(f)(0.5) == pytest.approx(math.cos(0.5))
        assert held[-2:] == [(True, True, 5.0, 2.0, 1 + 2j), (np.float64, np.float32, np.complex128)]
        assert [type(x) for x in held[-2]] == [bool, bool, float, float, complex]


class _Own(float):
    def twice(self):
        return _Own(2 * self)


def derived(x):
    class Local(float):
        def half(self):
            return Local(self / 2)

    a = Local(3.0)
    held.append((type(a.half()) is Local, isinstance(a, float), isinstance(2.0, Local), _Own(2.0).twice()))
    return float(x) * a + complex(x).real


def test_classes_derived_of_float() -> None:
    f = fresh(derived)
    for _ in range(2):
        held.clear()
        assert da.grad(f)(2.0) == 4.0
        assert held[-1:] == [(True, True, False, 4.0)] and type(held[-1][-1]) is _Own


# ── the extension ────────────────────────────────────────────────────────────────────────────────────────────────


def test_functions_are_told_apart_pickled_and_described() -> None:
    for function in (da.numpy.zeros, da.numpy.array, da.numpy.ascontiguousarray):
        assert copy.deepcopy(function) is function
    assert pickle.loads(pickle.dumps(da.numpy.array)) is da.numpy.array
    assert da.numpy.array.__name__ == "array" and "object" in inspect.signature(da.numpy.array).parameters
    assert da.numpy.linspace.__doc__ == np.linspace.__doc__


@needs_extension
def test_what_is_plain_goes_to_the_original() -> None:
    class Vector(list):
        pass

    calls: list[str] = []
    f = direct(lambda *args, **kwargs: calls.append("original"), lambda *args, **kwargs: calls.append("ours"), False)
    deep: list = []
    for _ in range(20):
        deep = [deep]
    tensor = Buffer(np.zeros(2))
    objects = np.array([tensor, 1], object)
    plain = [(), (1, 2.0, 1j, True, None, "a"), (np.zeros(2), np.float64(1)), ([1, (2.0, [3])],), (float, slice(1))]
    ours = [(tensor,), ([1, (2, tensor)],), (objects,), (Vector(),), (deep,), tuple(range(40)), ({"a": 1},)]
    for args in plain:
        f(*args)
    f(1, dtype=np.dtype(float), axis=(0, 1))
    assert calls == ["original"] * 6
    for args in ours:
        f(*args)
    f(1, where=tensor)
    assert calls[6:] == ["ours"] * 8


@needs_extension
def test_errors_and_references() -> None:
    def fails(*args):
        raise KeyError(args)

    f = direct(fails, fails)
    with pytest.raises(KeyError):
        f(1)
    x = [1.0, 2.0]
    before = sys.getrefcount(x)
    token = making.set(DIRECTLY)
    try:
        for _ in range(100):
            assert type(da.numpy.array(x)) is np.ndarray
    finally:
        making.reset(token)
    assert sys.getrefcount(x) == before
    mark = _extension().mark
    code = (lambda: None).__code__.replace()
    assert [mark(code, at) for at in (2, 4, 2, 6, 4)] == [True, True, False, True, False]
    with pytest.raises(TypeError):
        mark(f, 0)
    del code
    gc.collect()
