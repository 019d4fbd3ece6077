"""What a compiled function reads besides its arguments, changed between two calls: it has the new value.

Not for: arrays that are hidden inputs, and the machine code that compares (``test_jit.py``, ``native/test_front.py``).
"""

from __future__ import annotations

import array
import collections
import dataclasses
import math
import re
import types
import warnings
from typing import Any

import numpy as np
import pytest

import dualad as da
from dualad.compile.native.front import extension
from dualad.compile.tracing import EffectWarning
from dualad.errors import PerformanceNote

X = np.array([1.0, 2.0, 3.0])
SCALE = 2.0
MODULE = types.ModuleType("settings_of_a_model")


class Settings:
    scale = 2.0


class Model(Settings):
    def __init__(self) -> None:
        self._k, self.calls = 2.0, 0

    @property
    def k(self) -> float:
        return self._k

    def get(self) -> float:
        return self._k

    def __call__(self, x):
        return x * self._k

    def inherited(self, x):
        return x * self.scale

    def by_name(self, x):
        return x * getattr(self, "_k")  # noqa: B009 - what is tested


class Slots:
    __slots__ = ("k",)

    def __init__(self) -> None:
        self.k = 2.0


class Table(collections.UserDict):
    pass


def helper(x, k=2.0):
    return x * k


def other(x, k=5.0):
    return x * k * 1.5


def with_attribute(x):
    return x * with_attribute.k


def reset() -> None:
    global SCALE
    SCALE = Settings.scale = MODULE.k = with_attribute.k = 2.0
    MODULE.f = helper
    helper.__defaults__ = (2.0,)


def _set(name: str, value: Any) -> None:
    globals()[name] = value


def object_array() -> np.ndarray:
    return np.array([2.0], object)


def read_only_view(a: np.ndarray) -> np.ndarray:
    view = a[:]
    view.setflags(write=False)
    return view


#: name: what is made, the function of it, what changes it
READ = {
    "an attribute of a class": (
        lambda: None,
        lambda t: lambda x: x * Settings.scale,
        lambda t: setattr(Settings, "scale", 3.0),
    ),
    "an inherited attribute": (Model, lambda t: t.inherited, lambda t: setattr(Settings, "scale", 3.0)),
    "a property": (Model, lambda t: lambda x: x * t.k, lambda t: setattr(t, "_k", 3.0)),
    "a method": (Model, lambda t: lambda x: x * t.get(), lambda t: setattr(t, "_k", 3.0)),
    "an object that is called": (Model, lambda t: t, lambda t: setattr(t, "_k", 3.0)),
    "a captured object that is called": (Model, lambda t: lambda x: t(x), lambda t: setattr(t, "_k", 3.0)),
    "getattr": (Model, lambda t: t.by_name, lambda t: setattr(t, "_k", 3.0)),
    "a slot": (Slots, lambda t: lambda x: x * t.k, lambda t: setattr(t, "k", 3.0)),
    "an attribute of a module": (lambda: None, lambda t: lambda x: x * MODULE.k, lambda t: setattr(MODULE, "k", 3.0)),
    "a function of a module": (lambda: None, lambda t: lambda x: MODULE.f(x), lambda t: setattr(MODULE, "f", other)),
    "an attribute of a function": (lambda: None, lambda t: with_attribute, lambda t: setattr(with_attribute, "k", 3.0)),
    "a default": (lambda: None, lambda t: helper, lambda t: setattr(helper, "__defaults__", (3.0,))),
    "a signed zero": (
        lambda: _set("SCALE", 0.0),
        lambda t: lambda x: np.copysign(x, SCALE),
        lambda t: _set("SCALE", -0.0),
    ),
    "a deque": (lambda: collections.deque([2.0]), lambda t: lambda x: x * t[0], lambda t: t.append(t.popleft() + 1)),
    "a set": (lambda: {2.0}, lambda t: lambda x: x * sum(t), lambda t: t.add(5.0)),
    "a table of the library's": (Table, lambda t: lambda x: x * t.get("k", 2.0), lambda t: t.update(k=3.0)),
    "maps of maps": (
        lambda: collections.ChainMap({"k": 2.0}),
        lambda t: lambda x: x * t["k"],
        lambda t: t.update(k=3.0),
    ),
    "an array of bytes": (lambda: bytearray(b"23"), lambda t: lambda x: x * t[0], lambda t: t.reverse()),
    "an array of Python's": (
        lambda: array.array("d", [2.0]),
        lambda t: lambda x: x * t[0],
        lambda t: t.__setitem__(0, 3.0),
    ),
    "an array of objects": (object_array, lambda t: lambda x: x * t[0], lambda t: t.__setitem__(0, 3.0)),
    "numbers of a view that is read only": (
        lambda: np.full(3, 2.0),
        lambda t: (lambda view: lambda x: x * float(view[0]))(read_only_view(t)),
        lambda t: t.fill(3.0),
    ),
    "numbers of a large array": (
        lambda: np.full(30_000, 2.0),
        lambda t: lambda x: x * float(t[0]),
        lambda t: t.fill(3.0),
    ),
    "a subclass of arrays": (
        lambda: np.full(3, 2.0).view(np.recarray),
        lambda t: lambda x: x * float(t[0]),
        lambda t: t.fill(3.0),
    ),
}


@pytest.mark.parametrize("name", READ)
def test_what_is_read_is_read_anew(name: str) -> None:
    reset()
    make, function, change = READ[name]
    thing = make()
    f = function(thing)
    fast, gradient = da.jit(f), da.jit(da.grad(lambda x: np.sum(f(x) * x)))
    before = f(X)
    for _ in range(2):
        np.testing.assert_array_equal(fast(X), before)
        gradient(X)
    change(thing)
    try:
        after = f(X)
        assert not np.array_equal(np.signbit(after), np.signbit(before)) or not np.array_equal(after, before)
        np.testing.assert_array_equal(np.signbit(fast(X)), np.signbit(after))
        np.testing.assert_array_equal(fast(X), after)
        np.testing.assert_allclose(gradient(X), da.grad(lambda x: np.sum(f(x) * x))(X))
    finally:
        reset()


def test_code_that_a_notebook_puts_into_a_function() -> None:
    def inner(x):
        return x * 2

    fast = da.jit(lambda x: inner(x) + 1)
    for _ in range(2):
        np.testing.assert_array_equal(fast(X), X * 2 + 1)
    inner.__code__ = (lambda x: x * 3).__code__
    np.testing.assert_array_equal(fast(X), X * 3 + 1)


def test_what_a_function_does_not_read_is_no_reason_to_trace() -> None:
    model = Model()

    def f(x):
        f.traced += 1
        return model(x) + model.k

    f.traced = 0
    fast = da.jit(f)
    fast(X)
    count = f.traced
    model.calls += 1
    fast(X)
    assert f.traced == count


@dataclasses.dataclass(frozen=True)
class Choice:
    k: float


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (0.0, -0.0),
        ((2,), (2.0,)),
        (Choice(2), Choice(2.0)),
        (Choice(0.0), Choice(-0.0)),
        (frozenset([2]), frozenset([2.0])),
        (np.float64(0.0), np.float64(-0.0)),
        (((2, (1,)),), ((2, (1.0,)),)),
    ],
)
def test_equal_statics_that_a_function_can_tell_apart(first: Any, second: Any) -> None:
    def f(x, s):
        while not isinstance(s, (int, float)):
            s = s.k if isinstance(s, Choice) else list(s)[-1]
        return np.copysign(x * 2, s) + s, x * s

    x = np.arange(1, 4)
    fast = da.jit(f, static_argnums=1)
    for s in (first, second, first):
        for found, expected in zip(fast(x, s), f(x, s), strict=True):
            assert found.dtype == expected.dtype
            np.testing.assert_array_equal(found, expected)
            np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))


def test_a_number_that_is_repeated_is_a_constant() -> None:
    """Seeds of gradients are; what shows an array that can be written to is not."""
    x = np.linspace(0.1, 1.0, 10)
    fast = da.jit(da.grad(lambda x: 0.1 * np.sum(np.sin(x) * x)))
    assert "captured" not in fast.explain(x)
    number = np.array(2.0)
    shown = np.broadcast_to(number, (10,))
    fast = da.jit(lambda x: x * shown)
    np.testing.assert_array_equal(fast(x), 2 * x)
    number[...] = 3
    np.testing.assert_array_equal(fast(x), 3 * x)


def test_a_static_argument_may_hold_what_its_hash_leaves_out():
    @dataclasses.dataclass(frozen=True)
    class Setting:
        factor: float
        notes: list = dataclasses.field(default_factory=list, hash=False)

    f = da.jit(lambda x, setting: x * setting.factor, static_argnums=1)
    assert [f(2.0, Setting(3.0, [1])), f(2.0, Setting(3.0, [1])), f(2.0, Setting(4.0, [2]))] == [6.0, 6.0, 8.0]


@pytest.mark.parametrize("native", ["1", "0"])
def test_the_order_of_a_dict_belongs_to_the_signature(native: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DUALAD_NATIVE", native)

    def weighted(tables):
        return sum([(i + 1) * v for i, v in enumerate(tables[0]["inner"].values())])

    fast, gradient = da.jit(weighted), da.grad(lambda t: np.sum(fast(t)))
    for _ in range(3):
        for keys in ("abc", "cab", "bac"):
            tables = [{"inner": {key: X * (ord(key) - 90) for key in keys}}]
            np.testing.assert_array_equal(fast(tables), weighted(tables))
            for i, key in enumerate(keys):
                np.testing.assert_array_equal(gradient(tables)[0]["inner"][key], np.full(3, i + 1.0))
    assert list(da.jit(lambda t: t)({"b": X, "a": X})) == ["b", "a"]


@pytest.mark.parametrize("native", ["1", "0"])
def test_the_order_of_keywords_belongs_to_the_signature(native: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DUALAD_NATIVE", native)
    fast = da.jit(lambda **tables: sum([(i + 1) * v for i, v in enumerate(tables.values())]))
    for _ in range(3):
        np.testing.assert_array_equal(fast(a=X, b=10 * X), 21 * X)
        np.testing.assert_array_equal(fast(b=10 * X, a=X), 12 * X)


def test_a_captured_array_that_is_written_to_is_refused() -> None:
    seen = np.zeros(3)

    def f(x):
        y = x * 2
        seen[:] += 1
        return y * seen

    with pytest.raises(da.errors.NotRepeatableError, match=r"writes into an array of shape \(3,\)") as refused:
        da.jit(f)(X)
    assert f"{__file__}:{f.__code__.co_firstlineno + 2}" in str(refused.value)


def test_an_array_that_is_filled_once_is_no_effect() -> None:
    table, known = np.zeros(3), []

    def f(x):
        if not known:
            table[:] = 5.0
            known.append(True)
        return x * table

    fast = da.jit(f)
    np.testing.assert_array_equal(fast(X), 5 * X)
    table[:] = 6.0
    np.testing.assert_array_equal(fast(X), 6 * X)


def test_what_a_function_only_writes_is_no_reason_to_trace() -> None:
    log: list = []

    def f(x):
        log.append(x.shape)
        return x * 2

    fast = da.jit(f)
    line = f"{__file__}:{f.__code__.co_firstlineno + 1}"
    with pytest.warns(EffectWarning, match=re.escape(f"changes a list that it did not make, at {line}")):
        fast(np.ones(2))
    with pytest.warns(EffectWarning):
        fast(np.ones(3))
    for size in (2, 3, 2):
        np.testing.assert_array_equal(fast(np.ones(size)), np.full(size, 2.0))
    assert len(log) == 4  # two for each trace


def test_too_much_to_compare_is_not_compiled() -> None:
    many = [1.0] * 60_000
    fast = da.jit(lambda x: x * many[-1])
    with pytest.warns(PerformanceNote, match="too many to be compared"):
        np.testing.assert_array_equal(fast(X), X)
    many[-1] = 3.0
    np.testing.assert_array_equal(fast(X), 3 * X)
    np.testing.assert_array_equal(da.vmap(fast)(X), 3 * X)


@pytest.mark.parametrize("native", ["1", "0"])
@pytest.mark.parametrize("size", [3, 20_000])
@pytest.mark.parametrize(
    "f",
    [
        lambda x, w: x * float(w[1]),
        lambda x, w: x if w[0] > 0 else -x,
        lambda x, w: x[int(w[3 % len(w)]) % 2 :] * 2,
        lambda x, w: x * w.tolist()[2],
        lambda x, w: x * sum(w[:2]),
        lambda x, w: x * math.sin(w[0]) + np.sum(w * x[0]),
        lambda x, w: x * w.item(1) + np.sum(w * x[0]),
    ],
)
def test_numbers_that_python_read_of_an_array(f, size: int, native: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DUALAD_NATIVE", native)
    for order in ("C", "F"):
        w = np.ones((size, 1), order=order)[:, 0]
        fast = da.jit(lambda x, f=f, w=w: f(x, w) + np.sum(w) * x[0])
        for number in (1.0, 2.0, -3.0, 1.0):
            w[:] = number
            for _ in range(2):
                np.testing.assert_allclose(fast(X), f(X, w) + np.sum(w) * X[0], rtol=1e-12)


def test_a_large_array_that_only_meets_traced_values_is_not_compared() -> None:
    w = np.ones((300, 300))
    fast = da.jit(lambda x: np.tanh(w @ x))
    x = np.linspace(0.0, 0.01, 300)
    for number in (1.0, 2.0):
        w[:] = number
        np.testing.assert_allclose(fast(x), np.tanh(w @ x), rtol=1e-12)
    ((spec,),) = fast._found.values()
    assert spec.captures.size < 300


def test_an_object_that_has_an_answer_to_every_name_is_read() -> None:
    class Anything:
        __slots__ = ("k",)

        def __getattr__(self, name: str) -> float:
            return 1.25

    thing = Anything()
    f = lambda x: x * thing.k
    np.testing.assert_array_equal(da.jit(f)(np.ones(2)), [1.25, 1.25])
    np.testing.assert_array_equal(da.vmap(f)(np.ones(2)), [1.25, 1.25])


@pytest.mark.parametrize("native", ["1", "0"])
def test_a_captured_array_of_another_shape_or_dtype_in_place(native: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DUALAD_NATIVE", native)
    w = np.arange(6.0)
    f = lambda x: np.sum(x * w, axis=-1)
    fast = da.jit(f)
    for change in (lambda: None, lambda: setattr(w, "shape", (2, 3)), lambda: setattr(w, "dtype", np.int64)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            change()
        for _ in range(2):
            assert np.array_equal(fast(2.0), f(2.0))


@pytest.mark.parametrize("native", ["1", "0"])
def test_columns_of_a_captured_table_are_followed(native: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DUALAD_NATIVE", native)
    table, z = np.arange(12.0).reshape(4, 3), np.arange(4) * (1 + 2j)
    f = lambda x: np.sum(x * table[:, 1] + z.imag[::-1])
    fast = da.jit(f)
    for change in (0.0, 1.0, -1.0, 0.0):
        table[2, 1] += change
        z[0] += 1j * change
        for x in (np.ones(4), np.full(4, 2.0)):
            assert fast(x) == f(x)
    table[:, 0] = 7.0  # beside what is read
    assert fast(np.ones(4)) == f(np.ones(4))


@pytest.mark.skipif(extension() is None, reason="calls begin in Python")
def test_a_view_that_is_made_at_each_turn_is_one_input() -> None:
    table = np.random.default_rng(0).normal(size=(4, 5))

    def f(x):
        for _ in range(6):
            x = x - 0.1 * (table.T @ (table @ x))
        return x

    fast, x = da.jit(f), np.ones(5)
    np.testing.assert_allclose(fast(x), f(x), rtol=1e-13)
    assert len(fast.lower(x).program.inputs) == 3
    table[0] += 1.0
    np.testing.assert_allclose(fast(x), f(x), rtol=1e-13)


def test_a_call_without_guards_is_of_what_was_read_when_it_was_made() -> None:
    read = {"factor": 2.0}
    f = da.jit(lambda x: read["factor"] * np.sqrt(x))
    bare = f.unguarded(X)
    np.testing.assert_array_equal(bare(X), 2.0 * np.sqrt(X))
    read["factor"] = 3.0
    np.testing.assert_array_equal(bare(X), 2.0 * np.sqrt(X))
    np.testing.assert_array_equal(f(X), 3.0 * np.sqrt(X))
    np.testing.assert_array_equal(f.unguarded(X)(X), 3.0 * np.sqrt(X))
    np.testing.assert_array_equal(bare(X[:2]), 3.0 * np.sqrt(X[:2]))  # another signature goes the usual way
    assert da.jit(lambda x: da.wrap(np.sin, jac=np.cos)(x) + 1).unguarded(X) is None  # Python runs in it
    slope = da.jit(da.grad(lambda x: np.sum(3.0 * x))).unguarded(X)  # the same everywhere
    assert slope(2 * X) is slope(X)
    np.testing.assert_array_equal(slope(X), np.full(X.shape, 3.0))
    assert da.jit(lambda x: x).unguarded(X) is None  # its argument is no constant
