"""Checking derivatives of your own functions: oracles that share nothing with dualad's rules, and one call for all.

`gradcheck` and `gradgradcheck` compare Jacobians with differences of the values; `check_grads` asks the oracles one
names, at any order; `check_rule` looks at everything a custom rule can get wrong; `check_function` (and `dualad check`,
and the pytest plugin) computes every kind of derivative and asks all oracles; `laws` need none. The oracles are also
there one by one, in `differences`, `complex_step` and `jax_oracle`. `strategies`, for Hypothesis, is imported by name.

Not for testing dualad's operators one by one (the test suite does that from the registry).
"""

from __future__ import annotations

from . import complex_step, differences, laws
from .against_jax import assert_matches_jax
from .check import ORACLES, QUANTITIES, check_function
from .check_grads import GRADIENT_ORACLES, check_grads
from .estimate import Comparison, Estimate, Unavailable, compare
from .gradcheck import gradcheck
from .gradgradcheck import gradgradcheck
from .report import CheckReport, Mismatch, Outcome, Row
from .rules import RuleReport, check_rule

__all__ = [
    "CheckReport", "Comparison", "Estimate", "GRADIENT_ORACLES", "Mismatch", "ORACLES", "Outcome", "QUANTITIES", "Row",
    "RuleReport", "Unavailable", "assert_matches_jax", "check_function", "check_grads", "check_rule", "compare",
    "complex_step", "differences", "gradcheck", "gradgradcheck", "laws",
]  # fmt: skip
