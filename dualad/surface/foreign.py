"""What to write where another library's compiled code met a tensor: a function of ``dualad.scipy``, or ``wrap``.

Loaded when there is something to say. Not for: NumPy's own names, which have verdicts (``unsupported.py``).
"""

from __future__ import annotations

import importlib
import os
import sys
import types

import numpy as np

from ..errors import ConversionError, UnsupportedError

__all__ = ["about_sparse", "foreign_ufunc", "mirrored", "of_sparse"]

_WRAP = (
    "make it differentiable with dualad.wrap(function, jac=...), give it a rule with dualad.custom_jvp, or apply it to"
    " plain arrays (dualad.stop_gradient(x) gives the value alone)"
)


def foreign_ufunc(ufunc: np.ufunc) -> UnsupportedError:
    """Make the error for a ufunc that is neither NumPy's nor has a rule: numba's, ``np.frompyfunc``'s, SciPy's."""
    name = ufunc.__name__
    special = sys.modules.get("scipy.special")
    own = special is not None and getattr(special, name, None) is ufunc
    mirror = _public("dualad.scipy.special", name) if own else None
    return UnsupportedError(
        f"the ufunc {'scipy.special.' if own else ''}{name} was called on a tensor.",
        "it runs compiled code (or a Python function entry by entry) on plain numbers, and no rule for it is declared",
        f"use {mirror}" if mirror else _WRAP,
    )


def mirrored(error: BaseException) -> str | None:
    """Return what ``dualad.scipy`` has in place of the function of SciPy that the user's code called last."""
    scipy = sys.modules.get("scipy")
    if scipy is None:
        return None
    root = os.path.dirname(os.path.realpath(scipy.__file__))
    found, trace = None, error.__traceback__
    while trace is not None:
        frame = trace.tb_frame
        file = frame.f_code.co_filename
        if file.startswith(root):
            parts = os.path.relpath(file, root).removesuffix(".py").split(os.sep)
            found = found or _in_place_of(parts[:-1] if parts[-1].startswith("_") else parts, frame)
        elif not file.startswith(_BENEATH):
            found = None  # SciPy has called the user back
        trace = trace.tb_next
    return found


_BENEATH = (
    os.path.dirname(os.path.dirname(os.path.realpath(__file__))),
    os.path.dirname(os.path.realpath(np.__file__)),
    "<",
)


def _in_place_of(package: list[str], frame: types.FrameType) -> str | None:
    names = [frame.f_code.co_name]
    if (instance := frame.f_locals.get("self")) is not None:
        names.append(getattr(instance, "name", None))  # norm.logpdf
        if names[0] in ("__init__", "__call__"):
            names += [getattr(instance, "__name__", None), type(instance).__name__]  # sph_harm_y(...), CubicSpline(...)
    while package:
        for name in names:
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


def of_sparse(error: BaseException) -> bool:
    """Say whether an error comes from SciPy's sparse matrices, who saw an array of Python objects."""
    trace, last = error.__traceback__, ""
    while trace is not None:
        last, trace = trace.tb_frame.f_code.co_filename, trace.tb_next
    inside = f"{os.sep}scipy{os.sep}sparse{os.sep}" in last
    return inside and any(
        part in str(error) for part in ("object", "dtype('O')", "adding a nonzero scalar", "unsupported")
    )


def about_sparse(what: str, mirror: str | None = None) -> ConversionError:
    """Make the error for a sparse matrix of SciPy that met a tensor, or was to be made of one."""
    return ConversionError(
        what,
        "SciPy's sparse matrices are computed with in compiled code, which reads plain arrays only",
        f"use {mirror}"
        if mirror
        else "make the matrix one that meets tensors, dualad.scipy.sparse.csr_array(A) @ x; one with traced entries is"
        " dualad.scipy.sparse.csr_array((data, indices, indptr), shape)",
    )
