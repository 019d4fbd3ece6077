"""debug(rules=True): wrong rules are named with the line they are used at; right ones are tested once and left alone.

Not for check_rule (`tests/testing/test_rules.py`).
"""

from __future__ import annotations

import numpy as np
import pytest

import dualad as da
from dualad.errors import GradcheckError
from tests.testing.faults import ARGS, COMPLEX, faulty

X = ARGS[0]
TRANSFORMS = {
    "jvp": lambda f: da.jvp(f, (X,), (X,)),
    "grad": lambda f: da.grad(lambda x: np.sum(f(x)))(X),
    "jacfwd": lambda f: da.jacfwd(f)(X),
    "hessian": lambda f: da.hessian(lambda x: np.sum(f(x)))(X),
    "vmap of grad": lambda f: da.vmap(da.grad(lambda x: np.sum(f(x))))(np.stack([X, X])),
    "grad of vmap": lambda f: da.grad(lambda x: np.sum(da.vmap(f)(x)))(np.stack([X, X])),
}


def with_jvp(rule, f=lambda x: 2.0 * x):
    out = da.custom_jvp(f)
    out.defjvp(rule)
    return out


def two_ends(p, t):
    return 2.0 * p[0], da.linear_call(lambda r, v: 2.0 * v, lambda r, c: 3.0 * c, None, t[0])


@pytest.mark.parametrize("name", TRANSFORMS)
def test_modes_that_disagree_are_named(name: str) -> None:
    with pytest.raises(GradcheckError, match="forward and reverse mode") as info, da.debug(rules=True):
        TRANSFORMS[name](with_jvp(two_ends))
    assert "test_debug_rules.py:" in str(info.value) and "check_rule" in str(info.value)


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (lambda p, t: (2.5 * p[0], 2.0 * t[0]), "gives the value"),
        (lambda p, t: (2.0 * p[0], 2.0 * np.abs(t[0])), "not linear in its tangents"),
    ],
)
def test_other_faults(rule, words: str) -> None:
    with pytest.raises(GradcheckError, match=words), da.debug(rules=True):
        da.jvp(with_jvp(rule), (X,), (X,))


def test_a_pullback_that_is_not_linear() -> None:
    clip = da.custom_vjp(lambda x: x * 1.0)
    clip.defvjp(lambda x: (x * 1.0, None), lambda r, c: (np.clip(c, -1.0, 1.0),))
    with pytest.raises(GradcheckError, match="can't be used in forward mode"), da.debug(rules=True):
        da.grad(lambda x: np.sum(clip(x)))(X)


@pytest.mark.parametrize("kind", ["custom_jvp", "custom_vjp"])
def test_right_rules_are_tested_once_and_change_nothing(kind: str) -> None:
    f = faulty(kind, "none")
    loss = lambda x, y: np.sum(np.real(f(x, y) * np.conj(f(y, x))))
    for args in (ARGS, COMPLEX):
        expected = da.grad(loss, (0, 1))(*args)
        with da.debug(rules=True) as report:
            for _ in range(3):
                found = da.grad(loss, (0, 1))(*args)
        assert all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True))
        # Both calls stand on one line with one shape.
        assert report.rules.tested == 1
    with da.debug(rules=True), da.debug(branches=True), pytest.raises(GradcheckError):
        da.jvp(with_jvp(two_ends), (X,), (X,))
    with da.debug(rules=True), da.debug(rules=False):
        da.jvp(with_jvp(two_ends), (X,), (X,))


def test_rules_with_one_mode_only_are_left_alone() -> None:
    once = da.custom_vjp(lambda x: x * x)
    once.defvjp(lambda x: (x * x, x), da.once_differentiable(lambda x, c: (2.0 * x * c,)))
    opaque = da.wrap(lambda x: 2.0 * x, jac=lambda x: 2.0 * np.eye(3))
    with da.debug(rules=True):
        assert np.array_equal(da.grad(lambda x: np.sum(once(x)))(X), 2 * X)
        assert np.allclose(da.grad(lambda x: np.sum(opaque(x)))(X), 2.0)
        da.grad(lambda x: np.sum(np.sin(x)))(X)
