"""Streams: the coefficients of a power series, each computed when it is first asked for.

For: keeping coefficients (in one block where they are plain arrays), the product of two streams, the derivative of one.
Not for: which stream an operator makes of others (``rules.py``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.aval import aval_of
from ..core.tracer import PLAIN
from ..ops.kinds import is_finite, times

__all__ = ["Stream", "convolve", "derivative", "overlap"]


class Stream:
    """A power series in one variable: the coefficients known so far, and a way to the next.

    ``more(k, out)`` computes the coefficient of order k from those below; ``None`` stands for an exact zero. It may
    write into ``out``, if that is an array, and return it. ``last`` is the order behind which all coefficients are
    exactly zero, as far as is known; ``degree`` the order, in the variable of the whole, of the coefficient 0: 1 of
    the part linear in a derivative. ``plain`` says that all coefficients are plain arrays, as that of a plain constant
    is: they then lie in one block, along its leading axis; ``block`` has them where all of them are known. ``pick`` is
    done to each coefficient (sums over directions, where they are collapsed).
    """

    __slots__ = ("_block", "coefs", "degree", "dtype", "fleeting", "last", "more", "pick", "plain", "prime", "shape")

    def __init__(
        self, first: Any, more: Callable[[int, Any], Any] | None, last: int, *, plain: bool = False,
        block: np.ndarray | None = None, degree: int = 0, pick: Any = None,
    ) -> None:  # fmt: skip
        if pick is not None:
            first = pick(first, degree)
        self.coefs = [first] if block is None else list(block)
        aval = aval_of(first)
        self.shape, self.dtype = aval.shape, aval.dtype
        self.more, self.last, self._block = more, last, block
        self.plain = plain or block is not None or (not last and type(first) in PLAIN)
        self.degree, self.pick = degree, pick
        #: x′, once it was asked for; and whether to compute coefficients again rather than to keep them
        self.prime: Stream | None = None
        self.fleeting = False

    @property
    def complete(self) -> bool:
        """Whether all coefficients are known."""
        return len(self.coefs) > self.last

    def coef(self, k: int) -> Any:
        """Return the coefficient of order k, or ``None`` where it is exactly zero."""
        coefs = self.coefs
        if k < len(coefs):
            return coefs[k]
        while len(coefs) <= min(k, self.last):
            n = len(coefs)
            out = self._row(n) if self.plain else None
            value = self.more(n, out)  # type: ignore[misc]
            if n > self.last:  # more() may have found that the series ends
                break
            if out is None:
                coefs.append(None if value is None else self._like_first(value, n))
                continue
            if value is None:
                out[...] = 0
            elif value is not out:
                out[...] = value.real if self.dtype.kind != "c" and np.iscomplexobj(value) else value
            coefs.append(out[()])
        return coefs[k] if k < len(coefs) else None

    def _row(self, n: int) -> np.ndarray:
        if self._block is None:
            first = self.coefs[0]
            self._block = np.empty((self.last + 1, *self.shape), self.dtype)
            self._block[0] = first
        return self._block[n, ...]

    def _like_first(self, value: Any, n: int) -> Any:
        aval = aval_of(value)
        if aval.dtype != self.dtype:
            value = np.real(value) if aval.dtype.kind == "c" and self.dtype.kind != "c" else value
            value = np.asarray(value, self.dtype)[()] if type(value) in PLAIN else value.astype(self.dtype)
        if aval.shape != self.shape:
            value = np.broadcast_to(value, self.shape)
        return value if self.pick is None else self.pick(value, n + self.degree)

    def upto(self, k: int) -> np.ndarray:
        """Return the coefficients of orders 0 to k along a leading axis, of a series of plain arrays."""
        self.coef(k)
        if self._block is None:
            return np.asarray(self.coefs[0])[None]
        return self._block[: min(k, self.last) + 1]

    def through(self, order: int) -> list:
        """Return the coefficients of orders 0 to ``order``, or to the last that may be other than zero."""
        self.coef(order)
        return self.coefs[: order + 1]


def derivative(x: Stream) -> Stream | None:
    """Return the derivative x′ of a series in its variable; ``None`` if it is a constant."""
    if x.last < 1:
        return None
    if x.prime is None:
        if x.plain and x.complete:
            orders = np.arange(1, x.last + 1).astype(x.dtype)
            block = x.upto(x.last)[1:] * orders.reshape(-1, *(1,) * len(x.shape))
            x.prime = Stream(block[0], None, x.last - 1, block=block, degree=x.degree + 1)
        else:
            first = x.coef(1)
            if x.last < 1:
                return None
            if first is None:
                first = np.zeros(x.shape, x.dtype)[()]

            def more(k, out):
                c = x.coef(k + 1)
                return None if c is None else c * (k + 1)

            x.prime = Stream(first, more, x.last - 1, plain=x.plain, degree=x.degree + 1, pick=x.pick)
    return x.prime


# ── products ─────────────────────────────────────────────────────────────────────────────────────────────────────


def convolve(
    a: Stream, b: Stream, k: int, out: np.ndarray | None = None, *, strong: bool = False, least: int = 0,
    weights: np.ndarray | None = None,
) -> Any:  # fmt: skip
    """Return Σ aⱼ bₖ₋ⱼ over j ≥ ``least``, entry by entry; ``None`` for no terms.

    With ``strong``, zeros of positive order, and those of a derivative, win against infinities.
    ``weights`` are factors, one for each j from 0; there are no terms beyond them. ``out`` takes the sum, if it is an
    array.
    """
    low, high = overlap(a, b, k, least)
    if weights is not None:
        high = min(high, len(weights) - 1)
    if low > high:
        return None
    if strong or not (a.plain and b.plain) or (weights is not None and a.shape != b.shape):
        return _sum_up(a, b, k, low, high, weights)
    left, right = a.upto(high)[low:], b.upto(k - low)[k - high :][::-1]
    count = len(left)
    if a.shape == b.shape:
        x, y = left.reshape(count, -1), right.reshape(count, -1)
        flat = None if out is None or out.shape != a.shape or out.dtype != np.result_type(x, y) else out.reshape(-1)
        if weights is not None:
            total = np.einsum("k,kn,kn->n", weights[low : high + 1], x, y, out=flat)
        elif x.shape[1] == 1:
            total = x[:, 0].dot(y[:, 0])
        elif a is b and count > 2 and low == 0:
            half = count // 2
            total = np.einsum("kn,kn->n", x[:half], y[:half], out=flat)
            total += total
            if count % 2:
                total += x[half] * x[half]
        else:
            total = np.einsum("kn,kn->n", x, y, out=flat)
        total = out if total is flat and flat is not None else total.reshape(a.shape)[()]
    else:
        ndim = max(len(a.shape), len(b.shape))
        left = left.reshape(count, *(1,) * (ndim - len(a.shape)), *a.shape)
        right = right.reshape(count, *(1,) * (ndim - len(b.shape)), *b.shape)
        total = np.einsum("k...,k...->...", left, right)
    return total


def overlap(a: Stream, b: Stream, k: int, least: int = 0) -> tuple[int, int]:
    """Return the first and the last j for which neither aⱼ nor bₖ₋ⱼ is beyond the end of its series."""
    a.coef(k), b.coef(k - least)  # which may find where they end
    return max(least, k - b.last), min(k, a.last)


def _sum_up(a: Stream, b: Stream, k: int, low: int, high: int, weights) -> Any:
    total = None
    twice = a is b and weights is None and low == 0 and high == k  # of a square: pairs that are equal once, doubled
    for j in range(low, (k // 2 if twice else high) + 1):
        x, y = a.coef(j), b.coef(k - j)
        if x is None or y is None:
            continue
        if twice and 2 * j != k:
            x = 2 * x
        degree, product = k + a.degree + b.degree, None
        if a.pick is not None and weights is None:
            product = a.pick.product(x, y, degree)
        if product is None:
            product = _multiplied(x, y, j + a.degree > 0, k - j + b.degree > 0)
            if weights is not None:
                product = product * weights[j].item()
            if a.pick is not None:
                product = a.pick(product, degree)
        total = product if total is None else total + product
    return total


def _multiplied(x: Any, y: Any, left: bool, right: bool) -> Any:
    """Return x·y, in which zeros of x (``left``) and of y (``right``) are strong."""
    if left and right and is_finite(x) is False:
        return times(y, x)
    return times(x, y) if left else times(y, x) if right else x * y
