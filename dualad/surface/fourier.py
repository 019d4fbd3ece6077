"""``np.fft``: NumPy's signatures over the one-axis transforms of ``ops/fourier.py``.

Not for: ``scipy.fft``, whose transforms NumPy's protocols do not reach.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.aval import Array, Axis
from ..errors import ArgumentError, DtypeError
from ..ops import fourier
from .arguments import normalize_axes, normalize_axis, operand
from .functions import function

__all__: list[str] = []


def _norm(norm: str | None) -> str:
    if norm not in (None, "backward", "ortho", "forward"):
        raise ValueError(f'Invalid norm value {norm}; should be "backward", "ortho" or "forward".')
    return norm or "backward"


def _length(n, default: int) -> int:
    n = default if n is None else n.__index__()
    if n < 1:
        raise ValueError(f"Invalid number of FFT data points ({n}) specified.")
    return n


def _real(a, name: str):
    if a.dtype.kind == "c":
        raise DtypeError(
            f"np.fft.{name} was called on dtype {a.dtype}.",
            "it transforms real values",
            "use np.fft.fft, or np.real(x)",
        )
    return a


@function(np.fft.fft)
def fft(a: Array, n: Any = None, axis: Axis = -1, norm: Any = None, out: Array | None = None) -> Array:
    a = operand(a)
    axis = normalize_axis(axis, a.ndim, "np.fft.fft")
    return fourier.fft(a, n=_length(n, a.shape[axis]), axis=axis, norm=_norm(norm))


@function(np.fft.ifft)
def ifft(a: Array, n: Any = None, axis: Axis = -1, norm: Any = None, out: Array | None = None) -> Array:
    a = operand(a)
    axis = normalize_axis(axis, a.ndim, "np.fft.ifft")
    return fourier.ifft(a, n=_length(n, a.shape[axis]), axis=axis, norm=_norm(norm))


@function(np.fft.rfft)
def rfft(a: Array, n: Any = None, axis: Axis = -1, norm: Any = None, out: Array | None = None) -> Array:
    a = _real(operand(a), "rfft")
    axis = normalize_axis(axis, a.ndim, "np.fft.rfft")
    return fourier.rfft(a, n=_length(n, a.shape[axis]), axis=axis, norm=_norm(norm))


@function(np.fft.irfft)
def irfft(a: Array, n: Any = None, axis: Axis = -1, norm: Any = None, out: Array | None = None) -> Array:
    a = operand(a)
    axis = normalize_axis(axis, a.ndim, "np.fft.irfft")
    return fourier.irfft(a, n=_length(n, 2 * (a.shape[axis] - 1)), axis=axis, norm=_norm(norm))


_SWAPPED = {"backward": "forward", "ortho": "ortho", "forward": "backward"}


@function(np.fft.hfft, kind="composite")
def hfft(a: Array, n: Any = None, axis: Axis = -1, norm: Any = None, out: Array | None = None) -> Array:
    return np.fft.irfft(np.conj(a), n, axis, _SWAPPED[_norm(norm)])


@function(np.fft.ihfft, kind="composite")
def ihfft(a: Array, n: Any = None, axis: Axis = -1, norm: Any = None, out: Array | None = None) -> Array:
    return np.conj(np.fft.rfft(a, n, axis, _SWAPPED[_norm(norm)]))


def _axes(a, s, axes, name: str) -> list[tuple[int, int | None]]:
    """Return the axes to transform, in order, each with its length (``None`` for the whole axis)."""
    if s is not None and axes is None:
        axes = range(-len(s), 0)
    axes = range(a.ndim) if axes is None else axes
    axes = [normalize_axes(i, a.ndim, name)[0] for i in axes]
    lengths = [None] * len(axes) if s is None else [None if n is None or n == -1 else n for n in s]
    if len(lengths) != len(axes):
        raise ArgumentError(
            f"{name}: s has {len(lengths)} entries for {len(axes)} axes.",
            "each axis is cut or filled to one length",
            "give one length per axis, -1 or None for its own",
        )
    return list(zip(axes, lengths, strict=True))


@function(np.fft.fftn, kind="composite")
def fftn(a: Array, s: Array = None, axes: Any = None, norm: Any = None, out: Array | None = None) -> Array:
    a = operand(a)
    for axis, n in reversed(_axes(a, s, axes, "np.fft.fftn")):
        a = np.fft.fft(a, n, axis, norm)
    return a


@function(np.fft.ifftn, kind="composite")
def ifftn(a: Array, s: Array = None, axes: Any = None, norm: Any = None, out: Array | None = None) -> Array:
    a = operand(a)
    for axis, n in reversed(_axes(a, s, axes, "np.fft.ifftn")):
        a = np.fft.ifft(a, n, axis, norm)
    return a


@function(np.fft.rfftn, kind="composite")
def rfftn(a: Array, s: Array = None, axes: Any = None, norm: Any = None, out: Array | None = None) -> Array:
    a = operand(a)
    *others, (last, n) = _axes(a, s, axes, "np.fft.rfftn")
    a = np.fft.rfft(a, n, last, norm)
    for axis, n in reversed(others):
        a = np.fft.fft(a, n, axis, norm)
    return a


@function(np.fft.irfftn, kind="composite")
def irfftn(a: Array, s: Array = None, axes: Any = None, norm: Any = None, out: Array | None = None) -> Array:
    a = operand(a)
    *others, (last, n) = _axes(a, s, axes, "np.fft.irfftn")
    for axis, m in reversed(others):
        a = np.fft.ifft(a, m, axis, norm)
    return np.fft.irfft(a, n, last, norm)


@function(np.fft.fft2, kind="composite")
def fft2(a: Array, s: Array = None, axes: Any = (-2, -1), norm: Any = None, out: Array | None = None) -> Array:
    return np.fft.fftn(a, s, axes, norm)


@function(np.fft.ifft2, kind="composite")
def ifft2(a: Array, s: Array = None, axes: Any = (-2, -1), norm: Any = None, out: Array | None = None) -> Array:
    return np.fft.ifftn(a, s, axes, norm)


@function(np.fft.rfft2, kind="composite")
def rfft2(a: Array, s: Array = None, axes: Any = (-2, -1), norm: Any = None, out: Array | None = None) -> Array:
    return np.fft.rfftn(a, s, axes, norm)


@function(np.fft.irfft2, kind="composite")
def irfft2(a: Array, s: Array = None, axes: Any = (-2, -1), norm: Any = None, out: Array | None = None) -> Array:
    return np.fft.irfftn(a, s, axes, norm)


def _shift_axes(x, axes):
    axes = range(x.ndim) if axes is None else (axes,) if np.ndim(axes) == 0 else axes
    return [normalize_axis(i, x.ndim, "np.fft.fftshift") for i in axes]


@function(np.fft.fftshift, kind="composite")
def fftshift(x: Array, axes: Any = None) -> Array:
    x = operand(x)
    axes = _shift_axes(x, axes)
    return np.roll(x, [x.shape[i] // 2 for i in axes], axes)


@function(np.fft.ifftshift, kind="composite")
def ifftshift(x: Array, axes: Any = None) -> Array:
    x = operand(x)
    axes = _shift_axes(x, axes)
    return np.roll(x, [-(x.shape[i] // 2) for i in axes], axes)
