"""What a transform returns can be written to, entry by entry, and a write to it reaches nothing else.

Rules repeat numbers without memory where NumPy's functions do; what leaves a transform is an array of its own. Not for:
what compiled functions return (``compile/test_jit.py``).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import dualad as da

X = np.arange(1.0, 5.0)
repeated = lambda x: np.broadcast_to(np.sum(x), (3,))

DERIVATIVES: dict[str, Callable] = {
    "jacrev": lambda: da.jacrev(np.sum)(X),
    "jacfwd": lambda: da.jacfwd(repeated)(X),
    "jacobian": lambda: da.jacobian(repeated)(X),
    "hessian": lambda: da.hessian(lambda x: np.sum(x) ** 2)(X),
    "reverse over reverse": lambda: da.jacrev(da.jacrev(lambda x: np.sum(x) ** 2))(X),
    "hvp": lambda: da.hvp(lambda x: np.sum(x) ** 2, X, X),
    "jvp": lambda: da.jvp(repeated, (X,), (X,))[1],
    "linearize": lambda: da.linearize(repeated, X)[1](X),
    "vjp": lambda: da.vjp(np.sum, X)[1](1.0)[0],
    "vmap": lambda: da.vmap(repeated)(np.ones((2, 4))),
    "vmap, other axis": lambda: da.vmap(repeated, out_axes=1)(np.ones((2, 4))),
    "vmap of jit": lambda: da.vmap(da.jit(lambda x: np.ones(2)))(X),
    "vmap of jacrev": lambda: da.vmap(da.jacrev(repeated))(np.ones((2, 4))),
    "jit of hessian": lambda: da.jit(da.hessian(lambda x: np.sum(x) ** 2))(X),
}


@pytest.mark.parametrize("make", DERIVATIVES.values(), ids=DERIVATIVES)
def test_each_entry_can_be_written_to(make: Callable) -> None:
    result = make()
    before = result.copy()
    result[(0,) * result.ndim] += 100.0
    before[(0,) * result.ndim] += 100.0
    np.testing.assert_array_equal(result, before)


@pytest.mark.parametrize("move", [lambda x: x, lambda x: x[::-1], lambda x: x.reshape(2, 2), lambda x: x[:2]])
def test_tangents_do_not_share_memory_with_what_was_given(move: Callable) -> None:
    v = np.arange(4.0)
    for given in (v, np.arange(8.0)[::2], np.broadcast_to(2.0, 4)):
        pushed, mapped = da.jvp(move, (X,), (given,))[1], da.linearize(move, X)[1](given)
        for result in (pushed, mapped):
            np.testing.assert_array_equal(result, move(given))
            assert not np.shares_memory(result, given) and result.flags.writeable
