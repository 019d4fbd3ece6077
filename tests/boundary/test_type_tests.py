"""Code that asks for the type of what it was given goes the way that it goes without a transform.

Random programs are held against plain NumPy and its central differences; each test has another formula on either side,
so a wrong answer is a wrong number. Not for: what is refused and lifted (tests/lift/test_by_itself.py).
"""

from __future__ import annotations

import functools
import numbers
import random
import threading
import types
from collections.abc import Iterable, Sequence, Sized

import numpy as np
import pytest

import dualad as da
from dualad.boundary.type_tests import users_of
from tests.oracles import differences

_TESTS = (
    "isinstance({x}, np.ndarray)",
    "isinstance({x}, (np.ndarray, float))",
    "isinstance({x}, float)",
    "isinstance({x}, (int, float))",
    "isinstance({x}, np.floating)",
    "isinstance({x}, np.generic | float)",
    "isinstance({x}, numbers.Real)",
    "isinstance({x}, Iterable)",
    "isinstance({x}, (Sized, str))",
    "isinstance({x}, Sequence)",
    "{x}.__class__ is np.ndarray",
    "type({x}) is float",
    "type({x}) is not np.ndarray",
    "type({x}) in (float, np.float64)",
    "type({x}) == np.float64",
    "type({x}).__name__ == 'ndarray'",
    "issubclass(type({x}), np.floating)",
    "np.issubdtype(type({x}), np.floating)",
    "np.isscalar({x})",
    "np.ndim({x}) == 0",
    "np.iterable({x})",
    "hasattr({x}, '__len__')",
    "hasattr({x}, '__iter__')",
    "np.asarray({x}).dtype.kind == 'f'",
    "np.issubdtype(np.array({x}).dtype, np.floating)",
    "np.result_type({x}).kind == 'f'",
    "kind_of({x}) == 'number'",
    "asks({x})",
    "asker.asks({x})",
)
_VALUES = ("v", "v[{i}]", "v[1:]", "(2.0 * v)", "np.sum(v)", "s", "t", "(t * t)", "np.tanh(t)", "np.stack([t, s])", "z",
           "np.array([s, t])", "np.zeros(2)", "np.float64(s)", "np.atleast_1d(t)", "(2.0 * z)")  # fmt: skip
_FORMULAS = ("np.sum({x}) * s", "np.tanh(np.sum({x}))", "np.sum(np.cos({x}))", "np.sum({x} * {x})", "s * t")


@functools.singledispatch
def kind_of(x):
    return "anything"


@kind_of.register
def _(x: float):
    return "number"


@kind_of.register
def _(x: np.ndarray):
    return "array"


class Asker:
    """An object whose methods ask."""

    def asks(self, x):
        return self.is_array(x) or isinstance(x, Iterable)

    def is_array(self, x):
        return type(x) is np.ndarray


HELPERS = types.ModuleType("helpers")
exec("def asks(x):\n    return type(x) is float or hasattr(x, '__iter__')\n", vars(HELPERS))
NAMES = {
    "np": np, "numbers": numbers, "Iterable": Iterable, "Sized": Sized, "Sequence": Sequence, "kind_of": kind_of,
    "asks": HELPERS.asks, "asker": Asker(),
}  # fmt: skip


def programs(count: int, seed: int):
    """Yield random programs of an array and a number, each a new function in globals of its own."""
    choose = random.Random(seed)
    for _ in range(count):
        lines = ["s, z = np.tanh(v[0] + t), np.array(0.5)"]
        for _ in range(choose.randint(1, 3)):
            x = choose.choice(_VALUES).format(i=choose.randrange(3))
            test = choose.choice(_TESTS).format(x=x)
            ways = [choose.choice(_FORMULAS).format(x=x) for _ in range(2)]
            lines.append(f"s = s + 0.5 * {ways[0]} if {test} else s - 0.25 * {ways[1]}")
        text = "def f(v, t):\n    " + "\n    ".join(lines) + "\n    return s + np.sum(v * t)\n"
        names = dict(NAMES)
        exec(text, names)
        yield text, names["f"]


V = np.array([0.7, 1.3, 0.4])
W = np.array([0.3, -0.2, 0.5])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::dualad.errors.PerformanceNote")  # of arrays of objects
@pytest.mark.parametrize("kind", [float, np.float64, np.array], ids=["float", "float64", "array"])
def test_random_programs_go_the_way_that_they_go_without_a_transform(kind) -> None:
    rows, ts = np.stack([V, 1.1 * V]), np.array([0.6, 0.8])
    number = kind(0.6)
    for k, (text, f) in enumerate(programs(250, 3)):
        plain = lambda v, t, f=f: f(v, kind(t))
        numeric, _ = differences.along(plain, (V, number), (W, 0.7))
        value, slope = da.jvp(f, (V, number), (W, 0.7))
        first = da.grad(f, argnums=(0, 1))
        gradients = [first, lambda v, t, first=first: da.jvp(first, (v, t), (W, 0.7))[0]]
        if kind is not np.array:  # which compiled functions take for a number
            gradients.append(da.jit(first))
        try:
            np.testing.assert_allclose(value, plain(V, number), rtol=1e-12)
            np.testing.assert_allclose(slope, numeric[0], rtol=1e-6, atol=1e-7)
            for gradient in gradients:
                by_v, by_t = gradient(V, number)
                np.testing.assert_allclose(by_v @ W + 0.7 * by_t, slope, rtol=1e-10, atol=1e-12)
            lanes = [f(*row) for row in zip(rows, ts, strict=True)]
            np.testing.assert_allclose(da.vmap(f)(rows, ts), lanes, rtol=1e-12)
        except AssertionError as error:
            raise AssertionError(f"program {k}:\n{text}") from error


SCALED = np.array([1.0, 2.0, 3.0])


def by_type(x):
    return np.sum(x**2) if type(x) is np.ndarray else 5.0 * np.sum(x)


class Scale:
    """An object that calls what it was given."""

    def __init__(self, inner):
        self.inner = inner

    def __call__(self, x):
        return self.inner(x)


@pytest.mark.parametrize(
    "f",
    [
        by_type,
        lambda x: by_type(x),
        functools.partial(lambda scale, x: scale * by_type(x), 1.0),
        Scale(by_type),
        Scale(by_type).__call__,
        Scale(Scale(by_type)),
        lambda x: Scale(by_type)(x),
        lambda x: da.jvp(by_type, (x,), (x,))[1] / 2,
        lambda x: sum([by_type(row) for row in [x]]),
    ],
    ids=["function", "lambda", "partial", "object", "method", "nested", "made", "inner", "comprehension"],
)
def test_what_a_function_reaches_is_found(f) -> None:
    for transformed in (da.grad(f), da.jacfwd(f), da.jit(da.grad(f))):
        np.testing.assert_allclose(transformed(SCALED), 2 * SCALED)
    np.testing.assert_allclose(da.hessian(f)(SCALED), 2 * np.eye(3), atol=1e-12)
    assert by_type.__globals__.keys().isdisjoint({"type", "isinstance", "hasattr"})


def test_a_generator_and_an_error_leave_nothing_behind() -> None:
    def squares(x):
        for entry in x:
            yield entry**2 if type(entry) is np.float64 else entry

    def fails(x):
        if type(x) is np.ndarray:
            raise ZeroDivisionError
        return x

    np.testing.assert_allclose(da.grad(lambda x: sum(squares(x)))(SCALED), 2 * SCALED)
    with pytest.raises(ZeroDivisionError):
        da.grad(fails)(SCALED)
    assert "type" not in globals()


def test_a_helper_that_is_replaced_or_comes_later_is_seen() -> None:
    names = {"np": np}
    exec("def f(x):\n    return helper(x) if 'helper' in globals() else np.sum(x)", names)
    np.testing.assert_allclose(da.grad(names["f"])(SCALED), np.ones(3))
    exec("def helper(x):\n    return np.sum(x**2) if type(x) is np.ndarray else 0.0 * np.sum(x)", names)
    np.testing.assert_allclose(da.grad(names["f"])(SCALED), 2 * SCALED)
    exec("def helper(x):\n    return np.sum(x**3) if type(x) is np.ndarray else 0.0 * np.sum(x)", names)
    np.testing.assert_allclose(da.grad(names["f"])(SCALED), 3 * SCALED**2)


def test_the_same_wrapper_of_other_functions_is_told_apart() -> None:
    wrapped = lambda f: lambda x: f(x)
    for power in (2, 3):
        names = {"np": np}
        exec(f"def f(x):\n    return np.sum(x**{power}) if type(x) is np.ndarray else 0.0 * np.sum(x)", names)
        np.testing.assert_allclose(da.grad(wrapped(names["f"]))(SCALED), power * SCALED ** (power - 1))
    np.testing.assert_allclose(da.grad(wrapped(np.sum))(SCALED), np.ones(3))


def test_a_tensor_that_escaped_and_this_package_see_what_it_is() -> None:
    kept = []

    def f(x):
        kept.append(x)
        assert isinstance(x, (np.ndarray, da.Tensor)) if hasattr(da, "Tensor") else isinstance(x, np.ndarray)
        return np.sum(x * x)

    da.grad(f)(SCALED)
    assert not isinstance(kept[0], np.ndarray)


def test_ten_threads_go_the_same_way() -> None:
    start, out = threading.Barrier(10), [None] * 10

    def work(k):
        start.wait()
        out[k] = [(da.grad(by_type)(SCALED * k) if k % 2 else by_type(SCALED * k)) for _ in range(50)]

    threads = [threading.Thread(target=work, args=(k,)) for k in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for k in range(10):
        for value in out[k]:
            np.testing.assert_allclose(value, 2 * SCALED * k if k % 2 else np.sum((SCALED * k) ** 2))
    assert "type" not in globals()


@pytest.mark.plain
def test_a_plain_function_still_says_what_its_arguments_stand_for() -> None:
    f = lambda x: np.sum(x**2) if isinstance(x, np.ndarray) else 0.0 * np.sum(x)
    np.testing.assert_allclose(da.grad(f)(SCALED), 2 * SCALED)


def test_what_is_held_in_many_ways_is_looked_at_once() -> None:
    inner = lambda x: x
    outer = held = da.vmap(inner)
    for _ in range(60):
        held = functools.partial(outer, held, held)
    assert users_of(held) == [inner]


def test_code_with_arrays_of_its_own_sees_what_it_is() -> None:
    """It tells NumPy's arrays from its own: a tensor is neither."""
    module = types.ModuleType("arrays")
    code = (
        "import numpy as np\n"
        "class Labelled:\n"
        "    def __array_function__(self, *args): return NotImplemented\n"
        "def is_numpys(x): return isinstance(x, np.ndarray) or type(x) is np.ndarray\n"
    )
    exec(compile(code, "arrays.py", "exec"), vars(module))
    seen = []

    def f(x):
        seen.append((module.is_numpys(x), isinstance(x, np.ndarray)))
        return np.sum(x)

    da.grad(f)(np.ones(2))
    assert seen == [(False, True)]
