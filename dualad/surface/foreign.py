"""Advice where another library's compiled code met a tensor: a function of ``dualad.scipy``, or ``wrap``.

Not for: NumPy's own names, which have verdicts (``unsupported.py``).
"""

from __future__ import annotations

import functools
import importlib
import linecache
import os
import sys
import types
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..base.frames import PACKAGE
from ..core.tables import FUNCTIONS
from ..core.tracer import Tracer
from ..errors import ConversionError, UnsupportedError
from .objects import NUMPY, holds_objects

__all__ = ["about_sparse", "array_for_scipy", "foreign_ufunc", "labelled_operand", "last_counterpart", "sparse_operand"]

_WRAP = (
    "make it differentiable with dualad.wrap(function, jac=...), give it a rule with dualad.custom_jvp, or apply it to"
    " plain arrays (dualad.stop_gradient(x) gives the value alone)"
)


_MINIMIZERS = {
    "fmin": "Nelder-Mead", "fmin_bfgs": "BFGS", "fmin_cg": "CG", "fmin_cobyla": "COBYLA", "fmin_l_bfgs_b": "L-BFGS-B",
    "fmin_ncg": "Newton-CG", "fmin_powell": "Powell", "fmin_slsqp": "SLSQP", "fmin_tnc": "TNC",
}  # fmt: skip
_SCALAR_MINIMIZERS = {"brent": "brent", "fminbound": "bounded", "golden": "golden"}
_SAME = "use dualad.scipy.optimize.{}(..., method={!r}), which does the same and takes both"
_SEARCH = "use dualad.scipy.optimize.differential_evolution, which polishes what it finds and takes both"
#: functions of solvers that have no version of ours under their name -> what to write
_INSTEAD = {
    **{f"optimize.{name}": _SAME.format("minimize", method) for name, method in _MINIMIZERS.items()},
    **{f"optimize.{name}": _SAME.format("minimize_scalar", method) for name, method in _SCALAR_MINIMIZERS.items()},
    "optimize.brute": _SEARCH,
    "optimize.direct": _SEARCH,
    "optimize.milp": "fix the integers, outside of the transform, and use dualad.scipy.optimize.linprog for the rest",
}


def foreign_ufunc(ufunc: np.ufunc) -> UnsupportedError:
    """Make the error for a ufunc that is neither NumPy's nor has a rule: numba's, or SciPy's."""
    name = ufunc.__name__
    special = sys.modules.get("scipy.special")
    own = special is not None and getattr(special, name, None) is ufunc
    mirror = _public("dualad.scipy.special", name) if own else None
    return UnsupportedError(
        f"the ufunc {'scipy.special.' if own else ''}{name} was called on a tensor.",
        "it runs compiled code on plain numbers, and no rule for it is declared",
        f"use {mirror}" if mirror else _WRAP,
    )


def last_counterpart(error: BaseException, frames: Sequence[types.FrameType] = ()) -> str | None:
    """Return the counterpart in ``dualad.scipy`` of the SciPy function that the user's code called last.

    A name, or a sentence that says what to write where none does the same. The frames, innermost first, are those of a
    refusal that C held back; the error may have come up elsewhere.
    """
    if "scipy" not in sys.modules:
        return None
    trace = error.__traceback__
    path = []
    while trace is not None:
        path.append((trace.tb_frame, trace.tb_lineno))
        trace = trace.tb_next
    return _last_called(path) or _last_called([(frame, frame.f_lineno) for frame in reversed(frames)])


def _last_called(path: Sequence[tuple[types.FrameType, int]]) -> str | None:
    """Return the mirror of the outermost function of SciPy below the innermost frame of the user's."""
    found = None
    for frame, number in path:
        file, module = frame.f_code.co_filename, frame.f_globals.get("__name__") or ""
        if module.startswith("scipy."):
            parts = module.split(".")[1:]
            found = found or _in_place_of(parts[:-1] if parts[-1].startswith("_") else parts, frame)
        elif module.startswith(_OURS):
            return None  # we have called SciPy, with plain arrays
        elif not file.startswith(_BENEATH):
            # SciPy has called the user back; or this line calls a function of SciPy's that is C, and has no frame.
            line = linecache.getline(file, number)
            name = next((name for name in _COMPILED if f"{name}(" in line), None)
            found = name and _public("dualad.scipy.optimize", name)
    return found


#: solvers that are C alone
_COMPILED = ("linear_sum_assignment",)
#: where our versions of SciPy's functions stand
_OURS = f"{__name__.partition('.')[0]}.scipy."


_BENEATH = (
    os.path.dirname(os.path.dirname(os.path.realpath(__file__))),
    os.path.dirname(os.path.realpath(np.__file__)),
    "<",
)


def _in_place_of(package: list[str], frame: types.FrameType) -> str | None:
    names: list[Any] = [frame.f_code.co_name]
    if (instance := frame.f_locals.get("self")) is not None:
        names.append(getattr(instance, "name", None))  # norm.logpdf
        if names[0] in ("__init__", "__call__"):
            names += [getattr(instance, "__name__", None), type(instance).__name__]  # sph_harm_y(...), CubicSpline(...)
    while package:
        for name in names:
            if (instead := _INSTEAD.get(".".join([*package, str(name)]))) is not None:
                return instead
            found = _public(".".join(["dualad", "scipy", *package]), name)
            if found is not None:
                return found
        package = package[:-1]
    return None


def _public(module: str, name: str) -> str | None:
    """Return ``module.name`` if it is a function of ours."""
    try:
        known = name in importlib.import_module(module).__all__
    except (ImportError, AttributeError):
        return None
    return f"{module}.{name}" if known else None


def _of_sparse(error: BaseException) -> bool:
    """Whether an error comes from SciPy's sparse matrices, given a tensor or an array that holds tensors as objects."""
    trace, inside = error.__traceback__, list[Any]()
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        is_sparse = f"{os.sep}scipy{os.sep}sparse{os.sep}" in file and not file.startswith(PACKAGE)
        inside, trace = [*inside, trace.tb_frame] if is_sparse else [], trace.tb_next
    return any([isinstance(x, Tracer) or holds_objects(x) for frame in inside for x in frame.f_locals.values()])


def about_sparse(error: BaseException) -> ConversionError | None:
    """Say what to write when a sparse matrix of SciPy met a tensor, in an operation that SciPy does by itself."""
    if "scipy.sparse" not in sys.modules or not _of_sparse(error):
        return None
    what = f"a sparse matrix of SciPy met something that is no array of numbers ({error}); if it is a tensor:"
    return _sparse(what, last_counterpart(error))


#: functions of scipy.sparse that ask an operand for an array, and leave others to the operand's own operator
_ASKING = frozenset({"_divide", "_matmul_dispatch", "_multiply_2d_with_broadcasting", "multiply"})
_NO_ARRAY = np.array(None)
_NO_ARRAY.setflags(write=False)


def array_for_scipy(x: object, frame: types.FrameType) -> np.ndarray | None:
    """Return no array to an operator of a sparse matrix, so that the tensor is asked to compute it; None elsewhere."""
    name = frame.f_code.co_name
    if name not in _ASKING or not frame.f_globals["__name__"].startswith("scipy.sparse."):
        return None
    caller: types.FrameType | None = frame
    while caller is not None and caller.f_code.co_name in _ASKING:
        caller = caller.f_back
    if caller is None or not caller.f_code.co_name.startswith("__"):
        raise _sparse(f"{type(frame.f_locals.get('self')).__name__}.multiply was given a tensor.")
    return _NO_ARRAY


#: functions of NumPy's that read arrays from what they are given, and return arrays: labels play no part in them
_READING = (
    np.append, np.column_stack, np.concatenate, np.convolve, np.correlate, np.dot, np.dstack, np.einsum, np.hstack,
    np.inner, np.interp, np.outer, np.stack, np.tensordot, np.vdot, np.vstack, np.where,
)  # fmt: skip


@functools.cache
def _readers() -> frozenset[types.CodeType]:
    """Return the code of the handlers of such functions."""
    return frozenset([FUNCTIONS[f].__code__ for f in _READING])


def labelled_operand(x: object) -> np.ndarray | None:
    """Return the numbers of a table or a series of pandas where NumPy itself reads them without their labels; None."""
    frame: types.FrameType | None = sys._getframe(2)
    if not type(x).__module__.startswith("pandas."):
        return None
    while frame is not None and frame.f_code.co_filename.startswith((PACKAGE, NUMPY)):
        if frame.f_code in _readers():
            return np.asarray(x)
        frame = frame.f_back
    return None


def sparse_operand(x: object) -> ConversionError:
    """Make the error for an operation of one of SciPy's sparse matrices with a tensor."""
    return _sparse(f"a {type(x).__name__} of SciPy met a tensor.")


def _sparse(what: str, mirror: str | None = None) -> ConversionError:
    return ConversionError(
        what,
        "SciPy's sparse matrices are computed with in compiled code, which reads plain arrays only",
        f"use {mirror}"
        if mirror
        else "make the matrix one that meets tensors, dualad.scipy.sparse.csr_array(A) @ x; one with traced entries is"
        " dualad.scipy.sparse.csr_array((data, indices, indptr), shape)",
    )
