"""Convolution in several dimensions and recursive filters, by SciPy.

Loaded with ``dualad.scipy.signal``, for SciPy is optional. Not for: convolution along one axis (``scans.convolve``),
or SciPy's signatures (``dualad/scipy/signal.py``).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
import scipy.signal as sg

from ..core.aval import Array, Aval, result_dtype
from .factorization import floating, over_stack
from .kinds import add_tangents, align_ranks, bilinear, solution
from .samples import between, complex_plane
from .scans import transpose_convolution

__all__ = ["all_pole", "convolve_nd"]


# ── convolution ──────────────────────────────────────────────────────────────────────────────────────────────────
#
# The last ``ndim`` axes are convolved, those before them broadcast: out[k] = Σ x[i] y[k−i] over all k ("full"), or over
# those where y lies inside x ("valid"; no axis of y is longer than that of x). Σₖ c[k] y[k−i] is the convolution of c
# with y reversed, so "full" transposes to "valid", and "valid" to "full" in x and to "valid" in y.


def _convolve(x, y, *, mode, method, ndim):
    core = _core(x.shape[-ndim:], y.shape[-ndim:], mode)
    return over_stack(lambda x, y: sg.convolve(x, y, mode, method), (x, y), core, np.result_type(x, y), ndim)


def _core(x: tuple[int, ...], y: tuple[int, ...], mode: str) -> tuple[int, ...]:
    return tuple([n + m - 1 if mode == "full" else n - m + 1 for n, m in zip(x, y, strict=True)])


def _convolve_shape(x, y, *, mode, method, ndim) -> Aval:
    inner, outer = x.shape[-ndim:], y.shape[-ndim:]
    if not all(inner + outer):
        raise ValueError("an array with an axis of length 0 can't be convolved")
    if mode == "valid" and any(n < m for n, m in zip(inner, outer, strict=True)):
        raise ValueError(f"mode 'valid': {outer} is not inside {inner}")
    stack = np.broadcast_shapes(x.shape[:-ndim], y.shape[:-ndim])
    return Aval((*stack, *_core(inner, outer, mode)), result_dtype(x, y))


def _convolve_transpose(ct: Array, x: Array, y: Array, *, mode: str, method, ndim: int) -> tuple:
    run = functools.partial(convolve_nd, method=method, ndim=ndim)
    return transpose_convolution(ct, x, y, mode, run, lambda v: np.flip(v, tuple(range(v.ndim - ndim, v.ndim))))


def _convolve_batch(size: int, values: Sequence, mapped: Sequence[bool], *, mode: str, method, ndim: int) -> Array:
    ranks = [np.ndim(v) - m for v, m in zip(values, mapped, strict=True)]
    if size and max(ranks) == ndim and not all(mapped) and (mapped[0] or mode == "full"):
        # The axis of lanes, convolved with one of length one, stays as it is: one more dimension, no loop.
        x, y = [v if m else v.reshape((1, *v.shape)) for v, m in zip(values, mapped, strict=True)]
        return convolve_nd(x, y, mode=mode, method=method, ndim=ndim + 1)
    values = [align_ranks(v, max(ranks)) if m else v for v, m in zip(values, mapped, strict=True)]
    return convolve_nd(*values, mode=mode, method=method, ndim=ndim)


def _way(mode: str, ndim: int, method: str = "direct") -> dict:
    return {"mode": mode, "method": method, "ndim": ndim}


convolve_nd = bilinear(
    "convolve_nd",
    impl=_convolve,
    abstract_eval=_convolve_shape,
    transpose=_convolve_transpose,
    batch=_convolve_batch,
    samples=[
        ((4,), (3,), _way("full", 1)), ((3, 4), (2, 2), _way("full", 2)), ((3, 4), (2, 3), _way("valid", 2)),
        ((3, 4), (2, 3), _way("valid", 2, "fft")), ((2, 3), (3, 2), _way("full", 2, "fft")),
        ((1, 1), (1, 1), _way("valid", 2)), ((2, 1, 4), (3, 2), _way("full", 1)),
        ((2, 3, 3), (2, 2, 2), _way("valid", 2)),
        ((0, 3), (2,), _way("full", 1)), (complex_plane()(4), complex_plane()(2), _way("full", 1)),
        (complex_plane()(3, 3), (2, 2), _way("valid", 2, "fft")),
    ],
    blocks="one",
)  # fmt: skip


# ── the recursive half of a filter ───────────────────────────────────────────────────────────────────────────────
#
# y[n] = x[n] − Σ aₖ y[n−k], 1 ≤ k ≤ m, along the last axis, at rest before the first entry; a = (a₁, …, aₘ). Linear
# in x, with a lower triangular Toeplitz matrix: its transpose is the same filter run from the end. In a:
#
#     ∂y[n] = ∂x[n] − Σ ∂aₖ y[n−k] − Σ aₖ ∂y[n−k],    the same filter of ∂x[n] − Σ ∂aₖ y[n−k].


def _all_pole(a, x):
    dtype = floating(np.result_type(a, x))
    one, unit = np.ones(1, dtype), np.ones((*a.shape[:-1], 1), dtype)
    factors, x = np.concatenate([unit, a], -1).astype(dtype, copy=False), x.astype(dtype, copy=False)
    if a.ndim == 1 and x.size:
        return sg.lfilter(one, factors, x)
    return over_stack(lambda a, x: sg.lfilter(one, a, x), (factors, x), x.shape[-1:], dtype, 1)


def _all_pole_shape(a: Aval, x: Aval) -> Aval:
    stack = np.broadcast_shapes(a.shape[:-1], x.shape[:-1])
    return Aval((*stack, x.shape[-1]), floating(result_dtype(a, x)))


def _delay(a, y):
    """Return Σ aₖ y[n−k]."""
    n = y.shape[-1]
    total = None
    for k in range(1, min(a.shape[-1], n - 1) + 1):
        zeros = np.zeros((*y.shape[:-1], k), y.dtype)
        total = add_tangents(total, a[..., k - 1 : k] * np.concatenate([zeros, y[..., : n - k]], -1))
    return np.zeros(y.shape, y.dtype) if total is None else total


_stable = between(-0.4, 0.4)

all_pole = solution(
    "all_pole",
    _delay,
    impl=_all_pole,
    abstract_eval=_all_pole_shape,
    back=lambda ct, a: np.flip(all_pole(a, np.flip(ct, -1)), -1),
    samples=[
        (_stable(2), (5,)), (_stable(2), (2, 4)), (_stable(3), (1,)), (_stable(2, 1), (2, 4)), (_stable(0), (3,)),
        (_stable(2), (0, 3)), (_stable(1), (2, 0)), (_stable(2), complex_plane()(4)),
        (complex_plane(_stable)(1), (3,)),
    ],
    blocks="one",
)  # fmt: skip
