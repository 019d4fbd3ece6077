"""Compiled series of functions of an entry against those that are not, and where they must not be used."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import dualad as da
from dualad.core.tables import OPS
from dualad.series import native, rules
from tests.oracles import op_values

pytest.importorskip("llvmlite")

RNG = np.random.default_rng(3)
X = RNG.uniform(0.2, 0.9, size=(5, 7))
V, W = RNG.normal(size=(2, 5, 7))

ENTRYWISE = [op for op in OPS.values() if op.kind in native._KINDS and op.jvp and not op.multiple_results]

FUNCTIONS = {
    "tanh": np.tanh,
    "sin": lambda x: np.sin(2 * x),
    "log": np.log,
    "sqrt": np.sqrt,
    "arctan": np.arctan,
    "number": lambda x: x**2.5,
    "power": lambda x: x**x,
    "product": lambda x: np.exp(x) * x,
    "square": lambda x: np.square(np.exp(x)),
    "quotient": lambda x: np.exp(x) / (1 + x * x),
    "over a constant": lambda x: W / x + 2 / x,
    "two": lambda x: np.hypot(x, np.exp(x)),
    "constant series": lambda x: np.arctan2(x, W),
}


@pytest.fixture
def at_once(monkeypatch):
    """Compile what is asked for once, however small."""
    monkeypatch.setattr(native, "_LARGE", 1)
    monkeypatch.setattr(native, "_OFTEN", 1)
    native._kernel.cache_clear()
    yield
    native._kernel.cache_clear()


def compiled_kernels(monkeypatch) -> list[str]:
    """Note the operators whose series come from compiled code."""
    found = []

    def noted(call):
        made = native.compiled_stream(call)
        if made is not None:
            found.append(call.op.name)
        return made

    monkeypatch.setattr(rules, "compiled_stream", noted)
    return found


@pytest.mark.parametrize("name", FUNCTIONS)
def test_compiled_series_are_those_that_are_not(name: str, at_once, monkeypatch) -> None:
    f = FUNCTIONS[name]
    with monkeypatch.context() as patch:
        patch.setattr(rules, "compiled_stream", lambda call: None)
        expected = [da.taylor(f, X, V, order=order) for order in (2, 4)]
        curve = da.jet(f, (X,), ([V, W, None, W],))[1]
    found = compiled_kernels(monkeypatch)
    for e in expected:
        c = da.taylor(f, X, V, order=len(e) - 1)
        np.testing.assert_allclose(c, e, rtol=1e-11, atol=1e-12)
        np.testing.assert_array_equal(c[0], f(X))
    np.testing.assert_allclose(da.jet(f, (X,), ([V, W, None, W],))[1], curve, rtol=1e-11, atol=1e-11)
    assert found


@pytest.mark.full
@pytest.mark.parametrize("op", ENTRYWISE, ids=lambda op: op.name)
def test_every_function_of_an_entry(op, at_once, monkeypatch) -> None:
    for s in op_values.subjects(op):
        moving = [i for i in s.moving() if np.asarray(s.args[i]).dtype == float]
        if not moving:
            continue
        with np.errstate(all="ignore"):
            shape = np.broadcast_shapes(*[np.shape(x) for x in s.args])
            args = [np.broadcast_to(x, shape).copy() if np.ndim(x) or i in moving else x for i, x in enumerate(s.args)]
            call = lambda *xs, args=args, s=s, m=moving: op(
                *[xs[m.index(i)] if i in m else x for i, x in enumerate(args)], **s.params
            )
            primals = tuple([np.asarray(args[i], float) for i in moving])
            terms = tuple([[np.cos(x), 0.1 * np.ones_like(x), None] for x in primals])
            with monkeypatch.context() as patch:
                patch.setattr(rules, "compiled_stream", lambda call: None)
                expected = da.jet(call, primals, terms)
            found = da.jet(call, primals, terms)
        for a, b in zip((found[0], *found[1]), (expected[0], *expected[1]), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-9)


def test_zeros_of_both_signs(at_once, monkeypatch) -> None:
    found = compiled_kernels(monkeypatch)
    for zero, sign in ((0.0, 1), (-0.0, -1)):
        coefs = da.taylor(lambda x, zero=zero: np.copysign(x * x, zero), X, V, order=3)
        np.testing.assert_allclose(coefs, [sign * X**2, sign * 2 * X * V, sign * V**2, 0 * X], rtol=1e-14, atol=0)
    assert found.count("copysign") == 2


def test_they_wait_until_they_pay(monkeypatch) -> None:
    found = compiled_kernels(monkeypatch)
    native._kernel.cache_clear()
    large = RNG.normal(size=(64, 64))
    for _ in range(native._OFTEN - 1):
        da.taylor(np.tanh, large, large, order=2)
    assert not found
    da.taylor(np.tanh, large, large, order=2)
    assert found == ["tanh"]
    da.taylor(np.tanh, large, large, order=3)
    da.taylor(np.tanh, large[:60], large[:60], order=2)
    assert found == ["tanh"]
    native._kernel.cache_clear()


def test_poles_and_conventions_are_not_compiled_away(at_once) -> None:
    with np.errstate(all="ignore"):
        x, v = np.array([0.0, 1.0]), np.array([0.0, 1.0])
        for _ in range(2):
            root = da.taylor(np.sqrt, x, v, order=3)
            np.testing.assert_array_equal(root[:, 0], 0.0)
            np.testing.assert_allclose(root[:, 1], [1, 1 / 2, -1 / 8, 1 / 16])
    with pytest.warns(RuntimeWarning, match="invalid value"):
        assert np.isnan(da.taylor(np.log, -X, V, order=2)[0]).all()
    zero = np.zeros(3)
    for convention, slope in (("subgradient", 0.0), ("nan", np.nan), ("subgradient", 0.0)):
        with da.kinks(convention):
            assert np.array_equal(da.taylor(np.abs, zero, zero + 1, order=2)[1], zero + slope, equal_nan=True)


def test_without_a_compiler_nothing_changes(at_once, monkeypatch) -> None:
    expected = da.taylor(np.tanh, X, V, order=4)
    native._kernel.cache_clear()
    monkeypatch.setattr(sys.modules["dualad.core.above"].ABOVE, "machine_code", lambda program: None)
    np.testing.assert_allclose(da.taylor(np.tanh, X, V, order=4), expected, rtol=1e-12)


def test_what_cannot_be_written_down_is_not_compiled(at_once, monkeypatch) -> None:
    def refuse(*args):
        raise da.errors.BranchError("a rule", "branches", "on values")

    expected = da.taylor(np.tanh, X, V, order=4)
    native._kernel.cache_clear()
    monkeypatch.setattr(native, "_record_series", refuse)
    np.testing.assert_allclose(da.taylor(np.tanh, X, V, order=4), expected, rtol=1e-12)
    with da.kinks("raise"):
        np.testing.assert_array_equal(da.taylor(np.abs, X, V, order=2), [X, V, 0 * X])
