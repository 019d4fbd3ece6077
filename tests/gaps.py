"""The one table of gaps: what is known not to hold yet, each entry a strict xfail with its reason.

An entry that starts to hold fails the suite until it is removed. Not for: skipping anything.
"""

from __future__ import annotations

import pytest

__all__ = ["COMPOSITION_GAPS", "JAX_DIFFERS", "OPERATOR_GAPS", "ROWS", "marks"]

#: (operator, check) -> reason
OPERATOR_GAPS: dict[tuple[str, str], str] = {}

#: row of the capability table -> reason
ROWS: dict[str, str] = {
    "E4 concatenate": "a join records an array of zeros for a part that does not move, as large as that part",
    "D9 strict": "assert_depends is optional and not offered; unused inputs have zeros",
    "F10": "axis_name and collectives are optional and not offered",
    "pole of a traced derivative": "a rule's errstate does not reach the program it is recorded in: the numbers are"
    " right, but NumPy warns about the infinite factor when the program runs",
    "A8": "no_tangents is not offered yet; stop_gradient says the same of single values",
}

#: (function of the zoo, length of the words) -> reason
COMPOSITION_GAPS: dict[tuple[str, int], str] = {}

#: operator -> why JAX's derivative is not the one we choose on the samples; it is judged by differences alone
JAX_DIFFERS: dict[str, str] = {
    "sign": "for complex z JAX gives zero; the derivative of z/|z| is not zero",
}


def marks(table: dict, key) -> list:
    """Return the pytest marks of a table's entry: a strict xfail with its reason, or none."""
    return [pytest.mark.xfail(strict=True, reason=table[key])] if key in table else []
