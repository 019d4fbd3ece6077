"""The array API standard (2024.12) where NumPy's own functions say it differently, or older NumPys do not say it.

For: ``sort`` and ``argsort`` with ``descending=``, ``finfo`` and ``iinfo`` of an array, ``fftfreq`` with ``dtype=``,
``__array_namespace_info__``. Every signature stays NumPy's and gains the standard's. Not for: names that NumPy has as
the standard wants them.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

import numpy as np

from ..core.tracer import Tracer
from ..errors import ArgumentError
from .forward import with_buffers

__all__ = ["argsort", "array_namespace", "cumulative_prod", "cumulative_sum", "finfo", "iinfo", "sort", "unstack"]

_VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12")

_sort, _argsort = with_buffers(np.sort), with_buffers(np.argsort)
_take_along_axis = with_buffers(np.take_along_axis)


def sort(a, /, axis=-1, kind=None, order=None, *, stable=None, descending=False):
    """As ``numpy.sort``, and with the standard's ``descending=``."""
    if not descending:
        return _sort(a, axis, kind, order, stable=stable)
    if axis is None:
        a, axis = np.ravel(a), -1
    return _take_along_axis(a, argsort(a, axis, kind, order, stable=stable, descending=True), axis)


def argsort(a, /, axis=-1, kind=None, order=None, *, stable=None, descending=False):
    """As ``numpy.argsort``, and with the standard's ``descending=``; equal entries keep their order, NaN is last."""
    if not descending:
        return _argsort(a, axis, kind, order, stable=stable)
    # Sorting numbers that run the other way leaves equal entries in their order.
    a = a if hasattr(a, "dtype") else np.asarray(a)
    stable = True if kind is None and stable is None else stable
    return _argsort(-a if a.dtype.kind in "fc" else ~a, axis, kind, order, stable=stable)


_ARRAYS: Any = (Tracer, np.ndarray)


def _dtype_of(x: Any) -> Any:
    return x.dtype if isinstance(x, _ARRAYS) else x


def finfo(type, /):
    """As ``numpy.finfo``, of a dtype, an array or a tensor."""
    return np.finfo(_dtype_of(type))


def iinfo(type, /):
    """As ``numpy.iinfo``, of a dtype, an array or a tensor."""
    return np.iinfo(_dtype_of(type))


def _scan(x, axis, dtype, include_initial, scan, neutral):
    if axis is None:
        if np.ndim(x) > 1:
            raise ValueError("For arrays which have more than one dimension ``axis`` argument is required.")
        axis = 0
    out = scan(x, axis=axis, dtype=dtype)
    if not include_initial:
        return out
    shape = list(out.shape)
    shape[axis] = 1
    return np.concatenate([np.full_like(out, neutral, shape=tuple(shape)), out], axis=axis)


def _cumulative_sum(x, /, *, axis=None, dtype=None, out=None, include_initial=False):
    return _scan(x, axis, dtype, include_initial, np.cumsum, 0)


def _cumulative_prod(x, /, *, axis=None, dtype=None, out=None, include_initial=False):
    return _scan(x, axis, dtype, include_initial, np.cumprod, 1)


# NumPy has these from 2.1 on.
cumulative_sum = with_buffers(np.cumulative_sum) if hasattr(np, "cumulative_sum") else _cumulative_sum
cumulative_prod = with_buffers(np.cumulative_prod) if hasattr(np, "cumulative_prod") else _cumulative_prod
unstack = with_buffers(np.unstack) if hasattr(np, "unstack") else lambda x, /, *, axis=0: tuple(np.moveaxis(x, axis, 0))


def array_namespace(namespace):
    """Make the method ``__array_namespace__`` that answers with a namespace."""

    def __array_namespace__(self, /, *, api_version: str | None = None):
        """Return ``dualad.numpy``, the array API namespace of tensors; beside plain arrays, that of these."""
        if api_version is not None and api_version not in _VERSIONS:
            raise ArgumentError(
                f"__array_namespace__ was asked for version {api_version!r} of the array API standard.",
                "dualad.numpy follows the versions up to 2024.12",
                f"ask for one of {', '.join(_VERSIONS)}",
            )
        return _beside(sys._getframe(1)) or namespace

    return __array_namespace__


def _beside(frame):
    """Return the namespace of the plain arrays that ``array_api_compat`` compares ours with; None where there is none.

    It allows for one namespace a call, and each copy of it (SciPy's, scikit-learn's) has one of its own for NumPy.
    """
    package, _, here = (frame.f_globals.get("__name__") or "").rpartition(".common.")
    if here != "_helpers" or not any([isinstance(x, (np.ndarray, np.generic)) for x in frame.f_locals.get("xs", ())]):
        return None
    return np if frame.f_locals.get("use_compat") is False else importlib.import_module(f"{package}.numpy")
