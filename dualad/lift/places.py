"""Places: where a name, an entry, a cell or an attribute holds something that lifted code shall find replaced.

For: ``Swap``, which puts replacements there and takes them away again, whoever else has done so in the meantime. A
place that several calls want is swapped by the first and restored by the last, in whatever threads they run; a call
that nobody runs beside changes whole dicts at once, and counts nothing. Not for: finding places (``search.py``).
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from operator import is_, itemgetter
from typing import Any

from ..base.locks import new_lock
from ..guards.places import MISSING

__all__ = ["Attribute", "MISSING", "Place", "Swap", "attribute", "is_quiet", "lock", "original_in"]


#: nothing is swapped or restored by anybody else while it is held
lock = new_lock()

#: every place that somebody may swap, by table and then by its owner and key: there is one, for all that do
_places: dict[str, weakref.WeakValueDictionary[tuple[int, Any], Place]] = {}

#: how many calls are running that have swapped something
_running = 0
#: the swap of the one call that runs, if its places are not counted
_alone: Swap | None = None
#: how often a place was given another content or replacement
_changes = 0


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
        """Return the place, a new one or the one that is known; a place that is swapped now goes on as it is."""
        global _changes
        _count_alone()
        places = _places.setdefault(mark, weakref.WeakValueDictionary())
        place = places.get((id(owner), key))
        if place is None:
            place = cls()
            place.owner, place.key, place.count, place.done = owner, key, 0, False
            place.old = place.new = MISSING
            places[id(owner), key] = place
        if not place.count and (place.old is not old or place.new is not new):
            place.old, place.new = old, new
            _changes += 1
        return place

    def held(self) -> Any:
        """Return the present content."""
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
        """Return the present content."""
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
    """Return the content of a place when nothing is swapped."""
    if not _running:
        return held
    _count_alone()
    for places in list(_places.values()):
        place = places.get((id(owner), key))
        if place is not None and place.done and held is place.new:
            return place.old
    return held


def _count_alone() -> None:
    """Count the places of the call that has run alone until now."""
    global _alone
    if _alone is None:
        return
    with lock:
        alone: Swap | None
        alone, _alone = _alone, None
        if alone is not None:  # another thread may have counted them by now
            for place in alone.places:
                place.count, place.done = 1, True


class Swap:
    """The places that one call swaps. Of ``roots``, some of their owners, the caller knows when they are unchanged."""

    __slots__ = ("_entries", "_others", "_roots", "_seen", "places")

    def __init__(self, places: Iterable[Place], roots: Iterable[dict] = ()) -> None:
        self.places = [*dict.fromkeys(places)]
        self._roots, self._seen = {*map(id, roots)}, -1

    def swap(self, is_known: bool = False) -> None:
        """Put the replacements into the places, for one call that holds the lock; ``is_known`` if the roots are."""
        global _running, _alone
        if not _running and self._swap_alone(is_known):
            _running, _alone = 1, self
            return
        _count_alone()
        _running += 1
        begun = 0
        try:
            for place in self.places:
                place.count += 1
                begun += 1
                if place.count == 1 and place.held() is place.old:
                    place.done = True
                    place.put(place.new)
        except BaseException:  # an interrupt from the keyboard, or an owner that can't be written to
            _restore(self.places[:begun])
            raise

    def restore(self) -> None:
        """Take the replacements out of the places again, after one call."""
        global _running, _alone
        with lock:
            if _alone is self and self._restore_alone():
                _running, _alone = 0, None
                return
            _count_alone()
            _restore(self.places)

    def _swap_alone(self, is_known: bool) -> bool:
        """Put all replacements there, uncounted; False if a place holds another thing, and nothing is changed."""
        if self._seen != _changes:
            self._arrange()
        for x in self._entries:
            if not (is_known and x.is_root) and not x.has_old():
                return False
        for place in self._others:
            if place.held() is not place.old:
                return False
        try:
            for x in self._entries:
                x.owner.update(x.new)
            for place in self._others:
                place.put(place.new)
        except BaseException:
            for place in self.places:
                if place.held() is place.new:
                    place.put(place.old)
            raise
        return True

    def _restore_alone(self) -> bool:
        """Take all replacements away; False if another thing stands in the place of one, and nothing is changed."""
        try:
            for x in self._entries:
                if not all(map(is_, x.read_new(x.owner), x.after)):
                    return False
        except KeyError:
            return False
        for place in self._others:
            if place.held() is not place.new:
                return False
        for x in self._entries:
            owner = x.owner
            owner.update(x.old)
            for name in x.added:
                del owner[name]
        for place in self._others:
            place.put(place.old)
        return True

    def _arrange(self) -> None:
        dicts: dict[int, list[Place]] = {}
        self._others: list[Place] = []
        for place in self.places:
            if type(place) is Place and type(place.owner) is dict:
                dicts.setdefault(id(place.owner), []).append(place)
            else:
                self._others.append(place)
        self._entries = [_Entries(places, key in self._roots) for key, places in dicts.items()]
        self._seen = _changes


class _Entries:
    """The places in one dict: their contents, read and written at once."""

    __slots__ = ("added", "after", "before", "is_root", "new", "old", "owner", "read", "read_new")

    def __init__(self, places: list[Place], is_root: bool) -> None:
        self.owner, self.is_root = places[0].owner, is_root
        self.new = {place.key: place.new for place in places}
        self.old = {place.key: place.old for place in places if place.old is not MISSING}
        self.added = frozenset(self.new.keys() - self.old.keys())
        self.before, self.after = [*self.old.values()], [*self.new.values()]
        self.read, self.read_new = _reader(self.old), _reader(self.new)

    def has_old(self) -> bool:
        """Whether the dict holds what it does outside of calls."""
        try:
            return all(map(is_, self.read(self.owner), self.before)) and self.owner.keys().isdisjoint(self.added)
        except KeyError:
            return False


def _reader(keys: Iterable) -> Any:
    """Return a getter of a dict's entries, in order; of a single key its entry twice."""
    keys = [*keys]
    return itemgetter(keys[0], *keys[1:] or keys) if keys else lambda owner: ()


def _restore(places: list[Place]) -> None:
    """Take the replacements out of places that are counted."""
    global _running
    for place in places:
        place.count -= 1
        if not place.count and place.done:
            if place.held() is place.new:
                place.put(place.old)
            place.done = False
    _running -= 1
