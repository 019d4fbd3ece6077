"""Failures of the compiler's own: logged and done without by users, raised by our tests."""

from __future__ import annotations

import logging
from collections.abc import Callable

import numpy as np
import pytest

import dualad as da
from dualad.compile import numpy_source, repeats, reroll, trust
from dualad.compile.native.engine import why_not
from dualad.compile.simplify import simplify
from dualad.compile.trust import proven
from dualad.compile.validate import check_same
from dualad.program.ir import Program


def test_a_failure_is_raised_where_the_suite_runs():
    assert trust.STRICT
    with pytest.raises(KeyError, match="of ours"):
        trust.fall_back("finding loops", KeyError("of ours"))


def test_users_get_a_record_and_its_traceback_at_the_level_debug(monkeypatch, caplog):
    monkeypatch.setattr(trust, "STRICT", False)
    caplog.set_level(logging.DEBUG, "dualad")
    try:
        raise KeyError("of ours")
    except KeyError as error:
        trust.fall_back("finding loops", error)
    warning, details = caplog.records
    assert warning.levelno == logging.WARNING and "finding loops failed" in warning.message
    assert details.levelno == logging.DEBUG and details.exc_info[1].args == ("of ours",)


def fails(*args, **kwargs):
    raise IndexError("of ours")


def model(x, w):
    y = np.tanh(x * w + 0.5)
    for _ in range(300):  # long enough for loops to be looked for
        y = y * 0.75 + x
    return np.sum(y * y), y[1:] - y[:-1]


@pytest.mark.parametrize(
    "part",
    ["call.simplify", "call.reroll", "numpy_source.find_stacks", "numpy_source.find_passes", "numpy_source.find_groups",
     "numpy_source._compile", "jit.front", "native.groups.Group.compile",
     "native.passes.Pass.compile"],
)  # fmt: skip
def test_any_part_may_fail(part: str, monkeypatch, caplog):
    if part in ("jit.front", "native.groups.Group.compile", "native.passes.Pass.compile") and (reason := why_not()):
        pytest.skip(reason)
    monkeypatch.setattr(trust, "STRICT", False)
    monkeypatch.setattr(f"dualad.compile.{part}", fails)
    for x in (np.linspace(-1.0, 1.0, 5), np.linspace(-1.0, 1.0, 300)):
        fast = da.jit(model)
        for _ in range(2):
            for a, b in zip(fast(x, 0.25), model(x, 0.25), strict=True):
                assert np.allclose(a, b, rtol=1e-14)
        assert np.allclose(da.grad(lambda x: da.jit(model)(x, 0.25)[0])(x), da.grad(lambda x: model(x, 0.25)[0])(x))
    assert "IndexError: of ours" in caplog.text


def test_a_program_that_nothing_could_compile_is_explained(monkeypatch):
    monkeypatch.setattr(trust, "STRICT", False)
    monkeypatch.setattr(numpy_source, "_compile", fails)
    fast = da.jit(lambda x, n: (x, x.reshape(2, 2), x[0] * n, 3.0))
    x = np.arange(4.0)
    same, whole, first, three = fast(x, 2.0)
    assert whole.base is None and not np.shares_memory(x, whole) and type(first) is np.float64 and three == 3.0
    assert np.array_equal(whole, x.reshape(2, 2)) and same is x
    assert "by the interpreter" in fast.explain(x, 2.0)


def with_wrong_constants(code):
    """Return repeats of which the long ones read the constants of their first iteration."""
    return [
        r._replace(refs=np.where(r.refs[0] < 0, r.refs[0], r.refs)) if r.iterations > 50 else r
        for r in repeats.find_repeats(code)
    ]


def test_of_several_loops_only_the_wrong_one_is_left_out(monkeypatch, caplog):
    def f(x, y):
        for k in range(60):  # the longer one is found first
            x = x * (0.1 * k + 0.05) + np.sin(y)
        for k in range(30):
            y = np.cos(y) - (0.2 * k + 0.01) * x * y
        return x, y

    monkeypatch.setattr(trust, "STRICT", False)
    monkeypatch.setattr(reroll, "_LONG", 60)
    monkeypatch.setattr(reroll, "find_repeats", with_wrong_constants)
    traced = da.trace(f, np.linspace(0.1, 0.7, 4), np.linspace(-0.5, 0.9, 4))
    program = Program(traced.inputs, traced.steps, traced.outputs, "f")
    loops = {"finding loops": reroll.reroll}
    kept = proven(program, {"simplification": simplify, **loops}, loops)
    check_same(program, kept)
    assert [count for count, _ in reroll.rolled_loops(kept)] == [30]
    (record,) = caplog.records
    assert "finding loops (of the program `f`)" in record.message
    assert not reroll.rolled_loops(proven(program, {"simplification": simplify, **loops}))


@pytest.mark.parametrize("f", [lambda x: np.repeat(np.stack([x, x]), 2), lambda x: np.stack([x, 2 * x])[:, 1:].ravel()])
def test_moves_of_stacked_arrays_are_proven(f: Callable, caplog: pytest.LogCaptureFixture) -> None:
    """An array of rows has no name of its own: what is taken out of it is taken out of these."""
    x = np.arange(4200.0).reshape(70, 60)
    np.testing.assert_array_equal(da.jit(f)(x), f(x))
    assert "left out" not in caplog.text
