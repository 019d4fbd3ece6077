"""What is refused, and why: the names with no meaning on traced values, and the names that are not covered yet.

Not for: anything that works.
"""

from __future__ import annotations

from ..core.tables import HOOKS, VERDICTS
from ..errors import UnsupportedError

__all__ = ["unsupported"]


def unsupported(function) -> UnsupportedError:
    """Make the error for a NumPy or SciPy function without a rule, with its reason and the rewrite."""
    name = _spelled(function)
    verdict = VERDICTS.get(function)
    if verdict is not None and verdict.kind == "unsupported":
        return UnsupportedError(f"{name} was called on a tensor.", verdict.reason, verdict.instead)
    return UnsupportedError(
        f"{name} is not supported on tensors yet.",
        "no rule for it has been declared, and guessing one could give a wrong derivative",
        "compose it of functions that are covered, or apply it to plain arrays outside the transform"
        " (dualad.stop_gradient(x) gives the value alone)",
    )


def _spelled(function) -> str:
    module = getattr(function, "__module__", None) or "numpy"
    module = module.replace("numpy", "np", 1).replace("np._core", "np").partition("._")[0]
    return f"{module}.{getattr(function, '__name__', function)}"


HOOKS["unsupported"] = unsupported
