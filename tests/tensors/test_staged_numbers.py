"""Python numbers among the arguments promote as they do in NumPy, also after Python has computed with them.

The oracle is the function itself: its dtype and its numbers. Not for: what is computed.
"""

from __future__ import annotations

import numpy as np
import pytest

import dualad as da

PROGRAMS = {
    "product": lambda x, s: x * (s * 2),
    "reflected": lambda x, s: (2 * s) * x,
    "two operations": lambda x, s: x * (s * 2 + 1.0) * s,
    "difference": lambda x, s: x + (s - s * 0.5),
    "quotient": lambda x, s: x * (s / 3) + 1 / (s + 1),
    "whole quotient": lambda x, s: x * (s // 2) + s % 2,
    "power": lambda x, s: x * s**2,
    "sign": lambda x, s: -s * x + abs(s) + +s,
    "where": lambda x, s: np.where(x > s * 0.75, s * 0.1, x),
    "comparison": lambda x, s: (x == 0.1 * s) + (x < s * 0.7 + 0.0),
    "extremum": lambda x, s: np.maximum(x, s * 0.3),
    "mathematics is NumPy's": lambda x, s: x * np.sin(s),
    "and so are its functions": lambda x, s: x * np.multiply(s, s),
    "an operation on the result": lambda x, s: x * (np.sqrt(s) * 2),
    "two numbers in one": lambda x, s: np.where(x > 1, s * 2, s + 1) * x,
}
ARRAYS = {
    "single": np.array([0.2, 1.5], np.float32),
    "one single": np.float32(0.3),
    "double": np.array([0.2, 1.5]),
    "short": np.array([1, 2], np.int32),
    "small": np.array([1, 2], np.int8),
    "complex": np.array([0.2 + 1j, 1.5], np.complex64),
}


@pytest.mark.parametrize("array", ARRAYS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_python_numbers_do_not_widen_a_dtype(name: str, array: str) -> None:
    f, x = PROGRAMS[name], ARRAYS[array]
    for s in (2.0, 3):
        expected = f(x, s)
        for out in (da.jit(f)(x, s), da.trace(f, x, s)(x, s), da.jit(lambda x, s: da.jit(f)(x, s))(x, s)):
            assert out.dtype == expected.dtype
            tolerance = 4 * np.finfo(expected.dtype).eps if expected.dtype.kind in "fc" else 0
            np.testing.assert_allclose(out, expected, rtol=tolerance, atol=tolerance)


def test_under_transforms() -> None:
    x = ARRAYS["single"]
    f = lambda x, s: np.sum(x * (s * 2 + 1) ** 2)
    for out in (da.jit(da.grad(f))(x, 1.5), da.grad(da.jit(f))(x, 1.5), da.jit(da.jacfwd(f))(x, 1.5)):
        assert out.dtype == np.float32
        np.testing.assert_allclose(out, [16, 16], rtol=1e-6)
    g = lambda s: np.sum(x * (s * 2 + 1) ** 2)
    np.testing.assert_allclose(da.jit(da.grad(g))(1.5), da.grad(g)(1.5), rtol=1e-6)
    lanes = np.linspace(0, 1, 3)
    np.testing.assert_allclose(da.jit(da.vmap(g))(lanes), [g(s) for s in lanes], rtol=1e-6)


def test_in_loops() -> None:
    x = ARRAYS["single"]
    f = lambda x, s: da.fori_loop(0, 3, lambda i, c: c * (s * 0.5), x)
    assert da.jit(f)(x, 0.5).dtype == np.float32
    np.testing.assert_allclose(da.jit(f)(x, 0.5), x * 0.25**3, rtol=1e-6)


WITHOUT_ROOM = {
    "xor": lambda x: x ^ 300,
    "reflected": lambda x: 2**40 + x,
    "maximum": lambda x: np.maximum(x, 2**40),
    "negative": lambda x: x.astype(np.uint8) + -1,
    "64 bits": lambda x: x.astype(np.int64) * 2**63,
    "beyond every float": lambda x: x.astype(np.float32) + 10**400,
    "padding": lambda x: np.pad(x, 1, constant_values=300),
}


@pytest.mark.parametrize("name", WITHOUT_ROOM)
def test_an_integer_without_room_in_the_dtype_is_an_error_also_where_nobody_reads_the_result(name):
    f, x = WITHOUT_ROOM[name], ARRAYS["small"]
    with pytest.raises(OverflowError) as expected:
        f(x)
    for g in (da.jit(f), da.jit(lambda x: (f(x), x + 1)[1]), da.vmap(lambda x: f(x[None]))):
        with pytest.raises(OverflowError, match=str(expected.value)):
            g(x)


def test_an_integer_with_room_or_in_a_comparison_is_none():
    x = ARRAYS["short"]
    for f in (lambda x: x + 300, lambda x: x < 2**40, lambda x: x / 2**40, lambda x: (x > 0) + 300):
        np.testing.assert_array_equal(da.jit(f)(x), f(x), strict=True)


NUMBERS = (2.0, np.float64(-1.5), np.float32(0.5), 3, 2j, np.float64(np.inf), -0.0, np.float64(0.0))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex128])
@pytest.mark.parametrize("number", NUMBERS, ids=repr)
def test_scalars_are_as_arrays_of_one_entry(number, dtype) -> None:
    """Scalars have ways of their own through the rules; dtypes, infinities and NaN are those of arrays."""

    def program(a, b):
        first, second = number * a + b * number, a * b - b / a
        return first * second + a / b - number * (b + b), -a * np.sqrt(b)

    with np.errstate(all="ignore"):
        for values in ((0.7, 1.5), (-0.0, 2.0), (3.0, 0.0), (np.inf, 1.0)):
            at = [dtype(v) for v in values]
            arrays = [np.full(1, v) for v in at]
            for direction in ((1.0, 1.0), (0.0, 1.0)):
                out = da.jvp(program, at, [dtype(d) for d in direction])
                wanted = da.jvp(program, arrays, [np.full(1, d, dtype) for d in direction])
                for x, y in zip([*out[0], *out[1]], [*wanted[0], *wanted[1]], strict=True):
                    assert (x.dtype, x.shape) == (y.dtype, ())
                    assert np.array_equal(x, y[0], equal_nan=True)
            if dtype is not np.complex128:
                loss = lambda a, b: sum([np.sum(np.real(v)) for v in program(a, b)])
                for x, y in zip(da.grad(loss, (0, 1))(*at), da.grad(loss, (0, 1))(*arrays), strict=True):
                    assert (x.dtype, x.shape) == (y.dtype, ())
                    assert np.array_equal(x, y[0], equal_nan=True)
