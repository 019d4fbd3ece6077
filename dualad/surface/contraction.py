"""Matrix products and Einstein sums, in NumPy's many spellings.

Not for: their rules (``ops/contraction.py``); most of these are reshapes around one matrix product.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from ..base.frames import user_level
from ..core.aval import Array, Axis, DType
from ..core.tracer import Tracer
from ..memory.memory import Reading, apply_view, writer
from ..memory.order import in_order
from ..ops import contraction, shaping
from .arguments import array_operands, function, normalize_axis, numpys_own, operands, refuse_out
from .indexing import set_at
from .shaping import squeeze

__all__ = ["matvec", "vecdot", "vecmat"]


def _factors(a, b) -> tuple:
    """Return two operands as arrays; a second one that is a list of nothing has the dtype of the first, as in C."""
    first, second = array_operands(a, b)
    return first, second.astype(first.dtype) if _is_bare(b) else second


def _is_bare(x) -> bool:
    return isinstance(x, (list, tuple)) and all([_is_bare(part) for part in x])


@function(np.dot, kind="composite")
def dot(a: Array, b: Array, out: Array = None) -> Array:
    refuse_out(out, "np.dot")
    a, b = _factors(a, b)
    if np.ndim(a) == 0 or np.ndim(b) == 0:
        return in_order(a * b, "C")
    return a @ b if b.ndim <= 2 else np.tensordot(a, b, (-1, -2))


@function(np.inner, kind="composite")
def inner(a: Array, b: Array, /) -> Array:
    a, b = _factors(a, b)
    if np.ndim(a) == 0 or np.ndim(b) == 0:
        return a * b
    return a @ b if b.ndim == 1 else np.tensordot(a, b, (-1, -1))


@function(np.outer, kind="composite")
def outer(a: Array, b: Array, out: Array = None) -> Array:
    refuse_out(out, "np.outer")
    a, b = array_operands(a, b)
    return np.reshape(a, (-1, 1)) * np.reshape(b, (1, -1))


numpys_own(np.tensordot, kind="composite")


@function(np.vdot, kind="composite")
def vdot(a: Array, b: Array, /) -> Array:
    a, b = _factors(a, b)
    a, b = np.reshape(a, -1), np.reshape(b, -1)
    return _conjugate(a) @ b


# ── einsum ───────────────────────────────────────────────────────────────────────────────────────────────────────

#: letters in the order of the integers of the operand-sublist form, which is also the order of an implicit output
_SYMBOLS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


@function(np.einsum)
def einsum(
    *operands: Array, out: Array = None, optimize: Any = False, dtype: DType = None, order: str | None = "K",
    casting: str = "safe",
) -> Array:  # fmt: skip
    refuse_out(out, "np.einsum")
    subscripts, arrays = _einsum_arguments(operands)
    if dtype is not None:
        arrays = [x.astype(dtype) for x in arrays]
    optimize = tuple(optimize) if isinstance(optimize, list) else optimize
    if len(arrays) == 1 and isinstance(arrays[0], Tracer):
        inputs, _, output = subscripts.partition("->")
        if set(inputs) == set(output):  # nothing is summed: axes in another order, diagonals
            return apply_view(_rearrange, arrays[0], {"subscripts": subscripts})
    return contraction.einsum(*arrays, subscripts=subscripts, optimize=optimize)


@Reading
def _rearrange(x, *, subscripts):
    return contraction.einsum(x, subscripts=subscripts, optimize=False)


@writer(_rearrange)
def _write_rearranged(base, params, value):
    places = np.einsum(params["subscripts"], np.arange(base.size).reshape(base.shape))
    flat = set_at(
        shaping.reshape(base, shape=(base.size,)), places.ravel(), shaping.reshape(value, shape=(value.size,))
    )
    return shaping.reshape(flat, shape=base.shape)


@function(np.einsum_path, kind="metadata")
def einsum_path(*operands: Array, optimize: str = "greedy", einsum_call: bool = False) -> Array:
    subscripts, arrays = _einsum_arguments(operands)
    examples = [np.broadcast_to(np.zeros((), x.dtype), x.shape) for x in arrays]
    return np.einsum_path(subscripts, *examples, optimize=optimize, einsum_call=einsum_call)


def _einsum_arguments(given) -> tuple[str, list]:
    """Return complete subscripts (one letter an axis, explicit output) and the operands."""
    if not given:
        raise ValueError("must specify the einstein sum subscripts string and at least one operand")
    if isinstance(given[0], str):
        inputs, arrow, output = given[0].replace(" ", "").partition("->")
        terms, arrays = inputs.split(","), given[1:]
        output = output if arrow else None
    else:
        pairs = len(given) // 2
        terms, arrays = [_letters(labels) for labels in given[1 : 2 * pairs : 2]], given[: 2 * pairs : 2]
        output = _letters(given[-1]) if len(given) % 2 else None
    arrays = array_operands(*arrays)
    if len(terms) != len(arrays):
        fewer = "fewer" if len(terms) > len(arrays) else "more"
        raise ValueError(f"{fewer} operands provided to einstein sum function than specified in the subscripts string")
    return _complete(terms, output, [x.shape for x in arrays]), arrays


def _letters(labels) -> str:
    """Write a sublist of the operand-sublist form in letters."""
    letters = []
    for label in labels:
        if label is Ellipsis:
            letters.append("...")
        elif 0 <= label.__index__() < len(_SYMBOLS):
            letters.append(_SYMBOLS[label])
        else:
            raise ValueError("subscript is not within the valid range [0, 52)")
    return "".join(letters)


def _complete(terms: list[str], output: str | None, shapes) -> str:
    """Write ellipses out in letters that are not in use, and the output that is left implicit."""
    for term in terms if output is None else [*terms, output]:
        named = term.replace("...", "", 1)
        if "." in named:
            raise ValueError("einstein sum subscripts string contains a '.' that is not part of an ellipsis ('...')")
        for letter in named:
            if letter not in _SYMBOLS:
                raise ValueError(
                    f"invalid subscript {letter!r} in einstein sum subscripts string, subscripts must be letters"
                )
    hidden = []
    for i, (term, shape) in enumerate(zip(terms, shapes, strict=True)):
        hidden.append(len(shape) - len(term.replace("...", "")))
        if hidden[i] < 0:
            raise ValueError(f"einstein sum subscripts string contains too many subscripts for operand {i}")
        if hidden[i] > 0 and "..." not in term:
            raise ValueError(
                "operand has more dimensions than subscripts given in einstein sum, but no '...' ellipsis provided to"
                " broadcast the extra dimensions."
            )
    used = set("".join(terms))
    free = [letter for letter in _SYMBOLS if letter not in used][: max(hidden)]
    if len(free) < max(hidden):
        raise ValueError("einsum: more axes than the 52 letters can name")
    inputs = [term.replace("...", "".join(free[len(free) - n :])) for term, n in zip(terms, hidden, strict=True)]
    if output is None:
        named = "".join(terms).replace(".", "")
        output = "..." + "".join(sorted(letter for letter in set(named) if named.count(letter) == 1))
    elif free and "..." not in output:
        raise ValueError(
            "output has more dimensions than subscripts given in einstein sum, but no '...' ellipsis provided to"
            " broadcast the extra dimensions."
        )
    output = output.replace("...", "".join(free))
    for letter in output:
        if output.count(letter) > 1:
            raise ValueError(f"einstein sum subscripts string includes output subscript {letter!r} multiple times")
        if letter not in "".join(inputs):
            raise ValueError(
                f"einstein sum subscripts string included output subscript {letter!r} which never appeared in an input"
            )
    return f"{','.join(inputs)}->{output}"


# ── products of vectors along an axis ────────────────────────────────────────────────────────────────────────────


def _conjugate(x):
    return np.conj(x) if x.dtype.kind == "c" else x


def vecdot(x1: Array, x2: Array, /, *, axis: Axis = -1, keepdims: bool = False, dtype: DType = None) -> Array:
    """Σ conj(x1) x2 along an axis, as stacked products of a row and a column."""
    x1, x2 = operands(x1, x2)
    _enough("vecdot", "(n),(n)->()", (x1, 1), (x2, 1))
    x1, x2 = [np.moveaxis(x, axis, -1) if axis != -1 else x for x in (x1, x2)]
    if dtype is not None:
        x1, x2 = x1.astype(dtype), x2.astype(dtype)
    if x1.shape[-1] != x2.shape[-1]:
        raise ValueError(f"vecdot: the vectors have {x1.shape[-1]} and {x2.shape[-1]} components")
    out = np.einsum("...i,...i->...", _conjugate(x1), x2)
    return np.expand_dims(out, axis) if keepdims else out


def matvec(x1: Array, x2: Array, /) -> Array:
    """Matrices applied to vectors, both stacked."""
    x1, x2 = operands(x1, x2)
    _enough("matvec", "(m,n),(n)->(m)", (x1, 2), (x2, 1))
    if x2.ndim == 1:
        return x1 @ x2
    return squeeze(x1 @ np.reshape(x2, (*x2.shape, 1)), -1)


def vecmat(x1: Array, x2: Array, /) -> Array:
    """Conjugated vectors times matrices, both stacked."""
    x1, x2 = operands(x1, x2)
    _enough("vecmat", "(n),(n,m)->(m)", (x1, 1), (x2, 2))
    x1 = _conjugate(x1)
    if x1.ndim == 1 or x2.ndim == 2:
        return x1 @ x2
    return squeeze(np.reshape(x1, (*x1.shape[:-1], 1, x1.shape[-1])) @ x2, -2)


def _enough(name: str, signature: str, *wanted: tuple) -> None:
    for i, (x, ndim) in enumerate(wanted):
        if np.ndim(x) < ndim:
            raise ValueError(
                f"{name}: Input operand {i} does not have enough dimensions (has {np.ndim(x)}, gufunc core with"
                f" signature {signature} requires {ndim})"
            )


# NumPy's names for these came one by one: vecdot with 2.0, matvec and vecmat with 2.2.
for _handler in (vecdot, matvec, vecmat):
    if hasattr(np, _handler.__name__):
        function(getattr(np, _handler.__name__), kind="composite")(_handler)


# ── outer products ───────────────────────────────────────────────────────────────────────────────────────────────


@function(np.kron, kind="composite")
def kron(a: Array, b: Array) -> Array:
    a, b = array_operands(a, b)
    if np.ndim(a) == 0 or np.ndim(b) == 0:
        return a * b
    ndim = max(a.ndim, b.ndim)
    rows = (1,) * (ndim - a.ndim) + a.shape
    columns = (1,) * (ndim - b.ndim) + b.shape
    a = np.reshape(a, [n for size in rows for n in (size, 1)])
    b = np.reshape(b, [n for size in columns for n in (1, size)])
    return np.reshape(a * b, [r * c for r, c in zip(rows, columns, strict=True)])


@function(np.cross, kind="composite")
def cross(a: Array, b: Array, axisa: Any = -1, axisb: Any = -1, axisc: Any = -1, axis: Axis = None) -> Array:
    if axis is not None:
        axisa = axisb = axisc = axis
    a, b = array_operands(a, b)
    a = np.moveaxis(a, normalize_axis(axisa, a.ndim, "np.cross"), -1)
    b = np.moveaxis(b, normalize_axis(axisb, b.ndim, "np.cross"), -1)
    sizes = (a.shape[-1], b.shape[-1])
    if not set(sizes) <= {2, 3}:
        raise ValueError(f"incompatible vector dimensions for cross product\n(dimension must be 2 or 3, got {sizes})")
    if 2 in sizes and not _PLANE:
        raise ValueError(
            "Both input arrays must be (arrays of) 3-dimensional vectors, but they are"
            f" {sizes[0]} and {sizes[1]} dimensional instead."
        )
    if 2 in sizes:
        warnings.warn(
            "Arrays of 2-dimensional vectors are deprecated. Use arrays of 3-dimensional vectors instead.",
            DeprecationWarning,
            stacklevel=user_level(),
        )
    if sizes == (2, 2):
        return a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]
    a, b = _with_third_component(a), _with_third_component(b)
    next_a, next_b = np.take(a, [1, 2, 0], axis=-1), np.take(b, [1, 2, 0], axis=-1)
    last_a, last_b = np.take(a, [2, 0, 1], axis=-1), np.take(b, [2, 0, 1], axis=-1)
    return np.moveaxis(in_order(next_a * last_b - last_a * next_b, "C"), -1, axisc)


def _crosses_the_plane() -> bool:
    """Whether ``np.cross`` takes vectors of two components, as releases before 2.5 do."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        try:
            np.cross(np.zeros(2), np.zeros(2))
        except ValueError:
            return False
    return True


_PLANE = _crosses_the_plane()


def _with_third_component(x):
    if x.shape[-1] == 3:
        return x
    return np.concatenate([x, np.broadcast_to(np.zeros((), x.dtype), (*x.shape[:-1], 1))], -1)
