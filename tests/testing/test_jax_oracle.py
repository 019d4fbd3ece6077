"""JAX as an oracle: the names of the module lead to JAX's, 64-bit mode only inside, and a reason where it can't run."""

from __future__ import annotations

import functools
import importlib.util
import re
import textwrap
from pathlib import Path

import numpy as np
import pytest

import dualad as da
from dualad.lift.loading import load_module
from dualad.testing import Unavailable
from dualad.testing.engine import RealFunction
from dualad.testing.jax_oracle import JaxOracle, in_jax

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
        "import numpy as np\ndef f(x):\n    return x * (2.0 if type(np.ones(1)).__module__ == 'numpy' else 3.0)\n"
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


# ── where the names are found ────────────────────────────────────────────────────────────────────────────────────

SPELLINGS = {
    "import numpy as np": "np.sin(x)",
    "import numpy": "numpy.sin(x)",
    "from numpy import sin": "sin(x)",
    "from numpy import sin as s, cos": "s(x) + cos(x)",
    "from numpy import *": "sin(x)",
    "import numpy.linalg as la": "la.norm(x)",
    "import numpy.linalg": "numpy.linalg.norm(x)",
    "from numpy import linalg": "linalg.norm(x)",
    "from numpy.linalg import norm": "norm(x)",
    "import numpy as np  # attribute": "np.linalg.norm(x)",
    "import scipy": "scipy.special.erf(x)",
    "import scipy.special": "scipy.special.erf(x)",
    "import scipy.special as sp": "sp.erf(x)",
    "from scipy import special": "special.erf(x)",
    "from scipy.special import erf": "erf(x)",
    "from scipy.special import erf, expit": "erf(x) + expit(x)",
    "from scipy import special as sp, linalg": "sp.erf(x) + linalg.det(np.eye(2))",
    "import dualad as da": "da.grad(lambda x: np.sum(np.sin(x)))(x)",
    "from dualad import grad": "grad(lambda x: np.sum(np.sin(x)))(x)",
}


def loaded(tmp_path, source, name="target.py"):
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(source))
    return load_module(path)


def of_jax(f, *args):
    """Run a function with JAX's names, and without; say what JAX made, which agrees."""
    here, found, again = f(*args), in_jax(f)(*args), f(*args)
    assert not isinstance(here, jax.Array) and not isinstance(again, jax.Array), "JAX's names have stayed"
    np.testing.assert_allclose(found, here, rtol=1e-5)
    return isinstance(found, jax.Array)


@pytest.mark.parametrize("statement", SPELLINGS)
def test_every_spelling_of_an_import_leads_to_jax(tmp_path, statement):
    source = f"import numpy as np\n{statement}\ndef f(x):\n    return {SPELLINGS[statement]}\n"
    assert of_jax(loaded(tmp_path, source).f, X)


@pytest.mark.parametrize("statement", [s for s in SPELLINGS if "*" not in s])
def test_imports_inside_functions_lead_to_jax(tmp_path, statement):
    source = f"""
        import numpy as np
        def f(x):
            {statement.split("  #")[0]}
            return {SPELLINGS[statement]}
    """
    assert of_jax(loaded(tmp_path, source).f, X)


def test_a_name_that_jax_lacks_is_the_original(tmp_path):
    module = loaded(tmp_path, "import numpy as np\ndef f():\n    return np.random.default_rng(0).normal(size=3)\n")
    np.testing.assert_array_equal(in_jax(module.f)(), np.random.default_rng(0).normal(size=3))
    module = loaded(tmp_path, "import numpy as np\ndef f():\n    return np.no_such_thing\n")
    with pytest.raises(AttributeError, match="no_such_thing"):
        in_jax(module.f)()


def test_classes_closures_caches_and_the_modules_beside_are_reached(tmp_path):
    loaded(tmp_path, "import numpy as np\ndef g(x):\n    return np.sin(x)\n", "beside_target.py")
    module = loaded(
        tmp_path,
        """
        import functools
        import beside_target
        import numpy as np
        from beside_target import g

        def twice(h):
            @functools.wraps(h)
            def wrapper(*args):
                return h(*args) + h(*args)
            return wrapper

        @twice
        def decorated(x):
            return np.sin(x) + g(x) + beside_target.g(x)

        @functools.lru_cache
        def cached(n):
            return np.sin(float(n))

        vectorized = np.vectorize(lambda x: np.sin(x))

        class Model:
            scale = staticmethod(np.cos)

            def f(self, x):
                return np.sin(x) * self.scale(x)

        FUNCTIONS = {"sin": np.sin, "rest": [np.cos, np.exp]}

        def held(x):
            return FUNCTIONS["sin"](x) + FUNCTIONS["rest"][1](x)
        """,
    )
    for f in (module.decorated, module.Model().f, module.held, module.vectorized):
        assert of_jax(f, X), f
    assert of_jax(module.cached, 2)


def test_a_package_is_reached_through_relative_imports(tmp_path):
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "__init__.py").write_text("from .core import base\n")
    (tmp_path / "pkg" / "core.py").write_text("import numpy as np\ndef base(x):\n    return np.sin(x)\n")
    module = loaded(
        tmp_path,
        """
        from . import base, core
        def f(x):
            from .core import base as inside
            return base(x) + core.base(x) + inside(x)
        """,
        "pkg/deep.py",
    )
    assert of_jax(module.f, X)


def test_functions_of_numpy_partials_and_closures(tmp_path):
    factor, module = 2.0, np

    def local(x, n):
        return module.sin(x) * factor + n

    assert of_jax(np.sin, X) and of_jax(np.linalg.norm, X)
    assert of_jax(local, X, 1.0) and of_jax(functools.partial(local, n=2.0), X)
    assert of_jax(da.grad(lambda x: np.sum(np.sin(x))), X)


def test_a_lifted_call_beside_it_meets_its_own_names(tmp_path):
    module = loaded(tmp_path, "import numpy as np\ndef f(x):\n    return np.sin(x) * np.ones(3)\n")
    lifted = da.lift(module.f)
    for _ in range(2):
        assert of_jax(module.f, X)
        np.testing.assert_allclose(np.diag(da.jacfwd(lifted)(X)), np.cos(X))


def test_points_share_compiled_code_only_when_what_is_held_fixed_is_equal():
    shared = {}

    def jacobian(w, n):
        function = RealFunction(functions.tree, ({"w": w, "b": X}, n, "plain"))
        return JaxOracle(function, None, shared).jacobian().value

    factor = np.exp(X)
    for w, n in ((X, 3), (2 * X, 3), (X, 5), (X[:1], 3)):
        found = jacobian(w, n)
        expected = np.hstack([np.diag(w * factor * n), np.diag(factor * n)]) if w.size == 3 else None
        if expected is not None:
            np.testing.assert_allclose(found, expected, rtol=1e-14)
        else:
            np.testing.assert_allclose(found[:, 3], factor * n, rtol=1e-14)
    assert len(shared) == 3, "code for three kinds of points"
