"""ndarray's methods and attributes on tensors, Python's protocols, and NumPy's object arrays, which call methods."""

from __future__ import annotations

import copy
import math
import warnings

import numpy as np
import pytest

import dualad as da
from dualad.batched import Batched
from dualad.core.tracer import Tracer
from dualad.dual import Dual
from dualad.errors import ConversionError, DualadError, InPlaceError, PerformanceNote, UnsupportedError
from dualad.tensors.staged import Staged
from tests.oracles.arrays import close
from tests.oracles.calls import check_call

RNG = np.random.default_rng(5)
X = RNG.normal(size=(3, 4))
V = X[0]
Z = X + 1j * X[::-1]
POSITIVE = X**2 + 0.5

CALLS = {
    "powers of an array": (lambda z: (z**2, z**-1, z**0.5), Z),
    "T": (lambda x: x.T, X),
    "mT": (lambda x: x.mT, X),
    "real": (lambda x: x.real, Z),
    "imag": (lambda x: x.imag, Z),
    "real of real": (lambda x: x.real, X),
    "flat": (lambda x: sum(v * v for v in x.flat) + x.flat[3] + np.sum(x.flat[::2]), X),
    "ravel": (lambda x: x.ravel(), X),
    "ravel F": (lambda x: x.ravel("F"), X),
    "flatten": (lambda x: x.flatten(order="F"), X),
    "squeeze": (lambda x: x[None].squeeze(0), X),
    "swapaxes": (lambda x: x.swapaxes(0, 1), X),
    "transpose": (lambda x: x.transpose(1, 0), X),
    "transpose of a tuple": (lambda x: x.transpose((1, 0)), X),
    "transpose of nothing": (lambda x: x.transpose(), X),
    "reshape": (lambda x: x.reshape(2, -1), X),
    "reshape of a tuple": (lambda x: x.reshape((6, 2), order="F"), X),
    "astype": (lambda x: x.astype(complex), X),
    "copy": (lambda x: x.copy(), X),
    "view": (lambda x: x.view(), X),
    "sum": (lambda x: x.sum(), X),
    "sum axis": (lambda x: x.sum(1, keepdims=True), X),
    "prod": (lambda x: x.prod(axis=0), X),
    "mean": (lambda x: x.mean(0), X),
    "var": (lambda x: x.var(axis=1, ddof=1), X),
    "std": (lambda x: x.std(), X),
    "min": (lambda x: x.min(axis=0), X),
    "max": (lambda x: x.max(), X),
    "cumsum": (lambda x: x.cumsum(1), X),
    "cumprod": (lambda x: x.cumprod(axis=0), X),
    "clip": (lambda x: x.clip(-0.5, 0.5), X),
    "clip one side": (lambda x: x.clip(max=0.25), X),
    "round": (lambda x: x + x.round(), np.floor(3 * X) + 0.3),
    "conj": (lambda x: x.conj(), Z),
    "conjugate": (lambda x: x.conjugate(), Z),
    "diagonal": (lambda x: x.diagonal(1), X),
    "trace": (lambda x: x.trace(), X),
    "dot": (lambda x: x.dot(x[0]), X),
    "take": (lambda x: x.take([0, 0, 2], axis=1), X),
    "compress": (lambda x: x.compress([True, False, True], axis=0), X),
    "repeat": (lambda x: x.repeat(2, axis=0), X),
    "sqrt": (lambda x: x.sqrt() if isinstance(x, Tracer) else np.sqrt(x), POSITIVE),
    "to_device": (lambda x: x.to_device("cpu"), X),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_call(name):
    check_call(name, *CALLS[name])


QUESTIONS = {
    "argmin": lambda x: x.argmin(),
    "argmax": lambda x: x.argmax(axis=-1),
    "argsort": lambda x: x.argsort(0),
    "all": lambda x: x.all(),
    "any": lambda x: x.any(axis=0),
    "searchsorted": lambda x: x.ravel().searchsorted([0.2, -0.1]),
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_questions_have_no_tangent(name):
    f = QUESTIONS[name]
    x = np.sort(X)
    value, tangent = da.jvp(f, (x,), (x,))
    close(value, f(x), "value")
    assert tangent.dtype == da.float0
    close(da.vmap(f)(x), np.stack([f(row) for row in x]), "vmap")


def test_choose():
    """An integer array that chooses is a tensor under vmap; a plain one takes traced choices through np.choose."""
    i = np.array([[0, 1, 1, 0], [1, 1, 1, 0]])
    close(da.vmap(lambda i: i.choose([V, -V], mode="clip"))(i), np.stack([k.choose([V, -V]) for k in i]), "choose")


def test_nonzero():
    value = da.jvp(lambda x: x[(x > 0).nonzero()], (X,), (X,))[1]
    close(value, X[X > 0], "entries")


NOT_ON_TENSORS = {
    "byteswap", "ctypes", "data", "dump", "dumps", "flags", "getfield", "setfield", "setflags", "strides", "tobytes",
    "tofile", "tostring", "base",
}  # fmt: skip


def test_every_method_of_ndarray_is_there_or_named_here():
    # Some releases list methods that were removed, and refuse to give them.
    public = {n for n in dir(np.ndarray) if not n.startswith("_") and hasattr(np.ones((2, 2)), n)}
    for kind in (Dual, Batched, Staged):
        assert public - set(dir(kind)) == NOT_ON_TENSORS & public


# ── in place ─────────────────────────────────────────────────────────────────────────────────────────────────────


def in_place(method):
    """Make a function of x that calls a method of a copy of x and returns that copy."""

    def f(x):
        y = x * 1.0
        method(y)
        return y

    return f


WRITES = {
    "sort": lambda y: y.sort(),
    "sort axis": lambda y: y.sort(axis=0),
    "put": lambda y: y.put([0, 5, -1], [1.0, 2.0]),
    "put clip": lambda y: y.put([99], 3.0, mode="clip"),
    "fill": lambda y: y.fill(2),
    "partition": lambda y: y[0].partition(2),
}


@pytest.mark.parametrize("name", WRITES)
def test_writing_methods(name):
    check_call(name, in_place(WRITES[name]), X)


def test_writes_through_flat_and_parts():
    def f(x):
        y = x * 1.0
        y.flat[::2] = x[0, 0]
        return y

    check_call("flat", f, X)

    def g(x):
        y = x * 1.0
        y.T.flat[1] = 0.0
        y.imag = 2.0
        return y

    check_call("imag", g, Z)

    def h(x):
        y = x * 1.0
        y.real.fill(1.0)
        return y

    check_call("a view of the real part", h, Z)
    with pytest.raises(TypeError, match="imaginary part"):
        da.jvp(in_place(lambda y: setattr(y, "imag", 1.0)), (X,), (X,))


def test_refusals_teach():
    with pytest.raises(InPlaceError, match=r"np\.resize"):
        da.jvp(in_place(lambda y: y.resize((2, 2))), (X,), (X,))
    with pytest.raises(UnsupportedError, match=r"astype"):
        da.jvp(lambda x: x.view(np.int64), (X,), (X,))
    with pytest.raises(TypeError, match="Cannot cast"):
        da.jvp(lambda x: x.astype(int, casting="safe"), (X,), (X,))


# ── Python's protocols ───────────────────────────────────────────────────────────────────────────────────────────


def test_divmod():
    check_call("divmod", lambda x: divmod(x, 0.7)[1], X)
    check_call("rdivmod", lambda x: divmod(2.5, x)[1], POSITIVE)


def test_contains():
    seen = []
    da.jvp(lambda x: seen.extend([X[0, 0] in x, 99.0 in x]) or x, (X,), (X,))
    assert seen == [True, False]
    with pytest.raises(DualadError):
        da.trace(lambda x: x if 1.0 in x else -x, X)


@pytest.mark.parametrize("copying", [copy.copy, copy.deepcopy])
def test_copying(copying):
    check_call("copy", lambda x: copying(x) * x, X)


@pytest.mark.parametrize("f", [math.floor, math.ceil, math.trunc, round, lambda x: round(x, 1)])
def test_rounding_protocols(f):
    seen = []
    da.jvp(lambda x: (seen.append(f(x)), x)[1], (2.625,), (1.0,))
    assert seen[0] == f(2.625)
    assert type(seen[0]) is type(f(2.625)) or isinstance(seen[0], float)
    if f in (math.floor, math.ceil, math.trunc):
        with pytest.raises(TypeError):
            da.jvp(lambda x: f(x), (V,), (V,))


def test_lists_of_tensors_compute():
    """np.array([d0, d1]) is an object array, whose entries NumPy computes with by calling their methods."""

    def f(x):
        a = np.array([x[0], x[1] * x[0], -x[2]])
        return np.sum(np.sqrt(np.exp(a)) * np.hypot(a, 1.0)) + np.arctan2(a, 2.0)[1]

    def g(x):
        a = np.stack([x[0], x[1] * x[0], -x[2]])
        return np.sum(np.sqrt(np.exp(a)) * np.hypot(a, 1.0)) + np.arctan2(a, 2.0)[1]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PerformanceNote)
        value, tangent = da.jvp(f, (V,), (V,))
    expected = da.jvp(g, (V,), (V,))
    close((value, tangent), expected, "object array")


def test_lists_of_complex_tensors_are_written():
    def f(z):
        out = z.copy()
        both = [z[1], z[0]]
        for write in (
            lambda: out.flat.__setitem__([0, 1], both), lambda: np.put(out, [0, 1], both),
            lambda: out.__setitem__([0, 1], both), lambda: np.put_along_axis(out, np.array([0, 1]), both, None),
        ):  # fmt: skip
            out[...] = 0
            write()
        return out

    z = np.array([1.0 + 2j, 3.0 - 1j])
    for value in da.jvp(f, (z,), (z,)):
        np.testing.assert_array_equal(value, z[::-1])


@pytest.mark.parametrize("n", [2, -1, 0.5, 2.0, -1.0, 3])
def test_powers_of_complex_numbers_are_those_of_numpys_operator(n):
    def written(z):
        z **= n
        return z

    z = np.array([[0, -1, 1j, complex(-1, -0.0), np.inf, complex(-np.inf, 1), 1j * np.inf, 3 + 4j]])
    with np.errstate(all="ignore"):
        for f in (lambda z: z**n, lambda z: written(z.copy())):
            for transform in (da.jit, da.vmap, lambda f: lambda z: da.jvp(f, (z,), (z,))[0]):
                np.testing.assert_array_equal(transform(f)(z), f(z))


@pytest.mark.parametrize("name", [n for n in dir(np.ndarray) if callable(getattr(np.ndarray, n)) and n[0] != "_"])
def test_methods_of_numpys_class_say_what_to_write(name):
    x = np.ones(3)
    for transform in (lambda f: da.jvp(f, (x,), (x,)), lambda f: da.vmap(f)(np.ones((2, 3))), lambda f: da.jit(f)(x)):
        with pytest.raises(ConversionError, match=rf"numpy\.ndarray\.{name} was called on a tensor") as caught:
            transform(lambda y: getattr(np.ndarray, name)(y))
        assert f"x.{name}" in caught.value.instead
    with pytest.raises(ConversionError, match="__add__"):
        da.jvp(lambda y: np.ndarray.__add__(y, 1.0), (x,), (x,))
