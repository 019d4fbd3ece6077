"""Blocks: large elementwise groups give the bits of the equations one by one, with any number of threads."""

from __future__ import annotations

import os

import numpy as np
import pytest

import dualad as da
from dualad.compile import blocks
from dualad.errors import ArgumentError


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch, numpy_backend: None):
    monkeypatch.setattr(blocks, "LARGE", 64)
    monkeypatch.setattr(blocks, "BLOCK", 16)
    before = da.threads()
    yield
    da.threads(before)


def flat(x, y):
    z = np.sin(x) * y + 2.0
    w = np.where(z > 2, z / (1 + y * y), np.sqrt(np.abs(x)))
    return w, np.sum(w * z), z - x


def rows(x, y):
    b = y[:, :1] * x - np.mean(x, 0)
    return np.exp(-b * b) * np.arange(x.shape[1]) + 1, b.astype(np.float32) * np.float32(2)


@pytest.mark.parametrize(
    "f", [flat, rows, da.grad(lambda x, y: flat(x, y)[1]), lambda x, y: da.jvp(flat, (x, y), (y, x))]
)
@pytest.mark.parametrize("shape", [(13, 7), (64, 3), (500, 2), (1, 65), (97, 1)])
def test_the_same_bits(f, shape) -> None:
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(2, *shape))
    expected = da.tree.flatten(f(x, y))[0]
    for count in (1, 2, 7):
        da.threads(count)
        fast = da.jit(f)
        for args in ((x, y), (np.asfortranarray(x), y[::-1][::-1])):
            for a, b in zip(da.tree.flatten(fast(*args))[0], expected, strict=True):
                assert a.dtype == b.dtype
                np.testing.assert_allclose(a, b, rtol=1e-13 if a.dtype == float else 1e-6)
        first = da.tree.flatten(da.jit(f)(x, y))[0]
        if count == 1:
            reference = first
        assert all(np.array_equal(a, b) for a, b in zip(first, reference, strict=True))
    assert any("blocks" in k for k in da.jit(f).lower(x, y).kernels.splitlines())


def test_a_region_reads_and_writes_what_it_says() -> None:
    f = lambda x: (np.sin(x) + x, np.cumsum(np.sin(x) * 2))
    x = np.linspace(0, 1, 100)
    for a, b in zip(da.jit(f)(x), f(x), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-15)


def test_strong_zeros_in_blocks() -> None:
    f = da.grad(lambda x: np.sum(np.where(x > 0, np.sqrt(x), 0.0) * 2.0))
    x = np.linspace(-1, 1, 201)
    x[100] = 0.0
    with np.errstate(all="ignore"):
        assert np.array_equal(da.jit(f)(x), f(x), equal_nan=True)


def test_errors_of_a_block_arrive(monkeypatch: pytest.MonkeyPatch) -> None:
    da.threads(2)
    fast = da.jit(lambda x: np.sin(x) * 2 + x)
    x = np.linspace(0, 1, 500)
    fast(x)
    region = fast._found[next(iter(fast._found))][0].program.compiled.regions[0]

    def fails(*args):
        raise KeyError("in a block")

    region.plan[0] = (fails, *region.plan[0][1:])
    with pytest.raises(KeyError):
        fast(x)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_process_has_threads_of_its_own() -> None:
    da.threads(2)
    fast = da.jit(lambda x: np.sin(x) * 2 + x)
    x = np.linspace(0, 1, 500)
    expected = fast(x)
    pid = os.fork()
    if not pid:
        os._exit(0 if np.array_equal(fast(x), expected) else 1)
    assert os.waitpid(pid, 0)[1] == 0


def test_threads_asks_for_a_number() -> None:
    with pytest.raises(ArgumentError):
        da.threads(0)
    with pytest.raises(ArgumentError):
        da.threads(True)
