"""Long Fourier transforms of compiled programs: SciPy's numbers are NumPy's to rounding, in every layout and norm."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dualad as da
from dualad.compile import fourier

pytest.importorskip("scipy", reason="long transforms are SciPy's where it is installed")

CASES: dict[str, tuple[Callable, tuple[int, ...]]] = {
    "real": (lambda x: np.fft.fft(x), (5000,)),
    "complex, back": (lambda x: np.fft.ifft(x * (1 + 2j), norm="ortho"), (4097,)),
    "cut columns": (lambda x: np.fft.fft(x, n=60, axis=0, norm="forward"), (90, 50)),
    "padded": (lambda x: np.fft.ifft(x, n=130), (64, 70)),
    "two axes, threads": (lambda x: np.fft.fft2(x), (256, 257)),
    "gradient": (da.grad(lambda x: np.sum(np.abs(np.fft.fft(x)) ** 2 * np.arange(4100.0))), (4100,)),
}


@pytest.mark.parametrize("name", CASES)
def test_transforms_are_numpys(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    f, shape = CASES[name]
    x, taken = np.random.default_rng(0).normal(size=shape), []
    real = fourier.transform

    def transform(op: Any, aval: Any) -> Callable | None:
        found = real(op, aval)
        taken.append(found)
        return found

    monkeypatch.setattr("dualad.compile.source_block.transform", transform)
    found, expected = da.jit(f)(x), f(x)
    assert any(taken) and found.dtype == expected.dtype and found.flags.writeable
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12 * np.max(np.abs(expected)))


def test_short_ones_are_numpys_own() -> None:
    x = np.random.default_rng(1).normal(size=4095)
    np.testing.assert_array_equal(da.jit(np.fft.fft)(x), np.fft.fft(x))
