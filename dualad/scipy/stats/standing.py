"""Replacements in lifted code for distributions that were frozen outside of it: the same of ours.

Not for: where such objects are looked for (``dualad/lift/``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from scipy.stats._distn_infrastructure import rv_continuous_frozen, rv_discrete_frozen

from .formulas import DISTRIBUTIONS

__all__ = ["STANDING"]


def _frozen(x: Any, table: Any) -> Any:
    """Return a frozen distribution of ours; None for one that is not SciPy's."""
    of = DISTRIBUTIONS.get(x.dist.name)
    ours = of is not None and type(of._original) is type(x.dist)
    return of(*x.args, **x.kwds) if ours else None


#: a type of SciPy's -> what makes of an object of it, and the table of names, what stands in its place
STANDING: dict[type, Callable] = {rv_continuous_frozen: _frozen, rv_discrete_frozen: _frozen}
