"""Constants in fewer bytes: which ones are found, and that what is computed of them is the same to the bit.

Not for: the proof that known positions are in bounds (test_bounds.py).
"""

from __future__ import annotations

import numpy as np
import pytest

import dualad as da
from dualad.compile.native import narrow

pytestmark = pytest.mark.usefixtures("native_backend")
_R = np.random.default_rng(11)
_N = 5000
#: constants of a few values: whether they are multiples of one of them, by seven bits
NUMBERS = {
    "ones and zeros": ((0.0, 1.0), True),
    "three of a stencil": ((-2e7 / 3, 1e7 / 3, 0.0), True),
    "many": (tuple(range(-127, 128)), True),
    "too many": ((1.0, 128.0), False),
    "no multiples": ((1.0, 1.1), False),
    "nearly multiples": ((1.0, 3.0 + 1e-15), False),
    "zeros of both signs": ((0.0, -0.0, 1.0), False),
    "negative zeros": ((-0.0,), False),
    "infinite": ((np.inf, 1.0), False),
    "not a number": ((np.nan, 1.0), False),
    "subnormal": ((5e-324, 1.5e-323), True),
    "nothing but zeros": ((0.0,), None),
    "huge": ((1.7e308, -1.7e308, 0.0), True),
}


def frozen(a):
    a.setflags(write=False)
    return a


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", NUMBERS)
def test_multiples_are_the_same_to_the_bit(name, dtype) -> None:
    values, expected = NUMBERS[name]
    with np.errstate(over="ignore", under="ignore"):
        some = np.array(values).astype(dtype)
    a = _R.choice(some, (_N // 5, 5))
    found = narrow.multiples_of(a)
    if dtype is np.float64 and expected is not None:
        assert (found is not None) is expected
    if found is not None:
        assert found.counts.dtype == np.int8 and found.counts.shape == a.shape
        assert (found.counts * found.unit).astype(dtype).tobytes() == a.tobytes()
    assert narrow.multiples_of(a[:100]) is None and narrow.multiples_of(np.ones(a.shape, int)) is None


def test_a_late_entry_that_is_no_multiple() -> None:
    a = np.ones(_N)
    a[-1] = 1.5
    assert narrow.multiples_of(a) is None
    a[-1] = 0.5
    assert narrow.multiples_of(a).unit == 0.5


def test_positions_on_the_axis_are_short() -> None:
    i = _R.integers(0, 70, _N)
    i[:2] = 0, 69
    assert narrow.short_positions(i, 70).dtype == np.int32
    np.testing.assert_array_equal(narrow.short_positions(i, 70), i)
    assert narrow.short_positions(i, 69) is None
    assert narrow.short_positions(np.where(i == 0, -1, i), 70) is None
    assert narrow.short_positions(np.where(i == 0, 1 << 40, i), 1 << 50) is None


def _same(f, *args) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DUALAD_NATIVE", "0")
        expected = da.jit(f)(*args)
    fast = da.jit(f)
    found = fast(*args)
    assert fast._specialised(args, {}).program.compiled.groups
    assert np.asarray(found).tobytes() == np.asarray(expected).tobytes()


@pytest.mark.parametrize("shape", [(40_003,), (8001, 5), (13, 3100)])
def test_what_is_computed_is_the_same(shape) -> None:
    x = _R.normal(size=shape)
    seeds = frozen(_R.choice([0.0, 1.0], shape))
    weights = frozen(_R.choice([-2.5e3, 1.25e3, 0.0], shape[::-1]).T.copy())
    part = tuple(slice(1, None) for _ in shape)
    _same(lambda x: x * seeds + weights[part].sum() * 0 + weights, x)
    _same(lambda x: (x[part] * seeds[part] - weights[part]) / (1 + seeds[part]), x)
    _same(lambda x: x[::-1] * weights[::-1] + seeds, x)


TAKES = {
    "two arrays": lambda x, i, j: x[i, j] * 2 + 1,
    "rows": lambda x, i, j: x[i, 1:4] * 2 + 1,
    "a column": lambda x, i, j: x[i, 3] * 2 + 1,  # a row of x apart
    "a vector": lambda x, i, j: x[:, 0][i] * 2 + 1,
    "there and back": lambda x, i, j: x[i, 3][::-1] * x[i, 4],
}


@pytest.mark.parametrize("name", TAKES)
def test_known_positions_need_no_check(name) -> None:
    x, take = _R.normal(size=(90, 500)), TAKES[name]
    i, j = (frozen(_R.integers(0, n, 40_003)) for n in x.shape)
    negative, far = frozen(i - 90), frozen(np.where(i == 5, 90, i))
    for known in (i, negative):
        _same(lambda x, known=known: take(x, known, j), x)
    with pytest.raises(IndexError):
        da.jit(lambda x: take(x, far, j))(x)
