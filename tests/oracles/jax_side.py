"""JAX in float64, beside one operator: the same NumPy name in `jax.numpy`, differentiated by JAX.

Not for: users' functions (`dualad.testing.jax_oracle`).
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import dualad as da

from .arrays import close, leaves, random_like
from .op_values import Subject

__all__ = ["INSTALLED", "agree", "counterpart", "jax", "jnp"]


class _Absent:
    """What stands for JAX where it is not installed: the test that asks it for anything is skipped."""

    def __getattr__(self, name: str):
        pytest.skip("JAX is not installed", allow_module_level=True)


jax: Any
jnp: Any
try:
    import jax
    import jax.numpy as jnp
    import jax.scipy.special

    INSTALLED = True
    jax.config.update("jax_enable_x64", True)
    # A program is compiled for one call: XLA's optimizations would take longer than all they could save.
    jax.config.update("jax_disable_most_optimizations", True)
except ImportError:
    INSTALLED, jax, jnp = False, _Absent(), _Absent()


@functools.cache
def counterpart(op):
    """Return JAX's function of the same meaning as an operator, or None."""
    for function in op.numpy:
        module = getattr(function, "__module__", "") or ""
        home = {"numpy.linalg": jnp.linalg, "numpy.fft": jnp.fft}.get(
            module.removesuffix("._linalg").removesuffix("._pocketfft")
        )
        for place in (home, jax.scipy.special if _is_special(function) else jnp):
            found = getattr(place, function.__name__, None) if place else None
            if found is not None:
                return found
    return None


def _is_special(function) -> bool:
    import scipy.special

    return getattr(scipy.special, function.__name__, None) is function


def agree(s: Subject, orders: int = 3) -> None:
    """Assert that jvp nested up to `orders` times, and the vjp, equal JAX's; compiled at once, which is cheapest."""
    theirs = functools.partial(counterpart(s.op), **s.params)
    f, args = s.reduced()
    positions = s.moving()

    def g(*moving):
        full = list(s.args)
        for i, x in zip(positions, moving, strict=True):
            full[i] = x
        # Results without a derivative (exponents, indices) are left out, as a cotangent for them does not exist.
        return [v for v in leaves(theirs(*full)) if v.dtype.kind in "fc"]

    rng = s.rng("jax")
    directions = [[random_like(rng, a) for a in args] for _ in range(orders)]
    value, pull = da.vjp(f, *args)
    cts = [random_like(rng, v) for v in leaves(value)]

    def differentiate(jvp, h):
        found = []
        for t in directions:
            h = functools.partial(_push, jvp, h, t)
            found.append(h)
        return found

    def everything(xs, cotangents):
        return [h(*xs) for h in differentiate(jax.jvp, g)], jax.vjp(g, *xs)[1](cotangents)

    pushed, pulled = jax.jit(everything)(args, [c for c in cts if c is not None])
    for order, (ours, expected) in enumerate(zip(differentiate(da.jvp, f), pushed, strict=True), 1):
        found = [t for t in leaves(ours(*args)) if t.dtype.kind in "fc"]
        close(found, [np.asarray(v) for v in leaves(expected)], f"jvp^{order} against JAX", rtol=1e-8)
    found = pull(tuple(cts) if s.op.multiple_results else cts[0])
    close(leaves(found), [np.asarray(v) for v in pulled], "vjp against JAX", rtol=1e-8)


def _push(jvp, f, t, *args):
    return jvp(f, tuple(args), tuple(t))[1]
