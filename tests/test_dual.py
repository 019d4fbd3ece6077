"""Dual tensors and levels opened by hand.

Not for: the transform that uses them (`test_jvp.py`).
"""

from __future__ import annotations

import gc
import operator as operators
import threading
import weakref

import numpy as np
import pytest

import dualad as da
from dualad.core.tracer import Tracer
from dualad.errors import ArgumentError, DtypeError, EscapedTensorError, InPlaceError, ShapeError, UnsupportedError
from tests.strategies import layouts


def square(x):
    return x * x


# ── levels, packing, unpacking ───────────────────────────────────────────────────────────────────────────────────


def test_levels_count_from_zero_and_restore() -> None:
    """Nested levels have index 0, 1, 2; after exit the depth is back at its start."""
    for _ in range(2):
        with da.dual_level() as a:
            with da.dual_level() as b, da.dual_level() as c:
                assert (a.index, b.index, c.index) == (0, 1, 2)
                assert a.number < b.number < c.number
            assert not b.open and not c.open and a.open
            with da.dual_level() as again:
                assert again.index == 1
    with pytest.raises(ArgumentError, match="dual_level"):
        da.make_dual(1.0, 1.0)


def test_tangent_identity_inside_and_none_after_exit() -> None:
    """Unpacking returns the very tangent; after exit the same dual unpacks to (primal, None)."""
    p, t = np.ones(3), np.arange(3.0)
    with da.dual_level():
        x = da.make_dual(p, t)
        assert da.unpack_dual(x).tangent is t
    after = da.unpack_dual(x)
    assert after.tangent is None and np.array_equal(after.primal, p)


def test_a_new_level_is_blind_to_old_duals() -> None:
    """A new level sees no old tangent, and a new dual on the same primal gets only its own."""
    p = np.ones(2)
    with da.dual_level() as outer:
        x = da.make_dual(p, np.array([1.0, 2.0]))
        with da.dual_level() as inner:
            assert da.unpack_dual(x).tangent is None
            assert da.unpack_dual(x, outer).tangent is not None
            y = da.make_dual(p, np.array([5.0, 6.0]))
            assert np.array_equal(da.unpack_dual(y).tangent, [5.0, 6.0])
            assert da.unpack_dual(y, outer).tangent is None
            assert da.unpack_dual(y, inner).tangent is not None


def test_an_exception_closes_the_level() -> None:
    """Cleanup also when the body raises."""
    with pytest.raises(KeyError), da.dual_level() as level:
        raise KeyError("x")
    assert not level.open
    with da.dual_level() as fresh:
        assert fresh.index == 0


def test_plain_arrays_unpack_to_themselves() -> None:
    """(itself, None) for a plain array; a dual's primal equals and can't be written through."""
    p = np.ones(2)
    with da.dual_level():
        got = da.unpack_dual(p)
        assert got.primal is p and got.tangent is None
        x = da.make_dual(p, p)
        first, second = da.unpack_dual(x), da.unpack_dual(x)
        assert first.tangent is second.tangent
        assert np.array_equal(first.primal, p) and first.primal is not second.primal
        with pytest.raises(ValueError, match="read-only"):
            first.primal[0] = 5.0
        assert np.array_equal(x.primal, p) and x.tangent is p
    assert np.array_equal(p, [1.0, 1.0])


def test_nothing_is_unpacked_outside_of_any_level() -> None:
    """No level open, nothing to see."""
    assert da.unpack_dual(3.0) == (3.0, None)


# ── agreement of primal and tangent ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("p", "t"), [((2,), (3,)), ((2,), (1,)), ((2,), ()), ((), (1,)), ((2, 3), (3,))])
def test_shapes_of_primal_and_tangent_must_agree(p, t) -> None:
    """Both shapes are named; nothing is broadcast, (1,) for (2,) neither."""
    for make in (lambda: da.make_dual(np.ones(p), np.ones(t)), lambda: da.jvp(square, (np.ones(p),), (np.ones(t),))):
        with da.dual_level(), pytest.raises(ShapeError) as error:
            make()
        assert str(p) in str(error.value) and str(t) in str(error.value)
        assert isinstance(error.value, ValueError)
    if t == (3,) and p == (2,):
        with da.dual_level():  # the slice of the right length is accepted
            assert da.unpack_dual(da.make_dual(np.ones(2), np.ones(3)[:2])).tangent.shape == (2,)


@pytest.mark.parametrize(
    ("p", "t", "blamed"),
    [
        (np.ones(2), np.ones(2, np.float32), "float32"),
        (np.ones(2, np.float32), np.ones(2), "float64"),
        (np.ones(2), np.ones(2, int), "int64"),
        (np.ones(2, int), np.ones(2), "int64"),
        (np.ones(2, bool), np.ones(2), "bool"),
        (np.ones(2), np.ones(2, complex), "complex128"),
    ],
)
def test_dtypes_of_primal_and_tangent_must_agree(p, t, blamed: str) -> None:
    """TypeError; float64 with a float32 or integer tangent refused, an integer primal refused."""
    for make in (lambda: da.make_dual(p, t), lambda: da.jvp(square, (p,), (t,))):
        with da.dual_level(), pytest.raises(DtypeError, match=blamed) as error:
            make()
        assert isinstance(error.value, TypeError) and error.value.instead


def test_no_dual_of_the_same_level_as_tangent() -> None:
    """Refused at the same level, allowed when the inner dual belongs to another: that is nesting."""
    with da.dual_level():
        t = da.make_dual(1.0, 1.0)
        with pytest.raises(ArgumentError, match="itself a Dual"):
            da.make_dual(2.0, t)
        with da.dual_level():
            da.make_dual(2.0, t)
    assert da.jvp(lambda a: da.jvp(square, (3.0,), (a,))[1], (1.0,), (1.0,))[1] == 6.0


# ── lifetime ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_dual_is_the_only_owner_of_its_tangent() -> None:
    """By reference counting alone, the tangent is gone right after the dual."""
    gc.disable()
    try:
        with da.dual_level():
            t = np.ones(3)
            seen = weakref.ref(t)
            x = da.make_dual(np.zeros(3), t)
            y = x * 2.0  # holds 2t, not t
            del t
            assert seen() is not None
            del x
            assert seen() is None
            product = weakref.ref(da.unpack_dual(y).tangent)
            del y
            assert product() is None
    finally:
        gc.enable()


# ── printing ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_repr_shows_tangent_and_level() -> None:
    """The parts of a dual print as ordinary arrays; the dual says that it is one."""
    with da.dual_level() as level:
        x = da.make_dual(np.array([1.0, 2.0]), np.array([3.0, 4.0]))
        assert "tangent=" in repr(x) and f"level={level.number}" in repr(x) and "dual_level" in repr(x)
        assert "tangent" not in repr(da.unpack_dual(x).primal)
        assert "tangent=" in repr(x * 2.0)
        assert f"{da.make_dual(2.5, 1.0):.3f}" == "2.500"


def test_repr_never_raises_under_any_transform() -> None:
    """In vmap it shows shape and batch axis; in trace and linearize it shows what is known."""
    said = []

    def f(x):
        said.append(repr(x) + str(x))
        return x * 2.0

    da.vmap(f)(np.ones((4, 2)))
    assert "(2,)" in said[-1] and "batch axis 0" in said[-1] and "lanes=4" in said[-1]
    da.trace(f, np.ones((3, 2)))
    assert "f64[3,2]" in said[-1] and "trace" in said[-1]
    da.vjp(f, np.ones(2))
    da.jvp(lambda x: da.vmap(lambda y: da.grad(lambda z: f(z) * y)(y))(x), (np.ones(3),), (np.ones(3),))
    assert len(said) == 4 and all(said)


# ── switching tangents off ───────────────────────────────────────────────────────────────────────────────────────


def test_inside_no_tangents_an_operation_returns_its_primal() -> None:
    """Inside, an operation on a Dual returns its primal; restored afterwards, also when the body raises."""
    with da.dual_level():
        x = da.make_dual(2.0, 1.0)
        with da.no_tangents():
            assert da.unpack_dual(x * x).tangent is None
        assert da.unpack_dual(x * x).tangent == 4.0


# ── memory layout ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("of_tangent", layouts)
@pytest.mark.parametrize("of_primal", layouts)
def test_memory_order_does_not_matter(of_primal: str, of_tangent: str, rng) -> None:
    """Every pairing of memory orders gives the same numbers, and neither array is written to."""
    base, direction = rng.normal(size=(2, 3)), rng.normal(size=(2, 3))
    p, t = layouts[of_primal](base), layouts[of_tangent](direction)

    def f(x):
        return np.sum(np.sin(x[:, ::-1].T.reshape(-1)) * x.ravel())

    expected = da.jvp(f, (base,), (direction,))
    assert da.jvp(f, (p,), (t,)) == pytest.approx(expected, rel=1e-13)
    np.testing.assert_allclose(da.grad(f)(p), da.grad(f)(base), rtol=1e-13)
    assert np.array_equal(p, base) and np.array_equal(t, direction)


def test_broadcast_and_empty_primals_and_tangents_are_differentiated() -> None:
    """Stride-0 and zero-size primals and tangents."""
    p, t = np.broadcast_to(np.array(2.0), (3,)), np.broadcast_to(np.array([1.0]), (3,))
    value, tangent = da.jvp(lambda x: x * x, (p,), (t,))
    assert np.array_equal(value, [4.0] * 3) and np.array_equal(tangent, [4.0] * 3)
    np.testing.assert_array_equal(da.vjp(lambda x: x * x, p)[1](t)[0], [4.0] * 3)
    value, tangent = da.jvp(lambda x: np.sum(x * x), (np.ones((0, 3)),), (np.ones((0, 3)),))
    assert value == 0.0 and tangent == 0.0
    assert da.grad(lambda x: np.sum(x * x))(np.ones((0, 3))).shape == (0, 3)


# ── results without a tangent, and refusals ──────────────────────────────────────────────────────────────────────


def test_comparisons_are_plain_booleans() -> None:
    """At the bottom, questions with a numeric answer are plain arrays that index, branch and loop."""

    def f(x):
        mask = x > 1.0
        for plain in (mask, np.signbit(x), np.isin(x, [1.0, 2.0])):
            assert type(plain) is np.ndarray and not isinstance(plain, Tracer) and plain.dtype == bool
        assert isinstance(np.argmax(x), (int, np.integer))
        assert x[mask].shape == (2,)
        return x[np.argmax(x)]

    assert da.jvp(f, (np.array([1.0, 3.0, 2.0]),), (np.array([1.0, 10.0, 100.0]),)) == (3.0, 10.0)


@pytest.mark.parametrize("f", [np.signbit, np.argmax, np.isfinite, lambda x: x > 1, lambda x: np.isin(x, [1.0])])
def test_the_tangent_of_a_comparison_is_float0(f) -> None:
    """A tangent that can't exist is shown as float0; floor_divide keeps its dtype and has zeros."""
    value, tangent = da.jvp(f, (np.array([1.0, 2.0]),), (np.ones(2),))
    assert tangent.dtype == da.float0 and tangent.shape == np.shape(value)
    value, tangent = da.jvp(lambda x: x // 0.4, (np.array([1.0, 2.1]),), (np.ones(2),))
    assert np.array_equal(value, [2.0, 5.0]) and np.array_equal(tangent, [0.0, 0.0])


def test_a_plain_target_of_a_traced_result_is_refused() -> None:
    """TypeError naming out=, and the target is unchanged."""
    target = np.full(2, 7.0)
    for call in (
        lambda x: np.add(x, 1.0, out=target),
        lambda x: np.sin(x, out=target),
        lambda x: np.sum(x, out=target[0:1].reshape(())),
    ):
        with pytest.raises(InPlaceError, match="out=") as error:
            da.jvp(call, (np.ones(2),), (np.ones(2),))
        assert isinstance(error.value, TypeError)
    assert np.array_equal(target, [7.0, 7.0])


def test_a_missing_rule_is_refused_by_name() -> None:
    """NotImplementedError naming the operator, never the primal alone."""
    with pytest.raises(NotImplementedError, match="nextafter"):
        da.jvp(lambda x: np.nextafter(x, 2.0), (1.0,), (1.0,))
    unknown = pytest.importorskip("scipy.special")._ufuncs._cospi
    with pytest.raises((UnsupportedError, TypeError)):
        da.jvp(unknown, (1.0,), (1.0,))
    with pytest.raises((UnsupportedError, TypeError)):
        da.jvp(unknown, (np.ones(2),), (np.ones(2),))


def test_matrix_and_masked_arrays_are_refused() -> None:
    """Their arithmetic differs; TypeError."""
    with pytest.warns(PendingDeprecationWarning):
        matrix = np.matrix([[1.0, 2.0]])
    for x in (matrix, np.ma.masked_array([1.0, 2.0], mask=[0, 1])):
        for transform in (lambda v: da.jvp(square, (v,), (np.ones(v.shape),)), lambda v: da.vjp(square, v),
                          lambda v: da.vmap(square)(v), lambda v: da.trace(square, v)):  # fmt: skip
            with pytest.raises(TypeError, match=type(x).__name__):
                transform(x)


def test_other_subclasses_are_viewed_as_arrays() -> None:
    """A subclass without arithmetic of its own computes as an ndarray."""

    class Named(np.ndarray):
        pass

    x = np.array([1.0, 2.0]).view(Named)
    value, tangent = da.jvp(square, (x,), (np.ones(2),))
    assert type(value) is np.ndarray and np.array_equal(tangent, [2.0, 4.0])
    assert np.array_equal(da.vjp(square, x)[1](np.ones(2))[0], [2.0, 4.0])


def test_vmap_over_tangents_equals_the_loop() -> None:
    """Equals the loop; the identity returns the tangents themselves."""
    x, T = np.linspace(0.1, 1.6, 16).reshape(4, 4), np.random.default_rng(0).normal(size=(5, 4, 4))
    for f in (np.sin, lambda v: v + v, lambda v: v):
        got = da.vmap(lambda t, f=f: da.jvp(f, (x,), (t,))[1])(T)
        np.testing.assert_allclose(got, np.stack([da.jvp(f, (x,), (t,))[1] for t in T]), rtol=1e-14)
    np.testing.assert_array_equal(got, T)

    def packed(t):
        with da.dual_level():
            return da.unpack_dual(da.make_dual(x, t)).tangent

    np.testing.assert_array_equal(da.vmap(packed)(T), T)


def test_duals_of_a_closed_level_refuse_arithmetic() -> None:
    with da.dual_level():
        x = da.make_dual(1.0, 1.0)
    with pytest.raises(EscapedTensorError, match="dual_level"):
        x + 1.0


def test_levels_of_threads_are_their_own() -> None:
    """A level opened in one thread is not the innermost one of another."""
    said = []

    def other():
        try:
            da.make_dual(1.0, 1.0)
        except ArgumentError:
            said.append("none open here")

    with da.dual_level():
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert said == ["none open here"]


def test_dual_attributes_are_read_only() -> None:
    with da.dual_level():
        x = da.make_dual(1.0, 1.0)
        for name in ("primal", "tangent", "shape", "dtype"):
            with pytest.raises(AttributeError):
                setattr(x, name, 2.0)


@pytest.mark.parametrize("number", [2.0, -0.5, 0.0, np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("write", [
    lambda x, c: x + c, lambda x, c: c + x, lambda x, c: x - c, lambda x, c: c - x, lambda x, c: x * c,
    lambda x, c: c * x, lambda x, c: x / c, lambda x, c: c / x,
], ids=["x+c", "c+x", "x-c", "c-x", "x*c", "c*x", "x/c", "c/x"])  # fmt: skip
def test_a_python_float_does_what_the_operators_rule_says(write, number) -> None:
    """The quick way of `x * 2.0` and the rule, which a NumPy number takes, are one: values, tangents, dtypes, zeros."""
    x, t = np.array([1.5, 0.0, -2.0], np.float32), np.array([1.0, 0.0, 3.0], np.float32)
    with np.errstate(all="ignore"):
        for v, d in ((x, t), (x[0], t[0]), (x.astype(complex), t.astype(complex)), (0.75, 1.0), (x, 0 * t)):
            found = da.jvp(lambda x: write(x, number), (v,), (d,))
            with da.debug(nan=False):  # somebody watches: the rule itself
                expected = da.jvp(lambda x: write(x, number), (v,), (d,))
            for a, b in zip(found, expected, strict=True):
                np.testing.assert_array_equal(a, b)
                assert np.asarray(a).dtype == np.asarray(b).dtype
            pulled = da.vjp(lambda x: write(x, number), v)[1](expected[0])[0]
            with da.debug(nan=False):
                wanted = da.vjp(lambda x: write(x, number), v)[1](expected[0])[0]
            np.testing.assert_array_equal(pulled, wanted)


@pytest.mark.parametrize("operator", ["add", "sub", "mul", "truediv"])
def test_scalars_beside_numpys_are_as_arrays_beside_arrays(operator):
    """The spelled-out operators against the rules: signs of zeros, infinities and NaN too."""
    f = getattr(operators, operator)
    special = [0.0, -0.0, 1.5, -2.0, np.inf, -np.inf, np.nan, 1e308, 1e-320]
    with np.errstate(all="ignore"):
        for x in special:
            for y in special:
                for t in (1.0, 0.0, -3.0):
                    found = da.jvp(lambda a, y=y: f(a, np.float64(y)), (np.float64(x),), (np.float64(t),))
                    rule = da.jvp(lambda a, y=y: f(a, np.array([y])), (np.array([x]),), (np.array([t]),))
                    np.testing.assert_array_equal(found, np.ravel(rule), err_msg=f"{x}, {y}, {t}")
                    np.testing.assert_array_equal(np.signbit(found), np.signbit(np.ravel(rule)))
    assert da.jvp(lambda a: f(a, np.float64(2)), (np.ones(2, np.float32),), (np.ones(2, np.float32),))[1].dtype == float
