"""assert_matches_jax: JAX agrees with what is right, for functions that have no file too, and names what is wrong.

Not for the oracle's own answers (`test_jax_oracle.py`).
"""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

import dualad as da
from dualad.errors import ArgumentError, CheckError, LoadingError
from dualad.testing import assert_matches_jax, check_grads
from tests.testing.faults import faulty

X = np.array([0.4, 1.3])
FIRST = ["jvp", "vjp"]


def helper(x):
    return np.sin(x) * x


def test_without_jax_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == "jax" else found(name, *rest))
    with pytest.raises(LoadingError, match=r"dualad\[oracle\]") as info:
        assert_matches_jax(np.sin, X)
    assert isinstance(info.value, ImportError)
    with pytest.raises(LoadingError):
        check_grads(np.sin, X, oracle="jax")


def test_names_of_transforms() -> None:
    for transforms in (["grad"], []):
        with pytest.raises(ArgumentError, match="transform"):
            assert_matches_jax(np.sin, X, transforms=transforms)


def test_functions_that_agree() -> None:
    pytest.importorskip("jax")
    factor, module = 2.0, np

    def local(x, n):
        return {"y": helper(x) * factor, "z": module.linalg.norm(x) ** n + sum([np.sum(x) for _ in range(n)])}

    assert_matches_jax(local, (X, 2), transforms=[*FIRST, "hvp"])
    assert_matches_jax(np.sin, X, transforms=["jvp"])
    check_grads(lambda x: helper(x), X, order=1, modes="reverse", oracle="jax")


def test_a_fault_is_named() -> None:
    jnp = pytest.importorskip("jax.numpy")
    f = faulty("custom_jvp", "scaled")
    with pytest.raises(CheckError, match=r"jvp disagrees with jax: the tangent of out\[0\]"):
        assert_matches_jax(f, (X, X), jax_f=lambda x, y: x * y + jnp.sin(x), transforms=["jvp"])
    with pytest.raises(CheckError, match=r"jvp disagrees with jax: the tangent of out\[0\]"):
        assert_matches_jax(f, (X, X), transforms=["jvp"])  # JAX differentiates the code, without the rule
    with pytest.raises(CheckError, match=r"with jax\.numpy the function has another value"):
        assert_matches_jax(lambda x: da.stop_gradient(x), X, jax_f=jnp.sin, transforms=["jvp"])
