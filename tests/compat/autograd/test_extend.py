"""Rules declared in autograd's way, against differences, in both modes and to third order."""

from __future__ import annotations

import numpy as np
import pytest

import dualad as da
from dualad.compat.autograd import elementwise_grad, grad, hessian, jacobian
from dualad.compat.autograd.extend import (
    Box,
    VSpace,
    def_linear,
    defjvp,
    defjvp_argnum,
    defvjp,
    defvjp_argnum,
    notrace_primitive,
    primitive,
    vspace,
)
from dualad.core.tracer import Tracer
from dualad.errors import RuleMissingError, UnsupportedError
from dualad.testing import check_grads

x, y = np.array([0.4, 1.1, -0.6]), np.array([1.5, 0.3, 0.9])


def plainly(function):
    """A function that takes nothing but plain arrays and numbers."""

    def checked(*args, **kwargs):
        assert all(isinstance(a, (np.ndarray, float, int, np.generic, str)) for a in args)
        return function(*args, **kwargs)

    checked.__name__ = function.__name__
    return checked


def product():
    @primitive
    @plainly
    def product(x, y, power=1):
        return np.sin(x) * y**power

    return product


def with_vjp():
    f = product()
    defvjp(
        f,
        lambda ans, x, y, power=1: lambda g: g * np.cos(x) * y**power,
        lambda ans, x, y, power=1: lambda g: g * np.sin(x) * power * y ** (power - 1),
    )
    return f


def with_jvp():
    f = product()
    defjvp(
        f,
        lambda g, ans, x, y, power=1: g * np.cos(x) * y**power,
        lambda g, ans, x, y, power=1: g * np.sin(x) * power * y ** (power - 1),
    )
    return f


@pytest.mark.parametrize("make", [with_vjp, with_jvp])
def test_one_rule_serves_both_modes_at_any_order(make):
    f = make()
    assert f(x, y, power=2).tolist() == (np.sin(x) * y**2).tolist()
    check_grads(lambda x, y: f(x, y, power=3), (x, y), order=3)
    np.testing.assert_allclose(jacobian(f)(x, y), np.diag(np.cos(x) * y))
    np.testing.assert_allclose(hessian(lambda x: np.sum(f(x, x)))(x), np.diag(2 * np.cos(x) - np.sin(x) * x))


def test_primitives_are_mapped_and_compiled():
    @primitive
    def cube(x):
        return x**3

    defvjp(cube, lambda ans, x: lambda g: g * 3 * x**2)
    np.testing.assert_allclose(da.vmap(da.grad(cube))(x), 3 * x**2)
    np.testing.assert_allclose(da.jit(da.grad(lambda x: np.sum(cube(x))))(x), 3 * x**2)


def test_rules_may_be_declared_for_some_arguments():
    f = product()
    defvjp(f, lambda ans, x, y: lambda g: g * np.sin(x), argnums=(1,))
    assert elementwise_grad(f, 1)(x, y).tolist() == np.sin(x).tolist()
    with pytest.raises(RuleMissingError, match=r"product.*\(0,\)"):
        elementwise_grad(f, 0)(x, y)
    # An argument that moves in an outer derivative only needs no rule in the inner one.
    assert grad(lambda a: np.sum(elementwise_grad(f, 1)(a, y)) * 0.0 + np.sum(a))(x).tolist() == [1.0, 1.0, 1.0]


def test_none_says_that_the_derivative_is_zero():
    f = product()
    defvjp(f, None, lambda ans, x, y: lambda g: g * np.sin(x))
    assert elementwise_grad(f)(x, y).tolist() == [0.0, 0.0, 0.0]
    f = product()
    defjvp(f, None, lambda g, ans, x, y: g * np.sin(x))
    assert elementwise_grad(f)(x, y).tolist() == [0.0, 0.0, 0.0]


def test_rules_of_all_arguments_at_once():
    f = product()
    defvjp_argnum(
        f, lambda i, ans, args, kwargs: lambda g: g * (np.cos(args[0]) * args[1] if i == 0 else np.sin(args[0]))
    )
    check_grads(f, (x, y), order=2)
    f = product()
    defjvp_argnum(f, lambda i, g, ans, args, kwargs: g * (np.cos(args[0]) * args[1] if i == 0 else np.sin(args[0])))
    check_grads(f, (x, y), order=2)


def test_linear_functions_are_their_own_rule():
    @primitive
    def twice(x):
        return 2 * x

    def_linear(twice)
    check_grads(twice, (x,), order=2)

    @primitive
    def scaled(x, by):
        return x * by

    defjvp(scaled, "same", "same")
    check_grads(scaled, (x, 3.0), order=2)


def test_a_function_without_rules_is_refused_when_it_is_differentiated():
    f = product()
    assert f(x, y).shape == (3,)
    with pytest.raises(RuleMissingError, match="defvjp"):
        elementwise_grad(f)(x, y)
    with pytest.raises(RuleMissingError, match="no primitive"):
        defvjp(np.sin, None)


def test_primitives_take_trees_methods_and_settings():
    class Scaled:
        by = 3.0

        @primitive
        def __call__(self, pair, name):
            assert name == "sum"
            return self.by * (pair[0] + pair[1])

    defvjp(Scaled.__call__, lambda ans, self, pair, name: lambda g: (self.by * g, self.by * g), argnums=(1,))
    first, second = grad(lambda p: np.sum(Scaled()((p[0], p[1]), "sum")))((x, y))
    assert first.tolist() == second.tolist() == [3.0, 3.0, 3.0]


def test_a_primitive_makes_plain_arrays_and_may_write_to_them():
    @primitive
    def filled(x):
        out = da.numpy.zeros(3)
        out[:] = x
        assert type(out) is np.ndarray and not isinstance(out, Tracer)
        return out

    defvjp(filled, lambda ans, x: lambda g: np.sum(g))
    assert grad(lambda x: np.sum(filled(x) ** 2))(2.0) == 12.0


def test_constants_of_notrace_primitives():
    size = notrace_primitive(lambda x: float(np.sum(x)))
    assert grad(lambda x: np.sum(x) * size(x))(x).tolist() == [np.sum(x)] * 3


def test_the_space_of_a_value():
    space = vspace({"a": x, "b": (1.0 + 0j, 2.0)})
    assert space.size == 6 and space.iscomplex and not vspace(x).iscomplex
    assert vspace(x).shape == (3,) and vspace(x).dtype == float and vspace(x).ndim == 1
    assert space.zeros()["b"] == (0j, 0.0) and space.ones()["a"].tolist() == [1.0, 1.0, 1.0]
    assert space == vspace({"a": y, "b": (0j, 0.0)}) and vspace(x) != vspace(x[:2])
    assert vspace(space.randn()) == space


@pytest.mark.parametrize("base", [Box, VSpace])
def test_classes_of_one_s_own_are_refused_with_what_to_write(base):
    with pytest.raises(UnsupportedError, match="register_node"):
        base.register(int)
