"""The forward-mode transform, `stop_gradient`, and the errors of bad calls.

Not for: Dual tensors themselves (`test_dual.py`) or operators.
"""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dualad as da
from dualad.errors import (
    ArgumentTypeError,
    ConversionError,
    DtypeError,
    OutputError,
    PlainBufferError,
    ShapeError,
    TreeError,
    UnsupportedError,
)  # fmt: skip
from tests.strategies import arrays, shapes, trees


def square(x):
    return x * x


# ── the contract ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_jvp_returns_value_and_tangent_with_the_structure_of_the_output() -> None:
    f = lambda x, y: {"sum": x + y, "pair": (x * y, [x])}
    value, tangent = da.jvp(f, (2.0, 3.0), (1.0, 10.0))
    assert value == {"sum": 5.0, "pair": (6.0, [2.0])}
    assert tangent == {"sum": 11.0, "pair": (23.0, [1.0])}


def test_scalars_of_every_kind_are_differentiated() -> None:
    """Python floats, 0-d arrays and NumPy scalars."""
    for x in (3.0, np.float64(3.0), np.array(3.0)):
        value, tangent = da.jvp(square, (x,), (1.0,))
        assert value == 9.0 and tangent == 6.0 and np.shape(tangent) == ()


def test_an_output_that_does_not_depend_on_the_input_has_zeros() -> None:
    """Zeros of its shape and dtype; float0 for integers."""
    value, tangent = da.jvp(lambda x: (np.ones(2, np.float32), 3, np.array([True])), (1.0,), (1.0,))
    assert np.array_equal(tangent[0], [0.0, 0.0]) and tangent[0].dtype == np.float32
    assert tangent[1].dtype == da.float0 and tangent[2].dtype == da.float0 and tangent[2].shape == (1,)
    assert value[1] == 3


def test_jvp_is_differentiable_in_input_and_tangent() -> None:
    """Jvp of jvp in both of its arguments."""
    inner = lambda x, t: da.jvp(np.sin, (x,), (t,))[1]
    x, t = 0.3, 0.7
    _, tangent = da.jvp(inner, (x, t), (1.0, 10.0))
    assert tangent == pytest.approx(-np.sin(x) * t + 10 * np.cos(x), rel=1e-14)


@pytest.mark.parametrize("bad", [np.ones(2), 3.0, {"a": 1.0}, "xy", None])
def test_primals_and_tangents_are_tuples_or_lists(bad) -> None:
    """TypeError, and the remedy."""
    for args in ((bad, (1.0,)), ((1.0,), bad)):
        with pytest.raises(ArgumentTypeError, match="for a function of one argument"):
            da.jvp(square, *args)
    assert da.jvp(square, [3.0], [1.0]) == (9.0, 6.0)


@pytest.mark.parametrize(
    ("primals", "tangents"),
    [
        ((1.0, 2.0), (1.0,)),
        (((1.0, 2.0),), ([1.0, 2.0],)),
        (({"a": 1.0},), ({"b": 1.0},)),
        ((1.0,), ((1.0,),)),
        (([1.0, 2.0],), ([1.0],)),
    ],
)
def test_trees_of_primals_and_tangents_must_agree(primals, tangents) -> None:
    """TypeError that shows both structures."""
    with pytest.raises(TreeError) as error:
        da.jvp(lambda *a: 0.0, primals, tangents)
    assert isinstance(error.value, TypeError)
    assert "primals:" in str(error.value) and "tangents:" in str(error.value) and error.value.instead


def test_the_offending_leaf_is_named() -> None:
    """The message says which leaf, as it is reached."""
    x = {"w": [np.ones(2), np.ones(3)]}
    with pytest.raises(ShapeError, match=r"tangents\[0\]\['w'\]\[1\]"):
        da.jvp(lambda p: p["w"][0], (x,), ({"w": [np.ones(2), np.ones(2)]},))


@pytest.mark.parametrize("bad", ["text", object(), {1, 2}, np.array(["a"]), b"x", len])
def test_outputs_that_are_no_numbers_are_refused(bad) -> None:
    """Strings in outputs; TypeError naming where."""
    for transform in (
        lambda f: da.jvp(f, (1.0,), (1.0,)),
        lambda f: da.vjp(f, 1.0),
        lambda f: da.trace(f, 1.0),
        lambda f: da.linearize(f, 1.0),
        lambda f: da.jacfwd(f)(1.0),
        lambda f: da.jacrev(f)(1.0),
    ):
        with pytest.raises(OutputError, match="output") as error:
            transform(lambda x: {"value": x, "label": bad})
        assert "label" in str(error.value) and isinstance(error.value, TypeError)


# ── inputs that do not move ──────────────────────────────────────────────────────────────────────────────────────


def test_none_is_a_zero_tangent() -> None:
    """Equality with closing over the argument."""
    f = lambda a, b: np.sin(a) * b
    a, b, t = 0.3, np.array([1.0, 2.0]), np.array([1.0, -1.0])
    expected = da.jvp(lambda v: f(a, v), (b,), (t,))
    for got in (da.jvp(f, (a, b), (None, t)), da.jvp(f, (a, b), (0.0, t)), da.jvp(functools.partial(f, a), (b,), (t,))):
        np.testing.assert_array_equal(got[0], expected[0])
        np.testing.assert_allclose(got[1], expected[1], rtol=1e-15)


@pytest.mark.parametrize("tangent", [None, 0, 0.0, np.zeros((), da.float0)])
def test_integers_carry_no_tangent_and_need_no_ceremony(tangent) -> None:
    """None, zeros or float0."""
    assert da.jvp(lambda x, n: x**n, (2.0, 3), (1.0, tangent)) == (8.0, 12.0)


def test_a_moving_integer_is_refused() -> None:
    """An integer primal with a tangent that is not zero."""
    with pytest.raises(DtypeError, match="int"):
        da.jvp(lambda x, n: x**n, (2.0, 3), (1.0, 1.0))


def test_static_leaves_pass_through() -> None:
    """Strings and callables among the arguments are static."""
    f = lambda x, how, g: g(x) if how == "apply" else x
    assert da.jvp(f, (2.0, "apply", square), (1.0, None, None)) == (4.0, 4.0)
    assert da.vjp(f, 2.0, "apply", square)[1](1.0)[0] == 4.0


# ── copies and casts ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.longdouble])
def test_casts_keep_the_tangent(dtype) -> None:
    """Astype to every floating dtype keeps tracking, and the result's dtype."""
    value, tangent = da.jvp(lambda x: x.astype(dtype) * 2, (np.array([1.5, 2.5]),), (np.array([1.0, -1.0]),))
    assert value.dtype == dtype and tangent.dtype == dtype
    np.testing.assert_array_equal(tangent, [2.0, -2.0])


def test_copies_and_broadcasts_keep_the_tangent() -> None:
    """A 3×3 value copied into 1×3×3, and other views."""
    x, t = np.arange(9.0).reshape(3, 3), np.eye(3)
    for f in (
        lambda v: np.broadcast_to(v, (1, 3, 3)),
        lambda v: v[None],
        lambda v: v.copy()[None],
        lambda v: np.stack([v]),
    ):
        value, tangent = da.jvp(f, (x,), (t,))
        np.testing.assert_array_equal(value, x[None])
        np.testing.assert_array_equal(tangent, t[None])


# ── aux and stop_gradient ────────────────────────────────────────────────────────────────────────────────────────


def test_aux_is_handed_through() -> None:
    value, tangent, aux = da.jvp(lambda x: (x * x, {"x": x, "n": 3, "s": "text"}), (3.0,), (1.0,), has_aux=True)
    assert (value, tangent, aux) == (9.0, 6.0, {"x": 3.0, "n": 3, "s": "text"})
    with pytest.raises(OutputError, match="has_aux"):
        da.jvp(square, (3.0,), (1.0,), has_aux=True)


def test_stop_gradient_passes_values_and_no_tangents() -> None:
    """(9, 3) for stop_gradient(v)·v; gradient of x + stop(2x) is 1; all levels; ints and None pass."""
    assert da.jvp(lambda v: da.stop_gradient(v) * v, (3.0,), (1.0,)) == (9.0, 3.0)
    assert da.grad(lambda x: x + da.stop_gradient(2 * x))(5.0) == 1.0
    assert da.grad(da.grad(lambda x: da.stop_gradient(x) ** 2 * x))(2.0) == 0.0
    assert da.jvp(lambda x: da.grad(lambda y: da.stop_gradient(x * y) * y)(1.0), (3.0,), (1.0,)) == (3.0, 0.0)
    tree = {"a": 3, "b": None, "c": ("text", np.ones(2))}
    got = da.stop_gradient(tree)
    assert got["a"] == 3 and got["b"] is None and got["c"][0] == "text"
    np.testing.assert_array_equal(da.vmap(lambda x: da.stop_gradient(x) * x)(np.arange(3.0)), np.arange(3.0) ** 2)


@pytest.mark.plain
def test_asarray_with_a_dtype_recommends_stop_gradient() -> None:
    """Conversion to a plain array would drop the tangent."""
    with pytest.raises(PlainBufferError, match="stop_gradient"):
        da.jvp(lambda x: np.asarray(x, dtype=float) * 2, (np.ones(2),), (np.ones(2),))


# ── the list of bad input ────────────────────────────────────────────────────────────────────────────────

TRANSFORMS = {
    "jvp": lambda f, x: da.jvp(f, (x,), (np.ones_like(x),)),
    "vjp": lambda f, x: da.vjp(f, x),
    "vmap": lambda f, x: da.vmap(f)(np.stack([x, x])),
    "trace": lambda f, x: da.trace(f, x),
    "linearize": lambda f, x: da.linearize(f, x),
    "jacfwd": lambda f, x: da.jacfwd(f)(x),
    "jacrev": lambda f, x: da.jacrev(f)(x),
}


def fill_buffer(x):
    out = np.zeros(3)
    for i in range(3):
        out[i] = x * i
    return out


def fill_slice(x):
    out = np.zeros(3)
    out[:] = x
    return out


BAD = {
    "float": (lambda x: float(x), ConversionError, "np.sin|keep the tensor"),
    "complex": (lambda x: complex(x), ConversionError, "0j"),
    "math.sin": (math.sin, ConversionError, "np.sin"),
    "a plain buffer": (fill_buffer, (PlainBufferError, ConversionError), "zeros_like"),
    "a slice of a plain buffer": (fill_slice, (PlainBufferError, ConversionError), "zeros_like"),
    "asarray with a dtype": (lambda x: np.asarray(x, float), PlainBufferError, "astype|stop_gradient"),
    "np.float64": (lambda x: np.float64(x), (ConversionError, PlainBufferError), "keep|astype"),
}


#: questions with one numeric answer per lane: under vmap they split the lanes (test_vmap_branches.py)
SPLIT = {"float", "complex", "math.sin"}


@pytest.mark.plain
@pytest.mark.parametrize(("name", "bad"), [(n, b) for b in BAD for n in TRANSFORMS if not (n == "vmap" and b in SPLIT)])
def test_code_that_would_drop_the_derivative_is_refused(name: str, bad: str) -> None:
    """Issue, bad input: float(x), math.sin(x), a plain array written with a traced value: words, no wrong number."""
    f, errors, remedy = BAD[bad]
    with pytest.raises(errors) as error:
        TRANSFORMS[name](f, np.float64(1.5))
    assert isinstance(error.value, TypeError)
    assert error.value.what and error.value.why and error.value.instead
    assert any(word in error.value.instead for word in remedy.split("|")), error.value.instead


@pytest.mark.plain
def test_the_user_s_line_is_named_for_a_plain_buffer() -> None:
    """NumPy wraps our refusal in its own ValueError; it comes out as ours, chained, with the line."""
    with pytest.raises(PlainBufferError, match=r"out\[i\] = x \* i|out\[:\] = x") as error:
        da.jvp(fill_slice, (1.5,), (1.0,))
    assert "test_jvp.py" in str(error.value)


@pytest.mark.parametrize("name", TRANSFORMS)
def test_a_numpy_function_that_is_not_covered_is_refused(name: str, tmp_path) -> None:
    """Issue, bad input: NotImplementedError with the function's name, under every transform."""
    with pytest.raises(UnsupportedError, match="save") as error:
        TRANSFORMS[name](lambda x: np.save(tmp_path / "x.npy", x) or x, np.ones(2))
    assert isinstance(error.value, NotImplementedError) and error.value.why and error.value.instead
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "x", [np.array(["a", "b"]), np.array([{}, None], object), np.array(["2020-01-01"], "datetime64[D]")]
)
def test_arrays_that_hold_no_numbers_are_refused(x) -> None:
    for transform in (lambda v: da.jvp(square, (v,), (v,)), lambda v: da.vjp(square, v), lambda v: da.vmap(square)(v),
                      lambda v: da.trace(square, v)):  # fmt: skip
        with pytest.raises((DtypeError, ArgumentTypeError)):
            transform(x)


# ── properties ───────────────────────────────────────────────────────────────────────────────────────────────────


@given(data=st.data())
def test_linear_in_the_tangent(data) -> None:
    """jvp(f, x, a·s + b·t) = a·jvp(s) + b·jvp(t), on trees of any shapes."""
    tree = data.draw(trees(shapes(max_ndim=2, max_side=2).flatmap(arrays)))
    leaves, treedef = da.tree.flatten(tree)
    rng = np.random.default_rng(data.draw(st.integers(0, 100)))
    s, t = ([np.asarray(rng.normal(size=x.shape)) for x in leaves] for _ in range(2))

    def f(p):
        return [np.tanh(x) * 2 for x in da.tree.flatten(p)[0]]

    def push(ts):
        import optree

        return da.jvp(f, (tree,), (optree.tree_unflatten(treedef, ts),))[1]

    both = push([2 * a - 3 * b for a, b in zip(s, t, strict=True)])
    for x, y, z in zip(both, push(s), push(t), strict=True):
        np.testing.assert_allclose(x, 2 * y - 3 * z, atol=1e-12)
