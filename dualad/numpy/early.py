"""Parts of the array API standard (2024.12) that NumPy 2.0 lacks; loaded there alone.

For: ``astype`` and ``from_dlpack`` with ``device=``, ``clip`` with ``min=`` and ``max=``, ``reshape`` with ``copy=``,
``__array_namespace_info__``. Not for: what every release lacks (``standard.py``).
"""

from __future__ import annotations

import itertools

import numpy as np

from .forward import with_buffers

__all__ = ["NAMES", "NamespaceInfo", "astype", "clip", "from_dlpack", "reshape"]

_clip, _reshape = with_buffers(np.clip), with_buffers(np.reshape)


def _only_cpu(device) -> None:
    if device not in (None, "cpu"):
        raise ValueError(f'Device not understood. Only "cpu" is allowed, but received: {device}')


def astype(x, dtype, /, *, copy=True, device=None):
    """As ``numpy.astype``, with the standard's ``device=``."""
    _only_cpu(device)
    return x.astype(dtype, copy=copy)


def clip(a, a_min=None, a_max=None, out=None, *, min=None, max=None, **kwargs):
    """As ``numpy.clip``, with the standard's ``min=`` and ``max=``."""
    return _clip(a, a_min if min is None else min, a_max if max is None else max, out, **kwargs)


def reshape(a, /, shape=None, order="C", *, newshape=None, copy=None):
    """As ``numpy.reshape``, with the standard's ``copy=``."""
    out = _reshape(np.copy(a) if copy else a, newshape if shape is None else shape, order)
    if copy is False and isinstance(a, np.ndarray) and not np.may_share_memory(a, out) and out.size:
        raise ValueError("Unable to avoid creating a copy while reshaping.")
    return out


def from_dlpack(x, /, *, device=None, copy=None):
    """As ``numpy.from_dlpack``."""
    _only_cpu(device)
    out = np.from_dlpack(x)
    return out.copy() if copy else out


class NamespaceInfo:
    """The result of ``__array_namespace_info__()``: the standard's questions about devices and dtypes."""

    _KINDS = {
        "bool": ("bool",),
        "signed integer": ("int8", "int16", "int32", "int64"),
        "unsigned integer": ("uint8", "uint16", "uint32", "uint64"),
        "real floating": ("float32", "float64"),
        "complex floating": ("complex64", "complex128"),
    }
    _UNIONS = {
        "integral": ("signed integer", "unsigned integer"),
        "numeric": ("signed integer", "unsigned integer", "real floating", "complex floating"),
    }

    def capabilities(self) -> dict:
        """Return the array API's capabilities: data-dependent shapes, and the most axes of an array."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> str:
        """Return the device arrays are made on."""
        return "cpu"

    def devices(self) -> list[str]:
        """Return the devices there are."""
        return ["cpu"]

    def default_dtypes(self, *, device: str | None = None) -> dict[str, np.dtype]:
        """Return the dtypes of arrays made without one."""
        _only_cpu(device)
        names = {"real floating": float, "complex floating": complex, "integral": np.intp, "indexing": np.intp}
        return {name: np.dtype(dtype) for name, dtype in names.items()}

    def dtypes(self, *, device: str | None = None, kind=None) -> dict[str, np.dtype]:
        """Return the dtypes of the standard, by name."""
        _only_cpu(device)
        kinds = tuple(self._KINDS) if kind is None else kind if isinstance(kind, tuple) else (kind,)
        if not {*kinds} <= {*self._KINDS, *self._UNIONS}:
            raise ValueError(f"unsupported kind: {kind!r}")
        single = itertools.chain.from_iterable(self._UNIONS.get(k, (k,)) for k in kinds)
        return {name: np.dtype(name) for k in single for name in self._KINDS[k]}


#: what dualad.numpy gets in place of NumPy's
NAMES = {
    "__array_namespace_info__": NamespaceInfo,
    "astype": astype,
    "clip": clip,
    "from_dlpack": from_dlpack,
    "reshape": reshape,
}
