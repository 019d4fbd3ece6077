"""Looking into derivatives and switching them off: ``grad_hook``, ``residual_hooks``, ``no_tangents``.

Not for: rules of functions (``custom_jvp.py``, ``custom_vjp.py``); these three change no function's derivative but what
is seen of it, where it is kept, and where none is taken.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable
from typing import Any

from ..base.frames import public
from ..base.tree import is_array, tree_map
from ..core import contexts
from ..core.aval import aval_of, is_inexact
from ..core.dispatch import bind
from ..core.level import Level
from ..core.primitive import Primitive
from ..core.tracer import Tracer
from ..errors import ArgumentTypeError, OutputError
from ..program import packed
from ..vmap import vmap

__all__ = ["grad_hook", "no_tangents", "residual_hooks"]


# ── grad_hook ────────────────────────────────────────────────────────────────────────────────────────────────────


def _hook(ct, hook: Callable):
    """Run a hook on a cotangent and check what it returned."""
    new = hook(ct)
    if new is None:
        return ct
    name = getattr(hook, "__name__", type(hook).__name__)
    found, wanted = (aval_of(new) if is_array(new) else None), aval_of(ct)
    if found is None or found.shape != wanted.shape or (found.dtype != wanted.dtype and not found.weak):
        raise OutputError(
            f"the hook `{name}` of grad_hook returned {type(new).__name__ if found is None else repr(found)} for a"
            f" cotangent {wanted!r}.",
            "what it returns takes the cotangent's place",
            "return an array of the same shape and dtype, or None to leave it as it is",
        )
    return new


def _batch(size, values, mapped, *, hook):
    def per_lane(ct):
        return vmap(lambda c: _hook(c, hook), randomness="same")(ct)

    per_lane.__name__ = getattr(hook, "__name__", type(hook).__name__)
    return bind(hook_op, values, {"hook": per_lane})


def _jvp(primals, tangents, *, hook):
    # The value passes by at this level; a lower level that takes a gradient of its own is hooked too.
    return bind(hook_op, primals, {"hook": hook}), bind(hook_op, tangents, {"hook": hook})


hook_op = Primitive(
    "grad_hook",
    impl=lambda x, *, hook: x,
    abstract_eval=lambda x, *, hook: x,
    jvp=_jvp,
    linear_in=(0,),
    transpose=lambda ct, x, *, hook: (_hook(ct, hook),),
    batch=_batch,
    samples=[((3,), {"hook": lambda ct: None}), ((), {"hook": lambda ct: ct})],
    effect=True,
    given=("transpose",),
    kind="custom",
)


@public
def grad_hook(x: Any, hook: Callable[[Any], Any]) -> Any:
    """Return ``x``, and have its cotangent pass through a function on the way back.

    Parameters
    ----------
    x : tree of arrays
        The value; it is returned as it is, and so is its tangent.
    hook : callable
        ``hook(ct)`` is called with the cotangent of each array when a gradient is pulled back through it, once per
        pull however often the value is used, and not at all where no gradient passes. What it returns takes the
        cotangent's place; ``None`` leaves it.

    Returns
    -------
    tree
        ``x``.

    Raises
    ------
    OutputError
        By the pullback, if the hook returns something that is not like the cotangent.

    Examples
    --------
    >>> seen = []
    >>> da.grad(lambda x: 3.0 * da.grad_hook(x, seen.append) ** 2)(2.0)
    np.float64(12.0)
    >>> seen
    [np.float64(12.0)]
    """
    if not callable(hook):
        raise ArgumentTypeError(f"grad_hook: the hook is {hook!r}.", "it is called with a cotangent", "pass a function")
    return tree_map(
        lambda v: bind(hook_op, (v,), {"hook": hook}) if isinstance(v, Tracer) and is_inexact(v.dtype) else v, x
    )


# ── residual_hooks ───────────────────────────────────────────────────────────────────────────────────────────────


class residual_hooks:
    """A context in which what reverse mode keeps for later is packed, and unpacked when it is used.

    Parameters
    ----------
    pack : callable
        ``pack(array) -> anything``, called once for each array as it is recorded: a file name, a smaller dtype, a
        compressed string. The array is read-only. A Python number comes as NumPy's scalar.
    unpack : callable
        Its inverse, called each time the pullback (or linear map) is used; it restores shape and dtype.

    Raises
    ------
    ArgumentTypeError
        If ``pack`` or ``unpack`` is not callable.
    ShapeError, DtypeError
        When the pullback is used, if ``unpack`` returns something of another shape or dtype.

    See Also
    --------
    checkpoint : compute again in place of keeping.

    Notes
    -----
    The innermost context holds. It concerns linearizations that run inside it (``vjp``, ``grad``, ``linearize``);
    when they are used does not matter. Where derivatives are nested, residuals may be tensors of the outer transform,
    and are packed as such.

    Examples
    --------
    >>> with da.residual_hooks(lambda a: a.astype(np.float32), lambda a: a.astype(float)):
    ...     value, pull = da.vjp(np.sin, np.array([0.0, 1.0]))
    >>> pull(np.ones(2))[0].round(6)
    array([1.      , 0.540302])
    """

    def __init__(self, pack: Callable[[Any], Any], unpack: Callable[[Any], Any]) -> None:
        for name, hook in (("pack", pack), ("unpack", unpack)):
            if not callable(hook):
                raise ArgumentTypeError(
                    f"residual_hooks: {name} is {hook!r}.", "it is called with what is kept", "pass a function"
                )
        self._pair = (pack, unpack)
        self._tokens: list = []

    def __enter__(self) -> residual_hooks:
        self._tokens.append(packed.active.set(self._pair))
        return self

    def __exit__(self, *exc_info: object) -> None:
        packed.active.reset(self._tokens.pop())


# ── no_tangents ──────────────────────────────────────────────────────────────────────────────────────────────────


class no_tangents:
    """A context, or a decorator, in which operations on tensors have no tangents.

    Parameters
    ----------
    active : bool
        ``False`` switches tangents on again inside a context that has switched them off.

    Raises
    ------
    ArgumentTypeError
        If it decorates something that is not callable.

    Notes
    -----
    It concerns the transforms that are running when it is entered: a ``grad`` called inside works as ever. The
    results are those of ``stop_gradient`` on every operand. The values themselves are left as they are: a tensor that
    is only passed through keeps its tangent. Decorated generators and coroutines have it on while their own body runs.

    Examples
    --------
    >>> def normalized(x):
    ...     with da.no_tangents():
    ...         scale = np.sum(x)
    ...     return x / scale
    >>> da.jvp(normalized, (np.array([1.0, 3.0]),), (np.array([1.0, 0.0]),))[1]
    array([0.25, 0.  ])
    """

    def __init__(self, active: bool = True) -> None:
        if not isinstance(active, bool):
            raise ArgumentTypeError(
                f"no_tangents was given {active!r}.",
                "it takes True or False, or decorates as @no_tangents()",
                "write @no_tangents() above a def, or `with no_tangents():`",
            )
        self.active = active
        self._tokens: list = []

    def __enter__(self) -> no_tangents:
        contexts.enter()
        # Levels opened from now on have higher numbers, and keep their tangents.
        self._tokens.append(contexts.boundary.set(Level("no_tangents").number if self.active else 0))
        return self

    def __exit__(self, *exc_info: object) -> None:
        contexts.boundary.reset(self._tokens.pop())
        contexts.leave()

    def __call__(self, function: Callable) -> Callable:
        """Decorate a function, a generator function or a coroutine function."""
        if isinstance(function, type) or not callable(function):
            raise ArgumentTypeError(
                f"no_tangents was used to decorate {function!r}.",
                "a class is not a piece of code that runs",
                "decorate the methods that are meant",
            )
        active = self.active
        if inspect.isgeneratorfunction(function):

            @functools.wraps(function)
            def generator(*args, **kwargs):
                return _driven(function(*args, **kwargs), active)

            return generator
        if inspect.iscoroutinefunction(function):

            @types.coroutine
            def driven(coroutine):
                return (yield from _driven(coroutine.__await__(), active))

            @functools.wraps(function)
            async def awaited(*args, **kwargs):
                return await driven(function(*args, **kwargs))

            return awaited

        @functools.wraps(function)
        def quietly(*args, **kwargs):
            with no_tangents(active):
                return function(*args, **kwargs)

        return quietly


def _driven(inner, active: bool):
    """Run a generator with tangents off while its own body runs, and on again whenever it has yielded."""
    try:
        with no_tangents(active):
            item = next(inner)
        while True:
            try:
                sent = yield item
            except GeneratorExit:
                with no_tangents(active):
                    inner.close()
                raise
            except BaseException as error:
                with no_tangents(active):
                    item = inner.throw(error)
            else:
                with no_tangents(active):
                    item = inner.send(sent)
    except StopIteration as end:
        return end.value
