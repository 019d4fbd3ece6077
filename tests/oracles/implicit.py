"""Answers of solvers: their derivatives against central differences, against each other, and against a closed form.

A function of parameters that calls a solver is differentiated in both modes, twice, over lanes, and compiled. Its plain
calls are SciPy's own. Not for: what solvers refuse.
"""

from __future__ import annotations

import numpy as np

import dualad as da

from . import differences
from .arrays import close, generator, pairing, random_like

__all__ = ["verify"]


def verify(
    f, *args, exact=None, second: bool = True, rtol: float = 1e-9, compiled: bool = True, accuracy: float = 2e-7
) -> None:  # fmt: skip
    """Check a function of arrays that returns one array.

    ``exact`` is the same in closed form, differentiated by dualad; ``second`` says whether the derivative of the
    derivative is compared with differences, too. ``accuracy`` is what differences of the solver have.
    """
    rng = generator(getattr(f, "__name__", "f"), [np.shape(a) for a in args])
    tangents = tuple([random_like(rng, a) for a in args])
    along = lambda g, a, t: (differences.along(g, a, t)[0], accuracy)
    value, tangent = da.jvp(f, args, tangents)
    close(value, f(*args), "value", rtol=1e-9)
    differences.compare(tangent, along(f, args, tangents), "tangent")
    out, pull = da.vjp(f, *args)
    ct = random_like(rng, np.asarray(out))
    close(pairing(list(pull(ct)), list(tangents)), pairing([ct], [tangent]), "dot product", rtol=rtol)
    if exact is not None:
        close(tangent, da.jvp(exact, args, tangents)[1], "tangent in closed form", rtol=rtol)
    moved = lambda *a: da.jvp(f, a, tangents)[1]
    if second:
        twice = da.jvp(moved, args, tangents)[1]
        differences.compare(twice, along(moved, args, tangents), "second tangent")
        slope = da.grad(lambda *a: np.sum(ct * f(*a)))
        differences.compare(da.jvp(slope, args, tangents)[1], along(slope, args, tangents), "forward over reverse")
        if exact is not None:
            at = lambda *a: da.jvp(exact, a, tangents)[1]
            close(twice, da.jvp(at, args, tangents)[1], "second tangent in closed form", rtol=1e3 * rtol)
    lanes = tuple([np.stack([a, a + 1e-3 * t]) for a, t in zip(args, tangents, strict=True)])
    close(da.vmap(moved)(*lanes)[1], moved(*[a[1] for a in lanes]), "lanes", rtol=rtol)
    if compiled:
        close(da.jit(moved)(*args), tangent, "compiled", rtol=rtol)
