"""The closed list of what two programs may differ in and still be the same, bit for bit.

A rewrite that is not in ``EXACT`` can't get through a proof; to add one is to say why it is exact. For: ``rewritten``,
the value that an equation stands for by one of these lines. Not for: the proof (``validate.py``), or making programs
smaller (``simplify.py``, which shares nothing with this).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.aval import Aval
from ..core.tables import OPS
from .names import Value

if TYPE_CHECKING:
    from .validate import Runner

__all__ = ["EXACT", "RULES", "is_one"]

#: what programs may differ in, and why it is exact
EXACT = {
    "one array without entries for another": "there is nothing in them to differ",
    "entries of none, added at places": "zeros",
    "equal equations are one": "the same operator of the same names, if it does nothing but return",
    "equations change places": "those with effects keep their order",
    "equations that nothing reads are left out": "also those with effects, and those that might raise",
    "a constant for what an operator makes of constants": "the operator's own code has made it",
    "x for a move of all of x": "copy, positive, stop_gradient, astype, reshape, index, transpose, ...",
    "other moves of the same entries to the same places": "names are moved by the operators' own code",
    "x for x * 1, 1 * x, x / 1": "bit for bit, where the dtype stays; not for complex numbers",
    "x for -(-x)": "bit for bit, where the dtype stays",
    "square(x), square(x) * x, square(square(x)) for x**2, x**3, x**4": "real x; at least as near to the truth as pow",
    "t * d for scale(t, d)": "where t is known and nowhere 0, or d is known and finite",
    "b for eye @ b, a for a @ eye": "the zeros of a basis are strong",
    "real(x), conjugate(x) for x": "real x",
    "x == 0 for vanishes(x)": "nobody differentiates it any more",
    "value for filled(like, value)": "a buffer of one number takes no memory",
    "f(a, b) for f(broadcast(a), b)": "elementwise f; the shape of the result stays",
    "an index of int64 for one of shorter integers": "the same positions",
    "the equations of a program for its call": "its results are arrays, not Python numbers",
    "iterations for a loop that was found again": "run through here",
}


def is_one(v: Value) -> bool:
    """Whether a value is known to be one, or to consist of ones."""
    if v.known is None or v.aval.dtype.kind not in "iuf":
        return False
    return bool(v.known == 1) if not v.aval.shape else v.aval.size > 0 and bool(np.all(v.known == 1))


def _spread(run: Runner, v: Value, out: Aval) -> Value:
    if v.aval.shape != out.shape:
        v = run.names.taken(OPS["broadcast_to"], v, {"shape": out.shape})[0]
    return run.names.weak(v, out.weak)


def _product(run: Runner, op: Any, args: Sequence[Value], out: Aval) -> Value | None:
    a, b = args
    for one, other in ((b, a), (a, b)) if op.name == "multiply" else ((b, a),):
        if out.dtype.kind in "fiu" and other.aval.dtype == out.dtype and is_one(one):
            return _spread(run, other, out)
    return None


def _scaled(run: Runner, op: Any, args: Sequence[Value], out: Aval) -> Value | None:
    t, d = [v.known for v in args]
    if (d is not None and np.all(np.isfinite(d))) or (t is not None and np.all(np.not_equal(t, 0))):
        return _product(run, OPS["multiply"], args, out) or run.elementwise(OPS["multiply"], args, out)
    return None


def _power(run: Runner, op: Any, args: Sequence[Value], out: Aval) -> Value | None:
    x, n = args
    if out.dtype.kind != "f" or x.aval != out or n.aval.shape or n.known is None or n.known not in (2, 3, 4):
        return None
    squared = run.elementwise(OPS["square"], [x], Aval(out.shape, out.dtype))
    if n.known == 3:
        return run.elementwise(OPS["multiply"], [squared, x], out)
    return squared if n.known == 2 else run.elementwise(OPS["square"], [squared], out)


def _negative(run: Runner, op: Any, args: Sequence[Value], out: Aval) -> Value | None:
    (x,) = args
    before = run.negated.get(run.names.seen(x))
    if before is not None and before.aval == out == x.aval:
        return before
    made = run.elementwise(op, args, out)
    run.negated[run.names.seen(made)] = x
    return made


def _matrix_product(run: Runner, op: Any, args: Sequence[Value], out: Aval) -> Value | None:
    for one, other in (args, args[::-1]):
        x = one.known
        if type(x) is np.ndarray and out.dtype.kind == "f" and other.aval == out and x.ndim == out.ndim == 2:
            if x.shape[0] == x.shape[1] and np.array_equal(x, np.eye(len(x))):
                return other
    return None


def _cast(run: Runner, op: Any, args: Sequence[Value], out: Aval) -> Value | None:
    return run.names.cast(args[0], out.dtype)


def _real(run: Runner, op: Any, args: Sequence[Value], out: Aval) -> Value | None:
    return args[0] if args[0].aval.dtype.kind != "c" and args[0].aval == out else None


def _itself(run: Runner, op: Any, args: Sequence[Value], out: Aval) -> Value | None:
    return args[0]


def _vanishes(run: Runner, op: Any, args: Sequence[Value], out: Aval) -> Value | None:
    return run.elementwise(OPS["equal"], [args[0], run.names.constant(0)], out)


def _added_nothing(run: Runner, op: Any, args: Sequence[Value], out: Aval) -> Value | None:
    return None if args[0].aval.size else run.names.constant(np.zeros(out.shape, out.dtype))


def _filled(run: Runner, op: Any, args: Sequence[Value], out: Aval) -> Value | None:
    return _spread(run, run.names.cast(args[1], out.dtype), out)


#: operators that a line of ``EXACT`` is about, with the value that an equation stands for by it, or ``None``
RULES: dict[str, Callable[..., Value | None]] = {
    "astype": _cast, "checkpoint_name": _itself, "conjugate": _real, "copy": _itself, "divide": _product,
    "filled": _filled, "index_add": _added_nothing, "matmul": _matrix_product, "multiply": _product,
    "negative": _negative, "positive": _itself, "power": _power, "real": _real, "scale": _scaled,
    "stop_gradient": _itself, "vanishes": _vanishes,
}  # fmt: skip
