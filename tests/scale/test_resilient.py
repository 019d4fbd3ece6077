"""Workers that are killed: what was not finished is done again, bit for bit; who kills is named; nobody stays."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import dualad as da
from dualad.errors import ArgumentError, ArgumentTypeError, TravelError, WorkerLostError

pytest.importorskip("cloudpickle", reason="sends local functions: pip install dualad[scale]")
if sys.platform == "win32":
    pytest.skip("there is no SIGKILL", allow_module_level=True)

ROOT = Path(__file__).resolve().parents[2]
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["dualad"])


def pool(workers: int = 2, **options) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(workers, mp_context=CONTEXT, **options)


def deadly(lanes: dict, work=np.sin):
    """Make a function of a number that kills its worker at some of them, each so many times as there are marks."""

    def f(x):
        marks = lanes.get(float(x), ())
        for mark in marks:
            try:
                os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                continue
            os.kill(os.getpid(), signal.SIGKILL)
        return work(x)

    return f


def test_a_worker_that_is_killed_costs_only_what_it_was_at(tmp_path) -> None:
    before = multiprocessing.active_children()
    x = np.arange(40.0)
    with da.resilient(pool) as executor:
        out = da.map(deadly({13.0: [tmp_path / "once"]}), x, executor=executor, chunk_size=2)
        assert executor.rebuilt == 1 and 1 <= executor.redone <= 4
    assert out.tobytes() == da.map(np.sin, x, chunk_size=2).tobytes()
    assert set(multiprocessing.active_children()) <= set(before)


def test_a_chunk_that_always_kills_its_worker_is_named_and_no_other(tmp_path) -> None:
    always = [tmp_path / str(k) for k in range(99)]
    with da.resilient(pool, retries=1) as executor:
        with pytest.raises(WorkerLostError, match=r"in rows 17:18 of map\(f\): the worker died every time, 2 times"):
            da.map(deadly({17.0: always}), np.arange(20.0), executor=executor, chunk_size=1)
        out = da.map(np.cos, np.arange(4.0), executor=executor)  # and goes on
    assert np.array_equal(out, np.cos(np.arange(4.0)))


def test_a_pool_alone_says_what_was_done_and_what_survives(tmp_path) -> None:
    with pool(1) as executor, pytest.raises(WorkerLostError, match="resilient"):
        da.map(deadly({3.0: [tmp_path / "once"]}), np.arange(6.0), executor=executor, chunk_size=1)


def test_one_thread_of_linear_algebra_for_each_worker() -> None:
    pytest.importorskip("threadpoolctl", reason="limits linear algebra: pip install dualad[scale]")

    def threads(x):
        import threadpoolctl

        return np.array([max([i["num_threads"] for i in threadpoolctl.threadpool_info()], default=1)])

    with da.resilient(lambda: pool(1)) as one, pool(1) as plain:
        assert da.map(threads, np.zeros(1), executor=one).tolist() == [[1]]
        assert da.map(threads, np.zeros(1), executor=plain).tolist() == [[1]]


def test_it_is_an_executor_like_any_other() -> None:
    with da.resilient(lambda: ThreadPoolExecutor(2)) as executor:
        assert list(executor.map(abs, [-1, 2])) == [1, 2]
        with pytest.raises(ZeroDivisionError):
            executor.submit(lambda: 1 // 0).result()
    with pytest.raises(RuntimeError, match="after shutdown"):
        executor.submit(abs, 1)


def test_a_factory_that_fails_is_heard() -> None:
    def factory():
        raise OSError("no cluster")

    executor = da.resilient(factory)
    with pytest.raises(OSError, match="no cluster"):
        executor.submit(abs, 1).result(10)
    executor.shutdown()


@pytest.mark.parametrize(
    ("args", "error"),
    [((4,), ArgumentTypeError), *[((pool, *numbers), ArgumentError) for numbers in ((-1,), ("2",), (2, 0))]],
)
def test_what_makes_no_pool_is_refused(args, error) -> None:
    with pytest.raises(error):
        da.resilient(*args)


# ── with time to wait ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.full
def test_killed_twice(tmp_path) -> None:
    x = np.arange(60.0)
    lanes = {13.0: [tmp_path / "a"], 41.0: [tmp_path / "b"]}
    with da.resilient(pool) as executor:
        out = da.map(deadly(lanes), x, executor=executor, chunk_size=2)
        assert executor.rebuilt == 2
    assert out.tobytes() == da.map(np.sin, x).tobytes()


@pytest.mark.full
def test_killed_from_outside_again_and_again() -> None:
    def slow(x):
        time.sleep(0.05)
        return np.sin(x)

    x = np.arange(60.0)
    with da.resilient(pool, retries=4) as executor:  # on a busy machine all three may hit the same chunk
        done = threading.Event()

        def kill() -> None:
            for _ in range(3):
                if done.wait(0.4):
                    return
                for pid in list(executor.pool._processes or ())[:1]:
                    os.kill(pid, signal.SIGKILL)

        thread = threading.Thread(target=kill)
        thread.start()
        out = da.map(slow, x, executor=executor, chunk_size=1)
        done.set()
        thread.join()
        assert executor.rebuilt >= 2
    assert out.tobytes() == np.sin(x).tobytes()


@pytest.mark.full
def test_killed_at_start_up(tmp_path) -> None:
    mark = str(tmp_path / "started")
    with da.resilient(lambda: pool(initializer=_die_once, initargs=(mark,))) as executor:
        out = da.vmap(np.sin, executor=executor)(np.arange(8.0))
        assert executor.rebuilt == 1
    assert np.array_equal(out, np.sin(np.arange(8.0)))


def _die_once(mark: str) -> None:
    try:
        os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.full
def test_a_jacobian_a_hessian_and_shards_survive(tmp_path) -> None:
    x = np.linspace(0.1, 1.0, 8)

    def kill_then(mark, f):
        def g(*args):
            deadly({0.0: [tmp_path / mark]})(0.0)
            return f(*args)

        return g

    f = lambda x: np.sin(x) * x[0]
    with da.resilient(pool) as executor:
        stacked = np.tile(x, (4, 1))
        ours = da.vmap(kill_then("a", da.jacfwd(f)), executor=executor, chunk_size=1)(stacked)
        assert ours.tobytes() == da.vmap(da.jacfwd(f), chunk_size=1)(stacked).tobytes()
        loss = lambda w, X: np.sum((X * w) ** 2)
        options = {"in_axes": (None, 0), "chunk_size": 1}
        ours = da.value_and_grad(kill_then("b", loss), executor=executor, **options)(x, stacked)
        assert np.array_equal(ours[1], da.value_and_grad(loss, **options)(x, stacked)[1])
        assert executor.rebuilt == 2


INTERRUPTED = """
    import os, signal, sys, threading, time
    import numpy as np
    from concurrent.futures import ProcessPoolExecutor
    import dualad as da

    def slow(x):
        time.sleep(60)
        return x

    if __name__ == "__main__":
        pool = da.resilient(lambda: ProcessPoolExecutor(2))
        def interrupt():
            while not (pool._pool is not None and pool._pool._processes):
                time.sleep(0.05)
            time.sleep(0.5)
            print(*pool._pool._processes, flush=True)
            os.kill(os.getpid(), signal.SIGINT)
        threading.Thread(target=interrupt).start()
        began = time.time()
        try:
            da.map(slow, np.arange(8.0), executor=pool, chunk_size=1)
        except KeyboardInterrupt:
            print("interrupted", time.time() - began < 30)
        pool.shutdown()
"""


@pytest.mark.full
def test_ctrl_c_leaves_no_process_behind(tmp_path) -> None:
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(INTERRUPTED))
    before = set(Path("/dev/shm").glob("dualad-*"))
    ran = subprocess.run(
        [sys.executable, script], env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
        timeout=100, check=False,
    )  # fmt: skip
    lines = ran.stdout.splitlines()
    assert lines[1:] == ["interrupted True"], ran.stdout + ran.stderr
    for pid in lines[0].split():
        assert not Path("/proc", pid).exists()
    assert set(Path("/dev/shm").glob("dualad-*")) <= before


UNGUARDED = """
    import multiprocessing
    import numpy as np
    from concurrent.futures import ProcessPoolExecutor
    import dualad as da

    multiprocessing.set_start_method("spawn", force=True)
    with ProcessPoolExecutor(1) as pool:
        da.vmap(np.sin, executor=pool)(np.zeros(3))
"""


@pytest.mark.full
def test_a_missing_guard_is_recognized(tmp_path) -> None:
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(UNGUARDED))
    ran = subprocess.run(
        [sys.executable, script], env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
        timeout=100, check=False,
    )  # fmt: skip
    assert ran.returncode != 0
    assert "bootstrapping phase" in ran.stderr  # Python's words, in the worker
    assert "put what the script does under  if __name__ == '__main__'" in ran.stderr  # ours, to the caller


@pytest.mark.full
def test_processes_started_anew_find_what_they_are_sent() -> None:
    spawn = multiprocessing.get_context("spawn")
    table = np.random.default_rng(0).normal(size=300_000)  # mapped from a file
    with ProcessPoolExecutor(1, mp_context=spawn) as executor:
        out = da.vmap(lambda i: np.sum(table * i), executor=executor)(np.arange(3.0))
    assert out.tobytes() == da.vmap(lambda i: np.sum(table * i))(np.arange(3.0)).tobytes()


def test_pickling_a_pool_is_refused_by_name() -> None:
    with da.resilient(pool) as executor, pytest.raises(TravelError, match="closure variable `executor`"):
        da.map(lambda x: (executor, x)[1], np.arange(3.0), executor=executor)
