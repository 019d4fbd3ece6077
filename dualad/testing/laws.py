"""Laws that derivatives obey, each as an assertion about a function at a point.

They need no oracle: linearity, duality, the chain rule, a batch is a loop, the two Jacobians are one, the Hessian is
symmetric, stopping twice is stopping once. With Hypothesis (`strategies`) they become property tests of one line.

Not for finding wrong derivatives that obey the laws (a rule scaled by 1.1 does): that takes an oracle
(`gradcheck`, `check_grads`, `check_function`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np

from dualad.jvp import jvp, stop_gradient
from dualad.tree import flatten, tree_map
from dualad.vjp_via_transpose import vjp
from dualad.vmap import vmap

from .check_grads import check_dot_product
from .describe import refuse_unknown
from .engine import SINGLE, Engine, failure, is_single
from .gradgradcheck import random_like
from .real_function import RealFunction, name_of, same

__all__ = [
    "LAWS", "chain_rule", "check_laws", "duality", "idempotent_stop_gradient", "jacfwd_is_jacrev", "linearity",
    "symmetric_hessian", "vmap_is_a_loop",
]  # fmt: skip

F = TypeVar("F", bound=Callable)

_RTOL = 1e-9

_LAWS: dict[str, Callable] = {}
#: the laws of one function at one point, by name
LAWS: Mapping[str, Callable] = MappingProxyType(_LAWS)

_PARAMETERS = """\
Parameters
----------
f : callable
    A function of trees of arrays, in plain NumPy.
args : sequence
    Its positional arguments.
rtol : float
    Allowed error, relative to the terms; in single precision at least 1e-3.
seed : int
    For random vectors.

Raises
------
GradcheckError
    Naming the quantity, the entry, or the output and the input.

"""


def _law(name: str) -> Callable[[F], F]:
    """Declare a law of one function at one point: its name, and a docstring with what all of them take and raise."""

    def declare(law: F) -> F:
        law.__doc__ = inspect.cleandoc(law.__doc__ or "").replace("Examples\n", f"{_PARAMETERS}Examples\n")
        _LAWS[name] = law
        return law

    return declare


@_law("linearity")
def linearity(f: Callable, args: Sequence[Any], *, rtol: float = _RTOL, seed: int = 0) -> None:
    """Assert that `jvp` is linear in the tangents, and the pullback in the cotangents.

    Examples
    --------
    >>> import numpy as np
    >>> from dualad.testing import laws
    >>> laws.linearity(lambda x: np.sin(x) * x, (np.ones(3),))
    """
    native, rng = Engine(f, args), np.random.default_rng(seed)
    if not native.size or not native.out_size:
        return
    native.learn()
    rtol = max(rtol, SINGLE) if native.single else rtol
    for way in map(native.going, ("forward", "reverse")):
        _agree(f"linearity in the {way.word}", f, *way.of_sum(*rng.standard_normal((2, way.size))), rtol)


@_law("duality")
def duality(f: Callable, args: Sequence[Any], *, rtol: float = _RTOL, seed: int = 0) -> None:
    """Assert that ⟨Jv, u⟩ = ⟨v, Jᵀu⟩.

    Examples
    --------
    >>> import numpy as np
    >>> from dualad.testing import laws
    >>> laws.duality(np.cumsum, (np.ones(3),))
    """
    check_dot_product(f, tuple(args), np.random.default_rng(seed), rtol=rtol)


def chain_rule(f: Callable, g: Callable, args: Sequence[Any], *, rtol: float = _RTOL, seed: int = 0) -> None:
    """Assert that the derivative of g∘f is the derivative of g at f(x) after that of f, in both modes.

    Parameters
    ----------
    f : callable
        A function of ``args``.
    g : callable
        A function of the one value that ``f`` returns.
    args, rtol, seed
        As for :func:`linearity`.

    Raises
    ------
    GradcheckError
        Naming the entry.

    Examples
    --------
    >>> import numpy as np
    >>> from dualad.testing import laws
    >>> laws.chain_rule(np.sin, np.cumsum, (np.ones(3),))
    """
    rng = np.random.default_rng(seed)
    args = tuple(args)
    tangents = tuple(tree_map(lambda x: _random_or_none(x, rng), args))
    both = lambda *xs: g(f(*xs))
    middle, step = jvp(f, args, tangents)
    _same_trees("chain rule, forward", both, jvp(both, args, tangents), jvp(g, (middle,), (step,)), rtol)
    out, pull = vjp(both, *args)
    _, pull_f = vjp(f, *args)
    _, pull_g = vjp(g, middle)
    ct = tree_map(lambda y: _random_or_none(y, rng), out)
    _same_trees("chain rule, reverse", both, pull(ct), pull_f(*pull_g(ct)), rtol)


@_law("vmap is a loop")
def vmap_is_a_loop(f: Callable, args: Sequence[Any], *, size: int = 3, rtol: float = _RTOL, seed: int = 0) -> None:
    """Assert that `vmap` of a function, and of its two derivatives, is a loop over points.

    The first of ``size`` points is ``args``, the others lie beside it.

    Examples
    --------
    >>> import numpy as np
    >>> from dualad.testing import laws
    >>> laws.vmap_is_a_loop(lambda x: np.sin(x).sum(), (np.ones(3),))
    """
    function, rng = RealFunction(f, args, lenient=True), np.random.default_rng(seed)
    if not function.size or not function.out_size:
        return
    rows = function.x + 1e-3 * function.scale * rng.standard_normal((size, function.size))
    rows[0] = function.x
    points = [np.stack(parts) for parts in zip(*[function.ins.split(row) for row in rows], strict=True)]
    t = function.ins.split(rng.standard_normal(function.size))
    w = function.outs.split(rng.standard_normal(function.out_size))
    for what, question in (
        ("value", function),
        ("jvp", lambda *x: jvp(function, x, t)[1]),
        ("vjp", lambda *x: vjp(function, *x)[1](w)),
    ):
        looped = [question(*[p[k] for p in points]) for k in range(size)]
        stacked = tuple(np.stack([np.asarray(x) for x in column]) for column in zip(*looped, strict=True))
        _same_trees(f"vmap of {what} is a loop", f, vmap(question)(*points), stacked, rtol)


@_law("jacfwd is jacrev")
def jacfwd_is_jacrev(f: Callable, args: Sequence[Any], *, rtol: float = _RTOL, seed: int = 0) -> None:
    """Assert that the Jacobian is the same by columns and by rows.

    Examples
    --------
    >>> import numpy as np
    >>> from dualad.testing import laws
    >>> laws.jacfwd_is_jacrev(np.cumprod, (np.array([1.0, 2.0, 3.0]),))
    """
    engine = Engine(f, args, double=True)
    if not engine.size or not engine.out_size:
        return
    forward, backward = engine.jacfwd(), engine.jacrev()
    _agree("jacfwd is jacrev", f, forward, backward, np.abs(forward).max(initial=0.0), rtol)


@_law("symmetric Hessian")
def symmetric_hessian(f: Callable, args: Sequence[Any], *, rtol: float = 1e-8, seed: int = 0) -> None:
    """Assert that uᵀ H v = vᵀ H u, of a random weighted sum if the function returns several numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from dualad.testing import laws
    >>> laws.symmetric_hessian(lambda x: np.prod(np.sin(x)), (np.ones(3),))
    """
    engine, rng = Engine(f, args, double=True), np.random.default_rng(seed)
    if not engine.size or not engine.out_size:
        return
    w = rng.standard_normal(engine.out_size)
    u, v = rng.standard_normal((2, engine.size))
    left, right = u * engine.hvp(w, v), v * engine.hvp(w, u)
    size = np.abs(left).sum() + np.abs(right).sum()
    _agree("symmetry of the Hessian", f, np.atleast_1d(left.sum()), np.atleast_1d(right.sum()), size, rtol)


@_law("stop_gradient")
def idempotent_stop_gradient(f: Callable, args: Sequence[Any], *, rtol: float = _RTOL, seed: int = 0) -> None:
    """Assert that stopping changes no value, lets no derivative through, and does no more when it is done twice.

    Examples
    --------
    >>> import numpy as np
    >>> from dualad.testing import laws
    >>> laws.idempotent_stop_gradient(np.sin, (np.ones(3),))
    """
    rng, args = np.random.default_rng(seed), tuple(args)
    tangents = tuple(tree_map(lambda x: _random_or_none(x, rng), args))
    once = jvp(lambda *xs: stop_gradient(f(*xs)), args, tangents)
    twice = jvp(lambda *xs: stop_gradient(stop_gradient(f(*xs))), args, tangents)
    _same_trees("stop_gradient twice is once", f, once, twice, 0.0)
    _same_trees("stop_gradient keeps values", f, once[0], f(*args), rtol)
    if any(np.any(t) for t in flatten(once[1])[0] if np.asarray(t).dtype.kind in "fc"):
        raise failure("law", f"stop_gradient of `{name_of(f)}` let a derivative through: {once[1]!r}.")


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

    Examples
    --------
    >>> import numpy as np
    >>> from dualad.testing import laws
    >>> laws.check_laws(lambda x, y: np.tanh(x) @ y, (np.ones((2, 3)), np.arange(3.0)))
    """
    refuse_unknown("law", laws, LAWS)
    for name in laws:
        LAWS[name](f, args, seed=seed)


# ── comparing ────────────────────────────────────────────────────────────────────────────────────────────────────


def _agree(law: str, f: Callable, a: np.ndarray, b: np.ndarray, size: Any, rtol: float) -> None:
    with np.errstate(invalid="ignore"):
        wrong = ~(same(a, b) | (np.abs(a - b) <= rtol * size + 1e-300))
    if wrong.any():
        k = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise failure(
            "law",
            f"`{name_of(f)}` breaks a law: {law}: {a[k]:.12g} is not {b[k]:.12g} at entry {k}.",
            "every derivative obeys it",
            "look at the rules on the way (dualad.testing.check_rule)",
            analytical=a,
            numerical=b,
        )


def _same_trees(law: str, f: Callable, left: Any, right: Any, rtol: float) -> None:
    a, b = flatten(left)[0], flatten(right)[0]
    if len(a) != len(b):
        raise failure("law", f"`{name_of(f)}` breaks a law: {law}: {len(a)} arrays are not {len(b)}.")
    for x, y in zip(a, b, strict=True):
        x, y = np.asarray(x), np.asarray(y)
        if x.shape != y.shape or x.dtype != y.dtype:
            raise failure("law", f"`{name_of(f)}` breaks a law: {law}: {x.dtype}{x.shape} is not {y.dtype}{y.shape}.")
        if x.dtype.kind in "biufc":
            allowed = max(rtol, SINGLE) if is_single(x.dtype) and rtol else rtol
            _agree(law, f, x, y, np.abs(y).max(initial=0.0), allowed)


def _random_or_none(x: Any, rng: np.random.Generator) -> Any:
    return random_like(x, rng) if np.asarray(x).dtype.kind in "fc" else None
