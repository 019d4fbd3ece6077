"""Choice: comparisons, questions about numbers, ``where``, maximum and minimum, bounds, and logic on bits.

A masked choice *selects* tangents (``where(mask, t, 0)``) and never multiplies them by a mask: next to a pole the
branch that was not taken may be infinite. Not for: rounding (``elementary.py``), or NumPy's own signatures
(``surface/elementwise.py``).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..core.aval import Array, Aval, broadcast_shapes, result_dtype
from ..core.primitive import Primitive
from .kinds import add_tangents, batch_elementwise, broadcast_tangent, elementwise, predicate, unbroadcast
from .kinks import chosen
from .samples import anywhere, elementwise_samples, integers

__all__ = ["at_least", "at_most", "heaviside", "maximum", "minimum", "nowhere", "where"]


# ── questions: the answer is constant wherever it has a derivative ───────────────────────────────────────────────

_pairs = elementwise_samples(anywhere(), anywhere()) + elementwise_samples(integers(0, 3), integers(0, 3))[1:3]
_truths = elementwise_samples(integers(0, 2), integers(0, 2)) + elementwise_samples(anywhere(), anywhere())[1:3]
_whole = elementwise_samples(integers(0, 12), integers(0, 12))
_shifts = elementwise_samples(integers(0, 99), integers(0, 5))

for _ufunc in (np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal):
    predicate(_ufunc, samples=_pairs)
for _ufunc in (np.logical_and, np.logical_or, np.logical_xor):
    predicate(_ufunc, samples=_truths)
for _ufunc in (np.bitwise_and, np.bitwise_or, np.bitwise_xor, np.gcd, np.lcm):
    predicate(_ufunc, samples=_whole)
for _ufunc in (np.left_shift, np.right_shift):
    predicate(_ufunc, samples=_shifts)
for _ufunc in (np.isfinite, np.isinf, np.isnan, np.signbit, np.logical_not):
    predicate(_ufunc, samples=anywhere())
for _ufunc in (np.invert, np.bitwise_count):
    predicate(_ufunc, samples=integers(-9, 9))


# ── where ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _where(condition, x, y):
    out = np.where(condition, x, y)
    return out if out.shape else out[()]


def _where_jvp(primals: Sequence, tangents: Sequence) -> tuple:
    condition, x, y = primals
    _, tx, ty = tangents
    out = where(condition, x, y)
    return out, broadcast_tangent(where(condition, 0 if tx is None else tx, 0 if ty is None else ty), out)


def _where_transpose(ct: Array, condition: Array, x: Array, y: Array) -> tuple:
    return (
        None,
        unbroadcast(where(condition, ct, 0), x) if type(x) is Aval else None,
        unbroadcast(where(condition, 0, ct), y) if type(y) is Aval else None,
    )


where = Primitive(
    "where",
    impl=_where,
    abstract_eval=lambda condition, x, y: Aval(broadcast_shapes(condition, x, y), result_dtype(x, y)),
    jvp=_where_jvp,
    linear_in=(1, 2),
    joint=True,
    transpose=_where_transpose,
    batch=batch_elementwise(np.where),
    samples=[
        (np.array([True, False, True]), (3,), (3,)),
        (np.array([[True], [False]]), (2, 3), (3,)),
        (np.array(True), (), ()),
        (np.array([False, True]), (), (2,)),
        (np.zeros((0, 2), bool), (1, 2), (0, 1)),
        (np.array([True, False]), np.array([1 + 2j, 3j]), (2,)),
    ],
    kind="linear",
)


def nowhere(mask) -> bool:
    """Whether a mask is an array (not a tensor) and false everywhere: then nothing needs selecting."""
    if isinstance(mask, (np.ndarray, np.bool_)):
        return not mask.any()
    return mask is False


# ── the larger and the smaller ───────────────────────────────────────────────────────────────────────────────────
#
# max(x, y) is x where x > y, y where y > x, and at a tie (x + y)/2 + |x − y|/2, whose subgradient of least norm is
# (½, ½). fmax and fmin also choose x where y is NaN.


def _extremum(ufunc: np.ufunc, first_wins) -> Primitive:
    def jvp(primals: Sequence, tangents: Sequence) -> tuple:
        x, y = primals
        tx, ty = tangents
        out = ufunc(x, y)
        t = where(first_wins(x, y), 0 if tx is None else tx, 0 if ty is None else ty)
        tie = x == y
        if not nowhere(tie):
            t = where(tie, 0.5 * add_tangents(tx, ty), t)
        return out, chosen(broadcast_tangent(t, out), lambda: tie, ufunc.__name__)

    return elementwise(ufunc, jvp=jvp, samples=anywhere())


maximum = _extremum(np.maximum, np.greater)
minimum = _extremum(np.minimum, np.less)
fmax = _extremum(np.fmax, lambda x, y: np.greater(x, y) | np.isnan(y))
fmin = _extremum(np.fmin, lambda x, y: np.less(x, y) | np.isnan(y))


# ── bounds: at the bound the derivative is that of the value inside, so a point on it can still move inwards ───────


def _bound(name: str, ufunc: np.ufunc, outside) -> Primitive:
    def jvp(primals: Sequence, tangents: Sequence) -> tuple:
        x, bound = primals
        tx, tb = tangents
        out = ufunc(x, bound)
        t = broadcast_tangent(where(outside(x, bound), 0 if tb is None else tb, 0 if tx is None else tx), out)
        return out, chosen(t, lambda: x == bound, "clip")

    return elementwise(ufunc, name=name, jvp=jvp, samples=anywhere(), numpy=())


# The two halves of np.clip.
at_least = _bound("at_least", np.maximum, np.less)
at_most = _bound("at_most", np.minimum, np.greater)


# ── the step, which is h where x = 0 ─────────────────────────────────────────────────────────────────────────────


def _heaviside_jvp(primals: Sequence, tangents: Sequence) -> tuple:
    x, h = primals
    out = np.heaviside(x, h)
    return out, None if tangents[1] is None else broadcast_tangent(where(x == 0, tangents[1], 0), out)


heaviside = elementwise(np.heaviside, jvp=_heaviside_jvp, samples=anywhere())
