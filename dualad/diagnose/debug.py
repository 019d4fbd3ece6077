"""Looking for trouble: where a value or a derivative became non-finite, branches taken on a coincidence, rules.

For: the context managers ``debug`` and ``debug_nans``. Not for: following a NaN to its origin (``nonfinite.py``),
checking derivatives (``testing/``) or programs (``program/check.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ContextDecorator, contextmanager
from typing import Any, NamedTuple

import numpy as np

from ..base.arguments import replace_at
from ..base.frames import user_line
from ..batched import Batched
from ..boundary.boundary import running
from ..core.above import ABOVE
from ..core.aval import aval_of, is_inexact
from ..core.contexts import watching
from ..core.dispatch import bind
from ..core.tracer import Tracer
from ..core.watch import Watch, run_rule
from ..dual import Dual
from ..errors import DifferentValueError, NonFiniteError, RefusalSwallowedError
from .nonfinite import Finder, Origin, leaves
from .printing import print_values
from .values import both_ways, value_check

__all__ = ["Branch", "DebugReport", "debug", "debug_nans"]

# Each time an operator with a rule of a user's is differentiated at a new line (or with new shapes), its two modes are
# run on random vectors (``testing/rules.py``).


class RuleWatch:
    """Tests each rule once per line and shapes."""

    def __init__(self) -> None:
        self.seen: set[tuple] = set()
        self.tested = 0

    def used(self, op: Any, primals: Sequence, tangents: Sequence, params: dict) -> None:
        """Test the rule of an operator that a dual level has just run."""
        # A batching rule says nothing of derivatives, and a hook is there to return something else.
        if not op.given or op.given == ("batch",) or op.effect or watching.get() is None:
            return
        moving = [i for i, t in enumerate(tangents) if t is not None]
        values = [_plain(p) for p in primals]
        if not moving or any(v is None for v in values):
            return
        line = user_line()
        key = (op.name, line, *[(np.shape(v), aval_of(v).dtype.str) for v in values], *moving)
        if key in self.seen:
            return
        self.seen.add(key)

        def function(*moved: Any) -> list:
            out = bind(op, replace_at(values, moving, moved), params)
            return [y for y in (out if op.multiple_results else [out]) if is_inexact(aval_of(y).dtype)]

        who = f"the rule of `{getattr(params.get('call'), 'name', op.name)}`, used at {line},"
        token = watching.set(None)
        try:
            self.tested += ABOVE.check_rule_in_use(who, function, tuple([values[i] for i in moving]))
        finally:
            watching.reset(token)


def _plain(x: Any) -> Any:
    """Return the plain value of an operand (of one lane of it); None where it is not known yet."""
    while isinstance(x, Tracer):
        if isinstance(x, Dual):
            x = x._primal
        elif isinstance(x, Batched):
            x = x._value[0] if x._value.shape[0] else None
        else:
            return None
    return x


class Branch(NamedTuple):
    """A comparison of a moving value that came out equal: ``op`` at ``line``, in ``entries`` entries."""

    op: str
    line: str
    entries: int
    transform: str

    def __str__(self) -> str:
        return (
            f"{self.line}: `{self.op}` found {self.entries} moving entries exactly equal (in `{self.transform}`); the"
            " branch taken there is right at this point alone, and its derivative may differ from the function's"
        )


class DebugReport(Watch):
    """The observations of a debugged block: ``branches``, a list of :class:`Branch`, and ``origins``.

    Attributes
    ----------
    branches : list of Branch
        With ``branches=True``.
    finder : Finder or None
        What follows non-finite numbers, with ``nan=True``.
    rules : RuleWatch or None
        What tests rules as they are used, with ``rules=True``.
    """

    def __init__(
        self, finder: Finder | None, branches: bool, rules: RuleWatch | None = None, values: bool = False
    ) -> None:
        self.finder = finder
        self.rules = rules
        self.look_at_values = values
        self.look_at_branches = branches
        self.branches: list[Branch] = []
        if finder is not None:  # the rest of what a watch is told of
            for name in ("batched", "cause", "pushed", "pulled", "finished"):
                setattr(self, name, getattr(finder, name))

    @property
    def origins(self) -> list[Origin]:
        """Operations that made a non-finite number which has reached no result (yet)."""
        return [] if self.finder is None else list(self.finder.origins)

    def __reduce__(self):
        inf = None if self.finder is None else self.finder.inf
        return _report, (inf, self.look_at_branches, self.rules is not None, self.look_at_values)

    def elsewhere(self) -> DebugReport:
        """Return a report that looks for the same, and has seen nothing."""
        make, args = self.__reduce__()
        return make(*args)

    def to_tell(self) -> list[Branch]:
        """Return the branches: findings that are no errors."""
        return self.branches

    def told(self, seen: list[Branch]) -> None:
        """Take in the branches that a worker has seen."""
        self.branches += seen

    def dual(self, level, op, primals: Sequence, tangents: Sequence, params: dict) -> tuple:
        """Run an operator of a dual level; look at what came out."""
        if self.finder is None:
            out = run_rule(op, primals, tangents, params)
        else:
            out = self.finder.dual(level, op, primals, tangents, params)
        if op.jvp is None and self.look_at_branches:
            self._compare(op, tangents, out[0], level.transform)
        if self.rules is not None:
            self.rules.used(op, primals, tangents, params)
        return out

    def swallowed(self, message: str, refusal: Exception) -> None:
        """Make an error of a finding that is a warning elsewhere."""
        raise RefusalSwallowedError(
            message.partition("\n  Instead:")[0],
            "a function that catches a refusal goes another way under a transform than it does with plain arrays",
            getattr(refusal, "instead", ""),
        ) from refusal

    def calling(self, f: Callable, args: tuple, kwargs: dict) -> Callable[[Any], None] | None:
        """Return the comparison of a call's value under a transform with a plain call."""
        return value_check(f, args, kwargs) if self.look_at_values else None

    def compiled(self, compiled: Callable, f: Callable, args: tuple, kwargs: dict) -> Any:
        """Call a compiled function as it runs, and compare; where operations are looked at, as it was written."""
        if not self.look_at_values:
            return f(*args, **kwargs)
        out, plain, apart = both_ways(compiled, f, args, kwargs)
        if apart:
            raise DifferentValueError(
                f"jit({getattr(f, '__name__', type(f).__name__)}): compiled and as it was written, {apart}",
                "the compiled code computes something else, or the function does at each call",
                "report it, if the function does the same at each call; without da.jit it is right",
            )
        return out if self.finder is None and self.rules is None and not self.look_at_branches else plain

    def _compare(self, op: Any, tangents: Any, value: Any, transform: str) -> None:
        """Note a comparison that holds only because a moving value happens to be equal to something."""
        equal = np.equal in op.numpy
        if not equal and np.not_equal not in op.numpy:
            return
        if all(t is None or (isinstance(t, np.ndarray) and not t.any()) for t in tangents):
            return
        plain = next((leaf.value for leaf in leaves(value)), None)
        if plain is None:
            return
        count = int(np.count_nonzero(plain if equal else ~np.asarray(plain)))
        if count:
            self.branches.append(Branch(op.name, user_line(), count, transform))


def _report(inf: bool | None, branches: bool, rules: bool, values: bool) -> DebugReport:
    finder = None if inf is None else Finder(inf, at_once=False)
    return DebugReport(finder, branches, RuleWatch() if rules else None, values)


@contextmanager
def _watched(
    nan: bool | None, inf: bool, branches: bool | None, rules: bool | None, values: bool | None
) -> Iterator[DebugReport]:
    around = watching.get()
    known = around if isinstance(around, DebugReport) else DebugReport(None, False)
    report = DebugReport(
        known.finder if nan is None else Finder(inf, at_once=running.get()) if nan else None,
        known.look_at_branches if branches is None else branches,
        known.rules if rules is None else RuleWatch() if rules else None,
        known.look_at_values if values is None else values,
    )
    with report.on():
        try:
            yield report
        except NonFiniteError:
            raise
        except Exception as error:
            # A function that stumbles over a NaN later on ("array must not contain infs or NaNs").
            if nan and report.origins:
                error.add_note(f"Under debug(nan=True), before this error: {report.origins[0]}")
            raise


class debug(ContextDecorator, AbstractContextManager[DebugReport]):
    """Watch the derivatives taken inside a block.

    Parameters
    ----------
    nan : bool, optional
        Raise when a result of a transform (a value, a tangent, a gradient) is NaN or infinite, and name the operation
        that made it of finite numbers: the user's line, the operands' shapes, dtypes and ranges, the level, the first
        index, whether it is the value, only the tangent, or a cotangent on its way back. Non-finite values on the way
        but reaches no result (the other branch of ``np.where``) is no error. ``False`` switches it off inside a block
        that has it on; left out, it stays as it is.
    inf : bool
        With ``nan``: whether infinities count too.
    branches : bool, optional
        Report comparisons ``==`` and ``!=`` of moving values that came out equal, as in ``if x == 0: return 0``: such
        a branch is taken on a set of measure zero, and its derivative is that of the branch alone.
    rules : bool
        Test each custom rule where it is used (once per line and shapes): that it returns its function's value, is
        linear, and is the same map in forward and reverse mode (the dot-product test, with random vectors).

    values : bool, optional
        Compare the value that each outermost transform computes with a plain call of the function (under ``vmap``, with
        one per lane), and raise where they differ by more than rounding: the function has gone another way. It runs
        once more for that. A function compiled by ``jit`` runs as it is compiled, and is compared with the function
        itself.

    Raises
    ------
    NonFiniteError
        With ``nan``; it is a ``FloatingPointError``, and its ``origin`` holds what the message says.
    GradcheckError
        With ``rules``: a rule contradicts its function or itself.
    DifferentValueError
        With ``values``: another value than without the transform, and which known reason that looks like.
    RefusalSwallowedError
        In every ``debug`` block: the function caught a refusal and returned all the same.

    Notes
    -----
    The block is given a :class:`DebugReport`, whose list ``branches`` fills while it runs. ``debug.print`` prints
    values, in a block or without one. Opened inside a function that is being transformed it raises at the operation
    itself, since it can't see the results. Programs that are recorded inside the block remember the user's lines:
    ``program.equations[i].line``.

    Examples
    --------
    >>> try:
    ...     with da.debug(nan=True):
    ...         da.grad(lambda x: np.sum(np.sqrt(x)))(np.array([4.0, 0.0]))
    ... except FloatingPointError as error:
    ...     print(error.origin.operation, error.origin.phase, error.origin.index)
    sqrt transpose (1,)
    >>> def square(x):
    ...     return 0.0 * x if x == 0 else x * x
    >>> with da.debug(branches=True) as report:
    ...     slope = da.grad(da.grad(square))(0.0)  # 0, where the function's second derivative is 2
    >>> len(report.branches) > 0
    True
    """

    print = staticmethod(print_values)

    def __init__(
        self, *, nan: bool | None = None, inf: bool = True, branches: bool | None = None, rules: bool | None = None,
        values: bool | None = None,
    ) -> None:  # fmt: skip
        self._options = {"nan": nan, "inf": inf, "branches": branches, "rules": rules, "values": values}

    def _recreate_cm(self) -> debug:
        return debug(**self._options)  # type: ignore[arg-type]

    def __enter__(self) -> DebugReport:
        self._block = _watched(**self._options)  # type: ignore[arg-type]
        return self._block.__enter__()

    def __exit__(self, *exc_info: Any) -> bool | None:
        return self._block.__exit__(*exc_info)


def debug_nans(enabled: bool = True, *, inf: bool = False) -> AbstractContextManager[DebugReport]:
    """Raise where a value, a tangent or a cotangent became NaN: ``debug(nan=True)`` for NaN alone.

    Parameters
    ----------
    enabled : bool
        ``False`` switches it off inside a block that has it on.
    inf : bool
        Whether infinities count too.

    Returns
    -------
    context manager
        As of :func:`debug`.

    Raises
    ------
    NonFiniteError
        By the transforms inside the block.

    Examples
    --------
    >>> with np.errstate(invalid="ignore"), da.debug_nans():
    ...     try:
    ...         da.grad(np.log)(-1.0)
    ...     except da.errors.NonFiniteError as error:
    ...         print(error.origin.operation, error.origin.phase, error.origin.number)
    log primal nan
    """
    return debug(nan=enabled, inf=inf)
