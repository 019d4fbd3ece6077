"""Python numbers made of tensors (``.item()``, ``tolist()``, lifted ``float`` and ``math``) promote as NumPy's do.

A Python number computes in double precision and widens no dtype. The oracle is plain NumPy on the same program. Not
for: refusals of conversions (``edges/``), or Python numbers as arguments.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import numpy as np
import pytest

import dualad as da

pytestmark = pytest.mark.filterwarnings("ignore")

MAKES: dict[str, Callable] = {
    "item": lambda x: x[1].item(),
    "item of a place": lambda x: x.item(1),
    "item of a sum": lambda x: x.sum().item(),
    "tolist": lambda x: x.tolist()[1],
    "float": lambda x: float(x[1].real),
    "math": lambda x: math.sin(float(x[1].real)),
    "math alone": lambda x: math.hypot(x[1].real, 2),
}

STEPS: dict[str, Callable] = {
    "s": lambda s: s,
    "s + 2": lambda s: s + 2,
    "0.5 * s": lambda s: 0.5 * s,
    "-s": lambda s: -s,
    "abs": lambda s: abs(s - 3),
    "s * s": lambda s: s * s,
    "2 / s": lambda s: 2 / s,
    "s ** 2": lambda s: (-s) ** 2,
    "+s": lambda s: +s,
    "s // 0.7": lambda s: s // 0.7,
    "s % 0.7": lambda s: s % 0.7,
    "2 ** s": lambda s: 2**s,
    "round": lambda s: round(s, 1),
    "of NumPy: float64": lambda s: np.float64(s),
    "of NumPy: asarray": lambda s: np.asarray(s),
    "of NumPy: copy": lambda s: np.copy(s),
    "of NumPy: reshape": lambda s: np.reshape(s, ()),
    "of NumPy: add": lambda s: np.add(s, 2),
    "of NumPy: sin": lambda s: np.sin(s),
    "of NumPy: multiply": lambda s: np.multiply(s, s),
}

ENDS: dict[str, Callable] = {
    "alone": lambda s, o: s,
    "s * o": lambda s, o: s * o,
    "o - s": lambda s, o: o - s,
    "s / o": lambda s, o: s / (o + 1),
    "where": lambda s, o: np.where(o > 0, s, o),
    "hypot": lambda s, o: np.hypot(s.real, o.real),
}

LIFTED = {"float", "math", "math alone"}
OTHERS = [np.float16, np.float32, np.float64, np.complex64, np.int8, np.int64, np.uint8, np.bool_]


def transformed(f: Callable, x: np.ndarray) -> dict[str, Callable]:
    """Return the value of ``f(x)`` by each transform, and the tangents that have its dtype."""
    both, ones, lanes = np.stack([x, x * x.dtype.type(0.5)]), np.ones_like(x), np.ones((2, *x.shape), x.dtype)
    return {
        "jit": lambda: da.jit(f)(x),
        "jvp": lambda: da.jvp(f, (x,), (ones,))[0],
        "vjp": lambda: da.vjp(f, x)[0],
        "vmap": lambda: da.vmap(f)(both)[0],
        "jit of jvp": lambda: da.jit(lambda x: da.jvp(f, (x,), (ones,))[0])(x),
        "jit of vmap": lambda: da.jit(da.vmap(f))(both)[0],
        "jvp of vmap": lambda: da.jvp(da.vmap(f), (both,), (lanes,))[0][0],
        "tangent": lambda: da.jvp(f, (x,), (ones,))[1],
        "tangent of jit": lambda: da.jvp(da.jit(f), (x,), (ones,))[1],
        "linearize": lambda: da.linearize(f, x)[1](ones),
    }


@pytest.mark.parametrize("seed", range(100))
def test_dtypes_are_those_of_plain_numpy(seed: int) -> None:
    draw = random.Random(seed)
    make, end = draw.choice(list(MAKES)), draw.choice(list(ENDS))
    steps = [draw.choice(list(STEPS)) for _ in range(draw.randint(1, 3))]
    numbers = np.random.default_rng(seed)
    x = numbers.uniform(0.5, 1.5, 3).astype(draw.choice([np.float16, np.float32, np.float64, np.complex64]))
    other = np.asarray(numbers.uniform(1.0, 6.0, draw.choice([(), (3,)]))).astype(draw.choice(OTHERS))

    def f(x):
        s = MAKES[make](x)
        for step in steps:
            s = STEPS[step](s)
        return ENDS[end](s, other)

    try:
        expected = np.asarray(f(x))
    except TypeError:  # of complex numbers there is no remainder
        return
    tolerance = {np.float16: 4e-3, np.float32: 4e-6, np.complex64: 4e-6}.get(expected.dtype.type, 4e-7)
    for way, run in transformed(da.lift(f) if make in LIFTED else f, x).items():
        found = np.asarray(run())
        assert found.dtype == expected.dtype, (way, make, steps, end, x.dtype, other.dtype)
        if "tangent" not in way and way != "linearize":
            np.testing.assert_allclose(found, expected, tolerance, tolerance, err_msg=f"{way}: {make} {steps} {end}")


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_it_computes_in_double_precision(dtype: type) -> None:
    """``x + 1e-12 - x`` in the dtype of a short float would be zero."""
    x = np.array([1.0, 2.0], dtype)
    for way, run in transformed(lambda x: (x[0].item() + 1e-12) - 1.0, x).items():
        if "tangent" not in way and way != "linearize":
            assert float(run()) == (1.0 + 1e-12) - 1.0, way


def test_derivatives_to_third_order() -> None:
    def f(x):
        return x[0].item() ** 3 * x[1]

    x = np.array([2.0, 3.0], np.float32)
    third = da.jacfwd(da.jacrev(da.grad(f)))
    expected = np.zeros((2, 2, 2), np.float32)
    expected[0, 0, 0], expected[0, 0, 1] = 6 * x[1], 6 * x[0]
    expected[0, 1, 0] = expected[1, 0, 0] = 6 * x[0]
    for found in (third(x), da.jit(third)(x), da.vmap(third)(x[None])[0]):
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, expected, 1e-5)


def test_lanes_keep_other_numbers_strong() -> None:
    """NumPy's scalar beside it widens, and so does what NumPy's functions made of it."""
    y = np.ones(3, np.float32)

    def f(x):
        return x[0].item() * y, np.sin(x[0].item()) * y, x[0].item() * np.float64(2.0) * y

    x = np.array([[1.0, 2.0], [3.0, 4.0]], np.float32)
    dtypes = [a.dtype for a in f(x[0])]
    assert dtypes == [np.float32, np.float64, np.float64]
    assert [a.dtype for a in da.vmap(f)(x)] == dtypes
    assert [a.dtype for a in da.jit(da.vmap(f))(x)] == dtypes


def test_a_number_repeats_lists_and_does_not_multiply_them() -> None:
    repeat = lambda n: (n * [0.5, 2.0], (1,) * n)
    assert da.jvp(repeat, (np.int64(2),), (None,))[0] == repeat(np.int64(2))
    with pytest.raises(da.errors.ConversionError):
        da.jit(repeat)(2)
    for take in (repeat, da.jit(repeat), lambda x: da.grad(lambda x: np.sum(repeat(x)[0]))(x)):
        with pytest.raises(TypeError):
            take(np.float64(2.0))
    multiplied = lambda a: a * [0.5, 2.0]
    np.testing.assert_array_equal(da.jit(multiplied)(np.array(2.0)), multiplied(np.array(2.0)))
