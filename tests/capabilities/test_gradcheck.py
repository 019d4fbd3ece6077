"""Gradient checking, fault by fault, with the numbers and counts that each must show.

Not for every planted fault (`tests/testing/test_gradcheck.py`) nor for other oracles (`test_check_grads.py`).
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import dualad as da
from dualad.errors import GradcheckError, RuleMissingError
from dualad.testing import gradcheck, gradgradcheck
from dualad.testing.engine import Engine

X = np.array([0.5, -1.5])
LEAN = {"check_batched_grad": False, "check_batched_forward_grad": False, "check_undefined_grad": False}


def with_rules(forward=lambda t: 2.0 * t, reverse=lambda c: 2.0 * c):
    """Return 2x, whose tangent is a linear call: forward and reverse mode have a rule each."""
    f = da.custom_jvp(lambda x: 2.0 * x)
    f.defjvp(
        lambda p, t: (2.0 * p[0], da.linear_call(lambda r, v: forward(v), lambda r, c: reverse(c), None, t[0])),
    )
    return f


def with_vjp(bwd, f=lambda x: 2.0 * x, **options):
    out = da.custom_vjp(f)
    plain = lambda args: tuple(getattr(a, "value", a) for a in args)  # symbolic_zeros: arguments with .value
    out.defvjp(lambda *args: (f(*plain(args)), plain(args)), bwd, **options)
    return out


@pytest.mark.parametrize("fast", [False, True])
def test_slow_and_fast_mode_accept_a_right_derivative(fast: bool) -> None:
    assert gradcheck(lambda x: 5 * x, (X,), fast_mode=fast)
    assert gradgradcheck(lambda x: 5 * x, (X,), fast_mode=fast)


def test_inputs_of_low_precision_are_warned_of_and_integers_refused() -> None:
    for raising in (True, False):
        with pytest.raises(ValueError, match="floating-point"):
            gradcheck(lambda n: n, (np.array([1, 2]),), raise_exception=raising)
    with pytest.warns(UserWarning, match="input 1 has dtype float32"):
        assert gradcheck(lambda x, y: x.sum() * y, (X, np.float32([1, 2])))
    with pytest.warns(UserWarning, match="input 0 has dtype float32"):
        assert not gradcheck(with_rules(lambda t: 2.2 * t), np.float32([1, 2]), raise_exception=False)
    expanded = np.broadcast_to(np.array(2.0), (3,))
    assert gradcheck(lambda x: x * x, (expanded,))


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("wrong", [lambda v: 2.0 * v + 0.01 * v, lambda v: 2.2 * v, lambda v: 3.0 * v])
def test_a_mismatch_names_mode_output_and_input(wrong, fast: bool) -> None:
    for mode, f in (("forward", with_rules(forward=wrong)), ("reverse", with_rules(reverse=wrong))):
        with pytest.raises(RuntimeError, match=f"{mode}-mode derivative of output 1.* input 0, x") as info:
            gradcheck(lambda x, f=f: (x, f(x)), (X,), fast_mode=fast)
        error = info.value
        assert (error.output, error.input, error.check) == (1, 0, mode)
        assert not np.allclose(error.analytical, error.numerical, rtol=1e-3)
        assert not gradcheck(f, (X,), fast_mode=fast, raise_exception=False)

    def raises(x):
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        gradcheck(raises, (X,), raise_exception=False)


@pytest.mark.parametrize(("forward", "reverse"), list(itertools.product([False, True], repeat=2)))
def test_a_fault_is_found_in_just_the_modes_that_are_checked(forward: bool, reverse: bool) -> None:
    for bad_forward, bad_reverse, fast in itertools.product([False, True], repeat=3):
        f = with_rules(
            *[(lambda v: 2.2 * v) if bad else (lambda v: 2.0 * v) for bad in (bad_forward, bad_reverse)],
        )
        switches = {"check_forward_ad": forward, "check_backward_ad": reverse, "fast_mode": fast, **LEAN}
        if not forward and not reverse:
            with pytest.raises(AssertionError, match="neither"):
                gradcheck(f, (X,), raise_exception=False, **switches)
            continue
        expected = not (forward and bad_forward) and not (reverse and bad_reverse)
        assert gradcheck(f, (X,), raise_exception=False, **switches) == expected


def test_a_forward_rule_is_called_once_for_each_perturbed_entry() -> None:
    calls = []
    f = da.custom_jvp(np.sin)

    @f.defjvp
    def rule(primals, tangents):
        calls.append(1)
        return np.sin(primals[0]), np.cos(primals[0]) * tangents[0]

    def count(x, **switches) -> int:
        calls.clear()
        gradcheck(f, (x,), modes="forward", **{**LEAN, **switches})
        return len(calls)

    # One per perturbed element, and one again for determinism.
    assert count(X) == 2 + 1 and count(np.zeros(5) + 0.1) == 5 + 1 and count(X + 1j) == 4 + 1
    assert count(X, fast_mode=True) == 1 + 1 and count(X + 1j, fast_mode=True) == 2 + 1
    # Absent tangents: only the explicit zeros reach the rule. A batch: one call for all lanes, and the loop's three.
    assert count(X, check_undefined_grad=True) == 3 + 1
    assert count(X, check_batched_forward_grad=True) == 3 + 1 + 3


def test_a_rule_that_is_wrong_in_lanes_is_found() -> None:
    in_lanes = lambda factor: lambda v: v * (factor if type(v).__name__ == "Batched" else 2.0)
    assert gradcheck(with_rules(in_lanes(2.0), in_lanes(2.0)), (X,))
    for f, words in (
        (with_rules(reverse=in_lanes(2.5)), "batched gradient"),
        (with_rules(in_lanes(2.5)), "batched forward"),
    ):
        for fast in (False, True):
            with pytest.raises(GradcheckError, match=words):
                gradcheck(f, (X,), fast_mode=fast)
        assert gradcheck(f, (X,), check_batched_grad=False, check_batched_forward_grad=False)

    def refuses(v):
        return 2.0 * v if type(v).__name__ == "ndarray" else np.asarray(v, float)

    with pytest.raises(GradcheckError, match=r"batched gradient .* raised"):
        gradcheck(da.plain(with_rules(reverse=refuses)), (X,), modes="reverse")


def test_rules_that_mistake_a_missing_cotangent_are_found() -> None:
    def pair(x):
        return 2.0 * x, 3.0 * x

    def strict(residuals, cts):
        if any(isinstance(c, da.SymbolicZero) for c in cts):
            raise ValueError("a cotangent is missing")
        return (2.0 * cts[0] + 3.0 * cts[1],)

    def tolerant(residuals, cts):
        given = [c.instantiate() if isinstance(c, da.SymbolicZero) else c for c in cts]
        return (2.0 * given[0] + 3.0 * given[1],)

    def wrong(residuals, cts):
        return ((2.5 if isinstance(cts[1], da.SymbolicZero) else 2.0) * tolerant(None, (cts[0], cts[0]))[0] / 5.0
                + tolerant(None, (da.SymbolicZero((2,), np.dtype(float)), cts[1]))[0],)  # fmt: skip

    assert gradcheck(with_vjp(tolerant, pair, symbolic_zeros=True), (X,), modes="reverse")
    f = with_vjp(strict, pair, symbolic_zeros=True)
    with pytest.raises(GradcheckError, match="output 0 undefined, reverse mode raised: ValueError: a cotangent is mi"):
        gradcheck(f, (X,), modes="reverse")
    assert gradcheck(f, (X,), modes="reverse", check_undefined_grad=False)
    with pytest.raises(GradcheckError, match="output 1 undefined, reverse mode gives"):
        gradcheck(with_vjp(wrong, pair, symbolic_zeros=True), (X,), modes="reverse", fast_mode=True)
    f = da.custom_jvp(lambda x, y: x * y)
    f.defjvp(
        lambda p, t: (p[0] * p[1], p[0] * t[1] + (0.0 if isinstance(t[0], da.SymbolicZero) else p[1] * t[0])),
        symbolic_zeros=True,
    )
    with pytest.raises(GradcheckError, match="tangent of input 1 undefined, forward mode raised"):
        gradcheck(f, (X, X + 1), modes="forward")


def test_rules_that_are_not_deterministic_are_found() -> None:
    rng = np.random.default_rng(0)
    noisy = lambda size: with_vjp(lambda r, c: (2.0 * c * (1.0 + size * rng.standard_normal()),))
    for mode in ("forward", "reverse"):
        with pytest.raises(GradcheckError, match="not re-entrant") as info:
            gradcheck(noisy(1e-6), (X,), modes=mode, rtol=1e-4)
        assert info.value.check == "determinism"
        assert gradcheck(noisy(1e-6), (X,), modes=mode, nondet_tol=1e-5)
    with pytest.raises(GradcheckError, match="two different values") as info:
        gradgradcheck(noisy(1e-12), (X,))
    assert info.value.check == "determinism"
    assert gradgradcheck(noisy(1e-12), (X,), nondet_tol=1e-5)


def test_shapes_and_dtypes_that_depend_on_values_are_found() -> None:
    def doubles(x):
        return np.concatenate([x, x]) if np.sum(x) > 2.0 else x

    def changes(x):
        return x.astype(np.float32) if np.sum(x) > 2.0 else x

    for f, word in ((doubles, "shape"), (changes, "dtype")):
        for fast in (False, True):
            with pytest.raises(AssertionError, match=word):
                gradcheck(f, (np.ones(2),), fast_mode=fast)


def test_a_function_without_a_differentiable_output_passes_unless_stopped() -> None:
    constant = lambda x: da.stop_gradient(x) * 2.0
    with pytest.raises(GradcheckError, match="stop_gradient"):
        gradcheck(constant, (X,))
    assert not gradcheck(constant, (X,), raise_exception=False)
    assert gradcheck(lambda x: (), (X,)) and gradgradcheck(lambda x: (), (X,))
    assert gradcheck(lambda x: np.argmax(x), (X,)) and gradgradcheck(lambda x: np.argmax(x), (X,))


def test_a_fault_names_the_real_or_imaginary_part() -> None:
    z = np.array([0.3 + 0.4j, 1.0 - 2.0j])
    assert gradcheck(lambda z: (z * z, np.abs(z), z.real, np.conj(z)), (z,))
    assert gradcheck(lambda x, z: (x * z, np.abs(z) * x), (X, z), fast_mode=True)
    wrong = da.custom_jvp(lambda z: z * 2.0)
    wrong.defjvp(lambda p, t: (p[0] * 2.0, t[0].real * 2.0 + 2.2j * t[0].imag))
    for fast, mode in itertools.product([False, True], ["forward", "reverse"]):
        with pytest.raises(GradcheckError, match="imaginary part") as info:
            gradcheck(lambda x, z: (x, wrong(z)), (1.0, z), fast_mode=fast, modes=mode)
        assert (info.value.output, info.value.input, info.value.part) == (1, 1, "imaginary")
    wrong.defjvp(lambda p, t: (p[0] * 2.0, t[0].real * 2.2 + 2.0j * t[0].imag))
    with pytest.raises(GradcheckError, match="real part") as info:
        gradcheck(wrong, (z,))
    assert info.value.part == "real"


def test_the_four_products_give_the_jacobian_of_two_outputs() -> None:
    a, b = np.arange(4.0).reshape(2, 2) + 1.0, np.ones((2, 2))
    f = Engine(lambda x, y: (2 * x + y, x + 2 * y), (a, b))
    expected = np.kron(np.array([[2.0, 1.0], [1.0, 2.0]]), np.eye(4))
    columns = np.stack([f.jvp(v) for v in np.eye(8)], axis=1)
    f.learn()
    rows = np.stack([f.vjp(w) for w in np.eye(8)])
    assert np.array_equal(columns, expected) and np.array_equal(rows, expected)
    assert np.array_equal(f.vmap_jvp(np.eye(8)).T, expected) and np.array_equal(f.vmap_vjp(np.eye(8)), expected)


A = np.array([[2.0, 0.3, -0.4], [0.1, 1.5, 0.2], [0.5, -0.2, 1.8]])
SWEEP = {
    "sin": (np.sin, (A,)),
    "divide": (np.divide, (A, A.T + 3.0)),
    "matmul": (np.matmul, (A, A[:, 0])),
    "einsum": (lambda x: np.einsum("ij,jk->ki", x, x), (A,)),
    "sum": (lambda x: np.sum(x**3, axis=0), (A,)),
    "prod": (lambda x: np.prod(x, axis=1), (A,)),
    "cumsum": (lambda x: np.cumsum(x * x, axis=1), (A,)),
    "solve": (np.linalg.solve, (A, A[0])),
    "inv": (np.linalg.inv, (A,)),
    "fft": (lambda x: np.fft.fft(x) ** 2, (A[0],)),
    "index": (lambda x: x[[0, 2, 0]] * x[1], (A[0],)),
    "where": (lambda x: np.where(x.real > 0.25, x**2, np.exp(x)), (A[0],)),
    "concatenate": (lambda x, y: np.concatenate([x * y, y**2]), (A[0], A[1])),
    "write": (lambda x: written(x), (A[0],)),
}


def written(x):
    x = x * 1.0
    x[1:] = x[:-1] * x[1:]
    x[0] *= 3.0
    return x


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        *[(name, np.float64) for name in SWEEP],
        *[(name, np.complex128) for name in ("divide", "matmul", "inv", "write")],
    ],
)
def test_operators_pass_gradcheck_and_gradgradcheck(name: str, dtype: type) -> None:
    f, args = SWEEP[name]
    args = tuple(np.asarray(a, dtype) + (0.1j * np.cos(a) if dtype is np.complex128 else 0.0) for a in args)
    assert gradcheck(f, args, fast_mode=True)
    assert gradgradcheck(f, args, fast_mode=True, check_batched_forward_grad=False)
    assert gradgradcheck(f, args, fast_mode=True, noncontiguous_cotangents=True, modes="reverse", **LEAN)
    for gradient, arg in zip(da.vjp(f, *args)[1](f(*args)), args, strict=True):
        assert gradient.dtype == arg.dtype


def test_a_missing_second_derivative_is_loud() -> None:
    once = with_vjp(da.once_differentiable(lambda r, c: (2.0 * c * r[0],)), lambda x: x * x)
    assert gradcheck(once, (X,), modes="reverse")
    with pytest.raises(RuleMissingError, match="once_differentiable"):
        gradgradcheck(once, (X,), modes="reverse")
