"""Patterns of every linear operator × sample against dense Jacobians; the same for values pushed through a plan.

Not for: whole functions (`test_detect.py`).
"""

from __future__ import annotations

import numpy as np
import pytest

# What needs SciPy is not declared by importing dualad.
import dualad.ops.banded
import dualad.ops.cosine_transform
import dualad.ops.filtering
import dualad.ops.matrix_functions
import dualad.ops.sparse_product
import dualad.ops.special
import dualad.ops.triangular
import dualad.scipy.integrate  # noqa: F401
from dualad.core.aval import Aval, aval_of, is_inexact
from dualad.core.tables import OPS
from dualad.ops.samples import realize
from dualad.program.ir import Program
from dualad.program.variable import Variable
from dualad.sparse.direct import NoValues, Plan
from dualad.sparse.maps import ELEMENTWISE, MIXING, RULES
from dualad.sparse.walk import follow, sparsity_kind

LINEAR = sorted(name for name, op in OPS.items() if op.linear_in)
#: collectives read the lanes of an axis, which a call by itself does not have
ACROSS = {name for name in LINEAR if OPS[name].across is not None}
POINTS = 3


def linear_sets(op, count, params):
    """Return the sets of positions that a call may be followed in."""
    positions = list(op.linear_positions(count, params))
    if op.joint:
        return [positions, *[[i] for i in positions]] if len(positions) > 1 else [positions]
    return [[i] for i in positions]


def cases(name, points=1):
    """Yield the operator, a sample, and the positions to follow; at the first point all samples, then the first few."""
    op = OPS[name]
    for member in range(points):
        for sample in realize(op, member)[: None if not member else 8]:
            if not op.linear_positions(len(sample.args), sample.params):
                continue
            for followed in linear_sets(op, len(sample.args), sample.params):
                if all(is_inexact(aval_of(sample.args[i]).dtype) for i in followed):
                    yield op, _without_offset(op, sample, followed), followed


def _without_offset(op, sample, followed):
    """Make the other arguments of an operator that is linear in several together zero, as in any linear program."""
    if not op.joint:
        return sample
    positions = op.linear_positions(len(sample.args), sample.params)
    args = [np.zeros_like(a) if i in positions and i not in followed else a for i, a in enumerate(sample.args)]
    return sample._replace(args=tuple(args))


def written(op, sample, followed, known: bool):
    """Write one call down as a program; the other arguments are constants, or unknown inputs in front."""
    args, others, moving = [], [], []
    for i, a in enumerate(sample.args):
        inexact = is_inexact(aval_of(a).dtype)
        if i in followed or (not known and inexact):
            v = Variable(Aval(aval_of(a).shape, aval_of(a).dtype))
            (moving if i in followed else others).append(v)
            args.append(v)
        else:
            args.append(a)
    avals = op.abstract_eval(*[a.aval if type(a) is Variable else aval_of(a) for a in args], **sample.params)
    outs = tuple(Variable(a) for a in (avals if op.multiple_results else (avals,)))
    return Program([*others, *moving], [(op, args, sample.params, outs)], outs), [v.aval for v in moving], len(others)


def dense(op, sample, followed):
    """Return the matrix of a call, column by column."""
    zeros = [np.zeros(aval_of(x).shape, aval_of(x).dtype) if j in followed else x for j, x in enumerate(sample.args)]

    def flat(args):
        with np.errstate(all="ignore"):
            out = op.impl(*args, **sample.params)
        parts = [np.asarray(y).reshape(-1) for y in (out if op.multiple_results else (out,))]
        return np.concatenate(parts) if parts else np.zeros(0)

    columns = []
    for i in followed:
        a = aval_of(sample.args[i])
        for k in range(a.size):
            unit = np.zeros(a.size, a.dtype)
            unit[k] = 1
            columns.append(flat([*zeros[:i], unit.reshape(a.shape), *zeros[i + 1 :]]))
    if not columns:
        return None
    matrix = np.array(columns).T
    # Convolution by the fast Fourier transform leaves rounding errors where there is nothing.
    return np.where(np.abs(matrix) > 1e-14 * np.abs(matrix).max(initial=0), matrix, 0)


@pytest.mark.parametrize("name", [n for n in LINEAR if n not in ACROSS])
def test_patterns_hold_every_entry_that_is_not_zero(name) -> None:
    exact = name in ELEMENTWISE or OPS[name].moves or OPS[name].collects
    for op, sample, followed in cases(name, POINTS):
        matrix = dense(op, sample, followed)
        if matrix is None:
            continue
        for known in (True, False):
            program, avals, skip = written(op, sample, followed, known)
            for fixed in (True, False):
                found, _ = follow(program, [a.size for a in avals], fixed, 10**9, skip)
                pattern = found.toarray()
                where = f"{name} {sample} followed in {followed}, known {known}, fixed {fixed}"
                assert pattern.shape == matrix.shape, where
                assert not ((matrix != 0) & ~pattern).any(), f"{where}: entries are missing"
                if exact and known and fixed and name not in ("where", "divide", "real", "imag"):
                    assert ((matrix != 0) == pattern).all(), f"{where}: not tight"


@pytest.mark.parametrize("name", [n for n in LINEAR if n not in ACROSS])
def test_values_pushed_through_a_plan_are_the_matrix(name) -> None:
    planned = 0
    for op, sample, followed in cases(name):
        matrix = dense(op, sample, followed)
        program, avals, _ = written(op, sample, followed, True)
        if matrix is None:
            continue
        try:
            plan = Plan(program, avals, 10**9)
        except NoValues:
            continue
        planned += 1
        assert plan.fits(program)
        out = plan.matrix.astype(matrix.dtype)
        out.data = np.asarray(plan.values(program)).astype(matrix.dtype)
        np.testing.assert_allclose(
            out.toarray(), matrix, rtol=1e-6 if matrix.dtype.itemsize == 4 else 1e-12, atol=1e-14
        )
    if name in ELEMENTWISE or OPS[name].moves or OPS[name].collects:
        assert planned, f"{name} has no values"


def test_tables_name_operators_that_exist() -> None:
    assert set(ELEMENTWISE) | set(MIXING) | set(RULES) <= set(OPS)
    assert not any(OPS[name].moves or OPS[name].collects for name in [*ELEMENTWISE, *MIXING, *RULES])


def test_tightness_is_a_published_table() -> None:
    """What has no rule of its own: a new operator lands here, and someone decides whether it deserves one."""
    without = {name for name in LINEAR if sparsity_kind(OPS[name]) == "dense"}
    assert without == {
        "all_gather", "banded_solve", "cofactors", "expm", "grad_hook", "ivp_adjoint", "ivp_tangent", "linear_call",
        "linear_solve", "logm", "psum", "sum_scatter",
    }  # fmt: skip
