"""The one table of gaps: what is known not to hold yet, each entry a strict xfail with its reason.

An entry that starts to hold fails the suite until it is removed. Not for: skipping anything.
"""

from __future__ import annotations

import pytest

__all__ = ["COMPOSITION_GAPS", "JAX_DIFFERS", "JAX_REAL_ONLY", "OPERATOR_GAPS", "ORDERS", "PLACES", "marks"]

#: (operator, check) -> reason
OPERATOR_GAPS: dict[tuple[str, str], str] = {
    ("while_loop", "program"): "reverse mode through a traced loop of unknown length would need unbounded memory",
}

#: what is tested -> reason
PLACES: dict[str, str] = {
    "residuals of concatenate": "a join records an array of zeros for a part that does not move, as large as that part",
    "assert_depends": "assert_depends is optional and not offered; unused inputs have zeros",
    "pole of a traced derivative": "a rule's errstate does not reach the program it is recorded in: the numbers are"
    " right, but NumPy warns about the infinite factor when the program runs",
}

#: call whose result does not lie in memory as NumPy's -> reason
ORDERS: dict[str, str] = dict.fromkeys(
    [
        "np.mean",
        "np.var",
        "np.std",
        "np.nanvar",
        "np.nanstd",
        "np.median",
        "np.nanmedian",
        "np.quantile",
        "np.percentile",
        "np.cumulative_sum",
        "np.cumulative_prod",
        "np.clip",
        "np.isin",
        "np.block",
        "np.piecewise",
        "np.dot",
        "np.inner",
        "np.linspace",
        "np.logspace",
        "np.geomspace",
        "np.lib.stride_tricks.sliding_window_view",
        "np.linalg.qr",
    ],
    "composed of other calls than NumPy's own: of operands that are not in C order, some results are in another order",
)

#: (function of the zoo, length of the words) -> reason
COMPOSITION_GAPS: dict[tuple[str, int], str] = {}

#: operator -> why JAX does not judge it on the samples; differences alone do
JAX_DIFFERS: dict[str, str] = {
    "sign": "for complex z JAX gives zero; the derivative of z/|z| is not zero",
    "spence": "JAX's reverse mode gives NaN where its forward mode gives our number",
    "exp1": "JAX can't nest the derivative it gives exp1",
    "hyp1f1": "JAX takes a quarter of a minute to compile its third derivative",
    "hyp2f1": "JAX takes half a minute to compile its third derivative",
    "betainc": "JAX refuses derivatives in the shapes",
    "gammainc": "JAX can't nest the derivative in the shape",
    "gammaincc": "JAX can't nest the derivative in the shape",
    "expn": "JAX can't nest the derivative it gives expn",
}

#: operators that JAX refuses for complex arguments (checked in test_every_op), judged there by differences alone
JAX_REAL_ONLY: frozenset[str] = frozenset({"dawsn", "erf", "erfc", "expi", "fresnel", "ndtr", "sici"})


def marks(table: dict, key) -> list:
    """Return the pytest marks of a table's entry: a strict xfail with its reason, or none."""
    return [pytest.mark.xfail(strict=True, reason=table[key])] if key in table else []
