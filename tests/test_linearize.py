"""Linearization: rows E1, E4 and E8 of the capability table, and what the program looks like.

Not for: walking it backwards (`test_vjp_via_transpose.py`).
"""

from __future__ import annotations

import numpy as np
import pytest

import dualad as da
from dualad.errors import DtypeError, OutputError, ShapeError, TreeError
from dualad.program.check import check, check_linear


def test_e1_linearize_once_apply_many() -> None:
    """Row E1: lin(v) equals jvp for several v, and the function runs once."""
    calls = []

    def f(x):
        calls.append(1)
        return np.sin(x) * np.exp(-x)

    x = np.array([0.1, 0.2, 0.7])
    value, lin = da.linearize(f, x)
    np.testing.assert_array_equal(value, np.sin(x) * np.exp(-x))
    tangents = [np.eye(3)[i] for i in range(3)] + [np.ones(3), np.zeros(3)]
    results = [lin(t) for t in tangents]
    assert len(calls) == 1
    for t, result in zip(tangents, results, strict=True):
        np.testing.assert_allclose(result, da.jvp(f, (x,), (t,))[1], rtol=1e-14)


def test_e1_bad_tangents() -> None:
    """Row E1: wrong shape ValueError, wrong dtype TypeError, wrong tree TypeError."""
    _, lin = da.linearize(lambda x, p: x * p["a"], np.ones(2), {"a": 3.0})
    with pytest.raises(ShapeError, match=r"\(3,\)"):
        lin(np.ones(3), {"a": 1.0})
    with pytest.raises(DtypeError, match="float32"):
        lin(np.ones(2, np.float32), {"a": 1.0})
    for bad in ((np.ones(2),), (np.ones(2), {"b": 1.0}), (np.ones(2), 1.0, 1.0)):
        with pytest.raises(TreeError, match="tangents"):
            lin(*bad)
    np.testing.assert_array_equal(lin(np.ones(2), {"a": None}), [3.0, 3.0])


def test_the_linear_map_goes_under_every_transform() -> None:
    x = np.array([0.3, 0.4])
    _, lin = da.linearize(lambda v: np.sin(v) * v[0], x)
    J = da.jacfwd(lambda v: np.sin(v) * v[0])(x)
    np.testing.assert_allclose(da.vmap(lin)(np.eye(2)).T, J, rtol=1e-14)
    np.testing.assert_allclose(da.jacrev(lin)(np.ones(2)), J, rtol=1e-14)
    np.testing.assert_allclose(da.linear_transpose(lin, x)(np.array([1.0, 0.0]))[0], J[0], rtol=1e-14)
    np.testing.assert_allclose(da.jvp(lin, (x,), (np.ones(2),))[1], J @ np.ones(2), rtol=1e-14)


def test_linearize_under_other_transforms() -> None:
    """The point itself may be a tensor: residuals then are tensors of the outer level."""
    g = lambda x, t: da.linearize(lambda v: v**3, x)[1](t)
    assert da.grad(g)(2.0, 1.0) == 12.0
    np.testing.assert_allclose(da.vmap(g)(np.arange(3.0), np.ones(3)), 3 * np.arange(3.0) ** 2)
    assert da.grad(da.grad(g))(2.0, 1.0) == 6.0


def test_the_program_is_linear_well_formed_and_without_dead_code() -> None:
    def f(x):
        np.cosh(x)  # nobody reads it
        y = np.exp(x) * 2.0
        return y + x, np.sum(x)

    _, lin = da.linearize(f, np.ones(3))
    check(lin.program)
    check_linear(lin.program)
    assert "cosh" not in str(lin.program) and "sinh" not in str(lin.program)
    names = [e.op.name for e in lin.program.equations]
    assert "exp" not in names and len(names) <= 4
    assert "linearize" in str(lin.program) and str(len(names)) in repr(lin)


def test_aux_integers_and_outputs_without_tangent() -> None:
    value, lin, aux = da.linearize(lambda x, n: ((x * n, np.argmax(x), 5.0), {"n": n}), np.array([1.0, 2.0]), 3, has_aux=True)
    tangent = lin(np.array([1.0, 0.0]), None)
    assert tangent[0].tolist() == [3.0, 0.0] and tangent[1].dtype == da.float0 and tangent[2] == 0.0
    assert value[1] == 1 and aux == {"n": 3}
    with pytest.raises(OutputError):
        da.linearize(lambda x: x, 1.0, has_aux=True)


def test_single_precision_stays() -> None:
    value, lin = da.linearize(lambda x: np.sin(x) * 2.0, np.ones(2, np.float32))
    assert value.dtype == np.float32 and lin(np.ones(2, np.float32)).dtype == np.float32
