"""JAX as an oracle: the module loaded again, 64-bit mode only inside, and a reason where it can't run."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from dualad.lift.loading import load_module
from dualad.testing import Unavailable
from dualad.testing.jax_oracle import JaxOracle, find_source
from dualad.testing.real_function import RealFunction

jax = pytest.importorskip("jax")

functions = load_module(Path(__file__).parent / "functions.py")
X = np.array([0.6, 1.1, 1.9])


def oracle(name, *args):
    function = getattr(functions, name)
    return JaxOracle(RealFunction(function, args))


def test_all_questions_on_a_smooth_function():
    found = oracle("smooth", X, X[::-1].copy())
    assert found.trouble is None
    x, y = X, X[::-1]
    J = np.hstack([np.diag(np.cos(x) * np.exp(y) + y), np.diag(np.sin(x) * np.exp(y) + x)])
    v, w = np.arange(1.0, 7.0), np.arange(1.0, 4.0)
    np.testing.assert_allclose(found.jacobian().value, J, rtol=1e-14)
    np.testing.assert_allclose(found.jvp(v).value, J @ v, rtol=1e-14)
    np.testing.assert_allclose(found.vjp(w).value, w @ J, rtol=1e-14)
    np.testing.assert_allclose(found.value(np.r_[x, y]).value, np.sin(x) * np.exp(y) + x * y, rtol=1e-15)


def test_second_derivatives():
    found = oracle("scalar", X).hvp(np.ones(1), X)
    second = -np.sin(X) * X**2 + 4 * np.cos(X) * X + 2 * np.sin(X)
    np.testing.assert_allclose(found.value, second * X, rtol=1e-13)


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("tree", ({"w": X, "b": X, "k": np.array([1])}, 3, "plain")),
        ("special", (X,)),
        ("rosenbrock", (X,)),
        ("with_absolute_value", (X,)),
        ("in_complex_plane", (X + 0.5j,)),
        ("branches", (0.5,)),
        ("differentiates_inside", (X,)),
        ("stops", (X,)),
    ],
)
def test_it_runs_on(name, args):
    found = oracle(name, *args)
    assert found.trouble is None, found.trouble
    assert np.isfinite(found.jacobian().value).all()


def test_dualads_own_transforms_become_jaxs():
    # sin(x) times a constant: the derivative is cos(x) x, without the second term.
    np.testing.assert_allclose(np.diag(oracle("stops", X).jacobian().value), np.cos(X) * X, rtol=1e-14)


@pytest.mark.parametrize(
    ("name", "args", "reason"),
    [
        ("with_own_buffer", (X,), "no item assignment"),
        ("beyond_jax", (X,), "reached plain NumPy"),
    ],
)
def test_why_it_cannot_run(name, args, reason):
    found = oracle(name, *args)
    answer = found.trouble or found.jvp(np.ones(3))
    assert isinstance(answer, Unavailable)
    assert re.search(reason, answer.reason)
    if found.trouble:
        assert found.jacobian() is found.trouble and found.hvp(np.ones(3), np.ones(3)) is found.trouble


def test_another_value_with_jax_disqualifies_it(tmp_path):
    path = tmp_path / "different.py"
    path.write_text(
        "import numpy as np\nFACTOR = 2.0 if type(np.ones(1)).__module__ == 'numpy' else 3.0\n"
        "def f(x):\n    return x * FACTOR\n"
    )
    module = load_module(path)
    found = JaxOracle(RealFunction(module.f, (1.5,)))
    assert "another value: out = 4.5, not 3" in found.trouble.reason


def test_64_bit_mode_stays_off_outside():
    before = jax.config.jax_enable_x64
    oracle("scalar", X).jacobian()
    assert jax.config.jax_enable_x64 is before
    if not before:
        assert jax.numpy.ones(1).dtype == np.float32


def test_without_jax_it_says_how_to_get_it(monkeypatch):
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *a: None if name == "jax" else real(name, *a))
    without = oracle("scalar", X)
    assert "pip install" in without.trouble.reason
    v, w = np.ones(without.function.size), np.ones(without.function.out_size)
    for answer in (without.value(X), without.jvp(v), without.vjp(w), without.jacobian(), without.hvp(w, v)):
        assert isinstance(answer, Unavailable)
        assert "pip install" in answer.reason


def test_functions_that_no_second_loading_can_find():
    assert find_source(lambda x: x) is None and find_source(np.vectorize(lambda x: x)) is None
    assert find_source(functions.scalar) == (sys.modules[functions.__name__], "scalar")


def test_points_share_compiled_code_only_when_what_is_held_fixed_is_equal():
    shared, source = {}, (sys.modules[functions.__name__], "tree")

    def jacobian(w, n):
        function = RealFunction(functions.tree, ({"w": w, "b": X}, n, "plain"))
        return JaxOracle(function, source, shared).jacobian().value

    factor = np.exp(X)
    for w, n in ((X, 3), (2 * X, 3), (X, 5), (X[:1], 3)):
        found = jacobian(w, n)
        expected = np.hstack([np.diag(w * factor * n), np.diag(factor * n)]) if w.size == 3 else None
        if expected is not None:
            np.testing.assert_allclose(found, expected, rtol=1e-14)
        else:
            np.testing.assert_allclose(found[:, 3], factor * n, rtol=1e-14)
    assert len(shared) == 4, "one second loading, and code for three kinds of points"
