"""Places: where a name, an entry, a cell or an attribute holds something that lifted code shall find replaced.

For: ``swap`` and ``restore``, which put replacements there and take them away again, whoever else has done so in the
meantime. A place that several calls want is swapped by the first and restored by the last, in whatever threads they
run. Not for: finding places (``search.py``).
"""

from __future__ import annotations

import weakref
from typing import Any

from ..base.locks import new_lock

__all__ = ["Attribute", "MISSING", "Place", "attribute", "is_quiet", "lock", "original_in", "restore", "swap"]


#: what a place holds that does not exist: the name of a builtin, in the globals of a module
MISSING: Any = object()

#: nothing is swapped or restored by anybody else while it is held
lock = new_lock()

#: every place that somebody may swap, by table and then by its owner and key: there is one, for all that do
_places: dict[str, weakref.WeakValueDictionary[tuple[int, Any], Place]] = {}

#: how many calls are running that have swapped something
_running = 0


class Place:
    """An entry of a dict (the globals of a module, the attributes of an object) or a list.

    ``owner`` holds ``old`` under ``key``, and ``new`` while lifted code runs.
    """

    __slots__ = ("__weakref__", "count", "done", "key", "new", "old", "owner")

    owner: Any
    key: Any
    old: Any
    new: Any
    #: how many of the calls that run want it swapped
    count: int
    #: whether it is swapped: not, if it held something else by then
    done: bool

    @classmethod
    def at(cls, owner: Any, key: Any, old: Any, new: Any, mark: str) -> Place:
        """Return the place, a new one or the one that is known; what is swapped now goes on as it is."""
        places = _places.setdefault(mark, weakref.WeakValueDictionary())
        place = places.get((id(owner), key))
        if place is None:
            place = cls()
            place.owner, place.key, place.count, place.done = owner, key, 0, False
            places[id(owner), key] = place
        if not place.count:
            place.old, place.new = old, new
        return place

    def held(self) -> Any:
        """Return what is there now."""
        owner = self.owner
        if type(owner) is list:
            return owner[self.key] if self.key < len(owner) else MISSING
        return owner.get(self.key, MISSING)

    def put(self, value: Any) -> None:
        """Put something there."""
        if value is MISSING:
            del self.owner[self.key]
        else:
            self.owner[self.key] = value


class Attribute(Place):
    """An attribute: of a class, a cell (``cell_contents``) or a function (``__code__``, ``__defaults__``)."""

    __slots__ = ()

    def held(self) -> Any:
        """Return what is there now."""
        if isinstance(self.owner, type):
            return vars(self.owner).get(self.key, MISSING)
        return attribute(self.owner, self.key)

    def put(self, value: Any) -> None:
        """Put something there."""
        setattr(self.owner, self.key, value)


def attribute(owner: Any, key: str) -> Any:
    """Return an attribute, or MISSING: an empty cell has none."""
    try:
        return getattr(owner, key)
    except (AttributeError, ValueError):
        return MISSING


def is_quiet() -> bool:
    """Whether nothing is swapped now, in any thread."""
    return not _running


def original_in(owner: Any, key: Any, held: Any) -> Any:
    """Return what a place holds when nothing is swapped."""
    if not _running:
        return held
    for places in list(_places.values()):
        place = places.get((id(owner), key))
        if place is not None and place.done and held is place.new:
            return place.old
    return held


def swap(places: list[Place]) -> None:
    """Put the replacements into places, for one call."""
    global _running
    begun = 0
    with lock:
        _running += 1
        try:
            for place in places:
                place.count += 1
                begun += 1
                if place.count == 1 and place.held() is place.old:
                    place.done = True
                    place.put(place.new)
        except BaseException:  # an interrupt from the keyboard, or an owner that can't be written to
            restore(places[:begun])
            raise


def restore(places: list[Place]) -> None:
    """Take the replacements out of places again, after one call."""
    global _running
    with lock:
        for place in places:
            place.count -= 1
            if not place.count and place.done:
                if place.held() is place.new:
                    place.put(place.old)
                place.done = False
        _running -= 1
