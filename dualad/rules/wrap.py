"""``wrap``: functions that are never looked into (compiled code, other libraries), with a Jacobian given or estimated.

Such a function is only ever called with plain arrays: once per lane under ``vmap``, or once for all lanes where it can
take a leading axis. Not for: functions in plain NumPy with a rule of their own (``custom_jvp.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import optree

from ..base.frames import public
from ..base.tree import flatten, flatten_like, treedef_outline
from ..batched import one_by_one
from ..core.aval import Aval, aval_of, is_inexact
from ..core.dispatch import bind
from ..core.primitive import Primitive
from ..core.tracer import Tracer
from ..errors import (
    ArgumentTypeError,
    CapturedTensorError,
    DtypeError,
    OutputError,
    RuleMissingError,
    ShapeError,
    TreeError,
)
from ..ops.kinds import in_lanes
from .calls import Template, UserFunction, flat_output, has_tensor, partition, push_moving

__all__ = ["wrap"]


class _Opaque:
    """A function of flat lists of plain arrays: a parameter of the operator.

    ``jacobian`` is another one, whose results are the blocks ∂(result o)/∂(argument i), o outermost, over ``moving``
    arguments; or a message that says why there is none. A Jacobian given as NumPy code is differentiated through
    ``code``.
    """

    __slots__ = ("code", "function", "jacobian", "like", "moving", "name", "seen", "vectorized")

    def __init__(
        self, name: str, function: Callable, *, vectorized: bool = False, like: Callable | None = None
    ) -> None:
        self.name, self.function, self.vectorized, self.like = name, function, vectorized, like
        self.jacobian: _Opaque | str = "it was wrapped without a Jacobian"
        self.code: Callable | None = None
        self.moving: tuple[int, ...] = ()
        self.seen: dict[tuple, tuple[Aval, ...]] = {}

    def __repr__(self) -> str:
        return f"<opaque {self.name}>"

    def run(self, args: Sequence, lead: tuple[int, ...]) -> list:
        """Call the function for all lanes of ``lead`` at once."""
        if not lead:
            out = self.function(*args)
        else:
            lanes = int(np.prod(lead))
            out = []
            for i, x in enumerate(self.function(*[np.reshape(a, (lanes, *np.shape(a)[len(lead) :])) for a in args])):
                if np.shape(x)[:1] != (lanes,):
                    raise ShapeError(
                        f"`{self.name}`, wrapped with vectorized=True, returned shape {np.shape(x)} for {lanes} lanes"
                        f" (result {i}).",
                        "a vectorized function takes arrays with a leading axis and returns arrays with that axis",
                        "keep the leading axis, or wrap it without vectorized=True: it is then called once per lane",
                    )
                out.append(np.reshape(x, (*lead, *np.shape(x)[1:])))
        for x in out:
            if isinstance(x, Tracer):
                raise CapturedTensorError(
                    f"`{self.name}`, wrapped as opaque, returned a {x._kind()}.",
                    "it was called with plain arrays, so it reads a traced value through a closure or a global",
                    "pass that value as an argument",
                )
        return [np.asarray(x)[()] for x in out]

    def avals(self, avals: Sequence[Aval]) -> tuple[Aval, ...]:
        """Return the avals of one lane's results: as declared, or as one call at ones finds them."""
        if self.like is not None:
            return self.like(avals)
        key = tuple([(a.shape, a.dtype) for a in avals])
        if key not in self.seen:
            with np.errstate(all="ignore"):
                example = [np.ones(a.shape, a.dtype)[()] for a in avals]
                self.seen[key] = tuple([Aval(np.shape(x), x.dtype) for x in self.run(example, ())])
        return self.seen[key]


# ── the operator ─────────────────────────────────────────────────────────────────────────────────────────────────


def _shape(*avals, call, lead):
    out = call.avals([Aval(a.shape[len(lead) :], a.dtype) for a in avals])
    return tuple([Aval((*lead, *a.shape), a.dtype) for a in out])


def _jvp(primals, tangents, *, call, lead):
    out = bind(opaque_call, primals, {"call": call, "lead": lead})
    if call.code is not None:
        given = push_moving(lambda *values: list(call.code(*values)), primals, tangents)[1]
        return out, tuple([t if is_inexact(aval_of(v).dtype) else None for v, t in zip(out, given, strict=True)])
    if isinstance(call.jacobian, str):
        raise RuleMissingError(
            f"`{call.name}` was differentiated, and {call.jacobian}.",
            "an opaque function is never looked into",
            "give its Jacobian: wrap(f, jac=df), where df may be NumPy code or another wrapped function",
        )
    blocks = bind(opaque_call, primals, {"call": call.jacobian, "lead": lead})
    n = len(call.moving)
    tangent: list = [None] * len(out)
    for o, value in enumerate(out):
        dtype = aval_of(value).dtype
        if not is_inexact(dtype):
            continue
        for k, i in enumerate(call.moving):
            if tangents[i] is None:
                continue
            block, wanted = blocks[o * n + k], np.shape(value) + np.shape(primals[i])[len(lead) :]
            if not hasattr(block, "dtype") or np.shape(block) != wanted:
                shown = f"shape {np.shape(block)[len(lead) :]}" if hasattr(block, "dtype") else f"{block!r}"
                raise ShapeError(
                    f"{call.jacobian.name} returned {shown} for result {o} and argument {i};"
                    f" expected shape {wanted[len(lead) :]}.",
                    "a block has the shape out.shape + in.shape",
                    "return the derivative of every entry of the result in every entry of the argument",
                )
            part = _contract(block, tangents[i], len(lead))
            part = part if part.dtype == dtype else part.astype(dtype)
            tangent[o] = part if tangent[o] is None else tangent[o] + part
    return out, tuple(tangent)


def _contract(block, t, lead: int):
    """Contract the trailing axes of a Jacobian with a tangent, lane by lane."""
    out_axes = list(range(lead, np.ndim(block) - np.ndim(t) + lead))
    in_axes = list(range(len(out_axes) + lead, len(out_axes) + np.ndim(t)))
    lanes = list(range(lead))
    if not in_axes and not lanes:
        return block * t
    return np.einsum(block, [*lanes, *out_axes, *in_axes], t, [*lanes, *in_axes], [*lanes, *out_axes])


def _batch(size, values, mapped, *, call, lead):
    if call.vectorized:
        return bind(opaque_call, in_lanes(values, mapped, size), {"call": call, "lead": (size, *lead)})
    return one_by_one(opaque_call)(size, values, mapped, call=call, lead=lead)


def _samples():
    def code(x, y):
        return [np.expand_dims(v, -1) * np.eye(3) for v in (np.cos(x) * y, np.sin(x))]

    samples = []
    for shape, vectorized in (((3,), False), ((), False), ((), True)):
        call = _Opaque("sample", lambda x, y: [np.sin(x) * y], vectorized=vectorized)
        call.moving = (0, 1)
        call.jacobian = _Opaque("sample_jac", code if shape else _scalar_jacobian, vectorized=vectorized)
        call.jacobian.code = code if shape else _scalar_jacobian
        samples.append((shape, shape, {"call": call, "lead": ()}))
    return samples


def _scalar_jacobian(x, y):
    return [np.cos(x) * y, np.sin(x) * 1.0]


opaque_call = Primitive(
    "opaque_call",
    impl=lambda *args, call, lead: tuple(call.run(args, lead)),
    abstract_eval=_shape,
    jvp=_jvp,
    batch=_batch,
    samples=_samples,
    multiple_results=True,
    given=("jvp",),
    raises=True,
    blocks="one",
    kind="opaque",
)


# ── estimated Jacobians ──────────────────────────────────────────────────────────────────────────────────────────


def _estimate(call: _Opaque, method: str, avals: Sequence[Aval]) -> Callable:
    """Make a function of flat arguments, each an aval or lanes of it, that estimates all blocks."""

    def blocks(*args):
        lead = np.shape(args[0])[: np.ndim(args[0]) - avals[0].ndim]
        columns = [_columns(call, args, i, method, lead) for i in call.moving]
        # columns[k][o] has shape (*lead, out, in); the operator wants o outermost.
        return [c[o] for o in range(len(columns[0])) for c in columns]

    return blocks


def _columns(call: _Opaque, args: Sequence, i: int, method: str, lead: tuple[int, ...]) -> list:
    """Estimate the block of each result for one argument, column by column."""
    x = np.asarray(args[i])
    shape = x.shape[len(lead) :]
    n = int(np.prod(shape))
    if x.dtype.kind == "c":
        raise DtypeError(
            f"`{call.name}`: jac={method!r} was asked for the derivative in argument {i} of dtype {x.dtype}.",
            "one step can't measure the two real directions of a complex number",
            "take real and imaginary parts as separate arguments, or give jac= as a function",
        )
    flat = x.reshape((*lead, n))
    if method == "fd":
        steps = np.cbrt(np.finfo(x.dtype).eps) * np.maximum(1.0, np.abs(flat))
        steps = ((flat + steps) - flat).astype(x.dtype)  # the true steps, after rounding
    else:
        steps = np.full_like(flat, 1e-30 if x.dtype.itemsize >= 8 else 1e-15)
        flat = flat.astype(np.result_type(x.dtype, np.complex64))

    def values(j: int, step: np.ndarray) -> list[np.ndarray]:
        moved = flat.copy()
        moved[..., j] += step
        return [np.asarray(v) for v in call.function(*args[:i], moved.reshape(x.shape)[()], *args[i + 1 :])]

    def per_step(change: np.ndarray, step: np.ndarray) -> np.ndarray:
        return change / np.reshape(step, np.shape(step) + (1,) * (np.ndim(change) - np.ndim(step)))

    columns: list[list] = []
    for j in range(n):
        h = steps[..., j]
        if method == "fd":
            columns.append([per_step(a - b, 2 * h) for a, b in zip(values(j, h), values(j, -h), strict=True)])
            continue
        found = values(j, 1j * h)
        if any([v.dtype.kind != "c" for v in found]):
            raise OutputError(
                f"`{call.name}` returned dtype {found[0].dtype} for a complex argument.",
                "the complex step reads the derivative off the imaginary part, which it has dropped",
                "use jac='fd', or give jac= as a function",
            )
        columns.append([per_step(np.imag(v), h) for v in found])
    if not n:
        avals = call.avals([Aval(np.shape(a)[len(lead) :], np.asarray(a).dtype) for a in args])
        return [np.zeros((*lead, *a.shape, *shape), a.dtype) for a in avals]
    joined = [np.stack(parts, axis=-1) for parts in zip(*columns, strict=True)]
    return [block.reshape((*block.shape[:-1], *shape)) for block in joined]


# ── the decorator ────────────────────────────────────────────────────────────────────────────────────────────────


class _Wrapped(UserFunction):
    """A wrapped function."""

    def __init__(self, f: Callable, jac, vectorized: bool, like) -> None:
        super().__init__(f)
        self.jac, self.vectorized, self.like = jac, vectorized, like

    @public
    def __call__(self, *args, **kwargs):
        """Call the function; under a transform, as one operator that is never looked into."""
        if not has_tensor((args, kwargs)):
            return self.f(*args, **kwargs)
        args, by_name = self.resolved(args, kwargs)
        template, arrays = partition(args)
        trees: list = [None]

        def function(*values):
            return flat_output(self.f(*template.fill(values), **by_name), f"`{self.__name__}`", trees)

        like = None
        if self.like is not None:
            examples, trees[0] = flatten(self.like)
            declared = tuple([aval_of(x) for x in examples])
            like = lambda avals: declared
        call = _Opaque(self.__name__, function, vectorized=self.vectorized, like=like)
        if self.jac is not None:
            avals = [aval_of(x) for x in arrays]
            call.moving = tuple([i for i, a in enumerate(avals) if is_inexact(a.dtype)])
            call.jacobian = self._jacobian(call, template, avals, trees, by_name)
        out = bind(opaque_call, arrays, {"call": call, "lead": ()})
        return optree.tree_unflatten(trees[0], list(out))

    def _jacobian(
        self, call: _Opaque, template: Template, avals: Sequence[Aval], trees: list, by_name: dict
    ) -> _Opaque:
        moving = call.moving

        def like(avals):
            return tuple([Aval(a.shape + avals[i].shape, a.dtype) for a in call.avals(avals) for i in moving])

        name = f"the Jacobian of `{self.__name__}`"
        if isinstance(self.jac, str):
            estimate = _estimate(call, self.jac, avals)
            blocks = _Opaque(f"{self.__name__}, by {self.jac},", estimate, vectorized=self.vectorized, like=like)
            blocks.jacobian = f"its Jacobian is estimated (jac={self.jac!r}), which has no derivative of its own"
            return blocks

        jac = self.given_names(self.jac, by_name, "its Jacobian")

        def code(*values):
            given = jac(*template.fill(values))
            try:  # a block, or a container of blocks, in place of each leaf
                rows = trees[0].flatten_up_to(given)
            except (ValueError, TypeError) as error:
                raise TreeError(
                    f"{name} has another structure than its result, which is {treedef_outline(trees[0])}.",
                    f"it has the blocks of each result in its place ({error})",
                    "return them in the structure of the result",
                ) from None
            return [block for row in rows for block in self._row(row, template, moving, name)]

        blocks = _Opaque(name, code, vectorized=self.vectorized, like=like)
        blocks.code = code
        return blocks

    def _row(self, row, template: Template, moving: tuple[int, ...], name: str) -> list:
        """Return the blocks of one result: one for each argument that is differentiable."""
        if len(moving) == 1 and not isinstance(row, (tuple, list, dict)):
            return [row]
        leaves = flatten_like(template.tree, row, name, "the arguments")
        chosen = [leaves[template.arrays[i]] for i in moving]
        if any(b is None for b in chosen):
            raise TreeError(
                f"{name} returned None for an argument.",
                "it has one block per floating-point argument",
                "return zeros of shape out.shape + in.shape",
            )
        return chosen


@public
def wrap(f: Callable, jac: Callable | str | None = None, *, vectorized: bool = False, like: Any = None) -> Callable:
    """Make an opaque function differentiable and batchable: compiled code, another library's, a simulator.

    Parameters
    ----------
    f : callable
        A pure function of arrays that returns arrays (trees of both). It is only ever called with plain arrays.
    jac : callable, "fd" or "complex_step", optional
        Its Jacobian, ``jac(*args)``: blocks of shape ``out.shape + in.shape``, one for a function of one argument, a
        tuple with one per argument otherwise (``None`` for integers), in the structure of the result outside. Written
        in NumPy (or wrapped in turn) it is differentiated for second derivatives. ``"fd"`` estimates by central
        differences, two calls per entry of the arguments; ``"complex_step"`` by one call each, exact to rounding,
        where ``f`` is analytic and accepts complex numbers. Without it, ``f`` can be batched and traced only.
    vectorized : bool
        Whether ``f`` (and ``jac``) take arrays with one leading axis and return results with that axis. Otherwise they
        are called once per lane under ``vmap``.
    like : tree of arrays, optional
        An example of the result, of which shapes and dtypes are used. Without it ``trace`` calls ``f`` once at ones to
        find them.

    Returns
    -------
    callable
        A function of the same arguments.

    Raises
    ------
    RuleMissingError
        When a derivative is asked for that ``jac`` does not give.

    Examples
    --------
    >>> import math
    >>> gamma = da.wrap(math.gamma, jac="fd")
    >>> round(float(da.grad(lambda x: gamma(x) ** 2)(3.0)), 4)
    7.3823
    """
    if not callable(f):
        raise ArgumentTypeError(f"wrap was given {f!r}.", "it wraps a function", "write wrap(f, jac=df)")
    if not (jac is None or callable(jac) or jac in ("fd", "complex_step")):
        raise ArgumentTypeError(
            f"wrap: jac={jac!r}.",
            "it is a function, or a way to estimate it",
            "pass a function, 'fd' or 'complex_step'",
        )
    return _Wrapped(f, jac, vectorized, like)
