"""One NumPy call under every transform: what the tests of NumPy's names share.

Not for: operators (`op_values.py` and its neighbours), or the choice of calls.
"""

from __future__ import annotations

import numpy as np

import dualad as da

from . import differences
from .arrays import close, generator, leaves, pairing, random_like, tolerance
from .loops import axes_choices, looped, stack_members

__all__ = ["check_call"]


def check_call(name: str, f, *args, batch: bool = True, stage: bool = True) -> None:
    """Hold a call of arrays against NumPy, central differences, the dot test, a loop over lanes and its own program."""
    rng = generator(name)
    expected = f(*args)
    tangents = [random_like(rng, a) for a in args]
    value, tangent = da.jvp(f, args, tuple(tangents))
    close(value, expected, f"{name}: value under jvp")
    differences.compare(tangent, differences.along(f, args, tangents), f"{name}: tangent")
    value, pull = da.vjp(f, *args)
    close(value, expected, f"{name}: value under vjp")
    cotangents = [random_like(rng, v) for v in leaves(expected)]
    back = pull(_like(value, iter(cotangents)))
    flat_back = [c for c, t in zip(back, tangents, strict=True) if t is not None]
    forward = pairing(cotangents, leaves(tangent))
    backward = pairing(flat_back, [t for t in tangents if t is not None])
    error, limit = abs(forward - backward), tolerance(args, expected) * (1 + abs(forward))
    assert error <= limit, f"{name}: <c, Jt> = {forward}, <J'c, t> = {backward}"
    if stage:
        close(da.trace(f, *args)(*args), expected, f"{name}: its program")
    if batch:
        # Distinct members in the same part of the domain; integers are indices, and the same in all lanes.
        members = [
            [(a * k).astype(a.dtype) if a.dtype.kind in "fc" else a for k in (1, 1.25, 0.75)]
            for a in map(np.asarray, args)
        ]
        for axes in axes_choices(len(args)):
            if any(a == -1 and not np.ndim(x) for a, x in zip(axes, args, strict=True)):
                continue
            stacked = [stack_members(m, a) for m, a in zip(members, axes, strict=True)]
            close(leaves(da.vmap(f, axes)(*stacked)), looped(f, stacked, axes, 3), f"{name}: vmap over {axes}")

            def pulled(*xs):
                return da.vjp(f, *xs)[1](_like(value, iter(cotangents)))

            found = [x for x in leaves(da.vmap(pulled, axes)(*stacked)) if x.dtype.kind != "V"]
            wanted = [x for x in looped(pulled, stacked, axes, 3) if x.dtype.kind != "V"]
            close(found, wanted, f"{name}: vmap over {axes} of the pullback")


def _like(tree, values):
    """Arrange values as the leaves of a tree of tuples and lists."""
    if isinstance(tree, (tuple, list)):
        return type(tree)([_like(item, values) for item in tree])
    return next(values)
