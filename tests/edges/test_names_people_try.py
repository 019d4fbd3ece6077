"""What users of JAX write first: names, arguments and shortcuts that should simply be there.

Not for: the transforms they stand on (``tests/test_*.py``), or custom rules themselves (``tests/rules``).
"""

from __future__ import annotations

import copy
import dataclasses

import numpy as np
import pytest

import dualad as da
from dualad.errors import (
    ArgumentError,
    ArgumentTypeError,
    DtypeError,
    OutputError,
    RuleMissingError,
    ShapeError,
    TreeError,
)


@da.custom_jvp
def product(x, y):
    return np.sin(x) * y


product.defjvps(lambda t, out, x, y: t * np.cos(x) * y, lambda t, out, x, y: t * out / y)


def test_defjvps():
    assert da.grad(product, argnums=(0, 1))(0.5, 2.0) == pytest.approx((2 * np.cos(0.5), np.sin(0.5)))
    assert da.jacfwd(da.grad(product))(0.5, 2.0) == pytest.approx(-2 * np.sin(0.5))
    np.testing.assert_allclose(da.vmap(da.grad(product), (0, None))(np.array([0.5, 1.0]), 2.0), 2 * np.cos([0.5, 1.0]))

    @da.custom_jvp
    def half(x, y):
        return {"out": x * y}

    half.defjvps(lambda t, out, x, y: {"out": t * y}, None)
    assert da.grad(lambda x, y: half(x, y)["out"], argnums=(0, 1))(2.0, 3.0) == (3.0, 0.0)
    half.defjvps(lambda t, out, x, y: {"out": t * y})
    with pytest.raises(ArgumentError, match="given 1 rules; the call has 2"):
        da.grad(lambda x: half(x, 3.0)["out"])(2.0)


def test_keyword_only_arguments_left_at_their_defaults():
    @da.custom_jvp
    def scaled(x, *, scale=2.0):
        return x * scale

    scaled.defjvp(lambda primals, tangents: (scaled(*primals), tangents[0] * 2.0))
    assert da.grad(scaled)(3.0) == 2.0 and scaled(3.0, scale=5.0) == 15.0
    with pytest.raises(ArgumentError, match=r"functools\.partial"):
        da.grad(lambda x: scaled(x, scale=3.0))(1.0)


def test_keyword_only_arguments_reach_the_rules():
    @da.custom_jvp
    def power(x, *, n=2.0):
        return x**n

    @power.defjvp
    def _(primals, tangents, *, n=2.0):
        (x,), (t,) = primals, tangents
        return power(x, n=n), n * x ** (n - 1) * t

    assert da.grad(power)(3.0) == 6.0 and da.grad(lambda x: power(x, n=3.0))(2.0) == 12.0
    np.testing.assert_allclose(da.vmap(da.grad(da.grad(lambda x: power(x, n=3.0))))(np.arange(3.0)), [0, 6, 12])
    with pytest.raises(ArgumentTypeError, match=r"keyword-only arguments \['n'\] are traced"):
        da.grad(lambda n: power(2.0, n=n))(3.0)
    power.defjvps(lambda t, out, x, *, n=2.0: n * x ** (n - 1) * t)
    assert da.grad(lambda x: power(x, n=3.0))(2.0) == 12.0

    @da.custom_vjp
    def root(x, *, n=2.0, note=None):
        return x**n

    def fwd(x, **names):
        return root(x, **names), x

    root.defvjp(fwd, lambda x, ct, *, n=2.0, **rest: (n * x ** (n - 1) * ct,))
    f = lambda x: root(x, n=3.0, note="a")
    assert da.grad(f)(2.0) == 12.0 == da.jvp(f, (2.0,), (1.0,))[1] and da.grad(root)(3.0) == 6.0
    # bwd may read them among the residuals instead
    root.defvjp(lambda x, *, n=2.0, note=None: (x**n, (x, n)), lambda r, ct: (r[1] * r[0] ** (r[1] - 1) * ct,))
    assert da.grad(f)(2.0) == 12.0 and da.jit(da.grad(f))(2.0) == 12.0
    root.defvjp(lambda x: (x**2, x), lambda x, ct: (2 * x * ct,))
    with pytest.raises(ArgumentError, match=r"\['n', 'note'\]; its fwd rule has no parameters"):
        da.grad(f)(2.0)

    @da.custom_vmap
    def shifted(x, *, by=0.0):
        return x + by

    shifted.def_vmap(lambda size, mapped, x, *, by=0.0: (x + 2 * by, True))
    assert da.vmap(lambda x: shifted(x, by=1.0))(np.zeros(2)).tolist() == [2.0, 2.0]
    opaque = da.wrap(lambda x, *, n: float(x) ** n, jac=lambda x, *, n: n * x ** (n - 1))
    assert da.grad(lambda x: opaque(x, n=3))(2.0) == 12.0


def test_copies_of_custom_functions():
    def local(x):
        return x * 2

    f = da.custom_jvp(local)
    f.defjvp(lambda p, t: (p[0] * 2, t[0] * 7))
    assert copy.deepcopy({"f": f})["f"] is f and copy.copy(f) is f
    assert da.grad(copy.deepcopy(f))(1.0) == 7.0


def test_what_bwd_may_return():
    @da.custom_vjp
    def f(tree, z):
        return tree["a"] * tree["b"] * z

    fwd = lambda tree, z: (f(tree, z), (tree, z))
    point = ({"a": 2.0, "b": 3.0}, 5.0)
    f.defvjp(fwd, lambda r, ct: [{"a": ct * r[0]["b"] * r[1], "b": None}, None])
    assert da.grad(f, argnums=(0, 1))(*point) == ({"a": 15.0, "b": 0.0}, 0.0)
    f.defvjp(fwd, lambda r, ct: (None, ct * r[0]["a"] * r[0]["b"]))
    assert da.grad(f, argnums=(0, 1))(*point) == ({"a": 0.0, "b": 0.0}, 6.0)
    f.defvjp(fwd, lambda r, ct: [ct])
    with pytest.raises(TreeError, match="returned a list for 2 arguments"):
        da.grad(f)(*point)


@pytest.mark.parametrize(("make", "name"), [(da.custom_jvp, "defjvp"), (da.custom_vjp, "defvjp")])
def test_without_a_rule_the_error_names_what_defines_one(make, name):
    with pytest.raises(RuleMissingError, match=name):
        da.grad(make(lambda x: x))(1.0)


def test_hessian_of_many_results():
    f = lambda x: np.stack([x[0] ** 2 * x[1], np.sin(x[1]), x[0]])
    x = np.array([2.0, 0.5])
    second = da.hessian(f)(x)
    assert second.shape == (3, 2, 2)
    for i in range(3):
        np.testing.assert_allclose(second[i], da.hessian(lambda x, i=i: f(x)[i])(x), atol=1e-15)
    np.testing.assert_allclose(da.hessian(f)(x), da.jacfwd(da.jacrev(f))(x))
    value, trees = da.value_and_hessian(lambda x: {"a": x**2, "b": np.sum(x**3)})(x)
    assert trees["a"].shape == (2, 2, 2) and trees["b"].shape == (2, 2) and value["b"] == np.sum(x**3)
    with pytest.raises(OutputError):
        da.hessian(lambda x: np.argsort(x))(x)


def test_integers_among_the_arguments():
    gradient = da.grad(lambda p: p["w"] * p["n"], allow_int=True)({"w": 2.0, "n": 3})
    assert gradient["w"] == 3.0 and gradient["n"].dtype == da.float0
    value, (g, none) = da.value_and_grad(lambda x, n: np.sum(x) * n.sum(), (0, 1), allow_int=True)(
        np.ones(2), np.arange(3)
    )
    assert value == 6.0 and g.tolist() == [3.0, 3.0] and none.shape == (3,) and none.dtype == da.float0
    assert da.grad(lambda n: n * 2.0, allow_int=True)(3).dtype == da.float0
    with pytest.raises(DtypeError):
        da.grad(lambda p: p["w"] * p["n"])({"w": 2.0, "n": 3})


def test_shapes_and_programs_without_a_run():
    shapes = da.eval_shape(lambda x, n: {"gram": x @ x.T, "n": n}, np.ones((2, 3), np.float32), 2)
    assert shapes["gram"].shape == (2, 2) and shapes["gram"].dtype == np.float32 and shapes["n"].shape == ()
    program = da.make_program(lambda x: np.sin(x) * 2)(1.0)
    assert str(program) == str(da.trace(lambda x: np.sin(x) * 2, 1.0))


def test_value_and_jacobian():
    f = lambda x: x[:1] * x[1:]
    x = np.array([2.0, 3.0, 4.0])
    value, jac = da.value_and_jacobian(f)(x)
    np.testing.assert_array_equal(value, f(x))
    np.testing.assert_array_equal(jac, da.jacfwd(f)(x))
    (value, aux), jac = da.value_and_jacobian(lambda x: (f(x), "aux"), has_aux=True, mode="forward")(x)
    assert aux == "aux" and jac.shape == (2, 3)


def test_static_fields_and_registering_twice():
    @dataclasses.dataclass
    class Layer:
        weight: float
        size: int = dataclasses.field(default=3, metadata={"static": True})
        rate: float = 0.5

    assert da.register_dataclass(Layer, static=["rate"]) is Layer is da.register_dataclass(Layer)
    gradient = da.grad(lambda p: p.weight * p.size * p.rate)(Layer(2.0))
    assert (gradient.weight, gradient.size, gradient.rate) == (1.5, 3, 0.5)
    with pytest.raises(ArgumentError, match="nothing"):
        da.register_dataclass(Layer, static=["nothing"])

    @dataclasses.dataclass
    class Unregistered:
        x: float
        n: int = dataclasses.field(default=2, metadata={"static": True})

    assert da.grad(lambda p: p.x * p.n)(Unregistered(1.0)).x == 2.0


def test_ravel_pytree():
    tree = {"a": np.ones((2, 2), np.float32), "b": (3.0, "text"), "c": np.arange(2)}
    flat, unravel = da.ravel_pytree(tree)
    assert flat.shape == (7,) and flat.dtype == np.float64
    back = unravel(flat)
    assert back["b"][1] == "text" and back["a"].dtype == np.float32 and back["c"].tolist() == [0, 1]
    f = lambda t: np.sum(t["a"] ** 2) * t["b"][0]
    gradient = da.grad(lambda v: f(unravel(v)))(flat)
    np.testing.assert_array_equal(gradient, [6, 6, 6, 6, 4, 0, 0])
    assert da.grad(lambda t: da.ravel_pytree(t)[0] @ np.arange(4.0))({"x": np.ones(3), "y": 1.0})["y"] == 3.0
    assert da.vmap(lambda v: unravel(v)["a"])(np.ones((5, 7))).shape == (5, 2, 2)
    with pytest.raises(ShapeError, match="7 numbers"):
        unravel(np.ones(3))


def test_levels_are_indices():
    with da.dual_level() as outer, da.dual_level() as inner:
        assert (int(outer), int(inner), int(da.make_dual(3.0, 1.0))) == (0, 1, 3)


def test_hooks_inside_second_derivatives_are_linear_rules():
    assert da.grad(da.grad(lambda x: da.grad_hook(x**3, lambda g: 2 * g)))(2.0) == 24.0
    assert da.grad(da.grad(lambda x: da.grad_hook(x, lambda g: None) ** 3))(2.0) == 12.0
