"""``executor=``: the bits of the serial run in the same chunks, whoever computes them and in whatever order."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import warnings
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import pytest

import dualad as da
from dualad.errors import (
    ArgumentError,
    ArgumentTypeError,
    NonFiniteError,
    PerformanceNote,
    TravelError,
    WorkerLostError,
)
from dualad.scale import payload
from dualad.scale.driver import cut_into

pytest.importorskip("cloudpickle", reason="sends local functions: pip install dualad[scale]")

from .doubles import Inline, Shuffled, Spy

RNG = np.random.default_rng(7)
X = RNG.normal(size=7)
ROWS = RNG.normal(size=(11, 3))
W = RNG.normal(size=(3, 3))


def curve(x, p=2.0):
    return {"sin": np.sin(x) * x[0] * p, "outer": np.outer(x, x) @ x}


def loss(x, p=2.0):
    return np.sum(np.exp(np.sin(x) * x[0])) * p


def with_aux(x):
    return loss(x), {"norm": np.sum(x**2), "n": 3}


def model(params, row, flag):
    out = np.tanh(row @ params["w"])
    return {"out": out, "shared": params["w"][0], "sum": np.sum(out)} if flag else out


def simulate(x):
    y = np.zeros(3, like=x)
    for _ in range(5):
        y = y + 0.1 * np.sin(y + x)
    return y


def branching(row):
    return np.sum(row) if row[0] > 0 else np.prod(row) * 2.0


BANDED = lambda x: np.sin(x[1:]) * x[:-1] ** 2
HOLOMORPHIC = {"holomorphic": True}
ORDERED = np.asfortranarray(RNG.normal(size=(3, 11, 4)))

#: name -> what makes the transform with the options, and its arguments
CASES = {
    "vmap": (lambda **o: da.vmap(branching, chunk_size=3, **o), (ROWS,)),
    "vmap of a tree": (
        lambda **o: da.vmap(model, in_axes=(None, 0, None), chunk_size=4, **o),
        ({"w": W}, ROWS, True),
    ),
    "vmap, a static argument": (lambda **o: da.vmap(model, (None, 0, None), chunk_size=4, **o), ({"w": W}, ROWS, "")),
    "vmap over another axis": (lambda **o: da.vmap(np.sum, in_axes=1, chunk_size=4, **o), (ORDERED,)),
    "vmap, axes of a tree": (
        lambda **o: da.vmap(lambda p, x: p["a"] @ x + p["b"], in_axes=({"a": 0, "b": None}, -1), chunk_size=5, **o),
        ({"a": RNG.normal(size=(11, 2, 3)), "b": 1.5}, ROWS.T),
    ),
    "vmap, out_axes": (lambda **o: da.vmap(lambda x: np.outer(x, x), out_axes=1, chunk_size=2, **o), (ROWS,)),
    "vmap of grad": (lambda **o: da.vmap(da.grad(loss), chunk_size=3, **o), (ROWS,)),
    "vmap of hessian": (lambda **o: da.vmap(da.hessian(loss), chunk_size=5, **o), (ROWS,)),
    "vmap of jit": (lambda **o: da.vmap(da.jit(lambda x: np.sin(x) * x[0]), chunk_size=5, **o), (ROWS,)),
    "vmap, max_memory": (lambda **o: da.vmap(loss, max_memory=1, **o), (ROWS,)),
    "vmap of nothing": (lambda **o: da.vmap(loss, **o), (np.zeros((0, 3)),)),
    "vmap, keywords": (lambda **o: lambda x: da.vmap(loss, chunk_size=4, **o)(x, p=np.arange(11.0)), (ROWS,)),
    "map": (lambda **o: lambda x: da.map(lambda r: {"a": r["x"] @ W, "b": np.sum(r["x"])}, {"x": x}, **o), (ROWS,)),
    "jacfwd": (lambda **o: da.jacfwd(curve, chunk_size=3, **o), (X,)),
    "jacfwd, two arguments": (lambda **o: da.jacfwd(curve, argnums=(0, 1), chunk_size=3, **o), (X, 1.5)),
    "jacfwd, a loop": (lambda **o: da.jacfwd(simulate, chunk_size=1, **o), (X[:3],)),
    "jacfwd, complex": (lambda **o: da.jacfwd(np.exp, **HOLOMORPHIC, chunk_size=2, **o), (X + 1j,)),
    "jacfwd, aux": (lambda **o: da.jacfwd(with_aux, has_aux=True, chunk_size=2, **o), (X,)),
    "value_and_jacfwd": (lambda **o: da.value_and_jacfwd(curve, chunk_size=4, **o), (X,)),
    "jacrev": (lambda **o: da.jacrev(curve, chunk_size=3, **o), (X,)),
    "jacrev, by name": (lambda **o: lambda x: da.jacrev(curve, argnames="p", chunk_size=3, **o)(x, p=2.5), (X,)),
    "value_and_jacrev": (lambda **o: da.value_and_jacrev(curve, chunk_size=4, **o), (X,)),
    "jacobian": (lambda **o: da.jacobian(curve, chunk_size=3, **o), (X,)),
    "jacobian, reverse": (lambda **o: da.jacobian(lambda x: x[:2] * np.sum(x), chunk_size=1, **o), (X,)),
    "value_and_jacobian": (lambda **o: da.value_and_jacobian(curve, chunk_size=3, **o), (X,)),
    "jacobian of grad": (lambda **o: da.jacobian(da.grad(loss), chunk_size=3, **o), (X,)),
    "hessian": (lambda **o: da.hessian(loss, chunk_size=3, **o), (X,)),
    "hessian of many": (lambda **o: da.hessian(lambda x: np.sin(x) * x[0], chunk_size=3, **o), (X,)),
    "value_and_hessian": (lambda **o: da.value_and_hessian(loss, chunk_size=3, **o), (X,)),
    "hessian_diag": (lambda **o: da.hessian_diag(loss, chunk_size=3, **o), (X,)),
    "laplacian": (lambda **o: da.laplacian(loss, chunk_size=3, method="hessian", **o), (X,)),
    "sparse_jacobian": (lambda **o: da.sparse_jacobian(BANDED, chunk_size=1, mode="forward", **o), (X,)),
    "sparse_hessian": (lambda **o: da.sparse_hessian(lambda x: np.sum(BANDED(x)), chunk_size=1, **o), (X,)),
}


def bits(result) -> list:
    """Return dtypes, shapes and bytes of a result."""
    found = []
    for x in da.tree.flatten(result)[0]:
        x = x.toarray() if hasattr(x, "toarray") else np.asarray(x)
        found.append((x.dtype, x.shape, x.tobytes()))
    return found


@pytest.mark.filterwarnings("ignore::dualad.errors.PerformanceNote")
@pytest.mark.parametrize("name", CASES)
def test_an_executor_gives_the_bits_of_the_serial_run_in_the_same_chunks(name) -> None:
    make, args = CASES[name]
    serial = make()(*args)
    assert bits(make(executor=Inline())(*args)) == bits(serial)


@pytest.mark.filterwarnings("ignore::dualad.errors.PerformanceNote")
@pytest.mark.parametrize("name", ["vmap", "jacfwd", "jacrev", "hessian", "map"])
@pytest.mark.parametrize("seed", range(2))
def test_the_order_of_completion_changes_nothing(name, seed) -> None:
    make, args = CASES[name]
    with Shuffled(seed) as pool:
        assert bits(make(executor=pool)(*args)) == bits(make()(*args))
        assert sorted(pool.order) == list(range(pool.count))


@pytest.mark.filterwarnings("ignore::dualad.errors.PerformanceNote")
@pytest.mark.parametrize("name", ["vmap of a tree", "jacfwd", "jacobian, reverse", "hessian", "map"])
def test_threads_share_what_there_is(name) -> None:
    make, args = CASES[name]
    with ThreadPoolExecutor(2) as pool:
        assert bits(make(executor=pool)(*args)) == bits(make()(*args))


def test_threads_are_noted() -> None:
    with ThreadPoolExecutor(2) as pool, pytest.warns(PerformanceNote, match="take turns"):
        da.vmap(np.sin, executor=pool)(X)


@pytest.mark.parametrize("name", ["jacfwd", "jacfwd, aux", "jacrev", "jacobian", "jacobian, reverse", "hessian"])
def test_what_is_too_large_goes_the_other_way(name, monkeypatch) -> None:
    monkeypatch.setattr(payload, "BULKY", 10)
    make, args = CASES[name]
    assert bits(make(executor=Inline())(*args)) == bits(make()(*args))


class Counting:
    """A function that counts its calls in this process, and is sent without them."""

    def __init__(self, f=curve) -> None:
        self.f, self.calls, self.lock = f, 0, None

    def __call__(self, *args):
        self.calls += 1
        return self.f(*args)

    def __reduce__(self):
        return type(self), (self.f,) if self.lock is None else (self.lock,)


@pytest.mark.parametrize(("chunk_size", "here"), [(None, 0), (4, 0), (3, 1)])
@pytest.mark.parametrize("transform", [da.jacfwd, da.value_and_jacfwd, da.hessian])
def test_forward_the_function_runs_where_its_columns_are(transform, chunk_size, here) -> None:
    f = Counting(loss if transform is da.hessian else curve)
    out = transform(f, chunk_size=chunk_size, executor=Inline())(X)  # two workers, seven columns
    assert f.calls == here
    assert bits(out) == bits(transform(f.f, chunk_size=chunk_size or 4)(X))


def test_a_function_that_can_not_travel_sends_its_program() -> None:
    f = Counting()
    f.lock = threading.Lock()
    assert bits(da.jacfwd(f, executor=Inline())(X)) == bits(da.jacfwd(curve, chunk_size=4)(X))
    assert f.calls == 1


def test_auxiliary_output_that_can_not_travel_is_computed_here() -> None:
    made = lambda x: (loss(x), {"lock": threading.Lock(), "norm": np.sum(x**2)})
    jacobian, aux = da.jacfwd(made, has_aux=True, executor=Inline())(X)
    assert bits(jacobian) == bits(da.jacfwd(loss, chunk_size=4)(X))
    assert aux["norm"] == np.sum(X**2) and aux["lock"].acquire(blocking=False)


@pytest.mark.parametrize(
    ("total", "count", "ranges"),
    [(10, 4, [(0, 2), (2, 5), (5, 7), (7, 10)]), (3, 8, [(0, 1), (1, 2), (2, 3)]), (5, 1, [(0, 5)])],
)
def test_ranges_are_consecutive_and_even(total, count, ranges) -> None:
    assert cut_into(total, count) == ranges


# ── what travels ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_job_is_sent_once_to_each_worker_and_not_with_each_chunk() -> None:
    table = RNG.normal(size=40_000)
    pool = Spy()
    da.vmap(lambda i: np.sum(table * i), executor=pool, chunk_size=1)(np.arange(20.0))
    large = [n for n in pool.sizes if n > 300_000]
    assert len(pool.sizes) == 20 and len(large) == 2 and max(n for n in pool.sizes if n < 300_000) < 2000


def test_a_worker_that_has_no_job_asks_for_it(monkeypatch) -> None:
    class Forgetful(Inline):
        def submit(self, fn, /, *args, **kwargs):
            payload._jobs.clear()
            return super().submit(fn, *args, **kwargs)

    out = da.vmap(np.sin, executor=Forgetful(), chunk_size=1)(X)
    assert np.array_equal(out, np.sin(X))


def test_a_worker_forgets_the_jobs_of_calls_that_have_ended() -> None:
    jobs = [payload.pack(i, None, None, "here") for i in range(3)]
    tickets = [payload.Ticket(job, "processes") for job in jobs]
    try:
        assert [t.open(None) for t in tickets] == [0, 1, 2] and len(payload._jobs) == 3
        for ticket in tickets[:2]:
            payload.os.unlink(ticket.file.path)  # as `close` does, elsewhere
        last = payload.Ticket(jobs[0], "processes")
        tickets.append(last)
        assert last.open(None) == 0 and set(payload._jobs) == {tickets[2].token, last.token}
    finally:
        for ticket in tickets:
            ticket.close()
    assert not payload._jobs


def test_reading_a_job_looks_for_no_garbage() -> None:
    blob = payload.pack([[[i] for i in range(1000)] for _ in range(100)], None, None, "here")
    searches = lambda: sum([generation["collections"] for generation in gc.get_stats()])
    before = searches()
    blob.open()
    assert searches() - before < 5 and gc.isenabled()  # not 150


def test_an_argument_that_lanes_share_is_not_sent_with_them() -> None:
    table = RNG.normal(size=40_000)
    pool = Spy()
    da.vmap(lambda i, t: np.sum(t * i), (0, None), executor=pool, chunk_size=1)(np.arange(20.0), table)
    assert len([n for n in pool.sizes if n > 300_000]) == 2


def test_a_large_buffer_comes_read_only() -> None:
    table = np.zeros(300_000)

    def writes(i):
        table[0] = i
        return i

    with pytest.raises(ValueError, match="read-only"):
        da.map(writes, np.arange(3.0), executor=Inline())


# ── what goes wrong ──────────────────────────────────────────────────────────────────────────────────────────────


def test_the_first_error_by_index_is_raised_with_its_lanes() -> None:
    def picky(x):
        if x > 3.5:
            raise ValueError(f"{x} is too large")
        return x

    for pool in (Inline(), Shuffled(3)):
        with pytest.raises(ValueError, match=r"4\.0 is too large") as info:
            da.map(picky, np.arange(12.0), executor=pool, chunk_size=2)
        note = info.value.__notes__[-1]
        assert note.startswith("in rows 4:6 of map(picky), on worker ") and "picky" in str(info.value.__cause__)


def test_an_error_that_can_not_be_pickled_comes_as_the_nearest_that_can() -> None:
    class Local(KeyError):
        def __reduce__(self):
            raise TypeError("not me")

    def bad(x):
        raise Local("missing")

    with pytest.raises(KeyError, match="Local: 'missing'"):
        da.map(bad, X, executor=Inline())


def test_nothing_more_is_begun_after_an_error() -> None:
    pool = Spy()
    with pytest.raises(ZeroDivisionError):
        da.map(lambda x: 1 // 0, np.arange(50.0), executor=pool, chunk_size=1)
    assert len(pool.sizes) <= 2 * 2


@pytest.mark.parametrize(
    ("executor", "words"),
    [(4, r"ProcessPoolExecutor\(4\)"), ("pool", "ProcessPoolExecutor"), (ThreadPoolExecutor, "is a class")],
)
@pytest.mark.parametrize("transform", ["vmap", "jacfwd", "jacrev", "jacobian", "hessian", "hessian_diag", "map"])
def test_what_is_no_executor_is_refused(executor, words, transform) -> None:
    make = getattr(da, transform)
    with pytest.raises(ArgumentTypeError, match=words):
        make(np.sin, X, executor=executor) if transform == "map" else make(np.sin, executor=executor)(X)


class Odd(Inline):
    """An executor that does something else."""

    def __init__(self, how) -> None:
        self.how = how

    def submit(self, fn, /, *args, **kwargs):
        return self.how(super().submit(fn, *args, **kwargs))


def down(future):
    raise OSError("the cluster is down")


def cancelled(future):
    future = Future()
    future.cancel()
    future.set_running_or_notify_cancel()
    return future


def answered(future):
    future = Future()
    future.set_result(42)
    return future


@pytest.mark.parametrize(
    ("how", "error", "words"),
    [
        (down, OSError, "the cluster is down"),
        (cancelled, WorkerLostError, "has cancelled a chunk; 0 of 6"),
        (answered, ArgumentTypeError, "a future of the executor, a Odd, returned a int"),
        (lambda future: future.result(), ArgumentTypeError, "submit of the executor, a Odd, returned a Answer"),
        (lambda future: None, ArgumentTypeError, "returned a NoneType"),
    ],
)
def test_an_executor_that_works_otherwise_is_named(how, error, words) -> None:
    for run in (
        lambda pool: da.vmap(np.sin, chunk_size=1, executor=pool),
        lambda pool: da.jacfwd(np.sin, chunk_size=1, executor=pool),
    ):
        with pytest.raises(error, match=words) as info:
            run(Odd(how))(X[:6])
        assert error is not OSError or "given chunk" in info.value.__notes__[0]


def test_auxiliary_output_of_a_shard_that_can_not_be_sent_back_is_named() -> None:
    both = da.value_and_grad(
        lambda w, x: (np.sum(w * x), threading.Lock()), in_axes=(None, 0), has_aux=True, executor=Inline()
    )
    with pytest.raises(TravelError, match=r"rows 0:3 of .*: the result can't be sent back"):
        both(1.0, X)


def test_a_closed_pool_says_so_with_the_transforms_name() -> None:
    pool = ThreadPoolExecutor(1)
    pool.shutdown()
    with pytest.raises(RuntimeError, match="after shutdown") as info, warnings.catch_warnings():
        warnings.simplefilter("ignore", PerformanceNote)
        da.vmap(np.sin, executor=pool)(X)
    assert "vmap(sin)" in info.value.__notes__[0]


@pytest.mark.parametrize("name", ["vmap", "jacfwd", "jacrev", "jacobian", "hessian", "hessian_diag", "sparse_jacobian"])
def test_an_inner_transform_has_no_executor(name) -> None:
    inner = getattr(da, name)(lambda x: np.sum(x**2) if "hess" in name else x**2, executor=Inline())
    with pytest.raises(ArgumentError, match="outermost transform"):
        da.jvp(inner, (X,), (X,))


def test_a_tensor_in_a_closure_is_refused_too() -> None:
    with pytest.raises(TravelError, match="outermost transform"):
        da.jvp(lambda a: np.sum(da.map(lambda x: x * a, X, executor=Inline())), (2.0,), (1.0,))


def test_what_can_not_travel_is_named() -> None:
    lock = threading.Lock()

    def guarded(x):
        with lock:
            return x

    with pytest.raises(TravelError, match=r"closure variable `lock` of `guarded`, a lock[, ]"):
        da.vmap(guarded, executor=Inline())(X)
    with pytest.raises(TravelError, match=r"closure variable `lock` of `guarded`, a lock[, ]"):
        da.vmap(da.grad(lambda x: guarded(x)), executor=Inline())(X)


def test_without_cloudpickle_a_lambda_is_named(monkeypatch) -> None:
    find = payload.importlib.util.find_spec
    monkeypatch.setattr(payload.importlib.util, "find_spec", lambda n: None if n == "cloudpickle" else find(n))
    with pytest.raises(TravelError, match=r"dualad\[scale\]"):
        da.vmap(lambda x: x, executor=Inline())(X)
    assert np.array_equal(da.vmap(np.sin, executor=Inline())(X), np.sin(X))


def test_random_numbers_and_named_axes_are_not_shared_out() -> None:
    with pytest.raises(ArgumentError, match="draw the numbers outside"):
        da.vmap(np.sin, randomness="different", executor=Inline())
    with pytest.raises(ArgumentError, match="all lanes of the axis at once"):
        da.vmap(np.sin, axis_name="i", executor=Inline())


# ── context ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_kinks_and_floating_point_errors_go_along() -> None:
    with da.kinks("nan"):
        assert np.isnan(da.vmap(da.grad(np.abs), executor=Inline())(np.zeros(3))).all()
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        da.map(lambda x: 1.0 / x, np.zeros(3), executor=Inline())


def test_a_warning_is_shown_once_and_may_be_an_error() -> None:
    def hot(x):
        warnings.warn("too hot", UserWarning, stacklevel=1)
        return x

    with pytest.warns(UserWarning, match="too hot") as shown:
        da.map(hot, np.arange(9.0), executor=Inline())
    assert len(shown) == 1 and shown[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="too hot"):
            da.map(hot, np.arange(9.0), executor=Inline())


def test_debug_looks_on_in_workers() -> None:
    with da.debug(nan=True), np.errstate(invalid="ignore"), pytest.raises(NonFiniteError, match="sqrt"):
        da.vmap(da.grad(np.sqrt), executor=Inline())(np.array([1.0, -1.0]))
    with da.debug(branches=True) as report:
        da.vmap(lambda x: da.grad(lambda v: 0.0 * v if v == 0 else v * v)(x), executor=Inline())(np.zeros(2))
    assert report.branches


def test_residual_hooks_go_along() -> None:
    pack, unpack = lambda a: a.astype(np.float32), lambda a: a.astype(float)
    with da.residual_hooks(pack, unpack):
        out = da.vmap(da.grad(lambda x: np.sum(np.sin(x))), executor=Inline(), chunk_size=3)(ROWS)
        assert np.array_equal(out, da.vmap(da.grad(lambda x: np.sum(np.sin(x))), chunk_size=3)(ROWS))
    assert not np.array_equal(out, np.cos(ROWS))


def test_draws_that_nobody_sees_are_told() -> None:
    rng = np.random.default_rng(0)
    with pytest.warns(da.boundary.randomness.RandomnessWarning):
        da.vmap(lambda x: x + rng.normal(), executor=Inline(), chunk_size=4)(X)


def test_importing_dualad_loads_nothing_that_executors_need() -> None:
    names = {"cloudpickle", "dask", "distributed", "loky", "multiprocessing", "threadpoolctl", "dualad.scale"}
    code = f"import sys, dualad; print({names} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
