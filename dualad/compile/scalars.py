"""Operators on single numbers, as Python writes them: ``a * b`` and ``math.sin(a)`` cost a tenth of NumPy's calls.

Each expression gives what NumPy gives for float64, bit for bit where NumPy's own result is exact (+ − × ÷ √,
comparisons, choices), within the accuracy of the platform's mathematics library elsewhere; or it raises an
``ArithmeticError`` or ``ValueError`` where NumPy would have given an infinity or a NaN, and then the program is run
again without these expressions (``numpy_source.py``). Not for: arrays, or other dtypes.
"""

from __future__ import annotations

import math

__all__ = ["BOOLEAN", "FLOAT", "MATHEMATICS"]

#: operator -> its expression in float arguments, for a float result
FLOAT: dict[str, str] = {
    "add": "({0} + {1})",
    "subtract": "({0} - {1})",
    "multiply": "({0} * {1})",
    "divide": "({0} / {1})",
    "negative": "(-{0})",
    "square": "({0} * {0})",
    "reciprocal": "(1.0 / {0})",
    "sqrt": "sqrt({0})",
    "absolute": "fabs({0})",
    "fabs": "fabs({0})",
    "copysign": "copysign({0}, {1})",
    "exp": "exp({0})",
    "exp2": "exp2({0})",
    "expm1": "expm1({0})",
    "log": "log({0})",
    "log2": "log2({0})",
    "log10": "log10({0})",
    "log1p": "log1p({0})",
    "sin": "sin({0})",
    "cos": "cos({0})",
    "tan": "tan({0})",
    "arcsin": "asin({0})",
    "arccos": "acos({0})",
    "arctan": "atan({0})",
    "sinh": "sinh({0})",
    "cosh": "cosh({0})",
    "tanh": "tanh({0})",
    "arcsinh": "asinh({0})",
    "arccosh": "acosh({0})",
    "arctanh": "atanh({0})",
    "arctan2": "atan2({0}, {1})",
    "power": "pow({0}, {1})",
    "stop_gradient": "{0}",
    "copy": "{0}",
    "positive": "{0}",
}

#: operator -> its expression in float arguments, for a truth value
BOOLEAN: dict[str, str] = {
    "less": "({0} < {1})",
    "less_equal": "({0} <= {1})",
    "greater": "({0} > {1})",
    "greater_equal": "({0} >= {1})",
    "equal": "({0} == {1})",
    "not_equal": "({0} != {1})",
    "isnan": "({0} != {0})",
    "isfinite": "isfinite({0})",
    "isinf": "isinf({0})",
}

#: what the expressions call
MATHEMATICS = {
    name: getattr(math, name)
    for name in (
        "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "copysign", "cos", "cosh", "exp", "exp2", "expm1",
        "fabs", "isfinite", "isinf", "log", "log10", "log1p", "log2", "pow", "sin", "sinh", "sqrt", "tan", "tanh",
    )
}  # fmt: skip
