"""Loops over large arrays: moves, joins, borders, broadcasts and short sums, against the function itself, bit for bit.

Every length is tested with loops for arrays of any size, and with any number of threads. Not for: which operators are
known (test_groups.py), or the kernels of mathematics (test_maths.py).
"""

from __future__ import annotations

import numpy as np
import pytest

import dualad as da
from dualad.compile import trust
from dualad.compile.native import domains, groups, passes
from dualad.compile.native.bands import bands_of
from dualad.compile.native.bounds import OutOfBounds

pytestmark = pytest.mark.usefixtures("native_backend")


@pytest.fixture(autouse=True)
def _small_is_large(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(passes, "_LARGE", 0)
    monkeypatch.setattr(passes, "_BLOCK", 64)
    monkeypatch.setattr(
        passes, "_SHARED", 200
    )  # the shorter arrays by the entry in machine code, the longer in threads
    monkeypatch.setattr(passes, "_INLINED", 100)
    before = da.threads()
    yield
    da.threads(before)


def numbers(*shape: int):
    return np.random.default_rng(sum(shape) + len(shape)).normal(size=shape)


def same(f, *args, exact: bool = True, whole: bool = True) -> None:
    with np.errstate(all="ignore"):
        expected = da.tree.flatten(f(*args))[0]
        for count in (1, 2, 7):
            da.threads(count)
            fast = da.jit(f)
            for a, b in zip(da.tree.flatten(fast(*args))[0], expected, strict=True):
                a, b = np.asarray(a), np.asarray(b)
                assert a.shape == b.shape and a.dtype == b.dtype
                if exact:
                    assert np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
                    assert a.dtype.kind != "f" or np.array_equal(np.signbit(a), np.signbit(b))
                else:
                    np.testing.assert_allclose(a, b, rtol=2e-14, atol=1e-14)
    compiled = fast._specialised(args, {}).program.compiled
    assert any([type(g) is passes.Pass for g in compiled.groups])
    if whole:
        assert compiled.calls == {"native": len(compiled.groups)}, fast.lower(*args).kernels


def stencil(x):
    left = np.concatenate([x[:1] * 0, x[:-1]])
    right = np.concatenate([x[1:], x[-1:] * 2])
    return (left - 2 * x + right) * 3 + x * (right - left), x[::-1] * left


@pytest.mark.parametrize("n", [*range(3, 41), 130, 1000])
def test_lengths(n: int) -> None:
    same(stencil, numbers(n))


@pytest.mark.parametrize("shape", [(2, 9), (9, 2), (7, 5), (16, 16), (3, 8), (33, 17), (2, 40)])
def test_two_axes(shape) -> None:
    x, row, column = numbers(*shape), numbers(shape[1]), numbers(shape[0], 1)

    def f(x, row, column):
        y = x * row - column
        z = np.where(y > 0, y / (1 + x * x), np.sqrt(np.abs(x)))
        return z, (z * 2 + y).T, y[::-1, ::-1] * x, z[1:, :-1] - y[:-1, 1:], np.concatenate([y, z], 1) * 2, y < row

    same(f, x, row, column)
    same(f, x[:1], row, column[:1], whole=False)


def test_borders() -> None:
    x = numbers(12, 11)

    def f(x):
        y = np.zeros((14, 13)) * x[0, 0]
        y[1:-1, 1:-1] = x * 2
        z = np.pad(x * 3, ((0, 2), (1, 1)))
        return y + z, np.stack([x * 2, x + 1], axis=1) * 3, x[3] * x[:, :1], np.broadcast_to(x[2], (5, 11)) + x[:5]

    same(f, x, whole=False)
    same(da.hessian(lambda x: np.sum((x[1:] - x[:-1] ** 2) ** 2 * 100 + (1 - x[:-1]) ** 2)), numbers(13), whole=False)


def test_short_sums_and_shapes() -> None:
    x = numbers(10, 3, 3)

    def f(x):
        d = x[:, None] - x[:, :, None]
        r = np.sum(d * d, axis=-1) + 0.01
        return (
            np.sum(d / r[..., None], axis=2),
            r.reshape(-1) * 2,
            (r * 3).reshape(5, 18) + 1,
            np.sum(r, 1, keepdims=True) * r,
        )

    same(f, x)
    same(lambda x: np.sum(x * 1.5, (0, 2)), numbers(2, 30, 3))
    same(lambda x: np.sum(x * 1.5, (2, 0)), numbers(3, 40, 2))


def test_mathematics_and_types() -> None:
    x = numbers(300) * 3
    f = lambda x: (
        np.exp(-x * x) * np.sin(x) + np.tanh(x),
        np.log1p(np.abs(x)) * np.cos(x),
        np.abs(x) ** 1.5 / np.exp(x),
    )
    same(f, x, exact=False)
    i, s = np.arange(100) - 50, numbers(100).astype(np.float32)
    same(lambda i, s: (i * i - 3, i / 4 + s, (s * 2 + 1) * s, (i > 3) & (s < 0), np.where(s > 0, s, 1) * 2), i, s)


def test_values_far_from_zero() -> None:
    x = np.array([0.0, -0.0, 1e6, -1e9, np.inf, np.nan, -np.inf, 1e308, 1e-310, -745.2, 709.9] * 3)
    same(lambda x: (np.sin(x) * 1.0 + 0 * np.cos(x), np.exp(x) * 2, np.log(x) + 1, np.tanh(x) / 3), x, exact=False)


def test_what_is_read_at_other_places_is_stored_once() -> None:
    f = lambda x: (lambda y: (y[1:] + y[:-1]) * y[:-1])(np.exp(x) * 2)
    fast = da.jit(f)
    x = numbers(50)
    (group,) = fast._specialised((x,), {}).program.compiled.groups
    assert group.text.count("define void") == 2
    same(f, x, exact=False)


def test_what_joined_parts_share_is_computed_once() -> None:
    def f(x):
        y = (x[1:] - x[:-1]) / (2.0 + np.sqrt(x[1:] ** 2 + x[:-1] ** 2) * x[1:])
        z = y / (1.0 + np.sqrt(y * y) * x[1:])
        return np.concatenate([z * x[1:], z - x[1:], z / (3.0 + x[1:] ** 2), -z, z + z])

    x = numbers(50)
    same(f, x, exact=False)
    (group,) = da.jit(f)._specialised((x,), {}).program.compiled.groups
    assert group.text.count("sqrt") < 6  # two of them, and what declares one: not two for each part


@pytest.mark.parametrize("view", [lambda x: x[:, ::2], lambda x: x.T, lambda x: x[::-1], np.asfortranarray])
def test_arguments_that_are_not_in_order(view) -> None:
    x = view(numbers(12, 12))
    same(lambda x: (x * 2 + 1, np.sqrt(np.abs(x)) - x[:1]), x)
    swapped = x.astype(">f8")
    assert np.array_equal(da.jit(lambda x: x * 2 + 1)(swapped), x * 2 + 1)


def test_a_wrong_cut_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    cuts = domains.find_cuts
    monkeypatch.setattr(domains, "find_cuts", lambda *args: [[(a[0][0], a[-1][1])] for a in cuts(*args)])
    with pytest.raises(OutOfBounds):
        same(stencil, numbers(20))


def test_an_array_is_written_by_one_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every entry of a result is written: memory that is not fresh zeros shows what is left out."""
    empty = np.empty

    def dirty(*args, **kwargs):
        out = empty(*args, **kwargs)
        if out.dtype.kind == "f":
            out[...] = np.nan
        return out

    monkeypatch.setattr(passes.np, "empty", dirty)
    for n in (9, 20, 130):
        found = da.jit(stencil)(numbers(n))
        for a, b in zip(found, stencil(numbers(n)), strict=True):
            assert np.array_equal(a, b)


def test_chains_may_be_longer_than_pythons_stack() -> None:
    turns = np.random.default_rng(0).integers(0, 4, 600)

    def entries(x):
        y = x
        for k in turns:
            y = (y + x, 0.5 * y - x, np.maximum(y, -x), y * (1 - x))[k]
        return y

    same(entries, numbers(70))
    same(entries, numbers(9, 9))


def test_a_failure_of_the_compiler_leaves_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(self, made):
        raise RuntimeError("LLVM says no")

    monkeypatch.setattr(trust, "STRICT", False)
    for kind in (passes.Pass, groups.Group):
        monkeypatch.setattr(kind, "compile", fails)
    assert np.array_equal(da.jit(stencil)(numbers(40))[0], stencil(numbers(40))[0])


@pytest.mark.parametrize("n", [64, 71, 200])
def test_a_long_axis_of_short_ones(n: int) -> None:
    x, m = numbers(n, 3, 3), numbers(3)

    def f(x, m):
        d = x[:, None] - x[:, :, None]
        r = np.sum(d * d, axis=-1) + 0.01
        a = np.sum(d * (m / r)[..., None], axis=2)
        joined = np.concatenate([a, x[:, :1] * 2], axis=1)
        return a, joined[:, ::-1], (d * 2).reshape(n, 9, 3) + 1, np.stack([r, -r], axis=1), r.transpose(0, 2, 1) * m

    same(f, x, m)
    same(lambda x, m: da.jvp(lambda x: f(x, m), (x,), (x * 2,)), x, m, exact=False, whole=False)
    fast = da.jit(f)
    (group,) = fast._specialised((x, m), {}).program.compiled.groups
    assert f"1 loop over ({n},)" in group.about
    same(lambda x, m: (x[1:] * m, x[::-1] + 1, np.concatenate([x, x * 2]) - 1), x, m)


@pytest.mark.parametrize(("entries", "dtype"), [
    (7, float), (8, float), (9, float), (16, float), (25, float), (9, np.float32), (17, np.int64), (8, np.int32),
])  # fmt: skip
def test_rows_are_moved_eight_entries_at_a_time(entries: int, dtype: type) -> None:
    """Eight lanes of eight entries are eight rows of memory, read and written at once; what is left, one by one."""
    x = (10 * numbers(71, entries, 1)).astype(dtype)

    def f(x):
        other = x[:, ::-1] * 2
        return x + other, x > other, np.stack([x, other], axis=1), x[:, 2:5] * x[:, :1]

    (group,) = da.jit(f)._specialised((x,), {}).program.compiled.groups
    assert "1 loop over (71,)" in group.about
    assert "store <8 x" in group.text
    same(f, x)


def test_entries_of_constants_of_another_dtype_are_their_own() -> None:
    """A whole number among constants becomes a float where it stands, not as the first of them."""
    whole = np.array([3, 3, 11])
    f = lambda x: np.sum(np.arctan2(x, whole) * whole)
    for x in (0.6, np.float64(-2.0)):
        np.testing.assert_allclose(da.jit(f)(x), f(x), rtol=1e-14)
    g = lambda x: np.sum(x[:, None] * whole, axis=1) - x * whole[2]
    rows = np.linspace(0.5, 2.0, 40)
    np.testing.assert_allclose(da.jit(g)(rows), g(rows), rtol=1e-14)


def test_what_is_read_twice_at_each_step_is_looked_at_once() -> None:
    """Thirty steps that read their state twice have a thousand million ways from the end to the beginning."""

    def f(x):
        v = 0 * x
        for _ in range(30):
            x, v = x + 0.05 * v, v - 0.05 * np.sin(x)
        return np.sum(x * x + v)

    same(f, numbers(2000), exact=False, whole=False)


@pytest.mark.parametrize("shape", [(3, 17), (17, 16)])
def test_constants_that_are_diagonals_are_known_by_row_and_column(shape: tuple[int, int]) -> None:
    rows, columns = shape
    x, y = numbers(columns), numbers(rows)
    for k, on, off in (
        (0, 1.0, 0.0),
        (-1, -0.0, 0.0),
        (1, np.inf, -2.5),
        (columns - 1, 0.0, np.nan),
        (1 - rows, 2.0, 1.0),
    ):
        a = np.full(shape, off)
        a[np.eye(*shape, k, dtype=bool)] = on
        found = bands_of(a)
        assert list(found.on) == [k]
        assert np.array_equal((found.on[k], found.off), (on, off), equal_nan=True)
        a.setflags(write=False)
        same(lambda x, y, a=a: (a * x + y[:, None], a.T - x[:, None] * 2, a[:, ::-1] * x, np.stack([a, a * x])), x, y)


def test_what_is_cheap_is_computed_where_it_is_read() -> None:
    f = lambda x: np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)
    fast = da.jit(da.hessian(f))
    for n in (12, 33, 100):
        x = numbers(n)
        same(da.hessian(f), x)
        compiled = fast._specialised((x,), {}).program.compiled
        assert not any(f"({n}, {n - 1})" in g.about for g in compiled.groups)
        x[5] = np.inf
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(fast(x), da.hessian(f)(x))


def test_what_is_computed_of_a_part_does_not_go_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Conversions of a part were written in front of the loop that takes it, and read what was not there."""
    monkeypatch.setattr(passes, "_LARGE", 128)

    def f(x, y):
        z = x.copy() * 1.0
        z[1:3] = y[1:3]
        return z

    x = np.arange(3 * 400).reshape(400, 3)
    same(f, x, x[::-1].copy(), whole=False)


def test_an_array_of_one_entry_is_computed_in_the_loops_that_read_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passes, "_LARGE", 128)
    f = lambda x: np.concatenate([x[1:] * (x[:1] / 200), np.sin(x) + np.exp(x[-1:])])
    x = numbers(300)
    same(f, x, exact=False)
    assert da.jit(f)._specialised((x,), {}).program.compiled.calls == {"native": 1}


def test_what_is_small_between_loops_is_among_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passes, "_LARGE", 128)

    def f(x):
        scale = np.exp(-np.sum(np.reshape(x * x, (2, 200)), axis=1, keepdims=True) / 300)
        return np.reshape(x, (2, 200)) * (scale / 2 + 1)

    x = numbers(400)
    same(f, x, exact=False)
    assert da.jit(f)._specialised((x,), {}).program.compiled.calls == {"native": 1}
