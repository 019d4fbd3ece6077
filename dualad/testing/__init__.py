"""Checking derivatives of your own functions: oracles that share nothing with dualad's rules, and one call for all.

`check` computes every kind of derivative, up to an order, and asks the oracles one names; `check_function`, `dualad
check` and the pytest plugin are names of it. `gradcheck` and `gradgradcheck` compare whole Jacobians with differences
of the values, as torch's do, and `check_grads` derivatives along random directions, as JAX's does; `check_rule` looks
at everything a custom rule can get wrong; `laws` need no oracle. The oracles are also there one by one, in
`differences`, `complex_step` and `jax_oracle`. `strategies`, for Hypothesis, is imported by name.

Not for testing dualad's operators one by one (the test suite does that from the registry).
"""

from __future__ import annotations

from . import complex_step, differences, laws
from .check import assert_matches_jax, check
from .check_grads import GRADIENT_ORACLES, check_grads
from .estimate import Comparison, Estimate, Unavailable, compare
from .gradcheck import gradcheck, gradgradcheck
from .report import CheckReport, Mismatch, Outcome, Row
from .rows import ORACLES, QUANTITIES, check_function
from .rules import RuleReport, check_rule

__all__ = [
    "CheckReport", "Comparison", "Estimate", "GRADIENT_ORACLES", "Mismatch", "ORACLES", "Outcome", "QUANTITIES", "Row",
    "RuleReport", "Unavailable", "assert_matches_jax", "check", "check_function", "check_grads", "check_rule",
    "compare", "complex_step", "differences", "gradcheck", "gradgradcheck", "laws",
]  # fmt: skip
