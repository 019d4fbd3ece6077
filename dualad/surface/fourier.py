"""``np.fft``: NumPy's signatures over the one-axis transforms of ``ops/fourier.py``.

Not for: ``scipy.fft``, whose transforms NumPy's protocols do not reach.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.aval import Array, Axis
from ..errors import ArgumentError, DtypeError
from ..ops import fourier
from .arguments import function, normalize_axes, normalize_axis, numpys_own, operand


def _norm(norm: str | None) -> str:
    if norm not in (None, "backward", "ortho", "forward"):
        raise ValueError(f'Invalid norm value {norm}; should be "backward", "ortho" or "forward".')
    return norm or "backward"


def _along_one_axis(numpy_function, op, own_length=lambda size: size) -> None:
    name = f"np.fft.{numpy_function.__name__}"

    @function(numpy_function)
    def transform(a: Array, n: Any = None, axis: Axis = -1, norm: Any = None, out: Array = None) -> Array:
        a = operand(a)
        if op is fourier.rfft and a.dtype.kind == "c":
            raise DtypeError(
                f"{name} was called on dtype {a.dtype}.", "it transforms real values", "use np.fft.fft, or np.real(x)"
            )
        axis = normalize_axis(axis, a.ndim, name)
        n = own_length(a.shape[axis]) if n is None else n.__index__()
        if n < 1:
            raise ValueError(f"Invalid number of FFT data points ({n}) specified.")
        return op(a, n=n, axis=axis, norm=_norm(norm))


_along_one_axis(np.fft.fft, fourier.fft)
_along_one_axis(np.fft.ifft, fourier.ifft)
_along_one_axis(np.fft.rfft, fourier.rfft)
_along_one_axis(np.fft.irfft, fourier.irfft, lambda size: 2 * (size - 1))

_SWAPPED = {"backward": "forward", "ortho": "ortho", "forward": "backward"}


@function(np.fft.hfft, kind="composite")
def hfft(a: Array, n: Any = None, axis: Axis = -1, norm: Any = None, out: Array = None) -> Array:
    return np.fft.irfft(np.conj(a), n, axis, _SWAPPED[_norm(norm)])


@function(np.fft.ihfft, kind="composite")
def ihfft(a: Array, n: Any = None, axis: Axis = -1, norm: Any = None, out: Array = None) -> Array:
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


def _along_axes(numpy_function, once, real=None, last: bool = False) -> None:
    """Register transforms of axes after each other; the one from or to ``real`` numbers comes first, or ``last``."""

    @function(numpy_function, kind="composite")
    def transform(a: Array, s: Array = None, axes: Any = None, norm: Any = None, out: Array = None) -> Array:
        a = operand(a)
        steps = [(once, *step) for step in reversed(_axes(a, s, axes, f"np.fft.{numpy_function.__name__}"))]
        if real is not None:
            steps[0] = (real, *steps[0][1:])
        for along, axis, n in [*steps[1:], steps[0]] if last else steps:
            a = along(a, n, axis, norm)
        return a


_along_axes(np.fft.fftn, np.fft.fft)
_along_axes(np.fft.ifftn, np.fft.ifft)
_along_axes(np.fft.rfftn, np.fft.fft, np.fft.rfft)
_along_axes(np.fft.irfftn, np.fft.ifft, np.fft.irfft, last=True)


def _along_two_axes(numpy_function, along_axes) -> None:
    @function(numpy_function, kind="composite")
    def transform(a: Array, s: Array = None, axes: Any = (-2, -1), norm: Any = None, out: Array = None) -> Array:
        return along_axes(a, s, axes, norm)


_along_two_axes(np.fft.fft2, np.fft.fftn)
_along_two_axes(np.fft.ifft2, np.fft.ifftn)
_along_two_axes(np.fft.rfft2, np.fft.rfftn)
_along_two_axes(np.fft.irfft2, np.fft.irfftn)


numpys_own(np.fft.fftshift, np.fft.ifftshift, kind="composite")
