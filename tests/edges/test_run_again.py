"""Functions that are run again behind the user's back: `checkpoint` beside exceptions and arrays that change.

Not for: what a checkpoint keeps and computes (``tests/capabilities/test_checkpoint.py``).
"""

from __future__ import annotations

import numpy as np
import pytest

import dualad as da
from dualad.errors import NotRepeatableError


def factorize(x):
    np.linalg.cholesky(np.eye(2) * (1.0 - x))
    return x * x


def strict_log(x):
    with np.errstate(all="raise"):
        return np.log(x)


def limited(x):
    if x > 1:
        raise np.linalg.LinAlgError("large")
    return x * x


@pytest.mark.parametrize("again", [lambda f: f, da.checkpoint, lambda f: da.checkpoint(da.checkpoint(f))])
@pytest.mark.filterwarnings("ignore::dualad.errors.PerformanceNote")
@pytest.mark.parametrize(
    ("body", "good", "bad", "slope"),
    [(factorize, 0.5, 2.0, 1.0), (strict_log, 2.0, 0.0, 0.5), (limited, 0.5, 2.0, 1.0)],
)
def test_an_exception_is_caught_as_without_checkpoint(again, body, good, bad, slope):
    inner = again(body)

    def outside(x):
        try:
            return inner(x)
        except (np.linalg.LinAlgError, FloatingPointError):
            return 3 * x

    def inside(x):
        try:
            y = body(x)
        except (np.linalg.LinAlgError, FloatingPointError):
            y = 3 * x
        return y

    for f in (outside, again(inside), again(outside)):
        assert da.grad(f)(good) == slope and da.grad(f)(bad) == 3.0
        assert da.jvp(f, (bad,), (1.0,))[1] == 3.0 and da.jacfwd(da.grad(f))(bad) == 0.0
        assert da.vmap(da.grad(f))(np.array([good, bad])).tolist() == [slope, 3.0]


def test_an_array_written_between_the_runs_is_told():
    w = np.array([1.0, 2.0])
    f = da.checkpoint(lambda x: np.sum(np.sin(x * w)))
    x = np.array([0.3, 0.4])
    _, pull = da.vjp(f, x)
    expected = pull(1.0)[0]
    w *= 10
    with pytest.raises(NotRepeatableError, match="reads besides its arguments has changed"):
        pull(1.0)
    w /= 10
    np.testing.assert_allclose(pull(1.0)[0], expected)
    w[:] = w[::-1].copy()  # the same numbers in another order
    with pytest.raises(NotRepeatableError, match="reads besides its arguments has changed"):
        pull(1.0)

    def local(x):
        scale = np.array([1.0, 2.0])
        y = da.checkpoint(lambda x: np.sum(np.sin(x * scale)))(x)
        scale[:] = 100
        return y

    with pytest.raises(NotRepeatableError):
        da.grad(local)(x)

    def passed(x):
        scale = np.array([1.0, 2.0])
        y = da.checkpoint(lambda x, scale: np.sum(np.sin(x * scale)))(x, scale)
        scale[:] = 100
        return y

    np.testing.assert_allclose(da.grad(passed)(x), expected)
    np.testing.assert_allclose(da.vmap(da.grad(passed))(np.stack([x, x])), [expected, expected])


def test_random_numbers_in_a_checkpoint_are_told():
    rng = np.random.default_rng(0)
    with pytest.raises(NotRepeatableError, match="random"):
        da.grad(da.checkpoint(lambda x: np.sum(x * rng.normal(size=3))))(np.ones(3))


@pytest.mark.parametrize(
    "make",
    [
        lambda: np.arange(4.0).reshape(2, 2).T, lambda: np.array([[1, 2], [3, 4]]), lambda: np.eye(2, dtype=np.float32),
        lambda: np.array([[1.0, np.nan], [np.inf, 2.0]]), lambda: np.ones((2, 2)) * 1j, lambda: np.eye(2, dtype=bool),
    ],
)  # fmt: skip
def test_constants_that_stay_the_same_are_no_matter(make):
    f = lambda x: np.real(np.sum(np.where(np.isfinite(x * make()), x, 1.0) * np.nan_to_num(make())))
    x = np.array([[0.3, 0.4], [0.5, 0.6]])
    np.testing.assert_allclose(da.grad(da.checkpoint(f))(x), da.grad(f)(x))


def test_large_numbers_raise_nothing_that_was_not_there():
    with np.errstate(all="raise"):
        assert da.grad(lambda x: np.sum(x * np.full(3, 1e200)))(np.ones(3)).tolist() == [1e200] * 3
        assert np.isfinite(da.grad(lambda x: np.sum(x * np.full((3, 1), 1e200) / 1e190))(np.ones((3, 1)))).all()
