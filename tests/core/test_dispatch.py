"""Dispatch: the innermost tensor goes first; plain arrays never enter."""

from __future__ import annotations

import numpy as np

import dualad as da
from dualad.core.contexts import everywhere
from dualad.core.dispatch import bind
from dualad.core.level import Level
from dualad.core.libraries import is_lazy
from dualad.core.tables import LIBRARIES, OPS, Library
from dualad.core.tracer import Tracer
from dualad.core.watch import Watch


class Plain:
    """A stand-in for an operator: its name, and what NumPy is asked for where no tensor is there."""

    name = "plain"
    blocks = ""

    @staticmethod
    def impl(*args, **params):
        return "NumPy", args, params


class Recorder(Tracer):
    """A tensor that says when it was asked."""

    __slots__ = ("level", "log", "name")

    def __init__(self, name: str, level: Level, log: list) -> None:
        self.name, self.level, self.log = name, level, log

    shape, dtype = (), np.dtype(float)

    def process(self, op, args, params):
        self.log.append((self.name, op.name, len(args)))
        return "processed"


def test_the_highest_level_is_asked_wherever_it_stands() -> None:
    log: list = []
    low, high = Recorder("low", Level("a"), log), Recorder("high", Level("b"), log)
    for args in ((low, high), (high, low), (1.0, high), (high, np.ones(2)), (low, 1.0)):
        assert bind(OPS["add"], args, {}) == "processed"
    assert log == [("high", "add", 2)] * 4 + [("low", "add", 2)]


def test_one_tensor_among_the_arguments_is_enough_and_none_is_numpy() -> None:
    """An implementation that knows no tensors is never given one, even by a level of the smallest number."""
    log: list = []
    one = Recorder("one", Level("a"), log)
    one.level.number = 1
    for args in ((one,), (1.0, one), (one, 1.0), (np.ones(2), 3, one)):
        assert bind(Plain, args, {}) == "processed"
    assert log == [("one", "plain", n) for n in (1, 2, 2, 3)]
    assert bind(Plain, (1.0, 2), {"axis": 0}) == ("NumPy", (1.0, 2), {"axis": 0})
    assert bind(Plain, (), {}) == ("NumPy", (), {})


def test_among_equals_the_first_is_asked() -> None:
    log: list = []
    level = Level("a")
    bind(Plain, (Recorder("first", level, log), Recorder("second", level, log)), {})
    assert log == [("first", "plain", 2)]


def test_a_watch_of_all_threads_carries_out_the_operation() -> None:
    class Seen(Watch):
        def operation(self, top, op, args, params):
            return "watched", top, op, args, params

    log: list = []
    one, watch = Recorder("one", Level("a"), log), Seen()
    watch.on_everywhere()
    try:
        assert bind(Plain, (1.0, one), {"axis": 1}) == ("watched", one, Plain, (1.0, one), {"axis": 1})
        assert bind(Plain, (1.0,), {}) == ("watched", None, Plain, (1.0,), {})
    finally:
        watch.off_everywhere()
    assert not everywhere and bind(Plain, (1.0, one), {}) == "processed"


def test_every_way_in_leads_to_the_same_place() -> None:
    log: list = []
    low, high = Recorder("low", Level("a"), log), Recorder("high", Level("b"), log)
    for call in (
        lambda: low + high,
        lambda: high + low,
        lambda: np.add(low, high),
        lambda: np.add(high, low),
        lambda: 1.0 + high,
        lambda: np.ones(2) + high,
        lambda: np.float64(1.0) + high,
        lambda: high + np.ones(2),
        lambda: np.add(np.ones(2), high),
        lambda: high.__radd__(low),
    ):
        assert call() == "processed"
    assert {entry[0] for entry in log} == {"high"}


def test_plain_arrays_never_enter(monkeypatch) -> None:
    """DESIGN section 1: interception is by the type of the argument; NumPy itself is untouched."""
    import dualad.core.tracer as tracer

    def fail(*args, **kwargs):
        raise AssertionError("plain NumPy was intercepted")

    monkeypatch.setattr(tracer.Tracer, "__array_ufunc__", fail)
    monkeypatch.setattr(tracer.Tracer, "__array_function__", fail)
    x = np.ones((2, 2))
    np.testing.assert_array_equal(
        np.linalg.inv(np.sin(x) + 2 * np.eye(2)) @ x, np.linalg.inv(np.sin(x) + 2 * np.eye(2)) @ x
    )
    f = lambda v: np.sum(np.where(v > 0, np.sqrt(v), 0.0))
    assert f(x) == 4.0 and type(f(x)) is np.float64


def test_numpy_is_not_patched() -> None:
    """No global state: NumPy's own functions are the ones it came with."""
    assert (
        isinstance(np.sin, np.ufunc) and np.sum.__module__ == "numpy" and np.linalg.solve.__module__ == "numpy.linalg"
    )
    assert da.jvp(np.sin, (0.0,), (1.0,))[1] == 1.0


class Later:
    """An array of a library that computes later."""

    shape, dtype = (2,), np.dtype(float)

    def __array__(self, dtype=None, copy=None):
        raise AssertionError("computed")


def test_lazy_arrays_are_handed_to_their_library_where_an_operator_needs_it(monkeypatch) -> None:
    """An operator that every library computes is called at once; another one is given to the library."""
    seen = []
    library = Library(run=lambda op, args, params, how, what: seen.append((op.name, how)))
    monkeypatch.setitem(LIBRARIES, Later.__module__.partition(".")[0], library)
    assert bind(OPS["sin"], (0.0,), {}) == 0.0
    assert bind(OPS["sort"], (np.array([2.0, 1.0]),), {"axis": 0}).tolist() == [1.0, 2.0]
    assert not seen
    bind(OPS["sort"], (Later(),), {"axis": 0})
    assert seen == [("sort", OPS["sort"].blocks)]
    assert is_lazy(Later()) and not is_lazy(np.ones(2))
