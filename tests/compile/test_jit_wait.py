"""``jit(wait=False)``: the function itself runs until a thread has made the code.

Not for: what is compiled, or how it is guarded (test_jit.py, test_captures.py).
"""

from __future__ import annotations

import logging
import pickle
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import dualad as da
from dualad.compile import call
from dualad.errors import ArgumentError

POINT = np.array([0.3, -1.2, 2.0])
SCALE = 2.0


def smooth(x: np.ndarray) -> np.ndarray:
    return np.sum(np.sin(x) * x) * SCALE


def workers() -> list[threading.Thread]:
    return [t for t in threading.enumerate() if t.name.startswith("jit of")]


def wait_for_all() -> None:
    for worker in workers():
        worker.join(60)
        assert not worker.is_alive()


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """An event that compilation waits for."""
    opened, compile_ = threading.Event(), call._compile

    def later(program: Any) -> Any:
        assert opened.wait(60)
        return compile_(program)

    monkeypatch.setattr(call, "_compile", later)
    yield opened
    opened.set()
    wait_for_all()


def compiled_runs(fast: Any) -> int:
    return sum([s.program._compiled is not None for specs in fast._found.values() for s in specs])


def test_the_function_runs_until_the_code_is_there(gate: threading.Event) -> None:
    fast = da.jit(smooth, wait=False)
    for _ in range(3):
        assert fast(POINT) == smooth(POINT) and not compiled_runs(fast) and len(workers()) == 1
    gate.set()
    wait_for_all()
    assert not fast._entries, "nobody has asked since the code is there"
    for _ in range(3):
        assert fast(POINT) == pytest.approx(smooth(POINT), rel=1e-14)
    assert len(fast._entries) == 1 and compiled_runs(fast) == 1 and not workers()
    assert "compared with NumPy" in fast.explain(POINT)


def test_what_is_read_is_compared_while_nobody_waits(gate: threading.Event, monkeypatch: pytest.MonkeyPatch) -> None:
    fast = da.jit(smooth, wait=False)
    fast(POINT)
    monkeypatch.setitem(globals(), "SCALE", 3.0)
    assert fast(POINT) == smooth(POINT)
    gate.set()
    wait_for_all()
    for _ in range(2):
        assert fast(POINT) == pytest.approx(smooth(POINT), rel=1e-14)
    monkeypatch.setitem(globals(), "SCALE", 2.0)
    assert fast(POINT) == pytest.approx(smooth(POINT), rel=1e-14)


@pytest.mark.parametrize("open_first", [False, True])
def test_derivatives_of_it(gate: threading.Event, open_first: bool) -> None:
    fast = da.jit(smooth, wait=False)
    if open_first:
        fast(POINT)
        gate.set()
        wait_for_all()
    for transform, given in ((da.grad, POINT), (da.hessian, POINT), (da.vmap, np.stack([POINT, -POINT]))):
        np.testing.assert_allclose(transform(fast)(given), transform(smooth)(given), rtol=1e-13, atol=1e-15)


def test_writes_into_arguments_are_carried_out_once(gate: threading.Event) -> None:
    def f(x):
        x[1:] += 1.0
        return np.sum(x)

    fast, plain = da.jit(f, wait=False), np.array(POINT)
    expected = [f(plain), f(plain), f(plain)]
    x = np.array(POINT)
    found = [fast(x)]
    gate.set()
    wait_for_all()
    found += [fast(x), fast(x)]
    assert found == expected
    np.testing.assert_array_equal(x, plain)


def test_threads_that_call_together(gate: threading.Event) -> None:
    fast, found = da.jit(smooth, wait=False), []
    callers = [threading.Thread(target=lambda: found.append(fast(POINT))) for _ in range(8)]
    for c in callers:
        c.start()
    gate.set()
    for c in callers:
        c.join(60)
    wait_for_all()
    np.testing.assert_allclose([*found, fast(POINT)], np.full(9, smooth(POINT)), rtol=1e-14)


def test_a_failure_is_logged_and_raised_where_the_function_is_called(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(program: Any) -> Any:
        raise MemoryError("no room")

    monkeypatch.setattr(call, "_compile", fails)
    fast = da.jit(smooth, wait=False)
    with caplog.at_level(logging.INFO, "dualad"):
        assert fast(POINT) == smooth(POINT)
        wait_for_all()
    assert any(["DAL004" in r.getMessage() and "no room" in r.getMessage() for r in caplog.records])
    with pytest.raises(MemoryError):
        fast(POINT)
    monkeypatch.undo()
    assert fast(POINT) == pytest.approx(smooth(POINT), rel=1e-14)


def test_a_thread_that_is_gone_is_replaced(gate: threading.Event) -> None:
    fast = da.jit(smooth, wait=False)
    fast(POINT)
    (spec,) = next(iter(fast._found.values()))
    working, spec.program._worker = spec.program._worker, threading.Thread()  # as after a fork
    fast(POINT)
    assert spec.program._worker.is_alive() and spec.program._worker is not working


def test_without_threads_the_call_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    fast = da.jit(smooth, wait=False)
    assert fast(POINT) == pytest.approx(smooth(POINT), rel=1e-14) and compiled_runs(fast) == 1


def test_what_explains_it_waits() -> None:
    fast = da.jit(smooth, wait=False)
    assert "equations" in fast.explain(POINT)
    assert fast(POINT) == pytest.approx(smooth(POINT), rel=1e-14)
    again = pickle.loads(pickle.dumps(da.jit(np.sum, wait=False)))
    assert again._waits is False


def test_paths_cannot_be_chosen_without_code() -> None:
    with pytest.raises(ArgumentError, match="specialise"):
        da.jit(smooth, specialise=True, wait=False)
