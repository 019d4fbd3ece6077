"""Ufuncs off the fast path: keywords, methods (``reduce``, ``accumulate``, ``outer``, ``at``), unprepared operands.

Not for: the plain call of a ufunc on arrays and tensors, which the tracer hands straight to the operator.
"""

from __future__ import annotations

import importlib
import operator
import sys

import numpy as np

from ..core.dispatch import bind
from ..core.tables import FUNCTIONS, UFUNCS
from ..core.tracer import NO_PARAMS, Tracer
from ..errors import UnsupportedError
from ..memory.memory import target
from .arguments import normalize_axis, operand
from .python_ufuncs import call_on_entries, python_function
from .unsupported import unsupported

__all__ = ["ANY_UFUNC", "UFUNC_METHODS", "at_loop", "call_ufunc", "loop_dtypes"]

#: (ufunc, method) -> handler(*inputs, **kwargs)
UFUNC_METHODS: dict = {}
#: method -> what makes its handler for any ufunc of two operands (``at``: or of one)
ANY_UFUNC: dict = {}


def call_ufunc(ufunc: np.ufunc, method: str, inputs: tuple, kwargs: dict):
    """Carry out a ufunc call that needs preparation, or refuse it with words."""
    for x in inputs:
        if not isinstance(x, Tracer) and getattr(type(x), "__array_ufunc__", 0) is None:
            return NotImplemented
    _load_special(ufunc)
    outs = kwargs.pop("out", None) or ()
    if any(o is not None for o in outs):
        return _into(outs, ufunc, method, inputs, kwargs)
    if method != "__call__":
        handler = UFUNC_METHODS.get((ufunc, method))
        plain = (ufunc.nin == 2 or (ufunc.nin == 1 and method == "at")) and ufunc.nout == 1 and ufunc.signature is None
        if handler is None and plain and method in ANY_UFUNC:
            if ufunc in UFUNCS or ufunc in FUNCTIONS:
                handler = UFUNC_METHODS[ufunc, method] = ANY_UFUNC[method](ufunc)
            elif python_function(ufunc) is not None:  # of which a program may make many
                handler = ANY_UFUNC[method](ufunc)
        if handler is None:
            raise UnsupportedError(
                f"np.{ufunc.__name__}.{method} is not supported on tensors yet.",
                "no rule for this method of the ufunc has been declared",
                "write it with the array function of the same meaning (np.sum for np.add.reduce, np.cumsum for"
                " np.add.accumulate, broadcasting for outer)",
            )
        return handler(*inputs, **kwargs)
    if kwargs.pop("where", True) is not True:
        raise UnsupportedError(
            f"np.{ufunc.__name__}: where= without out= leaves entries uninitialized.",
            "an uninitialized value has no derivative",
            f"write np.where(mask, np.{ufunc.__name__}(...), other), or give out=",
        )
    return _call(ufunc, inputs, kwargs)


def _into(outs: tuple, ufunc: np.ufunc, method: str, inputs: tuple, kwargs: dict):
    """Carry out a call with ``out=``: compute the result, then write it, where ``where=`` says so."""
    where = kwargs.pop("where", True) if method == "__call__" else True
    result = _call(ufunc, inputs, kwargs) if method == "__call__" else call_ufunc(ufunc, method, inputs, kwargs)
    results = result if isinstance(result, tuple) else (result,)
    name = f"np.{ufunc.__name__}"
    written = [
        r if o is None else target(o, r if where is True else _chosen(where, r, o), name)
        for o, r in zip(outs, results, strict=True)
    ]
    return tuple(written) if isinstance(result, tuple) else written[0]


def _chosen(where, result, out):
    """Return the result where ``where=`` is true and ``out``, unrounded, elsewhere."""
    if np.can_cast(result.dtype, out.dtype, "same_kind"):
        result = result.astype(out.dtype, copy=False)
    return np.where(where, result, out)


def _call(ufunc: np.ufunc, inputs: tuple, kwargs: dict):
    """Call a ufunc with keywords other than ``out`` and ``where``, or with operands that need preparation."""
    if ufunc.signature is not None and not {"axes", "axis", "keepdims"}.isdisjoint(kwargs):
        return _along_axes(ufunc, inputs, kwargs)
    dtype, casting = kwargs.pop("dtype", None), kwargs.pop("casting", "same_kind")
    for ignored in ("order", "subok"):
        kwargs.pop(ignored, None)
    if kwargs and ufunc not in FUNCTIONS:  # what has a handler judges its own keywords (axis= of np.vecdot)
        raise UnsupportedError(
            f"np.{ufunc.__name__}: the keywords {sorted(kwargs)} are not supported on tensors.",
            "they choose a loop of NumPy's compiled code, and a tensor is computed by rules",
            "leave them out; x.astype(dtype) chooses the dtype",
        )
    inputs = tuple([operand(x) for x in inputs])
    if ufunc not in UFUNCS and (function := python_function(ufunc)) is not None:
        return call_on_entries(function, ufunc.nout, inputs)
    if dtype is not None or casting != "same_kind":
        inputs = at_loop(ufunc, inputs, dtype, casting)
    op = UFUNCS.get(ufunc)
    if op is not None:
        return bind(op, inputs, NO_PARAMS)
    handler = FUNCTIONS.get(ufunc)
    if handler is not None:
        return handler(*inputs, **kwargs)
    raise unsupported(ufunc)


def loop_dtypes(ufunc: np.ufunc, inputs: tuple, dtype, casting: str) -> tuple:
    """Return the dtypes of the loop NumPy would run, operands first, raising as NumPy does where there is none."""
    operands = [_operand_type(x) for x in inputs]
    dtype = None if dtype is None else np.dtype(dtype)
    return ufunc.resolve_dtypes(
        (*operands, *(None,) * ufunc.nout), signature=(*(None,) * ufunc.nin, *(dtype,) * ufunc.nout), casting=casting
    )


def at_loop(ufunc: np.ufunc, inputs: tuple, dtype, casting: str) -> tuple:
    """Return operands cast to the dtypes of the loop NumPy would run."""
    return tuple([_as(x, d) for x, d in zip(inputs, loop_dtypes(ufunc, inputs, dtype, casting), strict=False)])


def _operand_type(x):
    """Return the dtype of an operand; Python's numbers are weak, and a type stands for one."""
    if type(x) in (int, float, complex):
        return type(x)
    return np.dtype(bool) if x is bool or type(x) is bool else x.dtype


def _as(x, dtype: np.dtype):
    return x if getattr(x, "dtype", None) == dtype else x.astype(dtype) if hasattr(x, "astype") else dtype.type(x)


def _load_special(ufunc: np.ufunc) -> None:
    """Declare the operators of ``scipy.special`` when the first ufunc outside NumPy meets a tensor.

    SciPy is optional and its import is slow, so nothing is imported before the user has imported it.
    """
    if ufunc not in UFUNCS and ufunc not in FUNCTIONS and "scipy.special" in sys.modules:
        importlib.import_module("dualad.ops.special")


# ── axes=, axis= and keepdims= of generalized ufuncs: np.matmul and its relatives ────────────────────────────────


def _along_axes(ufunc: np.ufunc, inputs: tuple, kwargs: dict):
    """Call a generalized ufunc of one result on the axes that keywords name.

    The core axes are moved to the end, where the operators expect them, and those of the result to where they are
    asked for.
    """
    axes, axis, keepdims = kwargs.pop("axes", None), kwargs.pop("axis", None), bool(kwargs.pop("keepdims", False))
    before, after = ufunc.signature.split("->")
    cores = [[name for name in part.split(",") if name] for part in (*before[1:-1].split("),("), after[1:-1])]
    single = all(core == cores[0] and len(core) == 1 for core in cores[:-1]) and not cores[-1]
    if axis is not None and axes is not None:
        raise TypeError("cannot specify both 'axis' and 'axes'")
    for name, given in (("axis", axis is not None), ("keepdims", keepdims)):
        if given and not single:
            raise TypeError(
                f"{ufunc.__name__}: {name} can only be used with a single shared core dimension, not with the"
                f" signature {ufunc.signature}"
            )
    inputs = tuple([operand(x) for x in inputs])
    if axis is not None:
        places = [(axis,)] * ufunc.nin + [(axis,) if keepdims else ()]
    elif axes is None:
        places = [tuple(range(-len(core), 0)) for core in cores[:-1]] + [(-1,) if keepdims else ()]
    else:
        places = _places(ufunc, axes, 0 if not (cores[-1] or keepdims) else None)
    moved = [_to_the_end(x, p, ufunc.__name__) for x, p in zip(inputs, places[:-1], strict=True)]
    out = _call(ufunc, tuple(moved), kwargs)
    if keepdims:
        out = np.reshape(out, (*np.shape(out), 1))
    where = tuple([normalize_axis(i, np.ndim(out), f"np.{ufunc.__name__}") for i in places[-1]])
    last = tuple(range(np.ndim(out) - len(where), np.ndim(out)))
    return out if where == last else np.moveaxis(out, last, where)


def _places(ufunc: np.ufunc, axes, of_result: int | None) -> list[tuple[int, ...]]:
    """Return ``axes=`` as a tuple for each operand and for the result, whose own may be left out if it has none."""
    if not isinstance(axes, list):
        raise TypeError("axes should be a list.")
    count = ufunc.nin + ufunc.nout
    if of_result == 0 and len(axes) == ufunc.nin:
        axes = [*axes, ()]
    if len(axes) != count:
        raise ValueError(f"axes should be a list with an entry for all {count} inputs and outputs")
    return [tuple(map(operator.index, a)) if isinstance(a, tuple) else (operator.index(a),) for a in axes]


def _to_the_end(x, axes: tuple[int, ...], name: str):
    axes = tuple([normalize_axis(i, np.ndim(x), f"np.{name}") for i in axes])
    last = tuple(range(np.ndim(x) - len(axes), np.ndim(x)))
    return x if axes == last else np.moveaxis(x, axes, last)
