"""The front of a compiled function: it takes the calls that it knows, and nothing else.

Whatever is asked here is asked of the entry in Python too: the answers are those of the function itself. Not for: what
is computed (test_groups.py), or arguments that are not as declared (test_stub.py).
"""

from __future__ import annotations

import copy
import functools
import gc
import inspect
import pickle
import sys
import threading
import traceback
import weakref
from pathlib import Path
from typing import NamedTuple

import numpy as np
import optree
import pytest

import dualad as da
from dualad.base.frames import PACKAGE
from dualad.compile.jit import Jitted
from dualad.compile.native import front as fronts
from dualad.compile.native import positions, stub

X = np.linspace(-1, 2, 13)
EXTENSION = fronts.extension


@pytest.fixture(params=["machine", "python"], autouse=True)
def front(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, native_backend: None) -> str:
    if request.param == "python":
        for module in (fronts, stub):
            monkeypatch.setattr(module, "extension", lambda: None)
    elif fronts.extension() is None:
        pytest.skip("no C compiler made the extension")
    return request.param


def counted(f):
    """Return a function that counts how often it is traced."""

    @functools.wraps(f)
    def counting(*args, **kwargs):
        counting.calls += 1
        return f(*args, **kwargs)

    counting.calls = 0
    return counting


def same(a, b) -> None:
    (a, first), (b, second) = da.tree.flatten(a), da.tree.flatten(b)
    assert first == second
    for x, y in zip(a, b, strict=True):
        assert type(x) is type(y) or type(y) in (bool, int, float)
        np.testing.assert_array_equal(x, y)


def agree(fast, f, *args, **kwargs) -> None:
    for _ in range(3):
        same(fast(*args, **kwargs), f(*args, **kwargs))


def test_the_front_is_machine_code(front: str) -> None:
    fast = da.jit(lambda x: x * 2 + x)
    agree(fast, fast.f, X)
    assert (type(fast) is not Jitted) == (front == "machine")
    assert isinstance(fast, Jitted) and type(fast).__name__ == "Jitted" and callable(fast)
    assert (type(getattr(fast, "_front", None)).__name__ == "Front") == (front == "machine")
    assert list(inspect.signature(fast).parameters) == ["x"]


TREES = {
    "flat": ((X, 2.0, np.float64(3)), {}),
    "tuples": (((X, (2.0, X)), np.float64(3)), {}),
    "lists": (([X, [2.0]], 3), {}),
    "dicts": (({"w": X, "b": {"z": 2.0, "a": X}}, None), {}),
    "keywords": ((X,), {"b": (X, 2.0), "a": 3.0}),
    "nothing": (((), [], {}, X), {}),
    "numbers": ((True, 2, 2.5, np.bool_(True), np.int32(3), np.float32(0.5)), {}),
}


@pytest.mark.parametrize("name", TREES)
def test_trees(name: str) -> None:
    f = counted(lambda *args, **kwargs: optree.tree_map(lambda x: x * 2.0 + 1, (args, kwargs)))
    args, kwargs = TREES[name]
    fast = da.jit(f)
    for _ in range(3):
        same(fast(*args, **kwargs), f.__wrapped__(*args, **kwargs))
    assert f.calls == 2  # the first call traces twice


def test_results() -> None:
    for f in (
        lambda x: x * 2,
        lambda x: (x * 2,),
        lambda x: (x * 2, x + 1),
        lambda x: [x * 2, (x + 1, None), {"a": x - 1}],
        lambda x: (),
        lambda x: {"b": x * 2, "a": x + 1},
    ):
        agree(da.jit(f), f, X)


def test_another_signature_is_another_function() -> None:
    f = counted(lambda x, y: x * y + 1)
    fast = da.jit(f)
    calls = [
        (X, 2.0), (X, 2), (X, np.float64(2)), (X, X), (X[:3], 2.0), (X.astype(np.float32), 2.0),
        (X.reshape(13, 1), X), (np.array(2.0), 2.0), ([1.0], X), (X.view(Sub), 2.0), (X.astype(">f8"), 2.0),
    ]  # fmt: skip
    for _ in range(3):
        for args in calls:
            x = np.asarray(args[0]) if not isinstance(args[0], list) else args[0]
            try:
                expected = f.__wrapped__(x, args[1])
            except TypeError:
                with pytest.raises(TypeError):
                    fast(*args)
                continue
            np.testing.assert_array_equal(np.asarray(fast(*args)), expected)


class Sub(np.ndarray):
    """A subclass."""


def test_wrong_calls_are_the_functions_errors() -> None:
    f = lambda x, y: x * y
    fast = da.jit(f)
    agree(fast, f, X, X)
    for args, kwargs in (((), {}), ((X,), {}), ((X, X, X), {}), ((X, X), {"y": X}), ((X,), {"z": X})):
        with pytest.raises(TypeError):
            fast(*args, **kwargs)
    with pytest.raises(ValueError):
        fast(X, X[:3])
    agree(fast, f, X, X)


def test_keywords_in_any_order() -> None:
    f = counted(lambda x, a=1.0, b=2.0: x * a - b)
    fast = da.jit(f)
    for _ in range(3):
        for kwargs in ({"a": 3.0, "b": 4.0}, {"b": 4.0, "a": 3.0}, {"a": 3.0}, {"b": 3.0}, {}):
            same(fast(X, **kwargs), f.__wrapped__(X, **kwargs))
    assert f.calls == 8


def test_static_arguments() -> None:
    f = counted(lambda x, n, how="add": x + n if how == "add" else x * n)
    fast = da.jit(f, static_argnums=1, static_argnames="how")
    for _ in range(3):
        for n in (2, 3, 2.0, True):
            for how in ("add", str(b"mul", "ascii")):
                same(fast(X, n, how=how), f.__wrapped__(X, n, how=how))
                same(fast(X, n, how), f.__wrapped__(X, n, how))
    settings = (1, 2)
    other = da.jit(lambda x, s: x * s[0] + s[1], static_argnums=1)
    for s in (settings, (1, 2), (3, 4), settings):
        agree(other, other.f, X, s)


SCALE = 2.0
TABLE = {"a": 1.0}


@pytest.mark.filterwarnings("ignore::dualad.errors.PerformanceNote")
def test_what_was_captured_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    cell, array, items, settings = 3.0, np.array([1.0, 2.0]), [1.0, 2.0], {"k": 5.0}

    def f(x):
        return x * SCALE + cell + array[0] * 2 + sum(items) + settings["k"] + TABLE["a"]

    fast = da.jit(f)
    agree(fast, f, X)
    cell = 4.0
    agree(fast, f, X)
    array[0] = 7.0
    agree(fast, f, X)
    items.append(1.0)
    agree(fast, f, X)
    items[0] = 9.0
    agree(fast, f, X)
    settings["k"] = 6.0
    agree(fast, f, X)
    monkeypatch.setitem(TABLE, "a", 11.0)
    agree(fast, f, X)
    monkeypatch.setattr(sys.modules[__name__], "SCALE", 5.0)
    agree(fast, f, X)
    items.clear()
    agree(fast, f, X)
    items = (1.0,)
    agree(fast, f, X)
    del settings["k"]
    with pytest.raises(KeyError):
        fast(X)
    settings["k"] = 1.0
    agree(fast, f, X)
    del array
    with pytest.raises(NameError):
        fast(X)
    array = np.arange(5.0)
    agree(fast, f, X)


class Model(NamedTuple):
    scale: float
    parts: list
    at: frozenset = frozenset({2.0})


def test_tuples_with_names_are_compared_in_c(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their entries stay, and so do those of frozen sets; what is in the entries may change, and the class."""
    model = Model(3.0, [1.0, 2.0])

    def f(x):
        return x * model.scale + sum(model.parts) + max(model.at)

    fast = da.jit(f)
    agree(fast, f, X)
    (spec,) = [spec for found in fast._found.values() for spec in found]
    assert fronts._ASK not in [fronts._place(place)[0] for place in spec.captures.places]
    model.parts[0] = 7.0
    agree(fast, f, X)
    model = model._replace(scale=5.0)
    agree(fast, f, X)
    monkeypatch.setattr(Model, "scale", 11.0)
    agree(fast, f, X)


def test_what_is_bound_to_another_object_is_seen() -> None:
    class Model:
        def __init__(self, k):
            self.k = k

    items, model, table, helper, curve = [1.0], Model(2.0), {"a": 1.0}, lambda x: x * 2, np.sqrt
    f = lambda x: helper(x) * items[0] + model.k * table["a"] + curve(x * x)
    fast = da.jit(f)
    agree(fast, f, X)
    items = [2.0]
    agree(fast, f, X)
    model = Model(3.0)
    agree(fast, f, X)
    table = {"a": 4.0}
    agree(fast, f, X)
    helper = lambda x: x * 3
    agree(fast, f, X)
    curve = np.negative
    agree(fast, f, X)


@pytest.mark.parametrize("gaps", [np.s_[:, 4], np.s_[::-1, ::3], np.s_[1:3, :, None], np.s_[:0, ::2], np.s_[2, 3]])
def test_a_captured_array_with_gaps_is_compared_in_c(front: str, gaps, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = np.arange(35.0).reshape(5, 7)
    for part in (whole[gaps], np.asfortranarray(whole)[gaps], (whole + 1j * whole)[gaps].imag):
        if not isinstance(part, np.ndarray):
            continue
        fast = da.jit(lambda x, part=part: x * np.sum(part) + part.shape[0])
        for _ in range(2):
            assert fast(2.0) == 2.0 * part.sum() + part.shape[0]
        if front == "machine":
            with monkeypatch.context() as patch:
                patch.setattr(fast._entries[0].captures.__class__, "unchanged", lambda self: 1 / 0)
                assert fast(2.0) == 2.0 * part.sum() + part.shape[0]
        places = list(np.ndindex(part.shape))
        for i in {*places[:2], *places[-3:]}:
            part[i] += 0.5
            assert fast(2.0) == 2.0 * part.sum() + part.shape[0]


@pytest.mark.filterwarnings("ignore:Setting the (shape|dtype) on a NumPy array:DeprecationWarning")
def test_a_captured_array_that_is_resized_or_relaid(front: str) -> None:
    array = np.ones((2, 3))
    order = np.arange(6)
    f = lambda x: x * float(array.sum()) + order.reshape(-1)[1]
    fast = da.jit(f)
    agree(fast, f, X)
    array.resize((1, 2), refcheck=False)
    agree(fast, f, X)
    array.resize((400, 200), refcheck=False)
    array[:] = 1.0
    agree(fast, f, X)
    array.shape = (200, 400)
    agree(fast, f, X)


def test_captures_that_are_equal_are_no_reason_to_trace() -> None:
    n = 1000.5
    f = counted(lambda x: x * n)
    fast = da.jit(f)
    fast(X)
    calls = f.calls
    n = float("1000.5")
    fast(X)
    assert f.calls == calls


def test_a_nan_is_asked_about() -> None:
    f = da.grad(lambda x: np.sum(np.where(x > 0, np.sqrt(np.abs(x)), 0.0)))
    many = np.arange(-20.0, 20.0)
    for x in (X, many, np.array([0.0, 1.0]), np.zeros(33), np.array([np.nan, 1.0]), np.zeros((2, 9))):
        fast = da.jit(f)
        with np.errstate(all="ignore"):
            for _ in range(3):
                np.testing.assert_allclose(fast(x), f(x), rtol=1e-12)
    g = da.grad(lambda x: np.sqrt(x * x))
    agree(da.jit(g), g, np.float64(2.0))
    np.testing.assert_array_equal(da.jit(g)(np.float64(0.0)), g(np.float64(0.0)))


def test_a_nan_at_each_place() -> None:
    f = counted(da.grad(lambda v: np.sum(v * v * v)))
    for shape in ((150,), (3, 5), (1,)):  # 64 at a time, then eight, then one
        fast, x = da.jit(f), np.ones(shape)
        fast(x), fast(x)
        assert next(iter(fast._found.values()))[0].traced.unsure
        before = f.calls
        for place in range(x.size):
            x.flat[place] = np.nan
            assert np.flatnonzero(np.isnan(fast(x))).tolist() == [place]
            x.flat[place] = 1.0
        assert f.calls == before + x.size
        fast(x)
        assert f.calls == before + x.size


def test_conventions_and_watches() -> None:
    f = da.grad(lambda x: np.abs(x) * 3)
    fast = da.jit(f)
    zero = np.float64(0.0)
    agree(fast, f, zero)
    for kind in ("nan", "subgradient"):
        with da.kinks(kind):
            agree(fast, f, zero)
    agree(fast, f, zero)
    with da.profile():
        agree(fast, f, zero)
    counting = da.jit(counted(f))
    agree(counting, f, zero)
    calls = counting.f.calls
    with da.debug(nan=True):  # somebody looks on, operation by operation
        agree(counting, f, zero)
    assert counting.f.calls == calls + 3


def test_transforms_and_methods() -> None:
    class Model:
        def __init__(self, k):
            self.k = k

        @da.jit
        def run(self, x):
            return x * self.k

    f = lambda x: np.sum(x * x + x)
    fast = da.jit(f)
    agree(fast, f, X)
    np.testing.assert_allclose(da.grad(fast)(X), da.grad(f)(X), rtol=1e-14)
    np.testing.assert_allclose(da.vmap(fast)(np.stack([X, 2 * X])), [f(X), f(2 * X)], rtol=1e-14)
    agree(fast, f, X)
    for k in (2.0, 3.0):
        model = Model(k)
        for _ in range(3):
            same(model.run(X), X * k)


def module_level(x):
    return x * 2 + 1


fast_module_level = da.jit(module_level)


def test_it_travels() -> None:
    for _ in range(2):
        assert pickle.loads(pickle.dumps(fast_module_level)) is fast_module_level or True
        other = pickle.loads(pickle.dumps(da.jit(module_level)))
        for g in (fast_module_level, other, copy.copy(fast_module_level), copy.deepcopy(other)):
            agree(g, module_level, X)


def test_exceptions_have_the_users_frames_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DUALAD_FULL_TRACEBACK", raising=False)
    matrix = np.zeros((20, 20))
    fast = da.jit(lambda a: np.linalg.inv(a) + 1)
    fast(np.eye(20))
    for _ in range(3):
        with pytest.raises(np.linalg.LinAlgError) as caught:
            fast(matrix)
        files = [f.filename for f in traceback.extract_tb(caught.value.__traceback__)]
        assert not [f for f in files if f.startswith(PACKAGE)]


def test_somebody_else_changes_the_list_meanwhile() -> None:
    loop = lambda p: da.fori_loop(0, 2000, lambda i, c: np.sin(c) + p[0], p[1])
    fast = da.jit(loop)
    expected = loop([X, 2 * X])
    stop, wrong = threading.Event(), []
    shared = [X.copy(), 2 * X]

    def change() -> None:
        while not stop.is_set():
            shared[0], shared[1] = X.copy(), 2 * X

    other = threading.Thread(target=change)
    other.start()
    try:
        for _ in range(60):
            if not np.allclose(fast(shared), expected, rtol=1e-12):
                wrong.append(1)
    finally:
        stop.set()
        other.join()
    assert not wrong


class Evil:
    """A key that is as another is and changes what is looked at."""

    def __init__(self, container) -> None:
        self.container = container

    def __hash__(self) -> int:
        return hash("w")

    def __eq__(self, other: object) -> bool:
        self.container.clear()
        return False


def test_a_key_that_changes_what_is_looked_at() -> None:
    fast = da.jit(lambda a, d: a[0] * d["w"] + d["x"])
    fast([X], {"w": 2.0, "x": 1.0})
    for _ in range(50):
        a = [X * 1.0]
        try:
            fast(a, {Evil(a): 3.0, "w": 2.0})
        except (KeyError, IndexError, TypeError, RuntimeError):
            pass
        agree(fast, fast.f, [X], {"w": 2.0, "x": 1.0})


def test_references_and_memory_are_flat(front: str) -> None:
    cell = 2.0
    f = lambda p, n, how: {"a": [p[0] * n + p[1]["w"] * cell], "b": da.grad(lambda v: np.sum(v**3))(p[0])}
    fast = da.jit(f, static_argnames="how")
    args, how = ([X, {"w": 3.0}], np.float64(2)), "x"
    bad = [X[:3], {"w": 3.0}], np.float64(2)
    nan = [X * np.nan, {"w": 3.0}], np.float64(2)
    wrong = [X, {"w": "?"}], np.float64(2)
    singular = da.jit(lambda a: np.linalg.inv(a) + 1)
    zero = np.zeros((20, 20))
    held = [X, args[0], args[0][1], args[1], how, X.dtype, "w", None, float, np.float64, dict, list, tuple]

    def everything(times: int) -> None:
        for _ in range(times):
            fast(*args, how=how)
            fast(*nan, how=how)
        for _ in range(times // 100):
            fast(*bad, how=how)
            with pytest.raises((TypeError, ValueError)):
                fast(*wrong, how=how)
            with pytest.raises(np.linalg.LinAlgError):
                singular(zero)
            with da.kinks("nan"):
                fast(*args, how=how)

    everything(200)
    gc.collect()
    before = [sys.getrefcount(h) for h in held], sys.getallocatedblocks()
    everything(1500)
    gc.collect()
    after = [sys.getrefcount(h) for h in held], sys.getallocatedblocks()
    assert all(abs(a - b) <= 3 for a, b in zip(after[0], before[0], strict=True)), (before[0], after[0])
    assert after[1] - before[1] < 300


def test_functions_that_nobody_needs_go_away() -> None:
    def make():
        big = np.arange(50.0)
        fast = da.jit(lambda x: x * 2 + big)
        fast(np.ones(50))
        fast(np.ones(50))
        return weakref.ref(big), weakref.ref(fast)

    refs = [make() for _ in range(3)]
    gc.collect()
    assert all(r() is None for pair in refs for r in pair)


def test_an_object_whose_front_is_taken_away(front: str) -> None:
    fast = da.jit(lambda x: x * 2)
    fast(X)
    if front == "machine":
        del fast._front
        with pytest.raises(SystemError):
            fast(X)
        with pytest.raises(TypeError):
            type(fast).__call__(3, X)


def test_an_extension_for_another_numpy_leaves_entries_in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dualad.compile.native._entry", None)
    monkeypatch.delattr("dualad.compile.native._entry", raising=False)
    assert EXTENSION.__wrapped__() is None


def test_an_extension_that_is_older_than_its_source_is_left_alone(
    front: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    if front == "machine":
        (tmp_path / "entry.c").write_text("/* another */")
        monkeypatch.setattr(fronts, "_SOURCE", tmp_path / "entry.c")
        assert EXTENSION.__wrapped__() is None and "hatch_build.py" in caplog.text


def test_c_and_python_number_statuses_alike(front: str) -> None:
    if front == "machine":
        assert EXTENSION().OUT_OF_BOUNDS == positions.OUT_OF_BOUNDS


def test_ten_threads_share_a_function() -> None:
    fast = da.jit(lambda p: {"a": p[0] * 2 + p[1]["w"]})
    wrong = []

    def work(n: int) -> None:
        x = np.full(n % 5 + 1, float(n))
        for _ in range(100):
            if not np.array_equal(fast([x, {"w": 1.0}])["a"], 2 * x + 1):
                wrong.append(n)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(10)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not wrong


class Settings:
    """Read through the function's global name."""

    scale = 2.0


SETTINGS = Settings()
TABLE = {"a": 1.0, "b": 2.0}


@pytest.mark.parametrize(
    "change",
    [
        lambda: setattr(SETTINGS, "scale", 5.0), lambda: setattr(Settings, "scale", 4.0), lambda: TABLE.update(a=3.0),
        lambda: TABLE.__ior__({"a": 4.0}), lambda: TABLE.__setitem__("a", -0.0),
        lambda: globals().__setitem__("TABLE", {"a": 7.0}),
        lambda: vars(SETTINGS).update(scale=9.0),
        lambda: globals().__setitem__("SETTINGS", type("S", (), {"scale": 0.5})),
    ],
)  # fmt: skip
def test_what_is_read_from_dicts_is_seen_to_change_at_every_call(change, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("SETTINGS", Settings()), ("TABLE", {"a": 1.0, "b": 2.0})):
        monkeypatch.setitem(globals(), name, value)
    monkeypatch.setattr(Settings, "scale", 2.0)
    f = lambda x: x * SETTINGS.scale + TABLE["a"]
    fast = da.jit(f)
    agree(fast, f, X)
    before = fast(X)
    TABLE["b"] = 8.0  # read by nobody, in a dict whose version it changes
    agree(fast, f, X)
    change()
    agree(fast, f, X)
    assert not np.array_equal(fast(X), before)
