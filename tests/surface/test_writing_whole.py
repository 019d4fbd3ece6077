"""Writes that leave nothing of the old entries: what was computed for these has no part in a derivative."""

import numpy as np
import pytest

import dualad as da

WHOLE = {
    "slice": lambda y, v: y.__setitem__(slice(None), v),
    "ellipsis": lambda y, v: y.__setitem__(..., v),
    "all axes": lambda y, v: y.__setitem__((slice(None), slice(0, 3)), v),
    "view": lambda y, v: y[:, :].__setitem__(slice(None), v),
    "fill": lambda y, v: y.__setitem__(slice(None), v.sum()),
    "copyto": lambda y, v: np.copyto(y, v),
    "out": lambda y, v: np.multiply(v, 1.0, out=y),
}


@pytest.mark.parametrize("write", WHOLE)
@pytest.mark.parametrize("first", [*WHOLE, "entry", "row"])
def test_a_rule_whose_result_is_overwritten_is_not_run(first, write):
    """Nor are its poles met: what it would have computed was never read."""
    ran = []
    rule = da.custom_vjp(lambda x: x * 1.0)
    rule.defvjp(lambda x: (x * 1.0, None), lambda _, ct: (ran.append(1) or ct / 0.0,))
    begin = WHOLE | {"entry": lambda y, v: y.__setitem__((0, 1), v[0, 1]), "row": lambda y, v: y.__setitem__(0, v[0])}
    x = np.arange(1.0, 7.0).reshape(2, 3)

    def f(x):
        y = np.zeros_like(x)
        begin[first](y, rule(x))
        WHOLE[write](y, x**2)
        return y

    weights = np.array([[1.0, -2.0, 3.0], [0.5, 4.0, -1.0]])
    expected = weights.sum() * 2 * x if write == "fill" else 2 * x * weights
    np.testing.assert_allclose(da.grad(lambda x: np.sum(weights * f(x)))(x), expected)
    assert not ran


def test_a_whole_write_of_a_constant_has_no_derivative():
    def f(x):
        y = np.zeros_like(x)
        y[:] = 1 / x
        y[...] = 2.0
        return y

    value, tangent = da.jvp(f, (np.ones(3),), (np.ones(3),))
    assert value.tolist() == [2.0] * 3 and not tangent.any()
    with np.errstate(all="ignore"):
        assert not da.grad(lambda x: f(x).sum())(np.zeros(3)).any()
