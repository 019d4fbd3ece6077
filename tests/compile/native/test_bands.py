"""Constants that are one number but for a few diagonals: how they are found, and what is computed of them.

Everything is compared, bit for bit, with the same program in NumPy, and where all is finite, nearly, with the function
itself: off the diagonals, zeros keep the sign that their factors give them, and become NaN beside infinities. Not for:
the other loops (test_passes.py), or which zeros of a traced program win (tests/compose).
"""

from __future__ import annotations

import numpy as np
import pytest

import dualad as da
from dualad.compile.native import domains, passes
from dualad.compile.native.bands import bands_of
from dualad.errors import CompilerFaultWarning

pytestmark = pytest.mark.usefixtures("native_backend")

#: values whose products with zero are not all the same zero
ODD = np.array([np.inf, -np.inf, np.nan, -0.0, 0.0, 1e308, -1e-320])


@pytest.fixture(autouse=True)
def _small_is_large(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(passes, "_LARGE", 0)
    monkeypatch.setattr(passes, "_BLOCK", 64)
    monkeypatch.setattr(passes, "_SHARED", 300)
    monkeypatch.setattr(domains, "_WIDE", 4)
    monkeypatch.setattr(domains, "_STRAIGHT", 2)  # shorter rows without a loop, longer ones with one
    before = da.threads()
    yield
    da.threads(before)


def whole(found, shape: tuple[int, int]) -> np.ndarray:
    """Return a constant again from its diagonals."""
    a = np.full(shape, found.off)
    for k, on in found.on.items():
        for row in range(max(0, -k), min(shape[0], shape[1] - k)):
            a[row, row + k] = on[row] if isinstance(on, np.ndarray) else on
    return a


def same(f, *args, threads=(1, 3)) -> None:
    finite = all([np.isfinite(a).all() for a in args])
    with np.errstate(all="ignore"), pytest.MonkeyPatch.context() as patch:
        patch.setenv("DUALAD_NATIVE", "0")
        expected = da.tree.flatten(da.jit(f)(*args))[0]
        patch.undo()
        for a, b in zip(expected, da.tree.flatten(f(*args))[0] if finite else expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-11)  # reverse mode adds in another order
        for count in threads:
            da.threads(count)
            fast = da.jit(f)
            for a, b in zip(da.tree.flatten(fast(*args))[0], expected, strict=True):
                check(a, b)
            assert fast._specialised(args, {}).program.compiled.groups


def check(a: np.ndarray, b: np.ndarray) -> None:
    assert a.shape == b.shape and a.dtype == b.dtype
    assert np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
    assert a.dtype.kind != "f" or np.array_equal(np.signbit(a[a == a]), np.signbit(b[b == b]))


def point(r: np.random.Generator, n: int) -> np.ndarray:
    """Return numbers, half of the times with some odd ones among them."""
    x = r.normal(size=n)
    if r.random() < 0.5:
        x[r.integers(0, n, 3)] = r.choice(ODD, 3)
    return x


@pytest.mark.parametrize("shape", [(2, 2), (2, 7), (3, 3), (5, 4), (1, 4), (12, 9)])
def test_what_is_no_band_is_not_taken_for_one(shape: tuple[int, int]) -> None:
    rows, columns = shape
    for k in range(-rows, columns + 1):
        for place in range(rows * columns):
            a = np.eye(*shape, k)
            a.flat[place] = -0.0 if a.flat[place] == 0 else 0.5
            found = bands_of(a)
            if found:
                assert whole(found, shape).tobytes() == a.tobytes()


def random_band(r: np.random.Generator, shape: tuple[int, int], dtype: type) -> np.ndarray:
    """Return a constant of a few diagonals, with one number each, or several."""
    off = r.choice([0.0, 0.0, 0.0, -0.0, 2.0, np.inf, np.nan])
    a = np.full(shape, off, dtype)
    rows, columns = shape
    for k in r.integers(1 - rows, columns, r.integers(1, 4)):
        at = np.arange(max(0, -k), min(rows, columns - k))
        a[at, at + k] = r.normal(size=len(at)) if r.random() < 0.4 else r.choice([1.0, -0.0, -3.5, np.inf])
        if r.random() < 0.3:
            a[at[:2], at[:2] + k] = off
    a.setflags(write=False)
    return a


def check_band(seed: int) -> None:
    r = np.random.default_rng(seed)
    shape = tuple(int(n) for n in r.integers(4, 30, 2))
    dtype = r.choice([np.float64, np.float64, np.float32, np.bool_])
    a, b = random_band(r, shape, dtype), random_band(r, shape, np.float64)
    found = bands_of(a)
    assert found is None or whole(found, shape).tobytes() == a.tobytes()
    x, y = point(r, shape[1]), point(r, shape[0])
    if dtype == np.float32:
        with np.errstate(over="ignore"):
            x, y = x.astype(dtype), y.astype(dtype)

    def f(x, y):
        u = np.where(a, x, y[:, None]) if dtype == np.bool_ else a * x
        v = u + b * y[:, None]
        padded = np.pad(u * 3, ((1, 0), (0, 2)))
        return (
            u, v.T, v - u, u[:, ::-1] * 2, v[1:, :-1] * u[:-1, 1:], padded, padded.T * 2, u[::2] + 1, (u * v)[2],
            np.stack([u, u * v]), np.stack([v, -u], axis=2), np.concatenate([u, v - 1], axis=1), v.sum(1),
        )  # fmt: skip

    same(f, x, y, threads=(1 + 2 * (seed % 2),))


@pytest.mark.parametrize("seed", range(6))
def test_bands(seed: int) -> None:
    check_band(seed)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(6, 200))
def test_more_bands(seed: int) -> None:
    check_band(seed)


def stencil(r: np.random.Generator):
    """Return a random function of an array whose entries depend on their neighbours."""
    terms = []
    for _ in range(r.integers(1, 4)):
        kind, by = r.choice(["roll", "join", "pad", "slice", "flip"], p=[0.25, 0.3, 0.2, 0.15, 0.1]), r.integers(1, 3)
        terms.append((kind, int(by), r.choice(["", "u", "square", "part"]), float(r.choice([1.0, -0.5, 100.0, 0.0]))))

    def f(u):
        total = 0.25 * u * u
        for kind, by, times, factor in terms:
            if kind == "roll":
                v = np.concatenate([u[-by:], u[:-by]])
            elif kind == "join":
                v = np.concatenate([u[by:], u[:by] * 0 + 1])
            elif kind == "pad":
                v = np.pad(u[:-by], (by, 0))
            elif kind == "slice":
                v = np.pad(u[by:] - u[:-by], (by // 2, by - by // 2))
            else:
                v = u[::-1]
            w = {"": v, "u": v * u, "square": v * v, "part": v / (1 + u * u)}[times]
            total = total + factor * w
        return total

    return f


def check_stencil(seed: int) -> None:
    r = np.random.default_rng(seed)
    f, x = stencil(r), point(r, int(r.integers(4, 40)))
    g = lambda u: np.sum(f(u) ** 2) if seed % 2 else np.sum(f(u) * u)
    same(da.jacfwd(f), x, threads=(1 + 2 * (seed % 2),))
    same(da.jacrev(f), x, threads=(1 + 2 * (seed % 2),))
    same(da.hessian(g), x, threads=(1 + 2 * (seed % 2),))


@pytest.mark.parametrize("seed", range(4))
def test_stencils(seed: int) -> None:
    check_stencil(seed)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(4, 100))
def test_more_stencils(seed: int) -> None:
    check_stencil(seed)


def test_one_number_a_row_and_the_diagonals() -> None:
    def f(u):
        right, left = np.concatenate([u[1:], u[:1]]), np.concatenate([u[-1:], u[:-1]])
        return (right - 2.0 * u + left) - u * (right - left)

    x = np.random.default_rng(0).normal(size=40)
    for transform in (da.jacfwd, da.jacrev):
        *_, group = da.jit(transform(f))._specialised((x,), {}).program.compiled.groups
        assert group.bands and group.about.count("(40, 40)") == 1
        same(transform(f), x)
        same(transform(f), np.where(x > 1, np.inf, x))


def test_a_diagonal_that_is_not_written_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(1).normal(size=30)
    f = da.jacfwd(lambda u: u * u + np.concatenate([u[1:], u[:1]]))
    same(f, x)
    monkeypatch.setattr(domains.Part, "diagonal", lambda self, apart: None)
    with pytest.raises((AssertionError, CompilerFaultWarning)):
        same(f, x)


def test_what_is_off_the_diagonals_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Were all zeros alike, that would be seen."""
    x = np.random.default_rng(2).normal(size=30)
    f = lambda x: np.eye(30) * x[:, None] / 3
    same(f, x)
    entries = domains.Part.entries

    def all_alike(self, writer, *homes):
        return [[("0.0", 1) if writer.off and x[1] == 1 else x for x in some] for some in entries(self, writer, *homes)]

    monkeypatch.setattr(domains.Part, "entries", all_alike)
    with pytest.raises((AssertionError, CompilerFaultWarning)):
        same(f, x)
