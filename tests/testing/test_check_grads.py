"""check_grads: every oracle passes what is right and catches planted faults, in every mode and at every order.

The Taylor remainder test also alone: rates of right and wrong expansions, rounding, small entries beside large ones.
Not for whole Jacobians (`test_gradcheck.py`).
"""

from __future__ import annotations

import numpy as np
import pytest

import dualad as da
from dualad.errors import ArgumentError, GradcheckError, NotLinearError, TreeError, UsageError
from dualad.testing import check_grads, check_rule, gradcheck, gradgradcheck, laws
from dualad.testing.check_grads import expansion_test
from tests.testing.faults import ARGS, COMPLEX, faulty

ORACLES = ("differences", "taylor", "complex-step")


@pytest.mark.parametrize("oracle", [*ORACLES, "dot"])
@pytest.mark.parametrize("kind", ["custom_jvp", "custom_vjp"])
def test_right_rules_pass(kind: str, oracle: str) -> None:
    check_grads(faulty(kind, "none"), ARGS, order=2, oracle=oracle)


@pytest.mark.parametrize("oracle", ORACLES)
@pytest.mark.parametrize("mode", ["forward", "reverse"])
@pytest.mark.parametrize("fault", ["scaled", "shifted", "one entry"])
@pytest.mark.parametrize("kind", ["custom_jvp", "custom_vjp"])
def test_planted_faults_are_caught(kind: str, fault: str, mode: str, oracle: str) -> None:
    with pytest.raises(GradcheckError):
        check_grads(faulty(kind, fault), ARGS, order=1, modes=mode, oracle=oracle)


@pytest.mark.parametrize("oracle", ORACLES)
@pytest.mark.parametrize("mode", ["forward", "reverse"])
@pytest.mark.parametrize("kind", ["custom_jvp", "custom_vjp"])
def test_a_fault_of_second_order_is_caught_at_second_order(kind: str, mode: str, oracle: str) -> None:
    f = faulty(kind, "second order")
    check_grads(f, ARGS, order=1, modes=mode, oracle=oracle)
    with pytest.raises(GradcheckError):
        check_grads(f, ARGS, order=2, modes=mode, oracle=oracle)
    inner, fast = ("forward", True) if oracle == "taylor" else ("reverse", oracle == "differences")
    assert not gradgradcheck(f, ARGS, modes=mode, inner=inner, fast_mode=fast, raise_exception=False)


def test_gradgradcheck_takes_cotangents_and_names_them() -> None:
    def f(x, y):
        return x * y, {"n": 3, "norm": np.sum(x**2)}

    cotangents = (np.array([1.0, 0.0, -2.0]), {"n": None, "norm": 2.0})
    assert gradgradcheck(f, ARGS, cotangents) and gradgradcheck(f, ARGS, ARGS, inner="forward")
    with pytest.raises(TreeError, match="the cotangent"):
        gradgradcheck(f, ARGS, (*cotangents[:1], 1.0))
    with pytest.raises(ArgumentError, match="mode"):
        gradgradcheck(f, ARGS, inner="around")
    wrong = da.custom_jvp(np.multiply)
    wrong.defjvp(lambda p, t: (p[0] * p[1], p[1] * t[0] + da.stop_gradient(p[0]) * t[1]))
    with pytest.raises(GradcheckError, match=r"pullback of multiply.*input 0") as info:
        gradgradcheck(wrong, ARGS, modes="forward")
    assert (info.value.output, info.value.input) == (1, 0)


def test_taylor_shows_its_table() -> None:
    with pytest.raises(GradcheckError) as info:
        check_grads(faulty("custom_jvp", "scaled"), ARGS, order=1, modes="forward", oracle="taylor")
    text = str(info.value)
    assert "to order 0   rate" in text and "expected      2" in text and "1.00" in text
    with pytest.raises(GradcheckError, match="derivative of order 2"):
        check_grads(faulty("custom_jvp", "second order"), ARGS, modes="reverse", oracle="taylor")
    with pytest.raises(GradcheckError, match="at a kink"):
        check_grads(lambda x: np.abs(x) * np.exp(x), (0.0,), order=1, oracle="taylor")


def test_dot_product_finds_modes_that_disagree() -> None:
    f = da.custom_jvp(lambda x, y: (x, 3.0 * y))
    f.defjvp(lambda p, t: ((p[0], 3.0 * p[1]),
                           (t[0], da.linear_call(lambda r, v: 3.0 * v, lambda r, c: 2.0 * c, None, t[1]))))  # fmt: skip
    with pytest.raises(GradcheckError, match=r"disagree in output 1 with respect to input 1 \(y\)") as info:
        check_grads(f, ARGS, oracle="dot")
    assert (info.value.output, info.value.input, info.value.check) == (1, 1, "dot product")
    not_linear = da.custom_vjp(np.sin)
    not_linear.defvjp(lambda x: (np.sin(x), x), lambda x, c: (np.cos(x) * np.abs(c),))
    with pytest.raises(NotLinearError):
        check_grads(not_linear, (0.3,), oracle="dot")


def test_orders_and_complex_arguments() -> None:
    check_grads(lambda x: np.exp(x) * x, (np.array([0.5]),), order=3, oracle=["differences", "taylor", "dot"])
    check_grads(lambda z: (z * z, np.abs(z)), COMPLEX[:1], oracle=["differences", "taylor", "dot"])
    assert not gradcheck(faulty("custom_vjp", "conjugated"), COMPLEX, raise_exception=False)


def test_what_cannot_be_judged_is_not_passed() -> None:
    with pytest.raises(GradcheckError, match=r"not complex-analytic|comes back real|discards"):
        check_grads(lambda x: np.abs(x) * x, (0.5,), oracle="complex-step")
    with pytest.raises(GradcheckError, match="complex numbers"):
        check_grads(np.sin, COMPLEX[:1], oracle="complex-step")


def test_arguments_are_checked() -> None:
    for bad in ({"oracle": "finite"}, {"oracle": []}, {"order": 0}, {"order": 3, "oracle": "jax"}, {"modes": "up"}):
        with pytest.raises(ArgumentError):
            check_grads(np.sin, (0.5,), **bad)
    with pytest.raises(UsageError, match="floating-point"):
        check_grads(np.sin, (1,))


def test_single_precision_is_judged_by_its_digits() -> None:
    x = np.float32([0.5, 1.5])
    loss = lambda x: np.sum(np.exp(x) * x)
    with pytest.warns(UserWarning, match="input 0 has dtype float32"):
        check_grads(loss, (x,), oracle=["differences", "dot", "taylor"])
    with pytest.warns(UserWarning, match="output 0 has dtype float32"):
        assert gradcheck(lambda x: x.astype(np.float32) * 2, (x.astype(float),))
    with pytest.warns(UserWarning, match="input 0 has dtype float32") as caught:
        assert check_rule(loss, (x,)).ok
    assert len(caught) == 1
    laws.check_laws(loss, (x,))
    laws.chain_rule(np.sin, loss, (x,))


def test_nothing_that_could_be_differentiated() -> None:
    for oracle in ("differences", "taylor", "complex-step", "dot"):
        check_grads(np.argmax, (np.ones(2),), oracle=oracle)
    laws.check_laws(np.argmax, (np.ones(2),), [name for name in laws.LAWS if name != "vmap is a loop"])
    rng = np.random.default_rng(0)
    for oracle in ("differences", "taylor"):
        with pytest.raises(GradcheckError, match="two"):
            check_grads(lambda x: x * rng.random(), (1.0,), oracle=oracle)


# -- the Taylor remainder test -------------------------------------------------------------------------------------

X, V = np.array([0.5]), np.array([1.0])


def test_rates_are_those_of_the_power_left_out() -> None:
    table = expansion_test(np.sin, X, V, [np.sin(X), np.cos(X), -np.sin(X)])
    assert table.ok and table.order == 2
    for order in range(3):
        seen = table.rates(order)
        assert np.nanmedian(seen) == pytest.approx(order + 1, abs=0.1)
    text = str(table)
    assert text.count("\n") == len(table.steps) + 1 and "to order 2" in text


@pytest.mark.parametrize("size", [1.1, 1.001, 0.0])
@pytest.mark.parametrize("order", [1, 2])
def test_a_wrong_derivative_shows(order: int, size: float) -> None:
    right = [np.sin(X), np.cos(X), -np.sin(X)][: order + 1]
    right[order] = right[order] * size
    assert not expansion_test(np.sin, X, V, right).ok


def test_exact_expansions_are_rounding() -> None:
    assert expansion_test(lambda x: 3 * x, X, V, [3 * X, np.array([3.0])]).ok
    assert expansion_test(lambda x: 0 * x, X, V, [0 * X, np.zeros(1)]).ok


def test_a_small_entry_is_not_hidden_by_a_large_one() -> None:
    f = lambda x: np.concatenate([1e8 * np.sin(x), 1e-8 * np.exp(x)])
    right = np.concatenate([1e8 * np.cos(X), 1e-8 * np.exp(X)])
    assert expansion_test(f, X, V, [f(X), right]).ok
    assert not expansion_test(f, X, V, [f(X), right * [1.0, 1.1]]).ok


def test_a_domain_that_ends_nearby_is_approached_with_smaller_steps() -> None:
    def f(x):
        if x[0] > 0.51:
            raise ValueError("outside")
        return np.sin(x)

    table = expansion_test(f, X, V, [np.sin(X), np.cos(X)])
    assert table.ok and table.steps[0] < 0.0437
    assert not expansion_test(lambda x: 1 / 0, X, V, [np.sin(X), np.cos(X)]).ok
