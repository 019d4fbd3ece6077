"""``autograd.scipy.signal.convolve``: along chosen axes, summed over others, as convolutional layers want it.

Not for: SciPy's ``convolve``, along all axes (``dualad.scipy.signal``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = ["convolve"]


def convolve(A: Any, B: Any, axes: Sequence | None = None, dot_axes: Sequence | None = None, mode: str = "full") -> Any:
    """Convolve two arrays along pairs of axes.

    Parameters
    ----------
    A, B : array
        The arrays.
    axes : pair of lists of int, optional
        The axes of each that are convolved with each other; all of them by default.
    dot_axes : pair of lists of int, optional
        The axes of each that are multiplied and summed.
    mode : {"full", "valid", "same"}
        As for ``scipy.signal.convolve``.

    Returns
    -------
    array
        Its axes are those of A that are in neither list, those of B, and those convolved.
    """
    if mode not in ("full", "valid", "same"):
        raise ValueError(f"Mode {mode} undefined, it can be one of 'valid', 'full', and 'same'")
    along = axes or (range(np.ndim(A)), range(np.ndim(B)))
    summed = dot_axes or ((), ())
    n, d = len(along[0]), len(summed[0])
    (A, rest), (B, others) = [_arranged(x, c, s) for x, c, s in zip((A, B), along, summed, strict=True)]
    long, short = A.shape[rest + d :], B.shape[others + d :]
    if mode == "valid" and any(b > a for a, b in zip(long, short, strict=True)):
        if any(b < a for a, b in zip(long, short, strict=True)):
            raise ValueError("One array must be larger than the other along all convolved dimensions")
        out = _windows_times(B, A, others, rest, d, n)  # ignored axes of B come first
        return np.moveaxis(out, range(others), range(rest, rest + others))
    if mode != "valid":
        # Entry i of the full result meets A[i - k + 1 ... i]; the same ones begin at (k − 1)//2.
        left, right = [[k - 1 for k in short]] * 2
        if mode == "same":
            left, right = [k - 1 - (k - 1) // 2 for k in short], [(k - 1) // 2 for k in short]
        A = np.pad(A, [(0, 0)] * (rest + d) + list(zip(left, right, strict=True)))
    return _windows_times(A, B, rest, others, d, n)


def _arranged(x: Any, along: Sequence[int], summed: Sequence[int]) -> tuple[Any, int]:
    """Return an array with its axes in the order ignored, summed, convolved; and the number of the first kind."""
    along, summed = [[i % np.ndim(x) for i in some] for some in (along, summed)]
    ignored = [i for i in range(np.ndim(x)) if i not in along and i not in summed]
    return np.transpose(x, [*ignored, *summed, *along]), len(ignored)


def _windows_times(A: Any, B: Any, rest: int, others: int, d: int, n: int) -> Any:
    """Σ over the summed axes and the kernel of A's windows times the flipped kernel."""
    conv = tuple(range(rest + d, rest + d + n))
    windows = np.lib.stride_tricks.sliding_window_view(A, B.shape[others + d :], axis=conv)
    B = np.flip(B, tuple(range(others + d, others + d + n)))
    ours = [*range(rest, rest + d), *range(rest + d + n, rest + d + 2 * n)]
    out = np.tensordot(windows, B, (ours, list(range(others, others + d + n))))  # ignored, positions, others
    return np.moveaxis(out, range(rest, rest + n), range(-n, 0))
