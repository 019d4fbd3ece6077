"""cond, switch and while_loop: under every word over J, V, M and T of length ≤ 3 against JAX's lax; what they refuse.

Not for: loops of known length (`test_loops.py`), nor the operators' own rules (`ops/test_every_op.py`).
"""

from __future__ import annotations

import pickle

import numpy  # noqa: ICN001  (np is the namespace that a function is given)
import numpy as np
import pytest

import dualad as da
from dualad.core.tables import OPS
from dualad.errors import (
    ArgumentError,
    BranchError,
    DtypeError,
    EscapedTensorError,
    NotLinearError,
    RuleMissingError,
    ShapeError,
    TreeError,
)
from dualad.program.check import check
from tests.compose import zoo
from tests.compose.words import WORDS, expected, found
from tests.compose.zoo import Animal, normal, positive
from tests.oracles.jax_side import jax


def control(np):
    """Return the library whose control flow a function of this namespace uses."""
    return da if np is numpy else jax.lax


def branch(np, x, y):
    return control(np).cond(x > 0, lambda a: np.sin(a) * y, lambda a: a * a * a - y, x)


def branch_of_trees(np, x):
    out = control(np).cond(
        np.sum(x) > 0, lambda d: {"u": d["u"] * d["v"], "v": d["v"]}, lambda d: {"u": np.cos(d["u"]), "v": d["v"] ** 2},
        {"u": x, "v": x[0]},
    )  # fmt: skip
    return out["u"] * out["v"]


def nested_branch(np, x, y):
    lib = control(np)
    inner = lambda a: lib.cond(y > 0.3, lambda b: np.exp(b * y), lambda b: b * y, a)
    return lib.cond(x > 0, inner, lambda a: inner(a * a), x)


def many_branches(np, x):
    index = np.where(x > 0.5, 2, np.where(x > -0.5, 1, 0))
    return control(np).switch(index, [np.sin, lambda v: v**3, lambda v: x * v], x)


def doubling(np, x, w):
    """Loop as often as a value says; the number of steps differs between lanes."""
    out = control(np).while_loop(
        lambda c: (c[0] < 5.0) & (c[1] < 8), lambda c: (c[0] * (1.2 + w * w), c[1] + 1), (x, 0)
    )  # fmt: skip
    return out[0] * w


def newton(np, a):
    step = lambda x: x - (x**3 - a) / (3 * x**2)
    return control(np).while_loop(lambda x: np.abs(x**3 - a) > 1e-13, step, a)


def loop_in_branch(np, x):
    lib = control(np)
    grow = lambda v: lib.while_loop(lambda c: c < 3.0, lambda c: c * 1.5, v)
    return lib.cond(x > 0.8, grow, lambda v: np.sin(v), x)


ANIMALS = {
    f.__name__: Animal(f, lambda rng, makers=makers: tuple(m(rng) for m in makers))
    for f, makers in {
        branch: (normal(), normal()),
        branch_of_trees: (normal(3),),
        nested_branch: (normal(), normal()),
        many_branches: (normal(),),
        doubling: (positive(), positive()),
        newton: (positive(),),
        loop_in_branch: (positive(),),
    }.items()
}
LOOPS = {"doubling", "newton", "loop_in_branch"}


@pytest.fixture(autouse=True)
def in_the_zoo(monkeypatch):
    monkeypatch.setattr(zoo, "ZOO", {**zoo.ZOO, **ANIMALS})


def agrees(name: str, word: str) -> None:
    got, want = found(name, ANIMALS[name], word), expected(name, ANIMALS[name], word)
    assert abs(got - want) <= 1e-9 * max(1.0, abs(want)), f"{word} of {name}: {got}, JAX says {want}"


def reversed_in_a_trace(name: str, word: str) -> bool:
    """Say whether a word runs reverse mode through a loop of unknown length inside a program."""
    return name in LOOPS and "V" in word and "T" in word[word.index("V") :]


@pytest.mark.parametrize("word", WORDS[1] + WORDS[2])
@pytest.mark.parametrize("name", ANIMALS)
def test_under_every_pair_of_transforms(name: str, word: str) -> None:
    if reversed_in_a_trace(name, word):
        with pytest.raises(RuleMissingError, match="fori_loop"):
            found(name, ANIMALS[name], word)
    else:
        agrees(name, word)


@pytest.mark.slow
@pytest.mark.parametrize("name", ANIMALS)
def test_under_every_triple_of_transforms(name: str) -> None:
    for word in WORDS[3]:
        if reversed_in_a_trace(name, word):
            with pytest.raises(RuleMissingError, match="fori_loop"):
                found(name, ANIMALS[name], word)
        else:
            agrees(name, word)


# ── values that are known ────────────────────────────────────────────────────────────────────────────────────────


def test_known_predicates_are_python() -> None:
    """Only the chosen function runs; its arrays are its own, as where both run."""
    x, seen = np.ones(2), []
    out = da.cond(True, lambda v: seen.append(v) or v, lambda v: 1 / 0, x)
    assert out is seen[0] and out is not x and out.tolist() == [1.0, 1.0]
    assert da.cond(np.array(0), lambda v: 1 / 0, lambda v: "static results are fine", x) == "static results are fine"
    assert da.switch(1, [lambda: 1 / 0, lambda: 7]) == 7
    assert da.while_loop(lambda c: c < 3, lambda c: c + 1, 0) == 3
    f = lambda x: da.cond(x > 0, lambda: x * x, lambda: 1 / 0)
    assert da.grad(f)(3.0) == 6.0 and da.vmap(da.grad(f))(np.array([1.0, 2.0])).tolist() == [2.0, 4.0]


def test_an_index_out_of_range_is_moved_to_the_end_everywhere() -> None:
    branches = [np.sin, np.cos, np.exp]
    index = np.array([-7, 0, 1, 2, 9])
    want = [branches[i](0.3) for i in (0, 0, 1, 2, 2)]
    f = lambda i: da.switch(i, branches, 0.3)
    np.testing.assert_array_equal([f(i) for i in index], want)
    np.testing.assert_array_equal(da.vmap(f)(index), want)
    np.testing.assert_array_equal([da.trace(f, 0)(i) for i in index], want)
    np.testing.assert_array_equal(da.trace(da.vmap(f), index)(index), want)
    np.testing.assert_array_equal(da.vmap(da.trace(f, 0))(index), want)


def test_a_number_is_a_truth_value() -> None:
    f = lambda x: da.cond(x, np.negative, np.exp, x)
    assert f(0.0) == 1.0 and f(2.0) == -2.0
    np.testing.assert_allclose(da.vmap(da.grad(f))(np.array([0.0, 2.0])), [1.0, -1.0])
    np.testing.assert_allclose([da.trace(f, 1.0)(0.0), da.trace(f, 1.0)(2.0)], [1.0, -2.0])


# ── lanes ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_lanes_that_are_done_stay_done() -> None:
    """A lane that is done is not moved, even where a further step would make it NaN."""
    steps = []

    def body(c):
        steps.append(None)
        return c - 1 + 0 * np.sqrt(c - 1)

    x = np.array([1.0, 3.0, 0.25, 2.0])
    f = lambda v: da.while_loop(lambda c: c >= 1, body, v)
    np.testing.assert_array_equal(da.vmap(f)(x), [0.0, 0.0, 0.25, 0.0])
    assert len(steps) == 3  # as many as the slowest lane needs, not one run per lane
    with np.errstate(invalid="ignore"):  # a program does not know which lanes are done
        np.testing.assert_array_equal(da.trace(da.vmap(f), x)(x), [0.0, 0.0, 0.25, 0.0])


def test_a_branch_not_taken_has_no_say_in_the_derivative() -> None:
    """Beside a pole of the other branch: the selected derivative, without a warning."""
    f = lambda x: da.cond(x > 0, lambda v: np.sqrt(v) + np.log(v), lambda v: 2.0 * v, x)
    x = np.array([0.0, 4.0, -1.0])
    for derivative in (da.vmap(da.grad(f)), lambda x: da.grad(lambda y: np.sum(da.vmap(f)(y)))(x)):
        np.testing.assert_allclose(derivative(x), [2.0, 0.5, 2.0])
    np.testing.assert_allclose(np.diag(da.jacfwd(da.vmap(f))(x)), [2.0, 0.5, 2.0])


def test_in_place_writes_of_one_branch_are_not_seen_by_the_other() -> None:
    def write(v):
        v[0] = 100.0
        return v

    f = lambda p, v: da.cond(p, write, lambda v: v * 2, v)
    x = np.array([[1.0, 2.0], [3.0, 4.0]])
    got = da.vmap(f)(np.array([True, False]), x)
    np.testing.assert_array_equal(got, [[100.0, 2.0], [6.0, 8.0]])
    np.testing.assert_array_equal(x, [[1.0, 2.0], [3.0, 4.0]])
    start = np.zeros(2)

    def body(c):
        c[1] += 1.0
        return c

    np.testing.assert_array_equal(da.while_loop(lambda c: c[1] < 3, body, start), [0.0, 3.0])
    np.testing.assert_array_equal(start, [0.0, 0.0])
    got = da.vmap(lambda n: da.while_loop(lambda c: c[1] < n, body, start * n))(np.array([1.0, 3.0]))
    np.testing.assert_array_equal(got, [[0.0, 1.0], [0.0, 3.0]])


def test_two_axes_of_lanes_and_empty_ones() -> None:
    x = np.linspace(-1, 1, 6).reshape(2, 3)
    f = lambda v: da.cond(v > 0, np.exp, lambda u: da.while_loop(lambda c: c < 0.5, lambda c: c + 0.3, u), v)
    want = [[f(v) for v in row] for row in x]
    np.testing.assert_allclose(da.vmap(da.vmap(f))(x), want)
    np.testing.assert_allclose(da.trace(da.vmap(da.vmap(f)), x)(x), want)
    assert da.vmap(f)(np.ones((0,))).shape == (0,)


# ── programs ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_one_equation_that_holds_its_bodies_and_can_be_pickled() -> None:
    def f(x, y):
        z = da.cond(x > 0, np.sin, lambda v: v * y, x)
        return da.while_loop(lambda c: c < 2.0, lambda c: c + np.exp(z), z)

    program = da.trace(f, 1.0, 2.0)
    assert [e.op.name for e in program.equations] == ["greater", "switch", "exp", "while_loop"]
    check(program)
    text = str(program)
    assert "branches=(lambda, sin)" in text and "program sin(" in text
    again = pickle.loads(pickle.dumps(program))
    check(again)
    assert str(again) == text
    for x, y in ((1.0, 2.0), (-0.5, 1.0)):
        np.testing.assert_allclose([program(x, y), again(x, y)], f(x, y))


def test_one_derivative_is_two_equations() -> None:
    """The values with their residuals, then an equation that is linear in the cotangent."""
    f = lambda x: da.cond(x > 0, np.sin, np.exp, x)
    program = da.trace(da.grad(f), 1.0)
    switches = [e for e in program.equations if e.op is OPS["switch"]]
    assert [e.params["linear"] for e in switches] == [0, 1]
    np.testing.assert_allclose([program(0.3), program(-0.3)], [np.cos(0.3), np.exp(-0.3)])


def test_closures_of_every_level_are_found() -> None:
    """A body may read tensors of an outer derivative, of a batch and of the trace itself."""

    def f(a, b, x):
        g = lambda t: da.cond(t > 0, lambda v: a * v * b, lambda v: v - a * b, t) * t
        return da.trace(da.grad(g), 1.0)(x)

    a, b, x = np.array([1.0, 2.0]), 3.0, np.array([0.5, -0.5])
    got = da.grad(lambda b: np.sum(da.vmap(f, (0, None, 0))(a, b, x)))(b)
    # d/db of: 2·a·b·x for x > 0;  2x − a·b for x < 0
    np.testing.assert_allclose(got, 2 * 1.0 * 0.5 - 2.0)


def test_a_branch_inside_a_linear_function_stays_linear() -> None:
    """Under trace the predicate is unknown, and the operand belongs to a function to be transposed."""

    def f(p, ct):
        g = lambda v: da.cond(p > 0, lambda u: u * np.sin(p), lambda u: np.cumsum(u), v)
        return da.linear_transpose(g, np.zeros(3))(ct)[0]

    ct = np.array([1.0, 2.0, 4.0])
    program = da.trace(f, 1.0, ct)
    np.testing.assert_allclose(program(0.5, ct), ct * np.sin(0.5))
    np.testing.assert_allclose(program(-0.5, ct), [7.0, 6.0, 4.0])
    for wrong in (np.sin, lambda u: u + 1.0, lambda u: u * u):
        bad = lambda p, ct, wrong=wrong: da.linear_transpose(
            lambda v: da.cond(p > 0, wrong, lambda u: u, v), np.zeros(3)
        )(ct)
        with pytest.raises(NotLinearError):
            da.trace(bad, 1.0, ct)


def test_no_reverse_mode_through_a_loop_of_unknown_length_but_forward() -> None:
    f = lambda x: da.while_loop(lambda c: c < 9.0, lambda c: c * x, x)
    program = da.trace(f, 2.0)
    assert [e.op.name for e in program.equations] == ["while_loop"]
    np.testing.assert_allclose([program(2.0), da.jvp(program, (2.0,), (1.0,))[1], da.grad(program)(2.0)], [16, 32, 32])
    np.testing.assert_allclose(da.trace(lambda x: da.jvp(f, (x,), (1.0,))[1], 3.0)(2.0), 32.0)
    with pytest.raises(RuleMissingError, match="fori_loop"):
        da.trace(da.grad(f), 2.0)
    # A number of steps that does not depend on what is traced is known: those steps are written down.
    counted = lambda x: da.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * x), (0, x))[1]
    np.testing.assert_allclose(da.trace(da.grad(counted), 2.0)(2.0), 4 * 2.0**3)


# ── refusals ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_predicate_is_a_scalar_and_the_index_an_integer() -> None:
    with pytest.raises(ShapeError, match=r"np\.where"):
        da.cond(np.array([True, False]), np.sin, np.cos, 1.0)
    with pytest.raises(ShapeError, match="cond_fun"):
        da.while_loop(lambda c: c > 0, lambda c: c - 1, np.ones(2))
    with pytest.raises(DtypeError, match="integer"):
        da.switch(1.0, [np.sin, np.cos], 1.0)
    with pytest.raises(ArgumentError, match="no branches"):
        da.switch(0, [], 1.0)


def test_branches_that_both_run_return_the_same() -> None:
    run = lambda t, f: da.vmap(lambda x: da.cond(x > 0, t, f, x))(np.array([1.0, -1.0]))
    write = lambda t, f: da.trace(lambda x: da.cond(x > 0, t, f, x), np.float64(1.0))
    for both in (run, write):
        with pytest.raises(TreeError, match="different structures"):
            both(lambda x: (x, x), lambda x: x)
        with pytest.raises(ShapeError, match="the result"):
            both(lambda x: np.stack([x, x]), lambda x: x)
        with pytest.raises(DtypeError, match="astype"):
            both(lambda x: x, lambda x: x.astype(np.float32))
    # A Python number takes the dtype of the other branch.
    assert run(lambda x: 0, lambda x: x).tolist() == [0.0, -1.0]
    assert write(lambda x: 0, lambda x: x)(-3.0) == -3.0
    single = da.trace(lambda x: da.cond(x > 0, lambda v: 0.0, lambda v: v, x), np.float32(1))
    assert single(np.float32(-1)).dtype == np.float32


@pytest.mark.parametrize("transform", ["plain", "vmap", "jvp", "trace"])
def test_a_carry_that_changes_is_refused_with_words(transform: str) -> None:
    def run(body, init=None):
        f = lambda x: da.while_loop(
            lambda c: False if c is None else x < 2, body, {"a": x * np.float32(1), "b": 0} if init is None else init(x)
        )
        x = np.float32(1.0)
        if transform == "vmap":
            return da.vmap(f)(np.array([1.0, 3.0], np.float32))
        if transform == "jvp":
            return da.jvp(f, (x,), (x,))
        return da.trace(f, x) if transform == "trace" else f(x)

    with pytest.raises(ShapeError, match=r"carry\['a'\] went in as f32\[\] and came out as f32\[2\]"):
        run(lambda c: {"a": np.stack([c["a"], c["a"]]), "b": c["b"]})
    with pytest.raises(DtypeError, match=r"carry\['a'\] went in as f32\[\] and came out as f64\[\]"):
        run(lambda c: {"a": c["a"] * np.float64(2), "b": c["b"]})
    with pytest.raises(TreeError, match="the carry went in as"):
        run(lambda c: {"a": c["a"]})


def test_a_python_number_takes_the_dtype_of_the_first_step() -> None:
    x = np.float32(0.5)
    f = lambda x: da.while_loop(lambda c: c < 2, lambda c: c + x, 0)
    for got in (f(x), da.trace(f, x)(x), da.vmap(f)(np.array([x]))[0], da.jvp(f, (x,), (x,))[0]):
        assert got == 2.0 and got.dtype == np.float32


def test_a_tensor_of_a_closed_transform_is_noticed() -> None:
    kept = []
    da.vmap(lambda x: kept.append(x > 0) or x)(np.array([1.0, -1.0]))
    with pytest.raises(EscapedTensorError):
        da.cond(kept[0], np.sin, np.cos, 1.0)


def test_python_branches_in_a_body_that_is_written_down_are_refused() -> None:
    with pytest.raises(BranchError):
        da.trace(lambda x: da.cond(x > 0, lambda v: v if v > 1 else -v, np.sin, x), 1.0)


# ── a branch that isn't taken doesn't run, whatever it reads from its closure ────────────────────────────────────────


def inverse_or_not(x):
    a = np.array([[1.0, 2.0], [2.0, 4.0]]) + np.eye(2) * np.maximum(x, 0.0)
    return da.cond(x > 0, lambda: np.linalg.inv(a)[0, 0] * x, lambda: a[0, 1] * x)


def halved_or_not(x):
    return da.cond(x > 0, lambda: da.while_loop(lambda c: c > x, lambda c: c / 2, 100.0) * x, lambda: -x * x)


def summed_or_not(x):
    y = np.sin(x)
    steps = lambda: da.scan(lambda c, t: (c * y + t, c * x), x, np.array([1.0, 2.0, 3.0]))[1].sum()
    return da.switch(np.sign(x).astype(int), [lambda: x * y, steps])


def nested(x):
    root = lambda: np.sqrt(x) * da.cond(x > 1, lambda: np.log(x - 1), lambda: np.sqrt(1 - x) * x)
    return da.cond(x > 0, root, lambda: da.cond(x > -1, lambda: np.sqrt(1 + x), lambda: x**3))


def slope_inside(x):
    return da.cond(x > 0, lambda: da.grad(lambda t: np.sin(t * x) * t)(x), lambda: da.jacfwd(lambda t: t**3 * x)(x))


ONLY_CLOSURES = (inverse_or_not, halved_or_not, summed_or_not, nested, slope_inside)


@pytest.mark.parametrize("f", ONLY_CLOSURES, ids=lambda f: f.__name__)
@pytest.mark.parametrize("x", np.array([-2.0, -0.5, 0.3, 2.5]))
def test_compiled_branches_of_closures_are_those_that_run(f, x) -> None:
    if f is halved_or_not:  # reverse mode doesn't go through a while_loop in a program
        orders = (f, da.jacfwd(f), da.jacfwd(da.jacfwd(f)))
    else:
        orders = (f, da.grad(f), da.jacfwd(da.grad(f)), da.grad(da.jacfwd(f)))
    for g in orders:
        expected = g(x)
        for way in (da.jit(g), da.trace(g, x)):
            np.testing.assert_allclose(way(x), expected, rtol=1e-12, atol=1e-14)


def test_a_branch_that_is_not_taken_may_be_impossible() -> None:
    singular = np.array([[1.0, 1.0], [1.0, 1.0]])
    f = lambda a: da.cond(np.linalg.det(a) != 0, lambda: np.linalg.inv(a), lambda: np.eye(2) * a[0, 0])
    np.testing.assert_array_equal(da.jit(f)(singular), np.eye(2))
    program = da.trace(f, singular)
    assert "inv" not in [e.op.name for e in program.equations]
    np.testing.assert_array_equal(program(2 * np.eye(2)), np.eye(2) / 2)


def test_branches_of_closures_promote_numbers_as_python_does() -> None:
    n = np.float32(1.5)
    f = lambda x, k: da.cond(x > 0, lambda: x * (2 * k + 1), lambda: -x * k)
    for x in (n, -n):
        found = da.jit(f)(x, 3)
        assert found.dtype == f(x, 3).dtype == np.float32
        assert found == f(x, 3)


def test_lanes_of_branches_of_closures() -> None:
    xs = np.array([-2.0, -0.5, 0.3, 2.5])
    for f in (summed_or_not, slope_inside):
        for g in (f, da.grad(f)):
            expected = [g(x) for x in xs]
            np.testing.assert_allclose(da.jit(da.vmap(g))(xs), expected, rtol=1e-12)


def test_other_threads_compute_as_ever_while_a_branch_is_written() -> None:
    import threading

    inside, go_on, found = threading.Event(), threading.Event(), []

    def slow(x):
        inside.set()
        go_on.wait(10)
        return x * 2

    def other():
        inside.wait(10)
        found.append(da.grad(lambda t: np.sin(t) * t)(0.5))
        go_on.set()

    worker = threading.Thread(target=other)
    worker.start()
    program = da.trace(lambda x: da.cond(x > 0, lambda: slow(x), lambda: x), 1.0)
    worker.join()
    assert program(3.0) == 6.0
    np.testing.assert_allclose(found, [np.sin(0.5) + 0.5 * np.cos(0.5)])


NUMBERS = {
    "cond": lambda x, s: da.cond(x[0] > 0, lambda a, k: a * k, lambda a, k: a + k, x, s),
    "cond, a sum": lambda x, s: da.cond(x[0] > 0, lambda a, k: a * k, lambda a, k: a + k, x, s + 1),
    "cond, a constant": lambda x, s: da.cond(x[0] > 0, lambda a, k: a * k, lambda a, k: a + k, x, 2),
    "cond, returned": lambda x, s: da.cond(x[0] > 0, lambda k: k * 2, lambda k: k, s) * x,
    "cond, of the argument": lambda x, s: da.cond(x[0] > 0, lambda a, k: a * k, lambda a, k: a, x, x[0].item()),
    "switch": lambda x, s: da.switch(np.int64(x[0] > 0), [np.add, np.multiply], x, s),
    "captured": lambda x, s: da.cond(x[0] > 0, lambda a: a * s, lambda a: a + s, x),
    "carried": lambda x, s: da.fori_loop(0, 3, lambda i, c: (c[0] * c[1], c[1]), (x, s))[0],
    "carried, of the argument": lambda x, s: da.fori_loop(0, 3, lambda i, c: (c[0] * c[1], c[1]), (x, x[0].item()))[0],
    "carried through": lambda x, s: x * da.fori_loop(0, 3, lambda i, c: (c[0] * c[1], c[1]), (x, s))[1],
    "counted": lambda x, s: x * da.scan(lambda c, v: (c + s, v), 0, x)[0],
    "counted by while_loop": lambda x, s: x * da.while_loop(lambda c: c[0] < 9, lambda c: (c[0] + s, c[1]), (0, x))[0],
    "jit": lambda x, s: da.jit(lambda a, k: a * k)(x, s),
    "jit, of the argument": lambda x, s: da.jit(lambda a, k: a * k)(x, x[0].item()),
}


@pytest.mark.filterwarnings("ignore::dualad.errors.PerformanceNote")
@pytest.mark.parametrize("number", [2, 2.5])
@pytest.mark.parametrize("name", NUMBERS)
def test_python_numbers_widen_no_dtype(name: str, number: float) -> None:
    """The oracle is the call on plain arrays, where each operation is NumPy's."""
    f = lambda x: NUMBERS[name](x, number)
    x = np.arange(1, 4, dtype=np.float32)
    expected, both = f(x), np.stack([x, -x])
    assert expected.dtype == np.float32
    for out in (
        da.jit(f)(x), da.jit(NUMBERS[name])(x, number), da.trace(f, x)(x), da.jvp(f, (x,), (x,))[0], da.vjp(f, x)[0],
        da.vmap(f)(both)[0], da.jit(da.vmap(f))(both)[0], da.jit(lambda x: da.jvp(f, (x,), (x,))[0])(x),
    ):  # fmt: skip
        assert out.dtype == np.float32
        np.testing.assert_allclose(out, expected, 1e-6)
