"""Origins of NaN and infinities: which operation, which phase, which entry, at which line; and what is no origin.

Not for: the rows of torch's tests (`capabilities/test_debugging.py`) or branches (`test_debug.py`).
"""

from __future__ import annotations

import contextvars
import pickle
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec

import numpy as np
import pytest

import dualad as da
from dualad.core.contexts import in_use
from dualad.errors import NonFiniteError

X = np.array([4.0, 0.0, 1.0])
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def origin_of(f, **how):
    with da.debug(nan=True, **how), pytest.raises(NonFiniteError) as caught:
        f()
    origin = caught.value.origin
    assert __file__ in origin.line
    return origin


def root(x):
    return 2.0 * np.sqrt(x)


ROOT_LINE = root.__code__.co_firstlineno + 1


@pytest.mark.parametrize(
    ("run", "phase", "index", "lanes", "transform"),
    [
        (lambda: da.jvp(root, (X,), (np.ones(3),)), "tangent", (1,), (), "jvp"),
        (lambda: da.jacfwd(root)(X), "tangent", (1,), (1,), "jvp"),
        (lambda: da.linearize(root, X)[1](np.ones(3)), "tangent", (1,), (), "linearize"),
        (lambda: da.grad(lambda x: np.sum(root(x)))(X), "transpose", (1,), (), "grad"),
        (lambda: da.jacrev(root)(X), "transpose", (1,), (1,), "vjp"),
        (lambda: da.vmap(da.grad(root))(X), "transpose", (), (1,), "grad"),
        (lambda: da.grad(da.grad(lambda x: root(x) * (x + 1.0)))(0.0), "transpose", (), (), "grad"),
        (lambda: da.grad(lambda x: np.sum(da.map(root, x)))(X), "transpose", (), (), "grad"),
    ],
)
def test_only_the_derivative_is_infinite(run, phase, index, lanes, transform) -> None:
    """The value of √0 is 0: only its tangent or cotangent is infinite, and the forward line is named in every mode."""
    origin = origin_of(run)
    assert (origin.operation, origin.phase, origin.output) == ("sqrt", phase, 0)
    assert (origin.index, origin.lanes, origin.number, origin.transform) == (index, lanes, "inf", transform)
    assert origin.line.endswith(f":{ROOT_LINE}")
    assert any("in [0, 4]" in text or "in [0, 0]" in text for text in origin.operands)


def filled(x):
    y = np.zeros_like(x)
    for i in range(3):
        y[i] = np.sqrt(x[i])
    return np.sum(y)


def total(x):
    return np.sum(root(x))


@pytest.mark.parametrize("run", [
    lambda: da.jacobian(root)(X), lambda: da.hessian(total)(X), lambda: da.hvp(total, X, np.ones(3)),
    lambda: da.hessian_diag(total)(X), lambda: da.jacfwd(root, chunk_size=1)(X), lambda: da.grad(filled)(X),
    lambda: da.grad(lambda x: da.cond(x[0] > 1, total, total, x))(X),
    lambda: da.grad(lambda x: da.scan(lambda c, a: (c + np.sqrt(a), None), 0.0, x)[0])(X),
    lambda: da.grad(lambda x: sum(np.sqrt(v) for v in x))(X),
    pytest.param(
        lambda: da.linearize(root, X)[1].as_linear_operator() @ np.ones(3),
        marks=pytest.mark.skipif(find_spec("scipy") is None, reason="a linear operator is SciPy's"),
    ),
    lambda: da.trace(da.grad(total), X)(X), lambda: unpacked(),
])  # fmt: skip
def test_every_word_finds_it(run) -> None:
    assert origin_of(run).operation == "sqrt"


def unpacked():
    with da.dual_level():
        return da.unpack_dual(np.sqrt(da.make_dual(0.0, 1.0)))


def test_what_a_checkpoint_computes_again_is_named_as_its() -> None:
    origin = origin_of(lambda: da.grad(da.checkpoint(total))(X))
    assert (origin.operation, origin.phase) == ("checkpoint of total", "transpose")


@pytest.mark.parametrize("run", [
    lambda f: da.jvp(f, (X,), (np.ones(3),)),
    lambda f: da.grad(lambda x: np.sum(f(x)))(X),
    lambda f: da.hessian(lambda x: np.sum(f(x)))(X),
    lambda f: da.vmap(f)(X),
])  # fmt: skip
def test_what_reaches_no_result_is_no_error(run) -> None:
    masked = lambda x: np.where(x > 0, np.sqrt(x) + np.log(x), 0.0)
    with da.debug(nan=True):
        run(masked)
    # Of two origins, the one that the result comes from is named.
    origin = origin_of(lambda: run(lambda x: masked(x) + np.log(x - 1.0)))
    assert (origin.operation, origin.phase, origin.number) == ("log", "primal", "nan")
    assert any("in [-1, 3]" in text for text in origin.operands)


def test_values_of_inner_functions_count_though_they_are_dropped() -> None:
    for run in (da.grad(np.log), da.grad(da.grad(np.log)), da.jacfwd(np.log)):
        assert origin_of(lambda run=run: run(-1.0)).phase == "primal"


def test_infinities_are_optional() -> None:
    with da.debug(nan=True, inf=False), da.debug_nans():
        assert np.isinf(da.grad(np.sqrt)(0.0))
    assert origin_of(lambda: da.grad(lambda x: np.sqrt(x) - np.sqrt(x))(0.0), inf=False).number == "nan"
    with pytest.raises(NonFiniteError), da.debug_nans(inf=True):
        da.grad(np.sqrt)(0.0)


def test_a_number_that_comes_in_non_finite_is_named_where_it_is_met() -> None:
    origin = origin_of(lambda: da.grad(lambda x: np.sum(x * np.array([1.0, np.nan, 2.0])))(X))
    assert (origin.operation, origin.index, origin.entered) == ("multiply", (1,), "argument 1")
    assert "met argument 1 that is nan already" in str(origin)


def test_inside_a_function_it_raises_at_the_operation() -> None:
    def f(x):
        with da.debug(nan=True):
            y = np.log(x)
            pytest.fail("the line after the origin was reached")
        return y

    with pytest.raises(NonFiniteError) as caught:
        da.grad(f)(-1.0)
    assert caught.value.origin.line.endswith(f":{f.__code__.co_firstlineno + 2}")
    with np.errstate(all="raise"):
        assert da.grad(lambda x: x * x)(3.0) == 6.0  # and nothing is left on


def test_other_errors_get_a_note() -> None:
    with pytest.raises(ValueError, match="mine") as caught, da.debug(nan=True):

        def f(x):
            if np.isnan(np.log(x)):
                raise ValueError("mine")
            return x

        da.grad(f)(-1.0)
    assert "the value of `log` became non-finite" in caught.value.__notes__[0]


def test_the_error_keeps_its_origin() -> None:
    with pytest.raises(FloatingPointError) as caught, da.debug(nan=True):
        da.jvp(np.log, (X,), (X,))
    again = pickle.loads(pickle.dumps(caught.value))
    assert again.origin == caught.value.origin
    assert again.code == "DAD018"


def test_a_program_recorded_outside_has_no_forward_information() -> None:
    pull = da.vjp(root, X)[1]
    with da.debug(nan=True), pytest.raises(NonFiniteError, match="no forward information"):
        pull(np.ones(3))


def test_equations_know_their_line_under_debug_only() -> None:
    here = lambda: da.linearize(lambda x: np.sin(x) * x, 1.0)[1].program.equations
    assert {e.line for e in here()} == {""}
    with da.debug():
        lines = {e.line for e in here()}
    assert lines == {f"{__file__}:{here.__code__.co_firstlineno}"}


def test_other_threads_are_not_watched() -> None:
    with da.debug(nan=True), ThreadPoolExecutor(1) as pool:
        assert np.isinf(pool.submit(lambda: da.grad(np.sqrt)(0.0)).result())
        with pytest.raises(NonFiniteError):
            pool.submit(contextvars.copy_context().run, da.grad(np.sqrt), 0.0).result()


def test_nothing_asks_for_a_watch_after_the_block() -> None:
    before = len(in_use)
    with da.debug(nan=True), da.debug_nans():
        assert len(in_use) == before + 2
    with pytest.raises(ZeroDivisionError), da.debug():
        raise ZeroDivisionError
    assert len(in_use) == before


def test_packed_residuals() -> None:
    with da.residual_hooks(lambda a: a.copy(), lambda a: a):
        assert origin_of(lambda: da.grad(lambda x: np.sum(root(x)))(X)).operation == "sqrt"
