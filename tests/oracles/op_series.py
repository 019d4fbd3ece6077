"""Check of one operator on one sample: its power series to third order, against jvp nested three times.

Not for: closed forms to high order, or laws of series (`tests/series/test_jet.py`).
"""

from __future__ import annotations

import dualad as da

from .arrays import close, random_like, tolerance
from .op_values import Subject

__all__ = ["check_series"]


def check_series(s: Subject) -> None:
    """The series along a curve with a bend and a twist is what three nested jvps make of it."""
    rng = s.rng("series")
    moving = s.moving()
    if not moving:
        return
    terms = [[random_like(rng, a) if i in moving else None for i, a in enumerate(s.args)] for _ in range(3)]
    value, series = da.jet(s.call, s.args, list(zip(*terms, strict=True)))
    orders = [value, *(_term(series, k, s.op.multiple_results) for k in range(3))]

    def along(t):
        first, second, third = terms
        args = [
            a if u is None else (a + u * t + v * (t * t / 2) + w * (t * t * t / 6)).astype(u.dtype)
            for a, u, v, w in zip(s.args, first, second, third, strict=True)
        ]
        return s.call(*args)

    limit = tolerance(s.args, value)
    for k in range(4):
        close(orders[k], along(0.0), f"order {k}", rtol=limit if k else 1e-12)
        along = _derivative(along)


def _term(series, k: int, several: bool):
    return tuple([terms[k] for terms in series]) if several else series[k]


def _derivative(f):
    return lambda t: da.jvp(f, (t,), (1.0,))[1]
