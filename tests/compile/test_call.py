"""Derivatives of compiled functions beside poles: the zeros that eager code finds strong are.

Found by ``tests/adversaries/derivatives.py``. Not for: compiled derivatives (``test_jit.py``).
"""

from __future__ import annotations

import numpy as np
import pytest

import dualad as da
from dualad.errors import ConversionError

POLES = {
    "a deviation of one entry": (lambda x: np.sum(1.0 / np.std(x, 0)), np.array([[2.0], [1.0], [-2.0]]).T),
    "a variance over itself": (lambda x: np.var(x) / np.var(x), np.array([1.0])),
    "a quotient by a power": (lambda x: np.sum(np.array([3.0, 1.0]) / x**3), np.array([[0.0, 1.0], [-0.5, 3.0]])),
    "an angle of zero": (lambda x: np.sum(np.reciprocal(np.arctan2(x, x))), np.array([0.0, -1.0])),
    "a root of zero": (lambda x: np.sum(np.where(x > 0, np.sqrt(x), 0.0)), np.array([0.0, 4.0])),
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", POLES)
@pytest.mark.parametrize("transform", [da.grad, lambda f: da.vmap(da.grad(f)), da.jacrev, da.jacfwd, da.hessian])
def test_the_derivative_of_a_compiled_function_beside_a_pole_is_the_eager_one(name: str, transform, backend) -> None:
    f, x = POLES[name]
    x = x if transform in (da.grad, da.jacrev, da.jacfwd, da.hessian) else np.stack([x, x + 0.5])
    expected = transform(f)(x)
    found = transform(da.jit(f))(x)
    number = ~np.isnan(expected)
    np.testing.assert_allclose(found[number], expected[number], rtol=1e-10)


@pytest.mark.parametrize(
    "use", [lambda x, n: sum([x for _ in range(n)]) - x * (n - 1), lambda x, n: x[:n], lambda x, n: x + np.zeros(n)]
)
def test_a_count_that_is_traced_names_static_argnums(use) -> None:
    with pytest.raises(ConversionError, match="static_argnums"):
        da.jit(use)(np.ones(3), 3)
    assert np.array_equal(da.jit(use, static_argnums=1)(np.ones(3), 3), np.ones(3))


def test_a_refusal_of_what_values_decide_names_the_way_to_compile_it():
    for f in (lambda x: x[x > 0], lambda x: x[: int(x[0])], lambda x: x if x[0] > 0 else -x):
        with pytest.raises(da.errors.DualadError) as caught:
            da.jit(f)(np.array([1.0, 2.0]))
        assert "specialise=True" in caught.value.instead
        np.testing.assert_array_equal(da.jit(f, specialise=True)(np.array([1.0, 2.0])), f(np.array([1.0, 2.0])))
