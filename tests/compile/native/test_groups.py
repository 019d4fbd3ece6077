"""Groups: lengths around the width of a vector, broadcasts, loops, branches and sums, against the function itself.

Not for: operators one by one (../test_numpy_source.py) or random programs (../test_jit_random.py), which run with this
backend too.
"""

from __future__ import annotations

import multiprocessing

import numpy as np
import pytest
import scipy.special

import dualad as da
from dualad.compile import trust
from dualad.compile.native import groups, operators
from dualad.compile.native.maths import FUNCTIONS
from dualad.compile.tracing import EffectWarning
from dualad.errors import CompilerFaultWarning
from dualad.ops.kinds import scale

pytestmark = pytest.mark.usefixtures("native_backend")


def same(f, *args, exact: bool = True, all_native: bool = True) -> None:
    with np.errstate(all="ignore"):
        expected = da.tree.flatten(f(*args))[0]
        fast = da.jit(f)
        found = da.tree.flatten(fast(*args))[0]
    for a, b in zip(found, expected, strict=True):
        a, b = np.asarray(a), np.asarray(b)
        assert a.shape == b.shape and a.dtype == b.dtype
        if exact:
            assert np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
            assert np.array_equal(np.signbit(a) & ~np.isnan(a), np.signbit(b) & ~np.isnan(b))
        else:
            np.testing.assert_allclose(a, b, rtol=1e-13, atol=1e-14)
    if all_native:
        compiled = fast._specialised(args, {}).program.compiled
        assert set(compiled.calls) == {"native"}, fast.lower(*args).kernels


def numbers(*shape: int):
    return np.random.default_rng(sum(shape)).normal(size=shape)[()]


@pytest.mark.parametrize("n", range(1, 41))
def test_lengths(n: int) -> None:
    x = numbers(n)
    x[0] = -0.0

    def f(x):
        y = np.sqrt(np.abs(x)) * 3 - x / (x * x + 1)
        z = np.concatenate([y[n // 2 :], x[:1], y[: n // 2]])
        return y, z[::-1], np.sum(y), np.cumsum(x), np.max(z), np.where(x > 0, y, -x), y < x, np.stack([x, y])

    same(f, x, all_native=n > 1)


@pytest.mark.parametrize(
    "shapes", [((3, 1), (1, 5)), ((4, 1, 9), (7, 1)), ((2, 3, 4), ()), ((1,), (9, 1)), ((8,), (8, 8))]
)
def test_broadcasts(shapes) -> None:
    a, b = (numbers(*s) for s in shapes)

    def f(a, b):
        c = a * b + a - b
        axes = tuple(range(c.ndim))
        return c, np.sum(c, axis=0), np.sum(c, axis=-1), np.sum(c, axis=axes), c.T, np.min(c, axis=0), np.prod(c, -1)

    same(f, a, b, exact=False)
    same(lambda a, b: (a * b + a - b, (a - b).T, np.sum(a - b, axis=-1)), a, b)


@pytest.mark.parametrize("n", [8, 9, 100, 127, 128, 129, 300, 1000])
def test_sums_have_numpys_bits(n: int) -> None:
    same(lambda x: (np.sum(x), np.sum(x * x), np.sum(x.astype(np.float32))), numbers(n))
    same(lambda x: (np.sum(x * 1.5, 0), np.sum(x * x, 1)), numbers(2, n // 2))
    same(lambda x: np.sum(x * 1.5, 0), np.full((3, 2), -0.0))
    for shape, axis in (((2, 3, 2), (0, 2)), ((3, 2, 9), (0, 2)), ((2, 3, 2, 5), (0, 2, 3)), ((4, 3, 2), (0, 1))):
        same(lambda x, axis=axis: np.sum(x * 1.5, axis), numbers(*shape))


def test_types() -> None:
    i, s, t = np.arange(-5, 6), numbers(11).astype(np.float32), numbers(11) > 0
    same(lambda i, s, t: (i + 1, i * i - 3, -i, np.abs(i), i / 2, i < 3, i + 0.5, np.maximum(i, 2), np.sum(i)), i, s, t)
    same(lambda i, s, t: (s + 1, s * s / 3, np.sqrt(np.abs(s)), s > 0, s.astype(float), np.where(t, s, 1)), i, s, t)
    same(lambda i, s, t: (t & (i > 0), ~t, t | (s > 0), np.logical_xor(t, s > 0), np.all(t), np.any(t), t * s), i, s, t)
    found, expected = da.jit(lambda s: np.exp(s) * np.sin(s))(s), np.exp(s) * np.sin(s)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=5e-7)


def test_overflow_wraps_as_numpys() -> None:
    same(lambda i: (i * i, i + i, -i), np.array([2**62, -(2**63), 2**63 - 1, 3]))


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_mathematics(name: str) -> None:
    function = getattr(np, name, None) or getattr(scipy.special, "expit" if name == "logistic" else name)
    x = np.concatenate([np.linspace(-3, 3, 25), [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 1e300, 1e-300]])
    with np.errstate(all="ignore"):
        if function.nin == 1:
            found, expected = da.jit(lambda x: function(x) + 0)(x), function(x)
        else:
            found, expected = da.jit(lambda x, y: function(x, y) + 0)(x, x[::-1]), function(x, x[::-1])
    np.testing.assert_allclose(found, expected, rtol=1.5e-15)


@pytest.mark.parametrize("n", [-3.5, -3, -2.5, -2, -1.5, -1, -0.5, 0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4.25])
def test_powers(n: float) -> None:
    x = np.array(
        [0.0, -0.0, 1.0, -1.0, 2.5, -2.5, np.inf, -np.inf, np.nan, 1e-300, 1e200, 1e-206, 3e205, 1e308, 5e-324]
    )
    with np.errstate(all="ignore"):
        expected = np.power(x, float(n))
        found = da.jit(lambda x: x ** float(n) * 1)(x)
    np.testing.assert_allclose(found, expected, rtol=2e-15, atol=5e-324)


@pytest.mark.parametrize("rows", [1, 5, 40])
def test_places_of_extrema_are_numpys(rows: int) -> None:
    """Of zeros of both signs and of NaNs the first; eight rows at a time, and fewer."""
    special = np.array([0.0, -0.0, np.nan, 1.0, -np.inf])
    x = np.random.default_rng(rows).choice(special, size=(rows, 4))
    same(lambda x: (np.argmax(x, axis=1) + 1, np.argmin(x, axis=0) + 1, np.argmax(x) * 2, np.signbit(x) & True), x)
    same(lambda x: np.argmin(x, axis=-1) + 1, np.arange(4 * rows).reshape(rows, 4) % 3)


@pytest.mark.parametrize("x", [-0.0, 2.5, np.nan])
def test_totals_of_a_number_are_numpys(x: float) -> None:
    same(lambda x: tuple([total(x) * 1.5 for total in (np.sum, np.prod, np.max, np.min)]), np.array(x))
    same(lambda x: np.sum(x, axis=()) * 1.5, np.array([x, 1.0]))


def test_a_number_that_fills_is_a_constant() -> None:
    same(lambda x: np.full_like(np.sum(x), 3) + np.zeros_like(x[0]) * x[0], np.array([-1.0, 2.0]))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("known", [[0.0, 1.0], [0.0, -0.0, 1.0, -1.0, 2.5, np.inf, np.nan]])
def test_strong_zeros_that_are_known(known: list[float], dtype: type) -> None:
    factors = np.array([2.5, -3.0, 0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40], dtype)
    for shift in range(len(factors)):  # each beside each, in every lane and at the end of a vector
        t = np.resize(np.array(known, dtype), len(factors) + 3)
        same(lambda d, t=t: scale(t, d), np.resize(np.roll(factors, shift), len(t)))


def test_strong_zeros() -> None:
    f = da.grad(lambda x: np.sum(np.where(x > 0, np.sqrt(x), 0.0) * 2.0))
    same(f, np.array([0.0, 1.0, -1.0, 4.0, 0.0, 9.0, 2.0, 0.25, 0.0]), all_native=False)


# ── loops and branches ───────────────────────────────────────────────────────────────────────────────────────────


def step(c, row):
    a, b = row
    c = c * 0.5 + a - np.sum(b)
    return c, (c * 2, np.sum(c), b[::-1] > 0)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("n", [1, 2, 9, 33])
def test_scans(reverse: bool, n: int) -> None:
    rows = numbers(n, 11), numbers(n, 3)
    same(lambda c, rows: da.scan(step, c, rows, reverse=reverse), numbers(11), rows)
    f = lambda c, rows: np.sum(da.scan(step, c, rows, reverse=reverse)[1][0] ** 2)
    same(da.grad(f), numbers(11), rows, exact=False, all_native=False)
    same(lambda c, rows: da.jvp(lambda c: f(c, rows), (c,), (c,)), numbers(11), rows, exact=False, all_native=False)


def test_a_long_scan_with_a_gradient() -> None:
    def total(w, u, b, x):
        return np.sum(da.scan(lambda h, x: ((h := np.tanh(w * h + u * x + b)), h), 0.0, x)[1] ** 2)

    args = (0.9, 0.3, 0.1, numbers(5000))
    same(da.grad(total, argnums=(0, 1, 2)), *args, exact=False, all_native=False)


def test_loops_inside_loops() -> None:
    def f(x, m):
        outer = lambda c, row: (da.fori_loop(0, 3, lambda i, c: np.sin(c) * row + i, c), np.max(c))
        return da.scan(outer, x, m)

    same(f, numbers(9), numbers(4, 9), exact=False)
    same(
        lambda x: da.while_loop(lambda c: np.sum(c[0]) < 50.0, lambda c: (c[0] * c[0] + 1.0, c[1] + 1), (x, 0)),
        numbers(3),
    )
    same(lambda x: da.while_loop(lambda c: c < 0, lambda c: c + 1.5, x), -4.0)


@pytest.mark.parametrize("x", [-1.0, 0.5, 2.0])
def test_branches(x: float) -> None:
    v = numbers(9)
    f = lambda x, v: da.cond(x > 1, lambda v: (v * 2, v[0]), lambda v: (v / 3, x * v[1]), v)
    same(f, x, v)
    g = lambda x, v: da.scan(lambda c, r: (da.cond(r > x, lambda c: c * r, lambda c: c - 1.0, c), c), v[0], v)
    same(g, x, v)
    same(da.grad(lambda x, v: g(x, v)[0]), x, v, exact=False, all_native=False)


def test_vmapped_loops() -> None:
    f = lambda x: da.fori_loop(0, 20, lambda i, c: c - (c * c - x) / (2 * c), x)
    same(da.vmap(f), np.linspace(1, 4, 13))
    same(da.vmap(da.grad(f)), np.linspace(1, 4, 13), exact=False, all_native=False)


# ── which equations ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("n", [7, 8, 1000, 1001])
def test_lanes_of_while_loops_end_by_themselves(n: int) -> None:
    root = lambda x: da.while_loop(lambda y: abs(y * y - x) > 1e-9 * x, lambda y: 0.5 * (y + x / y), x + 1.0)
    same(da.vmap(root), np.abs(numbers(n)) + 0.1)


@pytest.mark.parametrize("n", [1, 7, 8, 9, 100])
def test_whether_any_and_all_hold(n: int) -> None:
    for x in (np.zeros(n), np.eye(1, n)[0], np.eye(1, n, n - 1)[0], np.ones(n), 1.0 - np.eye(1, n, n // 2)[0]):
        same(lambda x: (np.any(x > 0.5), np.all(x > 0.5), 2.0 * x), x)


@pytest.mark.parametrize("shape", [(1,), (7,), (40,), (3, 9), (9, 3)])
@pytest.mark.parametrize("axis", [0, -1])
def test_running_products(shape: tuple[int, ...], axis: int) -> None:
    x = numbers(*shape)
    x.flat[-1] = 0.0
    f = lambda x: np.sum(np.cumprod(x, axis=axis) ** 2)
    same(lambda x: np.cumprod(x, axis=axis) * 2.0, x)
    for make in (da.grad, lambda f: da.grad(lambda x: np.sum(da.grad(f)(x) ** 2))):
        same(make(f), x, exact=False)


@pytest.mark.parametrize("order", range(4))
def test_sinc_near_zero_and_far_from_it(order: int) -> None:
    f = np.sinc
    for _ in range(order):
        f = (lambda f: lambda x: da.jvp(f, (x,), (np.ones_like(x),))[1])(f)
    same(f, np.array([0.0, 1e-300, 1e-9, -0.3, 2 / np.pi, 0.64, 1.0, -2.5, 40.0]), exact=False)


def test_what_is_not_known_stays_with_numpy() -> None:
    f = lambda a, x: (np.linalg.eigvalsh(a * a + a.T)[0] * x - np.sort(x * 3)[0], np.sum(x) * 2, x + 1j)
    a, x = numbers(4, 4), numbers(11)
    same(f, a, x, exact=False, all_native=False)
    low = da.jit(f).lower(a, x)
    assert "eigvalsh" in low.source and "define i32 @body" in low.source and "machine code" in low.kernels


def test_a_callback_in_the_middle() -> None:
    calls = []
    host = da.wrap(lambda x: calls.append(1) or np.cos(x), jac=lambda x: -np.sin(x))

    def f(x):
        y = x * x + 1
        return host(y[0]) * y + x

    with pytest.warns(EffectWarning, match="changes a list that it did not make"):
        same(f, numbers(9), all_native=False)
    assert calls
    failing = da.wrap(lambda x: 1 // 0, jac=lambda x: x)
    with pytest.raises(ZeroDivisionError):
        da.jit(lambda x: failing(x * x + 1) * 2 + x)(0.5)


def test_a_failure_of_the_compiler_leaves_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(self, made):
        raise RuntimeError("LLVM says no")

    monkeypatch.setattr(trust, "STRICT", False)
    monkeypatch.setattr(groups.Group, "compile", fails)
    x = numbers(9)
    assert np.array_equal(da.jit(lambda x: x * x + x)(x), x * x + x)


def _writes(name, wrong):
    return operators.ENTRYWISE[name]._replace(write=wrong)


@pytest.mark.parametrize(
    "fault",
    [
        (operators.ENTRYWISE, "divide", _writes("divide", lambda b, x, y: b.mul(x, b.div(1.0, y)))),
        (operators.ENTRYWISE, "maximum", _writes("maximum", lambda b, x, y: b.select(b.compare("ogt", x, y), x, y))),
        (operators.JOINED_BY, "sum", "subtract"),
    ],
)
def test_planted_faults_are_caught(fault, monkeypatch: pytest.MonkeyPatch) -> None:
    table, name, wrong = fault
    monkeypatch.setitem(table, name, wrong)
    x = np.append(numbers(6), np.nan)
    with pytest.raises((AssertionError, CompilerFaultWarning)):
        same(lambda x: (x / 3.1, np.maximum(x, 0.1), np.sum(x[:6])), x)


def _in_a_child(x):
    f = lambda x: np.sum(np.sin(x) * x + 1)
    return da.jit(da.grad(f))(x)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_process_compiles_and_runs() -> None:
    if "fork" not in multiprocessing.get_all_start_methods():
        pytest.skip("no fork on this system")
    x = numbers(9)
    expected = _in_a_child(x)
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert np.array_equal(pool.apply(_in_a_child, (x,)), expected)


def test_generators_of_compiled_values() -> None:
    fast = da.jit(lambda x: np.cos(x) * x + 1)
    stream = (fast(np.full(9, float(i))) for i in range(5))
    assert [float(x[0]) for x in stream] == pytest.approx([np.cos(i) * i + 1 for i in range(5)])


def test_blocks_of_blocks():
    """A processor with AVX-512 read a wrong entry: LLVM's own mistake where shifted vectors become shorter ones."""

    def f(s):
        rows = np.split(s, 4, axis=0)
        y = np.split(rows[3], 4, axis=1)[3] + np.split(rows[2], 4, axis=1)[2] + np.split(rows[1], 4, axis=1)[1]
        return (y * np.array([[0.3], [-0.5], [0.7]])).sum(0) + y.sum(1)

    same(f, numbers(12, 12), all_native=False)


@pytest.mark.parametrize(("n", "about"), [(160, "registers"), (600, "loop")])
def test_short_programs_that_move_entries_are_straight(n: int, about: str) -> None:
    rng = np.random.default_rng(0)
    places = [rng.integers(0, n, n) for _ in range(3)]

    def f(x):
        for k in places:
            at = np.array(k)
            x = np.concatenate([x[at] * x, x[:5]])[at]
        return x

    x = numbers(n)
    same(f, x)
    assert about in da.jit(f)._specialised((x,), {}).program.compiled.groups[0].about
