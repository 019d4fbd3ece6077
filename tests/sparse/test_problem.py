"""What the pattern of a sparse derivative was read from changes: connectivity, attributes, flags, objects."""

from __future__ import annotations

import types

import numpy as np
import pytest

import dualad as da
from dualad.errors import SparsityError
from dualad.sparse.problem import form_of

X = np.linspace(1.0, 2.0, 5)


def _cases() -> dict:
    index, settings, weights = np.array([1, 2, 3, 4, 0]), types.SimpleNamespace(turned=False), np.ones(5)
    neighbours, count, mesh = [1, 2, 3, 4, 0], [0], {"level": 1}

    def counted(x):
        count[0] += 1
        return x * weights * np.roll(x, 1)

    return {
        "captured indices": (lambda x: x[index] * x, lambda: index.__setitem__(slice(None), [2, 3, 4, 0, 1])),
        "a flag": (
            lambda x: x * x[::-1] if settings.turned else x**2, lambda: setattr(settings, "turned", True),
            lambda: setattr(settings, "turned", False),
        ),
        "an attribute that comes later": (
            lambda x: x * np.roll(x, getattr(settings, "shift", 1)), lambda: setattr(settings, "shift", 2),
        ),
        "a list of neighbours": (
            lambda x: np.stack([x[j] * x[i] for i, j in enumerate(neighbours)]), neighbours.reverse,
        ),
        "a refined mesh": (
            lambda x: x * np.roll(x, mesh["level"]), lambda: mesh.update(level=2), lambda: mesh.update(level=3),
        ),
        "zeros of an array, and a counter": (
            counted, lambda: weights.fill(2.0), lambda: weights.fill(0.0), lambda: weights.fill(1.0),
        ),
    }  # fmt: skip


@pytest.mark.parametrize("name", _cases())
def test_a_pattern_is_found_again_when_what_it_was_read_from_changes(name: str) -> None:
    f, *changes = _cases()[name]
    g = lambda x: np.sum(f(x) ** 2)
    jacobian, hessian = da.sparse_jacobian(f), da.value_and_sparse_hessian(g)
    for change in (lambda: None, *changes):
        change()
        for _ in range(2):
            np.testing.assert_allclose(jacobian(X).toarray(), da.jacfwd(f)(X))
            value, found = hessian(X)
            np.testing.assert_allclose(found.toarray(), da.hessian(g)(X), atol=1e-12)
            assert np.isclose(value, g(X))


def test_arguments_that_are_changed_in_place() -> None:
    f = lambda x, i, table: x[i] * x[table["at"]]
    jacobian, i, table = da.sparse_jacobian(f), np.array([1, 2, 3]), types.MappingProxyType({"at": 0})
    assert jacobian(X, i, dict(table)).nnz == 6
    i[:] = [0, 3, 4]
    np.testing.assert_allclose(jacobian(X, i, dict(table)).toarray(), da.jacfwd(f)(X, i, dict(table)))


def test_numbers_are_no_reason_to_find_a_pattern_again() -> None:
    state = types.SimpleNamespace(dt=0.5, old=np.ones(5))
    jacobian = da.sparse_jacobian(lambda x: (x - state.old) / state.dt + x * np.roll(x, 1))
    patterns = []
    for k in range(5):
        state.dt, state.old = 0.5 + k, state.old + 1.0
        jacobian(X)
        patterns.append(jacobian.sparsity)
    assert patterns[2] is patterns[3] is patterns[4]


def test_what_was_stored_is_refused_once_it_reads_something_else(tmp_path) -> None:
    index = np.array([1, 2, 3, 4, 0])
    f = lambda x: x[index] * x
    da.sparse_jacobian(f).prepare(X).save(tmp_path / "jac.npz")
    stored = da.sparse_jacobian(f, prepared=tmp_path / "jac.npz")
    assert stored(X).nnz == 10
    index[:] = [2, 3, 4, 0, 1]
    with pytest.raises(SparsityError, match="reads something else now"):
        stored(X)
    with pytest.raises(SparsityError, match="belongs to another function"):
        da.sparse_jacobian(f, prepared=tmp_path / "jac.npz")(X)


def test_the_form_of_a_program() -> None:
    def form(scale, index):
        return form_of(da.trace(lambda x: x[np.array(index)] * scale + x, X))

    assert form(0.5, [1, 2, 3, 4, 0]) == form(2.5e-7, [1, 2, 3, 4, 0])
    assert form(0.5, [1, 2, 3, 4, 0]) != form(0.5, [2, 1, 3, 4, 0])
    assert form(np.ones(5), [0] * 5) == form(2 * np.ones(5), [0] * 5) != form(np.eye(5)[0], [0] * 5)
