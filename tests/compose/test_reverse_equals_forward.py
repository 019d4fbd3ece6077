"""The law of zeros: reverse mode returns forward mode's numbers, entry by entry, in every wrapper and at every order.

The oracle is ``jacfwd`` (and ``jacfwd`` of ``jacfwd``), which is defined without any walk back. A table of compositions
of poles, zero factors, selections and norms, and random ones. Not for: whether forward mode's numbers are right
(``tests/ops/test_special_values_*.py``).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import dualad as da
from tests.compose.zeros_table import TABLE, random_composition
from tests.gaps import marks

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def hooked_argument(f: Callable) -> Callable:
    return lambda x: f(da.grad_hook(x, lambda ct: None))


def hooked_result(f: Callable) -> Callable:
    return lambda x: da.grad_hook(f(x), lambda ct: None)


def gradients(make: Callable) -> Callable:
    """Make a Jacobian of gradients, one per entry of the result."""

    def jacobian(f):
        def rows(x):
            shape = np.shape(f(x))
            found = [make(lambda v, i=i: np.ravel(f(v))[i], x) for i in range(np.size(f(x)))]
            return np.stack(found).reshape(shape + x.shape)

        return rows

    return jacobian


def transposed(f: Callable) -> Callable:
    def jacobian(x):
        y, linear = da.linearize(f, x)
        rows = np.eye(np.size(y)).reshape(-1, *np.shape(y))
        return da.vmap(lambda c: da.linear_transpose(linear, x)(c)[0])(rows).reshape(np.shape(y) + x.shape)

    return jacobian


WRAPPERS: dict[str, Callable] = {
    "jacrev": da.jacrev,
    "grad": gradients(lambda f, x: da.grad(f)(x)),
    "vmap": lambda f: lambda x: da.vmap(da.jacrev(f))(np.stack([x, x + 0.5, x]))[2],
    "trace": lambda f: lambda x: da.trace(da.jacrev(f), x + 1.0)(x),
    "trace of grad": gradients(lambda f, x: da.trace(da.grad(f), x + 1.0)(x)),
    "checkpoint": lambda f: da.jacrev(da.checkpoint(f)),
    "hooked argument": lambda f: da.jacrev(hooked_argument(f)),
    "hooked result": lambda f: da.jacrev(hooked_result(f)),
    "linear_transpose": transposed,
    "jit": lambda f: da.jacrev(da.jit(f)),
    "grad of jit": gradients(lambda f, x: da.grad(da.jit(f))(x)),
}
ORDERS: dict[str, Callable] = {
    "forward reverse": lambda f: da.jacfwd(da.jacrev(f)),
    "reverse forward": lambda f: da.jacrev(da.jacfwd(f)),
    "reverse reverse": lambda f: da.jacrev(da.jacrev(f)),
}

_ONE_WALK = "several paths lead to one pole, and ∞ − ∞ is sorted out by a further walk, which there can't be here"
_INFINITE = "several paths lead to one pole, where forward mode gives an infinity and reverse mode NaN"
GAPS: dict[tuple[str, str], str] = {
    **{
        (row, wrapper): _ONE_WALK
        for row in ("gram distances", "cancellation before a pole")
        for wrapper in ("trace", "trace of grad", "hooked argument", "hooked result")
    },
    **{
        ("equal paths to a division by zero", wrapper): _ONE_WALK
        for wrapper in ("trace", "trace of grad", "checkpoint", "hooked argument", "hooked result")
    },
    **{("a square divided by a zero", wrapper): _ONE_WALK for wrapper in ("trace", "trace of grad", "checkpoint")},
    ("gram distances", "reverse reverse"): _ONE_WALK,
    **{("standard deviation", order): _INFINITE for order in ORDERS},
    ("quadratic form", "reverse reverse"): _INFINITE,
    ("distances", "reverse reverse"): _INFINITE,
}


def cases(names) -> list:
    return [pytest.param(row, name, marks=marks(GAPS, (row, name))) for row in TABLE for name in names]


def check(found, expected) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("row", "wrapper"), cases(WRAPPERS))
def test_first_derivatives(row: str, wrapper: str) -> None:
    f, x = TABLE[row]
    check(WRAPPERS[wrapper](f)(x), da.jacfwd(f)(x))


@pytest.mark.parametrize(("row", "order"), cases(ORDERS))
def test_second_derivatives(row: str, order: str) -> None:
    f, x = TABLE[row]
    check(ORDERS[order](f)(x), da.jacfwd(da.jacfwd(f))(x))


#: what forward mode is to say, so that a law that holds for wrong numbers is not enough
EXPECTED = {
    "sqrt squared": [[np.nan, 0.0], [0.0, np.nan]],
    "exp of log": [[np.nan, 0.0], [0.0, 1.0]],
    "arccos squared": [[np.nan, 0.0], [0.0, -2 * np.arccos(0.5) / np.sqrt(0.75)]],
    "sqrt of square": [0.0, 0.0],
    "norm by sum": [0.0, 0.0],
    "a norm beside a cube": [0.0, np.nan],
    "where root": [[0.0, 0.0], [0.0, 0.25]],
    "where root squared": [[0.0, 0.0], [0.0, 1.0]],
    "maximum": [[0.0, 0.0], [0.0, 0.25]],
    "infinite stays infinite": [np.inf, 0.0],
    "cancellation before a pole": [[1.0, 0.0], [0.0, 1.0]],
}


@pytest.mark.parametrize("row", EXPECTED)
def test_what_forward_mode_says(row: str) -> None:
    f, x = TABLE[row]
    check(da.jacfwd(f)(x), EXPECTED[row])


CHECKPOINTED: dict[str, tuple[Callable, Callable]] = {
    "a live zero comes in": (lambda x: da.checkpoint(np.sqrt)(x) ** 2, lambda x: np.sqrt(x) ** 2),
    "a dead zero comes in": (
        lambda x: np.where(x > 0, da.checkpoint(np.sqrt)(x), 0.0),
        lambda x: np.where(x > 0, np.sqrt(x), 0.0),
    ),
    "an infinity comes in": (lambda x: np.sqrt(da.checkpoint(np.square)(x)), lambda x: np.sqrt(np.square(x))),
    "one in another": (
        lambda x: da.checkpoint(lambda v: da.checkpoint(np.sqrt)(v) ** 2)(x),
        lambda x: np.sqrt(x) ** 2,
    ),
}


@pytest.mark.parametrize("wrapper", ["jacrev", "grad", "vmap", "trace", "trace of grad"])
@pytest.mark.parametrize("name", CHECKPOINTED)
def test_part_of_a_function_in_a_checkpoint(name: str, wrapper: str) -> None:
    f, plain = CHECKPOINTED[name]
    x = np.array([0.0, 4.0])
    check(WRAPPERS[wrapper](f)(x), da.jacfwd(plain)(x))


def test_one_of_two_results_of_a_checkpoint_is_dead() -> None:
    def f(x):
        a, b = da.checkpoint(lambda v: (np.sin(v), np.tanh(v)))(np.sqrt(x))
        return np.where(x > 100.0, a, 0.0) + np.where(x < 1.0, b, 0.0) * 0.0

    x = np.array([0.0, 4.0])
    check(da.jacrev(f)(x), [[np.nan, 0.0], [0.0, 0.0]])
    check(da.jacfwd(f)(x), [[np.nan, 0.0], [0.0, 0.0]])


def test_reads_of_single_places() -> None:
    """Cotangents of entries read one by one are gathered: what no path reads is dead, what is read stays live."""

    def f(x):
        y = np.sqrt(x)
        return y[1] * 3.0 + y[1] ** 2

    x = np.array([0.0, 4.0, 0.0])
    check(da.grad(f)(x), da.jacfwd(f)(x))
    check(da.trace(da.grad(f), x + 1.0)(x), [0.0, 1.75, 0.0])


def test_infinite_cotangents_of_single_places() -> None:
    def f(x):
        y = x * x
        return np.sqrt(y[0]) + np.sqrt(y[1]) + np.sqrt(y[2])

    x = np.array([0.0, 2.0, 0.0])
    check(da.grad(f)(x), [0.0, 1.0, 0.0])
    check(da.grad(hooked_argument(f))(x), [0.0, 1.0, 0.0])
    check(da.trace(da.grad(f), x + 1.0)(x), [0.0, 1.0, 0.0])


def test_an_unspoiled_program_is_not_made_longer() -> None:
    """Where nothing can be infinite, a traced gradient has the equations it would have without the law."""
    program = da.trace(da.grad(lambda x: np.sum(np.sin(x) * x)), np.ones(3))
    assert [str(e.op.name) for e in program.equations].count("where") == 0
    assert "scale" not in str(program)


@pytest.mark.parametrize("seed", range(150))
def test_random_compositions(seed: int) -> None:
    run_random(seed)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(1000, 4000))
def test_many_random_compositions(seed: int) -> None:
    run_random(seed)


def run_random(seed: int) -> None:
    f, x, _ = random_composition(seed)
    expected = da.jacfwd(f)(x)
    wrapper = list(WRAPPERS)[seed % len(WRAPPERS)]
    for name in ("jacrev", wrapper):
        found = WRAPPERS[name](f)(x)
        # Of two numbers that are not finite, ∞ in one mode may be NaN in the other where several paths meet.
        np.testing.assert_array_equal(np.isfinite(found), np.isfinite(expected))
        check(np.where(np.isfinite(found), found, 0.0), np.where(np.isfinite(expected), expected, 0.0))
