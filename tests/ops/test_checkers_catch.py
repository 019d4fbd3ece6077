"""The checks of test_every_op are checked: an operator that is wrong in one way is caught by the check meant for it.

Each wrong operator is declared beside a right one of the same kind, which passes, and is removed from the registry.
Not for: any operator of the library.
"""

from __future__ import annotations

import numpy as np
import pytest

from dualad.core.aval import Aval
from dualad.core.primitive import Primitive
from dualad.core.tables import OPS
from dualad.ops.kinds import batch_elementwise, elementwise_shape, unbroadcast
from tests.ops.test_every_op import CHECKS
from tests.oracles.op_values import subjects

SHIFT = np.arange(6.0).reshape(2, 3) / 7


def right_square(**changes) -> Primitive:
    """Declare x², nonlinear, in one argument."""
    fields = {
        "impl": np.square,
        "abstract_eval": elementwise_shape(np.square),
        "jvp": lambda primals, tangents: (primals[0] * primals[0], tangents[0] * (2.0 * primals[0])),
        "batch": batch_elementwise(lambda x: x * x),
        "samples": [((2, 3),), ((),)],
    }
    return Primitive("test square", **{**fields, **changes})


def _product_jvp(primals, tangents):
    x, y = primals
    s, t = tangents
    out = x * y
    total = None if s is None else s * y
    if t is not None:
        total = x * t if total is None else total + x * t
    return out, np.broadcast_to(total, out.shape)


def right_product(**changes) -> Primitive:
    """Declare x·y, bilinear, with broadcasting."""
    fields = {
        "impl": np.multiply,
        "abstract_eval": elementwise_shape(np.multiply),
        "jvp": _product_jvp,
        "linear_in": (0, 1),
        "transpose": lambda ct, x, y: (
            (unbroadcast(ct * y, x), None) if type(x) is Aval else (None, unbroadcast(ct * x, y))
        ),
        "batch": batch_elementwise(np.multiply),
        "samples": [((2, 3), (2, 3)), ((2, 1), (3,))],
    }
    return Primitive("test product", **{**fields, **changes})


def right_flip(**changes) -> Primitive:
    """Declare the reversal of the first axis, linear, with a parameter."""
    fields = {
        "impl": lambda x, *, axis: np.flip(x, axis),
        "abstract_eval": lambda x, *, axis: Aval(x.shape, x.dtype),
        "jvp": lambda primals, tangents, *, axis: (flipped(primals[0], axis), flipped(tangents[0], axis)),
        "linear_in": (0,),
        "transpose": lambda ct, x, *, axis: (flipped(ct, axis),),
        "batch": lambda size, values, mapped, *, axis: flipped(values[0], axis + 1),
        "samples": [((3,), {"axis": 0}), ((2, 3), {"axis": 1})],
    }
    return Primitive("test flip", **{**fields, **changes})


def flipped(x, axis):
    return x[(slice(None),) * axis + (slice(None, None, -1),)]


WRONG = {
    # x² with one thing wrong
    "derivative": (right_square, {"jvp": lambda p, t: (p[0] * p[0], t[0] * p[0])}, "first"),
    "derivative of a derivative": (
        right_square,
        # The first derivative is right, but its factor is hidden from the outer level: a constant to it.
        {"jvp": lambda p, t: (p[0] * p[0], t[0] * (2.0 * _hidden(p[0])))},
        "second",
    ),
    "third derivative": (
        right_square,
        {"impl": lambda x: x**3, "jvp": lambda p, t: (p[0] * p[0] * p[0], t[0] * (3.0 * _square_to_first_order(p[0])))},
        "third",
    ),
    "value under jvp": (right_square, {"jvp": lambda p, t: (p[0] + p[0], t[0] * (2.0 * p[0]))}, "first"),
    "shape": (right_square, {"abstract_eval": lambda x: Aval((*x.shape, 1), x.dtype)}, "shape_rule"),
    "dtype": (right_square, {"abstract_eval": lambda x: Aval(x.shape, np.dtype("float32"))}, "shape_rule"),
    "single precision": (right_square, {"impl": lambda x: np.square(x).astype(float)}, "single_precision"),
    "the value in single precision": (
        right_square,
        {"jvp": lambda p, t: (p[0] * p[0] * np.float64(1), t[0] * 2.0 * p[0])},
        "single_precision",
    ),
    "batch reads the first lane": (
        right_square,
        {"batch": lambda size, v, m: np.broadcast_to(v[0][:1] * v[0][:1], v[0].shape)},
        "batched_value",
    ),
    "batch loses its axis": (right_square, {"batch": lambda size, v, m: np.sum(v[0] * v[0], axis=0)}, "batched_value"),
    "batch drops the tangent": (
        right_square,
        {"batch": lambda size, v, m: np.square(_hidden(v[0]))},
        "derivative_of_batched",
    ),
    "writes to its argument": (right_square, {"impl": lambda x: np.square(x, out=np.asarray(x))}, "value"),
    "declared constant": (right_square, {"jvp": None}, "no_tangent"),
    # x·y with one thing wrong
    "a dropped tangent": (
        right_product,
        {"jvp": lambda p, t: _product_jvp(p, (t[0], None) if t[0] is not None else t)},
        "first",
    ),
    "transpose": (
        right_product,
        {
            "transpose": lambda ct, x, y: (
                (unbroadcast(ct, x), None) if type(x) is Aval else (None, unbroadcast(ct * x, y))
            )
        },
        "transpose",
    ),
    "transpose that forgets to sum": (
        right_product,
        {"transpose": lambda ct, x, y: (ct * y, None) if type(x) is Aval else (None, ct * x)},
        "transpose",
    ),
    "transpose of too few": (right_product, {"transpose": lambda ct, x, y: (unbroadcast(ct * y, x),)}, "transpose"),
    "joint where it is not": (right_product, {"joint": True}, "transpose"),
    "batch of two mapped alike": (
        right_product,
        {"batch": lambda size, v, m: v[0] * v[1]},  # right only when both or equal ranks are mapped
        "batched_value",
    ),
    "strong transpose": (
        right_product,
        {
            "strong_transpose": lambda ct, x, y, live, hot: (
                (unbroadcast(-ct * y, x), None) if type(x) is Aval else (None, unbroadcast(ct * x, y))
            )
        },
        "transpose",
    ),
    # flip with one thing wrong
    "transpose of the wrong axis": (right_flip, {"transpose": lambda ct, x, *, axis: (flipped(ct, 0),)}, "transpose"),
    "batch of the wrong axis": (
        right_flip,
        {"batch": lambda size, v, m, *, axis: flipped(v[0], axis)},
        "batched_value",
    ),
    "not linear": (right_flip, {"impl": lambda x, *, axis: np.flip(x, axis) ** 2}, "linear"),
    "affine": (right_flip, {"impl": lambda x, *, axis: np.flip(x, axis) + 1.0}, "linear"),
    "jvp that forgets to flip": (right_flip, {"jvp": lambda p, t, *, axis: (flipped(p[0], axis), t[0])}, "first"),
    "tangent of another shape": (
        right_flip,
        {"jvp": lambda p, t, *, axis: (flipped(p[0], axis), flipped(t[0], axis)[None])},
        "first",
    ),
    "staged dtype": (right_flip, {"abstract_eval": lambda x, *, axis: Aval(x.shape, np.dtype(complex))}, "shape_rule"),
}


def _hidden(x):
    """Return a value without any tangent: the mistake of a rule that leaves NumPy's dispatch."""
    import dualad as da

    return da.stop_gradient(x)


def _square_to_first_order(x):
    """Return x², whose derivative is right and whose second derivative is lost."""
    return OPS["test half square"](x)


@pytest.fixture
def declared():
    """Declare operators for one test."""
    before = dict(OPS)

    def declare(make, **changes) -> Primitive:
        Primitive(
            "test half square",
            impl=np.square,
            abstract_eval=elementwise_shape(np.square),
            jvp=lambda p, t: (p[0] * p[0], t[0] * (2.0 * _hidden(p[0]))),
            batch=batch_elementwise(lambda x: x * x),
            samples=[((2, 3),)],
        )
        return make(**changes)

    yield declare
    for name in OPS.keys() - before.keys():
        del OPS[name]
    assert before == OPS


def run(op: Primitive, check: str) -> list[str]:
    """Return what the check says of every sample."""
    said = []
    for s in subjects(op):
        with np.errstate(all="ignore"):
            try:
                CHECKS[check][1](s)
            except Exception as error:
                said.append(f"{type(error).__name__}: {error}")
    return said


@pytest.mark.parametrize("make", [right_square, right_product, right_flip], ids=lambda f: f.__name__)
def test_the_right_operator_passes_every_check(make, declared) -> None:
    op = declared(make)
    for check, (applies, _) in CHECKS.items():
        if applies(op):
            assert run(op, check) == [], check


@pytest.mark.parametrize("fault", WRONG)
def test_the_wrong_operator_is_caught(fault, declared) -> None:
    make, changes, check = WRONG[fault]
    op = declared(make, **changes)
    assert run(op, check), f"{check} did not notice: {fault}"


def test_a_wrong_value_against_numpy_is_caught(declared) -> None:
    op = declared(right_square, impl=lambda x: x * 1.5)
    op.numpy = (np.square,)
    assert any("value against square" in said for said in run(op, "value"))


def test_jax_catches_a_wrong_derivative(declared) -> None:
    op = declared(right_square, **WRONG["derivative"][1])
    op.numpy = (np.square,)
    assert any("against JAX" in said for said in run(op, "jax"))
