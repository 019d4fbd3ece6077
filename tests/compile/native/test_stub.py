"""The entry of compiled code: every argument it is given is looked at, every reference is given back.

Not for: what is computed (test_groups.py).
"""

from __future__ import annotations

import functools
import gc
import mmap
import os
import signal
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import dualad as da
from dualad.compile.native import front, groups, stub
from dualad.errors import DualadError

pytestmark = pytest.mark.usefixtures("native_backend")


def run_of(fast, *args):
    """Return the entry of the compiled function, which is C."""
    compiled = fast._specialised(args, {}).program.compiled
    assert len(compiled.groups) == 1 and not compiled.source.startswith("def ")
    assert type(compiled.direct).__name__ == "Stub"
    return compiled.direct


X = np.linspace(-1, 2, 13)
STRIDED = np.empty((13, 2))[:, 0]
STRIDED[:] = X
MISALIGNED = np.frombuffer(bytearray(1 + X.nbytes), np.uint8)[1:].view(float)
MISALIGNED[:] = X
READ_ONLY = X.copy()
READ_ONLY.setflags(write=False)


class Mine(np.ndarray):
    """A subclass."""


@pytest.mark.parametrize(
    "given",
    [X, STRIDED, MISALIGNED, READ_ONLY, X[::-1][::-1], X.astype(">f8"), X.view(Mine), X.astype(np.float32), X.tolist()],
    ids=["plain", "strided", "misaligned", "read-only", "twice reversed", "swapped", "subclass", "single", "list"],
)
def test_arguments_that_are_not_as_declared(given) -> None:
    run = run_of(da.jit(lambda x: (np.sqrt(x * x) + 1, x[3] * 2)), X)
    (a, b), (c, d) = run(given), run(X)
    assert type(a) is np.ndarray and type(b) is np.float64
    np.testing.assert_allclose(a, c, rtol=1e-6)
    np.testing.assert_allclose(b, d, rtol=1e-6)


@pytest.mark.parametrize("given", [2.5, np.float64(2.5), np.array(2.5), np.float32(2.5), 2])
def test_numbers(given) -> None:
    run = run_of(da.jit(lambda x: (x * 3, x > 1)), np.float64(1.0))
    a, b = run(given)
    assert type(a) is np.float64 and type(b) is np.bool_ and a == 3 * float(given) and b


def test_python_numbers() -> None:
    f = lambda n, t, x: (x * n + t, np.where(t, x, n))
    fast = da.jit(f)
    for n, t in ((3, True), (-(2**40), False)):
        for a, b in zip(run_of(fast, n, t, X)(n, X), f(n, t, X), strict=True):
            assert np.array_equal(a, b)
    with pytest.raises(OverflowError):
        run_of(fast, 3, True, X)(2**70, X)


def test_what_is_wrong_is_an_error_and_no_crash() -> None:
    fast = da.jit(lambda x, y: x * y + x - y)
    run = run_of(fast, X, X)
    for args in ((), (X,), (X, X, X), (X, X[:5]), (X, np.zeros((13, 2))), ("a", X), (None, X), (X, object())):
        with pytest.raises((ValueError, TypeError)):
            run(*args)
    with pytest.raises(TypeError):
        run(X, y=X)
    with pytest.raises((ValueError, DualadError)):
        fast(X, X[:5])


@pytest.mark.parametrize("shape", [(), (1,), (7,), (8,), (9,), (2, 3, 4), (1, 17)])
@pytest.mark.parametrize("dtype", [float, np.float32, np.int64, np.int32])
def test_results_have_shape_type_and_memory_of_their_own(shape, dtype) -> None:
    x = (np.arange(np.prod(shape, dtype=int)).reshape(shape) - 3).astype(dtype)[()]
    fast = da.jit(lambda x: (x * 2, x > 0, x.reshape(-1), x))
    expected = x * 2, x > 0, x.reshape(-1)
    for _ in range(2):
        out = fast(x)
        for a, b in zip(out, expected, strict=False):
            assert type(a) is type(b) and a.dtype == b.dtype and np.array_equal(a, b)
            if np.shape(a) and a is not x:
                assert a.flags.writeable
                a += a  # nobody else's


def test_references_and_memory_are_flat() -> None:
    f = lambda x, n: (np.sin(x) * n, x[2] + n, n > 2, da.scan(lambda c, r: (c + r, c * r), n, x))
    fast = da.jit(f)
    args = (X, np.float64(3.0))
    run = run_of(fast, *args)
    held = [X, args[1], X.dtype, np.dtype(bool), np.float64, float, None, True]
    run(*args)
    run(STRIDED, 3.0)
    gc.collect()
    before = [sys.getrefcount(h) for h in held], sys.getallocatedblocks()
    for _ in range(20_000):
        run(*args)
    for _ in range(50):
        run(STRIDED, 3.0)
        with pytest.raises(ValueError):
            run(X[:3], 3.0)
    gc.collect()
    after = [sys.getrefcount(h) for h in held], sys.getallocatedblocks()
    assert all(abs(a - b) <= 2 for a, b in zip(after[0], before[0], strict=True))
    assert after[1] - before[1] < 500


def test_the_function_lives_as_long_as_it_is_needed() -> None:
    run = run_of(da.jit(lambda x: np.cos(x) * 2 + x), X)
    gc.collect()
    for _ in range(3):
        np.testing.assert_allclose(run(X)[0], np.cos(X) * 2 + X, rtol=1e-15)
    assert not gc.collect() or run(STRIDED)


def test_ten_threads_share_a_function() -> None:
    fast = da.jit(lambda x, n: da.fori_loop(0, 200, lambda i, c: np.sin(c) + x * i, x * n))
    expected = [fast(X, float(n)) for n in range(10)]
    wrong = []

    def work(n):
        for _ in range(50):
            if not np.array_equal(fast(X, float(n)), expected[n]):
                wrong.append(n)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(10)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not wrong


def test_other_threads_run_meanwhile() -> None:
    fast = da.jit(lambda x: da.fori_loop(0, 3000, lambda i, c: np.sin(c) + 0.5, x))
    low = fast._specialised((X,), {}).program.compiled.groups[0]
    assert groups._turns(low.steps) > groups._PATIENT
    for f, is_long in [
        (lambda x: da.while_loop(lambda c: c < 5.0, lambda c: c + 1.0, x), True),  # nobody knows how long
        (lambda x: da.fori_loop(0, 5, lambda i, c: c + 1.0, x), False),
    ]:
        steps = da.jit(f)._specialised((1.0,), {}).program.compiled.groups[0].steps
        assert (groups._turns(steps) > groups._PATIENT) == is_long


def test_an_endless_loop_can_be_stopped(request: pytest.FixtureRequest) -> None:
    import _thread

    # A process that was started in the background ignores interrupts.
    request.addfinalizer(functools.partial(signal.signal, signal.SIGINT, signal.getsignal(signal.SIGINT)))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    fast = da.jit(lambda x: da.while_loop(lambda c: c > 0.0, lambda c: c * 1.0 + 0.0, x))
    fast(-1.0)
    timer = threading.Timer(0.3, _thread.interrupt_main)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        fast(1.0)


def test_without_the_extension_python_does_the_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(front, "extension", lambda: None)
    monkeypatch.setattr(stub, "extension", lambda: None)
    f = lambda x, n: (np.sin(x) * n, x[2] + n, n > 2, da.scan(lambda c, r: (c + r, c * r), n, x))
    fast = da.jit(f)
    found = da.tree.flatten(fast(X, np.float64(3.0)))[0]
    for a, b in zip(found, da.tree.flatten(f(X, np.float64(3.0)))[0], strict=True):
        assert type(a) is type(b)
        np.testing.assert_allclose(a, b, rtol=1e-14)


def test_arguments_that_are_not_read_are_not_looked_at() -> None:
    fast = da.jit(lambda x, unused: x * 2 + x * x)
    run = run_of(fast, X, STRIDED)
    assert np.array_equal(run(X, STRIDED)[0], X * 2 + X * X)
    assert np.array_equal(run(X, "anything")[0], X * 2 + X * X)
    with pytest.raises((ValueError, TypeError)):
        run("anything", X)


@pytest.mark.skipif(front.extension() is None, reason="no C compiler made the extension")
def test_memory_of_large_results_that_are_dropped_is_used_again() -> None:
    resource, x = pytest.importorskip("resource"), np.ones(100_000)
    for f in (lambda x: x * 2 + 1, lambda x: np.cumsum(x * 2) + 1, lambda x: np.sort(np.sin(x))):
        fast = da.jit(f)
        held = [fast(x) for _ in range(5)]
        assert not any(np.shares_memory(a, b) for i, a in enumerate(held) for b in held[:i])
        expected = held[0].copy()
        del held[1:]
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        for _ in range(20):
            last = fast(x)
        assert resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before < 500  # of 196 pages each
        np.testing.assert_array_equal(held[0], expected)
        np.testing.assert_array_equal(last, expected)
        last.resize(200_000, refcheck=False)  # by realloc, whoever made it
        assert not last[100_000:].any()


@pytest.mark.skipif(
    not Path("/proc/self/statm").exists() or "asan" in os.environ.get("LD_PRELOAD", ""),
    reason="memory in use is read from Linux, and the sanitizer keeps what is freed",
)
def test_large_results_that_are_dropped_are_kept_within_bounds() -> None:
    in_use = lambda: int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE
    fast, x = da.jit(lambda x: x * 2 + 1), np.ones(1_000_000)
    fast(x)
    before = in_use()
    results = [fast(x) for _ in range(40)]
    assert in_use() - before > 200 << 20
    del results
    assert in_use() - before < 100 << 20
