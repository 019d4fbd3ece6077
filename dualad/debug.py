"""Looking for trouble: where a value or a tangent became non-finite, and branches taken on a coincidence.

For: the context manager ``debug``. Not for: checking derivatives (``testing/``) or programs (``program/check.py``).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from .core.watch import user_line, watching
from .errors import NonFiniteError

__all__ = ["Branch", "DebugReport", "debug"]


class Branch(NamedTuple):
    """A comparison of a moving value that came out equal: ``op`` at ``line``, of so many ``entries``."""

    op: str
    line: str
    entries: int
    transform: str

    def __str__(self) -> str:
        return (
            f"{self.line}: `{self.op}` found {self.entries} moving entries exactly equal (in `{self.transform}`); the"
            " branch taken there is right at this point alone, and its derivative may differ from the function's"
        )


class DebugReport:
    """What was seen: ``branches``, a list of :class:`Branch`."""

    def __init__(self, nan: bool, branches: bool) -> None:
        self.nan = nan
        self.look_at_branches = branches
        self.branches: list[Branch] = []

    def asked(self, op: Any, primals: Any, tangents: Any, value: Any, transform: str) -> None:
        """Note a comparison that holds only because a moving value happens to be equal to something."""
        if not self.look_at_branches or op.name not in ("equal", "not_equal"):
            return
        if all(t is None or (isinstance(t, np.ndarray) and not t.any()) for t in tangents):
            return
        plain = _innermost(value)
        if plain is None:
            return
        count = int(np.count_nonzero(plain if op.name == "equal" else ~np.asarray(plain)))
        if count:
            self.branches.append(Branch(op.name, user_line(), count, transform))

    def ran(self, op: Any, primals: Any, value: Any, tangent: Any, transform: str) -> None:
        """Raise where a value or a tangent became non-finite, from operands that were finite."""
        if not self.nan:
            return
        for kind, x in (("value", value), ("tangent", tangent)):
            for part in x if isinstance(x, (tuple, list)) else [x]:
                plain = _innermost(part)
                if plain is not None and np.asarray(plain).dtype.kind in "fc" and not np.isfinite(plain).all():
                    raise _non_finite(kind, op, primals, plain, transform)


@contextmanager
def debug(*, nan: bool = False, branches: bool = False) -> Iterator[DebugReport]:
    """Watch the derivatives taken inside a block.

    Parameters
    ----------
    nan : bool
        Raise where a value, or only its tangent, becomes infinite or NaN: with the operation, the user's line, the
        ranges of the operands and the first index.
    branches : bool
        Report comparisons ``==`` and ``!=`` of moving values that came out equal, as in ``if x == 0: return 0``: such
        a branch is taken on a set of measure zero, and its derivative is that of the branch alone.

    Yields
    ------
    DebugReport
        Its list ``branches`` fills while the block runs.

    Raises
    ------
    NonFiniteError
        With ``nan``, at the first operation whose result is not finite.

    Examples
    --------
    >>> import dualad as da
    >>> def square(x):
    ...     return 0.0 * x if x == 0 else x * x
    >>> with da.debug(branches=True) as report:
    ...     slope = da.grad(da.grad(square))(0.0)  # 0, where the function's second derivative is 2
    >>> len(report.branches) > 0
    True
    """
    report = DebugReport(nan, branches)
    token = watching.set(report)
    try:
        yield report
    finally:
        watching.reset(token)


def _innermost(x: Any):
    """Return the plain values inside nested tensors, or ``None`` where they are not known yet."""
    while x is not None and not isinstance(x, (np.ndarray, np.generic, float, int, complex)):
        for slot in ("_primal", "_value"):
            if hasattr(x, slot):
                x = getattr(x, slot)
                break
        else:
            return None
    return x


def _non_finite(kind: str, op: Any, primals: Any, plain: Any, transform: str) -> NonFiniteError:
    where = tuple(int(i) for i in np.argwhere(~np.isfinite(np.atleast_1d(plain)))[0])
    ranges = []
    for i, p in enumerate(primals):
        v = _innermost(p)
        if v is not None and np.asarray(v).dtype.kind in "biuf" and np.size(v):
            ranges.append(f"argument {i} in [{np.min(v):.6g}, {np.max(v):.6g}]")
    return NonFiniteError(
        f"the {kind} of `{op.name}` became non-finite in `{transform}`, first at {where if np.ndim(plain) else ()},"
        f"\n  At: {user_line()}" + (f"\n  Operands: {', '.join(ranges)}" if ranges else ""),
        "its operands lie outside the operation's domain, or at a point where its derivative is infinite",
        "keep them inside (np.where on the *argument* as well as on the result), or use a form that is smooth there",
    )
