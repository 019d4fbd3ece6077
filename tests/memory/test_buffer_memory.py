"""What NumPy and other libraries get of a buffer, and what is written into it in place.

Not for: programs that fill buffers (``test_buffer.py``).
"""

from __future__ import annotations

import numpy as onp  # noqa: ICN001 - np is the namespace under test
import pytest

import dualad as da
import dualad.numpy as np
from dualad.errors import InPlaceError
from dualad.memory.buffer import Buffer

POINT = onp.array([0.7, 1.3])


def test_a_copy_is_the_askers_own():
    def f(x):
        b = np.zeros(2)
        for mine in (onp.array(b), onp.asarray(b, onp.float32), onp.array(b, dtype=float, copy=True)):
            mine[:] = 9.0
            assert b.tolist() == [0.0, 0.0]
        assert onp.asarray(b, onp.float32).dtype == onp.float32
        assert onp.array(np.zeros(2, int)).dtype == int
        b[0] = x[0]
        return b

    da.jvp(f, (POINT,), (POINT,))


def test_other_libraries_get_their_turn():
    class Asked:
        def __array_function__(self, function, types, args, kwargs):
            return f"asked for {function.__name__}"

    def f(x):
        for arrays in ([np.zeros(2)], [np.zeros(2), x], [x, np.zeros(2)]):
            assert onp.concatenate([*arrays, Asked()]) == "asked for concatenate"
        return x

    da.jvp(f, (POINT,), (POINT,))


def test_functions_that_write_plain_numbers_write_into_buffers_and_into_plain_arrays():
    def f(x):
        b, plain = np.zeros(3), onp.zeros(3)
        for target in (b, plain):
            onp.copyto(target, np.ones(3))
            onp.put(target, [1], 5.0)
            onp.copyto(target, 7.0, where=np.array([False, False, True]))
            assert target.tolist() == [1.0, 5.0, 7.0]
        assert type(plain) is onp.ndarray
        return x * b

    onp.testing.assert_array_equal(da.jvp(f, (2.0,), (1.0,))[1], [1.0, 5.0, 7.0])


def test_what_is_given_as_the_target_is_returned():
    def f(x):
        b, c, d = np.ones(2), np.zeros(2), onp.zeros(2)
        assert onp.add(b, 1.0, out=b) is b and b.tolist() == [2.0, 2.0]
        whole, rest = onp.divmod(b, 1.5, out=(c, d))
        assert whole is c and rest is d and c.tolist() == [1.0, 1.0] and d.tolist() == [0.5, 0.5]
        whole, rest = onp.divmod(b, 1.5, out=(None, d))
        assert isinstance(whole, Buffer) and rest is d
        return x

    da.jvp(f, (POINT,), (POINT,))


@pytest.mark.filterwarnings("ignore::dualad.boundary.swallowed.RefusalSwallowedWarning")
def test_what_numpy_gets_of_a_buffer_is_its_memory_and_followed():
    def f(x):
        for b, dtype in ((np.zeros(2), float), (np.zeros(2, int), int)):
            first, second = onp.asarray(b), onp.asarray(b, dtype)
            assert first.dtype == dtype and onp.shares_memory(first, second) and not first.flags.writeable
            assert b.__array__(onp.float32).dtype == onp.float32
            del second
            with pytest.raises(InPlaceError, match="copies made by NumPy"):
                b[0] = 1
            del first
            b[0] = 1
            assert b.tolist() == [1, 0] and isinstance(b[0], onp.generic)
        return x

    da.jvp(f, (POINT,), (POINT,))


def test_what_only_looks_like_a_view_does_not_hinder_writes():
    def f(x):
        b = np.ones(2)
        twice = onp.tile(b, 2)  # a view, but of memory of its own
        b[0] = x[0]
        b[1] = 3.0
        return b * twice[:2]

    onp.testing.assert_array_equal(da.jvp(f, (POINT,), (POINT,))[1], [POINT[0], 0.0])


def test_only_the_first_write_after_a_tensor_has_read_copies():
    def f(x):
        b = np.ones(3)
        y = x[0] * b
        memory = [b._value.ctypes.data]
        for i in range(3):
            b[i] = 5.0
            memory.append(b._value.ctypes.data)
        assert memory[0] != memory[1] == memory[2] == memory[3]
        return y

    onp.testing.assert_array_equal(da.jvp(f, (POINT,), (onp.ones(2),))[1], onp.ones(3))
