"""The convolution of convolutional layers, against SciPy's and against loops."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.signal

from dualad.compat.autograd.signal import convolve
from dualad.testing import check_grads

rng = np.random.default_rng(0)


@pytest.mark.parametrize("mode", ["full", "valid", "same"])
@pytest.mark.parametrize(("n", "k"), [((5,), (3,)), ((3,), (5,)), ((4,), (4,)), ((5, 4), (2, 3)), ((6, 5), (3, 1))])
def test_along_all_axes_it_is_scipy_s(mode, n, k):
    a, b = rng.normal(size=n), rng.normal(size=k)
    np.testing.assert_allclose(convolve(a, b, mode=mode), scipy.signal.convolve(a, b, mode=mode, method="direct"))


def looped(a, b, mode):
    """Images of (data, color in, y, x) with kernels of (color in, color out, y, x)."""
    out = [
        [
            sum(scipy.signal.convolve(a[i, c], b[c, o], mode=mode, method="direct") for c in range(a.shape[1]))
            for o in range(b.shape[1])
        ]
        for i in range(a.shape[0])
    ]
    return np.array(out)


@pytest.mark.parametrize("mode", ["full", "valid", "same"])
@pytest.mark.parametrize("swap", [False, True])
def test_a_convolutional_layer(mode, swap):
    a, b = rng.normal(size=(2, 3, 6, 5)), rng.normal(size=(3, 4, 3, 2))
    expected = looped(a, b, mode)
    if not swap:
        out = convolve(a, b, axes=([2, 3], [2, 3]), dot_axes=([1], [0]), mode=mode)
    elif mode == "same":
        return
    else:  # the small one first: its ignored axes come first
        out = np.swapaxes(convolve(b, a, axes=([2, 3], [2, 3]), dot_axes=([0], [1]), mode=mode), 0, 1)
    np.testing.assert_allclose(out, expected)


def test_its_derivatives():
    a, b = rng.normal(size=(2, 2, 4, 4)), rng.normal(size=(2, 2, 2, 3))
    for mode, swapped in itertools.product(("full", "valid", "same"), (False, True)):
        pair = (b, a) if swapped else (a, b)
        dot = ([0], [1]) if swapped else ([1], [0])
        check_grads(lambda a, b: convolve(a, b, ([2, 3], [2, 3]), dot, mode), pair, order=2)


def test_what_has_no_meaning_is_refused():
    with pytest.raises(ValueError, match="Mode"):
        convolve(np.ones(3), np.ones(2), mode="some")
    with pytest.raises(ValueError, match="larger"):
        convolve(np.ones((3, 2)), np.ones((2, 3)), mode="valid")
