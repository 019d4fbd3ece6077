"""Lifting by itself: ``boundary.run`` calls a function again, lifted, that was refused what lifted code may have.

Nothing is looked for beforehand. A refusal tells which modules have to be lifted: the function's own, and those of the
code between the transform and the refusal, each with its package or folder. Where the lifted run succeeds, that is
remembered for the function's code, which is lifted from the beginning of its next call. For: ``begin`` and ``after``,
which ``boundary.run`` calls, and ``plain``, which switches both off. Not for: which names lifted code finds replaced
(``targets.py``), nor undoing what the first run has written (``boundary/rerun.py``).
"""

from __future__ import annotations

import contextlib
import functools
import sys
import types
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from contextvars import ContextVar, Token
from typing import Any, NamedTuple, overload

from ..base.frames import PACKAGE
from ..base.log import log
from ..base.signatures import Args, Out
from ..boundary import boundary
from ..boundary.swallowed import SwallowedRefusals
from ..boundary.transformed import Transformed, transform
from ..boundary.type_tests import asking, users_of
from ..memory.lines import DIRECTLY, NOTING, making
from ..numpy.direct import is_direct
from .places import MISSING, Place, Swap, is_quiet, lock, original_in
from .python_names import ASKING, BUILTINS
from .reach import Reach, forget_scopes, is_kept
from .rewriting import rewrite
from .targets import lift_table, top

__all__ = ["after", "begin", "later", "plain"]

#: whether nothing is lifted by itself here; per thread and per asynchronous task
_off: ContextVar[bool] = ContextVar("dualad_plain", default=False)


class _Known(NamedTuple):
    """Findings of earlier calls about some code: the packages to be lifted; None if lifting does not help.

    Whether it has to be, or is only faster, and may fail.
    """

    code: weakref.ref
    packages: tuple[str, ...] | None
    is_needed: bool = True
    #: whether the lines are marked whose arrays have to be buffers; None if marks don't help
    is_marked: bool | None = False


#: modules of Python's own library that compute with the numbers that they are given
_OF_NUMBERS = frozenset({"colorsys", "statistics"})

#: the id of a code object -> findings about it
_known: dict[int, _Known] = {}
#: the reaches of functions without a closure, which are the same at each call; a few are kept
_reaches: OrderedDict[tuple, Reach] = OrderedDict()
_KEPT = 32

#: what asks in some globals, by their id, with them; a few are kept
_asked: OrderedDict[int, tuple[tuple[dict, ...], list[Place], Swap]] = OrderedDict()


def _ask(namespaces: tuple[dict, ...]) -> tuple[tuple[dict, ...], list[Place], Swap]:
    """Return the places, in the globals of code that asks for types, of the names that it asks by; and their swap."""
    found = _asked.get(id(namespaces))
    if found is None or found[0] is not namespaces:
        with lock:
            mark = lift_table().mark
            places = [
                Place.at(names, name, MISSING, BUILTINS[name], mark)
                for names in namespaces
                for name in ASKING
                if original_in(names, name, names.get(name, MISSING)) is MISSING
            ]
        found = _asked[id(namespaces)] = namespaces, places, Swap(places)
        if len(_asked) > _KEPT:
            _asked.popitem(last=False)
    return found


class _Names:
    """A block in which code that asks for types finds the names replaced that it asks by, and nothing else."""

    __slots__ = ("_swap",)
    is_needed = True

    def __init__(self, namespaces: tuple[dict, ...]) -> None:
        self._swap = _ask(namespaces)[2]

    def __enter__(self) -> None:
        with lock:
            self._swap.swap()

    def __exit__(self, *exc_info: object) -> None:
        self._swap.restore()

    def unlifted(self) -> _Names | None:
        """Return the block for the same function without lifting; None if this one does not lift."""
        return None

    def whole(self) -> _Names | None:
        """Return the block in which all new arrays are buffers; None if this one makes none, or no others."""
        return None


class _Lift(_Names):
    """A block in which a function is lifted, with packages beside its own, and other code finds what it asks by."""

    __slots__ = ("_function", "_reach", "_token", "is_direct", "is_needed", "packages")

    def __init__(
        self, f: Callable, function: Any, packages: tuple[str, ...], is_needed: bool = True, is_direct: bool = False
    ) -> None:
        self._function, self.packages, self.is_needed, self.is_direct = function, packages, is_needed, is_direct
        reach = _reaches.get((id(f), packages))
        if reach is None:
            reach = Reach(f, function.__globals__, packages, others=lambda: _ask(asking(f, is_quiet()))[1])
            if f is function and f.__closure__ is None:
                _reaches[id(f), packages] = reach
                if len(_reaches) > _KEPT:
                    _reaches.popitem(last=False)
        self._reach = reach

    def __enter__(self) -> None:
        self._token = making.set(DIRECTLY if self.is_direct else NOTING)
        self._swap = self._reach.swap()

    def __exit__(self, *exc_info: object) -> None:
        self._swap.restore()
        making.reset(self._token)
        if exc_info[0] is None and not self.is_direct:
            self._remember(is_direct())

    def _remember(self, is_marked: bool | None) -> None:
        """Remember whether lines of this code are marked, unless they are not to be."""
        code = _code(self._function)
        if (known := _known.get(id(code))) is not None and known.is_marked is not None:
            _known[id(code)] = known._replace(is_marked=is_marked)

    def whole(self) -> _Lift | None:
        """Return the block in which all new arrays are buffers; None if this is one."""
        return _Lift(self._reach.f, self._function, self.packages, self.is_needed) if self.is_direct else None

    def unmark(self) -> None:
        """Remember that this code is refused things for other reasons than arrays that are none of ours."""
        self._remember(None)

    def unlifted(self) -> _Names:
        """Return the block in which the function is not lifted."""
        return _Names(asking(self._reach.f, is_quiet()))

    def forget(self) -> None:
        """Remember that this code runs better as it is."""
        code = _code(self._function)
        _known[id(code)] = _remembered(code, None, False)

    def learn(self) -> None:
        """Remember that this code has to be lifted, and say so once."""
        code = _code(self._function)
        if (known := _known.get(id(code))) is None or not known.is_needed:
            log("DAL010", "%s was refused what lifted code may have, and runs lifted from now on", code.co_qualname)
        _known[id(code)] = _remembered(code, self.packages)._replace(is_marked=is_direct())


def begin(f: Callable) -> _Lift | _Names | None:
    """Return the block in which a function has to run; None if there is none."""
    if _off.get():
        return None
    if _known and (lift := _known_lift(f)) is not None:
        return lift
    namespaces = asking(f, is_quiet())
    return _Names(namespaces) if namespaces else None


def _known_lift(f: Callable) -> _Lift | None:
    """Return the block in which a function is known to need to run lifted; None if there is none."""
    if type(f) is types.FunctionType and not f.__dict__ and (known := _known.get(id(f.__code__))) is not None:
        return None if known.packages is None else _lift(f, f, known)  # as most often
    if type(f) is types.FunctionType and not (f.__dict__ or f.__code__.co_filename.startswith(PACKAGE)):
        user: Any = (f, f)
    elif (user := _user_of(f)) is None:
        return None
    known = _known.get(id(_code(user[1])))
    return None if known is None or known.packages is None else _lift(user[0], user[1], known)


def _lift(f: Any, function: Any, known: _Known) -> _Lift:
    return _Lift(f, function, known.packages or (), known.is_needed, known.is_marked is True)


def after(f: Callable, error: BaseException, block: _Lift | _Names | None) -> _Lift | None:
    """Return the block in which a function is to run once more, after a refusal outside or inside of one; or None."""
    lift = block if isinstance(block, _Lift) else None
    errors = [*_chain(error.error if isinstance(error, SwallowedRefusals) else error)]
    if _off.get() or any([getattr(e, "is_plain", False) for e in errors]) or (user := _user_of(f)) is None:
        return None
    code = _code(user[1])
    is_learned = (known := _known.get(id(code))) is not None and known.is_needed
    if isinstance(error, SwallowedRefusals) and (lift is not None or is_learned):
        if not is_learned:
            _known[id(code)] = _remembered(code, None)  # it catches what nobody cures, and may mean to
        return None
    frames = getattr(error, "frames", None) or [x.tb_frame for e in errors for x in _entries(e)]
    modules = {top(x.f_globals.get("__name__")): is_kept(x.f_globals) for x in frames}
    packages = {name for name, kept in modules.items() if not kept or name in _OF_NUMBERS}
    if lift is not None:
        if packages <= {*lift.packages} and not _rewrites(errors):
            return None
        packages.update(lift.packages)
    return _Lift(*user, tuple(sorted(packages)))


def _rewrites(errors: list[BaseException]) -> bool:
    """Have the code rewritten that was refused a write or an index although it was lifted; return whether any was."""
    traces = [[x for x in _entries(e) if not is_kept(x.tb_frame.f_globals)] for e in errors]
    if not rewrite(next(filter(None, traces), [])):
        return False
    _reaches.clear()
    forget_scopes()
    return True


def later(names: dict) -> bool:
    """Have the function of the outermost transform lifted from its next call on, and return whether it will be.

    Code with these globals has made objects of tensors, which is right but slow.
    """
    f: Any = None
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None:
        f = frame.f_locals["f"] if frame.f_code is boundary.run.__code__ else f
        frame = frame.f_back
    if f is None or _off.get() or (user := _user_of(f)) is None:
        return False
    code, package = _code(user[1]), top(names.get("__name__"))
    known = _known.get(id(code))
    if known is None:
        log(
            "DAL010",
            "%s computes with objects that NumPy made of tensors, and runs lifted from now on",
            code.co_qualname,
        )
        _known[id(code)] = known = _remembered(code, () if is_kept(names) else (package,), False)
        boundary.lifted += 1
    return known.packages is not None and package in (*known.packages, top(user[1].__module__))


def _remembered(code: types.CodeType, packages: tuple[str, ...] | None, is_needed: bool = True) -> _Known:
    key = id(code)
    return _Known(weakref.ref(code, lambda _: _known.pop(key, None)), packages, is_needed)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error, and those that it comes from."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _entries(error: BaseException) -> Iterator[types.TracebackType]:
    entry = error.__traceback__
    while entry is not None:
        yield entry
        entry = entry.tb_next


# ── whose function it is ─────────────────────────────────────────────────────────────────────────────────────────


def _code(function: Any) -> types.CodeType:
    return original_in(function, "__code__", function.__code__)


def _user_of(f: Any) -> tuple[Any, Any] | None:
    """Return the user's callable in what transforms have put around it, and its function; None if there is none.

    There is none in what ``plain`` has made, either: what lies deeper is not looked at.
    """
    return next(((x, function) for x in users_of(f) if (function := _function_of(x)) is not None), None)


def _function_of(f: Any) -> Any:
    """Return the innermost function in a user's wrappers, methods, partials, objects and classes; None if it has none.

    One of an engine has none. What the user transforms that is of the standard library is as good as his own.
    """
    while not isinstance(f, types.FunctionType) or "__wrapped__" in f.__dict__:
        if isinstance(f, functools.partial):
            f = f.func
        elif isinstance(f, types.MethodType):
            f = f.__func__
        elif not isinstance(f, type) and hasattr(f, "__wrapped__"):
            f = f.__wrapped__
        else:
            f = f.__init__ if isinstance(f, type) else type(f).__call__  # type: ignore[misc]
            if not isinstance(f, types.FunctionType):
                return None
    home = f.__globals__
    return f if not is_kept(home) or top(home.get("__name__")) in sys.stdlib_module_names else None


# ── switched off ─────────────────────────────────────────────────────────────────────────────────────────────────


class _Plain:
    """The result of ``plain()``."""

    def __init__(self) -> None:
        self._tokens: list[Token] = []

    def __enter__(self) -> None:
        self._tokens.append(_off.set(True))

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        _off.reset(self._tokens.pop())
        if error is not None:
            with contextlib.suppress(AttributeError):
                error.is_plain = True  # no transform around it lifts the function either


@overload
def plain(f: None = None) -> AbstractContextManager[None]: ...
@overload
def plain(f: Callable[Args, Out]) -> Callable[Args, Out]: ...
@transform
def plain(f: Callable | None = None) -> Any:
    """Return a function that transforms run only as it stands, or a block in which they run all functions so.

    A transform whose function is refused what lifted code may have (a plain buffer, a conversion to a float) runs it
    again under :func:`lift`. A plain function is refused it: for code that must not run twice, or that must see no
    other names than its own, and for looking at the refusals.

    Parameters
    ----------
    f : callable, optional
        The function. Without it, a context manager is returned: ``with dualad.plain(): ...``.

    Returns
    -------
    callable or context manager
        ``lift`` works inside of both.

    See Also
    --------
    lift : the opposite, which also reaches modules by name.

    Examples
    --------
    >>> import math
    >>> with da.plain():
    ...     da.grad(lambda x: math.sin(x))(0.0)
    Traceback (most recent call last):
    dualad.errors.ConversionError: ...
    """
    if f is None:
        return _Plain()

    def call(*args, **kwargs):
        with _Plain():
            return f(*args, **kwargs)

    made = Transformed(call, f, "")
    made.is_plain = True  # type: ignore[attr-defined]
    return made
