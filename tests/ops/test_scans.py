"""Long recurrences, which run in blocks: the numbers are those of a step after the other, or the steps are taken.

Not for: the rules of scans, which are tested from the registry.
"""

from __future__ import annotations

import numpy as np
import pytest

import dualad as da
from dualad.ops import scans


def one_by_one(factors, terms):
    out = np.array(terms)
    with np.errstate(all="ignore"):
        for k in range(1, len(out)):
            out[k] = factors[k] * out[k - 1] + out[k]
    return out


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.complex128])
@pytest.mark.parametrize("shape", [(128,), (401,), (290, 3)])
@pytest.mark.parametrize("reverse", [False, True])
def test_blocks_give_what_steps_give(dtype, shape, reverse, rng) -> None:
    a, b = (rng.uniform(-1.1, 1.1, shape).astype(dtype) for _ in range(2))
    a[7::50] = 0
    found = scans.recurrence(a, b, axis=0, reverse=reverse)
    expected = one_by_one(np.roll(a[::-1], 1, axis=0), b[::-1])[::-1] if reverse else one_by_one(a, b)
    assert found.dtype == dtype and found.shape == shape
    np.testing.assert_allclose(found, expected, rtol=1e-4 if dtype == np.float32 else 1e-12, atol=1e-6)


@pytest.mark.parametrize(
    ("factor", "first"),
    [(3.0, 1e-300), (3.0, 0.0), (0.1, 1e300), (0.1, 1.0), (np.inf, 0.0), (np.nan, 1.0), (1.0, np.inf), (-1.0, 1e308)],
)
def test_products_that_leave_the_range(factor, first) -> None:
    """Where a block's product over- or underflows, the result is that of the steps: no NaN that they do not have."""
    a, b = np.full(700, factor), np.zeros(700)
    b[0], a[650] = first, 0.0
    found = scans.recurrence(a, b, axis=0)
    np.testing.assert_allclose(found, one_by_one(a, b), rtol=1e-10, atol=1e-290)


def test_running_products_and_extrema_of_long_arrays(rng) -> None:
    x = 1 + 0.1 * rng.normal(size=300)
    x[120] = 0.0
    t = rng.normal(size=300)
    before = np.concatenate([[1.0], np.cumprod(x)[:-1]])
    expected = one_by_one(x, t * before)
    np.testing.assert_allclose(da.jvp(np.cumprod, (x,), (t,))[1], expected, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(
        da.jvp(np.maximum.accumulate, (x,), (t,))[1],
        t[np.maximum.accumulate(np.where(x == np.maximum.accumulate(x), np.arange(300), 0))],
        rtol=1e-12,
    )
