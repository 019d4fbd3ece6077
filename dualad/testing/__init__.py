"""Checking derivatives of your own functions: oracles that share nothing with dualad's rules, and one call for all.

`check_function` computes every kind of derivative and compares it with JAX in float64, central differences with
Richardson extrapolation, the complex step, the dot-product test and a Python loop. The oracles are also there one by
one, in `differences`, `complex_step` and `jax_oracle`.

Not for testing dualad's operators one by one (the test suite does that from the registry).
"""

from __future__ import annotations

from . import complex_step, differences
from .check import ORACLES, QUANTITIES, check_function
from .estimate import Comparison, Estimate, Unavailable, compare
from .gradcheck import gradcheck
from .gradgradcheck import gradgradcheck
from .report import CheckReport, Mismatch, Outcome, Row

__all__ = [
    "CheckReport",
    "Comparison",
    "Estimate",
    "Mismatch",
    "ORACLES",
    "Outcome",
    "QUANTITIES",
    "Row",
    "Unavailable",
    "check_function",
    "compare",
    "complex_step",
    "differences",
    "gradcheck",
    "gradgradcheck",
]
