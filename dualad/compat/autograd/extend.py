"""autograd's rules for functions of one's own: ``primitive`` with ``defvjp``, ``defjvp`` and their kin; ``vspace``.

A primitive is called with plain arrays, however deeply derivatives are nested; under ``vmap`` and ``jit``, which
autograd has not, it runs on tensors. Its rules come in two forms:

    vjp:  vjpmaker(argnums, ans, args, kwargs)(g)      -> one cotangent for each of argnums
    jvp:  jvpmaker(argnums, tangents, ans, args, kwargs) -> the tangent of ans

and the others are put into them. One of the two is enough for both modes: ``custom_vjp`` transposes, ``custom_jvp`` is
transposed. Not for: new code, where ``dualad.custom_vjp`` and ``dualad.wrap`` say the same in fewer words.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

import numpy as np

from dualad.base.tree import flatten, tree_map
from dualad.boundary.boundary import running
from dualad.core.aval import aval_of
from dualad.core.tracer import Tracer
from dualad.errors import RuleMissingError, UnsupportedError
from dualad.jvp import stop_gradient
from dualad.rules.calls import has_tensor
from dualad.rules.custom_jvp import SymbolicZero, custom_jvp
from dualad.rules.custom_vjp import ForwardArgument, custom_vjp

__all__ = [
    "Box", "VSpace", "def_linear", "defjvp", "defjvp_argnum", "defjvp_argnums", "defvjp", "defvjp_argnum",
    "defvjp_argnums", "notrace_primitive", "primitive", "register_notrace", "vspace",
]  # fmt: skip


class _Moved(tuple):
    """The positions of the arguments that a derivative is taken in; no tree, so that rules hand it on as it is."""

    __slots__ = ()


class _Rules:
    """The rules declared for a primitive."""

    __slots__ = ("jvp", "vjp")

    def __init__(self) -> None:
        self.vjp: Callable | None = None
        self.jvp: Callable | None = None


def primitive(f_raw: Callable) -> Callable:
    """Make a function one that is never looked into, whose derivative ``defvjp`` or ``defjvp`` declares."""
    rules = _Rules()

    @functools.wraps(f_raw)
    def wrapped(*args, **kwargs):
        traced = [i for i, x in enumerate(args) if isinstance(x, Tracer) or has_tensor(x)]
        if traced:
            return _differentiated(wrapped, f_raw, rules, traced, args, kwargs)
        inside = running.set(False)  # what it makes are plain arrays
        try:
            return f_raw(*args, **kwargs)
        finally:
            running.reset(inside)

    wrapped.fun, wrapped._is_autograd_primitive, wrapped._rules = f_raw, True, rules  # type: ignore[attr-defined]
    return wrapped


def _differentiated(
    wrapped: Callable, f_raw: Callable, rules: _Rules, traced: list[int], args: tuple, kwargs: dict
) -> Any:
    """Call a primitive whose arguments at the positions ``traced`` hold tensors."""

    def full(values):
        given = list(args)
        for i, value in zip(traced, values, strict=True):
            given[i] = value
        return tuple(given)

    def plain(*values):
        return f_raw(*full(values), **kwargs)

    plain.__name__ = name = getattr(f_raw, "__name__", "primitive")
    if rules.vjp is None:
        return _forward(wrapped, plain, name, rules.jvp, traced, full, kwargs)(*[args[i] for i in traced])

    pullbacks = rules.vjp

    def fwd(*given):
        moving = lambda x: isinstance(x, ForwardArgument) and x.perturbed
        moved = _Moved([i for i, x in zip(traced, given, strict=True) if any(map(moving, flatten(x)[0]))])
        values = tree_map(lambda x: x.value if isinstance(x, ForwardArgument) else x, given)
        ans = wrapped(*full(values), **kwargs)
        return ans, (moved, ans, values)

    def bwd(residuals, g):
        moved, ans, values = residuals
        g = tree_map(lambda c: c.instantiate() if isinstance(c, SymbolicZero) else c, g)
        pulled = dict(zip(moved, pullbacks(moved, ans, full(values), kwargs)(g), strict=True))
        return tuple([_cotangent(pulled.get(i), x) for i, x in zip(traced, values, strict=True)])

    call = custom_vjp(plain)
    call.defvjp(fwd, bwd, symbolic_zeros=True)
    return call(*[args[i] for i in traced])


def _forward(
    wrapped: Callable,
    plain: Callable,
    name: str,
    rule: Callable | None,
    traced: list[int],
    full: Callable,
    kwargs: dict,
) -> Callable:
    call = custom_jvp(plain)

    @functools.partial(call.defjvp, symbolic_zeros=True)
    def jvp_rule(primals, tangents):
        given = full(primals)
        ans = wrapped(*given, **kwargs)
        moved = [(i, t) for i, t in zip(traced, tangents, strict=True) if not isinstance(t, SymbolicZero)]
        if rule is None:
            _refuse(name, [i for i, _ in moved])
        return ans, rule(tuple([i for i, _ in moved]), [t for _, t in moved], ans, given, kwargs)

    return call


def _cotangent(g: Any, x: Any) -> Any:
    """Return a cotangent in the dtype of its argument, which rules of autograd need not keep."""
    if g is None or not hasattr(x, "dtype"):
        return g
    g = g if hasattr(g, "dtype") else np.asarray(g)
    dtype = aval_of(x).dtype
    if g.dtype == dtype:
        return g
    return (np.real(g) if g.dtype.kind == "c" and dtype.kind != "c" else g).astype(dtype)


def _refuse(name: str, argnums: Iterable[int]) -> NoReturn:
    raise RuleMissingError(
        f"`{name}` was differentiated with respect to its arguments {tuple(argnums)}, for which it has no rule.",
        "a primitive is never looked into",
        f"declare one: defvjp({name}, lambda ans, x, ...: lambda g: ..., argnums=(...,))",
    )


def _rules_of(fun: Callable) -> _Rules:
    rules = getattr(fun, "_rules", None)
    if not isinstance(rules, _Rules):
        raise RuleMissingError(
            f"A rule was declared for `{getattr(fun, '__name__', fun)}`, which is no primitive.",
            "NumPy's functions have their rules already, and other functions are looked into",
            "decorate it: @primitive",
        )
    return rules


# ── reverse mode ─────────────────────────────────────────────────────────────────────────────────────────────────


def defvjp_argnums(fun: Callable, vjpmaker: Callable) -> None:
    """Declare ``vjpmaker(argnums, ans, args, kwargs)(g)``, which returns one cotangent for each of ``argnums``."""
    _rules_of(fun).vjp = vjpmaker


def defvjp_argnum(fun: Callable, vjpmaker: Callable) -> None:
    """Declare ``vjpmaker(argnum, ans, args, kwargs)(g)``, of one argument."""

    def all_of(argnums, *call):
        pulls = [vjpmaker(i, *call) for i in argnums]
        return lambda g: [pull(g) for pull in pulls]

    defvjp_argnums(fun, all_of)


def defvjp(fun: Callable, *vjpmakers: Callable | None, argnums: Iterable[int] | None = None) -> None:
    """Declare ``vjpmaker(ans, *args, **kwargs)(g)`` for each argument; None where the derivative is zero."""
    made = dict(zip(itertools.count() if argnums is None else argnums, vjpmakers, strict=False))

    def of_one(argnum, ans, args, kwargs):
        if argnum not in made:
            _refuse(getattr(fun, "__name__", "primitive"), (argnum,))
        maker = made[argnum]
        return (lambda g: None) if maker is None else maker(ans, *args, **kwargs)

    defvjp_argnum(fun, of_one)


# ── forward mode ─────────────────────────────────────────────────────────────────────────────────────────────────


def defjvp_argnums(fun: Callable, jvpmaker: Callable) -> None:
    """Declare ``jvpmaker(argnums, tangents, ans, args, kwargs)``, which returns the tangent of ``ans``."""
    _rules_of(fun).jvp = jvpmaker


def defjvp_argnum(fun: Callable, jvpmaker: Callable) -> None:
    """Declare ``jvpmaker(argnum, tangent, ans, args, kwargs)``, what one argument adds to the tangent."""

    def all_of(argnums, tangents, *call):
        parts = [jvpmaker(i, t, *call) for i, t in zip(argnums, tangents, strict=True)]
        return functools.reduce(np.add, parts) if parts else None

    defjvp_argnums(fun, all_of)


def defjvp(fun: Callable, *jvpmakers: Callable | str | None, argnums: Iterable[int] | None = None) -> None:
    """Declare ``jvpmaker(g, ans, *args, **kwargs)`` for each argument; ``"same"`` where it is linear in that."""
    made = dict(zip(itertools.count() if argnums is None else argnums, jvpmakers, strict=False))

    def of_one(argnum, tangent, ans, args, kwargs):
        if argnum not in made:
            _refuse(getattr(fun, "__name__", "primitive"), (argnum,))
        maker = made[argnum]
        if maker is None:
            return np.zeros_like(ans)
        if maker == "same":
            return _at_tangent(fun, argnum, tangent, args, kwargs)
        return maker(tangent, ans, *args, **kwargs)  # type: ignore[operator]

    defjvp_argnum(fun, of_one)


def def_linear(fun: Callable) -> None:
    """Declare that a function is linear in each of its arguments."""
    defjvp_argnum(fun, lambda i, g, ans, args, kwargs: _at_tangent(fun, i, g, args, kwargs))


def _at_tangent(fun: Callable, argnum: int, tangent: Any, args: tuple, kwargs: dict) -> Any:
    """Return a linear function of a tangent: of the code itself, so that it can be transposed."""
    return fun.fun(*args[:argnum], tangent, *args[argnum + 1 :], **kwargs)  # type: ignore[attr-defined]


# ── constants, and what values are made of ───────────────────────────────────────────────────────────────────────


def notrace_primitive(f_raw: Callable) -> Callable:
    """Make a function one that sees plain values and whose result is a constant."""

    @functools.wraps(f_raw)
    def wrapped(*args, **kwargs):
        return f_raw(*map(stop_gradient, args), **kwargs)

    return wrapped


def register_notrace(_trace_type: type, _primitive: Callable) -> None:
    """Accept that a primitive's result is a constant in one mode; a rule that returns zero says it in all."""


class VSpace:
    """The space of the values that are like one: arrays and numbers, in lists, tuples and dicts."""

    def __init__(self, value: Any) -> None:
        self._like = tree_map(lambda x: np.zeros(np.shape(x), aval_of(x).dtype)[()], value)
        self._leaves = flatten(self._like)[0]

    size = property(lambda self: sum([x.size * (2 if np.iscomplexobj(x) else 1) for x in self._leaves]))
    shape = property(lambda self: self._leaves[0].shape)
    ndim = property(lambda self: self._leaves[0].ndim)
    dtype = property(lambda self: self._leaves[0].dtype)
    iscomplex = property(lambda self: any(map(np.iscomplexobj, self._leaves)))

    def zeros(self) -> Any:
        """Return zeros."""
        return tree_map(np.copy, self._like)

    def ones(self) -> Any:
        """Return ones."""
        return tree_map(np.ones_like, self._like)

    def randn(self) -> Any:
        """Return random numbers, normally distributed."""
        normal = np.random.default_rng().normal

        def draw(x):
            parts = normal(size=(2, *x.shape))
            return (parts[0] + 1j * parts[1] if np.iscomplexobj(x) else parts[0]).astype(x.dtype)

        return tree_map(draw, self._like)

    @classmethod
    def register(cls, value_type: type, *_maker: Any) -> NoReturn:
        """Refuse a space of one's own."""
        _refuse_class(cls, value_type)

    def __eq__(self, other: object) -> bool:
        mine, theirs = [[(x.shape, x.dtype) for x in getattr(s, "_leaves", [None])] for s in (self, other)]
        return isinstance(other, VSpace) and mine == theirs

    __hash__ = None  # type: ignore[assignment]


def vspace(value: Any) -> VSpace:
    """Return the space of a value."""
    return VSpace(value)


class Box:
    """The base of autograd's classes of tensors, which are of no use here: there is one for all arrays."""

    @classmethod
    def register(cls, value_type: type) -> NoReturn:
        """Refuse a class of tensors of one's own."""
        _refuse_class(cls, value_type)


def _refuse_class(cls: type, value_type: type) -> NoReturn:
    raise UnsupportedError(
        f"{cls.__name__}.register was given the class `{value_type.__name__}`.",
        "here derivatives are of arrays: an object is differentiated as the tree of its arrays",
        f"tell which those are: da.register_node({value_type.__name__}, flatten, unflatten)",
    )
