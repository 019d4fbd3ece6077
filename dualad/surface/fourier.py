"""``np.fft``: NumPy's signatures over the one-axis transforms of ``ops/fourier.py``.

Not for: ``scipy.fft``, whose transforms NumPy's protocols do not reach.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.aval import Array, Axis
from ..errors import DtypeError
from ..ops import fourier
from .arguments import function, normalize_axis, numpys_own, operand


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

numpys_own(
    np.fft.fft2, np.fft.fftn, np.fft.fftshift, np.fft.hfft, np.fft.ifft2, np.fft.ifftn, np.fft.ifftshift, np.fft.ihfft,
    np.fft.irfft2, np.fft.irfftn, np.fft.rfft2, np.fft.rfftn, kind="composite",
)  # fmt: skip
