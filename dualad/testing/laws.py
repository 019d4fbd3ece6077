"""Laws that derivatives obey, each as an assertion about a function at a point.

They need no oracle: linearity, duality, the chain rule, a batch is a loop, the two Jacobians are one, the Hessian is
symmetric, stopping twice is stopping once. Each takes a function of trees of arrays and the sequence of its arguments;
``rtol`` is the error allowed relative to the terms (in single precision at least 1e-3), ``seed`` that of random
vectors. A broken law is a GradcheckError that names the quantity, the entry, or the output and the input. With
Hypothesis (`strategies`) they become property tests of one line.

    >>> import numpy as np
    >>> from dualad.testing import laws
    >>> laws.linearity(lambda x: np.sin(x) * x, (np.ones(3),))
    >>> laws.chain_rule(np.sin, np.cumsum, (np.ones(3),))
    >>> laws.check_laws(lambda x, y: np.tanh(x) @ y, (np.ones((2, 3)), np.arange(3.0)))

Not for finding wrong derivatives that obey the laws (a rule scaled by 1.1 does): that takes an oracle
(`gradcheck`, `check_grads`, `check_function`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from dualad.jvp import stop_gradient

from .engine import MODES, SINGLE, Engine, refuse_unknown
from .properties import Properties, expect

__all__ = [
    "LAWS", "chain_rule", "check_laws", "duality", "idempotent_stop_gradient", "jacfwd_is_jacrev", "linearity",
    "symmetric_hessian", "vmap_is_a_loop",
]  # fmt: skip

_RTOL = 1e-9


def linearity(f: Callable, args: Sequence[Any], *, rtol: float = _RTOL, seed: int = 0) -> None:
    """Assert that `jvp` is linear in the tangents, and the pullback in the cotangents."""
    for law in _of(f, args, rtol, seed):
        for mode in MODES:
            law.linear(law.f.going(mode))


def duality(f: Callable, args: Sequence[Any], *, rtol: float = _RTOL, seed: int = 0) -> None:
    """Assert that ⟨Jv, u⟩ = ⟨v, Jᵀu⟩."""
    for law in _of(f, args, rtol, seed):
        law.dot(rtol)


def chain_rule(f: Callable, g: Callable, args: Sequence[Any], *, rtol: float = _RTOL, seed: int = 0) -> None:
    """Assert that the derivative of g∘f, for g of the one value of f, is that of g after that of f, in both modes."""
    for law in _of(f, args, rtol, seed):
        first, second, both = law.f, Engine(g, (f(*args),)), Engine(lambda *xs: g(f(*xs)), args)
        v, w = first.going("forward").random(law.rng), both.going("reverse").random(law.rng)
        pushed = second.jvp(first.jvp(v))
        _agree("chain rule, forward", both, both.jvp(v), pushed, rtol)
        _agree("chain rule, forward", both, both.pushed_value, second.pushed_value, rtol)
        _agree("chain rule, reverse", both, both.vjp(w), first.vjp(second.vjp(w)), rtol)


def vmap_is_a_loop(f: Callable, args: Sequence[Any], *, size: int = 3, rtol: float = _RTOL, seed: int = 0) -> None:
    """Assert that `vmap` of a function, and of its two derivatives, is a loop over points.

    The first of ``size`` points is ``args``, the others lie beside it.
    """
    for law in _of(f, args, rtol, seed):
        for mode in MODES:
            law.batched_points([mode], size, one_by_one=False)


def jacfwd_is_jacrev(f: Callable, args: Sequence[Any], *, rtol: float = _RTOL, seed: int = 0) -> None:
    """Assert that the Jacobian is the same by columns and by rows."""
    for law in _of(f, args, rtol, seed, double=True):
        _agree("jacfwd is jacrev", law.f, law.f.jacfwd(), law.f.jacrev(), rtol)


def symmetric_hessian(f: Callable, args: Sequence[Any], *, rtol: float = 1e-8, seed: int = 0) -> None:
    """Assert that uᵀ H v = vᵀ H u, of a random weighted sum if the function returns several numbers."""
    for law in _of(f, args, rtol, seed, double=True):
        w = law.rng.standard_normal(law.f.out_size)
        u, v = law.rng.standard_normal((2, law.f.size))
        left, right = u * law.f.hvp(w, v), v * law.f.hvp(w, u)
        size = np.abs(left).sum() + np.abs(right).sum()
        _agree("symmetry of the Hessian", law.f, left.sum(keepdims=True), right.sum(keepdims=True), rtol, size)


def idempotent_stop_gradient(f: Callable, args: Sequence[Any], *, rtol: float = _RTOL, seed: int = 0) -> None:
    """Assert that stopping changes no value, lets no derivative through, and does no more when it is done twice."""
    for law in _of(f, args, rtol, seed):
        v = law.f.going("forward").random(law.rng)
        once = Engine(lambda *xs: stop_gradient(f(*xs)), args)
        twice = Engine(lambda *xs: stop_gradient(stop_gradient(f(*xs))), args)
        _agree("stop_gradient lets no derivative through", law.f, once.jvp(v), np.zeros(law.f.out_size), 0.0)
        _agree("stop_gradient keeps values", law.f, once.pushed_value, law.f.flat_value, rtol)
        _agree("stop_gradient twice is once", law.f, twice.jvp(v), once.jvp(v), 0.0)
        _agree("stop_gradient twice is once", law.f, twice.pushed_value, once.pushed_value, 0.0)


#: the laws of one function at one point, by name
LAWS: Mapping[str, Callable] = MappingProxyType(
    {
        "linearity": linearity,
        "duality": duality,
        "vmap is a loop": vmap_is_a_loop,
        "jacfwd is jacrev": jacfwd_is_jacrev,
        "symmetric Hessian": symmetric_hessian,
        "stop_gradient": idempotent_stop_gradient,
    }
)


def check_laws(f: Callable, args: Sequence[Any], laws: Collection[str] = tuple(LAWS), *, seed: int = 0) -> None:
    """Assert several laws, all by default.

    Parameters
    ----------
    f : callable
        A function of trees of arrays, in plain NumPy.
    args : sequence
        Its positional arguments.
    laws : collection of str
        Names of `LAWS`.
    seed : int
        For random vectors.

    Raises
    ------
    GradcheckError
        By the first law that is broken.
    ArgumentError
        For a law of unknown name.
    """
    refuse_unknown("law", laws, LAWS)
    for name in laws:
        LAWS[name](f, args, seed=seed)


def _of(f: Callable, args: Sequence[Any], rtol: float, seed: int, *, double: bool = False) -> list[Properties]:
    """Return the properties of a function at a point, in a list; an empty one if there is nothing to differentiate."""
    engine = Engine(f, args, double=double)
    if not engine.size or not engine.out_size:
        return []
    engine.learn()
    return [Properties(engine, rtol=max(rtol, SINGLE) if engine.single else rtol, seed=seed)]


def _agree(law: str, f: Engine, a: np.ndarray, b: np.ndarray, rtol: float, size: float | None = None) -> None:
    allowed = max(rtol, SINGLE) if f.single and rtol else rtol
    expect(
        "law",
        a,
        b,
        allowed * (np.abs(b[np.isfinite(b)]).max(initial=0.0) if size is None else size) + 1e-300,
        lambda k: f"`{f.name}` breaks a law: {law}: {a[k]:.12g} is not {b[k]:.12g} at entry {k}.",
        "every derivative obeys it",
        "look at the rules on the way (dualad.testing.check_rule)",
    )
