"""Every operator × every sample, compiled against eager: values, jvp, vjp, vmap, in both orders of jit and transform.

A tenth of the operators runs in the gate, all with ``--full``. Not for: the API of ``jit`` (test_jit.py).
"""

from __future__ import annotations

import tracemalloc
import zlib

import numpy as np
import pytest

# What needs SciPy is not declared by importing dualad.
import dualad as da
import dualad.ops.cosine_transform
import dualad.ops.filtering
import dualad.ops.matrix_functions
import dualad.ops.sparse_product
import dualad.ops.special
import dualad.ops.triangular
from dualad.core.tables import OPS
from dualad.errors import DualadError
from tests.oracles import op_values
from tests.oracles.arrays import describe, generator, leaves_or_none, random_like

#: what is promised bit for bit: arithmetic, comparisons, choices, moves
EXACT = {
    "absolute", "add", "astype", "broadcast_to", "concatenate", "copy", "copysign", "divide", "equal", "flip",
    "greater", "greater_equal", "index", "index_set", "isfinite", "isnan", "less", "less_equal", "logical_and",
    "logical_not", "maximum", "minimum", "multiply", "negative", "not_equal", "reciprocal", "reshape", "scale", "shift",
    "split", "sqrt", "square", "stack", "subtract", "sum", "transpose", "unstack", "where",
}  # fmt: skip


def same(found, expected, exact: bool, what: str) -> None:
    found, expected = leaves_or_none(found), leaves_or_none(expected)
    assert len(found) == len(expected), f"{what}: {len(found)} results, expected {len(expected)}"
    for a, b in zip(found, expected, strict=True):
        if b is None or np.asarray(b).dtype.kind == "V":
            continue
        a, b = np.asarray(a), np.asarray(b)
        assert a.shape == b.shape and a.dtype == b.dtype, f"{what}: {a.dtype}{a.shape}, expected {b.dtype}{b.shape}"
        if exact or a.dtype.kind not in "fc":
            assert np.array_equal(a, b, equal_nan=a.dtype.kind in "fc"), f"{what}: {a} is not {b} bit for bit"
            if a.dtype.kind == "f":
                zero = (a == 0) & (b == 0)
                assert (np.signbit(a) == np.signbit(b))[zero].all(), f"{what}: a zero has another sign"
        else:
            rtol = 1e-11 if b.dtype.itemsize >= 8 * (1 + (b.dtype.kind == "c")) else 2e-5
            scale = float(np.max(np.abs(b[np.isfinite(b)]), initial=0.0))
            np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol * scale, err_msg=what)


def check_value(s) -> None:
    same(da.jit(s.call)(*s.args), s.call(*s.args), s.op.name in EXACT, "value")


def directions(s, xs):
    rng = generator(s.op.name, s.index, "compiled")
    return tuple(random_like(rng, x) for x in xs)


def check_jvp(s) -> None:
    f, xs = s.reduced()
    ts = directions(s, xs)
    push = lambda *both: da.jvp(f, both[: len(xs)], both[len(xs) :])
    expected = push(*xs, *ts)
    exact = s.op.name in EXACT - {"sqrt"}
    same(da.jit(push)(*xs, *ts), expected, exact, "jit of jvp")
    same(da.jvp(da.jit(f), xs, ts), expected, exact, "jvp of jit")


def check_vjp(s) -> None:
    f, xs = s.reduced()
    out = f(*xs)
    ct = _like(out, generator(s.op.name, s.index, "cotangent"))
    pull = lambda *xs: da.vjp(f, *xs)[1](ct)
    expected = pull(*xs)
    same(da.jit(pull)(*xs), expected, False, "jit of vjp")
    same(da.vjp(da.jit(f), *xs)[1](ct), expected, False, "vjp of jit")


def _like(out, rng):
    if isinstance(out, tuple):
        return tuple(_like(x, rng) for x in out)
    c = random_like(rng, np.asarray(out))
    return np.zeros(np.shape(out), da.float0) if c is None else c


def check_vmap(s) -> None:
    members = s.members(2)
    stacked = [np.stack(xs) for xs in zip(*members, strict=True)]
    expected = da.vmap(s.call)(*stacked)
    same(da.jit(da.vmap(s.call))(*stacked), expected, False, "jit of vmap")
    same(da.vmap(da.jit(s.call))(*stacked), expected, False, "vmap of jit")


CHECKS = {"value": check_value, "jvp": check_jvp, "vjp": check_vjp, "vmap": check_vmap}


def in_the_gate(op, backend: str) -> bool:
    if op.name in ("call", "scale", "where", "index", "maximum"):
        return True
    return backend != "loops" and zlib.crc32(op.name.encode()) % 24 == 3


def cases():
    for op in OPS.values():
        for name in CHECKS:
            if name in ("jvp", "vjp") and op.jvp is None:
                continue
            for backend in ("native", "loops", "numpy"):
                marks = [] if in_the_gate(op, backend) else [pytest.mark.full]
                yield pytest.param(op, name, backend, id=f"{op.name}-{name}-{backend}", marks=marks)


def refuses(s, check: str) -> str:
    """Return what a trace says that can't be had at this sample; ``jit`` says it too."""
    try:
        da.trace(s.call, *s.args)
        if check in ("jvp", "vjp"):
            f, xs = s.reduced()
            ct = _like(f(*xs), np.random.default_rng(0))
            da.trace(lambda *xs: da.vjp(f, *xs)[1](ct), *xs)
        if check == "vmap":
            da.trace(da.vmap(s.call), *[np.stack([x, x]) for x in s.args])
    except DualadError as error:
        return error.what
    return ""


#: operators that a trace refuses at some of their samples
REFUSED = {"while_loop"}


@pytest.mark.filterwarnings("ignore:logm result may be inaccurate")
@pytest.mark.parametrize(("op", "check", "backend"), list(cases()), indirect=["backend"])
def test_operator_compiled(op, check, backend) -> None:
    failures = []
    samples = op_values.subjects(op)
    for s in samples[: 1 if op.name == "logm" else None]:
        with np.errstate(all="ignore"):
            if check in ("jvp", "vjp") and not s.moving():
                continue
            try:
                CHECKS[check](s)
            except Exception as error:
                if op.name in REFUSED and isinstance(error, DualadError) and refuses(s, check) == error.what:
                    continue
                failures.append(f"{op.name}, {check}, sample {s.index} {describe(s.args, s.params)}:\n"
                                f"  {type(error).__name__}: {error}")  # fmt: skip
    if failures:
        pytest.fail(f"{len(failures)} of {len(samples)} samples:\n" + "\n".join(failures[:3]), pytrace=False)


@pytest.mark.parametrize(
    "f",
    [
        lambda x, m: np.stack([m[0, 1] * x, x[::-1]]) @ x,
        lambda x, m: np.sum(m * x, axis=0) + np.concatenate([x[1:], x[:1]]),
        lambda x, m: np.where(m > x, m, x.reshape(3, 1)).T,
        lambda x, m: np.maximum(m, 0.0) - np.minimum(x, -0.0),
        lambda x, m: da.scan(lambda c, r: (c * r + x, (np.sum(c), c * 2)), x, m),
        lambda x, m: da.while_loop(lambda c: np.sum(c) < 50.0, lambda c: c * c + 1.0, x),
        lambda x, m: da.cond(x[0] > 0, lambda v: (v * 2, v[0]), lambda v: (v / 3, v[1]), x),
        lambda x, m: np.linalg.solve(m + 3 * np.eye(3), x) * x,
        lambda x, m: (np.stack([x[0] * x[1], np.sin(x[2]), x[0]]), m[1], m[:, ::2]),
        da.jacfwd(lambda x, m: np.stack([10 * (x[1] - x[0]), x[0] * (28 - x[2]) - x[1], x[0] * x[1] - 8 / 3 * x[2]])),
        da.hessian(lambda x, m: np.sum(x**3) * x[0] / (1 + x[1] ** 2)),
    ],
)
def test_results_are_nobody_elses(f, numpy_backend) -> None:
    x, m = np.array([0.5, -1.5, 2.0]), np.arange(9.0).reshape(3, 3) - 3.3
    fast = da.jit(f)
    same(list(da.tree.flatten(fast(x, m))[0]), list(da.tree.flatten(f(x, m))[0]), False, "small arrays")
    for r in da.tree.flatten(fast(x, m))[0]:
        if isinstance(r, np.ndarray) and r.shape:
            assert r.flags.writeable and not np.shares_memory(r, x) and not np.shares_memory(r, m)
            r += 1.0
    same(list(da.tree.flatten(fast(x, m))[0]), list(da.tree.flatten(f(x, m))[0]), False, "again")


@pytest.mark.parametrize("way", ["straight", "in a loop"])
def test_memory_that_nothing_reads_any_more_is_given_back(way: str, numpy_backend) -> None:
    x = np.linspace(0.1, 1.0, 200_000)
    step = lambda y: np.sqrt(np.abs(np.sin(np.exp(-y * y)) + y))

    def straight(x):
        for _ in range(8):
            x = step(x)
        return x.reshape(400, 500).sum(axis=0), x

    in_a_loop = lambda x: da.fori_loop(0, 8, lambda i, y: step(y), x)
    f = straight if way == "straight" else in_a_loop
    fast = da.jit(f, check=False)
    same(list(da.tree.flatten(fast(x))[0]), list(da.tree.flatten(f(x))[0]), False, way)
    tracemalloc.start()
    fast(x)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5 * x.nbytes  # of 49 arrays


def test_strong_zeros_of_large_arrays(numpy_backend) -> None:
    f = da.grad(lambda x: np.sum(np.where(x > 0, np.sqrt(x), 0.0) * 2.0))
    x = np.linspace(-1, 1, 40_001)
    x[20_000] = 0.0
    with np.errstate(all="ignore"):
        assert np.array_equal(da.jit(f)(x), f(x), equal_nan=True)


def test_python_numbers_that_a_function_of_the_users_returns(numpy_backend) -> None:
    """They become NumPy's: a quotient of them is an infinity, and no error."""
    host = da.wrap(lambda x: float(x) * 0.0, jac=lambda x: np.zeros(()))
    quotients = lambda zero: (1.0 / zero, zero / zero, zero * 2)
    with np.errstate(all="ignore"):
        same(da.jit(lambda x: quotients(host(x)))(0.5), quotients(np.float64(0.0)), True, "zeros of Python's")


def test_numbers_where_python_would_raise(backend) -> None:
    f = lambda x: (1 / x, np.log(x), np.sum(np.exp(x * 1000)), x / np.sum(x))
    for x in (np.array([0.0, 1.0]), np.array([-1.0, 1.0]), np.array([np.nan, np.inf])):
        with np.errstate(all="ignore"):
            same(da.jit(f)(x), f(x), False, "poles")


def test_a_function_may_be_called_as_an_operator_is() -> None:
    def cholesky(a):
        return np.linalg.cholesky(a) * 2.0

    def array(x):
        return np.sin(x) + np.array([1.0, 2.0])

    a = np.array([[4.0, 0.0], [0.0, 9.0]])
    np.testing.assert_allclose(da.jit(cholesky)(a), cholesky(a))
    np.testing.assert_allclose(da.jit(np.linalg.inv)(a), np.linalg.inv(a))
    np.testing.assert_allclose(da.jit(array)(a[0]), array(a[0]))


@pytest.mark.parametrize("constant", [0, -3, 5])
@pytest.mark.parametrize("name", ["maximum", "minimum", "add", "arctan2", "hypot", "where", "clip"])
def test_whole_constants_are_floats_where_the_result_is(name, constant) -> None:
    """Whichever argument is chosen, the answer has the dtype that NumPy gives."""
    choices = {"where": lambda x, c: np.where(x > 0, x, c), "clip": lambda x, c: np.clip(x, c, 8)}
    f = choices.get(name) or getattr(np, name)
    for x in (np.array([-0.3]), np.array(7.5), -0.3, 7.5):
        got, want = da.jit(lambda x: f(x, constant))(x), f(x, constant)
        assert np.asarray(got).dtype == np.asarray(want).dtype == np.float64
        np.testing.assert_array_equal(got, want)
