"""Calls of functions that are linear by declaration: ``linear_call``, and the operator that custom rules stand on.

    y = A(r) t          forward(r, t);  the tangent is A(r) ṫ + (∂A(r)·ṙ) t
    t̄ = A(r)ᵀ ȳ         backward(r, ȳ), given by the user or found by transposing

Not for: functions that are linear because NumPy's operators are; those need no declaration.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import optree

from ..base.arguments import replace_at
from ..base.frames import public
from ..base.tree import LeafName, flatten, flatten_like
from ..core.aval import Aval, aval_of, is_inexact
from ..core.dispatch import bind
from ..core.primitive import Primitive
from ..errors import ArgumentTypeError, DtypeError, OutputError, RuleMissingError
from ..ops.kinds import in_lanes
from ..surface.leaves import output_leaves
from ..tensors.staged import StagedLevel
from ..transforms.liveness import sign_by_liveness
from ..vjp_via_transpose import linear_transpose
from .calls import checked_leaves, has_tensor, map_linear, partition, push_moving

__all__ = ["LinearCall", "linear", "linear_call", "linear_tangents"]


class LinearCall:
    """A linear map of flat lists of arrays that depends on residuals: a parameter of the operator.

    ``forward(residuals, vectors)`` returns results, ``backward(residuals, cotangents)`` cotangents of the vectors;
    without it ``forward`` is transposed. If it is ``opaque``, it is a linear map that is called, rather than code to be
    differentiated in its own right; if ``sparse``, it takes ``None`` for cotangents that are exactly zero; if
    ``signed``, it reads off the sign of a zero among them whether it is live (``liveness.py``). With ``once`` a
    derivative of this map in its residuals or vectors is refused. ``batcher(size, residuals_mapped)`` returns a
    LinearCall, in place of mapping both functions.
    """

    __slots__ = ("backward", "batcher", "forward", "name", "once", "opaque", "signed", "sparse")

    def __init__(
        self, name: str, forward: Callable, backward: Callable | None = None, *, opaque: bool = False,
        once: bool = False, sparse: bool = False, signed: bool = False, batcher: Callable | None = None,
    ) -> None:  # fmt: skip
        self.name, self.forward, self.backward = name, forward, backward
        self.opaque, self.once, self.sparse, self.signed, self.batcher = opaque, once, sparse, signed, batcher

    def __repr__(self) -> str:
        return f"<linear call of {self.name}>"

    def batched(self, size: int, mapped: Sequence[bool]) -> LinearCall:
        """Return the map over lanes: all vectors and results have a leading axis, residuals where ``mapped`` says."""
        if self.batcher is not None:
            return self.batcher(size, mapped)
        push, pull = [None if f is None else map_linear(f, mapped, size) for f in (self.forward, self.backward)]
        return LinearCall(
            self.name, push, pull, opaque=self.opaque, once=self.once, sparse=self.sparse, signed=self.signed
        )

    def transposed(self) -> LinearCall:
        """Return the transposed map, whose transpose is this one."""
        return LinearCall(self.name, self.backward, self.forward, opaque=True, once=self.once)


# ── the operator: linear(*vectors, *residuals) ───────────────────────────────────────────────────────────────────


# The parameter ``outs`` holds the avals of the results; where it is None they are found by tracing ``forward``.


def _shape(*avals, call, outs, residuals):
    if outs is not None:
        return outs
    cut = len(avals) - residuals
    with StagedLevel(f"{call.name} (shapes)") as level:
        inputs = [level.new_input(Aval(a.shape, a.dtype)) for a in avals]
        return tuple([aval_of(x) for x in call.forward(inputs[cut:], inputs[:cut])])


def _impl(*args, call, outs, residuals):
    cut = len(args) - residuals
    return tuple(call.forward(list(args[cut:]), list(args[:cut])))


def _jvp(primals, tangents, *, call, outs, residuals):
    cut = len(primals) - residuals
    params = {"call": call, "outs": outs, "residuals": residuals}
    if call.once:
        raise RuleMissingError(
            f"the rule of `{call.name}` is declared once_differentiable, and was differentiated again.",
            "it computes a derivative in a way that has none of its own",
            "drop once_differentiable and write the rule in plain NumPy, if second derivatives are needed",
        )
    out = bind(linear, primals, params)
    total: list = [None] * len(out)
    if any([t is not None for t in tangents[:cut]]):
        filled = [
            np.zeros(np.shape(p), aval_of(p).dtype) if t is None else t
            for t, p in zip(tangents[:cut], primals[:cut], strict=True)
        ]
        total = list(bind(linear, (*filled, *primals[cut:]), params))
    if any([t is not None for t in tangents[cut:]]):
        of_residuals = lambda *known: list(call.forward(list(known), list(primals[:cut])))
        more = push_moving(of_residuals, primals[cut:], tangents[cut:])[1]
        total = [b if a is None else a + b for a, b in zip(total, more, strict=True)]
    return out, tuple(total)


def _transpose(ct, *args, live=None, hot=False, call, outs, residuals):
    if call.signed:
        masks = live or [live] * len(ct)
        ct = [None if c is None else sign_by_liveness(c, mask) for c, mask in zip(ct, masks, strict=True)]
    cut = len(args) - residuals
    known = list(args[cut:])
    if not call.sparse and any([c is None for c in ct]):
        outs = _shape(*map(aval_of, args), call=call, outs=outs, residuals=residuals)
        ct = [np.zeros(a.shape, a.dtype) if c is None else c for c, a in zip(ct, outs, strict=True)]
    if call.backward is None:
        examples = [np.broadcast_to(np.zeros((), a.dtype), a.shape) for a in map(aval_of, args[:cut])]
        given = linear_transpose(lambda *vectors: list(call.forward(known, list(vectors))), *examples)(list(ct))
    elif call.opaque:
        vectors = tuple([Aval(a.shape, a.dtype) for a in map(aval_of, args[:cut])])
        params = {"call": call.transposed(), "outs": vectors, "residuals": residuals}
        given = bind(linear, (*ct, *known), params)
    else:
        given = call.backward(known, list(ct))
    moved = [c if type(a) is Aval else None for c, a in zip(given, args, strict=False)]
    return (*moved, *[None] * residuals)


def _batch(size, values, mapped, *, call, outs, residuals):
    cut = len(values) - residuals
    vectors = in_lanes(values[:cut], mapped[:cut], size)
    outs = None if outs is None else tuple([Aval((size, *a.shape), a.dtype) for a in outs])
    params = {"call": call.batched(size, mapped[cut:]), "outs": outs, "residuals": residuals}
    return bind(linear, (*vectors, *values[cut:]), params)


def _samples():
    def scale(r, v):
        return [np.cos(r[0]) * v[0], v[1] + v[0] * r[0]]

    def scale_transposed(r, c):
        return [np.cos(r[0]) * c[0] + c[1] * r[0], c[1]]

    samples = []
    for shape in ((3,), ()):
        for back in (scale_transposed, None):
            for opaque in (False, True):
                call = LinearCall("sample", scale, back, opaque=opaque)
                outs = (Aval(shape, np.dtype(float)),) * 2 if opaque else None
                samples.append((shape, shape, shape, {"call": call, "outs": outs, "residuals": 1}))
    return samples


linear = Primitive(
    "linear_call",
    impl=_impl,
    abstract_eval=_shape,
    jvp=_jvp,
    linear_in=lambda count, params: range(count - params["residuals"]),
    joint=True,
    transpose=_transpose,
    strong_transpose=_transpose,
    sparse_transpose=True,
    batch=_batch,
    samples=_samples,
    multiple_results=True,
    given=("jvp", "transpose"),
    kind="custom",
)


def linear_tangents(
    out: Sequence, derivative: Callable[[list[int], tuple], LinearCall], vectors: Sequence, residuals: Sequence
) -> tuple:
    """Return the tangents of results, which are a linear map of vectors.

    It is ``derivative(live, outs)``, given the positions and the avals of the results that have a tangent.
    """
    live = [i for i, v in enumerate(out) if is_inexact(aval_of(v).dtype)]
    if not live:
        return (None,) * len(out)
    outs = tuple([Aval(np.shape(out[i]), aval_of(out[i]).dtype) for i in live])
    params = {"call": derivative(live, outs), "outs": outs, "residuals": len(residuals)}
    return tuple(replace_at([None] * len(out), live, bind(linear, (*vectors, *residuals), params)))


# ── for users ────────────────────────────────────────────────────────────────────────────────────────────────────


@public
def linear_call(f: Callable, f_transpose: Callable | None, residuals: Any, vectors: Any, *, like: Any = None) -> Any:
    """Call a function that is linear in its second argument, and give its transpose.

    Both derivatives follow: forward mode calls ``f`` on tangents, reverse mode calls ``f_transpose`` on cotangents.
    Neither is looked into, so both may be anything (a sparse solver, a transform of another library), as long as they
    are linear, and each the other's transpose.

    Parameters
    ----------
    f : callable
        ``f(residuals, vectors) -> results``, linear in ``vectors``.
    f_transpose : callable or None
        ``f_transpose(residuals, cotangents) -> vectors``: like ``results`` in, like ``vectors`` out. ``None``
        transposes ``f``, which must then be written in NumPy.
    residuals : tree
        What the linear map depends on. A derivative in it differentiates ``f`` itself.
    vectors : tree of floating or complex arrays
        What it is applied to.
    like : tree of arrays, optional
        An example of the results, of which shapes and dtypes are used. Needed for reverse mode where ``f`` can't be
        traced (compiled code).

    Returns
    -------
    tree
        ``f(residuals, vectors)``.

    Raises
    ------
    DtypeError
        If ``vectors`` holds integers.
    TreeError, ShapeError
        If ``f_transpose`` returns something that is not like ``vectors``.

    Examples
    --------
    >>> def solve(a, b):
    ...     return np.linalg.solve(a, b)
    >>> def solve_transposed(a, c):
    ...     return np.linalg.solve(a.T, c)
    >>> a = np.array([[2.0, 1.0], [0.0, 4.0]])
    >>> da.grad(lambda b: np.sum(da.linear_call(solve, solve_transposed, a, b)))(np.ones(2))
    array([0.5  , 0.125])
    """
    name = getattr(f, "__name__", type(f).__name__)
    given: tuple[tuple[Any, str], ...] = ((f, "f"), (f_transpose, "f_transpose"))
    for g, what in given:
        if not callable(g) and not (g is None and what == "f_transpose"):
            raise ArgumentTypeError(f"linear_call: {what} is {g!r}.", "it is a function", "pass a callable")
    if not has_tensor((residuals, vectors)):
        return f(residuals, vectors)
    known, known_arrays = partition(residuals)
    moved, moved_arrays = partition(vectors)
    paths = [LeafName(vectors, "vectors", i) for i in range(moved.tree.num_leaves)]
    avals: list[Aval | None] = [None] * len(paths)
    for i, x in zip(moved.arrays, moved_arrays, strict=True):
        avals[i] = a = aval_of(x)
        if not is_inexact(a.dtype):
            raise DtypeError(
                f"linear_call of `{name}`: {paths[i]} has dtype {a.dtype}.",
                "linear maps act on real or complex vectors",
                "pass integers among the residuals",
            )
    trees: list = [None]
    outs = None
    if like is not None:
        examples, trees[0] = flatten(like)
        outs = tuple([aval_of(x) for x in examples])

    def forward(r, v):
        given = f(known.fill(r), moved.fill(v))
        if outs is None:
            out, trees[0] = output_leaves(given, f"linear_call of `{name}`")
            if not out:
                raise OutputError(
                    f"linear_call: `{name}` returned {given!r}, in which there is no array.",
                    "a linear map has a result",
                    "return an array, or a tree of arrays",
                )
            return out
        leaves = flatten_like(trees[0], given, f"what linear_call: `{name}` returned", "the example like=")
        return checked_leaves(leaves, outs, [f"result {i}" for i in range(len(outs))], f"linear_call: `{name}`")

    def backward(r, c):
        given = f_transpose(known.fill(r), optree.tree_unflatten(trees[0], c))
        where = f"linear_call: `{getattr(f_transpose, '__name__', 'f_transpose')}`, the transpose of `{name}`,"
        back = flatten_like(moved.tree, given, f"what {where} returned", "its vectors")
        pairs = [(x, a) for x, a in zip(checked_leaves(back, avals, paths, where), avals, strict=True) if a is not None]
        return [np.zeros(a.shape, a.dtype) if x is None else x for x, a in pairs]

    call = LinearCall(name, forward, None if f_transpose is None else backward, opaque=True)
    out = bind(linear, (*moved_arrays, *known_arrays), {"call": call, "outs": outs, "residuals": len(known_arrays)})
    return optree.tree_unflatten(trees[0], list(out))
