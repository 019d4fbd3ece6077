"""Ranges of integers: sums of unknowns, facts about them, and the least that a sum comes to.

A fact is a sum that is not negative. The least value of a sum is found by adding up facts so that all unknowns cancel,
or, where an unknown is one of several sums, case by case. Results hold for whole numbers of any size; where
machine words come in, ``bounds.py`` sees to it that they do not wrap around. Not for: what facts there are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["Facts", "Given", "Sum", "number"]

#: sums that are looked at for one question, and facts that are added up for one answer
_TRIES, _DEEP = 3000, 14

#: unknowns, ascending, each with its factor
Terms = tuple[tuple[int, int], ...]
#: a fact as one of its unknowns sees it: the factor of that, the other terms, and the plain number
_Side = tuple[int, Terms, int]


class Sum(NamedTuple):
    """A number and unknowns, each by a factor."""

    terms: Terms
    plain: int

    def plus(self, other: Sum, by: int = 1) -> Sum:
        return Sum(_joined(self.terms, 1, other.terms, by), self.plain + by * other.plain)

    def times(self, by: int) -> Sum:
        return Sum(tuple([(s, by * f) for s, f in self.terms]) if by else (), by * self.plain)


def number(n: int) -> Sum:
    return Sum((), n)


def _joined(a: Terms, by: int, b: Terms, with_: int) -> Terms:
    if not b:
        return a if by == 1 else tuple([(s, by * f) for s, f in a])
    if not a:
        return b if with_ == 1 else tuple([(s, with_ * f) for s, f in b])
    if a[-1][0] < b[0][0]:
        return (
            *(a if by == 1 else [(s, by * f) for s, f in a]),
            *(b if with_ == 1 else [(s, with_ * f) for s, f in b]),
        )
    found = {s: by * f for s, f in a}
    for s, f in b:
        found[s] = found.get(s, 0) + with_ * f
    return tuple(sorted([t for t in found.items() if t[1]]))


class Given:
    """Facts that hold at some place, besides those that hold wherever their unknowns are used."""

    def __init__(self, facts: Sequence[Sum] = (), above: Given | None = None, case: tuple[int, ...] = ()) -> None:
        self.about: dict[tuple[int, bool], list[_Side]] = dict(above.about) if above else {}
        #: unknowns that stand for one of their cases here
        self.split = (*(above.split if above else ()), *case)  # type: ignore[has-type]
        for fact in facts:
            for key, side in _sides(fact):
                self.about[key] = [*self.about.get(key, ()), side]
        #: this with the facts of one case of an unknown
        self._cases: dict[tuple[int, int], Given] = {}
        #: the least that has been found of terms
        self.answers: dict[Terms, int] = {}
        #: terms, and the question in which this number was not found for them
        self.failed: dict[Terms, tuple[int, int | None]] = {}

    def case(self, s: int, i: int, x: Sum, facts: Sequence[Sum]) -> Given:
        """Return these with the facts of one case of an unknown, that it is a sum."""
        found = self._cases.get((s, i))
        if found is None:
            own = Sum(((s, 1),), 0)
            found = self._cases[s, i] = Given([*facts, own.plus(x, -1), x.plus(own, -1)], self, (s,))
        return found


class Facts:
    """Unknowns with facts about each that hold wherever it is used."""

    def __init__(self) -> None:
        #: of unknowns: the place in the text at which they become known, and how many do there
        self.at, self._count = 0, dict[int, int]()
        #: facts by each of their unknowns, and whether its factor is positive
        self._about: dict[tuple[int, bool], list[_Side]] = {}
        #: unknowns that are one of several sums, each with the facts that hold then
        self._cases: dict[int, list[tuple[Sum, Sequence[Sum]]]] = {}
        #: unknowns that are far from the largest machine words
        self.tame: set[int] = set()
        self._left, self._question, self._nowhere = 0, 0, Given()

    def unknown(self, tame: bool = False) -> Sum:
        """Return a new unknown: later ones are made of earlier ones, and disappear first."""
        count = self._count[self.at] = self._count.get(self.at, 0) + 1
        name = (self.at << 10) + count
        if tame:
            self.tame.add(name)
        return Sum(((name, 1),), 0)

    def is_tame(self, x: Sum) -> bool:
        """Whether a sum is far from the largest machine words."""
        return all([s in self.tame for s, _ in x.terms])

    def is_exact(self, x: Sum) -> bool:
        """Whether the machine word that a sum stands for has its value: no operation on the way wrapped around."""
        return self.is_tame(x) or (len(x.terms) == 1 and x.terms[0][1] == 1 and not x.plain)

    def learn(self, fact: Sum) -> None:
        """Note that a sum is never negative."""
        for key, side in _sides(fact):
            self._about.setdefault(key, []).append(side)

    def one_of(self, x: Sum, cases: list[tuple[Sum, Sequence[Sum]]]) -> None:
        """Note that an unknown is one of some sums, and which facts hold with each."""
        self._cases[x.terms[0][0]] = cases

    def least(self, x: Sum, given: Given | None = None, goal: int | None = None) -> int | None:
        """Return a number that a sum does not come below, given facts that hold besides; None if none is found.

        Beyond ``goal``, no better number is looked for.
        """
        self._left, self._question = _TRIES, self._question + 1
        found = self._least(x.terms, given or self._nowhere, None if goal is None else goal - x.plain, _DEEP)
        return None if found is None else found + x.plain

    def is_at_least(self, x: Sum, goal: int, given: Given | None = None) -> bool:
        found = self.least(x, given, goal)
        return found is not None and found >= goal

    def _least(self, terms: Terms, given: Given, goal: int | None, deep: int) -> int | None:
        if not terms:
            return 0
        found = given.answers.get(terms)
        if found is not None and goal is not None and found >= goal:
            return found
        question, least = given.failed.get(terms, (0, None))
        if question == self._question and (least is None or (goal is not None and goal >= least)):
            return found
        self._left -= 1
        if not deep or self._left < 0:
            return found
        given.failed[terms] = self._question, goal  # facts that lead back to the same question do not answer it
        new = self._found(terms, given, goal, deep)
        if new is not None and (found is None or new > found):
            found = given.answers[terms] = new
        return found

    def _found(self, terms: Terms, given: Given, goal: int | None, deep: int) -> int | None:
        s, factor = terms[-1]
        rest, best, key = terms[:-1], None, (s, factor > 0)
        sides = [*self._about.get(key, ()), *given.about.get(key, ())]
        if len(sides) > 1:
            sides.sort(key=lambda side: len(side[1]))
        for other, left, plain in sides:
            common = math.gcd(factor, other)
            m, n = abs(factor) // common, abs(other) // common
            below = None if goal is None else n * (goal - 1) + 1 + m * plain
            found = self._least(_joined(rest, n, left, -m), given, below, deep - 1)
            if found is None:
                continue
            found = -((m * plain - found) // n)
            best = found if best is None else max(best, found)
            if goal is not None and best >= goal:
                return best
        if s in self._cases and s not in given.split:
            worst: int | None = None
            for i, (x, facts) in enumerate(self._cases[s]):
                case = given.case(s, i, x, facts)
                want = None if goal is None else goal - factor * x.plain
                found = self._least(_joined(rest, 1, x.terms, factor), case, want, deep - 1)
                if found is None:
                    return best
                found += factor * x.plain
                worst = found if worst is None else min(worst, found)
            if worst is not None:
                best = worst if best is None else max(best, worst)
        return best


def _sides(fact: Sum) -> list[tuple[tuple[int, bool], _Side]]:
    """Return a fact as each of its unknowns sees it; of whole numbers, what factors have in common is left out."""
    terms, plain = fact
    if len(terms) == 1:
        common = abs(terms[0][1])
    else:
        common = math.gcd(*[f for _, f in terms])
    if common > 1:
        terms, plain = tuple([(s, f // common) for s, f in terms]), plain // common
    return [((s, f > 0), (f, (*terms[:i], *terms[i + 1 :]), plain)) for i, (s, f) in enumerate(terms)]
