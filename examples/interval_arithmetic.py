"""Every root of a function, proven: a level of one's own, and derivatives through it.

A transform is a level and a tensor with `process`, which here bounds each operator: all it takes for NumPy code, and
for `jvp` above it, to run on intervals. The Newton step m − f(m)/f′(X) proves that a box holds one root, or none.

Look at `process`: it splits off what carries its own level, as every level does, and takes all else for a constant.
"""

import numpy as np

import dualad as da
from dualad.core.level import Level, escaped
from dualad.core.tracer import Tracer

__dualad__ = {"f": [(0.5,), (2.5,)]}


def products(x, y):
    return min(corners := [a * b for a in x for b in y]), max(corners)


def sine(x, shift=0.0):
    passes = lambda peak: np.floor((x[1] + shift - peak) / 2 / np.pi) >= np.ceil((x[0] + shift - peak) / 2 / np.pi)
    a, b = sorted([np.sin(x[0] + shift), np.sin(x[1] + shift)])
    return -1.0 if passes(-np.pi / 2) else a, 1.0 if passes(np.pi / 2) else b


RULES = {
    "add": lambda x, y: (x[0] + y[0], x[1] + y[1]),
    "subtract": lambda x, y: (x[0] - y[1], x[1] - y[0]),
    "negative": lambda x: (-x[1], -x[0]),
    "multiply": products,
    "scale": products,  # the product by which derivatives beside a pole let an exact zero win over infinity
    "divide": lambda x, y: (-np.inf, np.inf) if y[0] <= 0 <= y[1] else products(x, (1 / y[1], 1 / y[0])),
    "exp": lambda x: (np.exp(x[0]), np.exp(x[1])),
    "sin": sine,
    "cos": lambda x: sine(x, np.pi / 2),
}


class Interval(Tracer):
    __slots__ = ()  # all tensors have one layout; what this one holds is in `_value`
    shape, dtype = (), np.dtype(float)

    def __init__(self, low, high, level):
        self._value, self.level = (low, high), level

    def process(self, op, args, params):
        if not self.level.open:
            raise escaped(self.level, f"`{op.name}`")
        if op.name not in RULES:
            raise NotImplementedError(f"`{op.name}` of an interval has no bounds yet: add it to RULES")
        bounds = [a._value if type(a) is Interval and a.level is self.level else (a, a) for a in args]
        low, high = RULES[op.name](*bounds, **params)
        return Interval(low - 4e-16 * abs(low), high + 4e-16 * abs(high), self.level)  # rounding is outwards


def f(x):
    return np.sin(3 * x) * np.exp(x / -4) - x / 5


def main():
    boxes, roots = [(-1.0, 6.0)], []
    while boxes:
        middle = sum(box := boxes.pop()) / 2
        with Level("intervals") as level:
            value, slope = da.jvp(f, (Interval(*box, level),), (1.0,))
            left, right = (middle - f(Interval(middle, middle, level)) / slope)._value
        if box[0] < left and right < box[1]:  # exactly one root is in the box, and it is between left and right
            (roots if right - left < 1e-12 else boxes).append((left, right))
        elif value._value[0] <= 0 <= value._value[1] and left <= box[1] and box[0] <= right:  # there may be some
            boxes += [(box[0], middle + 1e-3), (middle + 1e-3, box[1])]
    print(f"f has exactly {len(roots)} roots between -1 and 6, one in each of")
    print(*[f"    [{a:.14f}, {b:.14f}]" for a, b in sorted(roots)], sep="\n")
    return sorted(roots)


if __name__ == "__main__":
    main()
