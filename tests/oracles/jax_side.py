"""JAX in float64, beside one operator: the same NumPy name in `jax.numpy`, differentiated by JAX.

Not for: users' functions (`dualad.testing.jax_oracle`).
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import jax.scipy.special
import numpy as np

import dualad as da

from .arrays import close, leaves, pairing, random_like
from .op_values import Subject

__all__ = ["agree", "counterpart"]

jax.config.update("jax_enable_x64", True)


@functools.cache
def counterpart(op):
    """Return JAX's function of the same meaning as an operator, or None."""
    for function in op.numpy:
        module = getattr(function, "__module__", "") or ""
        home = {"numpy.linalg": jnp.linalg, "numpy.fft": jnp.fft}.get(module.removesuffix("._linalg").removesuffix("._pocketfft"))
        for place in (home, jax.scipy.special if _is_special(function) else jnp):
            found = getattr(place, function.__name__, None) if place else None
            if found is not None:
                return found
    return None


def _is_special(function) -> bool:
    import scipy.special

    return getattr(scipy.special, function.__name__, None) is function


def agree(s: Subject, order: int) -> None:
    """Assert that jvp nested `order` times, and for order one the vjp, equal JAX's."""
    theirs = functools.partial(counterpart(s.op), **s.params)
    f, args = s.reduced()
    positions = s.moving()

    def g(*moving):
        full = list(s.args)
        for i, x in zip(positions, moving, strict=True):
            full[i] = x
        return theirs(*full)

    rng = s.rng("jax")
    directions = [[random_like(rng, a) for a in args] for _ in range(order)]
    ours_k, theirs_k = f, g
    for t in directions:
        ours_k = functools.partial(_push, da.jvp, ours_k, t)
        theirs_k = functools.partial(_push, jax.jvp, theirs_k, t)
    close(leaves(ours_k(*args)), [np.asarray(v) for v in leaves(theirs_k(*args))], f"jvp^{order} against JAX", rtol=1e-8)
    if order == 1:
        value, pull = da.vjp(f, *args)
        cts = tuple(random_like(rng, v) for v in leaves(value))
        ct = cts if s.op.multiple else cts[0]
        expected = [np.asarray(v) for v in jax.vjp(g, *args)[1](ct)]
        close(leaves(pull(ct)), expected, "vjp against JAX", rtol=1e-8)
        assert np.isfinite(pairing(pull(ct), directions[0])), "vjp is not finite inside the domain"


def _push(jvp, f, t, *args):
    return jvp(f, tuple(args), tuple(t))[1]
