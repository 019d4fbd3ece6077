"""check_rule: right rules pass every check, and each kind of wrong rule fails the check that is meant for it.

Not for the checkers it is made of (`test_gradcheck.py`, `test_check_grads.py`).
"""

from __future__ import annotations

import numpy as np
import pytest

import dualad as da
from dualad.errors import ArgumentTypeError, GradcheckError
from dualad.testing import check_rule
from tests.testing.faults import ARGS, COMPLEX, faulty

X = ARGS[0]


def failed(f, args=(X,), **options) -> list[str]:
    report = check_rule(f, args, raise_exception=False, **options)
    assert report.ok == (not [c for c in report.checks if c.status == "failed"])
    return [c.name for c in report.checks if c.status == "failed"]


def with_jvp(rule, f=lambda x: 2.0 * x):
    out = da.custom_jvp(f)
    out.defjvp(rule)
    return out


def with_vjp(bwd, f=lambda x: 2.0 * x):
    out = da.custom_vjp(f)
    out.defvjp(lambda *args: (f(*args), args), bwd)
    return out


@pytest.mark.parametrize("kind", ["custom_jvp", "custom_vjp"])
def test_right_rules_pass_every_check(kind: str) -> None:
    report = check_rule(faulty(kind, "none"), ARGS)
    assert report.ok and all(c.status == "ok" for c in report.checks)
    names = [c.name for c in report.checks]
    assert len(set(names)) == len(names) == 15
    assert "the rule of value" in str(report) and "second order, over reverse" in str(report)
    assert not failed(faulty(kind, "none"), COMPLEX, order=1)


@pytest.mark.parametrize(
    ("fault", "check"),
    [
        ("scaled", "the function's values"),
        ("random", "forward, again"),
        ("in lanes", "batched"),
        ("second order", "second order, over forward"),
    ],
)
@pytest.mark.parametrize("kind", ["custom_jvp", "custom_vjp"])
def test_planted_faults_fail_the_check_meant_for_them(kind: str, fault: str, check: str) -> None:
    modes = ("forward",) if kind == "custom_jvp" else ("reverse",)
    check = check.replace("forward", modes[0])
    found = failed(faulty(kind, fault), ARGS, modes=modes)
    assert any(name.startswith(check) for name in found), found


def test_rules_that_are_not_linear() -> None:
    assert "linear in tangents" in failed(with_jvp(lambda p, t: (2.0 * p[0], 2.0 * np.abs(t[0]))), modes="forward")
    assert "linear in tangents" in failed(with_jvp(lambda p, t: (2.0 * p[0], 2.0 * t[0] + 1.0)), modes="forward")
    clipping = with_vjp(lambda r, c: (np.clip(2.0 * c, -1.0, 1.0),))
    assert failed(clipping, modes="reverse", values=False) == ["linear in cotangents"]
    assert failed(clipping, values=False)[0] == "forward mode"  # which would be its transpose


def test_modes_that_disagree() -> None:
    def rule(p, t):
        return 2.0 * p[0], da.linear_call(lambda r, v: 2.0 * v, lambda r, c: 3.0 * c, None, t[0])

    assert failed(with_jvp(rule), values=False) == ["forward against reverse"]
    with pytest.raises(GradcheckError, match=r"forward and reverse mode of `<lambda>` disagree"):
        check_rule(with_jvp(rule), X, values=False)
    assert not failed(da.wrap(lambda x: 2.0 * x, jac=lambda x: 2.0 * np.eye(3)), order=1)


def test_shapes_dtypes_trees_and_values() -> None:
    for rule, word in (
        (lambda p, t: (2.0 * p[0], t[0].sum()), "DAD003"),
        (lambda p, t: (2.0 * p[0], t[0] * 2j), "DAD004"),
        (lambda p, t: 2.0 * p[0], "DAD002"),
        (lambda p, t: (2.0 * p[0], (t[0],)), "DAD002"),
        (lambda p, t: (2.5 * p[0], 2.0 * t[0]), "called plainly"),
        (lambda p, t: (_ for _ in ()).throw(ZeroDivisionError("mine")), "ZeroDivisionError: mine"),
    ):
        report = check_rule(with_jvp(rule), X, raise_exception=False)
        assert [c.name for c in report.checks] == ["forward mode", "reverse mode"]
        assert word in report.checks[0].reason


def test_batches_of_points() -> None:
    f = da.custom_vmap(lambda x, y: x * y)
    f.def_vmap(lambda size, mapped, x, y: (x * y * (1.1 if list(mapped) == [False, True] else 1.0), True))
    report = check_rule(f, ARGS, modes="reverse", raise_exception=False)
    bad = [c for c in report.checks if c.status == "failed"]
    assert [c.name for c in bad] == ["batched points"] and "points in input 1" in bad[0].reason
    assert not failed(f, ARGS, modes="reverse", batched=False)


def test_what_is_meant_and_what_is_skipped() -> None:
    straight_through = with_jvp(lambda p, t: (np.round(p[0]), t[0]), np.round)
    assert failed(straight_through) == ["the function's values"]
    assert not failed(straight_through, values=False)
    once = with_vjp(da.once_differentiable(lambda r, c: (2.0 * c * r[0],)), lambda x: x * x)
    report = check_rule(once, X, modes="reverse")
    assert report.checks[-1].status == "skipped" and "once_differentiable" in report.checks[-1].reason
    assert check_rule(with_jvp(lambda p, t: (p[0], t[0]), lambda x: x), np.zeros(0)).checks[0].status == "skipped"
    with pytest.raises(ArgumentTypeError, match="calling the function"):
        check_rule(3.0, X)
