"""Recurrences of operators whose series costs less than what their JVP rule makes of it.

Each holds where the derived series does and gives the same numbers (tests compare the two); where it does not, at a
pole or on values that are not known yet, it returns ``None`` and the JVP rule serves. Functions of an entry that solve
a differential equation (exp, tanh, sin, ...) have one for plain arrays only, and compute all orders in one loop. Not
for: a rule that only repeats what the JVP rule makes.

Where large arrays ask for the same function of an entry again and again, the recurrence, or the derived series, is
written down as a program of the rows of the operands' blocks and compiled: all orders of an entry are then computed at
once, and nothing in between is stored.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.above import ABOVE
from ..core.aval import Aval
from ..core.contexts import active
from ..core.dispatch import bind
from ..core.primitive import Primitive
from ..core.tracer import PLAIN
from ..ops.factorization import solve
from ..ops.kinds import is_finite, known_value
from ..ops.kinks import _convention
from ..program.ir import Program
from ..tensors.staged import StagedLevel
from .stream import Stream, convolve, derivative, overlap

__all__ = ["NATIVE", "compiled_stream", "slope_and_bend"]

#: how many entries make an array large; how often it is asked for before it is compiled, which costs as much as some
#: hundred calls; and the highest order, whose program is as long as its square
_LARGE, _OFTEN, _HIGHEST = 4096, 64, 16

_KINDS = frozenset({"binary", "quotient", "unary"})
_REAL = np.dtype(float)


def compiled_stream(call: Any) -> Stream | None:
    """Return the stream of a call of the function's by compiled code; ``None`` where there is none (yet)."""
    op, level = call.op, call.level
    if (op.kind not in _KINDS and op.name != "multiply") or op.multiple_results:
        return None
    moving = call.moving()
    shape = call.streams[moving[0]].shape
    size = math.prod(shape)
    if size < _LARGE or not 1 < level.order <= _HIGHEST or level.pick is not None or active() is not None:
        return None
    parts: tuple[Any, ...] = tuple([_part(call, i, i in moving, shape) for i in range(len(call.args))])
    if None in parts or (len(moving) == 1 and moving[0] in op.linear_positions(len(parts), call.params)):
        return None
    try:  # as text too: 0.0 and -0.0 are equal
        numbers = repr((parts, call.params))
        kernel = _kernel(op, tuple(sorted(call.params.items())), level.order, size, numbers, _convention.get())
    except TypeError:  # parameters that can't be looked up
        return None
    run = kernel.ready(call, parts, size)
    if run is None:
        return None
    first = bind(op, call.zeroth, call.params)
    arrays = [
        call.streams[i].upto(n).reshape(n + 1, size) if n else np.ascontiguousarray(call.zeroth[i]).reshape(size)
        for i, (kind, n) in enumerate(parts)
        if kind == "array"
    ]
    (block,) = run(*arrays, np.ascontiguousarray(first).reshape(size))
    if not is_finite(block):
        return None
    stream = Stream(first, None, level.order, block=block.reshape(len(block), *shape))
    stream.coefs[0] = first
    return stream


def _part(call: Any, i: int, moves: bool, shape: tuple) -> tuple[str | type, Any] | None:
    """Return an argument's kind: an array with its number of further orders, or a number; ``None`` for others."""
    s, x = call.streams[i], call.zeroth[i]
    if moves:
        return ("array", s.last) if s.plain and s.complete and s.shape == shape and s.dtype == _REAL else None
    if type(x) in (int, float):
        return type(x), x
    return ("array", 0) if type(x) in PLAIN and np.shape(x) == shape and x.dtype == _REAL else None


@functools.lru_cache(maxsize=64)
def _kernel(op: Primitive, params: tuple, order: int, size: int, numbers: str, convention: Hashable) -> _Kernel:
    return _Kernel()


@dataclass(slots=True)
class _Kernel:
    """The code of an operator's series for operands of one kind and size, and how often it was asked for."""

    calls: int = 0
    code: Any = None

    def ready(self, call: Any, parts: Sequence, size: int) -> Callable | None:
        """Return the code, once it was asked for often."""
        self.calls += 1
        if self.calls == _OFTEN:
            with contextlib.suppress(Exception):  # a rule that branches on values, or refuses to be written down
                self.code = ABOVE.machine_code(_record_series(call, parts, size))
        return self.code and self.code.run


def _record_series(call: Any, parts: Sequence, size: int) -> Program:
    """Write the series of a call down: a program of blocks of rows and of the value itself, whose result is a block."""
    order = call.level.order
    with StagedLevel("series") as staged, type(call.level)(call.level.transform, order) as level:
        args: list = []
        for kind, n in parts:
            if kind != "array":
                args.append(n)
                continue
            x = staged.new_input(Aval((n + 1, size) if n else (size,), _REAL))
            if n:
                stream = Stream(x[0], None, n)
                stream.coefs += [x[k] for k in range(1, n + 1)]
                x = call.wrap(stream, level)
            args.append(x)
        out = bind(call.op, args, call.params)
        rows: list[Any] = out.variable.through(order) if type(out) is call.wrap else [out]
        zero = np.zeros(size)
        rows = [zero if c is None else c for c in rows] + [zero] * (order + 1 - len(rows))
        first = rows[0].variable
        program = staged.finish([np.stack(rows)], call.op.name)
    # The value is the function's own, to the bit: it is given.
    steps = [step for step in program.steps if first not in step.outs]
    return Program([*program.inputs, first], steps, program.outputs, program.name)


_FAR_FROM_SINGULAR = 1e3

#: name of an operator -> function (call, positions of moving series) -> stream or None
NATIVE: dict[str, Callable] = {}


def _native(*names: str) -> Callable:
    def register(rule: Callable) -> Callable:
        NATIVE.update(dict.fromkeys(names, rule))
        return rule

    return register


def _integral(call: Any, first: Any, slope: Callable[[Any], Any]) -> Stream:
    """Return the stream of which ``slope(its tensor)`` is the derivative."""
    slope_of = functools.cache(lambda y: slope(call.wrap(y, call.level)).variable)

    def coefficient(call: Any, y: Stream, k: int) -> Any:
        t = slope_of(y).coef(k - 1)
        return t if k == 1 else _over(t, k)

    return _recurrent(call, first, coefficient)


def _recurrent(call: Any, first: Any, coefficient: Callable[[Any, Stream, int], Any]) -> Stream:
    """Return the stream y of which ``coefficient(call, y, k)`` is the coefficient of order k, from those below."""
    y: Stream = call.stream(first, lambda k, out: coefficient(call, y, k))
    return y


def _recurrence(name: str, at: Callable | None = None, value: Callable | None = None) -> Callable:
    """Declare a coefficient for ``_recurrent``; it holds where ``at(x₀)`` and ``value(y₀)`` do."""

    def register(coefficient: Callable[[Any, Stream, int], Any]) -> Callable:
        @_native(name)
        def rule(call: Any, moving: list[int]) -> Stream | None:
            if at is not None and not at(call.zeroth[0]):
                return None
            first = bind(call.op, call.zeroth, call.params)
            return None if value is not None and not value(first) else _recurrent(call, first, coefficient)

        return coefficient

    return register


def _regular(x: Any) -> bool:
    """Whether a value is known, finite and nowhere zero."""
    x = known_value(x)
    return x is not None and bool(is_finite(x)) and bool(np.all(x))


def _may_be_finite(x: Any) -> bool:
    return is_finite(x) is not False


# Each of these may be exactly zero: ``None``.


def _at(x: Stream | None, k: int) -> Any:
    return None if x is None else x.coef(k)


def _products(call: Any, x: Stream, y: Stream, k: int, weights: np.ndarray | None = None) -> Any:
    """Return Σ xⱼ yₖ₋ⱼ over j > 0."""
    return convolve(x, y, k, strong=call.level.strong, least=1, weights=weights)


def _plus(total: Any, product: Any, y: Stream, k: int) -> Any:
    """Add a product that belongs to the coefficient of order k of y; one may be a sum over directions already."""
    product = product if y.pick is None else y.pick(product, k + y.degree)
    return product if total is None else total + product


def _minus(total: Any, products: Any) -> Any:
    return total if products is None else -products if total is None else total - products


def _over(total: Any, divisor: Any) -> Any:
    return None if total is None else total / divisor


@_recurrence("divide", value=_may_be_finite)
def _divide(call: Any, y: Stream, k: int) -> Any:
    """Y d = n:  yₖ = (nₖ − Σ_{j>0} dⱼ yₖ₋ⱼ)/d₀."""
    n, d = call.streams
    return _over(_minus(_at(n, k), _products(call, d, y, k)), call.zeroth[1])


@_recurrence("reciprocal", value=_may_be_finite)
def _reciprocal(call: Any, y: Stream, k: int) -> Any:
    """Y d = 1."""
    products = _products(call, call.streams[0], y, k)
    return None if products is None else -products * y.coefs[0]


@_recurrence("sqrt", value=_regular)
def _sqrt(call: Any, y: Stream, k: int) -> Any:
    """y² = x:  yₖ = (xₖ − Σ_{0<j<k} yⱼ yₖ₋ⱼ)/(2 y₀)."""
    inside = None
    for j in range(1, k // 2 + 1):
        a, b = y.coef(j), y.coef(k - j)
        if a is not None and b is not None:
            inside = _plus(inside, a * b if 2 * j == k else 2 * (a * b), y, k)
    return _over(_minus(call.streams[0].coef(k), inside), 2 * y.coefs[0])


@_recurrence("log", at=_regular)
def _log(call: Any, y: Stream, k: int) -> Any:
    """X y′ = x′:  yₖ = (xₖ − Σ_{0<j<k} (j/k) yⱼ xₖ₋ⱼ)/x₀."""
    (x,) = call.streams
    weights = (np.arange(k, 0, -1) / k).astype(x.dtype)
    return _over(_minus(x.coef(k), _products(call, x, y, k, weights)), x.coefs[0])


@_recurrence("solve")
def _solve(call: Any, y: Stream, k: int) -> Any:
    """With A y = b:  yₖ = A₀⁻¹ (bₖ − Σ_{j>0} Aⱼ yₖ₋ⱼ)."""
    a, b = call.streams
    low, high = overlap(a, y, k, 1)
    inside = None
    for j in range(low, high + 1):
        left, right = a.coef(j), y.coef(k - j)
        if left is not None and right is not None:
            inside = _plus(inside, left @ right, y, k)
    total = _minus(_at(b, k), inside)
    return None if total is None else solve(call.zeroth[0], total)


@_native("power")
def _power(call: Any, moving: list[int]) -> Stream | None:
    """X y′ = a x′ y for a number a:  yₖ = Σ_{j>0} (a j − (k−j)) xⱼ yₖ₋ⱼ/(k x₀).  Else xᵉ = exp(e log x)."""
    x, e = call.args
    if not _regular(call.zeroth[0]):
        return None
    if moving != [0]:
        base = known_value(call.zeroth[0])
        if np.iscomplexobj(base) or not np.all(base > 0) or is_finite(known_value(call.zeroth[1])) is not True:
            return None
        power = e * np.log(x)
        return _integral(
            call,
            bind(call.op, call.zeroth, call.params),
            lambda y: y * call.wrap(derivative(power.variable), call.level),
        )
    if type(e) not in (int, float) or e in (0, 1, 2, 3):
        return None
    first = bind(call.op, call.zeroth, call.params)
    return _recurrent(call, first, _number_power) if is_finite(first) else None


def _number_power(call: Any, y: Stream, k: int) -> Any:
    x, e = call.streams[0], call.args[1]
    orders = np.arange(k + 1)
    weights = ((e * orders - (k - orders)) / k).astype(y.dtype)
    return _over(_products(call, x, y, k, weights), x.coefs[0])


# ── functions of an entry that solve a differential equation ─────────────────────────────────────────────────────


def _slopes(call: Any) -> np.ndarray | None:
    """Return the coefficients of x′ as rows, the last one first, if a loop over plain arrays can be used."""
    (x,) = call.streams
    if call.level.pick is not None or call.level.strong or call.params or not (x.plain and x.complete):
        return None
    rows = x.upto(x.last)[1:].reshape(x.last, math.prod(x.shape))
    return (rows * np.arange(1, x.last + 1, dtype=x.dtype)[:, None])[::-1]


def _rows(call: Any, first: Any) -> np.ndarray:
    rows = np.empty((call.level.order + 1, np.size(first)), first.dtype)
    rows[0] = np.ravel(first)
    return rows


def _step(slopes: np.ndarray, q: np.ndarray, k: int, out: np.ndarray) -> None:
    """Write the coefficient k of ∫ q x′ into a row: Σ qⱼ x′ₖ₋₁₋ⱼ/k."""
    count = min(k, len(slopes))
    _dot(slopes[len(slopes) - count :], q[k - count : k], out)
    if k > 1:
        out /= k


def _dot(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> None:
    if a.shape[1] == 1:
        out[0] = a[:, 0].dot(b[:, 0])
    elif len(a) == 1:
        np.multiply(a[0], b[0], out=out)
    else:
        np.einsum("kn,kn->n", a, b, out=out)


def _of_rows(call: Any, first: Any, rows: np.ndarray) -> Stream:
    (x,) = call.streams
    stream = Stream(first, None, len(rows) - 1, block=rows.reshape(len(rows), *x.shape), degree=x.degree)
    stream.coefs[0] = first
    return stream


#: y′ = (a + b y + c y²) x′, one of a and b being zero where c is not
_QUADRATIC = {
    "exp": (0, 1, 0), "expm1": (1, 1, 0), "expit": (0, 1, -1), "logistic": (0, 1, -1), "tan": (1, 0, 1),
    "tanh": (1, 0, -1),
}  # fmt: skip


@_native(*_QUADRATIC)
def _quadratic(call: Any, moving: list[int]) -> Stream | None:
    """With q = a + b y + c y²:  yₖ = Σ_{j<k} (k−j) qⱼ xₖ₋ⱼ/k."""
    a, b, c = _QUADRATIC[call.op.name]
    slopes = _slopes(call)
    if slopes is None and (a or not c):
        return None
    first = bind(call.op, call.zeroth, call.params)
    if slopes is None:  # the rule of the logistic function does more
        prime = call.wrap(derivative(call.streams[0]), call.level)
        return _integral(call, first, lambda y: (y - y * y) * prime)
    y = _rows(call, first)
    with np.errstate(all="ignore"):
        if not c:
            y[0] += a
            q = y
        else:
            q = np.empty((len(y) - 1, y.shape[1]), y.dtype)
        for k in range(len(y) - 1):
            if c:
                half, row = (k + 1) // 2, q[k]
                if k:
                    _dot(y[:half], y[k : k - half : -1], row)
                    row *= 2 * c
                    if k % 2 == 0:
                        middle = y[half] * y[half]
                        row += middle if c > 0 else np.negative(middle, out=middle)
                else:
                    np.multiply(y[0], c * y[0], out=row)
                    row += a
                if b:
                    row += y[k]
            _step(slopes, q, k + 1, y[k + 1])
        if a and not c:
            y[0] = np.ravel(first)
    return _of_rows(call, first, y)


#: y′ = p x′ with p′ = ±y x′: the partner and the sign
_PAIRS = {"cos": ("sin", -1), "cosh": ("sinh", 1), "sin": ("cos", -1), "sinh": ("cosh", 1)}


@_native(*_PAIRS)
def _pair(call: Any, moving: list[int]) -> Stream | None:
    """With the partner p:  yₖ = Σ_{j<k} (k−j) pⱼ xₖ₋ⱼ/k, and likewise p of ±y."""
    slopes = _slopes(call)
    if slopes is None:
        return None
    partner, sign = _PAIRS[call.op.name]
    first = bind(call.op, call.zeroth, call.params)
    y = _rows(call, first)
    with np.errstate(all="ignore"):
        p = _rows(call, getattr(np, partner)(call.zeroth[0]))
        if call.op.name == "cos":  # its derivative is −sin
            np.negative(p[0], out=p[0])
        for k in range(1, len(y)):
            _step(slopes, p, k, y[k])
            if k + 1 < len(y):
                _step(slopes, y, k, p[k])
                if sign < 0:
                    np.negative(p[k], out=p[k])
    return _of_rows(call, first, y)


def slope_and_bend(name: str, x: Any, y: Any) -> tuple[Any, Any] | None:
    """Return y′ and y″/2 of a function of an entry at x, whose value is y; ``None`` of others than the above."""
    if name in _QUADRATIC:
        a, b, c = _QUADRATIC[name]
        slope = y + a if not c else (y if b else a) + c * (y * y)
        return slope, slope * (0.5 * b + c * y if c else 0.5)
    if name in _PAIRS:
        partner, sign = _PAIRS[name]
        slope = getattr(np, partner)(x)
        return -slope if name == "cos" else slope, (0.5 * sign) * y
    return None


@_native("det")
def _det(call: Any, moving: list[int]) -> Stream | None:
    """y′ = y tr(A⁻¹ A′), where A is far from singular."""
    first, matrices = bind(call.op, call.zeroth, call.params), known_value(call.zeroth[0])
    if not _regular(first) or not np.all(np.linalg.cond(matrices) < _FAR_FROM_SINGULAR):
        return None
    (a,) = call.args
    prime = call.wrap(derivative(call.streams[0]), call.level)
    return _integral(call, first, lambda y: y * np.trace(solve(a, prime), axis1=-2, axis2=-1))


@_native("expm", "logm", "sqrtm")
def _matrix_function(call: Any, moving: list[int]) -> Stream | None:
    """Take the function of the block triangular matrix with Aⱼ on its j-th diagonal: its first row holds the yₖ."""
    if len(call.args) != 1 or call.level.pick is not None:
        return None
    first = bind(call.op, call.zeroth, call.params)
    (a,) = call.streams
    whole: list = []

    def more(k, out):
        if k >= len(whole):
            size = call.level.order if a.complete else k
            zero = np.zeros(a.shape, a.dtype)
            blocks = [zero if (c := a.coef(j)) is None else c for j in range(size + 1)]
            rows = [np.concatenate([*[zero] * i, *blocks[: size + 1 - i]], axis=-1) for i in range(size + 1)]
            row = bind(call.op, (np.concatenate(rows, axis=-2),), call.params)
            n = a.shape[-1]
            whole[:] = [row[..., :n, j * n : (j + 1) * n] for j in range(size + 1)]
        return whole[k]

    return call.stream(first, more)
