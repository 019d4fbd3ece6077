"""Indices that are computed: read, added to and written, in loops over large arrays, in registers and in loops of ours.

Against the functions themselves, and bit for bit against the same program in NumPy, which reads and adds in the same
order. Not for: indices that are known.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dualad as da
from dualad.compile.native import carries, indices, passes, positions, scatters
from dualad.compile.native.positions import entry_way
from dualad.compile.native.table import Way
from dualad.errors import CompilerFaultWarning

pytestmark = pytest.mark.usefixtures("native_backend")


def equal(found: Any, expected: Any, what: str = "") -> None:
    for a, b in zip(da.tree.flatten(found)[0], da.tree.flatten(expected)[0], strict=True):
        a, b = np.asarray(a), np.asarray(b)
        assert a.shape == b.shape and a.dtype == b.dtype, (what, a.shape, b.shape, a.dtype, b.dtype)
        assert np.array_equal(a, b, equal_nan=a.dtype.kind == "f"), (what, a, b)
        assert np.array_equal(np.signbit(a), np.signbit(b)) or a.dtype.kind != "f" or np.isnan(a).any(), what


def outcome(f: Callable, args: tuple) -> Any:
    try:
        with np.errstate(all="ignore"):
            return f(*args)
    except IndexError as error:
        return str(error)


def by_numpy(f: Callable, args: tuple) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DUALAD_NATIVE", "0")
        return outcome(da.jit(f), args)


def agree(f: Callable, args: tuple, what: str = "") -> Any:
    """Compare a function, its program in NumPy, and what it is compiled to, which is returned."""
    fast = da.jit(f)
    plain, expected, found = outcome(f, args), by_numpy(f, args), outcome(fast, args)
    errors = [x if isinstance(x, str) else "none" for x in (plain, expected, found)]
    if errors != ["none"] * 3:
        assert errors[1] == errors[2], (what, errors)
        assert isinstance(plain, str), (
            what
        )  # in other words, perhaps: a read whose result nobody uses is not in a program
        return fast
    equal(found, expected, what)
    single = any([np.asarray(x).dtype == np.float32 for x in da.tree.flatten(args)[0]])
    for a, b in zip(da.tree.flatten(found)[0], da.tree.flatten(plain)[0], strict=True):
        size = np.max(np.abs(b), initial=1.0)
        np.testing.assert_allclose(a, b, rtol=1e-4 if single else 1e-11, atol=(1e-4 if single else 1e-11) * size)
    return fast


def names(fast: Any, *args: Any) -> set[str]:
    """Return the operators that are in functions of machine code."""
    compiled = fast._specialised(args, {}).program.compiled
    return {step[0].name for g in compiled.groups for step in g.steps}


def same(f: Callable, *args: Any, native: bool = True) -> None:
    fast = agree(f, args)
    if native:
        calls = fast._specialised(args, {}).program.compiled.calls
        assert set(calls) == {"native"}, fast.lower(*args).kernels


def few(cases: list[tuple], apart: int) -> list:
    """Return cases of which only some run without ``--full``."""
    return [pytest.param(*c, marks=[] if not k % apart else pytest.mark.full) for k, c in enumerate(cases)]


def numbers(*shape: int, dtype: Any = float, seed: int = 0) -> Any:
    x = np.random.default_rng(sum(shape) + seed).normal(size=shape).astype(dtype)
    x.reshape(-1)[::5] = -0.0
    return x


# ── loops ────────────────────────────────────────────────────────────────────────────────────────────────────────


def walk(x, i):
    def step(c, i):
        c = c * 0.5 + x[i] * x[i - 1]
        return c, c - x[i]

    return da.scan(step, 0 * x[0], i)


@pytest.mark.parametrize(
    ("n", "kind", "dtype"),
    few([*itertools.product([2, 7, 8, 9, 40, 1500], [np.int64, np.int32], [np.float64, np.float32])], 7),
)
def test_reading_in_a_loop(n: int, kind: type, dtype: type) -> None:
    i = np.random.default_rng(n).integers(1 - n, n, 25).astype(kind)
    same(walk, numbers(n, dtype=dtype), i)
    same(walk, numbers(n, 3, dtype=dtype), i)
    same(da.grad(lambda x, i: np.sum(walk(x, i)[1])), numbers(n, dtype=dtype), i, native=False)
    same(da.vmap(walk, (None, 0)), numbers(n, dtype=dtype), np.stack([i, -i]), native=False)
    same(da.vmap(walk, (0, None)), numbers(3, n, dtype=dtype), i, native=False)
    same(da.vmap(walk), numbers(2, n, dtype=dtype), np.stack([i, -i]), native=False)
    gradient = da.grad(lambda x, i: np.sum(walk(x, i)[1]))
    same(da.vmap(gradient, (None, 0)), numbers(n, dtype=dtype), np.stack([i, -i]), native=False)
    same(da.vmap(gradient), numbers(2, n, dtype=dtype), np.stack([i, -i]), native=False)


def test_it_is_machine_code() -> None:
    x, i = numbers(1500), np.arange(700) * 2
    for f in (walk, da.grad(lambda x, i: np.sum(walk(x, i)[1]))):
        fast = da.jit(f)
        fast(x, i)
        compiled = fast._specialised((x, i), {}).program.compiled
        assert "scan" in names(fast, x, i) and "loop" not in compiled.calls, compiled.calls


@pytest.mark.parametrize("bad", [7, -8, 2**40, -(2**62)])
def test_an_index_that_is_none_is_numpys_error(bad: int) -> None:
    i = np.array([1, 2, bad, 3])
    same(walk, numbers(7), i)
    fast = da.jit(walk)
    fast(numbers(7), np.array([1, 2, 3, 4]))
    with pytest.raises(IndexError, match=f"index {bad} is out of bounds for axis 0 with size 7"):
        fast(numbers(7), i)
    equal(fast(numbers(7), i % 7), walk(numbers(7), i % 7))
    # Where nobody goes, nothing is wrong.
    f = lambda x, i: da.cond(i < 7, lambda x, i: x[i] * 2, lambda x, i: x[0], x, i)
    same(f, numbers(7), np.int64(bad if bad > 0 else 3))


def update(x, i):
    def step(c, i):
        c = c.copy()
        c[i] = c[i] * 0.5 + c[i - 1]
        return c, c[i - 2]

    return da.scan(step, x, i)


@pytest.mark.parametrize(("n", "dtype"), few([*itertools.product([3, 8, 30, 1200], [np.float64, np.float32])], 3))
def test_writing_in_a_loop(n: int, dtype: type) -> None:
    i = np.random.default_rng(n).integers(2 - n, n, 40)
    x = numbers(n, dtype=dtype)
    same(update, x, i)
    assert not np.array_equal(da.jit(update)(x, i)[0], x)
    same(update, numbers(n, 2, dtype=dtype), i)
    total = lambda x, i: np.sum(update(x, i)[0]) + np.sum(update(x, i)[1])
    same(da.grad(total), x, i, native=False)
    same(lambda x, i: da.jvp(lambda x: update(x, i), (x,), (x * 2,)), x, i, native=False)
    same(da.vmap(update), numbers(2, n, dtype=dtype), np.stack([i, i[::-1]]), native=False)


def test_zeros_of_both_signs_in_a_sum() -> None:
    def f(x, i):
        def step(c, i):
            y = c[i]
            c = c.copy()
            c[i] = -0.0
            return c + 0.0 * x * 0, y

        return da.scan(step, -0.0 * x, i)

    same(f, np.abs(numbers(9)), np.array([1, 1, 2]), native=False)
    same(da.grad(lambda x, i: np.sum(-0.0 * walk(x, i)[1])), np.abs(numbers(30)), np.array([1, 1, 2]), native=False)
    g = lambda x, i: da.vjp(lambda x: walk(x, i)[1], x)[1](-0.0 * np.ones(3))
    same(g, np.abs(numbers(30)), np.array([1, 1, 2]), native=False)
    # A carry that begins with -0.0 and is added to at one place: all of it becomes 0.0, in the first turn alone.
    from dualad.ops.indexing import index_add

    def h(x, i):
        def step(c, i):
            return c + index_add(x[0], i, template=("array",), shape=(40,)), c[3]

        return da.scan(step, -0.0 * x, i)

    same(h, np.abs(numbers(40)), np.array([1, 3, 2]))


def test_a_recurrence_of_its_own_entries() -> None:
    def fibonacci(x):
        def step(i, c):
            c = c.copy()
            c[i] = c[i - 1] * 0.5 + c[i - 2]
            return c

        return da.fori_loop(2, 1300, step, x)

    same(fibonacci, numbers(1300))
    same(da.grad(lambda x: fibonacci(x)[-1]), numbers(1300), native=False)
    same(da.vmap(fibonacci), numbers(2, 1300), native=False)


def test_loops_in_loops_and_whiles_read_too() -> None:
    def f(x, i):
        def outer(c, i):
            inner = lambda c, k: (c * 0.5 + x[i - k], c)
            c, ys = da.scan(inner, c, np.arange(3))
            return c, ys[1]

        return da.scan(outer, x[0], i)

    same(f, numbers(2000), np.array([3, 1, -7]))
    g = lambda x: da.while_loop(lambda s: x[s[0]] < 5, lambda s: (s[0] + 1, s[1] + x[s[0]]), (0, 0 * x[0]))
    x = np.abs(numbers(1700))
    x[1600] = 9
    same(g, x)


# ── registers ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("n", "dtype"), few([*itertools.product([1, 3, 8, 20], [np.float64, np.float32])], 3))
def test_small_arrays(n: int, dtype: type) -> None:
    x, i = numbers(n, dtype=dtype), np.random.default_rng(n).integers(-n, n, 6)
    for k in (i, i.astype(np.int32), i.reshape(2, 3), i[0], np.array(i[1])):
        same(lambda x, k: x[k] * 2 + 1, x, k)
        same(da.grad(lambda x, k: np.sum(x[k] * x[k])), x, k, native=False)
    same(lambda x, k: x[k, 1] - x[0, k], numbers(n, n + 1, dtype=dtype), i)
    same(lambda x, k: x[:, k, None, ::-1] * 2, numbers(2, n, 3, dtype=dtype), i)
    same(da.grad(lambda x, k: np.sum(x[:, k, ::-1] ** 2)), numbers(2, n, 2, dtype=dtype), i[:3], native=False)
    same(lambda x, k: np.take(x, k, axis=1) + 1, numbers(2, n, dtype=dtype), i)

    def put(x, k):
        x = x.copy()
        x[k] = 7.0
        return x * 2

    same(put, x, i[0])
    same(lambda x, k: x[k] * 2, x > 0, i, native=False)
    same(lambda x, k: x[k] * 2 + k, np.arange(n), i)


def test_many_at_one_place() -> None:
    k = np.array([0, 1, 0, 2, 0, 1, 0, -1, 0, 0, 1, 0, 0, 2])
    for dtype in (np.float64, np.float32):
        same(da.grad(lambda x, w: np.sum(x[k] * w)), numbers(3, dtype=dtype), numbers(14, dtype=dtype), native=False)
        same(lambda x, w, k: da.vjp(lambda x: x[k], x)[1](w), numbers(3, dtype=dtype), numbers(14, dtype=dtype), k)


# ── random programs ──────────────────────────────────────────────────────────────────────────────────────────────


def random_loop(seed: int) -> tuple[Callable, tuple]:
    """Return a loop over random steps that read and change arrays at random places, with arguments."""
    rng = np.random.default_rng(seed)
    pick = lambda *options: options[rng.integers(len(options))]
    n, turns, dtype = pick(2, 5, 8, 9, 33, 1100), pick(1, 2, 7, 30), pick(np.float64, np.float64, np.float32)
    row = pick((), (), (), (2,), (9,))
    x, b = (numbers(n, *row, dtype=dtype, seed=seed + k) for k in range(2))
    i = rng.integers(-n, n, turns).astype(pick(np.int64, np.int64, np.int32))
    j = rng.integers(-n, n, (turns, 3))
    if rng.random() < 0.12:
        i[rng.integers(turns)] = pick(n, -n - 1, 2**31 - 1)
    plan = [pick("read", "old", "set", "add", "many", "static", "mix") for _ in range(rng.integers(1, 5))]
    stop, reverse = pick(True, False), pick(True, False)

    def f(x, b, i, j):
        def step(carry, row):
            (c, b), (i, j) = carry, row
            for what in plan:
                if what == "read":
                    c = c * 0.5 + x[i]
                elif what == "old":
                    c = c - b[i]
                elif what == "set":
                    b = b.copy()
                    b[i] = c
                elif what == "add":
                    b = b.copy()
                    b[i] += c * 0.25
                elif what == "many":
                    c = c + np.sum(x[j] * 0.5, axis=0)
                elif what == "static":
                    b = b.copy()
                    b[1] = c + x[-1]
                else:
                    c = np.where(c > x[i], c * 0.5, b[j[1]])
            return (c, b), (c if stop else b[i])

        return da.scan(step, (x[0] * 1.5, b), (i, j), reverse=reverse)

    return f, (x, b, i, j)


def transformed(f: Callable, args: tuple, which: int) -> Callable:
    def total(x, b, *rest):
        (c, b), ys = f(x, b, *rest)
        return np.sum(c) + np.sum(b * b) + np.sum(ys)

    if which == 1:
        return lambda *a: da.grad(total, argnums=(0, 1))(*a)
    if which == 2:
        return lambda x, b, *rest: da.jvp(lambda x, b: f(x, b, *rest), (x, b), (b, x))
    if which == 3:
        return lambda x, b, i, j: da.vmap(f, (None, 0, 0, None))(x, np.stack([b, x]), np.stack([i, i[::-1]]), j)
    return f


def check_loop(seed: int) -> None:
    f, args = random_loop(seed)
    agree(transformed(f, args, seed % 4), args, f"seed {seed}")


@pytest.mark.parametrize("chunk", [0, *[pytest.param(k, marks=pytest.mark.full) for k in range(1, 60)]])
def test_random_loops(chunk: int) -> None:
    for seed in range(10 * chunk, 10 * chunk + 10):
        check_loop(seed)


# ── large arrays ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def loops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passes, "_LARGE", 0)
    monkeypatch.setattr(passes, "_WORTH", 0)


@pytest.mark.usefixtures("loops")
@pytest.mark.parametrize(
    ("n", "kind"),
    few([*itertools.product([1, 7, 9, 127], [np.int64, np.int32, np.intp, np.uint8, np.int8, np.uint32])], 7),
)
def test_reading_and_adding_of_large_arrays(n: int, kind: type) -> None:
    for dtype in (np.float64, np.float32):
        x, y = numbers(n, dtype=dtype), numbers(19, dtype=dtype)
        i = np.random.default_rng(n).integers(0 if kind in (np.uint8, np.uint32) else -n, n, 19).astype(kind)
        fast = agree(lambda x, y, i: (x[i] * y - x[i] + 2) * 0.5, (x, y, i))
        assert {"index"} <= names(fast, x, y, i)
        total = lambda x, y, i: np.sum((x[i] * y - 1.0) * x[i])
        fast = agree(da.grad(total), (x, y, i))
        assert {"index", "index_add"} <= names(fast, x, y, i)
        if kind in (np.int64, np.int8):
            agree(da.hessian(total), (x, y, i))
            agree(da.vmap(da.grad(total), (0, None, None)), (np.stack([x, 2 * x]), y, i))
            agree(da.vmap(da.grad(total), (None, 0, 0)), (x, np.stack([y, 2 * y]), np.stack([i, i[::-1]])))
            agree(da.vmap(da.grad(total)), (np.stack([x, x * 2]), np.stack([y, 2 * y]), np.stack([i, i[::-1]])))


@pytest.mark.usefixtures("loops")
def test_forms_of_an_index() -> None:
    x, i, j = numbers(7, 9, 5), np.array([[3, -7, 0], [0, 0, 6]]), np.array([4, 4, -1])
    forms = {
        "rows": lambda x: x[i] * 2 + 1, "columns": lambda x: x[:, j] * 2 + 1, "last": lambda x: x[..., j] * 2 + 1,
        "pairs": lambda x: x[i, j] * 2 + 1, "apart": lambda x: x[i, 1:8:3, j] * 2 + 1,
        "backwards": lambda x: x[::-1, j, ::2] * 2 + 1, "new axis": lambda x: x[i, None, 2] * 2 + 1,
        "take": lambda x: np.take(x, j, axis=1) * 2 + 1, "outer": lambda x: x[i[..., None], j] * 2 + 1,
    }  # fmt: skip
    for f in forms.values():
        agree(f, (x,))
        agree(da.grad(lambda x, f=f: np.sum(f(x) ** 2)), (x,))
        agree(f, (x.transpose(2, 1, 0).copy().transpose(2, 1, 0),))
    labels = lambda x, k: -np.mean((x - np.max(x, 1, keepdims=True))[np.arange(40), k])
    agree(da.grad(labels), (numbers(40, 6), np.arange(40) % 6))
    along = lambda x, k: np.take_along_axis(x, k[:, None], axis=1)[:, 0] * 2
    agree(along, (numbers(40, 6), np.arange(40) % 6))


@pytest.mark.usefixtures("loops")
@pytest.mark.parametrize("bad", [7, -8])
@pytest.mark.parametrize("place", [0, 30, 39])
def test_an_index_that_is_none_in_a_large_array(place: int, bad: int) -> None:
    x, i = numbers(7), np.arange(40) % 7
    i[place] = bad
    for f in (
        lambda x, i: x[i] * 2 + 1, lambda x, i: (x[i] * 2 + 1)[3:5], lambda x, i: np.sum(x[i] * 2.0),
        lambda x, i: np.max(x[i] * 2.0), da.grad(lambda x, i: np.sum(x[i] * x[i])),
        lambda x, i: np.argmax(x[i] * 2) + 1, lambda x, i: np.where(i < 7, x[i], 0.0) * 2,
    ):  # fmt: skip
        fast = agree(f, (x, i))
        with pytest.raises(IndexError):
            fast(x, i)


def test_many_threads_and_one_have_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    x, i = numbers(500), np.random.default_rng(0).integers(-500, 500, (300, 200))
    rows = numbers(300, 200)
    f = lambda x, rows, i: (da.grad(lambda x: np.sum(x[i] * rows * x[i]))(x), x[i] * rows + 1)
    agree(f, (x, rows, i))
    lanes = lambda rows, i: da.vmap(da.grad(lambda r, k: np.sum(r[k] * r[k])))(rows, i % 200)
    agree(lanes, (rows, i))
    i[299, 199] = 500
    agree(f, (x, rows, i))


def random_arrays(seed: int) -> tuple[Callable, tuple]:
    """Return random arithmetic on entries at random places, with arguments."""
    rng = np.random.default_rng(seed)
    pick = lambda *options: options[rng.integers(len(options))]
    n, m, dtype = pick(2, 3, 8, 21, 150), pick(2, 5, 8, 17, 140), pick(np.float64, np.float64, np.float32)
    rows = pick((), (), (3,), (8,), (11,))
    x, y = numbers(n, *rows, dtype=dtype, seed=seed), numbers(m, *rows, dtype=dtype, seed=seed)
    i, j = rng.integers(-n, n, m).astype(pick(np.int64, np.int32, np.int16)), rng.integers(-m, m, n)
    if rng.random() < 0.1:
        i[rng.integers(m)] = pick(n, -n - 1)
    plan = [pick("read", "again", "put", "table", "slice", "whole") for _ in range(rng.integers(1, 5))]

    def f(x, y, i, j):
        for what in plan:
            if what == "read":
                y = x[i] * y - 1.5
            elif what == "again":
                x = y[j] + x * 0.5
            elif what == "put":
                x = x + da.vjp(lambda x: x[i], x)[1](y * 0.25)[0]
            elif what == "table":
                k = np.clip(np.floor(np.abs(y) * n).astype(int), 0, n - 1)
                y = y + np.take(x.reshape(-1), k)
            elif what == "slice":
                y = np.concatenate([y[m // 2 :], x[i][: m // 2]])
            else:
                x = x - np.sum(y, axis=0)
        return x, y

    return f, (x, y, i, j)


def check_arrays(seed: int) -> None:
    f, args = random_arrays(seed)
    which = seed % 4
    total = lambda x, y, *rest: sum([np.sum(v * v) for v in f(x, y, *rest)])
    if which == 1:
        g = da.grad(total, argnums=(0, 1))
    elif which == 2:
        g = lambda x, y, *rest: da.jvp(lambda x, y: f(x, y, *rest), (x, y), (x * 2, y))
    elif which == 3:
        g = lambda x, y, i, j: da.vmap(f, (0, None, 0, None))(np.stack([x, -x]), y, np.stack([i, i[::-1]]), j)
    else:
        g = f
    agree(g, args, f"seed {seed}")


@pytest.mark.usefixtures("loops")
@pytest.mark.parametrize("chunk", [0, *[pytest.param(k, marks=pytest.mark.full) for k in range(1, 60)]])
def test_random_arrays(chunk: int) -> None:
    for seed in range(10 * chunk, 10 * chunk + 10):
        check_arrays(seed)


# ── indices that are known ───────────────────────────────────────────────────────────────────────────────────────

KNOWN = [[3, 0, -2], [1, 1, -1, 1], [[0, 2], [-1, 0]], [2]]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("i", KNOWN, ids=str)
def test_known_places_are_moves(i: list, dtype: type) -> None:
    x = np.random.default_rng(0).standard_normal((4, 56)).astype(dtype)
    x[1] = -0.0
    add = lambda x, y: da.vjp(lambda x: x[i], x)[1](y)
    for f in (lambda x: x[i], lambda x: x[:, i], lambda x: add(x, x[i] * x[i]), lambda x: add(x, -x[i])):
        fast = agree(f, (x,), str(i))
        assert set(fast._specialised((x,), {}).program.compiled.calls) == {"native"}


def test_known_places_in_a_loop() -> None:
    rows = [3, 2, 1, 0]
    f = lambda s, w: np.sum(da.scan(lambda s, w: (np.tanh(s[rows] * w), s[rows[1]]), s, w)[0] ** 2)
    s, w = np.random.default_rng(0).standard_normal((2, 4, 56)), np.ones((5, 56))
    for g in (f, da.grad(f, argnums=(0, 1))):
        fast = da.jit(g)
        for a, b in zip(da.tree.flatten(fast(s[0], w))[0], da.tree.flatten(g(s[0], w))[0], strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-13)
        assert "loops and branches of the source" not in fast.lower(s[0], w).kernels


# ── faults ───────────────────────────────────────────────────────────────────────────────────────────────────────


FAULTS = {
    "in single precision": (indices, "sums_in_double", lambda *args: False),
    "one change of two": (carries.Changed, "spots", lambda self: [self.tree[1]] if self.tree[0] == "spots" else []),
    "negative ones": (positions, "from_the_end", lambda b, x, n: b.select(b.compare("slt", x, 0), b.add(x, n - 1), x)),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_caught(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*FAULTS[fault])
    with pytest.raises((AssertionError, CompilerFaultWarning)):
        test_many_at_one_place()
        for seed in range(40):
            check_loop(seed)


FAULTS_OF_LOOPS = {
    "in single precision": (scatters, "sums_in_double", lambda *args: False),
    "what is left out is not looked at": (passes.Pass, "_left_out", lambda self: []),
    "written where it is read": (
        passes,
        "_is_elsewhere",
        lambda op, args, v: entry_way(op, args) not in (Way.ENTRYWISE, Way.GATHER),
    ),
}


@pytest.mark.usefixtures("loops")
@pytest.mark.parametrize("fault", FAULTS_OF_LOOPS)
def test_planted_faults_of_loops_are_caught(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*FAULTS_OF_LOOPS[fault])
    with pytest.raises((AssertionError, CompilerFaultWarning, KeyError, passes.Refused)):
        test_many_at_one_place()
        test_an_index_that_is_none_in_a_large_array(30, 7)
        for seed in range(40):
            check_arrays(seed)
