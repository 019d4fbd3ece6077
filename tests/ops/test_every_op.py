"""Every operator of the registry × every sample of it × the matrix of checks.

A test is one operator and one check, and loops over the samples; its failure names operator, sample and check. The
registry is the list: a new declaration is tested without a line here. Not for: special points, where a derivative is a
matter of choice (`test_special_values_*.py`).
"""

from __future__ import annotations

import functools

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
import dualad.scipy.optimize  # noqa: F401
from dualad.core.tables import OPS
from tests import gaps
from tests.oracles import jax_side, op_batching, op_derivatives, op_values
from tests.oracles.arrays import describe


def always(op) -> bool:
    return True


def differentiable(op) -> bool:
    return op.jvp is not None


def constant(op) -> bool:
    return op.jvp is None


def linear(op) -> bool:
    return bool(op.linear_in)


def known_to_jax(op) -> bool:
    if not jax_side.INSTALLED or op.jvp is None or op.name in gaps.JAX_DIFFERS:
        return False
    return jax_side.counterpart(op) is not None


CHECKS = {
    "value": (always, op_values.check_value),
    "shape_rule": (always, op_values.check_shape_rule),
    "single_precision": (always, op_values.check_single_precision),
    "layouts": (always, op_values.check_layouts),
    "scalar_dtypes": (differentiable, op_values.check_scalar_dtypes),
    "no_tangent": (constant, op_derivatives.check_no_tangent),
    "first": (differentiable, op_derivatives.check_first),
    "second": (differentiable, op_derivatives.check_second),
    "third": (differentiable, op_derivatives.check_third),
    "vjp": (differentiable, op_derivatives.check_vjp),
    "spellings": (differentiable, op_derivatives.check_spellings),
    "mixed_complex": (differentiable, op_derivatives.check_mixed_complex),
    "linear": (linear, op_derivatives.check_linear),
    "transpose": (linear, op_derivatives.check_transpose),
    "double_transpose": (linear, op_derivatives.check_double_transpose),
    "jax": (known_to_jax, jax_side.agree),
    "batched_value": (always, op_batching.check_batched_value),
    "batched_sizes": (always, op_batching.check_batched_sizes),
    "nested": (always, op_batching.check_nested),
    "dummy": (always, op_batching.check_dummy),
    "batched_jvp": (differentiable, op_batching.check_batched_jvp),
    "batched_vjp": (differentiable, op_batching.check_batched_vjp),
    "batched_second": (differentiable, op_batching.check_batched_second),
    "derivative_of_batched": (differentiable, op_batching.check_derivative_of_batched),
    "derivative_of_nested": (differentiable, op_batching.check_derivative_of_nested),
    "program": (always, op_values.check_program),
}


def for_jax(samples: list) -> list:
    """Return the samples worth a compilation: the largest real one and the largest complex one."""
    real = [s for s in samples if not any(np.iscomplexobj(a) for a in s.args)]
    other = [s for s in samples if any(np.iscomplexobj(a) for a in s.args)]
    if other and other[0].op.name in gaps.JAX_REAL_ONLY:
        other = []
    return [max(group, key=lambda s: sum(np.size(a) for a in s.args)) for group in (real, other) if group]


def spread(samples: list, count: int = 3) -> list:
    """Return some of the samples, the first and the last among them."""
    if len(samples) <= count:
        return samples
    return [samples[round(k * (len(samples) - 1) / (count - 1))] for k in range(count)]


#: checks whose cost grows with choices of axes times spellings: not every shape adds anything there
FEWER_SAMPLES = (
    {"jax": for_jax}
    | dict.fromkeys(["derivative_of_nested", "layouts"], functools.partial(spread, count=2))
    | dict.fromkeys(["batched_second", "derivative_of_batched", "batched_jvp", "batched_vjp", "third"], spread)
)


#: solvers, exact to their tolerance, dearer than NumPy's operators by far: tests/scipy/test_integrate_operators.py
SOLVERS = {"integral", "ivp", "ivp_tangent", "ivp_adjoint", "ivp_found", "ivp_crossings", "ivp_start"}


def cases(keyword: str):
    for op in OPS.values():
        for name, (applies, _) in CHECKS.items():
            if keyword in f"{op.name}-{name}".lower() and applies(op) and op.name not in SOLVERS:
                yield pytest.param(
                    op, name, id=f"{op.name}-{name}", marks=gaps.marks(gaps.OPERATOR_GAPS, (op.name, name))
                )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make the cases; of ``-k hypot``, those alone, for most of the time of such a run would go to the others."""
    if metafunc.function is not test_operator:
        return
    keyword = metafunc.config.getoption("keyword").lower()
    is_of_cases = keyword.isidentifier() and keyword not in "tests/ops/test_every_op.py::test_operator"
    metafunc.parametrize(("op", "check"), list(cases(keyword if is_of_cases else "")))


#: SciPy takes tens of milliseconds for each of these, and a higher derivative is the function of a larger matrix
SLOW_OPERATORS = {"logm"}

#: functions of SciPy's whose derivatives are integrals and series, entry by entry: their dearest checks have one sample
#: of numbers without axes, for axes and batches are those of NumPy's functions
BY_ENTRY = ("distributions.py", "shape_parameters.py", "special.py")
OF_SCALARS = {"third", "batched_second", "derivative_of_batched", "spellings"}


def samples_for(op, check: str) -> list:
    samples = op_values.subjects(op)
    assert samples, f"operator {op.name} has no samples"
    if op.name in SLOW_OPERATORS or (check in OF_SCALARS and any(file in op.place for file in BY_ENTRY)):
        return samples[:1]
    return FEWER_SAMPLES.get(check, list)(samples)


@pytest.mark.filterwarnings("ignore:logm result may be inaccurate")  # SciPy says so from 1e-13 on
def test_operator(op, check) -> None:
    samples, failures = samples_for(op, check), []
    for s in samples:
        # Overflow and division by zero are answers at some samples; the numbers are compared, not the warnings.
        with np.errstate(all="ignore"):
            try:
                CHECKS[check][1](s)
            except Exception as error:
                failures.append(f"operator {op.name}, check {check}, sample {s.index} {describe(s.args, s.params)}:\n"
                                f"  {type(error).__name__}: {error}")  # fmt: skip
    if failures:
        shown = "\n".join(failures[:4])
        pytest.fail(f"{len(failures)} of {len(samples)} samples (declared at {op.place}):\n{shown}", pytrace=False)


@pytest.mark.parametrize("name", sorted(gaps.JAX_REAL_ONLY))
def test_jax_does_refuse_what_the_table_says(name: str) -> None:
    other = [s for s in op_values.subjects(OPS[name]) if any(np.iscomplexobj(a) for a in s.args)]
    with pytest.raises((TypeError, ValueError, NotImplementedError)):
        jax_side.agree(other[0], 1)


@pytest.mark.skipif(not jax_side.INSTALLED, reason="JAX is not installed")
def test_jax_judges_most_operators_of_numpy() -> None:
    """JAX is found for what NumPy and JAX have in common, not quietly for nothing."""
    known = {op.name for op in OPS.values() if known_to_jax(op)}
    expected = {
        "add", "divide", "power", "exp", "log1p", "sin", "arctan2", "hypot", "logaddexp", "maximum", "matmul", "expit",
        "erf", "gammaln", "sqrt", "absolute",
    }  # fmt: skip
    assert expected <= known, sorted(expected - known)
    assert len(known) >= 60
