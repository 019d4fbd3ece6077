"""The laws hold for functions drawn at random, and each is broken by a rule that breaks it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

import dualad as da
from dualad.errors import ArgumentError, GradcheckError
from dualad.testing import laws, strategies
from tests.testing.faults import ARGS, COMPLEX, faulty

X = ARGS[0]


@settings(max_examples=12)
@given(strategies.functions(), strategies.arrays((3,), away_from=[0.05]))
def test_laws_hold(f, x) -> None:
    laws.check_laws(f, (x,))


@settings(max_examples=12)
@given(strategies.functions(), strategies.functions(2), strategies.arrays((3,), strategies.dtypes(single=False)))
def test_chain_rule_holds(f, g, x) -> None:
    if x.dtype.kind == "f":
        laws.chain_rule(f, g, (x,))
    else:
        laws.chain_rule(np.sin, lambda z: z * np.conj(z), (x,))


def test_laws_hold_for_trees_complex_numbers_and_rules() -> None:
    f = lambda params, n: {"y": params["w"] ** n * params["b"], "n": n}
    laws.check_laws(f, ({"w": X, "b": 2.0}, 3))
    laws.check_laws(faulty("custom_vjp", "none"), COMPLEX)
    laws.chain_rule(lambda x, n: {"a": x * n}, lambda d: np.cumsum(d["a"]), (X, 2))
    laws.check_laws(np.sin, (np.zeros(0),))
    with pytest.raises(ArgumentError, match="law"):
        laws.check_laws(np.sin, (X,), ["gravity"])


def broken(rule, f=lambda x: 2.0 * x):
    out = da.custom_jvp(f)
    out.defjvp(rule)
    return out


def test_each_law_is_broken_by_a_rule_that_breaks_it() -> None:
    clip = da.custom_vjp(lambda x: x * 1.0)
    clip.defvjp(lambda x: (x, None), lambda r, c: (np.clip(c, -0.5, 0.5),))
    two_ends = broken(lambda p, t: (2.0 * p[0], da.linear_call(lambda r, v: 2.0 * v, lambda r, c: 3.0 * c, None, t[0])))
    skew = np.array([[0.0, 1.0, 0.0], [-1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    twisted = broken(lambda p, t: (np.sum(p[0] ** 2), t[0] @ (skew @ p[0])), lambda x: np.sum(x**2))
    lanes = da.custom_vmap(lambda x: 2.0 * x)
    lanes.def_vmap(lambda size, mapped, x: (2.5 * x, True))
    keeps = broken(lambda p, t: (3.0 * p[0], 2.0 * t[0]))
    for law, f in (
        ("duality", two_ends),
        ("jacfwd is jacrev", two_ends),
        ("symmetric Hessian", twisted),
        ("vmap is a loop", lanes),
        ("stop_gradient", keeps),
    ):
        with pytest.raises(GradcheckError):
            laws.check_laws(f, (X,), [law])
    with pytest.raises(da.errors.NotLinearError):
        laws.linearity(clip, (X,))
    with pytest.raises(GradcheckError, match="linearity in the tangent"):
        laws.linearity(broken(lambda p, t: (2.0 * p[0], linear_but_not_really(t[0]))), (X,))
    noisy = faulty("custom_jvp", "random")
    with pytest.raises(GradcheckError, match="chain rule"):
        laws.chain_rule(lambda x: noisy(x, x), np.sin, (X,))


def linear_but_not_really(t):
    return da.linear_call(lambda r, v: np.abs(2.0 * v), lambda r, c: 2.0 * c, None, t)
