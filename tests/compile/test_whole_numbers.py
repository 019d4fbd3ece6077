"""Python's integers and truth values as arguments of compiled functions: the number and the error of Python, or words.

Not for: NumPy's integers, which wrap around as arrays do, or floats, which are NumPy's in compiled code.
"""

from __future__ import annotations

import itertools
import operator

import numpy as np
import pytest

import dualad as da
from dualad.errors import DtypeError

NUMBERS = [True, False, 0, 1, 2, -2, 7, 2**40, 2**62, -(2**63), 2**70]
OF_TWO = [
    operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.and_,
    operator.or_, operator.xor, operator.lt, operator.eq,
]  # fmt: skip
OF_ONE = [
    operator.neg, operator.pos, operator.invert, abs, lambda n: n**-1, lambda n: n**0.5, lambda n: n**3,
    lambda n: 1 // n, lambda n: 1 / n, lambda n: 5 % n, lambda n: (n + 1) * (n - 1) // 2, lambda n: (n, n * 2),
    lambda n: n << 3, lambda n: n if type(n) is bool else n * 3, lambda n: -n // 2 + n / 2,
]  # fmt: skip


def agrees(fast, f, *args) -> None:
    try:
        expected = f(*args)
    except Exception as error:
        with pytest.raises((type(error), DtypeError, OverflowError)):
            fast(*args)
        return
    try:
        found = fast(*args)
    except OverflowError:
        assert any([abs(x) >= 2**63 for x in args])  # one that has no dtype beside one that is traced
        return
    except DtypeError:
        wide = da.tree.flatten((args, expected))[0]
        assert any([type(x) is complex or (type(x) is float) or not -(2**62) < x < 2**62 for x in wide])
        return
    assert found == expected


@pytest.mark.filterwarnings("ignore::dualad.errors.PerformanceNote")  # of so many signatures
@pytest.mark.parametrize("f", OF_TWO)
def test_two_numbers(f) -> None:
    for change in (lambda a, b: f(a, b), lambda a, b: (f(a, 3), f(7, b))):
        fast = da.jit(change)
        for a, b in itertools.product(NUMBERS, NUMBERS):
            agrees(fast, change, a, b)


@pytest.mark.parametrize("k", range(len(OF_ONE)))
def test_one_number(k: int) -> None:
    fast = da.jit(OF_ONE[k])
    for n in [*NUMBERS, *NUMBERS]:
        agrees(fast, OF_ONE[k], n)


def test_errors_are_raised_at_every_call() -> None:
    fast = da.jit(lambda x, n: x * (6 // n))
    x = np.ones(3)
    for _ in range(2):
        assert np.array_equal(fast(x, 2), 3 * x)
        with pytest.raises(ZeroDivisionError):
            fast(x, 0)
    power = da.jit(lambda x, n: x * 2**n)
    assert np.array_equal(power(x, 3), 8 * x)
    for n in (64, -1):
        with pytest.raises(DtypeError, match="static_argnames"):
            power(x, n)


def test_an_integer_has_room_in_the_dtype_that_it_meets() -> None:
    fast, x = da.jit(lambda x, n: x * n), np.ones(3, np.int8)
    for _ in range(2):
        assert fast(x, 5).dtype == np.int8
        with pytest.raises(OverflowError, match="300 out of bounds"):
            fast(x, 300)
    compared = da.jit(lambda x, n: x < n)
    assert compared(x, 5).all() and compared(x, 300).all()
    later = da.jit(lambda x, n: x + (n * 100))
    assert later(x, 1)[0] == 101
    with pytest.raises(OverflowError):
        later(x, 2)


def test_a_truth_value_is_one_that_python_can_ask() -> None:
    fast = da.jit(lambda x, up: x + 1 if up else x - 1)
    assert fast(1.0, True) == 2.0 and fast(1.0, False) == 0.0 and fast(1.0, up=True) == 2.0
    assert da.jit(lambda flag: flag)(True) is True
    assert da.grad(fast)(1.0, True) == 1.0


def test_a_loop_over_integers_is_compiled_once() -> None:
    step = lambda x, t: x / (t + 1) * 0.9**t
    fast = da.jit(step)
    for t in range(20):
        assert fast(2.0, t) == pytest.approx(step(2.0, t), rel=1e-15)
    assert "1 specialisations" in repr(fast)
