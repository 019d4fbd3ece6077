"""Names of mapped axes: which level of ``vmap`` a name means, here and now.

A name is known while the ``vmap(..., axis_name=...)`` that gives it runs, in its own thread or asynchronous task. Where
an operator's rule takes the lanes of a named level apart and maps something over them again, the new level takes the
name over (``rename``); where it takes them one by one, or hands them to a user's rule, the name means nothing for a
while (``unavailable``). Not for:
what a collective computes (``annex/collectives.py``).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from ..errors import ArgumentError
from .level import Level

__all__ = ["Lanes", "axis_level", "check_new", "named", "rename", "unavailable"]

#: name -> level, or the obstacle between its lanes and a collective
_axes: ContextVar[dict[str, Any] | None] = ContextVar("dualad_axes", default=None)


class Lanes(int):
    """The number of lanes of a named axis; rules hand it on, and with it the name."""

    name: str

    def __new__(cls, count: int, name: str) -> Lanes:
        lanes = super().__new__(cls, count)
        lanes.name = name
        return lanes


@contextmanager
def named(name: str, meaning: Any) -> Iterator[None]:
    """Let a name mean a level."""
    token = _axes.set({**(_axes.get() or {}), name: meaning})
    try:
        yield
    finally:
        _axes.reset(token)


@contextmanager
def rename(level: Level) -> Iterator[None]:
    """Let a level opened for lanes that had a name take the name over; without a name, nothing happens."""
    size = level.size
    if type(size) is Lanes:
        with named(size.name, level):
            yield
    else:
        yield


@contextmanager
def unavailable(size: int, operation: str) -> Iterator[None]:
    """Let the name of some lanes mean nothing while an operation takes them one by one."""
    if type(size) is Lanes:
        with named(size.name, operation):
            yield
    else:
        yield


def check_new(name: str) -> None:
    """Refuse a name that an enclosing ``vmap`` has given already."""
    if name in (_axes.get() or {}):
        raise ArgumentError(
            f"vmap: axis_name={name!r} is also the name of an axis that is being mapped around it.",
            "a collective could not tell the two apart",
            "choose another name for one of them",
        )


def axis_level(name: str, where: str) -> Level:
    """Return the level that a name means, or say why it means none."""
    axes = _axes.get() or {}
    level = axes.get(name)
    if isinstance(level, Level):
        return level
    if level is None:
        known = ", ".join(map(repr, sorted(axes))) or "none"
        raise ArgumentError(
            f"{where}: no mapped axis is named {name!r} here; the names known are: {known}.",
            "a collective works across the lanes of the vmap that names the axis, while that vmap runs (and in its"
            " thread)",
            f"call it inside the function given to dualad.vmap(f, axis_name={name!r})",
        )
    raise ArgumentError(
        f"{where}: the lanes of the axis {name!r} are not together here.",
        f"`{level}` takes them one by one, or all at once by a rule of its own, and no longer as lanes of the axis",
        "call the collective outside of it",
    )
