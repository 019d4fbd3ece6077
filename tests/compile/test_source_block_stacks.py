"""Library functions of stacks of matrices, shared out among threads: the bits are those of one call for the stack."""

from __future__ import annotations

import os

import numpy as np
import pytest

import dualad as da
from dualad.compile import source_block
from dualad.errors import ArgumentError

MATRICES = np.random.default_rng(1).normal(size=(97, 4, 4)) + 4 * np.eye(4)
SYMMETRIC = MATRICES + MATRICES.transpose(0, 2, 1) + 9 * np.eye(4)


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch: pytest.MonkeyPatch, numpy_backend: None):
    monkeypatch.setattr(source_block, "_STEP", 3)
    monkeypatch.setattr(source_block, "_ENTRIES", 0)
    before = da.threads()
    yield
    da.threads(before)


def eigenvalues(a):
    w, v = np.linalg.eigh(a)
    return w, np.abs(v) * w[:, None, :]


@pytest.mark.parametrize("f", [
    eigenvalues, np.linalg.inv, np.linalg.cholesky, lambda a: np.linalg.det(a) * 2.0,
    da.grad(lambda a: np.sum(np.linalg.inv(a) ** 2)), lambda a: da.jvp(eigenvalues, (a,), (a @ a,)),
])  # fmt: skip
def test_the_same_bits(f) -> None:
    expected = da.tree.flatten(da.jit(f)(SYMMETRIC[:63]))[0]  # a stack that is not worth it
    for a, b in zip(expected, da.tree.flatten(f(SYMMETRIC[:63]))[0], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-12)
    for count in (1, 2, 7):
        da.threads(count)
        for a, b in zip(expected, da.tree.flatten(da.jit(f)(SYMMETRIC))[0], strict=True):
            assert np.array_equal(a, b[:63]) and a.dtype == b.dtype


def test_results_are_memory_of_their_own() -> None:
    fast = da.jit(np.linalg.inv)
    first = fast(MATRICES)
    kept, second = first.copy(), fast(2 * MATRICES)
    assert np.array_equal(first, kept) and not np.shares_memory(first, second) and first.flags.writeable


def test_errors_of_a_part_arrive() -> None:
    da.threads(2)
    fast = da.jit(np.linalg.inv)
    fast(MATRICES)
    singular = MATRICES.copy()
    singular[50] = 0.0
    with pytest.raises(np.linalg.LinAlgError):
        fast(singular)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_process_has_threads_of_its_own() -> None:
    da.threads(2)
    fast = da.jit(np.linalg.inv)
    expected = fast(MATRICES)
    pid = os.fork()
    if not pid:
        os._exit(0 if np.array_equal(fast(MATRICES), expected) else 1)
    assert os.waitpid(pid, 0)[1] == 0


def test_threads_asks_for_a_number() -> None:
    with pytest.raises(ArgumentError):
        da.threads(0)
    with pytest.raises(ArgumentError):
        da.threads(True)
