"""The result of a transform: an object that is called as the function is, and is pickled as its ingredients.

For: ``transform``, which every transform of functions is decorated with: it remembers the function and the options, so
that ``da.grad(module.f)`` is pickled as ``grad`` and ``module.f``, however deep transforms are nested, and tools can
look at the function or put another in its place. Not for: what a transform computes, or how anything is sent.
"""

from __future__ import annotations

import copyreg
import functools
import sys
import types
from collections.abc import Callable
from typing import Any, TypeVar, cast

from ..base.frames import hide_frames

__all__ = ["Transformed", "importable_name", "named", "pickles_by_value", "reduced", "transform"]

F = TypeVar("F", bound=Callable[..., Any])


class Transformed:
    """A transformed function: what ``grad(f)``, ``vmap(f)`` and their like return; a call carries out ``run``.

    It has the name (with ``where``, the transform's, before it) and the documentation of the original ``f``, is a
    method where it stands in a class, and is pickled as the transform, the function and the options.
    """

    __slots__ = ("__dict__", "__weakref__", "_made", "_run")

    def __init__(self, run: Callable, f: Callable, where: str) -> None:
        self._run = run
        self._made: tuple[Callable, tuple, dict] | None = None
        named(self, f, where)

    def __call__(self, /, *args, **kwargs):
        try:
            return self._run(*args, **kwargs)
        except Exception as error:  # as in `public`, whose work this does
            hide_frames(error)
            raise

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    @property
    def transform(self) -> tuple[Callable, tuple, dict]:
        """The transform, and the arguments it was given; the first one is the original function."""
        assert self._made is not None
        make, args, kwargs = self._made
        return (make, args, kwargs) if args else (make, (kwargs["f"],), {k: v for k, v in kwargs.items() if k != "f"})

    def of(self, f: Callable) -> Transformed:
        """Return the same transform, with the same options, of another function."""
        make, args, kwargs = self.transform
        return make(f, *args[1:], **kwargs)

    def __reduce__(self):
        name = importable_name(self)
        if name is not None:
            return name
        make, args, kwargs = self.transform
        return _made_again, (make, args, kwargs)

    def __copy__(self) -> Transformed:
        return self  # as of any function

    def __deepcopy__(self, memo: dict) -> Transformed:
        return self

    def __repr__(self) -> str:
        return f"<{self.__name__}>"


def _made_again(make: Callable, args: tuple, kwargs: dict) -> Any:
    return make(*args, **kwargs)


def transform(function: F) -> F:
    """Decorate a transform: what it returns remembers how it was made, and its errors show no frame of the package."""

    @functools.wraps(function)
    def make(*args, **kwargs):
        try:
            made = function(*args, **kwargs)
        except Exception as error:
            hide_frames(error)
            raise
        if type(made) is Transformed:
            made._made = (make, args, kwargs)
        return made

    return cast(F, make)


def named(thing: Any, f: Callable, where: str) -> Any:
    """Give what a transform made the name and the documentation of its original, and a function's attributes."""
    attributes = ("__dict__",) if isinstance(f, types.FunctionType) else ()
    functools.update_wrapper(thing, f, updated=attributes)
    name = getattr(f, "__name__", type(f).__name__)
    thing.__name__ = f"{where}({name})" if where else name
    return thing


def importable_name(thing: Any) -> str | None:
    """Return the qualified name under which exactly this object can be imported from its module, if there is one.

    A script's own names can't be imported elsewhere: where cloudpickle is at work, they are sent by value.
    """
    module = getattr(thing, "__module__", None)
    name = getattr(thing, "__qualname__", None)
    if module is None or name is None or (module == "__main__" and pickles_by_value()):
        return None
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return name if found is thing else None


def reduced(thing: Any, **changed: Any) -> tuple:
    """Return how an object is pickled as its class and its attributes, some of them changed."""
    return copyreg.__newobj__, (type(thing),), {**vars(thing), **changed}


def pickles_by_value() -> bool:
    """Whether it is cloudpickle that pickles at the moment."""
    if "cloudpickle" not in sys.modules:
        return False
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith("cloudpickle"):
            return True
        frame = frame.f_back
    return False
