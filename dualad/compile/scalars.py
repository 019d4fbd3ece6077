"""Operators on single numbers, as Python writes them: ``a * b`` and ``math.sin(a)`` cost a tenth of NumPy's calls.

Each expression gives what NumPy gives for float64, bit for bit where NumPy's own result is exact (+ − × ÷ √,
comparisons, choices), within the accuracy of the platform's mathematics library elsewhere; or it raises an
``ArithmeticError`` or ``ValueError`` where NumPy would have given an infinity or a NaN, and then the program is run
again without these expressions (``numpy_source.py``). Not for: arrays, or other dtypes.
"""

from __future__ import annotations

import math

__all__ = ["BOOLEAN", "FLOAT", "LOGICAL", "MATHEMATICS", "SIGNS"]

#: operators between two numbers, for a number and for a truth value
SIGNS = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/"}
_COMPARISONS = {
    "less": "<", "less_equal": "<=", "greater": ">", "greater_equal": ">=", "equal": "==", "not_equal": "!=",
}  # fmt: skip

#: operators that ``math`` has under the same name, and under another one
_SAME_NAME = (
    "copysign", "cos", "cosh", "exp", "exp2", "expm1", "fabs", "isfinite", "isinf", "log", "log10", "log1p", "log2",
    "sin", "sinh", "sqrt", "tan", "tanh",
)  # fmt: skip
_OTHER_NAME = {
    "absolute": "fabs", "arccos": "acos", "arccosh": "acosh", "arcsin": "asin", "arcsinh": "asinh", "arctan": "atan",
    "arctan2": "atan2", "arctanh": "atanh", "power": "pow",
}  # fmt: skip
_OF_TWO = ("arctan2", "copysign", "power")
_CALLS = {**dict(zip(_SAME_NAME, _SAME_NAME, strict=True)), **_OTHER_NAME}
_TEXTS = {op: f"{name}({{0}}, {{1}})" if op in _OF_TWO else f"{name}({{0}})" for op, name in _CALLS.items()}

#: what the expressions call
MATHEMATICS = {name: getattr(math, name) for name in _CALLS.values()}

#: operator -> its expression in float arguments, for a truth value
BOOLEAN: dict[str, str] = {
    **{op: f"({{0}} {sign} {{1}})" for op, sign in _COMPARISONS.items()},
    **{op: _TEXTS[op] for op in ("isfinite", "isinf")},
    "isnan": "({0} != {0})",
}

#: operator -> its expression in float arguments, for a float result
FLOAT: dict[str, str] = {
    **{op: f"({{0}} {sign} {{1}})" for op, sign in SIGNS.items()},
    **{op: text for op, text in _TEXTS.items() if op not in BOOLEAN},
    "negative": "(-{0})",
    "square": "({0} * {0})",
    "reciprocal": "(1.0 / {0})",
    **dict.fromkeys(("copy", "positive", "stop_gradient"), "{0}"),
}

#: operator -> its expression in truth values
LOGICAL = {"logical_and": "({0} and {1})", "logical_or": "({0} or {1})", "logical_not": "(not {0})"}
