"""How the series of an operator's result is made of those of its operands.

| the operator is | coefficient of order k |
|---|---|
| without derivative | none: its value is a constant |
| linear in one series | op(xₖ), all orders in one batched call |
| linear in several together | op of the coefficients of order k; a constant has one of order 0 only |
| linear in each of several | Σ op(xⱼ, yₖ₋ⱼ) |
| one with a recurrence of its own | ``native.py`` |
| a call of a program or a function | the program or the function of series (``declare``) |
| a function of one number, where second derivatives are summed | f′ x₂ + f″/2 Σ x₁² |
| any other | [J(x)·x′]ₖ₋₁ / k, by its JVP rule |

The last row needs no rule of its own: y′ = J(x)·x′, so the operator's JVP rule is run on series, with x′ in place of
the tangent. Where the rule computes the operator's own value (``out = np.exp(x)``), it is handed the very series that
is being made: ``memo`` knows it by its operands. Coefficients of order k are then asked for below order k only.

Not for: the order in which anything is computed (``tracer.py``).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core.aval import aval_of, is_inexact
from ..core.dispatch import bind
from ..core.primitive import Primitive
from ..core.tracer import PLAIN, Tracer
from ..dual import Dual, DualLevel
from ..memory.memory import is_unchanged, snapshot
from ..ops.kinds import broadcast_tangent, is_finite, known_value, times
from .native import NATIVE, compiled_stream, slope_and_bend
from .stream import Stream, convolve, derivative, overlap

__all__ = ["declare", "series_kind", "stream_of"]

#: operator -> function (level, call) -> tuple of results' coefficients; see ``declare``
_PROGRAMS: dict[str, Callable] = {}

#: operators whose result is computed by a function that is run on the series themselves
_INLINE = frozenset({"checkpoint_call", "custom_vmap_call", "linear_call"})


class Call:
    """One call of an operator on series: ``streams`` has ``None`` for a constant, ``zeroth`` the values.

    ``degree`` is the order, in the variable of the whole, of the coefficient 0 of its results.
    """

    __slots__ = ("args", "degree", "level", "op", "params", "streams", "wrap", "zeroth")

    def __init__(self, level, wrap, op, args, streams, zeroth, params) -> None:
        self.level, self.wrap, self.op, self.params = level, wrap, op, params
        self.args, self.streams, self.zeroth = args, streams, zeroth
        self.degree = _degree(op, streams, params)

    def on(self, k: int, zeros: Sequence = ()) -> Any:
        """Run the operator on the coefficients of order k; where they are zero, on those of ``zeros``."""
        values = []
        for i, (s, value) in enumerate(zip(self.streams, self.zeroth, strict=True)):
            moves = s is not None and s.last > 0
            c = s.coef(k) if moves else value
            values.append(zeros[i] if zeros and (c is None or (not moves and zeros[i] is not None)) else c)
        return bind(self.op, values, self.params)

    @property
    def plain(self) -> bool:
        """Whether all coefficients and all constants are plain."""
        return all([type(a) in PLAIN if s is None else s.plain for s, a in zip(self.streams, self.args, strict=True)])

    def stream(self, first: Any, more: Callable, last: int | None = None) -> Stream:
        """Make a stream of a result: plain, if all that it is made of is; without ``last`` it may have no end."""
        level = self.level
        last = level.order if last is None else min(last, level.order)
        plain = level.pick is None and type(first) in PLAIN and self.plain
        return Stream(first, more, last, plain=plain, degree=self.degree, pick=level.pick)

    def moving(self) -> list[int]:
        """Return the positions of series that are not constant."""
        return [i for i, s in enumerate(self.streams) if s is not None and s.last > 0]


def stream_of(level, wrap: Callable, op: Primitive, args: Sequence, streams: list, zeroth: list, params: dict) -> Any:
    """Return the result of an operator as series of a level; ``wrap`` makes a tensor of a stream."""
    moving = [s for s in streams if s is not None and s.last > 0]
    if not moving:
        degree = _degree(op, streams, params)
        made = tuple([
            Stream(o, None, 0, degree=degree, pick=level.pick) if is_inexact(aval_of(o).dtype) else o
            for o in _results(op, bind(op, zeroth, params))
        ])  # fmt: skip
    elif level.memo is None:
        made = _now(Call(level, wrap, op, args, streams, zeroth, params))
    else:
        key = _key(op, args, streams, params)
        known = level.memo.get(key)
        if known is not None and _same(known[1], args):
            made = known[0]
        else:
            held = [
                None if s is not None else snapshot(a) if type(a) is np.ndarray or isinstance(a, Tracer) else a
                for a, s in zip(args, streams, strict=True)
            ]
            kept = [wrap(s, level) if s is not None else h for s, h in zip(streams, held, strict=True)]
            values = [z if s is not None else h for z, s, h in zip(zeroth, streams, held, strict=True)]
            call = Call(level, wrap, op, kept, streams, values, params)
            made = _choose(call)
            _note(made, call, key, held, args)
            if level.lazy:
                level.waiting += [s for s in made if type(s) is Stream]
    out = tuple([wrap(s, level) if type(s) is Stream else s for s in made])
    return out if op.multiple_results else out[0]


def _results(op: Primitive, out: Any) -> Sequence:
    return out if op.multiple_results else (out,)


def _degree(op: Primitive, streams: Sequence, params: dict) -> int:
    """Return the order, in the variable of the whole, of the coefficient 0 of an operator's results."""
    degrees = [0 if s is None else s.degree for s in streams]
    if not any(degrees):
        return 0
    linear = op.linear_positions(len(streams), params)
    return max(degrees) if op.joint else sum([d for i, d in enumerate(degrees) if i in linear])


def _now(call: Call) -> tuple:
    """Compute a call of the function's, to the order of the level; what its rule made on the way is forgotten.

    Where an infinity or a NaN comes out it is computed again with strong zeros, which cost a look at every product.
    """
    level = call.level
    if not level.strong and (found := compiled_stream(call)) is not None:
        return (found,)
    for strong in (level.strong, True):
        level.memo, before, level.strong = {}, level.strong, strong
        try:
            made = _choose(call)
            results = [s for s in made if type(s) is Stream and s.more]
            if results:
                held = [None if s is not None else a for a, s in zip(call.args, call.streams, strict=True)]
                _note(made, call, _key(call.op, call.args, call.streams, call.params), held, call.args)
                with np.errstate(all="ignore"):
                    for s in results:
                        s.coef(level.order)
                        s.more = None
        finally:
            level.memo, level.strong = None, before
        with np.errstate(all="ignore"):
            if strong or all([not s.plain or is_finite(s.upto(s.last)) for s in results]):
                break
    return made


def _key(op: Primitive, args: Sequence, streams: Sequence, params: dict) -> tuple:
    operands = tuple([_identity(a if s is None else s) for a, s in zip(args, streams, strict=True)])
    return op, operands, _frozen(params)


def _identity(x: Any) -> Any:
    """Return an operand's key: a number's value and sign, any other object itself (the memo holds it)."""
    kind = type(x)
    if kind is complex or (kind is float and not x):
        return kind, repr(x)
    return (kind, x) if kind in (int, float, bool) else id(x)


def _frozen(params: dict) -> tuple:
    out = []
    for name in sorted(params):
        value = params[name]
        try:
            hash(value)
        except TypeError:
            value = id(value)
        out.append((name, value))
    return tuple(out)


def _same(held: Sequence, args: Sequence) -> bool:
    """Whether constants are unchanged: their memory may have been written to, or reused."""
    for h, a in zip(held, args, strict=True):
        if type(h) is np.ndarray:
            if h is not a and not np.array_equal(h, a, equal_nan=h.dtype.kind in "fc"):
                return False
        elif isinstance(h, Tracer) and not is_unchanged(h, a):
            return False
    return True


def _note(made: tuple, call: Call, key: tuple, held: Sequence, args: Sequence) -> None:
    """Note what a call gives: its rule may compute the operator's own value."""
    if not call.op.effect:
        call.level.memo.setdefault(key, (made, held, args, call))  # the call holds what the key knows by its place


def _choose(call: Call) -> tuple:
    """Choose, and make the streams of the results; one that has none is a constant."""
    op, moving = call.op, call.moving()
    program = _PROGRAMS.get(op.name)
    if program is not None:
        return _of_program(call, program)
    if op.name in _INLINE and not getattr(call.params["call"], "once", False):
        out = op.impl(*call.args, **call.params)
        return tuple([x.variable if type(x) is call.wrap and x.level is call.level else x for x in out])
    linear = op.linear_positions(len(call.args), call.params)
    if all([i in linear for i in moving]) and not _beside_infinity(call, moving):
        if op.joint or op.name == "linear_call":
            return _jointly(call, linear, moving)
        if len(moving) == 1:
            return _linearly(call, moving[0])
        if not op.multiple_results:
            return (_product(call, moving),)
    if call.level.pick is not None and call.level.order == 2 and _entry_by_entry(call, moving):
        return (_summed_second(call, moving[0]),)
    native = NATIVE.get(op.name)
    if native is not None and (made := native(call, moving)) is not None:
        return (made,)
    if op.name == "scale":
        return (_product(call, moving),)
    if op.name == "vanishes":  # a coefficient that is not known yet may be another number than zero
        return (np.zeros(np.shape(call.zeroth[0]), bool),)
    return _derive_streams(call)


#: operators that multiply entries: their rules know zeros that win against infinities
_FACTORS = frozenset({"divide", "einsum", "matmul", "multiply"})


def _beside_infinity(call: Call, moving: list[int]) -> bool:
    if call.op.name not in _FACTORS or (call.op.name == "multiply" and len(moving) == 2):
        return False
    if call.op.name == "divide" and (divisor := known_value(call.zeroth[1])) is not None and not np.all(divisor):
        return True
    return any([is_finite(z) is False for z in call.zeroth])


# ── linear operators ─────────────────────────────────────────────────────────────────────────────────────────────


def _whole(call: Call, positions: Sequence[int]) -> int | None:
    """Return the last order, if all orders of a linear operator can be had in one batched call; else ``None``."""
    moving = [call.streams[i] for i in positions]
    if call.op.batch is None or call.op.given or not call.plain or not all([s.plain and s.complete for s in moving]):
        return None
    return max([s.last for s in moving])


def _linearly(call: Call, i: int) -> tuple:
    """Run an operator that is linear in its one series on each coefficient."""
    op, s = call.op, call.streams[i]
    last = _whole(call, [i])
    if last is not None:
        values = list(call.zeroth)
        values[i] = s.upto(last)
        out = op.batch(last + 1, values, [j == i for j in range(len(values))], **call.params)
        return tuple([_of_block(o, call.degree) for o in _results(op, out)])
    return _by_order(call, lambda k, out: None if s.coef(k) is None else call.on(k), s.last)


def _of_block(block: np.ndarray, degree: int) -> Any:
    if not is_inexact(block.dtype):
        return block[0]
    return Stream(block[0], None, len(block) - 1, block=block, degree=degree)


def _by_order(call: Call, run: Callable[[int, Any], Any], last: int) -> tuple:
    """Make streams of which each coefficient is one call; of several results they share it."""
    once = functools.cache(lambda k: run(k, None))

    def part(n):
        return lambda k, out: None if once(k) is None else once(k)[n]

    return tuple([
        call.stream(x, part(n) if call.op.multiple_results else run, last) if is_inexact(aval_of(x).dtype) else x
        for n, x in enumerate(_results(call.op, call.on(0)))
    ])  # fmt: skip


def _jointly(call: Call, linear: Sequence[int], moving: list[int]) -> tuple:
    """Run an operator that is linear in several arguments together: a constant has a coefficient of order 0 only."""
    op, streams = call.op, call.streams
    last = max([streams[i].last for i in moving])
    zeros = [_zero_like(z) if i in linear else None for i, z in enumerate(call.zeroth)]
    whole = _whole(call, moving)
    if whole is not None and not op.multiple_results and op.name != "filled":
        first = call.on(0)
        if not is_inexact(aval_of(first).dtype):
            return (first,)
        values, mapped = list(call.zeroth), [i in moving for i in range(len(call.args))]
        for i in linear:
            values[i] = zeros[i]
        for i in moving:
            s = streams[i]
            values[i] = s.upto(s.last)[1:]
            if s.last < last:
                values[i] = np.concatenate([values[i], np.zeros((last - s.last, *s.shape), s.dtype)])
        block = np.empty((last + 1, *np.shape(first)), first.dtype)
        block[0] = first
        if op.name in ("add", "subtract") and len(moving) == 1 and np.shape(values[moving[0]])[1:] == np.shape(first):
            block[1:] = -values[1] if op.name == "subtract" and moving[0] == 1 else values[moving[0]]
        else:
            block[1:] = op.batch(last, values, mapped, **call.params)
        return (Stream(block[0], None, last, block=block, degree=call.degree),)
    if op.name in ("add", "subtract"):
        return (_sum(call, moving, last),)

    def run(k, out):
        if all([streams[i].coef(k) is None for i in moving]):
            return None
        return call.on(k, zeros)

    return _by_order(call, run, last)


def _zero_like(x: Any) -> Any:
    """Return zeros in place of a constant, or of a coefficient that is zero; a Python number stays one."""
    if type(x) in (bool, int, float, complex):
        return type(x)(0)
    aval = aval_of(x)
    return np.zeros(aval.shape, aval.dtype)[()]


def _sum(call: Call, moving: list[int], last: int) -> Stream:
    x, y = [call.streams[i] if i in moving else None for i in (0, 1)]
    minus = call.op.name == "subtract"

    def run(k, out):
        a, b = None if x is None else x.coef(k), None if y is None else y.coef(k)
        if b is None:
            return a
        if a is None:
            fits = out is not None and out.shape == np.shape(b)
            return b if not minus else np.negative(b, out=out) if fits else -b
        if out is not None:
            return (np.subtract if minus else np.add)(a, b, out=out)
        return a - b if minus else a + b

    return call.stream(call.on(0), run, last)


# ── products ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _product(call: Call, moving: list[int]) -> Stream:
    """Convolve the series of an operator that is linear in each of them."""
    op, streams, zeroth, params, level = call.op, call.streams, call.zeroth, call.params, call.level
    factors = [streams[i] for i in moving]
    last = sum([s.last for s in factors])
    first = bind(op, zeroth, params)
    if op.name == "multiply":
        product = call.stream(first, lambda k, out: convolve(factors[0], factors[1], k, out, strong=level.strong), last)
        product.fleeting = True
        return product
    if op.batch is not None and call.plain and len(factors) == 2:
        i, j = moving
        mapped = [n in moving for n in range(len(zeroth))]

        def pairs(k, out):
            x, y = factors
            low, high = overlap(x, y, k)
            if low > high:
                return None
            values = list(zeroth)
            values[i] = x.upto(high)[low:]
            values[j] = y.upto(k - low)[k - high :][::-1]
            return op.batch(high - low + 1, values, mapped, **params).sum(0)

        return call.stream(first, pairs, last)

    def combine(k, left, chosen, rest):
        if not rest:
            values = list(zeroth)
            for i, c in zip(moving, chosen, strict=True):
                values[i] = c
            out = bind(op, values, params)
            return out if level.pick is None else level.pick(out, k + call.degree)
        total = None
        for j in range(min(left, rest[0].last) + 1) if len(rest) > 1 else (left,):
            c = rest[0].coef(j)
            part = None if c is None else combine(k, left - j, [*chosen, c], rest[1:])
            if part is not None:
                total = part if total is None else total + part
        return total

    return call.stream(first, lambda k, out: combine(k, k, [], factors), last)


# ── all others ───────────────────────────────────────────────────────────────────────────────────────────────────


def _derive_streams(call: Call) -> tuple:
    """Make streams of which the coefficients are those of J(x)·x′, by the operator's own JVP rule."""
    op, level = call.op, call.level
    streams: list[Any] = []

    @functools.cache
    def tangents() -> Sequence:
        primes = [derivative(s) if s is not None and is_inexact(s.dtype) else None for s in call.streams]
        moved = [None if p is None else call.wrap(p, level) for p in primes]
        return _results(op, op.jvp(call.args, moved, **call.params)[1])

    def coefficient(n):
        def more(k, out):
            t = tangents()[n]
            stream = streams[n]
            if type(t) is call.wrap and t.level is level:
                t = t.variable
                if k == 1 and t.last < stream.last - 1 and t.more is None:
                    stream.last = t.last + 1
                # A single sum of products that is asked for once is written to its final place.
                if 1 < k <= t.last + 1 and t.fleeting and len(t.coefs) == 1 and not level.lazy:
                    t = t.more(k - 1, out) if t.pick is None else t.coef(k - 1)
                else:
                    t = t.coef(k - 1)
                if t is None or k == 1:
                    return t
                return t / k if out is None else np.divide(t, k, out=out)
            if k == 1:
                stream.last = 0 if t is None else 1
            return None if t is None or k > 1 else broadcast_tangent(t, stream)

        return more

    for n, x in enumerate(_results(op, bind(op, call.zeroth, call.params))):
        streams.append(call.stream(x, coefficient(n)) if is_inexact(aval_of(x).dtype) else x)
    return tuple(streams)


def _entry_by_entry(call: Call, moving: list[int]) -> bool:
    """Whether an operator is an elementwise function of one real number."""
    if call.op.kind not in ("binary", "special", "unary") or call.op.multiple_results or len(moving) != 1:
        return False
    s = call.streams[moving[0]]
    shape = np.broadcast_shapes(*[np.shape(z) for z in call.zeroth])
    return s.degree == 0 and s.dtype.kind == "f" and s.shape == shape


def _summed_second(call: Call, i: int) -> Stream:
    """Sum second derivatives of f over directions: f′ x₂ + f″/2 Σ x₁², in which only x₁ has lanes."""
    op, s, pick = call.op, call.streams[i], call.level.pick
    first = bind(op, call.zeroth, call.params)
    with np.errstate(all="ignore"):
        slope, bend = slope_and_bend(op.name, call.zeroth[i], first) or _slope_and_curvature(call, i)

    def more(k, out):
        x1, own = s.coef(1), s.coef(k)
        total = None if slope is None or own is None else times(own, slope)
        if k == 1:
            return total
        if bend is None or x1 is None:
            return total
        squares = pick.product(x1, x1, 2)
        squares = pick(x1 * x1, 2) if squares is None else squares
        part = times(squares, bend)
        return part if total is None else total + part

    return call.stream(first, more, 2)


def _slope_and_curvature(call: Call, i: int) -> tuple[Any, Any]:
    """Return f′ and f″/2 of a function of one number, by its JVP rule and that rule's derivative."""
    s = call.streams[i]
    one = np.ones(s.shape, s.dtype)[()]
    with DualLevel("series") as dual:
        args: list = list(call.zeroth)
        tangents: list = [None] * len(args)
        args[i], tangents[i] = Dual(args[i], one, dual), one
        slope = call.op.jvp(args, tangents, **call.params)[1]
        if not (type(slope) is Dual and slope.level is dual):
            return slope, None
        bend = slope._tangent
        return slope._primal, None if bend is None else bend / 2


def declare(name: str) -> Callable:
    """Declare what the operator of this name, which runs a program, makes of series.

    The function is ``rule(order, values, params)``, where a value is a list of coefficients up to an order for each
    series and what it is for each constant; it returns a list of coefficients, or one value without any, for each
    result.
    """

    def register(rule: Callable) -> Callable:
        _PROGRAMS[name] = rule
        return rule

    return register


def _of_program(call: Call, rule: Callable) -> tuple:
    """Run a program of series to the orders that are known; where they come one by one, again for each."""
    call.degree = max([s.degree for s in call.streams if s is not None])
    pick = call.level.pick

    def through(s: Stream, order: int) -> Any:
        coefs = s.through(order)
        # A program knows nothing of sums over directions: it is given them in lanes, and its results are summed.
        coefs = coefs if pick is None else [pick.spread(c, k + s.degree) for k, c in enumerate(coefs)]
        return coefs if s.last else coefs[0]

    @functools.lru_cache(maxsize=1)
    def run(order: int) -> Sequence:
        values = [z if s is None else through(s, order) for s, z in zip(call.streams, call.zeroth, strict=True)]
        return rule(order, values, call.params)

    complete = all([s is None or s.complete for s in call.streams])
    first = run(call.level.order if complete else 0)

    def part(n):
        def more(k, out):
            found = run(call.level.order if complete else k)[n]
            return found[k] if type(found) is list and k < len(found) else None

        return more

    made = []
    for n, x in enumerate(first):
        value = x[0] if type(x) is list else x
        if not is_inexact(aval_of(value).dtype):
            made.append(value if pick is None else pick(value, 0))
            continue
        last = (len(x) - 1 if type(x) is list else 0) if complete else call.level.order
        made.append(call.stream(value, part(n), last))
    return tuple(made)


def series_kind(op: Primitive) -> str:
    """Say how the series of an operator is made, for tables."""
    if op.jvp is None:
        return "none"
    if op.name in _PROGRAMS or op.name in _INLINE:
        return "program"
    if op.name in NATIVE:
        return "native"
    if op.kind == "bilinear" or (op.linear_in == (-1,) and not op.joint):
        return "bilinear"
    return "linear" if op.joint or op.linear_in == (0,) else "derived"
