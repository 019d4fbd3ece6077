"""The first run of a compiled program is compared with the program as it was before any pass, run plainly.

For: what ``run`` of a compiled program is until that has been done, and what becomes of a program whose code is wrong.
The code runs twice, between guard zones and as it will from then on; both have to give what the plain program gives. A
program that calls into Python (rules, callbacks and solvers of users') is run once, and each piece of machine code in
it is compared with its own equations on the values that it is given. Not for: what results are
compared with (``reference.py``).
"""

from __future__ import annotations

import contextlib
import functools
import math
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..base.frames import user_level
from ..base.garbage import no_collection
from ..base.log import log
from ..core.contexts import everywhere
from ..errors import CompilerFaultWarning
from ..program.ir import Program, mentions
from ..program.variable import Variable
from . import trust
from .fault_report import write_report
from .native.equations import Equations
from .native.stub import StrayWrite
from .reference import EACH, Reference, TooLong, work_of
from .validate import has_effect

if TYPE_CHECKING:
    from .numpy_source import Compiled

__all__ = ["CHECKED", "FirstCall", "fault_of"]

# Where bits are promised, they are compared; NaN is NaN. Elsewhere an entry may differ by a few units in the last
# place, or by so many times what noise of that size does to it (``reference.py``): that is little for a sum, much for
# a sum that cancels or a chaotic loop, and everything for the position of the largest of equal entries.

#: units in the last place that need no explanation where bits are not promised
_NEAR = 32
#: how many times what noise does to an entry it may differ
_TIMES = 32.0
#: runs with noise at most, and without an entry more that they explain
_RUNS, _IN_VAIN = 48, 5


def difference(
    got: Sequence,
    plain: Sequence,
    exact: Callable[[], Sequence[bool]],
    again: Callable[[], Sequence],
    noisy: Callable[[int], Sequence],
) -> str:
    """Say in which entry results differ; nothing if they do not.

    ``exact()`` says of each whether it is promised bit for bit; ``again()`` are the plain results once more, and
    ``noisy(seed)`` with noise. These are asked for where it matters.
    """
    pairs = [_Pair(i, *both) for i, both in enumerate(zip(got, plain, strict=True))]
    for pair in pairs:
        if pair.kinds:
            return pair.kinds
    if all([pair.got.tobytes() == pair.plain.tobytes() for pair in pairs]):
        return ""
    promised = exact()
    for pair, bits in zip(pairs, promised, strict=True):
        pair.compare(bits)
    if not any([pair.unlike.any() for pair in pairs]):
        return ""
    count = lambda: sum([np.count_nonzero(pair.unlike) for pair in pairs])
    seed, in_vain = 0, _IN_VAIN if all(promised) else 0
    while in_vain < _IN_VAIN and seed < _RUNS and (before := count()):
        with contextlib.suppress(ArithmeticError, ValueError):  # a matrix that noise makes singular
            for pair, x in zip(pairs, noisy(seed), strict=True):
                pair.explain(x)
        seed, in_vain = seed + 1, in_vain + 1 if count() == before else 0
    if (
        count()
    ):  # arguments that another thread writes to, or an operator that is not the same twice, are no fault of ours
        with contextlib.suppress(ArithmeticError, ValueError):
            for pair, x in zip(pairs, again(), strict=True):
                pair.explain(x)
    return "; ".join([pair.words() for pair in pairs if pair.unlike.any()][:3])


class _Pair:
    """One result of compiled code, and the same of the plain program."""

    def __init__(self, number: int, got: Any, plain: Any) -> None:
        self.number, self.got, self.plain = number, np.asarray(got), np.asarray(plain)
        self.kinds = ""
        if (self.got.shape, self.got.dtype) != (self.plain.shape, self.plain.dtype):
            as_text = lambda a: f"{a.dtype}{list(a.shape)}"
            self.kinds = f"result {number} is {as_text(self.got)} for {as_text(self.plain)}"
        self._moved: np.ndarray | None = None

    def compare(self, exact: bool) -> None:
        """Find the entries that are ``unlike``."""
        a, b = self.got, self.plain
        same = (a == b) | ((a != a) & (b != b))
        if a.dtype.kind in "fc" and exact:
            same &= (np.signbit(a.real) == np.signbit(b.real)) | (a != a)
            same &= (np.signbit(a.imag) == np.signbit(b.imag)) | (a != a)
        elif a.dtype.kind in "fc":
            with np.errstate(all="ignore"):
                same |= np.abs(a - b) <= _NEAR * np.finfo(a.dtype).eps * np.abs(b)
        self.unlike = ~same

    def explain(self, other: Any) -> None:
        """Take what another run of the plain program gives into account."""
        with np.errstate(all="ignore"):
            moved = _distance(np.asarray(other), self.plain)
            self._moved = moved if self._moved is None else np.maximum(self._moved, moved)
            self.unlike = self.unlike & ~(_distance(self.got, self.plain) <= _TIMES * self._moved)

    def words(self) -> str:
        count = np.count_nonzero(self.unlike)
        index = tuple([int(i) for i in np.argwhere(self.unlike)[0]])
        where = f"entry {index} of result {self.number}" if index else f"result {self.number}"
        more = f", and {count - 1} more of {self.got.size} entries" if count > 1 else ""
        return f"{where} is {self.got[index]!r} for {self.plain[index]!r}{more}"


def _distance(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return how far numbers are from each other: infinitely far where only one is finite, or the infinities differ."""
    if a.dtype.kind not in "fc":
        return np.abs(a.astype(float) - b.astype(float))
    same = (a == b) | ((a != a) & (b != b))
    far = np.abs(a - b).astype(float)
    return np.where(same, 0.0, np.where(np.isfinite(a) & np.isfinite(b), far, np.inf))


#: a program is not checked if a plain run of it reads and computes more entries than this (``work_of``)
CHECKED = 2_000_000

_AS_NUMPY = "compared with NumPy"
_IN_PIECES = "each piece of machine code compared with NumPy"
_TOO_LONG = "not compared with NumPy, which would go through its loops for too long"
_FAILED = "not compared with NumPy: the comparison failed"


class _Outcome(NamedTuple):
    results: Sequence
    words: str


class _Fault(Exception):
    """Compiled code that is wrong, in words."""


class FirstCall:
    """The value of ``compiled.run`` until the code was seen to be right, for a program of at most ``most`` entries.

    Threads that come here together each check for themselves: none waits for what another one's function does.
    """

    def __init__(self, compiled: Compiled, program: Program, most: float) -> None:
        self.compiled, self.program, self.most = compiled, program, most

    def __call__(self, *args: Any) -> Any:
        compiled = self.compiled
        if compiled.run is not self:  # whoever asked for it before the check has this
            return compiled.run(*args)
        if everywhere:  # the profiler would count the plain run
            return compiled.direct(*args)
        if mentions(self.program, has_effect):
            return self._in_pieces(args)
        left = [self.most]
        guarded = compiled.variant(lambda group: _while_left(left, group, group.guarded))
        try:
            with no_collection():  # all of it is ours
                out = _proven(self.program, guarded, compiled.direct, args, self.most)
        except _Fault as fault:
            self._withdraw(str(fault), self.program, args)
            return compiled.run(*args)
        compiled.accept(out.words)
        return out.results

    def _in_pieces(self, args: Sequence) -> Any:
        """Run the code once, each piece of machine code compared with its equations."""
        found: list[tuple[str, Program, Sequence]] = []
        left = [self.most]

        def checked(group: Equations) -> Callable:
            program = Program([v for v in group.reads if type(v) is Variable], group.steps, group.writes, "piece")
            is_input = [type(v) is Variable for v in group.reads]

            def run(*args: Any) -> Any:
                given = [x for x, m in zip(args, is_input, strict=True) if m]
                whole = lambda entry: lambda *_: entry(*args)
                try:
                    return _proven(program, whole(group.guarded), whole(group.run), given, left[0]).results
                except _Fault as fault:
                    found.append((str(fault), program, given))
                    return group.ask_numpy(*args)

            return _while_left(left, group, run)

        out = self.compiled.variant(checked)(*args)
        if found:
            self._withdraw(*found[0])
        else:
            self.compiled.accept(_IN_PIECES)
        return out

    def _withdraw(self, what: str, program: Program, args: Sequence) -> None:
        is_first = self.compiled.run is self
        self.compiled.withdraw(what)
        if not is_first:  # another thread has found the same
            return
        path = trust.attempt("the report of a fault", lambda: write_report(what, program, args), None)
        where = f" with {path}, which `python -m dualad bug` replays" if path else ""
        warning = CompilerFaultWarning(
            f"jit: the compiled code of `{self.program.name}` is wrong, and is not used: {what}.",
            "at its first call, compiled code is compared with the same program run by NumPy, and here they differ",
            f"go on: results are right, the function runs without compiled code from now on. Please report it{where}",
        )
        if trust.STRICT:
            raise warning
        log("DAL005", "jit: the compiled code of `%s` is not used: %s", self.program.name, what)
        warnings.warn(warning, stacklevel=user_level())


def fault_of(compiled: Compiled, program: Program, args: Sequence) -> str:
    """Return the fault of compiled code at these arguments in words; nothing if there is none."""
    try:
        _proven(program, compiled.variant(lambda group: group.guarded), compiled.direct, args, math.inf)
    except _Fault as fault:
        return str(fault)
    return ""


def _while_left(left: list[float], group: Equations, checked: Callable) -> Callable:
    """Return an entry that is ``checked`` until the runs of it have taken as many entries as are ``left``."""
    work = work_of(Program((), group.steps, ()), EACH)

    def run(*args: Any) -> Any:
        left[0] -= work
        return checked(*args) if left[0] >= 0 else group.run(*args)

    return run


def _proven(program: Program, guarded: Callable, direct: Callable, args: Sequence, most: float) -> _Outcome:
    """Return ``direct``'s results; raise ``_Fault`` where these, or ``guarded``'s, differ from the reference."""
    first: Any = None
    out: Any = None
    error: Exception | None = None
    try:
        first, out = guarded(*args), direct(*args)
    except StrayWrite as stray:
        raise _Fault(str(stray)) from None
    except Exception as raised:
        error = raised
    reference = Reference(program, most)
    try:
        plain = reference.run(args)
    except (MemoryError, TooLong):  # there is nothing to compare with
        if error is not None:
            raise error from None
        return _Outcome(out, _TOO_LONG)
    except Exception as raised:
        if type(raised) is type(error):
            raise error from None
        raise _Fault(f"it does not raise {type(raised).__name__}: {raised}") from None
    if error is not None:
        raise _Fault(f"it raises {type(error).__name__}: {error}") from None
    again, noisy = functools.partial(reference.run, args), functools.partial(reference.noisy, args)
    try:
        found = difference(first, plain, reference.exact, again, noisy)
        if not found and not _are_same(first, out):
            found = difference(out, plain, reference.exact, again, noisy)
    except TooLong:  # a loop that takes more turns with noise
        return _Outcome(out, _TOO_LONG)
    except Exception as raised:
        trust.fall_back("the check of the first call", raised)
        return _Outcome(out, _FAILED)
    if found:
        raise _Fault(found)
    return _Outcome(out, _AS_NUMPY)


def _are_same(first: Sequence, second: Sequence) -> bool:
    pairs = [(np.asarray(a), np.asarray(b)) for a, b in zip(first, second, strict=True)]
    return all([a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes() for a, b in pairs])
