"""gradcheck: right functions pass, planted faults are caught in every mode, and the report says what and where.

Not for the rows of the capability table (`tests/capabilities/test_gradcheck.py`).
"""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import dualad as da
from dualad.errors import ArgumentError, GradcheckError, NotLinearError, RuleMissingError, UsageError
from dualad.testing import gradcheck
from tests.testing.faults import ARGS, COMPLEX, FAULTS, faulty

LEAN = {"check_batched_grad": False, "check_batched_forward_grad": False, "check_undefined_grad": False}


def caught(f, args, **switches) -> GradcheckError:
    with pytest.raises(GradcheckError) as info:
        gradcheck(f, args, **switches)
    return info.value


@pytest.mark.parametrize("fast", [False, True], ids=["slow", "fast"])
@pytest.mark.parametrize("mode", ["forward", "reverse"])
@pytest.mark.parametrize("fault", [f for f in FAULTS if f != "second order"])
@pytest.mark.parametrize("kind", ["custom_jvp", "custom_vjp"])
def test_planted_faults_are_caught(kind: str, fault: str, mode: str, fast: bool) -> None:
    if fault == "in lanes" and (kind == "custom_vjp") == (mode == "forward"):
        # A function with a vmap rule can't be transposed: the other mode says so.
        with pytest.raises((NotLinearError, RuleMissingError)):
            gradcheck(faulty(kind, fault), ARGS, modes=mode, fast_mode=fast)
        return
    args = COMPLEX if fault == "conjugated" else ARGS
    error = caught(faulty(kind, fault), args, modes=mode, fast_mode=fast)
    expected = {"random": "determinism", "in lanes": f"batched {mode}"}.get(fault, mode)
    # Noise, too, may be seen first as a wrong number.
    assert error.check == expected or (fault == "random" and error.check == mode)


@pytest.mark.parametrize("fast", [False, True], ids=["slow", "fast"])
@pytest.mark.parametrize("kind", ["custom_jvp", "custom_vjp"])
def test_right_rules_pass(kind: str, fast: bool) -> None:
    assert gradcheck(faulty(kind, "none"), ARGS, fast_mode=fast)
    assert gradcheck(faulty(kind, "none"), COMPLEX, fast_mode=fast)
    # first derivatives are right where only the second is wrong
    assert gradcheck(faulty(kind, "second order"), ARGS, fast_mode=fast)


def test_report_names_what_and_where() -> None:
    def f(a, b):
        return a * 2.0, np.sin(a) * da.stop_gradient(b)

    error = caught(f, (1.0, np.array([0.5, 0.6])), modes="fwd")
    assert (error.output, error.input, error.check, error.part) == (1, 1, "forward", "")
    assert np.array_equal(error.analytical, np.zeros((2, 2)))
    assert np.allclose(error.numerical, np.sin(1.0) * np.eye(2))
    text = str(error)
    assert "gradcheck of `f`" in text and "forward-mode derivative of output 1" in text and "input 1, b[0]" in text
    assert "stop_gradient" in error.why and "2 of 4 entries" in text
    assert isinstance(error, AssertionError) and isinstance(error, RuntimeError)
    assert str(pickle.loads(pickle.dumps(error))) == text


@pytest.mark.parametrize(
    ("fault", "words"),
    [("scaled", "1.1 times"), ("shifted", "how the values change"), ("dropped", "exactly zero")],
)
def test_report_guesses_the_cause(fault: str, words: str) -> None:
    assert words in caught(faulty("custom_jvp", fault), ARGS, modes="rev").why


def test_transposed_jacobian_is_called_that() -> None:
    matrix = np.array([[1.0, 2.0, 0.0], [0.0, 3.0, 1.0], [2.0, 0.0, 1.0]])
    f = da.custom_vjp(lambda x: matrix @ x)
    f.defvjp(lambda x: (matrix @ x, None), lambda _, c: (matrix @ c,))
    for mode in ("forward", "reverse"):
        assert "transpose" in caught(f, (ARGS[0],), modes=mode).why


def test_value_of_a_rule_is_compared_too() -> None:
    f = da.custom_jvp(np.sin)
    f.defjvp(lambda p, t: (np.sin(p[0]) + 0.1, np.cos(p[0]) * t[0]))
    for mode in ("forward", "reverse"):
        assert caught(f, (0.3,), modes=mode).check == "value"


def test_kinks_are_explained() -> None:
    error = caught(np.abs, (np.array([0.0, 1.0]),))
    assert "at a kink" in str(error) and "-1 and 1" in str(error) and "kinks='accept'" in str(error)
    assert gradcheck(np.abs, (np.array([0.0, 1.0]),), kinks="accept")
    steep = da.custom_jvp(np.abs)
    steep.defjvp(lambda p, t: (np.abs(p[0]), 1.5 * t[0]))
    assert "at a kink" in str(caught(steep, (np.array([0.0, 1.0]),), kinks="accept", **LEAN))
    with pytest.raises(ArgumentError, match="kinks"):
        gradcheck(np.abs, (1.0,), kinks="ignore")


def test_what_cannot_be_judged_is_not_passed() -> None:
    assert "could not judge" in str(caught(np.sqrt, (0.0,)))
    rng = np.random.default_rng(0)
    error = caught(lambda x: x + rng.standard_normal(), (1.0,))
    assert error.check == "determinism" and "two different values" in str(error)


def test_step_is_chosen_by_scale() -> None:
    # A fixed step of 1e-6 sees neither: the first is flat on that scale, the second has many periods within it.
    assert gradcheck(lambda x: np.sin(x * 1e-8), (np.array([1e8, 2e8]),))
    assert gradcheck(lambda x: np.sin(x * 1e8), (np.array([1e-8, 3e-8]),))
    assert gradcheck(np.sin, (0.3,), eps=1e-5)
    assert caught(lambda x: 1e-9 * np.sin(da.stop_gradient(x)), (0.3,)).check == "forward"


def test_trees_integers_and_strings() -> None:
    def f(params, n, how):
        assert how == "fast"
        return {"y": params["w"][n] ** n * params["b"], "n": n, "pair": (params["w"].sum(), np.arange(n))}

    assert gradcheck(f, ({"w": ARGS[0], "b": 2.0, "i": np.arange(3)}, 2, "fast"))


def test_layouts_of_arguments_are_those_of_real_use() -> None:
    seen = []

    def f(x):
        seen.append(None if isinstance(x, da.Dual) else x.strides)
        return np.sum(x**2)

    x = np.arange(12.0).reshape(3, 4).T[::2]
    before = x.copy()
    assert gradcheck(f, (x,))
    assert np.array_equal(x, before) and None in seen


def test_arguments_are_never_written() -> None:
    def f(x, k):
        k += 1
        x = x * 1.0
        x[0] = 2.0 * x[1]
        return x * k

    k = np.array([1, 2, 3])
    assert gradcheck(f, (ARGS[0], k), **LEAN)
    assert k.tolist() == [1, 2, 3]


def test_one_array_and_nothing_to_check() -> None:
    assert gradcheck(np.sin, np.array([0.1, 0.2]))
    assert gradcheck(np.sin, np.zeros(0))
    assert gradcheck(lambda x: (), (1.0,))
    with pytest.raises(UsageError, match="floating-point"):
        gradcheck(np.sin, (1,), raise_exception=False)
    with pytest.raises(ArgumentError, match="mode"):
        gradcheck(np.sin, (1.0,), modes="sideways")


def test_what_is_no_array_is_not_looked_into():
    class Rows:
        def __len__(self):
            return 3

        def __getitem__(self, i):
            raise RuntimeError("nobody asked")

    assert gradcheck(lambda x, rows: x * 2, (np.array([0.3, 0.7]), Rows()))


@pytest.mark.parametrize(
    "mixed",
    [
        lambda x: np.sin(x[::-1]),
        lambda x: np.sin(x) + x - np.mean(x, 0),
        lambda x: np.broadcast_to(np.sin(x[:1]), x.shape),
        lambda x: np.sin(np.roll(x, 1, 0)),
    ],
)
@pytest.mark.parametrize("x", [0.3, np.array([0.3, 0.7])])
def test_a_vmap_rule_that_mixes_lanes_is_found(mixed, x):
    f = da.custom_vmap(np.sin)
    f.def_vmap(lambda size, mapped, x: (mixed(x), True))
    with pytest.raises(GradcheckError, match="under vmap") as caught:
        gradcheck(lambda x: f(x) ** 2, (x,))
    assert "custom_vmap" in caught.value.instead
    assert gradcheck(lambda x: f(x) ** 2, (x,), check_batched_grad=False, check_batched_forward_grad=False)


def test_a_function_that_takes_one_point_at_a_time_is_checked_at_one():
    def f(x):
        assert type(x.shape) is tuple and not isinstance(x, da.batched.Batched)
        return np.sin(x)

    assert gradcheck(
        f, (np.array([0.3, 0.7]),), check_batched_grad=True, check_batched_forward_grad=False, modes="reverse"
    )
