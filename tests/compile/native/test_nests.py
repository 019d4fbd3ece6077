"""Bodies of scans that are machine code: random ones against Python loops and JAX, and arrays of all sizes.

Not for: loops of users' that are found again (../test_found_loops.py), or indices (test_indices.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dualad as da
from dualad.compile.native import bounds, loops
from dualad.errors import CompilerFaultWarning
from tests.oracles import jax_side
from tests.oracles.random_scans import SIZES, RandomScan, by_hand, put

pytestmark = pytest.mark.usefixtures("native_backend")

#: seeds of one test
CHUNK = 9
#: positions of the arguments that are differentiated
ALL = (0, 1, 2, 3, 4)


def agree(found: Any, expected: Any, what: str) -> None:
    for a, b in zip(da.tree.flatten(found)[0], da.tree.flatten(expected)[0], strict=True):
        a, b = np.asarray(a), np.asarray(b)
        assert a.shape == b.shape and a.dtype == b.dtype, what
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11 * (1 + np.max(np.abs(b), initial=0.0)), err_msg=what)


def test_lanes_of_a_while_loop_of_any_number_are_machine_code() -> None:
    root = lambda a: da.while_loop(lambda x: np.abs(x * x - a) > 1e-10, lambda x: 0.5 * (x + a / x), a)
    fast, a = da.jit(da.vmap(root)), np.linspace(1.0, 9.0, 2000)
    np.testing.assert_allclose(fast(a), np.sqrt(a), rtol=1e-10)
    assert is_native(fast, (a,))


def is_native(fast: Callable, args: tuple) -> bool:
    """Whether no loop is left to Python."""
    calls = fast.lower(*args)._compiled.calls
    return not calls.get("loop") and not calls.get("callback")


def check(seed: int) -> None:
    scan = RandomScan(seed, SIZES[seed % len(SIZES)])
    f, slow = scan.function(np, da.scan, put), scan.function(np, by_hand, put)
    gradient = lambda f: da.grad(f, argnums=ALL)
    directions = tuple([np.cos(3.0 * x) for x in scan.args])
    lanes = tuple([np.stack([x, 0.5 * x + 0.1]) for x in scan.args])
    cases = {
        "value": (lambda f: f, scan.args),
        "gradient": (gradient, scan.args),
        "jvp of gradient": (lambda f: lambda *xs: da.jvp(gradient(f), xs, directions)[1], scan.args),
        "vmap of gradient": (lambda f: da.vmap(gradient(f)), lanes),
    }
    for i, (name, (transform, args)) in enumerate(cases.items()):
        if scan.n > 100 and (seed + i) % 2:
            continue
        what = f"seed {seed}, {name}: {scan}"
        fast, expected = da.jit(transform(f)), transform(slow)(*args)
        agree(fast(*args), expected, what)
        agree(fast(*args), expected, what + ", again")
        # Products of stacks of larger matrices are BLAS's.
        assert is_native(fast, args) or name == "vmap of gradient", what
    if jax_side.INSTALLED and seed % 3 == 0:
        its = scan.function(jax_side.jnp, jax_side.jax.lax.scan, lambda x, i, value: x.at[i].set(value))
        agree(da.jit(gradient(f))(*scan.args), jax_side.jax.grad(its, ALL)(*scan.args), f"seed {seed}, JAX: {scan}")


@pytest.mark.parametrize("chunk", [0, *[pytest.param(k, marks=pytest.mark.full) for k in range(1, 120)]])
def test_random_scans(chunk: int) -> None:
    for seed in range(CHUNK * chunk, CHUNK * (chunk + 1)):
        check(seed)


# ── large arrays ─────────────────────────────────────────────────────────────────────────────────────────────────


def stages(xp: Any, scan: Callable) -> Callable:
    """Return an integration with four stages a step, of an equation with neighbours."""
    rate = lambda u: 0.3 * xp.concatenate([u[1:], u[:1]]) - 0.2 * u * u + xp.sin(u)

    def step(u, h):
        a = rate(u)
        b = rate(u + h / 2 * a)
        return u + h * b, xp.sum(a * b)

    return lambda u, h: (lambda end: xp.sum(end[0] ** 2) + xp.sum(end[1]))(scan(step, u, h))


@pytest.mark.parametrize("n", [255, 256, 257, 1024, 1025, 5000])
def test_carries_of_any_length(n: int) -> None:
    u, h = np.random.default_rng(n).standard_normal(n) * 0.3, np.linspace(0.01, 0.03, 5)
    f = stages(np, da.scan)

    def slow(u, h):
        total, rate = 0.0, lambda u: 0.3 * np.concatenate([u[1:], u[:1]]) - 0.2 * u * u + np.sin(u)
        for i in range(5):
            a = rate(u)
            b = rate(u + h[i] / 2 * a)
            u, total = u + h[i] * b, total + np.sum(a * b)
        return np.sum(u**2) + total

    hvp = lambda f: lambda u, h: da.jvp(lambda u: da.grad(f)(u, h), (u,), (np.cos(u),))[1]
    for transform in (lambda f: f, lambda f: da.grad(f, argnums=(0, 1)), hvp):
        fast = da.jit(transform(f))
        agree(fast(u, h), transform(slow)(u, h), f"n = {n}")
        assert is_native(fast, (u, h))


@pytest.mark.parametrize("n", [300, 3000])
def test_while_loops_and_branches_on_large_arrays(n: int) -> None:
    def f(u):
        halve = lambda c: (np.tanh(c[0]) * 0.4 + c[0][::-1] * 0.1, c[1] + 1)
        u, count = da.while_loop(lambda c: np.sum(c[0] ** 2) > 1.0, halve, (u, 0))
        odd = da.cond(count % 2 == 1, lambda u: np.sin(u), lambda u: np.concatenate([u[1:], u[:1]]), u)
        return odd, u, count

    def slow(u):
        count = 0
        while np.sum(u**2) > 1.0:
            u, count = np.tanh(u) * 0.4 + u[::-1] * 0.1, count + 1
        return (np.sin(u) if count % 2 == 1 else np.concatenate([u[1:], u[:1]])), u, count

    for seed in range(4):
        u = np.random.default_rng(seed).standard_normal(n)
        fast = da.jit(f)
        for a, b in zip(fast(u), slow(u), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13)
        assert is_native(fast, (u,))


def test_carries_that_change_places() -> None:
    def f(a, b, x):
        step = lambda c, r: ((c[1], c[0], c[0] * r), c[2])
        (a, b, c), ys = da.scan(step, (a, b, x), np.array([0.5, 2.0, 3.0]))
        return a, b, c, ys

    a, b, x = np.random.default_rng(0).standard_normal((3, 1500))
    fast = da.jit(f)
    agree(fast(a, b, x), (b, a, a * 3.0, np.stack([x, a * 0.5, b * 2.0])), "places")
    assert is_native(fast, (a, b, x))


@pytest.mark.parametrize("n", [40, 130])
def test_large_constants_in_bodies(n: int) -> None:
    mask = np.tri(n)
    mask.setflags(write=False)

    def f(xp, scan):
        step = lambda v, x: (xp.tanh(mask @ v / n + x), v[:3])
        return lambda v, xs: (lambda out: xp.sum(out[0] ** 2) + xp.sum(out[1]))(scan(step, v, xs))

    def by_rows(step, v, xs):
        ys = []
        for x in xs:
            v, y = step(v, x)
            ys.append(y)
        return v, np.stack(ys)

    args = tuple(np.random.default_rng(n).standard_normal((2, 3, n)))
    args = args[0][0], args[1]
    for transform in (lambda f: f, lambda f: da.grad(f, argnums=(0, 1))):
        fast = da.jit(transform(f(np, da.scan)))
        agree(fast(*args), transform(f(np, by_rows))(*args), f"n = {n}")
        assert is_native(fast, args)


def test_integers_in_bodies() -> None:
    numbers = np.array([7, -7, 0, 2**62, -(2**63), 5]), np.array([2, 3, -3, 0, -1, -2])

    def f(x, y):
        def step(c, i):
            q, r = c // y, c % y
            return (c ^ (q & r)) | (~r & i), (q, r, np.sum(c > y), np.sum(c * i))

        return da.scan(step, x, np.arange(4))

    fast = da.jit(f)
    with np.errstate(all="ignore"):
        agree(fast(*numbers), f(*numbers), "integers")
    assert is_native(fast, numbers)


# ── faults ───────────────────────────────────────────────────────────────────────────────────────────────────────

FAULTS = {
    "both places are one": (loops._Wide, "_at", lambda self, i, turn, other: self.rooms[i]),
    "a place too far": (
        loops._Wide, "_at", lambda self, i, turn, other: loops.at(
            self.lowering.code, self.rooms[i], self.avals[i].dtype, 2 * self.avals[i].size
        ),
    ),
    "a result is not kept": (loops._Wide, "keep", lambda self, turn, results: None),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_caught(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*FAULTS[fault])
    monkeypatch.setenv("DUALAD_CACHE", "0")
    with pytest.raises((AssertionError, CompilerFaultWarning, bounds.OutOfBounds)):
        test_carries_that_change_places()


def test_a_table_that_moves_is_bounded() -> None:
    text = """define void @f(ptr %arrays) {
start:
  %a = load ptr, ptr %arrays, align 8
  %b = getelementptr double, ptr %a, i64 7
  store double 0.0, ptr %b, align 8
  ret void
}
define i32 @body(ptr %in, ptr %out, ptr %scratch) {
start:
  %t = alloca [1 x ptr]
  br label %head
head:
  %i = phi i64 [0, %start], [%n, %head]
  %k = mul i64 %i, 8
  %p = getelementptr double, ptr %scratch, i64 %k
  store ptr %p, ptr %t
  call void @f(ptr %t)
  %n = add i64 %i, 1
  %c = icmp slt i64 %n, 4
  br i1 %c, label %head, label %end
end:
  ret i32 0
}"""
    assert bounds.check(text, [bounds.Entry("body", ((), (), 256))]) > 0
    for small in (248, 192):
        with pytest.raises(bounds.OutOfBounds):
            bounds.check(text, [bounds.Entry("body", ((), (), small))])
    moved = text.replace(
        "  store ptr %p, ptr %t\n  call void @f(ptr %t)", "  call void @f(ptr %t)\n  store ptr %p, ptr %t"
    )
    with pytest.raises(bounds.OutOfBounds):
        bounds.check(moved, [bounds.Entry("body", ((), (), 256))])
