"""What an error of NumPy's, SciPy's or Python's becomes at a transform's boundary, and what stays the user's own.

Not for: refusals that a function catches (tests/edges/test_swallowed_refusals.py), nor the words of single libraries
(tests/edges/test_messages.py).
"""

from __future__ import annotations

import fractions
import json
import pickle
import re
import statistics
import warnings

import numpy as np
import pytest
import scipy.linalg
import scipy.optimize

import dualad as da
from dualad.boundary.swallowed import RefusalSwallowedWarning
from dualad.errors import ConversionError, DualadError, InPlaceError, PlainBufferError

pytestmark = pytest.mark.plain

X = np.array([1.0, 2.0])


def into_flat(x):
    out = np.zeros(2)
    out.flat[0] = x[0]
    return out


def into_slice(x):
    out = np.zeros(2)
    out[:] = x
    return out


REWORDED = {
    "flat": (into_flat, ConversionError, "write into a plain array", r"np\.zeros_like\(x\)"),
    "slice": (into_slice, PlainBufferError, "converted to a plain array", r"np\.zeros_like\(x\)"),
    "nditer": (lambda x: list(np.nditer(x)), ConversionError, "NPY_ITER_REFS_OK", r"x\.flat"),
    "mean": (lambda x: statistics.mean([x[0], x[1]]), ConversionError, "exact arithmetic was given", r"np\.mean\(x\)"),
    "fraction": (lambda x: fractions.Fraction(1, 2) + statistics.mean([x[0]]), ConversionError, "exact", r"np\.mean"),
    "index": (lambda x: X[x], ConversionError, r"operator\.index\(\) was called", r"int\(x\)"),
    "SciPy's": (
        lambda x: scipy.linalg.expm(np.stack([x, x])), ConversionError, "a function of SciPy was given a tensor: ",
        r"use dualad\.scipy\.linalg\.expm",
    ),
    "SciPy's that NumPy refused": (
        lambda x: scipy.linalg.cho_factor(x[None] * x), ConversionError, "a function of SciPy was given a tensor: ",
        r"dualad\.scipy\.linalg\.cho_factor",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REWORDED)
def test_errors_of_others_say_what_to_write(name: str) -> None:
    f, kind, what, instead = REWORDED[name]
    with pytest.raises(kind, match=what) as caught:
        da.trace(f, X) if name == "index" else da.jvp(f, (X,), (X,))
    error = caught.value
    assert re.search(instead, error.instead)
    assert error.what.count("\n  At: ") == 1  # once, and with the user's line
    assert "test_boundary.py" in error.what.partition("\n  At: ")[2]
    assert ":" in error.what.partition("\n  At: ")[2]


OWN = {
    "a value": ValueError("Error setting something else."),
    "in NumPy's words": ValueError("Error setting single item of array."),
    "a type": TypeError("can not convert"),
    "an index": IndexError("only integers, slices"),
    "an iterator": TypeError("NPY_ITER_REFS_OK"),
    "json's": TypeError("Object of type traced number is not JSON serializable"),
    "of no kind of NumPy's": KeyError("k"),
}


def test_json_names_what_it_was_given() -> None:
    for f in (lambda x: json.dumps({"loss": x[0]}), lambda x: json.dumps([np.sum(x) * 1j])):
        with pytest.raises(TypeError, match="traced number is not JSON serializable"):
            da.jvp(f, (X,), (X,))


@pytest.mark.parametrize("name", OWN)
def test_errors_of_the_users_own_stay_as_they_are(name: str) -> None:
    def f(x):
        raise OWN[name]

    for run in (
        lambda: da.jvp(f, (X,), (X,)),
        lambda: da.vmap(f, (0,))(X),
        lambda: da.grad(lambda x: da.vmap(f)(x))(X),
    ):
        with pytest.raises(type(OWN[name])) as caught:
            run()
        assert caught.value is OWN[name]


def test_a_cause_that_goes_round_in_a_circle_ends() -> None:
    def f(x):
        first, second = ValueError("first"), ValueError("second")
        first.__cause__, second.__cause__ = second, first
        raise first

    with pytest.raises(ValueError, match="first"):
        da.jvp(f, (X,), (X,))


@pytest.mark.parametrize("link", ["cause", "context"])
def test_a_refusal_behind_another_error_is_what_is_told(link: str) -> None:
    def f(x):
        try:
            np.asarray(x, float)
        except DualadError as error:
            if link == "cause":
                raise ValueError("hidden") from error
            raise ValueError("hidden")  # noqa: B904
        return x

    with pytest.raises(PlainBufferError, match="converted to a plain array") as caught:
        da.jvp(f, (X,), (X,))
    assert str(caught.value.__cause__) == "hidden"


def swallowing(then):
    def f(x):
        try:
            np.asarray(x, float)
        except TypeError:
            pass
        return then(x)

    return f


def fail(x):
    raise KeyError("later")


def test_a_function_that_fails_afterwards_has_not_gone_on() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", RefusalSwallowedWarning)
        with pytest.raises(KeyError):
            da.jvp(swallowing(fail), (X,), (X,))

    def outer(x):
        try:
            da.vmap(swallowing(fail))(x)
        except KeyError:
            return np.sum(x)

    with pytest.warns(RefusalSwallowedWarning, match="went on after a refusal"):
        assert da.grad(outer)(X).tolist() == [1.0, 1.0]


def test_what_the_first_of_two_runs_was_refused_is_forgotten_and_nothing_else() -> None:
    base = np.zeros(3)

    def writes(x, base):
        base[0] = x
        return base * 1.0

    inner = lambda x: np.sum(da.vmap(writes, (0, None))(x, base))
    with warnings.catch_warnings():
        warnings.simplefilter("error", RefusalSwallowedWarning)
        np.testing.assert_array_equal(da.grad(inner)(X), [1.0, 1.0])
    with pytest.warns(RefusalSwallowedWarning, match="went on after a refusal"):
        np.testing.assert_array_equal(da.grad(swallowing(inner))(X), [1.0, 1.0])


def test_an_error_of_the_second_run_is_told_with_the_first() -> None:
    def f(x, base):
        base[0] = x
        raise InPlaceError("mine", "because", "so")

    with pytest.raises(InPlaceError, match="mine") as caught:
        da.vmap(f, (0, None))(X, np.zeros(3))
    assert isinstance(caught.value.__cause__, DualadError)


ONCE = {name: row[:2] for name, row in REWORDED.items() if name != "index"} | {
    "set by C": (lambda x: scipy.optimize.brentq(lambda p: p * p - x[0], 0.0, 5.0), ConversionError),
    "a branch of SciPy's": (
        lambda x: da.trace(lambda y: scipy.optimize.newton(lambda p: p - y, 1.0), x[0]),
        ConversionError,
    ),
}


@pytest.mark.parametrize("name", ONCE)
def test_an_error_is_told_once_however_many_transforms_it_passes(name: str) -> None:
    f, kind = ONCE[name]
    said = []
    for run in (f, lambda x: da.jvp(f, (x,), (X,))[0], lambda x: da.grad(lambda y: da.jvp(f, (y,), (X,))[0])(x)):
        with pytest.raises(kind) as caught:
            da.jvp(run, (X,), (X,))
        said.append((caught.value.what, caught.value.instead))
    assert said[0] == said[1] and said[2][0].count("\n  At: ") == 1


def test_a_refusal_that_went_through_scipy_keeps_its_words() -> None:
    with pytest.raises(ConversionError) as caught:
        da.jvp(lambda x: scipy.optimize.curve_fit(lambda t, a: a * t, np.arange(2.0), x)[0], (X,), (X,))
    first = caught.value.what.splitlines()[0]
    assert first.startswith("a function of SciPy was given a tensor: a Dual tensor (of `jvp`) of shape (2,)")


@pytest.mark.parametrize("solver", ["brentq", "brenth", "ridder", "bisect"])
@pytest.mark.parametrize("run", [lambda f: da.jvp(f, (2.0,), (1.0,)), lambda f: da.vmap(f)(X)], ids=["jvp", "vmap"])
def test_where_c_drops_a_refusal_the_function_of_scipys_is_named(solver: str, run) -> None:
    """C goes on with an error that is set, or with a number of its own; what comes up then has other words."""
    with pytest.raises(ConversionError, match="a function of SciPy was given a tensor") as caught:
        run(lambda x: getattr(scipy.optimize, solver)(lambda p: p * p - x, 0.0, 5.0))
    assert f"dualad.scipy.optimize.{solver}" in caught.value.instead


def test_scipys_errors_about_plain_numbers_stay_as_they_are() -> None:
    for wrong in (
        lambda: scipy.linalg.solve_triangular(np.eye(3), np.ones(2)),
        lambda: scipy.linalg.cholesky(-np.eye(2)),
        lambda: scipy.optimize.brentq(lambda p: p * p + 1.0, 0.0, 5.0),
    ):
        with pytest.raises((ValueError, TypeError)) as plain:
            wrong()
        with pytest.raises(type(plain.value)) as caught:
            da.jvp(lambda x, wrong=wrong: x * np.sum(wrong()), (X,), (X,))
        assert type(caught.value) is type(plain.value) and str(caught.value) == str(plain.value)


def test_an_error_that_was_told_in_another_process_is_told_once() -> None:
    f, kind, *_ = REWORDED["slice"]
    with pytest.raises(kind) as caught:
        da.jvp(f, (X,), (X,))

    def again(x):
        raise pickle.loads(pickle.dumps(caught.value))

    with pytest.raises(kind) as later:
        da.jvp(again, (X,), (X,))
    assert str(later.value) == str(caught.value)


SCIPY: dict = {"__name__": "scipy.optimize._zeros_py"}
exec(  # a function that goes on with a number of its own, as C does, and says something of that
    """
def brentq(f):
    try:
        float(f())
    except Exception:
        pass
    raise ValueError("no bracket\\nat all")
""",
    SCIPY,
)


def test_what_scipy_says_after_it_was_refused_a_number_is_about_the_tensor() -> None:
    with pytest.raises(ConversionError, match=r"was given a tensor: no bracket\n  At: ") as caught:
        da.trace(lambda x: SCIPY["brentq"](lambda: x), 1.0)
    assert "dualad.scipy.optimize.brentq" in caught.value.instead

    def refused_elsewhere(x):
        try:
            float(x)
        except DualadError:
            pass
        return x * SCIPY["brentq"](lambda: 1.0)

    with pytest.raises(ValueError, match="no bracket") as own:
        da.trace(refused_elsewhere, 1.0)
    assert type(own.value) is ValueError
