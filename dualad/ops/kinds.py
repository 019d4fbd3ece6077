"""Kinds: the rules that many operators share, so that a declaration holds only the particulars.

For: ``elementwise``, ``unary``, ``of_every_order``, ``predicate``, ``stacked``, ``of_matrices``, ``along_axis``,
``linear``, ``bilinear``, ``directional``, ``solution``, and the pieces they are made of (``batch_elementwise``,
``unbroadcast``, ``scaled``). Not for: any single operator.

Notation in the derivations: x, y are primals, t tangents, c cotangents, ⟨c, t⟩ = Re Σ c·t the pairing, which is not
conjugated, so that a transpose multiplies by the derivative itself (JAX's convention for complex numbers).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core.aval import Array, Aval, broadcast_shapes, is_weak, python_type
from ..core.constants import match_library, zeros_matching_library
from ..core.contexts import compiling, note
from ..core.dispatch import bind
from ..core.primitive import Primitive
from ..core.tracer import Tracer, beneath, layers
from .finite import is_finite, is_wild, known_value
from .samples import elementwise_samples

__all__ = [
    "add_tangents", "align_ranks", "along_axis", "batch_elementwise", "bilinear", "broadcast_like", "broadcast_tangent",
    "directional", "elementwise", "elementwise_shape", "factor_transpose", "in_lanes", "is_finite", "is_wild",
    "known_value", "linear", "of_every_order", "of_matrices", "predicate", "product_strong_transpose", "repeat_lanes",
    "scale", "solution", "stacked", "strong", "strong_product", "times", "unary", "unbroadcast", "vanishes",
]  # fmt: skip

# ── shapes ───────────────────────────────────────────────────────────────────────────────────────────────────────


def elementwise_shape(ufunc: np.ufunc) -> Callable[..., Aval]:
    """Make the shape rule of a ufunc: broadcast the shapes, promote as NumPy does for this very ufunc."""
    dtypes: dict[tuple, np.dtype] = {}
    arity = ufunc.nin
    if ufunc.nout > 1:

        def shapes(*avals):
            given = [python_type(a) if is_weak(a) else a.dtype for a in avals]
            shape = broadcast_shapes(*avals)
            return tuple([Aval(shape, d) for d in ufunc.resolve_dtypes((*given, *[None] * ufunc.nout))[arity:]])

        return shapes

    def promoted(*avals):
        key = tuple([python_type(a) if is_weak(a) else a.dtype for a in avals])
        dtype = dtypes.get(key)
        if dtype is None:
            dtype = dtypes[key] = ufunc.resolve_dtypes((*key, *[None] * ufunc.nout))[arity]
        return dtype

    # The common cases first: all float64 (where a Python float changes nothing), and equal shapes.
    try:
        double, common = promoted(*[Aval((), _DOUBLE)] * arity), _DOUBLE
    except TypeError:  # a ufunc of integers or booleans only
        double = common = None
    if arity == 1:

        def shape(a):
            dtype = double if a.dtype is common else promoted(a)
            return a if dtype is a.dtype and not is_weak(a) else Aval(a.shape, dtype)
    elif arity == 2:

        def shape(a, b):
            dtype = double if a.dtype is common and b.dtype is common else promoted(a, b)
            left, right = a.shape, b.shape
            if left == right or right == ():
                if dtype is a.dtype and type(a) is Aval and not a.weak:
                    return a
            elif left == ():
                left = right
            else:
                left = np.broadcast_shapes(left, right)
            return Aval(left, dtype)
    else:

        def shape(*avals):
            return Aval(broadcast_shapes(*avals), promoted(*avals))

    return shape


_DOUBLE = np.dtype(float)


# ── tangents ─────────────────────────────────────────────────────────────────────────────────────────────────────


def broadcast_tangent(t, out):
    """Broadcast a tangent to the shape of its value; most have it already (and a Python scalar has no shape)."""
    try:
        return t if t.shape == out.shape else np.broadcast_to(t, out.shape)
    except AttributeError:
        return t


def strong(x):
    """Return a Python float or complex as NumPy's, whose arithmetic gives inf and nan where Python's raises."""
    return _STRONG[type(x)](x) if type(x) in _STRONG else x


_STRONG = {float: np.float64, complex: np.complex128}


def broadcast_like(t, out):
    """Return tangent ``t`` (or an exact zero) as an array of the shape and dtype of ``out``."""
    if t is None:
        return np.broadcast_to(zeros_matching_library((), out.dtype, out), out.shape)
    return broadcast_tangent(t, out)


def add_tangents(s, t):
    """Add two tangents, either of which may be exactly zero."""
    return t if s is None else s if t is None else s + t


def strong_product(t, d):
    """Return ``t * d``, in which an exactly zero ``t`` stays zero times an infinite ``d`` (a strong zero).

    The factor is nearly always an array whose values are known now; then it is soon seen that the plain product will
    do, and the program of a reverse pass is a plain multiplication too.
    """
    return t * d if is_finite(d) else scale(t, d)


def times(t, d):
    """Return ``scaled(t, d)`` for a factor that is the user's own, and of which nothing is feared that is not known.

    In a program that is compiled the product is strong, which costs little there, unless it is differentiated again.
    """
    finite = is_finite(d)
    if finite is None:
        if known_value(d) is None:
            if compiling.get() is None or _moves(t) or _moves(d):
                note("numbers")
            else:
                finite = False
        elif (zeros := known_value(t)) is not None and not np.all(zeros):
            finite = False  # a derivative of d is being written down, which a tangent of zero must not meet
    return scale(t, d) if finite is False else t * d


def _of_tangent(t, d):
    """Return ``times(t, d)``; the product of two arrays, one direction, is not looked at: each call would feel it."""
    return times(t, d) if isinstance(d, Tracer) or isinstance(t, Tracer) else t * d


def _moves(x) -> bool:
    """Whether an outer level differentiates a value, or it is the tangent of a linear program."""
    *_, last = inside = list(layers(x))
    return any([getattr(a, "_tangent", None) is not None for a in inside]) or (
        isinstance(last, Tracer) and last.level.linear
    )


# ── cotangents ───────────────────────────────────────────────────────────────────────────────────────────────────


def unbroadcast(ct, aval: Aval):
    """Sum a cotangent over the axes its argument was broadcast along; drop the imaginary part for a real argument."""
    if ct.dtype is aval.dtype and ct.shape == aval.shape:
        return ct
    if ct.shape != aval.shape:
        extra = ct.ndim - len(aval.shape)
        repeated = tuple([i + extra for i, n in enumerate(aval.shape) if n == 1 and ct.shape[i + extra] != 1])
        ct = ct.sum(tuple(range(extra)) + repeated)
        if ct.shape != aval.shape:
            ct = ct.reshape(aval.shape)
    if ct.dtype.kind == "c" and aval.dtype.kind != "c":
        ct = np.real(ct)
    return ct


# ── batching ─────────────────────────────────────────────────────────────────────────────────────────────────────


def align_ranks(value, ndim: int):
    """Insert axes after the batch axis until a mapped value has ``ndim`` axes per lane, so that lanes broadcast."""
    missing = ndim - (len(value.shape) - 1)
    return value.reshape(value.shape[:1] + (1,) * missing + value.shape[1:]) if missing > 0 else value


def repeat_lanes(x, size: int):
    """Give a value that is the same in all lanes its leading axis."""
    return np.broadcast_to(x, (size, *np.shape(x)))


def in_lanes(values: Sequence, flags: Sequence[bool], size: int) -> tuple:
    """Return results that all have the leading axis, which so far those have that flags name."""
    return tuple([x if f else repeat_lanes(x, size) for x, f in zip(values, flags, strict=True)])


def batch_elementwise(op_of: Callable) -> Callable:
    """Make the batching rule of an elementwise operator: align ranks behind the batch axis, then broadcast."""

    def batch(size: int, values: Sequence, mapped: Sequence[bool], **params: Any) -> Array:
        ndim = max([np.ndim(v) - m for v, m in zip(values, mapped, strict=True)])
        return op_of(*[align_ranks(v, ndim) if m else v for v, m in zip(values, mapped, strict=True)], **params)

    return batch


# ── the kinds ────────────────────────────────────────────────────────────────────────────────────────────────────


def elementwise(
    function, *, samples, name=None, jvp=None, partials=None, singular=False, numpy=None, complex_too=False,
    abstract_eval=None, kind=None, **fields,
) -> Primitive:  # fmt: skip
    """Declare a function of entries, with broadcasting: what it is to a shape and to a batch is the same for all.

    A ufunc also says how many arguments and results there are, what dtype comes out, what the operator is called, and
    which callable of NumPy's means it. ``samples`` are the domain of all arguments or of each, expanded to the shapes
    of ``elementwise_samples`` (with ``complex_too``, to the complex plane as well), or explicit specifications.
    ``partials`` are ``partial(x, y, ..., out)``, the partial derivative from all arguments and the value; ``jvp`` is
    the rule if it is more than a sum over them, and without either there is no derivative. ``singular`` partial
    derivatives have poles inside or at the edge of the domain: tangents are multiplied as strong zeros, and NumPy's
    warnings about the pole of the *derivative* are silenced.
    """
    ufunc = isinstance(function, np.ufunc)
    arity = function.nin if ufunc else 1
    if partials is not None:
        jvp = _sum_of_partials(function, partials, singular)
    if not isinstance(samples, list):
        samples = elementwise_samples(
            *(samples if isinstance(samples, tuple) else (samples,) * arity), complex_too=complex_too
        )
    numpy = (function,) * ufunc if numpy is None else tuple(numpy)
    # Where the function is known to dispatch it is quicker than the operator: on arrays it is only NumPy's.
    again = function if function in numpy else lambda *values, **params: bind(op, values, params)
    op = Primitive(
        name or function.__name__,
        impl=function,
        abstract_eval=abstract_eval or elementwise_shape(function),
        jvp=jvp,
        batch=batch_elementwise(again),
        samples=samples,
        numpy=numpy,
        multiple_results=ufunc and function.nout > 1,
        kind=kind or ("unary" if arity == 1 else "binary"),
        **fields,
    )
    return op


def _sum_of_partials(function: Callable, partials: Sequence[Callable], singular: bool) -> Callable:
    def tangent_of(primals: Sequence, tangents: Sequence, out: Array) -> Array:
        arguments = [strong(p) for p in primals]
        total = None
        for partial, t in zip(partials, tangents, strict=True):
            if t is not None:
                d = partial(*arguments, out)
                product = strong_product if singular else _of_tangent
                total = add_tangents(total, product(t, d))
        return broadcast_tangent(total, out)

    def jvp(primals: Sequence, tangents: Sequence) -> tuple:
        out = function(*primals)
        if not singular:
            return out, tangent_of(primals, tangents, out)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            return out, tangent_of(primals, tangents, out)

    return jvp


def unary(ufunc: np.ufunc, samples, derivative: Callable, *, singular=False, **fields) -> Primitive:
    """Declare a differentiable function of one argument, elementwise; ``derivative(x, out)`` is f′(x), given f(x) too.

    ``samples`` and ``singular`` are as for ``elementwise``; a domain also means the complex plane, where the ufunc is
    defined there.
    """
    if singular:

        def jvp(primals: Sequence, tangents: Sequence) -> tuple:
            x = primals[0]
            if type(x) in _STRONG:
                x = strong(x)
            out = ufunc(x)
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                return out, strong_product(tangents[0], derivative(x, out))
    else:

        def jvp(primals: Sequence, tangents: Sequence) -> tuple:
            x = primals[0]
            if type(x) in _STRONG:
                x = strong(x)
            out = ufunc(x)
            d = derivative(x, out)
            return out, _of_tangent(tangents[0], d)

    return elementwise(ufunc, samples=samples, jvp=jvp, complex_too="D->D" in ufunc.types, **fields)


def of_every_order(name: str, impl: Callable, orders: Sequence[int], samples: list, **fields) -> Primitive:
    """Declare a function of entries together with its derivatives: ``order=n`` is the n-th, whose derivative is next.

    ``samples`` are taken at each of the ``orders``.
    """

    def jvp(primals: Sequence, tangents: Sequence, *, order: int) -> tuple:
        return op(primals[0], order=order), tangents[0] * op(primals[0], order=order + 1)

    op = elementwise(
        impl,
        name=name,
        abstract_eval=lambda x, *, order: Aval(x.shape, x.dtype),
        jvp=jvp,
        samples=[(*spec, {"order": n}) for n in orders for spec in samples],
        blocks="entries",
        **fields,
    )
    return op


def predicate(function, **fields) -> Primitive:
    """Declare an elementwise question or step function: its derivative is zero wherever it has one."""
    return elementwise(function, kind="predicate", **fields)


def stacked(name: str, **fields) -> Primitive:
    """Declare an operator that leaves the leading axes of its arguments alone, which broadcast: a batch is one more."""
    op = Primitive(name, batch=batch_elementwise(lambda *values, **params: bind(op, values, params)), **fields)
    return op


def of_matrices(name: str, *, blocks="stack", raises=True, **fields) -> Primitive:
    """Declare a ``stacked`` operator of the matrices in the last two axes; there may be some that it fails at."""
    return stacked(name, blocks=blocks, raises=raises, **fields)


def along_axis(name: str, **fields) -> Primitive:
    """Declare an operator along the parameter ``axis`` of arguments that broadcast: in a batch it is the next one."""
    op = Primitive(name, batch=_batch_along_axis(lambda: op), **fields)
    return op


def _batch_along_axis(operator: Callable) -> Callable:
    def batch(size: int, values: Sequence, mapped: Sequence[bool], **params: Any) -> Array:
        values = [v if m else v.reshape((1, *v.shape)) for v, m in zip(values, mapped, strict=True)]
        return bind(operator(), values, params | {"axis": params["axis"] + 1})

    return batch


def linear(name: str, *, batch=None, linear_in=(0,), **fields) -> Primitive:
    """Declare an operator linear in its first argument, the others (indices, masks) being constants.

    With one argument the rule is ``batch(size, x, **params)``, ``x`` having the leading axis; with several, the full
    form ``batch(size, values, mapped, **params)``, which is recognized by its parameter ``mapped``. Without it the
    operator is one ``along_axis``.
    """
    if batch is None:
        batch = _batch_along_axis(lambda: op)
    elif "mapped" not in batch.__code__.co_varnames[:3]:
        one = batch

        def batch(size: int, values: Sequence, mapped: Sequence[bool], **params: Any) -> Array:
            return one(size, values[0], **params)

    def jvp(primals: Sequence, tangents: Sequence, **params: Any) -> tuple:
        return bind(op, primals, params), bind(op, (tangents[0], *primals[1:]), params)

    op = Primitive(name, jvp=jvp, linear_in=linear_in, batch=batch, kind="linear", **fields)
    return op


def bilinear(name: str, *, linear_in=(0, 1), **fields) -> Primitive:
    """Declare an operator linear in each of its arguments: ∂(x∘y) = ∂x∘y + x∘∂y, and so on for more of them."""

    def jvp(primals: Sequence, tangents: Sequence, **params: Any) -> tuple:
        out = bind(op, primals, params)
        total = None
        for i, t in enumerate(tangents):
            if t is not None:
                total = add_tangents(total, bind(op, (*primals[:i], t, *primals[i + 1 :]), params))
        return out, total

    op = Primitive(name, jvp=jvp, linear_in=linear_in, kind="bilinear", **fields)
    return op


def directional(name: str, *, back: Callable, **fields) -> Primitive:
    """Declare f(A, X, Y, …), the derivatives of a function of matrices at A along the directions that follow it.

    It is linear in each direction, symmetric in all of them, and moves with A by one direction more. ``back(ct, a,
    *others)`` is the cotangent of a direction, given the others.
    """

    def jvp(primals: Sequence, tangents: Sequence) -> tuple:
        out = op(*primals)
        total = None if tangents[0] is None else op(*primals, tangents[0])
        for i, t in enumerate(tangents):
            if i and t is not None:
                total = add_tangents(total, op(*primals[:i], t, *primals[i + 1 :]))
        return out, broadcast_tangent(total, out)

    def transpose(ct: Array, a: Array, *directions: Array) -> tuple:
        i = next(i for i, x in enumerate(directions) if type(x) is Aval)
        cotangent = unbroadcast(back(ct, a, *directions[:i], *directions[i + 1 :]), directions[i])
        return (None, *[cotangent if j == i else None for j in range(len(directions))])

    op = of_matrices(
        name,
        jvp=jvp,
        linear_in=lambda count, params: range(1, count),
        transpose=transpose,
        kind="multilinear",
        **fields,
    )
    return op


def solution(name: str, *products: Callable, back: Callable, batch=None, **fields) -> Primitive:
    """Declare f(A, …, b), the solution x of a linear system A x = b, which may be made of several matrices.

    It is linear in b; along ∂A and ∂b it moves by the solution for ∂b − ∂A x. ``product(ta, x, **params)`` is, for each
    matrix, what a tangent of it makes of the solution; ``back(ct, a, ..., **params)`` the solution of the transposed
    system, the cotangent of b; ``batch`` the batching rule of an operator that is not ``stacked``.
    """

    def jvp(primals: Sequence, tangents: Sequence, **params: Any) -> tuple:
        *matrices, _ = primals
        *moves, right = tangents
        x = bind(op, primals, params)
        for product, t in zip(products, moves, strict=True):
            if t is not None:
                moved = product(t, x, **params)
                right = -moved if right is None else right - moved
        return x, bind(op, (*matrices, right), params)

    def transpose(ct: Array, *args: Array, **params: Any) -> tuple:
        *matrices, b = args
        return (*[None] * len(matrices), unbroadcast(back(ct, *matrices, **params), b))

    batch = batch or batch_elementwise(lambda *values, **params: bind(op, values, params))
    op = Primitive(name, jvp=jvp, linear_in=(len(products),), transpose=transpose, batch=batch, **fields)
    return op


# ── zeros that stay ──────────────────────────────────────────────────────────────────────────────────────────────
#
# A number that is zero here may move away from zero: t in t·d has the derivative d there. So a rule that decides by
# zeros asks for those whose tangents are zero too, at every level that differentiates: of a Dual, and of a program that
# is differentiated after it was written. Of a tangent that a linear program stands for, nothing is known.


def vanishes(x):
    """Return a mask of the entries that are exactly zero, and whose tangents are."""
    base = beneath(x)
    if isinstance(base, Tracer) and base.level.linear:
        return np.zeros(np.shape(x), bool)
    return bind(_vanishes, (x,), {})


def _vanishes_jvp(primals: Sequence, tangents: Sequence) -> tuple:
    return np.logical_and(vanishes(primals[0]), vanishes(tangents[0])), None


_vanishes = elementwise(
    lambda x: np.equal(x, 0), name="vanishes", abstract_eval=lambda x: Aval(x.shape, np.dtype(bool)),
    jvp=_vanishes_jvp, samples=[((3,),), ((),)], kind="predicate",
)  # fmt: skip


# ── the strong product ───────────────────────────────────────────────────────────────────────────────────────────
#
# scale(t, d) = t·d where t ≠ 0, and 0 where t = 0 whatever d is. It is linear in t: for every d, infinite or not, it
# is the limit of the products t·dₙ over finite dₙ → d at t = 0. It is used in derivatives at a pole and nowhere
# else, so a factor d that is moved by an outer level contributes ∂d·t, in which both zeros are strong: that of t, which
# is zero whatever d does, and that of ∂d, which is the tangent.


def _scale(t, d):
    # Nearly always the plain product will do; it is NaN where an exact zero met an infinity, and only there looked at.
    if type(t) is np.float64 and type(d) is np.float64:
        out = float.__mul__(t, d)  # as Python's, which knows no warnings
        return np.float64(out if out == out or t else t * math.copysign(1.0, d))
    with np.errstate(invalid="ignore"):
        out = np.multiply(t, d)
        if not is_finite(out):  # or if that is not known: then it is not asked
            zero = 0 if out.dtype.kind == "c" else np.multiply(t, np.copysign(1, d))  # with the sign of the product
            out = np.where(np.equal(t, 0), zero, out)
    return out if out.shape else out[()]


def _scale_jvp(primals: Sequence, tangents: Sequence) -> tuple:
    t, d = primals
    out = scale(t, d)
    dt = None if tangents[0] is None else scale(tangents[0], d)
    dd = tangents[1]
    if dd is not None:
        gone = vanishes(t)
        dd = strong_product(
            dd if isinstance(gone, (np.ndarray, np.bool_)) and not gone.any() else np.where(gone, 0, dd), t
        )
    return out, broadcast_tangent(add_tangents(dt, dd), out)


def factor_transpose(ct: Array, aval: Aval, d: Array, live: Any, hot: bool) -> Array:
    """Return the cotangent of x in x·d: reverse mode's two rules at a pole, for one product with cotangent ``ct``.

    Where it is not ``live`` (``None``: everywhere is), a dead zero wins against an infinite ``d``; where it is ``hot``,
    it may be infinite, from a pole that x meets later, and a ``d`` of zero wins.
    """
    if live is not None and not is_finite(d):
        d = np.where(match_library(live, d), d, 0)
    return unbroadcast(scale(d, ct) if hot else ct * d, aval)


def product_strong_transpose(ct: Array, x: Array, y: Array, live: Any, hot: bool) -> tuple:
    """Transpose x·y at a pole."""
    if type(x) is Aval:
        return factor_transpose(ct, x, y, live, hot), None
    return None, factor_transpose(ct, y, x, live, hot)


_product_shape = elementwise_shape(np.multiply)

scale = Primitive(
    "scale",
    impl=_scale,
    abstract_eval=_product_shape,
    jvp=_scale_jvp,
    linear_in=(0, 1),  # in a body that was transposed the factor is the vector
    transpose=lambda ct, t, d: (unbroadcast(ct * d, t), None) if type(t) is Aval else (None, unbroadcast(ct * t, d)),
    strong_transpose=product_strong_transpose,
    batch=batch_elementwise(lambda t, d: bind(scale, (t, d), {})),
    samples=[((3,), (3,)), ((2, 1), (3,)), ((), (2,))],
    pole=True,
    kind="bilinear",
)
