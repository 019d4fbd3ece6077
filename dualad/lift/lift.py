"""Running a function that says ``import numpy as np`` as if it said ``import dualad.numpy as np``.

While a lifted call runs, the names in its modules that hold NumPy, SciPy, math or something of them hold
``dualad.numpy``, ``dualad.scipy`` and functions that work on tensors; the last call out puts everything back. Nothing
is loaded or run twice, and NumPy itself is never touched. Other threads that run the same code in the meantime meet
functions that do what NumPy's do, because no transform runs there. Not for: which names (``targets.py``), where they
are (``search.py``, ``reach.py``), and how they are swapped (``places.py``).
"""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Callable, Generator
from typing import Any

from ..base.signatures import Args, Out
from ..boundary.transformed import Transformed, transform
from ..errors import ArgumentTypeError
from . import targets
from .places import Swap
from .reach import Modules, Reach, home_of, is_kept, named
from .targets import REDIRECTED

__all__ = ["block", "lift", "lifted", "with_redirects"]


@transform
def lift(f: Callable[Args, Out], modules: Modules = None) -> Callable[Args, Out]:
    """Return a function whose NumPy loops, buffers and conversions work on traced values.

    Code that says ``import numpy as np`` can't write a traced value into ``np.zeros(3)``, because that is a plain
    array. In the lifted function creation functions make arrays that accept traced values, ``np.array``,
    ``np.asarray``, ``np.float64(x)`` and ``float(x)`` keep the derivative, functions of ``math`` and ``scipy`` work,
    and ``isinstance(x, np.ndarray)`` (or ``float``) is true for the tensors that stand for such values.

    Parameters
    ----------
    f : callable
        A function (typed into a notebook or made by ``exec``, too), decorated or not, a closure, a lambda, a class, a
        method of an object, a partial, or an object that can be called.
    modules : list of str or module, or ``"all"``, optional
        Further modules and packages that ``f`` calls, beside its own package (or the folder of its file), which is
        always reached. ``"all"`` means every loaded module of Python code outside the standard library, NumPy, SciPy
        and dualad.

    Returns
    -------
    callable
        The function, of the same arguments, for plain arrays and under every transform. Use it as a decorator, too.

    Raises
    ------
    ArgumentTypeError
        If ``f`` is not callable, or is compiled.
    LoadingError
        If a module named in ``modules`` can't be imported.

    See Also
    --------
    lifted : the same for a block of code.

    Examples
    --------
    >>> import colorsys
    >>> lightness = da.lift(colorsys.rgb_to_hls)
    >>> float(da.grad(lambda r: lightness(r, 0.2, 0.1)[1])(0.6))
    0.5
    """
    names = named(modules)
    namespace = _check(f)
    if isinstance(f, type):
        return _lift_class(f, names)
    return Transformed(with_redirects(f, Reach(f, namespace, names)), f, "")


def with_redirects(f: Callable, reach: Reach) -> Callable:
    """Return a function that runs with everything in its reach swapped."""
    # A partial, or what functools.lru_cache or np.vectorize has made, may itself hold replaced objects.
    call = f if isinstance(f, types.FunctionType) else reach.table().in_place_of(f) or f

    def run(*args, **kwargs):
        places = reach.swap()
        try:
            out = call(*args, **kwargs)
        finally:
            places.restore()
        later = _LATER.get(type(out))
        return out if later is None else later(out, reach)

    return run


class _Block:
    """The result of ``lifted``: a block, or a decorator."""

    def __init__(self, namespace: dict, modules: tuple[str, ...]) -> None:
        self._reach = Reach(None, namespace, modules)
        self._entered: list[Swap] = []

    def __enter__(self) -> None:
        self._entered.append(self._reach.swap())

    def __exit__(self, *exc_info: object) -> None:
        self._entered.pop().restore()

    def __call__(self, f: Callable[Args, Out]) -> Callable[Args, Out]:
        return lift(f, self._reach.modules)


def lifted(modules: Modules = None) -> _Block:
    """Lift a block of code: ``with dualad.lifted(): ...``; as a decorator it is ``lift`` with ``modules``.

    Parameters
    ----------
    modules : list of str or module, or ``"all"``, optional
        Further modules that are called in the block, as of ``lift``; its own module, and those of its package or
        folder, are always reached.

    Returns
    -------
    context manager
        It may be entered more than once.

    Raises
    ------
    LoadingError
        If a module named in ``modules`` can't be imported.

    Examples
    --------
    >>> def path(x):
    ...     out = np.zeros(3)
    ...     for i in range(3):
    ...         out[i] = x**i
    ...     return out
    >>> with da.lifted():
    ...     print(da.jacfwd(path)(2.0))
    [0. 1. 4.]
    """
    return _Block(sys._getframe(1).f_globals, named(modules))


def block(namespace: dict) -> _Block:
    """Return ``lifted()`` for code with these globals."""
    return _Block(namespace, ())


def _check(f: Any) -> dict:
    """Return the globals of the code to be lifted, or refuse it."""
    if not callable(f):
        raise ArgumentTypeError(
            f"lift was given {f!r} of type {type(f).__name__}.",
            "it runs a function with other imports",
            "pass a function, a class, a method or an object that can be called",
        )
    namespace = home_of(f)
    top = str(getattr(f, "__module__", None)).partition(".")[0]
    if top in REDIRECTED and (namespace is None or is_kept(namespace)):
        raise ArgumentTypeError(
            f"lift was given `{getattr(f, '__qualname__', f)}` of {top}.",
            "lift redirects the names of numpy, scipy and math, and leaves these themselves as they are",
            "lift the function that calls it, or take it from dualad.numpy or dualad.scipy",
        )
    if namespace is None:
        raise ArgumentTypeError(
            f"lift was given {f!r} of type {type(f).__name__}.",
            "it is compiled, so there are no names in it that could mean something else",
            "lift the Python function that calls it",
        )
    return namespace


# ── what runs later ──────────────────────────────────────────────────────────────────────────────────────────────


def _lift_class(cls: type, modules: tuple[str, ...]) -> type:
    """Return a class derived of another, whose functions are lifted, those it inherits too."""
    new: dict[str, Any] = {name: vars(cls).get(name) for name in ("__module__", "__doc__")}
    new |= {"__slots__": (), "__qualname__": cls.__qualname__}
    for base in reversed(cls.__mro__):
        module = sys.modules.get(base.__module__)
        if module is not None and module is not sys.modules.get(cls.__module__) and is_kept(vars(module)):
            continue
        for name, thing in vars(base).items():
            if isinstance(thing, types.FunctionType):
                new[name] = lift(thing, modules)
            elif isinstance(thing, (staticmethod, classmethod)) and isinstance(thing.__func__, types.FunctionType):
                new[name] = type(thing)(lift(thing.__func__, modules))
            elif type(thing) is property:
                get, put, delete = [part and lift(part, modules) for part in (thing.fget, thing.fset, thing.fdel)]
                new[name] = property(get, put, delete, thing.__doc__)
    return type(cls)(cls.__name__, (cls,), new)


def _resume(inner: Any, reach: Reach) -> Generator:
    """Run a generator (or a coroutine) with everything swapped while it runs, and only then."""
    step, argument = inner.send, None
    while True:
        places = reach.swap()
        try:
            out = step(argument)
        except StopIteration as stop:
            return stop.value
        finally:
            places.restore()
        try:
            step, argument = inner.send, (yield out)
        except GeneratorExit:
            inner.close()
            raise
        except BaseException as error:  # it is thrown into the generator, which may go on
            step, argument = inner.throw, error


async def _awaited(inner: Any, reach: Reach) -> Any:
    return await types.coroutine(_resume)(inner, reach)


def _function(out: Any, reach: Reach) -> Any:
    """Lift a function that a lifted function has returned, unless it is nobody's of the user."""
    namespace = home_of(out)
    if namespace is None or is_kept(namespace):
        return out
    if reach.table is targets.lift_table:
        return lift(out, reach.modules)
    return with_redirects(out, Reach(out, namespace, reach.modules, reach.table))


#: what a call may return that runs later, or runs when it is called
_LATER: dict[type, Callable[[Any, Reach], Any]] = {
    types.GeneratorType: _resume,
    types.CoroutineType: _awaited,
    types.FunctionType: _function,
    types.MethodType: _function,
    functools.partial: _function,
    Transformed: _function,
}
