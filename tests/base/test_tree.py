"""Trees of arguments: what transforms look into, and what they refuse to take for a constant.

Not for: in_axes and out_axes (test_vmap.py).
"""

from __future__ import annotations

import functools
from collections import namedtuple
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import pytest

import dualad as da
from dualad.base.tree import Kind, is_array, leaf
from dualad.errors import ArgumentTypeError, OutputError, PerformanceNote, TreeError


@dataclass
class Spring:
    stiffness: float
    ends: np.ndarray
    name: str = "spring"


@dataclass(frozen=True, slots=True)
class Frozen:
    a: float
    inner: Spring


@dataclass
class Cached:
    a: float

    @functools.cached_property
    def square(self):
        return self.a * self.a


@dataclass
class Derived:
    a: float
    double: float = field(init=False)

    def __post_init__(self):
        self.double = 2 * self.a
        self.triple = 3 * self.a


class Model:
    def __init__(self):
        self.weights = np.ones(3)


def energy(s: Spring):
    return 0.5 * s.stiffness * np.sum((s.ends[1:] - s.ends[:-1]) ** 2)


def spring() -> Spring:
    return Spring(3.0, np.array([0.0, 1.0, 3.0]))


def test_dataclasses_are_trees_without_registration() -> None:
    gradient = da.grad(energy)(spring())
    assert type(gradient) is Spring
    assert gradient.name == "spring"
    assert gradient.stiffness == 2.5
    np.testing.assert_array_equal(gradient.ends, [-3.0, -3.0, 6.0])


def test_dataclasses_within_dataclasses_in_every_mode() -> None:
    point = Frozen(2.0, spring())
    f = lambda p: p.a * energy(p.inner)
    value, tangent = da.jvp(f, (point,), (Frozen(1.0, Spring(0.0, np.zeros(3))),))
    assert (value, tangent) == (15.0, 7.5)
    assert da.hessian(f)(point).a.inner.stiffness == 2.5
    batch = Frozen(np.array([1.0, 2.0]), Spring(np.array([3.0, 3.0]), np.ones((2, 3)) * [0.0, 1.0, 3.0]))
    np.testing.assert_array_equal(da.vmap(f)(batch), [7.5, 15.0])
    np.testing.assert_array_equal(da.vmap(da.grad(f))(batch).a, [7.5, 7.5])


def test_a_dataclass_is_a_result_too() -> None:
    out = da.jacfwd(lambda x: Spring(x[0] * x[1], x**2))(np.array([2.0, 3.0]))
    np.testing.assert_array_equal(out.stiffness, [3.0, 2.0])
    np.testing.assert_array_equal(out.ends, [[4.0, 0.0], [0.0, 6.0]])


def test_cached_properties_are_computed_again() -> None:
    point = Cached(3.0)
    assert point.square == 9.0
    assert da.grad(lambda c: c.square)(point).a == 6.0


def test_attributes_beside_the_fields_are_not_taken_for_constants() -> None:
    with pytest.raises(TreeError, match="argument 0 is an object of the class `Derived`, with numbers in its attr"):
        da.grad(lambda d: d.triple)(Derived(1.0))


@pytest.mark.parametrize("transform", [da.grad, da.jacfwd, da.jacrev, da.hessian, da.value_and_grad])
@pytest.mark.parametrize("argument", ["text", object(), np.sin, {"a": "b"}], ids=["str", "object", "function", "dict"])
def test_an_argument_without_numbers_has_no_derivative(transform, argument) -> None:
    with pytest.raises(ArgumentTypeError, match=r"argument 0 is a .*, in which there are no numbers"):
        transform(lambda x: 2.0)(argument)


@pytest.mark.parametrize(
    "call",
    [
        lambda f, m: da.grad(f)(m),
        lambda f, m: da.grad(f)([m, 1.0]),
        lambda f, m: da.jacfwd(f)([m, 1.0]),
        lambda f, m: da.vjp(f, m),
        lambda f, m: da.linearize(f, m),
        lambda f, m: da.jvp(f, (m,), (m,)),
    ],
)
def test_numbers_hidden_in_an_object_are_refused(call) -> None:
    with pytest.raises(TreeError, match="of the class `Model`, with numbers in its attributes weights"):
        call(lambda m: 0.0, Model())


def test_what_is_not_differentiated_may_be_anything() -> None:
    model = Model()
    assert da.grad(lambda x, m: x * m.weights.sum())(2.0, model) == 3.0
    np.testing.assert_array_equal(
        da.vmap(lambda x, m: x * m.weights.sum(), in_axes=(0, None))(np.ones(2), model), [3.0, 3.0]
    )


def test_static_leaves_beside_numbers_pass_through() -> None:
    Options = namedtuple("Options", "scale mode")
    gradient = da.grad(lambda o: o.scale**2 if o.mode == "square" else o.scale)(Options(3.0, "square"))
    assert gradient == Options(6.0, "square")


def test_static_leaves_that_came_in_may_come_out() -> None:
    def f(d):
        return {"y": np.sin(d["x"]), "units": d["units"]}

    point, direction = {"x": 0.0, "units": "m"}, {"x": 2.0, "units": "m"}
    value, tangent = da.jvp(f, (point,), (direction,))
    assert (value, tangent) == ({"y": 0.0, "units": "m"}, {"y": 2.0, "units": "m"})
    value, pull = da.vjp(f, point)
    assert value["units"] == "m"
    assert pull({"y": 3.0, "units": "m"}) == ({"x": 3.0, "units": "m"},)
    assert da.vmap(f)({"x": np.zeros(2), "units": "m"})["units"] == "m"
    assert da.trace(f, point)(direction)["units"] == "m"
    assert da.jacrev(f)(point) == {"y": {"x": 1.0, "units": "m"}, "units": "m"}
    with pytest.raises(TreeError, match="has another structure"):
        pull({"y": 3.0, "units": "km"})


def test_text_made_by_the_function_is_no_result() -> None:
    with pytest.raises(OutputError, match=r"returned 'm' of type str at output\['units'\]"):
        da.jacfwd(lambda x: {"y": x, "units": "m"})(1.0)


def test_lanes_that_disagree_about_a_field_are_refused() -> None:
    def f(x):
        return Spring(x, x, "positive" if x > 0 else "negative")

    with pytest.warns(PerformanceNote), pytest.raises(OutputError, match="different structures"):
        da.vmap(f)(np.array([1.0, -1.0]))


def test_hessians_of_dicts_with_static_leaves() -> None:
    H = da.hessian(lambda d: d["x"] ** 3 if d["how"] == "cube" else 0.0)({"x": 2.0, "how": "cube"})
    assert H == {"x": {"x": 12.0, "how": "cube"}, "how": "cube"}


def test_hessians_of_trees_with_static_leaves() -> None:
    H = da.hessian(lambda s: energy(s))(spring())
    assert H.stiffness.stiffness == 0.0
    np.testing.assert_array_equal(H.stiffness.ends, [-1.0, -1.0, 2.0])
    assert H.name == "spring"


SCALARS = ["?", "b", "B", "h", "H", "i", "I", "l", "L", "q", "Q", "e", "f", "d", "g", "F", "D", "G"]


@pytest.mark.parametrize("char", SCALARS)
def test_scalars_of_every_dtype_are_numbers_to_every_transform(char: str) -> None:
    kind = np.dtype(char).type
    n, x = kind(1), np.array([2.0, 3.0])
    f = lambda x, n: x * n
    assert leaf(n) is Kind.NUMBER
    same = np.testing.assert_array_equal
    same(da.jvp(lambda x: f(x, n), (x,), (x,))[1], x)
    same(da.vmap(f, in_axes=(0, None))(x, n), x)
    same(da.vjp(f, x, n)[0], x)
    same(da.jacfwd(f)(x, n), np.eye(2))
    if n.dtype.itemsize <= (16 if n.dtype.kind == "c" else 8):
        same(da.jit(f)(x, n), x)


# ── kinds of leaves ──────────────────────────────────────────────────────────────────────────────────────────────


class _Plain(np.ndarray):
    pass


class _InUnits(np.ndarray):
    def __mul__(self, other):
        return NotImplemented


_KINDS = {
    "array": (np.ones(3), Kind.ARRAY),
    "text in an array": (np.array(["a"]), Kind.ARRAY),
    "objects": (np.array([1, None]), Kind.OBJECTS),
    "float": (1.0, Kind.NUMBER),
    "bool": (True, Kind.NUMBER),
    "int32": (np.int32(3), Kind.NUMBER),
    "float16": (np.float16(3), Kind.NUMBER),
    "longdouble": (np.longdouble(3), Kind.NUMBER),
    "enum of ints": (Kind.ARRAY, Kind.NUMBER),
    "plain subclass": (np.ones(3).view(_Plain), Kind.SUBCLASS),
    "units": (np.ones(3).view(_InUnits), Kind.FOREIGN),
    "masked": (np.ma.masked_array([1.0], [True]), Kind.FOREIGN),
    "fraction": (Fraction(1, 2), Kind.HOLDER),
    "memory": (memoryview(b"abc"), Kind.HOLDER),
    "text": ("a", Kind.STATIC),
    "function": (np.sin, Kind.STATIC),
    "class": (np.ndarray, Kind.STATIC),
    "nothing": (None, Kind.STATIC),
}


@pytest.mark.parametrize("name", _KINDS)
def test_a_leaf_has_a_kind(name: str) -> None:
    x, kind = _KINDS[name]
    assert leaf(x) is kind and leaf(x) is kind  # the first time, and from then on
    assert is_array(x) == (kind <= Kind.FOREIGN)


def test_a_tensor_is_one_to_a_transform_around() -> None:
    def f(x):
        assert leaf(x) is Kind.TENSOR and is_array(x)
        return x

    da.jvp(f, (1.0,), (1.0,))
