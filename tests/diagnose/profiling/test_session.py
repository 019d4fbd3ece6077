"""The profiler: off is off, exceptions and late pulls leave it sound, pages and notebooks need nothing else."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading

import numpy as np
import pytest

import dualad as da
from dualad.batched import Batched
from dualad.core.contexts import everywhere
from dualad.core.level import Level
from dualad.core.primitive import Primitive
from dualad.core.tracer import Tracer
from dualad.dual import Dual, DualLevel
from dualad.errors import ArgumentError, DualadError
from dualad.tensors.staged import Staged


def attributes() -> dict:
    """What stands in every class that a profiler looks at."""
    classes = [Tracer, Dual, Batched, Staged, Level, DualLevel, Primitive]
    return {(cls.__name__, name): value for cls in classes for name, value in vars(cls).items()}


def loss(x):
    return np.sum(np.sin(x) * x)


def test_off_is_off() -> None:
    before = attributes()
    with da.profile() as p:
        assert everywhere
        with da.profile():
            da.grad(loss)(np.ones(3))
        assert everywhere
        da.grad(loss)(np.ones(3))
        during = attributes()
    assert {k for k in before if k not in during or during[k] is not before[k]} == set(), "nothing is patched"
    assert not everywhere
    count = len(p.events)
    da.grad(loss)(np.ones(3))
    assert len(p.events) == count > 0


def test_import_dualad_loads_no_profiler() -> None:
    code = (
        "import sys, dualad; a = 'dualad.profiling' in sys.modules; dualad.profile; print(a, 'profile' in dir(dualad))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]


def test_results_are_those_without_a_profiler() -> None:
    x = np.linspace(0.1, 1.0, 4)
    words = [
        lambda: da.jvp(loss, (x,), (x,)),
        lambda: da.grad(loss)(x),
        lambda: da.hessian(loss)(x),
        lambda: da.vmap(da.jacrev(lambda t: np.cumsum(t) / 2.0 - t))(np.stack([x, x])),
        lambda: da.linearize(loss, x)[1](x),
        lambda: da.linearize(da.grad(loss), x)[1].as_linear_operator() @ x,
        lambda: da.grad(lambda v: da.fori_loop(0, 3, lambda i, c: np.sin(c) * v, v).sum())(x),
        lambda: da.grad(da.checkpoint(loss))(x),
    ]
    for word in words:
        expected = word()
        with da.profile() as p:
            found = word()
        assert p.events
        for a, b in zip(np.atleast_1d(found), np.atleast_1d(expected), strict=True):
            np.testing.assert_array_equal(a, b)


def test_programs_are_those_without_a_profiler() -> None:
    """The short cuts that a profiler leaves out record what the long way records."""

    def f(x):
        return np.hypot(x, 2.0) / np.arctan2(x, 3.0) - x + (-x)

    expected = str(da.linearize(f, np.ones(3))[1].program)
    with da.profile() as p:
        program = da.linearize(f, np.ones(3))[1].program
    assert str(program) == expected
    assert sum(e.phase == "record" for e in p.events) >= len(program.steps)


def test_every_way_into_dispatch_is_seen() -> None:
    """Functions, ufuncs, operators from both sides, entries read: by each kind of tensor, and by a third party's."""

    def f(x):
        return np.sum(np.sin(x)) + (2.0 * x * x - x / 3.0)[1] - (-x)[1:].sum() + abs(x)[0]

    class Mine(Tracer):
        """A tensor that does with an operation what its value does."""

        __slots__ = ()
        shape = property(lambda self: self._value.shape)
        dtype = property(lambda self: self._value.dtype)

        def __init__(self, value, level):
            self._value, self.level = value, level

        def process(self, op, args, params):
            return Mine(op.impl(*[a._value if type(a) is Mine else a for a in args], **params), self.level)

    x = np.ones(3)
    expected = [
        "absolute",
        "add",
        "add",
        "divide",
        "index",
        "index",
        "index",
        "multiply",
        "multiply",
        "negative",
        "sin",
    ]
    expected += ["subtract", "subtract", "sum", "sum"]
    runs = {
        "tangent": lambda: da.jvp(f, (x,), (x,)),
        "linearize": lambda: da.linearize(f, x),
        "batched": lambda: da.vmap(f)(x[None]),
        "record": lambda: da.trace(f, x),
        "mine": lambda: f(Mine(x, Level("mine"))),
    }
    for phase, run in runs.items():
        with da.profile() as p:
            run()
        top = [e for e in p.events if e.phase == phase and (e.parent is None or not e.parent.operation)]
        assert sorted(e.name for e in top) == expected, phase


def test_programs_run_by_the_equation() -> None:
    with da.profile() as p:
        _, lin = da.linearize(loss, np.ones(3))
        lin(np.ones(3))
    run = [e for e in p.events if e.phase == "program"]
    assert [e.name for e in run] == [e.op.name for e in lin.program.equations]
    assert all(e.line is not None and e.line.function == "loss" and e.seq for e in run)


def test_an_exception_closes_what_was_open() -> None:
    def f(x):
        with da.profile.range("outer"):
            return np.linalg.solve(np.zeros((2, 2)) + x, np.ones(3))

    with da.profile() as p:
        with pytest.raises((DualadError, ValueError, np.linalg.LinAlgError)):
            da.grad(lambda x: f(x).sum())(1.0)
        da.jvp(np.sin, (1.0,), (1.0,))
    assert p.events[-1].parent is None and p.events[-1].name == "jvp"
    assert {e.name for e in p.events if e.failed} >= {"outer", "grad"}
    assert not everywhere


def test_a_pull_that_fails_halfway() -> None:
    @da.custom_vjp
    def f(x):
        return np.sin(x)

    def refuse(residuals, ct):
        raise RuntimeError("no way back")

    f.defvjp(lambda x: (f(x), None), refuse)
    with da.profile() as p:
        _, pull = da.vjp(lambda x: f(np.cos(x)) + 1.0, 1.0)
        with pytest.raises(RuntimeError, match="no way back"):
            pull(1.0)
        da.jvp(np.sin, (1.0,), (1.0,))
    assert p.events[-1].name == "jvp" and p.events[-1].parent is None


def test_what_was_recorded_before_has_no_line() -> None:
    _, pull = da.vjp(loss, np.ones(3))
    with da.profile() as p:
        pull(1.0)
    back = [e for e in p.events if e.phase == "transpose"]
    assert back and all(e.seq is None for e in back)


def test_tasks_nest_their_own_events() -> None:
    async def work(name):
        with da.profile.range(name):
            await asyncio.sleep(0)
            da.jvp(np.sin, (1.0,), (1.0,))
            await asyncio.sleep(0)

    async def both():
        await asyncio.gather(work("a"), work("b"))

    with da.profile() as p:
        asyncio.run(both())
    assert sorted(e.parent.name for e in p.events if e.name == "jvp") == ["a", "b"]


def test_limits_and_refusals() -> None:
    with da.profile(limit=2) as p:
        da.grad(loss)(np.ones(3))
    assert len(p.events) == 2 and p.dropped > 0 and f"{p.dropped} more events were dropped" in p.table()
    with p, pytest.raises(ArgumentError, match="on already"):
        p.__enter__()
    for wrong in (lambda: da.profile(threads="some"), lambda: p.rows(sort="size"), lambda: p.rows(by="color")):
        with pytest.raises(ArgumentError):
            wrong()
    with da.profile() as empty:
        loss(np.ones(3))
    assert "no transform ran" in str(empty) and "0 events" in repr(empty)


def test_memory_counts_no_views() -> None:
    with da.profile() as p:
        da.jvp(lambda x: np.exp(x.reshape(2, 3).T), (np.ones(6),), (np.ones(6),))
    sizes = {e.name: e.bytes for e in p.events if e.operation}
    assert sizes["exp"] == 2 * 6 * 8
    assert sizes["reshape"] == 0 and sizes["transpose"] == 0


def test_a_pull_in_another_thread_leads_back_to_its_line() -> None:
    with da.profile() as p:
        _, pull = da.vjp(loss, np.ones(3))
        other = threading.Thread(target=pull, args=(1.0,))
        other.start()
        other.join()
    back = [e for e in p.events if e.phase == "transpose"]
    assert {e.thread for e in back} == {other.ident} != {threading.get_ident()}
    assert {e.line.function for e in back} == {"loss"} and all(e.seq for e in back)
