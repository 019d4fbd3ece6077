"""What a tensor says it is, to ``isinstance`` and ``hasattr``. Not for: answers in every transform (tests/edges)."""

from __future__ import annotations

import numbers

import numpy as np
import pytest

import dualad as da
from dualad.core.tracer import Tracer

DTYPES = [float, np.float32, complex, np.int64, np.uint8, bool]


@pytest.mark.parametrize("dtype", DTYPES)
def test_numbers_are_what_numpys_scalars_are(dtype) -> None:
    scalar = np.dtype(dtype).type(1)

    def f(x):
        assert isinstance(x, Tracer)
        for kind in (numbers.Number, numbers.Complex, numbers.Real, numbers.Integral):
            assert isinstance(x, kind) == isinstance(scalar, kind)
        assert not hasattr(x, "__len__")
        with pytest.raises(TypeError, match="unsized"):
            len(x)
        return x

    da.vmap(f)(np.ones(2, dtype))


def test_arrays_are_no_numbers() -> None:
    def f(x):
        assert isinstance(x, Tracer)
        assert not isinstance(x, numbers.Number)
        assert hasattr(x, "__len__")
        assert len(x) == 3
        assert Tracer.__len__(x) == 3
        return x

    da.vmap(f)(np.ones((2, 3)))
