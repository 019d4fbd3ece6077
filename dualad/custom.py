"""Custom rules: a user's own derivative for a user's own function.

For: ``custom_jvp`` (reverse mode follows by transposition) and ``custom_vjp`` (forward mode follows by transposing the
pullback), so that one rule serves both modes. A call of such a function is one operator whose parameters are the
function and its rule; every level treats it as it treats any other operator. Not for: rules of NumPy's functions, which
are declarations in ``ops/``.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import optree

from .core.aval import Aval, aval_of, is_inexact
from .core.dispatch import apply
from .core.op import Op
from .core.tracer import Tensor
from .errors import ArgumentError, RuleMissingError, ShapeError, TreeError
from .jvp import jvp, output_leaves, shown_tangent
from .staged import StagedLevel
from .tree import flatten, flatten_like, is_array, leaf_names
from .vjp_via_transpose import linear_transpose
from .vmap import vmap

__all__ = ["custom_jvp", "custom_vjp"]


# ── calls as operators ───────────────────────────────────────────────────────────────────────────────────────────


class _Call:
    """What a call of a custom function consists of besides its arrays: a parameter of the operator.

    ``function(*leaves)`` and the rules take and return flat lists of arrays. A batched call is another ``_Call`` whose
    parts are mapped.
    """

    __slots__ = ("found", "function", "name", "rules")

    def __init__(self, name: str, function: Callable, rules: tuple[Callable, ...], found: dict) -> None:
        self.name, self.function, self.rules, self.found = name, function, rules, found

    def __repr__(self) -> str:
        return f"<call of {self.name}>"


def _call_shape(*avals, call):
    """Find the avals of the results by running the function on variables of a program that is thrown away."""
    with StagedLevel(f"{call.name} (shapes)") as level:
        out = call.function(*[level.new_input(Aval(a.shape, a.dtype)) for a in avals])
        return tuple([aval_of(x) for x in out])


def _axes(mapped) -> list:
    return [0 if m else None for m in mapped]


def _samples(rules: Callable) -> Callable:
    """Make sample calls of x ↦ (sin x · y, x + y) with the given maker of rules."""

    def function(x, y):
        return [np.sin(x) * y, x + y]

    def samples():
        call = _Call("sample", function, rules(), {"out": flatten([0.0, 0.0])[1]})
        return [((3,), (3,), {"call": call}), ((), (), {"call": call})]

    return samples


# ── custom_jvp ───────────────────────────────────────────────────────────────────────────────────────────────────


def _jvp_call_jvp(primals, tangents, *, call):
    # Integer and boolean arguments have no tangent; the rule is given zeros of dtype float0 for them.
    given = [shown_tangent(p, t) for p, t in zip(primals, tangents, strict=True)]
    out = call.rules[0](*primals, *given)
    half = len(out) // 2
    return tuple(out[:half]), tuple(
        [t if is_inexact(aval_of(v).dtype) else None for v, t in zip(out[:half], out[half:], strict=True)]
    )


def _jvp_call_batch(size, values, mapped, *, call):
    axes = _axes(mapped)
    # The tangents of a mapped call have the batch axis wherever a level above this one gives it to them.
    batched = _Call(
        call.name,
        vmap(call.function, tuple(axes), axis_size=size),
        (_batched_rule(call.rules[0], axes, size),),
        call.found,
    )
    return apply(custom_jvp_call, values, {"call": batched})


def _batched_rule(rule: Callable, axes: list, size: int) -> Callable:
    """Map a rule over (primals, tangents); a primal that is not mapped may have a mapped tangent."""

    def mapped(*arguments):
        n = len(axes)
        primals, tangents = arguments[:n], arguments[n:]
        tangent_axes = [
            0 if a == 0 or np.shape(t) != np.shape(p) else None
            for a, p, t in zip(axes, primals, tangents, strict=True)
        ]
        return vmap(rule, (*axes, *tangent_axes), axis_size=size)(*arguments)

    return mapped


custom_jvp_call = Op(
    "custom_jvp_call",
    impl=lambda *leaves, call: tuple(call.function(*leaves)),
    shape=_call_shape,
    jvp=_jvp_call_jvp,
    batch=_jvp_call_batch,
    samples=_samples(
        lambda: (lambda x, y, s, t: [np.sin(x) * y, x + y, np.cos(x) * y * s + np.sin(x) * t, s + t],),
    ),
    multiple=True,
    kind="custom",
)


class custom_jvp:  # noqa: N801  (a decorator, spelled like a function)
    """Give a function its own forward-mode rule; reverse mode follows by transposition.

    Parameters
    ----------
    f : callable
        The function, in plain NumPy, of any trees.

    Examples
    --------
    >>> import numpy as np
    >>> import dualad as da
    >>> @da.custom_jvp
    ... def log1pexp(x):
    ...     return np.log1p(np.exp(x))
    >>> @log1pexp.defjvp
    ... def log1pexp_jvp(primals, tangents):
    ...     (x,), (t,) = primals, tangents
    ...     return log1pexp(x), t * (1 - 1 / (1 + np.exp(x)))
    >>> float(da.grad(log1pexp)(100.0))
    1.0
    """

    def __init__(self, f: Callable) -> None:
        self.f = f
        self.rule: Callable | None = None
        functools.update_wrapper(self, f)

    def defjvp(self, rule: Callable) -> Callable:
        """Set the rule: ``rule(primals, tangents) -> (out, tangent_out)``; usable as a decorator.

        Parameters
        ----------
        rule : callable
            Given the tuples of primals and of tangents (zeros where nothing moves), it returns the value and its
            tangent, which is linear in the tangents and has the value's structure, shapes and dtypes.

        Returns
        -------
        callable
            ``rule`` itself.
        """
        self.rule = rule
        return rule

    def __call__(self, *args, **kwargs):
        if self.rule is None:
            raise RuleMissingError(
                f"the custom_jvp function `{self.__name__}` was called without a rule.",
                "its derivative is whatever its rule says, and it has none",
                f"define one: @{self.__name__}.defjvp",
            )
        args = _positional(self.f, args, kwargs)
        leaves, in_tree = flatten(args)
        if not any(isinstance(x, Tensor) for x in leaves):
            return self.f(*args)
        arrays = [i for i, x in enumerate(leaves) if is_array(x)]
        found: dict[str, Any] = {}

        def rebuild(values):
            full = list(leaves)
            for i, v in zip(arrays, values, strict=True):
                full[i] = v
            return optree.tree_unflatten(in_tree, full)

        def function(*values):
            out, found["out"] = output_leaves(self.f(*rebuild(values)), self.__name__)
            return out

        def rule(*values):
            half = len(values) // 2
            pair = self.rule(rebuild(values[:half]), rebuild(values[half:]))
            if not (isinstance(pair, tuple) and len(pair) == 2):
                raise TreeError(
                    f"the jvp rule of `{self.__name__}` returned a {type(pair).__name__}.",
                    "it returns the pair (value, tangent)",
                    "end the rule with `return value, tangent`",
                )
            return _checked_pair(pair, self.__name__, found)

        call = _Call(self.__name__, function, (rule,), found)
        out = apply(custom_jvp_call, [leaves[i] for i in arrays], {"call": call})
        return optree.tree_unflatten(found["out"], list(out))


def _checked_pair(pair: tuple, name: str, found: dict) -> list:
    """Check a rule's value and tangent against each other and return both, flat."""
    values, tree = output_leaves(pair[0], f"the jvp rule of `{name}`")
    tangents, tangent_tree = output_leaves(pair[1], f"the jvp rule of `{name}`")
    if tree != tangent_tree:
        raise TreeError(
            f"the jvp rule of `{name}` returned a tangent of structure {tangent_tree} for a value of structure {tree}.",
            "the tangent is a direction in the space of the value",
            "return the tangent in the structure of the value",
        )
    found["out"] = tree
    for i, (v, t) in enumerate(zip(values, tangents, strict=True)):
        a, b = aval_of(v), aval_of(t)
        if a.shape != b.shape:
            raise ShapeError(
                f"the jvp rule of `{name}` returned a tangent of shape {b.shape} for result {i} of shape {a.shape}.",
                "a tangent has its value's shape",
                "sum or broadcast the tangent as the value itself is",
            )
        tangents[i] = t if hasattr(t, "shape") else np.asarray(t)[()]
    return [*values, *tangents]


def _positional(f: Callable, args: tuple, kwargs: dict) -> tuple:
    """Resolve keyword arguments and defaults to positions, so that a rule sees them all in order."""
    if not kwargs:
        return args
    try:
        bound = inspect.signature(f).bind(*args, **kwargs)
    except TypeError as error:
        raise ArgumentError(f"`{getattr(f, '__name__', f)}`: {error}.") from None
    bound.apply_defaults()
    if bound.kwargs:
        raise ArgumentError(
            f"`{f.__name__}` has keyword-only arguments {sorted(bound.kwargs)}.",
            "a custom rule is given its arguments by position",
            "make them positional, or bind them with functools.partial",
        )
    return bound.args


# ── custom_vjp ───────────────────────────────────────────────────────────────────────────────────────────────────
#
# fwd(x) = (y, r) and bwd(r, c) = Aᵀc, where A = ∂f(x). The tangent is A t, and A is the transpose of the linear map
# c ↦ bwd(r, c): transposing the user's pullback gives forward mode. As an operator, `pulled` is linear in t; its
# transpose is the user's rule itself, so reverse mode never transposes twice.


def _vjp_call_jvp(primals, tangents, *, call):
    fwd, bwd = call.rules
    n = len(primals)
    results = fwd(*primals)
    count = call.found["out"].num_leaves
    out, residuals = results[:count], results[count:]
    moved = [i for i in range(n) if tangents[i] is not None]
    avals = tuple([aval_of(v) for v in out])
    if not moved:
        return tuple(out), (None,) * count
    params = {"bwd": bwd, "moved": tuple(moved), "outs": avals, "residuals": len(residuals)}
    tangent = apply(pulled, (*[tangents[i] for i in moved], *residuals), params)
    return tuple(out), tuple([t if is_inexact(a.dtype) else None for t, a in zip(tangent, avals, strict=True)])


def _pulled_split(args, residuals: int) -> tuple[list, list]:
    cut = len(args) - residuals
    return list(args[:cut]), list(args[cut:])


def _pulled_impl(*args, bwd, moved, outs, residuals):
    tangents, known = _pulled_split(args, residuals)

    def pullback(*cts):
        given = bwd(*known, *cts)
        return tuple([given[i] for i in moved])

    transposed = linear_transpose(pullback, *[np.zeros(a.shape, a.dtype) for a in outs])
    return transposed(tuple([np.astype(t, a.dtype) for t, a in zip(tangents, transposed.out_avals, strict=True)]))


def _pulled_transpose(ct, *args, bwd, moved, outs, residuals):
    _, known = _pulled_split(args, residuals)
    given = bwd(*known, *ct)
    return (*[given[i] for i in moved], *[None] * residuals)


def _pulled_jvp(primals, tangents, **params):
    """Differentiate A(r) t: linear in t; in r by differentiating the transposed pullback as the program it is."""
    from_tangents, known = _pulled_split(tangents, params["residuals"])
    n = len(from_tangents)
    out = apply(pulled, primals, params)
    total = [None] * len(out)
    if any(t is not None for t in from_tangents):
        filled = [t if t is not None else np.zeros(np.shape(p), aval_of(p).dtype) for t, p in zip(from_tangents, primals[:n], strict=True)]
        total = list(apply(pulled, (*filled, *primals[n:]), params))
    if any(t is not None for t in known):
        from_known = _pulled_residual_jvp(primals, known, n, params)
        total = [a if b is None else b if a is None else a + b for a, b in zip(total, from_known, strict=True)]
    return out, tuple(total)


def _pulled_residual_jvp(primals, known_tangents, n: int, params: dict) -> list:
    held, residuals = primals[:n], primals[n:]
    moving = [i for i, t in enumerate(known_tangents) if t is not None]

    def of_residuals(*values):
        full = list(residuals)
        for i, v in zip(moving, values, strict=True):
            full[i] = v
        return list(_pulled_impl(*held, *full, **params))

    return jvp(of_residuals, tuple([residuals[i] for i in moving]), tuple([known_tangents[i] for i in moving]))[1]


def _pulled_batch(size, values, mapped, *, bwd, moved, outs, residuals):
    _, known = _pulled_split(mapped, residuals)
    rule = vmap(bwd, (*_axes(known), *[0] * len(outs)), axis_size=size)
    batched = tuple([Aval((size, *a.shape), a.dtype) for a in outs])
    full = [v if m or i >= len(values) - residuals else np.broadcast_to(v, (size, *np.shape(v))) for i, (v, m) in enumerate(zip(values, mapped, strict=True))]
    return apply(pulled, full, {"bwd": rule, "moved": moved, "outs": batched, "residuals": residuals})


def _pulled_samples():
    params = {"bwd": lambda r, c: [np.cos(r) * c], "moved": (0,), "residuals": 1}
    return [
        ((3,), (3,), {**params, "outs": (Aval((3,), np.dtype(float)),)}),
        ((), (), {**params, "outs": (Aval((), np.dtype(float)),)}),
    ]


pulled = Op(
    "pulled",
    impl=_pulled_impl,
    shape=lambda *avals, bwd, moved, outs, residuals: outs,
    jvp=_pulled_jvp,
    linear_in=lambda count, params: range(count - params["residuals"]),
    joint=True,
    transpose=_pulled_transpose,
    batch=_pulled_batch,
    samples=_pulled_samples,
    multiple=True,
    kind="custom",
)


def _vjp_call_batch(size, values, mapped, *, call):
    axes = _axes(mapped)
    fwd, bwd = call.rules
    function, forward = (vmap(g, tuple(axes), axis_size=size) for g in (call.function, fwd))

    def backward(*residuals_and_cts):
        # An argument shared by all lanes receives the sum of what they send back.
        cts = vmap(bwd, 0, axis_size=size)(*residuals_and_cts)
        return [c if a == 0 else c.sum(0) for c, a in zip(cts, axes, strict=True)]

    return apply(custom_vjp_call, values, {"call": _Call(call.name, function, (forward, backward), call.found)})


custom_vjp_call = Op(
    "custom_vjp_call",
    impl=lambda *leaves, call: tuple(call.function(*leaves)),
    shape=_call_shape,
    jvp=_vjp_call_jvp,
    batch=_vjp_call_batch,
    samples=_samples(
        lambda: (
            lambda x, y: [np.sin(x) * y, x + y, x, y],
            lambda x, y, c, d: [np.cos(x) * y * c + d, np.sin(x) * c + d],
        ),
    ),
    multiple=True,
    kind="custom",
)


class custom_vjp:  # noqa: N801  (a decorator, spelled like a function)
    """Give a function its own reverse-mode rule; forward mode follows by transposing the pullback.

    Parameters
    ----------
    f : callable
        The function, in plain NumPy, of any trees.

    Examples
    --------
    >>> import numpy as np
    >>> import dualad as da
    >>> @da.custom_vjp
    ... def clipped(x):
    ...     return x * 1.0
    >>> clipped.defvjp(lambda x: (clipped(x), None), lambda residuals, ct: (np.clip(ct, -1.0, 1.0),))
    >>> float(da.grad(lambda x: 10.0 * clipped(x))(2.0))
    1.0
    """

    def __init__(self, f: Callable) -> None:
        self.f = f
        self.fwd: Callable | None = None
        self.bwd: Callable | None = None
        functools.update_wrapper(self, f)

    def defvjp(self, fwd: Callable, bwd: Callable) -> None:
        """Set the rule.

        Parameters
        ----------
        fwd : callable
            ``fwd(*args) -> (out, residuals)``: the value, and a tree of whatever ``bwd`` needs.
        bwd : callable
            ``bwd(residuals, ct) -> cotangents``: a tuple with one cotangent per argument (``None`` for zero), linear
            in ``ct``.
        """
        self.fwd, self.bwd = fwd, bwd

    def __call__(self, *args, **kwargs):
        if self.fwd is None or self.bwd is None:
            raise RuleMissingError(
                f"the custom_vjp function `{self.__name__}` was called without a rule.",
                "its derivative is whatever its rule says, and it has none",
                f"define one: {self.__name__}.defvjp(fwd, bwd)",
            )
        args = _positional(self.f, args, kwargs)
        leaves, in_tree = flatten(args)
        if not any(isinstance(x, Tensor) for x in leaves):
            return self.f(*args)
        arrays = [i for i, x in enumerate(leaves) if is_array(x)]
        names = leaf_names(args, "argument ")
        # The structures of the result and of the residuals, known once the function or its forward rule has run.
        found: dict[str, Any] = {}

        def rebuild(values):
            full = list(leaves)
            for i, v in zip(arrays, values, strict=True):
                full[i] = v
            return optree.tree_unflatten(in_tree, full)

        def function(*values):
            out, found["out"] = output_leaves(self.f(*rebuild(values)), self.__name__)
            return out

        def forward(*values):
            pair = self.fwd(*rebuild(values))
            if not (isinstance(pair, tuple) and len(pair) == 2):
                raise TreeError(
                    f"the fwd rule of `{self.__name__}` returned a {type(pair).__name__}.",
                    "it returns the pair (value, residuals)",
                    "end it with `return value, residuals` (None if nothing is needed)",
                )
            out, found["out"] = output_leaves(pair[0], f"the fwd rule of `{self.__name__}`")
            residuals, found["residuals"] = flatten(pair[1])
            found["static"] = [None if is_array(r) else (r,) for r in residuals]
            return [*out, *[r for r in residuals if is_array(r)]]

        def backward(*values):
            known = iter(values)
            residuals = optree.tree_unflatten(
                found["residuals"], [next(known) if s is None else s[0] for s in found["static"]]
            )
            ct = optree.tree_unflatten(found["out"], list(known))
            return self._cotangents(self.bwd(residuals, ct), args, in_tree, arrays, leaves, names)

        call = _Call(self.__name__, function, (forward, backward), found)
        out = apply(custom_vjp_call, [leaves[i] for i in arrays], {"call": call})
        return optree.tree_unflatten(found["out"], list(out))

    def _cotangents(self, given, args: tuple, in_tree, arrays: list[int], leaves: list, names: list[str]) -> list:
        """Check what ``bwd`` returned and return one cotangent per array argument, zeros for ``None``."""
        where = f"the bwd rule of `{self.__name__}`"
        if not isinstance(given, tuple) or len(given) != len(args):
            raise TreeError(
                f"{where} returned {f'{len(given)} values' if isinstance(given, tuple) else f'a {type(given).__name__}'}"
                f" for {len(args)} arguments.",
                "it returns a tuple with one cotangent per argument of the function",
                "write `return (ct_x,)` for one argument, with None in place of a cotangent that is zero",
            )
        spread: list = []
        for a, g in zip(args, given, strict=True):
            count = len(flatten(a)[0])
            spread += [None] * count if g is None else flatten_like(flatten(a)[1], g, where, "its argument")
        result = []
        for i in arrays:
            aval, c = aval_of(leaves[i]), spread[i]
            if c is None or not is_inexact(aval.dtype):
                result.append(np.zeros(aval.shape, aval.dtype if is_inexact(aval.dtype) else float))
                continue
            if aval_of(c).shape != aval.shape:
                raise ShapeError(
                    f"{where} returned a cotangent of shape {aval_of(c).shape} for {names[i]} of shape {aval.shape}.",
                    "a cotangent has its argument's shape",
                    "sum it over the axes along which the argument was broadcast",
                )
            result.append(c if hasattr(c, "shape") else np.asarray(c, aval.dtype)[()])
        return result
