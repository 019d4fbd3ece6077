"""``scipy.signal``: convolution, correlation, linear filters.

The coefficients of filters may be traced like the signals. Not for: the design of filters, spectral estimates.
"""

from __future__ import annotations

import itertools

import numpy as np
import scipy.signal as sg

from ..core.aval import aval_of
from ..ops import scans
from ..ops.filtering import all_pole, convolve_nd
from ..surface.arguments import normalize_axes, normalize_axis, operand
from .mirror import falls_back, mirrors
from .ndimage import convolve1d

__all__ = [
    "convolve", "convolve2d", "correlate", "correlate2d", "detrend", "fftconvolve", "filtfilt", "hilbert", "lfilter",
    "lfilter_zi", "lfiltic", "oaconvolve", "savgol_filter", "sosfilt",
]  # fmt: skip


# ── convolution ──────────────────────────────────────────────────────────────────────────────────────────────────


def _check_mode(mode: str) -> None:
    if mode not in ("full", "same", "valid"):
        raise ValueError("Acceptable mode flags are 'valid', 'same', or 'full'.")


def _center(x, shape: tuple[int, ...]):
    """Cut an array to a shape, around its middle."""
    begins = [(n - m) // 2 for n, m in zip(x.shape, shape, strict=True)]
    return x[tuple([slice(begin, begin + m) for begin, m in zip(begins, shape, strict=True)])]


def _order(in1, in2, axes: tuple[int, ...]):
    """Return the array that contains the other one first, for mode "valid"."""
    if all(in1.shape[a] >= in2.shape[a] for a in axes):
        return in1, in2
    if all(in1.shape[a] <= in2.shape[a] for a in axes):
        return in2, in1
    raise ValueError("For 'valid' mode, one must be at least as large as the other in every dimension")


def _convolve(in1, in2, mode: str, method: str, axes: tuple[int, ...]):
    """Convolve along some axes; the others broadcast."""
    first = in1.shape
    if mode == "valid":
        in1, in2 = _order(in1, in2, axes)
    if axes:
        last = tuple(range(-len(axes), 0))
        in1, in2 = np.moveaxis(in1, axes, last), np.moveaxis(in2, axes, last)
        way = {"mode": "valid" if mode == "valid" else "full", "method": method, "ndim": len(axes)}
        out = np.moveaxis(convolve_nd(in1, in2, **way), last, axes)
    else:
        out = in1 * in2
    return _center(out, first) if mode == "same" else out


def _chosen(in1, in2, mode: str, method: str) -> str:
    """Choose the faster way for these shapes and dtypes."""
    if method not in ("auto", "direct", "fft"):
        raise ValueError("Acceptable method flags are 'auto', 'direct', or 'fft'.")
    avals = [aval_of(in1), aval_of(in2)]
    if method != "auto" or any(a.dtype.kind not in "fc" for a in avals):
        return "direct" if method == "auto" else method
    return sg.choose_conv_method(*[np.broadcast_to(np.zeros((), a.dtype), a.shape) for a in avals], mode=mode)


@mirrors(sg.convolve)
def convolve(in1, in2, mode="full", method="auto"):
    """Convolve two arrays along all of their axes."""
    in1, in2 = operand(in1), operand(in2)
    if np.ndim(in1) != np.ndim(in2):
        raise ValueError("volume and kernel should have the same dimensionality")
    _check_mode(mode)
    if not np.ndim(in1):
        return in1 * in2
    axes = tuple(range(np.ndim(in1)))
    first, second = _order(in1, in2, axes) if mode == "valid" else (in1, in2)
    method = _chosen(first, second, mode, method)
    return _convolve(in1, in2, mode, method, axes)


@mirrors(sg.correlate)
def correlate(in1, in2, mode="full", method="auto"):
    """Correlate two arrays along all of their axes."""
    in1, in2 = operand(in1), operand(in2)
    if np.ndim(in1) != np.ndim(in2):
        raise ValueError("in1 and in2 should have the same dimensionality")
    return convolve(in1, np.conj(np.flip(in2)) if np.ndim(in2) else np.conj(in2), mode, method)


@mirrors(sg.fftconvolve)
def fftconvolve(in1, in2, mode="full", axes=None):
    """Convolve two arrays by Fourier transforms, along some axes; the others broadcast."""
    in1, in2 = operand(in1), operand(in2)
    if np.ndim(in1) != np.ndim(in2):
        raise ValueError("in1 and in2 should have the same dimensionality")
    _check_mode(mode)
    if not np.ndim(in1):
        return in1 * in2
    if not np.size(in1) or not np.size(in2):
        return np.zeros(0)
    axes = normalize_axes(axes, np.ndim(in1), "scipy.signal.fftconvolve")
    if not axes:
        raise ValueError("when provided, axes cannot be empty")
    in1, in2 = [x.astype(np.float64) if aval_of(x).dtype.kind not in "fc" else x for x in (in1, in2)]
    axes = tuple([a for a in axes if in1.shape[a] != 1 != in2.shape[a]])  # one of length 1 broadcasts, in every mode
    rest = [(in1.shape[a], in2.shape[a]) for a in range(np.ndim(in1)) if a not in axes]
    if any(n != m and 1 not in (n, m) for n, m in rest):
        raise ValueError(f"incompatible shapes for in1 and in2: {in1.shape} and {in2.shape}")
    return _convolve(in1, in2, mode, "fft", axes)


@mirrors(sg.oaconvolve)
def oaconvolve(in1, in2, mode="full", axes=None):
    """Convolve two arrays, of which one may be much longer, along some axes."""
    return fftconvolve(in1, in2, mode, axes)


_BOUNDARIES = {"fill": "constant", "wrap": "wrap", "symm": "symmetric", "circular": "wrap", "symmetric": "symmetric",
               "pad": "constant"}  # fmt: skip


@mirrors(sg.convolve2d)
def convolve2d(in1, in2, mode="full", boundary="fill", fillvalue=0):
    """Convolve two matrices, the first one being continued at its boundary."""
    in1, in2 = operand(in1), operand(in2)
    if not np.ndim(in1) == np.ndim(in2) == 2:
        raise ValueError("convolve2d inputs must both be 2-D arrays")
    _check_mode(mode)
    if boundary not in _BOUNDARIES:
        raise ValueError("Acceptable boundary flags are 'fill', 'circular' (or 'wrap'), and 'symmetric' (or 'symm').")
    if mode == "valid":
        return _convolve(in1, in2, mode, "direct", (0, 1))
    pad = _BOUNDARIES[boundary]
    options = {"constant_values": fillvalue} if pad == "constant" else {}
    wide = np.pad(in1, [(n - 1, n - 1) for n in in2.shape], pad, **options)
    out = convolve_nd(wide, in2, mode="valid", method="direct", ndim=2)
    return _center(out, in1.shape) if mode == "same" else out


@mirrors(sg.correlate2d)
def correlate2d(in1, in2, mode="full", boundary="fill", fillvalue=0):
    """Correlate two matrices, the first one being continued at its boundary."""
    in1, in2 = operand(in1), np.conj(np.flip(operand(in2)))
    if not np.ndim(in1) == np.ndim(in2) == 2:
        raise ValueError("correlate2d inputs must both be 2-D arrays")
    if mode != "same":
        return convolve2d(in1, in2, mode, boundary, fillvalue)
    # SciPy's middle of a correlation is that of the reversed one.
    full = convolve2d(in1, in2, "full", boundary, fillvalue)
    start = [n // 2 for n in in2.shape]
    return full[start[0] : start[0] + in1.shape[0], start[1] : start[1] + in1.shape[1]]


# ── recursive filters ────────────────────────────────────────────────────────────────────────────────────────────
#
# a₀ y[n] + a₁ y[n−1] + … = b₀ x[n] + b₁ x[n−1] + …: a convolution with b, then the recursion. The initial state adds
# to the first entries of the convolution; the final one is what the convolutions with b and a leave behind the end.


def _coefficients(c, name: str):
    c = operand(c)
    c = np.reshape(c, (1,)) if not np.ndim(c) else c
    if np.ndim(c) != 1 or not c.shape[0]:
        raise ValueError(f"Parameter {name} is not a non-empty 1d array, since {name}.shape={np.shape(c)}!")
    return c.astype(np.float64) if c.dtype.kind not in "fc" else c


def _full(x, c, size: int):
    """Return the convolution of x with c, with zeros behind it."""
    out = scans.convolve(x, c, mode="full") if x.shape[-1] else np.zeros((*x.shape[:-1], 0), x.dtype)
    return np.pad(out, [(0, 0)] * (np.ndim(out) - 1) + [(0, size - out.shape[-1])])


@mirrors(sg.lfilter)
def lfilter(b, a, x, axis=-1, zi=None):
    """Run a filter with a rational transfer function along an axis."""
    b, a, x = _coefficients(b, "b"), _coefficients(a, "a"), operand(x)
    if np.ndim(x) == 0:
        raise ValueError("x must be at least 1-D")
    axis = normalize_axis(axis, np.ndim(x), "scipy.signal.lfilter")
    x = np.moveaxis(x, axis, -1)
    if isinstance(a, np.ndarray) and a[0] == 0:
        raise ValueError("lfilter: the first denominator coefficient is zero.")
    b, a = b / a[0], a / a[0]
    n, memory = x.shape[-1], max(len(a), len(b)) - 1
    driven = _full(x, b, n + memory)
    if zi is not None:
        zi = operand(zi)
        if np.ndim(zi) != np.ndim(x):
            raise ValueError(
                f"Dimensions of parameters x and zi must match, but x.ndim={np.ndim(x)}, zi.ndim={np.ndim(zi)}!"
            )
        zi = np.moveaxis(zi, axis, -1)
        if zi.shape[-1] != memory:
            raise ValueError(f"Unexpected shape for parameter zi: expected {memory} entries along the axis")
        zi = np.broadcast_to(zi, (*x.shape[:-1], memory))
        driven = driven + np.pad(zi, [(0, 0)] * (np.ndim(x) - 1) + [(0, n)])
    y = driven[..., :n]
    if len(a) > 1:
        y = all_pole(a[1:], y)
    out = np.moveaxis(y, -1, axis)
    if zi is None:
        return out
    left = driven[..., n:] - (_full(y, a, n + memory)[..., n:] if len(a) > 1 else 0.0)
    return out, np.moveaxis(left, -1, axis)


@mirrors(sg.lfilter_zi)
def lfilter_zi(b, a):
    """Return the initial state with which a filter answers a step at rest."""
    b, a = _coefficients(b, "b"), _coefficients(a, "a")
    b, a = b / a[0], a / a[0]
    n = max(len(a), len(b))
    b, a = [np.pad(c, (0, n - len(c))) for c in (b, a)]
    below = np.eye(n - 1, k=1)  # the transposed companion matrix: −a in the first column, ones above the diagonal
    companion = np.concatenate([-a[1:].reshape((n - 1, 1)), below[:, 1:]], 1)
    companion = companion if n > 1 else np.zeros((0, 0))
    return np.linalg.solve(np.eye(n - 1) - companion, b[1:] - a[1:] * b[0])


@mirrors(sg.lfiltic)
def lfiltic(b, a, y, x=None):
    """Return the state of a filter after outputs ``y`` and inputs ``x``, the latest first."""
    b, a = _coefficients(b, "b"), _coefficients(a, "a")
    n = max(len(a), len(b)) - 1
    later = 1 + np.add.outer(np.arange(n), np.arange(n))

    def of_past(c, z):  # sum of c[m + 1 + k] z[k] over k, for each m
        z = np.reshape(operand(z), (-1,))[: len(c) - 1]
        return np.pad(c, (0, 2 * n + 1 - len(c)))[later] @ np.pad(z, (0, n - len(z)))

    return ((0.0 if x is None else of_past(b, x)) - of_past(a, y)) / a[0]


@mirrors(sg.filtfilt)
def filtfilt(b, a, x, axis=-1, padtype="odd", padlen=None, method="pad", irlen=None):
    """Run a filter forwards and backwards along an axis; method "pad" only."""
    if method != "pad":
        raise ValueError(f"method must be 'pad' for tensors, not {method!r}.")
    if padtype not in ("even", "odd", "constant", None):
        raise ValueError(f"Unknown value '{padtype}' given to padtype.")
    b, a, x = _coefficients(b, "b"), _coefficients(a, "a"), operand(x)
    axis = normalize_axis(axis, np.ndim(x), "scipy.signal.filtfilt")
    x = np.moveaxis(x, axis, -1)
    edge = 0 if padtype is None else 3 * max(len(a), len(b)) if padlen is None else padlen
    if x.shape[-1] <= edge:
        raise ValueError(f"The length of the input vector x must be greater than padlen, which is {edge}.")
    widths = [(0, 0)] * (np.ndim(x) - 1) + [(edge, edge)]
    if edge:
        kind = {"odd": "reflect", "even": "reflect", "constant": "edge"}[padtype]
        x = np.pad(x, widths, kind, **({"reflect_type": "odd"} if padtype == "odd" else {}))
    state = lfilter_zi(b, a) if max(len(a), len(b)) > 1 else np.zeros(0)
    for _ in range(2):
        y, _ = lfilter(b, a, x, zi=state * x[..., :1])
        x = np.flip(y, -1)
    return np.moveaxis(x[..., edge : x.shape[-1] - edge], -1, axis)


@mirrors(sg.sosfilt)
def sosfilt(sos, x, axis=-1, zi=None):
    """Run a filter given as second-order sections along an axis."""
    sos, x = operand(sos), operand(x)
    if np.ndim(sos) != 2 or sos.shape[1] != 6:
        raise ValueError("sos array must be shape (n_sections, 6)")
    if zi is None:
        for section in sos:
            x = lfilter(section[:3], section[3:], x, axis)
        return x
    zi, left = operand(zi), []
    for section, state in zip(sos, zi, strict=True):
        x, end = lfilter(section[:3], section[3:], x, axis, state)
        left.append(end)
    return x, np.stack(left)


# ── smoothing, trends, analytic signals ──────────────────────────────────────────────────────────────────────────


@mirrors(sg.savgol_filter)
def savgol_filter(x, window_length, polyorder, deriv=0, delta=1.0, axis=-1, mode="interp", cval=0.0):
    """Fit polynomials to moving windows, and take their values or derivatives."""
    if mode not in ("mirror", "constant", "nearest", "interp", "wrap"):
        raise ValueError("mode must be 'mirror', 'constant', 'nearest' 'wrap' or 'interp'.")
    x = operand(x)
    if x.dtype not in (np.float32, np.float64):
        x = x.astype(np.float64)
    weights = sg.savgol_coeffs(window_length, polyorder, deriv=deriv, delta=delta)
    if mode != "interp":
        return convolve1d(x, weights, axis=axis, mode=mode, cval=cval)
    axis = normalize_axis(axis, np.ndim(x), "scipy.signal.savgol_filter")
    if window_length > x.shape[axis]:
        raise ValueError("If mode is 'interp', window_length must be less than or equal to the size of x.")
    lines = np.moveaxis(x, axis, -1)
    middle = scans.convolve(lines, weights.astype(x.dtype), mode="valid")
    half = window_length // 2
    # At the ends, the polynomials of the first and the last window: SciPy's filter of unit vectors gives their matrix.
    ends = sg.savgol_filter(np.eye(window_length), window_length, polyorder, deriv, delta, axis=0).astype(x.dtype)
    first = lines[..., :window_length] @ ends[:half].T
    last = lines[..., lines.shape[-1] - window_length :] @ ends[window_length - half :].T
    if window_length % 2 == 0:  # SciPy's middle then begins one entry earlier, and the end covers it
        middle = middle[..., 1:]
    return np.moveaxis(np.concatenate([first, middle, last], -1), -1, axis)


@mirrors(sg.detrend)
def detrend(data, axis=-1, type="linear", bp=0, overwrite_data=False):
    """Remove a constant or (piecewise) linear trend along an axis."""
    if type not in ("linear", "l", "constant", "c"):
        raise ValueError("Trend type must be 'linear' or 'constant'.")
    data = operand(data)
    axis = normalize_axis(axis, np.ndim(data), "scipy.signal.detrend")
    if type in ("constant", "c"):
        return data - np.mean(data, axis, keepdims=True)
    data = data.astype(np.float64) if data.dtype.kind not in "fc" else data
    n = data.shape[axis]
    breaks = np.unique(np.concatenate([np.atleast_1d(bp), [0, n]]))
    if (breaks > n).any():
        raise ValueError("Breakpoints must be less than length of data along given axis.")
    lines, pieces = np.moveaxis(data, axis, -1), []
    for start, stop in itertools.pairwise(breaks):
        piece = lines[..., int(start) : int(stop)]
        basis = np.stack([np.arange(1, stop - start + 1) / (stop - start), np.ones(stop - start)], 1)
        basis = np.linalg.qr(basis)[0].astype(np.real(np.zeros((), data.dtype)).dtype)
        pieces.append(piece - (piece @ basis) @ basis.T)
    return np.moveaxis(np.concatenate(pieces, -1), -1, axis)


@mirrors(sg.hilbert)
def hilbert(x, N=None, axis=-1):
    """Return the analytic signal."""
    x = operand(x)
    if x.dtype.kind == "c":
        raise ValueError("x must be real.")
    axis = normalize_axis(axis, np.ndim(x), "scipy.signal.hilbert")
    n = x.shape[axis] if N is None else N
    if n <= 0:
        raise ValueError("N must be positive.")
    weights = np.zeros(n, np.float32 if x.dtype == np.float32 else np.float64)
    weights[0] = 1
    weights[1 : (n + 1) // 2] = 2
    if n % 2 == 0:
        weights[n // 2] = 1
    spectrum = np.fft.fft(x, n, axis=axis) * weights.reshape((-1,) + (1,) * (np.ndim(x) - axis - 1))
    return np.fft.ifft(spectrum, axis=axis)


__getattr__, __dir__ = falls_back(sg, globals())
