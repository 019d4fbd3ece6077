"""Numbers that are written, and written to, where NumPy has rules of its own: scalars, numbers without room.

Not for: writes of arrays (``test_writing.py``).
"""

import operator

import numpy as np
import pytest

import dualad as da

X = np.array([0.7, -1.2, 2.5])


@pytest.mark.parametrize("number", [np.std, np.nan_to_num, lambda x: x], ids=["std", "nan", "entry"])
@pytest.mark.parametrize(
    "write",
    [lambda s: s.fill(2.0), lambda s: s.flat.__setitem__(0, 2.0), lambda s: operator.setitem(s, (), 2.0)],
    ids=["fill", "flat", "item"],
)
def test_a_number_is_not_written_to(number, write):
    """NumPy would write into a copy, or refuse."""

    def f(x):
        s = number(x[0])
        write(s)
        return s * x[1]

    for run in (lambda: da.jvp(f, (X,), (X,)), lambda: da.jit(f)(X)):
        with pytest.raises(TypeError, match="scalar"):
            run()


@pytest.mark.parametrize("number", [np.int64(300), np.uint8(200), np.float64(300.0)])
@pytest.mark.parametrize("index", [slice(1, None), ..., 0])
def test_a_number_of_numpys_without_room_is_refused(number, index):
    def f(x):
        x[index] = number
        return x

    for run in (f, da.jit(f)):
        with pytest.raises(OverflowError):
            run(np.zeros(3, np.int8))


def test_copyto_drops_leading_axes_and_copies_nothing_onto_itself():
    def f(x, y):
        np.copyto(x, y)
        z = np.broadcast_to(y, (2, 1))
        np.copyto(z, z)
        return x + z

    args = np.array(1.0), np.array([2.0])
    np.testing.assert_array_equal(da.jit(f)(*args), [[4.0], [4.0]])
    np.testing.assert_array_equal(da.jvp(f, args, args)[1], [[4.0], [4.0]])


@pytest.mark.parametrize(
    "write",
    [
        lambda x: np.copyto(x, 2**40), lambda x: np.put(x, [0], -(2**40)), lambda x: np.place(x, [True, False], 2**40),
        lambda x: np.putmask(x, x >= 0, 2**40), lambda x: np.fill_diagonal(x.reshape(1, 2), 2**40),
    ],
    ids=["copyto", "put", "place", "putmask", "fill_diagonal"],
)  # fmt: skip
def test_functions_refuse_a_number_without_room(write):
    def f(x):
        y = np.zeros_like(x)
        write(y)
        return x + y

    x = np.arange(2, dtype=np.int32)
    for run in (f, da.jit(f)):
        with pytest.raises(OverflowError):
            run(x)


@pytest.mark.filterwarnings("ignore::dualad.errors.PerformanceNote")
@pytest.mark.parametrize("take", [np.array, np.copy, np.asarray])
def test_a_copy_of_an_array_without_axes_keeps_its_number(take) -> None:
    def f(x):
        y = np.reshape(x * 1.0, (1,)).copy()[0:1].reshape(())
        kept = take(y)
        y[...] = 3.0
        return np.conj(kept)

    def g(x):
        kept = take(x)
        x[...] = 3.0
        return np.conj(kept)

    expected = f(np.array(0.69))
    assert da.jit(f)(np.array(0.69)) == da.jvp(f, (0.69,), (1.0,))[0] == expected
    assert da.jit(g)(np.array(0.69)) == g(np.array(0.69)) == expected
