"""The base of all tensors: NumPy's protocols, and the conversions that are refused with words."""

from __future__ import annotations

import copy
import operator

import numpy as np
import pytest

import dualad as da
from dualad.errors import ConversionError, PlainBufferError


def under_jvp(f, x=1.5):
    return da.jvp(f, (x,), (np.ones_like(x),))


def test_unknown_array_types_get_their_turn() -> None:
    """Another library's array that overrides NumPy is asked too: NotImplemented, not a guess."""

    class Foreign:
        __array_ufunc__ = None

        def __radd__(self, other):
            return "foreign"

    def f(x):
        assert x + Foreign() == "foreign"
        return x

    under_jvp(f)


def test_there_is_no_hash_and_equality_is_elementwise() -> None:
    """Row Q3: as of ndarray, so that a cache keyed by arguments is loud and not stale."""

    def f(x):
        with pytest.raises(TypeError, match="unhashable"):
            hash(x)
        assert (x == x).all() and not (x != x).any()
        return x

    under_jvp(f, np.ones(2))


def test_len_and_iteration() -> None:
    def f(x):
        assert len(x) == 3 and [r.shape for r in x] == [(2,)] * 3
        with pytest.raises(TypeError, match="unsized"):
            len(x[0, 0])
        return sum(row.sum() for row in x)

    assert under_jvp(f, np.ones((3, 2))) == (6.0, 6.0)


def test_complex_object_arrays_are_refused() -> None:
    """DESIGN section 5: an object array's .real and .imag would be silently wrong."""
    with pytest.raises(ConversionError, match=r"\.real and \.imag"):
        da.jvp(lambda z: np.array([z, z]), (1j,), (1.0 + 0j,))


def test_array_of_scalars_is_packed_back_with_a_note() -> None:
    from dualad.surface.arguments import PerformanceNote

    with pytest.warns(PerformanceNote, match=r"np\.stack"):
        value, tangent = under_jvp(lambda x: np.array([x, x * x, 2.0]))
    assert value.dtype == float and value.tolist() == [1.5, 2.25, 2.0] and tangent.tolist() == [1.0, 3.0, 0.0]
    value, tangent = under_jvp(lambda x: np.sum(np.array([x, x * x, 2.0])))  # computes entry by entry, packs nothing
    assert value == 5.75 and tangent == 4.0


@pytest.mark.parametrize("dtype", [float, np.float32, int, complex])
def test_a_dtype_that_would_drop_the_tangent_is_refused(dtype) -> None:
    with pytest.raises(PlainBufferError, match="astype"):
        under_jvp(lambda x: np.array(x, dtype=dtype))


@pytest.mark.parametrize("f", [operator.index, lambda x: [1, 2, 3][x], lambda x: range(x)])
def test_a_float_is_no_index(f) -> None:
    with pytest.raises(TypeError):
        under_jvp(f)


def test_formatting_shows_the_number() -> None:
    def f(x):
        assert f"{x:.2f}" == "1.50" and "tangent" in f"{x}"
        return x

    under_jvp(f)


def test_tensors_are_read_only_in_their_metadata() -> None:
    def f(x):
        for name in ("shape", "dtype", "ndim", "size", "aval"):
            with pytest.raises(AttributeError):
                setattr(x, name, None)
        assert x.size == 6 and x.nbytes == 48 and x.itemsize == 8 and x.ndim == 2
        return x

    under_jvp(f, np.ones((2, 3)))


def test_copies() -> None:
    """Row Q1: copying inside a transform keeps the tangent."""
    _value, tangent = under_jvp(lambda x: copy.copy(x) * x)
    assert tangent == 3.0
