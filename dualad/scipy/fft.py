"""``scipy.fft``: Fourier transforms, and cosine and sine transforms.

Fourier transforms of tensors are NumPy's, which compute the same. Not for: ``np.fft``, which reaches tensors by itself.
"""

from __future__ import annotations

import operator
from collections.abc import Callable

import numpy as np
import scipy.fft as sf

from ..core.aval import aval_of
from ..ops import cosine_transform
from ..ops.fourier import fit_axis
from ..surface.arguments import normalize_axes, normalize_axis, operand
from .mirror import falls_back, mirrors

__all__ = [
    "dct", "dctn", "dst", "dstn", "fft", "fft2", "fftn", "fftshift", "hfft", "hfft2", "hfftn", "idct", "idctn", "idst",
    "idstn", "ifft", "ifft2", "ifftn", "ifftshift", "ihfft", "ihfft2", "ihfftn", "irfft", "irfft2", "irfftn", "rfft",
    "rfft2", "rfftn",
]  # fmt: skip


# ── Fourier transforms ───────────────────────────────────────────────────────────────────────────────────────────


def _one_axis(name: str) -> Callable:
    transform = getattr(np.fft, name)

    def function(x, n=None, axis=-1, norm=None, overwrite_x=False, workers=None, *, plan=None):
        return transform(operand(x), n, axis, norm)

    return mirrors(getattr(sf, name), words="")(function)


def _several_axes(name: str, default=None) -> Callable:
    transform = getattr(np.fft, name.replace("2", "n"))

    def function(x, s=None, axes=default, norm=None, overwrite_x=False, workers=None, *, plan=None):
        x = operand(x)
        # Without axes NumPy takes the last len(s), and so does SciPy; given both, NumPy wants them written out.
        if s is not None and axes is None:
            axes = tuple(range(-len(s), 0))
        return transform(x, s, axes, norm)

    return mirrors(getattr(sf, name), words="")(function)


fft, ifft, rfft, irfft, hfft, ihfft = map(_one_axis, ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"))
fftn, ifftn, rfftn, irfftn = map(_several_axes, ("fftn", "ifftn", "rfftn", "irfftn"))
fft2, ifft2, rfft2, irfft2 = [_several_axes(name, (-2, -1)) for name in ("fft2", "ifft2", "rfft2", "irfft2")]

_OTHER_WAY = {None: "forward", "backward": "forward", "ortho": "ortho", "forward": "backward"}


def _hermitian(name: str, words: str, default=None) -> Callable:
    def function(x, s=None, axes=default, norm=None, overwrite_x=False, workers=None, *, plan=None):
        if name.startswith("i"):
            return np.conj(rfftn(x, s, axes, _OTHER_WAY[norm]))
        return irfftn(np.conj(operand(x)), s, axes, _OTHER_WAY[norm])

    return mirrors(getattr(sf, name), words=words)(function)


hfftn = _hermitian("hfftn", "Transform Hermitian-symmetric data of several dimensions: spectra of real signals.")
hfft2 = _hermitian("hfft2", "Transform Hermitian-symmetric data of two dimensions.", (-2, -1))
ihfftn = _hermitian("ihfftn", "Invert ``hfftn``.")
ihfft2 = _hermitian("ihfft2", "Invert ``hfft2``.", (-2, -1))


@mirrors(sf.fftshift)
def fftshift(x, axes=None):
    """Move the zero frequency to the middle."""
    return np.fft.fftshift(operand(x), axes)


@mirrors(sf.ifftshift)
def ifftshift(x, axes=None):
    """Undo ``fftshift``."""
    return np.fft.ifftshift(operand(x), axes)


# ── cosine and sine transforms ───────────────────────────────────────────────────────────────────────────────────
#
# The inverse of a transform of type t is one of the inverse type, scaled the other way.


def _transform(x, op, inverse: bool, type, axis: int, norm, orthogonalize):
    if type not in (1, 2, 3, 4):
        raise ValueError("invalid type of transform: expected 1, 2, 3 or 4")
    if norm not in _OTHER_WAY:
        raise ValueError(f'Invalid norm value {norm!r}, should be "backward", "ortho" or "forward"')
    if not x.shape[axis]:
        raise ValueError(f"invalid number of data points ({x.shape[axis]}) specified")
    if type == 1 and op is cosine_transform.dct and x.shape[axis] < 2:
        raise ValueError("DCT-I is not defined for size < 2")
    # SciPy takes no notice of orthogonalize for complex arguments.
    if orthogonalize is None or aval_of(x).dtype.kind == "c":
        orthogonalize = norm == "ortho"
    if inverse:
        type, norm = cosine_transform.INVERSE[type], _OTHER_WAY[norm]
    return op(x, type=int(type), axis=axis, norm=norm or "backward", orthogonalize=bool(orthogonalize))


def _along_one(name: str, inverse: bool) -> Callable:
    op = getattr(cosine_transform, name.removeprefix("i"))

    def function(x, type=2, n=None, axis=-1, norm=None, overwrite_x=False, workers=None, orthogonalize=None):
        x = operand(x)
        axis = normalize_axis(axis, np.ndim(x), f"scipy.fft.{name}")
        x = x if n is None else fit_axis(x, operator.index(n), axis)
        return _transform(x, op, inverse, type, axis, norm, orthogonalize)

    return mirrors(getattr(sf, name), words="")(function)


def _along_several(name: str, inverse: bool) -> Callable:
    op = getattr(cosine_transform, name.removeprefix("i").removesuffix("n"))

    def function(x, type=2, s=None, axes=None, norm=None, overwrite_x=False, workers=None, *, orthogonalize=None):
        x = operand(x)
        if s is not None:
            s = (operator.index(s),) if np.ndim(s) == 0 else tuple([operator.index(n) for n in s])
            axes = tuple(range(np.ndim(x) - len(s), np.ndim(x))) if axes is None else axes
        axes = normalize_axes(axes, np.ndim(x), f"scipy.fft.{name}")
        if s is not None and len(s) != len(axes):
            raise ValueError("when given, axes and shape arguments have to be of the same length")
        for i, axis in enumerate(axes):
            x = x if s is None or s[i] == -1 else fit_axis(x, s[i], axis)
        for axis in axes:
            x = _transform(x, op, inverse, type, axis, norm, orthogonalize)
        return x

    return mirrors(getattr(sf, name), words="")(function)


dct, dst = _along_one("dct", False), _along_one("dst", False)
idct, idst = _along_one("idct", True), _along_one("idst", True)
dctn, dstn = _along_several("dctn", False), _along_several("dstn", False)
idctn, idstn = _along_several("idctn", True), _along_several("idstn", True)

__getattr__, __dir__ = falls_back(sf, globals())
