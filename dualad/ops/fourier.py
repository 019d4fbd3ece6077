"""Discrete Fourier transforms along one axis; the n-dimensional and Hermitian ones are composed of these.

``n`` is the length transformed: the argument is cut or padded with zeros to it. ``norm`` is one of "backward",
"ortho", "forward". Not for: NumPy's signatures (``surface/fourier.py``).

The pairing ⟨c, y⟩ = Re Σ c·y is not conjugated and the DFT matrix is symmetric, so a complex transform is its own
transpose, up to cutting and padding, which are each other's.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..core.aval import Array, Aval, is_inexact
from ..core.constants import match_library
from .kinds import linear, unbroadcast
from .samples import Domain, anywhere, complex_plane

__all__ = ["fft", "ifft", "irfft", "rfft"]

_FLIPPED = {"backward": "forward", "ortho": "ortho", "forward": "backward"}


def _complex_dtype(dtype: np.dtype) -> np.dtype:
    return np.result_type(dtype if is_inexact(dtype) else float, np.complex64)


def _real_dtype(dtype: np.dtype) -> np.dtype:
    return _complex_dtype(dtype).type(0).real.dtype


def _resize(shape: tuple[int, ...], axis: int, n: int) -> tuple[int, ...]:
    return (*shape[:axis], n, *shape[axis + 1 :])


def fit_axis(x, n: int, axis: int):
    """Cut an axis to length n, or pad it with zeros: each is the other's transpose."""
    have = x.shape[axis]
    if have == n:
        return x
    if have > n:
        return x[(slice(None),) * axis + (slice(0, n),)]
    zeros = np.broadcast_to(np.zeros((), x.dtype), _resize(x.shape, axis, n - have))
    return np.concatenate([x, zeros], axis)


def _samples(make: Domain) -> list:
    return [
        (make(4), {"n": 4, "axis": 0, "norm": "backward"}),
        (make(5, 2), {"n": 5, "axis": 0, "norm": "ortho"}),
        (make(2, 5), {"n": 3, "axis": 1, "norm": "forward"}),
        (make(2, 3), {"n": 6, "axis": 1, "norm": "backward"}),
        (make(3, 1), {"n": 1, "axis": 1, "norm": "backward"}),
    ]


def _transform(name: str, function: Callable, samples: list, *, back=None, length=lambda n: n, dtype=_complex_dtype):
    """Declare a transform to ``n`` numbers of a dtype; ``back`` is its transpose (itself, if not given)."""

    def transpose(ct: Array, x: Array, *, n: int, axis: int, norm: str) -> tuple:
        ct = (back or op)(ct, n=n, axis=axis, norm=norm)
        return (unbroadcast(fit_axis(ct, x.shape[axis], axis), x),)

    op = linear(
        name,
        impl=lambda x, *, n, axis, norm: function(x, n, axis, norm),
        abstract_eval=lambda x, *, n, axis, norm: Aval(_resize(x.shape, axis, length(n)), dtype(x.dtype)),
        transpose=transpose,
        samples=samples,
        blocks="one",
    )
    return op


_real_samples = _samples(anywhere())
_both_samples = _real_samples + _samples(complex_plane())

fft = _transform("fft", np.fft.fft, _both_samples)
ifft = _transform("ifft", np.fft.ifft, _both_samples)

# rfft gives y_k = s Σ_j x_j ω^{jk} for 0 ≤ k ≤ n/2 and real x. Its transpose sends c to Re s Σ_k c_k ω^{jk}: the
# complex transform of c, padded with zeros to length n.
rfft = _transform(
    "rfft",
    np.fft.rfft,
    _real_samples,
    back=lambda ct, **params: np.real(fft(ct, **params)),
    length=lambda n: n // 2 + 1,
)


# irfft gives y_j = s Re Σ_k w_k x_k ω^{-jk} with w_k = 2 for the frequencies that stand for two, and w_k = 1 for k = 0
# and, if n is even, k = n/2. Its transpose sends c to s w_k Σ_j c_j ω^{-jk} = s w_k conj(rfft(c))_k.


def _irfft_back(ct: Array, *, n: int, axis: int, norm: str) -> Array:
    weights = np.full(n // 2 + 1, 2.0, np.real(np.zeros((), ct.dtype)).dtype)
    weights[0] = 1
    if n % 2 == 0:
        weights[-1] = 1
    weights = match_library(weights.reshape((-1,) + (1,) * (len(ct.shape) - axis - 1)), ct)
    return weights * np.conj(rfft(ct, n=n, axis=axis, norm=_FLIPPED[norm]))


irfft = _transform("irfft", np.fft.irfft, _both_samples, back=_irfft_back, dtype=_real_dtype)
