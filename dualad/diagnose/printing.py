"""``debug.print``: text with the numbers of each run, printed by whatever runs the function: NumPy or compiled code.

A print is a step of the program that is being written, wherever its values come from, and no step goes for want of a
reader. Not for: text of tensors (their ``repr``), or following values (``debug.py``).
"""

from __future__ import annotations

import builtins
import string
from collections.abc import Sequence
from typing import Any

import numpy as np
import optree

from ..base.frames import public
from ..base.tree import flatten, statics_wrapped
from ..core.aval import Aval
from ..core.contexts import writing
from ..core.dispatch import bind
from ..core.primitive import Primitive
from ..core.tracer import Tracer
from ..errors import ArgumentError, ArgumentTypeError
from ..ops.kinds import in_lanes, repeat_lanes

__all__ = ["print_values"]


class _Formatter(string.Formatter):
    """Python's, which gives each entry of an array the format that it is given."""

    def format_field(self, value: Any, format_spec: str) -> str:
        """Return the text of a value."""
        if isinstance(value, np.ndarray) and format_spec:
            return np.array2string(value, formatter={"all": lambda x: format(x, format_spec)})
        return format(value, format_spec)


class _Anything:
    """A value that has every entry, attribute and format."""

    def __getattr__(self, name: str) -> _Anything:
        return self

    def __getitem__(self, key: Any) -> _Anything:
        return self

    def __format__(self, spec: str) -> str:
        return ""


def _step(values: Sequence, params: dict) -> Any:
    """Print, or make that a step of the innermost program that is being written: also of values from outside of it."""
    level = writing.get()
    if (
        level is None
        or not level.open
        or any([isinstance(v, Tracer) and v.level.number >= level.number for v in values])
    ):
        return bind(print_op, values, params)
    return level.record(print_op, values, params)


def _impl(*values, text, tree, lead):
    if (level := writing.get()) is not None and level.open:  # a program is run to write down another one
        return level.record(print_op, values, {"text": text, "tree": tree, "lead": lead})
    arrays = [np.asarray(v) for v in values]
    for lane in np.ndindex(lead):
        filled: Any = optree.tree_unflatten(tree, [a[lane] for a in arrays])
        builtins.print(_Formatter().vformat(text, *filled))
    return np.False_


def _batch(size, values, mapped, *, text, tree, lead):
    values = in_lanes(values, mapped, size)
    return repeat_lanes(_step(values, {"text": text, "tree": tree, "lead": (size, *lead)}), size)


print_op = Primitive(
    "debug_print",
    impl=_impl,
    abstract_eval=lambda *avals, **params: Aval((), np.dtype(bool)),
    jvp=lambda primals, tangents, **params: (_step(primals, params), None),
    batch=_batch,
    samples=[((3,), {"text": "{}", "tree": flatten(((0.0,), {}))[1], "lead": ()})],
    kept=True,
    raises=True,
    kind="custom",
)


@public
def print_values(text: str, *args: Any, **kwargs: Any) -> None:
    """Print text with values in it, also from compiled, batched and differentiated code: ``dualad.debug.print``.

    Parameters
    ----------
    text : str
        As for ``str.format``: ``"loss {:.3f} at {x}"``. A format of an array is that of its entries.
    *args, **kwargs : tree
        The values: arrays, numbers, anything that can be made text of.

    Raises
    ------
    ArgumentTypeError
        If the text is no string.
    ArgumentError
        If it asks for a value that is not given.

    Notes
    -----
    Each run prints, in the order of the program, once for each iteration of a loop and for each lane of ``vmap``; a
    derivative prints the values, and not again on its way back. What ``checkpoint`` runs again prints once, what a
    ``scan`` with ``checkpoints=`` does each time. Where lanes of ``vmap`` choose different branches of ``dualad.cond``,
    or leave a ``while_loop`` after each other, both branches print in all lanes, and those that are done go on.

    Examples
    --------
    >>> @da.jit
    ... def f(x):
    ...     da.debug.print("x = {:.2f}", x)
    ...     return x**2
    >>> y = f(3.0)
    x = 3.00
    >>> y = da.vmap(f)(np.array([1.0, 2.0]))
    x = 1.00
    x = 2.00
    """
    if not isinstance(text, str):
        raise ArgumentTypeError(
            f"debug.print: the text is {text!r}.",
            "values go where the text has braces",
            "write debug.print('x = {}', x)",
        )
    try:
        text.format(*[_Anything()] * len(args), **dict.fromkeys(kwargs, _Anything()))
    except (IndexError, KeyError, ValueError) as error:
        raise ArgumentError(
            f"debug.print: the text {text!r} can't be filled in: {error!r}.",
            f"there are {len(args)} values by position, and by name {sorted(kwargs) or 'none'}",
            "write a value for each field, and {{ for a brace",
        ) from None
    leaves, tree = flatten(statics_wrapped((args, kwargs)))
    _step(leaves, {"text": text, "tree": tree, "lead": ()})
