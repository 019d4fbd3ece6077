"""Collectives over named axes: values and derivatives against JAX and against the unmapped form.

Not for: the operators' own rules (`ops/test_every_op.py`), or `vmap` without names (`test_vmap.py`).
"""

from __future__ import annotations

import threading
from types import SimpleNamespace

import numpy as np
import pytest

import dualad as da
from dualad.errors import ArgumentError, ArgumentTypeError, BranchError, UnsupportedError
from tests.oracles.jax_side import jax, jnp

#: JAX under the names of dualad, and dualad under its own
JAX = SimpleNamespace(
    np=jnp, vmap=jax.vmap, grad=jax.grad, jvp=jax.jvp, jacfwd=jax.jacfwd, jacrev=jax.jacrev, hessian=jax.hessian,
    psum=jax.lax.psum, pmean=jax.lax.pmean, all_gather=jax.lax.all_gather, axis_index=jax.lax.axis_index,
    # JAX's cond is wrong here: its derivatives leave out what a collective brings from lanes of the other branch.
    fori_loop=jax.lax.fori_loop, cond=lambda p, t, f, x: jnp.where(p, t(x), f(x)),
)  # fmt: skip
OURS = SimpleNamespace(np=np, **{name: getattr(da, name) for name in da.__all__ if name != "numpy"})

ROW = np.array([1.0, 3.0, 2.0])
TABLE = np.arange(6.0).reshape(2, 3) / 3 + 0.5

#: one lane's function of (library, x), with "i" the name of its axis
LANES = {
    "psum": lambda lib, x: lib.np.sin(x) / lib.psum(x * x, "i"),
    "pmean": lambda lib, x: (x - lib.pmean(x, "i")) ** 2 * lib.pmean(x * x, "i"),
    "psum of psum": lambda lib, x: x * lib.psum(x * lib.psum(lib.np.exp(x), "i"), "i"),
    "constant": lambda lib, x: x * lib.psum(2.0, "i"),
    "all_gather": lambda lib, x: lib.np.sum(lib.np.cumsum(lib.all_gather(x * x, "i")) * x),
    "axis_index": lambda lib, x: x ** (1 + lib.axis_index("i")) * lib.psum(x, "i"),
    "in a loop": lambda lib, x: lib.fori_loop(0, 3, lambda i, c: lib.np.sin(c) / lib.psum(c, "i") + x, x),
    "in a branch": lambda lib, x: lib.cond(x > 1.5, lambda v: v * total(lib, v), lambda v: v / total(lib, x), x),
}


def total(lib, x):
    return lib.psum(x * x, "i")


#: what is done with a lane's function
AROUND = {
    "vmap": lambda lib, f: lib.vmap(f, axis_name="i"),
    "jacfwd of vmap": lambda lib, f: lib.jacfwd(lib.vmap(f, axis_name="i")),
    "jacrev of vmap": lambda lib, f: lib.jacrev(lib.vmap(f, axis_name="i")),
    "hessian of vmap": lambda lib, f: lib.hessian(lambda x: lib.np.sum(lib.vmap(f, axis_name="i")(x))),
    "vmap of jvp": lambda lib, f: lib.vmap(lambda x: lib.jvp(f, (x,), (x * x,))[1], axis_name="i"),
    "vmap of grad": lambda lib, f: lib.vmap(lib.grad(f), axis_name="i"),
    "vmap of grad of grad": lambda lib, f: lib.vmap(lib.grad(lib.grad(f)), axis_name="i"),
    "jacrev of vmap of grad": lambda lib, f: lib.jacrev(lib.vmap(lib.grad(f), axis_name="i")),
}


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("lane", LANES)
def test_collectives_under_derivatives_are_jax_s(lane: str, around: str) -> None:
    """Directly, written down as a program outside of the vmap, and inside of it."""
    ours, theirs = OURS, JAX
    want = AROUND[around](theirs, lambda x: LANES[lane](theirs, x))(ROW)
    inner = lambda x: LANES[lane](ours, x)
    function = AROUND[around](ours, inner)
    np.testing.assert_allclose(function(ROW), want, rtol=1e-10, atol=1e-12)
    if lane != "in a branch" or (not around.startswith("vmap of") and around != "jacrev of vmap of grad"):
        np.testing.assert_allclose(da.trace(function, ROW)(ROW), want, rtol=1e-10, atol=1e-12)
    traced = AROUND[around](ours, lambda x: da.trace(inner, x)(x))
    np.testing.assert_allclose(traced(ROW), want, rtol=1e-10, atol=1e-12)


def test_a_collective_in_a_branch_of_some_lanes_is_not_transposed_in_a_program() -> None:
    f = lambda x: LANES["in a branch"](OURS, x)
    for derivative in (da.vmap(da.grad(f), axis_name="i"), da.vmap(lambda x: da.jvp(f, (x,), (x,)), axis_name="i")):
        with pytest.raises(UnsupportedError, match=r"np\.where"):
            da.trace(derivative, ROW)


def test_normalizing_by_a_sum_has_the_gradient_of_the_unmapped_form() -> None:
    mapped = da.vmap(lambda x: x / da.psum(x, "i"), axis_name="i")
    plain = lambda x: x / np.sum(x, 0)
    for x in (ROW, TABLE):
        np.testing.assert_allclose(mapped(x), plain(x), rtol=1e-14)
        for jacobian in (da.jacfwd, da.jacrev):
            np.testing.assert_allclose(jacobian(mapped)(x), da.jacrev(plain)(x), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(("collective", "reduce"), [(da.pmax, np.max), (da.pmin, np.min)])
def test_extrema_have_the_derivative_of_the_unmapped_form(collective, reduce) -> None:
    """JAX has none; ties are split evenly, as np.max splits them."""
    for x in (ROW, np.array([2.0, 1.0, 2.0, 1.0]), TABLE):
        mapped = da.vmap(lambda v: v * collective(v, "i"), axis_name="i")
        plain = lambda x: x * reduce(x, 0)
        np.testing.assert_allclose(mapped(x), plain(x))
        for jacobian in (da.jacfwd, da.jacrev):
            np.testing.assert_allclose(jacobian(mapped)(x), jacobian(plain)(x), atol=1e-14)
        # Inside of the vmap each lane's gradient is that of the sum over lanes.
        inside = da.vmap(da.grad(lambda v: np.sum(v * collective(v, "i"))), axis_name="i")(x)
        np.testing.assert_allclose(inside, da.grad(lambda x: np.sum(plain(x)))(x), atol=1e-14)


@pytest.mark.parametrize(
    "f",
    [
        lambda lib, x: x / lib.psum(x, "i") + lib.psum(x * x, "j"),
        lambda lib, x: x / lib.psum(lib.psum(x * x, "i"), "j"),
        lambda lib, x: lib.np.sum(lib.all_gather(x, "i") * lib.psum(x, "j")) * x,
        lambda lib, x: lib.np.sum(lib.all_gather(lib.all_gather(x, "j"), "i")[:, 1]) * x,
        lambda lib, x: x * lib.axis_index("i") + lib.axis_index("j") * lib.pmean(x, "i"),
    ],
)
def test_names_of_two_axes(f) -> None:
    def both(lib):
        return lib.vmap(lib.vmap(lambda x: f(lib, x), axis_name="j"), axis_name="i")

    def inner_gradient(lib):
        return lib.vmap(lib.vmap(lib.grad(lambda x: f(lib, x)), axis_name="j"), axis_name="i")

    for make in (both, lambda lib: lib.jacfwd(both(lib)), lambda lib: lib.jacrev(both(lib)), inner_gradient):
        np.testing.assert_allclose(make(OURS)(TABLE), make(JAX)(TABLE), rtol=1e-11, atol=1e-13)


def test_trees_shapes_dtypes_and_unmapped_results() -> None:
    x = np.arange(6, dtype=np.int8).reshape(2, 3)
    out = da.vmap(
        lambda r: da.psum({"r": r, "big": r > 1, "half": r.astype(np.float32), "n": 1}, "i"),
        axis_name="i",
        out_axes=None,
    )(x)
    np.testing.assert_array_equal(out["r"], [3, 5, 7])
    np.testing.assert_array_equal(out["big"], [1, 1, 2])  # truth values are counted
    assert (out["r"].dtype, out["half"].dtype, out["n"]) == (np.int8, np.float32, 2)
    for axis, shape in ((0, (2, 3)), (1, (3, 2)), (-1, (3, 2))):
        gathered = da.vmap(lambda r, axis=axis: da.all_gather(r, "i", axis), axis_name="i", out_axes=None)(x)
        np.testing.assert_array_equal(gathered, x if shape == (2, 3) else x.T)
    np.testing.assert_array_equal(da.vmap(lambda r: da.axis_size("i"), axis_name="i")(x), [2, 2])
    np.testing.assert_array_equal(da.vmap(lambda a, b: da.psum(b, "i"), (0, None), axis_name="i")(x, 3.0), [6.0, 6.0])


def test_a_name_survives_rules_that_map_lanes_again() -> None:
    """Custom rules, checkpoints and linear calls take lanes apart; inside the name means the same lanes."""
    plain = lambda v: v / da.psum(v * v, "i")

    @da.custom_jvp
    def by_jvp(v):
        return plain(v)

    by_jvp.defjvp(lambda primals, tangents: da.jvp(plain, primals, tangents))

    @da.custom_vjp
    def by_vjp(v):
        return plain(v)

    by_vjp.defvjp(lambda v: (plain(v), v), lambda v, ct: da.vjp(plain, v)[1](ct))
    averaged = lambda v: da.linear_call(lambda r, t: da.psum(t * r, "i"), None, v, v)
    for f, g in (
        (by_jvp, plain), (by_vjp, plain), (da.checkpoint(plain), plain), (averaged, lambda v: da.psum(v * v, "i")),
    ):  # fmt: skip
        lanes, want = da.vmap(f, axis_name="i"), da.vmap(g, axis_name="i")
        np.testing.assert_allclose(lanes(ROW), want(ROW))
        np.testing.assert_allclose(da.jacrev(lanes)(ROW), da.jacrev(want)(ROW), atol=1e-14)
        np.testing.assert_allclose(da.jacfwd(lanes)(ROW), da.jacfwd(want)(ROW), atol=1e-14)
        inside, want = da.vmap(da.grad(f), axis_name="i"), da.vmap(da.grad(g), axis_name="i")
        np.testing.assert_allclose(inside(ROW), want(ROW))


# ── refusals ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_unknown_name_is_refused_with_the_names_that_are_known() -> None:
    for call in (da.psum, da.pmean, da.pmax, da.pmin, da.all_gather):
        with pytest.raises(ArgumentError, match=r"no mapped axis is named 'j'.*known are: 'i'"):
            da.vmap(lambda x, call=call: call(x, "j"), axis_name="i")(ROW)
    for call in (da.axis_index, da.axis_size):
        with pytest.raises(ArgumentError, match="known are: none"):
            call("i")
    with pytest.raises(ArgumentError, match="no mapped axis"):  # a vmap without a name does not lend one
        da.vmap(lambda x: da.psum(x, "i"))(ROW)


def test_a_name_is_gone_when_its_vmap_has_returned_or_failed() -> None:
    with pytest.raises(ZeroDivisionError):
        da.vmap(lambda x: 1 // 0, axis_name="i")(ROW)
    program = da.vmap(lambda x: [kept.append(da.trace(lambda v: da.psum(v, "i"), x)), x][1], axis_name="i")
    kept: list = []
    program(ROW)
    with pytest.raises(ArgumentError, match="no mapped axis"):
        kept[0](1.0)
    np.testing.assert_array_equal(da.vmap(kept[0], axis_name="i")(ROW), [6.0, 6.0, 6.0])
    seen = []

    def in_a_thread(x):
        def target():
            try:
                da.psum(x, "i")
            except ArgumentError as error:
                seen.append(str(error))

        thread = threading.Thread(target=target)
        thread.start()
        thread.join()
        return x

    da.vmap(in_a_thread, axis_name="i")(ROW)
    assert len(seen) == 1 and "in its thread" in seen[0]


def test_what_a_named_axis_can_t_be() -> None:
    with pytest.raises(ArgumentTypeError, match="a name is a string"):
        da.vmap(np.sin, axis_name=0)
    for chunks in ({"chunk_size": 2}, {"max_memory": 1000}):
        with pytest.raises(ArgumentError, match="all lanes"):
            da.vmap(np.sin, axis_name="i", **chunks)
    with pytest.raises(ArgumentError, match="choose another name"):
        da.vmap(da.vmap(np.sin, axis_name="i"), axis_name="i")(TABLE)
    with pytest.raises(ArgumentError, match="no such place"):
        da.vmap(lambda x: da.all_gather(x, "i", axis=2), axis_name="i")(ROW)
    # Lanes that disagree would be run in groups, and a sum over a group is not the sum.
    with pytest.raises(BranchError, match="all of its lanes at once"):
        da.vmap(lambda x: da.psum(x, "i") if x > 1 else x, axis_name="i")(ROW)


def test_lanes_taken_one_by_one_have_no_name() -> None:
    root = lambda a: da.custom_root(lambda x, a: x - da.psum(a, "i"), 0.0, lambda f, x: x - f(x), args=(a,))
    with pytest.raises(ArgumentError, match="not together"):
        da.vmap(root, axis_name="i")(ROW)

    @da.custom_vmap
    def f(x):
        return x

    @f.def_vmap
    def rule(size, mapped, x):
        return da.psum(x, "i"), True

    with pytest.raises(ArgumentError, match="not together"):
        da.vmap(f, axis_name="i")(ROW)
