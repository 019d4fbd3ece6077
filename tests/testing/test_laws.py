"""The laws hold for functions drawn at random, and each is broken by a rule that breaks it.

So does each property behind them: the worst entry is named, NaN agrees with NaN alone. Not for the checks that are made
of properties (`test_gradcheck.py`, `test_rules.py`).
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

import dualad as da
from dualad.errors import ArgumentError, GradcheckError
from dualad.testing import laws, strategies
from dualad.testing.engine import Engine
from dualad.testing.laws import Properties, expect
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


def test_the_worst_entry_is_named_with_both_arrays() -> None:
    got, expected = np.array([[1.0, 2.0], [3.0, 4.5]]), np.array([[1.0, 2.1], [3.0, 4.0]])
    with pytest.raises(GradcheckError, match=r"entry \(1, 1\)") as info:
        expect("law", got, expected, 1e-6, "entry {}".format, "why", "instead", lambda k: {"output": k[0]})
    assert (info.value.check, info.value.output) == ("law", 1)
    assert info.value.analytical is got and info.value.numerical is expected
    expect("law", got, expected, 0.6, "entry {}".format, "", "")


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_what_is_not_finite_agrees_with_itself_alone(wrong: float) -> None:
    got, right = np.array([wrong, 1.0]), np.array([1.0, 1.0])
    expect("law", got, got.copy(), 0.0, "entry {}".format, "", "")
    for a, b in ((got, right), (right, got)):
        with pytest.raises(GradcheckError, match="entry 0"):
            expect("law", a, b, 1e3, "entry {}".format, "", "")


def test_an_infinite_value_excuses_no_other() -> None:
    f = Engine(lambda x: np.stack([x, np.inf]), (0.5,))
    Properties(f).value("forward", np.array([0.5, np.inf]))
    for value in ([0.6, np.inf], [0.5, 1.0]):
        with pytest.raises(GradcheckError, match="called plainly"):
            Properties(f).value("forward", np.array(value))


@pytest.mark.parametrize(
    ("kind", "fault", "mode", "broken"),
    [
        ("custom_jvp", "random", "forward", "again"),
        ("custom_vjp", "random", "reverse", "again"),
        ("custom_jvp", "in lanes", "forward", "batched"),
        ("custom_vjp", "in lanes", "reverse", "batched"),
        ("custom_jvp", "in lanes", "forward", "batched_points"),
        ("custom_vjp", "none", "reverse", ""),
    ],
)
def test_a_fault_breaks_the_property_meant_for_it(kind: str, fault: str, mode: str, broken: str) -> None:
    f = Engine(faulty(kind, fault), ARGS)
    way, found = f.going(mode), []
    v = way.random(np.random.default_rng(0))
    for name, question in {
        "again": lambda p: p.again("it", way.product(v), way.product(v)),
        "batched": lambda p: p.batched(mode, 2),
        "batched_points": lambda p: p.batched_points([mode], 2),
        "absent": lambda p: p.absent(mode),
        "linear": lambda p: p.linear(way),
    }.items():
        try:
            question(Properties(f, rtol=1e-7, atol=1e-12))
        except GradcheckError:
            found.append(name)
    assert broken in found if broken else not found
