"""A mirrored function of SciPy against SciPy itself: value, derivatives, lanes, programs.

The first derivative is compared with differences of SciPy's own function, the higher ones with differences of the
order below. Not for: operators, which are tested from the registry.
"""

from __future__ import annotations

import itertools

import numpy as np

import dualad as da
from dualad.program.check import check

from . import differences
from .arrays import close, generator, inexact, leaves, pairing, random_like
from .loops import looped

__all__ = ["agrees"]


def agrees(ours, original, *args, order: int = 2, near: float = 0.02, rtol: float = 1e-10) -> None:
    """Assert that ``ours`` is ``original`` on arrays and tensors, with the right derivatives up to an order.

    Arguments that are not floating-point arrays stay constant. ``near`` is the relative distance of the members of a
    batch, so that all lie in the domain.
    """
    rng = generator("mirrored", len(args))
    moving = [i for i, a in enumerate(args) if inexact(a)]

    def only(f):
        def g(*xs):
            full = list(args)
            for i, x in zip(moving, xs, strict=True):
                full[i] = x
            return f(*full)

        return g

    f, g, xs = only(ours), only(original), [args[i] for i in moving]
    expected = original(*args)
    close(ours(*args), expected, "value of a plain call", rtol=0.0)
    ts = [[random_like(rng, x) for x in xs] for _ in range(order)]
    value, tangent = da.jvp(f, xs, ts[0])
    close(value, expected, "value under jvp", rtol=rtol)
    differences.compare(tangent, differences.along(g, xs, ts[0]), "jvp")
    _patterns_of_zeros(f, xs, ts[0], tangent)
    below = f
    for n in range(1, order):
        below = _pushed(below, ts[n - 1])
        differences.compare(da.jvp(below, xs, ts[n])[1], differences.along(below, xs, ts[n]), f"jvp of order {n + 1}")
    _reverse(f, xs, ts[0], value, tangent, rng)
    _lanes(f, g, xs, near, rtol)
    program = da.trace(f, *xs)
    check(program)
    close(program(*xs), expected, "the traced program", rtol=rtol)


def _pushed(f, t):
    return lambda *xs: da.jvp(f, xs, t)[1]


def _patterns_of_zeros(f, xs, ts, tangent) -> None:
    """The tangents of the arguments one by one add up."""
    if len(xs) < 2:
        return
    parts = [leaves(da.jvp(f, xs, [t if i == j else None for j, t in enumerate(ts)])[1]) for i in range(len(xs))]
    total = [sum(np.asarray(p) for p in entry) for entry in zip(*parts, strict=True)]
    close(total, leaves(tangent), "tangents one by one", dtypes=False)


def _reverse(f, xs, t, value, tangent, rng) -> None:
    out, pull = da.vjp(f, *xs)
    close(out, value, "value of vjp")
    ct = random_like(rng, value) if not isinstance(value, tuple) else tuple(random_like(rng, v) for v in value)
    back = pull(ct)
    for c, x in zip(back, xs, strict=True):
        assert c.shape == np.shape(x) and c.dtype == np.asarray(x).dtype, f"cotangent {c.dtype}{c.shape} of {x!r}"
    a, b = pairing(back, t), pairing(ct, tangent)
    assert abs(a - b) <= 1e-9 * (1 + abs(b)), f"vjp against jvp: {a}, expected {b}"
    moved = da.jvp(lambda *ys: da.vjp(f, *ys)[1](ct), xs, t)[1]
    twice = da.jvp(lambda *ys: da.jvp(f, ys, t)[1], xs, t)[1]
    a, b = pairing(moved, t), pairing(ct, twice)
    assert abs(a - b) <= 1e-8 * (1 + abs(b)), f"jvp of vjp against jvp of jvp: {a}, expected {b}"


def _lanes(f, g, xs, near, rtol) -> None:
    stacked = [np.stack([x, x * (1 + near), x * (1 - near)], -1) for x in map(np.asarray, xs)]
    choices = list(itertools.product((-1, None), repeat=len(xs)))[:-1]
    for axes in choices if len(choices) <= 3 else (choices[0], choices[-1], choices[-2]):
        args = [s if a == -1 else x for s, x, a in zip(stacked, xs, axes, strict=True)]
        found = da.vmap(f, axes)(*args)
        close(leaves(found), looped(g, args, axes, 3), f"vmap with in_axes={axes}", rtol=rtol)
    direction = [np.ones_like(x) for x in xs]
    push = lambda *ys: da.jvp(f, ys, direction)[1]
    close(leaves(da.vmap(push, -1)(*stacked)), looped(push, stacked, [-1] * len(xs), 3), "vmap of jvp", rtol=rtol)
    back = lambda *ys: da.vjp(lambda *zs: np.sum(np.stack([np.sum(np.real(v)) for v in leaves(f(*zs))])), *ys)[1](1.0)
    close(leaves(da.vmap(back, -1)(*stacked)), looped(back, stacked, [-1] * len(xs), 3), "vmap of vjp", rtol=1e-9)
