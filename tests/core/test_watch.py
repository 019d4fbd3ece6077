"""Watches: one that only looks on changes nothing; what is noted, and what the log says.

Not for: what the watches of debugging, explaining and profiling make of it (tests/diagnose, tests/diagnose/profiling).
"""

from __future__ import annotations

import logging

import numpy as np
import pytest

import dualad as da
from dualad.core.aval import aval_of
from dualad.core.contexts import active, everywhere, in_use, process_wide
from dualad.core.tables import OPS
from dualad.core.watch import Watch, tag_origin
from dualad.program.variable import Step, Variable, WatchedStep

X, Y = np.array([0.3, -1.2, 0.8]), np.array([1.5, 0.4, -0.7])


def f(x, y):
    parts = np.split(np.concatenate([np.sin(x) * y, x]), 2)
    signs = np.sign(x)
    return parts[0] * signs + np.sort(parts[1]) * y[0]


def total(x, y):
    return np.sum(f(x, y) ** 2)


TRANSFORMS = {
    "jvp": lambda: da.jvp(f, (X, Y), (Y, X)),
    "grad": lambda: da.grad(total, (0, 1))(X, Y),
    "vmap": lambda: da.vmap(f)(np.stack([X, Y]), np.stack([Y, X])),
    "hessian": lambda: da.hessian(total)(X, Y),
    "linearize": lambda: da.linearize(f, X, Y)[1](Y, X),
    "trace": lambda: da.trace(total, X, Y)(Y, X),
    "no tangents": lambda: da.jvp(lambda x: x * f(Y, Y), (X,), (Y,)),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_who_only_looks_on_changes_nothing(name: str) -> None:
    expected = da.tree.flatten(TRANSFORMS[name]())[0]
    watch = Watch()
    with watch.on() as same:
        assert same is watch is active()
        seen = da.tree.flatten(TRANSFORMS[name]())[0]
    watch.on_everywhere()
    try:
        assert process_wide() is watch
        seen_everywhere = da.tree.flatten(TRANSFORMS[name]())[0]
    finally:
        watch.off_everywhere()
    for a, b, c in zip(expected, seen, seen_everywhere, strict=True):
        np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(a, c)
    assert (active(), process_wide(), in_use, everywhere) == (None, None, [], [])
    assert watch.elsewhere() is watch


class Counting(Watch):
    """A watch that counts what it is told of."""

    def __init__(self):
        self.duals, self.operations, self.levels = [], [], []

    def dual(self, level, op, primals, tangents, params):
        self.duals.append(op.name)
        return super().dual(level, op, primals, tangents, params)

    def operation(self, top, op, args, params):
        self.operations.append((op.name, top is None))
        return super().operation(top, op, args, params)

    def opened(self, level):
        self.levels.append(("opened", level.transform))

    def closed(self, level, failed):
        self.levels.append(("closed", level.transform, failed))


def test_what_a_watch_is_told() -> None:
    watch = Counting()
    with watch.on():
        with watch.on():
            da.jvp(lambda x: np.sin(x) * 2.0 + np.hypot(x, 1.0), (1.0,), (1.0,))
        assert active() is watch
        assert len(in_use) == 1
    assert watch.duals == ["sin", "multiply", "hypot", "add"]
    watch.on_everywhere()
    try:
        da.jvp(lambda x: np.multiply(np.sin(x), 2.0), (1.0,), (1.0,))
        with pytest.raises(ZeroDivisionError):
            da.jvp(lambda x: 1 // 0, (1.0,), (1.0,))
    finally:
        watch.off_everywhere()
    assert [name for name, _ in watch.operations if name in ("sin", "multiply")][:2] == ["sin", "multiply"]
    assert watch.levels == [("opened", "jvp"), ("closed", "jvp", False), ("opened", "jvp"), ("closed", "jvp", True)]


def test_tensors_made_under_a_watch_know_their_line() -> None:
    def g(x):
        kept = tag_origin((2.0 * x, x + 1.0))
        assert all("test_watch.py:" in x._origin for x in kept)
        tag_origin((1.0, x))
        assert "test_watch.py:" in tag_origin(x)._origin
        return x

    da.jvp(g, (1.0,), (1.0,))


def test_a_rewritten_equation_remembers() -> None:
    out = Variable(aval_of(1.0))
    step = WatchedStep("sin", (1,), {}, (out,))
    step.line, step.cause = "here", "why"
    new = step.rewritten("cos", (2,), {}, (out,))
    assert (tuple(new), new.line, new.cause) == (("cos", (2,), {}, (out,)), "here", "why")
    assert (new.op, new.args, new.out) == ("cos", (2,), out)
    plain = Step("sin", (1,), {}, (out,)).rewritten("cos", (2,), {}, (out,))
    assert type(plain) is Step and (plain.line, plain.cause) == ("", None)


def test_the_log_names_what_is_transposed(caplog) -> None:
    @da.custom_vjp
    def twice(x):
        return 2.0 * x

    twice.defvjp(lambda x: (twice(x), None), lambda known, ct: (2.0 * ct,))

    def h(x):
        unused = np.cos(x)
        return np.sum(np.sin(twice(x))) + 0.0 * len(unused)

    da.grad(h)(X)
    assert not caplog.records
    with caplog.at_level(logging.DEBUG, logger="dualad"):
        with da.debug():
            da.grad(h)(X)
        lines = [r.getMessage() for r in caplog.records if r.getMessage().startswith("[DAL008] transpose")]
        caplog.clear()
        da.grad(h)(X)
    bare = [r.getMessage() for r in caplog.records]
    assert bare == [
        "[DAL008] transpose sum of f64[]",
        "[DAL008] transpose multiply of f64[3]",
        "[DAL008] transpose linear_call of `twice` of f64[3]",
    ]
    assert [line.partition(" at ")[0] for line in lines] == bare
    assert all("test_watch.py:" in line.partition(" at ")[2] for line in lines)
    assert [r.op for r in caplog.records] == ["sum", "multiply", "linear_call"]


def test_an_operation_of_plain_arrays_under_a_watch_is_numpys() -> None:
    assert Watch().operation(None, OPS["multiply"], (2.0, 3.0), {}) == 6.0


def test_a_watch_sees_the_function_of_the_outermost_transform_and_its_result() -> None:
    class Seen(Watch):
        def __init__(self):
            self.calls, self.results = [], []

        def calling(self, f, args, kwargs):
            self.calls.append(len(args))
            return self.results.append

    watch = Seen()
    nested = lambda x: da.jvp(lambda y: y * y, (x,), (1.0,))[1]
    with watch.on():
        for _ in range(2):
            assert da.jvp(nested, (3.0,), (1.0,)) == (6.0, 2.0)
    da.jvp(nested, (3.0,), (1.0,))
    assert watch.calls == [1, 1] and len(watch.results) == 2
