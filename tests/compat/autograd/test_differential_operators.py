"""autograd's transforms: its results where they differ from ours, each against differences or by hand."""

from __future__ import annotations

import numpy as np
import pytest

import dualad.compat.autograd as ag
from dualad.errors import ArgumentTypeError, OutputError


def slope(f, x, v, eps=1e-6):
    return (f(x + eps * v) - f(x - eps * v)) / (2 * eps)


def wave(x):
    return np.sum(np.sin(x) * x**2)


x = np.array([0.3, -1.2, 2.0])
v = np.array([0.5, 1.0, -0.7])


def test_a_gradient_may_be_of_one_number_in_any_shape():
    for shape in ((), (1,), (1, 1)):
        np.testing.assert_allclose(ag.grad(lambda x: np.reshape(wave(x), shape))(x) @ v, slope(wave, x, v), rtol=1e-8)
    value, gradient = ag.value_and_grad(lambda x: wave(x)[None])(x)
    assert value.shape == (1,) and gradient.shape == (3,)


@pytest.mark.parametrize("operator", [ag.grad, ag.value_and_grad])
def test_what_is_no_single_real_number_is_refused(operator):
    for f in (np.sin, lambda x: np.sum(x) * 1j, lambda x: (wave(x), 1.0)):
        with pytest.raises(OutputError, match="one real number"):
            operator(f)(x)


def test_argnum_takes_positions_as_a_tuple_or_list():
    def f(a, b, c=2.0):
        return np.sum(a * b) * c

    assert ag.grad(f, 1)(x, v).tolist() == (2 * x).tolist()
    for argnum in ((1, 0), [1, 0]):
        first, second = ag.grad(f, argnum)(x, v, c=3.0)
        assert first.tolist() == (3 * x).tolist() and second.tolist() == (3 * v).tolist()
    assert ag.grad_named(f, "b")(x, v).tolist() == (2 * x).tolist()
    assert {name: np.sum(g) for name, g in ag.multigrad_dict(f)(x, v).items()} == {
        "a": np.sum(2 * v), "b": np.sum(2 * x), "c": np.sum(x * v),
    }  # fmt: skip
    with pytest.raises(ArgumentTypeError):
        ag.grad(f, "b")


def test_integers_count_as_floats():
    assert ag.grad(lambda k: np.sum(k**2))(np.arange(3)).tolist() == [0.0, 2.0, 4.0]


def test_trees_are_differentiated_as_they_are():
    g = ag.grad(lambda p: np.sum(p["w"] * p["b"][0]))({"w": x, "b": (v, 3.0)})
    assert g["w"].tolist() == v.tolist() and g["b"][0].tolist() == x.tolist() and g["b"][1] == 0.0


def test_elementwise_grad_sums_the_rows_of_the_jacobian():
    np.testing.assert_allclose(ag.elementwise_grad(np.sin)(x), np.cos(x))
    np.testing.assert_allclose(ag.elementwise_grad(np.cumsum)(x), [3.0, 2.0, 1.0])
    with pytest.raises(OutputError, match="real"):
        ag.elementwise_grad(lambda x: x * 1j)(x)


def test_a_jacobian_has_the_shape_of_the_result_and_then_the_argument_s():
    def f(m):
        return np.outer(m[0], np.sin(m[1]))

    m = np.stack([x, v])
    jacobian, direction = ag.jacobian(f)(m), np.arange(6.0).reshape(2, 3)
    assert jacobian.shape == (3, 3, 2, 3)
    np.testing.assert_allclose(np.tensordot(jacobian, direction, 2), slope(f, m, direction), rtol=1e-7, atol=1e-9)


def test_products_with_second_derivatives():
    gradient = ag.grad(wave)
    expected = slope(gradient, x, v)
    np.testing.assert_allclose(ag.hessian(wave)(x) @ v, expected, rtol=1e-7)
    np.testing.assert_allclose(ag.hessian_vector_product(wave)(x, v), expected, rtol=1e-7)
    product, at = ag.make_hvp(wave)(x)
    np.testing.assert_allclose(product(v), expected, rtol=1e-7)
    assert at.tolist() == gradient(x).tolist()
    assert ag.hessian(np.sin)(x).shape == (3, 3, 3)


def test_pullbacks_and_pushforwards():
    pull, value = ag.make_vjp(lambda a, b: np.sin(a) * b, 1)(x, v)
    assert value.tolist() == (np.sin(x) * v).tolist()
    assert pull(np.array([1, 0, 2])).tolist() == (np.sin(x) * [1, 0, 2]).tolist(), "a cotangent of any dtype"
    out, tangent = ag.make_jvp(np.sin)(x)(v)
    np.testing.assert_allclose(tangent, np.cos(x) * v)
    np.testing.assert_allclose(ag.make_jvp_reversemode(np.sin)(x)(v), tangent)
    np.testing.assert_allclose(ag.deriv(np.sin)(0.3), np.cos(0.3))
    np.testing.assert_allclose(ag.vector_jacobian_product(np.sin)(x, v), v * np.cos(x))
    assert out.tolist() == np.sin(x).tolist()


def test_gauss_newton_products():
    def f(x):
        return np.stack([x[0] * x[1], np.sin(x[2]), x[0] ** 2])

    jacobian = ag.jacobian(f)(x)
    np.testing.assert_allclose(ag.make_ggnvp(f)(x)(v), jacobian.T @ jacobian @ v)


def test_auxiliary_results_come_back_as_they_are():
    gradient, aux = ag.grad_and_aux(lambda x: (wave(x), {"norm": np.sum(x**2)}))(x)
    np.testing.assert_allclose(gradient @ v, slope(wave, x, v), rtol=1e-8)
    assert aux == {"norm": np.sum(x**2)}


def test_complex_gradients_are_those_of_autograd():
    """∂f/∂a − i ∂f/∂b at a + ib, and a cotangent times the derivative."""
    z = 0.3 + 0.7j

    def f(z):
        return np.real(z) ** 3 * np.imag(z) + np.abs(z)

    h = 1e-6
    da, db = (f(z + h) - f(z - h)) / (2 * h), (f(z + 1j * h) - f(z - 1j * h)) / (2 * h)
    np.testing.assert_allclose(ag.grad(f)(z), da - 1j * db, rtol=1e-8)
    np.testing.assert_allclose(ag.holomorphic_grad(np.exp)(z), np.exp(z))
    pull, _ = ag.make_vjp(np.sin)(z)
    np.testing.assert_allclose(pull(2.0 + 1j), (2 + 1j) * np.cos(z))


def test_operators_nest_and_have_names():
    third = ag.elementwise_grad(ag.elementwise_grad(ag.elementwise_grad(np.sin)))
    np.testing.assert_allclose(third(x), -np.cos(x))
    assert ag.grad(wave).__name__ == "grad_of_wave_wrt_argnum_0"
