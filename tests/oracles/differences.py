"""Central differences of sixth order along a direction: enough digits to tell a wrong derivative from rounding.

Smaller than `dualad.testing.differences`, which estimates errors and finds kinks for users' functions: operators'
samples lie inside the differentiable domain, and each order of derivative is compared with one difference of the
order below, so that rounding never accumulates. Not for: functions with kinks or noise.
"""

from __future__ import annotations

import numpy as np

from .arrays import leaves

__all__ = ["along", "compare"]

_WEIGHTS = {1: 45.0, 2: -9.0, 3: 1.0}


def along(f, args, tangents) -> tuple[list, float]:
    """Return d/dh f(args + h·tangents) at h = 0, a list of leaves, and the relative accuracy to expect of it."""
    single = any(
        np.asarray(x).dtype in (np.float32, np.complex64, np.float16) for x in (*leaves(args), *leaves(f(*args)))
    )
    h = 0.03 if single else 1e-3
    total = None
    for k, w in _WEIGHTS.items():
        for sign in (1, -1):
            moved = [a if t is None else np.asarray(a + (sign * k * h) * t, np.asarray(a).dtype)[()]
                     for a, t in zip(args, tangents, strict=True)]  # fmt: skip
            values = [np.asarray(v) for v in leaves(f(*moved))]
            terms = [sign * w * v.astype(np.complex128 if v.dtype.kind == "c" else np.float64)
                     if v.dtype.kind in "fc" else None for v in values]  # fmt: skip
            total = (
                terms if total is None else [None if a is None else a + b for a, b in zip(total, terms, strict=True)]
            )
    return [None if t is None else t / (60 * h) for t in total], (5e-3 if single else 2e-7)


def compare(found, difference: tuple[list, float], what: str) -> None:
    """Assert that a derivative (a tree) equals a difference, wherever the difference is a number."""
    expected, rtol = difference
    found = leaves(found)
    assert len(found) == len(expected), f"{what}: {len(found)} tangents for {len(expected)} results"
    for i, (a, b) in enumerate(zip(found, expected, strict=True)):
        if b is None:
            continue
        a = np.asarray(a)
        assert a.shape == b.shape, f"{what}: tangent {i} has shape {a.shape}, the value {b.shape}"
        finite = np.isfinite(b)
        scale = 1.0 + np.abs(b[finite]).max(initial=0.0)
        error = np.abs(a[finite] - b[finite]).max(initial=0.0)
        assert error <= rtol * scale, (
            f"{what}: off by {error:.2g} from central differences (limit {rtol * scale:.1g})\n"
            f"  found    {a[finite]}\n  expected {b[finite]}"
        )
