"""The pytest plugin, in sessions of its own: what passes, what fails and in which words, what it costs at the start.

Not for the check itself (`test_check.py`).
"""

from __future__ import annotations

import numpy as np
import pytest

from dualad.errors import ArgumentError
from dualad.testing import QUANTITIES
from dualad.testing.pytest_plugin import as_points, check_points, function_under_check, skipped_quantities
from tests.testing.faults import faulty

pytest_plugins = ["pytester"]

SESSION = """
import numpy as np
import pytest
import dualad as da

X = np.array([0.3, 1.2])
calls = []

@pytest.fixture
def rate():
    return 3.0

@pytest.mark.dualad(points=[(X, 2.0), {"x": X + 1, "y": 0.5}])
def test_right(x, y):
    return {"a": np.sin(x) * y, "n": 3}

@pytest.mark.dualad(points=lambda: [X], order=1)
def test_with_a_fixture(x, rate):
    return np.exp(-rate * x)

class TestMethods:
    @pytest.mark.dualad(points=[(X,), (X * 2,)], modes="forward")
    def test_method(self, x):
        return np.cumsum(x)

@pytest.mark.dualad(points=[X, X + 1], oracle="differences")
def test_function_of_a_module():
    return np.sin

def test_fixture(check_derivatives):
    check_derivatives(np.tanh, X)
    check_derivatives(np.multiply, (X, X), order=1, oracle=["differences"])
    check_derivatives(np.cos, points=[(1.0,), (2.0,)], batched=False)

def test_plain():
    assert True

@pytest.mark.dualad(points=[(X,)])
def test_wrong(x):
    return np.sin(x) * da.stop_gradient(x)

def test_wrong_in_the_fixture(check_derivatives):
    check_derivatives(lambda x: da.stop_gradient(x) * 2.0, X)

@pytest.mark.dualad(points=[(1, 2)])
def test_of_integers(x, y):
    return x * y

@pytest.mark.dualad(points=[(X,)])
@pytest.mark.xfail(strict=True)
def test_expected(x):
    return da.stop_gradient(x)
"""


def test_a_session(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(SESSION)
    result = pytester.runpytest_inprocess("-p", "pytest_dualad", "-W", "error", "--strict-markers", "-v")
    result.assert_outcomes(passed=8, failed=3, xfailed=1)
    text = result.stdout.str()
    assert "derivatives of test_wrong[point1] at ([0.3 1.2]): " in text and "quantities are wrong" in text
    assert (
        "  jvp        the tangent of out[1] is -0.06893167913, differences has -0.2166839544, complex-step too (tol"
        in text
    )
    assert "(ok: value, vmap-value)" in text
    assert "Write floats: 1.0 instead of 1" in text
    assert "site-packages" not in text and "dualad/testing" not in text and "Traceback" not in text


def test_options_and_mistakes(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\ndualad_oracle = differences dot\n")
    pytester.makepyfile(
        test_options="""
        import numpy as np
        import pytest

        @pytest.mark.dualad(points=[np.ones(2)])
        def test_oracles(x):
            return np.sin(x)
        """,
        test_points="""
        import pytest

        @pytest.mark.dualad(points=[(1.0, 2.0), (1.0,)])
        def test_lengths(x, y):
            return x * y
        """,
        test_none="""
        import pytest

        @pytest.mark.dualad
        def test_no_points(x):
            return x
        """,
    )
    result = pytester.runpytest_inprocess(
        "-p", "pytest_dualad", "--dualad-oracle", "crystal-ball", "--dualad-seed", "3"
    )
    result.assert_outcomes(errors=2)
    text = result.stdout.str()
    assert "points have 1, 2 arguments" in text and "You gave no points" in text
    result = pytester.runpytest_inprocess("-p", "pytest_dualad", "test_options.py", "--dualad-oracle", "crystal-ball")
    assert "You named the oracle 'crystal-ball'" in result.stdout.str()
    pytester.runpytest_inprocess("-p", "pytest_dualad", "test_options.py").assert_outcomes(passed=1)
    result = pytester.runpytest_inprocess("-p", "pytest_dualad", "--markers")
    assert "@pytest.mark.dualad(points," in result.stdout.str()


def test_nothing_is_loaded_until_a_test_asks(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # others' plugins load what they like
    pytester.makepyfile(
        """
        import sys

        def test_plain():
            assert not {"numpy", "dualad", "jax", "hypothesis"} & set(sys.modules)
        """
    )
    result = pytester.runpytest_subprocess("-p", "pytest_dualad")
    result.assert_outcomes(passed=1)


def test_points_and_requests() -> None:
    assert as_points(lambda: [1.0], []) == [(1.0,)]
    assert as_points([[1.0, 2.0]], ["x"]) == [([1.0, 2.0],)]
    for points, names in (([], ["x"]), (None, []), ([{"z": 1.0}], ["x"])):
        with pytest.raises(ArgumentError):
            as_points(points, names)
    assert set(skipped_quantities(modes="forward")) == set(QUANTITIES) - {"jvp", "jacfwd", "vmap-jvp", "vmap-value"}
    assert set(skipped_quantities(batched=False)) == {"vmap-jvp", "vmap-vjp", "vmap-value"}
    with pytest.raises(ArgumentError, match="order"):
        skipped_quantities(order=0)


def test_words_of_several_points() -> None:
    f = function_under_check(lambda x, k: np.real(np.conj(x) * k), ["x"], {"k": 2.0})
    assert check_points(f, [(1.0,), (np.ones(30),)], order=1, oracle="differences") == ""
    words = check_points(np.sqrt, [(1.0,), (0.0,)], name="root", oracle="differences", order=1)
    assert words.startswith("derivatives of root at point 2: ") and "no oracle could judge" in words


def test_jax_is_asked_when_it_is_named() -> None:
    pytest.importorskip("jax")
    rate = 2.0
    f = function_under_check(lambda x, k: np.exp(-rate * x) * k, ["x"], {"k": 2.0})
    assert check_points(f, [(np.ones(2),)], oracle="jax", order=1, modes="reverse", batched=False) == ""
    wrong = faulty("custom_jvp", "scaled")
    words = check_points(lambda x: wrong(x, x), [(1.0,)], oracle="jax", order=1, modes="forward", batched=False)
    assert "jvp        the tangent of out is " in words and ", jax has " in words
