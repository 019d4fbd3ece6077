"""Whatever a compiled function can read, changed between two calls: it computes with the new value.

Each case is a function and its changes; the oracle is the function itself, called with plain arrays.
"""

from __future__ import annotations

import collections
import contextvars
import dataclasses
import enum
import functools
import os
import sys
import threading
import types
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dualad as da
import dualad.scipy.integrate as si
import dualad.scipy.optimize as so
from dualad.compile.native.front import _plan

X = np.array([1.0, 2.0, 3.0])
G = 2.0
MODULE = types.ModuleType("a_module_of_settings")


class Plain:
    scale = 2.0

    def method(self, x):
        return x * 2


class Sub(Plain):
    pass


class Slots:
    __slots__ = ("k",)


class Asks:
    def __init__(self) -> None:
        self.table = {"k": 2.0}

    def __getattr__(self, name):
        if name not in self.table:
            raise AttributeError(name)
        return self.table[name]


class Delegates:
    def __init__(self, inner) -> None:
        self.inner = inner

    def __getattr__(self, name):
        return getattr(self.inner, name)


class Lenient(Delegates):
    def __getattr__(self, name):
        return getattr(self.inner, name, 0.5)


class Makes:
    def __init__(self) -> None:
        self.k = CONFIG.base


CONFIG = types.SimpleNamespace(base=2.0)


@functools.wraps(np.where)
def where(x):
    return x * CONFIG.base


class Descriptor:
    def __get__(self, owner, kind):
        return owner.z if "z" in owner.__dict__ else 1.0


class Described:
    k = Descriptor()
    other = property(lambda self: self.__dict__.get("q", 1.0))


class Meta(type):
    k = 2.0


class OfMeta(metaclass=Meta):
    pass


@dataclasses.dataclass
class Data:
    k: float = 2.0


class Colour(enum.Enum):
    RED = 2.0
    BLUE = 3.0


Pair = collections.namedtuple("Pair", "a b")
VARIABLE: contextvars.ContextVar[float] = contextvars.ContextVar("a_scale", default=1.0)


@functools.lru_cache
def settings() -> dict:
    return {"k": 2.0}


def _nested(make: Callable, depth: int) -> tuple[Any, Any]:
    inner = make()
    outer = inner
    for _ in range(depth):
        outer = make(outer)
    return outer, inner


def _tries(x):
    try:
        return x * A_FLAG
    except NameError:
        return x


def _tried(get: Callable) -> Any:
    try:
        return get()
    except AttributeError:
        return 0.5


def _names(name: str, value: Any = None) -> Callable:
    return (lambda: globals().pop(name)) if value is None else lambda: globals().update({name: value})


def _imports(x):
    import a_module_of_settings

    return x * a_module_of_settings.k


def attributes() -> dict:
    o, p, q, s, c, m, n = Plain(), Plain(), Plain(), Sub(), Plain(), Plain(), Plain()
    slots, asks, d, data, colour, t = Slots(), Asks(), Described(), Data(), Plain(), Plain()
    slots.k, colour.e, c.k, t.k = 2.0, Colour.RED, 2.0, 2.0
    weak, proxy = weakref.ref(t), weakref.proxy(t)
    CONFIG.base = 2.0
    inner = Plain()
    delegates, lenient = Delegates(inner), Lenient(inner)
    inner.k, inner.w1 = 2.0, 2.0
    derived, made = da.vmap(lambda x: x * inner.k), Makes()
    derived.scale = 2.0
    dispatched = functools.singledispatch(lambda x: x * 2.0)

    def tries(x):
        try:
            return x * q.late
        except AttributeError:
            return x

    def matched(x):
        match data:
            case Data(k=k):
                return x * k

    return {
        "a default in the class": (
            lambda x: x * o.scale, lambda: setattr(o, "scale", 5.0), lambda: delattr(o, "scale"),
            lambda: setattr(Plain, "scale", 7.0),
        ),
        "a default in a class above": (
            lambda x: x * s.scale, lambda: setattr(Sub, "scale", 5.0), lambda: delattr(Sub, "scale"),
            lambda: setattr(s, "scale", 6.0),
        ),
        "a method": (
            lambda x: m.method(x), lambda: setattr(m, "method", lambda x: x * 3), lambda: delattr(m, "method"),
            lambda: setattr(Plain, "method", lambda self, x: x * 4),
        ),
        "getattr with a default": (
            lambda x: x * getattr(n, "late", 1.0), lambda: setattr(n, "late", 3.0), lambda: delattr(n, "late"),
        ),
        "getattr by a name that is made": (
            lambda x: x * sum([getattr(p, f"w{i}", 1.0) for i in range(2)]), lambda: setattr(p, "w1", 3.0),
        ),
        "hasattr": (lambda x: x * (2.0 if hasattr(n, "q") else 1.0), lambda: setattr(n, "q", 3.0)),
        "vars": (lambda x: x * vars(n).get("r", 1.0), lambda: setattr(n, "r", 3.0), lambda: delattr(n, "r")),
        "the dict": (lambda x: x * len(n.__dict__), lambda: setattr(n, "any", 3.0)),
        "AttributeError that another function catches": (
            lambda x: x * _tried(lambda: q.later), lambda: setattr(q, "later", 3.0), lambda: delattr(q, "later"),
        ),
        "AttributeError": (tries, lambda: setattr(q, "late", 3.0), lambda: delattr(q, "late")),
        "a dict and a class put in place": (
            lambda x: x * c.k, lambda: setattr(c, "__dict__", {"k": 3.0}),
            lambda: (c.__dict__.clear(), setattr(c, "__class__", Described)),
        ),
        "a slot": (lambda x: x * slots.k, lambda: setattr(slots, "k", 3.0)),
        "__getattr__": (
            lambda x: x * asks.k, lambda: asks.table.update(k=3.0), lambda: setattr(asks, "k", 4.0),
        ),
        "__getattr__ that asks another object": (
            lambda x: x * delegates.k, lambda: setattr(inner, "k", 3.0), lambda: setattr(delegates, "k", 4.0),
            lambda: (delattr(delegates, "k"), setattr(delegates, "inner", types.SimpleNamespace(k=5.0))),
        ),
        "__getattr__ with a default": (
            lambda x: x * lenient.late, lambda: setattr(inner, "late", 3.0), lambda: delattr(inner, "late"),
        ),
        "__getattr__ by a name that is made": (
            lambda x: x * sum([delegates.__getattr__(f"w{i}") for i in (1, 1)]), lambda: setattr(inner, "w1", 3.0),
        ),
        "__getattr__ by another name": (
            lambda x, get=Delegates.__getattr__: x * get(delegates, "w" + "1" * len(x.shape)),
            lambda: setattr(inner, "w1", 3.0),
        ),
        "what makes an object": (lambda x: x * Makes().k, lambda: setattr(CONFIG, "base", 3.0)),
        "what makes an object of an object's class": (
            lambda x: x * type(made)().k, lambda: setattr(CONFIG, "base", 5.0),
        ),
        "a wrapper of a library's name": (where, lambda: setattr(CONFIG, "base", 4.0)),
        "a function that a library made": (lambda x: derived(x), lambda: setattr(inner, "k", 3.0)),
        "an attribute of one": (lambda x: x * derived.scale, lambda: setattr(derived, "scale", 3.0)),
        "what is dispatched": (
            lambda x: dispatched(x) + dispatched(1), lambda: dispatched.register(int, lambda x: x * float(len(X))),
        ),
        "an attribute beside others that change": (
            lambda x: x * o.scale, lambda: (setattr(o, "other", 1.0), setattr(o, "scale", 3.0)),
            lambda: (delattr(o, "other"), o.__dict__.update(scale=4.0)),
        ),
        "a descriptor": (lambda x: x * d.k, lambda: setattr(d, "z", 3.0), lambda: d.__dict__.update(k=8.0)),
        "a property": (lambda x: x * d.other, lambda: setattr(d, "q", 3.0)),
        "an attribute of a metaclass": (
            lambda x: x * OfMeta.k, lambda: setattr(OfMeta, "k", 3.0), lambda: delattr(OfMeta, "k"),
            lambda: setattr(Meta, "k", 4.0),
        ),
        "a dataclass": (
            lambda x: x * dataclasses.asdict(data)["k"], lambda: setattr(data, "k", 3.0),
        ),
        "a pattern": (matched, lambda: setattr(data, "k", 5.0)),
        "an enumeration": (lambda x: x * colour.e.value, lambda: setattr(colour, "e", Colour.BLUE)),
        "a weak reference": (lambda x: x * weak().k, lambda: setattr(t, "k", 3.0)),
        "a proxy": (lambda x: x * proxy.k, lambda: setattr(t, "k", 4.0)),
    }  # fmt: skip


def containers() -> dict:
    deep, end = _nested(lambda inner=None: {"v": 2.0} if inner is None else {"a": inner}, 12)
    lists, last = _nested(lambda inner=None: [2.0] if inner is None else [inner], 6)
    objects = [[[[types.SimpleNamespace(k=2.0)]]]]
    numbers, some, ends = [1.0] * 5000, {1.0, 2.0}, collections.deque([1.0])
    empty: dict = {}
    pair, tables = Pair([1.0], 2.0), collections.ChainMap({}, {"a": 1.0})
    counted, lazily = collections.Counter(a=1), collections.defaultdict(float)
    orders = {cls.__name__: cls(a=1.0, b=2.0) for cls in (dict, collections.OrderedDict, collections.Counter)}
    shown = types.MappingProxyType(empty)

    def walk(x):
        inner = deep
        while "v" not in inner:
            inner = inner["a"]
        return x * inner["v"]

    def weighted(table):
        return lambda x: x * sum([(i + 1) * v for i, v in enumerate(table.values())])

    return {
        "twelve dicts": (walk, lambda: end.update(v=3.0)),
        "six lists": (lambda x: x * lists[0][0][0][0][0][0][0], lambda: last.__setitem__(0, 3.0)),
        "an object four deep": (
            lambda x: x * objects[0][0][0][0].k, lambda: setattr(objects[0][0][0][0], "k", 3.0),
        ),
        "the 2,501st number": (lambda x: x * numbers[2500], lambda: numbers.__setitem__(2500, 3.0)),
        "a set": (lambda x: x * sum(some), lambda: some.add(5.0)),
        "a deque": (lambda x: x * ends[0], lambda: ends.appendleft(5.0)),
        "what is not in a dict": (lambda x: x * empty.get("k", 1.0), lambda: empty.update(k=3.0)),
        "whether it is in a dict": (lambda x: x * (2.0 if "q" in empty else 1.0), lambda: empty.update(q=3.0)),
        "a view of a dict": (lambda x: x * len(shown), lambda: empty.update(r=3.0)),
        "a named tuple": (lambda x: x * pair.a[-1], lambda: pair.a.append(5.0)),
        "a chain": (lambda x: x * tables["a"], lambda: tables.maps[0].update(a=3.0)),
        "a counter": (lambda x: x * counted["b"], lambda: counted.update(b=3)),
        "a dict with a default": (lambda x: x * lazily.get("a", 1.0), lambda: lazily.update(a=3.0)),
        **{
            f"the order of {name}": (weighted(table), lambda table=table: table.update(a=table.pop("a")))
            for name, table in orders.items()
        },
    }  # fmt: skip


def surroundings() -> dict:
    local, partial = threading.local(), functools.partial(lambda x, k: x * k, k=2.0)
    local.k = 2.0
    MODULE.k = 2.0
    vars(MODULE).pop("late", None)
    sys.modules["a_module_of_settings"] = MODULE
    settings.cache_clear()

    def default(x, k=[2.0]):  # noqa: B006 - what is tested
        return x * k[0]

    def later(x):
        return x * cell if "cell" in later.names else x

    later.names = ()
    cell = 3.0
    return {
        "a global that comes later": (_tries, _names("A_FLAG", 3.0), _names("A_FLAG")),
        "a builtin that is shadowed": (lambda x: x * abs(-2.0), _names("abs", lambda x: 5.0), _names("abs")),
        "globals()": (lambda x: x * globals()["G"], _names("G", 3.0), _names("G", 2.0)),
        "a module": (
            lambda x: x * MODULE.k * getattr(MODULE, "late", 1.0), lambda: setattr(MODULE, "late", 3.0),
            lambda: setattr(MODULE, "k", 3.0),
        ),
        "a module that is imported": (_imports, lambda: setattr(MODULE, "k", 5.0)),
        "a context variable": (lambda x: x * VARIABLE.get(), lambda: VARIABLE.set(3.0)),
        "a number of this thread": (lambda x: x * local.k, lambda: setattr(local, "k", 3.0)),
        "the environment": (
            lambda x: x * float(os.environ.get("A_SCALE", "1")), lambda: os.environ.update(A_SCALE="3"),
            lambda: os.environ.pop("A_SCALE"),
        ),
        "getenv": (
            lambda x: x * float(os.getenv("A_SCALE", "1")), lambda: os.environ.update(A_SCALE="3"),
            lambda: os.environ.pop("A_SCALE"),
        ),
        "what a cache holds": (lambda x: x * settings()["k"], lambda: settings().update(k=3.0)),
        "a partial's keyword": (partial, lambda: partial.keywords.update(k=3.0)),
        "a default that is changed": (default, lambda: default.__defaults__[0].insert(0, 3.0)),
        "an attribute of the function": (later, lambda: setattr(later, "names", ("cell",))),
    }  # fmt: skip


def arrays() -> dict:
    a, b, c = np.arange(6.0).reshape(2, 3), np.arange(6.0).reshape(2, 3), np.arange(6.0)
    large, fixed = np.ones((2, 10_000)), np.ones(3)
    fixed.flags.writeable = False

    def write():
        fixed.flags.writeable = True
        fixed[:] = 5.0
        fixed.flags.writeable = False

    return {
        "a shape set in place": (lambda x: x * a.shape[0], lambda: setattr(a, "shape", (3, 2))),
        "a shape of an operand": (lambda x: (b * x[0]).sum(axis=0)[:2], lambda: setattr(b, "shape", (3, 2))),
        "a dtype set in place": (lambda x: x * c.dtype.itemsize, lambda: setattr(c, "dtype", np.complex128)),
        "a shape of a large array": (
            lambda x: (large * x[0]).sum() * large.shape[0] + x, lambda: setattr(large, "shape", (5, 4000)),
        ),
        "an array that is read only": (lambda x: x * fixed, write),
    }  # fmt: skip


CASES = {name: family for family in (attributes, containers, surroundings, arrays) for name in family()}


@pytest.mark.filterwarnings("ignore:Setting the (shape|dtype) on a NumPy array:DeprecationWarning")
@pytest.mark.parametrize("native", ["1", "0"])
@pytest.mark.parametrize("name", CASES)
def test_what_changes_is_read_anew(name: str, native: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DUALAD_NATIVE", native)
    scale, method, k = Plain.scale, Plain.method, Meta.k
    try:
        f, *changes = CASES[name]()[name]
        fast, gradient = da.jit(f), da.jit(da.grad(lambda x: np.sum(f(x) * x[: f(x).shape[0]])))
        for _ in range(2):
            np.testing.assert_array_equal(fast(X), f(X))
            gradient(X)
        for change in changes:
            before = f(X)
            change()
            expected = f(X)
            assert not np.array_equal(before, expected)
            for _ in range(2):
                np.testing.assert_array_equal(fast(X), expected)
                np.testing.assert_allclose(gradient(X), da.grad(lambda x: np.sum(f(x) * x[: f(x).shape[0]]))(X))
    finally:
        Plain.scale, Plain.method, Meta.k = scale, method, k
        if "scale" in vars(Sub):
            del Sub.scale
        globals().pop("A_FLAG", None)
        VARIABLE.set(1.0)


@pytest.mark.parametrize("native", ["1", "0"])
def test_tables_of_pandas(native: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pandas = pytest.importorskip("pandas")
    monkeypatch.setenv("DUALAD_NATIVE", native)
    table = pandas.DataFrame({"a": [1.0, 2.0, 3.0], "b": [4.0, 5.0, 6.0]})
    f = lambda x: x * table["a"].to_numpy() * len(table.columns) + float(table["b"].iloc[1])
    fast = da.jit(f)
    for key, value in (("a", 0.5), ("b", [7.0, 8.0, 9.0]), ("c", 1.0), ("a", [1.0, 2.0, 3.0])):
        np.testing.assert_array_equal(fast(X), f(X))
        table[key] = value
        np.testing.assert_array_equal(fast(X), f(X))
    table.iloc[1, 0] = -4.0
    np.testing.assert_array_equal(fast(X), f(X))


@pytest.mark.parametrize("native", ["1", "0"])
def test_what_is_not_read_may_change_at_each_call(native: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The dict that it is in is another each time; what is read of it is compared, also behind such changes."""
    monkeypatch.setenv("DUALAD_NATIVE", native)
    o = Plain()
    o.scale, o.calls = 2.0, 0

    def f(x):
        f.traced += 1
        return x * o.scale

    f.traced = 0
    fast = da.jit(f)
    for scale in (2.0, 3.0, 2.0):
        o.scale = scale
        np.testing.assert_array_equal(fast(X), X * scale)
        count = f.traced
        for _ in range(3):
            o.calls += 1
            np.testing.assert_array_equal(fast(X), X * scale)
        assert f.traced == count


def ordinary(number: int) -> Callable:
    made = types.SimpleNamespace(**{f"k{i}": float(i) for i in range(number)})
    total = " + ".join(["1.0", *[f"made.k{i}" for i in range(number)]])
    return eval(f"lambda made: lambda x: x * ({total})")(made)


class Namespace:
    """NumPy's names, some of them replaced, as benchmarks and adapters have them."""

    def __init__(self, module, **replaced) -> None:
        self._module = module
        for name, value in replaced.items():
            setattr(self, name, value)

    def __getattr__(self, name):
        try:
            return getattr(self._module, name)
        except AttributeError:
            raise NotImplementedError(f"{self._module.__name__}.{name}") from None


class Transforms:
    label = "transforms"

    def __init__(self) -> None:
        for name in ("jvp", "vjp", "grad", "jacfwd", "hessian", "vmap"):
            setattr(self, name, getattr(da, name))

    def hvp(self, f, x, v):
        return self.jvp(self.grad(f), (x,), (v,))[1]

    def columns(self, f, x, seeds):
        return self.vmap(lambda seed: self.jvp(f, (x,), (seed,))[1])(seeds)


def compared(f: Callable) -> int:
    """Return how many words of memory, dicts and other things are compared at each call of a compiled function."""
    fast = da.jit(f)
    np.testing.assert_allclose(fast(X), f(X))
    (entry,) = fast._entries
    return len(_plan(entry)[5])


def test_how_much_is_compared_at_each_call() -> None:
    """A dict is one, however much of it is read; what libraries define is none."""
    xp, transforms, many = Namespace(np, scale=2.0), Transforms(), [1.0] * 30
    inner = lambda x: xp.sin(x) * xp.exp(x) + xp.scale
    assert compared(lambda x: x * 2.0) <= 3
    for number in (1, 12, 200):
        assert compared(ordinary(number)) <= 8
    assert compared(inner) <= 20
    assert compared(lambda x: transforms.jvp(inner, (x,), (x,))[1]) <= 34
    assert compared(da.grad(lambda x: xp.sum(inner(x)))) <= 20
    assert compared(lambda x: x * many[7]) <= 5


# ── functions that solvers call ──────────────────────────────────────────────────────────────────────────────────


RATE = {"k": 1.0}
SOLVED = {
    "solve_ivp": lambda y: si.solve_ivp(lambda t, y: -RATE["k"] * y, (0, 1), y).y[:, -1],
    "adjoint": lambda y: si.solve_ivp(lambda t, y: -RATE["k"] * y, (0, 1), y, sensitivity="adjoint").y[:, -1],
    "odeint": lambda y: si.odeint(lambda y, t: -RATE["k"] * y, y, [0.0, 1.0])[-1],
    "quad": lambda y: si.quad(lambda s: np.exp(-RATE["k"] * s) * y.sum(), 0.0, 1.0)[0],
    "root": lambda y: so.root(lambda x: x**3 + RATE["k"] * x - y, y).x,
    "minimize": lambda y: so.minimize(lambda x: np.sum((x - RATE["k"] * y) ** 2), y).x,
    "least_squares": lambda y: so.least_squares(lambda x: x - RATE["k"] * y, y).x,
    "brentq": lambda y: so.brentq(lambda x: x**3 + RATE["k"] * x - y.sum(), -9.0, 9.0),
}


@pytest.mark.parametrize("name", SOLVED)
def test_each_solve_reads_again(name: str, monkeypatch) -> None:
    slope = da.grad(lambda y: np.sum(SOLVED[name](y)))
    y, asked = np.array([0.5, 0.25]), [slope, da.jit(slope)]
    before = [ask(y) for ask in asked]
    monkeypatch.setitem(RATE, "k", 2.0)
    after, h = [ask(y) for ask in asked], np.array([1e-4, 0.0])
    difference = (np.sum(SOLVED[name](y + h)) - np.sum(SOLVED[name](y - h))) / 2e-4
    for old, new in zip(before, after, strict=True):
        assert new[0] == pytest.approx(difference, rel=2e-3) and abs(old[0] - new[0]) > 0.01


def test_one_solve_reads_once() -> None:
    calls, rate = [], {"k": 1.0}

    def slopes(t, y):
        calls.append(t)
        rate["k"] = 1.0 if len(calls) < 10 else 2.0
        return -rate["k"] * y

    solve = lambda y: si.solve_ivp(slopes, (0, 1), y, rtol=1e-6).y[:, -1]
    _, tangent = da.jvp(solve, (np.ones(1),), (np.ones(1),))
    assert tangent == pytest.approx(np.exp(-1.0), rel=1e-3)
