"""Scans: running sums, products and extrema along an axis, the recurrence their rules are made of, convolution.

Every scan has a ``reverse``, which runs from the end: with it each is closed under transposition.
Not for: differences (composed in ``surface/composites.py``) or totals (``reductions.py``).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np

from ..core.aval import Array, Aval, broadcast_shapes, result_dtype
from ..core.constants import match_library
from ..core.dispatch import bind
from ..core.primitive import Primitive
from ..core.tracer import PLAIN
from .choice import where
from .kinds import add_tangents, along_axis, batch_elementwise, bilinear, linear, strong_product, unbroadcast
from .samples import complex_plane

__all__ = [
    "convolve", "cumlogaddexp", "cummax", "cummin", "cumprod", "cumsum", "equal_or_both_nan", "exclusive_cumprod",
    "recurrence", "shift", "total_dtype", "transpose_convolution",
]  # fmt: skip

_WIDE = {"b": np.dtype(np.int64), "i": np.dtype(np.int64), "u": np.dtype(np.uint64)}

_SCANNED = [
    ((4,), {"axis": 0}),
    ((2, 3), {"axis": 1}),
    ((3, 2), {"axis": 0, "reverse": True}),
    ((1, 3), {"axis": 0}),
    ((0, 2), {"axis": 0}),
    ((2, 0), {"axis": 0}),
]
_COMPLEX = (complex_plane()(2, 3), {"axis": 1})


def total_dtype(dtype: np.dtype) -> np.dtype:
    """Return the dtype NumPy adds and multiplies in: integers are widened, everything else stays."""
    return _WIDE.get(dtype.kind, dtype)


def equal_or_both_nan(x, y):
    """Say where two arrays have the same entry, a NaN being the same as a NaN."""
    return (x == y) | ((x != x) & (y != y))


def _run_recurrence(step: Callable, block: Callable, axis: int, x, *more):
    """Run a recurrence sₖ = step(sₖ₋₁, …, xₖ) from s₀ = x₀, along an axis of arrays of another library.

    They know no ufunc's ``accumulate``; all are of one shape.

    An array in blocks is run block by block, each of them by NumPy: ``block(x, *more, before)`` is given the entries
    of a block, with the axis first, and the last result before it (none, for the first block). Others go step by step.
    """
    moved = [np.moveaxis(a, axis, 0) for a in (x, *more)]
    n = moved[0].shape[0]
    if not n:
        return x
    if not hasattr(x, "map_blocks"):
        rows = [moved[0][0]]
        for k in range(1, n):
            rows.append(step(rows[-1], *[a[k] for a in moved[1:]], moved[0][k]))
        return np.moveaxis(np.stack(rows), 0, axis)
    first, *rest = moved
    rest = [a.rechunk(first.chunks) for a in rest]
    ends = list(itertools.accumulate(first.chunks[0]))
    done, before = [], first[:0]
    for start, stop in zip([0, *ends], ends, strict=False):
        parts = [a[start:stop] for a in (first, *rest)]
        done.append(parts[0].map_blocks(block, *parts[1:], before, dtype=first.dtype))
        before = done[-1][-1:]
    return np.moveaxis(np.concatenate(done, axis=0), 0, axis)


def _running(ufunc, function=None):
    """Make the running form of a ufunc; ``function`` is NumPy's for it, which other libraries may know."""

    def step(x, before):
        return ufunc.accumulate(np.concatenate([before, x]))[len(before) :]

    def run(x, axis):
        if type(x) in PLAIN:
            return ufunc.accumulate(x, axis)
        return _run_recurrence(ufunc, step, axis, x) if function is None else function(x, axis=axis)

    def impl(x, *, axis, reverse=False):
        if not reverse:
            return run(x, axis)
        from_end = (slice(None),) * axis + (slice(None, None, -1),)
        return run(x[from_end], axis)[from_end]

    return impl


# ── shift ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _shift_impl(x, *, axis, reverse=False):
    before, after = (slice(None),) * axis + (slice(None, -1),), (slice(None),) * axis + (slice(1, None),)
    if type(x) not in PLAIN:  # many libraries have no writes
        zero = np.zeros_like(x[(slice(None),) * axis + (slice(1),)])
        return np.concatenate([x[after], zero] if reverse else [zero, x[before]], axis=axis)
    out = np.zeros_like(x)
    if reverse:
        out[before] = x[after]
    else:
        out[after] = x[before]
    return out


# One step along an axis, a zero moving in: yₖ = xₖ₋₁ (with reverse yₖ = xₖ₊₁, the transpose).
shift = linear(
    "shift",
    impl=_shift_impl,
    abstract_eval=lambda x, *, axis, reverse=False: x,
    transpose=lambda ct, x, *, axis, reverse=False: (shift(ct, axis=axis, reverse=not reverse),),
    samples=[*_SCANNED, _COMPLEX],
    moves=True,
)


def _first(shape: tuple[int, ...], axis: int, reverse: bool) -> np.ndarray:
    """Return a mask of the entries a scan starts with, in a shape that broadcasts."""
    mask = np.zeros(shape[axis], bool)
    mask[-1:] = reverse
    mask[:1] |= not reverse
    return mask.reshape((-1,) + (1,) * (len(shape) - axis - 1))


# ── sums ─────────────────────────────────────────────────────────────────────────────────────────────────────────

cumsum = linear(
    "cumsum",
    impl=_running(np.add, np.cumsum),
    abstract_eval=lambda x, *, axis, reverse=False: Aval(x.shape, total_dtype(x.dtype)),
    transpose=lambda ct, x, *, axis, reverse=False: (cumsum(ct, axis=axis, reverse=not reverse),),
    samples=[*_SCANNED, _COMPLEX],
)


# ── the linear recurrence ────────────────────────────────────────────────────────────────────────────────────────
#
# sₖ = aₖ sₖ₋₁ + bₖ, and with reverse sₖ = aₖ₊₁ sₖ₊₁ + bₖ. The matrix of the one in b is the transpose of the other's:
# ∂sₖ/∂bᵢ = aᵢ₊₁⋯aₖ for i ≤ k. In a: ∂s is the same recurrence of ∂aₖ sₖ₋₁ (of ∂aₖ₊₁ sₖ₊₁). So it is closed under
# differentiation, and it never divides: factors may be zero.


def _recurrence_impl(a, b, *, axis, reverse=False):
    dtype = np.result_type(a.dtype, b.dtype)
    shape = np.broadcast_shapes(a.shape, b.shape)
    if type(a) not in PLAIN or type(b) not in PLAIN:
        return _recurrence_elsewhere(np.broadcast_to(a, shape), np.broadcast_to(b, shape).astype(dtype), axis, reverse)
    factors = np.moveaxis(np.broadcast_to(a, shape), axis, 0)
    terms = np.moveaxis(np.broadcast_to(b, shape), axis, 0)
    factors, terms = (factors[:0:-1], terms[::-1]) if reverse else (factors[1:], terms)
    out = _recur(factors, terms, dtype)
    return np.ascontiguousarray(np.moveaxis(out[::-1] if reverse else out, 0, axis))


def _recurrence_elsewhere(a, b, axis: int, reverse: bool):
    from_end = (slice(None),) * axis + (slice(None, None, -1),)
    if reverse:  # the factor of a step back is that of the entry after: shift it in
        a, b = _shift_impl(a[from_end], axis=axis), b[from_end]
    out = _run_recurrence(lambda s, factor, term: factor * s + term, _recurrence_after, axis, b, a)
    return out[from_end] if reverse else out


def _recurrence_after(term, factor, before):
    """Run a block of the recurrence along its first axis, after the one that ended with ``before``."""
    if not len(before):
        return _recur(factor[1:], term, term.dtype)
    return _recur(factor, np.concatenate([before, term]), term.dtype)[1:]


#: from this length on a recurrence of so few numbers side by side is run in blocks
_LONG, _FEW = 128, 2048


def _recur(factors: np.ndarray, terms: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Run the recurrence along the first axis: of ``n`` terms and the ``n − 1`` factors between them."""
    size = math.prod(terms.shape[1:])
    if dtype.kind in "fc" and size and len(terms) >= _LONG and size < _FEW:
        out = _in_blocks(factors.reshape(-1, size), terms.reshape(-1, size), dtype)
        if out is not None:
            return out.reshape(terms.shape)
    if size == 1 and dtype.kind in "fc":
        return _chain(factors.ravel().tolist(), terms.ravel().tolist(), dtype).reshape(terms.shape)
    out = np.array(terms, dtype)
    for k, factor in enumerate(factors):
        out[k + 1] += factor * out[k]
    return out


def _chain(factors: list, terms: list, dtype: np.dtype) -> np.ndarray:
    """Run one recurrence in Python numbers, which are faster than NumPy's one at a time."""
    out = terms[:1]
    for factor, term in zip(factors, terms[1:], strict=True):
        out.append(factor * out[-1] + term)
    return np.array(out, dtype)


def _in_blocks(factors: np.ndarray, terms: np.ndarray, dtype: np.dtype) -> np.ndarray | None:
    """Run √n blocks of √n steps side by side, then carry each block's end into the next: 2√n steps instead of n.

    With p the product of a block's factors up to k and c the end of the block before, sₖ is what the block alone gives,
    plus p c. None where that is not the number that a step after the other gives: where p overflows, or
    underflows against a large c.
    """
    n, size = terms.shape
    length = math.isqrt(n)
    count = -(-n // length)
    a, s = np.ones((count * length, size), dtype), np.zeros((count * length, size), dtype)
    a[1:n], s[:n] = factors, terms
    # The step inside a block first, so that each step runs over adjacent numbers.
    a, s = (np.ascontiguousarray(x.reshape(count, length, size).swapaxes(0, 1)) for x in (a, s))
    p = a.copy()
    with np.errstate(all="ignore"):
        for k in range(1, length):
            s[k] += a[k] * s[k - 1]
            p[k] *= p[k - 1]
        ends = _recur(p[-1, 1:], s[-1], dtype)
        largest = np.abs(ends).max()
        if not np.isfinite(p).all() or not np.isfinite(largest):
            return None
        limits = np.finfo(dtype)
        lost = (np.abs(p) < limits.tiny) & ~np.logical_or.accumulate(a == 0) if largest * limits.eps > 1 else False
        if np.any(lost):
            return None
        s[:, 1:] += p[:, 1:] * ends[:-1]
    return s.swapaxes(0, 1).reshape(-1, size)[:n]


def _recurrence_jvp(primals: Sequence, tangents: Sequence, *, axis: int, reverse: bool = False) -> tuple:
    a, b = primals
    ta, tb = tangents
    params = {"axis": axis, "reverse": reverse}
    out = bind(recurrence, (a, b), params)
    if ta is not None:
        ta = shift(ta * out, axis=axis, reverse=True) if reverse else ta * shift(out, axis=axis)
    return out, bind(recurrence, (a, add_tangents(ta, tb)), params)


recurrence = along_axis(
    "recurrence",
    impl=_recurrence_impl,
    abstract_eval=lambda a, b, *, axis, reverse=False: Aval(broadcast_shapes(a, b), result_dtype(a, b)),
    jvp=_recurrence_jvp,
    linear_in=(1,),
    transpose=lambda ct, a, b, *, axis, reverse=False: (
        None,
        unbroadcast(recurrence(a, ct, axis=axis, reverse=not reverse), b),
    ),
    samples=[(args[0], *args) for args in [*_SCANNED, _COMPLEX]],
    kind="recurrence",
)


# ── products ─────────────────────────────────────────────────────────────────────────────────────────────────────
#
# yₖ = xₖ yₖ₋₁, so ∂yₖ = xₖ ∂yₖ₋₁ + yₖ₋₁ tₖ: the recurrence of the terms tₖ yₖ₋₁.


def _exclusive(y, axis: int, reverse: bool):
    """Shift a running product, an empty product (one) moving in."""
    return shift(y, axis=axis, reverse=reverse) + match_library(_first(y.shape, axis, reverse).astype(y.dtype), y)


def exclusive_cumprod(x, axis: int, reverse: bool):
    """Return the product of all entries before each one (``reverse``: after each one)."""
    return _exclusive(cumprod(x, axis=axis, reverse=reverse), axis, reverse)


def _cumprod_jvp(primals: Sequence, tangents: Sequence, *, axis: int, reverse: bool = False) -> tuple:
    x, t = primals[0], tangents[0]
    out = cumprod(x, axis=axis, reverse=reverse)
    terms = strong_product(t, _exclusive(out, axis, reverse))
    if not reverse:
        return out, recurrence(x, terms, axis=axis)
    # From the end yₖ = xₖ yₖ₊₁, while the reversed recurrence multiplies by the factor of the entry after: shift it in.
    return out, recurrence(shift(x, axis=axis), terms, axis=axis, reverse=True)


cumprod = along_axis(
    "cumprod",
    impl=_running(np.multiply, np.cumprod),
    abstract_eval=lambda x, *, axis, reverse=False: Aval(x.shape, total_dtype(x.dtype)),
    jvp=_cumprod_jvp,
    samples=[*_SCANNED, _COMPLEX, (np.array([2.0, 0.0, 3.0, 0.0, 1.5]), {"axis": 0})],
    kind="scan",
)


# ── extrema ──────────────────────────────────────────────────────────────────────────────────────────────────────
#
# The tangent of yₖ is the mean of those of the entries up to k that equal it, as for max: an even split at ties. A
# running extremum restarts wherever yₖ ≠ yₖ₋₁, so sums and counts since then are recurrences with factors 0 and 1.


def _running_extremum(name: str, ufunc: np.ufunc) -> Primitive:
    def jvp(primals: Sequence, tangents: Sequence, *, axis: int) -> tuple:
        x, t = primals[0], tangents[0]
        out = op(x, axis=axis)
        tied = equal_or_both_nan(x, out)
        goes_on = equal_or_both_nan(out, shift(out, axis=axis)).astype(out.dtype)
        count = recurrence(goes_on, tied.astype(out.dtype), axis=axis)
        return out, recurrence(goes_on, where(tied, t, 0), axis=axis) / count

    op = along_axis(
        name,
        impl=_running(ufunc),
        abstract_eval=lambda x, *, axis: x,
        jvp=jvp,
        samples=[(shape, {"axis": params["axis"]}) for shape, params in _SCANNED],
        kind="scan",
    )
    return op


cummax = _running_extremum("cummax", np.maximum)
cummin = _running_extremum("cummin", np.minimum)


# ── logaddexp ────────────────────────────────────────────────────────────────────────────────────────────────────
#
# yₖ = log(exp yₖ₋₁ + exp xₖ): ∂yₖ = exp(yₖ₋₁ − yₖ) ∂yₖ₋₁ + exp(xₖ − yₖ) tₖ, and ∂y₀ = t₀. Where yₖ₋₁ = xₖ = yₖ (both
# infinite, or so large that log 2 is lost) each has half.


def _ratio(x, y):
    """Return exp(x − y), one where they are equal, be they infinite."""
    same = x == y
    return np.exp(where(same, 0, x) - where(same, 0, y))


def _cumlogaddexp_jvp(primals: Sequence, tangents: Sequence, *, axis: int) -> tuple:
    x, t = primals[0], tangents[0]
    out = cumlogaddexp(x, axis=axis)
    first = match_library(_first(out.shape, axis, False), out)
    before = where(first, out, shift(out, axis=axis))
    both = (x == out) & (before == out) & ~first
    goes_on = where(both, 0.5, _ratio(before, out))
    enters = where(both, 0.5, _ratio(x, out))
    return out, recurrence(goes_on.astype(out.dtype), t * enters.astype(out.dtype), axis=axis)


cumlogaddexp = along_axis(
    "cumlogaddexp",
    impl=_running(np.logaddexp),
    abstract_eval=lambda x, *, axis: x,
    jvp=_cumlogaddexp_jvp,
    samples=[(shape, {"axis": params["axis"]}) for shape, params in _SCANNED],
    kind="scan",
)


# ── convolution ──────────────────────────────────────────────────────────────────────────────────────────────────
#
# yₖ = Σ aᵢ vₖ₋ᵢ along the last axis, over all k ("full") or those where the shorter v lies inside a ("valid").
# Σₖ cₖ vₖ₋ᵢ is the convolution of c with v reversed: "full" transposes to "valid", and "valid" to "full" in the longer
# argument and to "valid" in the shorter one.


def _convolve_impl(a, v, *, mode):
    if a.ndim == v.ndim == 1:
        return np.convolve(a, v, mode)
    if a.shape[-1] < v.shape[-1]:
        a, v = v, a
    margin = v.shape[-1] - 1
    if mode == "full":
        a = np.pad(a, [(0, 0)] * (a.ndim - 1) + [(margin, margin)])
    windows = np.lib.stride_tricks.sliding_window_view(a, margin + 1, -1)
    return np.matmul(windows, v[..., ::-1, None])[..., 0]


def _convolve_shape(a, v, *, mode):
    n, m = a.shape[-1], v.shape[-1]
    if not n or not m:
        raise ValueError("convolve: an array of length 0 can't be convolved")
    lanes = np.broadcast_shapes(a.shape[:-1], v.shape[:-1])
    return Aval((*lanes, n + m - 1 if mode == "full" else n - m + 1), result_dtype(a, v))


def transpose_convolution(ct: Array, a: Array, v: Array, mode: str, convolve: Callable, reverse: Callable) -> tuple:
    """Transpose an operator ``convolve(a, v, mode=mode)``."""
    if type(a) is Aval:
        return unbroadcast(convolve(ct, reverse(v), mode="valid" if mode == "full" else "full"), a), None
    left, right = (ct, reverse(a)) if mode == "full" else (reverse(a), ct)
    return None, unbroadcast(convolve(left, right, mode="valid"), v)


convolve = bilinear(
    "convolve",
    impl=_convolve_impl,
    abstract_eval=_convolve_shape,
    transpose=lambda ct, a, v, *, mode: transpose_convolution(ct, a, v, mode, convolve, lambda x: x[..., ::-1]),
    batch=batch_elementwise(lambda a, v, mode: convolve(a, v, mode=mode)),
    samples=[
        ((4,), (3,), {"mode": "full"}),
        ((2,), (5,), {"mode": "full"}),
        ((5,), (3,), {"mode": "valid"}),
        ((2, 1, 4), (3, 4), {"mode": "valid"}),
        ((3,), (2, 2), {"mode": "full"}),
        (complex_plane()(4), complex_plane()(2), {"mode": "full"}),
        ((1,), (1,), {"mode": "valid"}),
    ],
    blocks="one",
)
