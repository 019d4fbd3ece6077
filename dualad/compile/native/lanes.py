"""Whether LLVM may read a wrong lane of a vector of 512 bits, from the lanes that a text moves and asks for.

For: the one fault of LLVM 22 that programs meet here (``docs/explanation/what-llvm-is-trusted-with.md``). A permutation
of eight lanes of which only the first two are asked for, from the first two of a vector, becomes an instruction for
two lanes, and that one has its index in another bit: it takes lane 0 where lane 1 is meant.
Not for: processors without AVX-512, nor the rewriting itself (``engine.py``).
"""

from __future__ import annotations

import functools
import re
from collections import defaultdict
from collections.abc import Iterator

from .code import WIDTH

__all__ = ["may_misread"]

_ALL, _LOW = (1 << WIDTH) - 1, 0b11
#: kinds of uses of a value that are told apart
_MOST = 16
_LINE = re.compile(r"^ *(?:(%\w+) = )?(\w+) ([^\n]*)$", re.MULTILINE)
_NAME = re.compile(r"%\w+")
_MOVED = re.compile(r"<8 x \w+> (\S+), <8 x \w+> (\S+), <8 x i32> (.*)$")
_ONE = re.compile(r"<8 x \w+> (\S+), (?:\w+ (\S+), )?i64 (\d+)$")
_CHOSEN = re.compile(
    r"<8 x i1> <(.*?)>, <8 x \w+> (\S+), <8 x \w+> (\S+)$"  # select
    r"|<8 x i64> (\S+), <(.*)>$"  # and
)
_MASK = re.compile(r" = shufflevector <8 x [^\n]*, <8 x i32> (.*)$", re.MULTILINE)
_EXTRACTED = re.compile(r"^ *(%\w+) = extractelement <8 x ", re.MULTILINE)
_INSERTED = re.compile(r"^ *(%\w+) = insertelement <8 x \w+> \S+, \w+ (%\w+), i64 \d+$", re.MULTILINE)
_SPREAD = re.compile(r" = shufflevector <8 x \w+> (%\w+), .* zeroinitializer$", re.MULTILINE)


def _regular_masks() -> Iterator[str]:
    """Yield the masks of shuffles that only spread a lane, or permute by the bits of the numbers of lanes."""
    yield "zeroinitializer"
    lanes = range(WIDTH)
    for bit in (1, 2, 4):
        low = [i - bit + WIDTH if i & bit else i for i in lanes]
        for found in ([i ^ bit for i in lanes], low, [k + bit for k in low], [WIDTH - 1 - i for i in lanes]):
            yield f"<{', '.join([f'i32 {i}' for i in found])}>"


#: what has instructions of its own, which are not narrowed to others
_REGULAR = frozenset(_regular_masks())


def _mixes_lanes(function: str) -> bool:
    """Whether a function permutes lanes otherwise, chooses some, or puts one that it takes out into several."""
    if " = select <8 x i1> <" in function or not _REGULAR.issuperset(_MASK.findall(function)):
        return True
    if " = extractelement <8 x " not in function:
        return False
    extracted, spread = set(_EXTRACTED.findall(function)), set(_SPREAD.findall(function))
    inserted = [(made, x) for made, x in _INSERTED.findall(function) if x in extracted]
    return len({x for _, x in inserted}) < len(inserted) or any([made in spread for made, _ in inserted])


def may_misread(function: str) -> bool:
    """Whether lane 1 of a vector may move to where only lanes 0 and 1 are asked for.

    From the last line back, each use of a value asks for some of its lanes: all, or as few as a use of its result asks
    for. What moves lanes is followed through any number of shuffles, extractions and insertions, since LLVM makes one
    permutation of them.
    """
    if not _mixes_lanes(function):
        return False
    few: defaultdict[str, set[int]] = defaultdict(set)  # of a value, what uses ask for that don't ask for all, as bits
    moved: defaultdict[str, int] = defaultdict(int)  # its lanes that move to where no more than the first two are asked
    once: defaultdict[str, int] = defaultdict(int)  # those that get there by one regular permutation
    for made, operator, rest in reversed(_LINE.findall(function)):
        asked, far, near = few.pop(made, set()), moved[made], once[made]
        if len(asked) > _MOST:
            return True
        low = functools.reduce(int.__or__, [lanes for lanes in asked if not lanes & ~_LOW], 0)
        if permuted := _permuted(operator, rest):
            names, places, regular = permuted
            for lanes in (_ALL, *asked):
                of_each = [0, 0]
                for i, place in enumerate(places):
                    if lanes >> i & 1 and place >= 0:
                        of_each[place >= WIDTH] |= 1 << place % WIDTH
                for name, found_there in zip(names, of_each, strict=True):
                    if found_there not in (0, _ALL):
                        few[name].add(found_there)
            farther = far | near | (0 if regular else low)
            for i, place in enumerate(places):
                if place >= 0 and farther >> i & 1:
                    if place % WIDTH == 1:
                        return True
                    moved[names[place >= WIDTH]] |= 1 << place % WIDTH
                elif place >= 0 and low >> i & 1:
                    once[names[place >= WIDTH]] |= 1 << place % WIDTH
        elif operator == "extractelement" and (found := _ONE.match(rest)):
            lane = 1 << int(found[3])
            few[found[1]].add(lane)
            if far:  # of a number: it has gone into a lane that moves
                if lane == 2:
                    return True
                moved[found[1]] |= lane
        elif operator == "insertelement" and (found := _ONE.match(rest)):
            lane = 1 << int(found[3])
            if (far | near | low) & lane:
                moved[found[2]] = _ALL
            few[found[1]] |= {lanes & ~lane for lanes in asked} - {0}
            moved[found[1]] |= far & ~lane
            once[found[1]] |= near & ~lane
        else:  # lane by lane, or nothing that cares
            if asked or far or near:
                for name in _NAME.findall(rest):
                    few[name] |= asked
                    moved[name] |= far
                    once[name] |= near
    return False


def _permuted(operator: str, rest: str) -> tuple[tuple[str, str], list[int], bool] | None:
    """Return of what vectors lanes are taken, which comes to each place, and whether that is regular.

    What constants choose is a permutation, too: lanes stay where they are, and others are another vector's or zeros.
    """
    if operator == "shufflevector" and (found := _MOVED.match(rest)):
        return (found[1], found[2]), *_permutation(found[3])
    if operator in ("and", "select") and (found := _CHOSEN.match(rest)):
        chosen = [i for i, x in enumerate((found[1] or found[5]).split(", ")) if x not in ("i64 0", "i1 false")]
        places = [i if i in chosen else -1 if found[4] else WIDTH + i for i in range(WIDTH)]
        return (found[2] or found[4], found[3] or ""), places, False
    return None


@functools.lru_cache(4096)
def _permutation(mask: str) -> tuple[list[int], bool]:
    """Return which lane comes to each place, -1 for any, and whether that is regular."""
    lanes = ["i32 0"] * WIDTH if mask == "zeroinitializer" else mask[1:-1].split(", ")
    return [-1 if x.endswith("poison") else int(x[4:]) for x in lanes], mask in _REGULAR
