"""Reverse mode: gradients, pullbacks, second derivatives, and transposes of linear functions.

Not for: operators' transposes (`tests/ops/test_every_op.py`), whole Jacobians (`test_jacobian.py`), or what a pullback
keeps in memory (`test_linearize.py`).
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import dualad as da
from dualad.errors import (
    ArgumentError,
    ArgumentTypeError,
    DtypeError,
    NotLinearError,
    OutputError,
    ShapeError,
    TreeError,
)
from tests.oracles import differences
from tests.oracles.arrays import pairing


def square(x):
    return x * x


# ── products and several roots ───────────────────────────────────────────────────────────────────────────────────


def test_gradients_equal_closed_forms() -> None:
    """X² + yx + y² has the gradient (2x + y, x + 2y)."""
    f = lambda x, y: x**2 + y * x + y**2
    assert da.grad(f, (0, 1))(3.0, 5.0) == (11.0, 13.0)
    # and a combination of those gradients differentiates to 5 and 4: ∂(2 gₓ + g_y) = (4+1, 2+2)
    g = lambda x, y: (lambda p: 2 * p[0] + p[1])(da.grad(f, (0, 1))(x, y))
    assert da.grad(g, (0, 1))(3.0, 5.0) == (5.0, 4.0)


def test_reused_nodes_receive_the_sum() -> None:
    """A graph in which one cotangent is waiting in three places gives exactly 34 and 17."""

    def f(x, y):
        a, b, c = x + 2, y + 2, x + 2
        together = a + b + c
        for _ in range(4):
            a, b, c = a * 2, b * 2, c * 2
        return together + (a + b + c)  # x: 16 + 16 + 2, y: 16 + 1

    _, pull = da.vjp(f, np.ones((5, 5)), np.ones((5, 5)))
    x, y = pull(np.ones((5, 5)))
    assert (x == 34.0).all() and (y == 17.0).all()


def test_gradients_of_an_expression_with_division() -> None:
    """(x/y + y/x)·x − 3/y has ∂x = 2x/y and ∂y = −x²/y² + 1 + 3/y²."""
    division = lambda x, y: (x / y + y / x) * x - 3 / y
    assert da.grad(division, (0, 1))(2.0, 4.0) == pytest.approx((1.0, -0.25 + 1 + 3 / 16), rel=1e-15)


def test_an_argmax_branch_contributes_nothing() -> None:
    f = lambda x: np.sum(x * 2) + np.argmax(x) * 10.0
    assert da.grad(f)(np.array([1.0, 3.0, 2.0])).tolist() == [2.0, 2.0, 2.0]


@pytest.mark.parametrize("ct", [np.ones(3), np.ones((2, 1)), 1.0, np.ones((1, 2))])
def test_a_cotangent_of_the_wrong_shape_is_refused(ct) -> None:
    """ValueError that names both shapes and explains the batched reading."""
    _, pull = da.vjp(square, np.ones(2))
    with pytest.raises(ShapeError) as error:
        pull(ct)
    assert str(np.shape(ct)) in str(error.value) and "(2,)" in str(error.value) and "vmap(pull)" in error.value.instead
    assert isinstance(error.value, ValueError)


@pytest.mark.parametrize("ct", [np.ones(2, np.float32), np.ones(2, int), np.ones(2, complex)])
def test_a_cotangent_of_the_wrong_dtype_is_refused(ct) -> None:
    with pytest.raises(DtypeError, match=str(ct.dtype)):
        da.vjp(square, np.ones(2))[1](ct)


def test_a_cotangent_of_the_wrong_structure_is_refused() -> None:
    """Both structures are shown."""
    _, pull = da.vjp(lambda x: {"a": x, "b": (x, x)}, 1.0)
    for ct in ({"a": 1.0}, (1.0, 1.0), {"a": 1.0, "b": (1.0,)}, 1.0, {"a": (1.0,), "b": (1.0, 1.0)}):
        with pytest.raises(TreeError, match="cotangent"):
            pull(ct)
    assert pull({"a": 1.0, "b": (1.0, None)}) == (2.0,)


def test_cotangents_of_several_repeated_and_dependent_outputs_add() -> None:
    """Cotangents of several outputs add; y and z = f(y) together give 2x·gy + 6x⁵·gz."""
    _, pull = da.vjp(lambda x: (x**2, (x**2) ** 3), 2.0)
    assert pull((1.0, 10.0)) == (2 * 2.0 * 1 + 6 * 2.0**5 * 10,)
    _, pull = da.vjp(lambda x: (lambda y: (y, y))(x * 3), 1.0)
    assert pull((1.0, 1.0)) == (6.0,)


def test_a_constant_output_accepts_a_cotangent() -> None:
    """It contributes zeros."""
    _, pull = da.vjp(lambda x: (x * 2, 5.0, np.ones(3), 7), 1.0)
    assert pull((1.0, 100.0, np.ones(3), None)) == (2.0,)


def test_two_stages_equal_the_direct_product() -> None:
    """Pull₂ ∘ pull₁; the tail alone gives 1, the chain gives 2."""
    head, tail = lambda x: np.sin(x) * x, lambda y: np.sum(y**3)
    x = np.array([0.3, 0.5])
    y, pull_head = da.vjp(head, x)
    _, pull_tail = da.vjp(tail, y)
    np.testing.assert_allclose(pull_head(pull_tail(1.0)[0])[0], da.grad(lambda v: tail(head(v)))(x), rtol=1e-14)
    doubled, outer = da.vjp(lambda v: v * 2.0, 3.0)
    _, inner = da.vjp(lambda v: v + 1.0, doubled)
    assert inner(1.0) == (1.0,) and outer(inner(1.0)[0]) == (2.0,)


def test_cotangents_given_in_shards_add_to_the_whole() -> None:
    """Intermediates in shards of 2 out of 10; Σ l i² (1 + l)-style weights come out exactly."""
    leaves = np.arange(10.0)
    intermediate = lambda v: v * np.arange(10.0)
    loss = lambda v: np.sum(v * np.arange(10.0) * (1 + np.arange(10.0)))
    value, pull = da.vjp(intermediate, leaves)
    total = np.zeros(10)
    full = da.grad(loss)(value)
    for k in range(0, 10, 2):
        ct = np.zeros(10)
        ct[k : k + 2] = full[k : k + 2]
        total += pull(ct)[0]
    np.testing.assert_array_equal(total, np.arange(10.0) ** 2 * (1 + np.arange(10.0)))


# ── which inputs ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_argnums_choose_arguments_in_their_order() -> None:
    """Int, negative, tuple; in the order asked for."""
    f = lambda a, b, c: a * b**2 * c**3
    assert da.grad(f)(1.0, 2.0, 3.0) == 4 * 27.0
    assert da.grad(f, 1)(1.0, 2.0, 3.0) == 4 * 27.0
    assert da.grad(f, -1)(1.0, 2.0, 3.0) == 4 * 27.0
    assert da.grad(f, (2, 0))(1.0, 2.0, 3.0) == (4 * 27.0, 4 * 27.0)
    assert da.grad(f, argnums=(1,))(1.0, 2.0, 3.0) == (4 * 27.0,)


def test_argnames_choose_keyword_arguments() -> None:
    """Keyword arguments by name; with argnums both."""
    f = lambda a, *, b, c: a * b * c
    assert da.grad(f, argnames="b")(2.0, b=3.0, c=5.0) == 10.0
    assert da.grad(f, argnames=("b", "c"))(2.0, b=3.0, c=5.0) == {"b": 10.0, "c": 6.0}
    assert da.grad(f, argnums=0, argnames="c")(2.0, b=3.0, c=5.0) == (15.0, 6.0)
    with pytest.raises(ArgumentError, match="argnames"):
        da.grad(f, argnames="z")(2.0, b=3.0, c=5.0)


@pytest.mark.parametrize(
    ("argnums", "error"),
    [
        ((), ArgumentError),
        ([], ArgumentError),
        (3, ArgumentTypeError),
        (-4, ArgumentTypeError),
        ((0, 5), ArgumentTypeError),
        (1.0, ArgumentTypeError),
        ("x", ArgumentTypeError),
        (True, ArgumentTypeError),
        ((0, 0), ArgumentError),
        ((0, -3), ArgumentError),
    ],
)
def test_bad_argnums_are_refused(argnums, error) -> None:
    """An empty list is a ValueError with a message of its own; out of range TypeError."""
    for transform in (da.grad, da.value_and_grad, da.jacfwd, da.jacrev):
        with pytest.raises(error) as raised:
            transform(lambda a, b, c: a * b * c, argnums)(1.0, 2.0, 3.0)
        assert issubclass(error, ValueError if error is ArgumentError else TypeError)
        assert transform.__name__ in str(raised.value)


def test_gradient_ascent_increases_the_value() -> None:
    """Five steps of 0.05."""
    f = lambda x: -np.sum((x - 1.0) ** 4)
    x, values = np.array([3.0, -1.0]) / 2, []
    for _ in range(5):
        value, g = da.value_and_grad(f)(x)
        values.append(value)
        x = x + 0.05 * g
    assert values == sorted(values) and values[0] < values[-1]


def test_an_unused_input_has_zeros_of_its_shape_and_dtype() -> None:
    """Also empty ones; broadcasting (4,0) + (4,1) gives zeros (4,1) and an empty (4,0)."""
    grads = da.grad(lambda a, b, c: np.sum(a), (0, 1, 2))(np.ones(2), np.ones((3, 1), np.float32), 2.0)
    assert np.array_equal(grads[1], np.zeros((3, 1))) and grads[1].dtype == np.float32
    assert grads[2] == 0.0 and np.shape(grads[2]) == ()
    empty, one = da.grad(lambda a, b: np.sum(a + b), (0, 1))(np.ones((4, 0)), np.ones((4, 1)))
    assert empty.shape == (4, 0) and np.array_equal(one, np.zeros((4, 1)))


def test_higher_derivatives_of_a_linear_use_are_zero() -> None:
    """Second and third."""
    f = lambda x: 3.0 * x
    assert da.grad(f)(2.0) == 3.0 and da.grad(da.grad(f))(2.0) == 0.0 and da.grad(da.grad(da.grad(f)))(2.0) == 0.0
    assert da.grad(lambda x: np.split(x, 2)[0].sum())(np.arange(4.0)).tolist() == [1.0, 1.0, 0.0, 0.0]


def _raising(log):
    @da.custom_vjp
    def f(x):
        return x * 2.0

    def bwd(residuals, ct):
        log.append("ran")
        raise RuntimeError("this branch was not needed")

    f.defvjp(lambda x: (x * 2.0, ()), bwd)
    return f


def test_a_branch_that_nobody_asks_for_is_pruned() -> None:
    """Its pullback does not run with argnums=0, and its error surfaces with argnums=1."""
    log: list = []
    h = _raising(log)
    f = lambda a, b: a * 3.0 + h(b)
    assert da.grad(f, 0)(1.0, 2.0) == 3.0 and not log
    with pytest.raises(RuntimeError, match="not needed"):
        da.grad(f, 1)(1.0, 2.0)
    assert log
    log.clear()
    assert da.grad(lambda a, b: (h(b), a * 3.0)[1], (0, 1))(1.0, 2.0) == (3.0, 0.0) and not log


@pytest.mark.parametrize("shape", [(1,), (1, 1), (1, 1, 1)])
def test_an_array_with_one_entry_counts_as_the_entry(shape) -> None:
    scalar = lambda x: np.sum(np.sin(x) * x[0])
    f = lambda x: np.reshape(scalar(x), shape)
    x, v = np.array([0.5, -1.0, 2.0]), np.array([1.0, 0.5, -2.0])
    same = np.testing.assert_array_equal
    same(da.grad(f)(x), da.grad(scalar)(x))
    same(da.jit(da.grad(f))(x), da.jit(da.grad(scalar))(x))
    same(da.vmap(da.grad(f))(np.stack([x, v])), da.vmap(da.grad(scalar))(np.stack([x, v])))
    same(da.hvp(f, x, v), da.hvp(scalar, x, v))
    same(da.hessian_diag(f)(x), da.hessian_diag(scalar)(x))
    same(da.grad(lambda x: np.sum(da.grad(f)(x) ** 2))(x), da.grad(lambda x: np.sum(da.grad(scalar)(x) ** 2))(x))
    (value, aux), slope = da.value_and_grad(lambda x: (f(x), "aux"), has_aux=True)(x)
    assert value.shape == shape and aux == "aux"
    same(slope, da.grad(scalar)(x))
    value, second = da.value_and_hessian(f)(x)
    assert value.shape == shape and second.shape == (*shape, 3, 3)
    same(second.reshape(3, 3), da.hessian(scalar)(x))
    same(da.hessian(lambda t: f(t["a"]))({"a": x, "b": "text"})["a"]["a"], second)
    z = x + 0.5j
    same(da.grad(f, holomorphic=True)(z), da.grad(scalar, holomorphic=True)(z))


# ── bad calls ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("f", "said"),
    [
        (lambda x: np.array([1.0, 2.0]) * x, r"shape \(2,\)"),
        (lambda x: np.zeros((1, 0)) * x, r"shape \(1, 0\)"),
        (lambda x: np.ones((2, 2)) * x, r"shape \(2, 2\)"),
        (lambda x: 3, "int64"),
        (lambda x: x > 2, "bool"),
        (lambda x: x + 1j, "complex"),
        (lambda x: None, "no return"),
        (lambda x: (x, x), "tuple"),
        (lambda x: {"a": x}, "dict"),
        (lambda x: "text", "text"),
    ],
)
def test_grad_needs_one_real_number(f, said: str) -> None:
    """TypeError, each with its own text."""
    many = said.startswith("shape") or said in ("tuple", "dict")  # which have a Hessian: one of every entry
    for transform in (da.grad, da.value_and_grad, *[da.hessian] * (not many)):
        with pytest.raises(OutputError, match=said) as error:
            transform(f)(1.0)
        assert isinstance(error.value, TypeError) and error.value.why


@pytest.mark.parametrize("x", [3, True, np.arange(3), np.array([True]), {"a": [1.0, 2]}])
def test_grad_of_an_integer_is_refused(x) -> None:
    """TypeError that says to pass floats, naming the leaf."""
    for transform in (da.grad, da.value_and_grad, da.jacfwd, da.jacrev, da.hessian):
        with pytest.raises(DtypeError, match="argument 0") as error:
            transform(lambda v: 1.0)(x)
        assert "float" in error.value.instead


def test_the_pullback_takes_one_cotangent() -> None:
    """Pull() and pull(a, b)."""
    _, pull = da.vjp(square, 3.0)
    for args in ((), (1.0, 1.0)):
        with pytest.raises(TypeError):
            pull(*args)
    with pytest.raises(TypeError):
        da.vjp()


def test_grad_without_positional_arguments_names_argnames() -> None:
    with pytest.raises(ArgumentError, match="argnames"):
        da.grad(lambda x: x)(x=1.0)


# ── the pullback is a pure function ──────────────────────────────────────────────────────────────────────────────


def test_the_pullback_may_be_called_again_and_under_any_transform() -> None:
    """Different cotangents, derivatives of it, batches of it."""
    x = np.array([0.3, 0.5])
    _, pull = da.vjp(lambda v: np.sin(v) * v, x)
    d = np.cos(x) * x + np.sin(x)
    for ct in (np.ones(2), np.array([1.0, -3.0]), np.ones(2)):
        np.testing.assert_allclose(pull(ct)[0], ct * d, rtol=1e-15)
    _, tangent = da.jvp(lambda c: pull(c)[0], (np.ones(2),), (np.array([0.0, 1.0]),))
    np.testing.assert_allclose(tangent, d * [0, 1], rtol=1e-15)
    cts = np.arange(6.0).reshape(3, 2)
    np.testing.assert_allclose(da.vmap(pull)(cts)[0], cts * d, rtol=1e-15)


def test_the_pullback_may_be_called_from_threads() -> None:
    """Five threads pull through one polynomial."""
    _, pull = da.vjp(lambda v: v**3 + 2 * v, np.arange(1000.0))
    barrier = threading.Barrier(5)

    def work(k):
        barrier.wait()
        return pull(np.full(1000, float(k)))[0]

    with ThreadPoolExecutor(5) as pool:
        for k, got in enumerate(pool.map(work, range(5))):
            np.testing.assert_allclose(got, k * (3 * np.arange(1000.0) ** 2 + 2), rtol=1e-15)


def test_vmap_of_the_pullback_takes_batched_cotangents() -> None:
    """Arange(3) over (3, 2, 2) comes back unchanged; a scalar output takes (3,)."""
    cts = np.broadcast_to(np.arange(3.0)[:, None, None], (3, 2, 2))
    _, pull = da.vjp(lambda v: v * 1.0, np.ones((2, 2)))
    np.testing.assert_array_equal(da.vmap(pull)(cts)[0], cts)
    _, pull = da.vjp(np.sum, np.ones(2))
    np.testing.assert_array_equal(da.vmap(pull)(np.arange(3.0))[0], [[0, 0], [1, 1], [2, 2]])
    with pytest.raises(ShapeError, match=r"\(2, 2\)"):
        da.vmap(da.vjp(square, np.ones((2, 2)))[1])(np.ones((3, 2, 1)))


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x,
        lambda x: x * 1.0,
        lambda x: (x, x),
        lambda x: x.T,
        lambda x: x.reshape(4),
        lambda x: np.stack([x, x]),
        lambda x: x + 0.0,
        lambda x, y=None: np.broadcast_to(x, (2, 2, 2)),
    ],
)
def test_cotangents_are_not_modified_and_results_share_no_memory(f) -> None:
    """Two results of one pullback share memory neither with each other nor with the cotangent."""
    x = np.arange(4.0).reshape(2, 2)
    value, pull = da.vjp(f, x)
    import optree

    ct = optree.tree_map(lambda v: np.random.default_rng(0).normal(size=np.shape(v)), value)
    kept = optree.tree_map(np.copy, ct)
    first, second = pull(ct)[0], pull(ct)[0]
    np.testing.assert_array_equal(first, second)
    assert not np.shares_memory(first, second)
    for c, k in zip(optree.tree_leaves(ct), optree.tree_leaves(kept), strict=True):
        assert not np.shares_memory(first, c)
        np.testing.assert_array_equal(c, k)
    first[...] = np.nan
    np.testing.assert_array_equal(pull(ct)[0], second)


def test_two_arguments_share_no_memory() -> None:
    """X + y gives the cotangent to both."""
    a, b = da.vjp(lambda x, y: x + y, np.ones(3), np.ones(3))[1](np.ones(3))
    assert not np.shares_memory(a, b)
    a, b = da.grad(lambda x, y: np.sum(x + y), (0, 1))(np.ones(3), np.ones(3))
    assert not np.shares_memory(a, b) and a.flags.writeable and b.flags.writeable


# ── values, aux, and order ────────────────────────────────────────────────────────────────────────────────────────


def test_value_and_aux_stand_before_the_gradient() -> None:
    """((value, aux), grads)."""
    f = lambda x: (np.sum(x**2), {"x": x, "n": 3})
    (value, aux), g = da.value_and_grad(f, has_aux=True)(np.array([1.0, 2.0]))
    assert value == 5.0 and g.tolist() == [2.0, 4.0] and aux["n"] == 3 and aux["x"].tolist() == [1.0, 2.0]
    g, aux = da.grad(f, has_aux=True)(np.array([1.0, 2.0]))
    assert g.tolist() == [2.0, 4.0] and type(aux["x"]) is np.ndarray
    value, pull, aux = da.vjp(f, np.array([1.0, 2.0]), has_aux=True)
    assert pull(1.0)[0].tolist() == [2.0, 4.0] and type(aux["x"]) is np.ndarray
    with pytest.raises(OutputError, match="has_aux"):
        da.grad(lambda x: x, has_aux=True)(1.0)


def test_outputs_without_derivative_are_excluded() -> None:
    """Integer outputs take None, zeros or float0."""
    _, pull = da.vjp(lambda x: (x * 2, np.argsort(x)), np.array([2.0, 1.0]))
    for nothing in (None, np.zeros(2, int), np.zeros(2, da.float0)):
        assert pull((np.ones(2), nothing))[0].tolist() == [2.0, 2.0]
    with pytest.raises(DtypeError, match="int"):
        pull((np.ones(2), np.ones(2)))


def test_integer_arguments_of_vjp_come_back_as_float0() -> None:
    _, pull = da.vjp(lambda x, n: x * n, 2.0, np.array([1, 2]))
    x, n = pull(np.ones(2))
    assert x == 3.0 and n.dtype == da.float0 and n.shape == (2,)


def test_transposition_visits_equations_in_reverse_order() -> None:
    """Three identities that log are pulled through as c, b, a."""
    log: list = []

    def logging_identity(name):
        @da.custom_vjp
        def f(x):
            return x * 1.0

        def bwd(residuals, ct):
            log.append(name)
            return (ct,)

        f.defvjp(lambda x: (x * 1.0, ()), bwd)
        return f

    a, b, c = (logging_identity(n) for n in "abc")
    assert da.grad(lambda x: c(b(a(x))) * 2.0)(1.0) == 2.0
    assert log == ["c", "b", "a"]


# ── second order ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_all_spellings_of_the_second_derivative() -> None:
    """Grad∘grad, jvp∘grad, grad∘jvp agree to 1e-9, and repeat exactly."""
    f = lambda x: np.sum(np.tanh(x) ** 3 / (1 + x**2))
    x, v = np.array([0.3, -0.7, 1.1]), np.array([1.0, 2.0, -1.0])
    a = da.grad(lambda y: da.grad(f)(y) @ v)(x)
    b = da.jvp(da.grad(f), (x,), (v,))[1]
    c = da.grad(lambda y: da.jvp(f, (y,), (v,))[1])(x)
    np.testing.assert_allclose(a, b, rtol=1e-9)
    np.testing.assert_allclose(c, b, rtol=1e-9)
    np.testing.assert_array_equal(a, da.grad(lambda y: da.grad(f)(y) @ v)(x))


def test_pullbacks_are_differentiated_in_primals_and_cotangents() -> None:
    """Both slots of the vjp; missing tangents count as zero."""
    g = lambda x, c: da.vjp(np.sin, x)[1](c)[0]  # c cos x
    x, c = 0.4, 1.5
    assert da.jvp(g, (x, c), (1.0, 10.0))[1] == pytest.approx(-c * np.sin(x) + 10 * np.cos(x), rel=1e-14)
    assert da.jvp(g, (x, c), (None, 10.0))[1] == pytest.approx(10 * np.cos(x), rel=1e-14)
    assert da.jvp(g, (x, c), (1.0, None))[1] == pytest.approx(-c * np.sin(x), rel=1e-14)


# ── holomorphic and complex ──────────────────────────────────────────────────────────────────────────────────────


def test_complex_convention() -> None:
    """Section 1: |z|² at 1 + 2i gives 2 − 4i; a VJP multiplies by the derivative, unconjugated."""
    z = 1 + 2j
    assert da.grad(lambda w: np.abs(w) ** 2)(z) == pytest.approx(2 - 4j, rel=1e-15)
    assert da.grad(lambda w: w**3, holomorphic=True)(z) == pytest.approx(3 * z**2, rel=1e-15)
    assert da.vjp(lambda w: w * w, z)[1](1j)[0] == pytest.approx(1j * 2 * z, rel=1e-15)
    with pytest.raises(DtypeError, match="holomorphic"):
        da.grad(lambda x: x + 0j, holomorphic=True)(1.0)


# ── linear_transpose ─────────────────────────────────────────────────────────────────────────────────────────────

LINEAR = {
    "matrix product": (lambda v: np.arange(6.0).reshape(2, 3) @ v, (np.zeros(3),)),
    "diagonal": (np.diagonal, (np.zeros((3, 3)),)),
    "selection": (lambda v: v[1], (np.zeros((3, 2)),)),
    "slice": (lambda v: v[1:, ::2], (np.zeros((3, 4)),)),
    "sum and broadcast": (lambda v: np.sum(v, axis=0) + v[0], (np.zeros((2, 3)),)),
    "two arguments": (lambda v, w: 2 * v - np.flip(w), (np.zeros(3), np.zeros(3))),
    "trees": (
        lambda p: {"a": p["x"] * 2, "b": np.concatenate([p["x"], p["y"]])},
        ({"x": np.zeros(2), "y": np.zeros(1)},),
    ),
    "complex": (lambda v: 1j * v + np.conj(v), (np.zeros(2, complex),)),
    "real to complex": (lambda v: (2 + 1j) * v, (np.zeros(2),)),
    "a nonlinear constant": (lambda v: np.sin(np.ones(3)) * v / np.exp(2.0), (np.zeros(3),)),
}


@pytest.mark.parametrize("name", LINEAR)
def test_the_transpose_is_the_adjoint_and_its_transpose_the_function(name: str, rng) -> None:
    """⟨w, f(v)⟩ = ⟨fᵀ(w), v⟩; the double transpose is f; cotangents may be broadcast arrays."""
    import optree

    f, examples = LINEAR[name]
    draw = lambda tree: optree.tree_map(
        lambda x: rng.normal(size=np.shape(x)) + (1j * rng.normal(size=np.shape(x)) if np.iscomplexobj(x) else 0.0),
        tree,
    )
    v = draw(examples)
    out = f(*v)
    w = draw(out)
    back = da.linear_transpose(f, *examples)
    assert pairing(w, out) == pytest.approx(pairing(back(w), v), rel=1e-12, abs=1e-12)
    twice = da.linear_transpose(back, w)(v)
    leaves = zip(optree.tree_leaves(twice), optree.tree_leaves((out,)), strict=True)
    for a, b in leaves:
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13)


def test_broadcast_cotangents_are_transposed() -> None:
    """The diagonal of an expanded value gives value·identity; select and slice scatter into zeros."""
    back = da.linear_transpose(np.diagonal, np.zeros((3, 3)))
    np.testing.assert_array_equal(back(np.broadcast_to(2.0, (3,)))[0], 2 * np.eye(3))
    back = da.linear_transpose(lambda v: v[1:3], np.zeros(4))
    np.testing.assert_array_equal(back(np.broadcast_to(5.0, (2,)))[0], [0.0, 5.0, 5.0, 0.0])


@pytest.mark.parametrize(
    ("f", "said"),
    [
        (np.sin, "sin"),
        (lambda v: v * v, "multiply"),
        (lambda v: v + 1.0, "affine"),
        (lambda v: v - np.ones(2), "affine"),
        (lambda v: np.concatenate([v, np.ones(1)]), "affine"),
        (lambda v: np.ones(2), "constant"),
        (lambda v: (v, np.ones(2)), "constant"),
        (lambda v: 1.0 / v, "divide"),
        (lambda v: np.abs(v), "absolute"),
        (lambda v: np.where(np.array([True, False]), v, 1.0), "affine"),
        (lambda v: v**2, "power|square"),
        (lambda v: v @ v, "matmul|dot"),
    ],
)
def test_what_is_not_linear_is_refused(f, said: str) -> None:
    """Nonlinear and affine functions, with words."""
    with pytest.raises(NotLinearError, match=said) as error:
        da.linear_transpose(f, np.ones(2))
    assert error.value.why and error.value.instead


def test_dead_nonlinear_code_is_eliminated_first() -> None:
    """Issue: dead code is no reason to refuse."""
    back = da.linear_transpose(lambda v: (np.sin(v) + 1, 2 * v)[1], np.zeros(2))
    np.testing.assert_array_equal(back(np.ones(2))[0], [2.0, 2.0])
    assert da.linear_transpose(lambda v: v + 0.0, 1.0)(3.0) == (3.0,)


# ── many reads of one array ──────────────────────────────────────────────────────────────────────────────────────


def read_one_by_one(x):
    """Entries, rows, both ends, one of them twice, and the array as a whole."""
    total = np.sum(x * x)
    for i in range(len(x)):
        total = total + (i + 1.0) * np.sin(x[i, 0]) * x[-1, -1] + np.sum(x[i] * x[i - 1])
    return total + x[0, 1] * np.exp(x[0, 1])


def test_entries_and_rows_read_one_by_one_add_up():
    x = np.linspace(-1.0, 1.5, 6).reshape(3, 2)
    t = np.cos(x)
    gradient = da.grad(read_one_by_one)
    differences.compare(np.sum(gradient(x) * t), differences.along(read_one_by_one, (x,), (t,)), "grad")
    second = da.grad(lambda x: np.sum(gradient(x) * t))
    np.testing.assert_allclose(second(x), da.jvp(gradient, (x,), (t,))[1])
    batch = np.stack([x, 2 * x])
    np.testing.assert_allclose(da.vmap(gradient)(batch), [gradient(b) for b in batch])
    np.testing.assert_allclose(da.vmap(second)(batch), [second(b) for b in batch])


def test_reads_one_by_one_go_back_in_one_scatter():
    n = 20
    _, pull = da.vjp(lambda x: sum([x[i] * x[i] for i in range(n)]), np.ones(n))
    program = da.trace(pull, 1.0)
    assert [step.op.name for step in program.equations].count("index_add") == 1
